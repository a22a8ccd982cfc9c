//===- LawProperties.cpp - What a monoid allows beyond its laws -----------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LawChecker.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace ::attn;
using namespace ::attn::detail;
using mlir::attn::MonoidKind;
using mlir::attn::MonoidOp;

/// rescaleAbsorbs, deadIsNatural and leastScoreIsFinite, in float32.
void LawChecker::findDeadProperties() {
  bool isCocycle = algebra.kind == MonoidKind::cocycle;
  report->rescaleAbsorbs = isCocycle && algebra.numStats;
  report->deadIsNatural = true;
  report->leastScoreIsFinite = isCocycle;
  SmallVector<double, 2> dead(algebra.numScores, -infinity);
  SmallVector<double, 2> least(algebra.numScores,
                               -double(std::numeric_limits<float>::max()));
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
    Scalars low = algebra.lift(least, key.values, key.position);
    for (unsigned k = 0; k < algebra.numComponents; ++k)
      if (!std::isfinite(low[algebra.numStats + k].f))
        report->leastScoreIsFinite = false;
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
    // What is shifted of a dead key is told by its statistic alone.
    if (algebra.hasShift)
      report->deadIsNatural = false;
    for (unsigned k = 0; k < algebra.numComponents; ++k)
      if (lifted[algebra.numStats + k].f * factors.of(k) != 0.0)
        report->deadIsNatural = false;
  }
}

void LawChecker::findNaNProperties() {
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
    Scalars to(carrier(sampleState(2, trial % 2, position)));
    ArrayRef<Scalar> from = ArrayRef(lifted).take_front(algebra.numStats);
    Factors factors = algebra.rescale(from, to);
    Scalars weights(ArrayRef(lifted).drop_front(algebra.numStats));
    algebra.shift(from, to, weights);
    for (unsigned k = 0; k < algebra.numComponents; ++k)
      if (!std::isnan(weights[k].f * factors.of(k)))
        report->nanReachesWeights = false;
  }
}

/// Threshold, in float32. Scores are the threshold itself, its neighbour, and
/// any that are below; states are of enough keys to have one. The lowest number
/// stands for "none yet", and is asked nothing: a key of that score may count.
void LawChecker::findThreshold() {
  if (!algebra.isGeneral || algebra.numScores != 1 || algebra.numValues)
    return;
  constexpr unsigned numTrials = 96, leastTests = 100;
  unsigned size = algebra.numStats + algebra.numComponents;
  unsigned mostKeys = std::max(24u, 2 * size);
  SmallVector<bool> holds(size, true);
  SmallVector<unsigned> numTests(size, 0);
  for (unsigned trial = 0; trial < numTrials; ++trial) {
    sampleParams();
    bool fromWide = trial % 2;
    int64_t position = 0;
    Scalars state = sampleState(mostKeys, fromWide, position);
    position = nextPosition(position);
    // Samples may have more digits than a float32.
    for (Scalar &number : state)
      number.f = float(number.f);
    for (unsigned i = 0; i < size; ++i) {
      double least = state[i].f;
      if (!holds[i] || !(std::fabs(least) < largestFloat))
        continue;
      double below = std::nextafterf(float(least), -largestFloat);
      double far = least - std::fabs(random.within(16.0));
      for (double score :
           {least, below, double(float(far)),
            double(float(sampleScore(fromWide))), -largestScore}) {
        if (!(score <= least))
          continue;
        Scalars next =
            algebra.combine(state, algebra.lift({score}, {}, position));
        holds[i] = holds[i] && algebra.isEqual(state, next);
        // Of "none yet" no score says much.
        numTests[i] += std::fabs(least) < nearOverflow;
      }
    }
  }
  for (unsigned i = 0; i < size; ++i)
    if (holds[i] && numTests[i] >= leastTests)
      report->threshold = i;
}

/// What follows the state in a finalize region: the monoid's params, or the row
/// and captures.
Scalars LawChecker::sampleTrailing(Region &region,
                                   const RegionProgram &program) {
  unsigned stateSize = algebra.numStats + algebra.numComponents;
  Scalars trailing;
  sampleParams();
  for (unsigned i = stateSize; i < program.getNumArguments(); ++i) {
    if (i - stateSize < algebra.numParams &&
        isa<MonoidOp>(region.getParentOp()))
      trailing.push_back(algebra.params[i - stateSize]);
    else if (program.isFloatArgument(i))
      trailing.push_back(Scalar::ofFloat(0.5 + std::fabs(random.within(2.0))));
    else
      trailing.push_back(Scalar::ofInt(random.below(8)));
  }
  return trailing;
}

Scalars LawChecker::evaluateFinalize(Region &region,
                                     const RegionProgram &program,
                                     ArrayRef<Scalar> state,
                                     ArrayRef<Scalar> trailing) const {
  Scalars arguments(state), results;
  arguments.append(trailing.begin(), trailing.end());
  program.evaluate(
      arguments, results, algebra.precision,
      [&](unsigned argument, ArrayRef<int64_t> indices) {
        auto type = cast<ShapedType>(region.getArgument(argument).getType())
                        .getElementType();
        return isa<FloatType>(type) ? Scalar::ofFloat(0.75) : Scalar::ofInt(1);
      });
  return results;
}

FinalizeReport LawChecker::checkFinalize(Region &region,
                                         const RegionProgram &program) {
  FinalizeReport result;
  bool isCocycle = algebra.kind == MonoidKind::cocycle;
  result.gaugeInvariant.assign(program.getNumResults(), isCocycle);
  result.spreadsNaN.assign(program.getNumResults(), true);
  Scalars trailing;
  auto evaluate = [&](ArrayRef<Scalar> state) {
    return evaluateFinalize(region, program, state, trailing);
  };
  auto sample = [&] { trailing = sampleTrailing(region, program); };

  for (Precision precision : {Precision::F64, Precision::F32}) {
    algebra.precision = precision;
    sample();
    Scalars outputs = evaluate(algebra.emptyState());
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

    Scalars poisoned(ArrayRef(state).take_front(algebra.numStats));
    poisoned.append(algebra.numComponents, Scalar::ofFloat(notANumber));
    Scalars outputs = evaluate(poisoned);
    for (auto [i, output] : llvm::enumerate(outputs))
      if (!program.isFloatResult(i) || !std::isnan(output.f))
        result.spreadsNaN[i] = false;

    if (!isCocycle)
      continue;
    Stats from = carrier(state), to = carrier(reference);
    if (algebra.numStats &&
        (algebra.isIdentity(from) || algebra.isIdentity(to)))
      continue;
    Factors factors = algebra.rescale(from, to);
    if (!factors.areFinite() || llvm::any_of(factors, [](double r) {
          return r != 0.0 && std::fabs(r) < smallestFactor;
        }))
      continue;
    Scalars other(to);
    other.append(moved(from, to, ArrayRef(state).drop_front(algebra.numStats)));
    double size = std::max(algebra.sizeOf(state), algebra.sizeOf(other));
    Scalars here = evaluate(state);
    Scalars there = evaluate(other);
    for (unsigned i = 0; i < here.size(); ++i)
      if (!program.isFloatResult(i) || !agree(here[i].f, there[i].f, size))
        result.gaugeInvariant[i] = false;
  }
  return result;
}

/// Rows without live keys and of few: the first row of a causal mask has one. A
/// score or value may be outside of the domain of an output (the logarithm of a
/// negative weight): NaN counts for all of them, or where there is no weight.
void LawChecker::checkOutputs(MonoidOp op, LawReport &into) {
  report = &into;
  auto name = [&](unsigned output) {
    if (output < op.getOutputs().size())
      return cast<StringAttr>(op.getOutputs()[output]).str();
    return "#" + std::to_string(output);
  };
  if (int output = into.finalize.nanOnIdentity; output >= 0) {
    into.brokenLaw = "finalize gives no NaN for a row without live keys";
    into.counterexample = "finalize(e, 0) gives nan for output " + name(output);
    return;
  }
  for (unsigned numKeys : {1, 2, 3, 4, 7})
    for (Precision precision : {Precision::F64, Precision::F32}) {
      algebra.precision = precision;
      std::string example;
      int output = findNaN(numKeys, example);
      algebra.precision = Precision::F64;
      if (output < 0)
        continue;
      broken("finalize gives no NaN for a row of " +
                 (numKeys == 1 ? "one live key"
                               : std::to_string(numKeys) + " live keys"),
             example + " gives nan for output " + name(output));
      return;
    }
}

/// The output that is NaN for a row of so many keys, or -1.
int LawChecker::findNaN(unsigned numKeys, std::string &example) {
  unsigned numOutputs = finalize->getNumResults();
  std::vector<double> scores(moderate);
  // Gates of large scores may overflow.
  if (algebra.kind == MonoidKind::cocycle)
    llvm::append_range(scores, wide);
  SmallVector<bool> always(numOutputs, true);
  unsigned numScores = 0;
  // Every score alone; of the rows of several keys, some.
  for (size_t at = 0; at < scores.size(); at += numKeys == 1 ? 1 : 8) {
    if (std::fabs(scores[at]) > largestScore)
      continue;
    sampleParams();
    SmallVector<Key, 8> keys;
    for (unsigned i = 0; i < numKeys; ++i)
      keys.push_back(sampleKey(/*fromWide=*/false,
                               i ? keys[i - 1].position + 1 : numScores % 3));
    keys[0].scores[0] = scores[at];
    auto text = [&] {
      std::string text = "s = ";
      for (const Key &key : keys)
        text += (&key == keys.begin() ? "" : ", ") + printNumbers(key.scores);
      return text;
    };
    constexpr unsigned numDraws = 4;
    SmallVector<unsigned> numNaN(numOutputs, 0);
    bool hasWeight = false, inRange = true;
    for (unsigned draw = 0; draw < numDraws; ++draw) {
      for (Key &key : keys)
        for (double &value : key.values)
          value = draw ? random.within(4.0) : 1.0;
      Scalars arguments = stateOf(keys[0]), results;
      if (numKeys > 1)
        arguments = algebra.multiply(algebra.emptyState(), arguments);
      for (const Key &key : ArrayRef(keys).drop_front())
        algebra.multiplyInto(arguments, stateOf(key), arguments.data());
      inRange &= isInRange(arguments);
      for (Scalar x : ArrayRef(arguments).drop_front(algebra.numStats))
        hasWeight |= x.f != 0.0;
      arguments.append(algebra.params.begin(), algebra.params.end());
      finalize->evaluate(arguments, results, algebra.precision);
      for (auto [output, x] : llvm::enumerate(results))
        numNaN[output] += finalize->isFloatResult(output) && std::isnan(x.f);
    }
    if (!inRange)
      continue;
    ++numScores;
    if (example.empty())
      example = text();
    for (unsigned output = 0; output < numOutputs; ++output) {
      always[output] &= numNaN[output] == numDraws;
      if (numNaN[output] == numDraws && !hasWeight) {
        example = text();
        return output;
      }
    }
  }
  for (unsigned output = 0; output < numOutputs; ++output)
    if (always[output] && numScores)
      return output;
  return -1;
}
