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

func.func @partial_c13(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected splits to be positive, but got 0}}
  %o = attn.partial @sum scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>) {splits = 0 : i64}
      -> tensor<?x?x?x?x64xf32>
  return
}

func.func @partial_c13_granule(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected granule to be positive, but got 0}}
  %o = attn.partial @sum scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>) {splits = 2 : i64, granule = 0 : i64}
      -> tensor<2x?x?x?x64xf32>
  return
}

func.func @partial_c13_none(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected either splits or parts, but got none}}
  %o = attn.partial @sum scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>)
      -> tensor<?x?x?x?x64xf32>
  return
}

func.func @partial_c13_both(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x64xf32>, %n: index) {
  // expected-error@+1 {{expected either splits or parts, but got both}}
  %o = attn.partial @sum scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>) parts(%n : index) {splits = 2 : i64}
      -> tensor<?x?x?x?x64xf32>
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

func.func @partial_c14(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected result 0 to be a tensor like 'tensor<4x?x?x?x64xf32>', but got 'tensor<5x?x?x?x64xf32>'}}
  %o = attn.partial @sum scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>) {splits = 4 : i64}
      -> tensor<5x?x?x?x64xf32>
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

func.func @partial_c14(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected 1 results, the statistics and components of @sum, but got 2}}
  %o:2 = attn.partial @sum scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>) {splits = 4 : i64}
      -> tensor<4x?x?x?x64xf32>, tensor<4x?x?x?xf32>
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

func.func @combine_c1(%x0: tensor<4x?x?x?x64xf32>) {
  // expected-error@+1 {{expected as many results as states, 1, but got 2}}
  %o:2 = attn.combine @sum(%x0 : tensor<4x?x?x?x64xf32>) -> tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>
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

func.func @combine_c2(%x0: tensor<4x?x?x?x64xf32>, %x1: tensor<4x?x?x?x64xf32>) {
  // expected-error@+1 {{expected 1 states, the statistics and components of @sum, but got 2}}
  %o:2 = attn.combine @sum(%x0, %x1 : tensor<4x?x?x?x64xf32>, tensor<4x?x?x?x64xf32>) -> tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>
  return
}

// -----

attn.monoid @softmax cocycle stats(f32) components(value, unit)
    outputs("o", "lse") {
  identity {
    %ninf = arith.constant 0xFF800000 : f32
    attn.yield %ninf : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32):
    %m = arith.maximumf %a, %b : f32
    attn.yield %m : f32
  }
  rescale {
  ^bb0(%from: f32, %to: f32):
    %d = arith.subf %from, %to : f32
    %r = math.exp %d : f32
    attn.yield %r : f32
  }
  lift {
  ^bb0(%s: f32):
    %one = arith.constant 1.0 : f32
    attn.yield %s, %one, %one : f32, f32, f32
  }
  finalize {
  ^bb0(%m: f32, %acc: f32, %sum: f32):
    %zero = arith.constant 0.0 : f32
    %empty = arith.cmpf oeq, %sum, %zero : f32
    %quot = arith.divf %acc, %sum : f32
    %o = arith.select %empty, %zero, %quot : f32
    %log = math.log %sum : f32
    %lse = arith.addf %m, %log : f32
    attn.yield %o, %lse : f32, f32
  }
}

func.func @combine_c2(%x0: tensor<4x?x?x?xf32>, %x1: tensor<3x?x?x?x64xf32>, %x2: tensor<4x?x?x?xf32>) {
  // expected-error@+1 {{expected state 1 to be a tensor like 'tensor<4x?x?x?x64xf32>', but got 'tensor<3x?x?x?x64xf32>'}}
  %o:3 = attn.combine @softmax(%x0, %x1, %x2 : tensor<4x?x?x?xf32>, tensor<3x?x?x?x64xf32>, tensor<4x?x?x?xf32>) -> tensor<?x?x?xf32>, tensor<?x?x?x64xf32>, tensor<?x?x?xf32>
  return
}

// -----

attn.monoid @softmax cocycle stats(f32) components(value, unit)
    outputs("o", "lse") {
  identity {
    %ninf = arith.constant 0xFF800000 : f32
    attn.yield %ninf : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32):
    %m = arith.maximumf %a, %b : f32
    attn.yield %m : f32
  }
  rescale {
  ^bb0(%from: f32, %to: f32):
    %d = arith.subf %from, %to : f32
    %r = math.exp %d : f32
    attn.yield %r : f32
  }
  lift {
  ^bb0(%s: f32):
    %one = arith.constant 1.0 : f32
    attn.yield %s, %one, %one : f32, f32, f32
  }
  finalize {
  ^bb0(%m: f32, %acc: f32, %sum: f32):
    %zero = arith.constant 0.0 : f32
    %empty = arith.cmpf oeq, %sum, %zero : f32
    %quot = arith.divf %acc, %sum : f32
    %o = arith.select %empty, %zero, %quot : f32
    %log = math.log %sum : f32
    %lse = arith.addf %m, %log : f32
    attn.yield %o, %lse : f32, f32
  }
}

func.func @combine_c2_narrow(%x0: tensor<4x?x?x?xbf16>, %x1: tensor<4x?x?x?x64xbf16>, %x2: tensor<4x?x?x?xf32>) {
  // expected-error@+1 {{expected state 0, one per row, to be of f32, but got 'tensor<4x?x?x?xbf16>'}}
  %m, %acc, %l = attn.combine @softmax(%x0, %x1, %x2 : tensor<4x?x?x?xbf16>, tensor<4x?x?x?x64xbf16>, tensor<4x?x?x?xf32>) -> tensor<?x?x?xf32>, tensor<?x?x?x64xf32>, tensor<?x?x?xf32>
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

func.func @combine_c3(%x0: tensor<4x?x?x?x64xf32>) {
  // expected-error@+1 {{expected result 0 to be a tensor like 'tensor<?x?x?x64xf32>', but got 'tensor<?x?x?x32xf32>'}}
  %o = attn.combine @sum(%x0 : tensor<4x?x?x?x64xf32>) -> tensor<?x?x?x32xf32>
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

func.func @combine_c3(%x0: tensor<4x?x?x?x64xf32>) {
  // expected-error@+1 {{expected result 0 to be of f32, but got 'tensor<?x?x?x64xbf16>'}}
  %o = attn.combine @sum(%x0 : tensor<4x?x?x?x64xf32>) -> tensor<?x?x?x64xbf16>
  return
}

// -----

attn.monoid @softmax cocycle stats(f32) components(value, unit)
    outputs("o", "lse") {
  identity {
    %ninf = arith.constant 0xFF800000 : f32
    attn.yield %ninf : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32):
    %m = arith.maximumf %a, %b : f32
    attn.yield %m : f32
  }
  rescale {
  ^bb0(%from: f32, %to: f32):
    %d = arith.subf %from, %to : f32
    %r = math.exp %d : f32
    attn.yield %r : f32
  }
  lift {
  ^bb0(%s: f32):
    %one = arith.constant 1.0 : f32
    attn.yield %s, %one, %one : f32, f32, f32
  }
  finalize {
  ^bb0(%m: f32, %acc: f32, %sum: f32):
    %zero = arith.constant 0.0 : f32
    %empty = arith.cmpf oeq, %sum, %zero : f32
    %quot = arith.divf %acc, %sum : f32
    %o = arith.select %empty, %zero, %quot : f32
    %log = math.log %sum : f32
    %lse = arith.addf %m, %log : f32
    attn.yield %o, %lse : f32, f32
  }
}

func.func @finalize_c2(%x0: tensor<?x?x?xf32>) {
  // expected-error@+1 {{expected 3 states, the statistics and components of @softmax, but got 1}}
  %o = attn.finalize @softmax(%x0 : tensor<?x?x?xf32>) -> tensor<?x?x?xf32>
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

func.func @finalize_c3(%x0: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected region 'finalize' to take (f32, i32, i32, i32), but it takes ()}}
  %o = attn.finalize @sum(%x0 : tensor<?x?x?x64xf32>)
    finalize {
      %z = arith.constant 0.0 : f32
      attn.yield %z : f32
    } -> tensor<?x?x?xf32>
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

func.func @finalize_c4(%x0: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected result 0 to be a tensor like 'tensor<?x?x?x64xf32>', but got 'tensor<?x?x64xf32>'}}
  %o = attn.finalize @sum(%x0 : tensor<?x?x?x64xf32>) -> tensor<?x?x64xf32>
  return
}

// -----

func.func @combine_c1() {
  // expected-error@+1 {{expected one or more states}}
  "attn.combine"() <{monoid = @softmax, operandSegmentSizes = array<i32: 0, 0, 0, 0>}> : () -> ()
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

func.func @combine_c2(%a: tensor<?xf32>) {
  // expected-error@+1 {{expected state 0 to be a ranked tensor over rows, but got 'tensor<?xf32>'}}
  %o = attn.combine @sum(%a : tensor<?xf32>) -> tensor<?xf32>
  return
}

// -----

func.func @finalize_c1() {
  // expected-error@+1 {{expected one or more states}}
  %o = "attn.finalize"() <{monoid = @sum, operandSegmentSizes = array<i32: 0, 0, 0>}> ({}) : () -> tensor<?x?x?x64xf32>
  return
}

// -----

func.func @finalize_c1(%a: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected one or more results}}
  "attn.finalize"(%a) <{monoid = @sum, operandSegmentSizes = array<i32: 1, 0, 0>}> ({}) : (tensor<?x?x?x64xf32>) -> ()
  return
}

// -----

func.func @finalize_c3(%a: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected region 'finalize' to end with attn.yield}}
  %o = attn.finalize @sum(%a : tensor<?x?x?x64xf32>) finalize {
  ^bb0(%v: f32, %b: i32, %h: i32, %i: i32):
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

func.func @finalize_c2(%a: tensor<?x?x?x?xf32>) {
  // expected-error@+1 {{expected the channels of state 0 to be static, but got 'tensor<?x?x?x?xf32>'}}
  %o = attn.finalize @sum(%a : tensor<?x?x?x?xf32>) -> tensor<?x?x?x?xf32>
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

func.func @finalize_c4(%a: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected the channels of result 0 to be static, but got 'tensor<?x?x?x?xf32>'}}
  %o = attn.finalize @sum(%a : tensor<?x?x?x64xf32>) -> tensor<?x?x?x?xf32>
  return
}

// -----

func.func @partial_decisions(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected listed_keys, part_keys, dead_is_zero, dead_by_element and any_order on attn.aggregate only}}
  %o:3 = attn.partial @softmax scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>) {splits = 4 : i64, any_order}
      -> tensor<4x?x?x?xf32>, tensor<4x?x?x?x64xf32>, tensor<4x?x?x?xf32>
  return
}
