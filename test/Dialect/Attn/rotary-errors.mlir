// RUN: attn-opt %s --split-input-file --verify-diagnostics

// Constraint (C15) of attn.attention and (C18) of attn.aggregate in
// docs/Semantics.md.

func.func @attention_c15(%q: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected 'rotary' to say which channels region 'rotate' turns, such as rotary = #attn.rotary<64, halves>}}
  %o = attn.attention queries(%q : tensor<?x?x?x64xf32>) keys(%q : tensor<?x?x?x64xf32>)
      values(%q : tensor<?x?x?x64xf32>) rotate {
    ^bb0(%x: f32, %y: f32, %b: i32, %h: i32, %n: i32, %c: i32):
      attn.yield %x, %y : f32, f32
    } -> tensor<?x?x?x64xf32>
  return
}

// -----

func.func @attention_c15(%q: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected a region 'rotate' with 'rotary', which turns the channels}}
  %o = attn.attention queries(%q : tensor<?x?x?x64xf32>) keys(%q : tensor<?x?x?x64xf32>)
      values(%q : tensor<?x?x?x64xf32>) {rotary = #attn.rotary<64, halves>}
      -> tensor<?x?x?x64xf32>
  return
}

// -----

func.func @attention_c15(%q: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected a region 'rotate' with rotate_by_slot}}
  %o = attn.attention queries(%q : tensor<?x?x?x64xf32>) keys(%q : tensor<?x?x?x64xf32>)
      values(%q : tensor<?x?x?x64xf32>) {rotate_by_slot} -> tensor<?x?x?x64xf32>
  return
}

// -----

func.func @attention_c15(%q: tensor<?x?x?x64xf32>, %t: tensor<?xf32>) {
  // expected-error@+1 {{expected a region 'rotate' with tables, which it reads}}
  %o = attn.attention queries(%q : tensor<?x?x?x64xf32>) keys(%q : tensor<?x?x?x64xf32>)
      values(%q : tensor<?x?x?x64xf32>) tables(%t : tensor<?xf32>) -> tensor<?x?x?x64xf32>
  return
}

// -----

func.func @attention_c15(%q: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected 'rotary' to turn an even number of channels from 2 to the head dimension 64, but got 66}}
  %o = attn.attention queries(%q : tensor<?x?x?x64xf32>) keys(%q : tensor<?x?x?x64xf32>)
      values(%q : tensor<?x?x?x64xf32>) {rotary = #attn.rotary<66, halves>} rotate {
    ^bb0(%x: f32, %y: f32, %b: i32, %h: i32, %n: i32, %c: i32):
      attn.yield %x, %y : f32, f32
    } -> tensor<?x?x?x64xf32>
  return
}

// -----

func.func @attention_c15(%q: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected 'rotary' to turn an even number of channels from 2 to the head dimension 64, but got 7}}
  %o = attn.attention queries(%q : tensor<?x?x?x64xf32>) keys(%q : tensor<?x?x?x64xf32>)
      values(%q : tensor<?x?x?x64xf32>) {rotary = #attn.rotary<7, interleaved>} rotate {
    ^bb0(%x: f32, %y: f32, %b: i32, %h: i32, %n: i32, %c: i32):
      attn.yield %x, %y : f32, f32
    } -> tensor<?x?x?x64xf32>
  return
}

// -----

func.func @attention_c15(%q: tensor<?x?x?x64xf32>, %t: tensor<?xf32>) {
  // expected-error@+1 {{expected region 'rotate' to take (f32, f32, i32, i32, i32, i32, tensor<?xf32>), but it takes (f32, f32, i32, i32, i32, i32)}}
  %o = attn.attention queries(%q : tensor<?x?x?x64xf32>) keys(%q : tensor<?x?x?x64xf32>)
      values(%q : tensor<?x?x?x64xf32>) tables(%t : tensor<?xf32>)
      {rotary = #attn.rotary<8, halves>} rotate {
    ^bb0(%x: f32, %y: f32, %b: i32, %h: i32, %n: i32, %c: i32):
      attn.yield %x, %y : f32, f32
    } -> tensor<?x?x?x64xf32>
  return
}

// -----

func.func @aggregate_c18(%q: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected region 'rotate_keys' to yield 2 f32, but it yields (f32)}}
  %o = attn.aggregate @softmax scores(%q, %q : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%q : tensor<?x?x?x64xf32>) {rotary = #attn.rotary<8, halves>}
    rotate_keys {
    ^bb0(%x: f32, %y: f32, %b: i32, %h: i32, %n: i32, %c: i32):
      attn.yield %x : f32
    } -> tensor<?x?x?x64xf32>
  return
}

// -----

func.func @aggregate_c18(%q: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected a region 'rotate_queries' or 'rotate_keys' with 'rotary', which turns the channels}}
  %o = attn.aggregate @softmax scores(%q, %q : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%q : tensor<?x?x?x64xf32>) {rotary = #attn.rotary<8, halves>}
      -> tensor<?x?x?x64xf32>
  return
}

// -----

func.func @aggregate_c18(%q: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected one dot pair with 'rotary', but got 2}}
  %o = attn.aggregate @softmax
      scores(%q, %q, %q, %q : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%q : tensor<?x?x?x64xf32>) {rotary = #attn.rotary<8, halves>}
    score {
    ^bb0(%s: f32, %t: f32, %b: i32, %h: i32, %i: i32, %j: i32):
      %u = arith.addf %s, %t : f32
      attn.yield %u : f32
    }
    rotate_keys {
    ^bb0(%x: f32, %y: f32, %b: i32, %h: i32, %n: i32, %c: i32):
      attn.yield %x, %y : f32, f32
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

func.func @aggregate_c18(%q: tensor<?x?x?x64xf32>) {
  // expected-error@+1 {{expected side = keys with 'rotary', but got queries}}
  %o = attn.aggregate @sum scores(%q, %q : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%q : tensor<?x?x?x64xf32>)
      {rotary = #attn.rotary<8, halves>, side = #attn.side<queries>}
    rotate_keys {
    ^bb0(%x: f32, %y: f32, %b: i32, %h: i32, %n: i32, %c: i32):
      attn.yield %x, %y : f32, f32
    } -> tensor<?x?x?x64xf32>
  return
}
