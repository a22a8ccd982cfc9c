//===- Algebra.h - The regions of a monoid as functions ---------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A monoid with its regions compiled, and the product of states that its kind
// defines. The law checks, the tests and the reference interpreter use it.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_INTERPRETER_ALGEBRA_H
#define ATTN_INTERPRETER_ALGEBRA_H

#include "attn/Dialect/Attn/IR/Attn.h"
#include "attn/Interpreter/Interpreter.h"
#include "llvm/ADT/STLExtras.h"

#include <cmath>
#include <optional>
#include <string>
#include <utility>

namespace attn {

/// A state, its statistics alone, or the results of a region.
using Scalars = llvm::SmallVector<Scalar, 8>;

/// Whether two numbers differ by no more than the rounding errors of float64
/// explain: relative to themselves and, as cancellation loses that much, to
/// `size`, that of the operands and results they are computed from. NaN agrees
/// with nothing.
bool agree(double x, double y, double size);

/// "1.5", or "(1.5, 2)" for several.
std::string printNumbers(llvm::ArrayRef<double> numbers);

/// What scales the components of a state: one number for all, or one for each.
class Factors : public llvm::SmallVector<double, 2> {
public:
  using SmallVector::SmallVector;
  double of(unsigned component) const {
    return (*this)[size() == 1 ? 0 : component];
  }
  bool areFinite() const {
    return llvm::all_of(*this, [](double x) { return std::isfinite(x); });
  }
};

class Algebra {
public:
  static llvm::FailureOr<Algebra> compile(mlir::attn::MonoidOp op);

  /// Both empty where a state has no statistics.
  Scalars identity() const {
    if (constantIdentity)
      return *constantIdentity;
    Scalars result;
    if (identityProgram)
      identityProgram->evaluate(params, result, precision, /*read=*/nullptr,
                                distances);
    return result;
  }
  Scalars combine(llvm::ArrayRef<Scalar> a, llvm::ArrayRef<Scalar> b) const {
    return combineProgram ? call(*combineProgram, a, b) : Scalars();
  }
  /// The same where `result` points, which may be one of the two.
  void combineInto(llvm::ArrayRef<Scalar> a, llvm::ArrayRef<Scalar> b,
                   Scalar *result) const {
    if (combineProgram)
      evaluate(*combineProgram, a, b, result);
  }
  /// Statistics, then weights; of a general monoid the state.
  Scalars lift(llvm::ArrayRef<double> scores, llvm::ArrayRef<double> values,
               int64_t position) const {
    size_t numResults = liftProgram->getNumResults();
    // Arguments first.
    Scalars state;
    state.resize_for_overwrite(
        std::max(scores.size() + values.size() + 1, numResults));
    Scalar *next = state.data();
    for (double score : scores)
      *next++ = Scalar::ofFloat(score);
    if (isGeneral) {
      for (double value : values)
        *next++ = Scalar::ofFloat(value);
      *next++ = Scalar::ofInt(position);
    }
    evaluate(*liftProgram, {state.data(), next}, {}, state.data());
    state.truncate(numResults);
    return state;
  }
  /// One factor for all components, or one for each; 1 where the region is
  /// absent.
  Factors rescale(llvm::ArrayRef<Scalar> from,
                  llvm::ArrayRef<Scalar> to) const {
    if (numFactors > 1)
      return rescaleEach(from, to);
    Scalar factor = Scalar::ofFloat(1.0);
    if (rescaleProgram)
      evaluate(*rescaleProgram, from, to, &factor);
    return {factor.f};
  }
  /// What a state's components become where its statistic moves, before they
  /// are scaled; from the identity as they are, of which nothing is left.
  void shift(llvm::ArrayRef<Scalar> from, llvm::ArrayRef<Scalar> to,
             llvm::MutableArrayRef<Scalar> components) const;
  /// The same, 0 from the identity: there the region is not evaluated.
  Factors factorsFrom(llvm::ArrayRef<Scalar> from,
                      llvm::ArrayRef<Scalar> to) const {
    return isIdentity(from) ? Factors{0.0} : rescale(from, to);
  }
  double gate(llvm::ArrayRef<Scalar> c) const {
    if (!gateProgram)
      return 1.0;
    Scalar gate;
    evaluate(*gateProgram, c, {}, &gate);
    return gate.f;
  }
  /// Of kind affine: what scales the first and the second state of a product.
  std::pair<double, double> factors(llvm::ArrayRef<Scalar> a,
                                    llvm::ArrayRef<Scalar> b) const {
    Scalar both[2];
    evaluate(*factorsProgram, a, b, both);
    return {both[0].f, both[1].f};
  }
  /// The same, 0 for a state that is the identity: that factor is not used.
  std::pair<double, double> factorsOf(llvm::ArrayRef<Scalar> a,
                                      llvm::ArrayRef<Scalar> b) const {
    auto [alpha, beta] = factors(a, b);
    return {isIdentity(a) ? 0.0 : alpha, isIdentity(b) ? 0.0 : beta};
  }

  /// The product of two whole states `c..., v...`.
  Scalars multiply(llvm::ArrayRef<Scalar> a, llvm::ArrayRef<Scalar> b) const {
    Scalars product;
    product.resize_for_overwrite(numStats + numComponents);
    multiplyInto(a, b, product.data());
    return product;
  }
  /// The same where `product` points, which may be one of the two.
  void multiplyInto(llvm::ArrayRef<Scalar> a, llvm::ArrayRef<Scalar> b,
                    Scalar *product) const;
  /// The state of one key: its lift with the values multiplied in.
  Scalars stateOf(llvm::ArrayRef<double> scores, llvm::ArrayRef<double> values,
                  int64_t position) const;
  /// The identity with zero components.
  Scalars emptyState() const;

  bool isEqual(llvm::ArrayRef<Scalar> a, llvm::ArrayRef<Scalar> b) const {
    for (size_t i = 0; i < a.size(); ++i)
      if (isFloat[i] ? a[i].f != b[i].f : a[i].i != b[i].i)
        return false;
    return true;
  }
  bool isIdentity(llvm::ArrayRef<Scalar> c) const {
    if (LLVM_LIKELY(constantIdentity.has_value()))
      return isEqual(c, *constantIdentity);
    return isComputedIdentity(c);
  }
  /// The largest magnitude in a state, but for infinities and the largest
  /// floats that stand for them.
  double sizeOf(llvm::ArrayRef<Scalar> state) const;
  std::string print(llvm::ArrayRef<Scalar> state) const;
  /// The same of components without statistics, those that `shift` takes.
  std::string printUnits(llvm::ArrayRef<Scalar> components) const;
  std::string printParams() const;

  mlir::attn::MonoidKind kind = mlir::attn::MonoidKind::cocycle;
  bool isGeneral = false, hasShift = false;
  unsigned numStats = 0, numComponents = 0, numScores = 0, numValues = 0,
           numParams = 0;
  llvm::SmallVector<bool> isValue, isFloat;
  /// Constants of the regions, but for finalize.
  std::vector<double> constants;
  std::vector<int64_t> integerConstants;
  bool hasFinalize = false;

  /// Set by the trial.
  Precision precision = Precision::F64;
  Scalars params;
  /// The float results of every call and every product are moved by up to so
  /// much of themselves, as rounding errors might. Sums of integers have none.
  void setNoise(double size) { watch(size, distances); }
  /// Moves a number by noise.
  double disturb(double x) const;
  /// Calls append what they compare, where `list` is given: see
  /// RegionProgram::evaluate.
  void setDistances(llvm::SmallVectorImpl<double> *list) { watch(noise, list); }

private:
  void watch(double size, llvm::SmallVectorImpl<double> *list) {
    noise = size;
    distances = list;
    isWatched = hasLongRegion || list || size != 0.0;
  }
  /// On two lists of arguments, and the params where the region takes them.
  /// Results may be in the place of arguments.
  void evaluate(const RegionProgram &program, llvm::ArrayRef<Scalar> a,
                llvm::ArrayRef<Scalar> b, Scalar *results) const {
    if (LLVM_UNLIKELY(isWatched))
      evaluateWatched(program, a, b, results);
    else
      program.evaluateFew(a, b, params, results, precision);
  }
  /// The same with noise and distances, and of a long region.
  void evaluateWatched(const RegionProgram &program, llvm::ArrayRef<Scalar> a,
                       llvm::ArrayRef<Scalar> b, Scalar *results) const;
  /// Of two statistics theirs, and what scales the components of either, one
  /// behind the other, as `productProgram` gives them.
  void evaluateFactors(llvm::ArrayRef<Scalar> a, llvm::ArrayRef<Scalar> b,
                       Scalar *numbers) const;
  /// `factorsFrom` in the place of factors 1.
  void scaleFrom(llvm::ArrayRef<Scalar> from, llvm::ArrayRef<Scalar> to,
                 Scalar *factors) const;
  Factors rescaleEach(llvm::ArrayRef<Scalar> from,
                      llvm::ArrayRef<Scalar> to) const;
  bool isComputedIdentity(llvm::ArrayRef<Scalar> c) const;
  Scalars call(const RegionProgram &program, llvm::ArrayRef<Scalar> a,
               llvm::ArrayRef<Scalar> b) const {
    Scalars results;
    results.resize_for_overwrite(program.getNumResults());
    evaluate(program, a, b, results.data());
    return results;
  }
  /// A number of a product: disturbed, and rounded in float32.
  double settled(double x) const {
    if (LLVM_UNLIKELY(isWatched) && noise != 0.0)
      x = disturb(x);
    return precision == Precision::F32 ? static_cast<float>(x) : x;
  }

  double noise = 0.0;
  mutable uint64_t noiseState = 0;
  llvm::SmallVectorImpl<double> *distances = nullptr;
  /// Some region has too many registers for a quick evaluation.
  bool hasLongRegion = false;
  /// Evaluations have to do with any of these.
  bool isWatched = false;
  /// Results of rescale.
  unsigned numFactors = 1;
  /// The identity where it is written as constants, as almost always: every
  /// product asks for it.
  std::optional<Scalars> constantIdentity;

  std::optional<RegionProgram> identityProgram, combineProgram, rescaleProgram,
      shiftProgram, gateProgram, factorsProgram, liftProgram;
  /// The statistics of a product and the factors of either state.
  std::optional<RegionProgram> productProgram;
};

} // namespace attn

#endif // ATTN_INTERPRETER_ALGEBRA_H
