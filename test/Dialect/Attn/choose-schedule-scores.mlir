// RUN: attn-opt %s --attn-check-laws --attn-choose-schedule | FileCheck %s

// Reductions without values, which leave registers for a third warpgroup. Of keys that
// a threshold lets in, tiles are short: they are looked at one by one.

module attributes {attn.target = "sm_90a"} {
attn.monoid @count cocycle stats() components(unit) outputs("count") {
  lift { ^bb0(%s: f32): %least = arith.constant 1.0 : f32
         %above = arith.cmpf oge, %s, %least : f32
         %one = arith.uitofp %above : i1 to f32 attn.yield %one : f32 }
  finalize { ^bb0(%n: f32): attn.yield %n : f32 }
}
attn.monoid @argmax general stats(f32, f32) components(unit) outputs("where") {
  identity { %e = arith.constant 0xFF800000 : f32 %no = arith.constant -1.0 : f32
             %z = arith.constant 0.0 : f32 attn.yield %e, %no, %z : f32, f32, f32 }
  combine { ^bb0(%a: f32, %i: f32, %x: f32, %b: f32, %j: f32, %y: f32):
    %wins = arith.cmpf ogt, %b, %a : f32
    %c = arith.select %wins, %b, %a : f32
    %k = arith.select %wins, %j, %i : f32
    attn.yield %c, %k, %x : f32, f32, f32 }
  lift { ^bb0(%s: f32, %j: i32): %z = arith.constant 0.0 : f32
         %at = arith.sitofp %j : i32 to f32 attn.yield %s, %at, %z : f32, f32, f32 }
  finalize { ^bb0(%c: f32, %k: f32, %x: f32): attn.yield %k : f32 }
}
// CHECK-LABEL: func.func @above
// CHECK: schedule = #attn.schedule<block_q = 192, rows = 64, block_k = 160
func.func @above(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>) -> tensor<?x?x?xf32> {
  %o = attn.aggregate @count scores(%q, %k : tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>)
      -> tensor<?x?x?xf32>
  return %o : tensor<?x?x?xf32>
}
// CHECK-LABEL: func.func @of_columns
// CHECK: schedule = #attn.schedule<block_q = 192, rows = 64, block_k = 160
func.func @of_columns(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>) -> tensor<?x?x?xf32> {
  %o = attn.aggregate @count scores(%k, %q : tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>)
      {side = #attn.side<queries>} -> tensor<?x?x?xf32>
  return %o : tensor<?x?x?xf32>
}
// CHECK-LABEL: func.func @largest
// CHECK: schedule = #attn.schedule<block_q = 192, rows = 64, block_k = 128
func.func @largest(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>) -> tensor<?x?x?xf32> {
  %o = attn.aggregate @argmax scores(%q, %k : tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>)
      -> tensor<?x?x?xf32>
  return %o : tensor<?x?x?xf32>
}
}
