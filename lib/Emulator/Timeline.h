//===- Timeline.h - What was executed when, for Perfetto --------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Gathers what an observer learns as slices on tracks, and writes them in the
// Trace Event format. A block is a process; its warps and warpgroups, its
// copies and its products are threads.
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_EMULATOR_TIMELINE_H
#define ATTN_LIB_EMULATOR_TIMELINE_H

#include "attn/Emulator/Costs.h"
#include "attn/Support/Result.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace attn::emulator {

class Timeline : public Observer {
public:
  void executed(const Agent &agent, uint32_t site, Pipe pipe, Cycles start,
                Cycles end) override;
  void ranBeside(const Agent &agent, uint32_t site, Pipe pipe, Cycles start,
                 Cycles end) override;

  /// Writes all of it to a file.
  support::Status write(const std::string &path) const;

private:
  struct Slice {
    std::string name, kind;
    Cycles start = 0, end = 0;
    std::string op, location;
    /// Of a wait what it waits at, of a copy the barrier that it ends at; and
    /// who started it.
    std::string barrier, by;
  };
  struct Track {
    std::string name;
    std::vector<Slice> slices;
  };
  struct Process {
    std::string name;
    /// By agent, and by what runs beside them.
    std::map<uint32_t, Track> agents;
    std::map<std::string, Track> beside;
  };
  Process &processOf(const Agent &agent);
  static Slice sliceOf(const Agent &agent, uint32_t site, Cycles start,
                       Cycles end);

  /// By launch and block.
  std::map<std::pair<uint32_t, int64_t>, Process> processes;
};

} // namespace attn::emulator

#endif // ATTN_LIB_EMULATOR_TIMELINE_H
