//===- Checks.h - Arguments of a call beside an entry -----------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_COMPILER_CHECKS_H
#define ATTN_LIB_COMPILER_CHECKS_H

#include "attn/Compiler/Invoke.h"

namespace attn::checks {

support::Failure fail(const std::string &expected, const std::string &got);
std::string quote(const ArgInfo &arg);
std::string printSizes(const support::Sizes &sizes);
/// The names of inputs or of outputs.
std::string listNames(const EntryInfo &entry, bool outputs);
bool isEmptyTensor(const TensorArg &tensor);

/// Where the size of a named dimension was first seen.
struct Seen {
  const std::string *dim;
  int64_t size;
  const std::string *arg;
};

/// The few named dimensions of an entry. It refers to the entry's names.
class SeenSizes {
public:
  const Seen *find(const std::string &dim) const {
    for (const Seen &one : all)
      if (isSame(*one.dim, dim))
        return &one;
    return nullptr;
  }
  /// Names have a letter or two, for which a call takes longer than this.
  static bool isSame(const std::string &a, const std::string &b) {
    if (a.size() != b.size())
      return false;
    for (size_t i = 0; i < a.size(); ++i)
      if (a[i] != b[i])
        return false;
    return true;
  }
  void add(const std::string &dim, int64_t size, const std::string &arg) {
    all.push_back({&dim, size, &arg});
  }
  const support::InlineVector<Seen, 16> &get() const { return all; }

private:
  support::InlineVector<Seen, 16> all;
};

/// Type, sizes and strides; adds the sizes of dimensions to `seen`.
support::Status checkTensor(const ArgInfo &info, const TensorArg &tensor,
                            SeenSizes &seen);
/// Dimensions of outputs that are the largest of inputs.
support::Status addLargest(const EntryInfo &entry, SeenSizes &seen);
/// `readable`: whether the host can read the tensors.
support::Status checkAllInputs(const EntryInfo &entry, TensorArgs inputs,
                               SeenSizes &seen, bool readable);

} // namespace attn::checks

#endif // ATTN_LIB_COMPILER_CHECKS_H
