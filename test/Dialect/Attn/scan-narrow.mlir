// RUN: attn-opt %s --attn-pipeline="until-after=tile target=cpu-avx512-bf16" | FileCheck %s
// RUN: attn-opt %s --attn-pipeline="until-after=tile target=cpu-avx2" | FileCheck %s --check-prefix=WIDE

// Products that outputs alone are made of are of bf16: the state and the weights
// of a chunk are rounded for them. What the state is made of is not, nor are the
// weights of what a delta rule writes.
// CHECK-LABEL: tile.kernel private @gated_kernel0(
// CHECK:         %{{.*}} = scf.for {{.*}} iter_args(%[[STATE:.*]] = %{{.*}}) -> (!tile.tile<64x32xf32>)
// CHECK:           tile.dot %{{.*}}, %[[STATE]] : !tile.tile<32x64xf32>, !tile.tile<64x32xf32>
// CHECK:           %[[WRITTEN:.*]] = tile.solve
// CHECK:           %[[NARROW_STATE:.*]] = tile.map ins(%[[STATE]]
// CHECK:           %[[OLD:.*]] = tile.dot %[[Q:.*]], %[[NARROW_STATE]] : !tile.tile<32x64xbf16>, !tile.tile<64x32xbf16>
// CHECK:           tile.dot %{{.*}}, %[[WRITTEN]] acc %[[OLD]] scale %{{.*}} : !tile.tile<32x32xf32>, !tile.tile<32x32xf32>
// CHECK:           tile.dot %{{.*}}, %[[WRITTEN]] acc %[[STATE]] scale %{{.*}} transpose_lhs : !tile.tile<32x64xf32>, !tile.tile<32x32xf32>
// WIDE-NOT:      bf16>, !tile.tile
func.func @gated(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x32xbf16>,
                 %g: tensor<?x?x?xf32>, %b: tensor<?x?x?xf32>, %c: f32) -> tensor<?x?x?x32xbf16> {
  %o = attn.scan queries(%q : tensor<?x?x?x64xbf16>) keys(%k : tensor<?x?x?x64xbf16>)
      values(%v : tensor<?x?x?x32xbf16>) scale(%c) decay(%g : tensor<?x?x?xf32>)
      delta(%b : tensor<?x?x?xf32>) -> tensor<?x?x?x32xbf16>
  return %o : tensor<?x?x?x32xbf16>
}

// Values of tokens are of bf16 exactly, and those weights are rounded.
// CHECK-LABEL: tile.kernel private @sums_kernel0(
// CHECK:           tile.dot %{{.*}}, %{{.*}} acc %{{.*}} : !tile.tile<32x32xbf16>, !tile.tile<32x32xbf16>
func.func @sums(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x32xbf16>)
    -> tensor<?x?x?x32xbf16> {
  %o = attn.scan queries(%q : tensor<?x?x?x64xbf16>) keys(%k : tensor<?x?x?x64xbf16>)
      values(%v : tensor<?x?x?x32xbf16>) -> tensor<?x?x?x32xbf16>
  return %o : tensor<?x?x?x32xbf16>
}
