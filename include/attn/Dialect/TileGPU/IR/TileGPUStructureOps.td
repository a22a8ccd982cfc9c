//===- TileGPUStructureOps.td - Roles, schedules, rings -*- tablegen -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_TILEGPU_IR_TILEGPUSTRUCTUREOPS_TD
#define ATTN_DIALECT_TILEGPU_IR_TILEGPUSTRUCTUREOPS_TD

include "attn/Dialect/Attn/IR/AttnAttrs.td"
include "attn/Dialect/TileGPU/IR/TileGPUTypes.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/FunctionInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/LoopLikeInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class TileGPU_Op<string mnemonic, list<Trait> traits = []>
    : Op<TileGPU_Dialect, mnemonic, traits>;
class TileGPU_Infer<string mnemonic, list<Trait> traits = []>
    : TileGPU_Op<mnemonic, !listconcat(traits, [
        DeclareOpInterfaceMethods<InferTypeOpInterface>])>;

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

def TileGPU_KernelOp : TileGPU_Op<"kernel", [
    FunctionOpInterface, IsolatedFromAbove]> {
  let summary = "The program of a block of threads";
  let description = [{
    A function without results. Its body creates shared-memory rings and
    barriers, may define one schedule of tiles, and holds the programs of the
    block's roles, which run side by side. `tile_gpu.launch` runs it.

    `schedule` holds every decision that the passes over kernels take from here
    (`#attn.schedule`); a kernel without one has those of an empty one.
    `shared_bytes` is the shared memory of a block, in which
    `tile-gpu-allocate-shared` has given each operation its place.
    `launch` is what a launch has to know of a kernel whose code is elsewhere:
    `convert-tile-gpu-to-nvvm` leaves such a declaration.

    Example:

    ```mlir
    tile_gpu.kernel private @nothing(%items: i32)
        attributes {schedule = #attn.schedule<block_q = 128, rows = 64,
                                              block_k = 128, stages = 2>} {
      tile_gpu.return
    }
    tile_gpu.kernel private @lowered(memref<?xf32>)
        attributes {launch = #tile_gpu.launch<threads = 384,
                                              shared_bytes = 1024>}
    ```
  }];
  let arguments = (ins
    Arg<SymbolNameAttr, "The name by which a launch refers to it.">:$sym_name,
    Arg<TypeAttrOf<FunctionType>, "Types of its arguments; there are no "
        "results.">:$function_type,
    Arg<OptionalAttr<StrAttr>, "Who may refer to it; anyone if "
        "absent.">:$sym_visibility,
    Arg<OptionalAttr<DictArrayAttr>, "Attributes of each argument; none if "
        "absent.">:$arg_attrs,
    Arg<OptionalAttr<DictArrayAttr>, "Attributes of results, of which a kernel "
        "has none.">:$res_attrs,
    Arg<OptionalAttr<Attn_ScheduleAttr>, "The decisions that the passes over "
        "kernels take from here; those of an empty one if absent.">:$schedule,
    Arg<OptionalAttr<I64Attr>, "Bytes of shared memory of a block, given by "
        "`tile-gpu-allocate-shared`; absent before.">:$shared_bytes,
    Arg<OptionalAttr<TileGPU_LaunchAttr>, "What a launch has to know of a "
        "kernel whose code is elsewhere; absent where it has a body.">:$launch);
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
    /// Decisions of the schedule, where there is one.
    int64_t getCluster() {
      return getSchedule() ? getSchedule()->getCluster() : 1;
    }
    int64_t getOccupancy() {
      return getSchedule() ? getSchedule()->getOccupancy() : 1;
    }
    ::mlir::attn::Turns getTurns() {
      return getSchedule() ? getSchedule()->getTurns()
                           : ::mlir::attn::Turns::none;
    }
    ::mlir::attn::ProductOverlap getOverlap() {
      return getSchedule() ? getSchedule()->getOverlap()
                           : ::mlir::attn::ProductOverlap::next_step;
    }
  }];
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

def TileGPU_ReturnOp : TileGPU_Op<"return", [
    Pure, Terminator, ReturnLike, HasParent<"KernelOp">]> {
  let summary = "Ends a kernel";
  let assemblyFormat = "attr-dict";
}

//===----------------------------------------------------------------------===//
// Roles and schedules
//===----------------------------------------------------------------------===//

def TileGPU_RoleOp : TileGPU_Op<"role", [
    HasParent<"KernelOp">, RecursiveMemoryEffects, SingleBlock]> {
  let summary = "The program of some warps or warpgroups of a block";
  let description = [{
    Roles are warp specialization: those of a kernel run side by side, each on
    its own threads, in the order of their text from thread 0 up; a role of
    warps is padded to a whole warpgroup together with the warp roles beside it.
    The block argument is the number of the warp or warpgroup within the role
    (`i32`, the same for all of its threads).

    `registers(n)` sets the registers of each thread for the role's lifetime
    (setmaxnreg); it is a property of a warpgroup, so warp roles of one
    warpgroup must agree. Without it the kernel's even share holds. `barrier(n)`
    is the hardware barrier of member 0 where operations of the role let its
    threads wait for each other (`tile-gpu-allocate-shared`).

    Example:

    ```mlir
    # tile_gpu.kernel @example() {
    tile_gpu.role "load" warps(1) registers(24) {
    ^bb0(%warp: i32):
      tile_gpu.yield
    }
    tile_gpu.role "compute" warpgroups(2) registers(240) {
    ^bb0(%wg: i32):
      tile_gpu.yield
    }
    #   tile_gpu.return
    # }
    ```
  }];
  let arguments = (ins
    Arg<StrAttr, "The name of the role in diagnostics.">:$name,
    Arg<TileGPU_Scope, "Whether its members are warps or warpgroups.">:$scope,
    Arg<I64Attr, "Number of members.">:$count,
    Arg<OptionalAttr<I64Attr>, "Registers of each thread, a multiple of 8 from "
        "24 on; the kernel's even share if absent.">:$registers,
    Arg<OptionalAttr<I64Attr>, "Number of the hardware barrier of member 0, "
        "given by `tile-gpu-allocate-shared`; absent before, or where the role "
        "needs none.">:$barrier);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    int64_t getWarps() {
      return int64_t(getCount()) * (getScope() == Scope::Warp ? 1 : 4);
    }
  }];
}

def TileGPU_SchedulerOp : TileGPU_Op<"scheduler", [
    AttrSizedOperandSegments, RecursiveMemoryEffects, SingleBlock]> {
  let summary = "Defines which tiles a block works on, and in which order";
  let description = [{
    The work is `tiles` x `heads` x `batch` x `splits` items, which are work
    tiles (`i32` counts; absent splits: 1). `grid`: one block for each item.
    `static` and `dynamic` have persistent blocks, as many as fit. `static`:
    block n takes items n, n + blocks, .... `dynamic`: each block draws
    (fetches) its next item from an atomic counter, `tickets`, which is zero
    before (`tile_gpu.tickets`); the last draw sets it to zero again.

    The order, `section` and `cluster` are those of `tile.work_tile`, of which a
    kernel's schedule is made: `longest_first` takes tiles from the last to the
    first, the order in which causal tiles shrink. `section(s)` lets s heads, a
    number that is known when the kernel runs, advance together before the next
    s heads start, so that their keys stay in the L2 cache.

    `cluster(c)`: blocks come in clusters of c, one of which draws for all. If
    it draws n, block r of them takes item c n + r; c divides `tiles`, so that
    the blocks of a cluster have neighbouring tiles of one head, batch and
    split. With `by_parts` they have the c parts of the keys of one tile, head
    and batch: block r has split r. Dynamic schedules only.

    The values that the body yields, scalars of 1, 32 or 64 bits, are arguments
    of every loop over the schedule, after tile, head, batch and split. If one
    warp draws the items for the other roles, it evaluates the body for them,
    one item ahead. Long computations of coordinates belong here, off the
    critical path.

    The first item of a block is that of its own number, and others are drawn.
    Where blocks wait for what those of earlier items do
    (`tile_gpu.block_turn.wait`), that is not enough: a block for which the
    device has no room yet would have an item that others wait for, and they
    keep the room. With `draws_first` each block draws its first item too. Then
    all items before one that is drawn are drawn as well, and the lowest one
    that is not done waits for nobody, whatever the number of blocks that run.

    Example:

    ```mlir
    # func.func @example(
    #     %counter: memref<1xi32>, %nq: i32, %nh: i32, %nb: i32,
    #     %rows: i32, %four: i32) {
    %s = tile_gpu.scheduler dynamic longest_first
        tickets(%counter : memref<1xi32>) section(%four) tiles(%nq)
        heads(%nh) batch(%nb) {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
      %row = arith.muli %tile, %rows : i32
      tile_gpu.yield %row : i32
    }
    #   return
    # }
    ```
  }];
  let arguments = (ins
    Arg<TileGPU_ScheduleKind, "How a block comes by its items: `grid`, "
        "`static` or `dynamic`.">:$kind,
    Arg<Attn_WorkOrder, "Which tiles of a head come first.">:$order,
    Arg<Optional<MemRefRankOf<[I32], [1]>>, "Counter of the items that are "
        "drawn; goes with `dynamic`, and only "
        "there.", [MemRead, MemWrite]>:$tickets,
    Arg<I32, "Number of tiles of a head.">:$tiles,
    Arg<I32, "Number of heads of a batch.">:$heads,
    Arg<I32, "Number of batches.">:$batch,
    Arg<Optional<I32>, "Number of parts of the keys; 1 if absent.">:$splits,
    Arg<Optional<I32>, "Number of heads that advance together; 1 if "
        "absent.">:$section,
    Arg<OptionalAttr<I64Attr>, "Number of blocks of a cluster, 2 to 8; 1 if "
        "absent.">:$cluster,
    Arg<UnitAttr, "The blocks of a cluster have the parts of the keys of one "
        "tile, not neighbouring tiles.">:$by_parts,
    Arg<OptionalAttr<TileGPU_PlaceAttr>, "Where its slots and barriers lie in "
        "shared memory, given by `tile-gpu-allocate-shared`; absent "
        "before.">:$place,
    Arg<UnitAttr, "Blocks draw their first items as well; goes with `dynamic`, "
        "without `cluster`, and a role of one warp leads.">:$draws_first);
  // A schedule is a resource, of which one loop leads: equal ones stay apart.
  let results = (outs
    Res<TileGPU_ScheduleType, "The schedule, which loops of roles run "
        "over.", [MemAlloc]>:$result);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $kind $order (`tickets` `(` $tickets^ `:` type($tickets) `)`)?
    (`section` `(` $section^ `)`)? (`cluster` `(` $cluster^ `)`)?
    (`by_parts` $by_parts^)? (`at` $place^)? `tiles` `(` $tiles `)` `heads` `(` $heads `)` `batch` `(` $batch `)`
    (`splits` `(` $splits^ `)`)? attr-dict-with-keyword $body
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Blocks of a cluster that have neighbouring tiles.
    int64_t getTilesOfCluster() {
      return getByParts() ? 1 : int64_t(getCluster().value_or(1));
    }
  }];
}

def TileGPU_ForeachOp : TileGPU_Op<"foreach", [
    RecursiveMemoryEffects, SingleBlock,
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>,
    DeclareOpInterfaceMethods<LoopLikeOpInterface, [
      "getInitsMutable", "getRegionIterArgs", "getYieldedValuesMutable",
      "getLoopResults"]>]> {
  let summary = "A loop over the tiles of a schedule";
  let description = [{
    Block arguments: tile, head, batch, split (all `i32`), the values that the
    schedule yields, then one for each initial value. Loops typically carry the
    counters of rings: rings do not start anew with a tile, so that the loads of
    the next tile overlap the epilogue of this one.

    Every role that loops over one schedule sees the same sequence. In one of
    them the loop is marked `lead`: with a dynamic schedule that role draws the
    items and hands them to the others. If its body is empty, it draws an item
    once all others have begun the one before.

    Example:

    ```mlir
    # func.func @example(%schedule: !tile_gpu.schedule, %c0: i32) {
    %end = tile_gpu.foreach %schedule lead iter_args(%c0 : i32) {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32, %c: i32):
      tile_gpu.yield %c : i32
    } -> i32
    #   return
    # }
    ```
  }];
  let arguments = (ins
    Arg<TileGPU_ScheduleType, "The schedule whose items the loop runs "
        "over.">:$schedule,
    Arg<Variadic<AnyType>, "Values that the first item begins with.">:$initial,
    Arg<UnitAttr, "This role draws the items of a dynamic schedule.">:$lead);
  let results = (outs
    Res<Variadic<AnyType>, "The values that the last item leaves.">:$results);
  let regions = (region SizedRegion<1>:$body);
  let extraClassDeclaration = [{
    /// What the schedule says about an item: tile, head, batch, split, and what
    /// it yields.
    ::mlir::Block::BlockArgListType getItemArgs() {
      return getBody().front().getArguments().drop_back(getInitial().size());
    }
  }];
  let assemblyFormat = [{
    $schedule (`lead` $lead^)? (`iter_args` `(` $initial^ `:` type($initial) `)`)?
    attr-dict-with-keyword $body (`->` type($results)^)?
  }];
  let hasVerifier = 1;
}

def TileGPU_SkipOp : TileGPU_Op<"skip", [
    HasParent<"SchedulerOp">]> {
  let summary = "Passes over an item that has nothing to do";
  let description = [{
    Stands in the body of a dynamic schedule whose items one warp draws for all
    roles. If the condition holds, that warp draws the next item at once, no
    loop over the schedule sees this one, and the rest of the body is not
    evaluated.

    Example:

    ```mlir
    # func.func @example(
    #     %counter: memref<1xi32>, %n: i32, %one: i32, %zero: i32,
    #     %rows: memref<?xi32>) {
    %s = tile_gpu.scheduler dynamic in_order
        tickets(%counter : memref<1xi32>) tiles(%n) heads(%one) batch(%one) {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
      %at = arith.index_cast %tile : i32 to index
      %count = memref.load %rows[%at] : memref<?xi32>
      %none = arith.cmpi sle, %count, %zero : i32
      tile_gpu.skip %none
      tile_gpu.yield %count : i32
    }
    #   return
    # }
    ```
  }];
  let arguments = (ins
    Arg<I1, "Whether the item is passed over.">:$condition);
  let assemblyFormat = "$condition attr-dict";
  let hasVerifier = 1;
}

def TileGPU_DrawNextOp : TileGPU_Op<"draw_next", []> {
  let summary = "Lets the warp that draws the items draw (fetch) the next one";
  let description = [{
    Says when the next work tile is fetched (the prefetch distance of a dynamic
    persistent scheduler). It stands in a loop over a schedule, once on every
    path through the body. A role that only draws items draws the next one once
    all other roles have begun this one, and with this operation once the role
    that holds it has reached it, too. An item drawn too early waits behind the
    one before while other blocks may be idle; an item drawn too late is waited
    for. No code where a role draws the items as it works on them.

    Example:

    ```mlir
    # func.func @example(%schedule: !tile_gpu.schedule) {
    tile_gpu.foreach %schedule {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
      tile_gpu.draw_next
      tile_gpu.yield
    }
    #   return
    # }
    ```
  }];
  let assemblyFormat = "attr-dict";
  let hasVerifier = 1;
}

def TileGPU_YieldOp : TileGPU_Op<"yield", [
    Pure, Terminator, ReturnLike, ParentOneOf<["SmemMapOp", "SmemTurnOp",
      "RoleOp", "SchedulerOp", "ForeachOp", "MapOp", "ReduceOp",
      "ScanOp", "MergeStatesOp", "FoldAboveOp"]>]> {
  let summary = "Ends a body with its values";
  let arguments = (ins
    Arg<Variadic<AnyType>, "The values of the body, as the enclosing operation "
        "asks for them.">:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

//===----------------------------------------------------------------------===//
// Rings
//===----------------------------------------------------------------------===//

def TileGPU_RingCreateOp : TileGPU_Op<"ring.create"> {
  let summary = "Allocates a ring and its barriers";
  let description = [{
    A ring is a pipeline of tiles: its slots are the stages, with full and empty
    mbarriers where the `fill` below has them. `fill` says what makes a slot
    full, and with it how many arrivals the full barrier counts:
    - `tma`: the bytes of tensor and bulk copies; one thread arrives;
    - `cp_async`: the 16-byte copies of all threads of `producers` warps;
    - `cp_group`: the same, in a role of warps that fill every slot together and
      read it together. It has no barriers in memory: `tile_gpu.ring.wait` waits
      for all copies of this ring and others like it, then for all warps of the
      role. Nothing is released: a slot may be acquired again after a
      `tile_gpu.ring.wait`, or a `tile_gpu.barrier.sync` of these warps, that
      follows its last reads; `tile-gpu-verify-async` checks that. Tiles of tf32
      are filled from f32, which each thread rounds during the wait;
    - `warps`: `tile_gpu.ring.commit` by each of `producers` warps;
    - `exchange`: `tile_gpu.exchange` by each of `producers` warps, which also
      read the whole slot. There is no empty barrier: the order of the
      exchanging program keeps slots apart (see `tile_gpu.exchange`);
    - `states`: `tile_gpu.merge_states cluster` by all blocks of a cluster, each
      of which stores to the slots of all. `producers` warps of the block
      announce the bytes that come to its slot; they are its consumers, too.
    `consumers` is the number of warps that release a slot.

    `members(m)`: the m consumer warpgroups of the role that reads the ring take
    its uses in turn, each for itself: use u belongs to warpgroup u mod m, whose
    warps are the `consumers`. Each warpgroup has equally many slots. `tma`
    rings only.

    `cluster(c)`: the slots of the c blocks of a cluster are filled together
    (TMA multicast). The blocks acquire the same slots and load the same tiles
    in the same order; each copies a part of a tile to all of them, and a slot
    is empty once the consumers of all have released it. `tma` rings, and those
    of `states`, only. Consumers release a slot in their own block, whose
    producer tells the others before it copies; with `release_all` they do so in
    each block, which is sooner known there, and later code of the consumers.

    `at <...>` says where it lies (`tile-gpu-allocate-shared`).

    Example:

    ```mlir
    # func.func @example() {
    %k = tile_gpu.ring.create tma consumers(8)
        : !tile_gpu.ring<2, 128x128xbf16 swizzle 128>
    %ds = tile_gpu.ring.create exchange producers(8)
        : !tile_gpu.ring<2, 64x128xbf16 swizzle 128>
    #   return
    # }
    ```
  }];
  let arguments = (ins
    Arg<TileGPU_Fill, "What makes a slot full.">:$fill,
    Arg<OptionalAttr<I64Attr>, "Number of warps that fill a slot; absent with "
        "`tma`, and only there.">:$producers,
    Arg<OptionalAttr<I64Attr>, "Number of warps that release a slot; none do "
        "if absent, as with `exchange` and `cp_group`.">:$consumers,
    Arg<OptionalAttr<I64Attr>, "Number of warpgroups that take the uses in "
        "turn; if absent, all consumers read every use.">:$members,
    Arg<OptionalAttr<I64Attr>, "Number of blocks whose slots are filled "
        "together, 2 to 8; 1 if absent.">:$cluster,
    Arg<UnitAttr, "Whether consumers release a slot in each block of the "
        "cluster, and no producer tells the others.">:$release_all,
    Arg<OptionalAttr<TileGPU_PlaceAttr>, "Where its slots and barriers lie in "
        "shared memory, given by `tile-gpu-allocate-shared`; absent "
        "before.">:$place);
  let results = (outs
    Res<TileGPU_RingType, "The ring.", [MemAlloc]>:$ring);
  let assemblyFormat = [{
    $fill (`producers` `(` $producers^ `)`)? (`consumers` `(` $consumers^ `)`)?
    (`members` `(` $members^ `)`)? (`cluster` `(` $cluster^ `)`)?
    (`release_all` $release_all^)? (`at` $place^)? attr-dict `:` type($ring)
  }];
  let hasVerifier = 1;
}

class TileGPU_RingViewOp<string mnemonic, list<MemoryEffect> effects>
    : TileGPU_Infer<mnemonic> {
  let arguments = (ins
    Arg<TileGPU_RingType, "The ring.", effects>:$ring,
    Arg<I32, "Number of the use: it is that of slot `counter` mod n, where the "
        "ring has n slots.">:$counter);
  let results = (outs
    Res<Variadic<TileGPU_SmemType>, "The tiles of the slot.">:$tiles);
  let assemblyFormat = "$ring `[` $counter `]` attr-dict `:` type($ring)";
}

def TileGPU_RingAcquireOp
    : TileGPU_RingViewOp<"ring.acquire", [MemRead, MemWrite]> {
  let summary = "Waits until a slot is empty and gives its tiles for writing";
  let description = [{
    Slot `counter` mod n, once its use `counter` - n has been released by all
    consumers (the first n uses do not wait). On a `tma` ring it also announces
    the bytes of the whole slot, so every tile of it must then be loaded.

    Example:

    ```mlir
    # func.func @example(%ring: !tile_gpu.ring<2, 128x128xbf16 swizzle 128>, %c: i32) {
    %tile = tile_gpu.ring.acquire %ring[%c]
        : !tile_gpu.ring<2, 128x128xbf16 swizzle 128>
    #   return
    # }
    ```
  }];
}

def TileGPU_RingLoadOp : TileGPU_Op<"ring.load", [AttrSizedOperandSegments]> {
  let summary = "Copies from memory into an acquired tile, without waiting";
  let description = [{
    From a tensor map: one box at [indices..., row, col]. `box(i)` says which
    box of a tile that has several (such as one page) it fills; boxes of a slot
    may be issued by different lanes. If the tile is one piece, a box of r rows
    fills its rows from i * r on, in the tile's own panels. With `table(%t)
    page(n)` the first index is a sequence, and the whole tile is copied, each
    box from the page that it lies in: row p of the sequence is row p modulo n
    of page t[sequence, p / n] of a tensor [pages, heads, n, columns]. `row` is
    a multiple of a box's rows, which divide n, and boxes that lie in no page
    read as zero. Each lane of a warp looks up the page of one box and copies
    it, since a single thread would take longer for many small copies than the
    products on them. With `entries(%v from %e)` the warp has read the entries
    before (`tile-gpu-read-tables-ahead`): a box is a page, and that of box i is
    v[e + i], which is what the table says of it. `e` is a multiple of the
    number of boxes: 1, 2, 4 or 8.

    From a memref: the rows from `row` on that lie within `[from, rows)`; other
    rows, and columns beyond the tensor, read as zero. On a `tma` ring a memref
    must be contiguous (a bulk copy). On a `cp_async` or `cp_group` ring the
    warps of the role share the copy, and the tensor may have any strides and
    alignment: where rows do not start at multiples of 16 bytes, elements are
    copied one by one.

    Such a shared copy can look up each row. With `table(%t)` the first index is
    a sequence, and its row p is row p modulo n of page t[sequence, p / n] in a
    tensor [pages, heads, n, columns]; `boxes(m)` promises that `row` is a
    multiple of m, which divides n, so that m rows at a time lie in one page.
    With `start(%s)` it is row s[sequence] + p of a tensor that is written round
    and round. No entry leads out of the tensor, and entries of rows that are
    not copied may be anything. `evict_first` marks data that is read once.

    Example:

    ```mlir
    # func.func @example(
    #     %map: !tile_gpu.tensor_map<128x128xbf16 swizzle 128>,
    #     %pages: !tile_gpu.tensor_map<16x128xbf16 swizzle 128>, %b: i32,
    #     %h: i32, %row: i32, %c0: i32, %page: i32, %i: i32,
    #     %pool: memref<?x?x16x64xbf16, strided<[?, ?, ?, 1]>>,
    #     %table: memref<?x?xi32>) {
    #   %r2 = tile_gpu.ring.create cp_group producers(4) : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
    #   %own = tile_gpu.ring.acquire %r2[%c0] : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
    #   %r0 = tile_gpu.ring.create tma consumers(8) : !tile_gpu.ring<2, 128x128xbf16 swizzle 128>
    #   %tile = tile_gpu.ring.acquire %r0[%c0] : !tile_gpu.ring<2, 128x128xbf16 swizzle 128>
    #   %r1 = tile_gpu.ring.create tma consumers(8) : !tile_gpu.ring<2, 64x128xbf16 swizzle 128 boxes 4>
    #   %paged = tile_gpu.ring.acquire %r1[%c0] : !tile_gpu.ring<2, 64x128xbf16 swizzle 128 boxes 4>
    tile_gpu.ring.load %map[%b, %h, %row, %c0], %tile
        : !tile_gpu.tensor_map<128x128xbf16 swizzle 128>,
          !tile_gpu.smem<128x128xbf16 swizzle 128>
    tile_gpu.ring.load %pages[%page, %h, %c0, %c0], %paged box(%i) evict_first
        : !tile_gpu.tensor_map<16x128xbf16 swizzle 128>,
          !tile_gpu.smem<64x128xbf16 swizzle 128 boxes 4>
    tile_gpu.ring.load %pages[%b, %h, %row, %c0], %tile
        table(%table : memref<?x?xi32>) page(64)
        : !tile_gpu.tensor_map<16x128xbf16 swizzle 128>,
          !tile_gpu.smem<128x128xbf16 swizzle 128>
    tile_gpu.ring.load %pool[%b, %h, %row, %c0], %own rows(%i)
        table(%table : memref<?x?xi32>)
        : memref<?x?x16x64xbf16, strided<[?, ?, ?, 1]>>,
          !tile_gpu.smem<64x64xbf16 swizzle 128>
    #   return
    # }
    ```
  }];
  let arguments = (ins
    Arg<AnyTypeOf<[TileGPU_TensorMapType, AnyMemRef]>, "The tensor that is "
        "copied from, by its map or as it is strided.">:$source,
    Arg<Variadic<I32>, "Where the tile begins in the tensor, one index for "
        "each dimension; with `table` or `start` the first is a sequence, and "
        "the row is counted in it.">:$indices,
    Arg<TileGPU_SmemType, "The tile of a slot that this role has "
        "acquired.", [MemWrite]>:$tile,
    Arg<Optional<I32>, "Which box of the tile is copied, of a tile that has "
        "several; the whole tile if absent.">:$box,
    Arg<Optional<I32>, "First row of memory that is copied; there is no bound "
        "if absent.">:$from,
    Arg<Optional<I32>, "End of the rows of memory that are copied; there is no "
        "bound if absent.">:$rows,
    Arg<Optional<MemRefRankOf<[I32], [2]>>, "The pages of each sequence in "
        "order, [b, n]; the tensor is not in pages if "
        "absent.", [MemRead]>:$table,
    Arg<Optional<TileGPU_VecType>, "Entries of the table that the warp has "
        "read; each copy reads its own if absent.">:$entries,
    Arg<Optional<I32>, "Which of `entries` is the page of the tile's first "
        "box; goes with it.">:$first_entry,
    Arg<Optional<MemRefRankOf<[I32], [1]>>, "Row of a ring in memory that row "
        "0 of each sequence is in, [b]; the tensor is no ring if "
        "absent.", [MemRead]>:$start,
    Arg<OptionalAttr<I64Attr>, "A promise, of a memref with `table`, that the "
        "row is a multiple of this number of rows, which divides a page; none "
        "if absent.">:$boxes,
    Arg<OptionalAttr<I64Attr>, "Number of rows of a page; goes with `table` "
        "and a tensor map.">:$page,
    Arg<UnitAttr, "The data is read once, and leaves the L2 cache "
        "first.">:$evict_first);
  let assemblyFormat = [{
    $source `[` $indices `]` `,` $tile (`box` `(` $box^ `)`)?
    (`from` `(` $from^ `)`)? (`rows` `(` $rows^ `)`)?
    (`table` `(` $table^ `:` type($table) `)`)?
    (`entries` `(` $entries^ `from` $first_entry `:` type($entries) `)`)?
    (`boxes` `(` $boxes^ `)`)? (`page` `(` $page^ `)`)?
    (`start` `(` $start^ `:` type($start) `)`)?
    (`evict_first` $evict_first^)?
    attr-dict `:` type($source) `,` type($tile)
  }];
  let hasVerifier = 1;
}

def TileGPU_RingCommitOp : TileGPU_Op<"ring.commit"> {
  let summary = "Marks this warp's part of a slot as written";
  let description = [{
    For `cp_async` rings: arrives when the copies of this thread have landed.
    For `cp_group` rings: ends a group of copies.
    For `warps` rings: fences the writes against copies and matrix products
    that read shared memory, then arrives once for each warp. For `exchange`
    rings: arrives once for each warp for a part that was stored
    `uncommitted`. `tma` rings commit by themselves.

    Example:

    ```mlir
    # func.func @example(%ring: !tile_gpu.ring<2, 128x64xbf16 swizzle 128>, %c: i32) {
    tile_gpu.ring.commit %ring[%c] : !tile_gpu.ring<2, 128x64xbf16 swizzle 128>
    #   return
    # }
    ```
  }];
  let arguments = (ins
    Arg<TileGPU_RingType, "The ring.", [MemRead, MemWrite]>:$ring,
    Arg<I32, "Number of the use: it is that of slot `counter` mod n, where the "
        "ring has n slots.">:$counter);
  let assemblyFormat = "$ring `[` $counter `]` attr-dict `:` type($ring)";
  let hasVerifier = 1;
}

def TileGPU_RingWaitOp
    : TileGPU_RingViewOp<"ring.wait", [MemRead, MemWrite]> {
  let summary = "Waits until a slot is full and gives its tiles for reading";
  let description = [{
    Example:

    ```mlir
    # func.func @example(
    #     %ring: !tile_gpu.ring<2, 64x128xbf16 swizzle 128, 1x64xf32>,
    #     %c: i32) {
    %q, %lse = tile_gpu.ring.wait %ring[%c]
        : !tile_gpu.ring<2, 64x128xbf16 swizzle 128, 1x64xf32>
    #   return
    # }
    ```
  }];
}

def TileGPU_RingViewSlotOp : TileGPU_RingViewOp<"ring.view", []> {
  let summary = "The tiles of a slot that is known to be full";
  let description = [{
    For a use that this role has waited for and not released, such as queries
    that it waited for when it issued the next QK product ahead. No code.

    Example:

    ```mlir
    # func.func @example(%ring: !tile_gpu.ring<2, 64x128xbf16 swizzle 128>, %c: i32) {
    %q = tile_gpu.ring.view %ring[%c]
        : !tile_gpu.ring<2, 64x128xbf16 swizzle 128>
    #   return
    # }
    ```
  }];
}

def TileGPU_RingReleaseOp : TileGPU_Op<"ring.release"> {
  let summary = "Gives a slot back to the producer";
  let description = [{
    One arrival for each warp, after everything that read the slot. A product in
    flight that reads it must have been waited for. Reads into registers
    (`tile_gpu.frag.load`, `tile_gpu.vec.load`, tiles of `tile_gpu.mma.sync`)
    complete late, and ptxas lets the arrival overtake them. The release
    therefore names, in `after`, a value computed from each such read, and the
    arrival is made to depend on it; the loaded fragment itself will do where
    nothing is computed from it yet. In a role of warpgroups that reads only
    through products, `after` names values that are to be computed before the
    arrival, and the arrival depends on a quarter of their registers.

    Example:

    ```mlir
    # func.func @example(
    #     %ring: !tile_gpu.ring<6, 128x128xbf16 swizzle 128>, %c: i32,
    #     %s: !tile_gpu.frag<16x8xf32, acc, warp>) {
    tile_gpu.ring.release %ring[%c] after(%s : !tile_gpu.frag<16x8xf32, acc, warp>)
        : !tile_gpu.ring<6, 128x128xbf16 swizzle 128>
    #   return
    # }
    ```
  }];
  let arguments = (ins
    Arg<TileGPU_RingType, "The ring.", [MemRead, MemWrite]>:$ring,
    Arg<I32, "Number of the use: it is that of slot `counter` mod n, where the "
        "ring has n slots.">:$counter,
    Arg<Variadic<AnyTypeOf<[TileGPU_FragType, TileGPU_VecType]>>, "Values "
        "computed from what was read of the slot: the release waits for "
        "them.">:$after);
  let assemblyFormat = [{
    $ring `[` $counter `]` (`after` `(` $after^ `:` type($after) `)`)?
    attr-dict `:` type($ring)
  }];
  let hasVerifier = 1;
}

def TileGPU_ExchangeOp : TileGPU_Op<"exchange"> {
  let summary = "Adds this role member's part to a slot that all will read";
  let description = [{
    Stores `value` at rows and columns [row, col] of the first tile of slot
    `counter` of an `exchange` ring, and arrives; `transposed` stores the
    transpose (a fragment of dS^T goes into a tile of dS). Every member of the
    role does so, then `tile_gpu.ring.wait` gives the whole tile.

    There is no empty barrier. A member that writes use c has waited for use
    c - 1, to which every other member had arrived; so with n slots a member
    must arrive only when at most n - 2 of its own products that read this ring
    are in flight, and may write when there are n - 1: an `uncommitted` part is
    stored, and `tile_gpu.ring.commit` arrives when one of them is over.
    `tile-gpu-verify-async` checks that.

    Example:

    ```mlir
    # func.func @example(
    #     %ds: !tile_gpu.frag<64x64xbf16, a>,
    #     %ring: !tile_gpu.ring<2, 64x128xbf16 swizzle 128>, %c: i32,
    #     %zero: i32, %col: i32) {
    tile_gpu.exchange %ds, %ring[%c] at(%zero, %col) transposed
        : !tile_gpu.frag<64x64xbf16, a>, !tile_gpu.ring<2, 64x128xbf16 swizzle 128>
    #   return
    # }
    ```
  }];
  let arguments = (ins
    Arg<TileGPU_FragType, "This member's part: an `acc` or `a` fragment of "
        "16-bit elements.">:$value,
    Arg<TileGPU_RingType, "The ring, whose `fill` is "
        "`exchange`.", [MemRead, MemWrite]>:$ring,
    Arg<I32, "Number of the use: it is that of slot `counter` mod n, where the "
        "ring has n slots.">:$counter,
    Arg<I32, "Row of the tile at which the part begins.">:$row,
    Arg<I32, "Column of the tile at which the part begins.">:$col,
    Arg<UnitAttr, "The part is stored as its transpose.">:$transposed,
    Arg<UnitAttr, "`tile_gpu.ring.commit` arrives for it.">:$uncommitted);
  let assemblyFormat = [{
    $value `,` $ring `[` $counter `]` `at` `(` $row `,` $col `)`
    (`transposed` $transposed^)? (`uncommitted` $uncommitted^)?
    attr-dict `:` type($value) `,` type($ring)
  }];
  let hasVerifier = 1;
}

#endif // ATTN_DIALECT_TILEGPU_IR_TILEGPUSTRUCTUREOPS_TD
