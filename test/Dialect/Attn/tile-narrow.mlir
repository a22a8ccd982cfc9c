// RUN: attn-opt %s --attn-import-prelude --attn-to-aggregate --attn-split --attn-relax-maximum --attn-guard-dead-scores --attn-online-form --attn-fold-scale --attn-fold-linear-bias --attn-pack-heads --attn-list-key-tiles --attn-tile --tile-expand-stream --canonicalize --cse | FileCheck %s

// Sums that are wanted in f32 of weights that go through bf16: the weight at
// the maximum has to be 1, so the maximum is subtracted before the product.
// CHECK-LABEL: kernel private @wide_kernel0(
// CHECK:         tile.rows 32
// CHECK:           %[[S:.*]] = tile.dot {{.*}} transpose_rhs
// CHECK:           tile.map ins(%{{.*}}, %{{.*}} : !tile.tile<32x1xf32>, !tile.tile<32x1xf32>)
// CHECK:             %[[D:.*]] = arith.addf
// CHECK-NEXT:        %[[E:.*]] = arith.mulf %[[D]]
// CHECK-NEXT:        math.exp2 %[[E]] {tile.least_power = -126 : i32} : f32
// CHECK:           tile.map ins(%[[S]]
// CHECK:             %[[D:.*]] = arith.addf
// CHECK-NEXT:        %[[E:.*]] = arith.mulf %[[D]]
// CHECK-NEXT:        %[[W:.*]] = math.exp2 %[[E]] {tile.least_power = -126 : i32} : f32
// CHECK-NEXT:        arith.truncf %[[W]] : f32 to bf16

// Wanted in bf16, the rounded product is good enough, and one fma. The factor
// of the old sums is the exponential of a difference of rounded products: an
// fma would leave the rounding of one, and of a row whose maximum stays the
// factor is exactly 1.
// CHECK-LABEL: kernel private @narrow_kernel0(
// CHECK:           %[[S:.*]] = tile.dot {{.*}} transpose_rhs
// CHECK:           tile.map ins(%{{.*}}, %{{.*}} : !tile.tile<32x1xf32>, !tile.tile<32x1xf32>)
// CHECK-NEXT:      ^bb0(%{{.*}}: i32, %{{.*}}: i32, %[[OLD:.*]]: f32, %{{.*}}: f32):
// CHECK-NOT:         math.fma
// CHECK:             %[[NEW:.*]] = arith.mulf %{{.*}}, %[[K:.*]] : f32
// CHECK-NEXT:        %[[OFFSET:.*]] = arith.negf %[[NEW]]
// CHECK-NEXT:        %[[BEFORE:.*]] = arith.mulf %[[OLD]], %[[K]] : f32
// CHECK-NEXT:        %[[E:.*]] = arith.addf %[[BEFORE]], %[[OFFSET]] : f32
// CHECK-NEXT:        %[[FACTOR:.*]] = math.exp2 %[[E]] : f32
// CHECK:             tile.yield %{{.*}}, %[[FACTOR]], %[[OFFSET]]
// CHECK:           %[[T:.*]]:3 = scf.if
// CHECK:           tile.map ins(%[[T]]#0
// CHECK:             %[[E:.*]] = math.fma
// CHECK-NEXT:        %[[W:.*]] = math.exp2 %[[E]] fastmath<afn> {tile.least_power = -126 : i32} : f32
// CHECK-NEXT:        arith.truncf %[[W]] : f32 to bf16
module attributes {attn.target = "cpu-amx"} {
func.func @wide(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>,
                %v: tensor<?x?x?x64xbf16>) -> tensor<?x?x?x64xf32> {
  %o = attn.attention queries(%q : tensor<?x?x?x64xbf16>)
      keys(%k : tensor<?x?x?x64xbf16>) values(%v : tensor<?x?x?x64xbf16>)
      {schedule = #attn.schedule<block_q = 64, rows = 32, block_k = 64>}
      -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}
func.func @narrow(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>,
                  %v: tensor<?x?x?x64xbf16>) -> tensor<?x?x?x64xbf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x64xbf16>)
      keys(%k : tensor<?x?x?x64xbf16>) values(%v : tensor<?x?x?x64xbf16>)
      {schedule = #attn.schedule<block_q = 64, rows = 32, block_k = 64>}
      -> tensor<?x?x?x64xbf16>
  return %o : tensor<?x?x?x64xbf16>
}
}
