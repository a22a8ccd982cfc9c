//===- Instance.cpp - What is fixed when a kernel is run ------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Instance.h"
#include "InstanceMaker.h"

#include <algorithm>
#include <limits>
#include <numeric>

using namespace ::attn;
using namespace ::attn::fuzz;
using support::AttentionProblem;
using support::TensorView;

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
  // Several tiles of rows and of keys.
  if (k.family == Family::Pairs && random.chance(0.8)) {
    to.hk = random.pick<int64_t>({1, 1, 2});
    group = random.pick<int64_t>({1, 1, 2, 4});
    to.sq = random.range(packsHeads() ? 1 : 65, 300);
    to.sk = random.chance(0.4) ? to.sq : random.range(65, 300);
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
// The whole
//===----------------------------------------------------------------------===//

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
