//===- ListKeyTiles.cpp - Key tiles that a kernel before lists ------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Warpgroups of a GPU visit whole tiles of keys. Where the bounds of a mask's
// keys do not say which tiles have live elements, as of a mask that reads
// memory, kernels before the reduction list them once (KeyLists.cpp) for all
// heads that share the mask. Where the mask reads an element for each pair of a
// row and a key, or takes more than a few operations for one, the lists have
// its elements too, a bit for each.
//
//===----------------------------------------------------------------------===//

#include "NamedRewrites.h"
#include "attn/Analysis/Laws.h"
#include "attn/Analysis/MaskRuns.h"
#include "attn/Analysis/Schedule.h"
#include "attn/Analysis/TargetAttr.h"
#include "attn/Analysis/TileLayout.h"
#include "attn/Dialect/Attn/Transforms/Passes.h"
#include "attn/Dialect/Attn/Transforms/RegionUtils.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/TypeSwitch.h"

#define DEBUG_TYPE "attn-list-key-tiles"

namespace attn {
#define GEN_PASS_DEF_ATTNLISTKEYTILESPASS
#include "attn/Dialect/Attn/Transforms/Passes.h.inc"
} // namespace attn

using namespace mlir;
using namespace mlir::attn;

/// Whether `index` is `position` itself, but for casts, a distance and limits
/// that are the same for all elements, for which `parts` has no entry.
static bool countsAs(Value index, Value position,
                     const llvm::DenseMap<Value, unsigned> &parts) {
  while (Operation *op = index.getDefiningOp()) {
    if (isa<arith::IndexCastOp, arith::IndexCastUIOp, arith::ExtSIOp,
            arith::ExtUIOp, arith::TruncIOp>(op)) {
      index = op->getOperand(0);
      continue;
    }
    if (!isa<arith::AddIOp, arith::SubIOp, arith::MinSIOp, arith::MaxSIOp>(op))
      break;
    bool isFirst = parts.lookup(op->getOperand(1)) == 0;
    if (!isFirst && parts.lookup(op->getOperand(0)) != 0)
      break;
    index = op->getOperand(isFirst ? 0 : 1);
  }
  return index == position;
}

/// Whether `region`, whose arguments from `positions` on are b, h, i, j, reads
/// an element of each pair of a row and a key.
static bool readsPairs(Region &region, unsigned positions) {
  if (region.empty())
    return false;
  Value row = region.getArgument(positions + 2);
  Value key = region.getArgument(positions + 3);
  // What depends on the row or the key.
  llvm::DenseMap<Value, unsigned> parts = {{row, 1}, {key, 1}};
  bool found = false;
  region.walk([&](Operation *inner) {
    bool depends = llvm::any_of(inner->getOperands(),
                                [&](Value x) { return parts.lookup(x) != 0; });
    for (Value result : inner->getResults())
      parts[result] = depends;
    if (auto extract = dyn_cast<tensor::ExtractOp>(inner)) {
      auto isReached = [&](Value position) {
        return llvm::any_of(extract.getIndices(), [&](Value index) {
          return countsAs(index, position, parts);
        });
      };
      found |= isReached(row) && isReached(key);
    }
  });
  return found;
}

bool mlir::attn::readsPairs(ReductionOpInterface op) {
  return ::readsPairs(op.getMaskBody(), 0);
}

/// About how many instructions a mask takes for each pair of a row and a key.
static int64_t countPairOps(Region &region) {
  constexpr unsigned ofRow = 1, ofKey = 2, ofBoth = 3;
  constexpr int64_t opsOfDivision = 4, opsOfAbs = 2;
  llvm::DenseMap<Value, unsigned> parts = {{region.getArgument(2), ofRow},
                                           {region.getArgument(3), ofKey}};
  int64_t count = 0;
  region.walk([&](Operation *inner) {
    unsigned part = 0;
    for (Value operand : inner->getOperands())
      part |= parts.lookup(operand);
    for (Value result : inner->getResults())
      parts[result] = part;
    if (part != ofBoth || inner->hasTrait<OpTrait::IsTerminator>())
      return;
    count += llvm::TypeSwitch<Operation *, int64_t>(inner)
                 .Case<arith::IndexCastOp, arith::IndexCastUIOp, arith::ExtUIOp,
                       arith::ExtSIOp, arith::TruncIOp>([](auto) { return 0; })
                 .Case<arith::DivSIOp, arith::DivUIOp, arith::RemSIOp,
                       arith::RemUIOp, arith::FloorDivSIOp, arith::CeilDivSIOp,
                       arith::CeilDivUIOp>([&](auto) { return opsOfDivision; })
                 .Case<math::AbsIOp>([&](auto) { return opsOfAbs; })
                 .Default([](auto) { return 1; });
  });
  return count;
}

bool mlir::attn::paysBits(ReductionOpInterface op) {
  // A word of bits takes half an instruction for each of a thread's elements,
  // and its load: masks of a comparison or two are as fast without, and of a
  // distance (four instructions) faster. Where ids are read of keys, lists are
  // made sooner without (measured: docs/performance).
  constexpr int64_t mostOps = 4;
  return !op.getMaskBody().empty() &&
         (readsPairs(op) || countPairOps(op.getMaskBody()) > mostOps);
}

bool mlir::attn::scoresReadPairs(ReductionOpInterface op) {
  return ::readsPairs(op.getScoreBody(), op.getQueryOperands().size());
}

StringRef mlir::attn::whyNotListed(ReductionOpInterface op, MonoidOp monoid,
                                   const ::attn::TargetInfo &target) {
  if (target.isCpu() || !target.hasRoles())
    return "its rows are not those of warpgroups";
  if (op.isBatchInvariant())
    return "lists order key tiles by the rows beside a row";
  if (!isa<AggregateOp>(op.getOperation()))
    return "its results are those of parts, or scores";
  if (op.hasOwnSizes())
    return "its sequences have sizes of their own";
  if (op.getMaskBody().empty())
    return "it has no mask";
  if (monoid.getKind() != MonoidKind::cocycle)
    return "its monoid is no cocycle";
  if (::attn::MaskAnalysis(op.getMaskBody()).facts().hullIsExact)
    return "bounds of its keys say which tiles are live";
  // Whole tiles come after the others.
  std::shared_ptr<const ::attn::LawReport> laws = ::attn::checkLaws(monoid);
  if (monoid.getNumStats() && !(laws && laws->combineCommutes))
    return "its keys have to stay in order";
  return {};
}

StringRef mlir::attn::whyNotListedAs(ReductionOpInterface op, ListForm form,
                                     MonoidOp monoid,
                                     const ::attn::TargetInfo &target) {
  if (StringRef why = whyNotListed(op, monoid, target); !why.empty())
    return why;
  ScheduleAttr schedule = op.getScheduleAttribute();
  if (!schedule || schedule.getLoop() != LoopShape::peeled)
    return "its schedule peels no tiles";
  if (form == ListForm::bits && !mayListBits(op, target))
    return "its mask reads no element for each pair and takes few operations, "
           "or its rows are not those of warpgroups";
  return {};
}

bool mlir::attn::mayListBits(ReductionOpInterface op,
                             const ::attn::TargetInfo &target) {
  ScheduleAttr schedule = op.getScheduleAttribute();
  return schedule && target.hasRoles() &&
         schedule.getRows() == target.productShape().m && paysBits(op);
}

/// Whether the registers of a warpgroup hold what the mask reads of keys beside
/// the scores of a tile, their weights and the sums.
static bool mayHoldSamples(ReductionOpInterface op,
                           const ::attn::TargetInfo &target) {
  ScheduleAttr schedule = op.getScheduleAttribute();
  const ::attn::MmaShape &unit = target.productShape();
  ::attn::MaskAnalysis analysis(op.getMaskBody());
  auto samples = analysis.getSamples();
  if (samples.empty() || !schedule || schedule.getRows() != unit.m)
    return false;
  int64_t keys = ::attn::paddedKeys(schedule.getBlockK(), target);
  auto registers = [&](int64_t cols, int64_t bits) {
    return ::attn::onchip::fragmentRegisters(unit.m, cols, bits, unit.threads);
  };
  ::attn::onchip::StepRegisters held;
  held.scores = registers(keys, 32);
  held.weights = registers(keys, 16);
  held.samples = ::attn::onchip::sampleRegisters(
      llvm::count_if(samples, [](auto &sample) { return sample.onKey; }), keys);
  for (Value value : op.getValueOperands()) {
    int64_t width = cast<ShapedType>(value.getType()).getShape().back();
    held.sums +=
        registers(schedule.getBlockV() ? schedule.getBlockV()
                                       : ::attn::paddedChannels(width, target),
                  32);
  }
  int64_t members = schedule.getBlockQ() / schedule.getRows();
  return held.total(target) < ::attn::onchip::stepLimit(members, target);
}

/// Whether a mask reads something of each key.
static bool samplesKeys(ReductionOpInterface op) {
  ::attn::MaskAnalysis analysis(op.getMaskBody());
  return llvm::any_of(analysis.getSamples(),
                      [](auto sample) { return sample.onKey; });
}

/// Whether a mask is what a table has of blocks of rows and keys, none of which
/// tiles cross: few tiles are left to a look.
static bool readsBlocks(ReductionOpInterface op) {
  ::attn::MaskAnalysis analysis(op.getMaskBody());
  ScheduleAttr schedule = op.getScheduleAttribute();
  if (analysis.getCells().empty() || !analysis.getElements().empty() ||
      (schedule && schedule.getPackHeads()))
    return false;
  return llvm::all_of(analysis.getCells(), [&](auto &cell) {
    return !schedule || (cell.rows % schedule.getBlockQ() == 0 &&
                         cell.keys % schedule.getBlockK() == 0);
  });
}

bool mlir::attn::listsAtOnce(ReductionOpInterface op) {
  // Of neighbours in a picture many tiles are left to a look at their elements.
  if (readsPairs(op) || ::attn::comparesCoordinates(op.getMaskBody()))
    return false;
  // One comparison of what is read of rows leaves none.
  ::attn::MaskAnalysis analysis(op.getMaskBody());
  return samplesKeys(op) || readsBlocks(op) ||
         (!analysis.getSamples().empty() &&
          countPairOps(op.getMaskBody()) <= 1);
}

/// Whether a mask's parts may have keys that the others have not.
static bool isUnion(ReductionOpInterface op) {
  return op.getMaskBody()
      .walk([](arith::OrIOp) { return WalkResult::interrupt(); })
      .wasInterrupted();
}

bool mlir::attn::listsBand(ReductionOpInterface op) {
  ::attn::MaskAnalysis::Facts facts =
      ::attn::MaskAnalysis(op.getMaskBody()).facts();
  return facts.startDiffersByRow && facts.endDiffersByRow && !isUnion(op);
}

ListedOrder mlir::attn::listsSayOrder(ReductionOpInterface op) {
  // Rows that a mask does not ask for have all the same keys.
  if (listsBand(op) || op.getMaskBody().getArgument(2).use_empty())
    return ListedOrder::none;
  // Work tiles of gradients take as long as two or three of others: of
  // documents the last ones left 9 % of the time idle (measured).
  if (!listsAtOnce(op) || op.getQueryOperands().size() > 1)
    return ListedOrder::allHeads;
  return samplesKeys(op) || readsBlocks(op) ? ListedOrder::lastHeads
                                            : ListedOrder::none;
}

int64_t mlir::attn::mostTilesWithoutOrder(ReductionOpInterface op,
                                          const ::attn::TargetInfo &target) {
  // Of pairs query tiles have any numbers of key tiles: by a model of blocks
  // that have two each, the order is worth a fifth of the time.
  if (readsPairs(op) && op.getQueryOperands().size() == 1)
    return target.numMultiprocessors;
  return ::attn::mostTilesWithoutOrder(target);
}

bool mlir::attn::listsTakeManyHeads(ReductionOpInterface op) {
  if (listsSayOrder(op) == ListedOrder::none ||
      ::attn::comparesCoordinates(op.getMaskBody()))
    return false;
  return ::attn::MaskAnalysis(op.getMaskBody()).getSamples().empty() ||
         samplesKeys(op);
}

bool mlir::attn::listsBits(ReductionOpInterface op) {
  return op.getListedKeys() == ListForm::bits;
}

namespace {
struct ListKeyTilesPass
    : ::attn::impl::AttnListKeyTilesPassBase<ListKeyTilesPass> {
  using AttnListKeyTilesPassBase::AttnListKeyTilesPassBase;

  void runOnOperation() final {
    std::optional<::attn::TargetInfo> target =
        ::attn::getTarget(getOperation());
    if (!target)
      return signalPassFailure();
    getOperation().walk([&](ReductionOpInterface op) {
      MonoidOp monoid = lookupMonoid(op, op.getMonoidRef());
      if (!monoid || op.getListedKeys())
        return;
      ListForm form =
          mayListBits(op, *target) ? ListForm::bits : ListForm::tiles;
      if (StringRef why = whyNotListedAs(op, form, monoid, *target);
          !why.empty()) {
        ++numKept;
        if (explain)
          op->emitRemark("key tiles not listed: ") << why;
        return;
      }
      op.setListedKeys(form);
      op.setHeldSamples(mayHoldSamples(op, *target));
      ++(form == ListForm::bits ? numBits : numListed);
    });
  }
};
} // namespace
