//===- Evaluate.cpp - What a program means, evaluated ---------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Interpreter/Evaluate.h"
#include "attn/Dialect/Attn/Transforms/Passes.h"
#include "attn/InitAll.h"
#include "attn/Interpreter/Reference.h"
#include "attn/Support/Nesting.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;
using ::attn::ReferenceOptions;
using ::attn::ReferenceValue;
using ::attn::support::Failure;
using ::attn::support::Result;

namespace attn {
Result<std::vector<ReferenceValue>>
evaluateText(std::string_view source, const std::string &entry,
             const std::vector<ReferenceValue> &inputs,
             const ReferenceOptions &options) {
  DialectRegistry registry;
  registerAllDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  std::string error;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    if (error.empty() && diagnostic.getSeverity() == DiagnosticSeverity::Error)
      error = diagnostic.str();
    return success();
  });
  auto fail = [&](StringRef otherwise) {
    StringRef line = error;
    return Failure{(line.empty() ? otherwise : line.split('\n').first).str()};
  };

  if (std::string deep = ::attn::support::checkNesting(source); !deep.empty())
    return Failure{deep};
  auto module = parseSourceString<ModuleOp>(
      StringRef(source.data(), source.size()), ParserConfig(&context));
  if (!module)
    return fail("expected MLIR text or bytecode");
  PassManager passes(&context);
  passes.addPass(createAttnImportPreludePass());
  if (failed(passes.run(*module)))
    return fail("the prelude could not be imported");

  func::FuncOp function;
  for (auto candidate : module->getOps<func::FuncOp>())
    if (!candidate.isExternal() &&
        (entry.empty() || candidate.getName() == entry)) {
      function = candidate;
      break;
    }
  if (!function)
    return Failure{"expected a function" +
                   (entry.empty() ? std::string() : " '" + entry + "'") +
                   " to evaluate, but the module has none"};
  auto results = evaluateReference(function, inputs, options);
  if (failed(results))
    return fail("the function could not be evaluated");
  return std::move(*results);
}
} // namespace attn
