// RUN: attn-opt %s --attn-check-laws --attn-choose-schedule --attn-tile | FileCheck %s

// States of a few numbers, without a value: all keys of a tile are lifted, and reduced
// as statistics are. The position is that of the key, and a dead key is the identity.
// (Where a threshold says which keys change nothing, keys are folded: here each key
// counts.)

// CHECK-LABEL: kernel private @largest_kernel0
// CHECK-NOT: tile.fold
// CHECK: %[[S:.*]] = tile.dot
// CHECK: %[[LIFTED:.*]]:3 = tile.map ins(%[[S]] :
// CHECK: ^bb0(%{{.*}}: i32, %[[COL:.*]]: i32, %[[X:.*]]: f32):
// CHECK: %[[LIVE:.*]] = arith.cmpf une, %[[X]]
// CHECK: arith.addi %{{.*}}, %[[COL]]
// CHECK: arith.sitofp
// CHECK-COUNT-3: arith.select %[[LIVE]]
// CHECK: %[[ALL:.*]]:3 = tile.reduce ordered ins(%[[LIFTED]]#0, %[[LIFTED]]#1, %[[LIFTED]]#2 :
// CHECK: arith.cmpf ogt
// CHECK: tile.map ins(%{{.*}}, %{{.*}}, %{{.*}}, %[[ALL]]#0, %[[ALL]]#1, %[[ALL]]#2 :
// CHECK: arith.cmpf ogt
// CHECK-NOT: tile.fold

module attributes {attn.target = "sm_90a"} {
attn.monoid @argmax general stats(f32, f32) components(unit) outputs("where") {
  identity { %e = arith.constant 0xFF800000 : f32 %no = arith.constant -1.0 : f32
             %z = arith.constant 0.0 : f32 attn.yield %e, %no, %z : f32, f32, f32 }
  combine { ^bb0(%a: f32, %i: f32, %x: f32, %b: f32, %j: f32, %y: f32):
    %wins = arith.cmpf ogt, %b, %a : f32
    %c = arith.select %wins, %b, %a : f32
    %k = arith.select %wins, %j, %i : f32
    %n = arith.addf %x, %y : f32
    attn.yield %c, %k, %n : f32, f32, f32 }
  lift { ^bb0(%s: f32, %j: i32): %one = arith.constant 1.0 : f32
         %at = arith.sitofp %j : i32 to f32 attn.yield %s, %at, %one : f32, f32, f32 }
  finalize { ^bb0(%c: f32, %k: f32, %x: f32): attn.yield %k : f32 }
}
func.func @largest(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>) -> tensor<?x?x?xf32> {
  %o = attn.aggregate @argmax scores(%q, %k : tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>)
      -> tensor<?x?x?xf32>
  return %o : tensor<?x?x?xf32>
}
}
