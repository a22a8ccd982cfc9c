//===- MatrixLayoutTest.cpp - How tiles lie in shared memory --------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Descriptors of wgmma and swizzled offsets against a model of their own: what
// tensor copies leave in shared memory, as the PTX ISA has it, and what a
// matrix unit reads by a descriptor's fields.
//===----------------------------------------------------------------------===//

#include "../../lib/Conversion/TileGPUToNVVM/MatrixAccess.h"
#include "../../lib/Conversion/TileGPUToNVVM/MatrixDescriptor.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/MLIRContext.h"
#include "gtest/gtest.h"

#include <map>

using namespace mlir;
using ::attn::gpu::MatrixDescriptor;
using ::attn::gpu::TileForm;

namespace {
/// A 16-bit element of a tile.
using Element = std::pair<int64_t, int64_t>; // row, column

class MatrixLayoutTest : public ::testing::Test {
protected:
  MatrixLayoutTest() { context.loadDialect<tile_gpu::TileGPUDialect>(); }

  /// What lies where (in bytes) after tensor copies with boxes of one swizzle
  /// width: rows one after the other, and in the address bits 4 up exchanged by
  /// bits 7 up, as many as the width has chunks of 16 bytes.
  static std::map<int64_t, Element> copy(int64_t rows, int64_t cols,
                                         int64_t swizzle) {
    std::map<int64_t, Element> memory;
    int64_t panelCols = swizzle / 2;
    int64_t mask = swizzle == 128 ? 7 : swizzle == 64 ? 3 : 1;
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t col = 0; col < cols; ++col) {
        int64_t address = col / panelCols * rows * swizzle + row * swizzle +
                          col % panelCols * 2;
        address ^= (address >> 7 & mask) << 4;
        memory[address] = {row, col};
      }
    return memory;
  }

  /// What the matrix unit reads at (m or n, k) of one step: core matrices of 8
  /// rows of a swizzle width, their chunks exchanged back.
  static int64_t addressOf(uint64_t bits, int64_t start, bool transposed,
                           int64_t other, int64_t k) {
    int64_t leading = int64_t(bits >> 16 & 0x3fff) << 4;
    int64_t stride = int64_t(bits >> 32 & 0x3fff) << 4;
    int64_t mode = int64_t(bits >> 62);
    int64_t width = mode == 1 ? 128 : mode == 2 ? 64 : 32;
    int64_t mask = mode == 1 ? 7 : mode == 2 ? 3 : 1;
    // Of the two axes, the one whose elements are neighbours in memory.
    int64_t along = transposed ? other : k, across = transposed ? k : other;
    int64_t address = start + across / 8 * stride + across % 8 * width +
                      along * 2 % width + along * 2 / width * leading;
    return address ^ (address >> 7 & mask) << 4;
  }

  tile_gpu::SmemType tile(int64_t rows, int64_t cols, int64_t swizzle,
                          bool transposed) {
    // A transposed view has the sizes of what it shows.
    return tile_gpu::SmemType::get(&context, transposed ? cols : rows,
                                   transposed ? rows : cols,
                                   BFloat16Type::get(&context), swizzle,
                                   /*boxes=*/1, /*pitch=*/rows, transposed);
  }

  MLIRContext context;
};

TEST_F(MatrixLayoutTest, OffsetsAreThoseOfTensorCopies) {
  for (int64_t swizzle : {32, 64, 128})
    for (int64_t rows : {8, 64, 112})
      for (int64_t panels : {1, 2, 3}) {
        int64_t cols = panels * swizzle / 2;
        TileForm form(tile(rows, cols, swizzle, false));
        for (auto &[address, at] : copy(rows, cols, swizzle))
          ASSERT_EQ(form.offsetOf(at.first, at.second * 2), address)
              << "swizzle " << swizzle << " row " << at.first << " column "
              << at.second;
      }
}

/// Every element that each step of a product reads, by the descriptor alone.
TEST_F(MatrixLayoutTest, DescriptorsReadWhatCopiesWrote) {
  for (int64_t swizzle : {32, 64, 128})
    for (bool isRight : {false, true})
      for (bool transposed : {false, true}) {
        constexpr int64_t rows = 64;
        int64_t cols = swizzle; // two panels
        tile_gpu::SmemType view = tile(rows, cols, swizzle, transposed);
        // Left operands are m x k, right ones k x n.
        MatrixDescriptor descriptor(view, /*kIsRow=*/isRight);
        auto memory = copy(rows, cols, swizzle);
        // Whether k runs along the rows of what is stored.
        bool kIsStoredRow = isRight != transposed;
        EXPECT_EQ(descriptor.isTransposed(), kIsStoredRow);
        int64_t depth = kIsStoredRow ? rows : cols;
        int64_t others = kIsStoredRow ? cols : rows;
        for (int64_t step = 0; step < depth / 16; ++step)
          for (int64_t other = 0; other < others; ++other)
            for (int64_t k = 0; k < 16; ++k) {
              int64_t address =
                  addressOf(descriptor.getBits(), descriptor.stepOffset(step),
                            descriptor.isTransposed(), other, k);
              auto found = memory.find(address);
              ASSERT_NE(found, memory.end()) << address;
              int64_t deep = step * 16 + k;
              Element wanted =
                  kIsStoredRow ? Element{deep, other} : Element{other, deep};
              ASSERT_EQ(found->second, wanted)
                  << "swizzle " << swizzle << " step " << step << " other "
                  << other << " k " << k << " right " << isRight
                  << " transposed " << transposed;
            }
      }
}

/// A left operand of more than 64 rows is multiplied in blocks.
TEST_F(MatrixLayoutTest, BlocksOfRows) {
  constexpr int64_t rows = 128, cols = 128, swizzle = 128;
  for (bool transposed : {false, true}) {
    MatrixDescriptor descriptor(tile(rows, cols, swizzle, transposed),
                                /*kIsRow=*/false);
    auto memory = copy(rows, cols, swizzle);
    int64_t start = descriptor.blockOffset(64) + descriptor.stepOffset(3);
    for (int64_t other = 0; other < 64; ++other) {
      int64_t address = addressOf(descriptor.getBits(), start,
                                  descriptor.isTransposed(), other, 5);
      Element wanted = transposed ? Element{3 * 16 + 5, 64 + other}
                                  : Element{64 + other, 3 * 16 + 5};
      ASSERT_EQ(memory.at(address), wanted) << other << " " << transposed;
    }
  }
}
} // namespace
