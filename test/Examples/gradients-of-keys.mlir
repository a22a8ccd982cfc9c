// The gradients of keys and values as one reduction over queries: those of all
// query heads of the key's head, which the mask and the score function see, with
// two statistics of each query's row. Two dots, two sums, nothing of a softmax.
//
// RUN: attn-run %s --sizes b=2,hk=2,hq=14,sq=40,sk=70 --input scale=0.25 \
// RUN:   --input lse=random:2x14x40 --input delta=random:2x14x40 --check | FileCheck %s
// RUN: attn-run %s --sizes b=1,hk=1,hq=3,sq=1,sk=1 --input scale=0.25 \
// RUN:   --input lse=random:1x3x1 --input delta=random:1x3x1 --check | FileCheck %s
// REQUIRES: attn-run
// CHECK: check dv: ok
// CHECK: check dk: ok

attn.monoid @dkdv cocycle stats() components(value, value) outputs("dv", "dk") {
  lift {
  ^bb0(%p: f32, %dp: f32):
    %ds = arith.mulf %p, %dp : f32
    attn.yield %p, %ds : f32, f32
  }
  finalize {
  ^bb0(%dv: f32, %dk: f32):
    attn.yield %dv, %dk : f32, f32
  }
}
!rows = tensor<?x?x?x16xf32>
!statistic = tensor<?x?x?xf32>
func.func @gradients(%q: !rows, %k: !rows, %v: !rows, %do: !rows, %lse: !statistic,
                     %delta: !statistic, %scale: f32) -> (!rows, !rows) {
  %dv, %dk = attn.aggregate @dkdv scores(%k, %q, %v, %do : !rows, !rows, !rows, !rows)
      values(%do, %q : !rows, !rows)
      captures(%lse, %delta, %scale : !statistic, !statistic, f32) {side = #attn.side<queries>}
    score {
    ^bb0(%s: f32, %dp: f32, %b: i32, %h: i32, %j: i32, %i: i32, %L: !statistic,
         %D: !statistic, %c: f32):
      %bi = arith.index_cast %b : i32 to index
      %hi = arith.index_cast %h : i32 to index
      %ii = arith.index_cast %i : i32 to index
      %l = tensor.extract %L[%bi, %hi, %ii] : !statistic
      %d = tensor.extract %D[%bi, %hi, %ii] : !statistic
      %x = arith.mulf %s, %c : f32
      %y = arith.subf %x, %l : f32
      %p = math.exp %y : f32
      %e = arith.subf %dp, %d : f32
      attn.yield %p, %e : f32, f32
    }
    mask {
    ^bb0(%b: i32, %h: i32, %j: i32, %i: i32, %L: !statistic, %D: !statistic, %c: f32):
      %live = arith.cmpi sle, %j, %i : i32
      attn.yield %live : i1
    } -> !rows, !rows
  return %dv, %dk : !rows, !rows
}
