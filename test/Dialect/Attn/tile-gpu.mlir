// RUN: attn-opt %s --attn-import-prelude --attn-check-laws --attn-to-aggregate --canonicalize --attn-choose-schedule --attn-tile --canonicalize --cse | FileCheck %s

// On a GPU with products of whole warpgroups the first key tile stands alone,
// in the masked form that is right for any tile; full tiles are loaded without
// bounds; no row block is skipped alone.

// CHECK: module attributes {attn.target = "sm_90a"}
module attributes {attn.target = "sm_90a"} {
// CHECK-LABEL: func.func private @causal_kernel0
// CHECK: tile.load %{{.*}} rows(%{{.*}} to %{{.*}}) : memref<?x?x?x128xf16, {{.*}} -> <128x128xf16>
// CHECK: scf.if
// CHECK: tile.load %{{.*}} rows(
// CHECK: tile.rows 64
// CHECK-NOT: scf.if
// CHECK: tile.map {{.*}} {
// CHECK: arith.truncf %{{.*}} : f32 to f16
// CHECK: scf.for
// CHECK-NOT: rows(%
// CHECK: tile.rows 64
// CHECK: scf.for
// CHECK: tile.load %{{.*}} rows(
func.func @causal(%q: tensor<?x?x?x128xf16>, %k: tensor<?x?x?x128xf16>,
    %v: tensor<?x?x?x128xf16>) -> tensor<?x?x?x128xf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x128xf16>) keys(%k : tensor<?x?x?x128xf16>)
      values(%v : tensor<?x?x?x128xf16>) {causal = #attn.causal<bottom_right>} -> tensor<?x?x?x128xf16>
  return %o : tensor<?x?x?x128xf16>
}
}
