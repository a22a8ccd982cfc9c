//===- Picture.cpp - Pictures of masks ------------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Picture.h"

#include <array>
#include <cstdio>

using namespace ::attn::run;
using namespace ::attn::support;

/// Bits of AttnMaskTiles::classes.
static constexpr uint8_t kDead = 0, kPartial = 1, kFull = 2, kRead = 4;

static uint8_t kindOf(uint8_t found) { return found & 3; }

namespace {
struct Reader {
  std::vector<MaskPicture> masks;
  int64_t tileRows, tileKeys;
  bool onlyAnalysis;

  void add(const AttnMaskTiles &tiles) {
    MaskPicture mask{tiles.reduction,  tiles.batch,    tiles.head,   1,
                     tiles.rows,       tiles.keys,     tileRows,     tileKeys,
                     tiles.queryTiles, tiles.keyTiles, onlyAnalysis, {}};
    mask.classes.assign(tiles.classes,
                        tiles.classes + tiles.queryTiles * tiles.keyTiles);
    for (MaskPicture &other : masks)
      if (other.reduction == mask.reduction && other.rows == mask.rows &&
          other.keys == mask.keys && other.classes == mask.classes) {
        ++other.count;
        return;
      }
    masks.push_back(std::move(mask));
  }
};
} // namespace

Result<std::vector<MaskPicture>>
attn::run::readMasks(const std::string &text, const std::string &entry,
                     const std::vector<HostTensor> &inputs, int64_t tileRows,
                     int64_t tileKeys, bool onlyAnalysis) {
  Reader reader{{}, tileRows, tileKeys, onlyAnalysis};
  AttnMaskTilesOptions options = {};
  options.structSize = sizeof(options);
  options.tileRows = tileRows;
  options.tileKeys = tileKeys;
  options.onlyAnalysis = onlyAnalysis;
  std::vector<AttnTensor> views;
  for (const HostTensor &input : inputs)
    views.push_back(input.view());
  AttnError *error = attnMaskTiles(
      text.data(), text.size(), entry.c_str(), views.data(), views.size(),
      &options,
      [](void *user, const AttnMaskTiles *tiles) {
        static_cast<Reader *>(user)->add(*tiles);
      },
      &reader);
  if (error) {
    Failure failure{attnErrorMessage(error)};
    attnErrorDestroy(error);
    return failure;
  }
  return std::move(reader.masks);
}

std::string attn::run::printCounts(const MaskPicture &mask) {
  std::array<int64_t, 8> counts = {};
  for (uint8_t found : mask.classes)
    ++counts[found & 7];
  double all = double(std::max<size_t>(mask.classes.size(), 1)) / 100.0;
  auto share = [&](uint8_t kind) {
    return double(counts[kind] + counts[kind | kRead]) / all;
  };
  // Of partial ones the elements are read anyway.
  double missed = double(counts[kDead | kRead] + counts[kFull | kRead]) / all;
  char end[64] = "";
  if (!mask.onlyAnalysis)
    std::snprintf(end, sizeof(end), ", %.4g %% as only elements tell", missed);
  char line[400];
  std::snprintf(
      line, sizeof(line),
      "mask of batch %lld, head %lld%s: %lld x %lld tiles of %lld x "
      "%lld, %.4g %% live: %.4g %% full, %.4g %% %s; %.4g %% "
      "dead%s\n",
      (long long)mask.batch, (long long)mask.head,
      mask.count > 1
          ? (" and " + std::to_string(mask.count - 1) + " like it").c_str()
          : "",
      (long long)mask.queryTiles, (long long)mask.keyTiles,
      (long long)mask.tileRows, (long long)mask.tileKeys,
      share(kFull) + share(kPartial), share(kFull), share(kPartial),
      mask.onlyAnalysis ? "tested" : "partial", share(kDead), end);
  std::string prefix;
  if (mask.reduction > 0)
    prefix = "reduction " + std::to_string(mask.reduction) + ", ";
  return prefix + line;
}

std::string attn::run::printCharacters(const MaskPicture &mask) {
  constexpr int64_t most = 64;
  int64_t longest = std::max(mask.queryTiles, mask.keyTiles);
  int64_t step = std::max<int64_t>((longest + most - 1) / most, 1);
  std::string text;
  for (int64_t i = 0; i < mask.queryTiles; i += step) {
    text += "  ";
    for (int64_t j = 0; j < mask.keyTiles; j += step) {
      bool seen[3] = {};
      for (int64_t r = i; r < std::min(i + step, mask.queryTiles); ++r)
        for (int64_t c = j; c < std::min(j + step, mask.keyTiles); ++c)
          seen[std::min<uint8_t>(kindOf(mask.classes[r * mask.keyTiles + c]),
                                 2)] = true;
      bool isOne = seen[0] + seen[1] + seen[2] == 1;
      text += !isOne || seen[kPartial] ? '+' : seen[kFull] ? '#' : '.';
    }
    text += "\n";
  }
  return text;
}

std::string attn::run::printSvg(const std::vector<MaskPicture> &masks) {
  constexpr int64_t margin = 12, title = 18;
  std::string body;
  int64_t width = 0, y = margin;
  auto add = [&](const char *format, auto... values) {
    char text[256];
    std::snprintf(text, sizeof(text), format, values...);
    body += text;
  };
  for (const MaskPicture &mask : masks) {
    int64_t longest =
        std::max<int64_t>(std::max(mask.queryTiles, mask.keyTiles), 1);
    double side = std::max(1.0, std::min(16.0, 512.0 / double(longest)));
    double w = side * double(mask.keyTiles), h = side * double(mask.queryTiles);
    add("<text x=\"%lld\" y=\"%lld\">", (long long)margin, (long long)(y + 12));
    std::string counts = printCounts(mask);
    body += counts.substr(0, counts.find('\n')) + "</text>\n";
    y += title;
    // What is dead is the ground.
    add("<rect x=\"%lld\" y=\"%lld\" width=\"%.2f\" height=\"%.2f\" "
        "class=\"dead\"/>\n",
        (long long)margin, (long long)y, w, h);
    for (int64_t i = 0; i < mask.queryTiles; ++i)
      for (int64_t j = 0; j < mask.keyTiles;) {
        uint8_t kind = kindOf(mask.classes[i * mask.keyTiles + j]);
        int64_t end = j + 1;
        while (end < mask.keyTiles &&
               kindOf(mask.classes[i * mask.keyTiles + end]) == kind)
          ++end;
        if (kind != kDead)
          add("<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" "
              "class=\"%s\"/>\n",
              double(margin) + side * double(j), double(y) + side * double(i),
              side * double(end - j), side, kind == kFull ? "full" : "partial");
        j = end;
      }
    width = std::max(width, int64_t(w) + 2 * margin);
    y += int64_t(h) + margin;
  }
  width = std::max<int64_t>(width, 760);
  char head[512];
  std::snprintf(
      head, sizeof(head),
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%lld\" "
      "height=\"%lld\" font-family=\"sans-serif\" font-size=\"11\">\n"
      "<style>.dead{fill:#eceff1;stroke:#b0bec5}.partial{fill:#ffb74d}"
      ".full{fill:#3949ab}</style>\n",
      (long long)width, (long long)y);
  return head + body + "</svg>\n";
}
