// RUN: attn-opt %s --attn-import-prelude --attn-check-laws --attn-to-aggregate --canonicalize --attn-choose-schedule --attn-guard-dead-scores --attn-online-form --attn-fold-scale --attn-fold-linear-bias --attn-pack-heads --attn-list-key-tiles --attn-tile --tile-expand-stream --canonicalize | FileCheck %s

// The third component sums weights times the distance of their score from the
// largest one. Held are sums of exponents times their powers, which takes a
// multiply-add of each: the exponent is the distance from the anchor, in units of
// log(2). Where the anchor moves, all distances do, by the exponent of the factor,
// and the sum takes as much times that of the weights in. Only tiles that may have
// dead keys, whose exponents are -inf, have the least finite number in their place.
// Rows in which a dot was -inf, whose sum is NaN, are done once more.

// CHECK-DAG: %[[LEAST:.*]] = arith.constant -3.40282347E+38 : f32
// CHECK-DAG: %[[MOST:.*]] = arith.constant -1.024000e+03 : f32
// The first tile, which may be masked, and full ones.
// CHECK: arith.maxnumf %{{.*}}, %[[LEAST]] : f32
// CHECK: tile.dot %{{.*}} acc
// CHECK: %[[DOT:.*]] = tile.dot
// CHECK-NEXT: %[[TOP:.*]] = tile.reduce ins(%[[DOT]]
// CHECK: tile.map ins(%{{.*}}, %[[TOP]]
// CHECK: %[[MOVED:.*]] = arith.addf
// CHECK-NEXT: math.exp2 %[[MOVED]]
// CHECK-NEXT: arith.maxnumf %[[MOVED]], %[[MOST]] : f32
// CHECK: tile.map ins(%[[DOT]]
// CHECK-NEXT: ^bb0(%{{.*}}: i32, %{{.*}}: i32, %[[X:.*]]: f32, %[[OFFSET:.*]]: f32):
// CHECK-NEXT: %[[EXPONENT:.*]] = math.fma %[[X]], %{{.*}}, %[[OFFSET]]
// CHECK-NEXT: %[[FACTOR:.*]] = math.exp2 %[[EXPONENT]]
// CHECK-NEXT: %[[PART:.*]] = arith.mulf %[[EXPONENT]], %[[FACTOR]] : f32
// CHECK-NEXT: arith.truncf
// CHECK-NEXT: tile.yield %[[FACTOR]], %{{.*}}, %[[PART]]
// CHECK: tile.map
// CHECK-NEXT: ^bb0(%{{.*}}: i32, %{{.*}}: i32, %[[ONES:.*]]: f32, %[[NEW:.*]]: f32, %[[SUM:.*]]: f32, %[[PARTS:.*]]: f32, %[[SCALE:.*]]: f32, %[[BY:.*]]: f32):
// CHECK-NEXT: math.fma %[[ONES]], %[[SCALE]], %[[NEW]]
// CHECK-NEXT: %[[FAR:.*]] = math.fma %[[ONES]], %[[BY]], %[[SUM]]
// CHECK-NEXT: math.fma %[[FAR]], %[[SCALE]], %[[PARTS]]
// A NaN beside a sum of weights that is none.
// CHECK: arith.cmpf uno, %[[MEAN:.*]], %[[MEAN]]
// CHECK-NEXT: arith.cmpf ord
module attributes {attn.target = "sm_90a"} {
  func.func @entropy(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>) -> (tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>, tensor<?x?x?xf32>) {
    %o:3 = attn.attention queries(%q : tensor<?x?x?x64xbf16>) keys(%k : tensor<?x?x?x64xbf16>) values(%v : tensor<?x?x?x64xbf16>) {monoid = @softmax_entropy} -> tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>, tensor<?x?x?xf32>
    return %o#0, %o#1, %o#2 : tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>, tensor<?x?x?xf32>
  }
}
