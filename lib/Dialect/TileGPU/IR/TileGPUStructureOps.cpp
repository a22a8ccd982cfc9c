//===- TileGPUStructureOps.cpp - Roles, schedules, rings ------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/Tile/IR/KernelOps.h"
#include "attn/Dialect/TileGPU/IR/TileForm.h"
#include "attn/Dialect/TileGPU/IR/TileGPU.h"
#include "attn/Support/MostCounted.h"
#include "attn/Target/TargetInfo.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::tile_gpu;

#define GET_OP_CLASSES
#include "attn/Dialect/TileGPU/IR/TileGPUOps.cpp.inc"

//===----------------------------------------------------------------------===//
// KernelOp
//===----------------------------------------------------------------------===//

void KernelOp::build(OpBuilder &b, OperationState &state, StringRef name,
                     FunctionType type, attn::ScheduleAttr schedule) {
  tile::buildKernel<KernelOp>(b, state, name, type, schedule);
}

ParseResult KernelOp::parse(OpAsmParser &parser, OperationState &result) {
  SMLoc loc = parser.getCurrentLocation();
  if (tile::parseKernel<KernelOp>(parser, result))
    return failure();
  return tile::checkAttribute<LaunchAttr>(parser, loc, result,
                                          getLaunchAttrName(result.name),
                                          "a #tile_gpu.launch<...>");
}

void KernelOp::print(OpAsmPrinter &p) { tile::printKernel(p, *this); }

LogicalResult KernelOp::verify() {
  if (getNumResults())
    return emitOpError("expected a kernel to have no results, but got ")
           << getNumResults();
  return success();
}

//===----------------------------------------------------------------------===//
// RoleOp
//===----------------------------------------------------------------------===//

ParseResult RoleOp::parse(OpAsmParser &parser, OperationState &result) {
  StringAttr name;
  StringRef keyword;
  int64_t count = 0;
  Builder &b = parser.getBuilder();
  SMLoc loc;
  if (parser.parseAttribute(name) || parser.getCurrentLocation(&loc) ||
      parser.parseKeyword(&keyword))
    return failure();
  if (keyword != "warps" && keyword != "warpgroups")
    return parser.emitError(loc,
                            "expected warps(n) or warpgroups(n), but got '")
           << keyword << "'";
  if (parser.parseLParen() || parser.parseInteger(count) ||
      parser.parseRParen())
    return failure();
  Properties &properties = result.getOrAddProperties<Properties>();
  properties.name = name;
  properties.scope = ScopeAttr::get(
      b.getContext(), keyword == "warps" ? Scope::Warp : Scope::Warpgroup);
  properties.count = b.getI64IntegerAttr(count);
  auto parseNumber = [&](StringRef what, IntegerAttr &attr) -> ParseResult {
    int64_t number = 0;
    if (failed(parser.parseOptionalKeyword(what)))
      return success();
    if (parser.parseLParen() || parser.parseInteger(number) ||
        parser.parseRParen())
      return failure();
    attr = b.getI64IntegerAttr(number);
    return success();
  };
  if (parseNumber("registers", properties.registers) ||
      parseNumber("barrier", properties.barrier))
    return failure();
  if (parser.parseOptionalAttrDictWithKeyword(result.attributes))
    return failure();
  return parser.parseRegion(*result.addRegion());
}

void RoleOp::print(OpAsmPrinter &p) {
  p << ' ' << getNameAttr()
    << (getScope() == Scope::Warp ? " warps(" : " warpgroups(") << getCount()
    << ')';
  if (std::optional<uint64_t> registers = getRegisters())
    p << " registers(" << *registers << ')';
  if (std::optional<uint64_t> barrier = getBarrier())
    p << " barrier(" << *barrier << ')';
  p.printOptionalAttrDictWithKeyword(
      (*this)->getAttrs(), {"name", "scope", "count", "registers", "barrier"});
  p << ' ';
  p.printRegion(getBody());
}

using ::attn::mostCounted;

LogicalResult RoleOp::verify() {
  using ::attn::TargetInfo;
  if (int64_t(getCount()) <= 0)
    return emitOpError("expected 1 warp or warpgroup or more, but got ")
           << int64_t(getCount());
  if (int64_t(getCount()) > mostCounted)
    return emitOpError("expected at most ")
           << mostCounted << " warps or warpgroups, but got "
           << int64_t(getCount());
  if (std::optional<uint64_t> registers = getRegisters())
    if (int64_t(*registers) < TargetInfo::minRoleRegisters ||
        *registers % TargetInfo::registerStep)
      return emitOpError("expected registers to be a multiple of ")
             << TargetInfo::registerStep << " from "
             << TargetInfo::minRoleRegisters << " on, but got "
             << int64_t(*registers);
  Block &block = getBody().front();
  if (block.getNumArguments() != 1 ||
      !block.getArgument(0).getType().isSignlessInteger(32))
    return emitOpError("expected one block argument of type i32, the number "
                       "of the warp or warpgroup");
  auto yield = dyn_cast<YieldOp>(block.back());
  if (!yield)
    return emitOpError("expected the body to end with tile_gpu.yield");
  if (yield->getNumOperands())
    return emitOpError("expected the body to yield nothing");
  return success();
}

//===----------------------------------------------------------------------===//
// SchedulerOp, ForeachOp
//===----------------------------------------------------------------------===//

static LogicalResult verifyI32Arguments(Operation *op, Block &block,
                                        unsigned count, StringRef names) {
  bool ok = block.getNumArguments() >= count;
  for (unsigned i = 0; ok && i < count; ++i)
    ok = block.getArgument(i).getType().isSignlessInteger(32);
  if (ok)
    return success();
  return op->emitOpError("expected i32 block arguments (") << names << ")";
}

static LogicalResult verifyCluster(Operation *op,
                                   std::optional<uint64_t> cluster) {
  // The sizes that every GPU with clusters takes.
  constexpr uint64_t least = 2, most = 8;
  if (!cluster || (*cluster >= least && *cluster <= most))
    return success();
  return op->emitOpError("expected clusters of ")
         << least << " to " << most << " blocks, but got " << int64_t(*cluster);
}

LogicalResult SchedulerOp::verify() {
  bool dynamic = getKind() == ScheduleKind::Dynamic;
  if (dynamic != bool(getTickets()))
    return emitOpError(dynamic
                           ? "expected tickets(...) with a dynamic schedule"
                           : "expected tickets(...) with a dynamic schedule "
                             "only");
  if (Value section = getSection()) {
    APInt heads;
    if (matchPattern(section, m_ConstantInt(&heads)) && heads.sle(0))
      return emitOpError("expected a section of 1 head or more, but got ")
             << heads.getSExtValue();
  }
  if (failed(verifyCluster(*this, getCluster())))
    return failure();
  if (getCluster() && !dynamic)
    return emitOpError("expected cluster(...) with a dynamic schedule only");
  if (getDrawsFirst() && (!dynamic || getCluster()))
    return emitOpError("expected draws_first with a dynamic schedule without "
                       "cluster(...) only");
  if (getByParts() && (!getCluster() || !getSplits()))
    return emitOpError("expected by_parts beside cluster(...) and splits(...) "
                       "only");
  Block &block = getBody().front();
  if (failed(verifyI32Arguments(*this, block, 4, "tile, head, batch, split")))
    return failure();
  if (block.getNumArguments() != 4)
    return emitOpError("expected 4 block arguments, but got ")
           << block.getNumArguments();
  auto yield = dyn_cast<YieldOp>(block.back());
  if (!yield)
    return emitOpError("expected the body to end with tile_gpu.yield");
  for (Type type : yield.getOperandTypes())
    if (!type.isIndex() && !type.isF32() && !type.isSignlessInteger(1) &&
        !type.isSignlessInteger(32) && !type.isSignlessInteger(64))
      return emitOpError("expected to yield values of i1, i32, i64, index or "
                         "f32, but got ")
             << type;
  return success();
}

/// Block arguments of a foreach that every schedule gives.
static constexpr unsigned numTileArguments = 4;

SmallVector<Region *> ForeachOp::getLoopRegions() { return {&getBody()}; }
MutableArrayRef<OpOperand> ForeachOp::getInitsMutable() {
  return getInitialMutable();
}
Block::BlockArgListType ForeachOp::getRegionIterArgs() {
  return getBody().front().getArguments().take_back(getInitial().size());
}
std::optional<MutableArrayRef<OpOperand>> ForeachOp::getYieldedValuesMutable() {
  return getBody().front().getTerminator()->getOpOperands();
}
std::optional<ResultRange> ForeachOp::getLoopResults() {
  return (*this)->getResults();
}

/// The loop that leads draws for the others, whatever it does itself.
void ForeachOp::getEffects(
    SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  if (getLead()) {
    effects.emplace_back(MemoryEffects::Read::get());
    effects.emplace_back(MemoryEffects::Write::get());
  }
}

/// How often `block` says that the next item may be drawn; -1 where that
/// depends on the path, or on how often a loop runs.
static int countDraws(Block &block) {
  int count = 0;
  for (Operation &op : block) {
    if (isa<DrawNextOp>(op)) {
      ++count;
      continue;
    }
    std::optional<int> inner;
    for (Region &region : op.getRegions()) {
      int here = region.empty() ? 0 : countDraws(region.front());
      if (here < 0 || (inner && *inner != here))
        return -1;
      inner = here;
    }
    if (inner && *inner && !isa<scf::IfOp>(op))
      return -1;
    count += inner.value_or(0);
  }
  return count;
}

LogicalResult ForeachOp::verify() {
  Block &block = getBody().front();
  if (failed(verifyI32Arguments(*this, block, numTileArguments,
                                "tile, head, batch, split")))
    return failure();
  TypeRange inits(getInitial().getTypes()), given(block.getArgumentTypes());
  if (given.size() < numTileArguments + inits.size())
    return emitOpError("expected ")
           << numTileArguments << " block arguments for the item and "
           << inits.size() << " for the initial values, but got "
           << given.size();
  TypeRange carried = given.take_back(inits.size());
  auto scheduler = getSchedule().getDefiningOp<SchedulerOp>();
  // A schedule below this loop may not be verified yet.
  if (scheduler && !scheduler.getBody().front().empty()) {
    TypeRange more = given.drop_back(inits.size()).drop_front(numTileArguments);
    Operation &yields = scheduler.getBody().front().back();
    if (TypeRange expected = yields.getOperandTypes(); expected != more) {
      InFlightDiagnostic diag = emitOpError("expected ")
                                << expected.size()
                                << " block arguments for what the schedule "
                                   "yields, of its types";
      diag.attachNote(scheduler.getLoc()) << "schedule defined here";
      return diag;
    }
  }
  auto yield = dyn_cast<YieldOp>(block.back());
  if (!yield)
    return emitOpError("expected the body to end with tile_gpu.yield");
  if (carried != inits || TypeRange(yield->getOperandTypes()) != inits ||
      TypeRange(getResultTypes()) != inits)
    return emitOpError("expected initial values, carried block arguments, "
                       "yielded values and results of the same types");
  if (int draws = countDraws(block); draws < 0 || draws > 1)
    return emitOpError("expected tile_gpu.draw_next once on every path through "
                       "the body, or nowhere");
  return success();
}

LogicalResult DrawNextOp::verify() {
  auto loop = (*this)->getParentOfType<ForeachOp>();
  if (!loop || loop.getLead())
    return emitOpError("expected to be in a loop over a schedule whose items "
                       "another role draws");
  auto scheduler = loop.getSchedule().getDefiningOp<SchedulerOp>();
  if (scheduler && scheduler.getKind() != ScheduleKind::Dynamic)
    return emitOpError(
               "expected a dynamic schedule, whose items are drawn, but "
               "got a ")
           << stringifyScheduleKind(scheduler.getKind()) << " one";
  return success();
}

LogicalResult SkipOp::verify() {
  auto scheduler = cast<SchedulerOp>((*this)->getParentOp());
  if (scheduler.getKind() != ScheduleKind::Dynamic || scheduler.getCluster())
    return emitOpError("expected a dynamic schedule without clusters, whose "
                       "items one warp draws for others");
  return success();
}

//===----------------------------------------------------------------------===//
// Rings
//===----------------------------------------------------------------------===//

LogicalResult RingCreateOp::verify() {
  bool counted = getFill() != Fill::Tma;
  if (counted != getProducers().has_value())
    return emitOpError(counted ? "expected producers(warps) with this fill"
                               : "expected no producers(...) with tma: its one "
                                 "arrival announces the bytes");
  if (getFill() == Fill::Exchange && getConsumers())
    return emitOpError("expected no consumers(...) on an exchange ring: it has "
                       "no empty barrier");
  if (getFill() == Fill::CpGroup && getConsumers())
    return emitOpError("expected no consumers(...) on a cp_group ring: the "
                       "warps that fill it read it, and release nothing");
  if (int64_t warps = getProducers().value_or(1); warps <= 0)
    return emitOpError("expected 1 producing warp or more, but got ") << warps;
  if (int64_t warps = getConsumers().value_or(1); warps <= 0)
    return emitOpError("expected 1 consuming warp or more, but got ") << warps;
  int64_t warps =
      std::max<int64_t>(getProducers().value_or(1), getConsumers().value_or(1));
  if (warps > mostCounted)
    return emitOpError("expected at most ")
           << mostCounted << " producing and consuming warps, but got "
           << warps;
  for (SmemType tile : getRing().getType().getTiles())
    if (tile.getElementType().isTF32() && getFill() != Fill::CpGroup)
      return emitOpError(
                 "expected tiles of tf32 on a cp_group ring, whose warps "
                 "round what they have copied, but got ")
             << tile << " on a " << stringifyFill(getFill()) << " ring";
  if (getMembers() && (getFill() != Fill::Tma || !getConsumers()))
    return emitOpError("expected members(...) on a tma ring with consumers "
                       "only, but got ")
           << stringifyFill(getFill())
           << (getConsumers() ? "" : " without consumers");
  if (int64_t members = getMembers().value_or(1);
      members < 1 || getRing().getType().getStages() % members != 0)
    return emitOpError("expected as many slots for each member, but got ")
           << getRing().getType().getStages() << " slots for " << members
           << " members";
  if (failed(verifyCluster(*this, getCluster())))
    return failure();
  bool ofStates = getFill() == Fill::States;
  if (getCluster() && !ofStates && (getFill() != Fill::Tma || !getConsumers()))
    return emitOpError("expected cluster(...) on a tma ring with consumers, or "
                       "one of states, only, but got ")
           << stringifyFill(getFill())
           << (getConsumers() ? "" : " without consumers");
  if (getReleaseAll() && (!getCluster() || ofStates))
    return emitOpError("expected release_all on a tma ring with cluster(...) "
                       "only");
  if (ofStates && (!getCluster() || getConsumers() != getProducers() ||
                   getRing().getType().getStages() != 1))
    return emitOpError(
        "expected a ring of states to have 1 slot, cluster(...), "
        "and as many consumers as producers");
  if (getFill() == Fill::Exchange && getRing().getType().getStages() < 2)
    return emitOpError("expected an exchange ring of 2 slots or more, but got ")
           << getRing().getType().getStages();
  return success();
}

static LogicalResult inferTiles(ValueRange operands,
                                SmallVectorImpl<Type> &types) {
  auto ring =
      operands.empty() ? RingType() : dyn_cast<RingType>(operands[0].getType());
  if (!ring)
    return failure();
  types.append(ring.getTiles().begin(), ring.getTiles().end());
  return success();
}

LogicalResult RingAcquireOp::inferReturnTypes(
    MLIRContext *, std::optional<Location>, ValueRange operands, DictionaryAttr,
    OpaqueProperties, RegionRange, SmallVectorImpl<Type> &types) {
  return inferTiles(operands, types);
}
LogicalResult RingWaitOp::inferReturnTypes(MLIRContext *,
                                           std::optional<Location>,
                                           ValueRange operands, DictionaryAttr,
                                           OpaqueProperties, RegionRange,
                                           SmallVectorImpl<Type> &types) {
  return inferTiles(operands, types);
}
LogicalResult RingViewSlotOp::inferReturnTypes(
    MLIRContext *, std::optional<Location>, ValueRange operands, DictionaryAttr,
    OpaqueProperties, RegionRange, SmallVectorImpl<Type> &types) {
  return inferTiles(operands, types);
}

/// A tensor map has rank 2 to 4; which of them, its type does not say.
static LogicalResult verifyMapIndices(Operation *op, OperandRange indices) {
  if (indices.size() >= 2 && indices.size() <= 4)
    return success();
  return op->emitOpError("expected 2 to 4 indices, as many as the tensor of "
                         "the map has dimensions, but got ")
         << indices.size();
}

/// The operation that made a ring, where it is in sight.
static RingCreateOp createOf(Value ring) {
  return ring.getDefiningOp<RingCreateOp>();
}

/// Whether lanes can hand on entries that the warp has read: a tile's are all
/// of one register.
static LogicalResult verifyEntries(RingLoadOp op) {
  auto map = dyn_cast<TensorMapType>(op.getSource().getType());
  if (!op.getTable() || !map || !op.getEntries() || !op.getFirstEntry())
    return op.emitOpError("expected entries(...) with a tensor map and the "
                          "table that they are of");
  VecType entries = op.getEntries().getType();
  if (!entries.getElementType().isInteger(32) ||
      entries.getAxis() != Axis::Row || entries.getScope() != Scope::Warp ||
      entries.getPartial())
    return op.emitOpError("expected entries in a warp's row vector of i32, "
                          "but got ")
           << entries;
  int64_t page = *op.getPage(), rows = op.getTile().getType().getRows();
  if (page != map.getBox().getRows() ||
      ::attn::gpu::rowsOfRegister % (rows / page))
    return op.emitOpError("expected a tile of 1, 2, 4 or 8 whole pages with "
                          "entries(...), but got one of ")
           << rows << " rows and pages of " << page << " in boxes of "
           << map.getBox().getRows();
  return success();
}

LogicalResult RingLoadOp::verify() {
  SmemType tile = getTile().getType();
  auto acquire = getTile().getDefiningOp<RingAcquireOp>();
  if (!acquire)
    return emitOpError("expected a tile of ring.acquire: its slot counts the "
                       "copy");
  RingCreateOp create = createOf(acquire.getRing());
  Fill fill = create ? create.getFill() : Fill::Tma;
  if (fill == Fill::Warps || fill == Fill::Exchange || fill == Fill::States)
    return emitOpError("expected a tma, cp_async or cp_group ring, but got a "
                       "ring that is filled by ")
           << stringifyFill(fill);
  if (getTable() && getStart())
    return emitOpError("expected one of table and start");
  if (auto map = dyn_cast<TensorMapType>(getSource().getType())) {
    if (create && fill != Fill::Tma)
      return emitOpError("expected a memref source on a ")
             << stringifyFill(fill) << " ring, but got a tensor map";
    SmemType box = map.getBox();
    // Boxes fill a tile of one piece from its rows on.
    int64_t rows = tile.getBoxRows();
    if (tile.getBoxes() == 1 && rows % box.getRows() == 0)
      rows = box.getRows();
    SmemType need =
        SmemType::get(getContext(), rows, tile.getCols(), tile.getElementType(),
                      tile.getSwizzle(), 1, rows, false);
    if (box != need)
      return emitOpError("expected a tensor map with boxes of ")
             << need << ", but got " << box;
    int64_t boxes = tile.getRows() / rows;
    if (boxes != 1 && !getBox() && !getTable())
      return emitOpError("expected box(...) or table(...): this tile has ")
             << boxes << " boxes";
    if (getBox() && (boxes == 1 || getTable()))
      return emitOpError("expected box(...) with a tile of several boxes and "
                         "no table only");
    if (getStart() || getBoxes())
      return emitOpError("expected no start or boxes with a tensor map, whose "
                         "boxes say where they are");
    if (getRows() || getFrom())
      return emitOpError("expected no rows(...) with a tensor map: it bounds "
                         "the rows itself");
    if (bool(getTable()) != bool(getPage()))
      return emitOpError("expected table(...) and page(...) together");
    if (getTable() && (*getPage() < 1 || *getPage() % rows))
      return emitOpError("expected pages of a multiple of the ")
             << rows << " rows of a box, but got " << *getPage();
    if (getTable() && getIndices().size() != 4)
      return emitOpError("expected 4 indices with a table, but got ")
             << getIndices().size();
    if ((getEntries() || getFirstEntry()) && failed(verifyEntries(*this)))
      return failure();
    return verifyMapIndices(*this, getIndices());
  }
  if (getEntries() || getFirstEntry())
    return verifyEntries(*this);
  if (getPage())
    return emitOpError("expected no page(...) with a memref, whose type has "
                       "the rows of a page");
  auto memref = cast<MemRefType>(getSource().getType());
  if (getBox() && tile.getBoxes() == 1)
    return emitOpError("expected box(...) with a tile of several boxes only");
  if ((getTable() || getStart()) &&
      (memref.getRank() != 4 || fill == Fill::Tma))
    return emitOpError("expected rows that are found one by one in a tensor of "
                       "rank 4, on a cp_async or cp_group ring, but got ")
           << memref << " on a " << stringifyFill(fill) << " ring";
  if (std::optional<int64_t> boxes = getBoxes()) {
    int64_t page = getTable() ? memref.getDimSize(2) : 0;
    if (page <= 0 || *boxes < 1 || page % *boxes)
      return emitOpError("expected boxes of a number of rows that divides a "
                         "page of a table, but got ")
             << *boxes << " and " << memref;
  }
  Type element = tile.getElementType();
  if (element.isTF32())
    element = Float32Type::get(getContext());
  if (memref.getElementType() != element)
    return emitOpError("expected a source of ")
           << element << ", but got " << memref.getElementType();
  if (int64_t(getIndices().size()) != memref.getRank())
    return emitOpError("expected ")
           << memref.getRank() << " indices, but got " << getIndices().size();
  if (fill == Fill::Tma && (tile.getRows() != 1 || getRows() || getFrom()))
    return emitOpError("expected a tile of one row and no rows(...): from a "
                       "memref, a tma ring copies contiguous bytes; use a "
                       "tensor map for more rows");
  return success();
}

LogicalResult RingCommitOp::verify() {
  if (RingCreateOp create = createOf(getRing()))
    if (create.getFill() == Fill::Tma || create.getFill() == Fill::States)
      return emitOpError("expected a ring filled by cp_async, warps or "
                         "exchange, but got ")
             << stringifyFill(create.getFill())
             << ", which becomes full by its bytes";
  return success();
}

LogicalResult HoldOp::verify() {
  if (getValues().empty())
    return emitOpError("expected a value or more to wait behind, but got none");
  return success();
}

LogicalResult RingReleaseOp::verify() {
  if (RingCreateOp create = createOf(getRing()))
    if (!create.getConsumers())
      return emitOpError("expected a ring with consumers(warps), whose empty "
                         "barrier counts the release");
  return success();
}

LogicalResult ExchangeOp::verify() {
  if (RingCreateOp create = createOf(getRing()))
    if (create.getFill() != Fill::Exchange)
      return emitOpError("expected an exchange ring, but got a ring filled by ")
             << stringifyFill(create.getFill());
  SmemType tile = getRing().getType().getTiles().front();
  FragType value = getValue().getType();
  int64_t rows = getTransposed() ? value.getCols() : value.getRows();
  int64_t cols = getTransposed() ? value.getRows() : value.getCols();
  if (value.getElementType() != tile.getElementType())
    return emitOpError("expected a fragment of ")
           << tile.getElementType() << ", but got " << value.getElementType();
  if (!value.getElementType().isBF16() && !value.getElementType().isF16())
    return emitOpError("expected 16-bit elements, but got ")
           << value.getElementType();
  if (value.getLayout() == Layout::B)
    return emitOpError("expected an acc or a fragment, but got b");
  if (tile.getRows() % rows || tile.getCols() % cols)
    return emitOpError("expected parts that divide the tile of ")
           << tile.getRows() << "x" << tile.getCols() << ", but got " << rows
           << "x" << cols;
  return success();
}

//===----------------------------------------------------------------------===//
// Barriers
//===----------------------------------------------------------------------===//

LogicalResult BarrierCreateOp::verify() {
  int64_t warps = getWarps(), each = getEach();
  if (warps <= 0 || each <= 0)
    return emitOpError("expected 1 warp and 1 barrier or more, but got ")
           << warps << " and " << each;
  if (warps > mostCounted || each > mostCounted)
    return emitOpError("expected at most ")
           << mostCounted << " warps and barriers, but got " << warps << " and "
           << each;
  return success();
}

//===----------------------------------------------------------------------===//
// Plan
//===----------------------------------------------------------------------===//

LogicalResult TensorMapOp::verify() {
  auto source = cast<MemRefType>(getSource().getType());
  SmemType box = getMap().getType().getBox();
  if (source.getRank() < 2 || source.getRank() > 4)
    return emitOpError("expected a tensor of rank 2 to 4, but got ")
           << source.getRank();
  if (source.getElementType() != box.getElementType())
    return emitOpError("expected boxes of ")
           << source.getElementType() << ", but got " << box.getElementType();
  SmallVector<int64_t> strides;
  int64_t offset;
  if (failed(source.getStridesAndOffset(strides, offset)) ||
      strides.back() != 1)
    return emitOpError("expected unit stride in the last dimension");
  return success();
}

LogicalResult LaunchOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto kernel =
      symbols.lookupNearestSymbolFrom<KernelOp>(*this, getKernelAttr());
  if (!kernel)
    return emitOpError("expected '")
           << getKernel() << "' to be a tile_gpu.kernel in this module";
  if (TypeRange(kernel.getArgumentTypes()) !=
      TypeRange(getArguments().getTypes()))
    return emitOpError("expected arguments of the types of '")
           << getKernel() << "'";
  return success();
}

LogicalResult KeepOp::verify() {
  return tile::verifyAllocation(*this, getMemories().getTypes(), getSizes());
}

LogicalResult TicketsOp::verify() {
  MemRefType type = getCounters().getType();
  if (!type.hasStaticShape() || !type.getLayout().isIdentity() ||
      type.getNumElements() == 0)
    return emitOpError("expected a static number of counters, but got ")
           << type;
  return success();
}

//===----------------------------------------------------------------------===//
// Bulk copies
//===----------------------------------------------------------------------===//

LogicalResult BulkStoreOp::verify() {
  SmemType tile = getTile().getType();
  SmemType box = getDestination().getType().getBox();
  if (!tile.isContiguous())
    return emitOpError("expected a tile whose bytes follow each other, but the "
                       "panels of ")
           << tile << " lie " << tile.getPitch()
           << " rows apart; store each panel by itself";
  if (tile.getRows() != box.getRows() || tile.getCols() != box.getCols() ||
      tile.getElementType() != box.getElementType() ||
      tile.getSwizzle() != box.getSwizzle() || tile.getTransposed() ||
      tile.getBoxes() != 1)
    return emitOpError("expected a tile of the map's box ")
           << box << ", but got " << tile;
  return verifyMapIndices(*this, getIndices());
}

LogicalResult BulkReduceOp::verify() {
  SmemType tile = getTile().getType();
  auto memory = cast<MemRefType>(getDestination().getType());
  if (!tile.getElementType().isF32() || !memory.getElementType().isF32())
    return emitOpError("expected a tile and memory of f32, but got ")
           << tile.getElementType() << " and " << memory.getElementType();
  if (tile.getSwizzle() || tile.getTransposed())
    return emitOpError("expected a plain tile, but got ") << tile;
  if (int64_t(getIndices().size()) != memory.getRank())
    return emitOpError("expected ")
           << memory.getRank() << " indices, but got " << getIndices().size();
  if (!getTurn())
    return success();
  for (Operation *at = getOperation(); at; at = at->getPrevNode())
    if (auto wait = dyn_cast<BlockTurnWaitOp>(at))
      if (wait.getTurn() == getTurn())
        return success();
  return emitOpError("expected a tile_gpu.block_turn.wait of its turn before "
                     "it in its block");
}

LogicalResult BulkWaitOp::verify() {
  if (int64_t(getPending()) < 0)
    return emitOpError("expected a number of pending copies, but got ")
           << int64_t(getPending());
  return success();
}

//===----------------------------------------------------------------------===//
// Turns of blocks
//===----------------------------------------------------------------------===//

template <typename OpT> static LogicalResult verifyBlockTurn(OpT op) {
  auto type = cast<MemRefType>(op.getCounters().getType());
  if (type.getElementType().isInteger(32) &&
      type.getRank() == int64_t(op.getIndices().size()))
    return success();
  return op.emitOpError("expected counters of i32, and an index for each of "
                        "their dimensions, but got ")
         << type << " and " << op.getIndices().size();
}

LogicalResult BlockTurnWaitOp::verify() { return verifyBlockTurn(*this); }
LogicalResult BlockTurnPassOp::verify() { return verifyBlockTurn(*this); }
