//===- Arena.cpp - A case's tensors in a GPU's memory ---------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Arena.h"

#include <algorithm>
#include <cstring>

using namespace ::attn;
using namespace ::attn::fuzz;

/// More than a tile's row, and than what one thread reads at once.
static constexpr size_t bandBytes = 2048;
/// As allocations begin.
static constexpr size_t alignment = 256;

AttnTensor attn::fuzz::toAbi(const Tensor &tensor) {
  static_assert(static_cast<int>(support::DType::boolean) == ATTN_BOOL,
                "the two enumerations agree");
  AttnTensor t;
  t.data = tensor.data();
  t.dtype = static_cast<AttnDType>(tensor.dtype);
  t.rank = static_cast<int32_t>(tensor.sizes.size());
  t.shape = tensor.sizes.data();
  t.strides = tensor.strides.data();
  return t;
}

std::string attn::fuzz::takeMessage(AttnError *error) {
  if (!error)
    return "";
  std::string message = attnErrorMessage(error);
  attnErrorDestroy(error);
  return message;
}

std::string Arena::run(const AttnKernel *kernel,
                       const std::vector<Tensor> &inputs,
                       const std::vector<Tensor> &outputs) {
  // Places: the inputs', then the outputs'. Scalars stay on the host.
  std::vector<size_t> places;
  size_t end = bandBytes;
  for (const std::vector<Tensor> *tensors : {&inputs, &outputs})
    for (const Tensor &tensor : *tensors) {
      places.push_back(end);
      if (tensor.sizes.empty() && tensors == &inputs)
        continue;
      end += tensor.memory->size() + bandBytes;
      end = (end + alignment - 1) / alignment * alignment;
    }
  std::vector<char> before(end, '\xFF');
  if (memory.size() < end) {
    auto larger = cuda::Buffer::create(std::max(end, size_t(1) << 22));
    if (!larger)
      return larger.error();
    memory = std::move(*larger);
  }
  std::vector<AttnTensor> in, out;
  size_t number = 0;
  for (const Tensor &tensor : inputs) {
    AttnTensor view = toAbi(tensor);
    size_t place = places[number++];
    if (!tensor.sizes.empty()) {
      std::memcpy(before.data() + place, tensor.memory->data(),
                  tensor.memory->size());
      view.data = static_cast<char *>(memory.data()) + place +
                  (static_cast<char *>(view.data) - tensor.memory->data());
    }
    in.push_back(view);
  }
  for (const Tensor &tensor : outputs) {
    AttnTensor view = toAbi(tensor);
    size_t place = places[number++];
    std::memcpy(before.data() + place, tensor.memory->data(),
                tensor.memory->size());
    view.data = static_cast<char *>(memory.data()) + place +
                (static_cast<char *>(view.data) - tensor.memory->data());
    out.push_back(view);
  }
  if (auto ok = memory.copyFrom(before.data(), end); !ok)
    return ok.error();
  if (AttnError *error = attnKernelRun(kernel, 0, in.data(), in.size(),
                                       out.data(), out.size()))
    return takeMessage(error);
  std::vector<char> after(end);
  if (auto ok = cuda::synchronize(); !ok)
    return ok.error();
  if (auto ok = memory.copyTo(after.data(), end); !ok)
    return ok.error();
  auto bringBack = [&](const Tensor &tensor, size_t place) {
    size_t size = tensor.memory->size();
    std::memcpy(tensor.memory->data(), after.data() + place, size);
    std::memcpy(after.data() + place, before.data() + place, size);
  };
  for (size_t i = 0; i < outputs.size(); ++i)
    bringBack(outputs[i], places[inputs.size() + i]);
  // Caches that rows are appended to are written as well, and pools of states.
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!inputs[i].sizes.empty() && attnKernelArgIsWritten(kernel, 0, i))
      bringBack(inputs[i], places[i]);
  auto differs = std::mismatch(before.begin(), before.end(), after.begin());
  if (differs.first == before.end())
    return "";
  auto byte = static_cast<size_t>(differs.first - before.begin());
  size_t nearest = static_cast<size_t>(
      std::upper_bound(places.begin(), places.end(), byte) - places.begin());
  return "wrote byte " +
         (nearest == 0 ? std::to_string(byte) + " before the first argument"
                       : std::to_string(byte - places[nearest - 1]) +
                             " after the start of argument " +
                             std::to_string(nearest - 1));
}
