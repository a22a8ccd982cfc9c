//===- TurnRows.cpp - Rows that a kernel turns once -----------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A block has some rows of a head. Where the pairs are halves, two tiles hold
// both channels of as many pairs, and become two tiles. Interleaved pairs, and
// halves of odd widths, are read element by element, each pair for both of its
// channels.
//
//===----------------------------------------------------------------------===//

#include "TurnRows.h"
#include "Pages.h"
#include "PlanBuilder.h"
#include "TileBlock.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::attn;

std::string mlir::attn::whyNotTurned(ReductionOpInterface op) {
  Region &turn = op.getRotateKeysBody();
  if (!turn.empty() && !turn.getArgument(3).use_empty())
    return "a region 'rotate_keys' that reads the head, of which a key has "
           "several";
  return "";
}

bool mlir::attn::turnsInside(ReductionOpInterface op,
                             const ::attn::TargetInfo &target) {
  return !target.isCpu() && op.getRotaryAttribute() &&
         !op.getRotateKeysBody().empty() &&
         op.getScheduleAttribute().getRotate() == Rotate::inside;
}

std::string mlir::attn::whyNotTurnedInside(ReductionOpInterface op,
                                           const ::attn::TargetInfo &target) {
  RotaryAttr rotary = op.getRotaryAttribute();
  ScheduleAttr schedule = op.getScheduleAttribute();
  Value keys = op.getKeyOperands().front();
  if (getElementTypeOrSelf(keys).getIntOrFloatBitWidth() != 16)
    return "keys that are not of 16 bits";
  for (Value value : op.getValueOperands())
    if (value == keys || keysWithColumns(op, value) != value)
      return "values that are columns of the keys";
  if (rotary.getPairs() == RotaryPairs::halves && rotary.getChannels() % 4)
    return "halves of an odd number of channels";
  const ::attn::MmaShape unit = ::attn::MmaShape::warpgroup();
  if (target.hasRoles() && schedule.getRows() == unit.m &&
      schedule.getBlockQ() != unit.m)
    return "several warpgroups, which may leave out steps";
  return "";
}

int64_t TurnKernel::sliceWidth(RotaryAttr rotary) {
  int64_t half = rotary.getChannels() / 2;
  bool fits = rotary.getPairs() == RotaryPairs::halves &&
              half % ::attn::MmaShape::warp().m == 0;
  return fits ? std::gcd(half, slicePairs) : 0;
}

int64_t TurnKernel::countSlices(RotaryAttr rotary) {
  int64_t width = sliceWidth(rotary);
  return width ? rotary.getChannels() / 2 / width : 1;
}

TurnKernel::TurnKernel(ReductionOpInterface op, bool ofQueries,
                       const ::attn::TargetInfo &target, tile::KernelOp kernel)
    : KernelBuilder(op, MonoidOp(), target, kernel),
      region(ofQueries ? op.getRotateQueriesBody() : op.getRotateKeysBody()),
      tensor(ofQueries ? op.getQueryOperands().front()
                       : op.getKeyOperands().front()),
      rotary(op.getRotaryAttribute()),
      depth(cast<ShapedType>(tensor.getType()).getShape().back()) {
  rowSource = ofQueries ? op.getQuerySource() : op.getKeySource();
  int64_t page = ofQueries ? 0 : pageOf(op);
  behind = ::attn::paddedKeys(op.getScheduleAttribute().getBlockK(), target);
  isAligned = page > 0 && page % blockRows() == 0;
}

/// The block's head and rows, as many as are in the sequence.
void TurnKernel::locate(Value numTiles, Value block) {
  SequenceRows sequences(*this, memory);
  Value rows = dim(memory, rowSource.rowDim());
  auto work = tile::WorkTileOp::create(
      b, loc, block, sequences.getBatches(), dim(memory, rowSource.headDim()),
      numTiles, /*parts=*/index(countSlices(rotary)));
  sequences.describe(work, blockRows());
  batch = work.getBatch();
  head = work.getHead();
  batchI32 = sequences.batchOfCaptures();
  headI32 = toI32(head);
  opened = openSource(memory, rowSource, /*rest=*/sequences.arePacked(),
                      /*vector=*/false, isAligned);
  dimOfRows = rows;
  sq = opened == memory
           ? rows
           : tile::ExtentOp::create(b, loc, b.getIndexType(), opened, batch)
                 .getResult();
  row0 = mul(work.getTile(), index(blockRows()));
  slice = work.getPart();
}

void TurnKernel::build(Value into, Value numTiles, Value block) {
  b.setInsertionPointToStart(&kernel.getBody().front());
  rowSource = bound(rowSource);
  memory = arg(tensor);
  locate(numTiles, block);
  hasOwnSizes = true;
  uniformPoint = index(0).getDefiningOp();
  // Tiles of keys end behind the last one: what they have of others is written,
  // too. Packed rows have those of the next sequence there.
  end = sq;
  if (!rowSource.is(SourceKind::varlen) && sq != dimOfRows)
    end = min(add(sq, index(behind)), dim(into, 2));
  auto hasRows = scf::IfOp::create(
      b, loc,
      arith::AndIOp::create(b, loc,
                            cmp(arith::CmpIPredicate::sgt, sq, index(0)),
                            cmp(arith::CmpIPredicate::slt, row0, end)),
      /*withElse=*/false);
  tile::ReturnOp::create(b, loc);
  b.setInsertionPointToStart(hasRows.thenBlock());
  if (rowSource.is(SourceKind::varlen))
    into = openSource(into, rowSource, /*rest=*/true, /*vector=*/false);
  if (sliceWidth(rotary))
    turnSlice(into);
  else
    turnEach(into, toI32(row0));
}

SmallVector<Value> TurnKernel::turn(Value row, Value pair, Value x, Value y) {
  Point point;
  point.row = row;
  point.key = pair;
  PointCloner cloner(*this, region, /*firstPosition=*/2, /*hasKey=*/true,
                     cast<ReductionOpInterface>(op).getCaptureOperands(),
                     point);
  cloner.map(region.getArgument(0), x);
  cloner.map(region.getArgument(1), y);
  SmallVector<Value> both;
  for (Value yielded : getYielded(region))
    both.push_back(cloner.get(yielded));
  return both;
}

/// Tiles of both channels of pairs, of which a block has a slice.
void TurnKernel::turnSlice(Value into) {
  int64_t half = rotary.getChannels() / 2, width = sliceWidth(rotary);
  Value first = mul(slice, index(width));
  Value second = add(first, index(half));
  Value x = loadSlice(first, width), y = loadSlice(second, width);
  Value base = toI32(row0), pair = toI32(first);
  SmallVector<Value> both =
      map({x, y}, {x.getType(), y.getType()},
          [&](Value row, Value col, ValueRange of) {
            return turn(add(base, row), add(pair, col), of[0], of[1]);
          });
  storeSlice(both[0], into, first);
  storeSlice(both[1], into, second);
  if (2 * half == depth)
    return;
  auto isFirst =
      scf::IfOp::create(b, loc, cmp(arith::CmpIPredicate::eq, slice, index(0)),
                        /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(isFirst.thenBlock());
  for (int64_t first = 2 * half; first < depth; first += blockChannels) {
    int64_t width =
        std::min<int64_t>(llvm::alignTo(depth - first, 16), blockChannels);
    storeSlice(loadSlice(index(first), width), into, index(first));
  }
}

/// Tiles of channels, each of which reads its pair.
void TurnKernel::turnEach(Value into, Value base) {
  int64_t channels = rotary.getChannels(), half = channels / 2;
  bool isHalves = rotary.getPairs() == RotaryPairs::halves;
  for (int64_t first = 0; first < depth; first += blockChannels) {
    int64_t width =
        std::min<int64_t>(llvm::alignTo(depth - first, 16), blockChannels);
    auto body = [&](Value row, Value col, ValueRange) -> SmallVector<Value> {
      Value channel = min(add(col, i32(first)), i32(depth - 1));
      if (first >= channels)
        return {element(row, channel)};
      Value isSecond, pair;
      if (isHalves) {
        isSecond = cmp(arith::CmpIPredicate::sge, channel, i32(half));
        pair = select(isSecond, sub(channel, i32(half)), channel);
      } else {
        isSecond = cmp(arith::CmpIPredicate::ne,
                       arith::AndIOp::create(b, loc, channel, i32(1)), i32(0));
        pair = arith::ShRUIOp::create(b, loc, channel, i32(1));
      }
      // Channels behind the pairs read one, which they do not take.
      pair = min(pair, i32(half - 1));
      Value x = isHalves ? pair : mul(pair, i32(2));
      Value y = add(x, i32(isHalves ? half : 1));
      SmallVector<Value> both =
          turn(add(base, row), pair, element(row, x), element(row, y));
      Value turned = select(isSecond, both[1], both[0]);
      if (first + width <= channels)
        return {turned};
      Value isTurned = cmp(arith::CmpIPredicate::slt, channel, i32(channels));
      return {select(isTurned, turned, element(row, channel))};
    };
    storeSlice(map({}, tileType(blockRows(), width), body).front(), into,
               index(first));
  }
}

/// Where a row of the sequence, i32, is in a cache: its page or batch, and the
/// row there.
std::pair<Value, Value> TurnKernel::findRow(Value position) {
  Value rows = max(dim(memory, 2), index(1));
  if (rowSource.is(SourceKind::ring)) {
    Value start = max(KernelBuilder::element(rowSource.map, batch), index(0));
    return {batch, divide(add(start, toIndex(position)), rows).second};
  }
  auto [number, row] = divide(toIndex(position), rows);
  Value page = toIndex(
      memref::LoadOp::create(b, loc, rowSource.map, ValueRange{batch, number}));
  page = min(page, sub(dim(memory, 0), index(1)));
  return {max(page, index(0)), row};
}

Value TurnKernel::element(Value row, Value channel) {
  // Rows behind the last of the sequence stand for it, and are not stored.
  Value position = min(add(toI32(row0), row), toI32(sub(sq, index(1))));
  Type type = cast<MemRefType>(memory.getType()).getElementType();
  Value loaded;
  if (rowSource.is(SourceKind::paged) || rowSource.is(SourceKind::ring)) {
    auto [lead, at] = findRow(position);
    loaded = memref::LoadOp::create(
        b, loc, memory, ValueRange{lead, head, at, toIndex(channel)});
  } else {
    loaded = tile::ElementOp::create(
        b, loc, type, opened,
        ValueRange{batch, head, toIndex(position), toIndex(channel)});
  }
  if (type.isF32())
    return loaded;
  return arith::ExtFOp::create(b, loc, b.getF32Type(), loaded);
}

Value TurnKernel::loadSlice(Value channel, int64_t width) {
  tile::TileType type = tileType(blockRows(), width);
  bool isFound = rowSource.is(SourceKind::ring) ||
                 (rowSource.is(SourceKind::paged) && !isAligned);
  if (isFound)
    return map({}, type,
               [&](Value row, Value col, ValueRange) {
                 Value at = min(add(col, toI32(channel)), i32(depth - 1));
                 return SmallVector<Value>{element(row, at)};
               })
        .front();
  return tile::LoadOp::create(
      b, loc, type, opened, ValueRange{batch, head, row0, channel},
      /*lower=*/index(0), /*upper=*/sq, /*live=*/Value(), /*vector=*/false);
}

void TurnKernel::storeSlice(Value tile, Value into, Value channel) {
  tile::StoreOp::create(b, loc, tile, into,
                        ValueRange{batch, head, row0, channel}, row0, end,
                        /*vector=*/false);
}

//===----------------------------------------------------------------------===//
// The plan
//===----------------------------------------------------------------------===//

/// Workspace for rows of `depth` channels, which begin at multiples of 16
/// bytes, as tensor copies want them.
static Value makeRows(OpBuilder &b, Location loc, ValueRange sizes,
                      int64_t depth, Type element) {
  int64_t pitch =
      llvm::alignTo(depth, 16 * 8 / int64_t(element.getIntOrFloatBitWidth()));
  SmallVector<int64_t> shape(sizes.size(), ShapedType::kDynamic);
  shape.push_back(pitch);
  Value rows =
      tile::WorkspaceOp::create(b, loc, MemRefType::get(shape, element), sizes);
  if (pitch == depth)
    return rows;
  shape.back() = depth;
  SmallVector<OpFoldResult> extents(sizes.begin(), sizes.end()),
      steps = {b.getIndexAttr(1)};
  extents.push_back(b.getIndexAttr(depth));
  Value step = arith::ConstantIndexOp::create(b, loc, pitch);
  for (Value size : llvm::reverse(sizes)) {
    steps.insert(steps.begin(), step);
    step = arith::MulIOp::create(b, loc, step, size);
  }
  SmallVector<int64_t> layout(shape.size(), ShapedType::kDynamic);
  layout.back() = 1;
  auto view = MemRefType::get(
      shape, element,
      StridedLayoutAttr::get(b.getContext(), /*offset=*/0, layout));
  return memref::ReinterpretCastOp::create(
      b, loc, view, rows, OpFoldResult(b.getIndexAttr(0)), extents, steps);
}

Value PlanBuilder::turnRows(ReductionOpInterface op, bool ofQueries) {
  Region &region =
      ofQueries ? op.getRotateQueriesBody() : op.getRotateKeysBody();
  if (region.empty())
    return {};
  Location loc = op.getLoc();
  Value tensor =
      ofQueries ? op.getQueryOperands().front() : op.getKeyOperands().front();
  Source source = ofQueries ? op.getQuerySource() : op.getKeySource();
  PlanRows counted = rowsOf(loc, source, tensor);
  Value rows = counted.getRows(), heads = counted.getHeads();
  SmallVector<Value> sizes = counted.getLeading();
  sizes.append({heads, rows});
  auto type = cast<MemRefType>(mapping.lookup(tensor).getType());
  Value into =
      makeRows(b, loc, sizes, type.getShape().back(), type.getElementType());

  Value numTiles = counted.countTiles(rows, TurnKernel::blockRows());
  SmallVector<Value> operands = {tensor};
  llvm::append_range(operands, source.getOperands());
  llvm::append_range(operands, op.getCaptureOperands());
  Kernel kernel = startKernel(op, operands, {}, {numTiles, into}, {});
  TurnKernel builder(op, ofQueries, target, kernel.func);
  for (auto [i, operand] : llvm::enumerate(kernel.operands))
    builder.bind(operand, kernel.func.getArgument(i));
  builder.build(kernel.extra[1], kernel.extra[0], kernel.block);
  Value grid = counted.countInGrid();
  Value slices = index(TurnKernel::countSlices(op.getRotaryAttribute()), loc);
  for (Value size : {heads, numTiles, slices})
    grid = b.createOrFold<arith::MulIOp>(loc, grid, size);
  launch(loc, kernel, grid);
  return into;
}
