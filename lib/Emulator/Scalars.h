//===- Scalars.h - Arithmetic on many elements at once ----------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An operation on scalars is evaluated for n elements at a time: one in the
// program of a role, those of a row in the body of a map. Elements of 32 bits
// follow each other in 4 bytes, those of 64 bits in 8.
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_EMULATOR_SCALARS_H
#define ATTN_LIB_EMULATOR_SCALARS_H

#include "attn/Emulator/Program.h"
#include "mlir/IR/Operation.h"

namespace attn::emulator {

struct ScalarType {
  Kind kind = Kind::I32;
  uint8_t bits = 32;
  Rounding rounding = Rounding::None;
  bool isWide() const { return kind == Kind::F64 || kind == Kind::I64; }
};
std::optional<ScalarType> scalarTypeOf(mlir::Type type);

enum class Opcode : uint8_t {
  AddI,
  SubI,
  MulI,
  DivSI,
  DivUI,
  RemSI,
  RemUI,
  CeilDivSI,
  CeilDivUI,
  FloorDivSI,
  MinSI,
  MaxSI,
  MinUI,
  MaxUI,
  AndI,
  OrI,
  XOrI,
  ShLI,
  ShRUI,
  ShRSI,
  CmpI,
  CmpF,
  Select,
  ExtS,
  ExtU,
  SIToFP,
  UIToFP,
  FPToSI,
  FPToUI,
  Bitcast,
  ConvertF,
  AddF,
  SubF,
  MulF,
  DivF,
  RemF,
  NegF,
  MaximumF,
  MinimumF,
  MaxNumF,
  MinNumF,
  Fma,
  Exp,
  Exp2,
  ExpM1,
  Log,
  Log2,
  Log10,
  Log1p,
  Sqrt,
  Rsqrt,
  Tanh,
  Sin,
  Cos,
  Tan,
  Atan,
  Atan2,
  Erf,
  Pow,
  AbsF,
  AbsI,
  Floor,
  Ceil,
  Round,
  RoundEven,
  Trunc,
  CopySign,
  CtPop,
  Ctlz,
  Cttz
};

/// Instructions that an operation on scalars becomes (lib/Conversion/
/// TileGPUToNVVM/Math.cpp has the longer ones), by pipe.
struct ScalarCost {
  int64_t fma = 0, alu = 0, special = 0;
};

struct ScalarOp {
  Opcode opcode = Opcode::AddI;
  ScalarType in, out;
  int64_t predicate = 0;
  ScalarCost cost = {};
  /// Of a division: by the reciprocal that GPUs estimate, to which a divisor
  /// below the normal numbers is 0.
  bool isApproximate = false;
  /// Of an fma, what is subtracted.
  bool subtractsProduct = false, subtractsAddend = false;
};

/// The operation on scalars that `op` is on a GPU, if it is one. A sum that is
/// fused with a product is an fma; `operands` are what it then takes.
std::optional<ScalarOp>
scalarOpOf(mlir::Operation *op, llvm::SmallVectorImpl<mlir::Value> &operands);
inline std::optional<ScalarOp> scalarOpOf(mlir::Operation *op) {
  llvm::SmallVector<mlir::Value, 3> operands;
  return scalarOpOf(op, operands);
}
void evaluate(const ScalarOp &op, int64_t n, const void *const *in, void *out);

} // namespace attn::emulator

#endif // ATTN_LIB_EMULATOR_SCALARS_H
