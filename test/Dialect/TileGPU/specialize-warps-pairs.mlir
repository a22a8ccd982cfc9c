// A bias of pairs goes through a ring of its own, each slot with the rows of all
// warpgroups. These read their part into the registers of an operand, which are
// those of the scores, and give it back at once. A warp of its own copies values,
// whose slots are given back late, where blocks share copies.
//
// RUN: attn-opt %s --attn-pipeline="target=sm_90a until-after=gpu" | FileCheck %s

!rows = tensor<?x?x?x128xbf16>
!bias = tensor<1x1x?x?xbf16>

// CHECK-LABEL: tile_gpu.kernel private @pairs_kernel0
// CHECK-NOT: tile_gpu.frag.load
// CHECK-LABEL: tile_gpu.kernel private @pairs_kernel1
// CHECK: %[[KEYS:.*]] = tile_gpu.ring.create tma consumers(8) cluster(2) at <tiles = [32768] {{.*}} : <2, 128x128xbf16 swizzle 128>
// Blocks have rows of their own, and share no pairs.
// CHECK: %[[RING:.*]] = tile_gpu.ring.create tma consumers(8) at <tiles = [98304] {{.*}} : <2, 128x128xbf16 swizzle 128>
// CHECK: %[[VALUES:.*]] = tile_gpu.ring.create tma consumers(8) cluster(2) at <tiles = [163840] {{.*}} : <2, 128x128xbf16 swizzle 128>
// CHECK: tile_gpu.role "load" warps(1)
// CHECK: tile_gpu.ring.acquire %[[RING]]
// CHECK: tile_gpu.role "load_values" warps(1)
// CHECK-NOT: tile_gpu.ring.acquire %[[RING]]
// CHECK: tile_gpu.ring.acquire %[[VALUES]]
// CHECK: tile_gpu.role "compute" warpgroups(2)
// CHECK: scf.for
// CHECK: scf.for
// CHECK: %[[SLOT:.*]] = tile_gpu.ring.wait %[[RING]]
// CHECK: %[[PART:.*]] = tile_gpu.smem.slice %[[SLOT]]
// CHECK: tile_gpu.mma.wait %{{.*}} pending(1)
// CHECK-NEXT: tile_gpu.ring.release %[[KEYS]]
// CHECK-NEXT: %[[READ:.*]] = tile_gpu.frag.load %[[PART]] : <64x128xbf16 swizzle 128 pitch 128> -> <64x128xbf16, a>
// CHECK-NEXT: tile_gpu.ring.release %[[RING]][%{{.*}}] after(%[[READ]] :
// CHECK: tile_gpu.hold
// CHECK: tile_gpu.mma.wait %{{.*}} pending(0)
// CHECK-NEXT: tile_gpu.ring.release %[[VALUES]]
// CHECK-NOT: memref.load
// CHECK-LABEL: tile_gpu.kernel private @pairs_kernel2
func.func @pairs(%q: !rows, %k: !rows, %v: !rows, %bias: !bias) -> !rows {
  %o = attn.attention queries(%q : !rows) keys(%k : !rows) values(%v : !rows) bias(%bias : !bias)
    {schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 128, cluster = 2>} -> !rows
  return %o : !rows
}
