// RUN: attn-opt %s --tile-gpu-pipeline-copies --canonicalize --cse | FileCheck %s
// RUN: attn-opt %s --tile-gpu-pipeline-copies --convert-tile-to-tile-gpu --canonicalize --cse --tile-gpu-verify-async --tile-gpu-allocate-shared --tile-gpu-verify-budget -o /dev/null

// Four warps have the same rows, and each every fourth step of the loop: their
// states become one, which the first of them stores.

module attributes {attn.target = "sm_80"} {
// CHECK-LABEL: tile_gpu.kernel private @parts(
// CHECK: %[[S:.*]] = tile_gpu.smem.alloc : <4x272xf32>
// CHECK: tile_gpu.role "compute" warps(4)
// CHECK: ^bb0(%[[W:.*]]: i32):
// CHECK: %[[FIRST:.*]] = arith.muli %[[W]], %c8_i32
// CHECK: scf.for %{{.*}} = %[[FIRST]] to %{{.*}} step %c32_i32
// CHECK: tile_gpu.merge_states warps stats({{.*}}) values({{.*}}) scratch(%[[S]] : !tile_gpu.smem<4x272xf32>) count(4)
// CHECK: %[[IS:.*]] = arith.cmpi eq, %[[W]], %c0_i32
// CHECK: scf.if %[[IS]]
// CHECK-NEXT: tile.store
tile.kernel private @parts(%M: memref<?x?xf32>, %V: memref<?x?x16xf32>, %O: memref<?x16xf32>, %block: index) {
  %c0 = arith.constant 0 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  %z = arith.constant 0.0 : f32
  %least = arith.constant 0xFF800000 : f32
  %row = arith.muli %block, %c16 : index
  %n = memref.dim %M, %c0 : memref<?x?xf32>
  %m = tile.fill %least : f32 -> !tile.tile<16x1xf32>
  %o = tile.fill %z : f32 -> !tile.tile<16x16xf32>
  %s:2 = scf.for %p = %c0 to %n step %c8 iter_args(%a = %m, %b = %o) -> (!tile.tile<16x1xf32>, !tile.tile<16x16xf32>) {
    %x = tile.load vector %M[%p, %row] : memref<?x?xf32> -> !tile.tile<16x1xf32>
    %y = tile.load %V[%p, %row, %c0] : memref<?x?x16xf32> -> !tile.tile<16x16xf32>
    scf.yield %x, %y : !tile.tile<16x1xf32>, !tile.tile<16x16xf32>
  }
  %r:2 = tile.merge stats(%s#0 : !tile.tile<16x1xf32>) values(%s#1 : !tile.tile<16x16xf32>) warps(4) {
  ^bb0(%a: f32, %b: f32):
    %c = arith.maximumf %a, %b : f32
    %da = arith.subf %a, %c : f32
    %db = arith.subf %b, %c : f32
    %fa = math.exp %da : f32
    %fb = math.exp %db : f32
    tile.yield %c, %fa, %fb : f32, f32, f32
  } -> !tile.tile<16x1xf32>, !tile.tile<16x16xf32>
  tile.store %r#1, %O[%row, %c0] : !tile.tile<16x16xf32>, memref<?x16xf32>
  tile.return
}
}
