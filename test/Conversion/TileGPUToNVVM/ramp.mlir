// RUN: attn-opt %s --tile-gpu-allocate-shared --convert-tile-gpu-to-nvvm | FileCheck %s
// RUN: attn-opt %s --split-input-file %tidy --tile-gpu-allocate-shared --convert-tile-gpu-to-nvvm | FileCheck %s

// One more step of the product, of bf16 whatever the operands are: the ramp's
// parts in two registers of a quad, and rows that hold their numbers.

!q = !tile_gpu.smem<64x64xf16 swizzle 128>
!k = !tile_gpu.smem<64x128xf16 swizzle 128 transposed>

module attributes {attn.target = "sm_90a"} {
// CHECK-LABEL: llvm.func @ramp
// CHECK: st.shared::cta.v4.b32
// CHECK: fence.proxy.async.shared::cta
// CHECK: llvm.nvvm.barrier.cta.sync.aligned.all
// CHECK-COUNT-3: llvm.fsub
// CHECK: wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16
// CHECK-SAME: setp.ne.b32 p, 1, 0;\0Awgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16
// CHECK-SAME: {$66,$66,$67,$67}, $68, p, 1, 1, 0;\0Awgmma.commit_group
tile_gpu.kernel private @ramp(%Q: !tile_gpu.tensor_map<64x64xf16 swizzle 128>,
    %K: !tile_gpu.tensor_map<128x64xf16 swizzle 128>, %x: f32,
    %out: memref<64x128xf32>) {
  %c0 = arith.constant 0 : i32
  %c = tile_gpu.smem.ramp : !tile_gpu.smem<136x8xbf16>
  %ring = tile_gpu.ring.create tma consumers(4) : !tile_gpu.ring<1, 64x64xf16 swizzle 128, 128x64xf16 swizzle 128>
  tile_gpu.role "load" warps(1) registers(24) {
  ^bb0(%warp: i32):
    %t:2 = tile_gpu.ring.acquire %ring[%c0] : !tile_gpu.ring<1, 64x64xf16 swizzle 128, 128x64xf16 swizzle 128>
    tile_gpu.ring.load %Q[%c0, %c0], %t#0 : !tile_gpu.tensor_map<64x64xf16 swizzle 128>, !tile_gpu.smem<64x64xf16 swizzle 128>
    tile_gpu.ring.load %K[%c0, %c0], %t#1 : !tile_gpu.tensor_map<128x64xf16 swizzle 128>, !tile_gpu.smem<128x64xf16 swizzle 128>
    tile_gpu.yield
  }
  tile_gpu.role "compute" warpgroups(1) registers(240) {
  ^bb0(%wg: i32):
    %t:2 = tile_gpu.ring.wait %ring[%c0] : !tile_gpu.ring<1, 64x64xf16 swizzle 128, 128x64xf16 swizzle 128>
    %kT = tile_gpu.smem.transpose %t#1 : !tile_gpu.smem<128x64xf16 swizzle 128>
    %p = tile_gpu.mma.issue %t#0, %kT ramp(%x, %c) : !q, !k -> !tile_gpu.token<64x128xf32>
    %s = tile_gpu.mma.wait %p pending(0) : !tile_gpu.token<64x128xf32>
    tile_gpu.ring.release %ring[%c0] : !tile_gpu.ring<1, 64x64xf16 swizzle 128, 128x64xf16 swizzle 128>
    tile_gpu.global.store %s, %out[%c0, %c0] : !tile_gpu.frag<64x128xf32, acc>, memref<64x128xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}
}
