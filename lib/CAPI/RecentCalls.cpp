//===- RecentCalls.cpp - Calls that a thread makes again ------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RecentCalls.h"

using namespace ::attn;
using support::Status;

//===----------------------------------------------------------------------===//
// Images
//===----------------------------------------------------------------------===//

bool CallImage::addTensors(const AttnTensor *tensors, size_t count) {
  for (const AttnTensor *tensor = tensors; tensor != tensors + count;
       ++tensor) {
    auto rank = uint32_t(tensor->rank);
    if (rank > support::Sizes::maxRank || (rank && !tensor->shape) ||
        !tensor->data || numWords + 2 * rank + 2 >= mostWords)
      return false;
    add(reinterpret_cast<uintptr_t>(tensor->data));
    add(uint64_t(uint32_t(tensor->dtype)) << 32 | rank << 1 |
        (tensor->strides != nullptr));
    for (uint32_t i = 0; i < rank; ++i)
      add(uint64_t(tensor->shape[i]));
    for (uint32_t i = 0; tensor->strides && i < rank; ++i)
      add(uint64_t(tensor->strides[i]));
  }
  return true;
}

/// Two chains, so that neither waits for the other's products.
static uint64_t hashWords(const uint64_t *words, size_t count, uint64_t seed) {
  constexpr uint64_t by = 0x9e3779b97f4a7c15;
  uint64_t a = seed, b = ~seed;
  for (; count > 1; count -= 2, words += 2) {
    a = (a ^ words[0]) * by;
    b = (b ^ words[1]) * by;
    a ^= a >> 32;
    b ^= b >> 29;
  }
  if (count)
    a = (a ^ words[0]) * by;
  return (a ^ (b >> 17)) * by;
}

bool CallImage::take(const AttnContext &context, const AttnAttentionDesc &desc,
                     const AttnTensor *inputs, size_t numInputs,
                     const AttnTensor *outputs, size_t numOutputs,
                     const AttnRunOptions *options) {
  if (!options || options->structSize != sizeof(AttnRunOptions) ||
      options->place != ATTN_PLACE_GPU ||
      desc.structSize != sizeof(AttnAttentionDesc) || !inputs || !outputs ||
      numInputs == 0 || inputs[0].rank == 0 || numInputs > mostWords ||
      numOutputs > mostWords)
    return false;
  this->desc = &desc;
  this->options = options;
  this->inputs = inputs;
  this->numInputs = numInputs;
  add(context.id.load(std::memory_order_relaxed));
  add(numInputs << 32 | numOutputs);
  if (!addTensors(inputs, numInputs) || !addTensors(outputs, numOutputs))
    return false;
  // Enough of the description to tell a model's calls apart.
  uint64_t seed = uint64_t(desc.headDim) << 32 ^ uint64_t(desc.causal) << 8 ^
                  uint64_t(desc.dtype) ^
                  reinterpret_cast<uintptr_t>(options->stream);
  hash = hashWords(words, numWords, seed) | 1; // 0 is none
  return true;
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

namespace {
/// A scalar, which the caller may write between calls.
struct Scalar {
  const void *data;
  size_t bytes;
  char value[8];
};
} // namespace

struct RecentCalls::Call {
  AttnAttentionDesc desc;
  AttnRunOptions options;
  std::string texts[4];
  std::vector<uint64_t> words;
  std::vector<Scalar> scalars;
  std::unique_ptr<cuda::LaunchRecord> record;

  /// Byte by byte; what the padding of a struct holds makes a call another one
  /// at worst.
  bool is(const CallImage &image) const {
    if (words.size() != image.numWords ||
        std::memcmp(words.data(), image.words,
                    image.numWords * sizeof(uint64_t)) ||
        std::memcmp(&desc, image.desc, sizeof(desc)) ||
        std::memcmp(&options, image.options, sizeof(options)))
      return false;
    const char *const pointers[] = {desc.monoid, desc.schedule, desc.scoreMod,
                                    desc.maskMod};
    for (size_t i = 0; i < std::size(pointers); ++i)
      if (pointers[i] && texts[i] != pointers[i])
        return false;
    for (const Scalar &scalar : scalars)
      if (std::memcmp(scalar.data, scalar.value, scalar.bytes))
        return false;
    return true;
  }
};

RecentCalls &RecentCalls::ofThread() {
  static thread_local RecentCalls calls;
  return calls;
}

RecentCalls::Slot *RecentCalls::find(uint64_t hash) {
  for (Slot &slot : slots[hash >> 58])
    if (slot.hash == hash)
      return &slot;
  return nullptr;
}

std::optional<Status> RecentCalls::replay(const CallImage &image) {
  Slot *slot = find(image.hash);
  if (!slot || !slot->call || !slot->call->record || !slot->call->is(image))
    return std::nullopt;
  return slot->call->record->replay(image.inputs[0].data);
}

std::unique_ptr<cuda::LaunchRecord>
RecentCalls::startRecord(const CallImage &image) {
  static_assert(numSets == 64, "the hash's upper six bits");
  if (Slot *slot = find(image.hash))
    // A record that could not be used stays, as does that there can be none.
    return slot->call && slot->call->is(image)
               ? nullptr
               : std::make_unique<cuda::LaunchRecord>();
  Slot &slot = slots[image.hash >> 58][next++ % numWays];
  slot.hash = image.hash;
  slot.call = nullptr;
  return nullptr;
}

void RecentCalls::keep(const CallImage &image,
                       std::unique_ptr<cuda::LaunchRecord> record) {
  Slot *slot = find(image.hash);
  if (!slot || record->isForNow())
    return;
  auto call = std::make_shared<Call>();
  std::memcpy(&call->desc, image.desc, sizeof(call->desc));
  std::memcpy(&call->options, image.options, sizeof(call->options));
  const char *const pointers[] = {image.desc->monoid, image.desc->schedule,
                                  image.desc->scoreMod, image.desc->maskMod};
  for (size_t i = 0; i < std::size(pointers); ++i)
    call->texts[i] = pointers[i] ? pointers[i] : "";
  call->words.assign(image.words, image.words + image.numWords);
  for (size_t i = 0; i < image.numInputs; ++i) {
    const AttnTensor &tensor = image.inputs[i];
    if (tensor.rank)
      continue;
    Scalar scalar = {tensor.data, support::sizeOf(*fromC(tensor.dtype)), {}};
    std::memcpy(scalar.value, scalar.data, scalar.bytes);
    call->scalars.push_back(scalar);
  }
  if (record->isWhole())
    call->record = std::move(record);
  slot->call = std::move(call);
}
