//===- MaskTiles.cpp - What a mask makes of tiles -------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MaskTiles.h"
#include "attn/Analysis/MaskAnalysis.h"
#include "mlir/IR/IRMapping.h"

#include <map>
#include <optional>

using namespace mlir;
using ::attn::MaskAnalysis;
using ::attn::MaskTiles;
using ::attn::Precision;
using ::attn::ReferenceOptions;
using ::attn::Scalar;
using ::attn::Scalars;
using ::attn::detail::BoundRegion;
using ::attn::detail::MaskedPairs;

namespace {
/// A tile of one head.
struct Box {
  int64_t firstRow, lastRow, firstKey, lastKey;
};

/// The mask of one head.
class HeadMask {
public:
  HeadMask(const MaskedPairs &pairs, const MaskAnalysis &analysis,
           const BoundRegion &mask, std::map<void *, BoundRegion> &programs,
           int64_t batch, int64_t head)
      : pairs(pairs), analysis(analysis), mask(mask), programs(programs),
        batch(batch), head(head),
        rowBase(::attn::detail::baseOf(pairs.rowBase, batch)),
        keyBase(::attn::detail::baseOf(pairs.keyBase, batch)) {}

  /// 0, 1 or 2 as in MaskTiles, or nothing where only elements tell.
  std::optional<uint8_t> settle(const Box &box);
  uint8_t readElements(const Box &box) const;
  bool failed() const { return hasFailed; }

private:
  Scalars at(int64_t row, int64_t key) const {
    return {Scalar::ofInt(batch), Scalar::ofInt(head),
            Scalar::ofInt(row + rowBase), Scalar::ofInt(key + keyBase)};
  }
  /// A value of the region at a row and a key.
  int64_t evaluate(Value value, int64_t row, int64_t key);

  const MaskedPairs &pairs;
  const MaskAnalysis &analysis;
  const BoundRegion &mask;
  std::map<void *, BoundRegion> &programs;
  int64_t batch, head, rowBase, keyBase;
  /// Of samples, the least and the greatest from a row or a key on.
  std::map<std::pair<void *, int64_t>, std::pair<int64_t, int64_t>> samples;
  bool hasFailed = false;
};
} // namespace

/// The region with another result.
static FailureOr<BoundRegion> compileValue(const MaskedPairs &pairs,
                                           Value value) {
  Region copy;
  IRMapping mapping;
  pairs.region.cloneInto(&copy, mapping);
  Operation *yield = copy.front().getTerminator();
  yield->setOperands(mapping.lookup(value));
  return BoundRegion::compile(copy, pairs.captures);
}

int64_t HeadMask::evaluate(Value value, int64_t row, int64_t key) {
  auto found = programs.find(value.getAsOpaquePointer());
  if (found == programs.end()) {
    FailureOr<BoundRegion> program = compileValue(pairs, value);
    if (::failed(program)) {
      hasFailed = true;
      return 0;
    }
    found =
        programs.emplace(value.getAsOpaquePointer(), std::move(*program)).first;
  }
  Scalars results;
  found->second.evaluate(at(row, key), results, Precision::F64);
  return results[0].i;
}

std::optional<uint8_t> HeadMask::settle(const Box &box) {
  auto uniform = [&](Value value) { return evaluate(value, 0, 0); };
  auto cell = [&](Value value) {
    return evaluate(value, box.firstRow, box.firstKey);
  };
  auto sample = [&](Value value) {
    bool onKey = false;
    for (const MaskAnalysis::Sample &known : analysis.getSamples())
      if (known.value == value)
        onKey = known.onKey;
    int64_t first = onKey ? box.firstKey : box.firstRow;
    int64_t last = onKey ? box.lastKey : box.lastRow;
    auto [entry, isNew] =
        samples.try_emplace({value.getAsOpaquePointer(), first});
    auto &[least, greatest] = entry->second;
    if (isNew) {
      least = std::numeric_limits<int32_t>::max();
      greatest = std::numeric_limits<int32_t>::min();
      for (int64_t i = first; i <= last; ++i) {
        int64_t x = evaluate(value, onKey ? 0 : i, onKey ? i : 0);
        least = std::min(least, x);
        greatest = std::max(greatest, x);
      }
    }
    return entry->second;
  };
  // Cells and samples count from where the region's positions do.
  bool isPlain = rowBase == 0 && keyBase == 0;
  MaskAnalysis::NumberClass found = analysis.computeBoxClass(
      uniform, sample, box.firstRow + rowBase, box.lastRow + rowBase,
      box.firstKey + keyBase, box.lastKey + keyBase,
      isPlain ? MaskAnalysis::CellNumberFn(cell)
              : MaskAnalysis::CellNumberFn());
  if (found.dead)
    return MaskTiles::dead;
  if (found.full)
    return MaskTiles::full;
  return std::nullopt;
}

uint8_t HeadMask::readElements(const Box &box) const {
  bool someLive = false, someDead = false;
  Scalars results;
  for (int64_t i = box.firstRow; i <= box.lastRow; ++i)
    for (int64_t j = box.firstKey; j <= box.lastKey; ++j) {
      results.clear();
      mask.evaluate(at(i, j), results, Precision::F64);
      (results[0].i ? someLive : someDead) = true;
      if (someLive && someDead)
        return MaskTiles::partial;
    }
  return someLive ? MaskTiles::full : MaskTiles::dead;
}

namespace attn::detail {
LogicalResult tellMask(const MaskedPairs &pairs, int64_t number,
                       const ReferenceOptions &options) {
  if (!options.maskTiles)
    return success();
  const Reduction &reduction = pairs.reduction;
  int64_t heads = reduction.numHeads() * reduction.group();
  bool isMasked = !pairs.region.empty();
  std::optional<MaskAnalysis> analysis;
  std::optional<BoundRegion> mask;
  std::map<void *, BoundRegion> programs;
  if (isMasked) {
    analysis.emplace(pairs.region);
    FailureOr<BoundRegion> bound =
        BoundRegion::compile(pairs.region, pairs.captures);
    if (failed(bound))
      return failure();
    mask = std::move(*bound);
  }
  bool differsByHead = isMasked && !pairs.region.getArgument(1).use_empty();
  for (int64_t b = 0; b < reduction.numBatches(); ++b) {
    MaskTiles tiles;
    for (int64_t h = 0; h < heads; ++h) {
      tiles.head = h;
      if (h && !differsByHead) {
        options.maskTiles(tiles);
        continue;
      }
      tiles.reduction = number;
      tiles.batch = b;
      tiles.rows = reduction.numRows(b);
      tiles.keys = reduction.keysOfHead(b);
      auto count = [](int64_t size, int64_t tile) {
        return (size + tile - 1) / tile;
      };
      tiles.queryTiles = count(tiles.rows, options.tileRows);
      tiles.keyTiles = count(tiles.keys, options.tileKeys);
      tiles.classes.assign(tiles.queryTiles * tiles.keyTiles, MaskTiles::full);
      if (isMasked) {
        HeadMask one(pairs, *analysis, *mask, programs, b, h);
        for (size_t n = 0; n < tiles.classes.size(); ++n) {
          Box box;
          box.firstRow = int64_t(n) / tiles.keyTiles * options.tileRows;
          box.firstKey = int64_t(n) % tiles.keyTiles * options.tileKeys;
          box.lastRow =
              std::min(box.firstRow + options.tileRows, tiles.rows) - 1;
          box.lastKey =
              std::min(box.firstKey + options.tileKeys, tiles.keys) - 1;
          std::optional<uint8_t> settled = one.settle(box);
          tiles.classes[n] = settled ? *settled
                             : options.readElements
                                 ? one.readElements(box) | MaskTiles::read
                                 : MaskTiles::partial | MaskTiles::read;
        }
        if (one.failed())
          return failure();
      }
      options.maskTiles(tiles);
    }
  }
  return success();
}
} // namespace attn::detail
