//===- Run.cpp - Plans on the emulator ------------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The plan is compiled code, as it is for a GPU; here are the callbacks of
// AttnGpu. Launches are gathered and executed when the plan has ended.
//===----------------------------------------------------------------------===//

#include "Models.h"
#include "Search.h"
#include "Timeline.h"
#include "attn/Analysis/TargetAttr.h"
#include "attn/Emulator/Builder.h"
#include "attn/Emulator/Timing.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdlib>
#include <cstring>

using namespace ::attn::emulator;
using attn::support::Failure;
using attn::support::Result;
using attn::support::Status;

//===----------------------------------------------------------------------===//
// Schedules
//===----------------------------------------------------------------------===//

std::string Schedule::text() const {
  switch (mode) {
  case Mode::Eager:
    return "eager";
  case Mode::Lazy:
    return "lazy:" + std::to_string(seed);
  case Mode::Random:
    return "random:" + std::to_string(seed);
  case Mode::Adversary:
    return "adversary:" + std::to_string(seed);
  case Mode::Search:
    return "search:" + std::to_string(seed);
  case Mode::Departs:
    break;
  }
  std::string text = "departs";
  for (auto [number, what] : departures)
    text += (text == "departs" ? ":" : "/") + std::to_string(number) + "=" +
            std::to_string(what);
  return text;
}

/// "17=2/40=1"
static bool readDepartures(llvm::StringRef text, Schedule &schedule) {
  schedule.mode = Schedule::Mode::Departs;
  for (llvm::StringRef part : llvm::split(text, '/')) {
    auto [number, what] = part.split('=');
    std::pair<uint32_t, uint32_t> departure;
    if (number.getAsInteger(10, departure.first) ||
        what.getAsInteger(10, departure.second))
      return false;
    schedule.departures.push_back(departure);
  }
  return true;
}

bool attn::emulator::readsIndices() {
  const char *memory = std::getenv("ATTN_EMULATOR_MEMORY");
  return !memory || llvm::StringRef(memory) != "device";
}

Result<std::vector<Schedule>> attn::emulator::readSchedules() {
  const char *given = std::getenv("ATTN_EMULATOR");
  std::vector<Schedule> result;
  for (llvm::StringRef part : llvm::split(given ? given : "eager", ',')) {
    auto [name, number] = part.split(':');
    uint64_t seed = 0;
    bool isFine =
        number.empty() ? name == part : !number.getAsInteger(10, seed);
    if (name == "departs") {
      Schedule schedule{Schedule::Mode::Departs, 0, {}};
      if (number.empty() || readDepartures(number, schedule)) {
        result.push_back(schedule);
        continue;
      }
    }
    using Mode = Schedule::Mode;
    if (isFine && name == "eager" && number.empty()) {
      result.push_back({Mode::Eager, 0, {}});
    } else if (isFine && name == "lazy") {
      result.push_back({Mode::Lazy, seed, {}});
    } else if (isFine && name == "random") {
      result.push_back({Mode::Random, seed, {}});
    } else if (isFine && name == "adversary") {
      result.push_back({Mode::Adversary, seed, {}});
    } else if (isFine && name == "search" && seed > 0) {
      result.push_back({Mode::Search, seed, {}});
    } else if (isFine && name == "sweep" && seed > 0) {
      for (uint64_t i = 0; i < seed; ++i)
        result.push_back(i == 0   ? Schedule{Mode::Eager, 0, {}}
                         : i == 1 ? Schedule{Mode::Lazy, 0, {}}
                         : i % 2  ? Schedule{Mode::Adversary, i / 2, {}}
                                  : Schedule{Mode::Random, i / 2, {}});
    } else {
      return Failure{
          "expected ATTN_EMULATOR to list 'eager', 'lazy:SEED', "
          "'random:SEED', 'adversary:SEED', 'sweep:N' or 'search:N', but got "
          "'" +
          part.str() + "'"};
    }
  }
  return result;
}

//===----------------------------------------------------------------------===//
// Decoding
//===----------------------------------------------------------------------===//

Result<std::shared_ptr<const Program>>
attn::emulator::decode(mlir::ModuleOp module) {
  auto program = std::make_shared<Program>();
  auto target = getTarget(module);
  if (!target || target->isCpu())
    return Failure{"expected kernels for a GPU, but got '" +
                   (target ? target->name : "") + "'"};
  program->target = *target;
  for (auto kernel : module.getOps<mlir::tile_gpu::KernelOp>()) {
    if (kernel.isExternal())
      continue;
    ProgramBuilder builder(kernel, program->target);
    if (failed(builder.run()))
      return Failure{"the kernel '" + kernel.getName().str() +
                     "' cannot be emulated"};
    program->kernels.push_back(builder.take());
  }
  if (program->kernels.empty())
    return Failure{"expected kernels with bodies of tile_gpu, but got none"};
  return std::shared_ptr<const Program>(program);
}

//===----------------------------------------------------------------------===//
// Callbacks
//===----------------------------------------------------------------------===//

namespace {
/// One run of a plan.
struct Run {
  const Program &program;
  Machine machine;
  std::vector<std::unique_ptr<char[]>> workspace;
  std::vector<TensorMap> maps;
  std::vector<char> counterMemory;
  std::string error;
  bool hasLaunched = false;

  int32_t fail(std::string message) {
    if (error.empty())
      error = std::move(message);
    return ATTN_RUNTIME_GPU_ERROR;
  }
  static Run &of(const AttnRuntime *runtime) {
    return *static_cast<Run *>(runtime->user);
  }
};
} // namespace

static int32_t refuseHostKernel(const AttnRuntime *runtime, AttnKernelBody,
                                void *, int64_t, int64_t) {
  return Run::of(runtime).fail("expected kernels of the GPU in the plan of a "
                               "GPU, but got one of the CPU");
}

static void *allocate(const AttnRuntime *runtime, int64_t bytes) {
  Run &run = Run::of(runtime);
  size_t size = size_t(std::max<int64_t>(bytes, 1));
  constexpr size_t alignment = 256;
  auto memory = std::make_unique<char[]>(size + alignment);
  auto at = (reinterpret_cast<uintptr_t>(memory.get()) + alignment - 1) /
            alignment * alignment;
  run.workspace.push_back(std::move(memory));
  auto *data = reinterpret_cast<char *>(at);
  // Nothing that anybody should meet, and in each schedule something else.
  for (size_t i = 0; i < size; ++i)
    data[i] = char(run.machine.schedule.mode == Schedule::Mode::Eager
                       ? 0xff
                       : run.machine.random(256));
  run.machine.addBuffer(data, size,
                        "workspace " + std::to_string(run.workspace.size() - 1),
                        /*isInput=*/false);
  return data;
}

/// Memory stays until the launches that use it have been executed.
static void release(const AttnRuntime *, void *) {}

static int32_t encode(const AttnRuntime *runtime, void *map, const char *name,
                      void *data, int32_t element, int32_t rank,
                      const int64_t *sizes, const int64_t *strides,
                      int64_t boxRows, int64_t boxCols, int32_t) {
  Run &run = Run::of(runtime);
  TensorMap result;
  result.name = name;
  result.data = static_cast<char *>(data);
  result.element = element;
  result.sizes.assign(sizes, sizes + rank);
  result.strides.assign(strides, strides + rank);
  constexpr int64_t mostBox = 256;
  if (boxRows > mostBox || boxCols > mostBox)
    return run.fail("expected a box of at most 256 x 256 of '" + result.name +
                    "'");
  // PTX ISA, tensor copies: 16 bytes from row to row and at the start.
  int64_t bytes = element == ATTN_ELEMENT_U8 ? 1
                  : element == ATTN_ELEMENT_F16 || element == ATTN_ELEMENT_BF16
                      ? 2
                      : 4;
  bool isEmpty = llvm::is_contained(result.sizes, 0);
  auto refuse = [&](const std::string &expected, const std::string &got) {
    return run.fail("expected '" + result.name + "' " + expected +
                    ", but got " + got + "; copy it");
  };
  if (auto past = reinterpret_cast<uintptr_t>(data) % 16; past && !isEmpty)
    return refuse("to start at a multiple of 16 bytes in memory",
                  "an address that is " + std::to_string(past) +
                      " bytes past one");
  for (int32_t i = 0; i + 1 < rank && !isEmpty; ++i)
    if (sizes[i] > 1 && strides[i] * bytes % 16)
      return refuse("to have strides of multiples of " +
                        std::to_string(16 / bytes) + " elements (16 bytes)",
                    std::to_string(strides[i]) + " in dimension " +
                        std::to_string(i));
  auto index = int64_t(run.maps.size());
  run.maps.push_back(std::move(result));
  std::memcpy(map, &index, sizeof(index));
  return ATTN_RUNTIME_OK;
}

static void readParams(Run &run, const KernelProgram &kernel, void **params,
                       std::vector<Slot> &frame) {
  size_t at = 0;
  auto take = [&](auto value) {
    std::memcpy(&value, params[at++], sizeof(value));
    return value;
  };
  for (const ParamInfo &param : kernel.params) {
    Slot &slot = frame[param.slot];
    switch (param.kind) {
    case ParamKind::Memref: {
      auto memref = std::make_shared<MemrefValue>();
      memref->data = reinterpret_cast<char *>(take(int64_t()));
      for (int64_t i = 0; i < param.rank; ++i)
        memref->sizes.push_back(take(int64_t()));
      for (int64_t i = 0; i < param.rank; ++i)
        memref->strides.push_back(take(int64_t()));
      slot.object = memref;
      break;
    }
    case ParamKind::TensorMap:
      slot.object =
          std::make_shared<TensorMap>(run.maps[size_t(take(int64_t()))]);
      break;
    case ParamKind::I8:
      slot.bits = take(int8_t());
      break;
    case ParamKind::I32:
      slot.bits = take(int32_t());
      break;
    case ParamKind::I64:
      slot.bits = take(int64_t());
      break;
    case ParamKind::F32:
      slot.f32 = take(float());
      break;
    case ParamKind::F64:
      slot.f64 = take(double());
      break;
    }
  }
}

static int32_t launch(const AttnRuntime *runtime, const char *name,
                      int64_t grid, int32_t flags, void **params) {
  Run &run = Run::of(runtime);
  if (grid <= 0 || !run.error.empty())
    return ATTN_RUNTIME_OK;
  const KernelProgram *kernel = run.program.find(name);
  if (!kernel)
    return run.fail(std::string("expected a kernel '") + name +
                    "' in the module, but it has none");
  auto state = std::make_unique<LaunchState>();
  state->kernel = kernel;
  state->isProgrammatic = flags & ATTN_LAUNCH_PROGRAMMATIC && run.hasLaunched;
  int64_t cluster = kernel->cluster;
  if (grid % cluster)
    return run.fail("expected a grid of whole clusters of " +
                    std::to_string(cluster) + " blocks, but got " +
                    std::to_string(grid));
  // No more than a device would run at once.
  state->grid = kernel->isPersistent
                    ? std::min(grid, run.machine.residentBlocksOf(*kernel))
                    : grid;
  state->frame = kernel->initial;
  readParams(run, *kernel, params, state->frame);
  run.machine.launch(std::move(state));
  run.hasLaunched = true;
  return ATTN_RUNTIME_OK;
}

char attn::emulator::noTickets = 0;

static int32_t fillZero(const AttnRuntime *runtime, void *memory,
                        int64_t bytes) {
  Run &run = Run::of(runtime);
  if (bytes <= 0 || !run.error.empty())
    return ATTN_RUNTIME_OK;
  auto state = std::make_unique<LaunchState>();
  state->action = [&run, memory, bytes] {
    std::memset(memory, 0, size_t(bytes));
    auto *data = static_cast<char *>(memory);
    if (GlobalBuffer *buffer = run.machine.find(data))
      std::fill_n(buffer->cells.begin() + (data - buffer->data), bytes,
                  uint32_t(AccessTable::written));
  };
  run.machine.launch(std::move(state));
  return ATTN_RUNTIME_OK;
}

static void *ticketsOf(const AttnRuntime *runtime, int64_t count,
                       const char *name, int64_t grid) {
  Run &run = Run::of(runtime);
  const KernelProgram *kernel = run.program.find(name);
  if (kernel && grid <= run.machine.residentBlocksOf(*kernel))
    return &noTickets;
  // Those of one stream.
  run.counterMemory.resize(size_t(std::max<int64_t>(count, 16)) * 4);
  return run.counterMemory.data();
}

/// No run finds what another one left.
static void *keep(const AttnRuntime *runtime, int64_t bytes, int64_t,
                  const int64_t *, int32_t *isNew) {
  *isNew = 1;
  return allocate(runtime, bytes);
}

//===----------------------------------------------------------------------===//
// Runs
//===----------------------------------------------------------------------===//

static Status runOnce(const Program &program, AttnEntry entry, void **args,
                      const std::vector<Buffer> &buffers, Schedule &schedule,
                      Observer *observer = nullptr,
                      std::string *counters = nullptr,
                      Explorer *explorer = nullptr, Trace *trace = nullptr) {
  Run run{program, Machine(program, schedule, explorer), {}, {}, {}, {}, false};
  run.machine.observer = observer;
  if (observer || counters)
    run.machine.keepTime();
  for (const Buffer &buffer : buffers)
    run.machine.addBuffer(static_cast<char *>(buffer.data), buffer.bytes,
                          buffer.name, !buffer.isOutput, buffer.isWritten);
  run.counterMemory.reserve(1024);
  static const AttnGpu gpu = {encode, launch, fillZero, ticketsOf, keep};
  AttnRuntime runtime = {refuseHostKernel, allocate, release, &run, &gpu};
  int32_t status = entry(args, &runtime);
  if (!run.error.empty())
    return Failure{run.error};
  if (status != ATTN_RUNTIME_OK)
    return Failure{"expected the plan to succeed, but got status " +
                   std::to_string(status)};
  bool isFine = run.machine.run();
  if (explorer) {
    schedule.departures = run.machine.departures;
    *trace = std::move(run.machine.trace);
  }
  auto failure = [&](const std::string &message) {
    return Failure{"emulator: " + message +
                   "\nnote: ATTN_EMULATOR=" + schedule.text() + " repeats it"};
  };
  if (!isFine)
    return failure(run.machine.error());
  if (explorer && trace->events.size() > Explorer::mostEvents)
    return Failure{"expected at most " + std::to_string(Explorer::mostEvents) +
                   " events to search, but got " +
                   std::to_string(trace->events.size()) +
                   "; take fewer items, or 'sweep:N'"};
  if (explorer && explorer->isRedundant())
    return attn::support::success();
  if (counters)
    *counters = run.machine.timing->text();
  for (char byte : run.counterMemory)
    if (byte)
      return failure("the tickets of a schedule are not zero again after the "
                     "launch");
  return attn::support::success();
}

namespace {
/// What all runs have to come to.
class Outputs {
public:
  explicit Outputs(const std::vector<Buffer> &buffers) : buffers(buffers) {}

  Status compare(const Schedule &schedule) {
    bool isFirst = first.empty() && from.empty();
    size_t output = 0;
    for (const Buffer &buffer : buffers) {
      if (!buffer.isOutput)
        continue;
      auto *data = static_cast<char *>(buffer.data);
      if (isFirst)
        first.emplace_back(data, data + buffer.bytes);
      else if (std::memcmp(first[output++].data(), data, buffer.bytes) != 0)
        return Failure{"emulator: '" + buffer.name +
                       "' differs between ATTN_EMULATOR=" + from +
                       " and ATTN_EMULATOR=" + schedule.text()};
    }
    if (isFirst)
      from = schedule.text();
    return attn::support::success();
  }

private:
  const std::vector<Buffer> &buffers;
  std::vector<std::vector<char>> first;
  std::string from;
};
} // namespace

/// Runs at most `count` schedules, of which none comes to the same as another
/// by exchanging neighbours that have nothing to do with each other.
static Status search(const Program &program, AttnEntry entry, void **args,
                     const std::vector<Buffer> &buffers, uint64_t count,
                     Outputs &outputs) {
  Explorer explorer;
  uint64_t runs = 0, redundant = 0;
  bool isMore = true;
  for (; isMore && runs < count; ++runs) {
    Schedule schedule{Schedule::Mode::Departs, 0, {}};
    Trace trace;
    if (Status ok = runOnce(program, entry, args, buffers, schedule, nullptr,
                            nullptr, &explorer, &trace);
        !ok)
      return ok;
    if (explorer.isRedundant())
      ++redundant;
    else if (Status ok = outputs.compare(schedule); !ok)
      return ok;
    isMore = explorer.advance(trace);
  }
  llvm::errs() << "note: ATTN_EMULATOR=search: "
               << (isMore ? "" : "all schedules up to equivalence, ")
               << runs - redundant << (isMore ? " schedules, of more" : "")
               << '\n';
  return attn::support::success();
}

static Status runAll(const Program &program, AttnEntry entry, void **args,
                     const std::vector<Buffer> &buffers,
                     const std::vector<Schedule> &schedules, Observer *observer,
                     std::string *counters) {
  Outputs outputs(buffers);
  if (observer || counters) {
    // Times are those of an eager schedule.
    Schedule eager;
    if (Status ok =
            runOnce(program, entry, args, buffers, eager, observer, counters);
        !ok)
      return ok;
    if (Status ok = outputs.compare(eager); !ok)
      return ok;
  }
  for (Schedule schedule : schedules) {
    if (schedule.mode == Schedule::Mode::Search) {
      if (Status ok =
              search(program, entry, args, buffers, schedule.seed, outputs);
          !ok)
        return ok;
      continue;
    }
    // That was the run above.
    if ((observer || counters) && schedule.mode == Schedule::Mode::Eager)
      continue;
    if (Status ok = runOnce(program, entry, args, buffers, schedule); !ok)
      return ok;
    if (Status ok = outputs.compare(schedule); !ok)
      return ok;
  }
  return attn::support::success();
}

Status attn::emulator::run(const Program &program, AttnEntry entry, void **args,
                           const std::vector<Buffer> &buffers,
                           const std::vector<Schedule> &schedules,
                           Observer *observer, std::string *counters) {
  const char *path = std::getenv("ATTN_TIMELINE");
  if (observer || !path || !*path)
    return runAll(program, entry, args, buffers, schedules, observer, counters);
  // What led to an error is drawn, too.
  Timeline timeline;
  Status ok =
      runAll(program, entry, args, buffers, schedules, &timeline, counters);
  Status written = timeline.write(path);
  return ok ? written : ok;
}
