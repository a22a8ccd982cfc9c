//===- DelaySums.cpp - Sums in memory beside the next step ----------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A product of weights that warpgroups put together (dQ) has to wait for all of
// them. Where steps follow each other it is put off to the next step, whose
// exponentials the others' weights arrive beside:
//
//   issue S;  issue dP;  wait for S;  P;  issue dV += P dO;
//   wait for all of dS';  issue dQ' = dS' K;  wait for dP;  dS;
//   issue dK += dS Q;  wait for dV, dQ';  exchange dS;  add dQ' to memory;
//   wait for dK
//
// No product is in flight from one step to the next; what a loop carries is
// where in memory the product belongs. The step ahead of the loops has none to
// add, and behind them that of the last step is left. A step gives its weights
// away when its own product of those before is over: two slots are enough. Long
// steps store them before that, behind dS, and give them away there.
//
//===----------------------------------------------------------------------===//

#include "OrderStep.h"
#include "PipelineSteps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace mlir::tile_gpu;

namespace {
/// What a step does with the weights that it exchanges.
struct SumStep {
  ExchangeOp exchange;
  RingWaitOp slot;
  /// Views of what is multiplied, made in the step.
  SmallVector<Operation *> views;
  MmaIssueOp issue;
  MmaWaitOp wait;
  /// What is done with the product: it is added to memory, or put into a slot
  /// of a ring for who adds it.
  SmallVector<Operation *> sums;

  Block *block() const { return exchange->getBlock(); }
  GlobalReduceOp reduce() const { return dyn_cast<GlobalReduceOp>(sums[0]); }
  /// Where in memory the product belongs, which who adds it knows by itself.
  ValueRange place() const {
    return reduce() ? ValueRange(reduce()->getOperands().drop_front(2))
                    : ValueRange();
  }
};

class Delayer {
public:
  explicit Delayer(MLIRContext *context) : rewriter(context) {}
  /// The steps of a block and of the loops in it.
  bool run(Block &block);

private:
  bool findLoops(Block &block);
  void carry(unsigned number);
  void erase(SumStep &step);
  Value before(Value counter, Location loc);
  SumStep clone(SumStep &step, Value counter, ValueRange place);

  IRRewriter rewriter;
  SumStep first;
  SmallVector<std::pair<scf::ForOp, SumStep>> loops;
  /// Which of the values that say where a product belongs loops carry.
  SmallVector<unsigned> carried;
  /// Where the last step's product belongs.
  SmallVector<Value> last;
};
} // namespace

/// Whether `user` of the product adds it, or stores it to a slot of the step's
/// number, which the step gives away.
static bool findSums(SumStep &step, Operation *user) {
  step.sums = {user};
  if (isa<GlobalReduceOp>(user))
    return true;
  step.sums = handOverOf(user);
  return !step.sums.empty() &&
         cast<RingAcquireOp>(step.sums.front()).getCounter() ==
             step.exchange.getCounter();
}

/// Whether a step's own work is beside its products: else registers are full.
/// What it makes of the first one alone is a map of its own, whose weights
/// another sum takes, where there is one.
static bool isOrdered(Block &block, ExchangeOp exchange) {
  unsigned maps = 0, sums = 0;
  for (auto map : block.getOps<MapOp>())
    maps += map->isBeforeInBlock(exchange) &&
            llvm::any_of(map.getResultTypes(), llvm::IsaPred<FragType>);
  for (auto issue : block.getOps<MmaIssueOp>()) {
    if (issue.getAcc() && issue->isBeforeInBlock(exchange))
      return true;
    sums += bool(issue.getAcc());
  }
  return sums == 1 && maps > 1;
}

static std::optional<SumStep> findStep(Block &block) {
  SumStep step;
  for (auto exchange : block.getOps<ExchangeOp>()) {
    if (step.exchange)
      return std::nullopt;
    step.exchange = exchange;
  }
  if (!step.exchange)
    return std::nullopt;
  for (Operation *user : step.exchange.getRing().getUsers())
    if (auto slot = dyn_cast<RingWaitOp>(user);
        slot && slot->getBlock() == &block &&
        slot.getCounter() == step.exchange.getCounter())
      step.slot = slot;
  for (auto issue : block.getOps<MmaIssueOp>())
    if (step.slot && slotOf(issue.getA()) == step.slot) {
      if (step.issue || issue.getAcc())
        return std::nullopt;
      step.issue = issue;
    }
  if (!isOrdered(block, step.exchange) || !step.issue ||
      !step.issue.getToken().hasOneUse())
    return std::nullopt;
  for (Value operand : {Value(step.issue.getA()), Value(step.issue.getB())})
    for (Operation *view : llvm::reverse(viewsOf(operand)))
      if (view->getBlock() == &block)
        step.views.push_back(view);
  step.wait = dyn_cast<MmaWaitOp>(*step.issue.getToken().user_begin());
  if (!step.wait || step.wait->getBlock() != &block ||
      step.wait.getTokens().size() != 1 || !step.wait->hasOneUse())
    return std::nullopt;
  Operation *user = *step.wait->user_begin();
  if (user->getBlock() != &block || !findSums(step, user))
    return std::nullopt;
  return step;
}

/// The loops behind the first step, each of which counts its steps.
bool Delayer::findLoops(Block &block) {
  for (auto loop : block.getOps<scf::ForOp>()) {
    std::optional<SumStep> step = findStep(*loop.getBody());
    if (!step)
      continue;
    auto counter = dyn_cast<BlockArgument>(step->exchange.getCounter());
    if (!counter || counter.getOwner() != loop.getBody() ||
        counter == loop.getInductionVar() ||
        loop->isBeforeInBlock(first.exchange) ||
        step->sums.size() != first.sums.size() ||
        step->place().size() != first.place().size() ||
        (step->reduce() &&
         step->reduce().getDestination() != first.reduce().getDestination()))
      return false;
    auto next = loop.getTiedLoopYieldedValue(counter)
                    ->get()
                    .getDefiningOp<arith::AddIOp>();
    if (!next || next.getLhs() != counter ||
        !matchPattern(next.getRhs(), m_One()))
      return false;
    loops.push_back({loop, *step});
  }
  unsigned exchanges = 0;
  block.walk([&](ExchangeOp) { ++exchanges; });
  return !loops.empty() && exchanges == loops.size() + 1;
}

Value Delayer::before(Value counter, Location loc) {
  Value one = arith::ConstantIntOp::create(rewriter, loc, 1, 32);
  return arith::SubIOp::create(rewriter, loc, counter, one);
}

/// The product of another step, issued and waited for.
SumStep Delayer::clone(SumStep &step, Value counter, ValueRange place) {
  SumStep made;
  IRMapping mapping;
  mapping.map(step.slot.getCounter(), counter);
  made.slot = cast<RingWaitOp>(rewriter.clone(*step.slot, mapping));
  for (Operation *view : step.views)
    rewriter.clone(*view, mapping);
  made.issue = cast<MmaIssueOp>(rewriter.clone(*step.issue, mapping));
  made.wait = cast<MmaWaitOp>(rewriter.clone(*step.wait, mapping));
  for (Operation *op : step.sums)
    made.sums.push_back(rewriter.clone(*op, mapping));
  if (made.reduce())
    made.reduce()->setOperands(2, place.size(), place);
  return made;
}

void Delayer::erase(SumStep &step) {
  for (Operation *op : llvm::reverse(step.sums))
    rewriter.eraseOp(op);
  rewriter.eraseOp(step.wait);
  rewriter.eraseOp(step.issue);
  for (Operation *view : llvm::reverse(step.views))
    if (view->use_empty())
      rewriter.eraseOp(view);
  rewriter.eraseOp(step.slot);
}

/// Whether weights are stored, and fenced, while a step's first products run;
/// that they are there is said as before. Long steps of few channels gain from
/// it, short ones lose (docs/performance/gpu-gradients.md).
static bool storesEarly(SumStep &step) {
  return !isShortStep(step.exchange.getValue().getType().getCols());
}

/// Makes a loop's step add the product of the step before.
void Delayer::carry(unsigned number) {
  auto &[loop, step] = loops[number];
  SmallVector<Value> starts, nexts;
  for (unsigned i : carried) {
    starts.push_back(last[i]);
    nexts.push_back(step.place()[i]);
  }
  auto replaced = loop.replaceWithAdditionalYields(
      rewriter, starts, /*replaceInitOperandUsesInLoop=*/false,
      [&](OpBuilder &, Location, ArrayRef<BlockArgument>) { return nexts; });
  loop = cast<scf::ForOp>(replaced->getOperation());
  SmallVector<Value> place(step.place());
  unsigned base = loop.getNumRegionIterArgs() - carried.size();
  for (auto [k, i] : llvm::enumerate(carried)) {
    place[i] = loop.getRegionIterArg(base + k);
    last[i] = loop.getResult(base + k);
  }
  // Behind the products of this step's first weights.
  Operation *behind = nullptr, *sum = step.sums.front();
  for (auto issue : step.block()->getOps<MmaIssueOp>())
    if (issue->isBeforeInBlock(step.exchange))
      behind = issue;
  rewriter.setInsertionPointAfter(behind);
  Value counter = before(step.exchange.getCounter(), step.slot.getLoc());
  SumStep made = clone(step, counter, place);
  made.wait->moveBefore(step.wait);
  if (storesEarly(step)) {
    step.exchange.setUncommitted(true);
    rewriter.setInsertionPoint(step.wait);
    RingCommitOp::create(rewriter, step.exchange.getLoc(),
                         step.exchange.getRing(), step.exchange.getCounter());
  } else {
    step.exchange->moveBefore(step.wait);
  }
  for (Operation *op : made.sums)
    op->moveBefore(sum);
  erase(step);
  countPending(loop.getBody());
}

bool Delayer::run(Block &block) {
  std::optional<SumStep> found = findStep(block);
  if (!found)
    return false;
  first = *found;
  if (!findLoops(block))
    return false;
  last = llvm::to_vector(first.place());
  for (unsigned i = 0, e = last.size(); i < e; ++i)
    if (llvm::any_of(loops, [&](auto &pair) {
          return pair.second.place()[i] != last[i];
        }))
      carried.push_back(i);
  // What is left behind the loops is made like the last one's.
  scf::ForOp loop = loops.back().first;
  unsigned counter =
      cast<BlockArgument>(loops.back().second.exchange.getCounter())
          .getArgNumber() -
      loop.getNumInductionVars();
  for (unsigned i = 0, e = loops.size() - 1; i < e; ++i)
    carry(i);
  SumStep &step = loops.back().second;
  rewriter.setInsertionPointAfter(loop);
  SumStep end = clone(step, step.exchange.getCounter(), step.place());
  carry(loops.size() - 1);
  loop = loops.back().first;
  rewriter.setInsertionPoint(end.slot);
  Value left = before(loop.getResult(counter), end.slot.getLoc());
  end.slot.getCounterMutable().assign(left);
  if (end.reduce())
    end.reduce()->setOperands(2, last.size(), last);
  for (Operation *op : end.sums) {
    if (auto acquire = dyn_cast<RingAcquireOp>(op))
      acquire.getCounterMutable().assign(left);
    else if (auto commit = dyn_cast<RingCommitOp>(op))
      commit.getCounterMutable().assign(left);
  }
  erase(first);
  countPending(&block);
  return true;
}

unsigned tile_gpu::delaySums(KernelOp kernel) {
  SmallVector<Block *> blocks;
  kernel.walk([&](Block *block) {
    if (!isa_and_nonnull<scf::ForOp>(block->getParentOp()) ||
        !block->getOps<scf::ForOp>().empty())
      blocks.push_back(block);
  });
  return llvm::count_if(blocks, [&](Block *block) {
    return Delayer(kernel.getContext()).run(*block);
  });
}
