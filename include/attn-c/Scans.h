//===- Scans.h - Matrices carried along tokens --------------------*- C -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Linear attention, gates and the delta rule (docs/Scans.md): a description
// that becomes a program with one attn.scan, whose meaning docs/Semantics.md
// says.
//
// Available since API version 10.
//===----------------------------------------------------------------------===//

#ifndef ATTN_C_SCANS_H
#define ATTN_C_SCANS_H

#include "attn-c/attn.h"

#ifdef __cplusplus
extern "C" {
#endif

/// What log gates are of.
#define ATTN_GATES_NONE 0
#define ATTN_GATES_HEAD 1
#define ATTN_GATES_KEY 2
#define ATTN_GATES_VALUE 3

/// What an erase reads.
#define ATTN_ERASE_NONE 0
#define ATTN_ERASE_AFTER 1
#define ATTN_ERASE_BEFORE 2

/// States that are updated in place: of a pool, by an index for each sequence;
/// or one for each sequence.
#define ATTN_SLOTS_NONE 0
#define ATTN_SLOTS_INDEX 1
#define ATTN_SLOTS_OWN 2

/// A scan, but for its sizes. Members that are 0 or null: without.
typedef struct AttnScanDesc {
  size_t structSize; ///< sizeof(AttnScanDesc)
  int32_t dtype;     ///< of q, k and v: ATTN_F32, ATTN_F16 or ATTN_BF16
  int64_t keyDim, valueDim;
  int32_t gates;       ///< ATTN_GATES_...
  int32_t erase;       ///< ATTN_ERASE_...
  int32_t scale;       ///< whether there is a scale, else 1
  int32_t packed;      ///< sequences one after the other, with cu_seqlens
  int32_t weight;      ///< weights of tokens
  int32_t logWeight;   ///< their logarithms
  int32_t delta;       ///< the delta rule, with betas
  int32_t bonus;       ///< a bonus for the token that reads
  int32_t readBefore;  ///< reads the state before the token
  int32_t whole;       ///< reads the state after all tokens
  int32_t normalize;   ///< divided by the sum of weights
  int32_t l2norm;      ///< rows of q and k of norm 1
  int32_t init;        ///< begins with states
  int32_t final;       ///< gives the last states
  int32_t slots;       ///< ATTN_SLOTS_...
  int64_t chunk;       ///< tokens at once; 0: automatic
  const char *feature; ///< MLIR text of a region from f32 to f32
  int32_t lengths;     ///< tokens that each batch has; not with `packed`
  int32_t poolDtype;   ///< of pool_S: ATTN_F32, ATTN_F16 or ATTN_BF16
  int64_t segments;    ///< the tokens are cut into so many; 0: one
  int64_t tokens; ///< how many there always are, not with `packed`; 0: any.
                  ///< 1 is what makes a step on a GPU quick
  int32_t valuesFirst; ///< S is [n, H, dv, dk], not [n, H, dk, dv]
} AttnScanDesc;

/// Compiles the scan that `desc` describes. The function is named `scan`. Its
/// arguments, in this order and those that there are: q, k, v, scale (f32),
/// decay, weight, log_weight, beta, erase_a, erase_b, bonus, init_S, init_z,
/// init_m, cu (i32), lengths (i32), pool_S, pool_z, pool_m, slot (i32); its
/// results o, S, z, m. All but q, k, v, o and pool_S are f32, or i32 as said;
/// what pools hold is written. `options` may be null. Kernels are cached as by
/// attnCompile. Those for a GPU take tensors on it.
ATTN_EXPORT AttnError *attnCompileScan(AttnContext *context,
                                       const AttnScanDesc *desc,
                                       const AttnCompileOptions *options,
                                       AttnKernel **kernel);

#ifdef __cplusplus
} // extern "C"
#endif

#endif // ATTN_C_SCANS_H
