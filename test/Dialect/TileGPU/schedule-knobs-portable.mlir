// What a schedule says of the portable path's kernels beyond their tiles.
// RUN: attn-opt %s --attn-pipeline="until-after=gpu target=sm_80" | FileCheck %s

// Four warps have one slot by themselves.
// CHECK-LABEL: kernel private @warps_kernel0
// CHECK: tile_gpu.ring.create cp_group producers(4){{.*}} : <2, 64x64xbf16 swizzle 128, 64x64xbf16 swizzle 128>
module attributes {attn.target = "sm_80"} {
func.func @warps(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>,
                 %v: tensor<?x?x?x64xbf16>) -> tensor<?x?x?x64xbf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x64xbf16>)
      keys(%k : tensor<?x?x?x64xbf16>) values(%v : tensor<?x?x?x64xbf16>)
      {schedule = #attn.schedule<block_q = 64, rows = 16, block_k = 64, stages = 2>}
      -> tensor<?x?x?x64xbf16>
  return %o : tensor<?x?x?x64xbf16>
}
}
