// A step of a gradient over queries has two products from zero and a map of both.
// What that computes of the first one alone is a map of its own, and its product
// is issued beside the second one. The first map's weights go on to the second,
// masked as its results are, so that no other fragment is held.
//
// RUN: attn-opt %s --attn-pipeline="target=sm_90a until-after=gpu" | FileCheck %s
//
// A schedule that says so, and sums of few columns, leave products as they are.
// RUN: sed 's/{side/{schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 64, overlap = none>, side/' %s \
// RUN:   | attn-opt --attn-pipeline="target=sm_90a until-after=gpu" | FileCheck %s --check-prefix=APART
//
// Of few columns it is the schedule that says so: as it is chosen, and by hand.
// RUN: sed 's/x128xbf16/x64xbf16/' %s \
// RUN:   | attn-opt --attn-pipeline="target=sm_90a until-after=gpu" | FileCheck %s --check-prefix=CHOSEN
// RUN: sed 's/x128xbf16/x64xbf16/; s/{side/{schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 96, overlap = own_step>, side/' %s \
// RUN:   | attn-opt --attn-pipeline="target=sm_90a until-after=gpu" | FileCheck %s --check-prefix=FEW
// RUN: sed 's/x128xbf16/x64xbf16/; s/{side/{schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 64, overlap = next_step>, side/' %s \
// RUN:   | attn-opt --attn-pipeline="target=sm_90a until-after=gpu" | FileCheck %s --check-prefix=NEXT

// What weights are multiplied by, as the slope of a cap, goes on with them: the weights
// stay as the product takes them.
// RUN: sed 's/%%ds = arith.mulf %%p, %%dp : f32/%%u = math.tanh %%s : f32 %%w = arith.mulf %%p, %%u : f32 %%ds = arith.mulf %%dp, %%w : f32/' %s \
// RUN:   | attn-opt --attn-pipeline="target=sm_90a until-after=gpu" | FileCheck %s --check-prefix=SCALED

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

// CHECK-LABEL: tile_gpu.kernel
// CHECK: tile_gpu.role "compute"
// CHECK: scf.for {{.*}}frag<64x128xf32, acc>, !tile_gpu.frag<64x128xf32, acc>)
// CHECK: scf.for
// CHECK: %[[S:.*]] = tile_gpu.mma.issue
// CHECK: %[[DP:.*]] = tile_gpu.mma.issue
// CHECK: %[[X:.*]] = tile_gpu.mma.wait %[[S]] pending(1)
// CHECK-NEXT: %[[P:.*]] = tile_gpu.map ins(%[[X]] :
// CHECK: math.exp
// CHECK: %[[PACKED:.*]] = tile_gpu.frag.convert %[[P]]
// CHECK-NEXT: %[[DV:.*]] = tile_gpu.mma.issue %[[PACKED]], {{.*}} acc(
// CHECK-NEXT: %[[Y:.*]] = tile_gpu.mma.wait %[[DP]] pending(1)
// CHECK-NEXT: %[[DS:.*]] = tile_gpu.map ins(%[[Y]], %[[P]] :
// CHECK-NOT: math.exp
// CHECK: %[[PACKED:.*]] = tile_gpu.frag.convert %[[DS]]
// CHECK-NEXT: %[[DK:.*]] = tile_gpu.mma.issue %[[PACKED]], {{.*}} acc(
// CHECK-NEXT: tile_gpu.mma.wait %[[DV]] pending(1)
// CHECK-NEXT: tile_gpu.mma.wait %[[DK]] pending(0)
// CHECK-NEXT: tile_gpu.ring.release
// CHECK-NEXT: tile_gpu.ring.release
// The step of the mask:
// CHECK: scf.for
// CHECK: math.exp
// CHECK: arith.select
// CHECK-NEXT: tile_gpu.yield %{{[0-9]+}} : f32
// CHECK: tile_gpu.frag.convert %[[M:.*]] :
// CHECK: tile_gpu.map ins(%{{.*}}, %[[M]] :

// CHOSEN: overlap = own_step
// FEW-LABEL: tile_gpu.kernel
// FEW: tile_gpu.role "compute"
// FEW: scf.for {{.*}}frag<64x64xf32, acc>, !tile_gpu.frag<64x64xf32, acc>)
// FEW: scf.for
// FEW: %[[S:.*]] = tile_gpu.mma.issue
// FEW: %[[DP:.*]] = tile_gpu.mma.issue
// FEW: tile_gpu.mma.wait %[[S]] pending(1)
// FEW: math.exp
// FEW: %[[DV:.*]] = tile_gpu.mma.issue {{.*}} acc(
// FEW-NEXT: tile_gpu.mma.wait %[[DP]] pending(1)
// FEW: %[[DK:.*]] = tile_gpu.mma.issue {{.*}} acc(
// FEW-NEXT: tile_gpu.mma.wait %[[DV]] pending(1)
// FEW-NEXT: tile_gpu.mma.wait %[[DK]] pending(0)
// NEXT: tile_gpu.mma.wait {{.*}} pending(3)

// SCALED-LABEL: tile_gpu.kernel
// SCALED: tile_gpu.role "compute"
// SCALED: %[[X:.*]] = tile_gpu.mma.wait %{{.*}} pending(1)
// SCALED-NEXT: %[[P:.*]]:2 = tile_gpu.map ins(%[[X]] :
// SCALED: %[[PACKED:.*]] = tile_gpu.frag.convert %[[P]]#0
// SCALED-NEXT: tile_gpu.mma.issue %[[PACKED]], {{.*}} acc(
// SCALED-NEXT: %[[Y:.*]] = tile_gpu.mma.wait %{{.*}} pending(1)
// SCALED-NEXT: tile_gpu.map ins(%[[Y]], %[[P]]#1 :

// APART-LABEL: tile_gpu.kernel
// APART: tile_gpu.role "compute"
// APART-NOT: pending(1)
func.func @gradients(%q: !rows, %k: !rows, %v: !rows, %do: !rows) -> (!rows, !rows) {
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
