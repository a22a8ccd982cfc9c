//===- LawBoundaries.cpp - Tests laws where regions compare ---------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
// A region that is wrong in a window chooses by comparisons, and random samples
// miss a narrow one. So each comparison of each region, maxima and the like
// included, is brought to where it turns: of two pairs of keys on which it goes
// different ways, the path between is bisected to neighbouring floats. One of
// the two sides of a window's bound lies in the window, whatever arithmetic
// leads from the scores to what is compared. The keys that are found are
// samples for everything that follows.
//===----------------------------------------------------------------------===//

#include "LawChecker.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace mlir;
using namespace ::attn;
using namespace ::attn::detail;
using mlir::attn::MonoidKind;

/// Evaluates `shift`, for what it compares.
void LawChecker::shiftUnits(ArrayRef<Scalar> from, ArrayRef<Scalar> to) {
  Scalars ones(algebra.numComponents, Scalar::ofFloat(1.0));
  algebra.shift(from, to, ones);
}

/// Everything that is computed of two keys.
void LawChecker::trace(Probe &probe) {
  algebra.params = probe.params;
  probe.distances.clear();
  algebra.setDistances(&probe.distances);
  Scalars x = stateOf(probe.keys[0]), y = stateOf(probe.keys[1]);
  Stats a = carrier(x), b = carrier(y);
  Scalars c = algebra.combine(a, b);
  if (algebra.kind == MonoidKind::cocycle && algebra.numStats) {
    algebra.rescale(a, c);
    algebra.rescale(b, c);
    shiftUnits(a, c);
    shiftUnits(b, c);
  } else if (algebra.kind == MonoidKind::affine) {
    algebra.factors(a, b);
  } else if (!algebra.isGeneral) {
    algebra.gate(a);
    algebra.gate(c);
  }
  algebra.setDistances(nullptr);
  if (!finalize)
    return;
  Scalars arguments = algebra.multiply(x, y), outputs;
  arguments.append(algebra.params.begin(), algebra.params.end());
  finalize->evaluate(arguments, outputs, algebra.precision, /*read=*/nullptr,
                     &probe.distances);
}

LawChecker::Probe LawChecker::sampleProbe(unsigned number) {
  Probe probe;
  paramsAreWide = algebra.numParams && number % 2;
  sampleParams(paramsAreWide);
  probe.params = algebra.params;
  int64_t position = -1;
  for (Key &key : probe.keys) {
    position = nextPosition(position);
    key = sampleKey(/*fromWide=*/number % 3 == 2, position);
  }
  paramsAreWide = false;
  // Differences of scores are finest where one of them is 0.
  if (number % 4 == 1)
    llvm::fill(probe.keys[1].scores, 0.0);
  trace(probe);
  return probe;
}

LawChecker::Probe LawChecker::between(const Probe &low,
                                      const Probe &high) const {
  auto middle = [](double x, double y) {
    return double(static_cast<float>(x + (y - x) / 2.0));
  };
  Probe probe(low);
  for (unsigned i = 0; i < 2; ++i) {
    Key &key = probe.keys[i];
    const Key &other = high.keys[i];
    for (auto [x, y] : llvm::zip(key.scores, other.scores))
      x = middle(x, y);
    for (auto [x, y] : llvm::zip(key.values, other.values))
      x = middle(x, y);
    key.position += (other.position - key.position) / 2;
  }
  for (auto [x, y] : llvm::zip(probe.params, high.params))
    x.f = middle(x.f, y.f);
  return probe;
}

bool LawChecker::checkProbe(const Probe &probe) {
  algebra.params = probe.params;
  // An extreme param may overflow what an ordinary one does not.
  bool ordinary = llvm::all_of(
      probe.params, [](Scalar x) { return x.f >= 0.5 && x.f <= 3.0; });
  for (const Key &key : probe.keys) {
    bool lawful = !ordinary || checkKey(key);
    algebra.precision = Precision::F64;
    if (!lawful)
      return false;
  }
  Scalars a(carrier(stateOf(probe.keys[0])));
  Scalars b(carrier(stateOf(probe.keys[1])));
  // A third state: any, or as far from the second as that from the first.
  int64_t position = probe.keys[1].position;
  Scalars any = sampleState(2, /*fromWide=*/random.below(2), position);
  Key further = probe.keys[1];
  ++further.position;
  for (auto [x, y] : llvm::zip(further.scores, probe.keys[0].scores))
    x = static_cast<float>(
        std::clamp(x + (x - y), -largestScore, largestScore));
  for (const Scalars &other : {any, stateOf(further)}) {
    Stats c = carrier(other);
    Scalars ab = algebra.combine(a, b);
    if (!areInRange({a, b, c, ab, algebra.combine(ab, c)}))
      continue;
    // The states of general monoids may know their order.
    if (!checkLaws(a, b, c) ||
        (!algebra.isGeneral && !(checkLaws(b, a, c) && checkLaws(c, a, b))))
      return false;
  }
  return true;
}

bool LawChecker::checkBoundaries() {
  constexpr unsigned numProbes = 48, numBrackets = 8, maxComparisons = 24,
                     maxSteps = 64, numKept = 2;
  std::vector<Probe> probes;
  for (unsigned i = 0; i < numProbes; ++i) {
    probes.push_back(sampleProbe(i));
    if (probes.back().distances.empty())
      return true;
  }
  unsigned numComparisons =
      std::min<unsigned>(probes[0].distances.size(), maxComparisons);
  for (unsigned k = 0; k < numComparisons; ++k) {
    auto isAbove = [&](const Probe &probe) { return probe.distances[k] > 0.0; };
    unsigned found = 0;
    for (unsigned i = 0; i + 1 < numProbes && found < numBrackets; ++i) {
      const Probe &other = probes[i + 1 + random.below(numProbes - i - 1)];
      if (isAbove(probes[i]) == isAbove(other))
        continue;
      ++found;
      Probe low = probes[i], high = other;
      for (unsigned step = 0; step < maxSteps; ++step) {
        Probe middle = between(low, high);
        trace(middle);
        (isAbove(middle) == isAbove(low) ? low : high) = std::move(middle);
      }
      if (!checkProbe(low) || !checkProbe(high))
        return false;
      if (found <= numKept)
        for (const Probe &probe : {low, high})
          for (const Key &key : probe.keys)
            for (double score : key.scores)
              (std::fabs(score) <= 64.0 ? moderate : wide).push_back(score);
    }
  }
  return true;
}

//===----------------------------------------------------------------------===//
// Along the number of keys
//===----------------------------------------------------------------------===//

SmallVector<double, 8> LawChecker::distancesOf(ArrayRef<Scalar> a,
                                               ArrayRef<Scalar> b) {
  SmallVector<double, 8> distances;
  algebra.setDistances(&distances);
  Stats x = carrier(a), y = carrier(b);
  Scalars c = algebra.combine(x, y);
  if (algebra.kind == MonoidKind::cocycle) {
    algebra.rescale(x, c);
    algebra.rescale(y, c);
    shiftUnits(x, c);
    shiftUnits(y, c);
  } else if (algebra.kind == MonoidKind::affine) {
    algebra.factors(x, y);
  } else if (!algebra.isGeneral) {
    algebra.gate(c);
  }
  algebra.setDistances(nullptr);
  return distances;
}

/// The comparison goes different ways for `low` and for `high` keys.
bool LawChecker::checkNumKeys(const Scalars &base, unsigned comparison,
                              int64_t low, int64_t high) {
  auto isAbove = [&](int64_t numKeys) {
    return distancesOf(power(base, numKeys), base)[comparison] > 0.0;
  };
  bool lowIsAbove = isAbove(low);
  while (high - low > 1) {
    int64_t middle = low + (high - low) / 2;
    (isAbove(middle) == lowIsAbove ? low : high) = middle;
  }
  Stats b = carrier(base);
  for (int64_t numKeys : {std::max<int64_t>(low - 1, 1), low, high}) {
    Scalars a(carrier(power(base, numKeys)));
    if (isInRange(algebra.combine(algebra.combine(a, b), b)) &&
        !(checkLaws(a, b, b) && checkLaws(b, a, b)))
      return false;
  }
  return true;
}

bool LawChecker::checkLongBoundaries() {
  if (usesPosition || (!algebra.isGeneral && !algebra.numStats))
    return true;
  constexpr unsigned numBases = 4, mostTurns = 16;
  isLong = true;
  for (unsigned i = 0; i < numBases; ++i) {
    sampleParams();
    Scalars base = stateOf(sampleKey(/*fromWide=*/false, 0)), state(base);
    SmallVector<double, 8> before;
    unsigned numTurns = 0;
    for (int64_t numKeys = 1; numKeys <= mostKeys; numKeys *= 2) {
      SmallVector<double, 8> distances = distancesOf(state, base);
      for (unsigned k = 0; k < before.size() && numTurns < mostTurns; ++k)
        if ((before[k] > 0.0) != (distances[k] > 0.0)) {
          ++numTurns;
          if (!checkNumKeys(base, k, numKeys / 2, numKeys))
            return false;
        }
      before = std::move(distances);
      state = algebra.multiply(state, state);
      if (!isInRange(state))
        break;
    }
  }
  isLong = false;
  return true;
}
