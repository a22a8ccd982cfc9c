//===- Ladder.cpp - The rungs of the ladder side by side ------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Ladder.h"
#include "Compile.h"
#include "Device.h"
#include "Prediction.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>

using namespace ::attn::run;
using namespace ::attn::support;

/// Of the rung on a CPU (attn-apply-rung).
static constexpr int64_t partsOnCpu = 4;

static const char *const rungNames[] = {"naive", "safe", "lazy", "online",
                                        "fa1",   "fa2",  "fa3",  "split"};

//===----------------------------------------------------------------------===//
// Formulas
//===----------------------------------------------------------------------===//

namespace {
/// What the tiles of one traversal of a head come to.
struct Traversal {
  /// Keys that tiles of rows read, each its own; pairs of rows and whole tiles
  /// of keys, and the same of whole row blocks, which maps are computed for;
  /// rows of these times tiles of keys.
  double keys = 0, pairs = 0, blockPairs = 0, rowTiles = 0;
};
} // namespace

static Traversal traverse(const AttentionSpec &spec, const Tiles &tiles) {
  Traversal sum;
  int64_t shift = spec.causal == "top_left" ? 0 : spec.sk - spec.sq;
  auto keysOf = [&](int64_t first, int64_t last) {
    int64_t low = 0, high = spec.sk;
    if (spec.causal != "none")
      high = std::min(high, last + shift + 1);
    if (spec.window && spec.window->first >= 0)
      low = std::max(low, first + shift - spec.window->first);
    if (spec.window && spec.window->second >= 0)
      high = std::min(high, last + shift + spec.window->second + 1);
    return std::pair(low, std::max(high, low));
  };
  for (int64_t i = 0; i < spec.sq; i += tiles.blockQ) {
    int64_t last = std::min(i + tiles.blockQ, spec.sq) - 1;
    auto [low, high] = keysOf(i, last);
    sum.keys += double(high - low);
    for (int64_t row = i; row <= last; row += tiles.rows) {
      int64_t end = std::min(row + tiles.rows - 1, last);
      auto [first, behind] = keysOf(row, end);
      if (first == behind)
        continue;
      int64_t begin = first / tiles.blockK, stop = (behind - 1) / tiles.blockK;
      double rows = double(end - row + 1), keyTiles = double(stop - begin + 1);
      double width = double(std::min((stop + 1) * tiles.blockK, spec.sk) -
                            begin * tiles.blockK);
      sum.pairs += rows * width;
      sum.blockPairs += double(tiles.rows) * keyTiles * double(tiles.blockK);
      sum.rowTiles += double(tiles.rows) * keyTiles;
    }
  }
  return sum;
}

double attn::run::predictRungTraffic(const std::string &rung,
                                     const AttentionSpec &spec,
                                     const std::vector<Tiles> &tiles,
                                     int64_t keysOfPart, int64_t splits,
                                     int64_t statistics, int64_t units) {
  bool isKnown = spec.sequences == 0 && spec.lengths.empty() &&
                 spec.page == 0 && !spec.rolling && spec.bias.empty() &&
                 spec.mask.empty() && spec.alibi.empty();
  for (const Tiles &tile : tiles)
    isKnown &= tile.blockQ > 0 && tile.rows > 0 && tile.blockK > 0;
  size_t passes = rung == "naive"                    ? 2 + (statistics > 0)
                  : rung == "safe" && statistics > 0 ? 2
                                                     : 1;
  if (!isKnown || tiles.size() != passes)
    return -1;
  const double e = double(sizeOf(spec.dtype)), f = 4.0;
  const double rows = double(spec.sq), d = double(spec.d), dv = double(spec.dv);
  const double queries = rows * d * e, c = double(statistics);
  double results = rows * dv * e + (spec.outputs - 1) * rows * f;
  Traversal last = traverse(spec, tiles.back());
  double bytes = 0;
  if (rung == "naive") {
    Traversal scores = traverse(spec, tiles.front());
    bytes = queries + scores.keys * d * e + scores.pairs * f;
    if (statistics)
      bytes += traverse(spec, tiles[1]).blockPairs * f + rows * c * f;
    bytes += last.blockPairs * f + last.keys * dv * e + last.rowTiles * c * f;
  } else if (rung == "safe" && statistics) {
    bytes = 2 * queries + traverse(spec, tiles.front()).keys * d * e +
            rows * c * f + last.keys * (d + dv) * e + last.rowTiles * c * f;
  } else if (rung == "fa1" || rung == "split") {
    double parts =
        rung == "split"
            ? double(splits)
            : std::max(std::ceil(double(spec.sk) / double(keysOfPart)), 1.0);
    double state = c + double(units) + dv;
    bytes = parts * queries + last.keys * (d + dv) * e +
            2 * parts * rows * state * f;
  } else {
    bytes = queries + last.keys * (d + dv) * e;
  }
  return double(spec.b * spec.hq) * (bytes + results);
}

//===----------------------------------------------------------------------===//
// Texts of a kernel
//===----------------------------------------------------------------------===//

/// The tiles of each schedule that an explanation has, in order.
static std::vector<Tiles> findAllTiles(const char *text) {
  std::vector<Tiles> found;
  constexpr const char *start = "#attn.schedule<";
  while ((text = std::strstr(text, start))) {
    text += std::strlen(start);
    found.push_back({findNumber(text, "block_q = "),
                     findNumber(text, "rows = "),
                     findNumber(text, "block_k = ")});
  }
  return found;
}

/// In how many parts the keys are reduced: what a GPU's plan counts.
static int64_t countParts(const AttentionSpec &spec,
                          const std::vector<Tiles> &tiles, const char *text) {
  const char *parts = std::strstr(text, "parts: as many as make ");
  if (!parts || tiles.empty() || tiles[0].blockQ <= 0)
    return partsOnCpu;
  int64_t blocks =
      spec.b * spec.hq * ((spec.sq + tiles[0].blockQ - 1) / tiles[0].blockQ);
  int64_t atOnce = findNumber(parts, "make ");
  int64_t least = std::max<int64_t>(findNumber(parts, "at least "), 1);
  int64_t wanted =
      std::min(atOnce / std::max<int64_t>(blocks, 1), spec.sk / least);
  return std::max<int64_t>(wanted, 1);
}

/// Words of the list after `key` in the first monoid of a text that are `word`,
/// or all of them.
static int64_t countWords(const char *ir, const char *key, const char *word) {
  const char *list = ir ? std::strstr(ir, key) : nullptr;
  if (!list)
    return 0;
  std::string text(list + std::strlen(key));
  text = text.substr(0, text.find(')'));
  int64_t count = 0;
  for (const std::string &item : split(text, ','))
    count += word ? item.find(word) != std::string::npos : !item.empty();
  return count;
}

/// The sum of the numbers that follow `name` at the beginning of lines.
static double sumCounter(const std::string &counters, const std::string &name) {
  double sum = 0;
  for (size_t at = counters.find(name); at != std::string::npos;
       at = counters.find(name, at + 1))
    if (const char *number = counters.c_str() + at + name.size();
        *number == ' ')
      sum += std::strtod(number, nullptr);
  return sum;
}

//===----------------------------------------------------------------------===//
// Runs
//===----------------------------------------------------------------------===//

namespace {
class Ladder {
public:
  Ladder(const Options &options, AttnCompileOptions how,
         const Progress &progress)
      : options(options), how(how), spec(*options.attention),
        progress(progress) {}
  Status run();

private:
  Result<RungReport> climb(const char *name);
  /// `explains`: keeps its IR, and counts its bytes where code can.
  Result<Kernel> compile(const char *name, bool explains);
  Status makeInputs(const Kernel &kernel);
  Result<double> time(const Kernel &kernel, std::vector<HostTensor> &outputs);
  void compare(const std::vector<HostTensor> &outputs, RungReport &report);
  void printHeader() const;
  void print(const RungReport &report) const;

  const Options &options;
  AttnCompileOptions how;
  const AttentionSpec &spec;
  const Progress &progress;
  std::vector<HostTensor> inputs, first;
  double flops = 0;
  std::string target;
  bool isEmulated = false;
};
} // namespace

Result<Kernel> Ladder::compile(const char *name, bool explains) {
  Options own = options;
  own.schedule = std::string("#attn.rung<") + name + ">";
  AttnCompileOptions also = how;
  also.keepIr = explains;
  also.countTraffic = explains;
  // Code that counts is for once; a GPU's does not.
  also.noCache = how.noCache || (explains && options.device != "cuda");
  return compileProgram(own, also);
}

Status Ladder::makeInputs(const Kernel &kernel) {
  for (const ArgInfo &arg : kernel.inputs) {
    auto input = drawInput(spec, arg, options.seed);
    if (!input)
      return input.takeFailure();
    inputs.push_back(std::move(*input));
  }
  flops = countWork(spec, kernel, inputs).flops;
  target = attnKernelTarget(kernel.get());
  isEmulated = kernel.isEmulated();
  return success();
}

Result<double> Ladder::time(const Kernel &kernel,
                            std::vector<HostTensor> &outputs) {
  if (kernel.isOnDevice()) {
    auto placed = DeviceRun::create(kernel, inputs, outputs);
    if (!placed)
      return placed.takeFailure();
    auto times = timeOnDevice(*placed);
    if (!times)
      return times.takeFailure();
    return times->burst;
  }
  auto now = [] {
    return std::chrono::duration<double, std::milli>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  };
  std::vector<double> times;
  double start = now();
  do {
    double before = now();
    if (Status ok = kernel.run(inputs, outputs); !ok)
      return ok.takeFailure();
    times.push_back(now() - before);
  } while (times.size() < 3 || (now() - start < options.benchSeconds * 1e3 &&
                                times.size() < 10000));
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

void Ladder::compare(const std::vector<HostTensor> &outputs,
                     RungReport &report) {
  if (first.empty())
    first = outputs;
  for (size_t i = 0; i < outputs.size(); ++i) {
    // All rungs have them in the same order in memory.
    const HostTensor &want = first[i], &got = outputs[i];
    double largest = 0, apart = 0;
    int64_t size = got.size();
    for (int64_t k = 0; k < size; ++k) {
      double x = loadElement(want.bytes.data(), want.dtype, k);
      double y = loadElement(got.bytes.data(), got.dtype, k);
      if (std::isfinite(x))
        largest = std::max(largest, std::fabs(x));
      if (x == y || (std::isnan(x) && std::isnan(y)))
        continue;
      double difference = std::fabs(x - y);
      // One of them has no number where the other has one.
      apart =
          std::isfinite(difference) ? std::max(apart, difference) : INFINITY;
    }
    report.difference =
        std::max(report.difference, largest > 0 ? apart / largest : apart);
  }
}

Result<RungReport> Ladder::climb(const char *name) {
  RungReport report;
  report.name = name;
  progress(std::string("rung ") + name);
  auto kernel = compile(name, /*explains=*/true);
  if (!kernel) {
    // What it wants, without where in a text that nobody wrote.
    std::string why = kernel.error();
    report.refusal = why.substr(std::min(why.find("expected"), why.size()));
    if (report.refusal.empty())
      report.refusal = why;
    return report;
  }
  if (inputs.empty())
    if (Status ok = makeInputs(*kernel); !ok)
      return ok.takeFailure();
  auto outputs = kernel->makeOutputs(inputs, getOrder(spec));
  if (!outputs)
    return outputs.takeFailure();
  std::string counters;
  if (!kernel->isOnDevice()) {
    if (Status ok = kernel->run(inputs, *outputs, &counters); !ok)
      return ok.takeFailure();
  } else {
    auto placed = DeviceRun::create(*kernel, inputs, *outputs);
    if (!placed)
      return placed.takeFailure();
    if (Status ok = placed->launch(); !ok)
      return ok.takeFailure();
    if (Status ok = placed->fetch(*outputs); !ok)
      return ok.takeFailure();
  }
  const char *ir = attnKernelIr(kernel->get(), "aggregate");
  const char *explanation = attnKernelExplain(kernel->get());
  const char *scheduled = attnKernelIr(kernel->get(), "schedule");
  int64_t part = findNumber(scheduled ? scheduled : "", "granule = ");
  std::vector<Tiles> tiles = findAllTiles(explanation);
  report.predicted = predictRungTraffic(
      name, spec, tiles, std::max<int64_t>(part, 1),
      countParts(spec, tiles, explanation), countWords(ir, " stats(", nullptr),
      countWords(ir, "components(", "unit"));
  if (isEmulated) {
    report.counted = sumCounter(counters, "l2_read_bytes") +
                     sumCounter(counters, "l2_written_bytes");
    report.fromMemory = sumCounter(counters, "hbm_read_bytes") +
                        sumCounter(counters, "hbm_written_bytes");
  } else if (!kernel->isOnDevice()) {
    report.counted = sumCounter(counters, "loaded_bytes") +
                     sumCounter(counters, "stored_bytes");
    report.workspace = sumCounter(counters, "workspace_bytes");
  }
  compare(*outputs, report);
  if (options.check) {
    // The oracle knows the monoids that ship; the interpreter, all.
    bool isNamed = options.monoidFile.empty() && spec.scoreMod.empty() &&
                   spec.maskMod.empty();
    const char *input = attnKernelIr(kernel->get(), "input");
    auto checked =
        isNamed ? checkAttention(spec, *kernel, inputs, *outputs, progress)
                : checkText(input ? input : "", kernel->getEntryName(), *kernel,
                            inputs, *outputs, progress);
    if (!checked)
      return Failure{std::string("rung ") + name + ": " + checked.error()};
  }
  if (isEmulated)
    return report;
  // Of a GPU's kernels none counts.
  auto plain = kernel->isOnDevice() ? std::move(kernel)
                                    : compile(name, /*explains=*/false);
  if (!plain)
    return plain.takeFailure();
  auto ms = time(*plain, *outputs);
  if (!ms)
    return ms.takeFailure();
  report.ms = *ms;
  return report;
}

void Ladder::printHeader() const {
  std::printf("%s, %.4g GFLOP of live pairs; traffic %s\n", target.c_str(),
              flops * 1e-9,
              isEmulated
                  ? "between the L2 cache and multiprocessors, and from "
                    "and to memory"
                  : "between memory and tiles, as their loads and stores "
                    "count it");
  std::printf("%-7s %12s %12s %7s %9s %10s %9s %8s %9s\n", "rung",
              "predicted MB", "counted MB", "ratio", "FLOP/byte",
              isEmulated ? "memory MB" : "workspace", "ms", "GFLOP/s",
              "differs");
}

void Ladder::print(const RungReport &rung) const {
  auto number = [](double value, const char *format, double scale = 1) {
    char text[32] = "-";
    if (value >= 0)
      std::snprintf(text, sizeof(text), format, value * scale);
    return std::string(text);
  };
  if (!rung.refusal.empty()) {
    std::printf("%-7s %s\n", rung.name.c_str(), rung.refusal.c_str());
    return;
  }
  bool hasBoth = rung.predicted > 0 && rung.counted > 0;
  double bytes = rung.counted > 0 ? rung.counted : rung.predicted;
  std::printf(
      "%-7s %12s %12s %7s %9s %10s %9s %8s %9s\n", rung.name.c_str(),
      number(rung.predicted, "%.4g", 1e-6).c_str(),
      number(rung.counted, "%.4g", 1e-6).c_str(),
      number(hasBoth ? rung.counted / rung.predicted : -1, "%.3f").c_str(),
      number(bytes > 0 ? flops / bytes : -1, "%.4g").c_str(),
      number(isEmulated ? rung.fromMemory : rung.workspace, "%.4g", 1e-6)
          .c_str(),
      number(rung.ms > 0 ? rung.ms : -1, "%.4g").c_str(),
      number(rung.ms > 0 ? flops / rung.ms * 1e-6 : -1, "%.4g").c_str(),
      number(rung.difference, "%.1e").c_str());
}

Status Ladder::run() {
  std::vector<RungReport> reports;
  size_t printed = 0;
  for (const char *name : rungNames) {
    auto report = climb(name);
    if (!report)
      return report.takeFailure();
    reports.push_back(std::move(*report));
    if (inputs.empty())
      continue;
    // Each as it comes: a large one takes a while.
    if (!printed)
      printHeader();
    for (; printed < reports.size(); ++printed)
      print(reports[printed]);
    std::fflush(stdout);
  }
  if (inputs.empty())
    return Failure{reports.front().refusal};
  if (options.ladderPicture.empty())
    return success();
  Peaks peaks;
  bool isCpu = target.rfind("cpu", 0) == 0;
  if (isCpu)
    peaks = measurePeaks(target, spec.dtype, attnGetNumThreads());
  std::string svg = printRoofline(
      reports, flops, peaks,
      target + (isCpu ? ", " + peaks.instruction : std::string()));
  std::FILE *file = std::fopen(options.ladderPicture.c_str(), "wb");
  bool ok = file && std::fwrite(svg.data(), 1, svg.size(), file) == svg.size();
  if (file)
    ok &= std::fclose(file) == 0;
  if (!ok)
    return Failure{options.ladderPicture + ": expected a writable file"};
  return success();
}

Status attn::run::runLadder(const Options &options, AttnCompileOptions how,
                            const Progress &progress) {
  return Ladder(options, how, progress).run();
}

//===----------------------------------------------------------------------===//
// The picture
//===----------------------------------------------------------------------===//

namespace {
/// A logarithmic axis from a power of ten to another.
struct Axis {
  double low = INFINITY, high = 0;
  double from = 0, to = 0; // in the picture

  void take(double value) {
    if (!(value > 0) || !std::isfinite(value))
      return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  void round() {
    low = std::pow(10, std::floor(std::log10(low)));
    high = std::pow(10, std::ceil(std::log10(high) + 1e-9));
  }
  double at(double value) const {
    return from + (to - from) * (std::log10(value) - std::log10(low)) /
                      (std::log10(high) - std::log10(low));
  }
};
} // namespace

std::string attn::run::printRoofline(const std::vector<RungReport> &rungs,
                                     double flops, const Peaks &peaks,
                                     const std::string &title) {
  struct Point {
    std::string name;
    double intensity, rate;
  };
  std::vector<Point> points;
  bool hasRoof = peaks.flopsPerSecond > 0 && peaks.bytesPerSecond > 0;
  for (const RungReport &rung : rungs) {
    double bytes = rung.counted > 0 ? rung.counted : rung.predicted;
    if (!rung.refusal.empty() || bytes <= 0)
      continue;
    // What was not timed is only as intense as it is.
    points.push_back(
        {rung.name, flops / bytes, rung.ms > 0 ? flops / rung.ms * 1e-6 : 0.0});
  }
  Axis x, y;
  x.from = 70, x.to = 620, y.from = 340, y.to = 40;
  for (const Point &point : points) {
    x.take(point.intensity);
    y.take(point.rate);
  }
  if (hasRoof) {
    x.take(peaks.flopsPerSecond / peaks.bytesPerSecond);
    y.take(peaks.flopsPerSecond * 1e-9);
  }
  x.take(1);
  y.take(1);
  x.round();
  y.round();
  std::string body;
  auto add = [&](const char *format, auto... values) {
    char text[512];
    std::snprintf(text, sizeof(text), format, values...);
    body += text;
  };
  add("<text x=\"70\" y=\"24\">%s: %.4g GFLOP of live pairs</text>\n",
      title.c_str(), flops * 1e-9);
  auto grid = [&](const Axis &axis, bool isX) {
    for (double value = axis.low; value <= axis.high * 1.001; value *= 10) {
      double at = axis.at(value);
      if (isX)
        add("<path d=\"M%.1f 340V40\" stroke=\"#ddd\"/><text x=\"%.1f\" "
            "y=\"356\" text-anchor=\"middle\">%g</text>\n",
            at, at, value);
      else
        add("<path d=\"M70 %.1fH620\" stroke=\"#ddd\"/><text x=\"64\" "
            "y=\"%.1f\" text-anchor=\"end\">%g</text>\n",
            at, at + 4, value);
    }
  };
  grid(x, true);
  grid(y, false);
  body += "<text x=\"345\" y=\"376\" text-anchor=\"middle\">FLOP for each byte "
          "between memory and tiles</text>\n<text x=\"16\" y=\"190\" "
          "transform=\"rotate(-90 16 190)\" text-anchor=\"middle\">GFLOP/s"
          "</text>\n";
  if (hasRoof) {
    double peak = peaks.flopsPerSecond * 1e-9,
           slope = peaks.bytesPerSecond * 1e-9, ridge = peak / slope;
    double start = std::max(x.low, y.low / slope);
    add("<path d=\"M%.1f %.1fL%.1f %.1fH620\" fill=\"none\" stroke=\"#444\" "
        "stroke-width=\"2\"/>\n",
        x.at(start), y.at(start * slope), x.at(ridge), y.at(peak));
  }
  int number = 0;
  for (const Point &point : points) {
    double left = x.at(point.intensity);
    // Names that would lie on each other are set apart.
    double shift = (number++ % 3) * 12.0 - 12.0;
    if (point.rate > 0) {
      double top = y.at(point.rate);
      add("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" fill=\"#2a6db0\"/><text "
          "x=\"%.1f\" y=\"%.1f\">%s</text>\n",
          left, top, left + 7, top + 4 + shift, point.name.c_str());
    } else {
      add("<path d=\"M%.1f 340V%.1f\" stroke=\"#2a6db0\"/><text x=\"%.1f\" "
          "y=\"%.1f\">%s</text>\n",
          left, 70.0 + 30 * number, left + 4, 78.0 + 30 * number,
          point.name.c_str());
    }
  }
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"680\" "
         "height=\"390\" font-family=\"sans-serif\" font-size=\"12\">\n"
         "<rect width=\"680\" height=\"390\" fill=\"white\"/>\n" +
         body + "</svg>\n";
}
