//===- TileSumOps.td - Sums in memory and of states -------*- tablegen -*-===//
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
        "order.">:$any_order,
    Arg<UnitAttr, "Memory has the elements in the order of registers "
        "(FragmentOrder.h); goes with `any_order`.">:$fragment_order);
  let assemblyFormat = [{
    (`any_order` $any_order^)? (`vector` $vector^)? $value `,`
    $destination `[` $indices `]` (`rows` `(` $lower^ `to` $upper `)`)?
    (`turn` `(` $turn^ `of` $counters `[` $counter `]` `:` type($counters) `)`)?
    attr-dict `:` type($value) `,` type($destination)
  }];
  let hasVerifier = 1;
}

def Tile_MergeOp : Tile_Op<"merge", [
    AttrSizedOperandSegments, SingleBlock, Pure]> {
  let summary = "One state of those that warps have of parts of the keys";
  let description = [{
    Where the warps of a GPU's block take keys of their own of each tile, for the
    same rows, each comes to a state of its own: statistics (tiles of one column)
    and values, which are here combined, in the order of the warps. The body takes
    the statistics of two states, the left one first, and yields the combined
    statistics, then alpha and beta: each value becomes alpha v1 + beta v2, where a
    factor of 0 selects 0. Behind the op there is one state, of which each warp has
    some channels. Where one warp, or a warpgroup, has all keys, it gives what it
    takes. With `part` and `cluster(c)` the states of the c blocks of a cluster are
    combined, too, in the order of their parts of the keys; of warpgroups each has
    some channels then.

    With `warps(n)` each of n warps takes every n-th step of the loop that gives the
    values, from what the loop starts with, which is to be the identity, and behind
    the op each has the whole state.

    Example:

    ```mlir
    # func.func @example(
    #     %m: !tile.tile<8x1xf32>, %l: !tile.tile<8x1xf32>,
    #     %o: !tile.tile<8x128xf32>) {
    %s:3 = tile.merge stats(%m : !tile.tile<8x1xf32>)
        values(%o, %l : !tile.tile<8x128xf32>, !tile.tile<8x1xf32>) {
    ^bb0(%a: f32, %b: f32):
      %c = arith.maximumf %a, %b : f32
      %da = arith.subf %a, %c : f32
      %db = arith.subf %b, %c : f32
      %fa = math.exp %da : f32
      %fb = math.exp %db : f32
      tile.yield %c, %fa, %fb : f32, f32, f32
    } -> !tile.tile<8x1xf32>, !tile.tile<8x128xf32>, !tile.tile<8x1xf32>
    #   return
    # }
    ```
  }];
  let arguments = (ins
    Arg<Variadic<Tile_TileType>, "Statistics of the rows, one column "
        "each.">:$stats,
    Arg<Variadic<Tile_TileType>, "What these scale: tiles of f32 of as many "
        "rows.">:$values,
    Arg<Optional<Index>, "The part of the keys that this block of a cluster "
        "has; goes with `cluster`.">:$part,
    Arg<OptionalAttr<I64Attr>, "Number of blocks of a cluster whose states are "
        "combined, 2 to 8; those of one block if absent.">:$cluster,
    Arg<OptionalAttr<I64Attr>, "Number of warps that divide the loop's steps, 2 or "
        "more; goes without `cluster`.">:$warps);
  let results = (outs
    Res<Variadic<Tile_TileType>, "The state: statistics, then values.">:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    `stats` `(` $stats `:` type($stats) `)`
    `values` `(` $values `:` type($values) `)`
    (`part` `(` $part^ `)`)? (`cluster` `(` $cluster^ `)`)?
    (`warps` `(` $warps^ `)`)? attr-dict-with-keyword $body `->` type($results)
  }];
  let hasVerifier = 1;
}

#endif // ATTN_DIALECT_TILE_IR_TILESUMOPS_TD
