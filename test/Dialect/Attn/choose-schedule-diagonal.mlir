// RUN: attn-opt %s --attn-import-prelude --attn-set-target=target=sm_90a --attn-choose-schedule | FileCheck %s

// A row that has the key of its own number alone, as where gradients multiply an
// output by its cotangent, is bound by memory: blocks of two warps.
attn.monoid private @sum cocycle stats() components(unit) outputs("dot") {
  lift {
  ^bb0(%s: f32):
    attn.yield %s : f32
  }
  finalize {
  ^bb0(%s: f32):
    attn.yield %s : f32
  }
}

// CHECK: schedule = #attn.schedule<block_q = 32, rows = 16, block_k = 32,
func.func @diagonal(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>) -> tensor<?x?x?xf32> {
  %0 = attn.aggregate @sum scores(%q, %k : tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>)
    mask {
    ^bb0(%b: i32, %h: i32, %i: i32, %j: i32):
      %same = arith.cmpi eq, %i, %j : i32
      attn.yield %same : i1
    } -> tensor<?x?x?xf32>
  return %0 : tensor<?x?x?xf32>
}

// Wide rows: four warps.
// CHECK: schedule = #attn.schedule<block_q = 64, rows = 16, block_k = 64,
func.func @wide(%q: tensor<?x?x?x256xbf16>, %k: tensor<?x?x?x256xbf16>) -> tensor<?x?x?xf32> {
  %0 = attn.aggregate @sum scores(%q, %k : tensor<?x?x?x256xbf16>, tensor<?x?x?x256xbf16>)
    mask {
    ^bb0(%b: i32, %h: i32, %i: i32, %j: i32):
      %same = arith.cmpi eq, %i, %j : i32
      attn.yield %same : i1
    } -> tensor<?x?x?xf32>
  return %0 : tensor<?x?x?xf32>
}
