// RUN: attn-opt %s --split-input-file --attn-import-prelude --attn-to-aggregate --attn-choose-schedule --attn-online-form --attn-fold-linear-bias=explain --verify-diagnostics -o /dev/null
// RUN: attn-opt %s --split-input-file --attn-import-prelude --attn-to-aggregate --attn-choose-schedule --attn-online-form --attn-fold-linear-bias | FileCheck %s

// What has no linear tiles, and why.
// CHECK-NOT: linear_bias

module attributes {attn.target = "sm_90a"} {
func.func @product(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
                   %v: tensor<?x?x?x128xbf16>) -> tensor<?x?x?x128xbf16> {
  // expected-remark@+1 {{no linear tiles: its score is a product (attn-fold-scale)}}
  %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>)
      keys(%k : tensor<?x?x?x128xbf16>) values(%v : tensor<?x?x?x128xbf16>)
      -> tensor<?x?x?x128xbf16>
  return %o : tensor<?x?x?x128xbf16>
}

func.func @bias(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
                %v: tensor<?x?x?x128xbf16>, %t: tensor<?x?x?x?xf32>) -> tensor<?x?x?x128xbf16> {
  // expected-remark@+1 {{no linear tiles: its score does not grow evenly from key to key}}
  %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>)
      keys(%k : tensor<?x?x?x128xbf16>) values(%v : tensor<?x?x?x128xbf16>)
      bias(%t : tensor<?x?x?x?xf32>) -> tensor<?x?x?x128xbf16>
  return %o : tensor<?x?x?x128xbf16>
}

func.func @f32(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
               %v: tensor<?x?x?x64xf32>, %a: tensor<?xf32>) -> tensor<?x?x?x64xf32> {
  // expected-remark@+1 {{no linear tiles: its products are not those of warpgroups}}
  %o = attn.attention queries(%q : tensor<?x?x?x64xf32>)
      keys(%k : tensor<?x?x?x64xf32>) values(%v : tensor<?x?x?x64xf32>)
      alibi(%a : tensor<?xf32>) -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}

func.func @invariant(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
                     %v: tensor<?x?x?x128xbf16>, %a: tensor<?xf32>) -> tensor<?x?x?x128xbf16> {
  // expected-remark@+1 {{no linear tiles: which tiles are whole depends on the rows beside a row}}
  %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>)
      keys(%k : tensor<?x?x?x128xbf16>) values(%v : tensor<?x?x?x128xbf16>)
      alibi(%a : tensor<?xf32>) {batch_invariant} -> tensor<?x?x?x128xbf16>
  return %o : tensor<?x?x?x128xbf16>
}

func.func @sum(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
               %v: tensor<?x?x?x128xbf16>, %a: tensor<?xf32>) -> tensor<?x?x?x128xbf16> {
  // expected-remark@+1 {{no linear tiles: its exponents are not multiply-adds (attn-online-form)}}
  %o = attn.attention monoid(@sigmoid_sum) queries(%q : tensor<?x?x?x128xbf16>)
      keys(%k : tensor<?x?x?x128xbf16>) values(%v : tensor<?x?x?x128xbf16>)
      alibi(%a : tensor<?xf32>) -> tensor<?x?x?x128xbf16>
  return %o : tensor<?x?x?x128xbf16>
}
}
