//===- Jit.h - LLVM dialect to machine code ---------------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Two steps with an object file between them: emitObject ends where ahead of
// time compilation ends, and LoadedCode links an object into this process.
//===----------------------------------------------------------------------===//

#ifndef ATTN_COMPILER_JIT_H
#define ATTN_COMPILER_JIT_H

#include "attn/Target/TargetInfo.h"
#include <memory>
#include <string>

namespace mlir {
class ModuleOp;
} // namespace mlir

namespace attn {

/// What emitObject leaves besides the object: text on request, and how long
/// each step took.
struct EmitResult {
  std::string object;
  std::string llvmIr;
  double translateMs = 0, optimizeMs = 0, codegenMs = 0;
};

/// Compiles a module in the LLVM dialect to a relocatable object for `target`.
/// Returns an empty string or what went wrong, in one line.
std::string emitObject(mlir::ModuleOp module, const TargetInfo &target,
                       EmitResult &result, bool wantLlvmIr = false);

/// Code linked into this process; unloaded with its last owner.
class LoadedCode {
public:
  virtual ~LoadedCode() = default;
  /// Address of a symbol, or null.
  virtual void *lookup(const std::string &name) = 0;
  /// Links `object`. On failure returns null and sets `error`.
  static std::unique_ptr<LoadedCode> load(const std::string &object,
                                          std::string &error);
};

} // namespace attn

#endif // ATTN_COMPILER_JIT_H
