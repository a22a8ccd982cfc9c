// RUN: attn-opt %s --attn-pipeline='until-after=gpu target=sm_90a' | FileCheck %s

// Blocks as high as those of warpgroups, of a monoid that warps have to run:
// the range of rows that a warpgroup would narrow is the block's.

// CHECK-LABEL: func.func private @attention_kernel0
// CHECK-NOT:     tile.row_range
// CHECK:         tile_gpu.role "compute" warps(
module attributes {attn.target = "sm_90a"} {
func.func @attention(%q: tensor<?x?x?x64xf16>, %k: tensor<?x?x?x64xf16>,
                     %v: tensor<?x?x?x64xf16>) -> tensor<?x?x?x64xf16> {
  %r = attn.attention monoid(@maxplus) queries(%q : tensor<?x?x?x64xf16>)
      keys(%k : tensor<?x?x?x64xf16>) values(%v : tensor<?x?x?x64xf16>)
      {schedule = #attn.schedule<block_q = 64, rows = 64, block_k = 16, loop = peeled>,
       causal = #attn.causal<top_left>}
      -> tensor<?x?x?x64xf16>
  return %r : tensor<?x?x?x64xf16>
}
}
