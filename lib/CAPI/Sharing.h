//===- Sharing.h - Calls that leave cascade to their sizes ------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CAPI_SHARING_H
#define ATTN_LIB_CAPI_SHARING_H

#include "attn-c/attn.h"
#include "attn/Compiler/Invoke.h"
#include "attn/Target/TargetInfo.h"

namespace attn {

/// Puts a number of levels in the place of ATTN_CASCADE_AUTO: 1 where shared
/// prefixes go with the other options and pay, else 0. `readable`: the inputs
/// are in memory of the host.
void chooseCascade(AttnAttentionDesc &d, TensorArgs inputs,
                   const TargetInfo &target, bool readable);

} // namespace attn

#endif // ATTN_LIB_CAPI_SHARING_H
