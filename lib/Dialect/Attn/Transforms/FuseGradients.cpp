//===- FuseGradients.cpp - Reductions of the same pairs are one -----------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TileKernel.h"
#include "attn/Analysis/TargetAttr.h"
#include "attn/Dialect/Attn/Transforms/Passes.h"
#include "mlir/IR/BuiltinOps.h"
#include <thread>

#define DEBUG_TYPE "attn-fuse-gradients"

namespace attn {
#define GEN_PASS_DEF_ATTNFUSEGRADIENTSPASS
#include "attn/Dialect/Attn/Transforms/Passes.h.inc"
} // namespace attn

using namespace mlir;
using namespace mlir::attn;

namespace {
struct FuseGradientsPass
    : ::attn::impl::AttnFuseGradientsPassBase<FuseGradientsPass> {
  using AttnFuseGradientsPassBase::AttnFuseGradientsPassBase;

  void runOnOperation() final {
    std::optional<::attn::TargetInfo> target =
        ::attn::getTarget(getOperation());
    if (!target)
      return signalPassFailure();
    if (!threads)
      threads = std::max(std::thread::hardware_concurrency(), 1u);
    SmallVector<AggregateOp> overKeys;
    getOperation().walk([&](AggregateOp op) {
      if (op.getSide() == Side::keys && !isa<FusedOp>(op->getParentOp()))
        overKeys.push_back(op);
    });
    for (AggregateOp op : overKeys)
      fuse(op, *target);
  }

  /// Why two aggregates whose pairs are the same keep kernels of their own;
  /// empty where they need not.
  static std::string whyNot(AggregateOp overKeys, AggregateOp overQueries,
                            const ::attn::TargetInfo &target) {
    if (!target.isCpu())
      return "sums in memory have an order on a CPU alone, where a thread has "
             "all keys of a head";
    if (!overKeys.getScheduleAttr() || !overQueries.getScheduleAttr())
      return "one has no schedule";
    if (llvm::any_of(overKeys->getUsers(), [&](Operation *user) {
          Operation *at = overKeys->getBlock()->findAncestorOpInBlock(*user);
          return !at || at->isBeforeInBlock(overQueries);
        }))
      return "sums over keys are read before those over queries are there";
    for (AggregateOp op : {overKeys, overQueries})
      if (mayKillByScore(op, lookupMonoid(op, op.getMonoidAttr())))
        return "scores may be -inf";
    return "";
  }

  /// Finds what is over queries, and has the pairs of `op`.
  void fuse(AggregateOp op, const ::attn::TargetInfo &target) {
    std::string why;
    bool hasOther = false;
    for (Operation *next = op->getNextNode(); next;
         next = next->getNextNode()) {
      auto other = dyn_cast<AggregateOp>(next);
      if (!other || other.getSide() != Side::queries ||
          !llvm::equal(op.getQueries(), other.getKeys()))
        continue;
      hasOther = true;
      (void)FusedOp::findTerms(op, other, why);
      if (why.empty())
        why = whyNot(op, other, target);
      if (!why.empty())
        continue;
      join(op, other);
      return;
    }
    if (!hasOther)
      return;
    ++numKept;
    if (explain)
      op->emitRemark("not fused with a reduction over queries: ") << why;
  }

  void join(AggregateOp op, AggregateOp other) {
    SmallVector<Value> results(op.getResults());
    llvm::append_range(results, other.getResults());
    OpBuilder b(other);
    auto fused = FusedOp::create(
        b, other.getLoc(), ValueRange(results).getTypes(), threads.getValue());
    for (auto [from, to] : llvm::zip(results, fused.getResults()))
      from.replaceAllUsesWith(to);
    Block *body = b.createBlock(&fused.getBody());
    op->moveBefore(body, body->end());
    other->moveBefore(body, body->end());
    b.setInsertionPointToEnd(body);
    YieldOp::create(b, other.getLoc(), results);
    ++numFused;
    if (!explain)
      return;
    size_t dots = op.getQueries().size();
    size_t overKeys = op.getValues().size();
    size_t overQueries = other.getValues().size();
    fused->emitRemark("fused: ")
        << dots + overKeys + overQueries << " products a pair instead of "
        << 2 * dots + overKeys + overQueries << ", where there are heads for "
        << threads.getValue()
        << " threads; sums over keys are added up in memory, in order";
  }
};
} // namespace
