// RUN: attn-opt %s --verify-diagnostics

func.func @live_depth(%x: !tile.tile<16x64xf32>, %y: !tile.tile<64x32xf32>) {
  // expected-error@+1 {{expected live_depth between 1 and 63, but got 64}}
  %z = tile.dot %x, %y {live_depth = 64 : i64} : !tile.tile<16x64xf32>, !tile.tile<64x32xf32> -> !tile.tile<16x32xf32>
  return
}

func.func @live_width(%x: !tile.tile<16x64xf32>, %y: !tile.tile<64x32xf32>) {
  // expected-error@+1 {{expected live_width to be positive, at most 32 and beside acc, but got 24}}
  %z = tile.dot %x, %y {live_width = 24 : i64} : !tile.tile<16x64xf32>, !tile.tile<64x32xf32> -> !tile.tile<16x32xf32>
  return
}

func.func @issue_depth(%a: !tile_gpu.smem<64x64xbf16 swizzle 128>, %b: !tile_gpu.smem<64x64xbf16 swizzle 128>) {
  // expected-error@+1 {{expected live_depth to be positive and at most 64, but got 80}}
  %t = tile_gpu.mma.issue %a, %b {live_depth = 80 : i64} : !tile_gpu.smem<64x64xbf16 swizzle 128>, !tile_gpu.smem<64x64xbf16 swizzle 128> -> !tile_gpu.token<64x64xf32>
  return
}

func.func @issue_width(%a: !tile_gpu.smem<64x64xbf16 swizzle 128>, %b: !tile_gpu.smem<64x64xbf16 swizzle 128>) {
  // expected-error@+1 {{expected acc with live_width}}
  %t = tile_gpu.mma.issue %a, %b {live_width = 40 : i64} : !tile_gpu.smem<64x64xbf16 swizzle 128>, !tile_gpu.smem<64x64xbf16 swizzle 128> -> !tile_gpu.token<64x64xf32>
  return
}
