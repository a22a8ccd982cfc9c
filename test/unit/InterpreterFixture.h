//===- InterpreterFixture.h - Modules to interpret --------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TEST_UNIT_INTERPRETERFIXTURE_H
#define ATTN_TEST_UNIT_INTERPRETERFIXTURE_H

#include "attn/Dialect/Attn/Transforms/Passes.h"
#include "attn/InitAll.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "gtest/gtest.h"

namespace attn {

class Interpreter : public ::testing::Test {
protected:
  Interpreter() {
    mlir::DialectRegistry registry;
    registerAllDialects(registry);
    context.appendDialectRegistry(registry);
    context.disableMultithreading();
  }
  mlir::OwningOpRef<mlir::ModuleOp> parse(const std::string &text) {
    auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    EXPECT_TRUE(module) << text;
    return module;
  }
  mlir::OwningOpRef<mlir::ModuleOp> parseWithPrelude(const std::string &text) {
    auto module = parse(text);
    mlir::PassManager passes(&context);
    passes.addPass(createAttnImportPreludePass());
    EXPECT_TRUE(module && succeeded(passes.run(*module)));
    return module;
  }
  mlir::MLIRContext context;
};

} // namespace attn

#endif // ATTN_TEST_UNIT_INTERPRETERFIXTURE_H
