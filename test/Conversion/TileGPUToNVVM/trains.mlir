// RUN: attn-opt %s --tile-gpu-allocate-shared --convert-tile-gpu-to-nvvm | FileCheck %s

// A product that adds to the sums of the one before starts behind it without a wait,
// where nothing else reads them, and nothing between the two is to come behind the
// first.

!a = !tile_gpu.smem<64x64xbf16 swizzle 128>
!b = !tile_gpu.smem<64x64xbf16 swizzle 128 transposed>
!slot = !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
!sums = !tile_gpu.frag<64x64xf32, acc>
!token = !tile_gpu.token<64x64xf32>

module attributes {attn.target = "sm_90a"} {
// CHECK-LABEL: llvm.func @train
// CHECK: wgmma.mma_async
// CHECK-NOT: wait_group
// CHECK: wgmma.mma_async
// CHECK: wgmma.wait_group.sync.aligned 0;
// The slot goes back behind the product that reads it.
// CHECK: wgmma.mma_async
// CHECK: wgmma.wait_group.sync.aligned 0;
// CHECK: mbarrier.arrive
// CHECK: wgmma.mma_async
// CHECK: wgmma.wait_group.sync.aligned 0;
// CHECK-NOT: wgmma
tile_gpu.kernel private @train(%o: memref<?x64xf32, strided<[?, 1]>>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %rows = arith.constant 64 : i32
  %q = tile_gpu.smem.alloc : !a
  %ring = tile_gpu.ring.create tma consumers(4) : !slot
  tile_gpu.role "compute" warpgroups(1) registers(240) {
  ^bb0(%wg: i32):
    %k0 = tile_gpu.ring.wait %ring[%c0] : !slot
    %t0 = tile_gpu.smem.transpose %k0 : !a
    %p0 = tile_gpu.mma.issue %q, %t0 : !a, !b -> !token
    %s0 = tile_gpu.mma.wait %p0 pending(0) : !token
    %k1 = tile_gpu.ring.wait %ring[%c1] : !slot
    %t1 = tile_gpu.smem.transpose %k1 : !a
    %p1 = tile_gpu.mma.issue %q, %t1 acc(%s0) : !a, !b -> !token
    %s1 = tile_gpu.mma.wait %p1 pending(0) : !token
    tile_gpu.global.store %s1, %o[%c0, %c0] rows(%rows) : !sums, memref<?x64xf32, strided<[?, 1]>>
    %p2 = tile_gpu.mma.issue %q, %t0 : !a, !b -> !token
    %s2 = tile_gpu.mma.wait %p2 pending(0) : !token
    tile_gpu.ring.release %ring[%c0] : !slot
    %p3 = tile_gpu.mma.issue %q, %t1 acc(%s2) : !a, !b -> !token
    %s3 = tile_gpu.mma.wait %p3 pending(0) : !token
    tile_gpu.global.store %s3, %o[%c0, %c0] rows(%rows) : !sums, memref<?x64xf32, strided<[?, 1]>>
    tile_gpu.yield
  }
  tile_gpu.return
}
}
