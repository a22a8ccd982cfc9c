//===- Jit.h - LLVM dialect to machine code ---------------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Two steps with an object file between them: HostCode ends where ahead of time
// compilation ends, and LoadedCode links an object into this process.
//===----------------------------------------------------------------------===//

#ifndef ATTN_COMPILER_JIT_H
#define ATTN_COMPILER_JIT_H

#include "attn/Target/TargetInfo.h"
#include <memory>
#include <string>

namespace llvm {
class LLVMContext;
class Module;
} // namespace llvm

namespace mlir {
class ModuleOp;
} // namespace mlir

namespace attn {

/// What HostCode leaves besides the object: text on request, and how long each
/// step took.
struct EmitResult {
  std::string object;
  std::string llvmIr;
  double translateMs = 0, optimizeMs = 0, codegenMs = 0;
};

/// Code for a CPU as LLVM has it: what was translated is not looked at again,
/// so that another thread can make the object. Errors are one line, and empty
/// where there is none.
class HostCode {
public:
  /// What the code is for. A plan runs once in a call, for less than 0.1 us:
  /// its machine code is made without optimization, which takes a quarter of
  /// the time, of LLVM IR that is optimized. Kernels are worth all of it.
  enum class Use { kernels, plan };

  HostCode();
  ~HostCode();

  /// Takes a module in the LLVM dialect.
  std::string translate(mlir::ModuleOp module, const TargetInfo &target);

  /// Compiles it to a relocatable object. Once.
  std::string emitObject(Use use, bool wantLlvmIr = false);

  EmitResult result;

private:
  TargetInfo target;
  std::unique_ptr<llvm::LLVMContext> context;
  std::unique_ptr<llvm::Module> code;
};

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
