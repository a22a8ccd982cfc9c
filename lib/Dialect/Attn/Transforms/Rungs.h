//===- Rungs.h - The rungs of the ladder ------------------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_ATTN_TRANSFORMS_RUNGS_H
#define ATTN_LIB_DIALECT_ATTN_TRANSFORMS_RUNGS_H

#include "attn/Dialect/Attn/IR/Attn.h"
#include "attn/Target/TargetInfo.h"

namespace mlir::attn {

/// The schedule of a rung, from the one that is chosen without it.
ScheduleAttr scheduleOfRung(Rung rung, ReductionOpInterface op,
                            ScheduleAttr chosen,
                            const ::attn::TargetInfo &target);

/// B_kv = ceil(M / 4d) of FlashAttention-1 (algorithm 1, line 1), in whole
/// tiles: M elements are on chip.
int64_t keysOfFirst(ReductionOpInterface op, const ::attn::TargetInfo &target);

/// Splits into `splits` parts, or into `parts` of them where it is not null, of
/// multiples of `granule` keys unless that is null (Split.cpp).
PartialOp splitKeys(AggregateOp op, MonoidOp monoid, int64_t splits,
                    Value parts, IntegerAttr granule);

/// What keeps sequences from sharing pages, or nothing (SharePrefixes.cpp).
std::string whyNotShared(AggregateOp op, MonoidOp monoid);

/// Splits as the schedule says (Split.cpp); or nothing, and an error.
FailureOr<PartialOp> splitBySchedule(AggregateOp op, MonoidOp monoid,
                                     const ::attn::TargetInfo &target);

} // namespace mlir::attn

#endif // ATTN_LIB_DIALECT_ATTN_TRANSFORMS_RUNGS_H
