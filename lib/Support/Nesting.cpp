//===- Nesting.cpp - How deep MLIR text nests -----------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Support/Nesting.h"

#include <algorithm>
#include <cctype>

using namespace ::attn;

/// Whether the bracket at `i` is that of an array<index>, or of an array of a
/// type's alias, which may stand for indices.
static bool isArrayOfIndices(std::string_view text, size_t i) {
  constexpr std::string_view space = " \t\r\n", array = "array";
  size_t end = text.substr(0, i).find_last_not_of(space) + 1,
         next = text.find_first_not_of(space, i + 1);
  if (end < array.size() || next == text.npos ||
      text.substr(end - array.size(), array.size()) != array)
    return false;
  char before = end > array.size() ? text[end - array.size() - 1] : ' ';
  return !std::isalnum((unsigned char)before) && before != '_' &&
         before != '.' &&
         (text[next] == '!' || text.substr(next, 5) == "index");
}

/// Calls visit(i) for each character outside of comments and strings.
template <typename F>
static void forEachCharacter(std::string_view text, F visit) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '/' && i + 1 < text.size() && text[i + 1] == '/') {
      i = std::min(text.find('\n', i), text.size());
    } else if (text[i] == '"') {
      // A string ends with its line, if not before.
      for (++i; i < text.size() && text[i] != '"' && text[i] != '\n'; ++i)
        i += text[i] == '\\';
    } else {
      visit(i);
    }
  }
}

int64_t support::countNesting(std::string_view text) {
  int64_t depth = 0, deepest = 0;
  auto at = [&](size_t i) { return i < text.size() ? text[i] : '\0'; };
  forEachCharacter(text, [&](size_t i) {
    switch (text[i]) {
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
  });
  return deepest;
}

std::string support::checkNesting(std::string_view source) {
  constexpr std::string_view bytecode = "ML\xefR";
  if (source.substr(0, bytecode.size()) == bytecode)
    return "";
  bool hasIndices = false;
  forEachCharacter(source, [&](size_t i) {
    hasIndices |= source[i] == '<' && isArrayOfIndices(source, i);
  });
  if (hasIndices)
    return "expected arrays of integers or of floats, but got array<index> or "
           "an alias; array<i64> holds indices";
  int64_t depth = countNesting(source);
  if (depth <= maxNesting)
    return "";
  return "expected at most " + std::to_string(maxNesting) +
         " levels of nested regions and brackets, but got " +
         std::to_string(depth);
}
