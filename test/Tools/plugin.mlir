// Debian's own mlir-opt reads the dialects and runs the passes of attn.
//
// REQUIRES: mlir-opt
// UNSUPPORTED: sanitizer
// RUN: mlir-opt %s --load-dialect-plugin=%attn_lib/libattn-plugin.so \
// RUN:   --load-pass-plugin=%attn_lib/libattn-plugin.so \
// RUN:   --pass-pipeline='builtin.module(attn-import-prelude,canonicalize)' \
// RUN:   | FileCheck %s

// CHECK-LABEL: attn.monoid private @softmax cocycle
// CHECK-LABEL: func.func @attention
// CHECK: attn.attention
func.func @attention(%q: tensor<1x8x?x64xf32>, %k: tensor<1x8x?x64xf32>,
                     %v: tensor<1x8x?x64xf32>) -> tensor<1x8x?x64xf32> {
  %o = attn.attention queries(%q : tensor<1x8x?x64xf32>)
      keys(%k : tensor<1x8x?x64xf32>) values(%v : tensor<1x8x?x64xf32>)
      -> tensor<1x8x?x64xf32>
  return %o : tensor<1x8x?x64xf32>
}
