//===- TileSourceOps.td - Where the rows of tensors are ----*- tablegen -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Loads and stores speak of positions in sequences. A source alone knows where
// those are; its lowerings (tile-expand-sources, and for rows that do not lie
// one after the other, the loads of each target) alone ask it.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_TILE_IR_TILESOURCEOPS_TD
#define ATTN_DIALECT_TILE_IR_TILESOURCEOPS_TD

def Tile_SourceOp : Tile_Op<"source", [Pure, AttrSizedOperandSegments]> {
  let summary = "A tensor in memory as rows of sequences";
  let description = [{
    Row p of the sequence of batch b, of head h, is

    | form             | memory                    | at |
    |------------------|---------------------------|----|
    | none             | `[.., b, h, rows, cols]`  | `[.., b, h, p]` |
    | `varlen(%cu)`    | `[.., h, total, cols]`    | `[.., h, cu[b] + p]` |
    | `paged(%table)`  | `[pages, h, page, cols]`  | `[table[b, p / page], h, p % page]` |
    | `ring(%start)`   | `[b, h, rows, cols]`      | `[b, h, (start[b] + p) % rows]` |

    With `vector` the memory has no columns. `lengths` are the rows of each
    sequence; without them there are as many as the memory, the offsets or the
    table have room for. No index operand leads out of the memory, whatever it
    holds: offsets and lengths are clamped to the rows there are, entries of a
    table to the pages, and entries behind the length are not read. Index
    operands do not change while a kernel runs.

    With `rest` there is one batch more than sequences. With `varlen` it has the
    rows behind the last sequence; otherwise, and with `lengths`, it has no
    rows.

    Pages and rings are read only. `aligned` promises that no load of a tile
    crosses pages: the first row is a multiple of a number of rows that divides
    a page, and the bounds admit no more rows than that. The page is then looked
    up once for each tile. `boxes(n)` promises less: the first row is a multiple
    of n, and n divides a page. A tile is then loaded in boxes of n rows, and
    the page is looked up once for each box. Without either it is looked up for
    each row.

    Example:

    ```mlir
    # func.func @example(%pool: memref<?x?x16x64xf16, strided<[?, ?, ?, 1]>>,
    #     %table: memref<?x?xi32>, %n: memref<?xi32>, %b: index, %h: index,
    #     %j0: index, %c0: index, %zero: index) {
    %k = tile.source %pool paged(%table : memref<?x?xi32>) lengths(%n : memref<?xi32>)
        : memref<?x?x16x64xf16, strided<[?, ?, ?, 1]>> -> !tile.source<?x?x?x64xf16>
    %keys = tile.extent %k[%b] : !tile.source<?x?x?x64xf16>
    %tile = tile.load %k[%b, %h, %j0, %c0] rows(%zero to %keys)
        : !tile.source<?x?x?x64xf16> -> !tile.tile<128x64xf16>
    #   return
    # }
    ```
  }];
  let arguments = (ins
    Arg<AnyMemRef, "The tensor, of the dimensions that the table has for its "
        "form.">:$memory,
    Arg<Optional<MemRefRankOf<[I32], [1]>>, "First row of each packed "
        "sequence, and the end of the last one: [b + 1].">:$offsets,
    Arg<Optional<MemRefRankOf<[I32], [2]>>, "The pages of each sequence in "
        "order, [b, n].">:$table,
    Arg<Optional<MemRefRankOf<[I32], [1]>>, "Row of a ring that row 0 of each "
        "sequence is in, modulo its rows: [b].">:$start,
    Arg<Optional<MemRefRankOf<[I32], [1]>>, "Number of rows of each sequence, "
        "[b]; if absent, as many as there is room for.">:$lengths,
    Arg<UnitAttr, "There is one batch more than sequences, of the rows behind "
        "them.">:$rest,
    Arg<UnitAttr, "A promise that no tile that is loaded crosses "
        "pages.">:$aligned,
    Arg<OptionalAttr<I64Attr>, "A promise that tiles begin at a multiple of "
        "this number of rows, which divides a page; none if absent.">:$boxes,
    Arg<UnitAttr, "The memory has no dimension of columns.">:$vector);
  let results = (outs
    Res<Tile_SourceType, "The rows by batch, head and position.">:$result);
  let assemblyFormat = [{
    (`vector` $vector^)? $memory
    (`varlen` `(` $offsets^ `:` type($offsets) `)`)?
    (`paged` `(` $table^ `:` type($table) `)`)?
    (`ring` `(` $start^ `:` type($start) `)`)?
    (`lengths` `(` $lengths^ `:` type($lengths) `)`)?
    (`rest` $rest^)? (`aligned` $aligned^)?
    (`boxes` `(` $boxes^ `)`)? attr-dict `:` type($memory) `->` type($result)
  }];
  let hasVerifier = 1;
  let builders = [
    /// Of the kind that `source` says, with its operands.
    OpBuilder<(ins "::mlir::Value":$memory,
      "const ::mlir::attn::Source &":$source, "bool":$rest, "bool":$vector,
      CArg<"bool", "false">:$aligned, CArg<"int64_t", "0">:$boxes)>
  ];
  let extraClassDeclaration = [{
    ::mlir::MemRefType getMemoryType() {
      return ::llvm::cast<::mlir::MemRefType>(getMemory().getType());
    }
    /// The dimension of the memory, and of the source, that counts rows.
    int64_t getRowDim() { return getMemoryType().getRank() - 2 + getVector(); }
    int64_t getPositionDim() {
      return getResult().getType().getRank() - 2 + getVector();
    }
    /// Whether the rows of a sequence lie one after the other.
    bool isContiguous() { return !getTable() && !getStart(); }
  }];
}

def Tile_ExtentOp : Tile_Op<"extent", [Pure]> {
  let summary = "Rows of a sequence";
  let description = [{
    How many rows the sequence of a batch has, by its offsets, its table, its
    lengths or the memory: never more than there is room for.
  }];
  let arguments = (ins
    Arg<Tile_SourceType, "The source whose sequence is asked about.">:$source,
    Arg<Index, "Number of the batch, or of the sequence.">:$batch);
  let results = (outs
    Res<Index, "Number of rows.">:$result);
  let assemblyFormat = "$source `[` $batch `]` attr-dict `:` type($source)";
}

def Tile_ElementOp : Tile_Op<"element"> {
  let summary = "Loads one element of a tensor in memory, or of a source";
  let description = [{
    Of packed rows (`varlen`) a position behind the last row of memory reads
    that row.

    Example:

    ```mlir
    # func.func @example(%marks: memref<?x?xf32>, %cu: memref<?xi32>,
    #     %b: index, %h: index, %i: index) {
    %rows = tile.source vector %marks varlen(%cu : memref<?xi32>) rest
        : memref<?x?xf32> -> !tile.source<?x?x?xf32>
    %mark = tile.element %rows[%b, %h, %i] : !tile.source<?x?x?xf32> -> f32
    #   return
    # }
    ```
  }];
  let arguments = (ins
    Arg<Tile_Memory, "The tensor, or a source.", [MemRead]>:$source,
    Arg<Variadic<Index>, "One index for each dimension; of a source these are "
        "batch, head, row and, unless it is a vector, column.">:$indices);
  let results = (outs
    Res<AnyType, "The element, of the element type of the source.">:$result);
  let assemblyFormat = [{
    $source `[` $indices `]` attr-dict `:` type($source) `->` type($result)
  }];
  let hasVerifier = 1;
}

#endif // ATTN_DIALECT_TILE_IR_TILESOURCEOPS_TD
