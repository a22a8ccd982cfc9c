// RUN: attn-opt %s --attn-import-prelude --attn-pack-heads=explain --verify-diagnostics -o /dev/null
// RUN: attn-opt %s --attn-import-prelude --attn-pack-heads | FileCheck %s
// RUN: attn-opt %s --attn-import-prelude --attn-pack-heads --attn-pack-heads | FileCheck %s
// RUN: attn-opt %s --attn-import-prelude --canonicalize --cse --attn-pack-heads --canonicalize --cse | FileCheck %s

// Whose heads share tiles, and why those of others do not.

// CHECK-LABEL: @packed
// CHECK: packed_heads
func.func @packed(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                  %v: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
  %o = attn.aggregate @sigmoid_sum
      scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>) values(%v : tensor<?x?x?x64xf32>)
      {schedule = #attn.schedule<block_q = 64, rows = 32, block_k = 64, pack_heads = true>}
      -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}

// Parts of the keys are packed as well.
// CHECK-LABEL: @parts
// CHECK: packed_heads
func.func @parts(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                 %v: tensor<?x?x?x64xf32>) -> tensor<2x?x?x?x64xf32> {
  %o = attn.partial @sigmoid_sum
      scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>) values(%v : tensor<?x?x?x64xf32>)
      {splits = 2 : i64, schedule = #attn.schedule<block_q = 64, rows = 32, block_k = 64, pack_heads = true>}
      -> tensor<2x?x?x?x64xf32>
  return %o : tensor<2x?x?x?x64xf32>
}

// CHECK-LABEL: @apart
// CHECK-NOT: packed_heads
func.func @apart(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                 %v: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
  // expected-remark @below {{heads not packed: its schedule has tiles for each head}}
  %o = attn.aggregate @sigmoid_sum
      scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>) values(%v : tensor<?x?x?x64xf32>)
      {schedule = #attn.schedule<block_q = 64, rows = 32, block_k = 64>}
      -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}

// CHECK-LABEL: @sequences
// CHECK-NOT: packed_heads
func.func @sequences(%q: tensor<?x?x64xf32>, %k: tensor<?x?x64xf32>,
                     %cu: tensor<?xi32>) -> tensor<?x?x64xf32> {
  // expected-remark @below {{heads not packed: it has packed sequences}}
  %o = attn.aggregate @sigmoid_sum
      scores(%q, %k : tensor<?x?x64xf32>, tensor<?x?x64xf32>) values(%k : tensor<?x?x64xf32>)
      query_source(varlen %cu : tensor<?xi32>) key_source(varlen %cu : tensor<?xi32>)
      {schedule = #attn.schedule<block_q = 64, rows = 32, block_k = 64>}
      -> tensor<?x?x64xf32>
  return %o : tensor<?x?x64xf32>
}

// What has no schedule yet is left alone.
// CHECK-LABEL: @unscheduled
// CHECK-NOT: packed_heads
func.func @unscheduled(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                       %v: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
  %o = attn.aggregate @sigmoid_sum
      scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>) values(%v : tensor<?x?x?x64xf32>)
      -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}
