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

#include "OrderStep.h"
#include "PipelineSteps.h"
#include "attn/Analysis/StepRules.h"
#include "attn/Dialect/TileGPU/Transforms/Passes.h"
#include "mlir/IR/PatternMatch.h"

#define DEBUG_TYPE "tile-gpu-assign-stages"

namespace attn {
#define GEN_PASS_DEF_TILEGPUASSIGNSTAGESPASS
#include "attn/Dialect/TileGPU/Transforms/Passes.h.inc"
} // namespace attn

using namespace mlir;
using namespace mlir::tile_gpu;

namespace {

/// Writes stages and orders on the operations of a step.
class Assigner {
public:
  Assigner(Step &step, ArrayRef<bool> delayed, ArrayRef<bool> scaledAhead)
      : step(step), delayed(delayed), scaledAhead(scaledAhead),
        rewriter(step.block->getParentOp()->getContext()) {}
  void run(ArrayRef<RingReleaseOp> others);

private:
  void separate();
  void releaseKeys();
  bool releasePairs();
  bool releasesAtOnce();
  MapOp weightsAround(Value read);
  SmallVector<Operation *> hoistedViews(MmaIssueOp issue);
  void assignLoop(ArrayRef<RingReleaseOp> others);
  void assignFirst();
  void add(Operation *op, int64_t stage) {
    if (!isa<arith::ConstantOp>(op) && marked.insert(op).second)
      order.push_back({op, stage});
  }

  Step &step;
  ArrayRef<bool> delayed, scaledAhead;
  IRRewriter rewriter;
  /// Stage 1: ahead of the early products, up to the last issue, and from the
  /// wait on.
  SmallVector<Operation *> ahead, issues, finish;
  /// Waits for slots that stage 0 has to write to, with what does.
  SmallVector<Operation *> clears;
  /// What gives back the slots that early products alone read, and what it
  /// comes behind.
  SmallVector<Operation *> keys;
  Operation *behind = nullptr;
  /// Where keys go back at once, what keeps late products waiting for `behind`.
  HoldOp hold;
  /// Whether late products are waited for right behind the release of keys.
  bool waitsAmid = false;
  SmallVector<std::pair<Operation *, int64_t>> order;
  DenseSet<Operation *> marked;
};

} // namespace

//===----------------------------------------------------------------------===//
// Where slots are given back
//===----------------------------------------------------------------------===//

/// Whether the scores that `reduce` looks over take several operations each.
static bool areComputed(ReduceOp reduce) {
  auto map = reduce.getInputs().front().getDefiningOp<MapOp>();
  if (!map)
    return false;
  return llvm::count_if(map.getBody().front(), [](Operation &op) {
           return op.getNumResults() == 1 &&
                  op.getResult(0).getType().isF32() &&
                  !isa<arith::SelectOp, arith::ConstantOp>(op);
         }) >= ::attn::stepRules().computedOps;
}

/// Whether several sums are made of what makes `weights`.
static bool areSummedTwice(Value weights) {
  auto map = weights ? weights.getDefiningOp<MapOp>() : MapOp();
  return map &&
         llvm::count_if(map->getResults(), [](Value result) {
           return llvm::any_of(result.getUsers(), llvm::IsaPred<ReduceOp>);
         }) > 1;
}

/// Where to release the slots of keys. ptxas keeps the order of arrivals and
/// waits, but may hoist the wait for the late products up to the last arrival,
/// and sink arithmetic below it: released too early, keys serialise these
/// products. Behind the first reduction (of the maxima) there is most to hide
/// them under; one that is over by then, of few columns, even hides behind the
/// last reduction. Where there are no maxima, or scores take several
/// operations, or weights are summed twice (an entropy), some of which ptxas
/// would sink below the wait, keys are released behind (a part of) the weights.
static Value behindSlots(Step &step) {
  bool isShort = llvm::all_of(step.late, [](LateProduct &product) {
    return cast<FragType>(product.wait.getResult(0).getType()).getCols() <=
           ::attn::stepRules().shortColumns;
  });
  auto pack = dyn_cast<FragConvertOp>(step.late.back().pack);
  Value weights = pack ? pack.getValue() : Value();
  ReduceOp found;
  for (Operation *op = step.earlyWaits.back(); op; op = op->getNextNode())
    if (auto reduce = dyn_cast<ReduceOp>(op); reduce && (isShort || !found))
      found = reduce;
  if (!found || (!isShort && (llvm::is_contained(found.getInputs(), weights) ||
                              areComputed(found) || areSummedTwice(weights))))
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
    if (release && !llvm::is_contained(keys, release.getOperation()) &&
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
      for (Operation *release : keys)
        rewriter.clone(*release);
    }
    for (Operation *release : keys)
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
  Value read = value;
  if (areSummedTwice(value))
    for (Operation *op = behind; op; op = op->getPrevNode())
      if (auto maxima = dyn_cast<ReduceOp>(op)) {
        read = maxima.getResult(0);
        break;
      }
  if (MapOp weights = value ? weightsAround(read) : MapOp()) {
    behind = weights;
    for (Operation *release : llvm::reverse(keys)) {
      release->moveAfter(behind);
      cast<RingReleaseOp>(release).getAfterMutable().assign(
          {read, weights.getResult(0)});
    }
    waitsAmid = true;
    return;
  }
  if (value && (releasePairs() || releasesAtOnce())) {
    for (Operation *release : llvm::reverse(keys))
      release->moveAfter(step.earlyWaits.back());
    rewriter.setInsertionPointAfter(behind);
    hold = HoldOp::create(rewriter, behind->getLoc(), value, /*all=*/false);
    return;
  }
  for (Operation *release : llvm::reverse(keys)) {
    release->moveAfter(behind);
    if (value)
      cast<RingReleaseOp>(release).getAfterMutable().assign(value);
  }
}

/// Slots that maps read of pairs go back as soon as they are read, and those of
/// keys at once, since a step has a third tile to copy. Returns whether there
/// are any (docs/performance/gpu-masks.md, "Biases beside the keys").
bool Assigner::releasePairs() {
  bool reads = false;
  for (auto release : llvm::to_vector(step.block->getOps<RingReleaseOp>()))
    for (Value value : release.getAfter())
      if (auto load = value.getDefiningOp<FragLoadOp>();
          load && load->getBlock() == step.block &&
          step.earlyWaits.back()->isBeforeInBlock(load)) {
        release->moveAfter(load);
        reads = true;
      }
  return reads;
}

/// Whether keys go back as soon as the early products are over, and an
/// operation of its own (tile_gpu.hold) keeps the wait for the late ones where
/// the release would. Measured (docs/performance/gpu.md, "Keys given back at
/// once"): it pays for sums of more than 128 columns, whose tiles are large and
/// their slots few, where every work tile has as many keys as the next.
bool Assigner::releasesAtOnce() {
  mlir::attn::ScheduleAttr schedule =
      step.block->getParentOp()->getParentOfType<KernelOp>().getScheduleAttr();
  return schedule &&
         schedule.getOrder() != mlir::attn::WorkOrder::longest_first &&
         !keys.empty() && llvm::all_of(step.late, [](LateProduct &product) {
           return cast<FragType>(product.wait.getResult(0).getType())
                      .getCols() > ::attn::stepRules().heldColumns;
         });
}

/// The weights, where keys go back amid them, and the late product is waited
/// for there: a thread has computed a part of its first row's, and the rest
/// come behind (ConvertTileGPUToNVVM). Null where that is not so. Measured
/// (docs/performance/gpu.md, "The order of a step"): it pays where keys and
/// values have 128 columns, where rows have different numbers of keys or blocks
/// copy for each other, for tiles without a mask and those of one that acts on
/// the weights; for weights that are summed twice where blocks copy for each
/// other. `read` has read the scores: a statistic of rows, without which
/// nothing is there ahead of the weights.
MapOp Assigner::weightsAround(Value read) {
  const int64_t columns = ::attn::stepRules().aroundColumns;
  if (step.kind != Kind::Loop || step.forms || step.late.size() != 1 ||
      step.earlyWaits.size() != 1 || keys.size() != 1 ||
      step.early.front().getRamp())
    return {};
  mlir::attn::ScheduleAttr schedule =
      step.block->getParentOp()->getParentOfType<KernelOp>().getScheduleAttr();
  if (!schedule ||
      (schedule.getOrder() != mlir::attn::WorkOrder::longest_first &&
       schedule.getCluster() < 2))
    return {};
  LateProduct &product = step.late.front();
  auto pack = dyn_cast<FragConvertOp>(product.pack);
  auto weights = pack ? pack.getValue().getDefiningOp<MapOp>() : MapOp();
  auto queries = dyn_cast<SmemType>(step.early.front().getA().getType());
  RingWaitOp slot = slotOf(step.early.front().getB());
  auto ring = slot ? slot.getRing().getDefiningOp<RingCreateOp>() : nullptr;
  if (!weights || weights->getBlock() != step.block || !queries ||
      queries.getCols() != columns || !ring || ring.getFill() != Fill::Tma ||
      step.early.front().getB().getType().getBoxes() > 1 ||
      weights.getInputs().size() < 2 ||
      weights.getInputs()[0] != step.earlyWaits.front().getResult(0))
    return {};
  bool isTwice = weights.getNumResults() == 2 && schedule.getCluster() > 1 &&
                 weights.getInputs().size() == 2 &&
                 pack.getValue() == weights.getResult(0) &&
                 areSummedTwice(weights.getResult(0));
  if (weights.getNumResults() > 1 && !isTwice)
    return {};
  // What else it reads tells which keys are live.
  if (llvm::any_of(weights.getInputs().drop_front(2), [](Value input) {
        auto read = dyn_cast<VecType>(input.getType());
        return !read || !read.getElementType().isInteger();
      }))
    return {};
  auto rows = dyn_cast<VecType>(weights.getInputs()[1].getType());
  if (!isa<VecType>(read.getType()) || !rows || rows.getAxis() != Axis::Row ||
      !rows.getElementType().isF32())
    return {};
  auto sum = cast<FragType>(product.wait.getResult(0).getType());
  auto held = cast<FragType>(weights.getResult(0).getType());
  bool isWide = sum.getCols() == columns && held.getCols() >= columns &&
                held.getElementType().isF32() &&
                sum.getScope() == Scope::Warpgroup;
  return isWide ? weights : MapOp();
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
      (scaledAhead[number] ? ahead : issues).push_back(product.scale);
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
    if (product.scale && !llvm::is_contained(issues, product.scale) &&
        !llvm::is_contained(ahead, product.scale))
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
  reserved.insert_range(ahead);
  reserved.insert_range(issues);
  reserved.insert_range(finish);
  reserved.insert_range(keys);
  reserved.insert_range(others);
  for (Operation &op :
       llvm::make_range(step.block->begin(), step.end->getIterator())) {
    if (&op == step.early.front())
      for (Operation *scale : ahead)
        add(scale, 1);
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
    if (&op == (hold ? step.earlyWaits.back().getOperation() : behind))
      for (Operation *release : keys)
        add(release, 0);
    if (waitsAmid && &op == behind)
      for (Operation *done : finish)
        add(done, 1);
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
  reserved.insert_range(ahead);
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
  for (Operation *op : ahead)
    add(op, 1);
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
        TileGPUDialect::stageName,
        StageAttr::get(rewriter.getContext(), pair.second, number));
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
    Assigner(step, chain.delayed, chain.scaledAhead).run(others);
}

namespace {
struct AssignStagesPass
    : ::attn::impl::TileGpuAssignStagesPassBase<AssignStagesPass> {
  using Base::Base;

  void runOnOperation() final {
    KernelOp kernel = getOperation();
    mlir::attn::ProductOverlap overlap = kernel.getOverlap();
    if (overlap == mlir::attn::ProductOverlap::none)
      return;
    SmallVector<scf::ForOp> loops;
    if (overlap == mlir::attn::ProductOverlap::next_step)
      kernel.walk<WalkOrder::PreOrder>(
          [&](scf::ForOp loop) { loops.push_back(loop); });
    DenseSet<Operation *> done;
    for (scf::ForOp loop : loops) {
      bool isMarked = llvm::any_of(
          *loop.getBody(), [](Operation &op) { return bool(stageOf(&op)); });
      if (isMarked || !done.insert(loop).second)
        continue;
      std::string reason;
      auto chain = findSteps(loop, reason);
      if (!chain) {
        if (reason.empty())
          continue;
        ++numMissed;
        if (explain)
          loop.emitRemark("products not overlapped: ") << reason;
        continue;
      }
      for (scf::ForOp member : chain->loops)
        done.insert(member);
      numAssigned += chain->loops.size();
      assign(*chain);
      if (explain)
        describe(loop, *chain);
    }
    bool delay = overlap == mlir::attn::ProductOverlap::next_step;
    if (unsigned steps = orderSteps(kernel, delay); steps && explain)
      kernel.emitRemark("products ordered: those of ")
          << steps << " steps run beside work of their own";
    if (delay && delaySums(kernel) && explain)
      kernel.emitRemark("products of exchanged weights run beside the next "
                        "step");
    placeSlots(kernel);
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
