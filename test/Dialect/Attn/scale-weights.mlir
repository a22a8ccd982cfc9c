// RUN: attn-opt %s --attn-set-target=target=sm_90a --attn-import-prelude --attn-to-aggregate --attn-scale-weights=explain --attn-check-laws --split-input-file --verify-diagnostics | FileCheck %s
// RUN: attn-opt %s --attn-set-target=target=cpu-avx2 --attn-import-prelude --attn-to-aggregate --attn-scale-weights --split-input-file | FileCheck %s --check-prefix=CPU

// Sums of f16 weights without a statistic are over a power of two of the row.
// The laws hold for the monoids in their place.
// CPU-NOT: monoid {{.*}}_0

// CHECK: attn.monoid private @relu2_sum_0 cocycle stats(f32) components(value) outputs("o")
// CHECK: identity
// CHECK-NEXT: %[[ZERO:.*]] = arith.constant 0.0
// CHECK-NEXT: attn.yield %[[ZERO]]
// CHECK: combine
// CHECK: arith.maximumf
// CHECK: rescale
// CHECK: %[[FROM:.*]] = arith.bitcast %{{.*}} : i32 to f32
// CHECK: %[[TO:.*]] = arith.bitcast %{{.*}} : i32 to f32
// CHECK: arith.divf %[[FROM]], %[[TO]]
// CHECK: lift
// CHECK: %[[W:.*]] = arith.mulf
// CHECK: %[[M:.*]] = math.absf %[[W]]
// CHECK: %[[BITS:.*]] = arith.bitcast %[[M]] : f32 to i32
// CHECK: arith.andi %[[BITS]]
// CHECK: arith.ori
// CHECK: %[[P:.*]] = arith.bitcast {{.*}} : i32 to f32
// CHECK: %[[X:.*]] = arith.divf %[[W]], %[[P]]
// CHECK: attn.yield %[[M]], %[[X]] : f32, f32
// CHECK-LABEL: func.func @squares
// CHECK: attn.aggregate @relu2_sum_0
func.func @squares(%q: tensor<?x?x?x64xf16>, %k: tensor<?x?x?x64xf16>, %v: tensor<?x?x?x64xf16>) -> tensor<?x?x?x64xf16> {
  // expected-remark@+1 {{weights, rounded to f16, are scaled by a power of two for each row}}
  %o = attn.attention monoid(@relu2_sum) queries(%q : tensor<?x?x?x64xf16>) keys(%k : tensor<?x?x?x64xf16>) values(%v : tensor<?x?x?x64xf16>) -> tensor<?x?x?x64xf16>
  return %o : tensor<?x?x?x64xf16>
}

// -----

// None is above 1: one factor, which the values' sum gives back.
// CHECK: attn.monoid private @sigmoid_sum_0 cocycle stats() components(value) outputs("o")
// CHECK: %[[W:.*]] = arith.divf
// CHECK: arith.mulf %[[W]], %{{.*}} : f32
// CHECK: finalize
// CHECK: %[[BACK:.*]] = arith.constant 6.10351563E-5
// CHECK: arith.mulf %arg0, %[[BACK]]
// CHECK-LABEL: func.func @sigmoid
// CHECK: attn.aggregate @sigmoid_sum_0
func.func @sigmoid(%q: tensor<?x?x?x64xf16>, %k: tensor<?x?x?x64xf16>, %v: tensor<?x?x?x64xf16>) -> tensor<?x?x?x64xf16> {
  // expected-remark@+1 {{weights, rounded to f16, are scaled by 2^14, as none is above 1}}
  %o = attn.attention monoid(@sigmoid_sum) queries(%q : tensor<?x?x?x64xf16>) keys(%k : tensor<?x?x?x64xf16>) values(%v : tensor<?x?x?x64xf16>) -> tensor<?x?x?x64xf16>
  return %o : tensor<?x?x?x64xf16>
}

// -----

// Gates fade them: the same factor, behind the statistic.
// CHECK: attn.monoid private @stick_breaking_0 suffix stats(f32) components(value)
// CHECK: lift
// CHECK: %[[W:.*]] = arith.divf
// CHECK: arith.mulf %[[W]], %{{.*}} : f32
// CHECK: finalize
// CHECK: ^bb0(%{{.*}}: f32, %[[ACC:.*]]: f32):
// CHECK: arith.mulf %[[ACC]], %{{.*}} : f32
func.func @fading(%q: tensor<?x?x?x64xf16>, %k: tensor<?x?x?x64xf16>, %v: tensor<?x?x?x64xf16>) -> tensor<?x?x?x64xf16> {
  // expected-remark@+1 {{weights, rounded to f16, are scaled by 2^14, as none is above 1}}
  %o = attn.attention monoid(@stick_breaking) queries(%q : tensor<?x?x?x64xf16>) keys(%k : tensor<?x?x?x64xf16>) values(%v : tensor<?x?x?x64xf16>) -> tensor<?x?x?x64xf16>
  return %o : tensor<?x?x?x64xf16>
}

// -----

// A sum that is no value is scaled with them, and has a power where they are 0.
// A state that is given is measured from 1. Sums may leave out how they begin
// and combine.
attn.monoid private @both cocycle stats() components(value, unit) outputs("o") {
  lift {
  ^bb0(%s: f32):
    %one = arith.constant 1.0 : f32
    attn.yield %s, %one : f32, f32
  }
  finalize {
  ^bb0(%acc: f32, %n: f32):
    %o = arith.addf %acc, %n : f32
    attn.yield %o : f32
  }
}
// CHECK: attn.monoid private @both_0 cocycle stats(f32) components(value, unit) outputs("o")
// CHECK: lift
// CHECK: %[[LEAST:.*]] = arith.constant 5.42101086E-20
// CHECK: arith.maximumf %{{.*}}, %[[LEAST]]
// CHECK: finalize
// CHECK: ^bb0(%{{.*}}: f32, %[[ACC:.*]]: f32, %[[N:.*]]: f32):
// CHECK: %[[P:.*]] = arith.bitcast %{{.*}} : i32 to f32
// CHECK-DAG: arith.mulf %[[ACC]], %[[P]]
// CHECK-DAG: arith.mulf %[[N]], %[[P]]
// CHECK-LABEL: func.func @both_
// CHECK: init
// CHECK: attn.yield %{{.*}}, %{{.*}}, %{{.*}} : f32, f32, f32
func.func @both_(%q: tensor<?x?x?x64xf16>, %k: tensor<?x?x?x64xf16>, %v: tensor<?x?x?x64xf16>) -> tensor<?x?x?x64xf16> {
  // expected-remark@+1 {{weights, rounded to f16, are scaled by a power of two for each row}}
  %o = attn.aggregate @both scores(%q, %k : tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>)
      values(%v : tensor<?x?x?x64xf16>)
      init {
      ^bb0(%b: i32, %h: i32, %i: i32):
        %two = arith.constant 2.0 : f32
        attn.yield %two, %two : f32, f32
      } -> tensor<?x?x?x64xf16>
  return %o : tensor<?x?x?x64xf16>
}

// -----

// CHECK-LABEL: func.func @kept
// CHECK: attn.aggregate @softmax
// CHECK: attn.aggregate @relu_sum scores
func.func @kept(%q: tensor<?x?x?x64xf16>, %k: tensor<?x?x?x64xf16>, %v: tensor<?x?x?x64xf16>,
                %b: tensor<?x?x?x64xbf16>) -> (tensor<?x?x?x64xf16>, tensor<?x?x?x64xbf16>) {
  // expected-remark@+1 {{weights are not scaled: its monoid is no sum without a statistic}}
  %o = attn.attention queries(%q : tensor<?x?x?x64xf16>) keys(%k : tensor<?x?x?x64xf16>) values(%v : tensor<?x?x?x64xf16>) -> tensor<?x?x?x64xf16>
  // expected-remark@+1 {{weights are not scaled: its weights are not rounded to f16}}
  %p = attn.attention monoid(@relu_sum) queries(%b : tensor<?x?x?x64xbf16>) keys(%b : tensor<?x?x?x64xbf16>) values(%b : tensor<?x?x?x64xbf16>) -> tensor<?x?x?x64xbf16>
  return %o, %p : tensor<?x?x?x64xf16>, tensor<?x?x?x64xbf16>
}
