//===- TileGPUProductOps.cpp - Matrix products ----------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/TileGPU/IR/TileGPU.h"
#include "attn/Target/TargetInfo.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace mlir::tile_gpu;
using ::attn::MmaShape;

/// Half a step along K; the other half of the rows' step lies 8 rows on.
static constexpr int64_t rampCols = 8;

SmemType tile_gpu::rampType(MLIRContext *context, int64_t cols) {
  int64_t rows = cols + 8;
  return SmemType::get(context, rows, rampCols, BFloat16Type::get(context),
                       /*swizzle=*/0, /*boxes=*/1, /*pitch=*/rows,
                       /*transposed=*/false);
}

static bool is16Bit(Type type) { return type.isBF16() || type.isF16(); }

ParseResult MmaIssueOp::parse(OpAsmParser &parser, OperationState &result) {
  OpAsmParser::UnresolvedOperand a, b, acc, ramp, columns;
  bool hasAcc = false, hasRamp = false;
  Type aType, bType;
  TokenType token;
  if (parser.parseOperand(a) || parser.parseComma() || parser.parseOperand(b))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("acc"))) {
    hasAcc = true;
    if (parser.parseLParen() || parser.parseOperand(acc) ||
        parser.parseRParen())
      return failure();
  }
  if (succeeded(parser.parseOptionalKeyword("ramp"))) {
    hasRamp = true;
    if (parser.parseLParen() || parser.parseOperand(ramp) ||
        parser.parseComma() || parser.parseOperand(columns) ||
        parser.parseRParen())
      return failure();
  }
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseOptionalAttrDict(result.attributes) ||
      failed(result.name.verifyInherentAttrs(
          result.attributes, [&] { return parser.emitError(loc); })) ||
      parser.parseColonType(aType) || parser.parseComma() ||
      parser.parseType(bType) || parser.parseArrow() ||
      parser.parseType(token) ||
      parser.resolveOperand(a, aType, result.operands) ||
      parser.resolveOperand(b, bType, result.operands) ||
      (hasAcc &&
       parser.resolveOperand(acc, token.getFragType(), result.operands)))
    return failure();
  if (hasRamp && (parser.resolveOperand(ramp, parser.getBuilder().getF32Type(),
                                        result.operands) ||
                  parser.resolveOperand(
                      columns, rampType(parser.getContext(), token.getCols()),
                      result.operands)))
    return failure();
  result.addAttribute("operandSegmentSizes",
                      parser.getBuilder().getDenseI32ArrayAttr(
                          {1, 1, hasAcc, hasRamp, hasRamp}));
  result.addTypes(token);
  return success();
}

void MmaIssueOp::print(OpAsmPrinter &p) {
  p << ' ' << getA() << ", " << getB();
  if (getAcc())
    p << " acc(" << getAcc() << ')';
  if (getRamp())
    p << " ramp(" << getRamp() << ", " << getRampColumns() << ')';
  p.printOptionalAttrDict((*this)->getAttrs(), {"operandSegmentSizes"});
  p << " : " << getA().getType() << ", " << getB().getType() << " -> "
    << getToken().getType();
}

/// Checks acc = MxN, a = MxK, b = KxN.
static LogicalResult verifyShapes(Operation *op, ArrayRef<int64_t> a,
                                  ArrayRef<int64_t> b, ArrayRef<int64_t> c,
                                  int64_t kStep) {
  if (a[1] != b[0])
    return op->emitOpError("expected the columns of a to be the rows of b, but "
                           "got ")
           << a[1] << " and " << b[0];
  if (a[0] != c[0] || b[1] != c[1])
    return op->emitOpError("expected an accumulator of ")
           << a[0] << "x" << b[1] << ", but got " << c[0] << "x" << c[1];
  if (a[1] % kStep)
    return op->emitOpError("expected a depth K of a multiple of ")
           << kStep << ", but got " << a[1];
  return success();
}

/// The same of 16-bit operands of one type.
static LogicalResult verifyProduct(Operation *op, ArrayRef<int64_t> a, Type aT,
                                   ArrayRef<int64_t> b, Type bT,
                                   ArrayRef<int64_t> c, int64_t kStep) {
  if (!is16Bit(aT) || aT != bT)
    return op->emitOpError("expected both operands of bf16 or both of f16, but "
                           "got ")
           << aT << " and " << bT;
  return verifyShapes(op, a, b, c, kStep);
}

LogicalResult MmaIssueOp::verify() {
  TokenType token = getToken().getType();
  SmallVector<int64_t> a;
  Type aT;
  if (auto frag = dyn_cast<FragType>(getA().getType())) {
    if (frag.getLayout() != Layout::A || frag.getScope() != Scope::Warpgroup)
      return emitOpError("expected a to be an a fragment of a warpgroup, but "
                         "got ")
             << frag;
    a = {frag.getRows(), frag.getCols()};
    aT = frag.getElementType();
  } else {
    auto tile = cast<SmemType>(getA().getType());
    a = {tile.getRows(), tile.getCols()};
    aT = tile.getElementType();
  }
  for (Value operand : {getA(), Value(getB())})
    if (auto tile = dyn_cast<SmemType>(operand.getType()))
      if (tile.getBoxes() != 1)
        return emitOpError("expected a tile of one box, but got ") << tile;
  SmemType b = getB().getType();
  for (auto [name, live, most] :
       {std::tuple("live_depth", getLiveDepth(), b.getRows()),
        std::tuple("live_width", getLiveWidth(), b.getCols())})
    if (live && (int64_t(*live) <= 0 || int64_t(*live) > most))
      return emitOpError("expected ") << name << " to be positive and at most "
                                      << most << ", but got " << int64_t(*live);
  if (getLiveWidth() && !getAcc())
    return emitOpError("expected acc with live_width");
  if (failed(verifyProduct(
          *this, a, aT, {b.getRows(), b.getCols()}, b.getElementType(),
          {token.getRows(), token.getCols()}, MmaShape::warpgroup().k)))
    return failure();
  if (auto acc = getAcc(); acc && acc.getType() != token.getFragType())
    return emitOpError("expected acc to be ")
           << token.getFragType() << ", but got " << acc.getType();
  if (token.getCols() > MmaShape::warpgroup().nMax)
    return emitOpError("expected at most ")
           << MmaShape::warpgroup().nMax << " columns, but got "
           << token.getCols();
  if (!getRamp() != !getRampColumns())
    return emitOpError("expected a ramp with its columns");
  SmemType ramp = rampType(getContext(), token.getCols());
  if (getRamp() && getRampColumns().getType() != ramp)
    return emitOpError("expected columns of a ramp of type ")
           << ramp << ", but got " << getRampColumns().getType();
  return success();
}

LogicalResult SmemRampOp::verify() {
  int64_t cols = getTile().getType().getRows() - 8;
  SmemType expected = rampType(getContext(), cols);
  if (getTile().getType() != expected)
    return emitOpError("expected a tile of type ")
           << expected << ", but got " << getTile().getType();
  if (cols < 8 || cols % 8 || cols > MmaShape::warpgroup().nMax)
    return emitOpError("expected 8 rows more than the columns of a product, a "
                       "multiple of 8 up to ")
           << MmaShape::warpgroup().nMax << ", but got " << cols + 8;
  if ((*this)->getParentOfType<RoleOp>())
    return emitOpError("expected to stand outside of roles");
  return success();
}

LogicalResult MmaWaitOp::inferReturnTypes(MLIRContext *,
                                          std::optional<Location>,
                                          ValueRange operands, DictionaryAttr,
                                          OpaqueProperties, RegionRange,
                                          SmallVectorImpl<Type> &types) {
  for (Value operand : operands) {
    auto token = dyn_cast<TokenType>(operand.getType());
    if (!token)
      return failure();
    types.push_back(token.getFragType());
  }
  return success();
}

LogicalResult MmaWaitOp::verify() {
  if (getTokens().empty())
    return emitOpError("expected 1 token or more");
  if (int64_t(getPending()) < 0)
    return emitOpError("expected a number of pending products, but got ")
           << int64_t(getPending());
  return success();
}

/// A product of f32, `a` a tile or acc fragment and `b` a tile: of
/// multiply-adds, or on the matrix unit where `b` is rounded to tf32.
static LogicalResult verifyWideProduct(MmaSyncOp op) {
  auto b = dyn_cast<SmemType>(op.getB().getType());
  if (!b)
    return op.emitOpError("expected operand b of an f32 product to be a tile, "
                          "but got ")
           << op.getB().getType();
  bool tf32 = b.getElementType().isTF32();
  SmallVector<int64_t> a;
  if (auto frag = dyn_cast<FragType>(op.getA().getType())) {
    bool wide =
        frag.getLayout() == Layout::Acc && frag.getElementType().isF32();
    bool rounded = tf32 && frag.getElementType().isTF32();
    if (frag.getScope() != Scope::Warp || (!wide && !rounded))
      return op.emitOpError("expected operand a of ")
             << (tf32 ? "a tf32" : "an f32")
             << " product to be a warp's f32 acc fragment"
             << (tf32 ? ", a tf32 a fragment or a tile" : " or a tile")
             << ", but got " << frag;
    a = {frag.getRows(), frag.getCols()};
  } else {
    auto tile = cast<SmemType>(op.getA().getType());
    Type element = tile.getElementType();
    if (tf32 &&
        ((!element.isF32() && !element.isTF32()) || tile.getTransposed()))
      return op.emitOpError("expected operand a of a tf32 product to be a tile "
                            "of f32 or tf32 as it is stored, but got ")
             << tile;
    if (!tf32 && element.isTF32())
      return op.emitOpError("expected operand b of a tf32 product to be a tile "
                            "of tf32, but got ")
             << b;
    a = {tile.getRows(), tile.getCols()};
  }
  for (Type type : {op.getA().getType(), op.getB().getType()})
    if (auto tile = dyn_cast<SmemType>(type)) {
      if (tile.getElementType().isInteger())
        return op.emitOpError("expected operands of f32, tf32, bf16 or f16, "
                              "but got ")
               << tile.getElementType();
      if (tile.getBoxes() != 1)
        return op.emitOpError("expected a tile of one box, but got ") << tile;
    }
  FragType c = op.getAcc().getType();
  return verifyShapes(op, a, {b.getRows(), b.getCols()},
                      {c.getRows(), c.getCols()},
                      tf32 ? ::attn::MmaShape::warpTf32().k : 1);
}

static bool hasWideOperand(MmaSyncOp op) {
  for (Type type : {op.getA().getType(), op.getB().getType()}) {
    auto tile = dyn_cast<SmemType>(type);
    Type element =
        tile ? tile.getElementType() : cast<FragType>(type).getElementType();
    if (element.isF32() || element.isTF32())
      return true;
  }
  return false;
}

LogicalResult MmaSyncOp::verify() {
  FragType acc = getAcc().getType();
  if (acc.getLayout() != Layout::Acc || acc.getScope() != Scope::Warp ||
      !acc.getElementType().isF32())
    return emitOpError("expected a warp's f32 acc fragment, but got ") << acc;
  if (hasWideOperand(*this))
    return verifyWideProduct(*this);
  SmallVector<int64_t> shapes[2];
  Type elements[2];
  for (auto [index, operand] : llvm::enumerate(ValueRange{getA(), getB()})) {
    Layout layout = index == 0 ? Layout::A : Layout::B;
    if (auto frag = dyn_cast<FragType>(operand.getType())) {
      if (frag.getLayout() != layout || frag.getScope() != Scope::Warp)
        return emitOpError("expected operand ")
               << stringifyLayout(layout) << " to be a warp's "
               << stringifyLayout(layout) << " fragment or a tile, but got "
               << frag;
      shapes[index] = {frag.getRows(), frag.getCols()};
      elements[index] = frag.getElementType();
      continue;
    }
    auto tile = cast<SmemType>(operand.getType());
    if (tile.getBoxes() != 1)
      return emitOpError("expected a tile of one box, but got ") << tile;
    shapes[index] = {tile.getRows(), tile.getCols()};
    elements[index] = tile.getElementType();
  }
  return verifyProduct(*this, shapes[0], elements[0], shapes[1], elements[1],
                       {acc.getRows(), acc.getCols()}, MmaShape::warp().k);
}
