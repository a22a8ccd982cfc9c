// RUN: attn-opt %s --split-input-file --verify-diagnostics

// Views of shared memory, fragments, elementwise operations, memory.

func.func @slice_pitch(%t: !tile_gpu.smem<128x64xbf16 swizzle 128>, %c: i32) {
  // expected-error @below {{expected a slice with the pitch 128 of its tile, but got 64}}
  %s = tile_gpu.smem.slice %t[%c, %c] : !tile_gpu.smem<128x64xbf16 swizzle 128> -> !tile_gpu.smem<64x64xbf16 swizzle 128>
  return
}

// -----

func.func @slice_across_boxes(%t: !tile_gpu.smem<128x64xbf16 swizzle 128 boxes 8>, %c: i32) {
  // expected-error @below {{expected a slice within one box of 16 stored rows, but got 32 rows in 1 box(es)}}
  %s = tile_gpu.smem.slice %t[%c, %c] : !tile_gpu.smem<128x64xbf16 swizzle 128 boxes 8> -> !tile_gpu.smem<32x64xbf16 swizzle 128 pitch 128>
  return
}

// -----

func.func @convert(%f: !tile_gpu.frag<64x64xbf16, a>) {
  // expected-error @below {{expected an f32 acc fragment to become a 16-bit one}}
  %g = tile_gpu.frag.convert %f : !tile_gpu.frag<64x64xbf16, a> -> !tile_gpu.frag<64x64xbf16, acc>
  return
}

// -----

func.func @store_shape(%f: !tile_gpu.frag<64x128xbf16, acc>, %t: !tile_gpu.smem<128x64xbf16 swizzle 128>) {
  // expected-error @below {{expected a tile of 64x128, but got 128x64}}
  tile_gpu.frag.store %f, %t : !tile_gpu.frag<64x128xbf16, acc>, !tile_gpu.smem<128x64xbf16 swizzle 128>
  return
}

// -----

func.func @store_order(%f: !tile_gpu.frag<64x64xf32, acc>, %t: !tile_gpu.smem<64x64xf32 swizzle 128>) {
  // expected-error @below {{expected a plain tile of f32 with fragment_order}}
  tile_gpu.frag.store %f, %t fragment_order : !tile_gpu.frag<64x64xf32, acc>, !tile_gpu.smem<64x64xf32 swizzle 128>
  return
}

// -----

func.func @store_part(%f: !tile_gpu.frag<64x64xf32, acc>, %t: !tile_gpu.smem<96x64xf32>, %c: i32) {
  // expected-error @below {{expected fragment_order, and a tile of whole parts like the fragment, but got '!tile_gpu.smem<96x64xf32>' and '!tile_gpu.frag<64x64xf32, acc>'}}
  tile_gpu.frag.store %f, %t at(%c, %c) fragment_order : !tile_gpu.frag<64x64xf32, acc>, !tile_gpu.smem<96x64xf32>
  return
}

// -----

func.func @vec_load(%t: !tile_gpu.smem<1x32xf32>) {
  // expected-error @below {{expected a tile of one row of 64 'f32', but got '!tile_gpu.smem<1x32xf32>'}}
  %v = tile_gpu.vec.load %t : !tile_gpu.smem<1x32xf32> -> !tile_gpu.vec<64xf32, col>
  return
}

// -----

func.func @map_vector(%s: !tile_gpu.frag<64x64xf32, acc>, %v: !tile_gpu.vec<128xf32, col>) {
  // expected-error @below {{expected a vector along '!tile_gpu.frag<64x64xf32, acc>', but got '!tile_gpu.vec<128xf32, col>'}}
  %p = tile_gpu.map ins(%s, %v : !tile_gpu.frag<64x64xf32, acc>, !tile_gpu.vec<128xf32, col>) {
  ^bb0(%i: i32, %j: i32, %x: f32, %y: f32):
    tile_gpu.yield %x : f32
  } -> !tile_gpu.frag<64x64xf32, acc>
  return
}

// -----

func.func @map_partial(%s: !tile_gpu.frag<64x64xf32, acc>, %v: !tile_gpu.vec<64xf32, row, partial>) {
  // expected-error @below {{expected partial vectors to give partial results; complete them with tile_gpu.reduce first}}
  %p = tile_gpu.map ins(%s, %v : !tile_gpu.frag<64x64xf32, acc>, !tile_gpu.vec<64xf32, row, partial>) {
  ^bb0(%i: i32, %j: i32, %x: f32, %y: f32):
    tile_gpu.yield %x : f32
  } -> !tile_gpu.frag<64x64xf32, acc>
  return
}

// -----

func.func @map_yield(%s: !tile_gpu.frag<64x64xf32, acc>) {
  // expected-error @below {{expected yielded value 0 to be 'f32', but got 'i32'}}
  %p = tile_gpu.map ins(%s : !tile_gpu.frag<64x64xf32, acc>) {
  ^bb0(%i: i32, %j: i32, %x: f32):
    tile_gpu.yield %i : i32
  } -> !tile_gpu.frag<64x64xf32, acc>
  return
}

// -----

func.func @map_layout(%s: !tile_gpu.frag<16x64xbf16, b, warp>) {
  // expected-error @below {{expected acc or a fragments, but got '!tile_gpu.frag<16x64xbf16, b, warp>'}}
  %p = tile_gpu.map ins(%s : !tile_gpu.frag<16x64xbf16, b, warp>) {
  ^bb0(%i: i32, %j: i32, %x: bf16):
    tile_gpu.yield %x : bf16
  } -> !tile_gpu.frag<16x64xbf16, b, warp>
  return
}

// -----

func.func @reduce_complete(%v: !tile_gpu.vec<64xf32, row>, %z: f32) {
  // expected-error @below {{expected a partial vector to become the complete one of its size and axis}}
  %r = tile_gpu.reduce ins(%v : !tile_gpu.vec<64xf32, row>) identity(%z : f32) {
  ^bb0(%a: f32, %b: f32):
    tile_gpu.yield %a : f32
  } -> !tile_gpu.vec<64xf32, row>
  return
}

// -----

// The panels of 64 rows in a tile of 128 are 128 rows apart: no one box.
func.func @store_box(%t: !tile_gpu.smem<64x128xbf16 swizzle 128 pitch 128>, %m: !tile_gpu.tensor_map<64x128xbf16 swizzle 128>, %c: i32) {
  // expected-error @below {{expected a tile whose bytes follow each other, but the panels of '!tile_gpu.smem<64x128xbf16 swizzle 128 pitch 128>' lie 128 rows apart; store each panel by itself}}
  tile_gpu.bulk.store %t, %m[%c, %c] : !tile_gpu.smem<64x128xbf16 swizzle 128 pitch 128>, !tile_gpu.tensor_map<64x128xbf16 swizzle 128>
  return
}

// -----

func.func @global_indices(%f: !tile_gpu.frag<64x64xf32, acc>, %m: memref<?x?x?xf32>, %c: i32) {
  // expected-error @below {{expected 3 indices, but got 2}}
  tile_gpu.global.store %f, %m[%c, %c] : !tile_gpu.frag<64x64xf32, acc>, memref<?x?x?xf32>
  return
}

// -----

func.func @global_reduce(%f: !tile_gpu.frag<64x64xf32, acc>, %m: memref<?x?xbf16>, %c: i32) {
  // expected-error @below {{expected f32 values and memory, but got 'f32' and 'bf16'}}
  tile_gpu.global.reduce %f, %m[%c, %c] : !tile_gpu.frag<64x64xf32, acc>, memref<?x?xbf16>
  return
}

// -----

func.func @ordered_columns(%s: !tile_gpu.frag<16x64xf32, acc, warp>, %z: f32) {
  // expected-error @below {{expected an ordered reduction of fragments over the columns to complete row vectors}}
  %r = tile_gpu.reduce ordered ins(%s : !tile_gpu.frag<16x64xf32, acc, warp>) identity(%z : f32) {
  ^bb0(%a: f32, %b: f32):
    tile_gpu.yield %b : f32
  } -> !tile_gpu.vec<64xf32, col, warp>
  return
}

// -----

func.func @scan_types(%s: !tile_gpu.frag<16x64xf32, acc, warp>, %z: f32) {
  // expected-error @below {{expected input, identity and result of one type}}
  %r = tile_gpu.scan ins(%s : !tile_gpu.frag<16x64xf32, acc, warp>) identity(%z : f32) {
  ^bb0(%a: f32, %b: f32):
    tile_gpu.yield %b : f32
  } -> !tile_gpu.frag<16x32xf32, acc, warp>
  return
}

// -----

func.func @any_type(%v: !tile_gpu.vec<64xi32, col, warp>) {
  // expected-error @below {{expected complete elements of i1, but got '!tile_gpu.vec<64xi32, col, warp>'}}
  %r = tile_gpu.any %v : !tile_gpu.vec<64xi32, col, warp>
  return
}

// -----

func.func @line_size(%t: !tile_gpu.smem<64x128xf32>, %i: i32) {
  // expected-error @below {{expected a vector of 128 elements along '!tile_gpu.smem<64x128xf32>'}}
  %r = tile_gpu.vec.load %t[%i] : !tile_gpu.smem<64x128xf32> -> !tile_gpu.vec<64xf32, col, warp>
  return
}

// -----

func.func @line_type(%v: !tile_gpu.vec<64xf32, col, warp>, %t: !tile_gpu.smem<4x64xi32>, %i: i32) {
  // expected-error @below {{expected a vector of 'i32', but got '!tile_gpu.vec<64xf32, col, warp>'}}
  tile_gpu.vec.store %v, %t[%i] : !tile_gpu.vec<64xf32, col, warp>, !tile_gpu.smem<4x64xi32>
  return
}

// -----

func.func @clear_what(%t: !tile_gpu.smem<64x128xf32>) {
  // expected-error @below {{expected from(row), before(row), live(vector) or bits(words)}}
  tile_gpu.smem.clear_rows %t : !tile_gpu.smem<64x128xf32>
  return
}

// -----

func.func @clear_bits(%t: !tile_gpu.smem<64x128xf32>, %w: i32) {
  // expected-error @below {{expected 2 words, but got 1}}
  tile_gpu.smem.clear_rows %t bits(%w) : !tile_gpu.smem<64x128xf32>
  return
}

// -----

func.func @elements_of_rows(%v: !tile_gpu.vec<16xi32, row, warp>) {
  // expected-error @below {{expected a complete column vector of a warp, but got '!tile_gpu.vec<16xi32, row, warp>'}}
  %e:16 = "tile_gpu.vec.elements"(%v) : (!tile_gpu.vec<16xi32, row, warp>) -> (i32, i32, i32, i32, i32, i32, i32, i32, i32, i32, i32, i32, i32, i32, i32, i32)
  return
}

// -----

func.func @elements_missing(%v: !tile_gpu.vec<8xi32, col, warp>) {
  // expected-error @below {{expected 8 results of 'i32'}}
  %e:2 = "tile_gpu.vec.elements"(%v) : (!tile_gpu.vec<8xi32, col, warp>) -> (i32, i32)
  return
}

// -----

func.func @clear_size(%t: !tile_gpu.smem<64x128xf32>, %v: !tile_gpu.vec<128xi1, col, warp>) {
  // expected-error @below {{expected live to be a column vector of 64 i1}}
  tile_gpu.smem.clear_rows %t live(%v : !tile_gpu.vec<128xi1, col, warp>) : !tile_gpu.smem<64x128xf32>
  return
}

// -----

func.func @map_in_place_of_wide_elements(%t: !tile_gpu.smem<64x128xf32>) {
  // expected-error @below {{expected a 16-bit tile of one box as it is stored}}
  tile_gpu.smem.map %t {
  ^bb0(%x: f32):
    tile_gpu.yield %x : f32
  } : !tile_gpu.smem<64x128xf32>
  return
}

// -----

func.func @map_in_place_of_another_type(%t: !tile_gpu.smem<64x128xbf16>) {
  // expected-error @below {{expected a body with one argument, 'bf16'}}
  tile_gpu.smem.map %t {
  ^bb0(%x: f16):
    tile_gpu.yield %x : f16
  } : !tile_gpu.smem<64x128xbf16>
  return
}

// -----

func.func @map_in_place_yields(%t: !tile_gpu.smem<64x128xbf16>) {
  // expected-error @below {{expected a body that yields one 'bf16'}}
  tile_gpu.smem.map %t {
  ^bb0(%x: bf16):
    tile_gpu.yield
  } : !tile_gpu.smem<64x128xbf16>
  return
}

// -----

func.func @rounded_staging() {
  // expected-error @below {{expected elements that are stored as they are, but got tf32, which rings round to}}
  %t = tile_gpu.smem.alloc : !tile_gpu.smem<64x64xtf32 swizzle 128>
  return
}

// -----

func.func @rounded_load(%t: !tile_gpu.smem<16x64xtf32 swizzle 64 transposed>) {
  // expected-error @below {{expected a tile as it is stored for a tf32 fragment}}
  %r = tile_gpu.frag.load %t : !tile_gpu.smem<16x64xtf32 swizzle 64 transposed> -> !tile_gpu.frag<16x64xtf32, a, warp>
  return
}

// -----

func.func @alloc_view() {
  // expected-error @below {{expected a whole tile as it is stored; take the transposed view with smem.transpose}}
  %t = tile_gpu.smem.alloc : !tile_gpu.smem<64x64xbf16 swizzle 128 transposed>
  return
}

// -----

func.func @slice_swizzle(%t: !tile_gpu.smem<128x64xbf16 swizzle 128>, %c: i32) {
  // expected-error @below {{expected a slice of the same elements, swizzle and direction as '!tile_gpu.smem<128x64xbf16 swizzle 128>', but got '!tile_gpu.smem<64x64xbf16 swizzle 64 pitch 128>'}}
  %s = tile_gpu.smem.slice %t[%c, %c] : !tile_gpu.smem<128x64xbf16 swizzle 128> -> !tile_gpu.smem<64x64xbf16 swizzle 64 pitch 128>
  return
}

// -----

func.func @slice_shape(%t: !tile_gpu.smem<128x64xbf16 swizzle 128>, %c: i32) {
  // expected-error @below {{expected a slice that divides the tile of 128x64, but got 48x64}}
  %s = tile_gpu.smem.slice %t[%c, %c] : !tile_gpu.smem<128x64xbf16 swizzle 128> -> !tile_gpu.smem<48x64xbf16 swizzle 128 pitch 128>
  return
}

// -----

// Whole panels may be any number of them.
func.func @slice_panels(%t: !tile_gpu.smem<64x576xbf16 swizzle 128>, %c: i32) {
  %s = tile_gpu.smem.slice %t[%c, %c] : !tile_gpu.smem<64x576xbf16 swizzle 128> -> !tile_gpu.smem<64x256xbf16 swizzle 128>
  // expected-error @below {{expected a slice that divides the tile of 64x576, but got 64x640}}
  %o = tile_gpu.smem.slice %t[%c, %c] : !tile_gpu.smem<64x576xbf16 swizzle 128> -> !tile_gpu.smem<64x640xbf16 swizzle 128>
  return
}

// -----

func.func @slice_columns(%t: !tile_gpu.smem<128x64xbf16>, %c: i32) {
  // expected-error @below {{expected whole rows of a tile without swizzle}}
  %s = tile_gpu.smem.slice %t[%c, %c] : !tile_gpu.smem<128x64xbf16> -> !tile_gpu.smem<128x32xbf16>
  return
}

// -----

func.func @clear_boxes(%t: !tile_gpu.smem<64x64xbf16 swizzle 128 boxes 2>, %c: i32) {
  // expected-error @below {{expected a tile of one box as it is stored, but got '!tile_gpu.smem<64x64xbf16 swizzle 128 boxes 2>'}}
  tile_gpu.smem.clear_rows %t from(%c) : !tile_gpu.smem<64x64xbf16 swizzle 128 boxes 2>
  return
}

// -----

func.func @fill_element(%x: bf16) {
  // expected-error @below {{expected a scalar of 'f32', but got 'bf16'}}
  %f = tile_gpu.frag.fill %x : bf16 -> !tile_gpu.frag<64x64xf32, acc>
  return
}

// -----

func.func @load_element(%t: !tile_gpu.smem<64x64xf16 swizzle 128>) {
  // expected-error @below {{expected a tile of 'bf16', but got 'f16'}}
  %f = tile_gpu.frag.load %t : !tile_gpu.smem<64x64xf16 swizzle 128> -> !tile_gpu.frag<64x64xbf16, a>
  return
}

// -----

func.func @load_accumulator(%t: !tile_gpu.smem<64x64xbf16 swizzle 128>) {
  // expected-error @below {{expected an a or b fragment, but got acc}}
  %f = tile_gpu.frag.load %t : !tile_gpu.smem<64x64xbf16 swizzle 128> -> !tile_gpu.frag<64x64xbf16, acc>
  return
}

// -----

func.func @store_layout(%f: !tile_gpu.frag<64x64xbf16, b, warp>, %t: !tile_gpu.smem<64x64xbf16 swizzle 128>) {
  // expected-error @below {{expected an acc or a fragment, but got b}}
  tile_gpu.frag.store %f, %t : !tile_gpu.frag<64x64xbf16, b, warp>, !tile_gpu.smem<64x64xbf16 swizzle 128>
  return
}

// -----

func.func @store_transposed(%f: !tile_gpu.frag<64x64xf32, acc>, %t: !tile_gpu.smem<64x64xf32 swizzle 128 transposed>) {
  // expected-error @below {{expected 16-bit elements in a transposed store, but got 'f32'}}
  tile_gpu.frag.store %f, %t : !tile_gpu.frag<64x64xf32, acc>, !tile_gpu.smem<64x64xf32 swizzle 128 transposed>
  return
}

// -----

func.func @convert_shape(%f: !tile_gpu.frag<64x64xf32, acc>) {
  // expected-error @below {{expected the shape and scope of '!tile_gpu.frag<64x64xf32, acc>', but got '!tile_gpu.frag<64x32xbf16, acc>'}}
  %g = tile_gpu.frag.convert %f : !tile_gpu.frag<64x64xf32, acc> -> !tile_gpu.frag<64x32xbf16, acc>
  return
}

// -----

func.func @line_partial(%v: !tile_gpu.vec<64xf32, col, warp, partial>, %t: !tile_gpu.smem<4x64xf32>, %i: i32) {
  // expected-error @below {{expected a vector that is not partial}}
  tile_gpu.vec.store %v, %t[%i] : !tile_gpu.vec<64xf32, col, warp, partial>, !tile_gpu.smem<4x64xf32>
  return
}

// -----

func.func @line_boxes(%v: !tile_gpu.vec<64xf32, col, warp>, %t: !tile_gpu.smem<16x64xf32 boxes 2>, %i: i32) {
  // expected-error @below {{expected a tile of one box as it is stored, but got '!tile_gpu.smem<16x64xf32 boxes 2>'}}
  tile_gpu.vec.store %v, %t[%i] : !tile_gpu.vec<64xf32, col, warp>, !tile_gpu.smem<16x64xf32 boxes 2>
  return
}

// -----

func.func @permuted_line(%t: !tile_gpu.smem<4x64xf32>, %i: i32) {
  // expected-error @below {{expected permuted without a position only}}
  %v = tile_gpu.vec.load %t[%i] permuted : !tile_gpu.smem<4x64xf32> -> !tile_gpu.vec<64xf32, col, warp>
  return
}

// -----

func.func @load_partial(%t: !tile_gpu.smem<1x64xf32>) {
  // expected-error @below {{expected a vector that is not partial}}
  %v = tile_gpu.vec.load %t : !tile_gpu.smem<1x64xf32> -> !tile_gpu.vec<64xf32, col, partial>
  return
}

// -----

func.func @permuted_rows(%t: !tile_gpu.smem<1x64xf32>) {
  // expected-error @below {{expected permuted with a column vector of a multiple of 16 elements}}
  %v = tile_gpu.vec.load %t permuted : !tile_gpu.smem<1x64xf32> -> !tile_gpu.vec<64xf32, row>
  return
}

// -----

func.func @permuted_size(%t: !tile_gpu.smem<1x8xf32>) {
  // expected-error @below {{expected permuted with a column vector of a multiple of 16 elements}}
  %v = tile_gpu.vec.load %t permuted : !tile_gpu.smem<1x8xf32> -> !tile_gpu.vec<8xf32, col>
  return
}

// -----

func.func @map_arguments(%s: !tile_gpu.frag<64x64xf32, acc>) {
  // expected-error @below {{expected 3 block arguments, but got 2}}
  %p = tile_gpu.map ins(%s : !tile_gpu.frag<64x64xf32, acc>) {
  ^bb0(%i: i32, %j: i32):
    tile_gpu.yield %i : i32
  } -> !tile_gpu.frag<64x64xf32, acc>
  return
}

// -----

func.func @map_argument(%s: !tile_gpu.frag<64x64xf32, acc>) {
  // expected-error @below {{expected block argument 2 to be 'f32', but got 'bf16'}}
  %p = tile_gpu.map ins(%s : !tile_gpu.frag<64x64xf32, acc>) {
  ^bb0(%i: i32, %j: i32, %x: bf16):
    tile_gpu.yield %x : bf16
  } -> !tile_gpu.frag<64x64xf32, acc>
  return
}

// -----

func.func @map_shapes(%s: !tile_gpu.frag<64x64xf32, acc>, %t: !tile_gpu.frag<64x32xf32, acc>) {
  // expected-error @below {{expected fragments of one shape and scope, but got '!tile_gpu.frag<64x64xf32, acc>' and '!tile_gpu.frag<64x32xf32, acc>'}}
  %p = tile_gpu.map ins(%s, %t : !tile_gpu.frag<64x64xf32, acc>, !tile_gpu.frag<64x32xf32, acc>) {
  ^bb0(%i: i32, %j: i32, %x: f32, %y: f32):
    tile_gpu.yield %x : f32
  } -> !tile_gpu.frag<64x64xf32, acc>
  return
}

// -----

func.func @map_no_results(%s: !tile_gpu.frag<64x64xf32, acc>) {
  // expected-error @below {{expected 1 result or more}}
  "tile_gpu.map"(%s) ({
  ^bb0(%i: i32, %j: i32, %x: f32):
    tile_gpu.yield
  }) : (!tile_gpu.frag<64x64xf32, acc>) -> ()
  return
}

// -----

func.func @map_axes(%v: !tile_gpu.vec<64xf32, row>, %w: !tile_gpu.vec<64xf32, col>) {
  // expected-error @below {{expected a vector result from vectors of its own size and axis only, but got '!tile_gpu.vec<64xf32, row>'}}
  %p = tile_gpu.map ins(%v, %w : !tile_gpu.vec<64xf32, row>, !tile_gpu.vec<64xf32, col>) {
  ^bb0(%i: i32, %j: i32, %x: f32, %y: f32):
    tile_gpu.yield %x : f32
  } -> !tile_gpu.vec<64xf32, row>
  return
}

// -----

func.func @map_partial_vector(%v: !tile_gpu.vec<64xf32, row, partial>) {
  // expected-error @below {{expected partial vectors to give partial results; complete them with tile_gpu.reduce first}}
  %p = tile_gpu.map ins(%v : !tile_gpu.vec<64xf32, row, partial>) {
  ^bb0(%i: i32, %j: i32, %x: f32):
    tile_gpu.yield %x : f32
  } -> !tile_gpu.vec<64xf32, row>
  return
}

// -----

func.func @map_end(%v: !tile_gpu.vec<64xf32, row>) {
  // expected-error @below {{expected the body to end with tile_gpu.yield}}
  %p = tile_gpu.map ins(%v : !tile_gpu.vec<64xf32, row>) {
  ^bb0(%i: i32, %j: i32, %x: f32):
    llvm.unreachable
  } -> !tile_gpu.vec<64xf32, row>
  return
}

// -----

func.func @reduce_identities(%s: !tile_gpu.frag<64x64xf32, acc>, %z: f32) {
  // expected-error @below {{expected as many identities and results as inputs (1), but got 2 and 1}}
  %r = tile_gpu.reduce ins(%s : !tile_gpu.frag<64x64xf32, acc>) identity(%z, %z : f32, f32) {
  ^bb0(%a: f32, %b: f32):
    tile_gpu.yield %a : f32
  } -> !tile_gpu.vec<64xf32, row>
  return
}

// -----

func.func @reduce_types(%s: !tile_gpu.frag<64x64xf32, acc>, %z: i32) {
  // expected-error @below {{expected input, identity and result of one element type, but got 'f32', 'i32' and 'f32'}}
  %r = tile_gpu.reduce ins(%s : !tile_gpu.frag<64x64xf32, acc>) identity(%z : i32) {
  ^bb0(%a: f32, %b: f32):
    tile_gpu.yield %a : f32
  } -> !tile_gpu.vec<64xf32, row>
  return
}

// -----

func.func @reduce_size(%s: !tile_gpu.frag<64x64xf32, acc>, %z: f32) {
  // expected-error @below {{expected a vector along an acc fragment, but got '!tile_gpu.frag<64x64xf32, acc>' to '!tile_gpu.vec<128xf32, col>'}}
  %r = tile_gpu.reduce ins(%s : !tile_gpu.frag<64x64xf32, acc>) identity(%z : f32) {
  ^bb0(%a: f32, %b: f32):
    tile_gpu.yield %a : f32
  } -> !tile_gpu.vec<128xf32, col>
  return
}

// -----

func.func @scan_identities(%s: !tile_gpu.frag<16x64xf32, acc, warp>, %z: f32) {
  // expected-error @below {{expected as many identities and results as inputs (1), but got 1 and 2}}
  %r:2 = tile_gpu.scan ins(%s : !tile_gpu.frag<16x64xf32, acc, warp>) identity(%z : f32) {
  ^bb0(%a: f32, %b: f32):
    tile_gpu.yield %b : f32
  } -> !tile_gpu.frag<16x64xf32, acc, warp>, !tile_gpu.frag<16x64xf32, acc, warp>
  return
}

// -----

func.func @scan_shapes(%s: !tile_gpu.frag<16x64xf32, acc, warp>, %t: !tile_gpu.frag<16x32xf32, acc, warp>, %z: f32) {
  // expected-error @below {{expected acc fragments of one shape and scope, but got '!tile_gpu.frag<16x64xf32, acc, warp>' and '!tile_gpu.frag<16x32xf32, acc, warp>'}}
  %r:2 = tile_gpu.scan ins(%s, %t : !tile_gpu.frag<16x64xf32, acc, warp>, !tile_gpu.frag<16x32xf32, acc, warp>) identity(%z, %z : f32, f32) {
  ^bb0(%a: f32, %b: f32, %c: f32, %d: f32):
    tile_gpu.yield %b, %a : f32, f32
  } -> !tile_gpu.frag<16x64xf32, acc, warp>, !tile_gpu.frag<16x32xf32, acc, warp>
  return
}

// -----

func.func @bulk_store_box(%t: !tile_gpu.smem<64x64xbf16 swizzle 128>, %m: !tile_gpu.tensor_map<128x64xbf16 swizzle 128>, %c: i32) {
  // expected-error @below {{expected a tile of the map's box '!tile_gpu.smem<128x64xbf16 swizzle 128>', but got '!tile_gpu.smem<64x64xbf16 swizzle 128>'}}
  tile_gpu.bulk.store %t, %m[%c, %c] : !tile_gpu.smem<64x64xbf16 swizzle 128>, !tile_gpu.tensor_map<128x64xbf16 swizzle 128>
  return
}

// -----

func.func @bulk_store_indices(%t: !tile_gpu.smem<64x64xbf16 swizzle 128>, %m: !tile_gpu.tensor_map<64x64xbf16 swizzle 128>, %c: i32) {
  // expected-error @below {{expected 2 to 4 indices, as many as the tensor of the map has dimensions, but got 1}}
  tile_gpu.bulk.store %t, %m[%c] : !tile_gpu.smem<64x64xbf16 swizzle 128>, !tile_gpu.tensor_map<64x64xbf16 swizzle 128>
  return
}

// -----

func.func @bulk_reduce_element(%t: !tile_gpu.smem<64x64xf32>, %m: memref<?x4096xbf16>, %c: i32) {
  // expected-error @below {{expected a tile and memory of f32, but got 'f32' and 'bf16'}}
  tile_gpu.bulk.reduce %t, %m[%c, %c] : !tile_gpu.smem<64x64xf32>, memref<?x4096xbf16>
  return
}

// -----

func.func @bulk_reduce_tile(%t: !tile_gpu.smem<64x64xf32 swizzle 128>, %m: memref<?x4096xf32>, %c: i32) {
  // expected-error @below {{expected a plain tile, but got '!tile_gpu.smem<64x64xf32 swizzle 128>'}}
  tile_gpu.bulk.reduce %t, %m[%c, %c] : !tile_gpu.smem<64x64xf32 swizzle 128>, memref<?x4096xf32>
  return
}

// -----

func.func @bulk_reduce_indices(%t: !tile_gpu.smem<64x64xf32>, %m: memref<?x4096xf32>, %c: i32) {
  // expected-error @below {{expected 2 indices, but got 1}}
  tile_gpu.bulk.reduce %t, %m[%c] : !tile_gpu.smem<64x64xf32>, memref<?x4096xf32>
  return
}

// -----

func.func @bulk_wait_pending() {
  // expected-error @below {{expected a number of pending copies, but got -1}}
  tile_gpu.bulk.wait pending(-1)
  return
}

// -----

func.func @global_rank(%f: !tile_gpu.frag<64x64xf32, acc>, %m: memref<?xf32>, %c: i32) {
  // expected-error @below {{expected a tensor of rank 2 or more, but got 1}}
  tile_gpu.global.store %f, %m[%c] : !tile_gpu.frag<64x64xf32, acc>, memref<?xf32>
  return
}

// -----

func.func @global_partial(%v: !tile_gpu.vec<64xf32, row, partial>, %m: memref<?xf32>, %c: i32) {
  // expected-error @below {{expected a vector that is not partial}}
  tile_gpu.global.store %v, %m[%c] : !tile_gpu.vec<64xf32, row, partial>, memref<?xf32>
  return
}

// -----

func.func @global_element(%f: !tile_gpu.frag<64x64xf32, acc>, %m: memref<?x?xi32>, %c: i32) {
  // expected-error @below {{expected memory of 'f32', bf16 or f16, but got 'i32'}}
  tile_gpu.global.store %f, %m[%c, %c] : !tile_gpu.frag<64x64xf32, acc>, memref<?x?xi32>
  return
}

// -----

func.func @global_load_element(%m: memref<?x?xf32>, %c: i32) {
  // expected-error @below {{expected memory of 'bf16', but got 'f32'}}
  %f = tile_gpu.global.load %m[%c, %c] : memref<?x?xf32> -> !tile_gpu.frag<64x64xbf16, a>
  return
}

// -----

func.func @pad_layout(%f: !tile_gpu.frag<64x64xbf16, a>) {
  // expected-error @below {{expected an f32 acc fragment, but got '!tile_gpu.frag<64x64xbf16, a>'}}
  %g = tile_gpu.frag.pad %f first 64 : !tile_gpu.frag<64x64xbf16, a> -> !tile_gpu.frag<64x128xbf16, a>
  return
}

// -----

func.func @pad_rows(%f: !tile_gpu.frag<64x64xf32, acc>) {
  // expected-error @below {{expected rows, elements and layout of '!tile_gpu.frag<64x64xf32, acc>', but got '!tile_gpu.frag<128x128xf32, acc>'}}
  %g = tile_gpu.frag.pad %f first 64 : !tile_gpu.frag<64x64xf32, acc> -> !tile_gpu.frag<128x128xf32, acc>
  return
}

// -----

func.func @pad_first(%f: !tile_gpu.frag<64x64xf32, acc>) {
  // expected-error @below {{expected 64 columns at a multiple of 8 within 128, but they start at 60}}
  %g = tile_gpu.frag.pad %f first 60 : !tile_gpu.frag<64x64xf32, acc> -> !tile_gpu.frag<64x128xf32, acc>
  return
}

// -----

func.func @cols_first(%f: !tile_gpu.frag<64x64xf32, acc>) {
  // expected-error @below {{expected 16 columns at a multiple of 8 within 64, but they start at 56}}
  %g = tile_gpu.frag.cols %f first 56 : !tile_gpu.frag<64x64xf32, acc> -> !tile_gpu.frag<64x16xf32, acc>
  return
}

// -----

func.func @cols_elements(%f: !tile_gpu.frag<64x64xi1, acc>) {
  // expected-error @below {{expected an f32 acc fragment, but got '!tile_gpu.frag<64x64xi1, acc>'}}
  %g = tile_gpu.frag.cols %f first 0 : !tile_gpu.frag<64x64xi1, acc> -> !tile_gpu.frag<64x16xi1, acc>
  return
}

// -----

func.func @bits_of_group(%f: !tile_gpu.frag<64x64xi1, acc>, %m: memref<64x2xi32>, %c: i32) {
  // expected-error @below {{expected a warp's fragment of i1 in the layout acc, but got '!tile_gpu.frag<64x64xi1, acc>'}}
  tile_gpu.global.store_bits %f, %m[] row(%c) column(%c) : !tile_gpu.frag<64x64xi1, acc>, memref<64x2xi32>
  return
}

// -----

func.func @bits_of_numbers(%f: !tile_gpu.frag<16x64xf32, acc, warp>, %m: memref<64x2xi32>, %c: i32) {
  // expected-error @below {{expected a warp's fragment of i1 in the layout acc, but got '!tile_gpu.frag<16x64xf32, acc, warp>'}}
  tile_gpu.global.store_bits %f, %m[] row(%c) column(%c) : !tile_gpu.frag<16x64xf32, acc, warp>, memref<64x2xi32>
  return
}

// -----

func.func @bits_rank(%f: !tile_gpu.frag<16x64xi1, acc, warp>, %m: memref<64x2xi32>, %c: i32) {
  // expected-error @below {{expected memory of i32 with two dimensions more than indices, but got 'memref<64x2xi32>' and 1 indices}}
  tile_gpu.global.store_bits %f, %m[%c] row(%c) column(%c) : !tile_gpu.frag<16x64xi1, acc, warp>, memref<64x2xi32>
  return
}

// -----

func.func @bits_columns(%f: !tile_gpu.frag<16x64xi1, acc, warp>, %m: memref<32x2xi32>, %c: i32) {
  // expected-error @below {{expected at least 64 columns of at least 1 words, but got 'memref<32x2xi32>'}}
  tile_gpu.global.store_bits %f, %m[] row(%c) column(%c) : !tile_gpu.frag<16x64xi1, acc, warp>, memref<32x2xi32>
  return
}

// -----

func.func @bits_apart(%f: !tile_gpu.frag<16x64xi1, acc, warp>, %m: memref<64x2xi32, strided<[1, 64]>>, %c: i32) {
  // expected-error @below {{expected words behind each other in memory, but got 'memref<64x2xi32, strided<[1, 64]>>'}}
  tile_gpu.global.store_bits %f, %m[] row(%c) column(%c) : !tile_gpu.frag<16x64xi1, acc, warp>, memref<64x2xi32, strided<[1, 64]>>
  return
}

// -----

func.func @permuted_scope(%m: memref<64x64xf32>, %c: i32) {
  // expected-error @below {{expected permuted columns, in runs of 2, 4 or 8 for each of four lanes, of a warp's f32 fragment acc or vector, but got 4 of '!tile_gpu.frag<64x64xf32, acc>'}}
  %f = tile_gpu.global.load %m[%c, %c] permuted(4) : memref<64x64xf32> -> !tile_gpu.frag<64x64xf32, acc>
  return
}

// -----

func.func @permuted_columns(%v: !tile_gpu.vec<16xf32, col, warp>, %m: memref<64xf32>, %c: i32) {
  // expected-error @below {{expected permuted columns, in runs of 2, 4 or 8 for each of four lanes, of a warp's f32 fragment acc or vector, but got 8 of '!tile_gpu.vec<16xf32, col, warp>'}}
  tile_gpu.global.store %v, %m[%c] permuted(8) : !tile_gpu.vec<16xf32, col, warp>, memref<64xf32>
  return
}

// -----

func.func @permuted_count(%v: !tile_gpu.vec<48xf32, col, warp>, %m: memref<64xf32>, %c: i32) {
  // expected-error @below {{but got 3 of '!tile_gpu.vec<48xf32, col, warp>'}}
  tile_gpu.global.store %v, %m[%c] permuted(3) : !tile_gpu.vec<48xf32, col, warp>, memref<64xf32>
  return
}

// -----

func.func @permuted_sum(%v: !tile_gpu.vec<32xf32, row, warp>, %m: memref<64xf32>, %c: i32) {
  // expected-error @below {{expected rows in their order; loads and stores alone permute them}}
  tile_gpu.global.reduce %v, %m[%c] permuted(4) : !tile_gpu.vec<32xf32, row, warp>, memref<64xf32>
  return
}

// -----

func.func @turn_of_wide_elements(%t: !tile_gpu.smem<64x128xf32>) {
  // expected-error @below {{expected a 16-bit tile of one box as it is stored}}
  tile_gpu.smem.turn %t, #attn.rotary<64, halves> {
  ^bb0(%r: i32, %c: i32, %x: f32, %y: f32):
    tile_gpu.yield %y, %x : f32, f32
  } : !tile_gpu.smem<64x128xf32>
  return
}

// -----

func.func @turn_of_odd_halves(%t: !tile_gpu.smem<64x128xbf16>) {
  // expected-error @below {{expected pairs of the 128 columns, of halves an even number, but got #attn.rotary<6, halves>}}
  tile_gpu.smem.turn %t, #attn.rotary<6, halves> {
  ^bb0(%r: i32, %c: i32, %x: bf16, %y: bf16):
    tile_gpu.yield %y, %x : bf16, bf16
  } : !tile_gpu.smem<64x128xbf16>
  return
}

// -----

func.func @turn_of_more_columns(%t: !tile_gpu.smem<64x128xbf16>) {
  // expected-error @below {{expected pairs of the 128 columns, of halves an even number, but got #attn.rotary<132, interleaved>}}
  tile_gpu.smem.turn %t, #attn.rotary<132, interleaved> {
  ^bb0(%r: i32, %c: i32, %x: bf16, %y: bf16):
    tile_gpu.yield %y, %x : bf16, bf16
  } : !tile_gpu.smem<64x128xbf16>
  return
}

// -----

func.func @turn_without_positions(%t: !tile_gpu.smem<64x128xbf16>) {
  // expected-error @below {{expected a body of a row, a pair and two 'bf16'}}
  tile_gpu.smem.turn %t, #attn.rotary<64, halves> {
  ^bb0(%x: bf16, %y: bf16):
    tile_gpu.yield %y, %x : bf16, bf16
  } : !tile_gpu.smem<64x128xbf16>
  return
}

// -----

func.func @turn_yields(%t: !tile_gpu.smem<64x128xbf16>) {
  // expected-error @below {{expected a body that yields two 'bf16'}}
  tile_gpu.smem.turn %t, #attn.rotary<64, halves> {
  ^bb0(%r: i32, %c: i32, %x: bf16, %y: bf16):
    tile_gpu.yield %y : bf16
  } : !tile_gpu.smem<64x128xbf16>
  return
}
