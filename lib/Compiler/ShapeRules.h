//===- ShapeRules.h - Which sizes of a function must agree ------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_COMPILER_SHAPERULES_H
#define ATTN_LIB_COMPILER_SHAPERULES_H

#include "DimTable.h"
#include "attn/Dialect/Attn/IR/Attn.h"
#include "attn/Dialect/Attn/IR/Scan.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace attn {

/// Reads the relations off the attention ops of one function.
class ShapeRules {
  using Side = mlir::attn::Side;

public:
  explicit ShapeRules(mlir::func::FuncOp function);

  DimTable dims;
  /// (value, dimension) pairs of lengths, of row offsets, and of row offsets of
  /// as many sequences as that dimension has.
  std::vector<std::pair<mlir::Value, std::pair<llvm::StringRef, unsigned>>>
      lengths, offsets, counted;
  /// Tables of pages, with the lengths of their sequences.
  struct Table {
    mlir::Value table;
    unsigned scope;
    mlir::Value lengths;
    llvm::StringRef moreRows = {};
  };
  std::vector<Table> tables;
  /// Where sequences start.
  std::vector<mlir::Value> starts;
  /// What is written, and what is read for it.
  std::vector<mlir::Value> written, apart;
  std::vector<unsigned> scopes;
  /// (value, dimension) pairs that regions index, and the dimension that the
  /// index ranges over; no name: an index that is clamped, or one whose range
  /// the elements of `from` say, in the way that `how` names (ArgInfo), with
  /// the rows of `appended` behind.
  struct Indexed {
    mlir::Value value;
    int64_t dim;
    llvm::StringRef name;
    unsigned scope;
    mlir::Value from = {};
    llvm::StringRef how = {};
    mlir::Value appended = {};
  };
  std::vector<Indexed> indexed;
  /// Heads of scans, and what they are the largest number of.
  struct Largest {
    llvm::StringRef name;
    std::vector<llvm::StringRef> of;
    unsigned scope;
  };
  std::vector<Largest> largest;
  /// The name of a dimension, or what it is the largest of.
  std::string nameOf(mlir::Value value, int64_t dim);

private:
  /// Where the rows of an op are. A name of a dimension that is one size for
  /// all sequences stands for itself; else there is none. Of a reduction over
  /// queries, keys have the rows, and `query` is where they are.
  struct Sources {
    mlir::attn::Source query, key;
    /// Whether positions of rows, and of what is reduced, count from elsewhere.
    bool hasRowBase = false, hasKeyBase = false;
    Side reduced = Side::keys;

    llvm::StringRef nameOf(llvm::StringRef name) const {
      bool ofReduced = name == (reduced == Side::keys ? "sk" : "sq");
      bool sized = name == "hq" || name == "hk" ||
                   (name == "b" && query.hasBatch()) ||
                   ((name == "sq" || name == "sk") &&
                    !(ofReduced ? hasKeyBase : hasRowBase) &&
                    (ofReduced ? key : query).hasBatch());
      return sized ? name : llvm::StringRef();
    }
    llvm::SmallVector<llvm::StringRef> ofRows() const {
      return dimsOf(query, reduced == Side::keys ? Side::queries : Side::keys);
    }
    llvm::SmallVector<llvm::StringRef> ofKeys() const {
      return dimsOf(key, reduced);
    }

  private:
    /// Dimensions of operands but for the channels.
    static llvm::SmallVector<llvm::StringRef>
    dimsOf(const mlir::attn::Source &source, Side side) {
      bool ofQueries = side == Side::queries;
      llvm::StringRef heads = ofQueries ? "hq" : "hk";
      switch (source.kind) {
      case mlir::attn::SourceKind::dense:
      case mlir::attn::SourceKind::ring:
        return {"b", heads, ofQueries ? "sq" : "sk"};
      case mlir::attn::SourceKind::varlen:
        return {heads, ofQueries ? "total_q" : "total_k"};
      case mlir::attn::SourceKind::paged:
        return {"pages", heads, "page"};
      }
      llvm_unreachable("unknown kind of source");
    }
  };

  /// Says how far one of the dimensions b, sq and sk reaches that is not one
  /// size for all sequences.
  void setRange(Indexed &indexed, llvm::StringRef name, const Sources &sources);

  /// Reads off a region which positions index its captures.
  void addCaptures(mlir::Region &region, mlir::ValueRange captures,
                   llvm::ArrayRef<llvm::StringRef> positions,
                   const Sources &sources, unsigned scope);

  void bindAll(mlir::Value value, llvm::ArrayRef<llvm::StringRef> names,
               unsigned scope);

  /// q, k and v; of a reduction over queries, k stands in the place of q.
  void bindOperands(mlir::ValueRange queries, mlir::ValueRange keys,
                    mlir::ValueRange values, const Sources &sources,
                    unsigned scope);

  void bindRows(mlir::ValueRange values, const Sources &sources, unsigned lead,
                unsigned scope);

  /// attn.combine and attn.finalize: states in, states or outputs out.
  void addStates(mlir::Operation *op);
  static bool isCapture(mlir::Operation *op, mlir::Value operand);

  void addAttention(mlir::attn::AttentionOp op);

  void addReduction(mlir::Operation *op,
                    mlir::attn::ReductionOpInterface reduction);

  void addAppend(mlir::attn::AppendOp op);

  void addScan(mlir::attn::ScanOp op);
  void addScanPartial(mlir::attn::ScanPartialOp op);
  void addScanCombine(mlir::attn::ScanCombineOp op);
  void addUnfold(mlir::attn::UnfoldOp op);

  /// What index operands are of, and what they may hold.
  void bindIndex(const Sources &sources, unsigned scope);

  /// `groups`: query heads are a multiple of key heads.
  unsigned nextScope(bool groups = true);
  unsigned numScopes = 0;
};

} // namespace attn

#endif // ATTN_LIB_COMPILER_SHAPERULES_H
