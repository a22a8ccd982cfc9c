//===- RegionText.h - Score and mask functions as text ----------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The score and the mask function of a description are texts of regions:
//
//   ^bb0(%b: i32, %h: i32, %i: i32, %j: i32, %document: tensor<?xi32>):
//     ...
//     attn.yield %live : i1
//
// What comes behind the positions are captures, inputs of the kernel by their
// names. Texts are parsed and verified on their own, so that errors have the
// lines of their author, and printed for the function that they become part of.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_COMPILER_REGIONTEXT_H
#define ATTN_LIB_COMPILER_REGIONTEXT_H

#include "attn/Compiler/Descriptor.h"

#include <string>
#include <utility>
#include <vector>

namespace attn {

/// What a description's functions add to the text of its operation.
struct RegionTexts {
  /// Name and type of the inputs, in order.
  std::vector<std::pair<std::string, std::string>> captures;
  /// With the captures of both; empty where there is none.
  std::string score, mask;
};

support::Result<RegionTexts> readRegions(const AttentionDescriptor &descriptor);

} // namespace attn

#endif // ATTN_LIB_COMPILER_REGIONTEXT_H
