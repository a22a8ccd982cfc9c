//===- OnnxCase.h - Test vectors of the ONNX operators ----------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Turns a stored test case of the ONNX operators Attention (opsets 23 and 24)
// and FlexAttention into an AttentionProblem, so that the same case checks the
// oracle, a compiled kernel and the Python package. A case is a folder with a
// case.json (attributes, inputs, outputs) and one .npy file per tensor.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_SUPPORT_ONNXCASE_H
#define ATTN_SUPPORT_ONNXCASE_H

#include "attn/Support/Problem.h"
#include "attn/Support/Result.h"

#include <string>
#include <vector>

namespace attn::support {

/// A loaded case. The views of `problem` and of the expected outputs look into
/// `arrays`, whose bytes stay in place when the case is moved; a copy would
/// share them by accident, so there is none.
struct OnnxCase {
  OnnxCase() = default;
  OnnxCase(OnnxCase &&) = default;
  OnnxCase &operator=(OnnxCase &&) = default;
  OnnxCase(const OnnxCase &) = delete;
  OnnxCase &operator=(const OnnxCase &) = delete;

  std::string name, op;

  /// q, k and v are [b, h, s, d] views, also of the 3-D layout [b, s, h * d];
  /// k and v hold the past followed by the new keys.
  AttentionProblem problem;

  /// Causal with a past whose new keys are not as many as the queries: neither
  /// named alignment says that, so the problem carries it as a maskMod, which
  /// is `j <= i + causalOffset`.
  bool needsMaskMod = false;
  int64_t causalOffset = 0;

  /// [b, hq, sq, dv], whatever the layout of the file.
  TensorView expectedOut;
  /// What k and v of the problem must be; not given without a cache.
  TensorView expectedPresentKey, expectedPresentValue;
  /// [b, hq, sq, sk]; not given where the case does not ask for them.
  TensorView expectedScores;  ///< qk_matmul_output_mode 2: final scores.
  TensorView expectedWeights; ///< qk_matmul_output_mode 3: probabilities.

  std::vector<NpyArray> arrays;
};

/// Loads the case in `directory`.
Result<OnnxCase> loadOnnxCase(const std::string &directory);

/// The folders of `directory` that hold a case, sorted by name.
Result<std::vector<std::string>> listOnnxCases(const std::string &directory);

} // namespace attn::support

#endif // ATTN_SUPPORT_ONNXCASE_H
