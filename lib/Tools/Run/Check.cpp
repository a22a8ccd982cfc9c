//===- Check.cpp - Comparing a run with what it means ---------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Check.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

using namespace ::attn::run;
using namespace ::attn::support;
namespace reference = attn::reference;

//===----------------------------------------------------------------------===//
// Right, wrong or undecided
//===----------------------------------------------------------------------===//

namespace {
/// Decides about the outputs of one run.
class Judge {
public:
  Judge(const Meaning &meaning, const Kernel &kernel,
        const std::vector<HostTensor> &outputs, const Progress &progress);

  Result<std::string> run();

private:
  struct Verdict {
    bool isRight = false, isDecided = false;
    reference::Errors bounds;
    reference::Comparison comparison;
  };
  /// One for each output, for which emulations err by `errors`.
  std::vector<Verdict> judge(const std::vector<reference::Errors> &errors);
  /// Raises `errors` by those of an emulation.
  Status emulate(const reference::Emulation &how,
                 std::vector<reference::Errors> &errors);
  /// Takes verdicts until all are of outputs that are right, or there are no
  /// more emulations.
  Result<std::vector<Verdict>> judgeBy(const reference::Emulation &first);
  /// No rounding excuses a NaN, or a number in its place.
  bool isBeyondRounding(size_t output, const Verdict &verdict) const;
  std::string printLine(size_t output, const Verdict &verdict) const;
  std::string printErrors(size_t output, const Verdict &verdict) const;

  const Meaning &meaning;
  const Kernel &kernel;
  const std::vector<HostTensor> &outputs;
  const Progress &progress;
  std::vector<std::vector<double>> got;
};
} // namespace

Judge::Judge(const Meaning &meaning, const Kernel &kernel,
             const std::vector<HostTensor> &outputs, const Progress &progress)
    : meaning(meaning), kernel(kernel), outputs(outputs), progress(progress) {
  for (const HostTensor &output : outputs) {
    NpyArray dense = output.toNpy();
    got.emplace_back();
    for (int64_t k = 0; k < dense.size(); ++k)
      got.back().push_back(dense.at(k));
  }
}

std::vector<Judge::Verdict>
Judge::judge(const std::vector<reference::Errors> &errors) {
  std::vector<Verdict> verdicts(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    Verdict &verdict = verdicts[i];
    if (!meaning.exact[i]) {
      verdict.isRight = verdict.isDecided = true;
      continue;
    }
    const std::vector<double> &exact = *meaning.exact[i];
    DType dtype = outputs[i].dtype;
    verdict.bounds = reference::errorBars(exact, errors[i], dtype);
    if (kernel.outputs[i].name == "remainder") {
      double least = reference::productError(exact);
      verdict.bounds.raise({least, least});
    }
    verdict.comparison =
        reference::compare(got[i], exact, verdict.bounds, dtype);
    verdict.isRight = verdict.comparison.ok;
    verdict.isDecided = reference::isDecisive(exact, errors[i], verdict.bounds,
                                              meaning.scales[i]);
  }
  return verdicts;
}

Status Judge::emulate(const reference::Emulation &how,
                      std::vector<reference::Errors> &errors) {
  auto emulated = meaning.emulate(how);
  if (!emulated)
    return emulated.takeFailure();
  for (size_t i = 0; i < outputs.size(); ++i)
    if (meaning.exact[i])
      errors[i].raise(reference::maxErrors(*meaning.exact[i], (*emulated)[i]));
  return success();
}

bool Judge::isBeyondRounding(size_t output, const Verdict &verdict) const {
  if (verdict.isRight || verdict.comparison.worst < 0)
    return !verdict.isRight;
  auto at = static_cast<size_t>(verdict.comparison.worst);
  return std::isnan(got[output][at]) !=
         std::isnan((*meaning.exact[output])[at]);
}

Result<std::vector<Judge::Verdict>>
Judge::judgeBy(const reference::Emulation &first) {
  std::vector<reference::Errors> errors(outputs.size());
  std::vector<Verdict> verdicts;
  std::vector<reference::Emulation> all = reference::emulationsOf(first);
  if (!meaning.hasOperands)
    all.erase(std::remove_if(all.begin(), all.end(),
                             [](const reference::Emulation &how) {
                               return how.operands != DType::f32;
                             }),
              all.end());
  // Of the program's own tiles nothing is known here.
  for (size_t n = 0, count = all.size(); n < count; ++n)
    if (reference::sumOrders[all[n].order].tiles) {
      all.push_back(all[n]);
      all.back().tile = 16;
    }
  for (size_t n = 0; n < all.size(); ++n) {
    if (n > 0)
      progress("reference: emulation " + std::to_string(n + 1) + " of " +
               std::to_string(all.size()));
    if (Status ok = emulate(all[n], errors); !ok)
      return ok.takeFailure();
    verdicts = judge(errors);
    bool more = false;
    for (size_t i = 0; i < verdicts.size(); ++i) {
      more |= !verdicts[i].isRight;
      if (isBeyondRounding(i, verdicts[i]))
        return verdicts;
    }
    if (!more)
      break;
  }
  return verdicts;
}

std::string Judge::printLine(size_t output, const Verdict &verdict) const {
  const std::string &name = kernel.outputs[output].name;
  if (!meaning.exact[output])
    return "check " + name + ": the reference does not compute it\n";
  return "check " + name + ": ok, " + printErrors(output, verdict) + "\n";
}

std::string Judge::printErrors(size_t output, const Verdict &verdict) const {
  const reference::Comparison &found = verdict.comparison;
  // The bound that the worst entry is held to.
  double bound = verdict.bounds.fine;
  if (found.worst >= 0)
    bound = verdict.bounds.of(
        (*meaning.exact[output])[static_cast<size_t>(found.worst)]);
  char line[80];
  std::snprintf(line, sizeof(line), "error %.3g, bound %.3g", found.maxError,
                bound);
  return line;
}

Result<std::string> Judge::run() {
  auto verdicts = judgeBy(meaning.emulation);
  if (!verdicts)
    return verdicts.takeFailure();
  // Scores of 16 bits leave little of large ones. What is right with scores in
  // f32, as compiled code has them, needs no wider bound.
  std::optional<std::vector<Verdict>> wide;
  std::string report, undecided;
  for (size_t i = 0; i < outputs.size(); ++i) {
    Verdict &verdict = (*verdicts)[i];
    const std::string &name = kernel.outputs[i].name;
    auto fail = [&] {
      return Failure{"check of output '" + name +
                     "' failed: " + verdict.comparison.message};
    };
    if (!verdict.isRight)
      return fail();
    if (!verdict.isDecided && meaning.emulation.dtype != DType::f32) {
      if (!wide) {
        reference::Emulation how = meaning.emulation;
        how.wideScores = true;
        auto found = judgeBy(how);
        if (!found)
          return found.takeFailure();
        wide = std::move(*found);
      }
      if ((*wide)[i].isDecided)
        verdict = (*wide)[i];
    }
    if (!verdict.isRight)
      return fail();
    report += printLine(i, verdict);
    if (!verdict.isDecided && undecided.empty())
      undecided = "check of output '" + name +
                  "' undecided: " + printErrors(i, verdict) +
                  ", which is the size of the output itself";
  }
  if (undecided.empty())
    return report;
  return Failure{undecided};
}

Result<std::string>
attn::run::checkOutputs(const Meaning &meaning, const Kernel &kernel,
                        const std::vector<HostTensor> &outputs,
                        const Progress &progress) {
  return Judge(meaning, kernel, outputs, progress).run();
}

//===----------------------------------------------------------------------===//
// The meaning of a text
//===----------------------------------------------------------------------===//

/// The type that the run computes in: that of its first tensor of floats.
static DType getWorkingType(const Kernel &kernel) {
  for (const ArgInfo &input : kernel.inputs)
    if (!input.isScalar &&
        (input.dtype == DType::f16 || input.dtype == DType::bf16 ||
         input.dtype == DType::f32))
      return input.dtype;
  return DType::f32;
}

static void reportRow(void *user, int64_t row, int64_t count) {
  (*static_cast<const Progress *>(user))("reference: row " +
                                         std::to_string(row + 1) + " of " +
                                         std::to_string(count));
}

static Result<Meaning::Outputs> evaluate(const std::string &text,
                                         const std::string &entry,
                                         const std::vector<HostTensor> &inputs,
                                         const std::vector<HostTensor> &outputs,
                                         AttnEvaluateOptions how,
                                         Progress progress) {
  how.structSize = sizeof(how);
  how.progress = reportRow;
  how.progressUser = &progress;
  std::vector<AttnTensor> ins, outs;
  for (const HostTensor &input : inputs)
    ins.push_back(input.view());
  Meaning::Outputs results;
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
      attnEvaluateWith(text.data(), text.size(), entry.c_str(), ins.data(),
                       ins.size(), outs.data(), outs.size(), &how);
  if (!error)
    return results;
  Failure failure{attnErrorMessage(error)};
  attnErrorDestroy(error);
  return failure;
}

Result<std::string> attn::run::checkText(const std::string &text,
                                         const std::string &entry,
                                         const Kernel &kernel,
                                         const std::vector<HostTensor> &inputs,
                                         const std::vector<HostTensor> &outputs,
                                         const Progress &progress) {
  auto exact = evaluate(text, entry, inputs, outputs, {}, progress);
  if (!exact)
    return exact.takeFailure();
  Meaning meaning;
  for (std::vector<double> &output : *exact)
    meaning.exact.push_back(std::move(output));
  meaning.scales.assign(outputs.size(), 1.0);
  meaning.emulation.dtype = getWorkingType(kernel);
  meaning.emulate = [&](const reference::Emulation &how) {
    AttnEvaluateOptions options = {};
    options.rounding = how.dtype == DType::f16    ? ATTN_ROUND_F16
                       : how.dtype == DType::bf16 ? ATTN_ROUND_BF16
                                                  : ATTN_ROUND_F32;
    options.order = how.order;
    options.tile = int32_t(how.tile);
    options.wideScores = how.wideScores;
    return evaluate(text, entry, inputs, outputs, options, progress);
  };
  return checkOutputs(meaning, kernel, outputs, progress);
}
