//===- Passes.td - Passes over the attn dialect ------------*- tablegen -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTN_TRANSFORMS_PASSES_TD
#define ATTN_DIALECT_ATTN_TRANSFORMS_PASSES_TD

include "mlir/Pass/PassBase.td"

def AttnImportPreludePass : Pass<"attn-import-prelude", "::mlir::ModuleOp"> {
  let summary = "Copy the shipped monoids that a module names into it";
  let description = [{
    Expects: any module. References to monoids that the module does not define
    must name shipped ones; the verifier has seen to that.

    Produces: the definition of each such monoid, private, at the start of the
    module. Nothing else changes; a second run changes nothing.

    Example:

    ```mlir
    func.func @f(%q: tensor<1x8x?x64xf32>, %k: tensor<1x8x?x64xf32>,
                 %v: tensor<1x8x?x64xf32>) -> tensor<1x8x?x64xf32> {
      %o = attn.attention queries(%q : tensor<1x8x?x64xf32>)
          keys(%k : tensor<1x8x?x64xf32>) values(%v : tensor<1x8x?x64xf32>)
          -> tensor<1x8x?x64xf32>
      return %o : tensor<1x8x?x64xf32>
    }
    ```

    becomes `attn.monoid private @softmax ...` followed by the same function.

    Numerics: no effect.

    Fails when: a definition of the prelude does not verify (a defect of the
    compiler).
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::math::MathDialect"
  ];
  let statistics = [
    Statistic<"numImported", "num-imported", "Monoids copied into the module">
  ];
}

#endif // ATTN_DIALECT_ATTN_TRANSFORMS_PASSES_TD
