//===- Options.cpp - The command line of attn-run -------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Options.h"
#include "Compile.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <map>
#include <set>

using namespace ::attn::run;
using namespace ::attn::support;

const char *attn::run::helpText() {
  return R"(usage: attn-run FILE.mlir [options]
       attn-run --attention SPEC [options]
       attn-run --scan SPEC [options]
       attn-run --ladder SPEC [options]

Compiles attention for this machine, runs it, and says what came out.

what to run
  FILE.mlir                 MLIR text or bytecode, at any phase
  --attention SPEC          attention by named options, "key=value,..."; sizes
                            b hq hk sq sk d dv; dtype=f32|f16|bf16,
                            precision=ieee|tf32 (what f32 may be rounded to),
                            causal=top_left|bottom_right, window=LEFT:RIGHT,
                            scale=X, softcap=X, bias=11qk, mask=b11k (letters
                            of bhqk, or 1 where it repeats), bias_dtype=f32,
                            alibi=h|bh, sinks=1, lengths=random|N:N:...,
                            sequences=N (packed), layout=bhsd|bshd|sbhd,
                            page=N (keys in pages of a pool),
                            k_start=random|N:N:..., rolling=1,
                            append=N (rows written to the caches behind the
                            lengths), batch_invariant=1, cascade=1,
                            dropout=P, dropout_rng=SEED:OFFSET,
                            monoid=NAME, outputs=N
  --scan SPEC               a scan by named options: sizes b h (or hq hk hv) t dk
                            dv, dtype=f32|f16|bf16, decay=head|key|value,
                            delta=1, erase=after|before, weight=1,
                            log_weight=1, normalize=1, read_before=1, bonus=1,
                            whole=1, init=1, chunk=N
  --ladder SPEC             attention as --attention has it, by each algorithm of
                            its history: traffic predicted and counted, memory,
                            time and how much results differ (docs/Ladder.md)
  --ladder-picture FILE.svg draw them under the roofline
  --monoid FILE.mlir        use the monoid that the file defines
  --score-mod FILE.mlir     the score function and a mask for --attention, beside
  --mask-mod FILE.mlir      its options: each the text of a region (docs/Masks.md)
  --schedule TEXT           an #attn.schedule<...>, or #attn.rung<...> of the
                            ladder, for --attention
  --entry NAME              function to run (default: the first)
  --target NAME             compile for this target (default: host)
  --device cpu|cuda|emulator  run on the CPU or the current GPU (default: what
                            the target needs); cuda alone means the GPU's
                            target. emulator:sm_80 runs code for that GPU on the
                            CPU, as ATTN_EMULATOR has it, and finds races

arguments
  --input NAME=FILE.npy     read an input
  --input NAME=random:2x3   draw an input of this shape; NAME=VALUE for scalars
  --sizes b=1,sq=128,...    draw inputs that are not given, with these sizes
  --seed N                  what is drawn (default 0)
  --output NAME=FILE.npy    write an output

what to do
  --check                   compare with the float64 reference
  --check-against FILE      compare with what another program means: with the
                            input phase, where FILE.mlir is a later one
  --bench                   time it: median, GFLOP/s, GB/s; on a GPU a burst
                            from idle and the end of a train of 250 ms
  --autotune                on a GPU, time the schedules near the one chosen for
                            --attention, and keep the fastest for later
  --bench-seconds X         for about this long (default 1)
  --threads N               threads (default: physical cores)
  --progress                say on stderr how far long work is, as on a terminal
  --timeline FILE.json      write when the emulator executes what, for Perfetto
  --explain                 print the schedule and the arithmetic behind it
  --mask-picture FILE.svg   draw which tiles masks keep, print how many and, as
                            characters, where (full #, partial +, dead .); -
                            writes no file
  --timings                 print what each step of the compilation took
  --until-after PHASE       print the IR after input, aggregate, schedule,
                            tile, vector or llvm (of a GPU gpu or nvvm), and
                            stop
  --no-cache                compile even where the cache on disk has the kernel
  --start-from PHASE        the phase that FILE.mlir has reached
  --dump-phases-to DIR      write the IR of each phase
  --help                    print this

exit status: 0, 1 for an error or a failed check, 2 for a wrong command line
)";
}

std::vector<std::string> attn::run::split(const std::string &text,
                                          char separator) {
  std::vector<std::string> parts;
  size_t start = 0;
  for (;;) {
    size_t end = text.find(separator, start);
    parts.push_back(text.substr(start, end - start));
    if (end == std::string::npos)
      return parts;
    start = end + 1;
  }
}

static Failure fail(const std::string &expected, const std::string &got) {
  return Failure{"expected " + expected + ", but got '" + got + "'"};
}

Result<int64_t> attn::run::parseInteger(const std::string &what,
                                        const std::string &text, int64_t min,
                                        int64_t max) {
  char *end = nullptr;
  errno = 0;
  long long value = std::strtoll(text.c_str(), &end, 10);
  if (text.empty() || *end || errno || value < min || value > max)
    return fail(what + " to be an integer between " + std::to_string(min) +
                    " and " + std::to_string(max),
                text);
  return int64_t(value);
}

Result<double> attn::run::parseNumber(const std::string &what,
                                      const std::string &text) {
  char *end = nullptr;
  double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end)
    return fail(what + " to be a number", text);
  return value;
}

//===----------------------------------------------------------------------===//
// --attention
//===----------------------------------------------------------------------===//

namespace {
/// Parses one value of a spec into a field.
using Setter = std::function<Status(const std::string &)>;
} // namespace

static Setter setInteger(const char *key, int64_t &field, int64_t min,
                         int64_t max) {
  return [=, &field](const std::string &text) -> Status {
    auto value = parseInteger(key, text, min, max);
    if (!value)
      return value.takeFailure();
    field = *value;
    return success();
  };
}

static bool isFinite(double x) { return std::isfinite(x); }
static bool isPositive(double x) { return x > 0; }

/// `fits` and `what` it fits: which numbers there may be, if not all.
static Setter setNumber(const char *key, std::optional<double> &field,
                        bool (*fits)(double) = nullptr, const char *what = "") {
  return [=, &field](const std::string &text) -> Status {
    auto value = parseNumber(key, text);
    if (!value)
      return value.takeFailure();
    if (fits && !fits(*value))
      return fail(std::string(key) + " to be " + what, text);
    field = *value;
    return success();
  };
}

static Setter setChoice(const char *key, std::string &field,
                        std::vector<std::string> choices) {
  return [=, &field](const std::string &text) -> Status {
    std::string list;
    for (const std::string &choice : choices) {
      if (text == choice) {
        field = text;
        return success();
      }
      list += (list.empty() ? "" : ", ") + choice;
    }
    return fail(std::string(key) + " to be one of " + list, text);
  };
}

static Setter setDType(const char *key, DType &field) {
  return [=, &field](const std::string &text) -> Status {
    std::optional<DType> dtype = parseDType(text);
    if (dtype != DType::f32 && dtype != DType::f16 && dtype != DType::bf16)
      return fail(std::string(key) + " to be f32, f16 or bf16", text);
    field = *dtype;
    return success();
  };
}

static Setter setBroadcast(const char *key, std::string &field) {
  return [=, &field](const std::string &text) -> Status {
    bool ok = text.size() == 4;
    for (size_t i = 0; ok && i < 4; ++i)
      ok = text[i] == '1' || text[i] == "bhqk"[i];
    if (!ok)
      return fail(std::string(key) +
                      " to be bhqk, with 1 for dimensions that repeat",
                  text);
    field = text;
    return success();
  };
}

static Setter setText(std::string &field) {
  return [&field](const std::string &value) {
    field = value;
    return success();
  };
}

static bool parseWord(const std::string &text, uint64_t &word) {
  const char *end = text.data() + text.size();
  auto [rest, error] = std::from_chars(text.data(), end, word);
  return error == std::errc() && rest == end;
}

/// Whether what --attention says goes together.
static Status checkSpec(const AttentionSpec &spec, bool hasRng) {
  if (spec.dropout.has_value() != hasRng)
    return Failure{
        "expected dropout and dropout_rng together, but got one of them"};
  if (spec.dropout && !(*spec.dropout >= 0.0 && *spec.dropout <= 1.0))
    return fail("dropout between 0 and 1", std::to_string(*spec.dropout));
  if (spec.append >= 0 && (spec.lengths.empty() || spec.append > spec.sk))
    return Failure{
        "expected append with lengths, and no more rows than sk, but "
        "got " +
        std::string(spec.lengths.empty() ? "no lengths" : "more")};
  if (spec.rolling &&
      (spec.kStart.empty() || spec.page > 0 || spec.sequences > 0))
    return Failure{"expected rolling with k_start, and without page and "
                   "sequences, but got none or one of these"};
  if (spec.page > 0 && (spec.sequences > 0 || spec.layout == "sbhd"))
    return Failure{"expected page without sequences and with layout bhsd or "
                   "bshd, but got one of these"};
  if (spec.page > 0 && spec.lengths.empty() && spec.sk % spec.page)
    return Failure{"expected page with lengths, or sk to be a multiple of it, "
                   "but got sk=" +
                   std::to_string(spec.sk)};
  if (spec.sequences > 0 && (!spec.bias.empty() || !spec.mask.empty() ||
                             !spec.lengths.empty() || spec.b != 1))
    return Failure{"expected sequences without b, bias, mask and lengths, but "
                   "got one of them"};
  return success();
}

static Result<AttentionSpec> parseSpec(const std::string &text) {
  AttentionSpec spec;
  constexpr int64_t maxSize = INT32_MAX;
  int64_t outputs = 1, sinks = 0, rolling = 0, batchInvariant = 0, cascade = 0;
  bool hasRng = false;
  const std::map<std::string, Setter> setters = {
      {"b", setInteger("b", spec.b, 0, maxSize)},
      {"hq", setInteger("hq", spec.hq, 0, maxSize)},
      {"hk", setInteger("hk", spec.hk, 0, maxSize)},
      {"sq", setInteger("sq", spec.sq, 0, maxSize)},
      {"sk", setInteger("sk", spec.sk, 0, maxSize)},
      {"d", setInteger("d", spec.d, 1, maxSize)},
      {"dv", setInteger("dv", spec.dv, 1, maxSize)},
      {"dtype", setDType("dtype", spec.dtype)},
      {"bias_dtype", setDType("bias_dtype", spec.biasDType)},
      {"causal",
       setChoice("causal", spec.causal, {"none", "top_left", "bottom_right"})},
      {"layout", setChoice("layout", spec.layout, {"bhsd", "bshd", "sbhd"})},
      {"alibi", setChoice("alibi", spec.alibi, {"h", "bh"})},
      {"precision", setChoice("precision", spec.precision, {"ieee", "tf32"})},
      {"scale", setNumber("scale", spec.scale, isFinite, "finite")},
      {"softcap", setNumber("softcap", spec.softcap, isPositive, "positive")},
      {"dropout", setNumber("dropout", spec.dropout)},
      {"dropout_rng",
       [&](const std::string &value) -> Status {
         std::vector<std::string> parts = split(value, ':');
         hasRng = parts.size() == 2 && parseWord(parts[0], spec.dropoutSeed) &&
                  parseWord(parts[1], spec.dropoutOffset);
         if (!hasRng)
           return fail("dropout_rng to be SEED:OFFSET, two numbers below 2^64",
                       value);
         return success();
       }},
      {"bias", setBroadcast("bias", spec.bias)},
      {"mask", setBroadcast("mask", spec.mask)},
      {"sinks", setInteger("sinks", sinks, 0, 1)},
      {"sequences", setInteger("sequences", spec.sequences, 0, maxSize)},
      {"outputs", setInteger("outputs", outputs, 1, 16)},
      {"monoid", setText(spec.monoid)},
      {"lengths", setText(spec.lengths)},
      {"page", setInteger("page", spec.page, 1, maxSize)},
      {"rolling", setInteger("rolling", rolling, 0, 1)},
      {"append", setInteger("append", spec.append, 0, maxSize)},
      {"batch_invariant", setInteger("batch_invariant", batchInvariant, 0, 1)},
      {"cascade", setInteger("cascade", cascade, 0, 4)},
      {"k_start", setText(spec.kStart)},
      {"window", [&](const std::string &value) -> Status {
         std::vector<std::string> parts = split(value, ':');
         if (parts.size() != 2)
           return fail("window to be LEFT:RIGHT, as in 128:0", value);
         auto left = parseInteger("window", parts[0], -1, INT32_MAX);
         auto right = parseInteger("window", parts[1], -1, INT32_MAX);
         if (!left)
           return left.takeFailure();
         if (!right)
           return right.takeFailure();
         spec.window = {*left, *right};
         return success();
       }}};

  bool hasSk = false;
  std::vector<std::string> seen;
  for (const std::string &item : split(text, ',')) {
    size_t equals = item.find('=');
    std::string key = item.substr(0, equals);
    if (std::find(seen.begin(), seen.end(), key) != seen.end())
      return fail("each key of --attention once", key + " again");
    seen.push_back(key);
    auto setter = setters.find(key);
    if (equals == std::string::npos || setter == setters.end()) {
      std::string keys;
      for (auto &[key, unused] : setters)
        keys += (keys.empty() ? "" : ", ") + key;
      return fail("--attention to hold key=value with a key out of " + keys,
                  item);
    }
    hasSk |= setter->first == "sk";
    if (Status ok = setter->second(item.substr(equals + 1)); !ok)
      return ok.takeFailure();
  }
  if (spec.d == 0)
    return Failure{"expected --attention to say the head dimension, d=..."};
  if (spec.hk == 0)
    spec.hk = spec.hq;
  if (spec.dv == 0)
    spec.dv = spec.d;
  if (!hasSk)
    spec.sk = spec.sq;
  spec.sinks = sinks;
  spec.rolling = rolling;
  spec.batchInvariant = batchInvariant;
  spec.cascade = cascade;
  spec.outputs = int(outputs);
  if (Status ok = checkSpec(spec, hasRng); !ok)
    return ok.takeFailure();
  return spec;
}

//===----------------------------------------------------------------------===//
// The whole
//===----------------------------------------------------------------------===//

namespace {

/// Files with the text of a region.
struct RegionFiles {
  std::string score, mask;
};

} // namespace

/// NAME=VALUE, each time one more, or with `isSingle` one of each name; `form`
/// is what an error expects.
static Setter addPair(std::vector<std::pair<std::string, std::string>> &field,
                      const char *form, bool isSingle) {
  return [&field, form, isSingle](const std::string &value) -> Status {
    size_t equals = value.find('=');
    if (equals == std::string::npos || equals == 0)
      return fail(form, value);
    std::string name = value.substr(0, equals);
    for (auto &[given, unused] : field)
      if (isSingle && given == name)
        return fail(std::string(form) + " once for each name", name + " again");
    field.push_back({name, value.substr(equals + 1)});
    return success();
  };
}

/// A field that `parse` reads.
template <typename Field, typename Parse>
static Setter setParsed(Field &field, Parse parse) {
  return [&field, parse](const std::string &value) -> Status {
    auto parsed = parse(value);
    if (!parsed)
      return parsed.takeFailure();
    field = *parsed;
    return success();
  };
}

static Status addSizes(Options &options, const std::string &value) {
  for (const std::string &item : split(value, ',')) {
    size_t equals = item.find('=');
    if (equals == std::string::npos)
      return fail("--sizes NAME=N,...", item);
    auto size = parseInteger("--sizes", item.substr(equals + 1), 0, INT32_MAX);
    if (!size)
      return size.takeFailure();
    for (auto &[name, unused] : options.sizes)
      if (name == item.substr(0, equals))
        return fail("each dimension of --sizes once", name + " again");
    options.sizes.push_back({item.substr(0, equals), *size});
  }
  return success();
}

/// Options without values.
static std::map<std::string, bool *> listFlags(Options &options) {
  return {{"--check", &options.check},
          {"--bench", &options.bench},
          {"--autotune", &options.autotune},
          {"--no-cache", &options.noCache},
          {"--progress", &options.progress},
          {"--explain", &options.explain},
          {"--timings", &options.timings},
          {"--help", &options.help},
          {"-h", &options.help}};
}

/// Options with values.
static std::map<std::string, Setter> listSetters(Options &options,
                                                 RegionFiles &files) {
  auto integer = [](const char *name, int64_t least, int64_t most) {
    return [=](const std::string &value) {
      return parseInteger(name, value, least, most);
    };
  };
  return {
      {"--scan", setParsed(options.scan, parseScan)},
      {"--attention",
       [&](const std::string &value) -> Status {
         if (options.ladder)
           return fail("--attention or --ladder", "both");
         return setParsed(options.attention, parseSpec)(value);
       }},
      {"--ladder",
       [&](const std::string &value) -> Status {
         if (options.attention)
           return fail("--attention or --ladder", "both");
         options.ladder = true;
         return setParsed(options.attention, parseSpec)(value);
       }},
      {"--ladder-picture", setText(options.ladderPicture)},
      {"--entry", setText(options.entry)},
      {"--target", setText(options.target)},
      {"--device",
       [&](const std::string &value) {
         if (value == "emulator" || value.rfind("emulator:", 0) == 0) {
           options.device = value;
           return success();
         }
         return setChoice("--device", options.device,
                          {"cpu", "cuda", "emulator"})(value);
       }},
      {"--start-from", setText(options.startFrom)},
      {"--until-after", setText(options.untilAfter)},
      {"--dump-phases-to", setText(options.dumpPhasesTo)},
      {"--schedule", setText(options.schedule)},
      {"--monoid", setText(options.monoidFile)},
      {"--score-mod", setText(files.score)},
      {"--mask-mod", setText(files.mask)},
      {"--timeline", setText(options.timeline)},
      {"--mask-picture", setText(options.maskPicture)},
      {"--check-against",
       [&](const std::string &value) {
         options.checkAgainst = value;
         options.check = true;
         return success();
       }},
      {"--input",
       addPair(options.inputs, "--input NAME=VALUE", /*isSingle=*/true)},
      {"--output",
       addPair(options.outputs, "--output NAME=FILE.npy", /*isSingle=*/false)},
      {"--sizes",
       [&](const std::string &value) { return addSizes(options, value); }},
      {"--seed", setParsed(options.seed, integer("--seed", 0, INT64_MAX))},
      {"--threads", setParsed(options.threads, integer("--threads", 1, 1024))},
      {"--bench-seconds",
       setParsed(options.benchSeconds,
                 [](const std::string &value) -> Result<double> {
                   auto seconds = parseNumber("--bench-seconds", value);
                   if (seconds && !(*seconds >= 0 && *seconds <= 86400))
                     return fail("--bench-seconds between 0 and 86400", value);
                   return seconds;
                 })}};
}

static Status readArguments(int argc, char **argv,
                            const std::set<std::string> *known,
                            Options &options, RegionFiles &files) {
  const std::map<std::string, bool *> flags = listFlags(options);
  const std::map<std::string, Setter> setters = listSetters(options, files);
  // Of these each adds to those before.
  const std::set<std::string> adding = {"--input", "--output", "--sizes"};
  std::set<std::string> seen;
  for (int i = 1; i < argc; ++i) {
    std::string argument = argv[i], name = argument;
    auto isKnown = [&]() { return !known || known->count(name); };
    if (auto flag = flags.find(argument); flag != flags.end() && isKnown()) {
      *flag->second = true;
      continue;
    }
    if (argument.rfind("-", 0) != 0 || argument == "-") {
      if (!options.file.empty())
        return fail("one file", argument);
      options.file = argument;
      continue;
    }
    // --name=value and --name value are the same.
    std::optional<std::string> value;
    if (size_t equals = argument.find('='); equals != std::string::npos) {
      name = argument.substr(0, equals);
      value = argument.substr(equals + 1);
    }
    auto setter = setters.find(name);
    if (setter == setters.end() || !isKnown())
      return fail("an option that --help lists", argument);
    if (!value) {
      if (++i == argc)
        return Failure{"expected a value after " + name + ", but got none"};
      value = argv[i];
    }
    if (!adding.count(name) && !seen.insert(name).second)
      return fail("each option once", name + " again");
    if (Status ok = setter->second(*value); !ok)
      return ok;
  }
  return success();
}

/// Whether options go with a file, --attention or --scan.
static Status checkSubject(const Options &options, const RegionFiles &files) {
  if (options.scan) {
    if (options.attention || !options.file.empty() ||
        !options.schedule.empty() || !options.monoidFile.empty() ||
        !options.checkAgainst.empty() || !options.sizes.empty())
      return Failure{"expected --scan without a file, --attention, --schedule, "
                     "--monoid, --check-against and --sizes, but got one of "
                     "these"};
  } else if (options.file.empty() == !options.attention.has_value())
    return Failure{options.attention
                       ? "expected a file or --attention, but got both"
                       : "expected a file or --attention; see --help"};
  if (options.file.empty() && !options.entry.empty())
    return Failure{"expected --entry together with a file, but got none"};
  if (!options.attention && !options.schedule.empty())
    return Failure{"expected --schedule together with --attention, but got a "
                   "file"};
  if (!options.ladder && !options.ladderPicture.empty())
    return Failure{"expected --ladder-picture together with --ladder, but got "
                   "another"};
  if (options.ladder &&
      (!options.schedule.empty() || options.bench || options.autotune ||
       !options.inputs.empty() || !options.outputs.empty() ||
       !options.untilAfter.empty() || !options.maskPicture.empty()))
    return Failure{"expected --ladder without --schedule, --bench, --autotune, "
                   "--input, --output, --until-after and --mask-picture, but "
                   "got one of these"};
  if (options.autotune && (!options.attention || !options.schedule.empty()))
    return Failure{"expected --autotune together with --attention and no "
                   "--schedule, but got another"};
  if (options.attention &&
      (!options.checkAgainst.empty() || !options.sizes.empty()))
    return Failure{std::string("expected ") +
                   (options.sizes.empty() ? "--check-against" : "--sizes") +
                   " together with a file, but got --attention"};
  if (!options.attention && !options.monoidFile.empty())
    return Failure{"expected --monoid together with --attention, but got a "
                   "file"};
  if (!options.attention && !(files.score.empty() && files.mask.empty()))
    return Failure{"expected --score-mod and --mask-mod together with "
                   "--attention, but got a file"};
  return success();
}

static Status readRegions(Options &options, const RegionFiles &files) {
  for (auto [file, into] : {std::pair(&files.score, &AttentionSpec::scoreMod),
                            {&files.mask, &AttentionSpec::maskMod}}) {
    if (file->empty())
      continue;
    auto read = readFile(*file);
    if (!read)
      return read.takeFailure();
    if (read->find_first_not_of(" \t\r\n") == std::string::npos)
      return fail("the text of a region in " + *file, "");
    (*options.attention).*into = *read;
  }
  return success();
}

Result<Options> attn::run::parseOptions(int argc, char **argv,
                                        const std::set<std::string> *known) {
  Options options;
  RegionFiles files;
  if (Status ok = readArguments(argc, argv, known, options, files); !ok)
    return ok.takeFailure();
  if (options.help)
    return options;
  if (Status ok = checkSubject(options, files); !ok)
    return ok.takeFailure();
  bool emulates = options.device.rfind("emulator", 0) == 0;
  if (!options.timeline.empty() && !emulates)
    return Failure{"expected --timeline together with --device emulator, but "
                   "got another device"};
  if (emulates) {
    bool isComplete = options.target.empty() || options.device != "emulator";
    options.target = options.device + (isComplete ? "" : ":" + options.target);
  }
  if (Status ok = readRegions(options, files); !ok)
    return ok.takeFailure();
  return options;
}
