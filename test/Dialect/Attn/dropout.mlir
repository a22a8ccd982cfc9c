// RUN: attn-opt %s --attn-import-prelude --attn-to-aggregate --canonicalize | FileCheck %s --check-prefix=AGGREGATE
// RUN: attn-opt %s --attn-import-prelude --attn-to-aggregate --canonicalize --attn-set-target="target=cpu-avx2" --attn-choose-schedule --attn-fold-bases --attn-split --attn-guard-dead-scores --attn-online-form --attn-fold-scale --attn-fold-linear-bias --attn-pack-heads --attn-list-key-tiles --attn-tile | FileCheck %s --check-prefix=TILE
// RUN: attn-opt %s --verify-roundtrip -o %t

// The scores and the monoid are those without dropout; a factor of the values
// comes beside them. Ten rounds of Philox make the state of the head, and ten the
// words of a pair; the monoid's sum takes the weights without the factor.
// AGGREGATE-LABEL: func.func @dropout(
// AGGREGATE:         attn.aggregate @softmax
// AGGREGATE:         score {
// AGGREGATE-NOT:       xori
// AGGREGATE:         factor {
// AGGREGATE-NEXT:    ^bb0(%[[B:.*]]: i32, %[[H:.*]]: i32, %[[I:.*]]: i32, %[[J:.*]]: i32,
// AGGREGATE:           arith.extui %{{.*}} : i32 to i64
// AGGREGATE-COUNT-80:  arith.xori
// AGGREGATE-NOT:       arith.xori
// AGGREGATE:           arith.cmpi uge
// AGGREGATE:           attn.yield %{{.*}} : f32
// AGGREGATE:         finalize {

// TILE-LABEL: func.func @dropout(
// TILE:       tile.kernel private @dropout_kernel0
// The head's part is computed before the key tiles.
// TILE:         arith.xori
// TILE:         tile.stream
// TILE:           %[[W:.*]] = tile.map ins({{.*}}#
// TILE:             math.exp2 {{.*}}least_power
// TILE:           tile.reduce ins(%[[W]]
// TILE:           tile.map ins(%[[W]]
// TILE:             arith.andi %{{.*}}, %c-64_i32
// TILE:             arith.xori
// TILE:             arith.cmpi uge
func.func @dropout(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                   %v: tensor<?x?x?x64xf32>, %p: f32, %s0: i32, %s1: i32,
                   %o0: i32, %o1: i32)
    -> (tensor<?x?x?x64xf32>, tensor<?x?x?xf32>) {
  %o:2 = attn.attention queries(%q : tensor<?x?x?x64xf32>)
      keys(%k : tensor<?x?x?x64xf32>) values(%v : tensor<?x?x?x64xf32>)
      dropout(%p, %s0, %s1, %o0, %o1)
      -> tensor<?x?x?x64xf32>, tensor<?x?x?xf32>
  return %o#0, %o#1 : tensor<?x?x?x64xf32>, tensor<?x?x?xf32>
}

// A factor of 1 is none.
// AGGREGATE-LABEL: func.func @one(
// AGGREGATE-NOT:     factor
// AGGREGATE:         return
func.func @one(%q: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
  %o = attn.aggregate @softmax scores(%q, %q : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%q : tensor<?x?x?x64xf32>)
    factor {
    ^bb0(%b: i32, %h: i32, %i: i32, %j: i32):
      %c = arith.constant 1.0 : f32
      attn.yield %c : f32
    } -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}
