//===- RungRewriter.h - A reduction as a rung has it ------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each rung is the same reduction by other rewrites (docs/Ladder.md). What they
// have in common is a step from a cocycle to a plain sum: once there is a point
// to measure from, r(c_j, point) is a part of the weight, the statistic has
// nothing more to do, and the sums over keys are those of a monoid without one.
// `safe` measures from the statistic of the whole row, which a traversal ahead
// has found; `lazy`, from a point that is the same for all rows; `naive` is
// `safe` on scores that are in memory.
//
// The weights are computed in the score region and not in the monoid: there the
// point can be captured, and a lift that takes weights is lawful whatever they
// are.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_ATTN_TRANSFORMS_RUNGREWRITER_H
#define ATTN_LIB_DIALECT_ATTN_TRANSFORMS_RUNGREWRITER_H

#include "Rungs.h"
#include "attn/Dialect/Attn/Transforms/RegionUtils.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include <optional>

namespace mlir::attn {

/// Rewrites one aggregate.
class RungRewriter {
public:
  RungRewriter(AggregateOp op, MonoidOp monoid, SymbolTable &symbols,
               const ::attn::TargetInfo &target, Rung rung)
      : op(op), monoid(monoid), symbols(symbols), target(target), rung(rung),
        b(op), loc(op.getLoc()) {}
  LogicalResult run();

private:
  /// Where weights are measured from: the statistics of each row, or of a score
  /// of 0.
  enum class Point { row, zero };

  LogicalResult check();
  LogicalResult checkSums();
  void keepScores();
  SmallVector<Value> findStatistics();
  void sumFrom(Point point);
  void cutTiles();

  InFlightDiagnostic refuse() { return op.emitOpError("expected "); }
  /// What a rewrite leaves has the tiles of `fa2`, which nothing rewrites
  /// again.
  void markDone(Operation *made) {
    made->setAttr(getRungAttrName(), RungAttr::get(b.getContext(), Rung::fa2));
  }
  std::string ofRung() { return " for the rung " + stringifyRung(rung).str(); }

  // Within a region.
  Value f32(float value) {
    return arith::ConstantFloatOp::create(b, loc, b.getF32Type(),
                                          APFloat(value));
  }
  Value compare(arith::CmpFPredicate predicate, Value x, Value y) {
    return arith::CmpFOp::create(b, loc, predicate, x, y);
  }
  Value select(Value condition, Value x, Value y) {
    return arith::SelectOp::create(b, loc, condition, x, y);
  }
  Value both(Value x, Value y) {
    return x ? arith::AndIOp::create(b, loc, x, y).getResult() : y;
  }
  Value all(ValueRange values, arith::CmpFPredicate predicate,
            ValueRange than) {
    Value result;
    for (auto [x, y] : llvm::zip(values, than))
      result = both(result, compare(predicate, x, y));
    return result;
  }
  Value element(Value tensor, ValueRange positions);
  Block *openRegion(Region &region, TypeRange state, unsigned positions,
                    ValueRange captures);
  SmallVector<Value> identity(ValueRange params) {
    return inlineRegion(b, monoid.getIdentity(), params);
  }
  /// The point of a row, from its captured statistics, or the fixed one.
  SmallVector<Value> pointOf(ValueRange statistics, ValueRange row,
                             ValueRange params);

  /// What a component's sum is over: a weight of lift, which shift moves for
  /// that component alone, and the number of its factor. Components that have
  /// all in common share a score.
  struct Term {
    Value weight;
    unsigned factor;
    std::optional<unsigned> shifted;
    bool operator==(const Term &o) const {
      return weight == o.weight && factor == o.factor && shifted == o.shifted;
    }
  };
  SmallVector<Term> terms;
  SmallVector<unsigned> termOf; // by component
  void findTerms();
  MonoidOp makeStatistics();
  MonoidOp makeSums(bool countsSeen);
  void buildWeights(Region &region, Point point, ValueRange captures,
                    unsigned numStatistics);
  void buildInit(Region &region, Point point, ValueRange captures,
                 unsigned numStatistics);
  void buildFinalize(Region &region, Point point, ValueRange captures,
                     unsigned numStatistics);
  /// The scores of a pair as they are, and the captures of the operation as
  /// they were.
  SmallVector<Value> scoresOf(Block *block, size_t numOwn);
  void copyRegion(Region &from, Region &to, ValueRange captures);

  AggregateOp op;
  MonoidOp monoid;
  SymbolTable &symbols;
  const ::attn::TargetInfo &target;
  Rung rung;
  OpBuilder b;
  Location loc;

  /// Factors that f32 has room for beside values, and sums of them.
  static constexpr float largestFactor = 0x1p64f, smallestFactor = 0x1p-64f;
  /// What a live key counts whose factor is too small: none make one.
  static constexpr float unseen = 0x1p-100f;
};

} // namespace mlir::attn

#endif // ATTN_LIB_DIALECT_ATTN_TRANSFORMS_RUNGREWRITER_H
