//===- Tile.cpp - Reductions become kernels and a plan --------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A function on tensors becomes a plan on memrefs: results are trailing
// arguments, states that pass between ops are workspace, and each op of attn
// is one launch of one kernel. Kernels are built by TileKernel.h.
//
//===----------------------------------------------------------------------===//

#include "KeyLists.h"
#include "StateUses.h"
#include "TileKernel.h"
#include "TileScan.h"
#include "attn/Analysis/Laws.h"
#include "attn/Analysis/Schedule.h"
#include "attn/Analysis/TargetAttr.h"
#include "attn/Dialect/Attn/Transforms/Passes.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/BuiltinOps.h"

#define DEBUG_TYPE "attn-tile"

namespace attn {
#define GEN_PASS_DEF_ATTNTILEPASS
#include "attn/Dialect/Attn/Transforms/Passes.h.inc"
} // namespace attn

using namespace mlir;
using namespace mlir::attn;

namespace {

/// Rewrites one function into a plan with its kernels.
class PlanBuilder {
public:
  PlanBuilder(func::FuncOp func, const ::attn::TargetInfo &target)
      : func(func), target(target), b(func.getContext()) {}
  LogicalResult run();

private:
  static Type convert(Type type);
  LogicalResult convertReturn(func::ReturnOp op);
  LogicalResult convertOp(Operation *op);
  LogicalResult convertReduction(ReductionOpInterface op);
  /// What kernels do with the marks of rows (TileRepair.cpp), which are the
  /// last of their outputs.
  enum class Marks { none, written, read };
  /// Kernels for query tiles of `heads` heads and their launches; heads are
  /// packed where there are views of the queries and outputs for that.
  LogicalResult convertRows(ReductionOpInterface op, MonoidOp monoid,
                            Value batches, Value heads, Value numTiles,
                            ValueRange outputs, Marks marks,
                            ValueRange packedQueries = {});
  SmallVector<Value> makeKeyLists(ReductionOpInterface op, Value batches,
                                  Value heads, Value numTiles);
  void convertLists(ReductionOpInterface op, MonoidOp monoid, Value batches,
                    Value heads, ArrayRef<Value> extra,
                    ValueRange packedQueries);
  LogicalResult convertStates(Operation *op, FlatSymbolRefAttr monoidRef);
  void convertAppend(AppendOp op);
  LogicalResult convertScan(ScanOp op);
  /// Memory for the results of `op`: output arguments of the plan, workspace,
  /// or null where a result has no use and need not be stored.
  void makeOutputs(Operation *op, ArrayRef<Value> sizes, bool storeAll,
                   SmallVectorImpl<Value> &outputs);
  /// Starts a kernel whose arguments are the operands of `op`, `outputs`,
  /// `extra` and the block.
  struct Kernel {
    tile::KernelOp func;
    SmallVector<Value> launchArguments;
    SmallVector<Value> operands; // of the op, as bound
    SmallVector<Value> outputs, extra;
    Value block;
  };
  Kernel startKernel(Operation *op, ValueRange operands, ValueRange outputs,
                     ValueRange extra, ScheduleAttr schedule);
  /// The number of parts in the plan.
  Value countParts(PartialOp op);
  /// A value of the score region of `op` in the plan, from constants and scalar
  /// captures.
  Value inPlan(ReductionOpInterface op, Value value);

  Value index(int64_t value, Location loc) {
    return arith::ConstantIndexOp::create(b, loc, value);
  }

  func::FuncOp func, plan;
  const ::attn::TargetInfo &target;
  OpBuilder b;
  IRMapping mapping;
  /// Output arguments of the plan by the value that is returned.
  llvm::DenseMap<Value, Value> returned;
  unsigned numKernels = 0;
  /// The plan or the last of its kernels.
  Operation *lastFunc = nullptr;
};

} // namespace

Type PlanBuilder::convert(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor)
    return type;
  Type element = tensor.getElementType();
  if (element.isInteger(1)) // a byte each
    element = IntegerType::get(type.getContext(), 8);
  SmallVector<int64_t> strides(tensor.getRank(), ShapedType::kDynamic);
  if (strides.empty())
    return MemRefType::get({}, element);
  strides.back() = 1;
  return MemRefType::get(
      tensor.getShape(), element,
      StridedLayoutAttr::get(type.getContext(), /*offset=*/0, strides));
}

LogicalResult PlanBuilder::run() {
  if (!llvm::hasSingleElement(func.getBody()))
    return func.emitOpError("expected a single block, but got ")
           << func.getBody().getBlocks().size();
  auto returnOp = dyn_cast<func::ReturnOp>(func.front().getTerminator());
  if (!returnOp)
    return func.emitOpError("expected a body that ends with func.return");
  auto module = func->getParentOfType<ModuleOp>();
  // Its results become arguments.
  if (auto uses = SymbolTable::getSymbolUses(func, module))
    for (SymbolTable::SymbolUse use : *uses)
      if (!isa<tile::DispatchOp>(use.getUser()))
        return use.getUser()->emitOpError("expected no use of '@")
               << func.getName()
               << "', which becomes a plan of kernel launches; inline it, or "
                  "let the caller of the plan do the rest";
  SmallVector<Type> types;
  for (Type type : func.getArgumentTypes())
    types.push_back(convert(type));
  unsigned numInputs = types.size();
  for (Type type : func.getResultTypes()) {
    if (!isa<RankedTensorType>(type))
      return func.emitOpError("expected results to be ranked tensors, but got ")
             << type;
    types.push_back(convert(type));
  }
  b.setInsertionPoint(func);
  plan = func::FuncOp::create(b, func.getLoc(), func.getName(),
                              b.getFunctionType(types, {}));
  for (NamedAttribute attr : func->getDiscardableAttrs())
    plan->setAttr(attr.getName(), attr.getValue());
  plan->setAttr(tile::TileDialect::planName, b.getUnitAttr());
  lastFunc = plan;
  plan.setVisibility(func.getVisibility());
  Block *body = plan.addEntryBlock();
  b.setInsertionPointToStart(body);
  for (auto [i, argument] : llvm::enumerate(func.getArguments())) {
    mapping.map(argument, body->getArgument(i));
    if (ArrayAttr attrs = func.getArgAttrsAttr())
      plan.setArgAttrs(i, cast<DictionaryAttr>(attrs[i]));
  }
  for (auto [i, value] : llvm::enumerate(returnOp.getOperands())) {
    Operation *def = value.getDefiningOp();
    if (!def ||
        !isa<AggregateOp, PartialOp, ScoresOp, CombineOp, FinalizeOp, ScanOp>(
            def))
      return returnOp.emitOpError("expected operand ")
             << i << " to be the result of an attn reduction";
    if (!returned.try_emplace(value, body->getArgument(numInputs + i)).second)
      return returnOp.emitOpError("expected each value to be returned once, "
                                  "but got operand ")
             << i << " again";
  }
  for (Operation &op : func.front().without_terminator())
    if (failed(convertOp(&op)))
      return failure();
  func::ReturnOp::create(b, returnOp.getLoc());
  func.erase();
  return success();
}

/// The finalize that is the only use of a combine, or null.
static FinalizeOp finalizeOf(CombineOp combine) {
  FinalizeOp only;
  for (Operation *user : combine->getUsers()) {
    auto finalize = dyn_cast<FinalizeOp>(user);
    if (!finalize || (only && only != finalize))
      return {};
    only = finalize;
  }
  if (!only || only.getMonoidAttr() != combine.getMonoidAttr() ||
      ValueRange(only.getStates()) != ValueRange(combine.getOutputs()))
    return {};
  return only;
}

LogicalResult PlanBuilder::convertOp(Operation *op) {
  Location loc = op->getLoc();
  if (auto dim = dyn_cast<tensor::DimOp>(op)) {
    mapping.map(dim.getResult(),
                memref::DimOp::create(b, loc, mapping.lookup(dim.getSource()),
                                      mapping.lookup(dim.getIndex()))
                    .getResult());
    return success();
  }
  if (auto extract = dyn_cast<tensor::ExtractOp>(op)) {
    if (!target.isCpu())
      return op->emitOpError("expected a scalar argument, but got an element "
                             "of a tensor, which the host of a GPU cannot "
                             "read; pass its value, or extract it in a region");
    auto indices = llvm::map_to_vector(extract.getIndices(), [&](Value index) {
      return mapping.lookup(index);
    });
    mapping.map(extract.getResult(),
                memref::LoadOp::create(
                    b, loc, mapping.lookup(extract.getTensor()), indices)
                    .getResult());
    return success();
  }
  if (auto reduction = dyn_cast<ReductionOpInterface>(op))
    return convertReduction(reduction);
  if (auto append = dyn_cast<AppendOp>(op)) {
    convertAppend(append);
    return success();
  }
  if (auto scan = dyn_cast<ScanOp>(op))
    return convertScan(scan);
  if (auto combine = dyn_cast<CombineOp>(op)) {
    if (finalizeOf(combine))
      return success(); // the finalize's kernel multiplies the parts
    return convertStates(op, combine.getMonoidAttr());
  }
  if (auto finalize = dyn_cast<FinalizeOp>(op))
    return convertStates(op, finalize.getMonoidAttr());
  auto isTensor = [](Type type) { return isa<TensorType>(type); };
  if (auto call = dyn_cast<func::CallOp>(op)) {
    auto callee = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(
        op, call.getCalleeAttr());
    if (!callee || callee.isExternal())
      return op->emitOpError("expected '@")
             << call.getCallee() << "' to have a body; a plan calls nothing "
             << "outside of its module";
  }
  if (op->getNumRegions())
    return op->emitOpError("expected no operation with regions beside those of "
                           "attn");
  if (llvm::any_of(op->getOperandTypes(), isTensor) ||
      llvm::any_of(op->getResultTypes(), isTensor))
    return op->emitOpError("expected no operation on tensors beside those of "
                           "attn, tensor.dim and tensor.extract");
  b.clone(*op, mapping);
  return success();
}

void PlanBuilder::makeOutputs(Operation *op, ArrayRef<Value> sizes,
                              bool storeAll, SmallVectorImpl<Value> &outputs) {
  for (OpResult result : op->getResults()) {
    auto type = cast<RankedTensorType>(result.getType());
    if (Value argument = returned.lookup(result)) {
      outputs.push_back(argument);
    } else if (result.use_empty() && !storeAll) {
      outputs.push_back(Value());
      continue;
    } else {
      // Dense memory; `sizes` are the row dimensions, channels are static.
      SmallVector<Value> dynamic;
      for (int64_t d = 0; d < type.getRank(); ++d)
        if (type.isDynamicDim(d))
          dynamic.push_back(sizes[d]);
      outputs.push_back(tile::WorkspaceOp::create(
          b, op->getLoc(),
          MemRefType::get(type.getShape(), type.getElementType()), dynamic));
    }
    mapping.map(result, outputs.back());
  }
}

PlanBuilder::Kernel PlanBuilder::startKernel(Operation *op, ValueRange all,
                                             ValueRange outputs,
                                             ValueRange extra,
                                             ScheduleAttr schedule) {
  Kernel kernel;
  llvm::SmallSetVector<Value, 8> operands(all.begin(), all.end());
  SmallVector<Type> types;
  auto pass = [&](Value value) {
    kernel.launchArguments.push_back(value);
    types.push_back(value.getType());
  };
  for (Value operand : operands) {
    kernel.operands.push_back(operand);
    pass(mapping.lookup(operand));
  }
  for (Value output : outputs)
    if (output)
      pass(output);
  for (Value value : extra)
    pass(value);
  types.push_back(b.getIndexType());

  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointAfter(lastFunc);
  std::string name;
  do // The module may have functions of such names.
    name = (plan.getName() + "_kernel" + llvm::Twine(numKernels++)).str();
  while (SymbolTable::lookupSymbolIn(plan->getParentOp(), name));
  kernel.func = tile::KernelOp::create(b, op->getLoc(), name,
                                       b.getFunctionType(types, {}), schedule);
  lastFunc = kernel.func;
  Block *body = kernel.func.addEntryBlock();
  unsigned next = kernel.operands.size();
  for (Value output : outputs)
    kernel.outputs.push_back(output ? Value(body->getArgument(next++))
                                    : Value());
  for (size_t i = 0; i < extra.size(); ++i)
    kernel.extra.push_back(body->getArgument(next++));
  kernel.block = body->getArgument(next);
  return kernel;
}

Value PlanBuilder::countParts(PartialOp op) {
  if (Value parts = op.getParts())
    return mapping.lookup(parts);
  return index(*op.getSplits(), op.getLoc());
}

Value PlanBuilder::inPlan(ReductionOpInterface op, Value value) {
  Region &score = op.getScoreBody();
  ValueRange captures = op.getCaptureOperands();
  auto scalars = score.getArguments().take_back(captures.size());
  RegionCloner cloner(b);
  for (auto [argument, capture] : llvm::zip_equal(scalars, captures))
    if (!isa<TensorType>(capture.getType()))
      cloner.map(argument, mapping.lookup(capture));
  return cloner.get(value);
}

LogicalResult PlanBuilder::convertReduction(ReductionOpInterface op) {
  Location loc = op.getLoc();
  ScheduleAttr schedule = op.getScheduleAttribute();
  if (!schedule)
    return op->emitOpError("expected a schedule; attn-choose-schedule writes "
                           "one");
  MonoidOp monoid = lookupMonoid(op, op.getMonoidRef());
  if (!monoid)
    return op->emitOpError("expected '")
           << op.getMonoidRef().getValue()
           << "' to be an attn.monoid of this module";
  // Every pipeline comes through here: tiles stand on the laws.
  if (failed(::attn::verifyLaws(monoid)))
    return failure();
  if (op.relaxesMaximum())
    if (StringRef why = whyNotRelaxed(op, monoid); !why.empty())
      return op->emitOpError("expected no relaxed_maximum, since ") << why;
  if (op.mayFixAnchor())
    if (StringRef why = whyNotFixed(op, monoid, target); !why.empty())
      return op->emitOpError("expected no fixable_anchor, since ") << why;
  // Marks tell of a NaN that dead keys bring in, where it shows. Rows beside a
  // marked one would get other bits from the second kernel, so that
  // attn-choose-schedule has made such keys dead by the mask where that counts.
  bool marks = mayKillByScore(op, monoid) && !op.isBatchInvariant();
  if (marks && mayDropNaN(op, monoid))
    leaveNaNToRepair(op);
  else
    hideDeadDots(op);
  // States have memory of one part at least.
  if (auto partial = dyn_cast<PartialOp>(op.getOperation()))
    if (Value parts = partial.getParts())
      mapping.map(parts, arith::MaxSIOp::create(b, loc, mapping.lookup(parts),
                                                index(1, loc))
                             .getResult());
  Value query = mapping.lookup(op.getQueryOperands().front());
  Source rowSource = op.getQuerySource();
  bool packed = !rowSource.hasBatch();
  auto dim = [&](Value memref, int64_t d) -> Value {
    return memref::DimOp::create(b, loc, memref, d);
  };
  Value batches, heads = dim(query, rowSource.headDim()), rows;
  SmallVector<Value> sizes;
  if (auto partial = dyn_cast<PartialOp>(op.getOperation()))
    sizes.push_back(countParts(partial));
  if (op.getRowBaseOperand() || op.getKeyBaseOperand())
    return op->emitOpError("expected positions that count from 0; "
                           "attn-fold-bases adds what they count from");
  if (packed && clusterOf(schedule, target) > 1)
    return op->emitOpError("expected cluster = 1 with packed sequences, whose "
                           "tiles blocks find one by one, but got ")
           << schedule.getCluster();
  if (!packed) {
    batches = dim(query, 0);
    sizes.push_back(batches);
  }
  rows = dim(query, rowSource.rowDim());
  sizes.push_back(heads);
  sizes.push_back(rows);
  if (isa<ScoresOp>(op.getOperation())) {
    sizes.push_back(dim(mapping.lookup(op.getKeyOperands().front()), 2));
    if (::attn::paddedKeys(schedule.getBlockK(), target) !=
        schedule.getBlockK())
      return op->emitOpError("expected block_k to be what a tile of scores has "
                             "on chip, ")
             << ::attn::paddedKeys(schedule.getBlockK(), target) << ", but got "
             << schedule.getBlockK();
  }

  SmallVector<Value> outputs;
  makeOutputs(op, sizes, isa<PartialOp>(op.getOperation()), outputs);
  if (marks)
    outputs.push_back(tile::WorkspaceOp::create(
        b, loc,
        MemRefType::get(
            SmallVector<int64_t>(sizes.size(), ShapedType::kDynamic),
            b.getF32Type()),
        sizes));
  Value blockQ = index(schedule.getBlockQ(), loc);
  auto tilesOf = [&](ScheduleAttr schedule) -> Value {
    Value blockQ = index(schedule.getBlockQ(), loc);
    if (packed) {
      // Plans of GPUs cannot read offsets: blocks find the sequence of theirs,
      // which has at most one tile too many. The last are the rows behind the
      // last sequence.
      Value sequences = dim(mapping.lookup(rowSource.map), 0);
      return arith::AddIOp::create(
          b, loc, arith::DivUIOp::create(b, loc, rows, blockQ), sequences);
    }
    // A cluster's tiles are of one head.
    int64_t cluster = clusterOf(schedule, target);
    Value tiles = arith::CeilDivUIOp::create(
        b, loc, rows, index(schedule.getBlockQ() * cluster, loc));
    if (cluster > 1)
      tiles = arith::MulIOp::create(b, loc, tiles, index(cluster, loc));
    return tiles;
  };
  if (int64_t channels = schedule.getBlockV())
    if (std::string why = whyNotSliced(op, monoid, channels, target);
        !why.empty())
      return op->emitOpError("expected values that work tiles can share, as "
                             "block_v = ")
             << channels << " of the schedule says, but got " << why;
  Value numTiles = tilesOf(schedule);
  // Without rows there are no blocks, and nothing they could read.
  if (packed)
    batches = arith::MinUIOp::create(b, loc, rows, index(1, loc));
  PackedHeads views;
  if (schedule.getPackHeads()) {
    if (std::string why = whyNotPacked(op); !why.empty())
      return op->emitOpError("expected heads that can be packed, as pack_heads "
                             "of the schedule says, but got ")
             << why;
    auto queries = llvm::map_to_vector(
        op.getQueryOperands(), [&](Value q) { return mapping.lookup(q); });
    views = packHeads(b, loc, queries,
                      mapping.lookup(op.getKeyOperands().front()), outputs,
                      isa<PartialOp>(op.getOperation()), schedule.getBlockQ());
    // One of two kernels has blocks.
    Value none = index(0, loc);
    Value tiles = arith::CeilDivUIOp::create(b, loc, views.rows, blockQ);
    tiles = arith::SelectOp::create(b, loc, views.fits, tiles, none);
    numTiles = arith::SelectOp::create(b, loc, views.fits, none, numTiles);
    Value keyHeads = dim(mapping.lookup(op.getKeyOperands().front()),
                         op.getKeySource().headDim());
    if (failed(convertRows(op, monoid, batches, keyHeads, tiles, views.outputs,
                           marks ? Marks::written : Marks::none,
                           views.queries)))
      return failure();
  }
  if (failed(convertRows(op, monoid, batches, heads, numTiles, outputs,
                         marks ? Marks::written : Marks::none)))
    return failure();
  if (!marks)
    return success();
  moveDeadScoresToMask(op);
  ScheduleAttr repair = scheduleOfRepair(op, target);
  op->setAttr("schedule", repair);
  return convertRows(op, monoid, batches, heads, tilesOf(repair), outputs,
                     Marks::read);
}

/// The lists among a kernel's extra arguments, behind the number of tiles.
static ReductionKernel::KeyLists listsOf(ArrayRef<Value> extra) {
  bool hasBits = extra.size() > 3;
  return {extra[1], extra[2], hasBits ? extra[3] : Value(),
          hasBits ? extra[4] : Value()};
}

LogicalResult PlanBuilder::convertRows(ReductionOpInterface op, MonoidOp monoid,
                                       Value batches, Value heads,
                                       Value numTiles, ValueRange outputs,
                                       Marks marks, ValueRange packedQueries) {
  Location loc = op.getLoc();
  ScheduleAttr schedule = op.getScheduleAttribute();
  SmallVector<Value> extra = {numTiles};
  if (schedule.getLoop() == LoopShape::peeled &&
      listsKeyTiles(op, monoid, target))
    extra.append(makeKeyLists(op, batches, heads, numTiles));
  bool isListed = extra.size() > 1;
  size_t firstView = extra.size();
  llvm::append_range(extra, packedQueries);
  auto fillIn = [&](ReductionKernel &builder, Kernel &kernel) {
    for (auto [i, operand] : llvm::enumerate(kernel.operands))
      builder.bind(operand, kernel.func.getArgument(i));
    if (isListed)
      builder.useLists(listsOf(ArrayRef(kernel.extra).take_front(firstView)));
    if (!packedQueries.empty())
      builder.packHeads(ArrayRef(kernel.extra).drop_front(firstView));
    ArrayRef<Value> results = kernel.outputs;
    if (marks == Marks::written)
      builder.writeMarks(results.back());
    else if (marks == Marks::read)
      builder.readMarks(results.back());
    if (marks != Marks::none)
      results = results.drop_back();
    return builder.build(results, kernel.extra[0], kernel.block);
  };
  // What tiles do not show, for the passes that build a GPU's kernels.
  // A block's sequence takes long to find, and blocks take about as long as
  // each other: it does no harm to fetch them early. With lists, or ends of
  // keys, they do not.
  bool isMasked = !op.getMaskBody().empty();
  Fetch fetch = Fetch::producer;
  bool findsSequence = !op.getQuerySource().hasBatch();
  if (findsSequence && !isMasked)
    fetch = Fetch::ahead;
  else if (isListed || findsSequence || !isMasked)
    fetch = Fetch::late;
  ScheduleAttr decided = schedule.withCluster(clusterOf(schedule, target));
  if (schedule.getFetch() == Fetch::automatic && target.hasRoles())
    decided = decided.withFetch(fetch);
  auto start = [&]() {
    return startKernel(op, op->getOperands(), outputs, extra, decided);
  };
  Kernel kernel = start();
  ReductionKernel builder(op, monoid, target, kernel.func);
  if (isListed)
    convertLists(op, monoid, batches, heads,
                 ArrayRef(extra).take_front(firstView), packedQueries);
  if (failed(fillIn(builder, kernel)))
    return failure();

  Value grid = arith::MulIOp::create(b, loc, batches, heads);
  grid = arith::MulIOp::create(b, loc, grid, numTiles);
  if (int64_t slices = countSlices(op); slices > 1)
    grid = arith::MulIOp::create(b, loc, grid, index(slices, loc));
  if (auto partial = dyn_cast<PartialOp>(op.getOperation()))
    grid = b.createOrFold<arith::MulIOp>(loc, grid, countParts(partial));
  Value factor = op.mayFixAnchor() ? factorOfScore(op) : Value();
  if (factor && packedQueries.empty()) {
    Value bound = inPlan(op, factor);
    // Of two kernels one has blocks.
    Kernel fixed = start();
    ReductionKernel second(op, monoid, target, fixed.func);
    second.fixAnchor();
    if (failed(fillIn(second, fixed)))
      return failure();
    Value limit = arith::ConstantFloatOp::create(
        b, loc, b.getF32Type(), APFloat(fixedAnchorLimit(monoid)));
    Value isSmall =
        arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OLE,
                              math::AbsFOp::create(b, loc, bound), limit);
    Value none = index(0, loc);
    tile::LaunchOp::create(b, loc, fixed.func.getName(),
                           arith::SelectOp::create(b, loc, isSmall, grid, none),
                           fixed.launchArguments);
    grid = arith::SelectOp::create(b, loc, isSmall, none, grid);
  }
  tile::LaunchOp::create(b, loc, kernel.func.getName(), grid,
                         kernel.launchArguments);
  return success();
}

/// Memory for the lists of key tiles, each as long as there are tiles.
SmallVector<Value> PlanBuilder::makeKeyLists(ReductionOpInterface op,
                                             Value batches, Value heads,
                                             Value numTiles) {
  Location loc = op.getLoc();
  int64_t blockK = op.getScheduleAttribute().getBlockK();
  Value one = index(1, loc);
  Value keys = memref::DimOp::create(
      b, loc, mapping.lookup(op.getKeyOperands().front()), 2);
  Value keyTiles = arith::CeilDivUIOp::create(b, loc, keys, index(blockK, loc));
  keyTiles = arith::MaxSIOp::create(b, loc, keyTiles, one);
  SmallVector<Value> sizes = {listsDifferByBatch(op) ? batches : one,
                              listsDifferByHead(op) ? heads : one, numTiles};
  int64_t words =
      llvm::divideCeil(::attn::paddedKeys(blockK, target), int64_t(32));
  auto make = [&](Value size, ArrayRef<int64_t> more) -> Value {
    sizes.push_back(size);
    SmallVector<int64_t> shape(sizes.size(), ShapedType::kDynamic);
    llvm::append_range(shape, more);
    auto type = MemRefType::get(shape, b.getI32Type());
    auto workspace = tile::WorkspaceOp::create(b, loc, type, sizes);
    sizes.pop_back();
    return workspace;
  };
  Value header = index(ReductionKernel::KeyLists::header, loc);
  SmallVector<Value> lists = {
      make(arith::AddIOp::create(b, loc, keyTiles, header), {}),
      make(keyTiles, words)};
  if (listsBits(op, target))
    lists.append(
        {make(keyTiles, {}),
         make(keyTiles, {op.getScheduleAttribute().getBlockQ(), words})});
  return lists;
}

/// The kernels that make the lists, and their launches.
void PlanBuilder::convertLists(ReductionOpInterface op, MonoidOp monoid,
                               Value batches, Value heads,
                               ArrayRef<Value> extra,
                               ValueRange packedQueries) {
  Location loc = op.getLoc();
  Value tiles = extra[0]; // query tiles
  if (listsDifferByBatch(op))
    tiles = arith::MulIOp::create(b, loc, tiles, batches);
  if (listsDifferByHead(op))
    tiles = arith::MulIOp::create(b, loc, tiles, heads);
  auto make = [&](Value grid, auto build, ScheduleAttr schedule) {
    Kernel kernel = startKernel(op, op->getOperands(), {}, extra, schedule);
    KeyListKernel builder(op, monoid, target, kernel.func);
    for (auto [i, operand] : llvm::enumerate(kernel.operands))
      builder.bind(operand, kernel.func.getArgument(i));
    if (!packedQueries.empty())
      builder.packHeads({});
    (builder.*build)(listsOf(kernel.extra), kernel.extra[0], kernel.block);
    tile::LaunchOp::create(b, loc, kernel.func.getName(), grid,
                           kernel.launchArguments);
  };
  ScheduleAttr schedule = op.getScheduleAttribute().withCluster(1);
  if (Value classes = listsOf(extra).classes) {
    Value keyTiles = memref::DimOp::create(b, loc, classes, 3);
    // Blocks that load while others evaluate, each with a warp for 16 keys; of
    // no more threads together than one may have, which leaves registers.
    int64_t threads =
        ::attn::paddedKeys(op.getScheduleAttribute().getBlockK(), target) /
        ::attn::MmaShape::warp().m * ::attn::TargetInfo::warpThreads;
    constexpr int64_t mostBlocks = 4;
    make(arith::MulIOp::create(b, loc, tiles, keyTiles),
         &KeyListKernel::buildClasses,
         schedule.withOccupancy(
             std::clamp<int64_t>(target.maxThreads / threads, 1, mostBlocks)));
  }
  make(tiles, &KeyListKernel::buildLists, schedule);
}

LogicalResult PlanBuilder::convertStates(Operation *op,
                                         FlatSymbolRefAttr monoidRef) {
  Location loc = op->getLoc();
  MonoidOp monoid = lookupMonoid(op, monoidRef);
  if (!monoid)
    return op->emitOpError("expected '")
           << monoidRef.getValue() << "' to be an attn.monoid of this module";
  if (failed(::attn::verifyLaws(monoid)))
    return failure();
  auto combine = dyn_cast<CombineOp>(op);
  if (!combine) {
    // Multiply here what only this op reads.
    if (auto def = op->getOperand(0).getDefiningOp<CombineOp>())
      if (finalizeOf(def) == op)
        combine = def;
  }
  SmallVector<Value> operands(op->getOperands());
  if (combine && combine != op) {
    operands.erase(operands.begin(),
                   operands.begin() + combine->getNumResults());
    llvm::append_range(operands, combine.getStates());
  }
  ValueRange states =
      combine ? combine.getStates() : cast<FinalizeOp>(op).getStates();
  bool parts = static_cast<bool>(combine);
  bool packed = StatesKernel::rowRank(states, monoid, parts) == 2;
  Value first = mapping.lookup(states.front());
  SmallVector<Value> sizes;
  for (int64_t d = 0; d < (packed ? 2 : 3); ++d)
    sizes.push_back(memref::DimOp::create(b, loc, first, d + parts));

  SmallVector<Value> outputs;
  makeOutputs(op, sizes, /*storeAll=*/false, outputs);
  Value numTiles = arith::CeilDivUIOp::create(
      b, loc, sizes.back(), index(StatesKernel::blockRows(target), loc));
  Kernel kernel = startKernel(op, operands, outputs, numTiles, {});
  StatesKernel builder(op, combine, monoid, target, kernel.func);
  for (auto [i, operand] : llvm::enumerate(kernel.operands))
    builder.bind(operand, kernel.func.getArgument(i));
  if (failed(builder.build(kernel.outputs, kernel.extra[0], kernel.block)))
    return failure();
  int64_t slices = StatesKernel::countSlices(states, monoid, target);
  Value grid = arith::MulIOp::create(b, loc, numTiles, index(slices, loc));
  for (Value size : ArrayRef(sizes).drop_back())
    grid = arith::MulIOp::create(b, loc, grid, size);
  tile::LaunchOp::create(b, loc, kernel.func.getName(), grid,
                         kernel.launchArguments);
  return success();
}

void PlanBuilder::convertAppend(AppendOp op) {
  Location loc = op.getLoc();
  Value rows = mapping.lookup(op.getRows().front());
  auto dim = [&](int64_t d) -> Value {
    return memref::DimOp::create(b, loc, rows, d);
  };
  SmallVector<Value> outputs;
  makeOutputs(op, dim(0), /*storeAll=*/false, outputs);
  Value numTiles = arith::CeilDivUIOp::create(
      b, loc, dim(2), index(AppendKernel::blockRows(op, target), loc));
  // Lengths are there of no rows too.
  numTiles = arith::MaxUIOp::create(b, loc, numTiles, index(1, loc));
  Kernel kernel = startKernel(op, op->getOperands(), outputs, numTiles, {});
  AppendKernel builder(op, target, kernel.func);
  for (auto [i, operand] : llvm::enumerate(kernel.operands))
    builder.bind(operand, kernel.func.getArgument(i));
  builder.build(kernel.outputs.front(), kernel.extra[0], kernel.block);
  Value grid = arith::MulIOp::create(
      b, loc, numTiles, index(AppendKernel::countSlices(op, target), loc));
  for (int64_t d : {0, 1})
    grid = arith::MulIOp::create(b, loc, grid, dim(d));
  tile::LaunchOp::create(b, loc, kernel.func.getName(), grid,
                         kernel.launchArguments);
}

LogicalResult PlanBuilder::convertScan(ScanOp op) {
  Location loc = op.getLoc();
  if (!target.isCpu())
    return op.emitOpError(
        "expected a CPU target, since there are no kernels of "
        "scans for GPUs yet");
  int64_t headDim = op.isPacked() ? 0 : 1;
  auto dim = [&](Value tensor, int64_t d) -> Value {
    return memref::DimOp::create(b, loc, mapping.lookup(tensor), d);
  };
  auto larger = [&](Value x, Value y) -> Value {
    return arith::MaxUIOp::create(b, loc, x, y);
  };
  Value heads = larger(dim(op.getKey(), headDim), dim(op.getValue(), headDim));
  Value sequences =
      op.isPacked()
          ? arith::SubIOp::create(b, loc, dim(op.getCu(), 0), index(1, loc))
                .getResult()
          : dim(op.getKey(), 0);
  // As makeOutputs, but each result has sizes of its own.
  SmallVector<Value> outputs;
  for (auto [i, result] : llvm::enumerate(op.getOutputs())) {
    auto type = cast<RankedTensorType>(result.getType());
    Value memory = returned.lookup(result);
    if (!memory && !result.use_empty()) {
      SmallVector<Value> sizes = {sequences, heads};
      if (i == 0) {
        sizes = {larger(dim(op.getQuery(), headDim), heads),
                 dim(op.getQuery(), headDim + 1)};
        if (!op.isPacked())
          sizes.insert(sizes.begin(), sequences);
      }
      SmallVector<Value> dynamic;
      for (int64_t d = 0; d < type.getRank(); ++d)
        if (type.isDynamicDim(d))
          dynamic.push_back(sizes[d]);
      memory = tile::WorkspaceOp::create(
          b, loc, MemRefType::get(type.getShape(), type.getElementType()),
          dynamic);
    }
    outputs.push_back(memory);
    if (memory)
      mapping.map(result, memory);
  }
  Kernel kernel = startKernel(op, op->getOperands(), outputs, {}, {});
  ScanKernel builder(op, target, kernel.func);
  for (auto [i, operand] : llvm::enumerate(kernel.operands))
    builder.bind(operand, kernel.func.getArgument(i));
  builder.build(kernel.outputs, kernel.block);
  // The rows behind the last sequence are one more.
  if (op.isPacked())
    sequences = arith::AddIOp::create(b, loc, sequences, index(1, loc));
  tile::LaunchOp::create(b, loc, kernel.func.getName(),
                         arith::MulIOp::create(b, loc, sequences, heads),
                         kernel.launchArguments);
  return success();
}

namespace {
struct TilePass : ::attn::impl::AttnTilePassBase<TilePass> {
  void runOnOperation() final {
    ModuleOp module = getOperation();
    std::optional<::attn::TargetInfo> target = ::attn::getTarget(module);
    if (!target)
      return signalPassFailure();
    SmallVector<func::FuncOp> funcs;
    for (auto func : module.getOps<func::FuncOp>())
      if (func.walk([](Operation *op) {
                return isa<AggregateOp, PartialOp, ScoresOp, CombineOp,
                           FinalizeOp, ScanOp>(op)
                           ? WalkResult::interrupt()
                           : WalkResult::advance();
              })
              .wasInterrupted())
        funcs.push_back(func);
    module.walk([](Operation *op) {
      if (isa_and_nonnull<MonoidOp, AggregateOp, PartialOp, ScoresOp,
                          FinalizeOp, ScanOp>(op->getParentOp()))
        defineIntegers(op);
    });
    for (func::FuncOp func : funcs)
      if (failed(PlanBuilder(func, *target).run()))
        return signalPassFailure();
    // Spent: the kernels hold what they said.
    for (MonoidOp monoid :
         llvm::make_early_inc_range(module.getOps<MonoidOp>()))
      if (SymbolTable::symbolKnownUseEmpty(monoid, module))
        monoid.erase();
  }
};
} // namespace
