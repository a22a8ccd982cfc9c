// RUN: attn-opt %s --attn-pipeline="until-after=tile target=sm_90a" | FileCheck %s --check-prefix=TILE
// RUN: attn-opt %s --attn-pipeline="until-after=gpu target=sm_90a" | FileCheck %s --check-prefix=GPU

// Eight rows are columns of a warp's products. Each warp takes sixteen keys of every
// tile; at the end their states become one.

// TILE: tile.kernel private @attention_kernel0(
// TILE: tile.rows 8
// TILE: tile.dot %{{.*}} transpose_rhs : !tile.tile<8x128xbf16>, !tile.tile<64x128xbf16> -> !tile.tile<8x64xf32>
// TILE: %[[STATE:.*]]:3 = tile.merge stats(%{{.*}} : !tile.tile<8x1xf32>) values(%{{.*}}, %{{.*}} : !tile.tile<8x128xf32>, !tile.tile<8x1xf32>)
// TILE: arith.maximumf
// TILE: math.exp
// TILE: tile.store vector %[[STATE]]#0
// TILE: tile.store %[[STATE]]#1
// TILE: tile.store vector %[[STATE]]#2

// GPU: tile_gpu.kernel private @attention_kernel0(
// GPU: %[[K:.*]] = tile_gpu.ring.create tma consumers(4) {{.*}} : <4, 64x128xbf16 swizzle 128>
// GPU: %[[V:.*]] = tile_gpu.ring.create tma consumers(4) {{.*}} : <4, 64x128xbf16 swizzle 128>
// GPU: %[[ALL:.*]] = tile_gpu.smem.alloc {{.*}} : <4x1040xf32>
// GPU: tile_gpu.role "load" warps(1) {
// No other block reads these keys.
// GPU: tile_gpu.ring.load {{.*}} evict_first
// GPU: tile_gpu.role "compute" warps(4) barrier(1) {
// GPU: ^bb0(%[[WARP:.*]]: i32):
// GPU: %[[Q:.*]] = tile_gpu.global.load {{.*}} transposed : {{.*}} -> !tile_gpu.frag<128x8xbf16, b, warp>
// GPU: scf.for
// GPU: %[[SLOT:.*]] = tile_gpu.ring.wait %[[K]]
// GPU: %[[MINE:.*]] = tile_gpu.smem.slice %[[SLOT]][%{{.*}}, %c0{{.*}}] : <64x128xbf16 swizzle 128> -> <16x128xbf16 swizzle 128 pitch 64>
// GPU: %[[S:.*]] = tile_gpu.mma.sync %[[MINE]], %[[Q]], {{.*}} -> <16x8xf32, acc, warp>
// The slot is free once its product is there.
// GPU-NEXT: tile_gpu.ring.release %[[K]][%{{.*}}] after(%[[S]]
// Sums of columns are left to the threads that hold them.
// GPU: tile_gpu.reduce {{.*}}
// GPU: -> !tile_gpu.vec<8xf32, col, warp, partial>
// GPU: %[[O:.*]] = tile_gpu.mma.sync {{.*}} : !tile_gpu.smem<128x16xbf16 swizzle 128 pitch 64 transposed>, !tile_gpu.frag<16x8xbf16, b, warp> -> <128x8xf32, acc, warp>
// GPU-NEXT: tile_gpu.ring.release %[[V]][%{{.*}}] after(%[[O]]
// GPU: %[[R:.*]]:3 = tile_gpu.merge_states warps {{.*}} scratch(%[[ALL]] {{.*}} count(4)
// GPU: -> !tile_gpu.vec<8xf32, col, warp>, !tile_gpu.frag<32x8xf32, acc, warp>, !tile_gpu.vec<8xf32, col, warp>
// GPU: %[[FIRST:.*]] = arith.cmpi eq, %[[WARP]], %c0
// GPU: scf.if %[[FIRST]]
// GPU: tile_gpu.global.store %[[R]]#0
// GPU: %[[CHANNEL:.*]] = arith.muli %[[WARP]], %c32
// GPU: tile_gpu.global.store %[[R]]#1, %{{.*}}[{{.*}}, %[[CHANNEL]]] {{.*}} transposed
func.func @attention(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
                     %v: tensor<?x?x?x128xbf16>) -> tensor<?x?x?x128xbf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>)
      keys(%k : tensor<?x?x?x128xbf16>) values(%v : tensor<?x?x?x128xbf16>)
      {schedule = #attn.schedule<block_q = 8, rows = 8, block_k = 64,
                                 splits = automatic, pack_heads = true>}
      -> tensor<?x?x?x128xbf16>
  return %o : tensor<?x?x?x128xbf16>
}

// Nothing comes between a step's last product and the release that moves behind it.
// GPU: tile_gpu.kernel private @without_sums_kernel0(
// GPU: tile_gpu.role "compute"
// GPU: tile_gpu.mma.sync
// GPU: %[[LAST:.*]] = tile_gpu.mma.sync
// GPU-NEXT: tile_gpu.ring.release {{.*}} after(%[[LAST]]
// GPU-NOT: tile_gpu.mma.sync
// GPU: tile_gpu.merge_states warps
func.func @without_sums(%q: tensor<?x?x?x128xf16>, %k: tensor<?x?x?x128xf16>,
                        %v: tensor<?x?x?x128xf16>) -> tensor<?x?x?x128xf16> {
  %o = attn.attention monoid(@relu2_sum) queries(%q : tensor<?x?x?x128xf16>)
      keys(%k : tensor<?x?x?x128xf16>) values(%v : tensor<?x?x?x128xf16>)
      {schedule = #attn.schedule<block_q = 8, rows = 8, block_k = 64, splits = 1, loop = masked>}
      -> tensor<?x?x?x128xf16>
  return %o : tensor<?x?x?x128xf16>
}

// What rows start with is a left factor of all warps' states.
// TILE: tile.kernel private @sinks_kernel0(
// TILE: %[[ALL:.*]]:3 = tile.merge
// TILE: %[[BOTH:.*]]:4 = tile.map ins(%{{.*}}, %{{.*}}, %[[ALL]]#0, %[[ALL]]#2 :
// TILE: %[[SUMS:.*]] = tile.map ins(%{{.*}}, %[[ALL]]#1, %[[BOTH]]#2, %[[BOTH]]#3 : !tile.tile<8x1xf32>, !tile.tile<8x128xf32>,
// GPU: tile_gpu.kernel private @sinks_kernel0(
// GPU: tile_gpu.merge_states warps
// GPU: tile_gpu.map {{.*}} !tile_gpu.frag<32x8xf32, acc, warp>
func.func @sinks(%q: tensor<?x?x?x128xf16>, %k: tensor<?x?x?x128xf16>,
                 %v: tensor<?x?x?x128xf16>, %s: tensor<?xf32>) -> tensor<?x?x?x128xf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x128xf16>)
      keys(%k : tensor<?x?x?x128xf16>) values(%v : tensor<?x?x?x128xf16>)
      sinks(%s : tensor<?xf32>)
      {schedule = #attn.schedule<block_q = 8, rows = 8, block_k = 64, splits = 1, loop = masked>}
      -> tensor<?x?x?x128xf16>
  return %o : tensor<?x?x?x128xf16>
}

// The blocks of a cluster have the parts of the keys: a warp that combines their states
// has sixteen channels of all of them.
// TILE: func.func @in_cluster
// TILE-NOT: tile.workspace
// TILE: %[[GRID:.*]] = arith.muli %{{.*}}, %c8
// TILE: tile.launch @in_cluster_kernel0 grid(%[[GRID]])
// TILE: tile.kernel private @in_cluster_kernel0(
// TILE: %{{.*}}, %{{.*}}, %{{.*}}, %[[PART:.*]] = tile.work_tile {{.*}} cluster(8) by_parts {{.*}} parts(%c8)
// TILE: tile.merge stats({{.*}} values({{.*}} part(%[[PART]]) cluster(8)
// GPU: tile_gpu.kernel private @in_cluster_kernel0(
// GPU: %[[RING:.*]] = tile_gpu.ring.create states producers(1) consumers(1) cluster(8) {{.*}} : <1, 8x144xf32>
// GPU: tile_gpu.scheduler dynamic in_order {{.*}} cluster(8) by_parts {{.*}} splits(%c8
// GPU: tile_gpu.role "compute" warps(4) barrier(1) {
// GPU: ^bb0(%[[WARP:.*]]: i32):
// GPU: %[[OWN:.*]]:3 = tile_gpu.merge_states warps
// GPU: -> !tile_gpu.vec<8xf32, col, warp>, !tile_gpu.frag<32x8xf32, acc, warp>, !tile_gpu.vec<8xf32, col, warp>
// GPU: tile_gpu.merge_states cluster stats(%[[OWN]]#0 : {{.*}}) values(%[[OWN]]#1, %[[OWN]]#2 : {{.*}}) ring(%[[RING]][%{{.*}}] : {{.*}}) part(%[[PART:[a-z0-9]*]]) count(8)
// GPU: -> !tile_gpu.vec<8xf32, col, warp>, !tile_gpu.frag<16x8xf32, acc, warp>, !tile_gpu.vec<8xf32, col, warp>
// GPU: %[[BLOCKS:.*]] = arith.muli %[[WARP]], %c8
// GPU: %[[NUMBER:.*]] = arith.addi %[[BLOCKS]], %[[PART]]
// GPU: %[[CHANNEL:.*]] = arith.muli %[[NUMBER]], %c16
// GPU: %[[SOME:.*]] = arith.cmpi slt, %[[NUMBER]], %c8
// GPU: scf.if %[[SOME]]
// GPU: tile_gpu.global.store
func.func @in_cluster(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
                      %v: tensor<?x?x?x128xbf16>) -> tensor<?x?x?x128xbf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>)
      keys(%k : tensor<?x?x?x128xbf16>) values(%v : tensor<?x?x?x128xbf16>)
      {schedule = #attn.schedule<block_q = 8, rows = 8, block_k = 64, splits = 8,
                                 cluster = 8, pack_heads = true>}
      -> tensor<?x?x?x128xbf16>
  return %o : tensor<?x?x?x128xbf16>
}
