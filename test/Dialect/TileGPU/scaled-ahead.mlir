// RUN: attn-opt %s --attn-pipeline="target=sm_90a until-after=gpu" | FileCheck %s

// A window's first step may be on half of a tile, whose products alone would
// not hide the scaling of the sum. Where it stands is one for all steps.

// CHECK-LABEL: kernel private @window_kernel0(
// CHECK:       tile_gpu.mma.issue {{.*}} -> !tile_gpu.token<64x64xf32>
!qk = tensor<?x?x?x192xbf16>
!v = tensor<?x?x?x128xbf16>
func.func @window(%q: !qk, %k: !qk, %v: !v, %w: i32) -> !v {
  %o = attn.attention queries(%q : !qk) keys(%k : !qk) values(%v : !v)
      window_left(%w) {causal = #attn.causal<bottom_right>} -> !v
  return %o : !v
}
