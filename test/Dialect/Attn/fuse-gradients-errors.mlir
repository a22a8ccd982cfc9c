// RUN: attn-opt %s --split-input-file --verify-diagnostics --attn-fuse-gradients

// expected-error @+1 {{expected attn.target to be one of}}
module attributes {attn.target = "toaster"} {}

// -----

!rows = tensor<?x?x?x64xf32>
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
func.func @rows(%q: !rows, %k: !rows, %x: !rows) -> (!rows, !rows) {
  // expected-error @+1 {{expected reductions of the same pairs, but their dots are of other rows}}
  %r:2 = attn.fused threads(2) {
    %a = attn.aggregate @sum scores(%q, %k : !rows, !rows) values(%k : !rows) -> !rows
    %b = attn.aggregate @sum scores(%k, %x : !rows, !rows) values(%q : !rows)
        {side = #attn.side<queries>} -> !rows
    attn.yield %a, %b : !rows, !rows
  } : !rows, !rows
  return %r#0, %r#1 : !rows, !rows
}

// -----

!rows = tensor<?x?x?x64xf32>
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
func.func @values(%q: !rows, %k: !rows, %x: !rows) -> (!rows, !rows) {
  // expected-error @+1 {{but a value over keys is no row of the dots}}
  %r:2 = attn.fused threads(2) {
    %a = attn.aggregate @sum scores(%q, %k : !rows, !rows) values(%x : !rows) -> !rows
    %b = attn.aggregate @sum scores(%k, %q : !rows, !rows) values(%q : !rows)
        {side = #attn.side<queries>} -> !rows
    attn.yield %a, %b : !rows, !rows
  } : !rows, !rows
  return %r#0, %r#1 : !rows, !rows
}

// -----

!rows = tensor<?x?x?x64xf32>
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
func.func @weights(%q: !rows, %k: !rows) -> (!rows, !rows) {
  // expected-error @+1 {{but a weight over keys is none over queries}}
  %r:2 = attn.fused threads(2) {
    %a = attn.aggregate @sum scores(%q, %k : !rows, !rows) values(%k : !rows)
      score {
      ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32):
        %x = arith.mulf %s, %s : f32
        attn.yield %x : f32
      } -> !rows
    %b = attn.aggregate @sum scores(%k, %q : !rows, !rows) values(%q : !rows)
      {side = #attn.side<queries>}
      score {
      ^bb0(%s: f32, %b: i32, %h: i32, %j: i32, %i: i32):
        %x = arith.addf %s, %s : f32
        attn.yield %x : f32
      } -> !rows
    attn.yield %a, %b : !rows, !rows
  } : !rows, !rows
  return %r#0, %r#1 : !rows, !rows
}

// -----

// Masks see the row first: of queries over keys, of keys over queries.
!rows = tensor<?x?x?x64xf32>
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
func.func @masks(%q: !rows, %k: !rows) -> (!rows, !rows) {
  // expected-error @+1 {{but their masks are not written alike}}
  %r:2 = attn.fused threads(2) {
    %a = attn.aggregate @sum scores(%q, %k : !rows, !rows) values(%k : !rows)
      mask {
      ^bb0(%b: i32, %h: i32, %i: i32, %j: i32):
        %x = arith.cmpi sle, %j, %i : i32
        attn.yield %x : i1
      } -> !rows
    %b = attn.aggregate @sum scores(%k, %q : !rows, !rows) values(%q : !rows)
      {side = #attn.side<queries>}
      mask {
      ^bb0(%b: i32, %h: i32, %j: i32, %i: i32):
        %x = arith.cmpi sle, %i, %j : i32
        attn.yield %x : i1
      } -> !rows
    attn.yield %a, %b : !rows, !rows
  } : !rows, !rows
  return %r#0, %r#1 : !rows, !rows
}

// -----

!rows = tensor<?x?x?x64xf32>
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
func.func @body(%q: !rows, %k: !rows) -> !rows {
  // expected-error @+1 {{expected a body of two attn.aggregate, over keys and over queries, and attn.yield}}
  %r = attn.fused threads(2) {
    %a = attn.aggregate @sum scores(%q, %k : !rows, !rows) values(%k : !rows) -> !rows
    attn.yield %a : !rows
  } : !rows
  return %r : !rows
}

// -----

!rows = tensor<?x?x?x64xf32>
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
func.func @sums(%q: !rows, %k: !rows) -> (!rows, !rows) {
  // expected-error @+1 {{but the one over queries reads sums of the one over keys}}
  %r:2 = attn.fused threads(2) {
    %a = attn.aggregate @sum scores(%q, %k : !rows, !rows) values(%k : !rows) -> !rows
    %b = attn.aggregate @sum scores(%k, %q : !rows, !rows) values(%a : !rows)
        {side = #attn.side<queries>} -> !rows
    attn.yield %a, %b : !rows, !rows
  } : !rows, !rows
  return %r#0, %r#1 : !rows, !rows
}

// -----

!rows = tensor<?x?x?x64xf32>
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
func.func @sizes_alone(%q: !rows, %k: !rows) -> (!rows, !rows) {
  // expected-error @+1 {{expected turn_sizes and two_kernels together}}
  %r:2 = attn.fused threads(2) {
    %a = attn.aggregate @sum scores(%q, %k : !rows, !rows) values(%k : !rows) -> !rows
    %b = attn.aggregate @sum scores(%k, %q : !rows, !rows) values(%q : !rows)
        {side = #attn.side<queries>} -> !rows
    attn.yield %a, %b : !rows, !rows
  } {turn_sizes = array<i64: 1024, 132, 1, 1>} : !rows, !rows
  return %r#0, %r#1 : !rows, !rows
}

// -----

!rows = tensor<?x?x?x64xf32>
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
func.func @sizes(%q: !rows, %k: !rows) -> (!rows, !rows) {
  // expected-error @+1 {{expected turn_sizes to be positive numbers of queries, of tiles, of heads and of queries of a tile, but got array<i64: 1024, 132>}}
  %r:2 = attn.fused threads(2) {
    %a = attn.aggregate @sum scores(%q, %k : !rows, !rows) values(%k : !rows) -> !rows
    %b = attn.aggregate @sum scores(%k, %q : !rows, !rows) values(%q : !rows)
        {side = #attn.side<queries>} -> !rows
    attn.yield %a, %b : !rows, !rows
  } {turn_sizes = array<i64: 1024, 132>, two_kernels = #attn.schedule<block_q = 64, rows = 64, block_k = 64>} : !rows, !rows
  return %r#0, %r#1 : !rows, !rows
}

// -----

!rows = tensor<?x?x?x64xf32>
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
func.func @attributes(%q: !rows, %k: !rows) -> (!rows, !rows) {
  // expected-error @+1 {{expected attributes that it has, or of a dialect, but got 'any_order'}}
  %r:2 = attn.fused threads(2) {
    %a = attn.aggregate @sum scores(%q, %k : !rows, !rows) values(%k : !rows) -> !rows
    %b = attn.aggregate @sum scores(%k, %q : !rows, !rows) values(%q : !rows)
        {side = #attn.side<queries>} -> !rows
    attn.yield %a, %b : !rows, !rows
  } {any_order} : !rows, !rows
  return %r#0, %r#1 : !rows, !rows
}
