// RUN: attn-opt %s --canonicalize --split-input-file | FileCheck %s

attn.monoid @sum cocycle stats() components(value, unit) outputs("o", "n") {
  lift {
  ^bb0(%s: f32):
    attn.yield %s, %s : f32, f32
  }
  finalize {
  ^bb0(%acc: f32, %n: f32):
    attn.yield %acc, %n : f32, f32
  }
}

// A value that is captured twice is captured once, one that no region reads is
// not, and a constant is written where it is used.
// CHECK-LABEL: func.func @captures
// CHECK-SAME: %[[X:[a-z0-9]+]]: f32, %[[UNUSED:[a-z0-9]+]]: tensor<?xf32>
func.func @captures(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                    %v: tensor<?x?x?x64xf32>, %x: f32, %unused: tensor<?xf32>)
    -> tensor<?x?x?x64xf32> {
  %two = arith.constant 2.0 : f32
  // CHECK: attn.aggregate @sum
  // CHECK-SAME: captures(%[[X]] : f32)
  // CHECK: score {
  // CHECK-NEXT: ^bb0(%[[S:.*]]: f32, %{{.*}}: i32, %{{.*}}: i32, %{{.*}}: i32, %{{.*}}: i32, %[[C:.*]]: f32):
  // CHECK-NEXT:   %[[TWO:.*]] = arith.constant 2.0
  // CHECK-NEXT:   %[[A:.*]] = arith.mulf %[[S]], %[[C]]
  // CHECK-NEXT:   %[[B:.*]] = arith.addf %[[A]], %[[C]]
  // CHECK-NEXT:   %[[D:.*]] = arith.subf %[[B]], %[[TWO]]
  // CHECK-NEXT:   attn.yield %[[D]]
  %o = attn.aggregate @sum scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>)
      captures(%x, %unused, %two, %x : f32, tensor<?xf32>, f32, f32)
    score {
    ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32,
         %c0: f32, %c1: tensor<?xf32>, %c2: f32, %c3: f32):
      %0 = arith.mulf %s, %c0 : f32
      %1 = arith.addf %0, %c3 : f32
      %2 = arith.subf %1, %c2 : f32
      attn.yield %2 : f32
    } -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}

// A mask that folds to true and a score that is the dot are dropped, and then
// what only they captured.
// CHECK-LABEL: func.func @regions
func.func @regions(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                   %v: tensor<?x?x?x64xf32>, %x: i32) -> tensor<?x?x?x64xf32> {
  // CHECK: attn.aggregate
  // CHECK-NOT: captures
  // CHECK-NOT: score {
  // CHECK-NOT: mask {
  // CHECK: return
  %o = attn.aggregate @sum scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>) captures(%x : i32)
    score {
    ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32, %c: i32):
      attn.yield %s : f32
    }
    mask {
    ^bb0(%b: i32, %h: i32, %i: i32, %j: i32, %c: i32):
      %live = arith.cmpi sle, %c, %c : i32
      attn.yield %live : i1
    } -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}

// Results that nobody uses: the second of the monoid's own finalize; the first
// of a finalize region, with its operations.
// CHECK-LABEL: func.func @results
func.func @results(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                   %v: tensor<?x?x?x64xf32>)
    -> (tensor<?x?x?x64xf32>, tensor<?x?x?xf32>) {
  // CHECK: %[[O:.*]] = attn.aggregate @sum
  // CHECK-SAME: -> tensor<?x?x?x64xf32>
  %o:2 = attn.aggregate @sum scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32>, tensor<?x?x?xf32>
  // CHECK: %[[N:.*]] = attn.aggregate @sum
  // CHECK: finalize {
  // CHECK-NEXT: ^bb0(%{{.*}}: f32, %[[C:.*]]: f32, %{{.*}}: i32, %{{.*}}: i32, %{{.*}}: i32):
  // CHECK-NEXT:   attn.yield %[[C]] : f32
  // CHECK: -> tensor<?x?x?xf32>
  %n:2 = attn.aggregate @sum scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>)
    finalize {
    ^bb0(%acc: f32, %n: f32, %b: i32, %h: i32, %i: i32):
      %twice = arith.addf %acc, %acc : f32
      attn.yield %twice, %n : f32, f32
    } -> tensor<?x?x?x64xf32>, tensor<?x?x?xf32>
  // CHECK: return %[[O]], %[[N]]
  return %o#0, %n#1 : tensor<?x?x?x64xf32>, tensor<?x?x?xf32>
}

// An op without any use goes altogether.
// CHECK-LABEL: func.func @dead
// CHECK-NEXT: return
func.func @dead(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                %v: tensor<?x?x?x64xf32>) {
  %o = attn.aggregate @sum scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32>
  return
}

// States keep all their results.
// CHECK-LABEL: func.func @states
func.func @states(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                  %v: tensor<?x?x?x64xf32>, %x: f32) -> tensor<4x?x?x?xf32> {
  // CHECK: %[[S:.*]]:2 = attn.partial @sum
  // CHECK-NOT: captures
  // CHECK: return %[[S]]#1
  %s:2 = attn.partial @sum scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>) captures(%x : f32) {splits = 4 : i64}
      -> tensor<4x?x?x?x64xf32>, tensor<4x?x?x?xf32>
  return %s#1 : tensor<4x?x?x?xf32>
}

// A mask that folds to false is one of no keys; with a base, positions may be below 0.
// CHECK-LABEL: func.func @never
func.func @never(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                 %v: tensor<?x?x?x64xf32>, %base: i32)
    -> (tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>) {
  // CHECK: attn.aggregate
  // CHECK: mask {
  // CHECK-NEXT: ^bb0(%{{.*}}: i32, %{{.*}}: i32, %{{.*}}: i32, %[[KEY:.*]]: i32):
  // CHECK-NEXT: %[[ZERO:.*]] = arith.constant 0 : i32
  // CHECK-NEXT: %[[NONE:.*]] = arith.cmpi slt, %[[KEY]], %[[ZERO]] : i32
  // CHECK-NEXT: attn.yield %[[NONE]] : i1
  %o = attn.aggregate @sum scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>)
    mask {
    ^bb0(%b: i32, %h: i32, %i: i32, %j: i32):
      %near = arith.cmpi sle, %i, %j : i32
      %no = arith.constant false
      %both = arith.andi %near, %no : i1
      attn.yield %both : i1
    } -> tensor<?x?x?x64xf32>
  // CHECK: attn.aggregate
  // CHECK: arith.constant false
  // CHECK-NEXT: attn.yield
  %p = attn.aggregate @sum scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>) key_base(%base : i32)
    mask {
    ^bb0(%b: i32, %h: i32, %i: i32, %j: i32):
      %no = arith.constant false
      attn.yield %no : i1
    } -> tensor<?x?x?x64xf32>
  return %o, %p : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>
}
