//===- Descriptor.cpp - Attention by named options, as IR -----------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The description becomes text, which is then compiled like any other: what
// `--until-after=input` prints is all there is.
//===----------------------------------------------------------------------===//

#include "attn/Compiler/Descriptor.h"
#include "Diagnostics.h"
#include "RegionText.h"
#include "attn/Dialect/Attn/IR/Attn.h"
#include "attn/Dialect/Attn/Prelude/Prelude.h"
#include "attn/InitAll.h"
#include "attn/Support/Nesting.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using ::attn::AttentionDescriptor;
using ::attn::support::DType;
using ::attn::support::Failure;
using ::attn::support::Result;
using llvm::formatv;

namespace {
/// What a description must know of its monoid.
struct MonoidSummary {
  std::string name, kind;
  std::string definition; ///< Empty for a shipped monoid.
  unsigned numScores = 1, numValues = 0, numParams = 0;
  SmallVector<bool> outputHasChannels;
  std::string outputs; ///< Their names, as "o, lse".
};
} // namespace

/// The outputs that depend on a `value` component have a channel dimension.
static SmallVector<bool> findChannels(mlir::attn::MonoidOp monoid) {
  SmallVector<bool> result;
  if (monoid.getFinalize().empty())
    return result;
  Block &block = monoid.getFinalize().front();
  DenseSet<Value> channels;
  for (unsigned i = 0; i < monoid.getNumComponents(); ++i) {
    unsigned number = monoid.getNumStats() + i;
    if (monoid.getComponent(i) == mlir::attn::Component::value &&
        number < block.getNumArguments())
      channels.insert(block.getArgument(number));
  }
  for (Operation &op : block)
    if (llvm::any_of(op.getOperands(),
                     [&](Value value) { return channels.contains(value); }))
      channels.insert(op.result_begin(), op.result_end());
  for (Value value : block.getTerminator()->getOperands())
    result.push_back(channels.contains(value));
  return result;
}

/// `text` in quotes, or how it begins.
static std::string quote(StringRef text) {
  constexpr size_t most = 80;
  return ("'" + text.take_front(most) + (text.size() > most ? "...'" : "'"))
      .str();
}

static Result<MonoidSummary> summarize(const std::string &monoid,
                                       const std::string &sourceName) {
  MonoidSummary summary;
  std::string text = monoid;
  bool isText = StringRef(monoid).contains("attn.monoid");
  if (!isText) {
    const ::attn::ShippedMonoid *shipped = ::attn::lookupShippedMonoid(monoid);
    if (!shipped)
      return Failure{
          "expected a shipped monoid (" + ::attn::shippedMonoidNames() +
          ") or the text of an attn.monoid, but got " + quote(monoid)};
    text = std::string(shipped->text);
  }

  if (std::string error = ::attn::support::checkNesting(text); !error.empty())
    return Failure{sourceName + ": " + error};
  DialectRegistry registry;
  ::attn::registerAllDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  std::string error;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    if (error.empty())
      error = ::attn::printLocation(diagnostic.getLocation()) +
              ::attn::firstLine(diagnostic.str());
    return success();
  });
  auto module = parseSourceString<ModuleOp>(text, &context, sourceName);
  if (!module)
    return Failure{error};
  auto monoids = module.get().getOps<mlir::attn::MonoidOp>();
  if (!llvm::hasSingleElement(monoids))
    return Failure{"expected the text of one attn.monoid, but got " +
                   std::to_string(llvm::range_size(monoids))};
  mlir::attn::MonoidOp op = *monoids.begin();
  summary.name = op.getSymName().str();
  if (isText)
    summary.definition = text;
  summary.kind = mlir::attn::stringifyMonoidKind(op.getKind()).str();
  summary.numScores = op.getNumScores();
  summary.numValues = op.getNumValues();
  summary.numParams = op.getNumParams();
  summary.outputHasChannels = findChannels(op);
  summary.outputs =
      llvm::join(op.getOutputs().getAsValueRange<StringAttr>(), ", ");
  return summary;
}

namespace {
/// Writes the function.
class ModuleWriter {
public:
  ModuleWriter(const AttentionDescriptor &descriptor,
               const MonoidSummary &monoid, const ::attn::RegionTexts &regions)
      : d(descriptor), monoid(monoid), regions(regions),
        element(nameOf(descriptor.dtype)),
        lead(descriptor.packed ? "?x?" : "?x?x?"),
        valueDim(descriptor.valueDim ? descriptor.valueDim
                                     : descriptor.headDim) {}

  std::string write() {
    std::string q = tensor(d.headDim), k = ofKeys(d.headDim),
                v = ofKeys(valueDim);
    add("q", q);
    add("k", k);
    // The keys are argument 1.
    if (monoid.numValues)
      add("v", v + (d.valueInKey ? " {attn.columns_of = 1 : i64}" : ""));
    operand("queries", "q", q);
    operand("keys", "k", k);
    if (monoid.numValues) {
      std::string names, types;
      for (unsigned i = 0; i < monoid.numValues; ++i) {
        names += i ? ", %v" : "%v";
        types += (i ? ", " : "") + v;
      }
      operands += " values(" + names + " : " + types + ")";
    }
    scalar(d.scale, "scale", "f32");
    scalar(d.softcap, "softcap", "f32");
    if (d.bias)
      addTensor("bias", "bias", broadcast(d.bias, nameOf(d.biasDType)));
    if (d.mask)
      addTensor("mask_tensor", "mask", broadcast(d.mask, "i8"));
    if (d.alibi)
      addTensor("alibi", "alibi_slopes",
                d.alibi == 2 ? "tensor<?x?xf32>" : "tensor<?xf32>");
    if (d.sinks)
      addTensor("sinks", "sinks", "tensor<?xf32>");
    if (d.lengths)
      add("kv_lengths", "tensor<?xi32>");
    if (d.lengths)
      operand("lengths", d.append ? "after" : "kv_lengths", "tensor<?xi32>");
    scalar(d.window, "window_left", "i32");
    scalar(d.window, "window_right", "i32");
    if (d.packed)
      addTensor("cu_seqlens_q", "cu_seqlens_q", "tensor<?xi32>");
    if (d.packed && !d.blockTable)
      addTensor("cu_seqlens_k", "cu_seqlens_k", "tensor<?xi32>");
    if (d.blockTable)
      addTensor("block_table", "block_table", "tensor<?x?xi32>");
    if (d.kStart)
      addTensor("k_start", "k_start", "tensor<?xi32>");
    if (d.append)
      addAppend(k, v);
    if (d.dropout) {
      add("dropout_p", "f32");
      operands += " dropout(%dropout_p";
      for (const char *word :
           {"seed_low", "seed_high", "offset_low", "offset_high"}) {
        add(std::string("dropout_") + word, "i32");
        operands += std::string(", %dropout_") + word;
      }
      operands += ")";
    }
    if (d.rotaryDim)
      addRotary();
    return finish();
  }

private:
  /// The rows that are appended, and the operation that does it.
  void addAppend(const std::string &k, const std::string &v) {
    auto rowsOf = [&](int64_t channels) {
      return formatv("tensor<{0}{1}x{2}>",
                     d.append == AttentionDescriptor::PackedRows ? "?x?x"
                                                                 : "?x?x?x",
                     channels, element)
          .str();
    };
    bool hasValues = monoid.numValues && !d.valueInKey;
    std::string key = rowsOf(d.headDim), value = rowsOf(valueDim);
    add("k_new", key);
    if (hasValues)
      add("v_new", value);
    append =
        formatv("  %after = attn.append rows(%k_new{0} : {1}{2}) to(%k{3} "
                ": {4}{5}) lengths(%kv_lengths : tensor<?xi32>)",
                hasValues ? ", %v_new" : "", key, hasValues ? ", " + value : "",
                hasValues ? ", %v" : "", k, hasValues ? ", " + v : "")
            .str();
    if (d.append == AttentionDescriptor::PackedRows)
      append += " offsets(%cu_seqlens_q : tensor<?xi32>)";
    if (d.blockTable)
      append += " block_table(%block_table : tensor<?x?xi32>)";
    if (d.rolling)
      append += " k_start(%k_start : tensor<?xi32>) {rolling}";
    append += " -> tensor<?xi32>\n";
  }
  /// A row at a position that the tables do not have becomes NaN: reads are
  /// clamped, and a wrong angle would not show.
  void addRotary() {
    std::string type = formatv("tensor<?x{0}xf32>", d.rotaryDim / 2).str();
    add("rotary_cos", type);
    add("rotary_sin", type);
    // Those that both tables have.
    prologue += formatv("  %rotary.first = arith.constant 0 : index\n"
                        "  %rotary.c = tensor.dim %rotary_cos, %rotary.first "
                        ": {0}\n"
                        "  %rotary.s = tensor.dim %rotary_sin, %rotary.first "
                        ": {0}\n"
                        "  %rotary.rows = arith.minsi %rotary.c, %rotary.s : "
                        "index\n"
                        "  %rotary.positions = arith.index_cast %rotary.rows : "
                        "index to i32\n",
                        type)
                    .str();
    tables = " tables(%rotary_cos, %rotary_sin, %rotary.positions : " + type +
             ", " + type + ", i32)";
    // No capture has a dot in its name.
    rotate = formatv(R"( rotate {{
  ^bb0(%r.x: f32, %r.y: f32, %r.b: i32, %r.h: i32, %r.n: i32, %r.c: i32, %r.cosines: {0}, %r.sines: {0}, %r.positions: i32):
    %r.row = arith.index_cast %r.n : i32 to index
    %r.column = arith.index_cast %r.c : i32 to index
    %r.cos_read = tensor.extract %r.cosines[%r.row, %r.column] : {0}
    %r.sin_read = tensor.extract %r.sines[%r.row, %r.column] : {0}
    %r.nan = arith.constant 0x7FC00000 : f32
    %r.known = arith.cmpi ult, %r.n, %r.positions : i32
    %r.cos = arith.select %r.known, %r.cos_read, %r.nan : f32
    %r.sin = arith.select %r.known, %r.sin_read, %r.nan : f32
    %r.x_cos = arith.mulf %r.x, %r.cos : f32
    %r.y_sin = arith.mulf %r.y, %r.sin : f32
    %r.y_cos = arith.mulf %r.y, %r.cos : f32
    %r.x_sin = arith.mulf %r.x, %r.sin : f32
    %r.first = arith.subf %r.x_cos, %r.y_sin : f32
    %r.second = arith.addf %r.y_cos, %r.x_sin : f32
    attn.yield %r.first, %r.second : f32, f32
  })",
                     type)
                 .str();
  }
  std::string tensor(int64_t channels) {
    return formatv("tensor<{0}x{1}x{2}>", lead, channels, element).str();
  }
  std::string ofKeys(int64_t channels) {
    std::string rows = d.blockTable > 0 ? std::to_string(d.blockTable) : "?";
    return d.blockTable
               ? formatv("tensor<?x?x{0}x{1}x{2}>", rows, channels, element)
                     .str()
               : tensor(channels);
  }
  std::string broadcast(int flags, const char *type) {
    std::string text = "tensor<";
    for (int flag : {AttentionDescriptor::Batch, AttentionDescriptor::Heads,
                     AttentionDescriptor::Queries, AttentionDescriptor::Keys})
      text += flags & flag ? "1x" : "?x";
    return text + type + ">";
  }
  void add(const std::string &name, const std::string &type) {
    arguments += (arguments.empty() ? "%" : ", %") + name + ": " + type;
  }
  void operand(const std::string &keyword, const std::string &name,
               const std::string &type) {
    operands += " " + keyword + "(%" + name + " : " + type + ")";
  }
  void addTensor(const std::string &keyword, const std::string &name,
                 const std::string &type) {
    add(name, type);
    operand(keyword, name, type);
  }
  void scalar(bool given, const std::string &name, const std::string &type) {
    if (!given)
      return;
    add(name, type);
    operands += " " + name + "(%" + name + ")";
  }

  std::string finish() {
    std::string params, paramTypes, results, values;
    for (unsigned i = 0; i < monoid.numParams; ++i) {
      std::string name = "param" + std::to_string(i);
      add(name, "f32");
      params += (i ? ", %" : "%") + name;
      paramTypes += i ? ", f32" : "f32";
    }
    std::string which = " monoid(@" + monoid.name;
    if (monoid.numParams)
      which += " params " + params + " : " + paramTypes;
    which += ")";
    std::string names, types;
    for (auto &[name, type] : regions.captures) {
      add(name, type);
      names += (names.empty() ? "%" : ", %") + name;
      types += (types.empty() ? "" : ", ") + type;
    }
    if (!names.empty())
      operands += " captures(" + names + " : " + types + ")";
    operands += tables;
    std::string functions;
    if (!regions.score.empty())
      functions += " score {\n" + regions.score + "  }";
    if (!regions.mask.empty())
      functions += " mask {\n" + regions.mask + "  }";
    functions += rotate;
    for (int i = 0; i < d.numOutputs; ++i) {
      results += i ? ", " : "";
      results += monoid.outputHasChannels[i]
                     ? tensor(valueDim)
                     : formatv("tensor<{0}xf32>", lead).str();
      values += (i ? ", %o#" : "%o#") + std::to_string(i);
    }
    std::string attributes;
    auto attribute = [&](const std::string &text) {
      attributes += (attributes.empty() ? "" : ", ") + text;
    };
    if (d.rolling)
      attribute("rolling");
    if (d.batchInvariant)
      attribute("batch_invariant");
    if (d.cascade)
      attribute("cascade = " + std::to_string(d.cascade) + " : i64");
    if (d.rotaryDim)
      attribute(formatv("rotary = #attn.rotary<{0}, {1}>", d.rotaryDim,
                        d.rotaryInterleaved ? "interleaved" : "halves"));
    if (d.rotaryDim && d.rotaryBySlot)
      attribute("rotate_by_slot");
    if (d.causal != "none")
      attribute("causal = #attn.causal<" + d.causal + ">");
    if (d.precision != "ieee")
      attribute("precision = #attn.precision<" + d.precision + ">");
    if (!d.schedule.empty())
      attribute((StringRef(d.schedule).ltrim().starts_with("#attn.rung")
                     ? "attn.rung = "
                     : "schedule = ") +
                d.schedule);
    std::string function =
        formatv("{0}\nfunc.func @{8}({1}) -> ({2}) {11}{{\n{9}"
                "  %o:{3} = attn.attention{4}{5} {{{6}}{10} -> {2}\n"
                "  return {7} : {2}\n}\n",
                monoid.definition, arguments, results, d.numOutputs, which,
                operands, attributes, values, d.name, prologue + append,
                functions, d.anyOrder ? "attributes {attn.any_order} " : "")
            .str();
    if (llvm::all_of(d.expectedSizes, [](int64_t size) { return size == 0; }))
      return d.dispatch && d.schedule.empty()
                 ? formatv("module attributes {{attn.dispatch} {{\n{0}}\n",
                           function)
                       .str()
                 : function;
    ArrayRef<int64_t> sizes = d.expectedSizes;
    return formatv("module attributes {{attn.expected_sizes = array<i64: {0}>} "
                   "{{\n{1}}\n",
                   llvm::join(
                       llvm::map_range(
                           sizes.back() ? sizes : sizes.drop_back(),
                           [](int64_t size) { return std::to_string(size); }),
                       ", "),
                   function)
        .str();
  }

  const AttentionDescriptor &d;
  const MonoidSummary &monoid;
  const ::attn::RegionTexts &regions;
  std::string element, lead;
  int64_t valueDim;
  std::string arguments, operands, append, prologue, tables, rotate;
};
} // namespace

namespace attn {
Result<std::string> listOutputs(const std::string &monoid) {
  Result<MonoidSummary> summary = summarize(monoid, "<monoid>");
  if (!summary)
    return summary.takeFailure();
  return summary->outputs;
}

/// What keeps rows of several sequences from reading keys together, or nothing.
static std::string_view whyNoCascade(const AttentionDescriptor &d) {
  if (!d.blockTable)
    return "no block table";
  if (d.packed)
    return "packed queries";
  if (d.causal == "top_left")
    return "a top-left diagonal";
  if (d.window)
    return "a window";
  if (d.kStart)
    return "k_start";
  if (d.bias || d.alibi || !d.scoreMod.empty())
    return "scores that differ by position";
  if (d.mask || d.blockMask || !d.maskMod.empty())
    return "another mask";
  if (d.dropout)
    return "dropout";
  if (d.rotaryDim)
    return "rotary";
  if (d.batchInvariant)
    return "batch_invariant";
  return "";
}

/// A name that becomes a function of C and of MLIR.
static bool isIdentifier(llvm::StringRef name) {
  auto isLetter = [](char c) { return llvm::isAlpha(c) || c == '_'; };
  return !name.empty() && isLetter(name[0]) && llvm::all_of(name, [&](char c) {
    return isLetter(c) || llvm::isDigit(c);
  });
}

static bool isOperandType(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
}

using Check = std::optional<Failure>;

static Failure fail(const std::string &expected, const std::string &got) {
  return Failure{"expected " + expected + ", but got " + got};
}

/// Options that are wrong whatever the others are.
static Check checkOptions(const AttentionDescriptor &d) {
  if (!isIdentifier(d.name))
    return fail("a name of letters, digits and underscores", quote(d.name));
  if (!isOperandType(d.dtype))
    return fail("q, k and v to be f32, f16 or bf16", nameOf(d.dtype));
  if (d.bias && !isOperandType(d.biasDType))
    return fail("bias to be f32, f16 or bf16", nameOf(d.biasDType));
  // Tiles hold whole rows; 4096 channels are 16 KiB each.
  for (int64_t dim : {d.headDim, d.valueDim ? d.valueDim : int64_t(1)})
    if (dim < 1 || dim > 4096)
      return fail("head dimensions between 1 and 4096", std::to_string(dim));
  if (d.causal != "none" && d.causal != "top_left" &&
      d.causal != "bottom_right")
    return fail("causal to be none, top_left or bottom_right",
                "'" + d.causal + "'");
  if (d.precision != "ieee" && d.precision != "tf32")
    return fail("precision to be ieee or tf32", "'" + d.precision + "'");
  for (int64_t size : d.expectedSizes)
    if (size < 0)
      return fail("expected sizes of at least 0", std::to_string(size));
  return std::nullopt;
}

/// Where keys come from, and what is done with them there.
static Check checkCaches(const AttentionDescriptor &d) {
  if (d.rolling && (!d.kStart || d.packed || d.blockTable))
    return fail("a rolling cache with k_start, and neither packed sequences "
                "nor a block table",
                !d.kStart ? "no k_start" : "one of these");
  if (d.batchInvariant && d.rolling)
    return fail("batch_invariant without a rolling cache, whose key tiles "
                "start at a key that moves",
                "both");
  if (d.append == AttentionDescriptor::PackedRows &&
      !(d.packed && d.blockTable))
    return fail("packed rows to append with packed queries and pages",
                d.packed ? "no pages" : "queries of a batch each");
  if (d.cascade < 0 || d.cascade > 4)
    return fail("cascade to be between 0 and 4 levels",
                std::to_string(d.cascade));
  if (d.cascade)
    if (std::string_view other = whyNoCascade(d); !other.empty())
      return fail("cascade with a block table and a bottom-right or no "
                  "diagonal alone, so that all rows of a sequence see its "
                  "first keys and score them by the dot",
                  std::string(other));
  if (d.append && (!d.lengths || (d.packed && !d.blockTable)))
    return fail("rows to append to caches with kv_lengths, which are not "
                "packed",
                !d.lengths ? "no kv_lengths" : "packed keys");
  return std::nullopt;
}

/// Channels that are shared or turned, and small numbers of options.
static Check checkChannels(const AttentionDescriptor &d) {
  if (d.valueInKey && (d.valueDim ? d.valueDim : d.headDim) > d.headDim)
    return fail("at most as many columns of values as the keys have, " +
                    std::to_string(d.headDim),
                std::to_string(d.valueDim));
  if (d.rotaryDim &&
      (d.rotaryDim < 2 || d.rotaryDim % 2 || d.rotaryDim > d.headDim))
    return fail("an even number of channels to rotate, from 2 to the head "
                "dimension " +
                    std::to_string(d.headDim) + ", or 0 for none",
                std::to_string(d.rotaryDim));
  if (d.rotaryDim && d.valueInKey)
    return fail("values of their own with rotary embedding",
                "values that are columns of the keys");
  if (d.blockTable < -1)
    return fail("the rows of a page, or -1 for any, or 0 without pages",
                std::to_string(d.blockTable));
  if (d.alibi < 0 || d.alibi > 2)
    return fail("alibi to be 0, 1 or 2", std::to_string(d.alibi));
  return std::nullopt;
}

/// That the schedule is one, and no text that goes on with something else.
static Check checkSchedule(const AttentionDescriptor &d) {
  StringRef text = StringRef(d.schedule).trim();
  if (d.schedule.empty())
    return std::nullopt;
  if (std::string error = support::checkNesting(text); !error.empty())
    return Failure{error};
  DialectRegistry registry;
  registerAllDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  std::string error;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    if (error.empty())
      error = firstLine(diagnostic.str());
    return success();
  });
  size_t length = 0;
  Attribute attribute = parseAttribute(text, &context, Type(), &length);
  if (attribute && length < text.size())
    return fail("the text of one #attn.schedule<...>",
                quote(text.drop_front(length)) + " behind it");
  if (isa_and_nonnull<mlir::attn::ScheduleAttr, mlir::attn::RungAttr>(
          attribute))
    return std::nullopt;
  // What is wrong within the brackets is known best there.
  if (!attribute && !error.empty() &&
      (text.starts_with("#attn.schedule<") || text.starts_with("#attn.rung<")))
    return Failure{error};
  return fail("the text of an #attn.schedule<...>", quote(text));
}

/// What the monoid has to be for the options.
static Check checkMonoid(const AttentionDescriptor &d,
                         const MonoidSummary &monoid) {
  if (monoid.numScores != 1)
    return fail("a monoid that takes one score",
                "'" + monoid.name + "', which takes " +
                    std::to_string(monoid.numScores) +
                    "; compile the text of an attn.aggregate @" + monoid.name +
                    " with one dot pair for each" +
                    (monoid.kind == "general"
                         ? ""
                         : " (scores alone: only general monoids take values "
                           "in lift, and this one is " +
                               monoid.kind + ")"));
  if (d.dropout && monoid.kind == "general")
    return fail("dropout with a monoid that sums weighted values (cocycle, "
                "suffix or prefix)",
                "'" + monoid.name + "', which is general");
  int available = int(monoid.outputHasChannels.size());
  if (d.numOutputs < 1 || d.numOutputs > available)
    return fail("between 1 and " + std::to_string(available) + " outputs of '" +
                    monoid.name + "'",
                std::to_string(d.numOutputs));
  return std::nullopt;
}

Result<AttentionModule>
makeAttentionModule(const AttentionDescriptor &descriptor,
                    const std::string &monoidName) {
  for (auto check : {checkOptions, checkCaches, checkChannels, checkSchedule})
    if (Check wrong = check(descriptor))
      return std::move(*wrong);
  Result<MonoidSummary> monoid = summarize(descriptor.monoid, monoidName);
  if (!monoid)
    return monoid.takeFailure();
  if (Check wrong = checkMonoid(descriptor, *monoid))
    return std::move(*wrong);
  Result<RegionTexts> regions = readRegions(descriptor);
  if (!regions)
    return regions.takeFailure();
  AttentionModule result{ModuleWriter(descriptor, *monoid, *regions).write()};
  StringRef definition(monoid->definition);
  if (definition.empty())
    return result;
  StringRef before = StringRef(result.text).split(definition).first;
  result.linesBeforeMonoid = before.count('\n');
  result.monoidLines = definition.count('\n') + 1;
  return result;
}
} // namespace attn
