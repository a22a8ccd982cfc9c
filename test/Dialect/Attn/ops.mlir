// RUN: attn-opt %s --verify-roundtrip | FileCheck %s

// CHECK-LABEL: attn.monoid @softmax cocycle stats(f32) components(value, unit) outputs("o", "lse")
attn.monoid @softmax cocycle stats(f32) components(value, unit)
    outputs("o", "lse") {
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

// CHECK-LABEL: attn.monoid @distance cocycle
// CHECK: rescale {
// CHECK: shift {
// CHECK-NEXT: ^bb0(%{{.*}}: f32, %{{.*}}: f32, %{{.*}}: f32, %{{.*}}: f32):
// CHECK: lift {
attn.monoid @distance cocycle stats(f32) components(unit, value, unit) {
  identity {
    %e = arith.constant 0xFF800000 : f32
    attn.yield %e : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32):
    %c = arith.maximumf %a, %b : f32
    attn.yield %c : f32
  }
  rescale {
  ^bb0(%from: f32, %to: f32):
    %d = arith.subf %from, %to : f32
    %r = math.exp %d : f32
    attn.yield %r : f32
  }
  shift {
  ^bb0(%from: f32, %to: f32, %sum: f32, %distances: f32):
    %d = arith.subf %from, %to : f32
    %more = arith.mulf %d, %sum : f32
    %moved = arith.addf %distances, %more : f32
    attn.yield %sum, %moved : f32, f32
  }
  lift {
  ^bb0(%s: f32):
    %one = arith.constant 1.0 : f32
    %zero = arith.constant 0.0 : f32
    attn.yield %s, %one, %one, %zero : f32, f32, f32, f32
  }
}

// CHECK-LABEL: func.func @attention
func.func @attention(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                     %v: tensor<?x?x?x64xf32>, %bias: tensor<1x?x?x?xf32>) -> tensor<?x?x?x64xf32> {
  // CHECK: attn.attention queries(%{{.*}}) keys(%{{.*}}) values(%{{.*}}) bias(
  %o = attn.attention queries(%q : tensor<?x?x?x64xf32>)
      keys(%k : tensor<?x?x?x64xf32>) values(%v : tensor<?x?x?x64xf32>)
      bias(%bias : tensor<1x?x?x?xf32>)
      {causal = #attn.causal<bottom_right>} -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}

// CHECK-LABEL: func.func @aggregate
func.func @aggregate(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                     %v: tensor<?x?x?x64xf32>, %scale: f32) -> tensor<?x?x?x64xf32> {
  // CHECK: attn.aggregate @softmax scores(
  // CHECK-SAME: schedule = #attn.schedule<block_q = 256, rows = 32, block_k = 128, splits = 2, loop = masked>
  // CHECK: score {
  // CHECK: mask {
  %o = attn.aggregate @softmax scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>) captures(%scale : f32)
      {schedule = #attn.schedule<block_q = 256, rows = 32, block_k = 128, splits = 2, loop = masked>}
    score {
    ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32, %c: f32):
      %x = arith.mulf %s, %c : f32
      attn.yield %x : f32
    }
    mask {
    ^bb0(%b: i32, %h: i32, %i: i32, %j: i32, %c: f32):
      %live = arith.cmpi sle, %j, %i : i32
      attn.yield %live : i1
    } -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}

// CHECK-LABEL: func.func @states
func.func @states(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                  %v: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
  // CHECK: attn.partial @softmax
  %st:3 = attn.partial @softmax scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>) {splits = 4 : i64}
      -> tensor<4x?x?x?xf32>, tensor<4x?x?x?x64xf32>, tensor<4x?x?x?xf32>
  // CHECK: attn.combine @softmax
  %m, %acc, %l = attn.combine @softmax(%st#0, %st#1, %st#2
      : tensor<4x?x?x?xf32>, tensor<4x?x?x?x64xf32>, tensor<4x?x?x?xf32>)
      -> tensor<?x?x?xf32>, tensor<?x?x?x64xf32>, tensor<?x?x?xf32>
  // CHECK: attn.finalize @softmax
  %o = attn.finalize @softmax(%m, %acc, %l
      : tensor<?x?x?xf32>, tensor<?x?x?x64xf32>, tensor<?x?x?xf32>) -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}

// CHECK-LABEL: func.func @parts
func.func @parts(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                 %v: tensor<?x?x?x64xf32>, %n: index) -> tensor<?x?x?x?xf32> {
  // CHECK: attn.partial @softmax {{.*}} parts(%{{.*}} : index)
  // CHECK-SAME: splits = automatic
  %st:3 = attn.partial @softmax scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>) parts(%n : index)
      {schedule = #attn.schedule<block_q = 64, rows = 64, block_k = 64, splits = automatic>}
      -> tensor<?x?x?x?xf32>, tensor<?x?x?x?x64xf32>, tensor<?x?x?x?xf32>
  return %st#0 : tensor<?x?x?x?xf32>
}

// What is the default is not said.
// CHECK-LABEL: func.func @precision
func.func @precision(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                     %v: tensor<?x?x?x64xf32>) {
  // CHECK: attn.attention {{.*}} {precision = #attn.precision<tf32>}
  %0 = attn.attention queries(%q : tensor<?x?x?x64xf32>)
      keys(%k : tensor<?x?x?x64xf32>) values(%v : tensor<?x?x?x64xf32>)
      {precision = #attn.precision<tf32>} -> tensor<?x?x?x64xf32>
  // CHECK: attn.attention
  // CHECK-NOT: precision
  // CHECK: attn.aggregate @softmax {{.*}} {precision = #attn.precision<tf32>}
  %1 = attn.attention queries(%q : tensor<?x?x?x64xf32>)
      keys(%k : tensor<?x?x?x64xf32>) values(%v : tensor<?x?x?x64xf32>)
      {precision = #attn.precision<ieee>} -> tensor<?x?x?x64xf32>
  %2 = attn.aggregate @softmax
      scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>)
      {precision = #attn.precision<tf32>} -> tensor<?x?x?x64xf32>
  // CHECK: attn.aggregate
  // CHECK-NOT: precision
  // CHECK: return
  %3 = attn.aggregate @softmax
      scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>)
      {precision = #attn.precision<ieee>} -> tensor<?x?x?x64xf32>
  return
}
