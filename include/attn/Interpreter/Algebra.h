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

#include <array>
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
    return identityProgram ? call(*identityProgram, {}, /*exact=*/true)
                           : Scalars();
  }
  Scalars combine(llvm::ArrayRef<Scalar> a, llvm::ArrayRef<Scalar> b) const {
    return combineProgram ? call(*combineProgram, {a, b}) : Scalars();
  }
  /// Statistics, then weights; of a general monoid the state.
  Scalars lift(llvm::ArrayRef<double> scores, llvm::ArrayRef<double> values,
               int64_t position) const {
    Scalars arguments;
    for (double score : scores)
      arguments.push_back(Scalar::ofFloat(score));
    if (isGeneral) {
      for (double value : values)
        arguments.push_back(Scalar::ofFloat(value));
      arguments.push_back(Scalar::ofInt(position));
    }
    return call(*liftProgram, {arguments});
  }
  /// One factor for all components, or one for each; 1 where the region is
  /// absent.
  Factors rescale(llvm::ArrayRef<Scalar> from,
                  llvm::ArrayRef<Scalar> to) const {
    if (!rescaleProgram)
      return {1.0};
    Factors factors;
    evaluate(*rescaleProgram, {from, to},
             [&](Scalar factor) { factors.push_back(factor.f); });
    return factors;
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
    double result = 1.0;
    evaluate(*gateProgram, {c}, [&](Scalar gate) { result = gate.f; });
    return result;
  }
  /// Of kind affine: what scales the first and the second state of a product.
  std::pair<double, double> factors(llvm::ArrayRef<Scalar> a,
                                    llvm::ArrayRef<Scalar> b) const {
    Factors both;
    evaluate(*factorsProgram, {a, b},
             [&](Scalar factor) { both.push_back(factor.f); });
    return {both[0], both[1]};
  }
  /// The same, 0 for a state that is the identity: that factor is not used.
  std::pair<double, double> factorsOf(llvm::ArrayRef<Scalar> a,
                                      llvm::ArrayRef<Scalar> b) const {
    auto [alpha, beta] = factors(a, b);
    return {isIdentity(a) ? 0.0 : alpha, isIdentity(b) ? 0.0 : beta};
  }

  /// The product of two whole states `c..., v...`.
  Scalars multiply(llvm::ArrayRef<Scalar> a, llvm::ArrayRef<Scalar> b) const;
  /// The state of one key: its lift with the values multiplied in.
  Scalars stateOf(llvm::ArrayRef<double> scores, llvm::ArrayRef<double> values,
                  int64_t position) const;
  /// The identity with zero components.
  Scalars emptyState() const;

  bool isEqual(llvm::ArrayRef<Scalar> a, llvm::ArrayRef<Scalar> b) const;
  bool isIdentity(llvm::ArrayRef<Scalar> c) const {
    return constantIdentity ? isEqual(c, *constantIdentity)
                            : isEqual(c, identity());
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
  /// Where it is not 0, the float results of every call and every product are
  /// moved by up to this much of themselves, as rounding errors might. Sums of
  /// integers have none.
  double noise = 0.0;

  /// Moves a number as `noise` says.
  double disturb(double x) const {
    if (x == std::trunc(x))
      return x;
    // SplitMix64: the same noise on every machine and in every run.
    uint64_t z = (noiseState += 0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return x * (1.0 + noise * (double(z >> 11) * 0x1p-52 - 1.0));
  }

  /// Where given, calls append what they compare: see RegionProgram::evaluate.
  llvm::SmallVectorImpl<double> *distances = nullptr;

private:
  /// On two lists of arguments, and the params; what is too many is ignored.
  /// `take` is given one result after the other.
  template <typename Take>
  void evaluate(const RegionProgram &program,
                std::array<llvm::ArrayRef<Scalar>, 2> arguments, Take take,
                bool exact = false) const {
    RegionProgram::Registers registers = program.makeRegisters();
    Scalar *next = registers.data(), *last = next + program.getNumArguments();
    auto append = [&](llvm::ArrayRef<Scalar> list) {
      for (const Scalar *x = list.begin(); x != list.end() && next != last; ++x)
        *next++ = *x;
    };
    append(arguments[0]);
    append(arguments[1]);
    append(params);
    assert(next == last && "one scalar for each argument");
    program.evaluateOn(registers, precision, /*read=*/nullptr, distances);
    for (unsigned i = 0, e = program.getNumResults(); i < e; ++i) {
      Scalar result = program.getResult(registers, i);
      if (noise != 0.0 && !exact && program.isFloatResult(i))
        result.f = disturb(result.f);
      take(result);
    }
  }
  Scalars call(const RegionProgram &program,
               std::array<llvm::ArrayRef<Scalar>, 2> arguments,
               bool exact = false) const {
    Scalars results;
    evaluate(
        program, arguments, [&](Scalar result) { results.push_back(result); },
        exact);
    return results;
  }
  /// A number of a product: disturbed, and rounded in float32.
  double settled(double x) const {
    if (noise != 0.0)
      x = disturb(x);
    return precision == Precision::F32 ? static_cast<float>(x) : x;
  }

  mutable uint64_t noiseState = 0;
  /// The identity where it is written as constants, as almost always: every
  /// product asks for it.
  std::optional<Scalars> constantIdentity;

  std::optional<RegionProgram> identityProgram, combineProgram, rescaleProgram,
      shiftProgram, gateProgram, factorsProgram, liftProgram;
};

} // namespace attn

#endif // ATTN_INTERPRETER_ALGEBRA_H
