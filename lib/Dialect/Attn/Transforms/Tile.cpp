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

#include "PlanBuilder.h"
#include "TileAppend.h"
#include "TileStates.h"
#include "attn/Analysis/Laws.h"
#include "attn/Analysis/Schedule.h"
#include "attn/Analysis/TargetAttr.h"
#include "attn/Dialect/Attn/Transforms/Passes.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringExtras.h"

#define DEBUG_TYPE "attn-tile"

namespace attn {
#define GEN_PASS_DEF_ATTNTILEPASS
#include "attn/Dialect/Attn/Transforms/Passes.h.inc"
} // namespace attn

using namespace mlir;
using namespace mlir::attn;

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
        !isa<AggregateOp, PartialOp, ScoresOp, CombineOp, FinalizeOp, ScanOp,
             ScanPartialOp, ScanCombineOp, FusedOp, UnfoldOp>(def))
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
  if (auto share = dyn_cast<ShareOp>(op)) {
    convertShare(share);
    return success();
  }
  if (auto scan = dyn_cast<ScanOp>(op))
    return convertScan(scan);
  if (auto partial = dyn_cast<ScanPartialOp>(op))
    return convertScanPartial(partial);
  if (auto combine = dyn_cast<ScanCombineOp>(op))
    return convertScanCombine(combine);
  if (auto fused = dyn_cast<FusedOp>(op))
    return convertFused(fused);
  if (auto unfold = dyn_cast<UnfoldOp>(op))
    return convertUnfold(unfold);
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

Value PlanBuilder::makeOutput(OpResult result,
                              function_ref<SmallVector<Value>()> sizes,
                              bool storeAll) {
  Value memory = returned.lookup(result);
  if (!memory && result.use_empty() && !storeAll)
    return Value();
  if (!memory) {
    auto type = cast<RankedTensorType>(result.getType());
    SmallVector<Value> all = sizes(), dynamic;
    for (int64_t d = 0; d < type.getRank(); ++d)
      if (type.isDynamicDim(d))
        dynamic.push_back(all[d]);
    memory = tile::WorkspaceOp::create(
        b, result.getLoc(),
        MemRefType::get(type.getShape(), type.getElementType()), dynamic);
  }
  mapping.map(result, memory);
  return memory;
}

void PlanBuilder::makeOutputs(Operation *op, ArrayRef<Value> sizes,
                              bool storeAll, SmallVectorImpl<Value> &outputs) {
  for (OpResult result : op->getResults())
    outputs.push_back(
        makeOutput(result, [&] { return llvm::to_vector(sizes); }, storeAll));
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
  // PTX has fewer names than MLIR.
  std::string stem = plan.getName().str(), name;
  for (char &c : stem)
    if (!llvm::isAlnum(c))
      c = '_';
  if (llvm::isDigit(stem[0]))
    stem.insert(0, "_");
  do // The module may have functions of such names.
    name = stem + "_kernel" + std::to_string(numKernels++);
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

/// Whether the finalize region of a state asks for its head or row.
static bool readsRow(Operation *op) {
  auto finalize = dyn_cast<FinalizeOp>(op);
  if (!finalize || finalize.getFinalize().empty())
    return false;
  auto arguments = finalize.getFinalize().getArguments();
  size_t positions = arguments.size() - finalize.getCaptures().size() - 3;
  return !arguments[positions + 1].use_empty() ||
         !arguments[positions + 2].use_empty();
}

/// Whether it is known that states are of few parts.
static bool hasFewParts(Value states) {
  int64_t count = cast<MemRefType>(states.getType()).getDimSize(0);
  auto memory = states.getDefiningOp<tile::WorkspaceOp>();
  if (memory && ShapedType::isDynamic(count))
    count = getConstantIntValue(memory.getSizes().front()).value_or(count);
  return !ShapedType::isDynamic(count) && count <= StatesKernel::mostFewParts;
}

bool PlanBuilder::dividesParts(CombineOp combine, Value states) {
  MonoidOp monoid = lookupMonoid(combine, combine.getMonoidAttr());
  return StatesKernel(combine, combine, monoid, target, {}).dividesParts() &&
         !hasFewParts(states);
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
    llvm::append_range(operands, combine.getShared());
    if (Value places = combine.getPlaces())
      operands.push_back(places);
  }
  ValueRange states =
      combine ? combine.getStates() : cast<FinalizeOp>(op).getStates();
  bool parts = static_cast<bool>(combine);
  int64_t rank = StatesKernel::rowRank(states, monoid, parts);
  Value first = mapping.lookup(states.front());
  SmallVector<Value> sizes;
  for (int64_t d = 0; d < rank; ++d)
    sizes.push_back(memref::DimOp::create(b, loc, first, d + parts));

  SmallVector<Value> outputs;
  makeOutputs(op, sizes, /*storeAll=*/false, outputs);
  SmallVector<Value> whole = llvm::map_to_vector(
      states, [&](Value state) { return mapping.lookup(state); });
  if (combine && rank == StatesKernel::rankOfBatches && !readsRow(op))
    packStates(combine, sizes, outputs);
  Value numTiles = arith::CeilDivUIOp::create(
      b, loc, sizes.back(), index(StatesKernel::blockRows(target), loc));
  int64_t slices = StatesKernel::countSlices(states, combine, monoid, target);
  Value grid = arith::MulIOp::create(b, loc, numTiles, index(slices, loc));
  for (Value size : ArrayRef(sizes).drop_back())
    grid = arith::MulIOp::create(b, loc, grid, size);
  // Of two kernels that are for some numbers of parts each, one has blocks.
  using Parts = StatesKernel::Parts;
  SmallVector<Parts, 2> kernels = {Parts::Any};
  if (combine && dividesParts(combine, first))
    kernels = {Parts::Few, Parts::Many};
  for (Parts numbers : kernels) {
    Kernel kernel = startKernel(op, operands, outputs, numTiles, {});
    StatesKernel builder(op, combine, monoid, target, kernel.func);
    for (auto [i, operand] : llvm::enumerate(kernel.operands))
      builder.bind(operand, kernel.func.getArgument(i));
    if (failed(builder.build(kernel.outputs, kernel.extra[0], kernel.block,
                             numbers)))
      return failure();
    Value blocks = grid;
    if (numbers != Parts::Any) {
      Value areFew =
          arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ule,
                                memref::DimOp::create(b, loc, first, 0),
                                index(StatesKernel::mostFewParts, loc));
      Value none = index(0, loc);
      bool isFew = numbers == Parts::Few;
      blocks = arith::SelectOp::create(b, loc, areFew, isFew ? grid : none,
                                       isFew ? none : grid);
    }
    tile::LaunchOp::create(b, loc, kernel.func.getName(), blocks,
                           kernel.launchArguments);
  }
  for (auto [state, memory] : llvm::zip_equal(states, whole))
    mapping.map(state, memory);
  return success();
}

/// Makes the heads of states and results rows of fewer heads where they lie so
/// that this can be, and pays: one row of each fills little of a tile.
void PlanBuilder::packStates(CombineOp combine, MutableArrayRef<Value> sizes,
                             MutableArrayRef<Value> outputs) {
  Location loc = combine.getLoc();
  ValueRange states = combine.getStates();
  ShareOp share;
  if (Value places = combine.getPlaces())
    share = places.getDefiningOp<ShareOp>();
  if (!share && target.isCpu())
    return;
  SmallVector<Value> whole = llvm::map_to_vector(
      states, [&](Value state) { return mapping.lookup(state); });
  constexpr int64_t any = std::numeric_limits<int32_t>::max();
  HeadCounts counts = {sizes[1], sizes[2], index(1, loc)};
  auto pack = [&](ValueRange memory, int64_t leading) {
    return packHeads(b, loc, counts, {}, memory, leading, any);
  };
  Value pays;
  if (share) {
    // The rows of groups are those of all query heads of a key head.
    counts.keyHeads =
        memref::DimOp::create(b, loc, mapping.lookup(share.getKey()), 1);
  } else {
    // As many blocks as there are at once take no longer than fewer do.
    int64_t rows = StatesKernel::blockRows(target);
    MonoidOp monoid = lookupMonoid(combine, combine.getMonoidAttr());
    int64_t slices = StatesKernel::countSlices(states, combine, monoid, target);
    Value blocks =
        arith::CeilDivUIOp::create(b, loc, sizes[2], index(rows, loc));
    for (Value size : {sizes[0], sizes[1], index(slices, loc)})
      blocks = arith::MulIOp::create(b, loc, blocks, size);
    pays =
        arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ugt, blocks,
                              index(::attn::blocksAtOnce(rows, target), loc));
    // Many parts are more work than few blocks of full tiles wait for.
    if (dividesParts(combine, whole.front()))
      pays = arith::OrIOp::create(
          b, loc, pays,
          arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ugt,
                                memref::DimOp::create(b, loc, whole.front(), 0),
                                index(StatesKernel::mostFewParts, loc)));
  }
  Value fits =
      arith::AndIOp::create(b, loc, pack(outputs, 0).fits, pack(whole, 1).fits);
  if (pays)
    fits = arith::AndIOp::create(b, loc, fits, pays);
  // Else each is a head of its own, which the same views say.
  counts.keyHeads =
      arith::SelectOp::create(b, loc, fits, counts.keyHeads, counts.heads);
  PackedHeads results = pack(outputs, 0), packed = pack(whole, 1);
  for (auto [state, view] : llvm::zip_equal(states, packed.outputs))
    mapping.map(state, view);
  llvm::copy(results.outputs, outputs.begin());
  sizes[1] = counts.keyHeads;
  sizes[2] = results.rows;
}

void PlanBuilder::convertAppend(AppendOp op) {
  Location loc = op.getLoc();
  Value rows = mapping.lookup(op.getRows().front());
  auto dim = [&](int64_t d) -> Value {
    return memref::DimOp::create(b, loc, rows, d);
  };
  auto start = [&](ValueRange outputs, Value numTiles) {
    return startKernel(op, op->getOperands(), outputs, numTiles, {});
  };
  auto bind = [&](AppendKernel &builder, Kernel &kernel) {
    for (auto [i, operand] : llvm::enumerate(kernel.operands))
      builder.bind(operand, kernel.func.getArgument(i));
  };
  Value blockRows = index(AppendKernel::blockRows(op, target), loc);
  Value sequences = memref::DimOp::create(
      b, loc, mapping.lookup(op.getLengths()), index(0, loc));
  SmallVector<Value> outputs;
  makeOutputs(op, sequences, /*storeAll=*/false, outputs);
  SmallVector<Value> blocks = {
      index(AppendKernel::countSlices(op, target), loc)};
  Value numTiles;
  if (op.getOffsets()) {
    if (outputs.front()) {
      Value numTiles = arith::CeilDivUIOp::create(
          b, loc, sequences, index(AppendKernel::lengthsOfBlock, loc));
      Kernel lengths = start(outputs, numTiles);
      AppendKernel builder(op, target, lengths.func);
      bind(builder, lengths);
      builder.buildLengths(lengths.outputs.front(), lengths.extra[0],
                           lengths.block);
      tile::LaunchOp::create(b, loc, lengths.func.getName(), numTiles,
                             lengths.launchArguments);
      outputs.front() = Value();
    }
    // As many as tiles of packed rows are at most; none without rows.
    numTiles = arith::AddIOp::create(
        b, loc, arith::DivUIOp::create(b, loc, dim(1), blockRows), sequences);
    numTiles = arith::AddIOp::create(b, loc, numTiles, index(1, loc));
    blocks.append(
        {dim(0), arith::MinUIOp::create(b, loc, dim(1), index(1, loc))});
  } else {
    numTiles = arith::CeilDivUIOp::create(b, loc, dim(2), blockRows);
    // The first of n rows may be the last one of its tile: 1 + ceil((n - 1) /
    // 16) tiles have them all.
    if (AppendKernel::hasAlignedRows(op, target)) {
      int64_t most = AppendKernel::blockRows(op, target) - 2;
      numTiles = arith::AddIOp::create(
          b, loc, index(1, loc),
          arith::DivUIOp::create(
              b, loc, arith::AddIOp::create(b, loc, dim(2), index(most, loc)),
              blockRows));
    }
    // Lengths are there of no rows too.
    numTiles = arith::MaxUIOp::create(b, loc, numTiles, index(1, loc));
    blocks.append({dim(0), dim(1)});
  }
  Kernel kernel = start(outputs, numTiles);
  AppendKernel builder(op, target, kernel.func);
  bind(builder, kernel);
  builder.build(kernel.outputs.front(), kernel.extra[0], kernel.block);
  Value grid = numTiles;
  for (Value count : blocks)
    grid = arith::MulIOp::create(b, loc, grid, count);
  tile::LaunchOp::create(b, loc, kernel.func.getName(), grid,
                         kernel.launchArguments);
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
                           FinalizeOp, ScanOp, ScanPartialOp, ScanCombineOp,
                           UnfoldOp>(op)
                           ? WalkResult::interrupt()
                           : WalkResult::advance();
              })
              .wasInterrupted())
        funcs.push_back(func);
    module.walk([](Operation *op) {
      if (isa_and_nonnull<MonoidOp, AggregateOp, PartialOp, ScoresOp,
                          FinalizeOp, ScanOp, ScanPartialOp, UnfoldOp>(
              op->getParentOp()))
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
