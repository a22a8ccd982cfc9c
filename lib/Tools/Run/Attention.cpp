//===- Attention.cpp - Problems of --attention ----------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Attention.h"
#include "Check.h"
#include "attn/Reference/Attention.h"

#include <algorithm>
#include <cmath>

using namespace ::attn::run;
using namespace ::attn::support;
namespace reference = attn::reference;

//===----------------------------------------------------------------------===//
// Random inputs
//===----------------------------------------------------------------------===//

Random::Random(uint64_t seed, const std::string &name) : state(seed) {
  for (char c : name)
    state = (state ^ uint8_t(c)) * 0x100000001b3;
}

uint64_t Random::next() {
  // splitmix64
  uint64_t z = (state += 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

double Random::uniform() { return double(next() >> 11) * 0x1p-53; }

double Random::normal() {
  constexpr double pi = 3.141592653589793;
  double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
  return radius * std::cos(2.0 * pi * uniform());
}

int64_t Random::integer(int64_t min, int64_t max) {
  return min + int64_t(next() % uint64_t(max - min + 1));
}

HostTensor attn::run::drawTensor(const ArgInfo &arg, std::vector<int64_t> shape,
                                 uint64_t seed, const std::vector<int> &order) {
  Random random(seed, arg.name);
  HostTensor tensor = HostTensor::zeros(arg.dtype, std::move(shape), order);
  tensor.forEach([&](int64_t offset) {
    double value;
    if (isFloat(arg.dtype))
      value = random.normal();
    else if (sizeOf(arg.dtype) == 1)
      value = random.uniform() < 0.8;
    else
      value = double(random.integer(0, 8));
    storeElement(tensor.bytes.data(), arg.dtype, offset, value);
  });
  return tensor;
}

std::vector<int> attn::run::getOrder(const AttentionSpec &spec) {
  if (spec.layout == "bhsd")
    return {};
  if (spec.sequences > 0)
    return {1, 0, 2};
  return spec.layout == "bshd" ? std::vector<int>{0, 2, 1, 3}
                               : std::vector<int>{2, 0, 1, 3};
}

/// Offsets of `count` sequences that share `total` rows.
static HostTensor drawOffsets(int64_t count, int64_t total, Random random) {
  std::vector<int64_t> cuts = {0, total};
  for (int64_t i = 1; i < count; ++i)
    cuts.push_back(random.integer(0, total));
  std::sort(cuts.begin(), cuts.end());
  HostTensor tensor = HostTensor::zeros(DType::i32, {count + 1});
  for (int64_t i = 0; i <= count; ++i)
    storeElement(tensor.bytes.data(), DType::i32, i, double(cuts[i]));
  return tensor;
}

/// A number for each batch: `what` is random, or numbers joined by colons.
static Result<HostTensor> drawNumbers(const AttentionSpec &spec,
                                      const std::string &name,
                                      const std::string &what, int64_t most,
                                      Random random) {
  HostTensor tensor = HostTensor::zeros(DType::i32, {spec.b});
  std::vector<std::string> given;
  if (what != "random") {
    given = split(what, ':');
    if (int64_t(given.size()) != spec.b)
      return Failure{"expected " + name + " to be random or " +
                     std::to_string(spec.b) +
                     " numbers joined by colons, but got '" + what + "'"};
  }
  for (int64_t i = 0; i < spec.b; ++i) {
    int64_t length = random.integer(0, most);
    if (!given.empty()) {
      auto value = parseInteger(name, given[i], 0, most);
      if (!value)
        return value.takeFailure();
      length = *value;
    }
    storeElement(tensor.bytes.data(), DType::i32, i, double(length));
  }
  return tensor;
}

/// Pages of each sequence, in no order. Behind each there is room for one more,
/// which is none.
static HostTensor drawTable(const AttentionSpec &spec, Random random) {
  int64_t pages = (spec.sk + spec.page - 1) / spec.page;
  std::vector<int64_t> order(spec.b * pages);
  for (size_t i = 0; i < order.size(); ++i)
    order[i] = int64_t(i);
  for (size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[random.integer(0, int64_t(i) - 1)]);
  // Without lengths all entries count.
  int64_t width = pages + !spec.lengths.empty();
  HostTensor table = HostTensor::zeros(DType::i32, {spec.b, width});
  for (int64_t b = 0; b < spec.b; ++b)
    for (int64_t n = 0; n < width; ++n)
      storeElement(table.bytes.data(), DType::i32, b * width + n,
                   n < pages ? double(order[b * pages + n]) : -1.0);
  return table;
}

Result<HostTensor> attn::run::drawInput(const AttentionSpec &spec,
                                        const ArgInfo &arg, uint64_t seed) {
  const std::string &name = arg.name;
  Random random(seed, name);
  auto lead = [&](int64_t heads, int64_t rows, int64_t channels) {
    std::vector<int64_t> shape = {spec.b, heads, rows, channels};
    if (spec.sequences > 0)
      shape.erase(shape.begin());
    return drawTensor(arg, shape, seed, getOrder(spec));
  };
  auto broadcast = [&](const std::string &pattern) {
    std::vector<int64_t> shape = {spec.b, spec.hq, spec.sq, spec.sk};
    for (size_t i = 0; i < 4; ++i)
      if (pattern[i] == '1')
        shape[i] = 1;
    return drawTensor(arg, shape, seed);
  };
  if (name == "q")
    return lead(spec.hq, spec.sq, spec.d);
  auto ofKeys = [&](int64_t channels) {
    if (!spec.page)
      return lead(spec.hk, spec.sk, channels);
    int64_t pages = (spec.sk + spec.page - 1) / spec.page;
    return drawTensor(arg, {spec.b * pages, spec.hk, spec.page, channels}, seed,
                      getOrder(spec));
  };
  if (name == "k")
    return ofKeys(spec.d);
  if (name == "v")
    return ofKeys(spec.dv);
  if (name == "k_new" || name == "v_new")
    return lead(spec.hk, spec.append, name == "v_new" ? spec.dv : spec.d);
  if (name == "bias")
    return broadcast(spec.bias);
  if (name == "mask")
    return broadcast(spec.mask);
  if (name == "scale")
    return HostTensor::scalar(DType::f32, *spec.scale);
  if (name == "softcap")
    return HostTensor::scalar(DType::f32, *spec.softcap);
  if (name == "dropout_p")
    return HostTensor::scalar(DType::f32, *spec.dropout);
  for (auto [half, word] : {std::pair("seed_low", spec.dropoutSeed),
                            {"seed_high", spec.dropoutSeed >> 32},
                            {"offset_low", spec.dropoutOffset},
                            {"offset_high", spec.dropoutOffset >> 32}})
    if (name == std::string("dropout_") + half)
      return HostTensor::scalar(DType::i32, double(int32_t(word)));
  if (name == "window_left")
    return HostTensor::scalar(DType::i32, double(spec.window->first));
  if (name == "window_right")
    return HostTensor::scalar(DType::i32, double(spec.window->second));
  if (name == "sinks")
    return drawTensor(arg, {spec.hq}, seed);
  if (name == "kv_lengths")
    return drawNumbers(spec, "lengths", spec.lengths,
                       spec.sk - std::max<int64_t>(spec.append, 0), random);
  if (name == "k_start")
    return drawNumbers(spec, name, spec.kStart, 1 << 20, random);
  if (name == "block_table")
    return drawTable(spec, random);
  if (name == "cu_seqlens_q")
    return drawOffsets(spec.sequences, spec.sq, random);
  if (name == "cu_seqlens_k")
    return drawOffsets(spec.sequences, spec.sk, random);
  if (name == "alibi_slopes") {
    // The slopes of the paper, 2^(-8 (h + 1) / hq), for every batch.
    std::vector<int64_t> shape = {spec.hq};
    if (spec.alibi == "bh")
      shape.insert(shape.begin(), spec.b);
    HostTensor tensor = HostTensor::zeros(DType::f32, shape);
    for (int64_t i = 0; i < tensor.size(); ++i)
      storeElement(tensor.bytes.data(), DType::f32, i,
                   std::exp2(-8.0 * double(i % spec.hq + 1) / double(spec.hq)));
    return tensor;
  }
  if (name.rfind("param", 0) != 0)
    return Failure{"expected --input " + name +
                   (arg.isScalar ? "=NUMBER" : "=FILE.npy, or =random:2x3") +
                   ", which --score-mod or --mask-mod takes"};
  // A parameter of the monoid: positive, near 1.
  return HostTensor::scalar(arg.dtype, 0.5 + random.uniform());
}

//===----------------------------------------------------------------------===//
// Descriptions
//===----------------------------------------------------------------------===//

static int32_t toFlags(const std::string &pattern) {
  if (pattern.empty())
    return 0;
  int32_t flags = ATTN_GIVEN;
  constexpr int32_t bits[] = {ATTN_BROADCAST_BATCH, ATTN_BROADCAST_HEADS,
                              ATTN_BROADCAST_QUERIES, ATTN_BROADCAST_KEYS};
  for (size_t i = 0; i < 4; ++i)
    if (pattern[i] == '1')
      flags |= bits[i];
  return flags;
}

AttnAttentionDesc attn::run::makeDesc(const AttentionSpec &spec,
                                      const std::string &monoidText,
                                      const std::string &schedule) {
  AttnAttentionDesc desc = {};
  desc.structSize = sizeof(desc);
  desc.dtype = toC(spec.dtype);
  desc.headDim = spec.d;
  desc.valueDim = spec.dv;
  desc.causal = spec.causal == "none"       ? ATTN_CAUSAL_NONE
                : spec.causal == "top_left" ? ATTN_CAUSAL_TOP_LEFT
                                            : ATTN_CAUSAL_BOTTOM_RIGHT;
  desc.scale = spec.scale.has_value();
  desc.softcap = spec.softcap.has_value();
  desc.window = spec.window.has_value();
  desc.sinks = spec.sinks;
  desc.lengths = !spec.lengths.empty();
  desc.packed = spec.sequences > 0;
  desc.blockTable = int32_t(spec.page);
  desc.kStart = !spec.kStart.empty();
  desc.rolling = spec.rolling;
  desc.batchInvariant = spec.batchInvariant;
  desc.cascade = int32_t(spec.cascade);
  desc.append = spec.append >= 0;
  desc.dropout = spec.dropout.has_value();
  desc.bias = toFlags(spec.bias);
  desc.mask = toFlags(spec.mask);
  desc.biasDType = toC(spec.biasDType);
  desc.alibi = int32_t(spec.alibi.size());
  desc.monoid = monoidText.empty() ? spec.monoid.c_str() : monoidText.c_str();
  desc.numOutputs = spec.outputs;
  desc.schedule = schedule.empty() ? nullptr : schedule.c_str();
  desc.precision =
      spec.precision == "tf32" ? ATTN_PRECISION_TF32 : ATTN_PRECISION_IEEE;
  desc.scoreMod = spec.scoreMod.empty() ? nullptr : spec.scoreMod.c_str();
  desc.maskMod = spec.maskMod.empty() ? nullptr : spec.maskMod.c_str();
  if (spec.sequences == 0) {
    const int64_t sizes[] = {spec.b, spec.hq, spec.sq, spec.sk};
    std::copy_n(sizes, 4, desc.expectedSizes);
    if (spec.hk < spec.hq)
      desc.expectedKeyHeads = spec.hk;
  }
  return desc;
}

//===----------------------------------------------------------------------===//
// The reference
//===----------------------------------------------------------------------===//

/// Monoids of the prelude by the reference's names.
static std::optional<Monoid> findMonoid(const std::string &name) {
  constexpr std::pair<const char *, Monoid> table[] = {
      {"softmax", Monoid::softmax},
      {"softmax_max", Monoid::softmax},
      {"softmax_entropy", Monoid::softmaxEntropy},
      {"logsumexp", Monoid::logsumexp},
      {"sigmoid_sum", Monoid::sigmoid},
      {"relu_sum", Monoid::relu},
      {"relu2_sum", Monoid::squaredRelu},
      {"stick_breaking", Monoid::stickBreaking},
      {"alpha_compositing", Monoid::alphaCompositing},
      {"maxplus", Monoid::maxPlus},
      {"welford", Monoid::welford}};
  for (auto [key, monoid] : table)
    if (name == key)
      return monoid;
  return std::nullopt;
}

static const std::vector<double> *
findOutput(const reference::AttentionResult &result, const std::string &name) {
  if (name == "o" || name == "mean")
    return &result.out;
  if (name == "var")
    return &result.variance;
  if (name == "lse")
    return &result.lse;
  if (name == "max")
    return &result.rowMax;
  if (name == "entropy")
    return &result.entropy;
  if (name == "remainder")
    return &result.remainder;
  return nullptr;
}

namespace {
/// The inputs of a run, by name.
class Inputs {
public:
  Inputs(const Kernel &kernel, const std::vector<HostTensor> &tensors)
      : kernel(kernel), tensors(tensors) {}

  const HostTensor *find(const std::string &name) const {
    for (size_t i = 0; i < kernel.inputs.size(); ++i)
      if (kernel.inputs[i].name == name)
        return &tensors[i];
    return nullptr;
  }
  /// As [b, h, s, d], with b = 1 where it is missing.
  TensorView view(const std::string &name) const {
    const HostTensor *tensor = find(name);
    if (!tensor)
      return {};
    std::array<int64_t, 4> shape = {1, 1, 1, 1}, strides = {0, 0, 0, 0};
    size_t lead = 4 - tensor->shape.size();
    for (size_t i = lead; i < 4; ++i) {
      shape[i] = tensor->shape[i - lead];
      strides[i] = tensor->strides[i - lead];
    }
    return stridedView(tensor->bytes.data(), tensor->dtype, shape, strides);
  }
  std::vector<double> numbers(const std::string &name) const {
    std::vector<double> result;
    if (const HostTensor *tensor = find(name))
      tensor->forEach([&](int64_t offset) {
        result.push_back(
            loadElement(tensor->bytes.data(), tensor->dtype, offset));
      });
    return result;
  }
  std::vector<int32_t> integers(const std::string &name) const {
    std::vector<double> values = numbers(name);
    return std::vector<int32_t>(values.begin(), values.end());
  }

private:
  const Kernel &kernel;
  const std::vector<HostTensor> &tensors;
};
} // namespace

/// Writes the new rows to the caches among the tensors, and adds them to the
/// lengths.
static void appendRows(const AttentionSpec &spec, const Kernel &kernel,
                       std::vector<HostTensor> &tensors) {
  Inputs inputs(kernel, tensors);
  auto lengths = inputs.integers("kv_lengths");
  auto table = inputs.integers("block_table");
  auto starts = inputs.integers("k_start");
  int64_t width = int64_t(table.size()) / std::max<int64_t>(spec.b, 1);
  auto find = [&](const std::string &name) {
    return const_cast<HostTensor *>(inputs.find(name));
  };
  for (const char *name : {"k", "v"}) {
    HostTensor *cache = find(name);
    HostTensor *rows = find(std::string(name) + "_new");
    if (!cache || !rows)
      continue;
    auto at = [](const HostTensor &tensor, std::array<int64_t, 4> index) {
      int64_t offset = 0;
      for (size_t i = 0; i < 4; ++i)
        offset += index[i] * tensor.strides[i];
      return offset;
    };
    for (int64_t b = 0; b < spec.b; ++b)
      for (int64_t i = 0; i < spec.append; ++i) {
        int64_t lead = b, row = lengths[b] + i;
        if (spec.page > 0) {
          lead = table[b * width + row / spec.page];
          row %= spec.page;
        } else if (spec.rolling) {
          row = (starts[b] + row) % spec.sk;
        }
        for (int64_t h = 0; h < spec.hk; ++h)
          for (int64_t c = 0; c < rows->shape[3]; ++c)
            storeElement(cache->bytes.data(), cache->dtype,
                         at(*cache, {lead, h, row, c}),
                         loadElement(rows->bytes.data(), rows->dtype,
                                     at(*rows, {b, h, i, c})));
      }
  }
  HostTensor *after = find("kv_lengths");
  for (int64_t b = 0; b < spec.b; ++b)
    storeElement(after->bytes.data(), DType::i32, b * after->strides[0],
                 double(lengths[b] + spec.append));
}

/// A mask or a bias repeated to [b, hq, sq, sk].
static TensorView expand(TensorView view, std::array<int64_t, 4> shape) {
  if (!view)
    return view;
  for (size_t i = 0; i < 4; ++i)
    if (view.shape[i] == 1 && shape[i] != 1)
      view.strides[i] = 0;
  view.shape = shape;
  return view;
}

static AttentionProblem makeProblem(const AttentionSpec &spec,
                                    const Inputs &inputs, Monoid monoid) {
  AttentionProblem problem;
  problem.q = inputs.view("q");
  problem.k = inputs.view("k");
  problem.v = inputs.view("v");
  problem.monoid = monoid;
  problem.causal = spec.causal == "none"       ? Causal::none
                   : spec.causal == "top_left" ? Causal::topLeft
                                               : Causal::bottomRight;
  problem.scale = spec.scale;
  problem.softcap = spec.softcap.value_or(0.0);
  if (spec.window)
    std::tie(problem.windowLeft, problem.windowRight) = *spec.window;
  problem.blockTable = inputs.integers("block_table");
  if (spec.page > 0)
    problem.tablePages =
        int64_t(problem.blockTable.size()) / std::max<int64_t>(spec.b, 1);
  problem.kStart = inputs.integers("k_start");
  problem.rolling = spec.rolling;
  problem.dropout = {float(spec.dropout.value_or(0.0)), spec.dropoutSeed,
                     spec.dropoutOffset};
  // Keys of pages that are not full have no element.
  std::array<int64_t, 4> pairs = {spec.b, spec.hq, spec.sq,
                                  problem.keyCapacity()};
  problem.mask = expand(inputs.view("mask"), pairs);
  problem.bias = expand(inputs.view("bias"), pairs);
  problem.alibiSlopes = inputs.numbers("alibi_slopes");
  problem.sinks = inputs.numbers("sinks");
  problem.kvLengths = inputs.integers("kv_lengths");
  problem.cuSeqlensQ = inputs.integers("cu_seqlens_q");
  problem.cuSeqlensK = inputs.integers("cu_seqlens_k");
  return problem;
}

/// The part of a problem that computes one query head of one batch.
static AttentionProblem slice(const AttentionProblem &problem, int64_t b,
                              int64_t h) {
  AttentionProblem part = problem;
  part.dropout.firstBatch = b;
  part.dropout.firstHead = h;
  int64_t heads = problem.q.shape[1];
  int64_t group = heads / std::max<int64_t>(problem.k.shape[1], 1);
  auto take = [&](TensorView &view, int64_t batch, int64_t head) {
    if (!view)
      return;
    view.data = static_cast<const char *>(view.data) +
                (batch * view.strides[0] + head * view.strides[1]) *
                    int64_t(sizeOf(view.dtype));
    view.shape[0] = view.shape[1] = 1;
  };
  take(part.q, b, h);
  bool isPaged = problem.isPaged();
  for (TensorView *view : {&part.k, &part.v}) {
    int64_t pages = view->shape[0];
    take(*view, isPaged ? 0 : b, h / group);
    if (isPaged && *view)
      view->shape[0] = pages;
  }
  if (isPaged) {
    auto row = problem.blockTable.begin() + b * problem.tablePages;
    part.blockTable.assign(row, row + problem.tablePages);
  }
  if (!problem.kStart.empty())
    part.kStart = {problem.kStart[b]};
  take(part.mask, b, h);
  take(part.bias, b, h);
  if (!problem.alibiSlopes.empty()) {
    bool perBatch = int64_t(problem.alibiSlopes.size()) != heads;
    part.alibiSlopes = {problem.alibiSlopes[perBatch ? b * heads + h : h]};
  }
  if (!problem.sinks.empty())
    part.sinks = {problem.sinks[h]};
  if (!problem.kvLengths.empty())
    part.kvLengths = {problem.kvLengths[b]};
  return part;
}

static void append(reference::AttentionResult &all,
                   const reference::AttentionResult &part) {
  auto join = [](std::vector<double> &to, const std::vector<double> &from) {
    to.insert(to.end(), from.begin(), from.end());
  };
  join(all.out, part.out);
  join(all.variance, part.variance);
  join(all.lse, part.lse);
  join(all.rowMax, part.rowMax);
  join(all.entropy, part.entropy);
  join(all.remainder, part.remainder);
}

Result<std::string>
attn::run::checkAttention(const AttentionSpec &spec, const Kernel &kernel,
                          const std::vector<HostTensor> &inputs,
                          const std::vector<HostTensor> &outputs,
                          const Progress &progress) {
  std::optional<Monoid> monoid = findMonoid(spec.monoid);
  if (!monoid)
    return Failure{"expected a monoid that the reference knows, but got '" +
                   spec.monoid + "'"};
  // A GPU's caches are not ours, and a CPU's have the rows already.
  std::vector<HostTensor> caches;
  if (spec.append >= 0) {
    caches = inputs;
    appendRows(spec, kernel, caches);
  }
  AttentionProblem problem = makeProblem(
      spec, Inputs(kernel, spec.append >= 0 ? caches : inputs), *monoid);
  if (Status ok = validate(problem); !ok)
    return ok.takeFailure();

  // Head by head: what the reference keeps of one is small.
  int64_t batches = problem.q.shape[0], heads = problem.q.shape[1];
  using Evaluate = std::function<Result<reference::AttentionResult>(
      const AttentionProblem &)>;
  auto evaluate =
      [&](const Evaluate &one) -> Result<reference::AttentionResult> {
    reference::AttentionResult all;
    for (int64_t i = 0; i < batches * heads; ++i) {
      progress("reference: head " + std::to_string(i + 1) + " of " +
               std::to_string(batches * heads));
      auto part = one(slice(problem, i / heads, i % heads));
      if (!part)
        return part.takeFailure();
      append(all, *part);
    }
    return all;
  };

  auto exact = evaluate(
      [](const AttentionProblem &part) { return reference::attention(part); });
  if (!exact)
    return exact.takeFailure();
  Meaning meaning;
  double largestValue = 0.0;
  for (double x : Inputs(kernel, inputs).numbers("v"))
    if (std::isfinite(x))
      largestValue = std::max(largestValue, std::fabs(x));
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string &name = kernel.outputs[i].name;
    const std::vector<double> *want = findOutput(*exact, name);
    meaning.exact.push_back(want ? std::optional(*want) : std::nullopt);
    meaning.scales.push_back(name == "o" || name == "mean" ? largestValue
                             : name == "var" ? largestValue * largestValue
                                             : 1.0);
  }
  meaning.emulation.dtype = spec.dtype;
  meaning.hasOperands = true;
  // GPUs round where they may, CPUs do not.
  meaning.emulation.tf32 = spec.precision == "tf32" && kernel.isOfGpu();
  meaning.emulate =
      [&](const reference::Emulation &how) -> Result<Meaning::Outputs> {
    auto emulated = evaluate([&](const AttentionProblem &part) {
      return reference::emulatedAttention(part, how);
    });
    if (!emulated)
      return emulated.takeFailure();
    Meaning::Outputs results;
    for (const ArgInfo &output : kernel.outputs) {
      const std::vector<double> *found = findOutput(*emulated, output.name);
      results.push_back(found ? *found : std::vector<double>());
    }
    return results;
  };
  return checkOutputs(meaning, kernel, outputs, progress);
}

//===----------------------------------------------------------------------===//
// Work
//===----------------------------------------------------------------------===//

/// The first and the last key within the causal bound and the window of a row.
static std::pair<int64_t, int64_t>
keysOfRow(const AttentionSpec &spec, int64_t i, int64_t sq, int64_t sk) {
  int64_t now = i + (spec.causal == "top_left" ? 0 : sk - sq);
  int64_t low = 0, high = sk - 1;
  if (spec.causal != "none")
    high = std::min(high, now);
  if (spec.window && spec.window->first >= 0)
    low = std::max(low, now - spec.window->first);
  if (spec.window && spec.window->second >= 0)
    high = std::min(high, now + spec.window->second);
  return {low, high};
}

/// Live pairs of one head.
static double countPairs(const AttentionSpec &spec, int64_t sq, int64_t sk) {
  if (spec.causal == "none" && !spec.window)
    return double(sq) * double(sk);
  double pairs = 0;
  for (int64_t i = 0; i < sq; ++i) {
    auto [low, high] = keysOfRow(spec, i, sq, sk);
    pairs += double(std::max<int64_t>(0, high - low + 1));
  }
  return pairs;
}

namespace {
/// What tiles that hold a live pair of one head come to.
struct Touched {
  /// Pairs of whole tiles: of whole warpgroups on a GPU, of whole `rows`.
  double groupPairs = 0, pairs = 0;
  /// Keys that the tiles of queries read, each its own, and whole tiles of them
  /// that they walk over; tiles of queries.
  double keys = 0, walked = 0, blocks = 0;
};
} // namespace

/// Pairs of the tile of queries from `row0` on. Warpgroups, of 64 rows, end
/// each with the last key of its own; one without rows takes part in the first
/// tile of keys. Warps end together.
static double countGroupPairs(const AttentionSpec &spec, int64_t row0,
                              int64_t last, int64_t sq, int64_t sk,
                              const Tiles &tiles) {
  auto endOf = [&](int64_t row) {
    return (keysOfRow(spec, row, sq, sk).second / tiles.blockK + 1) *
           tiles.blockK;
  };
  constexpr int64_t groupRows = 64;
  int64_t unit = tiles.rows == groupRows ? tiles.rows : tiles.blockQ;
  int64_t begin =
      keysOfRow(spec, row0, sq, sk).first / tiles.blockK * tiles.blockK;
  double pairs = 0;
  for (int64_t row = row0; row < row0 + tiles.blockQ; row += unit) {
    int64_t end = begin + tiles.blockK;
    if (row <= last)
      end = std::max(end, endOf(std::min(row + unit - 1, last)));
    pairs += double(end - begin) * double(unit);
  }
  return pairs;
}

static void addTouched(const AttentionSpec &spec, int64_t sq, int64_t sk,
                       const Tiles &tiles, Touched &touched) {
  int64_t rows = std::max<int64_t>(tiles.rows, 1);
  for (int64_t i = 0; i < sq; i += tiles.blockQ) {
    // Both ends rise with the row.
    int64_t low = keysOfRow(spec, i, sq, sk).first;
    int64_t last = std::min(i + tiles.blockQ, sq) - 1;
    int64_t high = keysOfRow(spec, last, sq, sk).second;
    ++touched.blocks;
    if (low > high)
      continue;
    int64_t begin = low / tiles.blockK * tiles.blockK;
    int64_t end = (high / tiles.blockK + 1) * tiles.blockK;
    touched.groupPairs += countGroupPairs(spec, i, last, sq, sk, tiles);
    touched.pairs +=
        double(end - begin) * double((last - i + rows) / rows * rows);
    touched.keys += double(std::min(end, sk) - begin);
    touched.walked += double(end - begin);
  }
}

Work attn::run::countWork(const AttentionSpec &spec, const Kernel &kernel,
                          const std::vector<HostTensor> &tensors, Tiles tiles) {
  Inputs inputs(kernel, tensors);
  Work work;
  Touched head;
  std::vector<int32_t> lengths = inputs.integers("kv_lengths"),
                       cuQ = inputs.integers("cu_seqlens_q"),
                       cuK = inputs.integers("cu_seqlens_k");
  int64_t count = cuQ.empty() ? spec.b : int64_t(cuQ.size()) - 1;
  for (int64_t i = 0; i < count; ++i) {
    int64_t sq = cuQ.empty() ? spec.sq : cuQ[i + 1] - cuQ[i];
    int64_t sk = cuK.empty() ? spec.sk : cuK[i + 1] - cuK[i];
    work.allPairs += double(spec.hq) * double(sq) * double(sk);
    if (!lengths.empty())
      sk = lengths[i];
    work.livePairs += double(spec.hq) * countPairs(spec, sq, sk);
    if (tiles.blockQ > 0 && tiles.blockK > 0)
      addTouched(spec, sq, sk, tiles, head);
  }
  bool hasValues = inputs.find("v") != nullptr;
  double perPair = 2.0 * double(spec.d + (hasValues ? spec.dv : 0));
  work.flops = work.livePairs * perPair;
  // Tiles are as wide as whole panels of shared memory. Products of warpgroups
  // leave out steps over channels that only fill these up, and such columns of
  // their sums.
  constexpr int64_t panel = 64, step = 16, columns = 8, groupRows = 64;
  auto padded = [](int64_t width, int64_t unit) {
    return double((width + unit - 1) / unit * unit);
  };
  bool isGroup = tiles.rows == groupRows;
  double heads = double(spec.hq);
  work.touchedFlops =
      heads * head.groupPairs * 2.0 *
      (padded(spec.d, isGroup ? step : panel) +
       (hasValues ? padded(spec.dv, isGroup ? columns : panel) : 0));
  work.touchedPairs = heads * head.pairs;
  work.touchedKeys = heads * head.keys;
  work.walkedKeys = heads * head.walked;
  work.blocks = heads * head.blocks;
  return work;
}
