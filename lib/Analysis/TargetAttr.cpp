//===- TargetAttr.cpp - The target that a module is compiled for ----------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Analysis/TargetAttr.h"
#include "attn/Dialect/Attn/IR/AttributeNames.h"

using namespace mlir;

namespace attn {
std::optional<TargetInfo> getTarget(ModuleOp module) {
  std::string name = "host";
  if (auto given =
          module->getAttrOfType<StringAttr>(mlir::attn::getTargetName()))
    name = given.str();
  std::optional<TargetInfo> target = TargetInfo::get(name);
  if (!target)
    module.emitError("expected attn.target to be one of ")
        << llvm::join(TargetInfo::names(), ", ") << ", but got '" << name
        << "'";
  return target;
}

/// "sm_80, sm_86": the targets that are CPUs, or GPUs.
static std::string namesOf(bool cpu) {
  std::string names;
  for (const std::string &name : TargetInfo::names())
    if (auto info = TargetInfo::get(name); info && info->isCpu() == cpu)
      names += (names.empty() ? "" : ", ") + name;
  return names;
}

std::optional<TargetInfo> getCpuTarget(ModuleOp module, StringRef name) {
  std::optional<TargetInfo> target =
      name.empty() ? getTarget(module) : TargetInfo::get(name.str());
  if (name.empty() && !target)
    return std::nullopt;
  if (target && target->isCpu())
    return target;
  module.emitError("expected target to be one of ")
      << namesOf(/*cpu=*/true) << ", but got '"
      << (target ? target->name : name.str()) << "'";
  return std::nullopt;
}

std::optional<TargetInfo> getGpuTarget(ModuleOp module) {
  std::optional<TargetInfo> target = getTarget(module);
  if (!target || !target->isCpu())
    return target;
  InFlightDiagnostic diagnostic =
      module.emitError("expected attn.target to name a GPU (")
      << namesOf(/*cpu=*/false) << "), but got ";
  if (Attribute given = module->getAttr(mlir::attn::getTargetName()))
    diagnostic << given;
  else
    diagnostic << "none";
  return std::nullopt;
}
} // namespace attn
