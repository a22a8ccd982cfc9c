// RUN: attn-opt %s --attn-import-prelude --attn-to-aggregate --attn-split | FileCheck %s

// CHECK-LABEL: func.func @split(
// CHECK:         %[[P:.*]]:3 = attn.partial @softmax
// CHECK-SAME:      splits = 4 : i64
// CHECK:           init {
// CHECK:           -> tensor<4x?x?x?xf32>, tensor<4x?x?x?x32xf32>, tensor<4x?x?x?xf32>
// CHECK:         %[[C:.*]]:3 = attn.combine @softmax(%[[P]]#0, %[[P]]#1, %[[P]]#2
// CHECK:         %[[O:.*]] = attn.finalize @softmax(%[[C]]#0, %[[C]]#1, %[[C]]#2
// CHECK:           finalize {
// CHECK:         return %[[O]]
func.func @split(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                 %v: tensor<?x?x?x32xf32>, %sinks: tensor<?xf32>)
    -> tensor<?x?x?x32xf32> {
  %o = attn.attention queries(%q : tensor<?x?x?x64xf32>)
      keys(%k : tensor<?x?x?x64xf32>) values(%v : tensor<?x?x?x32xf32>)
      sinks(%sinks : tensor<?xf32>)
      {schedule = #attn.schedule<block_q = 64, rows = 32, block_k = 64, splits = 4>}
      -> tensor<?x?x?x32xf32>
  return %o : tensor<?x?x?x32xf32>
}

// CHECK-LABEL: func.func @whole(
// CHECK-NOT:     attn.partial
// CHECK:         attn.aggregate
func.func @whole(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                 %v: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
  %o = attn.attention queries(%q : tensor<?x?x?x64xf32>)
      keys(%k : tensor<?x?x?x64xf32>) values(%v : tensor<?x?x?x64xf32>)
      {schedule = #attn.schedule<block_q = 64, rows = 32, block_k = 64>}
      -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}
