//===- AnalyseRoles.cpp - Whether warpgroups can run a kernel -------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AnalyseRoles.h"
#include "InPlace.h"
#include "attn/Analysis/FewRows.h"
#include "attn/Analysis/Schedule.h"
#include "attn/Analysis/StepRules.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

#include <numeric>

using namespace mlir;
using namespace mlir::tile_gpu;

/// The widest panels that `columns` of a loaded tile are whole ones of, in
/// bytes.
static int64_t panelBytes(tile::LoadOp load, int64_t columns) {
  constexpr int64_t widest = 128;
  int64_t bits = load.getType().getElementType().getIntOrFloatBitWidth();
  return std::gcd(columns * bits / 8, widest);
}

/// `rows` rows of a loaded tile in shared memory, of which products take
/// `columns` at a time.
static SmemType stagedType(tile::LoadOp load, int64_t rows, int64_t columns) {
  auto type = cast<tile::TileType>(load.getType());
  return SmemType::get(load.getContext(), rows, type.getCols(),
                       type.getElementType(), panelBytes(load, columns),
                       /*boxes=*/1, /*pitch=*/rows, /*transposed=*/false);
}

/// Rows after which the pattern of a swizzle repeats.
static constexpr int64_t swizzledRows = 8;

/// The block of the kernel itself that holds `op`, or the op there.
static Operation *topOp(tile::KernelOp kernel, Operation *op) {
  while (op->getParentOp() != kernel)
    op = op->getParentOp();
  return op;
}

/// Whether `dot` is a product of all rows, and not of those of a part.
static bool isOutsideOfRows(tile::DotOp dot) {
  return !isa<tile::RowsOp>(dot->getParentOp());
}

/// The map through which rows alone, and products of all rows, read a loaded
/// tile, element by element.
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
    if (auto dot = dyn_cast<tile::DotOp>(use.getOwner()))
      return dot.getRhs() == use.get() && isOutsideOfRows(dot);
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
bool RolesAnalysis::analyseExchange(tile::DotOp dot) {
  const ::attn::MmaShape &unit = target.productShape();
  auto load = dot.getRhs().getDefiningOp<tile::LoadOp>();
  if (auto map = dot.getRhs().getDefiningOp<tile::MapOp>();
      map && map.getInputs().size() == 1) {
    load = map.getInputs().front().getDefiningOp<tile::LoadOp>();
    if (load && mapInPlace(load) != map)
      return false;
  }
  tile::TileType weights = dot.getLhs().getType();
  tile::TileType product = dot.getType();
  constexpr int64_t members = 2;
  bool byRows = product.getRows() == members * unit.m;
  // Each member's columns are panels of 32 bytes or more (stagedType).
  constexpr int64_t panel = 16;
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
      plan.sums.tile =
          SmemType::get(dot.getContext(), product.getRows(), product.getCols(),
                        product.getElementType(), /*swizzle=*/0, /*boxes=*/1,
                        /*pitch=*/product.getRows(), /*transposed=*/false);
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
         // Of whole panels.
         panelBytes(keys, type.getCols()) >=
             panelBytes(keys, whole.getCols()) &&
         type.getElementType() == whole.getElementType();
}

/// Whether `load`, of a step, has an element for each pair of its scores, which
/// maps of the rows read.
static bool isOfPairs(tile::LoadOp load) {
  auto rows = dyn_cast_or_null<tile::RowsOp>(
      load->hasOneUse() ? *load->user_begin() : nullptr);
  if (!rows || rows->getBlock() != load->getBlock() || load.getVector() ||
      load.getTransposed() || load.getLive())
    return false;
  auto inputs = rows.getInputs();
  auto at = llvm::find(inputs, load.getResult());
  if (at == inputs.end())
    return false;
  Value part =
      rows.getBody().front().getArgument(1 + std::distance(inputs.begin(), at));
  return !part.use_empty() &&
         llvm::all_of(part.getUsers(), [&](Operation *user) {
           return isa<tile::MapOp>(user) &&
                  cast<tile::TileType>(user->getResult(0).getType())
                          .getCols() == load.getType().getCols();
         });
}

/// The columns of the rows that `load` fills which each member multiplies in a
/// product outside of the rows of a step: half of them where it has all rows of
/// the product (analyseExchange).
static int64_t columnsOfMember(tile::DotOp dot, tile::LoadOp load,
                               const ::attn::TargetInfo &target) {
  constexpr int64_t members = 2;
  bool hasAllRows = dot.getType().getRows() == target.productShape().m;
  return load.getType().getCols() / (hasAllRows ? members : 1);
}

bool RolesAnalysis::addToStep(RolesRing ring) {
  // The n-th such load of its step. A block has several steps where a loop of
  // one turn has become a part of it, as known sizes let it.
  unsigned place = 0;
  for (Operation &other : *ring.load->getBlock()) {
    if (&other == ring.load)
      break;
    if (isa<tile::RowsOp>(other))
      place = 0;
    place += plan.place.contains(&other);
  }
  // Values that are columns of the keys are in the slots of these.
  if (ring.isValue)
    for (Operation &other : *ring.load->getBlock()) {
      if (&other == ring.load)
        break;
      auto keys = dyn_cast<tile::LoadOp>(other);
      auto it = plan.place.find(&other);
      if (!keys || it == plan.place.end() || !isWithin(ring.load, keys) ||
          plan.steps[it->second].within >= 0)
        continue;
      ring.within = it->second;
      plan.steps[ring.within].isValue = true;
    }
  plan.place[ring.load] = place;
  if (place == plan.steps.size()) {
    plan.steps.push_back(ring);
    return true;
  }
  RolesRing &known = plan.steps[place];
  return known.tile == ring.tile && known.isValue >= ring.isValue &&
         known.memory == ring.memory && known.source == ring.source &&
         known.within == ring.within;
}

bool RolesAnalysis::analyseLoad(tile::LoadOp load) {
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
  int64_t columns = load.getType().getCols();
  tile::MapOp inPlace = mapInPlace(load);
  ring.isOfPairs = isOfPairs(load);
  for (OpOperand &use : takenOf(load).getUses()) {
    if (ring.isOfPairs) {
      keyOrValue = true;
    } else if (inPlace) {
      query = true;
      for (Operation *user : inPlace->getUsers())
        if (auto dot = dyn_cast<tile::DotOp>(user)) {
          ring.isWhole = true;
          columns = columnsOfMember(dot, load, target);
        }
    } else if (auto rows = dyn_cast<tile::RowsOp>(use.getOwner())) {
      if (!llvm::is_contained(rows.getInputs(), load.getResult()))
        return false;
      query = true;
    } else if (auto dot = dyn_cast<tile::DotOp>(use.getOwner())) {
      if (dot.getRhs() != use.get())
        return false;
      if (isOutsideOfRows(dot)) {
        query = ring.isWhole = true;
        columns = columnsOfMember(dot, load, target);
        continue;
      }
      keyOrValue = true;
      value |= !dot.getTransposeRhs();
    } else {
      // The compute role's own.
      return !ring.source && !plan.isShared(load.getType());
    }
  }
  // Warps that have the same rows read them from memory.
  if ((query && plan.keyWarps) || (!query && !keyOrValue))
    return !ring.source && !plan.isShared(load.getType());
  auto type = cast<tile::TileType>(load.getType());
  auto source = cast<MemRefType>(ring.memory.getType());
  // Products read panels of 64 bytes and more.
  const int64_t leastPanel = ring.isOfPairs ? 32 : 64;
  // Where words say which rows of values are dead, each warpgroup clears them.
  bool isKnown =
      value && load.getLive() && load.getLive().getDefiningOp<tile::TruthsOp>();
  if ((query && keyOrValue) || (load.getLive() && !isKnown) ||
      load.getVector() || load.getTransposed() ||
      source.getElementType() != type.getElementType() ||
      type.getElementType().getIntOrFloatBitWidth() != 16 ||
      panelBytes(load, type.getCols()) < leastPanel ||
      !isa<BlockArgument>(ring.memory) || (query && ring.source))
    return false;
  ring.tile = stagedType(
      load, query && !ring.isWhole ? plan.rows : type.getRows(), columns);
  ring.isValue = value;
  ring.inPlace = inPlace;
  if (query) {
    if (load->getParentOp() != kernel)
      return false;
    plan.queries.push_back(ring);
    return true;
  }
  return addToStep(ring);
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
void RolesAnalysis::analyseColumns() {
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
bool RolesAnalysis::canShare(Operation *op) {
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
bool RolesAnalysis::turnsKeys() {
  return kernel.walk([](tile::TurnOp) { return WalkResult::interrupt(); })
      .wasInterrupted();
}

/// Warpgroups that share the channels of a work tile, as the schedule says: a
/// product has no more than nMax of them.
static int64_t countSharers(tile::KernelOp kernel,
                            const ::attn::TargetInfo &target) {
  mlir::attn::ScheduleAttr schedule = kernel.getScheduleAttr();
  int64_t channels = target.hasRoles() && schedule ? schedule.getBlockV() : 0;
  if (channels && ::attn::rowsAreColumns(schedule.getRows(), channels, target))
    return 1;
  return std::max<int64_t>(channels / target.productShape().nMax, 1);
}

/// Sums of more channels than a product has are shared by warpgroups, of which
/// each has some, where the schedule says so: whether all that is done with
/// them can be done so.
bool RolesAnalysis::analyseShares() {
  const ::attn::MmaShape &unit = target.productShape();
  int64_t widest = 0;
  kernel.walk([&](tile::DotOp dot) {
    widest = std::max(widest, cast<tile::TileType>(dot.getType()).getCols());
  });
  plan.sharers = countSharers(kernel, target);
  if (plan.sharers == 1)
    return widest <= unit.nMax || plan.turned;
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

LogicalResult RolesAnalysis::verifyShares() {
  if (plan.turned)
    return kernel.emitOpError("expected a kernel for a warpgroup, of whose "
                              "products rows are columns, as rows = ")
           << plan.rows
           << " with block_v = " << kernel.getScheduleAttr().getBlockV()
           << " asks for, but got one for warps; rows = 64 asks for "
              "warpgroups that share channels";
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

/// What the schedule says of how items are drawn and steps left out.
void RolesAnalysis::readSchedule() {
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
}

/// Whether a warpgroup can make a product.
bool RolesAnalysis::canMultiply(tile::DotOp dot) {
  auto rhs = cast<tile::TileType>(dot.getRhs().getType());
  auto result = cast<tile::TileType>(dot.getType());
  return (isa<tile::RowsOp>(dot->getParentOp()) ? !dot.getTransposeLhs()
                                                : bool(weightsOf(dot))) &&
         rhs.getElementType().getIntOrFloatBitWidth() == 16 &&
         (result.getCols() <= target.productShape().nMax ||
          !dot.getTransposeRhs());
}

/// The warps that have keys of their own, where rows are as few as that takes.
static int64_t countKeyWarps(const RolesPlan &plan,
                             ArrayRef<tile::RowsOp> steps,
                             const ::attn::TargetInfo &target) {
  int64_t keys = 0;
  steps.front()->walk([&](tile::DotOp dot) {
    if (dot.getTransposeRhs())
      keys = dot.getType().getCols();
  });
  return ::attn::warpsHaveKeys(plan.rows, target) &&
                 keys % RolesPlan::keysOfWarp == 0
             ? keys / RolesPlan::keysOfWarp
             : 0;
}

/// Finds the steps; whether warpgroups have all of their operations, and every
/// step is of the same rows.
bool RolesAnalysis::analyseSteps(SmallVectorImpl<tile::RowsOp> &steps) {
  bool able = target.hasRoles();
  kernel.walk([&](Operation *op) {
    if (auto rows = dyn_cast<tile::RowsOp>(op)) {
      steps.push_back(rows);
      plan.lastUse = topOp(kernel, rows);
    } else if (auto fold = dyn_cast<tile::FoldOp>(op)) {
      able &= fold.getThreshold().has_value();
    } else if (isa<tile::ScanOp>(op)) {
      able = false;
    } else if (auto any = dyn_cast<tile::AnyOp>(op)) {
      able &= any.getByRows();
    } else if (auto dot = dyn_cast<tile::DotOp>(op)) {
      able &= canMultiply(dot);
    }
  });
  if (!able || steps.empty())
    return false;
  const ::attn::MmaShape &unit = target.productShape();
  for (tile::RowsOp rows : steps) {
    if (rows.getOuts().empty())
      return false;
    auto type = cast<tile::TileType>(rows.getOuts()[0].getType());
    plan.rows = rows.getBlock();
    plan.blockQ = type.getRows();
    mlir::attn::ScheduleAttr schedule = kernel.getScheduleAttr();
    plan.turned = schedule && ::attn::rowsAreColumns(
                                  plan.rows, schedule.getBlockV(), target);
    bool areColumns = ::attn::warpsHaveKeys(plan.rows, target) || plan.turned;
    bool isOne = areColumns || plan.isHalf();
    if ((plan.rows != unit.m && !isOne) || plan.blockQ % plan.rows ||
        (isOne && plan.blockQ != plan.rows) ||
        (rows != steps[0] &&
         type.getRows() !=
             cast<tile::TileType>(steps[0].getOuts()[0].getType()).getRows()))
      return false;
  }
  plan.keyWarps = countKeyWarps(plan, steps, target);
  return plan.rows == unit.m || plan.isHalf() || plan.turned || plan.keyWarps;
}

/// What warpgroups do together: sharing channels, exchanging weights, turning
/// keys.
bool RolesAnalysis::analyseTeamwork() {
  if (!analyseShares() || (plan.isHalf() && plan.sharers > 1))
    return false;
  mlir::attn::ScheduleAttr schedule = kernel.getScheduleAttr();
  plan.readsOnce = plan.isHalf() && schedule && schedule.getPackHeads();
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
  return true;
}

/// Whether warps can have keys of their own of every tile, where rows are as
/// few as that takes.
bool RolesAnalysis::analyseKeyWarps(ArrayRef<tile::RowsOp> steps) {
  if (!plan.keyWarps)
    return true;
  for (tile::RowsOp rows : steps)
    if (!HalfStep::get(rows, plan, RolesPlan::keysOfWarp))
      return false;
  int64_t floats = 0, widest = 0;
  WalkResult found = kernel.walk([&](tile::MergeOp merge) {
    if (merge->getParentOp() != kernel || floats)
      return WalkResult::interrupt();
    for (Type type : merge.getResultTypes()) {
      auto tile = cast<tile::TileType>(type);
      floats += tile.getRows() * tile.getCols();
      widest = std::max(widest, tile.getCols());
      plan.mergedFloats +=
          tile.getRows() * (tile.getCols() == 1 ? 1 : plan.mergedChannels);
    }
    plan.mergedBlocks = merge.getCluster().value_or(1);
    return WalkResult::advance();
  });
  if (found.wasInterrupted() || !floats ||
      widest % (plan.keyWarps * ::attn::MmaShape::warp().m))
    return false;
  plan.channels = widest / plan.keyWarps;
  if (plan.mergedBlocks > 1 && plan.combiningWarps() > plan.keyWarps)
    return false;
  mlir::attn::ScheduleAttr schedule = kernel.getScheduleAttr();
  plan.readsOnce = schedule && schedule.getPackHeads();
  plan.mergeTile = SmemType::get(kernel.getContext(), plan.keyWarps, floats,
                                 Float32Type::get(kernel.getContext()),
                                 /*swizzle=*/0, /*boxes=*/1,
                                 /*pitch=*/plan.keyWarps, /*transposed=*/false);
  return true;
}

bool RolesAnalysis::analyseLoads() {
  analyseColumns();
  bool loads = true;
  kernel.walk([&](tile::LoadOp load) {
    loads &= plan.columns.has(load) || analyseLoad(load);
  });
  return loads && (!plan.queries.empty() || plan.keyWarps) &&
         !plan.steps.empty();
}

/// Steps that only some items have.
void RolesAnalysis::findBranch(ArrayRef<tile::RowsOp> steps) {
  auto hasSteps = [](Region &region) {
    return region.walk([](tile::RowsOp) { return WalkResult::interrupt(); })
        .wasInterrupted();
  };
  auto branch = dyn_cast<scf::IfOp>(plan.lastUse);
  if (!branch || steps.front()->getParentOfType<scf::IfOp>() != branch ||
      hasSteps(branch.getElseRegion()))
    return;
  plan.branch = branch;
  for (Operation &op : *branch.thenBlock())
    if (llvm::any_of(op.getRegions(), hasSteps) || isa<tile::RowsOp>(op))
      plan.lastUse = &op;
}

/// Counting the steps of a third loop (of a window's far side) takes more
/// scalars than the warpgroups have registers.
bool RolesAnalysis::canCountSteps(ArrayRef<tile::RowsOp> steps) {
  int numLoops = 0, numSingle = 0;
  bool areCounted = llvm::all_of(steps, [&](tile::RowsOp rows) {
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
  return areCounted && !plan.exchange.tile && plan.keyParts == 1 &&
         numLoops <= 2 && numSingle <= 1 && isa<scf::ForOp>(plan.lastUse);
}

/// The keys that are loaded once, behind all queries; or null.
tile::LoadOp RolesAnalysis::findFirstKeys() {
  Operation *once = plan.branch ? plan.branch : kernel.getOperation();
  tile::LoadOp first = plan.steps.front().load;
  bool isOnce = first->getParentOp() == once &&
                llvm::all_of(plan.queries, [&](RolesRing &ring) {
                  return ring.load->isBeforeInBlock(topOp(kernel, first));
                });
  if (!isOnce)
    return {};
  // Of two dots both are issued at once: neither of their tiles waits for what
  // the item before still reads.
  tile::LoadOp last = first;
  if (plan.queries.size() > 1)
    for (Operation *op = first; op && !isa<tile::RowsOp>(op);
         op = op->getNextNode())
      if (plan.place.contains(op))
        last = cast<tile::LoadOp>(op);
  return last;
}

/// Whether every step loads all of its tiles.
bool RolesAnalysis::loadAllTiles(ArrayRef<tile::RowsOp> steps) {
  return llvm::all_of(steps, [&](tile::RowsOp rows) {
    unsigned found = 0;
    for (Operation *op = rows->getPrevNode(); op && !isa<tile::RowsOp>(op);
         op = op->getPrevNode())
      found += plan.place.contains(op);
    return found == plan.steps.size();
  });
}

/// A warp starts a copy in 77 cycles, two warps in 52 (H200,
/// docs/performance/gpu.md): of many, for keys and values, one is too slow. Nor
/// do keys then wait for the slot of values, which is given back later: that
/// counts where values are wide, and slots few (docs/performance/gpu.md, "Sums
/// scaled under early products"), and two warpgroups multiply. Blocks that
/// share copies have one warp, and parts of the channels are not measured.
bool RolesAnalysis::loadsValuesApart() {
  const ::attn::StepRules &rules = ::attn::stepRules();
  mlir::attn::ScheduleAttr schedule = kernel.getScheduleAttr();
  bool isWhole = !schedule || schedule.getBlockV() == 0;
  auto isWide = [&](const RolesRing &ring) {
    return ring.tile.getCols() > rules.apartColumns;
  };
  // Beside tiles of pairs it pays where blocks share copies (measured:
  // docs/performance/gpu-masks.md, "Biases beside the keys").
  int64_t numPairs = llvm::count_if(
      plan.steps, [](const RolesRing &ring) { return ring.isOfPairs; });
  // Blocks that share copies have less time for each slot.
  bool isPaired =
      schedule && schedule.getCluster() > 1 && llvm::any_of(plan.steps, isWide);
  // Keys that are values as well, as those of dQ, would be the other warp's,
  // and queries, which come behind the first of them, nobody's.
  return !plan.steps.front().isValue &&
         llvm::any_of(plan.steps, [&](RolesRing &ring) {
           SmemType box = ring.getBox();
           int64_t panels = box.getRowBytes() / box.getSwizzle();
           bool isMany = ring.numBoxes() * panels >= rules.apartCopies;
           bool isLate =
               isWhole && plan.blockQ > 64 && !plan.keyWarps &&
               int64_t(plan.steps.size()) == 2 + numPairs &&
               plan.sharers == 1 &&
               (isWide(ring) || isPaired || ring.numBoxes() > 1 ||
                (numPairs > 0 && schedule && schedule.getCluster() > 1));
           return ring.isValue && (isMany || isLate);
         });
}

bool RolesAnalysis::run() {
  readSchedule();
  SmallVector<tile::RowsOp> steps;
  if (!analyseSteps(steps) || !analyseTeamwork() || !analyseLoads() ||
      !loadAllTiles(steps) || !analyseKeyWarps(steps) || !analyseFewRows(steps))
    return false;
  findBranch(steps);
  analyseSharedWeights(steps);
  plan.stepsAreCounted = !plan.keyWarps && canCountSteps(steps);
  if (!plan.stepsAreCounted)
    plan.own = OwnSteps::find(kernel, plan);
  // A tile of pairs is in a slot as a whole.
  plan.halves &= !plan.own && !llvm::any_of(plan.steps, [](RolesRing &ring) {
    return ring.isOfPairs;
  });
  plan.firstKeys = findFirstKeys();
  plan.valuesApart = loadsValuesApart();
  // One slot of queries and two of keys and values have to fit.
  auto fits = [&] {
    return ::attn::onchip::stagesThatFit(sharedDemand(kernel, plan), target) >=
           ::attn::onchip::leastStages;
  };
  if (plan.sums.tile && !fits())
    plan.sums.slots = 1;
  return fits();
}

SmemType RolesPlan::getMergedTile(MLIRContext *context) const {
  int64_t rows = (turned ? 1 : combiningWarps()) * mergedBlocks;
  return SmemType::get(context, rows, mergedFloats, Float32Type::get(context),
                       /*swizzle=*/0, /*boxes=*/1, /*pitch=*/rows,
                       /*transposed=*/false);
}

/// What convert-tile-to-tile-gpu takes for keys above a threshold.
static int64_t foldBytes(tile::FoldOp fold, int64_t rows) {
  int64_t columns =
      cast<tile::TileType>(fold.getScores()[0].getType()).getCols();
  Block &body = fold.getBody().front();
  ValueRange old = body.getArguments().take_back(fold.getStates().size());
  int64_t states = llvm::count_if(
      llvm::zip(body.getTerminator()->getOperands(), old),
      [](auto pair) { return std::get<0>(pair) != std::get<1>(pair); });
  if (columns > ::attn::onchip::mostFolded)
    return 0;
  return rows * ::attn::onchip::foldColumns(columns, states) * sizeof(float);
}

::attn::onchip::SharedDemand tile_gpu::sharedDemand(tile::KernelOp kernel,
                                                    const RolesPlan &plan) {
  ::attn::onchip::SharedDemand demand;
  for (const RolesRing &ring : plan.queries)
    demand.queries +=
        (ring.isWhole ? 1 : plan.rowMembers()) * ring.tile.getBytes();
  if (plan.exchange.tile)
    demand.exchange += RolesExchange::slots * plan.exchange.tile.getBytes();
  if (plan.sums.tile)
    demand.exchange += plan.sums.slots * plan.sums.tile.getBytes();
  if (plan.mergeTile)
    demand.exchange += plan.mergeTile.getBytes();
  if (plan.mergedBlocks > 1)
    demand.exchange += plan.getMergedTile(kernel.getContext()).getBytes();
  if (plan.weightsTile)
    demand.exchange += plan.weightsTile.getBytes();
  for (SmemType tile : plan.reducedTiles)
    demand.exchange += tile.getBytes();
  for (const RolesRing &ring : plan.steps)
    demand.step += ring.within < 0 ? ring.tile.getBytes() : 0;
  for (SmemType tile : plan.columns.tiles)
    demand.columns += llvm::alignTo(
        tile.getBytes(), ::attn::onchip::tileAlignment(tile.getSwizzle()));
  int64_t folds = 0;
  kernel.walk([&](Operation *op) {
    if (auto store = dyn_cast<tile::StoreOp>(op)) {
      // tile-gpu-stage-epilogue wants this much for results of 16 bits.
      auto type = cast<tile::TileType>(store.getValue().getType());
      if (type.getRows() == plan.blockQ &&
          type.getElementType().getIntOrFloatBitWidth() == 16)
        demand.results += type.getRows() * type.getCols() * 2;
    } else if (auto dot = dyn_cast<tile::DotOp>(op); dot && dot.getRamp()) {
      demand.ramp = ::attn::onchip::rampBytes(
          rampType(kernel.getContext(), dot.getType().getCols()).getBytes());
    } else if (auto fold = dyn_cast<tile::FoldOp>(op); fold && !plan.isHalf()) {
      folds = std::max(folds, foldBytes(fold, plan.blockQ));
    }
  });
  demand.exchange += folds;
  return demand;
}
