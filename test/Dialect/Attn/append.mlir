// The kernel that appends is launched before the one that reads the rows, which
// takes the lengths that it leaves.
// RUN: attn-opt %s --attn-pipeline="target=cpu-avx512 until-after=tile" | FileCheck %s --check-prefixes=CHECK,CPU
// RUN: attn-opt %s --attn-pipeline="target=sm_90a until-after=tile" | FileCheck %s --check-prefixes=CHECK,GPU
// RUN: attn-opt %s --attn-pipeline="target=sm_90a until-after=gpu" | FileCheck %s --check-prefix=LAUNCH
// RUN: attn-opt %s --attn-pipeline="target=sm_80" -o /dev/null

// CHECK-LABEL: func.func @plain(
// CHECK:         %[[AFTER:.*]] = tile.workspace(%{{.*}}) : memref<?xi32>
// CHECK:         tile.launch @[[APPEND:.*]] grid({{.*}}) args(%arg3, %arg4, %arg1, %arg2, %arg5, %[[AFTER]],
// CHECK:         tile.launch @{{.*}} grid({{.*}}) args(%arg0, %arg1, %arg2, {{.*}}%[[AFTER]],
// Rows lie one after the other: a block has several.
// CHECK:       tile.kernel private @[[APPEND]]
// CHECK:         scf.if
// CHECK:           memref.store %{{.*}}, %arg5[%{{.*}}] : memref<?xi32>
// CPU:           %[[ROWS:.*]] = tile.load {{.*}} -> <64x64xbf16>
// GPU:           %[[ROWS:.*]] = tile.load {{.*}} -> <16x64xf32>
// CHECK:         tile.store %[[ROWS]], %arg2[%{{.*}}, %{{.*}}, %[[ROW:.*]], %{{.*}}] rows(%[[ROW]] to %{{.*}})
// The second kernel starts early, and waits before it loads.
// LAUNCH-LABEL: func.func @plain(
// LAUNCH:         tile_gpu.launch @plain_kernel1 {{.*}} programmatic
// LAUNCH:       tile_gpu.kernel {{.*}}@plain_kernel1
// LAUNCH:         tile_gpu.role
// LAUNCH:             tile_gpu.dependencies.wait
func.func @plain(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>,
                 %kn: tensor<?x?x?x64xbf16>, %vn: tensor<?x?x?x64xbf16>, %n: tensor<?xi32>) -> tensor<?x?x?x64xbf16> {
  %after = attn.append rows(%kn, %vn : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>)
      to(%k, %v : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>) lengths(%n : tensor<?xi32>) -> tensor<?xi32>
  %o = attn.attention queries(%q : tensor<?x?x?x64xbf16>) keys(%k : tensor<?x?x?x64xbf16>)
      values(%v : tensor<?x?x?x64xbf16>) lengths(%after : tensor<?xi32>)
      {causal = #attn.causal<bottom_right>} -> tensor<?x?x?x64xbf16>
  return %o : tensor<?x?x?x64xbf16>
}

// Of pages, each row is looked up; on a GPU the first of a block's, which are in one
// page.
// CHECK-LABEL: func.func @pages(
// CHECK:         tile.launch @[[APPEND:.*]] grid
// CHECK:       tile.kernel private @[[APPEND]]
// CHECK:         %{{.*}} = scf.if
// CHECK:         %[[ENTRY:.*]] = memref.load %arg{{[0-9]+}}[%{{.*}}, %{{.*}}] : memref<?x?xi32, {{.*}}>
// CHECK-NEXT:      scf.yield %[[ENTRY]] : i32
// CHECK:         %[[PAGE:.*]] = arith.index_cast %{{.*}} : i32 to index
// CHECK:         %[[FOUND:.*]] = arith.select %{{.*}}, %[[PAGE]], %{{.*}} : index
// GPU:           %[[COUNT:.*]] = arith.subi %{{.*}}, %[[FIRST:.*]] : index
// GPU:           %[[PAST:.*]] = arith.addi %[[ROW:.*]], %[[COUNT]] : index
// GPU:           %[[END:.*]] = arith.select %{{.*}}, %[[PAST]], %[[ROW]] : index
// CPU:           tile.store %{{.*}}, %arg1[%[[FOUND]], %{{.*}}, %[[ROW:.*]], %{{.*}}] rows(%[[ROW]] to %{{.*}})
// GPU:           tile.store %{{.*}}, %arg1[%[[FOUND]], %{{.*}}, %[[ROW]], %{{.*}}] rows(%[[ROW]] to %[[END]])
func.func @pages(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x64x64xbf16>, %kn: tensor<?x?x?x64xbf16>,
                 %n: tensor<?xi32>, %t: tensor<?x?xi32>) -> tensor<?x?x?x64xbf16> {
  %after = attn.append rows(%kn : tensor<?x?x?x64xbf16>) to(%k : tensor<?x?x64x64xbf16>)
      lengths(%n : tensor<?xi32>) block_table(%t : tensor<?x?xi32>) -> tensor<?xi32>
  %o = attn.attention queries(%q : tensor<?x?x?x64xbf16>) keys(%k : tensor<?x?x64x64xbf16>)
      values(%k : tensor<?x?x64x64xbf16>) lengths(%after : tensor<?xi32>) block_table(%t : tensor<?x?xi32>)
      -> tensor<?x?x?x64xbf16>
  return %o : tensor<?x?x?x64xbf16>
}

// Each sequence has new rows of its own: a kernel writes all lengths, also of those
// without rows, which have no block of the next.
// CHECK-LABEL: func.func @packed(
// CHECK:         %[[AFTER:.*]] = tile.workspace(%{{.*}}) : memref<?xi32>
// CHECK:         tile.launch @[[LENGTHS:.*]] grid({{.*}}) args({{.*}}%[[AFTER]],
// CHECK:         tile.launch @[[ROWS:.*]] grid
// CHECK:         tile.launch @
// CHECK:       tile.kernel private @[[LENGTHS]]
// CHECK:         tile.store vector %{{.*}} : <16x1xi32>, memref<?xi32>
// CHECK:       tile.kernel private @[[ROWS]]
// CHECK:         tile.work_tile %{{.*}} varlen(
// CHECK-NOT:     memref.store
// CHECK:         tile.load %{{.*}} : !tile.source<?x?x?x64xbf16>
func.func @packed(%q: tensor<?x?x64xbf16>, %k: tensor<?x?x64x64xbf16>, %kn: tensor<?x?x64xbf16>,
                  %cu: tensor<?xi32>, %n: tensor<?xi32>, %t: tensor<?x?xi32>) -> tensor<?x?x64xbf16> {
  %after = attn.append rows(%kn : tensor<?x?x64xbf16>) to(%k : tensor<?x?x64x64xbf16>)
      lengths(%n : tensor<?xi32>) offsets(%cu : tensor<?xi32>) block_table(%t : tensor<?x?xi32>) -> tensor<?xi32>
  %o = attn.attention queries(%q : tensor<?x?x64xbf16>) keys(%k : tensor<?x?x64x64xbf16>)
      values(%k : tensor<?x?x64x64xbf16>) lengths(%after : tensor<?xi32>) cu_seqlens_q(%cu : tensor<?xi32>)
      block_table(%t : tensor<?x?xi32>) -> tensor<?x?x64xbf16>
  return %o : tensor<?x?x64xbf16>
}
