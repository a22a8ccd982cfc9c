// RUN: attn-opt %s --split-input-file --verify-diagnostics --attn-import-prelude --attn-check-laws --attn-to-aggregate --canonicalize --attn-choose-schedule --attn-tile

// The plan runs on the host.
module attributes {attn.target = "sm_90a"} {
func.func @element(%q: tensor<?x?x?x64xf16>, %k: tensor<?x?x?x64xf16>,
    %v: tensor<?x?x?x64xf16>, %scales: tensor<?xf32>) -> tensor<?x?x?x64xf16> {
  %c0 = arith.constant 0 : index
  // expected-error @below {{expected a scalar argument, but got an element of a tensor, which the host of a GPU cannot read}}
  %scale = tensor.extract %scales[%c0] : tensor<?xf32>
  %o = attn.attention queries(%q : tensor<?x?x?x64xf16>) keys(%k : tensor<?x?x?x64xf16>)
      values(%v : tensor<?x?x?x64xf16>) scale(%scale) -> tensor<?x?x?x64xf16>
  return %o : tensor<?x?x?x64xf16>
}
}
