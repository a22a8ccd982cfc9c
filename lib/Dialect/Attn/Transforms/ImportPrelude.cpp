//===- ImportPrelude.cpp - Copy shipped monoids into a module -------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
// A shipped monoid is text until a module names it: only then is it parsed,
// so that a compile pays for the monoids that it uses.
//===----------------------------------------------------------------------===//

#include "attn/Dialect/Attn/IR/Attn.h"
#include "attn/Dialect/Attn/Prelude/Prelude.h"
#include "attn/Dialect/Attn/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/SetVector.h"

#define DEBUG_TYPE "attn-import-prelude"

namespace attn {
#define GEN_PASS_DEF_ATTNIMPORTPRELUDEPASS
#include "attn/Dialect/Attn/Transforms/Passes.h.inc"
} // namespace attn

using namespace mlir;

namespace {
struct AttnImportPreludePass
    : ::attn::impl::AttnImportPreludePassBase<AttnImportPreludePass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    SymbolTable symbols(module);
    llvm::SetVector<StringAttr> missing;
    module.walk([&](Operation *op) {
      auto ref = op->getName().getDialectNamespace() == "attn"
                     ? mlir::attn::getMonoidRef(op)
                     : FlatSymbolRefAttr();
      if (ref && !mlir::attn::lookupMonoid(op, ref) &&
          !symbols.lookup(ref.getAttr()))
        missing.insert(ref.getAttr());
    });

    // Statistics count nothing in some builds of LLVM.
    bool imported = false;
    auto builder = OpBuilder::atBlockBegin(module.getBody());
    for (StringAttr name : missing) {
      const ::attn::ShippedMonoid *shipped =
          ::attn::lookupShippedMonoid(name.strref());
      if (!shipped)
        continue;
      OwningOpRef<ModuleOp> parsed = parseSourceString<ModuleOp>(
          StringRef(shipped->text), ParserConfig(&getContext()));
      assert(parsed && "a shipped monoid that does not verify");
      Operation *monoid = &parsed->getBody()->front();
      monoid->remove();
      builder.insert(monoid);
      SymbolTable::setSymbolVisibility(monoid,
                                       SymbolTable::Visibility::Private);
      ++numImported;
      imported = true;
    }
    if (!imported)
      return markAllAnalysesPreserved();
    // What a use has to be like is known now.
    SymbolTableCollection tables;
    WalkResult result = module.walk([&](Operation *op) {
      auto user = dyn_cast<SymbolUserOpInterface>(op);
      auto ref = op->getName().getDialectNamespace() == "attn"
                     ? mlir::attn::getMonoidRef(op)
                     : FlatSymbolRefAttr();
      return user && ref && missing.contains(ref.getAttr()) &&
                     failed(user.verifySymbolUses(tables))
                 ? WalkResult::interrupt()
                 : WalkResult::advance();
    });
    if (result.wasInterrupted())
      signalPassFailure();
  }
};
} // namespace
