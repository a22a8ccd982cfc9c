// RUN: attn-opt %s --split-input-file --verify-roundtrip --attn-expand-dispatch | FileCheck %s

attn.monoid @sum cocycle stats() components(value) outputs("o") {
  identity {
    attn.yield
  }
  combine {
    attn.yield
  }
  lift {
  ^bb0(%s: f32):
    attn.yield %s : f32
  }
  finalize {
  ^bb0(%acc: f32):
    attn.yield %acc : f32
  }
}

// A name that is taken is not taken again.
func.func private @linear_1()

// The function asks for the size of each condition, in order.
// CHECK-LABEL: func.func @linear(
// CHECK-SAME:      %[[Q:[a-z0-9]*]]: tensor<?x?x?x64xf32>, %[[K:[a-z0-9]*]]: tensor<?x?x?x64xf32>
// CHECK:         %[[ROWS:.*]] = tensor.dim %[[Q]], %c2
// CHECK:         %[[LEAST:.*]] = arith.cmpi uge, %[[ROWS]], %c1
// CHECK:         %[[MOST:.*]] = arith.cmpi ule, %{{.*}}, %c16
// CHECK:         %[[BOTH:.*]] = arith.andi %[[LEAST]], %[[MOST]]
// CHECK:         %[[KEYS:.*]] = tensor.dim %[[K]], %c2
// CHECK:         %[[LONG:.*]] = arith.cmpi uge, %[[KEYS]], %c8192
// CHECK:         %[[FEW:.*]] = arith.andi %[[BOTH]], %[[LONG]]
// CHECK:         tile.dispatch %[[FEW]] to @linear_2
// CHECK:         arith.muli
// CHECK:         arith.divui
// CHECK:         arith.ceildivui
// CHECK:         arith.remui
// CHECK:         arith.cmpi uge, %{{.*}}, %c64
// CHECK:         arith.ori
// CHECK:         tile.dispatch %{{.*}} to @linear_3
// CHECK:         attn.aggregate
// CHECK-NOT:       attn.dispatch
// CHECK:           schedule = #attn.schedule<block_q = 192, rows = 48, block_k = 128, loop = peeled>
// CHECK-LABEL: func.func private @linear_2(
// CHECK-NOT:     tile.dispatch
// CHECK:           schedule = #attn.schedule<block_q = 16, rows = 16, block_k = 128, splits = 4, loop = peeled>
// CHECK-LABEL: func.func private @linear_3(
// CHECK-NOT:     tile.dispatch
// CHECK:           schedule = #attn.schedule<block_q = 96, rows = 48, block_k = 64, loop = peeled>
func.func @linear(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                  %v: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
  %o = attn.aggregate @sum scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
      values(%v : tensor<?x?x?x64xf32>)
      {schedule = #attn.schedule<block_q = 192, rows = 48, block_k = 128, loop = peeled>,
       attn.dispatch = #attn.dispatch<[
         <"few rows", when = <rows = 1 to 16, keys = 8192 to any>,
          schedule = <block_q = 16, rows = 16, block_k = 128, splits = 4, loop = peeled>>,
         <"pairs", when = <blocks = 1 to 8, pairs_of = 128>,
          schedule = <block_q = 96, rows = 48, block_k = 64, loop = peeled>>]>}
      -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}
