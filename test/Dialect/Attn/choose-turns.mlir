// RUN: attn-opt %s --split-input-file --attn-import-prelude --attn-to-aggregate --attn-choose-schedule=explain=1 --verify-diagnostics | FileCheck %s

// Turns where they were measured to pay: packed sequences and masks that read
// memory at d = 128, weights without a maximum at d = 64.
module attributes {attn.target = "sm_90a"} {
  // CHECK-LABEL: func.func @packed(
  // CHECK:         schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 128, loop = peeled, turns = products{{(, order = longest_first)?(, section = 4, section_keys = [0-9]+)?}}>
  func.func @packed(%q: tensor<?x?x128xbf16>, %k: tensor<?x?x128xbf16>, %v: tensor<?x?x128xbf16>,
                    %cu: tensor<?xi32>) -> tensor<?x?x128xbf16> {
    // expected-remark @below {{turns: products (the rate was 1.016 of that without)}}
    %o = attn.attention queries(%q : tensor<?x?x128xbf16>)
        keys(%k : tensor<?x?x128xbf16>) values(%v : tensor<?x?x128xbf16>)
        cu_seqlens_q(%cu : tensor<?xi32>) cu_seqlens_k(%cu : tensor<?xi32>) -> tensor<?x?x128xbf16>
    return %o : tensor<?x?x128xbf16>
  }

  // CHECK-LABEL: func.func @listed(
  // CHECK:         schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 128, loop = peeled, turns = products{{(, order = longest_first)?(, section = 32, section_keys = [0-9]+)?}}>
  func.func @listed(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>, %v: tensor<?x?x?x128xbf16>,
                    %m: tensor<1x1x?x?xi1>) -> tensor<?x?x?x128xbf16> {
    // expected-remark @below {{turns: products}}
    %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>)
        keys(%k : tensor<?x?x?x128xbf16>) values(%v : tensor<?x?x?x128xbf16>)
        mask_tensor(%m : tensor<1x1x?x?xi1>) -> tensor<?x?x?x128xbf16>
    return %o : tensor<?x?x?x128xbf16>
  }

  // CHECK-LABEL: func.func @sigmoid(
  // CHECK:         schedule = #attn.schedule<block_q = 192, rows = 64, block_k = 128, loop = peeled, turns = products{{(, order = longest_first)?(, section = 4, section_keys = [0-9]+)?}}>
  func.func @sigmoid(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>,
                     %v: tensor<?x?x?x64xbf16>) -> tensor<?x?x?x64xbf16> {
    // expected-remark @below {{turns: products}}
    %o = attn.attention monoid(@sigmoid_sum) queries(%q : tensor<?x?x?x64xbf16>)
        keys(%k : tensor<?x?x?x64xbf16>) values(%v : tensor<?x?x?x64xbf16>)
        -> tensor<?x?x?x64xbf16>
    return %o : tensor<?x?x?x64xbf16>
  }

  // A bias that grows evenly, with nothing masked.
  // CHECK-LABEL: func.func @alibi(
  // CHECK:         schedule = #attn.schedule<block_q = 192, rows = 64, block_k = 128, loop = peeled, turns = products
  func.func @alibi(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>,
                   %v: tensor<?x?x?x64xbf16>, %slopes: tensor<?xf32>) -> tensor<?x?x?x64xbf16> {
    // expected-remark @below {{turns: products (the rate was 1.040 of that without)}}
    %o = attn.attention queries(%q : tensor<?x?x?x64xbf16>)
        keys(%k : tensor<?x?x?x64xbf16>) values(%v : tensor<?x?x?x64xbf16>)
        alibi(%slopes : tensor<?xf32>) -> tensor<?x?x?x64xbf16>
    return %o : tensor<?x?x?x64xbf16>
  }
  // CHECK-LABEL: func.func @wide_alibi(
  // CHECK:         schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 128, loop = peeled, turns = products
  func.func @wide_alibi(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
                   %v: tensor<?x?x?x128xbf16>, %slopes: tensor<?xf32>) -> tensor<?x?x?x128xbf16> {
    // expected-remark @below {{turns: products (the rate was 1.001 of that without)}}
    %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>)
        keys(%k : tensor<?x?x?x128xbf16>) values(%v : tensor<?x?x?x128xbf16>)
        alibi(%slopes : tensor<?xf32>) -> tensor<?x?x?x128xbf16>
    return %o : tensor<?x?x?x128xbf16>
  }
  // CHECK-LABEL: func.func @causal_alibi(
  // CHECK-NOT:     turns
  func.func @causal_alibi(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>,
                          %v: tensor<?x?x?x64xbf16>, %slopes: tensor<?xf32>) -> tensor<?x?x?x64xbf16> {
    // expected-remark @below {{schedule chosen}}
    %o = attn.attention queries(%q : tensor<?x?x?x64xbf16>)
        keys(%k : tensor<?x?x?x64xbf16>) values(%v : tensor<?x?x?x64xbf16>)
        alibi(%slopes : tensor<?xf32>) {causal = #attn.causal<top_left>} -> tensor<?x?x?x64xbf16>
    return %o : tensor<?x?x?x64xbf16>
  }

  // One row block has nobody to take turns with.
  // CHECK-LABEL: func.func @few_rows(
  // CHECK-NOT:     turns
  func.func @few_rows(%q: tensor<1x8x32x64xbf16>, %k: tensor<1x8x?x64xbf16>,
                      %v: tensor<1x8x?x64xbf16>) -> tensor<1x8x32x64xbf16> {
    // expected-remark @below {{schedule chosen}}
    %o = attn.attention monoid(@sigmoid_sum) queries(%q : tensor<1x8x32x64xbf16>)
        keys(%k : tensor<1x8x?x64xbf16>) values(%v : tensor<1x8x?x64xbf16>)
        -> tensor<1x8x32x64xbf16>
    return %o : tensor<1x8x32x64xbf16>
  }
}

// -----

// Warps take none.
module attributes {attn.target = "sm_80"} {
  // CHECK-LABEL: func.func @warps(
  // CHECK-NOT:     turns
  func.func @warps(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>,
                   %v: tensor<?x?x?x64xbf16>) -> tensor<?x?x?x64xbf16> {
    // expected-remark @below {{schedule chosen}}
    %o = attn.attention monoid(@sigmoid_sum) queries(%q : tensor<?x?x?x64xbf16>)
        keys(%k : tensor<?x?x?x64xbf16>) values(%v : tensor<?x?x?x64xbf16>)
        -> tensor<?x?x?x64xbf16>
    return %o : tensor<?x?x?x64xbf16>
  }
}
