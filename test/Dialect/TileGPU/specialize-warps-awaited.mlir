// RUN: attn-opt %s --attn-pipeline="until-after=gpu target=sm_90a" | FileCheck %s

// Keys of latents come in parts of their columns. Queries are copied behind the first
// part, not behind all of the first step's: the first product takes no more. The sign
// of the scale goes into them in shared memory where it is not 1. Two blocks, which
// have the 128 rows of a sequence, copy keys for each other.

module attributes {attn.expected_sizes = array<i64: 1, 8192, 1, 0, 64>, attn.target = "sm_90a"} {
// CHECK-LABEL: func.func @latent(
// CHECK-LABEL: tile_gpu.kernel private @latent_kernel0(
// CHECK: %[[Q:.*]] = tile_gpu.ring.create tma {{.*}} : <1, 64x576xbf16 swizzle 128>
// CHECK: %[[A:.*]] = tile_gpu.ring.create tma {{.*}} cluster(2) {{.*}} : <2, 64x256xbf16 swizzle 128>
// CHECK: %[[B:.*]] = tile_gpu.ring.create tma {{.*}} cluster(2) {{.*}} : <2, 64x320xbf16 swizzle 128>
// CHECK: tile_gpu.role "load"
// CHECK: tile_gpu.ring.acquire %[[A]]
// CHECK: tile_gpu.ring.acquire %[[Q]]
// CHECK: tile_gpu.ring.acquire %[[B]]
// CHECK: tile_gpu.ring.acquire %[[A]]
// CHECK: tile_gpu.ring.acquire %[[B]]
// CHECK: scf.for
// CHECK: tile_gpu.role "compute"
// CHECK: %[[CHANGES:.*]] = arith.cmpf une
// CHECK: %[[HERE:.*]] = arith.andi %[[CHANGES]]
// CHECK: scf.if %[[HERE]] {
// CHECK-NEXT: tile_gpu.smem.map
func.func @latent(%q: tensor<?x?x?x576xbf16>, %k: tensor<?x?x64x576xbf16>,
                  %v: tensor<?x?x64x512xbf16> {attn.columns_of = 1 : i64},
                  %scale: f32, %lengths: tensor<?xi32>, %table: tensor<?x?xi32>)
    -> tensor<?x?x?x512xbf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x576xbf16>)
      keys(%k : tensor<?x?x64x576xbf16>) values(%v : tensor<?x?x64x512xbf16>)
      scale(%scale) lengths(%lengths : tensor<?xi32>) block_table(%table : tensor<?x?xi32>)
      -> tensor<?x?x?x512xbf16>
  return %o : tensor<?x?x?x512xbf16>
}
}
