//===- TileAnchor.h - The reference point of exponentials -------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILEANCHOR_H
#define ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILEANCHOR_H

#include "TileKernel.h"

namespace mlir::attn {

/// What a row's state and the elements of a tile are rescaled by: with the new
/// statistics, the factors of the old sums and, for an exponential, which has
/// one, the offset of the exponents; and, where those are fused, whether the
/// row is far, or its own k; and the exponent of the factor, where sums of
/// distances need it.
struct RowFactors {
  SmallVector<Value> stats, factors;
  Value offset, far, k, moved;
};
RowFactors rescaleRows(ReductionContext &ctx, RowBlock &block,
                       ArrayRef<Value> tileStats);

/// exp2((stat + offset) * k), or fused; and its exponent.
Value exponential(ReductionContext &ctx, Value stat, Value offset, Value k,
                  bool isWeight, Value *exponent = nullptr);
/// What a statistic is multiplied by for an exponent of 2.
inline Value scaleToBase(ReductionContext &ctx) {
  return ctx.form.scaleLog2 ? ctx.form.scaleLog2 : ctx.f32(ctx.form.base);
}

/// Whether anchors follow the greatest statistic late: where scaling the sums
/// takes the time of products, and no output tells the anchor.
bool anchorsLate(ReductionContext &ctx);

/// Where anchors begin to be far from 0, a power of two T: the rounding of an
/// anchor's product with k, 2^-24 of it, would take the weights of larger ones
/// out of the range of what holds them. T times 2^floor(log2(k)) is 2^29, of
/// f16 2^27: weights of near rows are off by 2^32 at most, together. And
/// `farK`, the k of far rows, a power of two q: their products are exact, and
/// any other score is 0 beside their anchor's. No finite score's product with q
/// is infinite, for q is at most the score's `unit`, or 1; and float32 knows no
/// two far scores so close that q would let both count. T itself has an exact
/// product, so that scores next to each other on both sides of T are told apart
/// as well: by 2^64, of k above 1 by 2^16 at least.
void findFarAnchors(ReductionContext &ctx);
/// Whether an anchor is far from 0, or `orAt` the limit.
Value isFar(ReductionContext &ctx, Value anchor, bool orAt = false);
/// Rows that are far from 0 take their anchor from the scores of the tile,
/// which is exact for those next to it, and have no offset. Sums that are near
/// are at the rounded product p of their anchor and k, those that are far at
/// their anchor a itself, so that a sum's exponent moves by
/// (p_old - p_new) + (a_old - a_new) * k, where the other p and a are 0.
void anchorFarRows(ReductionContext &ctx, RowBlock &block, RowFactors &row,
                   Value &stat);

/// Sums of weights exp(s - a) times the distance s - a from the anchor are held
/// as those of weights times (s - a) * log2(e), the exponent that the weight is
/// made of: no element takes another look at its score. What rounding has moved
/// the anchor by is in each exponent, as it is in the weights. The state with
/// distances, from the point where it is held.
SmallVector<Value> fromExponents(ReductionContext &ctx, ValueRange state);

/// Within a map: a statistic that is held in units of the dot.
Value inScoreUnits(ReductionContext &ctx, Value stat, Value row);
/// A state that is given at the exact reference point of its statistic, as it
/// is held here.
SmallVector<Value> fromReferencePoint(ReductionContext &ctx, ValueRange state);
/// Parts meet other parts, so their statistic must be the exact reference
/// point of their sums; of those `atMaximum` up to what it is rounded by.
SmallVector<Value> toReferencePoint(ReductionContext &ctx, ValueRange state);

} // namespace mlir::attn

#endif // ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILEANCHOR_H
