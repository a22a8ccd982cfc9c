//===- DescribeProblem.h - What a reduction asks of its schedule -*- C++
//-*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_ATTN_TRANSFORMS_DESCRIBEPROBLEM_H
#define ATTN_LIB_DIALECT_ATTN_TRANSFORMS_DESCRIBEPROBLEM_H

#include "attn/Analysis/Schedule.h"
#include "attn/Dialect/Attn/IR/Attn.h"
#include "attn/Target/TargetInfo.h"
#include <array>

namespace mlir::attn {

/// What the arithmetic of schedules takes of a reduction: widths, operations of
/// a score, states, and the sizes that are known. `expected` has [b, hq, sq,
/// sk, hk] of runs, 0 where nothing is expected.
::attn::ScheduleProblem describeProblem(ReductionOpInterface op,
                                        MonoidOp monoid,
                                        const std::array<int64_t, 5> &expected,
                                        const ::attn::TargetInfo &target);

/// Whether keys of rows whose bits depend on no other are reduced in parts of a
/// fixed number of keys: where a state without keys is neutral bit by bit, and
/// a block has room for a second state.
bool cutsKeys(ReductionOpInterface op, MonoidOp monoid,
              ::attn::ScheduleProblem problem,
              const ::attn::TargetInfo &target);

} // namespace mlir::attn

#endif // ATTN_LIB_DIALECT_ATTN_TRANSFORMS_DESCRIBEPROBLEM_H
