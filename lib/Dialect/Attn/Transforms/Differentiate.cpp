//===- Differentiate.cpp - Functions for training -------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a function's reduction is made of, and the functions that are made of
// it. How pairs are differentiated is DifferentiatePairs.cpp, and where
// captures are read DifferentiateCaptures.cpp.
//
//===----------------------------------------------------------------------===//

#include "GradientContext.h"
#include "TileKernel.h"
#include "attn/Analysis/Laws.h"
#include "attn/Dialect/Attn/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"

#define DEBUG_TYPE "attn-differentiate"

namespace attn {
#define GEN_PASS_DEF_ATTNDIFFERENTIATEPASS
#include "attn/Dialect/Attn/Transforms/Passes.h.inc"
} // namespace attn

using namespace mlir;
using namespace mlir::attn;

GradientContext::~GradientContext() {
  if (work)
    work.erase();
}

unsigned mlir::attn::valueNumber(GradientContext &ctx, unsigned component) {
  unsigned number = 0;
  for (unsigned i = 0; i < component; ++i)
    number += !ctx.isUnit(i);
  return number;
}

RankedTensorType mlir::attn::rowType(GradientContext &ctx) {
  auto type = cast<RankedTensorType>(ctx.op.getQueries().front().getType());
  return RankedTensorType::get(type.getShape().drop_back(), ctx.b.getF32Type());
}

//===----------------------------------------------------------------------===//
// What is there
//===----------------------------------------------------------------------===//

static LogicalResult check(GradientContext &ctx) {
  if (ctx.monoid.getKind() == MonoidKind::affine)
    return ctx.op.emitOpError(
               "expected a monoid of another kind than affine to "
               "differentiate, but got @")
           << ctx.monoid.getSymName();
  if (ctx.op.getSide() != Side::keys)
    return ctx.op.emitOpError(
        "expected a reduction over keys to differentiate, "
        "but got one over queries");
  if (ctx.op.getRowBase() || ctx.op.getKeyBase())
    return ctx.op.emitOpError("expected positions that count from 0; "
                              "attn-fold-bases writes them so");
  if (ctx.op.getRotary())
    return ctx.op.emitOpError(
        "expected no 'rotary' to differentiate; gradients "
        "go through queries and keys that are rotated "
        "before");
  ctx.rowSource = ctx.op.getQuerySource();
  ctx.keySource = ctx.op.getKeySource();
  for (const Source *source : {&ctx.rowSource, &ctx.keySource})
    if (!source->is(SourceKind::dense) && !source->is(SourceKind::varlen))
      return ctx.op.emitOpError(
                 "expected dense or packed keys to differentiate, "
                 "but got ")
             << stringifySourceKind(source->kind)
             << " ones, which are caches for inference";
  if (ctx.rowSource.kind != ctx.keySource.kind)
    return ctx.op.emitOpError(
        "expected queries and keys that are both packed, or "
        "neither");
  return ctx.isWalk() ? checkWalk(ctx) : success();
}

static LogicalResult findInputs(GradientContext &ctx) {
  auto isFloat = [](Type type) {
    Type element = getElementTypeOrSelf(type);
    return element.isF32() || element.isF16() || element.isBF16();
  };
  llvm::SmallDenseMap<Value, GradientInput> roles;
  bool isAmbiguous = false;
  auto note = [&](ValueRange operands, InputRole role) {
    for (auto [i, operand] : llvm::enumerate(operands)) {
      auto argument = dyn_cast<BlockArgument>(operand);
      if (!argument || !isFloat(argument.getType()))
        continue;
      GradientInput input{argument.getArgNumber(), unsigned(i), role};
      auto [at, isNew] = roles.try_emplace(argument, input);
      if (isNew)
        continue;
      if (role == InputRole::value && at->second.role == InputRole::value) {
        at->second.more.push_back(i);
        continue;
      }
      // What finalize reads of a parameter it captures.
      if (role == InputRole::param && at->second.role == InputRole::capture) {
        at->second.role = role;
        continue;
      }
      // A capture or a value that is passed twice is one input with two
      // gradients.
      bool isAsked = ctx.inputs.empty() ||
                     llvm::is_contained(ctx.inputs, argument.getArgNumber());
      if (isAsked && !isAmbiguous) {
        isAmbiguous = true;
        ctx.op.emitOpError(
            "expected each input that is differentiated to be one "
            "operand, but got argument ")
            << argument.getArgNumber()
            << " twice; pass it twice, and add the gradients";
      }
    }
  };
  note(ctx.op.getQueries(), InputRole::query);
  note(ctx.op.getKeys(), InputRole::key);
  note(ctx.op.getValues(), InputRole::value);
  note(ctx.op.getCaptures(), InputRole::capture);
  note(ctx.op.getParams(), InputRole::param);
  if (isAmbiguous)
    return failure();
  // What nothing depends on has no gradient.
  auto isUnused = [&](BlockArgument argument) {
    return argument.use_empty() && isFloat(argument.getType());
  };
  for (int64_t number : ctx.inputs)
    if (number < 0 || number >= ctx.func.getNumArguments() ||
        !(roles.contains(ctx.func.getArgument(number)) ||
          isUnused(ctx.func.getArgument(number))))
      return ctx.op.emitOpError("expected 'inputs' to be numbers of float "
                                "arguments that are operands, but got ")
             << number;
  for (BlockArgument argument : ctx.func.getArguments()) {
    auto found = roles.find(argument);
    if (found == roles.end() ||
        (!ctx.inputs.empty() &&
         !llvm::is_contained(ctx.inputs, argument.getArgNumber())))
      continue;
    ctx.wanted.push_back(found->second);
    if (failed(findSpread(ctx, ctx.wanted.back())))
      return failure();
    if (ctx.isPart() && ctx.wanted.back().inRows)
      return ctx.op.emitOpError(
                 "expected a finalize that reads no input that is "
                 "differentiated, of @")
             << ctx.monoid.getSymName() << ", which is "
             << stringifyMonoidKind(ctx.monoid.getKind())
             << ", but got argument " << argument.getArgNumber()
             << "; leave it out of 'inputs'";
  }
  // What no score depends on, as what only a mask reads, has no gradient.
  if (ctx.inputs.empty())
    llvm::erase_if(ctx.wanted, [](const GradientInput &input) {
      return input.role == InputRole::capture &&
             input.spread == InputSpread::whole && !input.inRows;
    });
  return success();
}

namespace {
/// How an output depends on the value components.
struct Linearity {
  enum Kind { none, zero, linear, other } kind = none;
  unsigned component = 0;

  bool operator==(const Linearity &o) const {
    return kind == o.kind && component == o.component;
  }
};
} // namespace

static Linearity classify(Value value, Region &finalize, unsigned numStats,
                          MonoidOp monoid) {
  using L = Linearity;
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    unsigned number = argument.getArgNumber();
    if (number >= numStats && number < numStats + monoid.getNumComponents() &&
        monoid.getComponent(number - numStats) == Component::value)
      return {L::linear, number - numStats};
    return {};
  }
  if (matchPattern(value, m_AnyZeroFloat()))
    return {L::zero};
  Operation *op = value.getDefiningOp();
  SmallVector<L> x;
  for (Value operand : op->getOperands())
    x.push_back(classify(operand, finalize, numStats, monoid));
  auto isFree = [](const L &l) {
    return l.kind == L::none || l.kind == L::zero;
  };
  if (llvm::all_of(x, isFree))
    return {};
  auto both = [](const L &a, const L &b) -> L {
    if (a.kind == L::zero || a == b)
      return b;
    return b.kind == L::zero ? a : L{L::other};
  };
  auto only = [](const L &l) { return l.kind == L::linear ? l : L{L::other}; };
  if (isa<arith::AddFOp, arith::SubFOp>(op))
    return only(both(x[0], x[1]));
  if (isa<arith::NegFOp, arith::ExtFOp, arith::TruncFOp>(op))
    return only(x[0]);
  if (isa<arith::MulFOp>(op))
    return isFree(x[0]) ? only(x[1]) : isFree(x[1]) ? only(x[0]) : L{L::other};
  if (isa<arith::DivFOp>(op))
    return isFree(x[1]) ? only(x[0]) : L{L::other};
  if (isa<arith::SelectOp>(op))
    return isFree(x[0]) ? only(both(x[1], x[2])) : L{L::other};
  return {L::other};
}

/// A statistic whose own derivative is asked for is a maximum of one score's:
/// then that is the derivative of one key.
static LogicalResult checkMaxima(GradientContext &ctx, unsigned result) {
  auto maximum = ctx.numStats() == 1 ? getYielded(ctx.monoid.getCombine())
                                           .front()
                                           .getDefiningOp<arith::MaximumFOp>()
                                     : arith::MaximumFOp();
  auto isArgument = [&](Value value, unsigned number) {
    return value == Value(ctx.monoid.getCombine().getArgument(number));
  };
  if (!maximum || !isArgument(maximum.getLhs(), 0) ||
      !isArgument(maximum.getRhs(), 1))
    return ctx.op.emitOpError(
               "expected one statistic that is the maximum of its "
               "parts, to differentiate result ")
           << result << ", which changes with it";
  ctx.hasMaximum = true;
  return success();
}

/// Whether `value` follows `argument` continuously: through floats alone.
static bool follows(Value value, Value argument) {
  if (value == argument)
    return true;
  Operation *op = value.getDefiningOp();
  return op && isa<FloatType>(value.getType()) && !isa<tensor::ExtractOp>(op) &&
         llvm::any_of(op->getOperands(), [&](Value operand) {
           return isa<FloatType>(operand.getType()) &&
                  follows(operand, argument);
         });
}

/// Whether the factors of weights are steps of the statistics, as 0 and 1 for a
/// maximum that has moved or not: the reference point has no derivative then.
static bool hasStepFactors(MonoidOp monoid) {
  Region &rescale = monoid.getRescale();
  return !rescale.empty() &&
         llvm::none_of(getYielded(rescale), [&](Value factor) {
           return llvm::any_of(rescale.getArguments(), [&](Value argument) {
             return follows(factor, argument);
           });
         });
}

static LogicalResult findOutputs(GradientContext &ctx) {
  if (ctx.monoid.isGeneral()) {
    ctx.outputs.resize(ctx.work.getNumResults());
    return checkGeneral(ctx);
  }
  Region &finalize = ctx.work.getFinalize();
  std::vector<bool> isInvariant(ctx.work.getNumResults(), true);
  if (ctx.numStats() && !ctx.isWalk()) {
    auto report = ::attn::checkFinalize(ctx.monoid, finalize);
    if (failed(report))
      return failure();
    isInvariant = report->gaugeInvariant;
  }
  SmallVector<bool> channels = getPerChannelOutputs(finalize, ctx.numStats(),
                                                    ctx.monoid.getComponents());
  for (auto [i, value] : llvm::enumerate(getYielded(finalize))) {
    GradientOutput output;
    output.isInvariant = isInvariant[i];
    for (unsigned k = 0; k < ctx.numComponents(); ++k)
      if (ctx.isUnit(k))
        output.readsUnits |=
            dependsOn(value, finalize.getArgument(ctx.numStats() + k));
    for (unsigned k = 0; k < ctx.numStats(); ++k)
      output.readsStats |= dependsOn(value, finalize.getArgument(k));
    if (channels[i]) {
      Linearity found = classify(value, finalize, ctx.numStats(), ctx.monoid);
      if (found.kind != Linearity::linear)
        return ctx.op.emitOpError("expected result ")
               << i
               << " to be a value component times a factor of the row, to be "
                  "differentiated";
      output.component = found.component;
      output.isComponent = isa<BlockArgument>(value);
    }
    if (!output.isInvariant && !output.readsStats && hasStepFactors(ctx.monoid))
      output.isInvariant = true;
    if (!output.isInvariant) {
      if (output.hasChannels() || output.readsUnits)
        return ctx.op.emitOpError("expected result ")
               << i
               << " not to change with the reference point of the statistics, "
                  "or to depend on these alone, to be differentiated";
      if (failed(checkMaxima(ctx, i)))
        return failure();
    }
    ctx.outputs.push_back(output);
  }
  return success();
}

/// Gives the copy that is read all its regions.
static void normalize(GradientContext &ctx) {
  ctx.b.setInsertionPointAfter(ctx.op);
  ctx.work = cast<AggregateOp>(ctx.b.clone(*ctx.op));
  ValueRange captured = ctx.work.getCaptures();
  auto open = [&](Region &region, unsigned numFloats, unsigned numPositions) {
    Block *block = ctx.b.createBlock(&region);
    for (unsigned i = 0; i < numFloats; ++i)
      block->addArgument(ctx.b.getF32Type(), ctx.loc);
    for (unsigned i = 0; i < numPositions; ++i)
      block->addArgument(ctx.b.getI32Type(), ctx.loc);
    for (Value value : captured)
      block->addArgument(value.getType(), ctx.loc);
    return block;
  };
  if (ctx.work.getScore().empty()) {
    unsigned dots = ctx.work.getQueries().size();
    Block *block = open(ctx.work.getScore(), dots, 4);
    YieldOp::create(ctx.b, ctx.loc, block->getArguments().take_front(dots));
  }
  if (ctx.work.getFinalize().empty()) {
    unsigned state = ctx.numStats() + ctx.numComponents();
    Block *block = open(ctx.work.getFinalize(), state, 3);
    SmallVector<Value> arguments(block->getArguments().take_front(state));
    // Parameters are captured for it.
    auto first = block->getNumArguments();
    for (Value param : ctx.work.getParams()) {
      ctx.work.getCapturesMutable().append(param);
      arguments.push_back(block->addArgument(param.getType(), ctx.loc));
    }
    for (Region *region : {&ctx.work.getScore(), &ctx.work.getMask(),
                           &ctx.work.getFactor(), &ctx.work.getInit()})
      if (!region->empty())
        for (Value param : ctx.work.getParams())
          region->addArgument(param.getType(), ctx.loc);
    (void)first;
    SmallVector<Value> yields =
        inlineRegion(ctx.b, ctx.monoid.getFinalize(), arguments);
    yields.truncate(ctx.work.getNumResults());
    YieldOp::create(ctx.b, ctx.loc, yields);
  }
  if (!killsByScore(ctx.work))
    return;
  moveDeadScoresToMask(ctx.work);
  // Weights known by numbers of rows are made of sums without tests.
  auto query = cast<RankedTensorType>(ctx.op.getQueries().front().getType());
  if (ctx.monoid.getKind() == MonoidKind::cocycle &&
      query.getElementTypeBitWidth() == 16)
    dropDeadTests(ctx.work);
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

/// Starts @func_suffix, with the arguments of `func` and `more`, and all that
/// comes before the reduction.
static func::FuncOp startFunction(GradientContext &ctx, StringRef suffix,
                                  ArrayRef<Type> more,
                                  ArrayRef<std::string> names) {
  SmallVector<Type> types(ctx.func.getArgumentTypes());
  llvm::append_range(types, more);
  ctx.b.setInsertionPointAfter(ctx.target ? ctx.target : ctx.func);
  auto function =
      func::FuncOp::create(ctx.b, ctx.loc, (ctx.func.getName() + suffix).str(),
                           ctx.b.getFunctionType(types, {}));
  Block *body = ctx.b.createBlock(&function.getBody());
  ctx.outer.clear();
  for (BlockArgument argument : ctx.func.getArguments())
    ctx.outer.map(Value(argument), Value(body->addArgument(argument.getType(),
                                                           argument.getLoc())));
  for (auto [type, name] : llvm::zip_equal(more, names))
    body->addArgument(type, NameLoc::get(ctx.b.getStringAttr(name)));
  ctx.b.setInsertionPointToEnd(body);
  for (Operation &other : ctx.func.front().without_terminator())
    if (&other != ctx.op.getOperation() && &other != ctx.work.getOperation())
      ctx.b.clone(other, ctx.outer);
  return function;
}

/// Sets what a function returns.
static void finish(func::FuncOp function, OpBuilder &b, ValueRange values) {
  b.setInsertionPointToEnd(&function.getBody().front());
  func::ReturnOp::create(b, function.getLoc(), values);
  function.setType(b.getFunctionType(
      function.getBody().front().getArgumentTypes(), values.getTypes()));
}

static void buildForward(GradientContext &ctx) {
  ctx.target = startFunction(ctx, "_forward", {}, {});
  SmallVector<Type> types(ctx.op.getResultTypes());
  SmallVector<unsigned> kept;
  unsigned size =
      ctx.monoid.isGeneral() ? 0 : ctx.numStats() + ctx.numComponents();
  for (unsigned i = 0; i < size; ++i)
    if (ctx.numStats() &&
        (i < ctx.numStats() || ctx.isUnit(i - ctx.numStats())))
      kept.push_back(i);
  if (!ctx.numStats())
    for (unsigned i = 0; i < size; ++i)
      if (ctx.isUnit(i) &&
          llvm::any_of(ctx.outputs, [](const GradientOutput &output) {
            return output.readsUnits;
          }))
        kept.push_back(i);
  types.append(kept.size(), rowType(ctx));
  auto mapped = [&](ValueRange values) {
    return llvm::map_to_vector(values, [&](Value v) { return ctx.outside(v); });
  };
  auto forward = AggregateOp::create(
      ctx.b, ctx.loc, types, ctx.op.getMonoidAttr(), mapped(ctx.op.getParams()),
      mapped(ctx.op.getQueries()), mapped(ctx.op.getKeys()),
      mapped(ctx.op.getValues()), mapped(ctx.work.getCaptures()),
      mapped(ctx.op.getQueryIndex()), mapped(ctx.op.getKeyIndex()), Value(),
      Value(), ctx.op.getQueryFormAttr(), ctx.op.getKeyFormAttr(),
      SideAttr::get(ctx.b.getContext(), Side::keys), ctx.op.getScheduleAttr(),
      ctx.op.getPrecisionAttr(), ctx.op.getBatchInvariantAttr(), RotaryAttr());
  // Its own regions: the mask without what scores say.
  unsigned more = ctx.work.getCaptures().size() - ctx.op.getCaptures().size();
  auto copy = [&](Region &from, Region &to) {
    if (from.empty())
      return;
    IRMapping mapping;
    from.cloneInto(&to, mapping);
    while (to.getNumArguments() - from.getNumArguments() < more)
      to.addArgument(ctx.b.getF32Type(), ctx.loc);
  };
  copy(ctx.op.getScore(), forward.getScore());
  copy(ctx.op.getMask(), forward.getMask());
  copy(ctx.op.getFactor(), forward.getFactor());
  copy(ctx.op.getInit(), forward.getInit());
  IRMapping mapping;
  ctx.work.getFinalize().cloneInto(&forward.getFinalize(), mapping);
  Operation *yield = forward.getFinalize().front().getTerminator();
  for (unsigned i : kept)
    yield->insertOperands(yield->getNumOperands(),
                          forward.getFinalize().getArgument(i));
  SmallVector<Value> values;
  auto ret = cast<func::ReturnOp>(ctx.func.front().getTerminator());
  for (Value value : ret.getOperands())
    values.push_back(
        forward.getResult(cast<OpResult>(value).getResultNumber()));
  llvm::append_range(values,
                     forward.getResults().drop_front(ctx.op.getNumResults()));
  ctx.saved.resize(ctx.numStats() + ctx.numComponents());
  for (auto [i, number] : llvm::enumerate(kept))
    ctx.saved[number] = forward.getResult(ctx.op.getNumResults() + i);
  if (ctx.hasMaximum) {
    ctx.saved.push_back(buildFirst(ctx));
    values.push_back(ctx.saved.back());
  }
  ctx.target->setAttr(getSavedBytesName(),
                      ctx.b.getI64IntegerAttr(
                          4 * int64_t(values.size() - ctx.op.getNumResults())));
  finish(ctx.target, ctx.b, values);
}

void mlir::attn::startBackward(GradientContext &ctx, StringRef suffix) {
  SmallVector<Type> types;
  SmallVector<std::string> names;
  SmallVector<Value *> places;
  auto addArgument = [&](Type type, const Twine &name, Value &place) {
    types.push_back(type);
    names.push_back(name.str());
    places.push_back(&place);
  };
  for (auto [i, value] : llvm::enumerate(ctx.saved))
    if (value)
      addArgument(rowType(ctx), "saved" + Twine(i), value);
  ctx.results.resize(ctx.outputs.size());
  ctx.cotangents.resize(ctx.outputs.size());
  for (auto [i, output] : llvm::enumerate(ctx.outputs))
    if (ctx.readsOutput(output))
      addArgument(ctx.op.getResult(i).getType(), "out" + Twine(i),
                  ctx.results[i]);
  for (auto [i, output] : llvm::enumerate(ctx.outputs))
    addArgument(ctx.op.getResult(i).getType(), "dout" + Twine(i),
                ctx.cotangents[i]);
  bool isPairs = suffix == "_pairs", isSome = isPairs || ctx.isPart();
  if (ctx.isWalk())
    addWalkArguments(ctx, suffix == "_states", addArgument);
  if (ctx.monoid.isGeneral())
    addUnfoldArguments(ctx, suffix == "_states", addArgument);
  if (isPairs) {
    Type keys = ctx.op.getKeys().front().getType();
    addArgument(blockType(ctx, cast<RankedTensorType>(keys)), "identity",
                ctx.identity);
  }
  if (isSome) {
    addArgument(ctx.b.getI32Type(), "first_key", ctx.keyBase);
    addArgument(ctx.b.getI32Type(), "num_keys", ctx.numKeys);
  }
  ctx.target = startFunction(ctx, suffix, types, names);
  unsigned first = ctx.func.getNumArguments();
  for (auto [i, place] : llvm::enumerate(places))
    *place = ctx.target.getBody().getArgument(first + i);
  if (!isSome)
    return;
  // The keys at hand are some of them.
  Value keys = ctx.outside(ctx.op.getKeys().front());
  for (auto dim :
       llvm::make_early_inc_range(ctx.target.getBody().getOps<tensor::DimOp>()))
    if (dim.getSource() == keys &&
        dim.getConstantIndex() == ctx.keySource.rowDim()) {
      OpBuilder before(dim);
      Value all = arith::IndexCastOp::create(before, ctx.loc,
                                             ctx.b.getIndexType(), ctx.numKeys);
      dim.getResult().replaceAllUsesWith(all);
      for (Operation &other : ctx.func.front().without_terminator())
        for (Value result : other.getResults())
          if (ctx.outer.lookupOrNull(result) == dim.getResult())
            ctx.outer.map(result, all);
      dim.erase();
    }
}

static LogicalResult buildBackward(GradientContext &ctx) {
  startBackward(ctx, "_backward");
  if (failed(ctx.monoid.isGeneral() ? buildUnfold(ctx) : buildRows(ctx)) ||
      failed(buildGradients(ctx, Side::keys)) ||
      failed(buildGradients(ctx, Side::queries)))
    return failure();
  SmallVector<Value> values;
  SmallVector<std::string> names;
  for (GradientInput &input : ctx.wanted)
    if (input.gradient) {
      values.push_back(input.gradient);
      names.push_back(nameOf(ctx, input));
    }
  for (GradientInput &input : ctx.wanted)
    for (auto [place, sum] :
         llvm::zip_equal(input.farPlaces, input.farGradients)) {
      values.push_back(sum);
      names.push_back(nameOf(ctx, input) + "[" + place + "]");
    }
  llvm::append_range(values, ctx.unfolded.results);
  if (!values.empty()) {
    finish(ctx.target, ctx.b, values);
    foldRowFactors(ctx);
    nameGradients(ctx, names);
    return success();
  }
  ctx.target.erase();
  ctx.target = {};
  return success();
}

/// Adds the functions behind `func`.
static LogicalResult differentiate(func::FuncOp func, AggregateOp op,
                                   MonoidOp monoid, ArrayRef<int64_t> inputs) {
  GradientContext ctx(func, op, monoid, inputs);
  if (failed(check(ctx)))
    return failure();
  normalize(ctx);
  if (failed(findInputs(ctx)) || failed(findOutputs(ctx)))
    return failure();
  for (GradientInput &input : ctx.wanted)
    findFarPlaces(ctx, input);
  buildForward(ctx);
  if ((ctx.isWalk() && failed(buildStates(ctx))) ||
      (ctx.monoid.isGeneral() && failed(buildGeneralStates(ctx))) ||
      failed(buildBackward(ctx)))
    return failure();
  if (llvm::none_of(ctx.wanted,
                    [](const GradientInput &i) { return i.isPairs(); }))
    return success();
  return areByDistance(ctx) ? buildDistances(ctx) : buildPairs(ctx);
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

/// The one reduction of a function that returns its results, or null after
/// saying why not.
static AggregateOp findReduction(func::FuncOp func) {
  AggregateOp found;
  for (Operation &other : func.front().without_terminator()) {
    if (isa<AttentionOp>(other)) {
      other.emitOpError("expected attn.aggregate to differentiate; "
                        "attn-to-aggregate makes it");
      return {};
    }
    auto aggregate = dyn_cast<AggregateOp>(other);
    bool isAttn = isa_and_nonnull<AttnDialect>(other.getDialect());
    if (isAttn && (!aggregate || found)) {
      other.emitOpError("expected one attn.aggregate in a function that is "
                        "differentiated, and no other reduction");
      return {};
    }
    if (aggregate)
      found = aggregate;
  }
  auto ret = dyn_cast<func::ReturnOp>(func.front().getTerminator());
  bool returnsAll = ret && found &&
                    ret.getNumOperands() == found.getNumResults() &&
                    llvm::equal(ret.getOperands(), found.getResults());
  if (!returnsAll) {
    func.emitOpError("expected a function that is differentiated to return the "
                     "results of its attn.aggregate, in order");
    return {};
  }
  return found;
}

namespace {
struct DifferentiatePass
    : ::attn::impl::AttnDifferentiatePassBase<DifferentiatePass> {
  using AttnDifferentiatePassBase::AttnDifferentiatePassBase;

  void runOnOperation() final {
    SmallVector<func::FuncOp> functions;
    for (auto func : getOperation().getOps<func::FuncOp>()) {
      bool hasReduction = false;
      func.walk([&](Operation *op) {
        hasReduction |= isa<AggregateOp, AttentionOp>(op);
      });
      if (func.isPublic() && !func.isExternal() && hasReduction)
        functions.push_back(func);
    }
    for (func::FuncOp func : functions) {
      AggregateOp op = findReduction(func);
      if (!op)
        return signalPassFailure();
      MonoidOp monoid = lookupMonoid(op, op.getMonoidAttr());
      if (!monoid) {
        op.emitOpError("expected '")
            << op.getMonoid()
            << "' to be an attn.monoid of this module; attn-import-prelude "
               "adds those that ship";
        return signalPassFailure();
      }
      // Gradients stand on the laws.
      if (failed(::attn::verifyLaws(monoid)) ||
          failed(differentiate(func, op, monoid, inputs)))
        return signalPassFailure();
      if (replace)
        func.erase();
    }
  }
};
} // namespace
