//===- AttnOptMain.cpp - Runs passes on IR --------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/InitAll.h"
#include "attn/Support/Nesting.h"
#include "attn/Tools/Tools.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Support/FileUtilities.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/ToolOutputFile.h"
#include "llvm/Support/raw_ostream.h"

/// As upstream's MlirOptMain, which would overflow the stack where the input
/// nests too deep.
static mlir::LogicalResult optMain(int argc, char **argv,
                                   mlir::DialectRegistry &registry) {
  auto [input, output] = mlir::registerAndParseCLIOptions(
      argc, argv, "attn optimizer\n", registry);
  auto config = mlir::MlirOptMainConfig::createFromCLOptions();
  // Asks about the tool; there is no input.
  if (config.shouldShowDialects() || config.shouldListPasses())
    return mlir::MlirOptMain(argc, argv, input, output, registry);

  llvm::InitLLVM init(argc, argv);
  auto fail = [](const std::string &message) {
    llvm::errs() << message << "\n";
    return mlir::failure();
  };
  std::string error;
  auto file = mlir::openInputFile(input, &error);
  if (!file)
    return fail(error);
  llvm::StringRef source = file->getBuffer();
  error = attn::support::checkNesting({source.data(), source.size()});
  if (!error.empty())
    return fail((file->getBufferIdentifier() + ": error: " + error).str());
  auto out = mlir::openOutputFile(output, &error);
  if (!out)
    return fail(error);
  if (failed(mlir::MlirOptMain(out->os(), std::move(file), registry, config)))
    return mlir::failure();
  out->keep();
  return mlir::success();
}

/// The arguments, and in front of them that errors do not print the operation,
/// which takes a screen: --mlir-print-op-on-diagnostic asks for it.
static std::vector<char *> withShortErrors(int argc, char **argv) {
  static char option[] = "--mlir-print-op-on-diagnostic=false";
  llvm::StringRef name = llvm::StringRef(option).drop_front(2).split('=').first;
  std::vector<char *> result(argv, argv + argc);
  bool isGiven = llvm::any_of(result, [&](char *argument) {
    return llvm::StringRef(argument).ltrim('-').starts_with(name);
  });
  if (!isGiven)
    result.insert(result.begin() + 1, option);
  result.push_back(nullptr);
  return result;
}

int attn::attnOptMain(int argc, char **argv) {
  for (int i = 1; i < argc; ++i)
    if (llvm::StringRef(argv[i]) == "--emit-ptx")
      return emitPtxMain(argc, argv);
  mlir::DialectRegistry registry;
  registerAllDialects(registry);
  registerAllPasses();
  mlir::registerTransformsPasses();
  std::vector<char *> arguments = withShortErrors(argc, argv);
  return mlir::asMainReturnCode(
      optMain(int(arguments.size()) - 1, arguments.data(), registry));
}
