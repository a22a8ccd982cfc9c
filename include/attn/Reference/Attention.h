//===- Attention.h - The float64 oracle -------------------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The plain definition of attention, in double, without tiles, running states
// or any other rewrite: one query row at a time, the scores of its keys, then
// the monoid written out as the formula that defines it. Everything that is
// compiled is compared with this.
//
// The same text also runs as an emulation, which rounds to a dtype after each
// operation. The error of the emulation says how much error that dtype excuses:
// see errorBound.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_REFERENCE_ATTENTION_H
#define ATTN_REFERENCE_ATTENTION_H

#include "attn/Support/Problem.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace attn::reference {

using support::AttentionProblem;
using support::Causal;
using support::DType;
using support::Monoid;
using support::Result;
using support::TensorView;

/// The outputs, dense, in C order. What a monoid does not define is empty.
/// Rows that belong to no sequence of a packed problem are left at 0.
struct AttentionResult {
  /// [b, hq, sq, dv]; b is 1 in a packed problem.
  std::array<int64_t, 4> shape = {0, 0, 0, 0};

  std::vector<double> out;      ///< [b, hq, sq, dv]; the mean for welford.
  std::vector<double> variance; ///< [b, hq, sq, dv]; welford.

  /// [b, hq, sq] each.
  std::vector<double> lse;       ///< Natural log, sink included; -inf if empty.
  std::vector<double> rowMax;    ///< The statistic, so the sink is included.
  std::vector<double> entropy;   ///< Of the keys and the sink; 0 if empty.
  std::vector<double> remainder; ///< prod (1 - beta), transmittance, prod a.
  std::vector<double> weightSum; ///< Sum of the weights; plain sums, welford.

  /// [b, hq, sq, sk], only with `keepPairs`. The final score, -inf where dead,
  /// and the factor of v_j, 0 where dead (no factor: maxPlus, logsumexp).
  /// A packed row has the keys of its sequence first and dead keys after.
  std::vector<double> scores, weights;
};

struct OracleOptions {
  bool keepPairs = false;
};

/// From this magnitude on float32 has no fractions, and what a score is as
/// float32 decides more than what it is as a real number: a bias of -1e12 makes
/// the scores of a row equal. There the exact result takes scores as they are
/// in float32; below, float32 is a rounding error like others.
inline constexpr double coarseScore = 0x1p23;

/// How an emulation rounds.
struct Emulation {
  DType dtype = DType::f32; ///< f32, f16 or bf16.
  /// A dot product or a row sum is one operation whose terms are added in f32,
  /// as every target and PyTorch do for 16-bit types, and rounded at its end.
  /// With this set each of the additions is rounded to `dtype` too: sums of
  /// bf16 then stop growing at 256 terms of equal size, so that bar is loose.
  bool roundAccumulators = false;
  /// The operands of products (q, k, weights, v) are rounded to tf32; with f32.
  bool tf32 = false;
  /// The same operands are rounded to this type, f16 or bf16, and nothing else
  /// is; with f32. So compiled code has 16-bit inputs: weights are those of an
  /// f32 score, rounded once.
  DType operands = DType::f32;
  /// Which of the `numOrders` evaluations of the same formulas; see SumOrder.
  int order = 0;
  /// Keys of a tile, where the order has tiles.
  int64_t tile = 64;
  /// Scores, biases and sinks stay in f32, as compiled code has them, whatever
  /// `dtype` is: a bar for large scores, of which 16 bits leave little.
  bool wideScores = false;
};

/// A way to evaluate the formulas that define the outputs. Mathematics does not
/// fix it, and where scores are large and few rows count, the error of any one
/// is a matter of luck: only several say how much rounding excuses. Each rounds
/// after every operation.
struct SumOrder {
  int lanes;      ///< Term n goes to partial sum n % lanes; these are added up.
  bool backwards; ///< From the last term to the first.
  bool fused;     ///< A product is added with one rounding, as an FMA does.
  /// A product of gates is the exponential of the sum of their logarithms: the
  /// statistic of suffix and prefix monoids.
  bool logarithms;
  /// Sums over keys are added up tile by tile, as a loop over key tiles does.
  bool tiles;
  /// Sums of weights times something are divided by the sum of the weights, not
  /// each weight.
  bool deferred;
  /// Weights are exp(s - max - shift): compiled code rounds the reference point
  /// of a row, so that the weights of its largest scores are no round numbers.
  /// A row takes half of this or more, by its maximum: were it one number, rows
  /// of one key would all have the same weight, and the same luck.
  double shift;
};
inline constexpr SumOrder sumOrders[] = {
    {1, false, false, false, false, false, 0.0},
    {1, true, false, true, false, true, 0.25},
    {1, false, true, true, true, true, 0.3},
    {1, true, true, false, true, false, -0.15},
    {4, false, false, true, true, false, 0.0},
    {8, true, true, true, false, true, -0.2},
    {16, false, true, true, true, true, 0.1},
    {16, true, false, true, true, true, 0.0}};
inline constexpr int numOrders = sizeof(sumOrders) / sizeof(sumOrders[0]);

/// The exact result: double throughout, each formula as it is defined.
Result<AttentionResult> attention(const AttentionProblem &problem,
                                  const OracleOptions &options = {});

/// The same computation, rounded to a dtype after each operation.
Result<AttentionResult> emulatedAttention(const AttentionProblem &problem,
                                          const Emulation &emulation,
                                          const OracleOptions &options = {});

/// What has to be emulated before an error is called one: `first` in each
/// order, in its own type, in f32, and in f32 with operands of its type. In f16
/// an emulation may overflow where the f32 of accumulators does not, and then
/// says nothing; and where a sigmoid in bf16 is a round number, so are all
/// products of gates, and none shows what the rounding of weights is.
std::vector<Emulation> emulationsOf(const Emulation &first);

/// The largest difference between finite entries of `reference` and finite
/// entries of `other`.
double maxError(const std::vector<double> &reference,
                const std::vector<double> &other);

/// The error that a result in `outDType` may have:
///   errorFactor * e + 2 * ulp(outDType) * max|reference|,
/// where e is the error of the emulation; gradients take a factor of 3. The
/// second term is never less than the spacing of subnormals, unless the
/// reference is all zero. Infinities and NaN do not enter.
double errorBound(const std::vector<double> &reference,
                  const std::vector<double> &emulated, DType outDType,
                  double errorFactor = 2.0);

/// The same where `e` is known: the largest error of several emulations.
double errorBar(const std::vector<double> &reference, double e, DType outDType,
                double errorFactor = 2.0);

/// Two errors, or two bounds: of entries below `coarseScore` in the reference,
/// and of those above. A row of masked keys has a logarithm of 1e38 for its
/// sum, and what that may be off by says nothing of the rows beside it.
struct Errors {
  double fine = 0.0, coarse = 0.0;

  double &of(double want) {
    return std::fabs(want) < coarseScore ? fine : coarse;
  }
  double of(double want) const {
    return std::fabs(want) < coarseScore ? fine : coarse;
  }
  void raise(const Errors &other) {
    fine = std::max(fine, other.fine);
    coarse = std::max(coarse, other.coarse);
  }
};
Errors maxErrors(const std::vector<double> &reference,
                 const std::vector<double> &other);
/// The bounds as `errorBar` gives them, each of its own entries.
Errors errorBars(const std::vector<double> &reference, const Errors &errors,
                 DType outDType);

/// What products of gates may be off by at least, whatever an emulation's luck:
/// they are exponentials of a sum of logarithms, and that is known to two units
/// in its last place.
double productError(const std::vector<double> &products);

/// Whether a bound tells right from wrong. It does where it is at most half of
/// the largest entry that it is for. Outputs that are 0 but for rounding (the
/// variance of one key), less than 2^-20 of the emulation's error, are known
/// well enough by a bound of a 16th of `scale`, what they are made of. All else
/// is undecided: outputs that underflow in `outDType` too.
bool isDecisive(const std::vector<double> &reference, const Errors &errors,
                const Errors &bounds, double scale);

/// What a comparison found. `worst` is the entry to look at first: the first
/// one that differs in kind (NaN, infinity, finite), else the largest error.
struct Comparison {
  bool ok = true;
  double maxError = 0.0;
  int64_t worst = -1;
  std::string message; ///< One line; empty when ok.
};

/// Whether `got` is right where `want` is: NaN wants NaN, an infinity wants the
/// same infinity, and finite entries may differ by `bound`. What rounds to an
/// infinity of `outDType`, within the bound, may be one.
bool isWithin(double got, double want, double bound,
              DType outDType = DType::f64);

/// Compares entry by entry, as isWithin does.
Comparison compare(const std::vector<double> &got,
                   const std::vector<double> &reference, double bound,
                   DType outDType = DType::f64);
/// `maxError` and `worst` are those of the largest share of its bound.
Comparison compare(const std::vector<double> &got,
                   const std::vector<double> &reference, const Errors &bounds,
                   DType outDType = DType::f64);

} // namespace attn::reference

#endif // ATTN_REFERENCE_ATTENTION_H
