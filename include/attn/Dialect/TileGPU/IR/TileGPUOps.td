//===- TileGPUOps.td - Operations of the tile_gpu dialect -*- tablegen -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_TILEGPU_IR_TILEGPUOPS_TD
#define ATTN_DIALECT_TILEGPU_IR_TILEGPUOPS_TD

include "attn/Dialect/TileGPU/IR/TileGPUBarrierOps.td"
include "attn/Dialect/TileGPU/IR/TileGPUComputeOps.td"
include "attn/Dialect/TileGPU/IR/TileGPUFoldOps.td"
include "attn/Dialect/TileGPU/IR/TileGPUProductOps.td"
include "mlir/IR/SymbolInterfaces.td"

//===----------------------------------------------------------------------===//
// Global memory
//===----------------------------------------------------------------------===//

def TileGPU_GlobalLoadOp
    : TileGPU_Op<"global.load", [AttrSizedOperandSegments]> {
  let summary = "Reads a fragment or vector from a strided tensor";
  let description = [{
    Element (r, c) is `source[indices..., row + r, col + c]`, with `transposed`
    `source[indices..., row + c, col + r]`; a vector takes the last index
    alone. Source rows at or beyond `rows`, and columns beyond the source, read
    as zero.

    With `permuted(m)` the rows and columns of a warp's fragment or vector are in
    another order, so that a lane has neighbours, and accesses them at once: 16
    bytes, where memory allows it. Row 8 j + i stands for row n i + j of those that
    the tensor has there, n being an eighth of their number, and column
    8 (m j + i) / 2 + 2 l + k of lane l (0 to 3), i even, for column
    4 m j + m l + i + k. See `tile-gpu-permute-lanes`.

    Example:

    ```mlir
    # func.func @example(
    #     %Q: memref<?x?x?x128xbf16, strided<[?, ?, ?, 1]>>, %b: i32,
    #     %h: i32, %row: i32, %c0: i32, %group: i32) {
    %q = tile_gpu.global.load %Q[%b, %h, %row, %c0] rows(%group) transposed
        : memref<?x?x?x128xbf16, strided<[?, ?, ?, 1]>> -> !tile_gpu.frag<128x8xbf16, b, warp>
    #   return
    # }
    ```
  }];
  let arguments = (ins
    Arg<AnyMemRef, "The tensor, in memory of the GPU.", [MemRead]>:$source,
    Arg<Variadic<I32>, "Where the fragment or vector begins in the tensor, one "
        "index for each dimension.">:$indices,
    Arg<Optional<I32>, "End of the rows of memory that are read, counted as "
        "the indices are; there is no bound if absent.">:$rows,
    Arg<UnitAttr, "Rows of memory are columns of the fragment.">:$transposed,
    Arg<DefaultValuedOptionalAttr<I64Attr, "0">, "Rows and columns are those of "
        "memory in another order, as said above: how many columns of a lane are "
        "neighbours, or 0.">:$permuted,
    Arg<UnitAttr, "Memory has the elements in the order of registers "
        "(FragmentOrder.h).">:$fragment_order);
  let results = (outs
    Res<TileGPU_RegisterType, "The fragment or vector; its type says how much "
        "is read.">:$result);
  let assemblyFormat = [{
    $source `[` $indices `]` (`rows` `(` $rows^ `)`)?
    (`transposed` $transposed^)? (`permuted` `(` $permuted^ `)`)? attr-dict `:` type($source) `->` type($result)
  }];
  let hasVerifier = 1;
}

class TileGPU_GlobalWriteOp<string mnemonic, list<MemoryEffect> effects>
    : TileGPU_Op<mnemonic, [AttrSizedOperandSegments]> {
  let arguments = (ins
    Arg<TileGPU_RegisterType, "The fragment, or the vector that is not "
        "partial.">:$value,
    Arg<AnyMemRef, "The tensor, in memory of the GPU.", effects>:$destination,
    Arg<Variadic<I32>, "Where the fragment or vector begins in the tensor, one "
        "index for each dimension.">:$indices,
    Arg<Optional<I32>, "End of the rows of memory that are written, counted as "
        "the indices are; there is no bound if absent.">:$rows,
    Arg<UnitAttr, "Rows of memory are columns of the fragment.">:$transposed,
    Arg<DefaultValuedOptionalAttr<I64Attr, "0">, "Rows and columns are those of "
        "memory in another order, as of `tile_gpu.global.load`, or 0.">:$permuted,
    Arg<UnitAttr, "Memory has the elements in the order of registers "
        "(FragmentOrder.h).">:$fragment_order);
  let assemblyFormat = [{
    $value `,` $destination `[` $indices `]` (`rows` `(` $rows^ `)`)?
    (`transposed` $transposed^)? (`permuted` `(` $permuted^ `)`)? attr-dict
    `:` type($value) `,` type($destination)
  }];
  let hasVerifier = 1;
}

def TileGPU_GlobalStoreOp : TileGPU_GlobalWriteOp<"global.store", [MemWrite]> {
  let summary = "Writes a fragment or vector to a strided tensor";
  let description = [{
    The mirror of `tile_gpu.global.load`; rows at or beyond `rows`, and columns
    beyond the destination, are not written. An element of a vector is written
    by one of the threads that hold it.

    Example:

    ```mlir
    # func.func @example(
    #     %lse: !tile_gpu.vec<64xf32, row>, %LSE: memref<?x?x?xf32>,
    #     %b: i32, %h: i32, %row: i32, %sq: i32) {
    tile_gpu.global.store %lse, %LSE[%b, %h, %row] rows(%sq)
        : !tile_gpu.vec<64xf32, row>, memref<?x?x?xf32>
    #   return
    # }
    ```
  }];
}

def TileGPU_GlobalPrefetchOp
    : TileGPU_Op<"global.prefetch", [AttrSizedOperandSegments]> {
  let summary = "Asks for a part of a tensor that a later block loads";
  let description = [{
    The `rows` x `columns` elements from `source[indices...]` on, of its last two
    dimensions, are to come into the cache that all multiprocessors share. All of
    them exist. Each thread of a role asks for lines of its own; nothing waits.

    With `table(%t)` the first index is a sequence, and its row p is row p modulo
    n of page t[sequence, p / n] in a tensor [pages, heads, n, columns]. `boxes(m)`
    promises that the first row is a multiple of m, which divides n. What the table
    says is a guess, read past caches: entries that it does not have, and pages
    that the tensor does not have, are not asked for, nor are rows from `before`
    on, whose entries are read all the same.

    Example:

    ```mlir
    # func.func @example(%S: memref<?x?x128x128xbf16, strided<[?, ?, ?, 1]>>,
    #     %b: i32, %h: i32, %row: i32, %c0: i32, %end: i32,
    #     %table: memref<?x?xi32>) {
    tile_gpu.global.prefetch %S[%b, %h, %row, %c0] rows(32) columns(128)
        : memref<?x?x128x128xbf16, strided<[?, ?, ?, 1]>>
    tile_gpu.global.prefetch %S[%b, %h, %row, %c0] rows(256) columns(128)
        table(%table : memref<?x?xi32>) boxes(64) before(%end)
        : memref<?x?x128x128xbf16, strided<[?, ?, ?, 1]>>
    #   return
    # }
    ```
  }];
  let arguments = (ins
    Arg<AnyMemRef, "The tensor, whose elements of a row follow one "
        "another.">:$source,
    Arg<Variadic<I32>, "One index for each dimension; with `table` the first is "
        "a sequence, and the row one of its rows.">:$indices,
    Arg<ConfinedAttr<I64Attr, [IntPositive]>, "Rows that are asked for.">:$rows,
    Arg<ConfinedAttr<I64Attr, [IntPositive]>, "Elements of each row.">:$columns,
    Arg<Optional<MemRefRankOf<[I32], [2]>>, "The pages of each "
        "sequence.">:$table,
    Arg<OptionalAttr<ConfinedAttr<I64Attr, [IntPositive]>>, "Rows that lie in one "
        "page, from each multiple of as many on.">:$boxes,
    Arg<Optional<I32>, "The row from which on none is asked for.">:$before);
  let assemblyFormat = [{
    $source `[` $indices `]` `rows` `(` $rows `)` `columns` `(` $columns `)`
    (`table` `(` $table^ `:` type($table) `)`)? (`boxes` `(` $boxes^ `)`)?
    (`before` `(` $before^ `)`)? attr-dict `:` type($source)
  }];
  let builders = [OpBuilder<(ins "Value":$source, "ValueRange":$indices,
      "int64_t":$rows, "int64_t":$columns), [{
    build($_builder, $_state, source, indices, rows, columns, /*table=*/Value(),
          /*boxes=*/IntegerAttr(), /*before=*/Value());
  }]>];
  let hasVerifier = 1;
}

def TileGPU_GlobalStoreBitsOp : TileGPU_Op<"global.store_bits"> {
  let summary = "Writes a fragment of i1 as a packed mask, column by column";
  let description = [{
    Element (r, c) becomes bit (row + r) % 32 of
    `destination[indices..., column + c, (row + r) / 32]`; `row` is a multiple of
    8. Votes of a warp gather the rows of a column, 8 to a byte; bits of other
    rows stay. The fragment is a warp's, in the layout of accumulators (`acc`).

    Example:

    ```mlir
    # func.func @example(%live: !tile_gpu.frag<16x64xi1, acc, warp>,
    #     %bits: memref<?x128x2xi32>, %n: i32, %row: i32, %col: i32) {
    tile_gpu.global.store_bits %live, %bits[%n] row(%row) column(%col)
        : !tile_gpu.frag<16x64xi1, acc, warp>, memref<?x128x2xi32>
    #   return
    # }
    ```
  }];
  let arguments = (ins
    Arg<TileGPU_FragType, "A warp's `acc` fragment of i1.">:$value,
    Arg<AnyMemRef, "Memory of i32, [..., columns, words of a "
        "column].", [MemWrite]>:$destination,
    Arg<Variadic<I32>, "One index for each dimension of memory before the last "
        "two.">:$indices,
    Arg<I32, "Row in memory of the fragment's first row, a multiple of "
        "8.">:$row,
    Arg<I32, "Column in memory of the fragment's first column.">:$column);
  let assemblyFormat = [{
    $value `,` $destination `[` $indices `]` `row` `(` $row `)`
    `column` `(` $column `)` attr-dict `:` type($value) `,` type($destination)
  }];
  let hasVerifier = 1;
}

def TileGPU_GlobalReduceOp
    : TileGPU_GlobalWriteOp<"global.reduce", [MemRead, MemWrite]> {
  let summary = "Adds a fragment to a tensor in memory, from registers";
  let description = [{
    Atomic additions in f32, in an order that is not fixed.

    Example:

    ```mlir
    # func.func @example(
    #     %dq: !tile_gpu.frag<64x128xf32, acc>, %dQ: memref<?x?x?x128xf32>,
    #     %b: i32, %h: i32, %row: i32, %c0: i32, %sq: i32) {
    tile_gpu.global.reduce %dq, %dQ[%b, %h, %row, %c0] rows(%sq)
        : !tile_gpu.frag<64x128xf32, acc>, memref<?x?x?x128xf32>
    #   return
    # }
    ```
  }];
}

def TileGPU_BulkStoreOp : TileGPU_Op<"bulk.store"> {
  let summary = "Starts the copy of a tile to memory";
  let description = [{
    One thread issues it after a barrier that all writers of the tile have
    passed. The tile may be written again, or its slot released, only after
    `tile_gpu.bulk.wait`.

    Example:

    ```mlir
    # func.func @example(
    #     %tile: !tile_gpu.smem<64x128xbf16 swizzle 128>,
    #     %map: !tile_gpu.tensor_map<64x128xbf16 swizzle 128>, %b: i32,
    #     %h: i32, %row: i32, %c0: i32) {
    tile_gpu.bulk.store %tile, %map[%b, %h, %row, %c0]
        : !tile_gpu.smem<64x128xbf16 swizzle 128>,
          !tile_gpu.tensor_map<64x128xbf16 swizzle 128>
    #   return
    # }
    ```
  }];
  let arguments = (ins
    Arg<TileGPU_SmemType, "The tile, of the form of the map's "
        "box.", [MemRead]>:$tile,
    Arg<TileGPU_TensorMapType, "The map of the tensor that is "
        "written.", [MemWrite]>:$destination,
    Arg<Variadic<I32>, "Where the tile begins in the tensor, one index for "
        "each of its 2 to 4 dimensions.">:$indices);
  let assemblyFormat = [{
    $tile `,` $destination `[` $indices `]` attr-dict
    `:` type($tile) `,` type($destination)
  }];
  let hasVerifier = 1;
}

def TileGPU_BulkReduceOp : TileGPU_Op<"bulk.reduce", [AttrSizedOperandSegments]> {
  let summary = "Starts adding the bytes of a tile to memory, as f32";
  let description = [{
    Adds the tile's elements, in the order in which they are stored, to the
    contiguous elements of `destination` from `indices` on; the natural partner
    of a `fragment_order` store. Atomic, in an order that is not fixed.

    Where blocks add in turns, the one whose `turn` is 0 writes the bytes instead,
    so that nobody has to clear the memory. Such an operation is behind the
    `tile_gpu.block_turn.wait` of the same turn in its block.

    Example:

    ```mlir
    # func.func @example(
    #     %tile: !tile_gpu.smem<64x64xf32>, %dQ: memref<?x4096xf32>,
    #     %block: i32, %c0: i32, %counters: memref<?xi32>, %n: i32) {
    tile_gpu.bulk.reduce %tile, %dQ[%block, %c0]
        : !tile_gpu.smem<64x64xf32>, memref<?x4096xf32>
    tile_gpu.block_turn.wait %counters[%block] turn(%n) : memref<?xi32>
    tile_gpu.bulk.reduce %tile, %dQ[%block, %c0] turn(%n)
        : !tile_gpu.smem<64x64xf32>, memref<?x4096xf32>
    #   return
    # }
    ```
  }];
  let arguments = (ins
    Arg<TileGPU_SmemType, "The tile of f32, without swizzle and as it is "
        "stored.", [MemRead]>:$tile,
    Arg<AnyMemRef, "The tensor of f32 that is added "
        "to.", [MemRead, MemWrite]>:$destination,
    Arg<Variadic<I32>, "Where the first element goes, one index for each "
        "dimension.">:$indices,
    Arg<Optional<I32>, "The number of the block's turn, of which 0 "
        "writes; without it all add.">:$turn);
  let assemblyFormat = [{
    $tile `,` $destination `[` $indices `]` (`turn` `(` $turn^ `)`)? attr-dict
    `:` type($tile) `,` type($destination)
  }];
  let hasVerifier = 1;
}

def TileGPU_BulkWaitOp : TileGPU_Op<"bulk.wait", [
    MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Waits until this thread's bulk copies have read their tiles";
  let description = [{
    At most `pending` of the latest bulk stores and reductions may still be
    reading shared memory afterwards.

    Example:

    ```mlir
    # func.func @example() {
    tile_gpu.bulk.wait pending(0)
    #   return
    # }
    ```
  }];
  let arguments = (ins
    Arg<I64Attr, "Number of copies, the latest ones, that may still be reading "
        "their tiles.">:$pending);
  let assemblyFormat = "`pending` `(` $pending `)` attr-dict";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Dependent launches
//===----------------------------------------------------------------------===//

def TileGPU_LaunchDependentsOp : TileGPU_Op<"dependents.launch", [
    MemoryEffects<[MemWrite]>]> {
  let summary = "Lets the next kernel of the plan start";
  let description = [{
    Programmatic dependent launch (PDL): the kernel launched after this one with
    `programmatic` may start once every block has reached this operation. It may
    read what this one writes only after its own `tile_gpu.dependencies.wait`.

    Example:

    ```mlir
    # func.func @example() {
    tile_gpu.dependents.launch
    #   return
    # }
    ```
  }];
  let assemblyFormat = "attr-dict";
}

def TileGPU_WaitDependenciesOp : TileGPU_Op<"dependencies.wait", [
    MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Waits until the kernels launched before have ended";
  let description = [{
    Example:

    ```mlir
    # func.func @example() {
    tile_gpu.dependencies.wait
    #   return
    # }
    ```
  }];
  let assemblyFormat = "attr-dict";
}

//===----------------------------------------------------------------------===//
// Host plan
//===----------------------------------------------------------------------===//

def TileGPU_TensorMapOp : TileGPU_Op<"tensor_map", [Pure]> {
  let summary = "Plan: describes a strided tensor for box copies";
  let description = [{
    The last two dimensions of the tensor are the rows and columns of the box.

    Example:

    ```mlir
    # func.func @example(%K: memref<?x?x?x128xbf16, strided<[?, ?, ?, 1]>>) {
    %map = tile_gpu.tensor_map %K : memref<?x?x?x128xbf16, strided<[?, ?, ?, 1]>>
        -> !tile_gpu.tensor_map<128x128xbf16 swizzle 128>
    #   return
    # }
    ```
  }];
  let arguments = (ins
    Arg<AnyMemRef, "The tensor, of 2 to 4 dimensions and of unit stride in the "
        "last one.">:$source);
  let results = (outs
    Res<TileGPU_TensorMapType, "The map; its type is the form of a box.">:$map);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($map)";
  let hasVerifier = 1;
}

def TileGPU_ResetOp : TileGPU_Op<"reset"> {
  let summary = "Plan: sets workspace memory to zero on the device";
  let description = [{
    Example:

    ```mlir
    # func.func @example(%tickets: memref<?xi32>) {
    tile_gpu.reset %tickets : memref<?xi32>
    #   return
    # }
    ```
  }];
  let arguments = (ins
    Arg<AnyMemRef, "The memory that becomes zero.", [MemWrite]>:$memory);
  let assemblyFormat = "$memory attr-dict `:` type($memory)";
}

def TileGPU_TicketsOp : TileGPU_Op<"tickets"> {
  let summary = "Plan: counters that are zero before and after each launch";
  let description = [{
    The atomic counter from which the blocks of a dynamic schedule draw items.
    Launches that follow each other in a stream share the counters: the last
    draw of a launch sets its counter to zero again, so that nothing has to be
    cleared in between. A kernel that may start before the previous one has
    ended draws only after `tile_gpu.dependencies.wait`.

    A launch whose blocks all run at once draws nothing, for it has a block for
    each item: `grid` of a launch that these are given to is no less than the
    number of items. It is given no memory then, and a graph nothing to clear.

    Example:

    ```mlir
    # func.func @example() {
    %tickets = tile_gpu.tickets : memref<1xi32>
    #   return
    # }
    ```
  }];
  let arguments = (ins
    Arg<UnitAttr, "Blocks draw their first items as well, as of "
        "`tile_gpu.scheduler`: there is memory whatever the number of "
        "blocks.">:$draws_first);
  let results = (outs
    Res<MemRefRankOf<[I32], [1]>, "The counters, a static number of "
        "them.", [MemAlloc]>:$counters);
  let assemblyFormat = "attr-dict `:` type($counters)";
  let hasVerifier = 1;
}

def TileGPU_KeepOp : TileGPU_Op<"keep", [AttrSizedOperandSegments]> {
  let summary = "Plan: workspace that may be there from an earlier run";
  let description = [{
    Dense memory for what kernels make of the numbers of `key` and of nothing
    else. Where an earlier run had the same `number`, sizes and key, it may be the
    memory of that run, with what its kernels wrote: then `is_new` is false, and
    the kernels that write it have no blocks. A run that is captured into a graph
    finds what is there by then.

    Example:

    ```mlir
    # func.func @example(%n: index, %m: index, %key: i64) {
    %list, %count, %new = tile_gpu.keep 0(%n, %m) key(%key)
        : memref<?xi32>, memref<?x4xi32>
    #   return
    # }
    ```
  }];
  let arguments = (ins
    Arg<I64Attr, "Which memory of the module this is: no other has the "
        "number.">:$number,
    Arg<Variadic<Index>, "One size, in elements, for each dynamic dimension of "
        "the results.">:$sizes,
    Arg<Variadic<I64>, "All that what is written depends on.">:$key);
  let results = (outs
    Res<Variadic<AnyMemRef>, "The memory, of one run all of it.",
        [MemAlloc]>:$memories,
    Res<I1, "Whether it holds nothing yet.">:$is_new);
  let assemblyFormat = [{
    $number `(` $sizes `)` `key` `(` $key `)` attr-dict `:` type($memories)
  }];
  let hasVerifier = 1;
}

def TileGPU_LaunchOp : TileGPU_Op<"launch", [
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Plan: launches a kernel on a grid of blocks";
  let description = [{
    Threads and shared memory follow from the kernel's roles and rings. Of a
    `static` or `dynamic` schedule `grid` is an upper bound; the runtime takes
    no more blocks than the device runs at once. With `programmatic` the kernel
    may start before the previous launch has ended (see
    `tile_gpu.dependents.launch`).

    Example:

    ```mlir
    # tile_gpu.kernel private @combine(memref<?xbf16>, memref<?xf32>)
    # func.func @example(%n: index, %O: memref<?xbf16>, %ws: memref<?xf32>) {
    tile_gpu.launch @combine grid(%n) args(%O, %ws : memref<?xbf16>, memref<?xf32>) programmatic
    #   return
    # }
    ```
  }];
  let arguments = (ins
    Arg<FlatSymbolRefAttr, "The kernel that runs, a `tile_gpu.kernel` of the "
        "module.">:$kernel,
    Arg<Index, "Number of blocks, or of a persistent kernel the most of "
        "them.">:$grid,
    Arg<Variadic<AnyType>, "Arguments of the kernel.">:$arguments,
    Arg<UnitAttr, "The kernel may start before the launch in front of it has "
        "ended.">:$programmatic);
  let assemblyFormat = [{
    $kernel `grid` `(` $grid `)` `args` `(` $arguments `:` type($arguments) `)`
    (`programmatic` $programmatic^)? attr-dict
  }];
}

#endif // ATTN_DIALECT_TILEGPU_IR_TILEGPUOPS_TD
