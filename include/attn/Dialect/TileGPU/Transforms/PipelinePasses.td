//===- PipelinePasses.td - Passes that overlap work --------*- tablegen -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Which warps do what, and what of a loop runs at the same time: roles, stages,
// orders, copies ahead, and launches.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_TILEGPU_TRANSFORMS_PIPELINEPASSES_TD
#define ATTN_DIALECT_TILEGPU_TRANSFORMS_PIPELINEPASSES_TD

include "mlir/Pass/PassBase.td"

def TileGpuSpecializeWarpsPass
    : Pass<"tile-gpu-specialize-warps", "::mlir::ModuleOp"> {
  let summary = "Split tile kernels into a producer warp and warpgroups";
  let description = [{
    Expects: kernels (`tile.kernel`) of attn-tile on a target with tensor
    copies, whose `tile.rows` blocks are the rows of a warpgroup's product.

    Produces: for each such kernel a `tile_gpu.kernel` with two roles, which walk
    the work tiles of one dynamic schedule:

    - The *producer*, one warp, keeps the control flow, the scalars, and the loads
      of queries, keys and values. The loads become copies into rings.
    - The *consumers*, one warpgroup for each row block, keep the rest as tile
      operations on their row block.

    Other kernels stay as they are: tile-gpu-pipeline-copies takes them.

    *Rings.* Queries, keys and values get as many slots as shared memory holds
    beside the results. Warpgroups begin and end their work tiles at different
    times, so each of them has slots of queries of its own, with its rows
    (`members` of the ring). A map of queries alone is computed in shared memory
    (`tile_gpu.smem.map`); one that multiplies by a number is skipped at run time
    where that number is 1. If the table of ramps (`tile_gpu.smem.ramp`) does not
    fit in shared memory, maps add linear biases instead.

    *Loops.* A warpgroup leaves the last loop at the last key that its own rows
    see (`tile.row_range`), and one without live rows skips all loops. Either way
    it releases every slot. Where the rows bound the keys at both ends, as a
    window does, two more cases save work:

    - A warpgroup that sees only the second half of its first tile, or only the
      first half of its last one, takes a step on that half: products of half as
      many keys, and half the scores to mask and to exponentiate. The last step
      has a copy of its own behind the last loop. The first step has two forms up
      to its weights; those of a half are filled up with zeros (`tile.pad`).
    - Where a tile has no more keys than a warpgroup has rows, bounds leave out
      whole steps. Each of two warpgroups then loops over its own keys, and
      releases the slots ahead of these and behind them.

    *Dead values.* Each warpgroup clears the rows of values that lie beyond a
    load's bounds, or whose bit in `tile.truths` is 0, so that none waits for
    another. Where the bounds are those of the tensor, the copies have filled the
    rest with zeros, and values of more than 64 columns are not cleared.

    *Launch.* The plan's launch gets the tensor maps and a counter of drawn work
    tiles. A `tile.work_tile` becomes the schedule: its order, section, cluster
    and sizes. What finds the sequence of a tile moves into the schedule's body,
    with a `tile_gpu.skip` of tiles that are not there. A kernel without
    `tile.work_tile` has the blocks of its grid as work tiles.

    *Who fetches the next work tile* is the schedule's `fetch`:

    - `producer`: the warp that copies.
    - `ahead`: a third role of one warp, `draw`, one tile ahead of the
      warpgroups. Finding the next tile then stays off the producer's critical
      path. It does not suit tiles of different cost: one that is fetched early
      waits behind a long one.
    - `late`: the `draw` warp, when the producer has come to the last full key tile
      of this work tile (`tile_gpu.draw_next`; the loop over full tiles is split
      there). Where blocks add in turns, when all copies are issued, since other
      blocks wait for what is drawn; there blocks draw their first tiles as well
      (`draws_first`). A tile then waits only for tiles that were drawn before it,
      by blocks that run, and the first unfinished one waits for none: the kernel
      ends however few of its blocks have room.

    *Two warpgroups that share the channels of the sums* (`block_v`) need the
    weights of the same rows. Each computes those of half of a tile's keys. Row
    reductions are completed through shared memory, and there the weights of both
    halves come together for the product with the values. A sum that is read only
    by its own step stays one of each warpgroup's keys up to the last step. Steps
    that test elements to decide on rows, or that reduce nothing, leave each
    warpgroup with all weights.

    The warpgroups alternate instead where keys have 64 columns that no value has,
    and the state of a step is its statistics, one such sum, and the sums over
    values that a factor scales. A tile of 128 keys is then two slots, and the
    state passes through them one after the other: each warpgroup computes the
    weights of one slot while the other multiplies. Weights overwrite the columns
    of their slot that no value has. The values of each warpgroup are columns of a
    ring of their own, which is released as soon as they are multiplied; the first
    product takes the first of these columns, so queries are copied behind them.
    The second warpgroup's product with the values of the first slot runs beside
    its own weights. Sums are scaled only where a row of the warp has another
    factor than 1.

    *Few rows.* With `rows = 16` and more channels (`block_v`) than a product has
    columns, one warpgroup has all channels. 64 keys are then the rows of its
    products, and the queries' rows their columns. Weights go through shared
    memory to the product with the values, and reductions over keys end there,
    too (`convert-tile-gpu-to-nvvm`).

    Example:

    ```mlir
    # module attributes {attn.target = "sm_90a"} {
    # tile.kernel private @kernel(%Q: memref<?x64xbf16, strided<[?, 1]>>,
    #     %K: memref<?x64xbf16, strided<[?, 1]>>,
    #     %O: memref<?x64xbf16, strided<[?, 1]>>, %block: index)
    # {
    #   %c0 = arith.constant 0 : index
    #   %c64 = arith.constant 64 : index
    #   %n = memref.dim %K, %c0 : memref<?x64xbf16, strided<[?, 1]>>
    #   %row = arith.muli %block, %c64 : index
    #   %zero = arith.constant 0.0 : f32
    #   %init = tile.fill %zero : f32 -> !tile.tile<64x64xf32>
    %q = tile.load %Q[%row, %c0] : memref<?x64xbf16, strided<[?, 1]>> -> !tile.tile<64x64xbf16>
    %o = scf.for %j = %c0 to %n step %c64 iter_args(%acc = %init) -> (!tile.tile<64x64xf32>) {
      %k = tile.load %K[%j, %c0] : memref<?x64xbf16, strided<[?, 1]>> -> !tile.tile<64x64xbf16>
      %next = tile.rows 64 ins(%q : !tile.tile<64x64xbf16>) outs(%acc : !tile.tile<64x64xf32>) {
      ^bb0(%first: index, %rows: !tile.tile<64x64xbf16>, %old: !tile.tile<64x64xf32>):
        %s = tile.dot %rows, %k acc %old transpose_rhs
            : !tile.tile<64x64xbf16>, !tile.tile<64x64xbf16> -> !tile.tile<64x64xf32>
        tile.yield %s : !tile.tile<64x64xf32>
      } -> !tile.tile<64x64xf32>
      scf.yield %next : !tile.tile<64x64xf32>
    }
    #   tile.store %o, %O[%row, %c0] : !tile.tile<64x64xf32>, memref<?x64xbf16, strided<[?, 1]>>
    #   tile.return
    # }
    # func.func @f(%Q: memref<?x64xbf16, strided<[?, 1]>>,
    #     %K: memref<?x64xbf16, strided<[?, 1]>>,
    #     %O: memref<?x64xbf16, strided<[?, 1]>>, %n: index) attributes {tile.plan} {
    #   tile.launch @kernel grid(%n) args(%Q, %K, %O : memref<?x64xbf16, strided<[?, 1]>>,
    #       memref<?x64xbf16, strided<[?, 1]>>, memref<?x64xbf16, strided<[?, 1]>>)
    #   return
    # }
    # }
    ```

    Numerics: a row's reductions are those of two halves of the keys of a tile
    where two warpgroups have one each, and of two steps where these are slots;
    else no effect.

    Fails when: the module's target is a CPU, or the schedule asks for one stage or
    for more than fit beside the queries, or has warpgroups share channels
    (`block_v`) of a kernel that it cannot take; others that it cannot take are left
    alone.
  }];
  let options = [
    Option<"stages", "stages", "int64_t", "0",
           "Key tiles in flight, and value tiles; 0: as many as fit, 2 to 4">
  ];
  let dependentDialects = [
    "::mlir::tile_gpu::TileGPUDialect", "::mlir::arith::ArithDialect",
    "::mlir::scf::SCFDialect"
  ];
}

def TileGpuAssignStagesPass
    : Pass<"tile-gpu-assign-stages", "::mlir::tile_gpu::KernelOp"> {
  let summary = "Choose which products run beside the next step's softmax";
  let description = [{
    Expects: a `tile_gpu.kernel` in which each product is waited for right
    after its issue: a first step and loops that take its accumulators from one
    another, each with products from zero, work on them, and products of packed
    weights with tiles of rings. The first step may have its products from zero
    in the branches of a conditional, one form of them in each; a last one, on
    other tiles, may lie in a conditional behind the loops that else passes the
    accumulators on.

    Produces: `tile_gpu.stage` on the operations of these steps: a modulo
    schedule of two stages, which `tile-gpu-expand-pipeline` carries out.

    *Stage 1* has the products whose sums only the next step reads (in a forward
    pass: weights times values). They run one turn later, issued behind that
    step's products from zero and overlapped with the work on their scores. A
    step has one wait for all of stage 1. A slot that both stages read is waited
    for in each.

    If there is one such product, and a map rescales its sum, the map is of stage
    1 too where that pays: up to 64 columns; and from 128 columns on, where the
    products from zero take longer than those of 128 keys and channels. In the
    second case it stands ahead of the issue of these products, so that ptxas puts
    it under them.

    *Releases.* ptxas may hoist the wait for stage 1 up to the last arrival at a
    barrier. So a slot that only stage 0 reads is released late enough to keep
    products of stage 1 in flight:

    - behind a reduction of the scores: the last one where the products of stage 1
      have up to 64 columns, else the first;
    - behind the weights, where there is no maximum, where scores take several
      operations, or where weights are summed twice (an entropy);
    - above 128 columns with work tiles in order (the schedule's `order`), behind
      the products that read it, with a `tile_gpu.hold` where the release would
      stand;
    - amid the weights, where keys and values have 128 columns, scores are weighed
      as they are, and work tiles have different numbers of keys or blocks copy
      for each other: the release names the weights (`after`), the wait for stage
      1 and its release follow at once, and the lowering puts all three among the
      instructions of the weights.

    Kernels whose schedule has `overlap = none` stay as they are, and kernels of
    `own_step` have no stage 1. Steps of up to 64 columns whose warpgroups
    exchange weights, and put their product off to the next step (`next_step`),
    wait for a slot where they first read it, and release it behind the last
    product that does. Other loops whose products do not overlap are counted, and
    `explain` says why.

    Example:

    ```mlir
    # !q = !tile_gpu.smem<64x64xbf16 swizzle 128>
    # !kv = !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
    # tile_gpu.kernel @example(%q: !q, %n: i32, %out: memref<?x?xf32>) {
    #   %c0 = arith.constant 0 : i32
    #   %c1 = arith.constant 1 : i32
    #   %zero = arith.constant 0.0 : f32
    #   %k = tile_gpu.ring.create tma consumers(4) : !kv
    #   %v = tile_gpu.ring.create tma consumers(4) : !kv
    #   tile_gpu.role "compute" warpgroups(1) {
    #   ^bb0(%wg: i32):
    #     %init = tile_gpu.frag.fill %zero : f32 -> !tile_gpu.frag<64x64xf32, acc>
    #     %k0 = tile_gpu.ring.wait %k[%c0] : !kv
    #     %t0 = tile_gpu.smem.transpose %k0 : !tile_gpu.smem<64x64xbf16 swizzle 128>
    #     %q0 = tile_gpu.mma.issue %q, %t0 : !q, !tile_gpu.smem<64x64xbf16 swizzle 128 transposed> -> !tile_gpu.token<64x64xf32>
    #     %s0 = tile_gpu.mma.wait %q0 pending(0) : !tile_gpu.token<64x64xf32>
    #     %p0 = tile_gpu.frag.convert %s0 : !tile_gpu.frag<64x64xf32, acc> -> !tile_gpu.frag<64x64xbf16, a>
    #     %v0 = tile_gpu.ring.wait %v[%c0] : !kv
    #     %pv0 = tile_gpu.mma.issue %p0, %v0 acc(%init) : !tile_gpu.frag<64x64xbf16, a>, !tile_gpu.smem<64x64xbf16 swizzle 128> -> !tile_gpu.token<64x64xf32>
    #     %o0 = tile_gpu.mma.wait %pv0 pending(0) : !tile_gpu.token<64x64xf32>
    #     tile_gpu.ring.release %k[%c0] : !kv
    #     tile_gpu.ring.release %v[%c0] : !kv
    %r = scf.for %c = %c1 to %n step %c1 iter_args(%o = %o0)
        -> (!tile_gpu.frag<64x64xf32, acc>) : i32 {
      %ks = tile_gpu.ring.wait %k[%c] : !kv
      %kT = tile_gpu.smem.transpose %ks : !tile_gpu.smem<64x64xbf16 swizzle 128>
      %qk = tile_gpu.mma.issue %q, %kT : !q, !tile_gpu.smem<64x64xbf16 swizzle 128 transposed> -> !tile_gpu.token<64x64xf32>
      %s = tile_gpu.mma.wait %qk pending(0) : !tile_gpu.token<64x64xf32>
      %p = tile_gpu.frag.convert %s : !tile_gpu.frag<64x64xf32, acc> -> !tile_gpu.frag<64x64xbf16, a>
      %vs = tile_gpu.ring.wait %v[%c] : !kv
      %pv = tile_gpu.mma.issue %p, %vs acc(%o) : !tile_gpu.frag<64x64xbf16, a>, !tile_gpu.smem<64x64xbf16 swizzle 128> -> !tile_gpu.token<64x64xf32>
      %on = tile_gpu.mma.wait %pv pending(0) : !tile_gpu.token<64x64xf32>
      tile_gpu.ring.release %k[%c] : !kv
      tile_gpu.ring.release %v[%c] : !kv
      scf.yield %on : !tile_gpu.frag<64x64xf32, acc>
    }
    #     tile_gpu.global.store %r, %out[%c0, %c0] : !tile_gpu.frag<64x64xf32, acc>, memref<?x?xf32>
    #     tile_gpu.yield
    #   }
    #   tile_gpu.return
    # }
    ```

    The loop's body has stages and orders afterwards: the products with values,
    and the wait and release that belong to them, are of stage 1.

    Numerics: no effect.

    Fails when: never.
  }];
  let options = [
    Option<"explain", "explain", "bool", "false",
           "Say of each loop what overlaps, or why nothing does">
  ];
  let statistics = [
    Statistic<"numAssigned", "num-assigned", "Loops whose products overlap">,
    Statistic<"numMissed", "num-missed", "Loops whose products do not">
  ];
}

def TileGpuExpandPipelinePass
    : Pass<"tile-gpu-expand-pipeline", "::mlir::tile_gpu::KernelOp"> {
  let summary = "Run stage 1 of a step beside stage 0 of the next";
  let description = [{
    Expects: steps whose operations have a `tile_gpu.stage`: one ahead of a loop,
    the loop's body, those of loops that take over from it what stage 1 makes,
    and perhaps one in a conditional behind them that else passes that on. Stage 1
    of the loops is the same operations in each, on other values.

    Produces: software-pipelined loops. A loop carries what stage 1 of its step
    reads, and runs that stage one turn later, among the operations of stage 0 of
    the next step in the order that the attributes give. Stage 1 of the last turn
    (the epilogue of the pipeline) comes behind the last loop, after the releases
    of slots that follow the loop. If a conditional with one more step follows,
    the step's branch runs that epilogue among its own operations and its own
    stage 1 behind them; the other branch has the epilogue alone. Each wait leaves
    in flight what was issued after the products that it is for. The attributes
    are removed.

    Example:

    ```mlir
    # !q = !tile_gpu.smem<64x64xbf16 swizzle 128>
    # !kv = !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
    # tile_gpu.kernel @example(%q: !q, %n: i32, %out: memref<?x?xf32>) {
    #   %c0 = arith.constant 0 : i32
    #   %c1 = arith.constant 1 : i32
    #   %zero = arith.constant 0.0 : f32
    #   %k = tile_gpu.ring.create tma consumers(4) : !kv
    #   %v = tile_gpu.ring.create tma consumers(4) : !kv
    #   tile_gpu.role "compute" warpgroups(1) {
    #   ^bb0(%wg: i32):
    #     %init = tile_gpu.frag.fill %zero : f32 -> !tile_gpu.frag<64x64xf32, acc>
    #     %k0 = tile_gpu.ring.wait %k[%c0] : !kv
    #     %t0 = tile_gpu.smem.transpose %k0 : !tile_gpu.smem<64x64xbf16 swizzle 128>
    #     %q0 = tile_gpu.mma.issue %q, %t0 {tile_gpu.stage = #tile_gpu.stage<0, 0>} : !q, !tile_gpu.smem<64x64xbf16 swizzle 128 transposed> -> !tile_gpu.token<64x64xf32>
    #     %s0 = tile_gpu.mma.wait %q0 pending(0) {tile_gpu.stage = #tile_gpu.stage<0, 1>} : !tile_gpu.token<64x64xf32>
    #     %p0 = tile_gpu.frag.convert %s0 {tile_gpu.stage = #tile_gpu.stage<0, 3>} : !tile_gpu.frag<64x64xf32, acc> -> !tile_gpu.frag<64x64xbf16, a>
    #     %v0 = tile_gpu.ring.wait %v[%c0] {tile_gpu.stage = #tile_gpu.stage<1, 4>} : !kv
    #     %pv0 = tile_gpu.mma.issue %p0, %v0 acc(%init) {tile_gpu.stage = #tile_gpu.stage<1, 5>} : !tile_gpu.frag<64x64xbf16, a>, !tile_gpu.smem<64x64xbf16 swizzle 128> -> !tile_gpu.token<64x64xf32>
    #     %o0 = tile_gpu.mma.wait %pv0 pending(0) {tile_gpu.stage = #tile_gpu.stage<1, 6>} : !tile_gpu.token<64x64xf32>
    #     tile_gpu.ring.release %k[%c0] {tile_gpu.stage = #tile_gpu.stage<0, 2>} : !kv
    #     tile_gpu.ring.release %v[%c0] {tile_gpu.stage = #tile_gpu.stage<1, 7>} : !kv
    %r = scf.for %c = %c1 to %n step %c1 iter_args(%o = %o0)
        -> (!tile_gpu.frag<64x64xf32, acc>) : i32 {
      %ks = tile_gpu.ring.wait %k[%c] {tile_gpu.stage = #tile_gpu.stage<0, 0>} : !kv
      %kT = tile_gpu.smem.transpose %ks {tile_gpu.stage = #tile_gpu.stage<0, 1>} : !tile_gpu.smem<64x64xbf16 swizzle 128>
      %qk = tile_gpu.mma.issue %q, %kT {tile_gpu.stage = #tile_gpu.stage<0, 2>} : !q, !tile_gpu.smem<64x64xbf16 swizzle 128 transposed> -> !tile_gpu.token<64x64xf32>
      %s = tile_gpu.mma.wait %qk pending(0) {tile_gpu.stage = #tile_gpu.stage<0, 5>} : !tile_gpu.token<64x64xf32>
      %p = tile_gpu.frag.convert %s {tile_gpu.stage = #tile_gpu.stage<0, 9>} : !tile_gpu.frag<64x64xf32, acc> -> !tile_gpu.frag<64x64xbf16, a>
      %vs = tile_gpu.ring.wait %v[%c] {tile_gpu.stage = #tile_gpu.stage<1, 3>} : !kv
      %pv = tile_gpu.mma.issue %p, %vs acc(%o) {tile_gpu.stage = #tile_gpu.stage<1, 4>} : !tile_gpu.frag<64x64xbf16, a>, !tile_gpu.smem<64x64xbf16 swizzle 128> -> !tile_gpu.token<64x64xf32>
      %on = tile_gpu.mma.wait %pv pending(0) {tile_gpu.stage = #tile_gpu.stage<1, 7>} : !tile_gpu.token<64x64xf32>
      tile_gpu.ring.release %k[%c] {tile_gpu.stage = #tile_gpu.stage<0, 6>} : !kv
      tile_gpu.ring.release %v[%c] {tile_gpu.stage = #tile_gpu.stage<1, 8>} : !kv
      scf.yield %on : !tile_gpu.frag<64x64xf32, acc>
    }
    #     tile_gpu.global.store %r, %out[%c0, %c0] : !tile_gpu.frag<64x64xf32, acc>, memref<?x?xf32>
    #     tile_gpu.yield
    #   }
    #   tile_gpu.return
    # }
    ```

    Numerics: no effect; every sum is formed from the same terms in the same
    order.

    Fails when: stage 1 of a loop is not that of the step ahead of it, an
    operation with effects in a loop's step has no stage, or what stage 1 makes
    is read before the next step.
  }];
  let statistics = [
    Statistic<"numExpanded", "num-expanded", "Loops that were pipelined">
  ];
}

def TileGpuDeferReductionsPass
    : Pass<"tile-gpu-defer-reductions", "::mlir::tile_gpu::KernelOp"> {
  let summary = "Complete carried row sums once, after the loops";
  let description = [{
    Expects: a `tile_gpu.kernel` with loops that carry row vectors
    `next = factor * old + sum of a row`, or `factor * (old + x * other) + sum`
    with another such vector.

    Produces: loops that carry each thread's share of such a vector, with one
    reduction behind them. A conditional behind the loops that may add one more
    share comes before that reduction. The vector that the first loop starts from
    is divided among the threads in equal parts.

    Example:

    ```mlir
    # tile_gpu.kernel @example(%p: !tile_gpu.frag<64x64xf32, acc>,
    #     %l0: !tile_gpu.vec<64xf32, row>, %n: i32, %out: memref<?xf32>)
    # {
    #   %c0 = arith.constant 0 : i32
    #   %c1 = arith.constant 1 : i32
    #   %zero = arith.constant 0.0 : f32
    #   tile_gpu.role "compute" warpgroups(1) {
    #   ^bb0(%wg: i32):
    %l = scf.for %i = %c0 to %n step %c1 iter_args(%old = %l0)
        -> (!tile_gpu.vec<64xf32, row>) : i32 {
      %t = tile_gpu.reduce ins(%p : !tile_gpu.frag<64x64xf32, acc>) identity(%zero : f32) {
      ^bb0(%x: f32, %y: f32):
        %z = arith.addf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !tile_gpu.vec<64xf32, row>
      %next = tile_gpu.map ins(%old, %t : !tile_gpu.vec<64xf32, row>, !tile_gpu.vec<64xf32, row>) {
      ^bb0(%r: i32, %c: i32, %x: f32, %y: f32):
        %z = arith.addf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !tile_gpu.vec<64xf32, row>
      scf.yield %next : !tile_gpu.vec<64xf32, row>
    }
    #     tile_gpu.global.store %l, %out[%c0] : !tile_gpu.vec<64xf32, row>, memref<?xf32>
    #     tile_gpu.yield
    #   }
    #   tile_gpu.return
    # }
    ```

    Numerics: the same sums in another order, fixed for a given schedule. The
    shares of a start of 2^-126 or more are exact.

    Fails when: never.
  }];
  let dependentDialects = [
    "::mlir::tile_gpu::TileGPUDialect", "::mlir::arith::ArithDialect"
  ];
}

def TileGpuPipelineCopiesPass : Pass<"tile-gpu-pipeline-copies", "::mlir::ModuleOp"> {
  let summary = "Turn tile kernels into warps that copy ahead and compute";
  let description = [{
    Expects: kernels (`tile.kernel`) of attn-tile on a GPU; block rows that are
    a multiple of 16.

    Produces: for each a `tile_gpu.kernel` with one role of warps, each with its
    own rows (those of a block of `tile.rows`, or 16), and one block for each
    work tile. Keys and values go through rings filled by asynchronous copies
    that all warps share, whatever strides and alignment the tensors have. All
    warps wait together, so after the wait all have finished the previous step,
    too. In a loop over key tiles, with one slot for each operand, a tile's
    values are in flight while its scores are computed, and the next keys from
    then on; with two slots the whole next tile is in flight while this one is
    computed. Queries are read into registers once or, where registers are
    short, by every product. Reductions over the rows of the block meet in
    shared memory; value rows that no query may see are cleared. What is
    computed stays tile operations on a warp's rows: convert-tile-to-tile-gpu is
    next.

    Example:

    ```mlir
    # module attributes {attn.target = "sm_80"} {
    # tile.kernel private @kernel(%Q: memref<?x64xbf16, strided<[?, 1]>>,
    #     %K: memref<?x64xbf16, strided<[?, 1]>>,
    #     %O: memref<?x64xf32, strided<[?, 1]>>, %block: index)
    # {
    #   %c0 = arith.constant 0 : index
    #   %c64 = arith.constant 64 : index
    #   %n = memref.dim %K, %c0 : memref<?x64xbf16, strided<[?, 1]>>
    #   %row = arith.muli %block, %c64 : index
    #   %zero = arith.constant 0.0 : f32
    #   %init = tile.fill %zero : f32 -> !tile.tile<64x64xf32>
    %q = tile.load %Q[%row, %c0] : memref<?x64xbf16, strided<[?, 1]>> -> !tile.tile<64x64xbf16>
    %o = scf.for %j = %c0 to %n step %c64 iter_args(%acc = %init) -> (!tile.tile<64x64xf32>) {
      %k = tile.load %K[%j, %c0] rows(%c0 to %n) : memref<?x64xbf16, strided<[?, 1]>> -> !tile.tile<64x64xbf16>
      %next = tile.rows 16 ins(%q : !tile.tile<64x64xbf16>) outs(%acc : !tile.tile<64x64xf32>) {
      ^bb0(%first: index, %rows: !tile.tile<16x64xbf16>, %old: !tile.tile<16x64xf32>):
        %s = tile.dot %rows, %k acc %old transpose_rhs
            : !tile.tile<16x64xbf16>, !tile.tile<64x64xbf16> -> !tile.tile<16x64xf32>
        tile.yield %s : !tile.tile<16x64xf32>
      } -> !tile.tile<64x64xf32>
      scf.yield %next : !tile.tile<64x64xf32>
    }
    #   tile.store %o, %O[%row, %c0] : !tile.tile<64x64xf32>, memref<?x64xf32, strided<[?, 1]>>
    #   tile.return
    # }
    # }
    ```

    becomes, with `tile-gpu-verify-async` content after conversion, a loop of

        tile_gpu.ring.wait                       keys of this tile
        tile.dot
        tile_gpu.barrier.sync                    all warps have read them
        tile_gpu.ring.acquire / load / commit    keys of the next tile

    Numerics: no effect.

    Fails when: rows or tiles do not fit the target's threads and shared
    memory, a product transposes what several warps compute, or a tile is used
    in another way that attn-tile does not write.
  }];
  let options = [
    Option<"stages", "stages", "int64_t", "0",
           "Slots of each ring, 0 to choose; fewer where shared memory is "
           "short">
  ];
  let dependentDialects = [
    "::mlir::tile_gpu::TileGPUDialect", "::mlir::arith::ArithDialect",
    "::mlir::scf::SCFDialect"
  ];
}

def TileGpuOrderWarpgroupsPass : Pass<"tile-gpu-order-warpgroups", "::mlir::tile_gpu::KernelOp"> {
  let summary = "Let warpgroups issue products, or do softmax, one at a time";
  let description = [{
    Expects: a `tile_gpu.kernel` whose schedule's `turns` is `products` or
    `softmax`, with a role of two warpgroups or more.

    Produces: turns of the warpgroups (`tile_gpu.turn.wait`, an ordered barrier)
    in the loops whose body issues QK products. With `products` (ping-pong) a
    turn holds the products that are issued without a wait in between, and the
    softmax of the other warpgroups overlaps them; where members exchange
    weights, as gradients do, it holds all from the scores to the first products
    that are added up, and the last ones of the others overlap it. With
    `softmax` (an exclusive section) a turn begins at the wait for the scores, which no
    computation on them can overtake, and ends with the weights. If a member
    skips steps because its rows end early, the loop that releases the slots of
    those steps takes their turns, so that all members take equally many. First
    steps, ahead of the loops, and the products behind them take none. Kernels
    of another form, and warps, stay as they are.

    Example:

    ```mlir
    # !q = !tile_gpu.smem<64x64xbf16 swizzle 128>
    # !kv = !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
    # tile_gpu.kernel @example(%q: !q, %n: i32) attributes {schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 128, turns = products>} {
    #   %c0 = arith.constant 0 : i32
    #   %c1 = arith.constant 1 : i32
    #   %k = tile_gpu.ring.create tma consumers(8) : !kv
    #   tile_gpu.role "compute" warpgroups(2) {
    #   ^bb0(%wg: i32):
    scf.for %c = %c0 to %n step %c1 : i32 {
      %ks = tile_gpu.ring.wait %k[%c] : !kv
      %qk = tile_gpu.mma.issue %q, %ks : !q, !tile_gpu.smem<64x64xbf16 swizzle 128> -> !tile_gpu.token<64x64xf32>
      %s = tile_gpu.mma.wait %qk pending(0) : !tile_gpu.token<64x64xf32>
      tile_gpu.ring.release %k[%c] after(%s : !tile_gpu.frag<64x64xf32, acc>) : !kv
    }
    #     tile_gpu.yield
    #   }
    #   tile_gpu.return
    # }
    ```

    becomes

    ```mlir
    # !q = !tile_gpu.smem<64x64xbf16 swizzle 128>
    # !kv = !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
    # tile_gpu.kernel @example(%q: !q, %n: i32) attributes {schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 128, turns = products>} {
    #   %c0 = arith.constant 0 : i32
    #   %c1 = arith.constant 1 : i32
    #   %k = tile_gpu.ring.create tma consumers(8) : !kv
    %turns = tile_gpu.barrier.create warps(8) each(2)
    #   tile_gpu.role "compute" warpgroups(2) {
    #   ^bb0(%wg: i32):
    scf.for %c = %c0 to %n step %c1 : i32 {
      %ks = tile_gpu.ring.wait %k[%c] : !kv
      tile_gpu.turn.wait %turns[%wg]
      %qk = tile_gpu.mma.issue %q, %ks : !q, !tile_gpu.smem<64x64xbf16 swizzle 128> -> !tile_gpu.token<64x64xf32>
      tile_gpu.turn.pass %turns[%wg]
      %s = tile_gpu.mma.wait %qk pending(0) : !tile_gpu.token<64x64xf32>
      tile_gpu.ring.release %k[%c] after(%s : !tile_gpu.frag<64x64xf32, acc>) : !kv
    }
    #     tile_gpu.yield
    #   }
    #   tile_gpu.return
    # }
    ```

    Numerics: no effect.

    Fails when: never. Roles whose steps differ in their products keep no turns.
  }];
  let dependentDialects = ["::mlir::tile_gpu::TileGPUDialect"];
}

def TileGpuKeepWorkspacePass
    : Pass<"tile-gpu-keep-workspace", "::mlir::ModuleOp"> {
  let summary = "Write workspace once that depends on numbers alone";
  let description = [{
    Expects: plans that launch `tile_gpu.kernel`s.

    Produces: `tile_gpu.keep` in place of a workspace whose contents depend on
    numbers alone: every kernel that writes it reads nothing but numbers, sizes of
    tensors, and other such workspaces. The lists of a mask that reads no tensors
    are one. The numbers are the key under which the contents are found again:
    where an earlier run has written them, the launches of those kernels have no
    blocks. A workspace that any other kernel writes stays as it is, and so does
    one that is used ahead of the first of those launches.

    Example:

    ```mlir
    # module attributes {attn.target = "sm_90a"} {
    # tile_gpu.kernel private @list(%m: memref<?xi32>, %n: index) {
    #   %c0 = arith.constant 0 : index
    #   %v = arith.index_cast %n : index to i32
    #   tile_gpu.role "compute" warps(1) {
    #   ^bb0(%warp: i32):
    #     memref.store %v, %m[%c0] : memref<?xi32>
    #     tile_gpu.yield
    #   }
    #   tile_gpu.return
    # }
    # tile_gpu.kernel private @reduce(%q: memref<?xi32>, %m: memref<?xi32>) {
    #   %c0 = arith.constant 0 : index
    #   tile_gpu.role "compute" warps(1) {
    #   ^bb0(%warp: i32):
    #     %v = memref.load %m[%c0] : memref<?xi32>
    #     memref.store %v, %q[%c0] : memref<?xi32>
    #     tile_gpu.yield
    #   }
    #   tile_gpu.return
    # }
    func.func @plan(%q: memref<?xi32>, %n: index) attributes {tile.plan} {
      %list = tile.workspace(%n) : memref<?xi32>
      tile_gpu.launch @list grid(%n) args(%list, %n : memref<?xi32>, index)
      tile_gpu.launch @reduce grid(%n) args(%q, %list : memref<?xi32>, memref<?xi32>)
      return
    }
    # }
    ```

    ```mlir
    # module attributes {attn.target = "sm_90a"} {
    # tile_gpu.kernel private @list(%m: memref<?xi32>, %n: index) {
    #   %c0 = arith.constant 0 : index
    #   %v = arith.index_cast %n : index to i32
    #   tile_gpu.role "compute" warps(1) {
    #   ^bb0(%warp: i32):
    #     memref.store %v, %m[%c0] : memref<?xi32>
    #     tile_gpu.yield
    #   }
    #   tile_gpu.return
    # }
    # tile_gpu.kernel private @reduce(%q: memref<?xi32>, %m: memref<?xi32>) {
    #   %c0 = arith.constant 0 : index
    #   tile_gpu.role "compute" warps(1) {
    #   ^bb0(%warp: i32):
    #     %v = memref.load %m[%c0] : memref<?xi32>
    #     memref.store %v, %q[%c0] : memref<?xi32>
    #     tile_gpu.yield
    #   }
    #   tile_gpu.return
    # }
    func.func @plan(%q: memref<?xi32>, %n: index) attributes {tile.plan} {
      %key = arith.index_cast %n : index to i64
      %list, %new = tile_gpu.keep 0(%n) key(%key) : memref<?xi32>
      %c0 = arith.constant 0 : index
      %blocks = arith.select %new, %n, %c0 : index
      tile_gpu.launch @list grid(%blocks) args(%list, %n : memref<?xi32>, index)
      tile_gpu.launch @reduce grid(%n) args(%q, %list : memref<?xi32>, memref<?xi32>)
      return
    }
    # }
    ```

    Numerics: no effect.

    Fails when: never.
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::memref::MemRefDialect",
    "::mlir::tile_gpu::TileGPUDialect"
  ];
  let statistics = [
    Statistic<"numKept", "num-kept", "Number of workspaces that runs share">
  ];
}

def TileGpuOverlapLaunchesPass
    : Pass<"tile-gpu-overlap-launches", "::mlir::ModuleOp"> {
  let summary = "Start a kernel of a plan while the one before it ends";
  let description = [{
    Expects: plans that launch `tile_gpu.kernel`s, on a target with dependent
    launches.

    Produces: programmatic dependent launches (PDL). Of two launches in a row the
    second becomes `programmatic`: the roles of the first kernel let it start, and
    its own roles first wait for the first launch, and so for all launches before.
    Operations of the plan between the two move ahead of both; a plan in which
    these touch memory of the first kernel stays as it is. In the same way the
    first launch of a plan waits for what its stream ran before, and the last one
    lets start what comes behind.

    *Where roles wait.* Roles of warps, and a role that is alone, wait where they
    first read memory: finding a work tile and its addresses overlaps the end of
    the launch before. A kernel of one role that reads nothing that the one before
    writes does all its reading first, and waits before it writes; the kernel
    before, if it has one role as well, lets it start once it has waited itself.

    *Independent kernels.* Kernels of one role that neither need nor change
    anything of the launches before them, such as those that list tiles, move ahead
    of the plan's first launch and run at once. They let the next kernel start
    first, and one block of each waits for the launch before when its work is
    done.

    *Copies asked for ahead of the wait.* A warp that copies keys which are read
    once (`evict_first`) asks the L2 cache for the tiles of its first slots before
    it waits (`tile_gpu.global.prefetch`). It does so where no memory says which
    tiles these are, and where it has at least four times as many to copy. In
    clusters, besides, more than half of the multiprocessors have one work tile
    each; or the slots hold all that is copied, and at most a quarter of the
    multiprocessors have blocks.

    Where memory says which tiles these are, as lengths and tables of pages do, two
    things happen for blocks of at most 16 rows. Both read that memory ahead of the
    wait, past caches, when it may still change, so what they read decides nothing
    but what is fetched:

    - A warp that would only fill up a warpgroup (role "ask") asks for the tiles by
      the same rule.
    - The warps that copy read it for the first work tile of their block. Behind
      the wait they read it again, with the table's entries. Where nothing has
      changed they copy the first tiles, as many as there are slots, before the
      work tile is drawn.

    In a block with half of a warpgroup's rows, a tile that is copied ahead of the
    loops is asked for as well.

    Example:

    ```mlir
    # module attributes {attn.target = "sm_90a"} {
    # tile_gpu.kernel private @list(%n: memref<1xi32>) {
    #   tile_gpu.role "compute" warps(1) {
    #   ^bb0(%warp: i32):
    #     tile_gpu.yield
    #   }
    #   tile_gpu.return
    # }
    # tile_gpu.kernel private @reduce(%n: memref<1xi32>, %t: memref<1xi32>) {
    #   tile_gpu.role "compute" warps(1) {
    #   ^bb0(%warp: i32):
    #     tile_gpu.yield
    #   }
    #   tile_gpu.return
    # }
    func.func @plan(%grid: index) attributes {tile.plan} {
      %list = tile.workspace() : memref<1xi32>
      tile_gpu.launch @list grid(%grid) args(%list : memref<1xi32>)
      %tickets = tile.workspace() : memref<1xi32>
      tile_gpu.reset %tickets : memref<1xi32>
      tile_gpu.launch @reduce grid(%grid) args(%list, %tickets : memref<1xi32>, memref<1xi32>)
      return
    }
    # }
    ```

    ```mlir
    # module attributes {attn.target = "sm_90a"} {
    # tile_gpu.kernel private @list(%n: memref<1xi32>) {
    #   tile_gpu.role "compute" warps(1) {
    #   ^bb0(%warp: i32):
    #     tile_gpu.dependents.launch
    #     tile_gpu.dependencies.wait
    #     tile_gpu.yield
    #   }
    #   tile_gpu.return
    # }
    # tile_gpu.kernel private @reduce(%n: memref<1xi32>, %t: memref<1xi32>) {
    #   tile_gpu.role "compute" warps(1) {
    #   ^bb0(%warp: i32):
    #     tile_gpu.dependents.launch
    #     tile_gpu.dependencies.wait
    #     tile_gpu.yield
    #   }
    #   tile_gpu.return
    # }
    func.func @plan(%grid: index) attributes {tile.plan} {
      %list = tile.workspace() : memref<1xi32>
      %tickets = tile.workspace() : memref<1xi32>
      tile_gpu.reset %tickets : memref<1xi32>
      tile_gpu.launch @list grid(%grid) args(%list : memref<1xi32>) programmatic
      tile_gpu.launch @reduce grid(%grid) args(%list, %tickets : memref<1xi32>, memref<1xi32>) programmatic
      return
    }
    # }
    ```

    Numerics: no effect.

    Fails when: never.
  }];
  let dependentDialects = ["::mlir::tile_gpu::TileGPUDialect"];
}

#endif // ATTN_DIALECT_TILEGPU_TRANSFORMS_PIPELINEPASSES_TD
