//===- Traffic.cpp - What a GPU's memory moves ----------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Traffic.h"

#include <algorithm>
#include <vector>

using namespace ::attn::run;
using namespace ::attn::support;

namespace {
struct Range {
  int64_t begin = INT64_MAX, end = 0;
  int64_t size() const { return std::max<int64_t>(end - begin, 0); }
};
} // namespace

static bool isMasked(const AttentionSpec &spec) {
  return spec.causal != "none" || spec.window || !spec.mask.empty() ||
         !spec.lengths.empty();
}

/// The keys that rows [first, last] may see, in whole tiles.
static Range getKeys(const AttentionSpec &spec, int64_t first, int64_t last,
                     int64_t blockK) {
  int64_t shift = spec.causal == "top_left" ? 0 : spec.sk - spec.sq;
  int64_t begin = 0, end = spec.sk;
  if (spec.causal != "none")
    end = std::min(end, last + shift + 1);
  if (spec.window && spec.window->first >= 0)
    begin = std::max(begin, first + shift - spec.window->first);
  if (spec.window && spec.window->second >= 0)
    end = std::min(end, last + shift + spec.window->second + 1);
  begin = begin / blockK * blockK;
  end = std::min((end + blockK - 1) / blockK * blockK, spec.sk);
  return {begin, end};
}

namespace {
/// The tiles that a cache holds, the one read last first.
class Cache {
public:
  Cache(int64_t tiles, int64_t room)
      : links(size_t(tiles) + 1), room(std::max<int64_t>(room, 1)),
        end(size_t(tiles)) {
    links[end] = {end, end};
  }
  /// Whether the tile was there; it is now.
  bool read(size_t tile) {
    bool found = links[tile].next != none;
    if (found)
      remove(tile);
    else if (++count > room) {
      remove(links[end].before);
      --count;
    }
    Link &first = links[end];
    links[tile] = {end, first.next};
    links[first.next].before = tile;
    first.next = tile;
    return found;
  }

private:
  static constexpr size_t none = SIZE_MAX;
  struct Link {
    size_t before = none, next = none;
  };
  void remove(size_t tile) {
    links[links[tile].before].next = links[tile].next;
    links[links[tile].next].before = links[tile].before;
    links[tile] = {};
  }

  std::vector<Link> links;
  int64_t room, count = 0;
  size_t end;
};

/// A block at work: its key head, and its tiles from `next` on.
struct Block {
  int64_t head = 0, next = 0, end = 0;
};

/// Blocks in the order in which they are taken: sections of heads, in them all
/// heads' tiles of the same rows together, the last rows first under a mask.
class Blocks {
public:
  Blocks(const AttentionSpec &spec, const DeviceModel &model, int64_t blockK)
      : spec(spec), blockQ(model.blockQ), blockK(blockK),
        tiles((spec.sq + blockQ - 1) / blockQ), heads(spec.b * spec.hq),
        group(std::max<int64_t>(spec.hq / std::max<int64_t>(spec.hk, 1), 1)) {
    int64_t keys = std::max<int64_t>(spec.sk, 1);
    int64_t fit = std::max(model.sectionKeys / keys,
                           std::min(model.someKeys / keys, model.someHeads));
    abreast = std::min(std::max<int64_t>(fit, 1) * group, model.headsAbreast);
    auto divideUp = [](int64_t x, int64_t y) { return (x + y - 1) / y; };
    if (isMasked(spec) && heads > 0)
      abreast = divideUp(heads, divideUp(heads, abreast));
  }
  bool take(Block &block) {
    if (first >= heads || tiles == 0)
      return false;
    int64_t row = (isMasked(spec) ? tiles - 1 - tile : tile) * blockQ;
    Range keys =
        getKeys(spec, row, std::min(row + blockQ, spec.sq) - 1, blockK);
    block.head = (first + head) / group;
    block.next = keys.begin / blockK;
    block.end = (keys.begin + keys.size() + blockK - 1) / blockK;
    if (++head == std::min(abreast, heads - first)) {
      head = 0;
      if (++tile == tiles) {
        tile = 0;
        first += abreast;
      }
    }
    return true;
  }
  /// Query heads that advance together, and how many read the same keys.
  int64_t headsAbreast() const { return abreast; }
  int64_t headsOfKeys() const { return group; }
  int64_t count() const { return heads * tiles; }
  int64_t keyHeads() const { return (heads + group - 1) / group; }

private:
  const AttentionSpec &spec;
  int64_t blockQ, blockK, tiles, heads, group, abreast;
  int64_t first = 0, tile = 0, head = 0;
};
} // namespace

double attn::run::predictKeyTraffic(const AttentionSpec &spec,
                                    const DeviceModel &model) {
  // Larger tiles where there would be too many to follow.
  constexpr double most = 2e7;
  int64_t blockK = model.blockK;
  double pairs = double(spec.b * spec.hq) * double(spec.sq) * double(spec.sk);
  while (pairs / double(model.blockQ) / double(blockK) > most)
    blockK *= 2;
  const double rowBytes = double(spec.d + spec.dv) * double(sizeOf(spec.dtype));
  const int64_t tilesOfHead = (spec.sk + blockK - 1) / blockK;
  Blocks blocks(spec, model, blockK);
  // What multiprocessors on both sides of the cache read is in both halves.
  Cache cache(
      blocks.keyHeads() * tilesOfHead,
      int64_t(double(model.cacheBytes) / 2 / rowBytes / double(blockK)));
  // Loading queries and storing results takes as long as a few tiles of keys.
  constexpr int64_t startTiles = 3;
  struct Worker {
    Block block;
    int64_t wait = 0;
  };
  std::vector<Worker> workers;
  for (Worker worker;
       int64_t(workers.size()) < model.blocks && blocks.take(worker.block);)
    workers.push_back(worker);
  int64_t missed = 0;
  while (!workers.empty())
    for (size_t i = 0; i < workers.size();) {
      Worker &worker = workers[i];
      Block &block = worker.block;
      if (worker.wait > 0) {
        --worker.wait;
      } else if (block.next < block.end) {
        if (!cache.read(size_t(block.head * tilesOfHead + block.next)))
          missed += std::min(blockK, spec.sk - block.next * blockK);
        ++block.next;
      } else if (blocks.take(block)) {
        worker.wait = startTiles;
      } else {
        worker = workers.back();
        workers.pop_back();
        continue;
      }
      ++i;
    }
  return double(missed) * rowBytes;
}

bool attn::run::mayLoseStep(const AttentionSpec &spec,
                            const DeviceModel &model) {
  // Under a mask blocks have different lengths and none walks far.
  if (isMasked(spec) || model.blocks <= 0)
    return false;
  // Blocks move apart by about as much in each round, those of clusters, which
  // wait for each other, by less. Measured on 30 shapes (docs/performance):
  // below 36 rounds for a cache that holds all the keys that are read at once,
  // the prediction held, from 40 on it did not; of clusters up to 45 and from
  // 60 on.
  const double most = model.cluster > 1 ? 50 : 36;
  Blocks blocks(spec, model, model.blockK);
  double rowBytes = double(spec.d + spec.dv) * double(sizeOf(spec.dtype));
  double keyHeads = std::max<double>(
      double(blocks.headsAbreast()) / double(blocks.headsOfKeys()), 1);
  double held = double(model.cacheBytes) / 2 /
                std::max(rowBytes * double(spec.sk) * keyHeads, 1.0);
  double rounds = double(blocks.count()) / double(model.blocks);
  return rounds > most * held;
}
