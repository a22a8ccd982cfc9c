//===- Interface.h - What the arguments of a function mean ------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The names and relations of arguments are in the operations that the user
// wrote, and gone once those are lowered. So they are worked out once, on the
// input, and carried as attributes: on arguments and results
//
//   attn.arg = {name = "q", dims = ["b", "hq", "sq", ""]}
//
// with `output`, `elements_up_to = "sk"` and `offsets_up_to = "total_q"` where
// they hold, and on functions attn.multiples = ["hq", "hk"]. An entry in the
// LLVM dialect has no types to speak of: there attn.interface is the list of
// all arguments, with `dtype`, `shape` and `strides`.
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_COMPILER_INTERFACE_H
#define ATTN_LIB_COMPILER_INTERFACE_H

#include "attn/Compiler/Compiler.h"
#include "mlir/IR/BuiltinOps.h"

namespace mlir {
class AsmParserState;
} // namespace mlir

namespace attn {

/// Annotates every public function that has no annotations yet. `source` may
/// be null: then arguments without a name are called arg0, arg1, ...
void annotateInterfaces(mlir::ModuleOp module,
                        const mlir::AsmParserState *source);

/// The entries of a module, before or after tiling. Fails, with a diagnostic,
/// on a type that no caller could pass.
mlir::LogicalResult readInterfaces(mlir::ModuleOp module,
                                   std::vector<EntryInfo> &entries);

/// Puts annotations back on plans that a pass dropped them from.
void restoreInterfaces(mlir::ModuleOp module,
                       const std::vector<EntryInfo> &entries);

} // namespace attn

#endif // ATTN_LIB_COMPILER_INTERFACE_H
