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
  if (rank < 2)
    return unsupported(op,
                       "a tensor of rank 2 or more, but got " + Twine(rank));
  if (tile.getRowBytes() % chunkBytes)
    return unsupported(op, "rows of a multiple of 16 bytes, but got " +
                               Twine(tile.getRowBytes()));
  Values source = of(op.getSource()), indices = flat(op.getIndices());
  Value columns = source[rank], colStride = source[2 * rank];
  Value rowBytes = e.mul(source[2 * rank - 1], elementBytes);
  TileForm form(tile);
  Value base = scalar(op.getTile());
  int64_t rows = tile.getBoxRows();
  if (op.getBox())
    base = e.add(base, e.mul(scalar(op.getBox()), rows * tile.getRowBytes()));
  Value start = LLVM::PtrToIntOp::create(
      e.b, e.loc, e.i64, elementPointer(op.getSource(), indices));
  // How many columns there are from the first one on, where that is not known
  // to be a whole row.
  Value colsLeft;
  auto known = e.constantOf(columns), first = e.constantOf(indices[rank - 1]);
  if (!known || !first || *first + tile.getStoredCols() > *known)
    colsLeft =
        e.sub(LLVM::TruncOp::create(e.b, e.loc, e.i32, columns).getResult(),
              indices[rank - 1]);
  auto isLive = [&](Value row) {
    Value position = e.add(indices[rank - 2], row), live;
    if (op.getRows())
      live = e.lt(position, scalar(op.getRows()));
    if (op.getFrom()) {
      Value after =
          e.icmp(LLVM::ICmpPredicate::sge, position, scalar(op.getFrom()));
      live = live ? e.and_(live, after) : after;
    }
    return live;
  };

  int64_t rowChunks = tile.getRowBytes() / chunkBytes;
  int64_t total = rows * rowChunks;
  int64_t members = role.warps * TargetInfo::warpThreads;
  Value self = e.add(e.shl(role.warpInRole, 5), lane);
  auto destination = [&](Value row, Value chunk) {
    Value exchange = form.swizzle == 128  ? e.and_(row, 7)
                     : form.swizzle == 64 ? e.and_(e.lshr(row, 1), 3)
                     : form.swizzle == 32 ? e.and_(e.lshr(row, 2), 1)
                                          : e.c32(0);
    Value to = e.add(base, e.mul(row, form.rowBytes));
    if (form.swizzle) {
      to = e.add(to, e.mul(e.udiv(chunk, form.chunks), form.panelBytes));
      chunk = e.urem(chunk, form.chunks);
    }
    return e.add(to, e.shl(e.xor_(chunk, exchange), 4));
  };

  Value bits = e.or_(start, rowBytes);
  Value aligned = e.eq(e.and_(bits, chunkBytes - 1), 0);
  if (e.constantOf(colStride) != 1)
    aligned = e.and_(aligned, e.eq(colStride, 1));
  Block *fast = e.newBlock(), *join = e.newBlock();
  Block *slow = e.newBlock(e.i32);
  e.branch(aligned, fast, slow, {}, {self});

  e.startBlock(fast);
  // Neighbouring threads copy neighbouring chunks of a row.
  bool steady = members % rowChunks == 0;
  Value selfRow = e.udiv(self, rowChunks), selfChunk = e.urem(self, rowChunks);
  bool hints = op.getEvictFirst() && target.hasTensorCopy;
  // `inside`: whether the tile has the chunk; null where it has.
  auto copyChunk = [&](Value row, Value chunk, Value inside) {
    Value from = e.add(start, e.add(e.mul(e.sext64(row), rowBytes),
                                    e.shl(e.sext64(chunk), 4)));
    Value bytes = e.c32(chunkBytes);
    if (colsLeft) {
      Value left = e.sub(e.mul(colsLeft, elementBytes), e.shl(chunk, 4));
      left = LLVM::SMaxOp::create(e.b, e.loc, left, e.c32(0));
      bytes = LLVM::SMinOp::create(e.b, e.loc, left, bytes);
    }
    if (Value live = isLive(row))
      bytes = e.select(live, bytes, e.c32(0));
    std::string constraints = "r,l,r";
    Values inputs = {destination(row, chunk), from, bytes};
    std::string text = "cp.async.cg.shared.global";
    text += hints ? ".L2::cache_hint [$0], [$1], 16, $2, $3"
                  : " [$0], [$1], 16, $2";
    if (hints) {
      inputs.push_back(e.c64(evictFirstPolicy));
      constraints += ",l";
    }
    if (inside) {
      text = "@$" + std::to_string(inputs.size()) + " " + text;
      inputs.push_back(inside);
      constraints += ",b";
    }
    e.assembly(text + ";", constraints + ",~{memory}", inputs);
  };
  // Addresses of many chunks, one after the other, would fill the registers.
  constexpr int64_t mostUnrolled = 8;
  if (total > mostUnrolled * members) {
    Block *head = e.newBlock(e.i32), *body = e.newBlock(), *end = e.newBlock();
    e.branch(head, {self});
    e.startBlock(head);
    Value index = head->getArgument(0);
    e.branch(e.lt(index, e.c32(total)), body, end);
    e.startBlock(body);
    copyChunk(e.udiv(index, rowChunks), e.urem(index, rowChunks), Value());
    e.branch(head, {e.add(index, members)});
    e.startBlock(end);
  } else {
    for (int64_t at = 0; at < total; at += members) {
      Value row = e.add(selfRow, steady ? at / rowChunks : 0);
      Value chunk = selfChunk;
      if (!steady && at) {
        Value index = e.add(self, at);
        row = e.udiv(index, rowChunks);
        chunk = e.urem(index, rowChunks);
      }
      copyChunk(row, chunk,
                at + members > total ? e.lt(e.add(self, at), e.c32(total))
                                     : Value());
    }
  }
  e.branch(join);

  // Any strides: element by element, ordered before the commit by a fence.
  e.startBlock(slow);
  Value index = slow->getArgument(0);
  Block *copy = e.newBlock(), *done = e.newBlock();
  e.branch(e.lt(index, e.c32(total)), copy, done);
  e.startBlock(copy);
  Value row = e.udiv(index, rowChunks), chunk = e.urem(index, rowChunks);
  Value live = isLive(row), to = destination(row, chunk);
  Value colBytes = e.mul(colStride, elementBytes);
  Value from = e.add(start, e.mul(e.sext64(row), rowBytes));
  std::string width = std::to_string(elementBytes * 8);
  for (int64_t i = 0; i < chunkBytes / elementBytes; ++i) {
    Value col = e.add(e.mul(chunk, chunkBytes / elementBytes), i);
    Value inside = colsLeft ? e.lt(col, colsLeft) : e.truth(true);
    if (live)
      inside = e.and_(inside, live);
    e.assembly("{\n.reg .b" + width + " t;\nmov.b" + width +
                   " t, 0;\n@$2 ld.global.b" + width +
                   " t, [$1];\nst.shared::cta.b" + width + " [$0+" +
                   std::to_string(i * elementBytes) + "], t;\n}",
               "r,l,b,~{memory}",
               {to, e.add(from, e.mul(e.sext64(col), colBytes)), inside});
  }
  e.branch(slow, {e.add(index, members)});
  e.startBlock(done);
  e.assembly("fence.acq_rel.cta;", "~{memory}", {});
  e.branch(join);
  e.startBlock(join);
  return success();
}
