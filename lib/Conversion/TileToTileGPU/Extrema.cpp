//===- Extrema.cpp - Selected maxima as one instruction -------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ComputeLowering.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::tile_gpu;

static bool isNumber(Value value) {
  APFloat constant(0.0f);
  return matchPattern(value, m_ConstantFloat(&constant)) && !constant.isNaN();
}

/// `select(a > b, a, b)`: with a NaN in either, the select gives b, the
/// instruction the operand that is a number. So b must be one.
void mlir::tile_gpu::simplifyExtrema(Block &body, bool statistics) {
  using Predicate = arith::CmpFPredicate;
  for (Operation &op : llvm::make_early_inc_range(body)) {
    auto select = dyn_cast<arith::SelectOp>(op);
    auto cmp = select ? select.getCondition().getDefiningOp<arith::CmpFOp>()
                      : arith::CmpFOp();
    if (!cmp)
      continue;
    Value a = select.getTrueValue(), c = select.getFalseValue();
    bool straight = cmp.getLhs() == a && cmp.getRhs() == c;
    bool swapped = cmp.getLhs() == c && cmp.getRhs() == a;
    if (!straight && !swapped)
      continue;
    Predicate predicate = cmp.getPredicate();
    bool greater = predicate == Predicate::OGT || predicate == Predicate::OGE;
    bool less = predicate == Predicate::OLT || predicate == Predicate::OLE;
    if ((!greater && !less) || !(statistics || isNumber(c)))
      continue;
    OpBuilder b(select);
    Value result =
        greater == straight
            ? arith::MaxNumFOp::create(b, select.getLoc(), a, c).getResult()
            : arith::MinNumFOp::create(b, select.getLoc(), a, c).getResult();
    select.replaceAllUsesWith(result);
    select.erase();
    if (cmp->use_empty() && cmp->getBlock() == &body)
      cmp.erase();
  }
}
