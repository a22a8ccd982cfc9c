//===- Memory.cpp - Tensors that end where memory ends --------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Memory.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <sys/mman.h>
#include <unistd.h>

using namespace ::attn;
using namespace ::attn::fuzz;

Memory::Memory(size_t size) : numBytes(size) {
  size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  mapped = (size + page - 1) / page * page + page;
  mapping = mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) {
    std::fprintf(stderr,
                 "attn-fuzz: error: expected %zu bytes of memory, but "
                 "got none\n",
                 mapped);
    std::exit(2);
  }
  char *base = static_cast<char *>(mapping);
  mprotect(base + mapped - page, page, PROT_NONE);
  start = base + mapped - page - size;
}

Memory::~Memory() { munmap(mapping, mapped); }

support::TensorView Tensor::view() const {
  std::array<int64_t, 4> shape = {1, 1, 1, 1}, by = {0, 0, 0, 0};
  size_t lead = 4 - sizes.size();
  for (size_t i = 0; i < sizes.size(); ++i) {
    shape[lead + i] = sizes[i];
    by[lead + i] = strides[i];
  }
  return support::stridedView(data(), dtype, shape, by);
}

static void fill(const Tensor &tensor, Filling filling, Random &random) {
  Memory &memory = *tensor.memory;
  // All ones is a NaN in every float type.
  std::memset(memory.data(), 0xFF, memory.size());
  if (filling == Filling::Canary)
    return;
  int64_t count =
      static_cast<int64_t>(memory.size() / support::sizeOf(tensor.dtype));
  if (!support::isFloat(tensor.dtype)) {
    for (int64_t i = 0; i < count; ++i)
      tensor.set(i, static_cast<double>(random.range(0, 100)));
    return;
  }
  if (random.chance(0.3)) {
    double inf = std::numeric_limits<double>::infinity();
    for (int64_t i = 0; i < count; ++i)
      tensor.set(i, i % 2 ? inf : -inf);
  }
}

Tensor fuzz::makeTensor(Random &random, support::DType dtype,
                        std::vector<int64_t> sizes, Filling filling,
                        bool mayRepeat, bool plain, bool aligned) {
  Tensor tensor;
  tensor.dtype = dtype;
  size_t rank = sizes.size();
  tensor.strides.assign(rank, 1);

  // Dimensions from the innermost outwards; the last one stays innermost.
  std::vector<size_t> order;
  for (size_t i = rank; i-- > 0;)
    order.push_back(i);
  if (!plain && rank > 2 && random.chance(0.6))
    for (size_t i = rank - 1; i > 1; --i)
      std::swap(order[i], order[random.range(1, static_cast<int64_t>(i))]);
  int64_t stride = 1, first = 0;
  bool flip = !plain && !aligned && rank > 2 && random.chance(0.04);
  int64_t unit = aligned
                     ? std::max<int64_t>(
                           16 / static_cast<int64_t>(support::sizeOf(dtype)), 1)
                     : 1;
  for (size_t n = 0; n < rank; ++n) {
    size_t d = order[n];
    tensor.strides[d] = stride;
    if (n > 0 && mayRepeat && d + 2 < rank && random.chance(0.07)) {
      tensor.strides[d] = 0;
      continue;
    }
    int64_t extent = std::max<int64_t>(sizes[d], 1);
    if (!plain && random.chance(n == 0 ? 0.4 : 0.1))
      extent += random.range(1, 9);
    // Rows from the last to the first.
    if (flip && d + 2 == rank && sizes[d] > 0) {
      tensor.strides[d] = -stride;
      first = (sizes[d] - 1) * stride;
    }
    if (n == 0)
      extent = (extent + unit - 1) / unit * unit;
    stride *= extent;
  }
  tensor.sizes = std::move(sizes);
  int64_t lead = plain ? 0 : random.range(0, 5) * random.range(0, 3) * unit;
  tensor.first = lead + first;
  int64_t last = lead;
  bool empty = tensor.numElements() == 0;
  for (size_t d = 0; d < rank; ++d)
    last +=
        std::max<int64_t>(tensor.sizes[d] - 1, 0) * std::abs(tensor.strides[d]);
  int64_t total = empty ? tensor.first : last + 1;
  // Some end at the last element, some with padding.
  if (!plain && random.chance(0.5))
    total += random.range(0, 40);
  // What ends at a multiple of 16 bytes starts at one, too.
  total = (total + unit - 1) / unit * unit;
  tensor.memory = std::make_shared<Memory>(static_cast<size_t>(total) *
                                           support::sizeOf(dtype));
  fill(tensor, filling, random);
  return tensor;
}

Tensor fuzz::cloneLayout(const Tensor &tensor) {
  Tensor copy = tensor;
  copy.memory = std::make_shared<Memory>(tensor.memory->size());
  std::memset(copy.memory->data(), 0xFF, copy.memory->size());
  return copy;
}

std::vector<char> fuzz::bytesOf(const Tensor &tensor) {
  return std::vector<char>(tensor.memory->data(),
                           tensor.memory->data() + tensor.memory->size());
}

std::string fuzz::checkGuards(const Tensor &output) {
  std::vector<char> bytes = bytesOf(output);
  int64_t size = static_cast<int64_t>(support::sizeOf(output.dtype));
  output.forEach([&](int64_t at, int64_t) {
    std::memset(bytes.data() + at * size, 0xFF, size);
  });
  for (size_t i = 0; i < bytes.size(); ++i)
    if (bytes[i] != '\xFF')
      return "wrote byte " + std::to_string(i) + " outside the output";
  return "";
}
