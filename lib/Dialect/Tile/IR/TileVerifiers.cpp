//===- TileVerifiers.cpp - Verifiers of the tile dialect ------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
// The labels (C1), (C2) ... are those of docs/Semantics.md.
//===----------------------------------------------------------------------===//

#include "attn/Dialect/Tile/IR/BitWords.h"
#include "attn/Dialect/Tile/IR/KernelOps.h"
#include "attn/Dialect/Tile/IR/Prefetch.h"
#include "attn/Dialect/Tile/IR/Tile.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/Support/InterleavedRange.h"

using namespace mlir;
using namespace mlir::tile;

static std::string printTypes(TypeRange types) {
  return '(' + llvm::interleaved(types).str() + ')';
}

static TileType tileOf(Value value) { return cast<TileType>(value.getType()); }

/// `type`, but with other sizes.
static TileType resized(TileType type, int64_t rows, int64_t cols) {
  return TileType::get(type.getContext(), rows, cols, type.getElementType());
}

static void appendElements(SmallVectorImpl<Type> &types, ValueRange tiles) {
  for (Value tile : tiles)
    types.push_back(tileOf(tile).getElementType());
}

/// Checks the arguments of a body and what it yields.
static LogicalResult verifyBody(Operation *op, Region &body,
                                TypeRange arguments, TypeRange yields) {
  if (body.getArgumentTypes() != arguments)
    return op->emitOpError("expected its body to take ")
           << printTypes(arguments) << ", but it takes "
           << printTypes(body.getArgumentTypes());
  Block &block = body.front();
  if (block.empty() || !isa<YieldOp>(block.back()))
    return op->emitOpError("expected its body to end with tile.yield");
  if (block.back().getOperandTypes() != yields)
    return op->emitOpError("expected its body to yield ")
           << printTypes(yields) << ", but it yields "
           << printTypes(block.back().getOperandTypes());
  return success();
}

static LogicalResult verifyResults(Operation *op, TypeRange types) {
  if (op->getResultTypes() == types)
    return success();
  return op->emitOpError("expected results of types ")
         << printTypes(types) << ", but got "
         << printTypes(op->getResultTypes());
}

//===----------------------------------------------------------------------===//
// LoadOp, StoreOp
//===----------------------------------------------------------------------===//

/// The constraints that loads and stores share: (C1) one index per dimension,
/// (C2) unit stride, (C3) element types that convert, (C4) the vector form,
/// (C5) both bounds.
static LogicalResult verifyAccess(Operation *op, StringRef memory, Value from,
                                  unsigned numIndices, bool isVector,
                                  TileType tile, bool hasLower, bool hasUpper,
                                  bool isTransposed = false) {
  int64_t leastRank = isVector ? 1 : 2, rank;
  Type element;
  if (auto source = dyn_cast<SourceType>(from.getType())) {
    // (C7) Which dimension counts positions, the source says.
    auto def = from.getDefiningOp<SourceOp>();
    if (!def || def.getVector() != isVector)
      return op->emitOpError("expected the ")
             << memory << " to be the result of a tile.source "
             << (isVector ? "of vectors" : "with columns")
             << ", as the tile is, but got another value";
    rank = source.getRank();
    element = source.getElementType();
  } else {
    auto memref = cast<MemRefType>(from.getType());
    rank = memref.getRank();
    element = memref.getElementType();
    int64_t offset;
    SmallVector<int64_t> strides;
    if (rank == int64_t(numIndices) && rank >= leastRank &&
        (failed(memref.getStridesAndOffset(strides, offset)) ||
         (!isVector && strides.back() != 1)))
      return op->emitOpError("expected the ")
             << memory << " to have unit stride in its last dimension, but got "
             << memref;
  }
  if (rank < leastRank || rank != int64_t(numIndices))
    return op->emitOpError("expected one index for each dimension of the ")
           << memory << ", " << leastRank << " or more, but got " << numIndices
           << " for " << from.getType();
  bool converts =
      isa<FloatType>(element) && isa<FloatType>(tile.getElementType());
  if (!converts && element != tile.getElementType())
    return op->emitOpError("expected a tile of the ")
           << memory << "'s element type " << element << ", but got " << tile;
  if (isVector && (isTransposed ? tile.getRows() : tile.getCols()) != 1)
    return op->emitOpError("expected a tile of one ")
           << (isTransposed ? "row for a transposed" : "column for a")
           << " vector, but got " << tile;
  if (hasLower != hasUpper)
    return op->emitOpError("expected both bounds of the rows or neither");
  return success();
}

LogicalResult LoadOp::verify() {
  if (failed(verifyAccess(*this, "source", getSource(), getIndices().size(),
                          getVector(), getType(), static_cast<bool>(getLower()),
                          static_cast<bool>(getUpper()), getTransposed())))
    return failure();
  if (getNotCleared() && (!getUpper() || getLive()))
    return emitOpError("expected not_cleared with bounds, and without live");
  // (C6)
  if (!getLive())
    return success();
  TileType live = getLive().getType();
  if (live.getRows() != 1 || live.getCols() != getMemoryRows() ||
      !live.getElementType().isInteger(1))
    return emitOpError("expected live to be a 1x")
           << getMemoryRows() << " tile of i1, but got " << live;
  return success();
}

LogicalResult StoreOp::verify() {
  if (failed(verifyAccess(*this, "destination", getDestination(),
                          getIndices().size(), getVector(), tileOf(getValue()),
                          static_cast<bool>(getLower()),
                          static_cast<bool>(getUpper()), getTransposed())))
    return failure();
  // (C8)
  auto source = getDestination().getDefiningOp<SourceOp>();
  if (source && !source.isContiguous())
    return emitOpError("expected a destination whose rows lie one after the "
                       "other; pages and rings are read only");
  return success();
}

LogicalResult ElementOp::verify() {
  auto type = TileType::getChecked([&] { return emitOpError(); }, getContext(),
                                   int64_t(1), int64_t(1), getType());
  if (!type)
    return failure();
  // (C1)
  auto source = dyn_cast<SourceType>(getSource().getType());
  Type element = source
                     ? source.getElementType()
                     : cast<MemRefType>(getSource().getType()).getElementType();
  if (element != getType())
    return emitOpError("expected an element of the source, but got ")
           << getType();
  // One of a matrix is indexed as that is.
  auto opened = getSource().getDefiningOp<SourceOp>();
  bool isVector = !opened || opened.getVector();
  return verifyAccess(*this, "source", getSource(), getIndices().size(),
                      isVector, type, /*hasLower=*/false, /*hasUpper=*/false);
}

LogicalResult SourceOp::verify() {
  // (C1)
  if (!!getOffsets() + !!getTable() + !!getStart() > 1)
    return emitOpError("expected one of varlen, paged and ring");
  if (getAligned() && !getTable())
    return emitOpError("expected pages where tiles are aligned to these");
  if (std::optional<int64_t> boxes = getBoxes()) {
    if (!getTable() || getAligned())
      return emitOpError(
          "expected pages, to which tiles are not aligned, where "
          "boxes of rows are");
    int64_t page = getMemoryType().getDimSize(getRowDim());
    if (*boxes < 1 || ShapedType::isDynamic(page) || page % *boxes)
      return emitOpError("expected boxes of a number of rows that divides a "
                         "page of a known number, but got ")
             << *boxes << " and memory " << getMemoryType();
  }
  // (C2)
  MemRefType memory = getMemoryType();
  int64_t least = (getOffsets() ? 2 : 3) + !getVector();
  bool exact = getTable() || getStart();
  if (exact ? memory.getRank() != least : memory.getRank() < least)
    return emitOpError("expected memory of rank ")
           << least << (exact ? "" : " or more") << ", but got " << memory;
  int64_t offset;
  SmallVector<int64_t> strides;
  if (failed(memory.getStridesAndOffset(strides, offset)) ||
      (!getVector() && strides.back() != 1))
    return emitOpError("expected memory with unit stride in its last "
                       "dimension, but got ")
           << memory;
  // (C3)
  SmallVector<int64_t> shape(memory.getShape());
  if (getOffsets())
    shape.insert(shape.begin() + getRowDim() - 1, ShapedType::kDynamic);
  shape[shape.size() - (getVector() ? 3 : 4)] = ShapedType::kDynamic;
  if (!isContiguous() || getOffsets())
    shape[shape.size() - (getVector() ? 1 : 2)] = ShapedType::kDynamic;
  SourceType type = getResult().getType();
  bool fits = type.getElementType() == memory.getElementType() &&
              type.getRank() == int64_t(shape.size());
  for (int64_t d = 0; fits && d < type.getRank(); ++d)
    fits = ShapedType::isDynamic(shape[d]) ||
           ShapedType::isDynamic(type.getShape()[d]) ||
           shape[d] == type.getShape()[d];
  if (!fits || (!getVector() && type.getShape().back() != shape.back()))
    return emitOpError("expected a result like ")
           << SourceType::get(getContext(), shape, memory.getElementType())
           << ", but got " << type;
  return success();
}

void SourceOp::build(OpBuilder &b, OperationState &state, Value memory,
                     const attn::Source &source, bool rest, bool vector,
                     bool aligned, int64_t boxes) {
  auto type = cast<MemRefType>(memory.getType());
  SmallVector<int64_t> shape(type.getRank(), ShapedType::kDynamic);
  if (!vector)
    shape.back() = type.getShape().back();
  using attn::SourceKind;
  if (source.is(SourceKind::varlen))
    shape.insert(shape.begin(), ShapedType::kDynamic);
  auto ofKind = [&](SourceKind kind) {
    return source.is(kind) ? source.map : Value();
  };
  build(b, state, SourceType::get(b.getContext(), shape, type.getElementType()),
        memory, ofKind(SourceKind::varlen), ofKind(SourceKind::paged),
        ofKind(SourceKind::ring), source.lengths, rest, aligned,
        boxes ? b.getI64IntegerAttr(boxes) : IntegerAttr(), vector);
}

LogicalResult AccumulateOp::verify() {
  auto memref = cast<MemRefType>(getDestination().getType());
  if (failed(verifyAccess(*this, "destination", getDestination(),
                          getIndices().size(), getVector(), tileOf(getValue()),
                          static_cast<bool>(getLower()),
                          static_cast<bool>(getUpper()))))
    return failure();
  // (C9)
  if (!memref.getElementType().isF32() ||
      !tileOf(getValue()).getElementType().isF32())
    return emitOpError("expected a tile and a destination of f32, but got ")
           << tileOf(getValue()) << " and " << memref;
  // (C10), (C11)
  if ((getTurn() || getFragmentOrder()) && !getAnyOrder())
    return emitOpError("expected any_order with ")
           << (getTurn() ? "turns: blocks add to the same elements"
                         : "fragment_order");
  if (!getTurn())
    return success();
  auto counters = dyn_cast<MemRefType>(getCounters().getType());
  if (!counters || !counters.getElementType().isInteger(32) ||
      counters.getRank() != int64_t(getCounter().size()))
    return emitOpError("expected counters of i32, and ")
           << getCounter().size() << " dimensions, as there are indices, but "
           << "got " << getCounters().getType();
  return success();
}

//===----------------------------------------------------------------------===//
// FillOp, DotOp
//===----------------------------------------------------------------------===//

LogicalResult FillOp::verify() {
  // (C1)
  if (getType().getElementType() != getValue().getType())
    return emitOpError("expected a tile of ")
           << getValue().getType() << ", but got " << getType();
  return success();
}

LogicalResult DotOp::verify() {
  TileType lhs = getLhs().getType(), rhs = getRhs().getType();
  // (C1)
  bool isExact = lhs.getElementType().isBF16() && rhs.getElementType().isF32();
  if (!isa<FloatType>(lhs.getElementType()) ||
      (lhs.getElementType() != rhs.getElementType() && !isExact))
    return emitOpError("expected both sides to be of one float type, or the "
                       "left one of bf16 and the right one of f32, but got ")
           << lhs << " and " << rhs;
  // (C2)
  int64_t depth = getTransposeRhs() ? rhs.getCols() : rhs.getRows();
  int64_t cols = getTransposeRhs() ? rhs.getRows() : rhs.getCols();
  int64_t rows = getTransposeLhs() ? lhs.getCols() : lhs.getRows();
  if (getDepth() != depth)
    return emitOpError("expected the sides to share a dimension, but got ")
           << lhs << (getTransposeLhs() ? " transposed" : "") << " and " << rhs
           << (getTransposeRhs() ? " transposed" : "");
  // (C3)
  auto result =
      TileType::get(getContext(), rows, cols, Float32Type::get(getContext()));
  if (getType() != result)
    return emitOpError("expected a result of type ")
           << result << ", but got " << getType();
  // (C4)
  if (getAcc() && getAcc().getType() != result)
    return emitOpError("expected acc to be of the result's type ")
           << result << ", but got " << getAcc().getType();
  if (getScale() && getScale().getType() != resized(result, rows, 1))
    return emitOpError("expected scale to be of type ")
           << resized(result, rows, 1) << ", but got " << getScale().getType();
  if (getScale() && !getAcc())
    return emitOpError("expected acc where there is a scale for it");
  // (C5)
  if (getTf32() && !lhs.getElementType().isF32())
    return emitOpError("expected sides of f32 with tf32, but got ")
           << lhs << " and " << rhs;
  // (C6)
  if (std::optional<int64_t> live = getLiveDepth();
      live && (*live <= 0 || *live >= depth))
    return emitOpError("expected live_depth between 1 and ")
           << depth - 1 << ", but got " << *live;
  if (std::optional<int64_t> live = getLiveWidth();
      live && (!getAcc() || *live <= 0 || *live > cols))
    return emitOpError("expected live_width to be positive, at most ")
           << cols << " and beside acc, but got " << *live;
  return success();
}

//===----------------------------------------------------------------------===//
// MapOp, ReduceOp, ScanOp, FoldOp, RowsOp
//===----------------------------------------------------------------------===//

LogicalResult MapOp::verify() {
  // (C1)
  if (getNumResults() == 0)
    return emitOpError("expected one or more results");
  TileType first = tileOf(getResult(0));
  for (Value result : getResults())
    if (tileOf(result).getRows() != first.getRows() ||
        tileOf(result).getCols() != first.getCols())
      return emitOpError(
                 "expected all results to be of the size of the first, ")
             << first << ", but got " << result.getType();
  // (C2)
  for (Value input : getInputs()) {
    TileType type = tileOf(input);
    if ((type.getRows() != 1 && type.getRows() != first.getRows()) ||
        (type.getCols() != 1 && type.getCols() != first.getCols()))
      return emitOpError("expected inputs to broadcast to the results' size ")
             << first.getRows() << "x" << first.getCols() << ", but got "
             << type;
  }
  // (C3)
  Type i32 = IntegerType::get(getContext(), 32);
  SmallVector<Type> arguments = {i32, i32}, yields;
  appendElements(arguments, getInputs());
  appendElements(yields, getResults());
  return verifyBody(*this, getBody(), arguments, yields);
}

LogicalResult TurnOp::verify() {
  TileType type = tileOf(getInput());
  int64_t channels = getRotary().getChannels();
  if (channels < 2 || channels % 2 || channels > type.getCols())
    return emitOpError("expected an even number of the ")
           << type.getCols() << " columns to be pairs, but got " << channels;
  Type i32 = IntegerType::get(getContext(), 32),
       element = type.getElementType();
  return verifyBody(*this, getBody(), {i32, i32, element, element},
                    {element, element});
}

/// Inputs and body of reductions and scans: (C1) inputs of one size, (C2) an
/// identity for each, (C3) a body on pairs.
template <typename OpT> static LogicalResult verifyMonoidal(OpT op) {
  if (op.getInputs().empty())
    return op.emitOpError("expected one or more inputs");
  TileType first = tileOf(op.getInputs().front());
  SmallVector<Type> elements;
  appendElements(elements, op.getInputs());
  for (Value input : op.getInputs())
    if (tileOf(input).getRows() != first.getRows() ||
        tileOf(input).getCols() != first.getCols())
      return op.emitOpError("expected all inputs to be of the size of the "
                            "first, ")
             << first << ", but got " << input.getType();
  if (op.getIdentities().getTypes() != TypeRange(elements))
    return op.emitOpError("expected identities of types ")
           << printTypes(elements) << ", but got "
           << printTypes(op.getIdentities().getTypes());
  SmallVector<Type> pairs(elements);
  pairs.append(elements);
  return verifyBody(op, op.getBody(), pairs, elements);
}

LogicalResult ReduceOp::verify() {
  if (failed(verifyMonoidal(*this)))
    return failure();
  // (C4)
  SmallVector<Type> types;
  for (Value input : getInputs()) {
    TileType type = tileOf(input);
    types.push_back(getRows() ? resized(type, 1, type.getCols())
                              : resized(type, type.getRows(), 1));
  }
  return verifyResults(*this, types);
}

LogicalResult AnyOp::verify() {
  // (C1)
  auto type = cast<TileType>(getValue().getType());
  if (!type.getElementType().isInteger(1))
    return emitOpError("expected a tile of i1, but got ") << type;
  return success();
}

LogicalResult BitsOp::verify() {
  // (C1)
  if (getValues().empty())
    return emitOpError("expected 1 tile or more, but got none");
  int64_t words = 0;
  for (Value value : getValues()) {
    TileType type = tileOf(value);
    if (!type.getElementType().isInteger(1) || type.getCols() != 1)
      return emitOpError("expected tiles of one column of i1, but got ")
             << type;
    words += llvm::divideCeil(type.getRows(), 32);
  }
  // (C2)
  if (words != getNumResults())
    return emitOpError("expected ")
           << words << " words, but got " << getNumResults();
  return success();
}

ParseResult BitsOp::parse(OpAsmParser &parser, OperationState &result) {
  SmallVector<OpAsmParser::UnresolvedOperand> values;
  SmallVector<Type> types;
  SMLoc at = parser.getCurrentLocation();
  if (parser.parseOperandList(values) ||
      parser.parseOptionalAttrDict(result.attributes) ||
      parser.parseColonTypeList(types) ||
      parser.resolveOperands(values, types, at, result.operands))
    return failure();
  for (Type type : types) {
    auto tile = dyn_cast<TileType>(type);
    if (!tile)
      return parser.emitError(at, "expected tiles, but got ") << type;
    result.addTypes(SmallVector<Type>(llvm::divideCeil(tile.getRows(), 32),
                                      parser.getBuilder().getI32Type()));
  }
  return success();
}

void BitsOp::print(OpAsmPrinter &printer) {
  printer << ' ' << getValues();
  printer.printOptionalAttrDict((*this)->getAttrs());
  printer << " : " << getValues().getTypes();
}

LogicalResult PadOp::verify() {
  TileType from = getValue().getType(), to = getResult().getType();
  if (from.getRows() != to.getRows() ||
      from.getElementType() != to.getElementType())
    return emitOpError("expected the rows and elements of ")
           << from << ", but got " << to;
  int64_t most = to.getCols() - from.getCols(), first = getFirst();
  if (first < 0 || first > most)
    return emitOpError("expected ")
           << from.getCols() << " columns to lie within " << to.getCols()
           << ", but they start at " << first;
  return success();
}

LogicalResult MergeOp::verify() {
  // (C1)
  if (getStats().empty())
    return emitOpError("expected 1 statistic or more, but got none");
  int64_t rows = tileOf(getStats().front()).getRows();
  SmallVector<Type> types, arguments, yields;
  for (Value stat : getStats()) {
    TileType type = tileOf(stat);
    if (type.getRows() != rows || type.getCols() != 1)
      return emitOpError("expected statistics of ")
             << rows << "x1, but got " << type;
    types.push_back(type);
    yields.push_back(type.getElementType());
  }
  arguments = yields;
  arguments.append(yields);
  // (C2)
  for (Value value : getValues()) {
    TileType type = tileOf(value);
    if (type.getRows() != rows || !type.getElementType().isF32())
      return emitOpError("expected values of ")
             << rows << " rows of f32, but got " << type;
    types.push_back(type);
  }
  // (C3)
  if (bool(getPart()) != getCluster().has_value())
    return emitOpError("expected part(...) beside cluster(...), and not "
                       "without");
  if (int64_t blocks = getCluster().value_or(2);
      blocks < 2 || blocks > mostBlocksOfCluster)
    return emitOpError("expected clusters of 2 to ")
           << mostBlocksOfCluster << " blocks, but got " << blocks;
  // (C4)
  if (getWarps() && (*getWarps() < 2 || getCluster()))
    return emitOpError(
               "expected 2 warps or more without cluster(...), but got ")
           << *getWarps();
  Type f32 = Float32Type::get(getContext());
  yields.append({f32, f32});
  if (failed(verifyResults(*this, types)))
    return failure();
  return verifyBody(*this, getBody(), arguments, yields);
}

LogicalResult TruthsOp::verify() {
  TileType type = tileOf(getResult());
  // (C1)
  if (!type.getElementType().isInteger(1) || type.getRows() != 1)
    return emitOpError("expected a tile of one row of i1, but got ") << type;
  int64_t words = llvm::divideCeil(type.getCols(), 32);
  // (C2)
  if (words != int64_t(getWords().size()))
    return emitOpError("expected ")
           << words << " words, but got " << getWords().size();
  return success();
}

LogicalResult StoreBitsOp::verify() {
  TileType type = getValue().getType();
  // (C1)
  if (!type.getElementType().isInteger(1) || type.getRows() % 16)
    return emitOpError("expected a tile of i1 with a multiple of 16 rows, but "
                       "got ")
           << type;
  // (C2)
  return tile::verifyBitWords(*this, getDestination().getType(),
                              getIndices().size(), type.getRows(),
                              type.getCols());
}

LogicalResult PrefetchOp::verify() {
  return verifyPrefetch(*this, getSource().getType(), getIndices().size());
}

LogicalResult ScanOp::verify() {
  if (failed(verifyMonoidal(*this)))
    return failure();
  // (C4)
  return verifyResults(*this, getInputs().getTypes());
}

LogicalResult SolveOp::verify() {
  TileType matrix = getMatrix().getType(), rhs = getRhs().getType();
  // (C1)
  if (matrix.getRows() != matrix.getCols() || matrix.getRows() != rhs.getRows())
    return emitOpError("expected a square matrix with the rows of the right "
                       "side, but got ")
           << matrix << " and " << rhs;
  // (C2)
  if (!matrix.getElementType().isF32() || !rhs.getElementType().isF32())
    return emitOpError("expected tiles of f32, but got ")
           << matrix << " and " << rhs;
  // (C3)
  if (getType() != rhs)
    return emitOpError("expected a result like the right side, ")
           << rhs << ", but got " << getType();
  return success();
}

LogicalResult FoldOp::verify() {
  // (C1)
  if (getScores().empty() || getStates().empty())
    return emitOpError("expected one or more scores and states");
  TileType first = tileOf(getScores().front());
  int64_t rows = first.getRows(), cols = first.getCols();
  for (Value score : getScores())
    if (tileOf(score).getRows() != rows || tileOf(score).getCols() != cols)
      return emitOpError("expected all scores to be of the size of the first, ")
             << first << ", but got " << score.getType();
  // (C2)
  int64_t channels = 1;
  for (Value value : getValues()) {
    TileType type = tileOf(value);
    channels = tileOf(getValues().front()).getCols();
    if (type.getRows() != cols || type.getCols() != channels)
      return emitOpError("expected values of ")
             << cols << " rows, one for each score of a row, and " << channels
             << " columns, but got " << type;
  }
  if (getLive()) {
    TileType live = getLive().getType();
    if (live.getRows() != rows || live.getCols() != cols ||
        !live.getElementType().isInteger(1))
      return emitOpError("expected live to be a ")
             << rows << "x" << cols << " tile of i1, but got " << live;
  }
  // (C3)
  for (Value state : getStates()) {
    TileType type = tileOf(state);
    if (type.getRows() != rows ||
        (type.getCols() != 1 && type.getCols() != channels))
      return emitOpError("expected states of ")
             << rows << " rows and 1 or " << channels << " columns, but got "
             << type;
  }
  // (C5)
  if (auto state = getThreshold();
      state && (getScores().size() != 1 || !getValues().empty() ||
                *state >= getStates().size()))
    return emitOpError("expected threshold to be the number of a state beside "
                       "one score and no values, but got ")
           << *state;
  // (C4)
  Type i32 = IntegerType::get(getContext(), 32);
  SmallVector<Type> arguments = {i32, i32}, yields;
  appendElements(arguments, getScores());
  appendElements(arguments, getValues());
  appendElements(arguments, getStates());
  appendElements(yields, getStates());
  if (failed(verifyBody(*this, getBody(), arguments, yields)))
    return failure();
  return verifyResults(*this, getStates().getTypes());
}

LogicalResult RowsOp::verify() {
  // (C1)
  auto block = static_cast<int64_t>(getBlock());
  if (block <= 0)
    return emitOpError("expected blocks of one or more rows, but got ")
           << block;
  // (C2)
  SmallVector<Value> tiles(getInputs());
  llvm::append_range(tiles, getOuts());
  if (tiles.empty())
    return emitOpError("expected one or more tiles");
  for (Value tile : tiles)
    if (tileOf(tile).getRows() != tileOf(tiles[0]).getRows() ||
        tileOf(tile).getRows() % block)
      return emitOpError("expected tiles of the same number of rows, a "
                         "multiple of ")
             << block << ", but got " << tile.getType();
  // (C3)
  SmallVector<Type> arguments = {IndexType::get(getContext())}, yields;
  for (Value tile : tiles)
    arguments.push_back(resized(tileOf(tile), block, tileOf(tile).getCols()));
  for (Value out : getOuts())
    yields.push_back(resized(tileOf(out), block, tileOf(out).getCols()));
  if (failed(verifyBody(*this, getBody(), arguments, yields)))
    return failure();
  return verifyResults(*this, getOuts().getTypes());
}

//===----------------------------------------------------------------------===//
// StreamOp
//===----------------------------------------------------------------------===//

/// Checks a body of a stream, if it is there.
static LogicalResult verifyClass(StreamOp op, StringRef name, Region &body,
                                 TypeRange arguments, TypeRange yields) {
  if (body.empty())
    return success();
  Block &block = body.front();
  if (block.getArgumentTypes() != arguments)
    return op.emitOpError("expected '")
           << name << "' to take " << printTypes(arguments) << ", but it takes "
           << printTypes(block.getArgumentTypes());
  if (block.empty() || !isa<YieldOp>(block.back()))
    return op.emitOpError("expected '") << name << "' to end with tile.yield";
  if (block.back().getOperandTypes() != yields)
    return op.emitOpError("expected '")
           << name << "' to yield " << printTypes(yields) << ", but it yields "
           << printTypes(block.back().getOperandTypes());
  return success();
}

LogicalResult StreamOp::verify() {
  // (C1)
  if (static_cast<int64_t>(getStep()) <= 0)
    return emitOpError("expected tiles of one or more keys, but got ")
           << static_cast<int64_t>(getStep());
  // (C2)
  bool isListed = static_cast<bool>(getNumPartial());
  if (isListed == static_cast<bool>(getFirst()) ||
      isListed == static_cast<bool>(getLower()))
    return emitOpError("expected either keys(..) and live(..), or listed(..)");
  if (isListed && (getCoreLower() || getLinear() || !getClassify().empty()))
    return emitOpError("expected no core(..), linear(..) or 'classify' beside "
                       "listed(..), which says what tiles are");
  if (isListed == getNumber().empty())
    return emitOpError("expected 'number' with listed(..), and only there");
  if (getAhead() && !isListed)
    return emitOpError("expected listed(..) with ahead");
  // (C3)
  bool isLinear = static_cast<bool>(getLinear());
  if (isLinear == getLinearBody().empty() || (isLinear && !getCoreLower()))
    return emitOpError("expected 'linear' with linear(..) and core(..), and "
                       "only there");
  bool hasFull = isListed || (getCoreLower() && !isLinear);
  if (hasFull && getFullBody().empty())
    return emitOpError("expected 'full' with ")
           << (isListed ? "listed(..)" : "core(..)");
  if (isLinear && !getFullBody().empty())
    return emitOpError("expected no 'full' beside 'linear'");
  // (C4)
  Type index = IndexType::get(getContext());
  Type i1 = IntegerType::get(getContext(), 1);
  Type i32 = IntegerType::get(getContext(), 32);
  TypeRange state = getInits().getTypes();
  auto with = [&](ArrayRef<Type> first) {
    SmallVector<Type> types(first);
    llvm::append_range(types, state);
    return types;
  };
  SmallVector<Type> partial =
      isListed ? with({index, index, index, i1}) : with({index, i1});
  return success(
      succeeded(verifyClass(*this, "number", getNumber(), {index, i1}, i32)) &&
      succeeded(
          verifyClass(*this, "classify", getClassify(), index, {i1, i1})) &&
      succeeded(
          verifyClass(*this, "full", getFullBody(), with({index}), state)) &&
      succeeded(verifyClass(*this, "linear", getLinearBody(), with({index, i1}),
                            state)) &&
      succeeded(
          verifyClass(*this, "partial", getPartialBody(), partial, state)));
}

//===----------------------------------------------------------------------===//
// DispatchOp, WorkspaceOp, LaunchOp
//===----------------------------------------------------------------------===//

LogicalResult DispatchOp::verifySymbolUses(SymbolTableCollection &symbols) {
  // (C1)
  auto function = dyn_cast<func::FuncOp>((*this)->getParentOp());
  if (!function)
    return emitOpError("expected to be at the top level of a function");
  auto plan =
      symbols.lookupNearestSymbolFrom<func::FuncOp>(*this, getPlanAttr());
  // (C2)
  if (!plan || plan == function)
    return emitOpError("expected '")
           << getPlan() << "' to be another function in this module";
  // (C3)
  if (plan.getFunctionType() != function.getFunctionType())
    return emitOpError("expected '")
           << getPlan() << "' to be of type " << function.getFunctionType()
           << " as this function, but it is of type " << plan.getFunctionType();
  // (C4) Plans that dispatch to each other would never end.
  if (!plan.isExternal() && !plan.getBody().getOps<DispatchOp>().empty())
    return emitOpError("expected '")
           << getPlan() << "' to run kernels of its own, but it dispatches too";
  return success();
}

LogicalResult tile::verifyAllocation(Operation *op, TypeRange memories,
                                     ValueRange sizes) {
  int64_t numSizes = 0;
  for (Type each : memories) {
    // (C1)
    auto type = cast<MemRefType>(each);
    if (!type.getLayout().isIdentity())
      return op->emitOpError("expected a memref without layout, but got ")
             << type;
    numSizes += type.getNumDynamicDims();
  }
  // (C2)
  if (numSizes != int64_t(sizes.size()))
    return op->emitOpError("expected ")
           << numSizes << " sizes, one for each dynamic dimension of "
           << memories << ", but got " << sizes.size();
  return success();
}

LogicalResult WorkspaceOp::verify() {
  return verifyAllocation(*this, getResult().getType(), getSizes());
}

LogicalResult LaunchOp::verifySymbolUses(SymbolTableCollection &symbols) {
  // (C1)
  auto kernel =
      symbols.lookupNearestSymbolFrom<KernelOp>(*this, getKernelAttr());
  if (!kernel)
    return emitOpError("expected '")
           << getKernel() << "' to be a tile.kernel in this module";
  // (C2) The block index follows; after it come the scratch of a lowered one.
  ArrayRef<Type> types = kernel.getArgumentTypes();
  size_t count = getArguments().size();
  if (types.size() <= count || !types[count].isIndex() ||
      TypeRange(types.take_front(count)) != getArguments().getTypes())
    return emitOpError("expected kernel '")
           << getKernel() << "' to take the arguments "
           << printTypes(getArguments().getTypes())
           << " and the block index, but it takes " << printTypes(types);
  return success();
}
