//===- Ptx.cpp - Kernel modules to PTX ------------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The kernels come straight-line and in the order that is wanted; LLVM shares
// common subexpressions and removes what is dead. It neither unrolls, moves
// code out of loops nor schedules: the assembler does that better, knowing how
// many registers there are.
//
//===----------------------------------------------------------------------===//

#include "attn/Compiler/Ptx.h"
#include "Codegen.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/Analysis/AliasAnalysis.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Transforms/InstCombine/InstCombine.h"
#include "llvm/Transforms/Scalar/ADCE.h"
#include "llvm/Transforms/Scalar/EarlyCSE.h"
#include "llvm/Transforms/Scalar/SimplifyCFG.h"

using namespace ::attn;
using namespace llvm;

static std::unique_ptr<TargetMachine>
createMachine(const attn::TargetInfo &target, std::string &error) {
  Triple triple("nvptx64-nvidia-cuda");
  const Target *backend = TargetRegistry::lookupTarget(triple, error);
  if (!backend)
    return nullptr;
  // Copies into this block's own shared memory are named so from 8.6 on.
  StringRef features = target.hasTensorCopy ? "+ptx87" : "+ptx80";
  std::unique_ptr<TargetMachine> machine(backend->createTargetMachine(
      triple, target.name, features, TargetOptions(), std::nullopt,
      std::nullopt, CodeGenOptLevel::Default));
  if (!machine)
    error = "no LLVM back end for '" + target.name + "'";
  return machine;
}

/// What selection would abort on, as a line of text; empty if there is nothing.
static std::string findIllegal(Module &module) {
  for (Function &function : module)
    for (Instruction &instruction : instructions(function)) {
      std::string what;
      if (auto *call = dyn_cast<CallInst>(&instruction)) {
        if (call->isInlineAsm())
          continue;
        Function *callee = call->getCalledFunction();
        if (!callee)
          what = "a call of a pointer";
        else if (!callee->isIntrinsic())
          what = "a call of '" + callee->getName().str() + "'";
        else
          switch (callee->getIntrinsicID()) {
          // LLVM calls a library for these, and there is none.
          case Intrinsic::exp:
          case Intrinsic::exp10:
          case Intrinsic::log:
          case Intrinsic::log2:
          case Intrinsic::log10:
          case Intrinsic::pow:
          case Intrinsic::powi:
          case Intrinsic::tan:
          case Intrinsic::asin:
          case Intrinsic::acos:
          case Intrinsic::atan:
          case Intrinsic::atan2:
          case Intrinsic::sinh:
          case Intrinsic::cosh:
          case Intrinsic::tanh:
          case Intrinsic::sin:
          case Intrinsic::cos:
            what = "'" + callee->getName().str() + "'";
            break;
          default:
            break;
          }
      } else if (instruction.getOpcode() == Instruction::FRem) {
        what = "a floating-point remainder";
      } else if (isa<VAArgInst, InvokeInst, IndirectBrInst, LandingPadInst>(
                     instruction)) {
        what = std::string("'") + instruction.getOpcodeName() + "'";
      }
      if (!what.empty())
        return "expected operations that PTX has, but got " + what + " in '" +
               function.getName().str() + "'";
    }
  return "";
}

/// The code generator shares common subexpressions once more.
static void optimize(Module &module, TargetMachine &machine) {
  FunctionPassManager passes;
  passes.addPass(EarlyCSEPass());
  passes.addPass(SimplifyCFGPass());
  passes.addPass(InstCombinePass(InstCombineOptions().setMaxIterations(1)));
  passes.addPass(ADCEPass());

  ModulePassManager pipeline;
  pipeline.addPass(createModuleToFunctionPassAdaptor(std::move(passes)));
  attn::runPasses(module, machine, std::move(pipeline));
}

/// Whether a kernel has no more addresses than its tiles take: masks, biases
/// and ids are loaded one by one, hundreds of them.
static bool hasFewAddresses(const Module &module) {
  unsigned count = 0;
  for (const Function &function : module)
    for (const Instruction &instruction : instructions(function))
      count += isa<GetElementPtrInst>(instruction);
  return count < 64;
}

namespace {
/// LLVM's code generator. `isLean`: without its search for arithmetic on
/// addresses that may be had cheaper from its neighbours, and without the
/// sharing of common subexpressions after each search: a tenth of a
/// compilation. The target has no switch for them, and pass configurations can
/// only replace passes of the machine, so that they are told by name.
class CodegenPasses : public legacy::PassManager {
public:
  explicit CodegenPasses(bool isLean) : isLean(isLean) {}

  void add(Pass *pass) override {
    StringRef name = pass->getPassName();
    // Loops leave expressions to share.
    if (name == "Loop Strength Reduction")
      isLean = false;
    if (isLean && (name == "Straight line strength reduction" ||
                   name == "Nary reassociation" || name == "Early CSE")) {
      delete pass;
      return;
    }
    legacy::PassManager::add(pass);
  }

private:
  bool isLean;
};
} // namespace

KernelCode::KernelCode() = default;
KernelCode::~KernelCode() = default;
KernelCode::KernelCode(KernelCode &&) = default;

attn::support::Result<KernelCode>
KernelCode::translate(mlir::Operation *module, const TargetInfo &target,
                      bool isOurs) {
  using attn::support::Failure;
  Stopwatch watch;
  if (auto whole = dyn_cast<mlir::ModuleOp>(module)) {
    auto kernels = llvm::to_vector(whole.getOps<mlir::gpu::GPUModuleOp>());
    if (kernels.size() != 1)
      return Failure{"expected one gpu.module, but got " +
                     std::to_string(kernels.size())};
    module = kernels.front();
  }
  if (target.isCpu())
    return Failure{"expected a GPU as target, but got '" + target.name + "'"};
  bool illegal = false;
  module->walk([&](mlir::Operation *op) {
    illegal |= op != module &&
               !isa<mlir::LLVM::LLVMDialect>(op->getDialect()) &&
               op->getName().getStringRef() != "gpu.module_end";
  });
  if (illegal)
    return Failure{"expected a gpu.module in the LLVM dialect; run "
                   "convert-tile-gpu-to-nvvm first"};
  initializeTargets();
  KernelCode result;
  result.target = target;
  result.context = std::make_unique<LLVMContext>();
  result.code = mlir::translateModuleToLLVMIR(module, *result.context, "attn",
                                              /*disableVerification=*/isOurs);
  if (!result.code)
    return Failure{"expected a module in the LLVM dialect, but its translation "
                   "failed"};
  result.timings.translateMs = watch.lap();
  return result;
}

attn::support::Result<std::string> KernelCode::emitPtx() {
  using attn::support::Failure;
  Stopwatch watch;
  std::string error;
  std::unique_ptr<TargetMachine> machine = createMachine(target, error);
  if (!machine)
    return Failure{error};
  code->setDataLayout(machine->createDataLayout());
  code->setTargetTriple(machine->getTargetTriple());
  // MLIR cannot say so: all threads of a warp run each piece of assembly
  // together, so it must not move into a branch or be duplicated.
  for (Function &function : *code)
    for (Instruction &instruction : instructions(function))
      if (auto *call = dyn_cast<CallInst>(&instruction))
        if (call->isInlineAsm())
          call->setConvergent();
  optimize(*code, *machine);
  error = findIllegal(*code);
  if (!error.empty())
    return Failure{error};
  timings.optimizeMs = watch.lap();

  SmallVector<char, 0> buffer;
  raw_svector_ostream stream(buffer);
  // The portable path has more addresses in any case, and some of its kernels
  // spill more without.
  CodegenPasses codegen(target.hasTensorCopy && hasFewAddresses(*code));
  if (machine->addPassesToEmitFile(codegen, stream, nullptr,
                                   CodeGenFileType::AssemblyFile))
    return Failure{"the LLVM back end for '" + target.name +
                   "' cannot write PTX"};
  codegen.run(*code);
  timings.codegenMs = watch.lap();
  return std::string(buffer.begin(), buffer.end());
}
