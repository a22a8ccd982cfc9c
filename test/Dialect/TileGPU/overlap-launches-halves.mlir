// RUN: attn-opt %s --tile-gpu-overlap-launches | FileCheck %s
// RUN: attn-opt %s %tidy --tile-gpu-overlap-launches %tidy %verify_kernels -o /dev/null

!tile = !tile_gpu.smem<128x128xbf16 swizzle 128>
!map = !tile_gpu.tensor_map<128x128xbf16 swizzle 128>
!keys = memref<?x?x?x128xbf16, strided<[?, ?, ?, 1]>>

module attributes {attn.target = "sm_90a"} {
// Half of a warpgroup's rows: of an item's tiles the one ahead of the loop is asked for,
// in a block's first item, and no others.
// CHECK-LABEL: kernel private @halves
// CHECK-SAME: %[[K:arg[0-9]+]]: memref<?x?x?x128xbf16
// CHECK: tile_gpu.role "load"
// CHECK: ^bb0(%{{.*}}: i32, %[[HEAD:.*]]: i32, %[[BATCH:.*]]: i32, %{{.*}}: i32, %[[USE:.*]]: i32):
// CHECK: %[[SOME:.*]] = arith.cmpi sgt
// CHECK: %[[FIRST:.*]] = arith.cmpi eq, %[[USE]], %{{.*}} : i32
// CHECK: %[[ASKS:.*]] = arith.andi %[[FIRST]], %[[SOME]] : i1
// CHECK: scf.if %[[ASKS]]
// CHECK: tile_gpu.global.prefetch %[[K]][%[[BATCH]], %[[HEAD]], %{{.*}}, %{{.*}}] rows(128) columns(128)
// CHECK-NOT: prefetch
// CHECK: tile_gpu.dependencies.wait
// CHECK-NEXT: scf.if %[[SOME]]
tile_gpu.kernel private @halves(%k: !keys, %map: !map, %tickets: memref<1xi32>, %n: i32)
    attributes {schedule = #attn.schedule<block_q = 32, rows = 32, block_k = 128>} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant 0 : index
  %two = arith.constant 2 : index
  %c128 = arith.constant 128 : index
  %r = tile_gpu.ring.create tma consumers(4) : <3, 128x128xbf16 swizzle 128>
  %s = tile_gpu.scheduler dynamic in_order tickets(%tickets : memref<1xi32>) tiles(%n) heads(%n) batch(%n) {
  ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
    tile_gpu.yield
  }
  tile_gpu.role "load" warps(1) registers(24) {
  ^bb0(%warp: i32):
    %end = tile_gpu.foreach %s lead iter_args(%c0 : i32) {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32, %use: i32):
      %keys = memref.dim %k, %two : !keys
      %some = arith.cmpi sgt, %keys, %zero : index
      %last = scf.if %some -> (i32) {
        %t = tile_gpu.ring.acquire %r[%use] : <3, 128x128xbf16 swizzle 128>
        tile_gpu.ring.load %map[%batch, %head, %c0, %c0], %t evict_first : !map, !tile
        %next = arith.addi %use, %c1 : i32
        %all = scf.for %i = %c128 to %keys step %c128 iter_args(%u = %next) -> (i32) {
          %m = tile_gpu.ring.acquire %r[%u] : <3, 128x128xbf16 swizzle 128>
          %row = arith.index_cast %i : index to i32
          tile_gpu.ring.load %map[%batch, %head, %row, %c0], %m evict_first : !map, !tile
          %more = arith.addi %u, %c1 : i32
          scf.yield %more : i32
        }
        scf.yield %all : i32
      } else {
        scf.yield %use : i32
      }
      tile_gpu.yield %last : i32
    } -> i32
    tile_gpu.yield
  }
  tile_gpu.role "compute" warpgroups(1) registers(240) {
  ^bb0(%wg: i32):
    %end = tile_gpu.foreach %s iter_args(%c0 : i32) {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32, %use: i32):
      %keys = memref.dim %k, %two : !keys
      %last = scf.for %i = %zero to %keys step %c128 iter_args(%u = %use) -> (i32) {
        %t = tile_gpu.ring.wait %r[%u] : <3, 128x128xbf16 swizzle 128>
        tile_gpu.ring.release %r[%u] : <3, 128x128xbf16 swizzle 128>
        %next = arith.addi %u, %c1 : i32
        scf.yield %next : i32
      }
      tile_gpu.yield %last : i32
    } -> i32
    tile_gpu.yield
  }
  tile_gpu.return
}
func.func @plan(%n: index, %k: !keys, %items: i32) attributes {tile.plan} {
  %map = tile_gpu.tensor_map %k : !keys -> <128x128xbf16 swizzle 128>
  %t = tile_gpu.tickets : memref<1xi32>
  tile_gpu.launch @halves grid(%n) args(%k, %map, %t, %items : !keys, !map, memref<1xi32>, i32)
  return
}
}
