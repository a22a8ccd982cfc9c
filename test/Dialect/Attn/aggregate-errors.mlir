// RUN: attn-opt %s --split-input-file --verify-diagnostics

// Each function is named after the constraint of docs/Semantics.md that it
// breaks.

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

func.func @aggregate_c1(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x64xf32>, %v: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected the keys to be a tensor of rank 4 [batch, heads, rows, d], but got}}
  %o = attn.aggregate @sum scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>)
      -> tensor<?x?x?x64xf32>
  return
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

// The second pair disagrees.
func.func @aggregate_c2(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x64xf32>, %r: tensor<?x?x?x32xf32>) {
  // expected-error@+1 {{expected the keys to have the head dimension of the queries, 32, but got 64}}
  %o = attn.aggregate @sum scores(%q, %k, %r, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>, tensor<?x?x?x32xf32>, tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>)
      -> tensor<?x?x?x64xf32>
  return
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

func.func @aggregate_c3(%q: tensor<?x8x?x64xf32>, %k: tensor<?x4x?x64xf32>, %v: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected all queries to have the heads of the first, 8, but got 4}}
  %o = attn.aggregate @sum scores(%q, %k, %k, %k : tensor<?x8x?x64xf32>, tensor<?x4x?x64xf32>, tensor<?x4x?x64xf32>, tensor<?x4x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>)
      -> tensor<?x?x?x64xf32>
  return
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

func.func @aggregate_c4(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x64xf32>, %w: tensor<?x?x?x32xf32>) {
  // expected-error@+1 {{expected all values to have the channels of the first, 64, but got 32}}
  %o = attn.aggregate @sum scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%v, %w : tensor<?x?x?x64xf32>, tensor<?x?x?x32xf32>)
      -> tensor<?x?x?x64xf32>
  return
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

func.func @aggregate_c5(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected side = keys, whose parts are cut, but got queries; reduce them by attn.aggregate}}
  %o = attn.partial @sum scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>) {side = #attn.side<queries>, splits = 2 : i64}
      -> tensor<2x?x?x?x64xf32>
  return
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

func.func @aggregate_fast_exp(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x64xf32>) {
  %o = attn.aggregate @sum scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>)
    score {
    ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32):
      %x = math.exp2 %s fastmath<afn> : f32
      // expected-error@+1 {{in region 'score': expected no fast-math flags (-inf and NaN are values here) but afn, but got fast}}
      %y = math.exp %x fastmath<fast> : f32
      attn.yield %y : f32
    } -> tensor<?x?x?x64xf32>
  return
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

func.func @aggregate_c6(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x64xf32>, %x: f32) {
  // expected-error@+1 {{expected region 'score' to take (f32, i32, i32, i32, i32, f32), but it takes (f32, i32, i32, i32, i32)}}
  %o = attn.aggregate @sum scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>) captures(%x : f32)
    score {
    ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32):
      attn.yield %s : f32
    }
      -> tensor<?x?x?x64xf32>
  return
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

func.func @aggregate_c6(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x64xf32>, %x: f32) {
  %o = attn.aggregate @sum scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>)
    score {
    ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32):
      // expected-error@+1 {{in region 'score': expected operands from inside the region; list what it reads from outside in captures(...)}}
      %y = arith.mulf %s, %x : f32
      attn.yield %y : f32
    } -> tensor<?x?x?x64xf32>
  return
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

func.func @aggregate_c6(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x64xf32>) {
  %o = attn.aggregate @sum scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>)
    score {
    ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32):
      // expected-error@+1 {{in region 'score': expected no fast-math flags (-inf and NaN are values here), but got nnan}}
      %y = arith.addf %s, %s fastmath<nnan> : f32
      attn.yield %y : f32
    } -> tensor<?x?x?x64xf32>
  return
}

// -----

func.func private @g(f32) -> f32

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

func.func @aggregate_c6(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x64xf32>) {
  %o = attn.aggregate @sum scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>)
    score {
    ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32):
      // expected-error@+1 {{in region 'score': expected operations of arith and math, and tensor.extract}}
      %y = func.call @g(%s) : (f32) -> f32
      attn.yield %y : f32
    } -> tensor<?x?x?x64xf32>
  return
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

func.func @aggregate_c6(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x64xf32>) {
  %o = attn.aggregate @sum scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>)
    score {
    ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32):
      // expected-error@+1 {{in region 'score': expected scalar results, but got 'vector<4xf32>'}}
      %y = arith.constant dense<0.0> : vector<4xf32>
      attn.yield %s : f32
    } -> tensor<?x?x?x64xf32>
  return
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

func.func @aggregate_c6(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x64xf32>, %x: tensor<?xf32>) {
  %o = attn.aggregate @sum scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>) captures(%x : tensor<?xf32>)
    score {
    ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32, %t: tensor<?xf32>):
      // expected-error@+1 {{in region 'score': expected operations of arith and math, and tensor.extract}}
      %c = tensor.cast %t : tensor<?xf32> to tensor<4xf32>
      attn.yield %s : f32
    } -> tensor<?x?x?x64xf32>
  return
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

func.func @aggregate_c7(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected region 'mask' to yield (i1), but it yields (i32)}}
  %o = attn.aggregate @sum scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>)
    mask {
    ^bb0(%b: i32, %h: i32, %i: i32, %j: i32):
      attn.yield %j : i32
    }
      -> tensor<?x?x?x64xf32>
  return
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

func.func @aggregate_c8(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected region 'init' to yield 1 f32, but it yields (f32, f32)}}
  %o = attn.aggregate @sum scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>)
    init {
    ^bb0(%b: i32, %h: i32, %i: i32):
      %z = arith.constant 0.0 : f32
      attn.yield %z, %z : f32, f32
    }
      -> tensor<?x?x?x64xf32>
  return
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

func.func @aggregate_c8(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected region 'init' to take (i32, i32, i32), but it takes (i32, i32, i32, i32)}}
  %o = attn.aggregate @sum scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>)
    init {
    ^bb0(%b: i32, %h: i32, %i: i32, %j: i32):
      %z = arith.constant 0.0 : f32
      attn.yield %z : f32
    }
      -> tensor<?x?x?x64xf32>
  return
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

func.func @aggregate_c9(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected 1 values, one for each value component of @sum, but got 2}}
  %o = attn.aggregate @sum scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%v, %v : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      -> tensor<?x?x?x64xf32>
  return
}

// -----

func.func @aggregate_c9(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected a monoid symbol, but '@nothing' is not defined; shipped monoids are: softmax}}
  %o = attn.aggregate @nothing scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>)
      -> tensor<?x?x?x64xf32>
  return
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

func.func @aggregate_c10(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected 1 scores for the lift of @sum, but got dot pairs: 2}}
  %o = attn.aggregate @sum scores(%q, %k, %q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>)
      -> tensor<?x?x?x64xf32>
  return
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

func.func @aggregate_c10(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected 1 scores for the lift of @sum, but region 'score' yields 2}}
  %o = attn.aggregate @sum scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>)
    score {
    ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32):
      attn.yield %s, %s : f32, f32
    }
      -> tensor<?x?x?x64xf32>
  return
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

func.func @aggregate_c11(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected region 'finalize' to take (f32, i32, i32, i32), but it takes (f32)}}
  %o = attn.aggregate @sum scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>)
    finalize {
    ^bb0(%acc: f32):
      attn.yield %acc : f32
    }
      -> tensor<?x?x?x64xf32>
  return
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

func.func @aggregate_c11(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected region 'finalize' to yield 1 f32, but it yields (f32, f32)}}
  %o = attn.aggregate @sum scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>)
    finalize {
    ^bb0(%acc: f32, %b: i32, %h: i32, %i: i32):
      attn.yield %acc, %acc : f32, f32
    }
      -> tensor<?x?x?x64xf32>
  return
}

// -----

attn.monoid private @sum cocycle stats() components(value) {
  lift {
  ^bb0(%s: f32):
    attn.yield %s : f32
  }
}

func.func @aggregate_c11(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected @sum to have a region 'finalize'}}
  %o = attn.aggregate @sum scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>)
      -> tensor<?x?x?x64xf32>
  return
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

func.func @aggregate_c12(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected result 0 to be a tensor like 'tensor<?x?x?x64xf32>', but got 'tensor<?x?x?xf32>'}}
  %o = attn.aggregate @sum scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>)
      -> tensor<?x?x?xf32>
  return
}

// -----

func.func @aggregate_c1(%q: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected scores to list pairs of a query and a key operand with their types, but got 1 operands and 1 types}}
  %o = attn.aggregate @softmax scores(%q : tensor<?x?x?x64xf32>) values(%q : tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32>
  return
}

// -----

func.func @aggregate_c1(%q: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected one or more pairs of queries and keys, but got 0 and 0}}
  %o = "attn.aggregate"(%q) <{monoid = @softmax, operandSegmentSizes = array<i32: 0, 0, 0, 1, 0, 0, 0, 0, 0>}> ({}, {}, {}, {}, {}, {}, {}) : (tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32>
  return
}

// -----

func.func @aggregate_c1(%q: tensor<?x?x64xf32>, %n: tensor<?xi32>) {
  // expected-error@+1 {{expected row offsets of queries and of keys together, but got one of them}}
  %o = attn.aggregate @softmax scores(%q, %q : tensor<?x?x64xf32>, tensor<?x?x64xf32>) values(%q : tensor<?x?x64xf32>)
      query_source(varlen %n : tensor<?xi32>) -> tensor<?x?x64xf32>
  return
}

// -----

func.func @aggregate_c1(%q: tensor<?x?x?x64xf32>, %n: tensor<?xi32>) {
  %o = attn.aggregate @softmax scores(%q, %q : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>) values(%q : tensor<?x?x?x64xf32>)
      // expected-error@+1 {{expected varlen, paged or ring, and then lengths, but got 'pages'}}
      key_source(pages %n : tensor<?xi32>) -> tensor<?x?x?x64xf32>
  return
}

// -----

func.func @aggregate_c1(%q: tensor<?x?x?x64xf32>, %n: tensor<?xi32>) {
  // expected-error@+1 {{expected the table of keys to be a tensor of rank 2, but got 'tensor<?xi32>'}}
  %o = attn.aggregate @softmax scores(%q, %q : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>) values(%q : tensor<?x?x?x64xf32>)
      key_source(paged %n : tensor<?xi32>) -> tensor<?x?x?x64xf32>
  return
}

// -----

func.func @aggregate_c1(%q: tensor<?x?x?x64xf32>, %n: tensor<?xi32>) {
  // expected-error@+1 {{expected queries that are dense or packed; pages, rings and lengths are of keys}}
  %o = attn.aggregate @softmax scores(%q, %q : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>) values(%q : tensor<?x?x?x64xf32>)
      query_source(ring %n : tensor<?xi32>) -> tensor<?x?x?x64xf32>
  return
}

// -----

func.func @aggregate_c1(%q: tensor<?x?x?x64xf32>, %n: tensor<?xi32>) {
  // expected-error@+1 {{expected 2 index operands of the keys, as their source says, but got 1}}
  %o = "attn.aggregate"(%q, %q, %q, %n) <{monoid = @softmax, key_form = #attn.source<ring, lengths = true>, operandSegmentSizes = array<i32: 0, 1, 1, 1, 0, 0, 1, 0, 0>}> ({}, {}, {}, {}, {}, {}, {}) : (tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>, tensor<?xi32>) -> tensor<?x?x?x64xf32>
  return
}

// -----

func.func @aggregate_c15(%q: tensor<2x?x?x64xf32>, %n: tensor<3xi32>) {
  // expected-error@+1 {{expected a base for each batch, but got 'tensor<3xi32>'}}
  %o = attn.aggregate @softmax scores(%q, %q : tensor<2x?x?x64xf32>, tensor<2x?x?x64xf32>) values(%q : tensor<2x?x?x64xf32>)
      key_base(%n : tensor<3xi32>) -> tensor<2x?x?x64xf32>
  return
}

// -----

func.func @aggregate_c6(%q: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected region 'score' to end with attn.yield}}
  %o = attn.aggregate @softmax scores(%q, %q : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>) values(%q : tensor<?x?x?x64xf32>)
      score {
      ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32):
      } -> tensor<?x?x?x64xf32>
  return
}

// -----

func.func @aggregate_c12(%q: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected one or more results}}
  "attn.aggregate"(%q, %q, %q) <{monoid = @softmax, operandSegmentSizes = array<i32: 0, 1, 1, 1, 0, 0, 0, 0, 0>}> ({}, {}, {}, {}, {}, {}, {}) : (tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>) -> ()
  return
}

// -----

func.func @aggregate_c6(%q: tensor<?x?x?x64xf32>) {
  %o = attn.aggregate @softmax scores(%q, %q : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>) values(%q : tensor<?x?x?x64xf32>)
      score {
      ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32):
        %c0 = arith.constant 0 : index
        // expected-error@+1 {{in region 'score': expected a tensor that the region takes as argument}}
        %x = tensor.extract %t[%c0] : tensor<1xf32>
        %t = arith.constant dense<1.0> : tensor<1xf32>
        attn.yield %x : f32
      } -> tensor<?x?x?x64xf32>
  return
}

// -----

func.func @aggregate_c6(%q: tensor<?x?x?x64xf32>, %w: tensor<4xf32>) {
  %o = attn.aggregate @softmax scores(%q, %q : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>) values(%q : tensor<?x?x?x64xf32>) captures(%w : tensor<4xf32>)
      score {
      ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32, %t: tensor<4xf32>):
        // expected-error@+1 {{in region 'score': expected scalar operands, but got 'tensor<4xf32>'}}
        %x = arith.negf %t : tensor<4xf32>
        attn.yield %s : f32
      } -> tensor<?x?x?x64xf32>
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

func.func @aggregate_c16(%q: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected splits = 1 or automatic with batch_invariant}}
  %o = attn.aggregate @sum scores(%q, %q : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%q : tensor<?x?x?x64xf32>)
      {batch_invariant, schedule = #attn.schedule<block_q = 16, rows = 16, block_k = 32, splits = 3>}
      -> tensor<?x?x?x64xf32>
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

func.func @aggregate_c17(%q: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected region 'factor' to take (i32, i32, i32, i32), but it takes (f32, i32, i32, i32, i32)}}
  %o = attn.aggregate @sum scores(%q, %q : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%q : tensor<?x?x?x64xf32>)
    factor {
    ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32):
      attn.yield %s : f32
    } -> tensor<?x?x?x64xf32>
  return
}

// -----

attn.monoid @largest general stats() components(value) outputs("o") {
  identity {
    %ninf = arith.constant 0xFF800000 : f32
    attn.yield %ninf : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32):
    %m = arith.maximumf %a, %b : f32
    attn.yield %m : f32
  }
  lift {
  ^bb0(%s: f32, %v: f32, %j: i32):
    attn.yield %v : f32
  }
  finalize {
  ^bb0(%x: f32):
    attn.yield %x : f32
  }
}

func.func @aggregate_c17_general(%q: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected a region 'factor' with a monoid that sums weighted values (cocycle, suffix or prefix), but @largest is general}}
  %o = attn.aggregate @largest scores(%q, %q : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%q : tensor<?x?x?x64xf32>)
    factor {
    ^bb0(%b: i32, %h: i32, %i: i32, %j: i32):
      %x = arith.sitofp %j : i32 to f32
      attn.yield %x : f32
    } -> tensor<?x?x?x64xf32>
  return
}

// -----

attn.monoid private @sum cocycle stats() components(value, value) outputs("o", "p") {
  lift {
  ^bb0(%s: f32):
    attn.yield %s, %s : f32, f32
  }
  finalize {
  ^bb0(%a: f32, %b: f32):
    attn.yield %a, %b : f32, f32
  }
}

func.func @values_of_one_type(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x64xf32>, %w: tensor<?x?x?x64xbf16>) {
  // expected-error@+1 {{expected all values to have the element type of the first, 'f32', but got 'bf16'}}
  %o:2 = attn.aggregate @sum scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%v, %w : tensor<?x?x?x64xf32>, tensor<?x?x?x64xbf16>)
      -> tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>
  return
}

// -----

func.func @held_samples(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected held_samples with listed_keys only}}
  %o = attn.aggregate @softmax scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>) {held_samples} -> tensor<?x?x?x64xf32>
  return
}

// -----

func.func @cascade(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected cascade and cascade_levels together, and no top-left diagonal}}
  %o = attn.aggregate @softmax scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>) {cascade_levels = 2 : i64} -> tensor<?x?x?x64xf32>
  return
}
