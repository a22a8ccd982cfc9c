//===- StateUses.cpp - What becomes of the states of a reduction ---------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StateUses.h"
#include "attn/Analysis/Laws.h"
#include "attn/Dialect/Attn/Transforms/RegionUtils.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace mlir::attn;

bool mlir::attn::isMaximum(Region &combine) {
  Operation *root = getYielded(combine).front().getDefiningOp();
  if (!root || !isa<arith::MaximumFOp, arith::MaxNumFOp>(root))
    return false;
  Value a = combine.getArgument(0), b = combine.getArgument(1);
  return (root->getOperand(0) == a && root->getOperand(1) == b) ||
         (root->getOperand(0) == b && root->getOperand(1) == a);
}

/// The finalize regions that the states of a reduction reach, null for the
/// monoid's own; nothing when states are used in another way.
static std::optional<SmallVector<Region *>> finalizers(Operation *op) {
  SmallVector<Region *> regions;
  if (auto aggregate = dyn_cast<AggregateOp>(op)) {
    regions.push_back(&aggregate.getFinalize());
    return regions;
  }
  for (Operation *user : op->getUsers()) {
    if (auto finalize = dyn_cast<FinalizeOp>(user)) {
      regions.push_back(&finalize.getFinalize());
      continue;
    }
    if (!isa<CombineOp>(user))
      return std::nullopt;
    auto further = finalizers(user);
    if (!further)
      return std::nullopt;
    regions.append(*further);
  }
  return regions;
}

SmallVector<Type> mlir::attn::outputTypes(Operation *op) {
  SmallVector<Type> types;
  if (isa<AggregateOp, FinalizeOp>(op))
    return llvm::to_vector(op->getResultTypes());
  for (Operation *user : op->getUsers()) {
    if (!isa<CombineOp, FinalizeOp>(user))
      return llvm::to_vector(op->getResultTypes());
    types.append(outputTypes(user));
  }
  return types;
}

bool mlir::attn::mayDropNaN(Operation *op, MonoidOp monoid) {
  std::shared_ptr<const ::attn::LawReport> laws = ::attn::checkLaws(monoid);
  if (!laws || !laws->nanReachesWeights)
    return false;
  auto regions = finalizers(op);
  if (!regions)
    return false;
  return llvm::all_of(*regions, [&](Region *region) {
    if (region->empty())
      return laws->relaxedMax;
    auto report = ::attn::checkFinalize(monoid, *region);
    return succeeded(report) &&
           llvm::all_of(report->spreadsNaN, [](bool b) { return b; });
  });
}

bool mlir::attn::anchorIsFree(Operation *op, MonoidOp monoid) {
  bool hasUnit = false;
  for (unsigned i = 0, e = monoid.getNumComponents(); i < e; ++i)
    hasUnit |= monoid.getComponent(i) == Component::unit;
  std::shared_ptr<const ::attn::LawReport> laws = ::attn::checkLaws(monoid);
  auto regions = finalizers(op);
  if (!hasUnit || !laws || !regions)
    return false;
  auto holds = [](const ::attn::FinalizeReport &report) {
    return llvm::all_of(report.gaugeInvariant, [](bool b) { return b; });
  };
  return llvm::all_of(*regions, [&](Region *region) {
    if (region->empty())
      return holds(laws->finalize);
    auto report = ::attn::checkFinalize(monoid, *region);
    return succeeded(report) && holds(*report);
  });
}
