// mLSTM in its parallel form: keys fade by the gates behind them, and are weighed
// by the exponential of a number of their own, of any size. Sums are kept relative
// to the largest weight so far, whose logarithm is a statistic: two states meet by
// a factor of each, which is a monoid of kind affine.
//
// RUN: attn-run %s --sizes b=2,hq=4,hk=2,sq=70,sk=150 --input f=random:150 --input w=random:150 --check | FileCheck %s
// RUN: attn-run %s --sizes b=1,hq=2,hk=2,sq=40,sk=90 --input f=random:90 --input w=random:90 --device emulator:sm_90a --check | FileCheck %s
// REQUIRES: attn-run
// CHECK: check o: ok

func.func @memory(%q: tensor<?x?x?x16xf32>, %k: tensor<?x?x?x16xf32>,
                 %v: tensor<?x?x?x24xf32>, %f: tensor<?xf32>,
                 %w: tensor<?xf32>) -> tensor<?x?x?x24xf32> {
  %o = attn.aggregate @mlstm
      scores(%q, %k : tensor<?x?x?x16xf32>, tensor<?x?x?x16xf32>)
      values(%v : tensor<?x?x?x24xf32>)
      captures(%f, %w : tensor<?xf32>, tensor<?xf32>)
    score {
    ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32, %gates: tensor<?xf32>,
         %weights: tensor<?xf32>):
      %at = arith.index_cast %j : i32 to index
      %g = tensor.extract %gates[%at] : tensor<?xf32>
      %size = math.absf %g : f32
      %log_gate = arith.negf %size : f32
      %x = tensor.extract %weights[%at] : tensor<?xf32>
      %far = arith.constant 40.0 : f32
      %log_weight = arith.mulf %x, %far : f32
      attn.yield %s, %log_gate, %log_weight : f32, f32, f32
    }
    mask {
    ^bb0(%b: i32, %h: i32, %i: i32, %j: i32, %gates: tensor<?xf32>,
         %weights: tensor<?xf32>):
      %live = arith.cmpi sle, %j, %i : i32
      attn.yield %live : i1
    } -> tensor<?x?x?x24xf32>
  return %o : tensor<?x?x?x24xf32>
}
