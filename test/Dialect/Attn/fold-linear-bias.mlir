// RUN: attn-opt %s --attn-import-prelude --attn-to-aggregate --canonicalize --attn-choose-schedule --attn-online-form --attn-fold-linear-bias | FileCheck %s
// RUN: attn-opt %s --attn-import-prelude --attn-to-aggregate --canonicalize --attn-choose-schedule --attn-online-form --attn-fold-linear-bias --attn-fold-linear-bias | FileCheck %s

// Scores that grow evenly from key to key; tile-linear.mlir has their kernels.

module attributes {attn.target = "sm_90a"} {

// CHECK-LABEL: @alibi
// CHECK: linear_bias
func.func @alibi(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
                 %v: tensor<?x?x?x128xbf16>, %a: tensor<?xf32>) -> tensor<?x?x?x128xbf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>)
      keys(%k : tensor<?x?x?x128xbf16>) values(%v : tensor<?x?x?x128xbf16>)
      alibi(%a : tensor<?xf32>) {causal = #attn.causal<bottom_right>}
      -> tensor<?x?x?x128xbf16>
  return %o : tensor<?x?x?x128xbf16>
}

// A number of the row alone is the row's, and grows by nothing.
// CHECK-LABEL: @row
// CHECK: linear_bias
func.func @row(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
               %v: tensor<?x?x?x128xbf16>) -> tensor<?x?x?x128xbf16> {
  %o:2 = attn.aggregate @softmax
      scores(%q, %k : tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>)
      values(%v : tensor<?x?x?x128xbf16>) score {
      ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32):
        %x = arith.sitofp %i : i32 to f32
        %y = arith.addf %s, %x : f32
        attn.yield %y : f32
      } -> tensor<?x?x?x128xbf16>, tensor<?x?x?xf32>
  return %o#0 : tensor<?x?x?x128xbf16>
}
}
