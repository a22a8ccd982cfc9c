//===- RunMain.h - The main of attn-run -------------------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TOOLS_RUNMAIN_H
#define ATTN_TOOLS_RUNMAIN_H

namespace attn {

/// Compiles attention, runs it, checks it and times it. A client of the C ABI.
int attnRunMain(int argc, char **argv);

} // namespace attn

#endif // ATTN_TOOLS_RUNMAIN_H
