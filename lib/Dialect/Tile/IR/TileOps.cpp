//===- TileOps.cpp - Operations of the tile dialect -----------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/Tile/IR/KernelOps.h"
#include "attn/Dialect/Tile/IR/Tile.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace mlir::tile;

#define GET_OP_CLASSES
#include "attn/Dialect/Tile/IR/TileOps.cpp.inc"

//===----------------------------------------------------------------------===//
// KernelOp
//===----------------------------------------------------------------------===//

void KernelOp::build(OpBuilder &b, OperationState &state, StringRef name,
                     FunctionType type, attn::ScheduleAttr schedule) {
  tile::buildKernel<KernelOp>(b, state, name, type, schedule);
}

ParseResult KernelOp::parse(OpAsmParser &parser, OperationState &result) {
  SMLoc loc = parser.getCurrentLocation();
  if (tile::parseKernel<KernelOp>(parser, result))
    return failure();
  return tile::checkAttribute<IntegerAttr>(
      parser, loc, result, getScratchBytesAttrName(result.name), "an i64");
}

void KernelOp::print(OpAsmPrinter &p) { tile::printKernel(p, *this); }

LogicalResult KernelOp::verify() {
  if (getNumResults())
    return emitOpError("expected a kernel to have no results, but got ")
           << getNumResults();
  ArrayRef<Type> types = getArgumentTypes();
  if (std::optional<uint64_t> bytes = getScratchBytes()) {
    auto scratch =
        types.empty() ? MemRefType() : dyn_cast<MemRefType>(types.back());
    if (!scratch || !scratch.hasStaticShape() ||
        !scratch.getLayout().isIdentity() ||
        !scratch.getElementType().isInteger(8) ||
        scratch.getNumElements() != int64_t(*bytes))
      return emitOpError("expected the last argument of a kernel with "
                         "scratch_bytes to be a memref of as many i8");
    types = types.drop_back();
  }
  if (types.empty() || !types.back().isIndex())
    return emitOpError("expected the last argument of a kernel to be the "
                       "block's number, of type index");
  return success();
}

//===----------------------------------------------------------------------===//
// DotOp
//===----------------------------------------------------------------------===//

ParseResult DotOp::parse(OpAsmParser &parser, OperationState &result) {
  OpAsmParser::UnresolvedOperand lhs, rhs, acc, scale, ramp;
  bool hasAcc = false, hasScale = false, hasRamp = false;
  TileType lhsType, rhsType, resultType;
  if (parser.parseOperand(lhs) || parser.parseComma() ||
      parser.parseOperand(rhs))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("acc"))) {
    hasAcc = true;
    if (parser.parseOperand(acc))
      return failure();
  }
  if (succeeded(parser.parseOptionalKeyword("scale"))) {
    hasScale = true;
    if (parser.parseOperand(scale))
      return failure();
  }
  if (succeeded(parser.parseOptionalKeyword("ramp"))) {
    hasRamp = true;
    if (parser.parseOperand(ramp))
      return failure();
  }
  for (StringRef flag : {"transpose_lhs", "transpose_rhs", "tf32"})
    if (succeeded(parser.parseOptionalKeyword(flag)))
      result.addAttribute(flag, parser.getBuilder().getUnitAttr());
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseOptionalAttrDict(result.attributes) ||
      failed(result.name.verifyInherentAttrs(
          result.attributes, [&] { return parser.emitError(loc); })) ||
      parser.parseColonType(lhsType) || parser.parseComma() ||
      parser.parseType(rhsType) || parser.parseArrow() ||
      parser.parseType(resultType))
    return failure();
  auto scaleType = TileType::get(parser.getContext(), resultType.getRows(), 1,
                                 parser.getBuilder().getF32Type());
  if (parser.resolveOperand(lhs, lhsType, result.operands) ||
      parser.resolveOperand(rhs, rhsType, result.operands) ||
      (hasAcc && parser.resolveOperand(acc, resultType, result.operands)) ||
      (hasScale && parser.resolveOperand(scale, scaleType, result.operands)) ||
      (hasRamp && parser.resolveOperand(ramp, parser.getBuilder().getF32Type(),
                                        result.operands)))
    return failure();
  result.addAttribute("operandSegmentSizes",
                      parser.getBuilder().getDenseI32ArrayAttr(
                          {1, 1, hasAcc, hasScale, hasRamp}));
  result.addTypes(resultType);
  return success();
}

void tile::expandRamp(DotOp dot) {
  Value ramp = dot.getRamp();
  if (!ramp)
    return;
  dot.getRampMutable().clear();
  Location loc = dot.getLoc();
  OpBuilder b(dot->getContext());
  b.setInsertionPointAfter(dot);
  auto map = MapOp::create(b, loc, dot.getType(), ValueRange(dot.getResult()));
  dot.getResult().replaceAllUsesExcept(map.getResult(0), map);
  Type i32 = b.getI32Type(), f32 = b.getF32Type();
  Block *body =
      b.createBlock(&map.getBody(), {}, {i32, i32, f32}, {loc, loc, loc});
  Value column = arith::SIToFPOp::create(b, loc, f32, body->getArgument(1));
  Value added = arith::MulFOp::create(b, loc, ramp, column);
  YieldOp::create(
      b, loc,
      Value(arith::AddFOp::create(b, loc, body->getArgument(2), added)));
}

void DotOp::print(OpAsmPrinter &p) {
  p << ' ' << getLhs() << ", " << getRhs();
  if (getAcc())
    p << " acc " << getAcc();
  if (getScale())
    p << " scale " << getScale();
  if (getRamp())
    p << " ramp " << getRamp();
  if (getTransposeLhs())
    p << " transpose_lhs";
  if (getTransposeRhs())
    p << " transpose_rhs";
  if (getTf32())
    p << " tf32";
  p.printOptionalAttrDict(
      (*this)->getAttrs(),
      {"operandSegmentSizes", "transpose_lhs", "transpose_rhs", "tf32"});
  p << " : " << getLhs().getType() << ", " << getRhs().getType() << " -> "
    << getType();
}
