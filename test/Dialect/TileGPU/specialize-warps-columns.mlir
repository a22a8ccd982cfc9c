// Where queries are columns, as in the gradients of keys and values, what maps
// read of them (a number for each query) is a tile of one row beside the tiles of
// a step. The warp that copies these copies it too, into slots of a ring of its
// own, element by element: it may begin anywhere in memory.
//
// RUN: attn-opt %s --attn-pipeline="target=sm_90a until-after=tile" | FileCheck %s --check-prefix=TILE
// RUN: attn-opt %s --attn-pipeline="target=sm_90a until-after=gpu" | FileCheck %s
// RUN: attn-opt %s --attn-pipeline="target=sm_90a until-after=nvvm" | FileCheck %s --check-prefix=NVVM
// On other targets each thread reads what it needs.
// RUN: attn-opt %s --attn-pipeline="target=sm_80 until-after=tile" | FileCheck %s --check-prefix=OTHER
// RUN: attn-opt %s --attn-pipeline="target=cpu-avx2 until-after=tile" | FileCheck %s --check-prefix=OTHER
// OTHER-NOT: tile.load vector
// OTHER: memref.load

!rows = tensor<?x?x?x128xbf16>
!row = tensor<?x?x?xf32>

attn.monoid @keys cocycle stats() components(value, value) outputs("dk", "dv") {
  lift {
  ^bb0(%ds: f32, %p: f32):
    attn.yield %ds, %p : f32, f32
  }
  finalize {
  ^bb0(%dk: f32, %dv: f32):
    attn.yield %dk, %dv : f32, f32
  }
}

// Elements behind the last query read as zero; they are dead.
// TILE: %[[END:.*]] = memref.dim %[[L:.*]], %{{.*}} : memref<?x?x?xf32
// TILE: %[[LOADED:.*]] = tile.load vector transposed %[[L]][%{{.*}}] rows(%{{.*}} to %[[END]]) : {{.*}} -> <1x64xf32>
// TILE: tile.load vector transposed {{.*}} -> <1x64xf32>
// TILE: tile.rows
// TILE: tile.map ins(%{{.*}}, %{{.*}}, %[[LOADED]], %{{.*}} :
// TILE-NOT: memref.load

// A slot of it for each slot of tiles. Two are enough, and room is left for
// results.
// CHECK: %[[Q:.*]] = tile_gpu.ring.create tma consumers(8) {{.*}} : <2, 64x128xbf16 swizzle 128>
// CHECK: %[[RING:.*]] = tile_gpu.ring.create cp_async producers(1) consumers(8) {{.*}} : <2, 1x64xf32, 1x64xf32>
// CHECK: tile_gpu.role "load" warps(1)
// CHECK: %[[SLOT:.*]]:2 = tile_gpu.ring.acquire %[[RING]][%[[USE:.*]]]
// CHECK-NEXT: tile_gpu.ring.load %{{.*}}, %[[SLOT]]#0 : memref
// CHECK-NEXT: tile_gpu.ring.load %{{.*}}, %[[SLOT]]#1 : memref
// CHECK-NEXT: tile_gpu.ring.commit %[[RING]][%[[USE]]]
// What the first map takes is read ahead of the wait for its product, and what
// the second takes ahead of its own. Weights made of both are there when the slot
// is given back.
// CHECK: tile_gpu.role "compute" warpgroups(2)
// CHECK: %[[FULL:.*]]:2 = tile_gpu.ring.wait %[[RING]]
// CHECK: %[[S:.*]] = tile_gpu.mma.issue
// CHECK: %[[DP:.*]] = tile_gpu.mma.issue
// CHECK: tile_gpu.vec.load %[[FULL]]#1 : <1x64xf32> -> <64xf32, col>
// CHECK-NEXT: tile_gpu.mma.wait %[[S]] pending(1)
// CHECK: math.exp2
// CHECK: %[[P:.*]] = tile_gpu.frag.convert
// CHECK: %[[DV:.*]] = tile_gpu.mma.issue
// CHECK-NEXT: tile_gpu.vec.load %[[FULL]]#0 : <1x64xf32> -> <64xf32, col>
// CHECK-NEXT: tile_gpu.mma.wait %[[DP]] pending(1)
// CHECK: %[[DS:.*]] = tile_gpu.frag.convert
// CHECK: %[[DK:.*]] = tile_gpu.mma.issue
// CHECK: tile_gpu.mma.wait %[[DV]] pending(1)
// CHECK: tile_gpu.mma.wait %[[DK]] pending(0)
// CHECK: tile_gpu.ring.release %[[RING]][%{{.*}}] after(%[[P]], %[[DS]] :

// NVVM: cp.async.ca.shared.global [$0], [$1], 4, $2;
// NVVM: cp.async.mbarrier.arrive.noinc
func.func @gradients(%q: !rows, %k: !rows, %v: !rows, %do: !rows, %exponent: !row, %delta: !row) -> (!rows, !rows) {
  %0:2 = attn.aggregate @keys scores(%k, %q, %v, %do : !rows, !rows, !rows, !rows) values(%q, %do : !rows, !rows) captures(%exponent, %delta : !row, !row) {dead_is_zero, side = #attn.side<queries>}
    score {
    ^bb0(%s: f32, %dp: f32, %b: i32, %h: i32, %i: i32, %j: i32, %e: !row, %d: !row):
      %batch = arith.index_cast %b : i32 to index
      %head = arith.index_cast %h : i32 to index
      %query = arith.index_cast %j : i32 to index
      %x = tensor.extract %e[%batch, %head, %query] : !row
      %y = arith.addf %s, %x : f32
      %p = math.exp2 %y : f32
      %z = tensor.extract %d[%batch, %head, %query] : !row
      %difference = arith.subf %dp, %z : f32
      %ds = arith.mulf %difference, %p : f32
      attn.yield %ds, %p : f32, f32
    } -> !rows, !rows
  return %0#0, %0#1 : !rows, !rows
}
