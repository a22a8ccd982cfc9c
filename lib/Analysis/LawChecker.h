//===- LawChecker.h - Samples a monoid and tests its laws -------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What Laws.cpp (the laws on single states), LawBoundaries.cpp (where regions
// compare), LawSequences.cpp (long products and whole rows), LawProperties.cpp
// (what else holds, finalize), LawSamples.cpp (keys, states, params) and
// ShippedLaws.cpp (what is known already) share.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_ANALYSIS_LAWCHECKER_H
#define ATTN_LIB_ANALYSIS_LAWCHECKER_H

#include "attn/Analysis/Laws.h"
#include "attn/Interpreter/Algebra.h"

#include <cmath>
#include <limits>

namespace attn::detail {
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double notANumber = std::numeric_limits<double>::quiet_NaN();
constexpr double largestFloat = std::numeric_limits<float>::max();
/// Scores up to this size must give finite lifts and factors in float32.
constexpr double largestScore = 1e4;
/// A factor below this has lost digits or vanished; its ratios say nothing.
constexpr double smallestFactor = 1e-280;
/// Numbers of this size and more are near the end of float32: what is computed
/// from them may overflow there, and says nothing of a law.
constexpr double nearOverflow = 1e30;
/// Products are of at most this many keys.
constexpr int64_t mostKeys = int64_t(1) << 17;

/// SplitMix64: the same samples on every machine and in every run.
struct Random {
  uint64_t state = 0x243F6A8885A308D3;
  uint64_t next() {
    uint64_t z = (state += 0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }
  unsigned below(unsigned n) { return next() % n; }
  template <typename T> const T &oneOf(const std::vector<T> &pool) {
    return pool[below(pool.size())];
  }
  /// A float32 in (-bound, bound).
  double within(double bound) {
    return float((double(next() >> 11) * 0x1p-52 - 1.0) * bound);
  }
};

class LawChecker {
public:
  /// `finalize` is null where the monoid has none.
  LawChecker(mlir::attn::MonoidOp op, Algebra algebra,
             const RegionProgram *finalize);

  /// Fills in everything but `finalize`; stops at the first broken law.
  void run(LawReport &report);
  /// Tests the monoid's own finalize on rows of few keys, which must not be
  /// NaN. After `run`.
  void checkOutputs(mlir::attn::MonoidOp op, LawReport &report);
  FinalizeReport checkFinalize(mlir::Region &region,
                               const RegionProgram &program);

private:
  struct Key {
    llvm::SmallVector<double, 2> scores, values;
    int64_t position = 0;
  };
  using Stats = llvm::ArrayRef<Scalar>;
  using States = llvm::ArrayRef<llvm::ArrayRef<Scalar>>;
  /// One side of a law, of its operands.
  using Side = llvm::function_ref<Scalars(States)>;

  // LawSamples.cpp
  void samplePools();
  /// Positive params (temperatures, bases, rates): near 1, or of any size that
  /// could be meant and near the constants of the regions.
  void sampleParams(bool anySize = false);
  double sampleScore(bool fromWide);
  Key sampleKey(bool fromWide, int64_t position);
  int64_t nextPosition(int64_t position);
  /// Components of any size, those of values 0.
  Scalars sampleComponents();
  /// Components where the statistic moves, scaled: of a state that is not the
  /// identity.
  Scalars moved(Stats from, Stats to, Stats components) const;
  Scalars stateOf(const Key &key) const {
    return algebra.stateOf(key.scores, key.values, key.position);
  }
  /// Up to `limit` keys, multiplied; the position moves on.
  Scalars sampleState(unsigned limit, bool fromWide, int64_t &position);
  /// The part of a state that the laws speak of.
  Stats carrier(Stats state) const {
    return algebra.isGeneral ? state : state.take_front(algebra.numStats);
  }

  // Laws.cpp
  /// Records a broken law; returns false so that a check can return it.
  bool broken(llvm::StringRef law, const std::string &example) {
    report->brokenLaw = law.str();
    report->counterexample = example + algebra.printParams();
    return false;
  }
  bool checkTrial(unsigned trial);
  /// All laws of the kind on three states.
  bool checkLaws(Stats a, Stats b, Stats c);
  bool checkIdentity(Stats a);
  /// `ab` and `abc` are products that other laws speak of.
  bool checkAssociative(Stats a, Stats b, Stats c, Stats ab, Stats abc);
  bool checkCocycle(Stats a, Stats x, Stats y, Stats ax, Stats axy);
  /// Each factor is a cocycle of its own; `toB` is r(a, b), `fromB` r(b, c).
  bool checkFactors(Stats a, Stats b, Stats c, const Factors &toB,
                    const Factors &fromB);
  bool checkShift(Stats a, Stats b, Stats c);
  bool checkShifts(Stats a, Stats b, Stats c, Stats u);
  /// `both` is the product of the two.
  bool checkGate(Stats a, Stats b, Stats both);
  bool checkAffine(Stats a, Stats b, Stats c);
  bool checkFinite();
  bool checkFiniteFactors(llvm::ArrayRef<Scalars> lifts);
  bool checkKey(const Key &key);
  bool brokenRange(Stats a, Stats b, const Factors &factors);

  // LawBoundaries.cpp
  /// Where a comparison in a region turns, found by bisection: a window of any
  /// width between two comparisons has such a place within.
  bool checkBoundaries();
  struct Probe {
    Key keys[2];
    Scalars params;
    llvm::SmallVector<double, 8> distances;
  };
  void trace(Probe &probe);
  Probe sampleProbe(unsigned number);
  Probe between(const Probe &low, const Probe &high) const;
  bool checkProbe(const Probe &probe);
  /// The same along the number of keys.
  bool checkLongBoundaries();
  bool checkNumKeys(const Scalars &base, unsigned comparison, int64_t low,
                    int64_t high);
  llvm::SmallVector<double, 8> distancesOf(Stats a, Stats b);
  void shiftUnits(Stats from, Stats to);

  // LawSequences.cpp
  /// Whether `got` differs from `want` by no more than rounding errors in the
  /// operands and in the result of each operation explain: those of float64,
  /// or of float32. `evaluate` is repeated with such errors where need be.
  bool agreeByNoise(Stats want, Stats got, Precision precision, States operands,
                    Side evaluate);
  /// Two factors that are equal but for rounding; `size` is that of the
  /// numbers that they were computed from.
  bool factorsAgree(double want, double got, double size, States operands,
                    Side evaluate);
  /// Associativity and the law of the factors once more, in float32.
  bool checkFloat32(Stats a, Stats b, Stats c);
  /// The products of the first two states and of all three.
  struct Products {
    Stats part, whole;
  };
  bool checkFactorsFloat32(States abc, Products exact, Products rounded);
  /// Whether no number of a state is near the end of float32, but for those
  /// that the identity has.
  bool isInRange(Stats state) const;
  bool areInRange(std::initializer_list<Stats> states) const {
    return llvm::all_of(states, [&](Stats state) { return isInRange(state); });
  }
  /// Of kind affine, whose statistics gates are added to: whether float64 has
  /// digits left beside those of a state.
  bool leavesDigits(Stats state) const;
  /// A product that `watchesRange` may watch; it may be in the place of `a`.
  void multiplyInto(Stats a, Stats b, Scalar *product) const;
  Scalars power(const Scalars &base, int64_t exponent) const;
  Scalars sampleLong(int64_t &position);
  bool checkLong();
  std::vector<Key> sampleRow(unsigned numKeys, unsigned pattern);
  bool checkRow(llvm::ArrayRef<Key> keys, Precision precision);
  bool checkRows();
  Scalars inOrder(States keys) const;
  Scalars inParts(States keys, unsigned numParts) const;
  Scalars asTree(States keys) const;
  Scalars inTiles(States keys, unsigned size) const;
  Scalars addTile(const Scalars &state, States keys) const;

  // LawProperties.cpp
  int findNaN(unsigned numKeys, std::string &example);
  void findDeadProperties();
  void findNaNProperties();
  void findThreshold();
  Scalars sampleTrailing(mlir::Region &region, const RegionProgram &program);
  Scalars evaluateFinalize(mlir::Region &region, const RegionProgram &program,
                           llvm::ArrayRef<Scalar> state,
                           llvm::ArrayRef<Scalar> trailing) const;

  Algebra algebra;
  const RegionProgram *finalize;
  Random random;
  LawReport *report = nullptr;
  /// Scores; the constants of the regions with their neighbours among them.
  std::vector<double> moderate, wide;
  /// Constants with their neighbours, and positive ones as params.
  std::vector<double> constants, paramConstants;
  std::vector<int64_t> positionConstants;
  /// The score before, from which another may differ by a constant.
  double lastScore = 0.0;
  /// Whether the identity is known to be neutral to itself, whatever is
  /// sampled.
  bool identityHolds = false;
  /// Whether lift looks at the position.
  bool usesPosition = false;
  /// Set where states are so long that errors add up and scores tie: a jump
  /// that errors of rounding make is no break.
  bool isLong = false;
  /// Params are of any size: states may leave the range of float32.
  bool paramsAreWide = false;
  /// Products say in `leftRange` whether numbers leave the range of float32.
  bool watchesRange = false;
  mutable bool leftRange = false;
};

/// What reports are kept by: the monoid as it prints.
std::string textOf(mlir::attn::MonoidOp monoid);
/// Tests a monoid, whatever is known of it. Null after reporting the operation
/// that cannot be evaluated.
std::shared_ptr<const LawReport> computeReport(mlir::attn::MonoidOp monoid);

// ShippedLaws.cpp
/// The report of a shipped monoid of this text; null if there is none.
std::shared_ptr<const LawReport> lookupReport(llvm::StringRef text);
/// The line of ShippedLaws.txt for a lawful monoid of this text.
std::string printReport(llvm::StringRef text, const LawReport &report);

} // namespace attn::detail

#endif // ATTN_LIB_ANALYSIS_LAWCHECKER_H
