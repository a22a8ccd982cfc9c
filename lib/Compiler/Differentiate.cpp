//===- Differentiate.cpp - Text of the functions for training -------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Gradients are programs like any other: a text that is compiled, looked into
// and changed as one's own.
//===----------------------------------------------------------------------===//

#include "attn/Compiler/Differentiate.h"
#include "Diagnostics.h"
#include "attn/Dialect/Attn/IR/Attn.h"
#include "attn/Dialect/Attn/Transforms/Passes.h"
#include "attn/InitAll.h"
#include "attn/Support/Nesting.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/AsmParser/AsmParserState.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/SourceMgr.h"
#include <limits>

using namespace mlir;
using ::attn::support::Failure;
using ::attn::support::Result;

/// The names that a text gives to arguments, as their locations: so they are
/// printed, and those of the functions that are made of this one.
static SmallVector<std::string> nameArguments(func::FuncOp function,
                                              const AsmParserState &state) {
  SmallVector<std::string> names;
  const auto *block = state.getBlockDef(&function.getBody().front());
  for (BlockArgument argument : function.getArguments()) {
    std::string name = "arg" + std::to_string(argument.getArgNumber());
    if (block && argument.getArgNumber() < block->arguments.size()) {
      SMRange range = block->arguments[argument.getArgNumber()].loc;
      if (range.isValid()) {
        StringRef text(range.Start.getPointer(),
                       range.End.getPointer() - range.Start.getPointer());
        text.consume_front("%");
        if (!text.empty() && !llvm::isDigit(text.front()))
          name = text.str();
      }
    }
    argument.setLoc(NameLoc::get(StringAttr::get(function.getContext(), name),
                                 argument.getLoc()));
    names.push_back(name);
  }
  return names;
}

/// The numbers of arguments by their names; what is not found is an error.
static Result<SmallVector<int64_t>> findInputs(ArrayRef<std::string> names,
                                               StringRef list) {
  SmallVector<int64_t> numbers;
  SmallVector<StringRef> parts;
  list.split(parts, ',', /*MaxSplit=*/-1, /*KeepEmpty=*/false);
  for (StringRef part : parts) {
    part = part.trim();
    const auto *found = llvm::find(names, part);
    if (found == names.end())
      return Failure{"expected inputs to be names out of " +
                     llvm::join(names, ", ") + ", but got '" + part.str() +
                     "'"};
    numbers.push_back(found - names.begin());
  }
  return numbers;
}

namespace attn {
static Result<std::string> run(const std::string &text,
                               const std::string &inputs,
                               const std::string &sourceName, OwnLines own) {
  if (std::string error = support::checkNesting(text); !error.empty())
    return Failure{error};
  DialectRegistry registry;
  registerAllDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.printOpOnDiagnostic(false);
  std::string error;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    if (error.empty() && diagnostic.getSeverity() == DiagnosticSeverity::Error)
      error = printLocation(diagnostic.getLocation(), own) +
              firstLine(diagnostic.str());
    return success();
  });
  llvm::SourceMgr manager;
  manager.AddNewSourceBuffer(
      llvm::MemoryBuffer::getMemBufferCopy(text, sourceName), SMLoc());
  Block block;
  AsmParserState state;
  ParserConfig config(&context);
  if (failed(parseAsmSourceFile(manager, &block, config, &state)))
    return Failure{error.empty() ? "expected MLIR text" : error};
  OwningOpRef<ModuleOp> module;
  if (llvm::hasSingleElement(block) && isa<ModuleOp>(block.front())) {
    module = cast<ModuleOp>(block.front());
    module.get()->remove();
  } else {
    module = ModuleOp::create(UnknownLoc::get(&context));
    module->getBody()->getOperations().splice(module->getBody()->begin(),
                                              block.getOperations());
  }
  AttnDifferentiatePassOptions options;
  options.replace = true;
  SmallVector<int64_t> numbers;
  unsigned numFunctions = 0;
  for (auto function : module->getOps<func::FuncOp>()) {
    if (!function.isPublic() || function.isExternal())
      continue;
    ++numFunctions;
    bool hasAttention = false;
    function.walk([&](Operation *op) {
      hasAttention |=
          isa_and_nonnull<mlir::attn::AttnDialect>(op->getDialect());
    });
    if (!hasAttention)
      return Failure{"expected a function with an operation of attn to "
                     "differentiate, but '" +
                     function.getName().str() + "' has none"};
    auto found = findInputs(nameArguments(function, state), inputs);
    if (!found)
      return found.takeFailure();
    numbers = *found;
  }
  if (numFunctions != 1)
    return Failure{"expected one public function to differentiate, but got " +
                   std::to_string(numFunctions)};
  options.inputs = numbers;
  // Sizes are classed for a forward pass.
  module.get()->removeAttr(mlir::attn::getDispatchAttrName());

  PassManager passes(&context, ModuleOp::getOperationName());
  passes.addPass(createAttnImportPreludePass());
  passes.addPass(createAttnToAggregatePass());
  passes.addPass(createAttnFoldBasesPass());
  passes.addPass(createCanonicalizerPass());
  passes.addPass(createAttnDifferentiatePass(options));
  passes.addPass(createCanonicalizerPass());
  if (failed(passes.run(*module)))
    return Failure{error.empty() ? "the program cannot be differentiated"
                                 : error};
  std::string result;
  llvm::raw_string_ostream stream(result);
  OpPrintingFlags flags;
  flags.printNameLocAsPrefix();
  module->print(stream, flags);
  result += "\n";
  return result;
}

Result<std::string> differentiate(const std::string &text,
                                  const std::string &inputs,
                                  const std::string &sourceName) {
  return run(text, inputs, sourceName, {});
}

Result<std::string> differentiate(const AttentionDescriptor &descriptor,
                                  const std::string &inputs) {
  // Gradients of values that are columns of the keys are gradients of both.
  AttentionDescriptor own = descriptor;
  own.valueInKey = false;
  auto module = makeAttentionModule(own, "<monoid>");
  if (!module)
    return module.takeFailure();
  // Of a description, the monoid is all that has lines of its author.
  OwnLines lines{module->linesBeforeMonoid, module->monoidLines};
  if (!lines.count)
    lines = {std::numeric_limits<int>::max(), 1};
  return run(module->text, inputs, "<monoid>", lines);
}
} // namespace attn
