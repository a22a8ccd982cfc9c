// RUN: attn-opt %s --tile-gpu-multicast-loads=explain --split-input-file --verify-diagnostics | FileCheck %s
// RUN: attn-opt %s --split-input-file %tidy --tile-gpu-multicast-loads %tidy %verify_kernels | FileCheck %s

!ring = !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
!tile = !tile_gpu.smem<64x64xbf16 swizzle 128>
!map = !tile_gpu.tensor_map<64x64xbf16 swizzle 128>

// Queries are found by the tile, and keys and values by the head, the loops over
// key tiles included: they are shared, queries are not.
module attributes {attn.target = "sm_90a"} {
// CHECK-LABEL: tile_gpu.kernel @pairs
// CHECK: %[[Q:.*]] = tile_gpu.ring.create tma consumers(4) :
// CHECK: %[[K:.*]] = tile_gpu.ring.create tma consumers(4) cluster(2) :
// CHECK: %[[V:.*]] = tile_gpu.ring.create tma consumers(4) cluster(2) :
// CHECK: tile_gpu.scheduler dynamic in_order tickets(%{{.*}}) cluster(2) tiles
tile_gpu.kernel @pairs(%tickets: memref<1xi32>, %n: i32, %heads: i32, %keys: i32,
    %lengths: memref<?xindex>, %mq: !map, %mk: !map, %mv: !map)
    attributes {schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 128, cluster = 2>} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %i0 = arith.constant 0 : index
  %i64 = arith.constant 64 : index
  %q = tile_gpu.ring.create tma consumers(4) : !ring
  %k = tile_gpu.ring.create tma consumers(4) : !ring
  %v = tile_gpu.ring.create tma consumers(4) : !ring
  %s = tile_gpu.scheduler dynamic in_order tickets(%tickets : memref<1xi32>)
      cluster(2) tiles(%n) heads(%heads) batch(%c1) {
  ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
    tile_gpu.yield
  }
  tile_gpu.role "load" warps(1) {
  ^bb0(%w: i32):
    %e:2 = tile_gpu.foreach %s lead iter_args(%c0, %c0 : i32, i32) {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32, %a: i32, %b: i32):
      %h = arith.addi %head, %c1 : i32
      %at = arith.index_cast %h : i32 to index
      %end = memref.load %lengths[%at] : memref<?xindex>
      %some = arith.cmpi sgt, %end, %i0 : index
      %tq = tile_gpu.ring.acquire %q[%a] : !ring
      tile_gpu.ring.load %mq[%h, %tile], %tq : !map, !tile
      %next = scf.if %some -> i32 {
        %last = scf.for %j = %i0 to %end step %i64 iter_args(%c = %b) -> i32 {
          %row = arith.index_cast %j : index to i32
          %tk = tile_gpu.ring.acquire %k[%c] : !ring
          tile_gpu.ring.load %mk[%h, %row], %tk : !map, !tile
          %tv = tile_gpu.ring.acquire %v[%c] : !ring
          tile_gpu.ring.load %mv[%h, %row], %tv : !map, !tile
          %d = arith.addi %c, %c1 : i32
          scf.yield %d : i32
        }
        scf.yield %last : i32
      } else {
        scf.yield %b : i32
      }
      %after = arith.addi %a, %c1 : i32
      tile_gpu.yield %after, %next : i32, i32
    } -> i32, i32
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

!ring = !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
!tile = !tile_gpu.smem<64x64xbf16 swizzle 128>
!map = !tile_gpu.tensor_map<64x64xbf16 swizzle 128>

// Another role may draw for the one that copies.
module attributes {attn.target = "sm_90a"} {
// CHECK-LABEL: kernel @drawn_apart
// CHECK: tile_gpu.ring.create tma consumers(4) cluster(2) :
// CHECK: tile_gpu.scheduler dynamic in_order tickets(%{{.*}}) cluster(2) tiles
tile_gpu.kernel @drawn_apart(%tickets: memref<1xi32>, %n: i32, %heads: i32, %mk: !map)
    attributes {schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 128, cluster = 2>} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %k = tile_gpu.ring.create tma consumers(4) : !ring
  %s = tile_gpu.scheduler dynamic in_order tickets(%tickets : memref<1xi32>)
      cluster(2) tiles(%n) heads(%heads) batch(%c1) {
  ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
    tile_gpu.yield
  }
  tile_gpu.role "draw" warps(1) {
  ^bb0(%w: i32):
    tile_gpu.foreach %s lead {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
      tile_gpu.yield
    }
    tile_gpu.yield
  }
  tile_gpu.role "load" warps(1) {
  ^bb0(%w: i32):
    %e = tile_gpu.foreach %s iter_args(%c0 : i32) {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32, %a: i32):
      %tk = tile_gpu.ring.acquire %k[%a] : !ring
      tile_gpu.ring.load %mk[%head, %c0], %tk : !map, !tile
      tile_gpu.draw_next
      %after = arith.addi %a, %c1 : i32
      tile_gpu.yield %after : i32
    } -> i32
    tile_gpu.yield
  }
  tile_gpu.role "compute" warpgroups(1) {
  ^bb0(%wg: i32):
    %e = tile_gpu.foreach %s iter_args(%c0 : i32) {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32, %a: i32):
      %t = tile_gpu.ring.wait %k[%a] : !ring
      tile_gpu.ring.release %k[%a] : !ring
      %after = arith.addi %a, %c1 : i32
      tile_gpu.yield %after : i32
    } -> i32
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

!ring = !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
!tile = !tile_gpu.smem<64x64xbf16 swizzle 128>
!map = !tile_gpu.tensor_map<64x64xbf16 swizzle 128>

// Slots of latents are taken for both products: consumers release them in each block.
module attributes {attn.target = "sm_90a"} {
// CHECK-LABEL: kernel @latents
// CHECK: tile_gpu.ring.create tma consumers(4) cluster(2) release_all :
// CHECK: tile_gpu.scheduler dynamic in_order tickets(%{{.*}}) cluster(2) tiles
tile_gpu.kernel @latents(%tickets: memref<1xi32>, %n: i32, %heads: i32, %mk: !map)
    attributes {schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 128, cluster = 2, block_v = 512>} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %k = tile_gpu.ring.create tma consumers(4) : !ring
  %s = tile_gpu.scheduler dynamic in_order tickets(%tickets : memref<1xi32>)
      cluster(2) tiles(%n) heads(%heads) batch(%c1) {
  ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
    tile_gpu.yield
  }
  tile_gpu.role "draw" warps(1) {
  ^bb0(%w: i32):
    tile_gpu.foreach %s lead {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
      tile_gpu.yield
    }
    tile_gpu.yield
  }
  tile_gpu.role "load" warps(1) {
  ^bb0(%w: i32):
    %e = tile_gpu.foreach %s iter_args(%c0 : i32) {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32, %a: i32):
      %tk = tile_gpu.ring.acquire %k[%a] : !ring
      tile_gpu.ring.load %mk[%head, %c0], %tk : !map, !tile
      tile_gpu.draw_next
      %after = arith.addi %a, %c1 : i32
      tile_gpu.yield %after : i32
    } -> i32
    tile_gpu.yield
  }
  tile_gpu.role "compute" warpgroups(1) {
  ^bb0(%wg: i32):
    %e = tile_gpu.foreach %s iter_args(%c0 : i32) {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32, %a: i32):
      %t = tile_gpu.ring.wait %k[%a] : !ring
      tile_gpu.ring.release %k[%a] : !ring
      %after = arith.addi %a, %c1 : i32
      tile_gpu.yield %after : i32
    } -> i32
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

!ring = !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
!tile = !tile_gpu.smem<64x64xbf16 swizzle 128>
!map = !tile_gpu.tensor_map<64x64xbf16 swizzle 128>

// How many tiles of keys there are depends on the row: nothing is shared, and
// neither is what is acquired after them, whose slots would differ.
module attributes {attn.target = "sm_90a"} {
// CHECK-LABEL: kernel @rows
// CHECK-NOT: cluster(
// expected-remark @below {{copies of a cluster not shared: which keys are copied depends on the tile of rows}}
tile_gpu.kernel @rows(%tickets: memref<1xi32>, %n: i32, %heads: i32, %mk: !map, %mv: !map)
    attributes {schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 128, cluster = 2>} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %i0 = arith.constant 0 : index
  %i64 = arith.constant 64 : index
  %k = tile_gpu.ring.create tma consumers(4) : !ring
  %v = tile_gpu.ring.create tma consumers(4) : !ring
  %s = tile_gpu.scheduler dynamic in_order tickets(%tickets : memref<1xi32>)
      cluster(2) tiles(%n) heads(%heads) batch(%c1) {
  ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
    tile_gpu.yield
  }
  tile_gpu.role "load" warps(1) {
  ^bb0(%w: i32):
    %e = tile_gpu.foreach %s lead iter_args(%c0 : i32) {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32, %b: i32):
      %end = arith.index_cast %tile : i32 to index
      %last = scf.for %j = %i0 to %end step %i64 iter_args(%c = %b) -> i32 {
        %tk = tile_gpu.ring.acquire %k[%c] : !ring
        tile_gpu.ring.load %mk[%head, %c0], %tk : !map, !tile
        %d = arith.addi %c, %c1 : i32
        scf.yield %d : i32
      }
      %tv = tile_gpu.ring.acquire %v[%last] : !ring
      tile_gpu.ring.load %mv[%head, %c0], %tv : !map, !tile
      tile_gpu.yield %last : i32
    } -> i32
    tile_gpu.yield
  }
  tile_gpu.return
}

// Where the tile says which keys are read, nothing is shared.
// CHECK-LABEL: kernel @tiles
// CHECK-NOT: cluster(
// expected-remark @below {{copies of a cluster not shared: which keys are copied depends on the tile of rows}}
tile_gpu.kernel @tiles(%tickets: memref<1xi32>, %n: i32, %heads: i32, %mk: !map)
    attributes {schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 128, cluster = 2>} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %k = tile_gpu.ring.create tma consumers(4) : !ring
  %s = tile_gpu.scheduler dynamic in_order tickets(%tickets : memref<1xi32>)
      cluster(2) tiles(%n) heads(%heads) batch(%c1) {
  ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
    tile_gpu.yield
  }
  tile_gpu.role "load" warps(1) {
  ^bb0(%w: i32):
    %e = tile_gpu.foreach %s lead iter_args(%c0 : i32) {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32, %c: i32):
      %tk = tile_gpu.ring.acquire %k[%c] : !ring
      tile_gpu.ring.load %mk[%tile, %c0], %tk : !map, !tile
      %d = arith.addi %c, %c1 : i32
      tile_gpu.yield %d : i32
    } -> i32
    tile_gpu.yield
  }
  tile_gpu.return
}
}
