// RUN: attn-opt %s --split-input-file --tile-gpu-overlap-launches | FileCheck %s
// RUN: attn-opt %s --split-input-file %tidy --tile-gpu-overlap-launches %tidy %verify_kernels -o /dev/null

module attributes {attn.target = "sm_90a"} {
// The first waits for what the stream ran before, and lets the second start,
// which waits in every role and lets the next run start.
// CHECK-LABEL: kernel private @first
// CHECK: tile_gpu.role
// CHECK-NEXT: ^bb0
// CHECK-NEXT: tile_gpu.dependents.launch
// CHECK-NEXT: tile_gpu.dependencies.wait
tile_gpu.kernel private @first(%m: memref<?xi32>) {
  tile_gpu.role "compute" warps(1) {
  ^bb0(%warp: i32):
    tile_gpu.yield
  }
  tile_gpu.return
}
// CHECK-LABEL: kernel private @second
// CHECK: tile_gpu.role "load"
// CHECK-NEXT: ^bb0
// CHECK-NEXT: tile_gpu.dependents.launch
// CHECK-NEXT: tile_gpu.dependencies.wait
// CHECK: tile_gpu.role "compute"
// CHECK-NEXT: ^bb0
// CHECK-NEXT: tile_gpu.dependents.launch
// CHECK-NEXT: tile_gpu.dependencies.wait
tile_gpu.kernel private @second(%m: memref<?xi32>, %t: memref<1xi32>) {
  tile_gpu.role "load" warps(1) registers(24) {
  ^bb0(%warp: i32):
    tile_gpu.yield
  }
  tile_gpu.role "compute" warpgroups(1) registers(240) {
  ^bb0(%wg: i32):
    tile_gpu.yield
  }
  tile_gpu.return
}
// What lies between the two comes before, also what has no meaning for all of
// its operands.
// CHECK-LABEL: func.func @plan
// CHECK: %[[T:.*]] = tile.workspace() : memref<1xi32>
// CHECK-NEXT: tile_gpu.reset %[[T]]
// CHECK-NEXT: arith.divui
// CHECK-NEXT: tile_gpu.launch @first grid(%{{.*}}) args(%{{.*}} : memref<?xi32>) programmatic
// CHECK-NEXT: tile_gpu.launch @second {{.*}} programmatic
func.func @plan(%n: index) attributes {tile.plan} {
  %m = tile.workspace(%n) : memref<?xi32>
  tile_gpu.launch @first grid(%n) args(%m : memref<?xi32>)
  %t = tile.workspace() : memref<1xi32>
  tile_gpu.reset %t : memref<1xi32>
  %one = arith.divui %n, %n : index
  tile_gpu.launch @second grid(%one) args(%m, %t : memref<?xi32>, memref<1xi32>)
  return
}
}

// -----

// Not across a reset of what the first kernel works on, nor where the second
// reads memory outside of its roles.
module attributes {attn.target = "sm_90a"} {
tile_gpu.kernel private @first(%m: memref<1xi32>) {
  tile_gpu.role "compute" warps(1) {
  ^bb0(%warp: i32):
    tile_gpu.yield
  }
  tile_gpu.return
}
tile_gpu.kernel private @early(%m: memref<1xi32>) {
  %c0 = arith.constant 0 : index
  %x = memref.load %m[%c0] : memref<1xi32>
  tile_gpu.role "compute" warps(1) {
  ^bb0(%warp: i32):
    memref.store %x, %m[%c0] : memref<1xi32>
    tile_gpu.yield
  }
  tile_gpu.return
}
// CHECK-LABEL: func.func @reset
// CHECK-NOT: programmatic
func.func @reset(%n: index) attributes {tile.plan} {
  %m = tile.workspace() : memref<1xi32>
  tile_gpu.launch @early grid(%n) args(%m : memref<1xi32>)
  tile_gpu.reset %m : memref<1xi32>
  tile_gpu.launch @first grid(%n) args(%m : memref<1xi32>)
  return
}
// CHECK-LABEL: func.func @reads
// CHECK: tile_gpu.launch @first {{.*}} programmatic
// CHECK-NEXT: tile_gpu.launch @early
// CHECK-NOT: programmatic
func.func @reads(%n: index) attributes {tile.plan} {
  %m = tile.workspace() : memref<1xi32>
  tile_gpu.launch @first grid(%n) args(%m : memref<1xi32>)
  tile_gpu.launch @early grid(%n) args(%m : memref<1xi32>)
  return
}
}

// -----

module attributes {attn.target = "sm_80"} {
// CHECK-LABEL: kernel private @first
// CHECK-NOT: tile_gpu.dependents
tile_gpu.kernel private @first(%m: memref<1xi32>) {
  tile_gpu.role "compute" warps(1) {
  ^bb0(%warp: i32):
    tile_gpu.yield
  }
  tile_gpu.return
}
tile_gpu.kernel private @second(%m: memref<1xi32>) {
  tile_gpu.role "compute" warps(1) {
  ^bb0(%warp: i32):
    tile_gpu.yield
  }
  tile_gpu.return
}
// CHECK-LABEL: func.func @plan
// CHECK-NOT: programmatic
func.func @plan(%n: index) attributes {tile.plan} {
  %m = tile.workspace() : memref<1xi32>
  tile_gpu.launch @first grid(%n) args(%m : memref<1xi32>)
  tile_gpu.launch @second grid(%n) args(%m : memref<1xi32>)
  return
}
}

// -----

module attributes {attn.target = "sm_90a"} {
tile_gpu.kernel private @first(%m: memref<?xi32>) {
  tile_gpu.role "compute" warps(1) {
  ^bb0(%warp: i32):
    tile_gpu.yield
  }
  tile_gpu.return
}
// Arithmetic before the roles, a division too, reads nothing of the first's.
// CHECK-LABEL: kernel private @divides
// CHECK: arith.divui
// CHECK: tile_gpu.dependencies.wait
tile_gpu.kernel private @divides(%m: memref<?xi32>, %n: i32) {
  %c4 = arith.constant 4 : i32
  %group = arith.divui %c4, %n : i32
  tile_gpu.role "compute" warps(1) {
  ^bb0(%warp: i32):
    tile_gpu.yield
  }
  tile_gpu.return
}
// CHECK-LABEL: func.func @plan
// CHECK: tile_gpu.launch @divides {{.*}} programmatic
func.func @plan(%n: index, %heads: i32) attributes {tile.plan} {
  %m = tile.workspace(%n) : memref<?xi32>
  tile_gpu.launch @first grid(%n) args(%m : memref<?xi32>)
  tile_gpu.launch @divides grid(%n) args(%m, %heads : memref<?xi32>, i32)
  return
}
}

// -----

module attributes {attn.target = "sm_90a"} {
// What finds a block's item comes ahead of the wait, as it reads no memory.
// CHECK-LABEL: kernel private @late
// CHECK: tile_gpu.dependents.launch
// CHECK-NEXT: tile_gpu.foreach
// CHECK-NEXT: ^bb0
// CHECK-NEXT: arith.index_cast
// CHECK-NEXT: tile_gpu.dependencies.wait
// CHECK-NEXT: memref.store
// CHECK-NOT: tile_gpu.dependencies.wait
tile_gpu.kernel private @late(%m: memref<?xi32>, %n: i32) {
  %c1 = arith.constant 1 : i32
  %s = tile_gpu.scheduler grid in_order tiles(%n) heads(%c1) batch(%c1) {
  ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
    tile_gpu.yield
  }
  tile_gpu.role "compute" warps(1) {
  ^bb0(%warp: i32):
    tile_gpu.foreach %s lead {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
      %i = arith.index_cast %tile : i32 to index
      memref.store %tile, %m[%i] : memref<?xi32>
      tile_gpu.yield
    }
    tile_gpu.yield
  }
  tile_gpu.return
}
// A schedule that reads memory waits ahead of that.
// CHECK-LABEL: kernel private @reads
// CHECK: tile_gpu.scheduler
// CHECK-NEXT: ^bb0
// CHECK-NEXT: arith.index_cast
// CHECK-NEXT: tile_gpu.dependencies.wait
// CHECK-NEXT: memref.load
// CHECK: tile_gpu.dependents.launch
// CHECK-NEXT: tile_gpu.foreach
// CHECK-NOT: tile_gpu.dependencies.wait
tile_gpu.kernel private @reads(%m: memref<?xi32>, %n: i32) {
  %c1 = arith.constant 1 : i32
  %s = tile_gpu.scheduler grid in_order tiles(%n) heads(%c1) batch(%c1) {
  ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
    %i = arith.index_cast %tile : i32 to index
    %x = memref.load %m[%i] : memref<?xi32>
    tile_gpu.yield %x : i32
  }
  tile_gpu.role "compute" warps(1) {
  ^bb0(%warp: i32):
    tile_gpu.foreach %s lead {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32, %x: i32):
      tile_gpu.yield
    }
    tile_gpu.yield
  }
  tile_gpu.return
}
func.func @plan(%n: index, %k: i32) attributes {tile.plan} {
  %m = tile.workspace(%n) : memref<?xi32>
  tile_gpu.launch @late grid(%n) args(%m, %k : memref<?xi32>, i32)
  tile_gpu.launch @reads grid(%n) args(%m, %k : memref<?xi32>, i32)
  return
}
}

// -----

module attributes {attn.target = "sm_90a"} {
// Warps that draw and copy wait within their loops, warps that multiply ahead
// of theirs. A warp that does nothing else still only draws: one slot.
// CHECK-LABEL: kernel private @parts
// CHECK: tile_gpu.role "draw"
// CHECK: tile_gpu.foreach
// CHECK-NEXT: ^bb0
// CHECK-NEXT: tile_gpu.dependencies.wait
// CHECK-NEXT: tile_gpu.yield
// CHECK: tile_gpu.role "load"
// CHECK: tile_gpu.foreach
// CHECK-NEXT: ^bb0
// CHECK-NEXT: tile_gpu.dependencies.wait
// CHECK-NEXT: tile_gpu.ring.acquire
// CHECK: tile_gpu.role "compute"
// CHECK-NEXT: ^bb0
// CHECK-NEXT: tile_gpu.dependents.launch
// CHECK-NEXT: tile_gpu.dependencies.wait
tile_gpu.kernel private @parts(
    %map: !tile_gpu.tensor_map<64x128xbf16 swizzle 128>,
    %tickets: memref<1xi32>, %table: memref<?x?xi32>, %n: i32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %r = tile_gpu.ring.create tma consumers(4) : <4, 64x128xbf16 swizzle 128>
  %s = tile_gpu.scheduler dynamic in_order tickets(%tickets : memref<1xi32>) tiles(%n) heads(%n) batch(%n) splits(%n) {
  ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
    tile_gpu.yield
  }
  tile_gpu.role "draw" warps(1) registers(56) {
  ^bb0(%warp: i32):
    tile_gpu.foreach %s lead {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
      tile_gpu.yield
    }
    tile_gpu.yield
  }
  tile_gpu.role "load" warps(1) registers(56) {
  ^bb0(%warp: i32):
    %end = tile_gpu.foreach %s iter_args(%c0 : i32) {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32, %step: i32):
      %first = tile_gpu.ring.acquire %r[%step] : <4, 64x128xbf16 swizzle 128>
      tile_gpu.ring.load %map[%batch, %head, %split, %c0], %first : !tile_gpu.tensor_map<64x128xbf16 swizzle 128>, <64x128xbf16 swizzle 128>
      %second = arith.addi %step, %c1 : i32
      %last = scf.for %i = %split to %n step %c1 iter_args(%use = %second) -> (i32) : i32 {
        %t = tile_gpu.ring.acquire %r[%use] : <4, 64x128xbf16 swizzle 128>
        tile_gpu.ring.load %map[%batch, %head, %i, %c0], %t : !tile_gpu.tensor_map<64x128xbf16 swizzle 128>, <64x128xbf16 swizzle 128>
        %next = arith.addi %use, %c1 : i32
        scf.yield %next : i32
      }
      tile_gpu.draw_next
      %page = tile_gpu.ring.acquire %r[%last] : <4, 64x128xbf16 swizzle 128>
      tile_gpu.ring.load %map[%batch, %head, %split, %c0], %page table(%table : memref<?x?xi32>) page(64) : !tile_gpu.tensor_map<64x128xbf16 swizzle 128>, <64x128xbf16 swizzle 128>
      %done = arith.addi %last, %c1 : i32
      tile_gpu.yield %done : i32
    } -> i32
    tile_gpu.yield
  }
  tile_gpu.role "compute" warpgroups(1) registers(240) {
  ^bb0(%wg: i32):
    %end = tile_gpu.foreach %s iter_args(%c0 : i32) {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32, %step: i32):
      %t = tile_gpu.ring.wait %r[%step] : <4, 64x128xbf16 swizzle 128>
      tile_gpu.yield %step : i32
    } -> i32
    tile_gpu.yield
  }
  tile_gpu.return
}
func.func @plan(%n: index, %k: i32, %m: memref<?x?x?x128xbf16>, %table: memref<?x?xi32>) attributes {tile.plan} {
  %map = tile_gpu.tensor_map %m : memref<?x?x?x128xbf16> -> <64x128xbf16 swizzle 128>
  %t = tile_gpu.tickets : memref<1xi32>
  tile_gpu.launch @parts grid(%n) args(%map, %t, %table, %k : !tile_gpu.tensor_map<64x128xbf16 swizzle 128>, memref<1xi32>, memref<?x?xi32>, i32)
  return
}
}

// -----

// What the first kernel only reads is read ahead; the wait is for the write. What
// the first kernel writes is not.
module attributes {attn.target = "sm_90a"} {
// CHECK-LABEL: kernel private @reader
// CHECK: tile_gpu.dependencies.wait
// CHECK-NEXT: tile_gpu.dependents.launch
// CHECK-NEXT: tile_gpu.global.load %arg0
tile_gpu.kernel private @reader(%x: memref<?x64xf32>, %o: memref<?x64xf32>) {
  tile_gpu.role "compute" warps(1) {
  ^bb0(%warp: i32):
    %c0 = arith.constant 0 : i32
    %v = tile_gpu.global.load %x[%c0, %c0] : memref<?x64xf32>
        -> !tile_gpu.frag<16x64xf32, acc, warp>
    tile_gpu.global.store %v, %o[%c0, %c0]
        : !tile_gpu.frag<16x64xf32, acc, warp>, memref<?x64xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}
// CHECK-LABEL: kernel private @writer
// CHECK: tile_gpu.dependents.launch
// CHECK-NOT: tile_gpu.dependencies.wait
// CHECK: tile_gpu.global.load
// CHECK-NEXT: tile_gpu.dependencies.wait
// CHECK-NEXT: tile_gpu.global.store
tile_gpu.kernel private @writer(%x: memref<?x64xf32>) {
  tile_gpu.role "compute" warps(1) {
  ^bb0(%warp: i32):
    %c0 = arith.constant 0 : i32
    %v = tile_gpu.global.load %x[%c0, %c0] : memref<?x64xf32>
        -> !tile_gpu.frag<16x64xf32, acc, warp>
    tile_gpu.global.store %v, %x[%c0, %c0]
        : !tile_gpu.frag<16x64xf32, acc, warp>, memref<?x64xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}
// CHECK-LABEL: kernel private @follower
// CHECK: tile_gpu.dependencies.wait
// CHECK-NEXT: tile_gpu.global.load
tile_gpu.kernel private @follower(%x: memref<?x64xf32>) {
  tile_gpu.role "compute" warps(1) {
  ^bb0(%warp: i32):
    %c0 = arith.constant 0 : i32
    %v = tile_gpu.global.load %x[%c0, %c0] : memref<?x64xf32>
        -> !tile_gpu.frag<16x64xf32, acc, warp>
    tile_gpu.global.store %v, %x[%c0, %c0]
        : !tile_gpu.frag<16x64xf32, acc, warp>, memref<?x64xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}
func.func @ahead(%n: index, %x: memref<?x64xf32>, %o: memref<?x64xf32>)
    attributes {tile.plan} {
  tile_gpu.launch @reader grid(%n) args(%x, %o : memref<?x64xf32>, memref<?x64xf32>)
  tile_gpu.launch @writer grid(%n) args(%x : memref<?x64xf32>)
  tile_gpu.launch @follower grid(%n) args(%x : memref<?x64xf32>)
  return
}
}

// -----

// Not behind a launch that may have no blocks: who wrote what is read then is
// not known to have ended.
module attributes {attn.target = "sm_90a"} {
tile_gpu.kernel private @list(%x: memref<?x64xf32>, %o: memref<?x64xf32>) {
  tile_gpu.role "compute" warps(1) {
  ^bb0(%warp: i32):
    %c0 = arith.constant 0 : i32
    %v = tile_gpu.global.load %x[%c0, %c0] : memref<?x64xf32>
        -> !tile_gpu.frag<16x64xf32, acc, warp>
    tile_gpu.global.store %v, %o[%c0, %c0]
        : !tile_gpu.frag<16x64xf32, acc, warp>, memref<?x64xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}
// CHECK-LABEL: kernel private @writer
// CHECK: tile_gpu.dependencies.wait
// CHECK-NEXT: tile_gpu.global.load
tile_gpu.kernel private @writer(%x: memref<?x64xf32>) {
  tile_gpu.role "compute" warps(1) {
  ^bb0(%warp: i32):
    %c0 = arith.constant 0 : i32
    %v = tile_gpu.global.load %x[%c0, %c0] : memref<?x64xf32>
        -> !tile_gpu.frag<16x64xf32, acc, warp>
    tile_gpu.global.store %v, %x[%c0, %c0]
        : !tile_gpu.frag<16x64xf32, acc, warp>, memref<?x64xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}
func.func @kept(%n: index, %new: i1, %x: memref<?x64xf32>, %o: memref<?x64xf32>)
    attributes {tile.plan} {
  %c0 = arith.constant 0 : index
  %blocks = arith.select %new, %n, %c0 : index
  tile_gpu.launch @list grid(%blocks) args(%x, %o : memref<?x64xf32>, memref<?x64xf32>)
  tile_gpu.launch @writer grid(%n) args(%x : memref<?x64xf32>)
  return
}
}

// -----

module attributes {attn.target = "sm_90a"} {
// What only asks for memory ahead of time comes before the wait.
// CHECK-LABEL: kernel private @ahead
// CHECK: tile_gpu.global.prefetch
// CHECK-NEXT: tile_gpu.dependencies.wait
// CHECK-NEXT: memref.load
tile_gpu.kernel private @ahead(%m: memref<64x64xf32>, %o: memref<1xf32>) {
  %c0 = arith.constant 0 : i32
  %zero = arith.constant 0 : index
  tile_gpu.role "compute" warps(1) {
  ^bb0(%warp: i32):
    tile_gpu.global.prefetch %m[%c0, %c0] rows(64) columns(64) : memref<64x64xf32>
    %x = memref.load %m[%zero, %zero] : memref<64x64xf32>
    memref.store %x, %o[%zero] : memref<1xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}
func.func @plan(%n: index, %m: memref<64x64xf32>, %o: memref<1xf32>) attributes {tile.plan} {
  tile_gpu.launch @ahead grid(%n) args(%m, %o : memref<64x64xf32>, memref<1xf32>)
  return
}
}

// -----

!tile = !tile_gpu.smem<64x128xbf16 swizzle 128>
!map = !tile_gpu.tensor_map<64x128xbf16 swizzle 128>

// A warp that copies what is read once asks for as many tiles as it has slots, in a
// block's first item, as far as they exist, in this loop and the one behind it: where
// there are four times as many.
module attributes {attn.target = "sm_90a"} {
// CHECK-LABEL: kernel private @asks
// CHECK-SAME: %[[K:arg[0-9]+]]: memref<?x?x?x128xbf16>
// CHECK: tile_gpu.role "load"
// CHECK: tile_gpu.foreach
// CHECK-NEXT: ^bb0(%{{.*}}: i32, %[[HEAD:.*]]: i32, %[[BATCH:.*]]: i32, %{{.*}}: i32, %[[FROM:.*]]: index, %[[MID:.*]]: index, %[[TO:.*]]: index, %[[USE:.*]]: i32):
// CHECK: %[[SLOTS:.*]] = arith.addi %[[FROM]],
// CHECK: %[[FIRST:.*]] = arith.cmpi eq, %[[USE]], %{{.*}} : i32
// CHECK: %[[KEYS:.*]] = arith.subi %[[TO]], %[[FROM]] : index
// CHECK: %[[LONG:.*]] = arith.cmpi sge, %[[KEYS]], %{{.*}} : index
// CHECK: %[[ASKS:.*]] = arith.andi %[[FIRST]], %[[LONG]] : i1
// CHECK: scf.if %[[ASKS]] {
// CHECK: %[[END:.*]] = arith.minsi %[[SLOTS]], %[[TO]] : index
// CHECK: scf.for %[[I:.*]] = %[[FROM]] to %[[END]]
// CHECK: %[[ROW:.*]] = arith.index_cast %[[I]] : index to i32
// CHECK: memref.dim %[[K]]
// CHECK: %[[EXISTS:.*]] = arith.cmpi sle
// CHECK: scf.if %[[EXISTS]] {
// CHECK-NEXT: tile_gpu.global.prefetch %[[K]][%[[BATCH]], %[[HEAD]], %[[ROW]], %{{.*}}] rows(64) columns(128)
// CHECK: tile_gpu.dependencies.wait
// CHECK-NEXT: scf.for
// CHECK-NOT: prefetch
tile_gpu.kernel private @asks(%k: memref<?x?x?x128xbf16>, %map: !map,
    %again: !map, %tickets: memref<1xi32>, %n: i32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c64 = arith.constant 64 : index
  %keys = arith.index_cast %n : i32 to index
  %r = tile_gpu.ring.create tma consumers(4) : <4, 64x128xbf16 swizzle 128>
  %s = tile_gpu.scheduler dynamic in_order tickets(%tickets : memref<1xi32>) tiles(%n) heads(%n) batch(%n) {
  ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
    tile_gpu.yield %c64, %keys, %keys : index, index, index
  }
  tile_gpu.role "draw" warps(1) {
  ^bb0(%warp: i32):
    tile_gpu.foreach %s lead {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32, %from: index, %mid: index, %to: index):
      tile_gpu.yield
    }
    tile_gpu.yield
  }
  tile_gpu.role "load" warps(1) {
  ^bb0(%warp: i32):
    %end = tile_gpu.foreach %s iter_args(%c0 : i32) {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32, %from: index, %mid: index, %to: index, %use: i32):
      %most = scf.for %i = %from to %mid step %c64 iter_args(%u = %use) -> (i32) {
        %t = tile_gpu.ring.acquire %r[%u] : <4, 64x128xbf16 swizzle 128>
        %row = arith.index_cast %i : index to i32
        tile_gpu.ring.load %map[%batch, %head, %row, %c0], %t evict_first : !map, !tile
        %next = arith.addi %u, %c1 : i32
        scf.yield %next : i32
      }
      %last = scf.for %i = %mid to %to step %c64 iter_args(%u = %most) -> (i32) {
        %t = tile_gpu.ring.acquire %r[%u] : <4, 64x128xbf16 swizzle 128>
        %row = arith.index_cast %i : index to i32
        tile_gpu.ring.load %map[%batch, %head, %row, %c0], %t evict_first : !map, !tile
        %next = arith.addi %u, %c1 : i32
        scf.yield %next : i32
      }
      tile_gpu.yield %last : i32
    } -> i32
    tile_gpu.yield
  }
  // What is read more than once.
  // CHECK: tile_gpu.role "load_again"
  // CHECK-NOT: prefetch
  tile_gpu.role "load_again" warps(1) {
  ^bb0(%warp: i32):
    %end = tile_gpu.foreach %s iter_args(%c0 : i32) {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32, %from: index, %mid: index, %to: index, %use: i32):
      %most = scf.for %i = %from to %mid step %c64 iter_args(%u = %use) -> (i32) {
        %t = tile_gpu.ring.acquire %r[%u] : <4, 64x128xbf16 swizzle 128>
        %row = arith.index_cast %i : index to i32
        tile_gpu.ring.load %again[%batch, %head, %row, %c0], %t : !map, !tile
        %next = arith.addi %u, %c1 : i32
        scf.yield %next : i32
      }
      tile_gpu.yield %most : i32
    } -> i32
    tile_gpu.yield
  }
  tile_gpu.return
}
func.func @plan(%n: index, %k: memref<?x?x?x128xbf16>, %keys: i32) attributes {tile.plan} {
  %map = tile_gpu.tensor_map %k : memref<?x?x?x128xbf16> -> <64x128xbf16 swizzle 128>
  %t = tile_gpu.tickets : memref<1xi32>
  tile_gpu.launch @asks grid(%n) args(%k, %map, %map, %t, %keys : memref<?x?x?x128xbf16>, !map, !map, memref<1xi32>, i32)
  return
}
}

// -----

!tile = !tile_gpu.smem<64x128xbf16 swizzle 128>
!map = !tile_gpu.tensor_map<64x128xbf16 swizzle 128>

// In clusters where its slots hold all of an item, and a quarter of the multiprocessors
// have one; or it has four times as many, and more than half of them have one.
module attributes {attn.target = "sm_90a"} {
// CHECK-LABEL: kernel private @clusters
// CHECK: tile_gpu.role "load"
// CHECK: %[[PARTS:.*]] = arith.muli %{{.*}}, %c4_i32 : i32
// CHECK: arith.cmpi sgt, %[[PARTS]], %c66_i32
// CHECK: arith.cmpi sle, %[[PARTS]], %c132_i32
// CHECK: %[[ALL:.*]] = arith.cmpi sle, %{{.*}}, %{{.*}} : index
// CHECK: %[[FEW:.*]] = arith.cmpi sle, %[[PARTS]], %c33_i32
// CHECK: arith.andi %[[ALL]], %[[FEW]] : i1
// CHECK: arith.ori
// CHECK: tile_gpu.global.prefetch
// CHECK: tile_gpu.dependencies.wait
tile_gpu.kernel private @clusters(%k: memref<?x?x?x128xbf16>, %map: !map,
    %tickets: memref<1xi32>, %n: i32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c4 = arith.constant 4 : i32
  %c64 = arith.constant 64 : index
  %keys = arith.index_cast %n : i32 to index
  %r = tile_gpu.ring.create tma consumers(4) : <4, 64x128xbf16 swizzle 128>
  %s = tile_gpu.scheduler dynamic in_order tickets(%tickets : memref<1xi32>) cluster(4) by_parts tiles(%n) heads(%n) batch(%n) splits(%c4) {
  ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
    tile_gpu.yield %c64, %keys : index, index
  }
  tile_gpu.role "draw" warps(1) {
  ^bb0(%warp: i32):
    tile_gpu.foreach %s lead {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32, %from: index, %to: index):
      tile_gpu.yield
    }
    tile_gpu.yield
  }
  tile_gpu.role "load" warps(1) {
  ^bb0(%warp: i32):
    %end = tile_gpu.foreach %s iter_args(%c0 : i32) {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32, %from: index, %to: index, %use: i32):
      %last = scf.for %i = %from to %to step %c64 iter_args(%u = %use) -> (i32) {
        %t = tile_gpu.ring.acquire %r[%u] : <4, 64x128xbf16 swizzle 128>
        %row = arith.index_cast %i : index to i32
        tile_gpu.ring.load %map[%batch, %head, %row, %c0], %t evict_first : !map, !tile
        %next = arith.addi %u, %c1 : i32
        scf.yield %next : i32
      }
      tile_gpu.yield %last : i32
    } -> i32
    tile_gpu.yield
  }
  tile_gpu.return
}
func.func @plan(%n: index, %k: memref<?x?x?x128xbf16>, %keys: i32) attributes {tile.plan} {
  %map = tile_gpu.tensor_map %k : memref<?x?x?x128xbf16> -> <64x128xbf16 swizzle 128>
  %t = tile_gpu.tickets : memref<1xi32>
  tile_gpu.launch @clusters grid(%n) args(%k, %map, %t, %keys : memref<?x?x?x128xbf16>, !map, memref<1xi32>, i32)
  return
}
}

// -----

// A list of tiles waits for nothing that the rows' kernel leaves, and that one
// for no list: both run at once, the list first. One block of the second waits
// for the first one's end, so that the third waits for both; where the first
// has no blocks, the second has nobody to wait for it, and waits itself.
module attributes {attn.target = "sm_90a"} {
// CHECK-LABEL: kernel private @rows
// CHECK-SAME: %[[BLOCKS:[0-9a-z]+]]: index)
// CHECK: tile_gpu.role
// CHECK-NOT: tile_gpu.dependents.launch
// CHECK: %[[NONE:.*]] = arith.cmpi eq, %[[BLOCKS]], %{{.*}} : index
// CHECK-NEXT: scf.if %[[NONE]] {
// CHECK-NEXT: tile_gpu.dependencies.wait
// CHECK-NEXT: }
// CHECK-NEXT: tile_gpu.dependents.launch
// CHECK-NEXT: tile_gpu.foreach
// CHECK-NEXT: ^bb0(%[[T:.*]]: i32, %[[H:.*]]: i32, %[[B:.*]]: i32, %[[P:.*]]: i32):
// CHECK: memref.load
// CHECK: memref.store
// CHECK-NEXT: arith.ori %[[T]], %[[H]]
// CHECK: %[[FIRST:.*]] = arith.cmpi eq, %{{.*}}, %{{.*}} : i32
// CHECK-NEXT: scf.if %[[FIRST]] {
// CHECK-NEXT: tile_gpu.dependencies.wait
// CHECK-NEXT: }
// CHECK-NEXT: tile_gpu.yield
tile_gpu.kernel private @rows(%x: memref<?xi32>, %o: memref<?xi32>, %n: i32) {
  %c1 = arith.constant 1 : i32
  %s = tile_gpu.scheduler grid in_order tiles(%n) heads(%c1) batch(%c1) {
  ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
    tile_gpu.yield
  }
  tile_gpu.role "compute" warps(1) {
  ^bb0(%warp: i32):
    tile_gpu.foreach %s lead {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
      %i = arith.index_cast %tile : i32 to index
      %v = memref.load %x[%i] : memref<?xi32>
      memref.store %v, %o[%i] : memref<?xi32>
      tile_gpu.yield
    }
    tile_gpu.yield
  }
  tile_gpu.return
}
// CHECK-LABEL: kernel private @list
// CHECK: tile_gpu.role
// CHECK-NOT: tile_gpu.dependents.launch
// CHECK: tile_gpu.dependencies.wait
// CHECK-NEXT: tile_gpu.dependents.launch
// CHECK-NEXT: memref.load
// CHECK-NOT: tile_gpu.dependen
tile_gpu.kernel private @list(%x: memref<?xi32>, %o: memref<?xi32>, %n: i32) {
  %c1 = arith.constant 1 : i32
  %s = tile_gpu.scheduler grid in_order tiles(%n) heads(%c1) batch(%c1) {
  ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
    tile_gpu.yield
  }
  tile_gpu.role "compute" warps(1) {
  ^bb0(%warp: i32):
    tile_gpu.foreach %s lead {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
      %i = arith.index_cast %tile : i32 to index
      %v = memref.load %x[%i] : memref<?xi32>
      memref.store %v, %o[%i] : memref<?xi32>
      tile_gpu.yield
    }
    tile_gpu.yield
  }
  tile_gpu.return
}
// CHECK-LABEL: kernel private @both
// CHECK: tile_gpu.dependents.launch
// CHECK: tile_gpu.dependencies.wait
// CHECK-NEXT: memref.load
tile_gpu.kernel private @both(%x: memref<?xi32>, %y: memref<?xi32>, %o: memref<?xi32>, %n: i32) {
  %c1 = arith.constant 1 : i32
  %s = tile_gpu.scheduler grid in_order tiles(%n) heads(%c1) batch(%c1) {
  ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
    tile_gpu.yield
  }
  tile_gpu.role "compute" warps(1) {
  ^bb0(%warp: i32):
    tile_gpu.foreach %s lead {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
      %i = arith.index_cast %tile : i32 to index
      %v = memref.load %x[%i] : memref<?xi32>
      %w = memref.load %y[%i] : memref<?xi32>
      %z = arith.addi %v, %w : i32
      memref.store %z, %o[%i] : memref<?xi32>
      tile_gpu.yield
    }
    tile_gpu.yield
  }
  tile_gpu.return
}
// CHECK-LABEL: func.func @plan
// CHECK-SAME: (%[[N:[0-9a-z]+]]: index
// CHECK: tile_gpu.launch @list grid(%[[GRID:.*]]) args({{.*}}) programmatic
// CHECK: tile_gpu.launch @rows grid(%[[N]]) args(%{{.*}}, %{{.*}}, %{{.*}}, %[[GRID]] : {{.*}}) programmatic
// CHECK: tile_gpu.launch @both {{.*}} programmatic
func.func @plan(%n: index, %k: i32, %x: memref<?xi32>, %ids: memref<?xi32>, %o: memref<?xi32>)
    attributes {tile.plan} {
  %c2 = arith.constant 2 : index
  %rows = tile.workspace(%n) : memref<?xi32>
  tile_gpu.launch @rows grid(%n) args(%x, %rows, %k : memref<?xi32>, memref<?xi32>, i32)
  %tiles = arith.ceildivui %n, %c2 : index
  %lists = tile.workspace(%tiles) : memref<?xi32>
  tile_gpu.launch @list grid(%tiles) args(%ids, %lists, %k : memref<?xi32>, memref<?xi32>, i32)
  tile_gpu.launch @both grid(%n) args(%rows, %lists, %o, %k : memref<?xi32>, memref<?xi32>, memref<?xi32>, i32)
  return
}
}

// -----

// What reads a view of what a launch before it leaves stays behind that.
module attributes {attn.target = "sm_90a"} {
tile_gpu.kernel private @part(%x: memref<?xi32>, %o: memref<?xi32>, %n: i32) {
  %c1 = arith.constant 1 : i32
  %s = tile_gpu.scheduler grid in_order tiles(%n) heads(%c1) batch(%c1) {
  ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
    tile_gpu.yield
  }
  tile_gpu.role "compute" warps(1) {
  ^bb0(%warp: i32):
    tile_gpu.foreach %s lead {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
      %i = arith.index_cast %tile : i32 to index
      %v = memref.load %x[%i] : memref<?xi32>
      memref.store %v, %o[%i] : memref<?xi32>
      tile_gpu.yield
    }
    tile_gpu.yield
  }
  tile_gpu.return
}
tile_gpu.kernel private @combine(%x: memref<?xi32, strided<[?]>>, %o: memref<?xi32>, %n: i32) {
  %c1 = arith.constant 1 : i32
  %s = tile_gpu.scheduler grid in_order tiles(%n) heads(%c1) batch(%c1) {
  ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
    tile_gpu.yield
  }
  tile_gpu.role "compute" warps(1) {
  ^bb0(%warp: i32):
    tile_gpu.foreach %s lead {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
      %i = arith.index_cast %tile : i32 to index
      %v = memref.load %x[%i] : memref<?xi32, strided<[?]>>
      memref.store %v, %o[%i] : memref<?xi32>
      tile_gpu.yield
    }
    tile_gpu.yield
  }
  tile_gpu.return
}
// CHECK-LABEL: func.func @viewed
// CHECK: tile_gpu.launch @part
// CHECK: tile_gpu.launch @combine
func.func @viewed(%n: index, %step: index, %k: i32, %x: memref<?xi32>, %o: memref<?xi32>)
    attributes {tile.plan} {
  %parts = tile.workspace(%n) : memref<?xi32>
  tile_gpu.launch @part grid(%n) args(%x, %parts, %k : memref<?xi32>, memref<?xi32>, i32)
  %view = memref.reinterpret_cast %parts to offset: [0], sizes: [%n], strides: [%step]
      : memref<?xi32> to memref<?xi32, strided<[?]>>
  tile_gpu.launch @combine grid(%n) args(%view, %o, %k : memref<?xi32, strided<[?]>>, memref<?xi32>, i32)
  return
}
}
