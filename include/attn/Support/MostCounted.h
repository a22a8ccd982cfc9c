//===- MostCounted.h - What verifiers refuse --------------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// No hardware has so much. Verifiers refuse more, so that no code has to think
// of what overflows.
//
// This header includes no MLIR.
//===----------------------------------------------------------------------===//

#ifndef ATTN_SUPPORT_MOSTCOUNTED_H
#define ATTN_SUPPORT_MOSTCOUNTED_H

#include <cstdint>

namespace attn {

/// The most of what tiles, kernels and schedules count, rows and warps for
/// example: far above what any target holds, and products of two stay exact.
inline constexpr int64_t mostCounted = 1 << 20;

} // namespace attn

#endif // ATTN_SUPPORT_MOSTCOUNTED_H
