//===- ExpandPipeline.cpp - Turns of several steps ------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A reduction over keys is a chain of steps: one that stands ahead of the
// loops, the bodies of loops that take over from one another, and perhaps one
// in a conditional behind them. Stage 1 of each runs in the step after it:
//
//   prologue       stage 0 of the step ahead of the loops
//   steady state   stage 0 of each turn, and stage 1 of the step before, by
//                  order
//   tail           stage 1 of the last step
//
// A loop carries what its stage 1 reads (its inputs) to the next turn. As stage
// 1 is the same operations in all these steps, one loop's hands its inputs on
// to the next one's. The step of a conditional, on half of the keys, may have
// another stage 1: it is both the step after the last turn, and one with a tail
// of its own.
//===----------------------------------------------------------------------===//

#include "OrderStep.h"
#include "attn/Dialect/TileGPU/Transforms/Passes.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/RegionUtils.h"

#define DEBUG_TYPE "tile-gpu-expand-pipeline"

namespace attn {
#define GEN_PASS_DEF_TILEGPUEXPANDPIPELINEPASS
#include "attn/Dialect/TileGPU/Transforms/Passes.h.inc"
} // namespace attn

using namespace mlir;
using namespace mlir::tile_gpu;

namespace {

/// A step, with its operations by order.
struct Step {
  Block *block = nullptr;
  SmallVector<Operation *> ops, later;
};

struct Chain {
  Step first;
  SmallVector<std::pair<scf::ForOp, Step>, 4> loops;
  scf::IfOp tail;
  Step tailStep;
};

class Expander {
public:
  explicit Expander(MLIRContext *context) : rewriter(context) {}
  LogicalResult run(Chain &chain);

private:
  LogicalResult check(Chain &chain);
  void chooseSlots(Chain &chain);
  scf::ForOp expandLoop(scf::ForOp loop, Step &step);
  void expandFirst(Step &step, Operation *loop);
  void expandEnd(Chain &chain);
  void expandTail(Chain &chain, IRMapping &mapping, ArrayRef<Operation *> rest);
  SmallVector<Operation *> cloned(ArrayRef<Operation *> ops,
                                  IRMapping &mapping) {
    return llvm::map_to_vector(
        ops, [&](Operation *op) { return rewriter.clone(*op, mapping); });
  }

  IRRewriter rewriter;
  /// Which inputs of stage 1 differ between the steps, by number.
  SmallVector<unsigned> slots;
  /// What these are in the step at hand: those of the step before it.
  SmallVector<Value> values;
  /// The results of the last loop that its stage 1 gives, and what they are in
  /// its body.
  SmallVector<std::pair<OpResult, Value>> sums;
};

} // namespace

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

/// The step that is marked in a block, up to `end`.
static Step stepOf(Block *block, Operation *end = nullptr) {
  Step step;
  step.block = block;
  for (Operation &op : *block) {
    if (&op == end)
      break;
    if (stageOf(&op))
      step.ops.push_back(&op);
  }
  llvm::sort(step.ops, [](Operation *a, Operation *b) {
    return stageOf(a).getOrder() < stageOf(b).getOrder();
  });
  for (Operation *op : step.ops)
    if (stageOf(op).getStage() == 1)
      step.later.push_back(op);
  return step;
}

/// What operations read that they do not make, in the order in which they read
/// it: equal operations read as many values.
static SmallVector<Value> inputsOf(ArrayRef<Operation *> ops) {
  llvm::SmallDenseSet<Operation *> own(ops.begin(), ops.end());
  SmallVector<Value> inputs;
  auto add = [&](Value value) {
    if (!own.contains(value.getDefiningOp()))
      inputs.push_back(value);
  };
  for (Operation *op : ops) {
    llvm::for_each(op->getOperands(), add);
    SetVector<Value> captured;
    getUsedValuesDefinedAbove(op->getRegions(), captured);
    llvm::for_each(captured, add);
  }
  return inputs;
}

/// Whether two steps put the same operations off, on other values.
static bool areAlike(ArrayRef<Operation *> a, ArrayRef<Operation *> b) {
  if (a.size() != b.size())
    return false;
  DenseMap<Value, Value> known;
  auto agree = [&](Value from, Value to) {
    Value mapped = known.lookup(from);
    return success(!mapped || mapped == to);
  };
  auto mark = [&](Value from, Value to) { known[from] = to; };
  return llvm::all_of(llvm::zip(a, b), [&](auto pair) {
    return OperationEquivalence::isEquivalentTo(
        std::get<0>(pair), std::get<1>(pair), agree, mark,
        OperationEquivalence::IgnoreLocations |
            OperationEquivalence::IgnoreDiscardableAttrs);
  });
}

/// The positions at which a loop yields what its stage 1 makes.
static SmallVector<unsigned> positionsOf(scf::ForOp loop, const Step &step) {
  SmallVector<unsigned> positions;
  for (auto [number, value] : llvm::enumerate(loop.getYieldedValues()))
    if (llvm::is_contained(step.later, value.getDefiningOp()))
      positions.push_back(number);
  return positions;
}

/// Moves the operations of a step ahead of `end`, as listed. What has no stage
/// stays ahead of them or, made of their results, comes where it is read.
static void arrange(ArrayRef<Operation *> ops, Block *block, Operation *end) {
  llvm::SmallDenseSet<Operation *> listed(ops.begin(), ops.end());
  llvm::SmallSetVector<Operation *, 8> follow;
  auto operandsOf = [&](Operation *op) {
    SmallVector<Operation *> defs;
    op->walk([&](Operation *inner) {
      for (Value operand : inner->getOperands())
        if (Operation *def = operand.getDefiningOp();
            def && def->getBlock() == block)
          defs.push_back(def);
    });
    return defs;
  };
  for (Operation &op : llvm::make_range(block->begin(), end->getIterator()))
    if (!listed.contains(&op) &&
        llvm::any_of(operandsOf(&op), [&](Operation *def) {
          return listed.contains(def) || follow.contains(def);
        }))
      follow.insert(&op);
  std::function<void(Operation *)> place = [&](Operation *op) {
    for (Operation *def : operandsOf(op))
      if (follow.remove(def))
        place(def);
    op->moveBefore(end);
  };
  llvm::for_each(ops, place);
  while (!follow.empty())
    place(follow.pop_back_val());
}

static void unmark(ArrayRef<Operation *> ops) {
  for (Operation *op : ops)
    op->removeDiscardableAttr(TileGPUDialect::stageName);
}

//===----------------------------------------------------------------------===//
// What can be expanded
//===----------------------------------------------------------------------===//

LogicalResult Expander::check(Chain &chain) {
  for (auto [number, pair] : llvm::enumerate(chain.loops)) {
    auto [loop, step] = pair;
    if (!areAlike(chain.first.later, step.later))
      return loop.emitOpError("expected stage 1 of its body to be that of the "
                              "step ahead of the loops, on other values");
    for (Operation &op : loop.getBody()->without_terminator())
      if (!stageOf(&op) && !isMemoryEffectFree(&op))
        return op.emitOpError("expected tile_gpu.stage, as other operations of "
                              "this step have it");
    // What it gives is added to by stage 1 of the next step, which reads it or
    // what stage 0 makes of it.
    auto inputs = inputsOf(step.later);
    for (unsigned position : positionsOf(loop, step)) {
      Type type = loop.getResult(position).getType();
      if (!llvm::any_of(inputs, [&](Value v) { return v.getType() == type; }))
        return loop.emitOpError("carries a ")
               << type
               << " that stage 1 makes; expected it to read one as well";
      if (number + 1 == chain.loops.size())
        continue;
      scf::ForOp next = chain.loops[number + 1].first;
      for (OpOperand &use : loop.getResult(position).getUses())
        if (use.getOwner() != next)
          return use.getOwner()->emitOpError(
              "reads what is not yet there after a loop; expected the next "
              "loop alone to take what stage 1 makes");
    }
  }
  scf::ForOp loop = chain.loops.front().first;
  for (Operation *op : chain.first.later)
    for (Operation *user : op->getUsers())
      if (user != loop && !llvm::is_contained(chain.first.later, user))
        return user->emitOpError("reads what stage 1 of the step ahead of a "
                                 "loop makes; expected the loop alone to");
  return success();
}

/// Inputs that are one value for all steps need not be carried.
void Expander::chooseSlots(Chain &chain) {
  values = inputsOf(chain.first.later);
  SmallVector<SmallVector<Value>> all = {values};
  for (auto &[loop, step] : chain.loops)
    all.push_back(inputsOf(step.later));
  auto areEqual = [&](unsigned a, unsigned b) {
    return llvm::all_of(all, [&](auto &own) { return own[a] == own[b]; });
  };
  for (unsigned i = 0, e = values.size(); i < e; ++i)
    if (llvm::any_of(all, [&](auto &own) { return own[i] != values[i]; }) &&
        llvm::none_of(slots, [&](unsigned j) { return areEqual(i, j); }))
      slots.push_back(i);
  values = llvm::map_to_vector(slots, [&](unsigned i) { return all[0][i]; });
}

//===----------------------------------------------------------------------===//
// Prologue and steady state
//===----------------------------------------------------------------------===//

void Expander::expandFirst(Step &step, Operation *loop) {
  for (Operation *op : llvm::reverse(step.later))
    rewriter.eraseOp(op);
  llvm::erase_if(step.ops, [&](Operation *op) {
    return llvm::is_contained(step.later, op);
  });
  arrange(step.ops, step.block, loop);
  countPending(step.block);
  unmark(step.ops);
}

/// Where a loop carries what stage 1 reads: accumulators in their places;
/// then weights, numbers of slots, and factors.
static SmallVector<unsigned> rank(ValueRange values) {
  auto kind = [&](unsigned i) {
    Type type = values[i].getType();
    return isa<FragType>(type) ? 0 : isa<VecType>(type) ? 2 : 1;
  };
  auto order = llvm::to_vector(llvm::seq<unsigned>(0, values.size()));
  llvm::sort(order, [&](unsigned a, unsigned b) {
    return std::pair(kind(a), a) < std::pair(kind(b), b);
  });
  return order;
}

scf::ForOp Expander::expandLoop(scf::ForOp loop, Step &step) {
  SmallVector<Value> all = inputsOf(step.later);
  SmallVector<Value> inputs =
      llvm::map_to_vector(slots, [&](unsigned i) { return all[i]; });
  Operation *yield = loop.getBody()->getTerminator();
  SmallVector<unsigned> positions = positionsOf(loop, step);
  SmallVector<Value> made;
  for (unsigned position : positions)
    made.push_back(yield->getOperand(position));

  // Sums that stage 1 reads stay; the places of others, which stage 0 works on
  // as soon as they are made, go to what it makes of them.
  SmallVector<int> place(slots.size(), -1);
  SmallVector<unsigned> empty;
  for (unsigned position : positions) {
    auto *own = llvm::find(inputs, loop.getRegionIterArg(position));
    if (own != inputs.end())
      place[own - inputs.begin()] = position;
    else
      empty.push_back(position);
  }
  for (unsigned position : empty)
    for (unsigned i : rank(inputs))
      if (place[i] < 0 &&
          inputs[i].getType() == loop.getRegionIterArg(position).getType()) {
        place[i] = position;
        yield->setOperand(position, inputs[i]);
        break;
      }
  for (auto [position, value] : llvm::zip(positions, made))
    rewriter.replaceUsesWithIf(
        loop.getRegionIterArg(position), value, [&](OpOperand &use) {
          Operation *user = step.block->findAncestorOpInBlock(*use.getOwner());
          return !llvm::is_contained(step.later, user);
        });

  SmallVector<Value> starts, nexts;
  for (unsigned i : rank(inputs)) {
    if (place[i] >= 0) {
      loop.getInitArgsMutable()[place[i]].set(values[i]);
      continue;
    }
    place[i] = loop.getNumRegionIterArgs() + starts.size();
    starts.push_back(values[i]);
    nexts.push_back(inputs[i]);
  }
  auto replaced = loop.replaceWithAdditionalYields(
      rewriter, starts, /*replaceInitOperandUsesInLoop=*/false,
      [&](OpBuilder &, Location, ArrayRef<BlockArgument>) { return nexts; });
  loop = cast<scf::ForOp>(replaced->getOperation());
  step.block = loop.getBody();
  all = inputsOf(step.later); // Some are arguments of the new body.
  for (unsigned i = 0, e = slots.size(); i < e; ++i) {
    Value input = all[slots[i]];
    Value carried = loop.getRegionIterArg(place[i]);
    for (Operation *op : step.later) {
      op->replaceUsesOfWith(input, carried);
      for (Region &region : op->getRegions())
        replaceAllUsesInRegionWith(input, carried, region);
    }
    values[i] = loop.getResult(place[i]);
  }
  sums.clear();
  for (auto [position, value] : llvm::zip(positions, made))
    sums.push_back({cast<OpResult>(loop.getResult(position)), value});
  arrange(step.ops, step.block, step.block->getTerminator());
  countPending(step.block);
  unmark(step.ops);
  return loop;
}

//===----------------------------------------------------------------------===//
// Tail
//===----------------------------------------------------------------------===//

/// Stage 1 of the last step, which has nothing left to run beside. What it
/// computes without a wait comes at once, slots that the loop has done with go
/// back before it waits.
void Expander::expandEnd(Chain &chain) {
  auto &[loop, step] = chain.loops.back();
  SmallVector<std::pair<OpOperand *, Value>> readers;
  for (auto [result, value] : sums)
    for (OpOperand &use : result.getUses())
      readers.push_back({&use, value});

  SmallVector<Operation *> atOnce, rest;
  for (Operation *op : step.later) {
    bool waits = llvm::any_of(inputsOf(op), [&](Value value) {
      return llvm::is_contained(rest, value.getDefiningOp());
    });
    (waits || !isMemoryEffectFree(op) ? rest : atOnce).push_back(op);
  }
  IRMapping mapping;
  mapping.map(loop.getRegionIterArgs(), loop.getResults());
  rewriter.setInsertionPointAfter(loop);
  atOnce = cloned(atOnce, mapping);
  IRMapping otherwise = mapping;
  if (chain.tail) {
    expandTail(chain, mapping, rest);
    rewriter.setInsertionPoint(chain.tail.elseYield());
  } else {
    Operation *next = loop->getNextNode();
    while (isa<RingReleaseOp>(next) || llvm::is_contained(atOnce, next))
      next = next->getNextNode();
    rewriter.setInsertionPoint(next);
  }
  cloned(rest, otherwise);
  for (auto [reader, value] : readers) {
    bool inTail = chain.tail && chain.tail.getThenRegion().isAncestor(
                                    reader->getOwner()->getParentRegion());
    reader->set((inTail ? mapping : otherwise).lookup(value));
  }
}

/// Its own step runs beside what the last loop has left: that is issued where
/// its own stage 1 starts, and waited for where that waits. Its own follows.
void Expander::expandTail(Chain &chain, IRMapping &mapping,
                          ArrayRef<Operation *> rest) {
  Step &step = chain.tailStep;
  Operation *end = chain.tail.thenYield();
  auto isWait = [](Operation *op) { return isa<MmaWaitOp>(op); };
  const auto *split = llvm::find_if(rest, isWait);
  rewriter.setInsertionPoint(end);
  auto issues = cloned(ArrayRef(rest.begin(), split), mapping);
  auto waits = cloned(ArrayRef(split, rest.end()), mapping);
  auto *ownWait = llvm::find_if(step.later, isWait);
  SmallVector<Operation *> ops;
  for (Operation *op : step.ops) {
    if (op == step.later.front())
      llvm::append_range(ops, issues);
    if (ownWait != step.later.end() && op == *ownWait)
      llvm::append_range(ops, waits);
    if (!llvm::is_contained(step.later, op))
      ops.push_back(op);
  }
  for (Operation *op : step.later) {
    // A slot that its own stage 0 has waited for already.
    auto *known = llvm::find_if(step.ops, [&](Operation *other) {
      return isa<RingWaitOp>(op) && isa<RingWaitOp>(other) && other != op &&
             other->getOperands() == op->getOperands();
    });
    if (known == step.ops.end()) {
      ops.push_back(op);
      continue;
    }
    rewriter.replaceOp(op, (*known)->getResults());
    step.ops.erase(llvm::find(step.ops, op));
  }
  arrange(ops, step.block, end);
  countPending(step.block);
  unmark(ops);
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

LogicalResult Expander::run(Chain &chain) {
  if (failed(check(chain)))
    return failure();
  chooseSlots(chain);
  for (auto &[loop, step] : chain.loops)
    loop = expandLoop(loop, step);
  expandFirst(chain.first, chain.loops.front().first);
  expandEnd(chain);
  for (auto &[loop, step] : chain.loops)
    unmark(step.ops);
  return success();
}

/// Follows the sums of `loop`, in whose block stands the first step.
static Chain findChain(scf::ForOp loop) {
  Chain chain;
  chain.first = stepOf(loop->getBlock(), loop);
  while (loop) {
    Step step = stepOf(loop.getBody());
    SmallVector<unsigned> positions = positionsOf(loop, step);
    chain.loops.push_back({loop, step});
    scf::ForOp next;
    for (unsigned position : positions)
      for (Operation *user : loop.getResult(position).getUsers()) {
        if (auto branch = dyn_cast<scf::IfOp>(user->getParentOp());
            branch && branch->getBlock() == loop->getBlock() &&
            branch.elseBlock()) {
          chain.tailStep = stepOf(branch.thenBlock());
          if (!chain.tailStep.later.empty())
            chain.tail = branch;
        }
        if (auto other = dyn_cast<scf::ForOp>(user);
            other && other->getBlock() == loop->getBlock() &&
            !stepOf(other.getBody()).later.empty())
          next = other;
      }
    loop = next;
  }
  return chain;
}

namespace {
struct ExpandPipelinePass
    : ::attn::impl::TileGpuExpandPipelinePassBase<ExpandPipelinePass> {
  void runOnOperation() final {
    SmallVector<scf::ForOp> loops;
    getOperation().walk<WalkOrder::PreOrder>([&](scf::ForOp loop) {
      if (!stepOf(loop.getBody()).later.empty())
        loops.push_back(loop);
    });
    DenseSet<Operation *> done;
    for (scf::ForOp loop : loops) {
      if (done.contains(loop))
        continue;
      Chain chain = findChain(loop);
      for (auto &[member, step] : chain.loops)
        done.insert(member);
      numExpanded += chain.loops.size();
      if (failed(Expander(&getContext()).run(chain)))
        return signalPassFailure();
    }
  }
};
} // namespace
