// A monoid of one's own: softmax to the base 2.
attn.monoid @softmax2 cocycle stats(f32) components(value, unit) outputs("o") {
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
    %r = math.exp2 %d : f32
    attn.yield %r : f32
  }
  lift {
  ^bb0(%s: f32):
    %one = arith.constant 1.0 : f32
    attn.yield %s, %one, %one : f32, f32, f32
  }
  finalize {
  ^bb0(%m: f32, %acc: f32, %sum: f32):
    %zero = arith.constant 0.0 : f32
    %empty = arith.cmpf oeq, %sum, %zero : f32
    %quot = arith.divf %acc, %sum : f32
    %o = arith.select %empty, %zero, %quot : f32
    attn.yield %o : f32
  }
}

func.func @attention(%q: tensor<1x2x96x32xf32>, %k: tensor<1x2x80x32xf32>,
                     %v: tensor<1x2x80x32xf32>) -> tensor<1x2x96x32xf32> {
  %o = attn.attention monoid(@softmax2) queries(%q : tensor<1x2x96x32xf32>)
      keys(%k : tensor<1x2x80x32xf32>) values(%v : tensor<1x2x80x32xf32>)
      -> tensor<1x2x96x32xf32>
  return %o : tensor<1x2x96x32xf32>
}
