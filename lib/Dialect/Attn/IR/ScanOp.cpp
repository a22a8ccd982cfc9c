//===- ScanOp.cpp - attn.scan ---------------------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RegionVerifier.h"
#include "ScanVerifiers.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace mlir::attn;
using namespace mlir::attn::detail;

#define GET_OP_CLASSES
#include "attn/Dialect/Attn/IR/AttnScanOps.cpp.inc"

int64_t ScanOp::getKeyChannels() { return typeOf(getKey()).getShape().back(); }
int64_t ScanOp::getValueChannels() {
  return typeOf(getValue()).getShape().back();
}

bool ScanOp::hasChannelGates() {
  return getDecay() &&
         typeOf(getDecay()).getRank() == typeOf(getQuery()).getRank();
}

LogicalResult mlir::attn::detail::verifyTokens(Operation *op, Value keys,
                                               StringRef name, Value value,
                                               int64_t width) {
  if (!value)
    return success();
  auto type = typeOf(value), key = typeOf(keys);
  int64_t rank = key.getRank() - (width ? 0 : 1);
  bool fits =
      type.getRank() == rank && (!width || type.getShape().back() == width);
  for (int64_t d = 0; fits && d < key.getRank() - 1; ++d)
    fits &= d == key.getRank() - 3 || // heads
            sizesMeet(type.getDimSize(d), key.getDimSize(d));
  if (fits)
    return success();
  return op->emitOpError("expected ")
         << name << " for each token of a state head"
         << (width ? ", with " + std::to_string(width) + " channels" : "")
         << ", like " << key << ", but got " << type;
}

/// Checks the states of `n` sequences. Those of a pool may have 16 bits, and
/// are then rounded with each call.
static LogicalResult verifyStates(ScanOp op, StringRef name, TypeRange states,
                                  bool isPool = false) {
  if (states.size() != op.getNumStates())
    return op.emitOpError("expected ")
           << name << " of " << op.getNumStates()
           << " tensors (S, then z with normalize, m with log_weight), but got "
           << states.size();
  int64_t dk = op.getKeyChannels(), dv = op.getValueChannels();
  int64_t first = dk, second = dv;
  if (op.getValuesFirst())
    std::swap(first, second);
  SmallVector<SmallVector<int64_t>> channels = {{first, second}};
  if (op.getNormalize())
    channels.push_back({dk});
  if (op.getLogWeight())
    channels.push_back({});
  for (auto [type, expected] : llvm::zip_equal(states, channels)) {
    auto tensor = cast<RankedTensorType>(type);
    bool isNarrow = isPool && expected.size() == 2;
    if (tensor.getRank() != 2 + int64_t(expected.size()) ||
        !(tensor.getElementType().isF32() || isNarrow) ||
        tensor.getShape().drop_front(2) != ArrayRef<int64_t>(expected))
      return op.emitOpError("expected ")
             << name << " of f32 and shapes [n, h, " << first << ", " << second
             << "], [n, h, " << dk << "] and [n, h], but got " << type;
  }
  return success();
}

LogicalResult mlir::attn::detail::verifyElementwise(Operation *op,
                                                    Region &region,
                                                    StringRef name,
                                                    size_t count) {
  if (region.empty())
    return success();
  Block &block = region.front();
  Type f32 = Float32Type::get(op->getContext());
  bool fits = llvm::all_of(block.getArgumentTypes(),
                           [&](Type type) { return type == f32; }) &&
              block.getNumArguments() == count && !block.empty() &&
              isa<YieldOp>(block.back()) &&
              block.back().getOperandTypes() == TypeRange(f32);
  if (!fits)
    return op->emitOpError("expected ")
           << name << " to take "
           << (count == 1 ? "" : std::to_string(count) + " f32, ")
           << (count == 1 ? "and yield one f32"
                          : "an element and those of its captures, and to "
                            "yield one");
  for (Operation &inner : block.without_terminator())
    if (inner.getNumRegions() || !isMemoryEffectFree(&inner) ||
        !isa<arith::ArithDialect, math::MathDialect>(inner.getDialect()))
      return inner.emitOpError("expected operations of arith and math alone in "
                               "a ")
             << name;
  for (Operation &inner : block)
    for (Value operand : inner.getOperands())
      if (operand.getParentBlock() != &block)
        return inner.emitOpError("expected a ")
               << name << " that uses its argument and "
               << "its own constants alone";
  return success();
}

LogicalResult mlir::attn::detail::verifyGate(Operation *op, Region &gate,
                                             ValueRange captures, bool hasDecay,
                                             int64_t channels) {
  if (!gate.empty() && !hasDecay)
    return op->emitOpError("expected decay beside gate");
  for (Value capture : captures) {
    auto type = typeOf(capture);
    bool isWide =
        type.getRank() == 2 && channels && type.getShape().back() == channels;
    if (type.getRank() != 1 && !isWide)
      return op->emitOpError("expected captures of gate [h]")
             << (channels ? " or [h, " + std::to_string(channels) + "]" : "")
             << ", but got " << type;
  }
  return verifyElementwise(op, gate, "gate", 1 + captures.size());
}

/// Checks what `gate` and `finalize` take beside an element.
static LogicalResult verifyCaptures(ScanOp op) {
  auto q = typeOf(op.getQuery()), v = typeOf(op.getValue());
  int64_t dv = op.getValueChannels();
  for (Value capture : op.getFinalizeCaptures()) {
    auto type = typeOf(capture);
    bool fits = type.getRank() == 1 || type.getShape().back() == dv;
    fits &= type.getRank() <= 2 || type.getRank() == v.getRank();
    for (int64_t d = 0; fits && type.getRank() > 2 && d < q.getRank() - 1; ++d)
      fits &= d == q.getRank() - 3 ||
              sizesMeet(type.getDimSize(d), q.getDimSize(d));
    if (!fits)
      return op.emitOpError("expected captures of finalize [h], [h, ")
             << dv << "] or like the outputs, but got " << type;
  }
  int64_t gates = op.getValueGates() ? dv : op.getKeyChannels();
  if (failed(verifyElementwise(op, op.getFeature(), "feature")) ||
      failed(verifyGate(op, op.getGate(), op.getGateCaptures(),
                        op.getDecay() != nullptr,
                        op.hasChannelGates() ? gates : 0)))
    return failure();
  return verifyElementwise(op, op.getFinalize(), "finalize",
                           1 + op.getFinalizeCaptures().size());
}

/// (C1) to (C4)
static LogicalResult verifyOperands(ScanOp op) {
  auto q = typeOf(op.getQuery()), k = typeOf(op.getKey()),
       v = typeOf(op.getValue());
  // (C1)
  int64_t rank = op.isPacked() ? 3 : 4;
  if (q.getRank() != rank || k.getRank() != rank || v.getRank() != rank)
    return op.emitOpError("expected queries, keys and values ")
           << (op.isPacked() ? "[h, total, d], as cu_seqlens has them"
                             : "[b, h, t, d]")
           << ", but got " << q << ", " << k << " and " << v;
  // (C2)
  int64_t dk = op.getKeyChannels(), dv = op.getValueChannels();
  if (ShapedType::isDynamic(dk) || ShapedType::isDynamic(dv) || dk < 1 ||
      dv < 1 || q.getShape().back() != dk)
    return op.emitOpError("expected static channels, those of queries and keys "
                          "equal, but got ")
           << q << ", " << k << " and " << v;
  for (int64_t d = 0; d < rank - 1; ++d)
    if (d != rank - 3 && (!sizesMeet(q.getDimSize(d), k.getDimSize(d)) ||
                          !sizesMeet(k.getDimSize(d), v.getDimSize(d))))
      return op.emitOpError("expected batches and tokens of queries, keys and "
                            "values to agree, but got ")
             << q << ", " << k << " and " << v;
  // (C3)
  int64_t hq = q.getDimSize(rank - 3), hk = k.getDimSize(rank - 3),
          hv = v.getDimSize(rank - 3);
  auto divides = [](int64_t a, int64_t b) {
    return ShapedType::isDynamic(a) || ShapedType::isDynamic(b) ||
           (a ? b % a == 0 : b == 0);
  };
  if ((!divides(hk, hv) && !divides(hv, hk)) ||
      (!ShapedType::isDynamic(hk) && !ShapedType::isDynamic(hv) &&
       !divides(hq, std::max(hk, hv)) && !divides(std::max(hk, hv), hq)))
    return op.emitOpError("expected heads that divide each other, but got ")
           << hq << " of queries, " << hk << " of keys and " << hv
           << " of values";
  // (C4)
  if (q.getElementType() != k.getElementType() ||
      q.getElementType() != v.getElementType())
    return op.emitOpError(
               "expected queries, keys and values of one type, but got ")
           << q << ", " << k << " and " << v;
  return success();
}

/// (C10)
static LogicalResult verifyFirstStates(ScanOp op) {
  if (!op.getInit().empty() &&
      failed(verifyStates(op, "init", op.getInit().getTypes())))
    return failure();
  if (op.getSlot() && op.getPool().empty())
    return op.emitOpError("expected slots beside index");
  if (!op.getPool().empty()) {
    if (!op.getInit().empty() || op.getFinal())
      return op.emitOpError("expected slots without init and final");
    if (failed(verifyStates(op, "slots", op.getPool().getTypes(),
                            /*isPool=*/true)))
      return failure();
    for (Value pool : op.getPool())
      if (!isa<BlockArgument>(pool))
        return op.emitOpError(
            "expected a pool to be an argument of the function");
  }
  return success();
}

/// (C14)
static LogicalResult verifyResults(ScanOp op) {
  auto q = typeOf(op.getQuery()), v = typeOf(op.getValue());
  int64_t rank = q.getRank();
  unsigned expected = 1 + (op.getFinal() ? op.getNumStates() : 0);
  if (op.getOutputs().size() != expected)
    return op.emitOpError("expected ")
           << expected << " results, but got " << op.getOutputs().size();
  auto output = typeOf(op.getOutputs().front());
  bool fits = output.getRank() == rank &&
              output.getShape().back() == v.getShape().back();
  for (int64_t d = 0; fits && d < rank - 1; ++d)
    fits &= d == rank - 3 || sizesMeet(output.getDimSize(d), q.getDimSize(d));
  if (!fits)
    return op.emitOpError("expected outputs like values, ")
           << v << ", but got " << output;
  if (op.getFinal() &&
      failed(verifyStates(op, "final states",
                          op.getOutputs().drop_front().getTypes())))
    return failure();
  return success();
}

LogicalResult ScanOp::verify() {
  if (failed(verifyOperands(*this)))
    return failure();
  int64_t dk = getKeyChannels(), dv = getValueChannels();
  // (C5) to (C8)
  if (failed(detail::verifyRule(*this, dk, dv)))
    return failure();
  bool erases = getDelta() || getEraseA();
  // (C9)
  if (Value bonus = getBonus())
    if (!getReadBefore() || getNormalize() || typeOf(bonus).getRank() != 2 ||
        typeOf(bonus).getShape().back() != dk)
      return emitOpError("expected bonus [h, ")
             << dk << "] with read_before and without normalize, but got "
             << bonus.getType();
  if (getReadBefore() && getLogWeight())
    return emitOpError("expected read_before without log_weight");
  if (failed(verifyFirstStates(*this)))
    return failure();
  // (C11)
  if (getWhole() && (getDecay() || erases || getLogWeight() || getReadBefore()))
    return emitOpError("expected whole without decay, delta, erase, log_weight "
                       "and read_before");
  // (C12)
  if (getChunk() && *getChunk() != 1 &&
      (*getChunk() < 16 || *getChunk() > 128 ||
       !llvm::isPowerOf2_64(*getChunk())))
    return emitOpError(
               "expected chunk to be 1 or a power of two from 16 to 128, "
               "but got ")
           << *getChunk();
  // (C13)
  if (failed(verifyCaptures(*this)))
    return failure();
  if (failed(verifyResults(*this)))
    return failure();
  // (C15)
  if (getLengths() && getCu())
    return emitOpError("expected lengths without cu_seqlens, which says them");
  // (C16)
  if (getSegments() && (*getSegments() < 1 || *getSegments() > 1024))
    return emitOpError("expected segments between 1 and 1024, but got ")
           << *getSegments();
  if (getSegments().value_or(1) > 1 &&
      (getCu() || !getPool().empty() || getWhole() || erases || getLogWeight()))
    return emitOpError("expected segments without cu_seqlens, slots, whole, "
                       "delta, erase and log_weight");
  return success();
}
