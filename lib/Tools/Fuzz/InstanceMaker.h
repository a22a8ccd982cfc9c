//===- InstanceMaker.h - Draws an instance of a kernel ----------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Instance.cpp draws the sizes, InstanceInputs.cpp the inputs, and
// InstanceOracle.cpp asks the oracle what they give.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_TOOLS_FUZZ_INSTANCEMAKER_H
#define ATTN_LIB_TOOLS_FUZZ_INSTANCEMAKER_H

#include "Caches.h"
#include "Instance.h"

namespace attn::fuzz {

class InstanceMaker {
public:
  InstanceMaker(const Kernel &k, uint64_t seed, uint64_t index, Instance &to)
      : k(k), random(seed ^ 0xA77E47104ull, index), to(to) {}
  std::string run(bool poison);
  support::Result<std::vector<reference::Errors>> emulateAll();
  double largestScore() const;
  support::Result<std::vector<Interval>> intervals(size_t output) const;

private:
  bool packsHeads() const { return k.schedule && k.schedule->packHeads; }
  void chooseSizes();
  void choosePackedSizes();
  void makeInputs();
  Tensor makeInput(const Argument &argument);
  Tensor makeScale();
  Tensor makeDropShare();
  Tensor makeBias();
  Tensor makeMask();
  Tensor makeSlopes();
  Tensor makeSinks();
  Tensor makeCapture(int index);
  void makeOutputs();
  Tensor makeOperand(int64_t heads, int64_t rows, int64_t channels);
  Tensor makeBroadcast(const BroadcastForm &form, support::TensorView &view);
  Tensor makeScalar(DType dtype, double value);
  void fillNormal(const Tensor &tensor, double factor);
  void shareMemory();
  double drawEdgeScale();
  Tensor makeAngles(std::vector<double> &values);
  struct TurnedRow {
    int64_t sequence, row, rows, keys;
  };
  TurnedRow findTurned(int64_t batch, int64_t row, bool isKey) const;
  std::vector<double> turn(const support::TensorView &from, bool isKey,
                           bool rounds) const;
  /// Gives the oracle queries and keys as they are multiplied: exact ones, or
  /// rounded to their type, as GPUs have them.
  void turnRows(bool rounds);
  bool spreadsNaN() const;
  void plantLiveNaN();
  std::string ask();
  /// The largest value times what dropout multiplies weights by.
  double largestValue() const;
  reference::OracleOptions oracleOptions() const;
  support::Result<std::vector<reference::Errors>>
  emulate(DType dtype, int order, bool wideSums = false,
          DType operands = DType::f32);
  void poisonDeadKeys();
  void spoil(const Tensor &t, int64_t batch, int64_t head, int64_t j,
             double poison) const;
  void describe();
  std::vector<int64_t> shapeOf(int64_t heads, int64_t rows,
                               int64_t channels) const;

  const Kernel &k;
  Random random;
  Instance &to;
  support::AttentionProblem problem;
  std::vector<int32_t> cuQ, cuK;
  std::vector<std::vector<double>> captured;
  std::vector<double> params;
  Tensor q, key, value;
  KeyCache cache;
  /// Tables of angles, and what turned by them.
  std::vector<double> cosines, sines, turnedQ, turnedK;
  int64_t positions = 0;
  /// Of whole numbers in queries and keys.
  double factor = 1.0;
  int64_t longestQ = 0, longestK = 0;
  bool liveNaN = false;
};

} // namespace attn::fuzz

#endif // ATTN_LIB_TOOLS_FUZZ_INSTANCEMAKER_H
