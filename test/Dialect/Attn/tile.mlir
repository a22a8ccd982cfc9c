// RUN: attn-opt %s --attn-import-prelude --attn-to-aggregate --attn-tile --canonicalize --cse | FileCheck %s

// The function becomes the plan, its results trailing arguments; no score
// matrix exists beyond one tile.
// CHECK-LABEL: func.func @forward(
// CHECK-SAME:    attributes {tile.plan}
// CHECK:         tile.launch @forward_kernel0
// CHECK-LABEL: func.func private @forward_kernel0(
// CHECK-SAME:    attributes {tile.kernel}
//              Full tiles: the maximum is held in units of the dot, no map
//              comes between dot and reduction.
// CHECK:         scf.for
// CHECK:           tile.rows 32
// CHECK:             %[[S:.*]] = tile.dot {{.*}} transpose_rhs
// CHECK-NEXT:        tile.reduce ins(%[[S]]
// CHECK:             math.exp2
// CHECK:             %[[P:.*]] = tile.map ins(%[[S]]
// CHECK:               math.fma
// CHECK-NEXT:          math.exp2
// CHECK:             tile.reduce ins(%[[P]]
// CHECK:             tile.dot %[[P]], %{{.*}} acc %{{.*}} scale
//              The last, ragged tile is masked by its number of keys.
// CHECK:         scf.for
// CHECK:             arith.cmpi slt
// CHECK:         tile.store
// CHECK:         tile.store vector
func.func @forward(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                   %v: tensor<?x?x?x64xf32>) -> (tensor<?x?x?x64xf32>, tensor<?x?x?xf32>) {
  %o, %lse = attn.attention queries(%q : tensor<?x?x?x64xf32>)
      keys(%k : tensor<?x?x?x64xf32>) values(%v : tensor<?x?x?x64xf32>)
      {schedule = #attn.schedule<block_q = 256, rows = 32, block_k = 128>}
      -> tensor<?x?x?x64xf32>, tensor<?x?x?xf32>
  return %o, %lse : tensor<?x?x?x64xf32>, tensor<?x?x?xf32>
}
