// Largest value of any key.
attn.monoid @largest general stats() components(value) outputs("o") {
  identity { %c = arith.constant 0xFF800000 : f32 attn.yield %c : f32 }
  combine { ^bb0(%a: f32, %b: f32): %c = arith.maximumf %a, %b : f32 attn.yield %c : f32 }
  lift { ^bb0(%s: f32, %v: f32, %j: i32): attn.yield %v : f32 }
  finalize { ^bb0(%v: f32): attn.yield %v : f32 }
}
