//===- attn-run.cpp - Run attention from the command line -----------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Tools/RunMain.h"

int main(int argc, char **argv) { return attn::attnRunMain(argc, argv); }
