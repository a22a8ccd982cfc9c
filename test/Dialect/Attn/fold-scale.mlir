// RUN: attn-opt %s --split-input-file --attn-import-prelude --attn-to-aggregate --canonicalize --attn-online-form --attn-fold-scale | FileCheck %s
// RUN: attn-opt %s --split-input-file --attn-import-prelude --attn-to-aggregate --canonicalize --attn-online-form --attn-fold-scale --attn-fold-scale | FileCheck %s

// The maximum in units of the dot, where the score is a factor times that.

module attributes {attn.target = "sm_90a"} {

// CHECK-LABEL: @constant
// CHECK: score_unit
func.func @constant(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                    %v: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
  %o = attn.attention queries(%q : tensor<?x?x?x64xf32>)
      keys(%k : tensor<?x?x?x64xf32>) values(%v : tensor<?x?x?x64xf32>)
      -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}

// CHECK-LABEL: @runtime
// CHECK: score_unit
func.func @runtime(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                   %v: tensor<?x?x?x64xf32>, %s: f32) -> tensor<?x?x?x64xf32> {
  %o = attn.attention queries(%q : tensor<?x?x?x64xf32>)
      keys(%k : tensor<?x?x?x64xf32>) values(%v : tensor<?x?x?x64xf32>)
      scale(%s) -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}

// A factor of something else, where weights are rounded.
// CHECK-LABEL: @softcap
// CHECK: score_unit
func.func @softcap(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>,
                   %v: tensor<?x?x?x64xbf16>, %c: f32) -> tensor<?x?x?x64xbf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x64xbf16>)
      keys(%k : tensor<?x?x?x64xbf16>) values(%v : tensor<?x?x?x64xbf16>)
      softcap(%c) -> tensor<?x?x?x64xbf16>
  return %o : tensor<?x?x?x64xbf16>
}
}
