//===- Pipelines.cpp - The order of passes --------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The table of contents of the compiler: what runs, in which order, and why
// there. Everything that compiles goes through these functions.
//===----------------------------------------------------------------------===//

#include "attn/Pipelines/Pipelines.h"
#include "attn/Conversion/Passes.h"
#include "attn/Dialect/Attn/Transforms/Passes.h"
#include "attn/Dialect/Tile/Transforms/Passes.h"
#include "attn/Dialect/TileGPU/Transforms/Passes.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/Support/ErrorHandling.h"

using namespace mlir;

/// Folds and local patterns. Regions are not looked through for values that are
/// dead across them: control flow is structured here, and the search, a third
/// of canonicalization, changes no kernel's code.
static void addCanonicalizer(OpPassManager &pm) {
  GreedyRewriteConfig config;
  // The pass's own default, which is not that of a configuration.
  config.setUseTopDownTraversal(true);
  config.setRegionSimplificationLevel(GreedySimplifyRegionLevel::Disabled);
  pm.addPass(createCanonicalizerPass(config));
}

void ::attn::populateAggregatePipeline(OpPassManager &pm, bool explain) {
  // First: everything after it may look a monoid up in the module.
  pm.addPass(createAttnImportPreludePass());
  // Before any rewrite that the laws license, and in every compilation.
  AttnCheckLawsPassOptions laws;
  laws.properties = explain;
  pm.addPass(createAttnCheckLawsPass(laws));
  pm.addPass(createAttnToAggregatePass());
  // Below, positions count from 0.
  pm.addPass(createAttnFoldBasesPass());
  addCanonicalizer(pm);
  // After it: results that nobody uses are gone. Before schedules: they count
  // components.
  AttnDropDeadComponentsPassOptions components;
  components.explain = explain;
  pm.addPass(createAttnDropDeadComponentsPass(components));
  // After it: an output that nobody uses keeps no aggregate from being a scan.
  AttnAggregateToScanPassOptions scans;
  scans.explain = explain;
  pm.addPass(createAttnAggregateToScanPass(scans));
}

void ::attn::populateSchedulePipeline(OpPassManager &pm, bool explain,
                                      const std::string &scheduleTable) {
  // Before schedules, which count statistics, and before rungs.
  AttnScaleWeightsPassOptions weights;
  weights.explain = explain;
  pm.addPass(createAttnScaleWeightsPass(weights));
  // Before schedules: what a rung becomes has some of its own.
  pm.addPass(createAttnApplyRungPass());
  AttnSeparateSumsPassOptions separate;
  separate.explain = explain;
  pm.addPass(createAttnSeparateSumsPass(separate));
  AttnChooseSchedulePassOptions schedule;
  schedule.explain = explain;
  schedule.tableText = scheduleTable;
  pm.addPass(createAttnChooseSchedulePass(schedule));
  // Before anything reads a schedule: behind it each function has one.
  pm.addPass(createAttnExpandDispatchPass());
  // After the choice, before splits: it has parts of its own.
  AttnSharePrefixesPassOptions share;
  share.explain = explain;
  pm.addPass(createAttnSharePrefixesPass(share));
  // The keys that groups have are reduced for as many rows as these have.
  schedule.missing = true;
  pm.addPass(createAttnChooseSchedulePass(schedule));
  // After the choice of splits, before kernels are built.
  AttnSplitPassOptions split;
  split.explain = explain;
  pm.addPass(createAttnSplitPass(split));
  // After it: what the states of parts are finalized to decides.
  pm.addPass(createAttnRelaxMaximumPass());
  pm.addPass(createAttnFixAnchorPass());
  // What kernels make of scores: a test that hides what scores grow by goes
  // first, and the exponential decides what may be folded into it.
  pm.addPass(createAttnGuardDeadScoresPass());
  pm.addPass(createAttnOnlineFormPass());
  pm.addPass(createAttnFoldScalePass());
  pm.addPass(createAttnFoldLinearBiasPass());
  // Kernels beside those of the reductions: of packed heads, and of lists.
  pm.addPass(createAttnPackHeadsPass());
  pm.addPass(createAttnListKeyTilesPass());
  // After splits: a part of the keys has no whole sums. Last: behind it
  // reductions are no longer a function's own operations.
  AttnFuseGradientsPassOptions fusion;
  fusion.explain = explain;
  pm.addPass(createAttnFuseGradientsPass(fusion));
}

void ::attn::populateTilePipeline(OpPassManager &pm) {
  pm.addPass(createAttnTilePass());
  addCanonicalizer(pm);
  // Kernel builders recompute positions and constants freely.
  pm.addPass(createCSEPass());
}

/// What starts both ways down from tiles.
static void expandTiles(OpPassManager &pm) {
  pm.addPass(::attn::createTileExpandStreamPass());
  // Bodies test what their loop knows; loops look alike.
  addCanonicalizer(pm);
  pm.addPass(createCSEPass());
  // Of the loads that are left, and before anything asks which tensor one
  // reads, and from where.
  pm.addPass(::attn::createTileExpandSourcesPass());
}

void ::attn::populateVectorPipeline(OpPassManager &pm, const TargetInfo &target,
                                    bool explain) {
  expandTiles(pm);
  ConvertTileToVectorOptions vectorOptions;
  vectorOptions.target = target.name;
  pm.addPass(createConvertTileToVector(vectorOptions));
  // After it: only vectors say how wide an expansion is.
  TileExpandMathPassOptions mathOptions;
  mathOptions.target = target.name;
  pm.addPass(createTileExpandMathPass(mathOptions));
  if (!explain)
    return;
  TileEstimateCyclesPassOptions cycleOptions;
  cycleOptions.target = target.name;
  pm.addPass(createTileEstimateCyclesPass(cycleOptions));
}

void ::attn::populateGpuPipeline(OpPassManager &pm, const TargetInfo &target,
                                 bool explain) {
  expandTiles(pm);
  // Loads of the same rows show that they are.
  pm.addPass(createCSEPass());
  // Structure: roles, rings, one program for each role. What it leaves alone,
  // warps and copies of sm_80 run.
  pm.addPass(createTileGpuSpecializeWarpsPass());
  pm.addPass(createTileGpuPipelineCopiesPass());
  addCanonicalizer(pm);
  pm.addPass(createCSEPass());
  // Compute: fragments, each product waited for at once.
  pm.addNestedPass<tile_gpu::KernelOp>(createConvertTileToTileGPU());
  addCanonicalizer(pm);
  pm.addPass(createCSEPass());
  OpPassManager &kernels = pm.nest<tile_gpu::KernelOp>();
  // Before products move: it looks for sums beside their loops.
  kernels.addPass(createTileGpuDeferReductionsPass());
  // Which products run beside the next step, and then that they do.
  TileGpuAssignStagesPassOptions stages;
  stages.explain = explain;
  kernels.addPass(createTileGpuAssignStagesPass(stages));
  kernels.addPass(createTileGpuExpandPipelinePass());
  kernels.addPass(createTileGpuHoistReciprocalsPass());
  // Of fragments and vectors that are all there by now.
  kernels.addPass(createTileGpuPermuteLanesPass());
  // Around products where they are issued in the end.
  kernels.addPass(createTileGpuOrderWarpgroupsPass());
  kernels.addPass(createTileGpuReadAheadPass());
  // Last: it takes the shared memory that the rest has left.
  pm.addPass(createTileGpuStageEpiloguePass());
  // Before items are shared: it follows them from their numbers.
  TileGpuMulticastLoadsPassOptions multicast;
  multicast.explain = explain;
  pm.addNestedPass<tile_gpu::KernelOp>(
      createTileGpuMulticastLoadsPass(multicast));
  pm.addNestedPass<tile_gpu::KernelOp>(createTileGpuHoistCoordinatesPass());
  // Of plans, and at the edges of their kernels.
  pm.addPass(createTileGpuKeepWorkspacePass());
  pm.addPass(createTileGpuOverlapLaunchesPass());
  // Behind what looks for first copies in such loops.
  TileGpuReadTablesAheadPassOptions tables;
  tables.explain = explain;
  pm.addNestedPass<tile_gpu::KernelOp>(
      createTileGpuReadTablesAheadPass(tables));
  // After the last pass that could merge fragments, for the check below.
  pm.addNestedPass<tile_gpu::KernelOp>(createTileGpuCopyFragmentsPass());
  pm.addNestedPass<tile_gpu::KernelOp>(createTileGpuVerifyAsyncPass());
  // After the last pass that makes or widens what lies there.
  pm.addPass(createTileGpuAllocateSharedPass());
  TileGpuVerifyBudgetPassOptions budget;
  budget.report = explain;
  pm.addPass(createTileGpuVerifyBudgetPass(budget));
}

void ::attn::populateLLVMPipeline(OpPassManager &pm, const TargetInfo &target) {
  ConvertPlanToLLVMOptions options;
  options.expandBF16 = !target.hasBf16Dot;
  pm.addPass(createConvertPlanToLLVM(options));
}

void ::attn::populateNvvmPipeline(OpPassManager &pm, const TargetInfo &target) {
  // Of kernels that begin here; others have their places.
  pm.addPass(createTileGpuAllocateSharedPass());
  pm.addPass(createConvertTileGPUToNVVM());
  // The plan runs on the host, and launches what the kernels become.
  ConvertPlanToLLVMOptions options;
  options.expandBF16 = !TargetInfo::host().hasBf16Dot;
  pm.addPass(createConvertPlanToLLVM(options));
}

void ::attn::populatePhasePipeline(Phase phase, OpPassManager &pm,
                                   const TargetInfo &target, bool explain,
                                   const std::string &scheduleTable) {
  switch (phase) {
  case Phase::Input:
    return;
  case Phase::Aggregate:
    return populateAggregatePipeline(pm, explain);
  case Phase::Schedule:
    return populateSchedulePipeline(pm, explain, scheduleTable);
  case Phase::Tile:
    return populateTilePipeline(pm);
  case Phase::Vector:
    return populateVectorPipeline(pm, target, explain);
  case Phase::LLVM:
    return populateLLVMPipeline(pm, target);
  case Phase::Gpu:
    return populateGpuPipeline(pm, target, explain);
  case Phase::Nvvm:
    return populateNvvmPipeline(pm, target);
  }
}

namespace {
struct PipelineOptions : PassPipelineOptions<PipelineOptions> {
  Option<std::string> from{
      *this, "from",
      llvm::cl::desc("Phase that the IR at hand has reached (default input)"),
      llvm::cl::init("input")};
  Option<std::string> untilAfter{
      *this, "until-after",
      llvm::cl::desc("Last phase to run (default: the target's last)"),
      llvm::cl::init("")};
  Option<std::string> target{
      *this, "target",
      llvm::cl::desc("Target to compile for, which a module with attn.target "
                     "must agree with (default host)"),
      llvm::cl::init("")};
};
} // namespace

void ::attn::registerAttnPipelines() {
  PassPipelineRegistration<PipelineOptions>(
      "attn-pipeline", "Compile attention through the named phases",
      [](OpPassManager &pm, const PipelineOptions &options) {
        std::optional<Phase> from = parsePhase(options.from.getValue());
        std::string name = options.target.getValue();
        bool isGiven = !name.empty();
        name = isGiven ? name : "host";
        std::optional<TargetInfo> target = TargetInfo::get(name);
        std::optional<Phase> last = parsePhase(options.untilAfter.getValue());
        if (options.untilAfter.getValue().empty())
          last = target && !target->isCpu() ? Phase::Nvvm : Phase::LLVM;
        if (!from || !last)
          llvm::reportFatalUsageError(
              Twine("expected a phase (") + phaseNames() + "), but got '" +
              (from ? options.untilAfter : options.from).getValue() + "'");
        // Phases up to tiles ask the module alone, and it may name any target
        // where the pipeline names none.
        if (isGiven || *last > Phase::Tile) {
          AttnSetTargetPassOptions setTarget;
          setTarget.target = name;
          pm.addPass(createAttnSetTargetPass(setTarget));
        }
        if (!target) // The pass says which there are.
          return;
        for (Phase phase : allPhases)
          if (phase > *from && phase <= *last &&
              isPhaseOf(phase, target->isCpu()))
            populatePhasePipeline(phase, pm, *target);
      });
}
