// RUN: attn-opt %s --attn-import-prelude --attn-choose-schedule --attn-guard-dead-scores --attn-online-form --attn-fold-scale --attn-fold-linear-bias --attn-pack-heads --attn-list-key-tiles --attn-tile --canonicalize | FileCheck %s

// A kernel holds sums at the rounded product of the maximum and log2(e). One that
// is an output itself, as what a backward pass reads, is at the maximum beside it;
// outputs that do not show where sums are have them as they are.
// CHECK-LABEL: tile.kernel private @kept_kernel0(
// CHECK:         %[[STATE:.*]]:3 = tile.stream
// CHECK:         tile.map ins(%[[STATE]]#0, %[[STATE]]#2 :
// CHECK-NEXT:    ^bb0(
// CHECK-NEXT:      math.log
// CHECK-NEXT:      arith.addf
// CHECK-NEXT:      tile.yield
// CHECK:         tile.store
// CHECK:         tile.map ins(%[[STATE]]#0 :
// CHECK-NEXT:    ^bb0(%{{.*}}: i32, %{{.*}}: i32, %[[C:.*]]: f32):
// CHECK:           %[[PRODUCT:.*]] = arith.mulf %[[C]], %[[K:.*]] : f32
// CHECK:           %[[NEGATED:.*]] = arith.negf %[[PRODUCT]] : f32
// CHECK-NEXT:      math.fma %[[C]], %[[K]], %[[NEGATED]] : f32
// CHECK:           math.exp2
// CHECK:         tile.map ins(%[[STATE]]#2, %{{.*}} :
// CHECK-NEXT:    ^bb0(%{{.*}}: i32, %{{.*}}: i32, %[[SUM:.*]]: f32, %[[FACTOR:.*]]: f32):
// CHECK-NEXT:      arith.mulf %[[SUM]], %[[FACTOR]] : f32
func.func @kept(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x64xf32>)
    -> (tensor<?x?x?x64xf32>, tensor<?x?x?xf32>, tensor<?x?x?xf32>) {
  %o:3 = attn.aggregate @softmax scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>)
      finalize {
      ^bb0(%c: f32, %acc: f32, %sum: f32, %b: i32, %h: i32, %i: i32):
        %o = arith.divf %acc, %sum : f32
        %log = math.log %sum : f32
        %lse = arith.addf %c, %log : f32
        attn.yield %o, %lse, %sum : f32, f32, f32
      } -> tensor<?x?x?x64xf32>, tensor<?x?x?xf32>, tensor<?x?x?xf32>
  return %o#0, %o#1, %o#2 : tensor<?x?x?x64xf32>, tensor<?x?x?xf32>, tensor<?x?x?xf32>
}
