//===- KeepWorkspace.cpp - Workspace that depends on numbers alone --------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The lists of a mask that reads no tensors are the same in each run of the
// same sizes, and the kernels that make them take a tenth of a short one's
// time. Here the first run writes them:
//
//   lists, new = keep(sizes) key(numbers)
//   launch make grid(new ? n : 0) args(lists, numbers)
//   launch reduce args(q, k, v, lists)
//===----------------------------------------------------------------------===//

#include "attn/Dialect/Tile/IR/Tile.h"
#include "attn/Dialect/TileGPU/IR/TileGPU.h"
#include "attn/Dialect/TileGPU/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"

#define DEBUG_TYPE "tile-gpu-keep-workspace"

namespace attn {
#define GEN_PASS_DEF_TILEGPUKEEPWORKSPACEPASS
#include "attn/Dialect/TileGPU/Transforms/Passes.h.inc"
} // namespace attn

using namespace mlir;
using namespace mlir::tile_gpu;

/// Whether a kernel asks for the sizes of a tensor, and for nothing else of it.
static bool asksForSizes(BlockArgument tensor) {
  return llvm::all_of(tensor.getUsers(), [](Operation *user) {
    auto dim = dyn_cast<memref::DimOp>(user);
    return dim && dim.getConstantIndex();
  });
}

/// Whether a kernel at most reads a tensor.
static bool onlyReads(BlockArgument tensor) {
  return llvm::all_of(tensor.getUsers(), [&](Operation *user) {
    if (isa<memref::DimOp>(user))
      return true;
    auto reads = dyn_cast<MemoryEffectOpInterface>(user);
    if (!reads ||
        llvm::any_of(user->getResultTypes(), llvm::IsaPred<MemRefType>))
      return false;
    SmallVector<MemoryEffects::EffectInstance> effects;
    reads.getEffectsOnValue(tensor, effects);
    return !effects.empty() &&
           llvm::all_of(effects, [](const MemoryEffects::EffectInstance &each) {
             return isa<MemoryEffects::Read>(each.getEffect());
           });
  });
}

namespace {
/// The launches of one plan.
class Plan {
public:
  Plan(func::FuncOp plan, SymbolTable &symbols)
      : plan(plan), symbols(symbols) {}
  /// The number of workspaces that are kept, by an operation with a number.
  int64_t run(int64_t number);

private:
  KernelOp kernelOf(LaunchOp launch) const {
    auto kernel = symbols.lookup<KernelOp>(launch.getKernel());
    return kernel && !kernel.isExternal() ? kernel : KernelOp();
  }
  bool readsNumbers(LaunchOp launch) const;
  bool mayKeep(tile::WorkspaceOp workspace) const;
  bool findLaunches();
  std::optional<SmallVector<Value>> makeKey(OpBuilder &b) const;

  func::FuncOp plan;
  SymbolTable &symbols;
  /// Workspace that may be kept, and the launches that write it.
  SetVector<Value> kept;
  SetVector<Operation *> writers;
};
} // namespace

/// Whether nothing but numbers, sizes and what is kept says what the kernel of
/// a launch does.
bool Plan::readsNumbers(LaunchOp launch) const {
  KernelOp kernel = kernelOf(launch);
  if (!kernel)
    return false;
  for (auto [argument, value] :
       llvm::zip(kernel.getBody().getArguments(), launch.getArguments())) {
    if (argument.use_empty() || argument.getType().isIntOrIndexOrFloat())
      continue;
    if (!isa<MemRefType>(argument.getType()) ||
        !(kept.contains(value) || asksForSizes(argument)))
      return false;
  }
  return true;
}

/// Whether all launches that have a workspace write it again as it is, or read
/// it.
bool Plan::mayKeep(tile::WorkspaceOp workspace) const {
  return llvm::all_of(workspace->getUses(), [&](OpOperand &use) {
    if (use.getOwner()->getBlock() != workspace->getBlock())
      return false;
    auto launch = dyn_cast<LaunchOp>(use.getOwner());
    if (!launch)
      return isa<memref::DimOp>(use.getOwner());
    KernelOp kernel = kernelOf(launch);
    unsigned first = launch.getArguments().getBeginOperandIndex();
    return writers.contains(launch) ||
           (kernel && onlyReads(kernel.getBody().getArgument(
                          use.getOperandNumber() - first)));
  });
}

/// Finds what is kept; false where that is nothing.
bool Plan::findLaunches() {
  Block &body = plan.getBody().front();
  for (auto workspace : body.getOps<tile::WorkspaceOp>())
    kept.insert(workspace.getResult());
  for (bool isDone = false; !isDone;) {
    writers.clear();
    for (auto launch : body.getOps<LaunchOp>())
      if (llvm::any_of(launch.getArguments(),
                       [&](Value value) { return kept.contains(value); }) &&
          readsNumbers(launch))
        writers.insert(launch);
    isDone = !kept.remove_if([&](Value value) {
      return !mayKeep(value.getDefiningOp<tile::WorkspaceOp>());
    });
  }
  // All of it is written behind where it is asked for.
  kept.remove_if([&](Value value) {
    return llvm::none_of(value.getUsers(), [&](Operation *user) {
      return writers.contains(user);
    });
  });
  return !kept.empty() && llvm::all_of(kept, [&](Value value) {
    return llvm::all_of(value.getUsers(), [&](Operation *user) {
      return user == writers.front() || writers.front()->isBeforeInBlock(user);
    });
  });
}

/// The numbers that the writers read, ahead of the first; nothing where they
/// are not there yet.
std::optional<SmallVector<Value>> Plan::makeKey(OpBuilder &b) const {
  Operation *first = writers.front();
  Location loc = first->getLoc();
  SetVector<Value> numbers;
  SetVector<std::pair<Value, int64_t>> sizes;
  auto isThere = [&](Value value) {
    Operation *def = value.getDefiningOp();
    return !def || (def->getBlock() == first->getBlock() &&
                    def->isBeforeInBlock(first));
  };
  for (Value memory : kept)
    if (!llvm::all_of(memory.getDefiningOp()->getOperands(), isThere))
      return std::nullopt;
  for (Operation *op : writers) {
    auto launch = cast<LaunchOp>(op);
    // How many blocks there are says what is written as well.
    if (!isThere(launch.getGrid()))
      return std::nullopt;
    numbers.insert(launch.getGrid());
    for (auto [argument, value] :
         llvm::zip(kernelOf(launch).getBody().getArguments(),
                   launch.getArguments())) {
      if (argument.use_empty() || kept.contains(value))
        continue;
      if (!isThere(value))
        return std::nullopt;
      if (!isa<MemRefType>(argument.getType()))
        numbers.insert(value);
      else
        for (Operation *user : argument.getUsers())
          sizes.insert({value, *cast<memref::DimOp>(user).getConstantIndex()});
    }
  }
  for (auto [tensor, dim] : sizes)
    numbers.insert(b.createOrFold<memref::DimOp>(loc, tensor, dim));
  SmallVector<Value> key;
  for (Value number : numbers) {
    Type type = number.getType();
    if (isa<FloatType>(type))
      number = arith::BitcastOp::create(
          b, loc, b.getIntegerType(type.getIntOrFloatBitWidth()), number);
    if (type.isIndex())
      number = arith::IndexCastOp::create(b, loc, b.getI64Type(), number);
    else if (number.getType() != b.getI64Type())
      number = arith::ExtUIOp::create(b, loc, b.getI64Type(), number);
    key.push_back(number);
  }
  return key;
}

int64_t Plan::run(int64_t number) {
  if (!findLaunches())
    return 0;
  OpBuilder b(writers.front());
  Location loc = writers.front()->getLoc();
  std::optional<SmallVector<Value>> key = makeKey(b);
  if (!key)
    return 0;
  SmallVector<Type> types;
  SmallVector<Value> sizes;
  for (Value value : kept) {
    types.push_back(value.getType());
    llvm::append_range(sizes,
                       value.getDefiningOp<tile::WorkspaceOp>().getSizes());
  }
  auto keep = KeepOp::create(b, loc, types, b.getI1Type(), number, sizes, *key);
  for (auto [old, memory] : llvm::zip(kept.takeVector(), keep.getMemories())) {
    auto workspace = old.getDefiningOp<tile::WorkspaceOp>();
    workspace.getResult().replaceAllUsesWith(memory);
    workspace.erase();
  }
  Value none = arith::ConstantIndexOp::create(b, loc, 0);
  for (Operation *op : writers) {
    auto launch = cast<LaunchOp>(op);
    b.setInsertionPoint(launch);
    launch.getGridMutable().assign(arith::SelectOp::create(
        b, loc, keep.getIsNew(), launch.getGrid(), none));
  }
  return types.size();
}

namespace {
struct KeepWorkspacePass
    : ::attn::impl::TileGpuKeepWorkspacePassBase<KeepWorkspacePass> {
  void runOnOperation() final {
    SymbolTable symbols(getOperation());
    int64_t number = 0;
    for (auto plan : getOperation().getOps<func::FuncOp>())
      if (plan->hasAttr(tile::TileDialect::planName) && !plan.isExternal())
        numKept += Plan(plan, symbols).run(number++);
  }
};
} // namespace
