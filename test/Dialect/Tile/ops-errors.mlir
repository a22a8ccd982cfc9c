// RUN: attn-opt %s --split-input-file --verify-diagnostics

// Each function is named after the constraint of docs/Semantics.md that it
// breaks.

func.func @load_c1(%m: memref<?x?xf32, strided<[?, 1]>>, %i: index) {
  // expected-error@+1 {{expected one index for each dimension of the source, 2 or more, but got 1 for}}
  %t = tile.load %m[%i] : memref<?x?xf32, strided<[?, 1]>> -> !tile.tile<8x8xf32>
  return
}

// -----

func.func @load_c2(%m: memref<?x?xf32, strided<[1, ?]>>, %i: index) {
  // expected-error@+1 {{expected the source to have unit stride in its last dimension, but got}}
  %t = tile.load %m[%i, %i] : memref<?x?xf32, strided<[1, ?]>> -> !tile.tile<8x8xf32>
  return
}

// -----

func.func @load_c3(%m: memref<?x?xi32, strided<[?, 1]>>, %i: index) {
  // expected-error@+1 {{expected a tile of the source's element type 'i32', but got '!tile.tile<8x8xf32>'}}
  %t = tile.load %m[%i, %i] : memref<?x?xi32, strided<[?, 1]>> -> !tile.tile<8x8xf32>
  return
}

// -----

func.func @load_c4(%m: memref<?x?xf32, strided<[?, 1]>>, %i: index) {
  // expected-error@+1 {{expected a tile of one column for a vector, but got '!tile.tile<8x8xf32>'}}
  %t = tile.load vector %m[%i, %i] : memref<?x?xf32, strided<[?, 1]>> -> !tile.tile<8x8xf32>
  return
}

// -----

func.func @load_c6(%m: memref<?x?xf32, strided<[?, 1]>>, %i: index, %l: !tile.tile<8x1xi1>) {
  // expected-error@+1 {{expected live to be a 1x8 tile of i1, but got '!tile.tile<8x1xi1>'}}
  %t = tile.load %m[%i, %i] live %l : !tile.tile<8x1xi1> : memref<?x?xf32, strided<[?, 1]>> -> !tile.tile<8x8xf32>
  return
}

// -----

func.func @load_c4_transposed(%m: memref<?xf32, strided<[?]>>, %i: index) {
  // expected-error@+1 {{expected a tile of one row for a transposed vector, but got '!tile.tile<8x1xf32>'}}
  %t = tile.load vector transposed %m[%i] : memref<?xf32, strided<[?]>> -> !tile.tile<8x1xf32>
  return
}

// -----

func.func @load_c6_transposed(%m: memref<?x?xf32, strided<[?, 1]>>, %i: index, %l: !tile.tile<1x8xi1>) {
  // expected-error@+1 {{expected live to be a 1x16 tile of i1, but got '!tile.tile<1x8xi1>'}}
  %t = tile.load transposed %m[%i, %i] live %l : !tile.tile<1x8xi1> : memref<?x?xf32, strided<[?, 1]>> -> !tile.tile<8x16xf32>
  return
}

// -----

func.func @accumulate_c4(%m: memref<?x?xf32, strided<[?, 1]>>, %i: index, %t: !tile.tile<8x8xf32>) {
  // expected-error@+1 {{expected a tile of one column for a vector, but got '!tile.tile<8x8xf32>'}}
  tile.accumulate vector %t, %m[%i, %i] : !tile.tile<8x8xf32>, memref<?x?xf32, strided<[?, 1]>>
  return
}

// -----

func.func @accumulate_c7(%m: memref<?x?xbf16, strided<[?, 1]>>, %i: index, %t: !tile.tile<8x8xf32>) {
  // expected-error@+1 {{expected a tile and a destination of f32, but got '!tile.tile<8x8xf32>' and 'memref<?x?xbf16, strided<[?, 1]>>'}}
  tile.accumulate any_order %t, %m[%i, %i] : !tile.tile<8x8xf32>, memref<?x?xbf16, strided<[?, 1]>>
  return
}

// -----

func.func @store_c1(%m: memref<?x?xf32, strided<[?, 1]>>, %i: index, %t: !tile.tile<8x8xf32>) {
  // expected-error@+1 {{expected one index for each dimension of the destination, 2 or more, but got 3 for}}
  tile.store %t, %m[%i, %i, %i] : !tile.tile<8x8xf32>, memref<?x?xf32, strided<[?, 1]>>
  return
}

// -----

func.func @fill_c1(%x: f32) {
  // expected-error@+1 {{expected a tile of 'f32', but got '!tile.tile<8x8xbf16>'}}
  %t = tile.fill %x : f32 -> !tile.tile<8x8xbf16>
  return
}

// -----

func.func @dot_c1(%a: !tile.tile<8x16xf32>, %b: !tile.tile<16x4xbf16>) {
  // expected-error@+1 {{expected both sides to be of one float type, or the left one of bf16 and the right one of f32, but got}}
  %c = tile.dot %a, %b : !tile.tile<8x16xf32>, !tile.tile<16x4xbf16> -> !tile.tile<8x4xf32>
  return
}

// -----

func.func @dot_c2(%a: !tile.tile<8x16xf32>, %b: !tile.tile<16x4xf32>) {
  // expected-error@+1 {{expected the sides to share a dimension, but got '!tile.tile<8x16xf32>' and '!tile.tile<16x4xf32>' transposed}}
  %c = tile.dot %a, %b transpose_rhs : !tile.tile<8x16xf32>, !tile.tile<16x4xf32> -> !tile.tile<8x16xf32>
  return
}

// -----

func.func @dot_c2_transposed(%a: !tile.tile<8x16xf32>, %b: !tile.tile<16x4xf32>) {
  // expected-error@+1 {{expected the sides to share a dimension, but got '!tile.tile<8x16xf32>' transposed and '!tile.tile<16x4xf32>'}}
  %c = tile.dot %a, %b transpose_lhs : !tile.tile<8x16xf32>, !tile.tile<16x4xf32> -> !tile.tile<8x4xf32>
  return
}

// -----

func.func @dot_c3_transposed(%a: !tile.tile<16x8xf32>, %b: !tile.tile<16x4xf32>) {
  // expected-error@+1 {{expected a result of type '!tile.tile<8x4xf32>', but got '!tile.tile<16x4xf32>'}}
  %c = tile.dot %a, %b transpose_lhs : !tile.tile<16x8xf32>, !tile.tile<16x4xf32> -> !tile.tile<16x4xf32>
  return
}

// -----

func.func @dot_c3(%a: !tile.tile<8x16xbf16>, %b: !tile.tile<16x4xbf16>) {
  // expected-error@+1 {{expected a result of type '!tile.tile<8x4xf32>', but got '!tile.tile<8x4xbf16>'}}
  %c = tile.dot %a, %b : !tile.tile<8x16xbf16>, !tile.tile<16x4xbf16> -> !tile.tile<8x4xbf16>
  return
}

// -----

func.func @dot_c4(%a: !tile.tile<8x16xf32>, %b: !tile.tile<16x4xf32>, %s: !tile.tile<8x1xf32>) {
  // expected-error@+1 {{expected acc where there is a scale for it}}
  %c = tile.dot %a, %b scale %s : !tile.tile<8x16xf32>, !tile.tile<16x4xf32> -> !tile.tile<8x4xf32>
  return
}

// -----

func.func @dot_c5(%a: !tile.tile<8x16xbf16>, %b: !tile.tile<16x4xbf16>) {
  // expected-error@+1 {{expected sides of f32 with tf32, but got '!tile.tile<8x16xbf16>' and '!tile.tile<16x4xbf16>'}}
  %c = tile.dot %a, %b tf32 : !tile.tile<8x16xbf16>, !tile.tile<16x4xbf16> -> !tile.tile<8x4xf32>
  return
}

// -----

func.func @map_c1(%a: !tile.tile<8x16xf32>) {
  // expected-error@+1 {{expected all results to be of the size of the first}}
  %r:2 = tile.map ins(%a : !tile.tile<8x16xf32>) {
  ^bb0(%r: i32, %c: i32, %x: f32):
    tile.yield %x, %x : f32, f32
  } -> !tile.tile<8x16xf32>, !tile.tile<8x1xf32>
  return
}

// -----

func.func @map_c2(%a: !tile.tile<4x16xf32>) {
  // expected-error@+1 {{expected inputs to broadcast to the results' size 8x16, but got '!tile.tile<4x16xf32>'}}
  %r = tile.map ins(%a : !tile.tile<4x16xf32>) {
  ^bb0(%r: i32, %c: i32, %x: f32):
    tile.yield %x : f32
  } -> !tile.tile<8x16xf32>
  return
}

// -----

func.func @map_c3(%a: !tile.tile<8x16xf32>) {
  // expected-error@+1 {{expected its body to take (i32, i32, f32), but it takes (f32)}}
  %r = tile.map ins(%a : !tile.tile<8x16xf32>) {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } -> !tile.tile<8x16xf32>
  return
}

// -----

func.func @map_c3(%a: !tile.tile<8x16xf32>) {
  // expected-error@+1 {{expected its body to yield (f32), but it yields (i32)}}
  %r = tile.map ins(%a : !tile.tile<8x16xf32>) {
  ^bb0(%r: i32, %c: i32, %x: f32):
    tile.yield %r : i32
  } -> !tile.tile<8x16xf32>
  return
}

// -----

func.func @reduce_c1(%a: !tile.tile<8x16xf32>, %b: !tile.tile<8x8xf32>, %e: f32) {
  // expected-error@+1 {{expected all inputs to be of the size of the first}}
  %r:2 = tile.reduce ins(%a, %b : !tile.tile<8x16xf32>, !tile.tile<8x8xf32>) identity(%e, %e : f32, f32) {
  ^bb0(%w: f32, %x: f32, %y: f32, %z: f32):
    tile.yield %x, %y : f32, f32
  } -> !tile.tile<8x1xf32>, !tile.tile<8x1xf32>
  return
}

// -----

func.func @reduce_c2(%a: !tile.tile<8x16xf32>, %e: i32) {
  // expected-error@+1 {{expected identities of types (f32), but got (i32)}}
  %r = tile.reduce ins(%a : !tile.tile<8x16xf32>) identity(%e : i32) {
  ^bb0(%x: f32, %y: f32):
    tile.yield %x : f32
  } -> !tile.tile<8x1xf32>
  return
}

// -----

func.func @reduce_c3(%a: !tile.tile<8x16xf32>, %e: f32) {
  // expected-error@+1 {{expected its body to take (f32, f32), but it takes (f32)}}
  %r = tile.reduce ins(%a : !tile.tile<8x16xf32>) identity(%e : f32) {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } -> !tile.tile<8x1xf32>
  return
}

// -----

func.func @reduce_c4(%a: !tile.tile<8x16xf32>, %e: f32) {
  // expected-error@+1 {{expected results of types (!tile.tile<1x16xf32>), but got (!tile.tile<8x1xf32>)}}
  %r = tile.reduce rows ins(%a : !tile.tile<8x16xf32>) identity(%e : f32) {
  ^bb0(%x: f32, %y: f32):
    tile.yield %x : f32
  } -> !tile.tile<8x1xf32>
  return
}

// -----

func.func @scan_c4(%a: !tile.tile<8x16xf32>, %e: f32) {
  // expected-error@+1 {{expected results of types (!tile.tile<8x16xf32>), but got (!tile.tile<8x1xf32>)}}
  %r = tile.scan ins(%a : !tile.tile<8x16xf32>) identity(%e : f32) {
  ^bb0(%x: f32, %y: f32):
    tile.yield %x : f32
  } -> !tile.tile<8x1xf32>
  return
}

// -----

func.func @fold_c1(%s: !tile.tile<8x16xf32>, %z: !tile.tile<8x4xf32>, %v: !tile.tile<16x4xf32>, %x: !tile.tile<8x4xf32>) {
  // expected-error@+1 {{expected all scores to be of the size of the first}}
  %r = tile.fold scores(%s, %z : !tile.tile<8x16xf32>, !tile.tile<8x4xf32>) values(%v : !tile.tile<16x4xf32>) states(%x : !tile.tile<8x4xf32>) {
  ^bb0(%r: i32, %c: i32, %s1: f32, %z1: f32, %v1: f32, %x1: f32):
    tile.yield %x1 : f32
  } -> !tile.tile<8x4xf32>
  return
}

// -----

func.func @fold_c2(%s: !tile.tile<8x16xf32>, %v: !tile.tile<8x4xf32>, %x: !tile.tile<8x4xf32>) {
  // expected-error@+1 {{expected values of 16 rows, one for each score of a row, and 4 columns}}
  %r = tile.fold scores(%s : !tile.tile<8x16xf32>) values(%v : !tile.tile<8x4xf32>) states(%x : !tile.tile<8x4xf32>) {
  ^bb0(%r: i32, %c: i32, %s1: f32, %v1: f32, %x1: f32):
    tile.yield %x1 : f32
  } -> !tile.tile<8x4xf32>
  return
}

// -----

func.func @fold_c3(%s: !tile.tile<8x16xf32>, %v: !tile.tile<16x4xf32>, %x: !tile.tile<8x3xf32>) {
  // expected-error@+1 {{expected states of 8 rows and 1 or 4 columns}}
  %r = tile.fold scores(%s : !tile.tile<8x16xf32>) values(%v : !tile.tile<16x4xf32>) states(%x : !tile.tile<8x3xf32>) {
  ^bb0(%r: i32, %c: i32, %s1: f32, %v1: f32, %x1: f32):
    tile.yield %x1 : f32
  } -> !tile.tile<8x3xf32>
  return
}

// -----

func.func @fold_c4(%s: !tile.tile<8x16xf32>, %v: !tile.tile<16x4xf32>, %x: !tile.tile<8x4xf32>) {
  // expected-error@+1 {{expected its body to take (i32, i32, f32, f32, f32), but it takes (f32)}}
  %r = tile.fold scores(%s : !tile.tile<8x16xf32>) values(%v : !tile.tile<16x4xf32>) states(%x : !tile.tile<8x4xf32>) {
  ^bb0(%x1: f32):
    tile.yield %x1 : f32
  } -> !tile.tile<8x4xf32>
  return
}

// -----

func.func @rows_c1(%a: !tile.tile<8x16xf32>) {
  // expected-error@+1 {{expected blocks of one or more rows, but got 0}}
  %r = tile.rows 0 outs(%a : !tile.tile<8x16xf32>) {
  ^bb0(%i: index, %x: !tile.tile<8x16xf32>):
    tile.yield %x : !tile.tile<8x16xf32>
  } -> !tile.tile<8x16xf32>
  return
}

// -----

func.func @rows_c2(%a: !tile.tile<8x16xf32>) {
  // expected-error@+1 {{expected tiles of the same number of rows, a multiple of 3}}
  %r = tile.rows 3 outs(%a : !tile.tile<8x16xf32>) {
  ^bb0(%i: index, %x: !tile.tile<3x16xf32>):
    tile.yield %x : !tile.tile<3x16xf32>
  } -> !tile.tile<8x16xf32>
  return
}

// -----

func.func @rows_c3(%a: !tile.tile<8x16xf32>) {
  // expected-error@+1 {{expected its body to take (index, !tile.tile<4x16xf32>), but it takes (index, !tile.tile<8x16xf32>)}}
  %r = tile.rows 4 outs(%a : !tile.tile<8x16xf32>) {
  ^bb0(%i: index, %x: !tile.tile<8x16xf32>):
    tile.yield %x : !tile.tile<8x16xf32>
  } -> !tile.tile<8x16xf32>
  return
}

// -----

func.func @workspace_c1(%n: index) {
  // expected-error@+1 {{expected a memref without layout, but got}}
  %w = tile.workspace(%n) : memref<?x4xf32, strided<[8, 1]>>
  return
}

// -----

func.func @workspace_c2(%n: index) {
  // expected-error@+1 {{expected 1 sizes, one for each dynamic dimension of}}
  %w = tile.workspace(%n, %n) : memref<?x4xf32>
  return
}

// -----

func.func @launch_c1(%n: index, %x: f32) {
  // expected-error@+1 {{expected 'nothing' to be a tile.kernel in this module}}
  tile.launch @nothing grid(%n) args(%x : f32)
  return
}

// -----

tile.kernel private @k(i32, index)

func.func @launch_c2(%n: index, %x: f32) {
  // expected-error@+1 {{expected kernel 'k' to take the arguments (f32) and the block index, but it takes (i32, index)}}
  tile.launch @k grid(%n) args(%x : f32)
  return
}

// -----

func.func @bits_of_rows(%a: !tile.tile<1x64xi1>) {
  // expected-error @below {{expected tiles of one column of i1, but got '!tile.tile<1x64xi1>'}}
  %w = tile.bits %a : !tile.tile<1x64xi1>
  return
}

// -----

func.func @bits_of_numbers(%a: !tile.tile<64x1xi32>) {
  // expected-error @below {{expected tiles of one column of i1, but got '!tile.tile<64x1xi32>'}}
  %w:2 = tile.bits %a : !tile.tile<64x1xi32>
  return
}

// -----

func.func @bits_missing(%a: !tile.tile<64x1xi1>) {
  // expected-error @below {{expected 2 words, but got 1}}
  %w = "tile.bits"(%a) : (!tile.tile<64x1xi1>) -> i32
  return
}

// -----

func.func @truths_missing(%a: i32) {
  // expected-error @below {{expected 2 words, but got 1}}
  %t = tile.truths %a : !tile.tile<1x64xi1>
  return
}

// -----

func.func @truths_of_rows(%a: i32) {
  // expected-error @below {{expected a tile of one row of i1, but got '!tile.tile<32x1xi1>'}}
  %t = tile.truths %a : !tile.tile<32x1xi1>
  return
}

// -----

// expected-error@+1 {{expected no attribute "tile.kernel", which the tile dialect does not define}}
module attributes {tile.kernel} {
}

// -----

// expected-error@+1 {{expected the last argument of a kernel to be the block's number, of type index}}
tile.kernel private @kernel_block(memref<?xf32>)

// -----

// expected-error@+1 {{expected the last argument of a kernel with scratch_bytes to be a memref of as many i8}}
tile.kernel private @kernel_scratch(index) attributes {scratch_bytes = 64 : i64}

// -----

// expected-error@+1 {{expected a kernel to have no results, but got 1}}
tile.kernel private @kernel_results(index) -> i32

// -----

// expected-error@+1 {{expected tile.plan to be a unit attribute of func.func}}
module attributes {tile.plan} {
}

// -----

// expected-error@+1 {{expected a plan to return nothing, but got 1 results; outputs are arguments}}
func.func private @plan_results() -> i32 attributes {tile.plan}

// -----

func.func @approximate(%x: i32) -> i32 {
  // expected-error@+1 {{expected tile.approximate to be a unit attribute of arith.sitofp or tile.dot}}
  %y = arith.addi %x, %x {tile.approximate} : i32
  return %y : i32
}

// -----

func.func @fragment_order(%x: !tile.tile<16x64xf32>, %X: memref<?x64xf32>) {
  %c0 = arith.constant 0 : index
  // expected-error@+1 {{expected any_order with fragment_order}}
  tile.accumulate %x, %X[%c0, %c0] {fragment_order} : !tile.tile<16x64xf32>, memref<?x64xf32>
  return
}

// -----

// expected-error@+1 {{expected a tile of 2 dimensions, but got 1}}
func.func private @tile_rank(!tile.tile<8xf32>)

// -----

// expected-error@+1 {{expected positive tile dimensions, but got 8x0}}
func.func private @tile_empty(!tile.tile<8x0xf32>)

// -----

// expected-error@+1 {{expected a tile of f32, f16, bf16, i1, i8 or i32, but got 'f64'}}
func.func private @tile_element(!tile.tile<8x8xf64>)

// -----

func.func @load_c5(%m: memref<?x?xf32, strided<[?, 1]>>, %i: index) {
  // expected-error@+1 {{expected both bounds of the rows or neither}}
  %t = "tile.load"(%m, %i, %i, %i) <{operandSegmentSizes = array<i32: 1, 2, 1, 0, 0>}> : (memref<?x?xf32, strided<[?, 1]>>, index, index, index) -> !tile.tile<8x8xf32>
  return
}

// -----

func.func @dot_c4(%a: !tile.tile<8x16xf32>, %b: !tile.tile<16x4xf32>, %c: !tile.tile<8x8xf32>) {
  // expected-error@+1 {{expected acc to be of the result's type '!tile.tile<8x4xf32>', but got '!tile.tile<8x8xf32>'}}
  %d = "tile.dot"(%a, %b, %c) <{operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>}> : (!tile.tile<8x16xf32>, !tile.tile<16x4xf32>, !tile.tile<8x8xf32>) -> !tile.tile<8x4xf32>
  return
}

// -----

func.func @dot_c4(%a: !tile.tile<8x16xf32>, %b: !tile.tile<16x4xf32>, %c: !tile.tile<8x4xf32>, %s: !tile.tile<1x4xf32>) {
  // expected-error@+1 {{expected scale to be of type '!tile.tile<8x1xf32>', but got '!tile.tile<1x4xf32>'}}
  %d = "tile.dot"(%a, %b, %c, %s) <{operandSegmentSizes = array<i32: 1, 1, 1, 1, 0>}> : (!tile.tile<8x16xf32>, !tile.tile<16x4xf32>, !tile.tile<8x4xf32>, !tile.tile<1x4xf32>) -> !tile.tile<8x4xf32>
  return
}

// -----

func.func @map_c1() {
  // expected-error@+1 {{expected one or more results}}
  "tile.map"() ({
  ^bb0(%r: i32, %c: i32):
    tile.yield
  }) : () -> ()
  return
}

// -----

func.func @map_c3(%a: !tile.tile<8x16xf32>) {
  // expected-error@+1 {{expected its body to end with tile.yield}}
  %r = tile.map ins(%a : !tile.tile<8x16xf32>) {
  ^bb0(%r: i32, %c: i32, %x: f32):
  } -> !tile.tile<8x16xf32>
  return
}

// -----

func.func @reduce_c1() {
  // expected-error@+1 {{expected one or more inputs}}
  "tile.reduce"() <{operandSegmentSizes = array<i32: 0, 0>}> ({
    tile.yield
  }) : () -> ()
  return
}

// -----

func.func @any_c1(%a: !tile.tile<8x16xf32>) {
  // expected-error@+1 {{expected a tile of i1, but got '!tile.tile<8x16xf32>'}}
  %r = tile.any %a : !tile.tile<8x16xf32>
  return
}

// -----

func.func @bits_c1() {
  // expected-error@+1 {{expected 1 tile or more, but got none}}
  "tile.bits"() : () -> ()
  return
}

// -----

func.func @bits_c1(%a: i32) {
  // expected-error@+1 {{expected tiles, but got 'i32'}}
  %w = tile.bits %a : i32
  return
}

// -----

func.func @fold_c1(%s: !tile.tile<8x1xf32>) {
  // expected-error@+1 {{expected one or more scores and states}}
  %r = "tile.fold"(%s) <{operandSegmentSizes = array<i32: 0, 0, 0, 1>}> ({
  ^bb0(%i: i32, %j: i32, %x: f32):
    tile.yield %x : f32
  }) : (!tile.tile<8x1xf32>) -> !tile.tile<8x1xf32>
  return
}

// -----

func.func @rows_c2() {
  // expected-error@+1 {{expected one or more tiles}}
  tile.rows 8 {
  ^bb0(%i: index):
    tile.yield
  }
  return
}

// -----

// expected-error @+1 {{expected tile dimensions of at most 1048576, but got 4611686018427387904x16}}
func.func private @tile_large(!tile.tile<4611686018427387904x16xf32>)

// -----

func.func @pad_elements(%p: !tile.tile<64x64xf32>) {
  // expected-error @below {{expected the rows and elements of '!tile.tile<64x64xf32>', but got '!tile.tile<64x128xbf16>'}}
  %w = tile.pad %p first 64 : !tile.tile<64x64xf32> -> !tile.tile<64x128xbf16>
  return
}

// -----

func.func @pad_first(%p: !tile.tile<64x64xf32>) {
  // expected-error @below {{expected 64 columns to lie within 128, but they start at 65}}
  %w = tile.pad %p first 65 : !tile.tile<64x64xf32> -> !tile.tile<64x128xf32>
  return
}

// -----

func.func @store_bits_of_numbers(%a: !tile.tile<32x64xi32>, %m: memref<64x1xi32>, %c: index) {
  // expected-error @below {{expected a tile of i1 with a multiple of 16 rows, but got '!tile.tile<32x64xi32>'}}
  tile.store_bits %a, %m[] row(%c) column(%c) : !tile.tile<32x64xi32>, memref<64x1xi32>
  return
}

// -----

func.func @store_bits_rows(%a: !tile.tile<24x64xi1>, %m: memref<64x1xi32>, %c: index) {
  // expected-error @below {{expected a tile of i1 with a multiple of 16 rows, but got '!tile.tile<24x64xi1>'}}
  tile.store_bits %a, %m[] row(%c) column(%c) : !tile.tile<24x64xi1>, memref<64x1xi32>
  return
}

// -----

func.func @store_bits_rank(%a: !tile.tile<32x64xi1>, %m: memref<?x64x1xi32>, %c: index) {
  // expected-error @below {{expected memory of i32 with two dimensions more than indices, but got 'memref<?x64x1xi32>' and 0 indices}}
  tile.store_bits %a, %m[] row(%c) column(%c) : !tile.tile<32x64xi1>, memref<?x64x1xi32>
  return
}

// -----

func.func @store_bits_element(%a: !tile.tile<32x64xi1>, %m: memref<64x1xi64>, %c: index) {
  // expected-error @below {{expected memory of i32 with two dimensions more than indices, but got 'memref<64x1xi64>' and 0 indices}}
  tile.store_bits %a, %m[] row(%c) column(%c) : !tile.tile<32x64xi1>, memref<64x1xi64>
  return
}

// -----

func.func @store_bits_columns(%a: !tile.tile<32x64xi1>, %m: memref<32x1xi32>, %c: index) {
  // expected-error @below {{expected at least 64 columns of at least 1 words, but got 'memref<32x1xi32>'}}
  tile.store_bits %a, %m[] row(%c) column(%c) : !tile.tile<32x64xi1>, memref<32x1xi32>
  return
}

// -----

func.func @store_bits_words(%a: !tile.tile<64x64xi1>, %m: memref<64x1xi32>, %c: index) {
  // expected-error @below {{expected at least 64 columns of at least 2 words, but got 'memref<64x1xi32>'}}
  tile.store_bits %a, %m[] row(%c) column(%c) : !tile.tile<64x64xi1>, memref<64x1xi32>
  return
}

// -----

func.func @store_bits_apart(%a: !tile.tile<32x64xi1>, %m: memref<64x2xi32, strided<[1, 64]>>, %c: index) {
  // expected-error @below {{expected words behind each other in memory, but got 'memref<64x2xi32, strided<[1, 64]>>'}}
  tile.store_bits %a, %m[] row(%c) column(%c) : !tile.tile<32x64xi1>, memref<64x2xi32, strided<[1, 64]>>
  return
}

// -----

func.func @least_power_op(%x: f32) -> f32 {
  // expected-error @below {{expected tile.least_power to be an i32 from -150 to -100, on math.exp or math.exp2}}
  %y = math.log %x {tile.least_power = -126 : i32} : f32
  return %y : f32
}

// -----

func.func @least_power_large(%x: f32) -> f32 {
  // expected-error @below {{expected tile.least_power to be an i32 from -150 to -100}}
  %y = math.exp %x {tile.least_power = -1 : i32} : f32
  return %y : f32
}

// -----

// expected-error@+1 {{expected schedule to be an #attn.schedule<...>, but got 3 : i32}}
tile.kernel private @schedule(index) attributes {schedule = 3 : i32}

// -----

// expected-error@+1 {{expected scratch_bytes to be an i64, but got "many"}}
tile.kernel private @scratch(index) attributes {scratch_bytes = "many"}

// -----

func.func @first(%p: i1) attributes {tile.plan} {
  // expected-error@+1 {{expected 'second' to run kernels of its own, but it dispatches too}}
  tile.dispatch %p to @second
  return
}
func.func private @second(%p: i1) attributes {tile.plan} {
  tile.dispatch %p to @third
  return
}
func.func private @third(i1) attributes {tile.plan}

// -----

func.func @load_c7(%m: memref<?x?x?xf32>, %n: memref<?xi32>, %i: index) {
  %s = tile.source vector %m lengths(%n : memref<?xi32>) : memref<?x?x?xf32> -> !tile.source<?x?x?xf32>
  // expected-error@+1 {{expected the source to be the result of a tile.source with columns, as the tile is, but got another value}}
  %t = tile.load %s[%i, %i, %i] : !tile.source<?x?x?xf32> -> !tile.tile<8x8xf32>
  return
}

// -----

func.func @load_c1(%m: memref<?x?x?x8xf32>, %n: memref<?xi32>, %i: index) {
  %s = tile.source %m lengths(%n : memref<?xi32>) : memref<?x?x?x8xf32> -> !tile.source<?x?x?x8xf32>
  // expected-error@+1 {{expected one index for each dimension of the source, 2 or more, but got 3 for '!tile.source<?x?x?x8xf32>'}}
  %t = tile.load %s[%i, %i, %i] : !tile.source<?x?x?x8xf32> -> !tile.tile<8x8xf32>
  return
}

// -----

func.func @store_c8(%m: memref<?x?x?x8xf32>, %start: memref<?xi32>, %t: !tile.tile<8x8xf32>, %i: index) {
  %s = tile.source %m ring(%start : memref<?xi32>) : memref<?x?x?x8xf32> -> !tile.source<?x?x?x8xf32>
  // expected-error@+1 {{expected a destination whose rows lie one after the other; pages and rings are read only}}
  tile.store %t, %s[%i, %i, %i, %i] : !tile.tile<8x8xf32>, !tile.source<?x?x?x8xf32>
  return
}

// -----

func.func @source_c1(%m: memref<?x?x?x8xf32>, %n: memref<?xi32>, %t: memref<?x?xi32>) {
  // expected-error@+1 {{expected one of varlen, paged and ring}}
  %s = tile.source %m paged(%t : memref<?x?xi32>) ring(%n : memref<?xi32>) : memref<?x?x?x8xf32> -> !tile.source<?x?x?x8xf32>
  return
}

// -----

func.func @source_c2(%m: memref<?x?x8xf32>, %t: memref<?x?xi32>) {
  // expected-error@+1 {{expected memory of rank 4, but got 'memref<?x?x8xf32>'}}
  %s = tile.source %m paged(%t : memref<?x?xi32>) : memref<?x?x8xf32> -> !tile.source<?x?x8xf32>
  return
}

// -----

func.func @source_c2(%m: memref<?x?x?x8xf32, strided<[?, ?, 1, ?]>>) {
  // expected-error@+1 {{expected memory with unit stride in its last dimension, but got}}
  %s = tile.source %m : memref<?x?x?x8xf32, strided<[?, ?, 1, ?]>> -> !tile.source<?x?x?x8xf32>
  return
}

// -----

func.func @source_c3(%m: memref<?x?x8xf32>, %cu: memref<?xi32>) {
  // expected-error@+1 {{expected a result like '!tile.source<?x?x?x8xf32>', but got '!tile.source<?x?x8xf32>'}}
  %s = tile.source %m varlen(%cu : memref<?xi32>) : memref<?x?x8xf32> -> !tile.source<?x?x8xf32>
  return
}

// -----

func.func @element_c1(%m: memref<?xf32>, %i: index) {
  // expected-error@+1 {{expected an element of the source, but got 'i32'}}
  %x = tile.element %m[%i] : memref<?xf32> -> i32
  return
}

// -----

func.func @source_c1(%m: memref<?x?x8xf32>, %cu: memref<?xi32>) {
  // expected-error@+1 {{expected pages where tiles are aligned to these}}
  %s = tile.source %m varlen(%cu : memref<?xi32>) aligned : memref<?x?x8xf32> -> !tile.source<?x?x?x8xf32>
  return
}

// -----

func.func @source_c1(%m: memref<?x?x16x8xf32>, %t: memref<?x?xi32>) {
  // expected-error@+1 {{expected pages, to which tiles are not aligned, where boxes of rows are}}
  %s = tile.source %m paged(%t : memref<?x?xi32>) aligned boxes(8) : memref<?x?x16x8xf32> -> !tile.source<?x?x?x8xf32>
  return
}

// -----

func.func @source_c1(%m: memref<?x?x16x8xf32>, %n: memref<?xi32>) {
  // expected-error@+1 {{expected pages, to which tiles are not aligned, where boxes of rows are}}
  %s = tile.source %m ring(%n : memref<?xi32>) boxes(8) : memref<?x?x16x8xf32> -> !tile.source<?x?x?x8xf32>
  return
}

// -----

func.func @source_c1(%m: memref<?x?x20x8xf32>, %t: memref<?x?xi32>) {
  // expected-error@+1 {{expected boxes of a number of rows that divides a page of a known number, but got 8 and memory 'memref<?x?x20x8xf32>'}}
  %s = tile.source %m paged(%t : memref<?x?xi32>) boxes(8) : memref<?x?x20x8xf32> -> !tile.source<?x?x?x8xf32>
  return
}

// -----

func.func @solve_c1(%l: !tile.tile<16x32xf32>, %z: !tile.tile<16x64xf32>) {
  // expected-error@+1 {{expected a square matrix with the rows of the right side, but got '!tile.tile<16x32xf32>' and '!tile.tile<16x64xf32>'}}
  %y = tile.solve %l, %z : !tile.tile<16x32xf32>, !tile.tile<16x64xf32> -> !tile.tile<16x64xf32>
  return
}

// -----

func.func @solve_c2(%l: !tile.tile<16x16xf16>, %z: !tile.tile<16x64xf32>) {
  // expected-error@+1 {{expected tiles of f32, but got '!tile.tile<16x16xf16>' and '!tile.tile<16x64xf32>'}}
  %y = tile.solve %l, %z : !tile.tile<16x16xf16>, !tile.tile<16x64xf32> -> !tile.tile<16x64xf32>
  return
}

// -----

func.func @solve_c3(%l: !tile.tile<16x16xf32>, %z: !tile.tile<16x64xf32>) {
  // expected-error@+1 {{expected a result like the right side, '!tile.tile<16x64xf32>', but got '!tile.tile<16x32xf32>'}}
  %y = tile.solve %l, %z : !tile.tile<16x16xf32>, !tile.tile<16x64xf32> -> !tile.tile<16x32xf32>
  return
}
