//===- TileGPUComputeOps.td - Fragments and tiles ----------*- tablegen -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_TILEGPU_IR_TILEGPUCOMPUTEOPS_TD
#define ATTN_DIALECT_TILEGPU_IR_TILEGPUCOMPUTEOPS_TD

include "attn/Dialect/TileGPU/IR/TileGPUStructureOps.td"

def TileGPU_RegisterType : AnyTypeOf<[TileGPU_FragType, TileGPU_VecType],
                                     "fragment or vector in registers">;
def TileGPU_ScalarType : AnyTypeOf<[AnyFloat, AnySignlessInteger]>;

//===----------------------------------------------------------------------===//
// Shared-memory views
//===----------------------------------------------------------------------===//

def TileGPU_SmemAllocOp : TileGPU_Op<"smem.alloc"> {
  let summary = "A tile of shared memory without barriers";
  let description = [{
    For staging (an output tile on its way to memory) and for merges. Who may
    touch it when is up to `tile_gpu.barrier.sync`. `at(n)` says where it lies
    (`tile-gpu-allocate-shared`).

    Example:

    ```mlir
    # func.func @example() {
    %staging = tile_gpu.smem.alloc : !tile_gpu.smem<128x128xbf16 swizzle 128>
    #   return
    # }
    ```
  }];
  let arguments = (ins
    Arg<OptionalAttr<I64Attr>, "Bytes from the start of the block's shared "
        "memory, given by `tile-gpu-allocate-shared`; absent before.">:$offset);
  let results = (outs
    Res<TileGPU_SmemType, "The tile, which holds nothing "
        "yet.", [MemAlloc]>:$tile);
  let assemblyFormat = "(`at` `(` $offset^ `)`)? attr-dict `:` type($tile)";
  let hasVerifier = 1;
}

def TileGPU_SmemRampOp : TileGPU_Op<"smem.ramp", [Pure]> {
  let summary = "A tile of shared memory that holds its row numbers";
  let description = [{
    The table that folds a linear bias into a product (augmented K): the right
    operand, transposed, of the `ramp` of a `tile_gpu.mma.issue`, which has 8
    columns less than this has rows. Row c is c, c, c, 0, ..., in bf16, which
    represents whole numbers up to 256 exactly. It stands outside of roles; the
    block's threads write it when the kernel starts, and nothing may change it.

    A product takes steps of 16 along K, but a row has only 8 elements. The
    second half of the step reads the rows from 8 on, hence the 8 rows more, and
    is multiplied by zeros.

    Example:

    ```mlir
    # func.func @example() {
    %c = tile_gpu.smem.ramp : !tile_gpu.smem<136x8xbf16>
    #   return
    # }
    ```
  }];
  let arguments = (ins
    Arg<OptionalAttr<I64Attr>, "Bytes from the start of the block's shared "
        "memory, given by `tile-gpu-allocate-shared`; absent before.">:$offset);
  let results = (outs
    Res<TileGPU_SmemType, "The tile, of 8 columns.">:$tile);
  let assemblyFormat = "(`at` `(` $offset^ `)`)? attr-dict `:` type($tile)";
  let hasVerifier = 1;
}

def TileGPU_SmemTransposeOp : TileGPU_Infer<"smem.transpose", [Pure]> {
  let summary = "The transposed view of a tile";
  let description = [{
    Moves nothing: a tile of keys is the right operand of q k^T through this
    view and of dS k without it, by other bits in the matrix descriptor.

    Example:

    ```mlir
    # func.func @example(%k: !tile_gpu.smem<128x64xbf16 swizzle 128>) {
    %kT = tile_gpu.smem.transpose %k : !tile_gpu.smem<128x64xbf16 swizzle 128>
    #   return
    # }
    ```
  }];
  let arguments = (ins
    Arg<TileGPU_SmemType, "The tile.">:$tile);
  let results = (outs
    Res<TileGPU_SmemType, "The same bytes, rows and columns "
        "exchanged.">:$result);
  let assemblyFormat = "$tile attr-dict `:` type($tile)";
}

def TileGPU_SmemSliceOp : TileGPU_Op<"smem.slice", [Pure]> {
  let summary = "Some rows and columns of a tile";
  let description = [{
    The part of the result's size at [row, col]: the 64 rows of one warpgroup,
    the 16 keys of one warp, one panel of columns. `row` and `col` are
    multiples of the result's rows and columns, or `col` the first column of a
    panel; a slice of a tile of boxes must lie within one box.

    Example:

    ```mlir
    # func.func @example(
    #     %q: !tile_gpu.smem<128x128xbf16 swizzle 128>, %row: i32,
    #     %c0: i32) {
    %mine = tile_gpu.smem.slice %q[%row, %c0]
        : !tile_gpu.smem<128x128xbf16 swizzle 128>
       -> !tile_gpu.smem<64x128xbf16 swizzle 128 pitch 128>
    #   return
    # }
    ```
  }];
  let arguments = (ins
    Arg<TileGPU_SmemType, "The tile.">:$tile,
    Arg<I32, "First row of the part, a multiple of its rows.">:$row,
    Arg<I32, "First column of the part, a multiple of its columns or "
        "of a panel's.">:$col);
  let results = (outs
    Res<TileGPU_SmemType, "The part; its type says of how many rows and "
        "columns.">:$result);
  let assemblyFormat = [{
    $tile `[` $row `,` $col `]` attr-dict `:` type($tile) `->` type($result)
  }];
  let hasVerifier = 1;
}

def TileGPU_SmemClearRowsOp
    : TileGPU_Op<"smem.clear_rows", [AttrSizedOperandSegments]> {
  let summary = "Writes zeros into rows of a tile";
  let description = [{
    For rows that memory holds but no query may see, such as the tail of the
    last page: a weight of zero times a value of NaN would be NaN. The warp or
    warpgroup that runs it sees the zeros in all later reads, products included;
    others need a barrier, or clear the same rows themselves. With `from` the
    rows from that one on are cleared, with `before` those before it; positions
    outside of the tile clear nothing, or all of it. With `live` those rows are
    cleared whose element of the column vector is false, with `bits` those whose
    bit is 0: row r has bit r % 32 of word r / 32.

    Example:

    ```mlir
    # func.func @example(%v: !tile_gpu.smem<16x128xbf16 swizzle 128>, %row: i32,
    #     %first: i32, %live: !tile_gpu.vec<16xi1, col, warp>) {
    tile_gpu.smem.clear_rows %v from(%row) : !tile_gpu.smem<16x128xbf16 swizzle 128>
    tile_gpu.smem.clear_rows %v from(%row) before(%first)
        : !tile_gpu.smem<16x128xbf16 swizzle 128>
    tile_gpu.smem.clear_rows %v live(%live : !tile_gpu.vec<16xi1, col, warp>)
        : !tile_gpu.smem<16x128xbf16 swizzle 128>
    tile_gpu.smem.clear_rows %v bits(%row) : !tile_gpu.smem<16x128xbf16 swizzle 128>
    #   return
    # }
    ```
  }];
  let arguments = (ins
    Arg<TileGPU_SmemType, "The tile, of one box and as it is "
        "stored.", [MemWrite]>:$tile,
    Arg<Optional<I32>, "Rows from this one on are cleared.">:$from,
    Arg<Optional<I32>, "Rows before this one are cleared.">:$before,
    Arg<Optional<TileGPU_VecType>, "Column vector of i1, one for each row: "
        "rows where it is false are cleared.">:$live,
    Arg<Variadic<I32>, "One bit for each row, 32 to a word: rows whose bit is "
        "0 are cleared.">:$bits);
  let assemblyFormat = [{
    $tile (`from` `(` $from^ `)`)? (`before` `(` $before^ `)`)?
    (`live` `(` $live^ `:` type($live) `)`)? (`bits` `(` $bits^ `)`)?
    attr-dict `:` type($tile)
  }];
  let hasVerifier = 1;
}

def TileGPU_SmemMapOp
    : TileGPU_Op<"smem.map", [RecursiveMemoryEffects, SingleBlock]> {
  let summary = "Elementwise function on a tile, in place";
  let description = [{
    Replaces every element of the tile by what the body yields for it. The warp
    or warpgroup that runs it sees the new elements in all later reads, products
    included. The body may read scalars from above.

    Example:

    ```mlir
    # func.func @example(%q: !tile_gpu.smem<64x128xbf16 swizzle 128>,
    #     %negate: i1) {
    tile_gpu.smem.map %q {
    ^bb0(%x: bf16):
      %n = arith.negf %x : bf16
      %y = arith.select %negate, %n, %x : bf16
      tile_gpu.yield %y : bf16
    } : !tile_gpu.smem<64x128xbf16 swizzle 128>
    #   return
    # }
    ```
  }];
  let arguments = (ins
    Arg<TileGPU_SmemType, "The tile, of one box, as it is stored, and of "
        "16-bit elements.", [MemRead, MemWrite]>:$tile);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$tile attr-dict-with-keyword $body `:` type($tile)";
  let hasVerifier = 1;
}

def TileGPU_SmemTurnOp
    : TileGPU_Op<"smem.turn", [RecursiveMemoryEffects, SingleBlock]> {
  let summary = "Function of pairs of a row's elements, in place";
  let description = [{
    Replaces both elements of each pair of columns that `rotary` names by what the
    body yields for them. Block arguments: row and pair (i32), then the two
    elements. Neighbouring threads take neighbouring pairs of a row. The warp or
    warpgroup that runs it sees the new elements in all later reads, products
    included. The body may read scalars and memory from above.

    Example:

    ```mlir
    # func.func @example(%k: !tile_gpu.smem<64x128xbf16 swizzle 128>) {
    tile_gpu.smem.turn %k, #attn.rotary<64, halves> {
    ^bb0(%r: i32, %c: i32, %x: bf16, %y: bf16):
      %n = arith.negf %y : bf16
      tile_gpu.yield %n, %x : bf16, bf16
    } : !tile_gpu.smem<64x128xbf16 swizzle 128>
    #   return
    # }
    ```
  }];
  let arguments = (ins
    Arg<TileGPU_SmemType, "The tile, of one box, as it is stored, and of "
        "16-bit elements.", [MemRead, MemWrite]>:$tile,
    Arg<Attn_RotaryAttr, "Which columns are pairs; of halves an even number, "
        "so that words have two of them.">:$rotary);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $tile `,` $rotary attr-dict-with-keyword $body `:` type($tile)
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Fragments
//===----------------------------------------------------------------------===//

def TileGPU_FragFillOp : TileGPU_Op<"frag.fill", [
    AlwaysSpeculatable, DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "A fragment or vector with one scalar in every element";
  let description = [{
    A fragment in the layout of sums (`acc`) is an allocation of registers, and
    its effect says so: two accumulators that start alike are not merged into
    one. One that nothing uses is still deleted.

    Example:

    ```mlir
    # func.func @example(%zero: f32) {
    %o = tile_gpu.frag.fill %zero : f32 -> !tile_gpu.frag<64x128xf32, acc>
    #   return
    # }
    ```
  }];
  let arguments = (ins
    Arg<TileGPU_ScalarType, "The scalar, of the element type of the "
        "result.">:$value);
  let results = (outs
    Res<TileGPU_RegisterType, "The fragment or vector.">:$result);
  let assemblyFormat = "$value attr-dict `:` type($value) `->` type($result)";
  let hasVerifier = 1;
}

def TileGPU_FragCopyOp : TileGPU_Op<"frag.copy", [
    AlwaysSpeculatable, AllTypesMatch<["value", "result"]>]> {
  let summary = "The same fragment in registers of its own";
  let description = [{
    `tile-gpu-copy-fragments` writes it before a product that owns a fragment
    which other operations still read. A copy is an allocation, so that equal
    ones are not merged. It has no instruction of its own: the code generator
    copies registers where two values need them at once.

    Example:

    ```mlir
    # func.func @example(%o: !tile_gpu.frag<64x128xf32, acc>) {
    %own = tile_gpu.frag.copy %o : !tile_gpu.frag<64x128xf32, acc>
    #   return
    # }
    ```
  }];
  let arguments = (ins
    Arg<TileGPU_FragType, "The fragment that is copied.">:$value);
  let results = (outs
    Res<TileGPU_FragType, "The copy.", [MemAlloc]>:$result);
  let assemblyFormat = "$value attr-dict `:` type($value)";
}

def TileGPU_FragLoadOp : TileGPU_Op<"frag.load"> {
  let summary = "Reads an operand fragment from a tile (ldmatrix)";
  let description = [{
    The tile has the fragment's rows and columns. Stored along K (rows of `a`,
    a transposed view for `b`) it is a plain ldmatrix, otherwise the transposing
    form; both are free of bank conflicts on swizzled tiles. A tf32
    tile must be stored along K.

    Example:

    ```mlir
    # func.func @example(%keys: !tile_gpu.smem<16x128xbf16 swizzle 128>) {
    %a = tile_gpu.frag.load %keys : !tile_gpu.smem<16x128xbf16 swizzle 128>
       -> !tile_gpu.frag<16x128xbf16, a, warp>
    #   return
    # }
    ```
  }];
  let arguments = (ins
    Arg<TileGPU_SmemType, "The tile, of the fragment's rows, columns and "
        "element type.", [MemRead]>:$tile);
  let results = (outs
    Res<TileGPU_FragType, "An `a` or `b` fragment.">:$result);
  let assemblyFormat = "$tile attr-dict `:` type($tile) `->` type($result)";
  let hasVerifier = 1;
}

def TileGPU_FragStoreOp : TileGPU_Op<"frag.store", [AttrSizedOperandSegments]> {
  let summary = "Writes a fragment into a tile";
  let description = [{
    16-bit fragments (`acc` or `a`, which have the same registers) by stmatrix;
    into a transposed view by its transposing form. With `fragment_order` 16 rows
    lie as accumulators do (`fragment_order`), for a bulk copy or reduction
    and a later kernel; `at` says where a part of the tile belongs. A warp that
    stores a warp's fragment sees it in its own later reads; others need a barrier.

    Example:

    ```mlir
    # func.func @example(
    #     %o: !tile_gpu.frag<64x128xbf16, acc>,
    #     %staging: !tile_gpu.smem<64x128xbf16 swizzle 128>) {
    tile_gpu.frag.store %o, %staging
        : !tile_gpu.frag<64x128xbf16, acc>, !tile_gpu.smem<64x128xbf16 swizzle 128>
    #   return
    # }
    ```
  }];
  let arguments = (ins
    Arg<TileGPU_FragType, "An `acc` or `a` fragment.">:$value,
    Arg<TileGPU_SmemType, "The tile, of the fragment's element type, and "
        "without `at` of its rows and columns.", [MemWrite]>:$tile,
    Arg<Optional<I32>, "The fragment's first row in the tile.">:$row,
    Arg<Optional<I32>, "Its first column; goes with `row`.">:$col,
    Arg<UnitAttr, "16 rows of the tile lie as accumulators do.">:$fragment_order);
  let assemblyFormat = [{
    $value `,` $tile (`at` `(` $row^ `,` $col `)`)?
    (`fragment_order` $fragment_order^)? attr-dict
    `:` type($value) `,` type($tile)
  }];
  let builders = [OpBuilder<(ins "Value":$value, "Value":$tile,
                                 "bool":$fragment_order), [{
    build($_builder, $_state, value, tile, /*row=*/Value(), /*col=*/Value(),
          fragment_order);
  }]>];
  let hasVerifier = 1;
}

def TileGPU_FragConvertOp : TileGPU_Op<"frag.convert", [Pure]> {
  let summary = "The same matrix, rounded and in another operand's layout";
  let description = [{
    From an f32 `acc` fragment to 16 bits (round to nearest even):
    - to `acc` or `a`: packs neighbours, no data moves between threads;
    - to `b` (warp scope): packs and transposes 8x8 blocks between lanes
      (movmatrix); scores kept as keys x queries become the right operand of
      v^T p without shared memory.

    Example:

    ```mlir
    # func.func @example(%p: !tile_gpu.frag<64x128xf32, acc>) {
    %pa = tile_gpu.frag.convert %p : !tile_gpu.frag<64x128xf32, acc>
       -> !tile_gpu.frag<64x128xbf16, a>
    #   return
    # }
    ```
  }];
  let arguments = (ins
    Arg<TileGPU_FragType, "An `acc` fragment of f32.">:$value);
  let results = (outs
    Res<TileGPU_FragType, "A fragment of bf16 or f16 of the same size and "
        "scope.">:$result);
  let assemblyFormat = "$value attr-dict `:` type($value) `->` type($result)";
  let hasVerifier = 1;
}

def TileGPU_FragPadOp : TileGPU_Op<"frag.pad", [Pure]> {
  let summary = "A fragment with further columns of zeros";
  let description = [{
    The columns of an f32 `acc` fragment, put at column `first`, a multiple of 8,
    of a wider one, and zeros beside them. Threads hold what they held: an
    accumulator's columns are spread over them 8 at a time.

    Example:

    ```mlir
    # func.func @example(%p: !tile_gpu.frag<64x64xf32, acc>) {
    %wide = tile_gpu.frag.pad %p first 64 : !tile_gpu.frag<64x64xf32, acc>
       -> !tile_gpu.frag<64x128xf32, acc>
    #   return
    # }
    ```
  }];
  let arguments = (ins
    Arg<TileGPU_FragType, "The `acc` fragment of f32 whose columns are "
        "kept.">:$value,
    Arg<I64Attr, "Column of the result at which they begin, a multiple of "
        "8.">:$first);
  let results = (outs
    Res<TileGPU_FragType, "A fragment of as many rows and of more "
        "columns.">:$result);
  let assemblyFormat = [{
    $value `first` $first attr-dict `:` type($value) `->` type($result)
  }];
  let hasVerifier = 1;
}

def TileGPU_FragColsOp : TileGPU_Op<"frag.cols", [Pure]> {
  let summary = "Some columns of a fragment";
  let description = [{
    As many columns of an f32 `acc` fragment as the result has, from column
    `first` on, a multiple of 8. Threads hold what they held.

    Example:

    ```mlir
    # func.func @example(%s: !tile_gpu.frag<64x128xf32, acc>) {
    %part = tile_gpu.frag.cols %s first 16 : !tile_gpu.frag<64x128xf32, acc>
       -> !tile_gpu.frag<64x16xf32, acc>
    #   return
    # }
    ```
  }];
  let arguments = (ins
    Arg<TileGPU_FragType, "The `acc` fragment of f32.">:$value,
    Arg<I64Attr, "The first column, a multiple of 8.">:$first);
  let results = (outs
    Res<TileGPU_FragType, "A fragment of as many rows and of fewer "
        "columns.">:$result);
  let assemblyFormat = [{
    $value `first` $first attr-dict `:` type($value) `->` type($result)
  }];
  let hasVerifier = 1;
}

def TileGPU_VecLoadOp : TileGPU_Op<"vec.load"> {
  let summary = "Reads a row or column vector from a tile";
  let description = [{
    Every thread gets the elements of the rows or columns that it holds. The
    statistics of queries come this way when queries are columns. `permuted`
    says that each 16 elements are stored in the order in which the lanes of an
    accumulator hold them, so that a lane reads 16 bytes at once.

    Without a position the tile has one row. With one, a column vector is that
    row of the tile and a row vector that column: how a key enters element by
    element. 16-bit elements are widened to f32.

    Example:

    ```mlir
    # func.func @example(%tile: !tile_gpu.smem<1x64xf32>,
    #     %values: !tile_gpu.smem<64x128xbf16 swizzle 128>, %key: i32) {
    %lse = tile_gpu.vec.load %tile permuted
        : !tile_gpu.smem<1x64xf32> -> !tile_gpu.vec<64xf32, col>
    %v = tile_gpu.vec.load %values[%key]
        : !tile_gpu.smem<64x128xbf16 swizzle 128> -> !tile_gpu.vec<128xf32, col>
    #   return
    # }
    ```
  }];
  let arguments = (ins
    Arg<TileGPU_SmemType, "The tile, of one box and as it is "
        "stored.", [MemRead]>:$tile,
    Arg<Optional<I32>, "The row of the tile that a column vector is, or the "
        "column that a row vector is; if absent, the tile has one row.">:$index,
    Arg<UnitAttr, "Each 16 elements are stored in the order in which the lanes "
        "of an accumulator hold them.">:$permuted);
  let results = (outs
    Res<TileGPU_VecType, "The vector, complete in each thread that holds "
        "it.">:$result);
  let assemblyFormat = [{
    $tile (`[` $index^ `]`)? (`permuted` $permuted^)? attr-dict
    `:` type($tile) `->` type($result)
  }];
  let hasVerifier = 1;
}

def TileGPU_VecStoreOp : TileGPU_Op<"vec.store"> {
  let summary = "Writes a vector into a tile";
  let description = [{
    The mirror of `tile_gpu.vec.load` with a position. Each element is written
    by one of the threads that hold it. A warp that stores a warp's vector sees
    it in its own later reads; others, and a warpgroup, need a barrier.

    Example:

    ```mlir
    # func.func @example(%live: !tile_gpu.vec<64xi32, col, warp>,
    #     %tile: !tile_gpu.smem<4x64xi32>, %warp: i32) {
    tile_gpu.vec.store %live, %tile[%warp]
        : !tile_gpu.vec<64xi32, col, warp>, !tile_gpu.smem<4x64xi32>
    #   return
    # }
    ```
  }];
  let arguments = (ins
    Arg<TileGPU_VecType, "The vector, which is not partial.">:$value,
    Arg<TileGPU_SmemType, "The tile, of one box and as it is "
        "stored.", [MemWrite]>:$tile,
    Arg<I32, "The row of the tile that a column vector becomes, or the column "
        "that a row vector becomes.">:$index);
  let assemblyFormat = [{
    $value `,` $tile `[` $index `]` attr-dict `:` type($value) `,` type($tile)
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Elementwise and reductions
//===----------------------------------------------------------------------===//

def TileGPU_MapOp : TileGPU_Op<"map", [RecursiveMemoryEffects, SingleBlock]> {
  let summary = "Elementwise function on fragments and vectors";
  let description = [{
    Block arguments: row and column within the fragment (`i32`), then one
    scalar for each input. Fragments have one shape and scope and are acc or,
    which has the same registers, a; row vectors broadcast along the rows,
    column vectors along the columns. A
    result is a fragment of that shape or, where all inputs are vectors of one
    axis, such a vector; the position along the other axis is then 0. A partial
    vector may enter only if the result is partial, and the body must then be
    linear in it. If the inputs are whole and the result is partial, each
    thread's value is one share of it, of which a row has four and a column
    eight.

    Score, mask and monoid regions are inlined here; the body may read scalars
    and memrefs from above, in bounds for every element.

    Example:

    ```mlir
    # func.func @example(
    #     %s: !tile_gpu.frag<64x128xf32, acc>,
    #     %m: !tile_gpu.vec<64xf32, row>) {
    %p = tile_gpu.map ins(%s, %m : !tile_gpu.frag<64x128xf32, acc>, !tile_gpu.vec<64xf32, row>) {
    ^bb0(%i: i32, %j: i32, %x: f32, %y: f32):
      %d = arith.subf %x, %y : f32
      %e = math.exp2 %d : f32
      tile_gpu.yield %e : f32
    } -> !tile_gpu.frag<64x128xf32, acc>
    #   return
    # }
    ```
  }];
  let arguments = (ins
    Arg<Variadic<TileGPU_RegisterType>, "Fragments of one size, and vectors "
        "along them, whose elements the body takes.">:$inputs);
  let results = (outs
    Res<Variadic<TileGPU_RegisterType>, "One fragment or vector for each value "
        "that the body yields.">:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    (`ins` `(` $inputs^ `:` type($inputs) `)`)? attr-dict-with-keyword
    $body `->` type($results)
  }];
  let hasCanonicalizeMethod = 1;
  let hasVerifier = 1;
}

def TileGPU_ReduceOp : TileGPU_Op<"reduce", [
    Pure, AttrSizedOperandSegments, SingleBlock]> {
  let summary = "Reduces a fragment to a vector, or completes a partial one";
  let description = [{
    n inputs and n identities; the body combines (a..., b...) to n values and
    must be associative and, unless `ordered` is set, commutative; with it the
    left operand precedes. Fragments give row vectors by reducing
    over the columns, or column vectors over the rows, as the result type says.
    A partial result stays in the thread that computed it and costs no
    exchange; reducing the partial vector later completes it.

    Example:

    ```mlir
    # func.func @example(%p: !tile_gpu.frag<64x128xf32, acc>, %zero: f32) {
    %l = tile_gpu.reduce ins(%p : !tile_gpu.frag<64x128xf32, acc>) identity(%zero : f32) {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      tile_gpu.yield %c : f32
    } -> !tile_gpu.vec<64xf32, row, partial>
    #   return
    # }
    ```
  }];
  let arguments = (ins
    Arg<Variadic<TileGPU_RegisterType>, "Fragments of one size, or partial "
        "vectors, which are reduced together.">:$inputs,
    Arg<Variadic<TileGPU_ScalarType>, "The identity of the body, one scalar "
        "for each input.">:$identities,
    Arg<UnitAttr, "The body need not be commutative: the element that comes "
        "first is its left operand.">:$ordered);
  let results = (outs
    Res<Variadic<TileGPU_VecType>, "One vector for each input, partial or "
        "complete as its type says.">:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    (`ordered` $ordered^)? `ins` `(` $inputs `:` type($inputs) `)`
    `identity` `(` $identities `:` type($identities) `)`
    attr-dict-with-keyword $body `->` type($results)
  }];
  let hasVerifier = 1;
}

def TileGPU_ScanOp : TileGPU_Op<"scan", [
    Pure, AttrSizedOperandSegments, SingleBlock]> {
  let summary = "Exclusive scan along the columns of each row";
  let description = [{
    Element (r, c) of the result is the product, in column order, of the
    elements before c (or after c, with `reverse`); the identity where there
    are none. The body combines (a..., b...) to n values and is associative.

    Example:

    ```mlir
    # func.func @example(%d: !tile_gpu.frag<16x64xf32, acc, warp>, %zero: f32) {
    %after = tile_gpu.scan reverse
        ins(%d : !tile_gpu.frag<16x64xf32, acc, warp>) identity(%zero : f32) {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      tile_gpu.yield %c : f32
    } -> !tile_gpu.frag<16x64xf32, acc, warp>
    #   return
    # }
    ```
  }];
  let arguments = (ins
    Arg<Variadic<TileGPU_FragType>, "`acc` fragments of one size, which are "
        "scanned together.">:$inputs,
    Arg<Variadic<TileGPU_ScalarType>, "The identity of the body, one scalar "
        "for each input.">:$identities,
    Arg<UnitAttr, "Each result is the product of the elements after "
        "it.">:$reverse);
  let results = (outs
    Res<Variadic<TileGPU_FragType>, "One fragment for each input, of its "
        "type.">:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    (`reverse` $reverse^)? `ins` `(` $inputs `:` type($inputs) `)`
    `identity` `(` $identities `:` type($identities) `)`
    attr-dict-with-keyword $body `->` type($results)
  }];
  let hasVerifier = 1;
}

def TileGPU_AnyOp : TileGPU_Op<"any", [Pure]> {
  let summary = "Whether any element is true";
  let description = [{
    One scalar, the same in all threads of the warp or warpgroup. With
    `by_rows` the same in all threads of a warp, which asks about its own rows
    only (see `tile.any`): a vote, and no barrier.

    Example:

    ```mlir
    # func.func @example(%live: !tile_gpu.vec<64xi1, col, warp>) -> i1 {
    %some = tile_gpu.any %live : !tile_gpu.vec<64xi1, col, warp>
    #   return %some : i1
    # }
    ```
  }];
  let arguments = (ins
    Arg<TileGPU_RegisterType, "A fragment, or a vector that is not partial, of "
        "i1.">:$value,
    Arg<UnitAttr, "Each warp of a warpgroup asks about its own rows "
        "only.">:$by_rows);
  let results = (outs
    Res<I1, "Whether any element is true.">:$result);
  let assemblyFormat = "$value (`by_rows` $by_rows^)? attr-dict `:` type($value)";
  let hasVerifier = 1;
}

def TileGPU_VecElementsOp : TileGPU_Op<"vec.elements", [Pure]> {
  let summary = "The elements of a short column vector as scalars";
  let description = [{
    One scalar for each element, the same in all threads of the warp.

    Example:

    ```mlir
    # func.func @example(%words: !tile_gpu.vec<8xi32, col, warp>) -> i32 {
    %w:8 = tile_gpu.vec.elements %words : !tile_gpu.vec<8xi32, col, warp>
        -> i32, i32, i32, i32, i32, i32, i32, i32
    #   return %w#0 : i32
    # }
    ```
  }];
  let arguments = (ins
    Arg<TileGPU_VecType, "A warp's column vector, which is not "
        "partial.">:$value);
  let results = (outs
    Res<Variadic<TileGPU_ScalarType>, "One scalar for each element, in "
        "order.">:$elements);
  let assemblyFormat = "$value attr-dict `:` type($value) `->` type($elements)";
  let hasVerifier = 1;
}

def TileGPU_MergeStatesOp : TileGPU_Op<"merge_states", [
    AttrSizedOperandSegments, SingleBlock,
    MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Combines aggregate states held in several places";
  let description = [{
    A state is statistics (vectors) and values (vectors and fragments) of one
    scaled aggregate. The body takes two states' statistics, left then right,
    and yields the combined statistics, then alpha and beta: every value
    becomes alpha v1 + beta v2, where a factor of exactly 0 selects 0 whatever
    the value is. States are combined in a fixed order, left to right.
    - `pair`: `values` and `stats` hold two states, all of the left one first;
    - `warps`: one state for each of `count` warps of the role, through
      `scratch`. Statistics and vectors come back to every warp. A fragment of
      1/`count` of the rows comes back split by rows (warp w: part w), one of
      all rows comes back to every warp;
    - `cluster`: one state for each of the `count` blocks of a cluster, of which
      this is number `part`, through use `counter` of a ring of `states`. The
      warps of the role have the same statistics and vectors, and fragments of
      different rows, in which sixteens of rows are counted from warp 0 on.
      Sixteen n of all blocks is combined by warp n / `count` of block n mod
      `count`; others have zeros. Of a lone warpgroup's rows block n has part n.

    Example:

    ```mlir
    # func.func @example(
    #     %m0: !tile_gpu.vec<8xf32, col, warp>,
    #     %o0: !tile_gpu.frag<128x8xf32, acc, warp>,
    #     %s: !tile_gpu.smem<8x1088xf32>) {
    %m, %o = tile_gpu.merge_states warps stats(%m0 : !tile_gpu.vec<8xf32, col, warp>)
        values(%o0 : !tile_gpu.frag<128x8xf32, acc, warp>) scratch(%s : !tile_gpu.smem<8x1088xf32>)
        count(8) {
    ^bb0(%a: f32, %b: f32):
      %c = arith.maximumf %a, %b : f32
      %da = arith.subf %a, %c : f32
      %db = arith.subf %b, %c : f32
      %fa = math.exp2 %da : f32
      %fb = math.exp2 %db : f32
      tile_gpu.yield %c, %fa, %fb : f32, f32, f32
    } -> !tile_gpu.vec<8xf32, col, warp>, !tile_gpu.frag<16x8xf32, acc, warp>
    #   return
    # }
    ```
  }];
  let arguments = (ins
    Arg<TileGPU_MergeScope, "Where the states are: `pair`, `warps` or "
        "`cluster`.">:$scope,
    Arg<Variadic<TileGPU_VecType>, "The statistics of this state, or with "
        "`pair` of the left state and then of the right one.">:$stats,
    Arg<Variadic<TileGPU_RegisterType>, "The values of this state, f32, or "
        "with `pair` of the left state and then of the right one.">:$values,
    Arg<Optional<TileGPU_SmemType>, "Shared memory that the states of all "
        "warps fit into; goes with `warps`, and only "
        "there.", [MemRead, MemWrite]>:$scratch,
    Arg<Optional<TileGPU_RingType>, "The ring of `states` that they go through; "
        "goes with `cluster`, and only there.", [MemRead, MemWrite]>:$ring,
    Arg<Optional<I32>, "Number of the use of the ring; goes with "
        "`ring`.">:$counter,
    Arg<Optional<I32>, "Number of this block's part of the keys, which is its "
        "place in the cluster; goes with `ring`.">:$part,
    Arg<OptionalAttr<I64Attr>, "Number of states; goes with `warps` and "
        "`cluster`, and only there.">:$count);
  let results = (outs
    Res<Variadic<TileGPU_RegisterType>, "The combined state: statistics, then "
        "values.">:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $scope `stats` `(` $stats `:` type($stats) `)`
    `values` `(` $values `:` type($values) `)`
    (`scratch` `(` $scratch^ `:` type($scratch) `)`)?
    (`ring` `(` $ring^ `[` $counter `]` `:` type($ring) `)`)?
    (`part` `(` $part^ `)`)? (`count` `(` $count^ `)`)?
    attr-dict-with-keyword $body `->` type($results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Of `cluster`: the floats of sixteen rows, with the statistics and vectors,
    /// and how many sixteens a warp has.
    int64_t getFloatsOfSixteen();
    int64_t getSixteensOfWarp();
  }];
}

#endif // ATTN_DIALECT_TILEGPU_IR_TILEGPUCOMPUTEOPS_TD
