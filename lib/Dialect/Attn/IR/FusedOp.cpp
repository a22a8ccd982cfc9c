//===- FusedOp.cpp - attn.fused -------------------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What two reductions of the same pairs have in common, read off their regions:
// values that are computed alike, once rows and keys have changed places.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/Attn/IR/Attn.h"
#include "mlir/IR/SymbolTable.h"

using namespace mlir;
using namespace mlir::attn;

LogicalResult FusedOp::verify() {
  std::optional<ArrayRef<int64_t>> sizes = getTurnSizes();
  if (bool(sizes) != bool(getTwoKernels()))
    return emitOpError("expected turn_sizes and two_kernels together");
  if (sizes && (sizes->size() != 4 ||
                llvm::any_of(*sizes, [](int64_t size) { return size <= 0; })))
    return emitOpError("expected turn_sizes to be positive numbers of queries, "
                       "of tiles, of heads and of queries of a tile, but got ")
           << getTurnSizesAttr();
  return success();
}

namespace {
/// Compares values of a region of one aggregate with those of the same region
/// of the other.
class Comparison {
public:
  /// Pairs the arguments: `numFloats`, then b, h and two positions, which
  /// change places, then captures.
  Comparison(AggregateOp from, Region &a, AggregateOp to, Region &b,
             unsigned numFloats) {
    auto pair = [&](unsigned i, unsigned j) {
      if (i < a.getNumArguments() && j < b.getNumArguments())
        alike[a.getArgument(i)] = b.getArgument(j);
    };
    for (unsigned i = 0; i < numFloats + 2; ++i)
      pair(i, i);
    pair(numFloats + 2, numFloats + 3);
    pair(numFloats + 3, numFloats + 2);
    ValueRange captures = to.getCaptures();
    for (auto [i, capture] : llvm::enumerate(from.getCaptures())) {
      size_t j = 0;
      while (j < captures.size() && captures[j] != capture)
        ++j;
      if (j < captures.size())
        pair(numFloats + 4 + i, numFloats + 4 + j);
    }
  }

  bool operator()(Value a, Value b) {
    if (Value known = alike.lookup(a))
      return known == b;
    Operation *x = a.getDefiningOp(), *y = b.getDefiningOp();
    if (!x || !y || x->getName() != y->getName() ||
        x->getAttrDictionary() != y->getAttrDictionary() ||
        x->getNumRegions() || x->getResultTypes() != y->getResultTypes() ||
        x->getNumOperands() != y->getNumOperands() ||
        cast<OpResult>(a).getResultNumber() !=
            cast<OpResult>(b).getResultNumber())
      return false;
    for (auto [p, q] : llvm::zip(x->getOperands(), y->getOperands()))
      if (!(*this)(p, q))
        return false;
    alike[a] = b;
    return true;
  }

private:
  llvm::DenseMap<Value, Value> alike;
};
} // namespace

static ValueRange yieldedBy(Region &region) {
  return region.front().getTerminator()->getOperands();
}

/// Whether the outputs of a monoid are its components, and those its scores: of
/// values, behind which weights alone may be added up (`units`).
static bool isPlainSum(MonoidOp monoid, bool units) {
  auto passes = [](Region &region) {
    return !region.empty() &&
           llvm::equal(yieldedBy(region), region.getArguments());
  };
  return monoid && monoid.getKind() == MonoidKind::cocycle &&
         monoid.getNumStats() == 0 && passes(monoid.getLift()) &&
         passes(monoid.getFinalize()) &&
         llvm::all_of(llvm::seq(monoid.getNumComponents()), [&](unsigned i) {
           return (units && i) || monoid.getComponent(i) == Component::value;
         });
}

/// The weights of both, or nothing where they are the dots.
static SmallVector<Value> scoresOf(AggregateOp op) {
  if (op.getScore().empty())
    return {};
  return llvm::to_vector(yieldedBy(op.getScore()));
}

static std::string compareRows(AggregateOp overKeys, AggregateOp overQueries) {
  if (overKeys.getSide() != Side::keys ||
      overQueries.getSide() != Side::queries)
    return "one is not over keys and the other over queries";
  if (!llvm::equal(overKeys.getQueries(), overQueries.getKeys()) ||
      !llvm::equal(overKeys.getKeys(), overQueries.getQueries()))
    return "their dots are of other rows";
  for (AggregateOp op : {overKeys, overQueries}) {
    if (!op.getQueryIndex().empty() || !op.getKeyIndex().empty() ||
        op.getRowBase() || op.getKeyBase())
      return "rows or keys are packed, have lengths, or count from other "
             "positions than 0";
    if (!op.getInit().empty() || !op.getFactor().empty())
      return "one has a left factor, or factors of its values";
    if (op.getRotary())
      return "one turns channels before its dots";
  }
  if (!overKeys.getFinalize().empty())
    return "sums over keys are not what the one over keys yields";
  if (overKeys.getPrecision() != overQueries.getPrecision())
    return "their precisions differ";
  return "";
}

SmallVector<FusedOp::Term> FusedOp::findTerms(AggregateOp overKeys,
                                              AggregateOp overQueries,
                                              std::string &why) {
  why = compareRows(overKeys, overQueries);
  if (!why.empty())
    return {};
  if (llvm::any_of(overQueries->getOperands(), [&](Value operand) {
        return operand.getDefiningOp() == overKeys;
      })) {
    why = "the one over queries reads sums of the one over keys";
    return {};
  }
  if (!isPlainSum(lookupMonoid(overKeys, overKeys.getMonoidAttr()),
                  /*units=*/false) ||
      !isPlainSum(lookupMonoid(overQueries, overQueries.getMonoidAttr()),
                  /*units=*/true)) {
    why = "one is no plain sum of weights times values";
    return {};
  }
  unsigned dots = overKeys.getQueries().size();
  if (overKeys.getMask().empty() != overQueries.getMask().empty()) {
    why = "one has a mask that the other has not";
    return {};
  }
  if (!overKeys.getMask().empty()) {
    Comparison alike(overKeys, overKeys.getMask(), overQueries,
                     overQueries.getMask(), 0);
    if (!alike(yieldedBy(overKeys.getMask()).front(),
               yieldedBy(overQueries.getMask()).front())) {
      why = "their masks are not written alike";
      return {};
    }
  }
  SmallVector<Value> ours = scoresOf(overKeys), theirs = scoresOf(overQueries);
  if (ours.empty() != theirs.empty()) {
    why = "one has a score that the other has not";
    return {};
  }
  SmallVector<Term> terms;
  for (auto [i, value] : llvm::enumerate(overKeys.getValues())) {
    Term term = {0, 0};
    if (ours.empty()) {
      term.weight = i;
    } else {
      Comparison alike(overKeys, overKeys.getScore(), overQueries,
                       overQueries.getScore(), dots);
      while (term.weight < theirs.size() &&
             !alike(ours[i], theirs[term.weight]))
        ++term.weight;
    }
    if (term.weight >= overQueries.getValues().size()) {
      why = "a weight over keys is none over queries";
      return {};
    }
    ValueRange rows = overQueries.getQueries();
    while (term.operand < rows.size() && rows[term.operand] != value)
      ++term.operand;
    if (term.operand == rows.size()) {
      why = "a value over keys is no row of the dots";
      return {};
    }
    terms.push_back(term);
  }
  return terms;
}

AggregateOp FusedOp::getOverKeys() {
  return cast<AggregateOp>(getBody().front().front());
}

AggregateOp FusedOp::getOverQueries() {
  return cast<AggregateOp>(getOverKeys()->getNextNode());
}

LogicalResult FusedOp::verifyRegions() {
  Block &body = getBody().front();
  auto yield = dyn_cast<YieldOp>(body.getTerminator());
  bool hasBoth = llvm::hasNItems(body.without_terminator(), 2) &&
                 llvm::all_of(body.without_terminator(), [](Operation &op) {
                   return isa<AggregateOp>(op);
                 });
  if (!yield || !hasBoth)
    return emitOpError("expected a body of two attn.aggregate, over keys and "
                       "over queries, and attn.yield");
  SmallVector<Value> results(getOverKeys().getResults());
  llvm::append_range(results, getOverQueries().getResults());
  if (!llvm::equal(yield.getValues(), results))
    return emitOpError("expected attn.yield to have the results of both "
                       "aggregates, in order");
  if (yield.getValues().getTypes() != getResultTypes())
    return emitOpError("expected results of types ")
           << yield.getValues().getTypes() << ", but got " << getResultTypes();
  return success();
}

LogicalResult FusedOp::verifySymbolUses(SymbolTableCollection &) {
  std::string why;
  (void)findTerms(getOverKeys(), getOverQueries(), why);
  if (!why.empty())
    return emitOpError("expected reductions of the same pairs, but ") << why;
  return success();
}
