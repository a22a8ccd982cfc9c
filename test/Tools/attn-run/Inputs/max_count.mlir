// The largest score and how many keys have it. A score that is smaller adds
// nothing; the count does not survive a change of the reference point.
attn.monoid @max_count cocycle stats(f32) components(unit)
    outputs("max", "count") {
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
    %zero = arith.constant 0.0 : f32
    %one = arith.constant 1.0 : f32
    %same = arith.cmpf oeq, %from, %to : f32
    %r = arith.select %same, %one, %zero : f32
    attn.yield %r : f32
  }
  lift {
  ^bb0(%s: f32):
    %one = arith.constant 1.0 : f32
    attn.yield %s, %one : f32, f32
  }
  finalize {
  ^bb0(%m: f32, %n: f32):
    attn.yield %m, %n : f32, f32
  }
}
