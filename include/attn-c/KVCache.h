//===- KVCache.h - Keys and values of many sequences, in pages ----*- C -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A cache says which pages of a pool the rows of each sequence are in, so that
// the block_table of attention reads them (docs/Serving.md). The conventions
// are those of attn.h; so are errors, of which those for want of pages begin
// with "out of pages". A function that fails changes nothing, but for an
// append whose copies a GPU's driver refuses: its rows are there, and hold
// anything. All functions may be called from many threads at once.
//
// Available since API version 9.
//===----------------------------------------------------------------------===//

#ifndef ATTN_C_KVCACHE_H
#define ATTN_C_KVCACHE_H

#include "attn-c/attn.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct AttnKVCache AttnKVCache;

typedef struct AttnKVCacheOptions {
  size_t structSize;
  /// The keys that a query sees, itself among them; 0: all. Pages that no query
  /// sees from the next row on are given back when it is appended.
  int64_t window;
  /// Where the pools are, and all that is appended to them.
  AttnPlace place;
  /// How many keys from the first on every query sees beside the window: their
  /// pages stay. Positions are then places among the rows that are there.
  ///
  /// Available since API version 10.
  int64_t keep;
} AttnKVCacheOptions;

/// A cache without sequences, on pools [pages, heads, page, d] and [pages,
/// heads, page, dv] of one type, with any strides: memory of the caller, who
/// keeps it as long as the cache. dv may be 0. `options` may be null.
ATTN_EXPORT AttnError *attnKVCacheCreate(const AttnTensor *k,
                                         const AttnTensor *v,
                                         const AttnKVCacheOptions *options,
                                         AttnKVCache **cache);
ATTN_EXPORT void attnKVCacheDestroy(AttnKVCache *cache);

/// An empty sequence, with an id that no sequence of the cache ever had.
ATTN_EXPORT AttnError *attnKVCacheNew(AttnKVCache *cache, int64_t *id);

/// Copies rows behind those of some sequences: k and v are [ids, heads, rows,
/// d] of the pools' type, with any strides. An id that is not in the cache
/// stands for an empty sequence, which is then there; no id may come twice.
/// `tokens` [ids, rows], i32 or i64, or null, are what the rows were made of:
/// where those of a sequence are known from its first row on, it shares each
/// full page with all sequences that begin with the same tokens up to its end,
/// and its own rows for that page are not looked at. v may be null where dv is
/// 0. Where both are null there are `rows` more rows, for the caller to write;
/// else `rows` is not looked at. On a GPU k and v have stride 1 in the last
/// dimension, and are copied in order on options->stream, without waiting: what
/// reads or writes the cache is to run on that stream, or wait for it. `tokens`
/// is in host memory always. `options` may be null.
ATTN_EXPORT AttnError *attnKVCacheAppend(AttnKVCache *cache, const int64_t *ids,
                                         size_t numIds, const AttnTensor *k,
                                         const AttnTensor *v,
                                         const AttnTensor *tokens, int64_t rows,
                                         const AttnRunOptions *options);

/// Gives an empty sequence, or one that is not there yet, the full pages that
/// the cache has of a sequence of these tokens. `reused`: the rows in them.
ATTN_EXPORT AttnError *attnKVCacheReuse(AttnKVCache *cache, int64_t id,
                                        const int64_t *tokens, size_t numTokens,
                                        int64_t *reused);

/// A new sequence with the rows of another. Pages are shared until one of them
/// is written.
ATTN_EXPORT AttnError *attnKVCacheFork(AttnKVCache *cache, int64_t id,
                                       int64_t *fork);
/// Drops the rows behind the first `length` of those that there are.
ATTN_EXPORT AttnError *attnKVCacheTruncate(AttnKVCache *cache, int64_t id,
                                           int64_t length);
/// Drops a sequence. Its pages stay to be found by tokens until they are needed
/// for something else.
ATTN_EXPORT AttnError *attnKVCacheFree(AttnKVCache *cache, int64_t id);
/// Sequence onto[i] becomes what from[i] was before the call, for all i. No id
/// may come twice in `onto`; one that is not in the cache is then there.
ATTN_EXPORT AttnError *attnKVCacheReorder(AttnKVCache *cache,
                                          const int64_t *from,
                                          const int64_t *onto, size_t count);

/// The rows of each sequence, kv_lengths, and the position of the first of
/// them, k_start: 0 without a window, and where first keys are kept. Either may
/// be null.
ATTN_EXPORT AttnError *attnKVCacheLengths(const AttnKVCache *cache,
                                          const int64_t *ids, size_t numIds,
                                          int32_t *lengths, int32_t *starts);
/// The pages of the sequence that has most of them.
ATTN_EXPORT AttnError *attnKVCacheWidth(const AttnKVCache *cache,
                                        const int64_t *ids, size_t numIds,
                                        int64_t *width);
/// The pages of each sequence, block_table [ids, width], with -1 behind its
/// last.
ATTN_EXPORT AttnError *attnKVCacheTable(const AttnKVCache *cache,
                                        const int64_t *ids, size_t numIds,
                                        int64_t width, int32_t *table);
/// Pages that no sequence has.
ATTN_EXPORT int64_t attnKVCacheFreePages(const AttnKVCache *cache);
/// The ids in the cache, in ascending order: writes at most `capacity` of them
/// and returns how many there are.
ATTN_EXPORT size_t attnKVCacheIds(const AttnKVCache *cache, int64_t *ids,
                                  size_t capacity);

#ifdef __cplusplus
} // extern "C"
#endif

#endif // ATTN_C_KVCACHE_H
