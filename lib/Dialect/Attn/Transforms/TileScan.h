//===- TileScan.h - The kernel of attn.scan ---------------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A block has one sequence and one state head, or a turn of their tokens, and
// carries the state through chunks of tokens. With P_i the product of the gates
// up to token i of a chunk, R_j of those behind token j, and W_ij of those
// behind j up to i,
//
//   pairs(x, y)_ij = sum_d x_id y_jd W_ijd   (j < i, or j <= i)
//   O  = (Q P) S + pairs(Q, K) V
//   S' = diag(P_C) S + (K R)^T V
//
// where values V are what the delta rule or an erase leaves of them. Rows
// beyond the sequence load as zeros: a log gate of 0 is a gate of 1, and a
// token of zeros writes nothing.
//
// No exponent is a difference of sums, of which gates of 0 would leave nothing:
// gates of heads are summed up for each pair, and those of channels in dyadic
// halves. For j < i let m be the middle of the smallest aligned block of 2^l
// tokens that holds both; then W_ij is the product of the gates from m to i,
// times that of those behind j and before m, which are one tile for each l.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILESCAN_H
#define ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILESCAN_H

#include "ScanBuilder.h"

namespace mlir::attn {

class ScanKernel : public ScanBuilder {
public:
  ScanKernel(ScanOp op, const ::attn::TargetInfo &target, tile::KernelOp kernel)
      : ScanBuilder(op, target, kernel) {}

  /// `outputs` are arguments of the kernel for the results, null for one
  /// without uses.
  void build(ValueRange outputs, Value block, ValueRange summaries = {});
  /// The kernel before it, where the tokens are cut into segments: writes what
  /// the tokens of all but the last of them are, to memory of these types.
  void summarize(ValueRange memory, Value block);
  static SmallVector<MemRefType> getSummaryTypes(ScanOp op);
  /// Whether parts of the tokens of a sequence take turns (TileScanTurns.cpp),
  /// the memory that they pass its state and the number of a turn through, and
  /// the kernel that makes the numbers 0.
  static bool takesTurns(ScanOp op);
  static SmallVector<MemRefType> getTurnTypes(ScanOp op,
                                              const ::attn::TargetInfo &target);
  void clearTurns(ValueRange memory, Value block);
  /// How many turns the tokens of each of so many states are.
  static Value countTurns(OpBuilder &b, Location loc, Value tokens,
                          Value states);
  /// The kernel of an attn.scan_partial, of whose parts the operation is a
  /// scan: writes what each does to a state (TileScanParts.cpp). `outputs` as
  /// above.
  void buildPart(ValueRange outputs, Value block, int64_t parts, bool hasMaps);

private:
  /// S, z and m, those that there are.
  struct State {
    Value matrix, sum, largest;
    SmallVector<Value> values() const;
  };
  /// What is computed of one chunk for all of its readers.
  struct Chunk {
    Value first;               // row of the tensors
    Value key, value, written; // `written`: K weighted, as the state takes it
    Value narrowKey;           // K as it is in memory, of 16 bits, or null
    Value narrowState, narrowValue; // what outputs are made of, likewise
    Value givenValue;               // V before an erase
    /// Head gates: 1xC logs; W; P (Cx1), R (Cx1).
    Value gateLogs, pairs, pairsBefore;
    Value product, productBefore, rest;
    /// Of channels P, R are CxD; and the factors of each level, of rows in
    /// its upper halves and of keys in its lower ones.
    SmallVector<Value> halves, halvesBefore;
    /// The product of all gates, as a column, a row and a 1x1.
    Value totalColumn, totalRow, totalLog;
    /// With logarithms of weights.
    Value largestRows, fromStateRows, largestNext, endWeights;
    Value erasing, erased; // b and U of an erase
  };
  /// What a chunk reads its state by: queries with their factor and without it,
  /// and as they are in memory, of 16 bits, or null.
  struct Query {
    Value rows, plain, narrow, factor;
  };
  enum class Gates { none, head, key, value };
  /// What a token makes of the logarithm of the largest weight, which stands
  /// for itself and a rest that it has no bits for.
  struct LogStep {
    Value old, error;    // with the gate
    Value none;          // whether there is no weight before it
    Value isNew;         // whether the token's own is the largest
    Value largest, rest; // with the token's own
  };

  /// Sizes, the work of the block, and its rows.
  void startBlock(Value block, Value segments);
  bool isCut() { return scanOp.getSegments().value_or(1) > 1; }
  void cutSegment();
  void findTurn(Value block);
  void takeTurn();
  State loadPassed();
  void passTurn(const State &state);
  void cutPart(int64_t parts);
  /// What the tokens of a part leave of a state, and, of head or channel gates,
  /// the product of all.
  std::pair<State, Value> walkPart(const State &first, bool keepsGates);
  void storePart(Value tile, Value memory, unsigned numChannels,
                 bool isVector = false);
  State passSegments(const State &first);
  State loadState();
  void storeState(const State &state, ValueRange outputs);
  void makeMasks();
  void clear(Value output);
  void walkChunks(ValueRange outputs);
  Value loadTokens(Value memref, Value headIndex, Value row, int64_t cols,
                   Type element = {});
  /// Whether products of queries and keys are those of 16 bits that memory
  /// holds, which are exact, and faster.
  bool hasNarrowProducts();
  /// Whether those that outputs alone are made of are as well: of states and
  /// weights rounded to bf16, which outputs are themselves.
  bool hasNarrowReads();
  void addNarrowReads(Chunk &chunk, const State &state);
  /// Whether keys of bf16 meet states and values of f32 in products that lose
  /// nothing (Amx.cpp).
  bool hasExactParts(const Chunk &chunk);
  /// Whether factors of a row are those of its sums, not of the query.
  bool hasScaledSums(const Chunk &chunk);
  /// Asks for the rows that the next chunk loads.
  void askAhead(Value memref, Value headIndex, Value row);
  /// One number of each token, as a column or a row.
  Value loadNumbers(Value memref, Value row, bool asRow);
  Value mapRows(Value tile, Value row, int64_t channels);
  /// Applies the region of gates to those from token `row` on; `along` is the
  /// dimension of tokens.
  Value mapGates(Value tile, Value row, int along);
  /// Applies the region of outputs to those of a head.
  Value finalize(Value sum, Value outputHead, Value row);
  Chunk makeChunk(Value first);
  void addHeadGates(Chunk &chunk);
  void addChannelGates(Chunk &chunk);
  Value asColumn(Value row);
  LogStep stepLog(Value largest, Value rest, Value gate, Value own,
                  Value ownRest);
  std::pair<Value, Value> largestBefore(Value own, Value gate, Value first);
  void addLogWeights(Chunk &chunk, const State &state);
  Value lessKnown(const Chunk &chunk, const State &state, Value beta);
  void addErased(Chunk &chunk, const State &state);
  Value solve(Value system, Value rhs);
  /// Weights times values, added to `sum`; of no weights that alone.
  Value addWeighted(Value weights, Value values, Value sum);
  /// Whether what keys add and erases take away is summed up by itself.
  bool hasOwnSum(const Chunk &chunk) const;
  State advance(const Chunk &chunk, const State &state);
  void read(const Chunk &chunk, const State &state, Value output);
  Query loadQuery(const Chunk &chunk, Value queryHead);
  /// What queries read of the state and of the chunk's own tokens, and the
  /// weights of these; with factors of rows at the sums (hasScaledSums), or at
  /// the queries.
  Value readScaled(const Chunk &chunk, const State &state, const Query &query,
                   Value &weights, function_ref<void()> askAhead);
  Value readPlain(const Chunk &chunk, const State &state, const Query &query,
                  Value &weights);
  Value addBonus(const Chunk &chunk, const Query &query, Value sum);
  Value divideByWeights(const Chunk &chunk, const State &state,
                        const Query &query, Value weights, Value sum);
  /// Outputs of weights that are relative to the largest one.
  Value timesLargest(const Chunk &chunk, Value sum);
  Value combineValueGates(const Chunk &chunk, Value weights, Value sum);

  /// Whether a row and a key are in different halves of a block of 2^(level +
  /// 1) tokens.
  Value areOfLevel(Value row, Value key, int64_t level);
  /// Products of rows and keys, weighted; with `diagonal` those of a token with
  /// itself, and `before` with the gates before a row's token alone.
  /// `narrowRows`: the rows of 16 bits, taken for the chunk's own keys.
  /// `scale`: a factor of the products. `element`: what they are rounded to.
  Value pairs(const Chunk &chunk, Value rows, Value keys, bool before,
              bool diagonal, Value narrowRows = {}, Value scale = {},
              Type element = {});
  /// Rows times the state at the chunk's beginning.
  Value times(const Chunk &chunk, Value rows, Value matrix, bool before);
  Value toEnd(const Chunk &chunk, Value keys);

  //===--- Small helpers --------------------------------------------------===//
  Value dot(Value lhs, Value rhs, Value acc = {}, Value scale = {},
            bool transposeRhs = false, bool transposeLhs = false);
  /// One value of each element.
  using Body = function_ref<Value(Value, Value, ValueRange)>;
  Value mapOne(ValueRange inputs, tile::TileType type, Body body);
  Value multiply(Value x, Value y, tile::TileType type);
  Value addTiles(Value x, Value y, tile::TileType type);
  Value expOf(Value tile);
  Value rounded(Value tile, Type element);
  Value sumRows(Value tile); // along columns: Rx1
  Value sumCols(Value tile); // along rows: 1xC
  Value mask(int64_t rows, int64_t cols,
             function_ref<Value(Value, Value)> isOne);
  /// Rows of a state's matrix in memory.
  Value matrixRows() {
    return index(valuesFirst() ? valueChannels : keyChannels);
  }
  tile::TileType square() { return tileType(chunkSize, chunkSize); }
  tile::TileType keyRows() { return tileType(chunkSize, keyCols); }
  tile::TileType valueRows() { return tileType(chunkSize, valueCols); }
  tile::TileType column() { return tileType(chunkSize, 1); }

  Gates gates = Gates::none;
  int64_t chunkSize = 0, levels = 0;
  int64_t keyChannels = 0, valueChannels = 0, keyCols = 0, valueCols = 0;
  bool isReading = false; // of the tokens at hand, those of queries
  /// Whether values are taken for 0, so that a state is what a map leaves of
  /// it.
  bool ofMap = false;
  /// Of segments and of turns: the block's, and what those before it are.
  Value segment, isLastSegment, turns;
  SmallVector<Value> summaries;
  /// Masks of C x C; of each level one for its factors.
  Value upToMask, beforeMask, behindMask;
  SmallVector<Value> levelMasks, levelMasksBefore;
};

} // namespace mlir::attn

#endif // ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILESCAN_H
