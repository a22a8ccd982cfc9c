//===- Describe.cpp - What a kernel is about, in a line -------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Edges.h"
#include "Scans.h"

using namespace ::attn;
using namespace ::attn::fuzz;

std::string fuzz::describe(const Kernel &k) {
  if (k.scan)
    return describe(*k.scan);
  std::string text = std::string(nameOf(k.family)) + ": " + k.monoid->name +
                     " " + support::nameOf(k.dtype) +
                     " d=" + std::to_string(k.dqk) + "/" + std::to_string(k.dv);
  for (Edge edge : k.edges)
    text +=
        std::string(edge == *k.edges.begin() ? " edges=" : "+") + nameOf(edge);
  auto flag = [&](bool on, const char *name) {
    if (on)
      text += std::string(" ") + name;
  };
  flag(k.outDType != k.dtype, "out=f32");
  flag(k.tf32, "tf32");
  flag(k.aggregate, "aggregate");
  flag(k.partials, "partial");
  flag(k.granule, "granule");
  flag(k.packed, "packed");
  if (k.page)
    text += " page=" + std::to_string(k.page);
  flag(k.kStart, "k_start");
  flag(k.batchInvariant, "batch_invariant");
  if (k.cascade)
    text += " cascade=" + std::to_string(k.cascade);
  flag(k.append, "append");
  flag(k.dropout, "dropout");
  if (k.turned)
    text += " turned=" + std::to_string(k.turned);
  flag(k.interleaved, "interleaved");
  flag(k.turnsBySlot, "by-slot");
  flag(k.causal == Causal::topLeft, "top_left");
  flag(k.causal == Causal::bottomRight, "bottom_right");
  flag(k.windowLeft || k.windowRight, "window");
  flag(k.lengths, "lengths");
  flag(k.softcap, "softcap");
  flag(k.bias.rank, "bias");
  flag(k.mask.rank, "mask");
  flag(k.alibiRank, "alibi");
  flag(k.sinks, "sinks");
  flag(k.maskExpr != nullptr, "mask-region");
  flag(k.scoreExpr != nullptr, "score-region");
  if (k.schedule)
    text +=
        " schedule=" + std::to_string(k.schedule->blockQ) + "/" +
        std::to_string(k.schedule->rows) + "/" +
        std::to_string(k.schedule->blockK) + "x" +
        std::to_string(k.schedule->splits) + k.schedule->loop +
        (k.schedule->overlap == "next_step" ? "" : "/" + k.schedule->overlap) +
        (k.schedule->turns[0] == 'n' ? ""
                                     : std::string("/") + k.schedule->turns) +
        (k.schedule->packHeads ? "/packs-heads" : "") +
        (k.schedule->turnsInside ? "/turns-inside" : "") +
        (k.schedule->pairs.empty() ? "" : "/" + k.schedule->pairs) +
        (k.schedule->cluster > 1
             ? "/cluster-" + std::to_string(k.schedule->cluster)
             : "");
  return text;
}
