// Linear attention with a gate: each key fades by the gates of the keys after
// it. Two dot pairs give the two scores of the monoid, the weight of a key and
// the logarithm of its gate; here -|u.g|, so that gates are at most 1.
//
// RUN: attn-run %s --sizes b=2,hq=4,hk=2,sq=40,sk=40 --check | FileCheck %s
// REQUIRES: attn-run
// CHECK: check o: ok

func.func @gated(%q: tensor<?x?x?x16xf32>, %k: tensor<?x?x?x16xf32>,
                 %u: tensor<?x?x?x4xf32>, %g: tensor<?x?x?x4xf32>,
                 %v: tensor<?x?x?x24xf32>) -> tensor<?x?x?x24xf32> {
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
    }
    finalize {
    ^bb0(%c: f32, %sum: f32, %b: i32, %h: i32, %i: i32):
      attn.yield %sum : f32
    } -> tensor<?x?x?x24xf32>
  return %o : tensor<?x?x?x24xf32>
}
