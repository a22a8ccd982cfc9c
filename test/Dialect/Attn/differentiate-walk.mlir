// Where the order of keys matters the functions are about a block of keys: @f_states
// gives what the gates of the keys beyond a pair add up to, and what weights times
// their cotangents do on its other side, as sums with a triangle of ones for values.
//
// RUN: attn-opt %s --attn-import-prelude --attn-differentiate | FileCheck %s
// RUN: attn-opt %s --attn-import-prelude --attn-differentiate=replace=true --attn-pipeline="until-after=tile" -o /dev/null
// RUN: attn-opt %s --attn-import-prelude --attn-differentiate=replace=true --attn-pipeline="target=sm_80 until-after=tile" -o /dev/null

!rows = tensor<?x?x?x16xbf16>

// What is kept is the row's statistic, for `remainder`.
// CHECK-LABEL: func.func @stick_forward(
// CHECK-SAME: -> (tensor<?x?x?x16xbf16>, tensor<?x?x?xf32>, tensor<?x?x?xf32>)

// Two sums of statistics: for each pair over the later keys, and over all.
// CHECK-LABEL: func.func @stick_states(
// CHECK-SAME: %[[LATER0:arg6]]: tensor<?x?x?xf32>, %[[IS_LATER:arg7]]: tensor<?x?x?x128xf32>, %[[IS_EARLIER:arg8]]: tensor<?x?x?x128xf32>, %{{.*}}: i32, %{{.*}}: i32)
// CHECK: %[[ENDS:.*]] = attn.aggregate @stick_rows
// CHECK: finalize
// CHECK: math.exp
// CHECK: %[[STATS:.*]]:2 = attn.aggregate @stick_stats scores(%arg0, %arg1 :
// CHECK-SAME: values(%[[IS_LATER]] : tensor<?x?x?x128xf32>)
// CHECK: math.log1p
// CHECK: %[[STAT:.*]] = arith.select
// CHECK: attn.yield %[[STAT]], %[[STAT]] : f32, f32
// Two of weights times their cotangents, do . v: over the earlier keys.
// CHECK: %[[RESTS:.*]]:2 = attn.aggregate @stick_rests scores(%arg0, %arg1, %arg4, %arg2 :
// CHECK-SAME: values(%[[IS_EARLIER]] : tensor<?x?x?x128xf32>)
// CHECK-SAME: captures(%[[LATER0]], %[[STATS]]#0,
// CHECK: return %[[STATS]]#0, %[[STATS]]#1, %[[RESTS]]#0, %[[RESTS]]#1

// Gradients of queries are f32, to be added up over blocks.
// CHECK-LABEL: func.func @stick_backward(
// CHECK-SAME: -> (tensor<?x?x?x16xf32>, tensor<?x?x?x16xbf16>, tensor<?x?x?x16xbf16>)
// CHECK-SAME: attn.gradients = ["arg0", "arg1", "arg2"]
// CHECK: attn.aggregate @stick_queries
// CHECK: score
// The gate of what the block and the later ones add up to, and its slope at 0.
// CHECK: %[[SUM:.*]] = arith.addf %extracted{{.*}}, %extracted
// CHECK: %[[GATE:.*]] = math.exp %[[SUM]]
// CHECK: arith.mulf %[[GATE]],
// CHECK: %[[ZERO:.*]] = arith.constant 0.000000e+00 : f32
// CHECK: math.exp %[[ZERO]]
// CHECK: attn.aggregate @stick_keys
// CHECK-SAME: side = #attn.side<queries>
func.func @stick(%q: !rows, %k: !rows, %v: !rows)
    -> (!rows, tensor<?x?x?xf32>) {
  %o, %r = attn.aggregate @stick_breaking scores(%q, %k : !rows, !rows)
      values(%v : !rows) -> !rows, tensor<?x?x?xf32>
  return %o, %r : !rows, tensor<?x?x?xf32>
}

// The keys beyond are the earlier ones here.
// CHECK-LABEL: func.func @front_states(
// CHECK: attn.aggregate @front_stats
// CHECK-SAME: values(%arg7 : tensor<?x?x?x128xf32>)
// CHECK: attn.aggregate @front_rests
// CHECK-SAME: values(%arg6 : tensor<?x?x?x128xf32>)
// CHECK-LABEL: func.func @front_backward(
func.func @front(%q: !rows, %k: !rows, %v: !rows) -> !rows {
  %o = attn.aggregate @alpha_compositing scores(%q, %k : !rows, !rows)
      values(%v : !rows) -> !rows
  return %o : !rows
}

// What each pair has of a bias, for the keys of the block.
// CHECK-LABEL: func.func @bias_pairs(
// CHECK-SAME: -> tensor<?x?x?x128xf32>
// CHECK-SAME: attn.gradients = ["arg3[b,h,i,j]"]
func.func @bias(%q: !rows, %k: !rows, %v: !rows, %x: tensor<?x?x?x?xf32>) -> !rows {
  %o = attn.aggregate @stick_breaking scores(%q, %k : !rows, !rows)
      values(%v : !rows) captures(%x : tensor<?x?x?x?xf32>)
    score {
    ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32, %t: tensor<?x?x?x?xf32>):
      %n = arith.index_cast %b : i32 to index
      %m = arith.index_cast %h : i32 to index
      %at = arith.index_cast %i : i32 to index
      %key = arith.index_cast %j : i32 to index
      %y = tensor.extract %t[%n, %m, %at, %key] : tensor<?x?x?x?xf32>
      %z = arith.addf %s, %y : f32
      attn.yield %z : f32
    } -> !rows
  return %o : !rows
}
