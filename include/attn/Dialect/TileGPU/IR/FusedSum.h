//===- FusedSum.h - Sums that are one instruction with a product -*- C++
//-*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A GPU's fma rounds once. Which products are fused with the sum that reads
// them is said here, for the lowering, which lets LLVM do it, and for the
// emulator.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_TILEGPU_IR_FUSEDSUM_H
#define ATTN_DIALECT_TILEGPU_IR_FUSEDSUM_H

#include "mlir/Dialect/Arith/IR/Arith.h"

#include <optional>

namespace attn::gpu {

/// Whether a product may be fused with the sum that reads it. Not where others
/// read it, nor where the sum compares it with another product that has a
/// factor in common or is rounded, be it chosen by a select: x c - y c is zero
/// where x is y, but what x c loses by rounding if one of them is fused. A
/// factor exp2(x c - y c) that ought to stay 1 would multiply that loss from
/// key tile to key tile.
bool isFusible(mlir::arith::MulFOp product);

/// A sum as an fma: plus or minus the product, plus or minus the addend.
struct FusedSum {
  mlir::arith::MulFOp product;
  mlir::Value addend;
  bool subtractsProduct = false, subtractsAddend = false;
};

/// What `op` is fused to, if it is an arith.addf or arith.subf of f32 or f64
/// with a fusible product, the first one if there are two.
std::optional<FusedSum> fusedSumOf(mlir::Operation *op);

} // namespace attn::gpu

#endif // ATTN_DIALECT_TILEGPU_IR_FUSEDSUM_H
