// RUN: attn-opt %s --split-input-file --attn-import-prelude --attn-to-aggregate --canonicalize --attn-online-form | FileCheck %s
// RUN: attn-opt %s --split-input-file --attn-import-prelude --attn-to-aggregate --canonicalize --attn-online-form --attn-online-form | FileCheck %s

// Weights as powers of 2 of the distance from the maximum.

module attributes {attn.target = "sm_90a"} {

// CHECK-LABEL: @f32
// CHECK: exponent = #attn.exponent<fused>
func.func @f32(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
               %v: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
  %o = attn.attention queries(%q : tensor<?x?x?x64xf32>)
      keys(%k : tensor<?x?x?x64xf32>) values(%v : tensor<?x?x?x64xf32>)
      -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}

// Weights and their sums are rounded alike.
// CHECK-LABEL: @bf16
// CHECK: exponent = #attn.exponent<fused>
func.func @bf16(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>,
                %v: tensor<?x?x?x64xbf16>) -> tensor<?x?x?x64xbf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x64xbf16>)
      keys(%k : tensor<?x?x?x64xbf16>) values(%v : tensor<?x?x?x64xbf16>)
      -> tensor<?x?x?x64xbf16>
  return %o : tensor<?x?x?x64xbf16>
}

// Of f32 sums of rounded weights the rounding of the maximum would show.
// CHECK-LABEL: @wide
// CHECK: exponent = #attn.exponent<exact>
func.func @wide(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>,
                %v: tensor<?x?x?x64xbf16>) -> tensor<?x?x?x64xf32> {
  %o = attn.attention queries(%q : tensor<?x?x?x64xbf16>)
      keys(%k : tensor<?x?x?x64xbf16>) values(%v : tensor<?x?x?x64xbf16>)
      -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}

// The distances that an entropy is made of are exponents themselves: of f32 they
// are exact.
// CHECK-LABEL: @entropy
// CHECK: exponent = #attn.exponent<exact>
func.func @entropy(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                   %v: tensor<?x?x?x64xf32>) -> (tensor<?x?x?x64xf32>, tensor<?x?x?xf32>) {
  %o:2 = attn.attention monoid(@softmax_entropy) queries(%q : tensor<?x?x?x64xf32>)
      keys(%k : tensor<?x?x?x64xf32>) values(%v : tensor<?x?x?x64xf32>)
      -> tensor<?x?x?x64xf32>, tensor<?x?x?xf32>
  return %o#0, %o#1 : tensor<?x?x?x64xf32>, tensor<?x?x?xf32>
}
}

// -----

// Of parts it is what they are finalized to that counts.
module attributes {attn.target = "cpu-avx2"} {
// CHECK-LABEL: @parts
// CHECK: attn.partial
// CHECK-SAME: exponent = #attn.exponent<fused>
func.func @parts(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                 %v: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
  %p:3 = attn.partial @softmax
      scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>) {splits = 2 : i64}
      -> tensor<2x?x?x?xf32>, tensor<2x?x?x?x64xf32>, tensor<2x?x?x?xf32>
  %c:3 = attn.combine @softmax(%p#0, %p#1, %p#2 : tensor<2x?x?x?xf32>, tensor<2x?x?x?x64xf32>, tensor<2x?x?x?xf32>)
      -> tensor<?x?x?xf32>, tensor<?x?x?x64xf32>, tensor<?x?x?xf32>
  %o:2 = attn.finalize @softmax(%c#0, %c#1, %c#2 : tensor<?x?x?xf32>, tensor<?x?x?x64xf32>, tensor<?x?x?xf32>) -> tensor<?x?x?x64xf32>, tensor<?x?x?xf32>
  return %o#0 : tensor<?x?x?x64xf32>
}
}
