//===- Jit.cpp - LLVM dialect to machine code -----------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Compiler/Jit.h"
#include "Codegen.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/Analysis/AliasAnalysis.h"
#include "llvm/CodeGen/TargetLowering.h"
#include "llvm/CodeGen/TargetSubtargetInfo.h"
#include "llvm/ExecutionEngine/Orc/AbsoluteSymbols.h"
#include "llvm/ExecutionEngine/Orc/ExecutionUtils.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/Transforms/IPO/AlwaysInliner.h"
#include "llvm/Transforms/IPO/GlobalDCE.h"
#include "llvm/Transforms/InstCombine/InstCombine.h"
#include "llvm/Transforms/Scalar/ADCE.h"
#include "llvm/Transforms/Scalar/EarlyCSE.h"
#include "llvm/Transforms/Scalar/GVN.h"
#include "llvm/Transforms/Scalar/LICM.h"
#include "llvm/Transforms/Scalar/LoopPassManager.h"
#include "llvm/Transforms/Scalar/SROA.h"
#include "llvm/Transforms/Scalar/SimplifyCFG.h"
#include "llvm/Transforms/Utils/BypassSlowDivision.h"

#include <cmath>
#include <cstring>
#include <sched.h>

using namespace ::attn;
using namespace llvm;

static std::string toOneLine(Error error) {
  std::string text = toString(std::move(error));
  for (char &c : text)
    if (c == '\n')
      c = ' ';
  return text;
}

static std::unique_ptr<TargetMachine>
createTargetMachine(const TargetInfo &target, HostCode::Use use,
                    std::string &error) {
  Triple triple(sys::getDefaultTargetTriple());
  const Target *backend = TargetRegistry::lookupTarget(triple, error);
  if (!backend)
    return nullptr;
  TargetOptions options;
  std::unique_ptr<TargetMachine> machine(backend->createTargetMachine(
      triple, target.llvmCpu, target.llvmFeatures, options, Reloc::PIC_,
      std::nullopt,
      use == HostCode::Use::plan ? CodeGenOptLevel::None
                                 : CodeGenOptLevel::Default,
      /*JIT=*/false));
  if (!machine)
    error = "no LLVM back end for '" + target.name + "'";
  return machine;
}

/// Optimization of machine code that is not only for the code's own sake: many
/// processors divide short numbers several times faster.
static void shortenDivisions(Function &function, TargetMachine &machine) {
  const TargetLowering &lowering =
      *machine.getSubtargetImpl(function)->getTargetLowering();
  if (!lowering.isSlowDivBypassed())
    return;
  SmallVector<BasicBlock *> blocks(llvm::make_pointer_range(function));
  for (BasicBlock *block : blocks)
    bypassSlowDivision(block, lowering.getBypassSlowDivWidths());
}

/// Code without optimization is selected fast, one instruction after the other,
/// but where one has no such way all of the block before it takes the slow one:
/// half of what the code of a plan of several kernels takes. Choices between
/// truths are such, which LLVM makes of `and` and `or`, and extrema nearly so.
static void selectFast(Function &function) {
  SmallVector<Instruction *> slow;
  for (Instruction &instruction : instructions(function)) {
    bool isChoice = isa<SelectInst>(instruction) &&
                    instruction.getType()->isIntegerTy(1) &&
                    instruction.getOperand(0)->getType()->isIntegerTy(1);
    if (isChoice || (isa<MinMaxIntrinsic>(instruction) &&
                     instruction.getType()->isIntegerTy()))
      slow.push_back(&instruction);
  }
  for (Instruction *instruction : slow) {
    IRBuilder<> builder(instruction);
    Value *result;
    if (auto *extremum = dyn_cast<MinMaxIntrinsic>(instruction)) {
      Value *a = extremum->getLHS(), *b = extremum->getRHS();
      result = builder.CreateSelect(
          builder.CreateICmp(extremum->getPredicate(), a, b), a, b);
    } else {
      auto wide = [&](unsigned operand) {
        return builder.CreateZExt(instruction->getOperand(operand),
                                  builder.getInt32Ty());
      };
      Value *yes = wide(1), *no = wide(2);
      result = builder.CreateTrunc(
          builder.CreateSelect(instruction->getOperand(0), yes, no),
          builder.getInt1Ty());
    }
    result->takeName(instruction);
    instruction->replaceAllUsesWith(result);
    instruction->eraseFromParent();
  }
}

/// Vectorisation, unrolling and fusion happened before this, under the
/// schedule's control; here LLVM only cleans up after the conversion: it
/// dissolves descriptors, shares address arithmetic and moves what is
/// invariant out of loops.
static void optimize(Module &module, TargetMachine &machine,
                     HostCode::Use use) {
  FunctionPassManager passes;
  passes.addPass(SROAPass(SROAOptions::PreserveCFG));
  passes.addPass(EarlyCSEPass());
  passes.addPass(SimplifyCFGPass());
  passes.addPass(InstCombinePass());
  // Plans have no loops that matter.
  if (use == HostCode::Use::kernels) {
    passes.addPass(createFunctionToLoopPassAdaptor(LICMPass(LICMOptions()),
                                                   /*UseMemorySSA=*/true));
    passes.addPass(EarlyCSEPass(/*UseMemorySSA=*/true));
    passes.addPass(InstCombinePass());
    passes.addPass(SimplifyCFGPass());
  }
  passes.addPass(ADCEPass());

  ModulePassManager pipeline;
  pipeline.addPass(AlwaysInlinerPass(/*InsertLifetimeIntrinsics=*/false));
  pipeline.addPass(GlobalDCEPass());
  pipeline.addPass(createModuleToFunctionPassAdaptor(std::move(passes)));
  attn::runPasses(module, machine, std::move(pipeline));
  if (use == HostCode::Use::plan)
    for (Function &function : module)
      if (!function.isDeclaration()) {
        shortenDivisions(function, machine);
        selectFast(function);
      }
}

HostCode::HostCode() = default;
HostCode::~HostCode() = default;

std::string HostCode::translate(mlir::ModuleOp module,
                                const TargetInfo &given) {
  Stopwatch watch;
  initializeTargets();
  target = given;
  context = std::make_unique<LLVMContext>();
  code = mlir::translateModuleToLLVMIR(module, *context, "attn");
  result.translateMs = watch.lap();
  if (!code)
    return "expected a module in the LLVM dialect, but its translation failed";
  return "";
}

std::string HostCode::emitObject(Use use, bool wantLlvmIr) {
  Stopwatch watch;
  std::string error;
  std::unique_ptr<TargetMachine> machine =
      createTargetMachine(target, use, error);
  if (!machine)
    return error;
  code->setDataLayout(machine->createDataLayout());
  code->setTargetTriple(machine->getTargetTriple());
  for (Function &function : *code) {
    // Nothing throws, and tables for unwinding would have to be registered.
    function.setDoesNotThrow();
    // What is declared is libm's, and nobody reads errno.
    if (function.isDeclaration() && !function.isIntrinsic())
      function.setMemoryEffects(MemoryEffects::none());
  }
  optimize(*code, *machine, use);
  result.optimizeMs = watch.lap();
  if (wantLlvmIr) {
    raw_string_ostream stream(result.llvmIr);
    code->print(stream, nullptr);
    watch.lap();
  }

  SmallVector<char, 0> buffer;
  raw_svector_ostream stream(buffer);
  legacy::PassManager codegen;
  if (machine->addPassesToEmitFile(codegen, stream, nullptr,
                                   CodeGenFileType::ObjectFile))
    return "the LLVM back end for '" + target.name +
           "' cannot write object files";
  codegen.run(*code);
  result.object.assign(buffer.begin(), buffer.end());
  result.codegenMs = watch.lap();
  return "";
}

//===----------------------------------------------------------------------===//
// Loading
//===----------------------------------------------------------------------===//

#if defined(__x86_64__) && defined(__FLT16_MANT_DIG__)
/// Conversions of 16-bit floats that LLVM leaves to the compiler's runtime
/// library where the processor has none; ours, because that of the process may
/// predate them. bfloat16 is returned as half precision is, in a vector
/// register.
static float extendHalf(_Float16 half) {
  uint16_t bits;
  std::memcpy(&bits, &half, sizeof(bits));
  uint32_t sign = uint32_t(bits & 0x8000) << 16, exponent = (bits >> 10) & 31,
           fraction = bits & 0x3ff;
  float magnitude;
  if (exponent == 31) {
    uint32_t word = 0x7f800000 | fraction << 13 | (fraction ? 0x400000 : 0);
    std::memcpy(&magnitude, &word, sizeof(word));
  } else if (exponent == 0) {
    magnitude = std::ldexp(float(fraction), -24);
  } else {
    uint32_t word = (exponent + 112) << 23 | fraction << 13;
    std::memcpy(&magnitude, &word, sizeof(word));
  }
  return sign ? -magnitude : magnitude;
}

static _Float16 truncateToHalf(float value) {
  uint32_t word;
  std::memcpy(&word, &value, sizeof(word));
  uint16_t sign = (word >> 16) & 0x8000, bits;
  float magnitude = std::fabs(value);
  if (std::isnan(value))
    bits = 0x7e00 | ((word >> 13) & 0x3ff);
  else if (magnitude >= 65520.0f)
    bits = 0x7c00;
  else if (magnitude < 0x1p-14f)
    // The addition rounds to multiples of the smallest subnormal.
    bits = uint16_t((magnitude + 0x1.8p-1f - 0x1.8p-1f) * 0x1p24f);
  else {
    uint32_t rest = (word & 0x7fffffff) - (112u << 23);
    bits = uint16_t((rest + 0xfff + ((rest >> 13) & 1)) >> 13);
  }
  bits |= sign;
  _Float16 half;
  std::memcpy(&half, &bits, sizeof(bits));
  return half;
}

static _Float16 truncateToBFloat(float value) {
  uint32_t word;
  std::memcpy(&word, &value, sizeof(word));
  uint16_t bits = std::isnan(value)
                      ? (word >> 16) | 0x40
                      : (word + 0x7fff + ((word >> 16) & 1)) >> 16;
  _Float16 result;
  std::memcpy(&result, &bits, sizeof(bits));
  return result;
}
#endif

namespace {
class OrcCode : public LoadedCode {
public:
  explicit OrcCode(std::unique_ptr<orc::LLJIT> jit) : jit(std::move(jit)) {}
  void *lookup(const std::string &name) override {
    Expected<orc::ExecutorAddr> address = jit->lookup(name);
    if (!address) {
      consumeError(address.takeError());
      return nullptr;
    }
    return address->toPtr<void *>();
  }

private:
  std::unique_ptr<orc::LLJIT> jit;
};
} // namespace

/// Functions that compiled code may call. Given by address: a library that is
/// loaded privately cannot count on finding libm's through the process.
static orc::SymbolMap getLibraryFunctions(orc::LLJIT &jit) {
  orc::SymbolMap symbols;
  auto add = [&](const char *name, auto *function) {
    symbols[jit.mangleAndIntern(name)] = orc::ExecutorSymbolDef(
        orc::ExecutorAddr::fromPtr(function), JITSymbolFlags::Exported);
  };
  add("memcpy", &memcpy);
  add("memset", &memset);
  add("memmove", &memmove);
  add("sched_yield", &sched_yield);
#define ATTN_UNARY(F)                                                          \
  add(#F, static_cast<double (*)(double)>(&::F));                              \
  add(#F "f", static_cast<float (*)(float)>(&::F##f));
#define ATTN_BINARY(F)                                                         \
  add(#F, static_cast<double (*)(double, double)>(&::F));                      \
  add(#F "f", static_cast<float (*)(float, float)>(&::F##f));
  ATTN_UNARY(exp)
  ATTN_UNARY(exp2)
  ATTN_UNARY(expm1)
  ATTN_UNARY(log)
  ATTN_UNARY(log2)
  ATTN_UNARY(log10)
  ATTN_UNARY(log1p)
  ATTN_UNARY(sqrt)
  ATTN_UNARY(cbrt)
  ATTN_UNARY(sin)
  ATTN_UNARY(cos)
  ATTN_UNARY(tan)
  ATTN_UNARY(asin)
  ATTN_UNARY(acos)
  ATTN_UNARY(atan)
  ATTN_UNARY(sinh)
  ATTN_UNARY(cosh)
  ATTN_UNARY(tanh)
  ATTN_UNARY(asinh)
  ATTN_UNARY(acosh)
  ATTN_UNARY(atanh)
  ATTN_UNARY(erf)
  ATTN_UNARY(erfc)
  ATTN_UNARY(floor)
  ATTN_UNARY(ceil)
  ATTN_UNARY(trunc)
  ATTN_UNARY(round)
  ATTN_UNARY(roundeven)
  ATTN_UNARY(rint)
  ATTN_UNARY(nearbyint)
  ATTN_BINARY(pow)
  ATTN_BINARY(fmod)
  ATTN_BINARY(atan2)
  ATTN_BINARY(fmin)
  ATTN_BINARY(fmax)
#undef ATTN_UNARY
#undef ATTN_BINARY
  add("fma", static_cast<double (*)(double, double, double)>(&::fma));
  add("fmaf", static_cast<float (*)(float, float, float)>(&::fmaf));
  add("ldexp", static_cast<double (*)(double, int)>(&::ldexp));
  add("ldexpf", static_cast<float (*)(float, int)>(&::ldexpf));
#if defined(__x86_64__) && defined(__FLT16_MANT_DIG__)
  add("__extendhfsf2", &extendHalf);
  add("__truncsfhf2", &truncateToHalf);
  add("__truncsfbf2", &truncateToBFloat);
#endif
  return symbols;
}

std::unique_ptr<LoadedCode> LoadedCode::load(const std::string &object,
                                             std::string &error) {
  initializeTargets();
  orc::LLJITBuilder builder;
  builder.setJITTargetMachineBuilder(
      orc::JITTargetMachineBuilder(Triple(sys::getProcessTriple())));
  builder.setLinkProcessSymbolsByDefault(false);
  // No initialisers, thread-locals or exception tables to look after.
  builder.setPlatformSetUp(orc::setUpInactivePlatform);
  Expected<std::unique_ptr<orc::LLJIT>> jit = builder.create();
  if (!jit) {
    error = toOneLine(jit.takeError());
    return nullptr;
  }
  // What fails is returned to who asked; ORC would also print it.
  (*jit)->getExecutionSession().setErrorReporter(
      [](Error e) { consumeError(std::move(e)); });
  orc::JITDylib &main = (*jit)->getMainJITDylib();
  Error failure = main.define(orc::absoluteSymbols(getLibraryFunctions(**jit)));
  if (!failure)
    failure =
        (*jit)->addObjectFile(MemoryBuffer::getMemBufferCopy(object, "attn"));
  if (failure) {
    error = toOneLine(std::move(failure));
    return nullptr;
  }
  return std::make_unique<OrcCode>(std::move(*jit));
}
