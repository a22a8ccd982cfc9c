//===- AttnVerifiers.cpp - Verifiers of the attn dialect ------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
// What does not need the monoid is checked by verify(); what does, by
// verifySymbolUses(), which passes over shipped monoids until they are
// imported. The labels (C1), (C2) ... are those of docs/Semantics.md.
//===----------------------------------------------------------------------===//

#include "RegionVerifier.h"

using namespace mlir;
using namespace mlir::attn;

static SmallVector<Type> withCaptures(SmallVector<Type> types,
                                      ValueRange captures) {
  llvm::append_range(types, captures.getTypes());
  return types;
}

//===----------------------------------------------------------------------===//
// AttentionOp
//===----------------------------------------------------------------------===//

/// Checks a tensor against [b, hq, sq, sk] by its trailing dimensions; those
/// of static size 1 broadcast.
static LogicalResult verifyBroadcast(AttentionOp op, StringRef name,
                                     Value value, ArrayRef<int64_t> full) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  bool fits = type && type.getRank() <= int64_t(full.size());
  for (unsigned i = 0; fits && i < type.getRank(); ++i) {
    int64_t size = type.getDimSize(i);
    int64_t want = full[full.size() - type.getRank() + i];
    fits = size == 1 || !contradict(size, want);
  }
  if (fits)
    return success();
  Type element = cast<ShapedType>(value.getType()).getElementType();
  return op.emitOpError("expected ")
         << name << " to broadcast to " << RankedTensorType::get(full, element)
         << ", but got " << value.getType();
}

/// (C13) of attention, (C16) of aggregate: one order of the keys.
template <typename OpT> static LogicalResult verifyInvariance(OpT op) {
  if (!op.getBatchInvariant() && op.getPartKeys())
    return op.emitOpError("expected part_keys with batch_invariant only");
  if (!op.getBatchInvariant())
    return success();
  if (op.getKeySource().is(SourceKind::ring))
    return op.emitOpError("expected no rolling cache with batch_invariant, "
                          "whose key tiles start at a key that moves");
  ScheduleAttr schedule = op.getScheduleAttr();
  std::optional<uint64_t> partKeys = op.getPartKeys();
  if (schedule && partKeys && *partKeys % schedule.getBlockK())
    return op.emitOpError("expected part_keys to be a multiple of block_k = ")
           << schedule.getBlockK() << ", but got " << *partKeys;
  auto verifySplits = [&](ScheduleAttr given) -> LogicalResult {
    if (given.getSplits() == 1 ||
        given.getSplits() == ScheduleAttr::automaticSplits)
      return success();
    return op.emitOpError("expected splits = 1 or automatic with "
                          "batch_invariant, since the keys of ")
           << given.getSplits()
           << " parts depend on the number of keys, but got " << given;
  };
  if (schedule && failed(verifySplits(schedule)))
    return failure();
  auto dispatch =
      op->template getAttrOfType<DispatchAttr>(getDispatchAttrName());
  for (VariantAttr variant :
       dispatch ? dispatch.getVariants() : ArrayRef<VariantAttr>()) {
    ScheduleAttr other = variant.getSchedule();
    if (failed(verifySplits(other)))
      return failure();
    if (schedule && other.getBlockK() != schedule.getBlockK())
      return op.emitOpError("expected all schedules to have one block_k with "
                            "batch_invariant, but got ")
             << schedule.getBlockK() << " and, for " << variant.getName()
             << ", " << other.getBlockK();
  }
  return success();
}

/// Rows of several sequences share a tile of keys where all of them see these
/// keys, and score them by the dot alone.
static LogicalResult verifyCascade(AttentionOp op) {
  if (!op.getCascade())
    return success();
  constexpr int64_t most = 4;
  int64_t levels = *op.getCascade();
  if (levels < 1 || levels > most)
    return op.emitOpError("expected cascade of 1 to ")
           << most << " levels, but got " << levels;
  StringRef other;
  if (!op.getBlockTable())
    other = "no block_table";
  else if (op.getCuQ())
    other = "packed queries";
  else if (op.getCausal() == Causal::top_left)
    other = "a top-left diagonal";
  else if (op.getWindowLeft() || op.getWindowRight())
    other = "a window";
  else if (op.getKStart())
    other = "k_start";
  else if (op.getBias() || op.getAlibi() || !op.getScore().empty())
    other = "scores that differ by position";
  else if (op.getMaskTensor() || !op.getMask().empty())
    other = "another mask";
  else if (op.getDropout())
    other = "dropout";
  else if (op.getRotary())
    other = "rotary";
  else if (op.getBatchInvariant())
    other = "batch_invariant";
  if (other.empty())
    return success();
  return op.emitOpError(
             "expected cascade with a block_table and a bottom-right "
             "or no diagonal, so that all rows of a sequence see its "
             "first keys and score them by the dot, but got ")
         << other;
}

LogicalResult AttentionOp::verify() {
  // (C13)
  if (failed(verifyInvariance(*this)))
    return failure();
  // (C1) to (C4)
  if (getCuK() && getBlockTable())
    return emitOpError("expected cu_seqlens_k or a block_table, but got both");
  if (getRolling() && (getCuQ() || getCuK() || getBlockTable() || !getKStart()))
    return emitOpError("expected a rolling cache to have k_start, and batches "
                       "and no pages or packed sequences");
  Source querySource = getQuerySource(), keySource = getKeySource();
  if (failed(verifyOperandShapes(*this, getQuery(), getKey(), getValue(),
                                 querySource, keySource)))
    return failure();
  OperandShape q(getQuery(), querySource), k(getKey(), keySource);

  // (C5)
  if (!getValue().empty() &&
      OperandShape(getValue().front(), keySource).element() != q.element())
    return emitOpError("expected the values to have the element type of the "
                       "queries, ")
           << q.element() << ", but got "
           << OperandShape(getValue().front(), keySource).element();
  int64_t batch = q.sequences();
  if (getKStart() && keySource.kind != SourceKind::ring) {
    int64_t count = cast<ShapedType>(getKStart().getType()).getDimSize(0);
    if (contradict(count, batch))
      return emitOpError("expected one start for each batch, ")
             << batch << ", but got " << count;
  }

  // (C6) Where sequences have sizes of their own, these are theirs.
  int64_t full[] = {batch, q.heads(), q.rowsOfEach(), k.rowsOfEach()};
  if (getBias() && failed(verifyBroadcast(*this, "bias", getBias(), full)))
    return failure();
  if (getMaskTensor() &&
      failed(verifyBroadcast(*this, "mask_tensor", getMaskTensor(), full)))
    return failure();

  // (C7)
  if (getAlibi() &&
      failed(verifyBroadcast(*this, "alibi", getAlibi(), {batch, q.heads()})))
    return failure();
  if (getSinks() &&
      failed(verifyBroadcast(*this, "sinks", getSinks(), {q.heads()})))
    return failure();

  // (C16)
  if (failed(verifyCascade(*this)))
    return failure();

  // (C14)
  if (getDropoutRng().size() != (getDropout() ? 4 : 0))
    return emitOpError("expected four words of a generator's state, of its "
                       "seed and its offset, with dropout, but got ")
           << getDropoutRng().size();

  // (C8), (C9)
  Builder builder(getContext());
  Type f32 = builder.getF32Type(), i32 = builder.getI32Type();
  if (!getScore().empty() &&
      (failed(verifyBody(
           *this, getScore(), "score",
           withCaptures({f32, i32, i32, i32, i32}, getCaptures()))) ||
       failed(verifyYield(*this, getScore(), "score", f32))))
    return failure();
  if (!getMask().empty() &&
      (failed(verifyBody(*this, getMask(), "mask",
                         withCaptures({i32, i32, i32, i32}, getCaptures()))) ||
       failed(verifyYield(*this, getMask(), "mask", builder.getI1Type()))))
    return failure();
  // (C15)
  if (failed(verifyRotary(*this, getRotaryAttr(), {{"rotate", &getRotate()}},
                          getQuery(), getTables())))
    return failure();
  if (getRotateBySlot() && !getRotary())
    return emitOpError("expected a region 'rotate' with rotate_by_slot");
  if (!getTables().empty() && !getRotary())
    return emitOpError(
        "expected a region 'rotate' with tables, which it reads");
  if (getNumResults() == 0)
    return emitOpError("expected one or more results");
  return success();
}

/// (C10) of attention, (C12) of aggregate and finalize: results by outputs.
static LogicalResult verifyOutputs(Operation *op, ArrayRef<bool> perChannel,
                                   ArrayRef<int64_t> rows, int64_t channels) {
  for (auto [i, type] : llvm::enumerate(op->getResultTypes()))
    if (failed(verifyRowTensor(op, "result", i, type, rows, perChannel[i],
                               channels, /*onlyF32=*/false)))
      return failure();
  return success();
}

static LogicalResult verifyCounts(Operation *op, MonoidOp monoid,
                                  ValueRange params, size_t numValues) {
  if (params.size() != monoid.getNumParams())
    return op->emitOpError("expected ")
           << monoid.getNumParams() << " params of @" << monoid.getSymName()
           << ", but got " << params.size();
  if (numValues != monoid.getNumValues())
    return op->emitOpError("expected ")
           << monoid.getNumValues()
           << " values, one for each value component of @"
           << monoid.getSymName() << ", but got " << numValues;
  return success();
}

static LogicalResult verifyDefaultOutputs(Operation *op, MonoidOp monoid) {
  if (monoid.getFinalize().empty())
    return op->emitOpError("expected @")
           << monoid.getSymName() << " to have a region 'finalize'";
  if (op->getNumResults() > monoid.getOutputs().size())
    return op->emitOpError("expected at most ")
           << monoid.getOutputs().size() << " results, the outputs of @"
           << monoid.getSymName() << ", but got " << op->getNumResults();
  return success();
}

static int64_t getChannels(ValueRange values) {
  return values.empty() ? 0
                        : cast<RankedTensorType>(values.front().getType())
                              .getShape()
                              .back();
}

LogicalResult AttentionOp::verifySymbolUses(SymbolTableCollection &symbols) {
  // (C10)
  FailureOr<MonoidOp> monoid = resolveMonoid(*this, symbols);
  if (failed(monoid) || !*monoid)
    return monoid;
  if (failed(verifyCounts(*this, *monoid, getParams(), getValue().size())) ||
      failed(verifyDefaultOutputs(*this, *monoid)))
    return failure();
  // (C11)
  if (monoid->getNumScores() != 1)
    return emitOpError("expected a monoid whose lift takes one score, but @")
           << monoid->getSymName() << " takes " << monoid->getNumScores()
           << "; write attn.aggregate with one dot pair for each";
  // (C12)
  if (getSinks() &&
      (monoid->getKind() != MonoidKind::cocycle || monoid->getNumStats() != 1))
    return emitOpError("expected sinks with a cocycle monoid of one "
                       "statistic, but got @")
           << monoid->getSymName();
  // (C14)
  if (getDropout() && monoid->isGeneral())
    return emitOpError("expected dropout with a monoid that sums weighted "
                       "values (cocycle, suffix or prefix), but @")
           << monoid->getSymName() << " is general";
  return verifyOutputs(*this, getPerChannelOutputs(*monoid),
                       getRowShape(getQuery()), getChannels(getValue()));
}

//===----------------------------------------------------------------------===//
// AggregateOp, PartialOp
//===----------------------------------------------------------------------===//

template <typename OpT> static LogicalResult verifyReduction(OpT op) {
  // (C16)
  if (failed(verifyInvariance(op)))
    return failure();
  // (C1) to (C4)
  bool overKeys = op.getSide() == Side::keys;
  for (auto [role, form, index] :
       {std::tuple<StringRef, SourceAttr, ValueRange>(
            overKeys ? "queries" : "keys", op.getQueryFormAttr(),
            op.getQueryIndex()),
        {overKeys ? "keys" : "queries", op.getKeyFormAttr(), op.getKeyIndex()}})
    if (index.size() != (form ? form.getNumOperands() : 0))
      return op.emitOpError("expected ")
             << (form ? form.getNumOperands() : 0) << " index operands of the "
             << role << ", as their source says, but got " << index.size();
  if (failed(verifyOperandShapes(op, op.getQueries(), op.getKeys(),
                                 op.getValues(), op.getQuerySource(),
                                 op.getKeySource(), op.getSide())))
    return failure();
  for (Value base : {op.getRowBase(), op.getKeyBase()})
    if (auto tensor =
            base ? dyn_cast<ShapedType>(base.getType()) : ShapedType();
        tensor && op.getQuerySource().hasBatch() &&
        contradict(
            tensor.getDimSize(0),
            OperandShape(op.getQueries()[0], op.getQuerySource()).batch()))
      return op.emitOpError("expected a base for each batch, but got ")
             << tensor;
  // (C5)
  if (isa<PartialOp>(op.getOperation()) && op.getSide() != Side::keys)
    return op.emitOpError("expected side = keys, whose parts are cut, but got ")
           << stringifySide(op.getSide()) << "; reduce them by attn.aggregate";

  Builder builder(op.getContext());
  Type f32 = builder.getF32Type(), i32 = builder.getI32Type();
  ValueRange captures = op.getCaptures();
  // (C6)
  if (!op.getScore().empty()) {
    SmallVector<Type> types(op.getQueries().size(), f32);
    types.append(4, i32);
    if (failed(verifyBody(op, op.getScore(), "score",
                          withCaptures(types, captures))) ||
        failed(verifyYieldsFloats(op, op.getScore(), "score", -1)))
      return failure();
  }
  // (C7)
  if (!op.getMask().empty() &&
      (failed(verifyBody(op, op.getMask(), "mask",
                         withCaptures({i32, i32, i32, i32}, captures))) ||
       failed(verifyYield(op, op.getMask(), "mask", builder.getI1Type()))))
    return failure();
  // (C17)
  if (!op.getFactor().empty() &&
      (failed(verifyBody(op, op.getFactor(), "factor",
                         withCaptures({i32, i32, i32, i32}, captures))) ||
       failed(verifyYield(op, op.getFactor(), "factor", f32))))
    return failure();
  // (C8)
  if (!op.getInit().empty() &&
      (failed(verifyBody(op, op.getInit(), "init",
                         withCaptures({i32, i32, i32}, captures))) ||
       failed(verifyYieldsFloats(op, op.getInit(), "init", -1))))
    return failure();
  // (C18)
  if (failed(verifyRotary(op, op.getRotaryAttr(),
                          {{"rotate_queries", &op.getRotateQueries()},
                           {"rotate_keys", &op.getRotateKeys()}},
                          op.getQueries(), captures)))
    return failure();
  if (op.getRotary() && !overKeys)
    return op.emitOpError("expected side = keys with 'rotary', but got ")
           << stringifySide(op.getSide());
  if (op->getNumResults() == 0)
    return op.emitOpError("expected one or more results");
  return success();
}

template <typename OpT>
static LogicalResult verifyReductionUses(OpT op, MonoidOp monoid) {
  // (C9)
  bool takesValues = !isa<ScoresOp>(op.getOperation());
  if (failed(verifyCounts(op, monoid, op.getParams(),
                          takesValues ? op.getValues().size()
                                      : monoid.getNumValues())))
    return failure();
  unsigned numScores = op.getScore().empty()
                           ? op.getQueries().size()
                           : op.getScore().front().back().getNumOperands();
  // (C10)
  if (numScores != monoid.getNumScores())
    return op.emitOpError("expected ")
           << monoid.getNumScores() << " scores for the lift of @"
           << monoid.getSymName() << ", but "
           << (op.getScore().empty() ? "got dot pairs: "
                                     : "region 'score' yields ")
           << numScores;
  // (C17)
  if (!op.getFactor().empty() && monoid.isGeneral())
    return op.emitOpError("expected a region 'factor' with a monoid that sums "
                          "weighted values (cocycle, suffix or prefix), but @")
           << monoid.getSymName() << " is general";
  unsigned stateSize = monoid.getNumStats() + monoid.getNumComponents();
  // (C8)
  if (!op.getInit().empty())
    return verifyYieldsFloats(op, op.getInit(), "init", stateSize);
  return success();
}

LogicalResult AggregateOp::verify() {
  if (failed(verifyReduction(*this)))
    return failure();
  if (getHeldSamples() && !getListedKeys())
    return emitOpError("expected held_samples with listed_keys only");
  if (getCascade().has_value() != getCascadeLevels().has_value() ||
      getCascade() == Causal::top_left)
    return emitOpError("expected cascade and cascade_levels together, and no "
                       "top-left diagonal");
  // (C11) The state's types need the monoid.
  if (!getFinalize().empty())
    return verifyYieldsFloats(*this, getFinalize(), "finalize",
                              getNumResults());
  return success();
}

/// (C11): a finalize region that is not the monoid's own.
static LogicalResult verifyFinalize(Operation *op, Region &region,
                                    MonoidOp monoid, ValueRange captures) {
  Builder builder(op->getContext());
  SmallVector<Type> types(monoid.getNumStats() + monoid.getNumComponents(),
                          builder.getF32Type());
  types.append(3, builder.getI32Type());
  return verifyBody(op, region, "finalize", withCaptures(types, captures));
}

/// The results of the monoid's finalize region, or of the op's own.
template <typename OpT>
static LogicalResult verifyFinalized(OpT op, MonoidOp monoid,
                                     ArrayRef<int64_t> rows, int64_t channels) {
  Region &own = op.getFinalize();
  if (own.empty()) {
    if (failed(verifyDefaultOutputs(op, monoid)))
      return failure();
    return verifyOutputs(op, getPerChannelOutputs(monoid), rows, channels);
  }
  if (failed(verifyFinalize(op, own, monoid, op.getCaptures())))
    return failure();
  return verifyOutputs(
      op,
      getPerChannelOutputs(own, monoid.getNumStats(), monoid.getComponents()),
      rows, channels);
}

LogicalResult AggregateOp::verifySymbolUses(SymbolTableCollection &symbols) {
  FailureOr<MonoidOp> monoid = resolveMonoid(*this, symbols);
  if (failed(monoid) || !*monoid)
    return monoid;
  if (failed(verifyReductionUses(*this, *monoid)))
    return failure();
  return verifyFinalized(*this, *monoid, getRowShape(getQueries().front()),
                         getChannels(getValues()));
}

LogicalResult PartialOp::verify() {
  if (failed(verifyReduction(*this)))
    return failure();
  if (getListedKeys() || getPartKeys() || getDeadIsZero() ||
      getDeadByElement() || getAnyOrder())
    return emitOpError("expected listed_keys, part_keys, dead_is_zero, "
                       "dead_by_element and any_order on attn.aggregate only");
  // (C13)
  std::optional<int64_t> splits = getSplits();
  if (splits.has_value() == static_cast<bool>(getParts()))
    return emitOpError("expected either splits or parts, but got ")
           << (splits ? "both" : "none");
  if (splits && *splits < 1)
    return emitOpError("expected splits to be positive, but got ") << *splits;
  if (std::optional<int64_t> granule = getGranule(); granule && *granule < 1)
    return emitOpError("expected granule to be positive, but got ") << *granule;
  return success();
}

/// States of a monoid with rows of shape `rows`: f32, but for values where
/// `narrowValues` says so.
static LogicalResult verifyStates(Operation *op, StringRef what,
                                  TypeRange types, MonoidOp monoid,
                                  ArrayRef<int64_t> rows, int64_t channels,
                                  bool narrowValues = false) {
  unsigned numStats = monoid.getNumStats();
  unsigned stateSize = numStats + monoid.getNumComponents();
  if (types.size() != stateSize)
    return op->emitOpError("expected ")
           << stateSize << " " << what
           << "s, the statistics and components of @" << monoid.getSymName()
           << ", but got " << types.size();
  for (auto [i, type] : llvm::enumerate(types)) {
    bool perChannel =
        i >= numStats && monoid.getComponent(i - numStats) == Component::value;
    if (failed(verifyRowTensor(op, what, i, type, rows, perChannel, channels,
                               /*onlyF32=*/!(narrowValues && perChannel))))
      return failure();
  }
  return success();
}

LogicalResult PartialOp::verifySymbolUses(SymbolTableCollection &symbols) {
  FailureOr<MonoidOp> monoid = resolveMonoid(*this, symbols);
  if (failed(monoid) || !*monoid)
    return monoid;
  if (failed(verifyReductionUses(*this, *monoid)))
    return failure();
  // (C14)
  SmallVector<int64_t> rows = getRowShape(getQueries().front());
  rows.insert(rows.begin(),
              static_cast<int64_t>(getSplits().value_or(ShapedType::kDynamic)));
  return verifyStates(*this, "result", getResultTypes(), *monoid, rows,
                      getChannels(getValues()));
}

LogicalResult ScoresOp::verify() {
  if (failed(verifyReduction(*this)))
    return failure();
  // (C1)
  if (!getValues().empty() || !getFactor().empty() || !getInit().empty())
    return emitOpError("expected no values, and no regions but 'score' and "
                       "'mask'");
  if (getExponent() || getListedKeys() || getPartKeys() || getScoreUnit() ||
      getLinearBias() || getPackedHeads() || getDeadIsZero() ||
      getDeadByElement() || getAnyOrder())
    return emitOpError("expected no exponent, listed_keys, part_keys, "
                       "score_unit, linear_bias, packed_heads, dead_is_zero, "
                       "dead_by_element or any_order: nothing is reduced");
  if (getQueryForm() || getKeyForm() || getSide() != Side::keys)
    return emitOpError("expected dense queries and keys, and side = keys");
  auto query = cast<RankedTensorType>(getQueries().front().getType());
  auto key = cast<RankedTensorType>(getKeys().front().getType());
  Type f32 = Float32Type::get(getContext());
  // (C2)
  if (int64_t n = getDiagonals().value_or(0); getDiagonals()) {
    if (n != 32 && n != 64 && n != 128)
      return emitOpError("expected diagonals in blocks of 32, 64 or 128 keys, "
                         "but got ")
             << n;
    SmallVector<int64_t> shape = {query.getDimSize(0), query.getDimSize(1),
                                  ShapedType::kDynamic, n};
    auto sums = RankedTensorType::get(shape, f32);
    auto shared = RankedTensorType::get(ArrayRef(shape).drop_back(), f32);
    for (Type type : getResultTypes())
      if (type != sums && type != shared)
        return emitOpError("expected results of type ")
               << sums << " or " << shared << ", but got " << type;
    return success();
  }
  auto want = RankedTensorType::get({query.getDimSize(0), query.getDimSize(1),
                                     query.getDimSize(2), key.getDimSize(2)},
                                    f32);
  for (Type type : getResultTypes())
    if (type != want)
      return emitOpError("expected results of type ")
             << want << ", but got " << type;
  return success();
}

LogicalResult ScoresOp::verifySymbolUses(SymbolTableCollection &symbols) {
  FailureOr<MonoidOp> monoid = resolveMonoid(*this, symbols);
  if (failed(monoid) || !*monoid)
    return monoid;
  if (failed(verifyReductionUses(*this, *monoid)))
    return failure();
  if (getNumResults() != monoid->getNumScores())
    return emitOpError("expected a result for each score that the lift of @")
           << monoid->getSymName() << " takes, " << monoid->getNumScores()
           << ", but got " << getNumResults();
  return success();
}

//===----------------------------------------------------------------------===//
// CombineOp, FinalizeOp
//===----------------------------------------------------------------------===//

/// The rows that states have in common, from the one of least rank; the
/// channels from the ones with a dimension more.
static LogicalResult inferRows(Operation *op, ValueRange states,
                               MonoidOp monoid, SmallVectorImpl<int64_t> &rows,
                               int64_t &channels) {
  channels = ShapedType::kDynamic;
  if (states.empty())
    return success(); // the count is checked next
  for (auto [i, state] : llvm::enumerate(states)) {
    auto type = dyn_cast<RankedTensorType>(state.getType());
    bool isValue =
        i >= monoid.getNumStats() &&
        i - monoid.getNumStats() < monoid.getNumComponents() &&
        monoid.getComponent(i - monoid.getNumStats()) == Component::value;
    if (!type || type.getRank() < (isValue ? 2 : 1))
      return op->emitOpError("expected state ")
             << i << " to be a ranked tensor over rows, but got "
             << state.getType();
    ArrayRef<int64_t> shape = type.getShape();
    if (isValue) {
      channels = shape.back();
      shape = shape.drop_back();
    }
    if (rows.empty())
      rows.assign(shape.begin(), shape.end());
    for (unsigned k = 0; k < rows.size() && k < shape.size(); ++k)
      if (ShapedType::isDynamic(rows[k]))
        rows[k] = shape[k];
  }
  return success();
}

/// The parameters and states that an op takes, and over which rows these are.
template <typename OpT>
static LogicalResult verifyGiven(OpT op, MonoidOp monoid,
                                 SmallVector<int64_t> &rows, int64_t &channels,
                                 bool narrowValues) {
  if (failed(verifyCounts(op, monoid, op.getParams(), monoid.getNumValues())) ||
      failed(inferRows(op, op.getStates(), monoid, rows, channels)))
    return failure();
  return verifyStates(op, "state", op.getStates().getTypes(), monoid, rows,
                      channels, narrowValues);
}

LogicalResult CombineOp::verify() {
  // (C1)
  if (getStates().empty())
    return emitOpError("expected one or more states");
  if (getStates().size() != getNumResults())
    return emitOpError("expected as many results as states, ")
           << getStates().size() << ", but got " << getNumResults();
  // (C4)
  if (getShared().size() != (getPlaces() ? getStates().size() : 0))
    return emitOpError("expected shared states for each state, and their "
                       "places, or none of them, but got ")
           << getShared().size() << " and " << (getPlaces() ? "" : "no ")
           << "places";
  for (auto [own, shared] : llvm::zip(getStates(), getShared())) {
    auto type = cast<RankedTensorType>(own.getType());
    auto other = cast<RankedTensorType>(shared.getType());
    if (type.getRank() != other.getRank() || type.getRank() < 4 ||
        !other.getElementType().isF32() ||
        (type.getRank() > 4 &&
         type.getShape().back() != other.getShape().back()))
      return emitOpError("expected shared states of the rank and the channels "
                         "of the states, but got ")
             << other << " and " << type;
  }
  return success();
}

LogicalResult CombineOp::verifySymbolUses(SymbolTableCollection &symbols) {
  FailureOr<MonoidOp> monoid = resolveMonoid(*this, symbols);
  if (failed(monoid) || !*monoid)
    return monoid;
  // (C2), (C3)
  SmallVector<int64_t> rows;
  int64_t channels;
  if (failed(verifyGiven(*this, *monoid, rows, channels,
                         /*narrowValues=*/true)))
    return failure();
  return verifyStates(*this, "result", getResultTypes(), *monoid,
                      ArrayRef(rows).drop_front(), channels);
}

LogicalResult FinalizeOp::verify() {
  // (C1)
  if (getStates().empty())
    return emitOpError("expected one or more states");
  if (getNumResults() == 0)
    return emitOpError("expected one or more results");
  if (!getFinalize().empty())
    return verifyYieldsFloats(*this, getFinalize(), "finalize",
                              getNumResults());
  return success();
}

LogicalResult FinalizeOp::verifySymbolUses(SymbolTableCollection &symbols) {
  FailureOr<MonoidOp> monoid = resolveMonoid(*this, symbols);
  if (failed(monoid) || !*monoid)
    return monoid;
  // (C2)
  SmallVector<int64_t> rows;
  int64_t channels;
  if (failed(verifyGiven(*this, *monoid, rows, channels,
                         /*narrowValues=*/false)))
    return failure();
  // (C3), (C4)
  return verifyFinalized(*this, *monoid, rows, channels);
}
