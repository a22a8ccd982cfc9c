//===- PlanLowering.h - Shared by the lowerings of plans --------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_PLANTOLLVM_PLANLOWERING_H
#define ATTN_LIB_CONVERSION_PLANTOLLVM_PLANLOWERING_H

#include "mlir/Conversion/LLVMCommon/Pattern.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringMap.h"

namespace mlir {

/// Fields of AttnRuntime, in order (include/attn/Runtime/Abi.h).
enum RuntimeField { ParallelFor = 0, Allocate = 1, Release = 2, Gpu = 4 };
/// Fields of AttnGpu.
enum GpuField {
  EncodeTensorMap = 0,
  LaunchKernel = 1,
  FillZero = 2,
  Counters = 3,
  Keep = 4
};

/// What the lowering knows of a kernel before its signature changes.
struct KernelInfo {
  FunctionType type;
  /// Bytes of the trailing scratch argument; nothing when there is none.
  std::optional<int64_t> scratchBytes;
};

/// The entry function under construction.
struct PlanFrame {
  Value runtime;
  /// The addresses of the arguments' records.
  Value records;
  /// Stack slot of the status word.
  Value status;
  SmallVector<Value> workspaces;
};

/// State that the patterns of one module share.
struct LoweringState {
  llvm::StringMap<KernelInfo> kernels;
  /// Text constants made so far.
  llvm::StringMap<LLVM::GlobalOp> texts;
  DenseMap<Operation *, PlanFrame> frames;
  unsigned numBodies = 0;
};

/// Types and helpers that every plan pattern wants.
struct PlanBuilder {
  PlanBuilder(OpBuilder &b, Location loc)
      : b(b), loc(loc), i32(b.getI32Type()), i64(b.getI64Type()),
        ptr(LLVM::LLVMPointerType::get(b.getContext())) {}

  Value constant(Type type, int64_t value) {
    return LLVM::ConstantOp::create(b, loc, type,
                                    b.getIntegerAttr(type, value));
  }
  Value gep(Type element, Value base, int64_t index) {
    return LLVM::GEPOp::create(b, loc, ptr, element, base,
                               ArrayRef<LLVM::GEPArg>{int32_t(index)});
  }
  Value load(Type type, Value address) {
    return LLVM::LoadOp::create(b, loc, type, address);
  }
  void store(Value value, Value address) {
    LLVM::StoreOp::create(b, loc, value, address);
  }
  /// Calls a callback of the runtime; `arguments` follow the runtime itself.
  LLVM::CallOp callRuntime(Value runtime, RuntimeField field, Type result,
                           ValueRange arguments) {
    return call(load(ptr, gep(ptr, runtime, field)), runtime, result,
                arguments);
  }
  /// The same for the callbacks of a GPU.
  LLVM::CallOp callGpu(Value runtime, GpuField field, ValueRange arguments,
                       Type result = {}) {
    Value gpu = load(ptr, gep(ptr, runtime, Gpu));
    return call(load(ptr, gep(ptr, gpu, field)), runtime, result ? result : i32,
                arguments);
  }
  LLVM::CallOp call(Value callee, Value runtime, Type result,
                    ValueRange arguments) {
    SmallVector<Value> operands = {callee, runtime};
    llvm::append_range(operands, arguments);
    SmallVector<Type> types = {ptr};
    llvm::append_range(types, arguments.getTypes());
    Type resultType = result ? result : LLVM::LLVMVoidType::get(b.getContext());
    return LLVM::CallOp::create(
        b, loc, LLVM::LLVMFunctionType::get(resultType, types), operands);
  }
  void mergeStatus(PlanFrame &frame, Value status) {
    Value old = load(i32, frame.status);
    store(LLVM::OrOp::create(b, loc, old, status), frame.status);
  }

  OpBuilder &b;
  Location loc;
  Type i32, i64, ptr;
};

template <typename OpTy> struct PlanPattern : ConvertOpToLLVMPattern<OpTy> {
  PlanPattern(const LLVMTypeConverter &converter, LoweringState &state)
      : ConvertOpToLLVMPattern<OpTy>(converter, /*benefit=*/10), state(state) {}

  PlanFrame *getFrame(Operation *op) const {
    auto entry = op->getParentOfType<LLVM::LLVMFuncOp>();
    auto it = entry ? state.frames.find(entry) : state.frames.end();
    return it == state.frames.end() ? nullptr : &it->second;
  }

  LoweringState &state;
};

/// The lowerings of tile_gpu's plan operations (GpuPlan.cpp).
void populateGpuPlanPatterns(LLVMTypeConverter &converter,
                             RewritePatternSet &patterns, LoweringState &state);

/// Checks the declarations of a GPU's kernels, and moves what a launch must
/// know of them onto the kernels in the module's gpu.module, if there is one.
LogicalResult prepareGpuKernels(ModuleOp module);

} // namespace mlir

#endif // ATTN_LIB_CONVERSION_PLANTOLLVM_PLANLOWERING_H
