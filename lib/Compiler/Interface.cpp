//===- Interface.cpp - What the arguments of a function mean --------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Interface.h"
#include "DimTable.h"
#include "attn/Dialect/Attn/IR/Attn.h"
#include "attn/Dialect/Attn/IR/Scan.h"
#include "attn/Dialect/Attn/Prelude/Prelude.h"
#include "attn/Dialect/Tile/IR/Tile.h"
#include "mlir/AsmParser/AsmParserState.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using ::attn::ArgInfo;
using ::attn::EntryInfo;
using ::attn::support::DType;

static constexpr StringRef kArg = "attn.arg";
static constexpr StringRef kColumnsOf = "attn.columns_of";
static constexpr StringRef kMultiples = "attn.multiples";
static constexpr StringRef kInterface = "attn.interface";
static constexpr StringRef kEntryPrefix = "attn_entry_";

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

/// The name that the source gives to an argument, without the percent sign.
static StringRef findSourceName(BlockArgument arg,
                                const AsmParserState *source) {
  if (!source)
    return {};
  const auto *definition = source->getBlockDef(arg.getOwner());
  if (!definition || arg.getArgNumber() >= definition->arguments.size())
    return {};
  SMRange range = definition->arguments[arg.getArgNumber()].loc;
  if (!range.isValid())
    return {};
  StringRef text(range.Start.getPointer(),
                 range.End.getPointer() - range.Start.getPointer());
  text.consume_front("%");
  // %0 is no name.
  return text.empty() || llvm::isDigit(text.front()) ? StringRef() : text;
}

/// The names of a monoid's outputs: of the module's definition, else of the
/// shipped one.
static SmallVector<std::string> findOutputNames(Operation *op,
                                                StringRef monoid) {
  SmallVector<std::string> names;
  if (auto definition =
          SymbolTable::lookupNearestSymbolFrom<mlir::attn::MonoidOp>(
              op, StringAttr::get(op->getContext(), monoid))) {
    for (Attribute name : definition.getOutputs())
      names.push_back(cast<StringAttr>(name).getValue().str());
    return names;
  }
  const ::attn::ShippedMonoid *shipped = ::attn::lookupShippedMonoid(
      std::string_view(monoid.data(), monoid.size()));
  if (!shipped)
    return names;
  StringRef text(shipped->text.data(), shipped->text.size());
  StringRef list = text.split("outputs(").second.split(')').first;
  SmallVector<StringRef> parts;
  list.split(parts, ',');
  for (StringRef part : parts)
    names.push_back(part.trim(" \n\"").str());
  return names;
}

static std::string findResultName(Value value, unsigned index) {
  Operation *op = value.getDefiningOp();
  // Of states and scores there are no names.
  if (op &&
      !isa<mlir::attn::PartialOp, mlir::attn::ScoresOp, mlir::attn::CombineOp>(
          op))
    if (auto monoid = op->getAttrOfType<FlatSymbolRefAttr>("monoid")) {
      auto names = findOutputNames(op, monoid.getValue());
      unsigned number = cast<OpResult>(value).getResultNumber();
      if (number < names.size())
        return names[number];
    }
  return "out" + std::to_string(index);
}

//===----------------------------------------------------------------------===//
// Dimensions
//===----------------------------------------------------------------------===//

namespace {
/// Reads the relations off the attention ops of one function.
class ShapeRules {
  using Side = mlir::attn::Side;

public:
  explicit ShapeRules(func::FuncOp function) {
    function.walk([&](Operation *op) {
      if (auto attention = dyn_cast<mlir::attn::AttentionOp>(op))
        addAttention(attention);
      else if (auto reduction = dyn_cast<mlir::attn::ReductionOpInterface>(op))
        addReduction(op, reduction);
      else if (auto append = dyn_cast<mlir::attn::AppendOp>(op))
        addAppend(append);
      else if (auto scan = dyn_cast<mlir::attn::ScanOp>(op))
        addScan(scan);
      else if (isa<mlir::attn::CombineOp, mlir::attn::FinalizeOp>(op))
        addStates(op);
    });
  }

  ::attn::DimTable dims;
  /// (value, dimension) pairs of lengths and of row offsets.
  std::vector<std::pair<Value, std::pair<StringRef, unsigned>>> lengths,
      offsets;
  /// Tables of pages, with the lengths of their sequences.
  struct Table {
    Value table;
    unsigned scope;
    Value lengths;
    StringRef moreRows = {};
  };
  std::vector<Table> tables;
  /// Where sequences start.
  std::vector<Value> starts;
  /// What is written, and what is read for it.
  std::vector<Value> written, apart;
  std::vector<unsigned> scopes;
  /// (value, dimension) pairs that regions index, and the dimension that the
  /// index ranges over; no name: an index that is clamped.
  struct Indexed {
    Value value;
    int64_t dim;
    StringRef name;
    unsigned scope;
  };
  std::vector<Indexed> indexed;
  /// Heads of scans, and what they are the largest number of.
  struct Largest {
    StringRef name;
    std::vector<StringRef> of;
    unsigned scope;
  };
  std::vector<Largest> largest;
  /// The name of a dimension, or what it is the largest of.
  std::string nameOf(Value value, int64_t dim) {
    std::string name = dims.name(value, dim);
    for (const Largest &one : largest) {
      if (name.empty() || name != dims.name(one.name, one.scope))
        continue;
      std::string text;
      for (StringRef part : one.of) {
        std::string own = dims.name(part, one.scope);
        if (own == name)
          return name;
        text += (text.empty() ? "max(" : ", ") + own;
      }
      return text + ")";
    }
    return name;
  }

private:
  /// Where the rows of an op are. A name of a dimension that is one size for
  /// all sequences stands for itself; else there is none. Of a reduction over
  /// queries, keys have the rows, and `query` is where they are.
  struct Sources {
    mlir::attn::Source query, key;
    bool hasBases = false;
    Side reduced = Side::keys;

    StringRef nameOf(StringRef name) const {
      bool ofReduced = name == (reduced == Side::keys ? "sk" : "sq");
      bool sized = name == "hq" || name == "hk" ||
                   (name == "b" && query.hasBatch()) ||
                   ((name == "sq" || name == "sk") && !hasBases &&
                    (ofReduced ? key : query).hasBatch());
      return sized ? name : StringRef();
    }
    SmallVector<StringRef> ofRows() const {
      return dimsOf(query, reduced == Side::keys ? Side::queries : Side::keys);
    }
    SmallVector<StringRef> ofKeys() const { return dimsOf(key, reduced); }

  private:
    /// Dimensions of operands but for the channels.
    static SmallVector<StringRef> dimsOf(const mlir::attn::Source &source,
                                         Side side) {
      bool ofQueries = side == Side::queries;
      StringRef heads = ofQueries ? "hq" : "hk";
      switch (source.kind) {
      case mlir::attn::SourceKind::dense:
      case mlir::attn::SourceKind::ring:
        return {"b", heads, ofQueries ? "sq" : "sk"};
      case mlir::attn::SourceKind::varlen:
        return {heads, ofQueries ? "total_q" : "total_k"};
      case mlir::attn::SourceKind::paged:
        return {"pages", heads, "page"};
      }
      llvm_unreachable("unknown kind of source");
    }
  };

  /// Reads off a region which positions index its captures.
  void addCaptures(Region &region, ValueRange captures,
                   ArrayRef<StringRef> positions, const Sources &sources,
                   unsigned scope) {
    if (region.empty())
      return;
    unsigned numPositions = positions.size();
    unsigned firstCapture = region.getNumArguments() - captures.size();
    for (auto extract : region.front().getOps<tensor::ExtractOp>()) {
      auto tensor = dyn_cast<BlockArgument>(extract.getTensor());
      if (!tensor || tensor.getArgNumber() < firstCapture)
        continue;
      Value capture = captures[tensor.getArgNumber() - firstCapture];
      for (auto [d, index] : llvm::enumerate(extract.getIndices())) {
        Value position = index;
        if (auto cast = position.getDefiningOp<arith::IndexCastOp>())
          position = cast.getIn();
        auto argument = dyn_cast<BlockArgument>(position);
        StringRef name;
        if (argument) {
          unsigned which =
              argument.getArgNumber() - (firstCapture - numPositions);
          if (which < numPositions)
            name = sources.nameOf(positions[which]);
        }
        indexed.push_back({capture, int64_t(d), name, scope});
      }
    }
  }

  void bindAll(Value value, ArrayRef<StringRef> names, unsigned scope) {
    for (auto [i, name] : llvm::enumerate(names))
      dims.bind(value, i, name, scope);
  }

  /// q, k and v; of a reduction over queries, k stands in the place of q.
  void bindOperands(ValueRange queries, ValueRange keys, ValueRange values,
                    const Sources &sources, unsigned scope) {
    SmallVector<StringRef> rows = sources.ofRows(), columns = sources.ofKeys();
    auto bind = [&](Value value, SmallVector<StringRef> names,
                    StringRef channel) {
      names.push_back(channel);
      bindAll(value, names, scope);
    };
    // Channels of one dot pair agree; each pair has its own.
    for (auto [i, query] : llvm::enumerate(queries)) {
      std::string channel = i == 0 ? "d" : "d" + std::to_string(i);
      bind(query, rows, channel);
      if (i < keys.size())
        bind(keys[i], columns, channel);
    }
    for (Value value : values)
      bind(value, columns, "dv");
  }

  void bindRows(ValueRange values, const Sources &sources, unsigned lead,
                unsigned scope) {
    for (Value value : values) {
      SmallVector<StringRef> names(lead, "splits");
      names.append(sources.ofRows());
      names.push_back("dv");
      bindAll(value, names, scope);
    }
  }

  /// attn.combine and attn.finalize: states in, states or outputs out.
  void addStates(Operation *op) {
    unsigned scope = nextScope();
    bool combines = isa<mlir::attn::CombineOp>(op);
    for (Value operand : op->getOperands())
      if (isa<RankedTensorType>(operand.getType()) && !isCapture(op, operand))
        bindRows(operand, {}, combines ? 1 : 0, scope);
    bindRows(op->getResults(), {}, 0, scope);
  }
  static bool isCapture(Operation *op, Value operand) {
    auto finalize = dyn_cast<mlir::attn::FinalizeOp>(op);
    return finalize && llvm::is_contained(finalize.getCaptures(), operand);
  }

  void addAttention(mlir::attn::AttentionOp op) {
    unsigned scope = nextScope();
    Sources sources{op.getQuerySource(), op.getKeySource()};
    bindOperands(op.getQuery(), op.getKey(), op.getValue(), sources, scope);
    // Broadcast operands: matched from the right, a static 1 repeats.
    for (Value value : {Value(op.getBias()), Value(op.getMaskTensor())}) {
      if (!value)
        continue;
      static constexpr StringRef batched[] = {"b", "hq", "sq", "sk"};
      auto type = cast<RankedTensorType>(value.getType());
      for (int64_t i = 0; i < std::min<int64_t>(type.getRank(), 4); ++i) {
        int64_t dim = type.getRank() - 1 - i;
        if (sources.nameOf(batched[3 - i]).empty())
          indexed.push_back({value, dim, "", scope});
        else if (type.getDimSize(dim) != 1)
          dims.bind(value, dim, batched[3 - i], scope);
      }
    }
    if (Value alibi = op.getAlibi()) {
      int64_t rank = cast<RankedTensorType>(alibi.getType()).getRank();
      dims.bind(alibi, rank - 1, "hq", scope);
      if (rank == 2 && sources.query.hasBatch())
        dims.bind(alibi, 0, "b", scope);
    }
    dims.bind(op.getSinks(), 0, "hq", scope);
    bindIndex(sources, scope);
    if (Value start = op.getKStart()) {
      dims.bind(start, 0, "b", scope);
      starts.push_back(start);
      sources.hasBases = true;
    }
    bindRows(op->getResults(), sources, 0, scope);
    static constexpr StringRef positions[] = {"b", "hq", "sq", "sk"};
    addCaptures(op.getScore(), op.getCaptures(), positions, sources, scope);
    addCaptures(op.getMask(), op.getCaptures(), positions, sources, scope);
  }

  void addReduction(Operation *op, mlir::attn::ReductionOpInterface reduction) {
    unsigned scope = nextScope();
    Side reduced = reduction.getReducedSide();
    Sources sources{reduction.getQuerySource(), reduction.getKeySource(),
                    reduction.getRowBaseOperand() ||
                        reduction.getKeyBaseOperand(),
                    reduced};
    bindOperands(reduction.getQueryOperands(), reduction.getKeyOperands(),
                 reduction.getValueOperands(), sources, scope);
    bindIndex(sources, scope);
    for (Value base :
         {reduction.getRowBaseOperand(), reduction.getKeyBaseOperand()})
      dims.bind(base, 0, "b", scope);
    bindRows(op->getResults(), sources, isa<mlir::attn::PartialOp>(op) ? 1 : 0,
             scope);
    if (isa<mlir::attn::ScoresOp>(op))
      for (Value scores : op->getResults())
        dims.bind(scores, 3, "sk", scope);
    if (auto fused = dyn_cast<mlir::attn::FusedOp>(op->getParentOp())) {
      ValueRange all = fused.getResults();
      size_t first = op == fused.getOverKeys().getOperation()
                         ? 0
                         : fused.getOverKeys()->getNumResults();
      bindRows(all.slice(first, op->getNumResults()), sources, 0, scope);
    }
    // Of a pair the head is that of the query; a row has its own.
    bool overKeys = reduced == Side::keys;
    StringRef row[] = {"b", overKeys ? "hq" : "hk", overKeys ? "sq" : "sk"};
    StringRef pair[] = {"b", "hq", row[2], overKeys ? "sk" : "sq"};
    ValueRange captures = reduction.getCaptureOperands();
    addCaptures(reduction.getScoreBody(), captures, pair, sources, scope);
    addCaptures(reduction.getMaskBody(), captures, pair, sources, scope);
    addCaptures(reduction.getFactorBody(), captures, pair, sources, scope);
    addCaptures(reduction.getInitBody(), captures, row, sources, scope);
    if (auto aggregate = dyn_cast<mlir::attn::AggregateOp>(op))
      addCaptures(aggregate.getFinalize(), captures, row, sources, scope);
  }

  void addAppend(mlir::attn::AppendOp op) {
    unsigned scope = nextScope();
    Value table = op.getBlockTable();
    StringRef paged[] = {"pages", "hk", "page"}, plain[] = {"b", "hk", "sk"};
    StringRef rows[] = {"b", "hk", "s_new"};
    for (auto [i, pair] :
         llvm::enumerate(llvm::zip_equal(op.getRows(), op.getCaches()))) {
      auto [from, to] = pair;
      bindAll(from, rows, scope);
      bindAll(to, table ? paged : plain, scope);
      for (Value value : {Value(from), Value(to)})
        dims.bind(value, 3, i ? "dv" : "d", scope);
      written.push_back(to);
      apart.push_back(from);
    }
    for (Value value : {Value(op.getLengths()), table, Value(op.getKStart())}) {
      if (!value)
        continue;
      dims.bind(value, 0, "b", scope);
      apart.push_back(value);
    }
    if (table) {
      dims.bind(table, 1, "table_pages", scope);
      tables.push_back({table, scope, op.getLengths(), "s_new"});
    }
    if (op.getKStart())
      starts.push_back(op.getKStart());
    lengths.push_back({op.getLengths(),
                       {table ? "table_pages*page-s_new" : "sk-s_new", scope}});
  }

  void addScan(mlir::attn::ScanOp op) {
    unsigned scope = nextScope(/*groups=*/false);
    StringRef batch = op.isPacked() ? "" : "b", rows = "t";
    if (op.isPacked())
      rows = "total";
    auto bind = [&](Value value, StringRef heads, StringRef channel) {
      SmallVector<StringRef> names = {heads, rows, channel};
      if (!op.isPacked())
        names.insert(names.begin(), batch);
      bindAll(value, names, scope);
    };
    bind(op.getQuery(), "hq", "d");
    bind(op.getKey(), "hk", "d");
    bind(op.getValue(), "hv", "dv");
    // State heads are those of keys or of values, whichever are more.
    for (Value value :
         {Value(op.getWeight()), Value(op.getLogWeight()), Value(op.getDelta()),
          Value(op.getEraseA()), Value(op.getEraseB())})
      bind(value, "heads", "d");
    bind(op.getDecay(), "heads", op.getValueGates() ? "dv" : "d");
    dims.bind(op.getBonus(), 0, "heads", scope);
    bind(op.getOutputs().front(), "heads_out", "dv");
    largest.push_back({"heads", {"hk", "hv"}, scope});
    largest.push_back({"heads_out", {"hq", "hk", "hv"}, scope});
    StringRef sequences = "b";
    if (op.isPacked()) {
      sequences = "sequences";
      dims.bind(op.getCu(), 0, "sequences + 1", scope);
      offsets.push_back({op.getCu(), {"total", scope}});
    }
    dims.bind(op.getLengths(), 0, "b", scope);
    auto bindStates = [&](ValueRange states, StringRef lead) {
      for (Value state : states)
        bindAll(state, {lead, "heads", "d", "dv"}, scope);
    };
    bindStates(op.getInit(), sequences);
    bindStates(op.getPool(), op.getSlot() ? "slots" : sequences);
    bindStates(op.getOutputs().drop_front(), sequences);
    dims.bind(op.getSlot(), 0, sequences, scope);
    for (Value pool : op.getPool())
      written.push_back(pool);
    for (Value operand : op->getOperands())
      if (!llvm::is_contained(op.getPool(), operand))
        apart.push_back(operand);
  }

  /// What index operands are of, and what they may hold.
  void bindIndex(const Sources &sources, unsigned scope) {
    auto bindMap = [&](const mlir::attn::Source &source, StringRef total) {
      switch (source.kind) {
      case mlir::attn::SourceKind::dense:
        return;
      case mlir::attn::SourceKind::varlen:
        dims.bind(source.map, 0, "sequences + 1", scope);
        offsets.push_back({source.map, {total, scope}});
        return;
      case mlir::attn::SourceKind::paged:
        dims.bind(source.map, 0, "b", scope);
        dims.bind(source.map, 1, "table_pages", scope);
        // Where rows are appended, that asks for more of the table.
        if (!source.lengths ||
            !source.lengths.getDefiningOp<mlir::attn::AppendOp>())
          tables.push_back({source.map, scope, source.lengths});
        return;
      case mlir::attn::SourceKind::ring:
        dims.bind(source.map, 0, "b", scope);
        starts.push_back(source.map);
        return;
      }
    };
    bindMap(sources.query, sources.ofRows().back());
    bindMap(sources.key, sources.ofKeys().back());
    Value keyLengths = sources.key.lengths;
    dims.bind(keyLengths, 0, "b", scope);
    bool isPaged = sources.key.is(mlir::attn::SourceKind::paged);
    if (keyLengths && (isPaged || sources.key.hasBatch()))
      lengths.push_back(
          {keyLengths,
           {isPaged ? "table_pages*page" : sources.ofKeys().back(), scope}});
  }

  /// `groups`: query heads are a multiple of key heads.
  unsigned nextScope(bool groups = true) {
    if (groups)
      scopes.push_back(numScopes);
    return numScopes++;
  }
  unsigned numScopes = 0;
};
} // namespace

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

static DictionaryAttr encode(MLIRContext *context, const ArgInfo &info) {
  Builder b(context);
  NamedAttrList attrs;
  attrs.append("name", b.getStringAttr(info.name));
  SmallVector<StringRef> dims(info.dims.begin(), info.dims.end());
  if (!dims.empty())
    attrs.append("dims", b.getStrArrayAttr(dims));
  SmallVector<StringRef> atLeast(info.atLeast.begin(), info.atLeast.end());
  if (!atLeast.empty())
    attrs.append("at_least", b.getStrArrayAttr(atLeast));
  if (info.isOutput)
    attrs.append("output", b.getUnitAttr());
  if (!info.elementsUpTo.empty())
    attrs.append("elements_up_to", b.getStringAttr(info.elementsUpTo));
  if (!info.offsetsUpTo.empty())
    attrs.append("offsets_up_to", b.getStringAttr(info.offsetsUpTo));
  if (!info.pagesOf.empty())
    attrs.append("pages_of", b.getStringAttr(info.pagesOf));
  if (!info.lengthsFrom.empty())
    attrs.append("lengths_from", b.getStringAttr(info.lengthsFrom));
  if (!info.moreRows.empty())
    attrs.append("more_rows", b.getStringAttr(info.moreRows));
  if (info.isWritten)
    attrs.append("written", b.getUnitAttr());
  if (info.isApart)
    attrs.append("apart", b.getUnitAttr());
  if (info.columnsOf >= 0)
    attrs.append("columns_of", b.getI64IntegerAttr(info.columnsOf));
  return attrs.getDictionary(context);
}

/// Whatever is missing or of another kind keeps its default: users may write
/// these attributes too.
static void decode(DictionaryAttr attrs, ArgInfo &info) {
  if (!attrs)
    return;
  auto text = [&](StringRef key, std::string &to) {
    if (auto value = attrs.getAs<StringAttr>(key))
      to = value.getValue().str();
  };
  text("name", info.name);
  text("elements_up_to", info.elementsUpTo);
  text("offsets_up_to", info.offsetsUpTo);
  text("pages_of", info.pagesOf);
  text("lengths_from", info.lengthsFrom);
  text("more_rows", info.moreRows);
  info.isWritten |= attrs.contains("written");
  info.isApart |= attrs.contains("apart");
  info.isOutput |= attrs.contains("output");
  if (auto number = attrs.getAs<IntegerAttr>("columns_of"))
    info.columnsOf = number.getInt();
  if (auto names = attrs.getAs<ArrayAttr>("at_least"))
    for (Attribute name : names)
      if (auto text = dyn_cast<StringAttr>(name))
        info.atLeast.push_back(text.getValue().str());
  if (auto dims = attrs.getAs<ArrayAttr>("dims"))
    for (auto [i, dim] : llvm::enumerate(dims))
      if (i < info.dims.size())
        if (auto name = dyn_cast<StringAttr>(dim))
          info.dims[i] = name.getValue().str();
}

static bool isEntry(func::FuncOp function) {
  return function.isPublic() && !function.isExternal();
}

static int64_t getRank(Type type) {
  auto shaped = dyn_cast<ShapedType>(type);
  return shaped && shaped.hasRank() ? shaped.getRank() : 0;
}

static void annotate(func::FuncOp function, const AsmParserState *source) {
  MLIRContext *context = function.getContext();
  ShapeRules rules(function);
  auto describe = [&](Value value) {
    ArgInfo info;
    for (int64_t i = 0; i < getRank(value.getType()); ++i)
      info.dims.push_back(rules.nameOf(value, i));
    return info;
  };

  llvm::StringSet<> names;
  auto unique = [&](std::string name) {
    std::string base = name;
    for (unsigned i = 2; !names.insert(name).second; ++i)
      name = base + "_" + std::to_string(i);
    return name;
  };
  DenseMap<Value, std::string> namesOf;
  for (BlockArgument arg : function.getArguments()) {
    StringRef name = findSourceName(arg, source);
    namesOf[arg] = unique(
        name.empty() ? "arg" + std::to_string(arg.getArgNumber()) : name.str());
  }
  for (BlockArgument arg : function.getArguments()) {
    ArgInfo info = describe(arg);
    info.name = namesOf[arg];
    for (auto &[value, dim] : rules.lengths)
      if (value == arg) {
        // A product, and what is taken from it.
        auto [product, less] = dim.first.split('-');
        info.elementsUpTo.clear();
        for (StringRef name : llvm::split(product, '*'))
          info.elementsUpTo += (info.elementsUpTo.empty() ? "" : "*") +
                               rules.dims.name(name, dim.second);
        if (!less.empty())
          info.elementsUpTo += "-" + rules.dims.name(less, dim.second);
      }
    info.isWritten = llvm::is_contained(rules.written, arg);
    info.isApart = llvm::is_contained(rules.apart, arg);
    if (auto number = function.getArgAttrOfType<IntegerAttr>(arg.getArgNumber(),
                                                             kColumnsOf))
      info.columnsOf = number.getInt();
    // Positions are i32: room for the start, and for the keys behind it.
    if (llvm::is_contained(rules.starts, arg))
      info.elementsUpTo = std::to_string(1 << 30);
    for (const ShapeRules::Table &table : rules.tables)
      if (table.table == arg) {
        info.pagesOf = rules.dims.name("pages", table.scope) + " " +
                       rules.dims.name("page", table.scope);
        info.lengthsFrom = namesOf.lookup(table.lengths);
        if (!table.moreRows.empty())
          info.moreRows = rules.dims.name(table.moreRows, table.scope);
      }
    for (auto &[value, dim] : rules.offsets)
      if (value == arg) {
        // One argument may hold those of rows and of keys.
        std::string name = rules.dims.name(dim.first, dim.second);
        if (!llvm::is_contained(llvm::split(info.offsetsUpTo, ' '), name))
          info.offsetsUpTo += (info.offsetsUpTo.empty() ? "" : " ") + name;
      }
    for (const ShapeRules::Indexed &use : rules.indexed) {
      if (use.value != arg || use.dim >= getRank(arg.getType()))
        continue;
      info.atLeast.resize(getRank(arg.getType()));
      std::string &least = info.atLeast[use.dim];
      std::string name =
          use.name.empty() ? "1" : rules.dims.name(use.name, use.scope);
      if (!llvm::is_contained(llvm::split(least, ' '), name))
        least += (least.empty() ? "" : " ") + name;
    }
    function.setArgAttr(arg.getArgNumber(), kArg, encode(context, info));
  }
  auto ret = dyn_cast<func::ReturnOp>(function.front().getTerminator());
  if (ret)
    for (auto [i, value] : llvm::enumerate(ret.getOperands())) {
      ArgInfo info = describe(value);
      info.isOutput = true;
      info.name = unique(findResultName(value, i));
      function.setResultAttr(i, kArg, encode(context, info));
    }

  SmallVector<StringRef> multiples;
  SmallVector<std::string> storage;
  for (unsigned scope : rules.scopes) {
    storage.push_back(rules.dims.name("hq", scope));
    storage.push_back(rules.dims.name("hk", scope));
  }
  for (const std::string &name : storage)
    multiples.push_back(name);
  if (!multiples.empty())
    function->setAttr(kMultiples, Builder(context).getStrArrayAttr(multiples));
}

void ::attn::annotateInterfaces(ModuleOp module, const AsmParserState *source) {
  for (auto function : module.getOps<func::FuncOp>()) {
    if (!isEntry(function))
      continue;
    bool annotated = function->hasAttr(kMultiples);
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      annotated |= bool(function.getArgAttr(i, kArg));
    if (!annotated)
      annotate(function, source);
  }
}

//===----------------------------------------------------------------------===//
// Entries
//===----------------------------------------------------------------------===//

static std::optional<DType> convertType(Type type) {
  if (type.isF32())
    return DType::f32;
  if (type.isF16())
    return DType::f16;
  if (type.isBF16())
    return DType::bf16;
  if (type.isF64())
    return DType::f64;
  if (type.isInteger(1))
    return DType::boolean;
  if (type.isSignlessInteger(8))
    return DType::i8;
  if (type.isSignlessInteger(16))
    return DType::i16;
  if (type.isSignlessInteger(32))
    return DType::i32;
  if (type.isSignlessInteger(64) || type.isIndex())
    return DType::i64;
  return std::nullopt;
}

static LogicalResult readArg(func::FuncOp function, Type type,
                             DictionaryAttr attrs, unsigned index,
                             bool isOutput, EntryInfo &entry) {
  ArgInfo info;
  info.isOutput = isOutput;
  info.name = "arg" + std::to_string(index);
  auto shaped = dyn_cast<ShapedType>(type);
  info.isScalar = !shaped;
  Type element = type;
  if (shaped) {
    if (!isa<RankedTensorType, MemRefType>(type))
      return function.emitError("expected arguments and results to be ranked "
                                "tensors or scalars, but got ")
             << type;
    element = shaped.getElementType();
    for (int64_t size : shaped.getShape())
      info.shape.push_back(ShapedType::isDynamic(size) ? -1 : size);
    info.dims.resize(info.shape.size());
    info.strides.assign(info.shape.size(), -1);
    if (!info.strides.empty())
      info.strides.back() = 1;
    if (auto memref = dyn_cast<MemRefType>(type)) {
      int64_t offset;
      SmallVector<int64_t> strides;
      if (failed(memref.getStridesAndOffset(strides, offset)))
        return function.emitError("expected strided memrefs, but got ") << type;
      for (auto [i, stride] : llvm::enumerate(strides))
        info.strides[i] = ShapedType::isDynamic(stride) ? -1 : stride;
    }
  }
  std::optional<DType> dtype = convertType(element);
  if (!dtype)
    return function.emitError("expected elements of type f32, f16, bf16, f64, "
                              "i1, i8, i16, i32, i64 or index, but got ")
           << element;
  info.dtype = *dtype;
  if (isOutput && info.isScalar)
    return function.emitError("expected results to be tensors, but got ")
           << type;
  decode(attrs, info);
  entry.args.push_back(std::move(info));
  return success();
}

/// All of an argument, for where its type does not say it.
static DictionaryAttr encodeFully(MLIRContext *context, const ArgInfo &info) {
  Builder b(context);
  NamedAttrList attrs(encode(context, info));
  attrs.append("dtype", b.getStringAttr(nameOf(info.dtype)));
  if (!info.isScalar) {
    attrs.append("shape", b.getDenseI64ArrayAttr(info.shape));
    attrs.append("strides", b.getDenseI64ArrayAttr(info.strides));
  }
  return attrs.getDictionary(context);
}

static LogicalResult decodeFully(LLVM::LLVMFuncOp function, Attribute attr,
                                 EntryInfo &entry) {
  ArgInfo info;
  auto attrs = dyn_cast<DictionaryAttr>(attr);
  auto name = attrs ? attrs.getAs<StringAttr>("dtype") : StringAttr();
  std::optional<DType> dtype =
      name ? ::attn::support::parseDType(name.getValue().str()) : std::nullopt;
  auto shape =
      attrs ? attrs.getAs<DenseI64ArrayAttr>("shape") : DenseI64ArrayAttr();
  auto strides =
      attrs ? attrs.getAs<DenseI64ArrayAttr>("strides") : DenseI64ArrayAttr();
  if (!dtype || bool(shape) != bool(strides) ||
      (shape && shape.size() != strides.size()))
    return function.emitError("expected ")
           << kInterface << " to give the dtype, shape and strides of each "
           << "argument, but got " << attr;
  info.dtype = *dtype;
  info.isScalar = !shape;
  if (shape) {
    info.shape.assign(shape.asArrayRef().begin(), shape.asArrayRef().end());
    info.strides.assign(strides.asArrayRef().begin(),
                        strides.asArrayRef().end());
    info.dims.resize(info.shape.size());
  }
  decode(attrs, info);
  entry.args.push_back(std::move(info));
  return success();
}

static void readMultiples(Operation *function, EntryInfo &entry) {
  auto multiples = function->getAttrOfType<ArrayAttr>(kMultiples);
  if (!multiples)
    return;
  for (unsigned i = 0; i + 1 < multiples.size(); i += 2) {
    auto first = dyn_cast<StringAttr>(multiples[i]);
    auto second = dyn_cast<StringAttr>(multiples[i + 1]);
    if (first && second)
      entry.multiples.push_back(
          {first.getValue().str(), second.getValue().str()});
  }
}

static void writeMultiples(Operation *function, const EntryInfo &entry) {
  SmallVector<StringRef> multiples;
  for (auto &[first, second] : entry.multiples)
    multiples.append({first, second});
  if (!multiples.empty())
    function->setAttr(
        kMultiples, Builder(function->getContext()).getStrArrayAttr(multiples));
}

namespace attn {
LogicalResult readInterfaces(ModuleOp module, std::vector<EntryInfo> &entries) {
  for (auto function : module.getOps<func::FuncOp>()) {
    if (!isEntry(function))
      continue;
    EntryInfo entry;
    entry.name = function.getName().str();
    auto getAttrs = [](Attribute attr) {
      return dyn_cast_or_null<DictionaryAttr>(attr);
    };
    for (auto [i, type] : llvm::enumerate(function.getArgumentTypes()))
      if (failed(readArg(function, type, getAttrs(function.getArgAttr(i, kArg)),
                         i, false, entry)))
        return failure();
    for (auto [i, type] : llvm::enumerate(function.getResultTypes()))
      if (failed(readArg(function, type,
                         getAttrs(function.getResultAttr(i, kArg)),
                         entry.args.size(), true, entry)))
        return failure();
    readMultiples(function, entry);
    entries.push_back(std::move(entry));
  }
  for (auto function : module.getOps<LLVM::LLVMFuncOp>()) {
    StringRef name = function.getName();
    // Plans that others dispatch to are nobody's to call.
    if (function.isExternal() ||
        function.getLinkage() == LLVM::Linkage::Internal ||
        !name.consume_front(kEntryPrefix))
      continue;
    auto arguments = function->getAttrOfType<ArrayAttr>(kInterface);
    if (!arguments)
      return function.emitError("expected ")
             << kInterface << " on an entry, which says what it takes, but "
             << "there is none";
    EntryInfo entry;
    entry.name = name.str();
    for (Attribute argument : arguments)
      if (failed(decodeFully(function, argument, entry)))
        return failure();
    readMultiples(function, entry);
    entries.push_back(std::move(entry));
  }
  return success();
}
} // namespace attn

void ::attn::restoreInterfaces(ModuleOp module,
                               const std::vector<EntryInfo> &entries) {
  MLIRContext *context = module.getContext();
  for (const EntryInfo &entry : entries) {
    if (auto function = module.lookupSymbol<LLVM::LLVMFuncOp>(
            (kEntryPrefix + entry.name).str())) {
      SmallVector<Attribute> arguments;
      for (const ArgInfo &info : entry.args)
        arguments.push_back(encodeFully(context, info));
      function->setAttr(kInterface, ArrayAttr::get(context, arguments));
      writeMultiples(function, entry);
      continue;
    }
    auto plan = module.lookupSymbol<func::FuncOp>(entry.name);
    if (!plan || plan.getNumArguments() != entry.args.size())
      continue;
    SmallVector<func::FuncOp> plans = {plan};
    if (!plan.isExternal())
      for (auto dispatch : plan.getBody().getOps<tile::DispatchOp>())
        plans.push_back(module.lookupSymbol<func::FuncOp>(dispatch.getPlan()));
    for (func::FuncOp plan : plans) {
      for (auto [i, info] : llvm::enumerate(entry.args))
        plan.setArgAttr(i, kArg, encode(context, info));
      writeMultiples(plan, entry);
    }
  }
}
