//===- AnalyseRoles.h - Whether warpgroups can run a kernel -----*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_TILEGPU_TRANSFORMS_ANALYSEROLES_H
#define ATTN_LIB_DIALECT_TILEGPU_TRANSFORMS_ANALYSEROLES_H

#include "SpecializeWarps.h"
#include "attn/Analysis/OnChip.h"

namespace mlir::tile_gpu {

/// Finds out whether warpgroups and tensor copies can run a kernel, and what
/// is to be known of it.
class RolesAnalysis {
public:
  RolesAnalysis(tile::KernelOp kernel, const ::attn::TargetInfo &target,
                RolesPlan &plan)
      : kernel(kernel), target(target), plan(plan) {}
  bool run();
  /// Where they cannot: fails if the schedule says that they share channels,
  /// which warps could not hold.
  LogicalResult verifyShares();

private:
  void readSchedule();
  // The steps.
  bool canMultiply(tile::DotOp dot);
  bool analyseSteps(SmallVectorImpl<tile::RowsOp> &steps);
  void findBranch(ArrayRef<tile::RowsOp> steps);
  bool canCountSteps(ArrayRef<tile::RowsOp> steps);
  // What warpgroups do together.
  bool analyseTeamwork();
  bool analyseShares();
  bool analyseKeyWarps(ArrayRef<tile::RowsOp> steps);
  bool analyseFewRows(ArrayRef<tile::RowsOp> steps);
  bool analyseMergedBlocks();
  bool canShare(Operation *op);
  void analyseSharedWeights(ArrayRef<tile::RowsOp> steps);
  void findOwnSums(ArrayRef<tile::RowsOp> steps);
  bool alternateKeys(ArrayRef<tile::RowsOp> steps);
  void splitColumns();
  bool findHandedOn(ArrayRef<tile::RowsOp> steps);
  bool analyseExchange(tile::DotOp dot);
  bool turnsKeys();
  // What is loaded.
  bool analyseLoads();
  void analyseColumns();
  /// Adds the rows that a load of a step fills; those of each step are alike.
  bool addToStep(RolesRing ring);
  bool analyseLoad(tile::LoadOp load);
  tile::LoadOp findFirstKeys();
  bool loadAllTiles(ArrayRef<tile::RowsOp> steps);
  bool loadsValuesApart();

  tile::KernelOp kernel;
  const ::attn::TargetInfo &target;
  RolesPlan &plan;
  /// What warpgroups that share channels cannot do.
  Operation *notShared = nullptr;
};

/// What a kernel of roles holds in shared memory.
::attn::onchip::SharedDemand sharedDemand(tile::KernelOp kernel,
                                          const RolesPlan &plan);

} // namespace mlir::tile_gpu

#endif // ATTN_LIB_DIALECT_TILEGPU_TRANSFORMS_ANALYSEROLES_H
