// RUN: attn-opt %s --split-input-file --verify-diagnostics

// Matrix products.

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

func.func @issue_ramp(%a: !tile_gpu.smem<64x64xbf16 swizzle 128>, %x: f32) {
  %c = tile_gpu.smem.ramp : !tile_gpu.smem<136x8xbf16>
  // expected-note @above {{prior use here}}
  // expected-error @below {{use of value '%c' expects different type than prior uses: '!tile_gpu.smem<72x8xbf16>' vs '!tile_gpu.smem<136x8xbf16>'}}
  %t = tile_gpu.mma.issue %a, %a ramp(%x, %c) : !tile_gpu.smem<64x64xbf16 swizzle 128>, !tile_gpu.smem<64x64xbf16 swizzle 128> -> !tile_gpu.token<64x64xf32>
  return
}

// -----

func.func @issue_ramp_alone(%a: !tile_gpu.smem<64x64xbf16 swizzle 128>, %x: f32) {
  // expected-error @below {{expected a ramp with its columns}}
  %t = "tile_gpu.mma.issue"(%a, %a, %x) <{operandSegmentSizes = array<i32: 1, 1, 0, 1, 0>}> : (!tile_gpu.smem<64x64xbf16 swizzle 128>, !tile_gpu.smem<64x64xbf16 swizzle 128>, f32) -> !tile_gpu.token<64x64xf32>
  return
}

// -----

func.func @issue_ramp_type(%a: !tile_gpu.smem<64x64xbf16 swizzle 128>, %x: f32) {
  %c = tile_gpu.smem.ramp : !tile_gpu.smem<136x8xbf16>
  // expected-error @below {{expected columns of a ramp of type '!tile_gpu.smem<72x8xbf16>', but got '!tile_gpu.smem<136x8xbf16>'}}
  %t = "tile_gpu.mma.issue"(%a, %a, %x, %c) <{operandSegmentSizes = array<i32: 1, 1, 0, 1, 1>}> : (!tile_gpu.smem<64x64xbf16 swizzle 128>, !tile_gpu.smem<64x64xbf16 swizzle 128>, f32, !tile_gpu.smem<136x8xbf16>) -> !tile_gpu.token<64x64xf32>
  return
}

// -----

func.func @ramp_type() {
  // expected-error @below {{expected a tile of type '!tile_gpu.smem<128x8xbf16>', but got '!tile_gpu.smem<128x8xf16>'}}
  %c = tile_gpu.smem.ramp : !tile_gpu.smem<128x8xf16>
  return
}

// -----

func.func @ramp_rows() {
  // expected-error @below {{expected 8 rows more than the columns of a product, a multiple of 8 up to 256, but got 272}}
  %c = tile_gpu.smem.ramp : !tile_gpu.smem<272x8xbf16>
  return
}

// -----

tile_gpu.kernel @ramp_in_role() {
  tile_gpu.role "compute" warpgroups(1) {
  ^bb0(%wg: i32):
    // expected-error @below {{expected to stand outside of roles}}
    %c = tile_gpu.smem.ramp : !tile_gpu.smem<136x8xbf16>
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

func.func @sync_operand(%a: !tile_gpu.frag<64x64xbf16, a>, %b: !tile_gpu.frag<64x8xbf16, b, warp>, %c: !tile_gpu.frag<64x8xf32, acc, warp>) {
  // expected-error @below {{expected operand a to be a warp's a fragment or a tile, but got '!tile_gpu.frag<64x64xbf16, a>'}}
  %t = tile_gpu.mma.sync %a, %b, %c : !tile_gpu.frag<64x64xbf16, a>, !tile_gpu.frag<64x8xbf16, b, warp> -> !tile_gpu.frag<64x8xf32, acc, warp>
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

func.func @issue_boxes(%a: !tile_gpu.smem<64x64xbf16 swizzle 128 boxes 2>, %b: !tile_gpu.smem<64x64xbf16 swizzle 128>) {
  // expected-error @below {{expected a tile of one box, but got '!tile_gpu.smem<64x64xbf16 swizzle 128 boxes 2>'}}
  %t = tile_gpu.mma.issue %a, %b : !tile_gpu.smem<64x64xbf16 swizzle 128 boxes 2>, !tile_gpu.smem<64x64xbf16 swizzle 128> -> !tile_gpu.token<64x64xf32>
  return
}

// -----

func.func @issue_accumulator(%a: !tile_gpu.smem<64x64xbf16 swizzle 128>, %b: !tile_gpu.smem<64x64xbf16 swizzle 128>,
    %c: !tile_gpu.frag<64x128xf32, acc>) {
  // expected-error @below {{expected acc to be '!tile_gpu.frag<64x64xf32, acc>', but got '!tile_gpu.frag<64x128xf32, acc>'}}
  %t = "tile_gpu.mma.issue"(%a, %b, %c) <{operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>}> : (!tile_gpu.smem<64x64xbf16 swizzle 128>, !tile_gpu.smem<64x64xbf16 swizzle 128>, !tile_gpu.frag<64x128xf32, acc>) -> !tile_gpu.token<64x64xf32>
  return
}

// -----

func.func @wait_for_nothing() {
  // expected-error @below {{expected 1 token or more}}
  "tile_gpu.mma.wait"() {pending = 0 : i64} : () -> ()
  return
}

// -----

func.func @wait_pending(%t: !tile_gpu.token<64x64xf32>) {
  // expected-error @below {{expected a number of pending products, but got -1}}
  %r = tile_gpu.mma.wait %t pending(-1) : !tile_gpu.token<64x64xf32>
  return
}

// -----

func.func @sync_accumulator(%a: !tile_gpu.smem<64x64xbf16 swizzle 128>, %b: !tile_gpu.smem<64x64xbf16 swizzle 128>, %c: !tile_gpu.frag<64x64xf32, acc>) {
  // expected-error @below {{expected a warp's f32 acc fragment, but got '!tile_gpu.frag<64x64xf32, acc>'}}
  %t = tile_gpu.mma.sync %a, %b, %c : !tile_gpu.smem<64x64xbf16 swizzle 128>, !tile_gpu.smem<64x64xbf16 swizzle 128> -> !tile_gpu.frag<64x64xf32, acc>
  return
}

// -----

func.func @sync_right_operand(%a: !tile_gpu.frag<16x64xbf16, a, warp>, %b: !tile_gpu.frag<64x16xbf16, a, warp>, %c: !tile_gpu.frag<16x16xf32, acc, warp>) {
  // expected-error @below {{expected operand b to be a warp's b fragment or a tile, but got '!tile_gpu.frag<64x16xbf16, a, warp>'}}
  %t = tile_gpu.mma.sync %a, %b, %c : !tile_gpu.frag<16x64xbf16, a, warp>, !tile_gpu.frag<64x16xbf16, a, warp> -> !tile_gpu.frag<16x16xf32, acc, warp>
  return
}

// -----

func.func @sync_boxes(%a: !tile_gpu.smem<16x64xbf16 swizzle 128 boxes 2>, %b: !tile_gpu.smem<64x64xbf16 swizzle 128>, %c: !tile_gpu.frag<16x64xf32, acc, warp>) {
  // expected-error @below {{expected a tile of one box, but got '!tile_gpu.smem<16x64xbf16 swizzle 128 boxes 2>'}}
  %t = tile_gpu.mma.sync %a, %b, %c : !tile_gpu.smem<16x64xbf16 swizzle 128 boxes 2>, !tile_gpu.smem<64x64xbf16 swizzle 128> -> !tile_gpu.frag<16x64xf32, acc, warp>
  return
}

// -----

func.func @multiply_add_right(%a: !tile_gpu.smem<16x64xf32>, %b: !tile_gpu.frag<64x8xbf16, b, warp>, %c: !tile_gpu.frag<16x8xf32, acc, warp>) {
  // expected-error @below {{expected operand b of an f32 product to be a tile, but got '!tile_gpu.frag<64x8xbf16, b, warp>'}}
  %t = tile_gpu.mma.sync %a, %b, %c : !tile_gpu.smem<16x64xf32>, !tile_gpu.frag<64x8xbf16, b, warp> -> !tile_gpu.frag<16x8xf32, acc, warp>
  return
}

// -----

func.func @multiply_add_boxes(%a: !tile_gpu.smem<16x64xf32>, %b: !tile_gpu.smem<64x64xf32 swizzle 128 boxes 2>, %c: !tile_gpu.frag<16x64xf32, acc, warp>) {
  // expected-error @below {{expected a tile of one box, but got '!tile_gpu.smem<64x64xf32 swizzle 128 boxes 2>'}}
  %t = tile_gpu.mma.sync %a, %b, %c : !tile_gpu.smem<16x64xf32>, !tile_gpu.smem<64x64xf32 swizzle 128 boxes 2> -> !tile_gpu.frag<16x64xf32, acc, warp>
  return
}

// -----

func.func @multiply_add_integers(%a: !tile_gpu.smem<16x64xf32>, %b: !tile_gpu.smem<64x64xi32 swizzle 128>, %c: !tile_gpu.frag<16x64xf32, acc, warp>) {
  // expected-error @below {{expected operands of f32, tf32, bf16 or f16, but got 'i32'}}
  %t = tile_gpu.mma.sync %a, %b, %c : !tile_gpu.smem<16x64xf32>, !tile_gpu.smem<64x64xi32 swizzle 128> -> !tile_gpu.frag<16x64xf32, acc, warp>
  return
}

// -----

func.func @any_by_rows(%v: !tile_gpu.vec<64xi1, col, warp>) {
  // expected-error @below {{expected rows to ask about apart, but got '!tile_gpu.vec<64xi1, col, warp>'}}
  %r = tile_gpu.any %v by_rows : !tile_gpu.vec<64xi1, col, warp>
  return
}

// -----

func.func @store_place(%f: !tile_gpu.frag<64x64xf32, acc>, %t: !tile_gpu.smem<64x64xf32>, %c: i32) {
  // expected-error @below {{expected a column where there is a row, and a row where there is a column}}
  "tile_gpu.frag.store"(%f, %t, %c) {operandSegmentSizes = array<i32: 1, 1, 1, 0>} : (!tile_gpu.frag<64x64xf32, acc>, !tile_gpu.smem<64x64xf32>, i32) -> ()
  return
}
