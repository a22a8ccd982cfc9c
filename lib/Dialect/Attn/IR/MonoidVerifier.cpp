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

unsigned MonoidOp::getUnit(unsigned component) {
  return llvm::count_if(
      getComponents().getValue().take_front(component), [](Attribute attr) {
        return cast<ComponentAttr>(attr).getValue() == Component::unit;
      });
}

bool MonoidOp::isShifted(unsigned component) {
  if (!hasShift() || getComponent(component) != Component::unit)
    return false;
  unsigned unit = getUnit(component);
  Block &block = getShift().front();
  return block.getTerminator()->getOperand(unit) !=
         block.getArgument(2 * getNumStats() + unit);
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

/// (C4): which regions a kind has.
static LogicalResult verifyPresence(MonoidOp op) {
  struct Presence {
    Region &region;
    StringRef name;
    bool required, allowed;
  };
  MonoidKind kind = op.getKind();
  bool hasStats = op.getNumStats() || op.isGeneral();
  bool needsRescale = kind == MonoidKind::cocycle && op.getNumStats();
  bool needsGate = kind == MonoidKind::suffix || kind == MonoidKind::prefix;
  bool needsFactors = kind == MonoidKind::affine;
  bool mayShift = needsRescale && op.getNumUnits();
  for (const Presence &part :
       {Presence{op.getIdentity(), "identity", hasStats, true},
        Presence{op.getCombine(), "combine", hasStats, true},
        Presence{op.getRescale(), "rescale", needsRescale, needsRescale},
        Presence{op.getShift(), "shift", false, mayShift},
        Presence{op.getGate(), "gate", needsGate, needsGate},
        Presence{op.getFactors(), "factors", needsFactors, needsFactors},
        Presence{op.getLift(), "lift", true, true}}) {
    StringRef without = !hasStats ? " without statistics"
                        : part.name == "shift" && needsRescale
                            ? " without unit components"
                            : "";
    if (part.required && part.region.empty())
      return op.emitOpError("expected a region '")
             << part.name << "' for kind " << stringifyMonoidKind(kind);
    if (!part.allowed && !part.region.empty())
      return op.emitOpError("expected no region '")
             << part.name << "' for kind " << stringifyMonoidKind(kind)
             << without;
  }
  return success();
}

static SmallVector<Type> floats(MonoidOp op, unsigned n) {
  return SmallVector<Type>(n, Float32Type::get(op.getContext()));
}

/// What a region takes, the params last; and how many floats it yields.
static LogicalResult verifySignature(MonoidOp op, Region &region,
                                     StringRef name,
                                     SmallVector<Type> arguments,
                                     int64_t numYields) {
  if (region.empty())
    return success();
  llvm::append_range(arguments, floats(op, op.getNumParams()));
  if (failed(verifyBody(op, region, name, arguments)))
    return failure();
  return verifyYieldsFloats(op, region, name, numYields);
}

/// Values of a state, as its regions see it: of a general monoid the
/// components, too.
static unsigned stateSizeOf(MonoidOp op) {
  return op.getNumStats() + (op.isGeneral() ? op.getNumComponents() : 0);
}

/// (C5), (C6), (C7): the regions of the algebra.
static LogicalResult verifyAlgebra(MonoidOp op) {
  unsigned numStats = op.getNumStats(), stateSize = stateSizeOf(op);
  if (failed(
          verifySignature(op, op.getIdentity(), "identity", {}, stateSize)) ||
      failed(verifySignature(op, op.getCombine(), "combine",
                             floats(op, 2 * stateSize), stateSize)) ||
      failed(
          verifySignature(op, op.getGate(), "gate", floats(op, numStats), 1)) ||
      failed(verifySignature(op, op.getFactors(), "factors",
                             floats(op, 2 * numStats), 2)) ||
      failed(verifyRescale(op)) ||
      failed(verifySignature(op, op.getShift(), "shift",
                             floats(op, 2 * numStats + op.getNumUnits()),
                             op.getNumUnits())))
    return failure();
  bool isGeneral = op.isGeneral();
  unsigned numScores = op.getNumScores();
  if (numScores == 0)
    return op.emitOpError("expected region 'lift' to take one or more scores ")
           << (isGeneral ? "before the values, the key's position and the "
                           "params"
                         : "before the params")
           << ", but it takes " << op.getLift().getNumArguments()
           << " arguments in all";
  SmallVector<Type> arguments =
      floats(op, numScores + (isGeneral ? op.getNumValues() : 0));
  if (isGeneral)
    arguments.push_back(IntegerType::get(op.getContext(), 32));
  return verifySignature(op, op.getLift(), "lift", arguments,
                         numStats + op.getNumComponents());
}

/// (C8): the outputs.
static LogicalResult verifyOutputs(MonoidOp op) {
  ArrayAttr outputs = op.getOutputs();
  if (op.getFinalize().empty()) {
    if (!outputs.empty())
      return op.emitOpError("expected a region 'finalize' that yields the ")
             << outputs.size() << " outputs";
    return success();
  }
  if (failed(
          verifySignature(op, op.getFinalize(), "finalize",
                          floats(op, op.getNumStats() + op.getNumComponents()),
                          outputs.empty() ? -1 : int64_t(outputs.size()))))
    return failure();
  if (outputs.empty())
    return op.emitOpError("expected outputs(...) to name what region "
                          "'finalize' yields");
  llvm::StringSet<> names;
  for (StringAttr name : outputs.getAsRange<StringAttr>())
    if (name.empty() || !names.insert(name.strref()).second)
      return op.emitOpError("expected outputs to have distinct names, but got ")
             << name << (name.empty() ? "" : " twice");
  return success();
}

/// (C9): what there is once for all channels.
static LogicalResult verifySharedByChannels(MonoidOp op) {
  if (!op.isGeneral())
    return success();
  unsigned numStats = op.getNumStats(), stateSize = stateSizeOf(op);
  SmallVector<unsigned> perRow, fromValues, fromStates;
  for (unsigned i = 0; i < numStats; ++i)
    perRow.push_back(i);
  for (unsigned i = 0; i < op.getNumComponents(); ++i) {
    if (op.getComponent(i) == Component::unit) {
      perRow.push_back(numStats + i);
      continue;
    }
    fromStates.push_back(numStats + i);
    fromStates.push_back(stateSize + numStats + i);
  }
  for (unsigned i = 0; i < op.getNumValues(); ++i)
    fromValues.push_back(op.getNumScores() + i);
  if (yieldDependsOn(op.getLift(), perRow, fromValues) ||
      yieldDependsOn(op.getCombine(), perRow, fromStates))
    return op.emitOpError("expected statistics and unit components not to "
                          "depend on the values: there is one for all "
                          "channels");
  return success();
}

LogicalResult MonoidOp::verifyRegions() {
  return success(succeeded(verifyPresence(*this)) &&
                 succeeded(verifyAlgebra(*this)) &&
                 succeeded(verifyOutputs(*this)) &&
                 succeeded(verifySharedByChannels(*this)));
}
