//===- KernelLowering.cpp - The frame of a kernel -------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Parameters, threads and roles; what runs inside a role is in the files
// beside this one.
//
//===----------------------------------------------------------------------===//

#include "KernelLowering.h"
#include "attn/Dialect/TileGPU/IR/MergedStates.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::tile_gpu;
using namespace ::attn;
using namespace ::attn::gpu;

KernelLowering::KernelLowering(KernelOp kernel, const TargetInfo &target,
                               OpBuilder moduleBuilder)
    : KernelContext(kernel, target), moduleBuilder(moduleBuilder),
      placement(kernel) {
  threads = placement.threads;
}

//===----------------------------------------------------------------------===//
// The function
//===----------------------------------------------------------------------===//

LLVM::LLVMFuncOp KernelLowering::createFunction() {
  MLIRContext *context = kernel.getContext();
  SmallVector<Type> types;
  SmallVector<std::pair<unsigned, Type>> maps;
  for (Type type : kernel.getArgumentTypes()) {
    if (isa<TensorMapType>(type))
      maps.push_back({types.size(), type});
    if (type.isSignlessInteger(1))
      types.push_back(e.i8);
    else
      flatten(type, types);
  }
  auto type =
      LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(context), types);
  function = LLVM::LLVMFuncOp::create(moduleBuilder, kernel.getLoc(),
                                      kernel.getName(), type);
  Builder &b = moduleBuilder;
  function->setAttr("nvvm.kernel", b.getUnitAttr());
  function->setAttr("gpu.kernel", b.getUnitAttr());
  function->setAttr("nvvm.reqntid", b.getDenseI32ArrayAttr({int32_t(threads)}));
  // Else ptxas takes as many registers as one block may have.
  function->setAttr("nvvm.minctasm",
                    b.getI32IntegerAttr(int32_t(kernel.getOccupancy())));
  if (cluster > 1)
    function->setAttr("nvvm.cluster_dim",
                      b.getDenseI32ArrayAttr({int32_t(cluster), 1, 1}));
  for (auto [index, map] : maps) {
    constexpr int64_t mapBytes = 128, mapAlignment = 64;
    function.setArgAttr(
        index, LLVM::LLVMDialect::getByValAttrName(),
        TypeAttr::get(LLVM::LLVMArrayType::get(e.i8, mapBytes)));
    function.setArgAttr(index, LLVM::LLVMDialect::getAlignAttrName(),
                        b.getI64IntegerAttr(mapAlignment));
    function.setArgAttr(index, "nvvm.grid_constant", b.getUnitAttr());
  }
  Block *entry = function.addEntryBlock(moduleBuilder);
  e.setEntry(entry);
  unsigned at = 0;
  for (BlockArgument argument : kernel.getArguments()) {
    Type argumentType = argument.getType();
    if (argumentType.isSignlessInteger(1)) {
      set(argument, {e.icmp(LLVM::ICmpPredicate::ne, entry->getArgument(at++),
                            e.constant(e.i8, 0))});
      continue;
    }
    SmallVector<Type> flatTypes;
    flatten(argumentType, flatTypes);
    Values flatValues(entry->getArguments().slice(at, flatTypes.size()));
    at += flatTypes.size();
    if (auto memref = dyn_cast<MemRefType>(argumentType)) {
      // What the type knows is better known as a constant.
      SmallVector<int64_t> strides;
      int64_t offset, rank = memref.getRank();
      if (succeeded(memref.getStridesAndOffset(strides, offset)))
        for (int64_t i = 0; i < rank; ++i) {
          if (!memref.isDynamicDim(i))
            flatValues[1 + i] = e.c64(memref.getDimSize(i));
          if (!ShapedType::isDynamic(strides[i]))
            flatValues[1 + rank + i] = e.c64(strides[i]);
        }
    }
    set(argument, std::move(flatValues));
  }
  return function;
}

/// The name of dynamic shared memory in every kernel module.
static constexpr StringRef sharedName = "attn_shared";

/// Whether fragments of a role have eight rows of each warp, as all have then.
static bool hasHalves(RoleOp role) {
  return role
      .walk([](Operation *op) {
        bool isHalf = llvm::any_of(op->getResultTypes(), [](Type type) {
          auto frag = dyn_cast<FragType>(type);
          return frag && frag.isHalf();
        });
        return isHalf ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

LogicalResult KernelLowering::run() {
  for (auto scheduler : kernel.getOps<SchedulerOp>())
    persistent |= scheduler.getKind() != ScheduleKind::Grid;
  if (threads == 0)
    return kernel.emitOpError("expected 1 role or more, but got none");
  // LLVM's assembly printer ends the process at others.
  StringRef name = kernel.getName();
  if (llvm::isDigit(name.front()) ||
      !llvm::all_of(name, [](char c) { return llvm::isAlnum(c) || c == '_'; }))
    return kernel.emitOpError("expected a name that PTX can have, of letters, "
                              "digits and underscores, but got '")
           << name << "'";
  FailureOr<int64_t> blocks = clusterOf(kernel, target);
  if (failed(blocks) || failed(layout.read(kernel)))
    return failure();
  cluster = *blocks;
  if (!layout.isPlaced())
    return kernel.emitOpError("expected its shared memory and barriers to have "
                              "places; run tile-gpu-allocate-shared first");
  int64_t mostBlocks = ::attn::onchip::mostBlocks(
      {threads, layout.getBytes(), placement.registers}, target);
  if (kernel.getOccupancy() > mostBlocks)
    return kernel.emitOpError("expected an occupancy of at most ")
           << mostBlocks << " with " << threads << " threads, but got "
           << kernel.getOccupancy();
  e.loc = kernel.getLoc();
  createFunction();

  auto module = function->getParentOp();
  if (!SymbolTable::lookupSymbolIn(module, sharedName)) {
    OpBuilder::InsertionGuard guard(moduleBuilder);
    moduleBuilder.setInsertionPointToStart(&module->getRegion(0).front());
    LLVM::GlobalOp::create(moduleBuilder, e.loc,
                           LLVM::LLVMArrayType::get(e.i8, 0),
                           /*isConstant=*/false, LLVM::Linkage::External,
                           sharedName, Attribute(), /*alignment=*/1024,
                           /*addrSpace=*/3);
  }
  Value shared = LLVM::AddressOfOp::create(
      e.b, e.loc, LLVM::LLVMPointerType::get(e.b.getContext(), 3), sharedName);
  sharedBase = LLVM::TruncOp::create(
      e.b, e.loc, e.i32, LLVM::PtrToIntOp::create(e.b, e.loc, e.i64, shared));
  // As assembly, LLVM does not read it again in each turn of a loop.
  hiddenZero = e.assembly("mov.u32 $0, %ctaid.z;", "=r", {}, {e.i32}).front();
  thread = e.call("llvm.nvvm.read.ptx.sreg.tid.x", e.i32, {});
  // The same for all lanes, and known to be.
  warp = e.shuffleIndex(e.lshr(thread, 5), 0);
  lane = e.and_(thread, 31);
  lane0 = e.eq(lane, 0);
  if (llvm::any_of(kernel.getOps<RoleOp>(), hasHalves))
    declareOtherRows(e);

  for (Operation &op : kernel.getBody().front().without_terminator())
    if (!isa<RoleOp>(op) && failed(lowerOp(&op)))
      return failure();
  initializeBarriers();
  if (failed(dispatchRoles()))
    return failure();
  waitBehindAddresses();
  return success();
}

void KernelLowering::initializeBarriers() {
  auto arrivals = layout.arrivals();
  if (arrivals.empty())
    return;
  Block *first = e.newBlock(), *rest = e.newBlock();
  e.branch(e.eq(thread, 0), first, rest);
  e.startBlock(first);
  for (auto [offset, count] : arrivals)
    e.assembly("mbarrier.init.shared::cta.b64 [$0], $1;", "r,r,~{memory}",
               {address(offset), e.c32(count)});
  if (target.hasTensorCopy)
    e.assembly("fence.mbarrier_init.release.cluster;", "~{memory}", {});
  e.branch(rest);
  e.startBlock(rest);
  // Other blocks arrive at these barriers, too.
  if (cluster > 1)
    return syncCluster(e);
  e.call("llvm.nvvm.barrier.cta.sync.aligned.all", {e.c32(0)});
}

LogicalResult KernelLowering::dispatchRoles() {
  auto roles = llvm::to_vector(kernel.getOps<RoleOp>());
  int64_t share = ::attn::onchip::evenShare(threads, target);
  auto isBelow = [&](int64_t end) { return e.lt(warp, e.c32(end)); };
  for (size_t i = 0; i < roles.size();) {
    // Roles of one warpgroup or more, which share a setting of registers.
    size_t end = i + 1;
    if (roles[i].getScope() == Scope::Warp)
      while (end < roles.size() && roles[end].getScope() == Scope::Warp)
        ++end;
    int64_t endWarp = llvm::alignTo(placement.firstWarp[roles[end - 1]] +
                                        roles[end - 1].getWarps(),
                                    groupWarps);
    Block *here = e.newBlock(), *others = nullptr;
    if (end < roles.size()) {
      others = e.newBlock();
      e.branch(isBelow(endWarp), here, others);
    } else {
      e.branch(here);
    }
    e.startBlock(here);
    if (std::optional<uint64_t> registers = roles[i].getRegisters()) {
      bool more = int64_t(*registers) > share;
      if (target.hasRoleRegisters && int64_t(*registers) != share)
        e.call(more ? "llvm.nvvm.setmaxnreg.inc.sync.aligned.u32"
                    : "llvm.nvvm.setmaxnreg.dec.sync.aligned.u32",
               {e.c32(*registers)});
    }
    for (; i < end; ++i) {
      int64_t roleEnd = placement.firstWarp[roles[i]] + roles[i].getWarps();
      Block *next = nullptr;
      if (roleEnd < endWarp) {
        Block *mine = e.newBlock();
        next = e.newBlock();
        e.branch(isBelow(roleEnd), mine, next);
        e.startBlock(mine);
      }
      if (failed(lowerRole(roles[i])))
        return failure();
      // A block's shared memory outlives what others have to say to it.
      if (cluster > 1 && !tile_gpu::endsApart(kernel))
        syncCluster(e);
      LLVM::ReturnOp::create(e.b, e.loc, ValueRange());
      if (next)
        e.startBlock(next);
      // Warps that only pad their warpgroup have no work.
      if (next && i + 1 == end)
        LLVM::ReturnOp::create(e.b, e.loc, ValueRange());
    }
    if (others)
      e.startBlock(others);
  }
  return success();
}

/// The maps of tensors come while a role waits for the launch before: a copy
/// that finds none waits for it.
static void askForMaps(KernelContext &k, RoleOp role) {
  llvm::SetVector<Value> maps;
  role.walk([&](RingLoadOp load) {
    if (isa<TensorMapType>(load.getSource().getType()))
      maps.insert(load.getSource());
  });
  for (Value map : maps)
    k.e.assembly("@$1 prefetch.tensormap [$0];", "l,b",
                 {k.scalar(map), k.role.elected});
}

LogicalResult KernelLowering::lowerRole(RoleOp op) {
  role = RoleContext();
  inverses.clear();
  role.op = op;
  role.scope = op.getScope();
  role.warps = op.getWarps();
  role.firstWarp = placement.firstWarp[op];
  bool isGroup = role.scope == Scope::Warpgroup;
  role.warpInRole = e.add(warp, -role.firstWarp);
  role.member = isGroup ? e.lshr(role.warpInRole, 2) : role.warpInRole;
  role.warpInMember = isGroup ? e.and_(warp, groupWarps - 1) : e.c32(0);
  role.warpRows = e.shl(role.warpInMember, hasHalves(op) ? 3 : 4);
  role.row = e.add(role.warpRows, e.lshr(lane, 2));
  role.col = e.shl(e.and_(lane, 3), 1);
  role.elected = isGroup
                     ? e.eq(e.and_(thread, TargetInfo::warpgroupThreads - 1), 0)
                     : lane0;
  set(op.getBody().getArgument(0), {role.member});
  askForMaps(*this, op);
  openTurns(*this, op);
  if (failed(lowerBlock(op.getBody().front())))
    return failure();
  closeTurns(*this, op);
  return success();
}

/// Instructions of a role know their threads by their places in it; registers
/// are spread over what its members are.
LogicalResult KernelLowering::checkPlace(Operation *op) {
  if (!role.op) {
    bool isPlaceless =
        isa<SchedulerOp, RingCreateOp, BarrierCreateOp, SmemAllocOp, SmemRampOp,
            SmemTransposeOp, SmemSliceOp, FragFillOp, LaunchDependentsOp,
            WaitDependenciesOp>(op);
    if (isPlaceless ||
        !isa<TileGPUDialect, memref::MemRefDialect>(op->getDialect()) ||
        isa<memref::LoadOp, memref::DimOp>(op))
      return success();
    return unsupported(op, "to be in a tile_gpu.role");
  }
  auto check = [&](Type type) -> LogicalResult {
    Scope scope = role.scope;
    if (auto frag = dyn_cast<FragType>(type))
      scope = frag.getScope();
    else if (auto vec = dyn_cast<VecType>(type))
      scope = vec.getScope();
    else if (isa<TokenType>(type))
      scope = Scope::Warpgroup;
    if (scope == role.scope)
      return success();
    return op->emitOpError("expected registers of a ")
           << stringifyScope(role.scope) << " in a role of "
           << stringifyScope(role.scope) << "s, but got " << type;
  };
  for (TypeRange types :
       {TypeRange(op->getOperandTypes()), TypeRange(op->getResultTypes())})
    for (Type type : types)
      if (failed(check(type)))
        return failure();
  return success();
}

LogicalResult KernelLowering::lowerOp(Operation *op) {
  e.loc = op->getLoc();
  if (failed(checkPlace(op)))
    return failure();
  return TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](scf::ForOp o) { return lowerFor(o); })
      .Case([&](scf::WhileOp o) { return lowerWhile(o); })
      .Case([&](scf::IfOp o) { return lowerIf(o); })
      .Case([&](ForeachOp o) { return lowerForeach(o); })
      .Case([&](SkipOp o) { return lowerSkip(o); })
      .Case([&](DrawNextOp o) { return lowerDrawNext(o); })
      // Known where they are used.
      .Case<SchedulerOp, RingCreateOp, BarrierCreateOp>(
          [&](Operation *) { return success(); })
      .Case([&](SmemAllocOp o) {
        std::optional<int64_t> offset = layout.tile(o);
        set(o.getTile(), {address(*offset)});
        return success();
      })
      .Case([&](LaunchDependentsOp) {
        e.assembly("griddepcontrol.launch_dependents;", "", {});
        return success();
      })
      .Case([&](WaitDependenciesOp) {
        waitDependencies();
        return success();
      })
      // Other names of what there is.
      .Case([&](SmemTransposeOp o) {
        set(o.getResult(), of(o.getTile()));
        return success();
      })
      .Case([&](FragCopyOp o) {
        set(o.getResult(), of(o.getValue()));
        return success();
      })
      .Case<RingAcquireOp, RingWaitOp, RingViewSlotOp, RingReleaseOp,
            RingCommitOp, RingLoadOp, ExchangeOp, BarrierSyncOp, TurnWaitOp,
            TurnPassOp, HoldOp, BulkStoreOp, BulkReduceOp, BulkWaitOp,
            SmemSliceOp, SmemClearRowsOp, SmemRampOp, SmemMapOp, SmemTurnOp,
            FragFillOp, FragLoadOp, FragStoreOp, FragConvertOp, FragPadOp,
            FragColsOp, VecLoadOp, VecStoreOp, ScanOp, AnyOp, VecElementsOp,
            MmaIssueOp, MmaWaitOp, MmaSyncOp, MapOp, ReduceOp, MergeStatesOp,
            FoldAboveOp, GlobalLoadOp, GlobalPrefetchOp, GlobalStoreBitsOp,
            GlobalStoreOp, GlobalReduceOp, BlockTurnWaitOp, BlockTurnPassOp>(
          [&](auto o) { return lower(*this, o); })
      .Default([&](Operation *o) {
        if (isa<memref::MemRefDialect>(o->getDialect()))
          return lowerMemory(*this, o);
        if (isa<math::MathDialect>(o->getDialect()))
          return lowerMath(*this, o);
        return lowerScalar(*this, o);
      });
}
