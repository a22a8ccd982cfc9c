//===- Laws.cpp - Tests the laws of a monoid ------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
// A trial lifts up to seven keys, multiplies them to three states a, b, c and
// compares the sides of every law on those. Two sides agree when they differ
// by rounding: relative to the result, plus a bound relative to the operands
// and results, since cancellation loses that much. What only the bound excuses
// must be as sensitive to errors in the operands as it claims. A NaN agrees
// with nothing.
//===----------------------------------------------------------------------===//

#include "LawChecker.h"
#include "mlir/IR/AsmState.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <functional>
#include <mutex>

using namespace mlir;
using namespace ::attn;
using namespace ::attn::detail;
using mlir::attn::MonoidKind;
using mlir::attn::MonoidOp;

//===----------------------------------------------------------------------===//
// The laws of one trial
//===----------------------------------------------------------------------===//

/// What to say where the identity swallows a state: "e is not neutral below".
static std::string explainNeutral(const Algebra &algebra, ArrayRef<Scalar> e,
                                  ArrayRef<Scalar> a,
                                  ArrayRef<Scalar> product) {
  if (a.size() != 1 || !std::isfinite(e[0].f) || product[0].f != e[0].f ||
      a[0].f == e[0].f)
    return "";
  bool below = a[0].f < e[0].f;
  return ", so the identity " + algebra.print(e) +
         " is not neutral for states " + (below ? "below" : "above") + " it; " +
         (below ? "-inf" : "inf") + " would be";
}

bool LawChecker::checkIdentity(Stats a) {
  Scalars e = algebra.identity();
  for (bool left : {true, false}) {
    Scalars product = left ? algebra.combine(e, a) : algebra.combine(a, e);
    // What many keys have made may overflow on the way, and be multiplied by 0.
    if (isLong && !isInRange(product))
      continue;
    for (auto [want, got] : llvm::zip(a, product))
      if (want.f != got.f && !agree(want.f, got.f, algebra.sizeOf(a)))
        return broken(
            "identity: combine(e, a) = a = combine(a, e)",
            "a = " + algebra.print(a) +
                (left ? " gives combine(e, a) = " : " gives combine(a, e) = ") +
                algebra.print(product) +
                explainNeutral(algebra, e, a, product));
  }
  return true;
}

bool LawChecker::checkAssociative(Stats a, Stats b, Stats c, Stats ab,
                                  Stats left) {
  Scalars bc = algebra.combine(b, c), right = algebra.combine(a, bc);
  if (isLong && !areInRange({ab, bc, left, right}))
    return true;
  auto isEqual = [](Scalar x, Scalar y) { return x.f == y.f; };
  auto size = [&] {
    double size = 0.0;
    for (Stats state : {a, b, c, ab, Stats(bc), left, Stats(right)})
      size = std::max(size, algebra.sizeOf(state));
    return size;
  };

  bool close = true, same = true;
  if (!llvm::equal(left, right, isEqual))
    for (auto [x, y] : llvm::zip(left, right)) {
      close &= agree(x.f, y.f, size());
      same &= agree(x.f, y.f, 1.0);
    }
  // What only the size of other numbers excuses has to be rounding.
  if (!same && (close || isLong))
    close = agreeByNoise(left, right, Precision::F64, {a, b, c}, [&](States x) {
      return algebra.combine(algebra.combine(x[0], x[1]), x[2]);
    });
  if (!close)
    return broken("combine is associative: combine(combine(a, b), c) = "
                  "combine(a, combine(b, c))",
                  "a = " + algebra.print(a) + ", b = " + algebra.print(b) +
                      ", c = " + algebra.print(c) + " gives " +
                      algebra.print(left) + " and " + algebra.print(right));

  if (report->combineCommutes) {
    Scalars ba = algebra.combine(b, a);
    for (auto [x, y] : llvm::zip(ab, ba))
      if (!isEqual(x, y) && !agree(x.f, y.f, size()))
        report->combineCommutes = false;
  }
  return true;
}

/// Says from which difference of two scores on the factor is infinite.
bool LawChecker::brokenRange(ArrayRef<Scalar> a, ArrayRef<Scalar> b,
                             const Factors &factors) {
  std::string example = "a = " + algebra.print(a) +
                        ", b = " + algebra.print(b) + " gives " +
                        printNumbers(factors);
  Precision before = std::exchange(algebra.precision, Precision::F32);
  auto isFinite = [&](double from, double to) {
    Scalars x = algebra.lift({from}, {}, 0), y = algebra.lift({to}, {}, 0);
    Stats cx = carrier(x), cy = carrier(y);
    return algebra.isIdentity(cx) ||
           (algebra.rescale(cx, algebra.combine(cx, cy)).areFinite() &&
            algebra.rescale(cx, algebra.combine(cy, cx)).areFinite());
  };
  for (double sign : {1.0, -1.0}) {
    double low = 1.0, high = 2.0 * largestScore;
    if (algebra.numScores != 1 || !isFinite(sign * low, 0.0) ||
        isFinite(sign * high, 0.0))
      continue;
    while (high - low > 0.05) {
      double middle = (low + high) / 2.0;
      (isFinite(sign * middle, 0.0) ? low : high) = middle;
    }
    example += "; so it is in float32 for scores more than " +
               printNumbers(std::round(low * 10.0) / 10.0) +
               (sign > 0.0 ? " above" : " below") +
               " those they are combined with";
    break;
  }
  algebra.precision = before;
  return broken("rescale is finite in float32: r(a, combine(a, b)) and "
                "r(a, combine(b, a))",
                example);
}

bool LawChecker::checkCocycle(Stats a, Stats x, Stats y, Stats ax, Stats axy) {
  if (!algebra.numStats || algebra.isIdentity(a))
    return true;
  Factors same = algebra.rescale(a, a);
  for (size_t i = 0; i < same.size(); ++i)
    if (same[i] != 1.0 &&
        !factorsAgree(1.0, same[i], algebra.sizeOf(a), {a}, [&](States z) {
          double r = algebra.rescale(z[0], z[0])[i];
          return Scalars{Scalar::ofFloat(r)};
        }))
      return broken("rescale to itself: r(a, a) = 1",
                    "a = " + algebra.print(a) + " gives " + printNumbers(same));

  // From a part to the whole by way of every part between. Where combine
  // commutes some ways are the same, and but for shifts nothing is sampled.
  auto isKnown = [&](Stats before, Stats now) {
    return !algebra.hasShift &&
           llvm::equal(before, now,
                       [](Scalar s, Scalar t) { return s.i == t.i; });
  };
  Scalars xa = algebra.combine(x, a);
  bool commutes = isKnown(ax, xa);
  Scalars xay = commutes ? Scalars() : algebra.combine(xa, y);
  for (unsigned order = 0; order < 4; ++order) {
    bool side = order & 1;
    if (side && commutes)
      continue;
    Stats b = side ? Stats(xa) : ax, by = side ? Stats(xay) : axy;
    Scalars yb = order & 2 ? algebra.combine(y, b) : Scalars();
    Stats c = order & 2 ? Stats(yb) : by;
    if (order & 2 && isKnown(by, c))
      continue;
    if (algebra.isIdentity(b) || algebra.isIdentity(c)) {
      bool isFirst = algebra.isIdentity(b);
      return broken("only the identity is the identity: combine(a, b) = e "
                    "implies a = b = e",
                    "a = " + algebra.print(isFirst ? a : b) +
                        ", b = " + algebra.print(isFirst ? x : y) + " gives " +
                        algebra.print(algebra.identity()));
    }
    Factors ab = algebra.rescale(a, b), bc = algebra.rescale(b, c);
    if (!ab.areFinite())
      return brokenRange(a, x, ab);
    if (!bc.areFinite())
      return brokenRange(b, y, bc);
    if (!checkFactors(a, b, c, ab, bc) || !checkShift(a, b, c))
      return false;
  }
  return true;
}

Scalars LawChecker::sampleComponents() {
  Scalars components;
  for (bool isValue : algebra.isValue)
    components.push_back(Scalar::ofFloat(isValue ? 0.0 : random.within(4.0)));
  return components;
}

Scalars LawChecker::moved(ArrayRef<Scalar> from, ArrayRef<Scalar> to,
                          ArrayRef<Scalar> components) const {
  Factors factors = algebra.rescale(from, to);
  Scalars result(components);
  algebra.shift(from, to, result);
  for (auto [i, x] : llvm::enumerate(result))
    x.f = factors.of(i) == 0.0 ? 0.0 : factors.of(i) * x.f;
  return result;
}

/// Shifts are linear, and two of them are one: of components that are scaled as
/// they are on the way.
bool LawChecker::checkShift(Stats a, Stats b, Stats c) {
  if (!algebra.hasShift)
    return true;
  Scalars u = sampleComponents(), v = sampleComponents(), both(u);
  for (auto [x, y] : llvm::zip(both, v))
    x.f += 2.0 * y.f;
  std::string states = "a = " + algebra.print(a) + ", b = " + algebra.print(b),
              components = ", u = " + algebra.printUnits(u);
  Scalars ofU(u), ofV(v), ofBoth(both), same(u);
  algebra.shift(a, a, same);
  algebra.shift(a, b, ofU);
  algebra.shift(a, b, ofV);
  algebra.shift(a, b, ofBoth);
  double size = std::max(
             {1.0, algebra.sizeOf(a), algebra.sizeOf(b), algebra.sizeOf(c)}),
         largest = 0.0;
  for (const Scalars &x : {ofU, ofV, ofBoth})
    for (Scalar number : x) {
      largest = std::max(largest, std::fabs(number.f));
      if (std::isfinite(number.f))
        continue;
      // As gates, shifts of long products and by any params may be large.
      return isLong || paramsAreWide ||
             broken("shift is finite: shift(a, combine(a, b), u)",
                    states + components + " gives " + algebra.printUnits(x));
    }
  for (unsigned i = 0; i < u.size(); ++i) {
    if (!agree(same[i].f, u[i].f, 1.0))
      return broken("shift to itself: shift(a, a, u) = u",
                    "a = " + algebra.print(a) + components + " gives " +
                        algebra.printUnits(same));
    double sum = ofU[i].f + 2.0 * ofV[i].f;
    if (!agree(ofBoth[i].f, sum, size * largest))
      return broken("shift is linear: shift(a, b, u + 2 v) = shift(a, b, u) + "
                    "2 shift(a, b, v)",
                    states + components + ", v = " + algebra.printUnits(v) +
                        " gives " + printNumbers(ofBoth[i].f) + " and " +
                        printNumbers(sum));
  }
  return checkShifts(a, b, c, u);
}

/// S(b, c) r(a, b) S(a, b) u = S(a, c) u, each with its own factor.
bool LawChecker::checkShifts(Stats a, Stats b, Stats c, Stats u) {
  for (const Factors &factors :
       {algebra.rescale(a, b), algebra.rescale(b, c), algebra.rescale(a, c)})
    for (double factor : factors)
      // Where a factor vanishes its errors are all that is left.
      if (std::fabs(factor) < smallestFactor)
        return true;
  Scalars there = moved(a, b, u), left = moved(b, c, there),
          right = moved(a, c, u);
  double size =
      std::max({1.0, algebra.sizeOf(a), algebra.sizeOf(b), algebra.sizeOf(c)});
  // An exponent of this size has an error that the factor magnifies.
  constexpr double largestExponent = 1e7;
  double relative = 1e-9 + 1e-14 * std::min(size, largestExponent),
         largest = 0.0;
  for (double factor : algebra.rescale(a, c))
    largest = std::max(largest, std::fabs(factor));
  bool close = true;
  for (auto [x, y] : llvm::zip(left, right))
    close &= std::fabs(x.f - y.f) <=
             relative * std::max(std::fabs(x.f), std::fabs(y.f)) +
                 1e-11 * size * largest;
  if (!close && (isLong || paramsAreWide))
    close = agreeByNoise(left, right, Precision::F64, {a, c, u},
                         [&](States x) { return moved(x[0], x[1], x[2]); });
  if (close)
    return true;
  return broken("shift follows its factors: of shift(a, c, u) and shift(b, c, "
                "r(a, b) shift(a, b, u)), each rescaled to c",
                "a = " + algebra.print(a) + ", b = " + algebra.print(b) +
                    ", c = " + algebra.print(c) +
                    ", u = " + algebra.printUnits(u) + " gives " +
                    algebra.printUnits(right) + " and " +
                    algebra.printUnits(left));
}

bool LawChecker::checkFactors(Stats a, Stats b, Stats c, const Factors &toB,
                              const Factors &fromB) {
  Factors whole = algebra.rescale(a, c);
  for (size_t i = 0; i < whole.size(); ++i) {
    double ab = toB[i], bc = fromB[i], ac = whole[i];
    if (ab != 1.0 || bc != 1.0)
      report->factorsTrivial = false;
    bool vanishes = std::fabs(ab) < smallestFactor ||
                    std::fabs(bc) < smallestFactor ||
                    std::fabs(ac) < smallestFactor;
    // Where a factor vanishes the others may still not grow.
    if (ab * bc == ac || (vanishes && std::fabs(ab * bc - ac) < 1e-100))
      continue;
    double size = std::max(algebra.sizeOf(a), algebra.sizeOf(c));
    if (!factorsAgree(ac, ab * bc, size, {a, c}, [&](States z) {
          return Scalars{Scalar::ofFloat(algebra.rescale(z[0], z[1])[i])};
        }))
      return broken("rescale is a cocycle: r(a, b) * r(b, c) = r(a, c)",
                    "a = " + algebra.print(a) + ", b = " + algebra.print(b) +
                        ", c = " + algebra.print(c) + " gives " +
                        printNumbers(ab * bc) + " and " + printNumbers(ac));
  }
  return true;
}

bool LawChecker::checkGate(Stats a, Stats b, Stats both) {
  double ofIdentity = algebra.gate(algebra.identity());
  if (!agree(ofIdentity, 1.0, 0.0))
    return broken("gate of the identity: g(e) = 1",
                  "e = " + algebra.print(algebra.identity()) + " gives " +
                      printNumbers(ofIdentity));
  double ga = algebra.gate(a), gb = algebra.gate(b), gab = algebra.gate(both);
  if (ga != 1.0 || gb != 1.0)
    report->factorsTrivial = false;
  // Exponentials leave the range of float64 for wide samples.
  double size = std::max(algebra.sizeOf(a), algebra.sizeOf(b));
  for (double factor : {ga, gb, gab})
    if (std::isinf(factor) || std::fabs(factor) < smallestFactor)
      if (size > 300.0 || isLong || paramsAreWide)
        return true;
  if (!factorsAgree(gab, ga * gb, size, {a, b}, [&](States x) {
        double g = algebra.gate(algebra.combine(x[0], x[1]));
        return Scalars{Scalar::ofFloat(g)};
      }))
    return broken("gate is a homomorphism: g(combine(a, b)) = g(a) * g(b)",
                  "a = " + algebra.print(a) + ", b = " + algebra.print(b) +
                      " gives " + printNumbers(gab) + " and " +
                      printNumbers(ga * gb));
  return true;
}

/// Both factors of a product that no identity is part of: what the first and
/// the second state are scaled by on either way to the product of three.
bool LawChecker::checkAffine(Stats a, Stats b, Stats c) {
  Scalars e = algebra.identity();
  for (Stats state : {a, b, c}) {
    if (algebra.isIdentity(state))
      return true;
    double before = algebra.factors(state, e).first,
           behind = algebra.factors(e, state).second;
    if (!agree(before, 1.0, 0.0) || !agree(behind, 1.0, 0.0))
      return broken("factors beside the identity: alpha(a, e) = 1 = beta(e, a)",
                    "a = " + algebra.print(state) +
                        " gives alpha(a, e) = " + printNumbers(before) +
                        " and beta(e, a) = " + printNumbers(behind));
  }
  Scalars ab = algebra.combine(a, b), bc = algebra.combine(b, c);
  if (algebra.isIdentity(ab) || algebra.isIdentity(bc)) {
    bool isFirst = algebra.isIdentity(ab);
    return broken("only the identity is the identity: combine(a, b) = e "
                  "implies a = b = e",
                  "a = " + algebra.print(isFirst ? a : b) +
                      ", b = " + algebra.print(isFirst ? b : c) + " gives " +
                      algebra.print(e));
  }
  auto [alphaAb, betaAb] = algebra.factors(a, b);
  auto [alphaBc, betaBc] = algebra.factors(b, c);
  auto [alphaLeft, betaLeft] = algebra.factors(ab, c);
  auto [alphaRight, betaRight] = algebra.factors(a, bc);
  double size =
      std::max({algebra.sizeOf(a), algebra.sizeOf(b), algebra.sizeOf(c),
                algebra.sizeOf(ab), algebra.sizeOf(bc)});
  struct Law {
    const char *text;
    double left[2], right[2];
    /// Of the left side, to see what errors of rounding do.
    std::function<double(Stats, Stats, Stats)> evaluate;
  };
  auto product = [&](Stats x, Stats y) { return algebra.combine(x, y); };
  const Law laws[] = {{"alpha(ab, c) * alpha(a, b) = alpha(a, bc)",
                       {alphaLeft, alphaAb},
                       {alphaRight, 1.0},
                       [&](Stats x, Stats y, Stats z) {
                         return algebra.factors(x, product(y, z)).first;
                       }},
                      {"alpha(ab, c) * beta(a, b) = beta(a, bc) * alpha(b, c)",
                       {alphaLeft, betaAb},
                       {betaRight, alphaBc},
                       [&](Stats x, Stats y, Stats z) {
                         return algebra.factors(product(x, y), z).first *
                                algebra.factors(x, y).second;
                       }},
                      {"beta(ab, c) = beta(a, bc) * beta(b, c)",
                       {betaLeft, 1.0},
                       {betaRight, betaBc},
                       [&](Stats x, Stats y, Stats z) {
                         return algebra.factors(product(x, y), z).second;
                       }}};
  for (const Law &law : laws) {
    double left = law.left[0] * law.left[1],
           right = law.right[0] * law.right[1];
    bool isSmall = false, isLarge = false;
    for (double factor :
         {law.left[0], law.left[1], law.right[0], law.right[1]}) {
      isLarge |= std::isinf(factor);
      isSmall |= std::fabs(factor) < smallestFactor;
    }
    // Exponentials leave the range of float64 for wide samples.
    if (isLarge && (size > 300.0 || isLong || paramsAreWide))
      continue;
    if (isSmall && std::fabs(left - right) < 1e-100)
      continue;
    if (!factorsAgree(right, left, size, {a, b, c}, [&](States x) {
          double value = law.evaluate(x[0], x[1], x[2]);
          return Scalars{Scalar::ofFloat(value)};
        }))
      return broken(std::string("factors of three states: ") + law.text,
                    "a = " + algebra.print(a) + ", b = " + algebra.print(b) +
                        ", c = " + algebra.print(c) + " gives " +
                        printNumbers(left) + " and " + printNumbers(right));
  }
  return true;
}

bool LawChecker::checkLaws(Stats a, Stats b, Stats c) {
  if (!leavesDigits(a) || !leavesDigits(b) || !leavesDigits(c))
    return true;
  Scalars ab = algebra.combine(a, b), abc = algebra.combine(ab, c);
  if (!checkIdentity(a) ||
      !(identityHolds || checkIdentity(algebra.identity())) ||
      !checkAssociative(a, b, c, ab, abc))
    return false;
  identityHolds = !algebra.numParams;
  if (algebra.kind == MonoidKind::cocycle)
    return checkCocycle(a, b, c, ab, abc);
  if (algebra.kind == MonoidKind::affine)
    return checkAffine(a, b, c);
  if (!algebra.isGeneral)
    return checkGate(a, b, ab) && checkGate(ab, c, abc);
  return true;
}

bool LawChecker::checkTrial(unsigned trial) {
  // Single keys with simple scores come first: the counterexamples that they
  // give are the ones to read.
  constexpr unsigned numSimple = 5, simpleTrials = 125;
  bool simple = trial < simpleTrials;
  bool fromWide = !simple && trial % 4 == 3;
  paramsAreWide = algebra.numParams && !simple && trial % 2 == 1;
  sampleParams(paramsAreWide);
  int64_t position = -1;
  auto sample = [&](unsigned limit, unsigned index) {
    if (!simple)
      return sampleState(limit, fromWide, position);
    Key key = sampleKey(/*fromWide=*/false, ++position);
    if (!key.scores.empty())
      key.scores[0] = moderate[index % numSimple];
    return stateOf(key);
  };
  Scalars states[] = {sample(2, trial), sample(3, trial / numSimple),
                      sample(2, trial / (numSimple * numSimple))};
  // An extreme param may overflow what an ordinary one does not.
  if (paramsAreWide &&
      !llvm::all_of(states, [&](const Scalars &x) { return isInRange(x); }))
    return true;
  // Scores that rise have factors other than 1 on the way to each other.
  if (!simple && algebra.kind == MonoidKind::cocycle && algebra.numStats &&
      trial % 3 == 0)
    llvm::sort(states, [](const Scalars &x, const Scalars &y) {
      return x[0].f < y[0].f;
    });
  Stats a = carrier(states[0]), b = carrier(states[1]), c = carrier(states[2]);
  return checkLaws(a, b, c) &&
         (trial % 3 != 1 || !leavesDigits(a) || !leavesDigits(b) ||
          !leavesDigits(c) || checkFloat32(a, b, c));
}

//===----------------------------------------------------------------------===//
// Finiteness and the identity
//===----------------------------------------------------------------------===//

/// Lifts of one key: finite in float32, and not the identity unless weightless.
bool LawChecker::checkKey(const Key &key) {
  auto example = [&](const Scalars &lifted) {
    return "s = " + printNumbers(key.scores) + " gives " +
           algebra.print(lifted);
  };
  bool inRange = llvm::all_of(
      key.scores, [](double s) { return std::fabs(s) <= largestScore; });

  for (Precision precision : {Precision::F64, Precision::F32}) {
    algebra.precision = precision;
    Scalars lifted = algebra.lift(key.scores, key.values, key.position);
    for (auto [i, x] : llvm::enumerate(lifted)) {
      if (!inRange || std::isfinite(x.f))
        continue;
      std::string text = example(lifted);
      SmallVector<double, 2> zeros(algebra.numScores, 0.0);
      if (std::isinf(x.f) &&
          algebra.lift(zeros, key.values, key.position)[i].f == x.f)
        text += std::string("; where it stands for none yet, write ") +
                (x.f < 0.0 ? "-" : "") + "3.40282347e+38";
      return broken(
          "lift is finite in float32 for scores of magnitude up to 1e4", text);
    }
    bool dropsIdentity = algebra.kind == MonoidKind::affine ||
                         algebra.kind == MonoidKind::cocycle;
    if (!dropsIdentity || !algebra.numStats || !inRange ||
        !algebra.isIdentity(ArrayRef(lifted).take_front(algebra.numStats)))
      continue;
    for (Scalar weight : ArrayRef(lifted).drop_front(algebra.numStats))
      if (weight.f != 0.0)
        return broken("the identity weighs nothing: lift(s) = (e, w) implies "
                      "w = 0",
                      example(lifted));
  }
  return true;
}

bool LawChecker::checkFinite() {
  SmallVector<Key> keys;
  for (bool fromWide : {false, true})
    for (double score : fromWide ? wide : moderate) {
      Key key = sampleKey(fromWide, keys.size());
      if (!key.scores.empty())
        key.scores[0] = score;
      keys.push_back(key);
    }
  std::vector<Scalars> lifts;
  for (const Key &key : keys) {
    sampleParams();
    if (!checkKey(key))
      return false;
    if (llvm::all_of(key.scores,
                     [](double s) { return std::fabs(s) <= largestScore; }))
      lifts.push_back(algebra.lift(key.scores, key.values, key.position));
  }
  algebra.precision = Precision::F32;
  if (!algebra.isGeneral && !checkFiniteFactors(lifts))
    return false;

  // Gates grow without bound with positive statistics, which a user may give;
  // the ones of moderate scores must be finite all the same.
  bool isGated =
      algebra.kind == MonoidKind::suffix || algebra.kind == MonoidKind::prefix;
  if (isGated || algebra.kind == MonoidKind::affine)
    for (double score : moderate) {
      Key key = sampleKey(/*fromWide=*/false, 0);
      if (!key.scores.empty())
        key.scores[0] = score;
      if (llvm::any_of(key.scores, [](double s) { return std::fabs(s) > 8.0; }))
        continue;
      Scalars c(carrier(algebra.lift(key.scores, key.values, 0)));
      if (!isGated) {
        Key other = sampleKey(/*fromWide=*/false, 1);
        Scalars d(carrier(algebra.lift(other.scores, other.values, 1)));
        auto [alpha, beta] = algebra.factors(c, d);
        if (!std::isfinite(alpha) || !std::isfinite(beta))
          return broken("factors are finite in float32 for moderate scores",
                        "a = " + algebra.print(c) +
                            ", b = " + algebra.print(d) +
                            " gives alpha = " + printNumbers(alpha) +
                            " and beta = " + printNumbers(beta));
        continue;
      }
      if (!std::isfinite(algebra.gate(c)))
        return broken("gate is finite in float32 for moderate scores",
                      "c = " + algebra.print(c) + " gives " +
                          printNumbers(algebra.gate(c)));
    }
  return true;
}

/// Factors between any two keys and the sums of the weights that they leave.
bool LawChecker::checkFiniteFactors(ArrayRef<Scalars> lifts) {
  // Every eighth key of the others, fewer if there are many, from a start that
  // moves.
  unsigned step = std::max<unsigned>(8, lifts.size() / 16);
  report->largestWeight.assign(algebra.numComponents, 0.0);
  for (const Scalars &key : lifts) {
    ArrayRef<Scalar> from = ArrayRef(key).take_front(algebra.numStats);
    for (unsigned i = random.below(step); i < lifts.size(); i += step) {
      ArrayRef<Scalar> other = ArrayRef(lifts[i]).take_front(algebra.numStats);
      Factors factors = {1.0};
      Scalars weights(ArrayRef(key).drop_front(algebra.numStats));
      if (algebra.kind == MonoidKind::cocycle && algebra.numStats &&
          !algebra.isIdentity(from)) {
        Scalars to =
            i & 8 ? algebra.combine(from, other) : algebra.combine(other, from);
        factors = algebra.rescale(from, to);
        if (!factors.areFinite())
          return brokenRange(from, other, factors);
        algebra.shift(from, to, weights);
      }
      for (unsigned k = 0; k < algebra.numComponents; ++k)
        report->largestWeight[k] = std::max(
            report->largestWeight[k], std::fabs(factors.of(k) * weights[k].f));
    }
  }
  constexpr double numKeys = 1024.0;
  for (double weight : report->largestWeight)
    if (weight * numKeys > largestFloat)
      return broken("the weights of 1024 keys have a finite sum in float32 for "
                    "scores of magnitude up to 1e4",
                    "a weight may be " + printNumbers(weight));
  return true;
}

void LawChecker::run(LawReport &into) {
  report = &into;
  // Nothing asks that of two factors.
  bool isAffine = algebra.kind == MonoidKind::affine;
  report->combineCommutes = !isAffine;
  report->statsTrivial = !algebra.isGeneral && algebra.numStats == 0;
  report->factorsTrivial = !algebra.isGeneral && !isAffine;
  unsigned numTrials = algebra.numParams ? 2400 : 1200;
  for (unsigned trial = 0; trial < numTrials; ++trial)
    if (!checkTrial(trial))
      return;
  paramsAreWide = false;
  if (!checkFinite())
    return;
  algebra.precision = Precision::F64;
  if (!checkBoundaries() || !checkLongBoundaries() || !checkLong() ||
      !checkRows())
    return;
  algebra.precision = Precision::F32;
  findDeadProperties();
  findNaNProperties();
  findThreshold();
  algebra.precision = Precision::F64;
  bool ordered = algebra.kind == MonoidKind::suffix ||
                 algebra.kind == MonoidKind::prefix ||
                 algebra.kind == MonoidKind::affine;
  report->isCommutative =
      report->combineCommutes && (!ordered || report->factorsTrivial);
}

//===----------------------------------------------------------------------===//
// Entry points
//===----------------------------------------------------------------------===//

namespace attn::detail {
std::shared_ptr<const LawReport> computeReport(MonoidOp monoid) {
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
  LawChecker checker(monoid, std::move(*algebra),
                     finalize ? &*finalize : nullptr);
  checker.run(*report);
  if (!report->isLawful() || !finalize)
    return report;
  report->finalize = checker.checkFinalize(monoid.getFinalize(), *finalize);
  report->relaxedMax = report->nanReachesWeights &&
                       llvm::all_of(report->finalize.spreadsNaN,
                                    [](bool spreads) { return spreads; });
  checker.checkOutputs(monoid, *report);
  return report;
}

std::string textOf(MonoidOp monoid) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  monoid->print(stream, OpPrintingFlags().useLocalScope().assumeVerified());
  return text;
}
} // namespace attn::detail

namespace {
/// What is found of a text, for the life of the process; from any thread. Two
/// threads may both look for it: they find the same.
template <typename Report> class KeptReports {
public:
  /// Null, and not kept, where `find` gives null.
  std::shared_ptr<const Report>
  get(const std::string &text,
      llvm::function_ref<std::shared_ptr<const Report>()> find) {
    {
      std::lock_guard<std::mutex> lock(mutex);
      if (auto it = reports.find(text); it != reports.end())
        return it->second;
    }
    std::shared_ptr<const Report> report = find();
    std::lock_guard<std::mutex> lock(mutex);
    if (report)
      reports[text] = report;
    return report;
  }

private:
  std::mutex mutex;
  llvm::StringMap<std::shared_ptr<const Report>> reports;
};
} // namespace

/// The block of a region that reads nothing from outside.
static std::string textOf(Region &region) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  AsmState state(region.getParentOp(),
                 OpPrintingFlags().useLocalScope().assumeVerified());
  region.front().print(stream, state);
  return text;
}

namespace attn {
std::shared_ptr<const LawReport> checkLaws(MonoidOp monoid) {
  static KeptReports<LawReport> reports;
  std::string text = textOf(monoid);
  return reports.get(text, [&] {
    auto report = lookupReport(text);
    return report ? report : computeReport(monoid);
  });
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
  static KeptReports<FinalizeReport> reports;
  // The monoid's own is given its params, another what the row captures.
  std::string text = textOf(monoid);
  if (&finalize != &monoid.getFinalize())
    text += textOf(finalize);
  auto report =
      reports.get(text, [&]() -> std::shared_ptr<const FinalizeReport> {
        FailureOr<Algebra> algebra = Algebra::compile(monoid);
        if (failed(algebra))
          return nullptr;
        FailureOr<RegionProgram> program = RegionProgram::compile(finalize);
        if (failed(program))
          return nullptr;
        LawChecker checker(monoid, std::move(*algebra), &*program);
        return std::make_shared<FinalizeReport>(
            checker.checkFinalize(finalize, *program));
      });
  if (!report)
    return failure();
  return *report;
}
} // namespace attn
