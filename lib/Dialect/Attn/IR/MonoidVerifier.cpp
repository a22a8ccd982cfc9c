//===- MonoidVerifier.cpp - The verifier of attn.monoid -------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
// The form of a monoid. Whether it is one is for attn-check-laws to test.
//===----------------------------------------------------------------------===//

#include "RegionVerifier.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace mlir::attn;

unsigned MonoidOp::getNumScores() {
  unsigned extra = getNumParams();
  if (isGeneral())
    extra += getNumValues() + 1; // the key's values and its position
  unsigned numArguments =
      getLift().empty() ? 0 : getLift().front().getNumArguments();
  return numArguments > extra ? numArguments - extra : 0;
}

unsigned MonoidOp::getNumValues() {
  return llvm::count_if(getComponents(), [](Attribute attr) {
    return cast<ComponentAttr>(attr).getValue() == Component::value;
  });
}

LogicalResult MonoidOp::verify() {
  // (C1)
  for (Type type : getStats().getAsValueRange<TypeAttr>())
    if (!type.isF32())
      return emitOpError("expected statistics of type f32, but got ") << type;
  // (C2)
  for (Type type : getParams().getAsValueRange<TypeAttr>())
    if (!type.isF32())
      return emitOpError("expected params of type f32, but got ") << type;
  // (C3)
  if (getComponents().empty())
    return emitOpError("expected one or more components, but got none");
  bool isScanned = getKind() == MonoidKind::suffix ||
                   getKind() == MonoidKind::prefix ||
                   getKind() == MonoidKind::affine;
  if (isScanned && getStats().empty())
    return emitOpError("expected one or more statistics for kind ")
           << stringifyMonoidKind(getKind()) << ", but got none";
  return success();
}

/// Whether any of the yielded values in `outputs` depends on an argument of
/// `sources`.
static bool yieldDependsOn(Region &region, ArrayRef<unsigned> outputs,
                           ArrayRef<unsigned> sources) {
  llvm::SmallPtrSet<Value, 16> varying;
  for (unsigned source : sources)
    varying.insert(region.getArgument(source));
  for (Operation &op : region.front())
    if (llvm::any_of(op.getOperands(),
                     [&](Value value) { return varying.contains(value); }))
      varying.insert_range(op.getResults());
  return llvm::any_of(outputs, [&](unsigned i) {
    return varying.contains(region.front().back().getOperand(i));
  });
}

/// One factor for all components, or one for each.
static LogicalResult verifyRescale(MonoidOp op) {
  Region &rescale = op.getRescale();
  if (rescale.empty())
    return success();
  SmallVector<Type> arguments(2 * op.getNumStats() + op.getNumParams(),
                              Float32Type::get(op.getContext()));
  if (failed(verifyBody(op, rescale, "rescale", arguments)))
    return failure();
  auto yield = dyn_cast<YieldOp>(rescale.front().back());
  unsigned numFactors = yield ? yield.getNumOperands() : 1;
  if (numFactors != 1 && numFactors != op.getNumComponents())
    return op.emitOpError("expected region 'rescale' to yield one f32, or one "
                          "for each of the ")
           << op.getNumComponents() << " components, but it yields "
           << numFactors;
  return verifyYieldsFloats(op, rescale, "rescale", numFactors);
}

LogicalResult MonoidOp::verifyRegions() {
  Builder builder(getContext());
  Type f32 = builder.getF32Type(), i32 = builder.getI32Type();
  unsigned numStats = getNumStats(), numComponents = getNumComponents();
  MonoidKind kind = getKind();
  StringRef kindName = stringifyMonoidKind(kind);
  bool hasStats = numStats || isGeneral();

  // (C4)
  struct Presence {
    Region &region;
    StringRef name;
    bool required, allowed;
  };
  bool needsRescale = kind == MonoidKind::cocycle && numStats;
  bool needsGate = kind == MonoidKind::suffix || kind == MonoidKind::prefix;
  bool needsFactors = kind == MonoidKind::affine;
  for (const Presence &part :
       {Presence{getIdentity(), "identity", hasStats, true},
        Presence{getCombine(), "combine", hasStats, true},
        Presence{getRescale(), "rescale", needsRescale, needsRescale},
        Presence{getGate(), "gate", needsGate, needsGate},
        Presence{getFactors(), "factors", needsFactors, needsFactors},
        Presence{getLift(), "lift", true, true}}) {
    StringRef without = hasStats ? "" : " without statistics";
    if (part.required && part.region.empty())
      return emitOpError("expected a region '")
             << part.name << "' for kind " << kindName;
    if (!part.allowed && !part.region.empty())
      return emitOpError("expected no region '")
             << part.name << "' for kind " << kindName << without;
  }

  // (C5), (C6), (C7)
  auto floats = [&](unsigned n) { return SmallVector<Type>(n, f32); };
  auto withParams = [&](SmallVector<Type> types) {
    types.append(getNumParams(), f32);
    return types;
  };
  unsigned stateSize = numStats + (isGeneral() ? numComponents : 0);
  auto check = [&](Region &region, StringRef name, SmallVector<Type> arguments,
                   unsigned numYields) -> LogicalResult {
    if (region.empty())
      return success();
    if (failed(verifyBody(*this, region, name, withParams(arguments))))
      return failure();
    return verifyYieldsFloats(*this, region, name, numYields);
  };
  if (failed(check(getIdentity(), "identity", {}, stateSize)) ||
      failed(
          check(getCombine(), "combine", floats(2 * stateSize), stateSize)) ||
      failed(check(getGate(), "gate", floats(numStats), 1)) ||
      failed(check(getFactors(), "factors", floats(2 * numStats), 2)) ||
      failed(verifyRescale(*this)))
    return failure();
  unsigned numScores = getNumScores();
  if (numScores == 0)
    return emitOpError("expected region 'lift' to take one or more scores ")
           << (isGeneral() ? "before the values, the key's position and the "
                             "params"
                           : "before the params")
           << ", but it takes " << getLift().getNumArguments()
           << " arguments in all";
  SmallVector<Type> liftArguments =
      floats(numScores + (isGeneral() ? getNumValues() : 0));
  if (isGeneral())
    liftArguments.push_back(i32);
  if (failed(check(getLift(), "lift", liftArguments, numStats + numComponents)))
    return failure();

  // (C8)
  if (getFinalize().empty()) {
    if (!getOutputs().empty())
      return emitOpError("expected a region 'finalize' that yields the ")
             << getOutputs().size() << " outputs";
  } else {
    if (failed(verifyBody(*this, getFinalize(), "finalize",
                          withParams(floats(numStats + numComponents)))) ||
        failed(verifyYieldsFloats(
            *this, getFinalize(), "finalize",
            getOutputs().empty() ? -1 : int64_t(getOutputs().size()))))
      return failure();
    if (getOutputs().empty())
      return emitOpError("expected outputs(...) to name what region "
                         "'finalize' yields");
    llvm::StringSet<> names;
    for (StringAttr name : getOutputs().getAsRange<StringAttr>())
      if (name.empty() || !names.insert(name.strref()).second)
        return emitOpError("expected outputs to have distinct names, but got ")
               << name << (name.empty() ? "" : " twice");
  }

  // (C9)
  if (!isGeneral())
    return success();
  SmallVector<unsigned> perRow, fromValues, fromStates;
  for (unsigned i = 0; i < numStats; ++i)
    perRow.push_back(i);
  for (unsigned i = 0; i < numComponents; ++i) {
    if (getComponent(i) == Component::unit) {
      perRow.push_back(numStats + i);
      continue;
    }
    fromStates.push_back(numStats + i);
    fromStates.push_back(stateSize + numStats + i);
  }
  for (unsigned i = 0; i < getNumValues(); ++i)
    fromValues.push_back(numScores + i);
  if (yieldDependsOn(getLift(), perRow, fromValues) ||
      yieldDependsOn(getCombine(), perRow, fromStates))
    return emitOpError("expected statistics and unit components not to depend "
                       "on the values: there is one for all channels");
  return success();
}
