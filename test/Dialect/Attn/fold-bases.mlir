// RUN: attn-opt %s --attn-fold-bases | FileCheck %s

// What positions count from is a capture, and regions add it.
// CHECK-LABEL: func.func @bases(
// CHECK-SAME:    %[[I0:[^:, ]*]]: tensor<?xi32>, %[[J0:[^:, ]*]]: i32
// CHECK:         attn.aggregate @softmax
// CHECK-SAME:    captures(%[[I0]], %[[J0]] : tensor<?xi32>, i32)
// CHECK-NOT:     base
// CHECK:         mask {
// CHECK:         ^bb0(%[[B:[^:]*]]: i32, %{{[^:]*}}: i32, %[[I:[^:]*]]: i32, %[[J:[^:]*]]: i32, %[[ROWS:[^:]*]]: tensor<?xi32>, %[[KEYS:[^:]*]]: i32):
// CHECK-DAG:       %[[KEY:.*]] = arith.addi %[[J]], %[[KEYS]] : i32
// CHECK-DAG:       %[[AT:.*]] = arith.index_cast %[[B]] : i32 to index
// CHECK-DAG:       %[[FIRST:.*]] = tensor.extract %[[ROWS]][%[[AT]]] : tensor<?xi32>
// CHECK-DAG:       %[[ROW:.*]] = arith.addi %[[I]], %[[FIRST]] : i32
// CHECK:           arith.cmpi sle, %[[KEY]], %[[ROW]] : i32
// CHECK:         finalize {
// CHECK:         ^bb0(%{{[^:]*}}: f32, %{{[^:]*}}: f32, %{{[^:]*}}: f32, %{{[^:]*}}: i32, %{{[^:]*}}: i32, %[[I2:[^:]*]]: i32,
// CHECK:           %[[ROW2:.*]] = arith.addi %[[I2]]
// CHECK:           arith.sitofp %[[ROW2]]
func.func @bases(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                 %v: tensor<?x?x?x64xf32>, %i0: tensor<?xi32>, %j0: i32)
    -> tensor<?x?x?x64xf32> {
  %o = attn.aggregate @softmax
      scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>)
      row_base(%i0 : tensor<?xi32>) key_base(%j0 : i32)
    mask {
    ^bb0(%b: i32, %h: i32, %i: i32, %j: i32):
      %live = arith.cmpi sle, %j, %i : i32
      attn.yield %live : i1
    }
    finalize {
    ^bb0(%c: f32, %acc: f32, %sum: f32, %b: i32, %h: i32, %i: i32):
      %row = arith.sitofp %i : i32 to f32
      %scaled = arith.mulf %acc, %row : f32
      attn.yield %scaled : f32
    } -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}
