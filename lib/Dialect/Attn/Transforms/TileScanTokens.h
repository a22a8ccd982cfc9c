//===- TileScanTokens.h - attn.scan token by token --------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The kernel of GPUs, for decoding above all, which is bound by memory: a step
// reads and writes a state of dk x dv numbers, and does four multiply-adds with
// each. A block has one sequence, one state head and some value channels, which
// are the rows of its tile X = S^T; in memory they lie one after the other. It
// loads X once, carries it through the tokens in registers, and stores it:
//
//   p  = (X diag(g)) a            what is erased, y = beta (v - p) or w v
//   X' = X diag(g) + y k^T + ...
//   o  = X' q
//
// Columns are in parts of at most 64, so that the products which a sum is made
// of are a part wide. What is common to all value channels (z and m, beside
// the matrix) each block computes for itself from the old ones; a second kernel
// writes the new ones, when all have read.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILESCANTOKENS_H
#define ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILESCANTOKENS_H

#include "ScanBuilder.h"

namespace mlir::attn {

class ScanTokensKernel : public ScanBuilder {
public:
  /// `ofSums`: the kernel that writes z and m.
  ScanTokensKernel(ScanOp op, const ::attn::TargetInfo &target,
                   tile::KernelOp kernel, bool ofSums)
      : ScanBuilder(op, target, kernel), ofSums(ofSums) {}

  /// Whether there is such a kernel; else an error at the operation.
  static LogicalResult check(ScanOp op);
  /// Value channels of a block, and how many blocks have those of a state.
  static int64_t blockRows(ScanOp op);
  static int64_t countTiles(ScanOp op);

  /// `outputs` are arguments of the kernel for the results, null for one
  /// without uses.
  void build(ValueRange outputs, Value block);

private:
  /// A value for each part of the key channels.
  using Parts = SmallVector<Value>;
  struct State {
    Parts matrix, sum;
    Value largest; // a scalar
    SmallVector<Value> values() const;
  };
  /// What a token does to the state, first as it is loaded: of gates and
  /// weights logarithms. Factors of the whole state and of the write are
  /// scalars, norms columns. The query is that of the first reader.
  struct Token {
    Value at;
    Parts key, query, keyGates, erase, erasing;
    Value keyNorm, value, valueGates;
    Value gate, written, largest, beta;
  };

  void clear(Value output, Value begin, Value end);
  void walkTokens(ValueRange outputs);
  State loadState();
  void storeState(const State &state, ValueRange outputs);
  /// Where a part of the matrix begins, and which of its rows exist.
  SmallVector<Value> matrixAt(int64_t part);
  std::pair<Value, Value> matrixBounds();
  Value existingChannels();
  /// Where the state is, which of a pool may be nowhere.
  void loadSlot();
  void findSlot();
  /// Whether all of a block's state exists, where it is one's.
  bool isWhole() {
    return !ofSums && !initialStates().empty() && valueChannels % rows == 0 &&
           numParts * width == keyChannels &&
           cast<MemRefType>(initialStates().front().getType())
               .isLastDimUnitStride();
  }
  int64_t matrixRows() { return valuesFirst() ? valueChannels : keyChannels; }
  /// Asks for the block's state, or for that of a block to come.
  int64_t headsAtOnce();
  int64_t headsAhead();
  void prefetchOwn();
  void prefetchLater();
  void prefetchRows();
  void prefetchShare();
  State replaced(const State &state, ValueRange by) const;

  int64_t widthOfParts();
  Token loadToken(Value at, bool reads);
  void prepare(Token &token, const State &state);
  State advance(const Token &token, const State &state);
  void read(const Token &token, const State &state, Value output);
  void readOne(const Token &token, const State &state, Value output,
               Value outputHead, Parts query);
  /// An output head, and the query that it has.
  std::pair<Value, Parts> loadQuery(Value at, Value reader);

  Parts loadKeys(Value memref, Value headIndex, Value row);
  Value loadValues(Value memref, Value headIndex, Value row);
  Value loadNumber(Value memref, Value row);
  Parts mapFeature(Parts keys);
  /// What a region takes beside an element: tiles, and where they are null
  /// numbers of a head.
  struct Captures {
    SmallVector<Value> tiles, numbers;
    SmallVector<Value> arguments(ValueRange elements) const;
  };
  Captures loadCaptures(ValueRange captures, Value headIndex,
                        function_ref<Value(Value)> loadWide);
  Parts mapKeys(Parts keys, Region &region, ValueRange captures);
  Value mapColumn(Value x, Region &region, ValueRange captures, Value headIndex,
                  Value at);
  /// 1 / |x| for each row, or null.
  Value inverseNorm(const Parts &x);

  //===--- Small helpers --------------------------------------------------===//
  using Body = function_ref<Value(ValueRange)>;
  Value mapOne(ValueRange inputs, tile::TileType type, Body body);
  /// sum_d x_rd y_d .., over all parts.
  Value rowSums(ArrayRef<Parts> factors);
  Value timesColumn(Value x, Value y);
  Value timesScalar(Value x, Value y);
  tile::TileType column() { return tileType(rows, 1); }
  Value expOf(Value x);

  bool ofSums, isStep = false;
  int64_t rows = 0, keyChannels = 0, valueChannels = 0, numParts = 0, width = 0;
  Value tileNumber, firstValue;
  Value slot, where, exists;
};

} // namespace mlir::attn

#endif // ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILESCANTOKENS_H
