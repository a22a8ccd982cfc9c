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
    *into = std::move(*program);
  }
  assert(algebra.liftProgram && "the verifier asks for it");
  if (algebra.identityProgram)
    algebra.constantIdentity = algebra.identityProgram->getConstantResults();
  return algebra;
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
  units = call(*shiftProgram, {states, units});
  for (unsigned i = 0, unit = 0; i < numComponents; ++i)
    if (!isValue[i])
      components[i] = units[unit++];
}

Scalars Algebra::multiply(ArrayRef<Scalar> a, ArrayRef<Scalar> b) const {
  if (isGeneral)
    return combine(a, b);
  ArrayRef<Scalar> ca = a.take_front(numStats), cb = b.take_front(numStats);
  Scalars c = combine(ca, cb);
  bool isMoved = kind == MonoidKind::cocycle && numStats;
  Factors alpha = isMoved                      ? factorsFrom(ca, c)
                  : kind == MonoidKind::suffix ? Factors{gate(cb)}
                                               : Factors{1.0};
  Factors beta = isMoved                      ? factorsFrom(cb, c)
                 : kind == MonoidKind::prefix ? Factors{gate(ca)}
                                              : Factors{1.0};
  ArrayRef<Scalar> left = a.drop_front(numStats),
                   right = b.drop_front(numStats);
  Scalars leftShifted, rightShifted;
  if (isMoved && hasShift) {
    leftShifted = Scalars(left), rightShifted = Scalars(right);
    shift(ca, c, leftShifted);
    shift(cb, c, rightShifted);
    left = leftShifted, right = rightShifted;
  }
  if (kind == MonoidKind::affine)
    std::tie(alpha[0], beta[0]) = factorsOf(ca, cb);
  auto times = [&](double factor, double x) {
    return factor == 0.0 ? 0.0 : settled(factor * x);
  };
  for (unsigned i = 0; i < numComponents; ++i) {
    double sum = times(alpha.of(i), left[i].f) + times(beta.of(i), right[i].f);
    c.push_back(Scalar::ofFloat(settled(sum)));
  }
  return c;
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

bool Algebra::isEqual(ArrayRef<Scalar> a, ArrayRef<Scalar> b) const {
  for (size_t i = 0; i < a.size(); ++i)
    if (isFloat[i] ? a[i].f != b[i].f : a[i].i != b[i].i)
      return false;
  return true;
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
