//===- EstimateCycles.cpp - How long kernels take, by the target's rates --===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// tile-estimate-cycles: the IR of rung 4 is close enough to instructions that
// counting them tells the time to within a factor of two, of any path:
// products, scans, folds. What LLVM will hoist out of a loop is counted before
// it, and arithmetic on addresses is not counted.
//
//===----------------------------------------------------------------------===//

#include "attn/Analysis/TargetAttr.h"
#include "attn/Dialect/Tile/IR/Tile.h"
#include "attn/Dialect/Tile/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/FormatVariadic.h"

#include <array>
#include <cmath>

namespace attn {
#define GEN_PASS_DEF_TILEESTIMATECYCLESPASS
#include "attn/Dialect/Tile/Transforms/Passes.h.inc"
} // namespace attn

#define DEBUG_TYPE "tile-estimate-cycles"

using namespace mlir;

namespace {

/// What keeps a core busy.
enum Resource {
  Floats,
  Vectors,
  Shuffles,
  Divisions,
  TileProducts,
  Loads,
  Stores,
  Instructions,
  Dependence,
  numResources
};

constexpr StringLiteral resourceNames[] = {
    "float arithmetic", "vector operations", "shuffles",
    "divisions",        "tile products",     "loads",
    "stores",           "instructions",      "steps that wait for another"};

/// Straight code: how often each resource is used, and until when its results
/// take.
struct Use {
  std::array<double, numResources> count = {};
  double latency = 0;
};

/// Cycles, by what bounds them, and what is done in them.
struct Cost {
  std::array<double, numResources> cycles = {};
  double instructions = 0, flops = 0, bytes = 0;

  double total() const {
    double sum = 0;
    for (double part : cycles)
      sum += part;
    return sum;
  }
  void add(const Cost &other, double times = 1) {
    for (int i = 0; i < numResources; ++i)
      cycles[i] += other.cycles[i] * times;
    instructions += other.instructions * times;
    flops += other.flops * times;
    bytes += other.bytes * times;
  }
};

class Estimator {
public:
  explicit Estimator(const ::attn::TargetInfo &target)
      : target(target), rates(target.coreRates) {}

  /// Of a block, with loops of unknown bounds taken once; `leftOut`, if given,
  /// not at all.
  Cost estimate(Block &block, Operation *leftOut = nullptr);

private:
  Use use(Operation *op, Cost &cost);
  void useVector(Operation *op, Use &use, Cost &cost);
  Cost loop(scf::ForOp op);
  Block *takenBranch(scf::IfOp op);
  /// Operations of the body whose operands are the same in every step.
  SmallPtrSet<Operation *, 16> invariants(scf::ForOp op);
  /// Cycles from one step to the next, for what a step makes of the one before.
  double chain(scf::ForOp op);
  /// When the values of a block are ready that follow from those that are.
  void chain(Block &block, DenseMap<Value, double> &ready);
  Cost straight(ArrayRef<Operation *> ops);

  const ::attn::TargetInfo &target;
  const ::attn::CoreRates &rates;
};

} // namespace

static std::optional<int64_t> constantOf(Value value) {
  IntegerAttr attr;
  if (matchPattern(value, m_Constant(&attr)))
    return attr.getInt();
  return std::nullopt;
}

/// Steps of a loop, where they are known.
static std::optional<int64_t> tripsOf(scf::ForOp op) {
  auto low = constantOf(op.getLowerBound()),
       high = constantOf(op.getUpperBound()), step = constantOf(op.getStep());
  if (!low || !high || !step || *step <= 0)
    return std::nullopt;
  return std::max<int64_t>(0, (*high - *low + *step - 1) / *step);
}

static double lanesOf(Type type) {
  auto vector = dyn_cast<VectorType>(type);
  return vector ? double(vector.getNumElements()) : 1;
}

/// An index has 8 bytes, a truth one.
static double bytesOf(Type type) {
  Type element = getElementTypeOrSelf(type);
  double bits = element.isIntOrFloat() ? element.getIntOrFloatBitWidth() : 64;
  return lanesOf(type) * std::max(bits / 8, 1.0);
}

/// One maximum or minimum, written as a comparison and a choice between what it
/// compares.
static bool isExtremum(arith::SelectOp op) {
  auto compare = op.getCondition().getDefiningOp<arith::CmpFOp>();
  return compare && ((compare.getLhs() == op.getTrueValue() &&
                      compare.getRhs() == op.getFalseValue()) ||
                     (compare.getRhs() == op.getTrueValue() &&
                      compare.getLhs() == op.getFalseValue()));
}

/// By whether any lane asks: rare, but for that the way is there.
Block *Estimator::takenBranch(scf::IfOp op) {
  if (op.getCondition().getDefiningOp<vector::ReductionOp>())
    return op.elseBlock();
  return op.thenBlock();
}

/// Arithmetic on vectors, and on floats, which takes as long.
void Estimator::useVector(Operation *op, Use &use, Cost &cost) {
  Type type = op->getNumResults() ? op->getResult(0).getType()
                                  : op->getOperand(0).getType();
  double lanes = lanesOf(type);
  double registers =
      std::max(1.0, bytesOf(type) * 8 / double(target.vectorBits));
  bool isFloat = isa<FloatType>(getElementTypeOrSelf(type));
  auto arithmetic = [&](double flops) {
    use.count[Floats] = use.count[Vectors] = registers;
    use.latency = rates.floatLatency;
    cost.flops += flops * lanes;
  };
  use.count[Vectors] = registers;
  use.latency = rates.vectorLatency;
  llvm::TypeSwitch<Operation *>(op)
      .Case<arith::AddFOp, arith::SubFOp, arith::MulFOp, arith::SIToFPOp,
            arith::FPToSIOp, arith::ExtFOp>([&](auto) { arithmetic(1); })
      .Case<math::FmaOp>([&](auto) { arithmetic(2); })
      .Case<arith::TruncFOp>([&](auto) {
        arithmetic(1);
        use.count[Vectors] = 2 * registers;
      })
      .Case<arith::DivFOp, math::SqrtOp, arith::RemFOp>([&](auto) {
        arithmetic(1);
        // One number at a time is divided faster.
        use.count[Divisions] = lanes > 1 ? registers : 0.25;
        use.latency = rates.divisionLatency;
      })
      .Case<arith::CmpFOp, arith::CmpIOp>([&](Operation *compare) {
        use.count[Shuffles] = target.vectorBits == 512 ? registers : 0;
        // Its choice counts for both.
        if (llvm::all_of(compare->getUsers(), [](Operation *user) {
              auto select = dyn_cast<arith::SelectOp>(user);
              return select && isExtremum(select);
            }))
          use = {};
      })
      .Case<arith::SelectOp>([&](arith::SelectOp select) {
        if (isFloat && isExtremum(select))
          arithmetic(1);
      })
      .Case<arith::MaximumFOp, arith::MinimumFOp>([&](auto) {
        // The sign of 0 and NaN are choices before and behind it, by masks.
        arithmetic(1);
        use.count[Vectors] = 6 * registers;
        use.latency = rates.floatLatency + 4 * rates.shuffleLatency;
      });
}

/// What an operation without regions uses; adds its work to `cost`.
Use Estimator::use(Operation *op, Cost &cost) {
  Use use;
  auto result = [&] {
    return op->getNumResults() ? op->getResult(0).getType() : Type();
  };
  auto access = [&](Resource resource, Type type) {
    double registers =
        std::max(1.0, bytesOf(type) * 8 / double(target.vectorBits));
    use.count[resource] = registers;
    use.latency = resource == Loads ? rates.floatLatency + 1 : 0;
    cost.bytes += bytesOf(type);
  };
  auto shuffles = [&](double number) {
    use.count[Shuffles] = use.count[Vectors] = number;
    use.latency = number * rates.shuffleLatency;
  };
  llvm::TypeSwitch<Operation *>(op)
      .Case<arith::ConstantOp, LLVM::ConstantOp, vector::BitCastOp,
            arith::BitcastOp, scf::YieldOp>([](auto) {})
      .Case<memref::LoadOp, vector::LoadOp, vector::MaskedLoadOp>(
          [&](auto) { access(Loads, result()); })
      .Case<memref::StoreOp>([&](auto store) {
        access(Stores, store.getValueToStore().getType());
      })
      .Case<vector::StoreOp, vector::MaskedStoreOp>([&](auto store) {
        access(Stores, store.getValueToStore().getType());
      })
      .Case<vector::BroadcastOp>([&](vector::BroadcastOp broadcast) {
        // A load may fill all lanes.
        if (!broadcast.getSource().getDefiningOp<memref::LoadOp>())
          shuffles(1);
      })
      .Case<vector::ShuffleOp, vector::ExtractStridedSliceOp, vector::InsertOp>(
          [&](auto) { shuffles(1); })
      .Case<vector::ExtractOp>([&](vector::ExtractOp extract) {
        if (llvm::any_of(extract.getStaticPosition(),
                         [](int64_t lane) { return lane != 0; }))
          shuffles(1);
      })
      .Case<vector::ReductionOp>([&](vector::ReductionOp reduction) {
        shuffles(std::log2(
            double(reduction.getSourceVectorType().getNumElements())));
      })
      .Case<LLVM::CallIntrinsicOp>([&](LLVM::CallIntrinsicOp call) {
        StringRef name = call.getIntrin();
        constexpr double tileRows = 16, tileFlops = 2 * 16 * 16 * 32;
        if (name.contains("tdpbf16")) {
          use.count[TileProducts] = 1;
          cost.flops += tileFlops;
        } else if (name.contains("tileload") || name.contains("tilestore")) {
          use.count[name.contains("load") ? Loads : Stores] = tileRows;
          cost.bytes += 64 * tileRows;
        } else if (name.contains("dpbf16ps")) {
          useVector(op, use, cost);
          // At half the rate of fused multiply-adds, and two of them.
          use.count[Floats] = use.count[Vectors] = 2;
          use.latency = rates.floatLatency;
          cost.flops += 4 * double(target.lanes());
        } else if (!name.contains("tile")) {
          useVector(op, use, cost);
          use.count[Vectors] = name.contains("scalef") ? 2 : 1;
          use.latency = rates.floatLatency;
        }
      })
      .Default([&](Operation *other) {
        Type type = other->getNumResults() ? result() : Type();
        if (!type)
          return;
        // Arithmetic on addresses and counters fills gaps.
        if (!isa<VectorType>(type) && !isa<FloatType>(type))
          use.latency = rates.vectorLatency;
        else
          useVector(other, use, cost);
      });
  use.count[Instructions] =
      std::max({use.count[Vectors], use.count[Loads], use.count[Stores],
                use.count[TileProducts]});
  return use;
}

/// Operations without order between them: what they use most bounds them.
Cost Estimator::straight(ArrayRef<Operation *> ops) {
  Cost cost;
  std::array<double, numResources> sum = {};
  for (Operation *op : ops) {
    Use used = use(op, cost);
    for (int i = 0; i < numResources; ++i)
      sum[i] += used.count[i];
  }
  const double perCycle[] = {
      rates.floats,       rates.vectors,         rates.shuffles,
      1 / rates.division, 1 / rates.tileProduct, rates.loads,
      rates.stores,       rates.instructions,    1};
  cost.instructions = sum[Instructions];
  for (int i = 0; i < numResources; ++i)
    sum[i] /= perCycle[i];
  auto most = std::max_element(sum.begin(), sum.end());
  cost.cycles[most - sum.begin()] = *most;
  return cost;
}

SmallPtrSet<Operation *, 16> Estimator::invariants(scf::ForOp op) {
  SmallPtrSet<Operation *, 16> result;
  for (Operation &inner : op.getBody()->without_terminator()) {
    bool same = isPure(&inner) && inner.getNumRegions() == 0 &&
                llvm::all_of(inner.getOperands(), [&](Value operand) {
                  Operation *source = operand.getDefiningOp();
                  return operand.getParentBlock() != op.getBody() ||
                         (source && result.contains(source));
                });
    if (same)
      result.insert(&inner);
  }
  return result;
}

void Estimator::chain(Block &block, DenseMap<Value, double> &ready) {
  auto readyAt = [&](Value value) {
    auto it = ready.find(value);
    return it == ready.end() ? -1.0 : it->second;
  };
  for (Operation &op : block.without_terminator()) {
    double start = -1;
    for (Value operand : op.getOperands())
      start = std::max(start, readyAt(operand));
    if (auto branch = dyn_cast<scf::IfOp>(op)) {
      Block *taken = takenBranch(branch);
      if (!taken)
        continue;
      chain(*taken, ready);
      for (auto [result, yielded] :
           llvm::zip(op.getResults(), taken->getTerminator()->getOperands()))
        if (double at = readyAt(yielded); at >= 0)
          ready[result] = at;
      continue;
    }
    if (start < 0)
      continue;
    Cost ignored;
    double latency = 0;
    if (auto nested = dyn_cast<scf::ForOp>(op))
      latency = chain(nested) * double(tripsOf(nested).value_or(1));
    else
      latency = use(&op, ignored).latency;
    for (Value result : op.getResults())
      ready[result] = start + latency;
  }
}

double Estimator::chain(scf::ForOp op) {
  // What a step gives of each number to each number of the next.
  ValueRange carried = op.getRegionIterArgs();
  ValueRange yielded = op.getBody()->getTerminator()->getOperands();
  size_t count = carried.size();
  SmallVector<SmallVector<double>> latency;
  for (Value from : carried) {
    DenseMap<Value, double> ready = {{from, 0.0}};
    chain(*op.getBody(), ready);
    latency.emplace_back();
    for (Value to : yielded) {
      auto it = ready.find(to);
      latency.back().push_back(it == ready.end() ? -1 : it->second);
    }
  }
  // Numbers wait for themselves, or two for each other in turn.
  double longest = 0;
  for (size_t i = 0; i < count; ++i)
    for (size_t j = i; j < count; ++j)
      if (latency[i][j] >= 0 && latency[j][i] >= 0)
        longest = std::max(longest, (latency[i][j] + latency[j][i]) / 2);
  return longest;
}

Cost Estimator::loop(scf::ForOp op) {
  double trips = double(tripsOf(op).value_or(1));
  SmallPtrSet<Operation *, 16> once = invariants(op);
  SmallVector<Operation *> before, each;
  Cost step, cost;
  for (Operation &inner : *op.getBody()) {
    if (once.contains(&inner))
      before.push_back(&inner);
    else if (inner.getNumRegions() == 0)
      each.push_back(&inner);
    else if (auto nested = dyn_cast<scf::ForOp>(inner))
      step.add(loop(nested));
    else if (auto branch = dyn_cast<scf::IfOp>(inner)) {
      if (Block *taken = takenBranch(branch))
        step.add(estimate(*taken));
    }
  }
  step.add(straight(each));
  step.instructions += 1; // the branch back
  cost.add(step, trips);
  double waits = chain(op) * trips;
  // Of chains shorter than the window several run side by side.
  waits /= std::max(1.0, rates.window / std::max(cost.instructions, 1.0));
  if (waits > cost.total()) {
    cost.cycles = {};
    cost.cycles[Dependence] = waits;
  }
  cost.add(straight(before));
  return cost;
}

Cost Estimator::estimate(Block &block, Operation *leftOut) {
  Cost cost;
  SmallVector<Operation *> ops;
  for (Operation &op : block) {
    if (&op == leftOut)
      continue;
    if (auto nested = dyn_cast<scf::ForOp>(op))
      cost.add(loop(nested));
    else if (auto branch = dyn_cast<scf::IfOp>(op)) {
      if (Block *taken = takenBranch(branch))
        cost.add(estimate(*taken));
    } else if (op.getNumRegions() == 0) {
      ops.push_back(&op);
    }
  }
  cost.add(straight(ops));
  return cost;
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

namespace {
/// A loop over tiles of keys, and in it the one over blocks of rows, if any.
struct KeyLoop {
  scf::ForOp keys, rows;
  double numKeys = 0, numRows = 1;
};

struct TileEstimateCycles
    : ::attn::impl::TileEstimateCyclesPassBase<TileEstimateCycles> {
  using TileEstimateCyclesPassBase::TileEstimateCyclesPassBase;

  void runOnOperation() override {
    auto info = ::attn::getCpuTarget(getOperation(), target);
    if (!info)
      return signalPassFailure();
    Estimator estimator(*info);
    for (auto kernel : getOperation().getOps<tile::KernelOp>())
      if (!kernel.isExternal())
        report(kernel, estimator, *info);
    markAllAnalysesPreserved();
  }

  /// The loop over keys at the top of the kernel: of steps of several keys, up
  /// to a bound that is known at run time.
  static std::optional<KeyLoop> asKeyLoop(Operation &op) {
    auto keys = dyn_cast<scf::ForOp>(op);
    auto step = keys ? constantOf(keys.getStep()) : std::nullopt;
    if (!step || *step <= 1 || tripsOf(keys))
      return std::nullopt;
    KeyLoop found{keys, {}, double(*step), 1};
    for (auto nested : keys.getOps<scf::ForOp>())
      if (auto rows = constantOf(nested.getStep()); rows && !tripsOf(nested)) {
        found.rows = nested;
        found.numRows = double(*rows);
      }
    return found;
  }

  void report(tile::KernelOp kernel, Estimator &estimator,
              const ::attn::TargetInfo &info) {
    Block &body = kernel.getBody().front();
    Cost block, best, bestPack;
    double least = 0;
    std::optional<KeyLoop> chosen;
    SmallVector<Operation *> loops;
    for (Operation &op : body) {
      std::optional<KeyLoop> found = asKeyLoop(op);
      if (!found)
        continue;
      loops.push_back(&op);
      Cost pack = estimator.estimate(*found->keys.getBody(), found->rows);
      Cost pairs;
      if (found->rows)
        pairs = estimator.estimate(*found->rows.getBody());
      double each = (pairs.total() + pack.total()) / found->numKeys;
      if (chosen && each >= least)
        continue;
      least = each;
      best = pairs;
      bestPack = pack;
      chosen = found;
    }
    if (!chosen)
      return;
    // Everything but what walks over keys.
    block = estimator.estimate(body);
    for (Operation *loop : loops) {
      Cost part = estimator.estimate(*cast<scf::ForOp>(loop).getBody());
      block.add(part, -1);
    }
    double pairs = chosen->numKeys * chosen->numRows;
    std::string shares;
    double total = best.total();
    const Cost &main = total > 0 ? best : bestPack;
    SmallVector<int> order = llvm::to_vector(llvm::seq<int>(numResources));
    llvm::stable_sort(
        order, [&](int a, int b) { return main.cycles[a] > main.cycles[b]; });
    for (int i : order)
      if (double share = main.cycles[i] / main.total(); share >= 0.095)
        shares += llvm::formatv("{0}{1} {2:P0}", shares.empty() ? "" : ", ",
                                resourceNames[i], share);
    kernel.emitRemark("cycles: ")
        << llvm::formatv(
               "{0:F3} for a key of a row, {1:F3} for a key of a block of "
               "rows, {2:F0} for a block, by the rates of {3} with {4:F0} FLOP "
               "a cycle\nbound by: {5}; for a key of a row {6:F0} FLOP and "
               "{7:F0} bytes of caches",
               total / pairs, bestPack.total() / chosen->numKeys,
               std::max(block.total(), 0.0), info.name, info.flopsPerCycle(),
               shares, main.flops / pairs, main.bytes / pairs)
               .str();
  }
};
} // namespace
