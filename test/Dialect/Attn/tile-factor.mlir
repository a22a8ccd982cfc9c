// RUN: attn-opt %s --attn-pipeline="until-after=tile target=sm_90a" | FileCheck %s

// The factor of old sums is 1 where the maximum stays: the difference of two
// rounded products.
// CHECK-LABEL: kernel private @narrow_kernel0
// CHECK: tile.dot %{{.*}} transpose_rhs
// CHECK: %[[SCALED:.*]] = arith.mulf %{{.*}}, %[[K:.*]] : f32
// CHECK-NEXT: %[[NEAR:.*]] = arith.negf %[[SCALED]]
// CHECK-NEXT: %[[OFFSET:.*]] = arith.select %{{.*}}, %[[NEAR]], %{{.*}} : f32
// CHECK-NEXT: %[[BEFORE:.*]] = arith.mulf %{{.*}}, %[[K]] : f32
// CHECK-NEXT: %[[CHANGE:.*]] = arith.addf %[[BEFORE]], %[[OFFSET]]
// CHECK-NEXT: math.exp2 %[[CHANGE]]
func.func @narrow(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
                  %v: tensor<?x?x?x128xbf16>) -> tensor<?x?x?x128xbf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>)
      keys(%k : tensor<?x?x?x128xbf16>) values(%v : tensor<?x?x?x128xbf16>)
      -> tensor<?x?x?x128xbf16>
  return %o : tensor<?x?x?x128xbf16>
}

// So it is for wide heads.
// CHECK-LABEL: kernel private @wide_kernel0
// CHECK: tile.dot %{{.*}} transpose_rhs
// CHECK: %[[SCALED:.*]] = arith.mulf %{{.*}}, %[[K:.*]] : f32
// CHECK-NEXT: %[[NEAR:.*]] = arith.negf %[[SCALED]]
// CHECK-NEXT: %[[OFFSET:.*]] = arith.select %{{.*}}, %[[NEAR]], %{{.*}} : f32
// CHECK-NEXT: %[[BEFORE:.*]] = arith.mulf %{{.*}}, %[[K]] : f32
// CHECK-NEXT: %[[CHANGE:.*]] = arith.addf %[[BEFORE]], %[[OFFSET]]
// CHECK-NEXT: math.exp2 %[[CHANGE]]
func.func @wide(%q: tensor<?x?x?x192xbf16>, %k: tensor<?x?x?x192xbf16>,
                %v: tensor<?x?x?x128xbf16>) -> tensor<?x?x?x128xbf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x192xbf16>)
      keys(%k : tensor<?x?x?x192xbf16>) values(%v : tensor<?x?x?x128xbf16>)
      -> tensor<?x?x?x128xbf16>
  return %o : tensor<?x?x?x128xbf16>
}
