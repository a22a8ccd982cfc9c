//===- SharedMemory.cpp - Tiles as wholes and by rows ---------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Lowerings.h"
#include "TileElements.h"

using namespace mlir;
using namespace mlir::tile_gpu;
using namespace ::attn;
using namespace ::attn::gpu;

LogicalResult gpu::lower(KernelContext &k, SmemSliceOp op) {
  Emitter &e = k.e;
  SmemType tile = op.getTile().getType();
  Value row = k.scalar(op.getRow()), col = k.scalar(op.getCol());
  if (tile.getTransposed())
    std::swap(row, col);
  Value base = k.scalar(op.getTile());
  int64_t swizzle = tile.getSwizzle();
  if (!swizzle) {
    k.set(op.getResult(), {e.add(base, e.mul(row, tile.getRowBytes()))});
    return success();
  }
  if (tile.getBoxes() > 1) {
    int64_t boxRows = tile.getBoxRows();
    base =
        e.add(base, e.mul(e.udiv(row, boxRows), boxRows * tile.getRowBytes()));
    row = e.urem(row, boxRows);
  }
  int64_t panelCols = swizzle / tile.getElementBytes();
  base = e.add(base, e.mul(row, swizzle));
  base = e.add(base, e.mul(e.udiv(col, panelCols), tile.getPitch() * swizzle));
  k.set(op.getResult(), {base});
  return success();
}

/// The truths of a column vector as bits, 32 to a word; the same in all lanes.
static SmallVector<Value> ballot(Emitter &e, const Values &registers) {
  SmallVector<Value> words;
  for (size_t i = 0; i < registers.size(); i += 2) {
    // Lanes 0 to 3 hold columns 2 lane and 2 lane + 1 of 8.
    Value byte = e.c32(0);
    for (int64_t odd : {0, 1}) {
      Value bits = e.call("llvm.nvvm.vote.ballot.sync", e.i32,
                          {e.c32(-1), registers[i + odd]});
      for (int64_t bit = 0; bit < 4; ++bit)
        byte = e.or_(byte, e.shl(e.and_(bits, int64_t(1) << bit), bit + odd));
    }
    if (i / 2 % 4 == 0)
      words.push_back(byte);
    else
      words.back() = e.or_(words.back(), e.shl(byte, i / 2 % 4 * 8));
  }
  return words;
}

LogicalResult gpu::lower(KernelContext &k, SmemClearRowsOp op) {
  Emitter &e = k.e;
  SmemType tile = op.getTile().getType();
  TileForm form(tile);
  if (form.rowBytes % 16)
    return unsupported(op, "rows of a multiple of 16 bytes, but got " +
                               Twine(form.rowBytes));
  auto [members, self] = k.memberThreads();
  // Warps that fill and read a slot together also clear its rows together.
  bool isShared = false;
  if (auto wait = op.getTile().getDefiningOp<RingWaitOp>())
    if (const RingLayout *ring = k.layout.ring(wait.getRing()))
      isShared = ring->fill == Fill::CpGroup;
  if (isShared) {
    members = k.role.warps * TargetInfo::warpThreads;
    self = e.add(e.shl(k.role.warpInRole, 5), k.lane);
  }
  Value base = k.scalar(op.getTile());
  SmallVector<Value> live;
  if (op.getLive())
    live = ballot(e, k.of(op.getLive()));
  for (Value word : op.getBits())
    live.push_back(k.scalar(word));
  // Every chunk of a row is cleared, so their order does not matter. Chunks of
  // the tile are dealt out to the threads of the member.
  int64_t panels = tile.getRowBytes() / form.rowBytes;
  int64_t perPanel = tile.getStoredRows() * form.chunks;
  for (int64_t at = 0; at < perPanel; at += members) {
    Value index = e.add(self, at), row = e.udiv(index, form.chunks);
    Value dead = e.truth(false);
    if (op.getFrom())
      dead = e.icmp(LLVM::ICmpPredicate::sge, row, k.scalar(op.getFrom()));
    if (op.getBefore())
      dead = e.or_(dead, e.lt(row, k.scalar(op.getBefore())));
    if (!live.empty()) {
      // Most often the threads' rows are bits of one word.
      int64_t rows = members / form.chunks;
      bool isOneWord = rows > 0 && 32 % rows == 0;
      size_t first = isOneWord ? at / form.chunks / 32 : 0;
      Value word = live[std::min(first, live.size() - 1)];
      for (size_t i = 1; i < live.size() && !isOneWord; ++i)
        word = e.select(e.eq(e.lshr(row, 5), i), live[i], word);
      Value bit = LLVM::LShrOp::create(e.b, e.loc, word, e.and_(row, 31));
      dead = e.or_(dead, e.eq(e.and_(bit, 1), 0));
    }
    if (at + members > perPanel)
      dead = e.and_(dead, e.lt(index, e.c32(perPanel)));
    for (int64_t panel = 0; panel < panels; ++panel)
      e.assembly("@$1 st.shared::cta.v4.b32 [$0], {$2, $2, $2, $2};",
                 "r,b,r,~{memory}",
                 {e.add(e.add(base, panel * form.panelBytes), e.shl(index, 4)),
                  dead, e.c32(0)});
  }
  if (isShared) {
    k.syncRole();
    return success();
  }
  k.fenceProxy();
  k.syncMember();
  return success();
}

/// Written before the barrier behind which roles start.
LogicalResult gpu::lower(KernelContext &k, SmemRampOp op) {
  Emitter &e = k.e;
  Value base = k.address(*k.layout.tile(op));
  k.set(op.getTile(), {base});
  int64_t rows = op.getTile().getType().getRows();
  for (int64_t at = 0; at < rows; at += k.threads) {
    Value row = e.add(k.thread, at);
    Value bits =
        e.bitcast(LLVM::SIToFPOp::create(e.b, e.loc, e.f32, row), e.i32);
    Value high = e.and_(bits, -0x10000), low = e.lshr(bits, 16);
    e.assembly("@$1 st.shared::cta.v4.b32 [$0], {$2, $3, $4, $4};",
               "r,b,r,r,r,~{memory}",
               {e.add(base, e.shl(row, 4)), e.lt(row, e.c32(rows)),
                e.or_(high, low), low, e.c32(0)});
  }
  k.fenceProxy();
  return success();
}

/// Elements are those of the stored bytes: where they lie does not matter.
LogicalResult gpu::lower(KernelContext &k, SmemMapOp op) {
  Emitter &e = k.e;
  SmemType tile = op.getTile().getType();
  Type element = tile.getElementType();
  TileForm form(tile);
  if (form.rowBytes % 16)
    return unsupported(op, "rows of a multiple of 16 bytes, but got " +
                               Twine(form.rowBytes));
  auto [members, self] = k.memberThreads();
  Value base = e.add(k.scalar(op.getTile()), e.shl(self, 4));
  int64_t panels = tile.getRowBytes() / form.rowBytes;
  int64_t perPanel = tile.getStoredRows() * form.chunks;
  if (perPanel % members)
    return unsupported(op, "panels of a multiple of " + Twine(members) +
                               " chunks of 16 bytes, but got " +
                               Twine(perPanel));
  SmallVector<Type> four(4, e.i32);
  for (int64_t panel = 0; panel < panels; ++panel)
    for (int64_t at = 0; at < perPanel; at += members) {
      Value address = e.add(base, panel * form.panelBytes + at * 16);
      Values chunk = e.assembly("ld.shared::cta.v4.b32 {$0, $1, $2, $3}, [$4];",
                                "=r,=r,=r,=r,r,~{memory}", {address}, four);
      SmallVector<Value> operands = {address};
      for (Value word : chunk) {
        SmallVector<Value, 2> halves;
        for (int64_t half : {0, 1}) {
          SmallVector<Value> results;
          if (failed(k.evaluate(op.getBody().front(),
                                {e.unpack(word, half, element)}, results)))
            return failure();
          halves.push_back(e.widen(results.front()));
        }
        operands.push_back(e.pack(halves[0], halves[1], element));
      }
      e.assembly("st.shared::cta.v4.b32 [$0], {$1, $2, $3, $4};",
                 "r,r,r,r,r,~{memory}", operands);
    }
  k.fenceProxy();
  k.syncMember();
  return success();
}

namespace {

/// Turns the pairs of a tile's rows. Threads take words of two columns, those
/// of a row side by side, so that what the body reads from memory for the pairs
/// of a row is side by side, too.
class Turner {
public:
  /// What the body yields for its arguments.
  using Evaluate =
      function_ref<LogicalResult(ArrayRef<Value>, SmallVectorImpl<Value> &)>;

  Turner(Emitter &e, SmemTurnOp op, Value base, Value lane, Value self,
         int64_t members, Evaluate body)
      : body(body), e(e), elements(e, op.getTile().getType(), base, lane),
        self(self), members(members),
        element(op.getTile().getType().getElementType()),
        isHalves(op.getRotary().getPairs() == mlir::attn::RotaryPairs::halves),
        pairs(op.getRotary().getChannels() / 2),
        words(isHalves ? pairs / 2 : pairs),
        all(op.getTile().getType().getRows() * words) {}
  LogicalResult run();

private:
  /// Of one pair, or of two and their mates.
  struct Words {
    Value row, pair, isThere;
    SmallVector<Value, 2> addresses, values;
  };
  Words read(int64_t turn);
  LogicalResult turn(Words &mine);
  LogicalResult evaluate(Words &mine, int64_t pair, Value x, Value y,
                         SmallVector<Value> &results);
  void write(const Words &mine);

  Evaluate body;
  Emitter &e;
  TileElements elements;
  Value self;
  int64_t members;
  Type element;
  bool isHalves;
  int64_t pairs, words, all;
};

} // namespace

Turner::Words Turner::read(int64_t turn) {
  Words mine;
  Value index = e.add(self, turn * members);
  // Where the threads have whole rows, the column of each is always the same.
  bool isEven = members % words == 0;
  Value word = e.urem(isEven ? self : index, words);
  mine.row = isEven ? e.add(e.udiv(self, words), turn * (members / words))
                    : e.udiv(index, words);
  if ((turn + 1) * members > all) {
    mine.isThere = e.lt(index, e.c32(all));
    mine.row = e.select(mine.isThere, mine.row, e.c32(0));
  }
  Value col = e.shl(word, 1);
  mine.pair = isHalves ? col : word;
  for (int64_t mate = 0; mate < (isHalves ? 2 : 1); ++mate) {
    Value address = elements.at(mine.row, e.add(col, mate * pairs));
    mine.addresses.push_back(address);
    mine.values.push_back(e.assembly("ld.shared::cta.b32 $0, [$1];",
                                     "=r,r,~{memory}", {address}, e.i32)
                              .front());
  }
  return mine;
}

/// The numbers, in f32, that a pair's results are rounded from.
LogicalResult Turner::evaluate(Words &mine, int64_t pair, Value x, Value y,
                               SmallVector<Value> &results) {
  if (failed(body({mine.row, e.add(mine.pair, pair), x, y}, results)))
    return failure();
  for (Value &result : results) {
    auto round = result.getDefiningOp<LLVM::FPTruncOp>();
    bool isRounded = round && round.getArg().getType() == e.f32;
    result = isRounded ? round.getArg() : e.widen(result);
  }
  return success();
}

LogicalResult Turner::turn(Words &mine) {
  auto half = [&](int64_t word, int64_t which) {
    return e.unpack(mine.values[word], which, element);
  };
  SmallVector<Value> first, second;
  if (failed(evaluate(mine, 0, half(0, 0), isHalves ? half(1, 0) : half(0, 1),
                      first)))
    return failure();
  if (!isHalves) {
    mine.values = {e.pack(first[0], first[1], element)};
    return success();
  }
  if (failed(evaluate(mine, 1, half(0, 1), half(1, 1), second)))
    return failure();
  mine.values = {e.pack(first[0], second[0], element),
                 e.pack(first[1], second[1], element)};
  return success();
}

void Turner::write(const Words &mine) {
  for (auto [address, value] : llvm::zip(mine.addresses, mine.values)) {
    if (mine.isThere)
      e.assembly("@$2 st.shared::cta.b32 [$0], $1;", "r,r,b,~{memory}",
                 {address, value, mine.isThere});
    else
      e.assembly("st.shared::cta.b32 [$0], $1;", "r,r,~{memory}",
                 {address, value});
  }
}

/// What the body reads takes long: it is asked for a batch ahead of what is
/// written, and registers hold two batches beside what else there is.
LogicalResult Turner::run() {
  constexpr int64_t batchWords = 16;
  int64_t turns = llvm::divideCeil(all, members);
  int64_t size = isHalves ? batchWords / 2 : batchWords;
  SmallVector<Words> before;
  for (int64_t first = 0; first < turns; first += size) {
    SmallVector<Words> batch;
    for (int64_t i = first; i < std::min(turns, first + size); ++i)
      batch.push_back(read(i));
    for (Words &mine : batch)
      if (failed(turn(mine)))
        return failure();
    for (const Words &mine : before)
      write(mine);
    before = std::move(batch);
  }
  for (const Words &mine : before)
    write(mine);
  return success();
}

LogicalResult gpu::lower(KernelContext &k, SmemTurnOp op) {
  Emitter &e = k.e;
  auto [members, self] = k.memberThreads();
  auto body = [&](ArrayRef<Value> arguments, SmallVectorImpl<Value> &results) {
    return k.evaluate(op.getBody().front(), arguments, results);
  };
  Turner turner(e, op, k.scalar(op.getTile()), k.lane, self, members, body);
  if (failed(turner.run()))
    return failure();
  k.fenceProxy();
  k.syncMember();
  return success();
}
