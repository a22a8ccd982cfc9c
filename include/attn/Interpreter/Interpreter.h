//===- Interpreter.h - Evaluates regions on scalars -------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The regions of monoids and reductions are single blocks of `arith`, `math`
// and `tensor.extract`. A RegionProgram is such a block as a flat list of
// register instructions: compiled once, evaluated many times. The law checks
// and the reference interpreter are written on it; it shares nothing with the
// code generator, so that each can be checked against the other.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_INTERPRETER_INTERPRETER_H
#define ATTN_INTERPRETER_INTERPRETER_H

#include "mlir/IR/Region.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace attn {

/// How floating-point operations round.
enum class Precision : uint8_t {
  /// f32 and f64 in float64, the arithmetic that the text of a region means.
  /// f16 and bf16 are in the text to round, and do.
  F64,
  /// After each operation to the operation's own type.
  F32
};

/// A float of any type, or an integer or index, sign extended (i1: 0 or 1).
union Scalar {
  double f;
  int64_t i;

  static Scalar ofFloat(double value) {
    Scalar scalar;
    scalar.f = value;
    return scalar;
  }
  static Scalar ofInt(int64_t value) {
    Scalar scalar;
    scalar.i = value;
    return scalar;
  }
};

class RegionProgram {
public:
  /// Gives the element of the tensor that block argument `argument` stands
  /// for. The indices may be out of bounds.
  using ReadTensor = llvm::function_ref<Scalar(
      unsigned argument, llvm::ArrayRef<int64_t> indices)>;

  /// Compiles the one block of `region`. Reports the operation that cannot be
  /// evaluated, if any. The region may be erased afterwards.
  static llvm::FailureOr<RegionProgram> compile(mlir::Region &region);

  unsigned getNumArguments() const { return numArguments; }
  unsigned getNumResults() const { return resultRegisters.size(); }
  bool isFloatArgument(unsigned i) const { return floatArguments[i]; }
  bool isFloatResult(unsigned i) const { return floatResults[i]; }
  /// The float constants of the region and whatever it computes from constants
  /// alone, the floats of their bits where it casts bits included.
  llvm::ArrayRef<double> getFloatConstants() const { return floatConstants; }
  /// The same of integers.
  llvm::ArrayRef<int64_t> getIntegerConstants() const {
    return integerConstants;
  }

  /// Evaluates on one scalar per block argument (what stands for a tensor is
  /// ignored). `distances`, where given, is appended the difference of the two
  /// sides of each comparison: where it changes its sign, the comparison turns.
  void evaluate(llvm::ArrayRef<Scalar> arguments,
                llvm::SmallVectorImpl<Scalar> &results,
                Precision precision = Precision::F64, ReadTensor read = nullptr,
                llvm::SmallVectorImpl<double> *distances = nullptr) const;

  /// The same on registers, which hold the results afterwards: the arguments,
  /// that a caller sets, and behind them the constants.
  using Registers = llvm::SmallVector<Scalar, 64>;
  Registers makeRegisters() const {
    Registers registers;
    registers.resize_for_overwrite(numRegisters);
    // They are few: a loop is quicker than a copy of memory.
    Scalar *next = registers.data() + numArguments;
    for (Scalar constant : constants)
      *next++ = constant;
    return registers;
  }
  void evaluateOn(llvm::MutableArrayRef<Scalar> registers, Precision precision,
                  ReadTensor read = nullptr,
                  llvm::SmallVectorImpl<double> *distances = nullptr) const {
    if (precision == Precision::F32)
      run</*RoundEach=*/true>(registers, read);
    else
      run</*RoundEach=*/false>(registers, read);
    if (distances)
      appendDistances(registers, *distances);
  }
  Scalar getResult(llvm::ArrayRef<Scalar> registers, unsigned i) const {
    return registers[resultRegisters[i]];
  }

  /// The results of a region that is nothing but constants: no arguments change
  /// them, and no precision does.
  std::optional<llvm::SmallVector<Scalar, 8>> getConstantResults() const;

private:
  /// Which arithmetic an instruction follows: the width of an integer, or the
  /// format that a float is rounded to.
  enum class Format : uint8_t { F64, F32, F16, BF16, I1, I8, I16, I32, I64 };

  struct Instruction {
    uint16_t opcode;
    Format format;  ///< Of the result; of the operands for comparisons.
    Format operand; ///< Of the operand, for conversions.
    uint16_t destination;
    uint16_t a, b, c;
    uint16_t extra; ///< A predicate, or the first entry of `indexRegisters`.
  };

  struct Compiler;
  template <bool RoundEach> struct Arithmetic;
  template <bool RoundEach>
  void run(llvm::MutableArrayRef<Scalar> registers, ReadTensor read) const;
  void appendDistances(llvm::ArrayRef<Scalar> registers,
                       llvm::SmallVectorImpl<double> &distances) const;
  static llvm::FailureOr<Format> getFormat(mlir::Type type);
  static bool isFloat(Format format) { return format <= Format::BF16; }

  unsigned numArguments = 0;
  /// Registers: arguments, then constants, then results of instructions.
  unsigned numRegisters = 0;
  std::vector<Scalar> constants;
  std::vector<Instruction> instructions;
  std::vector<uint16_t> indexRegisters, resultRegisters;
  std::vector<double> floatConstants;
  std::vector<int64_t> integerConstants;
  std::vector<bool> floatArguments, floatResults;
};

} // namespace attn

#endif // ATTN_INTERPRETER_INTERPRETER_H
