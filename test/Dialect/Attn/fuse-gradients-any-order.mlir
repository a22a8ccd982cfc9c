// Where gradients may be added up in any order, warpgroups run one kernel: a block
// for each tile of keys adds to the sums over keys in memory, which kernels clear
// before and round behind it. Without that the blocks of what is fused by hand take
// turns: each tile of rows has a counter of the key tiles that have added.
//
// RUN: attn-opt %s --attn-set-target=target=sm_90a --attn-differentiate="replace=true inputs=0,1,2" --canonicalize --attn-choose-schedule --attn-fuse-gradients="explain=true" -o %t 2>&1 | FileCheck %s --check-prefix=EXPLAIN
// RUN: FileCheck %s --input-file %t
// RUN: attn-opt %t --attn-tile --canonicalize --cse | FileCheck %s --check-prefix=TILE
// RUN: sed "s/any_order, //" %t | attn-opt --attn-tile --canonicalize --cse | FileCheck %s --check-prefix=TURNS
// RUN: sed -e "s/any_order, //" -e "s/stages = \([24]\), /stages = \1, order = longest_first, /" %t | attn-opt --attn-tile --canonicalize --cse | FileCheck %s --check-prefix=TURNS
// RUN: attn-opt %s --attn-set-target=target=sm_80 --attn-differentiate="replace=true inputs=0,1,2" --canonicalize --attn-choose-schedule --attn-fuse-gradients="explain=true" -o /dev/null 2>&1 | FileCheck %s --check-prefix=WARPS

!rows = tensor<?x?x?x64xbf16>
!wide = tensor<?x?x?x128xf16>
!odd = tensor<?x?x?x72xbf16>
!wider = tensor<?x?x?x256xbf16>
!long = tensor<?x?x?x192xbf16>
!less = tensor<?x?x?x128xbf16>

attn.monoid @soft cocycle stats(f32) components(value, unit) outputs("o") {
  identity {
    %ninf = arith.constant 0xFF800000 : f32
    attn.yield %ninf : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32):
    %m = arith.maximumf %a, %b : f32
    attn.yield %m : f32
  }
  rescale {
  ^bb0(%from: f32, %to: f32):
    %d = arith.subf %from, %to : f32
    %r = math.exp %d : f32
    attn.yield %r : f32
  }
  lift {
  ^bb0(%s: f32):
    %one = arith.constant 1.0 : f32
    attn.yield %s, %one, %one : f32, f32, f32
  }
  finalize {
  ^bb0(%m: f32, %acc: f32, %sum: f32):
    %zero = arith.constant 0.0 : f32
    %empty = arith.cmpf oeq, %sum, %zero : f32
    %quot = arith.divf %acc, %sum : f32
    %o = arith.select %empty, %zero, %quot : f32
    attn.yield %o : f32
  }
}

// EXPLAIN: remark: fused: 5 products a pair instead of 7; sums over keys are added up in memory, in any order
// EXPLAIN: remark: fused: 5 products a pair instead of 7; sums over keys are added up in memory, in any order
// EXPLAIN: remark: fused: 5 products a pair instead of 7; sums over keys are added up in memory, in any order
// EXPLAIN: remark: fused: 5 products a pair instead of 7; sums over keys are added up in memory, in any order
// EXPLAIN: remark: not fused with a reduction over queries: one kernel for both has two slots of queries for 384 channels of all dots, not for 512
// EXPLAIN: remark: fused: 4 products a pair instead of 6; sums over keys are added up in memory, in any order
// WARPS: remark: not fused with a reduction over queries: one kernel for both is one of warpgroups, which sm_80 has not

// CHECK-LABEL: func.func @full_backward(
// CHECK: attn.fused threads(1) {
// CHECK: attn.aggregate @full_queries {{.*}}any_order
// CHECK: attn.aggregate @full_keys {{.*}}any_order
// CHECK-SAME: schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 128, {{.*}}stages = 2, turns = products, section = 32, section_keys = 16896

// TILE-LABEL: func.func @full_backward(
// TILE: %[[SUMS:.*]] = tile.workspace({{.*}}) : memref<?x?x?x64xf32>
// TILE: tile.launch @[[CLEAR:.*]] grid({{.*}}) args({{.*}}, %[[SUMS]] :
// TILE: tile.launch @[[KERNEL:.*]] grid({{.*}}) args({{.*}}, %[[SUMS]] :
// TILE: tile.launch @[[ROUND:.*]] grid({{.*}}) args({{.*}}, %[[SUMS]], %{{.*}} :
// TILE: tile.kernel private @[[CLEAR]](
// TILE: tile.fill
// TILE: tile.store
// TILE: tile.kernel private @[[KERNEL]](
// TILE: %[[ALL:.*]]:3 = tile.rows 64
// TILE: %[[DQ:.*]] = tile.dot %[[ALL]]#2, %{{.*}} transpose_lhs : !tile.tile<128x128xbf16>, !tile.tile<128x64xbf16> -> !tile.tile<128x64xf32>
// TILE: tile.accumulate any_order %[[DQ]],
// TILE: tile.kernel private @[[ROUND]](
// TILE: tile.load
// TILE: tile.store
func.func @full(%q: !rows, %k: !rows, %v: !rows) -> !rows
    attributes {attn.any_order} {
  %o = attn.aggregate @soft scores(%q, %k : !rows, !rows) values(%v : !rows)
      -> !rows
  return %o : !rows
}

// CHECK-LABEL: func.func @causal_backward(
// CHECK: schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 64, {{.*}}stages = 4, section = 32, section_keys = 67584
// Keys that no query sees are cleared.
// TILE-LABEL: func.func @causal_backward(
// TURNS-LABEL: func.func @causal_backward(
// TURNS: %[[SUMS:.*]] = tile.workspace({{.*}}) : memref<?x?x?x128xf32>
// TURNS: %[[TURNS:.*]] = tile.workspace({{.*}}) : memref<?x?x?xi32>
// TURNS: tile.launch @[[CLEAR:.*]] grid({{.*}}) args({{.*}}, %[[SUMS]], %[[TURNS]] :
// TURNS: tile.launch @[[KERNEL:.*]] grid({{.*}}) args({{.*}}, %[[SUMS]], %[[TURNS]] :
// TURNS: tile.launch @[[ROUND:.*]] grid({{.*}}) args({{.*}}, %[[SUMS]], %{{.*}}, %[[TURNS]] :
// TURNS: tile.kernel private @[[CLEAR]](
// TURNS-NOT: tile.store
// TURNS: memref.store %c0_i32
// TURNS: tile.kernel private @[[KERNEL]](
// TURNS: tile.accumulate any_order %{{.*}} turn(%{{.*}} of %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}] : memref<?x?x?xi32>)
// TURNS: tile.kernel private @[[ROUND]](
// TURNS: %[[COUNT:.*]] = memref.load
// TURNS: %[[SOME:.*]] = arith.cmpi sgt, %[[COUNT]], %c0_i32
// TURNS: scf.if %[[SOME]]
// TURNS-NEXT: tile.load
func.func @causal(%q: !wide, %k: !wide, %v: !wide) -> !wide
    attributes {attn.any_order} {
  %o = attn.aggregate @soft scores(%q, %k : !wide, !wide) values(%v : !wide)
    mask {
    ^bb0(%b: i32, %h: i32, %i: i32, %j: i32):
      %live = arith.cmpi sle, %j, %i : i32
      attn.yield %live : i1
    } -> !wide
  return %o : !wide
}

// Registers that hold the slopes of a cap hold the scores of half as many queries.
// CHECK-LABEL: func.func @capped_backward(
// CHECK: schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 64,
func.func @capped(%q: !rows, %k: !rows, %v: !rows) -> !rows
    attributes {attn.any_order} {
  %o = attn.aggregate @soft scores(%q, %k : !rows, !rows) values(%v : !rows)
    score {
    ^bb0(%x: f32, %b: i32, %h: i32, %i: i32, %j: i32):
      %cap = arith.constant 2.0 : f32
      %inverse = arith.constant 0.5 : f32
      %part = arith.mulf %x, %inverse : f32
      %bent = math.tanh %part : f32
      %s = arith.mulf %bent, %cap : f32
      attn.yield %s : f32
    } -> !rows
  return %o : !rows
}

// On chip rows have 96 channels, and so have sums in memory.
// TILE-LABEL: func.func @odd_backward(
// TILE: tile.workspace({{.*}}) : memref<?x?x?x96xf32>
// TILE: tile.accumulate any_order %{{.*}} : <64x96xf32>, memref<?x?x?x96xf32>
// TILE: tile.load {{.*}} : memref<?x?x?x96xf32> -> <64x96xf32>
// TILE: tile.store {{.*}} : <64x96xf32>, memref<?x?x?x72xbf16
func.func @odd(%q: !odd, %k: !odd, %v: !odd) -> !odd
    attributes {attn.any_order} {
  %o = attn.aggregate @soft scores(%q, %k : !odd, !odd) values(%v : !odd) -> !odd
  return %o : !odd
}

// Rows of 256 channels leave no room for a second slot of queries.
func.func @wide(%q: !wider, %k: !wider, %v: !wider) -> !wider
    attributes {attn.any_order} {
  %o = attn.aggregate @soft scores(%q, %k : !wider, !wider) values(%v : !wider)
      -> !wider
  return %o : !wider
}

// Sums over queries of 320 channels have kernels of their own; that of 192 is fused.
func.func @mixed(%q: !long, %k: !long, %v: !less) -> !less
    attributes {attn.any_order} {
  %o = attn.aggregate @soft scores(%q, %k : !long, !long) values(%v : !less)
      -> !less
  return %o : !less
}
