//===- TileGPUFoldOps.td - Keys one by one -----------------*- tablegen -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_TILEGPU_IR_TILEGPUFOLDOPS_TD
#define ATTN_DIALECT_TILEGPU_IR_TILEGPUFOLDOPS_TD

include "attn/Dialect/TileGPU/IR/TileGPUComputeOps.td"

def TileGPU_FoldAboveOp : TileGPU_Op<"fold_above", [SingleBlock]> {
  let summary = "Folds the elements of each row that are above its threshold";
  let description = [{
    For each row, in the order of the columns: the body gets the row, the column,
    the element times `factor`, and the row's states, and yields the next states.
    An element that is not above state `threshold` is left out, as the body would
    change nothing, and so is one that is -inf; one that is NaN is not, nor any
    while the state is NaN or the lowest number.

    Rows are compared side by side, by bits that each thread has of its elements.
    `scratch` then takes scores, bits and states of a warp's rows, and each row is
    folded by one lane. Its columns are what `onchip::foldColumns` says. No other
    warp touches these rows.

    Example:

    ```mlir
    # func.func @example(%s: !tile_gpu.frag<64x32xf32, acc>,
    #     %scratch: !tile_gpu.smem<64x40xf32>, %most: !tile_gpu.vec<64xf32, row>) {
    %next = tile_gpu.fold_above %s, %scratch threshold(0) factor(1.0)
        states(%most : !tile_gpu.vec<64xf32, row>) {
    ^bb0(%i: i32, %j: i32, %x: f32, %m: f32):
      %n = arith.maximumf %m, %x : f32
      tile_gpu.yield %n : f32
    } : !tile_gpu.frag<64x32xf32, acc>, !tile_gpu.smem<64x40xf32>
        -> !tile_gpu.vec<64xf32, row>
    #   return
    # }
    ```
  }];
  let arguments = (ins
    Arg<TileGPU_FragType, "Elements of 32 bits, at most 128 of a row.">:$scores,
    Arg<TileGPU_SmemType, "Words of the rows.", [MemRead, MemWrite]>:$scratch,
    Arg<Variadic<TileGPU_VecType>, "Row vectors of 32 bits.">:$states,
    Arg<I64Attr, "The number of the state, an f32, that elements have to be "
        "above.">:$threshold,
    Arg<F32Attr, "The positive number that elements are multiplied "
        "by.">:$factor);
  let results = (outs
    Res<Variadic<TileGPU_VecType>, "The states, in order.">:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $scores `,` $scratch `threshold` `(` $threshold `)` `factor` `(` $factor `)`
    `states` `(` $states `:` type($states) `)` attr-dict-with-keyword $body
    `:` type($scores) `,` type($scratch) `->` type($results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Whether the body gives a state back as it is.
    bool passesThrough(unsigned state);
  }];
}

#endif // ATTN_DIALECT_TILEGPU_IR_TILEGPUFOLDOPS_TD
