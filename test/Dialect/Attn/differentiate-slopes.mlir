// A cap that is an argument is a number that all pairs have, and so is a head's slope.
// Weights of these are known by one number of the row, too.
//
// RUN: attn-opt %s --attn-import-prelude --attn-check-laws --attn-to-aggregate --canonicalize --attn-differentiate | FileCheck %s

!rows = tensor<?x?x?x16xbf16>

// CHECK-LABEL: func.func @few_backward(
// CHECK: attn.aggregate @few_queries
// CHECK: ^bb0(%[[DOT:.*]]: f32, %[[DP:.*]]: f32, %{{.*}}: i32,
// CHECK: %[[T:.*]] = math.tanh
// CHECK: arith.sitofp
// CHECK: %[[ROW:.*]] = arith.sitofp
// CHECK: %[[KEY:.*]] = arith.sitofp
// CHECK: %[[D:.*]] = arith.subf %[[ROW]], %[[KEY]] : f32
// CHECK: %[[ABS:.*]] = math.absf %[[D]] : f32
// CHECK: %[[X:.*]] = math.fma %[[T]],
// CHECK: %[[Y:.*]] = math.fma %[[ABS]], %{{.*}}, %[[X]] : f32
// CHECK: %[[P:.*]] = math.exp2 %[[Y]] : f32
// CHECK: attn.aggregate @few_keys
func.func @few(%q: !rows, %k: !rows, %v: !rows, %cap: f32, %slopes: tensor<?xf32>)
    -> !rows {
  %o = attn.attention queries(%q : !rows) keys(%k : !rows) values(%v : !rows)
      softcap(%cap) alibi(%slopes : tensor<?xf32>) -> !rows
  return %o : !rows
}
