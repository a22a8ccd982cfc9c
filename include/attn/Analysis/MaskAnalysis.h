//===- MaskAnalysis.h - Which tiles a mask keeps ----------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A mask is an expression over the row i and the key j, whatever names it had
// ("causal", "window"). This analysis reads the expression:
//
//   * Integers become forms  ci * i + cj * j + sum of terms + constant, with
//     run-time values as symbols; what is not affine (min, max, select,
//     division, products) is a term with an interval of its own.
//   * Booleans become and/or trees over literals  form >= 0, negation pushed
//     to the leaves; xor and select expand; a min, max or select inside of a
//     literal splits it. An unreadable leaf may be anything.
//
// From these come, for rows [i0, i1] and run-time values known only in the
// kernel, so as code:
//
//   hull   an interval of keys outside of which nothing is live,
//   core   an interval of keys that are live in every row,
//   class  of a box rows x keys: dead, full, or neither as far as one can see.
//
// What cannot be read but depends on the row alone or on the key alone (an id
// of a document in memory) may be sampled: its least and greatest value over
// the rows or the keys of a box classify that box. What depends on i / 128 and
// j / 128 alone (a table of blocks) is one number for all of a box that lies
// within one cell, and is read there. What is asked of an element that the row
// and the key choose (is it -inf?) is settled where all elements answer alike.
//
// Nothing is assumed about overflow: the region computes in wrapping integers,
// the analysis in wider ones, and where an intermediate value of the region
// might leave its type for the rows and keys at hand (`valid` is false), hull
// is everything, core nothing and no tile is dead or full.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_ANALYSIS_MASKANALYSIS_H
#define ATTN_ANALYSIS_MASKANALYSIS_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/Region.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include <functional>

namespace attn {

class MaskAnalysis {
public:
  /// `mask` has the arguments b, h, i, j, captures... and yields an i1.
  explicit MaskAnalysis(mlir::Region &mask);

  /// What holds of the mask whatever the rows, the number of keys and the
  /// values of its captures are.
  struct Facts {
    /// Some leaf depends on i or j and could not be read: live elements must
    /// be found by evaluating the mask.
    bool isDataDependent = false;
    /// There may be keys that are live in every row of a tile, and they are
    /// found: peeling them off pays.
    bool hasCore = false;
    /// Every key of the hull is live in some row.
    bool hullIsExact = false;
    /// The keys of each row are one interval, and `emitRowColumns` finds it:
    /// cheaper than the mask for each element.
    bool hasRowIntervals = false;
    /// The hull starts with the first key, as under a causal mask.
    bool startsAtFirstKey = false;
    /// The hull starts, or ends, with another key for other rows, where the
    /// reading of the region holds.
    bool startDiffersByRow = false, endDiffersByRow = false;
    /// The reading holds, as nothing of it can wrap; see `isAlwaysValid`.
    bool alwaysValid = false;
  };
  const Facts &facts() const { return knownFacts; }

  /// Whether the reading holds for all positions: rows below what `isRows` says
  /// counts them, keys below what `isKeys` says counts them, values of the
  /// region both.
  bool isAlwaysValid(llvm::function_ref<bool(mlir::Value)> isRows,
                     llvm::function_ref<bool(mlir::Value)> isKeys) const;

  /// A value of the region, an integer of at most 32 bits, that depends on the
  /// key and not on the row, or the other way round, and is not read further.
  struct Sample {
    mlir::Value value;
    bool onKey;
  };
  llvm::ArrayRef<Sample> getSamples() const { return samples; }

  /// A value of the region, an integer of at most 32 bits, that is not read
  /// further and is the same for all of a cell: `rows` rows by `keys` keys from
  /// multiples of these on. 0 stands for all of them.
  struct Cell {
    mlir::Value value;
    int64_t rows, keys;
  };
  llvm::ArrayRef<Cell> getCells() const { return cells; }

  /// A truth of the region that depends on the row and the key by which element
  /// of a captured tensor `read`, a tensor.extract, gives, and is neither
  /// sampled nor the same for all of a cell.
  struct Element {
    mlir::Value value;
    mlir::Operation *read;
  };
  llvm::ArrayRef<Element> getElements() const { return elements; }

  //===--- As code --------------------------------------------------------===//
  /// Gives the kernel's value for a value of the region that depends on
  /// neither i nor j.
  using UniformFn = std::function<mlir::Value(mlir::Value)>;
  /// All of type index; keys of [lower, upper) and [coreLower, coreUpper).
  /// `valid` is an i1.
  struct Bounds {
    mlir::Value lower, upper, coreLower, coreUpper, valid;
  };
  /// For rows [firstRow, lastRow] and keys [0, numKeys).
  Bounds emitBounds(mlir::OpBuilder &builder, mlir::Location loc,
                    const UniformFn &uniform, mlir::Value firstRow,
                    mlir::Value lastRow, mlir::Value numKeys) const;
  /// A row of a tile and a tile of keys, all i32 but `numKeys` (index).
  struct RowOfTile {
    /// The row's number in the tile, and its position: that is `position`, plus
    /// the row's number if it `isOffset`.
    mlir::Value row, position;
    bool isOffset;
    /// The tile's first key, how many of its columns are keys, and how many
    /// there are.
    mlir::Value firstKey, keyCount;
    int64_t numColumns;
    mlir::Value numKeys;
  };
  /// The live keys of a row as columns [start, end) of a tile (i32); a null
  /// start is 0.
  struct RowColumns {
    mlir::Value start, end;
  };
  /// Where `hasRowIntervals`, for rows and keys that a `valid` holds of.
  RowColumns emitRowColumns(mlir::OpBuilder &builder, mlir::Location loc,
                            const UniformFn &uniform,
                            const RowOfTile &tile) const;
  /// Two i1: no element of the box is live; every one is.
  struct Class {
    mlir::Value dead, full;
  };
  /// For rows and keys [first, last] within those that `valid` is of.
  ///
  /// `cell` gives the value (i32) of a cell's value at the first element of the
  /// box; without it cells are not read.
  using CellFn = std::function<mlir::Value(mlir::Value)>;
  Class emitClass(mlir::OpBuilder &builder, mlir::Location loc,
                  const UniformFn &uniform, mlir::Value firstRow,
                  mlir::Value lastRow, mlir::Value firstKey,
                  mlir::Value lastKey, mlir::Value valid,
                  const CellFn &cell = {}) const;

  /// Gives the least and the greatest value (i32) of a sample over the rows or
  /// the keys of a box; truths are 0 and 1.
  using SampleFn =
      std::function<std::pair<mlir::Value, mlir::Value>(mlir::Value)>;
  /// The class of a box whose samples are known, and of elements, unless null,
  /// whether some are false (the least is 0), and true. Whether the reading
  /// holds is found for the box alone. Where `mixed` is asked for: whether the
  /// ends of samples tell of an element that is live and of one that is dead.
  Class emitBoxClass(mlir::OpBuilder &builder, mlir::Location loc,
                     const UniformFn &uniform, const SampleFn &sample,
                     mlir::Value firstRow, mlir::Value lastRow,
                     mlir::Value firstKey, mlir::Value lastKey,
                     const CellFn &cell = {}, const SampleFn &element = {},
                     mlir::Value *mixed = nullptr) const;

  //===--- As numbers -----------------------------------------------------===//
  using UniformNumberFn = std::function<int64_t(mlir::Value)>;
  struct NumberBounds {
    int64_t lower, upper, coreLower, coreUpper;
    bool valid;
  };
  NumberBounds computeBounds(const UniformNumberFn &uniform, int64_t firstRow,
                             int64_t lastRow, int64_t numKeys) const;
  struct NumberClass {
    bool dead, full;
  };
  using CellNumberFn = std::function<int64_t(mlir::Value)>;
  NumberClass computeClass(const UniformNumberFn &uniform, int64_t firstRow,
                           int64_t lastRow, int64_t firstKey, int64_t lastKey,
                           bool valid, const CellNumberFn &cell = {}) const;
  using SampleNumberFn =
      std::function<std::pair<int64_t, int64_t>(mlir::Value)>;
  NumberClass computeBoxClass(const UniformNumberFn &uniform,
                              const SampleNumberFn &sample, int64_t firstRow,
                              int64_t lastRow, int64_t firstKey,
                              int64_t lastKey, const CellNumberFn &cell = {},
                              const SampleNumberFn &element = {},
                              bool *mixed = nullptr) const;

private:
  template <typename Arithmetic> friend class MaskEvaluator;

  /// A term of a form; refers to forms and expressions by number.
  struct Term {
    enum Kind {
      Uniform,
      Product,
      Minimum,
      Maximum,
      Choice,
      FloorDivision,
      TruncatedDivision,
      FloorRemainder,
      TruncatedRemainder,
      Unknown
    } kind;
    mlir::Value value = {};       // Uniform; of an Unknown its sample, or null
    int lhs = -1, rhs = -1;       // forms
    int condition = -1;           // Choice: expression of the condition
    int negated = -1;             //   and of its negation
    int64_t divisor = 1;          // > 0
    int64_t lower = 0, upper = 0; // Unknown
    bool unbounded = false;       //   of more than 32 bits
  };
  struct Form {
    int64_t row = 0, key = 0, constant = 0;
    llvm::SmallVector<std::pair<int64_t, int>, 2> terms; // factor, term
    bool isConstant() const { return !row && !key && terms.empty(); }
  };
  struct Expression {
    enum Kind { True, False, Uniform, AtLeastZero, And, Or, Unknown } kind;
    mlir::Value value = {}; // Uniform; of an Unknown its sample, or null
    bool negate = false;
    int form = -1;          // AtLeastZero
    int lhs = -1, rhs = -1; // And, Or
  };

  // Building, MaskAnalysis.cpp and MaskForms.cpp.
  int addForm(Form form);
  int addTerm(Term term);
  int addExpression(Expression expression);
  int formOf(mlir::Value value);
  class FormBuilder;
  Form unknownForm(mlir::Value value);
  Form termForm(Term term);
  bool isUnbounded(const Form &form) const;
  static bool scale(Form &form, int64_t factor);
  Form sum(const Form &lhs, const Form &rhs, int64_t rhsFactor);
  /// The region's value `form` must lie in its type for the analysis to hold.
  void requireInRange(int form, unsigned width);
  void requireAtLeastZero(int form);
  int constant(bool value);
  int conjunction(int lhs, int rhs);
  int disjunction(int lhs, int rhs);
  int literal(Form form, int depth = 0);
  std::optional<Form> withoutQuotient(const Form &form);
  int compare(mlir::Value op, bool negate);
  int boolean(mlir::Value value, bool negate);
  int buildBoolean(mlir::Value value, bool negate);
  int unknown(mlir::Value value, bool negate);
  /// Notes a value that may be sampled, or has cells, and returns it; else
  /// null.
  mlir::Value sampled(mlir::Value value);
  void findCells();
  const Cell *findCell(mlir::Value value) const;
  bool isSample(mlir::Value value) const;
  /// Notes a truth that one element tells.
  bool noteElement(mlir::Value value);
  bool isElement(mlir::Value value) const;
  void dropUnusedSamples();
  bool dependsOnKey(const Form &form) const;
  bool dependsOnRow(const Form &form) const;
  bool termDependsOn(int term, bool key) const;
  bool expressionDependsOn(int expression, bool key) const;
  void classify();
  void findBoundFacts();
  bool collectExact(int expression, int guard,
                    llvm::SmallVectorImpl<std::pair<int, int>> &bounds) const;
  std::optional<std::pair<int64_t, int64_t>> findSteps(const Form &form) const;
  bool leavesGaps(llvm::ArrayRef<std::pair<int, int>> bounds) const;
  bool findsCore(int expression) const;
  bool rises(int expression, int64_t side) const;
  /// What keys of one row an expression keeps.
  enum class RowShape { AllOrNone, Above, Below, Interval, Other };
  RowShape rowShape(int expression) const;
  bool isRowNumber(const Form &form) const;

  mlir::Region &region;
  mlir::Value rowArgument, keyArgument;
  llvm::DenseSet<mlir::Value> varying, onRow, onKey;
  llvm::SmallVector<Sample> samples;
  llvm::SmallVector<Cell> cells;
  llvm::SmallVector<Element> elements;
  /// Of each value that depends on them, the rows and the keys from multiples
  /// of which on it may change.
  llvm::DenseMap<mlir::Value, std::pair<int64_t, int64_t>> grains;
  std::vector<Form> forms;
  std::vector<Term> terms;
  std::vector<Expression> expressions;
  llvm::DenseMap<mlir::Value, int> formCache;
  llvm::DenseMap<std::pair<mlir::Value, int>, int> booleanCache;
  /// Conditions on which the reading of the region holds: form within
  /// [lower, upper].
  struct Requirement {
    int form;
    int64_t lower, upper;
  };
  std::vector<Requirement> requirements;
  int root = -1;
  Facts knownFacts;
  /// Guard (an expression that is uniform, or -1) and literal of each bound
  /// of an exact hull: the bound holds where its guard is false.
  llvm::SmallVector<std::pair<int, int>> exactBounds;
};

} // namespace attn

#endif // ATTN_ANALYSIS_MASKANALYSIS_H
