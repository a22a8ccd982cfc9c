//===- MaskTiles.h - What a mask makes of tiles -----------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The analysis of masks with the numbers of one call, as kernels have them, and
// the elements of tiles that it does not settle. Pictures and counts are made
// of it.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_INTERPRETER_MASKTILES_H
#define ATTN_LIB_INTERPRETER_MASKTILES_H

#include "RowReduction.h"

namespace attn::detail {

/// The mask of a reduction, and what its positions count from.
struct MaskedPairs {
  mlir::Region &region; ///< Empty: every pair is live.
  std::vector<const ReferenceValue *> captures;
  const Reduction &reduction;
  const ReferenceValue *rowBase, *keyBase;
};

/// Tells `options.maskTiles`, if that is given, of each head of each batch.
llvm::LogicalResult tellMask(const MaskedPairs &pairs, int64_t number,
                             const ReferenceOptions &options);

} // namespace attn::detail

#endif // ATTN_LIB_INTERPRETER_MASKTILES_H
