// RUN: attn-opt %s --attn-pipeline="until-after=tile target=sm_90a" | FileCheck %s
// RUN: attn-opt %s --attn-pipeline="until-after=tile target=sm_80" | FileCheck %s --check-prefix=SM80

!rows = tensor<?x?x1x128xbf16>

// A warp of the first that run asks for its own state, ahead of what it waits
// for; each for that of a warp which comes when it has ended: 132 x 8 warps, of
// which eight have a head; of 108 multiprocessors 108 heads.
// CHECK-LABEL: tile.kernel private @step_kernel0(
// CHECK: arith.constant 132 : index
// CHECK: scf.if
// CHECK-NEXT: tile.prefetch %[[S:.*]][%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}] rows(16) columns(128)
// CHECK: tile.load %[[S]]
// CHECK: scf.if
// CHECK: tile.prefetch %[[S]][{{.*}}] rows(16) columns(128)
// SM80-LABEL: tile.kernel private @step_kernel0(
// SM80: arith.constant 108 : index
func.func @step(%q: !rows, %k: !rows, %v: !rows, %S: tensor<?x?x128x128xbf16>) -> !rows {
  %o = attn.scan queries(%q : !rows) keys(%k : !rows) values(%v : !rows)
      slots(%S : tensor<?x?x128x128xbf16>) {values_first, chunk = 1} -> !rows
  return %o : !rows
}

// Where a slot says which state it is, the one to come is found by its slot, and
// the warp's own waits.
// CHECK-LABEL: tile.kernel private @slots_kernel0(
// CHECK-NOT: tile.prefetch
// CHECK: tile.load
// CHECK: scf.if
// CHECK: memref.load {{.*}} : memref<?xi32
// CHECK: scf.if
// CHECK: tile.prefetch {{.*}} rows(16) columns(128)
func.func @slots(%q: !rows, %k: !rows, %v: !rows, %S: tensor<?x?x128x128xf32>, %i: tensor<?xi32>) -> !rows {
  %o = attn.scan queries(%q : !rows) keys(%k : !rows) values(%v : !rows)
      slots(%S : tensor<?x?x128x128xf32>) index(%i : tensor<?xi32>) {values_first, chunk = 1} -> !rows
  return %o : !rows
}

// Key channels first: a tile is a part of each of 128 rows, which is asked for
// where all warps run at once. The warps of a later head each ask for 32 of its
// whole rows; f32 of half as many heads, by what a cache keeps.
// CHECK-LABEL: tile.kernel private @gaps_kernel0(
// CHECK: arith.cmpi sle, %{{.*}}, %c264
// CHECK-NEXT: scf.if
// CHECK-NEXT: tile.prefetch {{.*}} rows(128) columns(32)
// CHECK: tile.load
// CHECK: arith.addi %{{.*}}, %c133
// CHECK: tile.prefetch %[[S:.*]][{{.*}}] rows(32) columns(128)
// CHECK-NOT: tile.prefetch
func.func @gaps(%q: !rows, %k: !rows, %v: !rows, %S: tensor<?x?x128x128xf32>) -> !rows {
  %o = attn.scan queries(%q : !rows) keys(%k : !rows) values(%v : !rows)
      slots(%S : tensor<?x?x128x128xf32>) {chunk = 1} -> !rows
  return %o : !rows
}

// Value channels that fill no tile: nothing is asked for that may not exist.
// CHECK-LABEL: tile.kernel private @ragged_kernel0(
// CHECK-NOT: tile.prefetch
func.func @ragged(%q: !rows, %k: !rows, %v: tensor<?x?x1x40xbf16>, %S: tensor<?x?x128x40xf32>) -> tensor<?x?x1x40xbf16> {
  %o = attn.scan queries(%q : !rows) keys(%k : !rows) values(%v : tensor<?x?x1x40xbf16>)
      slots(%S : tensor<?x?x128x40xf32>) {chunk = 1} -> tensor<?x?x1x40xbf16>
  return %o : tensor<?x?x1x40xbf16>
}

// Short states of a rule that computes more of keys have 32 rows to a warp.
// CHECK-LABEL: tile.kernel private @erase_kernel0(
// CHECK: tile.prefetch {{.*}} rows(32) columns(128)
func.func @erase(%q: !rows, %k: !rows, %v: !rows, %a: !rows, %b: !rows, %S: tensor<?x?x128x128xbf16>) -> !rows {
  %o = attn.scan queries(%q : !rows) keys(%k : !rows) values(%v : !rows)
      erase(%a, %b : !rows, !rows) slots(%S : tensor<?x?x128x128xbf16>)
      {values_first, chunk = 1} -> !rows
  return %o : !rows
}
