// RUN: attn-opt %s --split-input-file --attn-import-prelude --attn-to-aggregate --attn-split --attn-fix-anchor=explain --verify-diagnostics -o /dev/null
// RUN: attn-opt %s --split-input-file --attn-import-prelude --attn-to-aggregate --attn-split --attn-fix-anchor | FileCheck %s

// Whose anchor stays the maximum, and why.
// CHECK-NOT: fixable_anchor

module attributes {attn.target = "sm_90a"} {
func.func @uncapped(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
    %v: tensor<?x?x?x128xbf16>) -> tensor<?x?x?x128xbf16> {
  // expected-remark@+1 {{anchor not fixed: no factor that the plan knows bounds its scores}}
  %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>) keys(%k : tensor<?x?x?x128xbf16>)
      values(%v : tensor<?x?x?x128xbf16>) -> tensor<?x?x?x128xbf16>
  return %o : tensor<?x?x?x128xbf16>
}

// Weights of f16 have no room for it.
func.func @f16(%q: tensor<?x?x?x128xf16>, %k: tensor<?x?x?x128xf16>,
    %v: tensor<?x?x?x128xf16>, %c: f32) -> tensor<?x?x?x128xf16> {
  // expected-remark@+1 {{anchor not fixed: its weights are not rounded to bf16, or sums of them are asked for in f32}}
  %o = attn.attention queries(%q : tensor<?x?x?x128xf16>) keys(%k : tensor<?x?x?x128xf16>)
      values(%v : tensor<?x?x?x128xf16>) softcap(%c) -> tensor<?x?x?x128xf16>
  return %o : tensor<?x?x?x128xf16>
}

func.func @largest(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
    %v: tensor<?x?x?x128xbf16>, %c: f32) -> (tensor<?x?x?x128xbf16>, tensor<?x?x?xf32>, tensor<?x?x?xf32>) {
  // expected-remark@+1 {{anchor not fixed: an output shows from where weights are measured}}
  %o:3 = attn.attention monoid(@softmax_max) queries(%q : tensor<?x?x?x128xbf16>) keys(%k : tensor<?x?x?x128xbf16>)
      values(%v : tensor<?x?x?x128xbf16>) softcap(%c) -> tensor<?x?x?x128xbf16>, tensor<?x?x?xf32>, tensor<?x?x?xf32>
  return %o#0, %o#1, %o#2 : tensor<?x?x?x128xbf16>, tensor<?x?x?xf32>, tensor<?x?x?xf32>
}

func.func @parts(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
    %v: tensor<?x?x?x128xbf16>, %c: f32) -> (tensor<2x?x?x?xf32>, tensor<2x?x?x?x128xf32>, tensor<2x?x?x?xf32>) {
  // expected-remark@+1 {{anchor not fixed: its rows start from states, or give them to others}}
  %p:3 = attn.partial @softmax
      scores(%q, %k : tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>)
      values(%v : tensor<?x?x?x128xbf16>) {splits = 2 : i64}
      -> tensor<2x?x?x?xf32>, tensor<2x?x?x?x128xf32>, tensor<2x?x?x?xf32>
  return %p#0, %p#1, %p#2 : tensor<2x?x?x?xf32>, tensor<2x?x?x?x128xf32>, tensor<2x?x?x?xf32>
}

func.func @sum(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
    %v: tensor<?x?x?x128xbf16>, %c: f32) -> tensor<?x?x?x128xbf16> {
  // expected-remark@+1 {{anchor not fixed: its weights are not the exponentials of scores}}
  %o = attn.attention monoid(@sigmoid_sum) queries(%q : tensor<?x?x?x128xbf16>) keys(%k : tensor<?x?x?x128xbf16>)
      values(%v : tensor<?x?x?x128xbf16>) softcap(%c) -> tensor<?x?x?x128xbf16>
  return %o : tensor<?x?x?x128xbf16>
}
}

// -----

module attributes {attn.target = "cpu-avx2"} {
func.func @cpu(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
    %v: tensor<?x?x?x128xbf16>, %c: f32) -> tensor<?x?x?x128xbf16> {
  // expected-remark@+1 {{anchor not fixed: the target gains nothing by it}}
  %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>) keys(%k : tensor<?x?x?x128xbf16>)
      values(%v : tensor<?x?x?x128xbf16>) softcap(%c) -> tensor<?x?x?x128xbf16>
  return %o : tensor<?x?x?x128xbf16>
}
}
