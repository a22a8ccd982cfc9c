// Two averages under the weights of a softmax: one pass over keys for two sets
// of values.
attn.monoid @averages cocycle stats(f32) components(value, value, unit)
    outputs("a", "b") {
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
    attn.yield %r : f32
  }
  lift {
  ^bb0(%s: f32):
    %one = arith.constant 1.0 : f32
    %c = arith.constant 0.125 : f32
    %t = arith.mulf %s, %c : f32
    attn.yield %t, %one, %one, %one : f32, f32, f32, f32
  }
  finalize {
  ^bb0(%m: f32, %x: f32, %y: f32, %sum: f32):
    %zero = arith.constant 0.0 : f32
    %empty = arith.cmpf oeq, %sum, %zero : f32
    %p = arith.divf %x, %sum : f32
    %q = arith.divf %y, %sum : f32
    %a = arith.select %empty, %zero, %p : f32
    %b = arith.select %empty, %zero, %q : f32
    attn.yield %a, %b : f32, f32
  }
}

func.func @two_averages(%q: tensor<1x4x?x64xbf16>, %k: tensor<1x4x?x64xbf16>,
                        %v: tensor<1x4x?x64xbf16>, %w: tensor<1x4x?x64xbf16>)
    -> (tensor<1x4x?x64xbf16>, tensor<1x4x?x64xbf16>) {
  %o:2 = attn.aggregate @averages
      scores(%q, %k : tensor<1x4x?x64xbf16>, tensor<1x4x?x64xbf16>)
      values(%v, %w : tensor<1x4x?x64xbf16>, tensor<1x4x?x64xbf16>)
      -> tensor<1x4x?x64xbf16>, tensor<1x4x?x64xbf16>
  return %o#0, %o#1 : tensor<1x4x?x64xbf16>, tensor<1x4x?x64xbf16>
}
