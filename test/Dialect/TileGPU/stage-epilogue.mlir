// RUN: attn-opt %s --pass-pipeline='builtin.module(tile-gpu-stage-epilogue,tile_gpu.kernel(tile-gpu-verify-async),tile-gpu-allocate-shared,tile-gpu-verify-budget)' | FileCheck %s
// RUN: attn-opt %s --split-input-file %tidy --tile-gpu-stage-epilogue %tidy %verify_kernels -o /dev/null

!out = memref<?x?x96xbf16, strided<[?, ?, 1]>>
!o16 = !tile_gpu.frag<64x128xbf16, acc>
module attributes {attn.target = "sm_90a"} {
// CHECK-LABEL: kernel private @kernel(
// CHECK-SAME: %[[O:.*]]: memref<?x?x96xbf16, strided<[?, ?, 1]>>, %[[ROW:.*]]: i32, %[[END:.*]]: i32, %[[MAP:.*]]: !tile_gpu.tensor_map<64x64xbf16 swizzle 128>)
tile_gpu.kernel private @kernel(%O: !out, %row: i32, %end: i32) {
  // CHECK: %[[TILE:.*]] = tile_gpu.smem.alloc{{.*}} : <128x128xbf16 swizzle 128>
  // CHECK: %[[BARRIER:.*]] = tile_gpu.barrier.create warps(4) each(2)
  %c0 = arith.constant 0 : i32
  %zero = arith.constant 0.0 : bf16
  tile_gpu.role "compute" warpgroups(2) {
  ^bb0(%wg: i32):
    %o = tile_gpu.frag.fill %zero : bf16 -> !o16
    // Whole tiles, and the tensor's last rows, which the map bounds.
    // CHECK: %[[LAST:.*]] = arith.minsi
    // CHECK: %[[WHOLE:.*]] = arith.cmpi sge, %[[END]], %[[LAST]]
    // CHECK: scf.if %[[WHOLE]] {
    // CHECK: tile_gpu.bulk.wait pending(0)
    // CHECK: tile_gpu.barrier.sync %[[BARRIER]]{{.*}} threads_only
    // CHECK: %[[MINE:.*]] = tile_gpu.smem.slice %[[TILE]]
    // CHECK: tile_gpu.frag.store %{{.*}}, %[[MINE]]
    // CHECK: tile_gpu.barrier.sync %[[BARRIER]]
    // CHECK-NOT: threads_only
    // CHECK-COUNT-2: tile_gpu.bulk.store %{{.*}}, %[[MAP]][
    // CHECK-NOT: tile_gpu.bulk.store
    // CHECK: } else {
    // CHECK: tile_gpu.global.store
    // CHECK: }
    tile_gpu.global.store %o, %O[%c0, %row, %c0] rows(%end) : !o16, !out
    // CHECK: tile_gpu.bulk.wait pending(0)
    // CHECK-NEXT: tile_gpu.yield
    tile_gpu.yield
  }
  tile_gpu.return
}
// CHECK-LABEL: func.func @f
// CHECK: %[[M:.*]] = tile_gpu.tensor_map
// CHECK: tile_gpu.launch @kernel {{.*}}%[[M]] :
func.func @f(%O: !out, %n: index, %row: i32) attributes {tile.plan} {
  tile_gpu.launch @kernel grid(%n) args(%O, %row, %row : !out, i32, i32)
  return
}

// Rows that end within a chunk of 16 bytes: copies would write beyond them.
// CHECK-LABEL: kernel private @odd_columns
// CHECK-NOT: tile_gpu.bulk.store
tile_gpu.kernel private @odd_columns(%O: memref<?x25xbf16>, %row: i32) {
  %c0 = arith.constant 0 : i32
  %zero = arith.constant 0.0 : bf16
  tile_gpu.role "compute" warpgroups(1) {
  ^bb0(%wg: i32):
    %o = tile_gpu.frag.fill %zero : bf16 -> !tile_gpu.frag<64x64xbf16, acc>
    tile_gpu.global.store %o, %O[%row, %c0] rows(%row) : !tile_gpu.frag<64x64xbf16, acc>, memref<?x25xbf16>
    tile_gpu.yield
  }
  tile_gpu.return
}

// Accumulators of 32 bits, and no room beside the ring.
// CHECK-LABEL: kernel private @left_alone
// CHECK-NOT: tile_gpu.bulk.store
tile_gpu.kernel private @left_alone(%O: memref<?x?xf32>, %H: memref<?x128xbf16>, %row: i32) {
  %c0 = arith.constant 0 : i32
  %zero = arith.constant 0.0 : f32
  %zero16 = arith.constant 0.0 : bf16
  %ring = tile_gpu.ring.create tma consumers(4) : !tile_gpu.ring<7, 128x128xbf16 swizzle 128>
  tile_gpu.role "compute" warpgroups(1) {
  ^bb0(%wg: i32):
    %o = tile_gpu.frag.fill %zero : f32 -> !tile_gpu.frag<64x64xf32, acc>
    tile_gpu.global.store %o, %O[%row, %c0] rows(%row) : !tile_gpu.frag<64x64xf32, acc>, memref<?x?xf32>
    %h = tile_gpu.frag.fill %zero16 : bf16 -> !o16
    tile_gpu.global.store %h, %H[%row, %c0] rows(%row) : !o16, memref<?x128xbf16>
    tile_gpu.yield
  }
  tile_gpu.return
}
}
