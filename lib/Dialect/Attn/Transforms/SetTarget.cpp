//===- SetTarget.cpp - Say what a module is compiled for ------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Analysis/TargetAttr.h"
#include "attn/Dialect/Attn/IR/AttributeNames.h"
#include "attn/Dialect/Attn/Transforms/Passes.h"

namespace attn {
#define GEN_PASS_DEF_ATTNSETTARGETPASS
#include "attn/Dialect/Attn/Transforms/Passes.h.inc"
} // namespace attn

using namespace mlir;

namespace {
struct AttnSetTargetPass
    : ::attn::impl::AttnSetTargetPassBase<AttnSetTargetPass> {
  using AttnSetTargetPassBase::AttnSetTargetPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    std::optional<::attn::TargetInfo> wanted = ::attn::TargetInfo::get(target);
    if (!wanted) {
      module.emitError("expected target to be one of ")
          << llvm::join(::attn::TargetInfo::names(), ", ") << ", but got '"
          << target << "'";
      return signalPassFailure();
    }
    if (!module->hasAttr(mlir::attn::getTargetName())) {
      // The host goes without saying, and is another one elsewhere.
      if (target != "host")
        module->setAttr(mlir::attn::getTargetName(),
                        StringAttr::get(&getContext(), target));
      return;
    }
    std::optional<::attn::TargetInfo> given = ::attn::getTarget(module);
    if (!given)
      return signalPassFailure();
    if (given->name != wanted->name) {
      module.emitError("expected target to be attn.target of the module, '")
          << given->name << "', but got '" << wanted->name << "'";
      return signalPassFailure();
    }
  }
};
} // namespace
