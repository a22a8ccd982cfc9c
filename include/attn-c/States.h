//===- States.h - Results over parts of the keys, merged ----------*- C -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Attention over some of the keys, with its LSE, is a state: those of parts of
// the keys make that of all of them (docs/Serving.md).
//
// Available since API version 9.
//===----------------------------------------------------------------------===//

#ifndef ATTN_C_STATES_H
#define ATTN_C_STATES_H

#include "attn-c/attn.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Merges the states of one or more parts, in order. `o` is [parts, b, h, s,
/// dv] of f32, f16 or bf16, with stride 1 in the last dimension, and `lse`
/// [parts, b, h, s] of f32, likewise; without b where queries are packed.
/// `mergedO` and `mergedLse` are outputs of the same types and shapes without
/// parts. Where an lse is -inf its part has no keys, and what its o holds does
/// not matter; a row without any keys is 0, and -inf. Runs where
/// options->place says, null: on the host, by a kernel that is compiled for the
/// types and dv on the first call.
ATTN_EXPORT AttnError *
attnMergeStates(AttnContext *context, const AttnTensor *o,
                const AttnTensor *lse, const AttnTensor *mergedO,
                const AttnTensor *mergedLse, const AttnRunOptions *options);

#ifdef __cplusplus
} // extern "C"
#endif

#endif // ATTN_C_STATES_H
