// RUN: attn-opt %s --split-input-file --verify-diagnostics

// Of reductions over queries. Each function is named after the constraint of
// docs/Semantics.md that it breaks.

attn.monoid private @sum cocycle stats() components(value) outputs("o") {
  lift {
  ^bb0(%s: f32):
    attn.yield %s : f32
  }
  finalize {
  ^bb0(%v: f32):
    attn.yield %v : f32
  }
}

// Over queries the rows are those of keys, of which a group of queries reads one.
func.func @aggregate_c3_queries(%q: tensor<?x4x?x64xf32>, %k: tensor<?x8x?x64xf32>) {
  // expected-error@+1 {{expected the number of query heads to be a multiple of the number of key heads, but got 4 and 8}}
  %o = attn.aggregate @sum scores(%k, %q : tensor<?x8x?x64xf32>, tensor<?x4x?x64xf32>)
      values(%q : tensor<?x4x?x64xf32>) {side = #attn.side<queries>}
      -> tensor<?x8x?x64xf32>
  return
}

// Without the side, keys are taken for the queries.
func.func @aggregate_c3_side(%q: tensor<?x8x?x64xf32>, %k: tensor<?x4x?x64xf32>) {
  // expected-error@+1 {{multiple of the number of key heads, but got 4 and 8; a reduction over the queries of a key head has {side = #attn.side<queries>}}}
  %o = attn.aggregate @sum scores(%k, %q : tensor<?x4x?x64xf32>, tensor<?x8x?x64xf32>)
      values(%q : tensor<?x8x?x64xf32>) -> tensor<?x4x?x64xf32>
  return
}

// -----

attn.monoid private @sum cocycle stats() components(value) outputs("o") {
  lift {
  ^bb0(%s: f32):
    attn.yield %s : f32
  }
  finalize {
  ^bb0(%v: f32):
    attn.yield %v : f32
  }
}

func.func @aggregate_c4_queries(%q: tensor<?x8x7x64xf32>, %k: tensor<?x4x?x64xf32>, %v: tensor<?x8x5x64xf32>) {
  // expected-error@+1 {{expected queries and values to have the same number of rows, 7, but got 5}}
  %o = attn.aggregate @sum scores(%k, %q : tensor<?x4x?x64xf32>, tensor<?x8x7x64xf32>)
      values(%v : tensor<?x8x5x64xf32>) {side = #attn.side<queries>}
      -> tensor<?x4x?x64xf32>
  return
}

// -----

attn.monoid private @sum cocycle stats() components(value) outputs("o") {
  lift {
  ^bb0(%s: f32):
    attn.yield %s : f32
  }
  finalize {
  ^bb0(%v: f32):
    attn.yield %v : f32
  }
}

func.func @aggregate_c12_queries(%q: tensor<?x8x?x64xf32>, %k: tensor<?x4x?x64xf32>) {
  // expected-error@+1 {{expected result 0 to be a tensor like 'tensor<?x4x?x64xf32>', but got 'tensor<?x8x?x64xf32>'}}
  %o = attn.aggregate @sum scores(%k, %q : tensor<?x4x?x64xf32>, tensor<?x8x?x64xf32>)
      values(%q : tensor<?x8x?x64xf32>) {side = #attn.side<queries>}
      -> tensor<?x8x?x64xf32>
  return
}

// -----

attn.monoid private @sum cocycle stats() components(value) outputs("o") {
  lift {
  ^bb0(%s: f32):
    attn.yield %s : f32
  }
  finalize {
  ^bb0(%v: f32):
    attn.yield %v : f32
  }
}

func.func @aggregate_c1_queries(%q: tensor<?x8x?x64xf32>, %k: tensor<?x4x?x64xf32>, %t: tensor<?x?xi32>) {
  // expected-error@+1 {{expected keys that are dense or packed; pages, rings and lengths are of queries}}
  %o = attn.aggregate @sum scores(%k, %q : tensor<?x4x?x64xf32>, tensor<?x8x?x64xf32>)
      values(%q : tensor<?x8x?x64xf32>)
      query_source(paged %t : tensor<?x?xi32>) {side = #attn.side<queries>}
      -> tensor<?x4x?x64xf32>
  return
}

// -----

attn.monoid private @sum cocycle stats() components(value) outputs("o") {
  lift {
  ^bb0(%s: f32):
    attn.yield %s : f32
  }
  finalize {
  ^bb0(%v: f32):
    attn.yield %v : f32
  }
}

func.func @aggregate_c1_queries(%q: tensor<?x8x?x64xf32>, %k: tensor<?x4x?x64xf32>, %n: tensor<?xi32>) {
  // expected-error@+1 {{expected keys that are dense or packed; pages, rings and lengths are of queries}}
  %o = attn.aggregate @sum scores(%k, %q : tensor<?x4x?x64xf32>, tensor<?x8x?x64xf32>)
      values(%q : tensor<?x8x?x64xf32>)
      query_source(lengths %n : tensor<?xi32>) {side = #attn.side<queries>}
      -> tensor<?x4x?x64xf32>
  return
}

// -----

attn.monoid private @sum cocycle stats() components(value) outputs("o") {
  lift {
  ^bb0(%s: f32):
    attn.yield %s : f32
  }
  finalize {
  ^bb0(%v: f32):
    attn.yield %v : f32
  }
}

func.func @aggregate_c1_queries(%q: tensor<?x8x?x64xf32>, %k: tensor<?x4x?x64xf32>, %n: tensor<?xi32>) {
  // expected-error@+1 {{expected the table of queries to be a tensor of rank 2}}
  %o = attn.aggregate @sum scores(%k, %q : tensor<?x4x?x64xf32>, tensor<?x8x?x64xf32>)
      values(%q : tensor<?x8x?x64xf32>)
      key_source(paged %n : tensor<?xi32>) {side = #attn.side<queries>}
      -> tensor<?x4x?x64xf32>
  return
}
