// Two weighted sums in one pass over the keys, of values that share the weight:
// two accumulators that start alike.
attn.monoid @sums cocycle stats() components(value, value) outputs("a", "b") {
  lift {
  ^bb0(%s: f32):
    %c = arith.constant 0.125 : f32
    %w = arith.mulf %s, %c : f32
    attn.yield %w, %w : f32, f32
  }
  finalize {
  ^bb0(%a: f32, %b: f32):
    attn.yield %a, %b : f32, f32
  }
}

func.func @two_sums(%q: tensor<1x4x?x64xbf16>, %k: tensor<1x4x?x64xbf16>,
                    %v: tensor<1x4x?x64xbf16>, %w: tensor<1x4x?x64xbf16>)
    -> (tensor<1x4x?x64xbf16>, tensor<1x4x?x64xbf16>) {
  %o:2 = attn.aggregate @sums
      scores(%q, %k : tensor<1x4x?x64xbf16>, tensor<1x4x?x64xbf16>)
      values(%v, %w : tensor<1x4x?x64xbf16>, tensor<1x4x?x64xbf16>)
      -> tensor<1x4x?x64xbf16>, tensor<1x4x?x64xbf16>
  return %o#0, %o#1 : tensor<1x4x?x64xbf16>, tensor<1x4x?x64xbf16>
}
