// RUN: attn-opt %s --tile-gpu-allocate-shared --convert-tile-gpu-to-nvvm --split-input-file --verify-diagnostics

// expected-error@+1 {{expected attn.target to name a GPU (sm_80, sm_86, sm_89, sm_90a, sm_100a), but got "cpu-avx2"}}
module attributes {attn.target = "cpu-avx2"} {
tile_gpu.kernel private @k() {
  tile_gpu.role "r" warps(4) {
  ^bb0(%w: i32):
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

module attributes {attn.target = "sm_80"} {
// expected-error@+1 {{expected 1 role or more, but got none}}
tile_gpu.kernel private @k() {
  tile_gpu.return
}
}

// -----

module attributes {attn.target = "sm_80"} {
tile_gpu.kernel private @k(%m: memref<?xf32>) {
  tile_gpu.role "r" warps(4) {
  ^bb0(%w: i32):
    // expected-error@+1 {{expected memref.load, memref.store or memref.dim, but got 'memref.cast'}}
    %x = memref.cast %m : memref<?xf32> to memref<4xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

module attributes {attn.target = "sm_80"} {
tile_gpu.kernel private @k() {
  tile_gpu.role "r" warps(4) {
  ^bb0(%w: i32):
    // expected-error@+1 {{expected an operation that has a form on the GPU, but got 'vector.broadcast'}}
    %v = vector.broadcast %w : i32 to vector<4xi32>
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

module attributes {attn.target = "sm_90a"} {
tile_gpu.kernel private @k(%t: memref<1xi32>, %n: i32) {
  // expected-error@+1 {{expected one lead loop over a dynamic schedule, but got none}}
  %schedule = tile_gpu.scheduler dynamic in_order
      tickets(%t : memref<1xi32>) tiles(%n) heads(%n) batch(%n) {
  ^bb0(%tile: i32, %head: i32, %b: i32, %split: i32):
    tile_gpu.yield %n, %n : i32, i32
  }
  tile_gpu.role "r" warps(4) {
  ^bb0(%w: i32):
    tile_gpu.foreach %schedule {
    ^bb0(%tile: i32, %head: i32, %b: i32, %split: i32, %lo: i32, %hi: i32):
      tile_gpu.yield
    }
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

module attributes {attn.target = "sm_90a"} {
tile_gpu.kernel private @schedule_argument(%s: !tile_gpu.schedule) {
  tile_gpu.role "r" warps(4) {
  ^bb0(%w: i32):
    // expected-error@+1 {{expected a schedule made in this kernel by tile_gpu.scheduler}}
    tile_gpu.foreach %s lead {
    ^bb0(%tile: i32, %head: i32, %b: i32, %split: i32, %lo: i32, %hi: i32):
      tile_gpu.yield
    }
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

module attributes {attn.target = "sm_90a"} {
tile_gpu.kernel private @nested_draw(%t: memref<1xi32>, %n: i32, %c: i1) {
  %s = tile_gpu.scheduler dynamic in_order
      tickets(%t : memref<1xi32>) tiles(%n) heads(%n) batch(%n) {
  ^bb0(%tile: i32, %head: i32, %b: i32, %split: i32):
    tile_gpu.yield %n, %n : i32, i32
  }
  tile_gpu.role "r" warps(4) {
  ^bb0(%w: i32):
    scf.if %c {
    // expected-error@+1 {{expected a dynamic schedule to be looped over directly in a role}}
    tile_gpu.foreach %s lead {
    ^bb0(%tile: i32, %head: i32, %b: i32, %split: i32, %lo: i32, %hi: i32):
      tile_gpu.yield
    }
    }
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

module attributes {attn.target = "sm_90a"} {
tile_gpu.kernel private @two_loops(%t: memref<1xi32>, %n: i32) {
  %s = tile_gpu.scheduler dynamic in_order
      tickets(%t : memref<1xi32>) tiles(%n) heads(%n) batch(%n) {
  ^bb0(%tile: i32, %head: i32, %b: i32, %split: i32):
    tile_gpu.yield %n, %n : i32, i32
  }
  tile_gpu.role "r" warps(4) {
  ^bb0(%w: i32):
    // expected-error@+1 {{expected one loop over a dynamic schedule in each role}}
    tile_gpu.foreach %s lead {
    ^bb0(%tile: i32, %head: i32, %b: i32, %split: i32, %lo: i32, %hi: i32):
      tile_gpu.yield
    }
    tile_gpu.foreach %s {
    ^bb0(%tile: i32, %head: i32, %b: i32, %split: i32, %lo: i32, %hi: i32):
      tile_gpu.yield
    }
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

module attributes {attn.target = "sm_90a"} {
tile_gpu.kernel private @load_outside() {
  %t = tile_gpu.smem.alloc : !tile_gpu.smem<1x64xf32>
  // expected-error@+1 {{expected to be in a tile_gpu.role}}
  %v = tile_gpu.vec.load %t : !tile_gpu.smem<1x64xf32> -> !tile_gpu.vec<64xf32, col, warp>
  tile_gpu.role "r" warps(4) {
  ^bb0(%w: i32):
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

module attributes {attn.target = "sm_90a"} {
tile_gpu.kernel private @store_outside(%m: memref<?xi32>, %c: index) {
  %i = arith.constant 0 : i32
  // expected-error@+1 {{expected to be in a tile_gpu.role}}
  memref.store %i, %m[%c] : memref<?xi32>
  tile_gpu.role "r" warps(4) {
  ^bb0(%w: i32):
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

module attributes {attn.target = "sm_90a"} {
tile_gpu.kernel private @foreach_outside(%n: i32) {
  %s = tile_gpu.scheduler static in_order
      tiles(%n) heads(%n) batch(%n) {
  ^bb0(%tile: i32, %head: i32, %b: i32, %split: i32):
    tile_gpu.yield %n, %n : i32, i32
  }
  // expected-error@+1 {{expected to be in a tile_gpu.role}}
  tile_gpu.foreach %s lead {
  ^bb0(%tile: i32, %head: i32, %b: i32, %split: i32, %lo: i32, %hi: i32):
    tile_gpu.yield
  }
  tile_gpu.role "r" warps(4) {
  ^bb0(%w: i32):
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

module attributes {attn.target = "sm_90a"} {
tile_gpu.kernel private @group_in_warps() {
  %z = arith.constant 0.0 : f32
  tile_gpu.role "r" warps(4) {
  ^bb0(%w: i32):
    // expected-error@+1 {{expected registers of a warp in a role of warps, but got '!tile_gpu.frag<64x64xf32, acc>'}}
    %f = tile_gpu.frag.fill %z : f32 -> !tile_gpu.frag<64x64xf32, acc>
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

module attributes {attn.target = "sm_90a"} {
tile_gpu.kernel private @warp_in_group() {
  %z = arith.constant 0.0 : f32
  tile_gpu.role "r" warpgroups(1) {
  ^bb0(%w: i32):
    // expected-error@+1 {{expected registers of a warpgroup in a role of warpgroups, but got '!tile_gpu.vec<64xf32, col, warp>'}}
    %f = tile_gpu.frag.fill %z : f32 -> !tile_gpu.vec<64xf32, col, warp>
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

module attributes {attn.target = "sm_90a"} {
tile_gpu.kernel private @product_in_warps() {
  %a = tile_gpu.smem.alloc : !tile_gpu.smem<64x64xbf16 swizzle 128>
  tile_gpu.role "r" warps(4) {
  ^bb0(%w: i32):
    // expected-error@+1 {{expected registers of a warp in a role of warps, but got '!tile_gpu.token<64x64xf32>'}}
    %t = tile_gpu.mma.issue %a, %a : !tile_gpu.smem<64x64xbf16 swizzle 128>, !tile_gpu.smem<64x64xbf16 swizzle 128> -> !tile_gpu.token<64x64xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

module attributes {attn.target = "sm_90a"} {
// expected-error @below {{expected occupancy to be between 1 and 32, but got 0}}
tile_gpu.kernel private @no_blocks(%m: memref<?x?xf32, strided<[?, 1]>>, %x: f32) attributes {schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 128, occupancy = 0>} {
  tile_gpu.role "fill" warpgroups(1) {
  ^bb0(%wg: i32):
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

module attributes {attn.target = "sm_90a"} {
// expected-error @below {{expected an occupancy of at most 21 with 128 threads, but got 22}}
tile_gpu.kernel private @blocks(%m: memref<?x?xf32, strided<[?, 1]>>, %x: f32) attributes {schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 128, occupancy = 22>} {
  tile_gpu.role "fill" warpgroups(1) {
  ^bb0(%wg: i32):
    tile_gpu.yield
  }
  tile_gpu.return
}
}
