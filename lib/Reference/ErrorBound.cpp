//===- ErrorBound.cpp - How far from the oracle is right ------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Reference/Attention.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdio>

using namespace ::attn;
using namespace ::attn::reference;

double reference::maxError(const std::vector<double> &reference,
                           const std::vector<double> &other) {
  assert(reference.size() == other.size() && "comparing unlike outputs");
  double worst = 0.0;
  // A dtype may overflow where the reference does not. That excuses nothing:
  // an infinite error would make every bound infinite.
  for (size_t n = 0; n < reference.size(); ++n)
    if (std::isfinite(reference[n]) && std::isfinite(other[n]))
      worst = std::max(worst, std::fabs(reference[n] - other[n]));
  return worst;
}

double reference::errorBound(const std::vector<double> &reference,
                             const std::vector<double> &emulated,
                             DType outDType, double errorFactor) {
  return errorBar(reference, maxError(reference, emulated), outDType,
                  errorFactor);
}

std::vector<Emulation> reference::emulationsOf(const Emulation &first) {
  std::vector<Emulation> all;
  auto add = [&](DType dtype, DType operands) {
    for (int order = 0; order < numOrders; ++order) {
      all.push_back(first);
      all.back().order = order;
      all.back().dtype = dtype;
      all.back().operands = operands;
    }
  };
  add(first.dtype, DType::f32);
  if (first.dtype != DType::f32) {
    add(DType::f32, DType::f32);
    add(DType::f32, first.dtype);
  }
  return all;
}

Errors reference::maxErrors(const std::vector<double> &reference,
                            const std::vector<double> &other) {
  assert(reference.size() == other.size() && "comparing unlike outputs");
  Errors worst;
  for (size_t n = 0; n < reference.size(); ++n)
    if (std::isfinite(reference[n]) && std::isfinite(other[n])) {
      double &e = worst.of(reference[n]);
      e = std::max(e, std::fabs(reference[n] - other[n]));
    }
  return worst;
}

/// The sizes of the largest finite entries of both kinds.
static Errors largestOf(const std::vector<double> &reference) {
  Errors largest;
  for (double x : reference)
    if (std::isfinite(x))
      largest.of(x) = std::max(largest.of(x), std::fabs(x));
  return largest;
}

static double errorBarOf(double largest, double e, DType outDType,
                         double errorFactor) {
  double ulp = support::epsilonOf(outDType) * largest;
  if (largest > 0.0)
    ulp = std::max(ulp, support::smallestSubnormalOf(outDType));
  return errorFactor * e + 2.0 * ulp;
}

Errors reference::errorBars(const std::vector<double> &reference,
                            const Errors &errors, DType outDType) {
  Errors largest = largestOf(reference);
  return {errorBarOf(largest.fine, errors.fine, outDType, 2.0),
          errorBarOf(largest.coarse, errors.coarse, outDType, 2.0)};
}

double reference::productError(const std::vector<double> &products) {
  double worst = 0.0;
  for (double x : products)
    if (x > 0.0 && std::isfinite(x))
      worst = std::max(worst, std::fabs(x * std::log(x)) * 0x1p-22);
  return worst;
}

bool reference::isDecisive(const std::vector<double> &reference,
                           const Errors &errors, const Errors &bounds,
                           double scale) {
  Errors largest = largestOf(reference);
  auto decides = [&](double largest, double e, double bound) {
    if (bound == 0.0 || bound <= largest / 2.0)
      return true;
    return largest <= 0x1p-20 * e && bound <= scale / 16.0;
  };
  // Without an entry the bound is 0.
  return decides(largest.fine, errors.fine, bounds.fine) &&
         decides(largest.coarse, errors.coarse, bounds.coarse);
}

double reference::errorBar(const std::vector<double> &reference, double e,
                           DType outDType, double errorFactor) {
  double largest = 0.0;
  for (double x : reference)
    if (std::isfinite(x))
      largest = std::max(largest, std::fabs(x));
  return errorBarOf(largest, e, outDType, errorFactor);
}

/// Whether the error of `got` is a number, rather than right or wrong.
static bool haveDistance(double got, double want) {
  return std::isfinite(got) && std::isfinite(want);
}

bool reference::isWithin(double got, double want, double bound,
                         DType outDType) {
  if (std::isnan(want) ? std::isnan(got) : got == want)
    return true;
  // A NaN bound compares false: it is no bound at all.
  if (haveDistance(got, want))
    return std::fabs(got - want) <= bound;
  return std::isinf(got) && std::isfinite(want) && std::isfinite(bound) &&
         support::roundTo(outDType, want + std::copysign(bound, got)) == got;
}

Comparison reference::compare(const std::vector<double> &got,
                              const std::vector<double> &reference,
                              double bound, DType outDType) {
  return compare(got, reference, Errors{bound, bound}, outDType);
}

Comparison reference::compare(const std::vector<double> &got,
                              const std::vector<double> &reference,
                              const Errors &bounds, DType outDType) {
  Comparison result;
  double worstShare = -1.0;
  auto differ = [&](size_t n) {
    result.ok = false;
    result.worst = static_cast<int64_t>(n);
    char text[160];
    std::snprintf(text, sizeof(text),
                  "expected %.9g at %zu within %.3g, but got %.9g",
                  reference[n], n, bounds.of(reference[n]),
                  // A NaN has no sign that says anything.
                  std::isnan(got[n]) ? std::fabs(got[n]) : got[n]);
    result.message = text;
  };

  if (got.size() != reference.size()) {
    result.ok = false;
    result.message = "expected " + std::to_string(reference.size()) +
                     " entries, but got " + std::to_string(got.size());
    return result;
  }
  for (size_t n = 0; n < got.size(); ++n) {
    const double x = got[n], want = reference[n];
    if (!haveDistance(x, want)) {
      if (isWithin(x, want, bounds.of(want), outDType))
        continue;
      differ(n);
      return result;
    }
    const double error = std::fabs(x - want), bound = bounds.of(want);
    // A NaN bound compares false: it is no bound at all.
    const double share = error == 0.0           ? 0.0
                         : error / bound >= 0.0 ? error / bound
                                                : HUGE_VAL;
    if (error > 0.0 && share > worstShare) {
      worstShare = share;
      result.maxError = error;
      result.worst = static_cast<int64_t>(n);
    }
  }
  if (result.worst >= 0 &&
      !(result.maxError <=
        bounds.of(reference[static_cast<size_t>(result.worst)])))
    differ(static_cast<size_t>(result.worst));
  return result;
}
