//===- ScanInstance.cpp - What is fixed when a scan is run ----------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ScanInstance.h"
#include "Random.h"
#include "attn/Reference/Scan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

using namespace ::attn;
using namespace ::attn::fuzz;
using support::DType;

static constexpr double infinity = std::numeric_limits<double>::infinity();

namespace {
/// The numbers of an instance, apart from how its tensors lie in memory.
class Maker {
public:
  Maker(const ScanKernel &kernel, uint64_t seed, int64_t index)
      : kernel(kernel), d(kernel.desc), r(seed ^ 0x1257A, uint64_t(index)) {}

  ScanInstance make();
  /// The expected tensors, exactly or as an emulation has them.
  std::vector<std::vector<double>>
  evaluate(const reference::ScanOrder *order) const;
  /// Whether kernels may have reference::ScanOrder::narrow.
  bool hasNarrowReads() const {
    return d.dtype == ATTN_BF16 && !d.l2norm && kernel.feature.empty() &&
           !d.tokens && d.chunk % 32 == 0;
  }

private:
  void drawSizes();
  void drawInputs();
  void drawCuts();
  void addStates(const std::string &prefix, int64_t count);
  std::vector<int64_t> matrixShape(int64_t count) const {
    if (d.valuesFirst)
      return {count, H, d.valueDim, d.keyDim};
    return {count, H, d.keyDim, d.valueDim};
  }
  /// Where element `i` of a matrix of dk x dv is in one as states have it.
  int64_t placeOf(int64_t i) const {
    return d.valuesFirst ? i % d.valueDim * d.keyDim + i / d.valueDim : i;
  }
  std::vector<int64_t> rowShape(int64_t heads, int64_t channels) const;
  Tensor &add(const std::string &name, DType dtype, std::vector<int64_t> sizes,
              bool hasTokens, const std::function<double()> &draw);
  void addNumbers(const std::string &name, int64_t channels,
                  const std::function<double()> &draw) {
    add(name, DType::f32, rowShape(H, channels), true, draw);
  }
  void drawDecay();
  void shapeKeys(Tensor &keys);
  void spoilTail();

  const Tensor *find(const std::string &name) const {
    for (const ScanTensor &input : instance.inputs)
      if (input.name == name)
        return &input.tensor;
    return nullptr;
  }
  int64_t beginOf(int64_t n) const { return d.packed ? cu[size_t(n)] : 0; }
  int64_t endOf(int64_t n) const {
    if (d.lengths)
      return std::clamp<int64_t>(lengths[size_t(n)], 0, t);
    return d.packed ? cu[size_t(n + 1)] : t;
  }
  std::vector<double> rows(const std::string &name, int64_t sequence,
                           int64_t head) const;
  std::vector<double> features(const std::string &name, int64_t sequence,
                               int64_t head, bool isExact) const;
  reference::ScanProblem problem(int64_t sequence, int64_t outputHead,
                                 bool isExact) const;
  reference::ScanState stateOf(int64_t sequence, int64_t head) const;
  int64_t slotOf(int64_t sequence) const {
    int64_t slot = slots[size_t(sequence)];
    return slot >= 0 && slot < poolSize ? slot : -1;
  }

  const ScanKernel &kernel;
  const AttnScanDesc &d;
  Random r;
  ScanInstance instance;
  int64_t b = 1, H = 1, hq = 1, hk = 1, hv = 1, t = 0, sequences = 1;
  int64_t poolSize = 0;
  std::vector<int64_t> cu, lengths, slots;
  /// Pools as they were: a run writes them.
  std::vector<std::vector<double>> pools;
};
} // namespace

//===----------------------------------------------------------------------===//
// Sizes and contents
//===----------------------------------------------------------------------===//

void Maker::drawSizes() {
  auto tokens = [&] {
    return r.chance(0.8) ? r.pick<int64_t>({0, 1, 2, 7, 15, 16, 17, 31, 33, 63,
                                            64, 65, 90, 127, 128, 129})
                         : r.range(0, 260);
  };
  H = r.pick<int64_t>({1, 1, 2, 3, 4, 6});
  auto divisor = [&] {
    int64_t n = r.range(1, H);
    while (H % n)
      --n;
    return n;
  };
  hk = hv = H;
  if (r.chance(0.5))
    (r.chance(0.5) ? hk : hv) = divisor();
  hq = r.chance(0.4) ? H : r.chance(0.5) ? divisor() : H * r.range(2, 3);
  if (!d.packed) {
    b = sequences = r.chance(0.05) ? 0 : r.range(1, 3);
    t = tokens();
    if (d.tokens)
      t = d.tokens;
    return;
  }
  sequences = r.range(0, 5);
  cu = {0};
  bool noRows = r.chance(0.05);
  for (int64_t n = 0; n < sequences; ++n)
    cu.push_back(cu.back() + (noRows || r.chance(0.25) ? 0 : tokens()));
  t = cu.back() + (r.chance(0.4) ? r.range(1, 40) : 0);
}

std::vector<int64_t> Maker::rowShape(int64_t heads, int64_t channels) const {
  std::vector<int64_t> shape = {b, heads, t};
  if (d.packed)
    shape.erase(shape.begin());
  if (channels)
    shape.push_back(channels);
  return shape;
}

Tensor &Maker::add(const std::string &name, DType dtype,
                   std::vector<int64_t> sizes, bool hasTokens,
                   const std::function<double()> &draw) {
  bool isPool = name.rfind("pool_", 0) == 0;
  Tensor tensor = makeTensor(r, dtype, std::move(sizes), Filling::Poison,
                             /*mayRepeat=*/!isPool);
  tensor.forEach([&](int64_t at, int64_t) { tensor.set(at, draw()); });
  instance.inputs.push_back(
      {name, tensor, hasTokens ? (d.packed ? 1 : 2) : -1});
  return instance.inputs.back().tensor;
}

/// Rows of norm 1, with which delta rules do not grow; at times equal, or close
/// to each other.
void Maker::shapeKeys(Tensor &keys) {
  double share = r.pick({0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.9, 1.0});
  int64_t width = keys.sizes.back();
  std::vector<double> common, row, norms;
  for (int64_t c = 0; c < width; ++c)
    common.push_back(r.normal());
  std::vector<int64_t> seen;
  keys.forEach([&](int64_t at, int64_t n) {
    row.push_back(share * common[size_t(n % width)] +
                  (1 - share) * keys.get(at));
    seen.push_back(at);
    if (n % width + 1 < width)
      return;
    double squares = 0;
    for (double x : row)
      squares += x * x;
    norms.push_back(std::sqrt(squares) + 1e-30);
    row.clear();
  });
  std::vector<double> given;
  for (int64_t at : seen)
    given.push_back(keys.get(at));
  for (size_t i = 0; i < seen.size(); ++i)
    keys.set(seen[i],
             (share * common[i % size_t(width)] + (1 - share) * given[i]) /
                 norms[i / size_t(width)]);
}

void Maker::drawDecay() {
  int64_t channels = d.gates == ATTN_GATES_KEY     ? d.keyDim
                     : d.gates == ATTN_GATES_VALUE ? d.valueDim
                                                   : 0;
  double size = r.pick({1e-5, 1e-3, 0.1, 1.0, 10.0});
  double rare = r.pick({0.0, 0.0, 0.03, 0.5});
  bool areEqual = r.chance(0.2);
  addNumbers("decay", channels, [&] {
    if (r.chance(rare))
      return r.pick({0.0, -infinity, -1e4, -1e6, 0.01});
    return areEqual ? -size : size * std::log(r.uniform() + 1e-9);
  });
  // The ends and the middles of chunks, in one channel or in all.
  if (r.chance(0.3) && t > 0) {
    Tensor &decay = instance.inputs.back().tensor;
    int64_t token =
        std::min(r.pick<int64_t>({0, 7, 15, 16, 31, 63, 64}), t - 1);
    int64_t channel =
        r.chance(0.5) || !channels ? -1 : r.range(0, channels - 1);
    double gate = r.pick({-infinity, -1e4, 0.0});
    int64_t width = std::max<int64_t>(channels, 1);
    decay.forEach([&](int64_t at, int64_t n) {
      if (n / width % t == token && (channel < 0 || n % width == channel))
        decay.set(at, gate);
    });
  }
}

void Maker::addStates(const std::string &prefix, int64_t count) {
  // Of no state at all: nothing that the first weight meets.
  bool isNone = d.logWeight && r.chance(0.2);
  add(prefix + "S", DType::f32, matrixShape(count), false,
      [&] { return isNone ? 0 : r.normal(); });
  if (d.normalize)
    add(prefix + "z", DType::f32, {count, H, d.keyDim}, false,
        [&] { return isNone ? 0 : r.uniform(0.5, 2); });
  if (d.logWeight)
    add(prefix + "m", DType::f32, {count, H}, false,
        [&] { return isNone ? -infinity : r.uniform(-3, 3); });
}

void Maker::drawInputs() {
  auto dtype = static_cast<DType>(d.dtype);
  // Denominators that are no small differences.
  bool isPositive = d.normalize && kernel.feature.empty();
  auto normal = [&] { return isPositive ? std::fabs(r.normal()) : r.normal(); };
  add("q", dtype, rowShape(hq, d.keyDim), true, normal);
  shapeKeys(add("k", dtype, rowShape(hk, d.keyDim), true, normal));
  if (isPositive) {
    Tensor &keys = instance.inputs.back().tensor;
    if (!keys.repeats())
      keys.forEach(
          [&](int64_t at, int64_t) { keys.set(at, std::fabs(keys.get(at))); });
  }
  add("v", dtype, rowShape(hv, d.valueDim), true, [&] { return r.normal(); });
  if (d.scale) {
    double scale =
        r.chance(0.7) ? 1 / std::sqrt(double(d.keyDim)) : r.uniform(0.1, 2);
    add("scale", DType::f32, {}, false, [&] { return scale; });
  }
  if (d.gates)
    drawDecay();
  if (d.weight)
    addNumbers("weight", 0, [&] { return r.uniform(0, 2); });
  if (d.logWeight) {
    double size = r.pick({1.0, 9.0});
    addNumbers("log_weight", 0, [&] {
      return r.chance(0.03) ? -infinity : r.uniform(-size, size);
    });
  }
  if (d.delta) {
    double fixed = r.pick({-1.0, -1.0, 0.0, 1.0, 1.99});
    addNumbers("beta", 0, [&] { return fixed < 0 ? r.uniform() : fixed; });
  }
  if (d.erase) {
    double size = 0.5 / std::sqrt(double(d.keyDim));
    addNumbers("erase_a", d.keyDim, [&] { return size * r.normal(); });
    addNumbers("erase_b", d.keyDim, [&] { return size * r.normal(); });
  }
  if (d.bonus)
    add("bonus", DType::f32, {H, d.keyDim}, false, [&] { return r.normal(); });
  if (d.init)
    addStates("init_", sequences);
  size_t next = 0;
  if (d.packed)
    add("cu", DType::i32, {sequences + 1}, false,
        [&] { return double(cu[next++]); });
  for (int64_t n = 0; d.lengths && n < sequences; ++n)
    lengths.push_back(r.chance(0.1)   ? r.pick<int64_t>({-1, INT32_MIN})
                      : r.chance(0.2) ? r.pick<int64_t>({t, t + 1, INT32_MAX})
                                      : r.range(0, t));
  next = 0;
  if (d.lengths)
    add("lengths", DType::i32, {sequences}, false,
        [&] { return double(lengths[next++]); });
  if (!d.slots)
    return;
  poolSize = sequences + r.range(0, 3);
  // Each its own, some none; numbers beyond the pool are none too.
  std::vector<int64_t> all;
  for (int64_t n = 0; n < poolSize; ++n)
    all.push_back(n);
  for (size_t i = all.size(); i > 1; --i)
    std::swap(all[i - 1], all[size_t(r.range(0, int64_t(i) - 1))]);
  for (int64_t n = 0; n < sequences; ++n)
    slots.push_back(r.chance(0.2) ? r.pick<int64_t>({-1, -1, INT32_MAX, -7})
                                  : all[size_t(n)]);
  addStates("pool_", poolSize);
  next = 0;
  add("slot", DType::i32, {sequences}, false,
      [&] { return double(slots[next++]); });
}

/// Rows behind the last sequence, or behind a length, are no numbers.
void Maker::spoilTail() {
  if (!d.lengths && (!d.packed || cu.back() == t))
    return;
  for (ScanTensor &input : instance.inputs) {
    if (input.tokenAxis < 0)
      continue;
    Tensor &tensor = input.tensor;
    auto axis = static_cast<size_t>(input.tokenAxis);
    int64_t width = tensor.sizes.size() > axis + 1 ? tensor.sizes.back() : 1;
    bool isInfinite = r.chance(0.3);
    // Batches that are one in memory may have other lengths.
    int64_t longest = d.packed ? cu.back() : 0;
    for (int64_t n = 0; d.lengths && n < sequences; ++n)
      longest = std::max(longest, endOf(n));
    bool isShared = d.lengths && tensor.repeats();
    tensor.forEach([&](int64_t at, int64_t n) {
      int64_t batch = n / width / t / tensor.sizes[axis - 1];
      int64_t end = d.packed || isShared ? longest : endOf(batch);
      if (n / width % t >= end)
        tensor.set(at, isInfinite ? infinity : std::nan(""));
    });
  }
}

void Maker::drawCuts() {
  bool keepsState = d.slots || (d.init && d.final);
  // In pieces that each have the state of the one before: of some tokens, then
  // one by one.
  if (keepsState && !d.packed && !d.lengths && !d.whole && t > 1 &&
      r.chance(0.5)) {
    int64_t cut = r.range(1, t - 1);
    instance.cuts.push_back(cut);
    for (int64_t n = r.range(0, 4); n > 0 && cut + 1 < t; --n)
      instance.cuts.push_back(++cut);
  }
  // Sequences without a slot would lose theirs.
  for (int64_t n = 0; d.slots && n < sequences; ++n)
    if (slotOf(n) < 0)
      instance.cuts.clear();
  instance.cuts.push_back(t);
}

//===----------------------------------------------------------------------===//
// What it means
//===----------------------------------------------------------------------===//

std::vector<double> Maker::rows(const std::string &name, int64_t sequence,
                                int64_t head) const {
  std::vector<double> values;
  const Tensor *tensor = find(name);
  if (!tensor)
    return values;
  size_t lead = d.packed ? 1 : 2;
  bool isWide = tensor->sizes.size() > lead + 1;
  for (int64_t i = beginOf(sequence); i < endOf(sequence); ++i)
    for (int64_t c = 0; c < (isWide ? tensor->sizes.back() : 1); ++c) {
      std::vector<int64_t> at = {sequence, head, i, c};
      if (d.packed)
        at.erase(at.begin());
      at.resize(tensor->sizes.size());
      values.push_back(tensor->get(tensor->at(at)));
    }
  return values;
}

std::vector<double> Maker::features(const std::string &name, int64_t sequence,
                                    int64_t head, bool isExact) const {
  std::vector<double> x = rows(name, sequence, head);
  auto rounded = [&](double value) {
    return isExact ? value : double(float(value));
  };
  for (double &element : x)
    element = applyFeature(kernel.feature, element, isExact);
  auto width = static_cast<size_t>(d.keyDim);
  for (size_t row = 0; d.l2norm && row < x.size(); row += width) {
    double squares = 0;
    for (size_t c = row; c < row + width; ++c)
      squares = rounded(squares + x[c] * x[c]);
    for (size_t c = row; c < row + width; ++c)
      x[c] = rounded(x[c] / rounded(std::sqrt(squares + 1e-6)));
  }
  return x;
}

reference::ScanProblem Maker::problem(int64_t sequence, int64_t outputHead,
                                      bool isExact) const {
  int64_t outputs = std::max(hq, H), head = outputHead * H / outputs;
  reference::ScanProblem p;
  p.tokens = endOf(sequence) - beginOf(sequence);
  p.keyChannels = d.keyDim;
  p.valueChannels = d.valueDim;
  p.q = features("q", sequence, outputHead * hq / outputs, isExact);
  p.k = features("k", sequence, head * hk / H, isExact);
  p.v = rows("v", sequence, head * hv / H);
  if (const Tensor *scale = find("scale"))
    p.scale = scale->get(scale->first);
  p.gates = static_cast<reference::ScanProblem::Gates>(d.gates);
  p.decay = rows("decay", sequence, head);
  p.weight = rows("weight", sequence, head);
  p.logWeight = rows("log_weight", sequence, head);
  p.beta = rows("beta", sequence, head);
  p.eraseA = rows("erase_a", sequence, head);
  p.eraseB = rows("erase_b", sequence, head);
  if (const Tensor *bonus = find("bonus"))
    for (int64_t c = 0; c < d.keyDim; ++c)
      p.bonus.push_back(bonus->get(bonus->at({head, c})));
  p.eraseBefore = d.erase == ATTN_ERASE_BEFORE;
  p.readBefore = d.readBefore;
  p.whole = d.whole;
  p.normalize = d.normalize;
  return p;
}

reference::ScanState Maker::stateOf(int64_t sequence, int64_t head) const {
  reference::ScanState state;
  int64_t where = d.slots ? slotOf(sequence) : sequence;
  if ((!d.init && !d.slots) || where < 0)
    return state;
  size_t next = 0;
  auto part = [&](const char *name, int64_t size) {
    std::vector<double> values;
    size_t pool = next++;
    const Tensor *init = d.slots ? nullptr : find(std::string("init_") + name);
    for (int64_t i = 0; i < size; ++i) {
      if (!init) {
        int64_t place = pool == 0 ? placeOf(i) : i;
        values.push_back(
            pools[pool][size_t((where * H + head) * size + place)]);
        continue;
      }
      std::vector<int64_t> at = {where, head, i / d.valueDim, i % d.valueDim};
      if (d.valuesFirst)
        std::swap(at[2], at[3]);
      if (init->sizes.size() == 3)
        at[2] = i;
      at.resize(init->sizes.size());
      values.push_back(init->get(init->at(at)));
    }
    return values;
  };
  state.matrix = part("S", d.keyDim * d.valueDim);
  if (d.normalize)
    state.sum = part("z", d.keyDim);
  if (d.logWeight)
    state.largest = part("m", 1).front();
  return state;
}

std::vector<std::vector<double>>
Maker::evaluate(const reference::ScanOrder *order) const {
  int64_t outputs = std::max(hq, H);
  std::vector<std::vector<double>> results(1);
  results[0].assign(size_t(b * outputs * t * d.valueDim), 0.0);
  std::vector<int64_t> sizes = {d.keyDim * d.valueDim};
  if (d.normalize)
    sizes.push_back(d.keyDim);
  if (d.logWeight)
    sizes.push_back(1);
  for (size_t i = 0; i < sizes.size(); ++i)
    if (d.slots)
      results.push_back(pools[i]);
    else if (d.final)
      results.emplace_back(size_t(sequences * H * sizes[i]));
  for (int64_t n = 0; n < sequences; ++n)
    for (int64_t o = 0; o < outputs; ++o) {
      int64_t head = o * H / outputs;
      reference::ScanProblem p = problem(n, o, order == nullptr);
      reference::ScanState state = stateOf(n, head);
      std::vector<double> rows = order
                                     ? reference::emulatedScan(p, state, *order)
                                     : reference::scan(p, state);
      int64_t first = d.packed ? o * t + cu[size_t(n)] : (n * outputs + o) * t;
      std::copy(rows.begin(), rows.end(),
                results[0].begin() + first * d.valueDim);
      int64_t where = d.slots ? slotOf(n) : n;
      if (results.size() == 1 || where < 0)
        continue;
      size_t next = 1;
      auto store = [&](const std::vector<double> &part) {
        std::copy(part.begin(), part.end(),
                  results[next++].begin() +
                      (where * H + head) * int64_t(part.size()));
      };
      std::vector<double> matrix(state.matrix.size());
      for (size_t i = 0; i < matrix.size(); ++i)
        matrix[size_t(placeOf(int64_t(i)))] = state.matrix[i];
      store(matrix);
      if (d.normalize)
        store(state.sum);
      if (d.logWeight)
        store({state.largest});
    }
  return results;
}

ScanInstance Maker::make() {
  drawSizes();
  drawInputs();
  for (const ScanTensor &input : instance.inputs)
    if (input.name.rfind("pool_", 0) == 0) {
      pools.emplace_back();
      input.tensor.forEach([&](int64_t at, int64_t) {
        pools.back().push_back(input.tensor.get(at));
      });
    }
  drawCuts();
  spoilTail();
  instance.outputAxis = d.packed ? 1 : 2;
  auto output = [&](DType dtype, std::vector<int64_t> sizes) {
    instance.outputs.push_back(makeTensor(r, dtype, std::move(sizes),
                                          Filling::Canary,
                                          /*mayRepeat=*/false));
  };
  output(static_cast<DType>(d.dtype), rowShape(std::max(hq, H), d.valueDim));
  if (d.final) {
    output(DType::f32, matrixShape(sequences));
    if (d.normalize)
      output(DType::f32, {sequences, H, d.keyDim});
    if (d.logWeight)
      output(DType::f32, {sequences, H});
  }
  std::vector<std::vector<double>> exact = evaluate(nullptr);
  for (size_t i = 0; i < instance.outputs.size(); ++i)
    instance.expected.push_back({i ? "state " + std::to_string(i) : "o",
                                 instance.outputs[i], exact[i]});
  for (const ScanTensor &input : instance.inputs)
    if (input.name.rfind("pool_", 0) == 0)
      instance.expected.push_back(
          {input.name, input.tensor, exact[instance.expected.size()]});
  instance.summary = "b=" + std::to_string(sequences) +
                     " hq=" + std::to_string(hq) + " hk=" + std::to_string(hk) +
                     " hv=" + std::to_string(hv) + " t=" + std::to_string(t) +
                     (instance.cuts.size() > 1
                          ? " pieces=" + std::to_string(instance.cuts.size())
                          : "");
  return instance;
}

ScanInstance fuzz::makeScanInstance(const ScanKernel &kernel, uint64_t seed,
                                    int64_t index) {
  auto maker = std::make_shared<Maker>(kernel, seed, index);
  ScanInstance instance = maker->make();
  auto known = std::make_shared<std::vector<reference::Errors>>();
  auto done = std::make_shared<size_t>(0);
  std::vector<std::vector<double>> exact;
  for (const ScanExpected &expected : instance.expected)
    exact.push_back(expected.exact);
  known->resize(exact.size());
  instance.emulatedErrors = [=](size_t index, bool all) {
    static const reference::ScanOrder orders[] = {
        {64, 4, false},      {1, 1, false},         {16, 8, true},
        {16, 1, false},      {128, 16, true},       {64, 16, false},
        {1, 4, true},        {32, 1, true},         {32, 16, false, true},
        {64, 4, true, true}, {128, 16, false, true}};
    for (; *done < (all ? std::size(orders) : 1); ++*done) {
      if (orders[*done].narrow && !maker->hasNarrowReads())
        continue;
      auto emulated = maker->evaluate(&orders[*done]);
      for (size_t i = 0; i < exact.size(); ++i)
        (*known)[i].raise(reference::maxErrors(exact[i], emulated[i]));
    }
    return (*known)[index];
  };
  return instance;
}
