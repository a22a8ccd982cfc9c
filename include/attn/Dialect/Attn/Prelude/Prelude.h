//===- Prelude.h - The monoids that ship ------------------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The text of lib/Dialect/Attn/Prelude/Prelude.mlir, by monoid. A module may
// name a shipped monoid without defining it; attn-import-prelude then copies
// the definition. A definition in the module takes precedence.
//
// This header includes no MLIR.
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTN_PRELUDE_PRELUDE_H
#define ATTN_DIALECT_ATTN_PRELUDE_PRELUDE_H

#include <string>
#include <string_view>
#include <vector>

namespace attn {

struct ShippedMonoid {
  std::string_view name;
  std::string_view text; ///< One `attn.monoid` op.
};

/// In the order of the file; softmax, the default, is the first.
const std::vector<ShippedMonoid> &shippedMonoids();

/// The definition of a shipped monoid, or null.
const ShippedMonoid *lookupShippedMonoid(std::string_view name);

inline bool isShippedMonoid(std::string_view name) {
  return lookupShippedMonoid(name) != nullptr;
}

/// "softmax, logsumexp, ...", for diagnostics.
std::string shippedMonoidNames();

} // namespace attn

#endif // ATTN_DIALECT_ATTN_PRELUDE_PRELUDE_H
