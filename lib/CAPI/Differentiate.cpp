//===- Differentiate.cpp - Programs for training in the C ABI -------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Compiler/Differentiate.h"
#include "Handles.h"

#include <functional>

using namespace ::attn;

/// `text` may wait for what a fork has stopped: it is called outside.
static AttnError *
give(const std::function<support::Result<std::string>()> &make, AttnText text,
     void *user) {
  auto result = [&] {
    ForkGate::Inside inside;
    return make();
  }();
  if (!result)
    return makeError(result.error());
  text(result->c_str(), user);
  return nullptr;
}

AttnError *attnDifferentiate(const char *source, size_t length,
                             const char *inputs, const char *sourceName,
                             AttnText text, void *user) {
  if (!source || !text)
    return makeError("expected a text and a function to take the result, but "
                     "got null");
  if (AttnError *error = checkTextLength(length))
    return error;
  return give(
      [&] {
        return differentiate(std::string(source, length), inputs ? inputs : "",
                             sourceName ? sourceName : "<input>");
      },
      text, user);
}

AttnError *attnDifferentiateAttention(const AttnAttentionDesc *desc,
                                      const char *inputs, AttnText text,
                                      void *user) {
  if (!desc || !text)
    return makeError("expected a description and a function to take the "
                     "result, but got null");
  AttnAttentionDesc d;
  if (AttnError *error = readStruct(desc, "AttnAttentionDesc", d))
    return error;
  AttentionDescriptor full;
  if (AttnError *error = readDescription(d, full))
    return error;
  return give([&] { return differentiate(full, inputs ? inputs : ""); }, text,
              user);
}
