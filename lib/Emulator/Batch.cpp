//===- Batch.cpp - Bodies of maps on rows of elements ---------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Batch.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

#include <cstring>

using namespace mlir;
using namespace ::attn::emulator;

//===----------------------------------------------------------------------===//
// Decoding
//===----------------------------------------------------------------------===//

uint32_t BatchProgram::define(Value value, Values &known) {
  auto type = scalarTypeOf(value.getType());
  types.push_back(type.value_or(ScalarType()));
  return known[value] = uint32_t(types.size() - 1);
}

FailureOr<uint32_t> BatchProgram::valueOf(Value value, Values &known,
                                          ProgramBuilder &b) {
  if (auto it = known.find(value); it != known.end())
    return it->second;
  if (!scalarTypeOf(value.getType()))
    return emitError(value.getLoc(), "expected a scalar in the body of a map, "
                                     "but got ")
           << value.getType();
  uint32_t number = define(value, known);
  uniforms.push_back({number, b.slot(value)});
  return number;
}

FailureOr<BatchProgram> BatchProgram::build(Block &block, ProgramBuilder &b) {
  BatchProgram program;
  Values known;
  for (BlockArgument argument : block.getArguments())
    program.arguments.push_back(program.define(argument, known));
  if (failed(program.append(block, known, b, program.nodes)))
    return failure();
  for (Value value : block.getTerminator()->getOperands()) {
    auto number = program.valueOf(value, known, b);
    if (failed(number))
      return failure();
    program.yields.push_back(*number);
  }
  return program;
}

LogicalResult BatchProgram::append(Block &block, Values &known,
                                   ProgramBuilder &b, std::vector<Node> &to) {
  for (Operation &op : block.without_terminator()) {
    Node node;
    if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
      // Its slot has the value from the start.
      if (failed(emulate(constant, b)))
        return failure();
      uint32_t number = define(constant, known);
      constants.push_back({number, b.kernel().initial[b.slot(constant)].bits});
      continue;
    }
    auto addOperands = [&](ValueRange operands) -> LogicalResult {
      for (Value operand : operands) {
        auto number = valueOf(operand, known, b);
        if (failed(number))
          return failure();
        node.in.push_back(*number);
      }
      return success();
    };
    SmallVector<Value, 3> operands;
    if (auto scalar = scalarOpOf(&op, operands)) {
      node.op = *scalar;
      if (failed(addOperands(operands)))
        return failure();
    } else if (auto load = dyn_cast<memref::LoadOp>(op)) {
      auto memory = memoryTypeOf(load.getType());
      if (!memory)
        return load.emitOpError("expected an element of an integer or float");
      node.kind = Node::Load;
      node.memref = b.slot(load.getMemRef());
      node.memory = *memory;
      if (failed(addOperands(load.getIndices())))
        return failure();
    } else if (auto dim = dyn_cast<memref::DimOp>(op)) {
      auto index = dim.getConstantIndex();
      if (!index)
        return dim.emitOpError("expected a constant dimension");
      node.kind = Node::Dim;
      node.memref = b.slot(dim.getSource());
      node.dim = *index;
    } else if (isa<scf::IfOp, scf::ForOp>(op)) {
      hasRegions = true;
      if (failed(addOperands(op.getOperands())) ||
          failed(appendRegion(&op, node, known, b)))
        return failure();
    } else {
      return op.emitOpError(
          "expected an operation on scalars that the emulator "
          "knows");
    }
    for (Value result : op.getResults())
      node.out.push_back(define(result, known));
    to.push_back(std::move(node));
  }
  return success();
}

LogicalResult BatchProgram::appendRegion(Operation *op, Node &node,
                                         Values &known, ProgramBuilder &b) {
  auto fill = [&](Region &region, std::vector<Node> &body,
                  llvm::SmallVector<uint32_t, 1> &to) -> LogicalResult {
    if (region.empty())
      return success();
    if (failed(append(region.front(), known, b, body)))
      return failure();
    for (Value value : region.front().getTerminator()->getOperands()) {
      auto number = valueOf(value, known, b);
      if (failed(number))
        return failure();
      to.push_back(*number);
    }
    return success();
  };
  if (auto branch = dyn_cast<scf::IfOp>(op)) {
    node.kind = Node::If;
    if (failed(fill(branch.getThenRegion(), node.body, node.bodyYields)))
      return failure();
    return fill(branch.getElseRegion(), node.otherwise, node.otherYields);
  }
  auto loop = cast<scf::ForOp>(op);
  node.kind = Node::For;
  node.iv = define(loop.getInductionVar(), known);
  for (Value argument : loop.getRegionIterArgs())
    node.carried.push_back(define(argument, known));
  return fill(loop.getRegion(), node.body, node.bodyYields);
}

//===----------------------------------------------------------------------===//
// Evaluation
//===----------------------------------------------------------------------===//

static int64_t integerAt(const ScalarType &type, const char *lane, int64_t i) {
  return type.isWide() ? reinterpret_cast<const int64_t *>(lane)[i]
                       : reinterpret_cast<const int32_t *>(lane)[i];
}

bool BatchProgram::runLoad(Agent &a, int64_t n, const Node &node,
                           const Lanes &lanes) const {
  MemrefValue &memref = a.memref(node.memref);
  llvm::SmallVector<int64_t, 5> indices(node.in.size());
  int64_t size = types[node.out[0]].isWide() ? 8 : 4;
  const char *last = nullptr;
  for (int64_t i = 0; i < n; ++i) {
    for (size_t d = 0; d < node.in.size(); ++d)
      indices[d] = integerAt(types[node.in[d]], lanes[node.in[d]], i);
    char *from = a.element(memref, indices.data(), node.memory.bytes);
    if (!from)
      return false;
    if (from != last &&
        !a.touchGlobal(from, size_t(node.memory.bytes), a.access(0, false)))
      return false;
    last = from;
    loadElement(from, node.memory, lanes[node.out[0]] + i * size);
  }
  return true;
}

bool BatchProgram::runNodes(Agent &a, int64_t n, const std::vector<Node> &list,
                            const Lanes &lanes) const {
  // Regions are for one element.
  auto move = [&](llvm::ArrayRef<uint32_t> from, llvm::ArrayRef<uint32_t> to) {
    llvm::SmallVector<int64_t, 4> bits(from.size());
    for (size_t i = 0; i < from.size(); ++i)
      std::memcpy(&bits[i], lanes[from[i]], 8);
    for (size_t i = 0; i < to.size(); ++i)
      std::memcpy(lanes[to[i]], &bits[i], 8);
  };
  for (const Node &node : list) {
    switch (node.kind) {
    case Node::Scalar: {
      const void *in[3] = {};
      for (size_t i = 0; i < node.in.size() && i < 3; ++i)
        in[i] = lanes[node.in[i]];
      evaluate(node.op, n, in, lanes[node.out[0]]);
      break;
    }
    case Node::Load:
      if (!runLoad(a, n, node, lanes))
        return false;
      break;
    case Node::Dim:
      for (int64_t i = 0; i < n; ++i)
        reinterpret_cast<int64_t *>(lanes[node.out[0]])[i] =
            a.memref(node.memref).sizes[size_t(node.dim)];
      break;
    case Node::If: {
      bool holds = *reinterpret_cast<int32_t *>(lanes[node.in[0]]) & 1;
      if (!runNodes(a, n, holds ? node.body : node.otherwise, lanes))
        return false;
      move(holds ? node.bodyYields : node.otherYields, node.out);
      break;
    }
    case Node::For: {
      const ScalarType &type = types[node.iv];
      int64_t at = integerAt(type, lanes[node.in[0]], 0);
      int64_t end = integerAt(type, lanes[node.in[1]], 0);
      int64_t step = integerAt(type, lanes[node.in[2]], 0);
      move(llvm::ArrayRef<uint32_t>(node.in).drop_front(3), node.carried);
      for (; at < end; at += std::max<int64_t>(step, 1)) {
        std::memcpy(lanes[node.iv], &at, 8);
        if (!runNodes(a, n, node.body, lanes))
          return false;
        move(node.bodyYields, node.carried);
      }
      move(node.carried, node.out);
      break;
    }
    }
  }
  return true;
}

template <typename T> static void fill(char *lanes, int64_t n, int64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof(T));
  auto *to = reinterpret_cast<T *>(lanes);
  for (int64_t i = 0; i < n; ++i)
    to[i] = value;
}

bool BatchProgram::run(Agent &a, int64_t n, llvm::ArrayRef<const void *> in,
                       llvm::ArrayRef<void *> out) const {
  if (n <= 0)
    return true;
  // With branches each element goes its own way.
  if (hasRegions && n > 1) {
    llvm::SmallVector<const void *, 8> from(in.size());
    llvm::SmallVector<void *, 4> to(out.size());
    for (int64_t i = 0; i < n; ++i) {
      for (size_t j = 0; j < in.size(); ++j)
        from[j] = static_cast<const char *>(in[j]) +
                  i * (types[arguments[j]].isWide() ? 8 : 4);
      for (size_t j = 0; j < out.size(); ++j)
        to[j] = static_cast<char *>(out[j]) +
                i * (types[yields[j]].isWide() ? 8 : 4);
      if (!run(a, 1, from, to))
        return false;
    }
    return true;
  }
  static thread_local std::vector<uint64_t> storage;
  static thread_local Lanes lanes;
  size_t lane = size_t(n) + 1;
  if (storage.size() < types.size() * lane)
    storage.resize(types.size() * lane);
  lanes.resize(types.size());
  for (size_t i = 0; i < types.size(); ++i)
    lanes[i] = reinterpret_cast<char *>(storage.data() + i * lane);
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (hasRegions) {
      std::memcpy(lanes[arguments[i]], in[i],
                  types[arguments[i]].isWide() ? 8 : 4);
      continue;
    }
    lanes[arguments[i]] = const_cast<char *>(static_cast<const char *>(in[i]));
  }
  auto set = [&](uint32_t value, int64_t bits) {
    if (types[value].isWide())
      fill<int64_t>(lanes[value], n, bits);
    else
      fill<int32_t>(lanes[value], n, bits);
  };
  for (const Uniform &uniform : uniforms)
    set(uniform.value, a.frame[uniform.slot].bits);
  for (const Constant &constant : constants)
    set(constant.value, constant.bits);
  if (!runNodes(a, n, nodes, lanes))
    return false;
  // Inputs may be written below before they are given on.
  for (uint32_t value : yields)
    if (!hasRegions && llvm::is_contained(arguments, value)) {
      auto *own = reinterpret_cast<char *>(storage.data() + value * lane);
      if (lanes[value] != own)
        std::memcpy(own, lanes[value],
                    size_t(n) * (types[value].isWide() ? 8 : 4));
      lanes[value] = own;
    }
  for (size_t i = 0; i < yields.size(); ++i)
    if (out[i] != lanes[yields[i]])
      std::memmove(out[i], lanes[yields[i]],
                   size_t(n) * (types[yields[i]].isWide() ? 8 : 4));
  return true;
}
