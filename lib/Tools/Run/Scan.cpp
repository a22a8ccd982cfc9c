//===- Scan.cpp - What --scan says ----------------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Scan.h"
#include "Attention.h"
#include "Options.h"
#include "attn-c/Scans.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

using namespace ::attn::run;
using namespace ::attn::support;

static const std::vector<std::string> decays = {"none", "head", "key", "value"};
static const std::vector<std::string> erases = {"none", "after", "before"};

static std::string joinWords(const std::vector<std::string> &words) {
  std::string text;
  for (const std::string &word : words)
    text += (text.empty() ? "" : ", ") + word;
  return text;
}

static int32_t numberOf(const std::string &word,
                        const std::vector<std::string> &words) {
  return int32_t(std::find(words.begin(), words.end(), word) - words.begin());
}

Result<ScanSpec> attn::run::parseScan(const std::string &text) {
  ScanSpec spec;
  const std::map<std::string, int64_t *> numbers = {
      {"b", &spec.b},           {"h", &spec.h},
      {"hq", &spec.hq},         {"hk", &spec.hk},
      {"hv", &spec.hv},         {"t", &spec.t},
      {"dk", &spec.dk},         {"dv", &spec.dv},
      {"weight", &spec.weight}, {"log_weight", &spec.logWeight},
      {"delta", &spec.delta},   {"read_before", &spec.readBefore},
      {"bonus", &spec.bonus},   {"whole", &spec.whole},
      {"init", &spec.init},     {"normalize", &spec.normalize},
      {"chunk", &spec.chunk}};
  const std::map<std::string,
                 std::pair<std::string *, const std::vector<std::string> *>>
      words = {{"decay", {&spec.decay, &decays}},
               {"erase", {&spec.erase, &erases}}};
  std::set<std::string> seen;
  for (const std::string &item : split(text, ',')) {
    size_t equals = item.find('=');
    std::string key = item.substr(0, equals);
    if (!seen.insert(key).second)
      return Failure{"expected each key of --scan once, but got '" + key +
                     " again'"};
    std::string value =
        equals == std::string::npos ? "" : item.substr(equals + 1);
    if (auto number = numbers.find(key); number != numbers.end()) {
      auto parsed = parseInteger(key, value, 0, INT32_MAX);
      if (!parsed)
        return parsed.takeFailure();
      *number->second = *parsed;
    } else if (auto word = words.find(key); word != words.end()) {
      auto [field, choices] = word->second;
      if (numberOf(value, *choices) == int32_t(choices->size()))
        return Failure{"expected " + key + " to be one of " +
                       joinWords(*choices) + ", but got '" + value + "'"};
      *field = value;
    } else if (key == "dtype") {
      std::optional<DType> dtype = parseDType(value);
      if (dtype != DType::f32 && dtype != DType::f16 && dtype != DType::bf16)
        return Failure{"expected dtype to be f32, f16 or bf16, but got '" +
                       value + "'"};
      spec.dtype = *dtype;
    } else {
      std::string keys = "dtype";
      for (auto &[name, unused] : words)
        keys += ", " + name;
      for (auto &[name, unused] : numbers)
        keys += ", " + name;
      return Failure{"expected --scan to hold key=value with a key out of " +
                     keys + ", but got '" + item + "'"};
    }
  }
  if (!spec.dk)
    return Failure{"expected --scan to say the key dimension, dk=..."};
  spec.dv = spec.dv ? spec.dv : spec.dk;
  for (int64_t *heads : {&spec.hq, &spec.hk, &spec.hv})
    *heads = *heads ? *heads : spec.h;
  return spec;
}

Result<Kernel> attn::run::compileScan(const ScanSpec &spec,
                                      const AttnCompileOptions &options) {
  AttnScanDesc desc = {};
  desc.structSize = sizeof(desc);
  desc.dtype = toC(spec.dtype);
  desc.keyDim = spec.dk;
  desc.valueDim = spec.dv;
  desc.gates = numberOf(spec.decay, decays);
  desc.erase = numberOf(spec.erase, erases);
  desc.scale = desc.final = 1;
  desc.weight = spec.weight != 0;
  desc.logWeight = spec.logWeight != 0;
  desc.delta = spec.delta != 0;
  desc.bonus = spec.bonus != 0;
  desc.readBefore = spec.readBefore != 0;
  desc.whole = spec.whole != 0;
  desc.normalize = spec.normalize != 0;
  desc.init = spec.init != 0;
  desc.chunk = spec.chunk;
  desc.tokens = spec.t == 1;
  return Kernel::compile(desc, options);
}

Result<HostTensor> attn::run::drawInput(const ScanSpec &spec,
                                        const ArgInfo &arg, uint64_t seed) {
  if (arg.name == "scale")
    return HostTensor::scalar(DType::f32, 1 / std::sqrt(double(spec.dk)));
  int64_t heads = spec.stateHeads();
  const std::map<std::string, std::vector<int64_t>> shapes = {
      {"q", {spec.b, spec.hq, spec.t, spec.dk}},
      {"k", {spec.b, spec.hk, spec.t, spec.dk}},
      {"v", {spec.b, spec.hv, spec.t, spec.dv}},
      {"bonus", {heads, spec.dk}},
      {"init_S", {spec.b, heads, spec.dk, spec.dv}},
      {"init_z", {spec.b, heads, spec.dk}},
      {"init_m", {spec.b, heads}}};
  std::vector<int64_t> shape = {spec.b, heads, spec.t};
  if (auto found = shapes.find(arg.name); found != shapes.end())
    shape = found->second;
  else if (arg.shape.size() == 4)
    shape.push_back(arg.shape.back());
  HostTensor tensor = drawTensor(arg, shape, seed);
  // Keys and erases of about norm 1, gates below 0, betas in [0, 1], and no
  // denominators near 0.
  bool isRow = arg.name == "k" || arg.name.rfind("erase", 0) == 0;
  bool isBeta = arg.name == "beta" || arg.name == "weight";
  bool isPositive = spec.normalize && (arg.name == "q" || arg.name == "k" ||
                                       arg.name == "init_z");
  tensor.forEach([&](int64_t offset) {
    double x = loadElement(tensor.bytes.data(), tensor.dtype, offset);
    if (isRow)
      x *= (arg.name == "erase_b" ? -0.5 : 1) / std::sqrt(double(spec.dk));
    if (isPositive)
      x = std::fabs(x);
    if (arg.name == "decay")
      x = -0.3 * std::fabs(x);
    if (isBeta)
      x = 1 / (1 + std::exp(-x));
    storeElement(tensor.bytes.data(), tensor.dtype, offset, x);
  });
  return tensor;
}
