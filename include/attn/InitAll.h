//===- InitAll.h - Registers everything of attn -----------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_INITALL_H
#define ATTN_INITALL_H

namespace mlir {
class DialectRegistry;
} // namespace mlir

namespace attn {
/// Registers the attn and tile dialects and every upstream dialect and
/// extension that compiling them needs.
void registerAllDialects(mlir::DialectRegistry &registry);
/// Registers every pass and pipeline of attn by name.
void registerAllPasses();
} // namespace attn

#endif // ATTN_INITALL_H
