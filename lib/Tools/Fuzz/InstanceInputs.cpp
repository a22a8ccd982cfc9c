//===- InstanceInputs.cpp - The inputs and outputs of an instance ---------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Edges.h"
#include "InstanceMaker.h"

#include <algorithm>
#include <limits>
#include <numeric>

using namespace ::attn;
using namespace ::attn::fuzz;
using support::AttentionProblem;
using support::TensorView;

std::vector<int64_t> InstanceMaker::shapeOf(int64_t heads, int64_t rows,
                                            int64_t channels) const {
  std::vector<int64_t> shape = {heads, rows};
  if (channels >= 0)
    shape.push_back(channels);
  if (!k.packed)
    shape.insert(shape.begin(), to.b);
  return shape;
}

void InstanceMaker::fillNormal(const Tensor &tensor, double factor) {
  bool exact =
      k.monoid->exactScores || k.has(Edge::Scores) || k.has(Edge::Scale);
  tensor.forEach([&](int64_t at, int64_t) {
    tensor.set(at, exact
                       ? static_cast<double>(random.range(-2, 2)) * this->factor
                       : random.normal() * factor);
  });
}

/// Lets operands be views of one another, where they have the sizes for it.
void InstanceMaker::shareMemory() {
  auto view = [&](Argument::Role role, Tensor &of, const Tensor &tensor) {
    int64_t channels = of.sizes.back();
    of = tensor;
    of.sizes.back() = channels;
    of.overlaps = true;
    for (size_t i = 0; i < to.inputs.size(); ++i)
      if (k.arguments[i].role == role)
        to.inputs[i] = of;
  };
  key.overlaps = true;
  bool exact = k.has(Edge::Scores) || k.has(Edge::Scale);
  if (k.monoid->numValues && k.dv <= k.dqk && !exact && random.chance(0.6))
    view(Argument::V, value, key);
  if (to.hq == to.hk && to.sq == to.sk && random.chance(0.6))
    view(Argument::Q, q, key);
}

bool InstanceMaker::spreadsNaN() const {
  return (k.monoid->oracle == Monoid::softmax ||
          k.monoid->oracle == Monoid::softmaxEntropy ||
          k.monoid->oracle == Monoid::sigmoid ||
          k.monoid->oracle == Monoid::relu) &&
         !k.monoid->text;
}

/// No number at all, where it must not show: where every key is dead, or where
/// it shows as it should.
double InstanceMaker::drawEdgeScale() {
  const double nan = std::numeric_limits<double>::quiet_NaN(),
               infinite = std::numeric_limits<double>::infinity();
  if (k.lengths && random.chance(0.4)) {
    std::fill(problem.kvLengths.begin(), problem.kvLengths.end(), 0);
    return random.pick({nan, infinite, -infinite});
  }
  if (spreadsNaN() && random.chance(0.1)) {
    liveNaN = true;
    return nan;
  }
  return drawScale(random);
}

Tensor InstanceMaker::makeOperand(int64_t heads, int64_t rows,
                                  int64_t channels) {
  bool plain = packsHeads() && random.chance(0.6);
  Tensor tensor = makeTensor(
      random, k.dtype, shapeOf(heads, rows, channels), Filling::Poison,
      /*mayRepeat=*/!plain && !k.page && !k.rolling, plain, to.aligned);
  if (k.has(Edge::Layout))
    bendLayout(random, tensor);
  if (k.has(Edge::Views) && random.chance(0.5))
    overlapRows(random, tensor, to.aligned);
  return tensor;
}

Tensor InstanceMaker::makeScalar(DType dtype, double value) {
  Tensor tensor = makeTensor(random, dtype, {}, Filling::Canary, false, true);
  tensor.set(tensor.first, value);
  return tensor;
}

Tensor InstanceMaker::makeBroadcast(const BroadcastForm &form,
                                    TensorView &view) {
  const std::array<int64_t, 4> full = {to.b, to.hq, longestQ, longestK};
  std::vector<int64_t> sizes;
  for (int i = 0; i < form.rank; ++i)
    sizes.push_back(form.one[i] ? 1 : full[4 - form.rank + i]);
  bool ofPairs = k.family == Family::Pairs;
  bool aligned = ofPairs && to.aligned && random.chance(0.7);
  Tensor tensor = makeTensor(random, form.dtype, sizes, Filling::Poison, true,
                             /*plain=*/ofPairs && random.chance(0.3), aligned);
  // Views that repeat a mask for heads or batches.
  for (int i = 0; ofPairs && i + 2 < form.rank; ++i)
    if (random.chance(0.15))
      tensor.strides[i] = 0;
  std::array<int64_t, 4> strides = {0, 0, 0, 0};
  for (int i = 0; i < form.rank; ++i)
    if (!form.one[i])
      strides[4 - form.rank + i] = tensor.strides[i];
  view = support::stridedView(tensor.data(), form.dtype, full, strides);
  return tensor;
}

Tensor InstanceMaker::makeScale() {
  float scale = static_cast<float>(
      k.monoid->exactScores ? 0.5 : drawUsualScale(random, k.dqk));
  if (random.chance(0.05))
    scale = -scale;
  if (k.has(Edge::Scale))
    scale = static_cast<float>(drawEdgeScale());
  problem.scale = scale;
  return makeScalar(DType::f32, scale);
}

Tensor InstanceMaker::makeDropShare() {
  double most = random.pick({0.0, 1e-3, 0.3, 0.9, 0.9, 1.0});
  problem.dropout.p =
      static_cast<float>(random.chance(0.5) ? most : random.uniform(0.0, most));
  for (uint64_t *word : {&problem.dropout.seed, &problem.dropout.offset})
    *word = uint64_t(random.range(0, INT32_MAX)) << random.range(0, 40);
  return makeScalar(DType::f32, problem.dropout.p);
}

Tensor InstanceMaker::makeBias() {
  Tensor bias = makeBroadcast(k.bias, problem.bias);
  double dead = random.chance(0.4) ? 0.15 : 0.0;
  bias.forEach([&](int64_t at, int64_t) {
    bias.set(at, random.chance(dead) ? -std::numeric_limits<double>::infinity()
                                     : random.normal());
  });
  if (!bias.numElements())
    return bias;
  if (k.has(Edge::Bias))
    fillPattern(random, bias, drawMaskValue(random, k.bias.dtype), 0.0);
  if (k.family == Family::Pairs)
    fillOfPairs(random, bias, drawMaskValue(random, k.bias.dtype), 0.0);
  return bias;
}

Tensor InstanceMaker::makeMask() {
  Tensor mask = makeBroadcast(k.mask, problem.mask);
  double alive = random.pick({0.1, 0.5, 0.9, 1.0});
  int64_t last = random.chance(0.5) ? random.range(0, longestK) : longestK;
  int64_t keys = mask.sizes.back();
  mask.forEach([&](int64_t at, int64_t n) {
    bool on = random.chance(alive) && (keys == 1 || n % keys < last);
    mask.set(at, !on ? 0.0
                 : k.mask.dtype == DType::boolean
                     ? 1.0
                     : random.pick({1.0, -1.0, 127.0, -128.0}));
  });
  if (k.has(Edge::Padding) && mask.numElements())
    fillPattern(random, mask, 0.0, 1.0);
  if (k.family == Family::Pairs && mask.numElements())
    fillOfPairs(random, mask, 0.0, 1.0);
  return mask;
}

Tensor InstanceMaker::makeSlopes() {
  std::vector<int64_t> sizes = {to.hq};
  if (k.alibiRank == 2)
    sizes.insert(sizes.begin(), to.b);
  Tensor slopes = makeTensor(random, DType::f32, sizes, Filling::Poison, false);
  slopes.forEach([&](int64_t at, int64_t) {
    double most = random.pick({0.0, 1e-4, 0.3, 0.3, 0.3, 5.0});
    double slope = static_cast<float>(random.uniform(-most / 6, most));
    slopes.set(at, slope);
    problem.alibiSlopes.push_back(slope);
  });
  return slopes;
}

Tensor InstanceMaker::makeSinks() {
  Tensor sinks =
      makeTensor(random, DType::f32, {to.hq}, Filling::Poison, false);
  sinks.forEach([&](int64_t at, int64_t) {
    double sink = random.chance(0.05) ? -std::numeric_limits<double>::infinity()
                                      : static_cast<float>(random.normal() * 3);
    if (k.has(Edge::Sinks))
      sink = drawSink(random);
    sinks.set(at, sink);
    problem.sinks.push_back(sink);
  });
  return sinks;
}

Tensor InstanceMaker::makeCapture(int index) {
  const Capture &c = k.captures[index];
  int64_t count = c.indexedBy == 'b'   ? to.b
                  : c.indexedBy == 'h' ? to.hq
                  : c.indexedBy == 'i' ? longestQ
                  : c.indexedBy == 'j' ? longestK + cache.mostStart()
                                       : 1;
  DType dtype = c.kind == Kind::Float ? DType::f32 : DType::i32;
  std::vector<int64_t> sizes;
  if (c.indexedBy)
    sizes.push_back(count);
  Tensor tensor = makeTensor(random, dtype, sizes, Filling::Poison, false);
  tensor.forEach([&](int64_t at, int64_t) {
    double x =
        c.kind == Kind::Float
            ? static_cast<float>(random.uniform(c.low, c.high))
            : static_cast<double>(random.range(static_cast<int64_t>(c.low),
                                               static_cast<int64_t>(c.high)));
    tensor.set(at, x);
    captured[index].push_back(x);
  });
  return tensor;
}

Tensor InstanceMaker::makeInput(const Argument &a) {
  auto makeNumbers = [&](const std::vector<int32_t> &from) {
    Tensor tensor =
        makeTensor(random, DType::i32, {static_cast<int64_t>(from.size())},
                   Filling::Poison, false);
    tensor.forEach([&](int64_t at, int64_t n) { tensor.set(at, from[n]); });
    return tensor;
  };
  switch (a.role) {
  case Argument::Q:
    q = makeOperand(to.hq, to.sq, k.dqk);
    fillNormal(q, to.hot ? 100.0 : 1.0);
    return q;
  case Argument::K:
    key = makeOperand(to.hk, to.sk, k.dqk);
    fillNormal(key, 1.0);
    return key;
  case Argument::V: {
    value = makeOperand(to.hk, to.sk, k.dv);
    double whole = 1.0;
    std::swap(factor, whole);
    fillNormal(value, 1.0);
    std::swap(factor, whole);
    return value;
  }
  case Argument::Scale:
    return makeScale();
  case Argument::Softcap:
    problem.softcap = static_cast<float>(random.uniform(1.0, 50.0));
    return makeScalar(DType::f32, problem.softcap);
  case Argument::DropShare:
    return makeDropShare();
  case Argument::DropWord: {
    uint64_t word = a.index < 2 ? problem.dropout.seed : problem.dropout.offset;
    return makeScalar(DType::i32,
                      int32_t(uint32_t(word >> (a.index % 2 * 32))));
  }
  case Argument::Bias:
    return makeBias();
  case Argument::Mask:
    return makeMask();
  case Argument::Alibi:
    return makeSlopes();
  case Argument::Sinks:
    return makeSinks();
  case Argument::Table:
  case Argument::KeyNew:
  case Argument::ValueNew:
    return {}; // comes with the pages
  case Argument::Lengths:
    return makeNumbers(problem.kvLengths);
  case Argument::Start:
    return makeNumbers(problem.kStart);
  case Argument::CuQ:
    return makeNumbers(cuQ);
  case Argument::CuK:
    return makeNumbers(cuK);
  case Argument::WindowLeft:
  case Argument::WindowRight: {
    int64_t size = random.chance(0.5)    ? random.range(-1, 20)
                   : random.chance(0.05) ? std::numeric_limits<int32_t>::max()
                                         : random.range(0, 300);
    (a.role == Argument::WindowLeft ? problem.windowLeft
                                    : problem.windowRight) = size;
    return makeScalar(DType::i32, static_cast<double>(size));
  }
  case Argument::Cosines:
    return makeAngles(cosines);
  case Argument::Sines:
    return makeAngles(sines);
  case Argument::Param:
    params.push_back(static_cast<float>(random.uniform(0.5, 3.0)));
    return makeScalar(DType::f32, params.back());
  case Argument::CapturedValue:
    return makeCapture(a.index);
  case Argument::Output:
    break;
  }
  return {};
}

void InstanceMaker::makeInputs() {
  // Scores x100; an unnormalised sum of such weights would leave f16.
  to.hot = random.chance(0.1) && !k.monoid->unbounded &&
           !k.monoid->exactScores && k.monoid->numValues < 2;
  if (k.has(Edge::Scores))
    factor = drawFactor(random, k.dtype);
  captured.resize(k.captures.size());
  for (const Argument &argument : k.arguments)
    if (argument.role != Argument::Output)
      to.inputs.push_back(makeInput(argument));
  if (k.has(Edge::Views))
    shareMemory();
  if (k.constantWindow) {
    if (k.windowLeft)
      problem.windowLeft = k.constantLeft;
    if (k.windowRight)
      problem.windowRight = k.constantRight;
  }
}

void InstanceMaker::makeOutputs() {
  for (int i = 0; i < k.numOutputs; ++i) {
    bool channels = k.perChannel(i);
    to.outputs.push_back(
        makeTensor(random, channels ? k.outDType : DType::f32,
                   shapeOf(to.hq, to.sq, channels ? k.dv : -1), Filling::Canary,
                   false, packsHeads() && random.chance(0.8), to.aligned));
  }
}
