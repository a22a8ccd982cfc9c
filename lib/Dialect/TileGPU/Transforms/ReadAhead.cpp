//===- ReadAhead.cpp - What a step reads is loaded in the step before -----===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A step may read memory where a number says that the step before has loaded,
// as the bits of a mask of the next tile of a list. Warpgroups take turns with
// products, and what is read is wanted soon behind these: ptxas waits for it
// ahead of the second product, in the turn. Here it is loaded as soon as the
// step before is done with its own:
//
//   for ... iter_args(n, words = load bits[n']) {
//     products;  wait;  use words;  words' = load bits[n'];  rest of the step
//   }
//
// What rows have in memory, and is read behind all loops, is asked for with the
// tiles of a kernel that holds few numbers meanwhile. What keys have, as the
// ids of a mask, is asked for before the wait for their tile.
//===----------------------------------------------------------------------===//

#include "attn/Analysis/AheadRules.h"
#include "attn/Dialect/TileGPU/IR/TileGPU.h"
#include "attn/Dialect/TileGPU/Transforms/Passes.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Transforms/RegionUtils.h"

#define DEBUG_TYPE "tile-gpu-read-ahead"

namespace attn {
#define GEN_PASS_DEF_TILEGPUREADAHEADPASS
#include "attn/Dialect/TileGPU/Transforms/Passes.h.inc"
} // namespace attn

using namespace mlir;
using namespace mlir::tile_gpu;

/// Whether nothing in the kernel writes to `memory`.
static bool isOnlyRead(Value memory) {
  auto argument = dyn_cast<BlockArgument>(memory);
  return argument && isa<KernelOp>(argument.getOwner()->getParentOp()) &&
         llvm::all_of(argument.getUsers(), [](Operation *user) {
           return isa<memref::LoadOp, memref::DimOp>(user);
         });
}

/// Whether a map makes vectors of what such memory has, and does nothing else.
static bool onlyLoads(MapOp map) {
  bool loads = false;
  for (Operation &op : map.getBody().front().without_terminator()) {
    auto load = dyn_cast<memref::LoadOp>(op);
    if (load && isOnlyRead(load.getMemRef()))
      loads = true;
    else if (!isMemoryEffectFree(&op) || op.getNumRegions())
      return false;
  }
  return loads && map.getInputs().empty() &&
         llvm::all_of(map.getResultTypes(), llvm::IsaPred<VecType>);
}

/// Whether the vectors have a number for each row. What is read for each key of
/// a tile may end before the tile does.
static bool isOfRows(MapOp map) {
  return llvm::all_of(map.getResultTypes(), [](Type type) {
    return cast<VecType>(type).getAxis() == Axis::Row;
  });
}

namespace {
/// Maps of one loop, and what they take from the turn before.
class Reader {
public:
  explicit Reader(scf::ForOp loop) : loop(loop), body(loop.getBody()) {}
  bool run();

private:
  bool holds();
  bool collect(Operation *op);
  SmallVector<Value> clone(OpBuilder &b, ValueRange carried);

  scf::ForOp loop;
  Block *body;
  /// The maps, and all operations of the loop that they need, in their order.
  SmallVector<MapOp> maps;
  SetVector<Operation *> needed;
};
} // namespace

/// Notes what `op` needs of the loop; false where that is more than arithmetic
/// on what the loop carries.
bool Reader::collect(Operation *op) {
  if (needed.contains(op))
    return true;
  SetVector<Value> values(op->getOperands().begin(), op->getOperands().end());
  getUsedValuesDefinedAbove(op->getRegions(), values);
  for (Value value : values) {
    if (value == loop.getInductionVar())
      return false;
    Operation *def = value.getDefiningOp();
    if (!def || def->getBlock() != body)
      continue;
    if (!isMemoryEffectFree(def) || def->getNumRegions() || !collect(def))
      return false;
  }
  needed.insert(op);
  return true;
}

/// The maps again, for other values of what the loop carries.
SmallVector<Value> Reader::clone(OpBuilder &b, ValueRange carried) {
  IRMapping mapping;
  mapping.map(loop.getRegionIterArgs(), carried);
  for (Operation *op : needed)
    b.clone(*op, mapping);
  SmallVector<Value> results;
  for (MapOp map : maps)
    for (Value result : map.getResults())
      results.push_back(mapping.lookup(result));
  return results;
}

/// Whether registers hold what is read beside the fragments of a step.
bool Reader::holds() {
  int64_t held = 0;
  for (Value carried : loop.getRegionIterArgs())
    if (auto frag = dyn_cast<FragType>(carried.getType()))
      held += frag.getRegisters();
  for (auto wait : body->getOps<MmaWaitOp>())
    for (auto [token, result] : llvm::zip(wait.getTokens(), wait.getResults()))
      if (auto issue = token.getDefiningOp<MmaIssueOp>();
          issue && !issue.getAcc())
        held += cast<FragType>(result.getType()).getRegisters();
  return held <= ::attn::aheadRules().readRegisters;
}

bool Reader::run() {
  if (body->getOps<MmaIssueOp>().empty() || !holds())
    return false;
  for (auto map : body->getOps<MapOp>()) {
    if (!onlyLoads(map) || !isOfRows(map))
      continue;
    SetVector<Operation *> before = needed;
    if (collect(map))
      maps.push_back(map);
    else
      needed = before;
  }
  // The numbers of the next turn, and where both these and the last reader of
  // what is loaded now are passed.
  auto yield = cast<scf::YieldOp>(body->getTerminator());
  Operation *last = nullptr;
  auto pass = [&](Operation *op) {
    op = op ? body->findAncestorOpInBlock(*op) : nullptr;
    if (op && (!last || last->isBeforeInBlock(op)))
      last = op;
  };
  bool isCarried = false;
  for (Operation *op : needed) {
    SetVector<Value> values(op->getOperands().begin(), op->getOperands().end());
    getUsedValuesDefinedAbove(op->getRegions(), values);
    for (Value value : values)
      if (auto argument = dyn_cast<BlockArgument>(value);
          argument && argument.getOwner() == body) {
        Value next = yield.getOperand(argument.getArgNumber() - 1);
        isCarried |= next != value;
        pass(next.getDefiningOp());
      }
  }
  for (MapOp map : maps)
    for (Operation *user : map->getUsers())
      pass(user);
  if (!isCarried || !last || last == yield)
    return false;

  IRRewriter rewriter(loop.getContext());
  rewriter.setInsertionPoint(loop);
  SmallVector<Value> first = clone(rewriter, loop.getInits());
  rewriter.setInsertionPointAfter(last);
  SmallVector<Value> next = clone(rewriter, yield.getOperands());
  DictionaryAttr attributes = loop->getDiscardableAttrDictionary();
  FailureOr<LoopLikeOpInterface> replaced = loop.replaceWithAdditionalYields(
      rewriter, first, /*replaceInitOperandUsesInLoop=*/false,
      [&](OpBuilder &, Location, ArrayRef<BlockArgument> arguments) {
        size_t taken = 0;
        for (MapOp map : maps)
          for (Value result : map.getResults())
            rewriter.replaceAllUsesWith(result, arguments[taken++]);
        return next;
      });
  if (failed(replaced))
    return false;
  (*replaced)->setDiscardableAttrs(attributes);
  for (Operation *op : llvm::reverse(needed))
    if (op->use_empty())
      rewriter.eraseOp(op);
  return true;
}

/// Copies what a value needs of arithmetic ahead of the builder's place, where
/// `isThere` does not have it; null where it needs more.
static Value copyAhead(OpBuilder &b, Value value, IRMapping &copies,
                       function_ref<bool(Value)> isThere) {
  if (Value copy = copies.lookupOrNull(value))
    return copy;
  if (isThere(value))
    return value;
  Operation *op = value.getDefiningOp();
  if (!op || op->getNumRegions() ||
      !(isMemoryEffectFree(op) || isa<memref::DimOp>(op)))
    return {};
  for (Value operand : op->getOperands())
    if (Value copy = copyAhead(b, operand, copies, isThere))
      copies.map(operand, copy);
    else
      return {};
  b.clone(*op, copies);
  return copies.lookup(value);
}

/// What a map of rows reads, by a map of its own at `place`, where it reads
/// numbers of one kind that nothing writes; false where it does not.
static bool readEarly(MapOp map, Operation *place) {
  Block &body = map.getBody().front();
  auto type = dyn_cast<VecType>(map.getResultTypes().front());
  auto loads = llvm::to_vector(body.getOps<memref::LoadOp>());
  if (!type || type.getAxis() != Axis::Row || type.getPartial() ||
      loads.empty() || !llvm::all_of(loads, [&](memref::LoadOp load) {
        return load.getType() == type.getElementType() &&
               isOnlyRead(load.getMemRef());
      }))
    return false;
  IRRewriter b(map.getContext());
  b.setInsertionPoint(place);
  Location loc = map.getLoc();
  auto early = MapOp::create(b, loc, SmallVector<Type>(loads.size(), type),
                             ValueRange());
  Type i32 = b.getI32Type();
  Block *inner = b.createBlock(&early.getBody(), {}, {i32, i32}, {loc, loc});
  IRMapping copies;
  copies.map(body.getArguments().take_front(2), inner->getArguments());
  auto isThere = [&](Value value) {
    Operation *op = value.getDefiningOp();
    if (!op)
      return value.getParentBlock() != &body;
    Operation *top = place->getBlock()->findAncestorOpInBlock(*op);
    return !top || top->isBeforeInBlock(place);
  };
  SmallVector<Value> read;
  for (memref::LoadOp load : loads) {
    for (Value index : load.getIndices())
      if (!copyAhead(b, index, copies, isThere)) {
        b.eraseOp(early);
        return false;
      }
    read.push_back(b.clone(*load, copies)->getResult(0));
  }
  YieldOp::create(b, loc, read);
  for (auto [load, value] : llvm::zip(loads, early.getResults())) {
    map.getInputsMutable().append(value);
    b.replaceOp(load, body.addArgument(load.getType(), loc));
  }
  return true;
}

/// The same for maps behind the loops of a kernel of warps that hold no
/// fragment from step to step: sums of rows alone.
static unsigned readRowsEarly(ForeachOp items) {
  Block &body = items.getBody().front();
  auto role = items->getParentOfType<RoleOp>();
  auto waits = body.getOps<RingWaitOp>();
  auto loops = body.getOps<scf::ForOp>();
  if (role.getScope() != Scope::Warp || waits.empty() || loops.empty() ||
      llvm::any_of(loops, [](scf::ForOp loop) {
        return llvm::any_of(loop.getResultTypes(), llvm::IsaPred<FragType>);
      }))
    return 0;
  Operation *place = *waits.begin(), *last = nullptr;
  for (scf::ForOp loop : loops)
    last = loop;
  unsigned count = 0;
  for (auto map : llvm::make_early_inc_range(body.getOps<MapOp>()))
    if (last->isBeforeInBlock(map))
      count += readEarly(map, place);
  return count;
}

/// Puts the wait for a slot behind loads of what each key of the tile has,
/// ahead of the slot's first reader: ptxas moves loads down to where they are
/// wanted, behind the product of a first tile, but not across a wait.
static bool waitBehindLoads(RingWaitOp wait) {
  auto isReader = [&](Operation &op) {
    return llvm::any_of(wait->getUsers(),
                        [&](Operation *user) { return op.isAncestor(user); });
  };
  MapOp last;
  for (Operation &op : llvm::make_range(std::next(wait->getIterator()),
                                        wait->getBlock()->end())) {
    auto map = dyn_cast<MapOp>(op);
    bool loads = map && onlyLoads(map);
    if (isReader(op) || !(loads || isMemoryEffectFree(&op)))
      break;
    if (loads && !isOfRows(map))
      last = map;
  }
  if (last)
    wait->moveAfter(last);
  return bool(last);
}

namespace {
struct ReadAheadPass : ::attn::impl::TileGpuReadAheadPassBase<ReadAheadPass> {
  void runOnOperation() final {
    SmallVector<scf::ForOp> loops;
    getOperation().walk([&](scf::ForOp loop) { loops.push_back(loop); });
    for (scf::ForOp loop : loops)
      numLoops += Reader(loop).run();
    getOperation().walk(
        [&](ForeachOp items) { numMaps += readRowsEarly(items); });
    getOperation().walk(
        [&](RingWaitOp wait) { numWaits += waitBehindLoads(wait); });
  }
};
} // namespace
