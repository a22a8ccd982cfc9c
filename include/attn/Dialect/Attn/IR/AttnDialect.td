//===- AttnDialect.td - The attn dialect -------------------*- tablegen -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTN_IR_ATTNDIALECT_TD
#define ATTN_DIALECT_ATTN_IR_ATTNDIALECT_TD

include "mlir/IR/OpBase.td"

def Attn_Dialect : Dialect {
  let name = "attn";
  let cppNamespace = "::mlir::attn";
  let summary = "Attention as a monoid reduction per query row";
  let description = [{
    The `attn` dialect says *what* is computed: a reduction of the keys of each
    query row in a monoid that the program declares (`attn.monoid`). Softmax is
    one such monoid. `attn.attention` is the named form that users write;
    `attn.aggregate` the general one; `attn.partial`, `attn.combine` and
    `attn.finalize` handle states of unfinished reductions as values.

    Docs/Semantics.md states the contract of each op; the labels (C1), (C2) ...
    there are the ones of the verifiers and of the tests.
  }];
  let useDefaultAttributePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::math::MathDialect",
    "::mlir::tensor::TensorDialect"
  ];
}

#endif // ATTN_DIALECT_ATTN_IR_ATTNDIALECT_TD
