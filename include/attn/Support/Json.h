//===- Json.h - A small JSON reader -----------------------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_SUPPORT_JSON_H
#define ATTN_SUPPORT_JSON_H

#include "attn/Support/Result.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace attn::support {

/// One JSON value. Numbers are doubles; members keep their order.
struct Json {
  enum class Kind { null, boolean, number, string, array, object };

  Kind kind = Kind::null;
  bool boolean = false;
  double number = 0.0;
  std::string string;
  std::vector<Json> elements;
  std::vector<std::pair<std::string, Json>> members;

  bool isNull() const { return kind == Kind::null; }
  bool isNumber() const { return kind == Kind::number; }
  bool isString() const { return kind == Kind::string; }
  bool isArray() const { return kind == Kind::array; }
  bool isObject() const { return kind == Kind::object; }

  /// The member with this name, or null when there is none.
  const Json *find(std::string_view name) const;
};

/// Reads one JSON document. Messages name the line and the column.
Result<Json> parseJson(std::string_view text);

} // namespace attn::support

#endif // ATTN_SUPPORT_JSON_H
