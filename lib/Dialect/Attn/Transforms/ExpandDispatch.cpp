//===- ExpandDispatch.cpp - A plan for each class of sizes ----------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A variant of a schedule becomes a function of its own, so that no pass behind
// this one knows of variants: each function has one schedule. What is left of
// the choice are the branches at the start of the function that all call.
//
//===----------------------------------------------------------------------===//

#include "Pages.h"
#include "attn/Dialect/Attn/IR/Attn.h"
#include "attn/Dialect/Attn/Transforms/Passes.h"
#include "attn/Dialect/Tile/IR/Tile.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/BuiltinOps.h"

namespace attn {
#define GEN_PASS_DEF_ATTNEXPANDDISPATCHPASS
#include "attn/Dialect/Attn/Transforms/Passes.h.inc"
} // namespace attn

using namespace mlir;
using namespace mlir::attn;
using ::attn::SizeCondition;

namespace {
/// The sizes of a run, computed at the start of its function where a condition
/// asks for them.
class Sizes {
public:
  Sizes(OpBuilder &b, AggregateOp op)
      : b(b), op(op), loc(op.getLoc()), query(op.getQueries().front()),
        key(op.getKeys().front()) {}

  Value holds(const SizeCondition &condition) {
    Value all;
    auto require = [&](Value next) {
      all = all ? arith::AndIOp::create(b, loc, all, next).getResult() : next;
    };
    auto inRange = [&](const SizeCondition::Range &range, auto size) {
      using Predicate = arith::CmpIPredicate;
      if (range.least > 0)
        require(compare(Predicate::uge, (this->*size)(), range.least));
      if (range.most < INT64_MAX)
        require(compare(Predicate::ule, (this->*size)(), range.most));
    };
    inRange(condition.rows, &Sizes::rows);
    inRange(condition.keys, &Sizes::keys);
    inRange(condition.heads, &Sizes::heads);
    inRange(condition.group, &Sizes::group);
    inRange(condition.blocks, &Sizes::blocks);
    if (int64_t tileRows = condition.pairsOf) {
      Value tiles = arith::CeilDivUIOp::create(b, loc, rows(), index(tileRows));
      Value odd = arith::RemUIOp::create(b, loc, tiles, index(2));
      Value isEven = compare(arith::CmpIPredicate::eq, odd, 0);
      Value isMany =
          compare(arith::CmpIPredicate::uge, tiles, ::attn::mostOddTiles());
      require(arith::OrIOp::create(b, loc, isEven, isMany));
    }
    return all ? all
               : arith::ConstantIntOp::create(b, loc, b.getI1Type(), 1)
                     .getResult();
  }

private:
  Value index(int64_t value) {
    return arith::ConstantIndexOp::create(b, loc, value);
  }
  Value compare(arith::CmpIPredicate predicate, Value size, int64_t bound) {
    return arith::CmpIOp::create(b, loc, predicate, size, index(bound));
  }
  Value dim(Value tensor, int64_t d) {
    return tensor::DimOp::create(b, loc, tensor, d);
  }
  Value atLeastOne(Value size) {
    return arith::MaxUIOp::create(b, loc, size, index(1));
  }
  Value rows() { return dim(query, 2); }
  Value keys() { return countKeys(b, op); }
  Value heads() {
    return arith::MulIOp::create(b, loc, dim(query, 0), dim(query, 1));
  }
  Value group() {
    return arith::DivUIOp::create(b, loc, dim(query, 1),
                                  atLeastOne(dim(key, 1)));
  }
  Value blocks() {
    return arith::DivUIOp::create(b, loc, heads(), atLeastOne(group()));
  }

  OpBuilder &b;
  AggregateOp op;
  Location loc;
  Value query, key;
};

struct ExpandDispatchPass
    : ::attn::impl::AttnExpandDispatchPassBase<ExpandDispatchPass> {
  void runOnOperation() final {
    ModuleOp module = getOperation();
    SmallVector<AggregateOp> ops;
    module.walk([&](AggregateOp op) {
      if (op->hasAttr(getDispatchAttrName()))
        ops.push_back(op);
    });
    for (AggregateOp op : ops)
      if (failed(expand(module, op)))
        return signalPassFailure();
  }

private:
  LogicalResult expand(ModuleOp module, AggregateOp op) {
    auto dispatch = cast<DispatchAttr>(op->getAttr(getDispatchAttrName()));
    auto function = dyn_cast<func::FuncOp>(op->getParentOp());
    if (!function || !op.getQuerySource().hasBatch())
      return op.emitOpError("expected variants of a schedule in a function "
                            "alone, whose sequences have the sizes of the "
                            "tensors");
    if (!llvm::hasSingleElement(function.getOps<ReductionOpInterface>()))
      return op.emitOpError("expected variants of a schedule where a function "
                            "has one reduction, but got more of these");
    for (Value operand :
         {op.getQueries().front(), op.getKeys().front(), op.getKeySource().map})
      if (operand && !isa<BlockArgument>(operand))
        return op.emitOpError("expected queries and keys that are arguments of "
                              "the function, whose sizes choose a variant");
    op->removeAttr(getDispatchAttrName());
    auto b = OpBuilder::atBlockBegin(&function.front());
    Sizes sizes(b, op);
    // Before the branches: a variant has none.
    SmallVector<func::FuncOp> others;
    Operation *last = function;
    for (VariantAttr variant : dispatch.getVariants()) {
      func::FuncOp other = function.clone();
      other.setName(makeName(module, function.getName()));
      other.setPrivate();
      (*other.getOps<AggregateOp>().begin())
          .setScheduleAttr(variant.getSchedule());
      module.getBody()->getOperations().insertAfter(last->getIterator(), other);
      last = other;
      others.push_back(other);
      ++numVariants;
    }
    for (auto [variant, other] : llvm::zip(dispatch.getVariants(), others))
      tile::DispatchOp::create(b, op.getLoc(),
                               sizes.holds(variant.getWhen().getCondition()),
                               other.getName());
    return success();
  }

  /// "f_1", or the next number that is free.
  static std::string makeName(ModuleOp module, StringRef name) {
    for (unsigned number = 1;; ++number) {
      std::string next = (name + "_" + Twine(number)).str();
      if (!module.lookupSymbol(next))
        return next;
    }
  }
};
} // namespace
