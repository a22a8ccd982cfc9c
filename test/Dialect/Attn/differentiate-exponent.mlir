// Weights of 16-bit inputs, whose scores are made of dots alone, are known by one
// number of a row: 2^(dot k + number) is the weight times the factor of the row,
// and 0 where a score is -inf without being told so. The scale of dots enters the
// difference that weights are multiplied with.
//
// RUN: sed 's/TYPE/bf16/g; s/BIAS//' %s | attn-opt --attn-import-prelude --attn-check-laws --attn-to-aggregate --canonicalize --attn-differentiate | FileCheck %s
// Where sums may be added in any order, the row keeps what the scale makes of its part.
// RUN: sed 's/TYPE/bf16/g; s/BIAS//; s/-> !rows {/-> !rows attributes {attn.any_order} {/' %s | attn-opt --attn-import-prelude --attn-check-laws --attn-to-aggregate --canonicalize --attn-differentiate | FileCheck %s --check-prefix=ANY
// ANY: attn.aggregate @weigh_rows
// ANY: %[[MINUS:.*]] = arith.constant -2.5{{.*}} : f32
// ANY: %[[SCALED:.*]] = arith.mulf %{{.*}}, %[[MINUS]] : f32
// ANY: attn.yield %{{.*}}, %[[SCALED]], %{{.*}} : f32, f32, f32
// ANY: attn.aggregate @weigh_queries
// ANY: ^bb0(%[[DOT:.*]]: f32, %[[DP:.*]]: f32, %{{.*}}: i32,
// ANY: math.exp2
// ANY: %[[PART:.*]] = tensor.extract
// ANY: math.fma %[[DP]], %{{.*}}, %[[PART]] : f32
// In f32 the rounding of that number would show.
// RUN: sed 's/TYPE/f32/g; s/BIAS//' %s | attn-opt --attn-import-prelude --attn-check-laws --attn-to-aggregate --canonicalize --attn-differentiate | FileCheck %s --check-prefix=PLAIN
// A bias may be so large that it would lose the sum of a row: there are two numbers
// then, the logarithm of the factor and the statistic. A bias of -inf is the mask's
// matter, and no test is left in the pairs.
// RUN: sed 's/TYPE/bf16/g; s/BIAS/bias(%%bias : !bias)/' %s | attn-opt --attn-import-prelude --attn-check-laws --attn-to-aggregate --canonicalize --attn-differentiate --canonicalize | FileCheck %s --check-prefix=BIAS
// BIAS-LABEL: func.func @weigh_backward(
// BIAS: attn.aggregate @weigh_rows
// BIAS: attn.aggregate @weigh_queries
// BIAS: ^bb0(%[[DOT:.*]]: f32, %[[DP:.*]]: f32, %{{.*}}: i32,
// BIAS-NOT: arith.select
// BIAS: %[[SCORE:.*]] = math.fma %[[DOT]], %{{.*}}, %{{.*}} : f32
// BIAS: %[[ABOVE:.*]] = arith.subf %[[SCORE]], %{{.*}} : f32
// BIAS: %[[X:.*]] = math.fma %[[ABOVE]], %{{.*}}, %{{.*}} : f32
// BIAS: %[[P:.*]] = math.exp2 %[[X]] : f32
// BIAS-NOT: arith.select
// BIAS: %[[DIFFERENCE:.*]] = math.fma %[[DP]], %{{.*}}, %{{.*}} : f32
// BIAS: %[[DS:.*]] = arith.mulf %[[DIFFERENCE]], %[[P]] : f32
// BIAS-NEXT: attn.yield %[[DS]] : f32
// PLAIN-LABEL: func.func @weigh_backward(
// PLAIN-NOT: math.exp2
// PLAIN: math.exp
// PLAIN-NOT: math.exp2

!rows = tensor<?x?x?x16xTYPE>
!bias = tensor<?x?x?x?xf32>

// CHECK-LABEL: func.func @weigh_backward(
// CHECK: %[[ROWS:.*]]:3 = attn.aggregate @weigh_rows
// CHECK: %[[EMPTY:.*]] = arith.constant 0xFF800000 : f32
// CHECK: arith.select %{{.*}}, %[[EMPTY]], %{{.*}} : f32
// CHECK: attn.aggregate @weigh_queries
// CHECK-SAME: %[[ROWS]]#2
// CHECK: ^bb0(%[[DOT:.*]]: f32, %[[DP:.*]]: f32, %{{.*}}: i32,
// CHECK: arith.constant 1.44{{.*}} : f32
// CHECK: %[[NUMBER:.*]] = tensor.extract
// CHECK: %[[K:.*]] = arith.constant 0.36{{.*}} : f32
// CHECK: %[[X:.*]] = math.fma %[[DOT]], %[[K]], %[[NUMBER]] : f32
// CHECK: %[[P:.*]] = math.exp2 %[[X]] : f32
// CHECK: %[[DIFFERENCE:.*]] = math.fma %[[DP]], %{{.*}}, %{{.*}} : f32
// CHECK: %[[DS:.*]] = arith.mulf %[[DIFFERENCE]], %[[P]] : f32
// CHECK: attn.yield %[[DS]] : f32
// CHECK: attn.aggregate @weigh_keys
// CHECK: %[[OTHER:.*]] = math.exp2
// CHECK: attn.yield %{{.*}}, %[[OTHER]] : f32, f32
func.func @weigh(%q: !rows, %k: !rows, %v: !rows, %bias: !bias) -> !rows {
  %o = attn.attention queries(%q : !rows) keys(%k : !rows) values(%v : !rows) BIAS -> !rows
  return %o : !rows
}
