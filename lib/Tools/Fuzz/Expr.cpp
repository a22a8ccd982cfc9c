//===- Expr.cpp - Expressions that print as IR and evaluate ---------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Expr.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <limits>

using namespace ::attn::fuzz;

Value Expr::at(const Point &point) const {
  Value values[3];
  for (size_t i = 0; i < operands.size(); ++i)
    values[i] = operands[i]->at(point);
  Value result = evaluate(point, values);
  if (kind == Kind::Float && point.round)
    result.real = point.round(result.real);
  return result;
}

bool Expr::readsScore() const {
  return name == "%s" ||
         std::any_of(operands.begin(), operands.end(),
                     [](const ExprPtr &x) { return x->readsScore(); });
}

bool Expr::isDeadAt(const Point &point) const {
  if (!readsScore())
    return kind == Kind::Float &&
           at(point).real == -std::numeric_limits<double>::infinity();
  if (text.rfind("arith.addf", 0) == 0)
    return operands[0]->isDeadAt(point) || operands[1]->isDeadAt(point);
  if (text.rfind("arith.select", 0) == 0 && !operands[0]->readsScore())
    return operands[operands[0]->at(point).integer ? 1 : 2]->isDeadAt(point);
  return false;
}

static const char *typeOf(Kind kind) {
  return kind == Kind::Bool ? "i1" : kind == Kind::Int ? "i32" : "f32";
}

std::string Printer::print(const ExprPtr &expr) {
  for (auto &[seen, name] : known)
    if (seen == expr.get())
      return name;
  std::string name = expr->name;
  if (expr->capture >= 0) {
    const Capture &capture = captures[expr->capture];
    // Not the name outside: a region sees both.
    std::string inside = "%in_" + capture.name;
    name = inside;
    if (capture.indexedBy) {
      std::string at = "%x" + std::to_string(next++);
      text += indent + at + " = arith.index_cast %" + capture.indexedBy +
              " : i32 to index\n";
      std::string type = typeOf(capture.kind);
      name = "%x" + std::to_string(next++);
      text += indent + name + " = tensor.extract " + inside + "[" + at +
              "] : tensor<?x" + type + ">\n";
    }
  } else if (!expr->text.empty()) {
    std::vector<std::string> operands;
    for (const ExprPtr &operand : expr->operands)
      operands.push_back(print(operand));
    name = "%x" + std::to_string(next++);
    text += indent + name + " = ";
    for (size_t i = 0; i < expr->text.size(); ++i) {
      if (expr->text[i] == '%' && i + 1 < expr->text.size())
        text += operands[expr->text[++i] - '0'];
      else
        text += expr->text[i];
    }
    text += "\n";
  }
  known.push_back({expr.get(), name});
  return name;
}

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

static ExprPtr make(Kind kind, std::string text, std::vector<ExprPtr> operands,
                    Expr::Evaluate evaluate) {
  auto expr = std::make_shared<Expr>();
  expr->kind = kind;
  expr->text = std::move(text);
  expr->operands = std::move(operands);
  expr->evaluate = std::move(evaluate);
  return expr;
}

/// i32 arithmetic wraps around, as the IR's does.
static int32_t wrap(int64_t x) {
  return static_cast<int32_t>(static_cast<uint32_t>(x));
}

static ExprPtr integer(const char *op, ExprPtr x, ExprPtr y,
                       int64_t (*apply)(int64_t, int64_t)) {
  return make(Kind::Int, std::string("arith.") + op + " %0, %1 : i32",
              {std::move(x), std::move(y)},
              [apply](const Point &, const Value *v) {
                Value r;
                r.integer = wrap(apply(v[0].integer, v[1].integer));
                return r;
              });
}
static ExprPtr add(ExprPtr x, ExprPtr y) {
  return integer("addi", x, y, [](int64_t a, int64_t b) { return a + b; });
}
static ExprPtr sub(ExprPtr x, ExprPtr y) {
  return integer("subi", x, y, [](int64_t a, int64_t b) { return a - b; });
}
static ExprPtr mul(ExprPtr x, ExprPtr y) {
  return integer("muli", x, y, [](int64_t a, int64_t b) { return a * b; });
}
static ExprPtr max(ExprPtr x, ExprPtr y) {
  return integer("maxsi", x, y,
                 [](int64_t a, int64_t b) { return std::max(a, b); });
}
static ExprPtr min(ExprPtr x, ExprPtr y) {
  return integer("minsi", x, y,
                 [](int64_t a, int64_t b) { return std::min(a, b); });
}
/// The divisor is a constant above 0.
static ExprPtr divide(ExprPtr x, ExprPtr y) {
  return integer("divsi", x, y, [](int64_t a, int64_t b) { return a / b; });
}
static ExprPtr floorDivide(ExprPtr x, ExprPtr y) {
  return integer("floordivsi", x, y, [](int64_t a, int64_t b) {
    return a / b - (a % b != 0 && (a % b < 0) != (b < 0));
  });
}
static ExprPtr remainder(ExprPtr x, ExprPtr y) {
  return integer("remsi", x, y, [](int64_t a, int64_t b) { return a % b; });
}
static ExprPtr shiftRight(ExprPtr x, ExprPtr y) {
  return integer("shrsi", x, y, [](int64_t a, int64_t b) { return a >> b; });
}
static ExprPtr shiftLeft(ExprPtr x, ExprPtr y) {
  // Of negative numbers too, which C++17 leaves undefined.
  return integer("shli", x, y, [](int64_t a, int64_t b) {
    return int64_t(uint64_t(a) << b);
  });
}

static ExprPtr constant(int64_t value) {
  return make(Kind::Int, "arith.constant " + std::to_string(value) + " : i32",
              {}, [value](const Point &, const Value *) {
                Value r;
                r.integer = wrap(value);
                return r;
              });
}

static ExprPtr compare(const char *predicate, ExprPtr x, ExprPtr y) {
  std::string name = predicate;
  return make(Kind::Bool, "arith.cmpi " + name + ", %0, %1 : i32",
              {std::move(x), std::move(y)},
              [name](const Point &, const Value *v) {
                int64_t a = v[0].integer, b = v[1].integer;
                std::string order = name;
                if (name[0] == 'u') {
                  a = static_cast<uint32_t>(a);
                  b = static_cast<uint32_t>(b);
                  order[0] = 's';
                }
                Value r;
                r.integer = order == "eq"    ? a == b
                            : order == "ne"  ? a != b
                            : order == "slt" ? a < b
                            : order == "sle" ? a <= b
                            : order == "sgt" ? a > b
                                             : a >= b;
                return r;
              });
}

static ExprPtr logic(const char *op, ExprPtr x, ExprPtr y,
                     int32_t (*apply)(int32_t, int32_t)) {
  return make(Kind::Bool, std::string("arith.") + op + " %0, %1 : i1",
              {std::move(x), std::move(y)},
              [apply](const Point &, const Value *v) {
                Value r;
                r.integer = apply(v[0].integer, v[1].integer);
                return r;
              });
}
static ExprPtr boolean(bool value) {
  return make(Kind::Bool,
              std::string("arith.constant ") + (value ? "true" : "false"), {},
              [value](const Point &, const Value *) {
                Value r;
                r.integer = value;
                return r;
              });
}
static ExprPtr select(Kind kind, ExprPtr c, ExprPtr x, ExprPtr y) {
  return make(
      kind, std::string("arith.select %0, %1, %2 : ") + typeOf(kind),
      {std::move(c), std::move(x), std::move(y)},
      [](const Point &, const Value *v) { return v[0].integer ? v[1] : v[2]; });
}

static ExprPtr real(const char *op, ExprPtr x, ExprPtr y,
                    double (*apply)(double, double)) {
  return make(Kind::Float, std::string("arith.") + op + " %0, %1 : f32",
              {std::move(x), std::move(y)},
              [apply](const Point &, const Value *v) {
                Value r;
                r.real = apply(v[0].real, v[1].real);
                return r;
              });
}
static ExprPtr function(const char *op, ExprPtr x, double (*apply)(double)) {
  return make(Kind::Float, std::string(op) + " %0 : f32", {std::move(x)},
              [apply](const Point &, const Value *v) {
                Value r;
                r.real = apply(v[0].real);
                return r;
              });
}
static ExprPtr addReal(ExprPtr x, ExprPtr y) {
  return real("addf", x, y, [](double a, double b) { return a + b; });
}
static ExprPtr mulReal(ExprPtr x, ExprPtr y) {
  return real("mulf", x, y, [](double a, double b) { return a * b; });
}

//===----------------------------------------------------------------------===//
// Leaves
//===----------------------------------------------------------------------===//

ExprPtr ExprMaker::position(char which) {
  auto expr = std::make_shared<Expr>();
  expr->name = std::string("%") + which;
  expr->evaluate = [which](const Point &p, const Value *) {
    Value r;
    r.integer = wrap(which == 'b'   ? p.b
                     : which == 'h' ? p.h
                     : which == 'i' ? p.i
                                    : p.j);
    return r;
  };
  return expr;
}

ExprPtr ExprMaker::scoreValue() {
  auto expr = std::make_shared<Expr>();
  expr->kind = Kind::Float;
  expr->name = "%s";
  expr->evaluate = [](const Point &p, const Value *) {
    Value r;
    r.real = p.score;
    return r;
  };
  return expr;
}

static ExprPtr captureOf(std::vector<Capture> &captures, Capture capture) {
  auto expr = std::make_shared<Expr>();
  expr->kind = capture.kind;
  expr->capture = static_cast<int>(captures.size());
  capture.name = "c" + std::to_string(captures.size());
  char by = capture.indexedBy;
  bool isReal = capture.kind == Kind::Float;
  captures.push_back(capture);
  expr->evaluate = [index = expr->capture, by, isReal](const Point &p,
                                                       const Value *) {
    int64_t at = by == 'b'   ? p.b
                 : by == 'h' ? p.h
                 : by == 'i' ? p.i
                 : by == 'j' ? p.j
                             : 0;
    double held = (*p.captures)[index][at];
    Value r;
    if (isReal)
      r.real = held;
    else
      r.integer = static_cast<int32_t>(held);
    return r;
  };
  return expr;
}

ExprPtr ExprMaker::number(int64_t low, int64_t high) {
  if (random.chance(0.3)) {
    Capture capture;
    capture.low = static_cast<double>(low);
    capture.high = static_cast<double>(high);
    return captureOf(captures, capture);
  }
  return constant(random.range(low, high));
}

ExprPtr ExprMaker::realConstant(double value) {
  // Rounded first: the text and the value are the same number.
  float rounded = static_cast<float>(value);
  char text[64] = "arith.constant 0xFF800000 : f32";
  if (std::isfinite(rounded))
    std::snprintf(text, sizeof(text), "arith.constant %.9e : f32", rounded);
  return make(Kind::Float, text, {}, [rounded](const Point &, const Value *) {
    Value r;
    r.real = rounded;
    return r;
  });
}

ExprPtr ExprMaker::realCapture(char indexedBy, double low, double high) {
  Capture capture;
  capture.kind = Kind::Float;
  capture.indexedBy = indexedBy;
  capture.low = low;
  capture.high = high;
  return captureOf(captures, capture);
}

ExprPtr ExprMaker::toReal(ExprPtr x) {
  return make(Kind::Float, "arith.sitofp %0 : i32 to f32", {std::move(x)},
              [](const Point &, const Value *v) {
                Value r;
                r.real = v[0].integer;
                return r;
              });
}

//===----------------------------------------------------------------------===//
// Masks
//===----------------------------------------------------------------------===//

ExprPtr ExprMaker::negate(ExprPtr x) {
  switch (random.range(0, 2)) {
  case 0:
    return logic("xori", x, boolean(true),
                 [](int32_t a, int32_t b) { return a ^ b; });
  case 1:
    return select(Kind::Bool, x, boolean(false), boolean(true));
  default:
    return logic("xori", boolean(true), x,
                 [](int32_t a, int32_t b) { return a ^ b; });
  }
}

ExprPtr ExprMaker::both(ExprPtr x, ExprPtr y) {
  switch (random.range(0, 3)) {
  case 0:
    return select(Kind::Bool, x, y, boolean(false));
  case 1: // de Morgan
    return negate(either(negate(x), negate(y)));
  default:
    return logic("andi", x, y, [](int32_t a, int32_t b) { return a & b; });
  }
}

ExprPtr ExprMaker::either(ExprPtr x, ExprPtr y) {
  if (random.chance(0.3))
    return select(Kind::Bool, x, boolean(true), y);
  return logic("ori", x, y, [](int32_t a, int32_t b) { return a | b; });
}

/// Values stay far below 2^31: positions are below 2^13.
ExprPtr ExprMaker::disguise(ExprPtr x) {
  switch (random.range(0, 9)) {
  case 0:
    return add(x, constant(0));
  case 1: {
    int64_t c = random.range(-40, 40);
    return sub(add(x, constant(c)), constant(c));
  }
  case 2:
    return sub(constant(0), sub(constant(0), x));
  case 3:
    return divide(mul(x, constant(2)), constant(2));
  case 4:
    return shiftRight(shiftLeft(x, constant(3)), constant(3));
  case 5:
    return max(x, min(x, position(random.pick({'i', 'j'}))));
  default:
    return x;
  }
}

/// x <= y, in one of the ways that people and front ends write it.
ExprPtr ExprMaker::lessOrEqual(ExprPtr x, ExprPtr y) {
  x = disguise(x);
  y = disguise(y);
  switch (random.range(0, 10)) {
  case 0:
    return compare("sle", x, y);
  case 1:
    return compare("sge", y, x);
  case 2:
    return negate(compare("sgt", x, y));
  case 3:
    return compare("sge", sub(y, x), constant(0));
  case 4:
    return compare("slt", sub(x, y), constant(1));
  case 5:
    return compare("eq", max(x, y), y);
  case 6:
    return compare("eq", min(x, y), x);
  case 7: // a difference that is not negative is small as unsigned
    return compare("ult", sub(y, x), constant(1 << 30));
  case 8:
    return compare("sgt", add(mul(sub(y, x), constant(2)), constant(1)),
                   constant(0));
  case 9:
    return compare("eq", shiftRight(sub(y, x), constant(31)), constant(0));
  default:
    return compare("slt", x, add(y, constant(1)));
  }
}

ExprPtr ExprMaker::equal(ExprPtr x, ExprPtr y) {
  switch (random.range(0, 3)) {
  case 0:
    return compare("eq", sub(x, y), constant(0));
  case 1:
    return both(lessOrEqual(x, y), lessOrEqual(y, x));
  case 2:
    return negate(compare("ne", x, y));
  default:
    return compare("eq", x, y);
  }
}

ExprPtr ExprMaker::condition() {
  ExprPtr i = position('i'), j = position('j');
  switch (random.range(0, 14)) {
  case 0: // causal
    return lessOrEqual(j, i);
  case 1: // shifted causal
    return lessOrEqual(j, add(i, number(-40, 40)));
  case 2: // window
    return both(lessOrEqual(j, i), lessOrEqual(sub(i, j), number(0, 70)));
  case 3: // window to both sides
    return both(lessOrEqual(sub(i, j), number(0, 40)),
                lessOrEqual(sub(j, i), number(0, 40)));
  case 4: // prefix
    return lessOrEqual(j, number(-5, 90));
  case 5: // suffix
    return lessOrEqual(number(0, 90), j);
  case 6: { // documents of equal length
    ExprPtr size = constant(random.range(1, 70));
    return random.chance(0.5)
               ? equal(divide(i, size), divide(j, size))
               : lessOrEqual(floorDivide(j, size), floorDivide(i, size));
  }
  case 7: { // dilated
    ExprPtr step = constant(random.range(2, 5));
    return equal(remainder(sub(i, j), step), constant(0));
  }
  case 8: { // steep or flat diagonal
    ExprPtr a = constant(random.range(1, 4)), b = constant(random.range(1, 4));
    return lessOrEqual(mul(j, a), add(mul(i, b), number(-20, 20)));
  }
  case 9: // another window for each head
    return lessOrEqual(sub(i, j),
                       mul(add(position('h'), constant(1)), number(1, 20)));
  case 10: // by batch or head alone
    return lessOrEqual(position(random.pick({'b', 'h'})), number(0, 2));
  case 11: // rows alone
    return lessOrEqual(number(0, 60), i);
  case 12: // a band around the antidiagonal
    return lessOrEqual(add(i, j), number(0, 200));
  case 13: { // blocks anywhere, as a table has them
    auto block = [&](ExprPtr x) {
      ExprPtr size = constant(random.pick({8, 16, 32, 48, 64, 128}));
      return mul(divide(x, size), constant(random.range(1, 7)));
    };
    ExprPtr mixed =
        integer("xori", block(i), block(j),
                [](int64_t x, int64_t y) -> int64_t { return x ^ y; });
    return lessOrEqual(remainder(mixed, constant(random.range(2, 5))),
                       constant(random.range(0, 2)));
  }
  default: { // one of two bounds
    ExprPtr bound = select(Kind::Int, compare("slt", i, number(0, 80)),
                           number(0, 60), add(i, number(-10, 10)));
    return lessOrEqual(j, bound);
  }
  }
}

ExprPtr ExprMaker::mask(int depth) {
  if (depth == 0)
    return condition();
  switch (random.range(0, 5)) {
  case 0:
  case 1:
    return both(mask(depth - 1), mask(depth - 1));
  case 2:
  case 3:
    return either(mask(depth - 1), mask(depth - 1));
  case 4:
    return negate(mask(depth - 1));
  default:
    return random.chance(0.3) ? select(Kind::Bool, condition(), mask(depth - 1),
                                       mask(depth - 1))
                              : mask(depth - 1);
  }
}

//===----------------------------------------------------------------------===//
// Scores
//===----------------------------------------------------------------------===//

ExprPtr ExprMaker::score(int depth, bool outermost) {
  ExprPtr s = depth == 0 ? scoreValue() : score(depth - 1, false);
  ExprPtr i = position('i'), j = position('j'), h = position('h');
  switch (random.range(0, outermost ? 10 : 9)) {
  case 0: // a bias for each head
    return addReal(s, realCapture('h', -2, 2));
  case 1: // a bias for each key
    return addReal(s, realCapture('j', -2, 2));
  case 2: { // linear in the distance
    ExprPtr distance = toReal(sub(i, j));
    return addReal(s, mulReal(distance, realConstant(random.uniform(-.1, .1))));
  }
  case 3: { // softcap
    ExprPtr cap = realConstant(random.uniform(2, 20));
    ExprPtr ratio =
        real("divf", s, cap, [](double a, double b) { return a / b; });
    return mulReal(cap, function("math.tanh", ratio,
                                 [](double x) { return std::tanh(x); }));
  }
  case 4: // rows of another sign
    return select(Kind::Float,
                  compare("eq", remainder(i, constant(2)), constant(0)), s,
                  mulReal(s, realConstant(-0.5)));
  case 5: // leaky
    return real(
        "maximumf", s, mulReal(s, realConstant(0.1)), [](double a, double b) {
          return std::isnan(a) || std::isnan(b) ? a + b : std::max(a, b);
        });
  case 6: // a slope for each head
    return addReal(s, mulReal(toReal(add(h, constant(1))),
                              mulReal(toReal(sub(j, i)), realConstant(0.01))));
  case 7: // a run-time factor
    return mulReal(s, realCapture(0, 0.2, 1.5));
  case 8:
    return addReal(
        s, mulReal(function("math.sin",
                            mulReal(toReal(add(i, j)), realConstant(0.1)),
                            [](double x) { return std::sin(x); }),
                   realConstant(1.5)));
  case 9: { // the size of a distance, rising or falling
    ExprPtr step = random.chance(0.2) ? mul(j, constant(2)) : j;
    ExprPtr distance = sub(add(i, number(-40, 40)), step);
    if (random.chance(0.3))
      distance = sub(constant(0), distance);
    ExprPtr size = make(Kind::Int, "math.absi %0 : i32", {distance},
                        [](const Point &, const Value *x) {
                          Value r;
                          r.integer = wrap(std::abs(x[0].integer));
                          return r;
                        });
    double most = random.pick({0.05, 0.1, 0.3});
    return addReal(s, mulReal(toReal(size), realCapture('h', -most, most / 4)));
  }
  default: // kill far keys by score, not by mask
    return select(Kind::Float, lessOrEqual(sub(i, j), number(0, 80)), s,
                  make(Kind::Float, "arith.constant 0xFF800000 : f32", {},
                       [](const Point &, const Value *) {
                         Value r;
                         r.real = -INFINITY;
                         return r;
                       }));
  }
}

ExprPtr ExprMaker::filled(double value) {
  ExprPtr s = scoreValue(), i = position('i'), j = position('j'), live;
  Capture padding;
  padding.indexedBy = 'b';
  padding.high = 200;
  switch (random.range(0, 4)) {
  case 0:
  case 1: // padding on the left
    live = compare("sge", j, captureOf(captures, padding));
    break;
  case 2: // on the right
    live = compare("slt", j, captureOf(captures, padding));
    break;
  case 3: // rows as a whole
    live = compare("ne", remainder(i, constant(3)), constant(0));
    break;
  default: // a sliding window
    live = compare("sle", sub(i, j), number(0, 90));
  }
  ExprPtr masked = realConstant(value);
  if (random.chance(0.5))
    return select(Kind::Float, live, s, masked);
  return addReal(s, select(Kind::Float, live, realConstant(0.0), masked));
}

ExprPtr ExprMaker::logGate() {
  ExprPtr held = random.chance(0.6)
                     ? realCapture(random.pick({'j', 'h'}), -0.4, 0.0)
                     : mulReal(toReal(remainder(position('j'), constant(7))),
                               realConstant(-0.05));
  return held;
}
