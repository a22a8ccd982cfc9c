// RUN: attn-opt %s --attn-import-prelude --attn-to-aggregate --attn-split=explain=1 --verify-diagnostics | FileCheck %s

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

// A state of packed queries does not know its batch nor its row.
// CHECK-LABEL: func.func @packed_position(
// CHECK-NOT:     attn.partial
// CHECK:         attn.aggregate
func.func @packed_position(%q: tensor<?x?x64xf32>, %k: tensor<?x?x64xf32>,
                           %v: tensor<?x?x64xf32>, %cu_q: tensor<?xi32>,
                           %cu_k: tensor<?xi32>) -> tensor<?x?x64xf32> {
  // expected-remark @below {{not split in 4: the finalize region reads the batch or row of packed queries, which states do not know}}
  %o = attn.aggregate @softmax
      scores(%q, %k : tensor<?x?x64xf32>, tensor<?x?x64xf32>)
      values(%v : tensor<?x?x64xf32>)
      query_source(varlen %cu_q : tensor<?xi32>) key_source(varlen %cu_k : tensor<?xi32>)
      {schedule = #attn.schedule<block_q = 64, rows = 32, block_k = 64, splits = 4>}
      finalize {
      ^bb0(%c: f32, %acc: f32, %sum: f32, %b: i32, %h: i32, %i: i32):
        %row = arith.sitofp %i : i32 to f32
        %scaled = arith.mulf %acc, %row : f32
        attn.yield %scaled : f32
      }
      -> tensor<?x?x64xf32>
  return %o : tensor<?x?x64xf32>
}

// CHECK-LABEL: func.func @precision(
// CHECK:         attn.partial {{.*}}precision = #attn.precision<tf32>
func.func @precision(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                     %v: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
  %o = attn.attention queries(%q : tensor<?x?x?x64xf32>)
      keys(%k : tensor<?x?x?x64xf32>) values(%v : tensor<?x?x?x64xf32>)
      {precision = #attn.precision<tf32>,
       schedule = #attn.schedule<block_q = 64, rows = 32, block_k = 64, splits = 2>}
      -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}
