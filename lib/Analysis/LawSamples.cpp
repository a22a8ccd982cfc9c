//===- LawSamples.cpp - Keys, states and params to test laws on -----------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
// A region that is wrong in a narrow window has its bounds written in it, so
// the constants of the regions are samples: as scores, as differences and sums
// of scores, as params and as positions, with their neighbours.
//===----------------------------------------------------------------------===//

#include "LawChecker.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace ::attn;
using namespace ::attn::detail;
using mlir::attn::MonoidOp;

LawChecker::LawChecker(MonoidOp op, Algebra compiled,
                       const RegionProgram *finalize)
    : algebra(std::move(compiled)), finalize(finalize) {
  auto add = [&](double value) {
    if (std::isfinite(value) && std::fabs(value) <= largestFloat)
      constants.push_back(value);
  };
  llvm::for_each(algebra.constants, add);
  if (finalize)
    llvm::for_each(finalize->getFloatConstants(), add);
  constexpr int64_t largestPosition = int64_t(1) << 24;
  auto addPosition = [&](int64_t value) {
    if (std::abs(value) > 2 && std::abs(value) <= largestPosition)
      positionConstants.push_back(std::abs(value));
  };
  for (int64_t value : algebra.integerConstants) {
    addPosition(value);
    if (std::abs(value) <= largestPosition)
      add(double(value));
  }
  for (double value : constants)
    if (value == std::trunc(value) && std::fabs(value) <= largestPosition)
      addPosition(int64_t(value));
  usesPosition =
      algebra.isGeneral &&
      !op.getLift()
           .getArgument(op.getLift().getNumArguments() - 1 - algebra.numParams)
           .use_empty();
  samplePools();
}

void LawChecker::samplePools() {
  moderate = {0.0, 1.0, -1.0, 2.0, 0.5, -0.0, -3.0, 4.0, 0.125, -0.75};
  for (unsigned i = 0; i < 20; ++i)
    moderate.push_back(random.within(i % 2 ? 4.0 : 1.5));
  wide = {20.0,   -20.0, 87.5, -87.5, 100.0, -100.0, 700.0,
          -700.0, 1e4,   -1e4, 1e-3,  -1e-3, 1e-40,  -1e-40};

  // Regions that hold tables have more constants than there are samples.
  constexpr unsigned maxConstants = 64;
  std::vector<double> exact;
  std::swap(exact, constants);
  llvm::sort(exact);
  exact.erase(std::unique(exact.begin(), exact.end()), exact.end());
  if (exact.size() > maxConstants) {
    for (unsigned i = 0; i < maxConstants; ++i)
      std::swap(exact[i], exact[i + random.below(exact.size() - i)]);
    exact.resize(maxConstants);
  }
  constexpr float top = std::numeric_limits<float>::infinity();
  for (double constant : exact) {
    auto value = static_cast<float>(constant);
    for (float near :
         {value, std::nextafterf(value, top), std::nextafterf(value, -top),
          value * 1.001f, value * 0.999f})
      for (float signedNear : {near, -near}) {
        if (!std::isfinite(near))
          continue;
        constants.push_back(signedNear);
        (std::fabs(near) <= 64.0f ? moderate : wide).push_back(signedNear);
        if (signedNear > 1e-6f && signedNear < 1e6f)
          paramConstants.push_back(signedNear);
      }
  }
  for (unsigned i = 0; i < 16; ++i)
    wide.push_back(random.within(i % 2 ? 50.0 : largestScore));
}

void LawChecker::sampleParams(bool anySize) {
  static const std::vector<double> ordinary = {1.0, 0.5, 2.0, 1.25, 0.75, 3.0};
  algebra.params.clear();
  for (unsigned i = 0; i < algebra.numParams; ++i) {
    double value = random.oneOf(ordinary);
    if (anySize && !paramConstants.empty() && random.below(2))
      value = random.oneOf(paramConstants);
    else if (anySize)
      value = static_cast<float>(std::exp2(random.within(10.0)));
    algebra.params.push_back(Scalar::ofFloat(value));
  }
}

double LawChecker::sampleScore(bool fromWide) {
  double score = random.oneOf(fromWide && random.below(2) ? wide : moderate);
  if (!constants.empty() && random.below(4) == 0) {
    double constant = random.oneOf(constants);
    double related[] = {constant, lastScore + constant, constant - lastScore,
                        lastScore == 0.0 ? constant : constant / lastScore};
    double other = static_cast<float>(related[random.below(4)]);
    if (std::fabs(other) <= (fromWide ? largestScore : 64.0))
      score = other;
  }
  // What a param divides is of its size.
  if (paramsAreWide && random.below(2)) {
    double scaled = score * algebra.params[random.below(algebra.numParams)].f;
    if (std::fabs(scaled) <= largestScore)
      score = static_cast<float>(scaled);
  }
  lastScore = score;
  return score;
}

int64_t LawChecker::nextPosition(int64_t position) {
  constexpr int64_t last = int64_t(1) << 30;
  int64_t next = position + 1;
  switch (usesPosition ? random.below(8) : 0) {
  case 0:
  case 1:
  case 2:
    next = position + 1 + random.below(3);
    break;
  case 3:
    next = position + 1 + random.below(64);
    break;
  case 4:
    next = position + 1 + random.below(4096);
    break;
  case 5:
  case 6:
    if (!positionConstants.empty()) {
      next = random.oneOf(positionConstants) + random.below(3) - 1;
      if (next <= position || random.below(2))
        next += std::max<int64_t>(position, 0);
    }
    break;
  case 7:
    break;
  }
  return next <= position || next > last ? position + 1 : next;
}

LawChecker::Key LawChecker::sampleKey(bool fromWide, int64_t position) {
  Key key;
  for (unsigned i = 0; i < algebra.numScores; ++i)
    key.scores.push_back(sampleScore(fromWide));
  for (unsigned i = 0; i < algebra.numValues; ++i)
    key.values.push_back(
        random.below(4)
            ? random.within(4.0)
            : moderate[random.below(random.below(2) ? 10 : moderate.size())]);
  key.position = position;
  return key;
}

Scalars LawChecker::sampleState(unsigned limit, bool fromWide,
                                int64_t &position) {
  unsigned numKeys = random.below(limit + 1);
  if (!numKeys)
    return algebra.emptyState();
  auto sample = [&] {
    position = nextPosition(position);
    return stateOf(sampleKey(fromWide, position));
  };
  Scalars state = sample();
  for (unsigned i = 1; i < numKeys; ++i)
    algebra.multiplyInto(state, sample(), state.data());
  return state;
}
