// RUN: attn-opt %s --convert-tile-to-vector=target=cpu-avx512 --canonicalize --cse | FileCheck %s
// RUN: attn-opt %s --convert-tile-to-vector=target=cpu-avx512-bf16 --canonicalize --cse | FileCheck %s --check-prefix=BF16

!rows = memref<?x128xf32, strided<[?, 1]>>
!square = memref<?x32xf32, strided<[?, 1]>>

// Whoever reads the products selects 0 right of the diagonal: the first 16 rows have
// sums of 16 columns, the others those of all 32, and what is left is 0. Weights have
// no terms there: a block of 4 rows has those up to its last one.

// CHECK-LABEL: tile.kernel private @weights(
// CHECK:         %{{.*}}:16 = scf.for {{.*}} = %c0 to %c128 step %c1 iter_args(
// CHECK:         scf.for %[[ROW:.*]] = %c0 to %c16 step %c1 {
// CHECK-NEXT:      vector.store %cst{{.*}}[%[[ROW]], %c16]
// CHECK:         scf.for {{.*}} = %c0 to %c16 step %c8 {
// CHECK:           %{{.*}}:16 = scf.for {{.*}} = %c0 to %c128 step %c1 iter_args(
// CHECK:         scf.for {{.*}} = %c0 to %c128 step %c64 {
// CHECK:           scf.for %[[BLOCK:.*]] = %c0 to %c32 step %c4 {
// CHECK:             %[[END:.*]] = arith.addi %[[BLOCK]], %c4
// CHECK:             scf.for {{.*}} = %c0 to %[[END]] step %c1 iter_args(

// Products of bf16 likewise, two terms at a time, of weights that are rounded.

// BF16-LABEL: tile.kernel private @rounded(
// BF16:         %{{.*}}:16 = scf.for {{.*}} = %c0 to %c128 step %c2 iter_args(
// BF16-COUNT-16:  dpbf16ps
// BF16:         scf.for %[[ROW:.*]] = %c0 to %c16 step %c1 {
// BF16-NEXT:      vector.store %cst{{.*}}[%[[ROW]], %c16]
// BF16:         scf.for {{.*}} = %c0 to %c16 step %c8 {
// BF16:         scf.for %[[BLOCK:.*]] = %c0 to %c32 step %c4 {
// BF16:           %[[END:.*]] = arith.addi %[[BLOCK]], %c4
// BF16:           scf.for {{.*}} = %c0 to %[[END]] step %c2 iter_args(
tile.kernel private @weights(%x: !rows, %y: !rows, %o: !rows, %block: index) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %q = tile.load %x[%c0, %c0] : !rows -> !tile.tile<32x128xf32>
  %k = tile.load %y[%c0, %c0] : !rows -> !tile.tile<32x128xf32>
  %s = tile.dot %q, %k transpose_rhs : !tile.tile<32x128xf32>, !tile.tile<32x128xf32> -> !tile.tile<32x32xf32>
  %w = tile.map ins(%s : !tile.tile<32x32xf32>) {
  ^bb0(%r: i32, %c: i32, %e: f32):
    %isUpTo = arith.cmpi sle, %c, %r : i32
    %f = arith.select %isUpTo, %e, %zero : f32
    tile.yield %f : f32
  } -> !tile.tile<32x32xf32>
  %sum = tile.dot %w, %k : !tile.tile<32x32xf32>, !tile.tile<32x128xf32> -> !tile.tile<32x128xf32>
  tile.store %sum, %o[%c0, %c0] : !tile.tile<32x128xf32>, !rows
  tile.return
}

!narrow = memref<?x128xbf16, strided<[?, 1]>>

tile.kernel private @rounded(%x: !narrow, %y: !narrow, %o: !rows, %block: index) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %q = tile.load %x[%c0, %c0] : !narrow -> !tile.tile<32x128xbf16>
  %k = tile.load %y[%c0, %c0] : !narrow -> !tile.tile<32x128xbf16>
  %s = tile.dot %q, %k transpose_rhs : !tile.tile<32x128xbf16>, !tile.tile<32x128xbf16> -> !tile.tile<32x32xf32>
  %w = tile.map ins(%s : !tile.tile<32x32xf32>) {
  ^bb0(%r: i32, %c: i32, %e: f32):
    %isUpTo = arith.cmpi sgt, %r, %c : i32
    %f = arith.select %isUpTo, %e, %zero : f32
    tile.yield %f : f32
  } -> !tile.tile<32x32xf32>
  %p = tile.map ins(%w : !tile.tile<32x32xf32>) {
  ^bb0(%r: i32, %c: i32, %e: f32):
    %f = arith.truncf %e : f32 to bf16
    tile.yield %f : bf16
  } -> !tile.tile<32x32xbf16>
  %sum = tile.dot %p, %k : !tile.tile<32x32xbf16>, !tile.tile<32x128xbf16> -> !tile.tile<32x128xf32>
  tile.store %sum, %o[%c0, %c0] : !tile.tile<32x128xf32>, !rows
  tile.return
}

// Another reader wants all of it, and weights that are given are whatever they are.
// CHECK-LABEL: tile.kernel private @all(
// CHECK:         scf.for {{.*}} = %c0 to %c32 step %c4 {
// CHECK:           %{{.*}}:8 = scf.for {{.*}} = %c0 to %c128 step %c1 iter_args(
// CHECK:         scf.for {{.*}} = %c0 to %c32 step %c4 {
// CHECK:           %{{.*}}:16 = scf.for {{.*}} = %c0 to %c32 step %c1 iter_args(
tile.kernel private @all(%x: !rows, %y: !rows, %o: !rows, %p: !square, %block: index) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %q = tile.load %x[%c0, %c0] : !rows -> !tile.tile<32x128xf32>
  %k = tile.load %y[%c0, %c0] : !rows -> !tile.tile<32x128xf32>
  %s = tile.dot %q, %k transpose_rhs : !tile.tile<32x128xf32>, !tile.tile<32x128xf32> -> !tile.tile<32x32xf32>
  %w = tile.map ins(%s : !tile.tile<32x32xf32>) {
  ^bb0(%r: i32, %c: i32, %e: f32):
    %isUpTo = arith.cmpi sge, %c, %r : i32
    %f = arith.select %isUpTo, %e, %zero : f32
    tile.yield %f : f32
  } -> !tile.tile<32x32xf32>
  tile.store %s, %p[%c0, %c0] : !tile.tile<32x32xf32>, !square
  %sum = tile.dot %w, %k : !tile.tile<32x32xf32>, !tile.tile<32x128xf32> -> !tile.tile<32x128xf32>
  tile.store %sum, %o[%c0, %c0] : !tile.tile<32x128xf32>, !rows
  tile.return
}

// Sums of gates between two tokens, from the right, and their exponentials have
// no vectors right of the diagonal either: the readers of both select 0 there.

// CHECK-LABEL: tile.kernel private @gates(
// CHECK:         arith.select
// CHECK:         scf.for %[[ROW:.*]] = %c0 to %c32 step %c1 {
// CHECK-NEXT:      %[[VECTOR:.*]] = arith.divui %[[ROW]], %c16
// CHECK-NEXT:      %[[BEFORE:.*]] = arith.muli %[[VECTOR]], %c16
// CHECK-NEXT:      %[[END:.*]] = arith.addi %[[BEFORE]], %c16
// CHECK-NEXT:      {{.*}}scf.for %[[COL:.*]] = %c0 to %[[END]] step %c16 iter_args(
// CHECK-NEXT:        arith.subi %[[BEFORE]], %[[COL]]
// CHECK:           %[[END:.*]] = arith.addi %{{.*}}, %c16
// CHECK-NEXT:      scf.for {{.*}} = %c0 to %[[END]] step %c16 {
// CHECK:             math.exp
// What stores read has whole rows.
// CHECK:         scf.for %{{.*}} = %c0 to %c32 step %c1 {
// CHECK-NEXT:      arith.index_cast
// CHECK-NOT:       scf.for
// CHECK-COUNT-2:   arith.select
tile.kernel private @gates(%g: !square, %o: !square, %block: index) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %x = tile.load %g[%c0, %c0] : !square -> !tile.tile<32x32xf32>
  %own = tile.map ins(%x : !tile.tile<32x32xf32>) {
  ^bb0(%r: i32, %c: i32, %e: f32):
    %live = arith.cmpi sle, %c, %r : i32
    %y = arith.select %live, %e, %zero : f32
    tile.yield %y : f32
  } -> !tile.tile<32x32xf32>
  %sums = tile.scan reverse ins(%own : !tile.tile<32x32xf32>) identity(%zero : f32) {
  ^bb0(%a: f32, %b: f32):
    %y = arith.addf %a, %b : f32
    tile.yield %y : f32
  } -> !tile.tile<32x32xf32>
  %weights = tile.map ins(%sums : !tile.tile<32x32xf32>) {
  ^bb0(%r: i32, %c: i32, %e: f32):
    %y = math.exp %e : f32
    tile.yield %y : f32
  } -> !tile.tile<32x32xf32>
  %lower = tile.map ins(%weights : !tile.tile<32x32xf32>) {
  ^bb0(%r: i32, %c: i32, %e: f32):
    %live = arith.cmpi sle, %c, %r : i32
    %y = arith.select %live, %e, %zero : f32
    tile.yield %y : f32
  } -> !tile.tile<32x32xf32>
  tile.store %lower, %o[%c0, %c0] : !tile.tile<32x32xf32>, !square
  tile.return
}

// Gates of one row: sums from the right are those of the row above and one term
// more, in registers, in blocks of 16 rows; the map of them runs in the same loop,
// and the tile of terms is nowhere. Sums of rows are prefixes of that row, and
// what is behind each token.

// CHECK-LABEL: tile.kernel private @prefixes(
// CHECK:         %[[FIRST:.*]] = scf.for %{{.*}} = %c0 to %c16 step %c1 iter_args(%[[SUM:.*]] = %cst{{.*}}) -> (vector<16xf32>) {
// CHECK:           %[[NEXT:.*]] = arith.addf %[[SUM]],
// CHECK:           %[[OWN:.*]] = arith.select %{{.*}}, %[[NEXT]], %cst
// CHECK-NOT:       scf.for
// CHECK:           math.exp %[[OWN]]
// CHECK:           scf.yield %[[OWN]]
// CHECK:         scf.for %{{.*}} = %c0 to %c16 step %c1 iter_args(%{{.*}} = %[[FIRST]], %{{.*}} = %cst{{.*}}) -> (vector<16xf32>, vector<16xf32>) {
// CHECK-COUNT-2:   math.exp
// CHECK-COUNT-8: vector.shuffle
// CHECK-COUNT-10: vector.shuffle
// CHECK-NOT:     vector.shuffle
tile.kernel private @prefixes(%g: !square, %o: !square, %p: memref<?xf32>, %block: index) {
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %zero = arith.constant 0.0 : f32
  %x = tile.load %g[%c0, %c0] : !square -> !tile.tile<1x32xf32>
  %own = tile.map ins(%x : !tile.tile<1x32xf32>) {
  ^bb0(%r: i32, %c: i32, %e: f32):
    %live = arith.cmpi sle, %c, %r : i32
    %y = arith.select %live, %e, %zero : f32
    tile.yield %y : f32
  } -> !tile.tile<32x32xf32>
  %sums = tile.scan reverse ins(%own : !tile.tile<32x32xf32>) identity(%zero : f32) {
  ^bb0(%a: f32, %b: f32):
    %y = arith.addf %a, %b : f32
    tile.yield %y : f32
  } -> !tile.tile<32x32xf32>
  %weights = tile.map ins(%sums : !tile.tile<32x32xf32>) {
  ^bb0(%r: i32, %c: i32, %e: f32):
    %y = math.exp %e : f32
    tile.yield %y : f32
  } -> !tile.tile<32x32xf32>
  %upTo = tile.reduce ins(%own : !tile.tile<32x32xf32>) identity(%zero : f32) {
  ^bb0(%a: f32, %b: f32):
    %y = arith.addf %a, %b : f32
    tile.yield %y : f32
  } -> !tile.tile<32x1xf32>
  %later = tile.map ins(%x : !tile.tile<1x32xf32>) {
  ^bb0(%r: i32, %c: i32, %e: f32):
    %live = arith.cmpi sgt, %c, %r : i32
    %y = arith.select %live, %e, %zero : f32
    tile.yield %y : f32
  } -> !tile.tile<32x32xf32>
  %behind = tile.reduce ins(%later : !tile.tile<32x32xf32>) identity(%zero : f32) {
  ^bb0(%a: f32, %b: f32):
    %y = arith.addf %a, %b : f32
    tile.yield %y : f32
  } -> !tile.tile<32x1xf32>
  %lower = tile.map ins(%weights : !tile.tile<32x32xf32>) {
  ^bb0(%r: i32, %c: i32, %e: f32):
    %live = arith.cmpi sle, %c, %r : i32
    %y = arith.select %live, %e, %zero : f32
    tile.yield %y : f32
  } -> !tile.tile<32x32xf32>
  tile.store %lower, %o[%c0, %c0] : !tile.tile<32x32xf32>, !square
  tile.store vector %upTo, %p[%c0] : !tile.tile<32x1xf32>, memref<?xf32>
  tile.store vector %behind, %p[%c32] : !tile.tile<32x1xf32>, memref<?xf32>
  tile.return
}
