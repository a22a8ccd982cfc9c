// RUN: attn-opt %s --split-input-file --verify-diagnostics

// Turns of blocks at a counter in memory.

func.func @turns_of_floats(%m: memref<64xf32>, %c: i32) {
  // expected-error @below {{expected counters of i32, and an index for each of their dimensions, but got 'memref<64xf32>' and 1}}
  tile_gpu.block_turn.wait %m[%c] turn(%c) : memref<64xf32>
  return
}

// -----

func.func @turns_elsewhere(%m: memref<64x64xi32>, %c: i32) {
  // expected-error @below {{expected counters of i32, and an index for each of their dimensions, but got 'memref<64x64xi32>' and 1}}
  tile_gpu.block_turn.pass %m[%c] turn(%c) : memref<64x64xi32>
  return
}

// -----

func.func @turn_of_copies(%v: !tile_gpu.vec<32xf32, row, warp>, %m: memref<64xf32>, %c: i32) {
  %turns = tile_gpu.ring.create warps producers(1) : <2, 1x32xi32>
  %done = tile_gpu.ring.create tma consumers(1) : <2, 1x32xi32>
  // expected-error @below {{expected turns by rings that warps fill, but got tma}}
  tile_gpu.global.reduce %v, %m[%c] turn(%turns, %done[%c] : !tile_gpu.ring<2, 1x32xi32>, !tile_gpu.ring<2, 1x32xi32>)
      : !tile_gpu.vec<32xf32, row, warp>, memref<64xf32>
  return
}
