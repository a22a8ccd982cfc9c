// What each key gets of the weights of all queries, as caches use it that evict keys
// (H2O): an aggregate over the queries, with the LSE of each row captured. Those of
// all query heads that read a key head are taken together.
//
// RUN: %python %S/Inputs/column-statistics.py %s
// DEFINE: %{run} = attn-run %s --sizes b=2,hk=2,hq=4,sq=70,sk=90 --input lse=random:2x4x70 --check --entry
// RUN: %{run} sums --device emulator:sm_80 | FileCheck %s
// RUN: %{run} largest --device emulator:sm_90a | FileCheck %s
//
// REQUIRES: attn-run, python, libattn.so
// UNSUPPORTED: sanitizer
// CHECK: check o: ok

!rows = tensor<?x?x?x64xf32>
!each = tensor<?x?x?xf32>

// Weights are at most 1 but for rounding.
attn.monoid @weights cocycle stats() components(unit) outputs("o") {
  lift { ^bb0(%s: f32): %zero = arith.constant 0.0 : f32
         %x = arith.minimumf %s, %zero : f32 %w = math.exp %x : f32
         attn.yield %w : f32 }
  finalize { ^bb0(%sum: f32): attn.yield %sum : f32 }
}

attn.monoid @greatest cocycle stats(f32) components(unit) outputs("o") {
  identity { %e = arith.constant 0xFF800000 : f32 attn.yield %e : f32 }
  combine { ^bb0(%a: f32, %b: f32): %c = arith.maximumf %a, %b : f32 attn.yield %c : f32 }
  rescale { ^bb0(%from: f32, %to: f32): %d = arith.subf %from, %to : f32
            %r = math.exp %d : f32 attn.yield %r : f32 }
  lift { ^bb0(%s: f32): %one = arith.constant 1.0 : f32 attn.yield %s, %one : f32, f32 }
  finalize { ^bb0(%c: f32, %n: f32): %w = math.exp %c : f32 attn.yield %w : f32 }
}

func.func @sums(%q: !rows, %k: !rows, %lse: !each) -> !each {
  %o = attn.aggregate @weights scores(%k, %q : !rows, !rows) captures(%lse : !each)
      {side = #attn.side<queries>}
    score {
    ^bb0(%s: f32, %b: i32, %h: i32, %j: i32, %i: i32, %each: !each):
      %eighth = arith.constant 0.125 : f32
      %scaled = arith.mulf %s, %eighth : f32
      %bi = arith.index_cast %b : i32 to index
      %hi = arith.index_cast %h : i32 to index
      %ii = arith.index_cast %i : i32 to index
      %z = tensor.extract %each[%bi, %hi, %ii] : !each
      %x = arith.subf %scaled, %z : f32
      attn.yield %x : f32
    }
    mask {
    ^bb0(%b: i32, %h: i32, %j: i32, %i: i32, %each: !each):
      %live = arith.cmpi sle, %j, %i : i32
      attn.yield %live : i1
    } -> !each
  return %o : !each
}

func.func @largest(%q: !rows, %k: !rows, %lse: !each) -> !each {
  %o = attn.aggregate @greatest scores(%k, %q : !rows, !rows) captures(%lse : !each)
      {side = #attn.side<queries>}
    score {
    ^bb0(%s: f32, %b: i32, %h: i32, %j: i32, %i: i32, %each: !each):
      %eighth = arith.constant 0.125 : f32
      %scaled = arith.mulf %s, %eighth : f32
      %bi = arith.index_cast %b : i32 to index
      %hi = arith.index_cast %h : i32 to index
      %ii = arith.index_cast %i : i32 to index
      %z = tensor.extract %each[%bi, %hi, %ii] : !each
      %x = arith.subf %scaled, %z : f32
      attn.yield %x : f32
    }
    mask {
    ^bb0(%b: i32, %h: i32, %j: i32, %i: i32, %each: !each):
      %live = arith.cmpi sle, %j, %i : i32
      attn.yield %live : i1
    } -> !each
  return %o : !each
}
