//===- ToAggregate.cpp - Named attention as a monoid aggregate ------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every named option is sugar for a piece of a region: after this pass nothing
// below knows what a causal mask or a softcap is. Options stay run-time values
// (captures) unless the function gives them as constants.
//
//===----------------------------------------------------------------------===//

#include "Dropout.h"
#include "attn/Dialect/Attn/IR/Attn.h"
#include "attn/Dialect/Attn/Transforms/Passes.h"
#include "attn/Dialect/Attn/Transforms/RegionUtils.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/MapVector.h"
#include <cmath>

#define DEBUG_TYPE "attn-to-aggregate"

namespace attn {
#define GEN_PASS_DEF_ATTNTOAGGREGATEPASS
#include "attn/Dialect/Attn/Transforms/Passes.h.inc"
} // namespace attn

using namespace mlir;
using namespace mlir::attn;

namespace {

/// Rewrites one `attn.attention`.
class Rewriter {
public:
  Rewriter(AttentionOp op, MonoidOp monoid)
      : op(op), monoid(monoid), b(op), loc(op.getLoc()) {}

  LogicalResult run();

private:
  /// The arguments that a region of the new op starts with.
  struct Position {
    Value batch, head, row, key;
  };

  LogicalResult collectCaptures();
  void capture(Value value) {
    if (value && !isConstant(value))
      captures.insert(value);
  }
  static bool isConstant(Value value) {
    return matchPattern(value, m_Constant());
  }

  /// Opens a region with `types` then the captures as arguments, and leaves
  /// the builder in it.
  Block *openRegion(Region &region, TypeRange types);
  void yield(ValueRange values) { YieldOp::create(b, loc, values); }
  /// `outer` as seen in the open region.
  Value in(Value outer);
  SmallVector<Value> in(ValueRange outer) {
    return llvm::map_to_vector(outer, [&](Value v) { return in(v); });
  }

  /// Element of a tensor broadcast to [b, hq, sq, sk] by its trailing
  /// dimensions and its dimensions of static size 1.
  Value extractBroadcast(Value tensor, const Position &at);
  Value extractAt(Value tensor, ArrayRef<Value> positions);
  Value toF32(Value value);
  Value constantI32(int32_t value) {
    return arith::ConstantIntOp::create(b, loc, b.getI32Type(), value);
  }
  /// Keys that a sequence has pages for.
  Value capacity(Value page);
  /// What a tensor [b] has of a batch.
  Value ofBatch(Value tensor, Value batch);
  /// The position of a key. Diagonals that are aligned with the last key see
  /// its number alone: all positions of a batch differ from that by the same.
  Value position(const Position &at);
  /// Number of queries and keys of the sequence, i32.
  /// Rows of a sequence; `size`: of all of them, where they are alike.
  Value lengthOf(const Source &source, Value size, Value batch);
  Value numQueries(Value batch) { return lengthOf(querySource, sq, batch); }
  Value numKeys(Value batch) { return lengthOf(keySource, sk, batch); }
  /// Row of the aligned diagonal: key `diagonal(i)` is "now" for row i.
  Value diagonal(const Position &at, Causal alignment);

  void buildScore(Region &region);
  void buildMask(Region &region);
  void buildFactor(Region &region);
  void buildInit(Region &region);
  void buildFinalize(Region &region, ArrayRef<unsigned> used);
  void buildRotate(Region &region, bool ofKeys);
  bool hasMask() {
    return op.getCausal() != Causal::none || op.getWindowLeft() ||
           op.getWindowRight() || op.getMaskTensor() || !op.getMask().empty();
  }

  AttentionOp op;
  MonoidOp monoid;
  OpBuilder b;
  Location loc;
  Source querySource, keySource;
  /// Sizes as i32, when regions need them.
  Value sq, sk, scale;
  llvm::SmallSetVector<Value, 8> captures;
  /// Arguments of the open region for the captures.
  llvm::SmallDenseMap<Value, Value> captured;
};

} // namespace

/// What says how many rows each sequence has: lengths, or offsets; null where
/// the tensor does.
static Value lengthsOf(const Source &source) {
  if (source.lengths)
    return source.lengths;
  return source.is(SourceKind::varlen) ? source.map : Value();
}

LogicalResult Rewriter::collectCaptures() {
  querySource = op.getQuerySource();
  keySource = op.getKeySource();
  for (ValueRange values : {op.getCaptures(), op.getTables()})
    captures.insert_range(values);
  capture(op.getScale());
  capture(op.getSoftcap());
  for (Value value : std::initializer_list<Value>{
           op.getBias(), op.getMaskTensor(), op.getAlibi(), op.getSinks(),
           op.getWindowLeft(), op.getWindowRight(), op.getDropout()})
    capture(value);
  for (Value value : op.getDropoutRng())
    capture(value);
  for (Value value : op.getParams())
    capture(value);

  // Positions of keys that are not seen from the last one.
  if (op.getCausal() == Causal::top_left || !op.getScore().empty() ||
      !op.getMask().empty() || (op.getRotary() && !op.getRotateBySlot()))
    capture(op.getKStart());

  bool needsSizes = op.getAlibi() ||
                    (op.getRotary() && op.getCausal() != Causal::top_left) ||
                    op.getCausal() == Causal::bottom_right ||
                    (op.getCausal() == Causal::none &&
                     (op.getWindowLeft() || op.getWindowRight()));
  if (!needsSizes)
    return success();
  auto dim = [&](Value tensor) -> Value {
    int64_t rank = cast<RankedTensorType>(tensor.getType()).getRank();
    Value size = tensor::DimOp::create(b, loc, tensor, rank - 2);
    return arith::IndexCastOp::create(b, loc, b.getI32Type(), size);
  };
  Value rows = lengthsOf(querySource), keys = lengthsOf(keySource);
  if (!rows)
    rows = sq = dim(op.getQuery());
  captures.insert(rows);
  if (!keys) {
    keys = sk = dim(op.getKey());
    if (keySource.is(SourceKind::paged))
      keys = sk = capacity(sk);
  }
  captures.insert(keys);
  return success();
}

Block *Rewriter::openRegion(Region &region, TypeRange types) {
  Block *block = b.createBlock(&region);
  for (Type type : types)
    block->addArgument(type, loc);
  captured.clear();
  for (Value value : captures)
    captured[value] = block->addArgument(value.getType(), loc);
  return block;
}

Value Rewriter::in(Value outer) {
  if (Value argument = captured.lookup(outer))
    return argument;
  RegionCloner cloner(b);
  return captured[outer] = cloner.get(outer);
}

Value Rewriter::extractAt(Value tensor, ArrayRef<Value> positions) {
  auto type = cast<RankedTensorType>(tensor.getType());
  SmallVector<Value> indices;
  for (auto [dim, position] :
       llvm::enumerate(positions.take_back(type.getRank()))) {
    if (type.getDimSize(dim) == 1)
      indices.push_back(arith::ConstantIndexOp::create(b, loc, 0));
    else
      indices.push_back(
          arith::IndexCastOp::create(b, loc, b.getIndexType(), position));
  }
  return tensor::ExtractOp::create(b, loc, in(tensor), indices);
}

Value Rewriter::extractBroadcast(Value tensor, const Position &at) {
  return extractAt(tensor, {at.batch, at.head, at.row, at.key});
}

Value Rewriter::toF32(Value value) {
  if (value.getType().isF32())
    return value;
  return arith::ExtFOp::create(b, loc, b.getF32Type(), value);
}

/// cu[batch + 1] - cu[batch]
static Value packedLength(OpBuilder &b, Location loc, Value cu, Value batch) {
  Value index = arith::IndexCastOp::create(b, loc, b.getIndexType(), batch);
  Value one = arith::ConstantIndexOp::create(b, loc, 1);
  Value next = arith::AddIOp::create(b, loc, index, one);
  Value first = tensor::ExtractOp::create(b, loc, cu, ValueRange(index));
  Value last = tensor::ExtractOp::create(b, loc, cu, ValueRange(next));
  return arith::SubIOp::create(b, loc, last, first);
}

Value Rewriter::capacity(Value page) {
  Value pages = tensor::DimOp::create(b, loc, keySource.map, 1);
  pages = arith::IndexCastOp::create(b, loc, b.getI32Type(), pages);
  return arith::MulIOp::create(b, loc, pages, page);
}

Value Rewriter::ofBatch(Value tensor, Value batch) {
  Value index = arith::IndexCastOp::create(b, loc, b.getIndexType(), batch);
  return tensor::ExtractOp::create(b, loc, in(tensor), ValueRange(index));
}

Value Rewriter::lengthOf(const Source &source, Value size, Value batch) {
  Value lengths = lengthsOf(source);
  if (!lengths)
    return in(size);
  return source.lengths ? ofBatch(lengths, batch)
                        : packedLength(b, loc, in(lengths), batch);
}

Value Rewriter::position(const Position &at) {
  if (!op.getKStart())
    return at.key;
  return arith::AddIOp::create(b, loc, at.key,
                               ofBatch(op.getKStart(), at.batch));
}

Value Rewriter::diagonal(const Position &at, Causal alignment) {
  if (alignment == Causal::top_left)
    return at.row;
  Value offset =
      arith::SubIOp::create(b, loc, numKeys(at.batch), numQueries(at.batch));
  return arith::AddIOp::create(b, loc, at.row, offset);
}

void Rewriter::buildScore(Region &region) {
  Type f32 = b.getF32Type(), i32 = b.getI32Type();
  Block *block = openRegion(region, {f32, i32, i32, i32, i32});
  auto args = block->getArguments();
  Position at{args[1], args[2], args[3], args[4]};
  Value x = args[0];

  Value factor;
  if (op.getScale()) {
    factor = in(op.getScale());
  } else {
    auto type = cast<RankedTensorType>(op.getQuery().getType());
    int64_t depth = std::max<int64_t>(type.getShape().back(), 1);
    factor = arith::ConstantFloatOp::create(
        b, loc, b.getF32Type(),
        APFloat(static_cast<float>(1.0 / std::sqrt(double(depth)))));
  }
  if (op.getSoftcap()) {
    // One factor for scale / cap: a quotient per score would cost more than
    // the hyperbolic tangent.
    // An infinite cap is none: from 2^90 on the tangent gives back what it
    // takes. A quotient that overflows stays finite, and 0 times it 0.
    auto number = [&](float value) -> Value {
      return arith::ConstantFloatOp::create(b, loc, b.getF32Type(),
                                            APFloat(value));
    };
    constexpr float largest = std::numeric_limits<float>::max();
    Value cap =
        arith::MinimumFOp::create(b, loc, in(op.getSoftcap()), number(0x1p90f));
    factor = arith::DivFOp::create(b, loc, factor, cap);
    factor = arith::MinimumFOp::create(b, loc, factor, number(largest));
    factor = arith::MaximumFOp::create(b, loc, factor, number(-largest));
    Value ratio = arith::MulFOp::create(b, loc, x, factor);
    Value bounded = math::TanhOp::create(b, loc, ratio);
    x = arith::MulFOp::create(b, loc, cap, bounded);
  } else {
    x = arith::MulFOp::create(b, loc, x, factor);
  }
  if (!op.getScore().empty()) {
    SmallVector<Value> inputs = {x, at.batch, at.head, at.row, position(at)};
    llvm::append_range(inputs, in(op.getCaptures()));
    x = inlineRegion(b, op.getScore(), inputs).front();
  }
  if (op.getBias()) {
    Value bias = toF32(extractBroadcast(op.getBias(), at));
    // A bias of -inf is a mask: it also hides a NaN.
    Value dead = arith::CmpFOp::create(
        b, loc, arith::CmpFPredicate::OEQ, bias,
        arith::ConstantFloatOp::create(
            b, loc, b.getF32Type(),
            APFloat(-std::numeric_limits<float>::infinity())));
    Value sum = arith::AddFOp::create(b, loc, x, bias);
    x = arith::SelectOp::create(b, loc, dead, bias, sum);
  }
  if (op.getAlibi()) {
    Value slope = extractAt(op.getAlibi(), {at.batch, at.head});
    Value now = diagonal(at, Causal::bottom_right);
    Value distance = arith::SubIOp::create(b, loc, now, at.key);
    Value magnitude = math::AbsIOp::create(b, loc, distance);
    Value length = arith::SIToFPOp::create(b, loc, f32, magnitude);
    Value penalty = arith::MulFOp::create(b, loc, slope, length);
    x = arith::SubFOp::create(b, loc, x, penalty);
  }
  yield(x);
}

void Rewriter::buildMask(Region &region) {
  Type i32 = b.getI32Type();
  Block *block = openRegion(region, {i32, i32, i32, i32});
  auto args = block->getArguments();
  Position at{args[0], args[1], args[2], args[3]};
  Value live;
  auto require = [&](Value term) {
    live = live ? arith::AndIOp::create(b, loc, live, term).getResult() : term;
  };
  using Predicate = arith::CmpIPredicate;

  Causal causal = op.getCausal();
  bool windowed = op.getWindowLeft() || op.getWindowRight();
  if (causal != Causal::none || windowed) {
    // Windows without causality are relative to the bottom-right diagonal, as
    // flash-attention has it.
    Value now =
        diagonal(at, causal == Causal::none ? Causal::bottom_right : causal);
    Value key = causal == Causal::top_left ? position(at) : at.key;
    if (causal != Causal::none)
      require(arith::CmpIOp::create(b, loc, Predicate::sle, key, now));
    // Distances are compared, not positions: a window of INT_MAX is legal.
    auto within = [&](Value window, Value from, Value to) {
      if (!window)
        return;
      Value size = in(window);
      Value distance = arith::SubIOp::create(b, loc, to, from);
      Value inside =
          arith::CmpIOp::create(b, loc, Predicate::sle, distance, size);
      Value unbounded =
          arith::CmpIOp::create(b, loc, Predicate::slt, size, constantI32(0));
      require(arith::OrIOp::create(b, loc, unbounded, inside));
    };
    within(op.getWindowLeft(), key, now);
    within(op.getWindowRight(), now, key);
  }
  if (op.getMaskTensor()) {
    Value element = extractBroadcast(op.getMaskTensor(), at);
    if (!element.getType().isInteger(1)) {
      Value zero = arith::ConstantIntOp::create(b, loc, element.getType(), 0);
      element = arith::CmpIOp::create(b, loc, Predicate::ne, element, zero);
    }
    require(element);
  }
  if (!op.getMask().empty()) {
    SmallVector<Value> inputs = {at.batch, at.head, at.row, position(at)};
    llvm::append_range(inputs, in(op.getCaptures()));
    require(inlineRegion(b, op.getMask(), inputs).front());
  }
  yield(live);
}

/// The pairs whose values are dropped. Keys are those of the call, as for masks
/// and biases: the first is 0 whatever its position is.
void Rewriter::buildFactor(Region &region) {
  Type i32 = b.getI32Type();
  Block *block = openRegion(region, {i32, i32, i32, i32});
  auto args = block->getArguments();
  Value p = in(op.getDropout());
  SmallVector<Value> rng = in(op.getDropoutRng());
  yield(buildDropoutFactor(b, loc, p, rng, args[0], args[1], args[2], args[3]));
}

void Rewriter::buildInit(Region &region) {
  Type i32 = b.getI32Type();
  Block *block = openRegion(region, {i32, i32, i32});
  auto args = block->getArguments();
  SmallVector<Value> inputs = {extractAt(op.getSinks(), {args[0], args[1]})};
  llvm::append_range(inputs, in(op.getParams()));
  SmallVector<Value> state = inlineRegion(b, monoid.getLift(), inputs);
  // A sink is a key without a value: it enters the unit components only. One of
  // -inf is no key, and its state the identity.
  unsigned numStats = monoid.getNumStats();
  auto constant = [&](float x) -> Value {
    return arith::ConstantFloatOp::create(b, loc, b.getF32Type(), APFloat(x));
  };
  Value zero = constant(0.0f);
  Value dead =
      arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, inputs[0],
                            constant(-std::numeric_limits<float>::infinity()));
  SmallVector<Value> identity =
      inlineRegion(b, monoid.getIdentity(), ValueRange(inputs).drop_front());
  for (unsigned i = 0; i < numStats; ++i)
    state[i] = arith::SelectOp::create(b, loc, dead, identity[i], state[i]);
  for (unsigned i = 0, e = monoid.getNumComponents(); i < e; ++i) {
    Value &component = state[numStats + i];
    component = monoid.getComponent(i) == Component::value
                    ? zero
                    : arith::SelectOp::create(b, loc, dead, zero, component)
                          .getResult();
  }
  yield(state);
}

void Rewriter::buildFinalize(Region &region, ArrayRef<unsigned> used) {
  Region &source = monoid.getFinalize();
  unsigned numState = monoid.getNumStats() + monoid.getNumComponents();
  SmallVector<Type> types(llvm::make_filter_range(source.getArgumentTypes(),
                                                  [](Type) { return true; }));
  types.truncate(numState);
  types.append(3, b.getI32Type());
  Block *block = openRegion(region, types);
  RegionCloner cloner(b);
  cloner.map(source.getArguments().take_front(numState),
             block->getArguments().take_front(numState));
  for (auto [argument, param] :
       llvm::zip(source.getArguments().drop_front(numState), op.getParams()))
    cloner.map(argument, in(param));
  SmallVector<Value> results;
  for (unsigned i : used)
    results.push_back(cloner.get(getYielded(source)[i]));
  yield(results);
}

/// Queries stand where the last keys do, but where a diagonal begins with both.
void Rewriter::buildRotate(Region &region, bool ofKeys) {
  Type f32 = b.getF32Type(), i32 = b.getI32Type();
  Block *block = openRegion(region, {f32, f32, i32, i32, i32, i32});
  SmallVector<Value> inputs(block->getArguments().take_front(6));
  Position at{inputs[2], inputs[3], inputs[4], inputs[4]};
  Value &number = inputs[4];
  bool isTopLeft = op.getCausal() == Causal::top_left;
  if (!ofKeys && !isTopLeft)
    at.key = number = diagonal(at, Causal::bottom_right);
  if (!op.getRotateBySlot() && (ofKeys || !isTopLeft))
    number = position(at);
  llvm::append_range(inputs, in(op.getTables()));
  yield(inlineRegion(b, op.getRotate(), inputs));
}

LogicalResult Rewriter::run() {
  SmallVector<unsigned> used;
  SmallVector<Type> types;
  for (OpResult result : op->getResults()) {
    if (result.use_empty())
      continue;
    used.push_back(result.getResultNumber());
    types.push_back(result.getType());
  }
  if (used.empty()) {
    op.erase();
    return success();
  }
  if (failed(collectCaptures()))
    return failure();

  auto aggregate = AggregateOp::create(
      b, loc, types, FlatSymbolRefAttr::get(b.getContext(), op.getMonoid()),
      op.getParams(), ValueRange(op.getQuery()), ValueRange(op.getKey()),
      op.getValue(), captures.getArrayRef(), querySource.getOperands(),
      keySource.getOperands(), /*row_base=*/Value(), /*key_base=*/Value(),
      querySource.getForm(b.getContext()), keySource.getForm(b.getContext()),
      SideAttr::get(b.getContext(), Side::keys), op.getScheduleAttr(),
      op.getPrecisionAttr(), op.getBatchInvariantAttr(), op.getRotaryAttr());
  for (StringRef name : {getDispatchAttrName(), getRungAttrName()})
    if (Attribute attribute = op->getAttr(name))
      aggregate->setAttr(name, attribute);
  aggregate.setPartKeys(op.getPartKeys());
  if (IntegerAttr levels = op.getCascadeAttr()) {
    aggregate.setCascade(op.getCausal());
    aggregate.setCascadeLevelsAttr(levels);
  }
  buildScore(aggregate.getScore());
  if (hasMask())
    buildMask(aggregate.getMask());
  if (op.getDropout())
    buildFactor(aggregate.getFactor());
  if (op.getSinks())
    buildInit(aggregate.getInit());
  buildFinalize(aggregate.getFinalize(), used);
  if (op.getRotary()) {
    buildRotate(aggregate.getRotateQueries(), /*ofKeys=*/false);
    buildRotate(aggregate.getRotateKeys(), /*ofKeys=*/true);
  }
  for (auto [index, result] : llvm::zip(used, aggregate.getResults()))
    op->getResult(index).replaceAllUsesWith(result);
  op.erase();
  return success();
}

namespace {
struct ToAggregatePass
    : ::attn::impl::AttnToAggregatePassBase<ToAggregatePass> {
  void runOnOperation() final {
    SmallVector<AttentionOp> ops;
    getOperation().walk([&](AttentionOp op) { ops.push_back(op); });
    for (AttentionOp op : ops) {
      MonoidOp monoid = lookupMonoid(
          op, FlatSymbolRefAttr::get(op.getContext(), op.getMonoid()));
      if (!monoid) {
        op.emitOpError("expected '")
            << op.getMonoid()
            << "' to be an attn.monoid of this module; attn-import-prelude "
               "adds those that ship";
        return signalPassFailure();
      }
      if (failed(Rewriter(op, monoid).run()))
        return signalPassFailure();
    }
  }
};
} // namespace
