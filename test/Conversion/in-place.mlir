// RUN: attn-opt %s --convert-tile-to-vector="target=cpu-avx512" | FileCheck %s

!s = memref<?x64x128xf32, strided<[?, ?, 1]>>
!v = memref<?x128xf32, strided<[?, 1]>>

// A tile that products alone read, and that a store brings back to where it was, is
// changed in memory: no copy of it is in scratch, and no store is left of it. What a
// row of queries makes of its rows is summed up in the same walk.
// CHECK-LABEL: tile.kernel private @step(
// CHECK:         %[[OLD:.*]] = memref.subview %arg0[%arg2, %c0{{.*}}, %c0{{.*}}] [1, 16, 128] [1, 1, 1]
// CHECK:         %[[SUMS:.*]]:8 = scf.for %[[ROW:.*]] = %c0{{.*}} to %c16{{.*}} iter_args(%[[SUM:[a-z0-9]+]] =
// CHECK:           %[[NEW:.*]] = math.fma
// CHECK:           vector.store %[[NEW]], %[[OLD]][%[[ROW]],
// CHECK:           math.fma %{{.*}}, %[[NEW]], %[[SUM]]
// CHECK:         vector.store %[[SUMS]]#0,
// CHECK-NOT:     %arg0
tile.kernel private @step(%s: !s, %v: !v, %block: index) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %none = tile.fill %zero : f32 -> !tile.tile<1x128xf32>
  %k = tile.load %v[%block, %c0] : !v -> !tile.tile<1x16xf32>
  %w = tile.load %v[%block, %c0] : !v -> !tile.tile<1x128xf32>
  %old = tile.load %s[%block, %c0, %c0] : !s -> !tile.tile<16x128xf32>
  %new = tile.dot %k, %w acc %old transpose_lhs : !tile.tile<1x16xf32>, !tile.tile<1x128xf32>
      -> !tile.tile<16x128xf32>
  %o = tile.dot %k, %new acc %none : !tile.tile<1x16xf32>, !tile.tile<16x128xf32>
      -> !tile.tile<1x128xf32>
  tile.store %new, %s[%block, %c0, %c0] : !tile.tile<16x128xf32>, !s
  tile.store %o, %v[%block, %c0] : !tile.tile<1x128xf32>, !v
  tile.return
}

// Where it goes elsewhere, memory that was read stays as it was.
// CHECK-LABEL: tile.kernel private @elsewhere(
// CHECK:         %[[OLD:.*]] = memref.subview %arg0
// CHECK-NOT:     vector.store %{{.*}}, %[[OLD]]
// CHECK:         vector.store %{{.*}}, %arg1
tile.kernel private @elsewhere(%s: !s, %to: !s, %v: !v, %block: index) {
  %c0 = arith.constant 0 : index
  %k = tile.load %v[%block, %c0] : !v -> !tile.tile<1x16xf32>
  %w = tile.load %v[%block, %c0] : !v -> !tile.tile<1x128xf32>
  %old = tile.load %s[%block, %c0, %c0] : !s -> !tile.tile<16x128xf32>
  %new = tile.dot %k, %w acc %old transpose_lhs : !tile.tile<1x16xf32>, !tile.tile<1x128xf32>
      -> !tile.tile<16x128xf32>
  tile.store %new, %to[%block, %c0, %c0] : !tile.tile<16x128xf32>, !s
  tile.return
}

// What is read again between the two is not changed too early.
// CHECK-LABEL: tile.kernel private @read_again(
// CHECK:         memref.subview %arg0
// CHECK:         %[[AGAIN:.*]] = memref.subview %arg0
// CHECK-NOT:     vector.store %{{.*}}, %[[AGAIN]]
// CHECK:         vector.store %{{.*}}, %arg0
tile.kernel private @read_again(%s: !s, %v: !v, %block: index) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %none = tile.fill %zero : f32 -> !tile.tile<1x128xf32>
  %k = tile.load %v[%block, %c0] : !v -> !tile.tile<1x16xf32>
  %w = tile.load %v[%block, %c0] : !v -> !tile.tile<1x128xf32>
  %old = tile.load %s[%block, %c0, %c0] : !s -> !tile.tile<16x128xf32>
  %new = tile.dot %k, %w acc %old transpose_lhs : !tile.tile<1x16xf32>, !tile.tile<1x128xf32>
      -> !tile.tile<16x128xf32>
  %same = tile.load %s[%block, %c0, %c0] : !s -> !tile.tile<16x128xf32>
  %o = tile.dot %k, %same acc %none : !tile.tile<1x16xf32>, !tile.tile<16x128xf32>
      -> !tile.tile<1x128xf32>
  tile.store %new, %s[%block, %c0, %c0] : !tile.tile<16x128xf32>, !s
  tile.store %o, %v[%block, %c0] : !tile.tile<1x128xf32>, !v
  tile.return
}

// Nor is what a store writes before it is read.
// CHECK-LABEL: tile.kernel private @written(
// CHECK-NOT:     memref.subview
tile.kernel private @written(%s: !s, %v: !v, %block: index) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %none = tile.fill %zero : f32 -> !tile.tile<1x128xf32>
  %many = tile.fill %zero : f32 -> !tile.tile<16x128xf32>
  %k = tile.load %v[%block, %c0] : !v -> !tile.tile<1x16xf32>
  %old = tile.load %s[%block, %c0, %c0] : !s -> !tile.tile<16x128xf32>
  tile.store %many, %s[%block, %c0, %c0] : !tile.tile<16x128xf32>, !s
  %o = tile.dot %k, %old acc %none : !tile.tile<1x16xf32>, !tile.tile<16x128xf32>
      -> !tile.tile<1x128xf32>
  tile.store %o, %v[%block, %c0] : !tile.tile<1x128xf32>, !v
  tile.return
}
