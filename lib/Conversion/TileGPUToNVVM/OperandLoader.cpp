//===- OperandLoader.cpp - Operands of products from tiles ----------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OperandLoader.h"

using namespace mlir;
using namespace mlir::tile_gpu;
using namespace ::attn;
using namespace ::attn::gpu;

/// Loads `count` matrices at the lanes' addresses.
static Values loadMatrices(Emitter &e, Value address, int64_t count,
                           bool transposing) {
  std::string constraints;
  for (int64_t i = 0; i < count; ++i)
    constraints += "=r,";
  SmallVector<Type> types(count, e.i32);
  return e.assembly("ldmatrix.sync.aligned.m8n8." + matrixCount(count) +
                        (transposing ? ".trans" : "") + ".shared::cta.b16 " +
                        operandList(0, count) + ", [$" + Twine(count) + "];",
                    constraints + "r", {address}, types);
}

OperandLoader::OperandLoader(Emitter &e, const RoleContext &role, Value lane,
                             SmemType tile, Value base, Layout layout,
                             Scope scope)
    : e(e), isA(layout == Layout::A),
      // Matrices hold rows along K; stored along the other axis, they are
      // transposed on their way.
      transposing(isA == tile.getTransposed()), blockRows(blockRowsOf(scope)) {
  Value low = e.and_(e.lshr(lane, 3), 1), high = e.lshr(lane, 4);
  // a: rows by the low bit, k by the high one; b: k by the low bit, columns by
  // the high one.
  Value k = isA ? high : low, other = isA ? low : high;
  Value warpRows, warpChunks;
  if (isA && scope == Scope::Warpgroup) {
    if (transposing)
      warpChunks = e.shl(role.warpInMember, 1);
    else
      warpRows = e.shl(role.warpInMember, 4);
  }
  access.emplace(e, tile, base, lane, transposing ? k : other,
                 transposing ? other : k, warpRows, warpChunks);
}

Values OperandLoader::load(int64_t block, int64_t step, int64_t count) const {
  int64_t k = step * 2, other = isA ? block * (blockRows / 8) : block;
  Value address =
      transposing ? access->address(k, other) : access->address(other, k);
  return loadMatrices(e, address, count, transposing);
}

Tf32Loader::Tf32Loader(Emitter &e, const RoleContext &role, Value lane,
                       SmemType tile, Value base, Layout layout, bool pairs)
    : e(e), rounded(tile.getElementType().isTF32()) {
  Value quad = e.lshr(lane, 2), t = e.and_(lane, 3), none = e.c32(0);
  bool alongK = layout == Layout::A || tile.getTransposed();
  if (alongK && !pairs) {
    matrices.emplace(e, role, lane, tile, base, layout, Scope::Warp);
  } else if (alongK) {
    rows.emplace(e, tile, e.add(base, e.shl(e.and_(t, 1), 3)), quad, none,
                 e.lshr(t, 1));
  } else {
    Value within = e.add(base, e.shl(e.and_(quad, 3), 2));
    for (int64_t i : {0, 1})
      elements[i].emplace(e, tile, within,
                          pairs ? e.add(e.shl(t, 1), i) : e.add(t, 4 * i), none,
                          e.lshr(quad, 2));
  }
}

Values Tf32Loader::load(int64_t block, int64_t step, int64_t count) const {
  Values loaded;
  if (matrices) {
    loaded = matrices->load(block, step, count);
  } else {
    for (int64_t i = 0; i < count; i += 2) {
      int64_t col = block + i / 2;
      if (rows) {
        llvm::append_range(
            loaded, e.assembly("ld.shared::cta.v2.b32 {$0, $1}, [$2];",
                               "=r,=r,r,~{memory}",
                               {rows->address(col, step * 2)}, {e.i32, e.i32}));
        continue;
      }
      for (const std::optional<MatrixAccess> &access : elements)
        llvm::append_range(
            loaded, e.assembly("ld.shared::cta.b32 $0, [$1];", "=r,r,~{memory}",
                               {access->address(step, col * 2)}, e.i32));
    }
  }
  if (!rounded)
    for (Value &value : loaded)
      value = e.roundTf32(value);
  return loaded;
}
