//===- Check.cpp - Comparing a run with what its text means ---------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Check.h"
#include "attn/Reference/Attention.h"

#include <cstdio>

using namespace attn::run;
using namespace attn::support;
namespace reference = attn::reference;

/// The type that the run computes in: that of its first tensor of floats.
static DType getWorkingType(const Kernel &kernel) {
  for (const ArgInfo &input : kernel.inputs)
    if (!input.isScalar &&
        (input.dtype == DType::f16 || input.dtype == DType::bf16 ||
         input.dtype == DType::f32))
      return input.dtype;
  return DType::f32;
}

static Result<std::vector<std::vector<double>>>
evaluate(const std::string &text, const std::string &entry,
         const std::vector<HostTensor> &inputs,
         const std::vector<HostTensor> &outputs, AttnRounding rounding) {
  std::vector<AttnTensor> ins, outs;
  for (const HostTensor &input : inputs)
    ins.push_back(input.view());
  std::vector<std::vector<double>> results;
  for (const HostTensor &output : outputs)
    results.emplace_back(output.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    AttnTensor out = outputs[i].view();
    out.data = results[i].data();
    out.dtype = ATTN_F64;
    out.strides = nullptr;
    outs.push_back(out);
  }
  AttnError *error =
      attnEvaluate(text.data(), text.size(), entry.c_str(), ins.data(),
                   ins.size(), outs.data(), outs.size(), rounding);
  if (!error)
    return results;
  Failure failure{attnErrorMessage(error)};
  attnErrorDestroy(error);
  return failure;
}

Result<std::string>
attn::run::checkText(const std::string &text, const std::string &entry,
                     const Kernel &kernel,
                     const std::vector<HostTensor> &inputs,
                     const std::vector<HostTensor> &outputs) {
  DType type = getWorkingType(kernel);
  auto exact = evaluate(text, entry, inputs, outputs, ATTN_EXACT);
  if (!exact)
    return exact.takeFailure();
  auto emulated = evaluate(text, entry, inputs, outputs,
                           type == DType::f16    ? ATTN_ROUND_F16
                           : type == DType::bf16 ? ATTN_ROUND_BF16
                                                 : ATTN_ROUND_F32);
  if (!emulated)
    return emulated.takeFailure();

  std::string report;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string &name = kernel.outputs[i].name;
    NpyArray dense = outputs[i].toNpy();
    std::vector<double> got;
    for (int64_t k = 0; k < dense.size(); ++k)
      got.push_back(dense.at(k));
    double bound =
        reference::errorBound((*exact)[i], (*emulated)[i], outputs[i].dtype);
    reference::Comparison result =
        reference::compare(got, (*exact)[i], bound, outputs[i].dtype);
    if (!result.ok)
      return Failure{"check of output '" + name +
                     "' failed: " + result.message};
    char line[160];
    std::snprintf(line, sizeof(line), "check %s: ok, error %.3g, bound %.3g\n",
                  name.c_str(), result.maxError, bound);
    report += line;
  }
  return report;
}
