// RUN: attn-opt %s --attn-import-prelude --attn-to-aggregate --canonicalize --attn-guard-dead-scores | FileCheck %s
// RUN: attn-opt %s --attn-import-prelude --attn-to-aggregate --canonicalize --attn-guard-dead-scores --attn-guard-dead-scores | FileCheck %s

// Sums whose tests of -inf a kernel needs, or not.

// Rows that a NaN has come to are marked, and done again: no test is left.
// CHECK-LABEL: @marked
// CHECK: score {
// CHECK-NOT: arith.select
// CHECK: attn.yield
func.func @marked(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                  %v: tensor<?x?x?x64xf32>, %t: tensor<?x?x?x?xf32>) -> tensor<?x?x?x64xf32> {
  %o = attn.attention queries(%q : tensor<?x?x?x64xf32>)
      keys(%k : tensor<?x?x?x64xf32>) values(%v : tensor<?x?x?x64xf32>)
      bias(%t : tensor<?x?x?x?xf32>) -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}

// So is the largest score of such a row, where that is an output.
// CHECK-LABEL: @largest
// CHECK: score {
// CHECK-NOT: arith.select
// CHECK: attn.yield
func.func @largest(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                   %v: tensor<?x?x?x64xf32>, %t: tensor<?x?x?x?xf32>) -> (tensor<?x?x?x64xf32>, tensor<?x?x?xf32>, tensor<?x?x?xf32>) {
  %o:3 = attn.attention monoid(@softmax_max) queries(%q : tensor<?x?x?x64xf32>)
      keys(%k : tensor<?x?x?x64xf32>) values(%v : tensor<?x?x?x64xf32>)
      bias(%t : tensor<?x?x?x?xf32>) -> tensor<?x?x?x64xf32>, tensor<?x?x?xf32>, tensor<?x?x?xf32>
  return %o#0, %o#1, %o#2 : tensor<?x?x?x64xf32>, tensor<?x?x?xf32>, tensor<?x?x?xf32>
}

// A weight of 0 hides a NaN: no sum shows it.
// CHECK-LABEL: @hidden
// CHECK: score {
// CHECK: %[[DEAD:.*]] = arith.cmpf oeq, %[[BIAS:.*]], %{{.*}} : f32
// CHECK: %[[SUM:.*]] = arith.addf
// CHECK: %[[SCORE:.*]] = arith.select %[[DEAD]], %[[BIAS]], %[[SUM]]
// CHECK: attn.yield %[[SCORE]]
func.func @hidden(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                  %v: tensor<?x?x?x64xf32>, %t: tensor<?x?x?x?xf32>) -> tensor<?x?x?x64xf32> {
  %o = attn.attention monoid(@relu_sum) queries(%q : tensor<?x?x?x64xf32>)
      keys(%k : tensor<?x?x?x64xf32>) values(%v : tensor<?x?x?x64xf32>)
      bias(%t : tensor<?x?x?x?xf32>) -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}
