// RUN: attn-opt %s --split-input-file --attn-import-prelude --attn-check-laws --attn-to-aggregate --attn-choose-schedule --attn-relax-maximum --attn-guard-dead-scores --attn-online-form --attn-fold-scale --attn-fold-linear-bias --attn-pack-heads --attn-list-key-tiles --attn-tile --tile-expand-stream --canonicalize --cse | FileCheck %s

// Blocks 2 n and 2 n + 1 take neighbouring tiles of one head, for which there is
// an even number of tiles. A tile that fills up the last pair has no rows.
module attributes {attn.target = "sm_90a"} {
// CHECK-LABEL: func.func @pairs
// CHECK: %[[PAIRS:.*]] = arith.ceildivui %{{.*}}, %{{.*}} : index
// CHECK: arith.muli %[[PAIRS]], %{{.*}} : index
// CHECK: tile.launch @pairs_kernel0
// CHECK-LABEL: kernel private @pairs_kernel0
// CHECK-SAME: cluster = 2
// CHECK-DAG: %[[ROWS:.*]] = arith.constant 128 : index
// CHECK-DAG: %[[ZERO:.*]] = arith.constant 0 : index
// CHECK: %{{.*}}, %{{.*}}, %[[TILE:.*]], %{{.*}} = tile.work_tile %{{.*}} in_order section(%{{.*}}) cluster(2) batches(
// CHECK: %[[ROW:.*]] = arith.muli %[[TILE]], %[[ROWS]] : index
// CHECK: %[[LEFT:.*]] = arith.subi %{{.*}}, %[[ROW]] : index
// CHECK: %[[LIVE:.*]] = arith.minsi %[[LEFT]], %[[ROWS]] : index
// CHECK: arith.maxsi %[[LIVE]], %[[ZERO]] : index
func.func @pairs(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
                 %v: tensor<?x?x?x128xbf16>) -> tensor<?x?x?x128xbf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>) keys(%k : tensor<?x?x?x128xbf16>)
      values(%v : tensor<?x?x?x128xbf16>)
      {schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 128, cluster = 2>} -> tensor<?x?x?x128xbf16>
  return %o : tensor<?x?x?x128xbf16>
}
}

// -----

// Rows of a mask that is read for an empty tile stand for row 0.
module attributes {attn.target = "sm_90a"} {
// CHECK-LABEL: kernel private @read_kernel0
// CHECK-DAG: %[[ZERO:.*]] = arith.constant 0 : index
// CHECK-DAG: %[[ONE:.*]] = arith.constant 1 : index
// CHECK: %[[ROW0:.*]] = arith.maxsi %{{.*}}, %[[ZERO]] : index
// CHECK: %[[LEFT:.*]] = arith.subi %{{.*}}, %[[ROW0]] : index
// CHECK: %[[LIVE:.*]] = arith.maxsi %[[LEFT]], %[[ZERO]] : index
// CHECK: %[[LAST:.*]] = arith.subi %[[LIVE]], %[[ONE]] : index
// CHECK: %[[AT:.*]] = arith.maxsi %[[LAST]], %[[ZERO]] : index
// CHECK: %[[ROW:.*]] = arith.index_cast %[[AT]] : index to i32
// CHECK: tile.map
// CHECK: arith.minsi %{{.*}}, %[[ROW]] : i32
func.func @read(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>,
                %m: tensor<?x1x?x?xi1>) -> tensor<?x?x?x64xbf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x64xbf16>) keys(%k : tensor<?x?x?x64xbf16>)
      values(%k : tensor<?x?x?x64xbf16>) mask_tensor(%m : tensor<?x1x?x?xi1>)
      {schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 96, loop = masked, cluster = 2>} -> tensor<?x?x?x64xbf16>
  return %o : tensor<?x?x?x64xbf16>
}
}

// -----

// Neither kernels of warps nor CPUs have clusters, nor tiles to fill them up.
module attributes {attn.target = "sm_80"} {
// CHECK-LABEL: func.func @alone
// CHECK-NOT: cluster
// CHECK: tile.launch
// CHECK-NOT: cluster =
// CHECK: kernel private @alone_kernel0
// CHECK-NOT: cluster =
func.func @alone(%q: tensor<?x?x?x128xbf16>) -> tensor<?x?x?x128xbf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>) keys(%q : tensor<?x?x?x128xbf16>)
      values(%q : tensor<?x?x?x128xbf16>)
      {schedule = #attn.schedule<block_q = 128, rows = 16, block_k = 64, cluster = 2>} -> tensor<?x?x?x128xbf16>
  return %o : tensor<?x?x?x128xbf16>
}
}
