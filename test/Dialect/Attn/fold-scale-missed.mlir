// RUN: attn-opt %s --split-input-file --attn-import-prelude --attn-to-aggregate --attn-online-form --attn-fold-scale=explain --verify-diagnostics -o /dev/null
// RUN: attn-opt %s --split-input-file --attn-import-prelude --attn-to-aggregate --attn-online-form --attn-fold-scale | FileCheck %s

// Whose maximum stays in units of the score, and why.
// CHECK-NOT: score_unit

module attributes {attn.target = "sm_90a"} {
func.func @sum(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
               %v: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
  // expected-remark@+1 {{maximum in units of the score: it is not in online form}}
  %o = attn.attention monoid(@sigmoid_sum) queries(%q : tensor<?x?x?x64xf32>)
      keys(%k : tensor<?x?x?x64xf32>) values(%v : tensor<?x?x?x64xf32>)
      -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}

func.func @alibi(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                 %v: tensor<?x?x?x64xf32>, %a: tensor<?xf32>) -> tensor<?x?x?x64xf32> {
  // expected-remark@+1 {{maximum in units of the score: its score is no product}}
  %o = attn.attention queries(%q : tensor<?x?x?x64xf32>)
      keys(%k : tensor<?x?x?x64xf32>) values(%v : tensor<?x?x?x64xf32>)
      alibi(%a : tensor<?xf32>) -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}

func.func @dot(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
               %v: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
  // expected-remark@+1 {{maximum in units of the score: its score is the dot}}
  %o:2 = attn.aggregate @softmax
      scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32>, tensor<?x?x?xf32>
  return %o#0 : tensor<?x?x?x64xf32>
}

func.func @negative(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                    %v: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
  // expected-remark@+1 {{maximum in units of the score: its factor is not positive, too small or too large}}
  %o:2 = attn.aggregate @softmax
      scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>) score {
      ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32):
        %c = arith.constant -2.0 : f32
        %x = arith.mulf %s, %c : f32
        attn.yield %x : f32
      } -> tensor<?x?x?x64xf32>, tensor<?x?x?xf32>
  return %o#0 : tensor<?x?x?x64xf32>
}

func.func @rows(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                %v: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
  // expected-remark@+1 {{maximum in units of the score: its factor is not the same f32 number for all pairs}}
  %o:2 = attn.aggregate @softmax
      scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>) score {
      ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32):
        %c = arith.sitofp %i : i32 to f32
        %x = arith.mulf %s, %c : f32
        attn.yield %x : f32
      } -> tensor<?x?x?x64xf32>, tensor<?x?x?xf32>
  return %o#0 : tensor<?x?x?x64xf32>
}
}

// -----

// A CPU gains nothing by a factor of a tanh.
module attributes {attn.target = "cpu-avx2"} {
func.func @softcap(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>,
                   %v: tensor<?x?x?x64xbf16>, %c: f32) -> tensor<?x?x?x64xbf16> {
  // expected-remark@+1 {{maximum in units of the score: its factor is not the dot's}}
  %o = attn.attention queries(%q : tensor<?x?x?x64xbf16>)
      keys(%k : tensor<?x?x?x64xbf16>) values(%v : tensor<?x?x?x64xbf16>)
      softcap(%c) -> tensor<?x?x?x64xbf16>
  return %o : tensor<?x?x?x64xbf16>
}
}
