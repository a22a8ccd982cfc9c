//===- OrderStep.cpp - Products beside the work of their own step ---------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A step of a backward pass has two products from zero (S, dP), and one map of
// both. Where nothing is put off to the next step, its own work has to hide
// them. What the map computes of the first product alone becomes a map of its
// own, so that it, and the product that takes its weights, run beside the
// second one; no product is waited for before all are issued:
//
//   issue S;  issue dP;  wait for S;  P;  issue dV += P dO;
//   wait for dP;  dS;  issue dK += dS Q;  wait for dV, dK
//
// Where warpgroups put dS together, for a product that is added to memory (dQ),
// that comes first, and is added while dK runs (the other way round the
// prototype lost 9 %: docs/performance/gpu-gradients.md, "One kernel with five
// products"):
//
//   dS;  exchange dS;  wait for all of it;  issue dQ = dS K;  issue dK += dS Q;
//   wait for dV, dQ;  add dQ to memory;  wait for dK
//
// (DelaySums.cpp puts that off to the next step, whose registers then hold P
// once, rounded: dS is made of what dV's product takes.)
//
// One fragment goes from the first map to the second, in the registers of S.
// ptxas keeps memory operations in order with waits, but not arithmetic: what
// holds the exponentials where they are is the product that takes them, or, of
// gradients over keys, which have none, a tile_gpu.hold.
//===----------------------------------------------------------------------===//

#include "OrderStep.h"
#include "attn/Analysis/AheadRules.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Transforms/RegionUtils.h"

using namespace mlir;
using namespace mlir::tile_gpu;

void tile_gpu::countPending(Block *block) {
  SmallVector<Value> inFlight;
  for (Operation &op : *block) {
    if (auto issue = dyn_cast<MmaIssueOp>(op))
      inFlight.push_back(issue.getToken());
    auto wait = dyn_cast<MmaWaitOp>(op);
    if (!wait)
      continue;
    size_t pending = inFlight.size();
    for (auto [number, token] : llvm::enumerate(inFlight))
      if (llvm::is_contained(wait.getTokens(), token))
        pending = inFlight.size() - 1 - number;
    wait.setPending(pending);
    llvm::erase_if(inFlight, [&](Value token) {
      return llvm::is_contained(wait.getTokens(), token);
    });
  }
}

namespace {
/// Orders the step around one map.
class Orderer {
public:
  Orderer(MapOp map, bool delay)
      : map(map), block(map->getBlock()), delay(delay),
        rewriter(map.getContext()) {}
  bool run();

private:
  bool findProducts();
  bool findCut();
  bool holdsCrossing();
  bool collect(Operation *op, Operation *before,
               SmallVectorImpl<Operation *> &moved);
  SmallVector<unsigned> inputsOf(ArrayRef<Value> yields, Value known);
  MapOp build(ArrayRef<Value> yields, Operation *before, Value crossing);
  SmallVector<Operation *> loadsOf(MapOp part);
  MmaWaitOp waitOf(MmaIssueOp issue) {
    return issue.getToken().hasOneUse()
               ? dyn_cast<MmaWaitOp>(*issue.getToken().user_begin())
               : MmaWaitOp();
  }

  MapOp map;
  Block *block;
  bool delay;
  IRRewriter rewriter;
  /// The products from zero that the map reads, and by which input.
  MmaWaitOp first, second;
  unsigned firstInput = 0, secondInput = 0;
  /// The product that takes a result of the map, and what packs that.
  struct Late {
    FragConvertOp pack;
    MmaIssueOp issue;
    MmaWaitOp wait;
    /// Gives the weights to other warpgroups, or null; and the products of what
    /// these give, as they are waited for.
    ExchangeOp exchange;
    SmallVector<MmaWaitOp> ahead;
    /// What adds up the result in each row.
    SmallVector<ReduceOp> sums;
  };
  /// What the map yields for it.
  Value yieldOf(Late &one) {
    auto result = cast<OpResult>(one.pack.getValue());
    return map.getBody().front().getTerminator()->getOperand(
        result.getResultNumber());
  }
  bool exchanges() const {
    return llvm::any_of(late,
                        [](const Late &one) { return bool(one.exchange); });
  }
  bool moveAhead();
  Value maskCrossing(ArrayRef<Value> early, ArrayRef<Value> rest);
  void readAhead(ArrayRef<Operation *> loads);
  void issueBehindFirst();
  SmallVector<Operation *> splitMap();
  void hoistExchanged(Late &one);
  void waitBehindIssues(Operation *lastIssue);
  void addAhead(Late &one);
  void releaseAfterWeights(ArrayRef<Operation *> reads);
  SmallVector<Late> late;
  /// Those of the first map's results, and those of the second one's.
  SmallVector<Late *> behindFirst, behindSecond;
  /// What depends on the second product, and the one value of the first that it
  /// reads.
  DenseSet<Value> ofFirst, ofSecond;
  Value crossing;
};
} // namespace

/// Arguments of a map's body ahead of those for its inputs.
static constexpr unsigned positions = 2;

/// The product whose sums a branch of `block` is given alone, and makes `input`
/// of: those of a table by distance, with an element for each or one for all.
static MmaWaitOp productOf(Value input, Block *block) {
  auto wait = input.getDefiningOp<MmaWaitOp>();
  auto branch = input.getDefiningOp<scf::IfOp>();
  if (!branch)
    return wait && input.hasOneUse() ? wait : MmaWaitOp();
  SetVector<Value> read;
  getUsedValuesDefinedAbove(branch->getRegions(), read);
  for (Value value : read)
    if (auto other = value.getDefiningOp<MmaWaitOp>()) {
      if (wait)
        return {};
      wait = other;
    }
  bool isAlone = wait && branch->getBlock() == block && branch->hasOneUse() &&
                 llvm::all_of(wait->getUsers(), [&](Operation *user) {
                   return block->findAncestorOpInBlock(*user) == branch;
                 });
  return isAlone ? wait : MmaWaitOp();
}

bool Orderer::findProducts() {
  for (auto [number, input] : llvm::enumerate(map.getInputs())) {
    if (!isa<FragType>(input.getType()))
      continue;
    MmaWaitOp wait = productOf(input, block);
    if (!wait || wait->getBlock() != block || wait.getTokens().size() != 1 ||
        second)
      return false;
    auto issue = wait.getTokens().front().getDefiningOp<MmaIssueOp>();
    if (!issue || issue.getAcc() || issue->getBlock() != block)
      return false;
    (first ? second : first) = wait;
    (second ? secondInput : firstInput) = number;
  }
  if (!second)
    return false;
  auto issueOf = [](MmaWaitOp wait) {
    return wait.getTokens().front().getDefiningOp();
  };
  if (issueOf(second)->isBeforeInBlock(issueOf(first))) {
    std::swap(first, second);
    std::swap(firstInput, secondInput);
  }
  // It is waited for behind what the other one becomes.
  if (map.getInputs()[secondInput].getDefiningOp() != second)
    return false;
  for (OpResult result : map->getResults()) {
    FragConvertOp pack;
    SmallVector<ReduceOp> sums;
    for (Operation *user : result.getUsers()) {
      if (user->getBlock() != block)
        return false;
      if (auto sum = dyn_cast<ReduceOp>(user);
          sum && llvm::all_of(sum->getOperands(), [&](Value operand) {
            return operand == result || operand.getParentBlock() != block;
          }))
        sums.push_back(sum);
      else if (auto packed = dyn_cast<FragConvertOp>(user); packed && !pack)
        pack = packed;
      else
        return false;
    }
    if (!pack)
      return false;
    MmaIssueOp issue;
    ExchangeOp exchange;
    for (Operation *user : pack->getUsers()) {
      if (user->getBlock() != block)
        return false;
      if (auto given = dyn_cast<ExchangeOp>(user); given && !exchange)
        exchange = given;
      else if (auto taken = dyn_cast<MmaIssueOp>(user);
               taken && !issue && taken.getA() == pack)
        issue = taken;
      else
        return false;
    }
    if (!issue)
      return false;
    MmaWaitOp wait = waitOf(issue);
    if (!wait || wait->getBlock() != block || wait.getTokens().size() != 1)
      return false;
    late.push_back({pack, issue, wait, exchange, {}, sums});
  }
  llvm::sort(late, [](const Late &a, const Late &b) {
    return a.issue->isBeforeInBlock(b.issue);
  });
  // Nothing but releases, and what is behind all, comes behind a wait.
  for (const Late &one : late)
    for (Operation *user : one.wait->getUsers())
      if (Operation *here = block->findAncestorOpInBlock(*user);
          here && here->isBeforeInBlock(late.back().wait))
        return false;
  return true;
}

/// Finds what the part of the second product reads of the first one's.
bool Orderer::findCut() {
  Block &body = map.getBody().front();
  ofFirst.insert(body.getArgument(positions + firstInput));
  ofSecond.insert(body.getArgument(positions + secondInput));
  llvm::SmallSetVector<Value, 4> cut;
  for (Operation &op : body) {
    if (op.getNumRegions())
      return false;
    auto readsAny = [&](const DenseSet<Value> &values) {
      return llvm::any_of(op.getOperands(),
                          [&](Value v) { return values.contains(v); });
    };
    bool isLate = readsAny(ofSecond);
    if (isLate && !op.hasTrait<OpTrait::IsTerminator>())
      for (Value operand : op.getOperands())
        if (ofFirst.contains(operand) && !ofSecond.contains(operand))
          cut.insert(operand);
    for (Value result : op.getResults()) {
      if (isLate)
        ofSecond.insert(result);
      else if (readsAny(ofFirst))
        ofFirst.insert(result);
    }
  }
  // A condition is made again of the value that is there for it.
  if (cut.size() == 2)
    for (Value value : cut)
      if (auto compare = value.getDefiningOp<arith::CmpFOp>()) {
        Value left = compare.getLhs();
        if (left != value && llvm::is_contained(cut, left) &&
            !ofFirst.contains(compare.getRhs())) {
          cut.remove(value);
          ofFirst.erase(value);
          break;
        }
      }
  if (cut.size() != 1 || !cut.front().getType().isF32() ||
      isa<BlockArgument>(cut.front()))
    return false;
  crossing = cut.front();
  return true;
}

/// Whether registers hold what goes from the first map to the second one: what
/// a product takes as well, or what a mask makes of it; else (of weights that
/// were dropped out) both, beside the sums and what the second product makes.
/// Of what weights are multiplied by, as the slope of a cap, they hold the
/// weights as the product takes them.
bool Orderer::holdsCrossing() {
  auto isCrossing = [&](Value value) {
    auto masked = value.getDefiningOp<arith::SelectOp>();
    return value == crossing || (masked && masked.getTrueValue() == crossing);
  };
  Operation *yield = map.getBody().front().getTerminator();
  if (llvm::any_of(yield->getOperands(), isCrossing))
    return true;
  auto registersOf = [](MmaWaitOp wait) {
    return cast<FragType>(wait.getResult(0).getType()).getRegisters();
  };
  auto scaled = crossing.getDefiningOp<arith::MulFOp>();
  int64_t held = 2 * registersOf(first);
  for (Late &one : late) {
    held += registersOf(one.wait);
    Value weight = yieldOf(one);
    if (ofSecond.contains(weight))
      continue;
    // A product of the step before has registers, too.
    bool isNarrow = scaled && !(delay && exchanges()) &&
                    llvm::is_contained(scaled.getOperands(), weight);
    held += isNarrow ? cast<FragType>(one.pack.getType()).getRegisters()
                     : registersOf(first);
  }
  return held <= ::attn::aheadRules().crossingRegisters;
}

/// Whether `op` may come ahead of what lies between `before` and it. Products
/// and slots name what they wait for, and tile-gpu-verify-async checks that;
/// what reads memory stays behind what writes some.
static bool mayPass(Operation *op, Operation *before) {
  auto onlyReads = [](Operation *op) {
    auto effects = getEffectsRecursively(op);
    return effects && llvm::all_of(*effects, [](const auto &effect) {
             return isa<MemoryEffects::Read>(effect.getEffect());
           });
  };
  if (isMemoryEffectFree(op) || isa<MmaIssueOp, RingWaitOp>(op))
    return true;
  if (!onlyReads(op))
    return false;
  for (Operation *passed = before; passed != op; passed = passed->getNextNode())
    if (!isa<MmaIssueOp, MmaWaitOp, RingWaitOp, RingReleaseOp>(passed) &&
        !onlyReads(passed))
      return false;
  return true;
}

/// The operations of the block from `before` on that `op` needs there, `op`
/// included, in their order; false where one of them must stay.
bool Orderer::collect(Operation *op, Operation *before,
                      SmallVectorImpl<Operation *> &moved) {
  if (op->getBlock() != block || op->isBeforeInBlock(before) ||
      llvm::is_contained(moved, op))
    return true;
  if (op == before || isa<MmaWaitOp>(op) || !mayPass(op, before))
    return false;
  SetVector<Value> values(op->getOperands().begin(), op->getOperands().end());
  getUsedValuesDefinedAbove(op->getRegions(), values);
  for (Value value : values)
    if (Operation *def = value.getDefiningOp();
        def && !collect(def, before, moved))
      return false;
  moved.push_back(op);
  return true;
}

/// The inputs of the map that `yields` are computed from, but for what comes
/// by way of `known`.
SmallVector<unsigned> Orderer::inputsOf(ArrayRef<Value> yields, Value known) {
  SetVector<Value> values(yields.begin(), yields.end());
  for (size_t i = 0; i < values.size(); ++i)
    if (Operation *def = values[i].getDefiningOp();
        def && values[i] != known && def->getBlock() == &map.getBody().front())
      values.insert_range(def->getOperands());
  SmallVector<unsigned> inputs;
  for (unsigned i = 0, e = map.getInputs().size(); i < e; ++i)
    if (values.contains(map.getBody().getArgument(positions + i)))
      inputs.push_back(i);
  return inputs;
}

/// A map of some yields of this one, on its inputs and what `crossing` is in
/// memory of registers.
MapOp Orderer::build(ArrayRef<Value> yields, Operation *before,
                     Value crossing) {
  Block &body = map.getBody().front();
  SmallVector<unsigned> inputs =
      inputsOf(yields, crossing ? this->crossing : Value());
  SmallVector<Value> values;
  SmallVector<Type> types(yields.size(), first.getResult(0).getType());
  for (unsigned input : inputs)
    values.push_back(map.getInputs()[input]);
  if (crossing)
    values.push_back(crossing);
  rewriter.setInsertionPoint(before);
  auto part = MapOp::create(rewriter, map.getLoc(), types, values);
  Block *block = rewriter.createBlock(&part.getBody());
  IRMapping mapping;
  auto add = [&](Value like) {
    mapping.map(like, block->addArgument(like.getType(), map.getLoc()));
  };
  for (unsigned i = 0; i < positions; ++i)
    add(body.getArgument(i));
  for (unsigned input : inputs)
    add(body.getArgument(positions + input));
  if (crossing) {
    Value own = block->addArgument(
        cast<FragType>(crossing.getType()).getElementType(), map.getLoc());
    if (!own.getType().isF32())
      own = arith::ExtFOp::create(rewriter, map.getLoc(), rewriter.getF32Type(),
                                  own);
    mapping.map(this->crossing, own);
  }
  std::function<Value(Value)> get = [&](Value value) -> Value {
    if (Value known = mapping.lookupOrNull(value))
      return known;
    Operation *def = value.getDefiningOp();
    if (!def || def->getBlock() != &body)
      return value;
    for (Value operand : def->getOperands())
      get(operand);
    rewriter.clone(*def, mapping);
    return mapping.lookup(value);
  };
  rewriter.setInsertionPointToEnd(block);
  SmallVector<Value> results = llvm::map_to_vector(yields, get);
  YieldOp::create(rewriter, map.getLoc(), results);
  return part;
}

/// Of select(mask, x, 0), where the mask has made the weight 0 as well,
/// select(weight != 0, x, 0), which asks for no position; or x, where that is
/// what x is.
static Value maskedByWeight(Value value, Value weight) {
  auto isZero = [](Value zero) { return matchPattern(zero, m_AnyZeroFloat()); };
  auto masked = value.getDefiningOp<arith::SelectOp>();
  if (!masked || !isZero(masked.getFalseValue()))
    return value;
  if (auto inner = masked.getTrueValue().getDefiningOp<arith::SelectOp>())
    if (auto some = inner.getCondition().getDefiningOp<arith::CmpFOp>();
        some && isZero(inner.getFalseValue()) && some.getLhs() == weight &&
        some.getPredicate() == arith::CmpFPredicate::UNE &&
        isZero(some.getRhs()))
      return inner;
  OpBuilder b(masked);
  Location loc = masked.getLoc();
  Value some = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNE, weight,
                                     masked.getFalseValue());
  return arith::SelectOp::create(b, loc, some, masked.getTrueValue(),
                                 masked.getFalseValue());
}

/// The products of what is exchanged come ahead of the one that takes the same
/// weights.
void Orderer::hoistExchanged(Late &one) {
  SmallVector<MmaIssueOp> issues;
  for (Operation *user : one.exchange.getRing().getUsers())
    if (auto slot = dyn_cast<RingWaitOp>(user);
        slot && slot->getBlock() == block &&
        one.exchange->isBeforeInBlock(slot))
      for (Operation &op : llvm::make_range(slot->getIterator(), block->end()))
        if (auto issue = dyn_cast<MmaIssueOp>(op);
            issue && !issue.getAcc() && one.issue->isBeforeInBlock(issue))
          issues.push_back(issue);
  for (MmaIssueOp issue : issues) {
    MmaWaitOp wait = waitOf(issue);
    SmallVector<Operation *> moved;
    if (!wait || wait->getBlock() != block || wait.getTokens().size() != 1 ||
        !collect(issue, one.issue, moved))
      continue;
    for (Operation *op : moved)
      op->moveBefore(one.issue);
    one.ahead.push_back(wait);
  }
}

/// What is added to memory, or given to who adds it, is so while the last
/// product runs.
void Orderer::addAhead(Late &one) {
  for (MmaWaitOp wait : one.ahead) {
    wait->moveBefore(one.wait);
    for (Operation *user : llvm::make_early_inc_range(wait->getUsers())) {
      SetVector<Operation *> moved;
      std::function<bool(Operation *)> add = [&](Operation *op) {
        if (op->getBlock() != block || op->isBeforeInBlock(one.wait))
          return true;
        if (op == one.wait || (op != user && !isPure(op)))
          return false;
        for (Value operand : op->getOperands())
          if (Operation *def = operand.getDefiningOp(); def && !add(def))
            return false;
        moved.insert(op);
        return true;
      };
      if (isa<GlobalReduceOp>(user) && add(user))
        for (Operation *op : moved)
          op->moveBefore(one.wait);
      for (Operation *op : handOverOf(user))
        op->moveBefore(one.wait);
    }
  }
}

/// Moves ahead of the first product's wait what the maps, and the products of
/// what the first map makes, need; false where some of that must stay.
bool Orderer::moveAhead() {
  SmallVector<Operation *> ahead;
  if (!collect(second.getTokens().front().getDefiningOp(), first, ahead))
    return false;
  // What the maps read from above.
  SetVector<Value> above;
  getUsedValuesDefinedAbove(map.getBody(), above);
  for (Value value : above)
    if (Operation *def = value.getDefiningOp();
        def && !collect(def, first, ahead))
      return false;
  for (Late &one : late) {
    if (ofSecond.contains(yieldOf(one))) {
      behindSecond.push_back(&one);
      continue;
    }
    if (!one.sums.empty())
      return false;
    behindFirst.push_back(&one);
    // Its product comes before the second map.
    for (Value operand : {Value(one.issue.getB()), Value(one.issue.getAcc())})
      if (Operation *def = operand ? operand.getDefiningOp() : nullptr;
          def && !collect(def, first, ahead))
        return false;
  }
  for (Operation *op : ahead)
    op->moveBefore(first);
  return true;
}

/// What the second map reads of the first one. Where its results are masked,
/// that may be masked alike.
Value Orderer::maskCrossing(ArrayRef<Value> early, ArrayRef<Value> rest) {
  Value masked = crossing;
  for (Value value : early)
    if (auto select = value.getDefiningOp<arith::SelectOp>();
        select && select.getTrueValue() == crossing &&
        llvm::all_of(rest, [&](Value other) {
          auto own = other.getDefiningOp<arith::SelectOp>();
          return own && own.getCondition() == select.getCondition() &&
                 !ofFirst.contains(own.getFalseValue());
        }))
      masked = value;
  return masked;
}

/// What a map reads of columns is on its way before its product is waited for,
/// where registers hold it so long: beside exchanged weights before the second
/// product is issued.
void Orderer::readAhead(ArrayRef<Operation *> loads) {
  Operation *issue = second.getTokens().front().getDefiningOp();
  for (Operation *load : loads) {
    Operation *slot = load->getOperand(0).getDefiningOp();
    bool isThere =
        !slot || slot->getBlock() != block || slot->isBeforeInBlock(issue);
    load->moveBefore(exchanges() && isThere ? issue : first.getOperation());
  }
}

void Orderer::issueBehindFirst() {
  for (Late *one : behindFirst) {
    one->pack->moveBefore(map);
    one->issue->moveBefore(map);
  }
}

/// Makes two maps of one, and issues what takes their results; says what they
/// read of shared memory.
SmallVector<Operation *> Orderer::splitMap() {
  auto yieldOfLate = [&](Late *one) { return yieldOf(*one); };
  SmallVector<Value> early = llvm::map_to_vector(behindFirst, yieldOfLate);
  SmallVector<Value> rest = llvm::map_to_vector(behindSecond, yieldOfLate);
  Value masked = maskCrossing(early, rest);
  // A mask that has made the weight 0 need not be there twice.
  if (masked != crossing &&
      matchPattern(masked.getDefiningOp<arith::SelectOp>().getFalseValue(),
                   m_AnyZeroFloat()))
    for (Value &value : rest)
      value = maskedByWeight(value, crossing);
  unsigned crossed = llvm::find(early, masked) - early.begin();
  if (crossed == early.size())
    early.push_back(crossing);
  MapOp a = build(early, map, Value());
  for (auto [number, one] : llvm::enumerate(behindFirst))
    one->pack.getValueMutable().assign(a.getResult(number));
  // Of more columns than these, registers hold no weights beside those that a
  // product has, where others have to be exchanged.
  bool isShort =
      isShortStep(cast<FragType>(first.getResult(0).getType()).getCols());
  // A product of the step before takes the registers of weights that are there
  // once more, rounded, for a product.
  bool unpacks = delay && exchanges() && crossed < behindFirst.size();
  bool holdsWeights = isShort || !exchanges() || unpacks;
  SmallVector<Operation *> reads = loadsOf(a);
  if (holdsWeights) {
    issueBehindFirst();
    readAhead(reads);
  }
  second->moveBefore(map);
  // No product takes what the first map makes, and holds it there.
  if (behindFirst.empty() && !a->getResults().empty()) {
    rewriter.setInsertionPoint(second);
    HoldOp::create(rewriter, second.getLoc(), a.getResults(), /*all=*/true);
  }
  if (!rest.empty()) {
    MapOp c = build(rest, map,
                    unpacks ? Value(behindFirst[crossed]->pack)
                            : Value(a.getResult(crossed)));
    // What is read for that comes behind the second product where a product of
    // the step before has the registers, but for short steps that add it to
    // memory from there.
    bool adds = !block->getOps<GlobalReduceOp>().empty();
    bool isEarly = holdsWeights && (!unpacks || (isShort && adds));
    for (Operation *load : loadsOf(c)) {
      load->moveBefore(isEarly ? second.getOperation() : c.getOperation());
      reads.push_back(load);
    }
    for (auto [number, one] : llvm::enumerate(behindSecond)) {
      // Summed here, registers are free for what is issued behind it.
      for (ReduceOp sum : one->sums) {
        sum->replaceUsesOfWith(one->pack.getValue(), c.getResult(number));
        sum->moveAfter(c);
      }
      one->pack.getValueMutable().assign(c.getResult(number));
    }
  }
  if (!holdsWeights)
    issueBehindFirst();
  rewriter.eraseOp(map);
  return reads;
}

/// All are issued before one is waited for; slots go back behind that.
void Orderer::waitBehindIssues(Operation *lastIssue) {
  SmallVector<Operation *> waits, releases;
  for (Late *one : llvm::concat<Late *>(behindFirst, behindSecond))
    waits.push_back(one->wait);
  Operation *lastWait = waits.front();
  for (Operation *wait : waits)
    if (lastWait->isBeforeInBlock(wait))
      lastWait = wait;
  for (Operation &op : *block)
    if (isa<RingReleaseOp>(op) && second->isBeforeInBlock(&op) &&
        op.isBeforeInBlock(lastWait))
      releases.push_back(&op);
  Operation *point =
      lastIssue->isBeforeInBlock(lastWait) ? lastWait : lastIssue;
  for (Operation *op : llvm::concat<Operation *>(waits, releases)) {
    if (op != point)
      op->moveAfter(point);
    point = op;
  }
}

/// Of what was read of a slot that is given back, the weights are left.
void Orderer::releaseAfterWeights(ArrayRef<Operation *> reads) {
  SmallVector<Value> weights;
  for (Late *one : llvm::concat<Late *>(behindFirst, behindSecond))
    weights.push_back(one->pack);
  for (Operation *op = second; op; op = op->getNextNode())
    if (auto release = dyn_cast<RingReleaseOp>(op);
        release && !release.getAfter().empty() &&
        llvm::all_of(release.getAfter(), [&](Value value) {
          return llvm::is_contained(reads, value.getDefiningOp());
        }))
      release.getAfterMutable().assign(weights);
}

bool Orderer::run() {
  if (!findProducts() || !findCut() || !holdsCrossing() || !moveAhead())
    return false;
  SmallVector<Operation *> reads = splitMap();
  Operation *lastIssue = late.front().issue;
  for (const Late &one : late)
    if (lastIssue->isBeforeInBlock(one.issue))
      lastIssue = one.issue;
  for (Late &one : late)
    if (one.exchange) {
      one.exchange->moveAfter(one.pack);
      hoistExchanged(one);
    }
  waitBehindIssues(lastIssue);
  for (Late &one : late)
    addAhead(one);
  releaseAfterWeights(reads);
  countPending(block);
  return true;
}

/// The reads of shared memory that a map has inputs from.
SmallVector<Operation *> Orderer::loadsOf(MapOp part) {
  SmallVector<Operation *> loads;
  for (Value input : part.getInputs())
    if (auto load = input.getDefiningOp<VecLoadOp>();
        load && load->getBlock() == block)
      loads.push_back(load);
  return loads;
}

SmallVector<Operation *> tile_gpu::handOverOf(Operation *user) {
  auto store = dyn_cast<FragStoreOp>(user);
  auto slot =
      store ? store.getTile().getDefiningOp<RingAcquireOp>() : RingAcquireOp();
  if (!slot || slot->getBlock() != user->getBlock())
    return {};
  for (Operation *other : slot.getRing().getUsers())
    if (auto commit = dyn_cast<RingCommitOp>(other);
        commit && commit->getBlock() == user->getBlock() &&
        commit.getCounter() == slot.getCounter())
      return {slot, store, commit};
  return {};
}

unsigned tile_gpu::orderSteps(KernelOp kernel, bool delay) {
  SmallVector<MapOp> maps;
  kernel.walk([&](MapOp map) {
    if (!stageOf(map))
      maps.push_back(map);
  });
  return llvm::count_if(maps,
                        [&](MapOp map) { return Orderer(map, delay).run(); });
}
