//===- VectorContext.cpp - State of lowering one kernel -------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "VectorContext.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace mlir::tile;

/// Scratch slices start on cache lines.
static constexpr int64_t scratchAlignment = 64;

VectorContext::VectorContext(KernelOp kernel, const ::attn::TargetInfo &target)
    : kernel(kernel), target(target), builder(kernel.getContext()),
      lanes(target.lanes()),
      panelVectors(target.numVectorRegisters >= 32 ? 4 : 2) {}

//===----------------------------------------------------------------------===//
// Small helpers
//===----------------------------------------------------------------------===//

Value VectorContext::index(int64_t value) {
  return constant(builder.getIndexAttr(value));
}

Value VectorContext::constant(Attribute value) {
  // Once per kernel, at its top.
  Value &cached = constants[value];
  if (!cached) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(&kernel.front());
    cached = arith::ConstantOp::create(builder, kernel.getLoc(),
                                       cast<TypedAttr>(value));
  }
  return cached;
}

Value VectorContext::zero(Type type) {
  return constant(builder.getZeroAttr(type));
}

Value VectorContext::splat(Value scalar, int64_t width) {
  return vector::BroadcastOp::create(builder, scalar.getLoc(),
                                     vec(width, scalar.getType()), scalar);
}

void VectorContext::loop(Value upper, int64_t step, Location loc,
                         function_ref<void(Value)> body) {
  auto forOp = scf::ForOp::create(builder, loc, index(0), upper, index(step));
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(forOp.getBody());
  body(forOp.getInductionVar());
}

SmallVector<Value> VectorContext::carry(
    int64_t upper, ValueRange initial, Location loc,
    function_ref<SmallVector<Value>(Value, ArrayRef<Value>)> body) {
  auto forOp = scf::ForOp::create(builder, loc, index(0), index(upper),
                                  index(1), initial);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(forOp.getBody());
  SmallVector<Value> carried(forOp.getRegionIterArgs());
  SmallVector<Value> next = body(forOp.getInductionVar(), carried);
  // What the body refuses, its caller reports.
  scf::YieldOp::create(builder, loc,
                       next.size() == carried.size() ? next : carried);
  return forOp.getResults();
}

void VectorContext::loop(int64_t upper, int64_t step, Location loc,
                         function_ref<void(Value)> body) {
  if (upper <= step)
    return body(index(0));
  loop(index(upper), step, loc, body);
}

Value VectorContext::loadVector(Value memref, ValueRange indices,
                                int64_t width) {
  Type elementType = cast<MemRefType>(memref.getType()).getElementType();
  return vector::LoadOp::create(builder, memref.getLoc(),
                                vec(width, elementType), memref, indices);
}

void VectorContext::storeVector(Value vector, Value memref,
                                ValueRange indices) {
  vector::StoreOp::create(builder, memref.getLoc(), vector, memref, indices);
}

Value VectorContext::toFloat(Value vector, Type elementType) {
  Type from = getElementTypeOrSelf(vector.getType());
  if (from == elementType)
    return vector;
  Type to = elementType;
  if (auto type = dyn_cast<VectorType>(vector.getType()))
    to = type.clone(elementType);
  if (from.getIntOrFloatBitWidth() < elementType.getIntOrFloatBitWidth())
    return arith::ExtFOp::create(builder, vector.getLoc(), to, vector);
  if (from.getIntOrFloatBitWidth() > elementType.getIntOrFloatBitWidth())
    return arith::TruncFOp::create(builder, vector.getLoc(), to, vector);
  // f16 <-> bf16 go through f32.
  return toFloat(toFloat(vector, builder.getF32Type()), elementType);
}

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

Type VectorContext::storageType(Type elementType) {
  return elementType.isSignlessInteger(1) ? builder.getI8Type() : elementType;
}

Value VectorContext::allocateView(MemRefType type) {
  int64_t bytes =
      type.getNumElements() * ((type.getElementTypeBitWidth() + 7) / 8);
  int64_t offset = scratchBytes;
  scratchBytes += llvm::alignTo(bytes, scratchAlignment);
  // At the top of the kernel, so that one view serves every use.
  OpBuilder::InsertionGuard guard(builder);
  Value position = index(offset);
  builder.setInsertionPointAfter(anchor);
  return memref::ViewOp::create(builder, kernel.getLoc(), type, scratch,
                                position, ValueRange());
}

Value VectorContext::allocateFlat(int64_t count, Type elementType) {
  return allocateView(MemRefType::get({count}, elementType));
}

Value VectorContext::allocate(TileType type) {
  Type elementType = storageType(type.getElementType());
  if (type.isRowVector())
    // Whole vectors may be written at the end of a row vector.
    return allocateFlat(llvm::alignTo(type.getRows(), 16), elementType);
  return allocateView(
      MemRefType::get({type.getRows(), type.getCols()}, elementType));
}

Value VectorContext::allocateApart(TileType type) {
  if (type.isRowVector())
    return allocate(type);
  Value wide =
      allocate(TileType::get(builder.getContext(), type.getRows(),
                             type.getCols() + lanes, type.getElementType()));
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointAfterValue(wide);
  OpFoldResult zero = builder.getIndexAttr(0), one = builder.getIndexAttr(1);
  OpFoldResult sizes[] = {builder.getIndexAttr(type.getRows()),
                          builder.getIndexAttr(type.getCols())};
  return memref::SubViewOp::create(builder, kernel.getLoc(), wide,
                                   ArrayRef<OpFoldResult>{zero, zero}, sizes,
                                   ArrayRef<OpFoldResult>{one, one});
}

bool VectorContext::diesAt(Value value, Operation *op) {
  // Replaced loops and branches are no longer where they were.
  Block *home = homes.lookup(value);
  if (!home)
    home = value.getParentBlock();
  // Results of tile.rows and loops may share storage with the operands that
  // they update; the storage is read through either name, so ask for each
  // value that has this buffer.
  Value storage = buffer(value);
  for (auto &[other, memref] : buffers) {
    if (memref != storage)
      continue;
    for (Operation *user : other.getUsers()) {
      if (user == op)
        continue;
      // The body of a loop that starts with it reads it in each turn.
      if (other == value && op->isProperAncestor(user))
        return false;
      // Walk out from `op`, comparing with the user's ancestor in each block.
      for (Operation *at = op; at; at = at->getParentOp()) {
        Block *block = at->getBlock();
        if (Operation *ancestor = block->findAncestorOpInBlock(*user)) {
          if (ancestor != at && at->isBeforeInBlock(ancestor))
            return false;
          break;
        }
        if (isa<KernelOp>(at))
          break;
      }
    }
  }
  // Defined outside of a loop around `op`: read again in the next iteration.
  for (Operation *at = op; at->getBlock() != home; at = at->getParentOp())
    if (isa<scf::ForOp, RowsOp>(at->getParentOp()))
      return false;
  return true;
}

Value VectorContext::resultBuffer(Value result, ValueRange candidates,
                                  Operation *op) {
  auto type = cast<TileType>(result.getType());
  for (Value candidate : candidates) {
    if (!candidate || candidate.getType() != type || !buffer(candidate))
      continue;
    bool taken = llvm::any_of(op->getResults(), [&](Value other) {
      return other != result && buffers.lookup(other) == buffer(candidate);
    });
    if (taken || !diesAt(candidate, op))
      continue;
    // Memory is written by stores alone.
    auto load = candidate.getDefiningOp<LoadOp>();
    if (load && readsInPlace(*this, load)) {
      StoreOp store = findUpdate(*this, result, load);
      if (!store)
        continue;
      alreadyLowered.insert(store);
    }
    return buffers[result] = buffer(candidate);
  }
  return buffers[result] = allocate(type);
}

void VectorContext::copy(Value from, Value to, TileType type, Location loc) {
  if (from == to)
    return;
  if (type.isRowVector()) {
    int64_t width = std::gcd(type.getRows(), lanes);
    loop(type.getRows(), width, loc,
         [&](Value r) { storeVector(loadVector(from, r, width), to, r); });
    return;
  }
  loop(type.getRows(), 1, loc, [&](Value r) {
    int64_t width = std::gcd(type.getCols(), lanes);
    loop(type.getCols(), width, loc, [&](Value c) {
      storeVector(loadVector(from, {r, c}, width), to, {r, c});
    });
  });
}

void VectorContext::copyAll(ArrayRef<Value> values, ArrayRef<Value> to,
                            Location loc) {
  SmallVector<Value> from =
      llvm::map_to_vector(values, [&](Value value) { return buffer(value); });
  for (size_t i = 0; i < values.size(); ++i) {
    auto type = cast<TileType>(values[i].getType());
    // What a later copy reads from here moves out of the way first.
    Value aside;
    for (size_t j = i + 1; j < values.size() && from[i] != to[i]; ++j) {
      if (from[j] != to[i])
        continue;
      if (!aside) {
        aside = allocate(type);
        copy(to[i], aside, type, loc);
      }
      from[j] = aside;
    }
    copy(from[i], to[i], type, loc);
  }
}
