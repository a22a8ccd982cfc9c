//===- Descriptor.h - Attention by named options, as IR ---------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_COMPILER_DESCRIPTOR_H
#define ATTN_COMPILER_DESCRIPTOR_H

#include "attn/Support/DType.h"
#include "attn/Support/Result.h"
#include <array>
#include <cstdint>
#include <string>

namespace attn {

/// What AttnAttentionDesc of attn-c/attn.h says, which explains the members.
struct AttentionDescriptor {
  enum Broadcast {
    Given = 1,
    Batch = 2,
    Heads = 4,
    Queries = 8,
    Keys = 16,
  };

  std::string name = "attention";
  support::DType dtype = support::DType::f32;
  int64_t headDim = 64;
  int64_t valueDim = 0;
  /// "none", "top_left" or "bottom_right".
  std::string causal = "none";
  bool scale = false, softcap = false, window = false, sinks = false,
       lengths = false, packed = false, kStart = false, rolling = false;
  /// 0, the rows of a page, or -1 for any.
  int64_t blockTable = 0;
  int bias = 0, mask = 0;
  support::DType biasDType = support::DType::f32;
  int alibi = 0;
  std::string monoid = "softmax";
  int numOutputs = 1;
  std::string schedule;
  bool batchInvariant = false;
  /// Rows are appended to the caches before; the values are the first columns
  /// of the keys, in their memory.
  int append = 0;
  bool valueInKey = false;
  /// `append`: as many rows for each sequence, or those of packed queries.
  static constexpr int EqualRows = 1, PackedRows = 2;
  /// Levels of pages that sequences begin with, and that are read once for all
  /// of them.
  int cascade = 0;
  /// Texts of regions, or empty: the score function and the mask.
  std::string scoreMod, maskMod;
  /// Flags as of `mask`, and the queries and the keys of a block.
  int blockMask = 0;
  int64_t blockRows = 0, blockKeys = 0;
  /// Values are dropped: the inputs dropout_p and dropout_rng are there.
  bool dropout = false;
  /// The channels of queries and keys that turn before the product, 0 for none,
  /// by the inputs rotary_cos and rotary_sin; which are pairs; and whether
  /// positions count from 0 whatever k_start is.
  int64_t rotaryDim = 0;
  bool rotaryInterleaved = false, rotaryBySlot = false;
  /// Gradients may be added up in any order.
  bool anyOrder = false;
  /// What products may round f32 operands to: ieee (nothing) or tf32.
  std::string precision = "ieee";
  /// [b, hq, sq, sk, hk] that the schedule is chosen for; 0: unknown.
  std::array<int64_t, 5> expectedSizes = {};
  /// A kernel for each class of sizes, where none are expected.
  bool dispatch = false;
};

/// A module with one function, @`name`, that does what is described.
struct AttentionModule {
  std::string text;
  /// Where the text of the monoid is in it, if it was given.
  int linesBeforeMonoid = 0, monoidLines = 0;
};

/// Errors in the monoid's text have the position there, after `monoidName`.
support::Result<AttentionModule>
makeAttentionModule(const AttentionDescriptor &descriptor,
                    const std::string &monoidName);

/// The names of a monoid's outputs, as "o, lse"; `monoid` is a shipped name or
/// text.
support::Result<std::string> listOutputs(const std::string &monoid);

} // namespace attn

#endif // ATTN_COMPILER_DESCRIPTOR_H
