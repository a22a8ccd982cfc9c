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

bool CallImage::addAddresses(const AttnTensor *tensors, size_t count) {
  for (size_t i = 0; i < count; ++i)
    if (!tensors[i].data || !add(reinterpret_cast<uintptr_t>(tensors[i].data)))
      return false;
  return true;
}

bool CallImage::addShapes(const AttnTensor *tensors, size_t count) {
  for (const AttnTensor *tensor = tensors; tensor != tensors + count;
       ++tensor) {
    auto rank = uint32_t(tensor->rank);
    if (rank > support::Sizes::maxRank || (rank && !tensor->shape) ||
        numWords + 2 * rank + 1 >= mostWords)
      return false;
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
  if (!addAddresses(inputs, numInputs) || !addAddresses(outputs, numOutputs))
    return false;
  numAddresses = numWords;
  if (!add(context.id.load(std::memory_order_relaxed)) ||
      !add(numInputs << 32 | numOutputs) || !addShapes(inputs, numInputs) ||
      !addShapes(outputs, numOutputs))
    return false;
  // Enough of the description to tell a model's calls apart.
  uint64_t seed = uint64_t(desc.headDim) << 32 ^ uint64_t(desc.causal) << 8 ^
                  uint64_t(desc.dtype);
  shapeHash = hashWords(shapes(), numShapes(), seed) | 1; // 0 is none
  seed = shapeHash ^ reinterpret_cast<uintptr_t>(options->stream);
  hash = hashWords(words, numAddresses, seed) | 1;
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

namespace {
/// A description, with its texts.
class Description {
public:
  explicit Description(const AttnAttentionDesc &given) {
    std::memcpy(&desc, &given, sizeof(desc));
    for (size_t i = 0; i < std::size(texts); ++i)
      if (const char *text = textOf(given, i))
        texts[i] = text;
  }
  /// Byte by byte; what the padding of a struct holds makes a call another one
  /// at worst.
  bool is(const AttnAttentionDesc &other) const {
    if (std::memcmp(&desc, &other, sizeof(desc)))
      return false;
    for (size_t i = 0; i < std::size(texts); ++i)
      if (const char *text = textOf(other, i); text && texts[i] != text)
        return false;
    return true;
  }

private:
  static const char *textOf(const AttnAttentionDesc &desc, size_t i) {
    const char *const texts[] = {desc.monoid, desc.schedule, desc.scoreMod,
                                 desc.maskMod};
    return texts[i];
  }

  AttnAttentionDesc desc;
  std::string texts[4];
};
} // namespace

struct RecentCalls::Call {
  Description description;
  AttnRunOptions options;
  std::vector<uint64_t> words;
  std::vector<Scalar> scalars;
  std::unique_ptr<cuda::LaunchRecord> record;

  bool is(const CallImage &image) const {
    if (words.size() != image.numWords ||
        std::memcmp(words.data(), image.words,
                    image.numWords * sizeof(uint64_t)) ||
        std::memcmp(&options, image.options, sizeof(options)) ||
        !description.is(*image.desc))
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

std::optional<Status> RecentCalls::replay(const CallImage &image) {
  auto *slot = calls.find(image.hash);
  if (!slot || !slot->kept || !slot->kept->record || !slot->kept->is(image))
    return std::nullopt;
  return slot->kept->record->replay(image.inputs[0].data);
}

std::unique_ptr<cuda::LaunchRecord>
RecentCalls::startRecord(const CallImage &image) {
  if (auto *slot = calls.find(image.hash))
    // A record that could not be used stays, as does that there can be none.
    return slot->kept && slot->kept->is(image)
               ? nullptr
               : std::make_unique<cuda::LaunchRecord>();
  calls.note(image.hash);
  return nullptr;
}

void RecentCalls::keep(const CallImage &image,
                       std::unique_ptr<cuda::LaunchRecord> record) {
  auto *slot = calls.find(image.hash);
  if (!slot || record->isForNow())
    return;
  auto call =
      std::make_shared<Call>(Call{Description(*image.desc), {}, {}, {}, {}});
  std::memcpy(&call->options, image.options, sizeof(call->options));
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
  slot->kept = std::move(call);
}

//===----------------------------------------------------------------------===//
// Calls that are known but for their memory
//===----------------------------------------------------------------------===//

struct RecentCalls::Shape {
  Description description;
  std::vector<uint64_t> words;
  /// Null: there is none for such calls.
  std::unique_ptr<const CheckedCall> call;

  bool is(const CallImage &image) const {
    return words.size() == image.numShapes() &&
           !std::memcmp(words.data(), image.shapes(),
                        image.numShapes() * sizeof(uint64_t)) &&
           description.is(*image.desc);
  }
};

std::optional<Status> RecentCalls::runChecked(const CallImage &image,
                                              cuda::LaunchRecord *record) {
  auto *slot = shapes.find(image.shapeHash);
  if (!slot || !slot->kept || !slot->kept->call || !slot->kept->is(image))
    return std::nullopt;
  return slot->kept->call->run(image.words, image.options->stream, record);
}

void RecentCalls::keepChecked(const CallImage &image,
                              const AttnContext::Kernel &kernel,
                              TensorArgs inputs, TensorArgs outputs,
                              int device) {
  auto *slot = shapes.find(image.shapeHash);
  if (!slot) {
    // Seen once.
    shapes.note(image.shapeHash);
    return;
  }
  slot->kept = std::make_shared<Shape>(
      Shape{Description(*image.desc),
            {image.shapes(), image.shapes() + image.numShapes()},
            CheckedCall::make(kernel, /*entry=*/0, inputs, outputs, device)});
}
