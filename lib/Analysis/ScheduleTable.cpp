//===- ScheduleTable.cpp - Schedules that were measured -------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Analysis/ScheduleTable.h"

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <vector>

using namespace ::attn;

static const char *const shipped =
#include "Schedules.inc"
    ;

std::string_view attn::shippedSchedules() { return shipped; }

static std::string join(const std::vector<int64_t> &numbers) {
  std::string text;
  for (int64_t number : numbers)
    text += (text.empty() ? "" : ",") + std::to_string(number);
  return text.empty() ? "none" : text;
}

std::string attn::printProblem(const ScheduleProblem &problem) {
  std::string text = "d=" + join(problem.depths) +
                     " dv=" + join(problem.channels) +
                     (problem.narrowDots ? " 16-bit" : " 32-bit");
  if (problem.narrowDots != problem.narrowValues)
    text += problem.narrowValues ? " 16-bit-values" : " 32-bit-values";
  if (problem.tf32)
    text += problem.heldQueries ? " tf32 held-queries" : " tf32";
  if (problem.masked)
    text += " masked";
  if (!problem.wholeTiles)
    text += " keywise";
  if (problem.folded)
    text += " folded";
  if (problem.gathered)
    text += " gathered";
  if (problem.extraScores)
    text += " scores=" + std::to_string(1 + problem.extraScores);
  return text;
}

static std::string roundUp(int64_t size) {
  if (size < 0)
    return "?";
  int64_t power = 1;
  while (power < size && power < (int64_t(1) << 40))
    power *= 2;
  return std::to_string(power);
}

std::string attn::printSizes(const ScheduleProblem &problem) {
  return "heads=" + roundUp(problem.numHeads) +
         " rows=" + roundUp(problem.numQueries) +
         " keys=" + roundUp(problem.numKeys);
}

std::string attn::printEntry(std::string_view target, std::string_view problem,
                             std::string_view sizes,
                             const MeasuredSchedule &choice) {
  std::string line(target);
  line.append(" | ").append(problem).append(" | ").append(sizes);
  line += " | " + std::to_string(choice.sizes.blockQ) + " " +
          std::to_string(choice.sizes.rows) + " " +
          std::to_string(choice.sizes.blockK);
  if (choice.splits > 1)
    line += " splits=" + std::to_string(choice.splits);
  if (choice.stages > 0)
    line += " stages=" + std::to_string(choice.stages);
  if (!choice.overlap.empty())
    line += " overlap=" + choice.overlap;
  if (!choice.loop.empty())
    line += " loop=" + choice.loop;
  if (!choice.turns.empty())
    line += " turns=" + choice.turns;
  if (choice.cluster > 1)
    line += " cluster=" + std::to_string(choice.cluster);
  return line;
}

static std::string_view trim(std::string_view text) {
  size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos)
    return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

/// "128 64 96 stages=3": nothing where that is no schedule.
static std::optional<MeasuredSchedule> parseChoice(std::string_view text) {
  std::istringstream words{std::string(text)};
  MeasuredSchedule choice;
  auto &[blockQ, rows, blockK] = choice.sizes;
  if (!(words >> blockQ >> rows >> blockK) || rows <= 0 || blockQ < rows ||
      blockQ % rows || blockK <= 0 || blockQ > 4096 || blockK > 4096)
    return std::nullopt;
  auto number = [](const std::string &value, int64_t most) -> int64_t {
    char *end = nullptr;
    long long result = std::strtoll(value.c_str(), &end, 10);
    return !value.empty() && !*end && result > 0 && result <= most ? result : 0;
  };
  for (std::string word; words >> word;) {
    size_t equals = std::min(word.find('='), word.size() - 1);
    std::string key = word.substr(0, equals), value = word.substr(equals + 1);
    bool known = false;
    if (key == "splits")
      known = (choice.splits = number(value, 64));
    else if (key == "stages")
      known = (choice.stages = number(value, 16));
    else if (key == "overlap" && (value == "own_step" || value == "none")) {
      choice.overlap = value;
      known = true;
    } else if (key == "loop" &&
               (value == "peeled" || value == "masked" || value == "plain")) {
      choice.loop = value;
      known = true;
    } else if (key == "turns" &&
               (value == "none" || value == "products" || value == "softmax")) {
      choice.turns = value;
      known = value == "none" || blockQ > rows;
    } else if (key == "cluster") {
      choice.cluster = number(value, 8);
      known = choice.cluster == 2 || choice.cluster == 4 || choice.cluster == 8;
    }
    if (!known)
      return std::nullopt;
  }
  return choice;
}

std::optional<MeasuredSchedule>
attn::findSchedule(std::string_view table, const ScheduleProblem &problem,
                   const TargetInfo &target) {
  const std::string name = printProblem(problem), sizes = printSizes(problem);
  std::optional<MeasuredSchedule> anySizes;
  while (!table.empty()) {
    size_t end = table.find('\n');
    std::string_view line = table.substr(0, end);
    table.remove_prefix(end == std::string_view::npos ? table.size() : end + 1);
    line = line.substr(0, line.find('#'));
    std::string_view parts[4];
    size_t count = 0;
    for (; count < 4; ++count) {
      size_t bar = line.find('|');
      parts[count] = trim(line.substr(0, bar));
      if (bar == std::string_view::npos)
        break;
      line.remove_prefix(bar + 1);
    }
    if (count != 3 || parts[0] != target.name || parts[1] != name)
      continue;
    bool isAny = parts[2] == "*";
    if (isAny ? anySizes.has_value() : parts[2] != sizes)
      continue;
    std::optional<MeasuredSchedule> choice = parseChoice(parts[3]);
    if (!choice)
      continue;
    if (!isAny)
      return choice;
    anySizes = choice;
  }
  return anySizes;
}
