//===- Scalars.cpp - Arithmetic on many elements at once ------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Scalars.h"
#include "attn/Dialect/TileGPU/IR/FusedSum.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/StringMap.h"

#include <cmath>
#include <cstring>

using namespace mlir;
namespace emulator = ::attn::emulator;
using namespace ::attn::emulator;

float emulator::roundTo(float value, Rounding rounding) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  auto fromBits = [](uint32_t b) {
    float result;
    std::memcpy(&result, &b, 4);
    return result;
  };
  switch (rounding) {
  case Rounding::None:
    return value;
  case Rounding::BF16:
    if (std::isnan(value))
      return fromBits((bits | 0x400000) & 0xffff0000);
    return fromBits((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000);
  case Rounding::TF32:
    if (!std::isfinite(value))
      return value;
    return fromBits((bits + 0x1000) & 0xffffe000);
  case Rounding::F16: {
    // Halves have 10 bits behind the point, down to 2^-24.
    float size = std::fabs(value);
    if (!std::isfinite(value))
      return value;
    if (size >= 65520.0f)
      return std::copysign(INFINITY, value);
    if (size < 0x1p-14f)
      return std::copysign(std::nearbyint(size * 0x1p24f) * 0x1p-24f, value);
    return fromBits((bits + 0xfff + (bits >> 13 & 1)) & 0xffffe000);
  }
  }
  return value;
}

std::optional<ScalarType> emulator::scalarTypeOf(Type type) {
  if (type.isIndex())
    return ScalarType{Kind::I64, 64, Rounding::None};
  if (auto integer = dyn_cast<IntegerType>(type)) {
    unsigned bits = integer.getWidth();
    if (bits > 64)
      return std::nullopt;
    return ScalarType{bits > 32 ? Kind::I64 : Kind::I32, uint8_t(bits),
                      Rounding::None};
  }
  if (type.isF32())
    return ScalarType{Kind::F32, 32, Rounding::None};
  if (type.isF64())
    return ScalarType{Kind::F64, 64, Rounding::None};
  if (type.isBF16())
    return ScalarType{Kind::F32, 16, Rounding::BF16};
  if (type.isF16())
    return ScalarType{Kind::F32, 16, Rounding::F16};
  if (type.isTF32())
    return ScalarType{Kind::F32, 32, Rounding::TF32};
  return std::nullopt;
}

namespace {
/// An operation's number, and what it takes: as it is, and where the module
/// lets it be approximate.
struct Entry {
  Opcode opcode;
  ScalarCost cost;
  std::optional<ScalarCost> fast = std::nullopt;
};
} // namespace

static const Entry *entryOf(StringRef name) {
  constexpr ScalarCost none = {0, 0, 0}, fma = {1, 0, 0}, alu = {0, 1, 0};
  constexpr ScalarCost special = {0, 0, 1};
  static const llvm::StringMap<Entry> opcodes = {
      {"arith.addi", {Opcode::AddI, alu}},
      {"arith.subi", {Opcode::SubI, alu}},
      {"arith.muli", {Opcode::MulI, alu}},
      {"arith.divsi", {Opcode::DivSI, {2, 16, 2}}},
      {"arith.divui", {Opcode::DivUI, {2, 16, 2}}},
      {"arith.remsi", {Opcode::RemSI, {2, 18, 2}}},
      {"arith.remui", {Opcode::RemUI, {2, 18, 2}}},
      {"arith.ceildivsi", {Opcode::CeilDivSI, {2, 20, 2}}},
      {"arith.ceildivui", {Opcode::CeilDivUI, {2, 20, 2}}},
      {"arith.floordivsi", {Opcode::FloorDivSI, {2, 20, 2}}},
      {"arith.minsi", {Opcode::MinSI, alu}},
      {"arith.maxsi", {Opcode::MaxSI, alu}},
      {"arith.minui", {Opcode::MinUI, alu}},
      {"arith.maxui", {Opcode::MaxUI, alu}},
      {"arith.andi", {Opcode::AndI, alu}},
      {"arith.ori", {Opcode::OrI, alu}},
      {"arith.xori", {Opcode::XOrI, alu}},
      {"arith.shli", {Opcode::ShLI, alu}},
      {"arith.shrui", {Opcode::ShRUI, alu}},
      {"arith.shrsi", {Opcode::ShRSI, alu}},
      {"arith.cmpi", {Opcode::CmpI, alu}},
      {"arith.cmpf", {Opcode::CmpF, alu}},
      {"arith.select", {Opcode::Select, alu}},
      {"arith.extsi", {Opcode::ExtS, alu}},
      {"arith.index_cast", {Opcode::ExtS, alu}},
      {"arith.trunci", {Opcode::ExtS, alu}},
      {"arith.extui", {Opcode::ExtU, alu}},
      {"arith.index_castui", {Opcode::ExtU, alu}},
      {"arith.sitofp", {Opcode::SIToFP, special}},
      {"arith.uitofp", {Opcode::UIToFP, special}},
      {"arith.fptosi", {Opcode::FPToSI, special}},
      {"arith.fptoui", {Opcode::FPToUI, special}},
      {"arith.bitcast", {Opcode::Bitcast, none}},
      {"arith.extf", {Opcode::ConvertF, alu}},
      {"arith.truncf", {Opcode::ConvertF, alu}},
      {"arith.addf", {Opcode::AddF, fma}},
      {"arith.subf", {Opcode::SubF, fma}},
      {"arith.mulf", {Opcode::MulF, fma}},
      {"arith.divf", {Opcode::DivF, {5, 3, 1}}},
      {"arith.remf", {Opcode::RemF, {20, 10, 2}}},
      {"arith.negf", {Opcode::NegF, none}},
      {"arith.maximumf", {Opcode::MaximumF, alu}},
      {"arith.minimumf", {Opcode::MinimumF, alu}},
      {"arith.maxnumf", {Opcode::MaxNumF, alu}},
      {"arith.minnumf", {Opcode::MinNumF, alu}},
      {"math.fma", {Opcode::Fma, fma}},
      {"math.exp", {Opcode::Exp, {6, 4, 1}, ScalarCost{1, 0, 1}}},
      {"math.exp2", {Opcode::Exp2, special}},
      {"math.expm1", {Opcode::ExpM1, {18, 7, 1}}},
      {"math.log", {Opcode::Log, {14, 12, 0}, ScalarCost{1, 2, 1}}},
      {"math.log2", {Opcode::Log2, {15, 12, 0}, ScalarCost{1, 2, 1}}},
      {"math.log10", {Opcode::Log10, {16, 12, 0}}},
      {"math.log1p", {Opcode::Log1p, {23, 16, 1}}},
      {"math.sqrt", {Opcode::Sqrt, {4, 2, 1}}},
      {"math.rsqrt", {Opcode::Rsqrt, special}},
      {"math.tanh", {Opcode::Tanh, {12, 5, 2}, special}},
      {"math.sin", {Opcode::Sin, {16, 10, 0}}},
      {"math.cos", {Opcode::Cos, {16, 10, 0}}},
      {"math.tan", {Opcode::Tan, {24, 12, 1}}},
      {"math.atan", {Opcode::Atan, {20, 10, 1}}},
      {"math.atan2", {Opcode::Atan2, {24, 14, 1}}},
      {"math.erf", {Opcode::Erf, {24, 8, 1}}},
      {"math.powf", {Opcode::Pow, {40, 24, 1}}},
      {"math.absf", {Opcode::AbsF, none}},
      {"math.absi", {Opcode::AbsI, alu}},
      {"math.floor", {Opcode::Floor, special}},
      {"math.ceil", {Opcode::Ceil, special}},
      {"math.round", {Opcode::Round, special}},
      {"math.roundeven", {Opcode::RoundEven, special}},
      {"math.trunc", {Opcode::Trunc, special}},
      {"math.copysign", {Opcode::CopySign, alu}},
      {"math.ctpop", {Opcode::CtPop, alu}},
      {"math.ctlz", {Opcode::Ctlz, alu}},
      {"math.cttz", {Opcode::Cttz, alu}}};
  auto it = opcodes.find(name);
  if (it == opcodes.end())
    return nullptr;
  return &it->second;
}

std::optional<ScalarOp> emulator::scalarOpOf(Operation *op,
                                             SmallVectorImpl<Value> &operands) {
  const Entry *entry = entryOf(op->getName().getStringRef());
  if (!entry || op->getNumResults() != 1 || op->getNumOperands() == 0)
    return std::nullopt;
  // Of a select the values, not the condition.
  Type operand = op->getOperand(op->getNumOperands() - 1).getType();
  auto in = scalarTypeOf(operand),
       out = scalarTypeOf(op->getResult(0).getType());
  if (!in || !out)
    return std::nullopt;
  ScalarOp result{entry->opcode, *in, *out, 0, entry->cost};
  operands.assign(op->operand_begin(), op->operand_end());
  if (std::optional<gpu::FusedSum> sum = gpu::fusedSumOf(op)) {
    result.opcode = Opcode::Fma;
    result.subtractsProduct = sum->subtractsProduct;
    result.subtractsAddend = sum->subtractsAddend;
    operands.assign(
        {sum->product.getLhs(), sum->product.getRhs(), sum->addend});
  }
  using Fast = arith::FastMathFlags;
  auto flags = Fast::none;
  if (auto math = dyn_cast<arith::ArithFastMathInterface>(op))
    if (auto attribute = math.getFastMathFlagsAttr())
      flags = attribute.getValue();
  if (entry->fast && bitEnumContainsAny(flags, Fast::afn))
    result.cost = *entry->fast;
  result.isApproximate = isa<arith::DivFOp>(op) && in->bits == 32 &&
                         bitEnumContainsAny(flags, Fast::afn | Fast::arcp);
  if (auto cmp = dyn_cast<arith::CmpIOp>(op))
    result.predicate = int64_t(cmp.getPredicate());
  if (auto cmp = dyn_cast<arith::CmpFOp>(op))
    result.predicate = int64_t(cmp.getPredicate());
  return result;
}

//===----------------------------------------------------------------------===//
// Evaluation
//===----------------------------------------------------------------------===//

template <typename Out, typename In, typename F>
static void unary(int64_t n, const void *const *in, void *out, F f) {
  auto *x = static_cast<const In *>(in[0]);
  auto *z = static_cast<Out *>(out);
  for (int64_t i = 0; i < n; ++i)
    z[i] = f(x[i]);
}

template <typename Out, typename In, typename F>
static void binary(int64_t n, const void *const *in, void *out, F f) {
  auto *x = static_cast<const In *>(in[0]), *y = static_cast<const In *>(in[1]);
  auto *z = static_cast<Out *>(out);
  for (int64_t i = 0; i < n; ++i)
    z[i] = f(x[i], y[i]);
}

/// The canonical form of a narrow integer.
template <typename T> static T wrap(T value, unsigned bits) {
  if (bits >= sizeof(T) * 8)
    return value;
  if (bits == 1)
    return value & 1;
  unsigned shift = unsigned(sizeof(T) * 8) - bits;
  using U = std::make_unsigned_t<T>;
  return T(U(value) << shift) >> shift;
}

/// The value as an unsigned number.
template <typename T> static std::make_unsigned_t<T> plain(T x, unsigned bits) {
  using U = std::make_unsigned_t<T>;
  return bits >= sizeof(T) * 8 ? U(x) : U(x) & ((U(1) << bits) - 1);
}

template <typename T>
static bool compare(int64_t predicate, T x, T y, unsigned bits) {
  auto ux = plain(x, bits), uy = plain(y, bits);
  // A truth is -1 where it has a sign.
  if (bits == 1)
    x = T(-x), y = T(-y);
  switch (arith::CmpIPredicate(predicate)) {
  case arith::CmpIPredicate::eq:
    return x == y;
  case arith::CmpIPredicate::ne:
    return x != y;
  case arith::CmpIPredicate::slt:
    return x < y;
  case arith::CmpIPredicate::sle:
    return x <= y;
  case arith::CmpIPredicate::sgt:
    return x > y;
  case arith::CmpIPredicate::sge:
    return x >= y;
  case arith::CmpIPredicate::ult:
    return ux < uy;
  case arith::CmpIPredicate::ule:
    return ux <= uy;
  case arith::CmpIPredicate::ugt:
    return ux > uy;
  case arith::CmpIPredicate::uge:
    return ux >= uy;
  }
  return false;
}

/// Applies f to two integers, and wraps what it gives.
template <typename T, typename F>
static void wrapped(const ScalarOp &op, int64_t n, const void *const *in,
                    void *out, F f) {
  unsigned bits = op.in.bits;
  if (bits >= sizeof(T) * 8)
    binary<T, T>(n, in, out, f);
  else
    binary<T, T>(n, in, out, [&](T x, T y) { return wrap(T(f(x, y)), bits); });
}

/// Sums, products and quotients.
template <typename T>
static void evaluateArithmetic(const ScalarOp &op, int64_t n,
                               const void *const *in, void *out) {
  using U = std::make_unsigned_t<T>;
  unsigned bits = op.in.bits;
  auto run = [&](auto f) { wrapped<T>(op, n, in, out, f); };
  auto divide = [](T x, T y) -> T {
    return y == 0 ? 0 : y == -1 ? T(-U(x)) : T(x / y);
  };
  auto rest = [](T x, T y) -> T { return y == 0 || y == -1 ? 0 : T(x % y); };
  auto u = [&](T x) { return plain(x, bits); };
  switch (op.opcode) {
  case Opcode::AddI:
    return run([](T x, T y) { return T(U(x) + U(y)); });
  case Opcode::SubI:
    return run([](T x, T y) { return T(U(x) - U(y)); });
  case Opcode::MulI:
    return run([](T x, T y) { return T(U(x) * U(y)); });
  case Opcode::DivSI:
    return run(divide);
  case Opcode::RemSI:
    return run(rest);
  case Opcode::DivUI:
    return run([&](T x, T y) { return y ? T(u(x) / u(y)) : T(0); });
  case Opcode::RemUI:
    return run([&](T x, T y) { return y ? T(u(x) % u(y)) : T(0); });
  case Opcode::CeilDivUI:
    return run([&](T x, T y) {
      return y ? T(u(x) / u(y) + (u(x) % u(y) != 0)) : T(0);
    });
  case Opcode::CeilDivSI:
    return run([&](T x, T y) {
      return T(divide(x, y) + (rest(x, y) != 0 && (x < 0) == (y < 0)));
    });
  case Opcode::FloorDivSI:
    return run([&](T x, T y) {
      return T(divide(x, y) - (rest(x, y) != 0 && (x < 0) != (y < 0)));
    });
  case Opcode::MinSI:
    return run([](T x, T y) { return x < y ? x : y; });
  case Opcode::MaxSI:
    return run([](T x, T y) { return x > y ? x : y; });
  case Opcode::MinUI:
    return run([&](T x, T y) { return u(x) < u(y) ? x : y; });
  case Opcode::MaxUI:
    return run([&](T x, T y) { return u(x) > u(y) ? x : y; });
  case Opcode::AbsI:
    return unary<T, T>(n, in, out, [](T x) { return x < 0 ? T(-U(x)) : x; });
  default:
    return;
  }
}

template <typename T>
static void evaluateBits(const ScalarOp &op, int64_t n, const void *const *in,
                         void *out) {
  using U = std::make_unsigned_t<T>;
  unsigned bits = op.in.bits;
  auto run = [&](auto f) { wrapped<T>(op, n, in, out, f); };
  auto u = [&](T x) { return plain(x, bits); };
  switch (op.opcode) {
  case Opcode::AndI:
    return run([](T x, T y) { return T(x & y); });
  case Opcode::OrI:
    return run([](T x, T y) { return T(x | y); });
  case Opcode::XOrI:
    return run([](T x, T y) { return T(x ^ y); });
  case Opcode::ShLI:
    return run([&](T x, T y) { return u(y) < bits ? T(U(x) << y) : T(0); });
  case Opcode::ShRUI:
    return run([&](T x, T y) { return u(y) < bits ? T(u(x) >> y) : T(0); });
  case Opcode::ShRSI:
    return run(
        [&](T x, T y) { return T(x >> (u(y) < bits ? y : T(bits - 1))); });
  case Opcode::CtPop:
    return unary<T, T>(n, in, out, [&](T x) {
      return T(__builtin_popcountll(uint64_t(u(x))));
    });
  case Opcode::Ctlz:
    return unary<T, T>(n, in, out, [&](T x) {
      return u(x) ? T(__builtin_clzll(uint64_t(u(x))) - (64 - int(bits)))
                  : T(bits);
    });
  case Opcode::Cttz:
    return unary<T, T>(n, in, out, [&](T x) {
      return u(x) ? T(__builtin_ctzll(uint64_t(u(x)))) : T(bits);
    });
  default:
    return;
  }
}

/// An integer as a float, or as an integer of more bits.
template <typename T>
static void convertInteger(const ScalarOp &op, int64_t n, const void *const *in,
                           void *out) {
  unsigned bits = op.in.bits;
  auto u = [&](T x) { return plain(x, bits); };
  switch (op.opcode) {
  case Opcode::SIToFP:
    if (op.out.kind == Kind::F64)
      return unary<double, T>(n, in, out, [](T x) { return double(x); });
    return unary<float, T>(n, in, out, [](T x) { return float(x); });
  case Opcode::UIToFP:
    if (op.out.kind == Kind::F64)
      return unary<double, T>(n, in, out, [&](T x) { return double(u(x)); });
    return unary<float, T>(n, in, out, [&](T x) { return float(u(x)); });
  case Opcode::ExtS:
    if (op.out.kind == Kind::I64)
      return unary<int64_t, T>(n, in, out, [&](T x) {
        return wrap(int64_t(bits == 1 ? -x : x), op.out.bits);
      });
    return unary<int32_t, T>(n, in, out, [&](T x) {
      return wrap(int32_t(bits == 1 ? -x : x), op.out.bits);
    });
  case Opcode::ExtU:
    if (op.out.kind == Kind::I64)
      return unary<int64_t, T>(
          n, in, out, [&](T x) { return wrap(int64_t(u(x)), op.out.bits); });
    return unary<int32_t, T>(
        n, in, out, [&](T x) { return wrap(int32_t(u(x)), op.out.bits); });
  default:
    return;
  }
}

template <typename T>
static void evaluateInteger(const ScalarOp &op, int64_t n,
                            const void *const *in, void *out) {
  switch (op.opcode) {
  case Opcode::AndI:
  case Opcode::OrI:
  case Opcode::XOrI:
  case Opcode::ShLI:
  case Opcode::ShRUI:
  case Opcode::ShRSI:
  case Opcode::CtPop:
  case Opcode::Ctlz:
  case Opcode::Cttz:
    return evaluateBits<T>(op, n, in, out);
  case Opcode::SIToFP:
  case Opcode::UIToFP:
  case Opcode::ExtS:
  case Opcode::ExtU:
    return convertInteger<T>(op, n, in, out);
  case Opcode::CmpI:
    return binary<int32_t, T>(n, in, out, [&](T x, T y) {
      return compare(op.predicate, x, y, op.in.bits);
    });
  default:
    return evaluateArithmetic<T>(op, n, in, out);
  }
}

template <typename T> static bool compareFloat(int64_t predicate, T x, T y) {
  bool unordered = std::isnan(x) || std::isnan(y);
  using P = arith::CmpFPredicate;
  switch (P(predicate)) {
  case P::AlwaysFalse:
    return false;
  case P::AlwaysTrue:
    return true;
  case P::ORD:
    return !unordered;
  case P::UNO:
    return unordered;
  case P::OEQ:
    return x == y;
  case P::UEQ:
    return unordered || x == y;
  case P::ONE:
    return !unordered && x != y;
  case P::UNE:
    return x != y;
  case P::OGT:
    return x > y;
  case P::UGT:
    return unordered || x > y;
  case P::OGE:
    return x >= y;
  case P::UGE:
    return unordered || x >= y;
  case P::OLT:
    return x < y;
  case P::ULT:
    return unordered || x < y;
  case P::OLE:
    return x <= y;
  case P::ULE:
    return unordered || x <= y;
  }
  return false;
}

template <typename I, typename T> static I toInteger(T x) {
  if (std::isnan(x))
    return 0;
  if (x >= T(std::numeric_limits<I>::max()))
    return std::numeric_limits<I>::max();
  if (x <= T(std::numeric_limits<I>::min()))
    return std::numeric_limits<I>::min();
  return I(x);
}

/// With 0 for what is below the normal numbers of f32.
template <typename T> static T flushed(T x) {
  return std::fabs(x) < T(std::numeric_limits<float>::min())
             ? std::copysign(T(0), x)
             : x;
}

template <typename T>
static void multiplyAdd(const ScalarOp &op, int64_t n, const void *const *in,
                        void *out) {
  auto *x = static_cast<const T *>(in[0]), *y = static_cast<const T *>(in[1]),
       *z = static_cast<const T *>(in[2]);
  auto *to = static_cast<T *>(out);
  for (int64_t i = 0; i < n; ++i)
    to[i] = std::fma(op.subtractsProduct ? -x[i] : x[i], y[i],
                     op.subtractsAddend ? -z[i] : z[i]);
}

/// What a library of functions has.
template <typename T>
static void callFunction(const ScalarOp &op, int64_t n, const void *const *in,
                         void *out) {
  auto one = [&](auto f) { unary<T, T>(n, in, out, f); };
  auto two = [&](auto f) { binary<T, T>(n, in, out, f); };
  switch (op.opcode) {
  case Opcode::Exp:
    // By ex2.approx.ftz, as the one below.
    if (sizeof(T) == 4)
      return one([](T x) { return flushed(std::exp(x)); });
    return one([](T x) { return std::exp(x); });
  case Opcode::Exp2:
    if (sizeof(T) == 4)
      return one([](T x) { return flushed(std::exp2(x)); });
    return one([](T x) { return std::exp2(x); });
  case Opcode::ExpM1:
    return one([](T x) { return std::expm1(x); });
  case Opcode::Log:
    return one([](T x) { return std::log(x); });
  case Opcode::Log2:
    return one([](T x) { return std::log2(x); });
  case Opcode::Log10:
    return one([](T x) { return std::log10(x); });
  case Opcode::Log1p:
    return one([](T x) { return std::log1p(x); });
  case Opcode::Sqrt:
    return one([](T x) { return std::sqrt(x); });
  case Opcode::Rsqrt:
    return one([](T x) { return T(1) / std::sqrt(x); });
  case Opcode::Tanh:
    return one([](T x) { return std::tanh(x); });
  case Opcode::Sin:
    return one([](T x) { return std::sin(x); });
  case Opcode::Cos:
    return one([](T x) { return std::cos(x); });
  case Opcode::Tan:
    return one([](T x) { return std::tan(x); });
  case Opcode::Atan:
    return one([](T x) { return std::atan(x); });
  case Opcode::Atan2:
    return two([](T x, T y) { return std::atan2(x, y); });
  case Opcode::Erf:
    return one([](T x) { return std::erf(x); });
  case Opcode::Pow:
    return two([](T x, T y) { return std::pow(x, y); });
  default:
    return;
  }
}

template <typename T>
static void convertFloat(const ScalarOp &op, int64_t n, const void *const *in,
                         void *out) {
  switch (op.opcode) {
  case Opcode::FPToSI:
    if (op.out.kind == Kind::I64)
      return unary<int64_t, T>(n, in, out,
                               [](T x) { return toInteger<int64_t>(x); });
    return unary<int32_t, T>(n, in, out, [&](T x) {
      return wrap(toInteger<int32_t>(x), op.out.bits);
    });
  case Opcode::FPToUI:
    if (op.out.kind == Kind::I64)
      return unary<int64_t, T>(
          n, in, out, [](T x) { return int64_t(toInteger<uint64_t>(x)); });
    return unary<int32_t, T>(n, in, out, [&](T x) {
      return wrap(int32_t(toInteger<uint32_t>(x)), op.out.bits);
    });
  case Opcode::ConvertF:
    if (op.out.kind == Kind::F64)
      return unary<double, T>(n, in, out, [](T x) { return double(x); });
    return unary<float, T>(n, in, out, [](T x) { return float(x); });
  default:
    return;
  }
}

/// The larger or smaller of two; of one NaN, that or the other.
template <typename T>
static void chooseFloat(const ScalarOp &op, int64_t n, const void *const *in,
                        void *out) {
  auto two = [&](auto f) { binary<T, T>(n, in, out, f); };
  switch (op.opcode) {
  case Opcode::MaximumF:
    return two([](T x, T y) {
      return std::isnan(x) || std::isnan(y) ? x + y
             : x == y                       ? (std::signbit(x) ? y : x)
                                            : (x > y ? x : y);
    });
  case Opcode::MinimumF:
    return two([](T x, T y) {
      return std::isnan(x) || std::isnan(y) ? x + y
             : x == y                       ? (std::signbit(x) ? x : y)
                                            : (x < y ? x : y);
    });
  case Opcode::MaxNumF:
    return two([](T x, T y) {
      return std::isnan(x) ? y : std::isnan(y) ? x : x > y ? x : y;
    });
  case Opcode::MinNumF:
    return two([](T x, T y) {
      return std::isnan(x) ? y : std::isnan(y) ? x : x < y ? x : y;
    });
  default:
    return;
  }
}

template <typename T>
static void evaluateFloat(const ScalarOp &op, int64_t n, const void *const *in,
                          void *out) {
  auto one = [&](auto f) { unary<T, T>(n, in, out, f); };
  auto two = [&](auto f) { binary<T, T>(n, in, out, f); };
  switch (op.opcode) {
  case Opcode::AddF:
    return two([](T x, T y) { return x + y; });
  case Opcode::SubF:
    return two([](T x, T y) { return x - y; });
  case Opcode::MulF:
    return two([](T x, T y) { return x * y; });
  case Opcode::DivF:
    if (op.isApproximate)
      return two([](T x, T y) { return x * flushed(T(1) / flushed(y)); });
    return two([](T x, T y) { return x / y; });
  case Opcode::RemF:
    return two([](T x, T y) { return T(std::fmod(x, y)); });
  case Opcode::NegF:
    return one([](T x) { return -x; });
  case Opcode::AbsF:
    return one([](T x) { return std::fabs(x); });
  case Opcode::Floor:
    return one([](T x) { return std::floor(x); });
  case Opcode::Ceil:
    return one([](T x) { return std::ceil(x); });
  case Opcode::Round:
    return one([](T x) { return std::round(x); });
  case Opcode::RoundEven:
    return one([](T x) { return std::nearbyint(x); });
  case Opcode::Trunc:
    return one([](T x) { return std::trunc(x); });
  case Opcode::CopySign:
    return two([](T x, T y) { return std::copysign(x, y); });
  case Opcode::CmpF:
    return binary<int32_t, T>(
        n, in, out, [&](T x, T y) { return compareFloat(op.predicate, x, y); });
  case Opcode::Fma:
    return multiplyAdd<T>(op, n, in, out);
  case Opcode::MaximumF:
  case Opcode::MinimumF:
  case Opcode::MaxNumF:
  case Opcode::MinNumF:
    return chooseFloat<T>(op, n, in, out);
  case Opcode::FPToSI:
  case Opcode::FPToUI:
  case Opcode::ConvertF:
    return convertFloat<T>(op, n, in, out);
  default:
    return callFunction<T>(op, n, in, out);
  }
}

template <typename T>
static void select(int64_t n, const void *const *in, void *out) {
  auto *c = static_cast<const int32_t *>(in[0]);
  auto *x = static_cast<const T *>(in[1]), *y = static_cast<const T *>(in[2]);
  auto *z = static_cast<T *>(out);
  for (int64_t i = 0; i < n; ++i)
    z[i] = c[i] ? x[i] : y[i];
}

/// Between a 16-bit float, which is kept widened, and its bits.
static uint32_t shortBits(float value, Rounding rounding) {
  APFloat number(value);
  bool loses;
  number.convert(rounding == Rounding::BF16 ? APFloat::BFloat()
                                            : APFloat::IEEEhalf(),
                 APFloat::rmNearestTiesToEven, &loses);
  return uint32_t(number.bitcastToAPInt().getZExtValue());
}

static float fromShortBits(uint32_t bits, Rounding rounding) {
  APFloat number(rounding == Rounding::BF16 ? APFloat::BFloat()
                                            : APFloat::IEEEhalf(),
                 APInt(16, bits & 0xffff));
  bool loses;
  number.convert(APFloat::IEEEsingle(), APFloat::rmNearestTiesToEven, &loses);
  return number.convertToFloat();
}

void emulator::evaluate(const ScalarOp &op, int64_t n, const void *const *in,
                        void *out) {
  if (op.opcode == Opcode::Select)
    return op.in.isWide() ? select<int64_t>(n, in, out)
                          : select<int32_t>(n, in, out);
  if (op.opcode == Opcode::Bitcast) {
    if (op.in.isWide())
      std::memcpy(out, in[0], size_t(n) * 8);
    else if (op.in.kind == Kind::F32 && op.in.bits == 16 &&
             op.out.kind == Kind::I32)
      unary<int32_t, float>(n, in, out, [&](float x) {
        return wrap(int32_t(shortBits(x, op.in.rounding)), 16);
      });
    else if (op.out.kind == Kind::F32 && op.out.bits == 16 &&
             op.in.kind == Kind::I32)
      unary<float, int32_t>(n, in, out, [&](int32_t x) {
        return fromShortBits(uint32_t(x), op.out.rounding);
      });
    else
      std::memcpy(out, in[0], size_t(n) * 4);
    return;
  }
  switch (op.in.kind) {
  case Kind::I32:
    evaluateInteger<int32_t>(op, n, in, out);
    break;
  case Kind::I64:
    evaluateInteger<int64_t>(op, n, in, out);
    break;
  case Kind::F32:
    evaluateFloat<float>(op, n, in, out);
    break;
  case Kind::F64:
    evaluateFloat<double>(op, n, in, out);
    break;
  }
  if (op.out.kind == Kind::F32 && op.out.rounding != Rounding::None) {
    auto *z = static_cast<float *>(out);
    for (int64_t i = 0; i < n; ++i)
      z[i] = roundTo(z[i], op.out.rounding);
  }
}
