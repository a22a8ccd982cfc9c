//===- Tools.h - The mains of the compiler's tools --------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The tools that hold the compiler are one program, which `multiCallMain`
// dispatches by the name it was called by: LLVM is linked in once. Each main
// declares its options when it runs, so none sees another's.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TOOLS_TOOLS_H
#define ATTN_TOOLS_TOOLS_H

namespace attn {

/// Runs passes on IR.
int attnOptMain(int argc, char **argv);
/// attn-opt --emit-ptx: prints the PTX of a module's kernels.
int emitPtxMain(int argc, char **argv);
/// Serves editors over the language server protocol, on stdin and stdout.
int attnLspServerMain(int argc, char **argv);
/// Shrinks IR that a test script finds interesting.
int attnReduceMain(int argc, char **argv);

/// The main that argv[0] names; attnOptMain for a name that is none of them.
int multiCallMain(int argc, char **argv);

} // namespace attn

#endif // ATTN_TOOLS_TOOLS_H
