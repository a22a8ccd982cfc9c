// Sums of two values of 16 bits, of more channels together than a warpgroup has
// registers for, are two reductions, each with the dots of its weights; a unit
// goes with the first.
//
// RUN: sed 's/DIM/256/g; s/TYPE/bf16/g' %s | attn-opt --attn-set-target=target=sm_90a --attn-separate-sums | FileCheck %s
// RUN: sed 's/DIM/256/g; s/TYPE/bf16/g' %s | attn-opt --attn-set-target=target=sm_90a --attn-separate-sums=explain -o /dev/null 2>&1 | FileCheck %s --check-prefix=WHY
// WHY: remark: the sums of 2 values are reductions of their own: a warpgroup has registers for those of one
// Where they fit, in f32, and where registers are not the matter, they stay.
// RUN: sed 's/DIM/128/g; s/TYPE/bf16/g' %s | attn-opt --attn-set-target=target=sm_90a --attn-separate-sums | FileCheck %s --check-prefix=WHOLE
// RUN: sed 's/DIM/256/g; s/TYPE/f32/g' %s | attn-opt --attn-set-target=target=sm_90a --attn-separate-sums | FileCheck %s --check-prefix=WHOLE
// RUN: sed 's/DIM/256/g; s/TYPE/bf16/g' %s | attn-opt --attn-set-target=target=sm_80 --attn-separate-sums | FileCheck %s --check-prefix=WHOLE
// RUN: sed 's/DIM/256/g; s/TYPE/bf16/g' %s | attn-opt --attn-set-target=target=cpu-avx2 --attn-separate-sums | FileCheck %s --check-prefix=WHOLE

!rows = tensor<?x?x?xDIMxTYPE>

// CHECK-NOT: attn.monoid private @keys cocycle
// CHECK-DAG: attn.monoid private @keys_dk_total cocycle stats() components(value, unit) outputs("dk", "total")
// CHECK-DAG: attn.monoid private @keys_dv cocycle stats() components(value) outputs("dv")
attn.monoid private @keys cocycle stats() components(value, value, unit) outputs("dk", "dv", "total") {
  lift {
  ^bb0(%ds: f32, %p: f32, %t: f32):
    attn.yield %ds, %p, %t : f32, f32, f32
  }
  finalize {
  ^bb0(%dk: f32, %dv: f32, %t: f32):
    attn.yield %dk, %dv, %t : f32, f32, f32
  }
}

// CHECK-LABEL: func.func @gradients(
// CHECK-SAME: %[[Q:.*]]: tensor<?x?x?x256xbf16>, %[[K:.*]]: tensor<?x?x?x256xbf16>, %[[V:.*]]: tensor<?x?x?x256xbf16>, %[[DO:.*]]: tensor<?x?x?x256xbf16>)
// CHECK: %[[DK:.*]]:2 = attn.aggregate @keys_dk_total scores(%[[K]], %[[Q]], %[[V]], %[[DO]] : {{.*}}) values(%[[Q]] : {{.*}}) {dead_is_zero, side = #attn.side<queries>}
// CHECK: attn.yield %{{.*}}, %{{.*}} : f32, f32
// CHECK: mask {
// CHECK: %[[DV:.*]] = attn.aggregate @keys_dv scores(%[[K]], %[[Q]] : {{.*}}) values(%[[DO]] : {{.*}}) {dead_is_zero, side = #attn.side<queries>}
// CHECK: ^bb0(%[[S:.*]]: f32, %{{.*}}: i32, %{{.*}}: i32, %{{.*}}: i32, %{{.*}}: i32):
// CHECK-NEXT: %[[P:.*]] = math.exp %[[S]] : f32
// CHECK-NEXT: attn.yield %[[P]] : f32
// CHECK: mask {
// CHECK: return %[[DK]]#0, %[[DV]], %[[DK]]#1
// WHOLE: %{{.*}}:3 = attn.aggregate @keys
// WHOLE-NOT: attn.aggregate
func.func @gradients(%q: !rows, %k: !rows, %v: !rows, %do: !rows) -> (!rows, !rows, tensor<?x?x?xf32>) {
  %0:3 = attn.aggregate @keys scores(%k, %q, %v, %do : !rows, !rows, !rows, !rows) values(%q, %do : !rows, !rows) {dead_is_zero, side = #attn.side<queries>}
    score {
    ^bb0(%s: f32, %dp: f32, %b: i32, %h: i32, %i: i32, %j: i32):
      %p = math.exp %s : f32
      %ds = arith.mulf %p, %dp : f32
      attn.yield %ds, %p, %ds : f32, f32, f32
    }
    mask {
    ^bb0(%b: i32, %h: i32, %i: i32, %j: i32):
      %live = arith.cmpi sle, %i, %j : i32
      attn.yield %live : i1
    } -> !rows, !rows, tensor<?x?x?xf32>
  return %0#0, %0#1, %0#2 : !rows, !rows, tensor<?x?x?xf32>
}
