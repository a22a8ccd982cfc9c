// RUN: attn-opt %s --canonicalize | FileCheck %s
// What nothing reads goes, and so does what only that read.
// CHECK-LABEL: func.func @unread
func.func @unread(%a: !tile_gpu.vec<64xf32, row>, %b: !tile_gpu.vec<64xf32, row>) -> !tile_gpu.vec<64xf32, row> {
  // CHECK: %[[R:.*]] = tile_gpu.map ins(%arg1 : !tile_gpu.vec<64xf32, row>) {
  // CHECK-NEXT: ^bb0(%{{.*}}: i32, %{{.*}}: i32, %[[X:.*]]: f32):
  // CHECK-NEXT: %[[Y:.*]] = arith.negf %[[X]]
  // CHECK-NEXT: tile_gpu.yield %[[Y]] : f32
  // CHECK-NEXT: } -> !tile_gpu.vec<64xf32, row>
  // CHECK: return %[[R]]
  %r:2 = tile_gpu.map ins(%a, %b : !tile_gpu.vec<64xf32, row>, !tile_gpu.vec<64xf32, row>) {
  ^bb0(%i: i32, %j: i32, %x: f32, %y: f32):
    %u = arith.addf %x, %x : f32
    %v = arith.negf %y : f32
    tile_gpu.yield %u, %v : f32, f32
  } -> !tile_gpu.vec<64xf32, row>, !tile_gpu.vec<64xf32, row>
  return %r#1 : !tile_gpu.vec<64xf32, row>
}
