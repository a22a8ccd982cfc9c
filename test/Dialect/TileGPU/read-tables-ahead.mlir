// RUN: attn-opt %s --split-input-file --pass-pipeline="builtin.module(tile_gpu.kernel(tile-gpu-read-tables-ahead))" | FileCheck %s
// RUN: attn-opt %s --split-input-file --pass-pipeline="builtin.module(tile_gpu.kernel(tile-gpu-read-tables-ahead{explain},tile-gpu-read-tables-ahead{explain}))" -o %t 2> %t.why
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.why

// Warps that copy pages have entries of their table in registers, those of four
// tiles at least.

!map = !tile_gpu.tensor_map<16x128xbf16 swizzle 128>
!ring = !tile_gpu.ring<2, 64x128xbf16 swizzle 128>
!tile = !tile_gpu.smem<64x128xbf16 swizzle 128>

// Keys and values take the same ones; the last loop, whose entries have been read,
// reads them as it copies.
// CHECK-LABEL: tile_gpu.kernel private @decode(
// CHECK-SAME:      %[[TABLE:[a-z0-9]*]]: memref<?x?xi32>, %[[B:[a-z0-9]*]]: i32
tile_gpu.kernel private @decode(%table: memref<?x?xi32>, %b: i32, %K: !map, %V: !map,
                                %begin: index, %end: index, %last: index) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c64 = arith.constant 64 : index
  %keys = tile_gpu.ring.create tma consumers(4) : !ring
  %values = tile_gpu.ring.create tma consumers(4) : !ring
  tile_gpu.role "load" warps(1) {
  ^bb0(%warp: i32):
    // CHECK:      %[[C16:.*]] = arith.constant 16 : index
    // CHECK:      %[[FIRST:.*]] = arith.divui %[[BEGIN:.*]], %
    // CHECK:      %[[COUNT:.*]] = arith.index_cast %{{.*}} : index to i32
    // CHECK:      %[[NOW:.*]] = tile_gpu.global.load %[[TABLE]][%[[B]], %{{.*}}] rows(%[[COUNT]]) : memref<?x?xi32> -> !tile_gpu.vec<16xi32, row, warp>
    // CHECK:      %[[LATER:.*]] = tile_gpu.global.load %[[TABLE]][%[[B]], %{{.*}}] rows(%[[COUNT]]) : memref<?x?xi32> -> !tile_gpu.vec<16xi32, row, warp>
    // CHECK:      scf.for %[[ROW:.*]] = %[[BEGIN]] to {{.*}} iter_args(%{{.*}} = %{{.*}}, %[[A:.*]] = %[[NOW]], %[[Z:.*]] = %[[LATER]])
    // CHECK-DAG:    %[[DONE:.*]] = arith.subi %[[ROW]], %[[BEGIN]]
    // CHECK:        %[[PLACE:.*]] = arith.remui
    // CHECK:        %[[TAKEN:.*]]:2 = scf.if
    // CHECK:          %[[NEXT:.*]] = tile_gpu.global.load %[[TABLE]][%[[B]], %{{.*}}] rows(%[[COUNT]])
    // CHECK:          scf.yield %[[Z]], %[[NEXT]]
    // CHECK:        else
    // CHECK:          scf.yield %[[A]], %[[Z]]
    // CHECK:        %[[FROM:.*]] = arith.index_cast %[[PLACE]]
    // CHECK:        ring.acquire
    // CHECK:        ring.load {{.*}} entries(%[[TAKEN]]#0 from %[[FROM]] : !tile_gpu.vec<16xi32, row, warp>) page(16)
    // CHECK:        ring.acquire
    // CHECK:        ring.load {{.*}} entries(%[[TAKEN]]#0 from %[[FROM]] : !tile_gpu.vec<16xi32, row, warp>) page(16)
    // CHECK:        scf.yield %{{.*}}, %[[TAKEN]]#0, %[[TAKEN]]#1
    %n = scf.for %i = %begin to %end step %c64 iter_args(%use = %c0) -> (i32) {
      %row = arith.index_cast %i : index to i32
      %k = tile_gpu.ring.acquire %keys[%use] : !ring
      tile_gpu.ring.load %K[%b, %c0, %row, %c0], %k table(%table : memref<?x?xi32>) page(16) : !map, !tile
      %v = tile_gpu.ring.acquire %values[%use] : !ring
      tile_gpu.ring.load %V[%b, %c0, %row, %c0], %v table(%table : memref<?x?xi32>) page(16) : !map, !tile
      %next = arith.addi %use, %c1 : i32
      scf.yield %next : i32
    }
    // CHECK:      scf.for
    // CHECK-NOT:    entries(
    scf.for %i = %end to %last step %c64 iter_args(%use = %n) -> (i32) {
      %row = arith.index_cast %i : index to i32
      %k = tile_gpu.ring.acquire %keys[%use] : !ring
      tile_gpu.ring.load %K[%b, %c0, %row, %c0], %k table(%table : memref<?x?xi32>) page(16) : !map, !tile
      %next = arith.addi %use, %c1 : i32
      scf.yield %next : i32
    }
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

!map = !tile_gpu.tensor_map<64x128xbf16 swizzle 128>
!ring = !tile_gpu.ring<2, 64x128xbf16 swizzle 128>
!tile = !tile_gpu.smem<64x128xbf16 swizzle 128>

// WHY-NOT: remark
// WHY: remark: entries of tables not read ahead: expected 40 registers for a thread, but got 24
// WHY: remark: entries of tables not read ahead: expected tiles of 1, 2, 4 or 8 whole pages
// WHY: remark: entries of tables not read ahead: expected tiles of 1, 2, 4 or 8 whole pages
// WHY: remark: entries of tables not read ahead: expected tiles of 1, 2, 4 or 8 whole pages
// Left as they are: a warp of few registers, tiles that are parts of pages, sequences
// that a loop changes, and steps of two tiles.
// CHECK-LABEL: tile_gpu.kernel private @others(
// CHECK-NOT:     entries(
tile_gpu.kernel private @others(%table: memref<?x?xi32>, %b: i32, %K: !map, %end: index) {
  %i0 = arith.constant 0 : index
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c64 = arith.constant 64 : index
  %c128 = arith.constant 128 : index
  %keys = tile_gpu.ring.create tma consumers(4) : !ring
  tile_gpu.role "few" warps(1) registers(24) {
  ^bb0(%warp: i32):
    scf.for %i = %i0 to %end step %c64 iter_args(%use = %c0) -> (i32) {
      %row = arith.index_cast %i : index to i32
      %k = tile_gpu.ring.acquire %keys[%use] : !ring
      tile_gpu.ring.load %K[%b, %c0, %row, %c0], %k table(%table : memref<?x?xi32>) page(64) : !map, !tile
      %next = arith.addi %use, %c1 : i32
      scf.yield %next : i32
    }
    tile_gpu.yield
  }
  tile_gpu.role "parts" warps(1) {
  ^bb0(%warp: i32):
    scf.for %i = %i0 to %end step %c64 iter_args(%use = %c0) -> (i32) {
      %row = arith.index_cast %i : index to i32
      %k = tile_gpu.ring.acquire %keys[%use] : !ring
      tile_gpu.ring.load %K[%b, %c0, %row, %c0], %k table(%table : memref<?x?xi32>) page(128) : !map, !tile
      %next = arith.addi %use, %c1 : i32
      scf.yield %next : i32
    }
    tile_gpu.yield
  }
  tile_gpu.role "sequences" warps(1) {
  ^bb0(%warp: i32):
    scf.for %i = %i0 to %end step %c64 iter_args(%use = %c0) -> (i32) {
      %row = arith.index_cast %i : index to i32
      %k = tile_gpu.ring.acquire %keys[%use] : !ring
      tile_gpu.ring.load %K[%use, %c0, %row, %c0], %k table(%table : memref<?x?xi32>) page(64) : !map, !tile
      %next = arith.addi %use, %c1 : i32
      scf.yield %next : i32
    }
    tile_gpu.yield
  }
  tile_gpu.role "halves" warps(1) {
  ^bb0(%warp: i32):
    scf.for %i = %i0 to %end step %c128 iter_args(%use = %c0) -> (i32) {
      %row = arith.index_cast %i : index to i32
      %k = tile_gpu.ring.acquire %keys[%use] : !ring
      tile_gpu.ring.load %K[%b, %c0, %row, %c0], %k table(%table : memref<?x?xi32>) page(64) : !map, !tile
      %next = arith.addi %use, %c1 : i32
      scf.yield %next : i32
    }
    tile_gpu.yield
  }
  tile_gpu.return
}
