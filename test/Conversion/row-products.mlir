// RUN: attn-opt %s --convert-tile-to-vector=target=cpu-avx2 | FileCheck %s

!rows = memref<?x64xf32, strided<[?, 1]>>
!pool = memref<?x?x?x64xbf16, strided<[?, ?, ?, 1]>>

// Few rows read keys and values where they are: two keys at a time with four
// rows, sixteen columns of each in a turn, which asks for as many lines as it
// reads; eight sums become one vector. Values are added four at a time to sums
// that are loaded once for them.
// CHECK-LABEL: tile.kernel private @few(
// CHECK-NOT:     memref<2048xf32>
// CHECK:         scf.for %[[KEY:.*]] = %c0 to %c32 step %c2 {
// CHECK:           %[[SUMS:.*]]:8 = scf.for %{{.*}} = %c0 to %c4 step %c1
// CHECK-COUNT-2:     memref.prefetch %arg1[
// CHECK-NOT:         memref.prefetch
// CHECK-COUNT-2:     vector.load %arg1[
// CHECK-COUNT-8:     math.fma
// CHECK-COUNT-2:     vector.load %arg1[
// CHECK-COUNT-8:     math.fma
// CHECK-NOT:         math.fma
// CHECK:             scf.yield
// CHECK-COUNT-7:   arith.addf
// CHECK:           vector.extract_strided_slice %{{.*}} {offsets = [0], sizes = [2]
// CHECK:           vector.store %{{.*}}, %{{.*}}[%c0, %[[KEY]]]
// CHECK:           vector.extract_strided_slice %{{.*}} {offsets = [6], sizes = [2]
// CHECK:         scf.for %{{.*}} = %c0 to %c32 step %c4 {
// CHECK:           scf.for %{{.*}} = %c0 to %c4 step %c1 {
// CHECK-COUNT-4:     memref.prefetch %arg2[
// CHECK-COUNT-2:     vector.load %arg2[
// CHECK-COUNT-8:     math.fma
// CHECK-COUNT-6:     vector.load %arg2[
tile.kernel private @few(%q: !rows, %k: !rows, %v: !rows, %o: !rows, %block: index) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %a = tile.load %q[%c0, %c0] : !rows -> !tile.tile<4x64xf32>
  %none = tile.fill %zero : f32 -> !tile.tile<4x64xf32>
  %b = tile.load %k[%block, %c0] : !rows -> !tile.tile<32x64xf32>
  %c = tile.load %v[%block, %c0] : !rows -> !tile.tile<32x64xf32>
  %sum = tile.rows 4 ins(%a : !tile.tile<4x64xf32>) outs(%none : !tile.tile<4x64xf32>) {
  ^bb0(%row: index, %x: !tile.tile<4x64xf32>, %old: !tile.tile<4x64xf32>):
    %s = tile.dot %x, %b transpose_rhs {tile.approximate}
        : !tile.tile<4x64xf32>, !tile.tile<32x64xf32> -> !tile.tile<4x32xf32>
    %new = tile.dot %s, %c acc %old
        : !tile.tile<4x32xf32>, !tile.tile<32x64xf32> -> !tile.tile<4x64xf32>
    tile.yield %new : !tile.tile<4x64xf32>
  } -> !tile.tile<4x64xf32>
  tile.store %sum, %o[%c0, %c0] : !tile.tile<4x64xf32>, !rows
  tile.return
}

// Pages are looked up once for rows that are behind each other in one of them,
// and once for what is asked for; else for each row.
// CHECK-LABEL: tile.kernel private @pages(
// CHECK:         scf.for %{{.*}} = %c0 to %c32 step %c4 {
// CHECK-COUNT-1:   arith.divui
// CHECK-NOT:       arith.divui
// CHECK:           scf.if %{{.*}} {
// CHECK-COUNT-1:     arith.remui
// CHECK-NOT:         arith.remui
// CHECK:             scf.for
// CHECK:             memref.prefetch %arg1
// CHECK:           } else {
// CHECK:             memref.load %arg2
// CHECK-NOT:         memref.prefetch
// CHECK:         tile.return
tile.kernel private @pages(%q: !rows, %k: !pool, %table: memref<?x?xi32, strided<[?, 1]>>,
    %o: !rows, %n: index, %block: index) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %none = tile.fill %zero : f32 -> !tile.tile<1x64xf32>
  %source = tile.source %k paged(%table : memref<?x?xi32, strided<[?, 1]>>)
      : !pool -> <?x?x?x64xbf16>
  %a = tile.load %q[%c0, %c0] : !rows -> !tile.tile<1x32xf32>
  %c = tile.load %source[%c0, %c0, %block, %c0] rows(%c0 to %n)
      : !tile.source<?x?x?x64xbf16> -> !tile.tile<32x64xf32>
  %sum = tile.rows 1 ins(%a : !tile.tile<1x32xf32>) outs(%none : !tile.tile<1x64xf32>) {
  ^bb0(%row: index, %x: !tile.tile<1x32xf32>, %old: !tile.tile<1x64xf32>):
    %new = tile.dot %x, %c acc %old
        : !tile.tile<1x32xf32>, !tile.tile<32x64xf32> -> !tile.tile<1x64xf32>
    tile.yield %new : !tile.tile<1x64xf32>
  } -> !tile.tile<1x64xf32>
  tile.store %sum, %o[%c0, %c0] : !tile.tile<1x64xf32>, !rows
  tile.return
}

// Sums that have an order, and keys that are written over before they are read,
// are packed as ever.
// CHECK-LABEL: tile.kernel private @packed(
// CHECK-COUNT-2: memref<2048xf32>
// CHECK-NOT:     memref.prefetch
tile.kernel private @packed(%q: !rows, %k: !rows, %o: !rows, %block: index) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %a = tile.load %q[%c0, %c0] : !rows -> !tile.tile<4x64xf32>
  %none = tile.fill %zero : f32 -> !tile.tile<4x32xf32>
  %b = tile.load %k[%block, %c0] : !rows -> !tile.tile<32x64xf32>
  %c = tile.load %k[%block, %c0] : !rows -> !tile.tile<32x64xf32>
  %ordered = tile.rows 4 ins(%a : !tile.tile<4x64xf32>) outs(%none : !tile.tile<4x32xf32>) {
  ^bb0(%row: index, %x: !tile.tile<4x64xf32>, %old: !tile.tile<4x32xf32>):
    %s = tile.dot %x, %b transpose_rhs
        : !tile.tile<4x64xf32>, !tile.tile<32x64xf32> -> !tile.tile<4x32xf32>
    tile.yield %s : !tile.tile<4x32xf32>
  } -> !tile.tile<4x32xf32>
  tile.store %a, %k[%c0, %c0] : !tile.tile<4x64xf32>, !rows
  %late = tile.rows 4 ins(%a : !tile.tile<4x64xf32>) outs(%ordered : !tile.tile<4x32xf32>) {
  ^bb0(%row: index, %x: !tile.tile<4x64xf32>, %old: !tile.tile<4x32xf32>):
    %s = tile.dot %x, %c transpose_rhs {tile.approximate}
        : !tile.tile<4x64xf32>, !tile.tile<32x64xf32> -> !tile.tile<4x32xf32>
    tile.yield %s : !tile.tile<4x32xf32>
  } -> !tile.tile<4x32xf32>
  tile.store %late, %o[%c0, %c0] : !tile.tile<4x32xf32>, !rows
  tile.return
}
