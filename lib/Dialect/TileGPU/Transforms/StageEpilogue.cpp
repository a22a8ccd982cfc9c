//===- StageEpilogue.cpp - Output tiles through shared memory -------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A store from the registers of an accumulator writes four bytes here and
// there. Through a tile of shared memory it becomes one copy for each panel of
// 128 bytes, or of 64 where those are not whole, which runs on while the
// warpgroup turns to its next item:
//
//   wait until this thread's last copies have read the tile;  barrier
//   store the fragment into the tile;                         barrier
//   start the copies
//
// Results that find no room of their own take turns in that of another one.
//
// A copy is bounded by the tensor alone. Where a store is bounded below that,
// as at the end of a packed sequence, it stays what it was, behind a test.
//===----------------------------------------------------------------------===//

#include "attn/Analysis/TargetAttr.h"
#include "attn/Dialect/Tile/IR/Tile.h"
#include "attn/Dialect/TileGPU/IR/SharedLayout.h"
#include "attn/Dialect/TileGPU/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include <numeric>

#define DEBUG_TYPE "tile-gpu-stage-epilogue"

namespace attn {
#define GEN_PASS_DEF_TILEGPUSTAGEEPILOGUEPASS
#include "attn/Dialect/TileGPU/Transforms/Passes.h.inc"
} // namespace attn

using namespace mlir;
using namespace mlir::tile_gpu;

/// Elements of 16 bits in the widest panel that a fragment has whole ones of,
/// and their bytes.
static int64_t panelCols(FragType frag) {
  constexpr int64_t widest = 64;
  return std::gcd(frag.getCols(), widest);
}
static int64_t panelBytes(FragType frag) { return 2 * panelCols(frag); }

namespace {
class Stager {
public:
  Stager(KernelOp kernel, const ::attn::TargetInfo &target)
      : kernel(kernel), target(target), b(kernel.getContext()) {}
  LogicalResult run();

private:
  bool isEligible(GlobalStoreOp store);
  void stage(GlobalStoreOp store, Value staging, Value barrier);

  KernelOp kernel;
  const ::attn::TargetInfo &target;
  OpBuilder b;
};
} // namespace

/// Tensor copies write whole words of 4 bytes at the end of a row, so an odd
/// number of columns would reach into the next one's place.
static bool endsWholeChunk(MemRefType memory) {
  constexpr int64_t chunk = 8;
  return !memory.isDynamicDim(memory.getRank() - 1) &&
         memory.getShape().back() % chunk == 0;
}

bool Stager::isEligible(GlobalStoreOp store) {
  constexpr int64_t leastBytes = 64;
  auto frag = dyn_cast<FragType>(store.getValue().getType());
  auto memory = cast<MemRefType>(store.getDestination().getType());
  auto argument = dyn_cast<BlockArgument>(store.getDestination());
  return frag && argument && argument.getOwner() == &kernel.getBody().front() &&
         frag.getScope() == Scope::Warpgroup &&
         frag.getElementType() == memory.getElementType() &&
         frag.getElementType().getIntOrFloatBitWidth() == 16 &&
         panelBytes(frag) >= leastBytes && memory.getRank() <= 5 &&
         memory.getRank() >= 2 && endsWholeChunk(memory) &&
         !store.getTransposed() && store.getRows() &&
         store->getParentOfType<RoleOp>() &&
         // What is left of a store that is staged already.
         llvm::none_of(store.getValue().getUsers(),
                       [](Operation *user) { return isa<FragStoreOp>(user); });
}

void Stager::stage(GlobalStoreOp store, Value staging, Value barrier) {
  Location loc = store.getLoc();
  auto role = store->getParentOfType<RoleOp>();
  Value member = role.getBody().getArgument(0);
  auto frag = cast<FragType>(store.getValue().getType());
  auto tile = cast<SmemType>(staging.getType());
  auto memory = cast<MemRefType>(store.getDestination().getType());
  MLIRContext *context = kernel.getContext();
  int64_t columns = panelCols(frag), swizzle = panelBytes(frag);

  // The tensor's map: a new argument of the kernel and of its launches.
  auto panel =
      SmemType::get(context, frag.getRows(), columns, frag.getElementType(),
                    swizzle, 1, frag.getRows(), false);
  auto mapType = TensorMapType::get(context, panel);
  unsigned source = cast<BlockArgument>(store.getDestination()).getArgNumber();
  kernel->getParentOfType<ModuleOp>().walk([&](LaunchOp launch) {
    if (launch.getKernel() != kernel.getName())
      return;
    b.setInsertionPoint(launch);
    Value map =
        TensorMapOp::create(b, loc, mapType, launch.getArguments()[source]);
    launch.getArgumentsMutable().append(map);
  });
  unsigned position = kernel.getNumArguments();
  (void)kernel.insertArgument(position, mapType, {}, loc);
  Value map = kernel.getArgument(position);

  b.setInsertionPoint(store);
  auto i32 = [&](int64_t value) -> Value {
    return arith::ConstantIntOp::create(b, loc, value, 32);
  };
  int64_t rowDim = memory.getRank() - 2;
  Value row = store.getIndices()[rowDim];
  // Whether the tensor ends where the store does, or later than the tile.
  Value extent = arith::IndexCastOp::create(
      b, loc, b.getI32Type(),
      memref::DimOp::create(b, loc, store.getDestination(), rowDim));
  Value end = arith::AddIOp::create(b, loc, row, i32(frag.getRows()));
  end = arith::MinSIOp::create(b, loc, end, extent);
  Value whole = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sge,
                                      store.getRows(), end);
  auto branch = scf::IfOp::create(b, loc, whole, /*withElseRegion=*/true);
  store->moveBefore(branch.elseBlock()->getTerminator());
  b.setInsertionPointToStart(branch.thenBlock());
  BulkWaitOp::create(b, loc, 0);
  BarrierSyncOp::create(b, loc, barrier, member,
                        /*threads_only=*/true);
  Value first = arith::MulIOp::create(b, loc, member, i32(frag.getRows()));
  auto part =
      SmemType::get(context, frag.getRows(), frag.getCols(),
                    frag.getElementType(), swizzle, 1, tile.getPitch(), false);
  Value mine = staging;
  if (tile.getRows() != frag.getRows())
    mine = SmemSliceOp::create(b, loc, part, staging, first, i32(0));
  FragStoreOp::create(b, loc, store.getValue(), mine,
                      /*fragment_order=*/false);
  BarrierSyncOp::create(b, loc, barrier, member, /*threads_only=*/false);
  for (int64_t col = 0; col < frag.getCols(); col += columns) {
    // Panels beyond the tensor would be written nowhere.
    if (!memory.isDynamicDim(rowDim + 1) &&
        col >= memory.getDimSize(rowDim + 1))
      break;
    auto slice = SmemType::get(
        context, frag.getRows(), columns, frag.getElementType(), swizzle, 1,
        cast<SmemType>(mine.getType()).getPitch(), false);
    Value piece = mine;
    if (frag.getCols() != columns)
      piece = SmemSliceOp::create(b, loc, slice, mine, i32(0), i32(col));
    SmallVector<Value> indices(store.getIndices());
    indices[rowDim + 1] =
        arith::AddIOp::create(b, loc, indices[rowDim + 1], i32(col));
    BulkStoreOp::create(b, loc, piece, map, indices);
  }
}

LogicalResult Stager::run() {
  SmallVector<GlobalStoreOp> stores;
  kernel.walk([&](GlobalStoreOp store) {
    if (isEligible(store))
      stores.push_back(store);
  });
  DenseSet<Operation *> roles;
  struct Staging {
    Operation *role;
    Value tile, barrier;
  };
  SmallVector<Staging> made;
  for (GlobalStoreOp store : stores) {
    auto role = store->getParentOfType<RoleOp>();
    auto frag = cast<FragType>(store.getValue().getType());
    int64_t rows = frag.getRows() * role.getCount();
    auto type =
        SmemType::get(kernel.getContext(), rows, frag.getCols(),
                      frag.getElementType(), panelBytes(frag), 1, rows, false);
    ::attn::gpu::SharedLayout taken;
    if (failed(taken.read(kernel)))
      return failure();
    if (taken.getTileBytes() + type.getBytes() >
        ::attn::onchip::roomForTiles(target)) {
      // What leaves behind another result waits until that has been read.
      auto it = llvm::find_if(made, [&](const Staging &other) {
        return other.role == role && other.tile.getType() == type;
      });
      if (it != made.end())
        stage(store, it->tile, it->barrier);
      continue;
    }
    Location loc = store.getLoc();
    b.setInsertionPointToStart(&kernel.getBody().front());
    Value staging = SmemAllocOp::create(b, loc, type, /*offset=*/IntegerAttr());
    Value barrier = BarrierCreateOp::create(
        b, loc, target.warpgroupThreads / target.warpThreads, role.getCount(),
        /*first=*/IntegerAttr());
    stage(store, staging, barrier);
    made.push_back({role, staging, barrier});
    roles.insert(role);
  }
  // No copy may still read shared memory when a role ends.
  for (Operation *role : roles) {
    Block &body = cast<RoleOp>(role).getBody().front();
    b.setInsertionPoint(body.getTerminator());
    BulkWaitOp::create(b, role->getLoc(), 0);
  }
  return success();
}

namespace {
struct StageEpiloguePass
    : ::attn::impl::TileGpuStageEpiloguePassBase<StageEpiloguePass> {
  void runOnOperation() final {
    ModuleOp module = getOperation();
    std::optional<::attn::TargetInfo> target = ::attn::getTarget(module);
    if (!target)
      return signalPassFailure();
    if (!target->hasTensorCopy)
      return;
    for (auto kernel : module.getOps<KernelOp>())
      if (!kernel.isExternal() && failed(Stager(kernel, *target).run()))
        return signalPassFailure();
  }
};
} // namespace
