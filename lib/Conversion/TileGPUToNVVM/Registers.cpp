//===- Registers.cpp - Elementwise functions and reductions ---------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelLowering.h"
#include "attn/Dialect/Tile/IR/Tile.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"
#include "llvm/Support/SaveAndRestore.h"

using namespace mlir;
using namespace mlir::tile_gpu;
using namespace ::attn;
using namespace ::attn::gpu;

//===----------------------------------------------------------------------===//
// Fill and convert
//===----------------------------------------------------------------------===//

LogicalResult KernelLowering::lowerFill(FragFillOp op) {
  Type type = op.getResult().getType();
  Value value = scalar(op.getValue());
  auto frag = dyn_cast<FragType>(type);
  if (frag && isPacked(frag)) {
    Value wide = e.widen(value);
    value = e.pack(wide, wide, frag.getElementType());
  }
  set(op.getResult(), Values(registerCount(type), value));
  return success();
}

LogicalResult KernelLowering::lowerPad(FragPadOp op) {
  FragShape from(op.getValue().getType()), to(op.getResult().getType());
  Values held = of(op.getValue()), padded;
  int64_t each = from.colBlocks * 4, wide = to.colBlocks * 4;
  int64_t before = op.getFirst() / 8 * 4;
  for (int64_t block = 0; block < from.blocks; ++block) {
    padded.append(before, e.cf(0.0f));
    padded.append(held.begin() + block * each,
                  held.begin() + (block + 1) * each);
    padded.append(wide - before - each, e.cf(0.0f));
  }
  set(op.getResult(), std::move(padded));
  return success();
}

LogicalResult KernelLowering::lowerConvert(FragConvertOp op) {
  Values from = of(op.getValue());
  FragType type = op.getResult().getType();
  Type element = type.getElementType();
  Values packed;
  for (size_t i = 0; i < from.size(); i += 2)
    packed.push_back(e.pack(from[i], from[i + 1], element));
  if (type.getLayout() != Layout::B) {
    set(op.getResult(), std::move(packed));
    return success();
  }
  // Rows become K: the registers of 8x8 blocks are exchanged between lanes.
  FragShape shape(op.getValue().getType());
  Values registers(packed.size());
  for (int64_t i = 0, n = packed.size(); i < n; ++i) {
    int64_t block = i / (shape.colBlocks * 2), col = i / 2 % shape.colBlocks;
    registers[(col * shape.blocks + block) * 2 + i % 2] =
        e.assembly("movmatrix.sync.aligned.m8n8.trans.b16 $0, $1;", "=r,r",
                   {packed[i]}, e.i32)
            .front();
  }
  set(op.getResult(), std::move(registers));
  return success();
}

//===----------------------------------------------------------------------===//
// Map
//===----------------------------------------------------------------------===//

LogicalResult KernelLowering::evaluate(Block &body, ArrayRef<Value> arguments,
                                       SmallVectorImpl<Value> &results) {
  for (auto [argument, value] : llvm::zip_equal(body.getArguments(), arguments))
    set(argument, {value});
  if (failed(lowerBlock(body)))
    return failure();
  results.clear();
  for (Value value : body.getTerminator()->getOperands())
    results.push_back(scalar(value));
  return success();
}

Value KernelLowering::rowIndex(Scope scope, int64_t rowKey) {
  return e.add(role.row, rowKey / 2 * blockRowsOf(scope) + rowKey % 2 * 8);
}

static int64_t offsetOf(int64_t colKey) { return colKey / 2 * 8 + colKey % 2; }

Value KernelLowering::colIndex(int64_t colKey) {
  return e.add(role.col, offsetOf(colKey));
}

namespace {

/// What a value of a map's body depends on.
enum Dependence : unsigned { OnNothing = 0, OnRow = 1, OnCol = 2, OnBoth = 3 };

} // namespace

static unsigned dependenceOf(Operation *op,
                             const DenseMap<Value, unsigned> &known) {
  unsigned result = OnNothing;
  op->walk([&](Operation *inner) {
    for (Value operand : inner->getOperands())
      if (auto it = known.find(operand); it != known.end())
        result |= it->second;
  });
  // A region may branch: its values hold in their own block alone.
  return op->getNumRegions() ? unsigned(OnBoth) : result;
}

/// x / divisor by the divisor's rounded reciprocal and one correction, which
/// rounds right but where the reciprocal is not a normal number.
static Value divideBy(Emitter &e, Value x, Value divisor, Value inverse) {
  Value quotient = e.fmul(x, inverse);
  Value negative = LLVM::FNegOp::create(e.b, e.loc, quotient);
  Value rest = e.fma(negative, divisor, x);
  Value corrected = e.fma(rest, inverse, quotient);
  // Infinities and zeros leave no remainder to speak of.
  Value size = LLVM::FAbsOp::create(e.b, e.loc, rest);
  Value sound = e.fcmp(LLVM::FCmpPredicate::olt, size,
                       e.cf(std::numeric_limits<float>::infinity()));
  return e.select(sound, corrected, quotient);
}

/// By how much an i32 grows from one column to the next, where that is the
/// same for all; null where it is not known.
static std::optional<int64_t>
columnStep(Operation *op, const DenseMap<Value, int64_t> &known) {
  auto of = [&](Value value) -> std::optional<int64_t> {
    auto it = known.find(value);
    if (it == known.end())
      return std::nullopt;
    return it->second;
  };
  if (!isa<arith::AddIOp, arith::SubIOp, arith::MulIOp>(op) ||
      !op->getResult(0).getType().isInteger(32))
    return std::nullopt;
  auto x = of(op->getOperand(0)), y = of(op->getOperand(1));
  if (!x || !y)
    return std::nullopt;
  if (isa<arith::AddIOp>(op))
    return *x + *y;
  if (isa<arith::SubIOp>(op))
    return *x - *y;
  APInt factor;
  if (matchPattern(op->getOperand(1), m_ConstantInt(&factor)) &&
      factor.abs().ult(1 << 16))
    return *x * factor.getSExtValue();
  return std::nullopt;
}

LogicalResult KernelLowering::lowerMap(MapOp op) {
  Block &body = op.getBody().front();
  FragType shapeType;
  VecType vector;
  for (Type type :
       llvm::concat<Type>(llvm::to_vector(op.getInputs().getTypes()),
                          llvm::to_vector(op.getResultTypes()))) {
    if (auto frag = dyn_cast<FragType>(type))
      shapeType = frag;
    if (auto vec = dyn_cast<VecType>(type))
      vector = vec;
  }
  // Elements of this thread: each has a row key and a column key.
  SmallVector<std::pair<int64_t, int64_t>> elements;
  Scope scope = shapeType ? shapeType.getScope() : vector.getScope();
  if (shapeType) {
    FragShape shape(shapeType);
    for (int64_t i = 0; i < shape.elements(); ++i)
      elements.push_back({shape.rowKey(i), shape.colKey(i)});
  } else {
    for (int64_t i = 0, n = registerCount(vector); i < n; ++i)
      elements.push_back(vector.getAxis() == Axis::Row
                             ? std::pair{i, int64_t(0)}
                             : std::pair{int64_t(0), i});
  }

  DenseMap<Value, unsigned> dependence;
  dependence[body.getArgument(0)] = OnRow;
  dependence[body.getArgument(1)] = OnCol;
  if (!shapeType)
    // The position along the other axis is 0.
    dependence[body.getArgument(vector.getAxis() == Axis::Row ? 1 : 0)] =
        OnNothing;
  SmallVector<Values> inputs;
  for (auto [input, argument] :
       llvm::zip_equal(op.getInputs(), body.getArguments().drop_front(2))) {
    inputs.push_back(of(input));
    auto vec = dyn_cast<VecType>(input.getType());
    dependence[argument] = !vec                         ? OnBoth
                           : vec.getAxis() == Axis::Row ? OnRow
                                                        : OnCol;
  }
  SmallVector<unsigned> kinds;
  auto operations =
      llvm::to_vector(llvm::make_pointer_range(body.without_terminator()));
  for (Operation *inner : operations) {
    kinds.push_back(dependenceOf(inner, dependence));
    for (Value result : inner->getResults())
      dependence[result] = kinds.back();
  }

  // Positions that become floats: the first of a row is converted, the others
  // are a whole number of columns away.
  DenseMap<Value, int64_t> steps;
  steps[body.getArgument(1)] = dependence[body.getArgument(1)] ? 1 : 0;
  for (auto [inner, kind] : llvm::zip(operations, kinds)) {
    if (inner->getNumResults() != 1)
      continue;
    for (Value operand : inner->getOperands())
      if (!(dependence.lookup(operand) & OnCol))
        steps.try_emplace(operand, 0);
    if (auto step = columnStep(inner, steps))
      steps[inner->getResult(0)] = *step;
  }
  DenseMap<std::pair<int64_t, Operation *>, std::pair<Value, int64_t>> firsts;
  auto columnOf = [](int64_t colKey) { return colKey / 2 * 8 + colKey % 2; };
  auto convertPosition = [&](arith::SIToFPOp conversion, unsigned kind,
                             int64_t rowKey, int64_t colKey) -> bool {
    Value position = conversion.getIn();
    auto magnitude = position.getDefiningOp<math::AbsIOp>();
    if (magnitude)
      position = magnitude.getOperand();
    auto step = steps.find(position);
    if (step == steps.end() || step->second == 0 ||
        !conversion->hasAttr(mlir::tile::TileDialect::approximateName) ||
        !conversion.getType().isF32())
      return false;
    auto &[first, firstKey] = firsts[{kind == OnCol ? -1 : rowKey, conversion}];
    if (!first) {
      first = LLVM::SIToFPOp::create(e.b, e.loc, e.f32, scalar(position));
      firstKey = colKey;
    }
    int64_t columns = columnOf(colKey) - columnOf(firstKey);
    Value number = first;
    if (columns)
      number = e.fadd(number, e.cf(float(step->second * columns)));
    if (magnitude)
      number = LLVM::FAbsOp::create(e.b, e.loc, number);
    set(conversion, {number});
    return true;
  };

  // Truths about the columns of a row as bits, one for each column of this
  // thread: a comparison of the column with a bound of the row, and what is
  // made of such. Elements then test a bit, eight of which become predicates
  // by one instruction.
  DenseMap<std::pair<int64_t, Value>, SmallVector<Value, 2>> words;
  int64_t numWords =
      shapeType ? llvm::divideCeil(FragShape(shapeType).colKeys(), 32) : 0;
  std::function<bool(Value)> hasWords = [&](Value truth) {
    Operation *inner = truth.getDefiningOp();
    if (!inner || inner->getBlock() != &body)
      return false;
    if (isa<arith::AndIOp, arith::OrIOp>(inner))
      return hasWords(inner->getOperand(0)) && hasWords(inner->getOperand(1));
    using Predicate = arith::CmpIPredicate;
    auto cmp = dyn_cast<arith::CmpIOp>(inner);
    return cmp && cmp.getLhs() == body.getArgument(1) &&
           !(dependence.lookup(cmp.getRhs()) & OnCol) &&
           llvm::is_contained(
               {Predicate::slt, Predicate::sle, Predicate::sgt, Predicate::sge},
               cmp.getPredicate());
  };
  std::function<SmallVector<Value, 2>(Value, int64_t)> wordsOf =
      [&](Value truth, int64_t rowKey) {
        auto key = std::pair(rowKey, truth);
        if (auto it = words.find(key); it != words.end())
          return it->second;
        Operation *inner = truth.getDefiningOp();
        SmallVector<Value, 2> result;
        if (isa<arith::AndIOp, arith::OrIOp>(inner)) {
          auto x = wordsOf(inner->getOperand(0), rowKey);
          auto y = wordsOf(inner->getOperand(1), rowKey);
          for (auto [left, right] : llvm::zip(x, y))
            result.push_back(isa<arith::AndIOp>(inner) ? e.and_(left, right)
                                                       : e.or_(left, right));
          return words[key] = result;
        }
        // Columns 8 n and 8 n + 1 beyond the thread's first, for each n.
        auto cmp = cast<arith::CmpIOp>(inner);
        using Predicate = arith::CmpIPredicate;
        Predicate predicate = cmp.getPredicate();
        bool isBelow =
            predicate == Predicate::slt || predicate == Predicate::sle;
        bool isStrict =
            predicate == Predicate::slt || predicate == Predicate::sge;
        // As many even columns are below the bound as an eighth of the distance
        // to it, rounded up, and as many odd ones as that of one less.
        Value bound = LLVM::SMaxOp::create(e.b, e.loc, scalar(cmp.getRhs()),
                                           e.c32(isStrict ? 0 : -1));
        Value even = e.add(bound, e.sub(e.c32(isStrict ? 7 : 8), role.col));
        Value count = e.add(e.lshr(even, 3), e.lshr(e.add(even, -1), 3));
        for (int64_t w = 0; w < numWords; ++w) {
          Value below = count;
          if (w)
            below = LLVM::SMaxOp::create(e.b, e.loc, e.add(count, -32 * w),
                                         e.c32(0));
          // More than 31 places leave nothing, in PTX.
          Value word = e.assembly("shl.b32 $0, -1, $1;", "=r,r", {below}, e.i32,
                                  /*isVolatile=*/false)
                           .front();
          result.push_back(isBelow ? e.xor_(word, e.c32(-1)) : word);
        }
        return words[key] = result;
      };
  auto testWord = [&](Operation *inner, int64_t rowKey, int64_t colKey) {
    if (!shapeType || inner->getNumResults() != 1)
      return false;
    Value truth = inner->getResult(0);
    if (!truth.getType().isInteger(1) || !hasWords(truth))
      return false;
    Value word = wordsOf(truth, rowKey)[colKey / 32];
    set(truth,
        {e.icmp(LLVM::ICmpPredicate::ne,
                e.and_(word, int64_t(int32_t(1u << colKey % 32))), e.c32(0))});
    return true;
  };

  // The reciprocal of a divisor that a whole row or column shares.
  auto dividesByShared = [&](Operation *inner, unsigned kind) {
    auto div = dyn_cast<arith::DivFOp>(inner);
    return div && kind == OnBoth && div.getType().isF32() &&
           dependence.lookup(div.getRhs()) != OnBoth;
  };
  // Values that depend on the row or the column alone are made once for each.
  DenseMap<std::pair<int64_t, Value>, Value> byRow, byCol;
  DenseMap<Value, Value> always, reciprocals;
  SmallVector<Value> rowIndices, colIndices;
  auto indexAt = [&](SmallVector<Value> &cache, int64_t key, auto make) {
    if (int64_t(cache.size()) <= key)
      cache.resize(key + 1);
    if (!cache[key])
      cache[key] = make();
    return cache[key];
  };
  bool usesRow = !body.getArgument(0).use_empty();
  bool usesCol = !body.getArgument(1).use_empty();
  Positions known(e, body);
  llvm::SaveAndRestore<Positions *> scoped(positions, &known);
  SmallVector<Values> outputs(op.getNumResults());
  for (auto [index, element] : llvm::enumerate(elements)) {
    int64_t rowKey = element.first, colKey = element.second;
    bool hasRow = shapeType || vector.getAxis() == Axis::Row;
    bool hasCol = shapeType || vector.getAxis() == Axis::Col;
    if (usesRow)
      set(body.getArgument(0),
          {hasRow ? indexAt(rowIndices, rowKey,
                            [&, r = rowKey] { return rowIndex(scope, r); })
                  : e.c32(0)});
    if (usesCol)
      set(body.getArgument(1), {hasCol ? indexAt(colIndices, colKey,
                                                 [&, c = colKey] {
                                                   Value col = colIndex(c);
                                                   known.define(col, role.col,
                                                                offsetOf(c),
                                                                /*bits=*/6);
                                                   return col;
                                                 })
                                       : e.c32(0)});
    for (auto [i, input] : llvm::enumerate(op.getInputs())) {
      Value argument = body.getArgument(2 + i);
      if (auto vec = dyn_cast<VecType>(input.getType())) {
        set(argument,
            {inputs[i][vec.getAxis() == Axis::Row ? rowKey : colKey]});
        continue;
      }
      auto frag = cast<FragType>(input.getType());
      if (!isPacked(frag))
        set(argument, {inputs[i][index]});
      else
        set(argument,
            {e.unpack(inputs[i][index / 2], index % 2, frag.getElementType())});
    }
    for (size_t o = 0; o < operations.size(); ++o) {
      Operation *inner = operations[o];
      unsigned kind = kinds[o];
      auto cached = [&](Value result) -> Value & {
        if (kind == OnRow)
          return byRow[{rowKey, result}];
        if (kind == OnCol)
          return byCol[{colKey, result}];
        return always[result];
      };
      if (kind != OnBoth && inner->getNumResults() &&
          cached(inner->getResult(0))) {
        for (Value result : inner->getResults())
          set(result, {cached(result)});
        continue;
      }
      if (dividesByShared(inner, kind)) {
        Value divisor = scalar(inner->getOperand(1));
        Value &inverse = reciprocals[divisor];
        if (!inverse)
          inverse = LLVM::FDivOp::create(e.b, e.loc, e.cf(1.0f), divisor);
        set(inner->getResult(0),
            {divideBy(e, scalar(inner->getOperand(0)), divisor, inverse)});
        continue;
      }
      auto conversion = dyn_cast<arith::SIToFPOp>(inner);
      if (!(conversion && kind & OnCol &&
            convertPosition(conversion, kind, rowKey, colKey)) &&
          !(kind == OnBoth && testWord(inner, rowKey, colKey)) &&
          failed(lowerOp(inner)))
        return failure();
      if (kind != OnBoth)
        for (Value result : inner->getResults())
          cached(result) = scalar(result);
    }
    for (auto [output, yielded] :
         llvm::zip_equal(outputs, body.getTerminator()->getOperands()))
      output.push_back(scalar(yielded));
  }
  e.loc = op.getLoc();
  for (auto [result, output] : llvm::zip_equal(op.getResults(), outputs)) {
    auto frag = dyn_cast<FragType>(result.getType());
    if (!frag || !isPacked(frag)) {
      set(result, output);
      continue;
    }
    Values packed;
    for (size_t i = 0; i < output.size(); i += 2)
      packed.push_back(e.pack(e.widen(output[i]), e.widen(output[i + 1]),
                              frag.getElementType()));
    set(result, std::move(packed));
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Reduce
//===----------------------------------------------------------------------===//

LogicalResult KernelLowering::lowerReduce(ReduceOp op) {
  if (op.getOrdered())
    return lowerOrderedReduce(op);
  Block &body = op.getBody().front();
  int64_t n = op.getInputs().size();
  auto vec = cast<VecType>(op.getResult(0).getType());
  bool byRow = vec.getAxis() == Axis::Row;
  auto combine = [&](State &x, const State &y) {
    return this->combine(body, x, y);
  };
  SmallVector<Values> inputs;
  for (Value input : op.getInputs())
    inputs.push_back(of(input));
  int64_t keys = registerCount(vec);
  SmallVector<State> states(keys);
  if (isa<VecType>(op.getInputs()[0].getType())) {
    for (int64_t key = 0; key < keys; ++key)
      for (Values &input : inputs)
        states[key].push_back(input[key]);
  } else {
    // Independent chains, then a tree: the latency of one chain would show.
    constexpr size_t numChains = 4;
    FragShape shape(cast<FragType>(op.getInputs()[0].getType()));
    SmallVector<SmallVector<State>> members(keys);
    for (int64_t i = 0; i < shape.elements(); ++i) {
      State state;
      for (auto [index, input] : llvm::enumerate(inputs)) {
        auto frag = cast<FragType>(op.getInputs()[index].getType());
        state.push_back(isPacked(frag) ? e.unpack(input[i / 2], i % 2,
                                                  frag.getElementType())
                                       : input[i]);
      }
      members[byRow ? shape.rowKey(i) : shape.colKey(i)].push_back(state);
    }
    for (int64_t key = 0; key < keys; ++key) {
      SmallVector<State> &all = members[key];
      size_t chains = std::min(numChains, all.size());
      for (size_t i = chains; i < all.size(); ++i)
        if (failed(combine(all[i % chains], all[i])))
          return failure();
      for (size_t step = 1; step < chains; step *= 2)
        for (size_t i = 0; i + step < chains; i += 2 * step)
          if (failed(combine(all[i], all[i + step])))
            return failure();
      states[key] = all.front();
    }
  }
  if (!vec.getPartial()) {
    // Columns of a row are in the 4 lanes of a quad; rows of a column in the
    // 8 lanes at the same place of their quads, and in the other warps.
    if (!byRow && vec.getScope() == Scope::Warpgroup)
      return unsupported(op, "a row vector, a partial vector or the scope of "
                             "a warp; the rows of a column lie in four warps");
    SmallVector<int64_t, 3> masks = {1, 2};
    if (!byRow)
      masks = {4, 8, 16};
    for (int64_t mask : masks)
      for (State &state : states) {
        State other;
        for (Value value : state)
          other.push_back(e.shuffleXor(value, mask));
        if (failed(combine(state, other)))
          return failure();
      }
  }
  for (int64_t i = 0; i < n; ++i) {
    Values results;
    for (State &state : states)
      results.push_back(state[i]);
    set(op.getResult(i), std::move(results));
  }
  return success();
}
