// RUN: attn-opt %s --convert-tile-to-vector=target=cpu-avx512 -split-input-file -verify-diagnostics

!in = memref<?x24xf32, strided<[?, 1]>>
tile.kernel @columns(%Q: !in, %block: index) {
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{expected tiles of 1 column or a multiple of 16 columns on the CPU, but got 24}}
  %q = tile.load %Q[%block, %c0] : !in -> !tile.tile<32x24xf32>
  tile.store %q, %Q[%block, %c0] : !tile.tile<32x24xf32>, !in
  tile.return
}

// -----

tile.kernel @nested(%m: memref<?x16xf32, strided<[?, 1]>>, %flag: i1, %block: index) {
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
  tile.return
}

// -----

tile.kernel @store_in_body(%m: memref<?x16xf32, strided<[?, 1]>>, %a: memref<?xf32>, %block: index) {
  %c0 = arith.constant 0 : index
  %t = tile.map {
  ^bb0(%r: i32, %c: i32):
    %x = arith.sitofp %c : i32 to f32
    // expected-error @+1 {{expected an elementwise operation or a memref.load in a tile body}}
    memref.store %x, %a[%c0] : memref<?xf32>
    tile.yield %x : f32
  } -> !tile.tile<16x16xf32>
  tile.store %t, %m[%block, %c0] : !tile.tile<16x16xf32>, memref<?x16xf32, strided<[?, 1]>>
  tile.return
}

// -----

tile.kernel @memref_by_lane(%m: memref<?x16xf32, strided<[?, 1]>>, %a: memref<4xf32>, %b: memref<4xf32>, %block: index) {
  %c0 = arith.constant 0 : index
  %t = tile.map {
  ^bb0(%r: i32, %c: i32):
    %p = arith.cmpi eq, %r, %c : i32
    %q = arith.select %p, %a, %b : memref<4xf32>
    // expected-error @+1 {{expected the memref to be the same in every lane}}
    %x = memref.load %q[%c0] : memref<4xf32>
    tile.yield %x : f32
  } -> !tile.tile<16x16xf32>
  tile.store %t, %m[%block, %c0] : !tile.tile<16x16xf32>, memref<?x16xf32, strided<[?, 1]>>
  tile.return
}

// -----

tile.kernel @right_operand(%m: memref<?x16xf32, strided<[?, 1]>>, %block: index) {
  %c0 = arith.constant 0 : index
  %z = arith.constant 0.0 : bf16
  %a = tile.fill %z : bf16 -> !tile.tile<16x16xbf16>
  // expected-error @+1 {{expected the right operand of tile.dot to be of f32, or a tile.load}}
  %d = tile.dot %a, %a : !tile.tile<16x16xbf16>, !tile.tile<16x16xbf16> -> !tile.tile<16x16xf32>
  tile.store %d, %m[%block, %c0] : !tile.tile<16x16xf32>, memref<?x16xf32, strided<[?, 1]>>
  tile.return
}

// -----

tile.kernel @fold_state(%m: memref<?x16xf32, strided<[?, 1]>>, %block: index) {
  %c0 = arith.constant 0 : index
  %z = arith.constant 0.0 : f32
  %s = tile.fill %z : f32 -> !tile.tile<16x32xf32>
  %v = tile.fill %z : f32 -> !tile.tile<32x16xf32>
  %l = tile.fill %z : f32 -> !tile.tile<16x1xf32>
  %o = tile.fill %z : f32 -> !tile.tile<16x16xf32>
  // expected-error @+1 {{expected the state of one column, number 0, not to depend on the values}}
  %r:2 = tile.fold scores(%s : !tile.tile<16x32xf32>) values(%v : !tile.tile<32x16xf32>) states(%l, %o : !tile.tile<16x1xf32>, !tile.tile<16x16xf32>) {
  ^bb0(%i: i32, %j: i32, %x: f32, %y: f32, %a: f32, %b: f32):
    tile.yield %y, %b : f32, f32
  } -> !tile.tile<16x1xf32>, !tile.tile<16x16xf32>
  tile.store %r#1, %m[%block, %c0] : !tile.tile<16x16xf32>, memref<?x16xf32, strided<[?, 1]>>
  tile.return
}

// -----

tile.kernel @load_columns(%m: memref<?x16xf32, strided<[?, 1]>>, %a: memref<?x?xf32, strided<[?, 1]>>, %block: index) {
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{expected the columns of the tensor to be static}}
  %t = tile.load %a[%c0, %c0] : memref<?x?xf32, strided<[?, 1]>> -> !tile.tile<16x16xf32>
  tile.store %t, %m[%block, %c0] : !tile.tile<16x16xf32>, memref<?x16xf32, strided<[?, 1]>>
  tile.return
}

// -----

tile.kernel @stored_argument(%m: memref<?x16xf32, strided<[?, 1]>>, %t: !tile.tile<16x16xf32>, %block: index) {
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{expected operand 0 to be stored in rows}}
  tile.store %t, %m[%block, %c0] : !tile.tile<16x16xf32>, memref<?x16xf32, strided<[?, 1]>>
  tile.return
}

// -----

tile.kernel @selected_tile(%m: memref<?x16xf32, strided<[?, 1]>>, %p: i1, %block: index) {
  %c0 = arith.constant 0 : index
  %z = arith.constant 0.0 : f32
  %t = tile.fill %z : f32 -> !tile.tile<16x16xf32>
  // expected-error @+1 {{expected tiles to be used by tile ops, scf.for and scf.if only}}
  %u = arith.select %p, %t, %t : !tile.tile<16x16xf32>
  tile.store %u, %m[%block, %c0] : !tile.tile<16x16xf32>, memref<?x16xf32, strided<[?, 1]>>
  tile.return
}

// -----

tile.kernel @words(%m: memref<?x16xf32, strided<[?, 1]>>, %block: index) {
  %no = arith.constant false
  %t = tile.fill %no : i1 -> !tile.tile<16x1xi1>
  // expected-error @+1 {{expected tiles to be used by tile ops, scf.for and scf.if only}}
  %w = tile.bits %t : !tile.tile<16x1xi1>
  tile.return
}

// -----

tile.kernel @in_while(%m: memref<?x16xf32, strided<[?, 1]>>, %p: i1, %block: index) {
  %c0 = arith.constant 0 : index
  %z = arith.constant 0.0 : f32
  // expected-error @+1 {{expected tile ops in scf.for and scf.if only}}
  scf.while : () -> () {
    %t = tile.fill %z : f32 -> !tile.tile<16x16xf32>
    tile.store %t, %m[%block, %c0] : !tile.tile<16x16xf32>, memref<?x16xf32, strided<[?, 1]>>
    scf.condition(%p)
  } do {
    scf.yield
  }
  tile.return
}

// -----

tile.kernel @nested_columns(%m: memref<?x16xf32, strided<[?, 1]>>, %a: memref<?x24xf32, strided<[?, 1]>>, %block: index) {
  %c0 = arith.constant 0 : index
  scf.for %i = %c0 to %block step %block {
    // expected-error @+1 {{expected tiles of 1 column or a multiple of 16 columns on the CPU, but got 24}}
    %t = tile.load %a[%c0, %c0] : memref<?x24xf32, strided<[?, 1]>> -> !tile.tile<16x24xf32>
    tile.store %t, %a[%block, %c0] : !tile.tile<16x24xf32>, memref<?x24xf32, strided<[?, 1]>>
  }
  tile.return
}

// -----

// expected-error @+1 {{expected a tile kernel of one block}}
tile.kernel @blocks(%block: index) {
  cf.br ^bb1
^bb1:
  tile.return
}
