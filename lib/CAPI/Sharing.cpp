//===- Sharing.cpp - Calls that leave cascade to their sizes --------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Sharing.h"
#include "attn/Analysis/Sharing.h"

#include <algorithm>

using namespace ::attn;

/// Whether all rows of a sequence see its first keys, and score them by the
/// dot.
static bool goesWith(const AttnAttentionDesc &d) {
  return d.blockTable && !d.packed && d.causal != ATTN_CAUSAL_TOP_LEFT &&
         !d.window && !d.kStart && !d.bias && !d.alibi && !d.mask &&
         !d.blockMask && !d.dropout && !d.rotaryDim && !d.batchInvariant &&
         !d.scoreMod && !d.maskMod;
}

void attn::chooseCascade(AttnAttentionDesc &d, TensorArgs inputs,
                         const TargetInfo &target, bool readable) {
  if (d.cascade != ATTN_CASCADE_AUTO)
    return;
  d.cascade = 0;
  // Of its inputs no other one has the type of a block table.
  const TensorArg *table =
      std::find_if(inputs.begin(), inputs.end(), [](const TensorArg &t) {
        return t.dtype == support::DType::i32 && t.shape.size() == 2;
      });
  if (!goesWith(d) || table == inputs.end() || inputs[0].shape.size() != 4 ||
      inputs[1].shape.size() != 4)
    return;
  const TensorArg &q = inputs[0], &k = inputs[1];
  SharingProblem problem;
  problem.sequences = q.shape[0];
  problem.keyHeads = k.shape[1];
  problem.rows =
      q.shape[1] / std::max<int64_t>(problem.keyHeads, 1) * q.shape[2];
  problem.pages = table->shape[1];
  problem.page = k.shape[2];
  int64_t bytes = d.dtype == ATTN_F32 ? 4 : 2;
  int64_t columns = d.valueInKey ? 0 : d.valueDim ? d.valueDim : d.headDim;
  problem.keyBytes = (d.headDim + columns) * bytes;
  bool isTable = table->shape[0] == problem.sequences &&
                 table->strides.size() == 2 && table->data;
  if (!maySave(problem, target) ||
      (readable && isTable &&
       !doesSave(problem, static_cast<const int32_t *>(table->data),
                 table->strides[0], table->strides[1])))
    return;
  d.cascade = 1;
}
