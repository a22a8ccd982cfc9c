//===- ScanParts.cpp - attn.scan_partial and attn.scan_combine ------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RegionVerifier.h"
#include "ScanVerifiers.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace mlir::attn;
using namespace mlir::attn::detail;

static constexpr int64_t unknown = ShapedType::kDynamic;

/// Checks that a tensor is of f32 and has these sizes, where they are known.
static LogicalResult verifyShape(Operation *op, StringRef name, Type given,
                                 ArrayRef<int64_t> expected) {
  auto type = cast<RankedTensorType>(given);
  bool fits = type.getElementType().isF32() &&
              type.getRank() == int64_t(expected.size());
  for (size_t d = 0; fits && d < expected.size(); ++d)
    fits &= expected[d] == unknown || type.getDimSize(d) == expected[d];
  if (fits)
    return success();
  auto diagnostic = op->emitOpError("expected ")
                    << name << " of f32 and shape [";
  llvm::interleaveComma(expected, diagnostic, [&](int64_t size) {
    if (size == unknown)
      diagnostic << "?";
    else
      diagnostic << size;
  });
  return diagnostic << "], but got " << type;
}

/// The shapes of S, z and m behind the sizes `lead`.
static SmallVector<SmallVector<int64_t>> stateShapes(ArrayRef<int64_t> lead,
                                                     int64_t dk, int64_t dv,
                                                     bool normalize,
                                                     bool logWeight) {
  auto shape = [&](ArrayRef<int64_t> channels) {
    SmallVector<int64_t> sizes(lead);
    sizes.append({unknown, unknown});
    sizes.append(channels.begin(), channels.end());
    return sizes;
  };
  SmallVector<SmallVector<int64_t>> shapes = {shape({dk, dv})};
  if (normalize)
    shapes.push_back(shape({dk}));
  if (logWeight)
    shapes.push_back(shape({}));
  return shapes;
}

static LogicalResult verifyAll(Operation *op, StringRef name, TypeRange given,
                               ArrayRef<SmallVector<int64_t>> expected,
                               StringRef what) {
  if (given.size() != expected.size())
    return op->emitOpError("expected ")
           << expected.size() << " " << name << " (" << what << "), but got "
           << given.size();
  for (auto [type, shape] : llvm::zip_equal(given, expected))
    if (failed(verifyShape(op, name, type, shape)))
      return failure();
  return success();
}

//===----------------------------------------------------------------------===//
// ScanPartialOp
//===----------------------------------------------------------------------===//

int64_t ScanPartialOp::getKeyChannels() {
  return typeOf(getKey()).getShape().back();
}
int64_t ScanPartialOp::getValueChannels() {
  return typeOf(getValue()).getShape().back();
}
bool ScanPartialOp::hasChannelGates() {
  return getDecay() &&
         typeOf(getDecay()).getRank() == typeOf(getKey()).getRank();
}

ScanOp ScanPartialOp::makeScan(OpBuilder &builder) {
  auto scan = ScanOp::create(
      builder, getLoc(), TypeRange(getValue().getType()), getKey(), getKey(),
      getValue(), /*scale=*/Value(), getDecay(), getWeight(), getLogWeight(),
      getDelta(), getEraseA(), getEraseB(), /*bonus=*/Value(),
      /*init=*/ValueRange(), /*cu=*/Value(), getLengths(),
      /*pool=*/ValueRange(), /*slot=*/Value(), getGateCaptures(),
      /*finalize_captures=*/ValueRange(), getValueGates(), getEraseBefore(),
      /*read_before=*/false, /*whole=*/false, getNormalize(), getL2norm(),
      /*final=*/false, /*values_first=*/false, /*query_states=*/false,
      getChunkAttr(),
      /*segments=*/IntegerAttr());
  IRMapping mapping;
  getFeature().cloneInto(&scan.getFeature(), mapping);
  getGate().cloneInto(&scan.getGate(), mapping);
  return scan;
}

LogicalResult ScanPartialOp::verify() {
  auto k = typeOf(getKey()), v = typeOf(getValue());
  int64_t dk = getKeyChannels(), dv = getValueChannels();
  // (C1)
  if (k.getRank() != 4 || v.getRank() != 4 ||
      !sizesMeet(k.getDimSize(0), v.getDimSize(0)) ||
      !sizesMeet(k.getDimSize(2), v.getDimSize(2)) ||
      k.getElementType() != v.getElementType())
    return emitOpError("expected keys and values [b, h, t, d] of one type, "
                       "batches and tokens of which agree, but got ")
           << k << " and " << v;
  // (C2)
  if (ShapedType::isDynamic(dk) || ShapedType::isDynamic(dv) || dk < 1 ||
      dv < 1)
    return emitOpError("expected static channels, but got ")
           << k << " and " << v;
  // (C3)
  int64_t hk = k.getDimSize(1), hv = v.getDimSize(1);
  if (!ShapedType::isDynamic(hk) && !ShapedType::isDynamic(hv) &&
      (!std::min(hk, hv) ? hk != hv : std::max(hk, hv) % std::min(hk, hv) != 0))
    return emitOpError("expected heads that divide each other, but got ")
           << hk << " of keys and " << hv << " of values";
  // (C4) to (C6)
  if (failed(detail::verifyRule(*this, dk, dv)))
    return failure();
  int64_t gates = hasChannelGates() ? (getValueGates() ? dv : dk) : 0;
  // (C7)
  if (getChunk() && *getChunk() != 1 &&
      (*getChunk() < 16 || *getChunk() > 128 ||
       !llvm::isPowerOf2_64(*getChunk())))
    return emitOpError("expected chunk to be 1 or a power of two from 16 to "
                       "128, but got ")
           << *getChunk();
  // (C8)
  if (failed(verifyElementwise(*this, getFeature(), "feature")) ||
      failed(verifyGate(*this, getGate(), getGateCaptures(),
                        getDecay() != nullptr, gates)))
    return failure();
  // (C9)
  auto parts = static_cast<int64_t>(getSplits());
  auto shapes =
      stateShapes({parts}, dk, dv, getNormalize(), getLogWeight() != nullptr);
  if (hasMaps()) {
    SmallVector<int64_t> map = {parts, unknown, unknown};
    if (isErasing())
      map.append({dk, dk});
    else if (gates)
      map.push_back(gates);
    shapes.push_back(map);
  }
  return verifyAll(*this, "results", getOutputs().getTypes(), shapes,
                   "S, then z with normalize, m with log_weight, and maps with "
                   "decay, delta or erase");
}

//===----------------------------------------------------------------------===//
// ScanCombineOp
//===----------------------------------------------------------------------===//

int64_t ScanCombineOp::getKeyChannels() {
  return typeOf(getStates().front()).getShape().drop_back().back();
}
int64_t ScanCombineOp::getValueChannels() {
  return typeOf(getStates().front()).getShape().back();
}
bool ScanCombineOp::hasMatrices() {
  return getMaps() && typeOf(getMaps()).getRank() == 5;
}
bool ScanCombineOp::hasChannels() {
  return getMaps() && typeOf(getMaps()).getRank() == 4;
}

LogicalResult ScanCombineOp::verify() {
  // (C1)
  if (getStates().empty() || typeOf(getStates().front()).getRank() != 5)
    return emitOpError("expected states S [parts, n, h, dk, dv] first");
  int64_t dk = getKeyChannels(), dv = getValueChannels();
  if (ShapedType::isDynamic(dk) || ShapedType::isDynamic(dv) || dk < 1 ||
      dv < 1)
    return emitOpError("expected static channels, but got ")
           << getStates().front().getType();
  int64_t parts = typeOf(getStates().front()).getDimSize(0);
  StringRef words = "S, then z with normalize, m with log_weight";
  if (failed(verifyAll(
          *this, "states", getStates().getTypes(),
          stateShapes({parts}, dk, dv, getNormalize(), getLogWeight()), words)))
    return failure();
  // (C2)
  SmallVector<int64_t> map;
  if (getMaps()) {
    map = {parts, unknown, unknown};
    if (hasMatrices())
      map.append({dk, dk});
    else if (hasChannels())
      map.push_back(getValueGates() ? dv : dk);
    if (failed(verifyShape(*this, "maps", getMaps().getType(), map)))
      return failure();
  }
  if (getValueGates() && (!hasChannels() || getNormalize()))
    return emitOpError("expected maps of value channels, and no z, beside "
                       "value_gates");
  if ((hasMatrices() && (getNormalize() || getLogWeight())) ||
      (hasChannels() && getLogWeight()))
    return emitOpError("expected maps of heads beside log_weight, and no "
                       "matrices beside normalize");
  // (C3)
  if (!getInit().empty() &&
      failed(verifyAll(*this, "init", getInit().getTypes(),
                       stateShapes({}, dk, dv, getNormalize(), getLogWeight()),
                       words)))
    return failure();
  // (C4)
  SmallVector<int64_t> lead;
  if (getPrefixes())
    lead.push_back(parts);
  auto shapes = stateShapes(lead, dk, dv, getNormalize(), getLogWeight());
  if (getInit().empty() && getMaps()) {
    if (!getPrefixes())
      map.erase(map.begin());
    shapes.push_back(map);
  }
  return verifyAll(*this, "results", getOutputs().getTypes(), shapes,
                   "the states, and without init the maps");
}
