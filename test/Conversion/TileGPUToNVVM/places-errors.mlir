// RUN: attn-opt %s --convert-tile-gpu-to-nvvm --split-input-file --verify-diagnostics
// RUN: attn-opt %s --tile-gpu-verify-budget --split-input-file --verify-diagnostics

// Nobody guesses where shared memory lies.

module attributes {attn.target = "sm_80"} {
// expected-error @below {{expected its shared memory and barriers to have places; run tile-gpu-allocate-shared first}}
tile_gpu.kernel private @memory() {
  %b = tile_gpu.smem.alloc : !tile_gpu.smem<64x64xf32>
  tile_gpu.role "r" warps(4) {
  ^bb0(%w: i32):
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

module attributes {attn.target = "sm_80"} {
// expected-error @below {{expected its shared memory and barriers to have places; run tile-gpu-allocate-shared first}}
tile_gpu.kernel private @barrier() {
  %b = tile_gpu.barrier.create warps(4)
  tile_gpu.role "r" warps(4) {
  ^bb0(%w: i32):
    tile_gpu.yield
  }
  tile_gpu.return
}
}
