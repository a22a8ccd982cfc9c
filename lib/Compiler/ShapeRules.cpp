//===- ShapeRules.cpp - Which sizes of a function must agree --------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ShapeRules.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using ::attn::ShapeRules;

ShapeRules::ShapeRules(func::FuncOp function) {
  function.walk([&](Operation *op) {
    if (auto attention = dyn_cast<mlir::attn::AttentionOp>(op))
      addAttention(attention);
    else if (auto reduction = dyn_cast<mlir::attn::ReductionOpInterface>(op))
      addReduction(op, reduction);
    else if (auto append = dyn_cast<mlir::attn::AppendOp>(op))
      addAppend(append);
    else if (auto scan = dyn_cast<mlir::attn::ScanOp>(op))
      addScan(scan);
    else if (auto partial = dyn_cast<mlir::attn::ScanPartialOp>(op))
      addScanPartial(partial);
    else if (auto combine = dyn_cast<mlir::attn::ScanCombineOp>(op))
      addScanCombine(combine);
    else if (auto unfold = dyn_cast<mlir::attn::UnfoldOp>(op))
      addUnfold(unfold);
    else if (isa<mlir::attn::CombineOp, mlir::attn::FinalizeOp>(op))
      addStates(op);
  });
}

std::string ShapeRules::nameOf(Value value, int64_t dim) {
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

void ShapeRules::addCaptures(Region &region, ValueRange captures,
                             ArrayRef<StringRef> positions,
                             const Sources &sources, unsigned scope) {
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

void ShapeRules::setRange(Indexed &indexed, StringRef name,
                          const Sources &sources) {
  const mlir::attn::Source &source = name == "sk" ? sources.key : sources.query;
  switch (source.kind) {
  case mlir::attn::SourceKind::dense:
  case mlir::attn::SourceKind::ring:
    return;
  case mlir::attn::SourceKind::varlen:
    indexed.from = source.map;
    indexed.how = name == "b" ? "sequences" : "longest";
    return;
  case mlir::attn::SourceKind::paged:
    break;
  }
  // Without lengths pages are full.
  if (!source.lengths) {
    indexed.name = "table_pages*page";
    return;
  }
  indexed.from = source.lengths;
  indexed.how = "largest";
  if (auto append = source.lengths.getDefiningOp<mlir::attn::AppendOp>()) {
    indexed.from = append.getLengths();
    if (!append.getOffsets())
      indexed.appended = append.getRows().front();
  }
}

void ShapeRules::bindAll(Value value, ArrayRef<StringRef> names,
                         unsigned scope) {
  for (auto [i, name] : llvm::enumerate(names))
    dims.bind(value, i, name, scope);
}

void ShapeRules::bindOperands(ValueRange queries, ValueRange keys,
                              ValueRange values, const Sources &sources,
                              unsigned scope) {
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

void ShapeRules::bindRows(ValueRange values, const Sources &sources,
                          unsigned lead, unsigned scope) {
  for (Value value : values) {
    SmallVector<StringRef> names(lead, "splits");
    names.append(sources.ofRows());
    names.push_back("dv");
    bindAll(value, names, scope);
  }
}

void ShapeRules::addStates(Operation *op) {
  unsigned scope = nextScope();
  bool combines = isa<mlir::attn::CombineOp>(op);
  for (Value operand : op->getOperands())
    if (isa<RankedTensorType>(operand.getType()) && !isCapture(op, operand))
      bindRows(operand, {}, combines ? 1 : 0, scope);
  bindRows(op->getResults(), {}, 0, scope);
}

bool ShapeRules::isCapture(Operation *op, Value operand) {
  auto finalize = dyn_cast<mlir::attn::FinalizeOp>(op);
  return finalize && llvm::is_contained(finalize.getCaptures(), operand);
}

void ShapeRules::addUnfold(mlir::attn::UnfoldOp op) {
  unsigned scope = nextScope();
  for (ValueRange rows : {ValueRange(op.getStates()),
                          ValueRange(op.getBehind()), ValueRange(op.getOuts())})
    bindRows(rows, {}, 0, scope);
  bindRows(op.getOutputs().take_back(op.getStates().size()), {}, 0, scope);
  // The heads of values are those of the keys that the scores are of.
  for (Value scores : op.getScores()) {
    bindAll(scores, {"b", "hq", "sq", "sk"}, scope);
    if (auto from = scores.getDefiningOp<mlir::attn::ScoresOp>())
      for (Value key : from.getKeys())
        bindAll(key, {"b", "hk", "sk"}, scope);
  }
  auto bindKeys = [&](ValueRange values) {
    for (Value value : values)
      bindAll(value, {"b", "hk", "sk", "dv"}, scope);
  };
  bindKeys(op.getValues());
  if (!op.goesBack())
    return;
  for (Value scores : op.getOutputs().take_front(op.getScores().size()))
    bindAll(scores, {"b", "hq", "sq", "sk"}, scope);
  bindKeys(op.getOutputs().slice(op.getScores().size(), op.getValues().size()));
}

void ShapeRules::addAttention(mlir::attn::AttentionOp op) {
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
      if (sources.nameOf(batched[3 - i]).empty()) {
        indexed.push_back({value, dim, "", scope});
        if (type.getDimSize(dim) != 1)
          setRange(indexed.back(), batched[3 - i], sources);
      } else if (type.getDimSize(dim) != 1) {
        dims.bind(value, dim, batched[3 - i], scope);
      }
    }
  }
  if (Value alibi = op.getAlibi()) {
    auto type = cast<RankedTensorType>(alibi.getType());
    dims.bind(alibi, type.getRank() - 1, "hq", scope);
    if (type.getRank() == 2 && sources.query.hasBatch()) {
      dims.bind(alibi, 0, "b", scope);
    } else if (type.getRank() == 2 && type.getDimSize(0) != 1) {
      indexed.push_back({alibi, 0, "", scope});
      setRange(indexed.back(), "b", sources);
    }
  }
  dims.bind(op.getSinks(), 0, "hq", scope);
  bindIndex(sources, scope);
  if (Value start = op.getKStart()) {
    dims.bind(start, 0, "b", scope);
    starts.push_back(start);
    sources.hasKeyBase = true;
  }
  bindRows(op->getResults(), sources, 0, scope);
  static constexpr StringRef positions[] = {"b", "hq", "sq", "sk"};
  addCaptures(op.getScore(), op.getCaptures(), positions, sources, scope);
  addCaptures(op.getMask(), op.getCaptures(), positions, sources, scope);
  // Positions and channels are clamped: tables of any size will do.
  static constexpr StringRef ofPair[] = {"b", "hq", "", ""};
  addCaptures(op.getRotate(), op.getTables(), ofPair, sources, scope);
}

void ShapeRules::addReduction(Operation *op,
                              mlir::attn::ReductionOpInterface reduction) {
  unsigned scope = nextScope();
  Side reduced = reduction.getReducedSide();
  Sources sources{reduction.getQuerySource(), reduction.getKeySource(),
                  bool(reduction.getRowBaseOperand()),
                  bool(reduction.getKeyBaseOperand()), reduced};
  bindOperands(reduction.getQueryOperands(), reduction.getKeyOperands(),
               reduction.getValueOperands(), sources, scope);
  bindIndex(sources, scope);
  for (Value base :
       {reduction.getRowBaseOperand(), reduction.getKeyBaseOperand()})
    dims.bind(base, 0, "b", scope);
  auto scores = dyn_cast<mlir::attn::ScoresOp>(op);
  if (scores && scores.getDiagonals()) {
    for (Value sums : op->getResults()) {
      dims.bind(sums, 0, "b", scope);
      dims.bind(sums, 1, "hq", scope);
    }
  } else {
    bindRows(op->getResults(), sources, isa<mlir::attn::PartialOp>(op) ? 1 : 0,
             scope);
    for (Value result : scores ? ValueRange(op->getResults()) : ValueRange())
      dims.bind(result, 3, "sk", scope);
  }
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
  StringRef ofPair[] = {"b", "hq", "", ""};
  for (Region *turn :
       {&reduction.getRotateQueriesBody(), &reduction.getRotateKeysBody()})
    addCaptures(*turn, captures, ofPair, sources, scope);
  if (auto aggregate = dyn_cast<mlir::attn::AggregateOp>(op))
    addCaptures(aggregate.getFinalize(), captures, row, sources, scope);
}

void ShapeRules::addAppend(mlir::attn::AppendOp op) {
  unsigned scope = nextScope();
  Value table = op.getBlockTable();
  StringRef paged[] = {"pages", "hk", "page"}, plain[] = {"b", "hk", "sk"};
  Value offsets = op.getOffsets();
  SmallVector<StringRef> rows = {"b", "hk", "s_new"};
  if (offsets)
    rows = {"hk", "total_q"};
  for (auto [i, pair] :
       llvm::enumerate(llvm::zip_equal(op.getRows(), op.getCaches()))) {
    auto [from, to] = pair;
    bindAll(from, rows, scope);
    bindAll(to, table ? paged : plain, scope);
    dims.bind(from, rows.size(), i ? "dv" : "d", scope);
    dims.bind(to, 3, i ? "dv" : "d", scope);
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
    tables.push_back({table, scope, op.getLengths(), offsets ? "" : "s_new"});
  }
  if (op.getKStart())
    starts.push_back(op.getKStart());
  // How many each sequence has more, only the offsets know.
  if (offsets) {
    dims.bind(offsets, 0, "sequences + 1", scope);
    this->offsets.push_back({offsets, {"total_q", scope}});
    counted.push_back({offsets, {"b", scope}});
    apart.push_back(offsets);
    lengths.push_back(
        {op.getLengths(), {table ? "table_pages*page" : "sk", scope}});
    return;
  }
  lengths.push_back({op.getLengths(),
                     {table ? "table_pages*page-s_new" : "sk-s_new", scope}});
}

void ShapeRules::addScan(mlir::attn::ScanOp op) {
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
  // State heads are those of keys or of values, whichever are more, or of
  // queries.
  for (Value value :
       {Value(op.getWeight()), Value(op.getLogWeight()), Value(op.getDelta()),
        Value(op.getEraseA()), Value(op.getEraseB())})
    bind(value, "heads", "d");
  bind(op.getDecay(), "heads", op.getValueGates() ? "dv" : "d");
  dims.bind(op.getBonus(), 0, "heads", scope);
  bind(op.getOutputs().front(), "heads_out", "dv");
  if (op.getQueryStates())
    largest.push_back({"heads", {"hq", "hk", "hv"}, scope});
  else
    largest.push_back({"heads", {"hk", "hv"}, scope});
  largest.push_back({"heads_out", {"hq", "hk", "hv"}, scope});
  StringRef sequences = "b";
  if (op.isPacked()) {
    sequences = "sequences";
    dims.bind(op.getCu(), 0, "sequences + 1", scope);
    counted.push_back({op.getCu(), {"sequences", scope}});
    offsets.push_back({op.getCu(), {"total", scope}});
  }
  dims.bind(op.getLengths(), 0, "b", scope);
  for (Value capture : op.getGateCaptures())
    bindAll(capture, {"heads", op.getValueGates() ? "dv" : "d"}, scope);
  for (Value capture : op.getFinalizeCaptures()) {
    if (cast<RankedTensorType>(capture.getType()).getRank() <= 2)
      bindAll(capture, {"heads_out", "dv"}, scope);
    else
      bind(capture, "heads_out", "dv");
  }
  auto bindStates = [&](ValueRange states, StringRef lead) {
    for (Value state : states)
      if (op.getValuesFirst() && state == states.front())
        bindAll(state, {lead, "heads", "dv", "d"}, scope);
      else
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

void ShapeRules::addScanPartial(mlir::attn::ScanPartialOp op) {
  unsigned scope = nextScope(/*groups=*/false);
  StringRef gates = op.getValueGates() ? "dv" : "d";
  bindAll(op.getKey(), {"b", "hk", "t", "d"}, scope);
  bindAll(op.getValue(), {"b", "hv", "t", "dv"}, scope);
  for (Value value :
       {Value(op.getWeight()), Value(op.getLogWeight()), Value(op.getDelta()),
        Value(op.getEraseA()), Value(op.getEraseB())})
    bindAll(value, {"b", "heads", "t", "d"}, scope);
  bindAll(op.getDecay(), {"b", "heads", "t", gates}, scope);
  for (Value capture : op.getGateCaptures())
    bindAll(capture, {"heads", gates}, scope);
  dims.bind(op.getLengths(), 0, "b", scope);
  largest.push_back({"heads", {"hk", "hv"}, scope});
  for (Value output : op.getOutputs())
    bindAll(output, {"parts", "b", "heads"}, scope);
  for (Value operand : op->getOperands())
    apart.push_back(operand);
}

void ShapeRules::addScanCombine(mlir::attn::ScanCombineOp op) {
  unsigned scope = nextScope(/*groups=*/false);
  for (Value state : op.getStates())
    bindAll(state, {"parts", "sequences", "heads", "d", "dv"}, scope);
  bindAll(op.getMaps(), {"parts", "sequences", "heads"}, scope);
  for (Value state : op.getInit())
    bindAll(state, {"sequences", "heads", "d", "dv"}, scope);
  for (Value output : op.getOutputs())
    if (op.getPrefixes())
      bindAll(output, {"parts", "sequences", "heads"}, scope);
    else
      bindAll(output, {"sequences", "heads"}, scope);
  for (Value operand : op->getOperands())
    apart.push_back(operand);
}

void ShapeRules::bindIndex(const Sources &sources, unsigned scope) {
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
  if (sources.query.is(mlir::attn::SourceKind::varlen) &&
      sources.key.is(mlir::attn::SourceKind::paged))
    counted.push_back({sources.query.map, {"b", scope}});
  Value keyLengths = sources.key.lengths;
  dims.bind(keyLengths, 0, "b", scope);
  bool isPaged = sources.key.is(mlir::attn::SourceKind::paged);
  if (keyLengths && (isPaged || sources.key.hasBatch()))
    lengths.push_back(
        {keyLengths,
         {isPaged ? "table_pages*page" : sources.ofKeys().back(), scope}});
}

unsigned ShapeRules::nextScope(bool groups) {
  if (groups)
    scopes.push_back(numScopes);
  return numScopes++;
}
