// RUN: attn-opt %s --split-input-file --tile-gpu-pipeline-copies | FileCheck %s

// One block for each item: none is passed over, and blocks form no clusters.
!out = memref<?x?x64xf32, strided<[?, ?, 1]>>
module attributes {attn.target = "sm_80"} {
// CHECK-LABEL: kernel private @sequences
// CHECK-SAME: %{{[^,]*}}: memref<?x?x64xf32, strided<[?, ?, 1]>>, %[[CU:.*]]: memref<?xi32>, %{{.*}}: index)
// CHECK: tile_gpu.scheduler grid in_order tiles(%{{.*}}) heads(%{{.*}}) batch(%{{.*}}) {
// CHECK: scf.for
// CHECK: memref.load %[[CU]]
// CHECK-NOT: tile_gpu.skip
// CHECK: tile_gpu.yield %{{.*}}, %[[TILE:.*]] : index, index
// CHECK: tile_gpu.foreach %{{.*}} lead {
// CHECK-NEXT: ^bb0(%{{.*}}: i32, %[[HEAD:.*]]: i32, %{{.*}}: i32, %{{.*}}: i32, %[[SEQUENCE:.*]]: index, %[[AT:.*]]: index):
// CHECK: tile.store %{{.*}}, %{{.*}}[%[[SEQUENCE]], %[[ROW:.*]], %{{.*}}]
tile.kernel private @sequences(%out: !out, %cu: memref<?xi32>, %n: index, %block: index) {
  %one = arith.constant 1 : index
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %x = tile.fill %zero : f32 -> !tile.tile<64x64xf32>
  %sequence, %head, %tile, %part = tile.work_tile %block longest_first
      varlen(%cu : memref<?xi32>, %n) block_q(64) heads(%n) tiles(%n) parts(%one)
  tile.store %x, %out[%sequence, %tile, %c0] : !tile.tile<64x64xf32>, !out
  tile.return
}

// CHECK-LABEL: kernel private @ordered
// CHECK: tile_gpu.scheduler grid longest_first section(%{{.*}}) tiles(%{{.*}}) heads(%{{.*}}) batch(%{{.*}}) splits(%{{.*}}) {
tile.kernel private @ordered(%out: !out, %n: index, %s: index, %block: index) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %x = tile.fill %zero : f32 -> !tile.tile<64x64xf32>
  %batch, %head, %tile, %part = tile.work_tile %block longest_first section(%s) cluster(2)
      batches(%n) heads(%n) tiles(%n) parts(%n)
  tile.store %x, %out[%head, %tile, %c0] : !tile.tile<64x64xf32>, !out
  tile.return
}
}
