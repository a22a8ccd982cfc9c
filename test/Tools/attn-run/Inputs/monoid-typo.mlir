// A monoid with a fault, of which errors tell the place.
attn.monoid @m cocycle stats(f32) components(unit) outputs("o") {
  identity { %c = arith.constant 0.0 : f32 attn.yield %c : f32 }
  combine { ^bb0(%a: f32, %b: f32): %c = arith.maxf %a, %b : f32 attn.yield %c : f32 }
}
