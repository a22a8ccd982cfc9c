//===- LawMutationTest.cpp - Broken monoids are found out -----------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
// Every change of a single operation of a shipped monoid: another operation of
// the same signature, operands exchanged or replaced, another constant or
// predicate, the operation dropped, its result rounded. A mutant matters if
// some way in which the compiler may evaluate a row gives another result than
// the element by element reduction. Each mutant that matters must be rejected,
// by a law that speaks of the region that was changed; one that is accepted is
// an escape.
//
// Many mutants are monoids too, only others (twice the weight, say): those are
// rightly accepted.
//===----------------------------------------------------------------------===//

#include "LawChecker.h"
#include "attn/Dialect/Attn/Prelude/Prelude.h"
#include "attn/InitAll.h"
#include "attn/Interpreter/Algebra.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

#include <cmath>
#include <map>
#include <random>
#include <set>

using namespace ::attn;
using mlir::attn::MonoidKind;
using mlir::attn::MonoidOp;

namespace {

const char *const regionNames[] = {"identity", "combine", "rescale",
                                   "shift",    "gate",    "factors",
                                   "lift",     "finalize"};

struct Mutant {
  std::string description, region, text;
};

//===----------------------------------------------------------------------===//
// Mutations
//===----------------------------------------------------------------------===//

/// Applies every single-operation change to a monoid in turn.
class Mutator {
public:
  Mutator(mlir::MLIRContext &context, const ShippedMonoid &monoid)
      : context(context), monoid(monoid) {}

  std::vector<Mutant> run() {
    auto module = parse(monoid.text);
    MonoidOp original = get(*module);
    seen.insert(print(original));
    for (unsigned r = 0; r < std::size(regionNames); ++r) {
      if (original->getRegion(r).empty())
        continue;
      unsigned numOps = original->getRegion(r).front().getOperations().size();
      for (unsigned n = 0; n < numOps; ++n) {
        // Changes are counted until there is no next one.
        for (unsigned change = 0;; ++change) {
          auto copy = parse(monoid.text);
          mlir::Region &region = get(*copy)->getRegion(r);
          mlir::Operation &op = *std::next(region.front().begin(), n);
          std::string name = op.getName().getStringRef().str();
          this->next = 0, wanted = change, done.clear();
          mutate(op, region);
          if (done.empty())
            break;
          std::string text = print(get(*copy));
          mlir::ScopedDiagnosticHandler quiet(
              &context, [](mlir::Diagnostic &) { return mlir::success(); });
          if (failed(mlir::verify(*copy)) || !seen.insert(text).second)
            continue;
          mutants.push_back({std::string(monoid.name) + "." + regionNames[r] +
                                 ": " + name + " " + done,
                             regionNames[r], text});
        }
      }
    }
    return std::move(mutants);
  }

private:
  mlir::OwningOpRef<mlir::ModuleOp> parse(std::string_view text) {
    return mlir::parseSourceString<mlir::ModuleOp>(
        llvm::StringRef(text), mlir::ParserConfig(&context));
  }
  static MonoidOp get(mlir::ModuleOp module) {
    return *module.getOps<MonoidOp>().begin();
  }
  static std::string print(MonoidOp op) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    op->print(stream, mlir::OpPrintingFlags().useLocalScope());
    return text;
  }

  /// True for the one change that is wanted now.
  bool take(std::string description) {
    if (next++ != wanted)
      return false;
    done = std::move(description);
    return true;
  }

  void mutate(mlir::Operation &op, mlir::Region &region) {
    mlir::OpBuilder builder(&op);
    llvm::StringRef name = op.getName().getStringRef();

    // Another operation of the same signature.
    static const std::vector<std::vector<const char *>> families = {
        {"arith.addf", "arith.subf", "arith.mulf", "arith.divf",
         "arith.maximumf", "arith.minimumf"},
        {"math.exp", "math.exp2", "math.log", "math.log1p", "math.absf",
         "arith.negf", "math.tanh"}};
    for (const auto &family : families) {
      if (!llvm::is_contained(family, name))
        continue;
      for (const char *other : family)
        if (name != other && take(std::string("becomes ") + other)) {
          mlir::OperationState state(op.getLoc(), other);
          state.addOperands(op.getOperands());
          state.addTypes(op.getResultTypes());
          mlir::Operation *replacement = builder.create(state);
          op.replaceAllUsesWith(replacement);
          op.erase();
          return;
        }
    }
    // Another constant.
    if (auto constant = mlir::dyn_cast<mlir::arith::ConstantOp>(op))
      if (auto number = mlir::dyn_cast<mlir::FloatAttr>(constant.getValue()))
        for (double other :
             {0.0, 1.0, -1.0, 2.0, 0.5, -1e4, HUGE_VAL, -HUGE_VAL,
              -number.getValueAsDouble(), number.getValueAsDouble() + 1.0,
              number.getValueAsDouble() * 1.0001 + 1e-4})
          if (take("becomes " + std::to_string(other))) {
            constant.setValueAttr(
                mlir::FloatAttr::get(number.getType(), other));
            return;
          }
    // Another predicate.
    if (auto compare = mlir::dyn_cast<mlir::arith::CmpFOp>(op))
      for (unsigned other = 0; other < 16; ++other) {
        auto predicate = static_cast<mlir::arith::CmpFPredicate>(other);
        if (predicate != compare.getPredicate() &&
            take("becomes " +
                 mlir::arith::stringifyCmpFPredicate(predicate).str())) {
          compare.setPredicate(predicate);
          return;
        }
      }
    // Operands exchanged.
    for (unsigned i = 0; i + 1 < op.getNumOperands(); ++i)
      if (op.getOperand(i).getType() == op.getOperand(i + 1).getType() &&
          take("exchanges operands " + std::to_string(i))) {
        mlir::Value first = op.getOperand(i);
        op.setOperand(i, op.getOperand(i + 1));
        op.setOperand(i + 1, first);
        return;
      }
    // Operands replaced by whatever else is at hand.
    llvm::SmallVector<mlir::Value> visible(region.getArguments());
    for (mlir::Operation &earlier : region.front()) {
      if (&earlier == &op)
        break;
      llvm::append_range(visible, earlier.getResults());
    }
    for (mlir::OpOperand &operand : op.getOpOperands())
      for (auto [i, value] : llvm::enumerate(visible))
        if (value != operand.get() &&
            value.getType() == operand.get().getType() &&
            take("reads value " + std::to_string(i) + " for operand " +
                 std::to_string(operand.getOperandNumber()))) {
          operand.set(value);
          return;
        }
    // Rounded.
    if (op.getNumResults() == 1 && op.getResult(0).getType().isF32())
      for (mlir::Type narrow : {mlir::Type(builder.getBF16Type()),
                                mlir::Type(builder.getF16Type())})
        if (take(narrow.isBF16() ? "is rounded to bf16"
                                 : "is rounded to f16")) {
          builder.setInsertionPointAfter(&op);
          mlir::Value rounded = mlir::arith::TruncFOp::create(
              builder, op.getLoc(), narrow, op.getResult(0));
          mlir::Value result = mlir::arith::ExtFOp::create(
              builder, op.getLoc(), builder.getF32Type(), rounded);
          op.getResult(0).replaceAllUsesExcept(result, rounded.getDefiningOp());
          return;
        }
    // Dropped: an operand takes the place of the result.
    if (op.getNumResults() == 1)
      for (mlir::Value operand : op.getOperands())
        if (operand.getType() == op.getResult(0).getType() &&
            take("is dropped")) {
          op.getResult(0).replaceAllUsesWith(operand);
          op.erase();
          return;
        }
  }

  mlir::MLIRContext &context;
  const ShippedMonoid &monoid;
  std::set<std::string> seen;
  std::vector<Mutant> mutants;
  unsigned next = 0, wanted = 0;
  std::string done;
};

//===----------------------------------------------------------------------===//
// Judgement
//===----------------------------------------------------------------------===//

/// Evaluates rows of random keys in the ways that a compiler may.
class Judge {
public:
  Judge(MonoidOp op, unsigned seed)
      : algebra(*Algebra::compile(op)),
        finalize(*RegionProgram::compile(op.getFinalize())), random(seed) {}

  /// The first way whose result is not that of the element by element
  /// reduction; empty if there is none.
  std::string findDifference() {
    if (hasNaN(outputs(algebra.emptyState())))
      return "empty row";
    for (unsigned trial = 0; trial < 200; ++trial) {
      sampleRow(trial % 4 == 3, trial % 50 == 49 ? 400 : 9);
      if (growsLarge())
        continue;
      // States, since outputs are a function of them: a finalize that divides
      // by almost nothing tells apart what rounding did.
      Scalars want = reduce(0, states.size());
      if (differs(want, split(0, states.size())))
        return "split";
      if (differs(want, padded()))
        return "padded";
      if (differs(want, tiled()))
        return "tiled";
    }
    return "";
  }

  /// Whether the order of keys changes an output.
  bool dependsOnOrder() {
    for (unsigned trial = 0; trial < 100; ++trial) {
      sampleRow(false);
      Scalars want = reduce(0, states.size());
      std::shuffle(states.begin(), states.end(), random);
      if (differs(want, reduce(0, states.size())))
        return true;
    }
    return false;
  }

  /// Whether an output changes with the reference point.
  bool dependsOnReference(unsigned output) {
    for (unsigned trial = 0; trial < 100; ++trial) {
      sampleRow(false);
      Scalars state = reduce(0, states.size());
      sampleRow(false);
      Scalars other = reduce(0, states.size());
      llvm::ArrayRef<Scalar> from =
          llvm::ArrayRef(state).take_front(algebra.numStats);
      Scalars moved(llvm::ArrayRef<Scalar>(other).take_front(algebra.numStats));
      if (algebra.numStats &&
          (algebra.isIdentity(from) || algebra.isIdentity(moved)))
        continue;
      ::attn::Factors factors = algebra.rescale(from, moved);
      Scalars sums(llvm::ArrayRef(state).drop_front(algebra.numStats));
      algebra.shift(from, moved, sums);
      for (unsigned k = 0; k < algebra.numComponents; ++k)
        moved.push_back(Scalar::ofFloat(sums[k].f * factors.of(k)));
      Scalars here = outputs(state), there = outputs(moved);
      if (differs(here[output], there[output]))
        return true;
    }
    return false;
  }

private:
  void sampleRow(bool wide, unsigned maxKeys = 9) {
    std::normal_distribution<double> normal(0.0, wide ? 20.0 : 1.5);
    std::uniform_int_distribution<int> digit(0, 9);
    states.clear();
    unsigned numKeys = random() % maxKeys;
    for (unsigned j = 0; j < numKeys; ++j) {
      llvm::SmallVector<double, 2> scores(algebra.numScores),
          values(algebra.numValues);
      for (double &s : scores) {
        int which = digit(random);
        // Ties and round numbers, as masks and small integers make them.
        s = which == 0   ? 0.0
            : which <= 2 ? double(which)
                         : float(normal(random));
      }
      for (double &v : values)
        v = float(normal(random));
      states.push_back(algebra.stateOf(scores, values, j));
    }
  }
  /// Whether a long row leaves the range in which sums and products of gates
  /// keep their digits.
  bool growsLarge() {
    Scalars state = algebra.emptyState();
    for (const Scalars &key : states) {
      state = algebra.multiply(state, key);
      double gate =
          algebra.gate(llvm::ArrayRef(state).take_front(algebra.numStats));
      if (states.size() >= 9 &&
          (algebra.sizeOf(state) > 1e15 || gate < 1e-15 || gate > 1e15))
        return true;
    }
    return false;
  }
  /// Element by element from the identity.
  Scalars reduce(size_t begin, size_t end) {
    Scalars state = algebra.emptyState();
    for (size_t j = begin; j < end; ++j)
      state = algebra.multiply(state, states[j]);
    return state;
  }
  /// A random tree of parts, down to single reductions.
  Scalars split(size_t begin, size_t end) {
    if (end - begin < 2 || random() % 4 == 0)
      return reduce(begin, end);
    size_t middle = begin + random() % (end - begin + 1);
    return algebra.multiply(split(begin, middle), split(middle, end));
  }
  /// Dead keys between the live ones.
  Scalars padded() {
    Scalars state = algebra.emptyState();
    for (const Scalars &key : states) {
      while (random() % 3 == 0)
        state = algebra.multiply(state, algebra.emptyState());
      state = algebra.multiply(state, key);
    }
    return algebra.multiply(state, algebra.emptyState());
  }
  /// Tiles of four keys in closed form: the weight of a key relative to its
  /// tile, a sum, one update of the state.
  Scalars tiled() {
    Scalars state = algebra.emptyState();
    unsigned numStats = algebra.numStats;
    for (size_t begin = 0; begin < states.size(); begin += 4) {
      size_t end = std::min(begin + 4, states.size());
      if (algebra.isGeneral) {
        for (size_t j = begin; j < end; ++j)
          state = algebra.combine(state, states[j]);
        continue;
      }
      Scalars tile = algebra.identity();
      for (size_t j = begin; j < end; ++j)
        tile = algebra.combine(tile, stat(j));
      Scalars sum(tile);
      sum.append(algebra.numComponents, Scalar::ofFloat(0.0));
      for (size_t j = begin; j < end; ++j) {
        ::attn::Factors factors = {1.0};
        Scalars weights(llvm::ArrayRef(states[j]).drop_front(numStats));
        if (algebra.kind == MonoidKind::cocycle && numStats) {
          factors = algebra.factorsFrom(stat(j), tile);
          algebra.shift(stat(j), tile, weights);
        } else if (algebra.kind == MonoidKind::suffix) {
          factors = {algebra.gate(product(j + 1, end))};
        } else if (algebra.kind == MonoidKind::prefix) {
          factors = {algebra.gate(product(begin, j))};
        } else if (algebra.kind == MonoidKind::affine) {
          factors = {
              algebra.factorsOf(stat(j), product(j + 1, end)).first *
              algebra.factorsOf(product(begin, j), product(j, end)).second};
        }
        for (unsigned i = 0; i < algebra.numComponents; ++i)
          sum[numStats + i].f +=
              factors.of(i) == 0.0 ? 0.0 : factors.of(i) * weights[i].f;
      }
      state = algebra.multiply(state, sum);
    }
    return state;
  }
  llvm::ArrayRef<Scalar> stat(size_t j) const {
    return llvm::ArrayRef(states[j]).take_front(algebra.numStats);
  }
  Scalars product(size_t begin, size_t end) {
    Scalars c = algebra.identity();
    for (size_t j = begin; j < end; ++j)
      c = algebra.combine(c, stat(j));
    return c;
  }

  Scalars outputs(const Scalars &state) {
    Scalars arguments(state), results;
    finalize.evaluate(arguments, results);
    return results;
  }
  static bool hasNaN(const Scalars &outputs) {
    return llvm::any_of(outputs, [](Scalar x) { return std::isnan(x.f); });
  }
  static bool differs(Scalar x, Scalar y) {
    if (x.f == y.f || (std::isnan(x.f) && std::isnan(y.f)))
      return false;
    return !(std::fabs(x.f - y.f) <=
             1e-6 * (1.0 + std::max(std::fabs(x.f), std::fabs(y.f))));
  }
  static bool differs(const Scalars &x, const Scalars &y) {
    for (auto [a, b] : llvm::zip(x, y))
      if (differs(a, b))
        return true;
    return false;
  }

  Algebra algebra;
  RegionProgram finalize;
  std::mt19937 random;
  std::vector<Scalars> states;
};

/// Regions that a law speaks of, by the beginning of its text.
bool speaksOf(const std::string &law, const std::string &region) {
  static const std::vector<std::pair<const char *, std::set<std::string>>>
      laws = {{"identity:", {"identity", "combine", "lift"}},
              {"combine is associative", {"combine", "lift", "identity"}},
              {"rescale to itself", {"rescale", "combine", "lift", "identity"}},
              {"rescale is", {"rescale", "combine", "lift", "identity"}},
              {"shift", {"shift", "rescale", "combine", "lift", "identity"}},
              {"only the identity", {"identity", "combine", "lift"}},
              {"the identity weighs nothing", {"identity", "lift"}},
              {"gate", {"gate", "combine", "identity", "lift"}},
              {"factors", {"factors", "combine", "identity", "lift"}},
              {"a row is the same",
               {"identity", "combine", "rescale", "shift", "gate", "factors",
                "lift"}},
              {"lift is finite", {"lift"}},
              {"the weights of", {"lift", "rescale", "shift"}},
              {"finalize gives no NaN for a row of one", {"finalize", "lift"}},
              {"finalize", {"finalize", "identity"}}};
  for (const auto &[start, regions] : laws)
    if (law.rfind(start, 0) == 0)
      return regions.count(region) != 0;
  return false;
}

// Behind a change of the prelude or of the checks: write the lines that this
// prints to lib/Analysis/ShippedLaws.txt. Mutants have the names of shipped
// monoids: below, they are tested all the same.
TEST(ShippedLaws, AreWhatATestFinds) {
  mlir::DialectRegistry registry;
  registerAllDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  for (const ShippedMonoid &monoid : shippedMonoids()) {
    auto module = mlir::parseSourceString<mlir::ModuleOp>(
        llvm::StringRef(monoid.text), mlir::ParserConfig(&context));
    ASSERT_TRUE(module);
    MonoidOp op = *module->getOps<MonoidOp>().begin();
    std::string text = detail::textOf(op);
    auto found = detail::computeReport(op), known = detail::lookupReport(text);
    ASSERT_TRUE(found);
    EXPECT_EQ(detail::printReport(text, *found),
              known ? detail::printReport(text, *known) : "no line");
    op.setPrivate();
    EXPECT_TRUE(!known || detail::lookupReport(detail::textOf(op)));
    op.setName("mine");
    EXPECT_FALSE(detail::lookupReport(detail::textOf(op)));
  }
}

TEST(LawMutation, MutantsThatMatterAreRejected) {
  mlir::DialectRegistry registry;
  registerAllDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);

  unsigned numMutants = 0, numRejected = 0, numMatter = 0, numEscapes = 0,
           numStrict = 0, numWrongLaw = 0, numWrongProperty = 0;
  std::map<std::string, unsigned> byLaw;
  for (const ShippedMonoid &monoid : shippedMonoids()) {
    unsigned mutantsHere = 0, rejectedHere = 0;
    for (const Mutant &mutant : Mutator(context, monoid).run()) {
      auto module = mlir::parseSourceString<mlir::ModuleOp>(
          mutant.text, mlir::ParserConfig(&context));
      ASSERT_TRUE(module) << mutant.text;
      MonoidOp op = *module->getOps<MonoidOp>().begin();
      auto report = checkLaws(op);
      ASSERT_TRUE(report) << mutant.text;
      Judge judge(op, /*seed=*/numMutants);
      std::string difference = judge.findDifference();
      ++numMutants, ++mutantsHere;
      numMatter += !difference.empty();
      if (!report->isLawful()) {
        ++numRejected, ++rejectedHere;
        ++byLaw[report->brokenLaw];
        numStrict += difference.empty();
        if (!speaksOf(report->brokenLaw, mutant.region)) {
          ++numWrongLaw;
          ADD_FAILURE() << mutant.description << ": rejected by "
                        << report->brokenLaw;
        }
        continue;
      }
      if (!difference.empty()) {
        ++numEscapes;
        ADD_FAILURE() << "escape: " << mutant.description << " (" << difference
                      << ")\n"
                      << mutant.text;
        continue;
      }
      // What the report claims beyond the laws holds too.
      if (report->isCommutative && judge.dependsOnOrder()) {
        ++numWrongProperty;
        ADD_FAILURE() << mutant.description << " is said to commute";
      }
      if (op.getKind() == MonoidKind::cocycle)
        for (auto [i, invariant] :
             llvm::enumerate(report->finalize.gaugeInvariant))
          if (invariant && judge.dependsOnReference(i)) {
            ++numWrongProperty;
            ADD_FAILURE() << mutant.description << ": output " << i
                          << " is said to be gauge invariant\n"
                          << mutant.text;
          }
    }
    printf("%-18s %4u mutants, %4u rejected\n",
           std::string(monoid.name).c_str(), mutantsHere, rejectedHere);
  }
  printf("%u mutants: %u matter, %u rejected (%u of them evaluate alike in "
         "float64), %u escapes, %u by a law of another region, %u wrong "
         "properties\n",
         numMutants, numMatter, numRejected, numStrict, numEscapes, numWrongLaw,
         numWrongProperty);
  for (const auto &[law, count] : byLaw)
    printf("  %4u %s\n", count, law.c_str());
  EXPECT_GE(numMutants, 200u);
}
} // namespace
