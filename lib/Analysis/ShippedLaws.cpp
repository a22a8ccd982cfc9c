//===- ShippedLaws.cpp - What is known of the laws of shipped monoids -----===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
// A check finds the same of the same text each time, so what it finds of the
// prelude's monoids is kept in ShippedLaws.txt, by the SHA-256 of their text: a
// monoid that differs by a character, its name included, has no line there and
// is checked. LawMutationTest checks all of them again and compares.
//===----------------------------------------------------------------------===//

#include "LawChecker.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/SHA256.h"
#include "llvm/Support/raw_ostream.h"

using namespace ::attn;
using namespace llvm;

static constexpr StringLiteral shippedText =
#include "ShippedLaws.inc"
    ;

static constexpr std::pair<StringLiteral, bool LawReport::*> properties[] = {
    {"combine-commutes", &LawReport::combineCommutes},
    {"commutative", &LawReport::isCommutative},
    {"trivial-statistics", &LawReport::statsTrivial},
    {"trivial-factors", &LawReport::factorsTrivial},
    {"rescale-absorbs", &LawReport::rescaleAbsorbs},
    {"dead-is-natural", &LawReport::deadIsNatural},
    {"least-score-is-finite", &LawReport::leastScoreIsFinite},
    {"nan-reaches-weights", &LawReport::nanReachesWeights},
    {"relaxed-maximum", &LawReport::relaxedMax}};

/// Who may use a monoid says nothing of its laws.
static std::string hashOf(StringRef text) {
  text.consume_front("attn.monoid ");
  text.consume_front("private ");
  return toHex(SHA256::hash(arrayRefFromStringRef(text)), /*LowerCase=*/true);
}

static StringRef nameIn(StringRef text) {
  return text.split('@').second.take_until([](char c) { return c == ' '; });
}

std::string attn::detail::printReport(StringRef text, const LawReport &report) {
  assert(report.isLawful() && "only those are shipped");
  std::string line;
  raw_string_ostream stream(line);
  stream << nameIn(text) << ' ' << hashOf(text);
  for (auto [name, property] : properties)
    if (report.*property)
      stream << ' ' << name;
  for (bool holds : report.finalize.gaugeInvariant)
    stream << " gauge-invariant=" << holds;
  for (bool holds : report.finalize.spreadsNaN)
    stream << " spreads-nan=" << holds;
  for (double weight : report.largestWeight)
    stream << " largest-weight=" << format("%a", weight);
  stream << " nan-on-identity=" << report.finalize.nanOnIdentity
         << " threshold=" << report.threshold;
  return line;
}

/// The words behind the hash of a line.
static std::shared_ptr<const LawReport> parseReport(StringRef words) {
  auto report = std::make_shared<LawReport>();
  for (StringRef word : split(words, ' ')) {
    StringRef name, value;
    std::tie(name, value) = word.split('=');
    int number = 0;
    if (value.empty()) {
      const auto *found = find_if(
          properties, [&](const auto &entry) { return entry.first == name; });
      assert(found != std::end(properties) && "a property that is unknown");
      (*report).*(found->second) = true;
    } else if (name == "largest-weight") {
      report->largestWeight.push_back(
          std::strtod(value.str().c_str(), nullptr));
    } else if (value.getAsInteger(10, number)) {
      llvm_unreachable("no number");
    } else if (name == "gauge-invariant") {
      report->finalize.gaugeInvariant.push_back(number);
    } else if (name == "spreads-nan") {
      report->finalize.spreadsNaN.push_back(number);
    } else if (name == "nan-on-identity") {
      report->finalize.nanOnIdentity = number;
    } else {
      assert(name == "threshold" && "a number that is unknown");
      report->threshold = number;
    }
  }
  return report;
}

std::shared_ptr<const LawReport> attn::detail::lookupReport(StringRef text) {
  std::string hash = hashOf(text);
  for (StringRef line : split(shippedText, '\n')) {
    line.consume_front(nameIn(text));
    if (line.consume_front(" ") && line.consume_front(hash) &&
        line.consume_front(" "))
      return parseReport(line);
  }
  return nullptr;
}
