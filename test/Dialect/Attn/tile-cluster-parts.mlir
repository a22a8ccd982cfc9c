// RUN: attn-opt %s --attn-pipeline="until-after=gpu target=sm_90a" | FileCheck %s

// Blocks of a cluster that have tiles of their own need whole clusters of these
// (specialize-warps-awaited.mlir). Where they have parts of the keys of one tile, any
// number of tiles does: heads are packed, with four blocks for each tile.

module attributes {attn.target = "sm_90a"} {
// CHECK-LABEL: func.func @parts(
// CHECK-NOT: arith.remui
// CHECK: tile_gpu.launch @parts_kernel0
func.func @parts(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
                 %v: tensor<?x?x?x128xbf16>) -> tensor<?x?x?x128xbf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>)
      keys(%k : tensor<?x?x?x128xbf16>) values(%v : tensor<?x?x?x128xbf16>)
      {schedule = #attn.schedule<block_q = 8, rows = 8, block_k = 64, splits = 4,
                                 loop = peeled, pack_heads = true, cluster = 4>}
      -> tensor<?x?x?x128xbf16>
  return %o : tensor<?x?x?x128xbf16>
}
}
