//===- SchedulePasses.td - Passes towards kernels ----------*- tablegen -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What depends on a target: its choice, that of a schedule for each aggregate,
// the rewrites that a schedule asks for, and the kernels.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTN_TRANSFORMS_SCHEDULEPASSES_TD
#define ATTN_DIALECT_ATTN_TRANSFORMS_SCHEDULEPASSES_TD

include "mlir/Pass/PassBase.td"

def AttnSetTargetPass : Pass<"attn-set-target", "::mlir::ModuleOp"> {
  let summary = "Say what a module is compiled for";
  let description = [{
    Expects: any module.

    Produces: the module with the attribute `attn.target`, which is left as it
    is where the module has it. `host` sets none: a module without one is for
    the machine that compiles it.

    Example, before:

    ```mlir
    // attn-opt --attn-set-target=target=sm_90a
    module {
    }
    ```

    after:

    ```mlir
    module attributes {attn.target = "sm_90a"} {
    }
    ```

    Numerics: no effect.

    Fails when: there is no target of that name, or the module names another.
  }];
  let options = [Option<"target", "target", "std::string", "\"host\"",
                        "Target to compile for">];
}

def AttnApplyRungPass : Pass<"attn-apply-rung", "::mlir::ModuleOp"> {
  let summary = "Rewrite reductions as an older algorithm computes them";
  let description = [{
    Expects: `attn.aggregate`, some with `attn.rung = #attn.rung<...>` and no
    schedule, and a target.

    Produces: of each of those what that rung of the ladder is (docs/Ladder.md),
    by rewrites that laws of its monoid license:

    - `naive`: the scores in memory (`attn.scores`), a traversal of them for the
      statistics, and one for the sums. By the cocycle law.
    - `safe`: the same two traversals, which compute the scores anew. By the
      cocycle law.
    - `lazy`: sums of weights from one fixed point, the statistic of a score of 0.
      By the cocycle law, and where no output sees the point. Rows whose weights
      from there are all outside of 2^-64 to 2^64 are NaN.
    - `online`, `fa2`, `fa3`: the reduction as it is. `attn-choose-schedule` then
      takes the tiles of the rung.
    - `fa1`: the states of tiles of ceil(M / 4d) keys in memory, and their
      product. By associativity.
    - `split`: the attribute stays; the schedule of the rung has parts.

    A monoid without statistics has nothing to look for ahead of its sums: `safe`
    and `lazy` leave it as it is.

    Example: two traversals of the keys

    ```mlir
    attn.monoid private @mean cocycle stats(f32) components(value, unit)
        outputs("o") {
      identity {
        %e = arith.constant 0xFF800000 : f32
        attn.yield %e : f32
      }
      combine {
      ^bb0(%a: f32, %b: f32):
        %c = arith.maximumf %a, %b : f32
        attn.yield %c : f32
      }
      rescale {
      ^bb0(%from: f32, %to: f32):
        %d = arith.subf %from, %to : f32
        %r = math.exp %d : f32
        attn.yield %r : f32
      }
      lift {
      ^bb0(%s: f32):
        %one = arith.constant 1.0 : f32
        attn.yield %s, %one, %one : f32, f32, f32
      }
      finalize {
      ^bb0(%c: f32, %v: f32, %n: f32):
        %o = arith.divf %v, %n : f32
        attn.yield %o : f32
      }
    }
    func.func @f(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                 %v: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
      %o = attn.aggregate @mean
          scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
          values(%v : tensor<?x?x?x64xf32>) {attn.rung = #attn.rung<safe>}
          -> tensor<?x?x?x64xf32>
      return %o : tensor<?x?x?x64xf32>
    }
    ```

    @mean_statistics has the largest score of each row, which @mean_sums measures
    weights from.

    Numerics: not bit for bit: the sums are those of the rung's own order and
    reference point. `online`, `fa2` and `fa3` change nothing.

    Fails when: an operation with a rung has a schedule, reduces over queries,
    turns rows or is in `attn.fused`; its monoid lacks the law that the rung
    needs; an output shows the point that `lazy` measures from; or the target has
    nothing that `fa3` runs beside other work.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
    "::mlir::math::MathDialect", "::mlir::tensor::TensorDialect"];
  let statistics = [
    Statistic<"numRewritten", "num-rewritten", "Reductions that became a rung">
  ];
}

def AttnChooseSchedulePass
    : Pass<"attn-choose-schedule", "::mlir::ModuleOp"> {
  let summary = "Choose tile sizes, splits and loop shape of each reduction";
  let description = [{
    Expects: `attn.aggregate` and `attn.partial` with static head dimensions;
    the module's attribute `attn.target` names the target (absent: the host).
    Produces: `#attn.schedule` on each that has none. The choice depends on the
    op, the sizes known and the target's caches only; the arithmetic is in
    Analysis/Schedule.h and is printed by `explain`. Sizes that the types leave
    open may be expected: `attn.expected_sizes = array<i64: b, hq, sq, sk>` on
    the module, and hk as a fifth, 0 where unknown; runs of any other sizes give
    as right results. Few rows of several query heads of a key head are packed in
    one tile (`pack_heads`) where that takes fewer rounds of blocks.
    An aggregate of fewer than 32 blocks of rows, such as a decode step, gets
    `splits`: its keys are reduced in parts. The number of threads is no input,
    so results do not depend on it. On a GPU, schedules that were measured
    (`table`, else those that ship; Analysis/ScheduleTable.h) come before those
    of the model. A schedule that is there already is kept, whether or not it
    fits the caches. Where the module has the attribute `attn.dispatch` and
    expects no sizes, an aggregate that is alone in its function also gets the
    schedules of those classes of sizes that have another one
    (`#attn.dispatch`; Analysis/SizeClass.h).

    Example:

    ```mlir
    module attributes {attn.target = "cpu-avx2"} {
      attn.monoid @sum cocycle stats() components(value) outputs("o") {
        identity {
          attn.yield
        }
        combine {
          attn.yield
        }
        lift {
        ^bb0(%s: f32):
          attn.yield %s : f32
        }
        finalize {
        ^bb0(%acc: f32):
          attn.yield %acc : f32
        }
      }
      func.func @linear(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                        %v: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
        %o = attn.aggregate @sum
            scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
            values(%v : tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32>
        return %o : tensor<?x?x?x64xf32>
      }
    }
    ```

    adds `{schedule = #attn.schedule<block_q = 256, rows = 32, block_k = 128,
    loop = peeled>}` to the aggregate.

    Numerics: none here; the sizes decide how later passes reassociate.
    Fails when: the monoid's symbol is absent, the target is unknown, or a given
    schedule keeps more on chip than any scratch allows, or has the rows of a
    warpgroup where warps alone reduce: keys that take each other's gates, or
    enter the state one by one.
  }];
  let options = [
    Option<"explain", "explain", "bool", "false",
           "Report each choice with its arithmetic as a remark">,
    Option<"numQueries", "num-queries", "int64_t", "0",
           "Expected rows of a sequence where not static (0: unknown)">,
    Option<"numKeys", "num-keys", "int64_t", "0",
           "Expected keys of a sequence where not static (0: unknown)">,
    Option<"table", "table", "std::string", "",
           "File of schedules that were tuned for this machine's GPU">,
    Option<"missing", "missing", "bool", "false",
           "Only for reductions that have none">,
    Option<"tableText", "table-text", "std::string", "",
           "The same as text, where no file is given">
  ];
  let statistics = [
    Statistic<"numChosen", "num-chosen", "Schedules chosen">,
    Statistic<"numGiven", "num-given", "Schedules found and kept">
  ];
}

def AttnExpandDispatchPass
    : Pass<"attn-expand-dispatch", "::mlir::ModuleOp"> {
  let summary = "Make a function for each variant of a schedule";
  let description = [{
    Expects: `attn.dispatch` on some `attn.aggregate`, each alone in its
    function, whose queries and keys are arguments.
    Produces: a private copy of the function for each variant, with its
    schedule, and at the start of the function a `tile.dispatch` to each under
    its condition, in order.

    Example, before:

    ```mlir
    attn.monoid @sum cocycle stats() components(value) outputs("o") {
      identity {
        attn.yield
      }
      combine {
        attn.yield
      }
      lift {
      ^bb0(%s: f32):
        attn.yield %s : f32
      }
      finalize {
      ^bb0(%acc: f32):
        attn.yield %acc : f32
      }
    }
    func.func @linear(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                      %v: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
      %o = attn.aggregate @sum scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
          values(%v : tensor<?x?x?x64xf32>)
          {schedule = #attn.schedule<block_q = 192, rows = 48, block_k = 128, loop = peeled>,
           attn.dispatch = #attn.dispatch<[<"few rows", when = <rows = 1 to 16>,
             schedule = <block_q = 16, rows = 16, block_k = 128, loop = peeled>>]>}
          -> tensor<?x?x?x64xf32>
      return %o : tensor<?x?x?x64xf32>
    }
    ```

    Numerics: none. Runs of all sizes give as right results.
    Fails when: a function has more than one reduction and one of them has
    variants, or its sizes are not those of the function's arguments.
  }];
  let dependentDialects = ["::mlir::tile::TileDialect",
                           "::mlir::arith::ArithDialect",
                           "::mlir::tensor::TensorDialect"];
  let statistics = [
    Statistic<"numVariants", "num-variants", "Functions made">
  ];
}

def AttnSharePrefixesPass : Pass<"attn-share-prefixes", "::mlir::ModuleOp"> {
  let summary = "Read the pages that sequences share once for all of them";
  let description = [{
    Expects: `attn.aggregate` over pages. Those whose schedule has `share = n`, n > 0,
    are rewritten, others left alone. Which operations qualify is said by `whyNotShared`;
    `cascade` says which keys their rows see.

    Produces: two reductions whose states are combined:

    - `attn.share` with n levels, and an `attn.partial`, without a schedule, over the
      keys that the sequences of a group have in common, for the rows of the whole group;
    - an `attn.partial` over the keys that each sequence has for itself; its mask says
      which is the first of them;
    - `attn.combine` of both, and `attn.finalize`.

    Parts of the keys are counted as `attn-split` does.

    Numerics: reassociates. The keys of a row are those of the aggregate, each
    once, whatever the table has; a sequence that shares nothing has all of its
    keys for itself.
    Fails when: rows do not see the same first keys, or scores differ by position.

    Example, before:

    ```mlir
    module attributes {attn.target = "sm_90a"} {
    #   attn.monoid @sum cocycle stats() components(value) outputs("o") {
    #     identity {
    #       attn.yield
    #     }
    #     combine {
    #       attn.yield
    #     }
    #     lift {
    #     ^bb0(%s: f32):
    #       attn.yield %s : f32
    #     }
    #     finalize {
    #     ^bb0(%acc: f32):
    #       attn.yield %acc : f32
    #     }
    #   }
      func.func @decode(%q: tensor<?x?x?x64xf16>, %k: tensor<?x?x16x64xf16>,
                        %v: tensor<?x?x16x64xf16>, %table: tensor<?x?xi32>,
                        %lengths: tensor<?xi32>) -> tensor<?x?x?x64xf16> {
        %o = attn.aggregate @sum
            scores(%q, %k : tensor<?x?x?x64xf16>, tensor<?x?x16x64xf16>)
            values(%v : tensor<?x?x16x64xf16>)
            key_source(paged %table, lengths %lengths : tensor<?x?xi32>, tensor<?xi32>)
            {cascade = #attn.causal<none>, cascade_levels = 1 : i64,
             schedule = #attn.schedule<block_q = 64, rows = 64, block_k = 64, share = 1>}
            -> tensor<?x?x?x64xf16>
        return %o : tensor<?x?x?x64xf16>
      }
    }
    ```

    The first `attn.partial` has the rows of a group as 128 rows of one sequence, and
    the second one a mask that begins where the pages of the sequence's group end.
  }];
  let options = [
    Option<"explain", "explain", "bool", "false",
           "Report as a remark what is shared, and in how many parts">
  ];
  let statistics = [
    Statistic<"numShared", "num-shared", "Reductions that share prefixes">
  ];
}

def AttnSplitPass : Pass<"attn-split", "::mlir::ModuleOp"> {
  let summary = "Reduce the keys in parts where the schedule says so";
  let description = [{
    Expects: `attn.aggregate`; those whose schedule has `splits = n`, n > 1, or
    `splits = automatic` are rewritten, others left alone. So are those over packed queries whose own
    finalize region reads the batch or the row: a state does not know them, and
    `explain` says so.
    Produces: `attn.partial` with n splits, `attn.combine` over its states and
    `attn.finalize` with the aggregate's finalize region. With `automatic`, n is
    an operand, computed from the sizes of the run: the multiprocessors divided
    by the blocks of rows, but no more than leave a part the least number of keys
    that pays (Analysis/Schedule.h).

    Example, before:

    ```mlir
    attn.monoid @sum cocycle stats() components(value) outputs("o") {
      identity {
        attn.yield
      }
      combine {
        attn.yield
      }
      lift {
      ^bb0(%s: f32):
        attn.yield %s : f32
      }
      finalize {
      ^bb0(%acc: f32):
        attn.yield %acc : f32
      }
    }
    func.func @linear(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                      %v: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
      %o = attn.aggregate @sum
          scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
          values(%v : tensor<?x?x?x64xf32>)
          {schedule = #attn.schedule<block_q = 64, rows = 32, block_k = 64, splits = 4, loop = peeled>}
          -> tensor<?x?x?x64xf32>
      return %o : tensor<?x?x?x64xf32>
    }
    ```

    After:

    ```mlir
    attn.monoid @sum cocycle stats() components(value) outputs("o") {
      identity {
        attn.yield
      }
      combine {
        attn.yield
      }
      lift {
      ^bb0(%s: f32):
        attn.yield %s : f32
      }
      finalize {
      ^bb0(%acc: f32):
        attn.yield %acc : f32
      }
    }
    func.func @linear(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                      %v: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
      %p = attn.partial @sum
          scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
          values(%v : tensor<?x?x?x64xf32>)
          {schedule = #attn.schedule<block_q = 64, rows = 32, block_k = 64, splits = 4, loop = peeled>, splits = 4 : i64}
          -> tensor<4x?x?x?x64xf32>
      %c = attn.combine @sum(%p : tensor<4x?x?x?x64xf32>) -> tensor<?x?x?x64xf32>
      %o = attn.finalize @sum(%c : tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32>
      return %o : tensor<?x?x?x64xf32>
    }
    ```

    Numerics: reassociates; the parts are combined in f32 in key order,
    whichever finished first, so results repeat bit for bit.
    Fails when: `splits = automatic` is of a CPU's schedule, whose results do not
    depend on the number of cores, or of packed sequences, whose lengths a plan
    does not know.
  }];
  let options = [
    Option<"explain", "explain", "bool", "false",
           "Report as a remark what is left whole, and why">
  ];
  let statistics = [
    Statistic<"numSplit", "num-split", "Reductions split">,
    Statistic<"numWhole", "num-whole", "Reductions left whole">
  ];
}

def AttnSeparateSumsPass : Pass<"attn-separate-sums", "::mlir::ModuleOp"> {
  let summary = "Reduce wide sums of several values one after the other";
  let description = [{
    Expects: `attn.aggregate` without schedules, and a target.

    Produces: a reduction for each value, with the dots that its weights need, in place
    of a sum of several values that together have more channels than a warpgroup has
    registers for. This is done on GPUs with matrix products of warpgroups, for plain
    sums of 16-bit values, such as the gradients of keys and values. (Slices of the
    channels would each compute all dots.) Sums without channels go with the first value.

    Example: of dK and dV with 256 channels each

    ```mlir
    module attributes {attn.target = "sm_90a"} {
    attn.monoid private @keys cocycle stats() components(value, value)
        outputs("dk", "dv") {
      lift {
      ^bb0(%ds: f32, %p: f32):
        attn.yield %ds, %p : f32, f32
      }
      finalize {
      ^bb0(%dk: f32, %dv: f32):
        attn.yield %dk, %dv : f32, f32
      }
    }
    func.func @f(%q: tensor<?x?x?x256xbf16>, %k: tensor<?x?x?x256xbf16>,
                 %v: tensor<?x?x?x256xbf16>, %do: tensor<?x?x?x256xbf16>)
        -> (tensor<?x?x?x256xbf16>, tensor<?x?x?x256xbf16>) {
      %0:2 = attn.aggregate @keys
          scores(%k, %q, %v, %do : tensor<?x?x?x256xbf16>, tensor<?x?x?x256xbf16>, tensor<?x?x?x256xbf16>, tensor<?x?x?x256xbf16>)
          values(%q, %do : tensor<?x?x?x256xbf16>, tensor<?x?x?x256xbf16>)
          {side = #attn.side<queries>}
        score {
        ^bb0(%s: f32, %dp: f32, %b: i32, %h: i32, %i: i32, %j: i32):
          %p = math.exp %s : f32
          %ds = arith.mulf %p, %dp : f32
          attn.yield %ds, %p : f32, f32
        } -> tensor<?x?x?x256xbf16>, tensor<?x?x?x256xbf16>
      return %0#0, %0#1 : tensor<?x?x?x256xbf16>, tensor<?x?x?x256xbf16>
    }
    }
    ```

    @keys_dk has both dots, and @keys_dv the first one.

    Numerics: bit for bit, where the tiles that are chosen are those of before.

    Fails when: the module's `attn.target` is unknown.
  }];
  let options = [Option<"explain", "explain", "bool", "false",
                        "Say what becomes several reductions.">];
  let statistics = [Statistic<"numSeparated", "separated",
                              "Number of reductions that were made of wider "
                              "ones">];
}

def AttnFuseGradientsPass : Pass<"attn-fuse-gradients", "::mlir::ModuleOp"> {
  let summary = "Compute the pairs of two reductions once";
  let description = [{
    Expects: `attn.aggregate` with schedules, and a target.

    Produces: `attn.fused` of an aggregate over keys and one over queries that compute
    the same pairs: the same rows in the same dots, the same mask, the weights of the
    first among those of the second, and its values among the rows of the second. Of the
    seven products of attention's gradients five are left, and of two exponentials one.
    Sums over keys are then added up in memory, in f32.

    *On CPUs* one thread has all of a batch and key head, and adds in the order of the
    key tiles: results are the same bits each time, whatever the number of threads.

    *On GPUs* warpgroups run one kernel for rows of up to 128 channels of 16 bits and
    masks that are intervals of keys; this pass sets its tiles. Others keep two kernels,
    which add nothing in memory. The blocks of the one kernel add

    - in turns, where the mask's bounds hold for all positions and rows have 64 or 128
      channels (of 128 under a window, where its bounds are numbers that all heads
      share). It is for sizes that gain by it (`turn_sizes`, measured); for others the
      same plan has two kernels (`two_kernels`);
    - in any order, with `any_order`. The sum over keys may then also join one of two
      sums over queries, where rows of 192 channels leave no registers for both; the
      other one has a kernel of its own.

    Example:

    ```mlir
    module attributes {attn.target = "cpu-avx2"} {
    attn.monoid private @sum cocycle stats() components(value) outputs("o") {
      lift {
      ^bb0(%s: f32):
        attn.yield %s : f32
      }
      finalize {
      ^bb0(%v: f32):
        attn.yield %v : f32
      }
    }
    func.func @f(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>)
        -> (tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>) {
      %dq = attn.aggregate @sum
          scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
          values(%k : tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32>
      %dk = attn.aggregate @sum
          scores(%k, %q : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
          values(%q : tensor<?x?x?x64xf32>) {side = #attn.side<queries>}
          -> tensor<?x?x?x64xf32>
      return %dq, %dk : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>
    }
    }
    ```

    Numerics: sums over keys meet in memory after each key tile of `block_q`
    rows; f32 as before.

    Fails when: the module's `attn.target` is unknown.
  }];
  let options = [
    Option<"explain", "explain", "bool", "false",
           "Report as a remark what is fused, and why not">,
    Option<"threads", "threads", "int64_t", "0",
           "Threads that heads are divided among (default: those of this "
           "machine)">
  ];
  let statistics = [
    Statistic<"numFused", "num-fused", "Pairs of reductions that are fused">,
    Statistic<"numKept", "num-kept",
              "Pairs over keys and queries that are left as they are">
  ];
}

def AttnTilePass : Pass<"attn-tile", "::mlir::ModuleOp"> {
  let summary = "Turn reductions into tile kernels and a launch plan";
  let description = [{
    Expects: functions on tensors whose reductions (`attn.aggregate`,
    `attn.partial`) carry a schedule, and `attn.combine`, `attn.finalize`,
    `attn.append`.
    Produces: the function as a *plan* (attribute `tile.plan`) on memrefs, its results
    as trailing arguments, and a private kernel (`tile.kernel`) for each op. A block of a
    kernel holds the states of one work tile (batch, head, query tile, part of the keys),
    into which key tiles are taken one by one (`tile.stream`). The mask analysis bounds
    these, and tells full tiles from partial ones. No scores exist beyond one tile.

    *Lists of key tiles* (a block-sparse index, as FlexAttention's BlockMask). On GPUs
    with products of warpgroups, a mask that reads memory (booleans, ids of documents),
    or whose keys have no bounds otherwise, gets a kernel of its own ahead of the
    reduction:

    - It lists the live key tiles of each query tile, for each batch and head that the
      mask tells apart. What the mask reads of a row or of a key alone is reduced to its
      least and greatest value over a tile. That decides which tiles are dead and which
      are full; the others are evaluated element by element.
    - The reduction takes the partial tiles of the list first, whose elements it tests,
      then the full ones. The list also says which keys are dead in every row: the values
      of these are cleared.
    - A list takes 4 bytes for each pair of a query tile and a key tile, and a bit for
      each key of a tile.
    - Where the mask reads an element for each pair of a row and a key, one more kernel
      comes first, with a block for each tile. It evaluates all elements and writes them
      as bits (`tile.store_bits`), from which the reduction takes those of a partial tile.
      That is 4 bytes more for each tile and a bit for each pair, for each batch and head
      that the mask tells apart, and for each batch where there are lengths.

    *Packed sequences on a GPU.* The host cannot read their offsets. So the grid has one
    tile of rows more for each sequence than it may need, and each kernel begins with the
    `varlen` form of `tile.work_tile`, by which a block finds its sequence.

    *Who fetches the next work tile* (tile-gpu-specialize-warps). The kernel's schedule says
    `fetch = ahead` for packed sequences without a mask. It says `late` where the bounds
    of a work tile take long to find and work tiles differ in cost: lists of tiles, masks
    that bound the keys at both ends, as a window does, or at one end where steps are
    short; and for dense rows without a mask, since clusters take long to fetch.

    Example:

    ```mlir
    attn.monoid @sum cocycle stats() components(value) outputs("o") {
      identity {
        attn.yield
      }
      combine {
        attn.yield
      }
      lift {
      ^bb0(%s: f32):
        attn.yield %s : f32
      }
      finalize {
      ^bb0(%acc: f32):
        attn.yield %acc : f32
      }
    }
    func.func @linear(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                      %v: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
      %o = attn.aggregate @sum
          scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
          values(%v : tensor<?x?x?x64xf32>)
          {schedule = #attn.schedule<block_q = 64, rows = 32, block_k = 64, loop = peeled>}
          -> tensor<?x?x?x64xf32>
      return %o : tensor<?x?x?x64xf32>
    }
    ```

    becomes the plan `@linear` on four memrefs, the last one the result, which
    launches `@linear_kernel0` on b * h * ceil(rows / 64) blocks; the kernel
    walks over 64 keys at a time with `tile.dot`, `tile.map` and `tile.dot`.
    docs/Tour.md prints a whole one.

    Named rewrites are decided before, and are attributes of the reduction
    (RewritePasses.td, KernelPasses.td): the form of online softmax, the unit of
    the maximum, linear tiles, a relaxed maximum, a fixed one, packed heads, lists
    of key tiles.

    Numerics: reassociates the reduction by key tiles (the monoid's
    associativity); sums in f32. On a GPU, where all that is made of the weights
    is rounded to 16 bits, functions of the scores are marked approximate (`afn`;
    positions that become floats `tile.approximate`). With `fixable_anchor` there
    are two kernels (attn-fix-anchor). Where two warpgroups take slots of keys by
    turns (tile-gpu-specialize-warps) and no output tells the reference point of
    weights, it follows the row's maximum once that is 2^8 ahead (f16 2^4):
    weights are that large at most. Listed tiles are taken in the order of the
    list, which is the same in every run; monoids that do not commute are not
    listed. Deterministic for a given schedule.
    Fails when: a schedule is absent, an attribute asks for a rewrite that does
    not hold for its reduction, or the function has several blocks,
    gives other results than those of reductions, is called by others, calls what
    has no body, or holds operations with regions or on tensors other than
    `tensor.dim`, `tensor.extract` and those of `attn`.
  }];
  let dependentDialects = ["::mlir::tile::TileDialect",
                           "::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect",
                           "::mlir::memref::MemRefDialect",
                           "::mlir::scf::SCFDialect"];
}

#endif // ATTN_DIALECT_ATTN_TRANSFORMS_SCHEDULEPASSES_TD
