// RUN: attn-opt %s --split-input-file --attn-import-prelude --attn-to-aggregate --attn-split --verify-diagnostics

module attributes {attn.target = "cpu-avx2"} {
  func.func @cores(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                   %v: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
    // expected-error @below {{expected a number of splits on a CPU, but got automatic}}
    %o = attn.attention queries(%q : tensor<?x?x?x64xf32>)
        keys(%k : tensor<?x?x?x64xf32>) values(%v : tensor<?x?x?x64xf32>)
        {schedule = #attn.schedule<block_q = 64, rows = 32, block_k = 64, splits = automatic>}
        -> tensor<?x?x?x64xf32>
    return %o : tensor<?x?x?x64xf32>
  }
}

// -----

module attributes {attn.target = "sm_90a"} {
  func.func @packed(%q: tensor<?x?x64xf32>, %k: tensor<?x?x64xf32>,
                    %v: tensor<?x?x64xf32>, %cu_q: tensor<?xi32>,
                    %cu_k: tensor<?xi32>) -> tensor<?x?x64xf32> {
    // expected-error @below {{expected a number of splits of packed sequences, but got automatic}}
    %o = attn.aggregate @softmax
        scores(%q, %k : tensor<?x?x64xf32>, tensor<?x?x64xf32>)
        values(%v : tensor<?x?x64xf32>)
        query_source(varlen %cu_q : tensor<?xi32>)
        key_source(varlen %cu_k : tensor<?xi32>)
        {schedule = #attn.schedule<block_q = 64, rows = 16, block_k = 64, splits = automatic>}
        -> tensor<?x?x64xf32>
    return %o : tensor<?x?x64xf32>
  }
}
