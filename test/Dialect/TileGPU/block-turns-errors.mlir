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

// Who writes what others add to has the first turn.

func.func @writes_without_a_turn(%t: !tile_gpu.smem<64x64xf32>, %m: memref<?x4096xf32>, %c: i32) {
  // expected-error @below {{expected a tile_gpu.block_turn.wait of its turn before it in its block}}
  tile_gpu.bulk.reduce %t, %m[%c, %c] turn(%c) : !tile_gpu.smem<64x64xf32>, memref<?x4096xf32>
  return
}

// -----

func.func @writes_in_the_turn_of_others(%t: !tile_gpu.smem<64x64xf32>, %m: memref<?x4096xf32>, %n: memref<?xi32>, %c: i32, %d: i32) {
  tile_gpu.block_turn.wait %n[%c] turn(%d) : memref<?xi32>
  tile_gpu.bulk.reduce %t, %m[%c, %c] turn(%d) : !tile_gpu.smem<64x64xf32>, memref<?x4096xf32>
  // expected-error @below {{expected a tile_gpu.block_turn.wait of its turn before it in its block}}
  tile_gpu.bulk.reduce %t, %m[%c, %c] turn(%c) : !tile_gpu.smem<64x64xf32>, memref<?x4096xf32>
  return
}

// -----

// Blocks that draw first items as well.

tile_gpu.kernel private @has_a_block_for_each(%n: i32) {
  // expected-error @below {{expected draws_first with a dynamic schedule without cluster(...) only}}
  %s = tile_gpu.scheduler grid in_order tiles(%n) heads(%n) batch(%n)
      attributes {draws_first} {
  ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
    tile_gpu.yield
  }
  tile_gpu.return
}
