//===- Counters.cpp - What the emulator counts, and predictions -----------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Counters.h"

#include <cmath>
#include <cstdio>
#include <sstream>

using namespace ::attn::run;

std::map<std::string, double> attn::run::readCounters(const std::string &text) {
  std::map<std::string, double> result;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name;
    double value;
    if (words >> name >> value)
      result[name] += value;
  }
  return result;
}

std::string
attn::run::compareCounters(const std::string &text,
                           const std::vector<Prediction> &predictions) {
  std::map<std::string, double> counted = readCounters(text);
  std::string result;
  for (const Prediction &prediction : predictions) {
    std::string name;
    double sum = 0;
    for (const std::string &counter : prediction.counters) {
      name += (name.empty() ? "" : " + ") + counter;
      sum += counted[counter];
    }
    double off = std::fabs(sum - prediction.value) /
                 std::max(std::fabs(prediction.value), 1.0);
    bool agrees = off <= prediction.tolerance;
    bool isKnown = prediction.unknown.empty();
    char line[256];
    std::snprintf(line, sizeof(line),
                  "%s: %s: predicted %.6g, counted %.6g, %.2g %% apart%s%g %%",
                  agrees    ? "agrees"
                  : isKnown ? "DIFFERS"
                            : "unknown",
                  name.c_str(), prediction.value, sum, 100 * off,
                  agrees ? ", within " : ", more than ",
                  100 * prediction.tolerance);
    result += line;
    if (!agrees && !isKnown)
      result += ": " + prediction.unknown;
    result += "\n";
  }
  return result;
}
