//===- Laws.h - Tests the laws of a monoid ----------------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Splitting a reduction into tiles, padding them, combining parts: each is
// right because of a law that the monoid's regions obey. The regions are the
// user's, so the laws are tested: the regions are evaluated on reachable states
// (products of lifted keys, in key order) and the two sides of each law
// compared, in float64 and in float32. docs/Testing.md says what is drawn. This
// is a test and not a proof.
//
// The same samples tell which further rewrites a monoid allows: the properties
// of LawReport. A property that is claimed held on all of them.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_ANALYSIS_LAWS_H
#define ATTN_ANALYSIS_LAWS_H

#include "attn/Dialect/Attn/IR/Attn.h"

#include <memory>
#include <string>
#include <vector>

namespace attn {

/// What holds for each output of a finalize region.
struct FinalizeReport {
  /// finalize(c, v) = finalize(c', r(c, c') v): the output does not depend on
  /// the reference point. It licenses deferred normalisation, skipped rescales
  /// and a fixed reference point. Only for cocycle monoids.
  std::vector<bool> gaugeInvariant;
  /// A NaN in every component makes the output NaN, whatever the statistics.
  std::vector<bool> spreadsNaN;
  /// The first output that is NaN on the identity, or -1.
  int nanOnIdentity = -1;
};

struct LawReport {
  /// The law that is broken; empty where all hold.
  std::string brokenLaw;
  std::string counterexample; ///< "a = 1, b = 2 gives 3 and 4"

  bool isLawful() const { return brokenLaw.empty(); }

  /// combine(a, b) = combine(b, a) on statistics (general: on states).
  bool combineCommutes = false;
  /// Whole states commute: keys may be visited in any order. True of suffix
  /// and prefix monoids only where every gate is 1.
  bool isCommutative = false;
  /// No statistics at all.
  bool statsTrivial = false;
  /// Every factor (rescale or gate) is 1: a plain sum of weighted values.
  bool factorsTrivial = false;
  /// Cocycle: rescale(e, x) is exactly 0 in float32 for every x other than e,
  /// so the identity needs no test before its factor is computed.
  bool rescaleAbsorbs = false;
  /// lift(-inf) in float32 is the identity, and its weights times any factor
  /// are exactly 0: a dead score needs no test.
  bool deadIsNatural = false;
  /// Cocycle: the weights of the least finite score are finite, so that with
  /// the factor of a dead score, 0, they are 0.
  bool leastScoreIsFinite = false;
  /// Cocycle: a NaN in any score makes every weight NaN after rescaling to any
  /// statistic, also to one whose combine ignored the NaN.
  bool nanReachesWeights = false;
  /// nanReachesWeights, and each default output spreads it: `combine` may use
  /// a maximum that ignores NaN.
  bool relaxedMax = false;
  /// General, of one score and no values: the number of a state below which a
  /// key changes nothing: combine(c, lift(s, j)) = c wherever s <=
  /// c[threshold], as in the k largest scores, whose k-th is one, unless that
  /// is the lowest float32, "none yet", which lets in every key. -1: there is
  /// none.
  int threshold = -1;
  /// For each component the largest magnitude of a rescaled weight over
  /// scores of magnitude up to 1e4; not for general monoids.
  std::vector<double> largestWeight;
  /// The monoid's own finalize region.
  FinalizeReport finalize;
};

/// Tests a verified monoid. Results are kept for the life of the process by
/// the text of the op; safe from any thread. Null after reporting the
/// operation that cannot be evaluated.
std::shared_ptr<const LawReport> checkLaws(mlir::attn::MonoidOp monoid);

/// Tests a monoid and reports the broken law as an error at it.
llvm::LogicalResult verifyLaws(mlir::attn::MonoidOp monoid);

/// The properties of another finalize region for the states of `monoid`:
/// arguments `c..., v...` and then any scalars and tensors, which are sampled.
llvm::FailureOr<FinalizeReport> checkFinalize(mlir::attn::MonoidOp monoid,
                                              mlir::Region &finalize);

} // namespace attn

#endif // ATTN_ANALYSIS_LAWS_H
