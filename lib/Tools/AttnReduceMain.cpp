//===- AttnReduceMain.cpp - Shrinks failing IR ----------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/InitAll.h"
#include "attn/Support/Nesting.h"
#include "attn/Tools/Tools.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Tools/mlir-reduce/MlirReduceMain.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

int attn::attnReduceMain(int argc, char **argv) {
  // Upstream opens the input itself; what it might be is looked at before.
  for (int i = 1; i < argc; ++i) {
    if (!llvm::sys::fs::is_regular_file(argv[i]))
      continue;
    auto file = llvm::MemoryBuffer::getFile(argv[i]);
    if (!file)
      continue;
    llvm::StringRef source = (*file)->getBuffer();
    std::string error = support::checkNesting({source.data(), source.size()});
    if (error.empty())
      continue;
    llvm::errs() << argv[i] << ": error: " << error << "\n";
    return 1;
  }
  mlir::DialectRegistry registry;
  registerAllDialects(registry);
  registerAllPasses();
  mlir::registerTransformsPasses();
  mlir::MLIRContext context(registry);
  return mlir::failed(mlir::mlirReduceMain(argc, argv, context));
}
