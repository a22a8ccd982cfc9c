//===- Prediction.h - How long a run should take ----------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The compiler says in its explanation how many cycles its kernels take for a
// key of a row (tile-estimate-cycles). With the sizes of a run and the clock,
// which is measured, they are a time, of any path. What matrix products alone
// could reach is a roofline of its own.
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_TOOLS_RUN_PREDICTION_H
#define ATTN_LIB_TOOLS_RUN_PREDICTION_H

#include "Attention.h"
#include "Roofline.h"

#include <optional>
#include <string>

namespace attn::run {

/// The number after `key` in a text, or 0.
int64_t findNumber(const char *text, const char *key);

/// The tiles of the schedule that an explanation has.
Tiles findTiles(const char *text);

/// The blocks of a cluster whose copies of keys and values are one, by an
/// explanation; 1 where each block has copies of its own.
int64_t findSharers(const char *text);

struct PredictedTime {
  double seconds = 0;
  /// What bounds it, as a line without its end.
  std::string text;
};

/// Nothing where the explanation has no cycles. `work` is that of the tiles,
/// `peaks` are the f32 operations of one core, and the bytes of all.
std::optional<PredictedTime> predict(const char *explanation, const Work &work,
                                     const Peaks &peaks, double bytes,
                                     int threads);

/// Prints what bounds products that do nothing else.
void printProductRoofline(double flops, double bytes, const Peaks &peaks);

} // namespace attn::run

#endif // ATTN_LIB_TOOLS_RUN_PREDICTION_H
