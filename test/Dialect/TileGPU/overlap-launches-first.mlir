// RUN: attn-opt %s --tile-gpu-overlap-launches | FileCheck %s
// RUN: attn-opt %s %tidy --tile-gpu-overlap-launches %tidy %verify_kernels -o /dev/null

!tile = !tile_gpu.smem<64x128xbf16 swizzle 128>
!map = !tile_gpu.tensor_map<64x128xbf16 swizzle 128>

module attributes {attn.target = "sm_90a"} {
// One warp draws items, which lengths of sequences say. The one that copies tells its
// first tiles ahead of its wait; behind it, it reads the length again, with the entries
// of the table, and copies what slots there are for where the length is the same. Of
// its loops each begins behind what is copied.
// CHECK-LABEL: kernel private @pages
// CHECK-SAME: %[[MAP:arg[0-9]+]]: !tile_gpu.tensor_map<64x128xbf16 swizzle 128>, %[[LENGTHS:arg[0-9]+]]: memref<?xi32>, %[[TABLE:arg[0-9]+]]: memref<?x?xi32>
// CHECK: %[[RING:.*]] = tile_gpu.ring.create
// CHECK: %[[ALL:.*]] = tile_gpu.scheduler dynamic
// CHECK: %[[FIRST:.*]] = tile_gpu.scheduler grid in_order
// CHECK: tile_gpu.role "load"
// CHECK: %[[NONE:.*]] = arith.constant 0 : i32
// CHECK: %[[COPIED:.*]] = tile_gpu.foreach %[[FIRST]] lead iter_args(%[[NONE]] : i32)
// CHECK-NEXT: ^bb0(%{{.*}}: i32, %[[HEAD:.*]]: i32, %[[BATCH:.*]]: i32, %{{.*}}: i32, %{{.*}}: i32):
// CHECK: %[[BEFORE:.*]] = memref.load %[[LENGTHS]][%{{.*}}] {nontemporal = true}
// CHECK: %[[SOME:.*]] = arith.cmpi slt
// CHECK: tile_gpu.global.prefetch %[[TABLE]][%{{.*}}] rows(1) columns(1)
// CHECK-NEXT: tile_gpu.dependencies.wait
// CHECK-NEXT: scf.if %[[SOME]]
// CHECK: %[[AFTER:.*]] = memref.load %[[LENGTHS]][%{{.*}}] {nontemporal = true}
// CHECK: %[[PAGE0:.*]] = memref.load %[[TABLE]][%{{.*}}, %{{.*}}] {nontemporal = true}
// CHECK: %[[PAGE1:.*]] = memref.load %[[TABLE]][%{{.*}}, %{{.*}}] {nontemporal = true}
// CHECK-NOT: memref.load
// CHECK: %[[SAME:.*]] = arith.cmpi eq, %[[BEFORE]], %[[AFTER]] : i32
// CHECK-NEXT: %[[HOLDS:.*]] = arith.andi %{{.*}}, %[[SAME]] : i1
// CHECK: %[[EXISTS:.*]] = arith.andi %[[HOLDS]], %{{.*}} : i1
// CHECK: scf.if %[[EXISTS]] -> (i32)
// CHECK: tile_gpu.ring.acquire %[[RING]][%{{.*}}]
// CHECK: tile_gpu.ring.load %[[MAP]][%[[PAGE0]], %[[HEAD]]
// CHECK: scf.if %{{.*}} -> (i32)
// CHECK: tile_gpu.ring.load %[[MAP]][%[[PAGE1]], %[[HEAD]]
// CHECK-NOT: ring.load
// CHECK: tile_gpu.foreach %[[ALL]] iter_args(%[[COPIED]], %[[COPIED]] : i32, i32)
// CHECK-NEXT: ^bb0({{.*}}, %[[MID:.*]]: index, %[[TO:.*]]: index, %{{.*}}: i32, %[[AHEAD:.*]]: i32):
// CHECK: %[[TILES:.*]] = arith.index_cast %[[AHEAD]] : i32 to index
// CHECK: %[[ROWS:.*]] = arith.muli %[[TILES]]
// CHECK: %[[FROM:.*]] = arith.addi %{{.*}}, %[[ROWS]] : index
// CHECK: scf.for %{{.*}} = %[[FROM]] to %[[MID]]
// CHECK: %[[LATER:.*]] = arith.maxsi %[[MID]], %[[FROM]] : index
// CHECK: scf.for %{{.*}} = %[[LATER]] to %[[TO]]
// CHECK: tile_gpu.yield %{{.*}}, %{{.*}} : i32, i32
tile_gpu.kernel private @pages(%map: !map, %lengths: memref<?xi32>,
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
        %number = arith.divui %i, %c64 : index
        %page = memref.load %table[%b, %number] : memref<?x?xi32>
        tile_gpu.ring.load %map[%page, %head, %c0, %c0], %t : !map, !tile
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
func.func @plan(%n: index, %k: memref<?x?x64x128xbf16>, %lengths: memref<?xi32>,
    %table: memref<?x?xi32>, %items: i32) attributes {tile.plan} {
  %map = tile_gpu.tensor_map %k : memref<?x?x64x128xbf16> -> <64x128xbf16 swizzle 128>
  %t = tile_gpu.tickets : memref<1xi32>
  tile_gpu.launch @pages grid(%n) args(%map, %lengths, %table, %t, %items : !map, memref<?xi32>, memref<?x?xi32>, memref<1xi32>, i32)
  return
}
}
