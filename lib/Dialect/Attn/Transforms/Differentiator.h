//===- Differentiator.h - Gradients of an aggregate -------------*- C++ -*-===//
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

#ifndef ATTN_LIB_DIALECT_ATTN_TRANSFORMS_DIFFERENTIATOR_H
#define ATTN_LIB_DIALECT_ATTN_TRANSFORMS_DIFFERENTIATOR_H

#include "attn/Dialect/Attn/IR/Attn.h"
#include "attn/Dialect/Attn/IR/AttributeNames.h"
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

class Differentiator {
public:
  /// Of `op`, the one reduction of `func`; `inputs` are numbers of arguments,
  /// or empty for all floats.
  Differentiator(func::FuncOp func, AggregateOp op, MonoidOp monoid,
                 ArrayRef<int64_t> inputs)
      : func(func), op(op), monoid(monoid),
        inputs(inputs.begin(), inputs.end()), b(func.getContext()),
        loc(op.getLoc()) {}
  ~Differentiator();

  /// Adds the functions behind `func`.
  LogicalResult run();

private:
  /// What an input is to the reduction.
  enum class Role { query, key, value, capture, param };
  /// Which positions the gradient that scores give a capture depends on; whole:
  /// scores do not read it. Of a table elements are read at computed indices,
  /// or at several.
  enum class Spread { whole, rows, keys, pairs, table };
  struct Input {
    unsigned argument, number;
    Role role;
    Spread spread = Spread::whole;
    /// Rows have a part of the gradient: init or finalize reads it.
    bool inRows = false;
    Value gradient = {}, rowPart = {};
    /// Of a value: other value operands that are the same argument.
    SmallVector<unsigned, 1> more = {};
    /// Of a tensor: where scores read an element, "h,i" for [h, i]; "*" is a
    /// computed index.
    SmallVector<std::string, 1> places = {};

    /// Scores, or what a monoid makes of them, read it.
    bool isOfPairs() const {
      return (role == Role::capture || role == Role::param) &&
             spread != Spread::whole;
    }
    /// @f_pairs is about it.
    bool isPairs() const {
      return spread == Spread::pairs || spread == Spread::table;
    }
  };
  /// Keys of a block, which one run of @f_pairs is about: the channels of what
  /// it returns.
  static constexpr int64_t pairKeys = 128;
  /// A result, which is `factor` times component `component` where it has
  /// channels.
  struct Output {
    int component = -1;
    bool isComponent = false; ///< The factor is 1.
    bool readsUnits = false, readsStats = false;
    bool isInvariant = true;
    bool hasChannels() const { return component >= 0; }
  };
  /// What a row has in memory for its pairs; null for none (a factor: 1).
  struct Rows {
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
  struct Walk {
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
  struct Unfolded {
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
  struct Pairs {
    SmallVector<Value> weights;  ///< For each output with channels, W times f.
    SmallVector<Value> dots;     ///< For each dot, its cotangent.
    SmallVector<Value> captures; ///< For each of `wanted`.
    /// For each of `wanted` that is a table: of each read what the element has,
    /// and the computed indices; and "*,h" for where it is.
    SmallVector<SmallVector<Value>> reads;
    SmallVector<SmallVector<std::string>> places;
    Value isLive;
    /// The weight that the cotangents of dots are made of, 0 where the pair is
    /// not live; or null.
    Value factor;
    /// It is 0 where the score is -inf, without being told so.
    bool isDeadZero = false;
    /// Wanted in the place of cotangents: the sum of weights times theirs.
    bool wantsTotal = false;
    Value total;
  };

  //===--- Weights (DifferentiateWeights.cpp)
  //------------------------------===//
  /// The one output whose channels are divided by what its weights add up to,
  /// or null: then W f, and not W, is what pairs compute with.
  const Output *dividedOutput();
  /// Whether a unit component has the weights of that output's values.
  bool hasItsWeights(unsigned component);
  /// By how many numbers of a row weights are known, or 0: those of that output
  /// are e^(score - log(sum of the row)), and scores are made of dots, or of
  /// these and of elements that are added.
  unsigned numExponents();
  /// Then: these numbers of a row with the statistic and the factor.
  SmallVector<Value> exponentsOf(Value stat, Value factor);
  /// And the weight of a pair, in place of W f.
  void useExponent(Value score, ArrayRef<Value> position, Pairs &pairs);
  /// Then: P (x - d) k as P (x k - d k), of which the row has d k.
  Value withScale(Value cotangent, const Pairs &pairs);
  /// Of (x f) W makes x (W f), where W f is there already.
  void reuseWeight(Block *block, Value weight, Value factor, Pairs &pairs);

  //===--- What is there (Differentiate.cpp)
  //--------------------------------===//
  LogicalResult check();
  LogicalResult findInputs();
  LogicalResult findSpread(Input &input);
  LogicalResult findOutputs();
  LogicalResult checkMaxima(unsigned result);
  void normalize();
  bool isPacked() { return rowSource.is(SourceKind::varlen); }
  RankedTensorType rowType();
  unsigned numStats() { return monoid.getNumStats(); }
  unsigned numComponents() { return monoid.getNumComponents(); }
  bool isUnit(unsigned component) {
    return monoid.getComponent(component) == Component::unit;
  }
  /// The number of a `value` component among them.
  unsigned valueNumber(unsigned component);
  /// Whether a result's value is read to find the cotangents of units.
  bool readsOutput(const Output &output) {
    return output.hasChannels() &&
           (output.readsUnits || (isWalk() && output.readsStats));
  }

  //===--- Walks (DifferentiateWalk.cpp)
  //------------------------------------===//
  /// Whether gates of other keys scale a weight.
  bool isWalk() {
    return monoid.getKind() == MonoidKind::suffix ||
           monoid.getKind() == MonoidKind::prefix;
  }
  /// Whether the functions are about some of the keys.
  bool isPart() { return isWalk() || monoid.isGeneral(); }
  LogicalResult checkWalk();
  using AddArgument = llvm::function_ref<void(Type, const Twine &, Value &)>;
  void addWalkArguments(bool isStates, AddArgument addArgument);
  void captureWalk(bool wantsScores);
  /// Scales the weights of a pair, whose key is `key` in the block.
  void scaleByGates(Adjoints &adjoints, ValueRange position, Value key,
                    MutableArrayRef<Value> weights);
  LogicalResult addStatCotangents(Adjoints &adjoints, ValueRange position,
                                  Value key, ValueRange stats);
  LogicalResult buildStates();
  void sumStats();
  LogicalResult sumRests();
  Value ofPair(Value tensor, ValueRange position, Value key);
  /// The type of `type`'s rows with a number for each key of a block.
  RankedTensorType blockType(RankedTensorType type);

  //===--- General monoids (DifferentiateGeneral.cpp)
  //----------------------------------===//
  LogicalResult checkGeneral();
  SmallVector<unsigned> stateOrder(bool ofRows, bool ofChannels);
  SmallVector<Type> stateTypes();
  RankedTensorType channelType();
  void addUnfoldArguments(bool isStates, AddArgument addArgument);
  SmallVector<Value> writeScores();
  LogicalResult buildPairOfScores(Side reduced, Block *block, Pairs &pairs);
  SmallVector<Value> stepOf(ValueRange scores, ValueRange values, Value key,
                            ValueRange state, ValueRange params);
  LogicalResult buildBack(Region &region, bool ofChannels);
  LogicalResult buildFinish(Region &region, bool ofChannels);
  /// The number of a value operand among those of attn.unfold.
  unsigned numberOf(Value value);
  LogicalResult buildUnfold();
  LogicalResult buildGeneralStates();

  //===--- Functions
  //--------------------------------------------------------===//
  func::FuncOp startFunction(StringRef suffix, ArrayRef<Type> more,
                             ArrayRef<std::string> names);
  void buildForward();
  /// Starts a function that takes what a backward pass reads.
  void startBackward(StringRef suffix);
  LogicalResult buildBackward();
  LogicalResult buildPairs();
  LogicalResult buildRows();
  Value buildFirst();
  LogicalResult buildFinalize(Block *block, ValueRange dots,
                              SmallVectorImpl<Value> &results);
  LogicalResult addInitGradients(Block *block, ValueRange units, Value maximum,
                                 MutableArrayRef<Value> parts);
  /// Whether the row's statistics are the identity, or null without any.
  Value isIdentity(ValueRange stats);
  /// Notes on `target` what its results are the gradients of.
  void nameGradients(ArrayRef<std::string> names);
  std::string nameOf(const Input &input);
  LogicalResult buildGradients(Side reduced);

  //===--- Regions
  //----------------------------------------------------------===//
  /// A plain sum of `components`, each with a score for its weight.
  FlatSymbolRefAttr makeSum(StringRef suffix, ArrayRef<Component> components,
                            ArrayRef<std::string> outputs);
  AggregateOp makeReduction(FlatSymbolRefAttr sum, Side reduced,
                            TypeRange results, ValueRange left,
                            ValueRange right, ValueRange values);
  /// Opens a region with `types`, then what is captured; the builder is in it.
  Block *openRegion(Region &region, TypeRange types);
  /// The argument of the open region for a captured value.
  Value in(Value outer) { return captured.lookup(outer); }
  void capture(Value value) {
    if (value)
      captures.insert(value);
  }
  void captureRegions();
  Value outside(Value value) { return outer.lookup(value); }
  /// The element of a tensor of rows, in the open region.
  Value ofRow(Value tensor, ValueRange position);
  /// Arguments of a region of `op` for its captures.
  SmallVector<Value> inCaptures();

  Value isLive(ValueRange scores);
  LogicalResult buildPair(Side reduced, Block *block, bool wantsScores,
                          Pairs &pairs);
  void buildMask(Side reduced, Region &region);
  /// Whether mask and length let a pair live, or null for all.
  Value isLiveByMask(Side reduced, ArrayRef<Value> position);
  /// b, h, i, j of a pair, of the arguments of an open region.
  SmallVector<Value> positionsOf(Side reduced, ValueRange given);
  /// Copies a region to here, and notes the elements of tensors that it reads.
  using Elements = llvm::SmallDenseMap<Value, SmallVector<Value>>;
  SmallVector<Value> copyRegion(Region &region, ValueRange arguments,
                                Elements &elements);
  SmallVector<Value> paramsOf();
  /// The argument of the open region for a capture or a parameter.
  Value inInput(const Input &input) {
    return in(outside(func.getArgument(input.argument)));
  }
  void addRoots(Adjoints &adjoints, const Input &input,
                const Elements &elements);
  /// Of a table: what each read has, and where it is.
  void addReads(Adjoints &adjoints, const Input &input,
                const Elements &elements, ValueRange position, Pairs &pairs);
  /// Adds up what has been added to a captured scalar, or to the elements of a
  /// tensor; null for nothing.
  Value sumOf(Adjoints &adjoints, Value argument, const Elements &elements);
  /// Captures what the regions of pairs read, and finds their dots.
  void capturePairs(Side reduced, bool wantsScores,
                    SmallVectorImpl<Value> &left,
                    SmallVectorImpl<Value> &right);

  func::FuncOp func;
  AggregateOp op;
  MonoidOp monoid;
  SmallVector<int64_t> inputs;
  OpBuilder b;
  Location loc;
  /// `op` with all regions, and with what scores kill in its mask.
  AggregateOp work;
  Source rowSource, keySource;
  SmallVector<Input> wanted;
  SmallVector<Output> outputs;
  bool hasMaximum = false;

  // Of the function that is being built.
  func::FuncOp target;
  IRMapping outer;
  Rows rows;
  Walk walk;
  Unfolded unfolded;
  SmallVector<Value> saved, results, cotangents;
  /// Of a block of keys: which is the first, and how many there are in all.
  Value keyBase, numKeys, identity;
  llvm::SmallSetVector<Value, 16> captures;
  llvm::SmallDenseMap<Value, Value> captured;
};

} // namespace mlir::attn

#endif // ATTN_LIB_DIALECT_ATTN_TRANSFORMS_DIFFERENTIATOR_H
