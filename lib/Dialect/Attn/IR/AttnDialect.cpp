//===- AttnDialect.cpp - The attn dialect ---------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/Attn/IR/Attn.h"
#include "attn/Dialect/Attn/IR/Scan.h"
#include "attn/Support/MostCounted.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/Interfaces/FoldInterfaces.h"
#include "mlir/Transforms/InliningUtils.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::attn;

#include "attn/Dialect/Attn/IR/AttnDialect.cpp.inc"
#include "attn/Dialect/Attn/IR/AttnEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "attn/Dialect/Attn/IR/AttnAttrs.cpp.inc"
#include "attn/Dialect/Attn/IR/AttnInterfaces.cpp.inc"

namespace {
/// Constants stay in the region that uses them: hoisting one into the
/// surrounding function would make it a capture that the op does not declare.
struct AttnFoldInterface : DialectFoldInterface {
  using DialectFoldInterface::DialectFoldInterface;
  bool shouldMaterializeInto(Region *region) const final { return true; }
};
} // namespace

void AttnDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "attn/Dialect/Attn/IR/AttnAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "attn/Dialect/Attn/IR/AttnOps.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "attn/Dialect/Attn/IR/AttnScanOps.cpp.inc"
      >();
  addInterfaces<AttnFoldInterface>();
}

//===----------------------------------------------------------------------===//
// ScheduleAttr
//===----------------------------------------------------------------------===//

/// Parses one of the words of an enumeration.
template <typename Enum>
static ParseResult parseWord(AsmParser &parser, StringRef key, Enum &value,
                             std::optional<Enum> (*symbolize)(StringRef),
                             StringRef words) {
  StringRef word;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&word))
    return failure();
  std::optional<Enum> found = symbolize(word);
  if (!found)
    return parser.emitError(loc, "expected ")
           << key << " to be one of " << words << ", but got '" << word << "'";
  value = *found;
  return success();
}

/// Parses `key =`, which none of `seen` is.
static ParseResult parseKey(AsmParser &parser, SmallVector<StringRef> &seen,
                            StringRef &key) {
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&key) || parser.parseEqual())
    return failure();
  if (llvm::is_contained(seen, key))
    return parser.emitError(loc, "expected ") << key << " at most once";
  seen.push_back(key);
  return success();
}

static std::optional<bool> symbolizeTruth(StringRef word) {
  return llvm::StringSwitch<std::optional<bool>>(word)
      .Case("true", true)
      .Case("false", false)
      .Default(std::nullopt);
}

Attribute ScheduleAttr::parse(AsmParser &parser, Type) {
  int64_t blockQ = 0, rows = 0, blockK = 0, splits = 1, stages = 0, cluster = 1,
          occupancy = 1, section = 0, sectionKeys = 0, blockV = 0, share = 0;
  bool packHeads = false;
  ProductOverlap overlap = ProductOverlap::next_step;
  LoopShape loop = LoopShape::peeled;
  Turns turns = Turns::none;
  Fetch fetch = Fetch::automatic;
  Rotate rotate = Rotate::ahead;
  std::optional<WorkOrder> order;
  std::optional<Pairs> pairs;
  SMLoc loc = parser.getCurrentLocation();
  SmallVector<StringRef> seen;
  auto parseField = [&]() -> ParseResult {
    StringRef key;
    SMLoc keyLoc = parser.getCurrentLocation();
    if (parseKey(parser, seen, key))
      return failure();
    int64_t *number = llvm::StringSwitch<int64_t *>(key)
                          .Case("block_q", &blockQ)
                          .Case("rows", &rows)
                          .Case("block_k", &blockK)
                          .Case("splits", &splits)
                          .Case("stages", &stages)
                          .Case("cluster", &cluster)
                          .Case("occupancy", &occupancy)
                          .Case("section", &section)
                          .Case("section_keys", &sectionKeys)
                          .Case("block_v", &blockV)
                          .Case("share", &share)
                          .Default(nullptr);
    if (key == "splits" &&
        succeeded(parser.parseOptionalKeyword("automatic"))) {
      splits = automaticSplits;
      return success();
    }
    if (number)
      return parser.parseInteger(*number);
    if (key == "overlap")
      return parseWord(parser, key, overlap, symbolizeProductOverlap,
                       "next_step, own_step, none");
    if (key == "pack_heads")
      return parseWord(parser, key, packHeads, symbolizeTruth, "true, false");
    if (key == "loop")
      return parseWord(parser, key, loop, symbolizeLoopShape,
                       "peeled, masked, plain");
    if (key == "turns")
      return parseWord(parser, key, turns, symbolizeTurns,
                       "none, products, softmax");
    if (key == "fetch")
      return parseWord(parser, key, fetch, symbolizeFetch,
                       "automatic, producer, ahead, late");
    if (key == "order")
      return parseWord(parser, key, order.emplace(), symbolizeWorkOrder,
                       "in_order, longest_first");
    if (key == "rotate")
      return parseWord(parser, key, rotate, symbolizeRotate, "ahead, inside");
    if (key == "pairs")
      return parseWord(parser, key, pairs.emplace(), symbolizePairs,
                       "loaded, copied");
    return parser.emitError(
               keyLoc, "expected one of block_q, rows, block_k, splits, "
                       "loop, stages, overlap, turns, pack_heads, "
                       "cluster, order, section, section_keys, fetch, "
                       "occupancy, block_v, share, rotate, pairs, but got '")
           << key << "'";
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater,
                                     parseField))
    return {};
  return parser.getChecked<ScheduleAttr>(
      loc, parser.getContext(), blockQ, rows, blockK, splits, loop, stages,
      overlap, turns, packHeads, cluster, fetch, occupancy, order, section,
      sectionKeys, blockV, share, rotate, pairs);
}

void ScheduleAttr::print(AsmPrinter &printer) const {
  printer << "<block_q = " << getBlockQ() << ", rows = " << getRows()
          << ", block_k = " << getBlockK();
  if (getSplits() == automaticSplits)
    printer << ", splits = automatic";
  else if (getSplits() != 1)
    printer << ", splits = " << getSplits();
  printer << ", loop = " << stringifyLoopShape(getLoop());
  if (getStages())
    printer << ", stages = " << getStages();
  if (getOverlap() != ProductOverlap::next_step)
    printer << ", overlap = " << stringifyProductOverlap(getOverlap());
  if (getTurns() != Turns::none)
    printer << ", turns = " << stringifyTurns(getTurns());
  if (getPackHeads())
    printer << ", pack_heads = true";
  if (getCluster() != 1)
    printer << ", cluster = " << getCluster();
  if (getOrder())
    printer << ", order = " << stringifyWorkOrder(*getOrder());
  if (getSection())
    printer << ", section = " << getSection();
  if (getSectionKeys())
    printer << ", section_keys = " << getSectionKeys();
  if (getFetch() != Fetch::automatic)
    printer << ", fetch = " << stringifyFetch(getFetch());
  if (getOccupancy() != 1)
    printer << ", occupancy = " << getOccupancy();
  if (getBlockV())
    printer << ", block_v = " << getBlockV();
  if (getShare())
    printer << ", share = " << getShare();
  if (getRotate() != Rotate::ahead)
    printer << ", rotate = " << stringifyRotate(getRotate());
  if (getPairs())
    printer << ", pairs = " << stringifyPairs(*getPairs());
  printer << ">";
}

namespace {
/// The decisions of a schedule, to change one of them.
struct Decisions {
  explicit Decisions(ScheduleAttr from)
      : context(from.getContext()), blockQ(from.getBlockQ()),
        rows(from.getRows()), blockK(from.getBlockK()),
        splits(from.getSplits()), stages(from.getStages()),
        cluster(from.getCluster()), occupancy(from.getOccupancy()),
        section(from.getSection()), sectionKeys(from.getSectionKeys()),
        blockV(from.getBlockV()), share(from.getShare()), loop(from.getLoop()),
        overlap(from.getOverlap()), packHeads(from.getPackHeads()),
        turns(from.getTurns()), fetch(from.getFetch()),
        rotate(from.getRotate()), order(from.getOrder()),
        pairs(from.getPairs()) {}
  ScheduleAttr get() const {
    return ScheduleAttr::get(context, blockQ, rows, blockK, splits, loop,
                             stages, overlap, turns, packHeads, cluster, fetch,
                             occupancy, order, section, sectionKeys, blockV,
                             share, rotate, pairs);
  }
  template <typename T> ScheduleAttr with(T Decisions::*member, T value) {
    this->*member = value;
    return get();
  }

  MLIRContext *context;
  int64_t blockQ, rows, blockK, splits, stages, cluster, occupancy, section,
      sectionKeys, blockV, share;
  LoopShape loop;
  ProductOverlap overlap;
  bool packHeads;
  Turns turns;
  Fetch fetch;
  Rotate rotate;
  std::optional<WorkOrder> order;
  std::optional<Pairs> pairs;
};
} // namespace

ScheduleAttr ScheduleAttr::withFetch(Fetch fetch) const {
  return Decisions(*this).with(&Decisions::fetch, fetch);
}
ScheduleAttr ScheduleAttr::withOccupancy(int64_t occupancy) const {
  return Decisions(*this).with(&Decisions::occupancy, occupancy);
}
ScheduleAttr ScheduleAttr::withTurns(Turns turns) const {
  return Decisions(*this).with(&Decisions::turns, turns);
}
ScheduleAttr ScheduleAttr::withStages(int64_t stages) const {
  return Decisions(*this).with(&Decisions::stages, stages);
}
ScheduleAttr ScheduleAttr::withCluster(int64_t cluster) const {
  return Decisions(*this).with(&Decisions::cluster, cluster);
}
ScheduleAttr ScheduleAttr::withOrder(WorkOrder order) const {
  return Decisions(*this).with(&Decisions::order, std::optional(order));
}
ScheduleAttr ScheduleAttr::withSection(int64_t heads, int64_t keys) const {
  Decisions decisions(*this);
  decisions.section = heads;
  return decisions.with(&Decisions::sectionKeys, keys);
}

ScheduleAttr ScheduleAttr::withBlockV(int64_t channels) const {
  return Decisions(*this).with(&Decisions::blockV, channels);
}

ScheduleAttr ScheduleAttr::withShare(int64_t levels) const {
  return Decisions(*this).with(&Decisions::share, levels);
}

ScheduleAttr ScheduleAttr::withRotate(Rotate rotate) const {
  return Decisions(*this).with(&Decisions::rotate, rotate);
}

ScheduleAttr ScheduleAttr::withPairs(Pairs pairs) const {
  return Decisions(*this).with(&Decisions::pairs, std::optional(pairs));
}

LogicalResult ScheduleAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                   int64_t blockQ, int64_t rows, int64_t blockK,
                                   int64_t splits, LoopShape loop,
                                   int64_t stages, ProductOverlap, Turns turns,
                                   bool packHeads, int64_t cluster, Fetch fetch,
                                   int64_t occupancy, std::optional<WorkOrder>,
                                   int64_t section, int64_t sectionKeys,
                                   int64_t blockV, int64_t share, Rotate,
                                   std::optional<Pairs>) {
  auto positive = [&](StringRef name, int64_t value) -> LogicalResult {
    if (value <= 0)
      return emitError() << "expected " << name << " to be positive, but got "
                         << value;
    if (value > ::attn::mostCounted)
      return emitError() << "expected " << name << " to be at most "
                         << ::attn::mostCounted << ", but got " << value;
    return success();
  };
  if (failed(positive("block_q", blockQ)) || failed(positive("rows", rows)) ||
      failed(positive("block_k", blockK)) ||
      (splits != automaticSplits && failed(positive("splits", splits))))
    return failure();
  constexpr int64_t mostStages = 16;
  if (stages < 0 || stages > mostStages)
    return emitError() << "expected stages to be between 0 and " << mostStages
                       << ", but got " << stages;
  if (blockQ % rows)
    return emitError() << "expected rows to divide block_q, but got rows = "
                       << rows << " and block_q = " << blockQ;
  if (turns != Turns::none && blockQ == rows)
    return emitError() << "expected two row blocks or more that take turns, "
                          "but got rows = block_q = "
                       << rows;
  // Rows of a tile are divided by 32-bit products (TileBlock.cpp).
  if (packHeads && blockQ > mostPackedRows)
    return emitError() << "expected block_q to be at most " << mostPackedRows
                       << " where heads are packed, but got " << blockQ;
  // Portable sizes (CUDA programming guide, thread block clusters).
  if (cluster != 1 && cluster != 2 && cluster != 4 && cluster != 8)
    return emitError() << "expected cluster to be 1, 2, 4 or 8, but got "
                       << cluster;
  // No GPU lets more blocks share a multiprocessor.
  constexpr int64_t mostBlocks = 32;
  if (occupancy < 1 || occupancy > mostBlocks)
    return emitError() << "expected occupancy to be between 1 and "
                       << mostBlocks << ", but got " << occupancy;
  constexpr int64_t most = std::numeric_limits<int32_t>::max();
  for (auto [name, value] :
       {std::pair("section", section), std::pair("section_keys", sectionKeys),
        std::pair("block_v", blockV)})
    if (value < 0 || value > most)
      return emitError() << "expected " << name << " to be between 0 and "
                         << most << ", but got " << value;
  constexpr int64_t mostLevels = 4;
  if (share < 0 || share > mostLevels)
    return emitError() << "expected share to be between 0 and " << mostLevels
                       << ", but got " << share;
  // Slices of one tile of rows are neighbours, wherever the tile is, and so are
  // its parts.
  if (cluster != 1 && !blockV && splits != cluster &&
      (packHeads || splits != 1))
    return emitError() << "expected "
                       << (splits == 1 ? "heads of their own"
                                       : "splits = 1, or as many as cluster,")
                       << " where blocks form clusters, but got cluster = "
                       << cluster;
  return success();
}

//===----------------------------------------------------------------------===//
// SizesAttr, DispatchAttr
//===----------------------------------------------------------------------===//

using ::attn::SizeCondition;

static constexpr StringLiteral sizeNames[] = {"rows", "keys", "heads", "group",
                                              "blocks"};
static constexpr SizeCondition::Range SizeCondition::*sizeRanges[] = {
    &SizeCondition::rows, &SizeCondition::keys, &SizeCondition::heads,
    &SizeCondition::group, &SizeCondition::blocks};
static constexpr size_t numBounds = 2 * std::size(sizeRanges) + 1;

SizesAttr SizesAttr::get(MLIRContext *context, const SizeCondition &condition) {
  SmallVector<int64_t> bounds;
  for (auto range : sizeRanges)
    bounds.append({(condition.*range).least, (condition.*range).most});
  bounds.push_back(condition.pairsOf);
  return get(context, bounds);
}

SizeCondition SizesAttr::getCondition() const {
  SizeCondition condition;
  for (auto [i, range] : llvm::enumerate(sizeRanges))
    condition.*range = {getBounds()[2 * i], getBounds()[2 * i + 1]};
  condition.pairsOf = getBounds().back();
  return condition;
}

Attribute SizesAttr::parse(AsmParser &parser, Type) {
  SizeCondition condition;
  SMLoc loc = parser.getCurrentLocation();
  SmallVector<StringRef> seen;
  auto parseField = [&]() -> ParseResult {
    StringRef key;
    SMLoc keyLoc = parser.getCurrentLocation();
    if (parseKey(parser, seen, key))
      return failure();
    if (key == "pairs_of")
      return parser.parseInteger(condition.pairsOf);
    const auto *name = llvm::find(sizeNames, key);
    if (name == std::end(sizeNames))
      return parser.emitError(keyLoc, "expected one of rows, keys, heads, "
                                      "group, blocks, pairs_of, but got '")
             << key << "'";
    SizeCondition::Range &range =
        condition.*sizeRanges[name - std::begin(sizeNames)];
    if (parser.parseInteger(range.least) || parser.parseKeyword("to"))
      return failure();
    if (succeeded(parser.parseOptionalKeyword("any")))
      return success();
    return parser.parseInteger(range.most);
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater,
                                     parseField))
    return {};
  SmallVector<int64_t> bounds;
  for (auto range : sizeRanges)
    bounds.append({(condition.*range).least, (condition.*range).most});
  bounds.push_back(condition.pairsOf);
  return parser.getChecked<SizesAttr>(loc, parser.getContext(), bounds);
}

void SizesAttr::print(AsmPrinter &printer) const {
  SizeCondition condition = getCondition();
  llvm::ListSeparator separator;
  printer << "<";
  for (auto [name, range] : llvm::zip(sizeNames, sizeRanges)) {
    const SizeCondition::Range &bounds = condition.*range;
    if (bounds.isAny())
      continue;
    printer << StringRef(separator) << name << " = " << bounds.least << " to ";
    if (bounds.most == INT64_MAX)
      printer << "any";
    else
      printer << bounds.most;
  }
  if (condition.pairsOf)
    printer << StringRef(separator) << "pairs_of = " << condition.pairsOf;
  printer << ">";
}

LogicalResult SizesAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                ArrayRef<int64_t> bounds) {
  if (bounds.size() != numBounds)
    return emitError() << "expected " << numBounds << " bounds, but got "
                       << bounds.size();
  for (auto [i, name] : llvm::enumerate(sizeNames))
    if (bounds[2 * i] < 0 || bounds[2 * i] > bounds[2 * i + 1])
      return emitError() << "expected " << name
                         << " from 0 or more to no less, but got "
                         << bounds[2 * i] << " to " << bounds[2 * i + 1];
  if (bounds.back() < 0)
    return emitError() << "expected pairs_of to be at least 0, but got "
                       << bounds.back();
  return success();
}

LogicalResult DispatchAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                   ArrayRef<VariantAttr> variants) {
  if (variants.empty())
    return emitError() << "expected a variant or more, but got none";
  for (size_t i = 0; i < variants.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (variants[j].getWhen().getCondition().contains(
              variants[i].getWhen().getCondition()))
        return emitError() << "expected variants that some sizes take, but "
                           << variants[j].getName() << " takes all those of "
                           << variants[i].getName();
  return success();
}
