//===- Products.cpp - Matrix products -------------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Sums are of f32, along K from the first to the last. The hardware adds the
// products of a step in an order and with a rounding of its own, which the PTX
// ISA leaves open.
//===----------------------------------------------------------------------===//

#include "Models.h"

#include <cmath>
#include <cstring>

using namespace mlir;
namespace emulator = ::attn::emulator;
using namespace ::attn::emulator;

/// acc (rows x cols) += a (rows x depth) * b (depth x cols), all dense.
static void multiply(float *__restrict acc, const float *__restrict a,
                     const float *__restrict b, int64_t rows, int64_t cols,
                     int64_t depth) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t k = 0; k < depth; ++k) {
      float x = a[r * depth + k];
      for (int64_t c = 0; c < cols; ++c)
        acc[r * cols + c] += x * b[k * cols + c];
    }
}

static std::vector<float> copyOf(Matrix matrix, int64_t rows, int64_t cols,
                                 Rounding rounding) {
  std::vector<float> result(size_t(rows * cols));
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c)
      result[size_t(r * cols + c)] = matrix.floatAt(r, c);
  if (rounding != Rounding::None)
    for (float &value : result)
      value = roundTo(value, rounding);
  return result;
}

namespace {
/// An operand: registers, or a tile.
struct Operand {
  SlotId slot = noSlot;
  bool isTile = false;
  TileInfo tile;
  int64_t rows = 0, cols = 0;
};
} // namespace

static Operand operandOf(Value value, ProgramBuilder &b) {
  Operand operand;
  operand.slot = b.slot(value);
  if (auto tile = dyn_cast<tg::SmemType>(value.getType())) {
    operand.isTile = true;
    operand.tile = tileInfoOf(tile);
    operand.rows = tile.getRows();
    operand.cols = tile.getCols();
  } else {
    Shape shape = shapeOf(value.getType());
    operand.rows = shape.rows;
    operand.cols = shape.cols;
  }
  return operand;
}

static Type elementOf(Value value) {
  if (auto tile = dyn_cast<tg::SmemType>(value.getType()))
    return tile.getElementType();
  return cast<tg::FragType>(value.getType()).getElementType();
}

//===----------------------------------------------------------------------===//
// In flight
//===----------------------------------------------------------------------===//

LogicalResult emulator::emulate(tg::MmaIssueOp op, ProgramBuilder &b) {
  Operand left = operandOf(op.getA(), b), right = operandOf(op.getB(), b);
  SlotId acc = op.getAcc() ? b.slot(op.getAcc()) : noSlot;
  SlotId ramp = op.getRamp() ? b.slot(op.getRamp()) : noSlot;
  Operand columns;
  if (op.getRampColumns())
    columns = operandOf(op.getRampColumns(), b);
  SlotId to = b.slot(op.getToken());
  int64_t rows = left.rows, cols = right.cols, held = right.rows;
  int64_t depth = op.getLiveDepth().value_or(held);
  b.emit(op, true, [=](Agent &a) {
    std::shared_ptr<Registers> sums, leftValue;
    if (acc != noSlot && !(sums = a.use(acc)))
      return Step::Stop;
    if (!left.isTile && !(leftValue = a.use(left.slot, /*byProduct=*/true)))
      return Step::Stop;
    if (a.machine.failed())
      return Step::Stop;
    ++a.numProducts;
    // Each warp multiplies its own rows, by all of the right operand.
    View leftView = left.isTile ? a.view(left.slot) : View();
    View rightView = a.view(right.slot);
    for (int64_t warp = 0; warp < a.warps; ++warp) {
      Access access = a.access(warp, false);
      access.isAsync = true;
      access.epoch.component = a.component(warp, lineProducts);
      access.epoch.clock = a.numProducts;
      bool isFine = a.touch(a.block, rightView,
                            rectOf(right.tile, 0, 0, depth, cols), access);
      if (left.isTile)
        a.forRowsOf(warp, rows, [&](int64_t first, int64_t count) {
          isFine = isFine &&
                   a.touch(a.block, leftView,
                           rectOf(left.tile, first, 0, count, depth), access);
        });
      if (columns.isTile)
        isFine = isFine &&
                 a.touch(a.block, a.view(columns.slot),
                         rectOf(columns.tile, 0, 0, columns.rows, columns.cols),
                         access);
      if (!isFine)
        return Step::Stop;
    }
    Product product;
    product.number = a.machine.nextNumber();
    product.site = a.site();
    product.result = makeRegisters(rows, cols);
    product.left = leftValue;
    if (sums) {
      product.result->words = sums->words;
      // The value is gone; another that was the same before has registers of
      // its own.
      auto taken = makeRegisters(0, 0);
      taken->takenBy = product.number;
      a.set(acc, taken);
    }
    float slope = ramp == noSlot ? 0.0f : a.f32(ramp);
    auto result = product.result;
    ThreadBlock &block = a.block;
    auto last = a.products.empty() ? nullptr : a.products.back().done;
    product.done = a.machine.defer(
        a, "a product",
        [=, &block] {
          std::vector<float> x;
          if (left.isTile)
            x = copyOf(matrixOf(block, leftView, left.tile), rows, depth,
                       Rounding::None);
          else
            for (int64_t r = 0; r < rows; ++r)
              x.insert(x.end(), leftValue->floats() + r * held,
                       leftValue->floats() + r * held + depth);
          auto y = copyOf(matrixOf(block, rightView, right.tile), depth, cols,
                          Rounding::None);
          multiply(result->floats(), x.data(), y.data(), rows, cols, depth);
          if (slope != 0.0f)
            for (int64_t r = 0; r < rows; ++r)
              for (int64_t c = 0; c < cols; ++c)
                result->floats()[r * cols + c] += slope * float(c);
        },
        last);
    a.products.push_back(product);
    a.set(to, product.result);
    // The accumulator is the product's until it has been waited for.
    result->takenBy = product.number;
    return Step::Next;
  });
  return success();
}

LogicalResult emulator::emulate(tg::MmaWaitOp op, ProgramBuilder &b) {
  auto tokens = b.slots(op.getTokens()), results = b.slots(op.getAccs());
  auto pending = size_t(op.getPending());
  b.emit(op, true, [=](Agent &a) {
    a.waitedAt = nullptr;
    // Products end in the order of their issue.
    while (a.products.size() > pending) {
      if (!a.knows(a.products.front().done))
        return a.wait(&a.machine.version,
                      [] { return std::string("a product"); });
      a.await(a.products.front().end);
      a.products.pop_front();
    }
    auto ended = uint32_t(a.numProducts - a.products.size());
    for (int64_t warp = 0; warp < a.warps; ++warp) {
      Clock &clock = a.clocks[size_t(warp)];
      uint32_t line = a.component(warp, lineProducts);
      clock.seen[line] = std::max(clock.seen[line], ended);
    }
    for (auto [token, result] : llvm::zip_equal(tokens, results)) {
      auto value = a.registersAt(token);
      if (!value) {
        a.fail("waits for a product that was not issued");
        return Step::Stop;
      }
      bool isInFlight = llvm::any_of(a.products, [&](const Product &product) {
        return product.result == value;
      });
      if (isInFlight) {
        a.fail("takes the accumulator of a product that may still be in "
               "flight: pending(" +
               std::to_string(pending) + ") lets it");
        return Step::Stop;
      }
      if (!value->takenBy) {
        a.fail("waits for a product that was waited for before");
        return Step::Stop;
      }
      auto own = std::make_shared<Registers>(*value);
      own->takenBy = 0;
      own->reads.clear();
      a.set(result, own);
    }
    return Step::Next;
  });
  return success();
}

//===----------------------------------------------------------------------===//
// At once
//===----------------------------------------------------------------------===//

LogicalResult emulator::emulate(tg::MmaSyncOp op, ProgramBuilder &b) {
  Operand left = operandOf(op.getA(), b), right = operandOf(op.getB(), b);
  SlotId acc = b.slot(op.getAcc()), to = b.slot(op.getResult());
  bool isTf32 = elementOf(op.getB()).isTF32();
  // Sums of f32 multiply-adds are fused.
  bool isFused =
      !isTf32 && (elementOf(op.getA()).isF32() || elementOf(op.getB()).isF32());
  Rounding rounding = isTf32 ? Rounding::TF32 : Rounding::None;
  int64_t rows = left.rows, cols = right.cols, depth = left.cols;
  b.emit(op, true, [=](Agent &a) {
    auto sums = a.use(acc);
    if (a.machine.failed())
      return Step::Stop;
    auto result = makeRegisters(rows, cols);
    result->words = sums->words;
    a.inherit(*result, *sums);
    auto valuesOf = [&](const Operand &operand, std::vector<float> &values) {
      if (!operand.isTile) {
        auto value = a.use(operand.slot);
        if (a.machine.failed())
          return false;
        a.inherit(*result, *value);
        values.assign(value->floats(), value->floats() + value->words.size());
        if (rounding != Rounding::None)
          for (float &number : values)
            number = roundTo(number, rounding);
        return true;
      }
      View view = a.view(operand.slot);
      if (!a.touch(0, view,
                   rectOf(operand.tile, 0, 0, operand.rows, operand.cols),
                   false))
        return false;
      a.readLate(view, *result);
      values = copyOf(matrixOf(a.block, view, operand.tile), operand.rows,
                      operand.cols, rounding);
      return true;
    };
    std::vector<float> x, y;
    if (!valuesOf(left, x) || !valuesOf(right, y))
      return Step::Stop;
    if (isFused) {
      float *z = result->floats();
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t k = 0; k < depth; ++k)
          for (int64_t c = 0; c < cols; ++c)
            z[r * cols + c] =
                std::fma(x[size_t(r * depth + k)], y[size_t(k * cols + c)],
                         z[r * cols + c]);
    } else {
      multiply(result->floats(), x.data(), y.data(), rows, cols, depth);
    }
    a.set(to, std::move(result));
    return Step::Next;
  });
  return success();
}
