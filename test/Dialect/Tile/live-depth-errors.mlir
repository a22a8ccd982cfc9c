// RUN: attn-opt %s --verify-diagnostics

func.func @live_depth(%x: !tile.tile<16x64xf32>, %y: !tile.tile<64x32xf32>) {
  // expected-error@+1 {{expected tile.live_depth to be an i64 below the depth of a tile.dot or a tile_gpu.mma.issue}}
  %z = tile.dot %x, %y {tile.live_depth = 64 : i64} : !tile.tile<16x64xf32>, !tile.tile<64x32xf32> -> !tile.tile<16x32xf32>
  return
}

func.func @live_width(%x: !tile.tile<16x64xf32>, %y: !tile.tile<64x32xf32>) {
  // expected-error@+1 {{expected tile.live_width to be a positive i64 of a tile.dot that adds to a sum or of a tile_gpu.mma.issue}}
  %z = tile.dot %x, %y {tile.live_width = 24 : i64} : !tile.tile<16x64xf32>, !tile.tile<64x32xf32> -> !tile.tile<16x32xf32>
  return
}
