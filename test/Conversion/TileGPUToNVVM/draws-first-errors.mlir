// RUN: attn-opt %s --tile-gpu-allocate-shared --convert-tile-gpu-to-nvvm --verify-diagnostics

module attributes {attn.target = "sm_90a"} {
tile_gpu.kernel private @group(%tickets: memref<1xi32>, %n: i32) {
  %c1 = arith.constant 1 : i32
  %s = tile_gpu.scheduler dynamic in_order tickets(%tickets : memref<1xi32>)
      tiles(%n) heads(%c1) batch(%c1) attributes {draws_first} {
  ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
    tile_gpu.yield
  }
  tile_gpu.role "compute" warpgroups(1) {
  ^bb0(%m: i32):
    // expected-error @below {{expected a role of one warp to lead a schedule whose first items are drawn}}
    tile_gpu.foreach %s lead {
    ^bb0(%t: i32, %h: i32, %b: i32, %p: i32):
      tile_gpu.yield
    }
    tile_gpu.yield
  }
  tile_gpu.return
}
}
