//===- Sharing.h - Whether shared prefixes are worth finding ----*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// `cascade` reads the pages that sequences begin with once for all of them, and
// finds these in each call. Where that may be left to the sizes of a call, they
// tell here: on a GPU, whose tables nobody on the host reads, what would be
// saved if all sequences shared all pages; on a CPU what its table says.
//
// This header includes no MLIR.
//===----------------------------------------------------------------------===//

#ifndef ATTN_ANALYSIS_SHARING_H
#define ATTN_ANALYSIS_SHARING_H

#include "attn/Analysis/Schedule.h"
#include "attn/Target/TargetInfo.h"

#include <cstdint>

namespace attn {

struct SharingProblem {
  /// Rows of a sequence and a key head: those of all its query heads.
  int64_t sequences = 0, rows = 0, keyHeads = 0;
  /// Pages that the table has room for of a sequence, keys of a page, and bytes
  /// of a key with its values.
  int64_t pages = 0, page = 0, keyBytes = 0;
};

/// Whether reading shared pages once can save more than finding them takes.
bool maySave(const SharingProblem &problem, const TargetInfo &target);

/// The same of a CPU's call, whose table [sequences, pages] has these strides,
/// in elements.
bool doesSave(const SharingProblem &problem, const int32_t *table,
              int64_t sequenceStride, int64_t pageStride);

/// Slots of keys and values with which two blocks share a multiprocessor where
/// the keys that a sequence has for itself are a few steps, behind a draw and a
/// search in tables; 0 where two blocks have no room.
int64_t slotsOfOwnKeys(const ScheduleProblem &problem,
                       const ScheduleSizes &sizes, const TargetInfo &target);

} // namespace attn

#endif // ATTN_ANALYSIS_SHARING_H
