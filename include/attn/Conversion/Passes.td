//===- Passes.td - Conversions between dialects ------------*- tablegen -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_CONVERSION_PASSES_TD
#define ATTN_CONVERSION_PASSES_TD

include "mlir/Pass/PassBase.td"

def ConvertPlanToLLVM : Pass<"convert-plan-to-llvm", "::mlir::ModuleOp"> {
  let summary = "Lower plans and their kernels to the LLVM dialect";
  let description = [{
    Expects: plans (functions with `tile.plan` whose memref arguments have
    offset 0) that hold `tile.launch` and `tile.workspace`, and kernels
    (functions with `tile.kernel`) in scf, vector, memref, arith, math, func,
    x86vector, amx and llvm. A kernel with `tile.scratch_bytes` takes its
    scratch as last argument, after the block index.

    Produces: for each plan `@f` a function
    `attn_entry_f(args, runtime) -> i32` (include/attn/Runtime/Abi.h) that
    builds its memref descriptors from the argument records; for each launch a
    call of the runtime's `parallel_for` with a body that reads the kernel's
    arguments from the launching frame. Nothing but the entries is visible.
    Kernels may assume that pointers do not alias: outputs overlap no other
    argument.

    Example:

    ```mlir
    func.func private @fill(%o: memref<?xf32>, %block: index) attributes {tile.kernel} {
      %f = arith.constant 1.0 : f32
      memref.store %f, %o[%block] : memref<?xf32>
      return
    }
    func.func @f(%o: memref<?xf32>) attributes {tile.plan} {
      %c0 = arith.constant 0 : index
      %n = memref.dim %o, %c0 : memref<?xf32>
      tile.launch @fill grid(%n) args(%o : memref<?xf32>)
      return
    }
    ```

    becomes `llvm.func @attn_entry_f(%args: !llvm.ptr, %runtime: !llvm.ptr) -> i32`.

    Numerics: bit-exact, except that functions of the math dialect become
    LLVM's intrinsics or libm's functions.

    Fails when: an operation has no lowering; a `tile.workspace` is inside a
    region of the plan.
  }];
  let options = [Option<
    "expandBF16", "expand-bf16", "bool", "false",
    "Convert between f32 and bf16 by integer arithmetic; for targets without "
    "AVX512-BF16, where LLVM would call a library function">];
  let dependentDialects = [
    "::mlir::LLVM::LLVMDialect", "::mlir::arith::ArithDialect",
    "::mlir::cf::ControlFlowDialect", "::mlir::func::FuncDialect",
    "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect",
    "::mlir::vector::VectorDialect", "::mlir::affine::AffineDialect"
  ];
}

#endif // ATTN_CONVERSION_PASSES_TD
