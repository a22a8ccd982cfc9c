// RUN: attn-opt %s --split-input-file --verify-diagnostics --attn-import-prelude --attn-differentiate

!rows = tensor<?x?x?x16xf32>
func.func @kind(%q: !rows, %k: !rows, %v: !rows) -> !rows {
  // expected-error@+1 {{expected statistics that are added up, to differentiate @gates, which is suffix, but got another combine; take the logarithm of a factor for the statistic}}
  %o = attn.aggregate @gates scores(%q, %k : !rows, !rows) values(%v : !rows)
      -> !rows
  return %o : !rows
}
attn.monoid @gates suffix stats(f32) components(value) outputs("o") {
  identity {
    %one = arith.constant 1.0 : f32
    attn.yield %one : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32):
    %c = arith.mulf %a, %b : f32
    attn.yield %c : f32
  }
  gate {
  ^bb0(%c: f32):
    attn.yield %c : f32
  }
  lift {
  ^bb0(%s: f32):
    %one = arith.constant 1.0 : f32
    %abs = math.absf %s : f32
    %x = arith.addf %abs, %one : f32
    %c = arith.divf %one, %x : f32
    attn.yield %c, %s : f32, f32
  }
  finalize {
  ^bb0(%c: f32, %acc: f32):
    attn.yield %acc : f32
  }
}

// -----

!packed = tensor<?x?x16xf32>
func.func @packed(%q: !packed, %k: !packed, %v: !packed, %cu: tensor<?xi32>)
    -> !packed {
  // expected-error@+1 {{expected sequences that are not packed, to differentiate @alpha_compositing, which is prefix; pad them, with their lengths}}
  %o = attn.aggregate @alpha_compositing scores(%q, %k : !packed, !packed)
      values(%v : !packed) query_source(varlen %cu : tensor<?xi32>)
      key_source(varlen %cu : tensor<?xi32>) -> !packed
  return %o : !packed
}

// -----

// What finalize has is for the row, and not for each block of keys.
!rows = tensor<?x?x?x16xf32>
func.func @finalize(%q: !rows, %k: !rows, %v: !rows, %x: f32) -> !rows {
  // expected-error@+1 {{expected a finalize that reads no input that is differentiated, of @stick_breaking, which is suffix, but got argument 3; leave it out of 'inputs'}}
  %o = attn.aggregate @stick_breaking scores(%q, %k : !rows, !rows) values(%v : !rows)
      captures(%x : f32)
    finalize {
    ^bb0(%c: f32, %acc: f32, %b: i32, %h: i32, %i: i32, %t: f32):
      %y = arith.mulf %acc, %t : f32
      attn.yield %y : f32
    } -> !rows
  return %o : !rows
}

// -----

// A general monoid goes key by key; what is the same for all keys is not known.
!rows = tensor<?x?x?x16xf32>
func.func @general(%q: !rows, %k: !rows, %v: !rows) -> !rows {
  // expected-error@+1 {{expected a finalize that reads no position, to differentiate @maxplus, which is general}}
  %o = attn.aggregate @maxplus scores(%q, %k : !rows, !rows) values(%v : !rows)
    finalize {
    ^bb0(%x: f32, %b: i32, %h: i32, %i: i32):
      %f = arith.sitofp %i : i32 to f32
      %y = arith.addf %x, %f : f32
      attn.yield %y : f32
    } -> !rows
  return %o : !rows
}

// -----

!rows = tensor<?x?x16xf32>
func.func @general_packed(%q: !rows, %k: !rows, %v: !rows, %cu: tensor<?xi32>)
    -> !rows {
  // expected-error@+1 {{expected sequences that are not packed, to differentiate @maxplus, which is general}}
  %o = attn.aggregate @maxplus scores(%q, %k : !rows, !rows)
      values(%v : !rows) query_source(varlen %cu : tensor<?xi32>)
      key_source(varlen %cu : tensor<?xi32>) -> !rows
  return %o : !rows
}

// -----

attn.monoid @shifted general stats() components(value) params(f32) outputs("o") {
  identity {
  ^bb0(%p: f32):
    %ninf = arith.constant 0xFF800000 : f32
    attn.yield %ninf : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32, %p: f32):
    %m = arith.maximumf %a, %b : f32
    attn.yield %m : f32
  }
  lift {
  ^bb0(%s: f32, %v: f32, %j: i32, %p: f32):
    %t = arith.mulf %s, %p : f32
    %x = arith.addf %t, %v : f32
    attn.yield %x : f32
  }
  finalize {
  ^bb0(%x: f32, %p: f32):
    attn.yield %x : f32
  }
}
!rows = tensor<?x?x?x16xf32>
func.func @general_param(%q: !rows, %k: !rows, %v: !rows, %p: f32) -> !rows {
  // expected-error@+1 {{expected parameters that are not differentiated, of @shifted, which is general, but got argument 3; leave it out of 'inputs'}}
  %o = attn.aggregate @shifted params(%p : f32) scores(%q, %k : !rows, !rows)
      values(%v : !rows) -> !rows
  return %o : !rows
}

// -----

// An operation without a rule is named, where it is.
!rows = tensor<?x?x?x16xf32>
func.func @rule(%q: !rows, %k: !rows, %v: !rows) -> !rows {
  %o = attn.aggregate @softmax scores(%q, %k : !rows, !rows) values(%v : !rows)
    score {
    ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32):
      // expected-error@+1 {{expected an operation that has a derivative, but got 'math.copysign'; write it by others of arith and math, or leave the inputs that it depends on out of 'inputs'}}
      %x = math.copysign %s, %s : f32
      attn.yield %x : f32
    } -> !rows
  return %o : !rows
}

// -----

!rows = tensor<?x?x?x16xf32>
func.func @queries(%q: !rows, %k: !rows) -> !rows {
  // expected-error@+1 {{expected a reduction over keys to differentiate, but got one over queries}}
  %o = attn.aggregate @relu_sum scores(%k, %q : !rows, !rows) values(%q : !rows)
      {side = #attn.side<queries>} -> !rows
  return %o : !rows
}

// -----

!rows = tensor<?x?x?x16xf32>
func.func @bases(%q: !rows, %k: !rows, %v: !rows, %j: i32) -> !rows {
  // expected-error@+1 {{expected positions that count from 0; attn-fold-bases writes them so}}
  %o = attn.aggregate @softmax scores(%q, %k : !rows, !rows) values(%v : !rows)
      key_base(%j : i32) -> !rows
  return %o : !rows
}

// -----

!rows = tensor<?x?x?x16xf32>
func.func @pages(%q: !rows, %k: !rows, %v: !rows, %t: tensor<?x?xi32>) -> !rows {
  // expected-error@+1 {{expected dense or packed keys to differentiate, but got paged ones, which are caches for inference}}
  %o = attn.aggregate @softmax scores(%q, %k : !rows, !rows) values(%v : !rows)
      key_source(paged %t : tensor<?x?xi32>) -> !rows
  return %o : !rows
}

// -----

!rows = tensor<?x?x?x16xf32>
func.func @twice(%q: !rows, %k: !rows) -> !rows {
  // expected-error@+1 {{expected each input that is differentiated to be one operand, but got argument 1 twice; pass it twice, and add the gradients}}
  %o = attn.aggregate @softmax scores(%q, %k : !rows, !rows) values(%k : !rows)
      -> !rows
  return %o : !rows
}

// -----

!rows = tensor<?x?x?x16xf32>
func.func @init(%q: !rows, %k: !rows, %v: !rows, %t: tensor<?xf32>) -> !rows {
  // expected-error@+1 {{expected captured inputs that are differentiated to be scalars, or to be read at positions, but argument 3 is read at computed indices, or at several, by init or finalize; leave it out of 'inputs'}}
  %o = attn.aggregate @softmax scores(%q, %k : !rows, !rows) values(%v : !rows)
      captures(%t : tensor<?xf32>)
    init {
    ^bb0(%b: i32, %h: i32, %i: i32, %table: tensor<?xf32>):
      %far = arith.subi %i, %h : i32
      %at = arith.index_cast %far : i32 to index
      %e = tensor.extract %table[%at] : tensor<?xf32>
      %zero = arith.constant 0.0 : f32
      %one = arith.constant 1.0 : f32
      attn.yield %e, %zero, %one : f32, f32, f32
    } -> !rows
  return %o : !rows
}

// -----

// Results are values times factors of their rows.
attn.monoid @squares cocycle stats() components(value) outputs("o") {
  lift {
  ^bb0(%s: f32):
    attn.yield %s : f32
  }
  finalize {
  ^bb0(%acc: f32):
    %o = arith.mulf %acc, %acc : f32
    attn.yield %o : f32
  }
}
!rows = tensor<?x?x?x16xf32>
func.func @nonlinear(%q: !rows, %k: !rows, %v: !rows) -> !rows {
  // expected-error@+1 {{expected result 0 to be a value component times a factor of the row, to be differentiated}}
  %o = attn.aggregate @squares scores(%q, %k : !rows, !rows) values(%v : !rows)
      -> !rows
  return %o : !rows
}

// -----

// A statistic that shows is a maximum.
attn.monoid @minimum cocycle stats(f32) components(unit) outputs("least") {
  identity {
    %inf = arith.constant 0x7F800000 : f32
    attn.yield %inf : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32):
    %m = arith.minimumf %a, %b : f32
    attn.yield %m : f32
  }
  rescale {
  ^bb0(%from: f32, %to: f32):
    %d = arith.subf %to, %from : f32
    %r = math.exp %d : f32
    attn.yield %r : f32
  }
  lift {
  ^bb0(%s: f32):
    %one = arith.constant 1.0 : f32
    attn.yield %s, %one : f32, f32
  }
  finalize {
  ^bb0(%m: f32, %sum: f32):
    attn.yield %m : f32
  }
}
!rows = tensor<?x?x?x16xf32>
func.func @statistic(%q: !rows, %k: !rows) -> tensor<?x?x?xf32> {
  // expected-error@+1 {{expected one statistic that is the maximum of its parts, to differentiate result 0, which changes with it}}
  %o = attn.aggregate @minimum scores(%q, %k : !rows, !rows) -> tensor<?x?x?xf32>
  return %o : tensor<?x?x?xf32>
}

// -----

!rows = tensor<?x?x?x16xf32>
func.func @attention(%q: !rows, %k: !rows, %v: !rows) -> !rows {
  // expected-error@+1 {{expected attn.aggregate to differentiate; attn-to-aggregate makes it}}
  %o = attn.attention queries(%q : !rows) keys(%k : !rows) values(%v : !rows) -> !rows
  return %o : !rows
}

// -----

!rows = tensor<?x?x?x16xf32>
!row = tensor<?x?x?xf32>
// expected-error@+1 {{expected a function that is differentiated to return the results of its attn.aggregate, in order}}
func.func @order(%q: !rows, %k: !rows, %v: !rows) -> (!row, !rows) {
  %o, %lse = attn.aggregate @softmax scores(%q, %k : !rows, !rows) values(%v : !rows)
      -> !rows, !row
  return %lse, %o : !row, !rows
}

// -----

!rows = tensor<?x?x?x16xf32>
func.func @two(%q: !rows, %k: !rows, %v: !rows) -> (!rows, !rows) {
  %o = attn.aggregate @softmax scores(%q, %k : !rows, !rows) values(%v : !rows) -> !rows
  // expected-error@+1 {{expected one attn.aggregate in a function that is differentiated, and no other reduction}}
  %p = attn.aggregate @relu_sum scores(%q, %k : !rows, !rows) values(%v : !rows) -> !rows
  return %o, %p : !rows, !rows
}

// -----

!rows = tensor<?x?x?x16xf32>
func.func @rotary(%q: !rows, %k: !rows, %v: !rows) -> !rows {
  // expected-error@+1 {{expected no 'rotary' to differentiate; gradients go through queries and keys that are rotated before}}
  %o = attn.aggregate @softmax scores(%q, %k : !rows, !rows) values(%v : !rows)
      {rotary = #attn.rotary<8, halves>}
    rotate_keys {
    ^bb0(%x: f32, %y: f32, %b: i32, %h: i32, %n: i32, %c: i32):
      attn.yield %y, %x : f32, f32
    } -> !rows
  return %o : !rows
}
