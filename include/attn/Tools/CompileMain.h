//===- CompileMain.h - The main of attn-compile -----------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TOOLS_COMPILEMAIN_H
#define ATTN_TOOLS_COMPILEMAIN_H

namespace attn {

/// Compiles attention ahead of time. A client of the C ABI.
int attnCompileMain(int argc, char **argv);

} // namespace attn

#endif // ATTN_TOOLS_COMPILEMAIN_H
