// RUN: attn-opt %s --split-input-file --attn-import-prelude --attn-to-aggregate --attn-split --attn-relax-maximum --attn-guard-dead-scores --attn-online-form --attn-fold-scale --attn-fold-linear-bias --attn-pack-heads --attn-list-key-tiles --attn-tile --tile-expand-stream --canonicalize --cse | FileCheck %s

// The rows of all query heads of a key head are rows of one tile: the plan has
// views of queries and results for that, and gives the blocks to one of two
// kernels.
// CHECK-LABEL: func.func @grouped(
// CHECK-SAME:    %[[Q:.*]]: memref<?x?x?x64xf32, strided<[?, ?, ?, 1]>>, %[[K:[^:]*]]: {{.*}}, %[[V:[^:]*]]: {{.*}}, %[[O:[^:]*]]: memref<?x?x?x64xf32, strided<[?, ?, ?, 1]>>, %[[L:[^:]*]]: memref<?x?x?xf32, strided<[?, ?, 1]>>)
// CHECK-DAG:     %[[ZERO:.*]] = arith.constant 0 : index
// CHECK-DAG:     %[[ONE:.*]] = arith.constant 1 : index
// CHECK-DAG:     %[[TILE:.*]] = arith.constant 64 : index
// CHECK:         %[[GROUP:.*]] = arith.divui
// CHECK-NEXT:    %[[SINGLE:.*]] = arith.cmpi eq, %[[SQ:.*]], %[[ONE]]
// CHECK-NEXT:    %[[ROWS:.*]] = arith.muli %[[GROUP]], %[[SQ]]
// CHECK-NEXT:    arith.cmpi ugt, %[[GROUP]], %[[ONE]]
// CHECK-NEXT:    arith.cmpi ult, %[[SQ]], %[[TILE]]
//              One stride leads from row to row and from head to head, or heads
//              have one row.
// CHECK:         %{{.*}}, %{{.*}}, %{{.*}}:4, %[[QS:.*]]:4 = memref.extract_strided_metadata %[[Q]]
// CHECK-NEXT:    %[[NEXT:.*]] = arith.muli %[[SQ]], %[[QS]]#2
// CHECK-NEXT:    %[[DENSE:.*]] = arith.cmpi eq, %[[QS]]#1, %[[NEXT]]
// CHECK-NEXT:    arith.ori %[[DENSE]], %[[SINGLE]]
// CHECK-NEXT:    %[[ROW:.*]] = arith.select %[[SINGLE]], %[[QS]]#1, %[[QS]]#2
// CHECK:         %[[HEAD:.*]] = arith.muli %[[GROUP]], %[[QS]]#1
// CHECK-NEXT:    %[[QV:.*]] = memref.reinterpret_cast %[[Q]] to offset: [0], sizes: [%{{.*}}, %{{.*}}, %[[ROWS]], 64], strides: [%[[QS]]#0, %[[HEAD]], %[[ROW]], 1]
// CHECK:         %[[OV:.*]] = memref.reinterpret_cast %[[O]]
//              What has no channels has rows one behind the other.
// CHECK:         %{{.*}}, %{{.*}}, %{{.*}}:3, %[[LS:.*]]:3 = memref.extract_strided_metadata %[[L]]
// CHECK-NEXT:    %[[END:.*]] = arith.cmpi eq, %[[LS]]#1, %[[SQ]]
// CHECK-NEXT:    %[[FITS:.*]] = arith.andi %{{.*}}, %[[END]]
// CHECK:         %[[LV:.*]] = memref.reinterpret_cast %[[L]]
// CHECK-NEXT:    %[[TILES:.*]] = arith.ceildivui %[[ROWS]], %[[TILE]]
// CHECK-NEXT:    %[[SOME:.*]] = arith.select %[[FITS]], %[[TILES]], %[[ZERO]]
// CHECK-NEXT:    %[[OTHER:.*]] = arith.select %[[FITS]], %[[ZERO]], %{{.*}}
// CHECK:         tile.launch @grouped_kernel0 grid(%{{.*}}) args(%[[Q]], %[[K]], %[[V]], {{.*}}, %[[OV]], %[[LV]], %[[SOME]], %[[QV]]
// CHECK:         tile.launch @grouped_kernel1 grid(%{{.*}}) args(%[[Q]], %[[K]], %[[V]], {{.*}}, %[[O]], %[[L]], %[[OTHER]]

// Keys are bounded by all positions, and the position of a row is that of its
// head.
// CHECK-LABEL: kernel private @grouped_kernel0(
// CHECK:         arith.divui %{{.*}}, %[[SQ:.*]] : i32
// CHECK:         %[[RECIPROCAL:.*]] = arith.divui %{{.*}}, %[[SQ]] : i32
// CHECK:         tile.load %arg8[
// CHECK:         tile.map
// CHECK:           %[[SCALED:.*]] = arith.muli %[[AT:.*]], %[[RECIPROCAL]] : i32
// CHECK-NEXT:      %[[OF:.*]] = arith.shrui %[[SCALED]], %{{.*}} : i32
// CHECK-NEXT:      %[[BEFORE:.*]] = arith.muli %[[OF]], %[[SQ]] : i32
// CHECK-NEXT:      %[[I:.*]] = arith.subi %[[AT]], %[[BEFORE]] : i32
// CHECK:           arith.cmpi sle, %{{.*}}, %{{.*}} : i32
func.func @grouped(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                   %v: tensor<?x?x?x64xf32>) -> (tensor<?x?x?x64xf32>, tensor<?x?x?xf32>) {
  %o, %lse = attn.attention queries(%q : tensor<?x?x?x64xf32>)
      keys(%k : tensor<?x?x?x64xf32>) values(%v : tensor<?x?x?x64xf32>)
      {causal = #attn.causal<bottom_right>,
       schedule = #attn.schedule<block_q = 64, rows = 32, block_k = 64, pack_heads = true>}
      -> tensor<?x?x?x64xf32>, tensor<?x?x?xf32>
  return %o, %lse : tensor<?x?x?x64xf32>, tensor<?x?x?xf32>
}

// -----

// A region that reads the head is evaluated for the head of each row. Parts are
// written as packed rows too; they are multiplied as they were.
// CHECK-LABEL: func.func @heads(
// CHECK:         tile.workspace
// CHECK:         tile.launch @heads_kernel0
// CHECK:         tile.launch @heads_kernel1
// CHECK:         tile.launch @heads_kernel2
// CHECK-LABEL: kernel private @heads_kernel0(
// CHECK:         tile.map
// CHECK:           %[[OF:.*]] = arith.shrui
// CHECK-NEXT:      %[[HEAD:.*]] = arith.addi %{{.*}}, %[[OF]] : i32
// CHECK-NEXT:      %[[SAFE:.*]] = arith.minsi %[[HEAD]], %{{.*}} : i32
// CHECK:           %[[AT:.*]] = arith.index_cast %[[SAFE]] : i32 to index
// CHECK-NEXT:      memref.load %{{.*}}[%[[AT]]] : memref<?xf32
func.func @heads(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                 %v: tensor<?x?x?x64xf32>, %slopes: tensor<?xf32>) -> tensor<?x?x?x64xf32> {
  %o = attn.attention queries(%q : tensor<?x?x?x64xf32>)
      keys(%k : tensor<?x?x?x64xf32>) values(%v : tensor<?x?x?x64xf32>)
      alibi(%slopes : tensor<?xf32>)
      {schedule = #attn.schedule<block_q = 64, rows = 32, block_k = 64, splits = 2, pack_heads = true>}
      -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}

// -----

// Without anything that tells rows apart one kernel reduces packed heads and heads
// for themselves: views have key heads or heads, as the run says.
// CHECK-LABEL: func.func @alike(
// CHECK-SAME:    %[[Q:[^:]*]]: memref<?x?x?x64xf32, strided<[?, ?, ?, 1]>>, %[[K:[^:]*]]: memref
// CHECK:         %[[SHORT:.*]] = arith.cmpi ult, %{{.*}}, %{{.*}}
// CHECK:         %[[FITS:.*]] = arith.andi %{{.*}}, %{{.*}}
// CHECK:         %[[HEADS:.*]] = arith.select %{{.*}}, %{{.*}}, %{{.*}} : index
// CHECK:         %[[GROUP:.*]] = arith.divui %{{.*}}, %{{.*}}
// CHECK:         %[[QV:.*]] = memref.reinterpret_cast %[[Q]] to offset: [0], sizes: [%{{.*}}, %[[HEADS]], %{{.*}}, 64]
// CHECK:         tile.launch @alike_kernel0 grid(%{{.*}}) args(%[[QV]], %[[K]]
// CHECK-NOT:     tile.launch
// CHECK-LABEL: kernel private @alike_kernel0(
// CHECK-NOT:     arith.shrui
// CHECK-NOT:   kernel private
func.func @alike(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                 %v: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
  %o = attn.attention queries(%q : tensor<?x?x?x64xf32>)
      keys(%k : tensor<?x?x?x64xf32>) values(%v : tensor<?x?x?x64xf32>)
      {schedule = #attn.schedule<block_q = 64, rows = 32, block_k = 64, pack_heads = true>}
      -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}
