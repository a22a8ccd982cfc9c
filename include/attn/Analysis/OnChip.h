//===- OnChip.h - The account of on-chip resources --------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// How much shared memory, how many registers and how many blocks: the one place
// with these formulas. The schedule asks before there is a kernel, the passes
// over tile_gpu while they make one, the verifier, the code generator and the
// emulator of the kernel as it is. The numbers of the hardware are
// TargetInfo's.
//
// This header includes no MLIR.
//===----------------------------------------------------------------------===//

#ifndef ATTN_ANALYSIS_ONCHIP_H
#define ATTN_ANALYSIS_ONCHIP_H

#include "attn/Target/TargetInfo.h"

namespace attn::onchip {

//===----------------------------------------------------------------------===//
// Shared memory
//===----------------------------------------------------------------------===//

/// A barrier in memory.
constexpr int64_t barrierBytes = 8;

/// What a row has in shared memory where keys above a threshold are folded by
/// one lane of each row: `columns` scores, which are at most `mostFolded`, a
/// word of bits of each of the four threads that share the row, and its states,
/// by fours.
constexpr int64_t mostFolded = 128;
constexpr int64_t foldColumns(int64_t columns, int64_t states) {
  constexpr int64_t words = 4, banks = 32;
  int64_t result = columns + words + (states + words - 1) / words * words;
  // Of columns that are no whole turns through the banks, those of neighbouring
  // rows are a quarter of them apart.
  while (columns % banks && result % (banks / 2) != banks / 4)
    ++result;
  return result;
}

/// A swizzle pattern repeats every 8 rows, where tiles must start; tensor
/// copies of plain tiles ask for 128 bytes.
constexpr int64_t tileAlignment(int64_t swizzle) {
  return swizzle ? swizzle * 8 : 128;
}

/// Bytes of shared memory for tiles: the rest is for barriers, drawn items,
/// alignment, and the row numbers of a ramp.
inline int64_t roomForTiles(const TargetInfo &target) {
  return target.sharedMemoryBytes - TargetInfo::barrierBytes;
}

/// What the row numbers of a ramp take of the room for tiles.
inline int64_t rampBytes(int64_t bytes) {
  return std::max<int64_t>(bytes - TargetInfo::rampBytes, 0);
}

/// Slots for keys and for values where warps copy for themselves. With one,
/// keys are on their way during the work on values and the other way round;
/// blocks of few warps, which wait for memory above all, have two.
constexpr int64_t copyStages(int64_t warps) { return warps <= 2 ? 2 : 1; }

/// The slots that products of warpgroups need, so that they overlap with
/// copies.
constexpr int64_t leastStages = 2;

/// Bytes that a kernel wants in shared memory.
struct SharedDemand {
  /// One slot of the queries of all of a block's rows, and one of the keys and
  /// values of a step.
  int64_t queries = 0, step = 0;
  /// What each slot has of columns, which takes what a ramp might have.
  int64_t columns = 0;
  /// Results on their way to memory, where there is room.
  int64_t results = 0;
  /// The row numbers of a ramp (rampBytes), where there is room.
  int64_t ramp = 0;
  /// Words that warps exchange, and scores that are read one by one.
  int64_t exchange = 0;

  int64_t bytes(int64_t stages) const {
    int64_t free = ramp ? 0 : TargetInfo::rampBytes;
    return queries + stages * step + exchange +
           std::max<int64_t>(stages * columns - free, 0);
  }
};

/// How many slots fit beside one of queries.
int64_t stagesThatFit(const SharedDemand &demand, const TargetInfo &target);

/// What a kernel takes of what it wants.
struct SharedShares {
  int64_t stages = 0, queryStages = 1;
  bool ramp = false, results = false;
  /// Of tiles, all together.
  int64_t bytes = 0;
};

/// Of a kernel of warpgroups. Results are staged where there is room; what is
/// left gives the queries two slots, so that an item's are there when the one
/// before ends, and then keys and values up to four. `stages`: as given, or 0.
SharedShares shareAmongRoles(const SharedDemand &demand, int64_t stages,
                             const TargetInfo &target);

/// Of a kernel of warps that copy for themselves: as many stages as fit, down
/// to one. Nothing of the rest is optional.
SharedShares shareAmongWarps(const SharedDemand &demand, int64_t stages,
                             const TargetInfo &target);

//===----------------------------------------------------------------------===//
// Registers
//===----------------------------------------------------------------------===//

/// Registers of each of the threads that hold rows x cols elements together.
constexpr int64_t fragmentRegisters(int64_t rows, int64_t cols, int64_t bits,
                                    int64_t threads) {
  return rows * cols * bits / 32 / threads;
}

/// Registers of a thread in a step over a tile of keys.
struct StepRegisters {
  int64_t sums = 0, scores = 0, weights = 0;
  /// Queries that stay, what a mask reads of keys, words of bits, addresses.
  int64_t queries = 0, samples = 0, bits = 0, addresses = 0;

  int64_t total(const TargetInfo &target) const {
    return sums + scores + weights + queries + samples + bits + addresses +
           target.registerReserve;
  }
};

/// Columns of a tile that are compared with thresholds together.
constexpr int64_t slotColumns = 16;

/// Words of bits of a thread's two rows, and as many registers to get there.
constexpr int64_t bitRegisters(int64_t keys) { return 4 * ((keys + 31) / 32); }

/// Whether the weights of a step are all that becomes of its scores, and stay
/// in their registers: several products from zero, nothing but sums, and more
/// channels than would leave room for the scores of a second step. The schedule
/// counts registers by this, and the pipeline puts off no product then.
constexpr bool weighsInPlace(int64_t products, bool rescales,
                             int64_t channels) {
  constexpr int64_t fewChannels = 64;
  return products > 1 && !rescales && channels > fewChannels;
}

/// Elements that are read for each pair of a step and are on their way at once.
/// Measured (docs/performance/gpu-schedules.md, "The cost model"): where no
/// registers are left for so many, a step takes 1.1 to 1.4 times as long.
constexpr int64_t pairRegisters(int64_t keys) { return 3 * keys / 8; }

/// Addresses of values that are read from shared memory element by element.
constexpr int64_t elementAddresses = 24;

/// The most that a thread of a block of so many threads can have.
inline int64_t threadRegisters(int64_t threads, const TargetInfo &target) {
  return std::min(target.maxThreadRegisters, target.numRegisters / threads);
}

/// The same in the steps that roles can give up and take.
inline int64_t evenShare(int64_t threads, const TargetInfo &target) {
  return threadRegisters(threads, target) / TargetInfo::registerStep *
         TargetInfo::registerStep;
}

/// Registers of a thread when `warpgroups` of them compute beside one that
/// copies, as setmaxnreg shares a multiprocessor's registers out.
int64_t computeRegisters(int64_t warpgroups, const TargetInfo &target);

/// What sums, scores, weights and the reserve of a step may take of them. Sizes
/// are the same for one warpgroup as for two; what it has more is for the tests
/// of masked tiles, which then do without memory.
int64_t stepLimit(int64_t warpgroups, const TargetInfo &target);

/// What is left of the even share for the warpgroup of warps that copy and
/// draw.
int64_t producerRegisters(int64_t warpgroups, const TargetInfo &target);

//===----------------------------------------------------------------------===//
// Occupancy
//===----------------------------------------------------------------------===//

/// Whether `blocks` blocks with that much shared memory run side by side.
inline bool sharesMemory(int64_t blocks, int64_t blockBytes,
                         const TargetInfo &target) {
  return blocks * (blockBytes + TargetInfo::systemSharedBytes) <=
         target.sharedMemoryBytes + TargetInfo::systemSharedBytes;
}

/// What a block takes of its multiprocessor.
struct BlockNeeds {
  int64_t threads = 0, sharedBytes = 0;
  /// Of all of its threads, where roles ask for registers; else 0.
  int64_t roleRegisters = 0;
};

/// Blocks whose registers leave each thread at least the fewest that a kernel
/// can do with, or those of its role.
int64_t mostBlocks(const BlockNeeds &block, const TargetInfo &target);

/// Blocks that run side by side. Threads without registers of a role have as
/// many as they may, or fewer where the assembler was asked to make room for
/// `asked` blocks.
int64_t occupancy(const BlockNeeds &block, int64_t asked,
                  const TargetInfo &target);

} // namespace attn::onchip

#endif // ATTN_ANALYSIS_ONCHIP_H
