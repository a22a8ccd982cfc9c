//===- ReadTables.cpp - Entries of tables, some tiles ahead ---------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A copy from pages reads where they lie, and begins when that is there. While
// copies of a multiprocessor fill its way to memory, the answer comes behind
// what was asked for before: later than a tile takes. Here a warp has the next
// entries of its sequence in registers, as many as some tiles have pages:
//
//   now = table[0, n); later = table[n, 2 n)
//   for tile:
//     if all of now are copied: now = later; later = the next n of the table
//     copy the pages that now has of the tile
//
// What is read is wanted some tiles later. Entries that no row needs are read
// as well, up to the table's end, and not looked at.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/TileGPU/IR/TileGPU.h"
#include "attn/Dialect/TileGPU/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"
#include "llvm/Support/FormatVariadic.h"

#define DEBUG_TYPE "tile-gpu-read-tables-ahead"

namespace attn {
#define GEN_PASS_DEF_TILEGPUREADTABLESAHEADPASS
#include "attn/Dialect/TileGPU/Transforms/Passes.h.inc"
} // namespace attn

using namespace mlir;
using namespace mlir::tile_gpu;

/// Entries of a register, of which four lanes have the same one.
static constexpr int64_t ofRegister = 8;

namespace {

/// The copies of one loop, which all begin where the loop is.
class TableLoop {
public:
  explicit TableLoop(scf::ForOp loop) : loop(loop), b(loop) {}
  bool run();

private:
  bool matches(RingLoadOp load);
  bool collect();
  Value read(Value entry);
  Value constant(int64_t value) {
    return arith::ConstantIndexOp::create(b, loop.getLoc(), value);
  }

  scf::ForOp loop;
  OpBuilder b;
  SmallVector<RingLoadOp> copies;
  int64_t page = 0, boxes = 0;
  VecType entries;
  /// How many entries a sequence has.
  Value end;
};

} // namespace

/// Whether a copy takes whole pages from the loop's row on.
bool TableLoop::matches(RingLoadOp load) {
  auto map = dyn_cast<TensorMapType>(load.getSource().getType());
  if (!load.getTable() || !map || load.getEntries())
    return false;
  int64_t rows = load.getTile().getType().getRows();
  APInt step;
  auto row = load.getIndices()[2].getDefiningOp<arith::IndexCastOp>();
  if (load.getPage() != map.getBox().getRows() || !row ||
      row.getIn() != loop.getInductionVar() ||
      !matchPattern(loop.getStep(), m_ConstantInt(&step)) || step != rows ||
      ofRegister % (rows / *load.getPage()) ||
      !loop.isDefinedOutsideOfLoop(load.getIndices().front()) ||
      !loop.isDefinedOutsideOfLoop(load.getTable()))
    return false;
  if (copies.empty())
    return true;
  RingLoadOp first = copies.front();
  return first.getTable() == load.getTable() &&
         first.getPage() == load.getPage() &&
         first.getTile().getType().getRows() == rows &&
         first.getIndices().front() == load.getIndices().front();
}

bool TableLoop::collect() {
  for (auto load : loop.getBody()->getOps<RingLoadOp>())
    if (matches(load))
      copies.push_back(load);
  if (copies.empty())
    return false;
  page = *copies.front().getPage();
  boxes = copies.front().getTile().getType().getRows() / page;
  // What is read is there when four tiles have been copied: memory answers
  // after three where it is busy (docs/performance/gpu-serving.md).
  constexpr int64_t tiles = 4;
  int64_t count = llvm::alignTo(tiles * boxes, 2 * ofRegister);
  entries = VecType::get(loop.getContext(), count, b.getI32Type(), Axis::Row,
                         Scope::Warp, /*partial=*/false);
  return true;
}

/// Entries of the sequence's table from `entry` on, zeros behind its end.
Value TableLoop::read(Value entry) {
  RingLoadOp copy = copies.front();
  Location loc = copy.getLoc();
  entry = arith::IndexCastOp::create(b, loc, b.getI32Type(), entry);
  return GlobalLoadOp::create(b, loc, entries, copy.getTable(),
                              ValueRange{copy.getIndices().front(), entry}, end,
                              /*transposed=*/false, /*permuted=*/0,
                              /*fragment_order=*/false);
}

bool TableLoop::run() {
  if (!collect())
    return false;
  Location loc = loop.getLoc();
  Value rows = constant(page), count = constant(entries.getSize());
  Value zero = constant(0), begin = loop.getLowerBound();
  Value first = arith::DivUIOp::create(b, loc, begin, rows);
  end = memref::DimOp::create(b, loc, copies.front().getTable(), 1);
  end = arith::IndexCastOp::create(b, loc, b.getI32Type(), end);
  SmallVector<Value> initial = {
      read(first), read(arith::AddIOp::create(b, loc, first, count))};
  IRRewriter rewriter(loop.getContext());
  rewriter.setInsertionPoint(loop);
  Value now, later;
  DictionaryAttr attributes = loop->getDiscardableAttrDictionary();
  FailureOr<LoopLikeOpInterface> replaced = loop.replaceWithAdditionalYields(
      rewriter, initial, /*replaceInitOperandUsesInLoop=*/false,
      [&](OpBuilder &, Location, ArrayRef<BlockArgument> arguments) {
        b.setInsertionPointToStart(arguments.front().getOwner());
        Value row = arguments.front().getOwner()->getArgument(0);
        Value done = arith::SubIOp::create(b, loc, row, begin);
        done = arith::DivUIOp::create(b, loc, done, rows);
        Value place = arith::RemUIOp::create(b, loc, done, count);
        auto is = [&](arith::CmpIPredicate predicate, Value x) -> Value {
          return arith::CmpIOp::create(b, loc, predicate, x, zero);
        };
        Value isCopied =
            arith::AndIOp::create(b, loc, is(arith::CmpIPredicate::eq, place),
                                  is(arith::CmpIPredicate::ne, done));
        auto branch = scf::IfOp::create(b, loc, TypeRange{entries, entries},
                                        isCopied, /*withElseRegion=*/true);
        OpBuilder::InsertionGuard guard(b);
        b.setInsertionPointToStart(branch.elseBlock());
        scf::YieldOp::create(b, loc, ValueRange{arguments[0], arguments[1]});
        b.setInsertionPointToStart(branch.thenBlock());
        Value next = arith::DivUIOp::create(b, loc, row, rows);
        next = arith::AddIOp::create(b, loc, next, count);
        scf::YieldOp::create(b, loc, ValueRange{arguments[1], read(next)});
        now = branch.getResult(0);
        later = branch.getResult(1);
        b.setInsertionPointAfter(branch);
        Value from = arith::IndexCastOp::create(b, loc, b.getI32Type(), place);
        for (RingLoadOp copy : copies) {
          copy.getEntriesMutable().assign(now);
          copy.getFirstEntryMutable().assign(from);
        }
        return SmallVector<Value>{now, later};
      });
  if (failed(replaced))
    return false;
  (*replaced)->setDiscardableAttrs(attributes);
  return true;
}

/// Why a role cannot hold two vectors of entries beside what it computes, or
/// nothing. What copies for more warpgroups has fewer registers, and these
/// multiply for longer than memory takes to answer.
static std::string whyNoRoom(RoleOp role) {
  constexpr int64_t least = 40;
  if (role.getScope() != Scope::Warp)
    return "warpgroups copy";
  std::optional<int64_t> registers = role.getRegisters();
  if (registers && *registers < least)
    return llvm::formatv("expected {0} registers for a thread, but got {1}",
                         least, *registers);
  return "";
}

/// Of loops that copy from pages the first of those one behind the other. It
/// has the tiles but for the last ones, whose entries it has read: they are in
/// this multiprocessor's cache.
static SmallVector<scf::ForOp> firstLoops(RoleOp role) {
  SmallVector<scf::ForOp> loops;
  llvm::SmallPtrSet<Block *, 4> blocks;
  role.walk<WalkOrder::PreOrder>([&](scf::ForOp loop) {
    if (llvm::any_of(loop.getBody()->getOps<RingLoadOp>(),
                     [](RingLoadOp load) { return load.getTable(); }) &&
        blocks.insert(loop->getBlock()).second)
      loops.push_back(loop);
  });
  return loops;
}

namespace {
struct ReadTablesAheadPass
    : ::attn::impl::TileGpuReadTablesAheadPassBase<ReadTablesAheadPass> {
  using TileGpuReadTablesAheadPassBase::TileGpuReadTablesAheadPassBase;

  void runOnOperation() final {
    for (auto role : getOperation().getOps<RoleOp>())
      for (scf::ForOp loop : firstLoops(role)) {
        // This pass has been here.
        if (llvm::any_of(loop.getBody()->getOps<RingLoadOp>(),
                         [](RingLoadOp load) { return load.getEntries(); }))
          continue;
        std::string reason = whyNoRoom(role);
        if (reason.empty() && !TableLoop(loop).run())
          reason = "expected tiles of 1, 2, 4 or 8 whole pages from the step's "
                   "row on";
        if (reason.empty()) {
          ++numLoops;
          continue;
        }
        ++numMissed;
        if (explain)
          loop.emitRemark("entries of tables not read ahead: ") << reason;
      }
  }
};
} // namespace
