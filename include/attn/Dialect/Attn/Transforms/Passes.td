//===- Passes.td - Passes over the attn dialect ------------*- tablegen -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// All of them, in the files of what they are about.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTN_TRANSFORMS_PASSES_TD
#define ATTN_DIALECT_ATTN_TRANSFORMS_PASSES_TD

include "attn/Dialect/Attn/Transforms/AggregatePasses.td"
include "attn/Dialect/Attn/Transforms/KernelPasses.td"
include "attn/Dialect/Attn/Transforms/RewritePasses.td"
include "attn/Dialect/Attn/Transforms/SchedulePasses.td"

#endif // ATTN_DIALECT_ATTN_TRANSFORMS_PASSES_TD
