//===- Instance.cpp - What is fixed when a kernel is run ------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Instance.h"
#include "Caches.h"
#include "Edges.h"
#include "OwnMonoids.h"

#include <algorithm>
#include <limits>
#include <numeric>

using namespace ::attn;
using namespace ::attn::fuzz;
using support::AttentionProblem;
using support::TensorView;

namespace {
class InstanceMaker {
public:
  InstanceMaker(const Kernel &k, uint64_t seed, uint64_t index, Instance &to)
      : k(k), random(seed ^ 0xA77E47104ull, index), to(to) {}
  std::string run(bool poison);
  support::Result<std::vector<reference::Errors>> emulateAll();
  double largestScore() const;
  support::Result<std::vector<Interval>> intervals(size_t output) const;

private:
  bool packsHeads() const { return k.schedule && k.schedule->packHeads; }
  void chooseSizes();
  void choosePackedSizes();
  void makeInputs();
  void makeOutputs();
  Tensor makeOperand(int64_t heads, int64_t rows, int64_t channels);
  Tensor makeBroadcast(const BroadcastForm &form, TensorView &view);
  Tensor makeScalar(DType dtype, double value);
  void fillNormal(const Tensor &tensor, double factor);
  void shareMemory();
  double drawEdgeScale();
  bool spreadsNaN() const;
  void plantLiveNaN();
  std::string ask();
  std::string excuseOverflow();
  reference::OracleOptions oracleOptions() const;
  support::Result<std::vector<reference::Errors>>
  emulate(DType dtype, int order, bool wideSums = false,
          DType operands = DType::f32);
  void poisonDeadKeys();
  void spoil(const Tensor &t, int64_t batch, int64_t head, int64_t j,
             double poison) const;
  void describe();
  std::vector<int64_t> shapeOf(int64_t heads, int64_t rows,
                               int64_t channels) const;

  const Kernel &k;
  Random random;
  Instance &to;
  AttentionProblem problem;
  std::vector<int32_t> cuQ, cuK;
  std::vector<std::vector<double>> captured;
  std::vector<double> params;
  Tensor q, key, value;
  KeyCache cache;
  /// Of whole numbers in queries and keys.
  double factor = 1.0;
  int64_t longestQ = 0, longestK = 0;
  bool liveNaN = false;
};
} // namespace

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

void InstanceMaker::chooseSizes() {
  to.b = random.chance(0.02) ? 0 : random.pick<int64_t>({1, 1, 1, 2, 3});
  to.hk = random.pick<int64_t>({1, 1, 2, 2, 3, 4});
  int64_t group = random.pick<int64_t>({1, 1, 2, 3, 4, 7, 8});
  to.sq = random.rows();
  to.sk = random.chance(0.4) ? to.sq : random.rows();
  if (random.chance(0.05)) {
    to.sk = random.range(301, 5000);
    to.sq = random.chance(0.5) ? 1 : random.range(1, 12);
  }
  // Several heads of a key head, mostly with less than a tile of rows.
  if (packsHeads()) {
    group = random.pick<int64_t>({2, 3, 4, 7, 8});
    bool few = random.chance(0.8);
    to.sq =
        random.chance(0.2)
            ? 1
            : random.range(
                  1, few ? std::min<int64_t>(70, k.schedule->blockQ - 1) : 70);
  }
  // The oracle takes its time: a bound on multiplications.
  const int64_t limit = 9000000;
  auto work = [&] {
    return to.b * to.hk * group * to.sq * to.sk * (k.dqk + k.dv);
  };
  auto shrink = [&](int64_t &size, int64_t least) {
    if (work() > limit && size > least)
      size = std::max(least, size / 2);
  };
  while (work() > limit) {
    int64_t before = work();
    shrink(to.b, 1);
    shrink(group, 1);
    shrink(to.hk, 1);
    if (to.sk <= 300)
      shrink(to.sk, 8);
    shrink(to.sq, 8);
    if (work() == before)
      break;
  }
  const int64_t *fixed = k.fixed;
  if (fixed[0] >= 0)
    to.b = fixed[0];
  if (fixed[2] >= 0)
    to.hk = fixed[2];
  if (fixed[1] >= 0) {
    to.hk = fixed[1] % to.hk == 0 ? to.hk : 1;
    group = fixed[1] / to.hk;
  }
  if (fixed[3] >= 0)
    to.sq = fixed[3];
  if (fixed[4] >= 0)
    to.sk = fixed[4];
  // Without lengths all pages are full.
  if (k.page && !k.lengths)
    to.sk = (to.sk + k.page - 1) / k.page * k.page;
  to.hq = to.hk * group;
  longestQ = to.sq;
  longestK = to.sk;
  if (k.lengths)
    for (int64_t i = 0; i < to.b; ++i)
      problem.kvLengths.push_back(static_cast<int32_t>(
          random.chance(0.2) ? to.sk : random.range(0, to.sk)));
}

void InstanceMaker::choosePackedSizes() {
  int64_t sequences = random.chance(0.03) ? 0 : random.range(1, 6);
  cuQ.push_back(0);
  cuK.push_back(0);
  to.hk = random.pick<int64_t>({1, 1, 2, 3});
  to.hq = to.hk * random.pick<int64_t>({1, 1, 2, 4, 7});
  int64_t most = std::max<int64_t>(
      8, static_cast<int64_t>(std::sqrt(
             9e6 / static_cast<double>(std::max<int64_t>(sequences, 1) * to.hq *
                                       (k.dqk + k.dv)))));
  most = std::min<int64_t>(most, 200);
  for (int64_t i = 0; i < sequences; ++i) {
    int64_t rows = random.chance(0.1) ? 0 : random.range(0, most);
    int64_t keys = random.chance(0.5) ? rows : random.range(0, most);
    cuQ.push_back(cuQ.back() + static_cast<int32_t>(rows));
    cuK.push_back(cuK.back() + static_cast<int32_t>(keys));
    longestQ = std::max(longestQ, rows);
    longestK = std::max(longestK, keys);
    if (k.lengths)
      problem.kvLengths.push_back(static_cast<int32_t>(random.range(0, keys)));
  }
  to.b = sequences;
  to.sq = cuQ.back();
  // Rows that belong to no sequence are nobody's.
  to.sk = cuK.back() + (random.chance(0.3) ? random.range(1, 20) : 0);
  problem.cuSeqlensQ = cuQ;
  problem.cuSeqlensK = cuK;
}

//===----------------------------------------------------------------------===//
// Inputs
//===----------------------------------------------------------------------===//

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

//===----------------------------------------------------------------------===//
// The oracle
//===----------------------------------------------------------------------===//

/// A NaN that some queries see has to reach them, and no others.
void InstanceMaker::plantLiveNaN() {
  if (!spreadsNaN() || !random.chance(0.06) || key.numElements() == 0)
    return;
  const Tensor &tensor = random.chance(0.5) && q.numElements() ? q : key;
  if (tensor.repeats())
    return;
  std::vector<int64_t> index;
  for (int64_t size : tensor.sizes)
    index.push_back(random.range(0, size - 1));
  tensor.set(tensor.at(index), std::numeric_limits<double>::quiet_NaN());
  liveNaN = true;
}

std::string InstanceMaker::ask() {
  problem.q = q.view();
  problem.k = key.view();
  if (k.monoid->numValues)
    problem.v = value.view();
  problem.causal = k.causal;
  problem.monoid = k.monoid->oracle;
  using Round = double (*)(double);
  static const Round toF32 = [](double x) -> double {
    return support::roundToF32(x);
  };
  auto pointAt = [this](int64_t b, int64_t h, int64_t i, int64_t j) {
    Point p;
    p.b = b;
    p.h = h;
    p.i = i;
    p.j = j;
    p.captures = &captured;
    return p;
  };
  if (k.maskExpr)
    problem.maskMod = [=](int64_t b, int64_t h, int64_t i, int64_t j) {
      return k.maskExpr->at(pointAt(b, h, i, j)).integer != 0;
    };
  auto setFloats = [&](Round round) {
    if (k.scoreExpr)
      problem.scoreMod = [=](double s, int64_t b, int64_t h, int64_t i,
                             int64_t j) {
        Point p = pointAt(b, h, i, j);
        p.score = s;
        p.round = round;
        return k.scoreExpr->isDeadAt(p)
                   ? -std::numeric_limits<double>::infinity()
                   : k.scoreExpr->at(p).real;
      };
    if (k.gateExpr)
      problem.logGate = [=](int64_t b, int64_t h, int64_t i, int64_t j) {
        Point p = pointAt(b, h, i, j);
        p.round = round;
        return k.gateExpr->at(p).real;
      };
  };

  setFloats(nullptr);
  auto exact = reference::attention(problem, oracleOptions());
  if (!exact)
    return exact.error();
  for (int i = 0; i < k.numOutputs; ++i) {
    Expected e;
    e.name = k.monoid->outputs[i];
    e.dtype = to.outputs[i].dtype;
    e.exact = outputOf(*k.monoid, e.name, problem, *exact, params,
                       support::DType::f64);
    if (k.family == Family::Edges && (e.name == "lse" || e.name == "entropy"))
      e.least = 0x1p-20;
    if (e.name == "remainder")
      e.least = reference::productError(e.exact);
    // Scales below 1e-30 multiply the queries in their type.
    if (k.has(Edge::Scale) && k.dtype != DType::f32 && e.name == "max")
      e.least = 0x1p-90;
    to.expected.push_back(std::move(e));
  }
  // What follows emulates.
  setFloats(toF32);
  auto errors = emulate(k.dtype, 0);
  if (!errors)
    return errors.error();
  for (int i = 0; i < k.numOutputs; ++i)
    to.expected[i].error = (*errors)[i];
  return k.family == Family::Edges ? excuseOverflow() : "";
}

std::string InstanceMaker::excuseOverflow() {
  // As compiled code has it: weights are not divided by their sum before.
  reference::Emulation how;
  how.order = 1;
  static_assert(reference::sumOrders[1].deferred);
  auto emulated = reference::emulatedAttention(problem, how);
  if (!emulated)
    return emulated.error();
  for (Expected &e : to.expected)
    if (e.name == "entropy")
      for (double x : emulated->entropy)
        e.excused.push_back(!std::isfinite(x));
  return "";
}

reference::OracleOptions InstanceMaker::oracleOptions() const {
  reference::OracleOptions options;
  options.keepPairs = k.monoid->text != nullptr;
  return options;
}

/// The error of each output in one emulation. `wideSums`: sums are of weights
/// before these are rounded for the products, as compiled code has them.
support::Result<std::vector<reference::Errors>>
InstanceMaker::emulate(DType dtype, int order, bool wideSums, DType operands) {
  reference::Emulation how;
  how.dtype = dtype;
  how.operands = operands;
  // A CPU takes f32 as it is, whatever it may do.
  how.tf32 = k.tf32 && k.gpu;
  how.order = order;
  // What is far from 1 does not fit in 16 bits.
  how.wideScores = k.family == Family::Edges;
  if (k.schedule)
    how.tile = k.schedule->blockK;
  auto result = reference::emulatedAttention(problem, how, oracleOptions());
  if (!result)
    return result.takeFailure();
  if (wideSums) {
    how.dtype = DType::f32;
    auto wide = reference::emulatedAttention(problem, how, oracleOptions());
    if (!wide)
      return wide.takeFailure();
    result->weightSum = std::move(wide->weightSum);
    dtype = DType::f32; // of the quotient
  }
  std::vector<reference::Errors> errors;
  for (const Expected &e : to.expected)
    errors.push_back(reference::maxErrors(
        e.exact, outputOf(*k.monoid, e.name, problem, *result, params, dtype,
                          how.tf32)));
  return errors;
}

support::Result<std::vector<reference::Errors>> InstanceMaker::emulateAll() {
  // A row of one key has its value as a quotient, if both are of the same
  // rounded weight, and what the weight lost, if not.
  auto errors = emulate(k.dtype, 0, /*wideSums=*/true);
  if (!errors)
    return errors;
  std::vector<reference::Errors> worst = std::move(*errors);
  reference::Emulation first;
  first.dtype = k.dtype;
  for (const reference::Emulation &how : reference::emulationsOf(first)) {
    auto errors =
        emulate(how.dtype, how.order, /*wideSums=*/false, how.operands);
    if (!errors)
      return errors;
    for (size_t i = 0; i < worst.size(); ++i)
      worst[i].raise((*errors)[i]);
  }
  return worst;
}

double InstanceMaker::largestScore() const {
  reference::OracleOptions options;
  options.keepPairs = true;
  double largest = 0.0;
  if (auto pairs = reference::attention(problem, options))
    for (double score : pairs->scores)
      if (std::isfinite(score))
        largest = std::max(largest, std::fabs(score));
  return largest;
}

support::Result<std::vector<Interval>>
InstanceMaker::intervals(size_t output) const {
  reference::OracleOptions options;
  options.keepPairs = true;
  auto result = reference::attention(problem, options);
  if (!result)
    return result.takeFailure();
  // tf32 has the significand of f16.
  return intervalsOf(problem, *result, to.expected[output].name,
                     k.tf32 && k.gpu ? DType::f16 : k.dtype);
}

/// Keys that no query of their head sees, whatever the scores are, may hold
/// anything. For V this holds beyond the keys that some query sees: between
/// them a tile is multiplied as a whole.
void InstanceMaker::poisonDeadKeys() {
  if (liveNaN || !(k.family == Family::Edges || random.chance(0.8)))
    return;
  AttentionProblem probe = problem;
  probe.q.shape[3] = probe.k.shape[3] = 1;
  probe.scale = 1.0;
  probe.softcap = 0.0;
  probe.dropout = {};
  probe.scoreMod = nullptr;
  probe.logGate = nullptr;
  // A bias of -inf is as good as a mask.
  if (k.family != Family::Edges)
    probe.bias = TensorView();
  probe.alibiSlopes.clear();
  probe.sinks.clear();
  probe.v = TensorView();
  probe.monoid = Monoid::logsumexp;
  reference::OracleOptions options;
  options.keepPairs = true;
  auto pairs = reference::attention(probe, options);
  if (!pairs)
    return;
  const double dead = -std::numeric_limits<double>::infinity();
  const double poisons[] = {std::numeric_limits<double>::quiet_NaN(),
                            std::numeric_limits<double>::infinity(), dead};
  int64_t group = to.hk ? to.hq / to.hk : 0;
  for (int64_t n = 0; n < problem.numSequences(); ++n) {
    // Of a packed sequence: its rows, and its first key and their number.
    int64_t firstRow = k.packed ? cuQ[n] : 0, firstKey = k.packed ? cuK[n] : 0;
    int64_t endRow = k.packed ? cuQ[n + 1] : to.sq;
    int64_t keys = k.packed ? cuK[n + 1] - firstKey : to.sk;
    for (int64_t hk = 0; hk < to.hk; ++hk) {
      std::vector<char> seen(keys, 0);
      for (int64_t h = hk * group; h < (hk + 1) * group; ++h)
        for (int64_t i = firstRow; i < endRow; ++i) {
          int64_t row = ((k.packed ? 0 : n) * to.hq + h) * to.sq + i;
          bool sees = false;
          for (int64_t j = 0; j < keys; ++j) {
            bool isLive = pairs->scores[row * to.sk + j] != dead;
            seen[j] |= isLive;
            sees |= isLive;
          }
          if (!sees && k.family == Family::Edges)
            spoil(q, n, h, i, poisons[random.range(0, 2)]);
        }
      int64_t lastSeen = keys, firstSeen = 0;
      while (lastSeen > 0 && !seen[lastSeen - 1])
        --lastSeen;
      while (firstSeen < keys && !seen[firstSeen])
        ++firstSeen;
      for (int64_t j = 0; j < keys; ++j) {
        if (seen[j])
          continue;
        double poison = poisons[random.range(0, 2)];
        spoil(key, n, hk, firstKey + j, poison);
        // Semantics, rule 4, asks for it between them too, where the keys that
        // a mask leaves can be told.
        bool between = k.family == Family::Edges && !k.maskExpr;
        if (between || j < firstSeen || j >= lastSeen)
          spoil(value, n, hk, firstKey + j, poison);
      }
    }
  }
  // Keys that belong to no sequence.
  if (k.packed)
    for (int64_t j = cuK.back(); j < to.sk; ++j)
      for (int64_t hk = 0; hk < to.hk; ++hk) {
        spoil(key, 0, hk, j, poisons[0]);
        spoil(value, 0, hk, j, poisons[0]);
      }
}

/// Fills the row of key `j` with `poison`.
void InstanceMaker::spoil(const Tensor &t, int64_t batch, int64_t head,
                          int64_t j, double poison) const {
  if (!t.memory || t.repeats())
    return;
  for (int64_t c = 0; c < t.sizes.back(); ++c)
    t.set(k.packed ? t.at({head, j, c}) : t.at({batch, head, j, c}), poison);
}

void InstanceMaker::describe() {
  auto add = [&](const char *name, int64_t value) {
    to.summary += (to.summary.empty() ? "" : " ") + std::string(name) + "=" +
                  std::to_string(value);
  };
  add("b", to.b);
  add("hq", to.hq);
  add("hk", to.hk);
  add("sq", to.sq);
  add("sk", to.sk);
  auto list = [&](const char *name, const std::vector<int32_t> &values) {
    if (values.empty())
      return;
    to.summary += std::string(" ") + name + "=[";
    for (size_t i = 0; i < values.size(); ++i)
      to.summary += (i ? "," : "") + std::to_string(values[i]);
    to.summary += "]";
  };
  list("lengths", problem.kvLengths);
  list("cu_q", cuQ);
  list("cu_k", cuK);
  list("k_start", problem.kStart);
  list("table", cache.pages.table);
  if (problem.windowLeft >= 0 || problem.windowRight >= 0) {
    add("left", problem.windowLeft);
    add("right", problem.windowRight);
  }
  for (size_t i = 0; i < captured.size(); ++i)
    if (!k.captures[i].indexedBy)
      to.summary +=
          " " + k.captures[i].name + "=" + std::to_string(captured[i][0]);
  if (liveNaN)
    to.summary += " live-nan";
}

std::string InstanceMaker::run(bool poison) {
  to.aligned = k.gpu && random.chance(0.92);
  if (k.packed)
    choosePackedSizes();
  else
    chooseSizes();
  cache = KeyCache::draw(random, k, to.b, to.sk, cuK, problem.kvLengths);
  problem.kStart = cache.starts;
  makeInputs();
  makeOutputs();
  for (const Tensor *tensor : {&key, &value})
    if (k.page && tensor->memory)
      cache.pages.share(cache.rows, *tensor, to.hk);
  if (!k.page && !k.kStart)
    plantLiveNaN();
  std::string error = ask();
  // Score functions have caps of 20 at most (Expr.cpp).
  describe();
  if (error.empty() && poison)
    poisonDeadKeys();
  cache.give(random, k, key, value, to.hk, to.aligned, to.inputs);
  return error;
}

std::string fuzz::makeInstance(const Kernel &kernel, uint64_t seed,
                               uint64_t index, bool poison,
                               Instance &instance) {
  // It refers to the instance, which holds it.
  auto maker = std::make_shared<InstanceMaker>(kernel, seed, index, instance);
  instance.emulatedErrors = [maker] { return maker->emulateAll(); };
  instance.intervals = [maker](size_t output) {
    return maker->intervals(output);
  };
  instance.largestScore = [maker] { return maker->largestScore(); };
  return maker->run(poison);
}
