//===- AttnVerifiers.cpp - Verifiers of the attn dialect ------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/Attn/IR/Attn.h"

using namespace mlir;
using namespace mlir::attn;

unsigned MonoidOp::getNumScores() {
  unsigned extra = getNumParams();
  if (isGeneral())
    extra += getNumValues() + 1; // the key's values and its position
  unsigned numArguments =
      getLift().empty() ? 0 : getLift().front().getNumArguments();
  return numArguments > extra ? numArguments - extra : 0;
}

unsigned MonoidOp::getNumValues() {
  return llvm::count_if(getComponents(), [](Attribute attr) {
    return cast<ComponentAttr>(attr).getValue() == Component::value;
  });
}

LogicalResult MonoidOp::verify() { return success(); }
LogicalResult MonoidOp::verifyRegions() { return success(); }
LogicalResult AttentionOp::verify() { return success(); }
LogicalResult AggregateOp::verify() { return success(); }
LogicalResult PartialOp::verify() { return success(); }
LogicalResult CombineOp::verify() { return success(); }
LogicalResult FinalizeOp::verify() { return success(); }

LogicalResult AggregateOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return success();
}
LogicalResult PartialOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return success();
}
LogicalResult CombineOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return success();
}
LogicalResult FinalizeOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return success();
}
