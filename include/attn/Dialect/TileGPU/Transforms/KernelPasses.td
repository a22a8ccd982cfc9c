//===- KernelPasses.td - Rewrites of kernels ---------------*- tablegen -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What makes loads, coordinates, rows and the epilogue of a kernel cheaper, and
// changes no order of its work.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_TILEGPU_TRANSFORMS_KERNELPASSES_TD
#define ATTN_DIALECT_TILEGPU_TRANSFORMS_KERNELPASSES_TD

include "mlir/Pass/PassBase.td"

def TileGpuPermuteLanesPass
    : Pass<"tile-gpu-permute-lanes", "::mlir::tile_gpu::KernelOp"> {
  let summary = "Give lanes neighbours of transposed tensors, to access at once";
  let description = [{
    Expects: a `tile_gpu.kernel` on fragments.

    Produces: for roles of one warp that read or write transposed fragments, such
    as the states of a scan: fragments with rows and columns exchanged, and
    `permuted` accesses, of which one instruction moves neighbours in memory. This
    is done where it does not matter which lane holds which element: no map asks
    for the number of a row or column, nothing goes through shared memory or a
    product, all accesses of fragments are transposed, and all have the same
    number of rows, 16 or 32. Other roles stay as they are.

    Example:

    ```mlir
    # tile_gpu.kernel @example(%s: memref<128x128xf32>, %v: memref<128xf32>) {
    #   %c0 = arith.constant 0 : i32
    #   tile_gpu.role "compute" warps(1) {
    #   ^bb0(%warp: i32):
    %x = tile_gpu.global.load %s[%c0, %c0] transposed : memref<128x128xf32>
      -> !tile_gpu.frag<32x64xf32, acc, warp>
    %y = tile_gpu.global.load %v[%c0] : memref<128xf32>
      -> !tile_gpu.vec<32xf32, row, warp>
    %z = tile_gpu.map ins(%x, %y : !tile_gpu.frag<32x64xf32, acc, warp>, !tile_gpu.vec<32xf32, row, warp>) {
    ^bb0(%r: i32, %c: i32, %a: f32, %b: f32):
      %p = arith.mulf %a, %b : f32
      tile_gpu.yield %p : f32
    } -> !tile_gpu.frag<32x64xf32, acc, warp>
    tile_gpu.global.store %z, %s[%c0, %c0] transposed
      : !tile_gpu.frag<32x64xf32, acc, warp>, memref<128x128xf32>
    #     tile_gpu.yield
    #   }
    #   tile_gpu.return
    # }
    ```

    becomes

    ```mlir-fragment
    %x = tile_gpu.global.load %s[%c0, %c0] permuted(4) : memref<128x128xf32>
      -> !tile_gpu.frag<64x32xf32, acc, warp>
    %y = tile_gpu.global.load %v[%c0] permuted(4) : memref<128xf32>
      -> !tile_gpu.vec<32xf32, col, warp>
    ...
    tile_gpu.global.store %z, %s[%c0, %c0] permuted(4) : ...
    ```

    Numerics: no effect.

    Fails when: never.
  }];
}

def TileGpuReadAheadPass
    : Pass<"tile-gpu-read-ahead", "::mlir::tile_gpu::KernelOp"> {
  let summary = "Load what a step reads in the step before";
  let description = [{
    Expects: a `tile_gpu.kernel` with loops that issue products and read memory
    that the kernel does not write, at a place that a value says which the loop
    carries. That place must exist for every value: also the one that the last
    turn leaves, and the initial one of a loop without turns.

    Produces: loops that carry what is read. It is loaded for the next turn behind
    the last operation that uses it, once the carried value is known. Left as they
    are: reads at places that depend on the loop's counter or on more than
    arithmetic, reads of keys, and loops whose fragments leave no registers.

    Two smaller changes serve the same purpose:

    - Warps whose loops carry no fragments, such as those that sum a row's products
      for gradients, load what the maps behind these loops read of rows before
      they wait for their first tile.
    - A step that loads something of each key, such as the ids of a mask, waits for
      the tile of keys behind these loads.

    Example:

    ```mlir-fragment
    %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%t = %t0, %acc = %a0) -> (i32, !acc) {
      %next = memref.load %list[%i] : memref<?xi32>
      %words = tile_gpu.map { // memref.load %bits[%t, ...]
      ...
    // becomes
    %w0 = tile_gpu.map { // memref.load %bits[%t0, ...]
    %r:3 = scf.for ... iter_args(%t = %t0, %acc = %a0, %words = %w0) -> ... {
      %next = memref.load %list[%i] : memref<?xi32>
      ... // takes %words
      %w1 = tile_gpu.map { // memref.load %bits[%next, ...]
    ```

    Numerics: none.

    Fails when: never.
  }];
  let dependentDialects = ["::mlir::scf::SCFDialect"];
  let statistics = [
    Statistic<"numLoops", "num-loops", "Loops that carry what they read">,
    Statistic<"numMaps", "num-maps", "Maps that load ahead of the first tile">,
    Statistic<"numWaits", "num-waits", "Waits for keys behind loads beside them">
  ];
}

def TileGpuHoistReciprocalsPass
    : Pass<"tile-gpu-hoist-reciprocals", "::mlir::tile_gpu::KernelOp"> {
  let summary = "Divide once for each row, not for each element";
  let description = [{
    Expects: a `tile_gpu.kernel` with maps that divide the elements of a
    fragment by a row vector.

    Produces: a map on that vector that takes its reciprocal, and products with
    it, where every use of the map rounds to 16 bits. A division marked `arcp`
    says that its divisors are of magnitudes 2^-126 to 2^126, as the sums of
    weights are whose largest is 1; others are multiplied with a power of two
    first, 1 for divisors of 2^-64 to 2^64.

    Example:

    ```mlir
    # tile_gpu.kernel @example(%o: !tile_gpu.frag<64x64xf32, acc>,
    #     %l: !tile_gpu.vec<64xf32, row>, %out: memref<?x?xbf16>) {
    #   %c0 = arith.constant 0 : i32
    #   tile_gpu.role "compute" warpgroups(1) {
    #   ^bb0(%wg: i32):
    %x = tile_gpu.map ins(%o, %l : !tile_gpu.frag<64x64xf32, acc>, !tile_gpu.vec<64xf32, row>) {
    ^bb0(%r: i32, %c: i32, %a: f32, %b: f32):
      %y = arith.divf %a, %b fastmath<arcp> : f32
      tile_gpu.yield %y : f32
    } -> !tile_gpu.frag<64x64xf32, acc>
    %y = tile_gpu.frag.convert %x : !tile_gpu.frag<64x64xf32, acc> -> !tile_gpu.frag<64x64xbf16, acc>
    #     tile_gpu.global.store %y, %out[%c0, %c0] : !tile_gpu.frag<64x64xbf16, acc>, memref<?x?xbf16>
    #     tile_gpu.yield
    #   }
    #   tile_gpu.return
    # }
    ```

    Numerics: the reciprocal is the unit's own (1 ulp), so that quotients are
    within 2.5 ulp of f32 before they are rounded to 16 bits.

    Fails when: never.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect"];
}

def TileGpuMulticastLoadsPass
    : Pass<"tile-gpu-multicast-loads", "::mlir::tile_gpu::KernelOp"> {
  let summary = "Let the blocks of a cluster fill rings for each other";
  let description = [{
    Expects: a `tile_gpu.kernel` whose roles loop over one dynamic schedule with
    `cluster(c)`: its blocks take neighbouring tiles of one head, batch and
    split. A role of one warp draws, and loops of one warp each fill rings by
    tensor copies.

    Produces: TMA multicast. A ring gets `cluster(c)` if the coordinates and the
    control flow of its loads do not depend on the tile of rows: each of the c
    blocks copies a part of every tile to all of them, and the last-level cache
    is read once for the cluster. Rings of blocks that have a part of the
    channels of the sums (`block_v`), as those of latents, get `release_all` as
    well. If there is no such ring, the schedule loses its `cluster`, and each
    block draws for itself.

    Example:

    ```mlir
    # module attributes {attn.target = "sm_90a"} {
    # tile_gpu.kernel @example(%tickets: memref<1xi32>, %n: i32,
    #     %keys: !tile_gpu.tensor_map<64x64xbf16 swizzle 128>)
    # attributes {schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 128, cluster = 2>} {
    #   %c0 = arith.constant 0 : i32
    #   %c1 = arith.constant 1 : i32
    #   %k = tile_gpu.ring.create tma consumers(4) : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
    #   %s = tile_gpu.scheduler dynamic in_order tickets(%tickets : memref<1xi32>)
    #       cluster(2) tiles(%n) heads(%n) batch(%c1) {
    #   ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
    #     tile_gpu.yield
    #   }
    tile_gpu.role "load" warps(1) {
    ^bb0(%w: i32):
      %end = tile_gpu.foreach %s lead iter_args(%c0 : i32) {
      ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32,
           %i: i32):
        %slot = tile_gpu.ring.acquire %k[%i] : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
        tile_gpu.ring.load %keys[%c0, %head, %c0, %c0], %slot
            : !tile_gpu.tensor_map<64x64xbf16 swizzle 128>, !tile_gpu.smem<64x64xbf16 swizzle 128>
        %next = arith.addi %i, %c1 : i32
        tile_gpu.yield %next : i32
      } -> i32
      tile_gpu.yield
    }
    #   tile_gpu.role "compute" warpgroups(1) {
    #   ^bb0(%wg: i32):
    #     %end = tile_gpu.foreach %s iter_args(%c0 : i32) {
    #     ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32,
    #          %i: i32):
    #       %full = tile_gpu.ring.wait %k[%i] : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
    #       tile_gpu.ring.release %k[%i] : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
    #       %next = arith.addi %i, %c1 : i32
    #       tile_gpu.yield %next : i32
    #     } -> i32
    #     tile_gpu.yield
    #   }
    #   tile_gpu.return
    # }
    # }
    ```

    The ring and the schedule have `cluster(2)` afterwards.

    Numerics: none.

    Fails when: the module's target is no GPU;
    kernels whose blocks have no copies in common, and GPUs without clusters, keep
    their own copies: such kernels are counted, and `explain` says why.
  }];
  let options = [
    Option<"explain", "explain", "bool", "false",
           "Say of each kernel with clusters that shares no copies why">
  ];
  let statistics = [
    Statistic<"numMissed", "num-missed",
              "Kernels with clusters that share no copies">
  ];
}

def TileGpuHoistCoordinatesPass : Pass<"tile-gpu-hoist-coordinates", "::mlir::tile_gpu::KernelOp"> {
  let summary = "Let the warp that draws work tiles find their bounds for all";
  let description = [{
    Expects: a `tile_gpu.kernel` whose roles loop over one dynamic schedule, the
    lead a role of one warp.

    Produces: integer arithmetic on the coordinates of a work tile, and loads of
    arguments that the kernel only reads, move from the loops, and from those
    over the heads that share a work tile's rows, into the schedule's body; the
    values that the loops need of it become arguments of theirs. Values that cost one instruction to recompute are recomputed where
    they are read, rather than communicated. Values that are the same for all
    work tiles go before the schedule. The lead runs ahead of the other roles,
    which read the results from shared memory: before the first product of a
    work tile they do no divisions, and no search for its sequence.

    Example:

    ```mlir
    # tile_gpu.kernel @example(%tickets: memref<1xi32>, %n: i32, %heads: i32,
    #     %q: memref<?x?xbf16>, %out: memref<?x?xf32>) {
    #   %c0 = arith.constant 0 : i32
    #   %c1 = arith.constant 1 : i32
    #   %x = arith.constant 0.0 : f32
    %s = tile_gpu.scheduler dynamic in_order tickets(%tickets : memref<1xi32>)
        tiles(%n) heads(%c1) batch(%c1) {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
      tile_gpu.yield
    }
    tile_gpu.role "load" warps(1) {
    ^bb0(%w: i32):
      tile_gpu.foreach %s lead {
      ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
        tile_gpu.yield
      }
      tile_gpu.yield
    }
    tile_gpu.role "compute" warpgroups(1) {
    ^bb0(%wg: i32):
      tile_gpu.foreach %s {
      ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
        %row = arith.divui %tile, %heads : i32
        %o = tile_gpu.frag.fill %x : f32 -> !tile_gpu.frag<64x64xf32, acc>
        tile_gpu.global.store %o, %out[%row, %c0] : !tile_gpu.frag<64x64xf32, acc>, memref<?x?xf32>
        tile_gpu.yield
      }
      tile_gpu.yield
    }
    #   tile_gpu.return
    # }
    ```

    The division is in the schedule's body afterwards, and its result an
    argument of both loops.

    Numerics: none; integers and loaded values only.

    Fails when: never; a schedule that is not dynamic, or whose lead has several
    warps, is left as it is, and so are loads where a role waits for the launch
    before. Arguments are taken not to alias.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

def TileGpuStageEpiloguePass : Pass<"tile-gpu-stage-epilogue", "::mlir::ModuleOp"> {
  let summary = "Store output fragments through shared memory";
  let description = [{
    Expects: `tile_gpu.kernel`s that store 16-bit accumulators of warpgroups,
    on a target with tensor copies.

    Produces: an epilogue through shared memory (TMA store). Each store gets a
    tile of shared memory, a barrier for each warpgroup, a tensor map in kernel
    and launch, and bulk copies of the tile's panels in its place. If its bound
    is below the tensor's rows, which is tested at run time, the kernel takes
    the store as it was. Without room in shared memory the store is left alone.

    Example:

    ```mlir
    # module attributes {attn.target = "sm_90a"} {
    # tile_gpu.kernel private @kernel(%O: memref<?x64xbf16, strided<[?, 1]>>,
    #     %o: !tile_gpu.frag<64x64xbf16, acc>, %row: i32, %end: i32) {
    #   %c0 = arith.constant 0 : i32
    #   tile_gpu.role "compute" warpgroups(1) {
    #   ^bb0(%wg: i32):
    tile_gpu.global.store %o, %O[%row, %c0] rows(%end)
        : !tile_gpu.frag<64x64xbf16, acc>, memref<?x64xbf16, strided<[?, 1]>>
    #     tile_gpu.yield
    #   }
    #   tile_gpu.return
    # }
    # }
    ```

    Numerics: no effect.

    Fails when: the module's `attn.target` is unknown.
  }];
  let dependentDialects = [
    "::mlir::tile_gpu::TileGPUDialect", "::mlir::arith::ArithDialect",
    "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect"
  ];
}

def TileGpuReadTablesAheadPass
    : Pass<"tile-gpu-read-tables-ahead", "::mlir::tile_gpu::KernelOp"> {
  let summary = "Read entries of tables of pages some tiles ahead";
  let description = [{
    Expects: kernels whose roles copy tiles of whole pages (`table`) in loops
    over keys, as they are when launches overlap (`tile-gpu-overlap-launches`).

    Produces: warps that hold the next entries of their sequence in registers,
    those of at least four tiles, and behind them as many again. When a warp
    begins to copy the second half, it reads the entries that follow. Copies take
    their pages from these registers (`entries`). Entries that no row needs are
    read as well, up to the end of the table, and never used. Of several loops one
    behind the other only the first is changed, which has most of the tiles.

    A tile that is copied ahead of the loop takes its pages from the same
    registers. For up to 32 rows, where finding a work tile reads memory, the warp
    reads the entries of its block's first work tile right behind its wait,
    together with what that search reads, and copies the tile before the work tile
    is drawn.

    Entries are read as they are needed where a tile has 16 pages or more, or parts
    of pages; where warpgroups copy; and where a thread has less than 40 registers.
    Such loops are counted, and `explain` says why.

    Example:

    ```mlir
    # tile_gpu.kernel private @decode(%K: !tile_gpu.tensor_map<64x128xbf16 swizzle 128>,
    #     %table: memref<?x?xi32>, %n: index) {
    #   %c0 = arith.constant 0 : index
    #   %c128 = arith.constant 128 : index
    #   %b = arith.constant 0 : i32
    #   %keys = tile_gpu.ring.create tma consumers(4) : !tile_gpu.ring<2, 128x128xbf16 swizzle 128>
    #   tile_gpu.role "load" warps(1) {
    #   ^bb0(%warp: i32):
    #     %one = arith.constant 1 : i32
    scf.for %i = %c0 to %n step %c128 iter_args(%use = %b) -> (i32) {
      %tile = tile_gpu.ring.acquire %keys[%use] : !tile_gpu.ring<2, 128x128xbf16 swizzle 128>
      %row = arith.index_cast %i : index to i32
      tile_gpu.ring.load %K[%b, %b, %row, %b], %tile table(%table : memref<?x?xi32>) page(64)
          : !tile_gpu.tensor_map<64x128xbf16 swizzle 128>, !tile_gpu.smem<128x128xbf16 swizzle 128>
      %next = arith.addi %use, %one : i32
      scf.yield %next : i32
    }
    #     tile_gpu.yield
    #   }
    #   tile_gpu.return
    # }
    ```

    ```mlir
    # tile_gpu.kernel private @decode(%K: !tile_gpu.tensor_map<64x128xbf16 swizzle 128>,
    #     %table: memref<?x?xi32>, %n: index) {
    #   %c0 = arith.constant 0 : index
    #   %c128 = arith.constant 128 : index
    #   %b = arith.constant 0 : i32
    #   %keys = tile_gpu.ring.create tma consumers(4) : !tile_gpu.ring<2, 128x128xbf16 swizzle 128>
    #   tile_gpu.role "load" warps(1) {
    #   ^bb0(%warp: i32):
    #     %one = arith.constant 1 : i32
    #     %c64 = arith.constant 64 : index
    #     %c16 = arith.constant 16 : index
    #     %zero = arith.constant 0 : index
    # %page = arith.constant 64 : index
    %first = arith.divui %c0, %page : index
    # %c1 = arith.constant 1 : index
    # %dim = memref.dim %table, %c1 : memref<?x?xi32>
    # %end = arith.index_cast %dim : index to i32
    # %e0 = arith.index_cast %first : index to i32
    %entries = tile_gpu.global.load %table[%b, %e0] rows(%end) : memref<?x?xi32> -> !tile_gpu.vec<16xi32, row, warp>
    # %count = arith.constant 16 : index
    # %second = arith.addi %first, %count : index
    # %e1 = arith.index_cast %second : index to i32
    %behind = tile_gpu.global.load %table[%b, %e1] rows(%end) : memref<?x?xi32> -> !tile_gpu.vec<16xi32, row, warp>
    scf.for %i = %c0 to %n step %c128 iter_args(%use = %b, %now = %entries, %later = %behind)
        -> (i32, !tile_gpu.vec<16xi32, row, warp>, !tile_gpu.vec<16xi32, row, warp>) {
      %rows = arith.subi %i, %c0 : index
      %done = arith.divui %rows, %c64 : index
      %place = arith.remui %done, %c16 : index
    # %begins = arith.cmpi eq, %place, %zero : index
    # %goes = arith.cmpi ne, %done, %zero : index
    # %all = arith.andi %begins, %goes : i1
      %v:2 = scf.if %all -> (!tile_gpu.vec<16xi32, row, warp>, !tile_gpu.vec<16xi32, row, warp>) {
    #   %n0 = arith.divui %i, %c64 : index
    #   %n1 = arith.addi %n0, %c16 : index
    #   %n2 = arith.index_cast %n1 : index to i32
        %more = tile_gpu.global.load %table[%b, %n2] rows(%end) : memref<?x?xi32> -> !tile_gpu.vec<16xi32, row, warp>
        scf.yield %later, %more : !tile_gpu.vec<16xi32, row, warp>, !tile_gpu.vec<16xi32, row, warp>
      } else {
        scf.yield %now, %later : !tile_gpu.vec<16xi32, row, warp>, !tile_gpu.vec<16xi32, row, warp>
      }
      %from = arith.index_cast %place : index to i32
      %tile = tile_gpu.ring.acquire %keys[%use] : !tile_gpu.ring<2, 128x128xbf16 swizzle 128>
      %row = arith.index_cast %i : index to i32
      tile_gpu.ring.load %K[%b, %b, %row, %b], %tile table(%table : memref<?x?xi32>)
          entries(%v#0 from %from : !tile_gpu.vec<16xi32, row, warp>) page(64)
          : !tile_gpu.tensor_map<64x128xbf16 swizzle 128>, !tile_gpu.smem<128x128xbf16 swizzle 128>
      %next = arith.addi %use, %one : i32
      scf.yield %next, %v#0, %v#1 : i32, !tile_gpu.vec<16xi32, row, warp>, !tile_gpu.vec<16xi32, row, warp>
    }
    #     tile_gpu.yield
    #   }
    #   tile_gpu.return
    # }
    ```

    Numerics: no effect.

    Fails when: never.
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::memref::MemRefDialect",
    "::mlir::scf::SCFDialect",
    "::mlir::tile_gpu::TileGPUDialect"
  ];
  let options = [
    Option<"explain", "explain", "bool", "false",
           "Say of each loop that reads entries as it copies why">
  ];
  let statistics = [
    Statistic<"numLoops", "num-loops", "Loops that read ahead">,
    Statistic<"numMissed", "num-missed", "Loops that read entries as they copy">
  ];
}

#endif // ATTN_DIALECT_TILEGPU_TRANSFORMS_KERNELPASSES_TD
