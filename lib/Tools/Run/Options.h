//===- Options.h - The command line of attn-run -----------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_TOOLS_RUN_OPTIONS_H
#define ATTN_LIB_TOOLS_RUN_OPTIONS_H

#include "Scan.h"
#include "attn/Support/DType.h"
#include "attn/Support/Result.h"

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace attn::run {

/// What follows --attention: sizes and options of one problem.
struct AttentionSpec {
  int64_t b = 1, hq = 1, hk = 0, sq = 0, sk = 0, d = 0, dv = 0;
  support::DType dtype = support::DType::f32;
  support::DType biasDType = support::DType::f32;
  std::string causal = "none", monoid = "softmax", layout = "bhsd",
              precision = "ieee";
  std::optional<double> scale, softcap, dropout;
  uint64_t dropoutSeed = 0, dropoutOffset = 0;
  std::optional<std::pair<int64_t, int64_t>> window;
  /// Four characters, those of "bhqk" or 1 where the dimension repeats.
  std::string bias, mask;
  /// "h" or "bh".
  std::string alibi;
  bool sinks = false;
  /// Empty: none; "random"; or numbers joined by colons.
  std::string lengths;
  /// Packed sequences, 0 for a batch; sq and sk then count all their rows.
  int64_t sequences = 0;
  /// Rows of a page of keys, 0 for none.
  int64_t page = 0;
  /// Positions of the first keys: as `lengths`.
  std::string kStart;
  bool rolling = false, batchInvariant = false;
  int64_t cascade = 0;
  /// Rows that are appended to the caches, or -1.
  int64_t append = -1;
  int outputs = 1;
  /// Texts of regions, or empty.
  std::string scoreMod, maskMod;
};

struct Options {
  std::string file;
  std::optional<AttentionSpec> attention;
  std::optional<ScanSpec> scan;
  std::string entry, target, device, startFrom, untilAfter, dumpPhasesTo,
      schedule, monoidFile, checkAgainst, timeline, maskPicture, ladderPicture;
  /// NAME=VALUE pairs.
  std::vector<std::pair<std::string, std::string>> inputs, outputs;
  /// Sizes of named dimensions, for inputs that are not given.
  std::vector<std::pair<std::string, int64_t>> sizes;
  uint64_t seed = 0;
  int threads = 0;
  double benchSeconds = 1.0;
  bool check = false, bench = false, autotune = false, explain = false,
       ladder = false, timings = false, progress = false, noCache = false,
       help = false;
};

/// The text of --help.
const char *helpText();

/// `known`: the options that the tool has, where those are not all.
support::Result<Options>
parseOptions(int argc, char **argv,
             const std::set<std::string> *known = nullptr);

/// A number that fills the whole text.
support::Result<int64_t> parseInteger(const std::string &what,
                                      const std::string &text, int64_t min,
                                      int64_t max);
support::Result<double> parseNumber(const std::string &what,
                                    const std::string &text);

/// The pieces of `text` between separators.
std::vector<std::string> split(const std::string &text, char separator);

} // namespace attn::run

#endif // ATTN_LIB_TOOLS_RUN_OPTIONS_H
