//===- Json.cpp - A small JSON reader -------------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Support/Json.h"

#include <algorithm>
#include <charconv>

using namespace ::attn::support;

namespace {

/// Recursive descent over the text. The depth is bounded, so that no input can
/// exhaust the stack.
class Parser {
public:
  explicit Parser(std::string_view text) : text(text) {}

  Result<Json> parse() {
    Json value;
    if (!parseValue(value, 0))
      return located();
    skipSpace();
    if (at != text.size()) {
      message = "expected the end of the document";
      return located();
    }
    return value;
  }

private:
  static constexpr int maxDepth = 64;

  bool fail(const char *what) {
    message = what;
    return false;
  }

  Failure located() const {
    const std::string_view before = text.substr(0, std::min(at, text.size()));
    const size_t line = 1 + std::count(before.begin(), before.end(), '\n');
    const size_t lineStart = before.rfind('\n');
    const size_t column =
        lineStart == std::string_view::npos ? at + 1 : at - lineStart;
    const std::string got =
        at < text.size() ? "byte " + std::to_string(static_cast<unsigned>(
                                         static_cast<unsigned char>(text[at])))
                         : "the end";
    return Failure{"line " + std::to_string(line) + ", column " +
                   std::to_string(column) + ": " + message + ", but got " +
                   got};
  }

  void skipSpace() {
    while (at < text.size() && (text[at] == ' ' || text[at] == '\t' ||
                                text[at] == '\n' || text[at] == '\r'))
      ++at;
  }

  bool eat(char c) {
    skipSpace();
    if (at == text.size() || text[at] != c)
      return false;
    ++at;
    return true;
  }

  bool eatWord(std::string_view word) {
    if (text.substr(at, word.size()) != word)
      return false;
    at += word.size();
    return true;
  }

  bool parseValue(Json &value, int depth) {
    if (depth > maxDepth)
      return fail("expected at most 64 levels of nesting");
    skipSpace();
    if (at == text.size())
      return fail("expected a value");
    switch (text[at]) {
    case '{':
      return parseObject(value, depth);
    case '[':
      return parseArray(value, depth);
    case '"':
      value.kind = Json::Kind::string;
      return parseString(value.string);
    default:
      break;
    }
    if (eatWord("null"))
      return true;
    if (eatWord("true") || eatWord("false")) {
      value.kind = Json::Kind::boolean;
      value.boolean = text[at - 2] == 'u';
      return true;
    }
    return parseNumber(value);
  }

  bool parseNumber(Json &value) {
    // from_chars also takes "inf" and "nan", which JSON does not have.
    const char first = text[at];
    if (first != '-' && (first < '0' || first > '9'))
      return fail("expected a value");
    const char *end = text.data() + text.size();
    auto [next, error] = std::from_chars(text.data() + at, end, value.number);
    if (error != std::errc() || next[-1] < '0' || next[-1] > '9')
      return fail("expected a number");
    value.kind = Json::Kind::number;
    at = next - text.data();
    return true;
  }

  bool parseArray(Json &value, int depth) {
    value.kind = Json::Kind::array;
    ++at;
    if (eat(']'))
      return true;
    do {
      value.elements.emplace_back();
      if (!parseValue(value.elements.back(), depth + 1))
        return false;
    } while (eat(','));
    return eat(']') || fail("expected ',' or ']'");
  }

  bool parseObject(Json &value, int depth) {
    value.kind = Json::Kind::object;
    ++at;
    if (eat('}'))
      return true;
    do {
      value.members.emplace_back();
      auto &[name, member] = value.members.back();
      skipSpace();
      if (at == text.size() || text[at] != '"')
        return fail("expected a member name");
      if (!parseString(name))
        return false;
      if (!eat(':'))
        return fail("expected ':'");
      if (!parseValue(member, depth + 1))
        return false;
    } while (eat(','));
    return eat('}') || fail("expected ',' or '}'");
  }

  bool parseString(std::string &result) {
    ++at;
    while (at < text.size() && text[at] != '"') {
      const unsigned char c = text[at];
      if (c < 0x20)
        return fail("expected no control character in a string");
      if (c != '\\') {
        result += text[at++];
        continue;
      }
      ++at;
      if (!parseEscape(result))
        return false;
    }
    if (at == text.size())
      return fail("expected '\"'");
    ++at;
    return true;
  }

  bool parseEscape(std::string &result) {
    static constexpr std::string_view from = "\"\\/bfnrt";
    static constexpr std::string_view to = "\"\\/\b\f\n\r\t";
    if (at < text.size() && text[at] == 'u')
      return parseUnicode(result);
    const size_t which =
        at < text.size() ? from.find(text[at]) : std::string_view::npos;
    if (which == std::string_view::npos)
      return fail("expected an escape sequence");
    result += to[which];
    ++at;
    return true;
  }

  /// An escape \u of four digits outside the surrogate range, as UTF-8. Pairs
  /// are not needed for anything that we read, and are refused rather than
  /// mangled.
  bool parseUnicode(std::string &result) {
    unsigned code = 0;
    const char *begin = text.data() + std::min(at + 1, text.size());
    const char *end = text.data() + std::min(at + 5, text.size());
    auto [next, error] = std::from_chars(begin, end, code, 16);
    if (error != std::errc() || next != begin + 4 ||
        (code >= 0xd800 && code < 0xe000))
      return fail("expected four hexadecimal digits of a scalar value");
    at += 5;
    if (code < 0x80) {
      result += static_cast<char>(code);
    } else if (code < 0x800) {
      result += static_cast<char>(0xc0 | (code >> 6));
      result += static_cast<char>(0x80 | (code & 0x3f));
    } else {
      result += static_cast<char>(0xe0 | (code >> 12));
      result += static_cast<char>(0x80 | ((code >> 6) & 0x3f));
      result += static_cast<char>(0x80 | (code & 0x3f));
    }
    return true;
  }

  std::string_view text;
  size_t at = 0;
  std::string message;
};

} // namespace

const Json *Json::find(std::string_view name) const {
  for (const auto &[key, value] : members)
    if (key == name)
      return &value;
  return nullptr;
}

Result<Json> attn::support::parseJson(std::string_view text) {
  return Parser(text).parse();
}
