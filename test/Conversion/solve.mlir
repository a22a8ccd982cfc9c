// What the delta rule of scans stands on, on CPUs: systems solved by substitution,
// and right operands of products that are computed.
// RUN: attn-opt %s --convert-tile-to-vector=target=cpu-avx512 | FileCheck %s

!in = memref<?x64xf32, strided<[?, 1]>>

// CHECK-LABEL: tile.kernel @solve
tile.kernel @solve(%L: memref<?x16xf32, strided<[?, 1]>>, %Z: !in, %Y: !in, %n: index, %block: index) {
  %c0 = arith.constant 0 : index
  %l = tile.load %L[%block, %c0] rows(%c0 to %n) : memref<?x16xf32, strided<[?, 1]>> -> !tile.tile<16x16xf32>
  %z = tile.load %Z[%block, %c0] rows(%c0 to %n) : !in -> !tile.tile<16x64xf32>
  // Four vectors of a row side by side, less those of the rows before.
  // CHECK: scf.for %[[ROW:.*]] = %c0{{.*}} to %c16
  // CHECK: %{{.*}}:4 = scf.for %[[J:.*]] = %c0{{.*}} to %[[ROW]] step
  // CHECK: memref.load %{{.*}}[%[[ROW]], %[[J]]] : memref<16x16xf32>
  // CHECK: arith.negf
  // CHECK-COUNT-4: math.fma {{.*}} : vector<16xf32>
  // CHECK-COUNT-4: vector.store
  %y = tile.solve %l, %z : !tile.tile<16x16xf32>, !tile.tile<16x64xf32> -> !tile.tile<16x64xf32>
  tile.store %y, %Y[%block, %c0] : !tile.tile<16x64xf32>, !in
  tile.return
}

// A right operand that is computed is packed where it is made: transposed by
// shuffles for a product with its rows.
// CHECK-LABEL: tile.kernel @computed
tile.kernel @computed(%X: !in, %Y: !in, %n: index, %block: index) {
  %c0 = arith.constant 0 : index
  %x = tile.load %X[%block, %c0] rows(%c0 to %n) : !in -> !tile.tile<64x64xf32>
  // CHECK: arith.mulf
  // CHECK: vector.shuffle
  // CHECK: vector.store %{{.*}} : memref<4096xf32>
  // CHECK: math.fma
  %s = tile.map ins(%x : !tile.tile<64x64xf32>) {
  ^bb0(%r: i32, %c: i32, %v: f32):
    %e = arith.mulf %v, %v : f32
    tile.yield %e : f32
  } -> !tile.tile<64x64xf32>
  %d = tile.dot %x, %s transpose_rhs : !tile.tile<64x64xf32>, !tile.tile<64x64xf32> -> !tile.tile<64x64xf32>
  tile.store %d, %Y[%block, %c0] : !tile.tile<64x64xf32>, !in
  tile.return
}
