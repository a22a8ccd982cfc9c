//===- Npy.h - Read and write .npy files ------------------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_SUPPORT_NPY_H
#define ATTN_SUPPORT_NPY_H

#include "attn/Support/DType.h"
#include "attn/Support/Result.h"

#include <cstdint>
#include <string>
#include <vector>

namespace attn::support {

/// A dense array in C order. The bytes stay where they are when the array is
/// moved, so a view of them outlives the move.
struct NpyArray {
  DType dtype = DType::f32;
  std::vector<int64_t> shape;
  std::vector<char> bytes;

  /// Number of elements; 1 for a scalar (rank 0).
  int64_t size() const;
  double at(int64_t index) const {
    return loadElement(bytes.data(), dtype, index);
  }
  void set(int64_t index, double value) {
    storeElement(bytes.data(), dtype, index, value);
  }

  /// An array of zeros.
  static NpyArray zeros(DType dtype, std::vector<int64_t> shape);
};

/// Prints a shape as `[2, 3, 4]`.
std::string printShape(const std::vector<int64_t> &shape);

/// Reads an array from the text of a .npy file, version 1 or 2, little endian.
/// `name` is only for messages. Fortran order is turned into C order. bf16 is
/// what ml_dtypes writes, a void type of two bytes ("<V2" or "|V2").
Result<NpyArray> parseNpy(const std::string &name, const char *data,
                          size_t size);

/// Reads a .npy file.
Result<NpyArray> readNpy(const std::string &path);

/// Writes a .npy file, version 1, C order.
Status writeNpy(const std::string &path, const NpyArray &array);

} // namespace attn::support

#endif // ATTN_SUPPORT_NPY_H
