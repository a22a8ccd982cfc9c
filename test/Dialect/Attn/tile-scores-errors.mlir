// RUN: attn-opt %s --attn-import-prelude --attn-set-target=target=sm_80 --attn-tile --verify-diagnostics

// A block has a tile of diagonals, as many as it has rows and keys in a step.
func.func @diagonals(%q: tensor<?x?x?x64xf16>, %k: tensor<?x?x?x64xf16>) -> tensor<?x?x?x128xf32> {
  // expected-error @below {{expected block_q and block_k to be 128, as diagonals are, but got 64 and 128}}
  %s = attn.scores @relu_sum scores(%q, %k : tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>)
      {diagonals = 128 : i64, schedule = #attn.schedule<block_q = 64, rows = 16, block_k = 128>}
      -> tensor<?x?x?x128xf32>
  return %s : tensor<?x?x?x128xf32>
}
