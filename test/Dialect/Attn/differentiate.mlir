// A function for each pass. Gradients of queries are a reduction over keys, with
// a dot for the weight and one for its cotangent; those of keys and values are
// one over queries. What a channel's cotangent and output add up to is a
// reduction of the diagonal.
//
// RUN: attn-opt %s --attn-differentiate | FileCheck %s
// RUN: attn-opt %s --attn-differentiate=replace=true | FileCheck %s --check-prefix=REPLACE
// RUN: attn-opt %s --attn-differentiate=inputs=0 --canonicalize | FileCheck %s --check-prefix=ONLY
// RUN: attn-opt %s --attn-differentiate --attn-pipeline="until-after=tile" -o /dev/null
// RUN: attn-opt %s --attn-differentiate --attn-pipeline="target=sm_80 until-after=tile" -o /dev/null
// REPLACE-NOT: func.func @softmax(

!rows = tensor<?x?x?x16xf32>
!row = tensor<?x?x?xf32>

attn.monoid @soft cocycle stats(f32) components(value, unit) outputs("o", "lse") {
  identity {
    %ninf = arith.constant 0xFF800000 : f32
    attn.yield %ninf : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32):
    %m = arith.maximumf %a, %b : f32
    attn.yield %m : f32
  }
  rescale {
  ^bb0(%from: f32, %to: f32):
    %d = arith.subf %from, %to : f32
    %r = math.exp %d : f32
    attn.yield %r : f32
  }
  lift {
  ^bb0(%s: f32):
    %one = arith.constant 1.0 : f32
    attn.yield %s, %one, %one : f32, f32, f32
  }
  finalize {
  ^bb0(%m: f32, %acc: f32, %sum: f32):
    %zero = arith.constant 0.0 : f32
    %empty = arith.cmpf oeq, %sum, %zero : f32
    %quot = arith.divf %acc, %sum : f32
    %o = arith.select %empty, %zero, %quot : f32
    %log = math.log %sum : f32
    %lse = arith.addf %m, %log : f32
    attn.yield %o, %lse : f32, f32
  }
}

// CHECK-LABEL: func.func @softmax_forward(
// CHECK-SAME: -> (tensor<?x?x?x16xf32>, tensor<?x?x?xf32>, tensor<?x?x?xf32>, tensor<?x?x?xf32>)
// CHECK: attn.aggregate @soft
// CHECK: finalize
// CHECK: ^bb0(%[[M:.*]]: f32, %{{.*}}: f32, %[[SUM:.*]]: f32, %{{.*}}: i32, %{{.*}}: i32, %{{.*}}: i32, %{{.*}}: f32):
// CHECK: attn.yield %{{.*}}, %{{.*}}, %[[M]], %[[SUM]] : f32, f32, f32, f32

// CHECK-LABEL: func.func @softmax_backward(
// CHECK-SAME: %[[Q:[^:]*]]: tensor<?x?x?x16xf32>, %[[K:[^:]*]]: tensor<?x?x?x16xf32>, %[[V:[^:]*]]: tensor<?x?x?x16xf32>, %[[SCALE:[^:]*]]: f32
// CHECK-SAME: %[[MAX:[^:]*]]: tensor<?x?x?xf32>, %[[TOTAL:[^:]*]]: tensor<?x?x?xf32>, %[[OUT:[^:]*]]: tensor<?x?x?x16xf32>, %[[DO:[^:]*]]: tensor<?x?x?x16xf32>, %[[DLSE:[^:]*]]: tensor<?x?x?xf32>
// CHECK: %[[ROWS:.*]]:2 = attn.aggregate @softmax_rows scores(%[[DO]], %[[OUT]]
// CHECK: arith.cmpi eq
// CHECK: %[[DQ:.*]]:2 = attn.aggregate @softmax_queries scores(%[[Q]], %[[K]], %[[DO]], %[[V]]
// CHECK-SAME: values(%[[K]] :
// CHECK-SAME: captures(%[[SCALE]], %[[MAX]], %[[ROWS]]#0, %[[ROWS]]#1
// CHECK-NOT: side
// CHECK: math.exp
// CHECK: mask
// CHECK: arith.cmpi sle, %{{.*}}, %[[I:.*]] : i32
// CHECK: %[[DKV:.*]]:2 = attn.aggregate @softmax_keys scores(%[[K]], %[[Q]], %[[V]], %[[DO]]
// CHECK-SAME: values(%[[Q]], %[[DO]] :
// CHECK-SAME: {dead_is_zero, side = #attn.side<queries>}
// CHECK: return %[[DQ]]#0, %[[DKV]]#0, %[[DKV]]#1, %[[DQ]]#1

// ONLY-LABEL: func.func @softmax_backward(
// ONLY-NOT: side = #attn.side<queries>
// ONLY: return %{{[^,]*}} : tensor<?x?x?x16xf32>
func.func @softmax(%q: !rows, %k: !rows, %v: !rows, %scale: f32) -> (!rows, !row) {
  %o, %lse = attn.aggregate @soft scores(%q, %k : !rows, !rows) values(%v : !rows)
      captures(%scale : f32)
    score {
    ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32, %c: f32):
      %x = arith.mulf %s, %c : f32
      attn.yield %x : f32
    }
    mask {
    ^bb0(%b: i32, %h: i32, %i: i32, %j: i32, %c: f32):
      %live = arith.cmpi sle, %j, %i : i32
      attn.yield %live : i1
    } -> !rows, !row
  return %o, %lse : !rows, !row
}

// A plain sum keeps nothing of its rows. Each rule of arith and math is on the
// way from the sum to the dot.
attn.monoid @many cocycle stats() components(value) outputs("o") {
  lift {
  ^bb0(%s: f32):
    %one = arith.constant 1.0 : f32
    %tenth = arith.constant 0.1 : f32
    %half = arith.constant 0.5 : f32
    %t = math.tanh %s : f32
    %square = arith.mulf %t, %t : f32
    %p = arith.addf %square, %one : f32
    %log = math.log %p : f32
    %log1p = math.log1p %square : f32
    %log2 = math.log2 %p : f32
    %sqrt = math.sqrt %p : f32
    %rsqrt = math.rsqrt %p : f32
    %sin = math.sin %t : f32
    %cos = math.cos %t : f32
    %erf = math.erf %t : f32
    %atan = math.atan %t : f32
    %abs = math.absf %t : f32
    %exp2 = math.exp2 %t : f32
    %expm1 = math.expm1 %t : f32
    %pow = math.powf %p, %half : f32
    %fma = math.fma %log, %log1p, %log2 : f32
    %max = arith.maximumf %sin, %tenth : f32
    %min = arith.minimumf %cos, %erf : f32
    %neg = arith.negf %atan : f32
    %quotient = arith.divf %sqrt, %p : f32
    %narrow = arith.truncf %rsqrt : f32 to bf16
    %wide = arith.extf %narrow : bf16 to f32
    %positive = arith.cmpf ogt, %t, %tenth : f32
    %either = arith.select %positive, %exp2, %expm1 : f32
    %floor = math.floor %s : f32
    %w0 = arith.addf %fma, %max : f32
    %w1 = arith.addf %w0, %min : f32
    %w2 = arith.subf %w1, %neg : f32
    %w3 = arith.addf %w2, %quotient : f32
    %w4 = arith.addf %w3, %wide : f32
    %w5 = arith.addf %w4, %either : f32
    %w6 = arith.addf %w5, %pow : f32
    %w7 = arith.addf %w6, %abs : f32
    %w8 = arith.mulf %floor, %tenth : f32
    %w9 = arith.addf %w7, %w8 : f32
    attn.yield %w9 : f32
  }
  finalize {
  ^bb0(%acc: f32):
    attn.yield %acc : f32
  }
}

// CHECK-LABEL: func.func @sum_forward(
// CHECK-SAME: -> tensor<?x?x?x16xf32>
// CHECK-LABEL: func.func @sum_backward(
// CHECK-NOT: @sum_rows
// CHECK: attn.aggregate @sum_queries
// Keys behind the lengths have no rows of their own among the queries.
// CHECK-SAME: key_source(lengths
// CHECK: attn.aggregate @sum_keys
// CHECK-NOT: key_source
// CHECK: mask
// CHECK: arith.cmpi slt
func.func @sum(%q: !rows, %k: !rows, %v: !rows, %n: tensor<?xi32>) -> !rows {
  %o = attn.aggregate @many scores(%q, %k : !rows, !rows) values(%v : !rows)
      key_source(lengths %n : tensor<?xi32>) -> !rows
  return %o : !rows
}

// Two reads of a table: of each the element, and its index of each pair. The parameter
// is read by lift and by finalize: what finalize gives is added to what keys give.
attn.monoid @scaled cocycle stats() components(value) params(f32) outputs("o") {
  lift {
  ^bb0(%s: f32, %t: f32):
    %w = arith.mulf %s, %t : f32
    attn.yield %w : f32
  }
  finalize {
  ^bb0(%acc: f32, %t: f32):
    %o = arith.mulf %acc, %t : f32
    attn.yield %o : f32
  }
}
// CHECK-LABEL: func.func @table_backward(
// CHECK-SAME: attributes {attn.gradients = ["arg0", "arg1", "arg2", "arg4"]}
// CHECK: %[[PART:.*]]:2 = attn.aggregate @table_rows
// CHECK: attn.aggregate @table_queries
// CHECK-SAME: %[[PART]]#1
// The index is one of the distance: sums along diagonals say all.
// CHECK-LABEL: func.func @table_distances(
// CHECK-SAME: attributes {attn.gradients = ["arg3[*,h]", "#index", "arg3[0,h]"]}
// CHECK: %{{.*}}:3 = attn.scores @table_elements
// CHECK-SAME: diagonals = 128
// CHECK: arith.sitofp
// CHECK: -> tensor<?x?x?x128xf32>, tensor<?x?x?xf32>, tensor<?x?x?x128xf32>
func.func @table(%q: !rows, %k: !rows, %v: !rows, %table: tensor<?x?xf32>, %t: f32) -> !rows {
  %o = attn.aggregate @scaled params(%t : f32) scores(%q, %k : !rows, !rows) values(%v : !rows)
      captures(%table : tensor<?x?xf32>)
    score {
    ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32, %r: tensor<?x?xf32>):
      %far = arith.subi %i, %j : i32
      %at = arith.index_cast %far : i32 to index
      %hi = arith.index_cast %h : i32 to index
      %zero = arith.constant 0 : index
      %e = tensor.extract %r[%at, %hi] : tensor<?x?xf32>
      %f = tensor.extract %r[%zero, %hi] : tensor<?x?xf32>
      %x = arith.addf %s, %e : f32
      %y = arith.mulf %x, %f : f32
      attn.yield %y : f32
    } -> !rows
  return %o : !rows
}

// An element that all pairs read which are far enough apart, on either side: rows have
// its sums, and diagonals leave them out.
// CHECK-LABEL: func.func @far_table_backward(
// CHECK-SAME: attributes {attn.gradients = ["arg0", "arg1", "arg2", "arg3[7]", "arg3[-3]"]}
// CHECK: attn.aggregate @far_table_queries
// CHECK: arith.cmpi sge, %{{.*}}, %{{c7.*}} : i32
// CHECK: arith.cmpi sle, %{{.*}}, %{{c-3.*}} : i32
// CHECK: attn.aggregate @far_table_keys
// CHECK-NOT: arith.cmpi
// CHECK-LABEL: func.func @far_table_distances(
// CHECK-SAME: attributes {attn.gradients = ["arg3[*]", "#index"], attn.near = array<i64: 7, 3>}
// CHECK: arith.cmpi
func.func @far_table(%q: !rows, %k: !rows, %v: !rows, %table: tensor<?xf32>) -> !rows {
  %o = attn.aggregate @many scores(%q, %k : !rows, !rows) values(%v : !rows)
      captures(%table : tensor<?xf32>)
    score {
    ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32, %r: tensor<?xf32>):
      %least = arith.constant -3 : i32
      %most = arith.constant 7 : i32
      %d = arith.subi %i, %j : i32
      %low = arith.maxsi %d, %least : i32
      %n = arith.minsi %low, %most : i32
      %at = arith.index_cast %n : i32 to index
      %e = tensor.extract %r[%at] : tensor<?xf32>
      %x = arith.addf %s, %e : f32
      attn.yield %x : f32
    } -> !rows
  return %o : !rows
}

// An index that two pairs of a diagonal need not have in common.
// CHECK-LABEL: func.func @other_table_backward(
// CHECK-LABEL: func.func @other_table_pairs(
// CHECK-SAME: attributes {attn.gradients = ["arg3[*]", "#index"]}
// CHECK: %{{.*}}:2 = attn.aggregate @other_table_elements
// CHECK: arith.sitofp
func.func @other_table(%q: !rows, %k: !rows, %v: !rows, %table: tensor<?xf32>) -> !rows {
  %o = attn.aggregate @many scores(%q, %k : !rows, !rows) values(%v : !rows)
      captures(%table : tensor<?xf32>)
    score {
    ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32, %r: tensor<?xf32>):
      %far = arith.addi %i, %j : i32
      %at = arith.index_cast %far : i32 to index
      %e = tensor.extract %r[%at] : tensor<?xf32>
      %x = arith.addf %s, %e : f32
      attn.yield %x : f32
    } -> !rows
  return %o : !rows
}

// An element for each row and key: a function of its own, for some keys at once.
// CHECK-LABEL: func.func @bias_backward(
// CHECK: attn.aggregate @bias_queries
// CHECK-LABEL: func.func @bias_pairs(
// CHECK-SAME: %[[EYE:[^:]*]]: tensor<?x?x?x128xf32>, %[[FIRST:[^:]*]]: i32, %{{[^:]*}}: i32) -> tensor<?x?x?x128xf32>
// CHECK: attn.aggregate @bias_elements
// CHECK-SAME: values(%[[EYE]] :
// CHECK-SAME: %[[FIRST]]
func.func @bias(%q: !rows, %k: !rows, %v: !rows, %bias: tensor<?x?x?x?xf32>) -> !rows {
  %o = attn.aggregate @soft scores(%q, %k : !rows, !rows) values(%v : !rows)
      captures(%bias : tensor<?x?x?x?xf32>)
    score {
    ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32, %t: tensor<?x?x?x?xf32>):
      %bi = arith.index_cast %b : i32 to index
      %hi = arith.index_cast %h : i32 to index
      %ii = arith.index_cast %i : i32 to index
      %ji = arith.index_cast %j : i32 to index
      %e = tensor.extract %t[%bi, %hi, %ii, %ji] : tensor<?x?x?x?xf32>
      %x = arith.addf %s, %e : f32
      attn.yield %x : f32
    } -> !rows
  return %o : !rows
}
