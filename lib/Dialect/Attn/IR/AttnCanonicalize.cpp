//===- AttnCanonicalize.cpp - Canonical forms of reductions ---------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
// A reduction in canonical form captures only what its regions read, each value
// once and no constants; a region that says nothing is absent, and a mask that
// takes no key has a bound that says so; results that nobody uses are gone. All
// of it is exact.
//===----------------------------------------------------------------------===//

#include "attn/Dialect/Attn/IR/Attn.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace mlir::attn;

/// The block arguments that stand for capture `index`, one for each region.
template <typename OpT>
static SmallVector<BlockArgument> getCaptureArguments(OpT op, unsigned index) {
  SmallVector<BlockArgument> arguments;
  for (Region &region : op->getRegions())
    if (!region.empty())
      arguments.push_back(region.getArgument(region.getNumArguments() -
                                             op.getCaptures().size() + index));
  return arguments;
}

template <typename OpT>
static void eraseCapture(OpT op, unsigned index, PatternRewriter &rewriter) {
  rewriter.modifyOpInPlace(op, [&] {
    for (BlockArgument argument : getCaptureArguments(op, index))
      argument.getOwner()->eraseArgument(argument.getArgNumber());
    op.getCapturesMutable().erase(index);
  });
}

namespace {
/// A capture that no region reads is dropped; of two captures of one value the
/// first stays; a scalar constant moves into the regions.
template <typename OpT> struct SimplifyCaptures : OpRewritePattern<OpT> {
  using OpRewritePattern<OpT>::OpRewritePattern;
  LogicalResult matchAndRewrite(OpT op, PatternRewriter &rewriter) const final {
    for (auto [i, capture] : llvm::enumerate(op.getCaptures())) {
      SmallVector<BlockArgument> arguments = getCaptureArguments(op, i);
      auto isUnused = [](BlockArgument a) { return a.use_empty(); };
      Attribute constant;
      if (llvm::all_of(arguments, isUnused)) {
        eraseCapture(op, i, rewriter);
        return success();
      }
      if (capture.getType().isIntOrFloat() &&
          matchPattern(capture, m_Constant(&constant))) {
        Operation *source = capture.getDefiningOp();
        for (BlockArgument argument : arguments) {
          if (argument.use_empty())
            continue;
          rewriter.setInsertionPointToStart(argument.getOwner());
          rewriter.replaceAllUsesWith(argument,
                                      rewriter.clone(*source)->getResult(0));
        }
        eraseCapture(op, i, rewriter);
        return success();
      }
      auto captures = op.getCaptures();
      unsigned first =
          std::distance(captures.begin(), llvm::find(captures, capture));
      if (first == i)
        continue;
      for (auto [duplicate, kept] :
           llvm::zip(arguments, getCaptureArguments(op, first)))
        rewriter.replaceAllUsesWith(duplicate, kept);
      eraseCapture(op, i, rewriter);
      return success();
    }
    return failure();
  }
};

/// A mask that is always true, a factor of 1 and a score function that yields
/// the dots are dropped.
template <typename OpT> struct DropTrivialRegions : OpRewritePattern<OpT> {
  using OpRewritePattern<OpT>::OpRewritePattern;
  LogicalResult matchAndRewrite(OpT op, PatternRewriter &rewriter) const final {
    Region &mask = op.getMask(), &score = op.getScore();
    auto drop = [&](Region &region) {
      rewriter.modifyOpInPlace(op, [&] {
        region.front().dropAllReferences();
        rewriter.eraseBlock(&region.front());
      });
      return success();
    };
    if (!mask.empty() &&
        matchPattern(mask.front().back().getOperand(0), m_One()))
      return drop(mask);
    if (Region &factor = op.getFactor();
        !factor.empty() &&
        matchPattern(factor.front().back().getOperand(0), m_OneFloat()))
      return drop(factor);
    if (score.empty())
      return failure();
    unsigned numDots = op.getQueries().size();
    OperandRange yielded = score.front().back().getOperands();
    if (yielded.size() != numDots)
      return failure();
    for (auto [i, value] : llvm::enumerate(yielded))
      if (value != score.getArgument(i))
        return failure();
    return drop(score);
  }
};

/// A mask that is always false takes keys below 0: its bounds say that there
/// are none, as of a sequence without keys, and what is built of a step still
/// reads its products. Positions with a base may be below 0.
template <typename OpT> struct BoundDeadMask : OpRewritePattern<OpT> {
  using OpRewritePattern<OpT>::OpRewritePattern;
  LogicalResult matchAndRewrite(OpT op, PatternRewriter &rewriter) const final {
    Region &mask = op.getMask();
    if (mask.empty() || op.getRowBase() || op.getKeyBase())
      return failure();
    Operation *yield = mask.front().getTerminator();
    if (!matchPattern(yield->getOperand(0), m_Zero()))
      return failure();
    Location loc = yield->getLoc();
    rewriter.setInsertionPoint(yield);
    Value zero = arith::ConstantIntOp::create(rewriter, loc, 0, 32);
    Value none = arith::CmpIOp::create(rewriter, loc, arith::CmpIPredicate::slt,
                                       mask.getArgument(3), zero);
    rewriter.modifyOpInPlace(yield, [&] { yield->setOperand(0, none); });
    return success();
  }
};

/// Results without uses are dropped, where the op has a finalize region of its
/// own; of default outputs, the trailing ones.
struct DropUnusedResults : OpRewritePattern<AggregateOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AggregateOp op,
                                PatternRewriter &rewriter) const final {
    bool isOwn = !op.getFinalize().empty();
    SmallVector<unsigned> kept;
    bool usedBelow = false;
    for (unsigned i = op.getNumResults(); i-- > 0;) {
      bool used = !op.getResult(i).use_empty() || (usedBelow && !isOwn);
      usedBelow |= used;
      if (used)
        kept.insert(kept.begin(), i);
    }
    // An op without any use is dead, and goes for that.
    if (kept.empty() || kept.size() == op.getNumResults())
      return failure();
    SmallVector<Type> types;
    SmallVector<Value> outputs;
    for (unsigned i : kept) {
      types.push_back(op.getResult(i).getType());
      if (isOwn)
        outputs.push_back(op.getFinalize().front().back().getOperand(i));
    }
    auto lean = AggregateOp::create(rewriter, op.getLoc(), types,
                                    op->getOperands(), op->getAttrs());
    for (auto [from, to] : llvm::zip(op->getRegions(), lean->getRegions()))
      rewriter.inlineRegionBefore(from, to, to.end());
    if (isOwn)
      rewriter.modifyOpInPlace(lean.getFinalize().front().getTerminator(), [&] {
        lean.getFinalize().front().back().setOperands(outputs);
      });
    for (auto [i, result] : llvm::zip(kept, lean.getResults()))
      rewriter.replaceAllUsesWith(op.getResult(i), result);
    rewriter.eraseOp(op);
    return success();
  }
};
} // namespace

void AggregateOp::getCanonicalizationPatterns(RewritePatternSet &patterns,
                                              MLIRContext *context) {
  patterns.add<SimplifyCaptures<AggregateOp>, DropTrivialRegions<AggregateOp>,
               BoundDeadMask<AggregateOp>, DropUnusedResults>(context);
}

void ScoresOp::getCanonicalizationPatterns(RewritePatternSet &patterns,
                                           MLIRContext *context) {
  patterns.add<SimplifyCaptures<ScoresOp>, DropTrivialRegions<ScoresOp>,
               BoundDeadMask<ScoresOp>>(context);
}

void PartialOp::getCanonicalizationPatterns(RewritePatternSet &patterns,
                                            MLIRContext *context) {
  patterns.add<SimplifyCaptures<PartialOp>, DropTrivialRegions<PartialOp>,
               BoundDeadMask<PartialOp>>(context);
}
