//===- MaskRuns.h - How long a mask's runs of live keys are -----*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Where the live keys of a block of rows lie in short runs, tiles of fewer keys
// see fewer dead ones. Of a mask that reads nothing but positions this can be
// counted when the sizes of tiles are chosen. One that compares distances in
// two dimensions, which it reads for each row and each key, has such runs
// however its keys are ordered.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_ANALYSIS_MASKRUNS_H
#define ATTN_ANALYSIS_MASKRUNS_H

#include "attn/Analysis/Schedule.h"
#include "mlir/IR/Region.h"

namespace attn {

/// Instructions of a score for a bit of a word.
constexpr int64_t opsOfBit = 4;

/// Whether a mask (b, h, i, j, captures) takes the differences of two
/// coordinates or more, each read for a row and for a key.
bool comparesCoordinates(mlir::Region &mask);

/// The sizes with half as many keys, where the mask (b, h, i, j) has runs so
/// short that such tiles see far fewer pairs, or compares coordinates; else as
/// they are. Other masks that read captures keep them.
ScheduleSizes fitRuns(mlir::Region &mask, const ScheduleSizes &sizes);

/// Sizes for heads whose tiles have three warpgroups of rows, and a mask whose
/// tiles are listed. Of one that reads nothing but positions tiles are counted:
/// two warpgroups touch, and test, fewer where live pairs lie in blocks of 128.
/// Of others, tiles are longer where their elements are bits, or where the mask
/// divides the keys' positions by a number: they do not cross a multiple of it.
ScheduleSizes fitNarrow(mlir::Region &mask, const ScheduleProblem &problem,
                        const ScheduleSizes &sizes, const TargetInfo &target);

/// Whether the first tile of rows has the most keys, and the later half of the
/// tiles no more than the others, as under a mask with a few global rows: then
/// tiles that take long come first as they are. Not of masks that read
/// captures.
bool firstRowsAreLong(mlir::Region &mask, const ScheduleSizes &sizes);

} // namespace attn

#endif // ATTN_ANALYSIS_MASKRUNS_H
