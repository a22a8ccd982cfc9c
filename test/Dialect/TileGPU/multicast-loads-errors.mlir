// RUN: attn-opt %s --tile-gpu-multicast-loads --split-input-file --verify-diagnostics

module attributes {attn.target = "sm_90a"} {
// expected-error @below {{expected cluster to be 1, 2, 4 or 8, but got 3}}
tile_gpu.kernel @three() attributes {schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 128, cluster = 3>} { tile_gpu.return }
}

// -----

// expected-error @below {{expected attn.target to name a GPU (sm_80, sm_86, sm_89, sm_90a, sm_100a), but got "cpu-avx2"}}
module attributes {attn.target = "cpu-avx2"} {
tile_gpu.kernel @cpu(%tickets: memref<1xi32>, %n: i32) {
  %s = tile_gpu.scheduler dynamic in_order tickets(%tickets : memref<1xi32>)
      cluster(2) tiles(%n) heads(%n) batch(%n) {
  ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
    tile_gpu.yield
  }
  tile_gpu.return
}
}
