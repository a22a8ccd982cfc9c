//===- Scans.cpp - Scans by description -----------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn-c/Scans.h"
#include "Handles.h"

#include <string>
#include <vector>

using namespace ::attn;
using support::DType;

namespace {

/// The text of a function with one attn.scan.
class ScanText {
public:
  explicit ScanText(const AttnScanDesc &desc)
      : desc(desc), dk(std::to_string(desc.keyDim) + "x"),
        dv(std::to_string(desc.valueDim) + "x"),
        lead(desc.packed   ? "?x?x"
             : desc.tokens ? "?x?x" + std::to_string(desc.tokens) + "x"
                           : "?x?x?x"),
        type(support::nameOf(static_cast<DType>(desc.dtype))) {}

  std::string build() {
    addOperands();
    addStates();
    std::string results = tensor(lead + dv, type);
    unsigned count = 1;
    for (const std::string &state : states())
      if (desc.final) {
        results += ", " + state;
        ++count;
      }
    std::string values;
    for (unsigned i = 0; i < count; ++i)
      values += (i ? ", %r#" : "%r#") + std::to_string(i);
    return "func.func @scan(" + arguments + ") -> (" + results +
           ") {\n  %r:" + std::to_string(count) + " = attn.scan" + clauses +
           " {" + flags() + "}" + feature() + " -> " + results + "\n  return " +
           values + " : " + results + "\n}\n";
  }

private:
  static std::string tensor(const std::string &sizes, const std::string &type) {
    return "tensor<" + sizes + type + ">";
  }
  void argument(const std::string &name, const std::string &type) {
    arguments += (arguments.empty() ? "%" : ", %") + name + ": " + type;
  }
  /// One clause with one operand.
  void clause(bool given, const char *word, const std::string &name,
              const std::string &type) {
    if (!given)
      return;
    argument(name, type);
    clauses += std::string(" ") + word + "(%" + name + " : " + type + ")";
  }

  void addOperands() {
    std::string numbers = lead, keys = lead + dk;
    clause(true, "queries", "q", tensor(keys, type));
    clause(true, "keys", "k", tensor(keys, type));
    clause(true, "values", "v", tensor(lead + dv, type));
    if (desc.scale) {
      argument("scale", "f32");
      clauses += " scale(%scale)";
    }
    std::string channels = desc.gates == ATTN_GATES_KEY     ? dk
                           : desc.gates == ATTN_GATES_VALUE ? dv
                                                            : "";
    clause(desc.gates, "decay", "decay", tensor(lead + channels, "f32"));
    clause(desc.weight, "weight", "weight", tensor(numbers, "f32"));
    clause(desc.logWeight, "log_weight", "log_weight", tensor(numbers, "f32"));
    clause(desc.delta, "delta", "beta", tensor(numbers, "f32"));
    if (desc.erase) {
      std::string rows = tensor(keys, "f32");
      argument("erase_a", rows);
      argument("erase_b", rows);
      clauses += " erase(%erase_a, %erase_b : " + rows + ", " + rows + ")";
    }
    clause(desc.bonus, "bonus", "bonus", tensor("?x" + dk, "f32"));
  }

  std::vector<std::string> states(const char *matrix = "f32") const {
    std::vector<std::string> all = {
        tensor("?x?x" + (desc.valuesFirst ? dv + dk : dk + dv), matrix)};
    if (desc.normalize)
      all.push_back(tensor("?x?x" + dk, "f32"));
    if (desc.logWeight)
      all.push_back(tensor("?x?x", "f32"));
    return all;
  }

  void addGroup(const std::string &word, const std::string &prefix,
                const char *matrix = "f32") {
    static constexpr const char *parts[] = {"S", "z", "m"};
    std::string names, types;
    unsigned next = 0;
    for (const std::string &state : states(matrix)) {
      // Without z, m comes next.
      const char *part = parts[next == 1 && !desc.normalize ? 2 : next];
      argument(prefix + part, state);
      names += (next ? ", %" : "%") + prefix + part;
      types += (next ? ", " : "") + state;
      ++next;
    }
    clauses += " " + word + "(" + names + " : " + types + ")";
  }

  void addStates() {
    if (desc.init)
      addGroup("init", "init_");
    clause(desc.packed, "cu_seqlens", "cu", "tensor<?xi32>");
    clause(desc.lengths, "lengths", "lengths", "tensor<?xi32>");
    if (desc.slots) {
      addGroup("slots", "pool_",
               support::nameOf(static_cast<DType>(desc.poolDtype)));
      clause(desc.slots == ATTN_SLOTS_INDEX, "index", "slot", "tensor<?xi32>");
    }
  }

  std::string flags() const {
    std::string words;
    auto add = [&](bool given, const std::string &word) {
      if (given)
        words += (words.empty() ? "" : ", ") + word;
    };
    add(desc.gates == ATTN_GATES_VALUE, "value_gates");
    add(desc.erase == ATTN_ERASE_BEFORE, "erase_before");
    add(desc.readBefore, "read_before");
    add(desc.whole, "whole");
    add(desc.normalize, "normalize");
    add(desc.l2norm, "l2norm");
    add(desc.final, "final");
    add(desc.valuesFirst, "values_first");
    add(desc.chunk, "chunk = " + std::to_string(desc.chunk));
    add(desc.segments, "segments = " + std::to_string(desc.segments));
    return words;
  }

  std::string feature() const {
    return desc.feature ? " feature {\n" + std::string(desc.feature) + "\n}"
                        : "";
  }

  const AttnScanDesc &desc;
  std::string dk, dv, lead, type, arguments, clauses;
};

} // namespace

AttnError *attnCompileScan(AttnContext *context, const AttnScanDesc *given,
                           const AttnCompileOptions *options,
                           AttnKernel **kernel) {
  AttnScanDesc desc;
  if (AttnError *error = readStruct(given, "AttnScanDesc", desc))
    return error;
  if (desc.dtype != ATTN_F32 && desc.dtype != ATTN_F16 &&
      desc.dtype != ATTN_BF16)
    return makeError(
        "expected dtype to be ATTN_F32, ATTN_F16 or ATTN_BF16, but "
        "got " +
        std::to_string(desc.dtype));
  if (desc.keyDim < 1 || desc.valueDim < 1 || desc.keyDim > 4096 ||
      desc.valueDim > 4096)
    return makeError(
        "expected keyDim and valueDim between 1 and 4096, but got " +
        std::to_string(desc.keyDim) + " and " + std::to_string(desc.valueDim));
  if (desc.gates < ATTN_GATES_NONE || desc.gates > ATTN_GATES_VALUE ||
      desc.erase < ATTN_ERASE_NONE || desc.erase > ATTN_ERASE_BEFORE)
    return makeError("expected gates of ATTN_GATES_... and erase of "
                     "ATTN_ERASE_..., but got " +
                     std::to_string(desc.gates) + " and " +
                     std::to_string(desc.erase));
  if (desc.slots < ATTN_SLOTS_NONE || desc.slots > ATTN_SLOTS_OWN)
    return makeError("expected slots of ATTN_SLOTS_..., but got " +
                     std::to_string(desc.slots));
  if (desc.poolDtype != ATTN_F32 && desc.poolDtype != ATTN_F16 &&
      desc.poolDtype != ATTN_BF16)
    return makeError("expected poolDtype to be ATTN_F32, ATTN_F16 or "
                     "ATTN_BF16, but got " +
                     std::to_string(desc.poolDtype));
  if (desc.tokens < 0 || (desc.tokens && desc.packed))
    return makeError("expected tokens of 0 or more, and 0 with packed, but "
                     "got " +
                     std::to_string(desc.tokens));
  std::string text = ScanText(desc).build();
  AttnCompileOptions own = {};
  own.structSize = sizeof(own);
  own.sourceName = "scan";
  return attnCompile(context, text.data(), text.size(),
                     options ? options : &own, kernel);
}
