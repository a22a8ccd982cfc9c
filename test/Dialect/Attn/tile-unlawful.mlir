// RUN: attn-opt %s --attn-tile --verify-diagnostics

// The tiler asks for the laws itself: leaving attn-check-laws out of a pipeline
// does not get an unlawful monoid past it.
// expected-error@+1 {{breaks the law "identity: combine(e, a) = a = combine(a, e)": a = -1 gives combine(e, a) = 0}}
attn.monoid @zero_maximum cocycle stats(f32) components(value) outputs("o") {
  identity {
    %zero = arith.constant 0.0 : f32
    attn.yield %zero : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32):
    %m = arith.maximumf %a, %b : f32
    attn.yield %m : f32
  }
  rescale {
  ^bb0(%from: f32, %to: f32):
    %d = arith.subf %from, %to : f32
    %r = math.exp %d : f32
    attn.yield %r : f32
  }
  lift {
  ^bb0(%s: f32):
    %one = arith.constant 1.0 : f32
    attn.yield %s, %one : f32, f32
  }
  finalize {
  ^bb0(%m: f32, %acc: f32):
    attn.yield %acc : f32
  }
}

func.func @unlawful(%q: tensor<1x2x?x32xf32>, %k: tensor<1x2x?x32xf32>,
                    %v: tensor<1x2x?x32xf32>) -> tensor<1x2x?x32xf32> {
  %o = attn.aggregate @zero_maximum
      scores(%q, %k : tensor<1x2x?x32xf32>, tensor<1x2x?x32xf32>)
      values(%v : tensor<1x2x?x32xf32>)
      {schedule = #attn.schedule<block_q = 32, rows = 32, block_k = 32>}
      -> tensor<1x2x?x32xf32>
  return %o : tensor<1x2x?x32xf32>
}
