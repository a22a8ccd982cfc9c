//===- CudaRecord.h - Runs that are made again ------------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a plan launches is a function of its arguments: it reads no memory of
// the device. So a run with the arguments of one before needs no plan: the
// launches of that one, noted with their parameters, are made once more.
//
// This header includes neither MLIR nor CUDA.
//===----------------------------------------------------------------------===//

#ifndef ATTN_RUNTIME_CUDARECORD_H
#define ATTN_RUNTIME_CUDARECORD_H

#include "attn/Runtime/Cuda.h"
#include <optional>

namespace attn::cuda {

/// The launches of a run. One thread at a time uses it.
class LaunchRecord {
public:
  LaunchRecord();
  ~LaunchRecord();

  /// Whether the launches are all that the run did: it took no workspace,
  /// cleared no memory, ran in the thread's current context, and the driver
  /// says what parameters are (CUDA 12.4 or later).
  bool isWhole() const;
  /// Whether a later run of the same arguments may be, as this one was captured
  /// into a graph.
  bool isForNow() const;

  /// Makes them again on the stream of the run. Nothing, where the plan has to
  /// run: the thread has another context, the machine several devices and
  /// `tensor`, some tensor of the run, is on another one now, or the launches
  /// share counters and the stream is captured or another one of that address.
  std::optional<support::Status> replay(const void *tensor) const;

  struct Implementation;
  Implementation &get() const { return *implementation; }

private:
  std::unique_ptr<Implementation> implementation;
};

/// As run() in Cuda.h, and notes the launches where `record` is not null.
support::Status run(const Program &program, AttnEntry entry, void **args,
                    const Placement &placement, LaunchRecord *record);

} // namespace attn::cuda

#endif // ATTN_RUNTIME_CUDARECORD_H
