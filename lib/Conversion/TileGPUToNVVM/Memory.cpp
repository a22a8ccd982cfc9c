//===- Memory.cpp - Fragments and vectors in shared memory ----------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelLowering.h"
#include "TileElements.h"

using namespace mlir;
using namespace mlir::tile_gpu;
using namespace ::attn;
using namespace ::attn::gpu;

//===----------------------------------------------------------------------===//
// Views
//===----------------------------------------------------------------------===//

LogicalResult KernelLowering::lowerSlice(SmemSliceOp op) {
  SmemType tile = op.getTile().getType();
  Value row = scalar(op.getRow()), col = scalar(op.getCol());
  if (tile.getTransposed())
    std::swap(row, col);
  Value base = scalar(op.getTile());
  int64_t swizzle = tile.getSwizzle();
  if (!swizzle) {
    set(op.getResult(), {e.add(base, e.mul(row, tile.getRowBytes()))});
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
  set(op.getResult(), {base});
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

LogicalResult KernelLowering::lowerClearRows(SmemClearRowsOp op) {
  SmemType tile = op.getTile().getType();
  TileForm form(tile);
  if (form.rowBytes % 16)
    return unsupported(op, "rows of a multiple of 16 bytes, but got " +
                               Twine(form.rowBytes));
  bool isGroup = role.scope == Scope::Warpgroup;
  int64_t members =
      isGroup ? TargetInfo::warpgroupThreads : TargetInfo::warpThreads;
  Value self = isGroup ? e.and_(thread, members - 1) : lane;
  // Warps that fill and read a slot together also clear its rows together.
  bool isShared = false;
  if (auto wait = op.getTile().getDefiningOp<RingWaitOp>())
    if (const RingLayout *ring = layout.ring(wait.getRing()))
      isShared = ring->fill == Fill::CpGroup;
  if (isShared) {
    members = role.warps * TargetInfo::warpThreads;
    self = e.add(e.shl(role.warpInRole, 5), lane);
  }
  Value base = scalar(op.getTile());
  SmallVector<Value> live;
  if (op.getLive())
    live = ballot(e, of(op.getLive()));
  for (Value word : op.getBits())
    live.push_back(scalar(word));
  // Every chunk of a row is cleared, so their order does not matter. Chunks of
  // the tile are dealt out to the threads of the member.
  int64_t panels = tile.getRowBytes() / form.rowBytes;
  int64_t perPanel = tile.getStoredRows() * form.chunks;
  for (int64_t at = 0; at < perPanel; at += members) {
    Value index = e.add(self, at), row = e.udiv(index, form.chunks);
    Value dead = e.truth(false);
    if (op.getFrom())
      dead = e.icmp(LLVM::ICmpPredicate::sge, row, scalar(op.getFrom()));
    if (op.getBefore())
      dead = e.or_(dead, e.lt(row, scalar(op.getBefore())));
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
    syncRole();
    return success();
  }
  fenceProxy();
  syncMember();
  return success();
}

/// Written before the barrier behind which roles start.
LogicalResult KernelLowering::lowerSmemRamp(SmemRampOp op) {
  Value base = address(*layout.tile(op));
  set(op.getTile(), {base});
  int64_t rows = op.getTile().getType().getRows();
  for (int64_t at = 0; at < rows; at += threads) {
    Value row = e.add(thread, at);
    Value bits =
        e.bitcast(LLVM::SIToFPOp::create(e.b, e.loc, e.f32, row), e.i32);
    Value high = e.and_(bits, -0x10000), low = e.lshr(bits, 16);
    e.assembly("@$1 st.shared::cta.v4.b32 [$0], {$2, $3, $4, $4};",
               "r,b,r,r,r,~{memory}",
               {e.add(base, e.shl(row, 4)), e.lt(row, e.c32(rows)),
                e.or_(high, low), low, e.c32(0)});
  }
  fenceProxy();
  return success();
}

/// Elements are those of the stored bytes: where they lie does not matter.
LogicalResult KernelLowering::lowerSmemMap(SmemMapOp op) {
  SmemType tile = op.getTile().getType();
  Type element = tile.getElementType();
  TileForm form(tile);
  if (form.rowBytes % 16)
    return unsupported(op, "rows of a multiple of 16 bytes, but got " +
                               Twine(form.rowBytes));
  bool isGroup = role.scope == Scope::Warpgroup;
  int64_t members =
      isGroup ? TargetInfo::warpgroupThreads : TargetInfo::warpThreads;
  Value self = isGroup ? e.and_(thread, members - 1) : lane;
  Value base = e.add(scalar(op.getTile()), e.shl(self, 4));
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
          if (failed(evaluate(op.getBody().front(),
                              {e.unpack(word, half, element)}, results)))
            return failure();
          halves.push_back(e.widen(results.front()));
        }
        operands.push_back(e.pack(halves[0], halves[1], element));
      }
      e.assembly("st.shared::cta.v4.b32 [$0], {$1, $2, $3, $4};",
                 "r,r,r,r,r,~{memory}", operands);
    }
  fenceProxy();
  syncMember();
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

LogicalResult KernelLowering::lowerSmemTurn(SmemTurnOp op) {
  bool isGroup = role.scope == Scope::Warpgroup;
  int64_t members =
      isGroup ? TargetInfo::warpgroupThreads : TargetInfo::warpThreads;
  Value self = isGroup ? e.and_(thread, members - 1) : lane;
  auto body = [&](ArrayRef<Value> arguments, SmallVectorImpl<Value> &results) {
    return evaluate(op.getBody().front(), arguments, results);
  };
  Turner turner(e, op, scalar(op.getTile()), lane, self, members, body);
  if (failed(turner.run()))
    return failure();
  fenceProxy();
  syncMember();
  return success();
}

//===----------------------------------------------------------------------===//
// Fragments
//===----------------------------------------------------------------------===//

static StringRef matrixCount(int64_t count) {
  return count == 4 ? "x4" : count == 2 ? "x2" : "x1";
}

/// "{$a, $b, ...}" of `count` operands from `first` on.
static std::string operandList(int64_t first, int64_t count) {
  std::string text = "{";
  for (int64_t i = 0; i < count; ++i)
    text += (i ? ", $" : "$") + std::to_string(first + i);
  return text + "}";
}

/// Loads `count` matrices at the lanes' addresses.
static Values loadMatrices(Emitter &e, Value address, int64_t count,
                           bool transposing) {
  std::string constraints;
  for (int64_t i = 0; i < count; ++i)
    constraints += "=r,";
  SmallVector<Type> types(count, e.i32);
  return e.assembly("ldmatrix.sync.aligned.m8n8." + matrixCount(count) +
                        (transposing ? ".trans" : "") + ".shared::cta.b16 " +
                        operandList(0, count) + ", [$" + Twine(count) + "];",
                    constraints + "r", {address}, types);
}

OperandLoader::OperandLoader(Emitter &e, const RoleContext &role, Value lane,
                             SmemType tile, Value base, Layout layout,
                             Scope scope)
    : e(e), isA(layout == Layout::A),
      // Matrices hold rows along K; stored along the other axis, they are
      // transposed on their way.
      transposing(isA == tile.getTransposed()), blockRows(blockRowsOf(scope)) {
  Value low = e.and_(e.lshr(lane, 3), 1), high = e.lshr(lane, 4);
  // a: rows by the low bit, k by the high one; b: k by the low bit, columns by
  // the high one.
  Value k = isA ? high : low, other = isA ? low : high;
  Value warpRows, warpChunks;
  if (isA && scope == Scope::Warpgroup) {
    if (transposing)
      warpChunks = e.shl(role.warpInMember, 1);
    else
      warpRows = e.shl(role.warpInMember, 4);
  }
  access.emplace(e, tile, base, lane, transposing ? k : other,
                 transposing ? other : k, warpRows, warpChunks);
}

Values OperandLoader::load(int64_t block, int64_t step, int64_t count) const {
  int64_t k = step * 2, other = isA ? block * (blockRows / 8) : block;
  Value address =
      transposing ? access->address(k, other) : access->address(other, k);
  return loadMatrices(e, address, count, transposing);
}

Tf32Loader::Tf32Loader(Emitter &e, const RoleContext &role, Value lane,
                       SmemType tile, Value base, Layout layout, bool pairs)
    : e(e), rounded(tile.getElementType().isTF32()) {
  Value quad = e.lshr(lane, 2), t = e.and_(lane, 3), none = e.c32(0);
  bool alongK = layout == Layout::A || tile.getTransposed();
  if (alongK && !pairs) {
    matrices.emplace(e, role, lane, tile, base, layout, Scope::Warp);
  } else if (alongK) {
    rows.emplace(e, tile, e.add(base, e.shl(e.and_(t, 1), 3)), quad, none,
                 e.lshr(t, 1));
  } else {
    Value within = e.add(base, e.shl(e.and_(quad, 3), 2));
    for (int64_t i : {0, 1})
      elements[i].emplace(e, tile, within,
                          pairs ? e.add(e.shl(t, 1), i) : e.add(t, 4 * i), none,
                          e.lshr(quad, 2));
  }
}

Values Tf32Loader::load(int64_t block, int64_t step, int64_t count) const {
  Values loaded;
  if (matrices) {
    loaded = matrices->load(block, step, count);
  } else {
    for (int64_t i = 0; i < count; i += 2) {
      int64_t col = block + i / 2;
      if (rows) {
        llvm::append_range(
            loaded, e.assembly("ld.shared::cta.v2.b32 {$0, $1}, [$2];",
                               "=r,=r,r,~{memory}",
                               {rows->address(col, step * 2)}, {e.i32, e.i32}));
        continue;
      }
      for (const std::optional<MatrixAccess> &access : elements)
        llvm::append_range(
            loaded, e.assembly("ld.shared::cta.b32 $0, [$1];", "=r,r,~{memory}",
                               {access->address(step, col * 2)}, e.i32));
    }
  }
  if (!rounded)
    for (Value &value : loaded)
      value = e.roundTf32(value);
  return loaded;
}

LogicalResult KernelLowering::lowerFragLoad(FragLoadOp op) {
  FragType frag = op.getResult().getType();
  SmemType tile = op.getTile().getType();
  if (tile.getBoxes() != 1)
    return unsupported(op, "a tile of one box; take a slice");
  if (frag.getElementType().isTF32()) {
    Tf32Loader loader(e, role, lane, tile, scalar(op.getTile()), Layout::A,
                      /*pairs=*/false);
    Values registers;
    for (int64_t block = 0; block < FragShape(frag).blocks; ++block)
      for (int64_t step = 0; step < frag.getCols() / MmaShape::warpTf32().k;
           ++step)
        llvm::append_range(registers, loader.load(block, step, 4));
    set(op.getResult(), std::move(registers));
    return success();
  }
  OperandLoader loader(e, role, lane, tile, scalar(op.getTile()),
                       frag.getLayout(), frag.getScope());
  Values registers;
  if (frag.getLayout() == Layout::A) {
    FragShape shape(frag);
    for (int64_t block = 0; block < shape.blocks; ++block)
      for (int64_t step = 0; step < frag.getCols() / 16; ++step)
        llvm::append_range(registers, loader.load(block, step, 4));
    set(op.getResult(), std::move(registers));
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
  set(op.getResult(), std::move(registers));
  return success();
}

LogicalResult KernelLowering::storeFragment(Operation *op, FragType frag,
                                            const Values &registers,
                                            SmemType tile, Value base,
                                            bool transposed) {
  FragShape shape(frag);
  int64_t colBlocks = shape.colBlocks;
  // Matrix i of four: rows 8 (i % 2) on, columns 8 (i / 2) on.
  Value low = e.and_(e.lshr(lane, 3), 1), high = e.lshr(lane, 4);
  Value warpRows = e.shl(role.warpInMember, 4);
  Value warpChunks = e.shl(role.warpInMember, 1);
  bool isGroup = frag.getScope() == Scope::Warpgroup;
  if (!target.hasMatrixStore) {
    if (transposed)
      return unsupported(op, "a store that is not transposed on " +
                                 Twine(target.name));
    // Two neighbours at a time, row lane / 4.
    TileForm form(tile);
    Value row = e.lshr(lane, 2), pair = e.shl(e.and_(lane, 3), 2);
    Value exchange = form.swizzle == 128  ? row
                     : form.swizzle == 64 ? e.lshr(row, 1)
                     : form.swizzle == 32 ? e.lshr(row, 2)
                                          : e.c32(0);
    Value rowBase = e.add(base, e.mul(e.add(row, warpRows), form.rowBytes));
    rowBase = e.add(rowBase, pair);
    Value swizzled = e.shl(exchange, 4);
    for (int64_t i = 0, n = registers.size(); i < n; ++i) {
      int64_t block = i / (colBlocks * 2), col = i / 2 % colBlocks;
      int64_t offset = (block * shape.blockRows + i % 2 * 8) * form.rowBytes;
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
  MatrixAccess access(e, tile, base, lane, transposed ? high : low,
                      transposed ? low : high,
                      isGroup && !transposed ? warpRows : Value(),
                      isGroup && transposed ? warpChunks : Value());
  for (int64_t block = 0; block < shape.blocks; ++block)
    for (int64_t col = 0; col < colBlocks; col += 2) {
      int64_t count = std::min<int64_t>(2, colBlocks - col) * 2;
      int64_t rowBlock = block * shape.blockRows / 8;
      Values inputs = {transposed ? access.address(col, rowBlock)
                                  : access.address(rowBlock, col)};
      int64_t first = (block * colBlocks + col) * 2;
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

LogicalResult KernelLowering::lowerFragStore(FragStoreOp op) {
  FragType frag = op.getValue().getType();
  SmemType tile = op.getTile().getType();
  Values registers = of(op.getValue());
  Value base = scalar(op.getTile());
  bool isWide = frag.getElementType().isF32();
  std::string kind = isWide ? "f" : "r";
  if (op.getFragmentOrder()) {
    // Four registers (16 bytes) of every thread, then the next four.
    bool isGroup = frag.getScope() == Scope::Warpgroup;
    int64_t members =
        isGroup ? TargetInfo::warpgroupThreads : TargetInfo::warpThreads;
    Value self = isGroup ? e.and_(thread, members - 1) : lane;
    int64_t width = std::min<int64_t>(4, registers.size());
    Value mine = e.add(base, e.mul(self, width * 4));
    for (int64_t i = 0, n = registers.size(); i < n; i += width) {
      Values inputs = {e.add(mine, i * 4 * members)};
      std::string constraints = "r";
      for (int64_t j = 0; j < width; ++j) {
        inputs.push_back(registers[i + j]);
        constraints += "," + kind;
      }
      e.assembly("st.shared::cta.v" + Twine(width) + ".b32 [$0], " +
                     operandList(1, width) + ";",
                 constraints + ",~{memory}", inputs);
    }
    return success();
  }
  if (tile.getBoxes() != 1)
    return unsupported(op, "a tile of one box; take a slice");
  if (!isWide)
    return storeFragment(op, frag, registers, tile, base, tile.getTransposed());
  // Two f32 of a row at a time: half a chunk.
  FragShape shape(frag);
  TileForm form(tile);
  Value row = e.lshr(lane, 2);
  Value exchange = form.swizzle == 128  ? row
                   : form.swizzle == 64 ? e.lshr(row, 1)
                   : form.swizzle == 32 ? e.lshr(row, 2)
                                        : e.c32(0);
  Value rowBase = e.add(base, e.mul(role.row, form.rowBytes));
  Value half = e.shl(e.and_(lane, 1), 3);
  Value chunkBit = e.and_(e.lshr(lane, 1), 1);
  Value swizzled = e.add(e.shl(e.xor_(exchange, chunkBit), 4), half);
  for (int64_t i = 0, n = registers.size(); i < n; i += 2) {
    int64_t block = i / (shape.colBlocks * 4), col = i / 4 % shape.colBlocks;
    int64_t offset = (block * shape.blockRows + i / 2 % 2 * 8) * form.rowBytes;
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

LogicalResult KernelLowering::lowerVecLoad(VecLoadOp op) {
  VecType vec = op.getResult().getType();
  SmemType tile = op.getTile().getType();
  Value base = scalar(op.getTile());
  if (op.getIndex()) {
    TileElements elements(e, tile, base, lane);
    Value index = scalar(op.getIndex());
    Values registers;
    if (vec.getAxis() == Axis::Row) {
      Value mine = elements.at(role.row, index);
      for (int64_t i = 0, n = registerCount(vec); i < n; ++i)
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
    set(op.getResult(), std::move(registers));
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
    Value mine = e.add(base, e.shl(role.row, 2));
    for (int64_t i = 0, n = registerCount(vec); i < n; ++i)
      llvm::append_range(
          registers,
          load(e.add(mine,
                     (i / 2 * blockRowsOf(vec.getScope()) + i % 2 * 8) * 4),
               1));
  } else if (op.getPermuted()) {
    // Of each 16 columns, a lane's four follow each other.
    Value mine = e.add(base, e.shl(e.and_(lane, 3), 4));
    for (int64_t i = 0, n = vec.getSize(); i < n; i += 16)
      llvm::append_range(registers, load(e.add(mine, i * 4), 4));
  } else {
    Value mine = e.add(base, e.shl(role.col, 2));
    for (int64_t i = 0, n = vec.getSize(); i < n; i += 8)
      llvm::append_range(registers, load(e.add(mine, i * 4), 2));
  }
  set(op.getResult(), std::move(registers));
  return success();
}

LogicalResult KernelLowering::lowerVecStore(VecStoreOp op) {
  VecType vec = op.getValue().getType();
  SmemType tile = op.getTile().getType();
  TileElements elements(e, tile, scalar(op.getTile()), lane);
  Value index = scalar(op.getIndex());
  Values registers = of(op.getValue());
  if (vec.getAxis() == Axis::Row) {
    Value owner = e.eq(e.and_(lane, 3), 0);
    Value mine = elements.at(role.row, index);
    for (int64_t i = 0, n = registers.size(); i < n; ++i)
      elements.store(
          mine,
          elements.rowStep(i / 2 * blockRowsOf(vec.getScope()) + i % 2 * 8),
          {registers[i]}, owner);
    return success();
  }
  Value owner = e.eq(e.lshr(lane, 2), 0);
  if (vec.getScope() == Scope::Warpgroup)
    owner = e.and_(owner, e.eq(role.warpInMember, 0));
  for (int64_t block = 0; block < vec.getSize() / 8; ++block)
    elements.store(elements.pairAt(index, block), 0,
                   {registers[block * 2], registers[block * 2 + 1]}, owner);
  return success();
}
