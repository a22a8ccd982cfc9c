//===- LawSequences.cpp - Tests laws on many keys and in float32 ----------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
// Errors that grow with the number of keys, those of float32, and what rows
// give in the orders in which the compiler may reduce them.
//
// Here a bound on honest rounding cannot be told from the numbers: a sum may
// cancel, and the largest of two scores that tie may change. It is measured: an
// evaluation in float64 with small random errors in the operands and in the
// result of each operation says how far errors of rounding may lead.
//===----------------------------------------------------------------------===//

#include "LawChecker.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace ::attn;
using namespace ::attn::detail;
using mlir::attn::MonoidKind;

//===----------------------------------------------------------------------===//
// Rounding
//===----------------------------------------------------------------------===//

/// `size` is that of the numbers around: a component may be what another has
/// lost, as in compensated sums.
static bool isClose(double x, double y, double size, Precision precision) {
  if (agree(x, y, 1.0))
    return true;
  if (!std::isfinite(x) || !std::isfinite(y))
    return false;
  double difference = std::fabs(x - y);
  if (precision == Precision::F64)
    return difference <= 0x1p-48 * std::min(size, 1e8);
  return difference <= 0x1p-17 * std::max(std::fabs(x), std::fabs(y)) +
                           0x1p-18 + 0x1p-21 * std::min(size, 1e6);
}

bool LawChecker::agreeByNoise(ArrayRef<Scalar> want, ArrayRef<Scalar> got,
                              Precision precision, States operands,
                              Side evaluate) {
  auto isSame = [](auto pair) {
    return agree(std::get<0>(pair).f, std::get<1>(pair).f, 1.0);
  };
  if (llvm::all_of(llvm::zip(want, got), isSame))
    return true;
  double size = std::max(algebra.sizeOf(want), algebra.sizeOf(got));
  for (Stats state : operands)
    size = std::max(size, algebra.sizeOf(state));
  // As many errors as there are keys.
  size *= std::max<double>(1.0, operands.size() / 4.0);
  if (llvm::all_of(llvm::zip(want, got), [&](auto pair) {
        auto [x, y] = pair;
        return isClose(x.f, y.f, size, precision);
      }))
    return true;

  constexpr unsigned numDraws = 4;
  constexpr double allowance = 16.0;
  Precision before = std::exchange(algebra.precision, Precision::F64);
  Scalars exact = evaluate(operands);
  SmallVector<double> spread(want.size(), 0.0);
  algebra.setNoise(precision == Precision::F64 ? 1e-13 : 0x1p-22);
  for (unsigned draw = 0; draw < numDraws; ++draw) {
    SmallVector<Scalars> moved(operands.begin(), operands.end());
    for (Scalars &state : moved)
      for (Scalar &x : state)
        x.f = algebra.disturb(x.f);
    SmallVector<Stats> states(moved.begin(), moved.end());
    for (auto [i, x] : llvm::enumerate(evaluate(states)))
      // A NaN or an infinity that errors bring about excuses everything.
      spread[i] = x.f == exact[i].f ? spread[i]
                  : std::isfinite(x.f)
                      ? std::max(spread[i], std::fabs(x.f - exact[i].f))
                      : infinity;
  }
  algebra.setNoise(0.0);
  algebra.precision = before;
  for (auto [x, y, allowed] : llvm::zip(want, got, spread))
    if (!isClose(x.f, y.f, size, precision) &&
        !(std::fabs(x.f - y.f) <= allowance * allowed))
      return false;
  return true;
}

bool LawChecker::factorsAgree(double want, double got, double size,
                              States operands, Side evaluate) {
  if (want == got)
    return true;
  if (!std::isfinite(want) || !std::isfinite(got))
    return false;
  // An exponent of this size has an error that the factor magnifies. Params
  // may magnify it as well.
  constexpr double largestExponent = 1e7;
  for (Scalar param : algebra.params)
    size *= std::max(param.f, 1.0 / param.f);
  if (std::fabs(want - got) <=
      (1e-9 + 1e-14 * std::min(size, largestExponent)) *
          std::max(std::fabs(want), std::fabs(got)))
    return true;
  return isLong && agreeByNoise(Scalar::ofFloat(want), Scalar::ofFloat(got),
                                Precision::F64, operands, evaluate);
}

bool LawChecker::isInRange(ArrayRef<Scalar> state) const {
  for (size_t i = 0; i < state.size(); ++i) {
    double x = state[i].f, size = std::fabs(x);
    // The largest float stands for an infinity, as the identity of another
    // statistic may.
    if (size < nearOverflow || size == largestFloat)
      continue;
    // A NaN is an overflow times 0, on the way.
    if (std::isnan(x) || x != algebra.emptyState()[i].f)
      return false;
  }
  return true;
}

bool LawChecker::leavesDigits(ArrayRef<Scalar> state) const {
  constexpr double largest = 1e9;
  if (algebra.kind != MonoidKind::affine)
    return true;
  state = state.take_front(algebra.numStats);
  return algebra.isIdentity(state) || llvm::all_of(state, [&](Scalar x) {
           return std::fabs(x.f) < largest;
         });
}

//===----------------------------------------------------------------------===//
// The laws in float32
//===----------------------------------------------------------------------===//

bool LawChecker::checkFloat32(Stats a, Stats b, Stats c) {
  Scalars rounded[] = {Scalars(a), Scalars(b), Scalars(c)};
  for (Scalars &state : rounded)
    for (Scalar &x : state)
      x.f = static_cast<float>(x.f);
  const Stats abc[] = {rounded[0], rounded[1], rounded[2]};
  auto left = [&](States x) {
    return algebra.combine(algebra.combine(x[0], x[1]), x[2]);
  };
  auto right = [&](States x) {
    return algebra.combine(x[0], algebra.combine(x[1], x[2]));
  };
  Scalars ab = algebra.combine(abc[0], abc[1]),
          bc = algebra.combine(abc[1], abc[2]);
  // What overflows in float32 says nothing.
  Scalars whole = algebra.combine(ab, abc[2]);
  if (!areInRange(
          {abc[0], abc[1], abc[2], ab, bc, whole, algebra.combine(abc[0], bc)}))
    return true;
  algebra.precision = Precision::F32;
  Scalars roundedAb = algebra.combine(abc[0], abc[1]),
          x = algebra.combine(roundedAb, abc[2]), y = right(abc);
  algebra.precision = Precision::F64;
  if (isLong && !(isInRange(x) && isInRange(y)))
    return true;
  if (!agreeByNoise(x, y, Precision::F32, abc, left))
    return broken(
        "combine is associative: combine(combine(a, b), c) = "
        "combine(a, combine(b, c)), in float32",
        "a = " + algebra.print(abc[0]) + ", b = " + algebra.print(abc[1]) +
            ", c = " + algebra.print(abc[2]) + " gives " + algebra.print(x) +
            " and " + algebra.print(y) + ", more apart than by rounding");
  return checkFactorsFloat32(abc, {ab, whole}, {roundedAb, x});
}

bool LawChecker::checkFactorsFloat32(States abc, Products exact,
                                     Products rounded) {
  // Of kind affine rows show it: a product of two factors may be small where
  // each of them has an error of its own.
  if (algebra.isGeneral || !algebra.numStats ||
      algebra.kind == MonoidKind::affine)
    return true;
  bool isCocycle = algebra.kind == MonoidKind::cocycle;
  if (isCocycle && algebra.isIdentity(abc[0]))
    return true;
  auto scalars = [](const Factors &factors) {
    return Scalars(llvm::map_range(factors, Scalar::ofFloat));
  };
  auto whole = [&](Products of) {
    return scalars(isCocycle ? algebra.rescale(abc[0], of.whole)
                             : Factors{algebra.gate(of.part)});
  };
  auto parts = [&](Products of) {
    if (!isCocycle)
      return scalars({algebra.gate(abc[0]) * algebra.gate(abc[1])});
    Factors toAb = algebra.rescale(abc[0], of.part);
    Factors fromAb = algebra.rescale(of.part, of.whole);
    for (auto [to, from] : llvm::zip(toAb, fromAb))
      to *= from;
    return scalars(toAb);
  };
  if (!isInRange(whole(exact)) || !isInRange(parts(exact)))
    return true;
  algebra.precision = Precision::F32;
  Scalars x = whole(rounded), y = parts(rounded);
  algebra.precision = Precision::F64;
  // A gate that underflows in float32 may be multiplied by one that overflows.
  if (!isCocycle && !(std::isfinite(x[0].f) && std::isfinite(y[0].f)))
    return true;
  auto evaluate = [&](States z) {
    Scalars ab = algebra.combine(z[0], z[1]);
    return scalars(isCocycle ? algebra.rescale(z[0], algebra.combine(ab, z[2]))
                             : Factors{algebra.gate(ab)});
  };
  if (agreeByNoise(x, y, Precision::F32, abc, evaluate))
    return true;
  std::string law = isCocycle
                        ? "rescale is a cocycle: r(a, b) * r(b, c) = r(a, c)"
                        : "gate is a homomorphism: g(combine(a, b)) = "
                          "g(a) * g(b)";
  return broken(
      law + ", in float32",
      "a = " + algebra.print(abc[0]) +
          ", b = " + algebra.print(isCocycle ? exact.part : abc[1]) +
          (isCocycle ? ", c = " + algebra.print(exact.whole) : std::string()) +
          " gives " + algebra.print(y) + " and " + algebra.print(x) +
          ", more apart than by rounding");
}

//===----------------------------------------------------------------------===//
// Long products
//===----------------------------------------------------------------------===//

/// The product of `exponent` equal states, or of fewer where it would leave the
/// range of float32.
Scalars LawChecker::power(const Scalars &base, int64_t exponent) const {
  Scalars state(base), next(base);
  for (int bit = int(llvm::Log2_64(exponent)) - 1; bit >= 0; --bit) {
    algebra.multiplyInto(state, state, next.data());
    if (exponent >> bit & 1)
      algebra.multiplyInto(next, base, next.data());
    if (!isInRange(next))
      break;
    llvm::copy(next, state.begin());
  }
  return state;
}

/// The state of many keys. Squares are products of keys as well, but for a lift
/// that knows the position, which never repeats: there one key follows the
/// other.
Scalars LawChecker::sampleLong(int64_t &position) {
  Scalars state = sampleState(3, /*fromWide=*/false, position);
  if (usesPosition) {
    for (unsigned i = 0, numKeys = 1u << random.below(9); i < numKeys; ++i) {
      position = nextPosition(position);
      Scalars next = algebra.multiply(
          state, stateOf(sampleKey(/*fromWide=*/false, position)));
      if (!isInRange(next))
        break;
      state = std::move(next);
    }
    return state;
  }
  int64_t exponent = int64_t(1) << random.below(17);
  if (!positionConstants.empty() && random.below(3) == 0) {
    exponent = random.oneOf(positionConstants) + random.below(3) - 1;
    state = stateOf(sampleKey(/*fromWide=*/false, 0));
  } else if (random.below(2)) {
    exponent += random.below(exponent);
  }
  return power(state, std::min(exponent, mostKeys));
}

bool LawChecker::checkLong() {
  if (!algebra.isGeneral && !algebra.numStats)
    return true;
  unsigned numTrials = usesPosition ? 24 : 192;
  isLong = true;
  for (unsigned trial = 0; trial < numTrials; ++trial) {
    sampleParams();
    int64_t position = -1;
    auto sample = [&] {
      return random.below(3) ? sampleLong(position)
                             : sampleState(3, /*fromWide=*/false, position);
    };
    Scalars states[] = {sample(), sample(), sample()};
    Stats a = carrier(states[0]), b = carrier(states[1]),
          c = carrier(states[2]);
    Scalars ab = algebra.combine(a, b);
    if (!isInRange(ab) || !isInRange(algebra.combine(ab, c)) ||
        !isInRange(algebra.combine(b, c)))
      continue;
    if (!checkLaws(a, b, c) || !checkFloat32(a, b, c))
      return false;
  }
  isLong = false;
  return true;
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

/// Scores as masks, biases and sorted caches make them.
std::vector<LawChecker::Key> LawChecker::sampleRow(unsigned numKeys,
                                                   unsigned pattern) {
  std::vector<Key> keys;
  keys.reserve(numKeys);
  int64_t position = -1;
  double step = random.within(0.25), start = random.within(4.0);
  for (unsigned j = 0; j < numKeys; ++j) {
    position = nextPosition(position);
    keys.push_back(sampleKey(/*fromWide=*/pattern == 1, position));
    for (double &score : keys.back().scores)
      switch (pattern) {
      case 2: // rising or falling
        score = static_cast<float>(start + step * j);
        break;
      case 3: // equal
        score = static_cast<float>(start);
        break;
      case 4: // far apart by turns
        score = (j & 1) ? -score : score * 16.0;
        break;
      case 5: // small, so that products of gates do not overflow
        score = static_cast<float>(-0.01 * std::fabs(score));
        break;
      case 6: // whole numbers
        score = std::round(score);
        break;
      case 7: // a new largest score from time to time
        score = j % 16 == 15 ? double(j) * 0.25 : score - 4.0;
        break;
      default:
        break;
      }
  }
  return keys;
}

void LawChecker::multiplyInto(ArrayRef<Scalar> a, ArrayRef<Scalar> b,
                              Scalar *product) const {
  if (!watchesRange)
    return algebra.multiplyInto(a, b, product);
  // A gate that vanishes may meet one that makes up for it.
  double gate = 1.0;
  if (algebra.kind == MonoidKind::suffix)
    gate = algebra.gate(b.take_front(algebra.numStats));
  if (algebra.kind == MonoidKind::prefix)
    gate = algebra.gate(a.take_front(algebra.numStats));
  algebra.multiplyInto(a, b, product);
  if (!isInRange({product, a.size()}) || !(std::fabs(gate) < nearOverflow) ||
      std::fabs(gate) < 1.0 / nearOverflow)
    leftRange = true;
}

Scalars LawChecker::inOrder(States keys) const {
  Scalars state = algebra.emptyState();
  for (Stats key : keys)
    multiplyInto(state, key, state.data());
  return state;
}

/// As attn.partial and attn.combine do.
Scalars LawChecker::inParts(States keys, unsigned numParts) const {
  Scalars state = algebra.emptyState();
  size_t size = (keys.size() + numParts - 1) / numParts;
  for (size_t begin = 0; begin < keys.size(); begin += size)
    multiplyInto(state, inOrder(keys.slice(begin).take_front(size)),
                 state.data());
  return state;
}

Scalars LawChecker::asTree(States keys) const {
  if (keys.empty())
    return algebra.emptyState();
  if (keys.size() == 1)
    return Scalars(keys.front());
  size_t half = keys.size() / 2;
  Scalars state = asTree(keys.take_front(half));
  // One key needs no copy.
  if (keys.size() - half == 1)
    multiplyInto(state, keys.back(), state.data());
  else
    multiplyInto(state, asTree(keys.drop_front(half)), state.data());
  return state;
}

/// Tiles in closed form: the statistics of the tile, the factor of each key
/// relative to the new state, one sum.
Scalars LawChecker::addTile(const Scalars &state, States keys) const {
  unsigned numStats = algebra.numStats;
  auto stats = [&](Stats x) { return x.take_front(numStats); };
  auto rounded = [&](double x) {
    return algebra.precision == Precision::F32 ? double(float(x)) : x;
  };
  bool isCocycle = algebra.kind == MonoidKind::cocycle;
  bool isSuffix = algebra.kind == MonoidKind::suffix;
  bool isAffine = algebra.kind == MonoidKind::affine;

  // What is before or after a key, for gates.
  std::vector<Scalars> beside(isCocycle ? 0 : keys.size());
  Scalars product = algebra.identity(); // of the tile
  for (size_t i = 0; i < keys.size(); ++i) {
    size_t j = isSuffix ? keys.size() - 1 - i : i;
    if (!isCocycle)
      beside[j] = product;
    Stats key = stats(keys[j]);
    algebra.combineInto(isSuffix ? key : Stats(product),
                        isSuffix ? Stats(product) : key, product.data());
  }
  Stats old = stats(state);
  Scalars next = algebra.combine(old, product);
  auto factorsOf = [&](Stats from) {
    return numStats ? algebra.factorsFrom(from, next) : Factors{1.0};
  };
  Factors ofOld = isCocycle  ? factorsOf(old)
                  : isSuffix ? Factors{algebra.gate(product)}
                             : Factors{1.0};
  // Components at the new statistic, but for the factor.
  Scalars oldSums(ArrayRef(state).drop_front(numStats));
  SmallVector<Scalars> shifted;
  SmallVector<Stats> weights = llvm::map_to_vector(
      keys, [&](Stats key) { return key.drop_front(numStats); });
  if (algebra.hasShift) {
    algebra.shift(old, next, oldSums);
    shifted.assign(weights.begin(), weights.end());
    for (auto [key, components, weight] : llvm::zip(keys, shifted, weights)) {
      algebra.shift(stats(key), next, components);
      weight = components;
    }
  }
  Scalars sums(algebra.numComponents, Scalar::ofFloat(0.0));
  auto add = [&](const Factors &factors, Stats weight) {
    for (unsigned i = 0; i < algebra.numComponents; ++i)
      if (double factor = factors.of(i); factor != 0.0)
        sums[i].f = rounded(sums[i].f + rounded(factor * weight[i].f));
  };
  for (size_t j = 0; j < keys.size() && !isAffine; ++j)
    add(isCocycle ? factorsOf(stats(keys[j]))
                  : Factors{algebra.gate(beside[j])},
        weights[j]);
  if (isAffine) {
    ofOld = {algebra.factorsOf(old, product).first};
    Scalars behind = algebra.identity();
    SmallVector<Factors> ofKeys(keys.size());
    for (size_t j = keys.size(); j-- > 0;) {
      Stats own = stats(keys[j]);
      Scalars rest = algebra.combine(own, behind);
      double inRest = algebra.factorsOf(own, behind).first;
      Scalars before = algebra.combine(old, beside[j]);
      ofKeys[j] = {
          inRest == 0.0
              ? 0.0
              : rounded(inRest * algebra.factorsOf(before, rest).second)};
      behind = rest;
    }
    for (auto [factors, weight] : llvm::zip(ofKeys, weights))
      add(factors, weight);
  }
  double ofTile = isCocycle || isSuffix || isAffine ? 1.0 : algebra.gate(old);
  Scalars result(next);
  for (unsigned i = 0; i < algebra.numComponents; ++i) {
    double factor = ofOld.of(i);
    double before = factor == 0.0 ? 0.0 : rounded(factor * oldSums[i].f);
    double added = ofTile == 0.0 ? 0.0 : rounded(ofTile * sums[i].f);
    result.push_back(Scalar::ofFloat(rounded(before + added)));
  }
  return result;
}

Scalars LawChecker::inTiles(States keys, unsigned size) const {
  Scalars state = algebra.emptyState();
  for (size_t begin = 0; begin < keys.size(); begin += size)
    state = addTile(state, keys.slice(begin).take_front(size));
  return state;
}

bool LawChecker::checkRow(ArrayRef<Key> row, Precision precision) {
  size_t size = algebra.emptyState().size();
  std::vector<Scalar> states(row.size() * size);
  SmallVector<Stats> keys;
  for (const Key &key : row) {
    Scalar *numbers = states.data() + keys.size() * size;
    keys.emplace_back(numbers, size);
    // Masked keys between the others.
    bool isMasked = random.below(8) == 0;
    for (Scalar x : isMasked ? algebra.emptyState() : stateOf(key))
      *numbers++ = isMasked ? x : Scalar::ofFloat(static_cast<float>(x.f));
    if (!isInRange(keys.back()) || !leavesDigits(keys.back()))
      return true;
  }
  auto evaluate = [&](States x) { return inOrder(x); };
  auto inPrecision = [&](llvm::function_ref<Scalars()> reduce) {
    algebra.precision = precision;
    Scalars result = reduce();
    algebra.precision = Precision::F64;
    return result;
  };
  Scalars want = inPrecision([&] { return inOrder(keys); });
  auto agrees = [&](StringRef schedule, llvm::function_ref<Scalars()> reduce) {
    Scalars got = inPrecision(reduce);
    if (agreeByNoise(want, got, precision, keys, evaluate))
      return true;
    // What overflows in float32 on one of the ways says nothing.
    watchesRange = true;
    leftRange = false;
    inOrder(keys), inParts(keys, 4), asTree(keys);
    watchesRange = false;
    if (leftRange)
      return true;
    std::string example = std::to_string(row.size()) +
                          " keys with s = " + printNumbers(row.front().scores);
    if (row.size() > 1)
      example += ", " + printNumbers(row[1].scores);
    example += row.size() > 2 ? ", ..." : "";
    return broken(std::string("a row is the same in every schedule") +
                      (precision == Precision::F32 ? ", in float32" : ""),
                  example + " give " + algebra.print(want) +
                      " key by key and " + algebra.print(got) + " " +
                      schedule.str());
  };
  if (!agrees("in 4 parts", [&] { return inParts(keys, 4); }) ||
      !agrees("as a tree", [&] { return asTree(keys); }))
    return false;
  if (algebra.isGeneral)
    return true;
  return agrees("in tiles of 16", [&] { return inTiles(keys, 16); }) &&
         agrees("in tiles of 64", [&] { return inTiles(keys, 64); });
}

bool LawChecker::checkRows() {
  constexpr unsigned lengths[] = {1,  2,  3,  5,  8,   16, 17,
                                  24, 33, 64, 70, 150, 300};
  constexpr unsigned numPatterns = 8, numRows = 26;
  for (unsigned i = 0; i < numRows; ++i) {
    sampleParams();
    std::vector<Key> row =
        sampleRow(lengths[i % std::size(lengths)], i % numPatterns);
    for (Precision precision : {Precision::F64, Precision::F32})
      if (!checkRow(row, precision))
        return false;
  }
  return true;
}
