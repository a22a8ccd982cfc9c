//===- DifferentiateWeights.cpp - Weights that pairs compute with ---------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Of an output `acc f`, f a factor of the row as 1/l is, the gradient of values
// takes P = W f, and the cotangent of W is (do . v) f + u. That is
// ((do . v) - delta) f with delta = -u/f, once for each row; so what becomes of
// W, as W is its own derivative, is P ((do . v) - delta): one product less, and
// nothing of W itself is left once there is P.
//
//===----------------------------------------------------------------------===//

#include "Differentiator.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::attn;

const Differentiator::Output *Differentiator::dividedOutput() {
  if (isWalk()) // A pair's total takes W itself.
    return nullptr;
  const Output *divided = nullptr;
  for (const Output &output : outputs) {
    if (!output.hasChannels())
      continue;
    if (divided || output.isComponent)
      return nullptr;
    divided = &output;
  }
  return divided;
}

bool Differentiator::hasItsWeights(unsigned component) {
  const Output *output = dividedOutput();
  if (!output || monoid.hasFactors() || !isUnit(component))
    return false;
  ValueRange lifted =
      monoid.getLift().front().getTerminator()->getOperands().drop_front(
          numStats());
  Value own = lifted[output->component], other = lifted[component];
  return own == other ||
         (matchPattern(own, m_OneFloat()) && matchPattern(other, m_OneFloat()));
}

void Differentiator::reuseWeight(Block *block, Value weight, Value factor,
                                 Pairs &pairs) {
  if (!pairs.factor)
    return;
  for (auto product :
       llvm::make_early_inc_range(block->getOps<arith::MulFOp>())) {
    auto scaled = product.getLhs().getDefiningOp<arith::MulFOp>();
    if (product.getRhs() != weight || !scaled || scaled.getRhs() != factor ||
        !scaled->hasOneUse())
      continue;
    product->setOperands({scaled.getLhs(), pairs.factor});
    scaled.erase();
    return;
  }
  pairs.factor = Value();
}
