//===- AsyncCopy.cpp - Copies of 16 bytes by all threads of a role --------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelLowering.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::tile_gpu;
using namespace attn;
using namespace attn::gpu;

LogicalResult KernelLowering::lowerAsyncLoad(RingLoadOp op) {
  constexpr int64_t chunkBytes = 16;
  SmemType tile = op.getTile().getType();
  auto memref = cast<MemRefType>(op.getSource().getType());
  const RingLayout *ring =
      layout.ring(op.getTile().getDefiningOp<RingAcquireOp>().getRing());
  if (ring->producers != role.warps)
    return unsupported(op, "a role of the ring's " + Twine(ring->producers) +
                               " producing warps, but got " +
                               Twine(role.warps));
  int64_t rank = memref.getRank();
  int64_t elementBytes = tile.getElementType().getIntOrFloatBitWidth() / 8;
  Values source = of(op.getSource());
  auto size = [&](int64_t dim) { return source[1 + dim]; };
  auto stride = [&](int64_t dim) { return source[1 + rank + dim]; };
  if (rank < 2 || e.constantOf(stride(rank - 1)) != 1)
    return unsupported(op, "a tensor of rank 2 or more whose last dimension "
                           "has the stride 1");
  TileForm form(tile);
  if (tile.getRowBytes() % chunkBytes)
    return unsupported(op, "rows of a multiple of 16 bytes, but got " +
                               Twine(tile.getRowBytes()));
  Values indices = flat(op.getIndices());
  Value base = scalar(op.getTile());
  int64_t rows = tile.getBoxRows();
  if (op.getBox())
    base = e.add(base, e.mul(scalar(op.getBox()), rows * tile.getRowBytes()));
  Value pointer = elementPointer(op.getSource(), indices);
  Value start =
      LLVM::PtrToIntOp::create(e.b, e.loc, e.i64, pointer).getResult();
  Value rowBytes = e.mul(stride(rank - 2), elementBytes);
  // How many bytes there are from the first column on, where that is not
  // known to be a whole row.
  Value colBytes;
  auto columns = e.constantOf(size(rank - 1));
  auto firstColumn = e.constantOf(indices[rank - 1]);
  if (!columns || !firstColumn ||
      *firstColumn + tile.getStoredCols() > *columns)
    colBytes =
        e.mul(e.sub(LLVM::TruncOp::create(e.b, e.loc, e.i32, size(rank - 1))
                        .getResult(),
                    indices[rank - 1]),
              elementBytes);
  Value bound = op.getRows() ? scalar(op.getRows()) : Value();

  int64_t rowChunks = tile.getRowBytes() / chunkBytes;
  int64_t total = rows * rowChunks;
  int64_t members = role.warps * TargetInfo::warpThreads;
  Value self = e.add(e.shl(role.warpInRole, 5), lane);
  // Neighbouring threads copy neighbouring chunks of a row.
  bool steady = members % rowChunks == 0;
  Value selfRow = e.udiv(self, rowChunks), selfChunk = e.urem(self, rowChunks);
  std::string policy =
      op.getEvictFirst() && target.hasTensorCopy ? ".L2::cache_hint" : "";
  for (int64_t at = 0; at < total; at += members) {
    Value row = selfRow, chunk = selfChunk;
    if (steady) {
      row = e.add(selfRow, at / rowChunks);
    } else if (at) {
      Value index = e.add(self, at);
      row = e.udiv(index, rowChunks);
      chunk = e.urem(index, rowChunks);
    }
    Value exchange = form.swizzle == 128  ? e.and_(row, 7)
                     : form.swizzle == 64 ? e.and_(e.lshr(row, 1), 3)
                     : form.swizzle == 32 ? e.and_(e.lshr(row, 2), 1)
                                          : e.c32(0);
    Value inPanel = chunk, to = e.add(base, e.mul(row, form.rowBytes));
    if (form.swizzle) {
      to = e.add(to, e.mul(e.udiv(chunk, form.chunks), form.panelBytes));
      inPanel = e.urem(chunk, form.chunks);
    }
    to = e.add(to, e.shl(e.xor_(inPanel, exchange), 4));
    Value from = e.add(start, e.add(e.mul(e.sext64(row), rowBytes),
                                    e.shl(e.sext64(chunk), 4)));
    Value bytes = e.c32(chunkBytes);
    if (colBytes) {
      Value left = e.sub(colBytes, e.shl(chunk, 4));
      left = LLVM::SMaxOp::create(e.b, e.loc, left, e.c32(0));
      bytes = LLVM::SMinOp::create(e.b, e.loc, left, bytes);
    }
    if (bound)
      bytes =
          e.select(e.lt(e.add(indices[rank - 2], row), bound), bytes, e.c32(0));
    std::string constraints = "r,l,r";
    Values inputs = {to, from, bytes};
    std::string text =
        "cp.async.cg.shared.global" + policy + " [$0], [$1], 16, $2";
    bool partial = at + members > total;
    if (!policy.empty()) {
      text += ", $" + std::to_string(inputs.size());
      inputs.push_back(e.c64(evictFirstPolicy));
      constraints += ",l";
    }
    if (partial) {
      text = "@$" + std::to_string(inputs.size()) + " " + text;
      inputs.push_back(e.lt(e.add(self, at), e.c32(total)));
      constraints += ",b";
    }
    e.assembly(text + ";", constraints + ",~{memory}", inputs);
  }
  return success();
}
