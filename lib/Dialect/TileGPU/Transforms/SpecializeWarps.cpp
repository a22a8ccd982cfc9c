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

#include "AnalyseRoles.h"
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

/// Writes the programs of a kernel's roles, as its plan says.
class Specializer {
public:
  Specializer(tile::KernelOp kernel, const ::attn::TargetInfo &target,
              int64_t stages, RolesPlan &plan)
      : kernel(kernel), target(target), stages(stages), b(kernel.getContext()),
        work(kernel), plan(plan) {}
  LogicalResult run();

private:
  LogicalResult verifyStages();
  void chooseStages();
  SmallVector<RolesRing *> ringsWithMaps();
  KernelOp createKernel();
  Value createRing(ArrayRef<SmemType> tiles, int64_t slots, Fill fill,
                   IntegerAttr producers, IntegerAttr consumers,
                   IntegerAttr members);
  void createRings();
  ForeachOp createRole(StringRef name, Scope scope, int64_t count,
                       int64_t registers, ValueRange initial, bool leads);
  void buildRole(StringRef name, Scope scope, int64_t count, int64_t registers,
                 std::optional<Share> share, bool adds = false);
  void buildDrawingRole(int64_t registers);
  void buildRoles();
  void rewriteLaunch(tile::LaunchOp launch);

  tile::KernelOp kernel;
  const ::attn::TargetInfo &target;
  int64_t stages, queryStages = 1;
  OpBuilder b;
  WorkTiles work;
  RolesPlan &plan;
  /// Of the new kernel: what its roles see alike.
  IRMapping shared;
  SchedulerOp scheduler;
  Value zero, one;
};

} // namespace

void Specializer::chooseStages() {
  ::attn::onchip::SharedShares shares = ::attn::onchip::shareAmongRoles(
      sharedDemand(kernel, plan), stages, target);
  stages = shares.stages / plan.keyParts * plan.keyParts;
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

LogicalResult Specializer::verifyStages() {
  if (stages == 1)
    return kernel.emitOpError("expected 2 stages or more for warpgroups, whose "
                              "products overlap with copies, but got 1");
  int64_t mostStages =
      ::attn::onchip::stagesThatFit(sharedDemand(kernel, plan), target);
  if (stages > mostStages)
    return kernel.emitOpError("expected at most ")
           << mostStages << " stages of keys and values beside the queries in "
           << target.sharedMemoryBytes << " bytes of shared memory, but got "
           << stages;
  return success();
}

/// The rings that tensor copies fill, each of which has a map.
SmallVector<RolesRing *> Specializer::ringsWithMaps() {
  SmallVector<RolesRing *> rings;
  for (RolesRing &ring : plan.queries)
    rings.push_back(&ring);
  for (RolesRing &ring : plan.steps)
    if (ring.within < 0)
      rings.push_back(&ring);
  return rings;
}

/// The new kernel: maps and tickets replace the block.
KernelOp Specializer::createKernel() {
  SmallVector<Type> types(kernel.getArgumentTypes().drop_back());
  unsigned numOld = types.size();
  for (RolesRing *ring : ringsWithMaps())
    types.push_back(TensorMapType::get(b.getContext(), ring->getBox()));
  types.push_back(MemRefType::get({1}, b.getI32Type()));
  if (work.takesCount())
    types.push_back(b.getI32Type());
  b.setInsertionPoint(kernel);
  auto func =
      KernelOp::create(b, kernel.getLoc(), kernel.getName(),
                       b.getFunctionType(types, {}), kernel.getScheduleAttr());
  Block *entry = func.addEntryBlock();
  b.setInsertionPointToStart(entry);
  for (unsigned i = 0; i < numOld; ++i)
    shared.map(kernel.getArgument(i), entry->getArgument(i));
  for (auto [number, ring] : llvm::enumerate(ringsWithMaps()))
    ring->map = entry->getArgument(numOld + number);
  return func;
}

/// A ring that members of the compute role read; `members` fill a slot each.
Value Specializer::createRing(ArrayRef<SmemType> tiles, int64_t slots,
                              Fill fill, IntegerAttr producers,
                              IntegerAttr consumers, IntegerAttr members) {
  return RingCreateOp::create(
      b, kernel.getLoc(), RingType::get(b.getContext(), slots, tiles), fill,
      producers, consumers, members, /*cluster=*/IntegerAttr(),
      /*release_all=*/false, /*place=*/PlaceAttr());
}

void Specializer::createRings() {
  auto count = [&](int64_t number) { return b.getI64IntegerAttr(number); };
  const int64_t memberWarps = plan.warpsOfMember();
  IntegerAttr none, all = count(plan.members() * memberWarps);
  for (RolesRing &ring : plan.queries) {
    int64_t parts = ring.isWhole ? 1 : plan.rowMembers();
    ring.ring = createRing({ring.tile}, queryStages * parts, Fill::Tma, none,
                           count(plan.members() / parts * memberWarps),
                           parts > 1 ? count(parts) : none);
  }
  for (RolesRing &ring : plan.steps)
    if (ring.within < 0)
      ring.ring = createRing({ring.tile}, stages, Fill::Tma, none, all, none);
  if (!plan.columns.tiles.empty())
    plan.columns.ring = createRing(plan.columns.tiles, stages, Fill::CpAsync,
                                   count(1), all, none);
  if (plan.exchange.tile)
    plan.exchange.ring = createRing({plan.exchange.tile}, RolesExchange::slots,
                                    Fill::Exchange, all, none, none);
  if (plan.sums.tile)
    plan.sums.ring = createRing({plan.sums.tile}, plan.sums.slots, Fill::Warps,
                                all, count(1), none);
  if (plan.mergeTile)
    plan.mergeScratch = SmemAllocOp::create(b, kernel.getLoc(), plan.mergeTile,
                                            /*offset=*/IntegerAttr());
  if (plan.mergedBlocks > 1)
    plan.mergeRing = RingCreateOp::create(
        b, kernel.getLoc(),
        RingType::get(b.getContext(), /*stages=*/1,
                      {plan.getMergedTile(b.getContext())}),
        Fill::States, count(plan.combiningWarps()),
        count(plan.combiningWarps()), /*members=*/none,
        count(plan.mergedBlocks), /*release_all=*/false,
        /*place=*/PlaceAttr());
  for (SmemType tile : plan.reducedTiles)
    plan.reducedScratch.push_back(SmemAllocOp::create(
        b, kernel.getLoc(), tile, /*offset=*/IntegerAttr()));
  if (plan.weightsTile)
    plan.weightsScratch = SmemAllocOp::create(
        b, kernel.getLoc(), plan.weightsTile, /*offset=*/IntegerAttr());
  bool turnsShared = llvm::any_of(plan.queries, [&](RolesRing &ring) {
    return ring.inPlace && (ring.isWhole || plan.sharers > 1);
  });
  if (plan.keyParts > 1)
    plan.firstBarrier =
        BarrierCreateOp::create(b, kernel.getLoc(), memberWarps, /*each=*/1,
                                /*first=*/IntegerAttr());
  if (turnsShared || plan.sharesWeights || plan.turned)
    plan.shareBarrier = BarrierCreateOp::create(
        b, kernel.getLoc(), plan.members() * memberWarps,
        /*each=*/1, /*first=*/IntegerAttr());
}

/// A role with a loop over items, whose body is where code goes next.
ForeachOp Specializer::createRole(StringRef name, Scope scope, int64_t count,
                                  int64_t registers, ValueRange initial,
                                  bool leads) {
  Location loc = kernel.getLoc();
  // Registers move between warpgroups alone.
  auto role = RoleOp::create(b, loc, name, scope, count,
                             plan.keyWarps ? IntegerAttr()
                                           : b.getI64IntegerAttr(registers),
                             /*barrier=*/IntegerAttr());
  b.createBlock(&role.getBody(), {}, {b.getI32Type()}, {loc});
  auto loop = work.createLoop(b, scheduler, initial, leads);
  YieldOp::create(b, loc, ValueRange());
  b.setInsertionPointToStart(&loop.getBody().front());
  return loop;
}

/// A role whose program is made of the kernel's body: that of a producer, which
/// copies a share of the tiles, of the warp that adds to memory, or of the
/// consumer.
void Specializer::buildRole(StringRef name, Scope scope, int64_t count,
                            int64_t registers, std::optional<Share> share,
                            bool adds) {
  OpBuilder::InsertionGuard guard(b);
  bool draws = share && *share != Share::Values;
  ForeachOp loop = createRole(name, scope, count, registers, {zero, zero},
                              draws && !plan.drawsApart);
  Value member = loop->getBlock()->getArgument(0);
  IRMapping own = shared;
  work.map(b, loop, own);
  std::unique_ptr<RoleBuilder> program;
  Producer *producer = nullptr;
  if (share)
    program = std::unique_ptr<RoleBuilder>(
        producer = new Producer(plan, b, std::move(own), *share));
  else if (adds)
    program = std::make_unique<Adder>(plan, b, std::move(own));
  else
    program = std::make_unique<Consumer>(plan, b, std::move(own), member);
  program->items = loop.getRegionIterArgs()[0];
  program->steps = loop.getRegionIterArgs()[1];
  // Other blocks wait for what this one has drawn, and not begun.
  bool drawsLast = draws && plan.drawsLate && plan.sums.tile;
  if (draws && plan.drawsLate && !drawsLast)
    producer->drawLate(kernel.getBody());
  program->cloneBlock(kernel.getBody().front());
  if (drawsLast)
    DrawNextOp::create(b, kernel.getLoc());
  Value nextItem =
      arith::AddIOp::create(b, kernel.getLoc(), program->items, one);
  YieldOp::create(b, kernel.getLoc(), ValueRange{nextItem, program->steps});
}

/// The search for an item's sequence is a chain of loads, twice as long behind
/// one without rows, and a draw for a cluster takes two messages between its
/// blocks: too long for a warp that has copies to start.
void Specializer::buildDrawingRole(int64_t registers) {
  OpBuilder::InsertionGuard guard(b);
  createRole("draw", Scope::Warp, 1, registers, ValueRange(), /*leads=*/true);
  YieldOp::create(b, kernel.getLoc(), ValueRange());
}

void Specializer::buildRoles() {
  int64_t producerRegisters =
      ::attn::onchip::producerRegisters(plan.members(), target);
  if (plan.drawsApart)
    buildDrawingRole(producerRegisters);
  buildRole("load", Scope::Warp, 1, producerRegisters,
            plan.valuesApart ? Share::AllButValues : Share::All);
  if (plan.valuesApart)
    buildRole("load_values", Scope::Warp, 1, producerRegisters, Share::Values);
  if (plan.sums.tile)
    buildRole("add", Scope::Warp, 1, producerRegisters, /*share=*/std::nullopt,
              /*adds=*/true);
  buildRole("compute", plan.keyWarps ? Scope::Warp : Scope::Warpgroup,
            plan.members(),
            ::attn::onchip::computeRegisters(plan.members(), target),
            /*share=*/std::nullopt);
}

LogicalResult Specializer::run() {
  if (failed(verifyStages()))
    return failure();
  Location loc = kernel.getLoc();
  SmallVector<tile::LaunchOp> launches;
  kernel->getParentOfType<ModuleOp>().walk([&](tile::LaunchOp launch) {
    if (launch.getKernel() == kernel.getName())
      launches.push_back(launch);
  });
  for (tile::LaunchOp launch : launches)
    rewriteLaunch(launch);
  KernelOp func = createKernel();
  chooseStages();
  createRings();
  auto last = func.getArguments().rbegin();
  Value count = work.takesCount() ? Value(*last++) : Value();
  FailureOr<SchedulerOp> made = work.createScheduler(
      b, shared, ScheduleKind::Dynamic, /*tickets=*/*last, count);
  if (failed(made))
    return failure();
  scheduler = *made;
  scheduler.setDrawsFirst(bool(plan.sums.tile));
  zero = arith::ConstantIntOp::create(b, loc, 0, 32);
  one = arith::ConstantIntOp::create(b, loc, 1, 32);
  buildRoles();
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
  for (RolesRing *ring : ringsWithMaps())
    addMap(*ring);
  auto tickets = TicketsOp::create(b, loc, MemRefType::get({1}, b.getI32Type()),
                                   /*draws_first=*/bool(plan.sums.tile));
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
      RolesPlan plan;
      RolesAnalysis analysis(kernel, *target, plan);
      if (failed(analysis.run()
                     ? Specializer(kernel, *target, wanted, plan).run()
                     : analysis.verifyShares()))
        return signalPassFailure();
    }
  }
};
} // namespace
