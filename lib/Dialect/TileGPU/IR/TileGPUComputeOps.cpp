//===- TileGPUComputeOps.cpp - Fragments and products ---------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RegisterTypes.h"
#include "attn/Dialect/Tile/IR/BitWords.h"
#include "attn/Dialect/Tile/IR/Prefetch.h"
#include "attn/Dialect/TileGPU/IR/TileGPU.h"
#include "attn/Target/TargetInfo.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace mlir::tile_gpu;

static bool is16Bit(Type type) { return type.isBF16() || type.isF16(); }

//===----------------------------------------------------------------------===//
// Shared-memory views
//===----------------------------------------------------------------------===//

LogicalResult SmemAllocOp::verify() {
  SmemType tile = getTile().getType();
  if (tile.getTransposed() || tile.getPitch() != tile.getBoxRows())
    return emitOpError(
        "expected a whole tile as it is stored; take the transposed "
        "view with smem.transpose");
  if (tile.getElementType().isTF32())
    return emitOpError("expected elements that are stored as they are, but got "
                       "tf32, which rings round to");
  return success();
}

LogicalResult SmemTransposeOp::inferReturnTypes(
    MLIRContext *, std::optional<Location>, ValueRange operands, DictionaryAttr,
    OpaqueProperties, RegionRange, SmallVectorImpl<Type> &types) {
  auto tile =
      operands.empty() ? SmemType() : dyn_cast<SmemType>(operands[0].getType());
  if (!tile)
    return failure();
  types.push_back(tile.getTransposedView());
  return success();
}

LogicalResult SmemSliceOp::verify() {
  SmemType tile = getTile().getType(), part = getResult().getType();
  if (part.getElementType() != tile.getElementType() ||
      part.getSwizzle() != tile.getSwizzle() ||
      part.getTransposed() != tile.getTransposed())
    return emitOpError("expected a slice of the same elements, swizzle and "
                       "direction as ")
           << tile << ", but got " << part;
  // Of panels, any number that follow each other.
  int64_t panelCols =
      std::max<int64_t>(tile.getSwizzle() / tile.getElementBytes(), 1);
  bool hasPanels = tile.getSwizzle() && !tile.getTransposed() &&
                   part.getCols() % panelCols == 0 &&
                   part.getCols() <= tile.getCols();
  if (tile.getRows() % part.getRows() ||
      (tile.getCols() % part.getCols() && !hasPanels))
    return emitOpError("expected a slice that divides the tile of ")
           << tile.getRows() << "x" << tile.getCols() << ", but got "
           << part.getRows() << "x" << part.getCols();
  int64_t boxRows = tile.getBoxRows();
  if (!tile.getSwizzle() && part.getStoredCols() != tile.getStoredCols())
    return emitOpError("expected whole rows of a tile without swizzle");
  if (part.getBoxes() != 1 || boxRows % part.getStoredRows())
    return emitOpError("expected a slice within one box of ")
           << boxRows << " stored rows, but got " << part.getStoredRows()
           << " rows in " << part.getBoxes() << " box(es)";
  // A tile without panels has no use for a pitch: its rows follow each other.
  int64_t pitch = tile.getSwizzle() ? tile.getPitch() : part.getBoxRows();
  if (part.getPitch() != pitch)
    return emitOpError("expected a slice with the pitch ")
           << pitch << " of its tile, but got " << part.getPitch();
  return success();
}

LogicalResult SmemClearRowsOp::verify() {
  SmemType tile = getTile().getType();
  if (tile.getTransposed() || tile.getBoxes() != 1)
    return emitOpError("expected a tile of one box as it is stored, but got ")
           << tile;
  if (!getFrom() && !getBefore() && !getLive() && getBits().empty())
    return emitOpError("expected from(row), before(row), live(vector) or "
                       "bits(words)");
  int64_t words = llvm::divideCeil(tile.getRows(), 32);
  if (!getBits().empty() && words != int64_t(getBits().size()))
    return emitOpError("expected ")
           << words << " words, but got " << getBits().size();
  if (auto live = getLive())
    if (VecType vec = live.getType();
        vec.getAxis() != Axis::Col || vec.getSize() != tile.getRows() ||
        !vec.getElementType().isInteger(1) || vec.getPartial())
      return emitOpError("expected live to be a column vector of ")
             << tile.getRows() << " i1, but got " << vec;
  return success();
}

LogicalResult SmemMapOp::verify() {
  SmemType tile = getTile().getType();
  Type element = tile.getElementType();
  if (tile.getTransposed() || tile.getBoxes() != 1 || !is16Bit(element))
    return emitOpError("expected a 16-bit tile of one box as it is stored, but "
                       "got ")
           << tile;
  Block &body = getBody().front();
  if (body.getArgumentTypes() != TypeRange(element))
    return emitOpError("expected a body with one argument, ") << element;
  auto yield = dyn_cast<YieldOp>(body.back());
  if (!yield || yield->getOperandTypes() != TypeRange(element))
    return emitOpError("expected a body that yields one ") << element;
  return success();
}

LogicalResult SmemTurnOp::verify() {
  SmemType tile = getTile().getType();
  Type element = tile.getElementType();
  if (tile.getTransposed() || tile.getBoxes() != 1 || !is16Bit(element))
    return emitOpError("expected a 16-bit tile of one box as it is stored, but "
                       "got ")
           << tile;
  int64_t channels = getRotary().getChannels();
  bool isHalves = getRotary().getPairs() == mlir::attn::RotaryPairs::halves;
  if (channels < 2 || channels > tile.getCols() ||
      channels % (isHalves ? 4 : 2))
    return emitOpError("expected pairs of the ")
           << tile.getCols() << " columns, of halves an even number, but got "
           << getRotary();
  Type i32 = IntegerType::get(getContext(), 32);
  Block &body = getBody().front();
  if (body.getArgumentTypes() !=
      TypeRange(ArrayRef<Type>{i32, i32, element, element}))
    return emitOpError("expected a body of a row, a pair and two ") << element;
  auto yield = dyn_cast<YieldOp>(body.back());
  if (!yield ||
      yield->getOperandTypes() != TypeRange(ArrayRef<Type>{element, element}))
    return emitOpError("expected a body that yields two ") << element;
  return success();
}

//===----------------------------------------------------------------------===//
// Fragments
//===----------------------------------------------------------------------===//

void FragFillOp::getEffects(
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>
        &effects) {
  auto frag = dyn_cast<FragType>(getResult().getType());
  if (frag && frag.getLayout() == Layout::Acc)
    effects.emplace_back(MemoryEffects::Allocate::get(),
                         getOperation()->getOpResult(0));
}

LogicalResult FragFillOp::verify() {
  Type element = elementOf(getResult().getType());
  if (element != getValue().getType())
    return emitOpError("expected a scalar of ")
           << element << ", but got " << getValue().getType();
  return success();
}

static LogicalResult verifySameShape(Operation *op, FragType frag,
                                     SmemType tile) {
  if (frag.getRows() != tile.getRows() || frag.getCols() != tile.getCols())
    return op->emitOpError("expected a tile of ")
           << frag.getRows() << "x" << frag.getCols() << ", but got "
           << tile.getRows() << "x" << tile.getCols();
  if (frag.getElementType() != tile.getElementType())
    return op->emitOpError("expected a tile of ")
           << frag.getElementType() << ", but got " << tile.getElementType();
  return success();
}

LogicalResult FragLoadOp::verify() {
  FragType frag = getResult().getType();
  if (failed(verifySameShape(*this, frag, getTile().getType())))
    return failure();
  if (frag.getLayout() == Layout::Acc)
    return emitOpError("expected an a or b fragment, but got acc");
  if (frag.getElementType().isTF32() && getTile().getType().getTransposed())
    return emitOpError("expected a tile as it is stored for a tf32 fragment, "
                       "but got ")
           << getTile().getType();
  return success();
}

LogicalResult FragStoreOp::verify() {
  FragType frag = getValue().getType();
  SmemType tile = getTile().getType();
  if (bool(getRow()) != bool(getCol()))
    return emitOpError("expected a column where there is a row, and a row "
                       "where there is a column");
  if (!getRow() && failed(verifySameShape(*this, frag, tile)))
    return failure();
  if (getRow() && (!getFragmentOrder() || tile.getRows() % frag.getRows() ||
                   tile.getCols() % frag.getCols() ||
                   tile.getElementType() != frag.getElementType()))
    return emitOpError(
               "expected fragment_order, and a tile of whole parts like "
               "the fragment, but got ")
           << tile << " and " << frag;
  if (frag.getLayout() == Layout::B)
    return emitOpError("expected an acc or a fragment, but got b");
  if (getFragmentOrder() &&
      (tile.getSwizzle() || tile.getTransposed() || tile.getBoxes() != 1 ||
       !tile.getElementType().isF32()))
    return emitOpError("expected a plain tile of f32 with fragment_order, but "
                       "got ")
           << tile;
  if (tile.getTransposed() && !is16Bit(frag.getElementType()))
    return emitOpError("expected 16-bit elements in a transposed store, but "
                       "got ")
           << frag.getElementType();
  return success();
}

LogicalResult FragConvertOp::verify() {
  FragType from = getValue().getType(), to = getResult().getType();
  if (from.getRows() != to.getRows() || from.getCols() != to.getCols() ||
      from.getScope() != to.getScope())
    return emitOpError("expected the shape and scope of ")
           << from << ", but got " << to;
  if (from.getLayout() != Layout::Acc || !from.getElementType().isF32() ||
      !is16Bit(to.getElementType()))
    return emitOpError("expected an f32 acc fragment to become a 16-bit one, "
                       "but got ")
           << from << " to " << to;
  return success();
}

/// `whole` has the columns of `part`, of an f32 acc fragment, from `first` on.
static LogicalResult verifyColumns(Operation *op, FragType from, FragType to,
                                   FragType part, FragType whole,
                                   int64_t first) {
  if (from.getLayout() != Layout::Acc || !from.getElementType().isF32())
    return op->emitOpError("expected an f32 acc fragment, but got ") << from;
  if (to != FragType::get(op->getContext(), from.getRows(), to.getCols(),
                          from.getElementType(), from.getLayout(),
                          from.getScope()))
    return op->emitOpError("expected rows, elements and layout of ")
           << from << ", but got " << to;
  int64_t most = whole.getCols() - part.getCols();
  if (first < 0 || first > most || first % 8)
    return op->emitOpError("expected ")
           << part.getCols() << " columns at a multiple of 8 within "
           << whole.getCols() << ", but they start at " << first;
  return success();
}

LogicalResult FragPadOp::verify() {
  FragType from = getValue().getType(), to = getResult().getType();
  return verifyColumns(*this, from, to, from, to, getFirst());
}

LogicalResult FragColsOp::verify() {
  FragType from = getValue().getType(), to = getResult().getType();
  return verifyColumns(*this, from, to, to, from, getFirst());
}

/// A row or column of a tile as a vector: (C1) sizes, (C2) elements.
static LogicalResult verifyLine(Operation *op, SmemType tile, VecType vec,
                                bool widens) {
  bool row = vec.getAxis() == Axis::Row;
  int64_t size = row ? tile.getRows() : tile.getCols();
  if (vec.getSize() != size)
    return op->emitOpError("expected a vector of ")
           << size << " elements along " << tile << ", but got " << vec;
  Type element = tile.getElementType();
  if (vec.getElementType() != element &&
      !(widens && is16Bit(element) && vec.getElementType().isF32()))
    return op->emitOpError("expected a vector of ")
           << element << ", but got " << vec;
  if (vec.getPartial())
    return op->emitOpError("expected a vector that is not partial");
  if (tile.getBoxes() != 1 || tile.getTransposed())
    return op->emitOpError("expected a tile of one box as it is stored, but "
                           "got ")
           << tile;
  return success();
}

LogicalResult VecLoadOp::verify() {
  SmemType tile = getTile().getType();
  VecType vec = getResult().getType();
  if (getIndex()) {
    if (getPermuted())
      return emitOpError("expected permuted without a position only");
    return verifyLine(*this, tile, vec, /*widens=*/true);
  }
  if (tile.getRows() != 1 || tile.getCols() != vec.getSize() ||
      tile.getElementType() != vec.getElementType())
    return emitOpError("expected a tile of one row of ")
           << vec.getSize() << " " << vec.getElementType() << ", but got "
           << tile;
  if (vec.getPartial())
    return emitOpError("expected a vector that is not partial");
  if (getPermuted() && (vec.getAxis() != Axis::Col || vec.getSize() % 16))
    return emitOpError("expected permuted with a column vector of a multiple "
                       "of 16 elements");
  return success();
}

LogicalResult VecStoreOp::verify() {
  return verifyLine(*this, getTile().getType(), getValue().getType(),
                    /*widens=*/false);
}

//===----------------------------------------------------------------------===//
// Elementwise and reductions
//===----------------------------------------------------------------------===//

LogicalResult tile_gpu::verifyYield(Operation *op, Block &block,
                                    ArrayRef<Type> types) {
  auto yield = dyn_cast<YieldOp>(block.back());
  if (!yield)
    return op->emitOpError("expected the body to end with tile_gpu.yield");
  if (yield->getNumOperands() != types.size())
    return op->emitOpError("expected the body to yield ")
           << types.size() << " value(s), but got " << yield->getNumOperands();
  for (auto [index, type] : llvm::enumerate(types))
    if (yield->getOperand(index).getType() != type)
      return op->emitOpError("expected yielded value ")
             << index << " to be " << type << ", but got "
             << yield->getOperand(index).getType();
  return success();
}

LogicalResult tile_gpu::verifyArguments(Operation *op, Block &block,
                                        ArrayRef<Type> types) {
  if (block.getNumArguments() != types.size())
    return op->emitOpError("expected ")
           << types.size() << " block arguments, but got "
           << block.getNumArguments();
  for (auto [index, type] : llvm::enumerate(types))
    if (block.getArgument(index).getType() != type)
      return op->emitOpError("expected block argument ")
             << index << " to be " << type << ", but got "
             << block.getArgument(index).getType();
  return success();
}

LogicalResult MapOp::verify() {
  Type i32 = IntegerType::get(getContext(), 32);
  SmallVector<Type> arguments = {i32, i32}, yielded;
  FragType shape;
  VecType vector;
  bool partial = false, oneAxis = true;
  auto note = [&](Type type) -> LogicalResult {
    if (auto frag = dyn_cast<FragType>(type)) {
      if (frag.getLayout() == Layout::B)
        return emitOpError("expected acc or a fragments, but got ") << frag;
      if (shape && (shape.getRows() != frag.getRows() ||
                    shape.getCols() != frag.getCols() ||
                    shape.getScope() != frag.getScope()))
        return emitOpError("expected fragments of one shape and scope, but "
                           "got ")
               << shape << " and " << frag;
      shape = frag;
    }
    return success();
  };
  for (Type type : getInputs().getTypes()) {
    arguments.push_back(elementOf(type));
    if (failed(note(type)))
      return failure();
    if (auto vec = dyn_cast<VecType>(type)) {
      partial |= vec.getPartial();
      oneAxis &= !vector || (vector.getAxis() == vec.getAxis() &&
                             vector.getSize() == vec.getSize() &&
                             vector.getScope() == vec.getScope());
      vector = vec;
    }
  }
  if (getNumResults() == 0)
    return emitOpError("expected 1 result or more");
  for (Type type : getResultTypes()) {
    yielded.push_back(elementOf(type));
    if (failed(note(type)))
      return failure();
  }
  for (Type type : getInputs().getTypes())
    if (auto vec = dyn_cast<VecType>(type);
        vec && shape && !alongside(vec, shape))
      return emitOpError("expected a vector along ")
             << shape << ", but got " << vec;
  for (Type type : getResultTypes()) {
    auto vec = dyn_cast<VecType>(type);
    if (!vec) {
      if (partial)
        return emitOpError("expected partial vectors to give partial results; "
                           "complete them with tile_gpu.reduce first");
      continue;
    }
    bool inputFrag =
        llvm::any_of(getInputs().getTypes(), llvm::IsaPred<FragType>);
    if (inputFrag || shape || !oneAxis ||
        (vector && (vector.getAxis() != vec.getAxis() ||
                    vector.getSize() != vec.getSize() ||
                    vector.getScope() != vec.getScope())))
      return emitOpError("expected a vector result from vectors of its own "
                         "size and axis only, but got ")
             << vec;
    if (partial && !vec.getPartial())
      return emitOpError("expected partial vectors to give partial results; "
                         "complete them with tile_gpu.reduce first");
  }
  if (failed(verifyArguments(*this, getBody().front(), arguments)))
    return failure();
  return verifyYield(*this, getBody().front(), yielded);
}

/// Results and inputs that nothing reads go.
LogicalResult MapOp::canonicalize(MapOp op, PatternRewriter &rewriter) {
  Block &body = op.getBody().front();
  Operation *yield = body.getTerminator();
  SmallVector<Value> inputs, yielded;
  SmallVector<Type> types;
  SmallVector<OpResult> used;
  for (OpResult result : op->getResults())
    if (!result.use_empty()) {
      used.push_back(result);
      types.push_back(result.getType());
      yielded.push_back(yield->getOperand(result.getResultNumber()));
    }
  constexpr unsigned positions = 2;
  BitVector unread(body.getNumArguments());
  for (auto [number, input] : llvm::enumerate(op.getInputs()))
    if (body.getArgument(positions + number).use_empty())
      unread.set(positions + number);
    else
      inputs.push_back(input);
  if (used.empty() || (used.size() == op->getNumResults() && unread.none()))
    return failure();
  rewriter.modifyOpInPlace(yield, [&] { yield->setOperands(yielded); });
  rewriter.modifyOpInPlace(op, [&] { body.eraseArguments(unread); });
  auto map = MapOp::create(rewriter, op.getLoc(), types, inputs);
  rewriter.inlineRegionBefore(op.getBody(), map.getBody(), map.getBody().end());
  for (auto [result, replacement] : llvm::zip_equal(used, map->getResults()))
    rewriter.replaceAllUsesWith(result, replacement);
  rewriter.eraseOp(op);
  return success();
}

LogicalResult ReduceOp::verify() {
  size_t n = getInputs().size();
  if (n == 0 || getIdentities().size() != n || getNumResults() != n)
    return emitOpError("expected as many identities and results as inputs (")
           << n << "), but got " << getIdentities().size() << " and "
           << getNumResults();
  SmallVector<Type> elements, arguments;
  for (auto [input, identity, result] :
       llvm::zip_equal(getInputs().getTypes(), getIdentities().getTypes(),
                       getResultTypes())) {
    auto vec = cast<VecType>(result);
    elements.push_back(vec.getElementType());
    if (getOrdered() && (vec.getPartial() || vec.getAxis() != Axis::Row ||
                         !isa<FragType>(input)))
      return emitOpError("expected an ordered reduction of fragments over the "
                         "columns to complete row vectors, but got ")
             << input << " to " << vec;
    if (elementOf(input) != vec.getElementType() ||
        identity != vec.getElementType())
      return emitOpError("expected input, identity and result of one element "
                         "type, but got ")
             << elementOf(input) << ", " << identity << " and "
             << vec.getElementType();
    if (auto frag = dyn_cast<FragType>(input)) {
      if (frag.getLayout() != Layout::Acc || !alongside(vec, frag))
        return emitOpError("expected a vector along an acc fragment, but got ")
               << frag << " to " << vec;
      continue;
    }
    auto from = cast<VecType>(input);
    if (!from.getPartial() || vec.getPartial() ||
        from.getSize() != vec.getSize() || from.getAxis() != vec.getAxis() ||
        from.getScope() != vec.getScope())
      return emitOpError("expected a partial vector to become the complete one "
                         "of its size and axis, but got ")
             << from << " to " << vec;
  }
  arguments = elements;
  arguments.append(elements);
  if (failed(verifyArguments(*this, getBody().front(), arguments)))
    return failure();
  return verifyYield(*this, getBody().front(), elements);
}

LogicalResult ScanOp::verify() {
  size_t n = getInputs().size();
  if (n == 0 || getIdentities().size() != n || getNumResults() != n)
    return emitOpError("expected as many identities and results as inputs (")
           << n << "), but got " << getIdentities().size() << " and "
           << getNumResults();
  SmallVector<Type> elements;
  auto first = cast<FragType>(getInputs().front().getType());
  for (auto [input, identity, result] :
       llvm::zip_equal(getInputs().getTypes(), getIdentities().getTypes(),
                       getResultTypes())) {
    auto frag = cast<FragType>(input);
    elements.push_back(frag.getElementType());
    if (frag != result || identity != frag.getElementType())
      return emitOpError("expected input, identity and result of one type, but "
                         "got ")
             << input << ", " << identity << " and " << result;
    if (frag.getLayout() != Layout::Acc || frag.getRows() != first.getRows() ||
        frag.getCols() != first.getCols() ||
        frag.getScope() != first.getScope())
      return emitOpError("expected acc fragments of one shape and scope, but "
                         "got ")
             << first << " and " << frag;
  }
  SmallVector<Type> arguments = elements;
  arguments.append(elements);
  if (failed(verifyArguments(*this, getBody().front(), arguments)))
    return failure();
  return verifyYield(*this, getBody().front(), elements);
}

LogicalResult AnyOp::verify() {
  Type type = getValue().getType();
  auto vec = dyn_cast<VecType>(type);
  if (!elementOf(type).isInteger(1) || (vec && vec.getPartial()))
    return emitOpError("expected complete elements of i1, but got ") << type;
  if (getByRows() && vec && vec.getAxis() != Axis::Row)
    return emitOpError("expected rows to ask about apart, but got ") << type;
  return success();
}

LogicalResult VecElementsOp::verify() {
  VecType type = getValue().getType();
  if (type.getAxis() != Axis::Col || type.getScope() != Scope::Warp ||
      type.getPartial())
    return emitOpError("expected a complete column vector of a warp, but got ")
           << type;
  SmallVector<Type> types(type.getSize(), type.getElementType());
  if (getResultTypes() != TypeRange(types))
    return emitOpError("expected ")
           << type.getSize() << " results of " << type.getElementType();
  return success();
}

//===----------------------------------------------------------------------===//
// Global memory
//===----------------------------------------------------------------------===//

/// What has rows and columns in another order is a warp's, and lanes have all
/// of their neighbours.
static LogicalResult verifyPermuted(Operation *op, Type value,
                                    int64_t neighbours) {
  int64_t rows = 16, cols = 4 * neighbours;
  if (auto frag = dyn_cast<FragType>(value);
      frag && frag.getScope() == Scope::Warp &&
      frag.getLayout() == Layout::Acc && frag.getElementType().isF32()) {
    rows = frag.getRows();
    cols = frag.getCols();
  } else if (auto vec = dyn_cast<VecType>(value);
             vec && vec.getScope() == Scope::Warp &&
             vec.getElementType().isF32()) {
    (vec.getAxis() == Axis::Row ? rows : cols) = vec.getSize();
  } else {
    rows = 0;
  }
  bool isCount = neighbours == 2 || neighbours == 4 || neighbours == 8;
  if (isCount && rows && rows % 16 == 0 && cols % (4 * neighbours) == 0)
    return success();
  return op->emitOpError("expected permuted columns, in runs of 2, 4 or 8 for "
                         "each of four lanes, of a warp's f32 fragment acc or "
                         "vector, but got ")
         << neighbours << " of " << value;
}

static LogicalResult verifyGlobal(Operation *op, Type value, Type memory,
                                  OperandRange indices, int64_t permuted) {
  if (permuted && failed(verifyPermuted(op, value, permuted)))
    return failure();
  auto memref = cast<MemRefType>(memory);
  if (int64_t(indices.size()) != memref.getRank())
    return op->emitOpError("expected ")
           << memref.getRank() << " indices, but got " << indices.size();
  int64_t rank = isa<FragType>(value) ? 2 : 1;
  if (memref.getRank() < rank)
    return op->emitOpError("expected a tensor of rank ")
           << rank << " or more, but got " << memref.getRank();
  if (auto vec = dyn_cast<VecType>(value); vec && vec.getPartial())
    return op->emitOpError("expected a vector that is not partial");
  return success();
}

/// Memory may be narrower than registers (a store rounds), not wider.
static LogicalResult verifyElements(Operation *op, Type value, Type memory) {
  Type from = elementOf(value), to = cast<MemRefType>(memory).getElementType();
  if (from == to || (from.isF32() && is16Bit(to)))
    return success();
  return op->emitOpError("expected memory of ")
         << from << (from.isF32() ? ", bf16 or f16" : "") << ", but got " << to;
}

LogicalResult GlobalLoadOp::verify() {
  if (failed(verifyGlobal(*this, getResult().getType(), getSource().getType(),
                          getIndices(), getPermuted())))
    return failure();
  return verifyElements(*this, getResult().getType(), getSource().getType());
}

LogicalResult GlobalStoreOp::verify() {
  if (failed(verifyGlobal(*this, getValue().getType(),
                          getDestination().getType(), getIndices(),
                          getPermuted())))
    return failure();
  return verifyElements(*this, getValue().getType(),
                        getDestination().getType());
}

LogicalResult GlobalPrefetchOp::verify() {
  if (failed(tile::verifyPrefetch(*this, getSource().getType(),
                                  getIndices().size())))
    return failure();
  if (bool(getTable()) != bool(getBoxes()) || (getBefore() && !getTable()))
    return emitOpError("expected table(...) and boxes(...) together, and with "
                       "them alone before(...)");
  if (!getTable())
    return success();
  auto memory = cast<MemRefType>(getSource().getType());
  if (memory.getRank() != 4 || memory.isDynamicDim(2))
    return emitOpError("expected pages of a known number of rows, [pages, "
                       "heads, rows, columns], but got ")
           << memory;
  int64_t boxes = *getBoxes(), page = memory.getDimSize(2);
  if (page % boxes || getRows() % boxes)
    return emitOpError("expected boxes of rows that divide a page of ")
           << page << " and the " << getRows() << " rows, but got " << boxes;
  return success();
}

LogicalResult GlobalStoreBitsOp::verify() {
  // (C1)
  FragType type = getValue().getType();
  if (!type.getElementType().isInteger(1) || type.getLayout() != Layout::Acc ||
      type.getScope() != Scope::Warp)
    return emitOpError("expected a warp's fragment of i1 in the layout acc, "
                       "but got ")
           << type;
  // (C2)
  return tile::verifyBitWords(*this, getDestination().getType(),
                              getIndices().size(), type.getRows(),
                              type.getCols());
}

LogicalResult GlobalReduceOp::verify() {
  if (failed(verifyGlobal(*this, getValue().getType(),
                          getDestination().getType(), getIndices(),
                          getPermuted())))
    return failure();
  if (getPermuted())
    return emitOpError("expected rows in their order; loads and stores alone "
                       "permute them");
  auto memory = cast<MemRefType>(getDestination().getType());
  if (!elementOf(getValue().getType()).isF32() ||
      !memory.getElementType().isF32())
    return emitOpError("expected f32 values and memory, but got ")
           << elementOf(getValue().getType()) << " and "
           << memory.getElementType();
  return success();
}
