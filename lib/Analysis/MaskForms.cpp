//===- MaskForms.cpp - Integers of a mask as forms of positions ---------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Analysis/MaskAnalysis.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace ::attn;

/// Values of a valid region stay below `largest`, factors below
/// `largestFactor`: evaluation in 64 bits does not overflow.
static constexpr int64_t largest = int64_t(1) << 31;
static constexpr int64_t largestFactor = int64_t(1) << 24;

static unsigned widthOf(Type type) {
  return type.isIndex() ? 64 : type.getIntOrFloatBitWidth();
}

MaskAnalysis::Form MaskAnalysis::termForm(Term term) {
  Form form;
  form.terms.push_back({1, addTerm(term)});
  return form;
}

MaskAnalysis::Form MaskAnalysis::unknownForm(Value value) {
  Term term{Term::Unknown};
  unsigned width = widthOf(value.getType());
  term.value = sampled(value);
  // Values of 64 bits have no bounds that evaluation could hold.
  term.unbounded = width > 32;
  int64_t bound = int64_t(1) << (std::min(width, 32u) - 1);
  term.lower = -bound;
  term.upper = bound - 1;
  return termForm(term);
}

bool MaskAnalysis::isUnbounded(const Form &form) const {
  return llvm::any_of(form.terms,
                      [&](auto &term) { return terms[term.second].unbounded; });
}

/// Sums stay far from overflow as long as every summand does.
static bool factorsFit(int64_t row, int64_t key, int64_t constant) {
  return std::abs(row) < largestFactor && std::abs(key) < largestFactor &&
         std::abs(constant) < 4 * largest;
}

bool MaskAnalysis::scale(Form &form, int64_t factor) {
  auto times = [&](int64_t &value, int64_t limit) {
    return !llvm::MulOverflow(value, factor, value) && std::abs(value) < limit;
  };
  bool fits = times(form.row, largestFactor) &&
              times(form.key, largestFactor) &&
              times(form.constant, 4 * largest);
  for (auto &[termFactor, term] : form.terms)
    fits = fits && times(termFactor, largestFactor);
  return fits;
}

MaskAnalysis::Form MaskAnalysis::sum(const Form &lhs, const Form &rhs,
                                     int64_t rhsFactor) {
  Form result = lhs;
  result.row += rhsFactor * rhs.row;
  result.key += rhsFactor * rhs.key;
  result.constant += rhsFactor * rhs.constant;
  for (auto [factor, term] : rhs.terms) {
    bool merged = false;
    for (auto &[mine, other] : result.terms)
      if (other == term) {
        mine += rhsFactor * factor;
        merged = true;
        break;
      }
    if (!merged)
      result.terms.push_back({rhsFactor * factor, term});
  }
  llvm::erase_if(result.terms, [](auto &term) { return term.first == 0; });
  return result;
}

/// form >= 0 where floor(x / d) is all of it that depends on the key, as a form
/// of x: floor(x / d) <= r is x <= d r + d - 1, and floor(x / d) >= r is x >= d
/// r.
std::optional<MaskAnalysis::Form>
MaskAnalysis::withoutQuotient(const Form &form) {
  auto isOnKey = [&](auto &entry) { return termDependsOn(entry.second, true); };
  if (form.key || llvm::count_if(form.terms, isOnKey) != 1)
    return std::nullopt;
  auto [factor, number] = *llvm::find_if(form.terms, isOnKey);
  const Term &term = terms[number];
  if (term.kind != Term::FloorDivision || std::abs(factor) != 1)
    return std::nullopt;
  Form rest = form;
  llvm::erase_if(rest.terms, isOnKey);
  if (!scale(rest, term.divisor))
    return std::nullopt;
  Form result = sum(rest, forms[term.lhs], factor);
  result.constant += factor < 0 ? term.divisor - 1 : 0;
  if (!scale(result, 1))
    return std::nullopt;
  return result;
}

void MaskAnalysis::requireInRange(int form, unsigned width) {
  // i and j lie in [0, 2^31), so many forms cannot leave their type.
  const Form &f = forms[form];
  int64_t bound = width < 32 ? int64_t(1) << (width - 1) : largest;
  if (f.terms.empty() && std::abs(f.row) <= 1 && std::abs(f.key) <= 1 &&
      f.row * f.key <= 0 && width >= 32) {
    int64_t lower = f.constant - (f.row < 0 || f.key < 0 ? largest - 1 : 0);
    int64_t upper = f.constant + (f.row > 0 || f.key > 0 ? largest - 1 : 0);
    if (lower >= -bound && upper < bound)
      return;
  }
  requirements.push_back({form, -bound, bound - 1});
}

/// Whether a form of positions, which are, is no negative number.
template <typename Form> static bool isAtLeastZero(const Form &form) {
  return form.terms.empty() && form.row >= 0 && form.key >= 0 &&
         form.constant >= 0;
}

void MaskAnalysis::requireAtLeastZero(int form) {
  if (isAtLeastZero(forms[form]))
    return;
  requirements.push_back({form, 0, largest - 1});
}

/// Reads one value of the region as a form.
class MaskAnalysis::FormBuilder {
public:
  FormBuilder(MaskAnalysis &analysis, Value value)
      : a(analysis), value(value), op(value.getDefiningOp()),
        width(widthOf(value.getType())) {}
  Form build();

private:
  std::optional<Form> readLeaf();
  Form readProduct();
  Form readShift();
  Form readDivision();
  Form readMasked();
  Form readComplement();
  Form readExtension();

  // Operands.
  Form operand(unsigned i) { return a.forms[a.formOf(op->getOperand(i))]; }
  std::optional<int64_t> constantOperand(unsigned i);
  /// An operand that is read as unsigned.
  Form nonNegative(unsigned i) {
    a.requireAtLeastZero(a.formOf(op->getOperand(i)));
    return operand(i);
  }
  bool hasUnboundedOperand();

  // What is made of them.
  Form unknown() { return a.unknownForm(value); }
  Form wrapping(Form result);
  Form scaled(Form form, int64_t factor) {
    return scale(form, factor) ? wrapping(form) : unknown();
  }
  Form negated(Form form) {
    scale(form, -1);
    return form;
  }
  Form binaryTerm(Term::Kind kind, Form lhs, Form rhs);
  Form divisionTerm(Term::Kind kind, Form lhs, int64_t divisor);
  Form choice(Value condition, Form lhs, Form rhs);

  MaskAnalysis &a;
  Value value;
  Operation *op;
  unsigned width;
};

std::optional<int64_t> MaskAnalysis::FormBuilder::constantOperand(unsigned i) {
  Form form = operand(i);
  if (!form.isConstant())
    return std::nullopt;
  return form.constant;
}

bool MaskAnalysis::FormBuilder::hasUnboundedOperand() {
  return llvm::any_of(op->getOperands(), [&](Value from) {
    return from.getType().isIntOrIndex() && widthOf(from.getType()) > 1 &&
           a.isUnbounded(a.forms[a.formOf(from)]);
  });
}

/// The form, which the region computes in `width` wrapping bits.
MaskAnalysis::Form MaskAnalysis::FormBuilder::wrapping(Form result) {
  if (!factorsFit(result.row, result.key, result.constant) ||
      llvm::any_of(result.terms, [](auto &term) {
        return std::abs(term.first) >= largestFactor;
      }))
    return unknown();
  a.requireInRange(a.addForm(result), width);
  return result;
}

MaskAnalysis::Form MaskAnalysis::FormBuilder::binaryTerm(Term::Kind kind,
                                                         Form lhs, Form rhs) {
  Term term{kind};
  term.lhs = a.addForm(lhs);
  term.rhs = a.addForm(rhs);
  return a.termForm(term);
}

MaskAnalysis::Form MaskAnalysis::FormBuilder::divisionTerm(Term::Kind kind,
                                                           Form lhs,
                                                           int64_t divisor) {
  Term term{kind};
  term.lhs = a.addForm(lhs);
  term.divisor = divisor;
  return a.termForm(term);
}

MaskAnalysis::Form MaskAnalysis::FormBuilder::choice(Value condition, Form lhs,
                                                     Form rhs) {
  Term term{Term::Choice};
  term.condition = a.boolean(condition, false);
  term.negated = a.boolean(condition, true);
  term.lhs = a.addForm(lhs);
  term.rhs = a.addForm(rhs);
  return a.termForm(term);
}

/// The positions, constants, and what depends on no position.
std::optional<MaskAnalysis::Form> MaskAnalysis::FormBuilder::readLeaf() {
  Form form;
  APInt number;
  if (value == a.rowArgument) {
    form.row = 1;
    return form;
  }
  if (value == a.keyArgument) {
    form.key = 1;
    return form;
  }
  if (matchPattern(value, m_ConstantInt(&number)) &&
      number.getSignificantBits() <= 32) {
    form.constant = number.getSExtValue();
    return form;
  }
  if (a.varying.contains(value))
    return std::nullopt;
  Term term{Term::Uniform};
  term.value = value;
  form = a.termForm(term);
  if (width > 32)
    a.requireInRange(a.addForm(form), 32);
  return form;
}

MaskAnalysis::Form MaskAnalysis::FormBuilder::readProduct() {
  for (unsigned i : {0, 1})
    if (auto factor = constantOperand(i))
      return scaled(operand(1 - i), *factor);
  return wrapping(binaryTerm(Term::Product, operand(0), operand(1)));
}

MaskAnalysis::Form MaskAnalysis::FormBuilder::readShift() {
  auto shift = constantOperand(1);
  if (!shift || *shift < 0 || *shift >= 31)
    return unknown();
  int64_t factor = int64_t(1) << *shift;
  if (isa<arith::ShLIOp>(op))
    return scaled(operand(0), factor);
  return divisionTerm(Term::FloorDivision,
                      isa<arith::ShRUIOp>(op) ? nonNegative(0) : operand(0),
                      factor);
}

MaskAnalysis::Form MaskAnalysis::FormBuilder::readDivision() {
  auto divisor = constantOperand(1);
  if (!divisor || *divisor == 0 || *divisor <= -largest)
    return unknown();
  bool isUnsigned = isa<arith::DivUIOp, arith::CeilDivUIOp, arith::RemUIOp>(op);
  if (isUnsigned && *divisor < 0)
    return unknown();
  Form numerator = isUnsigned ? nonNegative(0) : operand(0);
  int64_t d = std::abs(*divisor);
  if (isa<arith::RemSIOp>(op)) // the sign of the divisor does not matter
    return divisionTerm(Term::TruncatedRemainder, numerator, d);
  if (isa<arith::RemUIOp>(op))
    return divisionTerm(Term::FloorRemainder, numerator, d);
  if (*divisor < 0)
    numerator = negated(numerator);
  if (isa<arith::DivSIOp>(op) && !isAtLeastZero(numerator))
    return divisionTerm(Term::TruncatedDivision, numerator, d);
  if (isa<arith::CeilDivSIOp, arith::CeilDivUIOp>(op))
    return negated(divisionTerm(Term::FloorDivision, negated(numerator), d));
  return divisionTerm(Term::FloorDivision, numerator, d);
}

/// x & mask, where the mask has all of the low bits, or all but these.
MaskAnalysis::Form MaskAnalysis::FormBuilder::readMasked() {
  for (unsigned i : {0, 1})
    if (auto mask = constantOperand(i)) {
      Form x = operand(1 - i);
      if (*mask >= 0 && llvm::isPowerOf2_64(uint64_t(*mask) + 1))
        return divisionTerm(Term::FloorRemainder, x, *mask + 1);
      if (*mask < 0 && llvm::isPowerOf2_64(uint64_t(-*mask)))
        return a.sum(x, divisionTerm(Term::FloorRemainder, x, -*mask), -1);
    }
  return unknown();
}

/// ~x = -x - 1.
MaskAnalysis::Form MaskAnalysis::FormBuilder::readComplement() {
  for (unsigned i : {0, 1})
    if (constantOperand(i) == int64_t(-1)) {
      Form x = negated(operand(1 - i));
      x.constant -= 1;
      return x;
    }
  return unknown();
}

MaskAnalysis::Form MaskAnalysis::FormBuilder::readExtension() {
  Value from = op->getOperand(0);
  if (from.getType().isInteger(1)) {
    Form one, zero;
    one.constant = isa<arith::ExtUIOp>(op) ? 1 : -1;
    return choice(from, one, zero);
  }
  if (isa<arith::ExtSIOp>(op))
    return operand(0);
  Form narrow = operand(0);
  if (narrow.terms.size() == 1 && narrow.row == 0 && narrow.key == 0 &&
      a.terms[narrow.terms[0].second].kind == Term::Unknown &&
      widthOf(from.getType()) < 32) {
    Term term{Term::Unknown};
    term.value = a.sampled(value);
    term.upper = (int64_t(1) << widthOf(from.getType())) - 1;
    return a.termForm(term);
  }
  return nonNegative(0);
}

MaskAnalysis::Form MaskAnalysis::FormBuilder::build() {
  if (std::optional<Form> leaf = readLeaf())
    return *leaf;
  if (width == 1 || !op || hasUnboundedOperand())
    return unknown();
  return llvm::TypeSwitch<Operation *, Form>(op)
      .Case([&](arith::AddIOp) {
        return wrapping(a.sum(operand(0), operand(1), 1));
      })
      .Case([&](arith::SubIOp) {
        return wrapping(a.sum(operand(0), operand(1), -1));
      })
      .Case([&](arith::MulIOp) { return readProduct(); })
      .Case<arith::ShLIOp, arith::ShRSIOp, arith::ShRUIOp>(
          [&](auto) { return readShift(); })
      .Case<arith::DivSIOp, arith::DivUIOp, arith::FloorDivSIOp,
            arith::CeilDivSIOp, arith::CeilDivUIOp, arith::RemSIOp,
            arith::RemUIOp>([&](auto) { return readDivision(); })
      .Case([&](arith::AndIOp) { return readMasked(); })
      .Case([&](arith::XOrIOp) { return readComplement(); })
      .Case([&](arith::MinSIOp) {
        return binaryTerm(Term::Minimum, operand(0), operand(1));
      })
      .Case([&](arith::MaxSIOp) {
        return binaryTerm(Term::Maximum, operand(0), operand(1));
      })
      .Case([&](arith::MinUIOp) {
        return binaryTerm(Term::Minimum, nonNegative(0), nonNegative(1));
      })
      .Case([&](arith::MaxUIOp) {
        return binaryTerm(Term::Maximum, nonNegative(0), nonNegative(1));
      })
      .Case([&](math::AbsIOp) {
        return wrapping(
            binaryTerm(Term::Maximum, operand(0), negated(operand(0))));
      })
      .Case([&](arith::SelectOp select) {
        return choice(select.getCondition(), operand(1), operand(2));
      })
      .Case<arith::ExtSIOp, arith::ExtUIOp>(
          [&](auto) { return readExtension(); })
      .Case([&](arith::IndexCastOp cast) {
        return cast.getIn().getType().isInteger(1) ? unknown()
                                                   : wrapping(operand(0));
      })
      .Case([&](arith::TruncIOp) { return wrapping(operand(0)); })
      .Default([&](Operation *) { return unknown(); });
}

int MaskAnalysis::formOf(Value value) {
  auto found = formCache.find(value);
  if (found != formCache.end())
    return found->second;
  int form = addForm(FormBuilder(*this, value).build());
  formCache[value] = form;
  return form;
}
