//===- Merge.cpp - States of several places into one ----------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Two states in registers are merged element by element. States of warps go
// through shared memory: fragments by register and lane, vectors by element,
// so that a warp finds its part of another's rows under its own lanes. States
// of the blocks of a cluster are stored where they are combined. Of many states
// whose statistic is the greater one, each is scaled once, beside the greatest
// of all: none waits for another.
//
//===----------------------------------------------------------------------===//

#include "Lowerings.h"
#include "attn/Dialect/TileGPU/IR/MergedStates.h"

using namespace mlir;
using namespace mlir::tile_gpu;
using namespace ::attn;
using namespace ::attn::gpu;

namespace {

/// Registers of a state: of each statistic, and of each value.
struct MergeState {
  SmallVector<Values> stats, values;
};

} // namespace

/// A value times its factor, which silences it where it is 0.
static Value scale(Emitter &e, Value factor, Value value) {
  Value zero = e.fcmp(LLVM::FCmpPredicate::oeq, factor, e.cf(0.0f));
  return e.select(zero, e.cf(0.0f), e.fmul(factor, value));
}

/// Which element of a statistic is beside register `i` of a value.
static int64_t keyOf(Type value, int64_t i, bool byRow) {
  auto frag = dyn_cast<FragType>(value);
  if (!frag)
    return i;
  FragShape shape(frag);
  return byRow ? shape.rowKey(i) : shape.colKey(i);
}

/// alpha x + beta y.
static Value blend(Emitter &e, Value alpha, Value x, Value beta, Value y) {
  return e.fadd(scale(e, alpha, x), scale(e, beta, y));
}

/// Merges a second state into a first one.
static LogicalResult mergeInto(KernelContext &k, MergeStatesOp op,
                               MergeState &state, const MergeState &other,
                               TypeRange valueTypes) {
  auto first = cast<VecType>(op.getStats().front().getType());
  bool byRow = first.getAxis() == Axis::Row;
  SmallVector<Value> alphas, betas;
  for (int64_t key = 0, n = state.stats.front().size(); key < n; ++key) {
    SmallVector<Value> arguments, results;
    for (Values &stat : state.stats)
      arguments.push_back(stat[key]);
    for (const Values &stat : other.stats)
      arguments.push_back(stat[key]);
    if (failed(k.evaluate(op.getBody().front(), arguments, results)))
      return failure();
    for (auto [stat, result] : llvm::zip(state.stats, results))
      stat[key] = result;
    alphas.push_back(results[state.stats.size()]);
    betas.push_back(results[state.stats.size() + 1]);
  }
  for (auto [value, from, type] :
       llvm::zip_equal(state.values, other.values, valueTypes)) {
    for (int64_t i = 0, n = value.size(); i < n; ++i) {
      int64_t key = keyOf(type, i, byRow);
      value[i] = blend(k.e, alphas[key], value[i], betas[key], from[i]);
    }
  }
  return success();
}

/// Whether a merged statistic is the greater one: then it is that of all states
/// before any is scaled.
static bool takesGreatest(MergeStatesOp op) {
  Block &body = op.getBody().front();
  auto most =
      body.getTerminator()->getOperand(0).getDefiningOp<arith::MaximumFOp>();
  return op.getStats().size() == 1 && most &&
         most.getLhs() == body.getArgument(0) &&
         most.getRhs() == body.getArgument(1);
}

/// Scales each state once, by its distance from the greatest statistic.
static LogicalResult mergeAtOnce(KernelContext &k, MergeStatesOp op,
                                 MutableArrayRef<MergeState> states,
                                 TypeRange valueTypes) {
  Emitter &e = k.e;
  Block &body = op.getBody().front();
  bool byRow =
      cast<VecType>(op.getStats().front().getType()).getAxis() == Axis::Row;
  Values most = states.front().stats.front();
  for (const MergeState &state : states.drop_front())
    for (auto [greatest, stat] : llvm::zip_equal(most, state.stats.front()))
      greatest = LLVM::MaximumOp::create(e.b, e.loc, greatest, stat);
  SmallVector<Values> sums(valueTypes.size());
  for (const MergeState &state : states) {
    Values factors;
    for (auto [stat, greatest] : llvm::zip_equal(state.stats.front(), most)) {
      SmallVector<Value> results;
      if (failed(k.evaluate(body, {stat, greatest}, results)))
        return failure();
      factors.push_back(results[1]);
    }
    for (auto [sum, value, type] :
         llvm::zip_equal(sums, state.values, valueTypes)) {
      for (int64_t i = 0, n = value.size(); i < n; ++i) {
        int64_t key = keyOf(type, i, byRow);
        Value scaled = scale(e, factors[key], value[i]);
        if (int64_t(sum.size()) < n)
          sum.push_back(scaled);
        else
          sum[i] = e.fadd(sum[i], scaled);
      }
    }
  }
  states.front() = {{most}, sums};
  return success();
}

/// Merges states: several at once where that can be, else neighbours, then
/// neighbours among what that gives, and so on: no state waits for all before
/// it.
static LogicalResult mergeAll(KernelContext &k, MergeStatesOp op,
                              MutableArrayRef<MergeState> states,
                              TypeRange valueTypes) {
  if (takesGreatest(op))
    return mergeAtOnce(k, op, states, valueTypes);
  for (size_t apart = 1; apart < states.size(); apart *= 2)
    for (size_t i = 0; i + apart < states.size(); i += 2 * apart)
      if (failed(mergeInto(k, op, states[i], states[i + apart], valueTypes)))
        return failure();
  return success();
}

namespace {

/// The states of a role's warps, one after the other in shared memory:
/// statistics and vectors by element, then fragments.
class StatesOfWarps {
public:
  StatesOfWarps(KernelContext &k, MergeStatesOp op, const MergeState &mine);
  void write(const MergeState &mine);
  /// The state of a warp as this warp needs it: of a split fragment its own
  /// rows.
  MergeState read(int64_t warp);
  /// Waits for all warps.
  void sync();

private:
  static constexpr int64_t registerBytes = 4 * TargetInfo::warpThreads;
  /// Where this thread's register `key` lies in a value.
  Value elementAt(Value base, int64_t key) {
    return e.add(base, elementOffset(key));
  }
  Value elementOffset(int64_t key) {
    Value index = byRow ? k.rowIndex(Scope::Warp, key) : k.colIndex(key);
    return e.shl(index, 2);
  }
  /// Words of shared memory at offsets from addresses, some in one text: a
  /// text costs LLVM as much as ten instructions in it.
  struct Words {
    SmallVector<Value> addresses;
    SmallVector<int64_t> offsets;
  };
  static constexpr size_t mostWords = 16;
  /// The registers of a value, `from` where it begins.
  Words wordsOf(Value from, Type type, int64_t count);
  void store(const Words &words, const Values &values);
  Values load(const Words &words, Type type);

  KernelContext &k;
  Emitter &e;
  MergeStatesOp op;
  VecType axis;
  bool byRow;
  SmallVector<int64_t> statOffsets, valueOffsets;
  /// Bytes of one state.
  int64_t bytes = 0;
  Value scratch, laneOffset;
};

} // namespace

StatesOfWarps::StatesOfWarps(KernelContext &k, MergeStatesOp op,
                             const MergeState &mine)
    : k(k), e(k.e), op(op), axis(cast<VecType>(op.getStats()[0].getType())),
      byRow(axis.getAxis() == Axis::Row) {
  int64_t vecBytes = axis.getSize() * 4;
  for (size_t i = 0; i < mine.stats.size(); ++i, bytes += vecBytes)
    statOffsets.push_back(bytes);
  for (size_t i = 0; i < mine.values.size(); ++i) {
    valueOffsets.push_back(bytes);
    bytes += isa<VecType>(op.getValues()[i].getType())
                 ? vecBytes
                 : int64_t(mine.values[i].size()) * registerBytes;
  }
  scratch = k.scalar(op.getScratch());
  laneOffset = e.shl(k.lane, 2);
}

StatesOfWarps::Words StatesOfWarps::wordsOf(Value from, Type type,
                                            int64_t count) {
  Words words;
  bool isVec = isa<VecType>(type);
  Value lanes = isVec ? Value() : e.add(from, laneOffset);
  for (int64_t key = 0; key < count; ++key) {
    words.addresses.push_back(isVec ? elementAt(from, key) : lanes);
    words.offsets.push_back(isVec ? 0 : key * registerBytes);
  }
  return words;
}

void StatesOfWarps::store(const Words &words, const Values &values) {
  for (size_t first = 0; first < values.size(); first += mostWords) {
    std::string text, constraints;
    SmallVector<Value> inputs;
    for (size_t i = first; i < std::min(first + mostWords, values.size());
         ++i) {
      std::string number = std::to_string(inputs.size());
      text += "st.shared::cta.b32 [$" + number + "+" +
              std::to_string(words.offsets[i]) + "], $" +
              std::to_string(inputs.size() + 1) + ";\n";
      Value bits = values[i].getType() == e.i1
                       ? LLVM::ZExtOp::create(e.b, e.loc, e.i32, values[i])
                       : e.bitcast(values[i], e.i32);
      inputs.append({words.addresses[i], bits});
      constraints += "r,r,";
    }
    e.assembly(text, constraints + "~{memory}", inputs);
  }
}

Values StatesOfWarps::load(const Words &words, Type type) {
  Values values;
  for (size_t first = 0; first < words.addresses.size(); first += mostWords) {
    auto some =
        ArrayRef<Value>(words.addresses).slice(first).take_front(mostWords);
    std::string text, outs, ins;
    for (size_t i = 0; i < some.size(); ++i) {
      text += "ld.shared::cta.b32 $" + std::to_string(i) + ", [$" +
              std::to_string(some.size() + i) + "+" +
              std::to_string(words.offsets[first + i]) + "];\n";
      outs += "=&r,";
      ins += "r,";
    }
    for (Value bits : e.assembly(text, outs + ins + "~{memory}", some,
                                 SmallVector<Type>(some.size(), e.i32)))
      values.push_back(type == e.i1
                           ? e.icmp(LLVM::ICmpPredicate::ne, bits, e.c32(0))
                           : e.bitcast(bits, type));
  }
  return values;
}

void StatesOfWarps::sync() {
  e.call("llvm.nvvm.barrier.cta.sync.aligned.count",
         {e.c32(k.layout.memberBarrier(k.role.op)),
          e.c32(*op.getCount() * TargetInfo::warpThreads)});
}

void StatesOfWarps::write(const MergeState &mine) {
  Value to = e.add(scratch, e.mul(k.role.warpInRole, bytes));
  for (auto [stat, offset] : llvm::zip_equal(mine.stats, statOffsets))
    store(wordsOf(e.add(to, offset), axis, stat.size()), stat);
  for (auto [i, values] : llvm::enumerate(mine.values))
    store(wordsOf(e.add(to, valueOffsets[i]), op.getValues()[i].getType(),
                  values.size()),
          values);
}

MergeState StatesOfWarps::read(int64_t warp) {
  MergeState state;
  Value from = e.add(scratch, warp * bytes);
  for (int64_t offset : statOffsets)
    state.stats.push_back(
        load(wordsOf(e.add(from, offset), axis, k.registerCount(axis)),
             axis.getElementType()));
  TypeRange types =
      TypeRange(op.getResultTypes()).drop_front(statOffsets.size());
  for (auto [i, type] : llvm::enumerate(types)) {
    int64_t n = k.registerCount(type);
    Value at = e.add(from, valueOffsets[i]);
    if (type != op.getValues()[i].getType())
      at = e.add(at, e.mul(k.role.warpInRole, n * registerBytes));
    state.values.push_back(load(wordsOf(at, type, n), e.f32));
  }
  return state;
}

/// The `copy`-th of the states that an operation has as operands.
static MergeState stateOf(KernelContext &k, MergeStatesOp op, int64_t copy,
                          int64_t copies) {
  MergeState state;
  size_t numStats = op.getStats().size() / copies;
  size_t numValues = op.getValues().size() / copies;
  for (Value stat : op.getStats().slice(copy * numStats, numStats))
    state.stats.push_back(k.of(stat));
  for (Value value : op.getValues().slice(copy * numValues, numValues))
    state.values.push_back(k.of(value));
  return state;
}

static LogicalResult mergeWarps(KernelContext &k, MergeStatesOp op,
                                MergeState &state, TypeRange valueTypes) {
  int64_t count = *op.getCount();
  if (k.role.scope != Scope::Warp || k.role.warps != count)
    return unsupported(op, "a role of " + Twine(count) +
                               " warps, but got one of " + Twine(k.role.warps));
  StatesOfWarps states(k, op, state);
  // Who still reads an earlier merge must be done.
  states.sync();
  states.write(state);
  states.sync();
  SmallVector<MergeState> all;
  for (int64_t warp = 0; warp < count; ++warp)
    all.push_back(states.read(warp));
  if (failed(mergeAll(k, op, all, valueTypes)))
    return failure();
  state = all.front();
  return success();
}

//===----------------------------------------------------------------------===//
// Blocks of a cluster
//===----------------------------------------------------------------------===//

namespace {
/// The states of a cluster's blocks. Each block stores sixteen rows of its own
/// into the slot of the block that combines these, without waiting (PTX ISA,
/// st.async), where they count towards that block's full barrier: a row of the
/// slot's tile for each block, of registers by lane, then of vectors by column.
/// A warpgroup stores what another block combines of all its rows, each warp
/// its registers beside those of the others, and the first one the vectors.
class StatesOfCluster {
public:
  StatesOfCluster(KernelContext &k, MergeStatesOp op, const RingLayout &ring)
      : k(k), e(k.e), op(op), ofGroup(mergesWarpgroups(op)),
        count(*op.getCount()), pieces(ofGroup ? count : op.getSixteensOfWarp()),
        warps(ofGroup ? k.role.warps : 1), rowBytes(4 * floatsOfPart(op)),
        slot(k.address(ring.offsets[0])), full(k.address(ring.full)),
        part(k.scalar(op.getPart())) {
    Value first = e.mul(k.lane, laneBytes);
    ofLane = ofGroup ? e.add(first, e.mul(k.role.warpInRole, 32 * laneBytes))
                     : first;
    ofPair = e.mul(e.and_(k.lane, 3), pairBytes);
  }
  void write(const MergeState &mine);
  /// Announces what comes to this warp, the `warp`-th that combines.
  void announce();
  MergeState read(int64_t block);

private:
  static constexpr int64_t laneBytes = 4 * 4; // Of 8 columns of sixteen rows.
  static constexpr int64_t pairBytes = 2 * 4; // Of a vector, in 4 lanes.
  /// The row for a block's piece that a warp combines, or its warpgroup.
  Value rowOf(Value warp, Value block) {
    Value row = ofGroup ? block : e.add(e.mul(warp, count), block);
    return e.add(slot, e.mul(row, rowBytes));
  }
  void store(Value address, ArrayRef<Value> registers, Value barrier,
             Value predicate);
  void load(Value address, MutableArrayRef<Value> registers, Type type);

  KernelContext &k;
  Emitter &e;
  MergeStatesOp op;
  bool ofGroup;
  /// Pieces that a warp's rows are stored in, and warps whose registers lie
  /// beside each other.
  int64_t count, pieces, warps, rowBytes;
  Value slot, full, part, ofLane, ofPair;
};
} // namespace

void StatesOfCluster::store(Value address, ArrayRef<Value> registers,
                            Value barrier, Value predicate) {
  std::string values, constraints = "r,";
  SmallVector<Value> operands = {address};
  for (auto [i, value] : llvm::enumerate(registers)) {
    values += (i ? ", $" : "$") + std::to_string(i + 1);
    constraints += "r,";
    operands.push_back(value.getType() == e.i1
                           ? LLVM::ZExtOp::create(e.b, e.loc, e.i32, value)
                           : e.bitcast(value, e.i32));
  }
  operands.append({barrier, predicate});
  size_t n = registers.size();
  e.assembly("@$" + Twine(n + 2) +
                 " st.async.shared::cluster.mbarrier::complete_tx::bytes.v" +
                 Twine(n) + ".b32 [$0], {" + values + "}, [$" + Twine(n + 1) +
                 "];",
             constraints + "r,b,~{memory}", operands);
}

void StatesOfCluster::load(Value address, MutableArrayRef<Value> registers,
                           Type type) {
  size_t n = registers.size();
  std::string values, constraints;
  for (size_t i = 0; i < n; ++i) {
    values += (i ? ", $" : "$") + std::to_string(i);
    constraints += "=r,";
  }
  Values bits = e.assembly("ld.shared::cta.v" + Twine(n) + ".b32 {" + values +
                               "}, [$" + Twine(n) + "];",
                           constraints + "r,~{memory}", {address},
                           SmallVector<Type>(n, e.i32));
  for (auto [value, word] : llvm::zip_equal(registers, bits))
    value = type == e.i1 ? e.icmp(LLVM::ICmpPredicate::ne, word, e.c32(0))
                         : e.bitcast(word, type);
}

void StatesOfCluster::write(const MergeState &mine) {
  Value hasPair = e.lt(k.lane, e.c32(4)), always = e.truth(true);
  if (ofGroup)
    hasPair = e.and_(hasPair, e.eq(k.role.warpInRole, 0));
  for (int64_t i = 0; i < pieces; ++i) {
    Value number =
        ofGroup ? e.c32(i) : e.add(e.mul(k.role.warpInRole, pieces), i);
    Value block = e.urem(number, count), warp = e.udiv(number, count);
    Value to = inBlock(e, rowOf(warp, part), block);
    Value barrier = inBlock(e, full, block);
    int64_t offset = 0;
    auto storeVector = [&](const Values &vector) {
      for (size_t at = 0; at < vector.size(); at += 2, offset += 4 * pairBytes)
        store(e.add(e.add(to, ofPair), offset),
              ArrayRef<Value>(vector).slice(at, 2), barrier, hasPair);
    };
    for (auto [value, type] :
         llvm::zip_equal(mine.values, op.getValues().getTypes())) {
      auto frag = dyn_cast<FragType>(type);
      if (!frag)
        continue;
      int64_t registers = int64_t(value.size()) / pieces;
      for (int64_t at = 0; at < registers;
           at += 4, offset += warps * 32 * laneBytes)
        store(e.add(e.add(to, ofLane), offset),
              ArrayRef<Value>(value).slice(i * registers + at, 4), barrier,
              always);
    }
    for (const Values &stat : mine.stats)
      storeVector(stat);
    for (auto [value, type] :
         llvm::zip_equal(mine.values, op.getValues().getTypes()))
      if (isa<VecType>(type))
        storeVector(value);
  }
}

void StatesOfCluster::announce() {
  Value bytes = e.c32(count * rowBytes / warps);
  if (!ofGroup) {
    Value number = e.add(e.mul(k.role.warpInRole, count), part);
    Value some = e.lt(number, e.c32(pieces * k.role.warps));
    bytes = e.select(some, bytes, e.c32(0));
  }
  e.assembly("@$2 mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;",
             "r,r,b,~{memory}", {full, bytes, k.lane0});
}

MergeState StatesOfCluster::read(int64_t block) {
  Value from = rowOf(k.role.warpInRole, e.c32(block));
  Value lanes = e.add(from, ofLane), pairs = e.add(from, ofPair);
  MergeState state;
  int64_t offset = 0;
  auto loadVector = [&](Type type) {
    Values vector(size_t(k.registerCount(type)));
    for (size_t at = 0; at < vector.size(); at += 2, offset += 4 * pairBytes)
      load(e.add(pairs, offset), MutableArrayRef<Value>(vector).slice(at, 2),
           cast<VecType>(type).getElementType());
    return vector;
  };
  TypeRange types =
      TypeRange(op.getResultTypes()).drop_front(op.getStats().size());
  state.values.resize(types.size());
  for (auto [value, type] : llvm::zip_equal(state.values, types)) {
    if (isa<VecType>(type))
      continue;
    value.resize(size_t(k.registerCount(type)));
    for (size_t at = 0; at < value.size();
         at += 4, offset += warps * 32 * laneBytes)
      load(e.add(lanes, offset), MutableArrayRef<Value>(value).slice(at, 4),
           e.f32);
  }
  for (Type type : op.getStats().getTypes())
    state.stats.push_back(loadVector(type));
  for (auto [value, type] : llvm::zip_equal(state.values, types))
    if (isa<VecType>(type))
      value = loadVector(type);
  return state;
}

static LogicalResult mergeCluster(KernelContext &k, MergeStatesOp op,
                                  MergeState &state, TypeRange valueTypes) {
  Emitter &e = k.e;
  const RingLayout *ring = k.layout.ring(op.getRing());
  if (!ring)
    return noRing(op);
  int64_t count = *op.getCount();
  bool ofGroup = mergesWarpgroups(op);
  int64_t combining =
      ofGroup ? groupWarps
              : llvm::divideCeil(op.getSixteensOfWarp() * k.role.warps, count);
  if ((k.role.scope == Scope::Warpgroup) != ofGroup ||
      (ofGroup && k.role.warps != combining) || ring->fill != Fill::States ||
      ring->cluster != count || ring->producers != combining ||
      combining > k.role.warps ||
      ring->type.getTiles()[0].getRows() != (ofGroup ? 1 : combining) * count)
    return unsupported(op, "a ring of states of clusters of " + Twine(count) +
                               " blocks that " + Twine(combining) +
                               " of the role's warps combine");
  StatesOfCluster states(k, op, *ring);
  Value phase = e.and_(k.scalar(op.getCounter()), 1);
  Value empty = k.address(ring->empty);
  // All blocks have read what this one stored before.
  k.waitBarrier(empty, e.xor_(phase, e.c32(1)), /*ofCluster=*/true);
  states.write(state);

  SmallVector<Type> types;
  SmallVector<Value> zeros;
  for (Type type : op.getResultTypes()) {
    auto vec = dyn_cast<VecType>(type);
    Type element = vec ? vec.getElementType() : Type(e.f32);
    for (int64_t i = 0, n = k.registerCount(type); i < n; ++i) {
      types.push_back(element);
      zeros.push_back(element.isF32() ? e.cf(0.0f) : e.constant(element, 0));
    }
  }
  Block *combine = e.newBlock(), *rest = e.newBlock(types);
  e.branch(e.lt(k.role.warpInRole, e.c32(combining)), combine, rest, {}, zeros);
  e.startBlock(combine);
  states.announce();
  k.waitBarrier(k.address(ring->full), phase, /*ofCluster=*/true);
  SmallVector<MergeState> all;
  for (int64_t block = 0; block < count; ++block)
    all.push_back(states.read(block));
  if (failed(mergeAll(k, op, all, valueTypes)))
    return failure();
  SmallVector<Value> merged;
  for (auto [result, part] :
       llvm::zip_equal(op.getResults(),
                       llvm::concat<Values>(all[0].stats, all[0].values))) {
    k.set(result, part);
    llvm::append_range(merged, part);
  }
  // The assembler would let the arrival overtake the reads.
  Value behind = zeroAfter(k, op.getResults(), Samples::groups);
  k.syncWarp();
  arriveInCluster(k, e.add(empty, behind));
  e.branch(rest, merged);
  e.startBlock(rest);
  size_t at = 0;
  for (auto [part, type] :
       llvm::zip_equal(llvm::concat<Values>(state.stats, state.values),
                       op.getResultTypes())) {
    part.assign(rest->args_begin() + at,
                rest->args_begin() + at + k.registerCount(type));
    at += part.size();
  }
  return success();
}

LogicalResult gpu::lower(KernelContext &k, MergeStatesOp op) {
  MergeScope scope = op.getScope();
  int64_t copies = scope == MergeScope::Pair ? 2 : 1;
  MergeState state = stateOf(k, op, 0, copies);
  if (state.stats.empty())
    return unsupported(op, "1 statistic or more, but got 0");
  if (!llvm::all_equal(op.getStats().getTypes()))
    return unsupported(op, "statistics of one type");
  ResultRange results = op.getResults();
  TypeRange valueTypes = results.drop_front(state.stats.size()).getTypes();
  LogicalResult merged =
      scope == MergeScope::Pair
          ? mergeInto(k, op, state, stateOf(k, op, 1, copies), valueTypes)
      : scope == MergeScope::Warps ? mergeWarps(k, op, state, valueTypes)
                                   : mergeCluster(k, op, state, valueTypes);
  if (failed(merged))
    return failure();
  for (auto [result, registers] : llvm::zip_equal(
           results, llvm::concat<Values>(state.stats, state.values)))
    k.set(result, registers);
  return success();
}
