//===- Nesting.cpp - How deep MLIR text nests -----------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Support/Nesting.h"

#include <algorithm>

using namespace ::attn;

int64_t support::countNesting(std::string_view text) {
  int64_t depth = 0, deepest = 0;
  auto at = [&](size_t i) { return i < text.size() ? text[i] : '\0'; };
  for (size_t i = 0; i < text.size(); ++i) {
    switch (text[i]) {
    case '/':
      if (at(i + 1) == '/')
        i = std::min(text.find('\n', i), text.size());
      break;
    case '"':
      // A string ends with its line, if not before.
      for (++i; i < text.size() && text[i] != '"' && text[i] != '\n'; ++i)
        i += text[i] == '\\';
      break;
    case '(':
    case '[':
    case '{':
      deepest = std::max(deepest, ++depth);
      break;
    case '<':
      if (at(i + 1) != '=')
        deepest = std::max(deepest, ++depth);
      break;
    case '>':
      // "->", "=>" and ">=" close nothing.
      if (at(i + 1) == '=' || (i > 0 && (at(i - 1) == '-' || at(i - 1) == '=')))
        break;
      [[fallthrough]];
    case ')':
    case ']':
    case '}':
      depth = std::max<int64_t>(depth - 1, 0);
      break;
    default:
      break;
    }
  }
  return deepest;
}

std::string support::checkNesting(std::string_view source) {
  constexpr std::string_view bytecode = "ML\xefR";
  if (source.substr(0, bytecode.size()) == bytecode)
    return "";
  int64_t depth = countNesting(source);
  if (depth <= maxNesting)
    return "";
  return "expected at most " + std::to_string(maxNesting) +
         " levels of nested regions and brackets, but got " +
         std::to_string(depth);
}
