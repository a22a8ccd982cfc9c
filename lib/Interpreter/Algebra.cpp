//===- Algebra.cpp - The regions of a monoid as functions -----------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Interpreter/Algebra.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cmath>
#include <tuple>

using namespace mlir;
using ::attn::Algebra;
using ::attn::Factors;
using ::attn::RegionProgram;
using ::attn::Scalar;
using ::attn::Scalars;
using mlir::attn::Component;
using mlir::attn::MonoidKind;
using mlir::attn::MonoidOp;

namespace attn {
bool agree(double x, double y, double size) {
  if (x == y)
    return true;
  if (!std::isfinite(x) || !std::isfinite(y))
    return false;
  return std::fabs(x - y) <=
         1e-9 * std::max(std::fabs(x), std::fabs(y)) + 1e-12 * size;
}

std::string printNumbers(ArrayRef<double> numbers) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  if (numbers.size() != 1)
    stream << '(';
  // A NaN has no sign that says anything.
  llvm::interleaveComma(numbers, stream, [&](double x) {
    stream << llvm::format("%.9g", std::isnan(x) ? std::fabs(x) : x);
  });
  if (numbers.size() != 1)
    stream << ')';
  return text;
}
} // namespace attn

FailureOr<Algebra> Algebra::compile(MonoidOp op) {
  Algebra algebra;
  algebra.kind = op.getKind();
  algebra.isGeneral = op.isGeneral();
  algebra.hasShift = op.hasShift();
  algebra.numStats = op.getNumStats();
  algebra.numComponents = op.getNumComponents();
  algebra.numScores = op.getNumScores();
  algebra.numValues = op.getNumValues();
  algebra.numParams = op.getNumParams();
  algebra.hasFinalize = !op.getFinalize().empty();
  for (Type type : op.getStats().getAsValueRange<TypeAttr>())
    algebra.isFloat.push_back(isa<FloatType>(type));
  for (unsigned i = 0; i < algebra.numComponents; ++i) {
    algebra.isFloat.push_back(true);
    algebra.isValue.push_back(op.getComponent(i) == Component::value);
  }

  std::pair<Region *, std::optional<RegionProgram> *> regions[] = {
      {&op.getIdentity(), &algebra.identityProgram},
      {&op.getCombine(), &algebra.combineProgram},
      {&op.getRescale(), &algebra.rescaleProgram},
      {&op.getShift(), &algebra.shiftProgram},
      {&op.getGate(), &algebra.gateProgram},
      {&op.getFactors(), &algebra.factorsProgram},
      {&op.getLift(), &algebra.liftProgram}};
  for (auto [region, into] : regions) {
    if (region->empty())
      continue;
    FailureOr<RegionProgram> program = RegionProgram::compile(*region);
    if (failed(program))
      return failure();
    llvm::append_range(algebra.constants, program->getFloatConstants());
    llvm::append_range(algebra.integerConstants,
                       program->getIntegerConstants());
    algebra.hasLongRegion |= !program->hasFewRegisters();
    *into = std::move(*program);
  }
  assert(algebra.liftProgram && "the verifier asks for it");
  if (algebra.identityProgram)
    algebra.constantIdentity = algebra.identityProgram->getConstantResults();
  algebra.isWatched = algebra.hasLongRegion;
  if (algebra.rescaleProgram) {
    algebra.numFactors = algebra.rescaleProgram->getNumResults();
    RegionProgram fused = RegionProgram::fuse(
        *algebra.combineProgram, *algebra.rescaleProgram, algebra.numStats);
    if (fused.hasFewRegisters())
      algebra.productProgram = std::move(fused);
  }
  return algebra;
}

void Algebra::evaluateWatched(const RegionProgram &program, ArrayRef<Scalar> a,
                              ArrayRef<Scalar> b, Scalar *results) const {
  if (program.hasFewRegisters()) {
    program.evaluateFew(a, b, params, results, precision, distances);
  } else {
    Scalars arguments(a), many;
    llvm::append_range(arguments, b);
    llvm::append_range(arguments, params);
    program.evaluate(arguments, many, precision, /*read=*/nullptr, distances);
    llvm::copy(many, results);
  }
  if (noise == 0.0)
    return;
  for (unsigned i = 0, e = program.getNumResults(); i < e; ++i)
    if (program.isFloatResult(i))
      results[i].f = disturb(results[i].f);
}

LLVM_ATTRIBUTE_NOINLINE double Algebra::disturb(double x) const {
  if (x == std::trunc(x))
    return x;
  // SplitMix64: the same noise on every machine and in every run.
  uint64_t z = (noiseState += 0x9E3779B97F4A7C15);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return x * (1.0 + noise * (double(z >> 11) * 0x1p-52 - 1.0));
}

void Algebra::shift(ArrayRef<Scalar> from, ArrayRef<Scalar> to,
                    MutableArrayRef<Scalar> components) const {
  if (!shiftProgram || isIdentity(from))
    return;
  Scalars states(from), units;
  states.append(to.begin(), to.end());
  for (unsigned i = 0; i < numComponents; ++i)
    if (!isValue[i])
      units.push_back(components[i]);
  units = call(*shiftProgram, states, units);
  for (unsigned i = 0, unit = 0; i < numComponents; ++i)
    if (!isValue[i])
      components[i] = units[unit++];
}

Factors Algebra::rescaleEach(ArrayRef<Scalar> from, ArrayRef<Scalar> to) const {
  Factors factors;
  for (Scalar factor : call(*rescaleProgram, from, to))
    factors.push_back(factor.f);
  return factors;
}

bool Algebra::isComputedIdentity(ArrayRef<Scalar> c) const {
  return isEqual(c, identity());
}

void Algebra::scaleFrom(ArrayRef<Scalar> from, ArrayRef<Scalar> to,
                        Scalar *factors) const {
  if (isIdentity(from))
    std::fill_n(factors, numFactors, Scalar::ofFloat(0.0));
  else if (rescaleProgram)
    evaluate(*rescaleProgram, from, to, factors);
}

void Algebra::evaluateFactors(ArrayRef<Scalar> a, ArrayRef<Scalar> b,
                              Scalar *numbers) const {
  Scalar *alpha = numbers + numStats, *beta = alpha + numFactors;
  combineInto(a, b, numbers);
  alpha->f = beta->f = 1.0;
  ArrayRef<Scalar> c(numbers, numStats);
  if (kind == MonoidKind::cocycle && numStats) {
    scaleFrom(a, c, alpha);
    scaleFrom(b, c, beta);
  } else if (kind == MonoidKind::suffix) {
    alpha->f = gate(b);
  } else if (kind == MonoidKind::prefix) {
    beta->f = gate(a);
  } else if (kind == MonoidKind::affine) {
    std::tie(alpha->f, beta->f) = factorsOf(a, b);
  }
}

void Algebra::multiplyInto(ArrayRef<Scalar> a, ArrayRef<Scalar> b,
                           Scalar *product) const {
  if (isGeneral)
    return combineInto(a, b, product);
  // The statistics, and what scales the components of either.
  SmallVector<Scalar, 16> numbers;
  numbers.resize_for_overwrite(numStats + 2 * numFactors);
  Scalar *alpha = numbers.data() + numStats, *beta = alpha + numFactors;
  ArrayRef<Scalar> ca(a.data(), numStats), cb(b.data(), numStats);
  if (productProgram && !isWatched) {
    productProgram->evaluateFew(ca, cb, params, numbers.data(), precision);
    if (isIdentity(ca))
      std::fill(alpha, beta, Scalar::ofFloat(0.0));
    if (isIdentity(cb))
      std::fill(beta, numbers.end(), Scalar::ofFloat(0.0));
  } else {
    evaluateFactors(ca, cb, numbers.data());
  }
  const Scalar *left = a.data() + numStats, *right = b.data() + numStats;
  std::optional<Scalars> shifted;
  if (hasShift) {
    ArrayRef<Scalar> c(numbers.data(), numStats);
    shifted.emplace(left, left + numComponents);
    shifted->append(right, right + numComponents);
    left = shifted->data(), right = left + numComponents;
    shift(ca, c, MutableArrayRef(*shifted).take_front(numComponents));
    shift(cb, c, MutableArrayRef(*shifted).drop_front(numComponents));
  }
  for (unsigned i = 0; i < numStats; ++i)
    *product++ = numbers[i];
  auto times = [&](double factor, double x) {
    return factor == 0.0 ? 0.0 : settled(factor * x);
  };
  // One factor, or one for each.
  size_t step = numFactors > 1;
  for (unsigned i = 0, e = numComponents; i < e; ++i) {
    double sum = times(alpha[i * step].f, left[i].f) +
                 times(beta[i * step].f, right[i].f);
    product[i].f = settled(sum);
  }
}

Scalars Algebra::stateOf(ArrayRef<double> scores, ArrayRef<double> values,
                         int64_t position) const {
  Scalars state = lift(scores, values, position);
  if (isGeneral)
    return state;
  unsigned next = 0;
  for (unsigned i = 0; i < numComponents; ++i)
    if (isValue[i])
      state[numStats + i].f = settled(state[numStats + i].f * values[next++]);
  return state;
}

Scalars Algebra::emptyState() const {
  Scalars state = identity();
  if (!isGeneral)
    state.append(numComponents, Scalar::ofFloat(0.0));
  return state;
}

double Algebra::sizeOf(ArrayRef<Scalar> state) const {
  constexpr double standsForInfinity = 1e30;
  double size = 0.0;
  for (size_t i = 0; i < state.size(); ++i) {
    double magnitude = std::fabs(isFloat[i] ? state[i].f : double(state[i].i));
    if (magnitude < standsForInfinity)
      size = std::max(size, magnitude);
  }
  return size;
}

std::string Algebra::print(ArrayRef<Scalar> state) const {
  SmallVector<double> numbers;
  for (auto [i, x] : llvm::enumerate(state))
    numbers.push_back(isFloat[i] ? x.f : double(x.i));
  return printNumbers(numbers);
}

std::string Algebra::printUnits(ArrayRef<Scalar> components) const {
  SmallVector<double> numbers;
  for (auto [x, isOfValues] : llvm::zip(components, isValue))
    if (!isOfValues)
      numbers.push_back(x.f);
  return printNumbers(numbers);
}

std::string Algebra::printParams() const {
  SmallVector<double> numbers;
  for (Scalar x : params)
    numbers.push_back(x.f);
  return params.empty() ? "" : " with params = " + printNumbers(numbers);
}
