//===- Compiler.h - IR text to a kernel that runs ---------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The one way from text to code: the tools, the C ABI and Python come through
// here. This header includes no MLIR.
//===----------------------------------------------------------------------===//

#ifndef ATTN_COMPILER_COMPILER_H
#define ATTN_COMPILER_COMPILER_H

#include "attn/Pipelines/Phase.h"
#include "attn/Runtime/Abi.h"
#include "attn/Runtime/Cuda.h"
#include "attn/Support/DType.h"
#include "attn/Support/Result.h"
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace attn {

class LoadedCode;
namespace emulator {
class Program;
} // namespace emulator

struct CompileOptions {
  /// A name that TargetInfo knows, or "cuda" for the best of the current GPU;
  /// empty: the module's attn.target, else host. "emulator:NAME" is code for
  /// the GPU NAME that is run by the emulator; "emulator" alone takes the
  /// module's attn.target, else sm_90a.
  std::string target;
  /// What the IR at hand is; absent: found out from its operations.
  std::optional<Phase> startFrom;
  /// Last phase to run; absent: all, and machine code after them.
  std::optional<Phase> untilAfter;
  /// Directory for one numbered file per phase; empty: none.
  std::string dumpPhasesTo;
  /// Keeps the IR text of every phase in the result.
  bool keepIr = false;
  /// Stops at the object file: code for another machine than this one.
  bool objectOnly = false;
  /// Lets the code for a CPU count the bytes that tiles move: see
  /// CompiledKernel::traffic.
  bool countTraffic = false;
  /// Looks in the cache on disk, and leaves what it makes for a GPU there.
  bool useDiskCache = true;
  /// Stands for the source in diagnostics.
  std::string sourceName = "<input>";
  /// The lines of the source that diagnostics speak of, from 1 on: those behind
  /// `skippedLines`, `ownLines` of them (0: all).
  int skippedLines = 0, ownLines = 0;
};

/// One argument of an entry: what its caller must pass.
struct ArgInfo {
  std::string name;
  bool isScalar = false;
  bool isOutput = false;
  support::DType dtype = support::DType::f32;
  /// -1 where the size is free.
  std::vector<int64_t> shape;
  /// Elements between neighbours; -1 where any stride will do.
  std::vector<int64_t> strides;
  /// A name for each dimension ("sq"), equal where sizes must be equal; empty
  /// where a dimension is bound to no other.
  std::vector<std::string> dims;
  /// For each dimension others that it must not be smaller than, or "1",
  /// separated by spaces; empty where any size will do. May be shorter than
  /// the shape. What elements of an argument say is written "largest(LENGTHS)",
  /// "longest(OFFSETS)", the largest difference of neighbours, and
  /// "sequences(OFFSETS)", which is one less than there are; "+s_new" behind it
  /// is a dimension to add.
  std::vector<std::string> atLeast;
  /// Elements must lie between 0 and the size of this dimension, the product of
  /// several ("pages*page"), that less another ("sk-s_new"), or this number;
  /// empty: any.
  std::string elementsUpTo;
  /// Rows of elements must be below the size of this dimension, as far as the
  /// lengths that are argument `lengthsFrom` (empty: all of them) reach, by so
  /// many rows for each element as the second dimension has: "pages page".
  std::string pagesOf, lengthsFrom;
  /// An input that is written: a cache that rows are appended to.
  bool isWritten = false;
  /// An input that is read while those are written, and lies apart from them.
  bool isApart = false;
  /// The number of the input whose memory this is, and of which it has the
  /// first columns; -1: none.
  int64_t columnsOf = -1;
  /// The dimension of the rows that are appended: as many more are looked up in
  /// the table of pages than the lengths say.
  std::string moreRows;
  /// Elements must not decrease, from 0 up to at most the sizes of these
  /// dimensions, separated by spaces: of rows, of keys or of both.
  std::string offsetsUpTo;
};

/// One function that can be run.
struct EntryInfo {
  std::string name;
  /// Inputs in order, then outputs.
  std::vector<ArgInfo> args;
  /// The size of each first dimension is a multiple of the second's.
  std::vector<std::pair<std::string, std::string>> multiples;

  size_t numInputs() const {
    size_t n = 0;
    for (const ArgInfo &arg : args)
      n += !arg.isOutput;
    return n;
  }
};

struct PhaseText {
  std::string name;
  std::string text;
};
struct PhaseTime {
  std::string name;
  double ms;
};

/// What a compilation leaves. Immutable; may be run from many threads at once.
class CompiledKernel {
public:
  CompiledKernel();
  ~CompiledKernel();

  std::string target;
  std::vector<EntryInfo> entries;
  /// The code of each entry; null where compilation stopped before code.
  std::vector<AttnEntry> code;
  /// Why the code is as it is: the schedules and the arithmetic behind them.
  std::string explanation;
  std::vector<PhaseTime> times;
  /// The IR after the last phase that ran.
  std::string ir;
  /// IR of every phase, where asked for; then "llvm-ir", and "ptx" for a GPU.
  std::vector<PhaseText> phases;
  /// The relocatable object; for a GPU that of the plans, which the host runs.
  std::string object;
  /// What a GPU runs; null for a CPU.
  std::shared_ptr<const cuda::DeviceCode> device;
  /// The kernels of a GPU that the emulator runs on the host; else null.
  std::shared_ptr<const emulator::Program> emulated;
  /// The same, loaded where it is run; null where compilation stopped before.
  std::unique_ptr<cuda::Program> program;

  const EntryInfo *find(std::string_view name) const;

  std::unique_ptr<LoadedCode> loaded;

  /// Bytes that tiles load and store and that plans have for workspace, which
  /// the code adds to as it runs; null unless it counts them.
  struct Traffic {
    std::atomic<uint64_t> loaded{0}, stored{0}, workspace{0};
  };
  std::unique_ptr<Traffic> traffic;
};

/// The name of the target that "cuda" stands for: the best of the current GPU.
/// Other names are returned as they are.
support::Result<std::string> resolveTarget(const std::string &name);

/// Compiles IR text or bytecode. An error is one line, followed by a line for
/// each note.
support::Result<std::shared_ptr<const CompiledKernel>>
compile(std::string_view source, const CompileOptions &options = {});

/// Makes the kernel's schedule the choice of later compilations for problems
/// like its own on its target: `ms` is what it measured. The table is in the
/// folder of the disk cache.
support::Status recordSchedule(const CompiledKernel &kernel, double ms);

} // namespace attn

#endif // ATTN_COMPILER_COMPILER_H
