// RUN: attn-opt %s --tile-gpu-allocate-shared --convert-tile-gpu-to-nvvm --split-input-file | FileCheck %s
// RUN: attn-opt %s --split-input-file %tidy --tile-gpu-allocate-shared --convert-tile-gpu-to-nvvm | FileCheck %s

!map = !tile_gpu.tensor_map<64x128xbf16 swizzle 128>
!ring = !tile_gpu.ring<2, 64x128xbf16 swizzle 128>
!tile = !tile_gpu.smem<64x128xbf16 swizzle 128>

module attributes {attn.target = "sm_90a"} {
// The kernel leaves a declaration: 32 KiB of tiles, then the barriers of two
// slots, the tickets' two slots and their barriers.
// CHECK: kernel private @copy(!tile_gpu.tensor_map<64x128xbf16 swizzle 128>, memref<?x128xf32, strided<[?, 1]>>, memref<1xi32>, i32, i1, index)
// CHECK-SAME: launch = #tile_gpu.launch<threads = 256, shared_bytes = 32896, persistent = true>
tile_gpu.kernel private @copy(%Q: !map, %O: memref<?x128xf32, strided<[?, 1]>>,
    %tickets: memref<1xi32>, %n: i32, %flag: i1, %i: index) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant 0.0 : f32
  %ring = tile_gpu.ring.create tma consumers(4) : !ring
  %schedule = tile_gpu.scheduler dynamic in_order
      tickets(%tickets : memref<1xi32>) tiles(%n) heads(%c1) batch(%c1) {
  ^bb0(%tile: i32, %head: i32, %b: i32, %split: i32):
    %twice = arith.addi %tile, %tile : i32
    %even = arith.cmpi slt, %twice, %n : i32
    %wide = arith.extsi %twice : i32 to i64
    tile_gpu.yield %c0, %c1, %twice, %even, %wide : i32, i32, i32, i1, i64
  }
  tile_gpu.role "load" warps(1) registers(24) {
  ^bb0(%warp: i32):
    %end = tile_gpu.foreach %schedule lead iter_args(%c0 : i32) {
    ^bb0(%tile: i32, %head: i32, %b: i32, %split: i32, %lo: i32, %hi: i32,
         %twice: i32, %even: i1, %wide: i64, %c: i32):
      %t = tile_gpu.ring.acquire %ring[%c] : !ring
      tile_gpu.ring.load %Q[%tile, %c0, %c0, %c0], %t : !map, !tile
      %d = arith.addi %c, %c1 : i32
      tile_gpu.yield %d : i32
    } -> i32
    tile_gpu.yield
  }
  tile_gpu.role "compute" warpgroups(1) registers(240) {
  ^bb0(%wg: i32):
    %end = tile_gpu.foreach %schedule iter_args(%c0 : i32) {
    ^bb0(%tile: i32, %head: i32, %b: i32, %split: i32, %lo: i32, %hi: i32,
         %twice: i32, %even: i1, %wide: i64, %c: i32):
      %t = tile_gpu.ring.wait %ring[%c] : !ring
      scf.if %even {
        %at = arith.index_cast %wide : i64 to index
        memref.store %tile, %tickets[%at] : memref<1xi32>
      }
      tile_gpu.ring.release %ring[%c] : !ring
      %d = arith.addi %c, %c1 : i32
      tile_gpu.yield %d : i32
    } -> i32
    tile_gpu.yield
  }
  tile_gpu.return
}

// CHECK: gpu.module @attn_kernels
// CHECK: llvm.mlir.global external @attn_shared() {addr_space = 3 : i32, alignment = 1024 : i64}
// One map, pointer + sizes + strides, scalars.
// CHECK: llvm.func @copy(%{{.*}}: !llvm.ptr {llvm.align = 64 : i64, llvm.byval = !llvm.array<128 x i8>, nvvm.grid_constant},
// CHECK-SAME: %{{[^:]*}}: !llvm.ptr<1>, %{{[^:]*}}: i64, %{{[^:]*}}: i64, %{{[^:]*}}: i64, %{{[^:]*}}: i64,
// CHECK-SAME: %{{[^:]*}}: !llvm.ptr<1>, %{{[^:]*}}: i64, %{{[^:]*}}: i64, %{{[^:]*}}: i32, %{{[^:]*}}: i8, %{{[^:]*}}: i64)
// CHECK-SAME: nvvm.kernel, nvvm.minctasm = 1 : i32, nvvm.reqntid = array<i32: 256>
// Barriers: 1 arrival makes a slot full, 4 warps make it empty, and the
// tickets' slots all their lanes.
// CHECK-DAG: %[[LANES:.*]] = llvm.mlir.constant(128 : i32)
// CHECK-DAG: %[[WARPS:.*]] = llvm.mlir.constant(4 : i32)
// CHECK-DAG: %[[ONE:.*]] = llvm.mlir.constant(1 : i32)
// CHECK-COUNT-2: mbarrier.init.shared::cta.b64 {{.*}}, %[[ONE]] :
// CHECK-COUNT-2: mbarrier.init.shared::cta.b64 {{.*}}, %[[WARPS]] :
// CHECK-COUNT-2: mbarrier.init.shared::cta.b64 {{.*}}, %[[ONE]] :
// CHECK-COUNT-2: mbarrier.init.shared::cta.b64 {{.*}}, %[[LANES]] :
// CHECK: fence.mbarrier_init.release.cluster
// CHECK: llvm.nvvm.barrier.cta.sync.aligned.all
// CHECK: llvm.nvvm.setmaxnreg.dec
// The number of the item, then what the other role reads of it: the tile, a
// truth, two words of a wide number. Behind the last item the number alone.
// CHECK: mbarrier.try_wait.parity
// CHECK: st.shared::cta.v4.b32 [$0], {$2, $3, $4, $5};
// CHECK: st.shared::cta.b32 [$0], $2;
// CHECK: mbarrier.try_wait.parity
// CHECK: mbarrier.arrive.expect_tx
// CHECK: cp.async.bulk.tensor.4d.shared::cta
// CHECK: cp.async.bulk.tensor.4d.shared::cta
// The draw that finds total - 1 sets the counter to zero.
// CHECK: atom.relaxed.gpu.global.inc.u32 $0, [$1], $3;
// CHECK: st.shared::cta.b32 [$0], $2;
// CHECK: llvm.nvvm.setmaxnreg.dec
// CHECK: mbarrier.try_wait.parity
// CHECK: ld.shared::cta.v4.b32 {$0, $1, $2, $3}, [$4];
// CHECK: ld.shared::cta.b32 $0, [$1];
// CHECK-COUNT-5: llvm.nvvm.shfl.sync.idx.i32
// Every lane says that it has read: nothing else orders its loads before what
// is written next.
// CHECK: "mbarrier.arrive.shared::cta.b64 _, [$0];"
}

// -----

module attributes {attn.target = "sm_90a"} {
// A warp that only draws: one slot, whose readers it waits for before it draws.
// It gives no number of an item that it passes over, but draws behind each.
// CHECK: kernel private @pass({{.*}}shared_bytes = 32,
// CHECK: llvm.func @pass
// CHECK: %[[LANES:.*]] = llvm.mlir.constant(32 : i32)
// CHECK: mbarrier.init.shared::cta.b64
// CHECK: mbarrier.init.shared::cta.b64 {{.*}}, %[[LANES]] :
// CHECK-NOT: mbarrier.init
// CHECK: ^[[HEADER:bb[0-9]*]](%[[TURN:.*]]: i32, %[[ITEM:.*]]: i32):
// CHECK: llvm.cond_br %{{.*}}, ^[[FIRST:bb[0-9]*]], ^
// CHECK: llvm.return
// CHECK-NEXT: ^[[OVER:bb[0-9]*]]:
// CHECK: atom.relaxed.gpu.global.inc.u32
// CHECK: llvm.br ^[[HEADER]](%[[TURN]],
// CHECK-NEXT: ^[[FIRST]]:
// CHECK-NEXT: %[[NONE:.*]] = llvm.icmp "slt" %[[ITEM]],
// CHECK-NEXT: llvm.cond_br %[[NONE]], ^[[OVER]], ^
// CHECK: st.shared::cta.v2.b32
// CHECK: mbarrier.try_wait.parity
// CHECK: atom.relaxed.gpu.global.inc.u32
// CHECK: llvm.br ^[[HEADER]](
tile_gpu.kernel private @pass(%tickets: memref<1xi32>, %n: i32, %least: i32,
    %out: memref<?xi32>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %s = tile_gpu.scheduler dynamic in_order tickets(%tickets : memref<1xi32>)
      tiles(%n) heads(%c1) batch(%c1) {
  ^bb0(%tile: i32, %head: i32, %b: i32, %split: i32):
    %none = arith.cmpi slt, %tile, %least : i32
    tile_gpu.skip %none
    tile_gpu.yield %c0, %c0 : i32, i32
  }
  tile_gpu.role "draw" warps(1) {
  ^bb0(%w: i32):
    tile_gpu.foreach %s lead {
    ^bb0(%tile: i32, %head: i32, %b: i32, %split: i32, %lo: i32, %hi: i32):
      tile_gpu.yield
    }
    tile_gpu.yield
  }
  tile_gpu.role "write" warps(1) {
  ^bb0(%w: i32):
    tile_gpu.foreach %s {
    ^bb0(%tile: i32, %head: i32, %b: i32, %split: i32, %lo: i32, %hi: i32):
      %at = arith.index_cast %tile : i32 to index
      memref.store %tile, %out[%at] : memref<?xi32>
      tile_gpu.yield
    }
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

module attributes {attn.target = "sm_90a"} {
// The slot of an item is given back where its role lets the next one be drawn.
// CHECK-LABEL: llvm.func @late
// CHECK: ld.shared::cta
// CHECK-NOT: mbarrier.arrive
// CHECK: st.global
// CHECK: mbarrier.arrive
// CHECK-NOT: mbarrier.arrive
// CHECK: st.global
// CHECK-NOT: mbarrier.arrive
// CHECK: llvm.return
tile_gpu.kernel private @late(%tickets: memref<1xi32>, %n: i32, %c: i1,
    %out: memref<?xi32>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %s = tile_gpu.scheduler dynamic in_order tickets(%tickets : memref<1xi32>)
      tiles(%n) heads(%c1) batch(%c1) {
  ^bb0(%tile: i32, %head: i32, %b: i32, %split: i32):
    tile_gpu.yield %c0, %c0 : i32, i32
  }
  tile_gpu.role "write" warps(1) {
  ^bb0(%w: i32):
    tile_gpu.foreach %s {
    ^bb0(%tile: i32, %head: i32, %b: i32, %split: i32, %lo: i32, %hi: i32):
      %at = arith.index_cast %tile : i32 to index
      memref.store %tile, %out[%at] : memref<?xi32>
      tile_gpu.draw_next
      memref.store %c1, %out[%at] : memref<?xi32>
      tile_gpu.yield
    }
    tile_gpu.yield
  }
  tile_gpu.role "draw" warps(1) {
  ^bb0(%w: i32):
    tile_gpu.foreach %s lead {
    ^bb0(%tile: i32, %head: i32, %b: i32, %split: i32, %lo: i32, %hi: i32):
      tile_gpu.yield
    }
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

!ring = !tile_gpu.ring<1, 16x64xbf16 swizzle 128>
!tile = !tile_gpu.smem<16x64xbf16 swizzle 128>
!a = !tile_gpu.frag<16x64xbf16, a, warp>

module attributes {attn.target = "sm_80"} {
// Copies that a role of warps waits for together: no barrier in memory. What
// the loop does not change is computed before it; a copy whose rows start at
// multiples of 16 bytes adds to an address.
// CHECK: kernel private @together({{.*}}#tile_gpu.launch<threads = 128, shared_bytes = 2048>
tile_gpu.kernel private @together(%K: memref<?x?x64xbf16, strided<[?, ?, 1]>>,
    %O: memref<?x64xbf16, strided<[?, 1]>>, %n: i32, %h: i32) {
  %c0 = arith.constant 0 : i32
  %c16 = arith.constant 16 : i32
  %ring = tile_gpu.ring.create cp_group producers(4) : !ring
  %all = tile_gpu.barrier.create warps(4)
  tile_gpu.role "compute" warps(4) {
  ^bb0(%warp: i32):
    scf.for %i = %c0 to %n step %c16 : i32 {
      %to = tile_gpu.ring.acquire %ring[%c0] : !ring
      tile_gpu.ring.load %K[%h, %i, %c0], %to : memref<?x?x64xbf16, strided<[?, ?, 1]>>, !tile
      tile_gpu.ring.commit %ring[%c0] : !ring
      %t = tile_gpu.ring.wait %ring[%c0] : !ring
      %f = tile_gpu.frag.load %t : !tile -> !a
      tile_gpu.global.store %f, %O[%i, %c0] : !a, memref<?x64xbf16, strided<[?, 1]>>
      tile_gpu.barrier.sync %all
    }
    tile_gpu.yield
  }
  tile_gpu.return
}
// CHECK-NOT: mbarrier
// CHECK: llvm.ptrtoint
// CHECK: ^bb{{[0-9]+}}(%[[I:.*]]: i32):
// CHECK: cp.async.cg.shared.global [$0+0], [$1], 16;
// CHECK: cp.async.commit_group;
// CHECK: cp.async.wait_group 0;
// CHECK: llvm.nvvm.barrier.cta.sync.aligned.count
// CHECK: ldmatrix.sync.aligned.m8n8.x4.shared::cta.b16
// Elsewhere, element by element.
// CHECK: ld.global.b16
// CHECK-NOT: mbarrier
}

// -----

module attributes {attn.target = "sm_90a"} {
// Two roles divide by the same number, each by an inverse of its own.
// CHECK: llvm.func @inverses
// CHECK-COUNT-2: llvm.nvvm.rcp.approx.ftz.f
tile_gpu.kernel private @inverses(%tickets: memref<1xi32>, %n: i32, %heads: i32, %out: memref<?x?xf32>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %x = arith.constant 0.0 : f32
  %s = tile_gpu.scheduler dynamic in_order tickets(%tickets : memref<1xi32>) tiles(%n) heads(%c1) batch(%c1) {
  ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
    %first = arith.divui %tile, %heads : i32
    tile_gpu.yield %c0, %c0, %first : i32, i32, i32
  }
  tile_gpu.role "load" warps(1) {
  ^bb0(%w: i32):
    %r = tile_gpu.foreach %s lead iter_args(%c0 : i32) {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32, %lo: i32, %hi: i32, %row: i32, %i: i32):
      %q = arith.addi %i, %c1 : i32
      tile_gpu.yield %q : i32
    } -> i32
    tile_gpu.yield
  }
  tile_gpu.role "compute" warpgroups(1) {
  ^bb0(%wg: i32):
    %r = tile_gpu.foreach %s iter_args(%c0 : i32) {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32, %lo: i32, %hi: i32, %row: i32, %i: i32):
      %slot = arith.remui %i, %heads : i32
      %o = tile_gpu.frag.fill %x : f32 -> !tile_gpu.frag<64x64xf32, acc>
      tile_gpu.global.store %o, %out[%row, %slot] : !tile_gpu.frag<64x64xf32, acc>, memref<?x?xf32>
      %q = arith.addi %i, %c1 : i32
      tile_gpu.yield %q : i32
    } -> i32
    tile_gpu.yield
  }
  tile_gpu.return
}

// A divisor of the schedule's body, which both roles evaluate.
// CHECK: llvm.func @bodies
// CHECK-COUNT-2: llvm.nvvm.rcp.approx.ftz.f
tile_gpu.kernel private @bodies(%n: i32, %heads: i32, %out: memref<?x?xf32>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %x = arith.constant 0.0 : f32
  %s = tile_gpu.scheduler static in_order tiles(%n) heads(%c1) batch(%c1) {
  ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
    %d = arith.addi %tile, %c1 : i32
    %h = arith.divui %heads, %d : i32
    tile_gpu.yield %c0, %h : i32, i32
  }
  tile_gpu.role "compute" warpgroups(1) {
  ^bb0(%wg: i32):
    tile_gpu.foreach %s {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32, %lo: i32, %hi: i32):
      %o = tile_gpu.frag.fill %x : f32 -> !tile_gpu.frag<64x64xf32, acc>
      tile_gpu.global.store %o, %out[%hi, %c0] : !tile_gpu.frag<64x64xf32, acc>, memref<?x?xf32>
      tile_gpu.yield 
    } 
    tile_gpu.yield
  }
  tile_gpu.role "load" warps(1) {
  ^bb0(%w: i32):
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
// The rows of a column lie in four warps: each stores what it has of 16 columns, two
// at a time, and reads what all of them have.
// CHECK: kernel private @columns({{.*}}shared_bytes = 256>
// CHECK-LABEL: llvm.func @columns
// CHECK: llvm.nvvm.barrier.cta.sync.aligned.count
// CHECK-COUNT-2: st.shared::cta.v2.b32
// CHECK-NOT: st.shared
// CHECK: llvm.nvvm.barrier.cta.sync.aligned.count
// CHECK-COUNT-8: ld.shared::cta.v2.b32
// CHECK-NOT: ld.shared
tile_gpu.kernel private @columns(%o: memref<?xf32, strided<[1]>>, %x: f32) {
  %c0 = arith.constant 0 : i32
  tile_gpu.role "compute" warpgroups(1) {
  ^bb0(%group: i32):
    %f = tile_gpu.frag.fill %x : f32 -> !tile_gpu.frag<64x16xf32, acc>
    %v = tile_gpu.reduce ins(%f : !tile_gpu.frag<64x16xf32, acc>) identity(%x : f32) {
    ^bb0(%a: f32, %b: f32):
      %m = arith.maximumf %a, %b : f32
      tile_gpu.yield %m : f32
    } -> !tile_gpu.vec<16xf32, col>
    tile_gpu.global.store %v, %o[%c0] : !tile_gpu.vec<16xf32, col>, memref<?xf32, strided<[1]>>
    tile_gpu.yield
  }
  tile_gpu.return
}
}
