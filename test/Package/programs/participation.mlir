// Softmax with its participation ratio, (sum w)^2 / sum w^2: how many keys a
// row attends to. Squared weights have a factor of their own, the square of
// that of the weights.
attn.monoid @participation cocycle stats(f32) components(value, unit, unit)
    outputs("o", "ratio") {
  identity {
    %ninf = arith.constant 0xFF800000 : f32
    attn.yield %ninf : f32
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
    %r2 = arith.mulf %r, %r : f32
    attn.yield %r, %r, %r2 : f32, f32, f32
  }
  lift {
  ^bb0(%s: f32):
    %one = arith.constant 1.0 : f32
    attn.yield %s, %one, %one, %one : f32, f32, f32, f32
  }
  finalize {
  ^bb0(%m: f32, %acc: f32, %sum: f32, %squares: f32):
    %zero = arith.constant 0.0 : f32
    %empty = arith.cmpf oeq, %sum, %zero : f32
    %quot = arith.divf %acc, %sum : f32
    %o = arith.select %empty, %zero, %quot : f32
    %square = arith.mulf %sum, %sum : f32
    %p = arith.divf %square, %squares : f32
    %ratio = arith.select %empty, %zero, %p : f32
    attn.yield %o, %ratio : f32, f32
  }
}

func.func @attention(%q: tensor<1x4x?x64xbf16>, %k: tensor<1x4x?x64xbf16>,
                     %v: tensor<1x4x?x64xbf16>)
    -> (tensor<1x4x?x64xbf16>, tensor<1x4x?xf32>) {
  %o:2 = attn.attention monoid(@participation)
      queries(%q : tensor<1x4x?x64xbf16>) keys(%k : tensor<1x4x?x64xbf16>)
      values(%v : tensor<1x4x?x64xbf16>)
      -> tensor<1x4x?x64xbf16>, tensor<1x4x?xf32>
  return %o#0, %o#1 : tensor<1x4x?x64xbf16>, tensor<1x4x?xf32>
}
