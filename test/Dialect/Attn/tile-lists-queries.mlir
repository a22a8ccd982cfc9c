// Reductions over queries have lists, too, of the tiles of queries that are live for
// a tile of keys: warpgroups then take masks that read memory. A mask sees the head
// of the queries, of which a head of keys has a group: there are lists for each.
//
// RUN: attn-opt %s --attn-pipeline="target=sm_90a until-after=schedule" | FileCheck %s --check-prefix=SCHEDULE
// RUN: attn-opt %s --attn-pipeline="target=sm_90a until-after=tile" | FileCheck %s
// RUN: attn-opt %s --attn-pipeline="target=sm_90a until-after=gpu" | FileCheck %s --check-prefix=GPU
// Other GPUs test elements, and exchange which queries have a live one.
// RUN: attn-opt %s --attn-pipeline="target=sm_80 until-after=tile" | FileCheck %s --check-prefix=OTHER
// OTHER-NOT: tile.truths

!rows = tensor<?x?x?x128xbf16>
!ids = tensor<?xi32>

attn.monoid @keys cocycle stats() components(value, value) outputs("dk", "dv") {
  lift {
  ^bb0(%ds: f32, %p: f32):
    attn.yield %ds, %p : f32, f32
  }
  finalize {
  ^bb0(%dk: f32, %dv: f32):
    attn.yield %dk, %dv : f32, f32
  }
}

// SCHEDULE: schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 64,

// CHECK-LABEL: func.func @gradients(
// CHECK: %[[HEADS:.*]] = memref.dim %arg0, %c1
// CHECK: tile.workspace(%{{.*}}, %[[HEADS]], %{{.*}}, %{{.*}}) : memref<?x?x?x?xi32>
// CHECK: tile.launch
// CHECK: tile.launch
// CHECK-NOT: tile.launch
// CHECK: tile.kernel private @gradients_kernel0
// The heads of a group, and their lists.
// CHECK: scf.for %[[NUMBER:.*]] = %c0 to %{{.*}} step %c1 iter_args
// CHECK: %[[HEAD:.*]] = arith.addi %{{.*}}, %[[NUMBER]] : index
// CHECK: memref.load %[[LISTS:.*]][%{{.*}}, %[[HEAD]], %{{.*}}, %{{.*}}] : memref<?x?x?x?xi32>
// CHECK: tile.truths
// CHECK: tile.load {{.*}} live

// GPU: tile_gpu.role "compute" warpgroups(2)
// GPU: tile_gpu.smem.clear_rows
func.func @gradients(%q: !rows, %k: !rows, %v: !rows, %do: !rows, %ids: !ids) -> (!rows, !rows) {
  %0:2 = attn.aggregate @keys scores(%k, %q, %v, %do : !rows, !rows, !rows, !rows) values(%q, %do : !rows, !rows) captures(%ids : !ids) {dead_is_zero, side = #attn.side<queries>}
    score {
    ^bb0(%s: f32, %dp: f32, %b: i32, %h: i32, %i: i32, %j: i32, %t: !ids):
      %p = math.exp2 %s : f32
      %ds = arith.mulf %dp, %p : f32
      attn.yield %ds, %p : f32, f32
    }
    mask {
    ^bb0(%b: i32, %h: i32, %i: i32, %j: i32, %t: !ids):
      %row = arith.index_cast %i : i32 to index
      %query = arith.index_cast %j : i32 to index
      %x = tensor.extract %t[%row] : !ids
      %y = tensor.extract %t[%query] : !ids
      %z = arith.addi %y, %h : i32
      %seen = arith.cmpi sle, %x, %z : i32
      attn.yield %seen : i1
    } -> !rows, !rows
  return %0#0, %0#1 : !rows, !rows
}
