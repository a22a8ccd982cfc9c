//===- AsyncCopy.cpp - Copies of 16 bytes by all threads of a role --------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Lowerings.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::tile_gpu;
using namespace ::attn;
using namespace ::attn::gpu;

static constexpr int64_t chunkBytes = 16;

static int64_t elementBytesOf(RingLoadOp op) {
  return op.getTile().getType().getElementBytes();
}

/// Where a chunk of a row of a box lies.
static Value chunkAddress(Emitter &e, const TileForm &form, Value base,
                          Value row, Value chunk) {
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
}

/// Each thread rounds the chunks that it has copied, which are the same for all
/// copies of a tile: it needs to wait for nobody.
void gpu::roundCopied(KernelContext &k, SmemType tile, Value base) {
  Emitter &e = k.e;
  TileForm form(tile);
  int64_t rowChunks = tile.getRowBytes() / chunkBytes;
  int64_t total = tile.getBoxRows() * rowChunks;
  int64_t members = k.role.warps * TargetInfo::warpThreads;
  Value self = e.add(e.shl(k.role.warpInRole, 5), k.lane);
  struct Chunk {
    Value address, inside;
    Values words;
  };
  SmallVector<Chunk> chunks;
  // Threads that keep their column go down by whole patterns of the swizzle.
  bool repeats = members % (8 * rowChunks) == 0;
  for (int64_t box = 0; box < tile.getBoxes(); ++box) {
    Value first = e.add(base, box * tile.getBoxRows() * tile.getRowBytes());
    Value steady = chunkAddress(e, form, first, e.udiv(self, rowChunks),
                                e.urem(self, rowChunks));
    for (int64_t done = 0; done < total; done += members) {
      Value index = e.add(self, done), inside;
      if (done + members > total)
        inside = e.lt(index, e.c32(total));
      Value address =
          repeats ? e.add(steady, done / rowChunks * form.rowBytes)
                  : chunkAddress(e, form, first, e.udiv(index, rowChunks),
                                 e.urem(index, rowChunks));
      chunks.push_back({address, inside, {}});
    }
  }
  // A few at a time are on their way to registers.
  constexpr size_t abreast = 2;
  SmallVector<Type> four(4, e.i32);
  for (size_t begin = 0; begin < chunks.size(); begin += abreast) {
    auto group = MutableArrayRef<Chunk>(chunks).slice(
        begin, std::min(abreast, chunks.size() - begin));
    for (Chunk &chunk : group) {
      Values inputs = {chunk.address};
      if (chunk.inside)
        inputs.push_back(chunk.inside);
      chunk.words =
          e.assembly(std::string(chunk.inside ? "@$5 " : "") +
                         "ld.shared::cta.v4.b32 {$0, $1, $2, $3}, [$4];",
                     chunk.inside ? "=r,=r,=r,=r,r,b,~{memory}"
                                  : "=r,=r,=r,=r,r,~{memory}",
                     inputs, four);
    }
    for (Chunk &chunk : group) {
      Values inputs = {chunk.address};
      for (Value word : chunk.words)
        inputs.push_back(e.roundTf32(word));
      if (chunk.inside)
        inputs.push_back(chunk.inside);
      e.assembly(std::string(chunk.inside ? "@$5 " : "") +
                     "st.shared::cta.v4.b32 [$0], {$1, $2, $3, $4};",
                 chunk.inside ? "r,r,r,r,r,b,~{memory}" : "r,r,r,r,r,~{memory}",
                 inputs);
    }
  }
}

/// The address of row 0 of what a copy reads.
static Value planeOf(KernelContext &k, RingLoadOp op) {
  Emitter &e = k.e;
  Values indices;
  int64_t rowIndex = op.getIndices().size() - 2;
  // The row may not be known yet, nor the page.
  for (auto [i, index] : llvm::enumerate(op.getIndices())) {
    bool isKnown = int64_t(i) != rowIndex && !(i == 0 && op.getTable());
    indices.push_back(isKnown ? k.scalar(index) : e.c32(0));
  }
  return LLVM::PtrToIntOp::create(e.b, e.loc, e.i64,
                                  k.elementPointer(op.getSource(), indices));
}

/// What a copy computes from its tensor, its indices but that of the row, and
/// the thread.
static CopySource copySource(KernelContext &k, RingLoadOp op) {
  Emitter &e = k.e;
  CopySource result;
  int64_t rank = op.getIndices().size();
  Values source = k.of(op.getSource());
  Value colStride = source[2 * rank], plane = planeOf(k, op);
  result.rowBytes = e.mul(source[2 * rank - 1], elementBytesOf(op));
  Value all = e.or_(plane, result.rowBytes);
  if (op.getTable())
    all = e.or_(all, e.mul(source[1 + rank], elementBytesOf(op)));
  result.aligned = e.eq(e.and_(all, chunkBytes - 1), 0);
  if (e.constantOf(colStride) != 1)
    result.aligned = e.and_(result.aligned, e.eq(colStride, 1));
  // Neighbouring threads copy neighbouring chunks of a row.
  int64_t rowChunks = op.getTile().getType().getRowBytes() / chunkBytes;
  Value self = e.add(e.shl(k.role.warpInRole, 5), k.lane);
  result.row = e.udiv(self, rowChunks);
  result.chunk = e.urem(self, rowChunks);
  result.mine = e.add(plane, e.add(e.mul(e.sext64(result.row), result.rowBytes),
                                   e.shl(e.sext64(result.chunk), 4)));
  if (op.getStart()) {
    Value at = k.elementPointer(op.getStart(), {k.scalar(op.getIndices()[0])});
    Value start = LLVM::SMaxOp::create(e.b, e.loc, e.load(e.i32, at), e.c32(0));
    // A tensor without rows has none that are copied.
    Value rows =
        LLVM::SMaxOp::create(e.b, e.loc, e.trunc32(source[rank - 1]), e.c32(1));
    result.start = e.urem(start, rows);
  }
  return result;
}

static Value rowOffset(KernelContext &k, RingLoadOp op, const CopySource &from,
                       Value position) {
  Emitter &e = k.e;
  auto smin = [&](Value x, Value y) -> Value {
    return LLVM::SMinOp::create(e.b, e.loc, x, y);
  };
  Values source = k.of(op.getSource());
  int64_t rank = op.getIndices().size();
  Value rows = e.trunc32(source[rank - 1]);
  if (op.getStart()) {
    // Rows that are copied are fewer than the tensor has.
    Value row = e.add(from.start, position);
    Value isBehind = e.icmp(LLVM::ICmpPredicate::uge, row, rows);
    row = e.select(isBehind, e.sub(row, rows), row);
    return e.mul(e.zext64(row), from.rowBytes);
  }
  if (!op.getTable())
    return e.mul(e.sext64(position), from.rowBytes);
  // A row behind the last key may be behind the last page.
  Value last = e.sub(e.trunc32(k.of(op.getTable())[2]), e.c32(1));
  Value number = smin(e.udiv(position, rows), last);
  Value at =
      k.elementPointer(op.getTable(), {k.scalar(op.getIndices()[0]), number});
  // No entry leads out of the tensor.
  Value page = LLVM::SMaxOp::create(e.b, e.loc, e.load(e.i32, at), e.c32(0));
  page = smin(page, e.sub(e.trunc32(source[1]), e.c32(1)));
  Value pageBytes = e.mul(source[1 + rank], elementBytesOf(op));
  return e.add(e.mul(e.sext64(page), pageBytes),
               e.mul(e.zext64(e.urem(position, rows)), from.rowBytes));
}

/// Whether a tile is a row of 32-bit elements, which begins anywhere in memory.
static bool isRowOfElements(RingLoadOp op) {
  SmemType tile = op.getTile().getType();
  return tile.getStoredRows() == 1 && tile.getElementBytes() == 4 &&
         !op.getTable() && !op.getStart() && !op.getBox() && !op.getRows() &&
         !op.getFrom();
}

/// Computes ahead of a loop what its copies do not change.
void gpu::prepareCopies(KernelContext &k, scf::ForOp loop) {
  auto isOutside = [&](Value value) {
    return !loop->isAncestor(value.getParentRegion()->getParentOp());
  };
  loop.walk([&](RingLoadOp op) {
    auto memref = dyn_cast<MemRefType>(op.getSource().getType());
    int64_t rank = op.getIndices().size();
    if (!memref || rank < 2 || k.copySources.contains(op) ||
        isRowOfElements(op) ||
        op.getTile().getType().getRowBytes() % chunkBytes ||
        !isOutside(op.getSource()))
      return;
    for (auto [i, index] : llvm::enumerate(op.getIndices()))
      if (int64_t(i) != rank - 2 && !isOutside(index))
        return;
    k.copySources[op] = copySource(k, op);
  });
}

/// Copies a row element by element, which asks nothing of its alignment.
static void copyElements(KernelContext &k, RingLoadOp op) {
  Emitter &e = k.e;
  constexpr int64_t bytes = 4;
  int64_t cols = op.getTile().getType().getStoredCols();
  int64_t members = k.role.warps * TargetInfo::warpThreads;
  int64_t rank = op.getIndices().size();
  Values source = k.of(op.getSource()), indices = k.flat(op.getIndices());
  Value first = LLVM::PtrToIntOp::create(
      e.b, e.loc, e.i64, k.elementPointer(op.getSource(), indices));
  Value left = e.sub(e.trunc32(source[rank]), indices[rank - 1]);
  Value stride = e.mul(source[2 * rank], bytes);
  Value self = e.add(e.shl(k.role.warpInRole, 5), k.lane);
  for (int64_t done = 0; done < cols; done += members) {
    Value col = e.add(self, done);
    Value inside = e.lt(col, e.c32(cols));
    Value size = e.select(e.lt(col, left), e.c32(bytes), e.c32(0));
    e.assembly("@$3 cp.async.ca.shared.global [$0], [$1], 4, $2;",
               "r,l,r,b,~{memory}",
               {e.add(k.scalar(op.getTile()), e.shl(col, 2)),
                e.add(first, e.mul(e.sext64(col), stride)), size, inside});
  }
}

namespace {

/// One load of a ring by cp.async: each thread of the role copies chunks of 16
/// bytes. Where rows do not start at such, it goes element by element.
class AsyncLoad {
public:
  AsyncLoad(KernelContext &kernel, RingLoadOp op)
      : k(kernel), e(kernel.e), op(op), tile(op.getTile().getType()),
        form(tile), rows(tile.getBoxRows()),
        rowChunks(tile.getRowBytes() / chunkBytes), total(rows * rowChunks),
        members(kernel.role.warps * TargetInfo::warpThreads),
        elementBytes(elementBytesOf(op)),
        gathers(op.getTable() || op.getStart()) {}
  void lower(bool isOrdered);

private:
  void locate();
  Value offsetOf(Value row);
  Value addressOf(Value row, Value chunk);
  Value destination(Value row, Value chunk);
  Value isLive(Value row);
  void copyChunk(Value to, int64_t offset, Value at, Value row, Value chunk,
                 Value inside = {});
  void copyInLoop();
  Values findGathered();
  void copyUnrolled();
  void copyElements(Value first, Block *join, bool isOrdered);

  KernelContext &k;
  Emitter &e;
  RingLoadOp op;
  SmemType tile;
  TileForm form;
  /// Rows of the copy, chunks of a row, of the copy, and threads that copy.
  int64_t rows, rowChunks, total, members;
  int64_t elementBytes;
  /// Rows lie where a table or a start says.
  bool gathers;
  CopySource from;
  Value base, firstRow, colStride;
  /// From the plane to the first row, where the others lie behind it.
  Value down;
  /// How many columns there are from the first one on, where that is not known
  /// to be a whole row.
  Value colsLeft;
  /// The thread among those that copy.
  Value self;
};

} // namespace

void AsyncLoad::locate() {
  int64_t rank = cast<MemRefType>(op.getSource().getType()).getRank();
  auto prepared = k.copySources.find(op);
  from = prepared != k.copySources.end() ? prepared->second : copySource(k, op);
  Values source = k.of(op.getSource()), indices = k.flat(op.getIndices());
  Value columns = source[rank];
  colStride = source[2 * rank];
  base = k.scalar(op.getTile());
  if (op.getBox())
    base = e.add(base, e.mul(k.scalar(op.getBox()), rows * tile.getRowBytes()));
  firstRow = indices[rank - 2];
  down = gathers ? e.c64(0) : e.mul(e.sext64(firstRow), from.rowBytes);
  auto known = e.constantOf(columns), first = e.constantOf(indices[rank - 1]);
  if (!known || !first || *first + tile.getStoredCols() > *known)
    colsLeft =
        e.sub(LLVM::TruncOp::create(e.b, e.loc, e.i32, columns).getResult(),
              indices[rank - 1]);
  self = e.add(e.shl(k.role.warpInRole, 5), k.lane);
}

Value AsyncLoad::offsetOf(Value row) {
  return gathers ? rowOffset(k, op, from, e.add(firstRow, row))
                 : e.mul(e.sext64(row), from.rowBytes);
}

Value AsyncLoad::addressOf(Value row, Value chunk) {
  Value plane = planeOf(k, op);
  return e.add(e.add(plane, down),
               e.add(offsetOf(row), e.shl(e.sext64(chunk), 4)));
}

Value AsyncLoad::destination(Value row, Value chunk) {
  return chunkAddress(e, form, base, row, chunk);
}

/// Whether a row exists; null where all do.
Value AsyncLoad::isLive(Value row) {
  Value position = e.add(firstRow, row), live;
  if (op.getRows())
    live = e.lt(position, k.scalar(op.getRows()));
  if (op.getFrom()) {
    Value after =
        e.icmp(LLVM::ICmpPredicate::sge, position, k.scalar(op.getFrom()));
    live = live ? e.and_(live, after) : after;
  }
  return live;
}

/// `inside`: whether the tile has the chunk; null where it has.
void AsyncLoad::copyChunk(Value to, int64_t offset, Value at, Value row,
                          Value chunk, Value inside) {
  bool hints = op.getEvictFirst() && k.target.hasTensorCopy;
  Value bytes;
  if (colsLeft) {
    Value left = e.sub(e.mul(colsLeft, elementBytes), e.shl(chunk, 4));
    left = LLVM::SMaxOp::create(e.b, e.loc, left, e.c32(0));
    bytes = LLVM::SMinOp::create(e.b, e.loc, left, e.c32(chunkBytes));
  }
  if (Value live = isLive(row))
    bytes = e.select(live, bytes ? bytes : e.c32(chunkBytes), e.c32(0));
  std::string constraints = "r,l";
  Values inputs = {to, at};
  std::string text = "cp.async.cg.shared.global";
  text += hints ? ".L2::cache_hint [$0+" : " [$0+";
  text += std::to_string(offset) + "], [$1], 16";
  auto operand = [&](Value value, StringRef constraint) {
    std::string name = "$" + std::to_string(inputs.size());
    inputs.push_back(value);
    constraints += "," + constraint.str();
    return name;
  };
  if (bytes)
    text += ", " + operand(bytes, "r");
  if (hints)
    text += ", " + operand(e.c64(evictFirstPolicy), "l");
  if (inside)
    text = "@" + operand(inside, "b") + " " + text;
  e.assembly(text + ";", constraints + ",~{memory}", inputs);
}

/// Addresses of many chunks, one after the other, would fill the registers.
void AsyncLoad::copyInLoop() {
  Block *head = e.newBlock(e.i32), *body = e.newBlock(), *end = e.newBlock();
  e.branch(head, {self});
  e.startBlock(head);
  Value index = head->getArgument(0);
  e.branch(e.lt(index, e.c32(total)), body, end);
  e.startBlock(body);
  // What a table has of some rows is on its way at once.
  constexpr int64_t abreast = 4;
  int64_t inTurn = gathers && total % (abreast * members) == 0 ? abreast : 1;
  SmallVector<std::array<Value, 3>> chunks;
  for (int64_t i = 0; i < inTurn; ++i) {
    Value at = e.add(index, i * members);
    Value row = e.udiv(at, rowChunks), chunk = e.urem(at, rowChunks);
    chunks.push_back({row, chunk, addressOf(row, chunk)});
  }
  for (auto [row, chunk, at] : chunks)
    copyChunk(destination(row, chunk), 0, at, row, chunk);
  e.branch(head, {e.add(index, inTurn * members)});
  e.startBlock(end);
}

/// What a table has of all rows is on its way at once. Where threads go down
/// within boxes, which lie in one page each, one is found for its rows.
Values AsyncLoad::findGathered() {
  Values found, offsets;
  bool isSteady = members % rowChunks == 0;
  int64_t boxRows = op.getBoxes().value_or(0);
  bool isBoxed = isSteady && boxRows && boxRows % (members / rowChunks) == 0;
  for (int64_t row = 0; isBoxed && row < rows; row += boxRows)
    offsets.push_back(rowOffset(k, op, from, e.add(firstRow, row)));
  for (int64_t done = 0; gathers && done < total; done += members) {
    if (isBoxed) {
      int64_t below = done / rowChunks;
      found.push_back(e.add(e.add(from.mine, offsets[below / boxRows]),
                            e.mul(from.rowBytes, below % boxRows)));
      continue;
    }
    Value index = e.add(self, done);
    Value row =
        isSteady ? e.add(from.row, done / rowChunks) : e.udiv(index, rowChunks);
    found.push_back(
        addressOf(row, isSteady ? from.chunk : e.urem(index, rowChunks)));
  }
  return found;
}

/// Threads that keep their column go down by whole patterns of the swizzle.
void AsyncLoad::copyUnrolled() {
  int64_t rowsAtOnce = members / rowChunks;
  bool isSteady = members % rowChunks == 0;
  bool repeats = isSteady && (!form.swizzle || rowsAtOnce % 8 == 0);
  Value step = e.mul(from.rowBytes, rowsAtOnce);
  Value at = e.add(from.mine, down), to = destination(from.row, from.chunk);
  Values found = findGathered();
  for (int64_t done = 0; done < total; done += members) {
    Value inside = done + members > total
                       ? e.lt(e.add(self, done), e.c32(total))
                       : Value();
    Value row = e.add(from.row, done / rowChunks), chunk = from.chunk;
    if (!isSteady) {
      Value index = e.add(self, done);
      row = e.udiv(index, rowChunks);
      chunk = e.urem(index, rowChunks);
      if (!gathers)
        at = addressOf(row, chunk);
    }
    if (gathers)
      at = found[done / members];
    if (repeats)
      copyChunk(to, done / rowChunks * form.rowBytes, at, row, chunk, inside);
    else
      copyChunk(destination(row, chunk), 0, at, row, chunk, inside);
    at = e.add(at, step);
  }
}

/// Any strides: element by element from chunk `index` on, ordered before the
/// commit by a fence.
void AsyncLoad::copyElements(Value index, Block *join, bool isOrdered) {
  Block *slow = e.b.getInsertionBlock();
  Block *copy = e.newBlock(), *done = e.newBlock();
  e.branch(e.lt(index, e.c32(total)), copy, done);
  e.startBlock(copy);
  Value row = e.udiv(index, rowChunks), chunk = e.urem(index, rowChunks);
  Value live = isLive(row), to = destination(row, chunk);
  Value colBytes = e.mul(colStride, elementBytes);
  Value line = e.add(e.add(planeOf(k, op), down), offsetOf(row));
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
               {to, e.add(line, e.mul(e.sext64(col), colBytes)), inside});
  }
  e.branch(slow, {e.add(index, members)});
  e.startBlock(done);
  if (isOrdered)
    e.assembly("fence.acq_rel.cta;", "~{memory}", {});
  e.branch(join);
}

void AsyncLoad::lower(bool isOrdered) {
  locate();
  Block *fast = e.newBlock(), *join = e.newBlock();
  Block *slow = e.newBlock(e.i32);
  e.branch(from.aligned, fast, slow, {}, {self});
  e.startBlock(fast);
  constexpr int64_t mostUnrolled = 8;
  if (total > mostUnrolled * members)
    copyInLoop();
  else
    copyUnrolled();
  e.branch(join);
  e.startBlock(slow);
  copyElements(slow->getArgument(0), join, isOrdered);
  e.startBlock(join);
}

LogicalResult gpu::lowerAsyncLoad(KernelContext &k, RingLoadOp op) {
  SmemType tile = op.getTile().getType();
  const RingLayout *ring =
      k.layout.ring(op.getTile().getDefiningOp<RingAcquireOp>().getRing());
  if (ring->producers != k.role.warps)
    return unsupported(op, "a role of the ring's " + Twine(ring->producers) +
                               " producing warps, but got " +
                               Twine(k.role.warps));
  if (isRowOfElements(op)) {
    copyElements(k, op);
    return success();
  }
  int64_t rank = cast<MemRefType>(op.getSource().getType()).getRank();
  if (rank < 2)
    return unsupported(op,
                       "a tensor of rank 2 or more, but got " + Twine(rank));
  if (tile.getRowBytes() % chunkBytes)
    return unsupported(op, "rows of a multiple of 16 bytes, but got " +
                               Twine(tile.getRowBytes()));
  AsyncLoad(k, op).lower(/*isOrdered=*/ring->fill == Fill::CpAsync);
  return success();
}
