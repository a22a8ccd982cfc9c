//===- Nesting.h - Text that MLIR's parser survives -------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// MLIR's parser recurses with the nesting of its input: text that nests deeper
// than any program would end the process. So would an array of indices, which
// it takes for one of floats. Whoever parses text from outside asks here first.
// This header includes no MLIR.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_SUPPORT_NESTING_H
#define ATTN_SUPPORT_NESTING_H

#include <cstdint>
#include <string>
#include <string_view>

namespace attn::support {

/// Levels of brackets that a program may have; the deepest of our tests has
/// about 20.
constexpr int64_t maxNesting = 256;

/// The most brackets of any kind that are open at once, outside of comments and
/// strings.
int64_t countNesting(std::string_view text);

/// Empty, or a line that says what is too deep, or that there is an
/// array of indices. Bytecode, which is not parsed by recursion over its
/// regions, passes.
std::string checkNesting(std::string_view source);

} // namespace attn::support

#endif // ATTN_SUPPORT_NESTING_H
