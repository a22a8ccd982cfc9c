//===- ReferenceTest.cpp - The reference against the oracle ---------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Whole attentions against the oracle, which knows the shipped monoids by their
// formulas and shares no code with the interpreter.
//
//===----------------------------------------------------------------------===//

#include "attn/Interpreter/Reference.h"
#include "InterpreterFixture.h"
#include "attn/Interpreter/Algebra.h"
#include "attn/Interpreter/Interpreter.h"
#include "attn/Reference/Attention.h"
#include "attn/Support/Float16.h"
#include "mlir/Transforms/Passes.h"

#include <cmath>
#include <random>

using namespace ::attn;
namespace oracle = attn::reference;
using mlir::OwningOpRef;

namespace {
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
