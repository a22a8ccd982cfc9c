//===- TileGPUDialect.cpp - The tile_gpu dialect and its types ------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Analysis/OnChip.h"
#include "attn/Dialect/TileGPU/IR/TileGPU.h"
#include "attn/Support/MostCounted.h"
#include "attn/Target/TargetInfo.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::tile_gpu;

#include "attn/Dialect/TileGPU/IR/TileGPUDialect.cpp.inc"
#include "attn/Dialect/TileGPU/IR/TileGPUEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "attn/Dialect/TileGPU/IR/TileGPUAttrs.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "attn/Dialect/TileGPU/IR/TileGPUTypes.cpp.inc"

void TileGPUDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "attn/Dialect/TileGPU/IR/TileGPUAttrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "attn/Dialect/TileGPU/IR/TileGPUTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "attn/Dialect/TileGPU/IR/TileGPUOps.cpp.inc"
      >();
}

LogicalResult TileGPUDialect::verifyOperationAttribute(Operation *op,
                                                       NamedAttribute attr) {
  if (attr.getName() == stageName) {
    if (!isa<StageAttr>(attr.getValue()))
      return op->emitOpError("expected tile_gpu.stage to be a "
                             "#tile_gpu.stage<stage, order>, but got ")
             << attr.getValue();
    // Once for all of a block.
    Operation *before = op->getPrevNode();
    while (before && !stageOf(before))
      before = before->getPrevNode();
    return before ? success() : verifyStages(*op->getBlock());
  }
  if (attr.getName() != launchName)
    return op->emitOpError("expected no attribute ")
           << attr.getName() << ", which the tile_gpu dialect does not define";
  if (!isa<FunctionOpInterface>(op) || !isa<LaunchAttr>(attr.getValue()))
    return op->emitOpError("expected tile_gpu.launch to be a "
                           "#tile_gpu.launch<...> of a function, but got ")
           << attr.getValue();
  return success();
}

LogicalResult LaunchAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                 int64_t threads, int64_t sharedBytes,
                                 bool persistent) {
  if (threads < 0 || sharedBytes < 0)
    return emitError() << "expected threads and shared_bytes of 0 or more, but "
                          "got "
                       << threads << " and " << sharedBytes;
  return success();
}

//===----------------------------------------------------------------------===//
// Parsing and printing of shapes
//===----------------------------------------------------------------------===//

using EmitError = function_ref<InFlightDiagnostic()>;

/// Parses `RxCxT` (or `NxT` for one dimension).
static ParseResult parseShape(AsmParser &parser, size_t rank,
                              SmallVectorImpl<int64_t> &dims, Type &element) {
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseDimensionList(dims, /*allowDynamic=*/false) ||
      parser.parseType(element))
    return failure();
  if (dims.size() != rank)
    return parser.emitError(loc, "expected ")
           << rank << " dimension(s), but got " << dims.size();
  return success();
}

/// Parses `RxCxT (swizzle N)? (boxes N)? (pitch N)? (transposed)?`.
static SmemType parseTile(AsmParser &parser) {
  SmallVector<int64_t> dims;
  Type element;
  int64_t swizzle = 0, boxes = 1;
  SMLoc loc = parser.getCurrentLocation();
  if (parseShape(parser, 2, dims, element))
    return {};
  if (succeeded(parser.parseOptionalKeyword("swizzle")) &&
      parser.parseInteger(swizzle))
    return {};
  if (succeeded(parser.parseOptionalKeyword("boxes")) &&
      parser.parseInteger(boxes))
    return {};
  int64_t pitch = 0;
  if (succeeded(parser.parseOptionalKeyword("pitch")) &&
      parser.parseInteger(pitch))
    return {};
  bool transposed = succeeded(parser.parseOptionalKeyword("transposed"));
  if (!pitch && boxes > 0)
    pitch = dims[transposed ? 1 : 0] / boxes;
  return SmemType::getChecked([&] { return parser.emitError(loc); },
                              parser.getContext(), dims[0], dims[1], element,
                              swizzle, boxes, pitch, transposed);
}

static void printTile(AsmPrinter &p, SmemType type) {
  p << type.getRows() << 'x' << type.getCols() << 'x' << type.getElementType();
  if (type.getSwizzle())
    p << " swizzle " << type.getSwizzle();
  if (type.getBoxes() != 1)
    p << " boxes " << type.getBoxes();
  if (type.getPitch() != type.getBoxRows())
    p << " pitch " << type.getPitch();
  if (type.getTransposed())
    p << " transposed";
}

static bool is16Bit(Type type) { return type.isBF16() || type.isF16(); }

using ::attn::mostCounted;

//===----------------------------------------------------------------------===//
// FragType
//===----------------------------------------------------------------------===//

Type FragType::parse(AsmParser &parser) {
  SmallVector<int64_t> dims;
  Type element;
  StringRef keyword;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLess() || parseShape(parser, 2, dims, element) ||
      parser.parseComma())
    return {};
  SMLoc keywordLoc = parser.getCurrentLocation();
  if (parser.parseKeyword(&keyword))
    return {};
  std::optional<Layout> layout = symbolizeLayout(keyword);
  if (!layout) {
    parser.emitError(keywordLoc, "expected a layout of acc, a or b, but got '")
        << keyword << "'";
    return {};
  }
  Scope scope = Scope::Warpgroup;
  if (succeeded(parser.parseOptionalComma())) {
    if (parser.parseKeyword("warp"))
      return {};
    scope = Scope::Warp;
  }
  if (parser.parseGreater())
    return {};
  return parser.getChecked<FragType>(loc, parser.getContext(), dims[0], dims[1],
                                     element, *layout, scope);
}

void FragType::print(AsmPrinter &p) const {
  p << '<' << getRows() << 'x' << getCols() << 'x' << getElementType() << ", "
    << stringifyLayout(getLayout());
  if (getScope() == Scope::Warp)
    p << ", warp";
  p << '>';
}

LogicalResult FragType::verify(EmitError emitError, int64_t rows, int64_t cols,
                               Type element, Layout layout, Scope scope) {
  using ::attn::MmaShape;
  const MmaShape shape =
      scope == Scope::Warp ? MmaShape::warp() : MmaShape::warpgroup();
  if (layout == Layout::B && scope == Scope::Warpgroup)
    return emitError() << "expected a b fragment to have warp scope; a "
                          "warpgroup reads its right operand from shared "
                          "memory";
  bool integer = layout == Layout::Acc && (element.isSignlessInteger(1) ||
                                           element.isSignlessInteger(32));
  // mma.m16n8k8: steps of half the depth.
  bool rounded =
      element.isTF32() && layout == Layout::A && scope == Scope::Warp;
  if (!element.isF32() && !is16Bit(element) && !integer && !rounded)
    return emitError() << "expected a fragment of f32, bf16 or f16, an acc "
                          "fragment of i1 or i32, or a warp's a fragment of "
                          "tf32, but got "
                       << element;
  if (layout != Layout::Acc && !is16Bit(element) && !rounded)
    return emitError()
           << "expected an operand fragment of bf16 or f16, but got "
           << element;
  int64_t rowStep = layout == Layout::B ? shape.k : shape.m;
  if (scope == Scope::Warpgroup && rows < shape.m)
    rowStep = shape.m / 2;
  int64_t colStep = layout == Layout::A ? shape.k : shape.nStep;
  if (rounded)
    colStep = MmaShape::warpTf32().k;
  if (rows <= 0 || rows % rowStep)
    return emitError() << "expected the rows of a " << stringifyScope(scope)
                       << " " << stringifyLayout(layout)
                       << " fragment to be a multiple of " << rowStep
                       << ", but got " << rows;
  if (cols <= 0 || cols % colStep)
    return emitError() << "expected the columns of a " << stringifyScope(scope)
                       << " " << stringifyLayout(layout)
                       << " fragment to be a multiple of " << colStep
                       << ", but got " << cols;
  if (rows > mostCounted / cols)
    return emitError() << "expected a fragment of at most " << mostCounted
                       << " elements, but got " << rows << "x" << cols;
  return success();
}

bool FragType::isHalf() const {
  return getScope() == Scope::Warpgroup &&
         getRows() < ::attn::MmaShape::warpgroup().m;
}

int64_t FragType::getRegisters() const {
  using ::attn::MmaShape;
  int64_t threads = getScope() == Scope::Warp ? MmaShape::warp().threads
                                              : MmaShape::warpgroup().threads;
  int64_t bits = is16Bit(getElementType()) ? 16 : 32;
  return ::attn::onchip::fragmentRegisters(getRows(), getCols(), bits, threads);
}

//===----------------------------------------------------------------------===//
// VecType
//===----------------------------------------------------------------------===//

Type VecType::parse(AsmParser &parser) {
  SmallVector<int64_t> dims;
  Type element;
  StringRef keyword;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLess() || parseShape(parser, 1, dims, element) ||
      parser.parseComma())
    return {};
  SMLoc keywordLoc = parser.getCurrentLocation();
  if (parser.parseKeyword(&keyword))
    return {};
  std::optional<Axis> axis = symbolizeAxis(keyword);
  if (!axis) {
    parser.emitError(keywordLoc, "expected an axis of row or col, but got '")
        << keyword << "'";
    return {};
  }
  Scope scope = Scope::Warpgroup;
  bool partial = false;
  while (succeeded(parser.parseOptionalComma())) {
    keywordLoc = parser.getCurrentLocation();
    if (parser.parseKeyword(&keyword))
      return {};
    if (keyword == "warp" && scope != Scope::Warp && !partial) {
      scope = Scope::Warp;
    } else if (keyword == "partial" && !partial) {
      partial = true;
    } else {
      parser.emitError(keywordLoc, "expected warp, then partial, but got '")
          << keyword << "'";
      return {};
    }
  }
  if (parser.parseGreater())
    return {};
  return parser.getChecked<VecType>(loc, parser.getContext(), dims[0], element,
                                    *axis, scope, partial);
}

void VecType::print(AsmPrinter &p) const {
  p << '<' << getSize() << 'x' << getElementType() << ", "
    << stringifyAxis(getAxis());
  if (getScope() == Scope::Warp)
    p << ", warp";
  if (getPartial())
    p << ", partial";
  p << '>';
}

LogicalResult VecType::verify(EmitError emitError, int64_t size, Type element,
                              Axis axis, Scope scope, bool) {
  using ::attn::MmaShape;
  const MmaShape shape =
      scope == Scope::Warp ? MmaShape::warp() : MmaShape::warpgroup();
  int64_t step = axis == Axis::Row ? shape.m : shape.nStep;
  if (axis == Axis::Row && scope == Scope::Warpgroup && size < shape.m)
    step = shape.m / 2;
  if (size <= 0 || size % step)
    return emitError() << "expected the size of a " << stringifyScope(scope)
                       << " " << stringifyAxis(axis)
                       << " vector to be a multiple of " << step << ", but got "
                       << size;
  if (size > mostCounted)
    return emitError() << "expected a vector of at most " << mostCounted
                       << " elements, but got " << size;
  if (!element.isF32() && !element.isSignlessInteger(1) &&
      !element.isSignlessInteger(32))
    return emitError() << "expected a vector of f32, i1 or i32, but got "
                       << element;
  return success();
}

//===----------------------------------------------------------------------===//
// SmemType
//===----------------------------------------------------------------------===//

Type SmemType::parse(AsmParser &parser) {
  if (parser.parseLess())
    return {};
  SmemType type = parseTile(parser);
  if (!type || parser.parseGreater())
    return {};
  return type;
}

void SmemType::print(AsmPrinter &p) const {
  p << '<';
  printTile(p, *this);
  p << '>';
}

LogicalResult SmemType::verify(EmitError emitError, int64_t rows, int64_t cols,
                               Type element, int64_t swizzle, int64_t boxes,
                               int64_t pitch, bool transposed) {
  if (rows <= 0 || cols <= 0)
    return emitError() << "expected positive tile dimensions, but got " << rows
                       << "x" << cols;
  if (rows > mostCounted || cols > mostCounted || pitch > mostCounted)
    return emitError() << "expected tile dimensions and a pitch of at most "
                       << mostCounted << ", but got " << rows << "x" << cols
                       << " and " << pitch;
  if (!element.isF32() && !is16Bit(element) && !element.isTF32() &&
      !element.isSignlessInteger(32))
    return emitError() << "expected a tile of f32, tf32, bf16, f16 or i32, but "
                          "got "
                       << element;
  if (swizzle != 0 && swizzle != 32 && swizzle != 64 && swizzle != 128)
    return emitError() << "expected a swizzle of 32, 64 or 128 bytes, but got "
                       << swizzle;
  int64_t storedRows = transposed ? cols : rows;
  int64_t storedCols = transposed ? rows : cols;
  int64_t rowBytes = storedCols * (is16Bit(element) ? 2 : 4);
  if (boxes <= 0 || storedRows % boxes)
    return emitError() << "expected the number of boxes to divide "
                       << storedRows << " rows, but got " << boxes;
  if (pitch < storedRows / boxes || (!swizzle && pitch != storedRows / boxes))
    return emitError() << "expected a pitch of " << storedRows / boxes
                       << " rows" << (swizzle ? " or more" : "") << ", but got "
                       << pitch;
  if (swizzle && rowBytes % swizzle)
    return emitError() << "expected rows of a multiple of " << swizzle
                       << " bytes for this swizzle, but got " << rowBytes
                       << " bytes";
  // The pattern repeats every 8 rows; it must not straddle a box.
  if (swizzle && (storedRows / boxes) % 8)
    return emitError() << "expected a multiple of 8 rows in each swizzled box, "
                          "but got "
                       << storedRows / boxes;
  if (storedRows * rowBytes % 16)
    return emitError() << "expected a tile of a multiple of 16 bytes, but got "
                       << storedRows * rowBytes;
  return success();
}

int64_t SmemType::getBytes() const {
  return getRows() * getCols() * getElementBytes();
}

SmemType SmemType::getTransposedView() const {
  return SmemType::get(getContext(), getCols(), getRows(), getElementType(),
                       getSwizzle(), getBoxes(), getPitch(), !getTransposed());
}

//===----------------------------------------------------------------------===//
// RingType
//===----------------------------------------------------------------------===//

Type RingType::parse(AsmParser &parser) {
  int64_t stages;
  SmallVector<SmemType> tiles;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLess() || parser.parseInteger(stages) || parser.parseComma())
    return {};
  do {
    SmemType tile = parseTile(parser);
    if (!tile)
      return {};
    tiles.push_back(tile);
  } while (succeeded(parser.parseOptionalComma()));
  if (parser.parseGreater())
    return {};
  return parser.getChecked<RingType>(loc, parser.getContext(), stages, tiles);
}

void RingType::print(AsmPrinter &p) const {
  p << '<' << getStages();
  for (SmemType tile : getTiles()) {
    p << ", ";
    printTile(p, tile);
  }
  p << '>';
}

LogicalResult RingType::verify(EmitError emitError, int64_t stages,
                               ArrayRef<SmemType> tiles) {
  if (stages <= 0)
    return emitError() << "expected a ring of 1 slot or more, but got "
                       << stages;
  if (stages > mostCounted)
    return emitError() << "expected a ring of at most " << mostCounted
                       << " slots, but got " << stages;
  assert(!tiles.empty() && "expected a ring slot of 1 tile or more");
  for (SmemType tile : tiles)
    if (tile.getTransposed() || tile.getPitch() != tile.getBoxRows())
      return emitError() << "expected ring tiles as they are stored; take the "
                            "transposed view of a slot with smem.transpose";
  return success();
}

int64_t RingType::getSlotBytes() const {
  int64_t bytes = 0;
  for (SmemType tile : getTiles())
    bytes += tile.getBytes();
  return bytes;
}

//===----------------------------------------------------------------------===//
// TokenType, TensorMapType
//===----------------------------------------------------------------------===//

Type TokenType::parse(AsmParser &parser) {
  SmallVector<int64_t> dims;
  Type element;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLess() || parseShape(parser, 2, dims, element) ||
      parser.parseGreater())
    return {};
  return parser.getChecked<TokenType>(loc, parser.getContext(), dims[0],
                                      dims[1], element);
}

void TokenType::print(AsmPrinter &p) const {
  p << '<' << getRows() << 'x' << getCols() << 'x' << getElementType() << '>';
}

LogicalResult TokenType::verify(EmitError emitError, int64_t rows, int64_t cols,
                                Type element) {
  if (!element.isF32())
    return emitError() << "expected products to accumulate in f32, but got "
                       << element;
  return FragType::verify(emitError, rows, cols, element, Layout::Acc,
                          Scope::Warpgroup);
}

FragType TokenType::getFragType() const {
  return FragType::get(getContext(), getRows(), getCols(), getElementType(),
                       Layout::Acc, Scope::Warpgroup);
}

Type TensorMapType::parse(AsmParser &parser) {
  if (parser.parseLess())
    return {};
  SMLoc loc = parser.getCurrentLocation();
  SmemType box = parseTile(parser);
  if (box && (box.getTransposed() || box.getBoxes() != 1 ||
              box.getPitch() != box.getBoxRows())) {
    parser.emitError(loc, "expected one whole box as it is stored");
    return {};
  }
  if (!box || parser.parseGreater())
    return {};
  return TensorMapType::get(parser.getContext(), box);
}

void TensorMapType::print(AsmPrinter &p) const {
  p << '<';
  printTile(p, getBox());
  p << '>';
}
