//===- TileElements.h - Single elements of tiles ----------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_TILEGPUTONVVM_TILEELEMENTS_H
#define ATTN_LIB_CONVERSION_TILEGPUTONVVM_TILEELEMENTS_H

#include "MatrixAccess.h"

namespace attn::gpu {

/// Reads and writes elements of a tile, by stored row and column. 16-bit
/// elements are f32 in registers.
class TileElements {
public:
  TileElements(Emitter &e, mlir::tile_gpu::SmemType tile, Value base,
               Value lane)
      : e(e), form(tile), element(tile.getElementType()), base(base),
        lane(lane), elementBytes(element.getIntOrFloatBitWidth() / 8) {}

  /// Address of an element; 8 rows further is `rowStep(8)` bytes further.
  Value at(Value row, Value col) const;
  /// Address of columns 8 block + 2 (lane % 4) and the next one.
  Value pairAt(Value row, int64_t block) const;
  int64_t rowStep(int64_t rows) const { return rows * form.rowBytes; }

  /// 1, 2 or 4 neighbours of a row; their first column is a multiple of that.
  Values load(Value address, int64_t offset, int64_t count) const;
  void store(Value address, int64_t offset, mlir::ValueRange elements,
             Value predicate) const;

private:
  Value exchange(Value row) const;

  Emitter &e;
  TileForm form;
  mlir::Type element;
  Value base, lane;
  int64_t elementBytes;
};

} // namespace attn::gpu

#endif // ATTN_LIB_CONVERSION_TILEGPUTONVVM_TILEELEMENTS_H
