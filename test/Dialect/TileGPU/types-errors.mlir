// RUN: attn-opt %s --split-input-file --verify-diagnostics

// Types: what their parameters may be.

// expected-error @below {{expected the rows of a warpgroup acc fragment to be a multiple of 32, but got 16}}
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

// -----

// expected-error @below {{expected one whole box as it is stored}}
func.func private @map_box(!tile_gpu.tensor_map<64x64xbf16 swizzle 128 transposed>)

// -----

// expected-error @below {{expected a fragment of f32, bf16 or f16, an acc fragment of i1 or i32, or a warp's a fragment of tf32, but got 'tf32'}}
func.func private @rounded_group(!tile_gpu.frag<64x64xtf32, a>)

// -----

// expected-error @below {{expected the columns of a warp a fragment to be a multiple of 8, but got 12}}
func.func private @rounded_columns(!tile_gpu.frag<16x12xtf32, a, warp>)

// -----

// expected-error @below {{expected warp, then partial, but got 'group'}}
func.func private @vec_scope(!tile_gpu.vec<64xf32, row, group>)

// -----

// expected-error @below {{expected warp, then partial, but got 'warp'}}
func.func private @vec_scope_last(!tile_gpu.vec<64xf32, row, partial, warp>)

// -----

// expected-error @below {{expected a vector of f32, i1 or i32, but got 'bf16'}}
func.func private @vec_element(!tile_gpu.vec<64xbf16, row>)

// -----

// expected-error @below {{expected positive tile dimensions, but got 64x0}}
func.func private @smem_empty(!tile_gpu.smem<64x0xf32>)

// -----

// expected-error @below {{expected a tile of f32, tf32, bf16, f16 or i32, but got 'f64'}}
func.func private @smem_element(!tile_gpu.smem<64x64xf64>)

// -----

// expected-error @below {{expected the number of boxes to divide 64 rows, but got 3}}
func.func private @smem_box_rows(!tile_gpu.smem<64x64xbf16 swizzle 128 boxes 3>)

// -----

// expected-error @below {{expected the number of boxes to divide 64 rows, but got 0}}
func.func private @smem_no_boxes(!tile_gpu.smem<64x64xbf16 swizzle 128 boxes 0>)

// -----

// Rows without swizzle follow each other.
// expected-error @below {{expected a pitch of 64 rows, but got 128}}
func.func private @smem_plain_pitch(!tile_gpu.smem<64x64xbf16 pitch 128>)

// -----

// expected-error @below {{expected a tile of a multiple of 16 bytes, but got 4}}
func.func private @smem_bytes(!tile_gpu.smem<1x1xf32>)

// -----

// expected-error @below {{expected one whole box as it is stored}}
func.func private @map_boxes(!tile_gpu.tensor_map<64x64xbf16 swizzle 128 boxes 2>)

// -----

// expected-error @below {{expected the columns of a warpgroup acc fragment to be a multiple of 8, but got 12}}
func.func private @token_columns(!tile_gpu.token<64x12xf32>)

// -----

// expected-error @below {{expected a fragment of at most 1048576 elements, but got 16384x8192}}
func.func private @frag_large(!tile_gpu.frag<16384x8192xf32, acc>)

// -----

// expected-error @below {{expected a vector of at most 1048576 elements, but got 2097152}}
func.func private @vec_large(!tile_gpu.vec<2097152xf32, col>)

// -----

// expected-error @below {{expected tile dimensions and a pitch of at most 1048576, but got 4611686018427387904x4 and 4611686018427387904}}
func.func private @smem_large(!tile_gpu.smem<4611686018427387904x4xf32>)

// -----

// expected-error @below {{expected a ring of at most 1048576 slots, but got 2097152}}
func.func private @ring_large(!tile_gpu.ring<2097152, 64x64xbf16>)
