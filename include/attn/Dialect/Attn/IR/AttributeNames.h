//===- AttributeNames.h - Attributes of the attn dialect --------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What passes leave for later ones on operations of other dialects. Together
// with `attn.dispatch`, `attn.rung` and `attn.saved_bytes` (Attn.h) these are
// all that there are. The dialect verifies them, and knows no others, on
// operations and on arguments and results of functions.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTN_IR_ATTRIBUTENAMES_H
#define ATTN_DIALECT_ATTN_IR_ATTRIBUTENAMES_H

#include "llvm/ADT/StringRef.h"

namespace mlir::attn {

/// Of a module: the name of what it is compiled for (absent: this machine).
constexpr llvm::StringLiteral getTargetName() { return "attn.target"; }

/// Of a module: the sizes [b, hq, sq, sk(, hk)] that its runs are expected to
/// have, 0 where nothing is: a hint, right or wrong.
constexpr llvm::StringLiteral getExpectedSizesName() {
  return "attn.expected_sizes";
}

/// Of an attn.aggregate: that its keys from the first one on may be read once
/// for sequences with the same pages, and where its mask ends them
/// (`#attn.causal`); and in how many levels (i64).
constexpr llvm::StringLiteral getCascadeName() { return "attn.cascade"; }
constexpr llvm::StringLiteral getCascadeLevelsName() {
  return "attn.cascade_levels";
}

/// Of an attn.attention or attn.aggregate with `batch_invariant`: how many keys
/// (i64) a part has, counted from key 0 of a sequence. Each part is reduced by
/// itself, and the states of parts are multiplied in order, whether one block
/// does it or several (attn-choose-schedule writes it). Absent: one part.
constexpr llvm::StringLiteral getPartKeysName() { return "attn.part_keys"; }

/// Of a function that gives gradients: of which argument each result is, and
/// where it reads the element that has it, "table[h,j]".
constexpr llvm::StringLiteral getGradientsName() { return "attn.gradients"; }

/// Of an attn.aggregate: that its scores are 0 for pairs that are dead by their
/// scores, as attn-differentiate writes them, and never -inf all together:
/// nothing has to test them again.
constexpr llvm::StringLiteral getDeadIsZeroName() {
  return "attn.dead_is_zero";
}

/// Of an attn.aggregate: that its mask says no more than which pairs have an
/// element of -inf added to their score. Their weights are 0 without it, where
/// the rows of the dots are finite. attn-differentiate writes it.
constexpr llvm::StringLiteral getDeadByElementName() {
  return "attn.dead_by_element";
}

/// Of a reduction: that its weights are powers of 2 of the distance from the
/// row's maximum, and whether the exponent is a multiply-add ("fused") or a
/// product of the difference ("exact"). attn-online-form writes it.
constexpr llvm::StringLiteral getExponentName() { return "attn.exponent"; }
constexpr llvm::StringLiteral getFusedExponent() { return "fused"; }
constexpr llvm::StringLiteral getExactExponent() { return "exact"; }

/// Of a reduction: that its maximum is held in units of what its score is a
/// factor times of (attn-fold-scale).
constexpr llvm::StringLiteral getScoreUnitName() { return "attn.score_unit"; }

/// Of a reduction: that the product of whole tiles adds what the score grows by
/// from key to key (attn-fold-linear-bias).
constexpr llvm::StringLiteral getLinearBiasName() { return "attn.linear_bias"; }

/// Of a reduction: that the query heads of a key head are rows of one tile
/// (attn-pack-heads), in runs whose strides and sizes allow it.
constexpr llvm::StringLiteral getPackedHeadsName() {
  return "attn.packed_heads";
}

/// Of a reduction: that kernels before it list its key tiles
/// (attn-list-key-tiles), with words of the keys of masked ones ("tiles"), or
/// with all elements of the mask in them ("bits").
constexpr llvm::StringLiteral getListedKeysName() { return "attn.listed_keys"; }
constexpr llvm::StringLiteral getListedTiles() { return "tiles"; }
constexpr llvm::StringLiteral getListedBits() { return "bits"; }

/// Of a function whose gradients may be added up in any order, and so of the
/// attn.aggregate that give these: the same call may then give other bits.
constexpr llvm::StringLiteral getAnyOrderName() { return "attn.any_order"; }

/// Of an argument or a result: what it is called, and which sizes have to be
/// equal. Users may write it too, with what they know.
constexpr llvm::StringLiteral getArgName() { return "attn.arg"; }

/// Of an argument: the number of the argument whose memory it is, and of which
/// it has the first columns. Users may write it too.
constexpr llvm::StringLiteral getColumnsOfName() { return "attn.columns_of"; }

/// Of a function: pairs of sizes, the first of which is a multiple of the
/// second.
constexpr llvm::StringLiteral getMultiplesName() { return "attn.multiples"; }

/// Of an entry in the LLVM dialect, whose arguments have no types to speak of:
/// `attn.arg` of each, with its type.
constexpr llvm::StringLiteral getInterfaceName() { return "attn.interface"; }

/// Of the making of a tensor map: what its tensor is called in errors.
constexpr llvm::StringLiteral getTensorNameName() { return "attn.tensor_name"; }

} // namespace mlir::attn

#endif // ATTN_DIALECT_ATTN_IR_ATTRIBUTENAMES_H
