//===- Maps.cpp - Elementwise functions of fragments and vectors ----------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A map's body is evaluated for each element that a thread has. What depends on
// the row or the column alone is evaluated once for each of these; and of what
// is left, three kinds of values have a shorter form than their operation:
//
//   positions as floats   the first of a row is converted, others are added to
//   truths of columns     bits of a word, eight of which an instruction tests
//   shared divisors       their reciprocal, and a correction
//
//===----------------------------------------------------------------------===//

#include "Lowerings.h"
#include "Weights.h"
#include "attn/Dialect/Tile/IR/Tile.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"
#include "llvm/Support/SaveAndRestore.h"

using namespace mlir;
using namespace mlir::tile_gpu;
using namespace ::attn;
using namespace ::attn::gpu;

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

namespace {

/// One map. Elements of a thread have a row key and a column key each.
class MapLowering {
public:
  MapLowering(KernelContext &kernel, MapOp op)
      : k(kernel), e(kernel.e), op(op), body(op.getBody().front()) {}
  LogicalResult lower();

private:
  void findElements();
  void findDependences();
  SmallVector<size_t> orderElements();
  void findSteps();
  void setArguments(Positions &known, size_t index);
  LogicalResult lowerElement(size_t index);
  LogicalResult lowerOperation(size_t o, int64_t rowKey, int64_t colKey);
  void setResults();

  // Positions that become floats.
  bool convertPosition(arith::SIToFPOp conversion, unsigned kind,
                       int64_t rowKey, int64_t colKey);

  // Truths about the columns of a row as bits, one for each column of this
  // thread: a comparison of the column with a bound of the row, and what is
  // made of such. Elements then test a bit, eight of which become predicates by
  // one instruction.
  using Words = SmallVector<Value, 2>;
  bool hasWords(Value truth);
  Words wordsOf(Value truth, int64_t rowKey);
  Words compareColumns(arith::CmpIOp cmp);
  bool testWord(Operation *inner, int64_t rowKey, int64_t colKey);

  /// Selects a weight once where its truth is made of others, beside a maximum
  /// that the step has found; others were not measured. LLVM would select by
  /// each truth, one behind the other.
  bool selectOnce(Operation *inner);

  // Divisors that a whole row or column shares.
  bool dividesByShared(Operation *inner, unsigned kind);
  void divideByShared(Operation *inner);

  KernelContext &k;
  Emitter &e;
  MapOp op;
  Block &body;
  /// The type of the fragments, if there are any, and of the vectors.
  FragType shapeType;
  VecType vector;
  SmallVector<std::pair<int64_t, int64_t>> elements;
  SmallVector<Values> inputs, outputs;
  SmallVector<Operation *> operations;
  /// What each operation, and each value, depends on.
  SmallVector<unsigned> kinds;
  DenseMap<Value, unsigned> dependence;
  /// By how much values grow from one column to the next.
  DenseMap<Value, int64_t> steps;
  /// The first converted position of a row, and its column key.
  DenseMap<std::pair<int64_t, Operation *>, std::pair<Value, int64_t>> firsts;
  DenseMap<std::pair<int64_t, Value>, Words> words;
  /// Values that depend on the row or the column alone, made once for each.
  DenseMap<std::pair<int64_t, Value>, Value> byRow, byCol;
  DenseMap<Value, Value> always, reciprocals;
  SmallVector<Value> rowIndices, colIndices;
};

} // namespace

void MapLowering::findElements() {
  for (Type type :
       llvm::concat<Type>(llvm::to_vector(op.getInputs().getTypes()),
                          llvm::to_vector(op.getResultTypes()))) {
    if (auto frag = dyn_cast<FragType>(type))
      shapeType = frag;
    if (auto vec = dyn_cast<VecType>(type))
      vector = vec;
  }
  if (shapeType) {
    FragShape shape(shapeType);
    for (int64_t i = 0; i < shape.elements(); ++i)
      elements.push_back({shape.rowKey(i), shape.colKey(i)});
    return;
  }
  for (int64_t i = 0, n = k.registerCount(vector); i < n; ++i)
    elements.push_back(vector.getAxis() == Axis::Row
                           ? std::pair{i, int64_t(0)}
                           : std::pair{int64_t(0), i});
}

void MapLowering::findDependences() {
  dependence[body.getArgument(0)] = OnRow;
  dependence[body.getArgument(1)] = OnCol;
  if (!shapeType)
    // The position along the other axis is 0.
    dependence[body.getArgument(vector.getAxis() == Axis::Row ? 1 : 0)] =
        OnNothing;
  for (auto [input, argument] :
       llvm::zip_equal(op.getInputs(), body.getArguments().drop_front(2))) {
    inputs.push_back(k.of(input));
    auto vec = dyn_cast<VecType>(input.getType());
    dependence[argument] = !vec                         ? OnBoth
                           : vec.getAxis() == Axis::Row ? OnRow
                                                        : OnCol;
  }
  operations =
      llvm::to_vector(llvm::make_pointer_range(body.without_terminator()));
  for (Operation *inner : operations) {
    kinds.push_back(dependenceOf(inner, dependence));
    for (Value result : inner->getResults())
      dependence[result] = kinds.back();
  }
}

/// Elements as they are made: those of a row one behind the other where a
/// thread selects by the words of a mask that it has for each row. ptxas then
/// begins with the first row's exponentials while it selects in the second.
SmallVector<size_t> MapLowering::orderElements() {
  auto order = llvm::to_vector(llvm::seq<size_t>(elements.size()));
  bool hasWords = llvm::any_of(op.getInputs(), [](Value input) {
    auto vec = dyn_cast<VecType>(input.getType());
    return vec && vec.getAxis() == Axis::Row &&
           vec.getElementType().isInteger(32);
  });
  bool selects = llvm::any_of(operations, [&](Operation *inner) {
    auto select = dyn_cast<arith::SelectOp>(inner);
    return select && dependence.lookup(select.getCondition()) == OnBoth;
  });
  if (shapeType && hasWords && selects)
    llvm::stable_sort(order, [&](size_t x, size_t y) {
      return elements[x].first < elements[y].first;
    });
  return order;
}

/// Positions are a whole number of columns away from the first of a row.
void MapLowering::findSteps() {
  steps[body.getArgument(1)] = dependence[body.getArgument(1)] ? 1 : 0;
  for (Operation *inner : operations) {
    if (inner->getNumResults() != 1)
      continue;
    for (Value operand : inner->getOperands())
      if (!(dependence.lookup(operand) & OnCol))
        steps.try_emplace(operand, 0);
    if (auto step = columnStep(inner, steps))
      steps[inner->getResult(0)] = *step;
  }
}

bool MapLowering::convertPosition(arith::SIToFPOp conversion, unsigned kind,
                                  int64_t rowKey, int64_t colKey) {
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
    first = LLVM::SIToFPOp::create(e.b, e.loc, e.f32, k.scalar(position));
    firstKey = colKey;
  }
  int64_t columns = offsetOf(colKey) - offsetOf(firstKey);
  Value number = first;
  if (columns)
    number = e.fadd(number, e.cf(float(step->second * columns)));
  if (magnitude)
    number = LLVM::FAbsOp::create(e.b, e.loc, number);
  k.set(conversion, {number});
  return true;
}

bool MapLowering::hasWords(Value truth) {
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
}

MapLowering::Words MapLowering::wordsOf(Value truth, int64_t rowKey) {
  auto key = std::pair(rowKey, truth);
  if (auto it = words.find(key); it != words.end())
    return it->second;
  Operation *inner = truth.getDefiningOp();
  if (auto cmp = dyn_cast<arith::CmpIOp>(inner))
    return words[key] = compareColumns(cmp);
  Words x = wordsOf(inner->getOperand(0), rowKey);
  Words y = wordsOf(inner->getOperand(1), rowKey), result;
  for (auto [left, right] : llvm::zip(x, y))
    result.push_back(isa<arith::AndIOp>(inner) ? e.and_(left, right)
                                               : e.or_(left, right));
  return words[key] = result;
}

/// Words of the columns 8 n and 8 n + 1 beyond the thread's first, for each n.
MapLowering::Words MapLowering::compareColumns(arith::CmpIOp cmp) {
  using Predicate = arith::CmpIPredicate;
  Predicate predicate = cmp.getPredicate();
  bool isBelow = predicate == Predicate::slt || predicate == Predicate::sle;
  bool isStrict = predicate == Predicate::slt || predicate == Predicate::sge;
  // As many even columns are below the bound as an eighth of the distance to
  // it, rounded up, and as many odd ones as that of one less.
  Value bound = LLVM::SMaxOp::create(e.b, e.loc, k.scalar(cmp.getRhs()),
                                     e.c32(isStrict ? 0 : -1));
  Value even = e.add(bound, e.sub(e.c32(isStrict ? 7 : 8), k.role.col));
  Value count = e.add(e.lshr(even, 3), e.lshr(e.add(even, -1), 3));
  Words result;
  int64_t numWords = llvm::divideCeil(FragShape(shapeType).colKeys(), 32);
  for (int64_t w = 0; w < numWords; ++w) {
    Value below = count;
    if (w)
      below = LLVM::SMaxOp::create(e.b, e.loc, e.add(count, -32 * w), e.c32(0));
    // More than 31 places leave nothing, in PTX.
    Value word = e.assembly("shl.b32 $0, -1, $1;", "=r,r", {below}, e.i32,
                            /*isVolatile=*/false)
                     .front();
    result.push_back(isBelow ? e.xor_(word, e.c32(-1)) : word);
  }
  return result;
}

bool MapLowering::testWord(Operation *inner, int64_t rowKey, int64_t colKey) {
  if (!shapeType || inner->getNumResults() != 1)
    return false;
  Value truth = inner->getResult(0);
  if (!truth.getType().isInteger(1) || !hasWords(truth))
    return false;
  Value word = wordsOf(truth, rowKey)[colKey / 32];
  k.set(truth,
        {e.icmp(LLVM::ICmpPredicate::ne,
                e.and_(word, int64_t(int32_t(1u << colKey % 32))), e.c32(0))});
  return true;
}

bool MapLowering::selectOnce(Operation *inner) {
  auto select = dyn_cast<arith::SelectOp>(inner);
  if (!select || !select.getType().isF32() || !shapeType ||
      shapeType.getScope() != Scope::Warpgroup || op.getInputs().size() < 2 ||
      !op.getInputs()[1].getDefiningOp<MapOp>() ||
      !select.getTrueValue().getDefiningOp<math::Exp2Op>())
    return false;
  Value truth = k.scalar(select.getCondition());
  if (!isa_and_nonnull<LLVM::AndOp, LLVM::OrOp>(truth.getDefiningOp()))
    return false;
  k.set(select.getResult(),
        e.assembly("selp.f32 $0, $1, $2, $3;", "=f,f,f,b",
                   {k.scalar(select.getTrueValue()),
                    k.scalar(select.getFalseValue()), truth},
                   e.f32, /*isVolatile=*/false));
  return true;
}

bool MapLowering::dividesByShared(Operation *inner, unsigned kind) {
  auto div = dyn_cast<arith::DivFOp>(inner);
  return div && kind == OnBoth && div.getType().isF32() &&
         dependence.lookup(div.getRhs()) != OnBoth;
}

void MapLowering::divideByShared(Operation *inner) {
  Value divisor = k.scalar(inner->getOperand(1));
  Value &inverse = reciprocals[divisor];
  if (!inverse)
    inverse = LLVM::FDivOp::create(e.b, e.loc, e.cf(1.0f), divisor);
  k.set(inner->getResult(0),
        {divideBy(e, k.scalar(inner->getOperand(0)), divisor, inverse)});
}

/// Tells what the body's arguments are for an element.
void MapLowering::setArguments(Positions &known, size_t index) {
  auto [rowKey, colKey] = elements[index];
  Scope scope = shapeType ? shapeType.getScope() : vector.getScope();
  auto indexAt = [&](SmallVector<Value> &cache, int64_t key) -> Value & {
    if (int64_t(cache.size()) <= key)
      cache.resize(key + 1);
    return cache[key];
  };
  if (Value row = body.getArgument(0); !row.use_empty()) {
    Value index =
        shapeType || vector.getAxis() == Axis::Row ? Value() : e.c32(0);
    if (!index) {
      Value &cached = indexAt(rowIndices, rowKey);
      if (!cached) {
        cached = k.rowIndex(scope, rowKey);
        known.defineRow(cached, k.role.row, k.rowOffset(scope, rowKey));
      }
      index = cached;
    }
    k.set(row, {index});
  }
  if (Value col = body.getArgument(1); !col.use_empty()) {
    Value index =
        shapeType || vector.getAxis() == Axis::Col ? Value() : e.c32(0);
    if (!index) {
      Value &cached = indexAt(colIndices, colKey);
      if (!cached) {
        cached = k.colIndex(colKey);
        known.define(cached, k.role.col, offsetOf(colKey), /*bits=*/6);
      }
      index = cached;
    }
    k.set(col, {index});
  }
  for (auto [i, input] : llvm::enumerate(op.getInputs())) {
    Value argument = body.getArgument(2 + i);
    if (auto vec = dyn_cast<VecType>(input.getType())) {
      k.set(argument,
            {inputs[i][vec.getAxis() == Axis::Row ? rowKey : colKey]});
      continue;
    }
    auto frag = cast<FragType>(input.getType());
    if (!isPacked(frag))
      k.set(argument, {inputs[i][index]});
    else
      k.set(argument,
            {e.unpack(inputs[i][index / 2], index % 2, frag.getElementType())});
  }
}

LogicalResult MapLowering::lowerOperation(size_t o, int64_t rowKey,
                                          int64_t colKey) {
  Operation *inner = operations[o];
  unsigned kind = kinds[o];
  auto cached = [&](Value result) -> Value & {
    if (kind == OnRow)
      return byRow[{rowKey, result}];
    if (kind == OnCol)
      return byCol[{colKey, result}];
    return always[result];
  };
  if (kind != OnBoth && inner->getNumResults() && cached(inner->getResult(0))) {
    for (Value result : inner->getResults())
      k.set(result, {cached(result)});
    return success();
  }
  if (dividesByShared(inner, kind)) {
    divideByShared(inner);
    return success();
  }
  auto conversion = dyn_cast<arith::SIToFPOp>(inner);
  if (!(conversion && kind & OnCol &&
        convertPosition(conversion, kind, rowKey, colKey)) &&
      !(kind == OnBoth && testWord(inner, rowKey, colKey)) &&
      !(kind == OnBoth && selectOnce(inner)) && failed(k.lowerOp(inner)))
    return failure();
  if (kind != OnBoth)
    for (Value result : inner->getResults())
      cached(result) = k.scalar(result);
  return success();
}

LogicalResult MapLowering::lowerElement(size_t index) {
  auto [rowKey, colKey] = elements[index];
  for (size_t o = 0; o < operations.size(); ++o)
    if (failed(lowerOperation(o, rowKey, colKey)))
      return failure();
  for (auto [output, yielded] :
       llvm::zip_equal(outputs, body.getTerminator()->getOperands()))
    output[index] = k.scalar(yielded);
  return success();
}

void MapLowering::setResults() {
  e.loc = op.getLoc();
  for (auto [result, output] : llvm::zip_equal(op.getResults(), outputs)) {
    auto frag = dyn_cast<FragType>(result.getType());
    if (!frag || !isPacked(frag)) {
      k.set(result, output);
      continue;
    }
    Values packed;
    for (size_t i = 0; i < output.size(); i += 2)
      packed.push_back(e.pack(e.widen(output[i]), e.widen(output[i + 1]),
                              frag.getElementType()));
    k.set(result, std::move(packed));
  }
}

LogicalResult MapLowering::lower() {
  findElements();
  findDependences();
  findSteps();
  Positions known(e, body);
  llvm::SaveAndRestore<Positions *> scoped(k.positions, &known);
  outputs.assign(op.getNumResults(), Values(elements.size()));
  for (size_t index : orderElements()) {
    setArguments(known, index);
    if (failed(lowerElement(index)))
      return failure();
  }
  setResults();
  return success();
}

LogicalResult gpu::lower(KernelContext &k, MapOp op) {
  if (isChained(op))
    return success();
  return MapLowering(k, op).lower();
}
