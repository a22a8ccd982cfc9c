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
  Tensor tensor = makeTensor(random, form.dtype, sizes, Filling::Poison, true);
  std::array<int64_t, 4> strides = {0, 0, 0, 0};
  for (int i = 0; i < form.rank; ++i)
    if (!form.one[i])
      strides[4 - form.rank + i] = tensor.strides[i];
  view = support::stridedView(tensor.data(), form.dtype, full, strides);
  return tensor;
}

void InstanceMaker::makeInputs() {
  Random &r = random;
  // Scores x100; an unnormalised sum of such weights would leave f16.
  bool hot = r.chance(0.1) && !k.monoid->unbounded && !k.monoid->exactScores &&
             k.monoid->numValues < 2;
  to.hot = hot;
  if (k.has(Edge::Scores))
    factor = drawFactor(r, k.dtype);
  int64_t sequences = to.b;
  captured.resize(k.captures.size());
  double whole = 1.0;
  for (const Argument &a : k.arguments) {
    switch (a.role) {
    case Argument::Q:
      q = makeOperand(to.hq, to.sq, k.dqk);
      fillNormal(q, hot ? 100.0 : 1.0);
      to.inputs.push_back(q);
      break;
    case Argument::K:
      key = makeOperand(to.hk, to.sk, k.dqk);
      fillNormal(key, 1.0);
      to.inputs.push_back(key);
      break;
    case Argument::V:
      value = makeOperand(to.hk, to.sk, k.dv);
      std::swap(factor, whole);
      fillNormal(value, 1.0);
      std::swap(factor, whole);
      to.inputs.push_back(value);
      break;
    case Argument::Scale: {
      float scale = static_cast<float>(
          k.monoid->exactScores ? 0.5 : drawUsualScale(r, k.dqk));
      if (r.chance(0.05))
        scale = -scale;
      if (k.has(Edge::Scale))
        scale = static_cast<float>(drawEdgeScale());
      problem.scale = scale;
      to.inputs.push_back(makeScalar(DType::f32, scale));
      break;
    }
    case Argument::Softcap:
      problem.softcap = static_cast<float>(r.uniform(1.0, 50.0));
      to.inputs.push_back(makeScalar(DType::f32, problem.softcap));
      break;
    case Argument::DropShare: {
      double most = r.pick({0.0, 1e-3, 0.3, 0.9, 0.9, 1.0});
      problem.dropout.p =
          static_cast<float>(r.chance(0.5) ? most : r.uniform(0.0, most));
      for (uint64_t *word : {&problem.dropout.seed, &problem.dropout.offset})
        *word = uint64_t(r.range(0, INT32_MAX)) << r.range(0, 40);
      to.inputs.push_back(makeScalar(DType::f32, problem.dropout.p));
      break;
    }
    case Argument::DropWord: {
      uint64_t word =
          a.index < 2 ? problem.dropout.seed : problem.dropout.offset;
      to.inputs.push_back(makeScalar(
          DType::i32, int32_t(uint32_t(word >> (a.index % 2 * 32)))));
      break;
    }
    case Argument::Bias: {
      Tensor bias = makeBroadcast(k.bias, problem.bias);
      double dead = r.chance(0.4) ? 0.15 : 0.0;
      bias.forEach([&](int64_t at, int64_t) {
        bias.set(at, r.chance(dead) ? -std::numeric_limits<double>::infinity()
                                    : r.normal());
      });
      if (k.has(Edge::Bias) && bias.numElements())
        fillPattern(r, bias, drawMaskValue(r, k.bias.dtype), 0.0);
      to.inputs.push_back(bias);
      break;
    }
    case Argument::Mask: {
      Tensor mask = makeBroadcast(k.mask, problem.mask);
      double alive = r.pick({0.1, 0.5, 0.9, 1.0});
      int64_t last = r.chance(0.5) ? r.range(0, longestK) : longestK;
      int64_t keys = mask.sizes.back();
      mask.forEach([&](int64_t at, int64_t n) {
        bool on = r.chance(alive) && (keys == 1 || n % keys < last);
        mask.set(at, !on ? 0.0
                     : k.mask.dtype == DType::boolean
                         ? 1.0
                         : r.pick({1.0, -1.0, 127.0, -128.0}));
      });
      if (k.has(Edge::Padding) && mask.numElements())
        fillPattern(r, mask, 0.0, 1.0);
      to.inputs.push_back(mask);
      break;
    }
    case Argument::Alibi: {
      std::vector<int64_t> sizes = {to.hq};
      if (k.alibiRank == 2)
        sizes.insert(sizes.begin(), sequences);
      Tensor slopes = makeTensor(r, DType::f32, sizes, Filling::Poison, false);
      slopes.forEach([&](int64_t at, int64_t) {
        double most = r.pick({0.0, 1e-4, 0.3, 0.3, 0.3, 5.0});
        double slope = static_cast<float>(r.uniform(-most / 6, most));
        slopes.set(at, slope);
        problem.alibiSlopes.push_back(slope);
      });
      to.inputs.push_back(slopes);
      break;
    }
    case Argument::Sinks: {
      Tensor sinks = makeTensor(r, DType::f32, {to.hq}, Filling::Poison, false);
      sinks.forEach([&](int64_t at, int64_t) {
        double sink = r.chance(0.05) ? -std::numeric_limits<double>::infinity()
                                     : static_cast<float>(r.normal() * 3);
        if (k.has(Edge::Sinks))
          sink = drawSink(r);
        sinks.set(at, sink);
        problem.sinks.push_back(sink);
      });
      to.inputs.push_back(sinks);
      break;
    }
    case Argument::Table:
    case Argument::KeyNew:
    case Argument::ValueNew:
      to.inputs.emplace_back(); // comes with the pages
      break;
    case Argument::Lengths:
    case Argument::Start:
    case Argument::CuQ:
    case Argument::CuK: {
      const std::vector<int32_t> &from = a.role == Argument::CuQ   ? cuQ
                                         : a.role == Argument::CuK ? cuK
                                         : a.role == Argument::Start
                                             ? problem.kStart
                                             : problem.kvLengths;
      Tensor tensor =
          makeTensor(r, DType::i32, {static_cast<int64_t>(from.size())},
                     Filling::Poison, false);
      tensor.forEach([&](int64_t at, int64_t n) { tensor.set(at, from[n]); });
      to.inputs.push_back(tensor);
      break;
    }
    case Argument::WindowLeft:
    case Argument::WindowRight: {
      int64_t size = r.chance(0.5)    ? r.range(-1, 20)
                     : r.chance(0.05) ? std::numeric_limits<int32_t>::max()
                                      : r.range(0, 300);
      (a.role == Argument::WindowLeft ? problem.windowLeft
                                      : problem.windowRight) = size;
      to.inputs.push_back(makeScalar(DType::i32, static_cast<double>(size)));
      break;
    }
    case Argument::Param:
      params.push_back(static_cast<float>(r.uniform(0.5, 3.0)));
      to.inputs.push_back(makeScalar(DType::f32, params.back()));
      break;
    case Argument::CapturedValue: {
      const Capture &c = k.captures[a.index];
      int64_t count = c.indexedBy == 'b'   ? sequences
                      : c.indexedBy == 'h' ? to.hq
                      : c.indexedBy == 'i' ? longestQ
                      : c.indexedBy == 'j' ? longestK + cache.mostStart()
                                           : 1;
      DType dtype = c.kind == Kind::Float ? DType::f32 : DType::i32;
      std::vector<int64_t> sizes;
      if (c.indexedBy)
        sizes.push_back(count);
      Tensor tensor = makeTensor(r, dtype, sizes, Filling::Poison, false);
      tensor.forEach([&](int64_t at, int64_t) {
        double x =
            c.kind == Kind::Float
                ? static_cast<float>(r.uniform(c.low, c.high))
                : static_cast<double>(r.range(static_cast<int64_t>(c.low),
                                              static_cast<int64_t>(c.high)));
        tensor.set(at, x);
        captured[a.index].push_back(x);
      });
      to.inputs.push_back(tensor);
      break;
    }
    case Argument::Output:
      break;
    }
  }
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
