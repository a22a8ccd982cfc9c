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
#include "InPlace.h"
#include "WorkTiles.h"
#include "attn/Analysis/OnChip.h"
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
  LogicalResult noteRows(Operation *op);
  LogicalResult analyseRows();
  LogicalResult analyseMerge();
  LogicalResult analyseLoad(tile::LoadOp load);
  LogicalResult analyseStep(tile::LoadOp load, bool early, bool tf32);
  LogicalResult chooseStages();
  void assignRings();
  void chooseQueryForm();
  ::attn::onchip::StepRegisters stepRegisters();
  Value createMergeScratch();
  void rewriteLaunch(tile::LaunchOp launch, bool takesCount);

  tile::KernelOp kernel;
  const ::attn::TargetInfo &target;
  OpBuilder b;
  CopyPlan plan;
};

} // namespace

/// The most rows that a warp takes.
static constexpr int64_t maxWarpRows = 32;

//===----------------------------------------------------------------------===//
// Analysis
//===----------------------------------------------------------------------===//

/// The tile in shared memory that a load fills with what memory holds, its
/// rows in the widest panels that divide them, at most `columns` columns wide
/// unless that is 0; rounded where all that read it may round.
static SmemType stagedType(tile::LoadOp load, bool tf32, int64_t columns = 0) {
  auto type = cast<tile::TileType>(load.getType());
  Type element = cast<MemRefType>(memoryOf(load).getType()).getElementType();
  int64_t rowBytes = (columns ? columns : type.getCols()) *
                     element.getIntOrFloatBitWidth() / 8;
  int64_t swizzle = std::gcd<int64_t>(rowBytes, 128);
  if (tf32 && element.isF32())
    element = FloatTF32Type::get(load.getContext());
  return SmemType::get(load.getContext(), type.getRows(), type.getCols(),
                       element,
                       swizzle < 32 || type.getRows() % 8 ? 0 : swizzle,
                       /*boxes=*/1, /*pitch=*/type.getRows(),
                       /*transposed=*/false);
}

/// Whether a vector is stored that has no rows, but columns.
static bool isAlongColumns(Operation *op) {
  auto store = dyn_cast<tile::StoreOp>(op);
  return store && store.getVector() && store.getTransposed();
}

/// Rows of the block, where `op` has some: of what it stores, and of a block of
/// tile.rows.
LogicalResult Pipeliner::noteRows(Operation *op) {
  auto note = [&](int64_t &known, int64_t rows,
                  StringRef expected) -> LogicalResult {
    bool fits = !known || known == rows;
    known = rows;
    if (fits)
      return success();
    return op->emitOpError("expected ") << expected;
  };
  auto noteStored = [&](int64_t rows) {
    return note(plan.blockQ, rows,
                "to store tiles of the same number of rows in one kernel");
  };
  if (auto rows = dyn_cast<tile::RowsOp>(op))
    return note(plan.rows, rows.getBlock(),
                "blocks of the same number of rows in one kernel");
  // In a block of rows what is stored is one warp's own.
  bool isOfWarp = isa<tile::RowsOp>(op->getParentOp());
  if (auto store = dyn_cast<tile::StoreOp>(op);
      store && !isOfWarp && !isAlongColumns(op))
    return noteStored(store.getValue().getType().getRows());
  if (auto sum = dyn_cast<tile::AccumulateOp>(op); sum && !isOfWarp)
    return noteStored(sum.getValue().getType().getRows());
  if (auto store = dyn_cast<tile::StoreBitsOp>(op))
    return noteStored(store.getValue().getType().getRows());
  if (auto bits = dyn_cast<tile::BitsOp>(op)) {
    plan.exchangeCols = PipelineProgram::wordColumns(bits);
    auto type = cast<tile::TileType>(bits.getValues().front().getType());
    return note(plan.blockQ, type.getRows(),
                "tiles of the number of rows that the kernel stores");
  }
  if (auto reduce = dyn_cast<tile::ReduceOp>(op); reduce && reduce.getRows())
    plan.exchangeCols =
        cast<tile::TileType>(reduce.getResult(0).getType()).getCols();
  return success();
}

/// Whether a kernel has any tile. One whose tiles are all known to be dead
/// writes numbers alone.
static bool hasTiles(tile::KernelOp kernel) {
  auto isTile = llvm::IsaPred<tile::TileType>;
  return kernel
      .walk([&](Operation *op) {
        return llvm::any_of(op->getOperandTypes(), isTile) ||
                       llvm::any_of(op->getResultTypes(), isTile)
                   ? WalkResult::interrupt()
                   : WalkResult::advance();
      })
      .wasInterrupted();
}

/// Whether lanes are to access neighbours at once: of transposed tiles, and of
/// those that a kernel changes in place, as states.
static bool hasNeighbours(tile::KernelOp kernel) {
  auto isRead = [](Operation *user) {
    auto load = dyn_cast<tile::LoadOp>(user);
    return load && !load.getVector() && load.getType().getRows() > 1;
  };
  return kernel
      .walk([&](tile::StoreOp store) {
        bool isChanged =
            !store.getVector() &&
            llvm::any_of(store.getDestination().getUsers(), isRead);
        return store.getTransposed() || isChanged ? WalkResult::interrupt()
                                                  : WalkResult::advance();
      })
      .wasInterrupted();
}

/// The rows of the block, of its blocks of tile.rows and of a warp.
LogicalResult Pipeliner::analyseRows() {
  WalkResult result = kernel.walk([&](Operation *op) {
    return failed(noteRows(op)) ? WalkResult::interrupt()
                                : WalkResult::advance();
  });
  if (result.wasInterrupted())
    return failure();
  if (!plan.rows)
    plan.rows = plan.blockQ;
  // Where all stores are in blocks of rows, these are cut from its tiles.
  if (!plan.blockQ)
    kernel.walk([&](tile::RowsOp rows) {
      if (!rows.getInputs().empty())
        plan.blockQ =
            cast<tile::TileType>(rows.getInputs().front().getType()).getRows();
    });
  int64_t step = ::attn::MmaShape::warp().m;
  bool hasColumns = !plan.blockQ && kernel
                                        .walk([](Operation *op) {
                                          return isAlongColumns(op)
                                                     ? WalkResult::interrupt()
                                                     : WalkResult::advance();
                                        })
                                        .wasInterrupted();
  if (!hasTiles(kernel) || hasColumns)
    plan.blockQ = plan.rows = step; // One warp's.
  if (!plan.blockQ || plan.blockQ % step || plan.rows % step)
    return kernel.emitOpError("expected tiles of a multiple of ")
           << step << " rows, but got " << plan.blockQ << " in blocks of "
           << plan.rows;
  plan.warpRows = step;
  if (hasNeighbours(kernel) && plan.blockQ % maxWarpRows == 0)
    plan.warpRows = maxWarpRows;
  if (plan.rows <= maxWarpRows && plan.rows != plan.blockQ)
    plan.warpRows = plan.rows;
  if (failed(analyseMerge()))
    return failure();
  int64_t maxWarps = target.maxThreads / ::attn::TargetInfo::warpThreads;
  if (plan.warps() > maxWarps)
    return kernel.emitOpError("expected at most ")
           << maxWarps * plan.warpRows << " rows, but got " << plan.blockQ;
  return success();
}

/// The loop that warps divide, where they do.
LogicalResult Pipeliner::analyseMerge() {
  kernel.walk([&](tile::MergeOp merge) {
    if (merge.getWarps())
      plan.merge = merge;
  });
  if (!plan.merge)
    return success();
  plan.dividing = *plan.merge.getWarps();
  for (Value value : plan.merge.getValues()) {
    auto loop = value.getDefiningOp<scf::ForOp>();
    if (!loop || (plan.divided && plan.divided != loop))
      return plan.merge.emitOpError("expected values that one loop gives");
    plan.divided = loop;
  }
  if (!plan.divided || plan.blockQ != plan.warpRows)
    return plan.merge.emitOpError("expected a loop over tiles of ")
           << plan.warpRows << " rows, but got " << plan.blockQ;
  return success();
}

LogicalResult Pipeliner::analyseStep(tile::LoadOp load, bool early, bool tf32) {
  tile::RowsOp step;
  // Warps read the columns of their rows of what is transposed.
  int64_t columns = 0;
  for (OpOperand &use : load->getUses())
    if (auto dot = dyn_cast<tile::DotOp>(use.getOwner());
        dot && use.getOperandNumber() == 0 &&
        dot.getType().getRows() == plan.rows)
      columns = plan.warpRows;
  for (Operation *user : takenOf(load).getUsers()) {
    auto rows = dyn_cast<tile::RowsOp>(user);
    if (!rows)
      rows = user->getParentOfType<tile::RowsOp>();
    if (!rows || rows->getBlock() != load->getBlock() || (step && step != rows))
      return load.emitOpError("expected to be used by one tile.rows of its own "
                              "block");
    step = rows;
  }
  SmemType tile = stagedType(load, tf32, columns);
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

/// Whether rows move on with the keys, and lie in memory as products take them.
static bool movesWithStep(tile::LoadOp load) {
  auto memory = dyn_cast<MemRefType>(load.getSource().getType());
  Type element = load.getType().getElementType();
  return load.getMoves() && memory && memory.getElementType() == element &&
         element.getIntOrFloatBitWidth() == 16;
}

LogicalResult Pipeliner::analyseLoad(tile::LoadOp load) {
  bool key = false, value = false, query = !load->use_empty(), tf32 = true;
  bool shared = false;
  for (OpOperand &use : takenOf(load).getUses()) {
    auto rows = dyn_cast<tile::RowsOp>(use.getOwner());
    bool input = rows && llvm::is_contained(rows.getInputs(), load.getResult());
    if (!input) {
      query = false;
    } else {
      // Products alone read it.
      Value argument = rows.getBody().getArgument(use.getOperandNumber() + 1);
      for (OpOperand &inner : argument.getUses()) {
        auto dot = dyn_cast<tile::DotOp>(inner.getOwner());
        query &=
            dot && (inner.getOperandNumber() == 1 ||
                    (inner.getOperandNumber() == 0 && !dot.getTransposeLhs()));
        shared |= inner.getOperandNumber() == 1;
        tf32 &= dot && dot.getTf32();
      }
    }
    auto dot = dyn_cast<tile::DotOp>(use.getOwner());
    if (dot && use.getOperandNumber() == 1)
      (dot.getTransposeRhs() ? key : value) = true;
    // Threads hold rows of what they load, and columns are asked for.
    if (dot && use.getOperandNumber() == 0)
      value |= dot.getTransposeLhs();
    if (!input)
      tf32 &= dot && dot.getTf32();
    if (auto fold = dyn_cast<tile::FoldOp>(use.getOwner()))
      value |= llvm::is_contained(fold.getValues(), load.getResult());
  }
  if (load.getTransposed() && (key || value))
    return load.emitOpError("expected rows of memory to be rows of a tile that "
                            "a product reads, which transposes it where asked "
                            "to (transpose_lhs, transpose_rhs)");
  if (key || value)
    return analyseStep(load, key, tf32);
  if (query && !shared && movesWithStep(load))
    return analyseStep(load, /*early=*/true, tf32);
  if (!query || load->getParentOp() != kernel) {
    // Each warp reads its own rows from memory.
    if (isa<MemRefType>(load.getSource().getType()))
      return success();
    return load.emitOpError("expected a tensor, or a tile of pages or of a "
                            "rolling cache that products read");
  }
  auto type = cast<tile::TileType>(load.getType());
  Type memory = cast<MemRefType>(memoryOf(load).getType()).getElementType();
  bool narrow = type.getElementType().getIntOrFloatBitWidth() == 16;
  if (narrow && memory != type.getElementType())
    return load.emitOpError("expected a tile of its source's elements, ")
           << memory << ", but got " << type;
  SmemType staged = stagedType(load, tf32);
  bool registers = !shared && (narrow || staged.getElementType().isTF32());
  plan.queries.push_back({load, staged, registers, Value()});
  return success();
}

LogicalResult Pipeliner::chooseStages() {
  namespace onchip = ::attn::onchip;
  if (!plan.stages)
    plan.stages = onchip::copyStages(plan.warps());
  onchip::SharedDemand demand;
  for (const QueryRing &query : plan.queries)
    demand.queries += query.tile.getBytes();
  for (const StepTile &step : plan.steps)
    demand.step += step.tile.getBytes();
  if (plan.warps() > 1)
    demand.exchange = plan.warps() * plan.exchangeCols * 4;
  // What convert-tile-to-tile-gpu takes for fragments that are transposed, and
  // for element paths.
  kernel.walk([&](tile::DotOp dot) {
    Operation *lhs = dot.getLhs().getDefiningOp();
    if (!dot.getTransposeLhs() || (lhs && plan.isStep(lhs)))
      return;
    tile::TileType type = dot.getLhs().getType();
    demand.exchange += plan.warps() * type.getNumElements() *
                       type.getElementType().getIntOrFloatBitWidth() / 8;
  });
  kernel.walk([&](tile::FoldOp fold) {
    if (fold.getThreshold())
      return WalkResult::advance();
    auto scores = cast<tile::TileType>(fold.getScores()[0].getType());
    int64_t tiles = fold.getScores().size() + bool(fold.getLive());
    demand.exchange += plan.blockQ * scores.getCols() * 4 * tiles;
    return WalkResult::interrupt();
  });
  plan.stages = onchip::shareAmongWarps(demand, plan.stages, target).stages;
  int64_t bytes = demand.bytes(plan.stages) + ::attn::TargetInfo::barrierBytes;
  if (bytes > target.sharedMemoryBytes)
    return kernel.emitOpError("needs ")
           << bytes << " bytes of shared memory, but " << target.name << " has "
           << target.sharedMemoryBytes << "; expected smaller tiles";
  return success();
}

/// Registers of the sums, scores and weights of a step, and of the queries.
::attn::onchip::StepRegisters Pipeliner::stepRegisters() {
  using ::attn::onchip::StepRegisters;
  auto registers = [&](Type type, int64_t bits) {
    return ::attn::onchip::fragmentRegisters(
        plan.warpRows, cast<tile::TileType>(type).getCols(), bits,
        ::attn::TargetInfo::warpThreads);
  };
  StepRegisters most;
  kernel.walk([&](tile::RowsOp rows) {
    StepRegisters held;
    for (Value state : rows.getOuts())
      if (cast<tile::TileType>(state.getType()).getCols() > 1)
        held.sums += registers(state.getType(), 32);
    rows.walk([&](tile::DotOp dot) {
      if (dot.getTransposeRhs())
        held.scores += registers(dot.getType(), 32);
      else if (!dot.getTf32() && !dot.getTransposeLhs())
        // Those of tf32 are rounded in the place of the weights.
        held.weights += registers(dot.getLhs().getType(), 16);
    });
    if (held.total(target) > most.total(target))
      most = held;
  });
  for (const QueryRing &query : plan.queries)
    most.queries += ::attn::onchip::fragmentRegisters(
        plan.warpRows, query.tile.getRowBytes() / 4, 32,
        ::attn::TargetInfo::warpThreads);
  for (const StepTile &step : plan.steps) {
    if (!step.tile.getElementType().isTF32())
      continue;
    most.addresses = ::attn::onchip::elementAddresses;
    // In one slot, keys have to be read before the next are copied: the
    // assembler has elements of sixteen on their way.
    if (step.early && plan.stages == 1)
      most.samples = ::attn::onchip::fragmentRegisters(
          /*rows=*/16, step.tile.getStoredCols(), 32,
          ::attn::TargetInfo::warpThreads);
  }
  return most;
}

void Pipeliner::chooseQueryForm() {
  // The threads of a block share the registers.
  int64_t threads = plan.warps() * ::attn::TargetInfo::warpThreads;
  if (stepRegisters().total(target) >
      ::attn::onchip::threadRegisters(threads, target))
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
  result = kernel.walk([&](tile::DotOp dot) {
    Operation *lhs = dot.getLhs().getDefiningOp();
    if (!dot.getTransposeLhs() || (lhs && plan.isStep(lhs)))
      return WalkResult::advance();
    int64_t rows = dot.getType().getRows();
    if (plan.rows != plan.warpRows)
      dot.emitOpError("expected a transposed left operand that is loaded for "
                      "the step, or blocks of at most ")
          << maxWarpRows << " rows in tile.rows, which one warp computes";
    else if (rows == plan.blockQ || rows == plan.rows)
      dot.emitOpError("expected a product of a number of rows that neither the "
                      "tiles of the kernel nor their blocks have, but got ")
          << rows;
    else
      return WalkResult::advance();
    return WalkResult::interrupt();
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

/// Shared memory for the states of all warps.
Value Pipeliner::createMergeScratch() {
  int64_t words = 0;
  for (Type type : plan.merge.getResultTypes())
    words += cast<tile::TileType>(type).getNumElements();
  return SmemAllocOp::create(
      b, kernel.getLoc(),
      SmemType::get(b.getContext(), plan.warps(), words, b.getF32Type(),
                    /*swizzle=*/0, /*boxes=*/1, /*pitch=*/plan.warps(),
                    /*transposed=*/false),
      /*offset=*/IntegerAttr());
}

LogicalResult Pipeliner::run() {
  Location loc = kernel.getLoc();
  MLIRContext *context = kernel.getContext();
  auto module = kernel->getParentOfType<ModuleOp>();

  WorkTiles work(kernel);
  SmallVector<Type> types(kernel.getArgumentTypes().drop_back());
  unsigned count = types.size();
  if (work.takesCount())
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
                                /*cluster=*/IntegerAttr(),
                                /*release_all=*/false,
                                /*place=*/PlaceAttr());
  };
  for (QueryRing &query : plan.queries)
    query.ring = createRing(query.tile, 1);
  for (StepRing &ring : plan.rings)
    ring.ring = createRing(ring.tiles, plan.stages);
  plan.barrier = BarrierCreateOp::create(b, loc, warps, /*each=*/1,
                                         /*first=*/IntegerAttr());
  if (plan.exchangeCols && warps > 1)
    plan.exchange = SmemAllocOp::create(
        b, loc,
        SmemType::get(context, warps, plan.exchangeCols, b.getI32Type(),
                      /*swizzle=*/0, /*boxes=*/1, /*pitch=*/warps,
                      /*transposed=*/false),
        /*offset=*/IntegerAttr());

  if (plan.merge)
    plan.mergeScratch = createMergeScratch();

  FailureOr<SchedulerOp> scheduler = work.createScheduler(
      b, mapping, ScheduleKind::Grid, /*tickets=*/Value(),
      work.takesCount() ? entry->getArgument(count) : Value());
  if (failed(scheduler))
    return failure();
  auto role =
      RoleOp::create(b, loc, "compute", Scope::Warp, warps,
                     /*registers=*/IntegerAttr(), /*barrier=*/IntegerAttr());
  tile_gpu::ReturnOp::create(b, loc);
  Block *body = b.createBlock(&role.getBody(), {}, {b.getI32Type()}, {loc});
  auto loop = work.createLoop(b, *scheduler, ValueRange(), /*lead=*/true);
  YieldOp::create(b, loc, ValueRange());
  b.setInsertionPointToStart(&loop.getBody().front());
  work.map(b, loop, mapping);
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
    rewriteLaunch(launch, work.takesCount());
  kernel.erase();
  return success();
}

void Pipeliner::rewriteLaunch(tile::LaunchOp launch, bool takesCount) {
  b.setInsertionPoint(launch);
  Location loc = launch.getLoc();
  SmallVector<Value> arguments(launch.getArguments());
  if (takesCount)
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
