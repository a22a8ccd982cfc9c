//===- DType.h - Element types of host tensors ------------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_SUPPORT_DTYPE_H
#define ATTN_SUPPORT_DTYPE_H

#include "attn/Support/Float16.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

namespace attn::support {

/// The element types that can be read, written and passed to a kernel.
/// `boolean` takes one byte, as in NumPy and PyTorch.
enum class DType : uint8_t {
  f32,
  f16,
  bf16,
  f64,
  i8,
  i16,
  i32,
  i64,
  u8,
  boolean
};

constexpr size_t sizeOf(DType dtype) {
  switch (dtype) {
  case DType::f64:
  case DType::i64:
    return 8;
  case DType::f32:
  case DType::i32:
    return 4;
  case DType::f16:
  case DType::bf16:
  case DType::i16:
    return 2;
  case DType::i8:
  case DType::u8:
  case DType::boolean:
    return 1;
  }
  return 0;
}

constexpr const char *nameOf(DType dtype) {
  switch (dtype) {
  case DType::f32:
    return "f32";
  case DType::f16:
    return "f16";
  case DType::bf16:
    return "bf16";
  case DType::f64:
    return "f64";
  case DType::i8:
    return "i8";
  case DType::i16:
    return "i16";
  case DType::i32:
    return "i32";
  case DType::i64:
    return "i64";
  case DType::u8:
    return "u8";
  case DType::boolean:
    return "bool";
  }
  return "";
}

constexpr bool isFloat(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16 ||
         dtype == DType::f64;
}

/// The type with this name, as `nameOf` prints it.
inline std::optional<DType> parseDType(std::string_view name) {
  for (int i = 0; i <= static_cast<int>(DType::boolean); ++i)
    if (name == nameOf(static_cast<DType>(i)))
      return static_cast<DType>(i);
  return std::nullopt;
}

/// The spacing of the values just above 1: the ulp of the error bars.
inline double epsilonOf(DType dtype) {
  switch (dtype) {
  case DType::f64:
    return 0x1p-52;
  case DType::f32:
    return 0x1p-23;
  case DType::f16:
    return 0x1p-10;
  case DType::bf16:
    return 0x1p-7;
  default:
    return 0.0;
  }
}

/// The smallest positive value: the spacing near zero.
inline double smallestSubnormalOf(DType dtype) {
  switch (dtype) {
  case DType::f64:
    return std::ldexp(1.0, -1074);
  case DType::f32:
    return 0x1p-149;
  case DType::f16:
    return 0x1p-24;
  case DType::bf16:
    return 0x1p-133;
  default:
    return 0.0;
  }
}

/// Rounds to the nearest value of a float type; other types keep the value.
inline double roundTo(DType dtype, double x) {
  switch (dtype) {
  case DType::f32:
    return roundToF32(x);
  case DType::f16:
    return roundToF16(x);
  case DType::bf16:
    return roundToBF16(x);
  default:
    return x;
  }
}

/// Element `index` of an array, without any demand on its alignment.
inline double loadElement(const void *data, DType dtype, int64_t index) {
  const char *at = static_cast<const char *>(data) +
                   index * static_cast<int64_t>(sizeOf(dtype));
  auto as = [at](auto sample) {
    std::memcpy(&sample, at, sizeof(sample));
    return sample;
  };
  switch (dtype) {
  case DType::f32:
    return as(float());
  case DType::f16:
    return f16ToFloat(as(uint16_t()));
  case DType::bf16:
    return bf16ToFloat(as(uint16_t()));
  case DType::f64:
    return as(double());
  case DType::i8:
    return as(int8_t());
  case DType::i16:
    return as(int16_t());
  case DType::i32:
    return as(int32_t());
  case DType::i64:
    return static_cast<double>(as(int64_t()));
  case DType::u8:
    return as(uint8_t());
  case DType::boolean:
    return as(uint8_t()) != 0 ? 1.0 : 0.0;
  }
  return 0.0;
}

/// Writes element `index`, rounded to nearest even for the float types. An
/// integer type wants a value that it can hold.
inline void storeElement(void *data, DType dtype, int64_t index, double value) {
  char *at =
      static_cast<char *>(data) + index * static_cast<int64_t>(sizeOf(dtype));
  auto put = [at](auto converted) {
    std::memcpy(at, &converted, sizeof(converted));
  };
  switch (dtype) {
  case DType::f32:
    return put(static_cast<float>(value));
  case DType::f16:
    return put(doubleToF16(value));
  case DType::bf16:
    return put(doubleToBF16(value));
  case DType::f64:
    return put(value);
  case DType::i8:
    return put(static_cast<int8_t>(value));
  case DType::i16:
    return put(static_cast<int16_t>(value));
  case DType::i32:
    return put(static_cast<int32_t>(value));
  case DType::i64:
    return put(static_cast<int64_t>(value));
  case DType::u8:
    return put(static_cast<uint8_t>(value));
  case DType::boolean:
    return put(static_cast<uint8_t>(value != 0.0));
  }
}

} // namespace attn::support

#endif // ATTN_SUPPORT_DTYPE_H
