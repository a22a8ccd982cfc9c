//===- CheckLaws.cpp - Test the laws of the monoids of a module -----------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
// The tests are in lib/Analysis/Laws.cpp; the tiler asks for the same report,
// so that no pipeline can leave them out.
//===----------------------------------------------------------------------===//

#include "attn/Analysis/Laws.h"
#include "attn/Dialect/Attn/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/MapVector.h"

#define DEBUG_TYPE "attn-check-laws"

namespace attn {
#define GEN_PASS_DEF_ATTNCHECKLAWSPASS
#include "attn/Dialect/Attn/Transforms/Passes.h.inc"
} // namespace attn

using namespace mlir;

/// The way that a reduction by a monoid takes, and why.
static StringRef describePath(mlir::attn::MonoidOp monoid,
                              const ::attn::LawReport &report) {
  switch (monoid.getKind()) {
  case mlir::attn::MonoidKind::cocycle:
    return "matrix products (cocycle: one factor for a row rescales what was "
           "summed)";
  case mlir::attn::MonoidKind::suffix:
    return "row scan + matrix products (suffix: a key's weight takes the gates "
           "of the keys behind it)";
  case mlir::attn::MonoidKind::prefix:
    return "row scan + matrix products (prefix: a key's weight takes the gates "
           "of the keys before it)";
  case mlir::attn::MonoidKind::affine:
    return "row scans + matrix products (affine: a key's weight takes a factor "
           "of the keys before it and one of those behind it)";
  case mlir::attn::MonoidKind::general:
    if (report.threshold >= 0)
      return "keys side by side against a threshold of the row, and one by one "
             "those that pass (general: a key below it leaves the state)";
    return "element by element (general: combine on whole states, for each key "
           "and channel)";
  }
  return "";
}

/// How many functions and divisions a key of a row takes: for each channel, of
/// a general monoid.
static std::string countFunctions(mlir::attn::MonoidOp monoid) {
  llvm::MapVector<StringRef, int> counts;
  SmallVector<Region *> regions = {&monoid.getLift(), &monoid.getGate()};
  if (monoid.getKind() == mlir::attn::MonoidKind::cocycle)
    regions.push_back(&monoid.getRescale());
  else if (monoid.getKind() == mlir::attn::MonoidKind::affine)
    regions.append({&monoid.getCombine(), &monoid.getFactors()});
  else
    regions.push_back(&monoid.getCombine());
  for (Region *region : regions)
    region->walk([&](Operation *op) {
      bool isCheap = isa<math::AbsFOp, math::CopySignOp, math::FmaOp>(op);
      if (isa<arith::DivFOp, arith::RemFOp>(op) ||
          (isa<math::MathDialect>(op->getDialect()) && !isCheap))
        ++counts[op->getName().stripDialect()];
    });
  std::string text;
  for (auto [name, count] : counts)
    text +=
        (text.empty() ? "" : ", ") + std::to_string(count) + " " + name.str();
  return text.empty() ? "none" : text;
}

/// What the report says beside the laws, for tests and for --explain.
static void remarkProperties(mlir::attn::MonoidOp monoid,
                             const ::attn::LawReport &report) {
  InFlightDiagnostic remark = monoid.emitRemark("path: ");
  remark << describePath(monoid, report)
         << "\nfunctions of a key: " << countFunctions(monoid);
  std::pair<StringRef, bool> properties[] = {
      {"commutative", report.isCommutative},
      {"trivial statistics", report.statsTrivial},
      {"trivial factors", report.factorsTrivial},
      {"rescale absorbs", report.rescaleAbsorbs},
      {"dead is natural", report.deadIsNatural},
      {"relaxed maximum", report.relaxedMax}};
  StringRef separator = "\nproperties: ";
  for (auto [name, holds] : properties)
    if (holds) {
      remark << separator << name;
      separator = ", ";
    }
  for (auto [name, holds] :
       llvm::zip(monoid.getOutputs(), report.finalize.gaugeInvariant))
    if (holds) {
      remark << separator << "gauge invariant " << name;
      separator = ", ";
    }
  if (report.threshold >= 0)
    remark << separator << "threshold in state " << report.threshold;
}

namespace {
struct AttnCheckLawsPass
    : ::attn::impl::AttnCheckLawsPassBase<AttnCheckLawsPass> {
  using AttnCheckLawsPassBase::AttnCheckLawsPassBase;
  void runOnOperation() override {
    bool lawful = true;
    getOperation().walk([&](mlir::attn::MonoidOp monoid) {
      ++numChecked;
      if (failed(::attn::verifyLaws(monoid))) {
        lawful = false;
        return;
      }
      if (properties)
        remarkProperties(monoid, *::attn::checkLaws(monoid));
    });
    if (!lawful)
      return signalPassFailure();
    markAllAnalysesPreserved();
  }
};
} // namespace
