//===- BankConflicts.cpp - Accesses of shared memory ----------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The addresses of the lanes of a warp, access by access, as the lowering makes
// them (lib/Conversion/TileGPUToNVVM/Memory.cpp), and how many cycles the banks
// take for these: 32 banks of 4 bytes, each of which gives one word a cycle.
// Lanes with accesses of 8 and 16 bytes are served in two and four parts, the
// rows of a matrix of ldmatrix and stmatrix as one.
//===----------------------------------------------------------------------===//

#include "Models.h"
#include "attn/Dialect/TileGPU/IR/TileForm.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;
namespace emulator = ::attn::emulator;
using namespace ::attn::emulator;
using ::attn::TargetInfo;
using ::attn::gpu::TileForm;

static constexpr int64_t wordBytes = 4, numBanks = 32, chunkBytes = 16;

/// Cycles for accesses of so many bytes at each address that are served at
/// once.
static int64_t cyclesOf(llvm::ArrayRef<int64_t> addresses, int64_t bytes) {
  llvm::SmallDenseSet<int64_t, 32> words;
  std::array<int64_t, numBanks> perBank = {};
  int64_t most = 0;
  for (int64_t address : addresses)
    for (int64_t at = 0; at < bytes; at += wordBytes) {
      int64_t word = (address + at) / wordBytes;
      if (words.insert(word).second)
        most = std::max(most, ++perBank[size_t(word % numBanks)]);
    }
  return most;
}

/// One instruction of a warp: an address for each lane that takes part.
static void addAccess(SharedCost &cost, llvm::ArrayRef<int64_t> addresses,
                      int64_t bytes) {
  ++cost.instructions;
  cost.bytes += int64_t(addresses.size()) * bytes;
  size_t atOnce = size_t(TargetInfo::warpThreads * wordBytes /
                         std::max<int64_t>(bytes, wordBytes));
  for (size_t i = 0; i < addresses.size(); i += atOnce) {
    auto part = addresses.slice(i, std::min(atOnce, addresses.size() - i));
    cost.wavefronts += cyclesOf(part, bytes);
    ++cost.ideal;
  }
}

/// Matrices of 8 stored rows of 16 bytes, up to four of them by one
/// instruction.
static SharedCost storedMatrixCost(tg::SmemType tile, int64_t rows,
                                   int64_t rowBytes) {
  SharedCost cost;
  TileForm form(tile);
  constexpr int64_t atOnce = 4;
  int64_t matrices = 0;
  for (int64_t row = 0; row + 8 <= rows; row += 8)
    for (int64_t byte = 0; byte + chunkBytes <= rowBytes; byte += chunkBytes) {
      llvm::SmallVector<int64_t, 8> addresses;
      for (int64_t i = 0; i < 8; ++i)
        addresses.push_back(form.offsetOf(row + i, byte));
      cost.wavefronts += cyclesOf(addresses, chunkBytes);
      ++cost.ideal;
      cost.bytes += 8 * chunkBytes;
      ++matrices;
    }
  cost.instructions = (matrices + atOnce - 1) / atOnce;
  return cost;
}

/// Operands of 32 bits that no matrix instruction takes: B along its columns
/// one by one, and in pairs where A is an accumulator (Tf32Loader).
SharedCost emulator::tf32Cost(tg::SmemType tile, bool pairs) {
  SharedCost cost;
  TileForm form(tile);
  int64_t depth = tile.getRows(), cols = tile.getCols(), elementBytes = 4;
  bool alongK = tile.getTransposed();
  for (int64_t col = 0; col < cols; col += 8)
    for (int64_t step = 0; step < depth; step += 8)
      for (int64_t i : {0, 1}) {
        llvm::SmallVector<int64_t, 32> addresses;
        for (int64_t lane = 0; lane < TargetInfo::warpThreads; ++lane) {
          int64_t quad = lane / 4, t = lane % 4;
          int64_t k = step + (pairs ? 2 * t + i : t + 4 * i);
          addresses.push_back(
              alongK ? form.offsetOf(col + quad, k * elementBytes)
                     : form.offsetOf(k, (col + quad) * elementBytes));
        }
        // The pair is one access.
        if (!alongK)
          addAccess(cost, addresses, elementBytes);
        else if (i == 0)
          addAccess(cost, addresses, 2 * elementBytes);
      }
  return cost;
}

SharedCost emulator::matrixCost(tg::SmemType tile, int64_t rows, int64_t cols) {
  if (tile.getTransposed())
    std::swap(rows, cols);
  return storedMatrixCost(tile, rows, cols * tile.getElementBytes());
}

static int64_t rowsOfWarp(tg::FragType frag) {
  return frag.getScope() == tg::Scope::Warpgroup ? frag.getRows() / 4
                                                 : frag.getRows();
}

OpCost emulator::costOf(tg::FragLoadOp op, const TargetInfo &target) {
  OpCost cost;
  tg::FragType frag = op.getResult().getType();
  int64_t rows =
      frag.getLayout() == tg::Layout::B ? frag.getRows() : rowsOfWarp(frag);
  cost.loads = matrixCost(op.getTile().getType(), rows, frag.getCols());
  cost.latency = target.rates.sharedLatency;
  return cost;
}

/// Of an accumulator in registers, into a tile's first rows.
static SharedCost storeCost(tg::FragType frag, tg::SmemType tile,
                            bool transposed, const TargetInfo &target) {
  int64_t rows = rowsOfWarp(frag), cols = frag.getCols();
  bool isWide = frag.getElementType().isF32();
  if (!isWide && target.hasMatrixStore) {
    if (transposed)
      std::swap(rows, cols);
    return storedMatrixCost(tile, rows, cols * tile.getElementBytes());
  }
  // Two neighbours of a row for each lane, of eight rows.
  SharedCost cost;
  TileForm form(tile);
  int64_t elementBytes = isWide ? 4 : 2;
  for (int64_t row = 0; row < rows; row += 8)
    for (int64_t col = 0; col < cols; col += 8) {
      llvm::SmallVector<int64_t, 32> addresses;
      for (int64_t lane = 0; lane < TargetInfo::warpThreads; ++lane)
        addresses.push_back(
            form.offsetOf(row + lane / 4, (col + lane % 4 * 2) * elementBytes));
      addAccess(cost, addresses, 2 * elementBytes);
    }
  return cost;
}

OpCost emulator::costOf(tg::FragStoreOp op, const TargetInfo &target) {
  OpCost cost;
  tg::FragType frag = op.getValue().getType();
  if (!op.getFragmentOrder()) {
    tg::SmemType tile = op.getTile().getType();
    cost.stores = storeCost(frag, tile, tile.getTransposed(), target);
    return cost;
  }
  // 16 bytes of each lane follow each other.
  int64_t words = frag.getRegisters();
  for (int64_t i = 0; i < words; i += 4) {
    llvm::SmallVector<int64_t, 32> addresses;
    int64_t bytes = std::min<int64_t>(4, words) * wordBytes;
    for (int64_t lane = 0; lane < TargetInfo::warpThreads; ++lane)
      addresses.push_back(lane * bytes);
    addAccess(cost.stores, addresses, bytes);
  }
  return cost;
}

OpCost emulator::costOf(tg::ExchangeOp op, const TargetInfo &target) {
  OpCost cost;
  tg::SmemType tile = op.getRing().getType().getTiles().front();
  cost.stores = storeCost(op.getValue().getType(), tile,
                          tile.getTransposed() != op.getTransposed(), target);
  // The fence and the arrival.
  cost.issue = 4;
  return cost;
}

//===----------------------------------------------------------------------===//
// Vectors
//===----------------------------------------------------------------------===//

/// Of a vector beside a tile: rows lie behind each other down a column of it
/// where `isColumn`, else all along a row.
static SharedCost vectorCost(tg::VecType vec, tg::SmemType tile, bool isColumn,
                             bool isStore, bool permuted) {
  SharedCost cost;
  TileForm form(tile);
  int64_t elementBytes = tile.getElementBytes();
  bool byRow = vec.getAxis() == tg::Axis::Row;
  int64_t warpRows = vec.getScope() == tg::Scope::Warpgroup ? 64 : 16;
  auto access = [&](int64_t count, auto addressOf) {
    llvm::SmallVector<int64_t, 32> addresses;
    for (int64_t lane = 0; lane < TargetInfo::warpThreads; ++lane) {
      // One lane of those that hold an element writes it.
      if (isStore && (byRow ? lane % 4 : lane / 4))
        continue;
      addresses.push_back(addressOf(lane));
    }
    addAccess(cost, addresses, count * elementBytes);
  };
  if (byRow) {
    for (int64_t block = 0; block < vec.getSize(); block += warpRows)
      for (int64_t half : {0, 8})
        access(1, [&](int64_t lane) {
          int64_t row = block + half + lane / 4;
          return isColumn ? form.offsetOf(row, 0) : row * elementBytes;
        });
    return cost;
  }
  int64_t step = permuted ? 16 : 8, each = permuted ? 4 : 2;
  for (int64_t col = 0; col < vec.getSize(); col += step)
    access(each, [&](int64_t lane) {
      return form.offsetOf(0, (col + lane % 4 * each) * elementBytes);
    });
  return cost;
}

OpCost emulator::costOf(tg::VecLoadOp op, const TargetInfo &target) {
  OpCost cost;
  cost.loads =
      vectorCost(op.getResult().getType(), op.getTile().getType(),
                 bool(op.getIndex()), /*isStore=*/false, op.getPermuted());
  cost.latency = target.rates.sharedLatency;
  return cost;
}

OpCost emulator::costOf(tg::VecStoreOp op, const TargetInfo &) {
  OpCost cost;
  cost.stores =
      vectorCost(op.getValue().getType(), op.getTile().getType(),
                 /*isColumn=*/true, /*isStore=*/true, /*permuted=*/false);
  return cost;
}

//===----------------------------------------------------------------------===//
// In place
//===----------------------------------------------------------------------===//

/// Chunks of 16 bytes, which the threads of a member take one after the other.
static SharedCost chunkCost(tg::SmemType tile, int64_t threads) {
  SharedCost cost;
  int64_t chunks = tile.getBytes() / chunkBytes;
  llvm::SmallVector<int64_t, 32> addresses;
  for (int64_t lane = 0; lane < TargetInfo::warpThreads; ++lane)
    addresses.push_back(lane * chunkBytes);
  for (int64_t at = 0; at < chunks; at += threads)
    addAccess(cost, addresses, chunkBytes);
  return cost;
}

static int64_t threadsAround(Operation *op) {
  auto role = op->getParentOfType<tg::RoleOp>();
  return role && role.getScope() == tg::Scope::Warpgroup
             ? TargetInfo::warpgroupThreads
             : TargetInfo::warpThreads;
}

OpCost emulator::costOf(tg::SmemMapOp op, const TargetInfo &target) {
  OpCost cost;
  tg::SmemType tile = op.getTile().getType();
  cost.loads = cost.stores = chunkCost(tile, threadsAround(op));
  int64_t elements = tile.getRows() * tile.getCols() / threadsAround(op);
  for (Operation &inner : op.getBody().front().without_terminator())
    if (auto scalar = scalarOpOf(&inner)) {
      cost.fma += elements * scalar->cost.fma;
      cost.alu += elements * scalar->cost.alu;
      cost.special += elements * scalar->cost.special;
    }
  cost.latency = target.rates.sharedLatency + target.rates.barrierLatency;
  return cost;
}

/// Words of two columns, those of a row side by side.
OpCost emulator::costOf(tg::SmemTurnOp op, const TargetInfo &target) {
  OpCost cost;
  int64_t threads = threadsAround(op), pairs = op.getRotary().getChannels() / 2;
  int64_t all = op.getTile().getType().getRows() * pairs;
  llvm::SmallVector<int64_t, 32> addresses;
  for (int64_t lane = 0; lane < TargetInfo::warpThreads; ++lane)
    addresses.push_back(lane * 4);
  for (int64_t at = 0; at < all; at += threads)
    addAccess(cost.loads, addresses, 4);
  cost.stores = cost.loads;
  for (Operation &inner : op.getBody().front().without_terminator())
    if (auto scalar = scalarOpOf(&inner)) {
      cost.fma += all / threads * scalar->cost.fma;
      cost.alu += all / threads * scalar->cost.alu;
      cost.special += all / threads * scalar->cost.special;
    }
  cost.latency = target.rates.sharedLatency + target.rates.barrierLatency;
  return cost;
}

/// A test for each chunk; rows that are cleared are few, and not counted.
OpCost emulator::costOf(tg::SmemClearRowsOp op, const TargetInfo &) {
  OpCost cost;
  cost.issue =
      2 * chunkCost(op.getTile().getType(), threadsAround(op)).instructions;
  return cost;
}

/// Of cp.async, the chunks; a tensor or bulk copy is one instruction.
OpCost emulator::costOf(tg::RingLoadOp op, const TargetInfo &) {
  OpCost cost;
  cost.issue = 4;
  cost.isCopy = true;
  auto acquire = op.getTile().getDefiningOp<tg::RingAcquireOp>();
  auto create = acquire ? acquire.getRing().getDefiningOp<tg::RingCreateOp>()
                        : tg::RingCreateOp();
  if (!create || create.getFill() == tg::Fill::Tma)
    return cost;
  tg::SmemType tile = op.getTile().getType();
  auto role = op->getParentOfType<tg::RoleOp>();
  int64_t threads = (role ? role.getWarps() : 1) * TargetInfo::warpThreads;
  TileForm form(tile);
  int64_t rowChunks = tile.getRowBytes() / chunkBytes;
  int64_t chunks = tile.getBoxRows() * rowChunks;
  for (int64_t at = 0; at < chunks; at += threads) {
    llvm::SmallVector<int64_t, 32> addresses;
    for (int64_t i = at; i < std::min(at + TargetInfo::warpThreads, chunks);
         ++i)
      addresses.push_back(
          form.offsetOf(i / rowChunks, i % rowChunks * chunkBytes));
    addAccess(cost.asyncStores, addresses, chunkBytes);
  }
  return cost;
}

/// Warps round what they have copied of f32 for tf32, each its own chunks.
OpCost emulator::costOf(tg::RingWaitOp op, const TargetInfo &) {
  OpCost cost;
  cost.issue = 2;
  auto create = op.getRing().getDefiningOp<tg::RingCreateOp>();
  auto role = op->getParentOfType<tg::RoleOp>();
  if (!create || !role || create.getFill() != tg::Fill::CpGroup)
    return cost;
  for (Value tile : op.getTiles()) {
    auto type = cast<tg::SmemType>(tile.getType());
    if (!type.getElementType().isTF32())
      continue;
    int64_t threads = role.getWarps() * TargetInfo::warpThreads;
    SharedCost chunks = chunkCost(type, threads);
    cost.loads += chunks;
    cost.stores += chunks;
    // A test for infinity, an addition and a mask.
    constexpr int64_t each = 3;
    cost.alu += each * chunks.instructions * chunkBytes / wordBytes;
    cost.reads += each * chunks.instructions * chunkBytes / wordBytes;
  }
  return cost;
}
