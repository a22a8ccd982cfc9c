//===- CudaLaunch.cpp - Run plans on a device -----------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The callbacks of AttnGpu on one stream. Nothing here waits or allocates but
// in stream order, so that a run may be captured into a graph.
//===----------------------------------------------------------------------===//

#include "CudaGraphMemory.h"
#include "CudaKeptMemory.h"
#include "CudaRecording.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>

using namespace ::attn;
using namespace ::attn::cuda;
using attn::support::Failure;
using attn::support::Result;
using attn::support::Status;
using attn::support::success;

namespace {
/// One run of a plan.
struct Run {
  const Driver *driver;
  const LoadedModule *module;
  ContextMemory memory;
  CUcontext context;
  CUstream stream;
  /// What went wrong first.
  std::string error;
  /// Whether this run has launched anything.
  bool hasLaunched = false;
  /// Workspace of this run, of which `used` bytes are taken.
  struct Chunk {
    CUdeviceptr memory;
    size_t bytes, used;
    bool isOfGraph;
  };
  std::vector<Chunk> chunks;
  /// What this run writes for later ones.
  std::vector<CUdeviceptr> written;
  /// Where launches are noted, or null.
  LaunchRecord::Implementation *record;

  /// Something that no record has.
  void goBeyondRecord() {
    if (record)
      record->isWhole = false;
  }
  int32_t fail(Failure failure) {
    if (error.empty())
      error = std::move(failure.message);
    return ATTN_RUNTIME_GPU_ERROR;
  }
  int32_t check(const std::string &doing, CUresult result) {
    return result ? fail(driver->failure(doing, result)) : ATTN_RUNTIME_OK;
  }

  static Run &of(const AttnRuntime *runtime) {
    return *static_cast<Run *>(runtime->user);
  }
};
} // namespace

//===----------------------------------------------------------------------===//
// Callbacks
//===----------------------------------------------------------------------===//

static int32_t refuseHostKernel(const AttnRuntime *runtime, AttnKernelBody,
                                void *, int64_t, int64_t) {
  return Run::of(runtime).fail(
      Failure{"expected kernels of the GPU in the plan of a GPU, but got one "
              "of the CPU"});
}

/// A chunk of workspace: of the graph that is being captured, or in the order
/// of the stream.
static Result<Run::Chunk> makeChunk(Run &run, size_t bytes) {
  constexpr size_t leastChunk = size_t(2) << 20;
  std::vector<CUdeviceptr> taken;
  for (const Run::Chunk &chunk : run.chunks)
    taken.push_back(chunk.memory);
  GraphMemory kept =
      getGraphMemory(*run.driver, run.context, run.stream, bytes, taken);
  if (kept.bytes)
    return Run::Chunk{kept.memory, kept.bytes, 0, /*isOfGraph=*/true};
  Run::Chunk chunk = {0, std::max(bytes, leastChunk), 0, /*isOfGraph=*/false};
  if (CUresult result = run.driver->cuMemAllocFromPoolAsync(
          &chunk.memory, chunk.bytes, run.memory.pool, run.stream))
    return run.driver->failure("allocate " + std::to_string(chunk.bytes) +
                                   " bytes of workspace",
                               result);
  return chunk;
}

/// All workspaces of a run are cut from as little memory as may be.
static void *allocate(const AttnRuntime *runtime, int64_t bytes) {
  constexpr size_t alignment = 256;
  Run &run = Run::of(runtime);
  run.goBeyondRecord();
  // Something to point at even where nothing is needed.
  size_t size = size_t(std::max<int64_t>(bytes, 1));
  size = (size + alignment - 1) / alignment * alignment;
  auto hasRoom = [&](const Run::Chunk &chunk) {
    return chunk.bytes - chunk.used >= size;
  };
  auto chunk = std::find_if(run.chunks.begin(), run.chunks.end(), hasRoom);
  if (chunk == run.chunks.end()) {
    auto made = makeChunk(run, size);
    if (!made) {
      run.fail(made.takeFailure());
      return nullptr;
    }
    chunk = run.chunks.insert(run.chunks.end(), *made);
  }
  void *memory = reinterpret_cast<void *>(chunk->memory + chunk->used);
  chunk->used += size;
  return memory;
}

/// Workspace is released when the run ends.
static void release(const AttnRuntime *, void *) {}

static void releaseAll(Run &run) {
  for (const Run::Chunk &chunk : run.chunks)
    if (!chunk.isOfGraph)
      run.check("release workspace",
                run.driver->cuMemFreeAsync(chunk.memory, run.stream));
}

static int32_t encode(const AttnRuntime *runtime, void *map, const char *name,
                      void *data, int32_t element, int32_t rank,
                      const int64_t *sizes, const int64_t *strides,
                      int64_t boxRows, int64_t boxCols, int32_t swizzleBytes) {
  Run &run = Run::of(runtime);
  Status ok = encodeTensorMap(*run.driver, map, name, data, element, rank,
                              sizes, strides, boxRows, boxCols, swizzleBytes,
                              run.memory.zeros);
  return ok ? ATTN_RUNTIME_OK : run.fail(ok.takeFailure());
}

static int32_t launch(const AttnRuntime *runtime, const char *name,
                      int64_t grid, int32_t flags, void **params) {
  Run &run = Run::of(runtime);
  if (grid <= 0 || !run.error.empty())
    return ATTN_RUNTIME_OK;
  const LoadedKernel *kernel = run.module->find(name);
  if (!kernel)
    return run.fail(Failure{std::string("expected a kernel '") + name +
                            "' in the module, but it has none"});
  if (!kernel->info->persistent && grid > INT32_MAX)
    return run.fail(Failure{"expected at most 2147483647 blocks of '" +
                            kernel->info->name + "', but got " +
                            std::to_string(grid)});
  CUlaunchConfig config = {};
  config.gridDimX = unsigned(std::min(grid, kernel->maxBlocks));
  config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = unsigned(kernel->info->threads);
  config.blockDimY = config.blockDimZ = 1;
  config.sharedMemBytes = unsigned(kernel->info->sharedBytes);
  config.hStream = run.stream;
  config.attrs = &programmatic;
  // It waits for the launch before it alone: one of this run, for a launch of
  // no blocks is none, or whatever the stream ran before, unless that is asked
  // not to be.
  static const char *asked = std::getenv("ATTN_OVERLAP_RUNS");
  static const bool overlapsRuns = !asked || std::string(asked) != "0";
  bool mayOverlap = run.hasLaunched || overlapsRuns;
  config.numAttrs = flags & ATTN_LAUNCH_PROGRAMMATIC && mayOverlap ? 1 : 0;
  CUresult result = run.driver->cuLaunchKernelEx(&config, kernel->function,
                                                 params, /*extra=*/nullptr);
  if (!result) {
    run.hasLaunched = true;
    if (run.record)
      run.record->add(*kernel, config, params);
    return ATTN_RUNTIME_OK;
  }
  return run.check("launch " + std::to_string(config.gridDimX) +
                       " blocks of '" + kernel->info->name + "'",
                   result);
}

static int32_t fillZero(const AttnRuntime *runtime, void *memory,
                        int64_t bytes) {
  Run &run = Run::of(runtime);
  if (bytes <= 0 || !run.error.empty())
    return ATTN_RUNTIME_OK;
  run.goBeyondRecord();
  return run.check("clear workspace", run.driver->cuMemsetD8Async(
                                          reinterpret_cast<CUdeviceptr>(memory),
                                          0, size_t(bytes), run.stream));
}

/// The counters of a stream, made in its order by the first run that asks; 0
/// where it is not known which stream it is, or what is launched now runs some
/// other time: graphs run beside each other and beside the stream.
static CUdeviceptr streamCounters(Run &run, unsigned long long &id) {
  if (!findStreamId(*run.driver, run.stream, id))
    return 0;
  static std::mutex mutex;
  static std::map<std::pair<CUcontext, unsigned long long>, CUdeviceptr> all;
  std::lock_guard<std::mutex> lock(mutex);
  CUdeviceptr &counters = all[{run.context, id}];
  if (counters)
    return counters;
  CUdeviceptr memory = 0;
  if (run.driver->cuMemAllocFromPoolAsync(&memory, counterBytes,
                                          run.memory.pool, run.stream))
    return 0;
  if (run.driver->cuMemsetD8Async(memory, 0, counterBytes, run.stream)) {
    run.driver->cuMemFreeAsync(memory, run.stream);
    return 0;
  }
  return counters = memory;
}

static void *counters(const AttnRuntime *runtime, int64_t count,
                      const char *name, int64_t grid) {
  Run &run = Run::of(runtime);
  const LoadedKernel *kernel = run.module->find(name);
  // Nobody draws; an address that none has would say if one did. Clearing
  // counters in a graph takes as long as a short kernel.
  constexpr uintptr_t nowhere = 64;
  if (kernel && grid <= kernel->maxBlocks)
    return reinterpret_cast<void *>(nowhere);
  size_t bytes = size_t(std::max<int64_t>(count, 1)) * 4;
  if (bytes <= counterBytes) {
    unsigned long long id;
    CUdeviceptr shared = streamCounters(run, id);
    if (shared && run.record) {
      run.record->hasCounters = true;
      run.record->streamId = id;
    } else if (run.record) {
      // The stream is captured, say.
      run.record->isForNow = true;
    }
    if (!shared) {
      run.goBeyondRecord();
      shared = getGraphCounters(*run.driver, run.context, run.stream,
                                run.memory.counters)
                   .memory;
    }
    if (shared)
      return reinterpret_cast<void *>(shared);
  }
  void *memory = allocate(runtime, int64_t(bytes));
  return memory && !fillZero(runtime, memory, int64_t(bytes)) ? memory
                                                              : nullptr;
}

static void *keep(const AttnRuntime *runtime, int64_t bytes, int64_t count,
                  const int64_t *key, int32_t *isNew) {
  Run &run = Run::of(runtime);
  *isNew = 1;
  KeptStream on = {run.stream, std::nullopt};
  unsigned long long id;
  if (findStreamId(*run.driver, run.stream, id))
    on.id = id;
  KeptMemory kept = getKeptMemory(
      *run.driver,
      {run.context, run.module->number, size_t(bytes), {key, key + count}},
      run.memory.pool, on);
  // A later run finds what this one writes, or is not captured.
  if (run.record && (kept.comesLater || !on.id))
    run.record->isForNow = true;
  if (!kept.memory)
    return allocate(runtime, bytes);
  if (kept.isNew) {
    run.goBeyondRecord();
    run.written.push_back(kept.memory);
  } else if (run.record && on.id) {
    run.record->hasCounters = true;
    run.record->streamId = id;
  }
  *isNew = kept.isNew;
  return reinterpret_cast<void *>(kept.memory);
}

//===----------------------------------------------------------------------===//
// Runs
//===----------------------------------------------------------------------===//

static Status runBound(const Driver &driver, const BoundProgram &program,
                       AttnEntry entry, void **args, void *stream,
                       LaunchRecord::Implementation *record) {
  Run state = {&driver,
               program.module,
               program.memory,
               program.context,
               static_cast<CUstream>(stream),
               /*error=*/"",
               /*hasLaunched=*/false,
               /*chunks=*/{},
               /*written=*/{},
               record};
  static const AttnGpu gpu = {encode, launch, fillZero, counters, keep};
  AttnRuntime runtime = {refuseHostKernel, allocate, release, &state, &gpu};
  int32_t status = entry(args, &runtime);
  releaseAll(state);
  bool isWritten = state.error.empty() && status == ATTN_RUNTIME_OK;
  for (CUdeviceptr memory : state.written)
    finishKeptMemory(driver, memory, isWritten, state.stream);
  // Releasing has no status of its own.
  if (!state.error.empty())
    return Failure{state.error};
  if (status != ATTN_RUNTIME_OK)
    return Failure{"expected the plan to succeed, but got status " +
                   std::to_string(status)};
  return success();
}

/// A record that is whole until a run goes beyond it.
static LaunchRecord::Implementation *begin(LaunchRecord *record,
                                           const Driver &driver,
                                           const BoundProgram &program,
                                           void *stream) {
  if (!record)
    return nullptr;
  LaunchRecord::Implementation &made = record->get();
  made.driver = &driver;
  made.context = program.context;
  made.device = program.device;
  made.stream = static_cast<CUstream>(stream);
  made.isWhole = true;
  return &made;
}

Status attn::cuda::run(const Program &program, AttnEntry entry, void **args,
                       const Placement &placement) {
  return run(program, entry, args, placement, /*record=*/nullptr);
}

Status attn::cuda::run(const Program &program, AttnEntry entry, void **args,
                       const Placement &placement, LaunchRecord *record) {
  auto driver = getDriver();
  if (!driver)
    return driver.takeFailure();
  Program::Implementation &code = program.get();
  // Where the last run was: nothing to look up, and nothing to make current.
  if (const BoundProgram *last = code.last.load(std::memory_order_acquire)) {
    CUcontext current = nullptr;
    bool isThere = !(*driver)->cuCtxGetCurrent(&current) &&
                   current == last->context &&
                   (placement.device < 0 || placement.device == last->device);
    if (isThere)
      return runBound(**driver, *last, entry, args, placement.stream,
                      begin(record, **driver, *last, placement.stream));
  }
  auto context = getContext(**driver, placement.device);
  if (!context)
    return context.takeFailure();
  ContextScope scope(**driver, *context);
  if (!scope.status())
    return scope.status();
  auto bound = code.bind(**driver, *context);
  if (!bound)
    return bound.takeFailure();
  code.last.store(*bound, std::memory_order_release);
  return runBound(**driver, **bound, entry, args, placement.stream,
                  scope.isPushed()
                      ? nullptr
                      : begin(record, **driver, **bound, placement.stream));
}

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

/// One call of the driver, which wants pitches of at least a row.
static CUresult copyRows(const Driver &driver, const RowsCopy &copy,
                         size_t rows, CUstream stream) {
  CUmemcpy2D what = {};
  what.srcMemoryType = what.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  what.srcDevice = reinterpret_cast<CUdeviceptr>(copy.from);
  what.dstDevice = reinterpret_cast<CUdeviceptr>(copy.to);
  what.srcPitch = rows == 1 ? copy.bytes : size_t(copy.fromPitch);
  what.dstPitch = rows == 1 ? copy.bytes : size_t(copy.toPitch);
  what.width = copy.bytes;
  what.height = rows;
  return driver.cuMemcpy2DAsync(&what, stream);
}

Status attn::cuda::copyRows(const std::vector<RowsCopy> &copies,
                            const Placement &placement) {
  auto driver = getDriver();
  if (!driver)
    return driver.takeFailure();
  auto context = getContext(**driver, placement.device);
  if (!context)
    return context.takeFailure();
  ContextScope scope(**driver, *context);
  if (!scope.status())
    return scope.status();
  auto stream = static_cast<CUstream>(placement.stream);
  for (RowsCopy copy : copies) {
    auto bytes = int64_t(copy.bytes);
    bool atOnce = copy.fromPitch >= bytes && copy.toPitch >= bytes;
    size_t calls = !copy.bytes ? 0 : atOnce ? copy.rows > 0 : copy.rows;
    for (; calls; --calls) {
      CUresult result =
          ::copyRows(**driver, copy, atOnce ? copy.rows : 1, stream);
      if (result)
        return (*driver)->failure("copy on the GPU", result);
      copy.to = static_cast<char *>(copy.to) + copy.toPitch;
      copy.from = static_cast<const char *>(copy.from) + copy.fromPitch;
    }
  }
  return success();
}

//===----------------------------------------------------------------------===//
// For tools
//===----------------------------------------------------------------------===//

/// Calls `body(driver)` with the current context, or GPU 0's.
template <typename F> static Status withContext(F body) {
  auto driver = getDriver();
  if (!driver)
    return driver.takeFailure();
  auto context = getContext(**driver, -1);
  if (!context)
    return context.takeFailure();
  ContextScope scope(**driver, *context);
  return scope.status() ? body(**driver) : scope.status();
}

Result<Buffer> Buffer::create(size_t bytes) {
  Buffer buffer;
  Status ok = withContext([&](const Driver &driver) {
    CUdeviceptr memory = 0;
    CUresult result = driver.cuMemAlloc(&memory, std::max<size_t>(bytes, 1));
    if (result)
      return Status(driver.failure(
          "allocate " + std::to_string(bytes) + " bytes on the GPU", result));
    buffer.pointer = reinterpret_cast<void *>(memory);
    buffer.bytes = bytes;
    return success();
  });
  if (!ok)
    return ok.takeFailure();
  return buffer;
}

Buffer::~Buffer() {
  if (pointer)
    (void)withContext([&](const Driver &driver) {
      driver.cuMemFree(reinterpret_cast<CUdeviceptr>(pointer));
      return success();
    });
}

Status Buffer::fill(unsigned char byte) {
  if (!bytes)
    return success();
  return withContext([&](const Driver &driver) {
    return driver.check(
        "fill memory on the GPU",
        driver.cuMemsetD8(reinterpret_cast<CUdeviceptr>(pointer), byte, bytes));
  });
}

Status Buffer::copyFrom(const void *host, size_t count) {
  count = std::min(count, bytes);
  if (!count)
    return success();
  return withContext([&](const Driver &driver) {
    return driver.check(
        "copy to the GPU",
        driver.cuMemcpyHtoD(reinterpret_cast<CUdeviceptr>(pointer), host,
                            count));
  });
}

Status Buffer::copyTo(void *host, size_t count) const {
  count = std::min(count, bytes);
  if (!count)
    return success();
  return withContext([&](const Driver &driver) {
    return driver.check(
        "copy from the GPU",
        driver.cuMemcpyDtoH(host, reinterpret_cast<CUdeviceptr>(pointer),
                            count));
  });
}

Status attn::cuda::synchronize() {
  return withContext([](const Driver &driver) {
    return driver.check("wait for the GPU",
                        driver.cuStreamSynchronize(nullptr));
  });
}

Result<Event> Event::record() {
  Event event;
  Status ok = withContext([&](const Driver &driver) {
    CUevent made = nullptr;
    CUresult result = driver.cuEventCreate(&made, 0);
    event.event = made;
    if (!result)
      result = driver.cuEventRecord(made, nullptr);
    return driver.check("record an event", result);
  });
  if (!ok)
    return ok.takeFailure();
  return event;
}

Event::~Event() {
  if (event)
    (void)withContext([&](const Driver &driver) {
      driver.cuEventDestroy(static_cast<CUevent>(event));
      return success();
    });
}

Status Event::wait() const {
  return withContext([&](const Driver &driver) {
    return driver.check("wait for an event",
                        driver.cuEventSynchronize(static_cast<CUevent>(event)));
  });
}

Result<double> Event::since(const Event &earlier) const {
  float ms = 0;
  Status ok = withContext([&](const Driver &driver) {
    return driver.check(
        "read the time between events",
        driver.cuEventElapsedTime(&ms, static_cast<CUevent>(earlier.event),
                                  static_cast<CUevent>(event)));
  });
  if (!ok)
    return ok.takeFailure();
  return double(ms);
}
