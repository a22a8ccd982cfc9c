// RUN: attn-opt %s --tile-gpu-overlap-launches | FileCheck %s
// RUN: attn-opt %s %tidy --tile-gpu-overlap-launches %tidy %verify_kernels -o /dev/null

!tile = !tile_gpu.smem<64x128xbf16 swizzle 128>
!map = !tile_gpu.tensor_map<16x128xbf16 swizzle 128>

module attributes {attn.target = "sm_90a"} {
// The warp that copies asks for the pages of all slots ahead of its wait, where the
// launch asks. Copies that look pages up by themselves come behind reads of their first
// entries, with the length, and of no tile without a page.
// CHECK-LABEL: kernel private @asked
// CHECK-SAME: %[[K:arg[0-9]+]]: memref<?x?x16x128xbf16>, %[[MAP:arg[0-9]+]]: !tile_gpu.tensor_map<16x128xbf16 swizzle 128>, %[[LENGTHS:arg[0-9]+]]: memref<?xi32>, %[[TABLE:arg[0-9]+]]: memref<?x?xi32>
// CHECK-NOT: "ask"
// CHECK: tile_gpu.role "load"
// CHECK: ^bb0(%{{.*}}: i32, %[[HEAD:.*]]: i32, %[[BATCH:.*]]: i32, %{{.*}}: i32, %{{.*}}: i32):
// CHECK: memref.load %[[LENGTHS]][%{{.*}}] {nontemporal = true}
// CHECK: %[[ASKS:.*]] = arith.cmpi sge
// CHECK-NEXT: scf.if %[[ASKS]]
// CHECK: tile_gpu.global.prefetch %[[K]][%[[BATCH]], %[[HEAD]], %{{.*}}, %{{.*}}] rows(128) columns(128) table(%[[TABLE]] : memref<?x?xi32>) boxes(16) before
// CHECK-NOT: prefetch
// CHECK: tile_gpu.dependencies.wait
// CHECK: memref.load %[[LENGTHS]][%{{.*}}] {nontemporal = true}
// CHECK: %[[ENTRY0:.*]] = memref.load %[[TABLE]][%{{.*}}, %{{.*}}] : memref
// CHECK: %[[ENTRY1:.*]] = memref.load %[[TABLE]][%{{.*}}, %{{.*}}] : memref
// CHECK: %[[IS0:.*]] = arith.cmpi sge, %[[ENTRY0]], %{{.*}} : i32
// CHECK: tile_gpu.ring.load %[[MAP]][%[[BATCH]], %[[HEAD]], %{{.*}}, %{{.*}}], %{{.*}} table(%[[TABLE]]
// CHECK: %[[IS1:.*]] = arith.cmpi sge, %[[ENTRY1]], %{{.*}} : i32
// CHECK: tile_gpu.ring.load %[[MAP]][%[[BATCH]], %[[HEAD]], %{{.*}}, %{{.*}}], %{{.*}} table(%[[TABLE]]
// CHECK: tile_gpu.foreach
tile_gpu.kernel private @asked(%k: memref<?x?x16x128xbf16>, %map: !map, %lengths: memref<?xi32>,
    %table: memref<?x?xi32>, %tickets: memref<1xi32>, %n: i32)
    attributes {schedule = #attn.schedule<block_q = 16, rows = 16, block_k = 64>} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %r = tile_gpu.ring.create tma consumers(4) : <2, 64x128xbf16 swizzle 128>
  %s = tile_gpu.scheduler dynamic in_order tickets(%tickets : memref<1xi32>) tiles(%n) heads(%n) batch(%n) {
  ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
    %b = arith.index_cast %batch : i32 to index
    %length = memref.load %lengths[%b] : memref<?xi32>
    %to = arith.index_cast %length : i32 to index
    %mid = arith.divui %to, %c64 : index
    tile_gpu.yield %mid, %to : index, index
  }
  tile_gpu.role "draw" warps(1) registers(24) {
  ^bb0(%warp: i32):
    tile_gpu.foreach %s lead {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32, %mid: index, %to: index):
      tile_gpu.yield
    }
    tile_gpu.yield
  }
  tile_gpu.role "load" warps(1) registers(24) {
  ^bb0(%warp: i32):
    %end = tile_gpu.foreach %s iter_args(%c0 : i32) {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32, %mid: index, %to: index, %use: i32):
      %most = scf.for %i = %zero to %mid step %c64 iter_args(%u = %use) -> (i32) {
        %t = tile_gpu.ring.acquire %r[%u] : <2, 64x128xbf16 swizzle 128>
        %row = arith.index_cast %i : index to i32
        tile_gpu.ring.load %map[%batch, %head, %row, %c0], %t table(%table : memref<?x?xi32>) page(16) : !map, !tile
        %next = arith.addi %u, %c1 : i32
        scf.yield %next : i32
      }
      %last = scf.for %i = %mid to %to step %c64 iter_args(%u = %most) -> (i32) {
        %t = tile_gpu.ring.acquire %r[%u] : <2, 64x128xbf16 swizzle 128>
        %row = arith.index_cast %i : index to i32
        tile_gpu.ring.load %map[%batch, %head, %row, %c0], %t table(%table : memref<?x?xi32>) page(16) : !map, !tile
        %next = arith.addi %u, %c1 : i32
        scf.yield %next : i32
      }
      tile_gpu.yield %last : i32
    } -> i32
    tile_gpu.yield
  }
  tile_gpu.role "compute" warpgroups(1) registers(240) {
  ^bb0(%wg: i32):
    %end = tile_gpu.foreach %s iter_args(%c0 : i32) {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32, %mid: index, %to: index, %use: i32):
      %last = scf.for %i = %zero to %to step %c64 iter_args(%u = %use) -> (i32) {
        %t = tile_gpu.ring.wait %r[%u] : <2, 64x128xbf16 swizzle 128>
        tile_gpu.ring.release %r[%u] : <2, 64x128xbf16 swizzle 128>
        %next = arith.addi %u, %c1 : i32
        scf.yield %next : i32
      }
      tile_gpu.yield %last : i32
    } -> i32
    tile_gpu.yield
  }
  tile_gpu.return
}
func.func @plan(%n: index, %k: memref<?x?x16x128xbf16>, %lengths: memref<?xi32>,
    %table: memref<?x?xi32>, %items: i32) attributes {tile.plan} {
  %map = tile_gpu.tensor_map %k : memref<?x?x16x128xbf16> -> <16x128xbf16 swizzle 128>
  %t = tile_gpu.tickets : memref<1xi32>
  tile_gpu.launch @asked grid(%n) args(%k, %map, %lengths, %table, %t, %items : memref<?x?x16x128xbf16>, !map, memref<?xi32>, memref<?x?xi32>, memref<1xi32>, i32)
  return
}
}
