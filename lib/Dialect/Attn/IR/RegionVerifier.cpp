//===- RegionVerifier.cpp - What regions of attn ops may hold -------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
// Checks that the verifiers of several ops share. The labels (C1), (C2) ... at
// their callers are those of docs/Semantics.md.
//===----------------------------------------------------------------------===//

#include "RegionVerifier.h"
#include "attn/Dialect/Attn/Prelude/Prelude.h"
#include "attn/Support/MostCounted.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace mlir::attn;

//===----------------------------------------------------------------------===//
// Regions
//===----------------------------------------------------------------------===//

static std::string printTypes(TypeRange types) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << '(';
  llvm::interleaveComma(types, stream);
  stream << ')';
  return text;
}

static bool isScalar(Type type) {
  return type.isIntOrIndex() || type.isF32() || type.isF16() || type.isBF16() ||
         type.isF64();
}

static LogicalResult verifyBodyOp(Operation &op, Region &region,
                                  StringRef name) {
  auto reject = [&]() -> InFlightDiagnostic {
    return op.emitOpError("in region '") << name << "': ";
  };
  Dialect *dialect = op.getDialect();
  bool isExtract = isa<tensor::ExtractOp>(op);
  if (!isExtract &&
      !isa_and_nonnull<arith::ArithDialect, math::MathDialect>(dialect))
    return reject() << "expected operations of arith and math, and "
                       "tensor.extract";
  // An exponential may be approximate; what it makes of -inf and NaN stays.
  bool mayApproximate = isa<math::ExpOp, math::Exp2Op>(op);
  if (auto fast = dyn_cast<arith::ArithFastMathInterface>(op))
    if (auto flags = fast.getFastMathFlagsAttr();
        flags && flags.getValue() != arith::FastMathFlags::none &&
        !(mayApproximate && flags.getValue() == arith::FastMathFlags::afn))
      return reject() << "expected no fast-math flags (-inf and NaN are values "
                         "here)"
                      << (mayApproximate ? " but afn" : "") << ", but got "
                      << arith::stringifyFastMathFlags(flags.getValue());
  for (Value operand : op.getOperands()) {
    if (operand.getParentRegion() != &region)
      return reject() << "expected operands from inside the region; list what "
                         "it reads from outside in captures(...)";
    bool isCapturedTensor = isExtract && operand == op.getOperand(0);
    if (isCapturedTensor && !isa<BlockArgument>(operand))
      return reject() << "expected a tensor that the region takes as argument";
    if (!isCapturedTensor && !isScalar(operand.getType()))
      return reject() << "expected scalar operands, but got "
                      << operand.getType();
  }
  for (Type type : op.getResultTypes())
    if (!isScalar(type))
      return reject() << "expected scalar results, but got " << type;
  return success();
}

LogicalResult mlir::attn::verifyBody(Operation *op, Region &region,
                                     StringRef name, TypeRange arguments) {
  if (!region.hasOneBlock())
    return op->emitOpError("expected region '") << name << "' to be one block";
  if (region.getArgumentTypes() != arguments)
    return op->emitOpError("expected region '")
           << name << "' to take " << printTypes(arguments) << ", but it takes "
           << printTypes(region.getArgumentTypes());
  Block &block = region.front();
  if (block.empty() || !isa<YieldOp>(block.back()))
    return op->emitOpError("expected region '")
           << name << "' to end with attn.yield";
  for (Operation &inner : block.without_terminator())
    if (failed(verifyBodyOp(inner, region, name)))
      return failure();
  for (Value operand : block.back().getOperands())
    if (operand.getParentRegion() != &region)
      return block.back().emitOpError("in region '")
             << name
             << "': expected operands from inside the region; list what it "
                "reads from outside in captures(...)";
  return success();
}

LogicalResult mlir::attn::verifyAttributes(Operation *op) {
  for (NamedAttribute attribute : op->getDiscardableAttrs()) {
    StringRef name = attribute.getName();
    if (!name.contains('.') && name != SymbolTable::getVisibilityAttrName())
      return op->emitOpError("expected attributes that it has, or of a "
                             "dialect, but got '")
             << name << "'";
  }
  return success();
}

LogicalResult mlir::attn::verifyYield(Operation *op, Region &region,
                                      StringRef name, TypeRange types) {
  TypeRange yielded = region.front().back().getOperandTypes();
  if (yielded == types)
    return success();
  return op->emitOpError("expected region '")
         << name << "' to yield " << printTypes(types) << ", but it yields "
         << printTypes(yielded);
}

LogicalResult mlir::attn::verifyYieldsFloats(Operation *op, Region &region,
                                             StringRef name, int64_t count) {
  if (region.front().empty() || !isa<YieldOp>(region.front().back()))
    return op->emitOpError("expected region '")
           << name << "' to end with attn.yield";
  TypeRange yielded = region.front().back().getOperandTypes();
  bool countFits =
      count < 0 ? !yielded.empty() : int64_t(yielded.size()) == count;
  if (countFits && llvm::all_of(yielded, [](Type t) { return t.isF32(); }))
    return success();
  InFlightDiagnostic error = op->emitOpError("expected region '")
                             << name << "' to yield ";
  if (count < 0)
    error << "one or more f32";
  else
    error << count << " f32";
  return error << ", but it yields " << printTypes(yielded);
}

FailureOr<MonoidOp> mlir::attn::resolveMonoid(Operation *op,
                                              SymbolTableCollection &symbols) {
  FlatSymbolRefAttr ref = getMonoidRef(op);
  Operation *found = symbols.lookupNearestSymbolFrom(op, ref);
  if (auto monoid = dyn_cast_or_null<MonoidOp>(found))
    return monoid;
  if (found)
    return op->emitOpError("expected a monoid symbol, but '@")
           << ref.getValue() << "' is a '" << found->getName() << "'";
  if (::attn::isShippedMonoid(ref.getValue()))
    return MonoidOp();
  return op->emitOpError("expected a monoid symbol, but '@")
         << ref.getValue() << "' is not defined; shipped monoids are: "
         << ::attn::shippedMonoidNames();
}

//===----------------------------------------------------------------------===//
// Shapes
//===----------------------------------------------------------------------===//

static LogicalResult verifyOperand(Operation *op, StringRef role, Value value,
                                   const Source &source) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  int64_t rank = source.numLeading() + 2;
  if (!type || type.getRank() != rank)
    return op->emitOpError("expected ")
           << role << " to be a tensor of rank " << rank
           << (source.is(SourceKind::varlen)  ? " [heads, rows, d] (packed)"
               : source.is(SourceKind::paged) ? " [pages, heads, page, d]"
                                              : " [batch, heads, rows, d]")
           << ", but got " << value.getType();
  if (type.getShape().back() < 1) // dynamic sizes are negative
    return op->emitOpError("expected the head dimension of ")
           << role << " to be static and positive, but got " << type;
  if (type.getShape().back() > ::attn::mostCounted)
    return op->emitOpError("expected the head dimension of ")
           << role << " to be at most " << ::attn::mostCounted << ", but got "
           << type;
  return success();
}

int64_t mlir::attn::getNumSequences(const Source &source) {
  if (!source.map)
    return ShapedType::kDynamic;
  int64_t size = cast<ShapedType>(source.map.getType()).getDimSize(0);
  return ShapedType::isDynamic(size) ? size : size - 1;
}

/// Index operands: how many, and of which rank.
static LogicalResult verifySource(Operation *op, StringRef role,
                                  const Source &source) {
  auto verifyRank = [&](StringRef what, Value value,
                        int64_t rank) -> LogicalResult {
    if (!value || cast<ShapedType>(value.getType()).getRank() == rank)
      return success();
    return op->emitOpError("expected ")
           << what << " of " << role << " to be a tensor of rank " << rank
           << ", but got " << value.getType();
  };
  bool isTable = source.is(SourceKind::paged);
  return success(
      succeeded(verifyRank("the lengths", source.lengths, 1)) &&
      succeeded(verifyRank(isTable                         ? "the table"
                           : source.is(SourceKind::varlen) ? "row offsets"
                                                           : "the start",
                           source.map, isTable ? 2 : 1)));
}

namespace {

/// The shapes of queries, keys and values beside each other, and their sources.
class ShapeVerifier {
public:
  ShapeVerifier(Operation *op, ValueRange queries, ValueRange keys,
                ValueRange values, const Source &querySource,
                const Source &keySource, Side side)
      : op(op), queries(queries), keys(keys), values(values),
        querySource(querySource), keySource(keySource),
        overKeys(side == Side::keys), rows(overKeys ? "queries" : "keys"),
        reduced(overKeys ? "keys" : "queries"),
        packed(querySource.is(SourceKind::varlen)) {}
  LogicalResult verify();

private:
  LogicalResult verifySources();
  LogicalResult verifyOperands();
  LogicalResult verifyPairs();
  LogicalResult verifyReduced();
  LogicalResult verifyHeads();
  LogicalResult verifyValues();
  LogicalResult verifySequences();
  LogicalResult mismatch(const Twine &what, int64_t want, int64_t got) {
    return op->emitOpError("expected ")
           << what << " " << want << ", but got " << got;
  }
  static int64_t countOf(Value vector) {
    return cast<ShapedType>(vector.getType()).getDimSize(0);
  }

  Operation *op;
  ValueRange queries, keys, values;
  const Source &querySource, &keySource;
  bool overKeys;
  /// What has the rows, and what is reduced.
  std::string rows, reduced;
  bool packed;
};

} // namespace

LogicalResult ShapeVerifier::verifySources() {
  if (keySource.is(SourceKind::varlen) ? !packed
                                       : packed && keySource.hasBatch())
    return op->emitOpError("expected row offsets of queries and of keys "
                           "together, but got one of them");
  if (keySource.is(SourceKind::varlen) && keySource.lengths)
    return op->emitOpError("expected key lengths or packed row offsets, but "
                           "got both");
  // Rows that nobody asks for have states, but no results.
  bool mayEnd = !querySource.lengths || (isa<PartialOp>(op) && !packed);
  if ((!querySource.is(SourceKind::dense) && !packed) || !mayEnd)
    return op->emitOpError("expected ")
           << rows << " that are dense or packed; pages, rings and lengths are "
           << "of " << reduced;
  return success(succeeded(verifySource(op, rows, querySource)) &&
                 succeeded(verifySource(op, reduced, keySource)));
}

LogicalResult ShapeVerifier::verifyOperands() {
  for (auto [role, operands, source] :
       {std::tuple<std::string, ValueRange, const Source &>(
            "the " + rows, queries, querySource),
        {"the " + reduced, keys, keySource},
        {"the values", values, keySource}})
    for (Value value : operands)
      if (failed(verifyOperand(op, role, value, source)))
        return failure();
  return success();
}

/// Each pair beside its own, and all rows beside the first ones.
LogicalResult ShapeVerifier::verifyPairs() {
  OperandShape q(queries[0], querySource);
  for (auto [query, key] : llvm::zip(queries, keys)) {
    OperandShape qi(query, querySource), ki(key, keySource);
    if (qi.depth() != ki.depth())
      return mismatch("the " + reduced + " to have the head dimension of the " +
                          rows + ",",
                      qi.depth(), ki.depth());
    if (qi.element() != ki.element())
      return op->emitOpError("expected the ")
             << reduced << " to have the element type of the " << rows << ", "
             << qi.element() << ", but got " << ki.element();
    if (contradict(q.heads(), qi.heads()))
      return mismatch("all " + rows + " to have the heads of the first,",
                      q.heads(), qi.heads());
    if (contradict(q.length(), qi.length()))
      return mismatch("all " + rows + " to have the rows of the first,",
                      q.length(), qi.length());
    if (contradict(q.batch(), qi.batch()))
      return mismatch("the " + rows + " to have a batch of", q.batch(),
                      qi.batch());
  }
  return success();
}

/// What is reduced, and the values with it, beside the first of it.
LogicalResult ShapeVerifier::verifyReduced() {
  OperandShape q(queries[0], querySource), k(keys[0], keySource);
  SmallVector<Value> all(keys);
  llvm::append_range(all, values);
  for (Value value : all) {
    OperandShape shape(value, keySource);
    if (contradict(k.heads(), shape.heads()))
      return mismatch(reduced + " and values to have the same number of heads,",
                      k.heads(), shape.heads());
    if (contradict(k.length(), shape.length()))
      return mismatch(reduced + " and values to have the same number of rows,",
                      k.length(), shape.length());
    if (contradict(q.batch(), shape.batch()))
      return mismatch(reduced + " and values to have the batch of the " + rows +
                          ",",
                      q.batch(), shape.batch());
  }
  return success();
}

LogicalResult ShapeVerifier::verifyHeads() {
  int64_t hq = OperandShape(queries[0], querySource).heads();
  int64_t hk = OperandShape(keys[0], keySource).heads();
  if (!overKeys)
    std::swap(hq, hk);
  if (!ShapedType::isDynamic(hq) && !ShapedType::isDynamic(hk) &&
      (hk == 0 ? hq != 0 : hq % hk != 0)) {
    InFlightDiagnostic diag =
        op->emitOpError("expected the number of query heads to be a multiple "
                        "of the number of key heads, but got ")
        << hq << " and " << hk;
    // Rows that are keys, and queries that are reduced over, look so.
    if (overKeys && hq && hk % hq == 0 && isa<ReductionOpInterface>(op))
      diag << "; a reduction over the queries of a key head has "
              "{side = #attn.side<queries>}";
    return diag;
  }
  return success();
}

LogicalResult ShapeVerifier::verifyValues() {
  for (Value value : values) {
    OperandShape first(values[0], keySource), shape(value, keySource);
    if (first.depth() != shape.depth())
      return mismatch("all values to have the channels of the first,",
                      first.depth(), shape.depth());
    if (first.element() != shape.element())
      return op->emitOpError("expected all values to have the element type of "
                             "the first, ")
             << first.element() << ", but got " << shape.element();
  }
  return success();
}

/// What sources say of each sequence.
LogicalResult ShapeVerifier::verifySequences() {
  int64_t batches = OperandShape(queries[0], querySource).sequences();
  if (keySource.lengths && contradict(countOf(keySource.lengths), batches))
    return mismatch("one key length for each batch,", batches,
                    countOf(keySource.lengths));
  if (!keySource.map)
    return success();
  int64_t count = countOf(keySource.map);
  bool areOffsets = keySource.is(SourceKind::varlen);
  if (areOffsets && contradict(countOf(querySource.map), count))
    return mismatch("as many row offsets of keys as of queries,",
                    countOf(querySource.map), count);
  if (!areOffsets && contradict(count, batches))
    return mismatch(keySource.is(SourceKind::paged)
                        ? "one row of the table for each batch,"
                        : "one start for each batch,",
                    batches, count);
  if ((packed && countOf(querySource.map) == 0) || (areOffsets && count == 0))
    return mismatch("row offsets with a first entry, so a size of at least", 1,
                    0);
  return success();
}

LogicalResult ShapeVerifier::verify() {
  if (queries.empty() || queries.size() != keys.size())
    return op->emitOpError("expected one or more pairs of queries and keys, "
                           "but got ")
           << queries.size() << " and " << keys.size();
  for (auto step :
       {&ShapeVerifier::verifySources, &ShapeVerifier::verifyOperands,
        &ShapeVerifier::verifyPairs, &ShapeVerifier::verifyReduced,
        &ShapeVerifier::verifyHeads, &ShapeVerifier::verifyValues,
        &ShapeVerifier::verifySequences})
    if (failed((this->*step)()))
      return failure();
  return success();
}

LogicalResult mlir::attn::verifyOperandShapes(
    Operation *op, ValueRange queries, ValueRange keys, ValueRange values,
    const Source &querySource, const Source &keySource, Side side) {
  return ShapeVerifier(op, queries, keys, values, querySource, keySource, side)
      .verify();
}

SmallVector<int64_t> mlir::attn::getRowShape(Value query) {
  auto shape = cast<RankedTensorType>(query.getType()).getShape();
  return SmallVector<int64_t>(shape.drop_back());
}

LogicalResult mlir::attn::verifyRowTensor(Operation *op, StringRef what,
                                          unsigned index, Type type,
                                          ArrayRef<int64_t> rows,
                                          bool perChannel, int64_t channels,
                                          bool onlyF32) {
  SmallVector<int64_t> shape(rows);
  if (perChannel)
    shape.push_back(channels);
  Type f32 = Float32Type::get(op->getContext());
  auto tensor = dyn_cast<RankedTensorType>(type);
  bool fits = tensor && tensor.getRank() == int64_t(shape.size());
  for (unsigned i = 0; fits && i < shape.size(); ++i)
    fits = !contradict(shape[i], tensor.getDimSize(i));
  // Channels are static everywhere.
  if (fits && perChannel && tensor.isDynamicDim(tensor.getRank() - 1))
    return op->emitOpError("expected the channels of ")
           << what << " " << index << " to be static, but got " << type;
  if (!fits)
    return op->emitOpError("expected ")
           << what << " " << index << " to be a tensor like "
           << RankedTensorType::get(shape, f32) << ", but got " << type;
  if ((onlyF32 || !perChannel) && !tensor.getElementType().isF32())
    return op->emitOpError("expected ")
           << what << " " << index << (perChannel ? "" : ", one per row,")
           << " to be of f32, but got " << type;
  return success();
}
