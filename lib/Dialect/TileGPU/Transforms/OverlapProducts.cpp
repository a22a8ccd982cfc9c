//===- OverlapProducts.cpp - Scores of the next tile under this softmax ---===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A chain is a first step, straight-line, and the loops that take its state
// one after the other:
//
//   step 0:   S = QK; softmax; O = O * a + P V
//   loops:    S = QK; softmax; O = O * a + P V
//
// Every product with values is put off to the step after it, where it runs
// beside that step's softmax, as in FlashAttention-3 (Shah et al., 2024,
// section 3.2). Loops carry what it needs: the scaled sum, the weights as an A
// fragment, and the number of the slot that holds the values:
//
//   step 0:   S = QK; softmax; O = O * a
//   loops:    issue QK; issue O += P' V'; wait for QK; softmax;
//             wait for O; O = O * a
//   end:      O += P V
//
// The last loop may be followed by a conditional that holds one more step, of
// other tiles (half as many keys). Its branch is the body of a loop without a
// next iteration, the other one the end.
//
// Weights are packed only after the wait, for the product in flight owns the
// old ones until then.
//===----------------------------------------------------------------------===//

#include "attn/Dialect/TileGPU/IR/TileGPU.h"
#include "attn/Dialect/TileGPU/Transforms/Passes.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/PatternMatch.h"

#define DEBUG_TYPE "tile-overlap-products"

namespace attn {
#define GEN_PASS_DEF_TILEOVERLAPPRODUCTSPASS
#include "attn/Dialect/TileGPU/Transforms/Passes.h.inc"
} // namespace attn

using namespace mlir;
using namespace mlir::tile_gpu;

namespace {

/// One product with values, in a step or in the body of a loop.
struct ValueProduct {
  MmaIssueOp issue;
  MmaWaitOp wait;
  /// Gives the values; and what gives back their slot.
  RingWaitOp values;
  RingReleaseOp release;
  /// Computes the weights from what outlives the wait.
  FragConvertOp pack;
  /// Scales the accumulator; null where that is the carried value itself.
  MapOp scale;
  // What a deferred copy of the product is built from.
  Location loc;
  Value ring;
  SmallVector<Type, 2> tileTypes;
  unsigned tile;
  Type tokenType, sumType;
};

/// A step: the products of one block, in order.
struct Step {
  SmallVector<MmaIssueOp> scores;
  SmallVector<MmaWaitOp> scoreWaits;
  /// What holds the scores in its branches, one set in each; or null.
  scf::IfOp forms;
  SmallVector<ValueProduct> values;
};

/// A first step and its loops. Of each loop `carried[p]` is the position of
/// the accumulator of value product p.
struct Chain {
  Step first;
  struct Loop {
    scf::ForOp op;
    Step step;
    SmallVector<unsigned> carried;
  };
  SmallVector<Loop, 4> loops;
  /// What may follow, null if it does not: the numbers of its results that are
  /// the sums.
  scf::IfOp tail;
  Step tailStep;
  SmallVector<unsigned> tailResults;
};

class Overlap {
public:
  explicit Overlap(MLIRContext *context) : rewriter(context) {}

  /// Rewrites the chain that starts in `block`, if there is one.
  void run(Block &block);

private:
  enum class Kind { First, Loop, Tail };
  std::optional<Step> findStep(Block &block, Kind kind);
  std::optional<Chain> findChain(Block &block);
  bool findTail(ArrayRef<Value> sums, Chain &chain);
  SmallVector<Value> strip(Step &step, SmallVectorImpl<Value> &deferred);
  void rewriteLoop(Chain::Loop &loop, SmallVectorImpl<Value> &deferred);
  SmallVector<Value> issueDeferred(Step &step, ValueRange accumulators,
                                   ValueRange deferred);
  void finishDeferred(Step &step, ValueRange tokens, ValueRange deferred,
                      SmallVectorImpl<Value> &sums);
  void issueScores(Step &step);
  void releaseScores(Step &step, bool isTail = false);
  void rewriteTail(Chain &chain, ValueRange deferred,
                   ArrayRef<RingReleaseOp> others);

  IRRewriter rewriter;
};

} // namespace

//===----------------------------------------------------------------------===//
// Finding chains
//===----------------------------------------------------------------------===//

/// The tile that `view` is a view of.
static Value viewed(Value view) {
  while (Operation *def = view.getDefiningOp()) {
    if (!isa<SmemTransposeOp, SmemSliceOp>(def))
      break;
    view = def->getOperand(0);
  }
  return view;
}

static RingWaitOp ringOf(Value tile) {
  return viewed(tile).getDefiningOp<RingWaitOp>();
}

/// The release in `block` of the slot that `wait` gave.
static RingReleaseOp releaseOf(RingWaitOp wait, Block &block) {
  for (auto release : block.getOps<RingReleaseOp>())
    if (release.getRing() == wait.getRing() &&
        release.getCounter() == wait.getCounter())
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

/// The forms of a step's scores in the branches of `branch`; false where there
/// is anything else to be waited for.
static bool findForms(scf::IfOp branch, Step &step) {
  bool isKnown = !step.forms;
  size_t before = step.scores.size();
  branch->walk([&](Operation *op) {
    if (isa<RingWaitOp, RingReleaseOp, scf::ForOp>(op))
      isKnown = false;
    auto issue = dyn_cast<MmaIssueOp>(op);
    if (!issue)
      return;
    MmaWaitOp wait = onlyWait(issue);
    isKnown &= wait && !issue.getAcc() && isa<SmemType>(issue.getA().getType());
    step.scores.push_back(issue);
    step.scoreWaits.push_back(wait);
  });
  if (step.scores.size() == before)
    return true;
  step.forms = branch;
  return isKnown;
}

/// A step whose products with values can be put off; one of a tail is not, and
/// may read parts of slots.
std::optional<Step> Overlap::findStep(Block &block, Kind kind) {
  Step step;
  DenseSet<Value> scoreRings, valueRings;
  if (kind == Kind::First)
    for (Operation &op : block) {
      if (isa<scf::ForOp>(op))
        break;
      if (auto branch = dyn_cast<scf::IfOp>(op);
          branch && !findForms(branch, step))
        return std::nullopt;
    }
  for (MmaIssueOp issue : step.scores)
    if (RingWaitOp ring = ringOf(issue.getB());
        ring && ring->getBlock() == &block)
      scoreRings.insert(ring.getRing());
  for (auto issue : block.getOps<MmaIssueOp>()) {
    MmaWaitOp wait = onlyWait(issue);
    if (!wait)
      return std::nullopt;
    if (!issue.getAcc()) {
      if (step.forms || !isa<SmemType>(issue.getA().getType()))
        return std::nullopt;
      step.scores.push_back(issue);
      step.scoreWaits.push_back(wait);
      if (RingWaitOp ring = ringOf(issue.getB());
          ring && ring->getBlock() == &block)
        scoreRings.insert(ring.getRing());
      continue;
    }
    RingWaitOp values = ringOf(issue.getB());
    if (!values || values->getBlock() != &block ||
        (kind != Kind::Tail && issue.getB().getDefiningOp() != values))
      return std::nullopt;
    ValueProduct product{issue,
                         wait,
                         values,
                         releaseOf(values, block),
                         issue.getA().getDefiningOp<FragConvertOp>(),
                         issue.getAcc().getDefiningOp<MapOp>(),
                         issue.getLoc(),
                         values.getRing(),
                         llvm::to_vector<2>(values->getResultTypes()),
                         cast<OpResult>(viewed(issue.getB())).getResultNumber(),
                         issue.getToken().getType(),
                         wait.getResult(0).getType()};
    if (product.scale &&
        (product.scale->getBlock() != &block ||
         product.scale->getNumResults() != 1 || !issue.getAcc().hasOneUse()))
      return std::nullopt;
    if (!product.pack || !product.pack->hasOneUse() || !product.release)
      return std::nullopt;
    valueRings.insert(product.values.getRing());
    step.values.push_back(product);
  }
  // A slot that holds keys and values would be given back too early.
  for (Value ring : valueRings)
    if (scoreRings.contains(ring))
      return std::nullopt;
  if (step.scores.empty() || step.values.empty())
    return std::nullopt;
  return step;
}

std::optional<Chain> Overlap::findChain(Block &block) {
  auto first = findStep(block, Kind::First);
  if (!first)
    return std::nullopt;
  Chain chain;
  chain.first = std::move(*first);
  SmallVector<Value> sums;
  for (ValueProduct &product : chain.first.values)
    sums.push_back(product.wait.getResult(0));
  while (true) {
    if (!llvm::all_of(sums, [](Value sum) { return sum.hasOneUse(); }))
      break;
    auto op = dyn_cast<scf::ForOp>(*sums.front().user_begin());
    if (!op || op->getBlock() != &block)
      break;
    Chain::Loop loop;
    loop.op = op;
    auto step = findStep(*op.getBody(), Kind::Loop);
    if (!step || step->values.size() != sums.size() ||
        (!chain.first.forms &&
         step->scores.size() != chain.first.scores.size()))
      return std::nullopt;
    for (auto [sum, product, initial] :
         llvm::zip(sums, step->values, chain.first.values)) {
      OpOperand &use = *sum.use_begin();
      BlockArgument argument = op.getTiedLoopRegionIterArg(&use);
      if (use.getOwner() != op || !argument || !argument.hasOneUse())
        return std::nullopt;
      Operation *user = *argument.user_begin();
      if (product.scale ? user != product.scale : user != product.issue)
        return std::nullopt;
      OpOperand *yielded = op.getTiedLoopYieldedValue(argument);
      Value result = product.wait.getResult(0);
      if (!yielded || yielded->get() != result || !result.hasOneUse() ||
          product.values.getRing() != initial.values.getRing() ||
          product.pack.getType() != initial.pack.getType())
        return std::nullopt;
      loop.carried.push_back(argument.getArgNumber() - 1);
      sum = op.getResult(loop.carried.back());
    }
    loop.step = std::move(*step);
    chain.loops.push_back(std::move(loop));
  }
  if (chain.loops.empty() || !findTail(sums, chain))
    return std::nullopt;
  return chain;
}

/// Finds a conditional that all sums go through; false where one reads sums in
/// another way.
bool Overlap::findTail(ArrayRef<Value> sums, Chain &chain) {
  Block *block = chain.loops.front().op->getBlock();
  for (Operation *user : sums.front().getUsers())
    if (auto branch = dyn_cast<scf::IfOp>(block->findAncestorOpInBlock(*user));
        branch && user->getBlock() == branch.elseBlock())
      chain.tail = branch;
  if (!chain.tail)
    return true;
  auto step = findStep(*chain.tail.thenBlock(), Kind::Tail);
  Operation *other = &chain.tail.elseBlock()->front();
  if (!step || step->values.size() != sums.size() ||
      step->scores.size() != chain.loops.back().step.scores.size() ||
      other != chain.tail.elseYield())
    return false;
  for (auto [sum, product] : llvm::zip(sums, step->values)) {
    Value result = product.wait.getResult(0);
    auto yielded = llvm::find(other->getOperands(), sum);
    if (yielded == other->operand_end() || !result.hasOneUse())
      return false;
    unsigned number = yielded.getIndex();
    if (chain.tail.thenYield().getOperand(number) != result)
      return false;
    Operation *reader = product.scale ? product.scale.getOperation()
                                      : product.issue.getOperation();
    if (!llvm::all_of(sum.getUsers(), [&](Operation *user) {
          return user == reader || user == other;
        }))
      return false;
    chain.tailResults.push_back(number);
  }
  chain.tailStep = std::move(*step);
  return true;
}

//===----------------------------------------------------------------------===//
// Rewriting
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

/// What the slots of keys are given back behind. The assembler keeps the order
/// of arrivals and waits but lets the wait for the product in flight float up
/// to the last of them, and all other arithmetic down: without this the product
/// hides nothing. Behind the first reduction (of the maxima) it has most to
/// hide; a product over by then, of few columns, even hides behind the last
/// one. Where there are no maxima, or scores take several operations, some of
/// which the assembler would put behind the wait, it is (a part of) the
/// weights.
static Value behindSlots(Step &step) {
  constexpr int64_t fewColumns = 64;
  bool isShort = llvm::all_of(step.values, [](ValueProduct &product) {
    return cast<FragType>(product.sumType).getCols() <= fewColumns;
  });
  Value weights = step.values.back().pack.getValue();
  ReduceOp found;
  for (Operation *op = step.scoreWaits.back(); op; op = op->getNextNode())
    if (auto reduce = dyn_cast<ReduceOp>(op); reduce && (isShort || !found))
      found = reduce;
  if (!found || (!isShort && (llvm::is_contained(found.getInputs(), weights) ||
                              areComputed(found))))
    return weights;
  return found.getResult(0);
}

/// Keys are read once their scores are there.
void Overlap::releaseScores(Step &step, bool isTail) {
  Operation *last = step.scoreWaits.back();
  Block *block = (step.forms ? step.forms.getOperation() : last)->getBlock();
  SmallVector<RingReleaseOp> releases;
  for (MmaIssueOp score : step.scores) {
    RingWaitOp ring = ringOf(score.getB());
    if (!ring || ring->getBlock() != block)
      continue;
    RingReleaseOp release = releaseOf(ring, *block);
    if (release && !llvm::is_contained(releases, release))
      releases.push_back(release);
  }
  if (step.forms) {
    // Behind the last scores of each form.
    llvm::MapVector<Block *, Operation *> waits;
    for (MmaWaitOp wait : step.scoreWaits)
      waits[wait->getBlock()] = wait;
    for (auto [form, wait] : waits) {
      rewriter.setInsertionPointAfter(wait);
      for (RingReleaseOp release : releases)
        rewriter.clone(*release);
    }
    for (RingReleaseOp release : releases)
      rewriter.eraseOp(release);
    return;
  }
  Operation *parent = step.scores[0]->getParentOp();
  Value behind =
      isa<scf::ForOp>(parent) || isTail ? behindSlots(step) : Value();
  if (behind)
    last = behind.getDefiningOp();
  for (RingReleaseOp release : llvm::reverse(releases)) {
    release->moveAfter(last);
    if (behind)
      release.getAfterMutable().assign(behind);
  }
}

/// Takes the value products out of a step. Moves scaling and packing to the
/// end of the block; `deferred` becomes the weights and, for each product, the
/// number of its slot. Returns the scaled accumulators.
SmallVector<Value> Overlap::strip(Step &step,
                                  SmallVectorImpl<Value> &deferred) {
  SmallVector<Value> scaled;
  deferred.clear();
  for (ValueProduct &product : step.values) {
    scaled.push_back(product.issue.getAcc());
    deferred.push_back(product.pack.getResult());
  }
  for (ValueProduct &product : step.values)
    deferred.push_back(product.values.getCounter());
  return scaled;
}

/// Issues the products that a step has put off, on the slots that hold their
/// values. Returns the tokens.
SmallVector<Value> Overlap::issueDeferred(Step &step, ValueRange accumulators,
                                          ValueRange deferred) {
  SmallVector<Value> tokens;
  size_t n = step.values.size();
  for (auto [p, product] : llvm::enumerate(step.values)) {
    auto slot = RingWaitOp::create(rewriter, product.loc, product.tileTypes,
                                   product.ring, deferred[n + p]);
    tokens.push_back(MmaIssueOp::create(
        rewriter, product.loc, product.tokenType, deferred[p],
        slot.getResult(product.tile), accumulators[p]));
  }
  return tokens;
}

void Overlap::finishDeferred(Step &step, ValueRange tokens, ValueRange deferred,
                             SmallVectorImpl<Value> &sums) {
  size_t n = step.values.size();
  Location loc = step.values.front().loc;
  SmallVector<Type> types;
  for (ValueProduct &product : step.values)
    types.push_back(product.sumType);
  auto wait = MmaWaitOp::create(rewriter, loc, types, tokens, /*pending=*/0);
  sums.assign(wait.getResults().begin(), wait.getResults().end());
  DenseSet<Value> released;
  for (auto [p, product] : llvm::enumerate(step.values))
    if (released.insert(product.ring).second)
      RingReleaseOp::create(rewriter, loc, product.ring, deferred[n + p],
                            ValueRange());
}

/// Erases what `strip` has put off. Where rows of the values are cleared, that
/// and the wait before it move to `end`.
static void eraseProducts(IRRewriter &rewriter, Step &step, Operation *end) {
  DenseSet<Operation *> erased;
  for (ValueProduct &product : step.values) {
    rewriter.eraseOp(product.wait);
    rewriter.eraseOp(product.issue);
    if (erased.insert(product.release).second)
      rewriter.eraseOp(product.release);
  }
  for (ValueProduct &product : step.values) {
    if (!erased.insert(product.values).second)
      continue;
    if (product.values->use_empty()) {
      rewriter.eraseOp(product.values);
      continue;
    }
    SmallVector<Operation *> users;
    for (Operation *user : product.values->getUsers()) {
      user = end->getBlock()->findAncestorOpInBlock(*user);
      if (user && !llvm::is_contained(users, user))
        users.push_back(user);
    }
    llvm::sort(users, [](Operation *a, Operation *b) {
      return a->isBeforeInBlock(b);
    });
    product.values->moveBefore(end);
    for (Operation *user : users)
      user->moveBefore(end);
  }
}

/// Issues all scores of a step before any is waited for.
void Overlap::issueScores(Step &step) {
  Block *body = step.scores.front()->getBlock();
  for (auto [i, issue] : llvm::enumerate(step.scores)) {
    if (i == 0)
      continue;
    // What a later score reads is views of shared memory.
    SmallVector<Operation *> views;
    for (Value operand : issue->getOperands())
      for (Operation *def = operand.getDefiningOp();
           def && def->getBlock() == body &&
           !def->isBeforeInBlock(step.scoreWaits[0]);
           def = def->getOperand(0).getDefiningOp())
        views.push_back(def);
    for (Operation *view : llvm::reverse(views))
      view->moveBefore(step.scoreWaits[0]);
    issue->moveBefore(step.scoreWaits[0]);
  }
}

void Overlap::rewriteLoop(Chain::Loop &loop, SmallVectorImpl<Value> &deferred) {
  // Carry the deferred products' weights and slots. Accumulators keep their
  // places: what is carried there is now scaled, and not yet added to.
  SmallVector<Value> next;
  SmallVector<Value> scaled = strip(loop.step, next);
  Operation *yield = loop.op.getBody()->getTerminator();
  for (auto [position, value] : llvm::zip(loop.carried, scaled))
    yield->setOperand(position, value);
  auto replaced = loop.op.replaceWithAdditionalYields(
      rewriter, deferred, /*replaceInitOperandUsesInLoop=*/false,
      [&](OpBuilder &, Location, ArrayRef<BlockArgument>) { return next; });
  loop.op = cast<scf::ForOp>(replaced->getOperation());
  Block *body = loop.op.getBody();
  ValueRange arguments = loop.op.getRegionIterArgs();
  ValueRange carried = arguments.take_back(deferred.size());
  SmallVector<Value> accumulators;
  for (unsigned position : loop.carried)
    accumulators.push_back(arguments[position]);

  // Scores first, all of them, then the products of the step before.
  Step &step = loop.step;
  issueScores(step);
  rewriter.setInsertionPoint(step.scoreWaits[0]);
  SmallVector<Value> tokens = issueDeferred(step, accumulators, carried);
  for (auto [i, wait] : llvm::enumerate(step.scoreWaits))
    wait.setPending(step.values.size() + step.scores.size() - 1 - i);

  // At the end: the sums of the step before, then their scaling and packing.
  Operation *terminator = body->getTerminator();
  rewriter.setInsertionPoint(terminator);
  SmallVector<Value> sums;
  finishDeferred(step, tokens, carried, sums);
  for (auto [p, product] : llvm::enumerate(step.values)) {
    BlockArgument argument = cast<BlockArgument>(accumulators[p]);
    Value sum = sums[p];
    rewriter.replaceAllUsesExcept(argument, sum, tokens[p].getDefiningOp());
    if (product.scale)
      product.scale->moveBefore(terminator);
  }
  for (ValueProduct &product : step.values)
    product.pack->moveBefore(terminator);
  eraseProducts(rewriter, step, terminator);
  releaseScores(step);

  deferred.clear();
  for (Value result : loop.op.getResults().take_back(carried.size()))
    deferred.push_back(result);
}

/// Whether an operation of the same block behind `op` defines `value`.
static bool definedAfter(Value value, Operation *op) {
  Operation *def = value.getDefiningOp();
  return def && def->getBlock() == op->getBlock() && op->isBeforeInBlock(def);
}

void Overlap::run(Block &block) {
  std::optional<Chain> found = findChain(block);
  if (!found)
    return;
  Chain &chain = *found;
  SmallVector<Value> deferred;
  SmallVector<Value> scaled = strip(chain.first, deferred);
  for (auto [product, value] : llvm::zip(chain.first.values, scaled))
    rewriter.replaceAllUsesWith(product.wait.getResult(0), value);
  eraseProducts(rewriter, chain.first, chain.loops.front().op);
  releaseScores(chain.first);
  for (Chain::Loop &loop : chain.loops)
    rewriteLoop(loop, deferred);

  // The last step's products have nothing left to hide behind.
  // Slots that they do not read (of the queries) go back before them.
  Chain::Loop &last = chain.loops.back();
  DenseSet<Value> read;
  for (ValueProduct &product : last.step.values)
    read.insert(product.ring);
  SmallVector<RingReleaseOp> others;
  for (Operation *op = last.op->getNextNode(); op; op = op->getNextNode())
    if (auto release = dyn_cast<RingReleaseOp>(op);
        release && !read.contains(release.getRing()) &&
        !definedAfter(release.getCounter(), last.op))
      others.push_back(release);
  if (chain.tail)
    return rewriteTail(chain, deferred, others);
  rewriter.setInsertionPointAfter(last.op);
  for (RingReleaseOp release : others) {
    release->moveBefore(last.op->getNextNode());
    rewriter.setInsertionPointAfter(release);
  }
  SmallVector<Value> accumulators;
  for (unsigned position : last.carried)
    accumulators.push_back(last.op.getResult(position));
  SmallVector<Value> tokens = issueDeferred(last.step, accumulators, deferred);
  SmallVector<Value> sums;
  finishDeferred(last.step, tokens, deferred, sums);
  for (auto [accumulator, sum, token] : llvm::zip(accumulators, sums, tokens))
    rewriter.replaceAllUsesExcept(accumulator, sum, token.getDefiningOp());
}

/// The step of a tail runs beside the products of the last loop, then its own;
/// without it those are what is left. `others`: slots that no product with
/// values reads.
void Overlap::rewriteTail(Chain &chain, ValueRange deferred,
                          ArrayRef<RingReleaseOp> others) {
  Chain::Loop &last = chain.loops.back();
  Step &step = chain.tailStep;
  SmallVector<Value> accumulators;
  for (unsigned position : last.carried)
    accumulators.push_back(last.op.getResult(position));

  Operation *end = chain.tail.elseYield();
  rewriter.setInsertionPoint(end);
  for (RingReleaseOp release : others)
    rewriter.clone(*release);
  SmallVector<Value> tokens = issueDeferred(last.step, accumulators, deferred);
  SmallVector<Value> sums;
  finishDeferred(last.step, tokens, deferred, sums);
  for (auto [number, sum] : llvm::zip(chain.tailResults, sums))
    end->setOperand(number, sum);

  end = chain.tail.thenYield();
  issueScores(step);
  rewriter.setInsertionPoint(step.scoreWaits[0]);
  tokens = issueDeferred(last.step, accumulators, deferred);
  for (auto [i, wait] : llvm::enumerate(step.scoreWaits))
    wait.setPending(step.values.size() + step.scores.size() - 1 - i);
  // Its own products and what they take come behind those.
  DenseSet<Operation *> own;
  for (ValueProduct &product : step.values) {
    own.insert_range(ArrayRef<Operation *>{product.issue, product.wait,
                                           product.values, product.release,
                                           product.pack});
    if (product.scale)
      own.insert(product.scale);
    for (Operation *user : product.values->getUsers())
      own.insert(end->getBlock()->findAncestorOpInBlock(*user));
  }
  rewriter.setInsertionPoint(end);
  for (RingReleaseOp release : others)
    rewriter.clone(*release);
  finishDeferred(last.step, tokens, deferred, sums);
  for (auto [accumulator, sum, product] :
       llvm::zip(accumulators, sums, step.values))
    (product.scale ? product.scale.getOperation()
                   : product.issue.getOperation())
        ->replaceUsesOfWith(accumulator, sum);
  SmallVector<Operation *> moved;
  for (Operation &op : *end->getBlock())
    if (own.contains(&op))
      moved.push_back(&op);
  for (Operation *op : moved)
    op->moveBefore(end);
  releaseScores(step, /*isTail=*/true);
  for (RingReleaseOp release : others)
    rewriter.eraseOp(release);
}

namespace {
struct OverlapProductsPass
    : ::attn::impl::TileOverlapProductsPassBase<OverlapProductsPass> {
  void runOnOperation() final {
    KernelOp func = getOperation();
    if (!func.getOverlap())
      return;
    SmallVector<Block *> blocks;
    func.walk([&](Block *block) {
      if (!isa<scf::ForOp, MapOp, ReduceOp>(block->getParentOp()))
        blocks.push_back(block);
    });
    for (Block *block : blocks)
      Overlap(func.getContext()).run(*block);
  }
};
} // namespace
