//===- TileGPUBarrierOps.td - Barriers and turns -----------*- tablegen -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_TILEGPU_IR_TILEGPUBARRIEROPS_TD
#define ATTN_DIALECT_TILEGPU_IR_TILEGPUBARRIEROPS_TD

include "attn/Dialect/TileGPU/IR/TileGPUStructureOps.td"

//===----------------------------------------------------------------------===//
// Barriers
//===----------------------------------------------------------------------===//

def TileGPU_BarrierCreateOp : TileGPU_Op<"barrier.create"> {
  let summary = "Reserves hardware barriers for a role";
  let description = [{
    `each(n)` reserves one barrier of `warps` warps for each of n members of
    a role, `each(1)` (the default) a single one. `first(n)` is the number of
    the first (`tile-gpu-allocate-shared`); barrier 0 is the whole block's.

    Example:

    ```mlir
    # func.func @example() {
    %all = tile_gpu.barrier.create warps(8)
    %own = tile_gpu.barrier.create warps(4) each(2)
    #   return
    # }
    ```
  }];
  let arguments = (ins
    Arg<I64Attr, "Number of warps that wait for each other at one "
        "barrier.">:$warps,
    Arg<DefaultValuedAttr<I64Attr, "1">, "Number of barriers, one for each "
        "member of a role; 1 if absent.">:$each,
    Arg<OptionalAttr<I64Attr>, "Number of the first hardware barrier, given by "
        "`tile-gpu-allocate-shared`; absent before.">:$first);
  let results = (outs
    Res<TileGPU_BarrierType, "The barriers.", [MemAlloc]>:$barrier);
  let assemblyFormat =
    "`warps` `(` $warps `)` (`each` `(` $each^ `)`)? "
    "(`first` `(` $first^ `)`)? attr-dict";
  let hasVerifier = 1;
}

def TileGPU_BarrierSyncOp : TileGPU_Op<"barrier.sync"> {
  let summary = "Waits until all warps of a barrier have come";
  let description = [{
    Orders the shared-memory accesses of those warps; their writes are also
    visible to bulk copies and products that start later (a proxy fence). With
    `threads_only` there is no such fence: no later copy or product reads what
    was written before.

    Example:

    ```mlir
    # func.func @example(%own: !tile_gpu.barrier, %wg: i32) {
    tile_gpu.barrier.sync %own[%wg]
    #   return
    # }
    ```
  }];
  let arguments = (ins
    Arg<TileGPU_BarrierType, "The barrier, or several of which `member` "
        "chooses.", [MemRead, MemWrite]>:$barrier,
    Arg<Optional<I32>, "Number of the barrier among several; the first if "
        "absent.">:$member,
    Arg<UnitAttr, "No bulk copy or product that starts later reads what was "
        "written before.">:$threads_only);
  let assemblyFormat = [{
    $barrier (`[` $member^ `]`)? (`threads_only` $threads_only^)? attr-dict
  }];
}

def TileGPU_TurnWaitOp : TileGPU_Op<"turn.wait"> {
  let summary = "Waits for this warpgroup's turn";
  let description = [{
    An ordered barrier, for ping-pong scheduling: the warpgroups of a role take
    turns, member 0 first, then 1 and so on, then 0 again, and only one at a
    time is between `turn.wait` and `turn.pass`. All take equally many turns
    (`tile-gpu-verify-async`). The barrier is created with `each(warpgroups)`
    and the warps of two warpgroups, the one that passes the turn and the one
    that takes it. `tile-gpu-order-warpgroups` writes these operations where a
    schedule has `turns`.

    Example:

    ```mlir
    # func.func @example(%turns: !tile_gpu.barrier, %wg: i32) {
    tile_gpu.turn.wait %turns[%wg]
    tile_gpu.turn.pass %turns[%wg]
    #   return
    # }
    ```
  }];
  let arguments = (ins
    Arg<TileGPU_BarrierType, "The barriers, one for each warpgroup of the "
        "role.", [MemRead, MemWrite]>:$barrier,
    Arg<I32, "Number of this warpgroup within the role.">:$member);
  let assemblyFormat = "$barrier `[` $member `]` attr-dict";
}

def TileGPU_TurnPassOp : TileGPU_Op<"turn.pass"> {
  let summary = "Passes the turn to the next warpgroup";
  let description = [{
    Does not wait. ptxas keeps the order of turns and products, but moves
    arithmetic across them. The results that the turn must have computed are
    named in `after`, and the arrival is made to depend on them. See
    `tile_gpu.turn.wait`.

    Example:

    ```mlir
    # func.func @example(%turns: !tile_gpu.barrier, %wg: i32,
    #     %p: !tile_gpu.frag<64x64xf32, acc>) {
    tile_gpu.turn.pass %turns[%wg] after(%p : !tile_gpu.frag<64x64xf32, acc>)
    #   return
    # }
    ```
  }];
  let arguments = (ins
    Arg<TileGPU_BarrierType, "The barriers, one for each warpgroup of the "
        "role.", [MemRead, MemWrite]>:$barrier,
    Arg<I32, "Number of this warpgroup within the role.">:$member,
    Arg<Variadic<AnyTypeOf<[TileGPU_FragType, TileGPU_VecType]>>, "Values that "
        "belong to the turn: they are computed before it is passed.">:$after);
  let assemblyFormat = [{
    $barrier `[` $member `]` (`after` `(` $after^ `:` type($after) `)`)?
    attr-dict
  }];
}

def TileGPU_HoldOp : TileGPU_Op<"hold", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Keeps waits that come later behind values";
  let description = [{
    Does nothing when the kernel runs. ptxas keeps the order of waits, arrivals
    and other accesses to memory, but moves arithmetic across them: a wait for
    products would float up to the last of these, and what the products were to
    run beside would come behind it. To ptxas a hold is an access to shared
    memory that depends on `values` (on a quarter of their registers, or with
    `all` on each of them), and that no thread makes: what waits behind it in
    the program stays behind it.

    Example:

    ```mlir
    # func.func @example(%max: !tile_gpu.vec<64xf32, row>) {
    tile_gpu.hold %max : !tile_gpu.vec<64xf32, row>
    #   return
    # }
    ```
  }];
  let arguments = (ins
    Arg<Variadic<AnyTypeOf<[TileGPU_FragType, TileGPU_VecType]>>, "Values that "
        "are computed before what waits behind; one or more.">:$values,
    Arg<UnitAttr, "Each register is.">:$all);
  let assemblyFormat = "(`all` $all^)? $values attr-dict `:` type($values)";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Turns of blocks
//===----------------------------------------------------------------------===//

class TileGPU_BlockTurnOp<string mnemonic, list<MemoryEffect> effects>
    : TileGPU_Op<mnemonic> {
  let arguments = (ins
    Arg<AnyMemRef, "Counters of i32 in memory.", effects>:$counters,
    Arg<Variadic<I32>, "Which of them, one index for each "
        "dimension.">:$indices,
    Arg<I32, "The number of the turn.">:$turn);
  let assemblyFormat = [{
    $counters `[` $indices `]` `turn` `(` $turn `)` attr-dict
    `:` type($counters)
  }];
  let hasVerifier = 1;
}

def TileGPU_BlockTurnWaitOp
    : TileGPU_BlockTurnOp<"block_turn.wait", [MemRead, MemWrite]> {
  let summary = "Waits until a counter in memory says that it is one's turn";
  let description = [{
    What other blocks wrote before they passed the turn is seen behind it. A
    warp that has nothing else to do looks at the counter again and again. The
    blocks that have the turns before must have begun: work tiles that are drawn
    in the order of their turns have.

    Example:

    ```mlir
    # func.func @example(%counters: memref<?x?x?xi32>, %b: i32, %h: i32,
    #     %m: i32, %n: i32) {
    tile_gpu.block_turn.wait %counters[%b, %h, %m] turn(%n) : memref<?x?x?xi32>
    tile_gpu.block_turn.pass %counters[%b, %h, %m] turn(%n) : memref<?x?x?xi32>
    #   return
    # }
    ```
  }];
}

def TileGPU_BlockTurnPassOp
    : TileGPU_BlockTurnOp<"block_turn.pass", [MemRead, MemWrite]> {
  let summary = "Gives the turn to who has the next number";
  let description = [{
    Sets the counter to `turn` + 1, when the warp's bulk copies and reductions
    are in memory. What it has written, and other warps of the block before they
    arrived at a barrier that it has waited for, is seen by who takes the turn.
    See `tile_gpu.block_turn.wait`.

    Example:

    ```mlir
    # func.func @example(%counters: memref<?x?x?xi32>, %b: i32, %h: i32,
    #     %m: i32, %n: i32) {
    tile_gpu.block_turn.pass %counters[%b, %h, %m] turn(%n) : memref<?x?x?xi32>
    #   return
    # }
    ```
  }];
}

#endif // ATTN_DIALECT_TILEGPU_IR_TILEGPUBARRIEROPS_TD
