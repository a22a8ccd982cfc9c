//===- Prediction.cpp - How long a run should take ------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Prediction.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

using namespace ::attn::run;

int64_t attn::run::findNumber(const char *text, const char *key) {
  const char *at = text ? std::strstr(text, key) : nullptr;
  return at ? std::strtoll(at + std::strlen(key), nullptr, 10) : 0;
}

Tiles attn::run::findTiles(const char *text) {
  return {findNumber(text, "block_q = "), findNumber(text, ", rows = "),
          findNumber(text, "block_k = ")};
}

int64_t attn::run::findSharers(const char *text) {
  // Parts of the keys have nothing in common.
  if (!text ||
      std::strstr(text, "blocks have the parts of the keys of a tile") ||
      std::strstr(text, "copies of a cluster not shared: "))
    return 1;
  return std::max<int64_t>(findNumber(text, "cluster = "), 1);
}

std::optional<PredictedTime> attn::run::predict(const char *explanation,
                                                const Work &work,
                                                const Peaks &peaks,
                                                double bytes, int threads) {
  const char *at = explanation ? std::strstr(explanation, "cycles: ") : nullptr;
  double perPair = 0, perKey = 0, perBlock = 0, flopsPerCycle = 0;
  if (!at ||
      std::sscanf(at,
                  "cycles: %lf for a key of a row, %lf for a key of a block of "
                  "rows, %lf for a block, by the rates of %*s with %lf FLOP",
                  &perPair, &perKey, &perBlock, &flopsPerCycle) != 4 ||
      work.blocks == 0 || flopsPerCycle <= 0)
    return std::nullopt;
  double splits =
      double(std::max<int64_t>(findNumber(explanation, "splits = "), 1));
  double blocks = work.blocks * splits;
  double cycles = perPair * work.touchedPairs + perKey * work.walkedKeys +
                  perBlock * blocks;
  // Threads take whole blocks.
  double hertz = peaks.flopsPerSecond / flopsPerCycle;
  double turns = std::ceil(blocks / threads);
  double computes = cycles / blocks * turns / hertz;
  double reads = bytes / peaks.bytesPerSecond;
  PredictedTime result;
  result.seconds = std::max(computes, reads);
  char text[512];
  std::snprintf(text, sizeof(text),
                "roofline of this path: %.4g million cycles at %.3g GHz "
                "(measured), %.0f blocks on %d thread%s, take %.4g ms; memory "
                "at %.4g GB/s (measured) %.4g ms; so %s bounds it, to %.4g ms",
                cycles * 1e-6, hertz * 1e-9, blocks, threads,
                threads == 1 ? "" : "s", computes * 1e3,
                peaks.bytesPerSecond * 1e-9, reads * 1e3,
                reads > computes ? "memory" : "the core", result.seconds * 1e3);
  result.text = text;
  return result;
}

void attn::run::printProductRoofline(double flops, double bytes,
                                     const Peaks &peaks) {
  double intensity = flops / std::max(bytes, 1.0);
  double ridge = peaks.flopsPerSecond / peaks.bytesPerSecond;
  std::printf("roofline: %.4g GFLOP/s (%s, measured) and %.4g GB/s (measured) "
              "meet at %.3g FLOP per byte; here are %.3g, so %s bounds it, to "
              "%.4g ms\n",
              peaks.flopsPerSecond * 1e-9, peaks.instruction.c_str(),
              peaks.bytesPerSecond * 1e-9, ridge, intensity,
              intensity < ridge ? "memory" : "arithmetic",
              1e3 * std::max(flops / peaks.flopsPerSecond,
                             bytes / peaks.bytesPerSecond));
}
