// RUN: attn-opt %s --tile-gpu-allocate-shared --convert-tile-gpu-to-nvvm --split-input-file | FileCheck %s

!map = !tile_gpu.tensor_map<16x128xbf16 swizzle 128>
!ring = !tile_gpu.ring<2, 64x128xbf16 swizzle 128>
!tile = !tile_gpu.smem<64x128xbf16 swizzle 128>

module attributes {attn.target = "sm_90a"} {
// A box fills 16 of the 64 rows of each of the tile's two panels: box 3 begins
// 3 * 16 * 128 bytes into a panel, and the panels are 64 * 128 bytes apart, all of
// whose bytes the slot waits for.
// CHECK-LABEL: llvm.func @boxes(
tile_gpu.kernel private @boxes(%K: !map, %page: i32, %h: i32) {
  %c0 = arith.constant 0 : i32
  %c3 = arith.constant 3 : i32
  %ring = tile_gpu.ring.create tma consumers(4) : !ring
  tile_gpu.role "load" warps(1) {
  ^bb0(%warp: i32):
    // CHECK-DAG: %[[BYTES:.*]] = llvm.mlir.constant(16384 : i32)
    // CHECK-DAG: %[[ROWS:.*]] = llvm.mlir.constant(6144 : i32)
    // CHECK-DAG: %[[PANEL:.*]] = llvm.mlir.constant(8192 : i32)
    // CHECK:     mbarrier.arrive.expect_tx{{.*}} %[[BYTES]]
    %t = tile_gpu.ring.acquire %ring[%c0] : !ring
    // CHECK:     %[[TO:.*]] = llvm.add %{{.*}}, %[[ROWS]]
    // CHECK:     cp.async.bulk.tensor.4d{{.*}} %[[TO]],
    // CHECK:     %[[NEXT:.*]] = llvm.add %[[TO]], %[[PANEL]]
    // CHECK:     cp.async.bulk.tensor.4d{{.*}} %[[NEXT]],
    // CHECK-NOT: cp.async.bulk.tensor
    tile_gpu.ring.load %K[%page, %h, %c0, %c0], %t box(%c3) : !map, !tile
    tile_gpu.yield
  }
  tile_gpu.role "compute" warpgroups(1) {
  ^bb0(%wg: i32):
    %u = tile_gpu.ring.wait %ring[%c0] : !ring
    tile_gpu.ring.release %ring[%c0] : !ring
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

!ring = !tile_gpu.ring<1, 16x64xbf16 swizzle 128>
!tile = !tile_gpu.smem<16x64xbf16 swizzle 128>
!pool = memref<?x?x5x64xbf16, strided<[?, ?, ?, 1]>>

module attributes {attn.target = "sm_80"} {
// Each thread asks the table about the row of its chunk. A number of a page is
// that of one there is, and what it is multiplied by has 64 bits.
// CHECK-LABEL: llvm.func @pages(
tile_gpu.kernel private @pages(%K: !pool, %table: memref<?x?xi32>, %b: i32,
                               %h: i32, %i: i32, %n: i32) {
  %c0 = arith.constant 0 : i32
  %ring = tile_gpu.ring.create cp_group producers(4) : !ring
  tile_gpu.role "compute" warps(4) {
  ^bb0(%warp: i32):
    %to = tile_gpu.ring.acquire %ring[%c0] : !ring
    // CHECK-DAG: %[[FIVE:.*]] = llvm.mlir.constant(5 : i32)
    // CHECK-DAG: %[[ZERO:.*]] = llvm.mlir.constant(0 : i32)
    // CHECK:     %[[NUMBER:.*]] = llvm.udiv %[[AT:.*]], %[[FIVE]] : i32
    // CHECK:     %[[IN:.*]] = llvm.intr.smin(%[[NUMBER]], %{{.*}})
    // CHECK:     llvm.sext %[[IN]] : i32 to i64
    // CHECK:     %[[ENTRY:.*]] = llvm.load %{{.*}} -> i32
    // CHECK:     %[[LEAST:.*]] = llvm.intr.smax(%[[ENTRY]], %[[ZERO]])
    // CHECK:     %[[PAGE:.*]] = llvm.intr.smin(%[[LEAST]], %{{.*}})
    // CHECK:     %[[WIDE:.*]] = llvm.sext %[[PAGE]] : i32 to i64
    // CHECK:     llvm.mul %[[WIDE]], %{{.*}} : i64
    // CHECK:     %[[SLOT:.*]] = llvm.urem %[[AT]], %[[FIVE]] : i32
    // CHECK:     %[[WIDE_SLOT:.*]] = llvm.zext %[[SLOT]] : i32 to i64
    // CHECK:     llvm.mul %[[WIDE_SLOT]], %{{.*}} : i64
    // CHECK:     cp.async.cg.shared.global [$0+0], [$1], 16, $2;
    tile_gpu.ring.load %K[%b, %h, %i, %c0], %to rows(%n) table(%table : memref<?x?xi32>) : !pool, !tile
    tile_gpu.ring.commit %ring[%c0] : !ring
    %t = tile_gpu.ring.wait %ring[%c0] : !ring
    tile_gpu.yield
  }
  tile_gpu.return
}

// Where a cache begins is divided by its rows once; a row behind its last is one
// from its first on.
// CHECK-LABEL: llvm.func @rolling(
tile_gpu.kernel private @rolling(%K: memref<?x?x?x64xbf16, strided<[?, ?, ?, 1]>>,
                                 %start: memref<?xi32>, %b: i32, %h: i32, %n: i32) {
  %c0 = arith.constant 0 : i32
  %c16 = arith.constant 16 : i32
  %ring = tile_gpu.ring.create cp_group producers(4) : !ring
  tile_gpu.role "compute" warps(4) {
  ^bb0(%warp: i32):
    // CHECK:     %[[FROM:.*]] = llvm.load %{{.*}} -> i32
    // CHECK:     %[[LEAST:.*]] = llvm.intr.smax(%[[FROM]], %{{.*}})
    // CHECK:     %[[FIRST:.*]] = llvm.urem %[[LEAST]], %{{.*}} : i32
    // CHECK:     ^bb{{[0-9]+}}(%{{.*}}: i32):
    // CHECK-NOT: llvm.urem %[[LEAST]]
    // CHECK:     %[[ROW:.*]] = llvm.add %[[FIRST]], %{{.*}} : i32
    // CHECK:     %[[BEHIND:.*]] = llvm.icmp "uge" %[[ROW]], %[[ROWS:.*]] : i32
    // CHECK:     %[[AGAIN:.*]] = llvm.sub %[[ROW]], %[[ROWS]]
    // CHECK:     llvm.select %[[BEHIND]], %[[AGAIN]], %[[ROW]]
    // CHECK:     cp.async.cg.shared.global [$0+0], [$1], 16, $2;
    scf.for %i = %c0 to %n step %c16 : i32 {
      %to = tile_gpu.ring.acquire %ring[%c0] : !ring
      tile_gpu.ring.load %K[%b, %h, %i, %c0], %to rows(%n) start(%start : memref<?xi32>)
          : memref<?x?x?x64xbf16, strided<[?, ?, ?, 1]>>, !tile
      tile_gpu.ring.commit %ring[%c0] : !ring
      %t = tile_gpu.ring.wait %ring[%c0] : !ring
    }
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

!ring = !tile_gpu.ring<1, 64x64xbf16 swizzle 128>
!tile = !tile_gpu.smem<64x64xbf16 swizzle 128>
!pool = memref<?x?x32x64xbf16, strided<[?, ?, ?, 1]>>

module attributes {attn.target = "sm_80"} {
// Threads that copy 16 rows at a time ask for two boxes of 32, all ahead of the
// four copies that each starts.
// CHECK-LABEL: llvm.func @boxes_of_rows(
tile_gpu.kernel private @boxes_of_rows(%K: !pool, %table: memref<?x?xi32>, %b: i32,
                                       %h: i32, %i: i32, %n: i32) {
  %c0 = arith.constant 0 : i32
  %ring = tile_gpu.ring.create cp_group producers(4) : !ring
  tile_gpu.role "compute" warps(4) {
  ^bb0(%warp: i32):
    %to = tile_gpu.ring.acquire %ring[%c0] : !ring
    // CHECK-COUNT-2: llvm.load %{{.*}} -> i32
    // CHECK-NOT:     llvm.load
    // CHECK-COUNT-4: cp.async.cg.shared.global
    // CHECK-NOT:     cp.async.cg.shared.global
    tile_gpu.ring.load %K[%b, %h, %i, %c0], %to rows(%n)
        table(%table : memref<?x?xi32>) boxes(32) : !pool, !tile
    tile_gpu.ring.commit %ring[%c0] : !ring
    %t = tile_gpu.ring.wait %ring[%c0] : !ring
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

!map = !tile_gpu.tensor_map<16x128xbf16 swizzle 128>
!ring = !tile_gpu.ring<2, 64x128xbf16 swizzle 128>
!tile = !tile_gpu.smem<64x128xbf16 swizzle 128>

module attributes {attn.target = "sm_90a"} {
// Each of eight lanes looks up the page of a panel of a box, and copies that: one
// load and one copy in the code for the four boxes of two panels.
// CHECK-LABEL: llvm.func @pages(
tile_gpu.kernel private @pages(%K: !map, %table: memref<?x?xi32>, %b: i32, %h: i32, %i: i32) {
  %c0 = arith.constant 0 : i32
  %ring = tile_gpu.ring.create tma consumers(4) : !ring
  tile_gpu.role "load" warps(1) {
  ^bb0(%member: i32):
    %to = tile_gpu.ring.acquire %ring[%c0] : !ring
    // CHECK:         %[[EIGHT:.*]] = llvm.mlir.constant(8 : i32)
    // CHECK:         %[[MINE:.*]] = llvm.icmp "slt" %{{.*}}, %[[EIGHT]] : i32
    // CHECK:         llvm.intr.smin
    // CHECK:         %[[PAGE:.*]] = llvm.load %{{.*}} -> i32
    // CHECK:         cp.async.bulk.tensor.4d{{.*}} %[[MINE]], {{.*}}, %[[PAGE]] :
    // CHECK-NOT:     llvm.load
    // CHECK-NOT:     cp.async.bulk.tensor
    tile_gpu.ring.load %K[%b, %h, %i, %c0], %to
        table(%table : memref<?x?xi32>) page(32) : !map, !tile
    tile_gpu.yield
  }
  tile_gpu.role "compute" warpgroups(1) {
  ^bb0(%wg: i32):
    %t = tile_gpu.ring.wait %ring[%c0] : !ring
    tile_gpu.ring.release %ring[%c0] : !ring
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

!map = !tile_gpu.tensor_map<16x128xbf16 swizzle 128>
!ring = !tile_gpu.ring<2, 64x128xbf16 swizzle 128>
!tile = !tile_gpu.smem<64x128xbf16 swizzle 128>
!entries = !tile_gpu.vec<16xi32, row, warp>

module attributes {attn.target = "sm_90a"} {
// Entries that the warp has read are handed to the lanes that copy: nothing is read
// behind the wait for the slot.
// CHECK-LABEL: llvm.func @pages_read(
tile_gpu.kernel private @pages_read(%K: !map, %table: memref<?x?xi32>, %b: i32, %h: i32,
                                    %i: i32, %e: i32, %n: i32) {
  %c0 = arith.constant 0 : i32
  %ring = tile_gpu.ring.create tma consumers(4) : !ring
  tile_gpu.role "load" warps(1) {
  ^bb0(%member: i32):
    // CHECK-COUNT-2: ld.global.b32
    // CHECK-NOT:     ld.global
    %v = tile_gpu.global.load %table[%b, %e] rows(%n) : memref<?x?xi32> -> !entries
    %to = tile_gpu.ring.acquire %ring[%c0] : !ring
    // CHECK:         mbarrier.try_wait
    // CHECK-NOT:     llvm.load
    // CHECK:         llvm.select
    // CHECK:         %[[PAGE:.*]] = llvm.call_intrinsic "llvm.nvvm.shfl.sync.idx.i32"
    // CHECK-NOT:     llvm.load
    // CHECK:         cp.async.bulk.tensor.4d{{.*}} %[[PAGE]] :
    // CHECK-NOT:     cp.async.bulk.tensor
    tile_gpu.ring.load %K[%b, %h, %i, %c0], %to table(%table : memref<?x?xi32>)
        entries(%v from %e : !entries) page(16) : !map, !tile
    tile_gpu.yield
  }
  tile_gpu.role "compute" warpgroups(1) {
  ^bb0(%wg: i32):
    %t = tile_gpu.ring.wait %ring[%c0] : !ring
    tile_gpu.ring.release %ring[%c0] : !ring
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

!map = !tile_gpu.tensor_map<64x128xbf16 swizzle 128>
!ring = !tile_gpu.ring<2, 128x128xbf16 swizzle 128>
!tile = !tile_gpu.smem<128x128xbf16 swizzle 128>
!entries = !tile_gpu.vec<16xi32, row, warp>

module attributes {attn.target = "sm_90a"} {
// Four copies a tile are one thread's: both halves of a page, then of the next.
// CHECK-LABEL: llvm.func @pages_of_one(
tile_gpu.kernel private @pages_of_one(%K: !map, %table: memref<?x?xi32>, %b: i32, %h: i32,
                                      %i: i32, %e: i32, %n: i32) {
  %c0 = arith.constant 0 : i32
  %ring = tile_gpu.ring.create tma consumers(4) : !ring
  tile_gpu.role "load" warps(1) {
  ^bb0(%member: i32):
    %v = tile_gpu.global.load %table[%b, %e] rows(%n) : memref<?x?xi32> -> !entries
    %to = tile_gpu.ring.acquire %ring[%c0] : !ring
    // CHECK:         mbarrier.arrive.expect_tx{{.*}} %{{.*}}, %{{.*}}, %[[ONE:.*]] :
    // CHECK:         %[[FIRST:.*]] = llvm.call_intrinsic "llvm.nvvm.shfl.sync.idx.i32"
    // CHECK:         cp.async.bulk.tensor.4d{{.*}} %[[ONE]], {{.*}} %[[FIRST]] :
    // CHECK:         cp.async.bulk.tensor.4d{{.*}} %[[ONE]], {{.*}} %[[FIRST]] :
    // CHECK:         %[[SECOND:.*]] = llvm.call_intrinsic "llvm.nvvm.shfl.sync.idx.i32"
    // CHECK:         cp.async.bulk.tensor.4d{{.*}} %[[ONE]], {{.*}} %[[SECOND]] :
    // CHECK:         cp.async.bulk.tensor.4d{{.*}} %[[ONE]], {{.*}} %[[SECOND]] :
    // CHECK-NOT:     cp.async.bulk.tensor
    tile_gpu.ring.load %K[%b, %h, %i, %c0], %to table(%table : memref<?x?xi32>)
        entries(%v from %e : !entries) page(64) : !map, !tile
    tile_gpu.yield
  }
  tile_gpu.role "compute" warpgroups(1) {
  ^bb0(%wg: i32):
    %t = tile_gpu.ring.wait %ring[%c0] : !ring
    tile_gpu.ring.release %ring[%c0] : !ring
    tile_gpu.yield
  }
  tile_gpu.return
}
}
