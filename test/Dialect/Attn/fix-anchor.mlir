// RUN: attn-opt %s --attn-import-prelude --attn-to-aggregate --attn-split --attn-fix-anchor | FileCheck %s
// RUN: attn-opt %s --attn-import-prelude --attn-to-aggregate --attn-split --attn-fix-anchor --attn-fix-anchor | FileCheck %s

// Scores between -c and c need no maximum where exp(c) is a number to multiply
// with; weights of bf16 are not so exact that it shows.

module attributes {attn.target = "sm_90a"} {
// CHECK-LABEL: func.func @capped
// CHECK: attn.aggregate @softmax
// CHECK-SAME: fixable_anchor
func.func @capped(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
    %v: tensor<?x?x?x128xbf16>, %c: f32) -> tensor<?x?x?x128xbf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>) keys(%k : tensor<?x?x?x128xbf16>)
      values(%v : tensor<?x?x?x128xbf16>) softcap(%c) -> tensor<?x?x?x128xbf16>
  return %o : tensor<?x?x?x128xbf16>
}

// The logarithm of the sum does not show it either.
// CHECK-LABEL: func.func @capped_lse
// CHECK: attn.aggregate @softmax
// CHECK-SAME: fixable_anchor
func.func @capped_lse(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
    %v: tensor<?x?x?x128xbf16>, %c: f32) -> (tensor<?x?x?x128xbf16>, tensor<?x?x?xf32>) {
  %o:2 = attn.attention queries(%q : tensor<?x?x?x128xbf16>) keys(%k : tensor<?x?x?x128xbf16>)
      values(%v : tensor<?x?x?x128xbf16>) softcap(%c) -> tensor<?x?x?x128xbf16>, tensor<?x?x?xf32>
  return %o#0, %o#1 : tensor<?x?x?x128xbf16>, tensor<?x?x?xf32>
}
}
