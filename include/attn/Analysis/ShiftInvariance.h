//===- ShiftInvariance.h - Outputs that see differences alone ---*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_ANALYSIS_SHIFTINVARIANCE_H
#define ATTN_ANALYSIS_SHIFTINVARIANCE_H

#include "attn/Dialect/Attn/IR/Attn.h"

namespace attn {

/// Tries whether the outputs of a finalize region stay as they are where all
/// scores grow by one number: the statistic of a cocycle whose statistic is the
/// largest score, and each component by `slopes[i]` times that number and the
/// component `ones`. False for all where the region cannot be evaluated.
std::vector<bool> findShiftInvariant(mlir::attn::MonoidOp monoid,
                                     mlir::Region &finalize,
                                     llvm::ArrayRef<float> slopes,
                                     unsigned ones);

} // namespace attn

#endif // ATTN_ANALYSIS_SHIFTINVARIANCE_H
