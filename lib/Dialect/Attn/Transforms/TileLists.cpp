//===- TileLists.cpp - Key tiles that a kernel before has listed ----------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A mask that reads memory has live tiles anywhere, which kernels before this
// one have found (KeyLists.cpp). The reduction visits the tiles of its list:
//
//   whole   every element is live: no test at all
//   masked  elements are tested, and the values of keys that are dead in every
//           row are cleared; which these are the list says, so that the parts
//           of a block need not exchange what each has found.
//
//===----------------------------------------------------------------------===//

#include "TileKernel.h"
#include "attn/Analysis/Laws.h"
#include "attn/Analysis/OnChip.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::attn;

/// Whether `index` is `position` itself, but for casts, a distance and limits
/// that are the same for all elements, for which `parts` has no entry.
static bool countsAs(Value index, Value position,
                     const llvm::DenseMap<Value, unsigned> &parts) {
  while (Operation *op = index.getDefiningOp()) {
    if (isa<arith::IndexCastOp, arith::IndexCastUIOp, arith::ExtSIOp,
            arith::ExtUIOp, arith::TruncIOp>(op)) {
      index = op->getOperand(0);
      continue;
    }
    if (!isa<arith::AddIOp, arith::SubIOp, arith::MinSIOp, arith::MaxSIOp>(op))
      break;
    bool isFirst = parts.lookup(op->getOperand(1)) == 0;
    if (!isFirst && parts.lookup(op->getOperand(0)) != 0)
      break;
    index = op->getOperand(isFirst ? 0 : 1);
  }
  return index == position;
}

/// Whether `region`, whose arguments from `positions` on are b, h, i, j, reads
/// an element of each pair of a row and a key.
static bool readsPairs(Region &region, unsigned positions) {
  if (region.empty())
    return false;
  Value row = region.getArgument(positions + 2);
  Value key = region.getArgument(positions + 3);
  // What depends on the row or the key.
  llvm::DenseMap<Value, unsigned> parts = {{row, 1}, {key, 1}};
  bool found = false;
  region.walk([&](Operation *inner) {
    bool depends = llvm::any_of(inner->getOperands(),
                                [&](Value x) { return parts.lookup(x) != 0; });
    for (Value result : inner->getResults())
      parts[result] = depends;
    if (auto extract = dyn_cast<tensor::ExtractOp>(inner)) {
      auto isReached = [&](Value position) {
        return llvm::any_of(extract.getIndices(), [&](Value index) {
          return countsAs(index, position, parts);
        });
      };
      found |= isReached(row) && isReached(key);
    }
  });
  return found;
}

bool mlir::attn::readsPairs(ReductionOpInterface op) {
  return ::readsPairs(op.getMaskBody(), 0);
}

bool mlir::attn::scoresReadPairs(ReductionOpInterface op) {
  return ::readsPairs(op.getScoreBody(), op.getQueryOperands().size());
}

/// About how many instructions a mask takes for each pair of a row and a key.
static int64_t countPairOps(Region &region) {
  constexpr unsigned ofRow = 1, ofKey = 2, ofBoth = 3;
  constexpr int64_t opsOfDivision = 4, opsOfAbs = 2;
  llvm::DenseMap<Value, unsigned> parts = {{region.getArgument(2), ofRow},
                                           {region.getArgument(3), ofKey}};
  int64_t count = 0;
  region.walk([&](Operation *inner) {
    unsigned part = 0;
    for (Value operand : inner->getOperands())
      part |= parts.lookup(operand);
    for (Value result : inner->getResults())
      parts[result] = part;
    if (part != ofBoth || inner->hasTrait<OpTrait::IsTerminator>())
      return;
    count += llvm::TypeSwitch<Operation *, int64_t>(inner)
                 .Case<arith::IndexCastOp, arith::IndexCastUIOp, arith::ExtUIOp,
                       arith::ExtSIOp, arith::TruncIOp>([](auto) { return 0; })
                 .Case<arith::DivSIOp, arith::DivUIOp, arith::RemSIOp,
                       arith::RemUIOp, arith::FloorDivSIOp, arith::CeilDivSIOp,
                       arith::CeilDivUIOp>([&](auto) { return opsOfDivision; })
                 .Case<math::AbsIOp>([&](auto) { return opsOfAbs; })
                 .Default([](auto) { return 1; });
  });
  return count;
}

bool mlir::attn::paysBits(ReductionOpInterface op) {
  // A word of bits takes half an instruction for each of a thread's elements,
  // and its load: masks of a comparison or two are as fast without.
  constexpr int64_t mostOps = 3;
  return readsPairs(op) || countPairOps(op.getMaskBody()) > mostOps;
}

bool mlir::attn::listsBits(ReductionOpInterface op,
                           const ::attn::TargetInfo &target) {
  return op.getScheduleAttribute().getRows() == target.productShape().m &&
         paysBits(op);
}

bool mlir::attn::listsKeyTiles(ReductionOpInterface op, MonoidOp monoid,
                               const ::attn::TargetInfo &target) {
  // Lists change the order of key tiles, by the rows of a tile.
  if (target.isCpu() || !target.hasRoles() || op.isBatchInvariant() ||
      !isa<AggregateOp>(op.getOperation()) || op.hasOwnSizes() ||
      op.getReducedSide() != Side::keys || op.getMaskBody().empty() ||
      monoid.getKind() != MonoidKind::cocycle ||
      ::attn::MaskAnalysis(op.getMaskBody()).facts().hullIsExact)
    return false;
  // Whole tiles come after the others.
  std::shared_ptr<const ::attn::LawReport> laws = ::attn::checkLaws(monoid);
  return monoid.getNumStats() == 0 || (laws && laws->combineCommutes);
}

//===----------------------------------------------------------------------===//
// Listed tiles
//===----------------------------------------------------------------------===//

SmallVector<Value> ReductionKernel::listIndices() {
  return {listsDifferByBatch(reduction) ? batch : index(0),
          listsDifferByHead(reduction) ? head : index(0), queryTile};
}

Value ReductionKernel::listPlace(Value tiles, Value number, bool whole) {
  if (whole)
    return add(number, index(KeyLists::header));
  return sub(sub(dim(tiles, 3), index(1)), number);
}

Value ReductionKernel::loadListed(Value number, Value isWhole) {
  SmallVector<Value> at = listIndices();
  at.push_back(select(isWhole, listPlace(lists.tiles, number, /*whole=*/true),
                      listPlace(lists.tiles, number, /*whole=*/false)));
  return memref::LoadOp::create(b, loc, lists.tiles, at);
}

SmallVector<Value> ReductionKernel::stepListed(Value first, Value number,
                                               Value isRagged,
                                               ValueRange state) {
  KeyTile tile{first, /*masked=*/true};
  if (keyCols() == schedule.getBlockK())
    tile.isRagged = isRagged;
  SmallVector<Value> words;
  for (int64_t w = 0, n = llvm::divideCeil(keyCols(), 32); w < n; ++w) {
    SmallVector<Value> indices = listIndices();
    indices.append({number, index(w)});
    words.push_back(memref::LoadOp::create(b, loc, lists.words, indices));
  }
  tile.live = tile::TruthsOp::create(
      b, loc, tileType(1, keyCols(), b.getI1Type()), words);
  if (lists.bits)
    tile.number = number;
  return step(tile, state);
}

/// Whether a warpgroup's registers hold what the mask reads of keys beside the
/// scores of a tile, their weights and the sums.
bool ReductionKernel::samplesFit() {
  auto samples = mask->getSamples();
  int64_t keySamples =
      llvm::count_if(samples, [](auto &sample) { return sample.onKey; });
  const ::attn::MmaShape &unit = target.productShape();
  auto registers = [&](int64_t cols, int64_t bits) {
    return ::attn::onchip::fragmentRegisters(unit.m, cols, bits, unit.threads);
  };
  ::attn::onchip::StepRegisters held;
  held.scores = registers(keyCols(), 32);
  held.weights = registers(keyCols(), 16);
  // Of each column that a thread has elements of.
  held.samples = keySamples * keyCols() / 4;
  for (Value tensor : reduction.getValueOperands())
    held.sums += registers(paddedChannels(tensor), 32);
  int64_t members = schedule.getBlockQ() / schedule.getRows();
  return !samples.empty() && pipelined() &&
         held.total(target) < ::attn::onchip::stepLimit(members, target);
}

/// What the mask reads of the rows or of the keys of a tile, a load for each
/// of a thread's, is on its way while the scores are computed.
void ReductionKernel::loadSamples(RowBlock &block) {
  if (!lists.tiles || !block.tile.masked || block.tile.number || !samplesFit())
    return;
  for (auto sample : mask->getSamples()) {
    Type type = sample.value.getType();
    if (!type.isInteger(32) && !type.isInteger(1))
      continue;
    auto held = sample.onKey ? tileType(1, keyCols(), type)
                             : tileType(schedule.getRows(), 1, type);
    Value tile =
        map({}, held, [&](Value row, Value col, ValueRange) {
          PointCloner cloner(*this, reduction.getMaskBody(), 0,
                             /*hasKey=*/true, reduction.getCaptureOperands(),
                             pointOf(block, row, col));
          return SmallVector<Value>{cloner.get(sample.value)};
        }).front();
    block.samples.push_back({sample.value, tile});
  }
}

SmallVector<Value> ReductionKernel::withLoaded(const RowBlock &block,
                                               ValueRange first) {
  SmallVector<Value> inputs(first);
  for (auto [value, tile] : block.samples)
    inputs.push_back(tile);
  llvm::append_range(inputs, block.words);
  return inputs;
}

ValueRange ReductionKernel::takeLoaded(RowBlock &block, ValueRange given,
                                       size_t first) {
  ValueRange loaded = given.drop_front(first);
  block.sampled = llvm::to_vector(loaded.take_front(block.samples.size()));
  block.wordsRead = llvm::to_vector(loaded.drop_front(block.samples.size()));
  return given.take_front(first);
}

/// The bits of the rows, as words that are on their way while the scores are
/// computed.
void ReductionKernel::loadBits(RowBlock &block) {
  if (!block.tile.number)
    return;
  SmallVector<Value> indices = listIndices();
  indices.push_back(block.tile.number);
  Value first = toI32(sub(block.firstRow, row0));
  auto held = tileType(schedule.getRows(), 1, b.getI32Type());
  for (int64_t w = 0, n = llvm::divideCeil(keyCols(), 32); w < n; ++w)
    block.words.push_back(map({}, held, [&](Value row, Value, ValueRange) {
                            SmallVector<Value> at(indices);
                            at.append({toIndex(add(first, row)), index(w)});
                            return SmallVector<Value>{
                                memref::LoadOp::create(b, loc, lists.bits, at)};
                          }).front());
}

/// Bit `col` % 32 of word `col` / 32. Of a thread's columns two bits are its
/// own and the others the same in all threads: apart, so that each element
/// takes one test of a constant bit.
Value ReductionKernel::liveByBits(RowBlock &block, Value col) {
  constexpr int64_t own = 6, common = 31 - own;
  auto both = [&](Value x, int64_t mask) -> Value {
    return arith::AndIOp::create(b, loc, x, i32(mask));
  };
  auto shifted = [&](Value x, Value by) -> Value {
    return arith::ShRUIOp::create(b, loc, x, by);
  };
  Value number = shifted(col, i32(5)), mine = both(col, own), word;
  for (auto [w, read] : llvm::enumerate(block.wordsRead)) {
    Value here = shifted(read, mine);
    word =
        word ? select(cmp(arith::CmpIPredicate::eq, number, i32(w)), here, word)
             : here;
  }
  return cmp(arith::CmpIPredicate::ne,
             both(shifted(word, both(col, common)), 1), i32(0));
}
