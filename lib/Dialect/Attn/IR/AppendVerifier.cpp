//===- AppendVerifier.cpp - What attn.append takes ------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RegionVerifier.h"

using namespace mlir;
using namespace mlir::attn;

LogicalResult AppendOp::verify() {
  // (C1)
  if (getRows().empty() || getRows().size() != getCaches().size())
    return emitOpError("expected a cache for each tensor of rows, but got ")
           << getRows().size() << " and " << getCaches().size();
  // (C2)
  if (getRolling() && (getBlockTable() || !getKStart()))
    return emitOpError("expected a rolling cache to have k_start and no pages");
  if (getKStart() && !getRolling())
    return emitOpError("expected k_start with a rolling cache alone");
  bool contradicts = false;
  auto sizesMeet = [](int64_t a, int64_t b) {
    return a == b || ShapedType::isDynamic(a) || ShapedType::isDynamic(b);
  };
  for (auto [rows, cache] : llvm::zip_equal(getRows(), getCaches())) {
    auto from = cast<RankedTensorType>(rows.getType());
    auto to = cast<RankedTensorType>(cache.getType());
    // (C3)
    int64_t lead = getOffsets() ? 0 : 1;
    if (from.getRank() != 3 + lead || to.getRank() != 4 ||
        from.getElementType() != to.getElementType() ||
        ShapedType::isDynamic(from.getShape().back()) ||
        from.getShape().back() != to.getShape().back())
      return emitOpError("expected rows ")
             << (lead ? "[b, h, n, d]" : "[h, total, d]")
             << (" and caches [b, h, rows, d] "
                 "or [pages, h, page, d] of one element type and a "
                 "static d, but got ")
             << from << " and " << to;
    contradicts |= !sizesMeet(from.getDimSize(lead), to.getDimSize(1));
    if (!getBlockTable() && lead)
      contradicts |= !sizesMeet(from.getDimSize(0), to.getDimSize(0));
    auto first = cast<RankedTensorType>(getRows().front().getType());
    for (int64_t d = 0; d < 2 + lead; ++d)
      contradicts |= !sizesMeet(first.getDimSize(d), from.getDimSize(d));
    contradicts |=
        lead &&
        !sizesMeet(first.getDimSize(0),
                   cast<ShapedType>(getLengths().getType()).getDimSize(0));
    // (C4)
    if (contradicts)
      return emitOpError("expected batches, heads and rows to agree, but got ")
             << from << " and " << to << " with lengths "
             << getLengths().getType();
    // (C5)
    if (!isa<BlockArgument>(cache))
      return emitOpError("expected a cache to be an argument of the function");
  }
  return success();
}
