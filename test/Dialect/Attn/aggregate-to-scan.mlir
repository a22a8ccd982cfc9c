// RUN: attn-opt %s --attn-aggregate-to-scan | FileCheck %s

module attributes {attn.target = "cpu-avx2"} {
attn.monoid @decay suffix stats(f32) components(value) outputs("o") {
  identity {
    %zero = arith.constant 0.0 : f32
    attn.yield %zero : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    attn.yield %c : f32
  }
  gate {
  ^bb0(%c: f32):
    %g = math.exp %c : f32
    attn.yield %g : f32
  }
  lift {
  ^bb0(%s: f32, %log_gate: f32):
    attn.yield %log_gate, %s : f32, f32
  }
  finalize {
  ^bb0(%c: f32, %acc: f32):
    attn.yield %acc : f32
  }
}
attn.monoid @m cocycle stats() components(value) outputs("o") {
  lift {
  ^bb0(%s: f32):
    attn.yield %s : f32
  }
  finalize {
  ^bb0(%acc: f32):
    attn.yield %acc : f32
  }
}

// The gate of a key is the scan's, a captured factor its scale.
// CHECK-LABEL: func.func @decayed(
// CHECK-SAME: %[[Q:.*]]: tensor<?x4x?x16xf32>, %[[K:.*]]: tensor<?x4x?x16xf32>, %[[V:.*]]: tensor<?x4x?x16xf32>, %[[G:.*]]: tensor<?x4x?xf32>, %[[X:.*]]: f32
// CHECK-NOT: attn.aggregate
// CHECK: attn.scan queries(%[[Q]] : {{.*}}) keys(%[[K]] : {{.*}}) values(%[[V]] : {{.*}}) scale(%[[X]]) decay(%[[G]] :
func.func @decayed(%q: tensor<?x4x?x16xf32>, %k: tensor<?x4x?x16xf32>, %v: tensor<?x4x?x16xf32>,
                   %g: tensor<?x4x?xf32>, %x: f32) -> tensor<?x4x?x16xf32> {
  %o = attn.aggregate @decay scores(%q, %k : tensor<?x4x?x16xf32>, tensor<?x4x?x16xf32>)
      values(%v : tensor<?x4x?x16xf32>) captures(%g, %x : tensor<?x4x?xf32>, f32) score {
      ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32, %l: tensor<?x4x?xf32>, %c: f32):
        %b1 = arith.index_cast %b : i32 to index
        %h1 = arith.index_cast %h : i32 to index
        %j1 = arith.index_cast %j : i32 to index
        %y = tensor.extract %l[%b1, %h1, %j1] : tensor<?x4x?xf32>
        %z = arith.mulf %c, %s : f32
        attn.yield %z, %y : f32, f32
      } mask {
      ^bb0(%b: i32, %h: i32, %i: i32, %j: i32, %l: tensor<?x4x?xf32>, %c: f32):
        %live = arith.cmpi sge, %i, %j : i32
        attn.yield %live : i1
      } -> tensor<?x4x?x16xf32>
  return %o : tensor<?x4x?x16xf32>
}

// Gates are those of query heads. How many share a key head is not known, so
// that each has a state of its own.
// CHECK-LABEL: func.func @heads(
// CHECK-NOT: attn.aggregate
// CHECK: attn.scan {{.*}} decay(%{{.*}} : tensor<?x?x?xf32>) {query_states}
func.func @heads(%q: tensor<?x?x?x16xf32>, %k: tensor<?x?x?x16xf32>, %v: tensor<?x?x?x16xf32>,
                 %g: tensor<?x?x?xf32>) -> tensor<?x?x?x16xf32> {
  %o = attn.aggregate @decay scores(%q, %k : tensor<?x?x?x16xf32>, tensor<?x?x?x16xf32>)
      values(%v : tensor<?x?x?x16xf32>) captures(%g : tensor<?x?x?xf32>) score {
      ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32, %l: tensor<?x?x?xf32>):
        %b1 = arith.index_cast %b : i32 to index
        %h1 = arith.index_cast %h : i32 to index
        %j1 = arith.index_cast %j : i32 to index
        %y = tensor.extract %l[%b1, %h1, %j1] : tensor<?x?x?xf32>
        attn.yield %s, %y : f32, f32
      } mask {
      ^bb0(%b: i32, %h: i32, %i: i32, %j: i32, %l: tensor<?x?x?xf32>):
        %live = arith.cmpi sge, %i, %j : i32
        attn.yield %live : i1
      } -> tensor<?x?x?x16xf32>
  return %o : tensor<?x?x?x16xf32>
}

// All keys, and a factor that is known.
// CHECK-LABEL: func.func @all(
// CHECK: %[[HALF:.*]] = arith.constant 5.000000e-01 : f32
// CHECK: attn.scan {{.*}} scale(%[[HALF]]) {whole}
func.func @all(%q: tensor<?x?x?x16xf32>, %k: tensor<?x?x?x16xf32>, %v: tensor<?x?x?x16xf32>)
    -> tensor<?x?x?x16xf32> {
  %o = attn.aggregate @m scores(%q, %k : tensor<?x?x?x16xf32>, tensor<?x?x?x16xf32>)
      values(%v : tensor<?x?x?x16xf32>) score {
      ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32):
        %half = arith.constant 0.5 : f32
        %z = arith.mulf %s, %half : f32
        attn.yield %z : f32
      } -> tensor<?x?x?x16xf32>
  return %o : tensor<?x?x?x16xf32>
}
}
