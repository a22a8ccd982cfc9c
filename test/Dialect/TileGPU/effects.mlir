// RUN: attn-opt %s --cse --loop-invariant-code-motion --canonicalize | FileCheck %s
// What is a resource stays one of its own, and goes where nothing uses it.

!c = !tile_gpu.frag<64x64xf32, acc>
!v = !tile_gpu.vec<64xf32, row>

// CHECK-LABEL: func.func @accumulators
// CHECK-COUNT-2: tile_gpu.frag.fill %{{.*}} : f32 -> !tile_gpu.frag
// CHECK-NOT: tile_gpu.frag.fill %{{.*}} : f32 -> !tile_gpu.frag
// CHECK: return
func.func @accumulators(%x: f32) -> (!c, !c) {
  %a = tile_gpu.frag.fill %x : f32 -> !c
  %b = tile_gpu.frag.fill %x : f32 -> !c
  %unused = tile_gpu.frag.fill %x : f32 -> !c
  return %a, %b : !c, !c
}

// Vectors are taken by nothing.
// CHECK-LABEL: func.func @vectors
// CHECK: %[[V:.*]] = tile_gpu.frag.fill
// CHECK-NOT: tile_gpu.frag.fill
// CHECK: return %[[V]], %[[V]]
func.func @vectors(%x: f32) -> (!v, !v) {
  %a = tile_gpu.frag.fill %x : f32 -> !v
  %b = tile_gpu.frag.fill %x : f32 -> !v
  return %a, %b : !v, !v
}

// CHECK-LABEL: func.func @copies
// CHECK-COUNT-2: tile_gpu.frag.copy
// CHECK-NOT: tile_gpu.frag.copy
// CHECK: return
func.func @copies(%x: !c) -> (!c, !c) {
  %a = tile_gpu.frag.copy %x : !c
  %b = tile_gpu.frag.copy %x : !c
  %unused = tile_gpu.frag.copy %x : !c
  return %a, %b : !c, !c
}

// Each turn of a loop begins with an accumulator of its own.
// CHECK-LABEL: func.func @turns
// CHECK: scf.for
// CHECK-NEXT: tile_gpu.frag.fill
func.func @turns(%x: f32, %n: index, %m: memref<?x?xf32>, %i: i32) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %k = %c0 to %n step %c1 {
    %a = tile_gpu.frag.fill %x : f32 -> !c
    tile_gpu.global.store %a, %m[%i, %i] : !c, memref<?x?xf32>
  }
  return
}

// Two schedules have a leading loop each.
// CHECK-LABEL: func.func @schedules
// CHECK: %[[A:.*]] = tile_gpu.scheduler
// CHECK: %[[B:.*]] = tile_gpu.scheduler
// CHECK: tile_gpu.foreach %[[A]] lead
// CHECK: tile_gpu.foreach %[[B]] lead
func.func @schedules(%n: i32, %m: memref<?xi32>) {
  %c0 = arith.constant 0 : i32
  %a = tile_gpu.scheduler static in_order tiles(%n) heads(%n) batch(%n) {
  ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
    tile_gpu.yield %c0, %c0 : i32, i32
  }
  %b = tile_gpu.scheduler static in_order tiles(%n) heads(%n) batch(%n) {
  ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
    tile_gpu.yield %c0, %c0 : i32, i32
  }
  tile_gpu.foreach %a lead {
  ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32, %lo: i32, %hi: i32):
    %i = arith.index_cast %tile : i32 to index
    memref.store %lo, %m[%i] : memref<?xi32>
    tile_gpu.yield
  }
  tile_gpu.foreach %b lead {
  ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32, %lo: i32, %hi: i32):
    %i = arith.index_cast %tile : i32 to index
    memref.store %hi, %m[%i] : memref<?xi32>
    tile_gpu.yield
  }
  return
}
