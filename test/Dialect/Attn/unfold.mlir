// The largest sum of a score and a value, and its gradient: what attn.unfold says.
//
// RUN: attn-opt %s | attn-opt | FileCheck %s

// CHECK-LABEL: func @largest
func.func @largest(%s: tensor<?x?x?x?xf32>, %v: tensor<?x?x?x16xbf16>, %state: tensor<?x?x?x16xf32>, %first: i32, %keys: i32) -> tensor<?x?x?x16xf32> {
  // CHECK: attn.unfold scores(%{{.*}} : tensor<?x?x?x?xf32>) values(%{{.*}} : tensor<?x?x?x16xbf16>) states(%{{.*}} : tensor<?x?x?x16xf32>) from %{{.*}} of %{{.*}} identity {
  // CHECK: attn.yield %{{.*}} : f32
  // CHECK: } step {
  // CHECK-NEXT: ^bb0(%[[S:.*]]: f32, %[[V:.*]]: f32, %{{.*}}: i32, %[[OLD:.*]]: f32):
  // CHECK-NEXT: %[[SUM:.*]] = arith.addf %[[S]], %[[V]] : f32
  // CHECK-NEXT: %[[NEW:.*]] = arith.maximumf %[[OLD]], %[[SUM]] : f32
  // CHECK-NEXT: attn.yield %[[NEW]] : f32
  // CHECK-NEXT: } -> tensor<?x?x?x16xf32>
  %0 = attn.unfold scores(%s : tensor<?x?x?x?xf32>) values(%v : tensor<?x?x?x16xbf16>) states(%state : tensor<?x?x?x16xf32>) from %first of %keys identity {
    %none = arith.constant 0xFF800000 : f32
    attn.yield %none : f32
  } step {
  ^bb0(%score: f32, %value: f32, %j: i32, %old: f32):
    %sum = arith.addf %score, %value : f32
    %new = arith.maximumf %old, %sum : f32
    attn.yield %new : f32
  } -> tensor<?x?x?x16xf32>
  return %0 : tensor<?x?x?x16xf32>
}

// CHECK-LABEL: func @largest_back
func.func @largest_back(%s: tensor<?x?x?x?xf32>, %v: tensor<?x?x?x16xbf16>, %state: tensor<?x?x?x16xf32>, %behind: tensor<?x?x?x16xf32>, %do: tensor<?x?x?x16xbf16>, %first: i32, %keys: i32) -> (tensor<?x?x?x?xf32>, tensor<?x?x?x16xf32>, tensor<?x?x?x16xf32>) {
  // CHECK: attn.unfold {{.*}} behind(%{{.*}} : tensor<?x?x?x16xf32>) outs(%{{.*}} : tensor<?x?x?x16xbf16>) from
  // CHECK: } back_rows {
  // CHECK-NEXT: ^bb0(%{{.*}}: f32, %{{.*}}: i32):
  // CHECK: } back_channels {
  // CHECK-NEXT: ^bb0(%{{.*}}: f32, %{{.*}}: f32, %{{.*}}: i32, %{{.*}}: f32, %{{.*}}: f32):
  // CHECK: } finish_rows {
  // CHECK-NEXT: attn.yield
  // CHECK-NEXT: } finish_channels {
  // CHECK-NEXT: ^bb0(%{{.*}}: f32, %{{.*}}: f32):
  // CHECK: } -> tensor<?x?x?x?xf32>, tensor<?x?x?x16xf32>, tensor<?x?x?x16xf32>
  %0:3 = attn.unfold scores(%s : tensor<?x?x?x?xf32>) values(%v : tensor<?x?x?x16xbf16>) states(%state : tensor<?x?x?x16xf32>) behind(%behind : tensor<?x?x?x16xf32>) outs(%do : tensor<?x?x?x16xbf16>) from %first of %keys identity {
    %none = arith.constant 0xFF800000 : f32
    attn.yield %none : f32
  } step {
  ^bb0(%score: f32, %value: f32, %j: i32, %old: f32):
    %sum = arith.addf %score, %value : f32
    %new = arith.maximumf %old, %sum : f32
    attn.yield %new : f32
  } back_rows {
  ^bb0(%score: f32, %j: i32):
    %zero = arith.constant 0.0 : f32
    attn.yield %zero : f32
  } back_channels {
  ^bb0(%score: f32, %value: f32, %j: i32, %old: f32, %d: f32):
    %zero = arith.constant 0.0 : f32
    %sum = arith.addf %score, %value : f32
    %stays = arith.cmpf oge, %old, %sum : f32
    %of_old = arith.select %stays, %d, %zero : f32
    %of_sum = arith.select %stays, %zero, %d : f32
    attn.yield %of_sum, %of_sum, %of_old : f32, f32, f32
  } finish_rows {
    attn.yield
  } finish_channels {
  ^bb0(%last: f32, %d: f32):
    attn.yield %d : f32
  } -> tensor<?x?x?x?xf32>, tensor<?x?x?x16xf32>, tensor<?x?x?x16xf32>
  return %0#0, %0#1, %0#2 : tensor<?x?x?x?xf32>, tensor<?x?x?x16xf32>, tensor<?x?x?x16xf32>
}
