//===- Math.cpp - Functions of one number ---------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Math/IR/Math.h"
#include "KernelLowering.h"

using namespace mlir;
using namespace attn;
using namespace attn::gpu;

LogicalResult KernelLowering::lowerMath(Operation *op) {
  Type type = op->getNumResults() ? op->getResult(0).getType() : Type();
  Value x = op->getNumOperands() ? scalar(op->getOperand(0)) : Value();
  if (type == e.f32) {
    if (isa<math::Exp2Op>(op)) {
      set(op->getResult(0),
          {e.call("llvm.nvvm.ex2.approx.ftz.f32", e.f32, {x})});
      return success();
    }
    if (isa<math::Log2Op>(op)) {
      set(op->getResult(0), {e.call("llvm.nvvm.lg2.approx.f", e.f32, {x})});
      return success();
    }
    if (isa<math::FmaOp>(op)) {
      set(op->getResult(0),
          {e.fma(x, scalar(op->getOperand(1)), scalar(op->getOperand(2)))});
      return success();
    }
  }
  return unsupported(op, "a function that has a form on the GPU, but got '" +
                             op->getName().getStringRef() + "'");
}
