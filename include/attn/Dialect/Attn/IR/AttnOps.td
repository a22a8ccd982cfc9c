//===- AttnOps.td - Operations of the attn dialect ---------*- tablegen -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTN_IR_ATTNOPS_TD
#define ATTN_DIALECT_ATTN_IR_ATTNOPS_TD

include "attn/Dialect/Attn/IR/AttnOpBase.td"

//===----------------------------------------------------------------------===//
// MonoidOp
//===----------------------------------------------------------------------===//

def Attn_MonoidOp : Attn_Op<"monoid", [
    Symbol, IsolatedFromAbove]> {
  let summary = "Declares a monoid that rows are reduced in";
  let description = [{
    A state is `(c, v)`: statistics `c`, scalars per query row, and components
    `v`, each a vector over the value channels (`value`) or a scalar (`unit`).
    `kind` says how two states combine (design: scaled aggregates):

    | kind      | v of the combined state            | region    |
    |-----------|------------------------------------|-----------|
    | `cocycle` | `r(c1, c) v1 + r(c2, c) v2`        | `rescale` |
    | `suffix`  | `g(c2) v1 + v2`                    | `gate`    |
    | `prefix`  | `v1 + g(c1) v2`                    | `gate`    |
    | `general` | pointwise in the channel, by `combine` on whole states | |

    with `c = combine(c1, c2)`. `lift` gives the state of one key from its
    scores: statistics, then one weight per component; the component is
    `weight * v[j]` (`value`) or `weight` (`unit`). For `general` monoids
    `lift` also takes the key's value (one per `value` component) and its
    position, and yields statistics and components themselves.

    Regions and their block arguments (run-time parameters `p` come last):

    | region     | arguments                                  | yields |
    |------------|--------------------------------------------|--------|
    | `identity` | `p...`                                     | `c...` (general: `c..., v...`) |
    | `combine`  | `a..., b..., p...`                         | like `identity` |
    | `rescale`  | `from..., to..., p...`                     | one factor, or one for each component |
    | `gate`     | `c..., p...`                               | factor |
    | `lift`     | `s..., p...` (general: `s..., v..., j, p...`) | `c..., w...` |
    | `finalize` | `c..., v..., p...`                         | outputs |

    Where `rescale` yields one factor, all components are scaled by it; else
    component k by the k-th, as a sum of squared weights is by the square. Each
    factor then is a cocycle of its own. For the table above, `r` is the factor of
    the component at hand.

    `finalize` and its output names are the default that `attn.attention`
    uses. The laws are tested by `attn-check-laws` in every compile.

    Example:

    ```mlir
    attn.monoid @softmax cocycle stats(f32) components(value, unit)
        outputs("o", "lse") {
      identity {
        %ninf = arith.constant 0xFF800000 : f32
        attn.yield %ninf : f32
      }
      combine {
      ^bb0(%a: f32, %b: f32):
        %m = arith.maximumf %a, %b : f32
        attn.yield %m : f32
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
      ^bb0(%m: f32, %acc: f32, %sum: f32):
        %zero = arith.constant 0.0 : f32
        %empty = arith.cmpf oeq, %sum, %zero : f32
        %quot = arith.divf %acc, %sum : f32
        %o = arith.select %empty, %zero, %quot : f32
        %log = math.log %sum : f32
        %lse = arith.addf %m, %log : f32
        attn.yield %o, %lse : f32, f32
      }
    }
    ```
  }];
  let arguments = (ins
    SymbolNameAttr:$sym_name,
    OptionalAttr<StrAttr>:$sym_visibility,
    Attn_MonoidKindAttr:$kind,
    TypeArrayAttr:$stats,
    Attn_ComponentArrayAttr:$components,
    DefaultValuedAttr<TypeArrayAttr, "{}">:$params,
    DefaultValuedAttr<StrArrayAttr, "{}">:$outputs
  );
  let regions = (region
    MaxSizedRegion<1>:$identity, MaxSizedRegion<1>:$combine,
    MaxSizedRegion<1>:$rescale, MaxSizedRegion<1>:$gate,
    MaxSizedRegion<1>:$lift, MaxSizedRegion<1>:$finalize);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    unsigned getNumStats() { return getStats().size(); }
    unsigned getNumComponents() { return getComponents().size(); }
    unsigned getNumParams() { return getParams().size(); }
    /// Number of scores that `lift` takes.
    unsigned getNumScores();
    /// Number of `value` components.
    unsigned getNumValues();
    bool isGeneral() { return getKind() == MonoidKind::general; }
    /// Whether `rescale` yields a factor for each component, not one for all.
    bool hasFactors() {
      return !getRescale().empty() &&
             getRescale().front().getTerminator()->getNumOperands() > 1;
    }
    Component getComponent(unsigned i) {
      return ::llvm::cast<ComponentAttr>(getComponents()[i]).getValue();
    }
  }];
}

//===----------------------------------------------------------------------===//
// AttentionOp
//===----------------------------------------------------------------------===//

def Attn_AttentionOp : Attn_Op<"attention", [
    AttrSizedOperandSegments, RecursiveMemoryEffects,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Attention by named options";
  let description = [{
    score = scale * q.k, then softcap, then `score` / bias / alibi, then masks
    (causal, window, boolean mask, `mask`, key lengths), then the monoid; the
    results are the first outputs of the monoid's `finalize` in order.

    Shapes: q [b, hq, sq, d], k [b, hk, sk, d], v [b, hk, sk, dv];
    results [b, hq, sq, dv] (per channel) or [b, hq, sq] (per row, f32).
    Packed (with `cu_seqlens`): q [hq, total_q, d], k [hk, total_k, d],
    v [hk, total_k, dv]; results lose the batch dimension likewise.

    - `scale`: f32, default 1/sqrt(d). `softcap`: f32, c * tanh(s / c);
      c > 0, and an infinite one is none.
    - `bias`: added to the score, tensor broadcastable to [b, hq, sq, sk]
      (dimensions of static size 1 broadcast); -inf means dead.
    - `mask`: i1 or i8 tensor, true = attend, broadcastable likewise.
    - `alibi`: slopes f32 [hq] or [b, hq]; adds -slope * |i + len - sq - j|.
    - `sinks`: f32 [hq], a logit in final score units that only enters the
      denominator (`softmax` family: any cocycle monoid with one statistic).
    - `lengths`: i32 [b], keys of each batch.
    - `block_table`: i32 [b, n], pages of each batch; k and v are then pools
      [pages, hk, page, d(v)] that sequences share, and entries behind the last
      page of a sequence are not looked at. It goes with packed queries too.
    - `k_start`: i32 [b], the position of the first key; key j of the sequence
      is at position `k_start + j` for regions and diagonals. `rolling`: k and v
      are caches that are written round and round: the key at position p is in
      row p modulo their rows.
    - `dropout`: f32, the share of pairs whose values are dropped; the others
      count 1 / (1 - p) times as much. Behind it i32 words of the generator's
      state: seed low, high, offset low, high. Which pairs, is a function of
      these and b, h, i, j alone (docs/Semantics.md).
    - `window`: i32 left, right; inclusive, relative to the aligned diagonal,
      -1 unbounded.
    - `precision`: `#attn.precision<tf32>` lets products round f32 operands to
      tf32 (docs/Semantics.md); `ieee` (the default) does not.
    - `batch_invariant`: the bits of a row depend on its query, its keys and
      their positions alone, and not on what else is computed beside it.
    - `score` region (s, b, h, i, j, captures...), `mask` region (b, h, i, j,
      captures...): user functions; indices are i32, unshifted.

    Example:

    ```mlir
    func.func @attention(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                         %v: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
      %o = attn.attention queries(%q : tensor<?x?x?x64xf32>)
          keys(%k : tensor<?x?x?x64xf32>) values(%v : tensor<?x?x?x64xf32>)
          {causal = #attn.causal<bottom_right>} -> tensor<?x?x?x64xf32>
      return %o : tensor<?x?x?x64xf32>
    }
    ```
  }];
  let arguments = (ins
    Attn_FloatTensor:$query, Attn_FloatTensor:$key,
    Variadic<Attn_FloatTensor>:$value,
    Optional<F32>:$scale, Optional<F32>:$softcap,
    Optional<Attn_FloatTensor>:$bias,
    Optional<TensorOf<[I1, I8]>>:$mask_tensor,
    Optional<TensorOf<[F32]>>:$alibi,
    Optional<TensorOf<[F32]>>:$sinks,
    Optional<Attn_I32Vec>:$lengths,
    Optional<I32>:$window_left, Optional<I32>:$window_right,
    Optional<Attn_I32Vec>:$cu_q, Optional<Attn_I32Vec>:$cu_k,
    Optional<Attn_I32Table>:$block_table, Optional<Attn_I32Vec>:$k_start,
    Optional<F32>:$dropout, Variadic<I32>:$dropout_rng,
    Variadic<F32>:$params, Variadic<Attn_Capture>:$captures,
    UnitAttr:$rolling, UnitAttr:$batch_invariant,
    DefaultValuedAttr<Attn_CausalAttr, "Causal::none">:$causal,
    DefaultValuedAttr<FlatSymbolRefAttr, "\"softmax\"">:$monoid,
    OptionalAttr<Attn_ScheduleAttr>:$schedule,
    DefaultValuedAttr<Attn_PrecisionAttr, "ProductPrecision::ieee">:$precision
  );
  let results = (outs Variadic<Attn_FloatTensor>:$outputs);
  let regions = (region MaxSizedRegion<1>:$score, MaxSizedRegion<1>:$mask);
  let extraClassDeclaration = [{
    ::mlir::attn::Source getQuerySource();
    ::mlir::attn::Source getKeySource();
  }];
  let assemblyFormat = [{
    (`monoid` `(` $monoid^ (`params` $params^ `:` type($params))? `)`)?
    `queries` `(` $query `:` type($query) `)`
    `keys` `(` $key `:` type($key) `)`
    (`values` `(` $value^ `:` type($value) `)`)?
    (`scale` `(` $scale^ `)`)? (`softcap` `(` $softcap^ `)`)?
    (`bias` `(` $bias^ `:` type($bias) `)`)?
    (`mask_tensor` `(` $mask_tensor^ `:` type($mask_tensor) `)`)?
    (`alibi` `(` $alibi^ `:` type($alibi) `)`)?
    (`sinks` `(` $sinks^ `:` type($sinks) `)`)?
    (`lengths` `(` $lengths^ `:` type($lengths) `)`)?
    (`window_left` `(` $window_left^ `)`)?
    (`window_right` `(` $window_right^ `)`)?
    (`cu_seqlens_q` `(` $cu_q^ `:` type($cu_q) `)`)?
    (`cu_seqlens_k` `(` $cu_k^ `:` type($cu_k) `)`)?
    (`block_table` `(` $block_table^ `:` type($block_table) `)`)?
    (`k_start` `(` $k_start^ `:` type($k_start) `)`)?
    (`dropout` `(` $dropout^ `,` $dropout_rng `)`)?
    (`captures` `(` $captures^ `:` type($captures) `)`)?
    attr-dict (`score` $score^)? (`mask` $mask^)?
    `->` type($outputs)
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// AggregateOp, PartialOp
//===----------------------------------------------------------------------===//

class Attn_ReductionOp<string mnemonic, list<Trait> traits = []>
    : Attn_Op<mnemonic, !listconcat([
        AttrSizedOperandSegments, RecursiveMemoryEffects,
        DeclareOpInterfaceMethods<SymbolUserOpInterface>,
        Attn_ReductionOpInterface], traits)> {
  dag commonArguments = (ins
    FlatSymbolRefAttr:$monoid,
    Variadic<F32>:$params,
    Variadic<Attn_FloatTensor>:$queries, Variadic<Attn_FloatTensor>:$keys,
    Variadic<Attn_FloatTensor>:$values, Variadic<Attn_Capture>:$captures,
    Variadic<Attn_Index>:$query_index, Variadic<Attn_Index>:$key_index,
    Optional<Attn_Base>:$row_base, Optional<Attn_Base>:$key_base,
    OptionalAttr<Attn_SourceAttr>:$query_form,
    OptionalAttr<Attn_SourceAttr>:$key_form,
    DefaultValuedAttr<Attn_SideAttr, "Side::keys">:$side,
    OptionalAttr<Attn_ScheduleAttr>:$schedule,
    DefaultValuedAttr<Attn_PrecisionAttr, "ProductPrecision::ieee">:$precision,
    UnitAttr:$relaxed_maximum, UnitAttr:$fixable_anchor,
    UnitAttr:$batch_invariant
  );
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let hasCanonicalizer = 1;
  let extraClassDeclaration = [{
    ::mlir::attn::Source getQuerySource() {
      return {getQueryFormAttr(), getQueryIndex()};
    }
    ::mlir::attn::Source getKeySource() {
      return {getKeyFormAttr(), getKeyIndex()};
    }
  }];
}

def Attn_AggregateOp : Attn_ReductionOp<"aggregate"> {
  let summary = "Reduces the keys of each query row in a monoid";
  let description = [{
    For each batch b, query head h, row i: the product in key order of
    `lift(score(q_i . k_j, ...))` over live keys j, starting from `init` (or
    the identity), passed through `finalize`.

    Operands: n dot pairs `scores(%q0, %k0, %q1, %k1 ...)`, one operand for
    each `value` component of the monoid, and `captures` (tensors and scalars
    that regions read as trailing block arguments). Query head h reads key head
    h / (hq / hk).

    `query_source` and `key_source` say where the rows of each sequence are
    (`#attn.source`), in words with their index operands:

    | source                                 | operand |
    |----------------------------------------|---------|
    | `query_source(varlen %cu : ...)`       | packed queries, and results |
    | `key_source(varlen %cu : ...)`         | packed keys and values |
    | `key_source(paged %table : ...)`       | pools of pages |
    | `key_source(ring %start : ...)`        | caches written round and round |
    | `key_source(lengths %n : ...)`         | keys of each batch, also behind `paged` and `ring` |

    `row_base` and `key_base` are what positions count from: an i32 for all
    batches, or one of each. Regions see row i of a sequence as `row_base + i`
    and key j as `key_base + j`: of a part of the rows or keys, of a chunk or a
    rolling cache.

    Regions (single block, `arith`, `math`, `tensor.extract` on captures, no
    side effects, no fast-math flags; b, h, i, j are i32):

    | region     | arguments                          | yields       | absent |
    |------------|------------------------------------|--------------|--------|
    | `score`    | `s..., b, h, i, j, captures...`    | scores for `lift` | the dots |
    | `mask`     | `b, h, i, j, captures...`          | i1, true = live   | all live |
    | `factor`   | `b, h, i, j, captures...`          | f32               | 1 |
    | `init`     | `b, h, i, captures...`             | `c..., v...`      | identity |
    | `finalize` | `c..., v..., b, h, i, captures...` | outputs           | the monoid's |

    `factor` multiplies what a key adds to the `value` components, and nothing
    else: statistics and `unit` components, and so a softmax's sum and its
    logarithm, are those of all live keys. Dropout is such a factor, 0 or
    1 / (1 - p). General monoids, whose values are no sums, take none.

    `precision = #attn.precision<tf32>` is a permission: dots and sums over
    values may round f32 operands to tf32. So is `relaxed_maximum`, which
    `attn-relax-maximum` writes: the maximum that the monoid's combine takes may
    pass a NaN by, which reaches every output all the same. `fixable_anchor`, of
    `attn-fix-anchor`, permits to measure weights from 0 instead of from the
    largest score, where the factor of the score is small.

    `batch_invariant` is a demand: one order of the keys for all rows, whatever
    is computed beside them (docs/Semantics.md).

    With `side = #attn.side<queries>` rows are those of keys, and queries are
    reduced: those of all query heads that read the row's key head, head by head,
    rows of each in order. Pairs are then of a key and a query, values are
    tensors over queries, and results over keys. Positions come in the same
    order, the row's first: `score`, `mask` and `factor` see `b, h, j, i`, where h is the
    query head, and `init` and `finalize` `b, h, j`, where h is the key head.
    `query_source` and `row_base` are then of the keys, which have the rows, and
    `key_source` and `key_base` of the queries: of these there are `lengths`, and
    they may be in pages or rings. Gradients of keys and values are such
    aggregates.

    A score of -inf in every lift score is dead. The left factor `init` enters
    once, before key 0.

    Example:

    ```mlir
    # func.func @example(
    #     %q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
    #     %v: tensor<?x?x?x64xf32>, %scale: f32) {
    %o = attn.aggregate @softmax scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
        values(%v : tensor<?x?x?x64xf32>) captures(%scale : f32)
      score {
      ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32, %c: f32):
        %x = arith.mulf %s, %c : f32
        attn.yield %x : f32
      }
      mask {
      ^bb0(%b: i32, %h: i32, %i: i32, %j: i32, %c: f32):
        %live = arith.cmpi sle, %j, %i : i32
        attn.yield %live : i1
      } -> tensor<?x?x?x64xf32>
    // For each key, the sum of the queries by max(q.k, 0).
    %s = attn.aggregate @relu_sum scores(%k, %q : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
        values(%q : tensor<?x?x?x64xf32>) {side = #attn.side<queries>}
        -> tensor<?x?x?x64xf32>
    #   return
    # }
    ```
  }];
  let arguments = commonArguments;
  let results = (outs Variadic<Attn_FloatTensor>:$outputs);
  let regions = (region
    MaxSizedRegion<1>:$score, MaxSizedRegion<1>:$mask,
    MaxSizedRegion<1>:$factor, MaxSizedRegion<1>:$init,
    MaxSizedRegion<1>:$finalize);
}

def Attn_PartialOp : Attn_ReductionOp<"partial"> {
  let summary = "Reduces `splits` parts of the keys to states";
  let description = [{
    As `attn.aggregate`, but the keys of a row, n of them, are cut into `splits`
    contiguous parts of ceil(n / `splits`) keys, the last ones of fewer or none,
    and the states of all parts are returned, unfinished: for each statistic a
    tensor [splits, b, hq, sq] and for each component [splits, b, hq, sq, dv] or
    [splits, b, hq, sq], f32. `init` enters part 0 only; the parts are in key
    order. `splits` is an attribute, or the operand `parts(%n : index)`, at least
    1, where the number is known as a plan runs. With `granule` a part has as many
    keys rounded up to a multiple of that: parts begin where tiles and pages do,
    and more of the last ones have none.
  }];
  let arguments = !con(commonArguments,
    (ins Optional<Index>:$parts, OptionalAttr<I64Attr>:$splits,
         OptionalAttr<I64Attr>:$granule));
  let results = (outs Variadic<Attn_FloatTensor>:$states);
  let regions = (region
    MaxSizedRegion<1>:$score, MaxSizedRegion<1>:$mask,
    MaxSizedRegion<1>:$factor, MaxSizedRegion<1>:$init);
}

def Attn_ScoresOp : Attn_ReductionOp<"scores"> {
  let summary = "Writes the scores that a reduction would reduce to memory";
  let description = [{
    The scores that the lift of the monoid takes, of each query row and key: for
    each a tensor f32 [b, hq, sq, sk], `score(q_i . k_j, ...)`. There are no
    values, and pairs that the mask of the operation kills may be left as they
    are in memory: what reads the scores has the same mask. Operands, captures and
    regions are as those of `attn.aggregate`; queries and keys are dense.

    It is the first kernel of attention as it is written down, and of the `naive`
    rung of the ladder (docs/Ladder.md).

    Example:

    ```mlir
    # func.func @example(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
    #     %scale: f32) {
    %s = attn.scores @softmax scores(%q, %k : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
        captures(%scale : f32)
      score {
      ^bb0(%d: f32, %b: i32, %h: i32, %i: i32, %j: i32, %c: f32):
        %x = arith.mulf %d, %c : f32
        attn.yield %x : f32
      } -> tensor<?x?x?x?xf32>
    #   return
    # }
    ```
  }];
  let arguments = commonArguments;
  let results = (outs Variadic<Attn_FloatTensor>:$outputs);
  let regions = (region
    MaxSizedRegion<1>:$score, MaxSizedRegion<1>:$mask,
    MaxSizedRegion<1>:$factor, MaxSizedRegion<1>:$init);
}

//===----------------------------------------------------------------------===//
// CombineOp, FinalizeOp, YieldOp
//===----------------------------------------------------------------------===//

def Attn_CombineOp : Attn_Op<"combine", [
    AttrSizedOperandSegments, Pure,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Multiplies the states of parts in order";
  let description = [{
    Takes states with a leading dimension of parts (as `attn.partial` returns
    them) and gives their product along it, first part leftmost.

    Example:

    ```mlir
    # func.func @example(
    #     %ms: tensor<4x?x?x?xf32>, %accs: tensor<4x?x?x?x64xf32>,
    #     %ls: tensor<4x?x?x?xf32>) {
    %m, %acc, %l = attn.combine @softmax(%ms, %accs, %ls
        : tensor<4x?x?x?xf32>, tensor<4x?x?x?x64xf32>, tensor<4x?x?x?xf32>)
        -> tensor<?x?x?xf32>, tensor<?x?x?x64xf32>, tensor<?x?x?xf32>
    #   return
    # }
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$monoid,
    Variadic<Attn_FloatTensor>:$states, Variadic<F32>:$params);
  let results = (outs Variadic<Attn_FloatTensor>:$outputs);
  let assemblyFormat = [{
    $monoid `(` $states `:` type($states) `)` (`params` `(` $params^ `:` type($params) `)`)?
    attr-dict `->` type($outputs)
  }];
  let hasVerifier = 1;
}

def Attn_FinalizeOp : Attn_Op<"finalize", [
    AttrSizedOperandSegments, RecursiveMemoryEffects,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Turns states into outputs";
  let description = [{
    Applies `finalize` (block arguments as in `attn.aggregate`; absent: the
    monoid's) to states [b, hq, sq(, dv)].
  }];
  let arguments = (ins FlatSymbolRefAttr:$monoid,
    Variadic<Attn_FloatTensor>:$states, Variadic<F32>:$params,
    Variadic<Attn_Capture>:$captures);
  let results = (outs Variadic<Attn_FloatTensor>:$outputs);
  let regions = (region MaxSizedRegion<1>:$finalize);
  let assemblyFormat = [{
    $monoid `(` $states `:` type($states) `)` (`params` `(` $params^ `:` type($params) `)`)?
    (`captures` `(` $captures^ `:` type($captures) `)`)?
    attr-dict (`finalize` $finalize^)? `->` type($outputs)
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// AppendOp
//===----------------------------------------------------------------------===//

def Attn_AppendOp : Attn_Op<"append", [
    AttrSizedOperandSegments, MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Writes rows behind the last ones of caches";
  let description = [{
    Row i of the new rows of batch b becomes row `lengths[b] + i` of the sequence
    in the cache, in place: a cache is an argument of the function, and what the
    caller passes for it is written. The result are the lengths after. What reads
    the new rows takes it for its lengths, and runs after.

    The rows are in the cache where `attn.attention` looks for them with the same
    `lengths`, `block_table`, `k_start` and `rolling`. Where there is no room for
    a row it is not written, and the lengths after count those that are there.

    Example:

    ```mlir
    func.func @step(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                    %v: tensor<?x?x?x64xf32>, %kn: tensor<?x?x?x64xf32>,
                    %vn: tensor<?x?x?x64xf32>, %n: tensor<?xi32>)
        -> tensor<?x?x?x64xf32> {
      %after = attn.append rows(%kn, %vn : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
          to(%k, %v : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>)
          lengths(%n : tensor<?xi32>) -> tensor<?xi32>
      %o = attn.attention queries(%q : tensor<?x?x?x64xf32>)
          keys(%k : tensor<?x?x?x64xf32>) values(%v : tensor<?x?x?x64xf32>)
          lengths(%after : tensor<?xi32>)
          {causal = #attn.causal<bottom_right>} -> tensor<?x?x?x64xf32>
      return %o : tensor<?x?x?x64xf32>
    }
    ```
  }];
  let arguments = (ins
    Variadic<Attn_FloatTensor>:$rows, Variadic<Attn_FloatTensor>:$caches,
    Attn_I32Vec:$lengths, Optional<Attn_I32Table>:$block_table,
    Optional<Attn_I32Vec>:$k_start, UnitAttr:$rolling);
  let results = (outs Attn_I32Vec:$after);
  let assemblyFormat = [{
    `rows` `(` $rows `:` type($rows) `)` `to` `(` $caches `:` type($caches) `)`
    `lengths` `(` $lengths `:` type($lengths) `)`
    (`block_table` `(` $block_table^ `:` type($block_table) `)`)?
    (`k_start` `(` $k_start^ `:` type($k_start) `)`)?
    attr-dict `->` type($after)
  }];
  let hasVerifier = 1;
}

def Attn_YieldOp : Attn_Op<"yield", [
    Pure, Terminator, ReturnLike,
    ParentOneOf<["MonoidOp", "AttentionOp", "AggregateOp", "PartialOp",
                 "ScoresOp", "FinalizeOp", "ScanOp"]>]> {
  let summary = "Ends a region with its values";
  let arguments = (ins Variadic<AnyType>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

#endif // ATTN_DIALECT_ATTN_IR_ATTNOPS_TD
