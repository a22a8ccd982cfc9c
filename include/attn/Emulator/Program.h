//===- Program.h - Kernels as instructions for agents -----------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a kernel of the level `gpu` becomes: one array of instructions, in which
// every role has an entry, and tables of what the kernel creates (rings,
// tiles, barriers, schedules). A value of the IR is a slot of an agent's frame.
// No MLIR in here: a program outlives the module that it was made of.
//===----------------------------------------------------------------------===//

#ifndef ATTN_EMULATOR_PROGRAM_H
#define ATTN_EMULATOR_PROGRAM_H

#include "attn/Dialect/Attn/IR/AttnAttrs.h"
#include "attn/Emulator/Costs.h"
#include "attn/Target/TargetInfo.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace attn::emulator {

class Agent;
using SlotId = uint32_t;
inline constexpr SlotId noSlot = ~0u;

/// How a scalar lies in 8 bytes: narrow integers sign-extended to 32 bits
/// (truths are 0 or 1), floats of 16 bits widened.
enum class Kind : uint8_t { F32, F64, I32, I64 };

/// What floats of a type are rounded to.
enum class Rounding : uint8_t { None, BF16, F16, TF32 };
float roundTo(float value, Rounding rounding);

/// A fragment or vector: all elements of what a warp or warpgroup holds. Floats
/// as f32, integers as i32. A partial vector has a row of shares for each
/// element.
struct Registers {
  int64_t rows = 1, cols = 1;
  std::vector<uint32_t> words;
  /// Reads of shared memory that these were computed from, by number.
  std::vector<uint64_t> reads;
  /// The product in flight that has taken them, or 0.
  uint64_t takenBy = 0;
  /// When the first of them can be used, and all.
  Cycles first = 0, ready = 0;

  float *floats() { return reinterpret_cast<float *>(words.data()); }
};

struct MemrefValue {
  char *data = nullptr;
  std::vector<int64_t> sizes, strides;
};

/// A strided tensor for box copies; see AttnGpu in attn/Runtime/Abi.h.
struct TensorMap {
  std::string name;
  char *data = nullptr;
  int32_t element = 0;
  std::vector<int64_t> sizes, strides;
};

/// The value of one slot of a frame.
struct Slot {
  union {
    int64_t bits = 0;
    float f32;
    double f64;
    int32_t i32;
  };
  std::shared_ptr<void> object;
};

/// A view of shared memory, packed into a slot's bits: the position of its
/// first element in stage `stage` of an allocation, in stored rows and columns.
struct View {
  uint32_t region = 0, stage = 0, row = 0, col = 0;
  int64_t pack() const {
    return int64_t(uint64_t(region) << 52 | uint64_t(stage) << 44 |
                   uint64_t(row) << 22 | col);
  }
  static View unpack(int64_t bits) {
    auto word = uint64_t(bits);
    return {uint32_t(word >> 52), uint32_t(word >> 44 & 0xff),
            uint32_t(word >> 22 & 0x3fffff), uint32_t(word & 0x3fffff)};
  }
};

/// How the elements of a tile are stored, and their type.
struct TileInfo {
  int64_t rows = 0, cols = 0; // As stored.
  int64_t boxes = 1;
  int64_t elementBytes = 2;
  /// Columns of one panel: what one tensor copy moves.
  int64_t panelCols = 0;
  bool transposed = false;
  bool isFloat = true;
  Rounding rounding = Rounding::None;
  int64_t bytes() const { return rows * cols * elementBytes; }
};

enum class Step : uint8_t {
  /// Go on with the instruction at pc, which is the next one unless it was set.
  Next,
  /// The same instruction again, when what it waits for has changed.
  Blocked,
  /// The agent's program has ended.
  Done,
  /// Something is wrong, and reported.
  Stop
};

struct Instruction {
  std::function<Step(Agent &)> run;
  uint32_t site = 0;
  /// Others may notice when it is executed: agents take turns here.
  bool isShared = false;
  OpCost cost;
  /// Registers that it computes from, and that it computes.
  std::vector<SlotId> inputs, outputs;
  /// The innermost loop of its role, or none.
  uint32_t loop = noLoop;
  static constexpr uint32_t noLoop = ~0u;
};

/// A loop of a role's program; `parent` is the loop around it.
struct LoopInfo {
  std::string location;
  uint32_t role = 0, parent = Instruction::noLoop;
};

/// An operation, for reports.
struct Site {
  std::string op, location;
};

struct RegionInfo {
  std::string name;
  TileInfo tile;
  uint32_t stages = 1;
  /// Elements that share a shadow cell.
  int64_t cellElements = 1;
  /// The columns of a `smem.ramp`: written before roles start.
  bool isRamp = false;
};

enum class Fill : uint8_t { Tma, CpAsync, Warps, Exchange, CpGroup, States };

struct RingInfo {
  std::string name;
  Fill fill = Fill::Tma;
  int64_t producers = 0, consumers = 0, cluster = 1, stages = 1;
  std::vector<uint32_t> regions;
  int64_t slotBytes = 0;
  /// First mbarriers, or -1: of those by which blocks that fill the ring
  /// together tell each other that theirs are empty, too.
  int64_t full = -1, empty = -1, allEmpty = -1;
};

struct MBarrierInfo {
  std::string name;
  int64_t arrivals = 1;
};

/// A hardware barrier.
struct BarrierInfo {
  std::string name;
  int64_t warps = 0;
};

struct RoleInfo {
  std::string name;
  bool isGroup = false;
  int64_t count = 1, warps = 1, firstWarp = 0;
  /// The hardware barrier of each warpgroup, or of all warps of the role.
  int64_t barrier = 0;
  uint32_t entry = 0;
  SlotId member = noSlot;
};

struct ScheduleInfo {
  enum Kind { Grid, Static, Dynamic } kind = Grid;
  mlir::attn::WorkOrder order = mlir::attn::WorkOrder::in_order;
  /// Blocks that draw together, and those of them with neighbouring tiles.
  int64_t cluster = 1, tilesOfCluster = 1;
  SlotId tickets = noSlot, tiles = noSlot, heads = noSlot, batch = noSlot,
         splits = noSlot, section = noSlot;
  /// Hand-over: warps that read what one warp draws.
  int64_t slots = 2, readers = 0;
  int64_t full = -1, empty = -1, drawnFull = -1, drawnEmpty = -1;
};

enum class ParamKind : uint8_t { Memref, TensorMap, I8, I32, I64, F32, F64 };

struct ParamInfo {
  ParamKind kind = ParamKind::I64;
  int64_t rank = 0;
  SlotId slot = noSlot;
};

struct KernelProgram {
  std::string name;
  std::vector<Instruction> code;
  /// Where labels are.
  std::vector<uint32_t> labels;
  std::vector<Slot> initial;
  std::vector<Site> sites;
  std::vector<ParamInfo> params;
  std::vector<RegionInfo> regions;
  std::vector<RingInfo> rings;
  std::vector<MBarrierInfo> mbarriers;
  std::vector<BarrierInfo> barriers;
  std::vector<RoleInfo> roles;
  std::vector<ScheduleInfo> schedules;
  std::vector<LoopInfo> loops;
  /// Shared memory of a block; registers of all threads of a block where roles
  /// ask for them, else 0; blocks of a multiprocessor that the schedule is for.
  int64_t sharedBytes = 0, registers = 0, blocks = 1;
  int64_t warps = 0, cluster = 1;
  bool isPersistent = false;
  /// Blocks of a cluster end without a barrier (tile_gpu::endsApart).
  bool endsApart = false;
};

/// The kernels of a module.
class Program {
public:
  std::vector<std::unique_ptr<const KernelProgram>> kernels;
  TargetInfo target;
  const KernelProgram *find(const std::string &name) const;
};

} // namespace attn::emulator

#endif // ATTN_EMULATOR_PROGRAM_H
