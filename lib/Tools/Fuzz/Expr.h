//===- Expr.h - Expressions that print as IR and evaluate -------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One tree, two readers: the text of a score or mask region, and the function
// that the oracle calls. Nothing of the compiler is used to evaluate.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_TOOLS_FUZZ_EXPR_H
#define ATTN_LIB_TOOLS_FUZZ_EXPR_H

#include "Random.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace attn::fuzz {

enum class Kind { Bool, Int, Float };

/// A value that a region reads from outside: a scalar, or a vector indexed by
/// one of the positions.
struct Capture {
  std::string name;
  Kind kind = Kind::Int;
  /// 'b', 'h', 'i' or 'j'; 0 for a scalar.
  char indexedBy = 0;
  /// Bounds of the random contents.
  double low = 0, high = 0;
};

/// What an expression is evaluated at. `round` rounds a float after each
/// operation; the oracle's leaves it as it is.
struct Point {
  double score = 0;
  int64_t b = 0, h = 0, i = 0, j = 0;
  const std::vector<std::vector<double>> *captures = nullptr;
  double (*round)(double) = nullptr;
};

struct Value {
  int32_t integer = 0;
  double real = 0;
};

class Expr;
using ExprPtr = std::shared_ptr<const Expr>;

class Expr {
public:
  using Evaluate = std::function<Value(const Point &, const Value *)>;

  Kind kind = Kind::Int;
  /// The line that computes it: %0, %1 ... stand for the operands, %r for the
  /// result. Empty for an argument, which is `name`.
  std::string text;
  std::string name;
  /// Index of a capture that is read, or -1.
  int capture = -1;
  std::vector<ExprPtr> operands;
  Evaluate evaluate;

  Value at(const Point &point) const;
  /// Whether this is -inf whatever the score is: a term of it is, or what is
  /// selected by positions and captures. A score that is NaN does not matter
  /// then (Semantics, rule 4).
  bool isDeadAt(const Point &point) const;
  bool readsScore() const;
};

/// Prints expressions into a region; equal subtrees are printed once.
class Printer {
public:
  Printer(const std::vector<Capture> &captures, std::string indent)
      : captures(captures), indent(std::move(indent)) {}
  /// Appends what computes `expr` and returns its name.
  std::string print(const ExprPtr &expr);
  std::string text;

private:
  const std::vector<Capture> &captures;
  std::string indent;
  std::vector<std::pair<const Expr *, std::string>> known;
  int next = 0;
};

/// Makes random expressions. Captures that they read are appended to
/// `captures`.
class ExprMaker {
public:
  ExprMaker(Random &random, std::vector<Capture> &captures)
      : random(random), captures(captures) {}

  /// A mask: a tree of affine comparisons, each written in some unusual way.
  ExprPtr mask(int depth);
  /// A function of the score and the position.
  /// Only the outermost may give -inf: half of -inf with another sign would
  /// be live.
  ExprPtr score(int depth, bool outermost = true);
  /// The score, and `value` instead of it, or added to it, where keys are
  /// masked.
  ExprPtr filled(double value);
  /// The logarithm of a gate: never positive.
  ExprPtr logGate();

private:
  ExprPtr condition();
  ExprPtr lessOrEqual(ExprPtr x, ExprPtr y);
  ExprPtr equal(ExprPtr x, ExprPtr y);
  ExprPtr negate(ExprPtr x);
  ExprPtr both(ExprPtr x, ExprPtr y);
  ExprPtr either(ExprPtr x, ExprPtr y);
  /// `x` written in another way.
  ExprPtr disguise(ExprPtr x);
  /// A constant or a run-time scalar within the bounds.
  ExprPtr number(int64_t low, int64_t high);
  ExprPtr position(char which);
  ExprPtr scoreValue();
  ExprPtr realConstant(double value);
  ExprPtr realCapture(char indexedBy, double low, double high);
  ExprPtr toReal(ExprPtr x);

  Random &random;
  std::vector<Capture> &captures;
};

} // namespace attn::fuzz

#endif // ATTN_LIB_TOOLS_FUZZ_EXPR_H
