//===- RecentCalls.h - Calls that a thread makes again ----------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Steps of a model repeat: its layers are called with the same descriptions,
// sizes and memory each time. Of such a call on a GPU everything that checks,
// lookup and plan find out is known, and its launches are made again
// (attn/Runtime/CudaRecord.h). What counts is compared byte by byte, scalars
// and texts by what they hold; a call that was seen once before is noted, so
// that calls which never repeat cost next to nothing. Of a call that differs
// from such a one in addresses, scalars and the stream alone, lookup and checks
// are known (CheckedCall), and the plan runs.
//
// Of memory that is freed and allocated again nothing is asked: where a tensor
// is in memory of the host now, at an address that was the GPU's, the call is
// not refused.
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CAPI_RECENTCALLS_H
#define ATTN_LIB_CAPI_RECENTCALLS_H

#include "Handles.h"

namespace attn {

/// A call's arguments as words: sizes, strides and addresses of all tensors,
/// and what tells contexts apart.
class CallImage {
public:
  /// Nothing is taken of a call that is not for a GPU, has structs of another
  /// version, or something that no call should have.
  bool take(const AttnContext &context, const AttnAttentionDesc &desc,
            const AttnTensor *inputs, size_t numInputs,
            const AttnTensor *outputs, size_t numOutputs,
            const AttnRunOptions *options);

private:
  friend class RecentCalls;
  bool addAddresses(const AttnTensor *tensors, size_t count);
  bool addShapes(const AttnTensor *tensors, size_t count);
  bool add(uint64_t word) {
    words[numWords] = word;
    return ++numWords < mostWords;
  }

  static constexpr size_t mostWords = 256;
  /// The words behind the addresses, which come first.
  const uint64_t *shapes() const { return words + numAddresses; }
  size_t numShapes() const { return numWords - numAddresses; }

  const AttnAttentionDesc *desc;
  const AttnRunOptions *options;
  const AttnTensor *inputs;
  size_t numInputs, numAddresses;
  size_t numWords = 0;
  /// Of all, and of all but addresses and the stream.
  uint64_t hash, shapeHash;
  uint64_t words[mostWords];
};

/// The calls of one thread.
class RecentCalls {
public:
  static RecentCalls &ofThread();

  /// Makes a call's launches again; nothing, where it is not known or the plan
  /// has to run.
  std::optional<support::Status> replay(const CallImage &image);

  /// Where to note the launches of a call that replay() did not know, or null;
  /// keep() has to follow where it ends well.
  std::unique_ptr<cuda::LaunchRecord> startRecord(const CallImage &image);
  void keep(const CallImage &image, std::unique_ptr<cuda::LaunchRecord> record);

  /// Runs a call that differs from one before in addresses, scalars and the
  /// stream alone; nothing, where none such is known or it has to be checked in
  /// full.
  std::optional<support::Status> runChecked(const CallImage &image,
                                            cuda::LaunchRecord *record);
  /// Keeps what is to be known of a call that has run.
  void keepChecked(const CallImage &image, const AttnContext::Kernel &kernel,
                   TensorArgs inputs, TensorArgs outputs, int device);

private:
  struct Call;
  struct Shape;
  /// The latest of what is kept of calls, by hashes whose upper bits tell sets.
  template <typename T, size_t setBits, size_t numWays> class Table {
  public:
    struct Slot {
      /// Of a call that was seen once at least; 0: of none.
      uint64_t hash = 0;
      std::shared_ptr<const T> kept;
    };
    Slot *find(uint64_t hash) {
      for (Slot &slot : slots[hash >> (64 - setBits)])
        if (slot.hash == hash)
          return &slot;
      return nullptr;
    }
    /// Of a call that is seen for the first time.
    void note(uint64_t hash) {
      slots[hash >> (64 - setBits)][next++ % numWays] = {hash, nullptr};
    }

  private:
    Slot slots[size_t(1) << setBits][numWays];
    size_t next = 0;
  };

  /// A record takes 1 to 3 KB, of which a thread has as many as it has calls.
  Table<Call, /*setBits=*/6, /*numWays=*/4> calls;
  /// Layers of a model have few.
  Table<Shape, /*setBits=*/4, /*numWays=*/2> shapes;
};

} // namespace attn

#endif // ATTN_LIB_CAPI_RECENTCALLS_H
