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

#include "Differentiator.h"
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

Differentiator::~Differentiator() {
  if (work)
    work.erase();
}

unsigned Differentiator::valueNumber(unsigned component) {
  unsigned number = 0;
  for (unsigned i = 0; i < component; ++i)
    number += !isUnit(i);
  return number;
}

RankedTensorType Differentiator::rowType() {
  auto type = cast<RankedTensorType>(op.getQueries().front().getType());
  return RankedTensorType::get(type.getShape().drop_back(), b.getF32Type());
}

//===----------------------------------------------------------------------===//
// What is there
//===----------------------------------------------------------------------===//

LogicalResult Differentiator::check() {
  if (monoid.getKind() == MonoidKind::affine)
    return op.emitOpError("expected a monoid of another kind than affine to "
                          "differentiate, but got @")
           << monoid.getSymName();
  if (op.getSide() != Side::keys)
    return op.emitOpError("expected a reduction over keys to differentiate, "
                          "but got one over queries");
  if (op.getRowBase() || op.getKeyBase())
    return op.emitOpError("expected positions that count from 0; "
                          "attn-fold-bases writes them so");
  if (op.getRotary())
    return op.emitOpError("expected no 'rotary' to differentiate; gradients "
                          "go through queries and keys that are rotated "
                          "before");
  rowSource = op.getQuerySource();
  keySource = op.getKeySource();
  for (const Source *source : {&rowSource, &keySource})
    if (!source->is(SourceKind::dense) && !source->is(SourceKind::varlen))
      return op.emitOpError("expected dense or packed keys to differentiate, "
                            "but got ")
             << stringifySourceKind(source->kind)
             << " ones, which are caches for inference";
  if (rowSource.kind != keySource.kind)
    return op.emitOpError("expected queries and keys that are both packed, or "
                          "neither");
  return isWalk() ? checkWalk() : success();
}

LogicalResult Differentiator::findInputs() {
  auto isFloat = [](Type type) {
    Type element = getElementTypeOrSelf(type);
    return element.isF32() || element.isF16() || element.isBF16();
  };
  llvm::SmallDenseMap<Value, Input> roles;
  bool isAmbiguous = false;
  auto note = [&](ValueRange operands, Role role) {
    for (auto [i, operand] : llvm::enumerate(operands)) {
      auto argument = dyn_cast<BlockArgument>(operand);
      if (!argument || !isFloat(argument.getType()))
        continue;
      Input input{argument.getArgNumber(), unsigned(i), role};
      auto [at, isNew] = roles.try_emplace(argument, input);
      if (isNew)
        continue;
      if (role == Role::value && at->second.role == Role::value) {
        at->second.more.push_back(i);
        continue;
      }
      // What finalize reads of a parameter it captures.
      if (role == Role::param && at->second.role == Role::capture) {
        at->second.role = role;
        continue;
      }
      // A capture or a value that is passed twice is one input with two
      // gradients.
      bool isAsked =
          inputs.empty() || llvm::is_contained(inputs, argument.getArgNumber());
      if (isAsked && !isAmbiguous) {
        isAmbiguous = true;
        op.emitOpError("expected each input that is differentiated to be one "
                       "operand, but got argument ")
            << argument.getArgNumber()
            << " twice; pass it twice, and add the gradients";
      }
    }
  };
  note(op.getQueries(), Role::query);
  note(op.getKeys(), Role::key);
  note(op.getValues(), Role::value);
  note(op.getCaptures(), Role::capture);
  note(op.getParams(), Role::param);
  if (isAmbiguous)
    return failure();
  // What nothing depends on has no gradient.
  auto isUnused = [&](BlockArgument argument) {
    return argument.use_empty() && isFloat(argument.getType());
  };
  for (int64_t number : inputs)
    if (number < 0 || number >= func.getNumArguments() ||
        !(roles.contains(func.getArgument(number)) ||
          isUnused(func.getArgument(number))))
      return op.emitOpError("expected 'inputs' to be numbers of float "
                            "arguments that are operands, but got ")
             << number;
  for (BlockArgument argument : func.getArguments()) {
    auto found = roles.find(argument);
    if (found == roles.end() ||
        (!inputs.empty() &&
         !llvm::is_contained(inputs, argument.getArgNumber())))
      continue;
    wanted.push_back(found->second);
    if (failed(findSpread(wanted.back())))
      return failure();
    if (isPart() && wanted.back().inRows)
      return op.emitOpError("expected a finalize that reads no input that is "
                            "differentiated, of @")
             << monoid.getSymName() << ", which is "
             << stringifyMonoidKind(monoid.getKind()) << ", but got argument "
             << argument.getArgNumber() << "; leave it out of 'inputs'";
  }
  // What no score depends on, as what only a mask reads, has no gradient.
  if (inputs.empty())
    llvm::erase_if(wanted, [](const Input &input) {
      return input.role == Role::capture && input.spread == Spread::whole &&
             !input.inRows;
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
LogicalResult Differentiator::checkMaxima(unsigned result) {
  auto maximum = numStats() == 1 ? getYielded(monoid.getCombine())
                                       .front()
                                       .getDefiningOp<arith::MaximumFOp>()
                                 : arith::MaximumFOp();
  auto isArgument = [&](Value value, unsigned number) {
    return value == Value(monoid.getCombine().getArgument(number));
  };
  if (!maximum || !isArgument(maximum.getLhs(), 0) ||
      !isArgument(maximum.getRhs(), 1))
    return op.emitOpError("expected one statistic that is the maximum of its "
                          "parts, to differentiate result ")
           << result << ", which changes with it";
  hasMaximum = true;
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

LogicalResult Differentiator::findOutputs() {
  if (monoid.isGeneral()) {
    outputs.resize(work.getNumResults());
    return checkGeneral();
  }
  Region &finalize = work.getFinalize();
  std::vector<bool> isInvariant(work.getNumResults(), true);
  if (numStats() && !isWalk()) {
    auto report = ::attn::checkFinalize(monoid, finalize);
    if (failed(report))
      return failure();
    isInvariant = report->gaugeInvariant;
  }
  SmallVector<bool> channels =
      getPerChannelOutputs(finalize, numStats(), monoid.getComponents());
  for (auto [i, value] : llvm::enumerate(getYielded(finalize))) {
    Output output;
    output.isInvariant = isInvariant[i];
    for (unsigned k = 0; k < numComponents(); ++k)
      if (isUnit(k))
        output.readsUnits |=
            dependsOn(value, finalize.getArgument(numStats() + k));
    for (unsigned k = 0; k < numStats(); ++k)
      output.readsStats |= dependsOn(value, finalize.getArgument(k));
    if (channels[i]) {
      Linearity found = classify(value, finalize, numStats(), monoid);
      if (found.kind != Linearity::linear)
        return op.emitOpError("expected result ")
               << i
               << " to be a value component times a factor of the row, to be "
                  "differentiated";
      output.component = found.component;
      output.isComponent = isa<BlockArgument>(value);
    }
    if (!output.isInvariant && !output.readsStats && hasStepFactors(monoid))
      output.isInvariant = true;
    if (!output.isInvariant) {
      if (output.hasChannels() || output.readsUnits)
        return op.emitOpError("expected result ")
               << i
               << " not to change with the reference point of the statistics, "
                  "or to depend on these alone, to be differentiated";
      if (failed(checkMaxima(i)))
        return failure();
    }
    outputs.push_back(output);
  }
  return success();
}

/// Gives the copy that is read all its regions.
void Differentiator::normalize() {
  b.setInsertionPointAfter(op);
  work = cast<AggregateOp>(b.clone(*op));
  ValueRange captured = work.getCaptures();
  auto open = [&](Region &region, unsigned numFloats, unsigned numPositions) {
    Block *block = b.createBlock(&region);
    for (unsigned i = 0; i < numFloats; ++i)
      block->addArgument(b.getF32Type(), loc);
    for (unsigned i = 0; i < numPositions; ++i)
      block->addArgument(b.getI32Type(), loc);
    for (Value value : captured)
      block->addArgument(value.getType(), loc);
    return block;
  };
  if (work.getScore().empty()) {
    unsigned dots = work.getQueries().size();
    Block *block = open(work.getScore(), dots, 4);
    YieldOp::create(b, loc, block->getArguments().take_front(dots));
  }
  if (work.getFinalize().empty()) {
    unsigned state = numStats() + numComponents();
    Block *block = open(work.getFinalize(), state, 3);
    SmallVector<Value> arguments(block->getArguments().take_front(state));
    // Parameters are captured for it.
    auto first = block->getNumArguments();
    for (Value param : work.getParams()) {
      work.getCapturesMutable().append(param);
      arguments.push_back(block->addArgument(param.getType(), loc));
    }
    for (Region *region : {&work.getScore(), &work.getMask(), &work.getFactor(),
                           &work.getInit()})
      if (!region->empty())
        for (Value param : work.getParams())
          region->addArgument(param.getType(), loc);
    (void)first;
    SmallVector<Value> yields =
        inlineRegion(b, monoid.getFinalize(), arguments);
    yields.truncate(work.getNumResults());
    YieldOp::create(b, loc, yields);
  }
  if (!killsByScore(work))
    return;
  moveDeadScoresToMask(work);
  // Weights known by numbers of rows are made of sums without tests.
  auto query = cast<RankedTensorType>(op.getQueries().front().getType());
  if (monoid.getKind() == MonoidKind::cocycle &&
      query.getElementTypeBitWidth() == 16)
    dropDeadTests(work);
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

/// Starts @func_suffix, with the arguments of `func` and `more`, and all that
/// comes before the reduction.
func::FuncOp Differentiator::startFunction(StringRef suffix,
                                           ArrayRef<Type> more,
                                           ArrayRef<std::string> names) {
  SmallVector<Type> types(func.getArgumentTypes());
  llvm::append_range(types, more);
  b.setInsertionPointAfter(target ? target : func);
  auto function = func::FuncOp::create(b, loc, (func.getName() + suffix).str(),
                                       b.getFunctionType(types, {}));
  Block *body = b.createBlock(&function.getBody());
  outer.clear();
  for (BlockArgument argument : func.getArguments())
    outer.map(Value(argument),
              Value(body->addArgument(argument.getType(), argument.getLoc())));
  for (auto [type, name] : llvm::zip_equal(more, names))
    body->addArgument(type, NameLoc::get(b.getStringAttr(name)));
  b.setInsertionPointToEnd(body);
  for (Operation &other : func.front().without_terminator())
    if (&other != op.getOperation() && &other != work.getOperation())
      b.clone(other, outer);
  return function;
}

/// Sets what a function returns.
static void finish(func::FuncOp function, OpBuilder &b, ValueRange values) {
  b.setInsertionPointToEnd(&function.getBody().front());
  func::ReturnOp::create(b, function.getLoc(), values);
  function.setType(b.getFunctionType(
      function.getBody().front().getArgumentTypes(), values.getTypes()));
}

void Differentiator::buildForward() {
  target = startFunction("_forward", {}, {});
  SmallVector<Type> types(op.getResultTypes());
  SmallVector<unsigned> kept;
  unsigned size = monoid.isGeneral() ? 0 : numStats() + numComponents();
  for (unsigned i = 0; i < size; ++i)
    if (numStats() && (i < numStats() || isUnit(i - numStats())))
      kept.push_back(i);
  if (!numStats())
    for (unsigned i = 0; i < size; ++i)
      if (isUnit(i) && llvm::any_of(outputs, [](const Output &output) {
            return output.readsUnits;
          }))
        kept.push_back(i);
  types.append(kept.size(), rowType());
  auto mapped = [&](ValueRange values) {
    return llvm::map_to_vector(values, [&](Value v) { return outside(v); });
  };
  auto forward = AggregateOp::create(
      b, loc, types, op.getMonoidAttr(), mapped(op.getParams()),
      mapped(op.getQueries()), mapped(op.getKeys()), mapped(op.getValues()),
      mapped(work.getCaptures()), mapped(op.getQueryIndex()),
      mapped(op.getKeyIndex()), Value(), Value(), op.getQueryFormAttr(),
      op.getKeyFormAttr(), SideAttr::get(b.getContext(), Side::keys),
      op.getScheduleAttr(), op.getPrecisionAttr(), UnitAttr(), UnitAttr(),
      op.getBatchInvariantAttr(), RotaryAttr());
  // Its own regions: the mask without what scores say.
  unsigned more = work.getCaptures().size() - op.getCaptures().size();
  auto copy = [&](Region &from, Region &to) {
    if (from.empty())
      return;
    IRMapping mapping;
    from.cloneInto(&to, mapping);
    while (to.getNumArguments() - from.getNumArguments() < more)
      to.addArgument(b.getF32Type(), loc);
  };
  copy(op.getScore(), forward.getScore());
  copy(op.getMask(), forward.getMask());
  copy(op.getFactor(), forward.getFactor());
  copy(op.getInit(), forward.getInit());
  IRMapping mapping;
  work.getFinalize().cloneInto(&forward.getFinalize(), mapping);
  Operation *yield = forward.getFinalize().front().getTerminator();
  for (unsigned i : kept)
    yield->insertOperands(yield->getNumOperands(),
                          forward.getFinalize().getArgument(i));
  SmallVector<Value> values;
  auto ret = cast<func::ReturnOp>(func.front().getTerminator());
  for (Value value : ret.getOperands())
    values.push_back(
        forward.getResult(cast<OpResult>(value).getResultNumber()));
  llvm::append_range(values,
                     forward.getResults().drop_front(op.getNumResults()));
  saved.resize(numStats() + numComponents());
  for (auto [i, number] : llvm::enumerate(kept))
    saved[number] = forward.getResult(op.getNumResults() + i);
  if (hasMaximum) {
    saved.push_back(buildFirst());
    values.push_back(saved.back());
  }
  target->setAttr(
      getSavedBytesName(),
      b.getI64IntegerAttr(4 * int64_t(values.size() - op.getNumResults())));
  finish(target, b, values);
}

void Differentiator::startBackward(StringRef suffix) {
  SmallVector<Type> types;
  SmallVector<std::string> names;
  SmallVector<Value *> places;
  auto addArgument = [&](Type type, const Twine &name, Value &place) {
    types.push_back(type);
    names.push_back(name.str());
    places.push_back(&place);
  };
  for (auto [i, value] : llvm::enumerate(saved))
    if (value)
      addArgument(rowType(), "saved" + Twine(i), value);
  results.resize(outputs.size());
  cotangents.resize(outputs.size());
  for (auto [i, output] : llvm::enumerate(outputs))
    if (readsOutput(output))
      addArgument(op.getResult(i).getType(), "out" + Twine(i), results[i]);
  for (auto [i, output] : llvm::enumerate(outputs))
    addArgument(op.getResult(i).getType(), "dout" + Twine(i), cotangents[i]);
  bool isPairs = suffix == "_pairs", isSome = isPairs || isPart();
  if (isWalk())
    addWalkArguments(suffix == "_states", addArgument);
  if (monoid.isGeneral())
    addUnfoldArguments(suffix == "_states", addArgument);
  if (isPairs) {
    Type keys = op.getKeys().front().getType();
    addArgument(blockType(cast<RankedTensorType>(keys)), "identity", identity);
  }
  if (isSome) {
    addArgument(b.getI32Type(), "first_key", keyBase);
    addArgument(b.getI32Type(), "num_keys", numKeys);
  }
  target = startFunction(suffix, types, names);
  unsigned first = func.getNumArguments();
  for (auto [i, place] : llvm::enumerate(places))
    *place = target.getBody().getArgument(first + i);
  if (!isSome)
    return;
  // The keys at hand are some of them.
  Value keys = outside(op.getKeys().front());
  for (auto dim :
       llvm::make_early_inc_range(target.getBody().getOps<tensor::DimOp>()))
    if (dim.getSource() == keys &&
        dim.getConstantIndex() == keySource.rowDim()) {
      OpBuilder before(dim);
      Value all =
          arith::IndexCastOp::create(before, loc, b.getIndexType(), numKeys);
      dim.getResult().replaceAllUsesWith(all);
      for (Operation &other : func.front().without_terminator())
        for (Value result : other.getResults())
          if (outer.lookupOrNull(result) == dim.getResult())
            outer.map(result, all);
      dim.erase();
    }
}

LogicalResult Differentiator::buildBackward() {
  startBackward("_backward");
  if (failed(monoid.isGeneral() ? buildUnfold() : buildRows()) ||
      failed(buildGradients(Side::keys)) ||
      failed(buildGradients(Side::queries)))
    return failure();
  SmallVector<Value> values;
  SmallVector<std::string> names;
  for (Input &input : wanted)
    if (input.gradient) {
      values.push_back(input.gradient);
      names.push_back(nameOf(input));
    }
  llvm::append_range(values, unfolded.results);
  if (!values.empty()) {
    finish(target, b, values);
    nameGradients(names);
    return success();
  }
  target.erase();
  target = {};
  return success();
}

LogicalResult Differentiator::run() {
  if (failed(check()))
    return failure();
  normalize();
  if (failed(findInputs()) || failed(findOutputs()))
    return failure();
  buildForward();
  if ((isWalk() && failed(buildStates())) ||
      (monoid.isGeneral() && failed(buildGeneralStates())) ||
      failed(buildBackward()))
    return failure();
  if (llvm::none_of(wanted, [](const Input &i) { return i.isPairs(); }))
    return success();
  return buildPairs();
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
          failed(Differentiator(func, op, monoid, inputs).run()))
        return signalPassFailure();
      if (replace)
        func.erase();
    }
  }
};
} // namespace
