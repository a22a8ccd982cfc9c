//===- GradientContext.h - Gradients of an aggregate ------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Private to attn-differentiate. With c the statistics of a row, W_k the weight
// of a pair in component k, relative to c, and A_k the cotangent of a
// component,
//
//   ds = sum_k dW_k/ds (A_k . x_k),    dx_k = sum_i W_k A_k
//
// where x_k is the value of the key, or 1 for a unit. A_k is what `finalize`
// gives, once for each row. c itself is a constant: what does not depend on the
// reference point has no derivative there.
//
//   rows       A_k of units, and the factors that make A_k of the cotangents of
//              the outputs: a reduction of the diagonal alone
//   pairs      the score and mask regions of reductions over keys and over
//              queries: W and ds (DifferentiatePairs.cpp)
//   walk       of kinds suffix and prefix: what gates make of a pair's weight,
//              and of its statistic's derivative (DifferentiateWalk.cpp)
//   general    of that kind: back through combine, key by key
//              (DifferentiateGeneral.cpp)
//   captures   where each is read, and the elements of pairs
//              (DifferentiateCaptures.cpp)
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_ATTN_TRANSFORMS_GRADIENTCONTEXT_H
#define ATTN_LIB_DIALECT_ATTN_TRANSFORMS_GRADIENTCONTEXT_H

#include "attn/Dialect/Attn/IR/Attn.h"
#include "attn/Dialect/Attn/Transforms/RegionUtils.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::attn {

class Adjoints;

/// A private monoid that sums up each score as it is, named `base` or after it.
MonoidOp createPlainSum(OpBuilder &b, Location loc, ModuleOp module,
                        StringRef base, ArrayRef<Component> components,
                        ArrayRef<StringRef> outputs);

/// What an input is to the reduction.
enum class InputRole { query, key, value, capture, param };
/// Which positions the gradient that scores give a capture depends on; whole:
/// scores do not read it. Of a table elements are read at computed indices,
/// or at several.
enum class InputSpread { whole, rows, keys, pairs, table };
struct GradientInput {
  unsigned argument, number;
  InputRole role;
  InputSpread spread = InputSpread::whole;
  /// Rows have a part of the gradient: init or finalize reads it.
  bool inRows = false;
  Value gradient = {}, rowPart = {};
  /// Of a value: other value operands that are the same argument.
  SmallVector<unsigned, 1> more = {};
  /// Of a tensor: where scores read an element, "h,i" for [h, i]; "*" is a
  /// computed index.
  SmallVector<std::string, 1> places = {};
  /// What indices are computed of is the distance of row and key.
  bool isByDistance = true;
  /// Then: the elements that all pairs read which are far enough apart,
  /// "h,255". Rows have what these are given.
  SmallVector<std::string, 2> farPlaces = {};
  SmallVector<Value, 2> farGradients = {};

  /// Scores, or what a monoid makes of them, read it.
  bool isOfPairs() const {
    return (role == InputRole::capture || role == InputRole::param) &&
           spread != InputSpread::whole;
  }
  /// @f_pairs is about it.
  bool isPairs() const {
    return spread == InputSpread::pairs || spread == InputSpread::table;
  }
};

/// Keys of a block, which one run of @f_pairs is about: the channels of what
/// it returns.
constexpr int64_t pairKeys = 128;

/// A result, which is `factor` times component `component` where it has
/// channels.
struct GradientOutput {
  int component = -1;
  bool isComponent = false; ///< The factor is 1.
  bool readsUnits = false, readsStats = false;
  bool isInvariant = true;
  bool hasChannels() const { return component >= 0; }
};
/// What a row has in memory for its pairs; null for none (a factor: 1).
struct RowValues {
  SmallVector<Value> stats;   ///< For each statistic.
  SmallVector<Value> units;   ///< For each component; of values null.
  SmallVector<Value> factors; ///< For each output.
  /// Where a result changes with the statistic, a maximum: its cotangent, and
  /// the first key that has it, from 0; -1 for the initial state.
  Value maximum, first;
  /// Where weights are known by one or two numbers of the row: the weight of
  /// a pair is 2^(score + exponent), in units of log 2, or
  /// 2^(score - second + first).
  SmallVector<Value> exponents;
  /// Of a walk, for each statistic: the cotangent of the row's own.
  SmallVector<Value> ends;
};
/// What a walk over blocks of keys brings to one of them. Keys beyond j are
/// those whose gates scale its weight: later ones of a suffix, earlier ones
/// of a prefix.
struct WalkValues {
  /// For each statistic: the sum over the keys beyond the block, for rows,
  /// and over those of the block that are beyond j, for pairs.
  SmallVector<Value> stats, beyond;
  /// What weights times their cotangents add up to, over the keys on the
  /// other side of the block, and of j in the block.
  Value rest, opposite;
  /// Whose columns j are 1 at the keys beyond j, and on the other side of it.
  Value isBeyond, isOpposite;
};
/// What a block of keys of a general monoid takes and gives.
struct UnfoldedBlock {
  /// The state ahead of the block, and the cotangents of that behind it.
  SmallVector<Value> ahead, behind;
  /// The state behind it, or the cotangents of that ahead of it.
  SmallVector<Value> results;
  /// For each score the cotangents of the block's pairs.
  SmallVector<Value> scores;
  SmallVector<Value> values, params; ///< What attn.unfold takes.
  SmallVector<bool> hasChannels;     ///< For each output.
};
/// What the regions of a pair have computed.
struct PairValues {
  SmallVector<Value> weights;  ///< For each output with channels, W times f.
  SmallVector<Value> dots;     ///< For each dot, its cotangent.
  SmallVector<Value> captures; ///< For each of `wanted`.
  /// For each of `wanted` that is a table: of each read what the element has,
  /// and the computed indices; and "*,h" for where it is.
  SmallVector<SmallVector<Value>> reads;
  SmallVector<SmallVector<std::string>> places;
  /// And the reads themselves.
  SmallVector<SmallVector<Value>> elements;
  Value isLive;
  /// The weight that the cotangents of dots are made of, 0 where the pair is
  /// not live; or null.
  Value factor;
  /// It is 0 where the score is -inf, without being told so.
  bool isDeadZero = false;
  /// What the dot has is a constant times what elements have that keys are
  /// given gradients of; or nothing.
  std::optional<float> dotScale;
  /// Wanted in the place of cotangents: the sum of weights times theirs.
  bool wantsTotal = false;
  Value total;
};

using AddArgument = llvm::function_ref<void(Type, const Twine &, Value &)>;
/// Elements of tensors that a region reads, by tensor.
using ElementReads = llvm::SmallDenseMap<Value, SmallVector<Value>>;

/// One reduction that is differentiated, and the function that is being built.
struct GradientContext {
  /// Of `op`, the one reduction of `func`; `inputs` are numbers of arguments,
  /// or empty for all floats.
  GradientContext(func::FuncOp func, AggregateOp op, MonoidOp monoid,
                  ArrayRef<int64_t> inputs)
      : func(func), op(op), monoid(monoid),
        inputs(inputs.begin(), inputs.end()), b(func.getContext()),
        loc(op.getLoc()) {}
  ~GradientContext();

  bool isPacked() { return rowSource.is(SourceKind::varlen); }
  unsigned numStats() { return monoid.getNumStats(); }
  unsigned numComponents() { return monoid.getNumComponents(); }
  bool isUnit(unsigned component) {
    return monoid.getComponent(component) == Component::unit;
  }
  /// Whether a result's value is read to find the cotangents of units.
  bool readsOutput(const GradientOutput &output) {
    return output.hasChannels() &&
           (output.readsUnits || (isWalk() && output.readsStats));
  }
  /// Whether gates of other keys scale a weight.
  bool isWalk() {
    return monoid.getKind() == MonoidKind::suffix ||
           monoid.getKind() == MonoidKind::prefix;
  }
  /// Whether the functions are about some of the keys.
  bool isPart() { return isWalk() || monoid.isGeneral(); }
  /// The argument of the open region for a captured value.
  Value in(Value outer) { return captured.lookup(outer); }
  void capture(Value value) {
    if (value)
      captures.insert(value);
  }
  Value outside(Value value) { return outer.lookup(value); }
  /// The argument of the open region for a capture or a parameter.
  Value inInput(const GradientInput &input) {
    return in(outside(func.getArgument(input.argument)));
  }

  func::FuncOp func;
  AggregateOp op;
  MonoidOp monoid;
  SmallVector<int64_t> inputs;
  OpBuilder b;
  Location loc;
  /// `op` with all regions, and with what scores kill in its mask.
  AggregateOp work;
  Source rowSource, keySource;
  SmallVector<GradientInput> wanted;
  SmallVector<GradientOutput> outputs;
  bool hasMaximum = false;

  // Of the function that is being built.
  func::FuncOp target;
  IRMapping outer;
  RowValues rows;
  WalkValues walk;
  UnfoldedBlock unfolded;
  SmallVector<Value> saved, results, cotangents;
  /// Of a block of keys: which is the first, and how many there are in all.
  Value keyBase, numKeys, identity;
  llvm::SmallSetVector<Value, 16> captures;
  llvm::SmallDenseMap<Value, Value> captured;
};

//===--- Functions and their arguments (Differentiate.cpp) ---===//
/// The number of a `value` component among them.
unsigned valueNumber(GradientContext &ctx, unsigned component);
/// f32, with a number for each row.
RankedTensorType rowType(GradientContext &ctx);
/// Starts a function that takes what a backward pass reads.
void startBackward(GradientContext &ctx, StringRef suffix);

//===--- Rows (DifferentiateRows.cpp) ---===//
LogicalResult buildRows(GradientContext &ctx);
Value buildFirst(GradientContext &ctx);

//===--- Pairs and their regions (DifferentiatePairs.cpp) ---===//
/// A plain sum of `components`, each with a score for its weight.
FlatSymbolRefAttr makeSum(GradientContext &ctx, StringRef suffix,
                          ArrayRef<Component> components,
                          ArrayRef<std::string> outputs);
AggregateOp makeReduction(GradientContext &ctx, FlatSymbolRefAttr sum,
                          Side reduced, TypeRange results, ValueRange left,
                          ValueRange right, ValueRange values);
/// Opens a region with `types`, then what is captured; the builder is in it.
Block *openRegion(GradientContext &ctx, Region &region, TypeRange types);
void captureRegions(GradientContext &ctx);
/// Arguments of a region of `op` for its captures.
SmallVector<Value> inCaptures(GradientContext &ctx);
SmallVector<Value> paramsOf(GradientContext &ctx);
SmallVector<Value> copyRegion(GradientContext &ctx, Region &region,
                              ValueRange arguments, ElementReads &elements);
/// Adds up what has been added to a captured scalar, or to the elements of a
/// tensor; null for nothing.
Value sumOf(GradientContext &ctx, Adjoints &adjoints, Value argument,
            const ElementReads &elements);
/// The element of a tensor of rows, in the open region.
Value ofRow(GradientContext &ctx, Value tensor, ValueRange position);
/// b, h, i, j of a pair, of the arguments of an open region.
SmallVector<Value> positionsOf(GradientContext &ctx, Side reduced,
                               ValueRange given);
Value isLive(GradientContext &ctx, ValueRange scores);
LogicalResult buildPair(GradientContext &ctx, Side reduced, Block *block,
                        bool wantsScores, PairValues &pairs);
/// Whether mask and length let a pair live, or null for all.
Value isLiveByMask(GradientContext &ctx, Side reduced,
                   ArrayRef<Value> position);
void buildMask(GradientContext &ctx, Side reduced, Region &region);
/// Captures what the regions of pairs read, and finds their dots.
void capturePairs(GradientContext &ctx, Side reduced, bool wantsScores,
                  SmallVectorImpl<Value> &left, SmallVectorImpl<Value> &right);
LogicalResult buildGradients(GradientContext &ctx, Side reduced);

//===--- Weights (DifferentiateWeights.cpp) ---===//
/// The one output whose channels are divided by what its weights add up to,
/// or null: then W f, and not W, is what pairs compute with.
const GradientOutput *dividedOutput(GradientContext &ctx);
/// Whether a unit component has the weights of that output's values.
bool hasItsWeights(GradientContext &ctx, unsigned component);
/// Of (x f) W makes x (W f), where W f is there already.
void reuseWeight(GradientContext &ctx, Block *block, Value weight, Value factor,
                 PairValues &pairs);
/// By how many numbers of a row weights are known, or 0: those of that output
/// are e^(score - log(sum of the row)), and scores are made of dots, or of
/// these and of elements that are added.
unsigned numExponents(GradientContext &ctx);
/// Then: these numbers of a row with the statistic and the factor.
SmallVector<Value> exponentsOf(GradientContext &ctx, Value stat, Value factor);
/// And the weight of a pair, in place of W f.
void useExponent(GradientContext &ctx, Value score, ArrayRef<Value> position,
                 PairValues &pairs);
/// Then: P (x - d) k as P (x k - d k), of which the row has d k.
Value withScale(GradientContext &ctx, Value cotangent, const PairValues &pairs);
/// The k of P (x - d) k, if it is a constant that a sum may be divided by.
std::optional<float> constantScale(Value cotangent, const PairValues &pairs);
/// Where k is a constant, and sums have no order, the row keeps d k.
void foldRowFactors(GradientContext &ctx);

//===--- Inputs (DifferentiateCaptures.cpp) ---===//
LogicalResult findSpread(GradientContext &ctx, GradientInput &input);
std::string nameOf(GradientContext &ctx, const GradientInput &input);
/// Notes on `target` what its results are the gradients of.
void nameGradients(GradientContext &ctx, ArrayRef<std::string> names);
void addRoots(GradientContext &ctx, Adjoints &adjoints,
              const GradientInput &input, const ElementReads &elements);
/// Whether the row's statistics are the identity, or null without any.
Value isIdentity(GradientContext &ctx, ValueRange stats);
/// What each input has of a pair, and of a table what each read has, and where
/// it is.
void addCaptures(GradientContext &ctx, Adjoints &adjoints,
                 const ElementReads &elements, ValueRange position,
                 PairValues &pairs);
/// Finds the elements of a table that all pairs read which are far enough
/// apart: what these are given is a sum of each row, and @f_distances leaves
/// them out.
void findFarPlaces(GradientContext &ctx, GradientInput &input);
/// What the element at `place` is given by a pair, if it is far apart, of the
/// reads of a table in the open region and their cotangents.
Value farPart(GradientContext &ctx, ArrayRef<Value> elements,
              ArrayRef<Value> reads, ValueRange position, StringRef place);
LogicalResult buildPairs(GradientContext &ctx);
/// Whether @f_distances can take the place of @f_pairs.
bool areByDistance(GradientContext &ctx);
LogicalResult buildDistances(GradientContext &ctx);

//===--- Walks (DifferentiateWalk.cpp) ---===//
LogicalResult checkWalk(GradientContext &ctx);
/// The type of `type`'s rows with a number for each key of a block.
RankedTensorType blockType(GradientContext &ctx, RankedTensorType type);
void addWalkArguments(GradientContext &ctx, bool isStates,
                      AddArgument addArgument);
void captureWalk(GradientContext &ctx, bool wantsScores);
Value ofPair(GradientContext &ctx, Value tensor, ValueRange position,
             Value key);
/// Scales the weights of a pair, whose key is `key` in the block.
void scaleByGates(GradientContext &ctx, Adjoints &adjoints, ValueRange position,
                  Value key, MutableArrayRef<Value> weights);
LogicalResult addStatCotangents(GradientContext &ctx, Adjoints &adjoints,
                                ValueRange position, Value key,
                                ValueRange stats);
LogicalResult buildStates(GradientContext &ctx);

//===--- General monoids (DifferentiateGeneral.cpp) ---===//
LogicalResult checkGeneral(GradientContext &ctx);
void addUnfoldArguments(GradientContext &ctx, bool isStates,
                        AddArgument addArgument);
/// What the cotangents of scores give a pair.
LogicalResult buildPairOfScores(GradientContext &ctx, Side reduced,
                                Block *block, PairValues &pairs);
/// The states of the block, and with cotangents behind it the way back.
LogicalResult buildUnfold(GradientContext &ctx);
LogicalResult buildGeneralStates(GradientContext &ctx);

} // namespace mlir::attn

#endif // ATTN_LIB_DIALECT_ATTN_TRANSFORMS_GRADIENTCONTEXT_H
