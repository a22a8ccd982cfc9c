//===- TargetAttr.cpp - The target that a module is compiled for ----------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/Attn/Transforms/TargetAttr.h"

using namespace mlir;

std::optional<attn::TargetInfo> attn::getTarget(ModuleOp module) {
  std::string name = "host";
  if (auto attr = module->getAttrOfType<StringAttr>("attn.target"))
    name = attr.str();
  std::optional<TargetInfo> target = TargetInfo::get(name);
  if (!target)
    module.emitError("expected attn.target to be one of ")
        << llvm::join(TargetInfo::names(), ", ") << ", but got '" << name
        << "'";
  return target;
}
