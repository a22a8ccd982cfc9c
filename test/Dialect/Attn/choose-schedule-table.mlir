// RUN: attn-opt %s --attn-import-prelude --attn-to-aggregate --attn-choose-schedule=table=%S/Inputs/schedules.txt | FileCheck %s
// RUN: attn-opt %s --attn-import-prelude --attn-to-aggregate --attn-choose-schedule=table=%t.none | FileCheck %s --check-prefix=NONE

// Measured schedules come before the model's: those of the sizes, then those of
// any. A table that is not there says nothing.

module attributes {attn.target = "sm_90a"} {
  // CHECK-LABEL: func.func @any_sizes(
  // CHECK:         schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 96, loop = peeled{{(, order = longest_first)?(, section = 4, section_keys = [0-9]+)?}}>
  // NONE-LABEL:  func.func @any_sizes(
  // NONE:          schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 128, loop = peeled{{(, order = longest_first)?(, section = 4, section_keys = [0-9]+)?}}>
  func.func @any_sizes(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
                       %v: tensor<?x?x?x128xbf16>) -> tensor<?x?x?x128xbf16> {
    %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>)
        keys(%k : tensor<?x?x?x128xbf16>) values(%v : tensor<?x?x?x128xbf16>)
        -> tensor<?x?x?x128xbf16>
    return %o : tensor<?x?x?x128xbf16>
  }

  // CHECK-LABEL: func.func @sizes(
  // CHECK:         schedule = #attn.schedule<block_q = 64, rows = 64, block_k = 112, loop = peeled{{(, order = longest_first)?(, section = 4, section_keys = [0-9]+)?}}>
  func.func @sizes(%q: tensor<1x4x1000x128xbf16>, %k: tensor<1x4x?x128xbf16>,
                   %v: tensor<1x4x?x128xbf16>) -> tensor<1x4x1000x128xbf16> {
    %o = attn.attention queries(%q : tensor<1x4x1000x128xbf16>)
        keys(%k : tensor<1x4x?x128xbf16>) values(%v : tensor<1x4x?x128xbf16>)
        -> tensor<1x4x1000x128xbf16>
    return %o : tensor<1x4x1000x128xbf16>
  }

  // What else a line says; what it does not say is as the model has it.
  // CHECK-LABEL: func.func @knobs(
  // CHECK:         schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 96, splits = 2, loop = masked, stages = 3, overlap = none, turns = softmax{{(, order = longest_first)?(, section = 4, section_keys = [0-9]+)?}}>
  // NONE-LABEL:  func.func @knobs(
  // NONE:          schedule = #attn.schedule<block_q = 192, rows = 64, block_k = 128, loop = peeled{{(, order = longest_first)?(, section = 4, section_keys = [0-9]+)?}}>
  func.func @knobs(%q: tensor<?x?x?x64xf16>, %k: tensor<?x?x?x64xf16>,
                   %v: tensor<?x?x?x64xf16>) -> tensor<?x?x?x64xf16> {
    %o = attn.attention queries(%q : tensor<?x?x?x64xf16>)
        keys(%k : tensor<?x?x?x64xf16>) values(%v : tensor<?x?x?x64xf16>)
        -> tensor<?x?x?x64xf16>
    return %o : tensor<?x?x?x64xf16>
  }
}
