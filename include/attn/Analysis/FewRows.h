//===- FewRows.h - Rows that are columns of products ------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_ANALYSIS_FEWROWS_H
#define ATTN_ANALYSIS_FEWROWS_H

#include <cstdint>

namespace attn {
struct TargetInfo;

/// Whether row blocks of `rows` are columns of a warpgroup's products, of which
/// `blockV` channels are rows, more than a product has columns.
bool rowsAreColumns(int64_t rows, int64_t blockV, const TargetInfo &target);

/// Whether a tile of `blockK` keys is two slots, of which each of two
/// warpgroups that share the sums of `blockV` channels weighs one.
bool keysAreTwoSlots(int64_t rows, int64_t blockK, int64_t blockV,
                     const TargetInfo &target);

/// Whether a block has half of the rows of a warpgroup's products, eight of
/// each warp; and these.
bool rowsAreHalf(int64_t blockQ, int64_t rows, const TargetInfo &target);
inline constexpr int64_t halfRows = 32;

/// What `blocksAtOnce` says of row blocks with `blockV` channels of values.
int64_t blocksAtOnce(int64_t rows, int64_t blockV, const TargetInfo &target);

} // namespace attn

#endif // ATTN_ANALYSIS_FEWROWS_H
