//===- Interpreter.cpp - Evaluates regions on scalars ---------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Interpreter/Interpreter.h"
#include "attn/Support/Float16.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Operation.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVectorExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/bit.h"

#include <algorithm>
#include <cmath>

using namespace ::attn;
using namespace mlir;

namespace {
enum Opcode : uint16_t {
#define FLOAT(opcode, operation, value) opcode,
#define TEST(opcode, operation, value) opcode,
#define INT(opcode, operation, value) opcode,
#define CONVERT(opcode, operation) opcode,
#include "Opcodes.def"
};

/// The result of an operation that defines none (division by zero, a shift by
/// too much) is 0: the same on every run, and no trap.
enum class Rounding { Truncate, Floor, Ceil };
} // namespace

static uint64_t divide(int64_t a, int64_t b, Rounding rounding) {
  if (b == 0)
    return 0;
  if (b == -1)
    return uint64_t(0) - uint64_t(a);
  int64_t quotient = a / b;
  if (a % b != 0) {
    bool positive = (a < 0) == (b < 0);
    if (rounding == Rounding::Floor && !positive)
      --quotient;
    if (rounding == Rounding::Ceil && positive)
      ++quotient;
  }
  return quotient;
}

static uint64_t integerPower(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 1)
      return 1;
    return base == -1 ? (exponent % 2 ? -1 : 1) : 0;
  }
  uint64_t result = 1, factor = base;
  for (uint64_t e = exponent; e; e >>= 1) {
    if (e & 1)
      result *= factor;
    factor *= factor;
  }
  return result;
}

/// The larger; NaN where either is; +0 before -0.
static double maximum(double a, double b) {
  if (std::isnan(a) || std::isnan(b))
    return a + b;
  if (a == b)
    return std::signbit(a) ? b : a;
  return a > b ? a : b;
}

static const llvm::StringMap<Opcode> &getOpcodes() {
  static const llvm::StringMap<Opcode> opcodes = {
#define FLOAT(opcode, operation, value) {operation, opcode},
#define TEST(opcode, operation, value) {operation, opcode},
#define INT(opcode, operation, value) {operation, opcode},
#define CONVERT(opcode, operation) {operation, opcode},
#include "Opcodes.def"
  };
  return opcodes;
}

//===----------------------------------------------------------------------===//
// Compilation
//===----------------------------------------------------------------------===//

llvm::FailureOr<RegionProgram::Format> RegionProgram::getFormat(Type type) {
  if (type.isF64())
    return Format::F64;
  if (type.isF32())
    return Format::F32;
  if (type.isF16())
    return Format::F16;
  if (type.isBF16())
    return Format::BF16;
  if (type.isIndex())
    return Format::I64;
  if (auto integer = dyn_cast<IntegerType>(type)) {
    switch (integer.getWidth()) {
    case 1:
      return Format::I1;
    case 8:
      return Format::I8;
    case 16:
      return Format::I16;
    case 32:
      return Format::I32;
    case 64:
      return Format::I64;
    }
  }
  return failure();
}

struct RegionProgram::Compiler {
  RegionProgram program;
  llvm::DenseMap<Value, uint16_t> registers;

  LogicalResult addOperation(Operation &op);
  void collectConstants(Block &block, const std::vector<bool> &isConstant);
  LogicalResult reject(Operation &op, StringRef why) {
    return op.emitError("expected an operation that regions may hold, but '")
           << op.getName() << "' " << why;
  }
};

LogicalResult RegionProgram::Compiler::addOperation(Operation &op) {
  auto found = getOpcodes().find(op.getName().getStringRef());
  if (found == getOpcodes().end() || op.getNumResults() != 1)
    return reject(op, "cannot be evaluated");
  Instruction instruction = {};
  instruction.opcode = found->second;
  FailureOr<Format> result = getFormat(op.getResult(0).getType());
  if (failed(result))
    return reject(op, "has a result of a type that cannot be evaluated");
  instruction.format = *result;

  uint16_t *slots[] = {&instruction.a, &instruction.b, &instruction.c};
  bool isExtract = found->second == Extract;
  for (auto [i, operand] : llvm::enumerate(op.getOperands())) {
    auto it = registers.find(operand);
    if (it == registers.end())
      return reject(op, "reads a value from outside of the region");
    if (isExtract && i > 0) {
      program.indexRegisters.push_back(it->second);
      continue;
    }
    if (i >= 3)
      return reject(op, "cannot be evaluated");
    *slots[i] = it->second;
  }
  if (isExtract) {
    assert(isa<BlockArgument>(op.getOperand(0)) && "no result is a tensor");
    instruction.b = op.getNumOperands() - 1;
    instruction.extra = program.indexRegisters.size() - instruction.b;
  } else {
    // Comparisons follow the type of what they compare.
    FailureOr<Format> operand = getFormat(op.getOperand(0).getType());
    if (failed(operand))
      return reject(op, "has an operand of a type that cannot be evaluated");
    instruction.operand = *operand;
    if (auto compare = dyn_cast<arith::CmpFOp>(op))
      instruction.extra = static_cast<uint16_t>(compare.getPredicate());
    if (auto compare = dyn_cast<arith::CmpIOp>(op))
      instruction.extra = static_cast<uint16_t>(compare.getPredicate());
  }
  program.instructions.push_back(instruction);
  return success();
}

/// A constant may be written as any arithmetic on constants, so what is known
/// without arguments is computed.
void RegionProgram::Compiler::collectConstants(
    Block &block, const std::vector<bool> &isConstant) {
  SmallVector<Scalar, 64> values(program.numRegisters, Scalar::ofInt(0));
  llvm::copy(program.constants, values.begin() + program.numArguments);
  program.run</*RoundEach=*/true>(values, /*read=*/nullptr);
  bool castsBits = llvm::any_of(
      block, [](Operation &op) { return isa<arith::BitcastOp>(op); });
  for (Operation &op : block.without_terminator()) {
    unsigned place = registers[op.getResult(0)];
    if (!isConstant[place])
      continue;
    Type type = op.getResult(0).getType();
    Scalar value = values[place];
    if (isa<FloatType>(type)) {
      program.floatConstants.push_back(value.f);
      continue;
    }
    program.integerConstants.push_back(value.i);
    if (castsBits && type.isInteger(32))
      program.floatConstants.push_back(
          support::bitCast<float>(static_cast<uint32_t>(value.i)));
  }
}

FailureOr<RegionProgram> RegionProgram::compile(Region &region) {
  Compiler compiler;
  RegionProgram &program = compiler.program;
  if (!region.hasOneBlock())
    return region.getParentOp()->emitError(
        "expected a region of one block to evaluate");
  Block &block = region.front();
  program.numArguments = block.getNumArguments();
  constexpr size_t maxRegisters = 60000;
  if (block.getNumArguments() + block.getOperations().size() > maxRegisters)
    return region.getParentOp()->emitError("expected a region of at most ")
           << maxRegisters << " operations";
  for (BlockArgument argument : block.getArguments()) {
    compiler.registers[argument] = program.numRegisters++;
    program.floatArguments.push_back(isa<FloatType>(argument.getType()));
  }

  for (Operation &op : block.without_terminator()) {
    auto constant = dyn_cast<arith::ConstantOp>(op);
    if (!constant)
      continue;
    Scalar value;
    if (auto attr = dyn_cast<FloatAttr>(constant.getValue())) {
      value.f = attr.getValueAsDouble();
    } else if (auto attr = dyn_cast<IntegerAttr>(constant.getValue())) {
      value.i = attr.getType().isInteger(1)
                    ? int64_t(attr.getValue().getZExtValue())
                    : attr.getValue().getSExtValue();
    } else {
      return compiler.reject(op, "is not a scalar");
    }
    program.constants.push_back(value);
    compiler.registers[constant] = program.numRegisters++;
  }
  std::vector<bool> isConstant(program.numArguments, false);
  isConstant.resize(program.numRegisters, true);
  for (Operation &op : block.without_terminator()) {
    if (isa<arith::ConstantOp>(op))
      continue;
    if (failed(compiler.addOperation(op)))
      return failure();
    isConstant.push_back(llvm::all_of(op.getOperands(), [&](Value operand) {
      return isConstant[compiler.registers[operand]];
    }));
    compiler.registers[op.getResult(0)] = program.numRegisters;
    program.instructions.back().destination = program.numRegisters++;
  }
  compiler.collectConstants(block, isConstant);
  for (Value result : block.back().getOperands()) {
    auto it = compiler.registers.find(result);
    if (it == compiler.registers.end())
      return compiler.reject(block.back(),
                             "reads a value from outside of the region");
    program.resultRegisters.push_back(it->second);
    program.floatResults.push_back(isa<FloatType>(result.getType()));
  }
  return program;
}

//===----------------------------------------------------------------------===//
// Evaluation
//===----------------------------------------------------------------------===//

static bool compareFloats(uint16_t predicate, double a, double b) {
  bool unordered = std::isnan(a) || std::isnan(b);
  switch (static_cast<arith::CmpFPredicate>(predicate)) {
  case arith::CmpFPredicate::AlwaysFalse:
    return false;
  case arith::CmpFPredicate::OEQ:
    return a == b;
  case arith::CmpFPredicate::OGT:
    return a > b;
  case arith::CmpFPredicate::OGE:
    return a >= b;
  case arith::CmpFPredicate::OLT:
    return a < b;
  case arith::CmpFPredicate::OLE:
    return a <= b;
  case arith::CmpFPredicate::ONE:
    return !unordered && a != b;
  case arith::CmpFPredicate::ORD:
    return !unordered;
  case arith::CmpFPredicate::UEQ:
    return unordered || a == b;
  case arith::CmpFPredicate::UGT:
    return unordered || a > b;
  case arith::CmpFPredicate::UGE:
    return unordered || a >= b;
  case arith::CmpFPredicate::ULT:
    return unordered || a < b;
  case arith::CmpFPredicate::ULE:
    return unordered || a <= b;
  case arith::CmpFPredicate::UNE:
    return unordered || a != b;
  case arith::CmpFPredicate::UNO:
    return unordered;
  case arith::CmpFPredicate::AlwaysTrue:
    return true;
  }
  return false;
}

static bool compareIntegers(uint16_t predicate, int64_t a, int64_t b,
                            uint64_t ua, uint64_t ub) {
  switch (static_cast<arith::CmpIPredicate>(predicate)) {
  case arith::CmpIPredicate::eq:
    return ua == ub;
  case arith::CmpIPredicate::ne:
    return ua != ub;
  case arith::CmpIPredicate::slt:
    return a < b;
  case arith::CmpIPredicate::sle:
    return a <= b;
  case arith::CmpIPredicate::sgt:
    return a > b;
  case arith::CmpIPredicate::sge:
    return a >= b;
  case arith::CmpIPredicate::ult:
    return ua < ub;
  case arith::CmpIPredicate::ule:
    return ua <= ub;
  case arith::CmpIPredicate::ugt:
    return ua > ub;
  case arith::CmpIPredicate::uge:
    return ua >= ub;
  }
  return false;
}

/// A float to integer conversion, saturating; 0 for NaN.
static int64_t toInteger(double value, double low, double high) {
  if (std::isnan(value))
    return 0;
  value = std::trunc(value);
  if (value < low)
    value = low;
  if (value >= high)
    return high >= 0x1p64 ? -1 : int64_t(uint64_t(high) - 1);
  return value < 0 ? int64_t(value) : int64_t(uint64_t(value));
}

/// What instructions do beside one operation of C++: numbers in other formats.
template <bool RoundEach> struct RegionProgram::Arithmetic {
  static unsigned bitsOf(Format format) {
    constexpr unsigned bits[] = {64, 32, 16, 16, 1, 8, 16, 32, 64};
    return bits[static_cast<unsigned>(format)];
  }

  static uint64_t zeroExtended(int64_t value, unsigned bits) {
    return bits == 64 ? uint64_t(value)
                      : uint64_t(value) & ((uint64_t(1) << bits) - 1);
  }

  static int64_t wrap(uint64_t value, unsigned bits) {
    if (bits == 1)
      return value & 1;
    return int64_t(value << (64 - bits)) >> (64 - bits);
  }

  static double roundTo(double value, Format format) {
    if (RoundEach && format == Format::F32)
      return static_cast<float>(value);
    return format <= Format::F32 ? value : roundToHalf(value, format);
  }
  LLVM_ATTRIBUTE_NOINLINE static double roundToHalf(double value,
                                                    Format format) {
    return format == Format::F16 ? support::roundToF16(value)
                                 : support::roundToBF16(value);
  }

  /// The bits of one format as another.
  static Scalar bitcastTo(Scalar x, Format from, Format to) {
    using support::bitCast;
    uint64_t bits = x.i;
    if (from == Format::F64)
      bits = bitCast<uint64_t>(x.f);
    else if (from == Format::F32)
      bits = bitCast<uint32_t>(float(x.f));
    else if (from == Format::F16)
      bits = support::doubleToF16(x.f);
    else if (from == Format::BF16)
      bits = support::doubleToBF16(x.f);
    Scalar result;
    if (to == Format::F64)
      result.f = bitCast<double>(bits);
    else if (to == Format::F32)
      result.f = bitCast<float>(uint32_t(bits));
    else if (to == Format::F16)
      result.f = support::f16ToFloat(uint16_t(bits));
    else if (to == Format::BF16)
      result.f = support::bf16ToFloat(uint16_t(bits));
    else
      result.i = wrap(bits, bitsOf(to));
    return result;
  }

  /// An integer of one width as one of another, or as a float, or the other way
  /// round.
  static Scalar convert(const Instruction &in, Scalar x) {
    unsigned bits = bitsOf(in.format);
    Scalar result;
    switch (static_cast<Opcode>(in.opcode)) {
    case SIToFP:
      result.f =
          roundTo(double(in.operand == Format::I1 ? -x.i : x.i), in.format);
      break;
    case UIToFP:
      result.f =
          roundTo(double(zeroExtended(x.i, bitsOf(in.operand))), in.format);
      break;
    case FPToSI:
      result.i = wrap(
          toInteger(x.f, -std::ldexp(1.0, bits - 1), std::ldexp(1.0, bits - 1)),
          bits);
      break;
    case FPToUI:
      result.i = wrap(toInteger(x.f, 0.0, std::ldexp(1.0, bits)), bits);
      break;
    case ExtSI:
    case IndexCast:
      result.i = wrap(in.operand == Format::I1 ? -x.i : x.i, bits);
      break;
    case ExtUI:
    case IndexCastUI:
      result.i = wrap(zeroExtended(x.i, bitsOf(in.operand)), bits);
      break;
    case TruncI:
      result.i = wrap(x.i, bits);
      break;
    default:
      llvm_unreachable("no conversion");
    }
    return result;
  }

  /// Truths of two integers; a one-bit integer is 0 or -1 where signs count.
  static bool compare(const Instruction &in, Scalar x, Scalar y) {
    unsigned bits = bitsOf(in.operand);
    return compareIntegers(in.extra, bits == 1 ? -x.i : x.i,
                           bits == 1 ? -y.i : y.i, zeroExtended(x.i, bits),
                           zeroExtended(y.i, bits));
  }
};

template <bool RoundEach>
void RegionProgram::run(MutableArrayRef<Scalar> registers,
                        ReadTensor read) const {
  using A = Arithmetic<RoundEach>;
  for (const Instruction &in : instructions) {
    Scalar result;
    Scalar &x = registers[in.a], &y = registers[in.b], &z = registers[in.c];
    switch (static_cast<Opcode>(in.opcode)) {
#define FLOAT(opcode, operation, value)                                        \
  case opcode: {                                                               \
    [[maybe_unused]] double a = x.f, b = y.f, c = z.f;                         \
    result.f = A::roundTo(value, in.format);                                   \
    break;                                                                     \
  }
#define TEST(opcode, operation, value)                                         \
  case opcode: {                                                               \
    double a = x.f;                                                            \
    result.i = value;                                                          \
    break;                                                                     \
  }
#define INT(opcode, operation, value)                                          \
  case opcode: {                                                               \
    unsigned bits = A::bitsOf(in.format);                                      \
    /* A one-bit integer is 0 or -1 where signs count. */                      \
    [[maybe_unused]] int64_t a = bits == 1 ? -x.i : x.i,                       \
                             b = bits == 1 ? -y.i : y.i;                       \
    [[maybe_unused]] uint64_t ua = A::zeroExtended(x.i, bits),                 \
                              ub = A::zeroExtended(y.i, bits);                 \
    result.i = A::wrap(static_cast<uint64_t>(value), bits);                    \
    break;                                                                     \
  }
#define CONVERT(opcode, operation)
#include "Opcodes.def"
    case FPowI:
      result.f = A::roundTo(std::pow(x.f, double(y.i)), in.format);
      break;
    case SIToFP:
    case UIToFP:
    case FPToSI:
    case FPToUI:
    case ExtSI:
    case IndexCast:
    case ExtUI:
    case IndexCastUI:
    case TruncI:
      result = A::convert(in, x);
      break;
    case Bitcast:
      result = A::bitcastTo(x, in.operand, in.format);
      break;
    case CmpF:
      result.i = compareFloats(in.extra, x.f, y.f);
      break;
    case CmpI:
      result.i = A::compare(in, x, y);
      break;
    case Select:
      result = x.i ? y : z;
      break;
    case Extract: {
      SmallVector<int64_t, 4> indices;
      for (unsigned i = 0; i < in.b; ++i)
        indices.push_back(registers[indexRegisters[in.extra + i]].i);
      result = read ? read(in.a, indices) : Scalar::ofInt(0);
      break;
    }
    }
    registers[in.destination] = result;
  }
}

/// Every value has a register of its own, which it keeps.
void RegionProgram::appendDistances(ArrayRef<Scalar> registers,
                                    SmallVectorImpl<double> &distances) const {
  for (const Instruction &in : instructions) {
    Scalar x = registers[in.a], y = registers[in.b];
    switch (static_cast<Opcode>(in.opcode)) {
    case CmpF:
    case MaximumF:
    case MinimumF:
    case MaxNumF:
    case MinNumF:
      distances.push_back(x.f - y.f);
      break;
    case AbsF:
      distances.push_back(x.f);
      break;
    case CmpI: {
      bool isUnsigned = in.extra >= uint16_t(arith::CmpIPredicate::ult);
      bool is32 = in.operand == Format::I32;
      distances.push_back(isUnsigned && is32
                              ? double(uint32_t(x.i)) - double(uint32_t(y.i))
                              : double(x.i) - double(y.i));
      break;
    }
    default:
      break;
    }
  }
}

void RegionProgram::evaluate(ArrayRef<Scalar> arguments,
                             SmallVectorImpl<Scalar> &results,
                             Precision precision, ReadTensor read,
                             SmallVectorImpl<double> *distances) const {
  assert(arguments.size() >= numArguments && "one scalar for each argument");
  Registers registers = makeRegisters();
  // What is too many is ignored.
  std::copy_n(arguments.begin(), numArguments, registers.begin());
  evaluateOn(registers, precision, read, distances);
  results.resize_for_overwrite(resultRegisters.size());
  for (unsigned i = 0; i < results.size(); ++i)
    results[i] = getResult(registers, i);
}

std::optional<SmallVector<Scalar, 8>>
RegionProgram::getConstantResults() const {
  bool usesArguments = llvm::any_of(
      resultRegisters, [&](unsigned place) { return place < numArguments; });
  if (!instructions.empty() || usesArguments)
    return std::nullopt;
  return llvm::map_to_vector<8>(resultRegisters, [&](unsigned place) {
    return constants[place - numArguments];
  });
}
