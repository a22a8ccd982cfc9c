// RUN: attn-opt %s --split-input-file --attn-to-aggregate --verify-diagnostics

func.func @not_imported(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                        %v: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
  // expected-error @below {{expected 'softmax' to be an attn.monoid of this module; attn-import-prelude adds those that ship}}
  %o = attn.attention queries(%q : tensor<?x?x?x64xf32>)
      keys(%k : tensor<?x?x?x64xf32>) values(%v : tensor<?x?x?x64xf32>)
      -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}
