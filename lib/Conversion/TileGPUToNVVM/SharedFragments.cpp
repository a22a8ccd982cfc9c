//===- SharedFragments.cpp - Registers in shared memory -------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Lowerings.h"
#include "OperandLoader.h"
#include "TileElements.h"
#include "attn/Dialect/Tile/IR/FragmentOrder.h"

using namespace mlir;
using namespace mlir::tile_gpu;
using namespace ::attn;
using namespace ::attn::gpu;

LogicalResult gpu::lower(KernelContext &k, FragLoadOp op) {
  Emitter &e = k.e;
  FragType frag = op.getResult().getType();
  SmemType tile = op.getTile().getType();
  if (tile.getBoxes() != 1)
    return unsupported(op, "a tile of one box; take a slice");
  if (frag.getElementType().isTF32()) {
    Tf32Loader loader(e, k.role, k.lane, tile, k.scalar(op.getTile()),
                      Layout::A,
                      /*pairs=*/false);
    Values registers;
    for (int64_t block = 0; block < FragShape(frag).blocks; ++block)
      for (int64_t step = 0; step < frag.getCols() / MmaShape::warpTf32().k;
           ++step)
        llvm::append_range(registers, loader.load(block, step, 4));
    k.set(op.getResult(), std::move(registers));
    return success();
  }
  OperandLoader loader(e, k.role, k.lane, tile, k.scalar(op.getTile()),
                       frag.getLayout(), frag.getScope());
  Values registers;
  if (frag.isHalf())
    return unsupported(op, "64 rows of a warpgroup, or the rows of a warp");
  if (frag.getLayout() == Layout::A) {
    FragShape shape(frag);
    for (int64_t block = 0; block < shape.blocks; ++block)
      for (int64_t step = 0; step < frag.getCols() / 16; ++step)
        llvm::append_range(registers, loader.load(block, step, 4));
    k.set(op.getResult(), std::move(registers));
    return success();
  }
  int64_t steps = frag.getRows() / 16, blocks = frag.getCols() / 8;
  registers.resize(steps * blocks * 2);
  for (int64_t block = 0; block < blocks; block += 2)
    for (int64_t step = 0; step < steps; ++step) {
      int64_t count = std::min<int64_t>(2, blocks - block) * 2;
      Values loaded = loader.load(block, step, count);
      for (int64_t i = 0; i < count; ++i)
        registers[((block + i / 2) * steps + step) * 2 + i % 2] = loaded[i];
    }
  k.set(op.getResult(), std::move(registers));
  return success();
}

LogicalResult gpu::storeFragment(KernelContext &k, Operation *op, FragType frag,
                                 const Values &registers, SmemType tile,
                                 Value base, bool transposed) {
  Emitter &e = k.e;
  FragShape shape(frag);
  int64_t colBlocks = shape.colBlocks;
  // Matrix i of four: rows 8 (i % 2) on, columns 8 (i / 2) on; of half a
  // fragment columns 8 i on.
  Value low = e.and_(e.lshr(k.lane, 3), 1), high = e.lshr(k.lane, 4);
  if (frag.isHalf()) {
    low = e.c32(0);
    high = e.lshr(k.lane, 3);
  }
  Value warpRows = k.role.warpRows;
  Value warpChunks = e.lshr(warpRows, 3);
  bool isGroup = frag.getScope() == Scope::Warpgroup;
  if (!k.target.hasMatrixStore) {
    if (transposed)
      return unsupported(op, "a store that is not transposed on " +
                                 Twine(k.target.name));
    // Two neighbours at a time, row lane / 4.
    TileForm form(tile);
    Value row = e.lshr(k.lane, 2), pair = e.shl(e.and_(k.lane, 3), 2);
    Value exchange = form.swizzle == 128  ? row
                     : form.swizzle == 64 ? e.lshr(row, 1)
                     : form.swizzle == 32 ? e.lshr(row, 2)
                                          : e.c32(0);
    Value rowBase = e.add(base, e.mul(e.add(row, warpRows), form.rowBytes));
    rowBase = e.add(rowBase, pair);
    Value swizzled = e.shl(exchange, 4);
    for (int64_t i = 0, n = registers.size(); i < n; ++i) {
      int64_t key = shape.rowKey(2 * i), col = shape.colKey(2 * i) / 2;
      int64_t offset =
          (key / 2 * shape.blockRows + key % 2 * 8) * form.rowBytes;
      Value chunk = e.c32(col * 16);
      if (form.swizzle) {
        offset += col / form.chunks * form.panelBytes;
        chunk = e.xor_(swizzled, e.c32(col % form.chunks * 16));
      }
      e.assembly("st.shared::cta.b32 [$0], $1;", "r,r,~{memory}",
                 {e.add(e.add(rowBase, chunk), offset), registers[i]});
    }
    return success();
  }
  MatrixAccess access(e, tile, base, k.lane, transposed ? high : low,
                      transposed ? low : high,
                      isGroup && !transposed ? warpRows : Value(),
                      isGroup && transposed ? warpChunks : Value());
  for (int64_t block = 0; block < shape.blocks; ++block)
    for (int64_t col = 0, count; col < colBlocks;
         col += count / shape.rowsOfThread) {
      count = 4;
      while (count > (colBlocks - col) * shape.rowsOfThread)
        count /= 2;
      int64_t rowBlock = block * shape.blockRows / 8;
      Values inputs = {transposed ? access.address(col, rowBlock)
                                  : access.address(rowBlock, col)};
      int64_t first = (block * colBlocks + col) * shape.rowsOfThread;
      std::string constraints = "r";
      for (int64_t i = 0; i < count; ++i) {
        inputs.push_back(registers[first + i]);
        constraints += ",r";
      }
      e.assembly("stmatrix.sync.aligned.m8n8." + matrixCount(count) +
                     (transposed ? ".trans" : "") + ".shared::cta.b16 [$0], " +
                     operandList(1, count) + ";",
                 constraints + ",~{memory}", inputs);
    }
  return success();
}

/// Of each 16 rows, 8 columns are 16 bytes of every lane (FragmentOrder.h).
static void storeInFragmentOrder(KernelContext &k, FragStoreOp op, Value base,
                                 const Values &registers) {
  Emitter &e = k.e;
  FragType frag = op.getValue().getType();
  FragShape shape(frag);
  constexpr int64_t each = 4, chunk = each * 4;
  int64_t rowBytes = op.getTile().getType().getCols() * 4;
  Value mine = e.add(base, e.mul(k.lane, chunk));
  if (frag.getScope() == Scope::Warpgroup)
    mine = e.add(
        mine, e.mul(k.role.warpInMember, tile::fragmentOrderRows * rowBytes));
  if (op.getRow()) {
    mine = e.add(mine, e.mul(k.scalar(op.getRow()), rowBytes));
    mine = e.add(mine,
                 e.mul(e.udiv(k.scalar(op.getCol()), tile::fragmentOrderCols),
                       TargetInfo::warpThreads * chunk));
  }
  for (int64_t block = 0; block < shape.blocks; ++block)
    for (int64_t at = 0; at < shape.colBlocks; ++at) {
      int64_t first = (block * shape.colBlocks + at) * each;
      Values inputs = {e.add(mine, block * shape.blockRows * rowBytes +
                                       at * TargetInfo::warpThreads * chunk)};
      llvm::append_range(inputs, ArrayRef(registers).slice(first, each));
      e.assembly("st.shared::cta.v4.b32 [$0], " + operandList(1, each) + ";",
                 "r,f,f,f,f,~{memory}", inputs);
    }
}

static LogicalResult storeToTile(KernelContext &k, FragStoreOp op) {
  Emitter &e = k.e;
  FragType frag = op.getValue().getType();
  SmemType tile = op.getTile().getType();
  Values registers = k.of(op.getValue());
  Value base = k.scalar(op.getTile());
  bool isWide = frag.getElementType().isF32();
  if (op.getFragmentOrder()) {
    if (frag.isHalf())
      return unsupported(op, "64 rows of a warpgroup in fragment order");
    storeInFragmentOrder(k, op, base, registers);
    return success();
  }
  if (tile.getBoxes() != 1)
    return unsupported(op, "a tile of one box; take a slice");
  if (!isWide)
    return storeFragment(k, op, frag, registers, tile, base,
                         tile.getTransposed());
  // Two f32 of a row at a time: half a chunk.
  FragShape shape(frag);
  TileForm form(tile);
  Value row = e.lshr(k.lane, 2);
  Value exchange = form.swizzle == 128  ? row
                   : form.swizzle == 64 ? e.lshr(row, 1)
                   : form.swizzle == 32 ? e.lshr(row, 2)
                                        : e.c32(0);
  Value rowBase = e.add(base, e.mul(k.role.row, form.rowBytes));
  Value half = e.shl(e.and_(k.lane, 1), 3);
  Value chunkBit = e.and_(e.lshr(k.lane, 1), 1);
  Value swizzled = e.add(e.shl(e.xor_(exchange, chunkBit), 4), half);
  for (int64_t i = 0, n = registers.size(); i < n; i += 2) {
    int64_t key = shape.rowKey(i), col = shape.colKey(i) / 2;
    int64_t offset = (key / 2 * shape.blockRows + key % 2 * 8) * form.rowBytes;
    int64_t chunk = col * 2;
    Value within = swizzled;
    if (form.swizzle) {
      offset += chunk / form.chunks * form.panelBytes;
      within = e.xor_(swizzled, e.c32(chunk % form.chunks * 16));
    } else {
      offset += chunk * 16;
    }
    e.assembly("st.shared::cta.v2.f32 [$0], {$1, $2};", "r,f,f,~{memory}",
               {e.add(e.add(rowBase, within), offset), registers[i],
                registers[i + 1]});
  }
  return success();
}

LogicalResult gpu::lower(KernelContext &k, VecLoadOp op) {
  Emitter &e = k.e;
  VecType vec = op.getResult().getType();
  SmemType tile = op.getTile().getType();
  Value base = k.scalar(op.getTile());
  if (op.getIndex()) {
    TileElements elements(e, tile, base, k.lane);
    Value index = k.scalar(op.getIndex());
    Values registers;
    if (vec.getAxis() == Axis::Row) {
      Value mine = elements.at(k.role.row, index);
      for (int64_t i = 0, n = k.registerCount(vec); i < n; ++i)
        llvm::append_range(
            registers,
            elements.load(mine,
                          elements.rowStep(i / 2 * blockRowsOf(vec.getScope()) +
                                           i % 2 * 8),
                          1));
    } else {
      for (int64_t block = 0; block < vec.getSize() / 8; ++block)
        llvm::append_range(registers,
                           elements.load(elements.pairAt(index, block), 0, 2));
    }
    k.set(op.getResult(), std::move(registers));
    return success();
  }
  Type element = vec.getElementType();
  std::string out = element.isF32() ? "=f," : "=r,";
  auto load = [&](Value address, int64_t count) {
    std::string constraints;
    for (int64_t i = 0; i < count; ++i)
      constraints += out;
    SmallVector<Type> types(count, element);
    return e.assembly("ld.shared::cta." +
                          (count > 1 ? "v" + Twine(count) + "." : Twine("")) +
                          "b32 " + (count > 1 ? operandList(0, count) : "$0") +
                          ", [$" + Twine(count) + "];",
                      constraints + "r,~{memory}", {address}, types);
  };
  assert(!tile.getSwizzle() && "a swizzled tile has 8 rows or more");
  Values registers;
  if (vec.getAxis() == Axis::Row) {
    Value mine = e.add(base, e.shl(k.role.row, 2));
    for (int64_t i = 0, n = k.registerCount(vec); i < n; ++i)
      llvm::append_range(
          registers,
          load(e.add(mine,
                     (i / 2 * blockRowsOf(vec.getScope()) + i % 2 * 8) * 4),
               1));
  } else if (op.getPermuted()) {
    // Of each 16 columns, a lane's four follow each other.
    Value mine = e.add(base, e.shl(e.and_(k.lane, 3), 4));
    for (int64_t i = 0, n = vec.getSize(); i < n; i += 16)
      llvm::append_range(registers, load(e.add(mine, i * 4), 4));
  } else {
    Value mine = e.add(base, e.shl(k.role.col, 2));
    for (int64_t i = 0, n = vec.getSize(); i < n; i += 8)
      llvm::append_range(registers, load(e.add(mine, i * 4), 2));
  }
  k.set(op.getResult(), std::move(registers));
  return success();
}

static LogicalResult storeToTile(KernelContext &k, VecStoreOp op) {
  Emitter &e = k.e;
  VecType vec = op.getValue().getType();
  SmemType tile = op.getTile().getType();
  TileElements elements(e, tile, k.scalar(op.getTile()), k.lane);
  Value index = k.scalar(op.getIndex());
  Values registers = k.of(op.getValue());
  if (vec.getAxis() == Axis::Row) {
    Value owner = e.eq(e.and_(k.lane, 3), 0);
    Value mine = elements.at(k.role.row, index);
    for (int64_t i = 0, n = registers.size(); i < n; ++i)
      elements.store(
          mine,
          elements.rowStep(i / 2 * blockRowsOf(vec.getScope()) + i % 2 * 8),
          {registers[i]}, owner);
    return success();
  }
  Value owner = e.eq(e.lshr(k.lane, 2), 0);
  if (vec.getScope() == Scope::Warpgroup)
    owner = e.and_(owner, e.eq(k.role.warpInMember, 0));
  for (int64_t block = 0; block < vec.getSize() / 8; ++block)
    elements.store(elements.pairAt(index, block), 0,
                   {registers[block * 2], registers[block * 2 + 1]}, owner);
  return success();
}

/// A store by a role of warps: lanes may still be reading what was there, and
/// read what is stored without a barrier.
static LogicalResult seenByWarp(KernelContext &k,
                                llvm::function_ref<LogicalResult()> store) {
  bool isWarp = k.role.scope == Scope::Warp;
  if (isWarp)
    k.syncWarp();
  if (failed(store()))
    return failure();
  if (isWarp)
    k.syncWarp();
  return success();
}

LogicalResult gpu::lower(KernelContext &k, FragStoreOp op) {
  return seenByWarp(k, [&] { return storeToTile(k, op); });
}

LogicalResult gpu::lower(KernelContext &k, VecStoreOp op) {
  return seenByWarp(k, [&] { return storeToTile(k, op); });
}
