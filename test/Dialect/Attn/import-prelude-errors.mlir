// RUN: attn-opt %s --attn-import-prelude --verify-each=false --split-input-file --verify-diagnostics

// What a use has to be like is known once the monoid is there; the pass asks.

func.func @values(%q: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
  // expected-error @below {{expected 1 values, one for each value component of @softmax, but got 2}}
  %o = attn.attention queries(%q : tensor<?x?x?x64xf32>) keys(%q : tensor<?x?x?x64xf32>) values(%q, %q : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}

// -----

func.func @results(%q: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
  // expected-error @below {{expected at most 2 results, the outputs of @softmax, but got 3}}
  %o:3 = attn.attention queries(%q : tensor<?x?x?x64xf32>) keys(%q : tensor<?x?x?x64xf32>) values(%q : tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32>, tensor<?x?x?xf32>, tensor<?x?x?xf32>
  return %o#0 : tensor<?x?x?x64xf32>
}

// -----

func.func @unused_result(%q: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
  // expected-error @below {{expected result 1 to be a tensor like 'tensor<?x?x?xf32>', but got 'tensor<?x?x?x64xf32>'}}
  %o:2 = attn.attention queries(%q : tensor<?x?x?x64xf32>) keys(%q : tensor<?x?x?x64xf32>) values(%q : tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>
  return %o#0 : tensor<?x?x?x64xf32>
}

// -----

func.func @states(%a: tensor<?x?x?xf32>) -> tensor<?x?x?xf32> {
  // expected-error @below {{expected 3 states, the statistics and components of @softmax, but got 1}}
  %o = attn.finalize @softmax(%a : tensor<?x?x?xf32>) -> tensor<?x?x?xf32>
  return %o : tensor<?x?x?xf32>
}
