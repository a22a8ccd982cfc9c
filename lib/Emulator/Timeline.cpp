//===- Timeline.cpp - What was executed when, for Perfetto ----------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Timeline.h"
#include "attn/Emulator/Machine.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>

using namespace ::attn::emulator;
using attn::support::Failure;
using attn::support::Status;

//===----------------------------------------------------------------------===//
// Slices
//===----------------------------------------------------------------------===//

/// "ring.wait" of "%9 = tile_gpu.ring.wait %ks, %u"; what is between operations
/// of tile_gpu has one name.
static std::string mnemonicOf(llvm::StringRef op) {
  if (op.starts_with("%"))
    op = op.split(" = ").second;
  op = op.split(' ').first;
  return op.consume_front("tile_gpu.") ? op.str() : "scalars";
}

static const char *kindOf(Pipe pipe) {
  switch (pipe) {
  case Pipe::Issue:
    return "issue";
  case Pipe::Alu:
    return "alu";
  case Pipe::Fma:
    return "fma";
  case Pipe::Special:
    return "special";
  case Pipe::Tensor:
    return "tensor";
  case Pipe::Shared:
    return "shared";
  case Pipe::Copy:
    return "copy";
  case Pipe::Wait:
    break;
  }
  return "wait";
}

Timeline::Process &Timeline::processOf(const Agent &agent) {
  const LaunchState &launch = *agent.block.cluster->launch;
  Process &process = processes[{launch.number, agent.block.number}];
  if (process.name.empty())
    process.name = "launch " + std::to_string(launch.number) + " of " +
                   launch.kernel->name + ", block " +
                   std::to_string(agent.block.number);
  return process;
}

Timeline::Slice Timeline::sliceOf(const Agent &agent, uint32_t site,
                                  Cycles start, Cycles end) {
  const Site &s = agent.program.sites[site];
  Slice slice;
  slice.name = mnemonicOf(s.op);
  slice.start = start;
  slice.end = end;
  slice.op = s.op;
  slice.location = s.location;
  return slice;
}

void Timeline::executed(const Agent &agent, uint32_t site, Pipe pipe,
                        Cycles start, Cycles end) {
  if (end <= start)
    return;
  Track &track = processOf(agent).agents[agent.id.agent];
  track.name = roleText(agent.role, agent.member);
  Slice slice = sliceOf(agent, site, start, end);
  slice.kind = kindOf(pipe);
  if (pipe == Pipe::Wait) {
    slice.name = "wait at " + slice.name;
    if (agent.waitedAt)
      slice.barrier = *agent.waitedAt;
  }
  // Scalars one after the other.
  if (!track.slices.empty()) {
    Slice &last = track.slices.back();
    if (last.end == start && last.name == slice.name &&
        slice.name == "scalars") {
      last.end = end;
      return;
    }
  }
  track.slices.push_back(std::move(slice));
}

void Timeline::ranBeside(const Agent &agent, uint32_t site, Pipe pipe,
                         Cycles start, Cycles end) {
  if (end <= start)
    return;
  Slice slice = sliceOf(agent, site, start, end);
  slice.kind = kindOf(pipe);
  slice.by = roleText(agent.role, agent.member);
  bool isStore = slice.name.rfind("bulk.", 0) == 0;
  if (pipe == Pipe::Copy && !isStore && agent.signals)
    slice.barrier = *agent.signals;
  const char *track = pipe == Pipe::Tensor ? "products"
                      : isStore            ? "bulk stores"
                                           : "copies";
  processOf(agent).beside[track].slices.push_back(std::move(slice));
}

//===----------------------------------------------------------------------===//
// The file
//===----------------------------------------------------------------------===//

namespace {
/// Writes events of one process and thread. A cycle is a nanosecond of the
/// format, whose unit is the microsecond.
class Writer {
public:
  explicit Writer(llvm::json::OStream &json) : json(json) {}

  int64_t process = 0, thread = 0;

  template <typename F> void event(const char *phase, F body) {
    json.object([&] {
      json.attribute("ph", phase);
      json.attribute("pid", process);
      json.attribute("tid", thread);
      body();
    });
  }
  void name(const char *what, const std::string &text) {
    event("M", [&] {
      json.attribute("name", what);
      json.attributeObject("args", [&] { json.attribute("name", text); });
    });
  }
  void time(const char *what, Cycles cycles) {
    json.attributeBegin(what);
    json.rawValue(
        llvm::formatv("{0}.{1,0+3}", cycles / 1000, cycles % 1000).str());
    json.attributeEnd();
  }

  llvm::json::OStream &json;
};
} // namespace

/// "full barrier of ring %1" and 0 of "full barrier of ring %1, slot 0".
static std::pair<std::string, std::optional<int64_t>>
splitSlot(const std::string &barrier) {
  auto [place, number] = llvm::StringRef(barrier).rsplit(", slot ");
  int64_t slot;
  if (number.empty() || number.getAsInteger(10, slot))
    return {barrier, std::nullopt};
  return {place.str(), slot};
}

/// Slices that do not overlap, one list after the other.
template <typename SliceT>
static std::vector<std::vector<SliceT>> lanesOf(std::vector<SliceT> slices) {
  llvm::sort(slices, [](const SliceT &x, const SliceT &y) {
    return std::tie(x.start, x.end) < std::tie(y.start, y.end);
  });
  std::vector<std::vector<SliceT>> lanes;
  for (SliceT &slice : slices) {
    auto lane = std::find_if(lanes.begin(), lanes.end(), [&](const auto &lane) {
      return lane.back().end <= slice.start;
    });
    if (lane == lanes.end())
      lane = lanes.insert(lane, std::vector<SliceT>());
    lane->push_back(std::move(slice));
  }
  return lanes;
}

Status Timeline::write(const std::string &path) const {
  std::error_code error;
  llvm::raw_fd_ostream stream(path, error, llvm::sys::fs::OF_Text);
  if (error)
    return Failure{"expected to write the timeline '" + path +
                   "', but got: " + error.message()};
  llvm::json::OStream json(stream);
  Writer writer(json);
  int64_t arrows = 0;
  json.objectBegin();
  json.attribute("displayTimeUnit", "ns");
  json.attributeBegin("traceEvents");
  json.arrayBegin();
  for (auto &[key, process] : processes) {
    ++writer.process;
    writer.thread = 0;
    writer.name("process_name", process.name);
    // Where the last copy to a barrier ended that is known so far, by track.
    struct End {
      Cycles end;
      int64_t thread;
    };
    std::map<std::string, std::vector<End>> ends;
    auto writeTrack = [&](const std::string &name,
                          const std::vector<Slice> &slices) {
      ++writer.thread;
      writer.name("thread_name", name);
      for (const Slice &slice : slices) {
        auto place = splitSlot(slice.barrier);
        writer.event("X", [&] {
          json.attribute("name", slice.name);
          json.attribute("cat", slice.kind);
          writer.time("ts", slice.start);
          writer.time("dur", slice.end - slice.start);
          json.attributeObject("args", [&] {
            json.attribute("op", slice.op);
            if (!slice.location.empty())
              json.attribute("at", slice.location);
            if (!slice.by.empty())
              json.attribute("by", slice.by);
            if (!place.first.empty())
              json.attribute("barrier", place.first);
            if (place.second)
              json.attribute("slot", *place.second);
          });
        });
        if (slice.barrier.empty())
          continue;
        if (slice.kind != "wait") {
          ends[slice.barrier].push_back({slice.end, writer.thread});
          continue;
        }
        // An arrow from the copy that ended it.
        const End *last = nullptr;
        for (const End &one : ends[slice.barrier])
          if (one.end > slice.start && one.end <= slice.end &&
              (!last || one.end > last->end))
            last = &one;
        if (!last)
          continue;
        ++arrows;
        int64_t own = writer.thread;
        auto arrow = [&](const char *phase, int64_t thread, Cycles at) {
          writer.thread = thread;
          writer.event(phase, [&] {
            json.attribute("name", "fills");
            json.attribute("cat", "fills");
            json.attribute("id", arrows);
            json.attribute("bp", "e");
            writer.time("ts", at);
          });
        };
        arrow("s", last->thread, last->end - 1);
        arrow("f", own, slice.end - 1);
        writer.thread = own;
      }
    };
    // Copies first: waits look for them.
    for (auto &[name, track] : process.beside) {
      auto lanes = lanesOf(track.slices);
      for (size_t i = 0; i < lanes.size(); ++i)
        writeTrack(i ? name + " " + std::to_string(i + 1) : name, lanes[i]);
    }
    for (auto &[id, track] : process.agents)
      writeTrack(track.name, track.slices);
  }
  json.arrayEnd();
  json.attributeEnd();
  json.objectEnd();
  stream << '\n';
  stream.close();
  if (stream.has_error())
    return Failure{"expected to write the timeline '" + path +
                   "', but got: " + stream.error().message()};
  return attn::support::success();
}
