//===- MatrixDescriptor.h - wgmma's view of a tile --------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The 64-bit matrix descriptor of wgmma (PTX ISA, asynchronous warpgroup level
// matrix shared memory layout): bits 0-13 address / 16, 16-29 leading byte
// offset / 16, 32-45 stride byte offset / 16, 62-63 swizzle.
//
// A panel is stored rows by one swizzle width of columns. Stored along K, the
// stride offset leads to the next 8 rows and a step of 16 along K moves within
// a row of the panel, then to the next panel. Stored along the other axis (the
// operand is "transposed"), the stride offset leads to the next 8 rows, which
// are along K now, and the leading offset to the next panel.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_TILEGPUTONVVM_MATRIXDESCRIPTOR_H
#define ATTN_LIB_CONVERSION_TILEGPUTONVVM_MATRIXDESCRIPTOR_H

#include "attn/Dialect/TileGPU/IR/TileGPU.h"

namespace attn::gpu {

class MatrixDescriptor {
public:
  /// Of a swizzled view; `kIsRow` where K runs along its rows (a right
  /// operand). With `isHalf`, of a left operand of 32 rows that is stored along
  /// K, every second 8 rows of the product's 64 are the next 8 of these; those
  /// between them are four rows of either side, and the last ones end four rows
  /// behind the tile.
  MatrixDescriptor(mlir::tile_gpu::SmemType view, bool kIsRow,
                   bool isHalf = false)
      : transposed(view.getTransposed() != kIsRow), isHalf(isHalf),
        swizzle(view.getSwizzle()), panelBytes(view.getPitch() * swizzle) {}

  /// Whether the operand is stored along its other axis than K.
  bool isTransposed() const { return transposed; }

  /// All bits but the address.
  uint64_t getBits() const {
    uint64_t mode = swizzle == 128 ? 1 : swizzle == 64 ? 2 : 3;
    uint64_t stride = (isHalf ? 4 : 8) * swizzle;
    // Ignored along K; 1 is what it is set to by custom.
    uint64_t leading = transposed ? panelBytes : 16;
    return mode << 62 | stride >> 4 << 32 | (leading >> 4 & 0x3fff) << 16;
  }

  /// Bytes from the start of the operand to step `step` of 16 along K.
  int64_t stepOffset(int64_t step) const {
    if (transposed)
      return step * 16 * swizzle;
    int64_t stepsPerPanel = swizzle / 32;
    return step / stepsPerPanel * panelBytes + step % stepsPerPanel * 32;
  }

  /// Bytes to element `index` along the other axis, a multiple of 64.
  int64_t blockOffset(int64_t index) const {
    if (!transposed)
      return index * swizzle;
    return index / (swizzle / 2) * panelBytes;
  }

private:
  bool transposed, isHalf;
  int64_t swizzle, panelBytes;
};

} // namespace attn::gpu

#endif // ATTN_LIB_CONVERSION_TILEGPUTONVVM_MATRIXDESCRIPTOR_H
