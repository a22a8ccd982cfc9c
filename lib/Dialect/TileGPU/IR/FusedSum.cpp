//===- FusedSum.cpp - Sums that are one instruction with a product --------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/TileGPU/IR/FusedSum.h"

using namespace mlir;
using namespace ::attn;
using namespace ::attn::gpu;

/// The one operation that reads a product, or its negative; null where there
/// are more.
static Operation *readerOf(arith::MulFOp product) {
  if (!product->hasOneUse())
    return nullptr;
  Operation *reader = *product->user_begin();
  if (!isa<arith::NegFOp>(reader))
    return reader;
  return reader->hasOneUse() ? *reader->user_begin() : nullptr;
}

/// The products whose value a term of a sum may have, or the negative of it.
static SmallVector<arith::MulFOp> productsOf(Value term) {
  SmallVector<arith::MulFOp> products;
  SmallVector<Value> values = {term};
  while (!values.empty()) {
    Operation *op = values.pop_back_val().getDefiningOp();
    if (auto product = dyn_cast_or_null<arith::MulFOp>(op))
      products.push_back(product);
    else if (auto negated = dyn_cast_or_null<arith::NegFOp>(op))
      values.push_back(negated.getOperand());
    else if (auto either = dyn_cast_or_null<arith::SelectOp>(op))
      values.append({either.getTrueValue(), either.getFalseValue()});
  }
  return products;
}

bool gpu::isFusible(arith::MulFOp product) {
  Operation *sum = readerOf(product);
  if (!isa_and_nonnull<arith::AddFOp, arith::SubFOp>(sum))
    return sum != nullptr;
  for (Value term : sum->getOperands())
    for (arith::MulFOp other : productsOf(term)) {
      if (other == product)
        continue;
      bool isShared = llvm::any_of(product->getOperands(), [&](Value factor) {
        return llvm::is_contained(other->getOperands(), factor);
      });
      if (isShared || !readerOf(other))
        return false;
    }
  return true;
}

std::optional<FusedSum> gpu::fusedSumOf(Operation *op) {
  if (!isa<arith::AddFOp, arith::SubFOp>(op) ||
      !(op->getResult(0).getType().isF32() ||
        op->getResult(0).getType().isF64()))
    return std::nullopt;
  bool subtracts = isa<arith::SubFOp>(op);
  for (unsigned i = 0; i < 2; ++i) {
    FusedSum sum;
    Value term = op->getOperand(i);
    if (auto negated = term.getDefiningOp<arith::NegFOp>()) {
      term = negated.getOperand();
      sum.subtractsProduct = true;
    }
    sum.product = term.getDefiningOp<arith::MulFOp>();
    if (!sum.product || readerOf(sum.product) != op || !isFusible(sum.product))
      continue;
    sum.addend = op->getOperand(1 - i);
    sum.subtractsProduct ^= subtracts && i == 1;
    sum.subtractsAddend = subtracts && i == 0;
    return sum;
  }
  return std::nullopt;
}
