//===- Kernel.h - The C ABI with values and results -------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_TOOLS_RUN_KERNEL_H
#define ATTN_LIB_TOOLS_RUN_KERNEL_H

#include "attn-c/Scans.h"
#include "attn-c/attn.h"
#include "attn/Support/Npy.h"
#include "attn/Support/Result.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

namespace attn::run {

/// Ends the program with the one line that says so.
[[noreturn]] void reportNoMemory();

/// A tensor of our own: elements in memory in the order of `strides`.
struct HostTensor {
  support::DType dtype = support::DType::f32;
  std::vector<int64_t> shape, strides;
  std::vector<char> bytes;

  /// Zeros, with the dimensions in memory in the order `order` (outermost
  /// first; empty: as they are).
  static HostTensor zeros(support::DType dtype, std::vector<int64_t> shape,
                          const std::vector<int> &order = {});
  static HostTensor fromNpy(support::NpyArray array);
  static HostTensor scalar(support::DType dtype, double value);
  /// Dense, last dimension fastest.
  support::NpyArray toNpy() const;

  int64_t size() const;
  /// Calls visit(offset) for each element in row-major order.
  template <typename F> void forEach(F visit) const {
    forEach(0, size(), visit);
  }
  /// The same for elements `first` to `last` of all, in row-major order.
  template <typename F>
  void forEach(int64_t first, int64_t last, F visit) const {
    std::vector<int64_t> index(shape.size(), 0);
    for (int64_t k = int64_t(shape.size()) - 1, rest = first; k >= 0; --k) {
      int64_t extent = std::max<int64_t>(shape[k], 1);
      index[k] = rest % extent;
      rest /= extent;
    }
    for (int64_t i = first; i < last; ++i) {
      int64_t offset = 0;
      for (size_t k = 0; k < shape.size(); ++k)
        offset += index[k] * strides[k];
      visit(offset);
      for (size_t k = shape.size(); k-- > 0 && ++index[k] == shape[k];)
        index[k] = 0;
    }
  }
  AttnTensor view() const;
};

support::DType fromC(AttnDType dtype);
AttnDType toC(support::DType dtype);

struct ArgInfo {
  std::string name;
  support::DType dtype;
  bool isScalar;
  std::vector<int64_t> shape;
  std::vector<std::string> dims;
};

/// A compiled kernel and one of its entries.
class Kernel {
public:
  static support::Result<Kernel> compile(const std::string &text,
                                         const AttnCompileOptions &options,
                                         const std::string &entry);
  static support::Result<Kernel> compile(const AttnAttentionDesc &desc,
                                         const AttnCompileOptions &options);
  static support::Result<Kernel> compile(const AttnScanDesc &desc,
                                         const AttnCompileOptions &options);

  /// This kernel once for each of its entries.
  support::Result<std::vector<Kernel>> listEntries() const;

  std::vector<ArgInfo> inputs, outputs;
  const AttnKernel *get() const { return handle.get(); }
  std::string getEntryName() const {
    return attnKernelEntryName(handle.get(), entry);
  }

  support::Result<std::vector<HostTensor>>
  makeOutputs(const std::vector<HostTensor> &inputs,
              const std::vector<int> &order = {}) const;
  /// `counters`: what the emulator counts, where it runs the kernel.
  support::Status run(const std::vector<HostTensor> &inputs,
                      std::vector<HostTensor> &outputs,
                      std::string *counters = nullptr) const;
  /// The same on tensors that are elsewhere.
  support::Status run(const std::vector<AttnTensor> &inputs,
                      const std::vector<AttnTensor> &outputs,
                      std::string *counters = nullptr) const;
  /// Whether the numbers are those of a GPU: f32 may be rounded to tf32.
  bool isOfGpu() const { return isOnDevice() || isEmulated(); }
  bool isEmulated() const {
    return std::string(attnKernelTarget(get())).rfind("emulator:", 0) == 0;
  }
  /// Whether the code is for a GPU.
  bool isOnDevice() const { return attnKernelPtx(get()) != nullptr; }

private:
  /// What a compilation gave: `raw` is this kernel's, unless there is an error.
  static support::Result<Kernel> own(AttnKernel *raw, AttnError *error,
                                     const AttnCompileOptions &options,
                                     const std::string &entry);
  support::Status readArgs(const std::string &entry);

  std::shared_ptr<AttnKernel> handle;
  size_t entry = 0;
};

} // namespace attn::run

#endif // ATTN_LIB_TOOLS_RUN_KERNEL_H
