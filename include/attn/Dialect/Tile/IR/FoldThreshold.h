//===- FoldThreshold.h - Keys that a fold passes over -----------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// `tile.threshold = N` on a tile.fold of one score and no values: a key whose
// score is at most the row's state N leaves all states of the row as they are.
// Lowerings test keys side by side and fold those alone that pass.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_TILE_IR_FOLDTHRESHOLD_H
#define ATTN_DIALECT_TILE_IR_FOLDTHRESHOLD_H

#include "attn/Dialect/Tile/IR/Tile.h"
#include <optional>

namespace mlir::tile {

constexpr llvm::StringLiteral foldThresholdName = "tile.threshold";

/// The number of the state that keys are compared with.
inline std::optional<unsigned> getThreshold(FoldOp op) {
  if (auto attr = op->getAttrOfType<IntegerAttr>(foldThresholdName))
    return unsigned(attr.getInt());
  return std::nullopt;
}

inline void setThreshold(FoldOp op, unsigned state) {
  op->setAttr(foldThresholdName,
              IntegerAttr::get(IntegerType::get(op.getContext(), 64), state));
}

} // namespace mlir::tile

#endif // ATTN_DIALECT_TILE_IR_FOLDTHRESHOLD_H
