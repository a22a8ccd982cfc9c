// The gradient of a scale multiplies a dot with what the other dot has made. The dot
// lies beside its weight until then: registers for fewer keys.
//
// RUN: attn-opt %s --attn-pipeline="target=sm_90a until-after=schedule" | FileCheck %s

!rows = tensor<?x?x?x128xbf16>

attn.monoid @one cocycle stats() components(value) outputs("dq") {
  lift { ^bb0(%ds: f32): attn.yield %ds : f32 }
  finalize { ^bb0(%dq: f32): attn.yield %dq : f32 }
}
attn.monoid @two cocycle stats() components(value, unit) outputs("dq", "dscale") {
  lift { ^bb0(%ds: f32, %x: f32): attn.yield %ds, %x : f32, f32 }
  finalize { ^bb0(%dq: f32, %x: f32): attn.yield %dq, %x : f32, f32 }
}

// CHECK-LABEL: func.func @weight
// CHECK: block_k = 128
func.func @weight(%q: !rows, %k: !rows, %v: !rows, %do: !rows) -> !rows {
  %0 = attn.aggregate @one scores(%q, %k, %do, %v : !rows, !rows, !rows, !rows) values(%k : !rows)
    score {
    ^bb0(%s: f32, %dp: f32, %b: i32, %h: i32, %i: i32, %j: i32):
      %p = math.exp %s : f32
      %ds = arith.mulf %p, %dp : f32
      attn.yield %ds : f32
    } -> !rows
  return %0 : !rows
}

// CHECK-LABEL: func.func @scale
// CHECK: block_k = 112
func.func @scale(%q: !rows, %k: !rows, %v: !rows, %do: !rows) -> (!rows, tensor<?x?x?xf32>) {
  %0:2 = attn.aggregate @two scores(%q, %k, %do, %v : !rows, !rows, !rows, !rows) values(%k : !rows)
    score {
    ^bb0(%s: f32, %dp: f32, %b: i32, %h: i32, %i: i32, %j: i32):
      %p = math.exp %s : f32
      %ds = arith.mulf %p, %dp : f32
      %x = arith.mulf %ds, %s : f32
      attn.yield %ds, %x : f32, f32
    } -> !rows, tensor<?x?x?xf32>
  return %0#0, %0#1 : !rows, tensor<?x?x?xf32>
}
