//===- MathExpander.h - Functions of f32 as arithmetic ----------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What tile-expand-math puts in the place of an operation: arithmetic on f32
// scalars, or vectors of any size, that calls no library. The functions come in
// three files. MathExpander.cpp has what softmax and softcaps are made of,
// which is written for the instructions of each target; Logarithms.cpp what is
// made of logarithms and exponentials; Angles.cpp what speaks of angles and
// rounding.
//
// Errors are in units in the last place of f32, against float64; they are those
// that test/python/math_functions.py finds, rounded up.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_TILE_TRANSFORMS_MATHEXPANDER_H
#define ATTN_LIB_DIALECT_TILE_TRANSFORMS_MATHEXPANDER_H

#include "attn/Target/TargetInfo.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

#include <limits>

namespace mlir::tile {

/// Builds expansions in front of one operation, of its type.
class MathExpander {
public:
  MathExpander(Operation *op, const ::attn::TargetInfo &target)
      : b(op->getLoc(), op), target(target), type(op->getResult(0).getType()) {}

  MathExpander(ImplicitLocOpBuilder b, const ::attn::TargetInfo &target,
               Type type)
      : b(b), target(target), type(type) {}

  /// What stands for `op`, a function of f32, or nothing where it stays.
  Value expand(Operation *op);

  /// Powers of two below this one round to 0.
  static constexpr int leastPower = -150;

  // MathExpander.cpp
  bool isFullVector() const;
  /// Results below 2^least may be 0.
  Value exp2(Value x, bool isShort, int least = leastPower);
  /// e^x / 2^halvings.
  Value exp(Value x, int halvings = 0, int least = leastPower);
  Value tanh(Value x);
  /// Beside products of bf16 operands; of full vectors to 2.7e-5, times a
  /// factor where there is one.
  Value tanhShort(Value x);
  Value tanhSegments(Value x, Value factor);

private:
  static constexpr float infinity = std::numeric_limits<float>::infinity();
  static constexpr float notANumber = std::numeric_limits<float>::quiet_NaN();
  static constexpr float smallestNormal = 0x1p-126f;

  // Logarithms.cpp
  struct LogParts {
    Value exponent, g, rest; // x = 2^exponent (1 + g), log(1 + g) = g + rest
  };
  LogParts splitLog(Value x);
  LogParts logOfOnePlus(Value g, Value exponent);
  Value sumOfLog(const LogParts &parts);
  Value logEdges(Value x, Value result);
  Value log(Value x);
  Value log2(Value x);
  Value log10(Value x);
  Value log1p(Value x);
  std::pair<Value, Value> reduceExp(Value x);
  Value expm1Reduced(Value r);
  Value expm1(Value x);
  Value sinh(Value x);
  Value cosh(Value x);
  Value asinh(Value x);
  Value acosh(Value x);
  Value atanh(Value x);
  Value erf(Value x);
  Value erfc(Value x);
  /// e^(-x^2) erfcx(x), for x of 0.45 and more.
  Value erfcTail(Value x);
  Value cbrt(Value x);
  Value pow(Value x, Value y);
  Value powInteger(Value x, Value n);
  Value powMagnitude(Value x, Value wideY);

  // Angles.cpp
  struct Reduced {
    Value rest, quadrant; // x = quadrant pi / 2 + rest
  };
  Reduced reduceAngle(Value x);
  Reduced reduceLargeAngle(Value x);
  using AngleFunction = function_ref<Value(MathExpander &, Reduced)>;
  func::FuncOp getOutlined(StringRef name, AngleFunction function);
  Value ofAngle(Value x, StringRef name, AngleFunction function);
  Value sine(Value x, bool isCosine);
  Value tan(Value x);
  Value atanRatio(Value numerator, Value denominator);
  Value atan(Value x);
  Value atan2(Value y, Value x);
  Value asin(Value x);
  Value acos(Value x);
  Value arcsineTerm(Value z, Value s);
  Value truncate(Value x);
  Value roundEven(Value x);
  Value remainder(Value x, Value y);

  // Words of the language that the functions are written in.
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
  Value isAtLeast(Value x, int least, float unit);
  /// 2^n of an integer from -126 to 127.
  Value powerOfTwo(Value n);
  Value reciprocal(Value x);

  ImplicitLocOpBuilder b;
  const ::attn::TargetInfo &target;
  Type type;
};

} // namespace mlir::tile

#endif // ATTN_LIB_DIALECT_TILE_TRANSFORMS_MATHEXPANDER_H
