// RUN: attn-opt %s --split-input-file --attn-pipeline='until-after=gpu target=sm_90a' | FileCheck %s

// Blocks as high as those of warpgroups, of a monoid that warps have to run:
// the range of rows that a warpgroup would narrow is the block's.

// CHECK-LABEL: kernel private @attention_kernel0
// CHECK-NOT:     tile.row_range
// CHECK:         tile_gpu.role "compute" warps(
module attributes {attn.target = "sm_90a"} {
func.func @attention(%q: tensor<?x?x?x64xf16>, %k: tensor<?x?x?x64xf16>,
                     %v: tensor<?x?x?x64xf16>) -> tensor<?x?x?x64xf16> {
  %r = attn.attention monoid(@maxplus) queries(%q : tensor<?x?x?x64xf16>)
      keys(%k : tensor<?x?x?x64xf16>) values(%v : tensor<?x?x?x64xf16>)
      {schedule = #attn.schedule<block_q = 64, rows = 16, block_k = 16, loop = peeled>,
       causal = #attn.causal<top_left>}
      -> tensor<?x?x?x64xf16>
  return %r : tensor<?x?x?x64xf16>
}
}

// -----

// The same of f32, without values: what a branch gives is a warp's rows, and the
// one slot that the first tile was read from is filled again behind a barrier.
// CHECK-LABEL: kernel private @keys_alone_kernel0
// CHECK:         tile_gpu.barrier.sync
// CHECK:         tile_gpu.ring.wait
// CHECK:         tile_gpu.mma.sync
// CHECK:         scf.if %{{.*}} -> (!tile_gpu.frag<16x128xf32, acc, warp>)
// CHECK:         tile_gpu.barrier.sync
// CHECK:         tile_gpu.ring.acquire
module attributes {attn.target = "sm_90a"} {
func.func @keys_alone(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>)
    -> tensor<?x?x?xf32> {
  %r = attn.attention monoid(@logsumexp) queries(%q : tensor<?x?x?x64xf32>)
      keys(%k : tensor<?x?x?x64xf32>)
      {schedule = #attn.schedule<block_q = 192, rows = 64, block_k = 128, loop = peeled>,
       causal = #attn.causal<top_left>}
      -> tensor<?x?x?xf32>
  return %r : tensor<?x?x?xf32>
}
}
