//===- EmitPtx.cpp - attn-opt --emit-ptx ----------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
//   attn-opt --emit-ptx [--time] input.mlir
//
// prints the PTX of a module's kernels; tile_gpu kernels are lowered first.
//
//===----------------------------------------------------------------------===//

#include "attn/Analysis/TargetAttr.h"
#include "attn/Compiler/Ptx.h"
#include "attn/Conversion/Passes.h"
#include "attn/Dialect/TileGPU/Transforms/Passes.h"
#include "attn/InitAll.h"
#include "attn/Support/Nesting.h"
#include "attn/Tools/Tools.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Support/FileUtilities.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/raw_ostream.h"

#include <chrono>

int attn::emitPtxMain(int argc, char **argv) {
  std::string input = "-";
  bool time = false;
  for (int i = 1; i < argc; ++i) {
    llvm::StringRef argument = argv[i];
    if (argument == "--time")
      time = true;
    else if (!argument.starts_with("--"))
      input = argument.str();
  }
  mlir::DialectRegistry registry;
  registerAllDialects(registry);
  mlir::MLIRContext context(registry);
  std::string error;
  auto file = mlir::openInputFile(input, &error);
  if (!file) {
    llvm::errs() << error << "\n";
    return 1;
  }
  llvm::StringRef source = file->getBuffer();
  error = support::checkNesting({source.data(), source.size()});
  if (!error.empty()) {
    llvm::errs() << "error: " << error << "\n";
    return 1;
  }
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(std::move(file), llvm::SMLoc());
  mlir::SourceMgrDiagnosticHandler diagnostics(sources, &context);
  auto module = mlir::parseSourceFile<mlir::ModuleOp>(sources, &context);
  if (!module)
    return 1;
  auto start = std::chrono::steady_clock::now();
  mlir::PassManager passes(&context);
  passes.addPass(createTileGpuAllocateSharedPass());
  passes.addPass(createConvertTileGPUToNVVM());
  std::optional<TargetInfo> target = getTarget(*module);
  if (!target || failed(passes.run(*module)))
    return 1;
  double lowerMs = std::chrono::duration<double, std::milli>(
                       std::chrono::steady_clock::now() - start)
                       .count();
  auto code = KernelCode::translate(*module, *target);
  auto ptx = code ? code->emitPtx() : code.takeFailure();
  if (!ptx) {
    llvm::errs() << "error: " << ptx.error() << "\n";
    return 1;
  }
  llvm::outs() << *ptx;
  const PtxTimings &timings = code->timings;
  if (time)
    llvm::errs() << llvm::format(
        "lower %.1f ms, translate %.1f, optimize %.1f, select %.1f\n", lowerMs,
        timings.translateMs, timings.optimizeMs, timings.codegenMs);
  return 0;
}
