// RUN: attn-opt %s --attn-import-prelude --attn-to-aggregate --attn-split --attn-relax-maximum=explain --verify-diagnostics -o /dev/null

// What keeps its maximum, and why.

func.func @largest(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                   %v: tensor<?x?x?x64xf32>) -> (tensor<?x?x?x64xf32>, tensor<?x?x?xf32>, tensor<?x?x?xf32>) {
  // expected-remark@+1 {{maximum not relaxed: an output may show a NaN score through the maximum alone}}
  %o:3 = attn.attention monoid(@softmax_max) queries(%q : tensor<?x?x?x64xf32>)
      keys(%k : tensor<?x?x?x64xf32>) values(%v : tensor<?x?x?x64xf32>)
      -> tensor<?x?x?x64xf32>, tensor<?x?x?xf32>, tensor<?x?x?xf32>
  return %o#0, %o#1, %o#2 : tensor<?x?x?x64xf32>, tensor<?x?x?xf32>, tensor<?x?x?xf32>
}

// States that are returned are used in another way.
func.func @states(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                  %v: tensor<?x?x?x64xf32>)
    -> (tensor<2x?x?x?xf32>, tensor<2x?x?x?x64xf32>, tensor<2x?x?x?xf32>) {
  // expected-remark@+1 {{maximum not relaxed: an output may show}}
  %p:3 = attn.partial @softmax
      scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>) {splits = 2 : i64}
      -> tensor<2x?x?x?xf32>, tensor<2x?x?x?x64xf32>, tensor<2x?x?x?xf32>
  return %p#0, %p#1, %p#2 : tensor<2x?x?x?xf32>, tensor<2x?x?x?x64xf32>, tensor<2x?x?x?xf32>
}

func.func @sum(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
               %v: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
  // expected-remark@+1 {{maximum not relaxed: the combine of its monoid is no maximum of one f32 statistic of a cocycle}}
  %o = attn.attention monoid(@sigmoid_sum) queries(%q : tensor<?x?x?x64xf32>)
      keys(%k : tensor<?x?x?x64xf32>) values(%v : tensor<?x?x?x64xf32>)
      -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}
