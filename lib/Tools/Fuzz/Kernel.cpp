//===- Kernel.cpp - What is fixed when a kernel is compiled ---------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernel.h"
#include "Edges.h"
#include "Scans.h"

#include <algorithm>
#include <cstring>

using namespace ::attn;
using namespace ::attn::fuzz;

const char *fuzz::nameOf(Family family) {
  switch (family) {
  case Family::Options:
    return "options";
  case Family::Masks:
    return "masks";
  case Family::Scores:
    return "scores";
  case Family::Monoids:
    return "monoids";
  case Family::Own:
    return "own";
  case Family::Packed:
    return "packed";
  case Family::Schedules:
    return "schedules";
  case Family::Precision:
    return "precision";
  case Family::Dropout:
    return "dropout";
  case Family::Edges:
    return "edges";
  case Family::Paged:
    return "paged";
  case Family::Ring:
    return "ring";
  case Family::Scan:
    return "scan";
  }
  return "";
}

bool Kernel::perChannel(int output) const {
  const char *name = monoid->outputs[output];
  // Welford's mean is that of the values.
  return !std::strcmp(name, "o") || !std::strcmp(name, "var") ||
         (!std::strcmp(name, "mean") && monoid->numValues == 2);
}

//===----------------------------------------------------------------------===//
// Random choices
//===----------------------------------------------------------------------===//

static const MonoidInfo *findMonoid(const char *name) {
  for (const MonoidInfo &info : allMonoids())
    if (!std::strcmp(info.name, name))
      return &info;
  return nullptr;
}

static int64_t randomHeadDim(Random &random, bool gpu) {
  if (random.chance(gpu ? 0.6 : 0.4))
    return random.pick<int64_t>({16, 32, 64, 64, 80, 96, 128, 128, 192, 256});
  if (random.chance(0.5))
    return random.range(1, 64);
  return random.range(1, 300);
}

static BroadcastForm randomForm(Random &random, DType dtype) {
  BroadcastForm form;
  form.rank = static_cast<int>(random.range(1, 4));
  if (random.chance(0.5))
    form.rank = 4;
  form.dtype = dtype;
  for (int i = 0; i < form.rank; ++i)
    form.one[i] = random.chance(i < form.rank - 2 ? 0.5 : 0.2);
  return form;
}

static void addCausal(Random &random, Kernel &k) {
  if (random.chance(0.55))
    k.causal = random.pick({Causal::topLeft, Causal::bottomRight});
  if (!random.chance(0.3))
    return;
  k.windowLeft = random.chance(0.8);
  k.windowRight = !k.windowLeft || random.chance(0.5);
  k.constantWindow = random.chance(0.3);
  k.constantLeft = random.range(-1, 90);
  k.constantRight = random.range(-1, 40);
}

static void addOptions(Random &random, Kernel &k, double share) {
  k.scale = random.chance(k.gpu ? 0.2 : 0.4);
  k.softcap = random.chance(0.3 * share);
  k.lengths = random.chance(0.4 * share);
  if (random.chance(0.3 * share))
    k.bias = randomForm(random, random.chance(0.5) ? k.dtype : DType::f32);
  if (random.chance(0.3 * share))
    k.mask = randomForm(random, random.pick({DType::boolean, DType::i8}));
  if (random.chance(0.25 * share))
    k.alibiRank = static_cast<int>(random.range(1, 2));
  if (k.monoid->takesSinks)
    k.sinks = random.chance(0.3 * share);
}

/// Rows of a GPU are those of a warp or of a warpgroup.
static Schedule randomSchedule(Random &random, bool gpu) {
  Schedule s;
  s.rows = gpu ? random.pick<int64_t>({16, 16, 64})
               : random.pick<int64_t>({8, 16, 32, 64});
  s.blockQ = s.rows * random.pick<int64_t>({1, 1, 2, 3, 4});
  s.blockK = gpu ? random.pick<int64_t>({16, 32, 48, 64, 80, 96, 128})
                 : random.pick<int64_t>({8, 16, 24, 32, 40, 48, 64, 96});
  if (gpu && s.rows == 64)
    s.blockQ = std::min<int64_t>(s.blockQ, 192);
  s.splits = random.chance(0.5) ? 1 : random.range(2, 8);
  s.loop = random.pick({"peeled", "masked", "plain"});
  return s;
}

/// Whether a GPU's warpgroups overlap their products and take turns: drawn
/// apart, so that all else is as it was before there was a choice.
static void drawKnobs(Kernel &k, uint64_t seed, uint64_t index) {
  Random random(~seed, index);
  Schedule &s = *k.schedule;
  // Only tiles of 16 bits are for warpgroups.
  if (k.dtype != DType::f32 && s.rows == 16 && random.chance(0.5)) {
    s.rows = 64;
    s.blockQ = random.pick<int64_t>({128, 128, 192});
  }
  if (s.rows != 64)
    return;
  s.overlap = random.chance(0.6);
  if (s.blockQ > s.rows)
    s.turns = random.pick({"none", "products", "softmax"});
}

static bool readsHead(const Kernel &k, const Expr &expr) {
  if (expr.name == "%h" ||
      (expr.capture >= 0 && k.captures[expr.capture].indexedBy == 'h'))
    return true;
  return std::any_of(
      expr.operands.begin(), expr.operands.end(),
      [&](const ExprPtr &operand) { return readsHead(k, *operand); });
}

/// Whether the query heads of a key head share tiles: drawn apart, as above.
static void drawPackHeads(Kernel &k, uint64_t seed, uint64_t index) {
  Random random(~seed ^ 0x9EAD5, index);
  bool byHead = k.mask.rank >= 3 && !k.mask.one[k.mask.rank - 3];
  byHead |= k.maskExpr && readsHead(k, *k.maskExpr);
  double share = k.family == Family::Schedules ? 0.5 : 0.3;
  k.schedule->packHeads = random.chance(share) && !k.packed && !byHead;
}

/// Whether blocks form clusters, masks and other copies of their own included:
/// drawn apart, as above.
static void drawCluster(Kernel &k, uint64_t seed, uint64_t index) {
  Random random(~seed ^ 0xC1057, index);
  if (k.schedule->packHeads || k.packed || k.schedule->splits != 1)
    return;
  if (random.chance(k.family == Family::Schedules ? 0.5 : 0.3))
    k.schedule->cluster = random.pick<int64_t>({2, 2, 2, 4});
}

std::string Schedule::print() const {
  std::string text =
      "#attn.schedule<block_q = " + std::to_string(blockQ) +
      ", rows = " + std::to_string(rows) +
      ", block_k = " + std::to_string(blockK) + ", splits = " +
      (splits == automatic ? "automatic" : std::to_string(splits)) +
      ", loop = " + loop;
  if (!overlap)
    text += ", overlap = false";
  text += std::string(", turns = ") + turns;
  if (cluster > 1)
    text += ", cluster = " + std::to_string(cluster);
  return text + (packHeads ? ", pack_heads = true>" : ">");
}

/// Pages, or a rolling cache.
static void drawCache(Random &random, Kernel &k) {
  if (k.family == Family::Ring) {
    k.kStart = k.rolling = true;
    k.lengths = k.lengths || random.chance(0.6);
    return;
  }
  // Tiles of a GPU lie within pages, or come in boxes of these, or in rows.
  k.page = k.gpu ? random.pick<int64_t>(
                       {1, 3, 5, 8, 16, 16, 16, 20, 24, 32, 48, 64, 64, 128})
                 : random.pick<int64_t>({1, 3, 16, 16, 64, 128});
  k.fixedPage = random.chance(k.gpu ? 0.85 : 0.5);
  k.kStart = random.chance(0.3);
  k.lengths = k.lengths || k.packed || random.chance(0.8);
}

Kernel fuzz::makeKernel(uint64_t seed, uint64_t index,
                        std::optional<Family> wanted, bool gpu) {
  Random random(seed, index);
  Kernel k;
  k.gpu = gpu;
  k.family = wanted ? *wanted : allFamilies[index % numMixedFamilies];
  if (k.family == Family::Scan) {
    k.scan = std::make_shared<ScanKernel>(makeScan(seed, index));
    return k;
  }
  k.dtype = random.pick(
      {DType::f32, DType::f32, DType::f16, DType::bf16, DType::bf16});
  if (gpu && k.dtype == DType::f32 && random.chance(0.5))
    k.dtype = DType::f16;
  Family content = k.family;
  if (k.family == Family::Precision) {
    k.dtype = DType::f32;
    k.tf32 = true;
    content = random.pick({Family::Options, Family::Masks, Family::Scores,
                           Family::Monoids, Family::Packed, Family::Schedules});
  }
  if (k.family == Family::Dropout)
    content = random.pick({Family::Options, Family::Masks, Family::Scores,
                           Family::Monoids, Family::Packed, Family::Schedules});
  bool isCache = k.family == Family::Paged || k.family == Family::Ring;
  if (isCache)
    content = random.pick(
        {Family::Options, Family::Options, Family::Masks, Family::Scores,
         Family::Monoids, Family::Schedules,
         k.family == Family::Paged ? Family::Packed : Family::Options});
  k.outDType =
      k.dtype != DType::f32 && random.chance(0.15) ? DType::f32 : k.dtype;
  k.dqk = randomHeadDim(random, gpu);
  k.dv = random.chance(0.5) ? k.dqk : randomHeadDim(random, gpu);

  const std::vector<MonoidInfo> &monoids = allMonoids();
  std::vector<const MonoidInfo *> choices;
  for (const MonoidInfo &info : monoids) {
    bool own = info.text != nullptr;
    if (info.drawnApart)
      continue;
    if (content == Family::Monoids     ? !own
        : content == Family::Own       ? own
        : content == Family::Schedules ? true
                                       : !own && info.numValues == 1)
      choices.push_back(&info);
  }
  k.monoid = random.pick(choices);
  Random apart(~seed, index);
  for (const MonoidInfo &info : monoids)
    if (info.drawnApart && content == Family::Own && apart.chance(0.25))
      k.monoid = &info;
  bool mostlySoftmax = content == Family::Options || content == Family::Masks ||
                       content == Family::Scores || content == Family::Packed;
  if (mostlySoftmax && random.chance(0.75))
    k.monoid = findMonoid("softmax");
  if (content == Family::Edges)
    chooseEdges(random, k, index);
  if (k.monoid->exactScores) {
    // Integers: products and sums of small ones are exact in every dtype.
    k.dqk = random.range(1, 40);
  }
  if (std::strcmp(k.monoid->name, "softmax2") == 0)
    k.numParams = 1;
  k.numOutputs = static_cast<int>(
      random.range(1, static_cast<int64_t>(k.monoid->outputs.size())));

  ExprMaker maker(random, k.captures);
  bool gated = k.monoid->oracle == Monoid::gatedDecay;
  switch (content) {
  case Family::Precision:
  case Family::Options:
    addCausal(random, k);
    addOptions(random, k, 1.0);
    break;
  case Family::Masks:
    k.maskExpr = maker.mask(static_cast<int>(random.range(0, 3)));
    k.aggregate = random.chance(0.5);
    if (!k.aggregate && random.chance(0.3))
      addCausal(random, k);
    k.lengths = random.chance(0.3);
    break;
  case Family::Scores:
    // A gated key has two scores, and is dead only where both are -inf.
    k.scoreExpr = maker.score(static_cast<int>(random.range(0, 2)), !gated);
    k.aggregate = random.chance(0.5);
    if (random.chance(0.4))
      k.maskExpr = maker.mask(0);
    if (!k.aggregate)
      addCausal(random, k);
    k.lengths = random.chance(0.3);
    break;
  case Family::Monoids:
  case Family::Own:
    addCausal(random, k);
    addOptions(random, k, 0.5);
    break;
  case Family::Packed:
    k.packed = true;
    addCausal(random, k);
    addOptions(random, k, 0.6);
    k.lengths = false; // the offsets say them
    if (random.chance(0.3))
      k.maskExpr = maker.mask(1);
    break;
  case Family::Schedules:
    addCausal(random, k);
    addOptions(random, k, 0.5);
    k.schedule = randomSchedule(random, gpu);
    break;
  case Family::Edges:
    addEdges(random, k, maker);
    break;
  case Family::Paged:
  case Family::Ring:
  case Family::Dropout:
  case Family::Scan:
    break; // none of them is a content
  }
  if (isCache)
    drawCache(random, k);
  if (gated)
    k.aggregate = true;
  else if (k.family == Family::Dropout)
    k.aggregate = false;
  k.dropout = k.family == Family::Dropout && !k.aggregate &&
              k.monoid->oracle != Monoid::maxPlus &&
              k.monoid->oracle != Monoid::welford;
  if (k.aggregate) {
    // What only attn.attention names.
    k.causal = Causal::none;
    k.windowLeft = k.windowRight = k.softcap = k.sinks = false;
    k.alibiRank = k.bias.rank = k.mask.rank = 0;
    if (!k.maskExpr && random.chance(0.5))
      k.maskExpr = maker.mask(1);
    if (!k.packed && k.monoid->numValues == 1 && k.numParams == 0 &&
        random.chance(0.2))
      k.partials = random.range(2, 6);
  }
  if (k.monoid->exactScores) {
    k.scale = true;
    k.softcap = false;
    k.bias.rank = k.alibiRank = 0;
  }
  if (gated)
    k.gateExpr = maker.logGate();
  if (!k.schedule && !k.partials && random.chance(0.25))
    k.schedule = randomSchedule(random, gpu);
  if (isCache && k.partials)
    k.granule = random.pick<int64_t>({0, 16, 64});
  if (isCache && gpu && k.schedule && !k.packed && random.chance(0.3))
    k.schedule->splits = Schedule::automatic;
  if (k.partials && k.schedule)
    k.schedule->splits = 1;
  if (k.schedule && gpu)
    drawKnobs(k, seed, index);
  if (k.schedule)
    drawPackHeads(k, seed, index);
  if (k.schedule && gpu)
    drawCluster(k, seed, index);
  // Drawn apart, as above, where it is not of the families that take turns.
  if (k.family == Family::Paged)
    k.batchInvariant =
        !k.partials &&
        (!k.schedule || (k.schedule->splits == 1 && !k.schedule->packHeads)) &&
        Random(seed + 1, ~index).chance(0.2);
  if (k.family == Family::Paged || k.family == Family::Ring)
    k.append = k.lengths && Random(seed + 2, ~index).chance(0.3);
  if (!k.packed && !k.page && random.chance(0.15)) {
    int which = static_cast<int>(random.range(0, 4));
    k.fixed[which] = which == 0   ? random.range(1, 3)
                     : which == 1 ? random.pick<int64_t>({2, 4, 7})
                     : which == 2 ? 1
                                  : random.pick<int64_t>({1, 17, 64, 100});
  }
  printKernel(k);
  return k;
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

static std::string dim(int64_t size) {
  return size < 0 ? "?" : std::to_string(size);
}

namespace {
class TextMaker {
public:
  explicit TextMaker(Kernel &k) : k(k) {}
  void run();

private:
  void listArguments();
  std::string tensor(int heads, int rows, int64_t channels, DType dtype) const;
  std::string broadcast(const BroadcastForm &form) const;
  std::string resultType(int output) const;
  void add(Argument::Role role, std::string name, std::string type,
           int index = 0) {
    k.arguments.push_back({role, std::move(name), std::move(type), index});
  }
  std::string typeOf(Argument::Role role) const {
    for (const Argument &a : k.arguments)
      if (a.role == role)
        return a.type;
    return "";
  }
  std::string attentionOp();
  std::string aggregateOp();
  std::string sourceClauses() const;
  std::string captureTypes(bool withNames) const;
  std::string region(const char *name, bool isScore, bool gate);
  std::string valueOperands() const;
  std::string commonAttributes() const;
  std::string newRows(int64_t channels) const {
    return "tensor<?x?x?x" + std::to_string(channels) + "x" +
           support::nameOf(k.dtype) + ">";
  }
  std::string appendOp() const;

  Kernel &k;
};
} // namespace

static const char *mlirName(DType dtype) {
  return dtype == DType::boolean ? "i1" : support::nameOf(dtype);
}

std::string TextMaker::tensor(int heads, int rows, int64_t channels,
                              DType dtype) const {
  std::string type = "tensor<";
  if (!k.packed)
    type += dim(k.fixed[0]) + "x";
  type += dim(k.fixed[heads]) + "x" + dim(k.fixed[rows]) + "x";
  if (channels >= 0)
    type += std::to_string(channels) + "x";
  return type + mlirName(dtype) + ">";
}

std::string TextMaker::broadcast(const BroadcastForm &form) const {
  std::string type = "tensor<";
  for (int i = 0; i < form.rank; ++i)
    type += form.one[i] ? "1x" : "?x";
  return type + mlirName(form.dtype) + ">";
}

std::string TextMaker::resultType(int output) const {
  return k.perChannel(output) ? tensor(1, 3, k.dv, k.outDType)
                              : tensor(1, 3, -1, DType::f32);
}

void TextMaker::listArguments() {
  add(Argument::Q, "q", tensor(1, 3, k.dqk, k.dtype));
  auto ofKeys = [&](int64_t channels) {
    if (!k.page)
      return tensor(2, 4, channels, k.dtype);
    return "tensor<?x?x" + dim(k.fixedPage ? k.page : -1) + "x" +
           std::to_string(channels) + "x" + mlirName(k.dtype) + ">";
  };
  add(Argument::K, "k", ofKeys(k.dqk));
  if (k.monoid->numValues)
    add(Argument::V, "v", ofKeys(k.dv));
  if (k.scale)
    add(Argument::Scale, "scale", "f32");
  if (k.softcap)
    add(Argument::Softcap, "softcap", "f32");
  if (k.bias.rank)
    add(Argument::Bias, "bias", broadcast(k.bias));
  if (k.mask.rank)
    add(Argument::Mask, "mask", broadcast(k.mask));
  if (k.alibiRank)
    add(Argument::Alibi, "alibi",
        k.alibiRank == 1 ? "tensor<?xf32>" : "tensor<?x?xf32>");
  if (k.sinks)
    add(Argument::Sinks, "sinks", "tensor<?xf32>");
  if (k.lengths)
    add(Argument::Lengths, "lengths", "tensor<?xi32>");
  if (k.windowLeft && !k.constantWindow)
    add(Argument::WindowLeft, "left", "i32");
  if (k.windowRight && !k.constantWindow)
    add(Argument::WindowRight, "right", "i32");
  if (k.packed)
    add(Argument::CuQ, "cu_q", "tensor<?xi32>");
  if (k.packed && !k.page)
    add(Argument::CuK, "cu_k", "tensor<?xi32>");
  if (k.page)
    add(Argument::Table, "table", "tensor<?x?xi32>");
  if (k.kStart)
    add(Argument::Start, "k_start", "tensor<?xi32>");
  if (k.append)
    add(Argument::KeyNew, "k_new", newRows(k.dqk));
  if (k.append && k.monoid->numValues)
    add(Argument::ValueNew, "v_new", newRows(k.dv));
  if (k.dropout)
    add(Argument::DropShare, "dropout_p", "f32");
  for (int i = 0; k.dropout && i < 4; ++i)
    add(Argument::DropWord, "word" + std::to_string(i), "i32", i);
  for (int i = 0; i < k.numParams; ++i)
    add(Argument::Param, "param" + std::to_string(i), "f32", i);
  for (size_t i = 0; i < k.captures.size(); ++i) {
    const Capture &c = k.captures[i];
    std::string element = c.kind == Kind::Float ? "f32" : "i32";
    add(Argument::CapturedValue, c.name,
        c.indexedBy ? "tensor<?x" + element + ">" : element,
        static_cast<int>(i));
  }
}

std::string TextMaker::captureTypes(bool withNames) const {
  std::string names, types;
  for (const Argument &a : k.arguments) {
    if (a.role != Argument::CapturedValue)
      continue;
    names += (names.empty() ? "%" : ", %") + a.name;
    types += (types.empty() ? "" : ", ") + a.type;
  }
  return withNames ? names + " : " + types : types;
}

std::string TextMaker::region(const char *name, bool isScore, bool gate) {
  std::string text = std::string("    ") + name + " {\n    ^bb0(";
  if (isScore)
    text += "%s: f32, ";
  text += "%b: i32, %h: i32, %i: i32, %j: i32";
  for (const Argument &a : k.arguments)
    if (a.role == Argument::CapturedValue)
      text += ", %in_" + a.name + ": " + a.type;
  if (k.aggregate && k.scale)
    text += ", %in_scale: f32";
  text += "):\n";
  std::string prefix = "      ";
  if (isScore && k.aggregate) {
    // The op has no scale of its own: %s is made here.
    size_t at = text.find("%s: f32");
    text.replace(at, 2, "%dot");
    if (k.scale) {
      text += prefix + "%s = arith.mulf %dot, %in_scale : f32\n";
    } else {
      char factor[64];
      std::snprintf(factor, sizeof(factor), "%.9e",
                    1.0 / std::sqrt(static_cast<double>(k.dqk)));
      text += prefix + "%factor = arith.constant " + factor + " : f32\n" +
              prefix + "%s = arith.mulf %dot, %factor : f32\n";
    }
  }
  Printer printer(k.captures, prefix);
  std::string result = "%s", second;
  if (isScore && k.scoreExpr)
    result = printer.print(k.scoreExpr);
  if (!isScore)
    result = printer.print(k.maskExpr);
  if (gate)
    second = printer.print(k.gateExpr);
  text += printer.text + prefix + "attn.yield " + result;
  if (gate)
    text += ", " + second + " : f32, f32\n";
  else
    text += isScore ? " : f32\n" : " : i1\n";
  return text + "    }\n";
}

std::string TextMaker::valueOperands() const {
  if (!k.monoid->numValues)
    return "";
  std::string type = typeOf(Argument::V);
  if (k.monoid->numValues == 2)
    return "      values(%v, %v : " + type + ", " + type + ")\n";
  return "      values(%v : " + type + ")\n";
}

std::string TextMaker::commonAttributes() const {
  std::string text = k.tf32 ? "precision = #attn.precision<tf32>" : "";
  if (k.batchInvariant)
    text += text.empty() ? "batch_invariant" : ", batch_invariant";
  if (k.schedule)
    text +=
        (text.empty() ? "schedule = " : ", schedule = ") + k.schedule->print();
  return text;
}

std::string TextMaker::attentionOp() {
  std::string head, op = "attn.attention ", tail;
  if (std::strcmp(k.monoid->name, "softmax") != 0 || k.numParams) {
    op += std::string("monoid(@") + k.monoid->name;
    std::string names, types;
    for (int i = 0; i < k.numParams; ++i) {
      names += (i ? ", %param" : "%param") + std::to_string(i);
      types += i ? ", f32" : "f32";
    }
    op += k.numParams ? " params " + names + " : " + types + ")\n" : ")\n";
  }
  op += "      queries(%q : " + typeOf(Argument::Q) +
        ")\n      keys(%k : " + typeOf(Argument::K) + ")\n" + valueOperands();
  auto clause = [&](Argument::Role role, const char *name, bool typed) {
    std::string type = typeOf(role);
    if (type.empty())
      return;
    for (const Argument &a : k.arguments)
      if (a.role == role)
        op += std::string("      ") + name + "(%" + a.name +
              (typed ? " : " + type : "") + ")\n";
  };
  clause(Argument::Scale, "scale", false);
  clause(Argument::Softcap, "softcap", false);
  clause(Argument::Bias, "bias", true);
  clause(Argument::Mask, "mask_tensor", true);
  clause(Argument::Alibi, "alibi", true);
  clause(Argument::Sinks, "sinks", true);
  clause(Argument::Lengths, "lengths", true);
  if (k.constantWindow) {
    auto constant = [&](bool given, const char *name, const char *clauseName,
                        int64_t value) {
      if (!given)
        return;
      head += std::string("  %") + name + " = arith.constant " +
              std::to_string(value) + " : i32\n";
      op += std::string("      ") + clauseName + "(%" + name + ")\n";
    };
    constant(k.windowLeft, "left", "window_left", k.constantLeft);
    constant(k.windowRight, "right", "window_right", k.constantRight);
  }
  clause(Argument::WindowLeft, "window_left", false);
  clause(Argument::WindowRight, "window_right", false);
  clause(Argument::CuQ, "cu_seqlens_q", true);
  clause(Argument::CuK, "cu_seqlens_k", true);
  clause(Argument::Table, "block_table", true);
  clause(Argument::Start, "k_start", true);
  if (k.dropout)
    op += "      dropout(%dropout_p, %word0, %word1, %word2, %word3)\n";
  if (!k.captures.empty())
    op += "      captures(" + captureTypes(true) + ")\n";
  std::string attrs = commonAttributes();
  if (k.rolling)
    attrs += attrs.empty() ? "rolling" : ", rolling";
  if (k.causal != Causal::none)
    attrs += std::string(attrs.empty() ? "" : ", ") + "causal = #attn.causal<" +
             (k.causal == Causal::topLeft ? "top_left" : "bottom_right") + ">";
  if (!attrs.empty())
    op += "      {" + attrs + "}\n";
  if (k.scoreExpr)
    op += region("score", true, false);
  if (k.maskExpr)
    op += region("mask", false, false);
  std::string results, types;
  for (int i = 0; i < k.numOutputs; ++i)
    types += (i ? ", " : "") + resultType(i);
  results = k.numOutputs == 1 ? "%r" : "%r:" + std::to_string(k.numOutputs);
  return head + "  " + results + " = " + op + "      -> " + types + "\n";
}

std::string TextMaker::aggregateOp() {
  bool gated = k.gateExpr != nullptr;
  std::string q = typeOf(Argument::Q), key = typeOf(Argument::K);
  std::string captured, types;
  for (const Argument &a : k.arguments)
    if (a.role == Argument::CapturedValue) {
      captured += (captured.empty() ? "%" : ", %") + a.name;
      types += (types.empty() ? "" : ", ") + a.type;
    }
  if (k.scale) {
    captured += captured.empty() ? "%scale" : ", %scale";
    types += types.empty() ? "f32" : ", f32";
  }
  std::string op = std::string("@") + k.monoid->name + " ";
  if (k.numParams)
    op += "params(%param0 : f32) ";
  op += "scores(%q, %k : " + q + ", " + key + ")\n" + valueOperands();
  if (!captured.empty())
    op += "      captures(" + captured + " : " + types + ")\n";
  op += sourceClauses();
  std::string attrs = commonAttributes();
  if (k.partials)
    attrs += std::string(attrs.empty() ? "" : ", ") +
             "splits = " + std::to_string(k.partials) + " : i64";
  if (k.granule)
    attrs += ", granule = " + std::to_string(k.granule) + " : i64";
  if (!attrs.empty())
    op += "      {" + attrs + "}\n";
  op += region("score", true, gated);
  if (k.maskExpr)
    op += region("mask", false, false);
  std::string results, resultTypes;
  for (int i = 0; i < k.numOutputs; ++i)
    resultTypes += (i ? ", " : "") + resultType(i);
  if (!k.partials) {
    // An aggregate gives all that its monoid gives.
    k.numOutputs = static_cast<int>(k.monoid->outputs.size());
    resultTypes.clear();
    for (int i = 0; i < k.numOutputs; ++i)
      resultTypes += (i ? ", " : "") + resultType(i);
    results = k.numOutputs == 1 ? "%r" : "%r:" + std::to_string(k.numOutputs);
    return "  " + results + " = attn.aggregate " + op + "      -> " +
           resultTypes + "\n";
  }

  // States: one statistic at most here, then the components.
  k.numOutputs = static_cast<int>(k.monoid->outputs.size());
  resultTypes.clear();
  for (int i = 0; i < k.numOutputs; ++i)
    resultTypes += (i ? ", " : "") + resultType(i);
  std::string list = k.monoid->text ? k.monoid->text : "";
  std::vector<bool> channels;
  auto shape = [&](std::vector<bool> form) { channels = std::move(form); };
  std::string name = k.monoid->name;
  if (name == "softmax" || name == "softmax_max" || name == "max_count" ||
      name == "softmax2")
    shape({false, true, false});
  else if (name == "softmax_entropy")
    shape({false, true, false, false});
  else if (name == "moments")
    shape({false, true, false, false, false});
  else if (name == "logsumexp")
    shape({false, false});
  else if (name == "share")
    shape({true, false});
  else if (name == "stick_breaking" || name == "alpha_compositing" ||
           name == "gated_decay")
    shape({false, true});
  else
    shape({true});
  std::string parts, states, partNames, stateNames;
  for (size_t i = 0; i < channels.size(); ++i) {
    std::string row = tensor(1, 3, channels[i] ? k.dv : -1, DType::f32);
    std::string part = row;
    part.insert(std::strlen("tensor<"), std::to_string(k.partials) + "x");
    parts += (i ? ", " : "") + part;
    states += (i ? ", " : "") + row;
    std::string ref = channels.size() == 1 ? "" : "#" + std::to_string(i);
    partNames += (i ? ", %p" : "%p") + ref;
    stateNames += (i ? ", %c" : "%c") + ref;
  }
  std::string count =
      channels.size() == 1 ? "" : ":" + std::to_string(channels.size());
  std::string text =
      "  %p" + count + " = attn.partial " + op + "      -> " + parts + "\n";
  text += "  %c" + count + " = attn.combine @" + name + "(" + partNames +
          "\n      : " + parts + ")\n      -> " + states + "\n";
  results = k.numOutputs == 1 ? "%r" : "%r:" + std::to_string(k.numOutputs);
  return text + "  " + results + " = attn.finalize @" + name + "(" +
         stateNames + "\n      : " + states + ")\n      -> " + resultTypes +
         "\n";
}

/// Where the rows are, and what keys count from.
std::string TextMaker::sourceClauses() const {
  std::string words, operandTypes, text;
  auto word = [&](bool given, const char *what, const char *type) {
    if (!given)
      return;
    words += (words.empty() ? "" : ", ") + std::string(what);
    operandTypes += (operandTypes.empty() ? "" : ", ") + std::string(type);
  };
  const char *vector = "tensor<?xi32>";
  word(k.packed && !k.page, "varlen %cu_k", vector);
  word(k.page, "paged %table", "tensor<?x?xi32>");
  word(k.rolling, "ring %k_start", vector);
  word(k.lengths, "lengths %lengths", vector);
  if (k.packed)
    text += "      query_source(varlen %cu_q : tensor<?xi32>)\n";
  if (!words.empty())
    text += "      key_source(" + words + " : " + operandTypes + ")\n";
  if (k.kStart)
    text += "      key_base(%k_start : tensor<?xi32>)\n";
  return text;
}

/// Writes the last rows of each sequence to the caches.
std::string TextMaker::appendOp() const {
  bool hasValues = k.monoid->numValues;
  std::string types = newRows(k.dqk), caches = typeOf(Argument::K);
  if (hasValues) {
    types += ", " + newRows(k.dv);
    caches += ", " + typeOf(Argument::V);
  }
  return std::string("  %after = attn.append rows(%k_new") +
         (hasValues ? ", %v_new : " : " : ") + types + ")\n      to(%k" +
         (hasValues ? ", %v : " : " : ") + caches +
         ") lengths(%lengths : tensor<?xi32>)" +
         (k.page ? " block_table(%table : tensor<?x?xi32>)"
                 : " k_start(%k_start : tensor<?xi32>) {rolling}") +
         " -> tensor<?xi32>\n";
}

void TextMaker::run() {
  k.arguments.clear();
  listArguments();
  std::string body = k.aggregate ? aggregateOp() : attentionOp();
  const std::string before = "%lengths", after = "%after";
  for (size_t at = 0; k.append && (at = body.find(before, at)) != body.npos;)
    body.replace(at, before.size(), after);
  if (k.append)
    body = appendOp() + body;
  std::string text = k.monoid->text ? k.monoid->text : "";
  text += "func.func @attention(";
  for (size_t i = 0; i < k.arguments.size(); ++i)
    text += (i ? ",\n    %" : "%") + k.arguments[i].name + ": " +
            k.arguments[i].type;
  std::string types, values;
  for (int i = 0; i < k.numOutputs; ++i) {
    types += (i ? ", " : "") + resultType(i);
    values += (i ? ", %r" : "%r") +
              (k.numOutputs == 1 ? "" : "#" + std::to_string(i));
    k.arguments.push_back(
        {Argument::Output, k.monoid->outputs[i], resultType(i), i});
  }
  text += ")\n    -> (" + types + ") {\n" + body + "  return " + values +
          " : " + types + "\n}\n";
  k.text = text;
}

void fuzz::printKernel(Kernel &kernel) { TextMaker(kernel).run(); }
