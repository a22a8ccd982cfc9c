// Left operands and loads that are transposed, vectors along the columns and
// additions to memory, in the registers of GPUs.
// RUN: attn-opt %s --convert-tile-to-tile-gpu | FileCheck %s
// RUN: attn-opt %s %tidy --convert-tile-to-tile-gpu %tidy | FileCheck %s

!half = !tile_gpu.smem<64x64xbf16 swizzle 128>

// CHECK-LABEL: tile_gpu.kernel @warpgroup
tile_gpu.kernel @warpgroup(%k: !half, %v: !half, %L: memref<?x?xf32>, %X: memref<?x?x64xf32>, %h: i32, %i: i32, %n: i32) {
  %c0 = arith.constant 0 : index
  %hi = arith.index_cast %h : i32 to index
  %ii = arith.index_cast %i : i32 to index
  %ni = arith.index_cast %n : i32 to index
  tile_gpu.role "compute" warpgroups(1) {
  ^bb0(%wg: i32):
    %kt = builtin.unrealized_conversion_cast %k : !half to !tile.tile<64x64xbf16>
    %vt = builtin.unrealized_conversion_cast %v : !half to !tile.tile<64x64xbf16>
    // CHECK: %[[KT:.*]] = tile_gpu.smem.transpose %{{.*}} : <64x64xbf16 swizzle 128>
    // CHECK: tile_gpu.mma.issue %[[KT]], %{{.*}} : !tile_gpu.smem<64x64xbf16 swizzle 128 transposed>, !tile_gpu.smem<64x64xbf16 swizzle 128> -> !tile_gpu.token<64x64xf32>
    // CHECK: %[[S:.*]] = tile_gpu.mma.wait
    %s = tile.dot %kt, %vt transpose_lhs : !tile.tile<64x64xbf16>, !tile.tile<64x64xbf16> -> !tile.tile<64x64xf32>
    // CHECK: tile_gpu.global.load %{{.*}}[%{{.*}}, %{{.*}}] rows(%{{.*}}) : memref<?x?xf32> -> !tile_gpu.vec<64xf32, col>
    %l = tile.load vector transposed %L[%hi, %ii] rows(%c0 to %ni) : memref<?x?xf32> -> !tile.tile<1x64xf32>
    %t = tile.map ins(%s, %l : !tile.tile<64x64xf32>, !tile.tile<1x64xf32>) {
    ^bb0(%r: i32, %c: i32, %a: f32, %b: f32):
      %x = arith.subf %a, %b : f32
      tile.yield %x : f32
    } -> !tile.tile<64x64xf32>
    // CHECK: %[[OLD:.*]] = tile_gpu.global.load %[[X:.*]][%{{.*}}] rows(%{{.*}}) : {{.*}} -> !tile_gpu.frag<64x64xf32, acc>
    // CHECK: %[[SUM:.*]] = tile_gpu.map ins(%[[OLD]], %{{.*}}
    // CHECK: arith.addf
    // CHECK: tile_gpu.global.store %[[SUM]], %[[X]]
    tile.accumulate %t, %X[%hi, %ii, %c0] rows(%c0 to %ni) : !tile.tile<64x64xf32>, memref<?x?x64xf32>
    // CHECK: tile_gpu.global.reduce %{{.*}}, %[[X]]
    tile.accumulate any_order %t, %X[%hi, %ii, %c0] rows(%c0 to %ni) : !tile.tile<64x64xf32>, memref<?x?x64xf32>
    // CHECK: tile_gpu.global.reduce %{{.*}}, %[[X]][{{.*}}] {fragment_order}
    tile.accumulate any_order %t, %X[%hi, %ii, %c0] {fragment_order} : !tile.tile<64x64xf32>, memref<?x?x64xf32>
    // CHECK: tile_gpu.global.load %[[X]][{{.*}}] {fragment_order} : {{.*}} -> !tile_gpu.frag<64x64xf32, acc>
    %again = tile.load %X[%hi, %ii, %c0] {fragment_order} : memref<?x?x64xf32> -> !tile.tile<64x64xf32>
    tile.accumulate any_order %again, %X[%hi, %ii, %c0] {fragment_order} : !tile.tile<64x64xf32>, memref<?x?x64xf32>
    // CHECK: tile_gpu.global.store %{{.*}}, %{{.*}}[%{{.*}}] rows(%{{.*}}) : !tile_gpu.vec<64xf32, col>, memref<?x?xf32>
    tile.store vector transposed %l, %L[%hi, %ii] rows(%c0 to %ni) : !tile.tile<1x64xf32>, memref<?x?xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

// CHECK-LABEL: tile_gpu.kernel @warp
tile_gpu.kernel @warp(%k: !tile_gpu.smem<64x16xbf16 swizzle 32>, %v: !half, %p: !tile_gpu.frag<16x64xbf16, a, warp>, %u: !tile_gpu.smem<16x64xbf16 swizzle 128>, %X: memref<?x64xf32>, %Z: memref<?xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  tile_gpu.role "compute" warps(1) {
  ^bb0(%warp: i32):
    %kt = builtin.unrealized_conversion_cast %k : !tile_gpu.smem<64x16xbf16 swizzle 32> to !tile.tile<64x16xbf16>
    %vt = builtin.unrealized_conversion_cast %v : !half to !tile.tile<64x64xbf16>
    // CHECK: %[[KT:.*]] = tile_gpu.smem.transpose %{{.*}} : <64x16xbf16 swizzle 32>
    // CHECK: %[[S:.*]] = tile_gpu.mma.sync %[[KT]], %{{.*}}
    %s = tile.dot %kt, %vt transpose_lhs : !tile.tile<64x16xbf16>, !tile.tile<64x64xbf16> -> !tile.tile<16x64xf32>
    // What is in registers goes through memory of the warp's own.
    // CHECK: tile_gpu.frag.store %{{.*}}, %[[MINE:.*]] : <16x64xbf16, a, warp>, <16x64xbf16 swizzle 128>
    // CHECK: %[[PT:.*]] = tile_gpu.smem.transpose %[[MINE]]
    // CHECK: tile_gpu.mma.sync %[[PT]], %{{.*}} -> <64x64xf32, acc, warp>
    %pt = builtin.unrealized_conversion_cast %p : !tile_gpu.frag<16x64xbf16, a, warp> to !tile.tile<16x64xbf16>
    %ut = builtin.unrealized_conversion_cast %u : !tile_gpu.smem<16x64xbf16 swizzle 128> to !tile.tile<16x64xbf16>
    %d = tile.dot %pt, %ut transpose_lhs : !tile.tile<16x64xbf16>, !tile.tile<16x64xbf16> -> !tile.tile<64x64xf32>
    tile.accumulate any_order %d, %X[%c0, %c0] : !tile.tile<64x64xf32>, memref<?x64xf32>
    // CHECK: tile_gpu.global.load %{{.*}} transposed : memref<?x64xf32> -> !tile_gpu.frag<16x64xf32, acc, warp>
    %x = tile.load transposed %X[%c0, %c0] : memref<?x64xf32> -> !tile.tile<16x64xf32>
    tile.store %x, %X[%c0, %c0] : !tile.tile<16x64xf32>, memref<?x64xf32>
    %z = tile.reduce ins(%s : !tile.tile<16x64xf32>) identity(%zero : f32) {
    ^bb0(%a: f32, %b: f32):
      %y = arith.addf %a, %b : f32
      tile.yield %y : f32
    } -> !tile.tile<16x1xf32>
    // One of the threads that hold an element adds it, in either form.
    // CHECK: tile_gpu.global.reduce %{{.*}} : !tile_gpu.vec<16xf32, row, warp
    tile.accumulate vector %z, %Z[%c0] : !tile.tile<16x1xf32>, memref<?xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}
