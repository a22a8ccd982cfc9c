//===- OnnxCase.cpp - Test vectors of the ONNX operators ------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The rules of the operator that are not ours:
//   - a mask whose last axis is shorter than the keys is padded with dead keys,
//     also when that axis has size 1;
//   - is_causal means j <= i + offset, where the offset is the past length; or
//     nonpad_kv_seqlen[b] - sq, our bottomRight; or 0, our topLeft;
//   - a float mask is added after softcap; a boolean one keeps where true.
//
//===----------------------------------------------------------------------===//

#include "attn/Support/OnnxCase.h"

#include "attn/Support/Json.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <system_error>

using namespace ::attn::support;

namespace {

/// Reads the members of one case in order; each step returns false after
/// setting `message`.
class Loader {
public:
  explicit Loader(const std::string &directory) : directory(directory) {}

  Result<OnnxCase> load() {
    if (!readDocument() || !readAttributes() || !readTensors("inputs") ||
        !readTensors("outputs") || !setOperands() || !setMask() ||
        !setCausal() || !setExpected())
      return Failure{directory + ": " + message};
    if (Status status = validate(result.problem); !status)
      return Failure{directory + ": " + status.error()};
    return std::move(result);
  }

private:
  bool fail(std::string what) {
    message = std::move(what);
    return false;
  }

  bool readDocument() {
    std::ifstream stream(directory + "/case.json", std::ios::binary);
    if (!stream)
      return fail("expected a file case.json, but there is none");
    const std::string text((std::istreambuf_iterator<char>(stream)), {});
    Result<Json> parsed = parseJson(text);
    if (!parsed)
      return fail("case.json: " + parsed.error());
    document = std::move(*parsed);
    const Json *name = document.find("name"), *op = document.find("op");
    if (!name || !name->isString() || !op || !op->isString())
      return fail("expected the strings 'name' and 'op' in case.json");
    result.name = name->string;
    result.op = op->string;
    if (result.op != "Attention" && result.op != "FlexAttention")
      return fail("expected the operator Attention or FlexAttention, but got " +
                  result.op);
    return true;
  }

  bool readAttributes() {
    const Json *attributes = document.find("attributes");
    if (!attributes || !attributes->isObject())
      return fail("expected an object 'attributes' in case.json");
    for (const auto &[name, value] : attributes->members) {
      if (!value.isNumber())
        return fail("expected a number for " + name);
      if (name == "scale")
        result.problem.scale = value.number;
      else if (name == "softcap")
        result.problem.softcap = value.number;
      else if (name == "is_causal")
        isCausal = value.number != 0.0;
      else if (name == "q_num_heads")
        qHeads = static_cast<int64_t>(value.number);
      else if (name == "kv_num_heads")
        kvHeads = static_cast<int64_t>(value.number);
      else if (name == "qk_matmul_output_mode")
        pairsMode = static_cast<int>(value.number);
      else if (name != "softmax_precision") // We are never less precise.
        return fail("expected a supported attribute, but got " + name);
    }
    return true;
  }

  bool readTensors(const char *member) {
    const Json *list = document.find(member);
    if (!list || !list->isArray())
      return fail(std::string("expected an array '") + member +
                  "' in case.json");
    for (const Json &entry : list->elements) {
      if (entry.isNull()) // An optional tensor that the case leaves out.
        continue;
      const Json *name = entry.find("name"), *file = entry.find("file");
      if (!name || !name->isString() || !file || !file->isString())
        return fail(std::string("expected 'name' and 'file' in each of ") +
                    member);
      Result<NpyArray> array = readNpy(directory + "/" + file->string);
      if (!array)
        return fail(array.error());
      tensors[name->string] = keep(std::move(*array));
    }
    return true;
  }

  /// Hands the array to the result; its index finds it again.
  size_t keep(NpyArray array) {
    result.arrays.push_back(std::move(array));
    return result.arrays.size() - 1;
  }

  const NpyArray *find(const char *name) const {
    auto found = tensors.find(name);
    return found == tensors.end() ? nullptr : &result.arrays[found->second];
  }

  /// A [b, h, s, d] view of a rank-4 array, or of [b, s, heads * d].
  bool viewOf(const char *name, int64_t heads, TensorView &view) {
    const NpyArray *array = find(name);
    if (!array)
      return fail(std::string("expected a tensor ") + name);
    const std::vector<int64_t> &s = array->shape;
    const char *data = array->bytes.data();
    if (s.size() == 4) {
      view = denseView(data, array->dtype, {s[0], s[1], s[2], s[3]});
      return true;
    }
    if (s.size() != 3 || heads < 1 || s[2] % heads != 0)
      return fail(std::string("expected rank 4, or rank 3 with a number of "
                              "heads that divides the last axis, but got ") +
                  printShape(s) + " for " + name);
    const int64_t d = s[2] / heads;
    view = stridedView(data, array->dtype, {s[0], heads, s[1], d},
                       {s[1] * s[2], d, s[2], 1});
    return true;
  }

  /// The past followed by the new rows, dense; both as [b, h, s, d].
  bool concatenate(const char *pastName, TensorView &view) {
    const NpyArray *past = find(pastName);
    if (!past)
      return true;
    const std::array<int64_t, 4> &n = view.shape;
    const std::vector<int64_t> &s = past->shape;
    if (s.size() != 4 || s[0] != n[0] || s[1] != n[1] || s[3] != n[3] ||
        past->dtype != view.dtype)
      return fail(std::string("expected ") + pastName +
                  " with the batch, heads, head dim and type of the new rows, "
                  "but got " +
                  printShape(s));
    pastLength = s[2];
    NpyArray all = NpyArray::zeros(view.dtype, {n[0], n[1], s[2] + n[2], n[3]});
    int64_t to = 0;
    for (int64_t b = 0; b < n[0]; ++b)
      for (int64_t h = 0; h < n[1]; ++h) {
        for (int64_t at = 0; at < s[2] * s[3]; ++at)
          all.set(to++, past->at((b * n[1] + h) * s[2] * s[3] + at));
        for (int64_t i = 0; i < n[2]; ++i)
          for (int64_t c = 0; c < n[3]; ++c)
            all.set(to++, view.at(b, h, i, c));
      }
    const NpyArray &kept = result.arrays[keep(std::move(all))];
    view = denseView(kept.bytes.data(), kept.dtype,
                     {n[0], n[1], s[2] + n[2], n[3]});
    return true;
  }

  bool setOperands() {
    AttentionProblem &p = result.problem;
    return viewOf("Q", qHeads, p.q) && viewOf("K", kvHeads, p.k) &&
           viewOf("V", kvHeads, p.v) && concatenate("past_key", p.k) &&
           concatenate("past_value", p.v);
  }

  bool setMask() {
    const size_t *index = nullptr;
    if (auto found = tensors.find("attn_mask"); found != tensors.end())
      index = &found->second;
    if (!index)
      return true;
    AttentionProblem &p = result.problem;
    size_t at = *index;
    const int64_t sk = p.k.shape[2];
    if (result.arrays[at].shape.empty())
      return fail("expected attn_mask of rank 1 at least, but got a scalar");
    if (result.arrays[at].shape.back() < sk)
      at = keep(padMask(result.arrays[at], sk));
    const NpyArray &mask = result.arrays[at];
    Result<TensorView> view =
        broadcastView(mask, {p.q.shape[0], p.q.shape[1], p.q.shape[2], sk});
    if (!view)
      return fail("attn_mask: " + view.error());
    (mask.dtype == DType::boolean ? p.mask : p.bias) = *view;
    return true;
  }

  static NpyArray padMask(const NpyArray &mask, int64_t sk) {
    std::vector<int64_t> shape = mask.shape;
    const int64_t width = shape.back();
    shape.back() = sk;
    NpyArray padded = NpyArray::zeros(mask.dtype, shape);
    const double dead = mask.dtype == DType::boolean
                            ? 0.0
                            : -std::numeric_limits<double>::infinity();
    for (int64_t at = 0, end = padded.size(); at < end; ++at) {
      const int64_t row = at / sk, column = at % sk;
      padded.set(at, column < width ? mask.at(row * width + column) : dead);
    }
    return padded;
  }

  bool setCausal() {
    AttentionProblem &p = result.problem;
    const int64_t sq = p.q.shape[2], sk = p.k.shape[2];
    const NpyArray *lengths = find("nonpad_kv_seqlen");
    if (lengths) {
      if (find("past_key"))
        return fail("expected past_key or nonpad_kv_seqlen, but got both");
      for (int64_t b = 0, end = lengths->size(); b < end; ++b)
        p.kvLengths.push_back(static_cast<int32_t>(lengths->at(b)));
    }
    if (!isCausal)
      return true;
    if (lengths || (pastLength > 0 && sk - sq == pastLength)) {
      p.causal = Causal::bottomRight;
    } else if (pastLength == 0) {
      p.causal = Causal::topLeft;
    } else {
      const int64_t offset = pastLength;
      result.needsMaskMod = true;
      result.causalOffset = offset;
      p.maskMod = [offset](int64_t, int64_t, int64_t i, int64_t j) {
        return j <= i + offset;
      };
    }
    return true;
  }

  bool setExpected() {
    const AttentionProblem &p = result.problem;
    if (!viewOf("Y", qHeads, result.expectedOut))
      return false;
    const std::array<int64_t, 4> out = {p.q.shape[0], p.q.shape[1],
                                        p.q.shape[2], p.v.shape[3]};
    if (result.expectedOut.shape != out)
      return fail("expected Y of shape " +
                  printShape({out.begin(), out.end()}));
    if (find("present_key") &&
        (!viewOf("present_key", kvHeads, result.expectedPresentKey) ||
         !viewOf("present_value", kvHeads, result.expectedPresentValue)))
      return false;
    if (!find("qk_matmul_output"))
      return true;
    // Modes 0 and 1 are scores before the mask, which we never form.
    if (pairsMode == 2)
      return viewOf("qk_matmul_output", qHeads, result.expectedScores);
    if (pairsMode == 3)
      return viewOf("qk_matmul_output", qHeads, result.expectedWeights);
    return fail("expected qk_matmul_output_mode 2 or 3, but got " +
                std::to_string(pairsMode));
  }

  std::string directory;
  std::string message;
  Json document;
  OnnxCase result;
  std::map<std::string, size_t> tensors;
  bool isCausal = false;
  int64_t qHeads = 0, kvHeads = 0;
  int64_t pastLength = 0;
  int pairsMode = 0;
};

} // namespace

Result<OnnxCase> attn::support::loadOnnxCase(const std::string &directory) {
  return Loader(directory).load();
}

Result<std::vector<std::string>>
attn::support::listOnnxCases(const std::string &directory) {
  namespace fs = std::filesystem;
  std::error_code error;
  std::vector<std::string> found;
  for (fs::directory_iterator at(directory, error), end; !error && at != end;
       at.increment(error))
    if (fs::exists(at->path() / "case.json", error))
      found.push_back(at->path().string());
  if (error)
    return Failure{directory + ": expected a folder of cases, but " +
                   "reading it failed"};
  std::sort(found.begin(), found.end());
  return found;
}
