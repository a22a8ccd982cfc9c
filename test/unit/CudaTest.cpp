//===- CudaTest.cpp - The runtime on a driver that checks calls -----------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What kernels compute is not seen here: test/Runtime/FakeCuda.cpp runs none.
//===----------------------------------------------------------------------===//

#include "attn/Runtime/CudaRecord.h"
#include "gtest/gtest.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <functional>
#include <thread>
#include <vector>

using namespace ::attn;

static const char *const ptx = ".version 8.7\n.target sm_90a\n"
                               ".visible .entry plain(\n"
                               "  .param .align 64 .b8 plain_param_0[128],\n"
                               "  .param .u64 .ptr .global .align 1 p1,\n"
                               "  .param .u32 p2\n)\n{ ret; }\n"
                               ".visible .entry persistent(\n"
                               "  .param .u64 p0\n)\n{ ret; }\n";

namespace {
class CudaTest : public testing::Test {
protected:
  static void SetUpTestSuite() {
    setenv("ATTN_LIBCUDA", ATTN_FAKE_CUDA, 1);
    setenv("ATTN_FAKE_CUDA_LOG", logPath().c_str(), 1);
    std::remove(logPath().c_str());
  }

  static std::string logPath() { return testing::TempDir() + "attn-cuda.log"; }
  /// What the driver wrote down since the last call.
  static std::string takeLog() {
    static long position = 0;
    std::FILE *file = std::fopen(logPath().c_str(), "r");
    std::string text;
    if (!file)
      return text;
    std::fseek(file, position, SEEK_SET);
    for (int c; (c = std::fgetc(file)) != EOF;)
      text += char(c);
    position = std::ftell(file);
    std::fclose(file);
    return text;
  }
  template <typename T> static T lookup(const char *name) {
    void *library = dlopen(ATTN_FAKE_CUDA, RTLD_NOW);
    return reinterpret_cast<T>(dlsym(library, name));
  }

  static std::shared_ptr<cuda::DeviceCode> makeCode() {
    auto code = std::make_shared<cuda::DeviceCode>();
    code->target = "sm_90a";
    code->ptx = ptx;
    code->kernels = {{"plain", 128, 1024, false},
                     {"persistent", 384, 200 << 10, true}};
    return code;
  }

  static support::Status run(const cuda::Program &program, AttnEntry entry,
                             void *argument, void *stream = nullptr) {
    void *args[] = {argument};
    return cuda::run(program, entry, args, {0, stream});
  }
};

/// What a plan encodes a tensor map of.
struct MapCase {
  void *data;
  int64_t sizes[4], strides[4];
  int64_t rows = 64, cols = 64;
  int32_t swizzle = 128, element = ATTN_ELEMENT_BF16;
};

/// A plan: one map, workspace, both kernels.
int32_t plan(void **args, const AttnRuntime *runtime) {
  auto &map = *static_cast<MapCase *>(args[0]);
  alignas(64) char bytes[128];
  int32_t status = runtime->gpu->encode_tensor_map(
      runtime, bytes, "q", map.data, map.element, 4, map.sizes, map.strides,
      map.rows, map.cols, map.swizzle);
  void *memory = runtime->allocate(runtime, 4);
  status |= runtime->gpu->fill_zero(runtime, memory, 4);
  int32_t number = 7;
  void *params[] = {bytes, &memory, &number};
  status |= runtime->gpu->launch(runtime, "plain", status ? 0 : 5, 0, params);
  void *second[] = {&memory};
  status |= runtime->gpu->launch(runtime, "persistent", status ? 0 : 100000,
                                 ATTN_LAUNCH_PROGRAMMATIC, second);
  runtime->release(runtime, memory);
  return status;
}
} // namespace

TEST_F(CudaTest, DescribesDevices) {
  auto count = cuda::countDevices();
  ASSERT_TRUE(bool(count)) << count.error();
  EXPECT_EQ(*count, 1);
  auto device = cuda::getDevice(0);
  ASSERT_TRUE(bool(device)) << device.error();
  EXPECT_EQ(device->target(), "sm_90a");
  EXPECT_EQ(device->multiprocessors, 132);
  EXPECT_EQ(device->sharedMemoryBytes, 227 << 10);
  EXPECT_EQ(cuda::getDevice(1).error(), "expected a GPU below 1, but got 1");
  cuda::DeviceInfo older;
  older.major = 7;
  EXPECT_EQ(older.target(), "");
  older.major = 8;
  older.minor = 7;
  EXPECT_EQ(older.target(), "sm_86");
  cuda::DeviceInfo newer;
  newer.major = 10;
  EXPECT_EQ(newer.target(), "sm_100a");
  newer.minor = 3;
  EXPECT_EQ(newer.target(), "sm_89");
  newer.major = 12;
  EXPECT_EQ(newer.target(), "sm_89");
}

TEST_F(CudaTest, TellsMemoryApart) {
  int host = 0;
  auto place = cuda::deviceOf(&host);
  ASSERT_TRUE(bool(place));
  EXPECT_EQ(*place, -1);
  auto buffer = cuda::Buffer::create(100);
  ASSERT_TRUE(bool(buffer)) << buffer.error();
  place = cuda::deviceOf(buffer->data());
  ASSERT_TRUE(bool(place));
  EXPECT_EQ(*place, 0);
}

TEST_F(CudaTest, RunsPlans) {
  cuda::Program program(makeCode());
  auto buffer = cuda::Buffer::create(2 * 3 * 100 * 64 * 2);
  ASSERT_TRUE(bool(buffer));
  MapCase map = {buffer->data(), {2, 3, 100, 64}, {19200, 6400, 64, 1}};
  takeLog();
  auto ok = run(program, plan, &map);
  ASSERT_TRUE(bool(ok)) << ok.error();
  // The persistent kernel has one block on each multiprocessor.
  EXPECT_EQ(takeLog(),
            "load 2 kernels\n"
            "map 2x3x100x64 of 2 bytes, box 64x64, swizzle 128\n"
            "allocate 2097152\nclear 4\n"
            "launch plain grid 5 block 128 shared 1024: map memory 7\n"
            "launch persistent grid 132 block 384 shared 204800 programmatic: "
            "memory\nfree\n");
  // Loaded once; other threads have no context of their own.
  std::vector<std::thread> threads;
  std::vector<std::string> errors(8);
  for (std::string &error : errors)
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i)
        if (auto status = run(program, plan, &map); !status)
          error = status.error();
    });
  for (std::thread &thread : threads)
    thread.join();
  for (const std::string &error : errors)
    EXPECT_EQ(error, "");
  EXPECT_EQ(takeLog().find("load"), std::string::npos);
}

TEST_F(CudaTest, RunsInsideCaptures) {
  auto makeStream = lookup<void *(*)()>("attnFakeStream");
  auto capture = lookup<void (*)(void *, int)>("attnFakeCapture");
  auto dropGraph = lookup<void (*)(void *)>("attnFakeDropGraph");
  auto memory = lookup<size_t (*)()>("attnFakeMemory");
  auto buffer = cuda::Buffer::create(2 * 3 * 100 * 64 * 2);
  ASSERT_TRUE(bool(buffer));
  MapCase map = {buffer->data(), {2, 3, 100, 64}, {19200, 6400, 64, 1}};
  void *stream = makeStream(), *other = makeStream();
  // What a context has for all programs is there.
  ASSERT_TRUE(bool(run(cuda::Program(makeCode()), plan, &map)));
  capture(stream, 1);
  // Even what is loaded only now.
  cuda::Program program(makeCode());
  takeLog();
  size_t before = memory();
  auto ok = run(program, plan, &map, stream);
  EXPECT_TRUE(bool(ok)) << ok.error();
  // Workspace is the graph's: no node says where it begins and ends. Runs of
  // the same stream use the same.
  std::string log = takeLog();
  EXPECT_NE(log.find("programmatic captured"), std::string::npos) << log;
  EXPECT_EQ(log.find("allocate"), std::string::npos) << log;
  EXPECT_EQ(log.find("free"), std::string::npos) << log;
  size_t kept = memory() - before;
  EXPECT_EQ(kept, size_t(2) << 20);
  EXPECT_TRUE(bool(run(program, plan, &map, stream)));
  EXPECT_EQ(memory(), before + kept);
  capture(stream, 0);
  // Another graph has its own, until the first is dropped.
  capture(other, 1);
  EXPECT_TRUE(bool(run(program, plan, &map, other)));
  capture(other, 0);
  EXPECT_EQ(memory(), before + 2 * kept);
  dropGraph(stream);
  capture(stream, 1);
  EXPECT_TRUE(bool(run(program, plan, &map, stream)));
  capture(stream, 0);
  EXPECT_EQ(memory(), before + 2 * kept);
  dropGraph(stream);
  dropGraph(other);
  takeLog();
}

/// A plan whose first launch has no blocks.
static int32_t chosenPlan(void **, const AttnRuntime *runtime) {
  void *memory = runtime->allocate(runtime, 4);
  void *params[] = {&memory};
  int32_t status = runtime->gpu->launch(runtime, "persistent", 0, 0, params);
  for (int i = 0; i < 2; ++i)
    status |= runtime->gpu->launch(runtime, "persistent", 100,
                                   ATTN_LAUNCH_PROGRAMMATIC, params);
  runtime->release(runtime, memory);
  return status;
}

TEST_F(CudaTest, OverlapsLaunchesOfOneRun) {
  cuda::Program program(makeCode());
  auto ok = run(program, chosenPlan, nullptr);
  ASSERT_TRUE(bool(ok)) << ok.error();
  std::string log = takeLog();
  // Both with blocks start early, and wait by themselves for what was before.
  size_t first = log.find("launch"), second = log.find("launch", first + 1);
  ASSERT_NE(second, std::string::npos) << log;
  EXPECT_EQ(log.find("launch", second + 1), std::string::npos) << log;
  EXPECT_LT(log.find("programmatic"), second) << log;
  EXPECT_NE(log.find("programmatic", second), std::string::npos) << log;
}

/// A plan that takes two counters and leaves the addresses of both.
template <int64_t grid>
static int32_t countingPlan(void **args, const AttnRuntime *runtime) {
  auto **seen = static_cast<int32_t **>(args[0]);
  for (int i = 0; i < 2; ++i)
    seen[i] = static_cast<int32_t *>(
        runtime->gpu->counters(runtime, 1, "persistent", grid));
  if (!seen[0] || !seen[1])
    return ATTN_RUNTIME_NO_MEMORY;
  void *params[] = {&seen[0]};
  return runtime->gpu->launch(runtime, "persistent", grid,
                              ATTN_LAUNCH_PROGRAMMATIC, params);
}

/// Blocks of which 132 run at once, and others that do all.
static constexpr auto drawingPlan = countingPlan<1000>;
static constexpr auto wholePlan = countingPlan<132>;

TEST_F(CudaTest, CountersStayWithTheirStream) {
  auto makeStream = lookup<void *(*)()>("attnFakeStream");
  auto capture = lookup<void (*)(void *, int)>("attnFakeCapture");
  auto dropGraph = lookup<void (*)(void *)>("attnFakeDropGraph");
  cuda::Program program(makeCode());
  void *first = makeStream(), *second = makeStream();
  int32_t *seen[2], *again[2], *other[2];
  auto ok = run(program, drawingPlan, seen, first);
  ASSERT_TRUE(bool(ok)) << ok.error();
  EXPECT_EQ(*seen[0], 0);
  // Launches that follow each other share them, and draw when the one before
  // has ended: nothing is allocated or cleared.
  takeLog();
  ASSERT_TRUE(bool(run(program, drawingPlan, again, first)));
  std::string log = takeLog();
  EXPECT_EQ(again[0], seen[0]);
  EXPECT_EQ(again[1], seen[0]);
  EXPECT_EQ(log.find("allocate"), std::string::npos) << log;
  EXPECT_EQ(log.find("clear"), std::string::npos) << log;
  ASSERT_TRUE(bool(run(program, drawingPlan, other, second)));
  EXPECT_NE(other[0], seen[0]);
  takeLog();
  // A graph has its own, which are zero without being cleared.
  capture(first, 1);
  ok = run(program, drawingPlan, again, first);
  capture(first, 0);
  ASSERT_TRUE(bool(ok)) << ok.error();
  EXPECT_NE(again[0], seen[0]);
  EXPECT_EQ(again[1], again[0]);
  EXPECT_EQ(*again[0], 0);
  log = takeLog();
  EXPECT_EQ(log.find("clear"), std::string::npos) << log;
  dropGraph(first);
}

/// A plan that keeps memory for a number, and what it was told.
struct KeepCase {
  int64_t number;
  int32_t status = ATTN_RUNTIME_OK;
  void *memory = nullptr;
  int32_t isNew = -1;
};
static int32_t keepingPlan(void **args, const AttnRuntime *runtime) {
  auto *seen = static_cast<KeepCase *>(args[0]);
  seen->memory =
      runtime->gpu->keep(runtime, 1000, 1, &seen->number, &seen->isNew);
  if (!seen->memory)
    return ATTN_RUNTIME_NO_MEMORY;
  void *params[] = {&seen->memory};
  return seen->status | runtime->gpu->launch(runtime, "persistent", 100,
                                             ATTN_LAUNCH_PROGRAMMATIC, params);
}

TEST_F(CudaTest, KeepsWhatARunWrote) {
  auto makeStream = lookup<void *(*)()>("attnFakeStream");
  auto capture = lookup<void (*)(void *, int)>("attnFakeCapture");
  auto dropGraph = lookup<void (*)(void *)>("attnFakeDropGraph");
  cuda::Program program(makeCode()), other(makeCode());
  void *stream = makeStream(), *beside = makeStream();
  auto keep = [&](cuda::Program &program, KeepCase kept, void *stream) {
    auto ok = run(program, keepingPlan, &kept, stream);
    EXPECT_EQ(bool(ok), kept.status == ATTN_RUNTIME_OK);
    return kept;
  };
  // Of a run that failed nothing is kept.
  EXPECT_EQ(keep(program, {7, ATTN_RUNTIME_NO_MEMORY}, stream).isNew, 1);
  KeepCase first = keep(program, {7}, stream);
  EXPECT_EQ(first.isNew, 1);
  KeepCase again = keep(program, {7}, stream);
  EXPECT_EQ(again.isNew, 0);
  EXPECT_EQ(again.memory, first.memory);
  // Another number, another module; another stream, and a graph, while nobody
  // knows whether it is written.
  for (KeepCase kept : {keep(program, {8}, stream), keep(other, {7}, stream),
                        keep(program, {7}, beside)}) {
    EXPECT_EQ(kept.isNew, 1);
    EXPECT_NE(kept.memory, first.memory);
  }
  auto keepCaptured = [&](int64_t number) {
    capture(stream, 1);
    KeepCase captured = keep(program, {number}, stream);
    capture(stream, 0);
    dropGraph(stream);
    return captured;
  };
  KeepCase captured = keepCaptured(7);
  EXPECT_EQ(captured.isNew, 1);
  EXPECT_NE(captured.memory, first.memory);
  EXPECT_EQ(keep(program, {7}, stream).memory, first.memory);
  // It is.
  ASSERT_TRUE(bool(cuda::synchronize()));
  EXPECT_EQ(keep(program, {7}, beside).memory, first.memory);
  captured = keepCaptured(7);
  EXPECT_EQ(captured.isNew, 0);
  EXPECT_EQ(captured.memory, first.memory);
  // What a graph writes is its own.
  EXPECT_EQ(keepCaptured(9).isNew, 1);
  EXPECT_EQ(keepCaptured(9).isNew, 1);
}

/// Memory beyond what is kept.
static int32_t largePlan(void **args, const AttnRuntime *runtime) {
  auto *isNew = static_cast<int32_t *>(args[0]);
  int64_t number = 0;
  return runtime->gpu->keep(runtime, int64_t(300) << 20, 1, &number, isNew)
             ? ATTN_RUNTIME_OK
             : ATTN_RUNTIME_NO_MEMORY;
}

TEST_F(CudaTest, KeepsSoMuch) {
  auto makeStream = lookup<void *(*)()>("attnFakeStream");
  auto memory = lookup<size_t (*)()>("attnFakeMemory");
  cuda::Program program(makeCode());
  void *stream = makeStream();
  size_t before = memory();
  for (int i = 0; i < 2; ++i) {
    int32_t isNew = -1;
    EXPECT_TRUE(bool(run(program, largePlan, &isNew, stream)));
    EXPECT_EQ(isNew, 1);
    EXPECT_EQ(memory(), before);
  }
}

TEST_F(CudaTest, RecordsRunsThatFindWhatIsKept) {
  auto makeStream = lookup<void *(*)()>("attnFakeStream");
  auto push = lookup<int (*)(void *)>("cuCtxPushCurrent_v2");
  auto pop = lookup<int (*)(void **)>("cuCtxPopCurrent_v2");
  auto retain = lookup<int (*)(void **, int)>("cuDevicePrimaryCtxRetain");
  void *context = nullptr;
  ASSERT_EQ(retain(&context, 0), 0);
  ASSERT_EQ(push(context), 0);
  cuda::Program program(makeCode());
  KeepCase seen = {3};
  void *args[] = {&seen}, *stream = makeStream();
  auto record = [&](cuda::LaunchRecord &into) {
    return bool(cuda::run(program, keepingPlan, args, {0, stream}, &into));
  };
  cuda::LaunchRecord writes, finds;
  ASSERT_TRUE(record(writes));
  EXPECT_FALSE(writes.isWhole());
  EXPECT_TRUE(writes.isForNow());
  ASSERT_TRUE(record(finds));
  EXPECT_TRUE(finds.isWhole());
  EXPECT_FALSE(finds.isForNow());
  auto again = finds.replay(seen.memory);
  EXPECT_TRUE(again && *again);
  ASSERT_EQ(pop(&context), 0);
}

TEST_F(CudaTest, NobodyDrawsWhereAllBlocksRun) {
  auto makeStream = lookup<void *(*)()>("attnFakeStream");
  auto capture = lookup<void (*)(void *, int)>("attnFakeCapture");
  cuda::Program program(makeCode());
  void *stream = makeStream();
  int32_t *seen[2];
  for (int captured = 0; captured < 2; ++captured) {
    capture(stream, captured);
    takeLog();
    auto ok = run(program, wholePlan, seen, stream);
    ASSERT_TRUE(bool(ok)) << ok.error();
    // One launch: in a graph, one node.
    std::string log = takeLog();
    EXPECT_EQ(log.find("allocate"), std::string::npos) << log;
    EXPECT_EQ(log.find("clear"), std::string::npos) << log;
    EXPECT_NE(log.find("launch persistent grid 132"), std::string::npos) << log;
  }
  capture(stream, 0);
}

TEST_F(CudaTest, RecordsRuns) {
  auto makeStream = lookup<void *(*)()>("attnFakeStream");
  auto capture = lookup<void (*)(void *, int)>("attnFakeCapture");
  auto push = lookup<int (*)(void *)>("cuCtxPushCurrent_v2");
  auto pop = lookup<int (*)(void **)>("cuCtxPopCurrent_v2");
  auto retain = lookup<int (*)(void **, int)>("cuDevicePrimaryCtxRetain");
  void *context = nullptr;
  ASSERT_EQ(retain(&context, 0), 0);
  cuda::Program program(makeCode());
  int32_t *seen[2];
  void *args[] = {seen}, *stream = makeStream();
  auto record = [&](cuda::LaunchRecord &into) {
    return bool(cuda::run(program, drawingPlan, args, {0, stream}, &into));
  };
  // In a context that is not the thread's.
  cuda::LaunchRecord elsewhere;
  ASSERT_TRUE(record(elsewhere));
  EXPECT_FALSE(elsewhere.isWhole());
  ASSERT_EQ(push(context), 0);
  cuda::LaunchRecord launches;
  ASSERT_TRUE(record(launches));
  EXPECT_TRUE(launches.isWhole());
  takeLog();
  ASSERT_TRUE(record(launches)); // adds a second launch
  std::string once = takeLog();
  auto again = launches.replay(seen[0]);
  ASSERT_TRUE(again && *again);
  EXPECT_EQ(takeLog(), once + once);
  // A captured stream, and then another context.
  capture(stream, 1);
  EXPECT_FALSE(launches.replay(seen[0]));
  cuda::LaunchRecord captured;
  EXPECT_TRUE(record(captured));
  EXPECT_FALSE(captured.isWhole());
  EXPECT_TRUE(captured.isForNow());
  capture(stream, 0);
  EXPECT_TRUE(bool(launches.replay(seen[0])));
  ASSERT_EQ(pop(&context), 0);
  EXPECT_FALSE(launches.replay(seen[0]));
  // Workspace is another one each time.
  ASSERT_EQ(push(context), 0);
  auto buffer = cuda::Buffer::create(2 * 3 * 100 * 64 * 2);
  ASSERT_TRUE(bool(buffer));
  MapCase map = {buffer->data(), {2, 3, 100, 64}, {19200, 6400, 64, 1}};
  void *mapArgs[] = {&map};
  cuda::LaunchRecord workspace;
  ASSERT_TRUE(bool(cuda::run(program, plan, mapArgs, {0, stream}, &workspace)));
  EXPECT_FALSE(workspace.isWhole());
  EXPECT_FALSE(workspace.isForNow());
  ASSERT_EQ(pop(&context), 0);
}

TEST_F(CudaTest, ChecksTensorMaps) {
  cuda::Program program(makeCode());
  auto buffer = cuda::Buffer::create(1 << 20);
  ASSERT_TRUE(bool(buffer));
  MapCase good = {buffer->data(), {2, 3, 100, 64}, {19200, 6400, 64, 1}};
  auto error = [&](const MapCase &map) {
    MapCase copy = map;
    auto ok = run(program, plan, &copy);
    return ok ? std::string() : ok.error();
  };
  EXPECT_EQ(error(good), "");
  MapCase map = good;
  map.data = static_cast<char *>(good.data) + 2;
  EXPECT_EQ(error(map),
            "expected 'q' to start at a multiple of 16 bytes in memory, but "
            "got an address that is 2 bytes past one; copy it");
  map = good;
  map.strides[2] = 68;
  EXPECT_EQ(error(map),
            "expected 'q' to have strides of multiples of 8 elements (16 "
            "bytes) for tensor copies, but got stride 68 in dimension 2; copy "
            "it to memory with padded rows");
  map.strides[2] = -64;
  EXPECT_NE(error(map).find("stride -64 in dimension 2"), std::string::npos);
  map = good;
  map.strides[3] = 2;
  EXPECT_NE(error(map).find("stride 1 in its last dimension"),
            std::string::npos);
  // Strides where they do not matter, repeated tensors, empty ones.
  map = good;
  map.sizes[0] = 1;
  map.strides[0] = 3;
  EXPECT_EQ(error(map), "");
  map = good;
  map.strides[1] = 0;
  EXPECT_EQ(error(map), "");
  map = good;
  map.sizes[2] = 0;
  map.data = nullptr;
  EXPECT_EQ(error(map), "");
  map = good;
  map.rows = 300;
  EXPECT_NE(error(map).find("a box of at most 256 x 256"), std::string::npos);
}

TEST_F(CudaTest, RefusesTensorMaps) {
  cuda::Program program(makeCode());
  auto buffer = cuda::Buffer::create(1 << 20);
  ASSERT_TRUE(bool(buffer));
  const MapCase good = {buffer->data(), {2, 3, 100, 64}, {19200, 6400, 64, 1}};
  auto error = [&](const std::function<void(MapCase &)> &change) {
    MapCase copy = good;
    change(copy);
    auto ok = run(program, plan, &copy);
    return ok ? std::string() : ok.error();
  };
  // Sizes; 2^32 itself is one that the driver takes.
  EXPECT_EQ(error([](MapCase &map) { map.sizes[0] = -1; }),
            "expected 'q' to have sizes from 0 to 4294967296, but got -1 in "
            "dimension 0");
  EXPECT_EQ(error([](MapCase &map) {
              map.sizes[1] = (int64_t(1) << 32) + 1;
              map.strides[1] = 0;
            }),
            "expected 'q' to have sizes from 0 to 4294967296, but got "
            "4294967297 in dimension 1");
  EXPECT_EQ(error([](MapCase &map) {
              map.sizes[1] = int64_t(1) << 32;
              map.strides[1] = 0;
            }),
            "");
  EXPECT_NE(error([](MapCase &map) {
              map.sizes[3] = INT64_MAX;
            }).find("9223372036854775807 in dimension 3"),
            std::string::npos);
  // Strides: the rule in bytes is one of elements to the user.
  EXPECT_EQ(error([](MapCase &map) {
              map.element = ATTN_ELEMENT_F32;
              map.cols = 32;
              map.strides[2] = 66;
            }),
            "expected 'q' to have strides of multiples of 4 elements (16 "
            "bytes) for tensor copies, but got stride 66 in dimension 2; copy "
            "it to memory with padded rows");
  EXPECT_NE(error([](MapCase &map) {
              map.element = ATTN_ELEMENT_U8;
              map.strides[1] = 6404;
            }).find("multiples of 16 elements (16 bytes)"),
            std::string::npos);
  EXPECT_EQ(error([](MapCase &map) { map.strides[1] = -8; }),
            "expected 'q' to have strides from 0 to below 2^40 bytes for "
            "tensor copies, but got stride -8 in dimension 1; copy it");
  EXPECT_NE(error([](MapCase &map) {
              map.strides[0] = int64_t(1) << 39;
            }).find("from 0 to below 2^40 bytes"),
            std::string::npos);
  // In bytes this one is 0 in 64 bits.
  EXPECT_NE(error([](MapCase &map) {
              map.strides[0] = INT64_MIN;
            }).find("from 0 to below 2^40 bytes"),
            std::string::npos);
  EXPECT_NE(error([](MapCase &map) {
              map.strides[0] = int64_t(1) << 62;
            }).find("from 0 to below 2^40 bytes"),
            std::string::npos);
  EXPECT_NE(error([](MapCase &map) {
              map.strides[3] = 0;
            }).find("stride 1 in its last dimension, but got stride 0"),
            std::string::npos);
  // One column, or none, has no stride to speak of.
  EXPECT_EQ(error([](MapCase &map) {
              map.sizes[3] = 1;
              map.strides[3] = 5;
            }),
            "");
  EXPECT_EQ(error([](MapCase &map) {
              map.sizes[1] = 0;
              map.strides[3] = 5;
              map.strides[2] = 3;
            }),
            "");
  // Memory.
  EXPECT_NE(error([](MapCase &map) {
              map.data = static_cast<char *>(map.data) + 8;
            }).find("8 bytes past one"),
            std::string::npos);
  // Boxes, swizzles and elements are the compiler's.
  for (auto [rows, cols] :
       {std::pair{0, 64}, {257, 64}, {64, 0}, {64, 264}, {64, 4}, {64, 128}})
    EXPECT_NE(error([rows = rows, cols = cols](MapCase &map) {
                map.rows = rows;
                map.cols = cols;
              })
                  .find("a box of at most 256 x 256 elements and of rows of 16 "
                        "bytes or more that fit the swizzle, but got " +
                        std::to_string(rows) + " x " + std::to_string(cols)),
              std::string::npos)
        << rows << " x " << cols;
  EXPECT_EQ(error([](MapCase &map) {
              map.swizzle = 0;
              map.cols = 128;
            }),
            "");
  EXPECT_NE(error([](MapCase &map) { map.swizzle = 16; })
                .find("but got element " + std::to_string(ATTN_ELEMENT_BF16) +
                      ", rank 4 and swizzle 16"),
            std::string::npos);
  EXPECT_NE(error([](MapCase &map) {
              map.element = 99;
            }).find("but got element 99, rank 4 and swizzle 128"),
            std::string::npos);
}

/// What a plan asks for that no plan may.
static int32_t absentKernel(void **, const AttnRuntime *runtime) {
  return runtime->gpu->launch(runtime, "absent", 1, 0, nullptr);
}
static int32_t largeGrid(void **args, const AttnRuntime *runtime) {
  return runtime->gpu->launch(runtime, "plain", int64_t(1) << 31, 0, args);
}
static int32_t hostKernel(void **, const AttnRuntime *runtime) {
  auto body = [](void *, int64_t, void *) {};
  return runtime->parallel_for(runtime, body, nullptr, 1, 0);
}

TEST_F(CudaTest, RefusesPlans) {
  cuda::Program program(makeCode());
  EXPECT_EQ(run(program, absentKernel, nullptr).error(),
            "expected a kernel 'absent' in the module, but it has none");
  EXPECT_EQ(run(program, largeGrid, nullptr).error(),
            "expected at most 2147483647 blocks of 'plain', but got "
            "2147483648");
  EXPECT_EQ(run(program, hostKernel, nullptr).error(),
            "expected kernels of the GPU in the plan of a GPU, but got one of "
            "the CPU");
}

TEST_F(CudaTest, NamesErrors) {
  auto buffer = cuda::Buffer::create(1 << 20);
  ASSERT_TRUE(bool(buffer));
  MapCase map = {buffer->data(), {2, 3, 100, 64}, {19200, 6400, 64, 1}};
  auto code = makeCode();
  code->ptx = "no PTX";
  auto failed = run(cuda::Program(code), plan, &map);
  EXPECT_EQ(failed.error(),
            "cannot load the code for sm_90a: CUDA_ERROR_INVALID_PTX, a PTX "
            "JIT compilation failed; its log: ptxas fatal   : Missing .version "
            "directive at start of file; ptxas fatal   : Ptx assembly aborted "
            "due to errors");
  setenv("ATTN_FAKE_CUDA_JIT_LOG",
         "info : 0 bytes stack frame\n"
         "info : (C7510) Potential Performance Loss: wgmma.mma_async "
         "instructions are serialized\n",
         1);
  EXPECT_EQ(run(cuda::Program(makeCode()), plan, &map).error(),
            "expected code that the driver assembles as it stands, but it "
            "says: info : (C7510) Potential Performance Loss: wgmma.mma_async "
            "instructions are serialized");
  unsetenv("ATTN_FAKE_CUDA_JIT_LOG");
  code = makeCode();
  code->kernels[0].sharedBytes = 300 << 10;
  EXPECT_EQ(run(cuda::Program(code), plan, &map).error(),
            "cannot give 307200 bytes of shared memory to the kernel 'plain': "
            "CUDA_ERROR_INVALID_VALUE, invalid argument");
  code = makeCode();
  code->kernels[0].name = "missing";
  EXPECT_EQ(run(cuda::Program(code), plan, &map).error(),
            "cannot find the kernel 'missing': CUDA_ERROR_NOT_FOUND, named "
            "symbol not found");
  // Machine code that the driver does not take is made good by the PTX.
  code = makeCode();
  code->cubin = "\x7f"
                "ELF and so on";
  auto ok = run(cuda::Program(code), plan, &map);
  EXPECT_TRUE(bool(ok)) << ok.error();
  cuda::Program program(makeCode());
  EXPECT_EQ(
      run(program, plan, &map, &map).error(),
      "cannot allocate 2097152 bytes of workspace: CUDA_ERROR_INVALID_HANDLE, "
      "invalid resource handle");
}
