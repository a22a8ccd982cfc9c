// RUN: attn-opt %s --split-input-file --attn-import-prelude | FileCheck %s
// RUN: attn-opt %s --split-input-file --attn-import-prelude --attn-import-prelude | FileCheck %s

// The default monoid; a second run imports nothing more.
// CHECK: attn.monoid private @softmax cocycle
// CHECK-NOT: attn.monoid
// CHECK: func.func @default
func.func @default(%q: tensor<1x8x?x64xf32>, %k: tensor<1x8x?x64xf32>,
                   %v: tensor<1x8x?x64xf32>) -> tensor<1x8x?x64xf32> {
  %o = attn.attention queries(%q : tensor<1x8x?x64xf32>)
      keys(%k : tensor<1x8x?x64xf32>) values(%v : tensor<1x8x?x64xf32>)
      -> tensor<1x8x?x64xf32>
  return %o : tensor<1x8x?x64xf32>
}

// -----

// Two shipped monoids and one of the module's own under a shipped name.
// CHECK: attn.monoid private @relu_sum
// CHECK: attn.monoid private @stick_breaking
// CHECK: attn.monoid @sigmoid_sum
// CHECK-NOT: attn.monoid
attn.monoid @sigmoid_sum cocycle stats() components(value) outputs("o") {
  identity { attn.yield }
  combine { attn.yield }
  lift {
  ^bb0(%s: f32):
    attn.yield %s : f32
  }
  finalize {
  ^bb0(%acc: f32):
    attn.yield %acc : f32
  }
}

func.func @three(%q: tensor<1x8x?x64xf32>, %k: tensor<1x8x?x64xf32>,
                 %v: tensor<1x8x?x64xf32>) -> tensor<1x8x?x64xf32> {
  %a = attn.attention monoid(@relu_sum) queries(%q : tensor<1x8x?x64xf32>)
      keys(%k : tensor<1x8x?x64xf32>) values(%v : tensor<1x8x?x64xf32>)
      -> tensor<1x8x?x64xf32>
  %b = attn.attention monoid(@sigmoid_sum) queries(%a : tensor<1x8x?x64xf32>)
      keys(%k : tensor<1x8x?x64xf32>) values(%v : tensor<1x8x?x64xf32>)
      -> tensor<1x8x?x64xf32>
  %c = attn.aggregate @stick_breaking
      scores(%b, %k : tensor<1x8x?x64xf32>, tensor<1x8x?x64xf32>)
      values(%v : tensor<1x8x?x64xf32>) -> tensor<1x8x?x64xf32>
  return %c : tensor<1x8x?x64xf32>
}
