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
//   sm_80, sm_86, sm_89, sm_90a, sm_100a   NVIDIA GPUs
//
// This header includes no MLIR.
//===----------------------------------------------------------------------===//

#ifndef ATTN_TARGET_TARGETINFO_H
#define ATTN_TARGET_TARGETINFO_H

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace attn {

/// A family of matrix instructions: how many threads hold one, the rows of the
/// accumulator, the step and limit of its columns, and the depth of one step
/// for 16-bit operands. The fragment layouts of the tile_gpu dialect are those
/// of these instructions.
struct MmaShape {
  int64_t threads;
  int64_t m;
  int64_t nStep;
  int64_t nMax;
  int64_t k;
  /// Runs beside other instructions until waited for, B from shared memory.
  bool asynchronous;
  /// Sums are in tensor memory, of which a thread reads its lane, and not in
  /// registers.
  bool inTensorMemory = false;

  constexpr bool operator==(const MmaShape &o) const {
    return threads == o.threads && m == o.m && nStep == o.nStep &&
           nMax == o.nMax && k == o.k && asynchronous == o.asynchronous &&
           inTensorMemory == o.inTensorMemory;
  }
  /// mma.sync m16n8k16: one warp.
  static constexpr MmaShape warp() { return {32, 16, 8, 8, 16, false}; }
  /// mma.sync m16n8k8 of tf32: one warp.
  static constexpr MmaShape warpTf32() { return {32, 16, 8, 8, 8, false}; }
  /// wgmma m64nNk16: one warpgroup.
  static constexpr MmaShape warpgroup() { return {128, 64, 8, 256, 16, true}; }
  /// tcgen05.mma m128nNk16 of one multiprocessor (PTX ISA 9.7.16.2.1): one
  /// thread issues it, four warps read the 128 lanes.
  static constexpr MmaShape tensorMemory() {
    return {128, 128, 16, 256, 16, true, true};
  }
};

/// Rates of a GPU, for each cycle of its clock, and latencies in cycles: what
/// the emulator's clocks count by. docs/Emulator.md has their sources.
struct GpuRates {
  /// Schedulers of a multiprocessor; each starts one instruction of a warp.
  int64_t schedulers = 4;
  /// Lanes that each scheduler serves: multiply-adds of f32; integers,
  /// comparisons and conversions; special functions.
  int64_t fmaLanes = 32, aluLanes = 16, specialLanes = 4;
  /// Bytes of shared memory of a multiprocessor.
  int64_t sharedBytes = 128;
  /// Multiplications and additions of 16-bit operands by the tensor cores of a
  /// multiprocessor, by wgmma and by mma.sync.
  int64_t groupFlops = 0, warpFlops = 2048;
  /// Bytes between the L2 cache and one multiprocessor, and all of them; and
  /// from memory.
  int64_t l2PortBytes = 64, l2Bytes = 5120, memoryBytes = 1100;
  /// Arithmetic, special functions, exchanges between lanes, shared memory,
  /// barriers.
  int64_t arithmeticLatency = 4, specialLatency = 18, shuffleLatency = 24,
          sharedLatency = 30, barrierLatency = 20;
  /// From a product's last step to its sums.
  int64_t productLatency = 32;
  /// Registers of a scheduler's warps lie in two banks, each of which gives one
  /// in a cycle. Two that are wanted are in one bank half of the time: four
  /// take three cycles. wgmma reads a register of its sums in each of its
  /// cycles.
  static constexpr int64_t registerReads = 4, registerCycles = 3;
  /// From one instruction of a warp to its next one, in tenths of a cycle,
  /// where it has its scheduler for itself: alone, and beside wgmma.
  struct Pace {
    int64_t fma, alu, special;
  };
  Pace alone = {14, 24, 81}, besideProducts = {24, 44, 102};
  /// From asking to having, beside what the bytes take; what a tensor copy
  /// adds.
  int64_t l2Latency = 260, memoryLatency = 560, tensorCopyLatency = 170;
  /// From the end of a kernel to the first copy of the next one in its stream.
  int64_t launchLatency = 8000;
  /// Granules of the L2 cache.
  static constexpr int64_t sectorBytes = 32, lineBytes = 128;
  /// Of a multiprocessor.
  int64_t maxThreads = 2048, maxBlocks = 32;
};

/// What a core of a CPU does in a cycle, on whole vector registers, and how
/// long it waits: what `--explain` predicts times from. Sources: uops.info and
/// Agner Fog's tables, for the processors that the target is named after.
struct CoreRates {
  /// Additions, multiplications and fused ones; all operations on vectors, of
  /// them shuffles and comparisons; loads; stores; instructions of any kind.
  double floats = 2, vectors = 3, shuffles = 2, loads = 2, stores = 1,
         instructions = 4;
  /// Cycles from one division or square root to the next, and of one tile
  /// product.
  double division = 4, tileProduct = 16;
  /// Cycles until a result can be used: of floats, divisions, shuffles, other
  /// operations on vectors.
  double floatLatency = 4, divisionLatency = 12, shuffleLatency = 2,
         vectorLatency = 1;
  /// Instructions that wait at once: what is further off does not start early.
  double window = 224;
};

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
  /// Rows of such a tile, and bf16 columns of its left operand.
  static constexpr int64_t amxRows = 16, amxDepth = 32;
  /// Tokens of a scan's chunk where its products are AMX's: a state is brought
  /// to the tiles and back once a chunk, so that longer ones than elsewhere
  /// pay.
  static constexpr int64_t amxChunk = 64;
  CoreRates coreRates;
  /// LLVM CPU name and feature string that code is generated for.
  std::string llvmCpu;
  std::string llvmFeatures;

  // GPU. Bytes per block, 32-bit registers per multiprocessor.
  int64_t sharedMemoryBytes = 0;
  /// Of it, kept free for barriers, tickets and alignment.
  static constexpr int64_t barrierBytes = 2048;
  /// The same of a kernel of few rows whose warps have keys of their own: two
  /// such blocks share a multiprocessor.
  static constexpr int64_t ownKeysBarrierBytes = 512;
  /// Of `barrierBytes`, what the numbers a ramp is multiplied by may take.
  static constexpr int64_t rampBytes = 1280;
  /// What the system takes of it for each block.
  static constexpr int64_t systemSharedBytes = 1024;
  int64_t numRegisters = 0;
  int64_t numMultiprocessors = 0;
  int64_t gpuL2Bytes = 0;
  /// What the multiprocessor has, from the smallest to the largest.
  std::vector<MmaShape> mmaShapes;
  /// Tensor memory of a multiprocessor: 128 lanes of 512 columns of 32 bits
  /// (PTX ISA 9.7.16.1).
  int64_t tensorMemoryBytes = 0;
  /// Heads whose query tiles advance together, at most. Measured on sm_90a:
  /// four of 16k keys of 128 channels (34 MB) are 3 % faster than two.
  int64_t headsAbreast = 1;
  /// Threads of a block, and of a warp and a warpgroup.
  int64_t maxThreads = 0;
  static constexpr int64_t warpThreads = 32;
  static constexpr int64_t warpgroupThreads = 128;
  /// Registers of a thread: the most it can name, the step and the least that
  /// setmaxnreg takes.
  int64_t maxThreadRegisters = 0;
  static constexpr int64_t registerStep = 8;
  static constexpr int64_t minRoleRegisters = 24;
  /// Registers of a thread that addresses, counters and row vectors take
  /// beside the live fragments. Measured on sm_90a: of 240 registers, 208 of
  /// fragments fit and 224 do not; of 160, 128 fit.
  int64_t registerReserve = 0;
  /// Blocks of a cluster, which see each other's shared memory, at most (CUDA
  /// programming guide, thread block clusters: what every such GPU takes).
  int64_t maxCluster = 1;
  /// Hardware barriers of a block; barrier 0 is the whole block's.
  int64_t namedBarriers = 0;
  /// Tensor copies (TMA), setmaxnreg and stmatrix.
  bool hasTensorCopy = false;
  bool hasRoleRegisters = false;
  bool hasMatrixStore = false;
  /// Products of f32 rounded to tf32.
  bool hasTf32 = false;
  /// A kernel may start before its predecessor has ended.
  bool hasProgrammaticLaunch = false;
  GpuRates rates;

  bool isCpu() const { return kind == Kind::Cpu; }
  /// Whether tiles of this 16-bit type are multiplied as they are, with sums in
  /// f32.
  bool multiplies(bool isBF16, bool isF16) const {
    return isCpu() ? isBF16 && (hasBf16Dot || hasAmxBf16) : isBF16 || isF16;
  }
  /// The largest shape that kernels are made of. There is no lowering yet to
  /// products in tensor memory.
  const MmaShape &productShape() const {
    return *std::find_if(mmaShapes.rbegin(), mmaShapes.rend(),
                         [](const MmaShape &s) { return !s.inTensorMemory; });
  }
  /// Whether warps can have roles: tensor copies feed products that run beside
  /// other instructions.
  bool hasRoles() const { return hasTensorCopy && productShape().asynchronous; }
  /// f32 lanes of one vector register.
  int64_t lanes() const { return vectorBits / 32; }
  /// f32 operations of a core in a cycle, where nothing else is done.
  double flopsPerCycle() const {
    return coreRates.floats * double(lanes()) * (hasFma ? 2 : 1);
  }

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
