//===- Dropout.cpp - The factor of dropout, as operations -----------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Integer operations of arith are all that it takes, so no level below knows of
// random numbers. One block of Philox has the words of four keys, 16 apart: of
// 64 neighbours, so that a vector of 16 keys takes one word of 16 blocks, and
// the lane of a GPU that has columns 2t and 2t + 1 of each 8 finds all four
// words of its blocks among its own. The blocks are shared by common
// subexpressions, where the first key of a tile is known to be a multiple
// of 64.
//
//===----------------------------------------------------------------------===//

#include "Dropout.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include <array>

using namespace mlir;
using namespace mlir::attn;

namespace {
/// Arithmetic on 32-bit words.
class Words {
public:
  using Block = std::array<Value, 4>;

  Words(OpBuilder &b, Location loc)
      : b(b), loc(loc), i32(b.getI32Type()), i64(b.getI64Type()) {}

  Value constant(uint32_t value) {
    return arith::ConstantIntOp::create(b, loc, i32, int32_t(value));
  }
  Value wide(uint64_t value) {
    return arith::ConstantIntOp::create(b, loc, i64, int64_t(value));
  }
  template <typename Op> Value make(Value x, Value y) {
    return Op::create(b, loc, x, y);
  }
  Value low(Value x) { return arith::TruncIOp::create(b, loc, i32, x); }

  /// Philox-4x32-10.
  Block philox(Block counter, std::array<Value, 2> key) {
    for (unsigned round = 0; round < 10; ++round) {
      Value first = product(counter[0], 0xD2511F53u);
      Value second = product(counter[2], 0xCD9E8D57u);
      counter = {mix(second, counter[1], key[0]), low(second),
                 mix(first, counter[3], key[1]), low(first)};
      key = {make<arith::AddIOp>(key[0], constant(0x9E3779B9u)),
             make<arith::AddIOp>(key[1], constant(0xBB67AE85u))};
    }
    return counter;
  }

private:
  Value product(Value x, uint32_t factor) {
    Value extended = arith::ExtUIOp::create(b, loc, i64, x);
    return make<arith::MulIOp>(extended, wide(factor));
  }
  /// The high half of a product, with the key and a word.
  Value mix(Value product, Value word, Value key) {
    Value high = low(make<arith::ShRUIOp>(product, wide(32)));
    return make<arith::XOrIOp>(make<arith::XOrIOp>(high, word), key);
  }

  OpBuilder &b;
  Location loc;
  Type i32, i64;
};
} // namespace

Value mlir::attn::buildDropoutFactor(OpBuilder &b, Location loc, Value p,
                                     ValueRange rng, Value batch, Value head,
                                     Value row, Value key) {
  Words words(b, loc);
  auto number = [&](float value) -> Value {
    return arith::ConstantFloatOp::create(b, loc, b.getF32Type(),
                                          APFloat(value));
  };
  using Predicate = arith::CmpIPredicate;
  auto equal = [&](Value x, uint32_t y) -> Value {
    return arith::CmpIOp::create(b, loc, Predicate::eq, x, words.constant(y));
  };
  auto select = [&](Value condition, Value x, Value y) -> Value {
    return arith::SelectOp::create(b, loc, condition, x, y);
  };

  // What is the same for all pairs of a head.
  Value isAll =
      arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OGE, p, number(1.0f));
  Value kept = words.make<arith::DivFOp>(
      number(1.0f), words.make<arith::SubFOp>(number(1.0f), p));
  kept = select(isAll, number(0.0f), kept);
  Value threshold = arith::FPToUIOp::create(
      b, loc, b.getI64Type(),
      words.make<arith::MulFOp>(
          words.make<arith::MinNumFOp>(
              words.make<arith::MaxNumFOp>(p, number(0.0f)), number(1.0f)),
          number(0x1p32f)));
  threshold = words.low(words.make<arith::MinUIOp>(
      threshold, words.wide(std::numeric_limits<uint32_t>::max())));
  Words::Block ofHead =
      words.philox({rng[2], rng[3], batch, head}, {rng[0], rng[1]});

  Value group = words.make<arith::ShRUIOp>(key, words.constant(6));
  Value block = words.make<arith::OrIOp>(
      words.make<arith::ShLIOp>(group, words.constant(4)),
      words.make<arith::AndIOp>(key, words.constant(15)));
  Words::Block random =
      words.philox({block, row, ofHead[2], ofHead[3]}, {ofHead[0], ofHead[1]});
  Value which = words.make<arith::AndIOp>(
      words.make<arith::ShRUIOp>(key, words.constant(4)), words.constant(3));
  Value word = random[3];
  for (unsigned i : {2, 1, 0})
    word = select(equal(which, i), random[i], word);
  Value isKept = arith::CmpIOp::create(b, loc, Predicate::uge, word, threshold);
  return select(isKept, kept, number(0.0f));
}
