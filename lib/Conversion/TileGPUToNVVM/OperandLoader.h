//===- OperandLoader.h - Operands of products from tiles --------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_TILEGPUTONVVM_OPERANDLOADER_H
#define ATTN_LIB_CONVERSION_TILEGPUTONVVM_OPERANDLOADER_H

#include "KernelContext.h"
#include "MatrixAccess.h"

namespace attn::gpu {

/// Reads operand fragments from a tile with ldmatrix, four matrices at a time:
/// a block of an `a` operand in one step of 16 along K, or two blocks of 8
/// columns of a `b` operand in one step.
class OperandLoader {
public:
  OperandLoader(Emitter &e, const RoleContext &role, Value lane,
                tg::SmemType tile, Value base, tg::Layout layout,
                tg::Scope scope);
  Values load(int64_t block, int64_t step, int64_t count) const;

private:
  Emitter &e;
  bool isA, transposing;
  int64_t blockRows;
  std::optional<MatrixAccess> access;
};

/// Reads operands of mma.m16n8k8 from tiles of tf32, or of f32 that it rounds:
/// a block of an `a` operand in one step of 8 along K, or blocks of 8 columns
/// of a `b` operand. Four elements are a row of a matrix of ldmatrix; `b` along
/// its columns is read one by one. The lane's two elements of K are t and t + 4
/// for t = lane % 4, or 2 t and 2 t + 1 with `pairs`, as in accumulators.
class Tf32Loader {
public:
  Tf32Loader(Emitter &e, const RoleContext &role, Value lane, tg::SmemType tile,
             Value base, tg::Layout layout, bool pairs);
  Values load(int64_t block, int64_t step, int64_t count) const;

private:
  Emitter &e;
  bool rounded;
  /// Of whole matrices, of pairs along a row, or of single elements.
  std::optional<OperandLoader> matrices;
  std::optional<MatrixAccess> rows, elements[2];
};

} // namespace attn::gpu

#endif // ATTN_LIB_CONVERSION_TILEGPUTONVVM_OPERANDLOADER_H
