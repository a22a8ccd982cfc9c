// RUN: attn-opt %s --attn-pipeline=until-after=tile --tile-pipeline-copies --canonicalize --cse | FileCheck %s
// RUN: attn-opt %s --attn-pipeline=until-after=tile --tile-pipeline-copies=stages=1 --canonicalize --cse | FileCheck %s --check-prefix=ONE
// RUN: attn-opt %s --attn-pipeline=until-after=tile --tile-pipeline-copies --convert-tile-to-tile-gpu --canonicalize --cse --tile-verify-async --tile-verify-budget

module attributes {attn.target = "sm_80"} {
// CHECK-LABEL: func.func @causal
// CHECK: tile_gpu.launch @causal_kernel0 grid(%{{.*}}) args(
func.func @causal(%q: tensor<?x?x?x128xf16>, %k: tensor<?x?x?x128xf16>,
    %v: tensor<?x?x?x128xf16>) -> tensor<?x?x?x128xf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x128xf16>) keys(%k : tensor<?x?x?x128xf16>)
      values(%v : tensor<?x?x?x128xf16>) {causal = #attn.causal<bottom_right>} -> tensor<?x?x?x128xf16>
  return %o : tensor<?x?x?x128xf16>
}
}

// CHECK-LABEL: func.func private @causal_kernel0(
// CHECK-SAME: i32) attributes {tile_gpu.kernel}
// CHECK: %[[Q:.*]] = tile_gpu.ring.create cp_async producers(8) consumers(8) : <1, 128x128xf16 swizzle 128>
// CHECK: %[[K:.*]] = tile_gpu.ring.create cp_async producers(8) consumers(8) : <2, 64x128xf16 swizzle 128>
// CHECK: %[[V:.*]] = tile_gpu.ring.create cp_async producers(8) consumers(8) : <2, 64x128xf16 swizzle 128>
// CHECK: tile_gpu.scheduler grid in_order
// CHECK: tile_gpu.role "compute" warps(8) {
// CHECK-NEXT: ^bb0(%[[WARP:.*]]: i32):

// Queries: once, each warp its rows.
// CHECK: tile_gpu.ring.load %{{.*}} rows(%{{.*}}) : memref<?x?x?x128xf16, strided<[?, ?, ?, 1]>>, <128x128xf16 swizzle 128>
// CHECK: %[[ROW:.*]] = arith.muli %[[WARP]], %c16_i32
// CHECK: tile_gpu.smem.slice %{{.*}}[%[[ROW]], %c0_i32]
// CHECK: tile_gpu.frag.load

// The first keys, then in every iteration this tile's values and the next
// tile's keys before this tile's scores.
// CHECK: scf.if
// CHECK: tile_gpu.ring.acquire %[[K]][
// CHECK: %[[FULL:.*]]:4 = scf.for {{.*}} iter_args(%[[C:.*]] = %c0_i32, {{.*}} -> (i32, !tile.tile<16x1xf32>, !tile.tile<16x128xf32>, !tile.tile<16x1xf32>)
// CHECK: tile_gpu.ring.acquire %[[V]][%[[C]]]
// Whole tiles are copied without bounds.
// CHECK-NOT: rows(
// CHECK: scf.if
// CHECK: %[[NEXT:.*]] = arith.addi %[[C]], %c1_i32
// CHECK: tile_gpu.ring.acquire %[[K]][%[[NEXT]]]
// CHECK: tile_gpu.ring.wait %[[K]][%[[C]]]
// CHECK: %[[S:.*]] = tile.dot
// CHECK: %[[SF:.*]] = builtin.unrealized_conversion_cast %[[S]]
// CHECK: tile_gpu.ring.release %[[K]][%[[C]]] after(%[[SF]]
// CHECK: tile_gpu.ring.wait %[[V]][%[[C]]]
// CHECK: tile.dot
// CHECK: tile_gpu.ring.release %[[V]][%[[C]]] after(

// Counters run on into the next loop.
// CHECK: scf.if
// CHECK: tile_gpu.ring.acquire %[[K]][%[[FULL]]#0]
// CHECK: scf.for {{.*}} iter_args(%{{.*}} = %[[FULL]]#0
// CHECK: tile_gpu.ring.load {{.*}} rows(
// CHECK: tile.store %{{.*}} : <16x128xf32>

// One slot for each: the next keys once this tile's scores are there.
// ONE: %[[K:.*]] = tile_gpu.ring.create cp_async producers(8) consumers(8) : <1, 64x128xf16 swizzle 128>
// ONE: scf.for
// ONE-NOT: scf.if
// ONE: tile.dot
// ONE: tile_gpu.ring.release %[[K]]
// ONE-NEXT: scf.if
// ONE: tile_gpu.ring.acquire %[[K]]
// ONE: tile.reduce
