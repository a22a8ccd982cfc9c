//===- Options.cpp - What attn-fuzz was asked for -------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Options.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <set>

using namespace ::attn::fuzz;

/// What --tamper does to the compiler's work, so that the tool can be seen to
/// fail.
static const std::string tampers[] = {
    "weights",  // the monoid adds a little to every sum of weights, or a scan
                // reads its gates one token off
    "keys",     // keys are read one row off
    "rounding", // outputs lose the last bits of their mantissa
    "rerun",    // the second run has another bit
    "guard",    // a byte beside an output is written
    "input"};   // an input is written

static const char *const usage =
    "usage: attn-fuzz [--cases N] [--seed S] [--family F] [--case K]\n"
    "                 [--kernels M] [--target T] [--device D] [--jobs J]\n"
    "                 [--clean] [--verbose] [--print-ir] [--compile-only]\n"
    "                 [--tamper HOW]\n"
    "\n"
    "Compares N random attentions with the oracle. Case K runs kernel K % M.\n"
    "--device cuda runs them on the GPU (for its best target, unless --target\n"
    "names another), between bands of NaN. --device emulator:sm_90a runs code\n"
    "for that GPU on the CPU, each case under two schedules of its own, or "
    "under\n"
    "those of ATTN_EMULATOR.\n"
    "--jobs works in J processes, which outlive the crash of a case.\n"
    "--clean leaves finite values in slots that no query may see.\n"
    "--tamper spoils what the compiler did, which has to be found: weights,\n"
    "keys, rounding, rerun, guard, input.\n"
    "Families: options, masks, scores, monoids, own, packed, schedules,\n"
    "precision, which take turns, and edges: masks of -1e9 and less, padding,\n"
    "strides, views, scales, scores and sinks at the ends of their ranges;\n"
    "paged and ring: keys in pages, and in caches written round and round;\n"
    "scan: attn.scan in all its forms, whole and in pieces.\n";

std::string attn::fuzz::commandFor(const Options &options, int64_t index) {
  std::string command = "attn-fuzz --seed " + std::to_string(options.seed) +
                        " --case " + std::to_string(index);
  if (options.kernels != Options().kernels)
    command += " --kernels " + std::to_string(options.kernels);
  if (options.family)
    command += std::string(" --family ") + nameOf(*options.family);
  if (options.device)
    command += " --device cuda";
  if (!options.target.empty())
    command += " --target " + options.target;
  if (!options.tamper.empty())
    command += " --tamper " + options.tamper;
  return command;
}

void attn::fuzz::fail(const std::string &message) {
  std::fprintf(stderr, "attn-fuzz: error: %s\n", message.c_str());
  std::exit(2);
}

static int64_t parseNumber(const char *option, const char *text) {
  char *end = nullptr;
  long long value = std::strtoll(text, &end, 10);
  if (!*text || *end || value < 0)
    fail(std::string("expected a number for ") + option + ", but got '" + text +
         "'");
  return value;
}

Options attn::fuzz::parseOptions(int argc, char **argv) {
  Options options;
  std::set<std::string> seen;
  for (int i = 1; i < argc; ++i) {
    std::string arg = argv[i];
    auto next = [&]() -> const char * {
      if (!seen.insert(arg).second)
        fail("expected each option once, but got '" + arg + " again'");
      if (i + 1 == argc)
        fail("expected a value after " + arg);
      return argv[++i];
    };
    if (arg == "--cases")
      options.cases = parseNumber("--cases", next());
    else if (arg == "--seed")
      options.seed = parseNumber("--seed", next());
    else if (arg == "--case")
      options.only = parseNumber("--case", next());
    else if (arg == "--kernels")
      options.kernels = std::max<int64_t>(parseNumber("--kernels", next()), 1);
    else if (arg == "--jobs")
      options.jobs = std::min<int64_t>(parseNumber("--jobs", next()), 256);
    else if (arg == "--target")
      options.target = next();
    else if (arg == "--device") {
      std::string name = next();
      bool emulates = name == "emulator" || name.rfind("emulator:", 0) == 0;
      if (name != "cuda" && name != "cpu" && !emulates)
        fail("expected --device cpu, cuda or emulator, but got '" + name + "'");
      options.device = name == "cuda";
      if (emulates)
        options.target = name;
    } else if (arg == "--tamper") {
      options.tamper = next();
      if (std::find(std::begin(tampers), std::end(tampers), options.tamper) ==
          std::end(tampers))
        fail("expected weights, keys, rounding, rerun, guard or input, but got "
             "'" +
             options.tamper + "'");
    } else if (arg == "--verbose")
      options.verbose = true;
    else if (arg == "--clean")
      options.clean = true;
    else if (arg == "--print-ir")
      options.printIr = true;
    else if (arg == "--compile-only")
      options.compileOnly = true;
    else if (arg == "--family") {
      std::string name = next();
      for (Family family : allFamilies)
        if (name == nameOf(family))
          options.family = family;
      if (!options.family)
        fail("expected a family (options, masks, scores, monoids, own, packed, "
             "schedules, precision, edges, paged, ring, dropout, scan, "
             "rotary, pairs), but got '" +
             name + "'");
    } else if (arg == "--help" || arg == "-h") {
      std::fputs(usage, stdout);
      std::exit(0);
    } else {
      fail("unknown option '" + arg + "'; see --help");
    }
  }
  return options;
}
