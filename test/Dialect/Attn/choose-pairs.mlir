// How scores come by elements of captures for each pair: by tensor copies where
// they can, and where tiles fit; as given where a schedule says it.
//
// RUN: attn-opt %s --split-input-file --attn-import-prelude --attn-to-aggregate --attn-choose-schedule=explain=1 2>&1 | FileCheck %s

module attributes {attn.target = "sm_90a"} {
// CHECK: remark: schedule chosen: {{.*}}pairs = copied> for sm_90a
// CHECK: pairs: tensor copies bring what scores read of them beside the keys
func.func @narrow(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
    %v: tensor<?x?x?x128xbf16>, %bias: tensor<?x1x?x?xf16>) -> tensor<?x?x?x128xbf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>) keys(%k : tensor<?x?x?x128xbf16>)
      values(%v : tensor<?x?x?x128xbf16>) bias(%bias : tensor<?x1x?x?xf16>) -> tensor<?x?x?x128xbf16>
  return %o : tensor<?x?x?x128xbf16>
}
}

// -----

module attributes {attn.target = "sm_90a"} {
// CHECK: remark: schedule chosen:
// CHECK-NOT: pairs = copied
// CHECK: pairs: each thread loads what scores read of its own (elements that are not of 16 bits)
func.func @wide(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
    %v: tensor<?x?x?x128xbf16>, %bias: tensor<?x1x?x?xf32>) -> tensor<?x?x?x128xbf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>) keys(%k : tensor<?x?x?x128xbf16>)
      values(%v : tensor<?x?x?x128xbf16>) bias(%bias : tensor<?x1x?x?xf32>) -> tensor<?x?x?x128xbf16>
  return %o : tensor<?x?x?x128xbf16>
}
}

// -----

module attributes {attn.target = "sm_90a"} {
// CHECK: remark: schedule as given: {{.*}}pairs = loaded> for sm_90a
// CHECK: pairs: each thread loads what scores read of its own (as given)
func.func @given(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
    %v: tensor<?x?x?x128xbf16>, %bias: tensor<?x1x?x?xf16>) -> tensor<?x?x?x128xbf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>) keys(%k : tensor<?x?x?x128xbf16>)
      values(%v : tensor<?x?x?x128xbf16>) bias(%bias : tensor<?x1x?x?xf16>)
      {schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 128, pairs = loaded>} -> tensor<?x?x?x128xbf16>
  return %o : tensor<?x?x?x128xbf16>
}
}

// -----

module attributes {attn.target = "sm_90a"} {
// A bias of keys has no element for each pair.
// CHECK: remark: schedule chosen:
// CHECK-NOT: pairs:
func.func @keys(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
    %v: tensor<?x?x?x128xbf16>, %bias: tensor<?x1x1x?xf16>) -> tensor<?x?x?x128xbf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>) keys(%k : tensor<?x?x?x128xbf16>)
      values(%v : tensor<?x?x?x128xbf16>) bias(%bias : tensor<?x1x1x?xf16>) -> tensor<?x?x?x128xbf16>
  return %o : tensor<?x?x?x128xbf16>
}
}
