//===- MultiCallMain.cpp - One program, several tools ---------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Tools/Tools.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/Path.h"

int attn::multiCallMain(int argc, char **argv) {
  using Main = int (*)(int, char **);
  Main main = llvm::StringSwitch<Main>(
                  llvm::sys::path::filename(argc > 0 ? argv[0] : "attn-opt"))
                  .Case("attn-lsp-server", attnLspServerMain)
                  .Case("attn-reduce", attnReduceMain)
                  .Default(attnOptMain);
  return main(argc, argv);
}
