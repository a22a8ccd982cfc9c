// RUN: attn-opt %s --attn-pipeline="target=sm_90a until-after=tile" | FileCheck %s
// RUN: attn-opt %s --attn-pipeline="target=sm_90a until-after=gpu" -o /dev/null

// On a GPU tiles of keys come in boxes of pages in each kernel: the one that does
// again what a bias of -inf spoils has tiles of its own, of whole pages as well.
// CHECK-LABEL: tile.kernel private @biased_kernel0(
// CHECK:       tile.source %{{.*}} paged({{.*}}) boxes(16) :
// CHECK-LABEL: tile.kernel private @biased_kernel1(
// CHECK-SAME:  block_k = 64,
// CHECK:       tile.source %{{.*}} paged({{.*}}) boxes(16) :
func.func @biased(%q: tensor<?x?x?x256xf32>, %k: tensor<?x?x16x256xf32>,
                  %v: tensor<?x?x16x256xf32>, %bias: tensor<1x?xf32>,
                  %table: tensor<?x?xi32>) -> tensor<?x?x?x256xf32> {
  %o = attn.attention queries(%q : tensor<?x?x?x256xf32>)
      keys(%k : tensor<?x?x16x256xf32>) values(%v : tensor<?x?x16x256xf32>)
      bias(%bias : tensor<1x?xf32>) block_table(%table : tensor<?x?xi32>)
      -> tensor<?x?x?x256xf32>
  return %o : tensor<?x?x?x256xf32>
}
