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
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::tile_gpu;
using namespace ::attn;
using namespace ::attn::gpu;

static constexpr int64_t groupWarps =
    TargetInfo::warpgroupThreads / TargetInfo::warpThreads;

int64_t gpu::blockRowsOf(Scope scope) {
  return scope == Scope::Warp ? MmaShape::warp().m : MmaShape::warpgroup().m;
}

bool gpu::isPacked(FragType type) {
  return type.getElementType().isBF16() || type.getElementType().isF16();
}

FragShape::FragShape(FragType type)
    : blocks(type.getRows() / blockRowsOf(type.getScope())),
      colBlocks(type.getCols() / 8), blockRows(blockRowsOf(type.getScope())) {}

KernelLowering::KernelLowering(KernelOp kernel, const TargetInfo &target,
                               OpBuilder moduleBuilder)
    : kernel(kernel), target(target), moduleBuilder(moduleBuilder),
      e(kernel.getContext()), placement(kernel), threads(placement.threads) {}

LogicalResult KernelLowering::unsupported(Operation *op,
                                          const Twine &expected) {
  return op->emitOpError("expected ") << expected;
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

Values &KernelLowering::of(Value value) {
  auto loaded = packedLoads.find(value);
  if (loaded == packedLoads.end())
    return values[value];
  // Made anew for each user, so that nothing waits for the load before; what
  // is the same LLVM finds.
  auto &[words, places, memory] = loaded->second;
  Values elements;
  for (unsigned place : places)
    elements.push_back(e.widen(e.unpack(words[place / 2], place % 2, memory)));
  return values[value] = std::move(elements);
}

Type KernelLowering::scalarType(Type type) {
  return type.isIndex() ? e.i64 : type;
}

int64_t KernelLowering::registerCount(Type type) {
  if (auto token = dyn_cast<TokenType>(type))
    return token.getFragType().getRegisters();
  if (auto frag = dyn_cast<FragType>(type))
    return frag.getRegisters();
  auto vec = cast<VecType>(type);
  if (vec.getAxis() == Axis::Row)
    return vec.getSize() / blockRowsOf(vec.getScope()) * 2;
  return vec.getSize() / 8 * 2;
}

Type KernelLowering::registerType(Type type) {
  if (auto frag = dyn_cast<FragType>(type))
    return isPacked(frag) || frag.getElementType().isTF32()
               ? e.i32
               : frag.getElementType();
  if (auto vec = dyn_cast<VecType>(type))
    return vec.getElementType();
  return e.f32; // Tokens own accumulators.
}

void KernelLowering::flatten(Type type, SmallVectorImpl<Type> &types) {
  if (isa<FragType, VecType, TokenType>(type))
    types.append(registerCount(type), registerType(type));
  else if (isa<SmemType>(type))
    types.push_back(e.i32);
  else if (isa<TensorMapType>(type))
    types.push_back(e.generic);
  else if (auto memref = dyn_cast<MemRefType>(type)) {
    types.push_back(e.global);
    types.append(2 * memref.getRank(), e.i64);
  } else
    types.push_back(scalarType(type));
}

Values KernelLowering::flat(ValueRange operands) {
  Values result;
  for (Value operand : operands)
    llvm::append_range(result, of(operand));
  return result;
}

void KernelLowering::setAll(ValueRange results, ValueRange flat) {
  size_t at = 0;
  for (Value result : results) {
    SmallVector<Type> types;
    flatten(result.getType(), types);
    set(result, Values(flat.slice(at, types.size())));
    at += types.size();
  }
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

LogicalResult KernelLowering::run() {
  for (auto scheduler : kernel.getOps<SchedulerOp>())
    persistent |= scheduler.getKind() != ScheduleKind::Grid;
  if (threads == 0)
    return kernel.emitOpError("expected 1 role or more, but got none");
  if (failed(checkCluster()) || failed(layout.read(kernel)))
    return failure();
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

  for (Operation &op : kernel.getBody().front().without_terminator())
    if (!isa<RoleOp>(op) && failed(lowerOp(&op)))
      return failure();
  initializeBarriers();
  return dispatchRoles();
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
    return syncCluster();
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
      if (cluster > 1)
        syncCluster();
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
  role.row = e.add(e.shl(role.warpInMember, 4), e.lshr(lane, 2));
  role.col = e.shl(e.and_(lane, 3), 1);
  role.elected = isGroup
                     ? e.eq(e.and_(thread, TargetInfo::warpgroupThreads - 1), 0)
                     : lane0;
  set(op.getBody().getArgument(0), {role.member});
  openTurns(op);
  if (failed(lowerBlock(op.getBody().front())))
    return failure();
  closeTurns(op);
  return success();
}

LogicalResult KernelLowering::lowerBlock(Block &block) {
  for (Operation &op : block.without_terminator())
    if (failed(lowerOp(&op)))
      return failure();
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
      .Case([&](RingAcquireOp o) { return lowerAcquire(o); })
      .Case([&](RingWaitOp o) { return lowerWait(o); })
      .Case([&](RingViewSlotOp o) { return lowerView(o); })
      .Case([&](RingReleaseOp o) { return lowerRelease(o); })
      .Case([&](RingCommitOp o) { return lowerCommit(o); })
      .Case([&](RingLoadOp o) { return lowerRingLoad(o); })
      .Case([&](ExchangeOp o) { return lowerExchange(o); })
      .Case<BarrierSyncOp, TurnWaitOp, TurnPassOp>([&](auto o) {
        return lowerBarrier(o, o.getBarrier(), o.getMember());
      })
      .Case([&](BulkStoreOp o) { return lowerBulkStore(o); })
      .Case([&](BulkReduceOp o) { return lowerBulkReduce(o); })
      .Case([&](BulkWaitOp o) { return lowerBulkWait(o); })
      .Case([&](LaunchDependentsOp) {
        e.assembly("griddepcontrol.launch_dependents;", "", {});
        return success();
      })
      .Case([&](WaitDependenciesOp) {
        e.assembly("griddepcontrol.wait;", "~{memory}", {});
        return success();
      })
      .Case([&](SmemTransposeOp o) {
        set(o.getResult(), of(o.getTile()));
        return success();
      })
      .Case([&](SmemSliceOp o) { return lowerSlice(o); })
      .Case([&](SmemClearRowsOp o) { return lowerClearRows(o); })
      .Case([&](SmemRampOp o) { return lowerSmemRamp(o); })
      .Case([&](SmemMapOp o) { return lowerSmemMap(o); })
      .Case([&](SmemTurnOp o) { return lowerSmemTurn(o); })
      .Case([&](FragFillOp o) { return lowerFill(o); })
      .Case([&](FragCopyOp o) {
        set(o.getResult(), of(o.getValue()));
        return success();
      })
      .Case([&](FragLoadOp o) { return lowerFragLoad(o); })
      .Case([&](FragStoreOp o) {
        return seenByWarp([&] { return lowerFragStore(o); });
      })
      .Case([&](FragConvertOp o) { return lowerConvert(o); })
      .Case([&](FragPadOp o) { return lowerPad(o); })
      .Case([&](VecLoadOp o) { return lowerVecLoad(o); })
      .Case([&](VecStoreOp o) {
        return seenByWarp([&] { return lowerVecStore(o); });
      })
      .Case([&](ScanOp o) { return lowerScan(o); })
      .Case([&](AnyOp o) { return lowerAny(o); })
      .Case([&](VecElementsOp o) { return lowerVecElements(o); })
      .Case([&](MmaIssueOp o) { return lowerIssue(o); })
      .Case([&](MmaWaitOp o) { return lowerMmaWait(o); })
      .Case([&](MmaSyncOp o) { return lowerMmaSync(o); })
      .Case([&](MapOp o) { return lowerMap(o); })
      .Case([&](ReduceOp o) { return lowerReduce(o); })
      .Case([&](MergeStatesOp o) { return lowerMerge(o); })
      .Case([&](GlobalLoadOp o) { return lowerGlobalLoad(o); })
      .Case([&](GlobalStoreBitsOp o) { return lowerStoreBits(o); })
      .Case([&](GlobalStoreOp o) {
        return lowerGlobalWrite(o, o.getValue(), o.getDestination(),
                                o.getIndices(), o.getRows(), o.getTransposed(),
                                o.getPermuted(), /*reduce=*/false);
      })
      .Case([&](GlobalReduceOp o) { return lowerReduceInMemory(o); })
      .Case([&](BlockTurnWaitOp o) { return lowerBlockTurnWait(o); })
      .Case([&](BlockTurnPassOp o) { return lowerBlockTurnPass(o); })
      .Default([&](Operation *o) {
        if (isa<memref::MemRefDialect>(o->getDialect()))
          return lowerMemory(o);
        if (isa<math::MathDialect>(o->getDialect()))
          return lowerMath(o);
        return lowerScalar(o);
      });
}
