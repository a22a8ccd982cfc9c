//===- Phase.h - The phases of a compilation --------------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The same names stop, dump and resume a compilation, in every tool and in the
// C ABI. This header includes no MLIR.
//===----------------------------------------------------------------------===//

#ifndef ATTN_PIPELINES_PHASE_H
#define ATTN_PIPELINES_PHASE_H

#include <optional>
#include <string>
#include <string_view>

namespace attn {

/// Each phase is named after the IR it leaves. Of Vector and LLVM on the one
/// hand, Gpu and Nvvm on the other, a target has one pair.
enum class Phase {
  Input,     ///< what the user wrote: attn.attention, attn.aggregate
  Aggregate, ///< attn.aggregate alone, over monoids whose laws were tested
  Schedule,  ///< with every decision taken, splits applied
  Tile,      ///< plans and kernels on tiles
  Vector,    ///< CPU: kernels in scf and vector, with scratch
  LLVM,      ///< CPU: the LLVM dialect, one entry per plan
  Gpu,       ///< GPU: kernels on fragments and rings
  Nvvm       ///< GPU: kernels in a gpu.module, plans in the LLVM dialect
};

constexpr Phase allPhases[] = {Phase::Input, Phase::Aggregate, Phase::Schedule,
                               Phase::Tile,  Phase::Vector,    Phase::LLVM,
                               Phase::Gpu,   Phase::Nvvm};

/// Whether kernels for a CPU, or for a GPU, go through a phase.
constexpr bool isPhaseOf(Phase phase, bool isCpu) {
  if (phase <= Phase::Tile)
    return true;
  return isCpu == (phase <= Phase::LLVM);
}

constexpr const char *nameOf(Phase phase) {
  switch (phase) {
  case Phase::Input:
    return "input";
  case Phase::Aggregate:
    return "aggregate";
  case Phase::Schedule:
    return "schedule";
  case Phase::Tile:
    return "tile";
  case Phase::Vector:
    return "vector";
  case Phase::LLVM:
    return "llvm";
  case Phase::Gpu:
    return "gpu";
  case Phase::Nvvm:
    return "nvvm";
  }
  return "";
}

inline std::optional<Phase> parsePhase(std::string_view name) {
  for (Phase phase : allPhases)
    if (name == nameOf(phase))
      return phase;
  return std::nullopt;
}

/// "input, aggregate, ...", for diagnostics.
inline std::string phaseNames() {
  std::string names;
  for (Phase phase : allPhases)
    names.append(names.empty() ? "" : ", ").append(nameOf(phase));
  return names;
}
/// The same of the phases that a CPU, or a GPU, has.
inline std::string phaseNames(bool isCpu) {
  std::string names;
  for (Phase phase : allPhases)
    if (isPhaseOf(phase, isCpu))
      names.append(names.empty() ? "" : ", ").append(nameOf(phase));
  return names;
}

} // namespace attn

#endif // ATTN_PIPELINES_PHASE_H
