//===- Passes.td - Passes over the tile dialect ------------*- tablegen -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_TILE_TRANSFORMS_PASSES_TD
#define ATTN_DIALECT_TILE_TRANSFORMS_PASSES_TD

include "mlir/Pass/PassBase.td"

def TileExpandMathPass : Pass<"tile-expand-math", "::mlir::ModuleOp"> {
  let summary = "Expand math functions into vector arithmetic (approximate)";
  let description = [{
    Expects: `math` operations on f32 scalars and vectors in kernels.

    Produces: `arith` and fused multiply-adds in their place: `exp`, `exp2`
    and `tanh` as below; `log`, `log2`, `log1p`, `expm1`, `erf`, `sin`, `cos`,
    `atan` and others by upstream's polynomials. Nothing calls a library.

    Example: before

    ```mlir
    func.func @f(%x: vector<16xf32>) -> vector<16xf32> {
      %y = math.exp2 %x : vector<16xf32>
      return %y : vector<16xf32>
    }
    ```

    Numerics: `exp2(x)` is `2^n p(r)` with n the integer nearest x, r = x - n
    and p of degree 6; relative error at most 8e-8, or 2.8e-6 with degree 4
    where the operation is marked `afn`. `exp(x)`
    reduces by log2(e) in two parts; at most 1e-7. `tanh` is
    `1 - 2 / (e^2x + 1)`, below 0.6 an odd polynomial of degree 11; at most
    1.9e-7. (Compared with libm in float64 on 116 million f32.) In kernels
    whose products take bf16 operands it is `x q(|x|)` on AVX-512, with q a
    quadratic on each of 32 segments of [0, 5.3], and with the factors that all
    lanes share, `c tanh(s x)`, in its coefficients: at most 2.7e-5 (2^-15)
    where |s| > 2^-60, beside scores of bf16 operands that have 2^-9; elsewhere an odd rational function of degree 13 over 6 on
    [-7.9, 7.9], at most 3e-7. `sin` and `cos` reduce by pi / 2 in three parts;
    off by at most 7.2e-8 for |x| up to 10,000, 3.6e-7 up to 2 million. NaN gives NaN; +inf and -inf give the
    limits.

    Fails when: never; an operation without an expansion is left alone.
  }];
  let options = [
    Option<"target", "target", "std::string", "\"\"",
           "Target to generate code for; empty: the module's `attn.target`, "
           "else the host">
  ];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::math::MathDialect",
    "::mlir::vector::VectorDialect", "::mlir::LLVM::LLVMDialect"
  ];
}

#endif // ATTN_DIALECT_TILE_TRANSFORMS_PASSES_TD
