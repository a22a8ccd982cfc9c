//===- Distances.h - What is the same for pairs that are far apart --------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_ATTN_TRANSFORMS_DISTANCES_H
#define ATTN_LIB_DIALECT_ATTN_TRANSFORMS_DISTANCES_H

#include "mlir/IR/Value.h"
#include <optional>

namespace mlir::attn {

/// What a value is for all pairs whose distance is `from` or more; null where
/// that is known when it runs.
struct FarValue {
  int64_t from = 0;
  std::optional<int64_t> value = {};
};

/// Whether a value of a region differs by the distance of a row and a key
/// alone, and may be the same for many: it has a bound, or is read from a
/// tensor. Captures follow the positions among the region's arguments.
bool isOfBoundedDistance(Value value, BlockArgument row, BlockArgument key);

/// Of a value of a region: the same for all rows that are far enough behind
/// their keys (row - key), or ahead of them (key - row); nothing where it is
/// not.
std::optional<FarValue> findFarValue(Value value, Value row, Value key,
                                     bool isAhead);

} // namespace mlir::attn

#endif // ATTN_LIB_DIALECT_ATTN_TRANSFORMS_DISTANCES_H
