// RUN: attn-opt %s --attn-import-prelude --attn-to-aggregate --attn-online-form=explain --verify-diagnostics -o /dev/null
// RUN: attn-opt %s --attn-import-prelude --attn-to-aggregate --attn-online-form | FileCheck %s

// What is computed as its monoid writes it, and why.
// CHECK-NOT: exponent

module attributes {attn.target = "sm_90a"} {
func.func @sum(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
               %v: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
  // expected-remark@+1 {{not in online form: the factors of its monoid are no exponentials of what one f32 statistic moves by}}
  %o = attn.attention monoid(@sigmoid_sum) queries(%q : tensor<?x?x?x64xf32>)
      keys(%k : tensor<?x?x?x64xf32>) values(%v : tensor<?x?x?x64xf32>)
      -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}

func.func @scores(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>)
    -> tensor<?x?x?x?xf32> {
  // expected-remark@+1 {{not in online form: it has scores and no weights}}
  %s = attn.scores @softmax scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>) -> tensor<?x?x?x?xf32>
  return %s : tensor<?x?x?x?xf32>
}
}
