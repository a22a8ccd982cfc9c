//===- OrderWarpgroups.cpp - One warpgroup at a time ----------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Warpgroups that share a multiprocessor compete for the tensor cores and for
// the issue slots. Two ways to let them alternate instead:
//
//   products   who has the turn issues its products; the other's softmax runs
//              meanwhile (ping-pong, Shah et al., 2024, section 3.1). Where
//              members exchange weights, as gradients do, from the scores to
//              the first that are added up; the other's last products run
//              meanwhile
//   softmax    who has the turn works from scores to weights; the other's
//              products run meanwhile
//
// Every step of every member takes as many turns, those it leaves out too: a
// member whose rows end early goes on passing the turn.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/TileGPU/IR/SharedLayout.h"
#include "attn/Dialect/TileGPU/Transforms/Passes.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Builders.h"

#define DEBUG_TYPE "tile-gpu-order-warpgroups"

namespace attn {
#define GEN_PASS_DEF_TILEGPUORDERWARPGROUPSPASS
#include "attn/Dialect/TileGPU/Transforms/Passes.h.inc"
} // namespace attn

using namespace mlir;
using namespace mlir::tile_gpu;

namespace {
/// What one member does at a time: from `first` to `last`, of one block.
struct Section {
  Operation *first, *last;
  /// What the assembler has to compute before the end.
  SmallVector<Value, 1> weights;
};
using Sections = SmallVector<Section, 2>;
} // namespace

/// Products issued one behind the other, without a wait between them.
static Sections findProducts(Block &block) {
  Sections sections;
  bool isOpen = false;
  for (Operation &op : block) {
    if (isa<MmaWaitOp>(op))
      isOpen = false;
    if (!isa<MmaIssueOp>(op))
      continue;
    if (isOpen)
      sections.back().last = &op;
    else
      sections.push_back({&op, &op, {}});
    isOpen = true;
  }
  return sections;
}

/// From the issue of the first products to that of the first ones with a sum.
static Sections findScores(Block &block) {
  Sections products = findProducts(block);
  for (const Section &section : products)
    if (cast<MmaIssueOp>(section.last).getAcc() ||
        cast<MmaIssueOp>(section.first).getAcc())
      return {{products.front().first, section.last, {}}};
  return {};
}

/// From the wait for the first scores to the next issue or wait, or to the
/// weights.
static Sections findSoftmax(Block &block) {
  auto isOfScores = [](Operation *op) {
    auto wait = dyn_cast<MmaWaitOp>(op);
    return wait && llvm::any_of(wait.getTokens(), [](Value token) {
             auto issue = token.getDefiningOp<MmaIssueOp>();
             return issue && !issue.getAcc();
           });
  };
  auto first =
      llvm::find_if(block, [&](Operation &op) { return isOfScores(&op); });
  if (first == block.end())
    return {};
  Section section{&*first, &*first, {}};
  for (Operation *op = section.first; op; op = op->getNextNode()) {
    if (isa<MmaIssueOp>(op) || (isa<MmaWaitOp>(op) && !isOfScores(op)))
      break;
    // Slots of values are not needed before.
    if (!isa<RingWaitOp>(op) && !op->hasTrait<OpTrait::IsTerminator>())
      section.last = op;
  }
  for (auto pack : block.getOps<FragConvertOp>()) {
    Operation *weights = pack.getValue().getDefiningOp();
    if (pack.getType().getLayout() == Layout::A && weights &&
        weights->getBlock() == &block &&
        !section.last->isBeforeInBlock(weights))
      section.weights.push_back(pack.getValue());
  }
  return {section};
}

/// Whether the loop holds products from zero, scores, in its own block.
static bool hasScores(scf::ForOp loop) {
  return llvm::any_of(loop.getBody()->getOps<MmaIssueOp>(),
                      [](MmaIssueOp issue) { return !issue.getAcc(); });
}

/// Whether the loop does nothing but give slots back: steps that a member
/// leaves out.
static bool isRest(scf::ForOp loop) {
  Block::OpListType &ops = loop.getBody()->getOperations();
  return ops.size() > 1 && llvm::all_of(ops, [](Operation &op) {
           return isa<RingWaitOp, RingReleaseOp, scf::YieldOp>(op);
         });
}

static void takeTurns(RoleOp role, bool ofProducts) {
  // The warpgroups take turns already.
  if (role.walk([](TurnWaitOp) { return WalkResult::interrupt(); })
          .wasInterrupted())
    return;
  struct Step {
    scf::ForOp loop;
    Sections sections;
  };
  SmallVector<Step> steps;
  SmallVector<scf::ForOp> rests;
  bool exchanges = role.walk([](ExchangeOp) { return WalkResult::interrupt(); })
                       .wasInterrupted();
  auto find = !ofProducts ? findSoftmax : exchanges ? findScores : findProducts;
  role.walk([&](scf::ForOp loop) {
    if (hasScores(loop))
      steps.push_back({loop, find(*loop.getBody())});
    else if (isRest(loop))
      rests.push_back(loop);
  });
  // A step that is left out takes the turns of one that is not.
  if (steps.empty() || steps.front().sections.empty() ||
      llvm::any_of(steps, [&](Step &step) {
        return step.sections.size() != steps.front().sections.size();
      }))
    return;
  OpBuilder b(role);
  Value turns = BarrierCreateOp::create(
      b, role.getLoc(), BarrierType::get(b.getContext()),
      ::attn::gpu::turnWarps, int64_t(role.getCount()),
      /*first=*/IntegerAttr());
  Value member = role.getBody().getArgument(0);
  for (Step &step : steps)
    for (Section &section : step.sections) {
      Location loc = section.first->getLoc();
      b.setInsertionPoint(section.first);
      TurnWaitOp::create(b, loc, turns, member);
      b.setInsertionPointAfter(section.last);
      TurnPassOp::create(b, loc, turns, member, section.weights);
    }
  for (scf::ForOp rest : rests) {
    b.setInsertionPointToStart(rest.getBody());
    for (size_t i = 0; i < steps.front().sections.size(); ++i) {
      TurnWaitOp::create(b, rest.getLoc(), turns, member);
      TurnPassOp::create(b, rest.getLoc(), turns, member, ValueRange());
    }
  }
}

namespace {
struct OrderWarpgroupsPass
    : ::attn::impl::TileGpuOrderWarpgroupsPassBase<OrderWarpgroupsPass> {
  void runOnOperation() final {
    KernelOp kernel = getOperation();
    using mlir::attn::Turns;
    Turns turns = kernel.getTurns();
    if (turns == Turns::none)
      return;
    for (auto role : kernel.getOps<RoleOp>())
      if (role.getScope() == Scope::Warpgroup && role.getCount() > 1)
        takeTurns(role, turns == Turns::products);
  }
};
} // namespace
