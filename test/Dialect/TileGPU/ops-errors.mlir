// RUN: attn-opt %s --split-input-file --verify-diagnostics

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

// expected-error @below {{expected the rows of a warpgroup acc fragment to be a multiple of 64, but got 16}}
func.func private @frag_rows(!tile_gpu.frag<16x8xf32, acc>)

// -----

// expected-error @below {{expected the columns of a warp a fragment to be a multiple of 16, but got 8}}
func.func private @frag_cols(!tile_gpu.frag<16x8xbf16, a, warp>)

// -----

// expected-error @below {{expected a b fragment to have warp scope; a warpgroup reads its right operand from shared memory}}
func.func private @frag_b(!tile_gpu.frag<64x64xbf16, b>)

// -----

// expected-error @below {{expected an operand fragment of bf16 or f16, but got 'f32'}}
func.func private @frag_operand(!tile_gpu.frag<64x64xf32, a>)

// -----

// expected-error @below {{expected a layout of acc, a or b, but got 'c'}}
func.func private @frag_layout(!tile_gpu.frag<64x64xf32, c>)

// -----

// expected-error @below {{expected 2 dimension(s), but got 3}}
func.func private @frag_rank(!tile_gpu.frag<2x64x64xf32, acc>)

// -----

// expected-error @below {{expected an axis of row or col, but got 'diagonal'}}
func.func private @vec_axis(!tile_gpu.vec<64xf32, diagonal>)

// -----

// expected-error @below {{expected the size of a warp row vector to be a multiple of 16, but got 8}}
func.func private @vec_size(!tile_gpu.vec<8xf32, row, warp>)

// -----

// expected-error @below {{expected a swizzle of 32, 64 or 128 bytes, but got 16}}
func.func private @smem_swizzle(!tile_gpu.smem<64x64xbf16 swizzle 16>)

// -----

// A slice of half a swizzled panel has no descriptor.
// expected-error @below {{expected rows of a multiple of 128 bytes for this swizzle, but got 64 bytes}}
func.func private @smem_panel(!tile_gpu.smem<64x32xbf16 swizzle 128>)

// -----

// expected-error @below {{expected a multiple of 8 rows in each swizzled box, but got 4}}
func.func private @smem_boxes(!tile_gpu.smem<64x64xbf16 swizzle 128 boxes 16>)

// -----

// expected-error @below {{expected a pitch of 64 rows or more, but got 32}}
func.func private @smem_pitch(!tile_gpu.smem<64x64xbf16 swizzle 128 pitch 32>)

// -----

// expected-error @below {{expected a ring of 1 slot or more, but got 0}}
func.func private @ring_stages(!tile_gpu.ring<0, 64x64xbf16 swizzle 128>)

// -----

// expected-error @below {{expected ring tiles as they are stored}}
func.func private @ring_view(!tile_gpu.ring<2, 64x64xbf16 swizzle 128 transposed>)

// -----

// expected-error @below {{expected products to accumulate in f32, but got 'bf16'}}
func.func private @token(!tile_gpu.token<64x64xbf16>)

//===----------------------------------------------------------------------===//
// Structure
//===----------------------------------------------------------------------===//

// -----

func.func @role_outside_kernel() {
  // expected-error @below {{expected to be in a function with the attribute tile_gpu.kernel}}
  tile_gpu.role "a" warps(1) {
  ^bb0(%w: i32):
    tile_gpu.yield
  }
  return
}

// -----

func.func @role_registers() attributes {tile_gpu.kernel} {
  // expected-error @below {{expected registers to be a multiple of 8 from 24 on, but got 25}}
  tile_gpu.role "a" warps(1) registers(25) {
  ^bb0(%w: i32):
    tile_gpu.yield
  }
  return
}

// -----

func.func @role_argument() attributes {tile_gpu.kernel} {
  // expected-error @below {{expected one block argument of type i32, the number of the warp or warpgroup}}
  tile_gpu.role "a" warps(1) {
    tile_gpu.yield
  }
  return
}

// -----

// expected-error @below {{expected a tile_gpu.kernel to have no results, but got 1}}
func.func private @kernel_results() -> i32 attributes {tile_gpu.kernel}

// -----

func.func @scheduler_tickets(%n: i32) attributes {tile_gpu.kernel} {
  // expected-error @below {{expected tickets(...) with a dynamic schedule}}
  %s = tile_gpu.scheduler dynamic in_order tiles(%n) heads(%n) batch(%n) {
  ^bb0(%t: i32, %h: i32, %b: i32, %x: i32):
    tile_gpu.yield %n, %n : i32, i32
  }
  return
}

// -----

func.func @scheduler_keys(%n: i32) attributes {tile_gpu.kernel} {
  // expected-error @below {{expected the body to yield the first key and the end of keys, both i32}}
  %s = tile_gpu.scheduler grid in_order tiles(%n) heads(%n) batch(%n) {
  ^bb0(%t: i32, %h: i32, %b: i32, %x: i32):
    tile_gpu.yield %n : i32
  }
  return
}

// -----

func.func @scheduler_more(%n: i32, %x: f64) attributes {tile_gpu.kernel} {
  // expected-error @below {{expected further values of i1, i32, i64, index or f32, but got 'f64'}}
  %s = tile_gpu.scheduler grid in_order tiles(%n) heads(%n) batch(%n) {
  ^bb0(%t: i32, %h: i32, %b: i32, %y: i32):
    tile_gpu.yield %n, %n, %x : i32, i32, f64
  }
  return
}

// -----

func.func @foreach_more(%n: i32, %wide: i64) attributes {tile_gpu.kernel} {
  // expected-note @below {{schedule defined here}}
  %s = tile_gpu.scheduler grid in_order tiles(%n) heads(%n) batch(%n) {
  ^bb0(%t: i32, %h: i32, %b: i32, %y: i32):
    tile_gpu.yield %n, %n, %wide : i32, i32, i64
  }
  // expected-error @below {{expected 1 block arguments for what the schedule yields beyond its keys, of its types}}
  tile_gpu.foreach %s {
  ^bb0(%t: i32, %h: i32, %b: i32, %x: i32, %lo: i32, %hi: i32, %more: i32):
    tile_gpu.yield
  }
  return
}

// -----

func.func @foreach_few(%s: !tile_gpu.schedule, %c: i32) {
  // expected-error @below {{expected 6 block arguments for the item and 1 for the initial values, but got 6}}
  %r = tile_gpu.foreach %s iter_args(%c : i32) {
  ^bb0(%t: i32, %h: i32, %b: i32, %x: i32, %lo: i32, %hi: i32):
    tile_gpu.yield %c : i32
  } -> i32
  return
}

// -----

func.func @foreach_carried(%s: !tile_gpu.schedule, %c: i32) {
  // expected-error @below {{expected initial values, carried block arguments, yielded values and results of the same types}}
  %r = tile_gpu.foreach %s iter_args(%c : i32) {
  ^bb0(%t: i32, %h: i32, %b: i32, %x: i32, %lo: i32, %hi: i32, %k: i32):
    tile_gpu.yield
  } -> i32
  return
}

// -----

func.func @foreach_arguments(%s: !tile_gpu.schedule) {
  // expected-error @below {{expected i32 block arguments (tile, head, batch, split, first key, end of keys)}}
  tile_gpu.foreach %s {
  ^bb0(%t: i32):
    tile_gpu.yield
  }
  return
}

//===----------------------------------------------------------------------===//
// Rings
//===----------------------------------------------------------------------===//

// -----

func.func @ring_producers() {
  // expected-error @below {{expected no producers(...) with tma: its one arrival announces the bytes}}
  %r = tile_gpu.ring.create tma producers(1) consumers(8) : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
  return
}

// -----

func.func @ring_no_producers() {
  // expected-error @below {{expected producers(warps) with this fill}}
  %r = tile_gpu.ring.create cp_async consumers(8) : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
  return
}

// -----

func.func @exchange_slots() {
  // expected-error @below {{expected an exchange ring of 2 slots or more, but got 1}}
  %r = tile_gpu.ring.create exchange producers(8) : !tile_gpu.ring<1, 64x64xbf16 swizzle 128>
  return
}

// -----

func.func @load_not_acquired(%c: i32, %m: !tile_gpu.tensor_map<64x64xbf16 swizzle 128>) {
  %r = tile_gpu.ring.create tma consumers(8) : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
  %t = tile_gpu.ring.wait %r[%c] : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
  // expected-error @below {{expected a tile of ring.acquire: its slot counts the copy}}
  tile_gpu.ring.load %m[%c, %c], %t : !tile_gpu.tensor_map<64x64xbf16 swizzle 128>, !tile_gpu.smem<64x64xbf16 swizzle 128>
  return
}

// -----

func.func @load_box(%c: i32, %m: !tile_gpu.tensor_map<64x128xbf16 swizzle 128>) {
  %r = tile_gpu.ring.create tma consumers(8) : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
  %t = tile_gpu.ring.acquire %r[%c] : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
  // expected-error @below {{expected a tensor map with boxes of '!tile_gpu.smem<64x64xbf16 swizzle 128>', but got '!tile_gpu.smem<64x128xbf16 swizzle 128>'}}
  tile_gpu.ring.load %m[%c, %c], %t : !tile_gpu.tensor_map<64x128xbf16 swizzle 128>, !tile_gpu.smem<64x64xbf16 swizzle 128>
  return
}

// -----

func.func @load_which_box(%c: i32, %m: !tile_gpu.tensor_map<16x64xbf16 swizzle 128>) {
  %r = tile_gpu.ring.create tma consumers(8) : !tile_gpu.ring<2, 64x64xbf16 swizzle 128 boxes 4>
  %t = tile_gpu.ring.acquire %r[%c] : !tile_gpu.ring<2, 64x64xbf16 swizzle 128 boxes 4>
  // expected-error @below {{expected box(...): this tile has 4 boxes}}
  tile_gpu.ring.load %m[%c, %c], %t : !tile_gpu.tensor_map<16x64xbf16 swizzle 128>, !tile_gpu.smem<64x64xbf16 swizzle 128 boxes 4>
  return
}

// -----

func.func @commit_tma(%c: i32) {
  %r = tile_gpu.ring.create tma consumers(8) : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
  // expected-error @below {{expected a ring filled by cp_async or warps, but got tma, which becomes full by its bytes}}
  tile_gpu.ring.commit %r[%c] : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
  return
}

// -----

func.func @release_unconsumed(%c: i32) {
  %r = tile_gpu.ring.create tma : !tile_gpu.ring<1, 64x64xbf16 swizzle 128>
  // expected-error @below {{expected a ring with consumers(warps), whose empty barrier counts the release}}
  tile_gpu.ring.release %r[%c] : !tile_gpu.ring<1, 64x64xbf16 swizzle 128>
  return
}

// -----

func.func @exchange_part(%f: !tile_gpu.frag<64x64xbf16, a>, %c: i32) {
  %r = tile_gpu.ring.create exchange producers(8) : !tile_gpu.ring<2, 64x96xbf16 swizzle 64>
  // expected-error @below {{expected parts that divide the tile of 64x96, but got 64x64}}
  tile_gpu.exchange %f, %r[%c] at(%c, %c) transposed : !tile_gpu.frag<64x64xbf16, a>, !tile_gpu.ring<2, 64x96xbf16 swizzle 64>
  return
}

//===----------------------------------------------------------------------===//
// Views and fragments
//===----------------------------------------------------------------------===//

// -----

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
  // expected-error @below {{expected a plain tile with fragment_order}}
  tile_gpu.frag.store %f, %t fragment_order : !tile_gpu.frag<64x64xf32, acc>, !tile_gpu.smem<64x64xf32 swizzle 128>
  return
}

// -----

func.func @vec_load(%t: !tile_gpu.smem<1x32xf32>) {
  // expected-error @below {{expected a tile of one row of 64 'f32', but got '!tile_gpu.smem<1x32xf32>'}}
  %v = tile_gpu.vec.load %t : !tile_gpu.smem<1x32xf32> -> !tile_gpu.vec<64xf32, col>
  return
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

// -----

func.func @issue_depth(%a: !tile_gpu.smem<64x128xbf16 swizzle 128>, %b: !tile_gpu.smem<64x128xbf16 swizzle 128>) {
  // expected-error @below {{expected the columns of a to be the rows of b, but got 128 and 64}}
  %t = tile_gpu.mma.issue %a, %b : !tile_gpu.smem<64x128xbf16 swizzle 128>, !tile_gpu.smem<64x128xbf16 swizzle 128> -> !tile_gpu.token<64x128xf32>
  return
}

// -----

func.func @issue_shape(%a: !tile_gpu.smem<64x64xbf16 swizzle 128>, %b: !tile_gpu.smem<64x128xbf16 swizzle 128>) {
  // expected-error @below {{expected an accumulator of 64x128, but got 64x64}}
  %t = tile_gpu.mma.issue %a, %b : !tile_gpu.smem<64x64xbf16 swizzle 128>, !tile_gpu.smem<64x128xbf16 swizzle 128> -> !tile_gpu.token<64x64xf32>
  return
}

// -----

func.func @issue_k(%a: !tile_gpu.smem<64x8xbf16>, %b: !tile_gpu.smem<8x64xbf16>) {
  // expected-error @below {{expected a depth K of a multiple of 16, but got 8}}
  %t = tile_gpu.mma.issue %a, %b : !tile_gpu.smem<64x8xbf16>, !tile_gpu.smem<8x64xbf16> -> !tile_gpu.token<64x64xf32>
  return
}

// -----

func.func @issue_wide(%a: !tile_gpu.smem<64x64xbf16 swizzle 128>, %b: !tile_gpu.smem<64x512xbf16 swizzle 128>) {
  // expected-error @below {{expected at most 256 columns, but got 512}}
  %t = tile_gpu.mma.issue %a, %b : !tile_gpu.smem<64x64xbf16 swizzle 128>, !tile_gpu.smem<64x512xbf16 swizzle 128> -> !tile_gpu.token<64x512xf32>
  return
}

// -----

func.func @issue_types(%a: !tile_gpu.smem<64x64xbf16 swizzle 128>, %b: !tile_gpu.smem<64x64xf16 swizzle 128>) {
  // expected-error @below {{expected both operands of bf16 or both of f16, but got 'bf16' and 'f16'}}
  %t = tile_gpu.mma.issue %a, %b : !tile_gpu.smem<64x64xbf16 swizzle 128>, !tile_gpu.smem<64x64xf16 swizzle 128> -> !tile_gpu.token<64x64xf32>
  return
}

// -----

func.func @issue_fragment(%a: !tile_gpu.frag<64x64xbf16, acc>, %b: !tile_gpu.smem<64x64xbf16 swizzle 128>) {
  // expected-error @below {{expected a to be an a fragment of a warpgroup, but got '!tile_gpu.frag<64x64xbf16, acc>'}}
  %t = tile_gpu.mma.issue %a, %b : !tile_gpu.frag<64x64xbf16, acc>, !tile_gpu.smem<64x64xbf16 swizzle 128> -> !tile_gpu.token<64x64xf32>
  return
}

// -----

func.func @sync_operand(%a: !tile_gpu.frag<64x64xbf16, a>, %b: !tile_gpu.frag<64x8xbf16, b, warp>, %c: !tile_gpu.frag<64x8xf32, acc, warp>) {
  // expected-error @below {{expected operand a to be a warp's a fragment or a tile, but got '!tile_gpu.frag<64x64xbf16, a>'}}
  %t = tile_gpu.mma.sync %a, %b, %c : !tile_gpu.frag<64x64xbf16, a>, !tile_gpu.frag<64x8xbf16, b, warp> -> !tile_gpu.frag<64x8xf32, acc, warp>
  return
}

//===----------------------------------------------------------------------===//
// Elementwise, reductions, merges
//===----------------------------------------------------------------------===//

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

func.func @merge_factors(%m: !tile_gpu.vec<8xf32, col, warp>, %o: !tile_gpu.frag<16x8xf32, acc, warp>) {
  // expected-error @below {{expected the body to yield 3 value(s), but got 1}}
  %m1, %o1 = tile_gpu.merge_states cluster stats(%m : !tile_gpu.vec<8xf32, col, warp>) values(%o : !tile_gpu.frag<16x8xf32, acc, warp>) count(2) {
  ^bb0(%a: f32, %b: f32):
    tile_gpu.yield %a : f32
  } -> !tile_gpu.vec<8xf32, col, warp>, !tile_gpu.frag<16x8xf32, acc, warp>
  return
}

//===----------------------------------------------------------------------===//
// Memory and plan
//===----------------------------------------------------------------------===//

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

func.func @map_stride(%m: memref<?x?xbf16, strided<[?, 2]>>) {
  // expected-error @below {{expected unit stride in the last dimension}}
  %t = tile_gpu.tensor_map %m : memref<?x?xbf16, strided<[?, 2]>> -> !tile_gpu.tensor_map<64x64xbf16 swizzle 128>
  return
}

// -----

// expected-error @below {{expected one whole box as it is stored}}
func.func private @map_box(!tile_gpu.tensor_map<64x64xbf16 swizzle 128 transposed>)

// -----

func.func private @not_a_kernel()
func.func @launch(%n: index) {
  // expected-error @below {{expected 'not_a_kernel' to be a tile_gpu.kernel in this module}}
  tile_gpu.launch @not_a_kernel grid(%n) args(%n : index)
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

func.func @multiply_add(%a: !tile_gpu.frag<16x64xbf16, a, warp>, %b: !tile_gpu.smem<64x64xf32>,
    %c: !tile_gpu.frag<16x64xf32, acc, warp>) {
  // expected-error @below {{expected operand a of an f32 product to be a warp's f32 acc fragment or a tile}}
  %r = tile_gpu.mma.sync %a, %b, %c : !tile_gpu.frag<16x64xbf16, a, warp>, !tile_gpu.smem<64x64xf32> -> !tile_gpu.frag<16x64xf32, acc, warp>
  return
}

// -----

func.func @group_consumers() {
  // expected-error @below {{expected no consumers(...) on a cp_group ring: the warps that fill it read it, and release nothing}}
  %r = tile_gpu.ring.create cp_group producers(4) consumers(4) : !tile_gpu.ring<1, 64x64xbf16 swizzle 128>
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

// expected-error @below {{expected a fragment of f32, bf16 or f16, an acc fragment of i1 or i32, or a warp's a fragment of tf32, but got 'tf32'}}
func.func private @rounded_group(!tile_gpu.frag<64x64xtf32, a>)

// -----

// expected-error @below {{expected the columns of a warp a fragment to be a multiple of 8, but got 12}}
func.func private @rounded_columns(!tile_gpu.frag<16x12xtf32, a, warp>)

// -----

func.func @rounded_ring() {
  // expected-error @below {{expected tiles of tf32 on a cp_group ring, whose warps round what they have copied, but got '!tile_gpu.smem<64x64xtf32 swizzle 128>' on a tma ring}}
  %r = tile_gpu.ring.create tma consumers(4) : !tile_gpu.ring<1, 64x64xtf32 swizzle 128>
  return
}

// -----

func.func @rounded_staging() {
  // expected-error @below {{expected elements that are stored as they are, but got tf32, which rings round to}}
  %t = tile_gpu.smem.alloc : !tile_gpu.smem<64x64xtf32 swizzle 128>
  return
}

// -----

func.func @rounded_source(%m: memref<?x?xbf16>, %c: i32) {
  %r = tile_gpu.ring.create cp_group producers(4) : !tile_gpu.ring<1, 64x64xtf32 swizzle 128>
  %t = tile_gpu.ring.acquire %r[%c] : !tile_gpu.ring<1, 64x64xtf32 swizzle 128>
  // expected-error @below {{expected a source of 'f32', but got 'bf16'}}
  tile_gpu.ring.load %m[%c, %c], %t : memref<?x?xbf16>, !tile_gpu.smem<64x64xtf32 swizzle 128>
  return
}

// -----

func.func @rounded_load(%t: !tile_gpu.smem<16x64xtf32 swizzle 64 transposed>) {
  // expected-error @below {{expected a tile as it is stored for a tf32 fragment}}
  %r = tile_gpu.frag.load %t : !tile_gpu.smem<16x64xtf32 swizzle 64 transposed> -> !tile_gpu.frag<16x64xtf32, a, warp>
  return
}

// -----

func.func @rounded_left(%a: !tile_gpu.frag<16x64xbf16, a, warp>, %b: !tile_gpu.smem<64x64xtf32 swizzle 128>,
    %c: !tile_gpu.frag<16x64xf32, acc, warp>) {
  // expected-error @below {{expected operand a of a tf32 product to be a warp's f32 acc fragment, a tf32 a fragment or a tile}}
  %r = tile_gpu.mma.sync %a, %b, %c : !tile_gpu.frag<16x64xbf16, a, warp>, !tile_gpu.smem<64x64xtf32 swizzle 128> -> !tile_gpu.frag<16x64xf32, acc, warp>
  return
}

// -----

func.func @rounded_left_tile(%a: !tile_gpu.smem<16x64xf32 swizzle 64 transposed>, %b: !tile_gpu.smem<64x64xtf32 swizzle 128>,
    %c: !tile_gpu.frag<16x64xf32, acc, warp>) {
  // expected-error @below {{expected operand a of a tf32 product to be a tile of f32 or tf32 as it is stored}}
  %r = tile_gpu.mma.sync %a, %b, %c : !tile_gpu.smem<16x64xf32 swizzle 64 transposed>, !tile_gpu.smem<64x64xtf32 swizzle 128> -> !tile_gpu.frag<16x64xf32, acc, warp>
  return
}

// -----

func.func @rounded_left_alone(%a: !tile_gpu.smem<16x64xtf32 swizzle 128>, %b: !tile_gpu.smem<64x64xf32 swizzle 128>,
    %c: !tile_gpu.frag<16x64xf32, acc, warp>) {
  // expected-error @below {{expected operand b of a tf32 product to be a tile of tf32, but got '!tile_gpu.smem<64x64xf32 swizzle 128>'}}
  %r = tile_gpu.mma.sync %a, %b, %c : !tile_gpu.smem<16x64xtf32 swizzle 128>, !tile_gpu.smem<64x64xf32 swizzle 128> -> !tile_gpu.frag<16x64xf32, acc, warp>
  return
}

// -----

func.func @rounded_depth(%a: !tile_gpu.smem<16x12xf32>, %b: !tile_gpu.smem<12x64xtf32>,
    %c: !tile_gpu.frag<16x64xf32, acc, warp>) {
  // expected-error @below {{expected a depth K of a multiple of 8, but got 12}}
  %r = tile_gpu.mma.sync %a, %b, %c : !tile_gpu.smem<16x12xf32>, !tile_gpu.smem<12x64xtf32> -> !tile_gpu.frag<16x64xf32, acc, warp>
  return
}

// -----

func.func @tickets() {
  // expected-error @below {{expected a static number of counters, but got 'memref<?xi32>'}}
  %t = tile_gpu.tickets : memref<?xi32>
  return
}
