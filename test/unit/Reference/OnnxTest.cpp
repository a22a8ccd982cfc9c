//===- OnnxTest.cpp - The oracle against the ONNX vectors -----------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Checks.h"

#include "attn/Support/OnnxCase.h"

#include <filesystem>
#include <fstream>

using namespace ::attn;
using namespace ::attn::reference;
using namespace ::attn::test;

namespace {

/// The expected files come from a computation in the dtype of Q; it is one
/// more rounding walk of the same length as our emulation.
void checkAgainst(const std::vector<double> &got, const TensorView &expected,
                  const std::vector<double> &emulated,
                  const std::string &what) {
  if (expected)
    checkClose(support::toDense(expected), got,
               errorBound(got, emulated, expected.dtype), what);
}

void runCase(const std::string &directory) {
  auto loaded = support::loadOnnxCase(directory);
  check(bool(loaded), loaded.error());
  if (!loaded)
    return;
  const AttentionProblem &p = loaded->problem;
  const std::string &name = loaded->name;

  OracleOptions options;
  options.keepPairs = true;
  Emulation emulation;
  emulation.dtype = p.q.dtype;
  auto exact = attention(p, options);
  auto emulated = emulatedAttention(p, emulation, options);
  check(exact && emulated, name + ": " + exact.error() + emulated.error());
  if (!exact || !emulated)
    return;

  checkAgainst(exact->out, loaded->expectedOut, emulated->out, name + " Y");
  checkAgainst(exact->scores, loaded->expectedScores, emulated->scores,
               name + " qk_matmul_output, mode 2");
  checkAgainst(exact->weights, loaded->expectedWeights, emulated->weights,
               name + " qk_matmul_output, mode 3");
  if (loaded->expectedPresentKey)
    checkClose(support::toDense(p.k),
               support::toDense(loaded->expectedPresentKey), 0.0,
               name + " present_key");
  if (loaded->expectedPresentValue)
    checkClose(support::toDense(p.v),
               support::toDense(loaded->expectedPresentValue), 0.0,
               name + " present_value");
}

using support::NpyArray;

/// A case of our own making, for the rules that no stored vector exercises:
/// one head, two queries, `keys` new keys, all tensors zero unless given.
class SmallCase {
public:
  SmallCase(const std::string &scratch, int64_t keys)
      : directory(scratch + "/reference-test-case") {
    std::filesystem::create_directories(directory);
    add("Q", NpyArray::zeros(DType::f32, {1, 1, 2, 1}));
    add("K", NpyArray::zeros(DType::f32, {1, 1, keys, 1}));
    add("V", NpyArray::zeros(DType::f32, {1, 1, keys, 1}));
  }
  ~SmallCase() { std::filesystem::remove_all(directory); }

  void add(const std::string &name, const NpyArray &array) {
    auto written = writeNpy(directory + "/" + name + ".npy", array);
    check(bool(written), written.error());
    inputs += std::string(inputs.empty() ? "" : ", ") + "{\"name\": \"" + name +
              "\", \"file\": \"" + name + ".npy\"}";
  }

  /// Loads the case; `what` of the operator and its attributes come from here.
  support::Result<support::OnnxCase> load(const std::string &attributes,
                                          const std::string &op = "Attention") {
    const NpyArray y = NpyArray::zeros(DType::f32, {1, 1, 2, 1});
    check(bool(writeNpy(directory + "/Y.npy", y)), "Y is written");
    std::ofstream(directory + "/case.json")
        << "{\"name\": \"small\", \"op\": \"" << op << "\", \"attributes\": {"
        << attributes << "}, \"inputs\": [null, " << inputs
        << "], \"outputs\": [{\"name\": \"Y\", \"file\": \"Y.npy\"}]}";
    return support::loadOnnxCase(directory);
  }

  /// Which keys of each query are live, as rows of 0 and 1.
  std::vector<double> liveKeys(const std::string &attributes) {
    auto loaded = load(attributes);
    check(bool(loaded), loaded.error());
    if (!loaded)
      return {};
    OracleOptions options;
    options.keepPairs = true;
    std::vector<double> live = attention(loaded->problem, options)->scores;
    for (double &x : live)
      x = x == -inf ? 0.0 : 1.0;
    return live;
  }

private:
  std::string directory, inputs;
};

void testRules(const std::string &scratch) {
  NpyArray ones = NpyArray::zeros(DType::boolean, {2, 3});
  for (int64_t n = 0; n < 6; ++n)
    ones.set(n, 1.0);
  {
    SmallCase c(scratch, 4);
    c.add("attn_mask", ones);
    checkClose(c.liveKeys(""), {1, 1, 1, 0, 1, 1, 1, 0}, 0.0,
               "a short boolean mask is padded with dead keys");
  }
  {
    SmallCase c(scratch, 4);
    c.add("attn_mask", NpyArray::zeros(DType::f32, {1, 1, 1, 1}));
    checkClose(c.liveKeys(""), {1, 0, 0, 0, 1, 0, 0, 0}, 0.0,
               "a float mask of one column is padded, not broadcast");
  }
  const NpyArray past = NpyArray::zeros(DType::f32, {1, 1, 1, 1});
  for (int64_t keys : {int64_t(2), int64_t(3)}) {
    // Past of 1: query i sees keys up to i + 1, whatever the new keys are.
    SmallCase c(scratch, keys);
    c.add("past_key", past);
    c.add("past_value", past);
    std::vector<double> want = {1, 1, 0, 1, 1, 1};
    if (keys == 3)
      want = {1, 1, 0, 0, 1, 1, 1, 0};
    checkClose(c.liveKeys("\"is_causal\": 1"), want, 0.0, "causal with a past");
    auto loaded = c.load("\"is_causal\": 1");
    check(loaded && loaded->needsMaskMod == (keys == 3),
          "a past needs a mask_mod where no alignment says it");
  }
  {
    SmallCase c(scratch, 2);
    checkError(c.load("\"new_option\": 1").error(),
               "expected a supported attribute, but got new_option",
               "an unknown attribute");
    checkError(c.load("\"scale\": \"x\"").error(),
               "expected a number for scale", "a scale of text");
    checkError(c.load("", "LinearAttention").error(),
               "expected the operator Attention or FlexAttention",
               "another operator");
    c.add("past_key", NpyArray::zeros(DType::f32, {1, 1, 1, 2}));
    checkError(c.load("").error(), "expected past_key with the batch",
               "a past of another head dim");
  }
  {
    SmallCase c(scratch, 4);
    c.add("attn_mask", NpyArray::zeros(DType::f32, {3, 4}));
    checkError(c.load("").error(),
               "attn_mask: expected a shape that broadcasts to",
               "a mask of three queries for two");
  }
}

} // namespace

void attn::test::runOnnxTests(const std::string &vectors,
                              const std::string &scratch) {
  testRules(scratch);
  auto cases = support::listOnnxCases(vectors);
  check(bool(cases), cases.error());
  if (!cases)
    return;
  // A wrong path must not pass as "all of no cases".
  check(cases->size() >= 29, "expected 29 ONNX cases at least, but got " +
                                 std::to_string(cases->size()));
  for (const std::string &directory : *cases)
    runCase(directory);
  checkError(support::loadOnnxCase(vectors + "/absent").error(),
             "expected a file case.json", "a case that is not there");
}
