// Scores to which elements of captured tensors are added: the mask of their gradients
// says which pairs have an element of -inf, and one kernel for both needs no mask for
// that. It makes its rows finite, and of a table by distance it reads one element for a
// tile of pairs that are far apart.
//
// RUN: attn-opt %s --attn-set-target=target=sm_90a --attn-differentiate="replace=true inputs=0,1,2,3" --canonicalize --attn-choose-schedule --attn-list-key-tiles --attn-fuse-gradients="explain=true" -o %t 2>&1 | FileCheck %s --check-prefix=EXPLAIN
// RUN: FileCheck %s --input-file %t
// RUN: attn-opt %t --attn-tile --canonicalize --cse | FileCheck %s --check-prefix=TILE
// RUN: attn-opt %s --attn-set-target=target=sm_90a --attn-differentiate="replace=true inputs=0,1,2" --canonicalize --attn-choose-schedule --attn-list-key-tiles --attn-fuse-gradients -o %t
// RUN: attn-opt %t --attn-tile --canonicalize --cse | FileCheck %s --check-prefix=TABLE

!rows = tensor<?x?x?x128xbf16>
!half = tensor<?x?x?x64xbf16>
!odd = tensor<?x?x?x96xbf16>

attn.monoid @soft cocycle stats(f32) components(value, unit) outputs("o") {
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
    attn.yield %o : f32
  }
}

// EXPLAIN: remark: fused: 5 products a pair instead of 7; sums over keys are added up in memory, in turns, from 2048 queries and 132 tiles of keys on
// EXPLAIN: remark: fused: 5 products a pair instead of 7; sums over keys are added up in memory, in turns, from 1024 queries and 132 tiles of keys on
// EXPLAIN: remark: not fused with a reduction over queries: key tiles take turns by the bounds of a mask
// EXPLAIN: remark: not fused with a reduction over queries: one is no plain sum of weights times values

// What keys have of the bias is the sum of the dots' cotangents over their scale.
// CHECK-LABEL: func.func @keys_backward(
// CHECK: attn.fused
// CHECK: attn.aggregate @keys_queries {{.*}}dead_by_element
// CHECK: attn.aggregate @keys_keys {{.*}}dead_by_element
// CHECK: finalize
// CHECK: arith.mulf %{{.*}}, %{{.*}} : f32
// CHECK: attn.yield

// The lists are those of two kernels, and have no blocks where there is one.
// TILE-LABEL: func.func @keys_backward(
// TILE: %[[BOTH:.*]] = arith.andi
// TILE: %[[ISONE:.*]] = arith.andi %{{.*}}, %[[BOTH]]
// TILE: %[[LISTS:.*]] = arith.select %[[ISONE]], %c0, %
// TILE: tile.launch @{{.*}} grid(%[[LISTS]])
// TILE: tile.kernel private @keys_backward_kernel{{.*}}order = in_order, section
// TILE: %[[K:.*]] = tile.load
// TILE: tile.map ins(%[[K]]
// TILE: math.absf
// TILE: %[[V:.*]] = tile.load
// TILE: tile.map ins(%[[V]]
// TILE: tile.accumulate
// TILE: tile.return

func.func @keys(%q: !rows, %k: !rows, %v: !rows, %bias: tensor<?x1x1x?xf32>) -> !rows {
  %o = attn.aggregate @soft scores(%q, %k : !rows, !rows) values(%v : !rows)
      captures(%bias : tensor<?x1x1x?xf32>)
    score {
    ^bb0(%x: f32, %b: i32, %h: i32, %i: i32, %j: i32, %t: tensor<?x1x1x?xf32>):
      %scale = arith.constant 0.125 : f32
      %c0 = arith.constant 0 : index
      %s = arith.mulf %x, %scale : f32
      %at = arith.index_cast %j : i32 to index
      %batch = arith.index_cast %b : i32 to index
      %y = tensor.extract %t[%batch, %c0, %c0, %at] : tensor<?x1x1x?xf32>
      %z = arith.addf %s, %y : f32
      attn.yield %z : f32
    } -> !rows
  return %o : !rows
}

func.func @half(%q: !half, %k: !half, %v: !half, %bias: tensor<?x1x1x?xf32>) -> !half {
  %o = attn.aggregate @soft scores(%q, %k : !half, !half) values(%v : !half)
      captures(%bias : tensor<?x1x1x?xf32>)
    score {
    ^bb0(%x: f32, %b: i32, %h: i32, %i: i32, %j: i32, %t: tensor<?x1x1x?xf32>):
      %c0 = arith.constant 0 : index
      %at = arith.index_cast %j : i32 to index
      %batch = arith.index_cast %b : i32 to index
      %y = tensor.extract %t[%batch, %c0, %c0, %at] : tensor<?x1x1x?xf32>
      %z = arith.addf %x, %y : f32
      attn.yield %z : f32
    } -> !half
  return %o : !half
}

// A mask beside the elements is asked for pairs.
func.func @both(%q: !rows, %k: !rows, %v: !rows, %bias: tensor<?x1x1x?xf32>) -> !rows {
  %o = attn.aggregate @soft scores(%q, %k : !rows, !rows) values(%v : !rows)
      captures(%bias : tensor<?x1x1x?xf32>)
    score {
    ^bb0(%x: f32, %b: i32, %h: i32, %i: i32, %j: i32, %t: tensor<?x1x1x?xf32>):
      %c0 = arith.constant 0 : index
      %at = arith.index_cast %j : i32 to index
      %batch = arith.index_cast %b : i32 to index
      %y = tensor.extract %t[%batch, %c0, %c0, %at] : tensor<?x1x1x?xf32>
      %z = arith.addf %x, %y : f32
      attn.yield %z : f32
    }
    mask {
    ^bb0(%b: i32, %h: i32, %i: i32, %j: i32, %t: tensor<?x1x1x?xf32>):
      %live = arith.cmpi sle, %j, %i : i32
      attn.yield %live : i1
    } -> !rows
  return %o : !rows
}

// The far element's gradient is a sum of each row's weights.
// TABLE-LABEL: func.func @table_backward(
// TABLE: tile.kernel private @table_backward_kernel{{.*}}order = in_order, section
// TABLE: scf.for
// TABLE: %[[FAR:.*]] = arith.ori
// TABLE: scf.if %[[FAR]]
// TABLE: memref.load
// TABLE: } else {
// TABLE: memref.load
// TABLE: math.exp2
// TABLE: tile.accumulate

func.func @table(%q: !rows, %k: !rows, %v: !rows, %table: tensor<?x?xf32>) -> !rows {
  %o = attn.aggregate @soft scores(%q, %k : !rows, !rows) values(%v : !rows)
      captures(%table : tensor<?x?xf32>)
    score {
    ^bb0(%x: f32, %b: i32, %h: i32, %i: i32, %j: i32, %t: tensor<?x?xf32>):
      %most = arith.constant 31 : i32
      %d = arith.subi %i, %j : i32
      %a = math.absi %d : i32
      %n = arith.minsi %a, %most : i32
      %at = arith.index_cast %n : i32 to index
      %head = arith.index_cast %h : i32 to index
      %y = tensor.extract %t[%head, %at] : tensor<?x?xf32>
      %z = arith.addf %x, %y : f32
      attn.yield %z : f32
    } -> !rows
  return %o : !rows
}

func.func @narrow(%q: !half, %k: !half, %v: !half, %table: tensor<?x?xf32>) -> !half {
  %o = attn.aggregate @soft scores(%q, %k : !half, !half) values(%v : !half)
      captures(%table : tensor<?x?xf32>)
    score {
    ^bb0(%x: f32, %b: i32, %h: i32, %i: i32, %j: i32, %t: tensor<?x?xf32>):
      %most = arith.constant 31 : i32
      %d = arith.subi %i, %j : i32
      %a = math.absi %d : i32
      %n = arith.minsi %a, %most : i32
      %at = arith.index_cast %n : i32 to index
      %head = arith.index_cast %h : i32 to index
      %y = tensor.extract %t[%head, %at] : tensor<?x?xf32>
      %z = arith.addf %x, %y : f32
      attn.yield %z : f32
    } -> !half
  return %o : !half
}

func.func @odd(%q: !odd, %k: !odd, %v: !odd, %table: tensor<?x?xf32>) -> !odd
    attributes {attn.any_order} {
  %o = attn.aggregate @soft scores(%q, %k : !odd, !odd) values(%v : !odd)
      captures(%table : tensor<?x?xf32>)
    score {
    ^bb0(%x: f32, %b: i32, %h: i32, %i: i32, %j: i32, %t: tensor<?x?xf32>):
      %most = arith.constant 31 : i32
      %d = arith.subi %i, %j : i32
      %a = math.absi %d : i32
      %n = arith.minsi %a, %most : i32
      %at = arith.index_cast %n : i32 to index
      %head = arith.index_cast %h : i32 to index
      %y = tensor.extract %t[%head, %at] : tensor<?x?xf32>
      %z = arith.addf %x, %y : f32
      attn.yield %z : f32
    } -> !odd
  return %o : !odd
}
