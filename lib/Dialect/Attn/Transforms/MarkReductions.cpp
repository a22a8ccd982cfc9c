//===- MarkReductions.cpp - Named rewrites as marks -----------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MarkReductions.h"
#include "attn/Analysis/TargetAttr.h"

using namespace mlir;
using namespace mlir::attn;

std::optional<MarkCounts>
mlir::attn::markReductions(ModuleOp module, bool explain,
                           const MarkedRewrite &rewrite) {
  std::optional<::attn::TargetInfo> target = ::attn::getTarget(module);
  if (!target)
    return std::nullopt;
  MarkCounts counts;
  module.walk([&](ReductionOpInterface op) {
    MonoidOp monoid = lookupMonoid(op, op.getMonoidRef());
    if (!monoid || rewrite.isMarked(op))
      return;
    if (StringRef why = rewrite.whyNot(op, monoid, *target); !why.empty()) {
      ++counts.kept;
      if (explain)
        op->emitRemark(rewrite.missed) << why;
      return;
    }
    rewrite.mark(op);
    ++counts.marked;
  });
  return counts;
}
