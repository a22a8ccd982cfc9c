//===- Compiler.cpp - IR text to a kernel that runs -----------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Compiler/Compiler.h"
#include "CacheFolder.h"
#include "Codegen.h"
#include "Diagnostics.h"
#include "DiskCache.h"
#include "Interface.h"
#include "Ptxas.h"
#include "Tuning.h"
#include "attn/Compiler/Jit.h"
#include "attn/Compiler/Ptx.h"
#include "attn/Conversion/Passes.h"
#include "attn/Dialect/Attn/IR/Attn.h"
#include "attn/Dialect/Attn/IR/AttributeNames.h"
#include "attn/Dialect/Tile/IR/Tile.h"
#include "attn/Dialect/Tile/Transforms/Passes.h"
#include "attn/Dialect/TileGPU/IR/TileGPU.h"
#include "attn/Emulator/Emulator.h"
#include "attn/InitAll.h"
#include "attn/Pipelines/Pipelines.h"
#include "attn/Support/Nesting.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/AsmParser/AsmParserState.h"
#include "mlir/Bytecode/BytecodeReader.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SourceMgr.h"

#include <chrono>

using namespace mlir;
using namespace ::attn;
using ::attn::support::Failure;
using ::attn::support::Result;

CompiledKernel::CompiledKernel() = default;
CompiledKernel::~CompiledKernel() = default;

const EntryInfo *CompiledKernel::find(std::string_view name) const {
  for (const EntryInfo &entry : entries)
    if (entry.name == name)
      return &entry;
  return nullptr;
}

//===----------------------------------------------------------------------===//
// Diagnostics
//===----------------------------------------------------------------------===//

namespace {
/// Collects what a compilation says: the first error with its notes, and
/// remarks for the explanation.
class Messages {
public:
  Messages(MLIRContext *context, OwnLines own) : own(own) {
    handler.emplace(context, [this](Diagnostic &diagnostic) {
      take(diagnostic);
      return success();
    });
  }

  /// Lets go of the context; what was said stays.
  void detach() { handler.reset(); }

  /// The error, or `otherwise` where nobody gave a reason.
  Failure failure(StringRef otherwise) const {
    return Failure{error.empty() ? otherwise.str() : error};
  }
  void clear() { error.clear(); }

  std::string explanation;

private:
  void take(Diagnostic &diagnostic) {
    switch (diagnostic.getSeverity()) {
    case DiagnosticSeverity::Remark:
      explanation += diagnostic.str() + "\n";
      for (Diagnostic &note : diagnostic.getNotes())
        explanation += "  " + note.str() + "\n";
      return;
    case DiagnosticSeverity::Error:
      break;
    default:
      return;
    }
    if (!error.empty())
      return;
    error = printLocation(diagnostic.getLocation(), own) +
            firstLine(diagnostic.str());
    for (Diagnostic &note : diagnostic.getNotes()) {
      // The generic form of the operation, which MLIR appends, helps nobody.
      std::string text = note.str();
      if (StringRef(text).starts_with("see current operation"))
        continue;
      error += "\n" + printLocation(note.getLocation(), own) +
               "note: " + firstLine(text);
    }
  }

  OwnLines own;
  std::string error;
  std::optional<ScopedDiagnosticHandler> handler;
};
} // namespace

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

/// The phase that made this IR, as its operations tell. Attention ops mean the
/// input: every pass over them leaves alone what is done already, and none of
/// their checks is skipped.
static Phase detectPhase(ModuleOp module, bool isCpu) {
  bool hasTiles = false, hasFunctions = false;
  for (Operation &op : *module.getBody()) {
    if (isa<mlir::attn::MonoidOp>(op))
      return Phase::Input;
    auto function = dyn_cast<FunctionOpInterface>(op);
    if (!function)
      continue;
    if (isa<tile_gpu::KernelOp>(op)) {
      hasFunctions = true;
      continue;
    }
    bool isKernel = isa<tile::KernelOp>(op);
    if (!isKernel && !op.hasAttr(tile::TileDialect::planName)) {
      if (function.isPublic() && isa<func::FuncOp>(op))
        return Phase::Input;
      continue;
    }
    hasFunctions = true;
    hasTiles |= !isCpu && isKernel;
    op.walk([&](Operation *inner) {
      hasTiles |= isa<tile::TileDialect>(inner->getDialect()) &&
                  !isa<tile::KernelOp, tile::LaunchOp, tile::ReturnOp,
                       tile::WorkspaceOp>(inner);
      return hasTiles ? WalkResult::interrupt() : WalkResult::advance();
    });
  }
  if (hasTiles)
    return Phase::Tile;
  if (hasFunctions)
    return isCpu ? Phase::Vector : Phase::Gpu;
  return isCpu ? Phase::LLVM : Phase::Nvvm;
}

static bool hasAttention(ModuleOp module) {
  return module
      .walk([](mlir::attn::AttentionOp) { return WalkResult::interrupt(); })
      .wasInterrupted();
}

/// Makes the object of a kernel, and its code for a GPU, ready to be run.
static std::string link(CompiledKernel &kernel) {
  std::string error;
  kernel.loaded = LoadedCode::load(kernel.object, error);
  if (!kernel.loaded)
    return error;
  for (const EntryInfo &entry : kernel.entries) {
    auto code = reinterpret_cast<AttnEntry>(
        kernel.loaded->lookup("attn_entry_" + entry.name));
    if (!code)
      return "expected the compiled module to define 'attn_entry_" +
             entry.name + "', but it does not";
    kernel.code.push_back(code);
  }
  if (kernel.device)
    kernel.program = std::make_unique<cuda::Program>(kernel.device);
  return "";
}

namespace attn {
Result<std::string> resolveTarget(const std::string &name) {
  if (name != "cuda")
    return name;
  auto ordinal = cuda::currentDevice();
  if (!ordinal)
    return ordinal.takeFailure();
  auto device = cuda::getDevice(*ordinal);
  if (!device)
    return device.takeFailure();
  std::string target = device->target();
  if (target.empty())
    return Failure{"expected a GPU of compute capability 8.0 or later, but got "
                   "'" +
                   device->name + "' with " + std::to_string(device->major) +
                   "." + std::to_string(device->minor)};
  return target;
}
} // namespace attn

namespace {
/// One compilation.
class Compilation {
public:
  Compilation(const CompileOptions &options, const std::string &tunedTable)
      : options(options), tunedTable(tunedTable),
        context(std::make_unique<MLIRContext>(
            getRegistry(), MLIRContext::Threading::DISABLED)),
        messages(context.get(), {options.skippedLines, options.ownLines}),
        kernel(std::make_shared<CompiledKernel>()) {
    context->printOpOnDiagnostic(false);
  }

  Result<std::shared_ptr<const CompiledKernel>> run(std::string_view source) {
    std::string error = compile(source);
    kernel->explanation = messages.explanation;
    if (!error.empty())
      return Failure{error};
    return std::shared_ptr<const CompiledKernel>(kernel);
  }

private:
  static const DialectRegistry &getRegistry() {
    static const DialectRegistry registry = [] {
      DialectRegistry all;
      registerAllDialects(all);
      return all;
    }();
    return registry;
  }

  /// Returns the error, empty on success.
  std::string compile(std::string_view source) {
    if (std::string error = parse(source); !error.empty())
      return error;
    if (std::string error = chooseTarget(); !error.empty())
      return error;
    Phase last = options.untilAfter.value_or(target.isCpu() ? Phase::LLVM
                                             : emulates     ? Phase::Gpu
                                                            : Phase::Nvvm);
    Phase found = detectPhase(*module, target.isCpu());
    Phase first = options.startFrom.value_or(found);
    for (Phase phase : {first, last})
      if (!isPhaseOf(phase, target.isCpu()))
        return "expected a phase of '" + target.name + "' (" +
               phaseNames(target.isCpu()) + "), but got '" + nameOf(phase) +
               "'";
    if (last < first)
      return std::string("expected to stop after '") + nameOf(first) +
             "' or later, which the input has reached, but got '" +
             nameOf(last) + "'";
    // Between the input and the tiles, operations tell no phase but the first.
    if (first > found && (first >= Phase::Tile || hasAttention(*module)))
      return std::string("expected a program that has reached the phase '") +
             nameOf(first) + "', but got one that has reached '" +
             nameOf(found) + "'; its phase is found out where none is given";
    if (first > Phase::Tile && !module->getOps<func::FuncOp>().empty() &&
        first != Phase::Vector && first != Phase::Gpu)
      return "expected a public function with an operation of attn, but got "
             "none";
    if (failed(readInterfaces(*module, kernel->entries)))
      return messages.failure("unsupported argument type").message;
    lap("parse");

    // Only what our own phases have made needs no look from LLVM.
    bool isOurs = first < last && module->getOps<gpu::GPUModuleOp>().empty();
    for (Phase phase : allPhases) {
      if (phase < first || phase > last || !isPhaseOf(phase, target.isCpu()))
        continue;
      if (phase > first)
        if (std::string error = runPhase(phase); !error.empty())
          return error;
      if (std::string error = record(phase, phase == last); !error.empty())
        return error;
    }
    if (options.untilAfter)
      return "";
    if (!target.isCpu()) {
      std::string error = emulates ? emulateKernels() : takeKernels(isOurs);
      if (!error.empty())
        return error;
    }
    if (std::string error = generateCode(); !error.empty())
      return error;
    if (!target.isCpu() && !emulates)
      if (std::string error = assembleKernels(); !error.empty())
        return error;
    return load();
  }

  std::string parse(std::string_view source) {
    llvm::SourceMgr manager;
    llvm::MemoryBufferRef text(StringRef(source.data(), source.size()),
                               options.sourceName);
    // The parser wants a terminating zero.
    manager.AddNewSourceBuffer(llvm::MemoryBuffer::getMemBufferCopy(
                                   text.getBuffer(), options.sourceName),
                               SMLoc());
    ParserConfig config(context.get());
    Block block;
    AsmParserState state;
    bool isText = !isBytecode(text);
    if (std::string error = support::checkNesting(source); !error.empty())
      return error;
    LogicalResult parsed =
        isText ? parseAsmSourceFile(manager, &block, config, &state)
               : parseSourceFile(manager, &block, config);
    if (failed(parsed))
      return messages.failure("expected MLIR text or bytecode").message;
    // The file may spell out its module or leave it out.
    if (llvm::hasSingleElement(block) && isa<ModuleOp>(block.front())) {
      module = cast<ModuleOp>(block.front());
      module.get()->remove();
    } else {
      module = ModuleOp::create(UnknownLoc::get(context.get()));
      module->getBody()->getOperations().splice(module->getBody()->begin(),
                                                block.getOperations());
    }
    if (failed(verify(*module)))
      return messages.failure("expected a valid module").message;
    annotateInterfaces(*module, isText ? &state : nullptr);
    return "";
  }

  std::string chooseTarget() {
    std::string name = options.target;
    auto given =
        module.get()->getAttrOfType<StringAttr>(mlir::attn::getTargetName());
    if (name.empty() && given)
      name = given.str();
    if (name.empty())
      name = "host";
    StringRef rest = name;
    if (rest.consume_front("emulator") &&
        (rest.empty() || rest.front() == ':')) {
      emulates = true;
      name = !rest.empty()                         ? rest.drop_front().str()
             : given && given.getValue() != "host" ? given.str()
                                                   : "sm_90a";
    }
    auto resolved = resolveTarget(name);
    if (!resolved)
      return resolved.error();
    name = *resolved;
    std::optional<TargetInfo> found = TargetInfo::get(name);
    if (!found) {
      std::string known = "cuda";
      for (const std::string &other : TargetInfo::names())
        known += ", " + other;
      return "expected a target out of " + known + ", but got '" + name + "'";
    }
    target = *found;
    kernel->target = (emulates ? "emulator:" : "") + target.name;
    if (emulates && target.isCpu())
      return "expected the emulator of a GPU, but got '" + name + "'";
    if (name != "host")
      module.get()->setAttr(mlir::attn::getTargetName(),
                            StringAttr::get(context.get(), name));
    return "";
  }

  std::string runPhase(Phase phase) {
    PassManager manager(context.get(), ModuleOp::getOperationName());
    // Once after the phase is enough; each pass has tests of its own.
    manager.enableVerifier(false);
    if (phase == Phase::Vector && options.countTraffic) {
      kernel->traffic = std::make_unique<CompiledKernel::Traffic>();
      TileCountTrafficPassOptions counters;
      counters.address = reinterpret_cast<uintptr_t>(kernel->traffic.get());
      manager.addPass(createTileCountTrafficPass(counters));
    }
    populatePhasePipeline(phase, manager, target, /*explain=*/true, tunedTable);
    if (failed(manager.run(*module)))
      return messages
          .failure(std::string("the phase '") + nameOf(phase) +
                   "' failed without a reason")
          .message;
    messages.clear();
    if (phase == Phase::Tile)
      for (auto function : module.get().getOps<func::FuncOp>())
        if (function.isPublic() &&
            !function->hasAttr(tile::TileDialect::planName))
          return printLocation(function.getLoc()) +
                 "expected a function with an operation of attn, but '" +
                 function.getName().str() + "' has none; make it private";
    if (phase != Phase::LLVM && phase != Phase::Nvvm && failed(verify(*module)))
      return messages
          .failure(std::string("the phase '") + nameOf(phase) +
                   "' made invalid IR")
          .message;
    if (phase >= Phase::Tile)
      restoreInterfaces(*module, kernel->entries);
    lap(nameOf(phase));
    return "";
  }

  /// Keeps and dumps the text of a phase, where somebody wants it.
  std::string record(Phase phase, bool isLast) {
    bool isWanted = options.keepIr || !options.dumpPhasesTo.empty() ||
                    (isLast && options.untilAfter);
    if (!isWanted)
      return "";
    std::string text;
    llvm::raw_string_ostream stream(text);
    module->print(stream);
    text += "\n";
    // A GPU's phases have the numbers of those that they replace.
    int number = int(phase) - (phase > Phase::LLVM ? 2 : 0);
    std::string error = dump(std::string(nameOf(phase)), "mlir", number, text);
    if (isLast && options.untilAfter)
      kernel->ir = text;
    if (options.keepIr)
      kernel->phases.push_back({nameOf(phase), std::move(text)});
    last = std::chrono::steady_clock::now();
    return error;
  }

  std::string dump(const std::string &name, const char *extension, int number,
                   StringRef text) {
    if (options.dumpPhasesTo.empty())
      return "";
    if (std::error_code code =
            llvm::sys::fs::create_directories(options.dumpPhasesTo))
      return "cannot create directory '" + options.dumpPhasesTo +
             "': " + code.message();
    llvm::SmallString<128> path(options.dumpPhasesTo);
    llvm::sys::path::append(path, "0" + std::to_string(number) + "-" + name +
                                      "." + extension);
    std::error_code code;
    llvm::raw_fd_ostream file(path, code);
    if (!code) {
      file << text;
      file.close();
      code = file.error();
      file.clear_error();
    }
    return code ? ("cannot write '" + path + "': " + code.message()).str() : "";
  }

  /// Takes the kernels out of the module; the plan stays. `isOurs`: a phase has
  /// made them, not the user.
  std::string takeKernels(bool isOurs) {
    auto device = std::make_shared<cuda::DeviceCode>();
    device->target = target.name;
    for (auto gpuModule :
         llvm::make_early_inc_range(module->getOps<gpu::GPUModuleOp>())) {
      for (auto function : gpuModule.getOps<LLVM::LLVMFuncOp>()) {
        if (!function->hasAttr("nvvm.kernel"))
          continue;
        cuda::KernelInfo info;
        info.name = function.getName().str();
        if (auto launch = function->getAttrOfType<tile_gpu::LaunchAttr>(
                tile_gpu::TileGPUDialect::launchName)) {
          info.threads = launch.getThreads();
          info.sharedBytes = launch.getSharedBytes();
          info.persistent = launch.getPersistent();
        }
        device->kernels.push_back(std::move(info));
      }
      if (kernelCode)
        return "expected one gpu.module, but got more";
      auto code = KernelCode::translate(gpuModule, target, isOurs);
      if (!code)
        return messages.failure(code.error()).message;
      kernelCode.emplace(std::move(*code));
      gpuModule->remove();
      kernels = gpuModule;
    }
    if (!kernelCode)
      return "expected kernels for '" + target.name + "', but got none";
    deviceCode = device;
    kernel->device = std::move(device);
    return "";
  }

  /// Decodes the kernels for the emulator; the plan stays, and launches them.
  std::string emulateKernels() {
    auto program = emulator::decode(*module);
    if (!program)
      return messages.failure(program.error()).message;
    kernel->emulated = *program;
    for (auto function : module->getOps<tile_gpu::KernelOp>()) {
      function.eraseBody();
      function.setPrivate();
      // The plan's lowering asks for it; nobody reads it here.
      function.setLaunchAttr(tile_gpu::LaunchAttr::get(
          context.get(), /*threads=*/0, /*sharedBytes=*/0,
          /*persistent=*/false));
    }
    PassManager manager(context.get(), ModuleOp::getOperationName());
    ConvertPlanToLLVMOptions planOptions;
    planOptions.expandBF16 = !TargetInfo::host().hasBf16Dot;
    manager.addPass(createConvertPlanToLLVM(planOptions));
    if (failed(manager.run(*module)))
      return messages.failure("the plan cannot be lowered").message;
    lap("emulate");
    return "";
  }

  std::string generatePtx() {
    auto ptx = kernelCode->emitPtx();
    if (!ptx)
      return ptx.error();
    const PtxTimings &timings = kernelCode->timings;
    kernel->times.push_back({"ptx-translate", timings.translateMs});
    kernel->times.push_back({"ptx-optimize", timings.optimizeMs});
    kernel->times.push_back({"ptx-codegen", timings.codegenMs});
    deviceCode->ptx = std::move(*ptx);
    if (options.keepIr)
      kernel->phases.push_back({"ptx", deviceCode->ptx});
    return dump("ptx", "ptx", 6, deviceCode->ptx);
  }

  /// Assembles PTX where there is an assembler.
  std::string assembleKernels() {
    std::string ptxas = findPtxas();
    if (ptxas.empty())
      return "";
    last = std::chrono::steady_clock::now();
    PtxasResult assembled;
    std::string error =
        assemble(ptxas, deviceCode->ptx, target.name, assembled);
    if (!error.empty())
      return error;
    if (!assembled.unavailable.empty()) {
      std::string text = assembled.unavailable +
                         "; the driver compiles the code when it loads it";
      warnOnce(Warning::Assembler, text);
      messages.explanation += "ptxas: " + text + "\n";
      return "";
    }
    deviceCode->cubin = std::move(assembled.cubin);
    messages.explanation += describeAssembly(assembled.log);
    lap("ptxas");
    return "";
  }

  /// The assembler's word on registers and spills.
  static std::string describeAssembly(const std::string &log) {
    std::string text;
    for (StringRef line : llvm::split(log, '\n')) {
      line = line.trim();
      line.consume_front("ptxas info");
      line = line.ltrim(" :");
      if (line.contains("registers") || line.contains("spill"))
        text += "ptxas: " + line.str() + "\n";
    }
    return text;
  }

  std::string generateCode() {
    bool wantsText = options.keepIr || !options.dumpPhasesTo.empty();
    // The plan of a GPU runs on the host.
    const TargetInfo &codeTarget = target.isCpu() ? target : TargetInfo::host();
    std::string error = hostCode.translate(*module, codeTarget);
    if (!error.empty())
      return messages.failure(error).message;
    if (target.isCpu() || emulates) {
      error = hostCode.emitObject(
          emulates ? HostCode::Use::plan : HostCode::Use::kernels, wantsText);
    } else {
      // Kernels take longer than their plan. IR is of no more use to either,
      // and letting it go takes a while as well.
      messages.detach();
      std::string planError;
      Background background;
      background.start([&] {
        planError = hostCode.emitObject(HostCode::Use::plan, wantsText);
        kernels = nullptr;
        module = nullptr;
        context.reset();
      });
      error = generatePtx();
      background.finish();
      if (error.empty())
        error = planError;
    }
    if (!error.empty())
      return error;
    EmitResult &emitted = hostCode.result;
    kernel->times.push_back({"llvm-translate", emitted.translateMs});
    kernel->times.push_back({"llvm-optimize", emitted.optimizeMs});
    kernel->times.push_back({"codegen", emitted.codegenMs});
    int number = target.isCpu() ? 6 : 7;
    for (std::string failed : {dump("llvm-ir", "ll", number, emitted.llvmIr),
                               dump("object", "o", number + 1, emitted.object)})
      if (!failed.empty())
        return failed;
    if (options.keepIr)
      kernel->phases.push_back({"llvm-ir", std::move(emitted.llvmIr)});
    kernel->object = std::move(emitted.object);

    if (kernel->entries.empty())
      return "expected a public function with an operation of attn, but got "
             "none";
    return "";
  }

  /// Makes the kernel ready to be run, unless only its code is wanted.
  std::string load() {
    if (options.objectOnly) {
      kernel->code.resize(kernel->entries.size());
      return "";
    }
    if (target.isCpu() && target.name != TargetInfo::host().name &&
        !isSubsetOfHost())
      return "expected a target that this machine runs, but got '" +
             target.name + "'; this machine is '" + TargetInfo::host().name +
             "'";
    last = std::chrono::steady_clock::now();
    std::string error = link(*kernel);
    lap("load");
    return error;
  }

  /// The CPU targets are ordered: each runs the code of those before it.
  bool isSubsetOfHost() {
    for (const std::string &name : TargetInfo::names()) {
      if (name == target.name)
        return true;
      if (name == TargetInfo::host().name)
        return false;
    }
    return false;
  }

  void lap(const char *name) {
    auto now = std::chrono::steady_clock::now();
    kernel->times.push_back(
        {name, std::chrono::duration<double, std::milli>(now - last).count()});
    last = now;
  }

  const CompileOptions &options;
  /// The text of the schedules that were tuned on this machine.
  const std::string &tunedTable;
  std::chrono::steady_clock::time_point last = std::chrono::steady_clock::now();
  std::unique_ptr<MLIRContext> context;
  Messages messages;
  OwningOpRef<ModuleOp> module;
  /// Of a GPU, taken out of the module.
  OwningOpRef<gpu::GPUModuleOp> kernels;
  TargetInfo target;
  /// Whether the emulator runs the kernels.
  bool emulates = false;
  /// What becomes the kernel's, while it is made.
  std::shared_ptr<cuda::DeviceCode> deviceCode;
  std::shared_ptr<CompiledKernel> kernel;
  std::optional<KernelCode> kernelCode;
  HostCode hostCode;
};
} // namespace

//===----------------------------------------------------------------------===//
// The cache
//===----------------------------------------------------------------------===//

/// Whether a compilation may be for a GPU: without the name of a target, the
/// source may hold one.
static bool isMaybeForGpu(std::string_view source,
                          const CompileOptions &options) {
  std::optional<TargetInfo> target = TargetInfo::get(options.target);
  return target ? !target->isCpu()
                : options.target.empty() &&
                      source.find("sm_") != std::string_view::npos;
}

/// All that a result for a GPU depends on, or nothing where it is not kept.
static std::optional<std::string> makeCacheKey(std::string_view source,
                                               const CompileOptions &options,
                                               const std::string &tunedTable) {
  if (!options.useDiskCache || !isMaybeForGpu(source, options) ||
      options.untilAfter || options.objectOnly || !options.dumpPhasesTo.empty())
    return std::nullopt;
  std::string key = options.target + "|";
  key += options.startFrom ? nameOf(*options.startFrom) : "";
  key += options.keepIr ? "|k|" : "|-|";
  key += TargetInfo::host().name + "|";
  std::string ptxas = findPtxas();
  llvm::sys::fs::file_status status;
  if (!ptxas.empty() && !llvm::sys::fs::status(ptxas, status))
    key += ptxas + "." + std::to_string(status.getSize()) + "." +
           std::to_string(
               status.getLastModificationTime().time_since_epoch().count());
  return key + "|" + tunedTable + "|" + std::string(source);
}

namespace attn {
Result<std::shared_ptr<const CompiledKernel>>
compile(std::string_view source, const CompileOptions &given) {
  CompileOptions options = given;
  auto target = resolveTarget(given.target);
  if (!target)
    return target.takeFailure();
  options.target = *target;
  auto start = std::chrono::steady_clock::now();
  std::string tunedTable;
  if (isMaybeForGpu(source, options))
    tunedTable = readTunedTable();
  std::optional<std::string> key = makeCacheKey(source, options, tunedTable);
  if (!key)
    return Compilation(options, tunedTable).run(source);
  DiskCache cache(*key);
  auto kernel = std::make_shared<CompiledKernel>();
  if (cache.load(*kernel)) {
    std::string error = link(*kernel);
    if (!error.empty())
      return Failure{error};
    std::chrono::duration<double, std::milli> time =
        std::chrono::steady_clock::now() - start;
    kernel->times.push_back({"disk-cache", time.count()});
    return std::shared_ptr<const CompiledKernel>(kernel);
  }
  auto compiled = Compilation(options, tunedTable).run(source);
  // What lacks the assembler's code for want of room is better made again.
  if (compiled &&
      (findPtxas().empty() ||
       ((*compiled)->device && !(*compiled)->device->cubin.empty())))
    cache.store(**compiled);
  return compiled;
}
} // namespace attn
