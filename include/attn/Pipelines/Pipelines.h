//===- Pipelines.h - The order of passes ------------------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_PIPELINES_PIPELINES_H
#define ATTN_PIPELINES_PIPELINES_H

#include "attn/Pipelines/Phase.h"
#include "attn/Target/TargetInfo.h"

namespace mlir {
class OpPassManager;
} // namespace mlir

namespace attn {

/// Adds the passes that lead from the phase before to `phase`; none for Input.
/// Pass them a builtin.module. With `explain`, decisions emit remarks.
/// `scheduleTable`: the text of schedules that were tuned, or empty.
void populatePhasePipeline(Phase phase, mlir::OpPassManager &pm,
                           const TargetInfo &target, bool explain = false,
                           const std::string &scheduleTable = "");

void populateAggregatePipeline(mlir::OpPassManager &pm, bool explain = false);
void populateSchedulePipeline(mlir::OpPassManager &pm, bool explain = false,
                              const std::string &scheduleTable = "");
void populateTilePipeline(mlir::OpPassManager &pm);
void populateVectorPipeline(mlir::OpPassManager &pm, const TargetInfo &target,
                            bool explain = false);
void populateLLVMPipeline(mlir::OpPassManager &pm, const TargetInfo &target);
/// The GPU form of the same rung: roles, rings, fragments, products in flight.
void populateGpuPipeline(mlir::OpPassManager &pm, const TargetInfo &target,
                         bool explain = false);
void populateNvvmPipeline(mlir::OpPassManager &pm, const TargetInfo &target);

/// Registers `attn-pipeline{from=... until-after=... target=...}`.
void registerAttnPipelines();

} // namespace attn

#endif // ATTN_PIPELINES_PIPELINES_H
