//===- Float16.h - Conversions of f16 and bf16 ------------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A 16-bit value is kept as its bits in a uint16_t. Every narrowing conversion
// rounds to nearest, ties to even, and starts from the widest value at hand:
// going from f64 through f32 would round twice and be wrong on some ties.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_SUPPORT_FLOAT16_H
#define ATTN_SUPPORT_FLOAT16_H

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace attn::support {

/// Reinterprets the bits of one type as another of the same size.
template <typename To, typename From> To bitCast(From from) {
  static_assert(sizeof(To) == sizeof(From), "a bit cast keeps the size");
  To to;
  std::memcpy(&to, &from, sizeof(To));
  return to;
}

/// Rounds to the binary format that has `MantissaBits` bits after the leading
/// one and normal exponents from `MinExponent` to `MaxExponent`. The result is
/// still a double, so the next operation starts from exactly what a variable
/// of that format would hold. f16 is (10, -14, 15), bf16 is (7, -126, 127).
template <int MantissaBits, int MinExponent, int MaxExponent>
double roundToFormat(double x) {
  if (!std::isfinite(x))
    return x;
  const double smallestNormal = std::ldexp(1.0, MinExponent);
  if (std::fabs(x) < smallestNormal) {
    // Subnormals of the format are multiples of one quantum; scaling by a
    // power of two is exact, and nearbyint breaks ties to even.
    const double quantum = std::ldexp(1.0, MinExponent - MantissaBits);
    return std::nearbyint(x / quantum) * quantum;
  }
  constexpr int dropped = 52 - MantissaBits;
  uint64_t bits = bitCast<uint64_t>(x);
  const uint64_t lastKept = (bits >> dropped) & 1;
  bits += (uint64_t(1) << (dropped - 1)) - 1 + lastKept;
  bits &= ~((uint64_t(1) << dropped) - 1);
  const double rounded = bitCast<double>(bits);
  // A carry out of the largest finite value lands on 2^(MaxExponent + 1).
  if (std::fabs(rounded) >= std::ldexp(1.0, MaxExponent) * 2.0)
    return std::copysign(std::numeric_limits<double>::infinity(), x);
  return rounded;
}

inline double roundToF16(double x) { return roundToFormat<10, -14, 15>(x); }
inline double roundToBF16(double x) { return roundToFormat<7, -126, 127>(x); }
/// 10 bits behind the point and the exponents of f32: what GPUs multiply. They
/// round ties away from zero, this one to even.
inline double roundToTF32(double x) { return roundToFormat<10, -126, 127>(x); }
inline double roundToF32(double x) { return static_cast<float>(x); }

inline float f16ToFloat(uint16_t half) {
  const uint32_t sign = uint32_t(half & 0x8000) << 16;
  const uint32_t exponent = (half >> 10) & 0x1f;
  const uint32_t mantissa = half & 0x3ff;
  if (exponent == 0x1f)
    return bitCast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent != 0)
    return bitCast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
  return sign ? -magnitude : magnitude;
}

inline float bf16ToFloat(uint16_t bits) {
  return bitCast<float>(uint32_t(bits) << 16);
}

inline uint16_t doubleToBF16(double x) {
  if (std::isnan(x))
    return std::signbit(x) ? 0xffc0 : 0x7fc0;
  // The rounded value is representable, so the low half of its f32 is zero.
  return static_cast<uint16_t>(
      bitCast<uint32_t>(static_cast<float>(roundToBF16(x))) >> 16);
}

inline uint16_t doubleToF16(double x) {
  const uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  if (std::isnan(x))
    return sign | 0x7e00;
  const double magnitude = std::fabs(roundToF16(x));
  if (std::isinf(magnitude))
    return sign | 0x7c00;
  if (magnitude < 0x1p-14)
    return sign | static_cast<uint16_t>(magnitude * 0x1p24);
  // Rebias an exact value: 1023 - 15 = 1008.
  const uint64_t bits = bitCast<uint64_t>(magnitude);
  const uint64_t exponent = (bits >> 52) - 1008;
  const uint64_t mantissa = (bits >> 42) & 0x3ff;
  return sign | static_cast<uint16_t>((exponent << 10) | mantissa);
}

} // namespace attn::support

#endif // ATTN_SUPPORT_FLOAT16_H
