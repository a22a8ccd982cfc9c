//===- RowReduction.cpp - Reduces rows key by key -------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RowReduction.h"
#include "attn/Support/Float16.h"
#include "llvm/ADT/STLExtras.h"

#include <cmath>

using namespace ::attn;
using namespace ::attn::detail;
using mlir::Type;
using mlir::attn::SourceKind;

double detail::roundTo(double value, ReferenceOptions::Rounding rounding) {
  switch (rounding) {
  case ReferenceOptions::Rounding::Exact:
    return value;
  case ReferenceOptions::Rounding::F32:
    return static_cast<float>(value);
  case ReferenceOptions::Rounding::F16:
    return support::roundToF16(value);
  case ReferenceOptions::Rounding::BF16:
    return support::roundToBF16(value);
  }
  return value;
}

double detail::roundScore(double value, const ReferenceOptions &options) {
  bool isExact = options.rounding == ReferenceOptions::Rounding::Exact;
  if (!isExact && options.wideScores)
    return static_cast<float>(value);
  value = roundTo(value, options.rounding);
  return std::fabs(value) < reference::coarseScore ? value
                                                   : static_cast<float>(value);
}

//===----------------------------------------------------------------------===//
// BoundRegion
//===----------------------------------------------------------------------===//

llvm::FailureOr<BoundRegion>
BoundRegion::compile(mlir::Region &region,
                     llvm::ArrayRef<const ReferenceValue *> captures) {
  llvm::FailureOr<RegionProgram> program = RegionProgram::compile(region);
  if (llvm::failed(program))
    return llvm::failure();
  BoundRegion bound;
  bound.program = std::move(*program);
  bound.tensors = captures;
  unsigned first = region.getNumArguments() - captures.size();
  for (auto [i, capture] : llvm::enumerate(captures)) {
    Type type = region.getArgument(first + i).getType();
    bool isFloat = mlir::isa<mlir::FloatType>(mlir::getElementTypeOrSelf(type));
    bound.isFloat.push_back(isFloat);
    bool isTensor = mlir::isa<mlir::ShapedType>(type);
    double value = isTensor ? 0.0 : capture->data[0];
    bound.scalars.push_back(isFloat ? Scalar::ofFloat(value)
                                    : Scalar::ofInt(int64_t(value)));
  }
  return bound;
}

void BoundRegion::evaluate(llvm::ArrayRef<Scalar> leading,
                           llvm::SmallVectorImpl<Scalar> &results,
                           Precision precision) const {
  llvm::SmallVector<Scalar, 16> arguments(leading);
  arguments.append(scalars.begin(), scalars.end());
  auto read = [&](unsigned argument, llvm::ArrayRef<int64_t> indices) {
    unsigned capture = argument - leading.size();
    const ReferenceValue &tensor = *tensors[capture];
    // As compiled code does: positions are clamped into the tensor.
    int64_t at = 0;
    bool isEmpty = tensor.data.empty();
    for (auto [extent, index] : llvm::zip(tensor.shape, indices))
      at = at * extent + std::clamp<int64_t>(index, 0, extent ? extent - 1 : 0);
    double value = isEmpty ? 0.0 : tensor.data[at];
    return isFloat[capture] ? Scalar::ofFloat(value)
                            : Scalar::ofInt(int64_t(value));
  };
  program.evaluate(arguments, results, precision, read);
}

//===----------------------------------------------------------------------===//
// Reduction
//===----------------------------------------------------------------------===//

int64_t RowSource::capacity(const ReferenceValue &operand,
                            int64_t batch) const {
  int64_t rows = operand.shape[operand.shape.size() - 2];
  if (is(SourceKind::varlen))
    return int64_t(map->data[batch + 1]) - int64_t(map->data[batch]);
  return is(SourceKind::paged) ? map->shape[1] * rows : rows;
}

int64_t RowSource::numRows(const ReferenceValue &operand, int64_t batch) const {
  int64_t most = capacity(operand, batch);
  if (!lengths)
    return most;
  return std::clamp<int64_t>(int64_t(lengths->data[batch]), 0, most);
}

int64_t RowSource::rowIndex(const ReferenceValue &operand, int64_t batch,
                            int64_t head, int64_t position) const {
  int64_t rows = operand.shape[operand.shape.size() - 2];
  switch (kind) {
  case SourceKind::dense:
    break;
  case SourceKind::varlen:
    position += int64_t(map->data[batch]);
    batch = 0;
    break;
  case SourceKind::paged:
    batch = int64_t(map->data[batch * map->shape[1] + position / rows]);
    position %= rows;
    break;
  case SourceKind::ring:
    position = (int64_t(map->data[batch]) + position) % rows;
    break;
  }
  return (batch * heads(operand) + head) * rows + position;
}

std::vector<int64_t> Reduction::rowShape() const {
  std::vector<int64_t> shape = queries[0]->shape;
  shape.pop_back();
  return shape;
}

/// Row `position` of batch `batch` and head `head` of an operand.
static const double *operandRow(const ReferenceValue &operand,
                                const RowSource &source, int64_t batch,
                                int64_t head, int64_t position) {
  return operand.data.data() +
         source.rowIndex(operand, batch, head, position) * operand.shape.back();
}

//===----------------------------------------------------------------------===//
// RowReducer
//===----------------------------------------------------------------------===//

RowReducer::RowReducer(Algebra algebraToUse, const Reduction &reduction,
                       const ReferenceOptions &options)
    : algebra(std::move(algebraToUse)), reduction(reduction), options(options),
      order(reference::sumOrders[isExact() ? 0 : options.order]) {
  algebra.precision = isExact() ? Precision::F64 : Precision::F32;
}

double RowReducer::rounded(double value) const {
  return roundTo(value, options.rounding);
}

RowState RowReducer::emptyState() const {
  RowState state;
  Scalars empty = algebra.emptyState();
  state.stats.assign(empty.begin(), empty.begin() + algebra.numStats);
  for (unsigned i = 0; i < algebra.numComponents; ++i) {
    double value = empty[algebra.numStats + i].f;
    if (algebra.isValue[i])
      state.values.emplace_back(reduction.numChannels(), value);
    else
      state.units.push_back(value);
  }
  return state;
}

Scalars RowReducer::channel(const RowState &state, int64_t channel) const {
  Scalars scalars(state.stats);
  unsigned unit = 0, value = 0;
  for (unsigned i = 0; i < algebra.numComponents; ++i) {
    double x = 0.0;
    if (!algebra.isValue[i])
      x = state.units[unit++];
    else if (const auto &row = state.values[value++];
             channel < int64_t(row.size()))
      x = row[channel];
    scalars.push_back(Scalar::ofFloat(x));
  }
  return scalars;
}

void RowReducer::shiftUnits(llvm::ArrayRef<Scalar> from,
                            llvm::ArrayRef<Scalar> to,
                            std::vector<double> &units) const {
  if (!algebra.hasShift)
    return;
  Scalars components;
  unsigned unit = 0;
  for (bool isValue : algebra.isValue)
    components.push_back(Scalar::ofFloat(isValue ? 0.0 : units[unit++]));
  algebra.shift(from, to, components);
  unit = 0;
  for (auto [component, isValue] : llvm::zip(components, algebra.isValue))
    if (!isValue)
      units[unit++] = component.f;
}

void RowReducer::appendWeighted(RowState &state, llvm::ArrayRef<double> scores,
                                llvm::ArrayRef<const double *> values,
                                int64_t key, double ofValues) {
  Scalars lifted = algebra.lift(scores, {}, key);
  llvm::ArrayRef<Scalar> stat =
      llvm::ArrayRef(lifted).take_front(algebra.numStats);
  Scalars weights(llvm::ArrayRef(lifted).drop_front(algebra.numStats));
  Scalars next = algebra.combine(state.stats, stat);
  // What came before is held in float32 and scaled there; only the weight of
  // the new key is rounded, once, as it meets the value.
  Factors alpha = {1.0}, beta = {1.0};
  switch (algebra.kind) {
  case mlir::attn::MonoidKind::cocycle:
    if (algebra.numStats) {
      alpha = algebra.factorsFrom(state.stats, next);
      beta = algebra.factorsFrom(stat, next);
      shiftUnits(state.stats, next, state.units);
      algebra.shift(stat, next, weights);
    }
    break;
  case mlir::attn::MonoidKind::suffix:
    alpha = {algebra.gate(stat)};
    break;
  case mlir::attn::MonoidKind::prefix:
    beta = {algebra.gate(state.stats)};
    break;
  case mlir::attn::MonoidKind::affine:
    std::tie(alpha[0], beta[0]) = algebra.factorsOf(state.stats, stat);
    break;
  case mlir::attn::MonoidKind::general:
    break;
  }
  // A factor of 0 selects: what it multiplies may be infinite.
  auto times = [](double factor, double x) {
    return factor == 0.0 ? 0.0 : factor * x;
  };
  unsigned unit = 0, value = 0;
  for (unsigned i = 0; i < algebra.numComponents; ++i) {
    double weight = times(beta.of(i), weights[i].f);
    weight = rounded(algebra.isValue[i] ? times(ofValues, weight) : weight);
    double old = alpha.of(i);
    if (!algebra.isValue[i]) {
      double &x = state.units[unit++];
      x = accumulated(accumulated(times(old, x)) + weight);
      continue;
    }
    const double *row = values[value];
    std::vector<double> &sums = state.values[value++];
    for (size_t d = 0; d < sums.size(); ++d)
      sums[d] = accumulated(accumulated(times(old, sums[d])) + weight * row[d]);
  }
  state.stats = next;
}

void RowReducer::appendGeneral(RowState &state, llvm::ArrayRef<double> scores,
                               llvm::ArrayRef<const double *> values,
                               int64_t key) {
  RowState next = state;
  int64_t channels = std::max<int64_t>(reduction.numChannels(), 1);
  llvm::SmallVector<double, 2> at(values.size());
  for (int64_t d = 0; d < channels; ++d) {
    for (auto [x, row] : llvm::zip(at, values))
      x = row[d];
    Scalars product =
        algebra.combine(channel(state, d), algebra.lift(scores, at, key));
    llvm::copy(llvm::ArrayRef(product).take_front(algebra.numStats),
               next.stats.begin());
    unsigned unit = 0, value = 0;
    for (unsigned i = 0; i < algebra.numComponents; ++i) {
      double x = accumulated(product[algebra.numStats + i].f);
      if (algebra.isValue[i])
        next.values[value++][d] = x;
      else
        next.units[unit++] = x;
    }
  }
  state = std::move(next);
}

RowState RowReducer::reduce(const Row &row, int64_t begin, int64_t end,
                            bool withInit) {
  RowState state = emptyState();
  if (withInit && reduction.init) {
    Scalars init = reduction.init(row);
    llvm::copy(llvm::ArrayRef(init).take_front(algebra.numStats),
               state.stats.begin());
    unsigned unit = 0, value = 0;
    for (unsigned i = 0; i < algebra.numComponents; ++i) {
      double x = init[algebra.numStats + i].f;
      if (algebra.isValue[i])
        llvm::fill(state.values[value++], x);
      else
        state.units[unit++] = x;
    }
  }
  // An emulation may bracket the product otherwise: parts of each tile.
  if (order.lanes == 1 && !order.backwards && !order.tiles) {
    fold(state, row, begin, end);
    return state;
  }
  int64_t step = order.tiles ? options.tile : std::max<int64_t>(end - begin, 1);
  for (int64_t at = begin; at < end; at += step)
    state = multiply(state,
                     foldParts(row, at, std::min(at + step, end), order.lanes));
  return state;
}

RowState RowReducer::foldParts(const Row &row, int64_t begin, int64_t end,
                               int64_t parts) {
  if (parts > 1 && end - begin > 1) {
    int64_t middle = begin + (end - begin) / 2;
    return multiply(foldParts(row, begin, middle, parts / 2),
                    foldParts(row, middle, end, parts / 2));
  }
  RowState state = emptyState();
  fold(state, row, begin, end);
  return state;
}

RowState RowReducer::multiply(const RowState &a, const RowState &b) const {
  RowState product = emptyState();
  for (int64_t d = 0; d < std::max<int64_t>(reduction.numChannels(), 1); ++d) {
    Scalars c = algebra.multiply(channel(a, d), channel(b, d));
    llvm::copy(llvm::ArrayRef(c).take_front(algebra.numStats),
               product.stats.begin());
    unsigned unit = 0, value = 0;
    for (unsigned i = 0; i < algebra.numComponents; ++i) {
      double x = accumulated(c[algebra.numStats + i].f);
      if (!algebra.isValue[i])
        product.units[unit++] = x;
      else if (auto &row = product.values[value++]; d < int64_t(row.size()))
        row[d] = x;
    }
  }
  return product;
}

void RowReducer::fold(RowState &state, const Row &row, int64_t begin,
                      int64_t end) {
  for (int64_t n = 0; n < end - begin; ++n) {
    if (!order.backwards) {
      appendKey(state, row, begin + n);
      continue;
    }
    RowState one = emptyState();
    appendKey(one, row, end - 1 - n);
    state = multiply(one, state);
  }
}

double RowReducer::dot(const double *q, const double *k, int64_t depth) const {
  double sums[16] = {};
  for (int64_t t = 0; t < depth; ++t) {
    int64_t d = order.backwards ? depth - 1 - t : t;
    double product = q[d] * k[d], &sum = sums[t % order.lanes];
    if (!order.fused)
      product = accumulated(product);
    sum = accumulated(sum + product);
  }
  for (int half = order.lanes / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i)
      sums[i] = accumulated(sums[i] + sums[i + half]);
  return sums[0];
}

llvm::SmallVector<double, 2> RowReducer::dots(const Row &row, int64_t keyHead,
                                              int64_t key) const {
  llvm::SmallVector<double, 2> results;
  for (auto [query, keys] : llvm::zip(reduction.queries, reduction.keys)) {
    const double *q = reduction.turnedQuery
                          ? reduction.turnedQuery(row)
                          : operandRow(*query, reduction.querySource, row.batch,
                                       row.head, row.position);
    const double *k =
        reduction.turnedKey
            ? reduction.turnedKey(row, keyHead, key)
            : operandRow(*keys, reduction.keySource, row.batch, keyHead, key);
    results.push_back(roundScore(dot(q, k, query->shape.back()), options));
  }
  return results;
}

llvm::SmallVector<double, 2> RowReducer::scores(const Row &row,
                                                int64_t key) const {
  int64_t keyHeads = reduction.keySource.heads(*reduction.keys[0]);
  int64_t group = keyHeads ? reduction.numHeads() / keyHeads : 1;
  llvm::SmallVector<double, 2> results;
  reduction.score(dots(row, row.head / group, key), row, key, results);
  for (double &score : results)
    score = roundScore(score, options);
  return results;
}

void RowReducer::appendKey(RowState &state, const Row &row, int64_t key) {
  int64_t rowHeads = reduction.numHeads();
  int64_t keyHeads = reduction.keySource.heads(*reduction.keys[0]);
  // The head of the pair is that of its query.
  Row pair = row;
  int64_t keyHead;
  if (reduction.overQueries) {
    int64_t keys = reduction.keysOfHead(row.batch);
    keyHead = pair.head = row.head * reduction.group() + key / keys;
    key %= keys;
  } else {
    keyHead = keyHeads ? row.head / (rowHeads / keyHeads) : 0;
  }
  if (reduction.isLive && !reduction.isLive(pair, key))
    return;
  llvm::SmallVector<double, 2> dots = this->dots(row, keyHead, key), scores;
  reduction.score(dots, pair, key, scores);
  for (double &score : scores)
    score = roundScore(score, options);
  // A key all of whose scores are -inf is the identity.
  auto isDead = [](llvm::ArrayRef<double> scores) {
    return llvm::all_of(scores, [](double s) { return s == -INFINITY; });
  };
  if (isDead(scores))
    return;
  // So is one whose scores are -inf whatever the dots are; beside a NaN, or an
  // infinity, the sum does not show it.
  if (llvm::any_of(scores, [](double s) { return std::isnan(s); })) {
    bool always = true;
    for (double any : {1.0, -2.0}) {
      llvm::SmallVector<double, 2> others;
      reduction.score(llvm::SmallVector<double, 2>(dots.size(), any), pair, key,
                      others);
      always &= isDead(others);
    }
    if (always)
      return;
  }
  llvm::SmallVector<const double *, 2> values;
  for (const ReferenceValue *operand : reduction.values)
    values.push_back(
        operandRow(*operand, reduction.keySource, row.batch, keyHead, key));
  if (algebra.isGeneral)
    appendGeneral(state, scores, values, key);
  else
    appendWeighted(state, scores, values, key,
                   reduction.factor ? reduction.factor(pair, key) : 1.0);
}
