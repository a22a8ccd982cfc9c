//===- Positions.cpp - Comparisons of key positions -----------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Positions.h"

using namespace mlir;
using namespace ::attn;
using namespace ::attn::gpu;

const Positions::Sum *Positions::find(Value position) const {
  for (auto *known : {&positions, &rows})
    if (auto it = known->find(position); it != known->end())
      return &it->second;
  return nullptr;
}

/// Nothing but positions and sizes is cast from the index type in a kernel, so
/// such a summand moves a column to the position of its key.
Value Positions::add(arith::AddIOp op, Value x, Value y) {
  auto cast = op.getLhs().getDefiningOp<arith::IndexCastOp>();
  const Sum *position = find(y);
  if (!cast || !cast.getIn().getType().isIndex() || !position ||
      op->getBlock() != &body)
    return {};
  auto [first, offset, bits] = *position;
  bool isRow = rows.contains(y);
  Value &base = sums[{x, first}];
  if (!base)
    base = e.add(x, first);
  Value sum = e.add(base, offset);
  if (isRow)
    defineRow(sum, base, offset);
  else
    positions[sum] = {base, offset};
  return sum;
}

Value Positions::subtract(arith::SubIOp op, Value x, Value y) {
  const Sum *from = find(x), *what = find(y);
  if (!from || !what || op->getBlock() != &body)
    return {};
  Value &bases = apart[{from->base, what->base}];
  if (!bases)
    bases = e.sub(from->base, what->base);
  int64_t offset = from->offset - what->offset;
  Value &difference = differences[{bases, offset}];
  if (!difference)
    difference = e.add(bases, offset);
  return difference;
}

/// base + offset < y is offset < y - base. The difference may lie below every
/// i32; the least of them compares with an offset, which is not negative, as
/// the difference would.
Value Positions::compare(arith::CmpIOp op, Value x, Value y) {
  using Predicate = arith::CmpIPredicate;
  Predicate predicate = op.getPredicate();
  auto it = positions.find(x);
  if (it == positions.end() || positions.contains(y) || y.getType() != e.i32 ||
      op->getBlock() != &body ||
      llvm::is_contained(
          {Predicate::ult, Predicate::ule, Predicate::ugt, Predicate::uge},
          predicate))
    return {};
  auto [base, offset, bits] = it->second;
  Value &distance = distances[{y, base}];
  if (!distance)
    distance = e.call("llvm.ssub.sat.i32", e.i32, {y, base});
  if (predicate == Predicate::slt)
    return isBelow(offset, distance);
  if (predicate == Predicate::sle) {
    Value &limit = successors[distance];
    if (!limit)
      limit = e.call("llvm.sadd.sat.i32", e.i32, {distance, e.c32(1)});
    return isBelow(offset, limit);
  }
  return e.icmp(LLVM::ICmpPredicate(uint64_t(predicate)), e.c32(offset),
                distance);
}

Value Positions::isBelow(int64_t offset, Value limit) {
  Value result = e.lt(e.c32(offset), limit);
  limits[result] = {limit, offset};
  return result;
}

Value Positions::both(arith::AndIOp op, Value x, Value y) {
  auto first = limits.find(x), second = limits.find(y);
  if (first == limits.end() || second == limits.end() ||
      first->second.offset != second->second.offset || op->getBlock() != &body)
    return {};
  Value firstLimit = first->second.base;
  int64_t offset = first->second.offset;
  Value secondLimit = second->second.base;
  Value &nearer = minima[{firstLimit, secondLimit}];
  if (!nearer)
    nearer = LLVM::SMinOp::create(e.b, e.loc, firstLimit, secondLimit);
  return isBelow(offset, nearer);
}

Value Positions::masked(arith::AndIOp op, Value position, Value mask) {
  auto it = positions.find(position);
  auto constant = e.constantOf(mask);
  // What all elements share is computed where all of them see it.
  if (it == positions.end() || !constant || !it->second.isDisjoint() ||
      op->getBlock() != &body)
    return {};
  Sum sum = it->second;
  if (!(sum.bits & *constant))
    return e.c32(sum.offset & *constant);
  if (sum.offset & *constant)
    return {};
  Value &part = parts[{sum.base, mask}];
  if (!part)
    part = e.and_(sum.base, mask);
  return part;
}

Value Positions::shifted(Value position, Value places) {
  auto it = positions.find(position);
  auto constant = e.constantOf(places);
  if (it == positions.end() || !constant || *constant < 0 || *constant > 31 ||
      !it->second.isDisjoint() || it->second.bits >> *constant != 0)
    return {};
  return e.c32(it->second.offset >> *constant);
}
