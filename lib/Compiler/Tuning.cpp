//===- Tuning.cpp - Schedules that were tuned on this machine -------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tuning.h"
#include "CacheFolder.h"
#include "DiskCache.h"
#include "attn/Analysis/ScheduleTable.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;
using attn::support::Failure;
using attn::support::Status;

/// Some hundred thousand lines.
static constexpr uint64_t kMaxBytes = 16 << 20;

/// Empty where nothing tells this library from others.
static std::string getFileName() {
  const std::string &library = attn::DiskCache::getLibraryIdentity();
  return library.empty() ? "" : "schedules-" + library + ".txt";
}

std::string attn::readTunedTable() {
  std::string name = getFileName();
  if (name.empty())
    return "";
  std::optional<CacheFolder> folder = CacheFolder::open();
  return folder ? folder->read(name, kMaxBytes).value_or("") : "";
}

/// What follows `key` in a line of the explanation.
static StringRef findLine(StringRef text, StringRef key) {
  size_t at = text.find(key);
  if (at == StringRef::npos)
    return {};
  return text.drop_front(at + key.size()).take_until([](char c) {
    return c == '\n';
  });
}

static int64_t findNumber(StringRef text, StringRef key) {
  int64_t value = 0;
  StringRef digits =
      findLine(text, key).take_while([](char c) { return isDigit(c); });
  return digits.getAsInteger(10, value) ? 0 : value;
}

Status attn::recordSchedule(const CompiledKernel &kernel, double ms) {
  StringRef text = kernel.explanation;
  StringRef problem = findLine(text, "problem: ");
  // The schedule alone: other lines speak of stages too.
  StringRef schedule = findLine(text, "#attn.schedule<").split('>').first;
  MeasuredSchedule choice;
  choice.sizes = {findNumber(schedule, "block_q = "),
                  findNumber(schedule, ", rows = "),
                  findNumber(schedule, "block_k = ")};
  choice.splits = findNumber(schedule, "splits = ");
  choice.stages = findNumber(schedule, "stages = ");
  choice.overlap = findLine(schedule, "overlap = ").split(',').first.str();
  StringRef loop = findLine(schedule, "loop = ").split(',').first;
  if (loop != "peeled")
    choice.loop = loop.str();
  if (schedule.contains("turns = "))
    choice.turns = findLine(schedule, "turns = ").split(',').first.str();
  choice.cluster = std::max<int64_t>(findNumber(schedule, "cluster = "), 1);
  if (!kernel.device || problem.empty() || choice.sizes.blockQ <= 0 ||
      text.count("problem: ") != 1 || text.contains("\nclass: "))
    return Failure{"expected a kernel for a GPU with one attention, but got "
                   "another"};
  std::string file = getFileName();
  auto folder = CacheFolder::make();
  if (!folder)
    return folder.takeFailure();
  if (file.empty())
    return Failure{"expected a library in a file, whose date tells it from "
                   "others, but got none"};
  auto [name, sizes] = problem.split(" | ");
  std::string line = printEntry(kernel.target, name, sizes, choice);
  StringRef key = StringRef(line).rsplit('|').first;
  std::string table, before = folder->read(file, kMaxBytes).value_or("");
  for (StringRef old : split(before, '\n'))
    if (!old.empty() && !old.starts_with(key))
      table += old.str() + "\n";
  raw_string_ostream(table) << line << " # " << format("%.4g ms", ms) << "\n";

  return folder->write(file, table);
}
