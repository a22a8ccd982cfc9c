// RUN: attn-opt %s --attn-import-prelude --attn-choose-schedule --attn-guard-dead-scores --attn-online-form --attn-fold-scale --attn-fold-linear-bias --attn-pack-heads --attn-list-key-tiles --attn-tile | FileCheck %s

// States that the caller gives: values may be of 16 bits, and are dropped where
// the factor is 0, whatever they hold.
// CHECK-LABEL: tile.kernel private @given_kernel0(
// CHECK:         tile.load %{{.*}} : memref<?x?x?x?x64xbf16, {{.*}} -> <64x64xf32>
// CHECK:         scf.for
// CHECK:           %[[SCALED:.*]] = arith.mulf %[[FACTOR:.*]], %{{.*}} : f32
// CHECK:           %[[DROPPED:.*]] = arith.cmpf oeq, %[[FACTOR]], %{{.*}} : f32
// CHECK:           arith.select %[[DROPPED]], %{{.*}}, %[[SCALED]] : f32
func.func @given(%m: tensor<?x?x?x?xf32>, %acc: tensor<?x?x?x?x64xbf16>, %l: tensor<?x?x?x?xf32>)
    -> tensor<?x?x?x64xbf16> {
  %c:3 = attn.combine @softmax(%m, %acc, %l : tensor<?x?x?x?xf32>, tensor<?x?x?x?x64xbf16>, tensor<?x?x?x?xf32>)
      -> tensor<?x?x?xf32>, tensor<?x?x?x64xf32>, tensor<?x?x?xf32>
  %o = attn.finalize @softmax(%c#0, %c#1, %c#2 : tensor<?x?x?xf32>, tensor<?x?x?x64xf32>, tensor<?x?x?xf32>)
      -> tensor<?x?x?x64xbf16>
  return %o : tensor<?x?x?x64xbf16>
}

// States that were computed here are 0 where they are empty.
// CHECK-LABEL: tile.kernel private @computed_kernel1(
// CHECK:         scf.for
// CHECK:           %[[LEFT:.*]] = arith.mulf
// CHECK-NEXT:      %[[RIGHT:.*]] = arith.mulf
// CHECK-NEXT:      arith.addf %[[LEFT]], %[[RIGHT]] : f32
func.func @computed(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x64xf32>)
    -> tensor<?x?x?x64xf32> {
  %p:3 = attn.partial @softmax scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>) {splits = 2 : i64}
      -> tensor<2x?x?x?xf32>, tensor<2x?x?x?x64xf32>, tensor<2x?x?x?xf32>
  %c:3 = attn.combine @softmax(%p#0, %p#1, %p#2 : tensor<2x?x?x?xf32>, tensor<2x?x?x?x64xf32>, tensor<2x?x?x?xf32>)
      -> tensor<?x?x?xf32>, tensor<?x?x?x64xf32>, tensor<?x?x?xf32>
  %o = attn.finalize @softmax(%c#0, %c#1, %c#2 : tensor<?x?x?xf32>, tensor<?x?x?x64xf32>, tensor<?x?x?xf32>)
      -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}
