// RUN: attn-opt %s --split-input-file --verify-diagnostics

// Merges of states.

func.func @merge_scratch(%m: !tile_gpu.vec<8xf32, col, warp>, %o: !tile_gpu.frag<128x8xf32, acc, warp>, %s: !tile_gpu.smem<8x128xf32>) {
  // expected-error @below {{expected a scratch tile of 33024 bytes or more (8 states of 4128), but got 4096}}
  %m1, %o1 = tile_gpu.merge_states warps stats(%m : !tile_gpu.vec<8xf32, col, warp>) values(%o : !tile_gpu.frag<128x8xf32, acc, warp>) scratch(%s : !tile_gpu.smem<8x128xf32>) count(8) {
  ^bb0(%a: f32, %b: f32):
    tile_gpu.yield %a, %a, %b : f32, f32, f32
  } -> !tile_gpu.vec<8xf32, col, warp>, !tile_gpu.frag<16x8xf32, acc, warp>
  return
}

// -----

func.func @merge_pair(%m: !tile_gpu.vec<8xf32, col, warp>, %o: !tile_gpu.frag<16x8xf32, acc, warp>) {
  // expected-error @below {{expected two states with pair, but got 1 statistic(s) and 1 value(s)}}
  %m1, %o1 = tile_gpu.merge_states pair stats(%m : !tile_gpu.vec<8xf32, col, warp>) values(%o : !tile_gpu.frag<16x8xf32, acc, warp>) {
  ^bb0(%a: f32, %b: f32):
    tile_gpu.yield %a, %a, %b : f32, f32, f32
  } -> !tile_gpu.vec<8xf32, col, warp>, !tile_gpu.frag<16x8xf32, acc, warp>
  return
}

// -----

func.func @merge_factors(%m: !tile_gpu.vec<8xf32, col, warp>, %o: !tile_gpu.frag<16x8xf32, acc, warp>, %s: !tile_gpu.smem<64x64xf32>) {
  // expected-error @below {{expected the body to yield 3 value(s), but got 1}}
  %m1, %o1 = tile_gpu.merge_states warps stats(%m : !tile_gpu.vec<8xf32, col, warp>) values(%o : !tile_gpu.frag<16x8xf32, acc, warp>) scratch(%s : !tile_gpu.smem<64x64xf32>) count(2) {
  ^bb0(%a: f32, %b: f32):
    tile_gpu.yield %a : f32
  } -> !tile_gpu.vec<8xf32, col, warp>, !tile_gpu.frag<16x8xf32, acc, warp>
  return
}

// -----

func.func @merge_count(%m: !tile_gpu.vec<8xf32, col, warp>, %o: !tile_gpu.frag<16x8xf32, acc, warp>) {
  // expected-error @below {{expected count(n) with warps and cluster only}}
  %m1, %o1 = tile_gpu.merge_states pair stats(%m, %m : !tile_gpu.vec<8xf32, col, warp>, !tile_gpu.vec<8xf32, col, warp>) values(%o, %o : !tile_gpu.frag<16x8xf32, acc, warp>, !tile_gpu.frag<16x8xf32, acc, warp>) count(2) {
  ^bb0(%a: f32, %b: f32):
    tile_gpu.yield %a, %a, %b : f32, f32, f32
  } -> !tile_gpu.vec<8xf32, col, warp>, !tile_gpu.frag<16x8xf32, acc, warp>
  return
}

// -----

func.func @merge_none(%m: !tile_gpu.vec<8xf32, col, warp>, %o: !tile_gpu.frag<16x8xf32, acc, warp>, %s: !tile_gpu.smem<64x64xf32>) {
  // expected-error @below {{expected 1 state or more, but got 0}}
  %m1, %o1 = tile_gpu.merge_states warps stats(%m : !tile_gpu.vec<8xf32, col, warp>) values(%o : !tile_gpu.frag<16x8xf32, acc, warp>) scratch(%s : !tile_gpu.smem<64x64xf32>) count(0) {
  ^bb0(%a: f32, %b: f32):
    tile_gpu.yield %a, %a, %b : f32, f32, f32
  } -> !tile_gpu.vec<8xf32, col, warp>, !tile_gpu.frag<16x8xf32, acc, warp>
  return
}

// -----

func.func @merge_no_scratch(%m: !tile_gpu.vec<8xf32, col, warp>, %o: !tile_gpu.frag<16x8xf32, acc, warp>) {
  // expected-error @below {{expected scratch(...) with warps only}}
  %m1, %o1 = tile_gpu.merge_states warps stats(%m : !tile_gpu.vec<8xf32, col, warp>) values(%o : !tile_gpu.frag<16x8xf32, acc, warp>) count(2) {
  ^bb0(%a: f32, %b: f32):
    tile_gpu.yield %a, %a, %b : f32, f32, f32
  } -> !tile_gpu.vec<8xf32, col, warp>, !tile_gpu.frag<16x8xf32, acc, warp>
  return
}

// -----

func.func @merge_ring(%m: !tile_gpu.vec<8xf32, col, warp>, %o: !tile_gpu.frag<16x8xf32, acc, warp>) {
  // expected-error @below {{expected ring(...) and part(...) with cluster only}}
  %m1, %o1 = tile_gpu.merge_states cluster stats(%m : !tile_gpu.vec<8xf32, col, warp>) values(%o : !tile_gpu.frag<16x8xf32, acc, warp>) count(2) {
  ^bb0(%a: f32, %b: f32):
    tile_gpu.yield %a, %a, %b : f32, f32, f32
  } -> !tile_gpu.vec<8xf32, col, warp>, !tile_gpu.frag<16x8xf32, acc, warp>
  return
}

// -----

func.func @merge_results(%m: !tile_gpu.vec<8xf32, col, warp>, %o: !tile_gpu.frag<16x8xf32, acc, warp>, %s: !tile_gpu.smem<64x64xf32>) {
  // expected-error @below {{expected 2 results, but got 1}}
  %m1 = tile_gpu.merge_states warps stats(%m : !tile_gpu.vec<8xf32, col, warp>) values(%o : !tile_gpu.frag<16x8xf32, acc, warp>) scratch(%s : !tile_gpu.smem<64x64xf32>) count(2) {
  ^bb0(%a: f32, %b: f32):
    tile_gpu.yield %a, %a, %b : f32, f32, f32
  } -> !tile_gpu.vec<8xf32, col, warp>
  return
}

// -----

func.func @merge_pair_types(%m: !tile_gpu.vec<8xf32, col, warp>, %n: !tile_gpu.vec<16xf32, col, warp>, %o: !tile_gpu.frag<16x8xf32, acc, warp>) {
  // expected-error @below {{expected both states to have the same types}}
  %m1, %o1 = tile_gpu.merge_states pair stats(%m, %n : !tile_gpu.vec<8xf32, col, warp>, !tile_gpu.vec<16xf32, col, warp>) values(%o, %o : !tile_gpu.frag<16x8xf32, acc, warp>, !tile_gpu.frag<16x8xf32, acc, warp>) {
  ^bb0(%a: f32, %b: f32):
    tile_gpu.yield %a, %a, %b : f32, f32, f32
  } -> !tile_gpu.vec<8xf32, col, warp>, !tile_gpu.frag<16x8xf32, acc, warp>
  return
}

// -----

func.func @merge_scopes(%m: !tile_gpu.vec<8xf32, col, warp>, %o: !tile_gpu.frag<64x8xf32, acc>, %s: !tile_gpu.smem<64x64xf32>) {
  // expected-error @below {{expected states of one scope}}
  %m1, %o1 = tile_gpu.merge_states warps stats(%m : !tile_gpu.vec<8xf32, col, warp>) values(%o : !tile_gpu.frag<64x8xf32, acc>) scratch(%s : !tile_gpu.smem<64x64xf32>) count(2) {
  ^bb0(%a: f32, %b: f32):
    tile_gpu.yield %a, %a, %b : f32, f32, f32
  } -> !tile_gpu.vec<8xf32, col, warp>, !tile_gpu.frag<64x8xf32, acc>
  return
}

// -----

func.func @merge_partial(%m: !tile_gpu.vec<8xf32, col, warp, partial>, %o: !tile_gpu.frag<16x8xf32, acc, warp>, %s: !tile_gpu.smem<64x64xf32>) {
  // expected-error @below {{expected complete vectors; reduce a partial one first}}
  %m1, %o1 = tile_gpu.merge_states warps stats(%m : !tile_gpu.vec<8xf32, col, warp, partial>) values(%o : !tile_gpu.frag<16x8xf32, acc, warp>) scratch(%s : !tile_gpu.smem<64x64xf32>) count(2) {
  ^bb0(%a: f32, %b: f32):
    tile_gpu.yield %a, %a, %b : f32, f32, f32
  } -> !tile_gpu.vec<8xf32, col, warp, partial>, !tile_gpu.frag<16x8xf32, acc, warp>
  return
}

// -----

func.func @merge_result_type(%m: !tile_gpu.vec<8xf32, col, warp>, %o: !tile_gpu.frag<16x8xf32, acc, warp>, %s: !tile_gpu.smem<64x64xf32>) {
  // expected-error @below {{expected result '!tile_gpu.frag<16x8xf32, acc, warp>' or, of a fragment, its rows split over the warps, but got '!tile_gpu.frag<16x16xf32, acc, warp>'}}
  %m1, %o1 = tile_gpu.merge_states warps stats(%m : !tile_gpu.vec<8xf32, col, warp>) values(%o : !tile_gpu.frag<16x8xf32, acc, warp>) scratch(%s : !tile_gpu.smem<64x64xf32>) count(2) {
  ^bb0(%a: f32, %b: f32):
    tile_gpu.yield %a, %a, %b : f32, f32, f32
  } -> !tile_gpu.vec<8xf32, col, warp>, !tile_gpu.frag<16x16xf32, acc, warp>
  return
}

// -----

func.func @merge_result_rows(%m: !tile_gpu.vec<8xf32, col, warp>, %o: !tile_gpu.frag<64x8xf32, acc, warp>, %s: !tile_gpu.smem<64x64xf32>) {
  // expected-error @below {{expected result '!tile_gpu.frag<64x8xf32, acc, warp>' or, of a fragment, its rows split over the warps, but got '!tile_gpu.frag<16x8xf32, acc, warp>'}}
  %m1, %o1 = tile_gpu.merge_states warps stats(%m : !tile_gpu.vec<8xf32, col, warp>) values(%o : !tile_gpu.frag<64x8xf32, acc, warp>) scratch(%s : !tile_gpu.smem<64x64xf32>) count(2) {
  ^bb0(%a: f32, %b: f32):
    tile_gpu.yield %a, %a, %b : f32, f32, f32
  } -> !tile_gpu.vec<8xf32, col, warp>, !tile_gpu.frag<16x8xf32, acc, warp>
  return
}

// -----

func.func @merge_elements(%m: !tile_gpu.vec<8xf32, col, warp>, %o: !tile_gpu.frag<16x8xbf16, acc, warp>, %s: !tile_gpu.smem<64x64xf32>) {
  // expected-error @below {{expected values in f32 vectors and acc fragments, but got '!tile_gpu.frag<16x8xbf16, acc, warp>'}}
  %m1, %o1 = tile_gpu.merge_states warps stats(%m : !tile_gpu.vec<8xf32, col, warp>) values(%o : !tile_gpu.frag<16x8xbf16, acc, warp>) scratch(%s : !tile_gpu.smem<64x64xf32>) count(2) {
  ^bb0(%a: f32, %b: f32):
    tile_gpu.yield %a, %a, %b : f32, f32, f32
  } -> !tile_gpu.vec<8xf32, col, warp>, !tile_gpu.frag<16x8xbf16, acc, warp>
  return
}

// -----

// A factor for each of 8 columns, but 16 columns to scale.
func.func @merge_along(%m: !tile_gpu.vec<8xf32, col, warp>, %o: !tile_gpu.frag<16x16xf32, acc, warp>, %s: !tile_gpu.smem<64x64xf32>) {
  // expected-error @below {{expected statistics and values along '!tile_gpu.vec<8xf32, col, warp>', but got '!tile_gpu.frag<16x16xf32, acc, warp>'}}
  %m1, %o1 = tile_gpu.merge_states warps stats(%m : !tile_gpu.vec<8xf32, col, warp>) values(%o : !tile_gpu.frag<16x16xf32, acc, warp>) scratch(%s : !tile_gpu.smem<64x64xf32>) count(2) {
  ^bb0(%a: f32, %b: f32):
    tile_gpu.yield %a, %a, %b : f32, f32, f32
  } -> !tile_gpu.vec<8xf32, col, warp>, !tile_gpu.frag<16x16xf32, acc, warp>
  return
}

// -----

// The warps share out the rows only where the factors belong to columns.
func.func @merge_split_rows(%m: !tile_gpu.vec<32xf32, row, warp>, %o: !tile_gpu.frag<32x8xf32, acc, warp>, %s: !tile_gpu.smem<64x64xf32>) {
  // expected-error @below {{expected result '!tile_gpu.frag<32x8xf32, acc, warp>', but got '!tile_gpu.frag<16x8xf32, acc, warp>'}}
  %m1, %o1 = tile_gpu.merge_states warps stats(%m : !tile_gpu.vec<32xf32, row, warp>) values(%o : !tile_gpu.frag<32x8xf32, acc, warp>) scratch(%s : !tile_gpu.smem<64x64xf32>) count(2) {
  ^bb0(%a: f32, %b: f32):
    tile_gpu.yield %a, %a, %b : f32, f32, f32
  } -> !tile_gpu.vec<32xf32, row, warp>, !tile_gpu.frag<16x8xf32, acc, warp>
  return
}

// -----

func.func @merge_many(%m: !tile_gpu.vec<8xf32, col, warp>, %o: !tile_gpu.frag<16x8xf32, acc, warp>, %s: !tile_gpu.smem<64x64xf32>) {
  // expected-error @below {{expected at most 1048576 states, but got 4611686018427387904}}
  %m1, %o1 = tile_gpu.merge_states warps stats(%m : !tile_gpu.vec<8xf32, col, warp>) values(%o : !tile_gpu.frag<16x8xf32, acc, warp>) scratch(%s : !tile_gpu.smem<64x64xf32>) count(4611686018427387904) {
  ^bb0(%a: f32, %b: f32):
    tile_gpu.yield %a, %a, %b : f32, f32, f32
  } -> !tile_gpu.vec<8xf32, col, warp>, !tile_gpu.frag<16x8xf32, acc, warp>
  return
}
// -----

// Rows of values are those of two warps, in sixteens.
func.func @merge_cluster_axis(%m: !tile_gpu.vec<16xf32, row, warp>, %o: !tile_gpu.frag<16x8xf32, acc, warp>, %r: !tile_gpu.ring<1, 2x144xf32>, %c: i32) {
  // expected-error @below {{expected statistics of columns with cluster}}
  %m1, %o1 = tile_gpu.merge_states cluster stats(%m : !tile_gpu.vec<16xf32, row, warp>) values(%o : !tile_gpu.frag<16x8xf32, acc, warp>) ring(%r[%c] : !tile_gpu.ring<1, 2x144xf32>) part(%c) count(2) {
  ^bb0(%a: f32, %b: f32):
    tile_gpu.yield %a, %a, %b : f32, f32, f32
  } -> !tile_gpu.vec<16xf32, row, warp>, !tile_gpu.frag<16x8xf32, acc, warp>
  return
}

// -----

func.func @merge_cluster_result(%m: !tile_gpu.vec<8xf32, col, warp>, %o: !tile_gpu.frag<32x8xf32, acc, warp>, %r: !tile_gpu.ring<1, 2x136xf32>, %c: i32) {
  // expected-error @below {{expected 16 rows of '!tile_gpu.frag<32x8xf32, acc, warp>' with cluster, but got '!tile_gpu.frag<32x8xf32, acc, warp>'}}
  %m1, %o1 = tile_gpu.merge_states cluster stats(%m : !tile_gpu.vec<8xf32, col, warp>) values(%o : !tile_gpu.frag<32x8xf32, acc, warp>) ring(%r[%c] : !tile_gpu.ring<1, 2x136xf32>) part(%c) count(2) {
  ^bb0(%a: f32, %b: f32):
    tile_gpu.yield %a, %a, %b : f32, f32, f32
  } -> !tile_gpu.vec<8xf32, col, warp>, !tile_gpu.frag<32x8xf32, acc, warp>
  return
}

// -----

func.func @merge_cluster_ring(%m: !tile_gpu.vec<8xf32, col, warp>, %o: !tile_gpu.frag<32x8xf32, acc, warp>, %r: !tile_gpu.ring<1, 2x128xf32>, %c: i32) {
  // expected-error @below {{expected a ring of tiles of a multiple of 2 rows of 136 floats, but got '!tile_gpu.ring<1, 2x128xf32>'}}
  %m1, %o1 = tile_gpu.merge_states cluster stats(%m : !tile_gpu.vec<8xf32, col, warp>) values(%o : !tile_gpu.frag<32x8xf32, acc, warp>) ring(%r[%c] : !tile_gpu.ring<1, 2x128xf32>) part(%c) count(2) {
  ^bb0(%a: f32, %b: f32):
    tile_gpu.yield %a, %a, %b : f32, f32, f32
  } -> !tile_gpu.vec<8xf32, col, warp>, !tile_gpu.frag<16x8xf32, acc, warp>
  return
}

// -----

// Each block combines as many rows of a warpgroup's, a multiple of 64.
func.func @merge_cluster_group(%m: !tile_gpu.vec<8xf32, col>, %o: !tile_gpu.frag<64x8xf32, acc>, %r: !tile_gpu.ring<1, 2x264xf32>, %c: i32) {
  // expected-error @below {{expected 32 rows of '!tile_gpu.frag<64x8xf32, acc>' with cluster, but got '!tile_gpu.frag<64x8xf32, acc>'}}
  %m1, %o1 = tile_gpu.merge_states cluster stats(%m : !tile_gpu.vec<8xf32, col>) values(%o : !tile_gpu.frag<64x8xf32, acc>) ring(%r[%c] : !tile_gpu.ring<1, 2x264xf32>) part(%c) count(2) {
  ^bb0(%a: f32, %b: f32):
    tile_gpu.yield %a, %a, %b : f32, f32, f32
  } -> !tile_gpu.vec<8xf32, col>, !tile_gpu.frag<64x8xf32, acc>
  return
}

// -----

func.func @merge_cluster_group_ring(%m: !tile_gpu.vec<8xf32, col>, %o: !tile_gpu.frag<128x8xf32, acc>, %r: !tile_gpu.ring<1, 2x136xf32>, %c: i32) {
  // expected-error @below {{expected a ring of tiles of a multiple of 2 rows of 520 floats, but got '!tile_gpu.ring<1, 2x136xf32>'}}
  %m1, %o1 = tile_gpu.merge_states cluster stats(%m : !tile_gpu.vec<8xf32, col>) values(%o : !tile_gpu.frag<128x8xf32, acc>) ring(%r[%c] : !tile_gpu.ring<1, 2x136xf32>) part(%c) count(2) {
  ^bb0(%a: f32, %b: f32):
    tile_gpu.yield %a, %a, %b : f32, f32, f32
  } -> !tile_gpu.vec<8xf32, col>, !tile_gpu.frag<64x8xf32, acc>
  return
}
