//===- ExplainSchedule.cpp - What --explain says of a schedule ------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ExplainSchedule.h"
#include "TileKernel.h"
#include "attn/Analysis/MaskAnalysis.h"
#include "attn/Dialect/Attn/IR/AttributeNames.h"

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
            (hasBits ? " and others with their bits" : "");
  return text;
}

std::string mlir::attn::describeRotary(ReductionOpInterface op,
                                       const ::attn::TargetInfo &target) {
  RotaryAttr rotary = op.getRotaryAttribute();
  if (!rotary)
    return "";
  std::string text =
      "rotary: " + std::to_string(rotary.getChannels()) + " channels turn ";
  if (target.isCpu())
    return text + "as a work tile loads them, keys once for each of its tiles "
                  "of queries\n";
  return text + "once, in a kernel each for queries and keys before this one, "
                "whose copies bring keys to its products as they are in "
                "memory; each call reads and writes all keys once more, which "
                "few rows of queries feel\n";
}

std::string mlir::attn::describeInvariance(ReductionOpInterface op,
                                           ScheduleAttr schedule) {
  if (!op.isBatchInvariant())
    return "";
  std::string text = "batch invariant: each row takes its keys in tiles of " +
                     std::to_string(schedule.getBlockK()) + ", in order, ";
  if (auto keys = op->getAttrOfType<IntegerAttr>(getPartKeysName()))
    text += "parts of " + std::to_string(keys.getInt()) +
            " each by itself and then in order, ";
  return text + "whatever is beside it\n";
}

std::string mlir::attn::describeCache(ReductionOpInterface op,
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

std::string mlir::attn::describeOrder(ReductionOpInterface op,
                                      ScheduleAttr schedule, bool isGiven) {
  std::string text = "work tiles: ";
  text += stringifyWorkOrder(schedule.getOrder().value_or(WorkOrder::in_order));
  if (isGiven)
    text += " (as given)";
  else
    text += op.getMaskBody().empty()
                ? " (all rows have as many keys)"
                : " (most masks leave the last rows the most keys)";
  if (schedule.getSection() > 1)
    text += "; heads abreast: at most " + std::to_string(schedule.getSection());
  if (schedule.getSection() > 1 && schedule.getSectionKeys())
    text += ", as many as have " + std::to_string(schedule.getSectionKeys()) +
            " keys, which fit in the cache";
  return text + "\n";
}
