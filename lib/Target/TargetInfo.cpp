//===- TargetInfo.cpp - The one home of hardware numbers ------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Target/TargetInfo.h"
#include "attn/Support/Amx.h"

#include <unistd.h>

using namespace ::attn;

static TargetInfo makeCpu(std::string_view name) {
  TargetInfo info;
  info.name = name;
  info.llvmCpu = "x86-64";
  if (name == "cpu-generic")
    return info;
  info.llvmCpu = "x86-64-v3";
  info.vectorBits = 256;
  info.hasFma = true;
  info.l1Bytes = 32 << 10;
  info.l2Bytes = 512 << 10;
  info.coreRates.division = 5;
  info.coreRates.shuffles = 1;
  info.coreRates.shuffleLatency = 3;
  if (name == "cpu-avx2")
    return info;
  info.llvmCpu = "x86-64-v4";
  // LLVM avoids 512-bit vectors on this generic CPU unless told otherwise.
  info.llvmFeatures = "-prefer-256-bit";
  info.vectorBits = 512;
  info.numVectorRegisters = 32;
  info.l1Bytes = 32 << 10;
  info.l2Bytes = 1 << 20;
  info.coreRates.vectors = 2;
  info.coreRates.division = 16;
  info.coreRates.divisionLatency = 24;
  if (name == "cpu-avx512")
    return info;
  info.hasBf16Dot = true;
  info.coreRates.instructions = 6;
  info.coreRates.window = 512;
  info.llvmFeatures += ",+avx512bf16";
  if (name == "cpu-avx512-bf16")
    return info;
  info.hasAmxBf16 = true;
  info.l1Bytes = 48 << 10;
  info.l2Bytes = 2 << 20;
  info.llvmFeatures += ",+amx-tile,+amx-bf16";
  return info;
}

static TargetInfo makeGpu(std::string_view name, int64_t sharedMemory,
                          int64_t multiprocessors, int64_t l2) {
  TargetInfo info;
  info.name = name;
  info.kind = TargetInfo::Kind::Gpu;
  info.llvmCpu = name;
  info.sharedMemoryBytes = sharedMemory;
  info.numRegisters = 65536;
  info.numMultiprocessors = multiprocessors;
  info.gpuL2Bytes = l2;
  info.mmaShapes = {MmaShape::warp()};
  info.maxThreads = 1024;
  info.maxThreadRegisters = 255;
  info.registerReserve = 32;
  info.namedBarriers = 16;
  info.headsAbreast = 4;
  info.hasTf32 = true;
  if (name == "sm_90a")
    info.mmaShapes.push_back(MmaShape::warpgroup());
  if (name == "sm_100a") {
    info.mmaShapes.push_back(MmaShape::tensorMemory());
    info.tensorMemoryBytes = 256 << 10;
  }
  GpuRates &rates = info.rates;
  if (name == "sm_80")
    rates.fmaLanes = 16;
  if (name == "sm_86" || name == "sm_89") {
    rates.warpFlops = 1024;
    rates.memoryBytes = name == "sm_86" ? 550 : 400;
    rates.maxThreads = 1536;
    rates.maxBlocks = name == "sm_86" ? 16 : 24;
  }
  if (name == "sm_90a") {
    rates.groupFlops = 4096;
    rates.warpFlops = 2560;
    rates.memoryBytes = 2620;
  }
  if (name == "sm_100a") {
    rates.warpFlops = 2048;
    rates.memoryBytes = 4300;
  }
  if (name == "sm_90a" || name == "sm_100a") {
    info.hasTensorCopy = true;
    info.hasRoleRegisters = true;
    info.hasMatrixStore = true;
    info.hasProgrammaticLaunch = true;
    info.maxCluster = 8;
  }
  return info;
}

/// The known targets, CPUs from the least to the most able.
static const std::vector<TargetInfo> &table() {
  static const std::vector<TargetInfo> targets = {
      makeCpu("cpu-generic"),
      makeCpu("cpu-avx2"),
      makeCpu("cpu-avx512"),
      makeCpu("cpu-avx512-bf16"),
      makeCpu("cpu-amx"),
      // Largest dynamic shared memory of a block: CUDA C++ Programming Guide,
      // table "Technical Specifications per Compute Capability".
      makeGpu("sm_80", 163 << 10, 108, int64_t(40) << 20),
      makeGpu("sm_86", 99 << 10, 84, int64_t(6) << 20),
      makeGpu("sm_89", 99 << 10, 142, int64_t(72) << 20),
      makeGpu("sm_90a", 227 << 10, 132, int64_t(50) << 20),
      makeGpu("sm_100a", 227 << 10, 148, int64_t(126) << 20),
  };
  return targets;
}

std::optional<TargetInfo> TargetInfo::get(std::string_view name) {
  if (name == "host")
    return host();
  for (const TargetInfo &info : table())
    if (info.name == name)
      return info;
  return std::nullopt;
}

std::vector<std::string> TargetInfo::names() {
  std::vector<std::string> names = {"host"};
  for (const TargetInfo &info : table())
    names.push_back(info.name);
  return names;
}

static std::string detectHost() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
    return "cpu-generic";
  if (!__builtin_cpu_supports("avx512f") ||
      !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512dq") ||
      !__builtin_cpu_supports("avx512vl"))
    return "cpu-avx2";
  if (!__builtin_cpu_supports("avx512bf16"))
    return "cpu-avx512";
  if (!__builtin_cpu_supports("amx-tile") ||
      !__builtin_cpu_supports("amx-bf16") || !requestAmx())
    return "cpu-avx512-bf16";
  return "cpu-amx";
#else
  return "cpu-generic";
#endif
}

const TargetInfo &TargetInfo::host() {
  static const TargetInfo info = [] {
    TargetInfo host = makeCpu(detectHost());
    if (long bytes = sysconf(_SC_LEVEL1_DCACHE_SIZE); bytes > 0)
      host.l1Bytes = bytes;
    if (long bytes = sysconf(_SC_LEVEL2_CACHE_SIZE); bytes > 0)
      host.l2Bytes = bytes;
    return host;
  }();
  return info;
}
