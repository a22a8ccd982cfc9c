//===- attn-compile.cpp - Compile attention ahead of time -----------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Tools/CompileMain.h"

int main(int argc, char **argv) { return attn::attnCompileMain(argc, argv); }
