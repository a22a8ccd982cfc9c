//===- ExplainSchedule.cpp - What --explain says of a schedule ------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ExplainSchedule.h"
#include "TileCaptures.h"
#include "TileKernel.h"
#include "attn/Analysis/CostModel.h"
#include "attn/Analysis/FewRows.h"
#include "attn/Analysis/MaskAnalysis.h"
#include "attn/Analysis/ScheduleTable.h"
#include "llvm/Support/FormatVariadic.h"
#include <numeric>

using namespace mlir;
using namespace mlir::attn;

std::string mlir::attn::describeMask(ReductionOpInterface op, bool isListed,
                                     bool hasBits) {
  if (op.getMaskBody().empty())
    return "mask: none";
  ::attn::MaskAnalysis mask(op.getMaskBody());
  std::string text = "mask: keys ";
  text += mask.facts().hullIsExact ? "bounded exactly" : "bounded";
  text +=
      mask.facts().hasCore ? ", full tiles peeled" : ", no full tiles to peel";
  if (mask.facts().isDataDependent)
    text += ", elements read at run time";
  if (isListed)
    text += std::string("; live tiles listed by a kernel before, whole ones "
                        "apart") +
            (!hasBits         ? ""
             : readsPairs(op) ? " and others with their bits"
                              : " and others with their bits, where there is "
                                "room for them");
  return text;
}

/// Where queries and keys turn; empty where they do not.
static std::string describeRotary(ReductionOpInterface op,
                                  ScheduleAttr schedule,
                                  const ::attn::TargetInfo &target) {
  RotaryAttr rotary = op.getRotaryAttribute();
  if (!rotary)
    return "";
  std::string text =
      "rotary: " + std::to_string(rotary.getChannels()) + " channels turn ";
  if (target.isCpu())
    return text + "as a work tile loads them, keys once for each of its tiles "
                  "of queries\n";
  if (schedule.getRotate() == Rotate::inside)
    return text + "in the kernel: keys in shared memory, each tile between its "
                  "copy and its product; queries in a kernel before\n";
  return text + "once, in a kernel each for queries and keys before this one, "
                "whose copies bring keys to its products as they are in "
                "memory; each call reads and writes all keys once more, which "
                "few rows of queries feel\n";
}

/// In what order a row takes its keys, whatever is beside it; empty where that
/// is not asked for.
static std::string describeInvariance(ReductionOpInterface op,
                                      ScheduleAttr schedule) {
  if (!op.isBatchInvariant())
    return "";
  std::string text = "batch invariant: each row takes its keys in tiles of " +
                     std::to_string(schedule.getBlockK()) + ", in order, ";
  if (std::optional<uint64_t> keys = op.getPartKeys())
    text += "parts of " + std::to_string(*keys) +
            " each by itself and then in order, ";
  return text + "whatever is beside it\n";
}

/// How a GPU copies the keys of pages and of rolling caches.
static std::string describeCache(ReductionOpInterface op,
                                 const ::attn::TargetInfo &target) {
  Source source = op.getKeySource();
  bool isPaged = source.is(SourceKind::paged);
  if (target.isCpu() || !(isPaged || source.is(SourceKind::ring)))
    return "";
  std::string text = "keys: in a rolling cache";
  if (isPaged)
    text = "keys: in pages of " +
           (pageOf(op) > 0 ? std::to_string(pageOf(op)) : "any number of") +
           " rows";
  if (tilesFitPages(op))
    return text + "; each tile lies within one\n";
  if (int64_t box = boxesOf(op))
    return text + "; a tile is " +
           std::to_string(op.getScheduleAttribute().getBlockK() / box) +
           " boxes of " + std::to_string(box) +
           ", each copied from the page that the table names\n";
  return text + "; rows are found one by one, by the warps that copy them\n";
}

/// The order of work tiles, and the heads that run side by side.
static std::string describeOrder(ReductionOpInterface op, ScheduleAttr schedule,
                                 bool isGiven, bool isListed,
                                 const ::attn::TargetInfo &target) {
  std::string text = "work tiles: ";
  text += stringifyWorkOrder(schedule.getOrder().value_or(WorkOrder::in_order));
  if (isGiven)
    text += " (as given)";
  else if (op.getMaskBody().empty())
    text += " (all rows have as many keys)";
  else if (schedule.getOrder() == WorkOrder::in_order)
    text += isListed && listsBand(op) ? " (rows have keys around them, as many)"
                                      : " (the first rows have the most keys)";
  else if (isListed && listsSayOrder(op) != ListedOrder::none) {
    text += std::string(" (") +
            (listsSayOrder(op) == ListedOrder::lastHeads
                 ? "the last rows first; of the heads that come last, "
                 : "") +
            "by the lists of key tiles, where there are more than " +
            std::to_string(mostTilesWithoutOrder(op, target));
    if (op.getQueryOperands().size() == 1)
      text += " and more than " +
              std::to_string(::attn::mostKeysWithoutOrder()) + " keys";
    text += ")";
  } else
    text += " (most masks leave the last rows the most keys)";
  if (schedule.getSection() > 1)
    text += "; heads abreast: at most " + std::to_string(schedule.getSection());
  int64_t keys = schedule.getSectionKeys();
  if (schedule.getSection() <= 1 || !keys)
    return text + "\n";
  text += ", as many as have ";
  if (schedule.getOrder() == WorkOrder::longest_first &&
      schedule.getSection() > ::attn::someHeads)
    text += std::to_string(::attn::keysOfUneven(keys)) + " keys, or " +
            std::to_string(::attn::someHeads) + " that have " +
            std::to_string(keys) + ", which fit in the cache";
  else
    text += std::to_string(keys) + " keys, which fit in the cache";
  return text + "\n";
}

/// The device, what the choice depends on, and what it was chosen from.
static std::string describeDevice(const ExplainedChoice &choice,
                                  const ::attn::TargetInfo &target) {
  if (target.isCpu())
    return "";
  const ::attn::ScheduleProblem &problem = choice.problem;
  ScheduleAttr schedule = choice.schedule;
  std::string text =
      "device: " + std::to_string(target.numMultiprocessors) +
      " multiprocessors with " + std::to_string(target.sharedMemoryBytes) +
      " bytes of shared memory; cache of " + std::to_string(target.gpuL2Bytes) +
      " bytes\nproblem: " + ::attn::printProblem(problem) + " | " +
      ::attn::printSizes(problem) + "\n";
  if (std::string tiles = ::attn::printSpace(problem, target); !tiles.empty())
    text += "tiles that fit: " + tiles + "\n";
  ::attn::ScheduleSizes sizes = {schedule.getBlockQ(), schedule.getRows(),
                                 schedule.getBlockK()};
  if (::attn::hasCost(problem, target) &&
      schedule.getRows() == ::attn::MmaShape::warpgroup().m)
    text += ::attn::predictCost(problem, sizes, target).explain() + "\n";
  return text;
}

static std::string describeTurns(const ExplainedChoice &choice,
                                 const ::attn::TargetInfo &target) {
  ScheduleAttr schedule = choice.schedule;
  if (!choice.isModels || schedule.getTurns() == Turns::none)
    return "";
  double gain = ::attn::chooseTurns(choice.problem,
                                    {schedule.getBlockQ(), schedule.getRows(),
                                     schedule.getBlockK()},
                                    target)
                    .gain;
  return llvm::formatv("turns: {0} (the rate was {1:F3} of that without)\n",
                       stringifyTurns(schedule.getTurns()), gain);
}

/// Who computes the channels of wide values.
static std::string describeValues(ReductionOpInterface op, MonoidOp monoid,
                                  const ExplainedChoice &choice,
                                  const ::attn::TargetInfo &target) {
  const ::attn::ScheduleProblem &problem = choice.problem;
  constexpr int64_t most = ::attn::MmaShape::warpgroup().nMax;
  int64_t blockV = choice.schedule.getBlockV();
  if (blockV)
    return llvm::formatv(
        "values: each tile of rows is {0} work tile{1}, of {2} channels"
        "{3}{4}\n",
        countSlices(op), countSlices(op) == 1 ? "" : "s", blockV,
        problem.sharers > 1 && !::attn::rowsAreColumns(
                                   choice.schedule.getRows(), blockV, target)
            ? ", which two warpgroups share"
            : "",
        problem.valuesInKeys ? "; they are columns of the keys, and copied "
                               "with these"
                             : "");
  if (target.isCpu() || problem.channels.empty() ||
      problem.channels.front() <= most)
    return "";
  return "values: no work tiles share their channels (" +
         whyNotSliced(op, monoid, most, target) + ")\n";
}

/// Whether few rows are columns of products.
static std::string describeRows(ReductionOpInterface op, MonoidOp monoid,
                                const ExplainedChoice &choice,
                                const ::attn::TargetInfo &target) {
  const ::attn::MmaShape unit = ::attn::MmaShape::warp();
  ScheduleAttr schedule = choice.schedule;
  if (::attn::warpsHaveKeys(schedule.getRows(), target))
    return llvm::formatv(
        "rows: columns of products, of which each of {0} warps has {1} keys\n",
        schedule.getBlockK() / unit.m, unit.m);
  if (::attn::rowsAreColumns(schedule.getRows(), schedule.getBlockV(), target))
    return llvm::formatv("rows: columns of products, of which a warpgroup has "
                         "{0} keys\n",
                         schedule.getBlockK());
  int64_t rows = choice.problem.numQueries;
  if (!target.hasRoles() || choice.isGiven || rows < 0 || rows > unit.nMax)
    return "";
  std::string why = whyNotOfWarps(op, monoid, target);
  return why.empty() ? "" : "rows: not columns of products (" + why + ")\n";
}

static std::string describeHeads(const ExplainedChoice &choice) {
  const ::attn::PackChoice &pack = choice.pack;
  if (pack.packs)
    return "heads: packed (" + pack.reason +
           "), where heads have less than block_q rows and their strides are "
           "those of rows behind each other; else each head has tiles of its "
           "own\n";
  if (!choice.isGiven && choice.problem.group > 1)
    return "heads: not packed (" + pack.reason + ")\n";
  return "";
}

static std::string describeParts(const ExplainedChoice &choice,
                                 const ::attn::TargetInfo &target) {
  const ::attn::SplitChoice &splits = choice.splits;
  std::string text;
  bool isCounted = choice.schedule.getSplits() == ScheduleAttr::automaticSplits;
  if (isCounted && !choice.problem.cuts) {
    text =
        llvm::formatv("parts: as many as make {0} blocks, of at least {1} keys",
                      ::attn::blocksAtOnce(choice.schedule.getRows(),
                                           choice.schedule.getBlockV(), target),
                      ::attn::leastPartKeys(target));
    const ::attn::ScheduleProblem &problem = choice.problem;
    int64_t columns =
        std::reduce(problem.channels.begin(), problem.channels.end(),
                    problem.depths.empty() ? 0 : problem.depths.front());
    if (auto bound = ::attn::boundShortParts(columns);
        bound && choice.schedule.getPackHeads())
      text += llvm::formatv(", more than {0} of at least {1}", bound->most,
                            bound->keysOfMore);
    text += "\n";
  }
  if (!splits.reason.empty() && (splits.splits == 0 || !isCounted))
    text += "splits: " +
            (splits.splits ? std::to_string(splits.splits)
                           : std::string("automatic")) +
            " (" + splits.reason + ")\n";
  return text;
}

/// How scores come by elements of captures for each pair.
static std::string describePairs(ReductionOpInterface op,
                                 const ExplainedChoice &choice,
                                 const ::attn::TargetInfo &target) {
  ScheduleAttr schedule = choice.schedule;
  if (target.isCpu() || findPairElements(op).empty())
    return "";
  if (schedule.getPairs() == Pairs::copied)
    return "pairs: tensor copies bring what scores read of them beside the "
           "keys, where it lies at multiples of 16 bytes; elsewhere each "
           "thread loads its own, by a second kernel of the plan\n";
  std::string why =
      schedule.getPairs() ? "as given" : whyNotCopied(op, schedule, target);
  if (why.empty())
    why = whyNoRoom(op, schedule, choice.problem, target);
  return "pairs: each thread loads what scores read of its own (" + why + ")\n";
}

static std::string describePrecision(ReductionOpInterface op,
                                     const ExplainedChoice &choice,
                                     const ::attn::TargetInfo &target) {
  if (choice.problem.tf32)
    return "precision: f32 rounded to tf32, multiplied by warps "
           "(mma.sync.m16n8k8)\n";
  if (op.getProductPrecision() == ProductPrecision::ieee)
    return "";
  return "precision: tf32 may be used, but products are as with ieee: " +
         std::string(target.hasTf32 ? "not all operands are f32"
                                    : "the target has none of tf32") +
         "\n";
}

std::string mlir::attn::describeSchedule(ReductionOpInterface op,
                                         MonoidOp monoid,
                                         const ExplainedChoice &choice,
                                         const ::attn::TargetInfo &target) {
  ScheduleAttr schedule = choice.schedule;
  std::string text = describeDevice(choice, target);
  text += describeCache(op, target);
  bool isListed =
      choice.problem.listed && schedule.getLoop() == LoopShape::peeled;
  text += describeOrder(op, schedule, choice.isOrderGiven, isListed, target);
  text += describeRotary(op, schedule, target);
  text += describeInvariance(op, schedule);
  text += describeTurns(choice, target);
  text += describeValues(op, monoid, choice, target);
  if (target.hasRoles() && schedule.getCluster() > 1)
    text += llvm::formatv(
        schedule.partsFormCluster()
            ? "clusters: {0} blocks have the parts of the keys of a tile, and "
              "combine their states in shared memory\n"
            : "clusters: {0} blocks share copies of keys and values, where "
              "they read the same{1}\n",
        schedule.getCluster(),
        schedule.getBlockV()
            ? ", and give a slot back in each block, for it is empty late"
            : "");
  text += describeRows(op, monoid, choice, target);
  text += describeHeads(choice);
  text += describeParts(choice, target);
  text += describePairs(op, choice, target);
  auto function = op->getParentOfType<func::FuncOp>();
  if (auto bytes = function->getAttrOfType<IntegerAttr>(getSavedBytesName()))
    text += "training: " + std::to_string(bytes.getInt()) +
            " bytes of each row are kept for the backward pass, beside inputs "
            "and results\n";
  return text + describePrecision(op, choice, target);
}
