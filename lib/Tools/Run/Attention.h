//===- Attention.h - Problems of --attention --------------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_TOOLS_RUN_ATTENTION_H
#define ATTN_LIB_TOOLS_RUN_ATTENTION_H

#include "Check.h"
#include "Kernel.h"
#include "Options.h"

#include <functional>

namespace attn::run {

/// Numbers from a seed and a name, the same on every machine.
class Random {
public:
  Random(uint64_t seed, const std::string &name);
  uint64_t next();
  /// In [0, 1).
  double uniform();
  double normal();
  /// In [min, max].
  int64_t integer(int64_t min, int64_t max);

private:
  uint64_t state;
};

/// Draws a tensor for an input that nobody gave: floats are normal, booleans
/// true four times out of five, other integers small.
HostTensor drawTensor(const ArgInfo &arg, std::vector<int64_t> shape,
                      uint64_t seed, const std::vector<int> &order = {});

/// The description that compiles a spec. The strings stay those of `spec`,
/// `monoidText` and `schedule`.
AttnAttentionDesc makeDesc(const AttentionSpec &spec,
                           const std::string &monoidText,
                           const std::string &schedule);

/// The order of dimensions in memory that the spec's layout asks for.
std::vector<int> getOrder(const AttentionSpec &spec);

/// One input of the spec.
support::Result<HostTensor> drawInput(const AttentionSpec &spec,
                                      const ArgInfo &arg, uint64_t seed);

/// Compares the outputs of a run with the float64 reference. Returns a line
/// for each output, or why one of them is wrong.
support::Result<std::string>
checkAttention(const AttentionSpec &spec, const Kernel &kernel,
               const std::vector<HostTensor> &inputs,
               const std::vector<HostTensor> &outputs,
               const Progress &progress);

/// Tiles of a schedule; 0 where they are not known. A block of rows is worked
/// on in whole `rows`.
struct Tiles {
  int64_t blockQ = 0, rows = 0, blockK = 0;
};

/// Work of one run. Where tiles are given, also that of those which hold a live
/// pair: operations of a GPU's products, pairs in whole `rows`, keys that tiles
/// of queries read, each its own, whole tiles of keys that they walk over, and
/// tiles of queries.
struct Work {
  double livePairs = 0, allPairs = 0, flops = 0, touchedFlops = 0;
  double touchedPairs = 0, touchedKeys = 0, walkedKeys = 0, blocks = 0;
};
Work countWork(const AttentionSpec &spec, const Kernel &kernel,
               const std::vector<HostTensor> &inputs, Tiles tiles = {});

} // namespace attn::run

#endif // ATTN_LIB_TOOLS_RUN_ATTENTION_H
