//===- AttnAttrs.td - Attributes of the attn dialect -------*- tablegen -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTN_IR_ATTNATTRS_TD
#define ATTN_DIALECT_ATTN_IR_ATTNATTRS_TD

include "attn/Dialect/Attn/IR/AttnDialect.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"

//===----------------------------------------------------------------------===//
// Enumerations
//===----------------------------------------------------------------------===//

def Attn_MonoidKind : I32EnumAttr<"MonoidKind",
    "How alpha and beta of a scaled aggregate are given", [
  I32EnumAttrCase<"cocycle", 0>, I32EnumAttrCase<"suffix", 1>,
  I32EnumAttrCase<"prefix", 2>, I32EnumAttrCase<"general", 3>,
  I32EnumAttrCase<"affine", 4>
]> {
  let cppNamespace = "::mlir::attn";
  let genSpecializedAttr = 0;
}
def Attn_MonoidKindAttr : EnumAttr<Attn_Dialect, Attn_MonoidKind, "kind"> {
  let assemblyFormat = "`<` $value `>`";
}

def Attn_Component : I32EnumAttr<"Component",
    "One component of a state: a vector over the value channels or a scalar", [
  I32EnumAttrCase<"value", 0>, I32EnumAttrCase<"unit", 1>
]> {
  let cppNamespace = "::mlir::attn";
  let genSpecializedAttr = 0;
}
def Attn_ComponentAttr : EnumAttr<Attn_Dialect, Attn_Component, "component"> {
  let assemblyFormat = "`<` $value `>`";
}
def Attn_ComponentArrayAttr
    : TypedArrayAttrBase<Attn_ComponentAttr, "state components">;

def Attn_Causal : I32EnumAttr<"Causal",
    "Where the causal diagonal is anchored", [
  I32EnumAttrCase<"none", 0>, I32EnumAttrCase<"top_left", 1>,
  I32EnumAttrCase<"bottom_right", 2>
]> {
  let cppNamespace = "::mlir::attn";
  let genSpecializedAttr = 0;
}
def Attn_CausalAttr : EnumAttr<Attn_Dialect, Attn_Causal, "causal"> {
  let assemblyFormat = "`<` $value `>`";
}

def Attn_Side : I32EnumAttr<"Side",
    "What a reduction runs over: the keys of a query, or the queries of a key", [
  I32EnumAttrCase<"keys", 0>, I32EnumAttrCase<"queries", 1>
]> {
  let cppNamespace = "::mlir::attn";
  let genSpecializedAttr = 0;
}
def Attn_SideAttr : EnumAttr<Attn_Dialect, Attn_Side, "side"> {
  let assemblyFormat = "`<` $value `>`";
}

def Attn_SourceKind : I32EnumAttr<"SourceKind",
    "Where the rows of a sequence are in a tensor", [
  I32EnumAttrCase<"dense", 0, "dense">,   // one after the other, batch by batch
  I32EnumAttrCase<"varlen", 1, "varlen">, // one after the other, at an offset
  I32EnumAttrCase<"paged", 2, "paged">,   // in pages that a table lists
  I32EnumAttrCase<"ring", 3, "ring">      // one after the other, round and round
]> {
  let cppNamespace = "::mlir::attn";
  let genSpecializedAttr = 0;
}

def Attn_SourceAttr : AttrDef<Attn_Dialect, "Source"> {
  let mnemonic = "source";
  let summary = "Where the rows of each sequence are";
  let description = [{
    Row p of the sequence of batch b, of one head, is

    | kind     | tensor                  | index operand        | at |
    |----------|-------------------------|----------------------|----|
    | `dense`  | `[b, h, rows, d]`       | none                 | `[b, h, p]` |
    | `varlen` | `[h, total, d]`         | `cu`, `[b + 1]`      | `[h, cu[b] + p]` |
    | `paged`  | `[pages, h, page, d]`   | `table`, `[b, n]`    | `[table[b, p / page], h, p % page]` |
    | `ring`   | `[b, h, rows, d]`       | `start`, `[b]`       | `[b, h, (start[b] + p) % rows]` |

    `lengths`: one more index operand, `[b]`, has the number of rows of each
    sequence; without it there are as many as the tensor, the offsets or the
    table have room for. Index operands are i32.

    Example: `#attn.source<paged, lengths = true>`
  }];
  let parameters = (ins "::mlir::attn::SourceKind":$kind, "bool":$lengths);
  let assemblyFormat = "`<` $kind `,` `lengths` `=` $lengths `>`";
  let extraClassDeclaration = [{
    /// Index operands that go with it.
    unsigned getNumOperands() const {
      return (getKind() != SourceKind::dense) + getLengths();
    }
  }];
}

def Attn_Precision : I32EnumAttr<"ProductPrecision",
    "What products may round their f32 operands to", [
  I32EnumAttrCase<"ieee", 0>, I32EnumAttrCase<"tf32", 1>
]> {
  let cppNamespace = "::mlir::attn";
  let genSpecializedAttr = 0;
}
def Attn_PrecisionAttr : EnumAttr<Attn_Dialect, Attn_Precision, "precision"> {
  let assemblyFormat = "`<` $value `>`";
}

def Attn_RotaryPairs : I32EnumAttr<"RotaryPairs",
    "Which channels turn together", [
  I32EnumAttrCase<"halves", 0, "halves">,          // c and c + channels / 2
  I32EnumAttrCase<"interleaved", 1, "interleaved"> // 2 c and 2 c + 1
]> {
  let cppNamespace = "::mlir::attn";
  let genSpecializedAttr = 0;
}

def Attn_RotaryAttr : AttrDef<Attn_Dialect, "Rotary"> {
  let mnemonic = "rotary";
  let summary = "Which channels of rows turn, and in which pairs";
  let description = [{
    The first `channels` channels of a row, an even number, are `channels / 2`
    pairs, and those behind them stay as they are. Pair c has the channels

    | pairs         | channels                | as in                |
    |---------------|-------------------------|----------------------|
    | `halves`      | `c`, `c + channels / 2` | Llama, GPT-NeoX      |
    | `interleaved` | `2 c`, `2 c + 1`        | GPT-J, the first paper |

    Example: `#attn.rotary<64, halves>`
  }];
  let parameters = (ins "int64_t":$channels,
                        "::mlir::attn::RotaryPairs":$pairs);
  let assemblyFormat = "`<` $channels `,` $pairs `>`";
}

def Attn_LoopShape : I32EnumAttr<"LoopShape",
    "How the loop over key tiles treats the mask", [
  I32EnumAttrCase<"peeled", 0,
    "peeled">, // masked head, unmasked core, masked tail
  I32EnumAttrCase<"masked", 1,
    "masked">, // one loop over the live bounds; every tile is tested
  I32EnumAttrCase<"plain", 2,
    "plain">   // one loop over all keys; every tile is masked
]> {
  let cppNamespace = "::mlir::attn";
  let genSpecializedAttr = 0;
}
def Attn_LoopShapeAttr : EnumAttr<Attn_Dialect, Attn_LoopShape, "loop_shape"> {
  let assemblyFormat = "`<` $value `>`";
}

def Attn_Exponent : I32EnumAttr<"Exponent",
    "How weights that are powers of 2 are computed", [
  I32EnumAttrCase<"fused", 0>, // the exponent is one multiply-add
  I32EnumAttrCase<"exact", 1>  // a product of the difference from the maximum
]> {
  let cppNamespace = "::mlir::attn";
  let genSpecializedAttr = 0;
}
def Attn_ExponentAttr : EnumAttr<Attn_Dialect, Attn_Exponent, "exponent"> {
  let assemblyFormat = "`<` $value `>`";
}

def Attn_ListForm : I32EnumAttr<"ListForm",
    "What lists of key tiles have of masked ones", [
  I32EnumAttrCase<"tiles", 0>, // words of the keys that some row sees
  I32EnumAttrCase<"bits", 1>   // all elements of the mask
]> {
  let cppNamespace = "::mlir::attn";
  let genSpecializedAttr = 0;
}
def Attn_ListFormAttr : EnumAttr<Attn_Dialect, Attn_ListForm, "listed_keys"> {
  let assemblyFormat = "`<` $value `>`";
}

def Attn_Rung : I32EnumAttr<"Rung",
    "A step in the history of fast attention (docs/Ladder.md)", [
  I32EnumAttrCase<"naive", 0>,  // scores in memory, then statistics, then sums
  I32EnumAttrCase<"safe", 1>,   // statistics first, then sums: two traversals
  I32EnumAttrCase<"lazy", 2>,   // sums from a fixed point, one division
  I32EnumAttrCase<"online", 3>, // one traversal, a state for each row
  I32EnumAttrCase<"fa1", 4>,    // the state of each tile of keys in memory
  I32EnumAttrCase<"fa2", 5>,    // tiles of rows that keep their state
  I32EnumAttrCase<"fa3", 6>,    // the same, products beside other work
  I32EnumAttrCase<"split", 7>   // parts of the keys side by side
]> {
  let cppNamespace = "::mlir::attn";
  let genSpecializedAttr = 0;
}
def Attn_RungAttr : EnumAttr<Attn_Dialect, Attn_Rung, "rung"> {
  let assemblyFormat = "`<` $value `>`";
}

//===----------------------------------------------------------------------===//
// Schedule
//===----------------------------------------------------------------------===//

def Attn_Turns : I32Enum<"Turns",
    "what the warpgroups of a block do one at a time", [
  I32EnumCase<"none", 0, "none">,         // nothing
  I32EnumCase<"products", 1, "products">, // the issue of products: ping-pong
  I32EnumCase<"softmax", 2, "softmax">    // from the scores to the weights
]> {
  let cppNamespace = "::mlir::attn";
}

def Attn_ProductOverlap : I32Enum<"ProductOverlap",
    "beside what the products of a step run", [
  // Those whose sums the next step alone reads beside that step, others beside
  // work of their own.
  I32EnumCase<"next_step", 0, "next_step">,
  I32EnumCase<"own_step", 1, "own_step">, // all beside work of their own step
  I32EnumCase<"none", 2, "none">          // each is waited for at once
]> {
  let cppNamespace = "::mlir::attn";
}

def Attn_Fetch : I32Enum<"Fetch",
    "who fetches a block's next work tile, and when", [
  // What attn-tile finds best for the work tiles at hand.
  I32EnumCase<"automatic", 0, "automatic">,
  I32EnumCase<"producer", 1, "producer">, // the producer, as it begins a tile
  I32EnumCase<"ahead", 2, "ahead">,       // a warp of its own, at once
  I32EnumCase<"late", 3, "late">          // that warp, once all copies are issued
]> {
  let cppNamespace = "::mlir::attn";
}

def Attn_Rotate : I32Enum<"Rotate", "where keys turn on a GPU", [
  I32EnumCase<"ahead", 0, "ahead">,  // in a kernel before
  I32EnumCase<"inside", 1, "inside"> // between their copy and their product
]> {
  let cppNamespace = "::mlir::attn";
}

def Attn_Pairs : I32Enum<"Pairs",
    "how scores come by elements of captures for each pair on a GPU", [
  I32EnumCase<"loaded", 0, "loaded">, // each thread loads those of its pairs
  I32EnumCase<"copied", 1, "copied">  // tiles are copied beside the keys
]> {
  let cppNamespace = "::mlir::attn";
}

def Attn_WorkOrder : I32EnumAttr<"WorkOrder",
    "the order in which work tiles of a head are taken", [
  I32EnumAttrCase<"in_order", 0>,      // from the first rows to the last
  I32EnumAttrCase<"longest_first", 1> // from the last to the first: most masks
                                      // leave the last rows the most keys
]> {
  let cppNamespace = "::mlir::attn";
}

def Attn_ScheduleAttr : AttrDef<Attn_Dialect, "Schedule"> {
  let mnemonic = "schedule";
  let summary = "Every decision that lowering a reduction needs";
  let description = [{
    Written by `attn-choose-schedule`, a user, a test or an autotuner; read by
    `attn-split` and `attn-tile`, which hands it to the kernel (`tile.kernel`,
    later `tile_gpu.kernel`), where the passes below find it. Sizes are in rows
    and keys.

    - `block_q`: query rows that one work tile holds state for.
    - `rows`: rows of one row block; divides `block_q`. A row block's scores
      live on chip for one key tile.
    - `block_k`: keys of one tile.
    - `splits`: parts that the key axis is reduced in, combined in key order;
      `automatic`: as many as fill a GPU with blocks, of no fewer keys than pay
      (Analysis/Schedule.h), counted in the plan from the sizes of the run.
    - `loop`: how masks are peeled.
    - `stages`: slots for tiles of keys and of values on a GPU; 0: as many as
      shared memory has room for, up to what pays. CPUs have none.
    - `overlap`: beside what the products of a GPU's warpgroups run: `next_step`,
      those whose sums only the next step reads beside that step
      (tile-gpu-assign-stages), which takes registers for both, and others beside
      work of their own; `own_step`, all beside work of their own step, where that
      is a step of two products from zero, as gradients have; `none`, each is
      waited for at once. CPUs, and warps, wait for each.
    - `turns`: what the warpgroups of a block do one at a time (tile-gpu-order-warpgroups):
      `products`, their issue (ping-pong); `softmax`, the work from scores to
      weights (an exclusive section); `none`. A block has several row blocks
      then. CPUs, and warps, take none.
    - `pack_heads`: whether the rows of a tile are those of all query heads of
      one key head, which then reads its keys once. Of less than `block_q` rows,
      where heads follow each other as rows do; else heads have tiles of their
      own, by a second kernel of the plan.
    - `cluster`: blocks of a GPU that work side by side on neighbouring tiles of
      one head, and share the copies of keys and values that all of them read
      (tile-gpu-multicast-loads): 1, 2, 4 or 8. Others load for themselves, as do GPUs
      without clusters; CPUs have none. With as many `splits` they have the parts
      of the keys of one tile, and combine their states in shared memory: no
      state goes through memory, and no kernel follows. That is for `rows = 8`,
      and for `rows = 16` of latents with `block_v = 512`.
    - `order`: which work tiles of a head come first (`in_order`,
      `longest_first`): short ones at the end let all blocks end together.
      Where it is not said, attn-choose-schedule says `longest_first` under a
      mask, and others are in order. `longest_first` takes the last rows first,
      to which most masks leave the most keys; where a kernel lists the key
      tiles, it takes query tiles by how many these are, unless the keys of each
      row start and end with it.
    - `section`: heads that advance together, before the next ones start, so
      that the keys and values they share stay in the L2 cache of a GPU;
      `section_keys`: fewer, down to the query heads of one key head, where the
      keys of a section would be more than so many. Where they are 0,
      attn-choose-schedule says both for a GPU, and other heads follow each
      other, as they do with 1.
    - `fetch`: who fetches the next work tile of a persistent block, and when:
      `producer`, the warp that copies, as it begins one; `ahead`, a warp of its
      own, as soon as all others have begun the one before, which suits tiles
      that take equally long; `late`, the same warp once the producer has issued
      its copies, which suits tiles of different cost; `automatic`: attn-tile
      chooses. Where a grid has one block for each tile it says nothing.
    - `occupancy`: blocks that share a multiprocessor of a GPU. Each thread has
      the fewer registers.
    - `block_v`: channels of the values in a work tile of a GPU; 0: all. Channels do
      not depend on each other, so that a tile of rows may become several work
      tiles, each of which computes the weights, and some channels of the sums:
      more than the registers of a warpgroup hold are computed so. Of 512, two
      warpgroups of a block have half each, with queries in common: `block_q` is
      `rows` then. It divides the channels of every value.
    - `share`: levels of prefixes that sequences share, at most; 0: none. Pages
      that block tables have in common are read once for the rows of all
      sequences that have them (attn-share-prefixes): at level 0 those from the
      first page on, at each further level those behind the last level's.
    - `rotate`: where keys turn on a GPU, if they do (`rotary`): `ahead`, in a
      kernel before, which reads all of them and writes them to workspace;
      `inside`, in shared memory, each tile between its copy and its product,
      which suits few rows of queries. CPUs turn them as they load them.
    - `pairs`: how the warpgroups of a GPU come by what scores read of each pair
      of captures (a bias of rows and keys): `loaded`, each thread loads the
      elements of its pairs; `copied`, tensor copies bring a tile of `block_q` x
      `block_k` elements of 16 bits with the keys of a step, where addresses and
      strides are multiples of 16 bytes, and threads load their own elsewhere.
      Where it is not said, attn-choose-schedule says `copied` if the tiles fit.

    Example: `#attn.schedule<block_q = 256, rows = 32, block_k = 128,
    splits = 1, loop = peeled, stages = 3, overlap = own_step, turns = products>`
  }];
  let parameters = (ins
    "int64_t":$blockQ, "int64_t":$rows, "int64_t":$blockK,
    DefaultValuedParameter<"int64_t", "1">:$splits,
    DefaultValuedParameter<"LoopShape", "LoopShape::peeled">:$loop,
    DefaultValuedParameter<"int64_t", "0">:$stages,
    DefaultValuedParameter<"ProductOverlap", "ProductOverlap::next_step">:$overlap,
    DefaultValuedParameter<"Turns", "Turns::none">:$turns,
    DefaultValuedParameter<"bool", "false">:$packHeads,
    DefaultValuedParameter<"int64_t", "1">:$cluster,
    DefaultValuedParameter<"Fetch", "Fetch::automatic">:$fetch,
    DefaultValuedParameter<"int64_t", "1">:$occupancy,
    OptionalParameter<"std::optional<::mlir::attn::WorkOrder>">:$order,
    DefaultValuedParameter<"int64_t", "0">:$section,
    DefaultValuedParameter<"int64_t", "0">:$sectionKeys,
    DefaultValuedParameter<"int64_t", "0">:$blockV,
    DefaultValuedParameter<"int64_t", "0">:$share,
    DefaultValuedParameter<"Rotate", "Rotate::ahead">:$rotate,
    OptionalParameter<"std::optional<::mlir::attn::Pairs>">:$pairs
  );
  // The hook keys (block_q, ...) differ from the C++ names, so by hand.
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// `splits`, where the plan counts the parts.
    static constexpr int64_t automaticSplits = 0;

    /// Whether the blocks of a cluster have the parts of the keys of a tile.
    bool partsFormCluster() const {
      return getCluster() > 1 && getSplits() == getCluster();
    }

    /// The same schedule but for one decision.
    ScheduleAttr withFetch(Fetch fetch) const;
    ScheduleAttr withOccupancy(int64_t occupancy) const;
    ScheduleAttr withTurns(Turns turns) const;
    ScheduleAttr withStages(int64_t stages) const;
    ScheduleAttr withCluster(int64_t cluster) const;
    ScheduleAttr withOrder(WorkOrder order) const;
    ScheduleAttr withSection(int64_t heads, int64_t keys) const;
    ScheduleAttr withBlockV(int64_t channels) const;
    ScheduleAttr withShare(int64_t levels) const;
    ScheduleAttr withRotate(Rotate rotate) const;
    ScheduleAttr withPairs(Pairs pairs) const;
  }];
}

//===----------------------------------------------------------------------===//
// Dispatch
//===----------------------------------------------------------------------===//

def Attn_SizesAttr : AttrDef<Attn_Dialect, "Sizes"> {
  let mnemonic = "sizes";
  let summary = "Sizes of a run: ranges of some, any of others";
  let description = [{
    - `rows`, `keys`: of the queries, and of the keys.
    - `heads`: query heads of all batches; `group`: those of a key head;
      `blocks`: heads that share no keys, of all batches (`heads` by `group`).
    - `pairs_of`: tiles of so many rows come in pairs, or are so many that one
      more does not matter.

    Example: `#attn.sizes<rows = 1 to 16, keys = 8192 to any>`
  }];
  // The least and the most of each size, in the order above, and pairs_of.
  let parameters = (ins ArrayRefParameter<"int64_t">:$bounds);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    static SizesAttr get(::mlir::MLIRContext *context,
                         const ::attn::SizeCondition &condition);
    ::attn::SizeCondition getCondition() const;
  }];
}

def Attn_VariantAttr : AttrDef<Attn_Dialect, "Variant"> {
  let mnemonic = "variant";
  let summary = "A schedule for some sizes";
  let description = [{
    Example: `#attn.variant<"few rows", when = <rows = 1 to 16>, schedule =
    <block_q = 16, rows = 16, block_k = 128, loop = peeled>>`
  }];
  let parameters = (ins "::mlir::StringAttr":$name,
    "::mlir::attn::SizesAttr":$when, "::mlir::attn::ScheduleAttr":$schedule);
  let assemblyFormat = [{
    `<` $name `,` `when` `=` $when `,` `schedule` `=` $schedule `>`
  }];
}

def Attn_DispatchAttr : AttrDef<Attn_Dialect, "Dispatch"> {
  let mnemonic = "dispatch";
  let summary = "Schedules for sizes that are known when a plan runs";
  let description = [{
    The first variant that holds for the sizes of a run gives its schedule;
    where none does, that is the `schedule` of the operation.
    `attn-choose-schedule` writes it, as `attn.dispatch` on an `attn.aggregate`,
    in modules with the attribute `attn.dispatch`; a user or a test may. By
    `attn-expand-dispatch` each variant becomes a plan of its own, and the one
    of the function begins with the branches to them (`tile.dispatch`).

    Example: `#attn.dispatch<[<"few rows", when = <rows = 1 to 16>, schedule =
    <block_q = 16, rows = 16, block_k = 128, loop = peeled>>]>`
  }];
  let parameters = (ins
    ArrayRefParameter<"::mlir::attn::VariantAttr">:$variants);
  let assemblyFormat = "`<` `[` $variants `]` `>`";
  let genVerifyDecl = 1;
}

#endif // ATTN_DIALECT_ATTN_IR_ATTNATTRS_TD
