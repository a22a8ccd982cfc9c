// RUN: attn-opt %s --attn-tile -split-input-file -verify-diagnostics
// What scans cannot do on a GPU.

module attributes {attn.target = "sm_90a"} {
func.func @segments(%q: tensor<?x?x?x16xf32>, %k: tensor<?x?x?x16xf32>, %v: tensor<?x?x?x32xf32>) -> tensor<?x?x?x32xf32> {
  // expected-error @+1 {{expected one segment on a GPU, but got 4; a CPU cuts tokens}}
  %o = attn.scan queries(%q : tensor<?x?x?x16xf32>) keys(%k : tensor<?x?x?x16xf32>) values(%v : tensor<?x?x?x32xf32>) {segments = 4 : i64}
      -> tensor<?x?x?x32xf32>
  return %o : tensor<?x?x?x32xf32>
}
}

// -----

module attributes {attn.target = "sm_80"} {
func.func @norms(%q: tensor<?x?x?x16xf32>, %k: tensor<?x?x?x16xf32>, %v: tensor<?x?x?x32xf32>) -> tensor<?x?x?x32xf32> {
  // expected-error @+1 {{expected l2norm without normalize on a GPU; divide queries and keys by their norms first}}
  %o = attn.scan queries(%q : tensor<?x?x?x16xf32>) keys(%k : tensor<?x?x?x16xf32>) values(%v : tensor<?x?x?x32xf32>) {l2norm, normalize}
      -> tensor<?x?x?x32xf32>
  return %o : tensor<?x?x?x32xf32>
}
}
