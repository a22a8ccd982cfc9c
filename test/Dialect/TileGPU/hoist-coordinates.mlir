// RUN: attn-opt %s --tile-gpu-hoist-coordinates --split-input-file | FileCheck %s
// RUN: attn-opt %s --split-input-file %tidy --tile-gpu-hoist-coordinates %tidy %verify_kernels -o /dev/null

!acc = !tile_gpu.frag<64x64xf32, acc>

// Two roles find the same row, one of them the end of the keys as well, by a
// loop over loaded numbers. What all items share goes before the schedule, the
// rest into its body; a sum is computed where it is read.
// CHECK-LABEL: kernel @packed
// CHECK: %[[GROUP:.*]] = arith.divui %{{.*}}, %{{.*}} : i32
// CHECK: tile_gpu.scheduler dynamic
// CHECK: ^bb0(%[[TILE:[^:]*]]: i32,
// CHECK: %[[HEAD:.*]] = arith.divui %[[TILE]], %[[GROUP]] : i32
// CHECK: %[[END:.*]] = scf.for
// CHECK: memref.load
// CHECK: tile_gpu.yield %{{.*}}, %{{.*}}, %[[END]], %[[HEAD]] : i32, i32, i32, i32
// CHECK: tile_gpu.role "load"
// CHECK: tile_gpu.foreach
// CHECK: ^bb0(%{{.*}}: i32, %{{.*}}: i32, %{{.*}}: i32, %{{.*}}: i32, %{{.*}}: i32, %{{.*}}: i32, %{{[^:]*}}: i32, %[[H:[^:]*]]: i32, %{{[^:]*}}: i32):
// CHECK-NOT: divui
// CHECK: tile_gpu.ring.load %{{.*}}[%[[H]], %{{.*}}]
// CHECK: tile_gpu.role "compute"
// CHECK: ^bb0(%[[T:[^:]*]]: i32, %{{.*}}: i32, %{{.*}}: i32, %{{.*}}: i32, %{{.*}}: i32, %{{.*}}: i32, %[[E:[^:]*]]: i32, %[[H1:[^:]*]]: i32, %{{[^:]*}}: i32):
// CHECK-NOT: divui
// CHECK-NOT: memref.load
// CHECK: scf.for %{{.*}} = %{{.*}} to %[[E]]
// CHECK: %[[ROW:.*]] = arith.addi %[[H1]], %[[T]] : i32
// CHECK: tile_gpu.global.store %{{.*}}, %{{.*}}[%[[ROW]], %{{.*}}]
!ring = !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
!tile = !tile_gpu.smem<64x64xbf16 swizzle 128>
!map = !tile_gpu.tensor_map<64x64xbf16 swizzle 128>
tile_gpu.kernel @packed(%tickets: memref<1xi32>, %n: i32, %heads: i32, %groups: i32,
    %lengths: memref<?xi32>, %q: !map, %out: memref<?x?xf32>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %x = arith.constant 0.0 : f32
  %ring = tile_gpu.ring.create tma consumers(4) : !ring
  %s = tile_gpu.scheduler dynamic in_order tickets(%tickets : memref<1xi32>)
      tiles(%n) heads(%c1) batch(%c1) {
  ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
    tile_gpu.yield %c0, %c0 : i32, i32
  }
  tile_gpu.role "load" warps(1) {
  ^bb0(%w: i32):
    %e = tile_gpu.foreach %s lead iter_args(%c0 : i32) {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32, %lo: i32, %hi: i32, %c: i32):
      %group = arith.divui %heads, %groups : i32
      %h = arith.divui %tile, %group : i32
      %t = tile_gpu.ring.acquire %ring[%c] : !ring
      tile_gpu.ring.load %q[%h, %c0], %t : !map, !tile
      %d = arith.addi %c, %c1 : i32
      tile_gpu.yield %d : i32
    } -> i32
    tile_gpu.yield
  }
  tile_gpu.role "compute" warpgroups(1) {
  ^bb0(%wg: i32):
    %e = tile_gpu.foreach %s iter_args(%c0 : i32) {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32, %lo: i32, %hi: i32, %c: i32):
      %group = arith.divui %heads, %groups : i32
      %h = arith.divui %tile, %group : i32
      %end = scf.for %i = %c0 to %h step %c1 iter_args(%sum = %c0) -> (i32) : i32 {
        %at = arith.index_cast %i : i32 to index
        %length = memref.load %lengths[%at] : memref<?xi32>
        %more = arith.addi %sum, %length : i32
        scf.yield %more : i32
      }
      %t = tile_gpu.ring.wait %ring[%c] : !ring
      %o = tile_gpu.frag.fill %x : f32 -> !acc
      scf.for %i = %c0 to %end step %c1 : i32 {
        tile_gpu.global.store %o, %out[%i, %c0] : !acc, memref<?x?xf32>
      }
      %row = arith.addi %h, %tile : i32
      tile_gpu.global.store %o, %out[%row, %c0] : !acc, memref<?x?xf32>
      tile_gpu.ring.release %ring[%c] : !ring
      %d = arith.addi %c, %c1 : i32
      tile_gpu.yield %d : i32
    } -> i32
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

// What a schedule yields already stays, and what the loops make of it joins it,
// behind the test for items that are passed over. The loop that leads has no
// other use.
!acc = !tile_gpu.frag<64x64xf32, acc>

// CHECK-LABEL: kernel @skips
// CHECK: tile_gpu.scheduler dynamic
// CHECK: ^bb0(%[[TILE:[^:]*]]: i32,
// CHECK: %[[COUNT:.*]] = memref.load
// CHECK-NEXT: %[[NONE:.*]] = arith.cmpi sle, %[[COUNT]], %{{.*}} : i32
// CHECK-NEXT: tile_gpu.skip %[[NONE]]
// CHECK-NEXT: %[[ROW:.*]] = arith.divui %[[TILE]], %{{.*}} : i32
// CHECK-NEXT: tile_gpu.yield %[[COUNT]], %[[ROW]] : i32, i32
// CHECK: tile_gpu.role "draw"
// CHECK: tile_gpu.foreach %{{.*}} lead
// CHECK: tile_gpu.role "compute"
// CHECK: ^bb0(%{{.*}}: i32, %{{.*}}: i32, %{{.*}}: i32, %{{.*}}: i32, %[[C:.*]]: i32, %[[R:.*]]: i32):
// CHECK-NOT: arith.divui
// CHECK: tile_gpu.global.store %{{.*}}, %{{.*}}[%[[R]], %{{.*}}] rows(%[[C]])
tile_gpu.kernel @skips(%tickets: memref<1xi32>, %n: i32, %rows: memref<?xi32>,
    %out: memref<?x?xf32>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %x = arith.constant 0.0 : f32
  %s = tile_gpu.scheduler dynamic in_order tickets(%tickets : memref<1xi32>)
      tiles(%n) heads(%c1) batch(%c1) {
  ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
    %at = arith.index_cast %tile : i32 to index
    %count = memref.load %rows[%at] : memref<?xi32>
    %none = arith.cmpi sle, %count, %c0 : i32
    tile_gpu.skip %none
    tile_gpu.yield %count : i32
  }
  tile_gpu.role "draw" warps(1) {
  ^bb0(%w: i32):
    tile_gpu.foreach %s lead {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32, %count: i32):
      tile_gpu.yield
    }
    tile_gpu.yield
  }
  tile_gpu.role "compute" warpgroups(1) {
  ^bb0(%wg: i32):
    tile_gpu.foreach %s {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32, %count: i32):
      %row = arith.divui %tile, %n : i32
      %o = tile_gpu.frag.fill %x : f32 -> !acc
      tile_gpu.global.store %o, %out[%row, %c0] rows(%count) : !acc, memref<?x?xf32>
      tile_gpu.yield
    }
    tile_gpu.yield
  }
  tile_gpu.role "count" warps(1) {
  ^bb0(%w: i32):
    tile_gpu.foreach %s {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32, %count: i32):
      tile_gpu.yield
    }
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

// Left alone: what depends on the member, or on memory that the kernel writes;
// a schedule without tickets.
!acc = !tile_gpu.frag<64x64xf32, acc>

// CHECK-LABEL: kernel @own
// CHECK: tile_gpu.yield %{{.*}}, %{{.*}} : i32, i32
// CHECK: tile_gpu.role "compute"
// CHECK: arith.divui
// CHECK: memref.load
tile_gpu.kernel @own(%tickets: memref<1xi32>, %n: i32, %flags: memref<?xi32>,
    %out: memref<?x?xf32>, %i: index) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %x = arith.constant 0.0 : f32
  %s = tile_gpu.scheduler dynamic in_order tickets(%tickets : memref<1xi32>)
      tiles(%n) heads(%c1) batch(%c1) {
  ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
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
  tile_gpu.role "compute" warpgroups(2) {
  ^bb0(%wg: i32):
    tile_gpu.foreach %s {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32, %lo: i32, %hi: i32):
      %row = arith.divui %tile, %wg : i32
      %at = arith.index_cast %tile : i32 to index
      %flag = memref.load %flags[%at] : memref<?xi32>
      %o = tile_gpu.frag.fill %x : f32 -> !acc
      tile_gpu.global.store %o, %out[%row, %flag] : !acc, memref<?x?xf32>
      memref.store %flag, %flags[%i] : memref<?xi32>
      tile_gpu.yield
    }
    tile_gpu.yield
  }
  tile_gpu.return
}

// CHECK-LABEL: kernel @static
// CHECK: tile_gpu.yield %{{.*}}, %{{.*}} : i32, i32
// CHECK: tile_gpu.role "compute"
// CHECK: arith.divui
tile_gpu.kernel @static(%n: i32, %out: memref<?x?xf32>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %x = arith.constant 0.0 : f32
  %s = tile_gpu.scheduler static in_order tiles(%n) heads(%c1) batch(%c1) {
  ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
    tile_gpu.yield %c0, %c0 : i32, i32
  }
  tile_gpu.role "compute" warpgroups(2) {
  ^bb0(%wg: i32):
    tile_gpu.foreach %s lead {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32, %lo: i32, %hi: i32):
      %row = arith.divui %tile, %n : i32
      %o = tile_gpu.frag.fill %x : f32 -> !acc
      tile_gpu.global.store %o, %out[%row, %c0] : !acc, memref<?x?xf32>
      tile_gpu.yield
    }
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

// A number that comes after the schedule.
// CHECK-LABEL: kernel @late
// CHECK: tile_gpu.yield %{{.*}}, %{{.*}} : i32, i32
// CHECK: tile_gpu.role "compute"
// CHECK: arith.divui
tile_gpu.kernel @late(%tickets: memref<1xi32>, %n: i32, %heads: i32, %out: memref<?x?xf32>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %x = arith.constant 0.0 : f32
  %s = tile_gpu.scheduler dynamic in_order tickets(%tickets : memref<1xi32>) tiles(%n) heads(%c1) batch(%c1) {
  ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
    tile_gpu.yield %c0, %c0 : i32, i32
  }
  %late = arith.addi %heads, %c1 : i32
  tile_gpu.role "load" warps(1) {
  ^bb0(%w: i32):
    tile_gpu.foreach %s lead {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32, %lo: i32, %hi: i32):
      tile_gpu.yield 
    }
    tile_gpu.yield
  }
  tile_gpu.role "compute" warpgroups(1) {
  ^bb0(%wg: i32):
    tile_gpu.foreach %s {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32, %lo: i32, %hi: i32):
      %row = arith.divui %tile, %late : i32
      %o = tile_gpu.frag.fill %x : f32 -> !tile_gpu.frag<64x64xf32, acc>
      tile_gpu.global.store %o, %out[%row, %c0] : !tile_gpu.frag<64x64xf32, acc>, memref<?x?xf32>
      tile_gpu.yield
    }
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

// What another launch writes is not there before the role has waited for it.
// CHECK-LABEL: kernel @waits
// CHECK: tile_gpu.yield %{{.*}}, %{{.*}} : i32, i32
// CHECK: tile_gpu.role "compute"
// CHECK: memref.load
tile_gpu.kernel @waits(%tickets: memref<1xi32>, %n: i32, %rows: memref<?xi32>, %out: memref<?x?xf32>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %x = arith.constant 0.0 : f32
  %s = tile_gpu.scheduler dynamic in_order tickets(%tickets : memref<1xi32>)
      tiles(%n) heads(%c1) batch(%c1) {
  ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
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
  tile_gpu.role "compute" warpgroups(1) {
  ^bb0(%wg: i32):
    tile_gpu.dependencies.wait
    tile_gpu.foreach %s {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32, %lo: i32, %hi: i32):
      %at = arith.index_cast %tile : i32 to index
      %row = memref.load %rows[%at] : memref<?xi32>
      %o = tile_gpu.frag.fill %x : f32 -> !tile_gpu.frag<64x64xf32, acc>
      tile_gpu.global.store %o, %out[%row, %c0] : !tile_gpu.frag<64x64xf32, acc>, memref<?x?xf32>
      tile_gpu.yield
    }
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

// What all heads of an item share goes ahead of the loop over them, and so into the
// schedule's body; what a branch of it computes stays there.
// CHECK-LABEL: kernel @heads
// CHECK: tile_gpu.scheduler dynamic
// CHECK: ^bb0(%[[TILE:[^:]*]]: i32,
// CHECK: %[[END:.*]] = arith.divui %[[TILE]], %c3
// CHECK-NEXT: tile_gpu.yield %[[END]] : i32
// CHECK: tile_gpu.role "load"
// CHECK: tile_gpu.role "compute"
// CHECK: ^bb0(%{{.*}}: i32, %{{.*}}: i32, %{{.*}}: i32, %{{.*}}: i32, %[[E:[^:]*]]: i32):
// CHECK-NOT: divui
// CHECK: %[[SOME:.*]] = arith.cmpi slt, %{{.*}}, %[[E]]
// CHECK: scf.for
// CHECK-NEXT: scf.if %[[SOME]]
// CHECK-NEXT: arith.subi %[[E]]
!acc = !tile_gpu.frag<64x64xf32, acc>
tile_gpu.kernel @heads(%tickets: memref<1xi32>, %n: i32, %heads: i32, %out: memref<?x?xf32>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c3 = arith.constant 3 : i32
  %x = arith.constant 0.0 : f32
  %s = tile_gpu.scheduler dynamic in_order tickets(%tickets : memref<1xi32>)
      tiles(%n) heads(%c1) batch(%c1) {
  ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
    tile_gpu.yield
  }
  tile_gpu.role "load" warps(1) {
  ^bb0(%w: i32):
    tile_gpu.foreach %s lead {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
      tile_gpu.yield
    }
    tile_gpu.yield
  }
  tile_gpu.role "compute" warpgroups(1) {
  ^bb0(%wg: i32):
    tile_gpu.foreach %s {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
      %o = tile_gpu.frag.fill %x : f32 -> !acc
      scf.for %i = %c0 to %heads step %c1 : i32 {
        %end = arith.divui %tile, %c3 : i32
        %some = arith.cmpi slt, %c0, %end : i32
        scf.if %some {
          %last = arith.subi %end, %c1 : i32
          tile_gpu.global.store %o, %out[%last, %i] : !acc, memref<?x?xf32>
        }
      }
      tile_gpu.yield
    }
    tile_gpu.yield
  }
  tile_gpu.return
}
