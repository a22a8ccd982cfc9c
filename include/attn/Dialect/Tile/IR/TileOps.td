//===- TileOps.td - Operations of the tile dialect ---------*- tablegen -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_TILE_IR_TILEOPS_TD
#define ATTN_DIALECT_TILE_IR_TILEOPS_TD

include "attn/Dialect/Attn/IR/AttnAttrs.td"
include "attn/Dialect/Tile/IR/TileTypes.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/FunctionInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class Tile_Op<string mnemonic, list<Trait> traits = []>
    : Op<Tile_Dialect, mnemonic, traits>;

include "attn/Dialect/Tile/IR/TileKernelOps.td"

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

def Tile_Memory : AnyTypeOf<[AnyMemRef, Tile_SourceType]>;

include "attn/Dialect/Tile/IR/TileSourceOps.td"

def Tile_LoadOp : Tile_Op<"load", [AttrSizedOperandSegments]> {
  let summary = "Loads a tile from a tensor in memory, or a source";
  let description = [{
    Element (r, c) of the tile is `source[indices..., row + r, col + c]`, where
    `row` and `col` are the last two indices; with `vector`, the tile is Rx1 and
    element r is `source[indices..., row + r]`. Rows outside `[lower, upper)`,
    which count rows of memory, columns beyond the source and rows whose element
    of `live` (a 1xR i1 tile) is false read as zero, whatever memory holds.
    Converts between float types when source and tile differ. If `source` is a
    `tile.source`, the indices begin with batch and head, and rows are positions
    in that sequence.

    With `transposed` rows of memory are columns of the tile: element (r, c) is
    `source[indices..., row + c, col + r]`, and a `vector` is a 1xC tile, whose
    element c is `source[indices..., row + c]`. Bounds and `live` speak of the
    rows of memory all the same.

    Example:

    ```mlir
    # func.func @example(
    #     %K: memref<?x?x?x64xbf16, strided<[?, ?, ?, 1], offset: ?>>,
    #     %L: memref<?x?x?xf32>, %b: index, %hk: index, %j0: index, %c0: index, %lo: index, %hi: index) {
    %k = tile.load %K[%b, %hk, %j0, %c0] rows(%lo to %hi)
        : memref<?x?x?x64xbf16, strided<[?, ?, ?, 1], offset: ?>> -> !tile.tile<128x64xbf16>
    %kt = tile.load transposed %K[%b, %hk, %j0, %c0] rows(%lo to %hi)
        : memref<?x?x?x64xbf16, strided<[?, ?, ?, 1], offset: ?>> -> !tile.tile<64x128xbf16>
    %lse = tile.load vector transposed %L[%b, %hk, %j0] rows(%lo to %hi)
        : memref<?x?x?xf32> -> !tile.tile<1x128xf32>
    #   return
    # }
    ```
  }];
  let arguments = (ins
    Arg<Tile_Memory, "Strided tensor, of unit stride in the last dimension "
        "unless `vector` is set, or a source.", [MemRead]>:$source,
    Arg<Variadic<Index>, "Where the tile begins in memory, one index for each "
        "dimension; of a source these are batch, head, row and, without "
        "`vector`, column.">:$indices,
    Arg<Optional<Index>, "First row of memory that is read, counted as the "
        "indices are; there is no bound if absent.">:$lower,
    Arg<Optional<Index>, "End of the rows of memory that are read; goes with "
        "`lower`.">:$upper,
    Arg<Optional<Tile_TileType>, "One i1 for each row of memory, a tile of one "
        "row: where it is false, the row reads as zero.">:$live,
    Arg<UnitAttr, "Memory has one element for each row, and no dimension of "
        "columns.">:$vector,
    Arg<UnitAttr, "Rows of memory are columns of the tile.">:$transposed,
    Arg<UnitAttr, "The rows are others in each step over keys, and are copied "
        "ahead with the keys of the step.">:$moves,
    Arg<UnitAttr, "Memory has the elements in the order of registers "
        "(FragmentOrder.h).">:$fragment_order,
    Arg<UnitAttr, "Rows outside the bounds may hold what memory does: who "
        "reads them meets them with 0, and looks for a NaN. Goes with "
        "`lower`, without `live`.">:$not_cleared);
  let results = (outs
    Res<Tile_TileType, "The tile; its type says how many rows and columns are "
        "read.">:$result);
  let extraClassDeclaration = [{
    /// Rows of memory that it reads, and elements of each.
    int64_t getMemoryRows() {
      return getTransposed() ? getType().getCols() : getType().getRows();
    }
    int64_t getMemoryCols() {
      return getTransposed() ? getType().getRows() : getType().getCols();
    }
  }];
  let assemblyFormat = [{
    (`vector` $vector^)? (`transposed` $transposed^)? $source `[` $indices `]`
    (`rows` `(` $lower^ `to` $upper `)`)? (`live` $live^ `:` type($live))?
    attr-dict `:` type($source) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Tile_StoreOp : Tile_Op<"store", [AttrSizedOperandSegments]> {
  let summary = "Stores a tile to a tensor in memory, or a source";
  let description = [{
    The mirror of `tile.load`: rows outside `[lower, upper)` and columns beyond
    the destination are not written. Rounds to nearest even when the
    destination's float type is narrower. With `transposed` columns of
    the tile are rows of memory, as there.
  }];
  let arguments = (ins
    Arg<Tile_TileType, "The tile that is stored.">:$value,
    Arg<Tile_Memory, "Strided tensor, of unit stride in the last dimension "
        "unless `vector` is set, or a source whose rows lie one after the "
        "other.", [MemWrite]>:$destination,
    Arg<Variadic<Index>, "Where the tile begins in memory, one index for each "
        "dimension; of a source these are batch, head, row and, without "
        "`vector`, column.">:$indices,
    Arg<Optional<Index>, "First row of memory that is written, counted as the "
        "indices are; there is no bound if absent.">:$lower,
    Arg<Optional<Index>, "End of the rows of memory that are written; goes "
        "with `lower`.">:$upper,
    Arg<UnitAttr, "Memory has one element for each row, and no dimension of "
        "columns.">:$vector,
    Arg<UnitAttr, "Columns of the tile are rows of memory.">:$transposed,
    Arg<UnitAttr, "Memory has the elements in the order of registers "
        "(FragmentOrder.h).">:$fragment_order);
  let assemblyFormat = [{
    (`vector` $vector^)? (`transposed` $transposed^)? $value `,` $destination `[` $indices `]`
    (`rows` `(` $lower^ `to` $upper `)`)?
    attr-dict `:` type($value) `,` type($destination)
  }];
  let hasVerifier = 1;
}

include "attn/Dialect/Tile/IR/TileSumOps.td"

//===----------------------------------------------------------------------===//
// Compute
//===----------------------------------------------------------------------===//

def Tile_FillOp : Tile_Op<"fill", [Pure]> {
  let summary = "A tile with one scalar in every element";
  let arguments = (ins
    Arg<AnyTypeOf<[AnyFloat, AnySignlessInteger]>, "The scalar, of the tile's "
        "element type.">:$value);
  let results = (outs
    Res<Tile_TileType, "The tile.">:$result);
  let assemblyFormat = "$value attr-dict `:` type($value) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_DotOp : Tile_Op<"dot", [Pure, AttrSizedOperandSegments]> {
  let summary = "Matrix product of tiles, accumulated in f32";
  let description = [{
    `result = diag(scale) * acc + lhs * rhs`, with `rhs` transposed when
    `transpose_rhs` is set, and `lhs` when `transpose_lhs` is: lhs RxK (or KxR),
    rhs KxC (or CxK), acc RxC f32 (absent: 0), scale Rx1 f32 (absent: 1). Sums
    are in f32; the order of additions over K is the target's, fixed for a given
    schedule. With `tf32` the sides, of f32, may be rounded to tf32 first, on
    targets that multiply tf32. A left side of bf16 beside a right one of f32 is
    taken for its own numbers in f32, on CPUs alone; numbers on the right below
    2^-126, and what is left of one there, may count as 0.

    With `ramp`, a scalar f32, column c of the result gets `ramp * c` added. A
    bias that is linear in the key, such as ALiBi, then needs no pass over the
    scores on targets that fold it into the product (augmented K).

    Rows on chip have as many channels as a swizzle takes, 64 or 128 for 40 or
    96, and the rest is 0: `live_depth` and `live_width` let a product leave it
    out.

    Example:

    ```mlir
    # func.func @example(
    #     %q: !tile.tile<32x64xf32>, %k: !tile.tile<128x64xf32>,
    #     %p: !tile.tile<32x128xf32>, %v: !tile.tile<128x64xf32>,
    #     %acc: !tile.tile<32x64xf32>, %rho: !tile.tile<32x1xf32>, %x: f32) {
    %s = tile.dot %q, %k transpose_rhs
        : !tile.tile<32x64xf32>, !tile.tile<128x64xf32> -> !tile.tile<32x128xf32>
    %t = tile.dot %q, %k ramp %x transpose_rhs
        : !tile.tile<32x64xf32>, !tile.tile<128x64xf32> -> !tile.tile<32x128xf32>
    %o = tile.dot %p, %v acc %acc scale %rho
        : !tile.tile<32x128xf32>, !tile.tile<128x64xf32> -> !tile.tile<32x64xf32>
    %dk = tile.dot %p, %q transpose_lhs
        : !tile.tile<32x128xf32>, !tile.tile<32x64xf32> -> !tile.tile<128x64xf32>
    #   return
    # }
    ```
  }];
  let arguments = (ins
    Arg<Tile_TileType, "Left side, RxK, or KxR with `transpose_lhs`.">:$lhs,
    Arg<Tile_TileType, "Right side, KxC, or CxK with `transpose_rhs`, of the "
        "left side's element type, or of f32 beside bf16.">:$rhs,
    Arg<Optional<Tile_TileType>, "What the product is added to, RxC in f32; 0 "
        "if absent.">:$acc,
    Arg<Optional<Tile_TileType>, "Factor of each row of `acc`, Rx1 in f32; 1 "
        "if absent.">:$scale,
    Arg<Optional<F32>, "Column c of the result gets this times c added; 0 if "
        "absent.">:$ramp,
    Arg<UnitAttr, "The right side is given as CxK.">:$transpose_rhs,
    Arg<UnitAttr, "Sides, which are of f32, may be rounded to tf32.">:$tf32,
    Arg<UnitAttr, "The left side is given as KxR.">:$transpose_lhs,
    Arg<OptionalAttr<I64Attr>, "Elements of the depth K, from the first on, "
        "that may be other than 0; all if absent.">:$live_depth,
    Arg<OptionalAttr<I64Attr>, "Columns of `acc`, from the first on, that may "
        "be other than 0; goes with `acc`.">:$live_width);
  let builders = [OpBuilder<(ins "Type":$result, "Value":$lhs, "Value":$rhs,
      "Value":$acc, "Value":$scale, "Value":$ramp,
      CArg<"bool", "false">:$transpose_rhs, CArg<"bool", "false">:$tf32,
      CArg<"bool", "false">:$transpose_lhs), [{
    build($_builder, $_state, result, lhs, rhs, acc, scale, ramp, transpose_rhs,
          tf32, transpose_lhs, /*live_depth=*/IntegerAttr(),
          /*live_width=*/IntegerAttr());
  }]>];
  let results = (outs
    Res<Tile_TileType, "The product, RxC in f32.">:$result);
  let extraClassDeclaration = [{
    /// Elements that each element of the result sums up.
    int64_t getDepth() {
      auto type = getLhs().getType();
      return getTransposeLhs() ? type.getRows() : type.getCols();
    }
  }];
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

def Tile_MapOp : Tile_Op<"map", [RecursiveMemoryEffects]> {
  let summary = "Elementwise function on tiles, with element positions";
  let description = [{
    Applies the body to every element. Block arguments: row and column within
    the tile (i32), then one scalar per input. Inputs of size 1 in a dimension
    broadcast. The body may read scalars and memrefs from above (uniform
    values and captures); `memref.load` in it must be in bounds for every
    element of the tile.

    Example:

    ```mlir
    # func.func @example(
    #     %s: !tile.tile<32x128xf32>, %m: !tile.tile<32x1xf32>) {
    %p = tile.map ins(%s, %m : !tile.tile<32x128xf32>, !tile.tile<32x1xf32>) {
    ^bb0(%r: i32, %c: i32, %x: f32, %y: f32):
      %d = arith.subf %x, %y : f32
      %e = math.exp %d : f32
      tile.yield %e : f32
    } -> !tile.tile<32x128xf32>
    #   return
    # }
    ```
  }];
  let arguments = (ins
    Arg<Variadic<Tile_TileType>, "Tiles whose elements the body takes; a size "
        "of 1 broadcasts.">:$inputs);
  let results = (outs
    Res<Variadic<Tile_TileType>, "One tile, all of one size, for each value "
        "that the body yields.">:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    (`ins` `(` $inputs^ `:` type($inputs) `)`)? attr-dict-with-keyword
    $body `->` type($results)
  }];
  let hasVerifier = 1;
}

def Tile_TurnOp : Tile_Op<"turn",
    [RecursiveMemoryEffects, AllTypesMatch<["input", "result"]>]> {
  let summary = "Function of pairs of a row's elements, with positions";
  let description = [{
    Applies the body to both elements of each pair of columns that `rotary` names
    (`#attn.rotary`), and leaves the columns behind the pairs. Block arguments:
    row and pair within the tile (i32), then the two elements. The body yields
    what stands in their place. It may read as that of `tile.map`.

    On a GPU the result is where the input is, in shared memory: a load that
    nothing else reads.

    Example:

    ```mlir
    # func.func @example(%k: !tile.tile<64x128xbf16>) {
    %t = tile.turn %k, #attn.rotary<64, halves> {
    ^bb0(%r: i32, %c: i32, %x: bf16, %y: bf16):
      %n = arith.negf %y : bf16
      tile.yield %n, %x : bf16, bf16
    } : !tile.tile<64x128xbf16>
    #   return
    # }
    ```
  }];
  let arguments = (ins
    Arg<Tile_TileType, "Rows.">:$input,
    Arg<Attn_RotaryAttr, "Which columns are pairs.">:$rotary);
  let results = (outs Res<Tile_TileType, "The rows, turned.">:$result);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $input `,` $rotary attr-dict-with-keyword $body `:` type($input)
  }];
  let hasVerifier = 1;
}

def Tile_ReduceOp : Tile_Op<"reduce", [AttrSizedOperandSegments, Pure]> {
  let summary = "Reduces the columns of each row (or the rows of each column)";
  let description = [{
    `inputs` are n tiles RxC, `identities` n scalars; the body combines two
    n-tuples (a..., b...) -> n and must be associative with those identities.
    Results are Rx1 (with `rows`: 1xC, reducing over the rows). Unless
    `ordered` is set the body is also commutative, and elements may be taken in
    any fixed order; with it, the left operand precedes.

    Example:

    ```mlir
    # func.func @example(%s: !tile.tile<32x128xf32>, %ninf: f32) {
    %m = tile.reduce ins(%s : !tile.tile<32x128xf32>) identity(%ninf : f32) {
    ^bb0(%a: f32, %b: f32):
      %x = arith.maximumf %a, %b : f32
      tile.yield %x : f32
    } -> !tile.tile<32x1xf32>
    #   return
    # }
    ```
  }];
  let arguments = (ins
    Arg<Variadic<Tile_TileType>, "Tiles of one size, RxC, which are reduced "
        "together.">:$inputs,
    Arg<Variadic<AnyTypeOf<[AnyFloat, AnySignlessInteger]>>, "The identity of "
        "the body, one scalar for each input.">:$identities,
    Arg<UnitAttr, "Rows are reduced instead of columns.">:$rows,
    Arg<UnitAttr, "The body need not be commutative: the element that comes "
        "first is its left operand.">:$ordered);
  let results = (outs
    Res<Variadic<Tile_TileType>, "One tile for each input, Rx1, or with `rows` "
        "1xC.">:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    (`rows` $rows^)? (`ordered` $ordered^)?
    `ins` `(` $inputs `:` type($inputs) `)`
    `identity` `(` $identities `:` type($identities) `)`
    attr-dict-with-keyword $body `->` type($results)
  }];
  let hasVerifier = 1;
}

def Tile_PadOp : Tile_Op<"pad", [Pure]> {
  let summary = "A tile with further columns of zeros";
  let description = [{
    The result has the columns of `value` from its column `first` on, and zeros
    elsewhere. A step that computed the weights of half a tile of keys pads them
    to multiply the whole tile of values. Only in the roles of GPU kernels.

    Example:

    ```mlir
    # func.func @example(
    #     %p: !tile.tile<64x64xf32>) -> !tile.tile<64x128xf32> {
    %wide = tile.pad %p first 64
        : !tile.tile<64x64xf32> -> !tile.tile<64x128xf32>
    #   return %wide : !tile.tile<64x128xf32>
    # }
    ```
  }];
  let arguments = (ins
    Arg<Tile_TileType, "The columns that are kept.">:$value,
    Arg<I64Attr, "Column of the result at which they begin.">:$first);
  let results = (outs
    Res<Tile_TileType, "A tile of as many rows and of more columns.">:$result);
  let assemblyFormat = [{
    $value `first` $first attr-dict `:` type($value) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Tile_AnyOp : Tile_Op<"any", [Pure]> {
  let summary = "Whether any element of a tile is true";
  let description = [{
    From a tile to a scalar, such as whether a tile of keys has a live pair and
    must be visited.

    With `by_rows` each group of rows may get an answer of its own, so that
    threads that hold different rows need not wait for each other. The answer
    then chooses between two ways to compute: the one for `true` must be right
    for every row, the one for `false` for rows without a true element. In
    neither may rows depend on each other.

    Example:

    ```mlir
    # func.func @example(%live: !tile.tile<1x128xi1>) -> i1 {
    %some = tile.any %live : !tile.tile<1x128xi1>
    #   return %some : i1
    # }
    ```
  }];
  let arguments = (ins
    Arg<Tile_TileType, "A tile of i1.">:$value,
    Arg<UnitAttr, "Rows that are computed apart from each other may see "
        "different answers.">:$by_rows);
  let results = (outs
    Res<I1, "Whether any element is true.">:$result);
  let assemblyFormat = "$value (`by_rows` $by_rows^)? attr-dict `:` type($value)";
  let hasVerifier = 1;
}

def Tile_BitsOp : Tile_Op<"bits", [Pure]> {
  let summary = "Packs columns of i1 into words of 32 bits";
  let description = [{
    Of each Rx1 tile of i1, ceil(R / 32) words: bit r % 32 of word r / 32 is
    element r; bits beyond the rows are 0. Words of the first tile come first.
    A loop over the rows that are true, such as over the tiles of keys that must
    be visited, walks the bits of these words. GPUs only.

    Example:

    ```mlir
    # func.func @example(%live: !tile.tile<64x1xi1>,
    #     %whole: !tile.tile<64x1xi1>) -> i32 {
    %w:4 = tile.bits %live, %whole : !tile.tile<64x1xi1>, !tile.tile<64x1xi1>
    #   return %w#0 : i32
    # }
    ```
  }];
  let arguments = (ins
    Arg<Variadic<Tile_TileType>, "Tiles of i1 of one column.">:$values);
  let results = (outs
    Res<Variadic<I32>, "ceil(R / 32) words for each tile of R rows, those of "
        "the first tile first.">:$words);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

def Tile_TruthsOp : Tile_Op<"truths", [Pure]> {
  let summary = "Unpacks words of 32 bits into a row of i1";
  let description = [{
    Element c of the 1xC tile of i1 is bit c % 32 of word c / 32: the inverse of
    `tile.bits`. Loads take the result for their `live` rows. GPUs only.

    Example:

    ```mlir
    # func.func @example(%a: i32, %b: i32) {
    %live = tile.truths %a, %b : !tile.tile<1x64xi1>
    #   return
    # }
    ```
  }];
  let arguments = (ins
    Arg<Variadic<I32>, "ceil(C / 32) words, of which bit c % 32 of word c / 32 "
        "is element c.">:$words);
  let results = (outs
    Res<Tile_TileType, "A tile of i1 of one row.">:$result);
  let assemblyFormat = "$words attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Tile_StoreBitsOp : Tile_Op<"store_bits"> {
  let summary = "Stores a tile of i1 as a packed mask, column by column";
  let description = [{
    Of an RxC tile of i1, element (r, c) becomes bit (row + r) % 32 of
    `destination[indices..., column + c, (row + r) / 32]`, whose last two sizes
    are at least C and ceil(R / 32). `row` is a multiple of 16, as R is. Other
    bits of these words stay. A later kernel then reads the mask of a tile as a
    few words. GPUs only.

    Example:

    ```mlir
    # func.func @example(%live: !tile.tile<64x128xi1>,
    #     %bits: memref<?x128x2xi32>, %n: index, %zero: index) {
    tile.store_bits %live, %bits[%n] row(%zero) column(%zero)
        : !tile.tile<64x128xi1>, memref<?x128x2xi32>
    #   return
    # }
    ```
  }];
  let arguments = (ins
    Arg<Tile_TileType, "The tile of i1 that is stored, RxC, where R is a "
        "multiple of 16.">:$value,
    Arg<AnyMemRef, "Memory of i32, [..., columns, words of a "
        "column].", [MemWrite]>:$destination,
    Arg<Variadic<Index>, "One index for each dimension of memory before the "
        "last two.">:$indices,
    Arg<Index, "Row in memory of the tile's first row, a multiple of 16.">:$row,
    Arg<Index, "Column in memory of the tile's first column.">:$column);
  let assemblyFormat = [{
    $value `,` $destination `[` $indices `]` `row` `(` $row `)`
    `column` `(` $column `)` attr-dict `:` type($value) `,` type($destination)
  }];
  let hasVerifier = 1;
}

def Tile_PrefetchOp : Tile_Op<"prefetch"> {
  let summary = "Asks for a tile that a later block loads";
  let description = [{
    The `rows` x `columns` elements from `source[indices...]` on, of its last two
    dimensions, are to come into the cache that all multiprocessors share. All of
    them exist. Nothing is read or changed, so that it may come before what is
    written there is waited for.

    On a CPU they come into the caches of the core, while it computes the next
    product of the block, in shares; where none follows nothing is asked for.
    There elements that do not exist are passed over.

    Example:

    ```mlir
    # func.func @example(%S: memref<?x?x128x128xbf16, strided<[?, ?, ?, 1]>>,
    #     %b: index, %h: index, %row: index, %zero: index) {
    tile.prefetch %S[%b, %h, %row, %zero] rows(32) columns(128)
        : memref<?x?x128x128xbf16, strided<[?, ?, ?, 1]>>
    #   return
    # }
    ```
  }];
  let arguments = (ins
    Arg<AnyMemRef, "Memory whose elements of a row follow one another.">:$source,
    Arg<Variadic<Index>, "One index for each dimension of memory.">:$indices,
    Arg<ConfinedAttr<I64Attr, [IntPositive]>, "Rows that are asked for.">:$rows,
    Arg<ConfinedAttr<I64Attr, [IntPositive]>, "Elements of each row.">:$columns);
  let assemblyFormat = [{
    $source `[` $indices `]` `rows` `(` $rows `)` `columns` `(` $columns `)`
    attr-dict `:` type($source)
  }];
  let hasVerifier = 1;
}

def Tile_RowRangeOp : Tile_Op<"row_range", [Pure]> {
  let summary = "The rows that bounds of key tiles are computed from";
  let description = [{
    Returns the range of rows of a block unchanged. A consumer warpgroup may
    substitute its own sub-range for the results, so everything that is computed
    from them must be valid for any sub-range: the end of the keys that some row
    of the range sees becomes the end for fewer rows.

    Example:

    ```mlir
    # func.func @example(%row0: index, %row1: index, %keys: index) -> index {
    %first, %last = tile.row_range %row0 to %row1
    #   %one = arith.constant 1 : index
    #   %next = arith.addi %last, %one : index
    %end = arith.minsi %next, %keys : index
    #   return %end : index
    # }
    ```
  }];
  let arguments = (ins
    Arg<Index, "First row of the block.">:$firstRow,
    Arg<Index, "Last row of the block, which belongs to it.">:$lastRow);
  let results = (outs
    Res<Index, "The first row, or a later one where part of the block works "
        "alone.">:$first,
    Res<Index, "The last row, or an earlier one where part of the block works "
        "alone.">:$last);
  let assemblyFormat = "$firstRow `to` $lastRow attr-dict";
}

def Tile_ScanOp : Tile_Op<"scan", [AttrSizedOperandSegments, Pure]> {
  let summary = "Exclusive scan along the columns of each row";
  let description = [{
    Element (r, c) of the result is the product, in column order, of the
    elements before c (or after c, with `reverse`); the identity where there
    are none. Inputs, identities and body as in an ordered `tile.reduce`.
  }];
  let arguments = (ins
    Arg<Variadic<Tile_TileType>, "Tiles of one size, which are scanned "
        "together.">:$inputs,
    Arg<Variadic<AnyTypeOf<[AnyFloat, AnySignlessInteger]>>, "The identity of "
        "the body, one scalar for each input.">:$identities,
    Arg<UnitAttr, "Each result is the product of the elements after "
        "it.">:$reverse);
  let results = (outs
    Res<Variadic<Tile_TileType>, "One tile for each input, of its "
        "type.">:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    (`reverse` $reverse^)? `ins` `(` $inputs `:` type($inputs) `)`
    `identity` `(` $identities `:` type($identities) `)`
    attr-dict-with-keyword $body `->` type($results)
  }];
  let hasVerifier = 1;
}

def Tile_SolveOp : Tile_Op<"solve", [Pure]> {
  let summary = "Solves a unit lower triangular system by substitution";
  let description = [{
    X with `(I + L) X = rhs`, where L are the elements of `matrix` (CxC) below its
    diagonal; the others are not looked at. Row r of X is
    `rhs[r] - sum_{j < r} matrix[r, j] X[j]`, in f32 and in this order of j. The
    delta rule needs it: a token of a chunk writes its value less what earlier
    tokens of the chunk have written under its key. CPUs only.

    Example:

    ```mlir
    # func.func @example(%l: !tile.tile<16x16xf32>, %z: !tile.tile<16x64xf32>) {
    %y = tile.solve %l, %z
        : !tile.tile<16x16xf32>, !tile.tile<16x64xf32> -> !tile.tile<16x64xf32>
    #   return
    # }
    ```
  }];
  let arguments = (ins
    Arg<Tile_TileType, "CxC tile of f32, whose elements below the diagonal are "
        "L.">:$matrix,
    Arg<Tile_TileType, "Right side, a tile of f32 of C rows.">:$rhs);
  let results = (outs
    Res<Tile_TileType, "The solution X, of the type of `rhs`.">:$result);
  let assemblyFormat = [{
    $matrix `,` $rhs attr-dict `:` type($matrix) `,` type($rhs) `->`
    type($result)
  }];
  let hasVerifier = 1;
}

def Tile_FoldOp : Tile_Op<"fold", [
    AttrSizedOperandSegments, RecursiveMemoryEffects]> {
  let summary = "Folds keys one by one into a state (the element path)";
  let description = [{
    For each row r and then each column c in order, and each channel d, the
    body maps (r, c : i32, scores(r, c)..., values(c, d)..., state...) to the
    new state. Scores are RxC, values CxD, state tiles Rx1 or RxD; an Rx1
    state must not depend on the values. Elements whose `live` (RxC, i1) is
    false are skipped. With `threshold = n` a key whose score is at most state n
    of its row changes nothing, unless that is the lowest number of its type,
    "none yet", or a NaN: lowerings test keys side by side and fold those alone
    that pass.
  }];
  let arguments = (ins
    Arg<Variadic<Tile_TileType>, "Tiles of scores, RxC.">:$scores,
    Arg<Variadic<Tile_TileType>, "Tiles of values, CxD; none where no state "
        "has channels.">:$values,
    Arg<Optional<Tile_TileType>, "RxC tile of i1: keys where it is false are "
        "skipped; if absent, none are.">:$live,
    Arg<Variadic<Tile_TileType>, "The state before the first key: tiles Rx1 or "
        "RxD.">:$states,
    Arg<OptionalAttr<I64Attr>, "The state that scores must exceed to count, by "
        "its number; goes with one score and no values.">:$threshold);
  let builders = [OpBuilder<(ins "TypeRange":$results, "ValueRange":$scores,
      "ValueRange":$values, "Value":$live, "ValueRange":$states), [{
    build($_builder, $_state, results, scores, values, live, states,
          /*threshold=*/IntegerAttr());
  }]>];
  let results = (outs
    Res<Variadic<Tile_TileType>, "The state after the last key, of the types "
        "of `states`.">:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    `scores` `(` $scores `:` type($scores) `)`
    (`values` `(` $values^ `:` type($values) `)`)?
    (`live` `(` $live^ `:` type($live) `)`)?
    `states` `(` $states `:` type($states) `)`
    attr-dict-with-keyword $body `->` type($results)
  }];
  let hasVerifier = 1;
}

include "attn/Dialect/Tile/IR/TileLoopOps.td"

def Tile_YieldOp : Tile_Op<"yield", [
    Pure, Terminator, ReturnLike,
    ParentOneOf<["MapOp", "TurnOp", "ReduceOp", "ScanOp", "FoldOp", "RowsOp",
                 "StreamOp", "MergeOp"]>]> {
  let summary = "Ends a body with its values";
  let arguments = (ins
    Arg<Variadic<AnyType>, "The values of the body, as the enclosing operation "
        "asks for them.">:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

#endif // ATTN_DIALECT_TILE_IR_TILEOPS_TD
