// RUN: attn-opt %s --attn-import-prelude --attn-to-aggregate --attn-split | FileCheck %s
// RUN: attn-opt %s --attn-pipeline=until-after=tile | FileCheck %s --check-prefix=TILE
// RUN: attn-opt %s --attn-pipeline="until-after=gpu target=sm_90a" -o /dev/null

// The keys of pages are counted by what the table has room for, and parts begin
// where tiles do, so that these keep to pages.
// CHECK-LABEL: func.func @automatic(
// CHECK-SAME:    %[[Q:[^:, ]*]]: tensor<?x?x?x64xbf16>, %[[K:[^:, ]*]]: tensor<?x?x16x64xbf16>, {{.*}}%[[TABLE:[^:, ]*]]: tensor<?x?xi32>)
// CHECK:         arith.constant 132 : index
// CHECK:         %[[ROWS:.*]] = tensor.dim %[[K]]
// CHECK:         %[[PAGES:.*]] = tensor.dim %[[TABLE]]
// CHECK:         %[[KEYS:.*]] = arith.muli %[[PAGES]], %[[ROWS]]
// CHECK:         %[[LEAST:.*]] = arith.constant 128 : index
// CHECK:         %[[ALL:.*]] = arith.divui %[[KEYS]], %[[LEAST]]
// CHECK:         %[[SHORT:.*]] = arith.minui %[[ALL]]
// CHECK:         arith.divui %[[KEYS]]
// CHECK:         %[[MOST:.*]] = arith.maxui %[[SHORT]]
// CHECK:         arith.minui %{{.*}}, %[[MOST]]
// CHECK:         %[[N:.*]] = arith.maxui
// CHECK:         attn.partial @softmax
// CHECK-SAME:      parts(%[[N]] : index) {granule = 64 : i64,

// TILE-LABEL:  tile.kernel private @automatic_kernel0(
// TILE-DAG:      %[[STEP:.*]] = arith.constant 64 : index
// TILE:          tile.source %{{.*}} paged({{.*}}) boxes(16)
// TILE:          %[[PART:.*]] = arith.ceildivui
// TILE:          %[[TILES:.*]] = arith.ceildivui %[[PART]], %[[STEP]]
// TILE:          arith.muli %[[TILES]], %[[STEP]]
module attributes {attn.target = "sm_90a"} {
  func.func @automatic(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x16x64xbf16>,
                       %v: tensor<?x?x16x64xbf16>, %table: tensor<?x?xi32>)
      -> tensor<?x?x?x64xbf16> {
    %o = attn.attention queries(%q : tensor<?x?x?x64xbf16>)
        keys(%k : tensor<?x?x16x64xbf16>) values(%v : tensor<?x?x16x64xbf16>)
        block_table(%table : tensor<?x?xi32>)
        {schedule = #attn.schedule<block_q = 64, rows = 64, block_k = 64,
                                   splits = automatic, pack_heads = true>}
        -> tensor<?x?x?x64xbf16>
    return %o : tensor<?x?x?x64xbf16>
  }
}
