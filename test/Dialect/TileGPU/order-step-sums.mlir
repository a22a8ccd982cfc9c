// A step of a gradient over queries whose weights are added up in each row, too, as
// for the gradient of a bias of keys, is ordered as others are (order-step.mlir). The
// sum is taken where the weights are made: behind the products that take these it
// would hold their registers beside what is in flight.
//
// RUN: attn-opt %s --attn-pipeline="target=sm_90a until-after=gpu" | FileCheck %s

!rows = tensor<?x?x?x128xbf16>
!sums = tensor<?x?x?xf32>

attn.monoid @keys cocycle stats() components(value, value, unit) outputs("dk", "dv", "db") {
  lift {
  ^bb0(%ds: f32, %p: f32):
    attn.yield %ds, %p, %ds : f32, f32, f32
  }
  finalize {
  ^bb0(%dk: f32, %dv: f32, %db: f32):
    attn.yield %dk, %dv, %db : f32, f32, f32
  }
}

// CHECK-LABEL: tile_gpu.kernel
// CHECK: tile_gpu.role "compute"
// CHECK: scf.for
// CHECK: scf.for
// CHECK: %[[S:.*]] = tile_gpu.mma.issue
// CHECK: %[[DP:.*]] = tile_gpu.mma.issue
// CHECK: tile_gpu.mma.wait %[[S]] pending(1)
// CHECK: math.exp
// CHECK: tile_gpu.mma.issue {{.*}} acc(
// CHECK-NEXT: %[[Y:.*]] = tile_gpu.mma.wait %[[DP]] pending(1)
// CHECK-NEXT: %[[DS:.*]] = tile_gpu.map ins(%[[Y]],
// CHECK-NOT: math.exp
// CHECK: tile_gpu.reduce ins(%[[DS]] :
// CHECK: %[[PACKED:.*]] = tile_gpu.frag.convert %[[DS]]
// CHECK-NEXT: tile_gpu.mma.issue %[[PACKED]], {{.*}} acc(
func.func @gradients(%q: !rows, %k: !rows, %v: !rows, %do: !rows) -> (!rows, !rows, !sums) {
  %0:3 = attn.aggregate @keys scores(%k, %q, %v, %do : !rows, !rows, !rows, !rows) values(%q, %do : !rows, !rows) {side = #attn.side<queries>}
    score {
    ^bb0(%s: f32, %dp: f32, %b: i32, %h: i32, %i: i32, %j: i32):
      %p = math.exp %s : f32
      %ds = arith.mulf %p, %dp : f32
      attn.yield %ds, %p : f32, f32
    } -> !rows, !rows, !sums
  return %0#0, %0#1, %0#2 : !rows, !rows, !sums
}
