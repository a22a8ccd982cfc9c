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
#include "attn/Runtime/ThreadPool.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/Analysis/AliasAnalysis.h"
#include "llvm/CodeGen/MachineFunctionPass.h"
#include "llvm/CodeGen/TargetInstrInfo.h"
#include "llvm/CodeGen/TargetSubtargetInfo.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/IntrinsicsNVPTX.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Transforms/InstCombine/InstCombine.h"
#include "llvm/Transforms/Scalar/ADCE.h"
#include "llvm/Transforms/Scalar/EarlyCSE.h"
#include "llvm/Transforms/Scalar/SimplifyCFG.h"

#include <atomic>

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

/// How many pieces of assembly hold `text`.
static unsigned countTexts(const Module &module, StringRef text) {
  unsigned count = 0;
  for (const Function &function : module)
    for (const Instruction &instruction : instructions(function))
      if (auto *call = dyn_cast<CallInst>(&instruction))
        if (auto *code = dyn_cast<InlineAsm>(call->getCalledOperand()))
          count += StringRef(code->getAsmString()).contains(text);
  return count;
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
/// and ids are loaded one by one, hundreds of them. Constants behind another
/// address are part of the load.
static bool hasFewAddresses(const Module &module) {
  unsigned count = 0;
  for (const Function &function : module)
    for (const Instruction &instruction : instructions(function))
      if (auto *address = dyn_cast<GetElementPtrInst>(&instruction))
        count += !address->hasAllConstantIndices();
  return count < 64;
}

/// Whether a kernel has no products but those of scores and of values, in three
/// loops at most: of kernels with more, what LLVM sinks keeps some from
/// spilling.
static bool hasFewProducts(const Module &module) {
  return countTexts(module, "wgmma.fence") <= 6;
}

/// Exponentials of LLVM's own in the place of NVPTX's, until there are
/// instructions: the selector of instructions finds an intrinsic by comparing
/// its number with thousands, one after the other, for which hundreds of
/// exponentials took a fortieth of a compilation. That they are `afn` tells
/// them from others, which are not from here on.
static void nameExponentials(Function &function) {
  SmallVector<IntrinsicInst *> ours;
  for (Instruction &instruction : instructions(function)) {
    auto *call = dyn_cast<IntrinsicInst>(&instruction);
    if (!call || !call->getType()->isFloatTy())
      continue;
    if (call->getIntrinsicID() == Intrinsic::exp2)
      call->setHasApproxFunc(false);
    if (call->getIntrinsicID() == Intrinsic::nvvm_ex2_approx_ftz &&
        !isa<Constant>(call->getArgOperand(0)))
      ours.push_back(call);
  }
  for (IntrinsicInst *call : ours) {
    IRBuilder<> builder(call);
    FastMathFlags flags;
    flags.setApproxFunc();
    Value *result = builder.CreateUnaryIntrinsic(Intrinsic::exp2,
                                                 call->getArgOperand(0), flags);
    result->takeName(call);
    call->replaceAllUsesWith(result);
    call->eraseFromParent();
  }
}

namespace {
/// Has the instructions of these exponentials flush subnormals to zero.
class FlushExponentials : public MachineFunctionPass {
public:
  FlushExponentials() : MachineFunctionPass(id) {}

  bool runOnMachineFunction(MachineFunction &function) override {
    const TargetInstrInfo &info = *function.getSubtarget().getInstrInfo();
    for (MachineBasicBlock &block : function)
      for (MachineInstr &instruction : block)
        if (instruction.getFlag(MachineInstr::FmAfn) &&
            info.getName(instruction.getOpcode()) == "EX2_APPROX_f32")
          instruction.getOperand(2).setImm(-1);
    return true;
  }
  void getAnalysisUsage(AnalysisUsage &usage) const override {
    usage.setPreservesAll();
    MachineFunctionPass::getAnalysisUsage(usage);
  }

private:
  static char id;
};
char FlushExponentials::id = 0;

/// LLVM's code generator without passes that find nothing in our kernels. The
/// target has no switch for them, and pass configurations can only replace
/// passes of the machine, so that they are told by name. `isLean`: also without
/// its search for arithmetic on addresses that may be had cheaper from its
/// neighbours, and without the sharing of common subexpressions after it.
/// `leavesSinking`: without its sinking, for ptxas sinks by itself
/// (docs/performance/gpu-schedules.md). Not `multiplies`: also without what
/// finds as little where a kernel but loads, weighs and adds up.
class CodegenPasses : public legacy::PassManager {
public:
  CodegenPasses(bool hasTensorCopy, bool isLean, bool leavesSinking,
                bool multiplies)
      : hasTensorCopy(hasTensorCopy), isLean(isLean),
        leavesSinking(leavesSinking), multiplies(multiplies) {}

  void add(Pass *pass) override {
    StringRef name = pass->getPassName();
    bool sharesForNobody = name == "Early CSE" && isBehindDropped;
    isBehindDropped = sharesForNobody ? false : drops(name);
    if (isBehindDropped || sharesForNobody) {
      delete pass;
      return;
    }
    legacy::PassManager::add(pass);
    if (name == "Finalize ISel and expand pseudo-instructions")
      legacy::PassManager::add(new FlushExponentials());
  }

private:
  bool drops(StringRef name) const {
    if (isLean && name == "Straight line strength reduction")
      return true;
    if (leavesSinking && name == "Machine code sinking")
      return true;
    if (!multiplies &&
        (name == "Machine Common Subexpression Elimination" ||
         name == "CodeGen Prepare" || name == "Early CSE" ||
         name == "Register Coalescer" || name == "Peephole Optimizations"))
      return true;
    return hasTensorCopy && (name == "GPU Load and Store Vectorizer" ||
                             name == "Nary reassociation" ||
                             name == "Canonicalize Freeze Instructions in "
                                     "Loops" ||
                             name == "Constant Hoisting" ||
                             name == "Remove dead machine instructions" ||
                             name == "Optimize machine instruction PHIs" ||
                             name == "Machine Instruction Scheduler");
  }

  bool hasTensorCopy, isLean, leavesSinking, multiplies;
  /// Whether the last pass was left out: nothing has changed since the one
  /// before it.
  bool isBehindDropped = false;
};
} // namespace

/// Calls `visit` with a module for each function of `module`, which has
/// nothing else but copies of the globals and declarations beside it.
static void forEachAlone(mlir::Operation *module,
                         llvm::function_ref<void(mlir::Operation *)> visit) {
  mlir::Block &body = module->getRegion(0).front();
  auto isDefined = [](mlir::Operation &op) {
    auto function = dyn_cast<mlir::LLVM::LLVMFuncOp>(op);
    return function && !function.isExternal();
  };
  SmallVector<mlir::Operation *> functions;
  for (mlir::Operation &op : body)
    if (isDefined(op))
      functions.push_back(&op);
  if (functions.size() <= 1)
    return visit(module);
  mlir::OwningOpRef<mlir::Operation *> alone = module->cloneWithoutRegions();
  mlir::Block &place = alone->getRegion(0).emplaceBlock();
  for (mlir::Operation &op : body)
    if (!isDefined(op))
      place.push_back(op.clone());
  for (mlir::Operation *function : functions) {
    mlir::Block::iterator next = std::next(function->getIterator());
    function->moveBefore(&place, place.begin());
    visit(alone.get());
    function->moveBefore(&body, next);
  }
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

struct KernelCode::Kernel {
  std::unique_ptr<LLVMContext> context;
  std::unique_ptr<Module> code;
};

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
  auto take = [&](mlir::Operation *whole) {
    Kernel &kernel = result.kernels.emplace_back();
    kernel.context = std::make_unique<LLVMContext>();
    kernel.code = mlir::translateModuleToLLVMIR(whole, *kernel.context, "attn",
                                                /*disableVerification=*/isOurs);
  };
  forEachAlone(module, take);
  if (!llvm::all_of(result.kernels, [](const Kernel &k) { return !!k.code; }))
    return Failure{"expected a module in the LLVM dialect, but its translation "
                   "failed"};
  result.timings.translateMs = watch.lap();
  return result;
}

/// The PTX of one kernel.
static attn::support::Result<std::string>
emitKernel(Module &code, const attn::TargetInfo &target,
           attn::PtxTimings &timings) {
  using attn::support::Failure;
  attn::Stopwatch watch;
  std::string error;
  std::unique_ptr<TargetMachine> machine = createMachine(target, error);
  if (!machine)
    return Failure{error};
  code.setDataLayout(machine->createDataLayout());
  code.setTargetTriple(machine->getTargetTriple());
  // MLIR cannot say so: all threads of a warp run each piece of assembly
  // together, so it must not move into a branch or be duplicated.
  for (Function &function : code)
    for (Instruction &instruction : instructions(function))
      if (auto *call = dyn_cast<CallInst>(&instruction))
        if (call->isInlineAsm())
          call->setConvergent();
  optimize(code, *machine);
  error = findIllegal(code);
  if (!error.empty())
    return Failure{error};
  for (Function &function : code)
    nameExponentials(function);
  timings.optimizeMs = watch.lap();

  SmallVector<char, 0> buffer;
  raw_svector_ostream stream(buffer);
  // The portable path has more addresses in any case, and some of its kernels
  // spill more without.
  bool isLean = target.hasTensorCopy && hasFewAddresses(code);
  CodegenPasses codegen(target.hasTensorCopy, isLean,
                        isLean && hasFewProducts(code),
                        countTexts(code, "mma") > 0);
  if (machine->addPassesToEmitFile(codegen, stream, nullptr,
                                   CodeGenFileType::AssemblyFile))
    return Failure{"the LLVM back end for '" + target.name +
                   "' cannot write PTX"};
  codegen.run(code);
  timings.codegenMs = watch.lap();
  return std::string(buffer.begin(), buffer.end());
}

/// Appends the PTX of one more kernel: its version and target are those of the
/// first, and what kernels share is declared once.
static void appendPtx(std::string &all, StringRef ptx) {
  if (all.empty()) {
    all = ptx.str();
    return;
  }
  StringRef rest = ptx.split(".address_size 64\n").second;
  while (!rest.empty()) {
    StringRef line = rest.take_until([](char c) { return c == '\n'; });
    if (line.contains(".entry ") || line.contains(".func "))
      break;
    if (!StringRef(all).contains(line))
      all += line.str() + "\n";
    rest = rest.drop_front(line.size() + 1);
  }
  all += rest;
}

attn::support::Result<std::string> KernelCode::emitPtx() {
  struct Emitted {
    attn::support::Result<std::string> ptx = std::string();
    PtxTimings timings;
  };
  std::vector<Emitted> emitted(kernels.size());
  std::atomic<size_t> next = 0;
  auto work = [&] {
    for (size_t i; (i = next++) < kernels.size();) {
      emitted[i].ptx = emitKernel(*kernels[i].code, target, emitted[i].timings);
      // Letting go takes a while as well.
      kernels[i].code = nullptr;
      kernels[i].context = nullptr;
    }
  };
  size_t numThreads = std::min<size_t>(kernels.size(), getNumThreads());
  std::vector<Background> others(numThreads - 1);
  for (Background &other : others)
    other.start(work);
  work();
  for (Background &other : others)
    other.finish();

  std::string all;
  for (Emitted &one : emitted) {
    if (!one.ptx)
      return one.ptx.takeFailure();
    appendPtx(all, *one.ptx);
    timings.optimizeMs += one.timings.optimizeMs;
    timings.codegenMs += one.timings.codegenMs;
  }
  return all;
}
