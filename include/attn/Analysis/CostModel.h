//===- CostModel.h - What a schedule costs on a GPU -------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Cycles of kernels of warpgroups, by what each step over a tile of keys asks
// of the tensor unit, the special functions, the schedulers, shared memory and
// the port to the L2 cache; by what a work tile takes beside its steps; and by
// how many work tiles a multiprocessor gets. Rates are those of TargetInfo.
// Terms that a clock has to tell are in lib/Analysis/ScheduleRules.def, fitted
// to 518 kernels (docs/performance/gpu-schedules.md, "The cost model").
//
// This header includes no MLIR.
//===----------------------------------------------------------------------===//

#ifndef ATTN_ANALYSIS_COSTMODEL_H
#define ATTN_ANALYSIS_COSTMODEL_H

#include "attn/Analysis/Schedule.h"

namespace attn {

/// Cycles of a multiprocessor.
struct ScheduleCost {
  /// Of a step of all warpgroups of a block: what each unit is busy for, and
  /// what one warpgroup takes with all units for itself.
  double tensor = 0, special = 0, issue = 0, shared = 0, copies = 0, alone = 0;
  /// Of a step with all of these, of the longest work tile, of the kernel.
  double step = 0, tile = 0, kernel = 0;
  /// Work tiles.
  double tiles = 0;

  /// One line.
  std::string explain() const;
};

/// Whether the model knows this kind of kernel: warpgroups, one product with
/// keys and one with values, and more rows than one of them has.
bool hasCost(const ScheduleProblem &problem, const TargetInfo &target);

/// Sizes that are not known are taken to be long sequences of many heads.
ScheduleCost predictCost(const ScheduleProblem &problem,
                         const ScheduleSizes &sizes, const TargetInfo &target);

/// Whether products are those of warpgroups, which hold the sums in their
/// registers: tiles are theirs then.
bool hasGroupTiles(const ScheduleProblem &problem, const TargetInfo &target);

/// Whether half of a warpgroup's rows (see rowsAreHalf) were measured to be
/// faster for few rows of the problem; no other has them.
bool mayHaveHalfRows(const ScheduleProblem &problem, const TargetInfo &target);

/// Makes of a block that would have half of a warpgroup's rows, where the
/// problem may not, one of two warps.
void keepWarpRows(const ScheduleProblem &problem, const TargetInfo &target,
                  ScheduleSizes &sizes);

/// The tiles of warpgroups that fit on chip: what the model chooses from.
std::vector<ScheduleSizes> listGroupSizes(const ScheduleProblem &problem,
                                          const TargetInfo &target);

/// The tiles of a GPU that a schedule for the problem may have, of warpgroups
/// or of warps as the chosen ones are; and the text that `--explain` has of
/// them, BLOCK_Q/ROWS x LEAST-MOST, ..., with block_k from the least to the
/// most in steps of 16. `attn-run --autotune` measures these.
std::vector<ScheduleSizes> listSizes(const ScheduleProblem &problem,
                                     const TargetInfo &target);
std::string printSpace(const ScheduleProblem &problem,
                       const TargetInfo &target);

/// The cheapest of these. There is one.
ScheduleSizes chooseCheapest(const ScheduleProblem &problem,
                             const TargetInfo &target);

} // namespace attn

#endif // ATTN_ANALYSIS_COSTMODEL_H
