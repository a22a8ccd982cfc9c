// RUN: attn-opt %s --verify-roundtrip | FileCheck %s

// CHECK-LABEL: kernel @plain
tile.kernel @plain(%b: index, %h: index, %t: index, %block: index) {
  %one = arith.constant 1 : index
  // CHECK: %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} = tile.work_tile %{{.*}} in_order batches(%{{.*}}) heads(%{{.*}}) tiles(%{{.*}}) parts(%{{.*}})
  %batch, %head, %tile, %part = tile.work_tile %block in_order batches(%b) heads(%h) tiles(%t) parts(%one)
  tile.return
}

// CHECK-LABEL: kernel @sections
tile.kernel @sections(%b: index, %h: index, %t: index, %s: index, %p: index,
                      %block: index) {
  // CHECK: tile.work_tile %{{.*}} longest_first section(%{{.*}}) cluster(2) batches(
  %batch, %head, %tile, %part = tile.work_tile %block longest_first section(%s) cluster(2)
      batches(%b) heads(%h) tiles(%t) parts(%p)
  tile.return
}

// CHECK-LABEL: kernel @sequences
tile.kernel @sequences(%cu: memref<?xi32, strided<[1]>>, %rows: index, %h: index, %t: index,
                       %block: index) {
  %one = arith.constant 1 : index
  // CHECK: tile.work_tile %{{.*}} in_order varlen(%{{.*}} : memref<?xi32, strided<[1]>>, %{{.*}}) block_q(128) heads(
  %batch, %head, %tile, %part = tile.work_tile %block in_order
      varlen(%cu : memref<?xi32, strided<[1]>>, %rows) block_q(128)
      heads(%h) tiles(%t) parts(%one)
  tile.return
}

// CHECK-LABEL: kernel @counted
tile.kernel @counted(%b: index, %h: index, %t: index, %n: memref<?xi32>, %block: index) {
  // CHECK: tile.work_tile %{{.*}} in_order counts(%{{.*}} : memref<?xi32>) block_q(128) batches(
  %one = arith.constant 1 : index
  %batch, %head, %tile, %part = tile.work_tile %block in_order
      counts(%n : memref<?xi32>) block_q(128) batches(%b) heads(%h) tiles(%t) parts(%one)
  tile.return
}
