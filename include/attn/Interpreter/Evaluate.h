//===- Evaluate.h - What a program means, evaluated -------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// From IR text and inputs to outputs without the compiler: see Reference.h,
// which evaluates functions that are at hand as IR. This header includes no
// MLIR.
//===----------------------------------------------------------------------===//

#ifndef ATTN_INTERPRETER_EVALUATE_H
#define ATTN_INTERPRETER_EVALUATE_H

#include "attn/Support/Result.h"
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace attn {

/// A tensor in C order, or a scalar (no dimensions, one element). Integers and
/// booleans are held as doubles too.
struct ReferenceValue {
  std::vector<int64_t> shape;
  std::vector<double> data;

  int64_t size() const {
    int64_t product = 1;
    for (int64_t extent : shape)
      product *= extent;
    return product;
  }
};

/// What the mask of one head makes of tiles of the pairs of rows and keys.
struct MaskTiles {
  /// `read`: the analysis does not tell, a kernel reads elements.
  enum Class : uint8_t { dead, partial, full, read = 4 };
  /// The number of the reduction in the function.
  int64_t reduction = 0, batch = 0, head = 0;
  int64_t rows = 0, keys = 0, queryTiles = 0, keyTiles = 0;
  /// Row by row.
  std::vector<uint8_t> classes;
};

struct ReferenceOptions {
  /// What results round to. `Exact` is float64 throughout. With the others the
  /// evaluation is an emulation, whose error says how much error the format
  /// excuses: regions compute in float32, and dots, scores, weights and outputs
  /// are rounded to the format; sums are kept in float32.
  enum class Rounding { Exact, F32, F16, BF16 };
  Rounding rounding = Rounding::Exact;
  /// Every how many rows one is evaluated: for large problems. Rows that are
  /// passed over are 0 in every result. Row r of [b, hq, sq] in C order is
  /// evaluated where r % rowStride == rowOffset.
  int64_t rowStride = 1, rowOffset = 0;
  /// Of an emulation, an index of `reference::sumOrders`: in which order terms
  /// are added and states combined. Keys go by tiles, a tile by as many parts
  /// as there are lanes, a part from either end.
  int order = 0;
  /// Keys of a tile, where the order has tiles.
  int64_t tile = 64;
  /// Of an emulation: scores stay in float32.
  bool wideScores = false;
  /// Called now and then with a row and the number of rows.
  std::function<void(int64_t row, int64_t count)> progress;
  /// Where given, it is told of the mask of each reduction, of each head, by
  /// tiles. `readElements`: elements of tiles that the analysis does not settle
  /// are read; else these are `partial`.
  std::function<void(const MaskTiles &)> maskTiles;
  int64_t tileRows = 128, tileKeys = 128;
  bool readElements = true;
};

/// Evaluates the function `entry` (empty: the first) of IR text or bytecode
/// that has attention or aggregates in it. An error is one line.
support::Result<std::vector<ReferenceValue>>
evaluateText(std::string_view source, const std::string &entry,
             const std::vector<ReferenceValue> &inputs,
             const ReferenceOptions &options = {});

} // namespace attn

#endif // ATTN_INTERPRETER_EVALUATE_H
