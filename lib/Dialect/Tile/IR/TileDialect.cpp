//===- TileDialect.cpp - The tile dialect ---------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/Tile/IR/Tile.h"
#include "attn/Support/MostCounted.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::tile;

#include "attn/Dialect/Tile/IR/TileDialect.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "attn/Dialect/Tile/IR/TileTypes.cpp.inc"

void TileDialect::initialize() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "attn/Dialect/Tile/IR/TileTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "attn/Dialect/Tile/IR/TileOps.cpp.inc"
      >();
}

LogicalResult TileDialect::verifyOperationAttribute(Operation *op,
                                                    NamedAttribute attr) {
  if (attr.getName() == leastPowerName) {
    auto power = dyn_cast<IntegerAttr>(attr.getValue());
    if (!isa<math::ExpOp, math::Exp2Op>(op) || !power ||
        !power.getType().isSignlessInteger(32) || power.getInt() < -150 ||
        power.getInt() > -100)
      return op->emitOpError("expected tile.least_power to be an i32 from -150 "
                             "to -100, on math.exp or math.exp2");
    return success();
  }
  if (attr.getName() == approximateName) {
    if (!isa<arith::SIToFPOp, DotOp>(op) || !isa<UnitAttr>(attr.getValue()))
      return op->emitOpError("expected tile.approximate to be a unit attribute "
                             "of arith.sitofp or tile.dot");
    return success();
  }
  if (attr.getName() == planName) {
    auto func = dyn_cast<func::FuncOp>(op);
    if (!func || !isa<UnitAttr>(attr.getValue()))
      return op->emitOpError(
          "expected tile.plan to be a unit attribute of func.func");
    if (func.getNumResults())
      return op->emitOpError("expected a plan to return nothing, but got ")
             << func.getNumResults() << " results; outputs are arguments";
    return success();
  }
  return op->emitOpError("expected no attribute ")
         << attr.getName() << ", which the tile dialect does not define";
}

//===----------------------------------------------------------------------===//
// TileType
//===----------------------------------------------------------------------===//

Type TileType::parse(AsmParser &parser) {
  SmallVector<int64_t> dims;
  Type elementType;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLess() ||
      parser.parseDimensionList(dims, /*allowDynamic=*/false) ||
      parser.parseType(elementType) || parser.parseGreater())
    return {};
  if (dims.size() != 2) {
    parser.emitError(loc, "expected a tile of 2 dimensions, but got ")
        << dims.size();
    return {};
  }
  return parser.getChecked<TileType>(loc, parser.getContext(), dims[0], dims[1],
                                     elementType);
}

void TileType::print(AsmPrinter &printer) const {
  printer << '<' << getRows() << 'x' << getCols() << 'x' << getElementType()
          << '>';
}

Type SourceType::parse(AsmParser &parser) {
  SmallVector<int64_t> shape;
  Type elementType;
  if (parser.parseLess() || parser.parseDimensionList(shape) ||
      parser.parseType(elementType) || parser.parseGreater())
    return {};
  return SourceType::get(parser.getContext(), shape, elementType);
}

void SourceType::print(AsmPrinter &printer) const {
  printer << '<';
  printer.printDimensionList(getShape());
  printer << 'x' << getElementType() << '>';
}

LogicalResult TileType::verify(function_ref<InFlightDiagnostic()> emitError,
                               int64_t rows, int64_t cols, Type elementType) {
  if (rows <= 0 || cols <= 0)
    return emitError() << "expected positive tile dimensions, but got " << rows
                       << "x" << cols;
  using ::attn::mostCounted;
  if (rows > mostCounted || cols > mostCounted)
    return emitError() << "expected tile dimensions of at most " << mostCounted
                       << ", but got " << rows << "x" << cols;
  if (!elementType.isF32() && !elementType.isF16() && !elementType.isBF16() &&
      !elementType.isSignlessInteger(1) && !elementType.isSignlessInteger(8) &&
      !elementType.isSignlessInteger(32))
    return emitError() << "expected a tile of f32, f16, bf16, i1, i8 or i32, "
                          "but got "
                       << elementType;
  return success();
}
