//===- SeparateSums.cpp - Sums that no warpgroup holds together -----------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Sums of several values (dK and dV) of more channels than a warpgroup has
// registers for would be made in slices of their channels, each of which
// computes all dots and weights. A reduction for each value does so as often,
// but takes the dots alone that its own weights are made of: dV has no use for
// those of dO and V. At 256 channels that is 1280 products of a pair for 1536.
//
//===----------------------------------------------------------------------===//

#include "GradientContext.h"
#include "attn/Analysis/Schedule.h"
#include "attn/Analysis/TargetAttr.h"
#include "attn/Dialect/Attn/IR/Attn.h"
#include "attn/Dialect/Attn/Transforms/Passes.h"
#include "attn/Dialect/Attn/Transforms/RegionUtils.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/IRMapping.h"

#define DEBUG_TYPE "attn-separate-sums"

namespace attn {
#define GEN_PASS_DEF_ATTNSEPARATESUMSPASS
#include "attn/Dialect/Attn/Transforms/Passes.h.inc"
} // namespace attn

using namespace mlir;
using namespace mlir::attn;

/// Whether a region yields its first arguments, all in their places.
static bool yieldsArguments(Region &region) {
  return llvm::all_of(llvm::enumerate(getYielded(region)), [&](auto it) {
    return it.value() == region.getArgument(it.index());
  });
}

/// Whether `op` has plain sums, of which each result is one.
static bool hasPlainSums(AggregateOp op, MonoidOp monoid) {
  return monoid.getKind() == MonoidKind::cocycle && !monoid.getNumStats() &&
         op.getParams().empty() && !op.getScore().empty() &&
         op.getFactor().empty() && op.getInit().empty() &&
         op.getFinalize().empty() && op.getRotateQueries().empty() &&
         op.getRotateKeys().empty() && !op.getScheduleAttr() &&
         op.getNumResults() == monoid.getNumComponents() &&
         yieldsArguments(monoid.getLift()) &&
         yieldsArguments(monoid.getFinalize());
}

/// Whether the sums of each value fit a warpgroup's registers, but not those of
/// all of them.
static bool areWide(AggregateOp op, const ::attn::TargetInfo &target) {
  const int64_t most = ::attn::MmaShape::warpgroup().nMax;
  int64_t sum = 0;
  for (Value value : op.getValues()) {
    auto type = cast<RankedTensorType>(value.getType());
    if (type.getElementTypeBitWidth() != 16)
      return false;
    int64_t width = ::attn::paddedChannels(type.getShape().back(), target);
    if (width > most)
      return false;
    sum += width;
  }
  return sum > most;
}

/// The reduction of some components alone, with the dots that these need.
static AggregateOp separate(AggregateOp op, MonoidOp monoid,
                            ArrayRef<unsigned> components) {
  OpBuilder b(monoid);
  b.setInsertionPointAfter(monoid);
  Location loc = op.getLoc();
  std::string name = monoid.getSymName().str();
  SmallVector<Component> kinds;
  SmallVector<StringRef> outputs;
  SmallVector<Value> values;
  SmallVector<Type> types;
  for (unsigned i : components) {
    kinds.push_back(monoid.getComponent(i));
    outputs.push_back(cast<StringAttr>(monoid.getOutputs()[i]).getValue());
    name += "_" + outputs.back().str();
    types.push_back(op.getResult(i).getType());
    unsigned number = 0;
    for (unsigned before = 0; before < i; ++before)
      number += monoid.getComponent(before) == Component::value;
    if (monoid.getComponent(i) == Component::value)
      values.push_back(op.getValues()[number]);
  }
  MonoidOp sum = createPlainSum(b, loc, op->getParentOfType<ModuleOp>(), name,
                                kinds, outputs);

  unsigned numDots = op.getQueries().size();
  SmallVector<Value> weights = getYielded(op.getScore());
  llvm::BitVector dead(op.getScore().getNumArguments());
  SmallVector<Value> left, right;
  for (unsigned dot = 0; dot < numDots; ++dot) {
    dead[dot] = llvm::none_of(components, [&](unsigned i) {
      return dependsOn(weights[i], op.getScore().getArgument(dot));
    });
    if (dead[dot])
      continue;
    left.push_back(op.getQueries()[dot]);
    right.push_back(op.getKeys()[dot]);
  }
  b.setInsertionPoint(op);
  auto part = AggregateOp::create(
      b, loc, types, FlatSymbolRefAttr::get(sum.getSymNameAttr()), ValueRange(),
      left, right, values, op.getCaptures(), op.getQueryIndex(),
      op.getKeyIndex(), op.getRowBase(), op.getKeyBase(), op.getQueryFormAttr(),
      op.getKeyFormAttr(), op.getSideAttr(), ScheduleAttr(),
      op.getPrecisionAttr(), op.getBatchInvariantAttr(), RotaryAttr());
  part->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  part.setPartKeys(op.getPartKeys());
  part.setDeadIsZero(op.getDeadIsZero());
  part.setDeadByElement(op.getDeadByElement());
  part.setAnyOrder(op.getAnyOrder());
  IRMapping mapping;
  op.getMask().cloneInto(&part.getMask(), mapping);
  op.getScore().cloneInto(&part.getScore(), mapping);
  Block &score = part.getScore().front();
  SmallVector<Value> kept;
  for (unsigned i : components)
    kept.push_back(score.getTerminator()->getOperand(i));
  score.getTerminator()->setOperands(kept);
  for (Operation &inner : llvm::make_early_inc_range(llvm::reverse(score)))
    if (isOpTriviallyDead(&inner))
      inner.erase();
  score.eraseArguments(dead);
  return part;
}

namespace {
struct SeparateSumsPass
    : ::attn::impl::AttnSeparateSumsPassBase<SeparateSumsPass> {
  using AttnSeparateSumsPassBase::AttnSeparateSumsPassBase;

  void runOnOperation() final {
    std::optional<::attn::TargetInfo> target =
        ::attn::getTarget(getOperation());
    if (!target)
      return signalPassFailure();
    if (target->isCpu() || !target->hasRoles())
      return markAllAnalysesPreserved();
    SmallVector<AggregateOp> found;
    getOperation().walk([&](AggregateOp op) {
      MonoidOp monoid = lookupMonoid(op, op.getMonoidAttr());
      if (monoid && op.getValues().size() > 1 &&
          !isa<FusedOp>(op->getParentOp()) && hasPlainSums(op, monoid) &&
          areWide(op, *target))
        found.push_back(op);
    });
    for (AggregateOp op : found)
      rewrite(op, lookupMonoid(op, op.getMonoidAttr()));
    if (found.empty())
      markAllAnalysesPreserved();
  }

  /// Units go with the first value: they cost no product.
  void rewrite(AggregateOp op, MonoidOp monoid) {
    SmallVector<SmallVector<unsigned>> parts;
    SmallVector<unsigned> units;
    for (unsigned i = 0; i < monoid.getNumComponents(); ++i)
      if (monoid.getComponent(i) == Component::value)
        parts.push_back({i});
      else
        units.push_back(i);
    llvm::append_range(parts.front(), units);
    for (ArrayRef<unsigned> components : parts) {
      AggregateOp part = separate(op, monoid, components);
      for (auto [n, i] : llvm::enumerate(components))
        op.getResult(i).replaceAllUsesWith(part.getResult(n));
    }
    numSeparated += parts.size();
    if (explain)
      op.emitRemark("the sums of ")
          << parts.size()
          << " values are reductions of their own: a warpgroup has registers "
             "for those of one";
    op.erase();
    if (monoid.isPrivate() &&
        SymbolTable::symbolKnownUseEmpty(monoid, monoid->getParentOp()))
      monoid.erase();
  }
};
} // namespace
