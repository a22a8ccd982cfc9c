// What else keeps an aggregate with linear weights from being a scan.
// RUN: attn-opt %s --split-input-file --attn-aggregate-to-scan=explain --verify-diagnostics -o /dev/null

!t = tensor<?x4x?x16xf32>
module attributes {attn.target = "cpu-avx2"} {
attn.monoid @sum cocycle stats() components(value) outputs("o") {
  lift {
  ^bb0(%s: f32):
    attn.yield %s : f32
  }
  finalize {
  ^bb0(%acc: f32):
    attn.yield %acc : f32
  }
}
func.func @lengths(%q: !t, %k: !t, %v: !t, %n: tensor<?xi32>) -> !t {
  // expected-remark@+1 {{no scan: its rows or keys are not those of plain tensors}}
  %o = attn.aggregate @sum scores(%q, %k : !t, !t) values(%v : !t)
      key_source(lengths %n : tensor<?xi32>) -> !t
  return %o : !t
}
func.func @base(%q: !t, %k: !t, %v: !t, %first: i32) -> !t {
  // expected-remark@+1 {{no scan: its rows or keys are not those of plain tensors}}
  %o = attn.aggregate @sum scores(%q, %k : !t, !t) values(%v : !t)
      row_base(%first : i32) -> !t
  return %o : !t
}
func.func @init(%q: !t, %k: !t, %v: !t) -> !t {
  // expected-remark@+1 {{no scan: its rows start from states}}
  %o = attn.aggregate @sum scores(%q, %k : !t, !t) values(%v : !t)
    init {
    ^bb0(%b: i32, %h: i32, %i: i32):
      %one = arith.constant 1.0 : f32
      attn.yield %one : f32
    } -> !t
  return %o : !t
}
func.func @rotary(%q: !t, %k: !t, %v: !t) -> !t {
  // expected-remark@+1 {{no scan: it turns channels before its dots}}
  %o = attn.aggregate @sum scores(%q, %k : !t, !t) values(%v : !t)
      {rotary = #attn.rotary<8, halves>}
    rotate_keys {
    ^bb0(%x: f32, %y: f32, %b: i32, %h: i32, %n: i32, %c: i32):
      attn.yield %y, %x : f32, f32
    } -> !t
  return %o : !t
}
func.func @factor(%q: !t, %k: !t, %v: !t) -> !t {
  // expected-remark@+1 {{no scan: it has factors of pairs}}
  %o = attn.aggregate @sum scores(%q, %k : !t, !t) values(%v : !t)
    factor {
    ^bb0(%b: i32, %h: i32, %i: i32, %j: i32):
      %x = arith.sitofp %j : i32 to f32
      attn.yield %x : f32
    } -> !t
  return %o : !t
}
func.func @types(%q: !t, %k: !t, %v: tensor<?x4x?x16xbf16>)
    -> tensor<?x4x?x16xbf16> {
  // expected-remark@+1 {{no scan: queries, keys and values have different types}}
  %o = attn.aggregate @sum scores(%q, %k : !t, !t)
      values(%v : tensor<?x4x?x16xbf16>) -> tensor<?x4x?x16xbf16>
  return %o : tensor<?x4x?x16xbf16>
}
}

// -----

!t = tensor<?x4x?x16xf32>
module attributes {attn.target = "cpu-avx2"} {
attn.monoid @two cocycle stats() components(value, unit) outputs("o") {
  lift {
  ^bb0(%s: f32):
    attn.yield %s, %s : f32, f32
  }
  finalize {
  ^bb0(%acc: f32, %sum: f32):
    attn.yield %acc : f32
  }
}
func.func @mean(%q: !t, %k: !t, %v: !t) -> !t {
  // expected-remark@+1 {{no scan: its monoid is not a sum or a suffix of one value}}
  %o = attn.aggregate @two scores(%q, %k : !t, !t) values(%v : !t) -> !t
  return %o : !t
}
}

// -----

// The gated decay of test/Examples: its gate is a dot.
module attributes {attn.target = "cpu-avx2"} {
attn.monoid @gated_decay suffix stats(f32) components(value) outputs("o") {
  identity {
    %zero = arith.constant 0.0 : f32
    attn.yield %zero : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    attn.yield %c : f32
  }
  gate {
  ^bb0(%c: f32):
    %g = math.exp %c : f32
    attn.yield %g : f32
  }
  lift {
  ^bb0(%s: f32, %log_gate: f32):
    attn.yield %log_gate, %s : f32, f32
  }
  finalize {
  ^bb0(%c: f32, %acc: f32):
    attn.yield %acc : f32
  }
}
func.func @gated(%q: tensor<?x?x?x16xf32>, %k: tensor<?x?x?x16xf32>,
                 %u: tensor<?x?x?x4xf32>, %g: tensor<?x?x?x4xf32>,
                 %v: tensor<?x?x?x24xf32>) -> tensor<?x?x?x24xf32> {
  // expected-remark@+1 {{no scan: it has not one dot, one value and one output}}
  %o = attn.aggregate @gated_decay
      scores(%q, %k, %u, %g : tensor<?x?x?x16xf32>, tensor<?x?x?x16xf32>,
                              tensor<?x?x?x4xf32>, tensor<?x?x?x4xf32>)
      values(%v : tensor<?x?x?x24xf32>)
    score {
    ^bb0(%s: f32, %t: f32, %b: i32, %h: i32, %i: i32, %j: i32):
      %size = math.absf %t : f32
      %log_gate = arith.negf %size : f32
      attn.yield %s, %log_gate : f32, f32
    }
    mask {
    ^bb0(%b: i32, %h: i32, %i: i32, %j: i32):
      %live = arith.cmpi sle, %j, %i : i32
      attn.yield %live : i1
    } -> tensor<?x?x?x24xf32>
  return %o : tensor<?x?x?x24xf32>
}
}
