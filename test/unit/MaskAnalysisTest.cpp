//===- MaskAnalysisTest.cpp - Masks against brute force -------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
// Random mask expressions, in every algebra that the analysis reads and some
// that it does not, are evaluated element by element; what the analysis says
// of keys and boxes must hold of the elements. The code that it emits must
// fold to the numbers that it computes.
//===----------------------------------------------------------------------===//

#include "attn/Analysis/MaskAnalysis.h"
#include "attn/InitAll.h"
#include "attn/Interpreter/Interpreter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

#include <iostream>
#include <random>

using namespace ::attn;
using namespace mlir;

namespace {

constexpr unsigned numCaptures = 3;

/// Builds a random region b, h, i, j, captures (i32) -> i1.
class RandomMask {
public:
  RandomMask(MLIRContext *context, std::mt19937 &random, bool affineOnly)
      : b(context), loc(b.getUnknownLoc()), random(random),
        affineOnly(affineOnly) {
    func = func::FuncOp::create(
        b, loc, "mask",
        b.getFunctionType(SmallVector<Type>(4 + numCaptures, b.getI32Type()),
                          b.getI1Type()));
    Block *block = func.addEntryBlock();
    b.setInsertionPointToStart(block);
    func::ReturnOp::create(b, loc, boolean(pick(4)));
  }
  ~RandomMask() { func.erase(); }
  Region &region() { return func.getBody(); }

private:
  int pick(int n) { return std::uniform_int_distribution<>(0, n - 1)(random); }
  Value argument(unsigned i) { return func.getArgument(i); }
  Value number(int64_t value) {
    return arith::ConstantIntOp::create(b, loc, b.getI32Type(), value);
  }

  Value affine(int depth) {
    switch (depth <= 0 ? pick(4) : pick(8)) {
    case 0:
      return argument(2);
    case 1:
      return argument(3);
    case 2:
      return number(pick(60) - 20);
    case 3:
      return argument(4 + pick(numCaptures));
    case 4:
    case 5:
      return arith::AddIOp::create(b, loc, affine(depth - 1),
                                   affine(depth - 1));
    case 6:
      return arith::SubIOp::create(b, loc, affine(depth - 1),
                                   affine(depth - 1));
    default:
      return arith::MulIOp::create(b, loc, affine(depth - 1),
                                   number(pick(7) - 3));
    }
  }

  Value integer(int depth) {
    if (affineOnly)
      return pick(4) ? affine(depth)
             : pick(2)
                 ? arith::MinSIOp::create(b, loc, affine(depth), affine(depth))
                       .getResult()
                 : arith::MaxSIOp::create(b, loc, affine(depth), affine(depth))
                       .getResult();
    if (depth <= 0)
      return affine(0);
    auto x = [&] { return integer(depth - 1); };
    auto divisor = [&] {
      static const int64_t divisors[] = {1, 2, 3, 7, 8, 16, 25, -1, -4};
      return number(divisors[pick(9)]);
    };
    switch (pick(26)) {
    default:
      return affine(depth);
    case 22: // stands for what is read from memory by row or by key
      return arith::XOrIOp::create(b, loc,
                                   arith::MulIOp::create(b, loc,
                                                         argument(2 + pick(2)),
                                                         number(1 + pick(5))),
                                   number(5));
    case 24: { // and for a table of blocks
      auto block = [&](unsigned which, int64_t size) {
        return arith::MulIOp::create(
            b, loc,
            arith::DivUIOp::create(b, loc, argument(which), number(size)),
            number(1 + pick(5)));
      };
      return arith::XOrIOp::create(b, loc, block(2, 8), block(3, 16));
    }
    case 23:
      return arith::ExtUIOp::create(
          b, loc, b.getI32Type(),
          arith::TruncIOp::create(b, loc, b.getI1Type(),
                                  argument(2 + pick(2))));
    case 0:
      return arith::MulIOp::create(b, loc, x(), x());
    case 1:
      return arith::MinSIOp::create(b, loc, x(), x());
    case 2:
      return arith::MaxSIOp::create(b, loc, x(), x());
    case 3:
      return arith::DivSIOp::create(b, loc, x(), divisor());
    case 4:
      return arith::FloorDivSIOp::create(b, loc, x(), divisor());
    case 5:
      return arith::CeilDivSIOp::create(b, loc, x(), divisor());
    case 6:
      return arith::RemSIOp::create(b, loc, x(), divisor());
    case 7:
      return arith::DivUIOp::create(b, loc, x(), number(1 + pick(9)));
    case 8:
      return arith::RemUIOp::create(b, loc, x(), number(1 + pick(9)));
    case 9:
      return arith::ShLIOp::create(b, loc, x(), number(pick(5)));
    case 10:
      return arith::ShRSIOp::create(b, loc, x(), number(pick(5)));
    case 11:
      return arith::ShRUIOp::create(b, loc, x(), number(pick(5)));
    case 12:
      return arith::AndIOp::create(
          b, loc, x(), number(pick(2) ? (1 << pick(6)) - 1 : -(1 << pick(6))));
    case 13:
      return arith::XOrIOp::create(b, loc, x(), number(-1));
    case 14:
      return arith::SelectOp::create(b, loc, boolean(depth - 1), x(), x());
    case 15:
      return math::AbsIOp::create(b, loc, x());
    case 16:
      return arith::ExtUIOp::create(b, loc, b.getI32Type(), boolean(depth - 1));
    case 17:
      return arith::ExtSIOp::create(b, loc, b.getI32Type(), boolean(depth - 1));
    case 18: {
      Value wide = arith::ExtSIOp::create(b, loc, b.getI64Type(), x());
      Value more = arith::ExtSIOp::create(b, loc, b.getI64Type(), x());
      Value sum = arith::AddIOp::create(b, loc, wide, more);
      return arith::TruncIOp::create(b, loc, b.getI32Type(), sum);
    }
    case 19:
      return arith::MinUIOp::create(b, loc, x(), x());
    case 20:
      return arith::MaxUIOp::create(b, loc, x(), x());
    case 21:
      return number(pick(2) ? std::numeric_limits<int32_t>::max() - pick(3)
                            : std::numeric_limits<int32_t>::min() + pick(3));
    }
  }

  /// A position with an offset, divided.
  Value quotient(unsigned which, Value divisor, int how) {
    Value x = argument(which);
    if (pick(2))
      x = arith::AddIOp::create(b, loc, x, affine(0));
    if (pick(8) == 0)
      x = arith::MulIOp::create(b, loc, x, number(pick(5) - 2));
    switch (how) {
    case 0:
      return arith::DivSIOp::create(b, loc, x, divisor);
    case 1:
      return arith::DivUIOp::create(b, loc, x, divisor);
    case 2:
      return arith::CeilDivSIOp::create(b, loc, x, divisor);
    default:
      return arith::FloorDivSIOp::create(b, loc, x, divisor);
    }
  }

  /// The blocks of the row and of the key, or how far they are apart.
  Value blocks(arith::CmpIPredicate predicate) {
    Value divisor = number(1 + pick(20));
    Value x = quotient(2, divisor, pick(5)), y = quotient(3, divisor, pick(5));
    if (pick(2))
      std::swap(x, y);
    if (pick(2))
      return arith::CmpIOp::create(b, loc, predicate, x, y);
    Value apart = arith::SubIOp::create(b, loc, x, y);
    if (pick(4) == 0)
      apart = math::AbsIOp::create(b, loc, apart);
    Value most = pick(4) ? number(pick(7) - 3) : affine(0);
    return arith::CmpIOp::create(b, loc, predicate, apart, most);
  }

  Value boolean(int depth) {
    using Predicate = arith::CmpIPredicate;
    if (depth <= 0 || pick(5) == 0) {
      static const Predicate all[] = {
          Predicate::sle, Predicate::slt, Predicate::sge, Predicate::sgt,
          Predicate::eq,  Predicate::ne,  Predicate::ult, Predicate::ule,
          Predicate::ugt, Predicate::uge};
      Predicate predicate = all[pick(affineOnly ? 4 : 10)];
      if (!affineOnly && pick(3) == 0)
        return blocks(predicate);
      Value x = integer(2), y = integer(2);
      return arith::CmpIOp::create(b, loc, predicate, x, y);
    }
    auto x = [&] { return boolean(depth - 1); };
    auto truth = [&](bool value) -> Value {
      return arith::ConstantIntOp::create(b, loc, b.getI1Type(), value);
    };
    switch (pick(affineOnly ? 4 : 10)) {
    case 0:
    case 1:
      return arith::AndIOp::create(b, loc, x(), x());
    case 2:
      return arith::OrIOp::create(b, loc, x(), x());
    case 3:
      return arith::XOrIOp::create(b, loc, x(), truth(true));
    case 4:
      return arith::XOrIOp::create(b, loc, x(), x());
    case 5:
      return arith::SelectOp::create(b, loc, x(), x(), x());
    case 6:
      return arith::CmpIOp::create(
          b, loc, pick(2) ? Predicate::eq : Predicate::ne, x(), x());
    case 7:
      return arith::MinUIOp::create(b, loc, x(), x());
    case 8:
      return arith::MaxSIOp::create(b, loc, x(), x());
    default:
      return arith::AndIOp::create(b, loc, x(), truth(pick(4) != 0));
    }
  }

  OpBuilder b;
  Location loc;
  std::mt19937 &random;
  bool affineOnly;
  func::FuncOp func;
};

class MaskAnalysisTest : public ::testing::Test {
protected:
  MaskAnalysisTest() {
    DialectRegistry registry;
    registerAllDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
  }

  /// The value of a uniform value of the region, by the interpreter on a
  /// region that ends in it.
  int64_t evaluate(Region &region, Value value, ArrayRef<Scalar> arguments) {
    if (auto argument = dyn_cast<BlockArgument>(value))
      return arguments[argument.getArgNumber()].i;
    Operation *terminator = region.front().getTerminator();
    Value old = terminator->getOperand(0);
    terminator->setOperand(0, value);
    auto program = RegionProgram::compile(region);
    terminator->setOperand(0, old);
    SmallVector<Scalar> results;
    program->evaluate(arguments, results);
    return results[0].i;
  }

  struct Count {
    int64_t boxes = 0, partial = 0, needless = 0;
    /// Boxes that samples alone have settled.
    int64_t sampled = 0;
    /// And boxes within cells.
    int64_t inCells = 0;
    int64_t mixed = 0;
    /// Rows whose keys were told as an interval.
    int64_t rows = 0;
  };
  void check(RandomMask &mask, std::mt19937 &random, Count &count);

  MLIRContext context;
};

void MaskAnalysisTest::check(RandomMask &mask, std::mt19937 &random,
                             Count &count) {
  auto pick = [&](int n) {
    return std::uniform_int_distribution<>(0, n - 1)(random);
  };
  Region &region = mask.region();
  std::string text;
  llvm::raw_string_ostream(text) << *region.getParentOp();
  auto program = RegionProgram::compile(region);
  ASSERT_TRUE(succeeded(program));
  MaskAnalysis analysis(region);

  for (int trial = 0; trial < 3; ++trial) {
    SmallVector<Scalar> arguments(4 + numCaptures, Scalar::ofInt(0));
    for (unsigned c = 0; c < numCaptures; ++c)
      arguments[4 + c].i = pick(8)   ? pick(80) - 30
                           : pick(2) ? std::numeric_limits<int32_t>::max()
                                     : std::numeric_limits<int32_t>::min();
    int64_t firstRow = pick(4) ? pick(60) : 1000000 + pick(60);
    int64_t numRows = 1 + pick(20), numKeys = pick(60);
    std::vector<std::vector<bool>> live(numRows, std::vector<bool>(numKeys));
    SmallVector<Scalar> results;
    for (int64_t i = 0; i < numRows; ++i)
      for (int64_t j = 0; j < numKeys; ++j) {
        arguments[2].i = firstRow + i;
        arguments[3].i = j;
        results.clear();
        program->evaluate(arguments, results);
        live[i][j] = results[0].i & 1;
      }
    auto uniform = [&](Value value) {
      return evaluate(region, value, arguments);
    };
    std::string where =
        text + "\ncaptures " + std::to_string(arguments[4].i) + ", " +
        std::to_string(arguments[5].i) + ", " + std::to_string(arguments[6].i) +
        ", rows from " + std::to_string(firstRow) + " count " +
        std::to_string(numRows) + ", keys " + std::to_string(numKeys);
    int64_t lastRow = firstRow + numRows - 1;
    auto bounds = analysis.computeBounds(uniform, firstRow, lastRow, numKeys);
    for (int64_t j = 0; j < numKeys; ++j) {
      bool some = false, all = true;
      for (int64_t i = 0; i < numRows; ++i) {
        some |= live[i][j];
        all &= live[i][j];
      }
      bool inHull = j >= bounds.lower && j < bounds.upper;
      bool inCore = j >= bounds.coreLower && j < bounds.coreUpper;
      ASSERT_TRUE(inHull || !some) << "key " << j << " is live: " << where;
      ASSERT_TRUE(!inCore || all) << "key " << j << " is not core: " << where;
      if (analysis.facts().hullIsExact && bounds.valid) {
        ASSERT_TRUE(!inHull || some) << "key " << j << " is dead: " << where;
      }
    }

    // The emitted code, on constants.
    OpBuilder b(&context);
    Location loc = b.getUnknownLoc();
    OwningOpRef<ModuleOp> module = ModuleOp::create(b, loc);
    b.setInsertionPointToStart(module->getBody());
    auto index = [&](int64_t value) -> Value {
      return arith::ConstantIndexOp::create(b, loc, value);
    };
    auto i32 = [&](int64_t value) -> Value {
      return arith::ConstantIntOp::create(b, loc, b.getI32Type(), value);
    };
    auto uniformCode = [&](Value value) -> Value {
      return arith::ConstantIntOp::create(b, loc, value.getType(),
                                          uniform(value));
    };
    auto constantOf = [&](Value value) -> int64_t {
      APInt constant;
      if (!matchPattern(value, m_ConstantInt(&constant)))
        return -12345;
      return constant.getBitWidth() == 1 ? constant.getZExtValue()
                                         : constant.getSExtValue();
    };
    if (analysis.facts().hasRowIntervals && bounds.valid)
      for (int64_t i = 0; i < numRows; ++i) {
        for (int64_t firstKey : {int64_t(0), int64_t(32)}) {
          // The row is the third of its tile, or a position of its own.
          bool isOffset = (i + firstKey) % 3 != 0;
          int64_t position = firstRow + i - (isOffset ? 3 : 0);
          auto columns = analysis.emitRowColumns(
              b, loc, uniformCode,
              {i32(3), i32(position), isOffset, i32(firstKey),
               i32(numKeys - firstKey), /*numColumns=*/64, index(numKeys)});
          int64_t start = columns.start ? constantOf(columns.start) : 0;
          for (int64_t j = firstKey; j < numKeys; ++j)
            ASSERT_EQ(live[i][j], j - firstKey >= start &&
                                      j - firstKey < constantOf(columns.end))
                << "row " << i << ", key " << j << ": " << where;
        }
        ++count.rows;
      }
    auto code = analysis.emitBounds(b, loc, uniformCode, index(firstRow),
                                    index(lastRow), index(numKeys));
    ASSERT_EQ(constantOf(code.valid), bounds.valid) << where;
    ASSERT_EQ(constantOf(code.lower), bounds.lower) << where;
    ASSERT_EQ(constantOf(code.upper), bounds.upper) << where;
    ASSERT_EQ(constantOf(code.coreLower), bounds.coreLower) << where;
    ASSERT_EQ(constantOf(code.coreUpper), bounds.coreUpper) << where;

    for (int64_t i0 = 0; i0 < numRows; i0 += 8)
      for (int64_t j0 = 0; j0 < numKeys; j0 += 8) {
        int64_t i1 = std::min(i0 + 8, numRows) - 1;
        int64_t j1 = std::min(j0 + 8, numKeys) - 1;
        bool some = false, all = true;
        for (int64_t i = i0; i <= i1; ++i)
          for (int64_t j = j0; j <= j1; ++j) {
            some |= live[i][j];
            all &= live[i][j];
          }
        auto box = analysis.computeClass(uniform, firstRow + i0, firstRow + i1,
                                         j0, j1, bounds.valid);
        ASSERT_TRUE(!box.dead || !some) << "box is not dead: " << where;
        ASSERT_TRUE(!box.full || all) << "box is not full: " << where;
        // With what is read of rows or keys alone, taken over the box.
        auto sample = [&](Value value) {
          bool onKey = llvm::find_if(analysis.getSamples(), [&](auto &s) {
                         return s.value == value;
                       })->onKey;
          SmallVector<Scalar> at(arguments);
          int64_t least = std::numeric_limits<int64_t>::max();
          int64_t greatest = std::numeric_limits<int64_t>::min();
          for (int64_t x = onKey ? j0 : i0; x <= (onKey ? j1 : i1); ++x) {
            at[onKey ? 3 : 2].i = onKey ? x : firstRow + x;
            int64_t y = evaluate(region, value, at);
            if (value.getType().isInteger(1))
              y &= 1;
            least = std::min(least, y);
            greatest = std::max(greatest, y);
          }
          return std::pair(least, greatest);
        };
        bool mixed = false;
        auto sampled =
            analysis.computeBoxClass(uniform, sample, firstRow + i0,
                                     firstRow + i1, j0, j1, {}, {}, &mixed);
        ASSERT_TRUE(!mixed || (some && !all)) << "not mixed: " << where;
        count.mixed += mixed;
        ASSERT_TRUE(!sampled.dead || !some) << "sampled, not dead: " << where;
        ASSERT_TRUE(!sampled.full || all) << "sampled, not full: " << where;
        ASSERT_TRUE(!box.dead || sampled.dead) << "less is known: " << where;
        count.sampled +=
            (sampled.dead && !box.dead) || (sampled.full && !box.full);
        auto cell = [&](Value value) {
          SmallVector<Scalar> at(arguments);
          at[2].i = firstRow + i0;
          at[3].i = j0;
          int64_t x = evaluate(region, value, at);
          return value.getType().isInteger(1) ? x & 1 : x;
        };
        auto inCell = analysis.computeBoxClass(uniform, sample, firstRow + i0,
                                               firstRow + i1, j0, j1, cell);
        auto alone = analysis.computeClass(
            uniform, firstRow + i0, firstRow + i1, j0, j1, bounds.valid, cell);
        for (auto known : {inCell, alone}) {
          ASSERT_TRUE(!known.dead || !some) << "cell, not dead: " << where;
          ASSERT_TRUE(!known.full || all) << "cell, not full: " << where;
        }
        ASSERT_TRUE(!box.dead || alone.dead) << "less is known: " << where;
        count.inCells +=
            (inCell.dead && !sampled.dead) || (inCell.full && !sampled.full);
        ++count.boxes;
        if (!box.dead && !box.full) {
          ++count.partial;
          count.needless += !some || all;
        }
      }
  }
}
} // namespace

TEST_F(MaskAnalysisTest, IsNeverWrongOnRandomMasks) {
  for (bool affineOnly : {true, false}) {
    std::mt19937 random(affineOnly ? 1 : 2);
    Count count;
    for (int i = 0; i < 300; ++i) {
      RandomMask mask(&context, random, affineOnly);
      check(mask, random, count);
      if (HasFatalFailure())
        return;
    }
    std::cout << (affineOnly ? "affine" : "any algebra") << ": " << count.boxes
              << " boxes, " << count.partial << " partial, "
              << 100.0 * count.needless / count.boxes
              << " % of all needlessly; intervals of " << count.rows
              << " rows; " << count.sampled << " boxes settled by samples, "
              << count.inCells << " by cells; " << count.mixed
              << " known to be mixed\n";
    EXPECT_TRUE(affineOnly || count.inCells > 0);
    EXPECT_GT(count.mixed, 0);
  }
}

//===----------------------------------------------------------------------===//
// Masks by name
//===----------------------------------------------------------------------===//

namespace {
struct Named {
  OwningOpRef<ModuleOp> module;
  std::unique_ptr<MaskAnalysis> analysis;
};
} // namespace

static Named parseMask(MLIRContext &context, const std::string &body) {
  Named named;
  named.module = parseSourceString<ModuleOp>(
      "func.func @mask(%b: i32, %h: i32, %i: i32, %j: i32, %w: i32,"
      "                %t: tensor<?xf32>) -> i1 {\n" +
          body + "\nreturn %r : i1\n}",
      &context);
  EXPECT_TRUE(named.module) << body;
  auto func = *named.module->getOps<func::FuncOp>().begin();
  named.analysis = std::make_unique<MaskAnalysis>(func.getBody());
  return named;
}

TEST_F(MaskAnalysisTest, FindsBoundsOfACausalWindow) {
  Named mask = parseMask(context, R"(
    %d = arith.subi %i, %j : i32
    %zero = arith.constant 0 : i32
    %past = arith.cmpi sge, %d, %zero : i32
    %near = arith.cmpi sle, %d, %w : i32
    %r = arith.andi %past, %near : i1)");
  EXPECT_TRUE(mask.analysis->facts().hullIsExact);
  EXPECT_TRUE(mask.analysis->facts().hasCore);
  EXPECT_FALSE(mask.analysis->facts().isDataDependent);
  auto bounds = mask.analysis->computeBounds(
      [](Value) { return 100; }, /*firstRow=*/256, /*lastRow=*/319, 1000);
  EXPECT_EQ(bounds.lower, 156);
  EXPECT_EQ(bounds.upper, 320);
  EXPECT_EQ(bounds.coreLower, 219);
  EXPECT_EQ(bounds.coreUpper, 257);
}

TEST_F(MaskAnalysisTest, SamplesWhatRowsAndKeysReadAlone) {
  // Ids of documents, here made of bits, and a causal bound.
  Named mask = parseMask(context, R"(
    %five = arith.constant 5 : i32
    %x = arith.xori %i, %five : i32
    %y = arith.xori %j, %five : i32
    %same = arith.cmpi eq, %x, %y : i32
    %past = arith.cmpi sle, %j, %i : i32
    %r = arith.andi %past, %same : i1)");
  EXPECT_TRUE(mask.analysis->facts().isDataDependent);
  ASSERT_EQ(mask.analysis->getSamples().size(), 2u);
  EXPECT_NE(mask.analysis->getSamples()[0].onKey,
            mask.analysis->getSamples()[1].onKey);
  bool mixed = false;
  auto classOf = [&](std::pair<int64_t, int64_t> rows,
                     std::pair<int64_t, int64_t> keys, int64_t firstRow,
                     int64_t firstKey) {
    auto sample = [&](Value value) {
      for (auto &s : mask.analysis->getSamples())
        if (s.value == value)
          return s.onKey ? keys : rows;
      return std::pair<int64_t, int64_t>();
    };
    return mask.analysis->computeBoxClass([](Value) { return 0; }, sample,
                                          firstRow, firstRow + 63, firstKey,
                                          firstKey + 63, {}, {}, &mixed);
  };
  auto isMixed = [&](std::pair<int64_t, int64_t> rows,
                     std::pair<int64_t, int64_t> keys, int64_t firstRow,
                     int64_t firstKey) {
    classOf(rows, keys, firstRow, firstKey);
    return mixed;
  };
  EXPECT_TRUE(classOf({3, 4}, {5, 9}, 256, 0).dead);
  EXPECT_TRUE(classOf({3, 3}, {3, 3}, 256, 0).full);
  EXPECT_TRUE(classOf({3, 3}, {3, 3}, 0, 256).dead);
  auto across = classOf({3, 3}, {3, 3}, 256, 224);
  EXPECT_FALSE(across.dead || across.full);
  auto two = classOf({3, 4}, {4, 4}, 256, 0);
  EXPECT_FALSE(two.dead || two.full);
  // Rows and keys that have an id in common, beside others, below the diagonal
  // and across it, where nobody knows.
  EXPECT_TRUE(isMixed({3, 4}, {4, 4}, 256, 0));
  EXPECT_TRUE(isMixed({3, 4}, {1, 3}, 256, 0));
  EXPECT_FALSE(isMixed({3, 6}, {4, 5}, 256, 0));
  EXPECT_FALSE(isMixed({3, 3}, {3, 3}, 256, 0));
  EXPECT_FALSE(isMixed({3, 4}, {4, 4}, 256, 224));
}

TEST_F(MaskAnalysisTest, AsksElementsThatRowAndKeyChoose) {
  // A table by distance, which may be -inf, under a causal bound.
  std::string body = R"(
    %d = arith.subi %i, %j : i32
    %at = arith.index_cast %d : i32 to index
    %x = tensor.extract %t[%at] : tensor<?xf32>
    %none = arith.constant 0xFF800000 : f32
    %live = arith.cmpf une, %x, %none : f32
    %past = arith.cmpi sle, %j, %i : i32
    %r = arith.andi %past, %live : i1)";
  Named mask = parseMask(context, body);
  EXPECT_TRUE(mask.analysis->getSamples().empty());
  ASSERT_EQ(mask.analysis->getElements().size(), 1u);
  auto classOf = [&](std::pair<int64_t, int64_t> answers, int64_t firstKey) {
    auto number = [](Value) { return int64_t(0); };
    auto none = [](Value) { return std::pair<int64_t, int64_t>(); };
    return mask.analysis->computeBoxClass(number, none, 256, 319, firstKey,
                                          firstKey + 63, {},
                                          [&](Value) { return answers; });
  };
  EXPECT_TRUE(classOf({1, 1}, 0).full);
  EXPECT_TRUE(classOf({0, 0}, 0).dead);
  EXPECT_TRUE(classOf({1, 1}, 512).dead);
  auto some = classOf({0, 1}, 0), across = classOf({1, 1}, 256);
  EXPECT_FALSE(some.full || some.dead || across.full || across.dead);
  // The row on its own makes it something else.
  body.replace(body.find("une, %x, %none"), 14, "une, %x, %mine");
  Named both =
      parseMask(context, "%mine = arith.sitofp %i : i32 to f32" + body);
  EXPECT_TRUE(both.analysis->getElements().empty());
}

TEST_F(MaskAnalysisTest, FindsRowsOfACausalPrefix) {
  Named mask = parseMask(context, R"(
    %past = arith.cmpi sle, %j, %i : i32
    %prefix = arith.cmpi slt, %j, %w : i32
    %r = arith.ori %past, %prefix : i1)");
  EXPECT_TRUE(mask.analysis->facts().hullIsExact);
  EXPECT_TRUE(mask.analysis->facts().hasRowIntervals);
  auto bounds = mask.analysis->computeBounds([](Value) { return 512; },
                                             /*firstRow=*/256, 319, 1000);
  EXPECT_EQ(bounds.upper, 512);
  EXPECT_EQ(bounds.coreUpper, 512);
}

TEST_F(MaskAnalysisTest, KnowsThatPositionsAreBelowTheirNumber) {
  // j - (i + w): within i32 where i is below w, else not.
  Named mask = parseMask(context, R"(
    %far = arith.subi %i, %w : i32
    %d = arith.subi %far, %j : i32
    %zero = arith.constant 0 : i32
    %r = arith.cmpi sle, %d, %zero : i32)");
  auto counts = [](Value value) { return isa<BlockArgument>(value); };
  auto doesNot = [](Value) { return false; };
  EXPECT_FALSE(mask.analysis->isAlwaysValid(counts, doesNot));
  EXPECT_FALSE(mask.analysis->isAlwaysValid(doesNot, doesNot));
  Named shifted = parseMask(context, R"(
    %far = arith.subi %i, %w : i32
    %zero = arith.constant 0 : i32
    %r = arith.cmpi sle, %far, %zero : i32)");
  EXPECT_TRUE(shifted.analysis->isAlwaysValid(counts, doesNot));
  EXPECT_FALSE(shifted.analysis->isAlwaysValid(doesNot, doesNot));
}

TEST_F(MaskAnalysisTest, FindsRowsOfChunks) {
  // Causal in chunks of 256, chunks beside each other, and some with gaps.
  auto mask = [&](const std::string &which) {
    return parseMask(context, R"(
      %c = arith.constant 256 : i32
      %one = arith.constant 1 : i32
      %x = arith.divsi %i, %c : i32
      %y = arith.divui %j, %c : i32
      %past = arith.cmpi sle, %j, %i : i32
)" + which);
  };
  Named chunks = mask(R"(
      %same = arith.cmpi eq, %x, %y : i32
      %r = arith.andi %past, %same : i1)");
  EXPECT_TRUE(chunks.analysis->facts().hullIsExact);
  EXPECT_TRUE(chunks.analysis->facts().hasRowIntervals);
  auto bounds =
      chunks.analysis->computeBounds([](Value) { return 0; }, 300, 363, 1000);
  EXPECT_EQ(bounds.lower, 256);
  EXPECT_EQ(bounds.upper, 364);
  EXPECT_EQ(bounds.coreLower, 256);
  EXPECT_EQ(bounds.coreUpper, 301);
  Named near = mask(R"(
      %d = arith.subi %x, %y : i32
      %a = math.absi %d : i32
      %r = arith.cmpi sle, %a, %one : i32)");
  EXPECT_TRUE(near.analysis->facts().hullIsExact);
  EXPECT_TRUE(near.analysis->facts().hasRowIntervals);
  bounds =
      near.analysis->computeBounds([](Value) { return 0; }, 500, 563, 2000);
  EXPECT_EQ(bounds.lower, 0);
  EXPECT_EQ(bounds.upper, 1024);
  EXPECT_EQ(bounds.coreLower, 256);
  EXPECT_EQ(bounds.coreUpper, 768);
  // The next chunk of a causal row has no keys.
  Named next = mask(R"(
      %z = arith.addi %x, %one : i32
      %after = arith.cmpi sge, %y, %z : i32
      %r = arith.andi %past, %after : i1)");
  EXPECT_FALSE(next.analysis->facts().hullIsExact);
  // The chunk before, under a window that need not reach it.
  Named before = mask(R"(
      %d = arith.subi %i, %j : i32
      %close = arith.cmpi sle, %d, %w : i32
      %z = arith.subi %x, %one : i32
      %upto = arith.cmpi sle, %y, %z : i32
      %r = arith.andi %close, %upto : i1)");
  EXPECT_FALSE(before.analysis->facts().hullIsExact);
}

TEST_F(MaskAnalysisTest, ReadsBlocksWrittenAsDivisions) {
  Named mask = parseMask(context, R"(
    %c = arith.constant 64 : i32
    %x = arith.divsi %i, %c : i32
    %y = arith.divsi %j, %c : i32
    %r = arith.cmpi sle, %y, %x : i32)");
  auto bounds =
      mask.analysis->computeBounds([](Value) { return 0; }, 100, 163, 1000);
  EXPECT_EQ(bounds.lower, 0);
  EXPECT_EQ(bounds.upper, 192);
  EXPECT_EQ(bounds.coreLower, 0);
  EXPECT_EQ(bounds.coreUpper, 128);
}

TEST_F(MaskAnalysisTest, DoesNotTrustSumsThatWrap) {
  // For %w = INT_MAX the sum is negative and nothing is live.
  Named mask = parseMask(context, R"(
    %s = arith.addi %i, %w : i32
    %r = arith.cmpi sge, %s, %j : i32)");
  auto wrapped = mask.analysis->computeBounds(
      [](Value) { return std::numeric_limits<int32_t>::max(); }, 64, 127, 100);
  EXPECT_FALSE(wrapped.valid);
  EXPECT_EQ(wrapped.coreUpper, 0);
  auto plain =
      mask.analysis->computeBounds([](Value) { return 10; }, 64, 127, 100);
  EXPECT_TRUE(plain.valid);
  EXPECT_EQ(plain.coreUpper, 75);
}

TEST_F(MaskAnalysisTest, KnowsWhatHoldsInAnyKernel) {
  Named causal = parseMask(context, R"(
    %r = arith.cmpi sle, %j, %i : i32)");
  EXPECT_TRUE(causal.analysis->facts().startsAtFirstKey);
  EXPECT_FALSE(causal.analysis->facts().startDiffersByRow);
  EXPECT_TRUE(causal.analysis->facts().endDiffersByRow);
  // No intermediate value of it can leave its type.
  EXPECT_TRUE(causal.analysis->facts().alwaysValid);

  Named window = parseMask(context, R"(
    %d = arith.subi %i, %j : i32
    %zero = arith.constant 0 : i32
    %past = arith.cmpi sge, %d, %zero : i32
    %near = arith.cmpi sle, %d, %w : i32
    %r = arith.andi %past, %near : i1)");
  EXPECT_FALSE(window.analysis->facts().startsAtFirstKey);
  EXPECT_TRUE(window.analysis->facts().startDiffersByRow);
  EXPECT_TRUE(window.analysis->facts().endDiffersByRow);

  Named prefix = parseMask(context, R"(
    %r = arith.cmpi slt, %j, %w : i32)");
  EXPECT_TRUE(prefix.analysis->facts().startsAtFirstKey);
  EXPECT_FALSE(prefix.analysis->facts().endDiffersByRow);

  // From some key on, whatever the row.
  Named suffix = parseMask(context, R"(
    %r = arith.cmpi sge, %j, %w : i32)");
  EXPECT_FALSE(suffix.analysis->facts().startsAtFirstKey);
  EXPECT_FALSE(suffix.analysis->facts().startDiffersByRow);

  // A sum with a capture may wrap.
  Named shifted = parseMask(context, R"(
    %last = arith.addi %i, %w : i32
    %r = arith.cmpi sle, %j, %last : i32)");
  EXPECT_FALSE(shifted.analysis->facts().alwaysValid);
}
