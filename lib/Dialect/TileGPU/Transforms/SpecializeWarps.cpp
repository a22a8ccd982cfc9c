//===- SpecializeWarps.cpp - A producer warp and compute warpgroups -------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A tile kernel is one program that loads tiles and multiplies them. Here it
// becomes two that run side by side: the producer keeps the control flow, the
// scalars and the loads; the consumers keep everything but those loads. Both
// walk the kernel's body in the same order, so that the uses of every ring are
// numbered alike on both sides, and both do so for one work item after
// another.
//
//===----------------------------------------------------------------------===//

#include "SpecializeWarps.h"
#include "InPlace.h"
#include "WorkTiles.h"
#include "attn/Analysis/OnChip.h"
#include "attn/Analysis/TargetAttr.h"
#include "attn/Dialect/TileGPU/Transforms/Passes.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

#define DEBUG_TYPE "tile-gpu-specialize-warps"

namespace attn {
#define GEN_PASS_DEF_TILEGPUSPECIALIZEWARPSPASS
#include "attn/Dialect/TileGPU/Transforms/Passes.h.inc"
} // namespace attn

using namespace mlir;
using namespace mlir::tile_gpu;

namespace {

struct Specializer {
  Specializer(tile::KernelOp kernel, const ::attn::TargetInfo &target,
              int64_t stages)
      : kernel(kernel), target(target), stages(stages), b(kernel.getContext()),
        work(kernel) {}

  /// Whether warpgroups and tensor copies can run this kernel.
  bool analyse();
  /// Where they cannot: fails if the schedule says that they share channels,
  /// which warps could not hold.
  LogicalResult verifyShares();
  LogicalResult run();

private:
  bool analyseLoad(tile::LoadOp load);
  bool analyseExchange(tile::DotOp dot);
  void analyseColumns();
  bool analyseShares();
  bool canShare(Operation *op);
  bool turnsKeys();
  void rewriteLaunch(tile::LaunchOp launch);
  ::attn::onchip::SharedDemand sharedDemand();
  void chooseStages();

  tile::KernelOp kernel;
  const ::attn::TargetInfo &target;
  int64_t stages, queryStages = 1, mostStages = 0;
  OpBuilder b;
  WorkTiles work;
  RolesPlan plan;
  /// What warpgroups that share channels cannot do.
  Operation *notShared = nullptr;
};

} // namespace

//===----------------------------------------------------------------------===//
// Analysis
//===----------------------------------------------------------------------===//

/// `rows` rows of a loaded tile in shared memory, in panels of 128 bytes.
static SmemType stagedType(tile::LoadOp load, int64_t rows) {
  auto type = cast<tile::TileType>(load.getType());
  return SmemType::get(load.getContext(), rows, type.getCols(),
                       type.getElementType(), /*swizzle=*/128, /*boxes=*/1,
                       /*pitch=*/rows, /*transposed=*/false);
}

/// Rows after which the pattern of a swizzle repeats.
static constexpr int64_t swizzledRows = 8;

/// The block of the kernel itself that holds `op`, or the op there.
static Operation *topOp(tile::KernelOp kernel, Operation *op) {
  while (op->getParentOp() != kernel)
    op = op->getParentOp();
  return op;
}

/// The map through which rows alone read a loaded tile, element by element.
static tile::MapOp mapInPlace(tile::LoadOp load) {
  if (!load->hasOneUse())
    return {};
  auto map = dyn_cast<tile::MapOp>(*load->user_begin());
  if (!map || map->getBlock() != load->getBlock() ||
      map.getInputs().size() != 1 || map->getNumResults() != 1 ||
      map.getResult(0).getType() != load.getType() || map->use_empty())
    return {};
  Block &body = map.getBody().front();
  bool positions =
      !body.getArgument(0).use_empty() || !body.getArgument(1).use_empty();
  bool toRows = llvm::all_of(map->getUses(), [&](OpOperand &use) {
    auto rows = dyn_cast<tile::RowsOp>(use.getOwner());
    return rows && llvm::is_contained(rows.getInputs(), use.get());
  });
  return toRows && !positions ? map : tile::MapOp();
}

/// The steps' rows whose weights `dot` multiplies transposed, to be added up in
/// memory in any order; or null.
static tile::RowsOp weightsOf(tile::DotOp dot) {
  auto rows = dot.getLhs().getDefiningOp<tile::RowsOp>();
  bool isAdded = llvm::all_of(dot->getUsers(), [&](Operation *user) {
    auto sum = dyn_cast<tile::AccumulateOp>(user);
    return sum && sum.getAnyOrder() && !sum.getVector() &&
           sum->getBlock() == dot->getBlock();
  });
  bool isPlain = dot.getTransposeLhs() && !dot.getTransposeRhs() &&
                 !dot.getAcc() && !dot.getScale() && !dot.getRamp();
  return rows && rows->getBlock() == dot->getBlock() && isPlain && isAdded
             ? rows
             : tile::RowsOp();
}

/// Whether two warpgroups can put the weights of `dot` together and make half
/// of the product each.
bool Specializer::analyseExchange(tile::DotOp dot) {
  const ::attn::MmaShape &unit = target.productShape();
  auto load = dot.getRhs().getDefiningOp<tile::LoadOp>();
  tile::TileType weights = dot.getLhs().getType();
  tile::TileType product = dot.getType();
  constexpr int64_t panel = 64, members = 2;
  bool byRows = product.getRows() == members * unit.m;
  bool byCols =
      product.getRows() == unit.m && product.getCols() % (members * panel) == 0;
  if (!weightsOf(dot) || !load || load->getParentOp() != kernel ||
      plan.rowMembers() != members || weights.getRows() != plan.blockQ ||
      weights.getElementType().getIntOrFloatBitWidth() != 16 ||
      product.getCols() % panel || !(byRows || byCols))
    return false;
  auto tile = SmemType::get(dot.getContext(), weights.getCols(),
                            weights.getRows(), weights.getElementType(),
                            /*swizzle=*/128, /*boxes=*/1,
                            /*pitch=*/weights.getCols(), /*transposed=*/false);
  bool isFirst = !plan.exchange.tile;
  if (!isFirst && plan.exchange.tile != tile)
    return false;
  plan.exchange.tile = tile;
  plan.exchange.byRows = byRows;
  for (Operation *user : dot->getUsers())
    if (cast<tile::AccumulateOp>(user).getTurn())
      plan.turns.tile = RolesTurns::tileOf(dot.getContext());
  return true;
}

/// Whether `values` are columns of the rows that `keys` loads, from the first
/// on.
static bool isWithin(tile::LoadOp values, tile::LoadOp keys) {
  auto type = cast<tile::TileType>(values.getType());
  auto whole = cast<tile::TileType>(keys.getType());
  return values.getSource() == keys.getSource() &&
         values.getIndices() == keys.getIndices() &&
         values.getLower() == keys.getLower() &&
         values.getUpper() == keys.getUpper() &&
         values.getLive() == keys.getLive() &&
         type.getRows() == whole.getRows() &&
         type.getCols() <= whole.getCols() &&
         type.getElementType() == whole.getElementType();
}

bool Specializer::analyseLoad(tile::LoadOp load) {
  RolesRing ring;
  ring.load = load;
  ring.memory = load.getSource();
  ring.source = ring.memory.getDefiningOp<tile::SourceOp>();
  if (ring.source) {
    std::optional<int64_t> boxes = ring.source.getBoxes();
    if (!boxes || load.getType().getRows() % *boxes || *boxes % swizzledRows)
      return false;
    ring.memory = ring.source.getMemory();
  }
  bool query = false, keyOrValue = false, value = false;
  tile::MapOp inPlace = mapInPlace(load);
  for (OpOperand &use : takenOf(load).getUses()) {
    if (inPlace) {
      query = true;
    } else if (auto rows = dyn_cast<tile::RowsOp>(use.getOwner())) {
      if (!llvm::is_contained(rows.getInputs(), load.getResult()))
        return false;
      query = true;
    } else if (auto dot = dyn_cast<tile::DotOp>(use.getOwner())) {
      if (dot.getRhs() != use.get())
        return false;
      if (!isa<tile::RowsOp>(dot->getParentOp())) {
        query = ring.isWhole = true;
        continue;
      }
      keyOrValue = true;
      value |= !dot.getTransposeRhs();
    } else {
      // The compute role's own.
      return !ring.source && !plan.isShared(load.getType());
    }
  }
  if (!query && !keyOrValue)
    return !ring.source && !plan.isShared(load.getType());
  auto type = cast<tile::TileType>(load.getType());
  auto source = cast<MemRefType>(ring.memory.getType());
  // Where words say which rows of values are dead, each warpgroup clears them.
  bool isKnown =
      value && load.getLive() && load.getLive().getDefiningOp<tile::TruthsOp>();
  if ((query && keyOrValue) || (load.getLive() && !isKnown) ||
      load.getVector() || load.getTransposed() ||
      source.getElementType() != type.getElementType() ||
      type.getElementType().getIntOrFloatBitWidth() != 16 ||
      type.getCols() % 64 || !isa<BlockArgument>(ring.memory) ||
      (query && ring.source))
    return false;
  ring.tile =
      stagedType(load, query && !ring.isWhole ? plan.rows : type.getRows());
  ring.isValue = value;
  ring.inPlace = inPlace;
  if (query) {
    if (load->getParentOp() != kernel)
      return false;
    plan.queries.push_back(ring);
    return true;
  }
  // The n-th such load of its step. A block has several steps where a loop of
  // one turn has become a part of it, as known sizes let it.
  unsigned place = 0;
  for (Operation &other : *load->getBlock()) {
    if (&other == load)
      break;
    if (isa<tile::RowsOp>(other))
      place = 0;
    place += plan.place.contains(&other);
  }
  // Values that are columns of the keys are in the slots of these.
  if (value)
    for (Operation &other : *load->getBlock()) {
      if (&other == load)
        break;
      auto keys = dyn_cast<tile::LoadOp>(other);
      auto it = plan.place.find(&other);
      if (!keys || it == plan.place.end() || !isWithin(load, keys) ||
          plan.steps[it->second].within >= 0)
        continue;
      ring.within = it->second;
      plan.steps[ring.within].isValue = true;
    }
  plan.place[load] = place;
  if (place == plan.steps.size()) {
    plan.steps.push_back(ring);
    return true;
  }
  RolesRing &known = plan.steps[place];
  return known.tile == ring.tile && known.isValue >= ring.isValue &&
         known.memory == ring.memory && known.source == ring.source &&
         known.within == ring.within;
}

/// Whether maps of one step alone read what `load` has of its columns.
static bool isOfColumns(tile::LoadOp load) {
  auto type = cast<tile::TileType>(load.getType());
  return load.getVector() && load.getTransposed() && !load.getLive() &&
         isa<BlockArgument>(load.getSource()) &&
         type.getElementType().isF32() && type.getCols() % 8 == 0 &&
         !load->use_empty() &&
         llvm::all_of(load->getUsers(), [&](Operation *user) {
           auto rows = user->getParentOfType<tile::RowsOp>();
           return isa<tile::MapOp>(user) && rows &&
                  rows->getBlock() == load->getBlock();
         });
}

/// Finds what all steps read of their columns. Where they differ in it, as
/// where only some have any, each thread reads what it needs from memory.
void Specializer::analyseColumns() {
  RolesColumns &columns = plan.columns;
  bool isFirst = true, areAlike = true;
  kernel.walk([&](tile::RowsOp rows) {
    SmallVector<tile::LoadOp> loads;
    for (Operation *op = rows->getPrevNode(); op && !isa<tile::RowsOp>(op);
         op = op->getPrevNode())
      if (auto load = dyn_cast<tile::LoadOp>(op); load && isOfColumns(load))
        loads.push_back(load);
    SmallVector<Value> memories;
    SmallVector<SmemType> tiles;
    for (auto [number, load] : llvm::enumerate(llvm::reverse(loads))) {
      columns.number[load] = number;
      memories.push_back(load.getSource());
      tiles.push_back(SmemType::get(
          load.getContext(), /*rows=*/1, load.getType().getCols(),
          load.getType().getElementType(), /*swizzle=*/0, /*boxes=*/1,
          /*pitch=*/1, /*transposed=*/false));
    }
    areAlike &=
        isFirst || (memories == columns.memories && tiles == columns.tiles);
    isFirst = false;
    columns.memories = memories;
    columns.tiles = tiles;
  });
  if (!areAlike)
    columns = RolesColumns();
}

/// Whether warpgroups that share the channels of the sums can each do their
/// part of `op`.
bool Specializer::canShare(Operation *op) {
  auto isShared = [&](Type type) { return plan.isShared(type); };
  bool hasShared = llvm::any_of(op->getOperandTypes(), isShared) ||
                   llvm::any_of(op->getResultTypes(), isShared);
  // What is added in memory would be added twice.
  if (isa<tile::AccumulateOp, tile::StoreBitsOp>(op))
    return false;
  if (auto dot = dyn_cast<tile::DotOp>(op))
    return !isShared(dot.getType()) ||
           dot.getRhs().getDefiningOp<tile::LoadOp>();
  // In a step, each takes its channels for the first ones.
  if (auto map = dyn_cast<tile::MapOp>(op))
    return !hasShared || !isa<tile::RowsOp>(op->getParentOp()) ||
           map.getBody().front().getArgument(1).use_empty();
  // Loads are looked at apart.
  return !hasShared ||
         isa<tile::FillOp, tile::StoreOp, tile::LoadOp, tile::RowsOp,
             tile::YieldOp, scf::ForOp, scf::IfOp, scf::YieldOp>(op);
}

/// Whether keys of the steps turn where they are.
bool Specializer::turnsKeys() {
  return kernel.walk([](tile::TurnOp) { return WalkResult::interrupt(); })
      .wasInterrupted();
}

/// Warpgroups that share the channels of a work tile, as the schedule says: a
/// product has no more than nMax of them.
static int64_t countSharers(tile::KernelOp kernel,
                            const ::attn::TargetInfo &target) {
  mlir::attn::ScheduleAttr schedule = kernel.getScheduleAttr();
  int64_t channels = target.hasRoles() && schedule ? schedule.getBlockV() : 0;
  return std::max<int64_t>(channels / target.productShape().nMax, 1);
}

/// Sums of more channels than a product has are shared by warpgroups, of which
/// each has some, where the schedule says so: whether all that is done with
/// them can be done so.
bool Specializer::analyseShares() {
  const ::attn::MmaShape &unit = target.productShape();
  int64_t widest = 0;
  kernel.walk([&](tile::DotOp dot) {
    widest = std::max(widest, cast<tile::TileType>(dot.getType()).getCols());
  });
  plan.sharers = countSharers(kernel, target);
  if (plan.sharers == 1)
    return widest <= unit.nMax;
  plan.channels = unit.nMax;
  // They have the same rows, and as many steps.
  if (widest != plan.sharers * plan.channels || plan.rowMembers() > 1)
    return false;
  return !kernel
              .walk([&](Operation *op) {
                if (canShare(op))
                  return WalkResult::advance();
                notShared = op;
                return WalkResult::interrupt();
              })
              .wasInterrupted();
}

LogicalResult Specializer::verifyShares() {
  int64_t sharers = countSharers(kernel, target);
  if (sharers == 1)
    return success();
  auto error =
      kernel.emitOpError("expected a kernel for warpgroups, ")
      << sharers
      << " of which share block_v = " << kernel.getScheduleAttr().getBlockV()
      << " channels as the schedule says, but got one for warps; "
      << "block_v = " << target.productShape().nMax << " asks for no sharing";
  if (notShared)
    error.attachNote(notShared->getLoc())
        << "none of them can do its part of this";
  return error;
}

bool Specializer::analyse() {
  const ::attn::MmaShape &unit = target.productShape();
  bool able = target.hasRoles();
  mlir::attn::ScheduleAttr schedule = kernel.getScheduleAttr();
  using mlir::attn::Fetch;
  Fetch fetch = schedule ? schedule.getFetch() : Fetch::automatic;
  plan.drawsLate = fetch == Fetch::late;
  plan.drawsApart = plan.drawsLate || fetch == Fetch::ahead;
  // Warpgroups that take turns have as many steps.
  bool differ =
      kernel.walk([](tile::RowRangeOp) { return WalkResult::interrupt(); })
          .wasInterrupted();
  plan.halves =
      differ && (!schedule || schedule.getTurns() == mlir::attn::Turns::none);
  SmallVector<tile::RowsOp> steps;
  kernel.walk([&](Operation *op) {
    if (auto rows = dyn_cast<tile::RowsOp>(op)) {
      steps.push_back(rows);
      plan.lastUse = topOp(kernel, rows);
    } else if (isa<tile::ScanOp, tile::FoldOp>(op)) {
      able = false;
    } else if (auto any = dyn_cast<tile::AnyOp>(op)) {
      able &= any.getByRows();
    } else if (auto dot = dyn_cast<tile::DotOp>(op)) {
      auto rows = cast<tile::TileType>(dot.getRhs().getType());
      auto result = cast<tile::TileType>(dot.getType());
      able &= (isa<tile::RowsOp>(dot->getParentOp()) ? !dot.getTransposeLhs()
                                                     : bool(weightsOf(dot))) &&
              rows.getElementType().getIntOrFloatBitWidth() == 16 &&
              (result.getCols() <= unit.nMax || !dot.getTransposeRhs());
    }
  });
  if (!able || steps.empty())
    return false;
  for (tile::RowsOp rows : steps) {
    if (rows.getOuts().empty())
      return false;
    auto type = cast<tile::TileType>(rows.getOuts()[0].getType());
    plan.rows = rows.getBlock();
    plan.blockQ = type.getRows();
    if (plan.rows != unit.m || plan.blockQ % plan.rows ||
        (rows != steps[0] &&
         type.getRows() !=
             cast<tile::TileType>(steps[0].getOuts()[0].getType()).getRows()))
      return false;
  }
  if (!analyseShares())
    return false;
  bool canExchange = true;
  kernel.walk([&](tile::DotOp dot) {
    if (!isa<tile::RowsOp>(dot->getParentOp()))
      canExchange &= plan.sharers == 1 && analyseExchange(dot);
  });
  if (!canExchange)
    return false;
  plan.halves &= plan.sharers == 1 && !plan.exchange.tile;
  // Several members would have to turn a part of the keys each, and wait for
  // the others, but may leave out different steps.
  if (turnsKeys()) {
    if (plan.members() > 1)
      return false;
    plan.halves = false;
  }
  analyseColumns();
  bool loads = true;
  kernel.walk([&](tile::LoadOp load) {
    loads &= plan.columns.has(load) || analyseLoad(load);
  });
  if (!loads || plan.queries.empty() || plan.steps.empty())
    return false;
  // Steps that only some items have.
  auto hasSteps = [](Region &region) {
    return region.walk([](tile::RowsOp) { return WalkResult::interrupt(); })
        .wasInterrupted();
  };
  if (auto branch = dyn_cast<scf::IfOp>(plan.lastUse);
      branch && steps.front()->getParentOfType<scf::IfOp>() == branch &&
      !hasSteps(branch.getElseRegion())) {
    plan.branch = branch;
    for (Operation &op : *branch.thenBlock())
      if (llvm::any_of(op.getRegions(), hasSteps) || isa<tile::RowsOp>(op))
        plan.lastUse = &op;
  }
  // Counting the steps of a third loop (of a window's far side) takes more
  // scalars than the warpgroups have registers.
  int numLoops = 0, numSingle = 0;
  plan.stepsAreCounted = llvm::all_of(steps, [&](tile::RowsOp rows) {
    Operation *parent = rows->getParentOp();
    numSingle += !isa<scf::ForOp>(parent);
    if (auto loop = dyn_cast<scf::ForOp>(parent))
      if (onlyStep(loop)) {
        ++numLoops;
        parent = loop->getParentOp();
      }
    return parent == kernel || parent == plan.branch;
  });
  // What a member leaves out is made up for behind the last loop. The count
  // starts where the first loop does.
  // Members that put weights together have all steps.
  plan.stepsAreCounted &= !plan.exchange.tile && numLoops <= 2 &&
                          numSingle <= 1 && isa<scf::ForOp>(plan.lastUse);
  Operation *once = plan.branch ? plan.branch : kernel.getOperation();
  tile::LoadOp first = plan.steps.front().load;
  if (first->getParentOp() == once &&
      llvm::all_of(plan.queries, [&](RolesRing &ring) {
        return ring.load->isBeforeInBlock(topOp(kernel, first));
      }))
    plan.firstKeys = first;
  // Every step loads all of its tiles.
  for (tile::RowsOp rows : steps) {
    unsigned found = 0;
    for (Operation *op = rows->getPrevNode(); op && !isa<tile::RowsOp>(op);
         op = op->getPrevNode())
      found += plan.place.contains(op);
    if (found != plan.steps.size())
      return false;
  }
  // A warp starts a copy in 77 cycles, two warps in 52 (H200,
  // docs/performance/gpu.md): of many, for keys and values, one is too slow.
  constexpr int64_t manyCopies = 8;
  plan.valuesApart = !llvm::all_of(plan.steps, [](RolesRing &ring) {
    return ring.isValue;
  }) && llvm::any_of(plan.steps, [&](RolesRing &ring) {
    SmemType box = ring.getBox();
    int64_t panels = box.getRowBytes() / box.getSwizzle();
    return ring.isValue && ring.numBoxes() * panels >= manyCopies;
  });
  // One slot of queries and two of keys and values have to fit.
  mostStages = ::attn::onchip::stagesThatFit(sharedDemand(), target);
  return mostStages >= ::attn::onchip::leastStages;
}

//===----------------------------------------------------------------------===//
// The kernel and its launches
//===----------------------------------------------------------------------===//

::attn::onchip::SharedDemand Specializer::sharedDemand() {
  ::attn::onchip::SharedDemand demand;
  for (RolesRing &ring : plan.queries)
    demand.queries +=
        (ring.isWhole ? 1 : plan.rowMembers()) * ring.tile.getBytes();
  if (plan.exchange.tile)
    demand.exchange += RolesExchange::slots * plan.exchange.tile.getBytes();
  if (plan.turns.tile)
    demand.exchange += 2 * RolesTurns::slots * plan.turns.tile.getBytes();
  for (RolesRing &ring : plan.steps)
    demand.step += ring.within < 0 ? ring.tile.getBytes() : 0;
  for (SmemType tile : plan.columns.tiles)
    demand.columns += llvm::alignTo(
        tile.getBytes(), ::attn::onchip::tileAlignment(tile.getSwizzle()));
  kernel.walk([&](Operation *op) {
    if (auto store = dyn_cast<tile::StoreOp>(op)) {
      // tile-gpu-stage-epilogue wants this much for results of 16 bits.
      auto type = cast<tile::TileType>(store.getValue().getType());
      if (type.getRows() == plan.blockQ &&
          type.getElementType().getIntOrFloatBitWidth() == 16)
        demand.results += type.getRows() * type.getCols() * 2;
    } else if (auto dot = dyn_cast<tile::DotOp>(op); dot && dot.getRamp()) {
      demand.ramp = ::attn::onchip::rampBytes(
          rampType(b.getContext(), dot.getType().getCols()).getBytes());
    }
  });
  return demand;
}

void Specializer::chooseStages() {
  ::attn::onchip::SharedShares shares =
      ::attn::onchip::shareAmongRoles(sharedDemand(), stages, target);
  stages = shares.stages;
  queryStages = shares.queryStages;
  if (shares.ramp)
    return;
  // Where the numbers that a ramp is multiplied by find no room beside two
  // slots of keys and values, it is added to the product instead.
  SmallVector<tile::DotOp> ramps;
  kernel.walk([&](tile::DotOp dot) {
    if (dot.getRamp())
      ramps.push_back(dot);
  });
  for (tile::DotOp dot : ramps)
    tile::expandRamp(dot);
}

LogicalResult Specializer::run() {
  Location loc = kernel.getLoc();
  if (stages == 1)
    return kernel.emitOpError("expected 2 stages or more for warpgroups, whose "
                              "products overlap with copies, but got 1");
  if (stages > mostStages)
    return kernel.emitOpError("expected at most ")
           << mostStages << " stages of keys and values beside the queries in "
           << target.sharedMemoryBytes << " bytes of shared memory, but got "
           << stages;
  MLIRContext *context = kernel.getContext();
  auto module = kernel->getParentOfType<ModuleOp>();
  SmallVector<tile::LaunchOp> launches;
  module.walk([&](tile::LaunchOp launch) {
    if (launch.getKernel() == kernel.getName())
      launches.push_back(launch);
  });

  // The new function: maps and tickets replace the block.
  SmallVector<Type> types(kernel.getArgumentTypes().drop_back());
  unsigned numOld = types.size();
  SmallVector<RolesRing *> rings;
  for (RolesRing &ring : plan.queries)
    rings.push_back(&ring);
  for (RolesRing &ring : plan.steps)
    if (ring.within < 0)
      rings.push_back(&ring);
  for (RolesRing *ring : rings)
    types.push_back(TensorMapType::get(context, ring->getBox()));
  auto ticketType = MemRefType::get({1}, b.getI32Type());
  types.push_back(ticketType);
  if (work.takesCount())
    types.push_back(b.getI32Type());

  for (tile::LaunchOp launch : launches)
    rewriteLaunch(launch);

  b.setInsertionPoint(kernel);
  auto func =
      KernelOp::create(b, loc, kernel.getName(), b.getFunctionType(types, {}),
                       kernel.getScheduleAttr());
  Block *entry = func.addEntryBlock();
  b.setInsertionPointToStart(entry);
  IRMapping mapping;
  for (unsigned i = 0; i < numOld; ++i)
    mapping.map(kernel.getArgument(i), entry->getArgument(i));
  unsigned next = numOld;
  chooseStages();
  constexpr int64_t memberWarps = 4;
  auto createRing = [&](RolesRing &ring, int64_t slots, int64_t consumers,
                        IntegerAttr members) {
    ring.map = entry->getArgument(next++);
    ring.ring = RingCreateOp::create(
        b, loc, RingType::get(context, slots, {ring.tile}), Fill::Tma,
        /*producers=*/IntegerAttr(), b.getI64IntegerAttr(consumers), members,
        /*cluster=*/IntegerAttr(), /*place=*/PlaceAttr());
  };
  for (RolesRing &ring : plan.queries) {
    int64_t parts = ring.isWhole ? 1 : plan.rowMembers();
    createRing(ring, queryStages * parts, plan.members() / parts * memberWarps,
               parts > 1 ? b.getI64IntegerAttr(parts) : IntegerAttr());
  }
  for (RolesRing &ring : plan.steps)
    if (ring.within < 0)
      createRing(ring, stages, plan.members() * memberWarps,
                 /*members=*/IntegerAttr());
  if (!plan.columns.tiles.empty())
    plan.columns.ring = RingCreateOp::create(
        b, loc, RingType::get(context, stages, plan.columns.tiles),
        Fill::CpAsync, /*producers=*/b.getI64IntegerAttr(1),
        b.getI64IntegerAttr(plan.members() * memberWarps),
        /*members=*/IntegerAttr(), /*cluster=*/IntegerAttr(),
        /*place=*/PlaceAttr());
  if (plan.exchange.tile)
    plan.exchange.ring = RingCreateOp::create(
        b, loc,
        RingType::get(context, RolesExchange::slots, {plan.exchange.tile}),
        Fill::Exchange, b.getI64IntegerAttr(plan.members() * memberWarps),
        /*consumers=*/IntegerAttr(), /*members=*/IntegerAttr(),
        /*cluster=*/IntegerAttr(), /*place=*/PlaceAttr());
  if (plan.turns.tile)
    plan.turns.createRings(b, loc, plan.members() * memberWarps);
  if (plan.sharers > 1)
    for (RolesRing &ring : plan.queries)
      if (ring.inPlace && !plan.shareBarrier)
        plan.shareBarrier =
            BarrierCreateOp::create(b, loc, plan.members() * memberWarps,
                                    /*each=*/1, /*first=*/IntegerAttr());
  Value tickets = entry->getArgument(next++);
  Value count = work.takesCount() ? entry->getArgument(next++) : Value();
  FailureOr<SchedulerOp> scheduler =
      work.createScheduler(b, mapping, ScheduleKind::Dynamic, tickets, count);
  if (failed(scheduler))
    return failure();
  Value zero = arith::ConstantIntOp::create(b, loc, 0, 32);
  Value one = arith::ConstantIntOp::create(b, loc, 1, 32);

  auto buildRole = [&](StringRef name, Scope scope, int64_t count,
                       int64_t registers, std::optional<Share> share,
                       std::optional<bool> takesTurns = std::nullopt) {
    OpBuilder::InsertionGuard guard(b);
    auto role = RoleOp::create(b, loc, name, scope, count,
                               b.getI64IntegerAttr(registers),
                               /*barrier=*/IntegerAttr());
    Block *body = b.createBlock(&role.getBody(), {}, {b.getI32Type()}, {loc});
    Value member = body->getArgument(0);
    bool draws = share && *share != Share::Values;
    auto loop = work.createLoop(b, *scheduler, ValueRange{zero, zero},
                                draws && !plan.drawsApart);
    YieldOp::create(b, loc, ValueRange());
    b.setInsertionPointToStart(&loop.getBody().front());
    IRMapping own = mapping;
    work.map(b, loop, own);
    std::unique_ptr<RoleBuilder> program;
    Producer *producer = nullptr;
    if (share)
      program = std::unique_ptr<RoleBuilder>(
          producer = new Producer(plan, b, std::move(own), *share));
    else if (takesTurns)
      program =
          std::make_unique<TurnKeeper>(plan, b, std::move(own), *takesTurns);
    else
      program = std::make_unique<Consumer>(plan, b, std::move(own), member);
    program->items = loop.getRegionIterArgs()[0];
    program->steps = loop.getRegionIterArgs()[1];
    if (draws && plan.drawsLate)
      producer->drawLate(kernel.getBody());
    program->cloneBlock(kernel.getBody().front());
    Value nextItem = arith::AddIOp::create(b, loc, program->items, one);
    YieldOp::create(b, loc, ValueRange{nextItem, program->steps});
  };
  const int64_t producerRegisters =
      ::attn::onchip::producerRegisters(plan.members(), target);
  if (plan.drawsApart) {
    // The search for an item's sequence is a chain of loads, twice as long
    // behind one without rows, and a draw for a cluster takes two messages
    // between its blocks: too long for a warp that has copies to start.
    OpBuilder::InsertionGuard guard(b);
    auto role = RoleOp::create(b, loc, "draw", Scope::Warp, 1,
                               b.getI64IntegerAttr(producerRegisters),
                               /*barrier=*/IntegerAttr());
    b.createBlock(&role.getBody(), {}, {b.getI32Type()}, {loc});
    auto loop = work.createLoop(b, *scheduler, ValueRange(), /*lead=*/true);
    YieldOp::create(b, loc, ValueRange());
    b.setInsertionPointToStart(&loop.getBody().front());
    YieldOp::create(b, loc, ValueRange());
  }
  buildRole("load", Scope::Warp, 1, producerRegisters,
            plan.valuesApart ? Share::AllButValues : Share::All);
  if (plan.valuesApart)
    buildRole("load_values", Scope::Warp, 1, producerRegisters, Share::Values);
  if (plan.turns.tile)
    for (bool takes : {true, false})
      buildRole(takes ? "take_turns" : "pass_turns", Scope::Warp, 1,
                producerRegisters, /*share=*/std::nullopt, takes);
  buildRole("compute", Scope::Warpgroup, plan.members(),
            ::attn::onchip::computeRegisters(plan.members(), target),
            /*share=*/std::nullopt);
  tile_gpu::ReturnOp::create(b, loc);
  kernel.erase();
  return success();
}

void Specializer::rewriteLaunch(tile::LaunchOp launch) {
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(launch);
  Location loc = launch.getLoc();
  SmallVector<Value> arguments(launch.getArguments());
  auto addMap = [&](RolesRing &ring) {
    unsigned source = cast<BlockArgument>(ring.memory).getArgNumber();
    arguments.push_back(TensorMapOp::create(
        b, loc, TensorMapType::get(b.getContext(), ring.getBox()),
        launch.getArguments()[source]));
  };
  for (RolesRing &ring : plan.queries)
    addMap(ring);
  for (RolesRing &ring : plan.steps)
    if (ring.within < 0)
      addMap(ring);
  Value tickets =
      TicketsOp::create(b, loc, MemRefType::get({1}, b.getI32Type()));
  arguments.push_back(tickets);
  if (work.takesCount())
    arguments.push_back(
        arith::IndexCastOp::create(b, loc, b.getI32Type(), launch.getGrid()));
  tile_gpu::LaunchOp::create(b, loc, launch.getKernelAttr(), launch.getGrid(),
                             arguments);
  launch.erase();
}

namespace {
struct SpecializeWarpsPass
    : ::attn::impl::TileGpuSpecializeWarpsPassBase<SpecializeWarpsPass> {
  using TileGpuSpecializeWarpsPassBase::TileGpuSpecializeWarpsPassBase;

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
    for (tile::KernelOp kernel : kernels) {
      int64_t wanted = stages;
      if (!wanted && kernel.getSchedule())
        wanted = kernel.getSchedule()->getStages();
      Specializer specializer(kernel, *target, wanted);
      if (failed(specializer.analyse() ? specializer.run()
                                       : specializer.verifyShares()))
        return signalPassFailure();
    }
  }
};
} // namespace
