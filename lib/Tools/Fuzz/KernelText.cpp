//===- KernelText.cpp - The MLIR of a random kernel -----------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Edges.h"
#include "Kernel.h"
#include "Scans.h"

using namespace ::attn;
using namespace ::attn::fuzz;

static std::string dim(int64_t size) {
  return size < 0 ? "?" : std::to_string(size);
}

namespace {
class TextMaker {
public:
  explicit TextMaker(Kernel &k) : k(k) {}
  void run();

private:
  void listArguments();
  std::string tensor(int heads, int rows, int64_t channels, DType dtype) const;
  std::string broadcast(const BroadcastForm &form) const;
  std::string resultType(int output) const;
  void add(Argument::Role role, std::string name, std::string type,
           int index = 0) {
    k.arguments.push_back({role, std::move(name), std::move(type), index});
  }
  std::string typeOf(Argument::Role role) const {
    for (const Argument &a : k.arguments)
      if (a.role == role)
        return a.type;
    return "";
  }
  std::string attentionOp();
  std::string aggregateOp();
  std::string sourceClauses() const;
  std::string captureTypes(bool withNames) const;
  std::string region(const char *name, bool isScore, bool gate);
  std::string valueOperands() const;
  std::string commonAttributes() const;
  std::string newRows(int64_t channels) const {
    return "tensor<?x?x?x" + std::to_string(channels) + "x" +
           support::nameOf(k.dtype) + ">";
  }
  std::string appendOp() const;

  Kernel &k;
};
} // namespace

static const char *mlirName(DType dtype) {
  return dtype == DType::boolean ? "i1" : support::nameOf(dtype);
}

std::string TextMaker::tensor(int heads, int rows, int64_t channels,
                              DType dtype) const {
  std::string type = "tensor<";
  if (!k.packed)
    type += dim(k.fixed[0]) + "x";
  type += dim(k.fixed[heads]) + "x" + dim(k.fixed[rows]) + "x";
  if (channels >= 0)
    type += std::to_string(channels) + "x";
  return type + mlirName(dtype) + ">";
}

std::string TextMaker::broadcast(const BroadcastForm &form) const {
  std::string type = "tensor<";
  for (int i = 0; i < form.rank; ++i)
    type += form.one[i] ? "1x" : "?x";
  return type + mlirName(form.dtype) + ">";
}

std::string TextMaker::resultType(int output) const {
  return k.perChannel(output) ? tensor(1, 3, k.dv, k.outDType)
                              : tensor(1, 3, -1, DType::f32);
}

void TextMaker::listArguments() {
  add(Argument::Q, "q", tensor(1, 3, k.dqk, k.dtype));
  auto ofKeys = [&](int64_t channels) {
    if (!k.page)
      return tensor(2, 4, channels, k.dtype);
    return "tensor<?x?x" + dim(k.fixedPage ? k.page : -1) + "x" +
           std::to_string(channels) + "x" + mlirName(k.dtype) + ">";
  };
  add(Argument::K, "k", ofKeys(k.dqk));
  if (k.monoid->numValues)
    add(Argument::V, "v", ofKeys(k.dv));
  if (k.scale)
    add(Argument::Scale, "scale", "f32");
  if (k.softcap)
    add(Argument::Softcap, "softcap", "f32");
  if (k.bias.rank)
    add(Argument::Bias, "bias", broadcast(k.bias));
  if (k.mask.rank)
    add(Argument::Mask, "mask", broadcast(k.mask));
  if (k.alibiRank)
    add(Argument::Alibi, "alibi",
        k.alibiRank == 1 ? "tensor<?xf32>" : "tensor<?x?xf32>");
  if (k.sinks)
    add(Argument::Sinks, "sinks", "tensor<?xf32>");
  if (k.lengths)
    add(Argument::Lengths, "lengths", "tensor<?xi32>");
  if (k.windowLeft && !k.constantWindow)
    add(Argument::WindowLeft, "left", "i32");
  if (k.windowRight && !k.constantWindow)
    add(Argument::WindowRight, "right", "i32");
  if (k.packed)
    add(Argument::CuQ, "cu_q", "tensor<?xi32>");
  if (k.packed && !k.page)
    add(Argument::CuK, "cu_k", "tensor<?xi32>");
  if (k.page)
    add(Argument::Table, "table", "tensor<?x?xi32>");
  if (k.kStart)
    add(Argument::Start, "k_start", "tensor<?xi32>");
  if (k.append)
    add(Argument::KeyNew, "k_new", newRows(k.dqk));
  if (k.append && k.monoid->numValues)
    add(Argument::ValueNew, "v_new", newRows(k.dv));
  if (k.dropout)
    add(Argument::DropShare, "dropout_p", "f32");
  for (int i = 0; k.dropout && i < 4; ++i)
    add(Argument::DropWord, "word" + std::to_string(i), "i32", i);
  std::string angles = "tensor<?x" + std::to_string(k.turned / 2) + "xf32>";
  if (k.turned) {
    add(Argument::Cosines, "cosines", angles);
    add(Argument::Sines, "sines", angles);
  }
  for (int i = 0; i < k.numParams; ++i)
    add(Argument::Param, "param" + std::to_string(i), "f32", i);
  for (size_t i = 0; i < k.captures.size(); ++i) {
    const Capture &c = k.captures[i];
    std::string element = c.kind == Kind::Float ? "f32" : "i32";
    add(Argument::CapturedValue, c.name,
        c.indexedBy ? "tensor<?x" + element + ">" : element,
        static_cast<int>(i));
  }
}

std::string TextMaker::captureTypes(bool withNames) const {
  std::string names, types;
  for (const Argument &a : k.arguments) {
    if (a.role != Argument::CapturedValue)
      continue;
    names += (names.empty() ? "%" : ", %") + a.name;
    types += (types.empty() ? "" : ", ") + a.type;
  }
  return withNames ? names + " : " + types : types;
}

std::string TextMaker::region(const char *name, bool isScore, bool gate) {
  std::string text = std::string("    ") + name + " {\n    ^bb0(";
  if (isScore)
    text += "%s: f32, ";
  text += "%b: i32, %h: i32, %i: i32, %j: i32";
  for (const Argument &a : k.arguments)
    if (a.role == Argument::CapturedValue)
      text += ", %in_" + a.name + ": " + a.type;
  if (k.aggregate && k.scale)
    text += ", %in_scale: f32";
  text += "):\n";
  std::string prefix = "      ";
  if (isScore && k.aggregate) {
    // The op has no scale of its own: %s is made here.
    size_t at = text.find("%s: f32");
    text.replace(at, 2, "%dot");
    if (k.scale) {
      text += prefix + "%s = arith.mulf %dot, %in_scale : f32\n";
    } else {
      char factor[64];
      std::snprintf(factor, sizeof(factor), "%.9e",
                    1.0 / std::sqrt(static_cast<double>(k.dqk)));
      text += prefix + "%factor = arith.constant " + factor + " : f32\n" +
              prefix + "%s = arith.mulf %dot, %factor : f32\n";
    }
  }
  Printer printer(k.captures, prefix);
  std::string result = "%s", second;
  if (isScore && k.scoreExpr)
    result = printer.print(k.scoreExpr);
  if (!isScore)
    result = printer.print(k.maskExpr);
  if (gate)
    second = printer.print(k.gateExpr);
  text += printer.text + prefix + "attn.yield " + result;
  if (gate)
    text += ", " + second + " : f32, f32\n";
  else
    text += isScore ? " : f32\n" : " : i1\n";
  return text + "    }\n";
}

std::string TextMaker::valueOperands() const {
  if (!k.monoid->numValues)
    return "";
  std::string type = typeOf(Argument::V);
  if (k.monoid->numValues == 2)
    return "      values(%v, %v : " + type + ", " + type + ")\n";
  return "      values(%v : " + type + ")\n";
}

std::string TextMaker::commonAttributes() const {
  std::string text = k.tf32 ? "precision = #attn.precision<tf32>" : "";
  if (k.batchInvariant)
    text += text.empty() ? "batch_invariant" : ", batch_invariant";
  if (k.cascade)
    text += (text.empty() ? "cascade = " : ", cascade = ") +
            std::to_string(k.cascade) + " : i64";
  if (k.schedule)
    text +=
        (text.empty() ? "schedule = " : ", schedule = ") + k.schedule->print();
  return text;
}

std::string TextMaker::attentionOp() {
  std::string head, op = "attn.attention ", tail;
  if (std::strcmp(k.monoid->name, "softmax") != 0 || k.numParams) {
    op += std::string("monoid(@") + k.monoid->name;
    std::string names, types;
    for (int i = 0; i < k.numParams; ++i) {
      names += (i ? ", %param" : "%param") + std::to_string(i);
      types += i ? ", f32" : "f32";
    }
    op += k.numParams ? " params " + names + " : " + types + ")\n" : ")\n";
  }
  op += "      queries(%q : " + typeOf(Argument::Q) +
        ")\n      keys(%k : " + typeOf(Argument::K) + ")\n" + valueOperands();
  auto clause = [&](Argument::Role role, const char *name, bool typed) {
    std::string type = typeOf(role);
    if (type.empty())
      return;
    for (const Argument &a : k.arguments)
      if (a.role == role)
        op += std::string("      ") + name + "(%" + a.name +
              (typed ? " : " + type : "") + ")\n";
  };
  clause(Argument::Scale, "scale", false);
  clause(Argument::Softcap, "softcap", false);
  clause(Argument::Bias, "bias", true);
  clause(Argument::Mask, "mask_tensor", true);
  clause(Argument::Alibi, "alibi", true);
  clause(Argument::Sinks, "sinks", true);
  clause(Argument::Lengths, "lengths", true);
  if (k.constantWindow) {
    auto constant = [&](bool given, const char *name, const char *clauseName,
                        int64_t value) {
      if (!given)
        return;
      head += std::string("  %") + name + " = arith.constant " +
              std::to_string(value) + " : i32\n";
      op += std::string("      ") + clauseName + "(%" + name + ")\n";
    };
    constant(k.windowLeft, "left", "window_left", k.constantLeft);
    constant(k.windowRight, "right", "window_right", k.constantRight);
  }
  clause(Argument::WindowLeft, "window_left", false);
  clause(Argument::WindowRight, "window_right", false);
  clause(Argument::CuQ, "cu_seqlens_q", true);
  clause(Argument::CuK, "cu_seqlens_k", true);
  clause(Argument::Table, "block_table", true);
  clause(Argument::Start, "k_start", true);
  if (k.dropout)
    op += "      dropout(%dropout_p, %word0, %word1, %word2, %word3)\n";
  if (!k.captures.empty())
    op += "      captures(" + captureTypes(true) + ")\n";
  std::string angles = typeOf(Argument::Cosines);
  if (k.turned)
    op += "      tables(%cosines, %sines : " + angles + ", " + angles + ")\n";
  std::string attrs = commonAttributes();
  if (k.turned)
    attrs += (attrs.empty() ? "" : ", ") +
             ("rotary = #attn.rotary<" + std::to_string(k.turned)) +
             (k.interleaved ? ", interleaved>" : ", halves>") +
             (k.turnsBySlot ? ", rotate_by_slot" : "");
  if (k.rolling)
    attrs += attrs.empty() ? "rolling" : ", rolling";
  if (k.causal != Causal::none)
    attrs += std::string(attrs.empty() ? "" : ", ") + "causal = #attn.causal<" +
             (k.causal == Causal::topLeft ? "top_left" : "bottom_right") + ">";
  if (!attrs.empty())
    op += "      {" + attrs + "}\n";
  if (k.scoreExpr)
    op += region("score", true, false);
  if (k.maskExpr)
    op += region("mask", false, false);
  if (k.turned)
    op += rotateRegion(k);
  std::string results, types;
  for (int i = 0; i < k.numOutputs; ++i)
    types += (i ? ", " : "") + resultType(i);
  results = k.numOutputs == 1 ? "%r" : "%r:" + std::to_string(k.numOutputs);
  return head + "  " + results + " = " + op + "      -> " + types + "\n";
}

std::string TextMaker::aggregateOp() {
  bool gated = k.gateExpr != nullptr;
  std::string q = typeOf(Argument::Q), key = typeOf(Argument::K);
  std::string captured, types;
  for (const Argument &a : k.arguments)
    if (a.role == Argument::CapturedValue) {
      captured += (captured.empty() ? "%" : ", %") + a.name;
      types += (types.empty() ? "" : ", ") + a.type;
    }
  if (k.scale) {
    captured += captured.empty() ? "%scale" : ", %scale";
    types += types.empty() ? "f32" : ", f32";
  }
  std::string op = std::string("@") + k.monoid->name + " ";
  if (k.numParams)
    op += "params(%param0 : f32) ";
  op += "scores(%q, %k : " + q + ", " + key + ")\n" + valueOperands();
  if (!captured.empty())
    op += "      captures(" + captured + " : " + types + ")\n";
  op += sourceClauses();
  std::string attrs = commonAttributes();
  if (k.partials)
    attrs += std::string(attrs.empty() ? "" : ", ") +
             "splits = " + std::to_string(k.partials) + " : i64";
  if (k.granule)
    attrs += ", granule = " + std::to_string(k.granule) + " : i64";
  if (!attrs.empty())
    op += "      {" + attrs + "}\n";
  op += region("score", true, gated);
  if (k.maskExpr)
    op += region("mask", false, false);
  std::string results, resultTypes;
  for (int i = 0; i < k.numOutputs; ++i)
    resultTypes += (i ? ", " : "") + resultType(i);
  if (!k.partials) {
    // An aggregate gives all that its monoid gives.
    k.numOutputs = static_cast<int>(k.monoid->outputs.size());
    resultTypes.clear();
    for (int i = 0; i < k.numOutputs; ++i)
      resultTypes += (i ? ", " : "") + resultType(i);
    results = k.numOutputs == 1 ? "%r" : "%r:" + std::to_string(k.numOutputs);
    return "  " + results + " = attn.aggregate " + op + "      -> " +
           resultTypes + "\n";
  }

  // States: one statistic at most here, then the components.
  k.numOutputs = static_cast<int>(k.monoid->outputs.size());
  resultTypes.clear();
  for (int i = 0; i < k.numOutputs; ++i)
    resultTypes += (i ? ", " : "") + resultType(i);
  std::string list = k.monoid->text ? k.monoid->text : "";
  std::vector<bool> channels;
  auto shape = [&](std::vector<bool> form) { channels = std::move(form); };
  std::string name = k.monoid->name;
  if (name == "softmax" || name == "softmax_max" || name == "max_count" ||
      name == "softmax2")
    shape({false, true, false});
  else if (name == "softmax_entropy")
    shape({false, true, false, false});
  else if (name == "moments" || name == "spread")
    shape({false, true, false, false, false});
  else if (name == "logsumexp")
    shape({false, false});
  else if (name == "share")
    shape({true, false});
  else if (name == "stick_breaking" || name == "alpha_compositing" ||
           name == "gated_decay")
    shape({false, true});
  else
    shape({true});
  std::string parts, states, partNames, stateNames;
  for (size_t i = 0; i < channels.size(); ++i) {
    std::string row = tensor(1, 3, channels[i] ? k.dv : -1, DType::f32);
    std::string part = row;
    part.insert(std::strlen("tensor<"), std::to_string(k.partials) + "x");
    parts += (i ? ", " : "") + part;
    states += (i ? ", " : "") + row;
    std::string ref = channels.size() == 1 ? "" : "#" + std::to_string(i);
    partNames += (i ? ", %p" : "%p") + ref;
    stateNames += (i ? ", %c" : "%c") + ref;
  }
  std::string count =
      channels.size() == 1 ? "" : ":" + std::to_string(channels.size());
  std::string text =
      "  %p" + count + " = attn.partial " + op + "      -> " + parts + "\n";
  text += "  %c" + count + " = attn.combine @" + name + "(" + partNames +
          "\n      : " + parts + ")\n      -> " + states + "\n";
  results = k.numOutputs == 1 ? "%r" : "%r:" + std::to_string(k.numOutputs);
  return text + "  " + results + " = attn.finalize @" + name + "(" +
         stateNames + "\n      : " + states + ")\n      -> " + resultTypes +
         "\n";
}

/// Where the rows are, and what keys count from.
std::string TextMaker::sourceClauses() const {
  std::string words, operandTypes, text;
  auto word = [&](bool given, const char *what, const char *type) {
    if (!given)
      return;
    words += (words.empty() ? "" : ", ") + std::string(what);
    operandTypes += (operandTypes.empty() ? "" : ", ") + std::string(type);
  };
  const char *vector = "tensor<?xi32>";
  word(k.packed && !k.page, "varlen %cu_k", vector);
  word(k.page, "paged %table", "tensor<?x?xi32>");
  word(k.rolling, "ring %k_start", vector);
  word(k.lengths, "lengths %lengths", vector);
  if (k.packed)
    text += "      query_source(varlen %cu_q : tensor<?xi32>)\n";
  if (!words.empty())
    text += "      key_source(" + words + " : " + operandTypes + ")\n";
  if (k.kStart)
    text += "      key_base(%k_start : tensor<?xi32>)\n";
  return text;
}

/// Writes the last rows of each sequence to the caches.
std::string TextMaker::appendOp() const {
  bool hasValues = k.monoid->numValues;
  std::string types = newRows(k.dqk), caches = typeOf(Argument::K);
  if (hasValues) {
    types += ", " + newRows(k.dv);
    caches += ", " + typeOf(Argument::V);
  }
  return std::string("  %after = attn.append rows(%k_new") +
         (hasValues ? ", %v_new : " : " : ") + types + ")\n      to(%k" +
         (hasValues ? ", %v : " : " : ") + caches +
         ") lengths(%lengths : tensor<?xi32>)" +
         (k.page ? " block_table(%table : tensor<?x?xi32>)"
                 : " k_start(%k_start : tensor<?xi32>) {rolling}") +
         " -> tensor<?xi32>\n";
}

void TextMaker::run() {
  k.arguments.clear();
  listArguments();
  std::string body = k.aggregate ? aggregateOp() : attentionOp();
  const std::string before = "%lengths", after = "%after";
  for (size_t at = 0; k.append && (at = body.find(before, at)) != body.npos;)
    body.replace(at, before.size(), after);
  if (k.append)
    body = appendOp() + body;
  std::string text = k.monoid->text ? k.monoid->text : "";
  text += "func.func @attention(";
  for (size_t i = 0; i < k.arguments.size(); ++i)
    text += (i ? ",\n    %" : "%") + k.arguments[i].name + ": " +
            k.arguments[i].type;
  std::string types, values;
  for (int i = 0; i < k.numOutputs; ++i) {
    types += (i ? ", " : "") + resultType(i);
    values += (i ? ", %r" : "%r") +
              (k.numOutputs == 1 ? "" : "#" + std::to_string(i));
    k.arguments.push_back(
        {Argument::Output, k.monoid->outputs[i], resultType(i), i});
  }
  text += ")\n    -> (" + types + ") {\n" + body + "  return " + values +
          " : " + types + "\n}\n";
  k.text = text;
}

void fuzz::printKernel(Kernel &kernel) { TextMaker(kernel).run(); }
