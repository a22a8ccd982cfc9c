//===- Emitter.h - Straight-line LLVM dialect for one thread ----*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A builder of scalar code. Integer arithmetic on constants is folded as it is
// built: most of a fragment's index arithmetic is known here, and what is never
// made need not be cleaned up.
//
// Addresses in shared memory are i32, and every access to it is volatile inline
// assembly, so that accesses keep their order among each other and around the
// barriers, which are assembly too.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_TILEGPUTONVVM_EMITTER_H
#define ATTN_LIB_CONVERSION_TILEGPUTONVVM_EMITTER_H

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/DenseMap.h"

namespace attn::gpu {

using mlir::Type;
using mlir::Value;
using mlir::ValueRange;
using Values = llvm::SmallVector<Value, 1>;

class Emitter {
public:
  explicit Emitter(mlir::MLIRContext *context);

  /// Starts a function body; constants go to the head of its entry block.
  void setEntry(mlir::Block *entry);

  mlir::OpBuilder b;
  mlir::Location loc;
  Type i1, i8, i16, i32, i64, f16, bf16, f32, f64, global, generic;

  // Constants.
  Value constant(Type type, int64_t value);
  Value c32(int64_t value) { return constant(i32, value); }
  Value c64(int64_t value) { return constant(i64, value); }
  Value truth(bool value) { return constant(i1, value); }
  Value floating(Type type, llvm::APFloat value);
  Value cf(float value);
  std::optional<int64_t> constantOf(Value value) const;

  // Integers of one type.
  Value add(Value x, Value y);
  Value sub(Value x, Value y);
  Value mul(Value x, Value y);
  Value mul(Value x, int64_t y) { return mul(x, constant(x.getType(), y)); }
  Value add(Value x, int64_t y) { return add(x, constant(x.getType(), y)); }
  Value and_(Value x, int64_t mask);
  Value and_(Value x, Value y);
  Value or_(Value x, Value y);
  Value xor_(Value x, Value y);
  Value shl(Value x, int64_t bits);
  Value lshr(Value x, int64_t bits);
  /// Of numbers that are not negative.
  Value udiv(Value x, Value y);
  Value urem(Value x, Value y);
  Value udiv(Value x, int64_t y) { return udiv(x, constant(x.getType(), y)); }
  Value urem(Value x, int64_t y) { return urem(x, constant(x.getType(), y)); }
  Value icmp(mlir::LLVM::ICmpPredicate predicate, Value x, Value y);
  Value eq(Value x, int64_t y);
  Value lt(Value x, Value y) {
    return icmp(mlir::LLVM::ICmpPredicate::slt, x, y);
  }
  Value select(Value condition, Value x, Value y);
  Value sext64(Value x);
  Value zext64(Value x);
  Value trunc32(Value x);
  Value bitcast(Value x, Type type);

  // Floating point.
  Value fmul(Value x, Value y);
  Value fadd(Value x, Value y);
  Value fsub(Value x, Value y);
  Value fma(Value x, Value y, Value z);
  Value fcmp(mlir::LLVM::FCmpPredicate predicate, Value x, Value y);
  /// Two f32 rounded to a register of two 16-bit floats, `low` in the low half.
  Value pack(Value low, Value high, Type element);
  /// Half 0 or 1 of a register of two 16-bit floats.
  Value unpack(Value packed, int64_t half, Type element);
  /// The bits of an f32 rounded to tf32: to nearest, ties away from zero.
  Value roundTf32(Value x);
  /// 16-bit float to f32.
  Value widen(Value x);

  Value call(llvm::StringRef intrinsic, Type result, ValueRange arguments);
  void call(llvm::StringRef intrinsic, ValueRange arguments);

  /// Inline assembly; volatile unless said otherwise.
  Values assembly(const llvm::Twine &text, llvm::StringRef constraints,
                  ValueRange inputs, mlir::TypeRange results,
                  bool isVolatile = true);
  void assembly(const llvm::Twine &text, llvm::StringRef constraints,
                ValueRange inputs) {
    assembly(text, constraints, inputs, mlir::TypeRange());
  }

  // Global memory.
  Value element(Value pointer, Value index, Type type);
  Value load(Type type, Value pointer, int64_t alignment = 0);
  void store(Value value, Value pointer, int64_t alignment = 0);

  // Lanes.
  Value shuffleXor(Value x, int64_t mask);
  Value shuffleIndex(Value x, int64_t lane);
  Value shuffleTo(Value x, Value lane);

  // Control flow.
  mlir::Block *newBlock(mlir::TypeRange types = {});
  void startBlock(mlir::Block *block) { b.setInsertionPointToEnd(block); }
  void branch(mlir::Block *to, ValueRange arguments = {});
  /// Back to a loop's header, by a branch that says not to unroll the loop.
  void repeatRolled(mlir::Block *header, mlir::ValueRange arguments);
  void branch(Value condition, mlir::Block *yes, mlir::Block *no,
              ValueRange yesArguments = {}, ValueRange noArguments = {});

private:
  mlir::Block *entry = nullptr;
  /// The constants of this function, by type and bits.
  llvm::DenseMap<std::pair<Type, uint64_t>, Value> constants;
  llvm::DenseMap<Value, int64_t> known;
};

} // namespace attn::gpu

#endif // ATTN_LIB_CONVERSION_TILEGPUTONVVM_EMITTER_H
