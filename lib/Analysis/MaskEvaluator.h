//===- MaskEvaluator.h - The rules that read a mask -------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Private to the analysis. One evaluator, several arithmetics: numbers, for
// tests and explanations, IR values, for kernels, what is known of a number in
// any kernel, for facts (MaskEvaluator.cpp), and columns of a tile, for the
// keys of a row (MaskColumns.cpp). All run the same rules, so what a test finds
// true of the numbers holds for the code, and facts are those of the code.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_ANALYSIS_MASKEVALUATOR_H
#define ATTN_LIB_ANALYSIS_MASKEVALUATOR_H

#include "attn/Analysis/MaskAnalysis.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "llvm/Support/MathExtras.h"
#include <map>

namespace attn {

using mlir::Location;
using mlir::OpBuilder;
using mlir::Value;

/// Builds operations on i64 and i1, folding constants as it goes.
struct MaskCode {
  using Int = Value;
  using Bool = Value;
  OpBuilder &b;
  Location loc;
  const MaskAnalysis::UniformFn &uniformValue;
  const MaskAnalysis::SampleFn *sample = nullptr;
  const MaskAnalysis::CellFn *cell = nullptr;
  const MaskAnalysis::SampleFn *element = nullptr;

  Int number(int64_t value) {
    return mlir::arith::ConstantIntOp::create(b, loc, b.getI64Type(), value);
  }
  Bool truth(bool value) {
    return mlir::arith::ConstantIntOp::create(b, loc, b.getI1Type(), value);
  }
  Int uniform(Value value) { return widen(uniformValue(value)); }
  Int widen(Value value) {
    if (value.getType().isInteger(64))
      return value;
    if (value.getType().isIndex())
      return b.createOrFold<mlir::arith::IndexCastOp>(loc, b.getI64Type(),
                                                      value);
    return b.createOrFold<mlir::arith::ExtSIOp>(loc, b.getI64Type(), value);
  }
  Bool uniformBool(Value value) { return uniformValue(value); }
  std::optional<int64_t> constantOf(Value value) {
    mlir::APInt number;
    if (mlir::matchPattern(value, mlir::m_ConstantInt(&number)))
      return number.getSExtValue();
    return std::nullopt;
  }
  Int add(Int x, Int y) {
    return b.createOrFold<mlir::arith::AddIOp>(loc, x, y);
  }
  Int sub(Int x, Int y) {
    return b.createOrFold<mlir::arith::SubIOp>(loc, x, y);
  }
  Int mul(Int x, Int y) {
    return b.createOrFold<mlir::arith::MulIOp>(loc, x, y);
  }
  Int min(Int x, Int y) {
    return b.createOrFold<mlir::arith::MinSIOp>(loc, x, y);
  }
  Int max(Int x, Int y) {
    return b.createOrFold<mlir::arith::MaxSIOp>(loc, x, y);
  }
  Int truncDiv(Int x, int64_t d) {
    return b.createOrFold<mlir::arith::DivSIOp>(loc, x, number(d));
  }
  Int floorDiv(Int x, int64_t d) {
    if (llvm::isPowerOf2_64(d))
      return b.createOrFold<mlir::arith::ShRSIOp>(loc, x,
                                                  number(llvm::Log2_64(d)));
    Int quotient = truncDiv(x, d);
    Bool below = inverse(atLeast(sub(x, mul(quotient, number(d))), number(0)));
    return choose(below, sub(quotient, number(1)), quotient);
  }
  Bool atLeast(Int x, Int y) {
    return b.createOrFold<mlir::arith::CmpIOp>(
        loc, mlir::arith::CmpIPredicate::sge, x, y);
  }
  Bool equal(Int x, Int y) {
    return b.createOrFold<mlir::arith::CmpIOp>(
        loc, mlir::arith::CmpIPredicate::eq, x, y);
  }
  Bool both(Bool x, Bool y) {
    return b.createOrFold<mlir::arith::AndIOp>(loc, x, y);
  }
  Bool either(Bool x, Bool y) {
    return b.createOrFold<mlir::arith::OrIOp>(loc, x, y);
  }
  Bool inverse(Bool x) {
    return b.createOrFold<mlir::arith::XOrIOp>(loc, x, truth(true));
  }
  Int choose(Bool c, Int x, Int y) {
    return b.createOrFold<mlir::arith::SelectOp>(loc, c, x, y);
  }
  std::optional<bool> known(Bool x) {
    if (auto value = constantOf(x))
      return *value != 0;
    return std::nullopt;
  }
};

//===----------------------------------------------------------------------===//
// The rules
//===----------------------------------------------------------------------===//

template <typename Arithmetic> class MaskEvaluator {
public:
  using Int = typename Arithmetic::Int;
  using Bool = typename Arithmetic::Bool;
  struct Range {
    Int lower, upper; // inclusive
  };
  /// Whether some element, and whether every element, may be true.
  struct Truth {
    Bool some, notAll; // may be true; may be false
  };
  struct Interval {
    Int lower, upper; // [lower, upper)
  };

  MaskEvaluator(const MaskAnalysis &mask, Arithmetic &a, Range rows, Range keys)
      : mask(mask), a(a), rows(rows), keys(keys) {}

  /// Whether the reading of the region holds for these rows and keys.
  Bool valid() {
    Bool all = a.truth(true);
    for (auto &requirement : mask.requirements) {
      Range range = rangeOf(requirement.form);
      all = a.both(all, a.atLeast(range.lower, a.number(requirement.lower)));
      all = a.both(all, a.atLeast(a.number(requirement.upper), range.upper));
    }
    return all;
  }

  Truth truth() { return truthOf(mask.root); }
  /// Whether some element is true, and some false, as far as the ends of what
  /// is read tell, which are those of elements.
  Truth surely() { return surelyOf(mask.root); }
  Interval hull(Int numKeys) {
    end = numKeys;
    Interval result = hullOf(mask.root);
    if (!mask.knownFacts.hullIsExact)
      return result;
    // Two bounds of slope 1 that exclude each other leave no row a key.
    std::optional<Int> lower, upper;
    for (auto [guard, literal] : mask.exactBounds) {
      const auto &form = mask.forms[mask.expressions[literal].form];
      if (!form.row)
        continue;
      Int rest = a.number(form.constant);
      for (auto [factor, term] : form.terms)
        rest = a.add(rest, a.mul(a.number(factor), termRange(term).lower));
      // j >= i - rest, or j <= i + rest.
      Int bound = form.key > 0 ? a.sub(a.number(0), rest) : rest;
      if (guard >= 0)
        bound = a.choose(truthOf(guard).some,
                         a.number(form.key > 0 ? -far : far), bound);
      if (form.key > 0)
        lower = lower ? a.max(*lower, bound) : bound;
      else
        upper = upper ? a.min(*upper, bound) : bound;
    }
    if (lower && upper)
      result.upper =
          a.choose(a.atLeast(*upper, *lower), result.upper, a.number(0));
    return result;
  }
  /// Of one row whose keys are an interval.
  Interval row(Int numKeys) {
    end = numKeys;
    return hullOf(mask.root);
  }
  Interval core(Int numKeys) {
    end = numKeys;
    return coreOf(mask.root);
  }

private:
  static constexpr int64_t far = int64_t(1) << 40;

  //===--- Ranges over the box --------------------------------------------===//
  Range multiply(Range x, int64_t factor) {
    if (factor == 1)
      return x;
    Int f = a.number(factor);
    Range result{a.mul(x.lower, f), a.mul(x.upper, f)};
    if (factor < 0)
      std::swap(result.lower, result.upper);
    return result;
  }
  Range plus(Range x, Range y) {
    return {a.add(x.lower, y.lower), a.add(x.upper, y.upper)};
  }

  Range rangeOf(int number) {
    auto found = ranges.find(number);
    if (found != ranges.end())
      return found->second;
    Range range = rangeOfForm(mask.forms[number]);
    ranges.insert({number, range});
    return range;
  }

  /// `keyPart`, `rowPart`: what to include.
  Range rangeOfForm(const MaskAnalysis::Form &form, bool keyPart = true) {
    Range range{a.number(form.constant), a.number(form.constant)};
    if (form.row)
      range = plus(range, multiply(rows, form.row));
    if (form.key && keyPart)
      range = plus(range, multiply(keys, form.key));
    for (auto [factor, term] : form.terms)
      range = plus(range, multiply(termRange(term), factor));
    return range;
  }

  Range termRange(int number) {
    auto found = termRanges.find(number);
    if (found != termRanges.end())
      return found->second;
    Range range = computeTermRange(mask.terms[number]);
    termRanges.insert({number, range});
    return range;
  }

  /// What is known of a value that is not read further: `bounds`, or more.
  Range unread(Value value, Range bounds) {
    if (!value)
      return bounds;
    if (a.sample && mask.isSample(value)) {
      auto [lower, upper] = (*a.sample)(value);
      return {a.widen(lower), a.widen(upper)};
    }
    if (a.element && mask.isElement(value)) {
      auto [lower, upper] = (*a.element)(value);
      return {a.widen(lower), a.widen(upper)};
    }
    const MaskAnalysis::Cell *cell = mask.findCell(value);
    if (!a.cell || !cell)
      return bounds;
    auto isOne = [&](Range range, int64_t size) {
      if (!size)
        return a.truth(true);
      return a.equal(a.floorDiv(range.lower, size),
                     a.floorDiv(range.upper, size));
    };
    Bool within = a.both(isOne(rows, cell->rows), isOne(keys, cell->keys));
    Int read = a.widen((*a.cell)(value));
    return {a.choose(within, read, bounds.lower),
            a.choose(within, read, bounds.upper)};
  }

  Range computeTermRange(const MaskAnalysis::Term &term) {
    using Term = MaskAnalysis::Term;
    switch (term.kind) {
    case Term::Uniform: {
      Int value = a.uniform(term.value);
      return {value, value};
    }
    case Term::Unknown:
      return unread(term.value, {a.number(term.lower), a.number(term.upper)});
    case Term::Minimum: {
      Range x = rangeOf(term.lhs), y = rangeOf(term.rhs);
      return {a.min(x.lower, y.lower), a.min(x.upper, y.upper)};
    }
    case Term::Maximum: {
      Range x = rangeOf(term.lhs), y = rangeOf(term.rhs);
      return {a.max(x.lower, y.lower), a.max(x.upper, y.upper)};
    }
    case Term::Choice: {
      Range x = rangeOf(term.lhs), y = rangeOf(term.rhs);
      Truth condition = truthOf(term.condition);
      Range both{a.min(x.lower, y.lower), a.max(x.upper, y.upper)};
      // Only one side when the condition is settled.
      return {
          a.choose(condition.some,
                   a.choose(condition.notAll, both.lower, x.lower), y.lower),
          a.choose(condition.some,
                   a.choose(condition.notAll, both.upper, x.upper), y.upper)};
    }
    case Term::Product: {
      Range x = clamp(rangeOf(term.lhs)), y = clamp(rangeOf(term.rhs));
      Int p = a.mul(x.lower, y.lower), q = a.mul(x.lower, y.upper);
      Int r = a.mul(x.upper, y.lower), s = a.mul(x.upper, y.upper);
      // Above 2^31 the region is not valid anyway; keep sums below 2^63.
      Int limit = a.number(int64_t(1) << 32);
      Int minusLimit = a.number(-(int64_t(1) << 32));
      return {a.max(a.min(a.min(p, q), a.min(r, s)), minusLimit),
              a.min(a.max(a.max(p, q), a.max(r, s)), limit)};
    }
    case Term::FloorDivision: {
      Range x = rangeOf(term.lhs);
      return {a.floorDiv(x.lower, term.divisor),
              a.floorDiv(x.upper, term.divisor)};
    }
    case Term::TruncatedDivision: {
      Range x = rangeOf(term.lhs);
      return {a.truncDiv(x.lower, term.divisor),
              a.truncDiv(x.upper, term.divisor)};
    }
    case Term::FloorRemainder: {
      Range x = rangeOf(term.lhs);
      return remainder(x, a.number(0), a.number(term.divisor - 1),
                       a.truth(true), term.divisor);
    }
    case Term::TruncatedRemainder: {
      Range x = rangeOf(term.lhs);
      Int most = a.number(term.divisor - 1);
      Int least = a.number(1 - term.divisor);
      Bool positive = a.atLeast(x.lower, a.number(0));
      Bool negative = a.atLeast(a.number(0), x.upper);
      return remainder(x, a.choose(positive, a.number(0), least),
                       a.choose(negative, a.number(0), most), positive,
                       term.divisor);
    }
    }
    llvm_unreachable("unknown kind of term");
  }

  /// [lower, upper], or exact where x stays within one period.
  Range remainder(Range x, Int lower, Int upper, Bool exactAllowed,
                  int64_t divisor) {
    Int first = a.floorDiv(x.lower, divisor);
    Bool within =
        a.both(exactAllowed, a.equal(first, a.floorDiv(x.upper, divisor)));
    Int base = a.mul(first, a.number(divisor));
    return {a.choose(within, a.sub(x.lower, base), lower),
            a.choose(within, a.sub(x.upper, base), upper)};
  }

  Range clamp(Range x) {
    Int least = a.number(-(int64_t(1) << 31));
    Int most = a.number((int64_t(1) << 31) - 1);
    return {a.min(a.max(x.lower, least), most),
            a.max(a.min(x.upper, most), least)};
  }

  //===--- Three values ---------------------------------------------------===//
  Truth truthOf(int number) {
    auto found = truths.find(number);
    if (found != truths.end())
      return found->second;
    Truth result = computeTruth(mask.expressions[number]);
    truths.insert({number, result});
    return result;
  }

  Truth computeTruth(const MaskAnalysis::Expression &e) {
    using Expression = MaskAnalysis::Expression;
    switch (e.kind) {
    case Expression::True:
      return {a.truth(true), a.truth(false)};
    case Expression::False:
      return {a.truth(false), a.truth(true)};
    case Expression::Unknown: {
      Range range = unread(e.value, {a.number(0), a.number(1)});
      Bool some = a.atLeast(range.upper, a.number(1));
      Bool notAll = a.atLeast(a.number(0), range.lower);
      return e.negate ? Truth{notAll, some} : Truth{some, notAll};
    }
    case Expression::Uniform: {
      Bool value = a.uniformBool(e.value), inverse = a.inverse(value);
      return e.negate ? Truth{inverse, value} : Truth{value, inverse};
    }
    case Expression::AtLeastZero: {
      Range range = rangeOf(e.form);
      return {a.atLeast(range.upper, a.number(0)),
              a.inverse(a.atLeast(range.lower, a.number(0)))};
    }
    case Expression::And: {
      Truth x = truthOf(e.lhs), y = truthOf(e.rhs);
      return {a.both(x.some, y.some), a.either(x.notAll, y.notAll)};
    }
    case Expression::Or: {
      Truth x = truthOf(e.lhs), y = truthOf(e.rhs);
      return {a.either(x.some, y.some), a.both(x.notAll, y.notAll)};
    }
    }
    llvm_unreachable("unknown kind of expression");
  }

  //===--- Elements at the ends of ranges ---------------------------------===//
  /// The part of a form with ends that depends on the key, or all else of it.
  MaskAnalysis::Form partOf(const MaskAnalysis::Form &form, bool key) {
    MaskAnalysis::Form part = form;
    (key ? part.row : part.key) = 0;
    if (key)
      part.constant = 0;
    llvm::erase_if(part.terms, [&](auto &entry) {
      return isOnKey(mask.terms[entry.second]) != key;
    });
    return part;
  }

  bool isOnKey(const MaskAnalysis::Term &term) {
    return llvm::any_of(mask.getSamples(), [&](auto &sample) {
      return sample.onKey && sample.value == term.value;
    });
  }

  /// Whether elements have both ends of a form's range: one number of a row is
  /// in it at most, and one of a key.
  bool hasEnds(const MaskAnalysis::Form &form) {
    int ofRow = form.row != 0, ofKey = form.key != 0;
    for (auto [factor, number] : form.terms) {
      const MaskAnalysis::Term &term = mask.terms[number];
      if (term.kind == MaskAnalysis::Term::Uniform)
        continue;
      if (term.kind != MaskAnalysis::Term::Unknown || !term.value ||
          !a.sample || !mask.isSample(term.value))
        return false;
      ++(isOnKey(term) ? ofKey : ofRow);
    }
    return ofRow <= 1 && ofKey <= 1;
  }

  static bool areOpposite(const MaskAnalysis::Form &x,
                          const MaskAnalysis::Form &y) {
    return x.row == -y.row && x.key == -y.key && x.constant == -y.constant &&
           x.terms.size() == y.terms.size() &&
           llvm::all_of(x.terms, [&](auto &term) {
             return llvm::is_contained(
                 y.terms, std::pair<int64_t, int>(-term.first, term.second));
           });
  }

  /// Whether a form is 0 where both of its parts are at an end.
  Bool isZeroAtEnds(const MaskAnalysis::Form &form) {
    Range x = rangeOfForm(partOf(form, /*key=*/false)),
          y = rangeOfForm(partOf(form, /*key=*/true));
    Bool found = a.truth(false);
    for (Int one : {x.lower, x.upper})
      for (Int other : {y.lower, y.upper})
        found = a.either(found, a.equal(a.add(one, other), a.number(0)));
    return found;
  }

  Truth surelyOf(int number) {
    auto found = sure.find(number);
    if (found != sure.end())
      return found->second;
    Truth all = truthOf(number),
          result = computeSurely(mask.expressions[number]);
    result = {a.either(result.some, a.inverse(all.notAll)),
              a.either(result.notAll, a.inverse(all.some))};
    sure.insert({number, result});
    return result;
  }

  /// Beside what holds for all elements.
  Truth computeSurely(const MaskAnalysis::Expression &e) {
    using Expression = MaskAnalysis::Expression;
    Bool no = a.truth(false);
    switch (e.kind) {
    case Expression::True:
    case Expression::False:
    case Expression::Uniform:
      return {no, no};
    case Expression::Unknown:
      return e.value && a.sample && mask.isSample(e.value) ? computeTruth(e)
                                                           : Truth{no, no};
    case Expression::AtLeastZero:
      return hasEnds(mask.forms[e.form]) ? computeTruth(e) : Truth{no, no};
    case Expression::And:
    case Expression::Or:
      break;
    }
    bool isAnd = e.kind == Expression::And;
    Truth x = surelyOf(e.lhs), y = surelyOf(e.rhs), allX = truthOf(e.lhs),
          allY = truthOf(e.rhs);
    if (!isAnd)
      return {a.either(x.some, y.some),
              a.either(a.both(a.inverse(allX.some), y.notAll),
                       a.both(a.inverse(allY.some), x.notAll))};
    Truth both{a.either(a.both(a.inverse(allX.notAll), y.some),
                        a.both(a.inverse(allY.notAll), x.some)),
               a.either(x.notAll, y.notAll)};
    const Expression &lhs = mask.expressions[e.lhs],
                     &rhs = mask.expressions[e.rhs];
    // Two numbers that are equal.
    if (lhs.kind == Expression::AtLeastZero &&
        rhs.kind == Expression::AtLeastZero) {
      const MaskAnalysis::Form &form = mask.forms[lhs.form];
      if (areOpposite(form, mask.forms[rhs.form]) && hasEnds(form))
        both.some = a.either(both.some, isZeroAtEnds(form));
    }
    return both;
  }

  //===--- Intervals of keys
  //------------------------------------------------===//
  Interval all() { return {a.number(0), end}; }
  Interval none() { return {end, a.number(0)}; }
  Bool isEmpty(Interval x) { return a.atLeast(x.lower, x.upper); }
  Interval meet(Interval x, Interval y) {
    return {a.max(x.lower, y.lower), a.min(x.upper, y.upper)};
  }
  Interval choose(Bool c, Interval x, Interval y) {
    return {a.choose(c, x.lower, y.lower), a.choose(c, x.upper, y.upper)};
  }

  /// Keys at which form + (range of the rest) reaches 0: for the hull with the
  /// largest rest, for the core with the least.
  Interval keysAtLeastZero(const MaskAnalysis::Form &form, bool most) {
    using Term = MaskAnalysis::Term;
    auto pick = [&](Range range) { return most ? range.upper : range.lower; };
    // Exactly one part that depends on the key can be solved for it.
    MaskAnalysis::Form rest = form;
    rest.key = 0;
    int solved = -1;
    int64_t factor = form.key;
    for (auto [termFactor, term] : form.terms) {
      if (!mask.termDependsOn(term, /*key=*/true))
        continue;
      if (factor != 0)
        return whole(form, most);
      solved = term;
      factor = termFactor;
    }
    if (factor == 0) {
      Int value = pick(rangeOfForm(form));
      return choose(a.atLeast(value, a.number(0)), all(), none());
    }
    if (solved < 0)
      return solve(factor, pick(rangeOfForm(rest)));
    // factor * division(x) + rest >= 0.
    const Term &term = mask.terms[solved];
    if (term.kind != Term::FloorDivision &&
        term.kind != Term::TruncatedDivision)
      return whole(form, most);
    const MaskAnalysis::Form &x = mask.forms[term.lhs];
    if (llvm::any_of(x.terms, [&](auto &entry) {
          return mask.termDependsOn(entry.second, /*key=*/true);
        }))
      return whole(form, most);
    llvm::erase_if(rest.terms,
                   [&](auto &entry) { return entry.second == solved; });
    Int r = pick(rangeOfForm(rest));
    MaskAnalysis::Form xRest = x;
    xRest.key = 0;
    Range xRange = rangeOfForm(xRest);
    int64_t d = term.divisor;
    bool floored = term.kind == Term::FloorDivision;
    if (factor > 0) {
      // q >= t with t = ceil(-r / factor).
      Int t = a.sub(a.number(0), a.floorDiv(r, factor));
      // floor: x >= d t. Truncated, t <= 0: x >= d (t - 1) + 1.
      Int least = a.mul(t, a.number(d));
      if (!floored)
        least = a.choose(a.atLeast(t, a.number(1)), least,
                         a.sub(least, a.number(d - 1)));
      return solve(x.key, a.sub(pick(xRange), least));
    }
    // q <= t with t = floor(r / -factor).
    Int t = a.floorDiv(r, -factor);
    // floor: x <= d t + d - 1. Truncated, t < 0: x <= d t.
    Int largest = a.add(a.mul(t, a.number(d)), a.number(d - 1));
    if (!floored)
      largest = a.choose(a.atLeast(t, a.number(0)), largest,
                         a.sub(largest, a.number(d - 1)));
    // largest - x >= 0, and -x is most where x is least.
    Int xEnd = most ? xRange.lower : xRange.upper;
    return solve(-x.key, a.sub(largest, xEnd));
  }

  /// Keys with factor * j + rest >= 0.
  Interval solve(int64_t factor, Int rest) {
    Int zero = a.number(0);
    if (factor > 0) {
      // j >= ceil(-rest / factor) = -floor(rest / factor)
      Int least = a.sub(zero, a.floorDiv(rest, factor));
      return {a.max(least, zero), end};
    }
    // j <= floor(rest / -factor)
    Int most = a.floorDiv(rest, -factor);
    return {zero, a.min(a.add(most, a.number(1)), end)};
  }

  /// All keys or none, by the range over all of them.
  Interval whole(const MaskAnalysis::Form &form, bool most) {
    Range range = rangeOfForm(form);
    Int value = most ? range.upper : range.lower;
    return choose(a.atLeast(value, a.number(0)), all(), none());
  }

  Interval hullOf(int number) { return intervalOf(number, hulls, true); }
  Interval coreOf(int number) { return intervalOf(number, cores, false); }

  Interval intervalOf(int number, llvm::DenseMap<int, Interval> &cache,
                      bool most) {
    auto found = cache.find(number);
    if (found != cache.end())
      return found->second;
    Interval result = computeInterval(mask.expressions[number], cache, most);
    cache.insert({number, result});
    return result;
  }

  Interval computeInterval(const MaskAnalysis::Expression &e,
                           llvm::DenseMap<int, Interval> &cache, bool most) {
    using Expression = MaskAnalysis::Expression;
    switch (e.kind) {
    case Expression::True:
      return all();
    case Expression::False:
      return none();
    case Expression::Unknown:
      return most ? all() : none();
    case Expression::Uniform: {
      Bool value = a.uniformBool(e.value);
      return choose(e.negate ? a.inverse(value) : value, all(), none());
    }
    case Expression::AtLeastZero:
      return keysAtLeastZero(mask.forms[e.form], most);
    case Expression::And:
      return meet(intervalOf(e.lhs, cache, most),
                  intervalOf(e.rhs, cache, most));
    case Expression::Or:
      break;
    }
    // A side that is uniform settles it, or the other side does.
    for (auto [side, other] :
         {std::pair(e.lhs, e.rhs), std::pair(e.rhs, e.lhs)})
      if (mask.expressions[side].kind == Expression::Uniform) {
        Bool settled = a.uniformBool(mask.expressions[side].value);
        if (mask.expressions[side].negate)
          settled = a.inverse(settled);
        return choose(settled, all(), intervalOf(other, cache, most));
      }
    Interval x = intervalOf(e.lhs, cache, most);
    Interval y = intervalOf(e.rhs, cache, most);
    Interval joined{a.min(x.lower, y.lower), a.max(x.upper, y.upper)};
    Bool noX = isEmpty(x), noY = isEmpty(y);
    if (most)
      return choose(noX, y, choose(noY, x, joined));
    // Every row has every key of x or every row has ... of y; both are in the
    // core, and their union is an interval if they touch. Else the longer.
    Bool touch =
        a.both(a.atLeast(x.upper, y.lower), a.atLeast(y.upper, x.lower));
    Bool xLonger = a.atLeast(a.sub(x.upper, x.lower), a.sub(y.upper, y.lower));
    Interval longer = choose(xLonger, x, y);
    Bool join = a.both(touch, a.inverse(a.either(noX, noY)));
    return choose(join, joined, longer);
  }

  const MaskAnalysis &mask;
  Arithmetic &a;
  Range rows, keys;
  Int end{};
  std::map<int, Range> ranges, termRanges;
  std::map<int, Truth> truths, sure;
  llvm::DenseMap<int, Interval> hulls, cores;
};

} // namespace attn

#endif // ATTN_LIB_ANALYSIS_MASKEVALUATOR_H
