//===- InterpreterTest.cpp - The interpreter against folders --------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
// Integer and float operations against MLIR's own folders; ReferenceTest.cpp
// has whole attentions.
//===----------------------------------------------------------------------===//

#include "attn/Interpreter/Interpreter.h"
#include "InterpreterFixture.h"
#include "attn/Interpreter/Algebra.h"
#include "attn/Interpreter/Reference.h"
#include "attn/Support/Float16.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Transforms/Passes.h"

#include <array>
#include <cmath>
#include <random>

using namespace ::attn;
using mlir::OwningOpRef;

namespace {
//===----------------------------------------------------------------------===//
// Single operations
//===----------------------------------------------------------------------===//

/// The number that an attribute of a folded operation holds.
double numberOf(mlir::Attribute attr) {
  if (auto number = mlir::dyn_cast<mlir::FloatAttr>(attr))
    return number.getValueAsDouble();
  auto number = mlir::cast<mlir::IntegerAttr>(attr);
  return number.getType().isInteger(1)
             ? double(number.getValue().getZExtValue())
             : double(number.getValue().getSExtValue());
}

TEST_F(Interpreter, OperationsAgreeWithFolding) {
  std::vector<std::string> operations;
  for (const char *name :
       {"addi",      "subi",      "muli",       "divsi", "divui",
        "ceildivsi", "ceildivui", "floordivsi", "remsi", "remui",
        "andi",      "ori",       "xori",       "shli",  "shrsi",
        "shrui",     "maxsi",     "maxui",      "minsi", "minui"})
    for (const char *type : {"i32", "i8", "i64"})
      operations.push_back(std::string("arith.") + name + " %a, %b : " + type);
  for (const char *predicate :
       {"eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"})
    for (const char *type : {"i32", "i8"})
      operations.push_back(std::string("arith.cmpi ") + predicate +
                           ", %a, %b : " + type);
  for (const char *name : {"addf", "subf", "mulf", "divf", "remf", "maximumf",
                           "minimumf", "maxnumf", "minnumf"})
    operations.push_back(std::string("arith.") + name + " %a, %b : f32");
  for (const char *predicate :
       {"false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord", "ueq", "ugt",
        "uge", "ult", "ule", "une", "uno", "true"})
    operations.push_back(std::string("arith.cmpf ") + predicate +
                         ", %a, %b : f32");
  for (const char *cast : {"arith.extsi %a : i8 to i32",
                           "arith.extui %a : i8 to i32",
                           "arith.trunci %a : i32 to i8",
                           "arith.sitofp %a : i32 to f32",
                           "arith.uitofp %a : i32 to f32",
                           "arith.fptosi %a : f32 to i32",
                           "arith.bitcast %a : f32 to i32",
                           "arith.bitcast %a : i32 to f32",
                           "arith.negf %a : f32",
                           "arith.truncf %a : f32 to bf16",
                           "arith.truncf %a : f32 to f16",
                           "math.absi %a : i32",
                           "math.ctlz %a : i32",
                           "math.cttz %a : i32",
                           "math.ctpop %a : i32",
                           "math.ipowi %a, %b : i32",
                           "math.absf %a : f32",
                           "math.ceil %a : f32",
                           "math.floor %a : f32",
                           "math.round %a : f32",
                           "math.roundeven %a : f32",
                           "math.trunc %a : f32",
                           "math.copysign %a, %b : f32",
                           "math.isnan %a : f32",
                           "math.isfinite %a : f32",
                           "math.isinf %a : f32",
                           "math.isnormal %a : f32",
                           "math.sqrt %a : f32",
                           "math.exp %a : f32",
                           "math.exp2 %a : f32",
                           "math.expm1 %a : f32",
                           "math.log %a : f32",
                           "math.log2 %a : f32",
                           "math.log10 %a : f32",
                           "math.log1p %a : f32",
                           "math.tanh %a : f32",
                           "math.sin %a : f32",
                           "math.cos %a : f32",
                           "math.tan %a : f32",
                           "math.erf %a : f32",
                           "math.cbrt %a : f32",
                           "math.atan %a : f32",
                           "math.powf %a, %b : f32",
                           "math.fma %a, %b, %a : f32",
                           "arith.index_cast %a : i32 to index"})
    operations.push_back(cast);

  const int64_t integers[] = {0, 1, -1, 2, 7, -5, 31, 100, -128, 127};
  const double floats[] = {0.0,  -0.0, 1.0,      -1.0,      2.5,
                           -3.5, 0.1f, INFINITY, -INFINITY, NAN};
  int numCompared = 0, numFolded = 0;
  for (const std::string &operation : operations) {
    std::string types = operation.substr(operation.rfind(" : ") + 3);
    std::string type = types.substr(0, types.find(" to "));
    auto module = parse("func.func @f(%a: " + type + ", %b: " + type +
                        ") {\n%r = " + operation + "\nreturn }");
    ASSERT_TRUE(module);
    auto function = *module->getOps<mlir::func::FuncOp>().begin();
    mlir::Operation &op = function.getBody().front().front();
    function.getBody().front().back().setOperands(op.getResults());
    auto program = RegionProgram::compile(function.getBody());
    ASSERT_TRUE(succeeded(program)) << operation;

    bool everFolded = false;
    mlir::Type mlirType = function.getArgument(0).getType();
    for (int x = 0; x < 10; ++x)
      for (int y = 0; y < 10; ++y) {
        bool isFloat = program->isFloatArgument(0);
        Scalar arguments[2];
        mlir::Attribute constants[2];
        for (int k = 0; k < 2; ++k) {
          int at = k ? y : x;
          arguments[k] = isFloat ? Scalar::ofFloat(floats[at])
                                 : Scalar::ofInt(integers[at]);
          constants[k] =
              isFloat
                  ? mlir::Attribute(mlir::FloatAttr::get(mlirType, floats[at]))
                  : mlir::IntegerAttr::get(mlirType, integers[at]);
        }
        llvm::SmallVector<mlir::Attribute> operands;
        for (mlir::Value operand : op.getOperands())
          operands.push_back(constants[mlir::cast<mlir::BlockArgument>(operand)
                                           .getArgNumber()]);
        llvm::SmallVector<mlir::OpFoldResult> folded;
        if (failed(op.fold(operands, folded)) || folded.size() != 1)
          continue;
        mlir::Attribute want = mlir::dyn_cast<mlir::Attribute>(folded[0]);
        if (!want)
          want = constants[mlir::cast<mlir::BlockArgument>(
                               mlir::cast<mlir::Value>(folded[0]))
                               .getArgNumber()];
        if (!mlir::isa<mlir::FloatAttr, mlir::IntegerAttr>(want))
          continue; // poison
        everFolded = true;
        llvm::SmallVector<Scalar> results;
        program->evaluate(arguments, results, Precision::F32);
        double got =
            program->isFloatResult(0) ? results[0].f : double(results[0].i);
        double expected = numberOf(want);
        bool same =
            got == expected || (std::isnan(got) && std::isnan(expected));
        if (!same && operation.compare(0, 5, "math.") == 0)
          same = std::fabs(got - expected) <= 3e-7 * std::fabs(expected);
        EXPECT_TRUE(same) << operation << " on " << numberOf(constants[0])
                          << " and " << numberOf(constants[1]) << " gives "
                          << got << ", but folds to " << expected;
        ++numCompared;
      }
    numFolded += everFolded;
  }
  EXPECT_GT(numCompared, 5000);
  EXPECT_GT(numFolded, 100);
}

TEST(Algebra, PrintsNumbersWithoutTheSignOfANaN) {
  double nan = std::nan(""), inf = INFINITY;
  EXPECT_EQ(::attn::printNumbers({-nan}), "nan");
  EXPECT_EQ(::attn::printNumbers({inf - inf, nan, -inf, -0.5}),
            "(nan, nan, -inf, -0.5)");
}

TEST_F(Interpreter, SixteenBitTypesRoundInEveryPrecision) {
  // 257 is no bf16, 2049 no f16: both are ties, which go to the even one.
  struct Case {
    const char *operations;
    double argument, want64, want32;
  } cases[] = {
      {"%n = arith.truncf %a : f32 to bf16 %r = arith.extf %n : bf16 to f32",
       257.0, 256.0, 256.0},
      {"%n = arith.truncf %a : f32 to f16 %r = arith.extf %n : f16 to f32",
       2049.0, 2048.0, 2048.0},
      {"%n = arith.truncf %a : f32 to f16 %m = arith.addf %n, %n : f16 "
       "%r = arith.extf %m : f16 to f32",
       40000.0, HUGE_VAL, HUGE_VAL},
      {"%i = arith.fptosi %a : f32 to i32 %n = arith.sitofp %i : i32 to f16 "
       "%r = arith.extf %n : f16 to f32",
       2051.0, 2052.0, 2052.0},
      {"%w = arith.extf %a : f32 to f64 %s = arith.addf %w, %w : f64 "
       "%r = arith.truncf %s : f64 to f32",
       0.1, 0.2, double(0.2f)},
      {"%i = arith.fptosi %a : f32 to i8 %r = arith.sitofp %i : i8 to f32",
       300.0, 127.0, 127.0}};
  for (const Case &c : cases) {
    auto module = parse(std::string("func.func @f(%a: f32) -> f32 {\n") +
                        c.operations + "\nreturn %r : f32 }");
    ASSERT_TRUE(module);
    auto function = *module->getOps<mlir::func::FuncOp>().begin();
    auto program = RegionProgram::compile(function.getBody());
    ASSERT_TRUE(succeeded(program));
    llvm::SmallVector<Scalar> results;
    program->evaluate(Scalar::ofFloat(c.argument), results, Precision::F64);
    EXPECT_EQ(results[0].f, c.want64) << c.operations;
    program->evaluate(Scalar::ofFloat(c.argument), results, Precision::F32);
    EXPECT_EQ(results[0].f, c.want32) << c.operations;
  }
}

TEST_F(Interpreter, TellsConstantsThatAreComputed) {
  auto module = parse("func.func @f(%a: f32) -> f32 {\n"
                      "%x = arith.constant 1431655765 : i32\n"
                      "%y = arith.constant -374327031 : i32\n"
                      "%i = arith.xori %x, %y : i32\n"
                      "%k = arith.bitcast %i : i32 to f32\n"
                      "%two = arith.constant 2.0 : f32\n"
                      "%l = arith.mulf %k, %two : f32\n"
                      "%r = arith.addf %a, %l : f32\n"
                      "return %r : f32 }");
  auto function = *module->getOps<mlir::func::FuncOp>().begin();
  auto program = RegionProgram::compile(function.getBody());
  ASSERT_TRUE(succeeded(program));
  float hidden = support::bitCast<float>(uint32_t(1431655765 ^ -374327031));
  auto holds = [&](double value) {
    return llvm::is_contained(program->getFloatConstants(), value);
  };
  EXPECT_TRUE(holds(hidden) && holds(2.0f * hidden) && holds(2.0));
  EXPECT_TRUE(llvm::is_contained(program->getIntegerConstants(), 1431655765));
}

TEST_F(Interpreter, EvaluatesListsOfArguments) {
  auto module = parse("func.func @f(%a: f32, %b: f32) -> (f32, f32) {\n"
                      "%two = arith.constant 2.0 : f32\n"
                      "%d = arith.mulf %a, %two : f32\n"
                      "%e = arith.subf %d, %b : f32\n"
                      "return %e, %d : f32, f32 }");
  auto function = *module->getOps<mlir::func::FuncOp>().begin();
  auto program = RegionProgram::compile(function.getBody());
  ASSERT_TRUE(succeeded(program));
  EXPECT_FALSE(program->getConstantResults());
  ASSERT_EQ(program->getNumResults(), 2u);
  ASSERT_TRUE(program->hasFewRegisters());
  Scalar ab[] = {Scalar::ofFloat(5.0), Scalar::ofFloat(4.0)};
  llvm::ArrayRef<Scalar> all(ab), a = all.take_front(), b = all.drop_front();
  // The last list is left out where the others are enough.
  using Lists = std::array<llvm::ArrayRef<Scalar>, 3>;
  for (auto [x, y, z] : {Lists{a, b, {}}, Lists{a, {}, b}, Lists{all, {}, a}}) {
    Scalar results[2];
    program->evaluateFew(x, y, z, results, Precision::F64);
    EXPECT_EQ(results[0].f, 6.0);
    EXPECT_EQ(results[1].f, 10.0);
  }
  // Results may be in the place of arguments.
  program->evaluateFew(ab, {}, {}, ab, Precision::F64);
  EXPECT_EQ(ab[0].f, 6.0);
  EXPECT_EQ(ab[1].f, 10.0);
}

// Products are made by one program, where nothing watches, and else region by
// region: of constants, params and a factor for each component.
TEST_F(Interpreter, ProductsAreWhatTheRegionsGive) {
  auto module = parse("attn.monoid @m cocycle stats(f32, f32)\n"
                      "    components(value, unit) params(f32) {\n"
                      "  identity {\n"
                      "  ^bb0(%p: f32):\n"
                      "    %n = arith.constant 0xFF800000 : f32\n"
                      "    %z = arith.constant 0.0 : f32\n"
                      "    attn.yield %n, %z : f32, f32\n"
                      "  }\n"
                      "  combine {\n"
                      "  ^bb0(%a: f32, %c: f32, %b: f32, %d: f32, %p: f32):\n"
                      "    %two = arith.constant 2.0 : f32\n"
                      "    %m = arith.maximumf %a, %b : f32\n"
                      "    %s = arith.addf %c, %d : f32\n"
                      "    %t = arith.mulf %s, %two : f32\n"
                      "    attn.yield %m, %t : f32, f32\n"
                      "  }\n"
                      "  rescale {\n"
                      "  ^bb0(%f: f32, %g: f32, %t: f32, %u: f32, %p: f32):\n"
                      "    %three = arith.constant 3.0 : f32\n"
                      "    %d = arith.subf %f, %t : f32\n"
                      "    %q = arith.divf %d, %p : f32\n"
                      "    %r = arith.divf %g, %three : f32\n"
                      "    %h = arith.subf %r, %u : f32\n"
                      "    attn.yield %q, %h : f32, f32\n"
                      "  }\n"
                      "  lift {\n"
                      "  ^bb0(%s: f32, %p: f32):\n"
                      "    %one = arith.constant 1.0 : f32\n"
                      "    attn.yield %s, %p, %one, %s : f32, f32, f32, f32\n"
                      "  }\n"
                      "}\n");
  auto algebra =
      ::attn::Algebra::compile(*module->getOps<mlir::attn::MonoidOp>().begin());
  ASSERT_TRUE(succeeded(algebra));
  algebra->params = {Scalar::ofFloat(7.0)};
  Scalars x = algebra->stateOf({0.75}, {5.0}, 0),
          y = algebra->stateOf({1.25}, {-3.0}, 1);
  for (Precision precision : {Precision::F64, Precision::F32})
    for (const Scalars &left : {x, algebra->emptyState()}) {
      algebra->precision = precision;
      llvm::ArrayRef<Scalar> a = llvm::ArrayRef(left).take_front(2),
                             b = llvm::ArrayRef(y).take_front(2);
      Scalars want = algebra->combine(a, b);
      ::attn::Factors alpha = algebra->factorsFrom(a, want),
                      beta = algebra->factorsFrom(b, want);
      auto rounded = [&](double number) {
        return precision == Precision::F32 ? double(float(number)) : number;
      };
      for (unsigned i : {0, 1}) {
        double sum = rounded(alpha.of(i) * left[2 + i].f) +
                     rounded(beta.of(i) * y[2 + i].f);
        want.push_back(Scalar::ofFloat(rounded(sum)));
      }
      Scalars got = algebra->multiply(left, y), inPlace(left);
      algebra->multiplyInto(inPlace, y, inPlace.data());
      llvm::SmallVector<double> distances;
      algebra->setDistances(&distances);
      Scalars watched = algebra->multiply(left, y);
      algebra->setDistances(nullptr);
      ASSERT_EQ(distances.size(), 1u);
      EXPECT_EQ(distances[0], left[0].f - y[0].f);
      for (unsigned i = 0; i < 4; ++i) {
        EXPECT_EQ(got[i].f, want[i].f);
        EXPECT_EQ(inPlace[i].f, want[i].f);
        EXPECT_EQ(watched[i].f, want[i].f);
      }
    }
}

TEST_F(Interpreter, KnowsResultsThatAreConstants) {
  auto constants = [&](const char *body) {
    auto module = parse(std::string("func.func @f(%a: f32) -> (f32, f32) {\n") +
                        body + "}");
    auto function = *module->getOps<mlir::func::FuncOp>().begin();
    auto program = RegionProgram::compile(function.getBody());
    return succeeded(program) ? program->getConstantResults() : std::nullopt;
  };
  auto both = constants("%x = arith.constant 1.0 : f32\n"
                        "%y = arith.constant -2.0 : f32\n"
                        "return %y, %x : f32, f32");
  ASSERT_TRUE(both);
  EXPECT_EQ((*both)[0].f, -2.0);
  EXPECT_EQ((*both)[1].f, 1.0);
  EXPECT_FALSE(constants("%x = arith.constant 1.0 : f32\n"
                         "return %x, %a : f32, f32"));
  EXPECT_FALSE(constants("%x = arith.constant 1.0 : f32\n"
                         "%y = arith.addf %x, %x : f32\n"
                         "return %x, %y : f32, f32"));
}

TEST_F(Interpreter, MeasuresHowFarComparisonsAreFromTheirTurn) {
  auto module = parse("func.func @f(%a: f32, %b: f32) -> f32 {\n"
                      "%c = arith.cmpf ogt, %a, %b : f32\n"
                      "%i = arith.fptosi %a : f32 to i32\n"
                      "%j = arith.fptosi %b : f32 to i32\n"
                      "%d = arith.cmpi ult, %i, %j : i32\n"
                      "%m = arith.maximumf %a, %b : f32\n"
                      "%r = arith.select %c, %a, %m : f32\n"
                      "return %r : f32 }");
  auto function = *module->getOps<mlir::func::FuncOp>().begin();
  auto program = RegionProgram::compile(function.getBody());
  ASSERT_TRUE(succeeded(program));
  llvm::SmallVector<Scalar> results;
  llvm::SmallVector<double> distances;
  program->evaluate({Scalar::ofFloat(-1.5), Scalar::ofFloat(2.0)}, results,
                    Precision::F64, /*read=*/nullptr, &distances);
  EXPECT_EQ(distances,
            (llvm::SmallVector<double>{-3.5, double(UINT32_MAX) - 2.0, -3.5}));
}

TEST_F(Interpreter, NamesWhatItCannotEvaluate) {
  auto module = parse("func.func @f(%a: f32) -> f32 {\n"
                      "%r = func.call @g(%a) : (f32) -> f32\n"
                      "return %r : f32 }\nfunc.func private @g(f32) -> f32");
  std::string message;
  mlir::ScopedDiagnosticHandler handler(&context,
                                        [&](mlir::Diagnostic &diagnostic) {
                                          message = diagnostic.str();
                                          return mlir::success();
                                        });
  auto function = *module->getOps<mlir::func::FuncOp>().begin();
  EXPECT_TRUE(failed(RegionProgram::compile(function.getBody())));
  EXPECT_NE(message.find("'func.call' cannot be evaluated"), std::string::npos)
      << message;
}

TEST_F(Interpreter, NamesRegionsThatItCannotCompile) {
  std::string message;
  mlir::ScopedDiagnosticHandler handler(&context,
                                        [&](mlir::Diagnostic &diagnostic) {
                                          message = diagnostic.str();
                                          return mlir::success();
                                        });
  auto expectError = [&](mlir::Region &region, const char *words) {
    message.clear();
    EXPECT_TRUE(failed(RegionProgram::compile(region)));
    EXPECT_NE(message.find(words), std::string::npos) << message;
  };
  auto bodyOf = [](mlir::ModuleOp module) -> mlir::Region & {
    return (*module.getOps<mlir::func::FuncOp>().begin()).getBody();
  };
  auto blocks = parse("func.func @f() {\n cf.br ^end\n^end:\n return }");
  expectError(bodyOf(*blocks), "expected a region of one block to evaluate");
  std::string many = "func.func @f(%a: f32) {\n";
  for (int i = 0; i < 60001; ++i)
    many += "%r" + std::to_string(i) + " = arith.negf %a : f32\n";
  auto large = parse(many + "return }");
  expectError(bodyOf(*large), "expected a region of at most 60000 operations");
  auto wide = parse("func.func @f(%a: vector<4xf32>) {\n"
                    "%r = arith.negf %a : vector<4xf32>\n return }");
  expectError(bodyOf(*wide), "has a result of a type that cannot be evaluated");
  auto dense = parse("func.func @f() {\n%r = arith.constant dense<0.0> : "
                     "vector<4xf32>\n return }");
  expectError(bodyOf(*dense), "is not a scalar");
  auto quad = parse("func.func @f(%a: f128) {\n"
                    "%r = arith.truncf %a : f128 to f32\n return }");
  expectError(bodyOf(*quad), "has an operand of a type that cannot be");
  auto nested = parse("func.func @f(%a: f32, %p: i1) {\n scf.if %p {\n"
                      "%r = arith.negf %a : f32\n }\n return }");
  expectError(bodyOf(*nested).front().front().getRegion(0),
              "reads a value from outside of the region");
}

TEST_F(Interpreter, NamesWhatDoesNotFit) {
  std::string message;
  mlir::ScopedDiagnosticHandler handler(&context,
                                        [&](mlir::Diagnostic &diagnostic) {
                                          message = diagnostic.str();
                                          return mlir::success();
                                        });
  auto filled = [](std::vector<int64_t> shape) {
    ReferenceValue value;
    value.shape = std::move(shape);
    value.data.assign(value.size(), 0.0);
    return value;
  };
  auto expectError = [&](const std::string &text,
                         std::vector<ReferenceValue> arguments,
                         const char *words, bool imports = true) {
    auto module = imports ? parseWithPrelude(text) : parse(text);
    message.clear();
    auto function = module->lookupSymbol<mlir::func::FuncOp>("f");
    EXPECT_TRUE(failed(evaluateReference(function, arguments)));
    EXPECT_NE(message.find(words), std::string::npos) << message;
  };
  const std::string vec = "func.func @f(%a: tensor<?x2xf32>) -> index {\n"
                          "%c = arith.constant 7 : index\n"
                          "%d = tensor.dim %a, %c : tensor<?x2xf32>\n"
                          "return %d : index }";
  expectError(vec, {}, "expected 1 arguments, but got 0");
  expectError(vec, {filled({2, 3})},
              "expected argument 0 to be of type 'tensor<?x2xf32>', but got "
              "other sizes");
  expectError(vec, {filled({2})}, "but got other sizes");
  expectError(vec, {filled({3, 2})}, "expected a dimension of the tensor");
  expectError("func.func @f() {\n cf.br ^end\n^end:\n return }", {},
              "expected a function of one block to evaluate");
  expectError("func.func private @g(f32) -> f32\n"
              "func.func @f(%a: f32) -> f32 {\n"
              "%r = func.call @g(%a) : (f32) -> f32\n return %r : f32 }",
              {filled({})}, "cannot be evaluated between reductions");

  const std::string type = "tensor<?x?x?x2xf32>";
  const std::string attention =
      "func.func @f(%q: " + type + ", %k: " + type + ", %v: " + type + ") -> " +
      type + " {\n%o = attn.attention queries(%q : " + type +
      ") keys(%k : " + type + ") values(%v : " + type + ") -> " + type +
      "\nreturn %o : " + type + " }";
  auto one = filled({1, 1, 1, 2});
  expectError(attention, {one, one, one},
              "expected '@softmax' to be an attn.monoid of this module; "
              "attn-import-prelude adds those that ship",
              /*imports=*/false);
  const char *fit = "expected queries, keys and values whose batches, heads "
                    "and rows fit together";
  expectError(attention, {one, filled({2, 1, 1, 2}), filled({2, 1, 1, 2})},
              fit);
  expectError(attention, {one, filled({1, 2, 1, 2}), filled({1, 2, 1, 2})},
              fit);
  expectError(attention, {one, one, filled({1, 1, 2, 2})}, fit);

  const std::string flat = "tensor<?x?x2xf32>", cu = "tensor<?xi32>";
  const std::string packed =
      "func.func @f(%q: " + flat + ", %n: " + cu + ") -> " + flat +
      " {\n%o = attn.attention queries(%q : " + flat + ") keys(%q : " + flat +
      ") values(%q : " + flat + ") cu_seqlens_q(%n : " + cu +
      ") cu_seqlens_k(%n : " + cu + ") -> " + flat + "\nreturn %o : " + flat +
      " }";
  for (std::vector<double> offsets :
       {std::vector<double>{0, 5}, {0, 3, 2}, {-1, 2}, {}}) {
    ReferenceValue value = filled({int64_t(offsets.size())});
    value.data = offsets;
    expectError(packed, {filled({1, 4, 2}), value},
                "expected row offsets that ascend from 0 to at most the number "
                "of rows");
  }

  const std::string stat = "tensor<2x?x?x?xf32>",
                    state = "tensor<2x?x?x?x2xf32>";
  expectError("func.func @f(%m: " + stat + ", %a: " + state +
                  ") -> tensor<?x?x?xf32> {\n%r:3 = attn.combine @softmax(%m, "
                  "%a, %m : " +
                  stat + ", " + state + ", " + stat +
                  ") -> tensor<?x?x?xf32>, tensor<?x?x?x2xf32>, "
                  "tensor<?x?x?xf32>\nreturn %r#0 : tensor<?x?x?xf32> }",
              {filled({2, 1, 1, 3}), filled({2, 1, 1, 4, 2})},
              "expected states over the same rows");
}
} // namespace
