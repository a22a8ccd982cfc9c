//===- TileLoopOps.td - Loops over rows and tiles of keys --*- tablegen -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_TILE_IR_TILELOOPOPS_TD
#define ATTN_DIALECT_TILE_IR_TILELOOPOPS_TD

def Tile_RowsOp : Tile_Op<"rows", [
    AttrSizedOperandSegments, RecursiveMemoryEffects]> {
  let summary = "Runs a body on blocks of rows";
  let description = [{
    Cuts the rows of `ins` and `outs` (all of R rows) into blocks of `block`
    rows; the body takes the first row of the block (`index`, within the tile)
    and one `block`-row tile per operand, and yields the new value of each
    `outs` block. Blocks are independent: a CPU runs them one after the other
    so that a block's scores stay in cache, a GPU gives them to warpgroups.
    Blocks that start at or beyond `extent` are skipped and keep their `outs`.
  }];
  let arguments = (ins
    Arg<Variadic<Tile_TileType>, "Tiles that the body reads, of R "
        "rows.">:$inputs,
    Arg<Variadic<Tile_TileType>, "Tiles of R rows that the body gives new "
        "values to, block by block.">:$outs,
    Arg<Optional<Index>, "Blocks that start at this row of the tile or beyond "
        "it are skipped; if absent, none are.">:$extent,
    Arg<I64Attr, "Number of rows of a block, which divides R.">:$block);
  let results = (outs
    Res<Variadic<Tile_TileType>, "The new value of each tile of "
        "`outs`.">:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $block (`ins` `(` $inputs^ `:` type($inputs) `)`)?
    (`outs` `(` $outs^ `:` type($outs) `)`)? (`extent` `(` $extent^ `)`)?
    attr-dict-with-keyword $body (`->` type($results)^)?
  }];
  let hasVerifier = 1;
}

def Tile_StreamOp : Tile_Op<"stream", [
    AttrSizedOperandSegments, RecursiveMemoryEffects,
    RangedTypesMatchWith<"results have the types of the initial state", "inits",
      "results", "::llvm::make_range($_self.begin(), $_self.end())">]> {
  let summary = "Runs a body on every tile of keys that may be live, by class";
  let description = [{
    Tiles of `step` keys enter a state, `inits`, one after the other. Each class
    of tiles (full and partial blocks, in the words of block-sparse masks) has a
    body, which takes the tile's first key (`index`), the further arguments
    named below and the state, and yields the new state:

    - `full`: every key is live for every row.
    - `linear`: the same, and the scores have a term that is linear in the key.
      Its second argument (i1) says whether the tile lies before `linear_end`.
    - `partial`: right for every tile. Its second argument (i1), `whole`, is
      true for a tile that is known to be full, for which the body may omit the
      mask.

    Tiles are counted from key `first` on and end with key `end`. Keys outside of
    `live` are dead, those of `core` are full. `classify`, for other tiles, maps
    the first key to whether the tile is dead and whether it is full (two i1);
    without it no tile of `live` is taken for dead. Where `linear` is true, full
    tiles are linear, but for those between `linear_end` and `linear_start` if
    these are there; with it, full tiles that are not linear take `partial`. Tiles
    come in ascending order, but linear ones before other full ones: the states
    of these must commute.

    With `listed` the tiles come from two lists that another kernel has written
    (a block-sparse index): so many partial tiles, then so many full ones.
    `number` maps a place in a list, and whether that is the list of full tiles,
    to the number of the tile (i32), whose first key is that times `step`.
    `partial` then takes, after the first key, the tile's number and place
    (`index`), and whether the tile may have keys that do not exist (i1), as the
    first of its list may. With `ahead` numbers of partial tiles are looked up
    one tile ahead.

    Which loops these become, and which tests they make, is the schedule's
    (`tile-expand-stream`).

    Example: ranges, as a causal mask gives them, and lists, as a user may.

    ```mlir
    # func.func @example(%keys: index, %end: index, %whole_end: index,
    #     %count: index, %full_count: index, %indices: memref<2x?xi32>,
    #     %x: !tile.tile<64x1xf32>) {
    # %zero = arith.constant 0 : index
    # %one = arith.constant 1 : index
    %y = tile.stream keys(%zero to %keys) live(%zero to %end)
        core(%zero to %whole_end) step 128 init(%x : !tile.tile<64x1xf32>)
        full {
        ^bb0(%j: index, %state: !tile.tile<64x1xf32>):
          tile.yield %state : !tile.tile<64x1xf32>
        } partial {
        ^bb0(%j: index, %whole: i1, %state: !tile.tile<64x1xf32>):
          tile.yield %state : !tile.tile<64x1xf32>
        }
    %z = tile.stream listed(%count, %full_count) step 128
        init(%x : !tile.tile<64x1xf32>) number {
        ^bb0(%place: index, %is_full: i1):
          %list = arith.select %is_full, %one, %zero : index
          %tile = memref.load %indices[%list, %place] : memref<2x?xi32>
          tile.yield %tile : i32
        } full {
        ^bb0(%j: index, %state: !tile.tile<64x1xf32>):
          tile.yield %state : !tile.tile<64x1xf32>
        } partial {
        ^bb0(%j: index, %tile: index, %place: index, %ragged: i1,
             %state: !tile.tile<64x1xf32>):
          tile.yield %state : !tile.tile<64x1xf32>
        }
    #   return
    # }
    ```
  }];
  let arguments = (ins
    Arg<Optional<Index>, "The key that tiles are counted from; absent with "
        "`num_partial`, where a list says which tiles there are.">:$first,
    Arg<Optional<Index>, "End of the keys, which cuts the last tile; goes with "
        "`first`.">:$end,
    Arg<Optional<Index>, "First key that may be live; absent with "
        "`num_partial`.">:$lower,
    Arg<Optional<Index>, "End of the keys that may be live; goes with "
        "`lower`.">:$upper,
    Arg<Optional<Index>, "First of the keys that are live for every row; there "
        "is no core if absent.">:$core_lower,
    Arg<Optional<Index>, "End of these keys; goes with "
        "`core_lower`.">:$core_upper,
    Arg<Optional<I1>, "Whether full tiles are linear; there are no linear "
        "tiles if absent.">:$linear,
    Arg<Optional<Index>, "End of the linear tiles in front; all full tiles are "
        "linear if absent.">:$linear_end,
    Arg<Optional<Index>, "First key of the linear tiles at the back; goes with "
        "`linear_end`.">:$linear_start,
    Arg<Optional<Index>, "Number of partial tiles in the list; ranges say "
        "which tiles there are if absent.">:$num_partial,
    Arg<Optional<Index>, "Number of full tiles in the list; goes with "
        "`num_partial`.">:$num_full,
    Arg<I64Attr, "Number of keys of a tile.">:$step,
    Arg<UnitAttr, "Numbers of partial tiles in the list are looked up one tile "
        "ahead.">:$ahead,
    Arg<Variadic<AnyType>, "The state before the first tile.">:$inits);
  let results = (outs
    Res<Variadic<AnyType>, "The state after the last tile.">:$results);
  let regions = (region MaxSizedRegion<1>:$number, MaxSizedRegion<1>:$classify,
    MaxSizedRegion<1>:$full_body, MaxSizedRegion<1>:$linear_body,
    SizedRegion<1>:$partial_body);
  let assemblyFormat = [{
    (`keys` `(` $first^ `to` $end `)`)? (`live` `(` $lower^ `to` $upper `)`)?
    (`core` `(` $core_lower^ `to` $core_upper `)`)?
    (`linear` `(` $linear^ (`outside` $linear_end^ `to` $linear_start)? `)`)?
    (`listed` `(` $num_partial^ `,` $num_full `)`)? (`ahead` $ahead^)?
    `step` $step (`init` `(` $inits^ `:` type($inits) `)`)?
    attr-dict-with-keyword
    (`number` $number^)? (`classify` $classify^)? (`full` $full_body^)?
    (`linear` $linear_body^)? `partial` $partial_body
  }];
  let hasVerifier = 1;
}

#endif // ATTN_DIALECT_TILE_IR_TILELOOPOPS_TD
