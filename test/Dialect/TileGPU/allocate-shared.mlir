// RUN: attn-opt %s --tile-gpu-allocate-shared --split-input-file | FileCheck %s
// RUN: attn-opt %s --tile-gpu-allocate-shared --tile-gpu-allocate-shared --split-input-file | FileCheck %s
// RUN: attn-opt %s %tidy --tile-gpu-allocate-shared %tidy --tile-gpu-verify-budget --split-input-file | FileCheck %s

// Tiles from the most aligned on, the slots of a ring one after the other, then
// the barriers: of a ring full ones and, where anybody gives slots back, empty
// ones. Of hardware barriers, 0 is the whole block's.
module attributes {attn.target = "sm_90a"} {
// CHECK-LABEL: tile_gpu.kernel @tiles(
// CHECK-SAME:    shared_bytes = 106592 : i64
tile_gpu.kernel @tiles(%m: memref<?x?xf32>) {
  // CHECK: smem.alloc at(106496) : <4x4xi32>
  %words = tile_gpu.smem.alloc : !tile_gpu.smem<4x4xi32>
  // CHECK: ring.create tma consumers(8) at <tiles = [0] full = 106560 empty = 106576>
  %k = tile_gpu.ring.create tma consumers(8) : !tile_gpu.ring<2, 128x128xbf16 swizzle 128>
  // No barriers in memory, and two tiles, each with its slots.
  // CHECK: ring.create cp_group producers(4) at <tiles = [65536, 81920]>
  %c = tile_gpu.ring.create cp_group producers(4) : !tile_gpu.ring<2, 64x64xbf16 swizzle 128, 64x64xbf16 swizzle 128>
  // CHECK: smem.alloc at(98304)
  %staging = tile_gpu.smem.alloc : !tile_gpu.smem<64x64xbf16 swizzle 128>
  // CHECK: barrier.create warps(4) each(2) first(1)
  %own = tile_gpu.barrier.create warps(4) each(2)
  // CHECK: barrier.create warps(8) first(3)
  %all = tile_gpu.barrier.create warps(8)
  // A role that waits for copies of its own warps has a barrier of its own.
  // CHECK: role "r" warps(4) barrier(4) {
  tile_gpu.role "r" warps(4) {
  ^bb0(%w: i32):
    %i = arith.constant 0 : i32
    %a, %b = tile_gpu.ring.wait %c[%i] : !tile_gpu.ring<2, 64x64xbf16 swizzle 128, 64x64xbf16 swizzle 128>
    tile_gpu.ring.release %k[%i] : !tile_gpu.ring<2, 128x128xbf16 swizzle 128>
    tile_gpu.barrier.sync %own[%w]
    tile_gpu.barrier.sync %all
    %z = arith.constant 0 : i32
    tile_gpu.smem.clear_rows %staging from(%z) : !tile_gpu.smem<64x64xbf16 swizzle 128>
    tile_gpu.smem.clear_rows %words from(%z) : !tile_gpu.smem<4x4xi32>
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

// The row numbers of a ramp lie before everything, and barriers next.
module attributes {attn.target = "sm_90a"} {
// CHECK-LABEL: tile_gpu.kernel @ramp(
// CHECK-SAME:    shared_bytes = 35840 : i64
tile_gpu.kernel @ramp() {
  // CHECK: ring.create tma consumers(8) at <tiles = [3072] full = 2176 empty = 2192>
  %k = tile_gpu.ring.create tma consumers(8) : !tile_gpu.ring<2, 64x128xbf16 swizzle 128>
  // CHECK: smem.ramp at(0)
  %c = tile_gpu.smem.ramp : !tile_gpu.smem<136x8xbf16>
  tile_gpu.role "r" warps(4) {
  ^bb0(%w: i32):
    %i = arith.constant 0 : i32
    tile_gpu.ring.release %k[%i] : !tile_gpu.ring<2, 64x128xbf16 swizzle 128>
    tile_gpu.smem.clear_rows %c from(%i) : !tile_gpu.smem<136x8xbf16>
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

// Drawn items: two slots of the item's number and of the two words that the
// other role reads, and the word through which a cluster draws.
module attributes {attn.target = "sm_90a"} {
// CHECK-LABEL: tile_gpu.kernel @drawn(
// CHECK-SAME:    shared_bytes = 96 : i64
tile_gpu.kernel @drawn(%counter: memref<1xi32>, %n: i32, %m: memref<?xi32>) {
  %one = arith.constant 1 : i32
  // CHECK: scheduler dynamic in_order tickets(%{{.*}} : memref<1xi32>) cluster(2) at <tiles = [64] full = 24 empty = 40 drawn = 16 drawn_full = 0 drawn_empty = 8> tiles(
  %s = tile_gpu.scheduler dynamic in_order tickets(%counter : memref<1xi32>) cluster(2)
      tiles(%n) heads(%one) batch(%one) {
  ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
    tile_gpu.yield %tile, %n : i32, i32
  }
  tile_gpu.role "draw" warps(1) {
  ^bb0(%w: i32):
    tile_gpu.foreach %s lead {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32, %lo: i32, %hi: i32):
      %at = arith.index_cast %lo : i32 to index
      memref.store %hi, %m[%at] : memref<?xi32>
      tile_gpu.yield
    }
    tile_gpu.yield
  }
  tile_gpu.role "use" warps(1) {
  ^bb0(%w: i32):
    tile_gpu.foreach %s {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32, %lo: i32, %hi: i32):
      %at = arith.index_cast %lo : i32 to index
      memref.store %hi, %m[%at] : memref<?xi32>
      tile_gpu.yield
    }
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

// Places by hand stay, gaps and all.
module attributes {attn.target = "sm_80"} {
// CHECK-LABEL: tile_gpu.kernel @by_hand(
// CHECK-SAME:    shared_bytes = 40000 : i64
tile_gpu.kernel @by_hand() attributes {shared_bytes = 40000 : i64} {
  // CHECK: smem.alloc at(16384)
  %a = tile_gpu.smem.alloc at(16384) : !tile_gpu.smem<64x64xbf16 swizzle 128>
  // CHECK: barrier.create warps(4) first(7)
  %b = tile_gpu.barrier.create warps(4) first(7)
  tile_gpu.role "r" warps(4) {
  ^bb0(%w: i32):
    %i = arith.constant 0 : i32
    tile_gpu.smem.clear_rows %a from(%i) : !tile_gpu.smem<64x64xbf16 swizzle 128>
    tile_gpu.barrier.sync %b
    tile_gpu.yield
  }
  tile_gpu.return
}
}
