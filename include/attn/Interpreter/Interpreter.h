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

#include <array>
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

  /// One program for c = combine(a, b), rescale(a, c) and rescale(b, c), where
  /// a, b and c are of `size` numbers.
  static RegionProgram fuse(const RegionProgram &combine,
                            const RegionProgram &rescale, unsigned size);

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

  /// The same, quicker, on arguments in lists, of which `c` may be left out.
  /// There are few enough registers, and no tensors.
  void evaluateFew(llvm::ArrayRef<Scalar> a, llvm::ArrayRef<Scalar> b,
                   llvm::ArrayRef<Scalar> c, Scalar *results,
                   Precision precision,
                   llvm::SmallVectorImpl<double> *distances = nullptr) const {
    Scalar registers[mostRegisters];
    Scalar *next = copyFew(b, copyFew(a, registers));
    if (next != registers + numUsualArguments) {
      if (next != registers + numArguments)
        next = copyFew(c, next);
      assert(next == registers + numArguments &&
             "one scalar for each argument");
      copyFew(constants, next);
    }
    run(registers, results, precision, /*tensors=*/nullptr);
    if (distances)
      appendDistances(registers, *distances);
  }
  bool hasFewRegisters() const { return numRegisters <= mostRegisters; }

  /// The results of a region that is nothing but constants: no arguments change
  /// them, and no precision does.
  std::optional<llvm::SmallVector<Scalar, 8>> getConstantResults() const;

private:
  static constexpr unsigned mostRegisters = 64;

  /// Which arithmetic an instruction follows: the width of an integer, or the
  /// format that a float is rounded to.
  enum class Format : uint8_t { F64, F32, F16, BF16, I1, I8, I16, I32, I64 };

  struct Instruction;
  /// What instructions read elements of tensors with; without it they are 0.
  struct Tensors {
    ReadTensor read;
    llvm::ArrayRef<uint16_t> indexRegisters;
    Scalar extract(const Instruction &in, const Scalar *registers) const;
  };
  /// Evaluates an instruction and all that follow it.
  using Evaluate = void (*)(const Instruction *in, Scalar *registers,
                            Scalar *results, const Tensors *tensors);
  struct Instruction {
    Evaluate evaluate;
    uint16_t opcode;
    Format format;  ///< Of the result; of the operands for comparisons.
    Format operand; ///< Of the operand, for conversions.
    uint16_t destination;
    uint16_t a, b, c;
    uint16_t extra; ///< A predicate, or the first entry of `indexRegisters`.

    template <Format RoundTo> Evaluate choose() const;
    Evaluate choose(Precision precision) const;
  };

  /// Gives where the next one goes. They are few: one by one is quicker than
  /// the copies of memory or of vectors that compilers make of such a loop.
  static Scalar *copyFew(llvm::ArrayRef<Scalar> from, Scalar *to) {
    const volatile Scalar *next = from.begin();
#ifdef __clang__
#pragma clang loop unroll(disable)
#endif
    for (; next != from.end(); ++next)
      (to++)->i = next->i;
    return to;
  }

  struct Compiler;
  /// Appends another's operations and results; `arguments` are the registers
  /// that it reads as such, and its constants are from `constant` on.
  void append(const RegionProgram &other, llvm::ArrayRef<uint16_t> arguments,
              unsigned constant);
  void finishInstructions();
  template <Format RoundTo> struct Arithmetic;
  void run(Scalar *registers, Scalar *results, Precision precision,
           const Tensors *tensors) const {
    const Instruction *first = instructions[unsigned(precision)].data();
    first->evaluate(first, registers, results, tensors);
  }
  void appendDistances(const Scalar *registers,
                       llvm::SmallVectorImpl<double> &distances) const;
  static llvm::FailureOr<Format> getFormat(mlir::Type type);
  static bool isFloat(Format format) { return format <= Format::BF16; }

  unsigned numArguments = 0;
  /// The same where there are no constants; else more than there can be.
  unsigned numUsualArguments = 0;
  /// Registers: arguments, then constants, then results of instructions.
  unsigned numRegisters = 0;
  std::vector<Scalar> constants;
  /// For either precision. Behind those of the region one for each result, and
  /// one that ends the evaluation.
  std::array<std::vector<Instruction>, 2> instructions;
  /// Comparisons among the instructions.
  std::vector<uint16_t> comparisons;
  std::vector<uint16_t> indexRegisters, resultRegisters;
  std::vector<double> floatConstants;
  std::vector<int64_t> integerConstants;
  std::vector<bool> floatArguments, floatResults;
};

} // namespace attn

#endif // ATTN_INTERPRETER_INTERPRETER_H
