//===- ShareVerifier.cpp - What attn.share takes and gives ----------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/Attn/IR/Attn.h"

using namespace mlir;
using namespace mlir::attn;

LogicalResult ShareOp::verify() {
  auto query = cast<RankedTensorType>(getQuery().getType());
  auto key = cast<RankedTensorType>(getKey().getType());
  auto rows = cast<RankedTensorType>(getQueries().getType());
  // (C1)
  if (query.getRank() != 4 || key.getRank() != 4 ||
      query.getElementType() != key.getElementType() ||
      ShapedType::isDynamic(query.getShape().back()) ||
      query.getShape().back() != key.getShape().back())
    return emitOpError("expected queries [b, hq, sq, d] and keys [pages, hk, "
                       "page, d] of one element type and a static d, but got ")
           << query << " and " << key;
  // (C2)
  if (rows.getRank() != 4 || rows.getElementType() != query.getElementType() ||
      rows.getShape().back() != query.getShape().back() ||
      ShapedType::isDynamic(rows.getDimSize(2)))
    return emitOpError("expected rows of groups [groups, hk, rows, d] of the "
                       "type of the queries, and a static number of rows, but "
                       "got ")
           << rows;
  // (C3)
  int64_t levels = cast<ShapedType>(getPlaces().getType()).getDimSize(0);
  if (levels != static_cast<int64_t>(getLevels()))
    return emitOpError("expected places of ")
           << getLevels() << " levels, but got " << getPlaces().getType();
  return success();
}
