//===- VerifyAsync.cpp - Products in flight, slots, bulk copies -----------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the assembler and the hardware expect of asynchronous products, as a
// walk over structured control flow that carries the products in flight in
// order of issue. Without this check the assembler serialises the products,
// or two warps race, with no more than a warning.
//
//===----------------------------------------------------------------------===//

#include "VerifyTurns.h"
#include "attn/Dialect/TileGPU/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Dominance.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/LoopLikeInterface.h"

namespace attn {
#define GEN_PASS_DEF_TILEGPUVERIFYASYNCPASS
#include "attn/Dialect/TileGPU/Transforms/Passes.h.inc"
} // namespace attn

using namespace mlir;
using namespace mlir::tile_gpu;

namespace {

/// Where a view of shared memory comes from: a ring slot, or an allocation
/// (then `ring` is null).
struct Source {
  Value root, ring, counter;
};

/// A product in flight.
struct Product {
  Value token;
  Operation *issue;
  SmallVector<Value, 1> a;
  SmallVector<Source, 2> reads;
  /// Issued before the loop that is being walked, and not carried by it.
  bool outer = false;
};

/// A bulk copy that may still read its tile.
struct Copy {
  Source source;
  Operation *op;
  /// How many were issued after it: the fewest of all ways to get here.
  size_t younger = 0;
};

struct State {
  SmallVector<Product> products; // In order of issue.
  SmallVector<Copy> copies;      // One for each operation.
  /// Accumulators that a product has taken, with that product.
  DenseMap<Value, Operation *> taken;
};

class Verifier {
public:
  explicit Verifier(KernelOp func) : func(func), dominance(func) {}
  LogicalResult run();

private:
  LogicalResult walkBlock(Block &block, State &state, Operation *loop);
  LogicalResult walkOp(Operation &op, State &state, Operation *loop);
  LogicalResult walkLoop(LoopLikeOpInterface loop, State &state);
  LogicalResult walkIf(scf::IfOp ifOp, State &state, Operation *loop);
  LogicalResult checkOwned(Operation &op, const State &state);
  LogicalResult checkToken(Value token);
  LogicalResult issue(MmaIssueOp op, State &state, Operation *loop);
  LogicalResult wait(MmaWaitOp op, State &state);
  LogicalResult release(RingReleaseOp op, const State &state);
  LogicalResult releaseOfView(RingReleaseOp op, Value tile, const State &state);
  LogicalResult exchange(Operation *op, Value ring, int64_t allowed,
                         const State &state);
  LogicalResult write(Operation *op, Value tile, const State &state);
  LogicalResult checkProtocol();
  LogicalResult checkGroups(Block &block, SmallVectorImpl<Source> &reads);
  LogicalResult acquireGroup(RingAcquireOp op, ArrayRef<Source> reads);

  KernelOp func;
  DominanceInfo dominance;
};

} // namespace

static bool isExchange(RingCommitOp op) {
  auto create = op.getRing().getDefiningOp<RingCreateOp>();
  return create && create.getFill() == Fill::Exchange;
}

static Source sourceOf(Value tile) {
  while (Operation *op = tile.getDefiningOp()) {
    if (auto transpose = dyn_cast<SmemTransposeOp>(op))
      tile = transpose.getTile();
    else if (auto slice = dyn_cast<SmemSliceOp>(op))
      tile = slice.getTile();
    else if (isa<RingWaitOp, RingViewSlotOp, RingAcquireOp>(op))
      return {tile, op->getOperand(0), op->getOperand(1)};
    else
      break;
  }
  return {tile, Value(), Value()};
}

/// Adds the copies of another way to the same place.
static void join(SmallVectorImpl<Copy> &copies, ArrayRef<Copy> others) {
  for (const Copy &other : others) {
    auto *same = llvm::find_if(
        copies, [&](const Copy &copy) { return copy.op == other.op; });
    if (same == copies.end())
      copies.push_back(other);
    else
      same->younger = std::min(same->younger, other.younger);
  }
}

/// The loop-carried block arguments that `value` becomes.
static SmallVector<Value> carriedAs(Value value) {
  SmallVector<Value> arguments;
  for (OpOperand &use : value.getUses()) {
    auto loop = dyn_cast<LoopLikeOpInterface>(use.getOwner()->getParentOp());
    if (!loop || !use.getOwner()->hasTrait<OpTrait::IsTerminator>())
      continue;
    auto yielded = loop.getYieldedValuesMutable();
    if (!yielded)
      continue;
    for (auto [argument, operand] :
         llvm::zip(loop.getRegionIterArgs(), *yielded))
      if (&operand == &use)
        arguments.push_back(argument);
  }
  return arguments;
}

/// Whether `to` is computed from `from`, through any operations and loops.
static bool reaches(Value from, ValueRange to) {
  DenseSet<Value> seen;
  SmallVector<Value> work = {from};
  auto push = [&](Value value) {
    if (seen.insert(value).second)
      work.push_back(value);
  };
  while (!work.empty()) {
    Value value = work.pop_back_val();
    if (llvm::is_contained(to, value))
      return true;
    for (Value argument : carriedAs(value))
      push(argument);
    for (OpOperand &use : value.getUses()) {
      Operation *op = use.getOwner();
      for (Value result : op->getResults())
        push(result);
      if (op->hasTrait<OpTrait::IsTerminator>())
        for (Value result : op->getParentOp()->getResults())
          push(result);
      if (auto loop = dyn_cast<LoopLikeOpInterface>(op))
        for (auto [argument, init] :
             llvm::zip(loop.getRegionIterArgs(), loop.getInits()))
          if (init == value)
            push(argument);
    }
  }
  return false;
}

//===----------------------------------------------------------------------===//
// Control flow
//===----------------------------------------------------------------------===//

LogicalResult Verifier::run() {
  for (Block &block : func.getBody()) {
    State state;
    if (failed(walkBlock(block, state, nullptr)))
      return failure();
    for (Product &product : state.products)
      return product.issue->emitOpError(
          "expected the product to be waited for before the kernel ends");
  }
  for (auto role : func.getOps<RoleOp>()) {
    SmallVector<Source> reads;
    if (failed(checkGroups(role.getBody().front(), reads)) ||
        failed(verifyTurns(role)))
      return failure();
  }
  return checkProtocol();
}

LogicalResult Verifier::walkBlock(Block &block, State &state, Operation *loop) {
  for (Operation &op : block)
    if (failed(walkOp(op, state, loop)))
      return failure();
  return success();
}

LogicalResult Verifier::walkOp(Operation &op, State &state, Operation *loop) {
  if (failed(checkOwned(op, state)))
    return failure();
  // An A fragment for the next iteration takes the registers of the present
  // one, which a product in flight still reads.
  for (Value result : op.getResults())
    for (Value argument : carriedAs(result))
      for (const Product &product : state.products)
        if (llvm::is_contained(product.a, argument)) {
          InFlightDiagnostic diag = op.emitOpError(
              "computes the next iteration's A fragment while a product reads "
              "this one's; expected it after the product's mma.wait");
          diag.attachNote(product.issue->getLoc()) << "product issued here";
          return diag;
        }

  if (auto issueOp = dyn_cast<MmaIssueOp>(op))
    return issue(issueOp, state, loop);
  if (auto waitOp = dyn_cast<MmaWaitOp>(op))
    return wait(waitOp, state);
  if (auto releaseOp = dyn_cast<RingReleaseOp>(op))
    return release(releaseOp, state);
  if (auto exchangeOp = dyn_cast<ExchangeOp>(op))
    return exchange(exchangeOp, exchangeOp.getRing(),
                    exchangeOp.getRing().getType().getStages() -
                        (exchangeOp.getUncommitted() ? 1 : 2),
                    state);
  if (auto commit = dyn_cast<RingCommitOp>(op); commit && isExchange(commit))
    return exchange(commit, commit.getRing(),
                    commit.getRing().getType().getStages() - 2, state);
  if (auto store = dyn_cast<FragStoreOp>(op))
    return write(store, store.getTile(), state);
  if (auto store = dyn_cast<VecStoreOp>(op))
    return write(store, store.getTile(), state);
  if (auto clear = dyn_cast<SmemClearRowsOp>(op))
    return write(clear, clear.getTile(), state);
  if (auto turn = dyn_cast<SmemTurnOp>(op))
    return write(turn, turn.getTile(), state);
  if (auto map = dyn_cast<SmemMapOp>(op))
    return write(map, map.getTile(), state);
  if (isa<BulkStoreOp, BulkReduceOp>(op)) {
    llvm::erase_if(state.copies, [&](Copy &copy) { return copy.op == &op; });
    for (Copy &copy : state.copies)
      ++copy.younger;
    state.copies.push_back({sourceOf(op.getOperand(0)), &op});
    return success();
  }
  if (auto bulkWait = dyn_cast<BulkWaitOp>(op)) {
    llvm::erase_if(state.copies, [&](Copy &copy) {
      return copy.younger >= bulkWait.getPending();
    });
    return success();
  }
  if (op.getNumRegions() == 0)
    return success();
  if (auto role = dyn_cast<RoleOp>(op)) {
    State own;
    if (failed(walkBlock(role.getBody().front(), own, nullptr)))
      return failure();
    // checkToken: the one use of a token is in its block, or met before.
    assert(own.products.empty() && "a product that is never waited for");
    // Shared memory goes with the block.
    for (Copy &copy : own.copies)
      return copy.op->emitOpError(
          "may still read its tile when the role ends; expected bulk.wait "
          "before");
    return success();
  }
  if (auto ifOp = dyn_cast<scf::IfOp>(op))
    return walkIf(ifOp, state, loop);
  if (isa<scf::ForOp, ForeachOp>(op))
    return walkLoop(cast<LoopLikeOpInterface>(op), state);
  WalkResult nested = op.walk([&](Operation *inner) {
    if (!isa<MmaIssueOp, MmaWaitOp>(inner))
      return WalkResult::advance();
    inner->emitOpError("expected asynchronous products in scf.for, scf.if and "
                       "tile_gpu.foreach only, but got ")
        << op.getName();
    return WalkResult::interrupt();
  });
  return failure(nested.wasInterrupted());
}

LogicalResult Verifier::walkLoop(LoopLikeOpInterface loop, State &state) {
  auto yields = loop.getYieldedValuesMutable();
  auto results = loop.getLoopResults();
  if (!yields || !results)
    return success();
  Block::BlockArgListType arguments = loop.getRegionIterArgs();
  SmallVector<Value> inits = llvm::to_vector(loop.getInits());
  Block &body = loop.getLoopRegions().front()->front();

  for (auto [argument, result, yielded] :
       llvm::zip(arguments, *results, *yields)) {
    if (!isa<TokenType>(argument.getType()))
      continue;
    if (failed(checkToken(argument)) || failed(checkToken(result)))
      return failure();
    auto issued = yielded.get().getDefiningOp<MmaIssueOp>();
    if (issued && !issued.getAcc())
      return issued.emitOpError(
          "starts from zero and is in flight across the end of the loop body; "
          "expected its mma.wait before the end (the assembler serialises such "
          "products)");
  }

  // The products in flight inside: those that stay outside first, which
  // undercounts the younger ones of a carried product, never the reverse.
  auto enter = [&](ArrayRef<Copy> copies) {
    State inner;
    inner.taken = state.taken;
    inner.copies.assign(copies.begin(), copies.end());
    SmallVector<Product> carried;
    for (const Product &product : state.products) {
      auto *init = llvm::find(inits, product.token);
      Product copy = product;
      if (init == inits.end()) {
        copy.outer = true;
        inner.products.push_back(copy);
        continue;
      }
      copy.token = arguments[init - inits.begin()];
      copy.outer = false;
      for (Source &read : copy.reads) // Whose use it is depends on the turn.
        read.counter = Value();
      carried.push_back(copy);
    }
    inner.products.append(carried);
    return inner;
  };

  State inner = enter(state.copies);
  if (failed(walkBlock(body, inner, loop)))
    return failure();
  if (!inner.copies.empty()) {
    SmallVector<Copy> copies = state.copies;
    join(copies, inner.copies);
    inner = enter(copies);
    if (failed(walkBlock(body, inner, loop)))
      return failure();
  }

  SmallVector<Product> after;
  for (Product &product : inner.products) {
    if (product.outer) {
      auto *own = llvm::find_if(state.products, [&](const Product &p) {
        return p.token == product.token;
      });
      after.push_back(*own);
      continue;
    }
    auto *use = llvm::find_if(*yields, [&](OpOperand &operand) {
      return operand.get() == product.token;
    });
    assert(use != yields->end() && "a product that is never waited for");
    product.token = (*results)[use - yields->begin()];
    for (Source &read : product.reads)
      read.counter = Value();
    after.push_back(product);
  }
  state.products = after;
  state.copies = inner.copies;
  state.taken = inner.taken;
  return success();
}

LogicalResult Verifier::walkIf(scf::IfOp ifOp, State &state, Operation *loop) {
  for (Type type : ifOp.getResultTypes())
    if (isa<TokenType>(type))
      return ifOp.emitOpError(
          "expected products to be waited for in the branch "
          "that issued them");
  State entry = state;
  SmallVector<Copy> copies;
  for (Region &region : ifOp->getRegions()) {
    State branch = entry;
    for (Product &product : branch.products)
      product.outer = true;
    if (!region.empty() && failed(walkBlock(region.front(), branch, loop)))
      return failure();
    assert(llvm::all_of(branch.products,
                        [](const Product &p) { return p.outer; }) &&
           "a branch gives no token");
    join(copies, branch.copies);
    for (auto &[value, op] : branch.taken)
      state.taken.try_emplace(value, op);
  }
  state.copies = copies;
  return success();
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

LogicalResult Verifier::checkOwned(Operation &op, const State &state) {
  for (OpOperand &use : op.getOpOperands()) {
    if (Operation *issue = state.taken.lookup(use.get())) {
      InFlightDiagnostic diag =
          op.emitOpError("uses an accumulator that a product has taken; "
                         "expected the result of its mma.wait");
      diag.attachNote(issue->getLoc()) << "product issued here";
      return diag;
    }
    // Two products may read one fragment.
    if (isa<MmaIssueOp>(op) && use.getOperandNumber() == 0)
      continue;
    for (const Product &product : state.products)
      if (llvm::is_contained(product.a, use.get())) {
        InFlightDiagnostic diag =
            op.emitOpError("uses an A fragment that a product in flight reads; "
                           "expected the product's mma.wait before");
        diag.attachNote(product.issue->getLoc()) << "product issued here";
        return diag;
      }
  }
  return success();
}

LogicalResult Verifier::checkToken(Value token) {
  Operation *owner = token.getDefiningOp()
                         ? token.getDefiningOp()
                         : token.getParentBlock()->getParentOp();
  if (token.use_empty())
    return owner->emitOpError("has a token that is never waited for; expected "
                              "one mma.wait");
  if (!token.hasOneUse())
    return owner->emitOpError("has a token with several uses; expected one, by "
                              "an mma.wait or a loop that carries it");
  Operation *user = *token.getUsers().begin();
  bool yielded = user->hasTrait<OpTrait::IsTerminator>() &&
                 isa<scf::ForOp, ForeachOp>(user->getParentOp());
  if (!yielded && !isa<MmaWaitOp, scf::ForOp, ForeachOp>(user))
    return user->emitOpError("uses a token; expected mma.wait or a loop that "
                             "carries it");
  return success();
}

LogicalResult Verifier::issue(MmaIssueOp op, State &state, Operation *loop) {
  if (failed(checkToken(op.getToken())))
    return failure();
  if (Value acc = op.getAcc()) {
    if (loop && !loop->isAncestor(acc.getParentBlock()->getParentOp()))
      return op.emitOpError(
          "takes an accumulator from outside the loop in every iteration; "
          "expected the loop to carry it");
    state.taken[acc] = op;
  }
  Product product{op.getToken(), op, {}, {}};
  for (Value operand : {op.getA(), Value(op.getB())}) {
    if (isa<FragType>(operand.getType()))
      product.a.push_back(operand);
    else
      product.reads.push_back(sourceOf(operand));
  }
  state.products.push_back(product);
  return success();
}

LogicalResult Verifier::wait(MmaWaitOp op, State &state) {
  size_t youngest = 0;
  for (Value token : op.getTokens()) {
    auto *product = llvm::find_if(
        state.products, [&](const Product &p) { return p.token == token; });
    if (product == state.products.end())
      return op.emitOpError("expected the token of a product in flight here");
    if (product->outer)
      return op.emitOpError("waits for a product issued outside this loop or "
                            "branch; expected the loop to carry the token, or "
                            "the wait outside");
    youngest = std::max<size_t>(youngest, product - state.products.begin());
  }
  size_t younger = state.products.size() - 1 - youngest;
  if (op.getPending() > younger)
    return op.emitOpError("expected at most ")
           << younger << " pending, the products issued after the last one "
           << "waited for here, but got " << op.getPending();
  for (Value acc : op.getAccs())
    if (acc.use_empty())
      return op.emitOpError("gives an accumulator that is never read; expected "
                            "a use (the assembler deletes such products)");
  llvm::erase_if(state.products, [&](const Product &p) {
    return llvm::is_contained(op.getTokens(), p.token);
  });
  return success();
}

//===----------------------------------------------------------------------===//
// Slots and copies
//===----------------------------------------------------------------------===//

LogicalResult Verifier::release(RingReleaseOp op, const State &state) {
  bool found = false;
  for (Operation *user : op.getRing().getUsers()) {
    if (!isa<RingWaitOp, RingViewSlotOp>(user) ||
        user->getOperand(1) != op.getCounter() ||
        !dominance.properlyDominates(user, op))
      continue;
    found = true;
    for (Value tile : user->getResults())
      if (failed(releaseOfView(op, tile, state)))
        return failure();
  }
  if (!found)
    return op.emitOpError("expected a ring.wait or ring.view of the same "
                          "counter before");
  // A product that the loop carries reads a use that is not known here.
  for (const Product &product : state.products)
    for (const Source &read : product.reads)
      if (read.ring == op.getRing() &&
          (!read.counter || read.counter == op.getCounter())) {
        InFlightDiagnostic diag = op.emitOpError(
            "releases a slot that a product in flight reads; expected the "
            "product's mma.wait before");
        diag.attachNote(product.issue->getLoc()) << "product issued here";
        return diag;
      }
  for (const Copy &copy : state.copies)
    if (copy.source.ring == op.getRing() &&
        copy.source.counter == op.getCounter()) {
      InFlightDiagnostic diag =
          op.emitOpError("releases a slot that a bulk copy reads; expected "
                         "bulk.wait before");
      diag.attachNote(copy.op->getLoc()) << "copy started here";
      return diag;
    }
  return success();
}

LogicalResult Verifier::releaseOfView(RingReleaseOp op, Value tile,
                                      const State &state) {
  for (Operation *user : tile.getUsers()) {
    if (isa<SmemTransposeOp, SmemSliceOp>(user)) {
      if (failed(releaseOfView(op, user->getResult(0), state)))
        return failure();
      continue;
    }
    if (dominance.properlyDominates(op, user)) {
      InFlightDiagnostic diag =
          user->emitOpError("expected no use of a slot after its release");
      diag.attachNote(op.getLoc()) << "released here";
      return diag;
    }
    if (isa<FragLoadOp, VecLoadOp, MmaSyncOp>(user) &&
        !reaches(user->getResult(0), op.getAfter())) {
      InFlightDiagnostic diag = op.emitOpError(
          "may overtake a read of the slot into registers; expected after(...) "
          "to name a value computed from it");
      diag.attachNote(user->getLoc()) << "read here";
      return diag;
    }
  }
  return success();
}

/// Whether `later` is `earlier` plus 1 to `most`.
static bool follows(Value later, Value earlier, int64_t most) {
  if (auto result = dyn_cast<OpResult>(later)) {
    unsigned i = result.getResultNumber();
    // Of the last turn, or of a loop that made none.
    if (auto loop = dyn_cast<scf::ForOp>(result.getOwner()))
      return loop.getRegionIterArg(i) == earlier
                 ? follows(loop.getYieldedValues()[i], earlier, most)
                 : follows(loop.getInitArgs()[i], earlier, most);
    if (auto branch = dyn_cast<scf::IfOp>(result.getOwner()))
      return follows(branch.thenYield().getOperand(i), earlier, most) &&
             follows(branch.elseYield().getOperand(i), earlier, most);
  }
  auto add = later.getDefiningOp<arith::AddIOp>();
  APInt offset;
  return add && add.getLhs() == earlier &&
         matchPattern(add.getRhs(), m_ConstantInt(&offset)) && offset.sgt(0) &&
         offset.sle(most);
}

LogicalResult Verifier::acquireGroup(RingAcquireOp op, ArrayRef<Source> reads) {
  int64_t others = op.getRing().getType().getStages() - 1;
  for (const Source &read : reads) {
    if (read.ring != op.getRing() ||
        (read.counter && follows(op.getCounter(), read.counter, others)))
      continue;
    InFlightDiagnostic diag =
        op.emitOpError("may fill a slot that other warps still read; expected "
                       "ring.wait or barrier.sync after the last read");
    diag.attachNote(read.root.getLoc()) << "read from here";
    return diag;
  }
  return success();
}

/// Slots of copy groups: `reads` since all warps met last.
LogicalResult Verifier::checkGroups(Block &block,
                                    SmallVectorImpl<Source> &reads) {
  auto isGroup = [](Value ring) {
    auto create = ring ? ring.getDefiningOp<RingCreateOp>() : RingCreateOp();
    return create && create.getFill() == Fill::CpGroup;
  };
  for (Operation &op : block) {
    if (auto acquire = dyn_cast<RingAcquireOp>(op)) {
      if (isGroup(acquire.getRing()) && failed(acquireGroup(acquire, reads)))
        return failure();
      continue;
    }
    if (auto wait = dyn_cast<RingWaitOp>(op); wait && isGroup(wait.getRing()))
      reads.clear();
    if (auto sync = dyn_cast<BarrierSyncOp>(op)) {
      auto barrier = sync.getBarrier().getDefiningOp<BarrierCreateOp>();
      auto role = sync->getParentOfType<RoleOp>();
      if (barrier && role && int64_t(barrier.getWarps()) == role.getWarps())
        reads.clear();
    }
    if (!isa<RingLoadOp, RingWaitOp, SmemTransposeOp, SmemSliceOp>(op))
      for (Value operand : op.getOperands())
        if (isa<SmemType>(operand.getType()))
          if (Source source = sourceOf(operand); isGroup(source.ring))
            reads.push_back(source);
    if (isa<MapOp, ReduceOp, ScanOp, MergeStatesOp>(op))
      continue;
    bool isLoop = isa<LoopLikeOpInterface>(op);
    if (auto items = dyn_cast<ForeachOp>(op)) {
      // A grid has one block for each item.
      auto scheduler = items.getSchedule().getDefiningOp<SchedulerOp>();
      isLoop = !scheduler || scheduler.getKind() != ScheduleKind::Grid;
    }
    SmallVector<Source> after;
    for (Region &region : op.getRegions()) {
      SmallVector<Source> inside(reads.begin(), reads.end());
      if (!region.empty() && failed(checkGroups(region.front(), inside)))
        return failure();
      if (isLoop) {
        // Another turn: uses that the loop numbers are not known any more.
        for (Source &read : inside)
          if (read.counter && region.isAncestor(read.counter.getParentRegion()))
            read.counter = Value();
        if (failed(checkGroups(region.front(), inside)))
          return failure();
      }
      llvm::append_range(after, inside);
    }
    if (op.getNumRegions()) {
      if (isLoop)
        llvm::append_range(after, reads);
      reads.assign(after.begin(), after.end());
    }
  }
  return success();
}

LogicalResult Verifier::exchange(Operation *op, Value ring, int64_t allowed,
                                 const State &state) {
  int64_t readers = 0;
  for (const Product &product : state.products)
    readers += llvm::any_of(
        product.reads, [&](const Source &read) { return read.ring == ring; });
  if (readers <= allowed)
    return success();
  return op->emitOpError("expected at most ")
         << allowed << " product(s) in flight that read this ring of "
         << cast<RingType>(ring.getType()).getStages() << " slots, but got "
         << readers << "; wait for them first, or give the ring more slots";
}

LogicalResult Verifier::write(Operation *op, Value tile, const State &state) {
  Source source = sourceOf(tile);
  for (const Copy &copy : state.copies)
    if (copy.source.root == source.root) {
      InFlightDiagnostic diag = op->emitOpError(
          "writes a tile that a bulk copy reads; expected bulk.wait before");
      diag.attachNote(copy.op->getLoc()) << "copy started here";
      return diag;
    }
  for (const Product &product : state.products)
    for (const Source &read : product.reads)
      if (read.root == source.root) {
        InFlightDiagnostic diag = op->emitOpError(
            "writes a tile that a product in flight reads; expected its "
            "mma.wait before");
        diag.attachNote(product.issue->getLoc()) << "product issued here";
        return diag;
      }
  return success();
}

/// Warps of the roles in which one of `users` of type OpT lies.
template <typename... OpT> static int64_t warpsOf(Value ring) {
  SetVector<Operation *> roles;
  for (Operation *user : ring.getUsers())
    if (isa<OpT...>(user))
      if (auto role = user->getParentOfType<RoleOp>())
        roles.insert(role);
  int64_t warps = 0;
  for (Operation *role : roles)
    warps += cast<RoleOp>(role).getWarps();
  return warps;
}

/// The program of a role is that of all its members: in a ring whose uses they
/// take in turn, each has to count its own, x m + number of the member.
static LogicalResult checkMembers(RingCreateOp ring) {
  std::optional<uint64_t> members = ring.getMembers();
  if (!members)
    return success();
  auto isOwn = [&](Value counter, RoleOp role) {
    auto add = counter.getDefiningOp<arith::AddIOp>();
    if (!add || uint64_t(role.getCount()) != *members)
      return false;
    Value member = role.getBody().getArgument(0);
    Value rest = add.getLhs() == member ? add.getRhs() : add.getLhs();
    auto product = rest.getDefiningOp<arith::MulIOp>();
    APInt factor;
    return (add.getLhs() == member || add.getRhs() == member) && product &&
           matchPattern(product.getRhs(), m_ConstantInt(&factor)) &&
           factor == *members;
  };
  for (Operation *user : ring.getRing().getUsers()) {
    if (!isa<RingWaitOp, RingViewSlotOp, RingReleaseOp>(user))
      continue;
    Value counter = user->getOperand(1);
    auto role = user->getParentOfType<RoleOp>();
    if (!role || !isOwn(counter, role))
      return user->emitOpError("expected a role of ")
             << *members << " members, and the use x * " << *members
             << " + number of the member, of a ring that they take in turn";
  }
  return success();
}

LogicalResult Verifier::checkProtocol() {
  WalkResult result = func.walk([&](Operation *op) {
    if (auto ring = dyn_cast<RingCreateOp>(op)) {
      int64_t releasing = warpsOf<RingReleaseOp>(ring.getRing());
      int64_t consumers =
          ring.getConsumers().value_or(0) * ring.getMembers().value_or(1);
      if (releasing && releasing != consumers) {
        ring.emitOpError("expected the roles that release it to have ")
            << consumers << " warps, but got " << releasing;
        return WalkResult::interrupt();
      }
      if (failed(checkMembers(ring)))
        return WalkResult::interrupt();
      int64_t filling = warpsOf<RingCommitOp, ExchangeOp>(ring.getRing());
      int64_t producers = ring.getProducers().value_or(0);
      if (filling && filling != producers) {
        ring.emitOpError("expected the roles that fill it to have ")
            << producers << " warps, but got " << filling;
        return WalkResult::interrupt();
      }
    }
    if (auto schedule = dyn_cast<SchedulerOp>(op)) {
      int64_t leads = 0;
      for (Operation *user : schedule.getResult().getUsers())
        if (auto loop = dyn_cast<ForeachOp>(user))
          leads += loop.getLead();
      if (leads != 1) {
        schedule.emitOpError("expected one foreach of this schedule to lead, "
                             "but got ")
            << leads;
        return WalkResult::interrupt();
      }
    }
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

namespace {
struct VerifyAsync
    : public ::attn::impl::TileGpuVerifyAsyncPassBase<VerifyAsync> {
  void runOnOperation() override {
    markAllAnalysesPreserved();
    if (failed(Verifier(getOperation()).run()))
      signalPassFailure();
  }
};
} // namespace
