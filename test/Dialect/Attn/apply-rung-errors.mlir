// RUN: attn-opt %s --split-input-file --attn-import-prelude --attn-to-aggregate --attn-apply-rung --verify-diagnostics

// A rung that does not go with a reduction says which law it wants.

func.func @general(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                   %v: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
  // expected-error @below {{expected a monoid with the cocycle law, r(a, b) * r(b, c) = r(a, c), which lets all weights of a row be measured from one point, for the rung safe, but @gated_decay is suffix}}
  %o = attn.aggregate @gated_decay
      scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>) {attn.rung = #attn.rung<safe>}
      score {
      ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32):
        attn.yield %s, %s : f32, f32
      } -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}

// -----

func.func @seen(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                %v: tensor<?x?x?x64xf32>)
    -> (tensor<?x?x?x64xf32>, tensor<?x?x?xf32>, tensor<?x?x?xf32>) {
  // expected-error @below {{expected outputs that do not see the point which weights are measured from (gauge invariance of finalize) for the rung lazy, but result 2 of @softmax_max does}}
  %o:3 = attn.aggregate @softmax_max
      scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>) {attn.rung = #attn.rung<lazy>}
      -> tensor<?x?x?x64xf32>, tensor<?x?x?xf32>, tensor<?x?x?xf32>
  return %o#0, %o#1, %o#2 : tensor<?x?x?x64xf32>, tensor<?x?x?xf32>, tensor<?x?x?xf32>
}

// -----

module attributes {attn.target = "cpu-avx2"} {
  func.func @roles(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                   %v: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
    // expected-error @below {{expected a target whose copies and products run beside other work (sm_90a) for the rung fa3, but got cpu-avx2}}
    %o = attn.aggregate @softmax
        scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
        values(%v : tensor<?x?x?x64xf32>) {attn.rung = #attn.rung<fa3>}
        -> tensor<?x?x?x64xf32>
    return %o : tensor<?x?x?x64xf32>
  }
}

// -----

func.func @invariant(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                     %v: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
  // expected-error @below {{expected no batch_invariant for the rung split, whose parts depend on the number of keys}}
  %o = attn.aggregate @softmax
      scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>)
      {batch_invariant, attn.rung = #attn.rung<split>} -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}

// -----

func.func @scheduled(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                     %v: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
  // expected-error @below {{expected no schedule beside attn.rung, which says the tiles}}
  %o = attn.aggregate @softmax
      scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>)
      {schedule = #attn.schedule<block_q = 64, rows = 32, block_k = 64>,
       attn.rung = #attn.rung<online>} -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}

// -----

func.func @elsewhere(%q: tensor<?x64xf32>) -> index {
  // expected-error @below {{expected attn.rung to be #attn.rung on attn.attention or attn.aggregate, but got #attn.rung<safe>}}
  %n = arith.constant {attn.rung = #attn.rung<safe>} 0 : index
  return %n : index
}

// -----

func.func @scores(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>)
    -> tensor<?x?x?x64xf32> {
  // expected-error @below {{expected results of type 'tensor<?x?x?x?xf32>', but got 'tensor<?x?x?x64xf32>'}}
  %s = attn.scores @softmax
      scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      -> tensor<?x?x?x64xf32>
  return %s : tensor<?x?x?x64xf32>
}

// -----

func.func @rotary(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                  %v: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
  // expected-error @below {{expected no 'rotary' for the rung lazy}}
  %o = attn.aggregate @softmax
      scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>)
      {attn.rung = #attn.rung<lazy>, rotary = #attn.rotary<8, halves>}
    rotate_keys {
    ^bb0(%x: f32, %y: f32, %b: i32, %h: i32, %n: i32, %c: i32):
      attn.yield %y, %x : f32, f32
    } -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}
