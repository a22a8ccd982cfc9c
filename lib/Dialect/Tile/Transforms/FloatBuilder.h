//===- FloatBuilder.h - Arithmetic on f32 in front of an operation -*- C++
//-*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The words that the functions of tile-expand-math are written in: arithmetic
// on f32, and on i32, i64 and f64 beside it, of scalars or of vectors of one
// size, in front of one operation.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_TILE_TRANSFORMS_FLOATBUILDER_H
#define ATTN_LIB_DIALECT_TILE_TRANSFORMS_FLOATBUILDER_H

#include "attn/Target/TargetInfo.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

#include <limits>

namespace mlir::tile {

/// Builds arithmetic of one type: f32, or a vector of it.
class FloatBuilder {
public:
  FloatBuilder(Operation *op, const ::attn::TargetInfo &target)
      : b(op->getLoc(), op), target(target), type(op->getResult(0).getType()) {}

  FloatBuilder(ImplicitLocOpBuilder b, const ::attn::TargetInfo &target,
               Type type)
      : b(b), target(target), type(type) {}

  static constexpr float infinity = std::numeric_limits<float>::infinity();
  static constexpr float notANumber = std::numeric_limits<float>::quiet_NaN();
  static constexpr float smallestNormal = 0x1p-126f;

  /// Whether values are one register of AVX-512.
  bool isFullVector() const;

  Type like(Type element) const {
    auto vector = dyn_cast<VectorType>(type);
    return vector ? Type(vector.clone(element)) : element;
  }
  Type i32() { return like(b.getI32Type()); }
  Type i64() { return like(b.getI64Type()); }
  Type f64() { return like(b.getF64Type()); }
  Value splat(TypedAttr element);
  Value constant(float value) { return splat(b.getF32FloatAttr(value)); }
  Value wide(double value) { return splat(b.getF64FloatAttr(value)); }
  Value integer(int32_t value) { return splat(b.getI32IntegerAttr(value)); }
  Value longInteger(uint64_t value) {
    return splat(b.getI64IntegerAttr(static_cast<int64_t>(value)));
  }
  Value add(Value x, Value y) { return arith::AddFOp::create(b, x, y); }
  Value sub(Value x, Value y) { return arith::SubFOp::create(b, x, y); }
  Value mul(Value x, Value y) { return arith::MulFOp::create(b, x, y); }
  Value div(Value x, Value y) { return arith::DivFOp::create(b, x, y); }
  Value neg(Value x) { return arith::NegFOp::create(b, x); }
  Value abs(Value x) { return math::AbsFOp::create(b, x); }
  Value sqrt(Value x) { return math::SqrtOp::create(b, x); }
  Value copySign(Value x, Value sign) {
    return math::CopySignOp::create(b, x, sign);
  }
  Value fma(Value x, Value y, Value z);
  /// The sum of coefficients[k] x^k.
  Value horner(Value x, ArrayRef<float> coefficients);
  Value hornerWide(Value x, ArrayRef<double> coefficients);
  Value select(Value condition, Value x, Value y) {
    return arith::SelectOp::create(b, condition, x, y);
  }
  /// False where one of them is NaN.
  Value less(Value x, Value y) {
    return arith::CmpFOp::create(b, arith::CmpFPredicate::OLT, x, y);
  }
  Value less(Value x, float y) { return less(x, constant(y)); }
  Value equal(Value x, Value y) {
    return arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, x, y);
  }
  Value equal(Value x, float y) { return equal(x, constant(y)); }
  /// x where x >= low, else low; NaN stays: one vmaxps.
  Value atLeast(Value x, float low) { return atLeast(x, constant(low)); }
  Value atLeast(Value x, Value bound) {
    return select(less(x, bound), bound, x);
  }
  Value atMost(Value x, float high) { return atMost(x, constant(high)); }
  Value atMost(Value x, Value bound) {
    return select(less(bound, x), bound, x);
  }
  Value bitsOf(Value x) { return arith::BitcastOp::create(b, i32(), x); }
  Value ofBits(Value x) { return arith::BitcastOp::create(b, type, x); }
  Value addI(Value x, Value y) { return arith::AddIOp::create(b, x, y); }
  Value subI(Value x, Value y) { return arith::SubIOp::create(b, x, y); }
  Value mulI(Value x, Value y) { return arith::MulIOp::create(b, x, y); }
  Value andI(Value x, Value y) { return arith::AndIOp::create(b, x, y); }
  Value orI(Value x, Value y) { return arith::OrIOp::create(b, x, y); }
  Value shiftLeft(Value x, Value n) { return arith::ShLIOp::create(b, x, n); }
  Value shiftRight(Value x, Value n) { return arith::ShRUIOp::create(b, x, n); }
  Value shiftSigned(Value x, Value n) {
    return arith::ShRSIOp::create(b, x, n);
  }
  /// Whether a bit of an i32 is set.
  Value hasBit(Value x, int32_t bit) {
    return arith::CmpIOp::create(b, arith::CmpIPredicate::ne,
                                 andI(x, integer(bit)), integer(0));
  }
  Value toFloat(Value x) { return arith::SIToFPOp::create(b, type, x); }
  /// Of a number that an i32 holds.
  Value toInteger(Value x) { return arith::FPToSIOp::create(b, i32(), x); }
  Value widened(Value x) { return arith::ExtFOp::create(b, f64(), x); }
  Value narrowed(Value x) { return arith::TruncFOp::create(b, type, x); }
  /// Whether a truth holds in any lane.
  Value any(Value truth);
  /// The integer nearest x as float, and the same plus the magic number.
  std::pair<Value, Value> nearest(Value x);
  /// p * 2^n, with `shifted` = n + magic; 0 unless `isMore`, where it is given.
  Value scale(Value p, Value n, Value shifted, Value isMore = Value());
  /// 2^n of an integer from -126 to 127.
  Value powerOfTwo(Value n);
  /// 1 / x; of full vectors to about 2^-28.
  Value reciprocal(Value x);

  ImplicitLocOpBuilder b;
  const ::attn::TargetInfo &target;
  Type type;
};

} // namespace mlir::tile

#endif // ATTN_LIB_DIALECT_TILE_TRANSFORMS_FLOATBUILDER_H
