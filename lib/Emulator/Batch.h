//===- Batch.h - Bodies of maps on rows of elements -------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_EMULATOR_BATCH_H
#define ATTN_LIB_EMULATOR_BATCH_H

#include "Models.h"

namespace attn::emulator {

/// A block of scalars, evaluated for many elements at a time: each operation
/// for all of them before the next one.
class BatchProgram {
public:
  static mlir::FailureOr<BatchProgram> build(mlir::Block &block,
                                             ProgramBuilder &b);

  /// `in`: the lanes of each argument; `out`: where the yielded values go,
  /// which may be where inputs are. False where something is wrong.
  bool run(Agent &a, int64_t n, llvm::ArrayRef<const void *> in,
           llvm::ArrayRef<void *> out) const;
  size_t numArguments() const { return arguments.size(); }
  size_t numResults() const { return yields.size(); }
  const ScalarType &resultType(size_t i) const { return types[yields[i]]; }

private:
  struct Node {
    enum { Scalar, Load, Dim, If, For } kind = Scalar;
    ScalarOp op;
    llvm::SmallVector<uint32_t, 3> in;
    llvm::SmallVector<uint32_t, 1> out;
    SlotId memref = noSlot;
    MemoryType memory;
    int64_t dim = 0;
    // Of branches and loops, for one element at a time.
    std::vector<Node> body, otherwise;
    llvm::SmallVector<uint32_t, 1> bodyYields, otherYields, carried;
    uint32_t iv = 0;
  };
  struct Uniform {
    uint32_t value;
    SlotId slot;
  };
  struct Constant {
    uint32_t value;
    int64_t bits;
  };
  using Values = llvm::DenseMap<Value, uint32_t>;
  /// Where the lanes of each value are.
  using Lanes = std::vector<char *>;

  mlir::FailureOr<uint32_t> valueOf(Value value, Values &known,
                                    ProgramBuilder &b);
  uint32_t define(Value value, Values &known);
  LogicalResult append(mlir::Block &block, Values &known, ProgramBuilder &b,
                       std::vector<Node> &to);
  LogicalResult appendRegion(mlir::Operation *op, Node &node, Values &known,
                             ProgramBuilder &b);
  bool runNodes(Agent &a, int64_t n, const std::vector<Node> &nodes,
                const Lanes &lanes) const;
  bool runLoad(Agent &a, int64_t n, const Node &node, const Lanes &lanes) const;

  std::vector<Node> nodes;
  std::vector<ScalarType> types;
  std::vector<Uniform> uniforms;
  std::vector<Constant> constants;
  llvm::SmallVector<uint32_t> arguments, yields;
  bool hasRegions = false;
};

} // namespace attn::emulator

#endif // ATTN_LIB_EMULATOR_BATCH_H
