//===- Builder.cpp - IR of a kernel to instructions -----------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Emulator/Builder.h"
#include "Models.h"
#include "attn/Dialect/TileGPU/IR/MergedStates.h"
#include "attn/Dialect/TileGPU/IR/SharedLayout.h"
#include "attn/Emulator/Machine.h"
#include "attn/Target/TargetInfo.h"
#include "llvm/ADT/SetVector.h"

#include "attn/Emulator/EmulatedOpInterface.cpp.inc"

using namespace mlir;
using namespace mlir::tile_gpu;
namespace emulator = ::attn::emulator;
using namespace ::attn::emulator;

TileInfo emulator::tileInfoOf(SmemType type) {
  TileInfo info;
  info.rows = type.getStoredRows();
  info.cols = type.getStoredCols();
  info.boxes = type.getBoxes();
  info.elementBytes = type.getElementBytes();
  info.panelCols =
      type.getSwizzle() ? type.getSwizzle() / info.elementBytes : info.cols;
  info.transposed = type.getTransposed();
  auto scalar = scalarTypeOf(type.getElementType());
  info.isFloat = scalar && scalar->kind == Kind::F32;
  if (scalar)
    info.rounding = scalar->rounding;
  return info;
}

ProgramBuilder::ProgramBuilder(KernelOp kernel, const TargetInfo &target)
    : function(kernel), target(target),
      names(kernel, OpPrintingFlags().skipRegions().useLocalScope()),
      program(std::make_unique<KernelProgram>()) {
  program->name = kernel.getName().str();
}

std::string ProgramBuilder::nameOf(Value value) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  value.printAsOperand(stream, names);
  return text;
}

SlotId ProgramBuilder::newSlot() {
  program->initial.emplace_back();
  return SlotId(program->initial.size() - 1);
}

SlotId ProgramBuilder::slot(Value value) {
  auto [it, isNew] = values.try_emplace(value, noSlot);
  if (isNew)
    it->second = newSlot();
  return it->second;
}

llvm::SmallVector<SlotId> ProgramBuilder::slots(ValueRange range) {
  return llvm::map_to_vector(range, [&](Value value) { return slot(value); });
}

uint32_t ProgramBuilder::newLabel() {
  program->labels.push_back(0);
  return uint32_t(program->labels.size() - 1);
}

void ProgramBuilder::place(uint32_t label) {
  program->labels[label] = uint32_t(program->code.size());
}

void ProgramBuilder::emit(Operation *op, bool isShared,
                          std::function<Step(Agent &)> run) {
  Site site;
  llvm::raw_string_ostream stream(site.op);
  // A line says which operation it is; its type and regions do not.
  if (op->getNumResults()) {
    op->getResult(0).printAsOperand(stream, names);
    stream << " = ";
  }
  stream << op->getName();
  llvm::ListSeparator separator(", ");
  for (Value operand : op->getOperands().take_front(3)) {
    stream << (StringRef(separator).empty() ? " " : ", ");
    operand.printAsOperand(stream, names);
  }
  if (auto file = op->getLoc()->findInstanceOf<FileLineColLoc>())
    site.location = (file.getFilename().getValue() + ":" +
                     Twine(file.getLine()) + ":" + Twine(file.getColumn()))
                        .str();
  if (program->sites.empty() || program->sites.back().op != site.op ||
      program->sites.back().location != site.location)
    program->sites.push_back(std::move(site));
  Instruction instruction;
  instruction.run = std::move(run);
  instruction.site = uint32_t(program->sites.size() - 1);
  instruction.isShared = isShared;
  instruction.loop = loop;
  // The first instruction has the cost of all.
  if (uncounted == op) {
    uncounted = nullptr;
    instruction.cost = costOf(op);
    auto addRegisters = [&](ValueRange values, std::vector<SlotId> &to) {
      for (Value value : values)
        if (isa<FragType, VecType>(value.getType()))
          to.push_back(slot(value));
    };
    addRegisters(op->getOperands(), instruction.inputs);
    addRegisters(op->getResults(), instruction.outputs);
  }
  program->code.push_back(std::move(instruction));
}

OpCost ProgramBuilder::costOf(Operation *op) const {
  if (auto emulated = dyn_cast<EmulatedOpInterface>(op))
    return emulated.cost(target);
  OpCost cost;
  // Scalars are the same in all lanes, and take little beside what is not.
  if (auto scalar = scalarOpOf(op)) {
    cost.alu = scalar->cost.alu;
    cost.fma = scalar->cost.fma;
    cost.special = scalar->cost.special;
  }
  return cost;
}

uint32_t ProgramBuilder::beginLoop(Operation *op) {
  LoopInfo info;
  info.parent = loop;
  if (auto file = op->getLoc()->findInstanceOf<FileLineColLoc>())
    info.location = (file.getFilename().getValue() + ":" +
                     Twine(file.getLine()) + ":" + Twine(file.getColumn()))
                        .str();
  info.role = uint32_t(role ? role - program->roles.data() : 0);
  program->loops.push_back(std::move(info));
  return loop = uint32_t(program->loops.size() - 1);
}

void ProgramBuilder::endLoop() { loop = program->loops[loop].parent; }

void ProgramBuilder::emitCopies(Operation *op, llvm::ArrayRef<SlotId> from,
                                llvm::ArrayRef<SlotId> to) {
  std::vector<std::pair<SlotId, SlotId>> moves;
  for (auto [source, target] : llvm::zip_equal(from, to))
    if (source != target)
      moves.push_back({source, target});
  if (moves.empty())
    return;
  emit(op, false, [moves](Agent &a) {
    llvm::SmallVector<Slot, 8> taken;
    for (auto [source, target] : moves)
      taken.push_back(a.frame[source]);
    for (auto [source, target] : moves)
      for (const Product &product : a.products)
        if (product.left && product.left == a.frame[target].object &&
            a.frame[source].object != a.frame[target].object) {
          a.fail("writes the registers of an A fragment that a product in "
                 "flight reads");
          return Step::Stop;
        }
    for (size_t i = 0; i < moves.size(); ++i)
      a.frame[moves[i].second] = std::move(taken[i]);
    return Step::Next;
  });
}

template <typename Map>
static std::optional<uint32_t> lookUp(const Map &map, Value value) {
  auto it = map.find(value);
  if (it == map.end())
    return std::nullopt;
  return it->second;
}

std::optional<uint32_t> ProgramBuilder::ring(Value value) const {
  return lookUp(rings, value);
}
std::optional<uint32_t> ProgramBuilder::barrier(Value value) const {
  return lookUp(barriers, value);
}
std::optional<uint32_t> ProgramBuilder::schedule(Value value) const {
  return lookUp(schedules, value);
}

//===----------------------------------------------------------------------===//
// What a kernel creates
//===----------------------------------------------------------------------===//

uint32_t ProgramBuilder::addRegion(std::string name, SmemType tile,
                                   int64_t stages) {
  RegionInfo info;
  info.name = std::move(name);
  info.tile = tileInfoOf(tile);
  info.stages = uint32_t(stages);
  // 16 bytes, as chunks of copies are; single elements where threads write
  // such.
  Type element = tile.getElementType();
  if (element.isBF16() || element.isF16())
    info.cellElements = 8;
  else if (element.isTF32())
    info.cellElements = 4;
  program->regions.push_back(std::move(info));
  return uint32_t(program->regions.size() - 1);
}

int64_t ProgramBuilder::addMBarriers(const std::string &name, int64_t count,
                                     int64_t arrivals) {
  auto first = int64_t(program->mbarriers.size());
  for (int64_t i = 0; i < count; ++i)
    program->mbarriers.push_back({StringRef(name).ends_with("slot")
                                      ? name + " " + std::to_string(i)
                                      : name,
                                  arrivals});
  return first;
}

/// As the lowering places hand-overs of items.
LogicalResult ProgramBuilder::collectSchedule(SchedulerOp op) {
  schedules[op.getResult()] = uint32_t(program->schedules.size());
  program->schedules.emplace_back();
  ScheduleInfo &info = program->schedules.back();
  info.kind = ScheduleInfo::Kind(int(op.getKind()));
  info.order = op.getOrder();
  info.cluster = op.getCluster().value_or(1);
  info.tilesOfCluster = op.getTilesOfCluster();
  if (op.getTickets())
    info.tickets = slot(op.getTickets());
  info.tiles = slot(op.getTiles());
  info.heads = slot(op.getHeads());
  info.batch = slot(op.getBatch());
  if (op.getSplits())
    info.splits = slot(op.getSplits());
  if (op.getSection())
    info.section = slot(op.getSection());
  program->isPersistent |= info.kind != ScheduleInfo::Grid;
  program->cluster = std::max(program->cluster, info.cluster);
  if (info.kind != ScheduleInfo::Dynamic)
    return success();
  std::string name = "the schedule " + nameOf(op.getResult());
  int64_t leads = 0;
  for (Operation *user : op.getResult().getUsers()) {
    auto loop = dyn_cast<ForeachOp>(user);
    auto owner = dyn_cast_or_null<RoleOp>(user->getParentOp());
    if (!loop || !owner)
      return user->emitOpError("expected a dynamic schedule to be looped over "
                               "directly in a role");
    info.readers += owner.getWarps();
    leads += loop.getLead();
    if (loop.getLead() && ::attn::gpu::onlyDraws(loop))
      info.slots = 1;
  }
  if (leads != 1)
    return op.emitOpError("expected one lead loop over a dynamic schedule, but "
                          "got ")
           << leads;
  if (info.cluster > 1) {
    info.drawnFull = addMBarriers(name + "'s word for the cluster", 1, 1);
    info.drawnEmpty =
        addMBarriers(name + "'s word for the cluster, read", 1, info.cluster);
  }
  if (--info.readers > 0) {
    info.full = addMBarriers(name + ", item given, slot", info.slots, 1);
    info.empty =
        addMBarriers(name + ", item taken, slot", info.slots, info.readers);
  }
  return success();
}

LogicalResult ProgramBuilder::collect() {
  WalkResult walk = function.walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (auto create = dyn_cast<RingCreateOp>(op)) {
      RingType type = create.getRing().getType();
      RingInfo info;
      info.name = "ring " + nameOf(create.getRing());
      info.fill = ::attn::emulator::Fill(int(create.getFill()));
      info.producers = create.getProducers().value_or(0);
      info.consumers = create.getConsumers().value_or(0);
      info.cluster = create.getCluster().value_or(1);
      info.stages = type.getStages();
      program->cluster = std::max(program->cluster, info.cluster);
      for (auto [i, tile] : llvm::enumerate(type.getTiles())) {
        std::string name = info.name;
        if (type.getTiles().size() > 1)
          name += ", tile " + std::to_string(i);
        info.regions.push_back(addRegion(name, tile, info.stages));
        info.slotBytes += tile.getBytes();
      }
      if (info.fill != ::attn::emulator::Fill::CpGroup) {
        int64_t arrivals =
            info.fill == ::attn::emulator::Fill::Tma ? 1 : info.producers;
        info.full = addMBarriers("full barrier of " + info.name + ", slot",
                                 info.stages, arrivals);
        bool isTold = info.cluster > 1 &&
                      info.fill == ::attn::emulator::Fill::Tma &&
                      !create.getReleaseAll();
        if (info.consumers)
          info.empty = addMBarriers(
              "empty barrier of " + info.name + ", slot", info.stages,
              info.consumers * (isTold ? 1 : info.cluster));
        if (info.consumers && isTold)
          info.allEmpty = addMBarriers("empty barrier of all blocks of " +
                                           info.name + ", slot",
                                       info.stages, info.cluster);
      }
      rings[create.getRing()] = uint32_t(program->rings.size());
      program->rings.push_back(std::move(info));
    } else if (auto alloc = dyn_cast<SmemAllocOp>(op)) {
      regions[op] = addRegion("tile " + nameOf(alloc.getTile()),
                              alloc.getTile().getType(), 1);
    } else if (auto ramp = dyn_cast<SmemRampOp>(op)) {
      regions[op] = addRegion("ramp " + nameOf(ramp.getTile()),
                              ramp.getTile().getType(), 1);
      program->regions.back().isRamp = true;
    } else if (auto create = dyn_cast<BarrierCreateOp>(op)) {
      barriers[create.getBarrier()] = uint32_t(program->barriers.size());
      std::string name = "barrier " + nameOf(create.getBarrier());
      for (uint64_t i = 0; i < create.getEach(); ++i)
        program->barriers.push_back(
            {create.getEach() > 1 ? name + "[" + std::to_string(i) + "]" : name,
             int64_t(create.getWarps())});
    } else if (auto scheduler = dyn_cast<SchedulerOp>(op)) {
      if (failed(collectSchedule(scheduler)))
        return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  return failure(walk.wasInterrupted());
}

//===----------------------------------------------------------------------===//
// The program
//===----------------------------------------------------------------------===//

LogicalResult ProgramBuilder::append(Operation *op) {
  uncounted = op;
  if (auto emulated = dyn_cast<EmulatedOpInterface>(op))
    return emulated.emulate(*this);
  SmallVector<Value, 3> operands;
  if (auto scalar = scalarOpOf(op, operands)) {
    llvm::SmallVector<SlotId, 3> in = slots(operands);
    SlotId out = slot(op->getResult(0));
    ScalarOp what = *scalar;
    if (in.size() > 3)
      return op->emitOpError("expected at most three operands");
    in.resize(3, in.front());
    SlotId x = in[0], y = in[1], z = in[2];
    emit(op, false, [what, x, y, z, out](Agent &a) {
      const void *inputs[] = {&a.frame[x].bits, &a.frame[y].bits,
                              &a.frame[z].bits};
      int64_t result = 0;
      evaluate(what, 1, inputs, &result);
      a.frame[out].bits = result;
      return Step::Next;
    });
    return success();
  }
  return op->emitOpError("expected an operation that the emulator knows");
}

LogicalResult ProgramBuilder::append(Block &block) {
  for (Operation &op : block.without_terminator())
    if (failed(append(&op)))
      return failure();
  return success();
}

static std::optional<ParamKind> paramKindOf(Type type) {
  if (isa<MemRefType>(type))
    return ParamKind::Memref;
  if (isa<TensorMapType>(type))
    return ParamKind::TensorMap;
  if (type.isF32())
    return ParamKind::F32;
  if (type.isF64())
    return ParamKind::F64;
  if (type.isIndex() || type.isInteger(64))
    return ParamKind::I64;
  if (type.isInteger(32))
    return ParamKind::I32;
  if (type.isInteger(1) || type.isInteger(8))
    return ParamKind::I8;
  return std::nullopt;
}

LogicalResult ProgramBuilder::run() {
  if (failed(collect()))
    return failure();
  for (BlockArgument argument : function.getArguments()) {
    auto kind = paramKindOf(argument.getType());
    if (!kind)
      return function.emitError("expected parameters that launches pass, but "
                                "got ")
             << argument.getType();
    int64_t rank = 0;
    if (auto memref = dyn_cast<MemRefType>(argument.getType()))
      rank = memref.getRank();
    program->params.push_back({*kind, rank, slot(argument)});
  }
  ::attn::gpu::RoleLayout placement(function);
  for (auto op : function.getOps<RoleOp>()) {
    RoleInfo info;
    info.name = op.getName().str();
    info.isGroup = op.getScope() == Scope::Warpgroup;
    info.count = op.getCount();
    info.warps = op.getWarps();
    info.firstWarp = placement.firstWarp[op];
    program->warps = info.firstWarp + info.warps;
    info.member = slot(op.getBody().getArgument(0));
    info.barrier = int64_t(program->barriers.size());
    if (!info.isGroup)
      program->barriers.push_back(
          {"the barrier of role '" + info.name + "'", info.warps});
    program->roles.push_back(std::move(info));
  }
  program->registers = placement.registers;
  program->blocks = function.getOccupancy();
  program->endsApart = program->cluster > 1 && endsApart(function);
  // Kernels that no GPU could take are emulated too, and those without places.
  {
    ::attn::gpu::SharedLayout layout;
    ScopedDiagnosticHandler quiet(function.getContext(),
                                  [](Diagnostic &) { return success(); });
    if (succeeded(layout.read(function))) {
      if (!layout.isPlaced())
        layout.allocate();
      program->sharedBytes = layout.getBytes();
    }
  }
  // Everybody begins with what comes before the roles.
  for (Operation &op : function.getBody().front().without_terminator())
    if (!isa<RoleOp>(op) && failed(append(&op)))
      return failure();
  emit(function, false, [](Agent &a) { return a.jump(a.role.entry); });
  for (auto [op, info] :
       llvm::zip_equal(function.getOps<RoleOp>(), program->roles)) {
    roleOp = op;
    role = &info;
    info.entry = uint32_t(program->code.size());
    if (failed(appendRole(*this, op)))
      return failure();
  }
  return success();
}
