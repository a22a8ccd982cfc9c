// A general monoid is differentiated key by key: @f_states takes the state from one
// side of a block of keys to the other, @f_backward takes cotangents back. Scores are
// in memory between what makes them and what goes through them.
//
// RUN: attn-opt %s --attn-import-prelude --attn-check-laws --attn-to-aggregate --canonicalize --attn-differentiate | FileCheck %s
// RUN: attn-opt %s --attn-import-prelude --attn-check-laws --attn-to-aggregate --canonicalize --attn-differentiate=replace=true --attn-pipeline="until-after=tile" | FileCheck %s --check-prefix=TILE
// RUN: not attn-opt %s --attn-import-prelude --attn-check-laws --attn-to-aggregate --canonicalize --attn-differentiate=replace=true --attn-pipeline="target=sm_90a until-after=tile" 2>&1 | FileCheck %s --check-prefix=GPU

!rows = tensor<?x?x?x16xbf16>

// GPU: expected a CPU target, for keys one after the other, but got sm_90a; gradients of general monoids are computed on CPUs

// Nothing is kept but inputs: states are computed again.
// CHECK-LABEL: func.func @largest_forward(
// CHECK-SAME: -> tensor<?x?x?x16xbf16> attributes {attn.saved_bytes = 0

// CHECK-LABEL: func.func @largest_states(
// CHECK-SAME: %[[STATE:arg5]]: tensor<?x?x?x16xf32>, %[[FIRST:arg6]]: i32, %[[KEYS:arg7]]: i32)
// CHECK: %[[S:.*]] = attn.scores @maxplus
// CHECK: arith.select %{{.*}}, %{{.*}}, %{{.*}} : f32
// CHECK: %[[NEXT:.*]] = attn.unfold scores(%[[S]] : tensor<?x?x?x?xf32>) values(%arg2 : tensor<?x?x?x16xbf16>) states(%[[STATE]] : tensor<?x?x?x16xf32>) from %[[FIRST]] of %[[KEYS]]
// CHECK: return %[[NEXT]]

// CHECK-LABEL: func.func @largest_backward(
// CHECK-SAME: attn.gradients = ["arg0", "arg1", "arg2"]
// CHECK: %[[U:.*]]:3 = attn.unfold
// CHECK-SAME: behind(%arg6 : tensor<?x?x?x16xf32>) outs(%arg4 : tensor<?x?x?x16xbf16>)
// CHECK: back_channels
// The larger of two takes it all, the first of equals.
// CHECK: arith.cmpf oge
// CHECK: finish_channels
// A pair's score has what the kernel before has written for it.
// CHECK: attn.aggregate @largest_queries
// CHECK-SAME: captures({{.*}}%[[U]]#0
// CHECK: attn.aggregate @largest_keys
// CHECK: return %{{.*}}, %{{.*}}, %[[U]]#1, %[[U]]#2

// TILE-LABEL: tile.kernel private @largest_backward
// TILE: tile.accumulate
func.func @largest(%q: !rows, %k: !rows, %v: !rows, %n: tensor<?xi32>) -> !rows {
  %o = attn.attention monoid(@maxplus) queries(%q : !rows) keys(%k : !rows)
      values(%v : !rows) lengths(%n : tensor<?xi32>) -> !rows
  return %o : !rows
}
