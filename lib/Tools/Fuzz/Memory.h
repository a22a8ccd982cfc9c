//===- Memory.h - Tensors that end where memory ends ------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_TOOLS_FUZZ_MEMORY_H
#define ATTN_LIB_TOOLS_FUZZ_MEMORY_H

#include "Random.h"
#include "attn/Support/Problem.h"

#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace attn::fuzz {

/// Bytes whose last is followed by a page that may not be touched: reading
/// past the end of a tensor is a crash, not a matter of luck.
class Memory {
public:
  explicit Memory(size_t size);
  ~Memory();
  Memory(const Memory &) = delete;
  Memory &operator=(const Memory &) = delete;

  char *data() const { return start; }
  size_t size() const { return numBytes; }

private:
  void *mapping = nullptr;
  size_t mapped = 0, numBytes = 0;
  char *start = nullptr;
};

/// A strided tensor in memory of its own.
struct Tensor {
  support::DType dtype = support::DType::f32;
  std::vector<int64_t> sizes, strides;
  std::shared_ptr<Memory> memory;
  int64_t first = 0; // of element (0, ...), in elements from the start
  /// Other elements share memory with these: rows of this tensor, or those of
  /// another.
  bool overlaps = false;

  void *data() const {
    return memory->data() +
           first * static_cast<int64_t>(support::sizeOf(dtype));
  }
  int64_t numElements() const {
    int64_t n = 1;
    for (int64_t size : sizes)
      n *= size;
    return n;
  }
  int64_t at(const std::vector<int64_t> &index) const {
    int64_t position = first;
    for (size_t i = 0; i < index.size(); ++i)
      position += index[i] * strides[i];
    return position;
  }
  /// Calls f(position in the memory, number in C order) for every element.
  template <typename F> void forEach(F f) const {
    std::vector<int64_t> index(sizes.size(), 0);
    int64_t count = numElements();
    for (int64_t n = 0; n < count; ++n) {
      f(at(index), n);
      for (size_t d = sizes.size(); d-- > 0;) {
        if (++index[d] < sizes[d])
          break;
        index[d] = 0;
      }
    }
  }
  void set(int64_t position, double value) const {
    support::storeElement(memory->data(), dtype, position, value);
  }
  double get(int64_t position) const {
    return support::loadElement(memory->data(), dtype, position);
  }
  /// Two elements share memory.
  bool repeats() const {
    if (overlaps)
      return true;
    for (size_t i = 0; i < sizes.size(); ++i)
      if (sizes[i] > 1 && strides[i] == 0)
        return true;
    return false;
  }
  /// As [b, h, s, d]; a missing leading dimension counts as 1.
  support::TensorView view() const;
};

/// How the bytes of a tensor that are no elements are filled.
enum class Filling { Canary, Poison };

/// A tensor in a random layout with its last dimension contiguous. `mayRepeat`
/// allows strides of 0; `aligned` wants rows to begin at multiples of 16 bytes.
Tensor makeTensor(Random &random, support::DType dtype,
                  std::vector<int64_t> sizes, Filling filling, bool mayRepeat,
                  bool plain = false, bool aligned = false);

/// The same layout in fresh memory.
Tensor cloneLayout(const Tensor &tensor);

std::vector<char> bytesOf(const Tensor &tensor);

/// Everything that is no element of an output still holds the canary; else
/// says which byte does not.
std::string checkGuards(const Tensor &output);

} // namespace attn::fuzz

#endif // ATTN_LIB_TOOLS_FUZZ_MEMORY_H
