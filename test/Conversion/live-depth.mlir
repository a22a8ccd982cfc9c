// Channels that only fill rows up take no steps of a product: of 96 channels in rows of
// 128 there are six steps of 16, of 40 in rows of 64 three. Sums of values have as many
// columns as these have channels: 96, and 40.
//
// RUN: sed 's/DIM/96/g' %s | attn-opt --attn-pipeline="target=sm_90a until-after=tile" | FileCheck %s --check-prefix=TILE
// RUN: sed 's/DIM/40/g' %s | attn-opt --attn-pipeline="target=sm_90a until-after=gpu" | FileCheck %s --check-prefix=GPU
// RUN: sed 's/DIM/96/g' %s | attn-opt --attn-pipeline="target=sm_90a until-after=nvvm" | FileCheck %s --check-prefix=SIX
// RUN: sed 's/DIM/128/g; s/x128xbf16/x96xbf16/g' %s | attn-opt --attn-pipeline="target=sm_90a until-after=tile" | FileCheck %s --check-prefix=WIDE
// RUN: sed 's/DIM/64/g; s/x128xbf16/x40xbf16/g' %s | attn-opt --attn-pipeline="target=sm_90a until-after=gpu" | FileCheck %s --check-prefix=NARROW
// RUN: sed 's/DIM/64/g; s/x128xbf16/x40xbf16/g' %s | attn-opt --attn-pipeline="target=sm_90a until-after=nvvm" | FileCheck %s --check-prefix=COLUMNS
// RUN: sed 's/DIM/128/g' %s | attn-opt --attn-pipeline="target=sm_90a until-after=gpu" | FileCheck %s --check-prefix=NONE
// RUN: sed 's/DIM/96/g' %s | attn-opt --attn-pipeline="target=sm_80 until-after=gpu" | FileCheck %s --check-prefix=NONE

!rows = tensor<?x?x?xDIMxbf16>

attn.monoid @sum cocycle stats() components(value) outputs("o") {
  lift { ^bb0(%w: f32): attn.yield %w : f32 }
  finalize { ^bb0(%o: f32): attn.yield %o : f32 }
}

// TILE: tile.dot {{.*}} transpose_rhs {tile.live_depth = 96 : i64}
// GPU: tile_gpu.mma.issue {{.*}} {tile.live_depth = 48 : i64}
// SIX: wgmma.fence
// SIX-COUNT-6: wgmma.mma_async.sync.aligned.m64n128k16
// SIX-NOT: wgmma.mma_async
// SIX: wgmma.commit_group
// WIDE: tile.dot {{.*}} acc %{{.*}} {tile.live_width = 96 : i64}
// NARROW: tile_gpu.mma.issue {{.*}} acc({{.*}} {tile.live_width = 40 : i64}
// COLUMNS: wgmma.mma_async.sync.aligned.m64n40k16
// NONE-NOT: tile.live_
func.func @sums(%q: !rows, %k: !rows, %v: tensor<?x?x?x128xbf16>) -> tensor<?x?x?x128xbf16> {
  %o = attn.aggregate @sum scores(%q, %k : !rows, !rows) values(%v : tensor<?x?x?x128xbf16>)
    score {
    ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32):
      attn.yield %s : f32
    } -> tensor<?x?x?x128xbf16>
  return %o : tensor<?x?x?x128xbf16>
}
