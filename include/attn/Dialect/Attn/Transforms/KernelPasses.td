//===- KernelPasses.td - Kernels beside those of reductions *- tablegen -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Named rewrites, as those of RewritePasses.td, that give a reduction further
// kernels: each is an attribute that attn-tile carries out.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTN_TRANSFORMS_KERNELPASSES_TD
#define ATTN_DIALECT_ATTN_TRANSFORMS_KERNELPASSES_TD

include "mlir/Pass/PassBase.td"

def AttnPackHeadsPass : Pass<"attn-pack-heads", "::mlir::ModuleOp"> {
  let summary = "Make the query heads of a key head rows of one tile (PackGQA)";
  let description = [{
    Expects: reductions with schedules.

    Produces: `packed_heads` on those whose schedule says `pack_heads`. `attn-tile` makes
    two kernels of them, of which each run gives one blocks:

    - Tiles whose rows are those of all query heads of a key head, by a view of queries
      and results. A tile of keys is read once for all of them. Strides must let heads
      lie behind one another as rows do, and heads must have fewer rows than a tile.
    - Tiles of one head each, for all other strides and sizes.

    One kernel is for both where neither mask, score nor finalize reads the row or the
    head: in a run that does not pack, views have each query head as a head of its own.

    Not packed are reductions whose schedules say nothing of it, and these cannot
    be: packed sequences, reductions over queries, scores in memory, and masks or
    `rotate_keys` regions that read the head.

    Example, before:

    ```mlir
    # attn.monoid @sum cocycle stats() components(value) outputs("o") {
    #   identity {
    #     attn.yield
    #   }
    #   combine {
    #     attn.yield
    #   }
    #   lift {
    #   ^bb0(%s: f32):
    #     attn.yield %s : f32
    #   }
    #   finalize {
    #   ^bb0(%acc: f32):
    #     attn.yield %acc : f32
    #   }
    # }
    func.func @f(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                 %v: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
      %o = attn.aggregate @sum
          scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
          values(%v : tensor<?x?x?x64xf32>)
          {schedule = #attn.schedule<block_q = 64, rows = 32, block_k = 64, pack_heads = true>}
          -> tensor<?x?x?x64xf32>
      return %o : tensor<?x?x?x64xf32>
    }
    ```

    After:

    ```mlir
    # attn.monoid @sum cocycle stats() components(value) outputs("o") {
    #   identity {
    #     attn.yield
    #   }
    #   combine {
    #     attn.yield
    #   }
    #   lift {
    #   ^bb0(%s: f32):
    #     attn.yield %s : f32
    #   }
    #   finalize {
    #   ^bb0(%acc: f32):
    #     attn.yield %acc : f32
    #   }
    # }
    func.func @f(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                 %v: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
      %o = attn.aggregate @sum
          scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
          values(%v : tensor<?x?x?x64xf32>)
          {packed_heads, schedule = #attn.schedule<block_q = 64, rows = 32, block_k = 64, pack_heads = true>}
          -> tensor<?x?x?x64xf32>
      return %o : tensor<?x?x?x64xf32>
    }
    ```

    Numerics: none; a row meets its keys as it did.

    Fails when: a schedule says `pack_heads` of heads that cannot be packed.
  }];
  let options = [
    Option<"explain", "explain", "bool", "false",
           "Report as a remark whose heads have tiles of their own, and why">
  ];
  let statistics = [
    Statistic<"numPacked", "num-packed", "Reductions of packed heads">,
    Statistic<"numKept", "num-kept",
              "Reductions whose heads have tiles of their own">
  ];
}

def AttnListKeyTilesPass : Pass<"attn-list-key-tiles", "::mlir::ModuleOp"> {
  let summary = "Let kernels before a reduction list its live key tiles";
  let description = [{
    Expects: reductions with schedules, and a target.

    Produces: `listed_keys` on each `attn.aggregate` for warpgroups whose mask has tiles
    that the bounds of its keys do not tell apart: ids of documents, or a union of
    windows (block-sparse attention). `attn-tile` puts two kernels ahead of it. They find,
    once for all heads that share the mask, which key tiles of a query tile are whole and
    which are masked, and the reduction visits these alone.

    - "tiles": a masked tile has words that say which of its keys are live in some row,
      and the reduction evaluates the mask.
    - "bits", for masks that read an element for each pair of a row and a key: a masked
      tile has all elements of the mask, packed, and the reduction reads nothing else.

    `held_samples` says that what the mask reads of keys stays in registers for a tile; it
    is set where these have room for it beside scores, weights and sums.

    Without the attribute the reduction asks of each tile between the bounds whether
    anything in it is live.

    Example, before:

    ```mlir
    # module attributes {attn.target = "sm_90a"} {
    # attn.monoid @sum cocycle stats() components(value) outputs("o") {
    #   identity {
    #     attn.yield
    #   }
    #   combine {
    #     attn.yield
    #   }
    #   lift {
    #   ^bb0(%s: f32):
    #     attn.yield %s : f32
    #   }
    #   finalize {
    #   ^bb0(%acc: f32):
    #     attn.yield %acc : f32
    #   }
    # }
    func.func @f(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>,
                 %v: tensor<?x?x?x64xbf16>, %ids: tensor<?xi32>)
        -> tensor<?x?x?x64xbf16> {
      %o = attn.aggregate @sum
          scores(%q, %k : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>)
          values(%v : tensor<?x?x?x64xbf16>) captures(%ids : tensor<?xi32>)
          {schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 128>}
          mask {
          ^bb0(%b: i32, %h: i32, %i: i32, %j: i32, %id: tensor<?xi32>):
            %row = arith.index_cast %i : i32 to index
            %key = arith.index_cast %j : i32 to index
            %x = tensor.extract %id[%row] : tensor<?xi32>
            %y = tensor.extract %id[%key] : tensor<?xi32>
            %same = arith.cmpi eq, %x, %y : i32
            attn.yield %same : i1
          }
          -> tensor<?x?x?x64xbf16>
      return %o : tensor<?x?x?x64xbf16>
    }
    # }
    ```

    After:

    ```mlir
    # module attributes {attn.target = "sm_90a"} {
    # attn.monoid @sum cocycle stats() components(value) outputs("o") {
    #   identity {
    #     attn.yield
    #   }
    #   combine {
    #     attn.yield
    #   }
    #   lift {
    #   ^bb0(%s: f32):
    #     attn.yield %s : f32
    #   }
    #   finalize {
    #   ^bb0(%acc: f32):
    #     attn.yield %acc : f32
    #   }
    # }
    func.func @f(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>,
                 %v: tensor<?x?x?x64xbf16>, %ids: tensor<?xi32>)
        -> tensor<?x?x?x64xbf16> {
      %o = attn.aggregate @sum
          scores(%q, %k : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>)
          values(%v : tensor<?x?x?x64xbf16>) captures(%ids : tensor<?xi32>)
          {held_samples, listed_keys = #attn.listed_keys<tiles>,
           schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 128>}
          mask {
          ^bb0(%b: i32, %h: i32, %i: i32, %j: i32, %id: tensor<?xi32>):
            %row = arith.index_cast %i : i32 to index
            %key = arith.index_cast %j : i32 to index
            %x = tensor.extract %id[%row] : tensor<?xi32>
            %y = tensor.extract %id[%key] : tensor<?xi32>
            %same = arith.cmpi eq, %x, %y : i32
            attn.yield %same : i1
          }
          -> tensor<?x?x?x64xbf16>
      return %o : tensor<?x?x?x64xbf16>
    }
    # }
    ```

    Numerics: whole tiles come after masked ones, so sums are of another order.

    Fails when: the module's `attn.target` is unknown.
  }];
  let options = [
    Option<"explain", "explain", "bool", "false",
           "Report as a remark what has no lists, and why">
  ];
  let statistics = [
    Statistic<"numListed", "num-listed", "Reductions of listed tiles">,
    Statistic<"numBits", "num-bits", "Reductions of listed tiles with bits">,
    Statistic<"numKept", "num-kept", "Reductions without lists">
  ];
}

#endif // ATTN_DIALECT_ATTN_TRANSFORMS_KERNELPASSES_TD
