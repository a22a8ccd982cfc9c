// An index is brought into its tensor: of sequences with sizes of their own, none has
// a key where a tensor that scores read for each key has no element. What only batches
// and heads tell apart, and sizes that are compared before, are not asked.
//
// RUN: attn-opt %s --attn-pipeline="target=sm_90a until-after=tile" | FileCheck %s
// RUN: attn-opt %s --attn-pipeline="target=cpu-avx2 until-after=tile" | FileCheck %s

!rows = tensor<?x?x?x64xbf16>

// CHECK-LABEL: tile.kernel private @pages_kernel0(
// CHECK: %[[KEYS:.*]] = tile.extent
// CHECK: %[[COLUMNS:.*]] = memref.dim %{{.*}}, %c3 : memref<?x?x1x?xf32
// CHECK: %[[EMPTY:.*]] = arith.cmpi eq, %[[COLUMNS]], %c0 : index
// CHECK-NEXT: %[[END:.*]] = arith.select %[[EMPTY]], %c0, %[[KEYS]] : index
// CHECK-NEXT: tile.stream {{.*}} live(%c0 to %[[END]])
func.func @pages(%q: !rows, %k: !rows, %v: !rows, %pages: tensor<?x?xi32>, %bias: tensor<?x?x1x?xf32>) -> !rows {
  %o = attn.aggregate @softmax scores(%q, %k : !rows, !rows) values(%v : !rows)
      captures(%bias : tensor<?x?x1x?xf32>) key_source(paged %pages : tensor<?x?xi32>)
    score {
    ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32, %t: tensor<?x?x1x?xf32>):
      %zero = arith.constant 0 : index
      %batch = arith.index_cast %b : i32 to index
      %head = arith.index_cast %h : i32 to index
      %key = arith.index_cast %j : i32 to index
      %x = tensor.extract %t[%batch, %head, %zero, %key] : tensor<?x?x1x?xf32>
      %y = arith.addf %s, %x : f32
      attn.yield %y : f32
    } -> !rows
  return %o : !rows
}

// CHECK-LABEL: tile.kernel private @dense_kernel0(
// CHECK-NOT: memref.dim %arg{{.*}} : memref<?x?x1x?xf32
// CHECK: tile.stream
func.func @dense(%q: !rows, %k: !rows, %v: !rows, %bias: tensor<?x?x1x?xf32>) -> !rows {
  %o = attn.aggregate @softmax scores(%q, %k : !rows, !rows) values(%v : !rows)
      captures(%bias : tensor<?x?x1x?xf32>)
    score {
    ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32, %t: tensor<?x?x1x?xf32>):
      %zero = arith.constant 0 : index
      %batch = arith.index_cast %b : i32 to index
      %head = arith.index_cast %h : i32 to index
      %key = arith.index_cast %j : i32 to index
      %x = tensor.extract %t[%batch, %head, %zero, %key] : tensor<?x?x1x?xf32>
      %y = arith.addf %s, %x : f32
      attn.yield %y : f32
    } -> !rows
  return %o : !rows
}
