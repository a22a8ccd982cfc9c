//===- attn-plugin.cpp - attn for mlir-opt --------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The dialects, passes and pipelines of attn as a plug-in of mlir-opt:
//
//   mlir-opt-22 --load-dialect-plugin=libattn-plugin.so
//               --load-pass-plugin=libattn-plugin.so
//               --pass-pipeline='builtin.module(attn-import-prelude)'
//
// It holds no LLVM: every symbol of it is found in the program that loads it.
//
//===----------------------------------------------------------------------===//

#include "attn/InitAll.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/Plugins/DialectPlugin.h"
#include "mlir/Tools/Plugins/PassPlugin.h"

extern "C" LLVM_ATTRIBUTE_WEAK LLVM_ABI_EXPORT mlir::DialectPluginLibraryInfo
mlirGetDialectPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "attn", ATTN_VERSION,
          [](mlir::DialectRegistry *registry) {
            attn::registerAllDialects(*registry);
          }};
}

extern "C" LLVM_ATTRIBUTE_WEAK LLVM_ABI_EXPORT mlir::PassPluginLibraryInfo
mlirGetPassPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "attn", ATTN_VERSION,
          attn::registerAllPasses};
}
