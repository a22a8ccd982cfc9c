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
  case Family::Rotary:
    return "rotary";
  case Family::Pairs:
    return "pairs";
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
  if (k.gpu && k.monoid->ofWarps && s.rows == 64)
    s.rows = 16;
  if (s.rows != 64)
    return;
  if (!random.chance(0.6))
    s.overlap = index % 2 ? "own_step" : "none";
  if (s.blockQ > s.rows)
    s.turns = random.pick({"none", "products", "softmax"});
}

/// Whether rows are the columns of products, of which each warp of Hopper has
/// keys: drawn apart, as above, with what it takes. What else it does not go
/// with is refused.
static void drawWarpKeys(Kernel &k, uint64_t seed, uint64_t index) {
  Random random(~seed ^ 0x8505, index);
  if (k.dtype == DType::f32 || k.packed || k.batchInvariant || k.aggregate ||
      k.rolling || k.monoid->numValues != 1 || !random.chance(0.25))
    return;
  // Tiles of keys come in boxes of pages.
  if (k.page) {
    k.page = random.pick<int64_t>({16, 32, 64});
    k.fixedPage = true;
  }
  Schedule &s = *k.schedule;
  s.rows = s.blockQ = 8;
  s.blockK = random.pick<int64_t>({32, 64, 64, 128});
  s.overlap = "next_step";
  s.turns = "none";
  k.dqk = 64 * random.range(1, 4);
  k.dv = s.blockK == 128 ? 128 * random.range(1, 2) : 64 * random.range(1, 4);
  k.bias.rank = k.mask.rank = 0;
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
/// drawn apart, as above. Those of tiles of eight rows have the parts of the
/// keys.
static void drawCluster(Kernel &k, uint64_t seed, uint64_t index) {
  Random random(~seed ^ 0xC1057, index);
  if (k.schedule->rows == 8) {
    int64_t parts = random.pick<int64_t>({2, 4, 8, 8});
    if (!k.partials && parts * k.schedule->blockK >= k.dv && random.chance(0.5))
      k.schedule->splits = k.schedule->cluster = parts;
    return;
  }
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
  if (overlap != "next_step")
    text += ", overlap = " + overlap;
  text += std::string(", turns = ") + turns;
  if (cluster > 1)
    text += ", cluster = " + std::to_string(cluster);
  if (turnsInside)
    text += ", rotate = inside";
  if (!pairs.empty())
    text += ", pairs = " + pairs;
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

/// Some of the kernels on pages share prefixes, without all that keeps rows
/// from seeing the same keys.
static void drawCascade(Kernel &k, uint64_t seed, uint64_t index) {
  static const std::set<std::string> sums = {
      "softmax",  "softmax_max", "softmax_entropy", "logsumexp",
      "relu_sum", "relu2_sum",   "sigmoid_sum"};
  Random random(seed + 3, ~index);
  if (k.packed || k.aggregate || !k.edges.empty() || k.monoid->text ||
      !sums.count(k.monoid->name) || !random.chance(0.5))
    return;
  k.cascade = static_cast<int>(random.range(1, 3));
  k.kStart = k.append = k.batchInvariant = k.windowLeft = k.windowRight = false;
  k.alibiRank = k.bias.rank = k.mask.rank = 0;
  k.maskExpr = k.scoreExpr = nullptr;
  k.captures.clear();
  k.schedule.reset();
  if (k.causal == Causal::topLeft)
    k.causal = Causal::bottomRight;
}

/// What the kernels of some families are otherwise like.
static Family drawContent(Random &random, Family family) {
  if (family == Family::Precision || family == Family::Dropout)
    return random.pick({Family::Options, Family::Masks, Family::Scores,
                        Family::Monoids, Family::Packed, Family::Schedules});
  if (family == Family::Paged || family == Family::Ring)
    return random.pick(
        {Family::Options, Family::Options, Family::Masks, Family::Scores,
         Family::Monoids, Family::Schedules,
         family == Family::Paged ? Family::Packed : Family::Options});
  return family;
}

static void drawMonoid(Random &random, Kernel &k, Family content, uint64_t seed,
                       uint64_t index) {
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
}

static bool isGated(const Kernel &k) {
  return k.monoid->oracle == Monoid::gatedDecay;
}

/// Operands, masks and scores of a content.
static void drawContents(Random &random, Kernel &k, Family content,
                         ExprMaker &maker) {
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
    k.scoreExpr =
        maker.score(static_cast<int>(random.range(0, 2)), !isGated(k));
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
    k.schedule = randomSchedule(random, k.gpu);
    break;
  case Family::Edges:
    addEdges(random, k, maker);
    break;
  case Family::Paged:
  case Family::Ring:
  case Family::Dropout:
  case Family::Scan:
  case Family::Rotary:
  case Family::Pairs:
    break; // none of them is a content
  }
}

/// Leaves out what an attn.aggregate cannot name, or a monoid's exact scores
/// would round.
static void restrictToForm(Random &random, Kernel &k, ExprMaker &maker) {
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
}

static void drawSchedule(Random &random, Kernel &k, uint64_t seed,
                         uint64_t index) {
  bool isCache = k.family == Family::Paged || k.family == Family::Ring;
  if (!k.schedule && !k.partials && random.chance(0.25))
    k.schedule = randomSchedule(random, k.gpu);
  if (isCache && k.partials)
    k.granule = random.pick<int64_t>({0, 16, 64});
  if (isCache && k.gpu && k.schedule && !k.packed && random.chance(0.3))
    k.schedule->splits = Schedule::automatic;
  if (k.partials && k.schedule)
    k.schedule->splits = 1;
  if (k.schedule && k.gpu)
    drawKnobs(k, seed, index);
  if (k.schedule && k.gpu)
    drawWarpKeys(k, seed, index);
  if (k.schedule)
    drawPackHeads(k, seed, index);
  if (k.schedule && k.gpu)
    drawCluster(k, seed, index);
}

/// What decode does with a cache: drawn apart, as above, where it is not of the
/// families that take turns.
static void drawServing(Kernel &k, uint64_t seed, uint64_t index) {
  if (k.family == Family::Paged)
    k.batchInvariant =
        !k.partials &&
        (!k.schedule || (k.schedule->splits == 1 && !k.schedule->packHeads)) &&
        Random(seed + 1, ~index).chance(0.2);
  if (k.family == Family::Paged || k.family == Family::Ring)
    k.append = k.lengths && Random(seed + 2, ~index).chance(0.3);
  if (k.family == Family::Paged)
    drawCascade(k, seed, index);
}

/// One size of the tensors that the kernel's type says.
static void drawFixedSize(Random &random, Kernel &k) {
  if (k.packed || k.page || !random.chance(0.15))
    return;
  int which = static_cast<int>(random.range(0, 4));
  k.fixed[which] = which == 0   ? random.range(1, 3)
                   : which == 1 ? random.pick<int64_t>({2, 4, 7})
                   : which == 2 ? 1
                                : random.pick<int64_t>({1, 17, 64, 100});
}

Kernel fuzz::makeKernel(uint64_t seed, uint64_t index,
                        std::optional<Family> wanted, bool gpu) {
  if (wanted == Family::Rotary)
    return makeTurning(seed, index, gpu);
  if (wanted == Family::Pairs)
    return makeOfPairs(seed, index, gpu);
  Random random(seed, index);
  Kernel k;
  k.gpu = gpu;
  k.family = wanted ? *wanted : allFamilies[index % numMixedFamilies];
  if (k.family == Family::Scan) {
    k.scan = std::make_shared<ScanKernel>(makeScan(seed, index, gpu));
    return k;
  }
  k.dtype = random.pick(
      {DType::f32, DType::f32, DType::f16, DType::bf16, DType::bf16});
  if (gpu && k.dtype == DType::f32 && random.chance(0.5))
    k.dtype = DType::f16;
  k.tf32 = k.family == Family::Precision;
  if (k.tf32)
    k.dtype = DType::f32;
  Family content = drawContent(random, k.family);
  k.outDType =
      k.dtype != DType::f32 && random.chance(0.15) ? DType::f32 : k.dtype;
  k.dqk = randomHeadDim(random, gpu);
  k.dv = random.chance(0.5) ? k.dqk : randomHeadDim(random, gpu);
  drawMonoid(random, k, content, seed, index);
  ExprMaker maker(random, k.captures);
  drawContents(random, k, content, maker);
  if (k.family == Family::Paged || k.family == Family::Ring)
    drawCache(random, k);
  if (isGated(k))
    k.aggregate = true;
  else if (k.family == Family::Dropout)
    k.aggregate = false;
  k.dropout = k.family == Family::Dropout && !k.aggregate &&
              k.monoid->oracle != Monoid::maxPlus &&
              k.monoid->oracle != Monoid::welford;
  restrictToForm(random, k, maker);
  if (isGated(k))
    k.gateExpr = maker.logGate();
  drawSchedule(random, k, seed, index);
  drawServing(k, seed, index);
  drawFixedSize(random, k);
  printKernel(k);
  return k;
}
