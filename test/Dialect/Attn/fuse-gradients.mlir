// The two reductions of attention's gradients are one, with the products of both
// but for the dots that both take: five instead of seven.
//
// RUN: attn-opt %s --attn-set-target=target=cpu-avx2 --attn-differentiate="replace=true inputs=0,1,2" --canonicalize --attn-choose-schedule --attn-fuse-gradients=threads=2 | FileCheck %s
// RUN: attn-opt %s --attn-set-target=target=cpu-avx2 --attn-differentiate="replace=true inputs=0,1,2" --canonicalize --attn-choose-schedule --attn-fuse-gradients="threads=2 explain=true" -o /dev/null 2>&1 | FileCheck %s --check-prefix=EXPLAIN
// RUN: attn-opt %s --attn-set-target=target=sm_90a --attn-differentiate="replace=true inputs=0,1,2" --canonicalize --attn-choose-schedule --attn-fuse-gradients="explain=true" -o %t 2>&1 | FileCheck %s --check-prefix=GPU
// RUN: FileCheck %s --check-prefix=KEPT --input-file %t
// RUN: attn-opt %s --attn-set-target=target=cpu-avx2 --attn-differentiate="replace=true inputs=0,1,2" --canonicalize --attn-choose-schedule --attn-fuse-gradients=threads=2 --attn-tile --canonicalize --cse | FileCheck %s --check-prefix=TILE

!rows = tensor<?x?x?x64xf32>
!half = tensor<?x?x?x64xbf16>

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

// CHECK-LABEL: func.func @causal_backward(
// CHECK: attn.aggregate @causal_rows
// CHECK: %[[ALL:.*]]:3 = attn.fused threads(2) {
// CHECK: %[[DQ:.*]] = attn.aggregate @causal_queries scores(%[[Q:[^,]*]], %[[K:[^,]*]], %[[DO:[^,]*]], %[[V:[^ ]*]] :
// CHECK-SAME: values(%[[K]] :
// CHECK: %[[OTHER:.*]]:2 = attn.aggregate @causal_keys scores(%[[K]], %[[Q]], %[[V]], %[[DO]] :
// CHECK-SAME: side = #attn.side<queries>
// CHECK: attn.yield %[[DQ]], %[[OTHER]]#0, %[[OTHER]]#1
// CHECK: return %[[ALL]]#0, %[[ALL]]#1, %[[ALL]]#2

// EXPLAIN: remark: fused: 5 products a pair instead of 7, where there are heads for 2 threads; sums over keys are added up in memory, in order
// EXPLAIN: remark: fused: 5 products a pair instead of 7
// EXPLAIN: remark: not fused with a reduction over queries: rows or keys are packed, have lengths, or count from other positions than 0

// GPU: remark: not fused with a reduction over queries: one kernel for both takes rows of bf16 or f16
// GPU: remark: fused: 5 products a pair instead of 7; sums over keys are added up in memory, in turns
// KEPT-LABEL: func.func @causal_backward(
// KEPT-NOT: attn.fused
// KEPT: return
// KEPT-LABEL: func.func @short_backward(
// KEPT: attn.fused

// Where heads do not keep the threads busy two kernels run, else one that clears
// what it adds to, and adds for each tile of keys and of queries.
// TILE-LABEL: func.func @causal_backward(
// TILE-SAME: tile.plan
// TILE: arith.ceildivui %[[HEADS:.*]], %c2
// TILE: %[[FITS:.*]] = arith.cmpi ule
// TILE: %[[TWO:.*]] = arith.cmpi ugt
// TILE: %[[GRID:.*]] = arith.select %[[TWO]]
// TILE: tile.launch @{{.*}} grid(%[[GRID]])
// TILE: %[[GRID:.*]] = arith.select %[[TWO]]
// TILE: tile.launch @{{.*}} grid(%[[GRID]])
// TILE: %[[GRID:.*]] = arith.select %[[FITS]], %[[HEADS]], %c0
// TILE: tile.launch @[[KERNEL:.*]] grid(%[[GRID]])
// TILE: tile.kernel private @[[KERNEL]](
// TILE: tile.store
// TILE: scf.for
// TILE: tile.dot %{{.*}}, %{{.*}} transpose_lhs
// TILE: tile.accumulate %
func.func @causal(%q: !rows, %k: !rows, %v: !rows, %scale: f32) -> !rows {
  %o = attn.aggregate @soft scores(%q, %k : !rows, !rows) values(%v : !rows)
      captures(%scale : f32)
    score {
    ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32, %c: f32):
      %x = arith.mulf %s, %c : f32
      attn.yield %x : f32
    }
    mask {
    ^bb0(%b: i32, %h: i32, %i: i32, %j: i32, %c: f32):
      %live = arith.cmpi sle, %j, %i : i32
      attn.yield %live : i1
    } -> !rows
  return %o : !rows
}

// Sums in memory are of f32, and are rounded at the end.
// TILE-LABEL: func.func @short_backward(
// TILE: %[[SUMS:.*]] = tile.workspace({{.*}}) : memref<?x?x?x64xf32>
// TILE: tile.launch @[[KERNEL:.*]] grid({{.*}}) args({{.*}}, %[[SUMS]] :
// TILE: tile.kernel private @[[KERNEL]](
// TILE-SAME: %[[MEMORY:[^:]*]]: memref<?x?x?x64xf32>, %{{[^:]*}}: index)
// TILE: tile.accumulate %{{.*}}, %[[MEMORY]]
// TILE: tile.load %[[MEMORY]]
func.func @short(%q: !half, %k: !half, %v: !half) -> !half {
  %o = attn.aggregate @soft scores(%q, %k : !half, !half) values(%v : !half)
      -> !half
  return %o : !half
}

// Lengths are those of keys for one reduction, and a mask for the other.
func.func @lengths(%q: !rows, %k: !rows, %v: !rows, %n: tensor<?xi32>) -> !rows {
  %o = attn.aggregate @soft scores(%q, %k : !rows, !rows) values(%v : !rows)
      key_source(lengths %n : tensor<?xi32>) -> !rows
  return %o : !rows
}
