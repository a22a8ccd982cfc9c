//===- PipelineCopies.cpp - Tile kernels for warps and async copies -------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The portable structure: one role of warps, each with its own rows, that
// copies key and value tiles into rings and computes. Every tile kernel has
// this form.
//
//===----------------------------------------------------------------------===//

#include "PipelineCopies.h"
#include "attn/Analysis/Schedule.h"
#include "attn/Analysis/TargetAttr.h"
#include "attn/Dialect/TileGPU/Transforms/Passes.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

#define DEBUG_TYPE "tile-gpu-pipeline-copies"

namespace attn {
#define GEN_PASS_DEF_TILEGPUPIPELINECOPIESPASS
#include "attn/Dialect/TileGPU/Transforms/Passes.h.inc"
} // namespace attn

using namespace mlir;
using namespace mlir::tile_gpu;

namespace {

struct Pipeliner {
  Pipeliner(tile::KernelOp kernel, const ::attn::TargetInfo &target,
            int64_t stages)
      : kernel(kernel), target(target), b(kernel.getContext()) {
    plan.stages = stages;
  }

  LogicalResult analyse();
  LogicalResult run();

private:
  LogicalResult analyseRows();
  LogicalResult analyseLoad(tile::LoadOp load);
  LogicalResult analyseStep(tile::LoadOp load, bool early, bool tf32);
  LogicalResult chooseStages();
  void assignRings();
  void chooseQueryForm();
  int64_t registersBesideQueries();
  void rewriteLaunch(tile::LaunchOp launch);

  tile::KernelOp kernel;
  const ::attn::TargetInfo &target;
  OpBuilder b;
  CopyPlan plan;
};

} // namespace

/// Shared memory kept free for barriers and alignment.
static constexpr int64_t reservedBytes = 2048;
/// The most rows that a warp takes.
static constexpr int64_t maxWarpRows = 32;
/// Registers for addresses of values that are read element by element.
static constexpr int64_t elementAddresses = 24;

//===----------------------------------------------------------------------===//
// Analysis
//===----------------------------------------------------------------------===//

/// The tile in shared memory that a load fills with what memory holds, its
/// rows in the widest panels that divide them; rounded where all that read it
/// may round.
static SmemType stagedType(tile::LoadOp load, bool tf32) {
  auto type = cast<tile::TileType>(load.getType());
  Type element = cast<MemRefType>(load.getSource().getType()).getElementType();
  int64_t rowBytes = type.getCols() * element.getIntOrFloatBitWidth() / 8;
  int64_t swizzle = std::gcd<int64_t>(rowBytes, 128);
  if (tf32 && element.isF32())
    element = FloatTF32Type::get(load.getContext());
  return SmemType::get(load.getContext(), type.getRows(), type.getCols(),
                       element,
                       swizzle < 32 || type.getRows() % 8 ? 0 : swizzle,
                       /*boxes=*/1, /*pitch=*/type.getRows(),
                       /*transposed=*/false);
}

/// The rows of the block: of what it stores, and of a block of tile.rows.
LogicalResult Pipeliner::analyseRows() {
  auto note = [&](int64_t &known, int64_t rows) {
    bool fits = !known || known == rows;
    known = rows;
    return fits;
  };
  WalkResult result = kernel.walk([&](Operation *op) {
    if (auto rows = dyn_cast<tile::RowsOp>(op)) {
      if (!note(plan.rows, rows.getBlock())) {
        op->emitOpError("expected blocks of the same number of rows in one "
                        "kernel");
        return WalkResult::interrupt();
      }
    } else if (auto store = dyn_cast<tile::StoreOp>(op)) {
      if (!note(plan.blockQ, store.getValue().getType().getRows())) {
        op->emitOpError("expected to store tiles of the same number of rows in "
                        "one kernel");
        return WalkResult::interrupt();
      }
    } else if (auto store = dyn_cast<tile::StoreBitsOp>(op)) {
      if (!note(plan.blockQ, store.getValue().getType().getRows())) {
        op->emitOpError("expected to store tiles of the same number of rows in "
                        "one kernel");
        return WalkResult::interrupt();
      }
    } else if (auto bits = dyn_cast<tile::BitsOp>(op)) {
      auto type = cast<tile::TileType>(bits.getValues().front().getType());
      if (!note(plan.blockQ, type.getRows())) {
        op->emitOpError("expected tiles of the number of rows that the kernel "
                        "stores");
        return WalkResult::interrupt();
      }
      plan.exchangeCols = PipelineProgram::wordColumns(bits);
    } else if (auto reduce = dyn_cast<tile::ReduceOp>(op)) {
      if (reduce.getRows())
        plan.exchangeCols =
            cast<tile::TileType>(reduce.getResult(0).getType()).getCols();
    }
    return WalkResult::advance();
  });
  if (result.wasInterrupted())
    return failure();
  if (!plan.rows)
    plan.rows = plan.blockQ;
  int64_t step = ::attn::MmaShape::warp().m;
  if (!plan.blockQ || plan.blockQ % step || plan.rows % step)
    return kernel.emitOpError("expected tiles of a multiple of ")
           << step << " rows, but got " << plan.blockQ << " in blocks of "
           << plan.rows;
  plan.warpRows = step;
  if (plan.rows <= maxWarpRows && plan.rows != plan.blockQ)
    plan.warpRows = plan.rows;
  int64_t maxWarps = target.maxThreads / ::attn::TargetInfo::warpThreads;
  if (plan.warps() > maxWarps)
    return kernel.emitOpError("expected at most ")
           << maxWarps * plan.warpRows << " rows, but got " << plan.blockQ;
  return success();
}

LogicalResult Pipeliner::analyseStep(tile::LoadOp load, bool early, bool tf32) {
  tile::RowsOp step;
  for (Operation *user : load->getUsers()) {
    auto rows = user->getParentOfType<tile::RowsOp>();
    if (!rows || rows->getBlock() != load->getBlock() || (step && step != rows))
      return load.emitOpError("expected to be used by one tile.rows of its own "
                              "block");
    step = rows;
  }
  SmemType tile = stagedType(load, tf32);
  // Steps take one place each for tiles of one kind, in their order. A block
  // has several steps where a loop of one turn has become a part of it.
  unsigned place = 0;
  for (Operation &other : *load->getBlock()) {
    if (&other == load)
      break;
    if (isa<tile::RowsOp>(other))
      place = 0;
    auto it = plan.placeOf.find(&other);
    place += it != plan.placeOf.end() && plan.steps[it->second].tile == tile &&
             plan.steps[it->second].early == early;
  }
  for (auto [i, known] : llvm::enumerate(plan.steps)) {
    if (known.tile != tile || known.early != early || place-- > 0)
      continue;
    plan.placeOf[load] = i;
    return success();
  }
  plan.placeOf[load] = plan.steps.size();
  plan.steps.push_back({tile, early});
  return success();
}

/// Rings of the steps' tiles.
void Pipeliner::assignRings() {
  SmallVector<bool> kinds = {true, false};
  for (bool early : kinds) {
    if (plan.rings.empty() || plan.stages == 1)
      plan.rings.emplace_back();
    StepRing &ring = plan.rings.back();
    for (StepTile &step : plan.steps) {
      if (step.early != early)
        continue;
      step.ring = plan.rings.size() - 1;
      step.index = ring.tiles.size();
      ring.tiles.push_back(step.tile);
    }
    if (ring.tiles.empty())
      plan.rings.pop_back();
  }
}

LogicalResult Pipeliner::analyseLoad(tile::LoadOp load) {
  if (!isa<MemRefType>(load.getSource().getType()))
    return load.emitOpError("expected a tensor, of which tile-expand-sources "
                            "makes sources whose tiles lie in one piece");
  bool key = false, value = false, query = !load->use_empty(), tf32 = true;
  for (OpOperand &use : load->getUses()) {
    auto rows = dyn_cast<tile::RowsOp>(use.getOwner());
    bool input = rows && llvm::is_contained(rows.getInputs(), load.getResult());
    if (!input) {
      query = false;
    } else {
      // Products alone read it.
      Value argument = rows.getBody().getArgument(use.getOperandNumber() + 1);
      for (OpOperand &inner : argument.getUses()) {
        auto dot = dyn_cast<tile::DotOp>(inner.getOwner());
        query &= dot && inner.getOperandNumber() == 0;
        tf32 &= dot && dot.getTf32();
      }
    }
    auto dot = dyn_cast<tile::DotOp>(use.getOwner());
    if (dot && use.getOperandNumber() == 1)
      (dot.getTransposeRhs() ? key : value) = true;
    if (!input)
      tf32 &= dot && dot.getTf32();
    if (auto fold = dyn_cast<tile::FoldOp>(use.getOwner()))
      value |= llvm::is_contained(fold.getValues(), load.getResult());
  }
  if (key || value)
    return analyseStep(load, key, tf32);
  if (!query || load->getParentOp() != kernel)
    return success(); // Each warp reads its own rows from memory.
  auto type = cast<tile::TileType>(load.getType());
  Type memory = cast<MemRefType>(load.getSource().getType()).getElementType();
  bool narrow = type.getElementType().getIntOrFloatBitWidth() == 16;
  if (narrow && memory != type.getElementType())
    return load.emitOpError("expected a tile of its source's elements, ")
           << memory << ", but got " << type;
  SmemType staged = stagedType(load, tf32);
  bool registers = narrow || staged.getElementType().isTF32();
  plan.queries.push_back({load, staged, registers, Value()});
  return success();
}

LogicalResult Pipeliner::chooseStages() {
  if (!plan.stages)
    plan.stages = ::attn::copyStages(plan.warps());
  auto bytes = [&](int64_t stages) {
    int64_t total = reservedBytes;
    for (const QueryRing &query : plan.queries)
      total += query.tile.getBytes();
    for (const StepTile &step : plan.steps)
      total += stages * step.tile.getBytes();
    if (plan.warps() > 1)
      total += plan.warps() * plan.exchangeCols * 4;
    // What convert-tile-to-tile-gpu takes for element paths.
    kernel.walk([&](tile::FoldOp fold) {
      auto scores = cast<tile::TileType>(fold.getScores()[0].getType());
      int64_t tiles = fold.getScores().size() + bool(fold.getLive());
      total =
          std::max(total, total + plan.blockQ * scores.getCols() * 4 * tiles);
      return WalkResult::interrupt();
    });
    return total;
  };
  while (plan.stages > 1 && bytes(plan.stages) > target.sharedMemoryBytes)
    --plan.stages;
  if (bytes(plan.stages) > target.sharedMemoryBytes)
    return kernel.emitOpError("needs ")
           << bytes(plan.stages) << " bytes of shared memory, but "
           << target.name << " has " << target.sharedMemoryBytes
           << "; expected smaller tiles";
  return success();
}

/// Registers of the sums, scores and weights of a step.
int64_t Pipeliner::registersBesideQueries() {
  auto registers = [&](Type type, int64_t bits) {
    return plan.warpRows * cast<tile::TileType>(type).getCols() * bits / 32 /
           ::attn::TargetInfo::warpThreads;
  };
  int64_t most = 0;
  kernel.walk([&](tile::RowsOp rows) {
    int64_t total = 0;
    for (Value state : rows.getOuts())
      if (cast<tile::TileType>(state.getType()).getCols() > 1)
        total += registers(state.getType(), 32);
    rows.walk([&](tile::DotOp dot) {
      if (dot.getTransposeRhs())
        total += registers(dot.getType(), 32);
      else if (!dot.getTf32()) // Rounded in the place of the weights.
        total += registers(dot.getLhs().getType(), 16);
    });
    most = std::max(most, total);
  });
  return most;
}

void Pipeliner::chooseQueryForm() {
  int64_t total = target.registerReserve + registersBesideQueries();
  for (const QueryRing &query : plan.queries)
    total += query.numRegisters(plan.warpRows);
  if (llvm::any_of(plan.steps, [](const StepTile &step) {
        return step.tile.getElementType().isTF32();
      }))
    total += elementAddresses;
  // The threads of a block share the registers.
  int64_t threads = plan.warps() * ::attn::TargetInfo::warpThreads;
  int64_t limit =
      std::min(target.maxThreadRegisters, target.numRegisters / threads);
  if (total > limit)
    for (QueryRing &query : plan.queries)
      query.registers = false;
}

LogicalResult Pipeliner::analyse() {
  if (failed(analyseRows()))
    return failure();
  WalkResult result = kernel.walk([&](tile::LoadOp load) {
    return failed(analyseLoad(load)) ? WalkResult::interrupt()
                                     : WalkResult::advance();
  });
  if (result.wasInterrupted())
    return failure();
  // One counter numbers the uses of all rings.
  result = kernel.walk([&](tile::RowsOp rows) {
    unsigned found = 0;
    for (Operation *op = rows->getPrevNode(); op && !isa<tile::RowsOp>(op);
         op = op->getPrevNode())
      found += plan.isStep(op);
    if (found == plan.steps.size())
      return WalkResult::advance();
    rows.emitOpError("expected to load ")
        << plan.steps.size() << " tile(s), as other steps do, but got "
        << found;
    return WalkResult::interrupt();
  });
  if (result.wasInterrupted() || failed(chooseStages()))
    return failure();
  assignRings();
  chooseQueryForm();
  return success();
}

//===----------------------------------------------------------------------===//
// The kernel and its launches
//===----------------------------------------------------------------------===//

LogicalResult Pipeliner::run() {
  Location loc = kernel.getLoc();
  MLIRContext *context = kernel.getContext();
  auto module = kernel->getParentOfType<ModuleOp>();

  // The number of items takes the place of the block.
  SmallVector<Type> types(kernel.getArgumentTypes().drop_back());
  unsigned count = types.size();
  types.push_back(b.getI32Type());
  b.setInsertionPoint(kernel);
  auto func = tile_gpu::KernelOp::create(b, loc, kernel.getName(),
                                         b.getFunctionType(types, {}),
                                         kernel.getScheduleAttr());
  Block *entry = func.addEntryBlock();
  b.setInsertionPointToStart(entry);
  IRMapping mapping;
  for (unsigned i = 0; i < count; ++i)
    mapping.map(kernel.getArgument(i), entry->getArgument(i));

  int64_t warps = plan.warps();
  auto createRing = [&](ArrayRef<SmemType> tiles, int64_t stages) -> Value {
    return RingCreateOp::create(b, loc, RingType::get(context, stages, tiles),
                                Fill::CpGroup, b.getI64IntegerAttr(warps),
                                /*consumers=*/IntegerAttr(),
                                /*members=*/IntegerAttr(),
                                /*cluster=*/IntegerAttr());
  };
  for (QueryRing &query : plan.queries)
    query.ring = createRing(query.tile, 1);
  for (StepRing &ring : plan.rings)
    ring.ring = createRing(ring.tiles, plan.stages);
  plan.barrier = BarrierCreateOp::create(b, loc, warps, /*each=*/1);
  if (plan.exchangeCols && warps > 1)
    plan.exchange = SmemAllocOp::create(
        b, loc,
        SmemType::get(context, warps, plan.exchangeCols, b.getI32Type(),
                      /*swizzle=*/0, /*boxes=*/1, /*pitch=*/warps,
                      /*transposed=*/false));

  Value zero = arith::ConstantIntOp::create(b, loc, 0, 32);
  Value one = arith::ConstantIntOp::create(b, loc, 1, 32);
  auto scheduler = SchedulerOp::create(
      b, loc, ScheduleType::get(context), ScheduleKind::Grid,
      ScheduleOrder::InOrder, /*tickets=*/Value(), entry->getArgument(count),
      one, one, /*splits=*/Value(), /*section=*/IntegerAttr(),
      /*cluster=*/IntegerAttr());
  {
    OpBuilder::InsertionGuard guard(b);
    SmallVector<Type> four(4, b.getI32Type());
    b.createBlock(&scheduler.getKeys(), {}, four,
                  SmallVector<Location>(4, loc));
    YieldOp::create(b, loc, ValueRange{zero, zero});
  }
  auto role = RoleOp::create(b, loc, "compute", Scope::Warp, warps,
                             /*registers=*/IntegerAttr());
  tile_gpu::ReturnOp::create(b, loc);
  Block *body = b.createBlock(&role.getBody(), {}, {b.getI32Type()}, {loc});
  auto loop = ForeachOp::create(b, loc, TypeRange(), scheduler, ValueRange(),
                                /*lead=*/true);
  YieldOp::create(b, loc, ValueRange());
  SmallVector<Type> six(6, b.getI32Type());
  Block *item =
      b.createBlock(&loop.getBody(), {}, six, SmallVector<Location>(6, loc));
  mapping.map(kernel.getArgument(count),
              arith::IndexCastOp::create(b, loc, b.getIndexType(),
                                         item->getArgument(0)));
  PipelineProgram program(plan, b, std::move(mapping), body->getArgument(0));
  program.steps = arith::ConstantIntOp::create(b, loc, 0, 32);
  if (failed(program.cloneBlock(kernel.getBody().front())))
    return failure();
  YieldOp::create(b, loc, ValueRange());

  SmallVector<tile::LaunchOp> launches;
  module.walk([&](tile::LaunchOp launch) {
    if (launch.getKernel() == kernel.getName())
      launches.push_back(launch);
  });
  for (tile::LaunchOp launch : launches)
    rewriteLaunch(launch);
  kernel.erase();
  return success();
}

void Pipeliner::rewriteLaunch(tile::LaunchOp launch) {
  b.setInsertionPoint(launch);
  Location loc = launch.getLoc();
  SmallVector<Value> arguments(launch.getArguments());
  arguments.push_back(
      arith::IndexCastOp::create(b, loc, b.getI32Type(), launch.getGrid()));
  tile_gpu::LaunchOp::create(b, loc, launch.getKernelAttr(), launch.getGrid(),
                             arguments);
  launch.erase();
}

namespace {
struct PipelineCopiesPass
    : ::attn::impl::TileGpuPipelineCopiesPassBase<PipelineCopiesPass> {
  using TileGpuPipelineCopiesPassBase::TileGpuPipelineCopiesPassBase;

  void runOnOperation() final {
    ModuleOp module = getOperation();
    SmallVector<tile::KernelOp> kernels;
    for (auto kernel : module.getOps<tile::KernelOp>())
      if (!kernel.isExternal())
        kernels.push_back(kernel);
    if (kernels.empty())
      return;
    std::optional<::attn::TargetInfo> target = ::attn::getGpuTarget(module);
    if (!target)
      return signalPassFailure();
    if (stages < 0) {
      module.emitError("expected 0 stages or more, but got ")
          << stages.getValue();
      return signalPassFailure();
    }
    for (tile::KernelOp kernel : kernels) {
      int64_t wanted = stages;
      if (!wanted && kernel.getSchedule())
        wanted = kernel.getSchedule()->getStages();
      Pipeliner pipeliner(kernel, *target, wanted);
      if (failed(pipeliner.analyse()) || failed(pipeliner.run()))
        return signalPassFailure();
    }
  }
};
} // namespace
