// RUN: attn-opt %s --attn-pipeline="until-after=tile target=sm_90a" | FileCheck %s --check-prefix=TILE
// RUN: attn-opt %s --attn-pipeline="until-after=gpu target=sm_90a" | FileCheck %s

// The two blocks of a cluster have the parts of the keys of latents. Each of them has
// half of the channels once their states are one, and the first one what rows have
// alone.

// TILE: tile.kernel private @attention_kernel0(
// TILE: tile.merge stats(%{{.*}} : !tile.tile<16x1xf32>) values(%{{.*}}, %{{.*}} : !tile.tile<16x512xf32>, !tile.tile<16x1xf32>) part(%{{.*}}) cluster(2)

// CHECK-LABEL: func.func @attention(
// CHECK: tile_gpu.launch @attention_kernel0
// CHECK-NOT: tile_gpu.launch @attention
// CHECK: tile_gpu.kernel private @attention_kernel0(
// CHECK: %[[STATES:.*]] = tile_gpu.ring.create states producers(4) consumers(4) cluster(2) {{.*}} : <1, 2x4128xf32>
// CHECK: tile_gpu.scheduler dynamic {{.*}} cluster(2) by_parts
// CHECK: tile_gpu.role "compute" warpgroups(1)
// CHECK: %[[PART:.*]] = arith.index_cast {{.*}} : index to i32
// CHECK: %[[ALL:.*]]:3 = tile_gpu.merge_states cluster {{.*}} ring(%[[STATES]][%{{.*}}] {{.*}} count(2)
// CHECK: } -> !tile_gpu.vec<16xf32, col>, !tile_gpu.frag<256x16xf32, acc>, !tile_gpu.vec<16xf32, col>
// CHECK: tile_gpu.global.store {{.*}} transposed : !tile_gpu.frag<256x16xf32, acc>
// CHECK: arith.cmpi eq
// CHECK: scf.if
// CHECK-NEXT: tile_gpu.global.store {{.*}} : !tile_gpu.vec<16xf32, col>
func.func @attention(%q: tensor<?x?x?x576xbf16>, %k: tensor<?x?x?x576xbf16>,
                     %v: tensor<?x?x?x512xbf16> {attn.columns_of = 1 : i64})
    -> (tensor<?x?x?x512xbf16>, tensor<?x?x?xf32>) {
  %o, %lse = attn.attention queries(%q : tensor<?x?x?x576xbf16>)
      keys(%k : tensor<?x?x?x576xbf16>) values(%v : tensor<?x?x?x512xbf16>)
      {schedule = #attn.schedule<block_q = 16, rows = 16, block_k = 64, splits = 2,
                                 overlap = none, cluster = 2, block_v = 512>}
      -> tensor<?x?x?x512xbf16>, tensor<?x?x?xf32>
  return %o, %lse : tensor<?x?x?x512xbf16>, tensor<?x?x?xf32>
}

// Where the heads of a key head are rows of one tile, no other block reads its keys.
// CHECK: tile_gpu.kernel private @packed_kernel0(
// CHECK: tile_gpu.role "load"
// CHECK: tile_gpu.ring.load {{.*}}], %{{[0-9]+}} : !tile_gpu.tensor_map<16x576xbf16
// CHECK: tile_gpu.ring.load {{.*}} evict_first : !tile_gpu.tensor_map<64x576xbf16
func.func @packed(%q: tensor<?x?x?x576xbf16>, %k: tensor<?x?x?x576xbf16>,
                  %v: tensor<?x?x?x512xbf16> {attn.columns_of = 1 : i64})
    -> tensor<?x?x?x512xbf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x576xbf16>)
      keys(%k : tensor<?x?x?x576xbf16>) values(%v : tensor<?x?x?x512xbf16>)
      {schedule = #attn.schedule<block_q = 16, rows = 16, block_k = 64, splits = 2,
                                 overlap = none, pack_heads = true, cluster = 2,
                                 block_v = 512>}
      -> tensor<?x?x?x512xbf16>
  return %o : tensor<?x?x?x512xbf16>
}
