// No region reads outside of its captures: a computed index is bounded, on GPUs in 32
// bits. A distance is never negative, and its own bound and the table's are one.
//
// RUN: sed 's/INDEX/distance/' %s | attn-opt --attn-pipeline="target=sm_90a until-after=tile" | FileCheck %s --check-prefix=DISTANCE
// RUN: sed 's/INDEX/sum/' %s | attn-opt --attn-pipeline="target=sm_90a until-after=tile" | FileCheck %s --check-prefix=BOTH
// RUN: sed 's/INDEX/sum/' %s | attn-opt --attn-pipeline="target=cpu-avx2 until-after=tile" | FileCheck %s --check-prefix=WIDE

!rows = tensor<?x?x?x64xbf16>

// DISTANCE: %[[EXTENT:.*]] = arith.maxsi %{{.*}}, %{{.*}} : i32
// DISTANCE: %[[FAR:.*]] = math.absi %{{.*}} : i32
// DISTANCE-NEXT: %[[AT:.*]] = arith.minsi %[[FAR]], %[[EXTENT]] : i32
// DISTANCE-NEXT: %[[INDEX:.*]] = arith.index_cast %[[AT]] : i32 to index
// DISTANCE-NEXT: memref.load %{{.*}}[%[[INDEX]]] : memref<?xf32

// BOTH: %[[LESS:.*]] = arith.minsi %{{.*}}, %{{.*}} : i32
// BOTH-NEXT: %[[AT:.*]] = arith.maxsi %[[LESS]], %c0_i32 : i32
// BOTH-NEXT: %[[INDEX:.*]] = arith.index_cast %[[AT]] : i32 to index
// BOTH-NEXT: memref.load %{{.*}}[%[[INDEX]]] : memref<?xf32

// WIDE: arith.index_cast %{{.*}} : i32 to index
// WIDE: tile.map
// WIDE: arith.index_cast %{{.*}} : i32 to index
// WIDE-NEXT: %[[LESS:.*]] = arith.minsi %{{.*}}, %{{.*}} : index
// WIDE-NEXT: %[[AT:.*]] = arith.maxsi %[[LESS]], %c0 : index
// WIDE-NEXT: memref.load %{{.*}}[%[[AT]]] : memref<?xf32
func.func @f(%q: !rows, %k: !rows, %v: !rows, %table: tensor<?xf32>) -> !rows {
  %o = attn.aggregate @softmax scores(%q, %k : !rows, !rows) values(%v : !rows) captures(%table : tensor<?xf32>)
    score {
    ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32, %t: tensor<?xf32>):
      %most = arith.constant 255 : i32
      %difference = arith.subi %i, %j : i32
      %absolute = math.absi %difference : i32
      %distance = arith.minsi %absolute, %most : i32
      %sum = arith.addi %difference, %b : i32
      %at = arith.index_cast %INDEX : i32 to index
      %x = tensor.extract %t[%at] : tensor<?xf32>
      %y = arith.addf %s, %x : f32
      attn.yield %y : f32
    } -> !rows
  return %o : !rows
}
