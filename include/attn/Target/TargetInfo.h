//===- TargetInfo.h - The one home of hardware numbers ----------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Schedules are computed against these limits and code is generated for these
// instruction sets; no other file holds a hardware number. Names:
//
//   cpu-generic       any x86-64: 128-bit vectors
//   cpu-avx2          AVX2 + FMA + F16C
//   cpu-avx512        AVX-512 F/BW/DQ/VL
//   cpu-avx512-bf16   with AVX512-BF16 dot products
//   cpu-amx           with AMX-BF16 tiles as well
//   host              the best of these that this machine runs
//   sm_80, sm_86, sm_89, sm_90a   NVIDIA GPUs (data; no code generator yet)
//
// This header includes no MLIR.
//===----------------------------------------------------------------------===//

#ifndef ATTN_TARGET_TARGETINFO_H
#define ATTN_TARGET_TARGETINFO_H

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace attn {

struct TargetInfo {
  enum class Kind { Cpu, Gpu };

  std::string name;
  Kind kind = Kind::Cpu;

  // CPU. Sizes in bytes.
  int64_t vectorBits = 128;
  int64_t numVectorRegisters = 16;
  int64_t l1Bytes = 32 << 10;
  int64_t l2Bytes = 1 << 20;
  bool hasFma = false;
  /// vdpbf16ps: pairs of bf16 products summed into f32 lanes.
  bool hasBf16Dot = false;
  /// AMX-BF16: 16x32 by 32x16 tile products into 16x16 f32.
  bool hasAmxBf16 = false;
  /// LLVM CPU name and feature string that code is generated for.
  std::string llvmCpu;
  std::string llvmFeatures;

  // GPU. Bytes per block, 32-bit registers per multiprocessor.
  int64_t sharedMemoryBytes = 0;
  int64_t numRegisters = 0;
  int64_t numMultiprocessors = 0;
  int64_t gpuL2Bytes = 0;

  bool isCpu() const { return kind == Kind::Cpu; }
  /// f32 lanes of one vector register.
  int64_t lanes() const { return vectorBits / 32; }

  /// The target of that name, or nothing when it is unknown.
  static std::optional<TargetInfo> get(std::string_view name);
  /// The best CPU target that this machine runs. Asks the kernel for the use
  /// of AMX tile registers where they exist.
  static const TargetInfo &host();
  /// Every name that `get` knows, for diagnostics.
  static std::vector<std::string> names();
};

} // namespace attn

#endif // ATTN_TARGET_TARGETINFO_H
