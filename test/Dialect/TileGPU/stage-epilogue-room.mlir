// Results that find no room of their own in shared memory leave through that of one
// before, when it has been read; where there is none, from registers.
//
// RUN: attn-opt %s --tile-gpu-stage-epilogue | FileCheck %s
// RUN: attn-opt %s %tidy --tile-gpu-stage-epilogue %tidy %verify_kernels -o /dev/null

!out = memref<?x64xbf16, strided<[?, 1]>>
!o16 = !tile_gpu.frag<64x64xbf16, acc>
module attributes {attn.target = "sm_90a"} {
// CHECK-LABEL: kernel private @kernel(
// CHECK-SAME: %[[A:[a-z0-9]*]]: memref<?x64xbf16, strided<[?, 1]>>, %[[B:[a-z0-9]*]]: memref<?x64xbf16, strided<[?, 1]>>, %{{.*}}: i32, %{{.*}}: i32, %[[OFA:.*]]: !tile_gpu.tensor_map<64x64xbf16 swizzle 128>, %[[OFB:.*]]: !tile_gpu.tensor_map<64x64xbf16 swizzle 128>)
tile_gpu.kernel private @kernel(%A: !out, %B: !out, %row: i32, %end: i32) {
  // CHECK: %[[TILE:.*]] = tile_gpu.smem.alloc : <128x64xbf16 swizzle 128>
  // CHECK-NOT: tile_gpu.smem.alloc : <128x64xbf16
  %c0 = arith.constant 0 : i32
  %zero = arith.constant 0.0 : bf16
  %full = tile_gpu.smem.alloc : <1600x64xbf16 swizzle 128>
  tile_gpu.role "compute" warpgroups(2) {
  ^bb0(%wg: i32):
    %o = tile_gpu.frag.fill %zero : bf16 -> !o16
    // CHECK: tile_gpu.bulk.wait pending(0)
    // CHECK: %[[MINE:.*]] = tile_gpu.smem.slice %[[TILE]]
    // CHECK: tile_gpu.frag.store %{{.*}}, %[[MINE]]
    // CHECK: tile_gpu.bulk.store %[[MINE]], %[[OFA]][
    tile_gpu.global.store %o, %A[%row, %c0] rows(%end) : !o16, !out
    // CHECK: tile_gpu.bulk.wait pending(0)
    // CHECK: tile_gpu.barrier.sync %{{.*}} threads_only
    // CHECK: %[[AGAIN:.*]] = tile_gpu.smem.slice %[[TILE]]
    // CHECK: tile_gpu.frag.store %{{.*}}, %[[AGAIN]]
    // CHECK: tile_gpu.bulk.store %[[AGAIN]], %[[OFB]][
    tile_gpu.global.store %o, %B[%row, %c0] rows(%end) : !o16, !out
    tile_gpu.yield
  }
  tile_gpu.return
}
func.func @f(%A: !out, %B: !out, %n: i32) {
  %one = arith.constant 1 : index
  tile_gpu.launch @kernel grid(%one) args(%A, %B, %n, %n : !out, !out, i32, i32)
  return
}
}
