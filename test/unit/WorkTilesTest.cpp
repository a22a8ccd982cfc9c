//===- WorkTilesTest.cpp - Every work tile has one number -----------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/Tile/IR/WorkTiles.h"
#include "gtest/gtest.h"

#include <algorithm>
#include <array>
#include <set>

using namespace mlir;

namespace {
using Tile = tile::WorkTile<int64_t>;
using Domain = tile::WorkDomain<int64_t>;

Tile locate(int64_t number, Domain domain, mlir::attn::WorkOrder order) {
  tile::NumberMath m;
  tile::countWork(m, domain);
  return tile::locateWorkTile(m, number, domain, order);
}

/// Calls `check` for many domains, in every order.
template <typename Check> void forDomains(Check check) {
  for (int64_t batches : {1, 2, 3})
    for (int64_t heads : {1, 2, 5})
      for (int64_t tiles : {1, 2, 4, 6})
        for (int64_t parts : {1, 3})
          for (int64_t section : {0, 1, 2, 4, 100})
            for (int64_t cluster : {1, 2})
              for (auto order : {mlir::attn::WorkOrder::in_order,
                                 mlir::attn::WorkOrder::longest_first})
                if (tiles % cluster == 0) {
                  Domain domain = {batches, heads, tiles, parts, {}, cluster};
                  if (section)
                    domain.section = section;
                  check(domain, order);
                }
}
} // namespace

TEST(WorkTiles, EachHasOneNumber) {
  forDomains([](const Domain &domain, mlir::attn::WorkOrder order) {
    int64_t total = domain.batches * domain.heads * domain.tiles * domain.parts;
    std::set<std::array<int64_t, 4>> seen;
    for (int64_t number = 0; number < total; ++number) {
      Tile at = locate(number, domain, order);
      EXPECT_TRUE(at.batch >= 0 && at.batch < domain.batches);
      EXPECT_TRUE(at.head >= 0 && at.head < domain.heads);
      EXPECT_TRUE(at.tile >= 0 && at.tile < domain.tiles);
      EXPECT_TRUE(at.part >= 0 && at.part < domain.parts);
      seen.insert({at.batch, at.head, at.tile, at.part});
    }
    EXPECT_EQ(int64_t(seen.size()), total);
  });
}

TEST(WorkTiles, ClustersHaveNeighbouringTilesOfOneHead) {
  forDomains([](const Domain &domain, mlir::attn::WorkOrder order) {
    if (domain.cluster == 1)
      return;
    int64_t total = domain.batches * domain.heads * domain.tiles * domain.parts;
    for (int64_t number = 0; number < total; number += domain.cluster) {
      Tile first = locate(number, domain, order);
      for (int64_t rank = 1; rank < domain.cluster; ++rank) {
        Tile other = locate(number + rank, domain, order);
        EXPECT_EQ(other.batch, first.batch);
        EXPECT_EQ(other.head, first.head);
        EXPECT_EQ(other.part, first.part);
        EXPECT_EQ(std::abs(other.tile - first.tile), rank);
      }
    }
  });
}

TEST(WorkTiles, HeadsOfASectionAdvanceTogether) {
  Domain domain = {/*batches=*/1, /*heads=*/6, /*tiles=*/3, /*parts=*/1, 4};
  std::vector<std::pair<int64_t, int64_t>> order;
  for (int64_t number = 0; number < 18; ++number) {
    Tile at = locate(number, domain, mlir::attn::WorkOrder::longest_first);
    order.push_back({at.head, at.tile});
  }
  std::vector<std::pair<int64_t, int64_t>> expected = {
      {0, 2}, {1, 2}, {2, 2}, {3, 2}, {0, 1}, {1, 1}, {2, 1}, {3, 1}, {0, 0},
      {1, 0}, {2, 0}, {3, 0}, {4, 2}, {5, 2}, {4, 1}, {5, 1}, {4, 0}, {5, 0}};
  EXPECT_EQ(order, expected);
}
