//===- PipelineSteps.cpp - The steps of a reduction over keys -------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PipelineSteps.h"
#include "attn/Analysis/OnChip.h"
#include "attn/Analysis/StepRules.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Transforms/RegionUtils.h"

using namespace mlir;
using namespace mlir::tile_gpu;

namespace {
/// Finds a chain of steps, or says why there is none.
class Finder {
public:
  explicit Finder(scf::ForOp loop) : start(loop) {}
  std::optional<Chain> find();
  /// Why not. Empty for a loop without products, and for one whose products
  /// are put off already.
  std::string reason;

private:
  bool miss(const Twine &why) {
    reason = why.str();
    return false;
  }
  bool findEarly(Step &step);
  bool findStep(Step &step, function_ref<bool(OpOperand &)> isLate);
  bool addLate(Step &step, MmaIssueOp issue, MmaWaitOp wait);
  bool pays(Step &step);
  bool findFirst(Chain &chain);
  bool followSums(Chain &chain);
  bool findTail(Chain &chain, ArrayRef<Value> sums);
  bool isDelayed(Chain &chain, unsigned product);

  scf::ForOp start;
};
} // namespace

//===----------------------------------------------------------------------===//
// Finding chains of steps
//===----------------------------------------------------------------------===//

SmallVector<Operation *, 2> tile_gpu::viewsOf(Value tile) {
  SmallVector<Operation *, 2> views;
  while (Operation *def = tile.getDefiningOp()) {
    if (!isa<SmemTransposeOp, SmemSliceOp>(def))
      break;
    views.push_back(def);
    tile = def->getOperand(0);
  }
  return views;
}

Value tile_gpu::viewed(Value tile) {
  auto views = viewsOf(tile);
  return views.empty() ? tile : views.back()->getOperand(0);
}

RingWaitOp tile_gpu::slotOf(Value tile) {
  return viewed(tile).getDefiningOp<RingWaitOp>();
}

RingReleaseOp tile_gpu::releaseOf(RingWaitOp wait, Block &block) {
  for (auto release : block.getOps<RingReleaseOp>())
    if (release->getOperands().take_front(2) == wait->getOperands())
      return release;
  return {};
}

static MmaWaitOp onlyWait(MmaIssueOp issue) {
  if (!issue.getToken().hasOneUse())
    return {};
  auto wait = dyn_cast<MmaWaitOp>(*issue.getToken().user_begin());
  if (!wait || wait.getTokens().size() != 1 || wait.getPending() != 0 ||
      wait->getBlock() != issue->getBlock())
    return {};
  return wait;
}

bool Finder::addLate(Step &step, MmaIssueOp issue, MmaWaitOp wait) {
  LateProduct product{issue, wait, slotOf(issue.getB()), {}, {}, {}};
  if (!product.slot || product.slot->getBlock() != step.block)
    return miss("the right operand of a product is no slot that its step "
                "waits for");
  product.release = releaseOf(product.slot, *step.block);
  if (!product.release)
    return miss("its step does not give back the slot of a product");
  if (product.slot.getRing().getType().getStages() < 2)
    return miss("a ring of one slot cannot hold the tiles of two steps");
  product.pack = issue.getA().getDefiningOp();
  if (!isa<FragType>(issue.getA().getType()) || !product.pack ||
      product.pack->getBlock() != step.block ||
      !llvm::all_of(issue.getA().getUses(), [](OpOperand &use) {
        return isa<MmaIssueOp>(use.getOwner()) && use.getOperandNumber() == 0;
      }))
    return miss("the left operand of a product is no fragment of its own");
  auto scale = issue.getAcc() ? issue.getAcc().getDefiningOp<MapOp>() : MapOp();
  if (scale && scale->getBlock() == step.block && scale->getNumResults() == 1 &&
      scale->hasOneUse())
    product.scale = scale;
  step.late.push_back(product);
  return true;
}

/// Early products in the branches of a conditional ahead of the loops, each of
/// which is a form of the same scores.
bool Finder::findEarly(Step &step) {
  for (Operation &op :
       llvm::make_range(step.block->begin(), step.end->getIterator())) {
    if (isa<LoopLikeOpInterface>(op))
      break;
    auto branch = dyn_cast<scf::IfOp>(op);
    if (!branch)
      continue;
    size_t before = step.early.size();
    bool isKnown = !step.forms;
    branch->walk([&](Operation *inner) {
      isKnown &= !isa<RingWaitOp, RingReleaseOp, scf::ForOp>(inner);
      auto issue = dyn_cast<MmaIssueOp>(inner);
      if (!issue)
        return;
      MmaWaitOp wait = onlyWait(issue);
      isKnown &=
          wait && !issue.getAcc() && isa<SmemType>(issue.getA().getType());
      step.early.push_back(issue);
      step.earlyWaits.push_back(wait);
    });
    if (step.early.size() == before)
      continue;
    if (!isKnown)
      return miss("a conditional ahead of the loop holds more than one form "
                  "of the first products");
    step.forms = branch;
  }
  return true;
}

bool Finder::findStep(Step &step, function_ref<bool(OpOperand &)> isLate) {
  if (step.kind == Kind::First && !findEarly(step))
    return false;
  for (Operation &op :
       llvm::make_range(step.block->begin(), step.end->getIterator())) {
    auto issue = dyn_cast<MmaIssueOp>(op);
    if (!issue)
      continue;
    MmaWaitOp wait = onlyWait(issue);
    if (!wait)
      return miss("a product is not waited for by itself in its step");
    Value sum = wait.getResult(0);
    if (sum.hasOneUse() && isLate(*sum.use_begin())) {
      if (!addLate(step, issue, wait))
        return false;
      continue;
    }
    if (issue.getAcc() || !isa<SmemType>(issue.getA().getType()))
      return miss("its step reads the sum of a product that has weights");
    RingWaitOp slot = slotOf(issue.getA());
    auto ring =
        slot ? slot.getRing().getDefiningOp<RingCreateOp>() : RingCreateOp();
    if (ring && ring.getFill() == Fill::Exchange)
      return miss("a product has weights that others have a part of");
    if (step.forms)
      return miss("products stand both in a conditional and beside it");
    step.early.push_back(issue);
    step.earlyWaits.push_back(wait);
  }
  if (step.early.empty())
    return miss("its step has no product from zero, beside whose work another "
                "could run");
  if (step.late.empty())
    return miss("there is no product whose sum the next step alone reads");
  return pays(step);
}

/// Whether putting off the late products gains time (docs/performance/gpu.md,
/// "Several products put off").
bool Finder::pays(Step &step) {
  if (step.late.size() > 1 &&
      llvm::any_of(step.late, [](LateProduct &late) { return late.scale; }))
    return miss("several sums are rescaled, which takes longer than putting "
                "their products off gains");
  if (!step.forms && llvm::any_of(step.late, [&](LateProduct &late) {
        return ::attn::onchip::weighsInPlace(
            step.early.size(), bool(late.scale),
            cast<FragType>(late.wait.getResult(0).getType()).getCols());
      }))
    return miss("registers that would hold the weights of another step hold "
                "more scores");
  constexpr int64_t leastStages = 3;
  for (LateProduct &late : step.late)
    if (late.slot.getRing().getType().getStages() < leastStages &&
        llvm::any_of(step.early, [&](MmaIssueOp early) {
          return slotOf(early.getB()) == late.slot;
        }))
      return miss("a ring of two slots would get a tile that both stages read "
                  "back too late for the next copy");
  return true;
}

/// The step ahead of the loops, whose sums the first one starts from.
bool Finder::findFirst(Chain &chain) {
  Step step(Kind::First, start->getBlock(), start);
  bool someStep = llvm::any_of(start.getInitArgs(), [&](Value value) {
    auto wait = value.getDefiningOp<MmaWaitOp>();
    return wait && wait->getBlock() == step.block;
  });
  if (!someStep)
    return miss("no step stands ahead of the loop, for its first turn to run "
                "beside");
  chain.steps.push_back(step);
  return findStep(chain.steps.back(),
                  [&](OpOperand &use) { return use.getOwner() == start; });
}

/// Finds the loops that take the sums from one another, and their steps.
bool Finder::followSums(Chain &chain) {
  Step first = chain.steps.front();
  SmallVector<Value> sums;
  for (LateProduct &product : first.late)
    sums.push_back(product.wait.getResult(0));
  auto readsSums = [&]() -> scf::ForOp {
    if (!llvm::all_of(sums, [](Value sum) { return sum.hasOneUse(); }))
      return {};
    auto loop = dyn_cast<scf::ForOp>(*sums.front().user_begin());
    return loop && loop->getBlock() == first.block ? loop : scf::ForOp();
  };
  while (scf::ForOp loop = readsSums()) {
    Operation *yield = loop.getBody()->getTerminator();
    Step step(Kind::Loop, loop.getBody(), yield);
    if (!findStep(step,
                  [&](OpOperand &use) { return use.getOwner() == yield; }))
      return false;
    if (step.late.size() != sums.size())
      return miss("steps have different numbers of products with weights");
    for (auto [sum, product, initial] :
         llvm::zip(sums, step.late, first.late)) {
      OpOperand &use = *sum.use_begin();
      BlockArgument argument = use.getOwner() == loop
                                   ? loop.getTiedLoopRegionIterArg(&use)
                                   : BlockArgument();
      Value result = product.wait.getResult(0);
      if (!argument || loop.getTiedLoopYieldedValue(argument)->get() != result)
        return miss("steps add to their sums in different orders");
      Operation *reader = product.scale ? product.scale.getOperation()
                                        : product.issue.getOperation();
      if (!argument.hasOneUse() || *argument.user_begin() != reader)
        return miss("more than its product, or one map ahead of that, reads a "
                    "sum in a step");
      if (product.slot.getRing() != initial.slot.getRing() ||
          viewed(product.issue.getB()).getType() !=
              viewed(initial.issue.getB()).getType() ||
          product.pack->getName() != initial.pack->getName() ||
          product.issue.getA().getType() != initial.issue.getA().getType())
        return miss("steps multiply tiles of different rings or shapes");
      sum = loop.getResult(argument.getArgNumber() - 1);
    }
    chain.loops.push_back(loop);
    chain.steps.push_back(std::move(step));
  }
  return findTail(chain, sums);
}

/// Finds a conditional that all sums go through; false where one reads sums in
/// another way.
bool Finder::findTail(Chain &chain, ArrayRef<Value> sums) {
  Block *block = start->getBlock();
  for (Operation *user : sums.front().getUsers())
    if (auto branch = dyn_cast<scf::IfOp>(block->findAncestorOpInBlock(*user));
        branch && branch.elseBlock() && user->getBlock() == branch.elseBlock())
      chain.tail = branch;
  if (!chain.tail)
    return true;
  Operation *yield = chain.tail.thenYield(), *other = chain.tail.elseYield();
  Step step(Kind::Tail, chain.tail.thenBlock(), yield);
  if (!findStep(step, [&](OpOperand &use) { return use.getOwner() == yield; }))
    return false;
  if (step.late.size() != sums.size() ||
      other != &chain.tail.elseBlock()->front())
    return miss("a conditional behind the loops is no step of their kind");
  for (auto [sum, product] : llvm::zip(sums, step.late)) {
    Operation *reader = product.scale ? product.scale.getOperation()
                                      : product.issue.getOperation();
    auto yielded = llvm::find(other->getOperands(), sum);
    if (yielded == other->operand_end() ||
        yield->getOperand(yielded.getIndex()) != product.wait.getResult(0) ||
        !llvm::all_of(sum.getUsers(), [&](Operation *user) {
          return user == reader || user == other;
        }))
      return miss("a conditional behind the loops reads sums in another way");
  }
  chain.steps.push_back(std::move(step));
  return true;
}

/// The one fragment among the inputs of a map whose others are vectors.
static bool hasOneFragment(MapOp map) {
  return llvm::count_if(map.getInputs().getTypes(),
                        [](Type type) { return isa<FragType>(type); }) == 1;
}

static bool scaleAlike(MapOp a, MapOp b) {
  return a.getInputs().getTypes() == b.getInputs().getTypes() &&
         a->getResultTypes() == b->getResultTypes() &&
         OperationEquivalence::isRegionEquivalentTo(
             &a.getBody(), &b.getBody(), OperationEquivalence::IgnoreLocations);
}

/// Whether a sum that is scaled in stage 1 is so ahead of the early products,
/// and not between these and its own. ptxas then scales while the early
/// products run, which FlashAttention-3 and 4 come to as well. Measured
/// (docs/performance/gpu.md, "Sums scaled under early products"): it pays where
/// early products take longer than those of 128 x 128 keys and channels. Steps
/// ahead of loops may have half of these keys; the loop's count. Beside
/// elements that a step reads, bits of a mask for example, registers would
/// spill.
static bool isScaledAhead(Chain &chain, unsigned number) {
  Step &step = chain.ofLoops().front();
  LateProduct &product = step.late[number];
  const ::attn::StepRules &rules = ::attn::stepRules();
  int64_t cols = cast<FragType>(product.wait.getResult(0).getType()).getCols();
  mlir::attn::ScheduleAttr schedule =
      step.block->getParentOp()->getParentOfType<KernelOp>().getScheduleAttr();
  // Sums of a part of the channels are not measured.
  bool isPart = schedule && schedule.getBlockV();
  if (cols < rules.aheadColumns || isPart)
    return false;
  for (auto map : step.block->getOps<MapOp>())
    if (!map.getBody().getOps<memref::LoadOp>().empty())
      return false;
  auto keys = cast<SmemType>(step.early.front().getB().getType());
  return keys.getRows() * keys.getCols() > rules.aheadElements;
}

/// Whether a sum is scaled in stage 1, ahead of its own product ("rescale
/// before the product", FlashAttention-3): no time passes then in which the
/// warpgroup has no product in flight. Measured (docs/performance/gpu.md): it
/// pays where what lies between products takes a warpgroup longer than the
/// others' products (few columns), or where the early products hide it
/// (`isScaledAhead`). Else the other warpgroup keeps the tensor cores busy, and
/// a product issued later only loses time.
bool Finder::isDelayed(Chain &chain, unsigned number) {
  MapOp first = chain.steps.front().late[number].scale;
  if (!first || !hasOneFragment(first))
    return false;
  int64_t cols = cast<FragType>(first.getResult(0).getType()).getCols();
  if (cols > ::attn::stepRules().delayedColumns &&
      !isScaledAhead(chain, number))
    return false;
  for (auto [loop, step] : llvm::zip(chain.loops, chain.ofLoops())) {
    MapOp scale = step.late[number].scale;
    if (!scale || !scaleAlike(first, scale))
      return false;
    // The next step would have to carry scalars that only this one knows.
    SetVector<Value> captured;
    getUsedValuesDefinedAbove(scale.getBody(), captured);
    for (Value value : captured)
      if (!loop.isDefinedOutsideOfLoop(value))
        return false;
  }
  return true;
}

std::optional<Chain> Finder::find() {
  bool some = false, inBody = false, isDone = false;
  start.walk([&](MmaIssueOp issue) {
    some = true;
    inBody |= issue->getBlock() == start.getBody();
    isDone |= isa<FragType>(issue.getA().getType()) &&
              isa<BlockArgument>(issue.getA());
  });
  if (!some || isDone)
    return std::nullopt;
  Chain chain;
  if (!inBody) {
    // An outer loop has the products of those in it.
    if (start
            .walk([&](scf::ForOp inner) {
              return inner == start ? WalkResult::advance()
                                    : WalkResult::interrupt();
            })
            .wasInterrupted())
      return std::nullopt;
    miss("products stand in branches of its body");
    return std::nullopt;
  }
  Operation *yield = start.getBody()->getTerminator();
  Step body(Kind::Loop, start.getBody(), yield);
  auto isYielded = [&](OpOperand &use) { return use.getOwner() == yield; };
  if (!findStep(body, isYielded) || !findFirst(chain) || !followSums(chain))
    return std::nullopt;
  for (unsigned i = 0, e = chain.steps.front().late.size(); i < e; ++i) {
    chain.delayed.push_back(isDelayed(chain, i));
    chain.scaledAhead.push_back(isScaledAhead(chain, i));
  }
  return chain;
}

std::optional<Chain> tile_gpu::findSteps(scf::ForOp loop, std::string &reason) {
  Finder finder(loop);
  std::optional<Chain> chain = finder.find();
  reason = finder.reason;
  return chain;
}
