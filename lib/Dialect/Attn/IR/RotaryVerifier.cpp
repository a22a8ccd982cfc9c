//===- RotaryVerifier.cpp - Channels that turn before the dot -------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RegionVerifier.h"

using namespace mlir;
using namespace mlir::attn;

/// Region `name` turns one pair of channels of a row.
static LogicalResult verifyTurn(Operation *op, Region &region, StringRef name,
                                ValueRange captures) {
  Builder builder(op->getContext());
  Type f32 = builder.getF32Type(), i32 = builder.getI32Type();
  SmallVector<Type> types = {f32, f32, i32, i32, i32, i32};
  llvm::append_range(types, captures.getTypes());
  return success(succeeded(verifyBody(op, region, name, types)) &&
                 succeeded(verifyYieldsFloats(op, region, name, 2)));
}

LogicalResult
mlir::attn::verifyRotary(Operation *op, RotaryAttr rotary,
                         ArrayRef<std::pair<StringRef, Region *>> regions,
                         ValueRange queries, ValueRange captures) {
  std::string names;
  bool any = false;
  for (auto [name, region] : regions) {
    any |= !region->empty();
    names += (names.empty() ? "'" : " or '") + name.str() + "'";
  }
  if (!rotary && !any)
    return success();
  if (!rotary)
    return op->emitOpError("expected 'rotary' to say which channels region ")
           << names << " turns, such as rotary = #attn.rotary<64, halves>";
  if (!any)
    return op->emitOpError("expected a region ")
           << names << " with 'rotary', which turns the channels";
  if (queries.size() != 1)
    return op->emitOpError("expected one dot pair with 'rotary', but got ")
           << queries.size();
  int64_t depth = cast<ShapedType>(queries[0].getType()).getShape().back();
  int64_t channels = rotary.getChannels();
  if (channels < 2 || channels % 2 || channels > depth)
    return op->emitOpError("expected 'rotary' to turn an even number of "
                           "channels from 2 to the head dimension ")
           << depth << ", but got " << channels;
  for (auto [name, region] : regions)
    if (!region->empty() && failed(verifyTurn(op, *region, name, captures)))
      return failure();
  return success();
}
