// RUN: attn-opt %s --attn-pipeline=until-after=tile --split-input-file | FileCheck %s
// RUN: attn-opt %s --attn-pipeline='until-after=vector target=cpu-avx2' --split-input-file | FileCheck %s --check-prefix=VECTOR
// RUN: sed -e s/cpu-avx2/sm_80/ %s | attn-opt --attn-pipeline='until-after=gpu target=sm_80' --split-input-file | FileCheck %s --check-prefix=GPU

// Scores are stored tile by tile, in whichever class of tiles; nothing is carried
// from one to the next.
// CHECK-LABEL: tile.kernel private @scores_kernel0
// CHECK:         tile.stream
// CHECK-NOT:     init
// CHECK:         tile.rows
// CHECK:           tile.dot
// CHECK:           tile.map
// CHECK:           tile.store %{{.*}} : {{.*}} memref<?x?x?x?xf32
// VECTOR-LABEL: tile.kernel private @scores_kernel0
// VECTOR:         vector.store
// GPU-LABEL:    tile_gpu.kernel private @scores_kernel0
// GPU:            tile_gpu.mma
// GPU:            tile_gpu.global.store
module attributes {attn.target = "cpu-avx2"} {
  func.func @scores(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>)
      -> tensor<?x?x?x?xf32> {
    %s = attn.scores @softmax
        scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
        {precision = #attn.precision<tf32>, schedule =
         #attn.schedule<block_q = 64, rows = 16, block_k = 64>}
      mask {
      ^bb0(%b: i32, %h: i32, %i: i32, %j: i32):
        %live = arith.cmpi sle, %j, %i : i32
        attn.yield %live : i1
      } -> tensor<?x?x?x?xf32>
    return %s : tensor<?x?x?x?xf32>
  }
}

// -----

// A block adds up the scores of all tiles that are as far from the diagonal: rows and
// keys of a step both move on.
// CHECK-LABEL: tile.kernel private @diagonals_kernel0
// CHECK:         %[[SHIFT:.*]] = arith.subi
// CHECK:         tile.stream {{.*}} classify
// CHECK:         full {
// CHECK:         ^bb0(%[[KEY:.*]]: index, %{{.*}}: !tile.tile<128x128xf32>):
// CHECK:           arith.addi %[[KEY]], %[[SHIFT]]
// CHECK:           tile.load {{.*}} {moves}
// CHECK:           tile.rows
// CHECK:             tile.map
// CHECK:             arith.addf
// CHECK:         tile.store %{{.*}} : <128x128xf32>, memref<?x?x?x128xf32
// VECTOR-LABEL: tile.kernel private @diagonals_kernel0
// VECTOR:         vector.store
// Both are copied with cp.async, and warps take their rows from there.
// GPU-LABEL:    tile_gpu.kernel private @diagonals_kernel0
// GPU:            tile_gpu.ring.create cp_group {{.*}} : <1, 128x64xf16 swizzle 128, 128x64xf16 swizzle 128>
// GPU:            %[[SLOT:.*]]:2 = tile_gpu.ring.wait
// GPU-DAG:        tile_gpu.smem.slice %[[SLOT]]#
// GPU:            tile_gpu.mma
// GPU:            tile_gpu.global.store
module attributes {attn.target = "cpu-avx2"} {
  attn.monoid @one cocycle stats() components(unit) outputs("sums") {
    lift {
    ^bb0(%a: f32):
      attn.yield %a : f32
    }
    finalize {
    ^bb0(%a: f32):
      attn.yield %a : f32
    }
  }
  func.func @diagonals(%q: tensor<?x?x?x64xf16>, %k: tensor<?x?x?x64xf16>)
      -> tensor<?x?x?x128xf32> {
    %s = attn.scores @one
        scores(%q, %k : tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>)
        {diagonals = 128 : i64}
      mask {
      ^bb0(%b: i32, %h: i32, %i: i32, %j: i32):
        %live = arith.cmpi sle, %j, %i : i32
        attn.yield %live : i1
      } -> tensor<?x?x?x128xf32>
    return %s : tensor<?x?x?x128xf32>
  }
}
