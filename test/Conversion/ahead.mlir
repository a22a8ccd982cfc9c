// RUN: attn-opt %s --convert-tile-to-vector=target=cpu-avx512 | FileCheck %s

!rows = memref<?x128xf32, strided<[?, 1]>>

// What is asked for ahead comes while the product behind it is computed: of 16
// rows of 8 lines each of its 16 blocks of sums asks for 8 lines.
// CHECK-LABEL: tile.kernel private @product(
// CHECK-NOT:     memref.prefetch
// CHECK:         scf.for %[[COL:.*]] = %c0 to %c128 step %c64
// CHECK:           scf.for %[[ROW:.*]] = %c0 to %c32 step %c4
// CHECK-DAG:         %[[STRIP:.*]] = arith.divui %[[COL]], %c64
// CHECK-DAG:         %[[BLOCK:.*]] = arith.divui %[[ROW]], %c4
// CHECK-COUNT-8:     memref.prefetch %arg0[%{{.*}}, %{{.*}}], read, locality<3>, data
// CHECK-NOT:         memref.prefetch
// CHECK:             scf.for
// CHECK:               math.fma
tile.kernel private @product(%x: !rows, %at: index, %o: !rows, %block: index) {
  %c0 = arith.constant 0 : index
  %a = tile.load %o[%c0, %c0] : !rows -> !tile.tile<32x128xf32>
  %b = tile.load %x[%c0, %c0] : !rows -> !tile.tile<128x128xf32>
  tile.prefetch %x[%at, %c0] rows(16) columns(128) : !rows
  %sum = tile.dot %a, %b : !tile.tile<32x128xf32>, !tile.tile<128x128xf32> -> !tile.tile<32x128xf32>
  tile.store %sum, %o[%c0, %c0] : !tile.tile<32x128xf32>, !rows
  tile.return
}

// Nothing to hide it behind: nothing is asked for, by no other block either.
// CHECK-LABEL: tile.kernel private @none(
// CHECK-NOT:     memref.prefetch
tile.kernel private @none(%x: !rows, %n: index, %o: !rows, %block: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %a = tile.load %o[%c0, %c0] : !rows -> !tile.tile<32x128xf32>
  %b = tile.load %x[%c0, %c0] : !rows -> !tile.tile<128x128xf32>
  scf.for %i = %c0 to %n step %c1 {
    tile.prefetch %x[%i, %c0] rows(16) columns(128) : !rows
  }
  %sum = tile.dot %a, %b : !tile.tile<32x128xf32>, !tile.tile<128x128xf32> -> !tile.tile<32x128xf32>
  tile.store %sum, %o[%c0, %c0] : !tile.tile<32x128xf32>, !rows
  tile.return
}

// A state that a loop carries is not packed for the products that read it: it
// lies in rows with a vector between them.
// CHECK-LABEL: tile.kernel private @state(
// CHECK:         %[[STATE:.*]] = memref.subview %{{.*}}[0, 0] [128, 128] [1, 1] : memref<128x144xf32> to memref<128x128xf32, strided<[144, 1]>>
// CHECK:         scf.for
// CHECK:           scf.for %{{.*}} = %c0 to %c128 step %c64
// CHECK:             scf.for %{{.*}} = %c0 to %c32 step %c4
// CHECK:               scf.for %[[K:.*]] = %c0 to %c128 step %c1
// CHECK:                 vector.load %[[STATE]][%[[K]], %{{.*}}]
tile.kernel private @state(%x: !rows, %n: index, %o: !rows, %block: index) {
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %zero = arith.constant 0.0 : f32
  %none = tile.fill %zero : f32 -> !tile.tile<128x128xf32>
  %last = scf.for %i = %c0 to %n step %c32 iter_args(%state = %none) -> (!tile.tile<128x128xf32>) {
    %a = tile.load %x[%i, %c0] rows(%c0 to %n) : !rows -> !tile.tile<32x128xf32>
    %sum = tile.dot %a, %state : !tile.tile<32x128xf32>, !tile.tile<128x128xf32> -> !tile.tile<32x128xf32>
    tile.store %sum, %o[%i, %c0] rows(%c0 to %n) : !tile.tile<32x128xf32>, !rows
    %next = tile.dot %a, %a acc %state transpose_lhs : !tile.tile<32x128xf32>, !tile.tile<32x128xf32> -> !tile.tile<128x128xf32>
    scf.yield %next : !tile.tile<128x128xf32>
  }
  tile.store %last, %o[%c0, %c0] : !tile.tile<128x128xf32>, !rows
  tile.return
}
