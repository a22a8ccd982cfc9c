//===- Codegen.cpp - What both of LLVM's back ends are run with -----------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen.h"
#include "attn/Support/Signals.h"
#include "llvm/Analysis/CGSCCPassManager.h"
#include "llvm/Analysis/LoopAnalysisManager.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"

using namespace llvm;

//===----------------------------------------------------------------------===//
// Threads
//===----------------------------------------------------------------------===//

/// Enough for LLVM, whose recursion follows the code: what programs start with.
static constexpr size_t kStackBytes = 8 << 20;

void attn::Background::start(std::function<void()> given) {
  finish();
  work = std::move(given);
  auto run = [](void *self) -> void * {
    static_cast<Background *>(self)->work();
    return nullptr;
  };
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  {
    support::BlockedSignals blocked;
    isRunning = pthread_create(&thread, &attributes, run, this) == 0;
  }
  pthread_attr_destroy(&attributes);
  if (!isRunning)
    work();
}

void attn::Background::finish() {
  if (isRunning)
    pthread_join(thread, nullptr);
  isRunning = false;
}

//===----------------------------------------------------------------------===//
// LLVM
//===----------------------------------------------------------------------===//

/// Sets a switch of LLVM's own, which is the process's.
template <typename T> static void setSwitch(StringRef name, T value) {
  cl::Option *option = cl::getRegisteredOptions().lookup(name);
  assert(option && "LLVM has another name for it");
  static_cast<cl::opt<T> *>(option)->setValue(value);
}

void attn::initializeTargets() {
  static const bool once = [] {
    InitializeNativeTarget();
    InitializeNativeTargetAsmPrinter();
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    // CodeGenPrepare looks at all blocks again for each that it changed, but in
    // functions of so many blocks, where it looks at the changed ones: the code
    // is the same.
    setSwitch<unsigned>("cgpp-huge-func", 0);
    return true;
  }();
  (void)once;
}

void attn::runPasses(Module &module, TargetMachine &machine,
                     ModulePassManager passes) {
  LoopAnalysisManager loops;
  FunctionAnalysisManager functions;
  CGSCCAnalysisManager graphs;
  ModuleAnalysisManager modules;
  PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(graphs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, graphs, modules);
  passes.run(module, modules);
}
