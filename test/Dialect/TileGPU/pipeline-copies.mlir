// RUN: attn-opt %s --attn-pipeline=until-after=tile --tile-expand-stream --tile-expand-sources --canonicalize --cse --tile-gpu-pipeline-copies --canonicalize --cse | FileCheck %s
// RUN: attn-opt %s --attn-pipeline=until-after=tile --tile-expand-stream --tile-expand-sources --canonicalize --cse --tile-gpu-pipeline-copies=stages=2 --canonicalize --cse | FileCheck %s --check-prefix=TWO
// RUN: attn-opt %s --attn-pipeline=until-after=tile --tile-expand-stream --tile-expand-sources --canonicalize --cse --tile-gpu-pipeline-copies --convert-tile-to-tile-gpu --canonicalize --cse --tile-gpu-verify-async --tile-gpu-allocate-shared --tile-gpu-verify-budget
// RUN: attn-opt %s --attn-pipeline=until-after=tile --tile-expand-stream --tile-expand-sources %tidy --tile-gpu-pipeline-copies %tidy | FileCheck %s
// RUN: attn-opt %s --attn-pipeline=until-after=tile --tile-expand-stream --tile-expand-sources %tidy --tile-gpu-pipeline-copies %tidy --convert-tile-to-tile-gpu %tidy %verify_kernels --tile-gpu-allocate-shared --tile-gpu-verify-budget -o /dev/null

module attributes {attn.target = "sm_80"} {
// CHECK-LABEL: func.func @causal
// CHECK: tile_gpu.launch @causal_kernel0 grid(%{{.*}}) args(
func.func @causal(%q: tensor<?x?x?x128xf16>, %k: tensor<?x?x?x128xf16>,
    %v: tensor<?x?x?x128xf16>) -> tensor<?x?x?x128xf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x128xf16>) keys(%k : tensor<?x?x?x128xf16>)
      values(%v : tensor<?x?x?x128xf16>) {causal = #attn.causal<bottom_right>} -> tensor<?x?x?x128xf16>
  return %o : tensor<?x?x?x128xf16>
}

func.func @full(%q: tensor<?x?x?x128xf16>, %k: tensor<?x?x?x128xf16>,
    %v: tensor<?x?x?x128xf16>) -> tensor<?x?x?x128xf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x128xf16>) keys(%k : tensor<?x?x?x128xf16>)
      values(%v : tensor<?x?x?x128xf16>) -> tensor<?x?x?x128xf16>
  return %o : tensor<?x?x?x128xf16>
}
}

// CHECK-LABEL: tile_gpu.kernel private @causal_kernel0(
// CHECK: %[[Q:.*]] = tile_gpu.ring.create cp_group producers(4) : <1, 128x128xf16 swizzle 128>
// CHECK: %[[K:.*]] = tile_gpu.ring.create cp_group producers(4) : <1, 48x128xf16 swizzle 128>
// CHECK: %[[V:.*]] = tile_gpu.ring.create cp_group producers(4) : <1, 48x128xf16 swizzle 128>
// CHECK: tile_gpu.scheduler grid longest_first section(%{{.*}}) tiles(
// CHECK: tile_gpu.role "compute" warps(4) {
// CHECK-NEXT: ^bb0(%[[WARP:.*]]: i32):

// Queries: once, each warp its rows; waited for when the first keys are on
// their way.
// CHECK: tile_gpu.ring.load %{{.*}} rows(%{{.*}}) : memref<?x?x?x128xf16, strided<[?, ?, ?, 1]>>, <128x128xf16 swizzle 128>
// CHECK: scf.if
// CHECK: tile_gpu.ring.acquire %[[K]][
// CHECK: }
// CHECK: tile_gpu.ring.wait %[[Q]]
// CHECK: %[[ROW:.*]] = arith.muli %[[WARP]], %c32_i32
// CHECK: tile_gpu.smem.slice %{{.*}}[%[[ROW]], %c0_i32]

// In every iteration this tile's values once its keys are there, and the next
// tile's keys once its scores are computed.
// CHECK: %[[FULL:.*]]:4 = scf.for {{.*}} iter_args(%[[C:.*]] = %c0_i32, {{.*}} -> (i32, !tile.tile<32x1xf32>, !tile.tile<32x128xf32>, !tile.tile<32x1xf32>)
// CHECK: tile_gpu.ring.wait %[[K]][%[[C]]]
// CHECK: tile_gpu.ring.acquire %[[V]][%[[C]]]
// Whole tiles are copied without bounds.
// CHECK-NOT: rows(
// CHECK: tile.dot
// CHECK: tile_gpu.ring.wait %[[V]][%[[C]]]
// CHECK: scf.if
// CHECK: %[[NEXT:.*]] = arith.addi %[[C]], %c1_i32
// CHECK: tile_gpu.ring.acquire %[[K]][%[[NEXT]]]
// CHECK: tile.reduce
// CHECK: tile.dot

// Counters run on into the next loop.
// CHECK: scf.if
// CHECK: tile_gpu.ring.acquire %[[K]][%[[FULL]]#0]
// CHECK: scf.for {{.*}} iter_args(%{{.*}} = %[[FULL]]#0
// CHECK: tile_gpu.ring.load {{.*}} rows(
// CHECK: tile.store %{{.*}} : <32x128xf32>

// What whole tiles leave is one tile at most, and none is copied ahead of it.
// CHECK-LABEL: kernel private @full_kernel0(
// CHECK: %[[K:.*]] = tile_gpu.ring.create cp_group producers(4) : <1, 48x128xf16 swizzle 128>
// CHECK: %[[V:.*]] = tile_gpu.ring.create cp_group producers(4) : <1, 48x128xf16 swizzle 128>
// CHECK: %[[FULL:.*]]:4 = scf.for
// CHECK: tile_gpu.ring.acquire %[[V]][
// CHECK: tile_gpu.ring.acquire %[[K]][
// CHECK: tile_gpu.ring.acquire %[[K]][%[[FULL]]#0]
// CHECK: scf.for
// CHECK: tile_gpu.ring.acquire %[[V]][
// CHECK-NOT: tile_gpu.ring.acquire
// CHECK: tile.store %{{.*}} : <32x128xf32>

// Two slots: keys and values together, and one wait for each tile.
// TWO: %[[KV:.*]] = tile_gpu.ring.create cp_group producers(4) : <2, 48x128xf16 swizzle 128, 48x128xf16 swizzle 128>
// TWO: scf.for {{.*}} iter_args(%[[C:.*]] = %c0_i32
// TWO: tile_gpu.ring.wait %[[KV]][%[[C]]]
// TWO: scf.if
// TWO: %[[NEXT:.*]] = arith.addi %[[C]], %c1_i32
// TWO: tile_gpu.ring.acquire %[[KV]][%[[NEXT]]]
// TWO-NOT: tile_gpu.ring.wait
// TWO: scf.yield
