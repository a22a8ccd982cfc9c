//===- Emulator.h - Kernels for GPUs on any machine -------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs what the plan of a GPU launches on host memory, from the kernels' IR at
// the level `gpu`, with its asynchrony, and says where an order is missing.
// docs/Emulator.md says what the model guarantees. This header includes no
// MLIR.
//===----------------------------------------------------------------------===//

#ifndef ATTN_EMULATOR_EMULATOR_H
#define ATTN_EMULATOR_EMULATOR_H

#include "attn/Runtime/Abi.h"
#include "attn/Support/Result.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace mlir {
class ModuleOp;
} // namespace mlir

namespace attn::emulator {

class Program;
class Observer;

/// Who goes on when, and when copies, products and arrivals take effect.
struct Schedule {
  enum class Mode {
    /// Each at once; agents in turn.
    Eager,
    /// Only where nothing else can go on.
    Lazy,
    /// As the seed has it.
    Random,
    /// As the seed has it, but one agent as late as possible.
    Adversary,
    /// An agent for as long as it can go on, then another one, then what is
    /// under way; but for some choices.
    Departs,
    /// All with one departure, with two, and so on; `seed` of them.
    Search
  };
  Mode mode = Mode::Eager;
  uint64_t seed = 0;
  /// Numbers of choices, and what is chosen there.
  std::vector<std::pair<uint32_t, uint32_t>> departures;

  /// "random:7"
  std::string text() const;
};

/// The schedules of ATTN_EMULATOR: a list of "eager", "lazy", "random:SEED",
/// "adversary:SEED", "sweep:N" (N different ones), "search:N" (N at most, from
/// one order of events on with one departure from it, two and so on) and
/// "departs:CHOICE=WHAT/..." (one of those), separated by commas.
/// Eager where it is not set.
support::Result<std::vector<Schedule>> readSchedules();

/// Whether lengths, offsets and tables are read and checked before a kernel
/// follows them. ATTN_EMULATOR_MEMORY=device leaves that out, as calls do whose
/// tensors are in the memory of a GPU.
bool readsIndices();

/// Memory that a plan is given.
struct Buffer {
  void *data = nullptr;
  size_t bytes = 0;
  std::string name;
  bool isOutput = false;
  /// An input that the kernels write as well.
  bool isWritten = false;
};

/// Decodes the kernels of a module. An error is reported where it is found.
support::Result<std::shared_ptr<const Program>> decode(mlir::ModuleOp module);

/// Runs a plan once for each schedule; all have to come to the same bits. The
/// observer, of attn/Emulator/Costs.h, learns of an eager one, and `counters`
/// gets what that counted, in the form of docs/Emulator.md.
support::Status run(const Program &program, AttnEntry entry, void **args,
                    const std::vector<Buffer> &buffers,
                    const std::vector<Schedule> &schedules,
                    Observer *observer = nullptr,
                    std::string *counters = nullptr);

} // namespace attn::emulator

#endif // ATTN_EMULATOR_EMULATOR_H
