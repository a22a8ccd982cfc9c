// RUN: attn-opt %s --attn-import-prelude --attn-to-aggregate --canonicalize --attn-choose-schedule --attn-online-form --attn-fold-linear-bias | FileCheck %s
// RUN: attn-opt %s --attn-import-prelude --attn-to-aggregate --canonicalize --attn-choose-schedule --attn-online-form --attn-fold-linear-bias --attn-fold-linear-bias | FileCheck %s

// Scores that grow evenly from key to key; tile-linear.mlir has their kernels.

module attributes {attn.target = "sm_90a"} {

// CHECK-LABEL: @alibi
// CHECK: linear_bias
func.func @alibi(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
                 %v: tensor<?x?x?x128xbf16>, %a: tensor<?xf32>) -> tensor<?x?x?x128xbf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>)
      keys(%k : tensor<?x?x?x128xbf16>) values(%v : tensor<?x?x?x128xbf16>)
      alibi(%a : tensor<?xf32>) {causal = #attn.causal<bottom_right>}
      -> tensor<?x?x?x128xbf16>
  return %o : tensor<?x?x?x128xbf16>
}

// A number of the row alone is the row's, and grows by nothing.
// CHECK-LABEL: @row
// CHECK: linear_bias
func.func @row(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
               %v: tensor<?x?x?x128xbf16>) -> tensor<?x?x?x128xbf16> {
  %o:2 = attn.aggregate @softmax
      scores(%q, %k : tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>)
      values(%v : tensor<?x?x?x128xbf16>) score {
      ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32):
        %x = arith.sitofp %i : i32 to f32
        %y = arith.addf %s, %x : f32
        attn.yield %y : f32
      } -> tensor<?x?x?x128xbf16>, tensor<?x?x?xf32>
  return %o#0 : tensor<?x?x?x128xbf16>
}

// What pairs that are far apart have in common, on one side at least; and a
// function of the distance with a bound, of which only a run tells where.
// CHECK-LABEL: @far
// CHECK: linear_bias
func.func @far(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
               %v: tensor<?x?x?x128xbf16>, %t: tensor<?xf32>) -> tensor<?x?x?x128xbf16> {
  %o:2 = attn.aggregate @softmax
      scores(%q, %k : tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>)
      values(%v : tensor<?x?x?x128xbf16>) captures(%t : tensor<?xf32>) score {
      ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32, %u: tensor<?xf32>):
        %c = arith.constant 64 : i32
        %d = arith.subi %i, %j : i32
        %m = arith.minsi %d, %c : i32
        %at = arith.index_cast %m : i32 to index
        %x = tensor.extract %u[%at] : tensor<?xf32>
        %y = arith.addf %s, %x : f32
        attn.yield %y : f32
      } -> tensor<?x?x?x128xbf16>, tensor<?x?x?xf32>
  return %o#0 : tensor<?x?x?x128xbf16>
}
// CHECK-LABEL: @bounded
// CHECK: linear_bias
func.func @bounded(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
                   %v: tensor<?x?x?x128xbf16>) -> tensor<?x?x?x128xbf16> {
  %o:2 = attn.aggregate @softmax
      scores(%q, %k : tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>)
      values(%v : tensor<?x?x?x128xbf16>) score {
      ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32):
        %c = arith.constant 9.0 : f32
        %d = arith.subi %i, %j : i32
        %f = arith.sitofp %d : i32 to f32
        %r = math.sqrt %f : f32
        %m = arith.minimumf %r, %c : f32
        %y = arith.addf %s, %m : f32
        attn.yield %y : f32
      } -> tensor<?x?x?x128xbf16>, tensor<?x?x?xf32>
  return %o#0 : tensor<?x?x?x128xbf16>
}
}
