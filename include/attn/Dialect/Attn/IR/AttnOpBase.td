//===- AttnOpBase.td - What operations of attn share -------*- tablegen -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTN_IR_ATTNOPBASE_TD
#define ATTN_DIALECT_ATTN_IR_ATTNOPBASE_TD

include "attn/Dialect/Attn/IR/AttnAttrs.td"
include "attn/Dialect/Attn/IR/AttnInterfaces.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/IR/RegionKindInterface.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

/// An op without attributes that nobody reads: names are its own or begin with a
/// dialect's.
def Attn_OwnAttributes : NativeOpTrait<"OwnAttributes"> {
  let cppNamespace = "::mlir::attn";
}

class Attn_Op<string mnemonic, list<Trait> traits = []>
    : Op<Attn_Dialect, mnemonic, !listconcat([Attn_OwnAttributes], traits)>;

def Attn_FloatTensor : TensorOf<[F32, F16, BF16]>;
def Attn_I32Vec : 1DTensorOf<[I32]>;
def Attn_I32Table : 2DTensorOf<[I32]>;
def Attn_Index : AnyTypeOf<[Attn_I32Vec, Attn_I32Table]>;
def Attn_Base : AnyTypeOf<[I32, Attn_I32Vec]>;
def Attn_Capture
    : AnyTypeOf<[AnyRankedTensor, F32, F64, F16, BF16, I1, I8, I32, I64],
                "ranked tensor or scalar">;

#endif // ATTN_DIALECT_ATTN_IR_ATTNOPBASE_TD
