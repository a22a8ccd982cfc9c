// RUN: attn-opt %s --attn-import-prelude --attn-check-laws --attn-to-aggregate --canonicalize --attn-choose-schedule --attn-relax-maximum --attn-fix-anchor --attn-guard-dead-scores --attn-online-form --attn-fold-scale --attn-fold-linear-bias --attn-pack-heads --attn-list-key-tiles --attn-tile --tile-expand-stream --canonicalize --cse | FileCheck %s

// A bias of -inf kills keys, and nothing in the first kernel asks for it: it
// adds the bias, and writes the sums of its rows. The second one, of the tiles
// with a sum that is NaN, has the bias in its mask.

module attributes {attn.target = "sm_90a"} {
// CHECK-LABEL: func.func @biased(
// CHECK: %[[MARKS:.*]] = tile.workspace
// CHECK: tile.launch @biased_kernel0
// CHECK: tile.launch @biased_kernel1
// CHECK-LABEL: kernel private @biased_kernel0
// CHECK: tile.rows 64
// CHECK-NOT: arith.cmpf oeq
// CHECK: %[[SCORE:.*]] = arith.mulf
// CHECK: %[[BIAS:.*]] = memref.load
// CHECK-NEXT: %[[SUM:.*]] = arith.addf %[[SCORE]], %[[BIAS]] : f32
// CHECK-NEXT: tile.yield %[[SUM]] : f32
// CHECK-LABEL: kernel private @biased_kernel1
// CHECK: %[[MARKS:.*]] = tile.load vector
// CHECK: tile.map ins(%[[MARKS]]
// CHECK-NEXT: ^bb0(%{{.*}}, %{{.*}}, %[[MARK:.*]]: f32):
// CHECK: arith.cmpf uno, %[[MARK]], %[[MARK]] : f32
// CHECK: %[[DEAD:.*]] = memref.load
// CHECK: arith.cmpf {{.*}}, %[[DEAD]], %{{.*}} : f32
func.func @biased(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>,
    %v: tensor<?x?x?x64xbf16>, %bias: tensor<1x1x?x?xf32>) -> tensor<?x?x?x64xbf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x64xbf16>) keys(%k : tensor<?x?x?x64xbf16>)
      values(%v : tensor<?x?x?x64xbf16>) bias(%bias : tensor<1x1x?x?xf32>) -> tensor<?x?x?x64xbf16>
  return %o : tensor<?x?x?x64xbf16>
}

// Without values there are no marks: then the test stays, which keeps a dot that
// is NaN from a dead key.
// CHECK-LABEL: kernel private @kept_kernel0
// CHECK: %[[KEPT:.*]] = memref.load
// CHECK: arith.cmpf oeq, %[[KEPT]], %{{.*}} : f32
// CHECK-NOT: @kept_kernel1
func.func @kept(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>,
    %bias: tensor<1x1x?x?xf32>) -> tensor<?x?x?xf32> {
  %lse = attn.attention monoid(@logsumexp) queries(%q : tensor<?x?x?x64xbf16>)
      keys(%k : tensor<?x?x?x64xbf16>) bias(%bias : tensor<1x1x?x?xf32>) -> tensor<?x?x?xf32>
  return %lse : tensor<?x?x?xf32>
}
}
