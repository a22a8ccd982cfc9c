// RUN: attn-opt %s --split-input-file --verify-diagnostics

func.func @blocks(%q: tensor<?x?x?x64xf16>, %k: tensor<?x?x?x64xf16>) -> tensor<?x?x?x48xf32> {
  // expected-error @below {{expected diagonals in blocks of 32, 64 or 128 keys, but got 48}}
  %s = attn.scores @softmax scores(%q, %k : tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>)
      {diagonals = 48 : i64} -> tensor<?x?x?x48xf32>
  return %s : tensor<?x?x?x48xf32>
}

// -----

func.func @results(%q: tensor<?x?x?x64xf16>, %k: tensor<?x?x?x64xf16>) -> tensor<?x?x?x?xf32> {
  // expected-error @below {{expected results of type 'tensor<?x?x?x128xf32>' or 'tensor<?x?x?xf32>', but got 'tensor<?x?x?x?xf32>'}}
  %s = attn.scores @softmax scores(%q, %k : tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>)
      {diagonals = 128 : i64} -> tensor<?x?x?x?xf32>
  return %s : tensor<?x?x?x?xf32>
}

// -----

func.func @kind(%q: tensor<?x?x?x64xf16>, %k: tensor<?x?x?x64xf16>) -> tensor<?x?x?x?xf32> {
  // expected-error @below {{attribute 'diagonals' failed to satisfy constraint: 64-bit signless integer attribute}}
  %s = attn.scores @softmax scores(%q, %k : tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>)
      {diagonals} -> tensor<?x?x?x?xf32>
  return %s : tensor<?x?x?x?xf32>
}

// -----

func.func @decisions(%q: tensor<?x?x?x64xf16>, %k: tensor<?x?x?x64xf16>) -> tensor<?x?x?x?xf32> {
  // expected-error @below {{expected no exponent, listed_keys, part_keys, score_unit, linear_bias, packed_heads, dead_is_zero, dead_by_element or any_order: nothing is reduced}}
  %s = attn.scores @softmax scores(%q, %k : tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>)
      {exponent = #attn.exponent<fused>} -> tensor<?x?x?x?xf32>
  return %s : tensor<?x?x?x?xf32>
}

// -----

func.func @values(%q: tensor<?x?x?x64xf16>, %k: tensor<?x?x?x64xf16>) -> tensor<?x?x?x?xf32> {
  // expected-error @below {{expected no values, and no regions but 'score' and 'mask'}}
  %s = attn.scores @softmax scores(%q, %k : tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>)
      values(%k : tensor<?x?x?x64xf16>) -> tensor<?x?x?x?xf32>
  return %s : tensor<?x?x?x?xf32>
}

// -----

func.func @side(%q: tensor<?x?x?x64xf16>, %k: tensor<?x?x?x64xf16>) -> tensor<?x?x?x?xf32> {
  // expected-error @below {{expected dense queries and keys, and side = keys}}
  %s = attn.scores @softmax scores(%q, %k : tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>)
      {side = #attn.side<queries>} -> tensor<?x?x?x?xf32>
  return %s : tensor<?x?x?x?xf32>
}

// -----

attn.monoid private @sum cocycle stats() components(value) outputs("o") {
  lift {
  ^bb0(%s: f32):
    attn.yield %s : f32
  }
  finalize {
  ^bb0(%acc: f32):
    attn.yield %acc : f32
  }
}

func.func @count(%q: tensor<?x?x?x64xf16>, %k: tensor<?x?x?x64xf16>) {
  // expected-error @below {{expected a result for each score that the lift of @sum takes, 1, but got 2}}
  %s:2 = attn.scores @sum scores(%q, %k : tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>)
      -> tensor<?x?x?x?xf32>, tensor<?x?x?x?xf32>
  return
}
