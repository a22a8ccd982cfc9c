//===- AttnOps.cpp - Operations of the attn dialect -----------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
// Assembly. The verifiers are in AttnVerifiers.cpp.
//===----------------------------------------------------------------------===//

#include "attn/Dialect/Attn/IR/Attn.h"
#include "attn/Dialect/Attn/IR/Scan.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace mlir::attn;

#define GET_OP_CLASSES
#include "attn/Dialect/Attn/IR/AttnOps.cpp.inc"

MonoidOp mlir::attn::lookupMonoid(Operation *op, FlatSymbolRefAttr ref) {
  return SymbolTable::lookupNearestSymbolFrom<MonoidOp>(op, ref);
}

FlatSymbolRefAttr mlir::attn::getMonoidRef(Operation *op) {
  if (isa<AttentionOp, AggregateOp, PartialOp, ScoresOp, CombineOp, FinalizeOp>(
          op))
    return op->getAttrOfType<FlatSymbolRefAttr>("monoid")
               ? op->getAttrOfType<FlatSymbolRefAttr>("monoid")
               : FlatSymbolRefAttr::get(op->getContext(), "softmax");
  return {};
}

SmallVector<bool> mlir::attn::getPerChannelOutputs(Region &finalize,
                                                   unsigned numStats,
                                                   ArrayAttr components) {
  if (finalize.empty())
    return {};
  Block &block = finalize.front();
  llvm::SmallPtrSet<Value, 16> varying;
  for (auto [i, attr] : llvm::enumerate(components))
    if (cast<ComponentAttr>(attr).getValue() == Component::value &&
        numStats + i < block.getNumArguments())
      varying.insert(block.getArgument(numStats + i));
  // Regions are one block without nested regions: one pass in order will do.
  for (Operation &op : block)
    if (llvm::any_of(op.getOperands(),
                     [&](Value value) { return varying.contains(value); }))
      varying.insert_range(op.getResults());
  SmallVector<bool> perChannel;
  for (Value output : block.back().getOperands())
    perChannel.push_back(varying.contains(output));
  return perChannel;
}

SmallVector<bool> mlir::attn::getPerChannelOutputs(MonoidOp monoid) {
  return getPerChannelOutputs(monoid.getFinalize(), monoid.getNumStats(),
                              monoid.getComponents());
}

//===----------------------------------------------------------------------===//
// Named regions
//===----------------------------------------------------------------------===//

/// Parses `name region` pairs, in any order, each at most once.
static ParseResult
parseNamedRegions(OpAsmParser &parser, ArrayRef<StringRef> names,
                  ArrayRef<std::unique_ptr<Region>> regions) {
  while (true) {
    bool found = false;
    for (auto [name, region] : llvm::zip(names, regions)) {
      SMLoc loc = parser.getCurrentLocation();
      if (failed(parser.parseOptionalKeyword(name)))
        continue;
      if (!region->empty())
        return parser.emitError(loc, "expected region '")
               << name << "' at most once";
      if (parser.parseRegion(*region))
        return failure();
      if (region->empty())
        return parser.emitError(loc, "expected region '")
               << name << "' to have a body";
      found = true;
    }
    if (!found)
      return success();
  }
}

static void printNamedRegions(OpAsmPrinter &p, ArrayRef<StringRef> names,
                              MutableArrayRef<Region> regions) {
  for (auto [name, region] : llvm::zip(names, regions)) {
    if (region.empty())
      continue;
    p.printNewline();
    p << name << ' ';
    p.printRegion(region);
  }
}

//===----------------------------------------------------------------------===//
// MonoidOp
//===----------------------------------------------------------------------===//

static constexpr StringRef monoidRegionNames[] = {
    "identity", "combine", "rescale", "shift",
    "gate",     "factors", "lift",    "finalize"};

ParseResult MonoidOp::parse(OpAsmParser &parser, OperationState &result) {
  StringAttr name;
  MLIRContext *context = parser.getContext();
  Builder builder(context);
  StringRef kindWord;
  if (succeeded(parser.parseOptionalKeyword("private")))
    result.addAttribute("sym_visibility", builder.getStringAttr("private"));
  if (parser.parseSymbolName(name, "sym_name", result.attributes))
    return failure();
  SMLoc kindLoc = parser.getCurrentLocation();
  if (parser.parseKeyword(&kindWord))
    return failure();
  auto kind = symbolizeMonoidKind(kindWord);
  if (!kind)
    return parser.emitError(kindLoc,
                            "expected kind to be one of cocycle, "
                            "suffix, prefix, general, affine, but got '")
           << kindWord << "'";
  result.addAttribute("kind", MonoidKindAttr::get(context, *kind));

  SmallVector<Attribute> stats, components, params, outputs;
  auto parseType = [&](SmallVector<Attribute> &into) {
    return [&]() -> ParseResult {
      Type type;
      if (parser.parseType(type))
        return failure();
      into.push_back(TypeAttr::get(type));
      return success();
    };
  };
  auto parseComponent = [&]() -> ParseResult {
    StringRef word;
    SMLoc loc = parser.getCurrentLocation();
    if (parser.parseKeyword(&word))
      return failure();
    auto component = symbolizeComponent(word);
    if (!component)
      return parser.emitError(loc, "expected component to be one of value, "
                                   "unit, but got '")
             << word << "'";
    components.push_back(ComponentAttr::get(context, *component));
    return success();
  };
  auto parseName = [&]() -> ParseResult {
    std::string word;
    if (parser.parseString(&word))
      return failure();
    outputs.push_back(builder.getStringAttr(word));
    return success();
  };
  using Delimiter = AsmParser::Delimiter;
  if (parser.parseKeyword("stats") ||
      parser.parseCommaSeparatedList(Delimiter::Paren, parseType(stats)) ||
      parser.parseKeyword("components") ||
      parser.parseCommaSeparatedList(Delimiter::Paren, parseComponent))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("params")))
    if (parser.parseCommaSeparatedList(Delimiter::Paren, parseType(params)))
      return failure();
  if (succeeded(parser.parseOptionalKeyword("outputs")))
    if (parser.parseCommaSeparatedList(Delimiter::Paren, parseName))
      return failure();
  result.addAttribute("stats", builder.getArrayAttr(stats));
  result.addAttribute("components", builder.getArrayAttr(components));
  result.addAttribute("params", builder.getArrayAttr(params));
  result.addAttribute("outputs", builder.getArrayAttr(outputs));
  if (parser.parseOptionalAttrDictWithKeyword(result.attributes))
    return failure();

  SmallVector<std::unique_ptr<Region>> regions;
  for (size_t i = 0; i < std::size(monoidRegionNames); ++i)
    regions.push_back(std::make_unique<Region>());
  if (parser.parseLBrace() ||
      parseNamedRegions(parser, monoidRegionNames, regions) ||
      parser.parseRBrace())
    return failure();
  result.addRegions(regions);
  return success();
}

void MonoidOp::print(OpAsmPrinter &p) {
  p << ' ';
  if (getSymVisibility())
    p << *getSymVisibility() << ' ';
  p.printSymbolName(getSymName());
  p << ' ' << stringifyMonoidKind(getKind()) << " stats(";
  llvm::interleaveComma(getStats().getAsValueRange<TypeAttr>(), p);
  p << ") components(";
  llvm::interleaveComma(getComponents(), p, [&](Attribute attr) {
    p << stringifyComponent(cast<ComponentAttr>(attr).getValue());
  });
  p << ")";
  if (!getParams().empty()) {
    p << " params(";
    llvm::interleaveComma(getParams().getAsValueRange<TypeAttr>(), p);
    p << ")";
  }
  if (!getOutputs().empty()) {
    p << " outputs(";
    llvm::interleaveComma(getOutputs(), p, [&](Attribute attr) { p << attr; });
    p << ")";
  }
  p.printOptionalAttrDictWithKeyword(
      (*this)->getAttrs(), {"sym_name", "sym_visibility", "kind", "stats",
                            "components", "params", "outputs"});
  p << " {";
  p.increaseIndent();
  printNamedRegions(p, monoidRegionNames, (*this)->getRegions());
  p.decreaseIndent();
  p.printNewline();
  p << "}";
}

//===----------------------------------------------------------------------===//
// AggregateOp, PartialOp, ScoresOp
//===----------------------------------------------------------------------===//

namespace {
/// Operand groups in the order of the operand segments.
enum Segment {
  Params,
  Queries,
  Keys,
  Values,
  Captures,
  QueryIndex,
  KeyIndex,
  RowBase,
  KeyBase,
  Parts // of attn.partial alone
};
constexpr unsigned numSegments = 10;
} // namespace

Source AttentionOp::getQuerySource() {
  return {getCuQ() ? SourceKind::varlen : SourceKind::dense, getCuQ(), Value()};
}

Source AttentionOp::getKeySource() {
  if (getCuK())
    return {SourceKind::varlen, getCuK(), getLengths()};
  if (getBlockTable())
    return {SourceKind::paged, getBlockTable(), getLengths()};
  if (getRolling())
    return {SourceKind::ring, getKStart(), getLengths()};
  return {SourceKind::dense, Value(), getLengths()};
}

/// `name ( %a, %b : type, type )`, absent when the keyword is.
static ParseResult
parseOperandClause(OpAsmParser &parser, StringRef name,
                   SmallVectorImpl<OpAsmParser::UnresolvedOperand> &operands,
                   SmallVectorImpl<Type> &types, bool required = false) {
  if (failed(parser.parseOptionalKeyword(name))) {
    if (required)
      return parser.emitError(parser.getCurrentLocation(), "expected '")
             << name << "'";
    return success();
  }
  return failure(parser.parseLParen() || parser.parseOperandList(operands) ||
                 parser.parseColonTypeList(types) || parser.parseRParen());
}

/// `name ( varlen %cu, lengths %n : type, type )`: the words are those of a
/// source, and its index operands follow them.
static ParseResult
parseSourceClause(OpAsmParser &parser, StringRef name, StringRef formName,
                  NamedAttrList &attributes,
                  SmallVectorImpl<OpAsmParser::UnresolvedOperand> &operands,
                  SmallVectorImpl<Type> &types) {
  if (failed(parser.parseOptionalKeyword(name)))
    return success();
  SourceKind kind = SourceKind::dense;
  bool lengths = false;
  auto parseWord = [&]() -> ParseResult {
    StringRef word;
    SMLoc loc = parser.getCurrentLocation();
    if (parser.parseKeyword(&word))
      return failure();
    auto symbol = symbolizeSourceKind(word);
    bool isKind = symbol && *symbol != SourceKind::dense;
    if (isKind ? !operands.empty() : word != "lengths" || lengths)
      return parser.emitError(loc, "expected varlen, paged or ring, and then "
                                   "lengths, but got '")
             << word << "'";
    if (isKind)
      kind = *symbol;
    else
      lengths = true;
    return parser.parseOperand(operands.emplace_back());
  };
  if (parser.parseLParen() || parser.parseCommaSeparatedList(parseWord) ||
      parser.parseColonTypeList(types) || parser.parseRParen())
    return failure();
  attributes.append(formName,
                    SourceAttr::get(parser.getContext(), kind, lengths));
  return success();
}

static void printSourceClause(OpAsmPrinter &p, StringRef name,
                              const Source &source) {
  SmallVector<Value> operands = source.getOperands();
  if (operands.empty())
    return;
  p << ' ' << name << '(';
  if (source.map)
    p << stringifySourceKind(source.kind) << ' ' << source.map
      << (source.lengths ? ", " : "");
  if (source.lengths)
    p << "lengths " << source.lengths;
  p << " : " << TypeRange(ValueRange(operands)) << ')';
}

static ParseResult parseReduction(OpAsmParser &parser, OperationState &result,
                                  ArrayRef<StringRef> regionNames,
                                  bool isPartial) {
  using Operands = SmallVector<OpAsmParser::UnresolvedOperand>;
  Operands operands[numSegments], scores;
  SmallVector<Type> types[numSegments], scoreTypes;
  FlatSymbolRefAttr monoid;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseAttribute(monoid, "monoid", result.attributes) ||
      parseOperandClause(parser, "params", operands[Params], types[Params]) ||
      parseOperandClause(parser, "scores", scores, scoreTypes,
                         /*required=*/true) ||
      parseOperandClause(parser, "values", operands[Values], types[Values]) ||
      parseOperandClause(parser, "captures", operands[Captures],
                         types[Captures]) ||
      parseSourceClause(parser, "query_source", "query_form", result.attributes,
                        operands[QueryIndex], types[QueryIndex]) ||
      parseSourceClause(parser, "key_source", "key_form", result.attributes,
                        operands[KeyIndex], types[KeyIndex]) ||
      parseOperandClause(parser, "row_base", operands[RowBase],
                         types[RowBase]) ||
      parseOperandClause(parser, "key_base", operands[KeyBase],
                         types[KeyBase]) ||
      (isPartial &&
       parseOperandClause(parser, "parts", operands[Parts], types[Parts])) ||
      parser.parseOptionalAttrDict(result.attributes) ||
      failed(result.name.verifyInherentAttrs(
          result.attributes, [&] { return parser.emitError(loc); })))
    return failure();
  if (scores.empty() || scores.size() % 2 || scores.size() != scoreTypes.size())
    return parser.emitError(loc, "expected scores to list pairs of a query and "
                                 "a key operand with their types, but got ")
           << scores.size() << " operands and " << scoreTypes.size()
           << " types";
  for (size_t i = 0; i < scores.size(); ++i) {
    operands[i % 2 ? Keys : Queries].push_back(scores[i]);
    types[i % 2 ? Keys : Queries].push_back(scoreTypes[i]);
  }
  SmallVector<int32_t> segments;
  for (unsigned i = 0; i < (isPartial ? numSegments : Parts); ++i) {
    if (parser.resolveOperands(operands[i], types[i], loc, result.operands))
      return failure();
    segments.push_back(operands[i].size());
  }
  result.addAttribute("operandSegmentSizes",
                      parser.getBuilder().getDenseI32ArrayAttr(segments));

  SmallVector<std::unique_ptr<Region>> regions;
  for (size_t i = 0; i < regionNames.size(); ++i)
    regions.push_back(std::make_unique<Region>());
  SmallVector<Type> results;
  if (parseNamedRegions(parser, regionNames, regions) || parser.parseArrow() ||
      parser.parseTypeList(results))
    return failure();
  result.addRegions(regions);
  result.addTypes(results);
  return success();
}

static void printOperandClause(OpAsmPrinter &p, StringRef name,
                               ValueRange operands) {
  if (operands.empty())
    return;
  p << ' ' << name << '(' << operands << " : " << operands.getTypes() << ')';
}

template <typename OpT>
static void printReduction(OpAsmPrinter &p, OpT op,
                           ArrayRef<StringRef> regionNames) {
  p << ' ';
  p.printSymbolName(op.getMonoid());
  printOperandClause(p, "params", op.getParams());
  SmallVector<Value> scores;
  for (auto [query, key] : llvm::zip(op.getQueries(), op.getKeys())) {
    scores.push_back(query);
    scores.push_back(key);
  }
  printOperandClause(p, "scores", scores);
  printOperandClause(p, "values", op.getValues());
  printOperandClause(p, "captures", op.getCaptures());
  printSourceClause(p, "query_source", op.getQuerySource());
  printSourceClause(p, "key_source", op.getKeySource());
  if (op.getRowBase())
    printOperandClause(p, "row_base", op.getRowBase());
  if (op.getKeyBase())
    printOperandClause(p, "key_base", op.getKeyBase());
  if constexpr (std::is_same_v<OpT, PartialOp>)
    if (op.getParts())
      printOperandClause(p, "parts", op.getParts());
  SmallVector<StringRef> elided = {"monoid", "operandSegmentSizes",
                                   "query_form", "key_form"};
  if (op.getSide() == Side::keys)
    elided.push_back("side");
  if (op.getPrecision() == ProductPrecision::ieee)
    elided.push_back("precision");
  p.printOptionalAttrDict(op->getAttrs(), elided);
  p.increaseIndent();
  printNamedRegions(p, regionNames, op->getRegions());
  p.decreaseIndent();
  p << " -> " << op->getResultTypes();
}

static constexpr StringRef aggregateRegionNames[] = {
    "score",    "mask",           "factor",     "init",
    "finalize", "rotate_queries", "rotate_keys"};

ParseResult AggregateOp::parse(OpAsmParser &parser, OperationState &result) {
  return parseReduction(parser, result, aggregateRegionNames,
                        /*isPartial=*/false);
}
void AggregateOp::print(OpAsmPrinter &p) {
  printReduction(p, *this, aggregateRegionNames);
}

static constexpr StringRef partialRegionNames[] = {
    "score", "mask", "factor", "init", "rotate_queries", "rotate_keys"};

ParseResult PartialOp::parse(OpAsmParser &parser, OperationState &result) {
  return parseReduction(parser, result, partialRegionNames,
                        /*isPartial=*/true);
}
void PartialOp::print(OpAsmPrinter &p) {
  printReduction(p, *this, partialRegionNames);
}

ParseResult ScoresOp::parse(OpAsmParser &parser, OperationState &result) {
  return parseReduction(parser, result, partialRegionNames,
                        /*isPartial=*/false);
}
void ScoresOp::print(OpAsmPrinter &p) {
  printReduction(p, *this, partialRegionNames);
}
