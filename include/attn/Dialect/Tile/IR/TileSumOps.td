//===- TileSumOps.td - Sums in memory ---------------------*- tablegen -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_TILE_IR_TILESUMOPS_TD
#define ATTN_DIALECT_TILE_IR_TILESUMOPS_TD

def Tile_AccumulateOp : Tile_Op<"accumulate", [AttrSizedOperandSegments]> {
  let summary = "Adds a tile to a strided tensor of f32 in memory";
  let description = [{
    Each element of memory that a `tile.store` would write becomes the sum of
    what it holds and the tile's: bounds, columns and vectors are as there.

    No other block of the launch may access these elements, and tiles of the
    kernel that overlap in memory start at the same row: then sums have the order
    of the program, and two runs give the same bits. With `any_order`
    other blocks may add to them, each element at once; the order, and so the
    last bits of sums of three or more numbers, are those of the run. With a
    `turn` of a counter in memory as well, the blocks add one after the other: the
    tile is added when the counter is `turn`, which then becomes `turn` + 1. Work
    tiles with lower turns have to be drawn before those with higher ones, or
    nobody comes to add. Producer and compute roles alone have someone who keeps
    turns.

    Example:

    ```mlir
    # func.func @example(
    #     %dq: !tile.tile<64x128xf32>, %DQ: memref<?x?x?x128xf32>,
    #     %b: index, %h: index, %i0: index, %zero: index, %rows: index,
    #     %counters: memref<?x?x?xi32>, %m: index, %n: index) {
    tile.accumulate %dq, %DQ[%b, %h, %i0, %zero] rows(%zero to %rows)
        : !tile.tile<64x128xf32>, memref<?x?x?x128xf32>
    tile.accumulate any_order %dq, %DQ[%b, %h, %i0, %zero] rows(%zero to %rows)
        : !tile.tile<64x128xf32>, memref<?x?x?x128xf32>
    tile.accumulate any_order %dq, %DQ[%b, %h, %i0, %zero]
        turn(%n of %counters[%b, %h, %m] : memref<?x?x?xi32>)
        : !tile.tile<64x128xf32>, memref<?x?x?x128xf32>
    #   return
    # }
    ```
  }];
  let arguments = (ins
    Arg<Tile_TileType, "The tile of f32 that is added.">:$value,
    Arg<AnyMemRef, "Strided tensor of f32, of unit stride in the last "
        "dimension unless `vector` is set.", [MemRead, MemWrite]>:$destination,
    Arg<Variadic<Index>, "Where the tile begins in memory, one index for each "
        "dimension.">:$indices,
    Arg<Optional<Index>, "First row of memory that is added to, counted as the "
        "indices are; there is no bound if absent.">:$lower,
    Arg<Optional<Index>, "End of the rows of memory that are added to; goes "
        "with `lower`.">:$upper,
    Arg<Optional<Index>, "The counter's value when the tile is added.">:$turn,
    Arg<Optional<AnyMemRef>, "Counters of i32 that say whose turn it "
        "is.", [MemRead, MemWrite]>:$counters,
    Arg<Variadic<Index>, "Which of them, one index for each of their "
        "dimensions.">:$counter,
    Arg<UnitAttr, "Memory has one element for each row, and no dimension of "
        "columns.">:$vector,
    Arg<UnitAttr, "Other blocks may add to the same elements, in any "
        "order.">:$any_order);
  let assemblyFormat = [{
    (`any_order` $any_order^)? (`vector` $vector^)? $value `,`
    $destination `[` $indices `]` (`rows` `(` $lower^ `to` $upper `)`)?
    (`turn` `(` $turn^ `of` $counters `[` $counter `]` `:` type($counters) `)`)?
    attr-dict `:` type($value) `,` type($destination)
  }];
  let hasVerifier = 1;
}

#endif // ATTN_DIALECT_TILE_IR_TILESUMOPS_TD
