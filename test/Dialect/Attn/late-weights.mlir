// RUN: attn-opt %s --attn-import-prelude --attn-check-laws --attn-to-aggregate --canonicalize --attn-choose-schedule --attn-guard-dead-scores --attn-online-form --attn-fold-scale --attn-fold-linear-bias --attn-pack-heads --attn-list-key-tiles --attn-tile --tile-expand-stream --canonicalize | FileCheck %s

// The weight of the third component is the score, in units of 2^20. It is made
// from the statistic, with the factor: nothing is computed before the
// reduction, and one tile is held, not two. A dead score, -inf, counts as the
// least finite one, whose product with the factor 0 is 0. The score's factor
// and the unit, a power of two, are one product.

// CHECK-DAG: %[[LEAST:.*]] = arith.constant -3.40282347E+38 : f32
// CHECK-DAG: %[[SCALE:.*]] = arith.constant 1.1920929E-7 : f32
// The first tile, which may be masked, and full ones.
// CHECK: tile.dot %{{.*}} acc
// CHECK: %[[DOT:.*]] = tile.dot
// CHECK-NEXT: tile.reduce ins(%[[DOT]]
// CHECK: tile.map ins(%[[DOT]]
// CHECK-NEXT: ^bb0(%{{.*}}: i32, %{{.*}}: i32, %[[X:.*]]: f32, %[[ANCHOR:.*]]: f32):
// CHECK-NEXT: %[[GAP:.*]] = arith.addf %[[X]], %[[ANCHOR]] : f32
// CHECK-NEXT: %[[EXPONENT:.*]] = arith.mulf %[[GAP]], %{{.*}} : f32
// CHECK-NEXT: %[[FACTOR:.*]] = math.exp2 %[[EXPONENT]]
// CHECK: %[[FINITE:.*]] = arith.maxnumf %[[X]], %[[LEAST]] : f32
// CHECK: %[[PART:.*]] = arith.mulf %[[FINITE]], %[[SCALE]] : f32
// CHECK: arith.mulf %[[PART]], %[[FACTOR]] : f32
module attributes {attn.target = "sm_90a"} {
  func.func @entropy(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>) -> (tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>, tensor<?x?x?xf32>) {
    %o:3 = attn.attention queries(%q : tensor<?x?x?x64xbf16>) keys(%k : tensor<?x?x?x64xbf16>) values(%v : tensor<?x?x?x64xbf16>) {monoid = @softmax_entropy, scale = 0.125 : f32} -> tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>, tensor<?x?x?xf32>
    return %o#0, %o#1, %o#2 : tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>, tensor<?x?x?xf32>
  }
}
