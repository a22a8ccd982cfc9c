//===- InterpreterTest.cpp - The interpreter against two other sources ----===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
// Integer and float operations against MLIR's own folders; whole attentions
// against the oracle, which knows the shipped monoids by their formulas and
// shares no code with the interpreter.
//===----------------------------------------------------------------------===//

#include "attn/Interpreter/Interpreter.h"
#include "attn/Dialect/Attn/Transforms/Passes.h"
#include "attn/InitAll.h"
#include "attn/Interpreter/Algebra.h"
#include "attn/Interpreter/Reference.h"
#include "attn/Reference/Attention.h"
#include "attn/Support/Float16.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "gtest/gtest.h"

#include <cmath>
#include <random>

using namespace ::attn;
namespace oracle = attn::reference;
using mlir::OwningOpRef;

namespace {
class Interpreter : public ::testing::Test {
protected:
  Interpreter() {
    mlir::DialectRegistry registry;
    registerAllDialects(registry);
    context.appendDialectRegistry(registry);
    context.disableMultithreading();
  }
  OwningOpRef<mlir::ModuleOp> parse(const std::string &text) {
    auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    EXPECT_TRUE(module) << text;
    return module;
  }
  OwningOpRef<mlir::ModuleOp> parseWithPrelude(const std::string &text) {
    auto module = parse(text);
    mlir::PassManager passes(&context);
    passes.addPass(createAttnImportPreludePass());
    EXPECT_TRUE(module && succeeded(passes.run(*module)));
    return module;
  }
  mlir::MLIRContext context;
};

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

//===----------------------------------------------------------------------===//
// Whole attentions
//===----------------------------------------------------------------------===//

struct Case {
  std::mt19937 random;
  int64_t b, hq, hk, sq, sk, d, dv;
  explicit Case(unsigned seed) : random(seed) {
    b = below(3), hk = 1 + below(2), hq = hk * (1 + below(3));
    sq = below(7), sk = below(12), d = 1 + below(5), dv = 1 + below(4);
  }
  int64_t below(int64_t n) { return int64_t(random() % n); }
  std::vector<double> normal(int64_t n) {
    std::normal_distribution<double> normal;
    std::vector<double> data(n);
    for (double &x : data)
      x = float(normal(random));
    return data;
  }
};

std::string dims(std::initializer_list<int64_t> shape, const char *element,
                 int64_t numStatic = 1) {
  std::string text = "tensor<";
  size_t i = 0;
  for (int64_t extent : shape)
    text += (++i + numStatic > shape.size() ? std::to_string(extent) : "?") +
            std::string("x");
  return text + element + ">";
}

struct Shipped {
  oracle::Monoid monoid;
  const char *name;
  int numValues;
  std::vector<const char *> outputs; ///< Of the monoid, in order.
};

const Shipped shipped[] = {
    {oracle::Monoid::softmax, "softmax", 1, {"o", "lse"}},
    {oracle::Monoid::softmaxEntropy,
     "softmax_entropy",
     1,
     {"o", "lse", "entropy"}},
    {oracle::Monoid::softmax, "softmax_max", 1, {"o", "lse", "max"}},
    {oracle::Monoid::logsumexp, "logsumexp", 0, {"lse"}},
    {oracle::Monoid::sigmoid, "sigmoid_sum", 1, {"o"}},
    {oracle::Monoid::relu, "relu_sum", 1, {"o"}},
    {oracle::Monoid::squaredRelu, "relu2_sum", 1, {"o"}},
    {oracle::Monoid::stickBreaking, "stick_breaking", 1, {"o", "remainder"}},
    {oracle::Monoid::alphaCompositing,
     "alpha_compositing",
     1,
     {"o", "remainder"}},
    {oracle::Monoid::maxPlus, "maxplus", 1, {"o"}},
    {oracle::Monoid::welford, "welford", 2, {"o", "variance"}}};

const std::vector<double> &outputOf(const oracle::AttentionResult &result,
                                    const std::string &name) {
  if (name == "o")
    return result.out;
  if (name == "lse")
    return result.lse;
  if (name == "entropy")
    return result.entropy;
  if (name == "max")
    return result.rowMax;
  return name == "variance" ? result.variance : result.remainder;
}

TEST_F(Interpreter, AttentionAgreesWithTheOracle) {
  for (unsigned seed = 0; seed < 330; ++seed) {
    Case c(seed);
    const Shipped &which = shipped[seed % std::size(shipped)];
    std::vector<double> q = c.normal(c.b * c.hq * c.sq * c.d),
                        k = c.normal(c.b * c.hk * c.sk * c.d),
                        v = c.normal(c.b * c.hk * c.sk * c.dv);
    oracle::AttentionProblem problem;
    using support::denseView;
    auto f64 = support::DType::f64;
    problem.q = denseView(q.data(), f64, {c.b, c.hq, c.sq, c.d});
    problem.k = denseView(k.data(), f64, {c.b, c.hk, c.sk, c.d});
    problem.v = denseView(v.data(), f64, {c.b, c.hk, c.sk, c.dv});
    problem.monoid = which.monoid;

    std::string tq = dims({c.b, c.hq, c.sq, c.d}, "f32");
    std::string tk = dims({c.b, c.hk, c.sk, c.d}, "f32");
    std::string tv = dims({c.b, c.hk, c.sk, c.dv}, "f32");
    std::string parameters = "%q: " + tq + ", %k: " + tk + ", %v: " + tv;
    std::vector<ReferenceValue> arguments = {{{c.b, c.hq, c.sq, c.d}, q},
                                             {{c.b, c.hk, c.sk, c.d}, k},
                                             {{c.b, c.hk, c.sk, c.dv}, v}};
    std::string op = std::string("attn.attention monoid(@") + which.name +
                     ") queries(%q : " + tq + ") keys(%k : " + tk + ")";
    if (which.numValues == 1)
      op += " values(%v : " + tv + ")";
    if (which.numValues == 2)
      op += " values(%v, %v : " + tv + ", " + tv + ")";
    auto scalarClause = [&](const char *name, const char *type, double value) {
      parameters += std::string(", %") + name + ": " + type;
      arguments.push_back({{}, {value}});
      op += std::string(" ") + name + "(%" + name + ")";
    };
    auto tensorClause = [&](const char *name, std::vector<int64_t> shape,
                            std::vector<double> data, const char *element) {
      std::string type = "tensor<";
      for (size_t i = 0; i < shape.size(); ++i)
        type += shape[i] == 1 ? "1x" : "?x";
      type += std::string(element) + ">";
      parameters += std::string(", %") + name + ": " + type;
      arguments.push_back({shape, std::move(data)});
      op += std::string(" ") + name + "(%" + name + " : " + type + ")";
    };

    if (c.below(2)) {
      problem.scale = 0.37f;
      scalarClause("scale", "f32", 0.37f);
    }
    if (c.below(3) == 0) {
      problem.softcap = 2.5;
      scalarClause("softcap", "f32", 2.5);
    }
    std::vector<double> bias, mask;
    if (c.below(2)) {
      bias = c.normal(c.hq * c.sk);
      for (double &x : bias)
        if (c.below(5) == 0)
          x = -INFINITY;
      problem.bias = support::stridedView(
          bias.data(), f64, {c.b, c.hq, c.sq, c.sk}, {0, c.sk, 0, 1});
      tensorClause("bias", {c.hq, 1, c.sk}, bias, "f32");
    }
    if (c.below(2)) {
      for (int64_t n = 0; n < c.b * c.sq * c.sk; ++n)
        mask.push_back(c.below(4) != 0);
      problem.mask = support::stridedView(
          mask.data(), f64, {c.b, c.hq, c.sq, c.sk}, {c.sq * c.sk, 0, c.sk, 1});
      tensorClause("mask_tensor", {c.b, 1, c.sq, c.sk}, mask, "i8");
    }
    if (c.below(3) == 0) {
      std::vector<double> slopes = c.normal(c.hq);
      problem.alibiSlopes = slopes;
      tensorClause("alibi", {c.hq}, slopes, "f32");
    }
    if (support::takesSinks(which.monoid) && c.below(2)) {
      std::vector<double> sinks = c.normal(c.hq);
      problem.sinks = sinks;
      tensorClause("sinks", {c.hq}, sinks, "f32");
    }
    if (c.below(2)) {
      std::vector<double> lengths;
      for (int64_t n = 0; n < c.b; ++n) {
        lengths.push_back(double(c.below(c.sk + 1)));
        problem.kvLengths.push_back(int32_t(lengths.back()));
      }
      tensorClause("lengths", {c.b}, lengths, "i32");
      if (c.b == 1) // the helper writes static 1s; lengths stay as they are
        problem.kvLengths = {int32_t(lengths[0])};
    }
    int64_t causal = c.below(3);
    problem.causal = causal == 0   ? oracle::Causal::none
                     : causal == 1 ? oracle::Causal::topLeft
                                   : oracle::Causal::bottomRight;
    if (c.below(3) == 0) {
      problem.windowLeft = c.below(5) - 1;
      problem.windowRight = c.below(4) - 1;
      scalarClause("window_left", "i32", double(problem.windowLeft));
      scalarClause("window_right", "i32", double(problem.windowRight));
    }
    if (causal)
      op += std::string(" {causal = #attn.causal<") +
            (causal == 1 ? "top_left" : "bottom_right") + ">}";

    std::string results;
    for (const char *output : which.outputs) {
      bool perChannel = output[0] == 'o' || output[0] == 'v';
      results += std::string(results.empty() ? "" : ", ") +
                 (perChannel ? dims({c.b, c.hq, c.sq, c.dv}, "f32")
                             : dims({c.b, c.hq, c.sq}, "f32", 0));
    }
    std::string count = std::to_string(which.outputs.size());
    std::string uses;
    for (size_t n = 0; n < which.outputs.size(); ++n)
      uses += std::string(n ? ", " : "") + "%r#" + std::to_string(n);
    auto module =
        parseWithPrelude("func.func @f(" + parameters + ") -> (" + results +
                         ") {\n%r:" + count + " = " + op + " -> " + results +
                         "\nreturn " + uses + " : " + results + "\n}");
    ASSERT_TRUE(module);
    auto function = *module->getOps<mlir::func::FuncOp>().begin();
    auto got = evaluateReference(function, arguments);
    auto want = oracle::attention(problem);
    ASSERT_TRUE(succeeded(got)) << op;
    ASSERT_TRUE(want) << want.error();
    // What the compiler makes of the named options means the same.
    mlir::PassManager passes(&context);
    passes.addPass(createAttnToAggregatePass());
    passes.addPass(mlir::createCanonicalizerPass());
    ASSERT_TRUE(succeeded(passes.run(*module)));
    auto lowered = evaluateReference(function, arguments);
    ASSERT_TRUE(succeeded(lowered)) << op;
    for (size_t n = 0; n < which.outputs.size(); ++n) {
      std::string where = "seed " + std::to_string(seed) + ", " + which.name +
                          "." + which.outputs[n];
      oracle::Comparison result = oracle::compare(
          (*got)[n].data, outputOf(*want, which.outputs[n]), 1e-9);
      EXPECT_TRUE(result.ok) << where << ": " << result.message << "\n" << op;
      result = oracle::compare((*lowered)[n].data, (*got)[n].data, 1e-6);
      EXPECT_TRUE(result.ok)
          << where << " as an aggregate: " << result.message << "\n"
          << op;
    }
  }
}

/// Every kind of monoid through states: the product of the parts is the whole.
TEST_F(Interpreter, PartsCombineToTheWhole) {
  struct {
    const char *name;
    std::vector<const char *> state; ///< "r" per row, "v" per channel.
    const char *output;
  } monoids[] = {{"softmax", {"r", "v", "r"}, "v"},
                 {"sigmoid_sum", {"v"}, "v"},
                 {"stick_breaking", {"r", "v"}, "v"},
                 {"alpha_compositing", {"r", "v"}, "v"},
                 {"maxplus", {"v"}, "v"},
                 {"logsumexp", {"r", "r"}, "r"}};
  for (const auto &monoid : monoids)
    for (int64_t splits : {1, 3, 5}) {
      Case c(splits);
      c.b = 2, c.sq = 3, c.sk = 11;
      std::string tq = "tensor<?x?x?x5xf32>", tv = "tensor<?x?x?x4xf32>",
                  tr = "tensor<?x?x?xf32>";
      std::string parts = std::to_string(splits) + "x";
      std::string partTypes, types, names, combined;
      for (size_t i = 0; i < monoid.state.size(); ++i) {
        std::string type = monoid.state[i][0] == 'v' ? tv : tr;
        std::string separator = i ? ", " : "";
        types += separator + type;
        partTypes += separator + "tensor<" + parts + type.substr(7);
        names += separator + "%p#" + std::to_string(i);
        combined += separator + "%c#" + std::to_string(i);
      }
      std::string output = monoid.output[0] == 'v' ? tv : tr;
      std::string reduction = std::string(" @") + monoid.name +
                              " scores(%q, %k : " + tq + ", " + tq + ")";
      if (monoid.output[0] == 'v')
        reduction += " values(%v : " + tv + ")";
      std::string count = std::to_string(monoid.state.size());
      auto module = parseWithPrelude(
          "func.func @f(%q: " + tq + ", %k: " + tq + ", %v: " + tv + ") -> (" +
          output + ", " + output + ") {\n%w = attn.aggregate" + reduction +
          " -> " + output + "\n%p:" + count + " = attn.partial" + reduction +
          " {splits = " + std::to_string(splits) + " : i64} -> " + partTypes +
          "\n%c:" + count + " = attn.combine @" + monoid.name + "(" + names +
          " : " + partTypes + ") -> " + types + "\n%o = attn.finalize @" +
          monoid.name + "(" + combined + " : " + types + ") -> " + output +
          "\nreturn %w, %o : " + output + ", " + output + "\n}");
      ASSERT_TRUE(module);
      auto got = evaluateReference(
          *module->getOps<mlir::func::FuncOp>().begin(),
          {{{c.b, c.hq, c.sq, 5}, c.normal(c.b * c.hq * c.sq * 5)},
           {{c.b, c.hk, c.sk, 5}, c.normal(c.b * c.hk * c.sk * 5)},
           {{c.b, c.hk, c.sk, 4}, c.normal(c.b * c.hk * c.sk * 4)}});
      ASSERT_TRUE(succeeded(got));
      oracle::Comparison result =
          oracle::compare((*got)[1].data, (*got)[0].data, 1e-9);
      EXPECT_TRUE(result.ok)
          << monoid.name << " in " << splits << ": " << result.message;
    }
}

/// Parts of a multiple of keys: the sum of equal weights counts those of each.
TEST_F(Interpreter, PartsAreMultiplesOfTheirGranule) {
  Case c(3);
  c.b = 1, c.hq = 1, c.hk = 1, c.sq = 1, c.sk = 5;
  auto module = parseWithPrelude(R"mlir(
    func.func @f(%q: tensor<?x?x?x5xf32>, %k: tensor<?x?x?x5xf32>,
                 %v: tensor<?x?x?x4xf32>) -> tensor<3x?x?x?xf32> {
      %p:3 = attn.partial @softmax
          scores(%q, %k : tensor<?x?x?x5xf32>, tensor<?x?x?x5xf32>)
          values(%v : tensor<?x?x?x4xf32>)
          {splits = 3 : i64, granule = 4 : i64}
          -> tensor<3x?x?x?xf32>, tensor<3x?x?x?x4xf32>, tensor<3x?x?x?xf32>
      return %p#2 : tensor<3x?x?x?xf32>
    })mlir");
  ASSERT_TRUE(module);
  auto got = evaluateReference(*module->getOps<mlir::func::FuncOp>().begin(),
                               {{{1, 1, 1, 5}, std::vector<double>(5, 0.0)},
                                {{1, 1, c.sk, 5}, c.normal(c.sk * 5)},
                                {{1, 1, c.sk, 4}, c.normal(c.sk * 4)}});
  ASSERT_TRUE(succeeded(got));
  EXPECT_EQ((*got)[0].data, (std::vector<double>{4, 1, 0}));
}

/// Packed rows and a second score: what only aggregates can say.
TEST_F(Interpreter, PackedGatedDecayAgreesWithTheOracle) {
  Case c(7);
  const int64_t totalQ = 6, totalK = 9;
  std::vector<double> q = c.normal(2 * totalQ * 3), k = c.normal(totalK * 3),
                      v = c.normal(totalK * 2), gates = c.normal(totalK);
  std::vector<double> cuQ = {0, 2, 2, 6}, cuK = {0, 4, 6, 9};
  auto module = parseWithPrelude(R"(
func.func @f(%q: tensor<2x?x3xf32>, %k: tensor<1x?x3xf32>,
             %v: tensor<1x?x2xf32>, %cq: tensor<?xi32>, %ck: tensor<?xi32>,
             %gates: tensor<?xf32>) -> (tensor<2x?x2xf32>, tensor<2x?xf32>) {
  %o:2 = attn.aggregate @gated_decay
      scores(%q, %k : tensor<2x?x3xf32>, tensor<1x?x3xf32>)
      values(%v : tensor<1x?x2xf32>) captures(%gates : tensor<?xf32>)
      query_source(varlen %cq : tensor<?xi32>) key_source(varlen %ck : tensor<?xi32>)
    score {
    ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32, %g: tensor<?xf32>):
      %at = arith.index_cast %j : i32 to index
      %gate = tensor.extract %g[%at] : tensor<?xf32>
      attn.yield %s, %gate : f32, f32
    }
    mask {
    ^bb0(%b: i32, %h: i32, %i: i32, %j: i32, %g: tensor<?xf32>):
      %live = arith.cmpi sle, %j, %i : i32
      attn.yield %live : i1
    } -> tensor<2x?x2xf32>, tensor<2x?xf32>
  return %o#0, %o#1 : tensor<2x?x2xf32>, tensor<2x?xf32>
})");
  ASSERT_TRUE(module);
  auto got = evaluateReference(*module->getOps<mlir::func::FuncOp>().begin(),
                               {{{2, totalQ, 3}, q},
                                {{1, totalK, 3}, k},
                                {{1, totalK, 2}, v},
                                {{4}, cuQ},
                                {{4}, cuK},
                                {{totalK}, gates}});
  ASSERT_TRUE(succeeded(got));

  oracle::AttentionProblem problem;
  auto f64 = support::DType::f64;
  problem.q = support::denseView(q.data(), f64, {1, 2, totalQ, 3});
  problem.k = support::denseView(k.data(), f64, {1, 1, totalK, 3});
  problem.v = support::denseView(v.data(), f64, {1, 1, totalK, 2});
  problem.scale = 1.0;
  problem.causal = oracle::Causal::topLeft;
  problem.monoid = oracle::Monoid::gatedDecay;
  problem.logGate = [&](int64_t, int64_t, int64_t, int64_t j) {
    return gates[j];
  };
  problem.cuSeqlensQ = {0, 2, 2, 6};
  problem.cuSeqlensK = {0, 4, 6, 9};
  auto want = oracle::attention(problem);
  ASSERT_TRUE(want) << want.error();
  EXPECT_TRUE(oracle::compare((*got)[0].data, want->out, 1e-9).ok);
  EXPECT_TRUE(oracle::compare((*got)[1].data, want->remainder, 1e-9).ok);
}

TEST_F(Interpreter, DeadScoresHideDots) {
  // -inf is added to the first score, whatever the dot is.
  auto module = parseWithPrelude(R"(
func.func @f(%q: tensor<1x1x1x1xf32>, %k: tensor<1x1x?x1xf32>,
    %v: tensor<1x1x?x1xf32>) -> tensor<1x1x1x1xf32> {
  %o = attn.attention queries(%q : tensor<1x1x1x1xf32>)
      keys(%k : tensor<1x1x?x1xf32>) values(%v : tensor<1x1x?x1xf32>)
    score {
    ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32):
      %first = arith.constant 0 : i32
      %zero = arith.constant 0.0 : f32
      %inf = arith.constant 0xFF800000 : f32
      %live = arith.cmpi ne, %j, %first : i32
      %term = arith.select %live, %zero, %inf : f32
      %sum = arith.addf %s, %term : f32
      attn.yield %sum : f32
    } -> tensor<1x1x1x1xf32>
  return %o : tensor<1x1x1x1xf32>
})");
  ASSERT_TRUE(module);
  auto valueOf = [&](std::vector<double> keys) {
    auto got = evaluateReference(
        *module->getOps<mlir::func::FuncOp>().begin(),
        {{{1, 1, 1, 1}, {1.0}}, {{1, 1, 2, 1}, keys}, {{1, 1, 2, 1}, {5, 7}}});
    EXPECT_TRUE(succeeded(got));
    return (*got)[0].data[0];
  };
  EXPECT_EQ(valueOf({NAN, 1.0}), 7.0);
  EXPECT_EQ(valueOf({INFINITY, 1.0}), 7.0);
  EXPECT_TRUE(std::isnan(valueOf({1.0, NAN})));
}
} // namespace
