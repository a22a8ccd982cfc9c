// RUN: attn-opt %s --attn-pipeline="until-after=schedule target=sm_90a" | FileCheck %s --check-prefix=SCHEDULE
// RUN: attn-opt %s --attn-pipeline="until-after=tile target=sm_90a" | FileCheck %s --check-prefix=TILE
// RUN: attn-opt %s --attn-pipeline="until-after=gpu target=sm_90a" | FileCheck %s --check-prefix=GPU

// Of the groups that there is room for, those without rows are passed over. Two
// blocks of a multiprocessor have the keys that sequences have for themselves.
module attributes {attn.expected_sizes = array<i64: 64, 32, 1, 8448, 8>} {
// SCHEDULE-DAG: attn.partial {{.*}}#attn.schedule<block_q = 128, rows = 64, block_k = 64,
// SCHEDULE-DAG: #attn.schedule<block_q = 8, rows = 8, block_k = 64, loop = peeled, stages = 3, {{.*}}occupancy = 2
// TILE: tile.work_tile {{.*}} counts(%{{.*}} : memref<?xi32>) block_q(128) batches(
// GPU: tile_gpu.scheduler dynamic in_order
// GPU: %[[NONE:.*]] = arith.cmpi sge,
// GPU-NEXT: tile_gpu.skip %[[NONE]]
func.func @attention(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x16x128xbf16>,
                     %v: tensor<?x?x16x128xbf16>, %n: tensor<?xi32>, %t: tensor<?x?xi32>)
    -> tensor<?x?x?x128xbf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>)
      keys(%k : tensor<?x?x16x128xbf16>) values(%v : tensor<?x?x16x128xbf16>)
      lengths(%n : tensor<?xi32>) block_table(%t : tensor<?x?xi32>)
      {causal = #attn.causal<bottom_right>, cascade = 1 : i64} -> tensor<?x?x?x128xbf16>
  return %o : tensor<?x?x?x128xbf16>
}
}
