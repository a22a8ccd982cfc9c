//===- MathFunctions.h - Functions of f32 as arithmetic ---------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What tile-expand-math puts in the place of an operation: arithmetic on f32
// scalars, or vectors of any size, that calls no library. Each class has a file
// of its own.
//
// Errors are in units in the last place of f32, against float64; they are those
// that test/python/math_functions.py finds, rounded up.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_TILE_TRANSFORMS_MATHFUNCTIONS_H
#define ATTN_LIB_DIALECT_TILE_TRANSFORMS_MATHFUNCTIONS_H

#include "FloatBuilder.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::tile {

/// What softmax and softcaps are made of, written for the instructions of each
/// target.
class Exponentials : public FloatBuilder {
public:
  using FloatBuilder::FloatBuilder;

  /// Powers of two below this one round to 0.
  static constexpr int leastPower = -150;

  /// Results below 2^least may be 0.
  Value exp2(Value x, bool isShort, int least = leastPower);
  /// e^x / 2^halvings.
  Value exp(Value x, int halvings = 0, int least = leastPower);
  Value expm1(Value x);
  Value sinh(Value x);
  Value cosh(Value x);
  Value tanh(Value x);
  /// Beside products of bf16 operands; of full vectors to 2.7e-5, times a
  /// factor where there is one.
  Value tanhShort(Value x);
  Value tanhSegments(Value x, Value factor);

protected:
  /// log(2) in two parts, of which the first has nine bits: its products with
  /// exponents are exact.
  static constexpr float log2High = 0.693359375f, log2Low = -2.12194440e-4f;
  /// 2^r on [-0.5, 0.5], minimax in relative error (1.9e-9 before rounding).
  static constexpr float exp2Coefficients[] = {1.0f,
                                               0.6931471824645996f,
                                               0.24022646248340607f,
                                               0.05550328642129898f,
                                               0.009618489071726799f,
                                               0.0013399930903688073f,
                                               0.00015345810970757157f};

  std::pair<Value, Value> reduceExp(Value x);
  Value expm1Reduced(Value r);

private:
  Value isAtLeast(Value x, int least, float unit);
};

/// What is made of logarithms and exponentials.
class Logarithms : public Exponentials {
public:
  using Exponentials::Exponentials;

  Value log(Value x);
  Value log2(Value x);
  Value log10(Value x);
  Value log1p(Value x);
  Value asinh(Value x);
  Value acosh(Value x);
  Value atanh(Value x);
  Value erf(Value x);
  Value erfc(Value x);
  Value cbrt(Value x);
  Value pow(Value x, Value y);
  Value powInteger(Value x, Value n);

private:
  struct LogParts {
    Value exponent, g, rest; // x = 2^exponent (1 + g), log(1 + g) = g + rest
  };
  LogParts splitLog(Value x);
  LogParts logOfOnePlus(Value g, Value exponent);
  Value sumOfLog(const LogParts &parts);
  Value logEdges(Value x, Value result);
  /// e^(-x^2) erfcx(x), for x of 0.45 and more.
  Value erfcTail(Value x);
  Value powMagnitude(Value x, Value wideY);
};

/// Functions of angles, and the angles that they are of.
class Angles : public FloatBuilder {
public:
  using FloatBuilder::FloatBuilder;

  Value sine(Value x, bool isCosine);
  Value tan(Value x);
  Value atan(Value x);
  Value atan2(Value y, Value x);
  Value asin(Value x);
  Value acos(Value x);

private:
  struct Reduced {
    Value rest, quadrant; // x = quadrant pi / 2 + rest
  };
  using AngleFunction = function_ref<Value(Angles &, Reduced)>;
  Reduced reduceAngle(Value x);
  Reduced reduceLargeAngle(Value x);
  func::FuncOp getOutlined(StringRef name, AngleFunction function);
  Value ofAngle(Value x, StringRef name, AngleFunction function);
  Value atanRatio(Value numerator, Value denominator);
  Value arcsineTerm(Value z, Value s);
};

/// Whole numbers near one, and remainders.
class Rounding : public FloatBuilder {
public:
  using FloatBuilder::FloatBuilder;

  Value truncate(Value x);
  Value floor(Value x);
  Value ceil(Value x);
  /// Halves away from 0.
  Value round(Value x);
  Value roundEven(Value x);
  Value remainder(Value x, Value y);

private:
  Value stepFrom(Value truncated, Value x, Value isOff, float step);
};

} // namespace mlir::tile

#endif // ATTN_LIB_DIALECT_TILE_TRANSFORMS_MATHFUNCTIONS_H
