// RUN: attn-opt %s --split-input-file --verify-diagnostics

func.func @blocks(%q: tensor<?x?x?x64xf16>, %k: tensor<?x?x?x64xf16>) -> tensor<?x?x?x48xf32> {
  // expected-error @below {{expected diagonals in blocks of 32, 64 or 128 keys, but got 48}}
  %s = attn.scores @softmax scores(%q, %k : tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>)
      {attn.diagonals = 48 : i64} -> tensor<?x?x?x48xf32>
  return %s : tensor<?x?x?x48xf32>
}

// -----

func.func @results(%q: tensor<?x?x?x64xf16>, %k: tensor<?x?x?x64xf16>) -> tensor<?x?x?x?xf32> {
  // expected-error @below {{expected results of type 'tensor<?x?x?x128xf32>' or 'tensor<?x?x?xf32>', but got 'tensor<?x?x?x?xf32>'}}
  %s = attn.scores @softmax scores(%q, %k : tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>)
      {attn.diagonals = 128 : i64} -> tensor<?x?x?x?xf32>
  return %s : tensor<?x?x?x?xf32>
}

// -----

func.func @kind(%q: tensor<?x?x?x64xf16>, %k: tensor<?x?x?x64xf16>) -> tensor<?x?x?x?xf32> {
  // expected-error @below {{expected attn.diagonals to be a number of keys (i64) on attn.scores, but got unit on attn.scores}}
  %s = attn.scores @softmax scores(%q, %k : tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>)
      {attn.diagonals} -> tensor<?x?x?x?xf32>
  return %s : tensor<?x?x?x?xf32>
}
