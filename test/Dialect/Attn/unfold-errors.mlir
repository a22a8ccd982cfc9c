// What attn.unfold refuses.
//
// RUN: attn-opt %s -split-input-file -verify-diagnostics

func.func @f(%s: tensor<?x?x?xf32>, %v: tensor<?x?x?x16xf32>, %state: tensor<?x?x?x16xf32>, %n: i32) {
  // expected-error @+1 {{'attn.unfold' op expected scores and values of rank 4, but got 'tensor<?x?x?xf32>'}}
  %0 = attn.unfold scores(%s : tensor<?x?x?xf32>) values(%v : tensor<?x?x?x16xf32>) states(%state : tensor<?x?x?x16xf32>) from %n of %n identity {
    %z = arith.constant 0.0 : f32
    attn.yield %z : f32
  } step {
  ^bb0(%s0: f32, %v0: f32, %j: i32, %old: f32):
    attn.yield %old : f32
  } -> tensor<?x?x?x16xf32>
  return
}

// -----

func.func @f(%s: tensor<?x?x?x?xf32>, %v: tensor<?x16xf32>, %state: tensor<?x?x?x16xf32>, %n: i32) {
  // expected-error @+1 {{'attn.unfold' op expected scores and values of rank 4, but got 'tensor<?x16xf32>'}}
  %0 = attn.unfold scores(%s : tensor<?x?x?x?xf32>) values(%v : tensor<?x16xf32>) states(%state : tensor<?x?x?x16xf32>) from %n of %n identity {
    %z = arith.constant 0.0 : f32
    attn.yield %z : f32
  } step {
  ^bb0(%s0: f32, %v0: f32, %j: i32, %old: f32):
    attn.yield %old : f32
  } -> tensor<?x?x?x16xf32>
  return
}

// -----

func.func @f(%s: tensor<?x?x?x?xf32>, %v: tensor<?x?x?x16xf32>, %state: tensor<?x16xf32>, %n: i32) {
  // expected-error @+1 {{'attn.unfold' op expected states to be tensors [b, hq, sq], then [b, hq, sq, dv], but got 'tensor<?x16xf32>' for number 0}}
  %0 = attn.unfold scores(%s : tensor<?x?x?x?xf32>) values(%v : tensor<?x?x?x16xf32>) states(%state : tensor<?x16xf32>) from %n of %n identity {
    %z = arith.constant 0.0 : f32
    attn.yield %z : f32
  } step {
  ^bb0(%s0: f32, %v0: f32, %j: i32, %old: f32):
    attn.yield %old : f32
  } -> tensor<?x16xf32>
  return
}

// -----

func.func @f(%s: tensor<?x?x?x?xf32>, %v: tensor<?x?x?x16xf32>, %state: tensor<?x?x?x?xf32>, %n: i32) {
  // expected-error @+1 {{'attn.unfold' op expected states to have a static number of channels, but got 'tensor<?x?x?x?xf32>'}}
  %0 = attn.unfold scores(%s : tensor<?x?x?x?xf32>) values(%v : tensor<?x?x?x16xf32>) states(%state : tensor<?x?x?x?xf32>) from %n of %n identity {
    %z = arith.constant 0.0 : f32
    attn.yield %z : f32
  } step {
  ^bb0(%s0: f32, %v0: f32, %j: i32, %old: f32):
    attn.yield %old : f32
  } -> tensor<?x?x?x?xf32>
  return
}

// -----

func.func @f(%s: tensor<?x?x?x?xf32>, %v: tensor<?x?x?x16xf32>, %state: tensor<?x?x?x16xf32>, %n: i32, %o: tensor<?xf32>) {
  // expected-error @+1 {{'attn.unfold' op expected outs to be tensors [b, hq, sq], then [b, hq, sq, dv], but got 'tensor<?xf32>' for number 0}}
  %0 = attn.unfold scores(%s : tensor<?x?x?x?xf32>) values(%v : tensor<?x?x?x16xf32>) states(%state : tensor<?x?x?x16xf32>) outs(%o : tensor<?xf32>) from %n of %n identity {
    %z = arith.constant 0.0 : f32
    attn.yield %z : f32
  } step {
  ^bb0(%s0: f32, %v0: f32, %j: i32, %old: f32):
    attn.yield %old : f32
  } -> tensor<?x?x?x16xf32>
  return
}

// -----

func.func @f(%s: tensor<?x?x?x?xf32>, %v: tensor<?x?x?x16xf32>, %state: tensor<?x?x?x16xf32>, %n: i32, %b: tensor<?x?x?xf32>) {
  // expected-error @+1 {{'attn.unfold' op expected behind to have the types of states}}
  %0 = attn.unfold scores(%s : tensor<?x?x?x?xf32>) values(%v : tensor<?x?x?x16xf32>) states(%state : tensor<?x?x?x16xf32>) behind(%b : tensor<?x?x?xf32>) from %n of %n identity {
    %z = arith.constant 0.0 : f32
    attn.yield %z : f32
  } step {
  ^bb0(%s0: f32, %v0: f32, %j: i32, %old: f32):
    attn.yield %old : f32
  } -> tensor<?x?x?x16xf32>
  return
}

// -----

func.func @f(%s: tensor<?x?x?x?xf32>, %v: tensor<?x?x?x16xf32>, %state: tensor<?x?x?x16xf32>, %n: i32, %b: tensor<?x?x?x16xf32>) {
  // expected-error @+1 {{'attn.unfold' op expected regions that go back together with behind}}
  %0 = attn.unfold scores(%s : tensor<?x?x?x?xf32>) values(%v : tensor<?x?x?x16xf32>) states(%state : tensor<?x?x?x16xf32>) behind(%b : tensor<?x?x?x16xf32>) from %n of %n identity {
    %z = arith.constant 0.0 : f32
    attn.yield %z : f32
  } step {
  ^bb0(%s0: f32, %v0: f32, %j: i32, %old: f32):
    attn.yield %old : f32
  } -> tensor<?x?x?x16xf32>
  return
}

// -----

func.func @f(%s: tensor<?x?x?x?xf32>, %v: tensor<?x?x?x16xf32>, %state: tensor<?x?x?x16xf32>, %n: i32) {
  // expected-error @+1 {{'attn.unfold' op expected the last results to have the types of states}}
  %0 = attn.unfold scores(%s : tensor<?x?x?x?xf32>) values(%v : tensor<?x?x?x16xf32>) states(%state : tensor<?x?x?x16xf32>) from %n of %n identity {
    %z = arith.constant 0.0 : f32
    attn.yield %z : f32
  } step {
  ^bb0(%s0: f32, %v0: f32, %j: i32, %old: f32):
    attn.yield %old : f32
  } -> tensor<?x?x?xf32>
  return
}

// -----

func.func @f(%s: tensor<?x?x?x?xf32>, %v: tensor<?x?x?x16xf32>, %state: tensor<?x?x?x16xf32>, %n: i32) {
  // expected-error @+1 {{'attn.unfold' op expected step to take 4 arguments, f32 but for the key's position, but got 3}}
  %0 = attn.unfold scores(%s : tensor<?x?x?x?xf32>) values(%v : tensor<?x?x?x16xf32>) states(%state : tensor<?x?x?x16xf32>) from %n of %n identity {
    %z = arith.constant 0.0 : f32
    attn.yield %z : f32
  } step {
  ^bb0(%s0: f32, %v0: f32, %old: f32):
    attn.yield %old : f32
  } -> tensor<?x?x?x16xf32>
  return
}

// -----

func.func @f(%s: tensor<?x?x?x?xf32>, %v: tensor<?x?x?x16xf32>, %state: tensor<?x?x?x16xf32>, %n: i32) {
  // expected-error @+1 {{'attn.unfold' op expected step to take 4 arguments, f32 but for the key's position, but got 4}}
  %0 = attn.unfold scores(%s : tensor<?x?x?x?xf32>) values(%v : tensor<?x?x?x16xf32>) states(%state : tensor<?x?x?x16xf32>) from %n of %n identity {
    %z = arith.constant 0.0 : f32
    attn.yield %z : f32
  } step {
  ^bb0(%s0: f32, %v0: f32, %j: f32, %old: f32):
    attn.yield %old : f32
  } -> tensor<?x?x?x16xf32>
  return
}

// -----

func.func @f(%s: tensor<?x?x?x?xf32>, %v: tensor<?x?x?x16xf32>, %state: tensor<?x?x?x16xf32>, %n: i32) {
  // expected-error @+1 {{'attn.unfold' op expected step to yield 1 f32}}
  %0 = attn.unfold scores(%s : tensor<?x?x?x?xf32>) values(%v : tensor<?x?x?x16xf32>) states(%state : tensor<?x?x?x16xf32>) from %n of %n identity {
    %z = arith.constant 0.0 : f32
    attn.yield %z : f32
  } step {
  ^bb0(%s0: f32, %v0: f32, %j: i32, %old: f32):
    attn.yield %old, %old : f32, f32
  } -> tensor<?x?x?x16xf32>
  return
}

// -----

func.func @f(%s: tensor<?x?x?x?xf32>, %v: tensor<?x?x?x16xf32>, %state: tensor<?x?x?x16xf32>, %n: i32) {
  // expected-error @+1 {{'attn.unfold' op expected identity to yield 1 f32}}
  %0 = attn.unfold scores(%s : tensor<?x?x?x?xf32>) values(%v : tensor<?x?x?x16xf32>) states(%state : tensor<?x?x?x16xf32>) from %n of %n identity {
    attn.yield
  } step {
  ^bb0(%s0: f32, %v0: f32, %j: i32, %old: f32):
    attn.yield %old : f32
  } -> tensor<?x?x?x16xf32>
  return
}
