//===- Invoke.h - Check arguments and run an entry --------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Compiled code trusts its arguments. Everything it trusts is checked here, so
// that a wrong call is a sentence and not a crash.
//===----------------------------------------------------------------------===//

#ifndef ATTN_COMPILER_INVOKE_H
#define ATTN_COMPILER_INVOKE_H

#include "attn/Compiler/Compiler.h"
#include "attn/Runtime/CudaRecord.h"
#include "attn/Support/InlineVector.h"
#include <map>

namespace attn {

/// A tensor; rank 0 is a scalar, which is in host memory always.
struct TensorArg {
  void *data = nullptr;
  support::DType dtype = support::DType::f32;
  support::Sizes shape;
  /// In elements.
  support::Sizes strides;
};

/// Some tensors of the caller's.
class TensorArgs {
public:
  template <size_t N>
  TensorArgs(const support::InlineVector<TensorArg, N> &tensors)
      : first(tensors.data()), count(tensors.size()) {}
  TensorArgs(const std::vector<TensorArg> &tensors)
      : first(tensors.data()), count(tensors.size()) {}

  size_t size() const { return count; }
  const TensorArg &operator[](size_t i) const { return first[i]; }
  const TensorArg *begin() const { return first; }
  const TensorArg *end() const { return first + count; }

private:
  const TensorArg *first;
  size_t count;
};

/// Strides of a dense tensor, the last dimension fastest.
support::Sizes denseStrides(const support::Sizes &shape);

/// The sizes of the named dimensions.
using DimSizes = std::map<std::string, int64_t>;

/// Checks `inputs` against an entry and returns the sizes that they give.
/// `readable`: whether they are in memory of the host; else what lengths and
/// offsets hold is not looked at.
support::Result<DimSizes> checkInputs(const EntryInfo &entry, TensorArgs inputs,
                                      bool readable = true);

/// The shape of output `index` (counted from 0).
support::Result<std::vector<int64_t>>
getOutputShape(const EntryInfo &entry, const DimSizes &sizes, size_t index);

/// Checks everything and runs entry number `entry`. Of a kernel on the emulator
/// `counters` gets what it counted, where it is not null.
support::Status invoke(const CompiledKernel &kernel, size_t entry,
                       TensorArgs inputs, TensorArgs outputs,
                       const AttnRuntime &runtime,
                       std::string *counters = nullptr);

/// The same for a kernel of a GPU, on tensors in its memory: checks everything
/// but what lengths and offsets hold, and puts the work on a stream (a
/// CUstream; null: the default stream) of the device that the tensors are on.
/// `firstDevice`: that of the first input, as cuda::deviceOf says, where the
/// caller has asked. `record`: where the launches are noted, or null.
support::Status invokeOnDevice(const CompiledKernel &kernel, size_t entry,
                               TensorArgs inputs, TensorArgs outputs,
                               void *stream,
                               std::optional<int> firstDevice = {},
                               cuda::LaunchRecord *record = nullptr);

/// A call of a GPU's kernel that all checks passed, less its addresses: of a
/// call that differs from it in these alone, they are all that is left to
/// check.
class CheckedCall {
public:
  /// Nothing where checks ask more of addresses than to lie apart, or a tensor
  /// is empty. `device`: that of the tensors.
  static std::unique_ptr<const CheckedCall>
  make(const std::shared_ptr<const CompiledKernel> &kernel, size_t entry,
       TensorArgs inputs, TensorArgs outputs, int device);

  /// Runs the kernel on tensors at `data`, inputs first; nothing where it is
  /// gone, or a tensor is elsewhere or overlaps an output: the full check finds
  /// out what to say.
  std::optional<support::Status> run(const uint64_t *data, void *stream,
                                     cuda::LaunchRecord *record) const;

private:
  struct Arg {
    /// Where its record begins, among `records`; of scalars nothing.
    size_t record = 0;
    /// Its first and last byte, beside the first element.
    int64_t first = 0, last = 0;
    bool isScalar = false;
  };

  std::weak_ptr<const CompiledKernel> kernel;
  size_t entry = 0, numInputs = 0;
  int device = 0;
  std::vector<Arg> args;
  std::vector<int64_t> records;
};

} // namespace attn

#endif // ATTN_COMPILER_INVOKE_H
