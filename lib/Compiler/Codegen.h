//===- Codegen.h - What both of LLVM's back ends are run with --*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Private to Jit.cpp (CPUs and plans), Ptx.cpp (kernels for GPUs) and
// Compiler.cpp, which has both work at the same time.
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_COMPILER_CODEGEN_H
#define ATTN_LIB_COMPILER_CODEGEN_H

#include "llvm/IR/PassManager.h"

#include <chrono>
#include <functional>
#include <pthread.h>

namespace llvm {
class TargetMachine;
} // namespace llvm

namespace attn {

/// Milliseconds since the last call.
class Stopwatch {
public:
  double lap() {
    auto now = std::chrono::steady_clock::now();
    double ms = std::chrono::duration<double, std::milli>(now - last).count();
    last = now;
    return ms;
  }

private:
  std::chrono::steady_clock::time_point last = std::chrono::steady_clock::now();
};

/// Work on a thread of its own, where there is one to be had; in the caller's
/// otherwise.
class Background {
public:
  Background() = default;
  Background(const Background &) = delete;
  ~Background() { finish(); }
  void start(std::function<void()> work);
  /// Waits for the end of what was started.
  void finish();

private:
  std::function<void()> work;
  pthread_t thread;
  bool isRunning = false;
};

/// Makes LLVM's back ends known: all of them, since the list of them is no
/// thread's own.
void initializeTargets();

/// Runs passes over a module, with all the analyses that LLVM has for
/// `machine`.
void runPasses(llvm::Module &module, llvm::TargetMachine &machine,
               llvm::ModulePassManager passes);

} // namespace attn

#endif // ATTN_LIB_COMPILER_CODEGEN_H
