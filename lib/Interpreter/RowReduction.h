//===- RowReduction.h - Reduces rows key by key -----------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_INTERPRETER_ROWREDUCTION_H
#define ATTN_LIB_INTERPRETER_ROWREDUCTION_H

#include "attn/Interpreter/Algebra.h"
#include "attn/Interpreter/Reference.h"
#include "attn/Reference/Attention.h"

#include <functional>

namespace attn::detail {

/// Where a row is: its head, and its position within the sequence. Of a pair,
/// the head is that of the query.
struct Row {
  int64_t batch, head, position;
};

/// What positions count from: one number, or one of each batch; or null.
inline int64_t baseOf(const ReferenceValue *base, int64_t batch) {
  if (!base)
    return 0;
  return int64_t(base->data[base->shape.empty() ? 0 : batch]);
}

/// A region with its captures bound: arguments are given up to the captures.
class BoundRegion {
public:
  /// `captures` must outlive this.
  static llvm::FailureOr<BoundRegion>
  compile(mlir::Region &region,
          llvm::ArrayRef<const ReferenceValue *> captures);

  void evaluate(llvm::ArrayRef<Scalar> leading,
                llvm::SmallVectorImpl<Scalar> &results,
                Precision precision) const;

private:
  RegionProgram program;
  Scalars scalars; ///< One for each capture.
  std::vector<const ReferenceValue *> tensors;
  std::vector<bool> isFloat; ///< Element types of captures.
};

/// One state for each value channel: statistics and unit components are equal
/// in all of them.
struct RowState {
  Scalars stats;
  std::vector<double> units;
  std::vector<std::vector<double>> values; ///< By component, then channel.
};

/// Where the rows of operands are: `#attn.source` with its index operands.
struct RowSource {
  mlir::attn::SourceKind kind = mlir::attn::SourceKind::dense;
  const ReferenceValue *map = nullptr, *lengths = nullptr;

  bool is(mlir::attn::SourceKind other) const { return kind == other; }
  bool hasBatch() const {
    return is(mlir::attn::SourceKind::dense) ||
           is(mlir::attn::SourceKind::ring);
  }
  int64_t heads(const ReferenceValue &operand) const {
    return operand.shape[operand.shape.size() - 3];
  }
  /// Rows that the sequence of a batch has room for, and those it has.
  int64_t capacity(const ReferenceValue &operand, int64_t batch) const;
  int64_t numRows(const ReferenceValue &operand, int64_t batch) const;
  /// The index of a row of a sequence in C order of [.., heads, rows].
  int64_t rowIndex(const ReferenceValue &operand, int64_t batch, int64_t head,
                   int64_t position) const;
};

/// What is reduced, as functions of the row and the key. Over queries, keys
/// stand in the place of queries, and queries in that of keys: those of all
/// heads of a group, head by head.
struct Reduction {
  std::vector<const ReferenceValue *> queries, keys, values;
  bool overQueries = false;
  RowSource querySource, keySource;

  std::function<bool(const Row &, int64_t key)> isLive;
  std::function<void(llvm::ArrayRef<double> dots, const Row &, int64_t key,
                     llvm::SmallVectorImpl<double> &scores)>
      score;
  /// Rows of the one dot pair as they are when they have turned; empty: as they
  /// are in memory.
  std::function<const double *(const Row &)> turnedQuery;
  std::function<const double *(const Row &, int64_t keyHead, int64_t key)>
      turnedKey;
  /// What a key's weight in value components is multiplied by; empty: 1.
  std::function<double(const Row &, int64_t key)> factor;
  /// The left factor `c..., v...`; empty: the identity.
  std::function<Scalars(const Row &)> init;

  int64_t numBatches() const {
    return querySource.hasBatch() ? queries[0]->shape[0]
                                  : int64_t(querySource.map->data.size()) - 1;
  }
  int64_t numHeads() const { return querySource.heads(*queries[0]); }
  int64_t numRows(int64_t batch) const {
    return querySource.numRows(*queries[0], batch);
  }
  /// Keys that a row reduces, without those beyond the length of the batch.
  int64_t numKeys(int64_t batch) const { return group() * keysOfHead(batch); }
  /// Those of one head.
  int64_t keysOfHead(int64_t batch) const {
    return keySource.numRows(*keys[0], batch);
  }
  /// Heads that a row reduces.
  int64_t group() const {
    int64_t heads = keySource.heads(*keys[0]);
    return overQueries ? heads / std::max<int64_t>(numHeads(), 1) : 1;
  }
  int64_t numChannels() const {
    return values.empty() ? 0 : values[0]->shape.back();
  }
  /// The row's index in C order of the row domain.
  int64_t rowIndex(const Row &row) const {
    return querySource.rowIndex(*queries[0], row.batch, row.head, row.position);
  }
  /// The shape of the row domain.
  std::vector<int64_t> rowShape() const;
};

/// What turning rows takes beside its regions (Rotary.cpp).
struct RotarySettings {
  mlir::attn::RotaryAttr rotary;
  /// What regions see for row n of a sequence.
  std::function<int64_t(int64_t batch, int64_t n)> queryPosition, keyPosition;
  Precision precision;
  const ReferenceOptions &options;
};
llvm::LogicalResult
turnOperands(const RotarySettings &settings, mlir::Region &ofQueries,
             mlir::Region &ofKeys,
             llvm::ArrayRef<const ReferenceValue *> captures,
             Reduction &reduction);

class RowReducer {
public:
  RowReducer(Algebra algebra, const Reduction &reduction,
             const ReferenceOptions &options);

  /// The state of keys [begin, end) of a row; `withInit`: after the left
  /// factor.
  RowState reduce(const Row &row, int64_t begin, int64_t end, bool withInit);

  /// The state `c..., v...` of one channel.
  Scalars channel(const RowState &state, int64_t channel) const;
  RowState emptyState() const;
  /// The scores of a row and a key, one for each that the monoid lifts.
  llvm::SmallVector<double, 2> scores(const Row &row, int64_t key) const;

  Algebra algebra;

private:
  double rounded(double value) const;
  /// q . k in the order of the options.
  double dot(const double *q, const double *k, int64_t depth) const;
  /// The dot of each pair of operands, for a key of head `keyHead`.
  llvm::SmallVector<double, 2> dots(const Row &row, int64_t keyHead,
                                    int64_t key) const;
  /// The product of keys [begin, end), appended to `state` one by one, or from
  /// the last to the first in front of it.
  void fold(RowState &state, const Row &row, int64_t begin, int64_t end);
  /// The same in parts that are combined in pairs.
  RowState foldParts(const Row &row, int64_t begin, int64_t end, int64_t parts);
  RowState multiply(const RowState &a, const RowState &b) const;
  void appendKey(RowState &state, const Row &row, int64_t key);
  double accumulated(double value) const {
    return isExact() ? value : static_cast<float>(value);
  }
  bool isExact() const {
    return options.rounding == ReferenceOptions::Rounding::Exact;
  }
  /// The unit components of a state, where its statistic moves.
  void shiftUnits(llvm::ArrayRef<Scalar> from, llvm::ArrayRef<Scalar> to,
                  std::vector<double> &units) const;
  void appendWeighted(RowState &state, llvm::ArrayRef<double> scores,
                      llvm::ArrayRef<const double *> values, int64_t key,
                      double ofValues);
  void appendGeneral(RowState &state, llvm::ArrayRef<double> scores,
                     llvm::ArrayRef<const double *> values, int64_t key);

  const Reduction &reduction;
  const ReferenceOptions &options;
  const reference::SumOrder &order;
};

double roundTo(double value, ReferenceOptions::Rounding rounding);
/// After an operation on scores: see reference::coarseScore.
double roundScore(double value, const ReferenceOptions &options);

} // namespace attn::detail

#endif // ATTN_LIB_INTERPRETER_ROWREDUCTION_H
