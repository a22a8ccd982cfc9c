// RUN: attn-opt %s --convert-tile-gpu-to-nvvm --split-input-file --verify-diagnostics

// expected-error@+1 {{expected attn.target to be a GPU, but got 'cpu-avx2'}}
module attributes {attn.target = "cpu-avx2"} {
func.func private @k() attributes {tile_gpu.kernel} {
  tile_gpu.role "r" warps(4) {
  ^bb0(%w: i32):
    tile_gpu.yield
  }
  return
}
}

// -----

module attributes {attn.target = "sm_80"} {
// expected-error@+1 {{expected 1 role or more, but got none}}
func.func private @k() attributes {tile_gpu.kernel} {
  return
}
}

// -----

module attributes {attn.target = "sm_80"} {
func.func private @k(%m: memref<?xf32>) attributes {tile_gpu.kernel} {
  tile_gpu.role "r" warps(4) {
  ^bb0(%w: i32):
    // expected-error@+1 {{expected memref.load, memref.store or memref.dim, but got 'memref.cast'}}
    %x = memref.cast %m : memref<?xf32> to memref<4xf32>
    tile_gpu.yield
  }
  return
}
}

// -----

module attributes {attn.target = "sm_80"} {
func.func private @k() attributes {tile_gpu.kernel} {
  tile_gpu.role "r" warps(4) {
  ^bb0(%w: i32):
    // expected-error@+1 {{expected an operation that has a form on the GPU, but got 'vector.broadcast'}}
    %v = vector.broadcast %w : i32 to vector<4xi32>
    tile_gpu.yield
  }
  return
}
}

// -----

module attributes {attn.target = "sm_80"} {
// expected-error@+1 {{expected at most 166912 bytes of shared memory on sm_80, but got 262144}}
func.func private @k() attributes {tile_gpu.kernel} {
  %b = tile_gpu.smem.alloc : !tile_gpu.smem<64x1024xf32>
  tile_gpu.role "r" warps(4) {
  ^bb0(%w: i32):
    tile_gpu.yield
  }
  return
}
}

// -----

module attributes {attn.target = "sm_90a"} {
func.func private @k(%t: memref<1xi32>, %n: i32) attributes {tile_gpu.kernel} {
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
  return
}
}
