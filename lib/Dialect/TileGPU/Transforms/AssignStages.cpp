//===- AssignStages.cpp - What of a step runs when ------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The choice of intra-warpgroup pipelining (FlashAttention-3, Shah et al.,
// 2024, section 3.2), as stages and orders that tile-gpu-expand-pipeline
// applies. In a step over a key tile,
//
//   S = Q K;  P = softmax(S);  O = O * a;  O += P V
//
// products whose sum only the next step reads (P V) can wait for the next turn
// of the loop, where they run beside its softmax:
//
//   issue S;  issue O += P' V';  wait for S;  softmax;  wait for O;
//   O = O * a;  pack P
//
// That holds for any number of products of either kind: a step of a backward
// pass has two that start from zero (S, dP) and one or two that are put off.
//
// Weights are packed only after the wait, for the product in flight owns the
// old ones until then.
//===----------------------------------------------------------------------===//

#include "attn/Dialect/TileGPU/IR/TileGPU.h"
#include "attn/Dialect/TileGPU/Transforms/Passes.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/RegionUtils.h"

#define DEBUG_TYPE "tile-gpu-assign-stages"

namespace attn {
#define GEN_PASS_DEF_TILEGPUASSIGNSTAGESPASS
#include "attn/Dialect/TileGPU/Transforms/Passes.h.inc"
} // namespace attn

using namespace mlir;
using namespace mlir::tile_gpu;

namespace {

/// A product whose sum only the next step reads.
struct LateProduct {
  MmaIssueOp issue;
  MmaWaitOp wait;
  /// Gives its right operand; and what gives that slot back.
  RingWaitOp slot;
  RingReleaseOp release;
  /// Makes its left operand; and scales its accumulator, or null.
  Operation *pack = nullptr;
  MapOp scale;
};

enum class Kind { First, Loop, Tail };

/// The products of one step, and where they are.
struct Step {
  Step(Kind kind, Block *block, Operation *end)
      : kind(kind), block(block), end(end) {}

  Kind kind;
  Block *block;
  /// The first operation behind the step.
  Operation *end;
  SmallVector<MmaIssueOp> early;
  SmallVector<MmaWaitOp> earlyWaits;
  /// What holds the early products in its branches, one set in each; or null.
  scf::IfOp forms;
  SmallVector<LateProduct> late;
};

struct Chain {
  /// The one ahead of the loops first, the one in a conditional behind them
  /// last.
  SmallVector<Step> steps;
  SmallVector<scf::ForOp> loops;
  scf::IfOp tail;
  /// Of each late product, whether its sum is scaled ahead of it, in stage 1.
  SmallVector<bool> delayed;

  MutableArrayRef<Step> ofLoops() {
    return MutableArrayRef(steps).slice(1, loops.size());
  }
};

/// Finds a chain of steps, or says why there is none.
class Finder {
public:
  Finder(scf::ForOp loop, bool inCluster) : start(loop), inCluster(inCluster) {}
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
  bool findFirst(Chain &chain);
  bool followSums(Chain &chain);
  bool findTail(Chain &chain, ArrayRef<Value> sums);
  bool isDelayed(Chain &chain, unsigned product);

  scf::ForOp start;
  bool inCluster;
};

/// Writes stages and orders on the operations of a step.
class Assigner {
public:
  Assigner(Step &step, ArrayRef<bool> delayed)
      : step(step), delayed(delayed),
        rewriter(step.block->getParentOp()->getContext()) {}
  void run(ArrayRef<RingReleaseOp> others);

private:
  void separate();
  void releaseKeys();
  SmallVector<Operation *> hoistedViews(MmaIssueOp issue);
  void assignLoop(ArrayRef<RingReleaseOp> others);
  void assignFirst();
  void add(Operation *op, int64_t stage) {
    if (!isa<arith::ConstantOp>(op) && marked.insert(op).second)
      order.push_back({op, stage});
  }

  Step &step;
  ArrayRef<bool> delayed;
  IRRewriter rewriter;
  /// Stage 1: up to the last issue, and from the wait on.
  SmallVector<Operation *> issues, finish;
  /// Waits for slots that stage 0 has to write to, with what does.
  SmallVector<Operation *> clears;
  /// What gives back the slots that early products alone read, and what it
  /// comes behind.
  SmallVector<RingReleaseOp> keys;
  Operation *behind = nullptr;
  SmallVector<std::pair<Operation *, int64_t>> order;
  DenseSet<Operation *> marked;
};

} // namespace

//===----------------------------------------------------------------------===//
// Finding chains of steps
//===----------------------------------------------------------------------===//

/// The views between a tile and the slot or allocation it is in, the last one
/// first.
static SmallVector<Operation *, 2> viewsOf(Value tile) {
  SmallVector<Operation *, 2> views;
  while (Operation *def = tile.getDefiningOp()) {
    if (!isa<SmemTransposeOp, SmemSliceOp>(def))
      break;
    views.push_back(def);
    tile = def->getOperand(0);
  }
  return views;
}

static Value viewed(Value tile) {
  auto views = viewsOf(tile);
  return views.empty() ? tile : views.back()->getOperand(0);
}

static RingWaitOp slotOf(Value tile) {
  return viewed(tile).getDefiningOp<RingWaitOp>();
}

/// The release in `block` of the slot that `wait` gave.
static RingReleaseOp releaseOf(RingWaitOp wait, Block &block) {
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

/// Whether a sum is scaled in stage 1, between the early products and its own,
/// as FlashAttention-3 does for wide heads ("rescale before the product"): no
/// time passes then in which the warpgroup has no product in flight. Measured
/// (docs/performance/gpu.md): it pays where what lies between products takes a
/// warpgroup longer than the others' products (few columns), or where blocks
/// wait for each other (many, in clusters). From 65 to 128 columns the other
/// warpgroup keeps the tensor cores busy, and a product issued later only loses
/// time.
bool Finder::isDelayed(Chain &chain, unsigned number) {
  constexpr int64_t few = 64, many = 128;
  // The second sum's scaling would keep its product from following the first.
  if (chain.steps.front().late.size() > 1)
    return false;
  MapOp first = chain.steps.front().late[number].scale;
  if (!first || !hasOneFragment(first))
    return false;
  int64_t cols = cast<FragType>(first.getResult(0).getType()).getCols();
  if (cols > few && !(cols > many && inCluster))
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
  for (unsigned i = 0, e = chain.steps.front().late.size(); i < e; ++i)
    chain.delayed.push_back(isDelayed(chain, i));
  return chain;
}

//===----------------------------------------------------------------------===//
// Where slots are given back
//===----------------------------------------------------------------------===//

/// Whether the scores that `reduce` looks over take several operations each.
static bool areComputed(ReduceOp reduce) {
  auto map = reduce.getInputs().front().getDefiningOp<MapOp>();
  if (!map)
    return false;
  constexpr int64_t several = 3;
  return llvm::count_if(map.getBody().front(), [](Operation &op) {
           return op.getNumResults() == 1 &&
                  op.getResult(0).getType().isF32() &&
                  !isa<arith::SelectOp, arith::ConstantOp>(op);
         }) >= several;
}

/// Where to release the slots of keys. ptxas keeps the order of arrivals and
/// waits, but may hoist the wait for the late products up to the last arrival,
/// and sink arithmetic below it: released too early, keys serialise these
/// products. Behind the first reduction (of the maxima) there is most to hide
/// them under; one that is over by then, of few columns, even hides behind the
/// last reduction. Where there are no maxima, or scores take several
/// operations, some of which ptxas would sink below the wait, keys are released
/// behind (a part of) the weights.
static Value behindSlots(Step &step) {
  constexpr int64_t fewColumns = 64;
  bool isShort = llvm::all_of(step.late, [](LateProduct &product) {
    return cast<FragType>(product.wait.getResult(0).getType()).getCols() <=
           fewColumns;
  });
  auto pack = dyn_cast<FragConvertOp>(step.late.back().pack);
  Value weights = pack ? pack.getValue() : Value();
  ReduceOp found;
  for (Operation *op = step.earlyWaits.back(); op; op = op->getNextNode())
    if (auto reduce = dyn_cast<ReduceOp>(op); reduce && (isShort || !found))
      found = reduce;
  if (!found || (!isShort && (llvm::is_contained(found.getInputs(), weights) ||
                              areComputed(found))))
    return weights;
  return found.getResult(0);
}

/// Slots that early products alone read go back once these are over.
void Assigner::releaseKeys() {
  for (MmaIssueOp issue : step.early) {
    RingWaitOp slot = slotOf(issue.getB());
    if (!slot || slot->getBlock() != step.block)
      continue;
    RingReleaseOp release = releaseOf(slot, *step.block);
    if (release && !llvm::is_contained(keys, release) &&
        llvm::none_of(step.late, [&](LateProduct &product) {
          return product.release == release;
        }))
      keys.push_back(release);
  }
  if (step.forms) {
    // Behind the last products of each form.
    llvm::MapVector<Block *, Operation *> waits;
    for (MmaWaitOp wait : step.earlyWaits)
      waits[wait->getBlock()] = wait;
    for (auto [form, wait] : waits) {
      rewriter.setInsertionPointAfter(wait);
      for (RingReleaseOp release : keys)
        rewriter.clone(*release);
    }
    for (RingReleaseOp release : keys)
      rewriter.eraseOp(release);
    keys.clear();
    return;
  }
  behind = step.earlyWaits.back();
  Value value = step.kind == Kind::First ? Value() : behindSlots(step);
  if (value && value.getDefiningOp() &&
      value.getDefiningOp()->getBlock() == step.block &&
      !value.getDefiningOp()->isBeforeInBlock(behind))
    behind = value.getDefiningOp();
  else
    value = {};
  for (RingReleaseOp release : llvm::reverse(keys)) {
    release->moveAfter(behind);
    if (value)
      release.getAfterMutable().assign(value);
  }
}

//===----------------------------------------------------------------------===//
// Stages and orders
//===----------------------------------------------------------------------===//

/// Gives stage 1 operations of its own: a wait for all late products together,
/// and for slots that stage 0 reads or writes as well.
void Assigner::separate() {
  DenseSet<Operation *> early, seen;
  for (MmaIssueOp issue : step.early)
    early.insert(slotOf(issue.getB()));
  auto isLateIssue = [&](Operation *op) {
    return llvm::any_of(
        step.late, [&](LateProduct &product) { return product.issue == op; });
  };
  DenseMap<Operation *, RingWaitOp> slots;
  for (auto [number, product] : llvm::enumerate(step.late)) {
    MmaIssueOp issue = product.issue;
    RingWaitOp slot = product.slot;
    if (seen.insert(slot).second) {
      slots[slot] = slot;
      std::function<bool(Operation *)> isOwn = [&](Operation *op) {
        return isLateIssue(op) || (isa<SmemTransposeOp, SmemSliceOp>(op) &&
                                   llvm::all_of(op->getUsers(), isOwn));
      };
      if (step.kind == Kind::Tail || !llvm::all_of(slot->getUsers(), isOwn)) {
        rewriter.setInsertionPoint(issue);
        slots[slot] = cast<RingWaitOp>(rewriter.clone(*slot));
        if (!early.contains(slot)) {
          clears.push_back(slot);
          for (Operation &op : *step.block)
            if (llvm::any_of(slot->getUsers(), [&](Operation *user) {
                  return op.isAncestor(user) && !isOwn(user);
                }))
              clears.push_back(&op);
        }
      }
      issues.push_back(slots[slot]);
    }
    Value tile = viewed(issue.getB());
    Value own = slots[slot]->getResult(cast<OpResult>(tile).getResultNumber());
    for (Operation *view : llvm::reverse(viewsOf(issue.getB()))) {
      if (slots[slot] != slot && !view->hasOneUse()) {
        rewriter.setInsertionPoint(issue);
        view = rewriter.clone(*view);
      } else if (slots[slot] != slot) {
        view->moveBefore(issue);
      }
      view->setOperand(0, own);
      own = view->getResult(0);
      if (!llvm::is_contained(issues, view))
        issues.push_back(view);
    }
    issue.getBMutable().set(own);
    if (number < delayed.size() && delayed[number] && step.kind != Kind::Tail)
      issues.push_back(product.scale);
    issues.push_back(issue);
  }
  MmaWaitOp wait = step.late.back().wait;
  if (step.late.size() > 1) {
    SmallVector<Value> tokens, sums;
    for (LateProduct &product : step.late) {
      tokens.push_back(product.issue.getToken());
      sums.push_back(product.wait.getResult(0));
    }
    rewriter.setInsertionPoint(wait);
    auto all = MmaWaitOp::create(rewriter, wait.getLoc(),
                                 ValueRange(sums).getTypes(), tokens,
                                 /*pending=*/0);
    for (auto [product, sum] : llvm::zip(step.late, all.getResults())) {
      rewriter.replaceOp(product.wait, sum);
      product.wait = all;
    }
    wait = all;
  }
  finish.push_back(wait);
  for (LateProduct &product : step.late) {
    if (llvm::is_contained(finish, product.release))
      continue;
    product.release->moveAfter(finish.back());
    finish.push_back(product.release);
  }
}

/// The early product's views that stand behind the first wait.
SmallVector<Operation *> Assigner::hoistedViews(MmaIssueOp issue) {
  SmallVector<Operation *> views;
  for (Value operand : issue->getOperands())
    for (Operation *def = operand.getDefiningOp();
         def && def->getBlock() == step.block &&
         !def->isBeforeInBlock(step.earlyWaits.front());
         def = def->getOperand(0).getDefiningOp())
      views.push_back(def);
  std::reverse(views.begin(), views.end());
  return views;
}

/// All early products are issued before any is waited for, and the late ones
/// of the step before behind them. Those are waited for at the end, ahead of
/// what their registers and slots are needed for.
void Assigner::assignLoop(ArrayRef<RingReleaseOp> others) {
  llvm::SmallSetVector<Operation *, 8> atEnd;
  for (auto [number, product] : llvm::enumerate(step.late))
    if (product.scale && !llvm::is_contained(issues, product.scale))
      atEnd.insert(product.scale);
  for (LateProduct &product : step.late)
    atEnd.insert(product.pack);
  atEnd.insert_range(clears);
  auto later = llvm::to_vector(atEnd);
  if (step.kind == Kind::Tail) // What follows is its own stage 1.
    llvm::sort(later, [](Operation *a, Operation *b) {
      return a->isBeforeInBlock(b);
    });
  DenseSet<Operation *> reserved(later.begin(), later.end());
  reserved.insert_range(issues);
  reserved.insert_range(finish);
  reserved.insert_range(keys);
  reserved.insert_range(others);
  for (Operation &op :
       llvm::make_range(step.block->begin(), step.end->getIterator())) {
    if (&op == step.earlyWaits.front()) {
      for (MmaIssueOp issue : ArrayRef(step.early).drop_front()) {
        for (Operation *view : hoistedViews(issue))
          add(view, 0);
        add(issue, 0);
      }
      for (Operation *late : issues)
        add(late, 1);
    }
    if (reserved.contains(&op))
      continue;
    add(&op, 0);
    if (&op == behind)
      for (RingReleaseOp release : keys)
        add(release, 0);
  }
  for (RingReleaseOp release : others)
    add(release, 0);
  for (Operation *op : finish)
    add(op, 1);
  for (Operation *op : later)
    add(op, 0);
}

/// Nothing is in flight beside the step ahead of the loops: it stays as it is
/// up to its late products, whose slots are written to last.
void Assigner::assignFirst() {
  DenseSet<Operation *> reserved(clears.begin(), clears.end());
  reserved.insert_range(issues);
  reserved.insert_range(finish);
  Operation *begin =
      step.forms ? step.forms.getOperation() : step.early.front();
  for (Operation &op :
       llvm::make_range(begin->getIterator(), step.end->getIterator()))
    if (!reserved.contains(&op))
      add(&op, 0);
  for (Operation *op : clears)
    add(op, 0);
  for (Operation *op : issues)
    add(op, 1);
  for (Operation *op : finish)
    add(op, 1);
}

void Assigner::run(ArrayRef<RingReleaseOp> others) {
  separate();
  releaseKeys();
  if (step.kind == Kind::First)
    assignFirst();
  else
    assignLoop(others);
  for (auto [number, pair] : llvm::enumerate(order))
    pair.first->setDiscardableAttr(
        stageName, StageAttr::get(rewriter.getContext(), pair.second, number));
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

/// Whether a step behind the loops, other than the last one of the chain, reads
/// the slot that `release` gives back.
static bool isReadBehind(Chain &chain, RingReleaseOp release) {
  Operation *loop = chain.loops.back();
  SmallVector<Operation *> readers;
  for (Operation *user : release.getRing().getUsers())
    if (isa<RingWaitOp, RingViewSlotOp>(user) &&
        user->getOperands() == release->getOperands().take_front(2))
      readers.push_back(user);
  for (size_t i = 0; i < readers.size(); ++i) {
    Operation *here = loop->getBlock()->findAncestorOpInBlock(*readers[i]);
    if (here && here != chain.tail && loop->isBeforeInBlock(here))
      return true;
    if (isa<RingWaitOp, RingViewSlotOp, SmemTransposeOp, SmemSliceOp>(
            readers[i]))
      llvm::append_range(readers, readers[i]->getUsers());
  }
  return false;
}

/// Slots that are given back behind the loops and that late products do not
/// read (of the queries) go back ahead of the wait for those that are left.
static SmallVector<RingReleaseOp> releaseOthers(Chain &chain) {
  scf::ForOp last = chain.loops.back();
  SmallVector<RingReleaseOp> others;
  for (Operation *op = last->getNextNode(); op; op = op->getNextNode()) {
    auto release = dyn_cast<RingReleaseOp>(op);
    if (!release ||
        llvm::any_of(chain.steps.front().late, [&](LateProduct &product) {
          return product.slot.getRing() == release.getRing();
        }))
      continue;
    Operation *counter = release.getCounter().getDefiningOp();
    bool isKnown = !counter || counter->getBlock() != last->getBlock() ||
                   counter->isBeforeInBlock(last);
    if (isKnown && !isReadBehind(chain, release))
      others.push_back(release);
  }
  if (!chain.tail) {
    for (RingReleaseOp release : llvm::reverse(others))
      release->moveAfter(last);
    return {};
  }
  SmallVector<RingReleaseOp> inTail;
  OpBuilder b(chain.tail.thenYield());
  for (RingReleaseOp release : others)
    inTail.push_back(cast<RingReleaseOp>(b.clone(*release)));
  b.setInsertionPoint(chain.tail.elseYield());
  for (RingReleaseOp release : others) {
    b.clone(*release);
    release.erase();
  }
  return inTail;
}

static void assign(Chain &chain) {
  SmallVector<RingReleaseOp> others = releaseOthers(chain);
  for (Step &step : chain.steps)
    Assigner(step, chain.delayed).run(others);
}

namespace {
struct AssignStagesPass
    : ::attn::impl::TileGpuAssignStagesPassBase<AssignStagesPass> {
  using Base::Base;

  void runOnOperation() final {
    func::FuncOp func = getOperation();
    if (!func->hasAttr("tile_gpu.kernel") || func->hasAttr("tile.no_overlap"))
      return;
    SmallVector<scf::ForOp> loops;
    func.walk<WalkOrder::PreOrder>(
        [&](scf::ForOp loop) { loops.push_back(loop); });
    DenseSet<Operation *> done;
    for (scf::ForOp loop : loops) {
      bool isMarked = llvm::any_of(
          *loop.getBody(), [](Operation &op) { return bool(stageOf(&op)); });
      if (isMarked || !done.insert(loop).second)
        continue;
      Finder finder(loop, func->hasAttr("tile.cluster"));
      std::optional<Chain> chain = finder.find();
      if (!chain) {
        if (finder.reason.empty())
          continue;
        ++numMissed;
        if (explain)
          loop.emitRemark("products not overlapped: ") << finder.reason;
        continue;
      }
      for (scf::ForOp member : chain->loops)
        done.insert(member);
      numAssigned += chain->loops.size();
      assign(*chain);
      if (explain)
        describe(loop, *chain);
    }
  }

  void describe(scf::ForOp loop, Chain &chain) {
    const Step &step = chain.steps.front();
    InFlightDiagnostic remark = loop.emitRemark("products overlapped: ");
    remark << step.late.size() << " of " << step.late.size() + step.early.size()
           << " run beside the next step";
    if (llvm::is_contained(chain.delayed, true))
      remark << ", which scales the sum as well";
  }
};
} // namespace
