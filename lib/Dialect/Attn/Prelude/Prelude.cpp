//===- Prelude.cpp - The monoids that ship --------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/Attn/Prelude/Prelude.h"

using namespace ::attn;

static constexpr std::string_view preludeText =
#include "Prelude.inc"
    ;

/// Each definition starts with `attn.monoid @` at the beginning of a line and
/// ends with `}` there.
static std::vector<ShippedMonoid> findMonoids() {
  constexpr std::string_view start = "\nattn.monoid @", end = "\n}\n";
  std::vector<ShippedMonoid> monoids;
  size_t at = 0;
  while ((at = preludeText.find(start, at)) != std::string_view::npos) {
    size_t name = at + start.size();
    size_t stop = preludeText.find(end, name) + end.size();
    monoids.push_back(
        {preludeText.substr(name, preludeText.find(' ', name) - name),
         preludeText.substr(at + 1, stop - at - 1)});
    at = stop - 1;
  }
  return monoids;
}

const std::vector<ShippedMonoid> &attn::shippedMonoids() {
  static const std::vector<ShippedMonoid> monoids = findMonoids();
  return monoids;
}

const ShippedMonoid *attn::lookupShippedMonoid(std::string_view name) {
  for (const ShippedMonoid &monoid : shippedMonoids())
    if (monoid.name == name)
      return &monoid;
  return nullptr;
}

std::string attn::shippedMonoidNames() {
  std::string names;
  for (const ShippedMonoid &monoid : shippedMonoids())
    names.append(names.empty() ? "" : ", ").append(monoid.name);
  return names;
}
