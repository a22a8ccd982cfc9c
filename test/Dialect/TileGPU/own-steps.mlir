// RUN: attn-opt %s --attn-pipeline="target=sm_90a until-after=gpu" | FileCheck %s

// In a window of queries the last 64 keys of a tile have no use for its first
// step of 64 queries, and the first 64 none for its last one: each warpgroup has
// the loops of its own keys. What comes ahead of these, and behind them, it waits
// for and gives back.

!rows = tensor<?x?x?x128xbf16>

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

// Bounds of each are found by who draws the items.
// CHECK-LABEL: tile_gpu.kernel private @window_kernel0
// CHECK: tile_gpu.role "compute" warpgroups(2)
// CHECK-NEXT: ^bb0(%[[WG:.*]]: i32):
// CHECK: tile_gpu.foreach
// CHECK: %[[FIRST:.*]] = arith.cmpi eq, %[[WG]], %c0_i32
// CHECK-NEXT: %[[START:.*]] = arith.select %[[FIRST]], %[[BLOCK:arg[0-9]+]], %arg{{.*}} : index
// CHECK-COUNT-3: arith.select %[[FIRST]], %arg{{.*}}, %arg{{.*}} : index
// CHECK: %[[SOME:.*]] = arith.select %[[FIRST]], %arg{{.*}}, %arg{{.*}} : i1
// CHECK: %[[AWAY:.*]] = arith.subi %[[START]], %[[BLOCK]]
// CHECK: %[[STEPS:.*]] = arith.ceildivui
// CHECK: %[[CAST:.*]] = arith.index_cast %[[STEPS]] : index to i32
// CHECK: %[[AHEAD:.*]] = arith.minsi %[[CAST]], %[[ALL:.*]] : i32
// CHECK: scf.for {{.*}} iter_args(%[[STEP:arg[0-9]+]] =
// CHECK: %[[END:.*]] = arith.addi %[[STEP]], %[[ALL]]
// CHECK: %[[OWN:.*]] = arith.addi %[[STEP]], %[[AHEAD]]
// CHECK: scf.for %[[S:.*]] = %[[STEP]] to %[[OWN]] step
// CHECK-NEXT: tile_gpu.ring.wait %[[Q:.*]][%[[S]]]
// CHECK-NEXT: tile_gpu.ring.wait %[[DO:.*]][%[[S]]]
// CHECK-NEXT: tile_gpu.ring.release %[[Q]][%[[S]]]
// CHECK-NEXT: tile_gpu.ring.release %[[DO]][%[[S]]]
// CHECK-NEXT: }
// CHECK: scf.if %[[SOME]]
// CHECK: tile_gpu.ring.wait %[[Q]][%[[OWN]]]
// CHECK: scf.for
// CHECK: scf.for
// CHECK: %[[LAST:.*]]:3 = scf.for
// CHECK: scf.for %[[S:.*]] = %[[LAST]]#0 to %[[END]] step
// CHECK-NEXT: tile_gpu.ring.wait %[[Q]][%[[S]]]
// CHECK-NEXT: tile_gpu.ring.wait %[[DO]][%[[S]]]
// CHECK-NEXT: tile_gpu.ring.release %[[Q]][%[[S]]]
// CHECK-NEXT: tile_gpu.ring.release %[[DO]][%[[S]]]
// CHECK-NEXT: }
// CHECK-NEXT: scf.yield
// A warpgroup without keys has no steps.
// CHECK-NEXT: } else {
// CHECK-NEXT: scf.for %{{.*}} = %[[OWN]] to %[[END]] step
func.func @window(%q: !rows, %k: !rows, %v: !rows, %do: !rows, %left: i32) -> (!rows, !rows) {
  %0:2 = attn.aggregate @keys scores(%k, %q, %v, %do : !rows, !rows, !rows, !rows) values(%q, %do : !rows, !rows) captures(%left : i32) {side = #attn.side<queries>}
    mask {
    ^bb0(%b: i32, %h: i32, %i: i32, %j: i32, %l: i32):
      %live = arith.cmpi sle, %i, %j : i32
      %d = arith.subi %j, %i : i32
      %near = arith.cmpi sle, %d, %l : i32
      %both = arith.andi %live, %near : i1
      attn.yield %both : i1
    }
    score {
    ^bb0(%s: f32, %dp: f32, %b: i32, %h: i32, %i: i32, %j: i32, %l: i32):
      %p = math.exp %s : f32
      %ds = arith.mulf %p, %dp : f32
      attn.yield %ds, %p : f32, f32
    } -> !rows, !rows
  return %0#0, %0#1 : !rows, !rows
}

// With one end alone warpgroups would wait for the one that has all steps.
// CHECK-LABEL: tile_gpu.kernel private @causal_kernel0
// CHECK: tile_gpu.role "compute"
// CHECK: scf.for {{.*}} iter_args(%[[STEP:arg[0-9]+]] =
// CHECK-NOT: scf.for
// CHECK: scf.if
// CHECK: tile_gpu.ring.wait %{{.*}}[%[[STEP]]]
// CHECK: scf.for
// CHECK: scf.for
// CHECK: %[[LAST:.*]]:3 = scf.for
// CHECK-NOT: scf.for
// CHECK: scf.yield %[[LAST]]#0,
// CHECK-NEXT: } else {
// CHECK-NEXT: scf.yield
func.func @causal(%q: !rows, %k: !rows, %v: !rows, %do: !rows) -> (!rows, !rows) {
  %0:2 = attn.aggregate @keys scores(%k, %q, %v, %do : !rows, !rows, !rows, !rows) values(%q, %do : !rows, !rows) {side = #attn.side<queries>}
    mask {
    ^bb0(%b: i32, %h: i32, %i: i32, %j: i32):
      %live = arith.cmpi sle, %i, %j : i32
      attn.yield %live : i1
    }
    score {
    ^bb0(%s: f32, %dp: f32, %b: i32, %h: i32, %i: i32, %j: i32):
      %p = math.exp %s : f32
      %ds = arith.mulf %p, %dp : f32
      attn.yield %ds, %p : f32, f32
    } -> !rows, !rows
  return %0#0, %0#1 : !rows, !rows
}
