//===- Registers.cpp - Elementwise functions, reductions, scans -----------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Sums are made in the order in which the lowering makes them: four chains of
// what a thread holds, a tree of these, then across the lanes that share a row
// or column.
//===----------------------------------------------------------------------===//

#include "Batch.h"

#include <cstring>

using namespace mlir;
namespace emulator = ::attn::emulator;
using namespace ::attn::emulator;

std::shared_ptr<Registers> emulator::makeRegisters(int64_t rows, int64_t cols) {
  auto result = std::make_shared<Registers>();
  result->rows = rows;
  result->cols = cols;
  result->words.resize(size_t(rows * cols));
  return result;
}

/// Shares of an element of a partial vector.
static int64_t sharesOf(tg::VecType vec) {
  if (vec.getAxis() == tg::Axis::Row)
    return 4;
  return vec.getScope() == tg::Scope::Warpgroup ? 32 : 8;
}

Shape emulator::shapeOf(Type type) {
  if (auto frag = dyn_cast<tg::FragType>(type))
    return {frag.getRows(), frag.getCols()};
  if (auto token = dyn_cast<tg::TokenType>(type))
    return {token.getRows(), token.getCols()};
  auto vec = cast<tg::VecType>(type);
  if (vec.getPartial())
    return {vec.getSize(), sharesOf(vec)};
  return {1, vec.getSize()};
}

static Type elementOf(Type type) {
  if (auto frag = dyn_cast<tg::FragType>(type))
    return frag.getElementType();
  return cast<tg::VecType>(type).getElementType();
}

LogicalResult emulator::emulate(tg::FragFillOp op, ProgramBuilder &b) {
  SlotId from = b.slot(op.getValue()), to = b.slot(op.getResult());
  Shape shape = shapeOf(op.getResult().getType());
  b.emit(op, false, [=](Agent &a) {
    auto result = makeRegisters(shape.rows, shape.cols);
    std::fill(result->words.begin(), result->words.end(),
              uint32_t(a.i32(from)));
    a.set(to, std::move(result));
    return Step::Next;
  });
  return success();
}

LogicalResult emulator::emulate(tg::FragCopyOp op, ProgramBuilder &b) {
  SlotId from = b.slot(op.getValue()), to = b.slot(op.getResult());
  b.emit(op, false, [=](Agent &a) {
    auto value = a.use(from);
    if (a.machine.failed())
      return Step::Stop;
    auto result = makeRegisters(value->rows, value->cols);
    result->words = value->words;
    a.inherit(*result, *value);
    a.set(to, std::move(result));
    return Step::Next;
  });
  return success();
}

LogicalResult emulator::emulate(tg::FragConvertOp op, ProgramBuilder &b) {
  SlotId from = b.slot(op.getValue()), to = b.slot(op.getResult());
  Rounding rounding =
      scalarTypeOf(op.getResult().getType().getElementType())->rounding;
  b.emit(op, false, [=](Agent &a) {
    auto value = a.use(from);
    if (a.machine.failed())
      return Step::Stop;
    auto result = makeRegisters(value->rows, value->cols);
    for (size_t i = 0; i < value->words.size(); ++i)
      result->floats()[i] = roundTo(value->floats()[i], rounding);
    a.inherit(*result, *value);
    a.set(to, std::move(result));
    return Step::Next;
  });
  return success();
}

/// Columns of a fragment, from `source` on, as those of another from
/// `destination` on.
template <typename OpT>
static LogicalResult moveColumns(OpT op, int64_t source, int64_t destination,
                                 ProgramBuilder &b) {
  SlotId from = b.slot(op.getValue()), to = b.slot(op.getResult());
  Shape shape = shapeOf(op.getResult().getType());
  b.emit(op, false, [=](Agent &a) {
    auto value = a.use(from);
    if (a.machine.failed())
      return Step::Stop;
    auto result = makeRegisters(shape.rows, shape.cols);
    int64_t cols = std::min(value->cols - source, shape.cols - destination);
    for (int64_t r = 0; r < shape.rows; ++r)
      for (int64_t c = 0; c < cols; ++c)
        result->words[size_t(r * shape.cols + destination + c)] =
            value->words[size_t(r * value->cols + source + c)];
    a.inherit(*result, *value);
    a.set(to, std::move(result));
    return Step::Next;
  });
  return success();
}

LogicalResult emulator::emulate(tg::FragPadOp op, ProgramBuilder &b) {
  return moveColumns(op, 0, int64_t(op.getFirst()), b);
}

LogicalResult emulator::emulate(tg::FragColsOp op, ProgramBuilder &b) {
  return moveColumns(op, int64_t(op.getFirst()), 0, b);
}

//===----------------------------------------------------------------------===//
// Map
//===----------------------------------------------------------------------===//

namespace {
/// How an input of a map meets the elements.
enum class Spread { Element, ByRow, ByCol, ByShare };
struct MapInput {
  SlotId slot;
  Spread spread;
};
} // namespace

LogicalResult emulator::emulate(tg::MapOp op, ProgramBuilder &b) {
  auto body = BatchProgram::build(op.getBody().front(), b);
  if (failed(body))
    return failure();
  auto program = std::make_shared<BatchProgram>(std::move(*body));
  tg::FragType frag;
  tg::VecType vec;
  bool isPartial = false;
  for (Type type :
       llvm::concat<Type>(llvm::to_vector(op.getInputs().getTypes()),
                          llvm::to_vector(op.getResultTypes()))) {
    if (auto some = dyn_cast<tg::FragType>(type))
      frag = some;
    if (auto some = dyn_cast<tg::VecType>(type)) {
      vec = some;
      isPartial |= some.getPartial();
    }
  }
  bool alongRows = !frag && vec.getAxis() == tg::Axis::Row;
  Shape shape = frag        ? shapeOf(frag)
                : isPartial ? Shape{vec.getSize(), sharesOf(vec)}
                            : Shape{1, vec.getSize()};
  llvm::SmallVector<MapInput> inputs;
  for (Value input : op.getInputs()) {
    auto some = dyn_cast<tg::VecType>(input.getType());
    Spread spread = Spread::Element;
    if (some && frag)
      spread = some.getAxis() == tg::Axis::Row ? Spread::ByRow : Spread::ByCol;
    else if (some && isPartial && !some.getPartial())
      spread = Spread::ByShare;
    inputs.push_back({b.slot(input), spread});
  }
  auto outputs = b.slots(op.getResults());
  llvm::SmallVector<Rounding> rounding;
  for (Value result : op.getResults())
    rounding.push_back(scalarTypeOf(elementOf(result.getType()))->rounding);
  bool isFrag = bool(frag);
  b.emit(op, false, [=](Agent &a) {
    llvm::SmallVector<std::shared_ptr<Registers>> values;
    for (const MapInput &input : inputs) {
      values.push_back(a.use(input.slot));
      if (a.machine.failed())
        return Step::Stop;
    }
    llvm::SmallVector<std::shared_ptr<Registers>> results;
    for (size_t i = 0; i < outputs.size(); ++i) {
      results.push_back(makeRegisters(shape.rows, shape.cols));
      for (auto &value : values)
        a.inherit(*results.back(), *value);
    }
    std::vector<int32_t> rowNumbers(size_t(shape.cols)),
        colNumbers(size_t(shape.cols));
    std::vector<std::vector<uint32_t>> spread(inputs.size());
    for (auto &words : spread)
      words.resize(size_t(shape.cols));
    llvm::SmallVector<const void *, 8> in(2 + inputs.size());
    llvm::SmallVector<void *, 4> out(outputs.size());
    for (int64_t row = 0; row < shape.rows; ++row) {
      for (int64_t c = 0; c < shape.cols; ++c) {
        // Of a vector the position along its axis; the other one is 0.
        int64_t along = isPartial ? row : c;
        rowNumbers[size_t(c)] = int32_t(isFrag ? row : alongRows ? along : 0);
        colNumbers[size_t(c)] = int32_t(isFrag ? c : alongRows ? 0 : along);
      }
      in[0] = rowNumbers.data();
      in[1] = colNumbers.data();
      for (size_t i = 0; i < inputs.size(); ++i) {
        uint32_t *words = values[i]->words.data();
        switch (inputs[i].spread) {
        case Spread::Element:
          in[2 + i] = words + row * shape.cols;
          break;
        case Spread::ByCol:
          in[2 + i] = words;
          break;
        case Spread::ByRow:
        case Spread::ByShare:
          std::fill(spread[i].begin(), spread[i].end(), words[row]);
          in[2 + i] = spread[i].data();
          break;
        }
      }
      for (size_t i = 0; i < outputs.size(); ++i)
        out[i] = results[i]->words.data() + row * shape.cols;
      if (!program->run(a, shape.cols, in, out))
        return Step::Stop;
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (rounding[i] != Rounding::None)
        for (size_t e = 0; e < results[i]->words.size(); ++e)
          results[i]->floats()[e] =
              roundTo(results[i]->floats()[e], rounding[i]);
      a.set(outputs[i], std::move(results[i]));
    }
    return Step::Next;
  });
  return success();
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

namespace {
/// A state: for each input the lanes of all keys.
using State = std::vector<std::vector<uint32_t>>;
} // namespace

static bool combine(Agent &a, const BatchProgram &body, State &left,
                    const State &right) {
  llvm::SmallVector<const void *, 8> in;
  llvm::SmallVector<void *, 4> out;
  for (auto &lanes : left)
    in.push_back(lanes.data());
  for (auto &lanes : right)
    in.push_back(lanes.data());
  for (auto &lanes : left)
    out.push_back(lanes.data());
  return body.run(a, int64_t(left[0].size()), in, out);
}

/// Chains, then a tree.
static bool combineAll(Agent &a, const BatchProgram &body,
                       std::vector<State> &all) {
  size_t chains = std::min<size_t>(4, all.size());
  for (size_t i = chains; i < all.size(); ++i)
    if (!combine(a, body, all[i % chains], all[i]))
      return false;
  for (size_t step = 1; step < chains; step *= 2)
    for (size_t i = 0; i + step < chains; i += 2 * step)
      if (!combine(a, body, all[i], all[i + step]))
        return false;
  return true;
}

/// The members of each share of each row or column, in the thread's order:
/// states[m] has the m-th of all shares.
static std::vector<State>
membersOf(llvm::ArrayRef<std::shared_ptr<Registers>> in, bool byRow,
          bool isGroup) {
  int64_t rows = in[0]->rows, cols = in[0]->cols;
  int64_t blockRows = isGroup ? 64 : 16;
  int64_t count = byRow ? cols / 4 : rows / blockRows * 2;
  int64_t shares = byRow ? 4 : isGroup ? 32 : 8;
  int64_t keys = byRow ? rows : cols;
  std::vector<State> members(
      size_t(count),
      State(in.size(), std::vector<uint32_t>(size_t(keys * shares))));
  for (int64_t m = 0; m < count; ++m)
    for (int64_t key = 0; key < keys; ++key)
      for (int64_t share = 0; share < shares; ++share) {
        int64_t row = key, col = key;
        if (byRow)
          col = m / 2 * 8 + 2 * share + m % 2;
        else
          row = m / 2 * blockRows + share / 8 * 16 + m % 2 * 8 + share % 8;
        for (size_t i = 0; i < in.size(); ++i)
          members[size_t(m)][i][size_t(key * shares + share)] =
              in[i]->words[size_t(row * cols + col)];
      }
  return members;
}

/// Combines the shares of each key; all of them then hold the whole.
static bool combineShares(Agent &a, const BatchProgram &body, State &state,
                          int64_t shares) {
  for (int64_t mask = 1; mask < shares; mask *= 2) {
    State other = state;
    for (size_t i = 0; i < state.size(); ++i)
      for (size_t at = 0; at < state[i].size(); ++at) {
        auto share = int64_t(at) % shares;
        other[i][at] = state[i][at - size_t(share) + size_t(share ^ mask)];
      }
    if (!combine(a, body, state, other))
      return false;
  }
  return true;
}

static bool reduceInOrder(Agent &a, const BatchProgram &body,
                          llvm::ArrayRef<std::shared_ptr<Registers>> in,
                          State &state) {
  int64_t rows = in[0]->rows, cols = in[0]->cols;
  auto columnOf = [&](int64_t c) {
    State column(in.size(), std::vector<uint32_t>(size_t(rows)));
    for (size_t i = 0; i < in.size(); ++i)
      for (int64_t r = 0; r < rows; ++r)
        column[i][size_t(r)] = in[i]->words[size_t(r * cols + c)];
    return column;
  };
  state = columnOf(0);
  for (int64_t c = 1; c < cols; ++c)
    if (!combine(a, body, state, columnOf(c)))
      return false;
  return true;
}

LogicalResult emulator::emulate(tg::ReduceOp op, ProgramBuilder &b) {
  auto built = BatchProgram::build(op.getBody().front(), b);
  if (failed(built))
    return failure();
  auto body = std::make_shared<BatchProgram>(std::move(*built));
  auto inputs = b.slots(op.getInputs());
  auto outputs = b.slots(op.getResults());
  auto vec = cast<tg::VecType>(op.getResult(0).getType());
  bool byRow = vec.getAxis() == tg::Axis::Row, isPartial = vec.getPartial();
  bool isGroup = vec.getScope() == tg::Scope::Warpgroup;
  bool completes = isa<tg::VecType>(op.getInputs()[0].getType());
  bool isOrdered = op.getOrdered();
  int64_t shares = sharesOf(vec), size = vec.getSize();
  b.emit(op, false, [=](Agent &a) {
    llvm::SmallVector<std::shared_ptr<Registers>> values;
    for (SlotId slot : inputs) {
      values.push_back(a.use(slot));
      if (a.machine.failed())
        return Step::Stop;
    }
    State state;
    int64_t held = shares;
    if (isOrdered) {
      held = 1;
      if (!reduceInOrder(a, *body, values, state))
        return Step::Stop;
    } else {
      if (completes) {
        for (auto &value : values)
          state.push_back(value->words);
      } else {
        auto members = membersOf(values, byRow, isGroup);
        if (!combineAll(a, *body, members))
          return Step::Stop;
        state = std::move(members.front());
      }
      if (!isPartial && !combineShares(a, *body, state, shares))
        return Step::Stop;
    }
    // The warps exchange what they have.
    if (!byRow && isGroup && !isPartial)
      a.joinWarps();
    for (size_t i = 0; i < outputs.size(); ++i) {
      auto result =
          isPartial ? makeRegisters(size, shares) : makeRegisters(1, size);
      if (isPartial)
        result->words = state[i];
      else
        for (int64_t key = 0; key < size; ++key)
          result->words[size_t(key)] = state[i][size_t(key * held)];
      for (auto &value : values)
        a.inherit(*result, *value);
      a.set(outputs[i], std::move(result));
    }
    return Step::Next;
  });
  return success();
}

LogicalResult emulator::emulate(tg::ScanOp op, ProgramBuilder &b) {
  auto built = BatchProgram::build(op.getBody().front(), b);
  if (failed(built))
    return failure();
  auto body = std::make_shared<BatchProgram>(std::move(*built));
  auto inputs = b.slots(op.getInputs()),
       identities = b.slots(op.getIdentities());
  auto outputs = b.slots(op.getResults());
  bool reverse = op.getReverse();
  b.emit(op, false, [=](Agent &a) {
    llvm::SmallVector<std::shared_ptr<Registers>> values, results;
    for (SlotId slot : inputs) {
      values.push_back(a.use(slot));
      if (a.machine.failed())
        return Step::Stop;
    }
    int64_t rows = values[0]->rows, cols = values[0]->cols;
    State running(inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      running[i].assign(size_t(rows), uint32_t(a.i32(identities[i])));
      results.push_back(makeRegisters(rows, cols));
      for (auto &value : values)
        a.inherit(*results.back(), *value);
    }
    for (int64_t n = 0; n < cols; ++n) {
      int64_t c = reverse ? cols - 1 - n : n;
      State column(inputs.size(), std::vector<uint32_t>(size_t(rows)));
      for (size_t i = 0; i < inputs.size(); ++i)
        for (int64_t r = 0; r < rows; ++r) {
          results[i]->words[size_t(r * cols + c)] = running[i][size_t(r)];
          column[i][size_t(r)] = values[i]->words[size_t(r * cols + c)];
        }
      // The left operand precedes.
      if (reverse) {
        if (!combine(a, *body, column, running))
          return Step::Stop;
        running = std::move(column);
      } else if (!combine(a, *body, running, column)) {
        return Step::Stop;
      }
    }
    for (size_t i = 0; i < outputs.size(); ++i)
      a.set(outputs[i], std::move(results[i]));
    return Step::Next;
  });
  return success();
}

LogicalResult emulator::emulate(tg::AnyOp op, ProgramBuilder &b) {
  SlotId from = b.slot(op.getValue()), to = b.slot(op.getResult());
  // Rows apart may be answered together: what `true` chooses is right for all.
  bool byRows = op.getByRows();
  b.emit(op, !byRows, [=](Agent &a) {
    auto value = a.use(from);
    if (a.machine.failed())
      return Step::Stop;
    a.frame[to].bits =
        llvm::any_of(value->words, [](uint32_t word) { return word & 1; });
    // Of a warpgroup the warps vote at a barrier.
    if (!byRows)
      a.joinWarps();
    return Step::Next;
  });
  return success();
}

LogicalResult emulator::emulate(tg::VecElementsOp op, ProgramBuilder &b) {
  SlotId from = b.slot(op.getValue());
  auto to = b.slots(op.getElements());
  b.emit(op, false, [=](Agent &a) {
    auto value = a.use(from);
    if (a.machine.failed())
      return Step::Stop;
    for (size_t i = 0; i < to.size(); ++i)
      a.frame[to[i]].bits = int32_t(value->words[i]);
    return Step::Next;
  });
  return success();
}
