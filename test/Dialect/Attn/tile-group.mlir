// A reduction over queries: the rows of a block are those of a key head, around
// whose walk over tiles a loop takes the query heads that read it one by one.
// RUN: attn-opt %s --attn-pipeline="target=cpu-avx2 until-after=tile" --canonicalize --cse | FileCheck %s
// RUN: attn-opt %s --attn-pipeline="target=sm_90a until-after=gpu" -o /dev/null
// RUN: attn-opt %s --attn-pipeline="target=sm_80 until-after=gpu" -o /dev/null

attn.monoid private @sum cocycle stats() components(value) outputs("o") {
  lift {
  ^bb0(%s: f32):
    attn.yield %s : f32
  }
  finalize {
  ^bb0(%acc: f32):
    attn.yield %acc : f32
  }
}

// CHECK-LABEL: func.func @grouped
// CHECK: tile.launch @grouped_kernel0
func.func @grouped(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>, %lse: tensor<?x?x?xf32>) -> tensor<?x?x?x64xf32> {
  %o = attn.aggregate @sum scores(%k, %q : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%q : tensor<?x?x?x64xf32>) captures(%lse : tensor<?x?x?xf32>) {side = #attn.side<queries>}
    score {
    ^bb0(%s: f32, %b: i32, %h: i32, %j: i32, %i: i32, %L: tensor<?x?x?xf32>):
      %bi = arith.index_cast %b : i32 to index
      %hi = arith.index_cast %h : i32 to index
      %ii = arith.index_cast %i : i32 to index
      %l = tensor.extract %L[%bi, %hi, %ii] : tensor<?x?x?xf32>
      %x = arith.subf %s, %l : f32
      attn.yield %x : f32
    }
    mask {
    ^bb0(%b: i32, %h: i32, %j: i32, %i: i32, %L: tensor<?x?x?xf32>):
      %live = arith.cmpi sle, %j, %i : i32
      attn.yield %live : i1
    } -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}
// CHECK-LABEL: tile.kernel private @grouped_kernel0
// CHECK-SAME: (%[[KEYS:[a-z0-9]+]]: memref<?x?x?x64xf32, strided<[?, ?, ?, 1]>>, %[[QUERIES:[a-z0-9]+]]: memref<
// CHECK: %[[STATE:.*]] = scf.for %[[G:.*]] = %c0 to %[[GROUP:.*]] step %c1
// CHECK: %[[HEAD:.*]] = arith.addi %{{.*}}, %[[G]] : index
// CHECK: tile.stream
// CHECK: tile.load %[[QUERIES]][%{{.*}}, %[[HEAD]],
// CHECK: memref.load %{{.*}}[%{{.*}}, %[[HEAD]], %{{.*}}]
// CHECK: tile.store

// One query head for each key head: there is no loop around.
// CHECK-LABEL: tile.kernel private @single_kernel0
// CHECK-NOT: step %c1 iter_args
// CHECK: tile.return
func.func @single(%q: tensor<?x8x?x64xf32>, %k: tensor<?x8x?x64xf32>) -> tensor<?x8x?x64xf32> {
  %o = attn.aggregate @sum scores(%k, %q : tensor<?x8x?x64xf32>, tensor<?x8x?x64xf32>)
      values(%q : tensor<?x8x?x64xf32>) {side = #attn.side<queries>}
      -> tensor<?x8x?x64xf32>
  return %o : tensor<?x8x?x64xf32>
}
