// RUN: attn-opt %s --convert-tile-to-vector=target=cpu-avx512 -split-input-file -verify-diagnostics

!in = memref<?x24xf32, strided<[?, 1]>>
func.func @columns(%Q: !in, %block: index) attributes {tile.kernel} {
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{expected tiles of 1 column or a multiple of 16 columns on the CPU, but got 24}}
  %q = tile.load %Q[%block, %c0] : !in -> !tile.tile<32x24xf32>
  tile.store %q, %Q[%block, %c0] : !tile.tile<32x24xf32>, !in
  return
}

// -----

func.func @nested(%m: memref<?x16xf32, strided<[?, 1]>>, %flag: i1, %block: index) attributes {tile.kernel} {
  %c0 = arith.constant 0 : index
  %t = tile.map {
  ^bb0(%r: i32, %c: i32):
    // expected-error @+1 {{expected a body without nested regions}}
    %x = scf.if %flag -> f32 {
      %a = arith.constant 1.0 : f32
      scf.yield %a : f32
    } else {
      %b = arith.constant 2.0 : f32
      scf.yield %b : f32
    }
    tile.yield %x : f32
  } -> !tile.tile<16x16xf32>
  tile.store %t, %m[%block, %c0] : !tile.tile<16x16xf32>, memref<?x16xf32, strided<[?, 1]>>
  return
}
