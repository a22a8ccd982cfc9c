// RUN: attn-opt %s --split-input-file --attn-import-prelude --attn-pack-heads --verify-diagnostics

// Rows of a tile have several heads, and one mask bounds the keys of all.
func.func @masks_by_head(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>, %n: tensor<?xi32>)
    -> tensor<?x?x?x64xf32> {
  // expected-error @below {{expected heads that can be packed, as pack_heads of the schedule says, but got a mask that reads the head}}
  %o = attn.aggregate @sigmoid_sum
      scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>) values(%k : tensor<?x?x?x64xf32>)
      captures(%n : tensor<?xi32>)
      {schedule = #attn.schedule<block_q = 64, rows = 32, block_k = 64, pack_heads = true>}
    mask {
    ^bb0(%b: i32, %h: i32, %i: i32, %j: i32, %limits: tensor<?xi32>):
      %at = arith.index_cast %h : i32 to index
      %limit = tensor.extract %limits[%at] : tensor<?xi32>
      %live = arith.cmpi slt, %j, %limit : i32
      attn.yield %live : i1
    } -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}

// -----

func.func @packs_sequences(%q: tensor<?x?x64xf32>, %k: tensor<?x?x64xf32>,
                           %cu: tensor<?xi32>) -> tensor<?x?x64xf32> {
  // expected-error @below {{but got packed sequences}}
  %o = attn.aggregate @sigmoid_sum
      scores(%q, %k : tensor<?x?x64xf32>, tensor<?x?x64xf32>) values(%k : tensor<?x?x64xf32>)
      query_source(varlen %cu : tensor<?xi32>) key_source(varlen %cu : tensor<?xi32>)
      {schedule = #attn.schedule<block_q = 64, rows = 32, block_k = 64, pack_heads = true>}
      -> tensor<?x?x64xf32>
  return %o : tensor<?x?x64xf32>
}
