// RUN: attn-opt %s --pass-pipeline="builtin.module(tile_gpu.kernel(tile-gpu-read-tables-ahead))" | FileCheck %s
// RUN: attn-opt %s --pass-pipeline="builtin.module(tile_gpu.kernel(tile-gpu-read-tables-ahead))" | attn-opt - %tidy %verify_kernels -o /dev/null

// A tile that comes ahead of the loop takes entries that have been read, too.

!map = !tile_gpu.tensor_map<64x128xbf16 swizzle 128>
!ring = !tile_gpu.ring<3, 128x128xbf16 swizzle 128>
!tile = !tile_gpu.smem<128x128xbf16 swizzle 128>

module attributes {attn.target = "sm_90a"} {
// That of a block's first item is copied before the item is drawn, behind the wait: the
// warp reads the entries and the length at once. Items that follow read and copy theirs.
// CHECK-LABEL: kernel private @first(
// CHECK-SAME:    %[[MAP:[a-z0-9]*]]: !tile_gpu.tensor_map<64x128xbf16 swizzle 128>, %[[LENGTHS:[a-z0-9]*]]: memref<?xi32>, %[[TABLE:[a-z0-9]*]]: memref<?x?xi32>
// CHECK:       %[[RING:.*]] = tile_gpu.ring.create
// CHECK:       %[[ITEMS:.*]] = tile_gpu.scheduler dynamic
// CHECK:       tile_gpu.role "load"
// CHECK:         tile_gpu.dependencies.wait
// CHECK:         %[[SEQUENCE:.*]] = tile_gpu.foreach %{{.*}} lead
// CHECK:         %[[NOW:.*]] = tile_gpu.global.load %[[TABLE]][%[[SEQUENCE]], %{{.*}}] rows(
// CHECK:         %[[LATER:.*]] = tile_gpu.global.load %[[TABLE]][%[[SEQUENCE]], %{{.*}}] rows(
// CHECK:         %[[COPIED:.*]] = tile_gpu.foreach %{{.*}} lead
// CHECK-NEXT:    ^bb0(%{{.*}}: i32, %[[HEAD:.*]]: i32, %[[BATCH:.*]]: i32, %{{.*}}: i32, %{{.*}}: i32):
// CHECK:           memref.load %[[LENGTHS]]
// CHECK:           %[[SOME:.*]] = arith.cmpi sgt
// CHECK:           scf.if %[[SOME]] -> (i32)
// CHECK:             %[[TO:.*]] = tile_gpu.ring.acquire %[[RING]]
// CHECK-NEXT:        tile_gpu.ring.load %[[MAP]][%[[BATCH]], %[[HEAD]], %{{.*}}, %{{.*}}], %[[TO]] table(%[[TABLE]] : memref<?x?xi32>) entries(%[[NOW]] from
// CHECK-NOT:         ring.load
// CHECK:         tile_gpu.foreach %[[ITEMS]] iter_args(%{{.*}}, %[[COPIED]] : i32, i32)
// CHECK-NEXT:    ^bb0(%{{.*}}: i32, %{{.*}}: i32, %[[B:.*]]: i32, %{{.*}}: i32, %{{.*}}: index, %{{.*}}: i1, %{{.*}}: i32, %[[DONE:.*]]: i32):
// CHECK:           %[[IS:.*]] = arith.cmpi eq, %[[B]], %[[SEQUENCE]] : i32
// CHECK:           %[[E:.*]]:2 = scf.if %[[IS]]
// CHECK-NEXT:        scf.yield %[[NOW]], %[[LATER]]
// CHECK:             tile_gpu.global.load %[[TABLE]][%[[B]],
// CHECK:             tile_gpu.global.load %[[TABLE]][%[[B]],
// CHECK:           %[[LEFT:.*]] = arith.cmpi eq, %[[DONE]], %{{.*}} : i32
// CHECK-NEXT:      scf.if %[[LEFT]]
// CHECK-NEXT:        tile_gpu.ring.acquire
// CHECK-NEXT:        tile_gpu.ring.load {{.*}} entries(%[[E]]#0 from
// CHECK-NEXT:      }
// CHECK:           scf.for {{.*}} iter_args(%{{.*}} = %{{.*}}, %{{.*}} = %[[E]]#0, %{{.*}} = %[[E]]#1)
// CHECK:         tile_gpu.yield %{{.*}}, %c0_i32{{.*}} : i32, i32
tile_gpu.kernel private @first(%map: !map, %lengths: memref<?xi32>, %table: memref<?x?xi32>,
    %tickets: memref<1xi32>, %n: i32)
    attributes {schedule = #attn.schedule<block_q = 32, rows = 32, block_k = 128>} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant 0 : index
  %c128 = arith.constant 128 : index
  %r = tile_gpu.ring.create tma consumers(4) : !ring
  %s = tile_gpu.scheduler dynamic in_order tickets(%tickets : memref<1xi32>) tiles(%n) heads(%n) batch(%n) {
  ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
    %b = arith.index_cast %batch : i32 to index
    tile_gpu.dependencies.wait
    %length = memref.load %lengths[%b] : memref<?xi32>
    %to = arith.index_cast %length : i32 to index
    %some = arith.cmpi sgt, %to, %zero : index
    tile_gpu.yield %to, %some : index, i1
  }
  tile_gpu.role "draw" warps(1) registers(56) {
  ^bb0(%warp: i32):
    tile_gpu.foreach %s lead {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32, %to: index, %some: i1):
      tile_gpu.yield
    }
    tile_gpu.yield
  }
  tile_gpu.role "load" warps(1) registers(56) {
  ^bb0(%warp: i32):
    tile_gpu.dependencies.wait
    %end = tile_gpu.foreach %s iter_args(%c0 : i32) {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32, %to: index, %some: i1, %use: i32):
      %last = scf.if %some -> (i32) {
        %t = tile_gpu.ring.acquire %r[%use] : !ring
        tile_gpu.ring.load %map[%batch, %head, %c0, %c0], %t table(%table : memref<?x?xi32>) page(64) : !map, !tile
        %next = arith.addi %use, %c1 : i32
        %all = scf.for %i = %c128 to %to step %c128 iter_args(%u = %next) -> (i32) {
          %m = tile_gpu.ring.acquire %r[%u] : !ring
          %row = arith.index_cast %i : index to i32
          tile_gpu.ring.load %map[%batch, %head, %row, %c0], %m table(%table : memref<?x?xi32>) page(64) : !map, !tile
          %more = arith.addi %u, %c1 : i32
          scf.yield %more : i32
        }
        scf.yield %all : i32
      } else {
        scf.yield %use : i32
      }
      tile_gpu.draw_next
      tile_gpu.yield %last : i32
    } -> i32
    tile_gpu.yield
  }
  tile_gpu.role "compute" warpgroups(1) registers(240) {
  ^bb0(%wg: i32):
    tile_gpu.dependencies.wait
    %end = tile_gpu.foreach %s iter_args(%c0 : i32) {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32, %to: index, %some: i1, %use: i32):
      %last = scf.for %i = %zero to %to step %c128 iter_args(%u = %use) -> (i32) {
        %t = tile_gpu.ring.wait %r[%u] : !ring
        tile_gpu.ring.release %r[%u] : !ring
        %next = arith.addi %u, %c1 : i32
        scf.yield %next : i32
      }
      tile_gpu.draw_next
      tile_gpu.yield %last : i32
    } -> i32
    tile_gpu.yield
  }
  tile_gpu.return
}

// Blocks of many rows wait longer for products, and of those that pass over items
// nobody knows the first.
// CHECK-LABEL: kernel private @many(
// CHECK:       tile_gpu.role "load"
// CHECK-NOT:     lead
// CHECK:         scf.if
// CHECK:           %[[NOW:.*]] = tile_gpu.global.load
// CHECK:           tile_gpu.ring.load {{.*}} entries(%[[NOW]] from
// CHECK:       tile_gpu.role "compute"
tile_gpu.kernel private @many(%map: !map, %lengths: memref<?xi32>, %table: memref<?x?xi32>,
    %tickets: memref<1xi32>, %n: i32)
    attributes {schedule = #attn.schedule<block_q = 64, rows = 64, block_k = 128>} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant 0 : index
  %c128 = arith.constant 128 : index
  %r = tile_gpu.ring.create tma consumers(4) : !ring
  %s = tile_gpu.scheduler dynamic in_order tickets(%tickets : memref<1xi32>) tiles(%n) heads(%n) batch(%n) {
  ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
    %b = arith.index_cast %batch : i32 to index
    tile_gpu.dependencies.wait
    %length = memref.load %lengths[%b] : memref<?xi32>
    %to = arith.index_cast %length : i32 to index
    %some = arith.cmpi sgt, %to, %zero : index
    tile_gpu.yield %to, %some : index, i1
  }
  tile_gpu.role "draw" warps(1) registers(56) {
  ^bb0(%warp: i32):
    tile_gpu.foreach %s lead {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32, %to: index, %some: i1):
      tile_gpu.yield
    }
    tile_gpu.yield
  }
  tile_gpu.role "load" warps(1) registers(56) {
  ^bb0(%warp: i32):
    tile_gpu.dependencies.wait
    %end = tile_gpu.foreach %s iter_args(%c0 : i32) {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32, %to: index, %some: i1, %use: i32):
      %last = scf.if %some -> (i32) {
        %t = tile_gpu.ring.acquire %r[%use] : !ring
        tile_gpu.ring.load %map[%batch, %head, %c0, %c0], %t table(%table : memref<?x?xi32>) page(64) : !map, !tile
        %next = arith.addi %use, %c1 : i32
        %all = scf.for %i = %c128 to %to step %c128 iter_args(%u = %next) -> (i32) {
          %m = tile_gpu.ring.acquire %r[%u] : !ring
          %row = arith.index_cast %i : index to i32
          tile_gpu.ring.load %map[%batch, %head, %row, %c0], %m table(%table : memref<?x?xi32>) page(64) : !map, !tile
          %more = arith.addi %u, %c1 : i32
          scf.yield %more : i32
        }
        scf.yield %all : i32
      } else {
        scf.yield %use : i32
      }
      tile_gpu.draw_next
      tile_gpu.yield %last : i32
    } -> i32
    tile_gpu.yield
  }
  tile_gpu.role "compute" warpgroups(1) registers(240) {
  ^bb0(%wg: i32):
    tile_gpu.dependencies.wait
    %end = tile_gpu.foreach %s iter_args(%c0 : i32) {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32, %to: index, %some: i1, %use: i32):
      %last = scf.for %i = %zero to %to step %c128 iter_args(%u = %use) -> (i32) {
        %t = tile_gpu.ring.wait %r[%u] : !ring
        tile_gpu.ring.release %r[%u] : !ring
        %next = arith.addi %u, %c1 : i32
        scf.yield %next : i32
      }
      tile_gpu.draw_next
      tile_gpu.yield %last : i32
    } -> i32
    tile_gpu.yield
  }
  tile_gpu.return
}

// CHECK-LABEL: kernel private @skipped(
// CHECK:       tile_gpu.role "load"
// CHECK-NOT:     lead
// CHECK:       tile_gpu.role "compute"
tile_gpu.kernel private @skipped(%map: !map, %lengths: memref<?xi32>, %table: memref<?x?xi32>,
    %tickets: memref<1xi32>, %n: i32)
    attributes {schedule = #attn.schedule<block_q = 32, rows = 32, block_k = 128>} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant 0 : index
  %c128 = arith.constant 128 : index
  %r = tile_gpu.ring.create tma consumers(4) : !ring
  %s = tile_gpu.scheduler dynamic in_order tickets(%tickets : memref<1xi32>) tiles(%n) heads(%n) batch(%n) {
  ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
    %b = arith.index_cast %batch : i32 to index
    tile_gpu.dependencies.wait
    %length = memref.load %lengths[%b] : memref<?xi32>
    %to = arith.index_cast %length : i32 to index
    %some = arith.cmpi sgt, %to, %zero : index
    %none = arith.cmpi eq, %to, %zero : index
    tile_gpu.skip %none
    tile_gpu.yield %to, %some : index, i1
  }
  tile_gpu.role "draw" warps(1) registers(56) {
  ^bb0(%warp: i32):
    tile_gpu.foreach %s lead {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32, %to: index, %some: i1):
      tile_gpu.yield
    }
    tile_gpu.yield
  }
  tile_gpu.role "load" warps(1) registers(56) {
  ^bb0(%warp: i32):
    tile_gpu.dependencies.wait
    %end = tile_gpu.foreach %s iter_args(%c0 : i32) {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32, %to: index, %some: i1, %use: i32):
      %last = scf.if %some -> (i32) {
        %t = tile_gpu.ring.acquire %r[%use] : !ring
        tile_gpu.ring.load %map[%batch, %head, %c0, %c0], %t table(%table : memref<?x?xi32>) page(64) : !map, !tile
        %next = arith.addi %use, %c1 : i32
        %all = scf.for %i = %c128 to %to step %c128 iter_args(%u = %next) -> (i32) {
          %m = tile_gpu.ring.acquire %r[%u] : !ring
          %row = arith.index_cast %i : index to i32
          tile_gpu.ring.load %map[%batch, %head, %row, %c0], %m table(%table : memref<?x?xi32>) page(64) : !map, !tile
          %more = arith.addi %u, %c1 : i32
          scf.yield %more : i32
        }
        scf.yield %all : i32
      } else {
        scf.yield %use : i32
      }
      tile_gpu.draw_next
      tile_gpu.yield %last : i32
    } -> i32
    tile_gpu.yield
  }
  tile_gpu.role "compute" warpgroups(1) registers(240) {
  ^bb0(%wg: i32):
    tile_gpu.dependencies.wait
    %end = tile_gpu.foreach %s iter_args(%c0 : i32) {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32, %to: index, %some: i1, %use: i32):
      %last = scf.for %i = %zero to %to step %c128 iter_args(%u = %use) -> (i32) {
        %t = tile_gpu.ring.wait %r[%u] : !ring
        tile_gpu.ring.release %r[%u] : !ring
        %next = arith.addi %u, %c1 : i32
        scf.yield %next : i32
      }
      tile_gpu.draw_next
      tile_gpu.yield %last : i32
    } -> i32
    tile_gpu.yield
  }
  tile_gpu.return
}
}
