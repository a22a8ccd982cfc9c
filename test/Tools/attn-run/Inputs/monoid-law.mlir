// A monoid with a law.
attn.monoid @m cocycle stats(f32) components(unit) outputs("o") {
  identity { %c = arith.constant 0.0 : f32 attn.yield %c : f32 }
  combine { ^bb0(%a: f32, %b: f32): %c = arith.subf %a, %b : f32 attn.yield %c : f32 }
  rescale { ^bb0(%a: f32, %b: f32): %d = arith.subf %a, %b : f32 %r = math.exp %d : f32 attn.yield %r : f32 }
  lift { ^bb0(%s: f32): %one = arith.constant 1.0 : f32 attn.yield %s, %one : f32, f32 }
  finalize { ^bb0(%c: f32, %v: f32): attn.yield %v : f32 }
}
