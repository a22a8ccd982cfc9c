//===- MarkReductions.h - Named rewrites as marks ---------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_ATTN_TRANSFORMS_MARKREDUCTIONS_H
#define ATTN_LIB_DIALECT_ATTN_TRANSFORMS_MARKREDUCTIONS_H

#include "attn/Dialect/Attn/IR/Attn.h"
#include "attn/Target/TargetInfo.h"
#include "mlir/IR/BuiltinOps.h"

namespace mlir::attn {

/// A named rewrite that is a mark on the reductions to which it applies.
struct MarkedRewrite {
  /// Begins the remark that says why a reduction does not get the mark.
  StringRef missed;
  function_ref<bool(ReductionOpInterface)> isMarked;
  /// Why it cannot have the mark; empty if it can.
  function_ref<StringRef(ReductionOpInterface, MonoidOp,
                         const ::attn::TargetInfo &)>
      whyNot;
  function_ref<void(ReductionOpInterface)> mark;
};

/// How many reductions got the mark, and how many could not.
struct MarkCounts {
  unsigned marked = 0, kept = 0;
};

/// Marks the reductions of a module that are not marked yet, with remarks about
/// the others if `explain`; nothing after reporting that the module's target is
/// unknown.
std::optional<MarkCounts> markReductions(ModuleOp module, bool explain,
                                         const MarkedRewrite &rewrite);

} // namespace mlir::attn

#endif // ATTN_LIB_DIALECT_ATTN_TRANSFORMS_MARKREDUCTIONS_H
