//===- FloatBuilder.cpp - Arithmetic on f32 in front of an operation ------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FloatBuilder.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::tile;

Value FloatBuilder::splat(TypedAttr element) {
  if (auto vector = dyn_cast<VectorType>(type))
    element = DenseElementsAttr::get(vector.clone(element.getType()),
                                     Attribute(element));
  return arith::ConstantOp::create(b, element);
}

Value FloatBuilder::fma(Value x, Value y, Value z) {
  if (target.hasFma)
    return math::FmaOp::create(b, x, y, z);
  return add(mul(x, y), z);
}

Value FloatBuilder::horner(Value x, ArrayRef<float> coefficients) {
  Value sum = constant(coefficients.back());
  for (float coefficient : llvm::reverse(coefficients.drop_back()))
    sum = fma(sum, x, constant(coefficient));
  return sum;
}

Value FloatBuilder::hornerWide(Value x, ArrayRef<double> coefficients) {
  Value sum = wide(coefficients.back());
  for (double coefficient : llvm::reverse(coefficients.drop_back()))
    sum = fma(sum, x, wide(coefficient));
  return sum;
}

Value FloatBuilder::any(Value truth) {
  if (!isa<VectorType>(truth.getType()))
    return truth;
  return vector::ReductionOp::create(b, vector::CombiningKind::OR, truth);
}

bool FloatBuilder::isFullVector() const {
  auto vector = dyn_cast<VectorType>(type);
  return vector && target.vectorBits == 512 && vector.getRank() == 1 &&
         vector.getDimSize(0) == 16;
}

std::pair<Value, Value> FloatBuilder::nearest(Value x) {
  Value magic = constant(12582912.0f);
  Value shifted = add(x, magic);
  return {sub(shifted, magic), shifted};
}

Value FloatBuilder::powerOfTwo(Value n) {
  return ofBits(shiftLeft(addI(n, integer(127)), integer(23)));
}

Value FloatBuilder::scale(Value p, Value n, Value shifted, Value isMore) {
  if (isFullVector()) {
    Value mask =
        arith::ConstantOp::create(b, b.getIntegerAttr(b.getI16Type(), -1));
    Value zero = constant(0.0f);
    if (isMore) {
      auto word = VectorType::get(1, b.getI16Type());
      mask = vector::ExtractOp::create(
          b, vector::BitCastOp::create(b, word, isMore), 0);
    }
    Value rounding =
        LLVM::ConstantOp::create(b, b.getI32Type(), b.getI32IntegerAttr(4));
    return LLVM::CallIntrinsicOp::create(
               b, type, b.getStringAttr("llvm.x86.avx512.mask.scalef.ps.512"),
               ValueRange{p, n, zero, mask, rounding})
        .getResult(0);
  }
  // 2^n in two factors, so that 2^128 and 2^-149 are reached.
  Value whole = subI(bitsOf(shifted), integer(0x4B400000));
  Value first = shiftSigned(whole, integer(1));
  Value second = powerOfTwo(subI(whole, first));
  if (isMore)
    second = select(isMore, second, constant(0.0f));
  return mul(mul(p, powerOfTwo(first)), second);
}

Value FloatBuilder::reciprocal(Value x) {
  if (!isFullVector())
    return div(constant(1.0f), x);
  // 14 bits, doubled by one Newton step.
  Value mask =
      arith::ConstantOp::create(b, b.getIntegerAttr(b.getI16Type(), -1));
  Value estimate = LLVM::CallIntrinsicOp::create(
                       b, type, b.getStringAttr("llvm.x86.avx512.rcp14.ps.512"),
                       ValueRange{x, x, mask})
                       .getResult(0);
  Value error = fma(neg(x), estimate, constant(1.0f));
  return fma(estimate, error, estimate);
}
