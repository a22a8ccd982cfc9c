// f32 that may be rounded to tf32, through the phases.

// RUN: attn-opt %s --attn-pipeline="until-after=tile target=sm_80" | FileCheck %s --check-prefix=TILE
// RUN: attn-opt %s --attn-pipeline="until-after=gpu target=sm_80" | FileCheck %s
// RUN: attn-opt %s --attn-pipeline="until-after=nvvm target=sm_80" | FileCheck %s --check-prefix=NVVM
// RUN: sed s/sm_80/cpu-avx2/ %s | attn-opt --attn-pipeline="until-after=tile target=cpu-avx2" | FileCheck %s --check-prefix=CPU

module attributes {attn.target = "sm_80"} {
// TILE-LABEL: kernel private @full_kernel0
// TILE: tile.dot %{{.*}}, %{{.*}} transpose_rhs tf32
// The factor of old sums is 1 where the maximum stays: by the difference of two
// rounded products.
// TILE: %[[NEW:.*]] = arith.select %{{.*}}, %{{.*}}, %cst
// TILE-NEXT: %[[OLD:.*]] = arith.mulf
// TILE-NEXT: %[[EXPONENT:.*]] = arith.addf %[[OLD]], %[[NEW]] : f32
// TILE-NEXT: math.exp2 %[[EXPONENT]]
// TILE: tile.dot %{{.*}}, %{{.*}} acc %{{.*}} scale %{{.*}} tf32

// Queries, keys and values are rounded when they arrive; weights by the product.
// CHECK-LABEL: kernel private @full_kernel0
// CHECK: tile_gpu.ring.create cp_group producers(8){{.*}} : <1, 256x64xtf32 swizzle 128>
// CHECK: tile_gpu.ring.create cp_group producers(8){{.*}} : <1, [[KEYS:[0-9]+]]x64xtf32 swizzle 128>
// CHECK: tile_gpu.ring.create cp_group producers(8){{.*}} : <1, [[KEYS]]x64xtf32 swizzle 128>
// CHECK: tile_gpu.mma.sync %{{.*}} : !tile_gpu.smem<32x64xtf32 swizzle 128 pitch 256>, !tile_gpu.smem<64x[[KEYS]]xtf32 swizzle 128 transposed>
// CHECK: tile_gpu.mma.sync %{{.*}} : !tile_gpu.frag<32x[[KEYS]]xf32, acc, warp>, !tile_gpu.smem<[[KEYS]]x64xtf32 swizzle 128>

// NVVM-LABEL: llvm.func @full_kernel0
// NVVM: cp.async.wait_group 0;
// NVVM: ld.shared::cta.v4.b32
// NVVM: llvm.call_intrinsic "llvm.nvvm.f2tf32.rna"
// NVVM: st.shared::cta.v4.b32
// NVVM: barrier.cta.sync
// NVVM: ldmatrix.sync.aligned.m8n8.x4.shared::cta.b16
// NVVM: mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32
// NVVM: llvm.call_intrinsic "llvm.nvvm.f2tf32.rna"
// NVVM: mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32

// CPU-NOT: tf32
func.func @full(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                %v: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
  %o = attn.attention queries(%q : tensor<?x?x?x64xf32>)
      keys(%k : tensor<?x?x?x64xf32>) values(%v : tensor<?x?x?x64xf32>)
      {precision = #attn.precision<tf32>} -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}

// Nothing is rounded where one of the operands has 16 bits.
// TILE-LABEL: kernel private @mixed_kernel0
// TILE-NOT: tf32
// TILE: return
// CHECK-LABEL: kernel private @mixed_kernel0
// CHECK: tile_gpu.mma.sync %{{.*}}, !tile_gpu.smem<64x{{.*}}xf32 swizzle 128 transposed>
// CHECK: tile_gpu.mma.sync %{{.*}}, !tile_gpu.smem<{{.*}}x64xbf16 swizzle 128>
func.func @mixed(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                 %v: tensor<?x?x?x64xbf16>) -> tensor<?x?x?x64xf32> {
  %o = attn.aggregate @softmax
      scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xbf16>)
      {precision = #attn.precision<tf32>} -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}

// Queries whose sign is known at run time stay in registers as accumulators do;
// keys are then read two elements of a row at a time.
// CHECK-LABEL: kernel private @signed_kernel0
// CHECK: tile_gpu.mma.sync %{{.*}} : !tile_gpu.frag<{{.*}}x64xf32, acc, warp>, !tile_gpu.smem<64x{{.*}}xtf32 swizzle 128 transposed>
// NVVM-LABEL: llvm.func @signed_kernel0
// NVVM: ld.shared::cta.v2.b32
// NVVM: mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32
func.func @signed(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                  %v: tensor<?x?x?x64xf32>, %scale: f32)
    -> tensor<?x?x?x64xf32> {
  %o = attn.attention queries(%q : tensor<?x?x?x64xf32>)
      keys(%k : tensor<?x?x?x64xf32>) values(%v : tensor<?x?x?x64xf32>)
      scale(%scale) {precision = #attn.precision<tf32>}
      -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}
}
