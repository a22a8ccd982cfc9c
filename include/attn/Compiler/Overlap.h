//===- Overlap.h - Whether strided tensors share memory ---------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Two tensors share memory if sizes allow indices with
//
//   a + sum(strideA[k] * i[k]) + x  =  b + sum(strideB[k] * j[k]) + y
//
// for bytes x, y of their elements: a linear equation with bounds. Tensors that
// lie apart are told by their ends. Where they do not, as the heads of one
// buffer, a search over the strides, largest first, decides; nested strides
// leave it two or three choices for each. In general the problem is NP-hard, so
// that the search has an end, after which it does not know.
//===----------------------------------------------------------------------===//

#ifndef ATTN_COMPILER_OVERLAP_H
#define ATTN_COMPILER_OVERLAP_H

#include "attn/Compiler/Invoke.h"

namespace attn {

enum class Overlap { No, Yes, Unknown };

/// Whether two tensors have a byte in common.
Overlap findOverlap(const TensorArg &a, const TensorArg &b);

/// Whether two positions of one tensor have a byte in common.
Overlap findSelfOverlap(const TensorArg &tensor);

} // namespace attn

#endif // ATTN_COMPILER_OVERLAP_H
