// RUN: attn-opt %s --verify-roundtrip
// RUN: attn-opt %s --attn-pipeline="until-after=tile target=cpu-avx2" | FileCheck %s

// Segments: what all but the last are, and then each from those before it.

// CHECK-LABEL: func.func @segments(
// CHECK: tile.workspace({{.*}}) : memref<3x?x?x16x32xf32>
// CHECK: tile.workspace({{.*}}) : memref<3x?x?x16xf32>
// CHECK: tile.launch @segments_kernel0
// CHECK: tile.launch @segments_kernel1
// CHECK-LABEL: tile.kernel private @segments_kernel0(
// CHECK: scf.for {{.*}} iter_args({{.*}}) -> (!tile.tile<16x32xf32>, !tile.tile<16x1xf32>)
// CHECK-LABEL: tile.kernel private @segments_kernel1(
// CHECK: tile.load {{.*}} : memref<3x?x?x16xf32
// CHECK: tile.load {{.*}} : memref<3x?x?x16x32xf32
func.func @segments(%q: tensor<?x?x?x16xf32>, %k: tensor<?x?x?x16xf32>,
                    %v: tensor<?x?x?x32xf32>, %g: tensor<?x?x?xf32>)
    -> tensor<?x?x?x32xf32> {
  %o = attn.scan queries(%q : tensor<?x?x?x16xf32>)
      keys(%k : tensor<?x?x?x16xf32>) values(%v : tensor<?x?x?x32xf32>)
      decay(%g : tensor<?x?x?xf32>) {segments = 4 : i64}
      -> tensor<?x?x?x32xf32>
  return %o : tensor<?x?x?x32xf32>
}
