// RUN: attn-opt %s --verify-roundtrip | FileCheck %s

// Keys above a threshold of their row: the largest score and where it is, beside a
// state that stays as it is and so has no place in shared memory.

// CHECK-LABEL: func @largest
// CHECK: tile_gpu.fold_above %{{.*}}, %{{.*}} threshold(0) factor(1.250000e-01) states(%{{.*}}, %{{.*}}, %{{.*}} : !tile_gpu.vec<64xf32, row>, !tile_gpu.vec<64xi32, row>, !tile_gpu.vec<64xf32, row>) {
// CHECK: tile_gpu.yield
// CHECK: } : <64x32xf32, acc>, <64x40xf32> -> !tile_gpu.vec<64xf32, row>, !tile_gpu.vec<64xi32, row>, !tile_gpu.vec<64xf32, row>
func.func @largest(%s: !tile_gpu.frag<64x32xf32, acc>, %scratch: !tile_gpu.smem<64x40xf32>,
                   %most: !tile_gpu.vec<64xf32, row>, %at: !tile_gpu.vec<64xi32, row>) {
  %next:3 = tile_gpu.fold_above %s, %scratch threshold(0) factor(0.125)
      states(%most, %at, %most : !tile_gpu.vec<64xf32, row>, !tile_gpu.vec<64xi32, row>, !tile_gpu.vec<64xf32, row>) {
  ^bb0(%i: i32, %j: i32, %x: f32, %m: f32, %p: i32, %same: f32):
    %above = arith.cmpf ogt, %x, %m : f32
    %n = arith.select %above, %x, %m : f32
    %q = arith.select %above, %j, %p : i32
    tile_gpu.yield %n, %q, %same : f32, i32, f32
  } : !tile_gpu.frag<64x32xf32, acc>, !tile_gpu.smem<64x40xf32>
      -> !tile_gpu.vec<64xf32, row>, !tile_gpu.vec<64xi32, row>, !tile_gpu.vec<64xf32, row>
  return
}
