//===- DropDeadComponents.cpp - Reduce in what the outputs read -----------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A component is live if `finalize` reads it for a result that is asked for, or
// if the combination of what is live does. The others leave with their entries
// everywhere: states without them are the image of whole ones under a
// projection that `combine` commutes with, so that what is left is a monoid
// and its laws need no new reason. Statistics stay: every factor reads them.
// Of factors one for each component, those of dead components go with them.
//
// Monoids are symbols that others may refer to. What is left is a new one, and
// reductions that ask for the same components share it.
//
//===----------------------------------------------------------------------===//

#include "StateUses.h"
#include "attn/Dialect/Attn/IR/Attn.h"
#include "attn/Dialect/Attn/Transforms/Passes.h"
#include "attn/Dialect/Attn/Transforms/RegionUtils.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/MapVector.h"

#define DEBUG_TYPE "attn-drop-dead-components"

namespace attn {
#define GEN_PASS_DEF_ATTNDROPDEADCOMPONENTSPASS
#include "attn/Dialect/Attn/Transforms/Passes.h.inc"
} // namespace attn

using namespace mlir;
using namespace mlir::attn;

//===----------------------------------------------------------------------===//
// What is live
//===----------------------------------------------------------------------===//

/// For each component, the number of its operand among the values; that of the
/// next one for a unit.
static unsigned valueNumber(MonoidOp monoid, unsigned component) {
  unsigned number = 0;
  for (unsigned i = 0; i < component; ++i)
    number += monoid.getComponent(i) == Component::value;
  return number;
}

/// Adds what the states of a general monoid need of each other: `combine` is
/// on whole states, and `lift` may read the key's value of any component.
static void closeOverStates(MonoidOp monoid, llvm::BitVector &live) {
  unsigned numStats = monoid.getNumStats();
  unsigned stateSize = numStats + monoid.getNumComponents();
  unsigned firstValue = monoid.getNumScores();
  Region &combine = monoid.getCombine(), &lift = monoid.getLift();
  auto reads = [&](unsigned entry, unsigned component) {
    Value next = getYielded(combine)[entry], key = getYielded(lift)[entry];
    unsigned number = numStats + component;
    bool isValue = monoid.getComponent(component) == Component::value;
    return dependsOn(next, combine.getArgument(number)) ||
           dependsOn(next, combine.getArgument(stateSize + number)) ||
           (isValue &&
            dependsOn(key, lift.getArgument(firstValue +
                                            valueNumber(monoid, component))));
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (unsigned i = 0; i < live.size(); ++i) {
      if (live[i])
        continue;
      for (unsigned entry = 0; entry < stateSize && !live[i]; ++entry)
        if (entry < numStats || live[entry - numStats])
          live[i] = reads(entry, i);
      changed |= live[i];
    }
  }
}

/// Adds the units that `shift` makes live ones of.
static void closeOverShift(MonoidOp monoid, llvm::BitVector &live) {
  Region &shift = monoid.getShift();
  auto reads = [&](unsigned component, unsigned other) {
    return monoid.isShifted(component) &&
           monoid.getComponent(other) == Component::unit &&
           dependsOn(getYielded(shift)[monoid.getUnit(component)],
                     shift.getArgument(2 * monoid.getNumStats() +
                                       monoid.getUnit(other)));
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (unsigned i = 0; i < live.size(); ++i)
      for (unsigned other = 0; other < live.size(); ++other)
        if (live[i] && !live[other] && reads(i, other)) {
          live.set(other);
          changed = true;
        }
  }
}

/// The components that the results of `op` need.
static llvm::BitVector findLive(AggregateOp op, MonoidOp monoid) {
  unsigned numStats = monoid.getNumStats();
  llvm::BitVector live(monoid.getNumComponents());
  Region &finalize =
      op.getFinalize().empty() ? monoid.getFinalize() : op.getFinalize();
  ValueRange outputs = getYielded(finalize).take_front(op.getNumResults());
  for (unsigned i = 0; i < live.size(); ++i)
    live[i] = llvm::any_of(outputs, [&](Value output) {
      return dependsOn(output, finalize.getArgument(numStats + i));
    });
  // A monoid has one component or more; units cost the least.
  if (live.none()) {
    unsigned unit = 0;
    while (unit < live.size() && monoid.getComponent(unit) != Component::unit)
      ++unit;
    if (unit < live.size())
      live.set(unit);
    else if (monoid.isGeneral())
      live.set(0);
  }
  if (monoid.isGeneral())
    closeOverStates(monoid, live);
  if (monoid.hasShift())
    closeOverShift(monoid, live);
  return live;
}

/// Whether component `i` stays. Where none is live the first does, as a unit:
/// the sum of its weights takes the place of one over values.
static bool stays(const llvm::BitVector &live, unsigned i) {
  return live[i] || (live.none() && i == 0);
}

//===----------------------------------------------------------------------===//
// What is left
//===----------------------------------------------------------------------===//

/// Drops entries of what `region` yields, what only they needed, and then
/// arguments, which nothing may read any more.
static void shrink(Region &region, const llvm::BitVector &yields,
                   const llvm::BitVector &arguments) {
  if (region.empty())
    return;
  Block &block = region.front();
  block.getTerminator()->eraseOperands(yields);
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isOpTriviallyDead(&op))
      op.erase();
  block.eraseArguments(arguments);
}

/// Drops the outputs that are computed from dead components.
static void shrinkFinalize(MonoidOp monoid, const llvm::BitVector &live) {
  Region &finalize = monoid.getFinalize();
  if (finalize.empty())
    return;
  unsigned numStats = monoid.getNumStats();
  SmallVector<Attribute> names;
  llvm::BitVector outputs(monoid.getOutputs().size()),
      arguments(finalize.getNumArguments());
  for (unsigned i = 0; i < live.size(); ++i)
    arguments[numStats + i] = !stays(live, i);
  for (auto [i, output] : llvm::enumerate(getYielded(finalize))) {
    for (unsigned dead = 0; dead < live.size(); ++dead)
      if (!live[dead] &&
          dependsOn(output, finalize.getArgument(numStats + dead)))
        outputs.set(i);
    if (!outputs[i])
      names.push_back(monoid.getOutputs()[i]);
  }
  if (names.empty())
    finalize.front().erase();
  else
    shrink(finalize, outputs, arguments);
  monoid.setOutputsAttr(ArrayAttr::get(monoid.getContext(), names));
}

/// Leaves the factors of the live components; one, where they agree.
static void shrinkFactors(MonoidOp monoid, const llvm::BitVector &live) {
  if (!monoid.hasFactors())
    return;
  Region &rescale = monoid.getRescale();
  llvm::BitVector dead(live.size());
  SmallVector<Value> kept;
  for (unsigned i = 0; i < live.size(); ++i) {
    dead[i] = !stays(live, i);
    if (!dead[i])
      kept.push_back(getYielded(rescale)[i]);
  }
  if (llvm::all_equal(kept)) {
    dead.set();
    dead.reset(llvm::find(getYielded(rescale), kept.front()) -
               getYielded(rescale).begin());
  }
  shrink(rescale, dead, llvm::BitVector(rescale.getNumArguments()));
}

/// Leaves the shifts of the live components; none, where these stay as they
/// are.
static void shrinkShift(MonoidOp monoid, const llvm::BitVector &live) {
  if (!monoid.hasShift())
    return;
  Region &shift = monoid.getShift();
  llvm::BitVector units(monoid.getNumUnits()),
      arguments(shift.getNumArguments());
  bool moves = false;
  for (unsigned i = 0; i < live.size(); ++i) {
    moves |= live[i] && monoid.isShifted(i);
    if (live[i] || monoid.getComponent(i) != Component::unit)
      continue;
    units.set(monoid.getUnit(i));
    arguments.set(2 * monoid.getNumStats() + monoid.getUnit(i));
  }
  if (moves)
    shrink(shift, units, arguments);
  else
    shift.front().erase();
}

/// Leaves the live components of `monoid`.
static void shrink(MonoidOp monoid, const llvm::BitVector &live) {
  unsigned numStats = monoid.getNumStats();
  unsigned stateSize = numStats + live.size();
  auto none = [](Region &region) {
    return llvm::BitVector(region.empty() ? 0 : region.getNumArguments());
  };
  Region &lift = monoid.getLift(), &combine = monoid.getCombine(),
         &identity = monoid.getIdentity();
  llvm::BitVector state(stateSize), values = none(lift), states = none(combine);
  SmallVector<Attribute> components;
  unsigned firstValue = monoid.getNumScores();
  for (unsigned i = 0; i < live.size(); ++i) {
    if (stays(live, i)) {
      Component component = live[i] ? monoid.getComponent(i) : Component::unit;
      components.push_back(ComponentAttr::get(monoid.getContext(), component));
      continue;
    }
    state.set(numStats + i);
    if (!monoid.isGeneral())
      continue;
    states.set(numStats + i);
    states.set(stateSize + numStats + i);
    if (monoid.getComponent(i) == Component::value)
      values.set(firstValue + valueNumber(monoid, i));
  }
  shrinkFactors(monoid, live);
  shrinkShift(monoid, live);
  // Only general monoids identify and combine components by a region.
  if (monoid.isGeneral()) {
    shrink(identity, state, none(identity));
    shrink(combine, state, states);
  }
  shrink(lift, state, values);
  shrinkFinalize(monoid, live);
  monoid.setComponentsAttr(ArrayAttr::get(monoid.getContext(), components));
}

/// Makes `op` a reduction in `lean`, which has the live components of `monoid`.
static void rewrite(AggregateOp op, MonoidOp monoid, MonoidOp lean,
                    const llvm::BitVector &live) {
  unsigned numStats = monoid.getNumStats();
  llvm::BitVector state(numStats + live.size());
  for (unsigned i = live.size(); i-- > 0;) {
    if (live[i])
      continue;
    state[numStats + i] = !stays(live, i);
    if (monoid.getComponent(i) == Component::value)
      op.getValuesMutable().erase(valueNumber(monoid, i));
  }
  op.setMonoidAttr(FlatSymbolRefAttr::get(lean.getSymNameAttr()));
  if (Region &init = op.getInit(); !init.empty())
    shrink(init, state, llvm::BitVector(init.getNumArguments()));
  if (Region &finalize = op.getFinalize(); !finalize.empty()) {
    llvm::BitVector arguments = state;
    arguments.resize(finalize.getNumArguments());
    shrink(finalize, llvm::BitVector(op.getNumResults()), arguments);
  }
}

namespace {
struct DropDeadComponentsPass
    : ::attn::impl::AttnDropDeadComponentsPassBase<DropDeadComponentsPass> {
  using AttnDropDeadComponentsPassBase::AttnDropDeadComponentsPassBase;

  void runOnOperation() final {
    // By the monoid and its live components.
    llvm::MapVector<std::pair<MonoidOp, llvm::BitVector>, MonoidOp> leanOnes;
    SymbolTableCollection tables;
    getOperation().walk([&](AggregateOp op) {
      MonoidOp monoid = lookupMonoid(op, op.getMonoidAttr());
      if (!monoid)
        return;
      llvm::BitVector live = findLive(op, monoid);
      if (live.all())
        return;
      MonoidOp &lean = leanOnes[{monoid, live}];
      if (!lean) {
        lean = monoid.clone();
        shrink(lean, live);
        tables.getSymbolTable(monoid->getParentOp())
            .insert(lean, std::next(monoid->getIterator()));
        SymbolTable::setSymbolVisibility(lean,
                                         SymbolTable::Visibility::Private);
      }
      numDropped += live.size() - live.count();
      if (explain)
        op.emitRemark("results need ")
            << live.count() << " of the " << live.size() << " components of @"
            << monoid.getSymName() << ", the others are gone";
      rewrite(op, monoid, lean, live);
    });
    if (leanOnes.empty())
      return markAllAnalysesPreserved();
    // Those that are this module's own go with their last user.
    eraseUnused(llvm::map_to_vector(
                    leanOnes, [](auto &entry) { return entry.first.first; }),
                tables);
  }
};
} // namespace
