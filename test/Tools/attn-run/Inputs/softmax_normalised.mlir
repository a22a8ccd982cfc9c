// The logarithm of the sum itself as the statistic. Without the guard two
// identities would combine to NaN.
attn.monoid @softmax_normalised cocycle stats(f32) components(value)
    outputs("o") {
  identity {
    %ninf = arith.constant 0xFF800000 : f32
    attn.yield %ninf : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32):
    %ninf = arith.constant 0xFF800000 : f32
    %hi = arith.maximumf %a, %b : f32
    %lo = arith.minimumf %a, %b : f32
    %d = arith.subf %lo, %hi : f32
    %e = math.exp %d : f32
    %l = math.log1p %e : f32
    %sum = arith.addf %hi, %l : f32
    %empty = arith.cmpf oeq, %hi, %ninf : f32
    %c = arith.select %empty, %ninf, %sum : f32
    attn.yield %c : f32
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
  ^bb0(%c: f32, %acc: f32):
    attn.yield %acc : f32
  }
}
