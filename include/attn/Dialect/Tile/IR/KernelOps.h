//===- KernelOps.h - What kernels of two dialects share ---------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Building, parsing and printing of tile.kernel and tile_gpu.kernel, and
// checks of memory that their plans ask for.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_TILE_IR_KERNELOPS_H
#define ATTN_DIALECT_TILE_IR_KERNELOPS_H

#include "attn/Dialect/Attn/IR/AttnAttrs.h"
#include "mlir/IR/Builders.h"
#include "mlir/Interfaces/FunctionImplementation.h"

namespace mlir::tile {

template <typename Kernel>
void buildKernel(OpBuilder &b, OperationState &state, StringRef name,
                 FunctionType type, attn::ScheduleAttr schedule) {
  state.addAttribute(Kernel::getSymNameAttrName(state.name),
                     b.getStringAttr(name));
  state.addAttribute(Kernel::getFunctionTypeAttrName(state.name),
                     TypeAttr::get(type));
  state.addAttribute(Kernel::getSymVisibilityAttrName(state.name),
                     b.getStringAttr("private"));
  if (schedule)
    state.addAttribute(Kernel::getScheduleAttrName(state.name), schedule);
  state.addRegion();
}

/// Refuses an attribute `name` of another kind than `T`, which would be dropped
/// on its way to the operation's properties.
template <typename T>
ParseResult checkAttribute(OpAsmParser &parser, SMLoc loc,
                           const OperationState &result, StringAttr name,
                           StringRef expected) {
  Attribute value = result.attributes.get(name);
  if (!value || isa<T>(value))
    return success();
  return parser.emitError(loc, "expected ")
         << name.getValue() << " to be " << expected << ", but got " << value;
}

template <typename Kernel>
ParseResult parseKernel(OpAsmParser &parser, OperationState &result) {
  auto makeType = [](Builder &b, ArrayRef<Type> arguments,
                     ArrayRef<Type> results,
                     function_interface_impl::VariadicFlag, std::string &) {
    return b.getFunctionType(arguments, results);
  };
  SMLoc loc = parser.getCurrentLocation();
  if (function_interface_impl::parseFunctionOp(
          parser, result, /*allowVariadic=*/false,
          Kernel::getFunctionTypeAttrName(result.name), makeType,
          Kernel::getArgAttrsAttrName(result.name),
          Kernel::getResAttrsAttrName(result.name)))
    return failure();
  return checkAttribute<attn::ScheduleAttr>(
      parser, loc, result, Kernel::getScheduleAttrName(result.name),
      "an #attn.schedule<...>");
}

template <typename Kernel> void printKernel(OpAsmPrinter &p, Kernel op) {
  function_interface_impl::printFunctionOp(
      p, op, /*isVariadic=*/false, op.getFunctionTypeAttrName(),
      op.getArgAttrsAttrName(), op.getResAttrsAttrName());
}

/// Checks that `memories` are memrefs without layout, and that there is one of
/// `sizes` for each of their dynamic dimensions, in order.
LogicalResult verifyAllocation(Operation *op, TypeRange memories,
                               ValueRange sizes);

} // namespace mlir::tile

#endif // ATTN_DIALECT_TILE_IR_KERNELOPS_H
