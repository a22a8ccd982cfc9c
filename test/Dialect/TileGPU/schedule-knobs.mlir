// What a schedule says of a GPU's kernels beyond their tiles.
// RUN: attn-opt %s --split-input-file --attn-pipeline="until-after=tile target=sm_90a" | FileCheck %s --check-prefix=TILE
// RUN: attn-opt %s --split-input-file --attn-pipeline="until-after=gpu target=sm_90a" | FileCheck %s

// Three slots of keys and of values; each product is waited for at once.
// TILE-LABEL: kernel private @roles_kernel0
// TILE-SAME: stages = 3, overlap = none
// CHECK-LABEL: kernel private @roles_kernel0
// CHECK-COUNT-2: tile_gpu.ring.create tma consumers(8){{.*}} : <3, 64x64xbf16 swizzle 128>
// CHECK: tile_gpu.role "compute" warpgroups
// CHECK: %[[S:.*]] = tile_gpu.mma.issue
// CHECK-NEXT: tile_gpu.mma.wait %[[S]] pending(0)
// CHECK-NOT: pending(1)
module attributes {attn.target = "sm_90a"} {
func.func @roles(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>,
                 %v: tensor<?x?x?x64xbf16>) -> tensor<?x?x?x64xbf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x64xbf16>)
      keys(%k : tensor<?x?x?x64xbf16>) values(%v : tensor<?x?x?x64xbf16>)
      {schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 64, stages = 3, overlap = none>}
      -> tensor<?x?x?x64xbf16>
  return %o : tensor<?x?x?x64xbf16>
}
}

// -----

// Warpgroups that issue products one at a time; those of a softcap have a
// second kernel, of small caps, which says the same.
// TILE-LABEL: kernel private @turns_kernel0
// TILE-SAME: overlap = none
// TILE-SAME: turns = products
// TILE-LABEL: kernel private @turns_kernel1
// TILE-SAME: overlap = none
// TILE-SAME: turns = products
// CHECK-LABEL: kernel private @turns_kernel0
// CHECK: tile_gpu.barrier.create warps(8) each(2)
// CHECK: tile_gpu.role "compute" warpgroups(2)
// CHECK: tile_gpu.turn.wait
// CHECK-LABEL: kernel private @turns_kernel1
// CHECK: tile_gpu.turn.wait
module attributes {attn.target = "sm_90a"} {
func.func @turns(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>,
                 %v: tensor<?x?x?x64xbf16>, %cap: f32) -> tensor<?x?x?x64xbf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x64xbf16>)
      keys(%k : tensor<?x?x?x64xbf16>) values(%v : tensor<?x?x?x64xbf16>) softcap(%cap)
      {schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 64, overlap = none, turns = products>}
      -> tensor<?x?x?x64xbf16>
  return %o : tensor<?x?x?x64xbf16>
}
}
