//===- TileTypes.td - Types of the tile dialect ------------*- tablegen -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_TILE_IR_TILETYPES_TD
#define ATTN_DIALECT_TILE_IR_TILETYPES_TD

include "attn/Dialect/Tile/IR/TileDialect.td"

def Tile_TileType : TypeDef<Tile_Dialect, "Tile"> {
  let mnemonic = "tile";
  let summary = "A static two-dimensional tile value";
  let description = [{
    `!tile.tile<32x128xf32>`: 32 rows, 128 columns. `Rx1` holds one scalar per
    row, `1xC` one per column; both broadcast in `tile.map`. Where the tile
    lives (registers, cache, shared memory) is not said here.
  }];
  let parameters = (ins "int64_t":$rows, "int64_t":$cols,
                        "::mlir::Type":$elementType);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    bool isRowVector() const { return getCols() == 1; }
    int64_t getNumElements() const { return getRows() * getCols(); }
  }];
}

def Tile_SourceType : TypeDef<Tile_Dialect, "Source"> {
  let mnemonic = "source";
  let summary = "Rows of many sequences, by their position";
  let description = [{
    `!tile.source<?x?x?x64xf16>`: a tensor in memory as loads and stores see it,
    `[batch, head, position, column]`, or without columns `[batch, head,
    position]`; there may be dimensions in front of the batch. Where a row is in
    memory is what the `tile.source` says that the value comes from.
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$shape,
                        "::mlir::Type":$elementType);
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{
    int64_t getRank() const { return getShape().size(); }
  }];
}

#endif // ATTN_DIALECT_TILE_IR_TILETYPES_TD
