//===- TileKernelOps.td - Kernels, their work, their launch -*- tablegen -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_TILE_IR_TILEKERNELOPS_TD
#define ATTN_DIALECT_TILE_IR_TILEKERNELOPS_TD

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

def Tile_KernelOp : Tile_Op<"kernel", [
    FunctionOpInterface, IsolatedFromAbove, AffineScope,
    AutomaticAllocationScope]> {
  let summary = "The program of one block of a grid";
  let description = [{
    A function without results that `tile.launch` runs once for each block; its
    last argument is the block's number (`index`). `schedule` holds every
    decision that the passes below take from here (`#attn.schedule`); a kernel
    without one leaves them to these passes.

    `convert-tile-to-vector` appends an argument for memory that the block's
    tiles live in, a memref of `scratch_bytes` bytes.

    Example:

    ```mlir
    tile.kernel private @scale(%x: memref<?xf32>, %block: index)
        attributes {schedule = #attn.schedule<block_q = 64, rows = 64,
                                              block_k = 64>} {
      tile.return
    }
    ```
  }];
  let arguments = (ins
    Arg<SymbolNameAttr, "The name by which a launch refers to it.">:$sym_name,
    Arg<TypeAttrOf<FunctionType>, "Types of its arguments, of which the "
        "block's number (`index`) is the last; there are no "
        "results.">:$function_type,
    Arg<OptionalAttr<StrAttr>, "Who may refer to it; anyone if "
        "absent.">:$sym_visibility,
    Arg<OptionalAttr<DictArrayAttr>, "Attributes of each argument; none if "
        "absent.">:$arg_attrs,
    Arg<OptionalAttr<DictArrayAttr>, "Attributes of results, of which a kernel "
        "has none.">:$res_attrs,
    Arg<OptionalAttr<Attn_ScheduleAttr>, "The decisions that the passes below "
        "take from here; their own if absent.">:$schedule,
    Arg<OptionalAttr<I64Attr>, "Size of the memory argument that "
        "`convert-tile-to-vector` has appended; there is no such argument if "
        "absent.">:$scratch_bytes);
  let regions = (region AnyRegion:$body);
  let skipDefaultBuilders = 1;
  let builders = [OpBuilder<(ins "StringRef":$name, "FunctionType":$type,
                                 "::mlir::attn::ScheduleAttr":$schedule)>];
  let extraClassDeclaration = [{
    ::llvm::ArrayRef<::mlir::Type> getArgumentTypes() {
      return getFunctionType().getInputs();
    }
    ::llvm::ArrayRef<::mlir::Type> getResultTypes() {
      return getFunctionType().getResults();
    }
    /// Its code is elsewhere.
    ::mlir::Region *getCallableRegion() {
      return isExternal() ? nullptr : &getBody();
    }
  }];
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

def Tile_ReturnOp : Tile_Op<"return", [
    Pure, Terminator, ReturnLike, HasParent<"KernelOp">]> {
  let summary = "Ends a kernel";
  let assemblyFormat = "attr-dict";
}

//===----------------------------------------------------------------------===//
// Work tiles
//===----------------------------------------------------------------------===//

def Tile_WorkTileOp : Tile_Op<"work_tile", [
    AttrSizedOperandSegments, HasParent<"KernelOp">]> {
  let summary = "Says which work tile a block works on";
  let description = [{
    The work of a launch is a domain of `heads` x `tiles` x `parts` of every
    batch: query heads (or key heads, where heads are packed), query tiles of a
    head, and parts of the keys. The grid has a block for each of these work
    tiles. `number` is the block's number, the last argument of the kernel; the
    results are the batch, the head, the tile and the part of its work tile. A
    kernel has at most one such operation.

    `order` says which tiles of a head have the lowest numbers: `in_order` those
    of the first rows, `longest_first` those of the last, to which most masks
    leave the most keys. With `section(s)`, s heads advance together before the
    next s heads start, so that their keys stay in a cache (grouped
    rasterization); s is a value, since how many heads fit depends on the sizes
    of a run. `cluster(c)`: work tiles c n to c n + c - 1 are neighbouring tiles
    of one head, for blocks that share copies (TMA multicast); c divides
    `tiles`. With `by_parts` they are the c parts of one tile, for blocks that
    put their states together.

    With `varlen`, rows of all sequences lie behind each other: those of sequence
    i start at row `offsets[i]`, clamped to `rows`, the number of all rows; the
    rows behind the last one are one more sequence. The tiles have `block_q` rows
    each, and `tiles` is `rows / block_q` plus the elements of `offsets`, of
    which sequence i has those from `offsets[i] / block_q + i` on: enough for any
    lengths, at most one too many for each sequence, and found without a prefix
    sum over the lengths. `batch` is then the sequence and `tile` the tile in
    it, in the same order. Where the sequence has no such tile, a scheduler may
    skip the work tile, and a block that runs it must have no effect. So it is
    with `counts`: of batch i the first `counts[i]` rows are there, in tiles of
    `block_q`.

    `convert-tile-to-vector` lowers it to divisions; on GPUs it becomes the
    `tile_gpu.scheduler` of the kernel.

    Example:

    ```mlir
    tile.kernel private @many_heads(%batches: index, %heads: index,
                                    %tiles: index, %abreast: index,
                                    %block: index) {
      %one = arith.constant 1 : index
      %batch, %head, %tile, %part = tile.work_tile %block longest_first
          section(%abreast) batches(%batches) heads(%heads) tiles(%tiles)
          parts(%one)
      tile.return
    }
    tile.kernel private @sequences(%offsets: memref<?xi32>, %rows: index,
                                   %heads: index, %tiles: index,
                                   %block: index) {
      %one = arith.constant 1 : index
      %sequence, %head, %tile, %part = tile.work_tile %block in_order
          varlen(%offsets : memref<?xi32>, %rows) block_q(128) heads(%heads)
          tiles(%tiles) parts(%one)
      tile.return
    }
    ```
  }];
  let arguments = (ins
    Arg<Index, "Number of the block, the last argument of the kernel.">:$number,
    Arg<Attn_WorkOrder, "Which tiles of a head have the lowest "
        "numbers.">:$order,
    Arg<Optional<Index>, "Number of heads that advance together; 1 if "
        "absent.">:$section,
    Arg<OptionalAttr<I64Attr>, "Number of neighbouring tiles of a head that "
        "the blocks of a cluster take; 1 if absent.">:$cluster,
    Arg<UnitAttr, "The blocks of a cluster take the parts of one tile "
        "instead.">:$by_parts,
    Arg<Optional<MemRefRankOf<[I32], [1]>>, "First row of each sequence, where "
        "these are packed; there are `batches` if absent.", [MemRead]>:$offsets,
    Arg<Optional<Index>, "Number of rows of all sequences; only beside "
        "`offsets`.">:$rows,
    Arg<Optional<MemRefRankOf<[I32], [1]>>, "Number of rows that each batch "
        "has, where tiles behind them may be passed over.", [MemRead]>:$counts,
    Arg<OptionalAttr<I64Attr>, "Number of rows of a tile; only beside "
        "`offsets` or `counts`.">:$block_q,
    Arg<Optional<Index>, "Number of batches; absent where there are "
        "`offsets`.">:$batches,
    Arg<Index, "Number of heads of a batch.">:$heads,
    Arg<Index, "Number of tiles of a head, of all sequences together where "
        "there are `offsets`.">:$tiles,
    Arg<Index, "Number of parts of the keys.">:$parts);
  let results = (outs
    Res<Index, "The batch, or the sequence, of the work tile.">:$batch,
    Res<Index, "The head of the work tile, within its batch.">:$head,
    Res<Index, "The tile of rows, within its head or sequence.">:$tile,
    Res<Index, "The part of the keys.">:$part);
  let builders = [
    // One after the other.
    OpBuilder<(ins "Value":$number, "Value":$batches, "Value":$heads,
                   "Value":$tiles, "Value":$parts)>];
  let assemblyFormat = [{
    $number $order (`section` `(` $section^ `)`)? (`cluster` `(` $cluster^ `)`)?
    (`by_parts` $by_parts^)?
    (`varlen` `(` $offsets^ `:` type($offsets) `,` $rows `)`)?
    (`counts` `(` $counts^ `:` type($counts) `)`)?
    (`block_q` `(` $block_q^ `)`)? (`batches` `(` $batches^ `)`)?
    `heads` `(` $heads `)` `tiles` `(` $tiles `)` `parts` `(` $parts `)`
    attr-dict
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Host plan
//===----------------------------------------------------------------------===//

def Tile_DispatchOp : Tile_Op<"dispatch", [
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Runs another plan in the place of this one";
  let description = [{
    Where `condition` holds, `plan` runs on the arguments of this plan, and this
    plan ends. The plan for all sizes so reaches kernels that are made for some
    of them. It comes before every launch and workspace, and `plan` has no
    dispatch itself.

    Example:

    ```mlir
    # func.func private @attention_1(memref<?xf32>, memref<?xf32>)
    # func.func @attention(%q: memref<?xf32>, %o: memref<?xf32>) {
    #   %n = arith.constant 16 : index
    #   %c0 = arith.constant 0 : index
    %rows = memref.dim %q, %c0 : memref<?xf32>
    %few = arith.cmpi ule, %rows, %n : index
    tile.dispatch %few to @attention_1
    #   return
    # }
    ```
  }];
  let arguments = (ins
    Arg<I1, "Whether the other plan runs.">:$condition,
    Arg<FlatSymbolRefAttr, "The other plan, a function of the same type as "
        "this one.">:$plan);
  let assemblyFormat = "$condition `to` $plan attr-dict";
}

def Tile_WorkspaceOp : Tile_Op<"workspace"> {
  let summary = "Memory of the plan that its kernels share";
  let description = [{
    Uninitialised, dense, live until the plan returns; sized by run-time
    values. On a GPU it is device memory that the runtime owns.
  }];
  let arguments = (ins
    Arg<Variadic<Index>, "One size, in elements, for each dynamic dimension of "
        "the result.">:$sizes);
  let results = (outs
    Res<AnyMemRef, "The memory, which holds nothing yet.", [MemAlloc]>:$result);
  let assemblyFormat = "`(` $sizes `)` attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Tile_LaunchOp : Tile_Op<"launch", [
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Runs a kernel on every block of a grid";
  let description = [{
    Calls `kernel(arguments..., block)` for block = 0 .. grid - 1, in any
    order and in parallel; returns (to later launches) when all are done.

    Example:

    ```mlir
    # tile.kernel private @attention_kernel(memref<?xf32>, memref<?xf32>, index)
    # func.func @example(%q: memref<?xf32>, %o: memref<?xf32>, %n: index) {
    tile.launch @attention_kernel grid(%n) args(%q, %o : memref<?xf32>, memref<?xf32>)
    #   return
    # }
    ```
  }];
  let arguments = (ins
    Arg<FlatSymbolRefAttr, "The kernel that runs, a `tile.kernel` of the "
        "module.">:$kernel,
    Arg<Index, "Number of blocks.">:$grid,
    Arg<Variadic<AnyType>, "Arguments of the kernel, but for the block's "
        "number.">:$arguments);
  let assemblyFormat = [{
    $kernel `grid` `(` $grid `)` `args` `(` $arguments `:` type($arguments) `)`
    attr-dict
  }];
}

#endif // ATTN_DIALECT_TILE_IR_TILEKERNELOPS_TD
