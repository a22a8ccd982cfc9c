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

    Produces: for each such kernel a `tile_gpu.kernel` of two roles that walk
    the work tiles of one dynamic schedule. The producer keeps control flow,
    scalars and the loads of queries, keys and values, which become copies into
    rings; the other role has a consumer warpgroup for each row block and keeps
    the rest, as tile operations on that row block. A warpgroup ends the last
    loop where its own rows see no further key (`tile.row_range`), and one
    without live rows skips all loops; it still releases every slot. Where both
    ends of the keys are bounds of the rows, as those of a window are, a
    warpgroup that sees the second half of its first tile alone, or the first
    half of its last one, takes a step on that half: products of half as many
    keys, and half the scores to mask and to exponentiate. The first step has
    two forms for that, up to the weights, those of a half filled up with zeros
    (`tile.pad`); the last one comes behind the last loop. Where a tile has no more
    keys than a warpgroup has rows, bounds leave out whole steps: each of two
    warpgroups then has the loops of its own keys, and releases the slots ahead of
    these and behind them. Queries, keys and values get as many slots as the shared
    memory holds beside the results. Each warpgroup has slots of queries of its own,
    with its rows (`members` of the ring), since warpgroups begin and end their work
    tiles at different times. What a map makes of queries alone is made in shared
    memory (`tile_gpu.smem.map`), and not at all
    where it multiplies by a number that turns out to be 1. If the table
    of ramps (`tile_gpu.smem.ramp`) does not fit in shared memory, linear biases
    are added by maps instead. Rows of values that lie beyond a load's bounds,
    or whose bit is 0 where `tile.truths` says which rows are live, are cleared
    by each warpgroup, so that none has to wait for another. If the bounds are
    those of the keys or values in memory, copies have filled the rest with
    zeros, and values of more than 64 columns are not cleared. The plan's launch
    gets tensor maps and a counter of drawn work tiles.

    Two warpgroups that share the channels of the sums (`block_v`) need the
    weights of the same rows. Each computes those of half of the keys of a tile:
    what rows are reduced to is made of both halves by way of shared memory, and
    the weights come together there for the product with the values. A sum that
    only its own step takes stays that of each warpgroup's keys up to the last
    step. Steps that decide on rows by tests of elements, or reduce nothing, leave
    each warpgroup with all weights. Where keys have 64 columns that no value
    has, and a step's state is statistics, one such sum and the sums over values,
    which its factor scales, a tile of 128 keys is two slots: the state goes
    through them one after the other, and each warpgroup computes the weights of
    one, into those columns of it, while the other multiplies. The values of
    each warpgroup are columns of a ring of their own then, which is given back
    as soon as they are multiplied; queries are copied behind the first of these
    columns, which is what the first product takes. The second one's product with
    the values of the first slot runs beside its own weights. Sums are scaled
    where a row of the warp has another factor than 1.

    With `rows = 16` and more channels (`block_v`) than a product has columns,
    one warpgroup has them all: 64 keys are the rows of its products, and the
    queries' rows their columns. Weights go through shared memory to the product
    with the values; reductions over keys end there, too
    (`convert-tile-gpu-to-nvvm`).
    Other kernels stay as they are: tile-gpu-pipeline-copies takes them.

    The schedule's `fetch` says who fetches the next work tile: `producer`, the
    warp that copies; `ahead`, a third role of one warp, `draw`, one tile ahead of
    the warpgroups, so that finding the next tile stays off the producer's
    critical path (not for tiles of different cost: one fetched early waits
    behind a long one); `late`, that warp when the producer has come to the last
    full key tile of this one (`tile_gpu.draw_next`): the loop over full tiles is
    split there. Where blocks add in turns it is when all copies are issued, since
    others wait for what is drawn, and blocks draw their first tiles as well
    (`draws_first`): a tile waits for tiles that were drawn before it, by
    blocks that run, and the first one that is not done waits for none. So the
    kernel ends however few of its blocks have room.
    A `tile.work_tile` becomes the schedule: its order, section, cluster and
    sizes, and in the schedule's body what finds the sequence of a tile, with a
    `tile_gpu.skip` of tiles that are not there. A kernel without one has the
    blocks of its grid as work tiles.

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

    Produces: `tile_gpu.stage` on the operations of these steps, for
    `tile-gpu-expand-pipeline`. Products whose sum the next step alone reads,
    as many as there are, are of stage 1: they run a turn later, behind the
    issue of that step's products from zero and beside the work on them. Where
    there is one, and a map scales its sum, that is of stage 1 too, up to 64
    columns, and from 128 columns on where the products from zero take longer
    than those of 128 keys and channels: then it stands ahead of their issue, so
    that ptxas puts it under them. All of stage 1 has one wait, and slots that
    both stages read are waited for in each. Slots that stage 0 alone reads are released behind a
    reduction of the scores (behind the last one where the products of stage 1
    have up to 64 columns; behind the weights where there is no maximum, or
    scores take several operations), which is what keeps ptxas from waiting for
    those products any earlier. Above 128 columns, where work tiles are in order
    (the schedule's `order`), they are released behind the products that read
    them, and a `tile_gpu.hold` stands where the release would. Where keys and
    values have 128 columns, scores are weighed as they are, and work tiles have
    different numbers of keys or blocks copy for each other, the weights are named
    by the release, and the wait for stage 1 and the release behind that follow
    at once: the lowering puts all three amid the weights.

    Kernels whose schedule has `overlap = none` stay as they are, and those of
    `own_step` have no stage 1. Steps of up to 64 columns whose warpgroups exchange
    weights, and put their product off to the next step (`next_step`), wait for a
    slot where they read it first, and give it back behind the last product that
    does. Other loops with products that do not overlap are counted, and `explain`
    says why.

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

    Produces: loops that carry what stage 1 reads, and run it in the turn after
    its step, by order among the operations of stage 0; behind the last loop
    stage 1 of its last turn, behind the releases of slots that follow the loop.
    A step in a conditional has that between its own operations, and its own
    stage 1 behind them; in the other branch it comes alone. Waits leave in
    flight what is issued after the products that they are for. The
    attributes are gone.

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

    Produces: loops that carry each thread's share of such a vector, and one
    reduction after them, and after a conditional behind them that may add one
    more share. The vector that the first loop starts from is shared
    out in equal parts.

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

    Produces: `tile_gpu.keep` in the place of workspace that kernels write who
    read nothing but numbers, sizes of tensors, and such workspace, as the lists
    of a mask that reads no tensors; these numbers are the key. The launches of
    those kernels have no blocks where an earlier run has written it. Workspace
    that any other kernel writes stays as it is, and so does what is used ahead of
    the first of those launches.

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

    Produces: programmatic dependent launches (PDL). Of two launches in a row
    the second becomes `programmatic`. The roles of its kernel first wait for
    the first launch, and so for all launches before; the roles of the first
    kernel let the second one start. Operations of the plan between the two move
    ahead of both; a plan in which these touch memory of the first kernel stays
    as it is. The first launch of a plan waits so for what its stream ran before,
    and the last lets start what comes behind.

    Roles of warps, and a role that is alone, wait where they first ask for
    memory: an item is found, and its addresses are, while the launch before
    ends. Where a kernel of one role reads nothing that the one before writes, it
    reads first, and waits before it writes; the one before, of one role as well,
    lets it start when it has waited itself. Kernels of one role that need nothing
    of the launches before them, and change nothing of theirs, as those that list
    tiles, move ahead of the plan's first launch, and all of these run at once:
    they let the next one start first, and one block of each waits, when it has
    done its work, for the launch before. A warp that copies keys which are
    read once (`evict_first`) asks L2 for those that its slots hold first
    (`tile_gpu.global.prefetch`) before it waits, where no memory says which
    these are, and it has four times as many at least to copy. In clusters it
    does where, beside that, more than half of the multiprocessors have one item
    each, or where its slots hold all that it copies, and a quarter of the
    multiprocessors have blocks. Where memory says it, as lengths and tables of
    pages do, a warp that would only fill up a warpgroup (role "ask") reads that
    ahead of the wait, past caches, for blocks of at most 16 rows, and asks by the
    same rule. What it reads may change until the wait is over: it decides what is
    asked for, and nothing else. The warps that copy read it ahead of the wait as
    well, for the first item of their block alone: behind the wait they read it
    again, with the entries of tables that it names, and where nothing has changed
    they copy the first tiles, as many as there are slots, before the item is
    drawn. Where a block has half of a warpgroup's rows, a tile that is copied
    ahead of the loops is asked for.

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
