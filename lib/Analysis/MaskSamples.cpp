//===- MaskSamples.cpp - What a mask reads of rows or keys alone ----------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Analysis/MaskAnalysis.h"

using namespace mlir;
using namespace ::attn;

Value MaskAnalysis::sampled(Value value) {
  if (!value.getType().isSignlessInteger() ||
      value.getType().getIntOrFloatBitWidth() > 32 ||
      onRow.contains(value) == onKey.contains(value))
    return {};
  if (llvm::none_of(samples, [&](const Sample &s) { return s.value == value; }))
    samples.push_back({value, onKey.contains(value)});
  return value;
}

/// A value may be noted on the way to a reading that does without it.
void MaskAnalysis::dropUnusedSamples() {
  llvm::DenseSet<Value> used;
  llvm::SmallVector<int> openForms, openExpressions = {root};
  llvm::DenseSet<int> seenForms, seenExpressions;
  for (const Requirement &requirement : requirements)
    openForms.push_back(requirement.form);
  while (!openForms.empty() || !openExpressions.empty()) {
    if (openForms.empty()) {
      int number = openExpressions.pop_back_val();
      if (number < 0 || !seenExpressions.insert(number).second)
        continue;
      const Expression &e = expressions[number];
      if (e.kind == Expression::Unknown)
        used.insert(e.value);
      openForms.push_back(e.form);
      openExpressions.append({e.lhs, e.rhs});
      continue;
    }
    int number = openForms.pop_back_val();
    if (number < 0 || !seenForms.insert(number).second)
      continue;
    for (auto [factor, which] : forms[number].terms) {
      const Term &term = terms[which];
      if (term.kind == Term::Unknown)
        used.insert(term.value);
      openForms.append({term.lhs, term.rhs});
      openExpressions.append({term.condition, term.negated});
    }
  }
  llvm::erase_if(samples,
                 [&](const Sample &s) { return !used.contains(s.value); });
}
