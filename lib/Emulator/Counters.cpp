//===- Counters.cpp - What was counted, as text ---------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Emulator/Timing.h"

#include <cstdarg>
#include <cstdio>

using namespace ::attn::emulator;

Counters &Counters::operator+=(const Counters &other) {
  memoryRead += other.memoryRead;
  memoryWritten += other.memoryWritten;
  l2Read += other.l2Read;
  l2Written += other.l2Written;
  copied += other.copied;
  stored += other.stored;
  operands += other.operands;
  loads += other.loads;
  stores += other.stores;
  asyncStores += other.asyncStores;
  tensorCycles += other.tensorCycles;
  mmaCycles += other.mmaCycles;
  flops += other.flops;
  special += other.special;
  fma += other.fma;
  alu += other.alu;
  shuffles += other.shuffles;
  instructions += other.instructions;
  waits += other.waits;
  waitCycles += other.waitCycles;
  return *this;
}

namespace {
/// A line of the table.
struct Row {
  const char *name;
  int64_t (*of)(const Counters &);
};
} // namespace

static const Row rows[] = {
    {"hbm_read_bytes", [](const Counters &c) { return c.memoryRead; }},
    {"hbm_written_bytes", [](const Counters &c) { return c.memoryWritten; }},
    {"l2_read_bytes", [](const Counters &c) { return c.l2Read; }},
    {"l2_written_bytes", [](const Counters &c) { return c.l2Written; }},
    {"shared_copied_bytes", [](const Counters &c) { return c.copied; }},
    {"shared_stored_bytes", [](const Counters &c) { return c.stored; }},
    {"shared_operand_bytes", [](const Counters &c) { return c.operands; }},
    {"shared_loaded_bytes", [](const Counters &c) { return c.loads.bytes; }},
    {"shared_load_wavefronts",
     [](const Counters &c) { return c.loads.wavefronts; }},
    {"shared_load_conflicts",
     [](const Counters &c) { return c.loads.wavefronts - c.loads.ideal; }},
    {"shared_written_bytes", [](const Counters &c) { return c.stores.bytes; }},
    {"shared_store_wavefronts",
     [](const Counters &c) { return c.stores.wavefronts; }},
    {"shared_store_conflicts",
     [](const Counters &c) { return c.stores.wavefronts - c.stores.ideal; }},
    {"shared_async_bytes",
     [](const Counters &c) { return c.asyncStores.bytes; }},
    {"shared_async_wavefronts",
     [](const Counters &c) { return c.asyncStores.wavefronts; }},
    {"shared_async_conflicts",
     [](const Counters &c) {
       return c.asyncStores.wavefronts - c.asyncStores.ideal;
     }},
    {"tensor_flops", [](const Counters &c) { return c.flops; }},
    {"wgmma_cycles", [](const Counters &c) { return c.tensorCycles; }},
    {"mma_sync_cycles", [](const Counters &c) { return c.mmaCycles; }},
    {"special_instructions", [](const Counters &c) { return c.special; }},
    {"fma_instructions", [](const Counters &c) { return c.fma; }},
    {"alu_instructions", [](const Counters &c) { return c.alu; }},
    {"shuffle_instructions", [](const Counters &c) { return c.shuffles; }},
    {"warp_instructions", [](const Counters &c) { return c.instructions; }},
    {"waits", [](const Counters &c) { return c.waits; }},
    {"wait_cycles", [](const Counters &c) { return c.waitCycles; }},
};

static void append(std::string &text, const char *format, ...) {
  char line[256];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(line, sizeof(line), format, arguments);
  va_end(arguments);
  text += line;
}

namespace {
/// One turn of the loops over keys of a block's roles.
struct StepCounters {
  bool exists = false;
  double values[std::size(rows)] = {};
  double cycles = 0;
};
} // namespace

/// What a loop is chosen by: the one that most is done in.
static int64_t weightOf(const Counters &c) {
  return c.tensorCycles + c.mmaCycles + c.fma + c.alu + c.copied +
         c.stores.bytes + c.asyncStores.bytes + c.l2Read;
}

static StepCounters stepOf(const KernelCounters &kernel) {
  StepCounters step;
  int64_t mostWork = 0;
  for (size_t role = 0; role < kernel.kernel->roles.size(); ++role) {
    const LoopCounters *best = nullptr;
    for (size_t i = 0; i < kernel.loops.size(); ++i) {
      const LoopInfo &info = kernel.kernel->loops[i];
      const LoopCounters &loop = kernel.loops[i];
      if (info.role == role && info.parent == Instruction::noLoop &&
          loop.turns &&
          (!best || weightOf(loop.counters) > weightOf(best->counters)))
        best = &loop;
    }
    if (!best)
      continue;
    step.exists = true;
    double members = double(kernel.kernel->roles[role].count);
    for (size_t i = 0; i < std::size(rows); ++i)
      step.values[i] +=
          double(rows[i].of(best->counters)) * members / double(best->turns);
    int64_t work = best->counters.tensorCycles + best->counters.mmaCycles +
                   best->counters.fma;
    if (best->steps && work > mostWork) {
      mostWork = work;
      step.cycles = double(best->stepCycles) / double(best->steps);
    }
  }
  return step;
}

/// A number with as many digits behind the point as it needs, two at most.
static std::string numberText(double value) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.2f", value);
  std::string result = text;
  while (result.back() == '0')
    result.pop_back();
  if (result.back() == '.')
    result.pop_back();
  return result;
}

std::string Timing::text() const {
  std::string text;
  for (const KernelProgram *program : kernelOrder) {
    const KernelCounters &kernel = kernels.at(program);
    append(text, "counters of '%s' on %s, eager\n", program->name.c_str(),
           target.name.c_str());
    append(text,
           "  launches %lld, blocks %lld on %lld multiprocessors, items %lld\n",
           (long long)kernel.launches, (long long)kernel.blocks,
           (long long)kernel.multiprocessors.size(), (long long)kernel.items);
    append(text,
           "  occupancy %lld: %lld of %lld bytes of shared memory, %lld of "
           "%lld threads, %lld of %lld registers\n",
           (long long)kernel.occupancy, (long long)program->sharedBytes,
           (long long)target.sharedMemoryBytes,
           (long long)(program->warps * TargetInfo::warpThreads),
           (long long)rates.maxThreads, (long long)program->registers,
           (long long)target.numRegisters);
    StepCounters step = stepOf(kernel);
    append(text, "  %-26s %14s %14s %14s\n", "", "kernel", "item", "step");
    double items = double(std::max<int64_t>(kernel.items, 1));
    auto line = [&](const char *name, double total, double each, double turn) {
      append(text, "  %-26s %14s %14s %14s\n", name, numberText(total).c_str(),
             kernel.items ? numberText(each).c_str() : "-",
             step.exists ? numberText(turn).c_str() : "-");
    };
    for (size_t i = 0; i < std::size(rows); ++i) {
      auto total = double(rows[i].of(kernel.total));
      line(rows[i].name, total, total / items, step.values[i]);
    }
    // The multiprocessors with blocks, for as long as the kernel runs.
    double area = double(kernel.cycles) * double(kernel.multiprocessors.size());
    line("cycles", double(kernel.cycles), area / items, step.cycles);
    auto share = [&](const Counters &c, double cycles) {
      double busy = double(c.tensorCycles) +
                    double(c.mmaCycles) / double(rates.schedulers);
      return cycles > 0 ? 100 * busy / cycles : 0;
    };
    Counters turn;
    for (size_t i = 0; i < std::size(rows); ++i) {
      if (std::string(rows[i].name) == "wgmma_cycles")
        turn.tensorCycles = int64_t(step.values[i]);
      if (std::string(rows[i].name) == "mma_sync_cycles")
        turn.mmaCycles = int64_t(step.values[i]);
    }
    double total = share(kernel.total, area);
    line("tensor_share_percent", total, total, share(turn, step.cycles));
  }
  return text;
}
