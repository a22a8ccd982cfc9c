//===- Picture.h - Pictures of masks ----------------------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Which tiles of pairs a mask keeps: how many are dead, full and partial, as
// lines, as characters for a terminal, and as an SVG.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_TOOLS_RUN_PICTURE_H
#define ATTN_LIB_TOOLS_RUN_PICTURE_H

#include "Kernel.h"

#include <string>
#include <vector>

namespace attn::run {

/// The mask of heads that are alike.
struct MaskPicture {
  int64_t reduction, batch, head;
  /// How many heads of how many batches have this mask.
  int64_t count = 1;
  int64_t rows, keys, tileRows, tileKeys, queryTiles, keyTiles;
  /// Without a look at elements.
  bool onlyAnalysis;
  std::vector<uint8_t> classes; ///< As in AttnMaskTiles.
};

/// The masks of a program at the phase "aggregate", each once.
support::Result<std::vector<MaskPicture>>
readMasks(const std::string &text, const std::string &entry,
          const std::vector<HostTensor> &inputs, int64_t tileRows,
          int64_t tileKeys, bool onlyAnalysis);

/// "mask of batch 0, head 0 ...: ... 12.3 % full".
std::string printCounts(const MaskPicture &mask);
/// At most 64 characters wide.
std::string printCharacters(const MaskPicture &mask);
/// One below the other; a tile is a square.
std::string printSvg(const std::vector<MaskPicture> &masks);

} // namespace attn::run

#endif // ATTN_LIB_TOOLS_RUN_PICTURE_H
