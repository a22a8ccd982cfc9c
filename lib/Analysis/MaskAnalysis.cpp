//===- MaskAnalysis.cpp - Reading the expression of a mask ----------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
// Evaluation, as code and as numbers, is in MaskEvaluator.cpp.
//===----------------------------------------------------------------------===//

#include "attn/Analysis/MaskAnalysis.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace ::attn;

/// A literal splits into at most 2^depth.
static constexpr int maxSplitDepth = 5;

MaskAnalysis::MaskAnalysis(Region &mask) : region(mask) {
  rowArgument = mask.getArgument(2);
  keyArgument = mask.getArgument(3);
  onRow.insert(rowArgument);
  onKey.insert(keyArgument);
  for (Operation &op : mask.front())
    for (auto *values : {&onRow, &onKey})
      if (llvm::any_of(op.getOperands(),
                       [&](Value v) { return values->contains(v); }))
        values->insert(op.result_begin(), op.result_end());
  varying = onRow;
  varying.insert(onKey.begin(), onKey.end());
  findCells();
  root = boolean(mask.front().getTerminator()->getOperand(0), false);
  classify();
}

int MaskAnalysis::addForm(Form form) {
  forms.push_back(std::move(form));
  return forms.size() - 1;
}
int MaskAnalysis::addTerm(Term term) {
  terms.push_back(term);
  return terms.size() - 1;
}
int MaskAnalysis::addExpression(Expression expression) {
  expressions.push_back(expression);
  return expressions.size() - 1;
}

//===----------------------------------------------------------------------===//
// Booleans
//===----------------------------------------------------------------------===//

int MaskAnalysis::constant(bool value) {
  return addExpression({value ? Expression::True : Expression::False});
}

int MaskAnalysis::unknown(Value value, bool negate) {
  knownFacts.isDataDependent = true;
  Expression expression{Expression::Unknown};
  expression.value = sampled(value);
  expression.negate = negate;
  return addExpression(expression);
}

int MaskAnalysis::conjunction(int lhs, int rhs) {
  Expression::Kind l = expressions[lhs].kind, r = expressions[rhs].kind;
  if (l == Expression::False || r == Expression::True)
    return lhs;
  if (r == Expression::False || l == Expression::True)
    return rhs;
  Expression both{Expression::And};
  both.lhs = lhs;
  both.rhs = rhs;
  return addExpression(both);
}

int MaskAnalysis::disjunction(int lhs, int rhs) {
  Expression::Kind l = expressions[lhs].kind, r = expressions[rhs].kind;
  if (l == Expression::True || r == Expression::False)
    return lhs;
  if (r == Expression::True || l == Expression::False)
    return rhs;
  Expression either{Expression::Or};
  either.lhs = lhs;
  either.rhs = rhs;
  return addExpression(either);
}

/// form >= 0. A minimum at least 0 is both at least 0; and so on.
int MaskAnalysis::literal(Form form, int depth) {
  if (form.isConstant())
    return constant(form.constant >= 0);
  if (depth < maxSplitDepth)
    for (auto [position, entry] : llvm::enumerate(form.terms)) {
      auto [factor, number] = entry;
      Term term = terms[number];
      if (term.kind != Term::Minimum && term.kind != Term::Maximum &&
          term.kind != Term::Choice)
        continue;
      Form rest = form;
      rest.terms.erase(rest.terms.begin() + position);
      Form left = forms[term.lhs], right = forms[term.rhs];
      if (!scale(left, factor) || !scale(right, factor))
        continue;
      int l = literal(sum(rest, left, 1), depth + 1);
      int r = literal(sum(rest, right, 1), depth + 1);
      if (term.kind == Term::Choice)
        return disjunction(conjunction(term.condition, l),
                           conjunction(term.negated, r));
      return (term.kind == Term::Minimum) == (factor > 0) ? conjunction(l, r)
                                                          : disjunction(l, r);
    }
  if (std::optional<Form> solved = withoutQuotient(form))
    return literal(std::move(*solved), depth);
  Expression result{Expression::AtLeastZero};
  result.form = addForm(form);
  return addExpression(result);
}

int MaskAnalysis::compare(Value value, bool negate) {
  auto op = value.getDefiningOp<arith::CmpIOp>();
  using Predicate = arith::CmpIPredicate;
  Predicate predicate = op.getPredicate();
  if (negate)
    predicate = arith::invertPredicate(predicate);
  if (op.getLhs().getType().isInteger(1)) {
    bool equal = predicate == Predicate::eq;
    if (!equal && predicate != Predicate::ne)
      return unknown(value, negate);
    int a = boolean(op.getLhs(), false), notA = boolean(op.getLhs(), true);
    int b = boolean(op.getRhs(), false), notB = boolean(op.getRhs(), true);
    return disjunction(conjunction(a, equal ? b : notB),
                       conjunction(notA, equal ? notB : b));
  }
  Form lhs = forms[formOf(op.getLhs())], rhs = forms[formOf(op.getRhs())];
  if (isUnbounded(lhs) || isUnbounded(rhs))
    return unknown(value, negate);
  /// lhs - rhs + offset >= 0, or its mirror.
  auto difference = [&](const Form &x, const Form &y, int64_t offset) {
    Form d = sum(x, y, -1);
    d.constant += offset;
    return literal(d);
  };
  /// x < y as unsigned numbers, for any signs.
  auto below = [&](const Form &x, const Form &y, bool orEqual) {
    auto negative = [&](const Form &f) {
      Form n = f;
      scale(n, -1);
      n.constant -= 1;
      return literal(n);
    };
    int less = difference(y, x, orEqual ? 0 : -1);
    // Same sign: as signed. Different: the negative one is larger.
    int xPositive = literal(x), yPositive = literal(y);
    int xNegative = negative(x), yNegative = negative(y);
    int same = disjunction(conjunction(xPositive, yPositive),
                           conjunction(xNegative, yNegative));
    return disjunction(conjunction(same, less),
                       conjunction(xPositive, yNegative));
  };
  switch (predicate) {
  case Predicate::sge:
    return difference(lhs, rhs, 0);
  case Predicate::sgt:
    return difference(lhs, rhs, -1);
  case Predicate::sle:
    return difference(rhs, lhs, 0);
  case Predicate::slt:
    return difference(rhs, lhs, -1);
  case Predicate::eq:
    return conjunction(difference(lhs, rhs, 0), difference(rhs, lhs, 0));
  case Predicate::ne:
    return disjunction(difference(lhs, rhs, -1), difference(rhs, lhs, -1));
  case Predicate::ult:
    return below(lhs, rhs, false);
  case Predicate::ule:
    return below(lhs, rhs, true);
  case Predicate::ugt:
    return below(rhs, lhs, false);
  case Predicate::uge:
    return below(rhs, lhs, true);
  }
  llvm_unreachable("unknown predicate");
}

int MaskAnalysis::boolean(Value value, bool negate) {
  auto key = std::make_pair(value, int(negate));
  auto found = booleanCache.find(key);
  if (found != booleanCache.end())
    return found->second;
  int expression = buildBoolean(value, negate);
  booleanCache[key] = expression;
  return expression;
}

int MaskAnalysis::buildBoolean(Value value, bool negate) {
  APInt number;
  if (matchPattern(value, m_ConstantInt(&number)))
    return constant(number.isZero() == negate);
  if (!varying.contains(value)) {
    Expression uniform{Expression::Uniform};
    uniform.value = value;
    uniform.negate = negate;
    return addExpression(uniform);
  }
  Operation *op = value.getDefiningOp();
  auto both = [&](bool conjunct) {
    int l = boolean(op->getOperand(0), negate);
    int r = boolean(op->getOperand(1), negate);
    return conjunct != negate ? conjunction(l, r) : disjunction(l, r);
  };
  if (!op)
    return unknown(value, negate);
  // On bits, a product or unsigned minimum is and; as signed numbers true is
  // below false, so minimum is or.
  if (isa<arith::AndIOp, arith::MulIOp, arith::MinUIOp, arith::MaxSIOp>(op))
    return both(true);
  if (isa<arith::OrIOp, arith::MaxUIOp, arith::MinSIOp>(op))
    return both(false);
  if (isa<arith::XOrIOp, arith::AddIOp, arith::SubIOp>(op)) {
    int a = boolean(op->getOperand(0), false);
    int notA = boolean(op->getOperand(0), true);
    int b = boolean(op->getOperand(1), false);
    int notB = boolean(op->getOperand(1), true);
    return disjunction(conjunction(a, negate ? b : notB),
                       conjunction(notA, negate ? notB : b));
  }
  if (auto select = dyn_cast<arith::SelectOp>(op)) {
    int c = boolean(select.getCondition(), false);
    int notC = boolean(select.getCondition(), true);
    int t = boolean(select.getTrueValue(), negate);
    int f = boolean(select.getFalseValue(), negate);
    return disjunction(conjunction(c, t), conjunction(notC, f));
  }
  if (isa<arith::CmpIOp>(op))
    return compare(value, negate);
  return unknown(value, negate);
}

//===----------------------------------------------------------------------===//
// What kind of mask this is
//===----------------------------------------------------------------------===//

bool MaskAnalysis::termDependsOn(int number, bool key) const {
  const Term &term = terms[number];
  switch (term.kind) {
  case Term::Uniform:
    return false;
  case Term::Unknown:
    return true;
  default:
    break;
  }
  for (int form : {term.lhs, term.rhs})
    if (form >= 0 &&
        (key ? dependsOnKey(forms[form]) : dependsOnRow(forms[form])))
      return true;
  return term.condition >= 0 && expressionDependsOn(term.condition, key);
}

bool MaskAnalysis::dependsOnKey(const Form &form) const {
  return form.key || llvm::any_of(form.terms, [&](auto &term) {
           return termDependsOn(term.second, true);
         });
}
bool MaskAnalysis::dependsOnRow(const Form &form) const {
  return form.row || llvm::any_of(form.terms, [&](auto &term) {
           return termDependsOn(term.second, false);
         });
}

bool MaskAnalysis::expressionDependsOn(int number, bool key) const {
  const Expression &e = expressions[number];
  switch (e.kind) {
  case Expression::True:
  case Expression::False:
  case Expression::Uniform:
    return false;
  case Expression::Unknown:
    return true;
  case Expression::AtLeastZero:
    return key ? dependsOnKey(forms[e.form]) : dependsOnRow(forms[e.form]);
  case Expression::And:
  case Expression::Or:
    return expressionDependsOn(e.lhs, key) || expressionDependsOn(e.rhs, key);
  }
  llvm_unreachable("unknown kind of expression");
}

/// Whether the core of an expression can be more than nothing.
bool MaskAnalysis::findsCore(int number) const {
  const Expression &e = expressions[number];
  switch (e.kind) {
  case Expression::True:
  case Expression::Uniform:
    return true;
  case Expression::False:
  case Expression::Unknown:
    return false;
  case Expression::AtLeastZero:
    return llvm::none_of(forms[e.form].terms, [&](auto &term) {
      return terms[term.second].kind == Term::Unknown ||
             terms[term.second].kind == Term::TruncatedRemainder ||
             terms[term.second].kind == Term::FloorRemainder;
    });
  case Expression::And:
    return findsCore(e.lhs) && findsCore(e.rhs);
  case Expression::Or:
    return findsCore(e.lhs) || findsCore(e.rhs);
  }
  llvm_unreachable("unknown kind of expression");
}

/// Of a bound of the keys that rises with the row in steps, d floor((i + e) /
/// d) and a constant: by how much it is beyond the row, at least and at most.
std::optional<std::pair<int64_t, int64_t>>
MaskAnalysis::findSteps(const Form &form) const {
  if (form.row || std::abs(form.key) != 1 || form.terms.size() != 1)
    return std::nullopt;
  auto [factor, number] = form.terms.front();
  const Term &term = terms[number];
  if (term.kind != Term::FloorDivision || factor != -form.key * term.divisor)
    return std::nullopt;
  const Form &x = forms[term.lhs];
  if (x.row != 1 || x.key || !x.terms.empty())
    return std::nullopt;
  int64_t most = x.constant - form.key * form.constant;
  return std::make_pair(most - (term.divisor - 1), most);
}

/// Whether keys between those of a row and of the next one may be live in
/// neither, as bounds that rise in steps may leave them. Two of slope 1 do not.
bool MaskAnalysis::leavesGaps(ArrayRef<std::pair<int, int>> bounds) const {
  auto formOf = [&](const std::pair<int, int> &bound) -> const Form & {
    return forms[expressions[bound.second].form];
  };
  auto beyondRow = [&](const Form &form) {
    if (form.row && form.terms.empty()) {
      int64_t constant = -form.key * form.constant;
      return std::optional(std::make_pair(constant, constant));
    }
    return findSteps(form);
  };
  auto isFixed = [](const Form &form) { return !form.row && form.key; };
  for (const auto &first : bounds)
    for (const auto &second : bounds) {
      const Form &lower = formOf(first), &upper = formOf(second);
      bool hasSteps = findSteps(lower) || findSteps(upper);
      if (lower.key <= 0 || upper.key >= 0 || !hasSteps)
        continue;
      auto from = beyondRow(lower), to = beyondRow(upper);
      if ((!from && isFixed(lower)) || (!to && isFixed(upper)))
        continue;
      if (!from || !to || from->second > to->first)
        return true;
    }
  return false;
}

/// Bounds j >= a(i), j <= b(i) of slope 0 or 1 in i, or in steps, each perhaps
/// guarded by a uniform condition that lifts it, and uniform conditions. They
/// rise together, so a key between the least lower and the greatest upper one
/// is live in some row, unless two bounds of slope 1 exclude each other, which
/// evaluation tests, or steps leave gaps.
bool MaskAnalysis::collectExact(
    int number, int guard, SmallVectorImpl<std::pair<int, int>> &bounds) const {
  const Expression &e = expressions[number];
  switch (e.kind) {
  case Expression::True:
  case Expression::False:
    return true;
  case Expression::Uniform:
    return guard < 0;
  case Expression::Unknown:
    return false;
  case Expression::AtLeastZero: {
    const Form &form = forms[e.form];
    if (findSteps(form)) {
      bounds.push_back({guard, number});
      return true;
    }
    if (llvm::any_of(form.terms, [&](auto &term) {
          return terms[term.second].kind != Term::Uniform;
        }))
      return false;
    if (form.row == 0 && form.key == 0)
      return guard < 0;
    bounds.push_back({guard, number});
    return (form.key == 1 && (form.row == 0 || form.row == -1)) ||
           (form.key == -1 && (form.row == 0 || form.row == 1));
  }
  case Expression::And:
    return guard < 0 && collectExact(e.lhs, guard, bounds) &&
           collectExact(e.rhs, guard, bounds);
  case Expression::Or: {
    if (guard >= 0)
      return false;
    auto isUniform = [&](int side) {
      return !expressionDependsOn(side, true) &&
             !expressionDependsOn(side, false);
    };
    if (isUniform(e.lhs))
      return collectExact(e.rhs, e.lhs, bounds);
    if (isUniform(e.rhs))
      return collectExact(e.lhs, e.rhs, bounds);
    return false;
  }
  }
  llvm_unreachable("unknown kind of expression");
}

/// Bounds of the keys on one side only, of slope 0 or 1 in i, or in steps: with
/// and and or among them the bound still rises with i, so the last row (of
/// upper bounds; the first of lower ones) has all keys that some row has.
bool MaskAnalysis::rises(int number, int64_t side) const {
  const Expression &e = expressions[number];
  switch (e.kind) {
  case Expression::True:
  case Expression::False:
  case Expression::Uniform:
    return true;
  case Expression::Unknown:
    return false;
  case Expression::AtLeastZero: {
    const Form &form = forms[e.form];
    if (findSteps(form))
      return form.key == side;
    if (llvm::any_of(form.terms, [&](auto &term) {
          return terms[term.second].kind != Term::Uniform;
        }))
      return false;
    return (form.row == 0 && form.key == 0) ||
           (form.key == side && (form.row == 0 || form.row == -side));
  }
  case Expression::And:
  case Expression::Or:
    return rises(e.lhs, side) && rises(e.rhs, side);
  }
  llvm_unreachable("unknown kind of expression");
}

/// Whether a form without its key is a known number in each row.
bool MaskAnalysis::isRowNumber(const Form &form) const {
  return llvm::all_of(form.terms, [&](auto &entry) {
    const Term &term = terms[entry.second];
    if (term.kind == Term::Uniform)
      return true;
    if (termDependsOn(entry.second, /*key=*/true))
      return false;
    if (term.kind == Term::FloorDivision)
      return isRowNumber(forms[term.lhs]);
    return (term.kind == Term::Minimum || term.kind == Term::Maximum) &&
           isRowNumber(forms[term.lhs]) && isRowNumber(forms[term.rhs]);
  });
}

MaskAnalysis::RowShape MaskAnalysis::rowShape(int number) const {
  const Expression &e = expressions[number];
  switch (e.kind) {
  case Expression::True:
  case Expression::False:
  case Expression::Uniform:
    return RowShape::AllOrNone;
  case Expression::Unknown:
    return RowShape::Other;
  case Expression::AtLeastZero: {
    const Form &form = forms[e.form];
    if (!isRowNumber(form))
      return RowShape::Other;
    return form.key == 0  ? RowShape::AllOrNone
           : form.key > 0 ? RowShape::Above
                          : RowShape::Below;
  }
  case Expression::And:
  case Expression::Or:
    break;
  }
  RowShape x = rowShape(e.lhs), y = rowShape(e.rhs);
  if (x == RowShape::Other || y == RowShape::Other)
    return RowShape::Other;
  if (x == RowShape::AllOrNone || x == y)
    return e.kind == Expression::Or && y == RowShape::Interval && x == y
               ? RowShape::Other
               : y;
  if (y == RowShape::AllOrNone)
    return x;
  // What is above one key and below another meets in an interval.
  return e.kind == Expression::And ? RowShape::Interval : RowShape::Other;
}

bool MaskAnalysis::isAlwaysValid(function_ref<bool(Value)> isRows,
                                 function_ref<bool(Value)> isKeys) const {
  constexpr int64_t most = std::numeric_limits<int32_t>::max();
  auto isCount = [&](Value value) { return isRows(value) || isKeys(value); };
  auto isSmall = [](int64_t factor) { return std::abs(factor) < 1 << 16; };
  return llvm::all_of(requirements, [&](const Requirement &requirement) {
    const Form &form = forms[requirement.form];
    if (!isSmall(form.row) || !isSmall(form.key))
      return false;
    SmallVector<std::pair<int64_t, Value>> numbers;
    for (auto [factor, number] : form.terms) {
      const Term &term = terms[number];
      if (term.kind != Term::Uniform || !isSmall(factor) ||
          !term.value.getType().isInteger(32))
        return false;
      // A difference of counts does not wrap.
      auto difference = term.value.getDefiningOp<arith::SubIOp>();
      if (difference && isCount(difference.getLhs()) &&
          isCount(difference.getRhs())) {
        numbers.push_back({factor, difference.getLhs()});
        numbers.push_back({-factor, difference.getRhs()});
      } else {
        numbers.push_back({factor, term.value});
      }
    }
    int64_t lower = form.constant, upper = form.constant;
    auto include = [&](int64_t factor, int64_t least, int64_t greatest) {
      lower += factor * (factor > 0 ? least : greatest);
      upper += factor * (factor > 0 ? greatest : least);
    };
    auto includePosition = [&](int64_t position,
                               function_ref<bool(Value)> counts) {
      for (auto &[factor, value] : numbers)
        if (position && factor == -position && counts(value)) {
          // Less than the count, by any number up to it.
          include(position, -most, -1);
          factor = 0;
          return;
        }
      include(position, 0, most - 1);
    };
    includePosition(form.row, isRows);
    includePosition(form.key, isKeys);
    for (auto [factor, value] : numbers)
      include(factor, isCount(value) ? 0 : -most - 1, most);
    return lower >= requirement.lower && upper <= requirement.upper;
  });
}

void MaskAnalysis::classify() {
  for (const Term &term : terms)
    knownFacts.isDataDependent |= term.kind == Term::Unknown;
  knownFacts.hasCore = findsCore(root);
  bool exact = collectExact(root, -1, exactBounds) && !leavesGaps(exactBounds);
  if (!exact)
    exactBounds.clear();
  knownFacts.hullIsExact = exact || rises(root, 1) || rises(root, -1);
  knownFacts.hasRowIntervals = rowShape(root) != RowShape::Other;
  findBoundFacts();
  dropUnusedSamples();
}
