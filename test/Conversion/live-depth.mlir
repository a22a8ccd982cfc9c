// Channels that only fill rows up take no steps of a product: of 72 channels in rows of
// 96 there are five steps of 16, of 40 in rows of 64 three. Sums of values have as many
// columns as these have channels: 72, and 40. Rows of 96 channels have no others.
//
// RUN: sed 's/DIM/72/g' %s | attn-opt --attn-pipeline="target=sm_90a until-after=tile" | FileCheck %s --check-prefix=TILE
// RUN: sed 's/DIM/40/g' %s | attn-opt --attn-pipeline="target=sm_90a until-after=gpu" | FileCheck %s --check-prefix=GPU
// RUN: sed 's/DIM/72/g' %s | attn-opt --attn-pipeline="target=sm_90a until-after=nvvm" | FileCheck %s --check-prefix=FIVE
// RUN: sed 's/DIM/128/g; s/x128xbf16/x72xbf16/g' %s | attn-opt --attn-pipeline="target=sm_90a until-after=tile" | FileCheck %s --check-prefix=WIDE
// RUN: sed 's/DIM/64/g; s/x128xbf16/x40xbf16/g' %s | attn-opt --attn-pipeline="target=sm_90a until-after=gpu" | FileCheck %s --check-prefix=NARROW
// RUN: sed 's/DIM/64/g; s/x128xbf16/x40xbf16/g' %s | attn-opt --attn-pipeline="target=sm_90a until-after=nvvm" | FileCheck %s --check-prefix=COLUMNS
// RUN: sed 's/DIM/128/g' %s | attn-opt --attn-pipeline="target=sm_90a until-after=gpu" | FileCheck %s --check-prefix=NONE
// RUN: sed 's/DIM/96/g; s/x128xbf16/x96xbf16/g' %s | attn-opt --attn-pipeline="target=sm_90a until-after=gpu" | FileCheck %s --check-prefixes=NONE,PANELS
// RUN: sed 's/DIM/96/g' %s | attn-opt --attn-pipeline="target=sm_80 until-after=gpu" | FileCheck %s --check-prefix=NONE

!rows = tensor<?x?x?xDIMxbf16>

attn.monoid @sum cocycle stats() components(value) outputs("o") {
  lift { ^bb0(%w: f32): attn.yield %w : f32 }
  finalize { ^bb0(%o: f32): attn.yield %o : f32 }
}

// TILE: tile.dot {{.*}} transpose_rhs {live_depth = 72 : i64}
// GPU: tile_gpu.mma.issue {{.*}} {live_depth = 48 : i64}
// FIVE: wgmma.fence
// FIVE-COUNT-5: wgmma.mma_async.sync.aligned.m64n
// FIVE-NOT: wgmma.mma_async
// FIVE: wgmma.commit_group
// WIDE: tile.dot {{.*}} acc %{{.*}} {live_width = 72 : i64}
// NARROW: tile_gpu.mma.issue {{.*}} acc({{.*}} {live_width = 40 : i64}
// COLUMNS: wgmma.mma_async.sync.aligned.m64n40k16
// PANELS: tile_gpu.smem.alloc {{.*}} : <128x96xbf16 swizzle 64>
// PANELS: tile_gpu.ring.create tma {{.*}}x96xbf16 swizzle 64>
// NONE-NOT: {live_
// PANELS: tile_gpu.bulk.store {{.*}} <64x32xbf16 swizzle 64>
func.func @sums(%q: !rows, %k: !rows, %v: tensor<?x?x?x128xbf16>) -> tensor<?x?x?x128xbf16> {
  %o = attn.aggregate @sum scores(%q, %k : !rows, !rows) values(%v : tensor<?x?x?x128xbf16>)
    score {
    ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32):
      attn.yield %s : f32
    } -> tensor<?x?x?x128xbf16>
  return %o : tensor<?x?x?x128xbf16>
}
