// RUN: attn-opt %s --tile-gpu-overlap-launches | FileCheck %s
// RUN: attn-opt %s %tidy --tile-gpu-overlap-launches %tidy %verify_kernels -o /dev/null

!tile = !tile_gpu.smem<64x128xbf16 swizzle 128>
!map = !tile_gpu.tensor_map<64x128xbf16 swizzle 128>
!keys = memref<?x?x64x128xbf16>

module attributes {attn.target = "sm_90a"} {
// Lengths say what an item is, and a table where its pages lie. A warp of its own reads
// both ahead of the wait, past caches, and asks for as many tiles as there are slots,
// of four times as many. Of the two loops over keys the second goes on where the first
// one ends.
// CHECK-LABEL: kernel private @pages
// CHECK-SAME: %[[K:arg[0-9]+]]: memref<?x?x64x128xbf16>, %{{.*}}, %[[LENGTHS:arg[0-9]+]]: memref<?xi32>, %[[TABLE:arg[0-9]+]]: memref<?x?xi32>
// CHECK: tile_gpu.scheduler dynamic
// CHECK: tile_gpu.dependencies.wait
// CHECK-NEXT: memref.load %[[LENGTHS]]
// CHECK: %[[FIRST:.*]] = tile_gpu.scheduler grid in_order
// CHECK-NEXT: ^bb0
// CHECK-NEXT: tile_gpu.yield
// CHECK: tile_gpu.role "load" warps(1) registers(24)
// CHECK: tile_gpu.role "ask" warps(1) registers(24) {
// CHECK-NEXT: ^bb0
// CHECK-NEXT: tile_gpu.dependents.launch
// CHECK-NEXT: tile_gpu.foreach %[[FIRST]] lead {
// CHECK-NEXT: ^bb0(%{{.*}}: i32, %[[HEAD:.*]]: i32, %[[BATCH:.*]]: i32, %{{.*}}: i32):
// CHECK-NOT: dependencies.wait
// CHECK: memref.load %[[LENGTHS]][%{{.*}}] {nontemporal = true}
// CHECK: %[[LONG:.*]] = arith.cmpi sge, {{.*}} : index
// CHECK: scf.if %[[LONG]]
// CHECK: %[[PAGE0:.*]] = memref.load %[[TABLE]][%{{.*}}, %{{.*}}] {nontemporal = true}
// CHECK: memref.load %[[TABLE]][%{{.*}}, %{{.*}}] {nontemporal = true}
// CHECK-NOT: memref.load
// CHECK: scf.if
// CHECK-NEXT: tile_gpu.global.prefetch %[[K]][%[[PAGE0]], %[[HEAD]], %{{.*}}, %{{.*}}] rows(64) columns(128)
// CHECK: tile_gpu.global.prefetch %[[K]]
// CHECK-NOT: prefetch
// CHECK: tile_gpu.role "compute"
tile_gpu.kernel private @pages(%k: !keys, %map: !map, %lengths: memref<?xi32>,
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
  tile_gpu.role "load" warps(1) registers(24) {
  ^bb0(%warp: i32):
    %end = tile_gpu.foreach %s lead iter_args(%c0 : i32) {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32, %mid: index, %to: index, %use: i32):
      %b = arith.index_cast %batch : i32 to index
      %most = scf.for %i = %zero to %mid step %c64 iter_args(%u = %use) -> (i32) {
        %t = tile_gpu.ring.acquire %r[%u] : <2, 64x128xbf16 swizzle 128>
        %number = arith.divui %i, %c64 : index
        %page = memref.load %table[%b, %number] : memref<?x?xi32>
        tile_gpu.ring.load %map[%page, %head, %c0, %c0], %t : !map, !tile
        %next = arith.addi %u, %c1 : i32
        scf.yield %next : i32
      }
      %last = scf.for %i = %mid to %to step %c64 iter_args(%u = %most) -> (i32) {
        %t = tile_gpu.ring.acquire %r[%u] : <2, 64x128xbf16 swizzle 128>
        tile_gpu.ring.load %map[%c0, %head, %c0, %c0], %t : !map, !tile
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
// Of a cluster's parts the pages are asked for where the slots hold all keys of a part,
// or these are four times as many and most multiprocessors have one item. Tiles that lie
// behind each other are one request.
// CHECK-LABEL: kernel private @parts
// CHECK-SAME: %[[K:arg[0-9]+]]: memref<?x?x64x128xbf16>, %{{.*}}, %{{.*}}: memref<?xi32>, %[[TABLE:arg[0-9]+]]: memref<?x?xi32>
// CHECK: tile_gpu.role "ask"
// CHECK: %[[LONG:.*]] = arith.cmpi sge, {{.*}} : index
// CHECK: %[[MOST:.*]] = arith.cmpi sgt, {{.*}} : i32
// CHECK: %[[ALL:.*]] = arith.cmpi sle, {{.*}} : index
// CHECK: %[[ASKS:.*]] = arith.ori
// CHECK: scf.if %[[ASKS]]
// CHECK: %[[BEFORE:.*]] = arith.index_cast %{{.*}} : index to i32
// CHECK-NOT: scf.if
// CHECK: tile_gpu.global.prefetch %[[K]][%{{.*}}] rows(128) columns(128) table(%[[TABLE]] : memref<?x?xi32>) boxes(64) before(%[[BEFORE]])
// CHECK-NOT: prefetch
// CHECK: tile_gpu.role "compute"
tile_gpu.kernel private @parts(%k: !keys, %map: !map, %lengths: memref<?xi32>,
    %table: memref<?x?xi32>, %tickets: memref<1xi32>, %n: i32)
    attributes {schedule = #attn.schedule<block_q = 16, rows = 16, block_k = 64>} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %r = tile_gpu.ring.create tma consumers(4) : <2, 64x128xbf16 swizzle 128>
  %s = tile_gpu.scheduler dynamic in_order tickets(%tickets : memref<1xi32>) cluster(2) by_parts tiles(%n) heads(%n) batch(%n) splits(%n) {
  ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
    %b = arith.index_cast %batch : i32 to index
    %length = memref.load %lengths[%b] : memref<?xi32>
    %to = arith.index_cast %length : i32 to index
    tile_gpu.yield %to : index
  }
  tile_gpu.role "load" warps(1) registers(24) {
  ^bb0(%warp: i32):
    %end = tile_gpu.foreach %s lead iter_args(%c0 : i32) {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32, %to: index, %use: i32):
      %last = scf.for %i = %zero to %to step %c64 iter_args(%u = %use) -> (i32) {
        %t = tile_gpu.ring.acquire %r[%u] : <2, 64x128xbf16 swizzle 128>
        %row = arith.index_cast %i : index to i32
        tile_gpu.ring.load %map[%batch, %head, %row, %c0], %t table(%table : memref<?x?xi32>) page(64) : !map, !tile
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
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32, %to: index, %use: i32):
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
func.func @parts_plan(%n: index, %k: !keys, %lengths: memref<?xi32>,
    %table: memref<?x?xi32>, %items: i32) attributes {tile.plan} {
  %map = tile_gpu.tensor_map %k : !keys -> <64x128xbf16 swizzle 128>
  %t = tile_gpu.tickets : memref<1xi32>
  tile_gpu.launch @parts grid(%n) args(%k, %map, %lengths, %table, %t, %items : !keys, !map, memref<?xi32>, memref<?x?xi32>, memref<1xi32>, i32)
  return
}
func.func @plan(%n: index, %k: !keys, %lengths: memref<?xi32>, %table: memref<?x?xi32>,
    %items: i32) attributes {tile.plan} {
  %map = tile_gpu.tensor_map %k : !keys -> <64x128xbf16 swizzle 128>
  %t = tile_gpu.tickets : memref<1xi32>
  tile_gpu.launch @pages grid(%n) args(%k, %map, %lengths, %table, %t, %items : !keys, !map, memref<?xi32>, memref<?x?xi32>, memref<1xi32>, i32)
  return
}
}
