//===- Laws.cpp - Tests the laws of a monoid ------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
// A trial lifts up to seven keys, multiplies them to three states a, b, c and
// compares the sides of every law on those. Two sides agree when they differ
// by rounding: relative to the result, plus a bound relative to the largest
// number that was computed on the way, since cancellation loses that much. A
// NaN agrees with nothing.
//===----------------------------------------------------------------------===//

#include "attn/Analysis/Laws.h"
#include "attn/Interpreter/Algebra.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>
#include <limits>
#include <mutex>

using namespace mlir;
using ::attn::agree;
using ::attn::Algebra;
using ::attn::Factors;
using ::attn::FinalizeReport;
using ::attn::LawReport;
using ::attn::Precision;
using ::attn::printNumbers;
using ::attn::RegionProgram;
using ::attn::Scalar;
using ::attn::Scalars;
using mlir::attn::MonoidKind;
using mlir::attn::MonoidOp;

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double notANumber = std::numeric_limits<double>::quiet_NaN();
/// Scores up to this size must give finite lifts and factors in float32.
constexpr double largestScore = 1e4;
/// A factor below this has lost digits or vanished; its ratios say nothing.
constexpr double smallestFactor = 1e-280;

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
  /// A float32 in (-bound, bound).
  double within(double bound) {
    return float((double(next() >> 11) * 0x1p-52 - 1.0) * bound);
  }
};

/// Factors are products, so they agree to relative precision; `size` is that
/// of the numbers that the factors were computed from.
bool factorsAgree(double x, double y, double size) {
  if (x == y)
    return true;
  if (!std::isfinite(x) || !std::isfinite(y))
    return false;
  return std::fabs(x - y) <=
         (1e-9 + 1e-14 * size) * std::max(std::fabs(x), std::fabs(y));
}

} // namespace

//===----------------------------------------------------------------------===//
// Checker
//===----------------------------------------------------------------------===//

namespace {
class Checker {
public:
  Checker(MonoidOp op, Algebra algebra);

  /// Fills in everything but `finalize`; stops at the first broken law.
  void run(LawReport &report);
  FinalizeReport checkFinalize(Region &region, const RegionProgram &program);

private:
  struct Key {
    SmallVector<double, 2> scores, values;
    int64_t position;
  };

  void samplePools(ArrayRef<double> constants);
  void sampleParams();
  Key sampleKey(bool wide, int64_t position);
  /// Up to `limit` keys, multiplied; the position moves on.
  Scalars sampleState(unsigned limit, bool wide, int64_t &position);
  /// The part of a state that the laws speak of.
  Scalars carrier(ArrayRef<Scalar> state) const {
    return Scalars(algebra.isGeneral ? state
                                     : state.take_front(algebra.numStats));
  }

  /// Records a broken law; returns false so that a check can return it.
  bool broken(StringRef law, const std::string &example) {
    report->brokenLaw = law.str();
    report->counterexample = example + algebra.printParams();
    return false;
  }
  bool checkTrial(unsigned trial);
  bool checkIdentity(const Scalars &a);
  bool checkCocycle(const Scalars &a, const Scalars &b, const Scalars &c);
  bool checkGate(const Scalars &a, const Scalars &b);
  bool checkFinite();
  bool checkKey(const Key &key);
  void findDeadProperties();
  void findNaNProperties();

  Algebra algebra;
  Random random;
  LawReport *report = nullptr;
  std::vector<double> moderate, wide;
};
} // namespace

Checker::Checker(MonoidOp op, Algebra compiled) : algebra(std::move(compiled)) {
  std::vector<double> constants = algebra.constants;
  if (!op.getFinalize().empty())
    for (auto constant : op.getFinalize().front().getOps<arith::ConstantOp>())
      if (auto value = dyn_cast<FloatAttr>(constant.getValue()))
        constants.push_back(value.getValueAsDouble());
  samplePools(constants);
}

void Checker::samplePools(ArrayRef<double> constants) {
  moderate = {0.0, 1.0, -1.0, 2.0, 0.5, -0.0, -3.0, 4.0, 0.125, -0.75};
  for (unsigned i = 0; i < 20; ++i)
    moderate.push_back(random.within(i % 2 ? 4.0 : 1.5));
  wide = {20.0,   -20.0, 87.5, -87.5, 100.0, -100.0, 700.0,
          -700.0, 1e4,   -1e4, 1e-3,  -1e-3, 1e-40,  -1e-40};
  for (double constant : constants) {
    if (!std::isfinite(constant))
      continue;
    auto value = static_cast<float>(constant);
    constexpr float top = std::numeric_limits<float>::infinity();
    for (float near :
         {value, std::nextafterf(value, top), std::nextafterf(value, -top),
          value * 1.001f, value * 0.999f, -value})
      if (std::isfinite(near))
        (std::fabs(near) <= 64.0f ? moderate : wide).push_back(near);
  }
  for (unsigned i = 0; i < 16; ++i)
    wide.push_back(random.within(i % 2 ? 50.0 : largestScore));
}

void Checker::sampleParams() {
  // Params are positive (temperatures, bases, rates); others are tried by the
  // kernels' own tests.
  constexpr double values[] = {1.0, 0.5, 2.0, 1.25, 0.75, 3.0};
  algebra.params.clear();
  for (unsigned i = 0; i < algebra.numParams; ++i)
    algebra.params.push_back(
        Scalar::ofFloat(values[random.below(std::size(values))]));
}

Checker::Key Checker::sampleKey(bool fromWide, int64_t position) {
  Key key;
  for (unsigned i = 0; i < algebra.numScores; ++i) {
    bool useWide = fromWide && random.below(2);
    const std::vector<double> &pool = useWide ? wide : moderate;
    key.scores.push_back(pool[random.below(pool.size())]);
  }
  for (unsigned i = 0; i < algebra.numValues; ++i)
    key.values.push_back(random.below(4) ? random.within(4.0)
                                         : moderate[random.below(10)]);
  key.position = position;
  return key;
}

Scalars Checker::sampleState(unsigned limit, bool fromWide, int64_t &position) {
  Scalars state = algebra.emptyState();
  unsigned numKeys = random.below(limit + 1);
  for (unsigned i = 0; i < numKeys; ++i) {
    position += 1 + random.below(3);
    Key key = sampleKey(fromWide, position);
    Scalars next = algebra.stateOf(key.scores, key.values, key.position);
    state = i ? algebra.multiply(state, next) : next;
  }
  return state;
}

bool Checker::checkIdentity(const Scalars &a) {
  Scalars e = algebra.identity();
  for (bool left : {true, false}) {
    algebra.largest = algebra.sizeOf(a);
    Scalars product = left ? algebra.combine(e, a) : algebra.combine(a, e);
    if (!algebra.isEqual(product, a, /*exact=*/false))
      return broken(
          "identity: combine(e, a) = a = combine(a, e)",
          "a = " + algebra.print(a) +
              (left ? " gives combine(e, a) = " : " gives combine(a, e) = ") +
              algebra.print(product));
  }
  return true;
}

bool Checker::checkCocycle(const Scalars &a, const Scalars &x,
                           const Scalars &y) {
  if (!algebra.numStats || algebra.isIdentity(a))
    return true;
  Factors same = algebra.rescale(a, a);
  double size = algebra.largest;
  if (!llvm::all_of(same, [&](double r) { return factorsAgree(r, 1.0, size); }))
    return broken("rescale to itself: r(a, a) = 1",
                  "a = " + algebra.print(a) + " gives " + printNumbers(same));

  // From a part to the whole by way of every part between.
  for (unsigned order = 0; order < 4; ++order) {
    Scalars b = order & 1 ? algebra.combine(x, a) : algebra.combine(a, x);
    Scalars c = order & 2 ? algebra.combine(y, b) : algebra.combine(b, y);
    if (algebra.isIdentity(b) || algebra.isIdentity(c))
      return broken("only the identity is the identity: combine(a, b) = e "
                    "implies a = b = e",
                    "a = " + algebra.print(a) + ", b = " +
                        algebra.print(algebra.isIdentity(b) ? x : y) +
                        " gives " + algebra.print(algebra.identity()));
    algebra.largest = std::max(algebra.sizeOf(a), algebra.sizeOf(c));
    Factors toB = algebra.rescale(a, b), fromB = algebra.rescale(b, c);
    size = std::max(algebra.sizeOf(a), algebra.sizeOf(c));
    // Each factor is a cocycle of its own.
    for (auto [ab, bc, ac] : llvm::zip(toB, fromB, algebra.rescale(a, c))) {
      if (ab != 1.0 || bc != 1.0)
        report->factorsTrivial = false;
      bool vanishes = std::fabs(ab) < smallestFactor ||
                      std::fabs(bc) < smallestFactor ||
                      std::fabs(ac) < smallestFactor;
      // Where a factor vanishes the others may still not grow.
      if (vanishes && std::fabs(ab * bc - ac) < 1e-100)
        continue;
      if (!factorsAgree(ab * bc, ac, size))
        return broken("rescale is a cocycle: r(a, b) * r(b, c) = r(a, c)",
                      "a = " + algebra.print(a) + ", b = " + algebra.print(b) +
                          ", c = " + algebra.print(c) + " gives " +
                          printNumbers(ab * bc) + " and " + printNumbers(ac));
    }
  }
  return true;
}

bool Checker::checkGate(const Scalars &a, const Scalars &b) {
  double ofIdentity = algebra.gate(algebra.identity());
  if (!factorsAgree(ofIdentity, 1.0, 0.0))
    return broken("gate of the identity: g(e) = 1",
                  "e = " + algebra.print(algebra.identity()) + " gives " +
                      printNumbers(ofIdentity));
  Scalars both = algebra.combine(a, b);
  double ga = algebra.gate(a), gb = algebra.gate(b), gab = algebra.gate(both);
  if (ga != 1.0 || gb != 1.0)
    report->factorsTrivial = false;
  // Exponentials leave the range of float64 for wide samples.
  for (double factor : {ga, gb, gab})
    if (std::isinf(factor) || std::fabs(factor) < smallestFactor)
      if (std::max(algebra.sizeOf(a), algebra.sizeOf(b)) > 300.0)
        return true;
  double size = std::max(algebra.sizeOf(a), algebra.sizeOf(b));
  if (!factorsAgree(ga * gb, gab, size))
    return broken("gate is a homomorphism: g(combine(a, b)) = g(a) * g(b)",
                  "a = " + algebra.print(a) + ", b = " + algebra.print(b) +
                      " gives " + printNumbers(gab) + " and " +
                      printNumbers(ga * gb));
  return true;
}

bool Checker::checkTrial(unsigned trial) {
  // Single keys with simple scores come first: the counterexamples that they
  // give are the ones to read.
  constexpr unsigned numSimple = 5, simpleTrials = 125;
  bool simple = trial < simpleTrials;
  bool fromWide = !simple && trial % 4 == 3;
  sampleParams();
  Scalars states[3];
  int64_t position = 0;
  for (unsigned i = 0, index = trial; i < 3; ++i, index /= numSimple) {
    if (!simple) {
      states[i] = sampleState(i == 1 ? 3 : 2, fromWide, position);
      continue;
    }
    Key key = sampleKey(/*fromWide=*/false, ++position);
    if (!key.scores.empty())
      key.scores[0] = moderate[index % numSimple];
    states[i] = algebra.stateOf(key.scores, key.values, key.position);
  }
  Scalars a = carrier(states[0]), b = carrier(states[1]),
          c = carrier(states[2]);

  if (!checkIdentity(a) || !checkIdentity(algebra.identity()))
    return false;

  algebra.largest =
      std::max({algebra.sizeOf(a), algebra.sizeOf(b), algebra.sizeOf(c)});
  Scalars ab = algebra.combine(a, b), bc = algebra.combine(b, c);
  Scalars left = algebra.combine(ab, c), right = algebra.combine(a, bc);
  if (!algebra.isEqual(left, right, /*exact=*/false))
    return broken("combine is associative: combine(combine(a, b), c) = "
                  "combine(a, combine(b, c))",
                  "a = " + algebra.print(a) + ", b = " + algebra.print(b) +
                      ", c = " + algebra.print(c) + " gives " +
                      algebra.print(left) + " and " + algebra.print(right));
  if (!algebra.isEqual(ab, algebra.combine(b, a), /*exact=*/false))
    report->combineCommutes = false;

  if (algebra.kind == MonoidKind::cocycle)
    return checkCocycle(a, b, c);
  if (!algebra.isGeneral)
    return checkGate(a, b) && checkGate(ab, c);
  return true;
}

//===----------------------------------------------------------------------===//
// Finiteness and the identity
//===----------------------------------------------------------------------===//

/// Lifts of one key: finite in float32, and not the identity unless weightless.
bool Checker::checkKey(const Key &key) {
  std::string example = "s = " + printNumbers(key.scores) + " gives ";
  bool inRange = llvm::all_of(
      key.scores, [](double s) { return std::fabs(s) <= largestScore; });

  for (Precision precision : {Precision::F64, Precision::F32}) {
    algebra.precision = precision;
    Scalars lifted = algebra.lift(key.scores, key.values, key.position);
    for (auto [i, x] : llvm::enumerate(lifted))
      if (inRange && algebra.isFloat[i] && !std::isfinite(x.f))
        return broken("lift is finite in float32 for scores of magnitude up "
                      "to 1e4",
                      example + algebra.print(lifted));
    if (algebra.kind != MonoidKind::cocycle || !algebra.numStats || !inRange ||
        !algebra.isIdentity(ArrayRef(lifted).take_front(algebra.numStats)))
      continue;
    for (Scalar weight : ArrayRef(lifted).drop_front(algebra.numStats))
      if (weight.f != 0.0)
        return broken("the identity weighs nothing: lift(s) = (e, w) implies "
                      "w = 0",
                      example + algebra.print(lifted));
  }
  return true;
}

bool Checker::checkFinite() {
  SmallVector<Key> keys;
  for (bool fromWide : {false, true})
    for (double score : fromWide ? wide : moderate) {
      Key key = sampleKey(fromWide, keys.size());
      if (!key.scores.empty())
        key.scores[0] = score;
      keys.push_back(key);
    }
  report->largestWeight.assign(algebra.isGeneral ? 0 : algebra.numComponents,
                               0.0);
  SmallVector<Scalars> lifts;
  for (const Key &key : keys) {
    sampleParams();
    if (!checkKey(key))
      return false;
    if (llvm::all_of(key.scores,
                     [](double s) { return std::fabs(s) <= largestScore; }))
      lifts.push_back(algebra.lift(key.scores, key.values, key.position));
  }
  if (algebra.isGeneral)
    return true;

  algebra.precision = Precision::F32;
  unsigned numStats = algebra.numStats;
  for (const Scalars &key : lifts) {
    ArrayRef<Scalar> from = ArrayRef(key).take_front(numStats);
    // Every eighth of the others, from a start that moves.
    unsigned start = random.below(8);
    for (unsigned i = start; i < lifts.size(); i += 8) {
      ArrayRef<Scalar> other = ArrayRef(lifts[i]).take_front(numStats);
      Factors factors = {1.0};
      if (algebra.kind == MonoidKind::cocycle && numStats &&
          !algebra.isIdentity(from)) {
        Scalars to =
            i & 8 ? algebra.combine(from, other) : algebra.combine(other, from);
        factors = algebra.rescale(from, to);
        if (!llvm::all_of(factors, [](double r) { return std::isfinite(r); }))
          return broken("rescale is finite in float32: r(a, combine(a, b))",
                        "a = " + algebra.print(from) +
                            ", b = " + algebra.print(other) + " gives " +
                            printNumbers(factors));
      }
      for (unsigned k = 0; k < algebra.numComponents; ++k)
        report->largestWeight[k] =
            std::max(report->largestWeight[k],
                     std::fabs(factors.of(k) * key[numStats + k].f));
    }
  }

  // Gates grow without bound with positive statistics, which a user may give;
  // the ones of moderate scores must be finite all the same.
  if (algebra.kind != MonoidKind::cocycle)
    for (double score : moderate) {
      Key key = sampleKey(/*fromWide=*/false, 0);
      if (!key.scores.empty())
        key.scores[0] = score;
      if (llvm::any_of(key.scores, [](double s) { return std::fabs(s) > 8.0; }))
        continue;
      Scalars lifted = algebra.lift(key.scores, key.values, 0);
      ArrayRef<Scalar> c = ArrayRef(lifted).take_front(numStats);
      if (!std::isfinite(algebra.gate(c)))
        return broken("gate is finite in float32 for moderate scores",
                      "c = " + algebra.print(c) + " gives " +
                          printNumbers(algebra.gate(c)));
    }
  return true;
}

//===----------------------------------------------------------------------===//
// Properties
//===----------------------------------------------------------------------===//

/// rescaleAbsorbs and deadIsNatural, in float32.
void Checker::findDeadProperties() {
  bool isCocycle = algebra.kind == MonoidKind::cocycle;
  report->rescaleAbsorbs = isCocycle && algebra.numStats;
  report->deadIsNatural = true;
  SmallVector<double, 2> dead(algebra.numScores, -infinity);
  for (unsigned trial = 0; trial < 200; ++trial) {
    sampleParams();
    Key key = sampleKey(/*fromWide=*/trial % 2, trial);
    // A dead key of a general monoid may carry any value.
    constexpr double strange[] = {notANumber, infinity, -infinity};
    if (trial % 3 == 0)
      for (double &value : key.values)
        value = strange[random.below(3)];
    Scalars e = algebra.identity();
    Scalars lifted = algebra.lift(dead, key.values, key.position);
    unsigned size = algebra.isGeneral ? lifted.size() : algebra.numStats;
    if (!algebra.isIdentity(ArrayRef(lifted).take_front(size)))
      report->deadIsNatural = false;
    if (algebra.isGeneral)
      continue;
    Scalars live = algebra.lift(key.scores, key.values, key.position);
    ArrayRef<Scalar> to = ArrayRef(live).take_front(algebra.numStats);
    Factors factors = {1.0};
    if (isCocycle && algebra.numStats) {
      if (algebra.isIdentity(to))
        continue;
      factors = algebra.rescale(e, to);
      if (llvm::any_of(factors, [](double r) { return r != 0.0; }))
        report->rescaleAbsorbs = report->deadIsNatural = false;
    }
    for (unsigned k = 0; k < algebra.numComponents; ++k)
      if (lifted[algebra.numStats + k].f * factors.of(k) != 0.0)
        report->deadIsNatural = false;
  }
}

void Checker::findNaNProperties() {
  report->nanReachesWeights =
      algebra.kind == MonoidKind::cocycle && algebra.numStats;
  if (!report->nanReachesWeights)
    return;
  for (unsigned trial = 0; trial < 200; ++trial) {
    sampleParams();
    int64_t position = 0;
    Key key = sampleKey(/*fromWide=*/trial % 2, 0);
    key.scores[random.below(algebra.numScores)] = notANumber;
    Scalars lifted = algebra.lift(key.scores, key.values, 0);
    Scalars to = carrier(sampleState(2, trial % 2, position));
    Factors factors =
        algebra.rescale(ArrayRef(lifted).take_front(algebra.numStats), to);
    for (unsigned k = 0; k < algebra.numComponents; ++k)
      if (!std::isnan(lifted[algebra.numStats + k].f * factors.of(k)))
        report->nanReachesWeights = false;
  }
}

FinalizeReport Checker::checkFinalize(Region &region,
                                      const RegionProgram &program) {
  FinalizeReport result;
  bool isCocycle = algebra.kind == MonoidKind::cocycle;
  result.gaugeInvariant.assign(program.getNumResults(), isCocycle);
  result.spreadsNaN.assign(program.getNumResults(), true);
  unsigned stateSize = algebra.numStats + algebra.numComponents;

  // What follows the state is the monoid's params, or the row and captures.
  Scalars trailing;
  auto evaluate = [&](ArrayRef<Scalar> state, double *largest) {
    Scalars arguments(state), results;
    arguments.append(trailing.begin(), trailing.end());
    program.evaluate(
        arguments, results, algebra.precision,
        [&](unsigned argument, ArrayRef<int64_t> indices) {
          auto type = cast<ShapedType>(region.getArgument(argument).getType())
                          .getElementType();
          return isa<FloatType>(type) ? Scalar::ofFloat(0.75)
                                      : Scalar::ofInt(1);
        },
        largest);
    return results;
  };
  auto sample = [&] {
    sampleParams();
    trailing.clear();
    for (unsigned i = stateSize; i < program.getNumArguments(); ++i) {
      if (i - stateSize < algebra.numParams &&
          isa<MonoidOp>(region.getParentOp()))
        trailing.push_back(algebra.params[i - stateSize]);
      else if (program.isFloatArgument(i))
        trailing.push_back(
            Scalar::ofFloat(0.5 + std::fabs(random.within(2.0))));
      else
        trailing.push_back(Scalar::ofInt(random.below(8)));
    }
  };

  for (Precision precision : {Precision::F64, Precision::F32}) {
    algebra.precision = precision;
    sample();
    Scalars outputs = evaluate(algebra.emptyState(), nullptr);
    for (auto [i, output] : llvm::enumerate(outputs))
      if (program.isFloatResult(i) && std::isnan(output.f) &&
          result.nanOnIdentity < 0)
        result.nanOnIdentity = i;
  }

  algebra.precision = Precision::F64;
  for (unsigned trial = 0; trial < 200; ++trial) {
    sample();
    int64_t position = 0;
    Scalars state = sampleState(3, /*fromWide=*/false, position);
    Scalars reference = sampleState(2, /*fromWide=*/false, position);

    Scalars poisoned = carrier(state);
    poisoned.truncate(algebra.numStats);
    poisoned.append(algebra.numComponents, Scalar::ofFloat(notANumber));
    Scalars outputs = evaluate(poisoned, nullptr);
    for (auto [i, output] : llvm::enumerate(outputs))
      if (!program.isFloatResult(i) || !std::isnan(output.f))
        result.spreadsNaN[i] = false;

    if (!isCocycle)
      continue;
    Scalars from = carrier(state), to = carrier(reference);
    if (algebra.numStats &&
        (algebra.isIdentity(from) || algebra.isIdentity(to)))
      continue;
    algebra.largest = algebra.sizeOf(state);
    Factors factors = algebra.rescale(from, to);
    if (llvm::any_of(factors, [](double r) {
          return !std::isfinite(r) ||
                 (r != 0.0 && std::fabs(r) < smallestFactor);
        }))
      continue;
    Scalars moved(to);
    for (unsigned k = 0; k < algebra.numComponents; ++k)
      moved.push_back(
          Scalar::ofFloat(factors.of(k) * state[algebra.numStats + k].f));
    double largest = std::max(algebra.sizeOf(state), algebra.sizeOf(moved));
    Scalars here = evaluate(state, &largest);
    Scalars there = evaluate(moved, &largest);
    for (unsigned i = 0; i < here.size(); ++i)
      if (!program.isFloatResult(i) || !agree(here[i].f, there[i].f, largest))
        result.gaugeInvariant[i] = false;
  }
  return result;
}

void Checker::run(LawReport &into) {
  report = &into;
  report->combineCommutes = true;
  report->statsTrivial = !algebra.isGeneral && algebra.numStats == 0;
  report->factorsTrivial = !algebra.isGeneral;
  constexpr unsigned numTrials = 1200;
  for (unsigned trial = 0; trial < numTrials; ++trial)
    if (!checkTrial(trial))
      return;
  if (!checkFinite())
    return;
  algebra.precision = Precision::F32;
  findDeadProperties();
  findNaNProperties();
  algebra.precision = Precision::F64;
  bool ordered =
      algebra.kind == MonoidKind::suffix || algebra.kind == MonoidKind::prefix;
  report->isCommutative =
      report->combineCommutes && (!ordered || report->factorsTrivial);
}

//===----------------------------------------------------------------------===//
// Entry points
//===----------------------------------------------------------------------===//

static std::shared_ptr<const LawReport> computeReport(MonoidOp monoid) {
  FailureOr<Algebra> algebra = Algebra::compile(monoid);
  if (failed(algebra))
    return nullptr;
  std::optional<RegionProgram> finalize;
  if (!monoid.getFinalize().empty()) {
    FailureOr<RegionProgram> program =
        RegionProgram::compile(monoid.getFinalize());
    if (failed(program))
      return nullptr;
    finalize = std::move(*program);
  }
  auto report = std::make_shared<LawReport>();
  Checker checker(monoid, std::move(*algebra));
  checker.run(*report);
  if (!report->isLawful() || !finalize)
    return report;
  report->finalize = checker.checkFinalize(monoid.getFinalize(), *finalize);
  report->relaxedMax = report->nanReachesWeights &&
                       llvm::all_of(report->finalize.spreadsNaN,
                                    [](bool spreads) { return spreads; });
  if (int output = report->finalize.nanOnIdentity; output >= 0) {
    report->brokenLaw = "finalize gives no NaN for a row without live keys";
    std::string name = "#" + std::to_string(output);
    if (size_t(output) < monoid.getOutputs().size())
      name = cast<StringAttr>(monoid.getOutputs()[output]).str();
    report->counterexample = "finalize(e, 0) gives nan for output " + name;
  }
  return report;
}

namespace attn {
std::shared_ptr<const LawReport> checkLaws(MonoidOp monoid) {
  static std::mutex mutex;
  static llvm::StringMap<std::shared_ptr<const LawReport>> reports;
  std::string text;
  llvm::raw_string_ostream stream(text);
  monoid->print(stream, OpPrintingFlags().useLocalScope());
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (auto it = reports.find(text); it != reports.end())
      return it->second;
  }
  // Two threads may both compute a report: they find the same one.
  std::shared_ptr<const LawReport> report = computeReport(monoid);
  if (report) {
    std::lock_guard<std::mutex> lock(mutex);
    reports[text] = report;
  }
  return report;
}

LogicalResult verifyLaws(MonoidOp monoid) {
  std::shared_ptr<const LawReport> report = checkLaws(monoid);
  if (!report)
    return failure();
  if (report->isLawful())
    return success();
  return monoid.emitOpError("breaks the law \"")
         << report->brokenLaw << "\": " << report->counterexample;
}

FailureOr<FinalizeReport> checkFinalize(MonoidOp monoid, Region &finalize) {
  FailureOr<Algebra> algebra = Algebra::compile(monoid);
  if (failed(algebra))
    return failure();
  FailureOr<RegionProgram> program = RegionProgram::compile(finalize);
  if (failed(program))
    return failure();
  Checker checker(monoid, std::move(*algebra));
  return checker.checkFinalize(finalize, *program);
}
} // namespace attn
