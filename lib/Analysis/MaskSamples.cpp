//===- MaskSamples.cpp - What a mask reads of rows or keys alone ----------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Analysis/MaskAnalysis.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/STLExtras.h"

#include <numeric>

using namespace mlir;
using namespace ::attn;

//===----------------------------------------------------------------------===//
// Cells
//===----------------------------------------------------------------------===//

static Value withoutCasts(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<arith::IndexCastOp, arith::IndexCastUIOp, arith::ExtSIOp,
             arith::ExtUIOp>(op))
      break;
    value = op->getOperand(0);
  }
  return value;
}

/// The number that `op` divides by, rounding down what is not negative, or 0.
static int64_t findDivisor(Operation *op) {
  APInt number;
  if (op->getNumOperands() != 2 ||
      !matchPattern(op->getOperand(1), m_ConstantInt(&number)) ||
      number.getSignificantBits() > 32)
    return 0;
  int64_t value = number.getSExtValue();
  if (isa<arith::DivSIOp, arith::DivUIOp, arith::FloorDivSIOp>(op))
    return std::max<int64_t>(value, 0);
  if (isa<arith::ShRSIOp, arith::ShRUIOp>(op) && value >= 0 && value < 31)
    return int64_t(1) << value;
  return 0;
}

void MaskAnalysis::findCells() {
  grains[rowArgument] = {1, 0};
  grains[keyArgument] = {0, 1};
  for (Operation &op : region.front()) {
    std::pair<int64_t, int64_t> grain = {0, 0};
    for (Value operand : op.getOperands()) {
      auto [rows, keys] = grains.lookup(operand);
      grain = {std::gcd(grain.first, rows), std::gcd(grain.second, keys)};
    }
    if (int64_t divisor = findDivisor(&op)) {
      Value divided = withoutCasts(op.getOperand(0));
      if (divided == rowArgument)
        grain = {divisor, 0};
      else if (divided == keyArgument)
        grain = {0, divisor};
    }
    if (grain.first || grain.second)
      for (Value result : op.getResults())
        grains[result] = grain;
  }
}

const MaskAnalysis::Cell *MaskAnalysis::findCell(Value value) const {
  const Cell *found =
      llvm::find_if(cells, [&](const Cell &c) { return c.value == value; });
  return found == cells.end() ? nullptr : found;
}

bool MaskAnalysis::isSample(Value value) const {
  return llvm::any_of(samples,
                      [&](const Sample &s) { return s.value == value; });
}

//===----------------------------------------------------------------------===//
// Samples
//===----------------------------------------------------------------------===//

Value MaskAnalysis::sampled(Value value) {
  if (!value.getType().isSignlessInteger() ||
      value.getType().getIntOrFloatBitWidth() > 32)
    return {};
  // No tile lies within a smaller cell.
  constexpr int64_t least = 8;
  auto [rows, keys] = grains.lookup(value);
  bool hasCells = (!rows || rows >= least) && (!keys || keys >= least);
  if (hasCells && !findCell(value))
    cells.push_back({value, rows, keys});
  bool isSampled = onRow.contains(value) != onKey.contains(value);
  if (isSampled && !isSample(value))
    samples.push_back({value, onKey.contains(value)});
  if (isSampled || hasCells)
    return value;
  return value.getType().isInteger(1) && noteElement(value) ? value : Value();
}

//===----------------------------------------------------------------------===//
// Elements
//===----------------------------------------------------------------------===//

bool MaskAnalysis::isElement(Value value) const {
  return llvm::any_of(elements,
                      [&](const Element &e) { return e.value == value; });
}

bool MaskAnalysis::noteElement(Value value) {
  if (isElement(value))
    return true;
  // All that varies on the way to it is one element.
  tensor::ExtractOp read;
  llvm::SmallVector<Value> open = {value};
  llvm::DenseSet<Value> seen;
  while (!open.empty()) {
    Value next = open.pop_back_val();
    if (!varying.contains(next) || !seen.insert(next).second)
      continue;
    Operation *op = next.getDefiningOp();
    if (!op || op->getNumRegions())
      return false;
    auto extract = dyn_cast<tensor::ExtractOp>(op);
    if (!extract) {
      open.append(op->operand_begin(), op->operand_end());
      continue;
    }
    auto tensor = dyn_cast<BlockArgument>(extract.getTensor());
    if ((read && read != extract) || !tensor ||
        tensor.getOwner() != &region.front())
      return false;
    read = extract;
  }
  if (read)
    elements.push_back({value, read});
  return static_cast<bool>(read);
}

//===----------------------------------------------------------------------===//
// What is used
//===----------------------------------------------------------------------===//

/// A value may be noted on the way to a reading that does without it.
void MaskAnalysis::dropUnusedSamples() {
  llvm::DenseSet<Value> used;
  llvm::SmallVector<int> openForms, openExpressions = {root};
  llvm::DenseSet<int> seenForms, seenExpressions;
  for (const Requirement &requirement : requirements)
    openForms.push_back(requirement.form);
  while (!openForms.empty() || !openExpressions.empty()) {
    if (openForms.empty()) {
      int number = openExpressions.pop_back_val();
      if (number < 0 || !seenExpressions.insert(number).second)
        continue;
      const Expression &e = expressions[number];
      if (e.kind == Expression::Unknown)
        used.insert(e.value);
      openForms.push_back(e.form);
      openExpressions.append({e.lhs, e.rhs});
      continue;
    }
    int number = openForms.pop_back_val();
    if (number < 0 || !seenForms.insert(number).second)
      continue;
    for (auto [factor, which] : forms[number].terms) {
      const Term &term = terms[which];
      if (term.kind == Term::Unknown)
        used.insert(term.value);
      openForms.append({term.lhs, term.rhs});
      openExpressions.append({term.condition, term.negated});
    }
  }
  llvm::erase_if(samples,
                 [&](const Sample &s) { return !used.contains(s.value); });
  llvm::erase_if(cells, [&](const Cell &c) { return !used.contains(c.value); });
  llvm::erase_if(elements,
                 [&](const Element &e) { return !used.contains(e.value); });
}
