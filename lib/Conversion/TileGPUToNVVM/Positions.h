//===- Positions.h - Comparisons of key positions ---------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The columns of a thread's elements are a value of the thread plus constants:
//
//   base + 0, base + 1, base + 8, base + 9, ...
//
// A mask compares each of them with a limit that all share. Here the limit is
// brought to the base's side, once, and every element compares its constant:
// one instruction with an immediate, and no register for the position.
//
// Its rows are base + 0 and base + 8 (+ 64, ...). The distance of a row and a
// column is that of both bases plus a constant, of which 8 rows and 8 columns
// further on have the same: what is made of it, elements of a table, is made
// once for both.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_TILEGPUTONVVM_POSITIONS_H
#define ATTN_LIB_CONVERSION_TILEGPUTONVVM_POSITIONS_H

#include "Emitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/DenseMap.h"

namespace attn::gpu {

/// What is known of the positions in one map's body. A position is a key's: it
/// is not negative, and below 2^31 for every key that exists.
class Positions {
public:
  Positions(Emitter &e, mlir::Block &body) : e(e), body(body) {}

  /// `position` is base + offset, with base and offset not negative. Of the
  /// base only `bits` may be set.
  void define(mlir::Value position, mlir::Value base, int64_t offset,
              int64_t bits) {
    positions[position] = {base, offset, bits};
  }
  /// The same of a row's, which may be anything: it is subtracted alone.
  void defineRow(mlir::Value position, mlir::Value base, int64_t offset) {
    rows[position] = {base, offset};
  }
  /// x + y for the operands x, y of `op`; null where that is no position.
  mlir::Value add(mlir::arith::AddIOp op, mlir::Value x, mlir::Value y);
  /// x - y, one value for all elements that are as far apart; null where one is
  /// no position.
  mlir::Value subtract(mlir::arith::SubIOp op, mlir::Value x, mlir::Value y);
  /// The truth of `op` on x, y; null where x is no position.
  mlir::Value compare(mlir::arith::CmpIOp op, mlir::Value x, mlir::Value y);
  /// Whether x and y both hold; null where they are not two limits on one
  /// offset.
  mlir::Value both(mlir::arith::AndIOp op, mlir::Value x, mlir::Value y);
  /// `position` & mask, or `position` >> places, where that is a constant or
  /// the same for all elements; else null.
  mlir::Value masked(mlir::arith::AndIOp op, mlir::Value position,
                     mlir::Value mask);
  mlir::Value shifted(mlir::Value position, mlir::Value places);

private:
  struct Sum {
    mlir::Value base;
    int64_t offset;
    int64_t bits = -1;
    /// Whether the sum has no carries.
    bool isDisjoint() const { return (bits & offset) == 0; }
  };
  using Pair = std::pair<mlir::Value, mlir::Value>;
  mlir::Value isBelow(int64_t offset, mlir::Value limit);
  const Sum *find(mlir::Value position) const;

  Emitter &e;
  mlir::Block &body;
  llvm::DenseMap<mlir::Value, Sum> positions, rows;
  /// Truths that are offset < base.
  llvm::DenseMap<mlir::Value, Sum> limits;
  // Values that all elements share.
  llvm::DenseMap<Pair, mlir::Value> sums, distances, minima, parts, apart;
  llvm::DenseMap<std::pair<mlir::Value, int64_t>, mlir::Value> differences;
  llvm::DenseMap<mlir::Value, mlir::Value> successors;
};

} // namespace attn::gpu

#endif // ATTN_LIB_CONVERSION_TILEGPUTONVVM_POSITIONS_H
