// RUN: attn-opt %s --tile-gpu-allocate-shared --convert-tile-gpu-to-nvvm --split-input-file --verify-diagnostics

!ring = !tile_gpu.ring<2, 64x64xbf16 swizzle 128>

module attributes {attn.target = "sm_90a"} {
tile_gpu.kernel private @sizes(%tickets: memref<1xi32>, %n: i32) {
  %c0 = arith.constant 0 : i32
  %k = tile_gpu.ring.create tma consumers(4) cluster(4) : !ring
  // expected-error @below {{expected clusters of 4 blocks, as others of this kernel have, but got 2}}
  %s = tile_gpu.scheduler dynamic in_order tickets(%tickets : memref<1xi32>)
      cluster(2) tiles(%n) heads(%n) batch(%n) {
  ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
    tile_gpu.yield %c0, %c0 : i32, i32
  }
  tile_gpu.role "load" warps(1) {
  ^bb0(%w: i32):
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

!ring = !tile_gpu.ring<2, 64x64xbf16 swizzle 128>

module attributes {attn.target = "sm_90a"} {
tile_gpu.kernel private @draws() {
  // expected-error @below {{expected a schedule whose items are drawn for clusters of 2 blocks, but got none}}
  %k = tile_gpu.ring.create tma consumers(4) cluster(2) : !ring
  tile_gpu.role "load" warps(1) {
  ^bb0(%w: i32):
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

!ring = !tile_gpu.ring<2, 64x64xbf16 swizzle 128>

module attributes {attn.target = "sm_80"} {
tile_gpu.kernel private @target() {
  // expected-error @below {{expected clusters of at most 1 blocks on sm_80, but got 2}}
  %k = tile_gpu.ring.create tma consumers(4) cluster(2) : !ring
  tile_gpu.role "load" warps(1) {
  ^bb0(%w: i32):
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

module attributes {attn.target = "sm_90a"} {
tile_gpu.kernel private @lead(%tickets: memref<1xi32>, %n: i32) {
  %c0 = arith.constant 0 : i32
  %s = tile_gpu.scheduler dynamic in_order tickets(%tickets : memref<1xi32>)
      cluster(2) tiles(%n) heads(%n) batch(%n) {
  ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
    tile_gpu.yield %c0, %c0 : i32, i32
  }
  tile_gpu.role "load" warps(4) {
  ^bb0(%w: i32):
    // expected-error @below {{expected the items of clusters to be drawn by a role of one warp, but got 4}}
    tile_gpu.foreach %s lead {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32, %lo: i32, %hi: i32):
      tile_gpu.yield
    }
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

module attributes {attn.target = "sm_90a"} {
tile_gpu.kernel private @skips(%tickets: memref<1xi32>, %n: i32, %none: i1) {
  %c0 = arith.constant 0 : i32
  %s = tile_gpu.scheduler dynamic in_order tickets(%tickets : memref<1xi32>)
      cluster(2) tiles(%n) heads(%n) batch(%n) {
  ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
    // expected-error @below {{expected a dynamic schedule without clusters, whose items one warp draws for others}}
    tile_gpu.skip %none
    tile_gpu.yield %c0, %c0 : i32, i32
  }
  tile_gpu.role "load" warps(1) {
  ^bb0(%w: i32):
    tile_gpu.foreach %s lead {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32, %lo: i32, %hi: i32):
      tile_gpu.yield
    }
    tile_gpu.yield
  }
  tile_gpu.role "compute" warps(1) {
  ^bb0(%w: i32):
    tile_gpu.foreach %s {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32, %lo: i32, %hi: i32):
      tile_gpu.yield
    }
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

!ring = !tile_gpu.ring<2, 64x64xbf16 swizzle 128>

module attributes {attn.target = "sm_90a"} {
tile_gpu.kernel private @inner() {
  tile_gpu.role "load" warps(1) {
  ^bb0(%w: i32):
    // expected-error @below {{expected a schedule whose items are drawn for clusters of 2 blocks, but got none}}
    %k = tile_gpu.ring.create tma consumers(4) cluster(2) : !ring
    tile_gpu.yield
  }
  tile_gpu.return
}
}
