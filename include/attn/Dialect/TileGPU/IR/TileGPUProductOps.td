//===- TileGPUProductOps.td - Matrix products --------------*- tablegen -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_TILEGPU_IR_TILEGPUPRODUCTOPS_TD
#define ATTN_DIALECT_TILEGPU_IR_TILEGPUPRODUCTOPS_TD

include "attn/Dialect/TileGPU/IR/TileGPUStructureOps.td"

//===----------------------------------------------------------------------===//
// Matrix products
//===----------------------------------------------------------------------===//

def TileGPU_MmaIssueOp : TileGPU_Op<"mma.issue", [
    AttrSizedOperandSegments, MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Starts a product on the warpgroup's matrix unit";
  let description = [{
    An asynchronous product acc + a b (wgmma), one group: fence, all steps over
    K, commit. `a` (MxK) is a fragment or a tile, `b` (KxN) a tile; views say
    how each is stored. Without `acc` the product starts from zero.

    With `ramp(%x, %c)` one more step over K adds x * c in column c, where `%c`
    is a `tile_gpu.smem.ramp`. The step's left operand has three columns, the
    parts of x in bf16, which add up to x, so that all products are exact. An x
    below 2^-100 may lose its last part.

    Operands are values: other operations may read them too, and passes may
    merge equal ones. But a product in flight owns registers, so
    `tile-gpu-copy-fragments` copies the operands that others still read. After
    that pass the token owns the registers of the accumulator, and of `a` if
    that is a fragment, until `tile_gpu.mma.wait`. No operation may then use the
    accumulator again (the wait returns it as a new value), nor `a` before the
    wait; `tile-gpu-verify-async` checks this. A product without `acc` cannot be
    in flight across the end of a loop body.

    Example:

    ```mlir
    # func.func @example(
    #     %q: !tile_gpu.smem<64x128xbf16 swizzle 128>,
    #     %kT: !tile_gpu.smem<128x128xbf16 swizzle 128 transposed>,
    #     %p: !tile_gpu.frag<64x128xbf16, a>,
    #     %v: !tile_gpu.smem<128x128xbf16 swizzle 128>,
    #     %o: !tile_gpu.frag<64x128xf32, acc>,
    #     %x: f32, %c: !tile_gpu.smem<136x8xbf16>) {
    %qk = tile_gpu.mma.issue %q, %kT
        : !tile_gpu.smem<64x128xbf16 swizzle 128>,
          !tile_gpu.smem<128x128xbf16 swizzle 128 transposed>
       -> !tile_gpu.token<64x128xf32>
    %qkx = tile_gpu.mma.issue %q, %kT ramp(%x, %c)
        : !tile_gpu.smem<64x128xbf16 swizzle 128>,
          !tile_gpu.smem<128x128xbf16 swizzle 128 transposed>
       -> !tile_gpu.token<64x128xf32>
    %pv = tile_gpu.mma.issue %p, %v acc(%o)
        : !tile_gpu.frag<64x128xbf16, a>, !tile_gpu.smem<128x128xbf16 swizzle 128>
       -> !tile_gpu.token<64x128xf32>
    #   return
    # }
    ```
  }];
  let arguments = (ins
    Arg<AnyTypeOf<[TileGPU_FragType, TileGPU_SmemType]>, "Left operand MxK: an "
        "`a` fragment of a warpgroup, or a tile of one box.">:$a,
    Arg<TileGPU_SmemType, "Right operand KxN, a tile of one box.">:$b,
    Arg<Optional<TileGPU_FragType>, "What the product is added to, MxN in f32; "
        "0 if absent.">:$acc,
    Arg<Optional<F32>, "Column c of the product gets this times c added; "
        "nothing is if absent.">:$ramp,
    Arg<Optional<TileGPU_SmemType>, "The numbers c, a `tile_gpu.smem.ramp` of "
        "N + 8 rows; goes with `ramp`.">:$ramp_columns,
    Arg<OptionalAttr<I64Attr>, "Elements of the depth K, from the first on, "
        "that may be other than 0: steps behind them are left out.">:$live_depth,
    Arg<OptionalAttr<I64Attr>, "Columns of `acc`, from the first on, that may "
        "be other than 0: the product has no others.">:$live_width);
  let builders = [OpBuilder<(ins "::mlir::Type":$token, "::mlir::Value":$a,
      "::mlir::Value":$b, "::mlir::Value":$acc), [{
    build($_builder, $_state, token, a, b, acc, ::mlir::Value(),
          ::mlir::Value(), ::mlir::IntegerAttr(), ::mlir::IntegerAttr());
  }]>];
  let results = (outs
    Res<TileGPU_TokenType, "The product in flight.">:$token);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

def TileGPU_MmaWaitOp : TileGPU_Infer<"mma.wait", [
    MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Waits for products and gives their accumulators back";
  let description = [{
    Products end in the order of their issue; the wait returns when at most
    `pending` of them are still in flight. `pending` may be at most the number
    of products issued after the last one waited for here.

    Example:

    ```mlir
    # func.func @example(
    #     %qk: !tile_gpu.token<64x128xf32>,
    #     %pv: !tile_gpu.token<64x128xf32>) {
    %s = tile_gpu.mma.wait %qk pending(1) : !tile_gpu.token<64x128xf32>
    %o = tile_gpu.mma.wait %pv pending(0) : !tile_gpu.token<64x128xf32>
    #   return
    # }
    ```
  }];
  let arguments = (ins
    Arg<Variadic<TileGPU_TokenType>, "The products that are waited "
        "for.">:$tokens,
    Arg<I64Attr, "Number of products that may still be in flight, at most "
        "those issued after the last one of `tokens`.">:$pending);
  let results = (outs
    Res<Variadic<TileGPU_FragType>, "The accumulator of each product.">:$accs);
  let assemblyFormat =
    "$tokens `pending` `(` $pending `)` attr-dict `:` type($tokens)";
  let hasVerifier = 1;
}

def TileGPU_MmaSyncOp : TileGPU_Op<"mma.sync", [
    MemoryEffects<[MemRead]>, AllTypesMatch<["acc", "result"]>]> {
  let summary = "acc + a b on one warp";
  let description = [{
    Synchronous (mma.sync): no token. Operands are warp fragments, or tiles that
    are read with ldmatrix step by step, so that only one step of them is in
    registers at a time. For decode the operands are swapped, so that few
    queries need no padding to 16 rows: `a` holds keys, `b` queries.

    Where an operand is f32 the product is made of f32 multiply-adds, not on
    the matrix unit: `a` is then a tile or an acc fragment, `b` a tile, and
    16-bit elements are widened. Sums run over K in order.

    Where `b` is a tile of tf32 the product is on the matrix unit: `a` is a tile
    as it is stored, of tf32 or rounded as it is read, an `a` fragment of tf32,
    or an f32 `acc` fragment, which is rounded too. That one needs no exchange
    between lanes: K is taken in the order in which a lane holds it, and `b` is
    read in that order.

    Example:

    ```mlir
    # func.func @example(
    #     %k: !tile_gpu.smem<16x128xbf16 swizzle 128>,
    #     %q: !tile_gpu.frag<128x8xbf16, b, warp>,
    #     %zero: !tile_gpu.frag<16x8xf32, acc, warp>) {
    %s = tile_gpu.mma.sync %k, %q, %zero
        : !tile_gpu.smem<16x128xbf16 swizzle 128>, !tile_gpu.frag<128x8xbf16, b, warp>
       -> !tile_gpu.frag<16x8xf32, acc, warp>
    #   return
    # }
    ```
  }];
  let arguments = (ins
    Arg<AnyTypeOf<[TileGPU_FragType, TileGPU_SmemType]>, "Left operand MxK, a "
        "warp's fragment or a tile of one box.">:$a,
    Arg<AnyTypeOf<[TileGPU_FragType, TileGPU_SmemType]>, "Right operand KxN, a "
        "warp's fragment or a tile of one box.">:$b,
    Arg<TileGPU_FragType, "What the product is added to, a warp's `acc` "
        "fragment of f32, MxN.">:$acc);
  let results = (outs
    Res<TileGPU_FragType, "The sum, of the type of `acc`.">:$result);
  let assemblyFormat = [{
    $a `,` $b `,` $acc attr-dict `:` type($a) `,` type($b) `->` type($result)
  }];
  let hasVerifier = 1;
}

#endif // ATTN_DIALECT_TILEGPU_IR_TILEGPUPRODUCTOPS_TD
