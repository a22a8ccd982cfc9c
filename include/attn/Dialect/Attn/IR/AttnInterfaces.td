//===- AttnInterfaces.td - Interfaces of the attn dialect --*- tablegen -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTN_IR_ATTNINTERFACES_TD
#define ATTN_DIALECT_ATTN_IR_ATTNINTERFACES_TD

include "mlir/IR/OpBase.td"

def Attn_ReductionOpInterface : OpInterface<"ReductionOpInterface"> {
  let cppNamespace = "::mlir::attn";
  let description = [{
    An op that reduces the keys of each query row in a monoid: `attn.aggregate`
    (finished outputs) and `attn.partial` (states). Splitting, tiling and the
    mask analysis are written against this interface. Its words are those of a
    reduction over keys; over queries (`getReducedSide`) the query operands are
    the left ones all the same, which have the rows: those of keys.
  }];
  let methods = [
    InterfaceMethod<"The symbol of the monoid.", "::mlir::FlatSymbolRefAttr",
      "getMonoidRef", (ins), [{}], [{ return $_op.getMonoidAttr(); }]>,
    InterfaceMethod<"Run-time parameters of the monoid.", "::mlir::ValueRange",
      "getMonoidParams", (ins), [{}], [{ return $_op.getParams(); }]>,
    InterfaceMethod<"Left operand of each dot pair, [b, hq, sq, d].",
      "::mlir::ValueRange", "getQueryOperands", (ins), [{}],
      [{ return $_op.getQueries(); }]>,
    InterfaceMethod<"Right operand of each dot pair, [b, hk, sk, d].",
      "::mlir::ValueRange", "getKeyOperands", (ins), [{}],
      [{ return $_op.getKeys(); }]>,
    InterfaceMethod<"Operand of each `value` component, [b, hk, sk, dv].",
      "::mlir::ValueRange", "getValueOperands", (ins), [{}],
      [{ return $_op.getValues(); }]>,
    InterfaceMethod<"Tensors and scalars that the regions read.",
      "::mlir::ValueRange", "getCaptureOperands", (ins), [{}],
      [{ return $_op.getCaptures(); }]>,
    InterfaceMethod<"Where the rows of the queries are.",
      "::mlir::attn::Source", "getQuerySource", (ins), [{}],
      [{ return $_op.getQuerySource(); }]>,
    InterfaceMethod<"Where the rows of the keys and values are.",
      "::mlir::attn::Source", "getKeySource", (ins), [{}],
      [{ return $_op.getKeySource(); }]>,
    InterfaceMethod<"Whether sequences have sizes of their own, which are none "
      "of the tensors'.", "bool", "hasOwnSizes", (ins), [{}], [{
        return !$_op.getQuerySource().hasBatch() ||
               !$_op.getKeySource().hasBatch();
      }]>,
    InterfaceMethod<"What rows count from, i32 or i32 of each batch, or null.",
      "::mlir::Value", "getRowBaseOperand", (ins), [{}],
      [{ return $_op.getRowBase(); }]>,
    InterfaceMethod<"What keys count from, likewise.",
      "::mlir::Value", "getKeyBaseOperand", (ins), [{}],
      [{ return $_op.getKeyBase(); }]>,
    InterfaceMethod<"Score region (may be empty: the score is dot 0).",
      "::mlir::Region &", "getScoreBody", (ins), [{}],
      [{ return $_op.getScore(); }]>,
    InterfaceMethod<"Mask region (may be empty: every pair is live).",
      "::mlir::Region &", "getMaskBody", (ins), [{}],
      [{ return $_op.getMask(); }]>,
    InterfaceMethod<"Factor region (may be empty: every factor is 1).",
      "::mlir::Region &", "getFactorBody", (ins), [{}],
      [{ return $_op.getFactor(); }]>,
    InterfaceMethod<"Init region (may be empty: the identity).",
      "::mlir::Region &", "getInitBody", (ins), [{}],
      [{ return $_op.getInit(); }]>,
    InterfaceMethod<"What is reduced: the keys, or the queries of all heads of "
      "a key head.", "::mlir::attn::Side", "getReducedSide", (ins), [{}],
      [{ return $_op.getSide(); }]>,
    InterfaceMethod<"The schedule, or null.", "::mlir::attn::ScheduleAttr",
      "getScheduleAttribute", (ins), [{}], [{ return $_op.getScheduleAttr(); }]>,
    InterfaceMethod<"What products may round f32 operands to.",
      "::mlir::attn::ProductPrecision", "getProductPrecision", (ins), [{}],
      [{ return $_op.getPrecision(); }]>,
    InterfaceMethod<"Whether the maximum of scores may pass a NaN by.", "bool", "getRelaxedMaximum">,
    InterfaceMethod<"Says so.", "void", "setRelaxedMaximum", (ins "bool":$value)>,
    InterfaceMethod<"Whether weights may be measured from 0.", "bool", "getFixableAnchor">,
    InterfaceMethod<"Says so.", "void", "setFixableAnchor", (ins "bool":$value)>,
    InterfaceMethod<"Whether the maximum is in units of the score.", "bool", "getScoreUnit">,
    InterfaceMethod<"Says so.", "void", "setScoreUnit", (ins "bool":$value)>,
    InterfaceMethod<"Whether products add what scores grow by.", "bool", "getLinearBias">,
    InterfaceMethod<"Says so.", "void", "setLinearBias", (ins "bool":$value)>,
    InterfaceMethod<"Whether heads of a key head share tiles.", "bool", "getPackedHeads">,
    InterfaceMethod<"Says so.", "void", "setPackedHeads", (ins "bool":$value)>,
    InterfaceMethod<"Whether registers hold what the mask reads.", "bool", "getHeldSamples">,
    InterfaceMethod<"Says so.", "void", "setHeldSamples", (ins "bool":$value)>,
    InterfaceMethod<"Whether scores of dead pairs are 0.", "bool", "getDeadIsZero">,
    InterfaceMethod<"Says so.", "void", "setDeadIsZero", (ins "bool":$value)>,
    InterfaceMethod<"Whether the mask says no more than which elements are -inf.", "bool", "getDeadByElement">,
    InterfaceMethod<"Says so.", "void", "setDeadByElement", (ins "bool":$value)>,
    InterfaceMethod<"Whether sums may have any order.", "bool", "getAnyOrder">,
    InterfaceMethod<"Says so.", "void", "setAnyOrder", (ins "bool":$value)>,
    InterfaceMethod<"How powers of 2 are computed, where weights are such.",
      "std::optional<::mlir::attn::Exponent>", "getExponent">,
    InterfaceMethod<"Says so.", "void", "setExponent",
      (ins "std::optional<::mlir::attn::Exponent>":$value)>,
    InterfaceMethod<"What lists of key tiles have, where there are lists.",
      "std::optional<::mlir::attn::ListForm>", "getListedKeys">,
    InterfaceMethod<"Says so.", "void", "setListedKeys",
      (ins "std::optional<::mlir::attn::ListForm>":$value)>,
    InterfaceMethod<"Keys of a part that depends on no other row.",
      "std::optional<uint64_t>", "getPartKeys">,
    InterfaceMethod<"Says so.", "void", "setPartKeys",
      (ins "std::optional<uint64_t>":$value)>,
    InterfaceMethod<"Whether the bits of a row depend on nothing beside it.",
      "bool", "isBatchInvariant", (ins), [{}],
      [{ return $_op.getBatchInvariant(); }]>,
    InterfaceMethod<"Which channels turn before the dot, or null: none.",
      "::mlir::attn::RotaryAttr", "getRotaryAttribute", (ins), [{}],
      [{ return $_op.getRotaryAttr(); }]>,
    InterfaceMethod<"Turns pairs of channels of queries (may be empty: they "
      "stay as they are).", "::mlir::Region &", "getRotateQueriesBody", (ins),
      [{}], [{ return $_op.getRotateQueries(); }]>,
    InterfaceMethod<"Turns pairs of channels of keys, likewise.",
      "::mlir::Region &", "getRotateKeysBody", (ins), [{}],
      [{ return $_op.getRotateKeys(); }]>
  ];
}

#endif // ATTN_DIALECT_ATTN_IR_ATTNINTERFACES_TD
