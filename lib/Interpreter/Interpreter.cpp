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
#include "llvm/ADT/Sequence.h"
#include "llvm/ADT/SmallVectorExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/bit.h"

#include <algorithm>
#include <cmath>

using namespace ::attn;
using namespace mlir;

/// Other compilers make a jump of such a call where they optimize.
#ifdef __clang__
#define ATTN_MUSTTAIL [[clang::musttail]]
#else
#define ATTN_MUSTTAIL
#endif

namespace {
enum Opcode : uint16_t {
#define FLOAT(opcode, operation, value) opcode,
#define TEST(opcode, operation, value) opcode,
#define INT(opcode, operation, value) opcode,
#define CONVERT(opcode, operation) opcode,
#include "Opcodes.def"
  Result, // The result `destination` is register `a`.
  Last,   // So it is, and nothing follows.
  End
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

/// Of what distances tell.
static bool isComparison(Opcode opcode) {
  return llvm::is_contained(
      {CmpF, CmpI, MaximumF, MinimumF, MaxNumF, MinNumF, AbsF}, opcode);
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
  if (isComparison(found->second))
    program.comparisons.push_back(program.instructions[0].size());
  program.instructions[0].push_back(instruction);
  return success();
}

/// A constant may be written as any arithmetic on constants, so what is known
/// without arguments is computed.
void RegionProgram::Compiler::collectConstants(
    Block &block, const std::vector<bool> &isConstant) {
  SmallVector<Scalar, 64> values(program.numRegisters, Scalar::ofInt(0));
  llvm::copy(program.constants, values.begin() + program.numArguments);
  SmallVector<Scalar> results(program.getNumResults());
  program.run(values.data(), results.data(), Precision::F32,
              /*tensors=*/nullptr);
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
    program.instructions[0].back().destination = program.numRegisters++;
  }
  for (Value result : block.back().getOperands()) {
    auto it = compiler.registers.find(result);
    if (it == compiler.registers.end())
      return compiler.reject(block.back(),
                             "reads a value from outside of the region");
    program.resultRegisters.push_back(it->second);
    program.floatResults.push_back(isa<FloatType>(result.getType()));
  }
  program.finishInstructions();
  compiler.collectConstants(block, isConstant);
  return program;
}

void RegionProgram::finishInstructions() {
  numUsualArguments = constants.empty() ? numArguments : mostRegisters;
  auto &[inF64, inF32] = instructions;
  for (auto [i, place] : llvm::enumerate(resultRegisters)) {
    Instruction result = {};
    result.opcode = Result;
    result.destination = i;
    result.a = place;
    inF64.push_back(result);
  }
  if (resultRegisters.empty())
    inF64.push_back({});
  inF64.back().opcode = resultRegisters.empty() ? End : Last;
  inF32 = inF64;
  for (Instruction &in : inF64)
    in.evaluate = in.choose(Precision::F64);
  for (Instruction &in : inF32)
    in.evaluate = in.choose(Precision::F32);
}

void RegionProgram::append(const RegionProgram &other,
                           ArrayRef<uint16_t> arguments, unsigned constant) {
  assert(other.indexRegisters.empty() && "no operands but registers");
  SmallVector<uint16_t> places(arguments.take_front(other.numArguments));
  for (unsigned i = 0; i < other.constants.size(); ++i)
    places.push_back(constant + i);
  for (Instruction in : other.instructions[0]) {
    if (in.opcode >= Result)
      break;
    in.a = places[in.a], in.b = places[in.b], in.c = places[in.c];
    in.destination = numRegisters++;
    places.push_back(in.destination);
    instructions[0].push_back(in);
  }
  for (uint16_t place : other.resultRegisters)
    resultRegisters.push_back(places[place]);
}

RegionProgram RegionProgram::fuse(const RegionProgram &combine,
                                  const RegionProgram &rescale, unsigned size) {
  RegionProgram program;
  program.numArguments = std::max(combine.numArguments, rescale.numArguments);
  program.constants = combine.constants;
  llvm::append_range(program.constants, rescale.constants);
  program.numRegisters = program.numArguments + program.constants.size();
  SmallVector<uint16_t> arguments =
      llvm::to_vector(llvm::seq<uint16_t>(0, program.numArguments));
  program.append(combine, arguments, program.numArguments);
  // Of the second list c becomes the place, of the first a and then b.
  SmallVector<uint16_t> second(arguments);
  llvm::copy(program.resultRegisters, second.begin() + size);
  unsigned constant = program.numArguments + combine.constants.size();
  program.append(rescale, second, constant);
  std::copy_n(arguments.begin() + size, size, second.begin());
  program.append(rescale, second, constant);
  program.finishInstructions();
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

Scalar RegionProgram::Tensors::extract(const Instruction &in,
                                       const Scalar *registers) const {
  SmallVector<int64_t, 4> indices;
  for (uint16_t place : indexRegisters.slice(in.extra, in.b))
    indices.push_back(registers[place].i);
  return read(in.a, indices);
}

/// What instructions do. Floats are rounded to `RoundTo`: F64, not at all; F16,
/// to a half, of which the instruction says which.
template <RegionProgram::Format RoundTo> struct RegionProgram::Arithmetic {
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

  static double rounded(double value, [[maybe_unused]] Format format) {
    if constexpr (RoundTo == Format::F16)
      return format == Format::F16 ? support::roundToF16(value)
                                   : support::roundToBF16(value);
    return RoundTo == Format::F32 ? double(static_cast<float>(value)) : value;
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
          rounded(double(in.operand == Format::I1 ? -x.i : x.i), in.format);
      break;
    case UIToFP:
      result.f =
          rounded(double(zeroExtended(x.i, bitsOf(in.operand))), in.format);
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

// An instruction goes on to the next without a return: no loop around them has
// to keep anything.
#define EVALUATE(opcode)                                                       \
  static void evaluate##opcode(const Instruction *in, Scalar *registers,       \
                               Scalar *results, const Tensors *tensors)
#define NEXT                                                                   \
  ATTN_MUSTTAIL return in[1].evaluate(in + 1, registers, results, tensors)

#define FLOAT(opcode, operation, value)                                        \
  EVALUATE(opcode) {                                                           \
    [[maybe_unused]] double a = registers[in->a].f, b = registers[in->b].f,    \
                            c = registers[in->c].f;                            \
    registers[in->destination].f = rounded(value, in->format);                 \
    NEXT;                                                                      \
  }
#define TEST(opcode, operation, value)                                         \
  EVALUATE(opcode) {                                                           \
    double a = registers[in->a].f;                                             \
    registers[in->destination].i = value;                                      \
    NEXT;                                                                      \
  }
#define INT(opcode, operation, value)                                          \
  EVALUATE(opcode) {                                                           \
    Scalar x = registers[in->a], y = registers[in->b];                         \
    unsigned bits = bitsOf(in->format);                                        \
    /* A one-bit integer is 0 or -1 where signs count. */                      \
    [[maybe_unused]] int64_t a = bits == 1 ? -x.i : x.i,                       \
                             b = bits == 1 ? -y.i : y.i;                       \
    [[maybe_unused]] uint64_t ua = zeroExtended(x.i, bits),                    \
                              ub = zeroExtended(y.i, bits);                    \
    registers[in->destination].i = wrap(static_cast<uint64_t>(value), bits);   \
    NEXT;                                                                      \
  }
#define CONVERT(opcode, operation)
#include "Opcodes.def"

  EVALUATE(Other) {
    Scalar x = registers[in->a], y = registers[in->b], result;
    switch (static_cast<Opcode>(in->opcode)) {
    case FPowI:
      result.f = rounded(std::pow(x.f, double(y.i)), in->format);
      break;
    case Bitcast:
      result = bitcastTo(x, in->operand, in->format);
      break;
    case CmpF:
      result.i = compareFloats(in->extra, x.f, y.f);
      break;
    case CmpI:
      result.i = compare(*in, x, y);
      break;
    case Select:
      result = x.i ? y : registers[in->c];
      break;
    case Extract:
      result = tensors ? tensors->extract(*in, registers) : Scalar::ofInt(0);
      break;
    default:
      result = convert(*in, x);
      break;
    }
    registers[in->destination] = result;
    NEXT;
  }

  EVALUATE(Result) {
    results[in->destination] = registers[in->a];
    NEXT;
  }
  EVALUATE(Last) { results[in->destination] = registers[in->a]; }
  EVALUATE(End) {}
#undef EVALUATE
#undef NEXT
};

template <RegionProgram::Format RoundTo>
RegionProgram::Evaluate RegionProgram::Instruction::choose() const {
  using A = Arithmetic<RoundTo>;
  static constexpr Evaluate all[] = {
#define FLOAT(opcode, operation, value) A::evaluate##opcode,
#define TEST(opcode, operation, value) A::evaluate##opcode,
#define INT(opcode, operation, value) A::evaluate##opcode,
#define CONVERT(opcode, operation) A::evaluateOther,
#include "Opcodes.def"
      A::evaluateResult, A::evaluateLast, A::evaluateEnd};
  return all[opcode];
}

RegionProgram::Evaluate
RegionProgram::Instruction::choose(Precision precision) const {
  if (format == Format::F16 || format == Format::BF16)
    return choose<Format::F16>();
  return precision == Precision::F32 && format == Format::F32
             ? choose<Format::F32>()
             : choose<Format::F64>();
}

/// Every value has a register of its own, which it keeps.
void RegionProgram::appendDistances(const Scalar *registers,
                                    SmallVectorImpl<double> &distances) const {
  for (uint16_t place : comparisons) {
    const Instruction &in = instructions[0][place];
    Scalar x = registers[in.a], y = registers[in.b];
    if (in.opcode == AbsF) {
      distances.push_back(x.f);
    } else if (in.opcode == CmpI) {
      bool isUnsigned = in.extra >= uint16_t(arith::CmpIPredicate::ult);
      bool is32 = in.operand == Format::I32;
      distances.push_back(isUnsigned && is32
                              ? double(uint32_t(x.i)) - double(uint32_t(y.i))
                              : double(x.i) - double(y.i));
    } else {
      distances.push_back(x.f - y.f);
    }
  }
}

void RegionProgram::evaluate(ArrayRef<Scalar> arguments,
                             SmallVectorImpl<Scalar> &results,
                             Precision precision, ReadTensor read,
                             SmallVectorImpl<double> *distances) const {
  assert(arguments.size() >= numArguments && "one scalar for each argument");
  SmallVector<Scalar, 64> registers;
  registers.resize_for_overwrite(numRegisters);
  // What is too many is ignored.
  llvm::copy(constants,
             std::copy_n(arguments.begin(), numArguments, registers.begin()));
  results.resize_for_overwrite(getNumResults());
  Tensors tensors = {read, indexRegisters};
  run(registers.data(), results.data(), precision, read ? &tensors : nullptr);
  if (distances)
    appendDistances(registers.data(), *distances);
}

std::optional<SmallVector<Scalar, 8>>
RegionProgram::getConstantResults() const {
  bool usesArguments = llvm::any_of(
      resultRegisters, [&](unsigned place) { return place < numArguments; });
  bool usesOperations = instructions[0].front().opcode < Result;
  if (usesOperations || usesArguments)
    return std::nullopt;
  return llvm::map_to_vector<8>(resultRegisters, [&](unsigned place) {
    return constants[place - numArguments];
  });
}
