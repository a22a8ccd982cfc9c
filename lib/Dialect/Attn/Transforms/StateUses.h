//===- StateUses.h - What becomes of the states of a reduction --*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Rewrites of how states are held need what is made of them: the outputs of an
// aggregate, or what the states of a partial are combined and finalized to.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_ATTN_TRANSFORMS_STATEUSES_H
#define ATTN_LIB_DIALECT_ATTN_TRANSFORMS_STATEUSES_H

#include "attn/Dialect/Attn/IR/Attn.h"
#include "attn/Target/TargetInfo.h"

namespace mlir::attn {

/// max(a, b): commutes with a positive factor.
bool isMaximum(Region &combine);

/// Where the factors of a cocycle with one f32 statistic, which starts at -inf,
/// are exp(from - to) or exp2(from - to): log2(e), or 1.
std::optional<float> exponentialBase(MonoidOp monoid);

/// Whether an element's statistic is the score itself, -inf where it is dead,
/// and `lift` needs the score for no weight.
bool scoreIsStatistic(MonoidOp monoid);

/// The same where a weight needs the score, and nothing but it: it is computed
/// from the statistic, together with the factor, which is exp(from - to) of a
/// maximum. A dead score counts as the least finite one there, whose weight
/// times the factor 0 is 0.
bool weightsFollowStatistic(MonoidOp monoid);

/// Whether each weight of a cocycle with one statistic is a quotient by f of
/// that of its element, and factors are quotients f(from) / f(to): a weight
/// times its factor is the dividend over f of the row's statistic.
bool weighsByQuotient(MonoidOp monoid);

/// Whether, beside that, there is one weight, and the statistic is the size of
/// its dividend, or the dividend itself.
bool dividendIsStatistic(MonoidOp monoid);

/// Where all that `shift` does is to lengthen distances: sums of weights times
/// the distance of their score from the statistic, which grow by what that
/// moves by times the sum of the weights. For each component whether it is one;
/// and the sum of ones.
struct ScoreDistances {
  SmallVector<bool> isDistance;
  unsigned ones = 0;
};
std::optional<ScoreDistances> findDistances(MonoidOp monoid);

/// Erases those of `monoids`, in whose place others are, that are private and
/// have no user left.
void eraseUnused(ArrayRef<MonoidOp> monoids, SymbolTableCollection &tables);

/// Types of what is made of a reduction: of its results, or of what the states
/// of a partial are finalized to. Of states that are used in another way, their
/// own.
SmallVector<Type> outputTypes(Operation *op);

/// Whether a NaN that `combine` drops reaches every output all the same.
bool mayDropNaN(Operation *op, MonoidOp monoid);

/// Whether no output that is asked for sees which reference point the state has
/// (see gaugeInvariant), and dead rows are known by a sum of units.
bool anchorIsFree(Operation *op, MonoidOp monoid);

/// For each output of an aggregate whether it shows which reference point the
/// sums have, as a state that is kept for a backward pass does: it reads them,
/// and is not gauge invariant.
std::vector<bool> findAnchorShown(AggregateOp op, MonoidOp monoid);

/// Whether outputs of a reduction's states show the reference point of the
/// sums, and none shows the statistic. It is then the row's greatest score, as
/// exact as the sums know it: the mean distance from it is 0 of one key,
/// whatever the score is rounded by as a number of f32. Else it is the
/// statistic as rounded.
bool sumsAreAtMaximum(Operation *op, MonoidOp monoid);

/// What keeps the maximum of a reduction from being relaxed, or nothing
/// (RelaxMaximum.cpp).
StringRef whyNotRelaxed(ReductionOpInterface op, MonoidOp monoid,
                        const ::attn::TargetInfo &target);

/// What keeps the anchor of a reduction from being fixed, or nothing
/// (FixAnchor.cpp).
StringRef whyNotFixed(ReductionOpInterface op, MonoidOp monoid,
                      const ::attn::TargetInfo &target);
/// The factor of a score, of constants and scalar captures, that what it
/// multiplies, between -1 and 1, does not make larger; else null.
Value factorOfScore(ReductionOpInterface op);
/// Up to what size of that factor the anchor may be fixed.
float fixedAnchorLimit(MonoidOp monoid);

} // namespace mlir::attn

#endif // ATTN_LIB_DIALECT_ATTN_TRANSFORMS_STATEUSES_H
