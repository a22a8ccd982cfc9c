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
    | `affine`  | `alpha(c1, c2) v1 + beta(c1, c2) v2` | `factors` |
    | `general` | pointwise in the channel, by `combine` on whole states | |

    with `c = combine(c1, c2)`: `cocycle` rescales, as online softmax does;
    `suffix` and `prefix` are gated by later and by earlier keys; `affine` has
    the others as its instances, and is for gated sums that are kept relative to
    their largest weight, as those of mLSTM. `lift` gives
    the state of one key from its scores: statistics, then one weight per
    component; the component is `weight * v[j]` (`value`) or `weight` (`unit`).
    For `general` monoids `lift` also takes the key's value (one per `value`
    component) and its position, and yields statistics and components
    themselves.

    Regions and their block arguments (run-time parameters `p` come last):

    | region     | arguments                                  | yields |
    |------------|--------------------------------------------|--------|
    | `identity` | `p...`                                     | `c...` (general: `c..., v...`) |
    | `combine`  | `a..., b..., p...`                         | like `identity` |
    | `rescale`  | `from..., to..., p...`                     | one factor, or one for each component |
    | `shift`    | `from..., to..., u..., p...`               | `u...` |
    | `gate`     | `c..., p...`                               | factor |
    | `factors`  | `a..., b..., p...`                         | alpha, beta |
    | `lift`     | `s..., p...` (general: `s..., v..., j, p...`) | `c..., w...` |
    | `finalize` | `c..., v..., p...`                         | outputs |

    If `rescale` yields one factor, it scales all components; otherwise the k-th
    factor scales component k, and each factor is a cocycle of its own. A sum of
    squared weights needs the square of the factor, for example. In the table
    above `r` is the factor of the component at hand.

    Components may be sums of what is itself relative to the statistic, as of
    weights times the distance of their score from the largest one, `w (s - c)`:
    where the statistic moves, each distance does. `shift`, which a `cocycle` may
    have, says what becomes of the `unit` components `u` then, before `rescale`
    scales them: here `u + (from - to) t`, with the sum `t` of the weights. It is
    linear in them. Weights that `lift` gives are those of a key alone, whose
    statistic is its own: a distance of 0, say. Such sums are as exact as the
    differences that they are made of, however large the scores are.

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
    Arg<SymbolNameAttr, "The name by which operations refer to it.">:$sym_name,
    Arg<OptionalAttr<StrAttr>, "Who may refer to it; anyone if "
        "absent.">:$sym_visibility,
    Arg<Attn_MonoidKindAttr, "How the components of two states combine, as in "
        "the table.">:$kind,
    Arg<TypeArrayAttr, "One type, f32, for each statistic.">:$stats,
    Arg<Attn_ComponentArrayAttr, "For each component whether it is a vector "
        "over the value channels (`value`) or a scalar per row "
        "(`unit`).">:$components,
    Arg<DefaultValuedAttr<TypeArrayAttr, "{}">, "One type, f32, for each "
        "run-time parameter; none if absent.">:$params,
    Arg<DefaultValuedAttr<StrArrayAttr, "{}">, "One name for each value that "
        "`finalize` yields; none without `finalize`.">:$outputs);
  let regions = (region
    MaxSizedRegion<1>:$identity, MaxSizedRegion<1>:$combine,
    MaxSizedRegion<1>:$rescale, MaxSizedRegion<1>:$shift,
    MaxSizedRegion<1>:$gate, MaxSizedRegion<1>:$factors,
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
    /// Number of `unit` components.
    unsigned getNumUnits() { return getNumComponents() - getNumValues(); }
    /// The number of a `unit` component among them.
    unsigned getUnit(unsigned component);
    bool isGeneral() { return getKind() == MonoidKind::general; }
    /// Whether `rescale` yields a factor for each component, not one for all.
    bool hasFactors() {
      return !getRescale().empty() &&
             getRescale().front().getTerminator()->getNumOperands() > 1;
    }
    bool hasShift() { return !getShift().empty(); }
    /// Whether `shift` makes anything of a component but what it was.
    bool isShifted(unsigned component);
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
    (causal, window, `mask_tensor`, `mask`, key lengths), then the monoid; the
    results are the first outputs of the monoid's `finalize` in order.

    Shapes: q [b, hq, sq, d], k [b, hk, sk, d], v [b, hk, sk, dv];
    results [b, hq, sq, dv] (per channel) or [b, hq, sq] (per row, f32).
    Packed (with `cu_seqlens`): q [hq, total_q, d], k [hk, total_k, d],
    v [hk, total_k, dv]; results lose the batch dimension likewise.

    - `scale`: f32, default 1/sqrt(d). `softcap`: f32, c * tanh(s / c) with
      c > 0; an infinite c has no effect.
    - `bias`: added to the score, tensor broadcastable to [b, hq, sq, sk]
      (dimensions of static size 1 broadcast); a key with -inf is dead.
    - `mask_tensor`: i1 or i8 tensor, true = attend, broadcastable likewise.
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
    - `dropout`: f32, the probability p that the value of a pair is dropped; the
      others count 1 / (1 - p) times as much. Four i32 words of the generator's
      state follow: seed low, high, offset low, high. Which pairs are dropped is
      a function of these words and b, h, i, j alone (docs/Semantics.md).
    - `window_left`, `window_right`: i32, inclusive, relative to the aligned
      diagonal; -1 is unbounded.
    - `precision`: `#attn.precision<tf32>` lets products round f32 operands to
      tf32 (docs/Semantics.md); `ieee` (the default) does not.
    - `batch_invariant`: the bits of a row depend on its query, its keys and
      their positions alone, and not on what else is computed beside it.
    - `cascade`: pages that the block tables of several sequences begin with are
      read once for the rows of all of them, in so many levels: those that all
      have, then those that some of these have. Equal entries tell, at run time.
    - `score` region (s, b, h, i, j, captures...), `mask` region (b, h, i, j,
      captures...): user functions; indices are i32, unshifted.
    - `rotate` region (x, y, b, h, n, c, tables...), with `rotary`, which says
      what a pair is: turns pair c of the query or key at position n before the
      product, so that caches hold keys as they were before. A key is at its
      position. Query i is at that of key `i + len - sq`, on the bottom-right
      diagonal, or with a top-left one at position i. With `rotate_by_slot`
      `k_start` is not counted.

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
    Arg<Attn_FloatTensor, "The queries: [b, hq, sq, d], or with `cu_q` [hq, "
        "total_q, d].">:$query,
    Arg<Attn_FloatTensor, "The keys: [b, hk, sk, d], with `cu_k` [hk, total_k, "
        "d], with `block_table` pools [pages, hk, page, d].">:$key,
    Arg<Variadic<Attn_FloatTensor>, "One tensor for each `value` component of "
        "the monoid, shaped like the keys, but with dv channels.">:$value,
    Arg<Optional<F32>, "Factor of q.k; 1 / sqrt(d) if absent.">:$scale,
    Arg<Optional<F32>, "The c of c * tanh(s / c), positive; scores have no cap "
        "if absent.">:$softcap,
    Arg<Optional<Attn_FloatTensor>, "Added to the score; broadcasts to [b, hq, "
        "sq, sk], and an element of -inf makes the key dead.">:$bias,
    Arg<Optional<TensorOf<[I1, I8]>>, "A key is live where this is true, or "
        "not 0; broadcasts to [b, hq, sq, sk].">:$mask_tensor,
    Arg<Optional<TensorOf<[F32]>>, "Slopes, [hq] or [b, hq], of the bias "
        "-slope * |i + len - sq - j|.">:$alibi,
    Arg<Optional<TensorOf<[F32]>>, "One more logit of each query head, [hq], "
        "in units of the final score, that enters the denominator "
        "alone.">:$sinks,
    Arg<Optional<Attn_I32Vec>, "Number of keys of each batch, [b]; if absent, "
        "as many as there is room for.">:$lengths,
    Arg<Optional<I32>, "Number of keys before the aligned diagonal that a row "
        "may see; all if negative or absent.">:$window_left,
    Arg<Optional<I32>, "Number of keys after the aligned diagonal that a row "
        "may see; all if negative or absent.">:$window_right,
    Arg<Optional<Attn_I32Vec>, "First row of each sequence in packed queries, "
        "and the end of the last one: [b + 1]; queries are not packed if "
        "absent.">:$cu_q,
    Arg<Optional<Attn_I32Vec>, "The same of packed keys; only beside "
        "`cu_q`.">:$cu_k,
    Arg<Optional<Attn_I32Table>, "The pages of each batch in order, [b, n]; "
        "keys and values are not in pages if absent.">:$block_table,
    Arg<Optional<Attn_I32Vec>, "Position of the first key of each batch, [b]; "
        "0 if absent.">:$k_start,
    Arg<Optional<F32>, "Probability that the value of a pair is dropped; 0 if "
        "absent.">:$dropout,
    Arg<Variadic<I32>, "State of the random generator, four words: seed low, "
        "seed high, offset low, offset high; only beside "
        "`dropout`.">:$dropout_rng,
    Arg<Variadic<F32>, "One scalar for each parameter of the monoid.">:$params,
    Arg<Variadic<Attn_Capture>, "Tensors and scalars that the regions `score` "
        "and `mask` take as their last block arguments.">:$captures,
    Arg<Variadic<Attn_Capture>, "Tensors and scalars that the region `rotate` "
        "takes as its last block arguments.">:$tables,
    Arg<UnitAttr, "Keys and values are caches written round and round: the key "
        "at position p is in row p modulo their rows.">:$rolling,
    Arg<UnitAttr, "The bits of a row depend on nothing that is computed beside "
        "it.">:$batch_invariant,
    Arg<OptionalAttr<ConfinedAttr<I64Attr, [IntPositive]>>, "Keys of a part, "
        "as of `attn.aggregate`; goes with `batch_invariant`.">:$part_keys,
    Arg<OptionalAttr<I64Attr>, "Levels of pages that several sequences have in "
        "common, and that are read once for all of them; none if "
        "absent.">:$cascade,
    Arg<DefaultValuedAttr<Attn_CausalAttr, "Causal::none">, "Where the causal "
        "diagonal is anchored; if absent there is no causal mask.">:$causal,
    Arg<DefaultValuedAttr<FlatSymbolRefAttr, "\"softmax\"">, "The monoid, a "
        "symbol of the module or a shipped name; `softmax` if absent.">:$monoid,
    Arg<OptionalAttr<Attn_ScheduleAttr>, "Tile sizes and all other decisions "
        "of the lowering; if absent, `attn-choose-schedule` makes "
        "them.">:$schedule,
    Arg<DefaultValuedAttr<Attn_PrecisionAttr, "ProductPrecision::ieee">, "What "
        "products may round f32 operands to; `ieee`, which is nothing, if "
        "absent.">:$precision,
    Arg<OptionalAttr<Attn_RotaryAttr>, "Which channels `rotate` turns; goes "
        "with that region.">:$rotary,
    Arg<UnitAttr, "Positions that `rotate` sees count from 0 whatever "
        "`k_start` is: they are places in the cache.">:$rotate_by_slot);
  let results = (outs
    Res<Variadic<Attn_FloatTensor>, "The first outputs of the monoid's "
        "`finalize`: [b, hq, sq, dv] per channel, [b, hq, sq] in f32 per row; "
        "packed like the queries.">:$outputs);
  let regions = (region MaxSizedRegion<1>:$score, MaxSizedRegion<1>:$mask,
    MaxSizedRegion<1>:$rotate);
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
    (`tables` `(` $tables^ `:` type($tables) `)`)?
    attr-dict (`score` $score^)? (`mask` $mask^)? (`rotate` $rotate^)?
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
    Arg<FlatSymbolRefAttr, "The monoid of the reduction, a symbol of the "
        "module or a shipped name.">:$monoid,
    Arg<Variadic<F32>, "One scalar for each parameter of the monoid.">:$params,
    Arg<Variadic<Attn_FloatTensor>, "Left sides of the dot pairs, which have "
        "the rows: [b, h, rows, d], or packed [h, total, d]; they are keys "
        "where `side` is `queries`.">:$queries,
    Arg<Variadic<Attn_FloatTensor>, "Right sides of the dot pairs, one for "
        "each left side, which are reduced; `key_form` says how they lie in "
        "memory.">:$keys,
    Arg<Variadic<Attn_FloatTensor>, "One tensor for each `value` component of "
        "the monoid, with the rows of the right sides and dv "
        "channels.">:$values,
    Arg<Variadic<Attn_Capture>, "Tensors and scalars that all regions take as "
        "their last block arguments.">:$captures,
    Arg<Variadic<Attn_Index>, "Index operands of `query_form`: the offsets of "
        "packed rows, [b + 1]; none of dense ones.">:$query_index,
    Arg<Variadic<Attn_Index>, "Index operands of `key_form`: its offsets, "
        "table or starts, then its lengths.">:$key_index,
    Arg<Optional<Attn_Base>, "Position of row 0, one for all batches or one "
        "for each; 0 if absent.">:$row_base,
    Arg<Optional<Attn_Base>, "Position of the first key (or query) that is "
        "reduced, one for all batches or one for each; 0 if absent.">:$key_base,
    Arg<OptionalAttr<Attn_SourceAttr>, "How the left sides lie in memory, "
        "dense or packed (`varlen`); dense if absent.">:$query_form,
    Arg<OptionalAttr<Attn_SourceAttr>, "How the right sides and the values lie "
        "in memory; dense if absent.">:$key_form,
    Arg<DefaultValuedAttr<Attn_SideAttr, "Side::keys">, "What is reduced: the "
        "keys of each query row, or the queries of each key row; keys if "
        "absent.">:$side,
    Arg<OptionalAttr<Attn_ScheduleAttr>, "Tile sizes and all other decisions "
        "of the lowering; if absent, `attn-choose-schedule` makes "
        "them.">:$schedule,
    Arg<DefaultValuedAttr<Attn_PrecisionAttr, "ProductPrecision::ieee">, "What "
        "products may round f32 operands to; `ieee`, which is nothing, if "
        "absent.">:$precision,
    Arg<UnitAttr, "A statistic that is a maximum may pass a NaN by, since "
        "every output is NaN all the same.">:$relaxed_maximum,
    Arg<UnitAttr, "Weights may be measured from 0 instead of from the largest "
        "score of the row.">:$fixable_anchor,
    Arg<UnitAttr, "The bits of a row depend on nothing that is computed beside "
        "it.">:$batch_invariant,
    Arg<OptionalAttr<Attn_RotaryAttr>, "Which channels `rotate_queries` and "
        "`rotate_keys` turn; goes with one or both of them.">:$rotary);
  // What passes before `attn-tile` decide of a reduction, and it does.
  dag decisions = (ins
    Arg<OptionalAttr<Attn_ExponentAttr>, "Weights are powers of 2 of the "
        "distance from the row's maximum, and how they are computed "
        "(`attn-online-form`).">:$exponent,
    Arg<OptionalAttr<Attn_ListFormAttr>, "Kernels before this one list its key "
        "tiles (`attn-list-key-tiles`).">:$listed_keys,
    Arg<OptionalAttr<ConfinedAttr<I64Attr, [IntPositive]>>, "Keys of a part, "
        "counted from key 0 of a sequence: each is reduced by itself, and the "
        "states of parts are multiplied in order, whether one block does it or "
        "several. Goes with `batch_invariant`; one part if "
        "absent.">:$part_keys,
    Arg<UnitAttr, "Registers hold what the mask reads of a listed tile: there "
        "is room for it beside scores, weights and sums. Goes with "
        "`listed_keys`.">:$held_samples,
    Arg<UnitAttr, "The maximum is held in units of what the score is a factor "
        "times of (`attn-fold-scale`).">:$score_unit,
    Arg<UnitAttr, "The product of a whole tile adds what the score grows by "
        "from key to key (`attn-fold-linear-bias`).">:$linear_bias,
    Arg<UnitAttr, "The query heads of a key head are rows of one tile, in runs "
        "whose strides and sizes allow it "
        "(`attn-pack-heads`).">:$packed_heads,
    Arg<UnitAttr, "Scores are 0 for pairs that are dead by their scores, and "
        "never -inf all together: nothing tests them again "
        "(`attn-differentiate`).">:$dead_is_zero,
    Arg<UnitAttr, "The mask says no more than which pairs have an element of "
        "-inf added to their score: their weights are 0 without it, where the "
        "rows of the dots are finite (`attn-differentiate`).">:$dead_by_element,
    Arg<UnitAttr, "Gradients may be added up in any order: the same call may "
        "give other bits (`attn-differentiate`).">:$any_order);
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

/// A reduction of which nothing is decided yet: `more` names what an op has
/// beside other reductions.
class Attn_UndecidedBuilder<dag moreTypes = (ins), string more = "",
                            string last = "">
    : OpBuilder<!con((ins "TypeRange":$types, "FlatSymbolRefAttr":$monoid,
        "ValueRange":$params, "ValueRange":$queries, "ValueRange":$keys,
        "ValueRange":$values, "ValueRange":$captures,
        "ValueRange":$query_index, "ValueRange":$key_index, "Value":$row_base,
        "Value":$key_base, "SourceAttr":$query_form, "SourceAttr":$key_form,
        "SideAttr":$side, "ScheduleAttr":$schedule,
        "ProductPrecisionAttr":$precision, "UnitAttr":$batch_invariant,
        "RotaryAttr":$rotary), moreTypes), [{
    build($_builder, $_state, types, monoid, params, queries, keys, values,
          captures, query_index, key_index, row_base, key_base, query_form,
          key_form, side, schedule, precision, /*relaxed_maximum=*/UnitAttr(),
          /*fixable_anchor=*/UnitAttr(), batch_invariant, rotary}] # more # [{,
          /*exponent=*/ExponentAttr(), /*listed_keys=*/ListFormAttr(),
          /*part_keys=*/IntegerAttr(), /*held_samples=*/UnitAttr(),
          /*score_unit=*/UnitAttr(), /*linear_bias=*/UnitAttr(),
          /*packed_heads=*/UnitAttr(), /*dead_is_zero=*/UnitAttr(),
          /*dead_by_element=*/UnitAttr(), /*any_order=*/UnitAttr()}] # last # [{);
  }]>;

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
    batches, or one for each. Regions see row i of a sequence as `row_base + i`
    and key j as `key_base + j`, for operands that are a part of the rows or
    keys: a chunk, or a rolling cache.

    Regions (single block, `arith`, `math`, `tensor.extract` on captures, no
    side effects, no fast-math flags but afn of exponentials; b, h, i, j are i32):

    | region     | arguments                          | yields       | absent |
    |------------|------------------------------------|--------------|--------|
    | `score`    | `s..., b, h, i, j, captures...`    | scores for `lift` | the dots |
    | `mask`     | `b, h, i, j, captures...`          | i1, true = live   | all live |
    | `factor`   | `b, h, i, j, captures...`          | f32               | 1 |
    | `rotate_queries` | `x, y, b, h, i, c, captures...` | `x, y` | as they are |
    | `rotate_keys` | `x, y, b, h, j, c, captures...` | `x, y`    | as they are |
    | `init`     | `b, h, i, captures...`             | `c..., v...`      | identity |
    | `finalize` | `c..., v..., b, h, i, captures...` | outputs           | the monoid's |

    `factor` multiplies what a key adds to the `value` components, and nothing
    else: statistics and `unit` components, and so a softmax's sum and its
    logarithm, are those of all live keys. Dropout is such a factor, 0 or
    1 / (1 - p). General monoids, whose values are no sums, take none.

    `rotate_queries` and `rotate_keys` turn rows before the dot, pair of channels
    by pair; `rotary` says which channels are pair c. Their results are
    multiplied in f32; kernels for GPUs round them to the type of the rows
    first. h is the query head, for keys too, but for keys on a GPU, which turn
    once for all heads: there it is not read. They are of one dot pair, over
    keys.

    `precision = #attn.precision<tf32>` is a permission: dots and sums over
    values may round f32 operands to tf32. `relaxed_maximum`, which
    `attn-relax-maximum` writes, is one too: the maximum that the monoid's
    combine takes may ignore a NaN, which reaches every output all the same.
    `fixable_anchor`, which `attn-fix-anchor` writes, permits weights to be
    measured from a reference maximum of 0 instead of from the largest score,
    where the factor of the score is small.

    `batch_invariant` is a demand: one order of the keys for all rows, whatever
    is computed beside them (docs/Semantics.md).

    With `side = #attn.side<queries>` each row is a key, and queries are
    reduced: those of all query heads that read the row's key head, head by
    head, and the rows of each head in order. Pairs are then a key and a query,
    values are tensors over queries, and results are tensors over keys.
    Positions come in the same order, the row's first: `score`, `mask` and
    `factor` see `b, h, j, i`, where h is the query head, and `init` and
    `finalize` see `b, h, j`, where h is the key head. `query_source` and
    `row_base` then describe the keys, which have the rows, and `key_source` and
    `key_base` the queries, which may have `lengths` and be in pages or rings.
    Gradients of keys and values are such aggregates.

    A key whose lift scores are all -inf is dead. The left factor `init` enters
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
  let arguments = !con(commonArguments, decisions, (ins
    Arg<OptionalAttr<Attn_CausalAttr>, "Keys from the first one on may be read "
        "once for sequences with the same pages, and where the mask ends "
        "them.">:$cascade,
    Arg<OptionalAttr<I64Attr>, "In how many levels; goes with "
        "`cascade`.">:$cascade_levels));
  let builders = [Attn_UndecidedBuilder<(ins), "",
      ", /*cascade=*/CausalAttr(), /*cascade_levels=*/IntegerAttr()">];
  let results = (outs
    Res<Variadic<Attn_FloatTensor>, "The values that `finalize` yields: [b, h, "
        "rows, dv] per channel, [b, h, rows] in f32 per row; packed like the "
        "left sides.">:$outputs);
  let regions = (region
    MaxSizedRegion<1>:$score, MaxSizedRegion<1>:$mask,
    MaxSizedRegion<1>:$factor, MaxSizedRegion<1>:$init,
    MaxSizedRegion<1>:$finalize, MaxSizedRegion<1>:$rotate_queries,
    MaxSizedRegion<1>:$rotate_keys);
}

def Attn_PartialOp : Attn_ReductionOp<"partial"> {
  let summary = "Reduces `splits` parts of the keys to states";
  let description = [{
    As `attn.aggregate`, but the keys of a row, n of them, are cut into `splits`
    contiguous parts of ceil(n / `splits`) keys, the last ones of fewer or none,
    and the states of all parts are returned, unfinished: for each statistic a
    tensor [splits, b, hq, sq] and for each component [splits, b, hq, sq, dv] or
    [splits, b, hq, sq], f32 (split-KV, flash decoding). `init` enters part 0
    only; the parts are in key order. `splits` is an attribute, or the operand
    `parts(%n : index)`, at least 1, if the number is known only as a plan runs.
    With `granule` the keys of a part are rounded up to a multiple of that, so
    that parts begin where tiles and pages do; more of the last parts may then
    be empty.

    With `query_source(lengths %n : ...)`, which no other reduction has, batch b
    has n[b] rows, and the states of rows behind them hold anything.
  }];
  let arguments = !con(commonArguments,
    (ins
    Arg<Optional<Index>, "Number of parts, 1 or more, where it is known as the "
        "plan runs; there is this or `splits`.">:$parts,
    Arg<OptionalAttr<I64Attr>, "Number of parts, 1 or more, where it is known "
        "to the compiler; there is this or `parts`.">:$splits,
    Arg<OptionalAttr<I64Attr>, "The number of keys of a part is rounded up to "
        "a multiple of this; 1 if absent.">:$granule), decisions);
  let builders = [Attn_UndecidedBuilder<(ins "Value":$parts,
      "IntegerAttr":$splits, "IntegerAttr":$granule),
      ", parts, splits, granule">];
  let results = (outs
    Res<Variadic<Attn_FloatTensor>, "Unfinished states in f32, one tensor for "
        "each statistic, [splits, b, hq, sq], then one for each component, "
        "[splits, b, hq, sq, dv] or for `unit` [splits, b, hq, sq].">:$states);
  let regions = (region
    MaxSizedRegion<1>:$score, MaxSizedRegion<1>:$mask,
    MaxSizedRegion<1>:$factor, MaxSizedRegion<1>:$init,
    MaxSizedRegion<1>:$rotate_queries, MaxSizedRegion<1>:$rotate_keys);
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

    With `diagonals = n` (32, 64 or 128) scores are added up along diagonals
    instead, in blocks of n keys: with m = ceil(sk / n) n, element [b, h, t, c] of a
    result [b, hq, ceil(sq / n) n + m, n] is the sum over the live pairs of a key j
    with j mod n = c and the row i = j + t - m - c. So those with i - j = d are the
    elements t = d + m + c, for all c. A score that all pairs of a diagonal have in
    common may have a result [b, hq, ceil(sq / n) n + m] instead: at t that of i - j =
    t - m, or 0 where there is no such pair. Gradients of tables by distance are such
    sums.

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
  let arguments = !con(commonArguments, decisions, (ins
    Arg<OptionalAttr<I64Attr>, "Keys of a block whose diagonals are added up: "
        "32, 64 or 128; scores have places of their own if "
        "absent.">:$diagonals));
  let builders = [Attn_UndecidedBuilder<(ins), "",
      ", /*diagonals=*/IntegerAttr()">];
  let results = (outs
    Res<Variadic<Attn_FloatTensor>, "One tensor [b, hq, sq, sk] of f32 for each "
        "score that the lift takes; pairs that the mask kills may hold "
        "anything.">:$outputs);
  let regions = (region
    MaxSizedRegion<1>:$score, MaxSizedRegion<1>:$mask,
    MaxSizedRegion<1>:$factor, MaxSizedRegion<1>:$init,
    MaxSizedRegion<1>:$rotate_queries, MaxSizedRegion<1>:$rotate_keys);
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

    `shared` are states of rows that several batches have a part of the keys in
    common with, [parts, groups, hk, m, ..]: element [l, b] of `places` is n m + r
    where the rows of batch b are those from row r of group n on, head by head of
    those that read key head h, or negative where level l has nothing of the
    batch. They are multiplied behind the states of the batch, level by level;
    the monoid's combine commutes. `attn.share` makes such groups.

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
  let arguments = (ins
    Arg<FlatSymbolRefAttr, "The monoid of the states, a symbol of the module "
        "or a shipped name.">:$monoid,
    Arg<Variadic<Attn_FloatTensor>, "One tensor for each statistic, then one "
        "for each component, with the parts as first dimension.">:$states,
    Arg<Variadic<Attn_FloatTensor>, "The same of groups of batches, or none; "
        "goes with `places`.">:$shared,
    Arg<Optional<Attn_I32Table>, "Where the rows of each batch are in `shared`, "
        "[levels, b].">:$places,
    Arg<Variadic<F32>, "One scalar for each parameter of the monoid.">:$params);
  let results = (outs
    Res<Variadic<Attn_FloatTensor>, "The combined states in f32: shaped like "
        "`states`, but without the first dimension.">:$outputs);
  let assemblyFormat = [{
    $monoid `(` $states `:` type($states) `)`
    (`shared` `(` $shared^ `:` type($shared) `)` `at` `(` $places `:` type($places) `)`)?
    (`params` `(` $params^ `:` type($params) `)`)?
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
  let arguments = (ins
    Arg<FlatSymbolRefAttr, "The monoid of the states, a symbol of the module "
        "or a shipped name.">:$monoid,
    Arg<Variadic<Attn_FloatTensor>, "One f32 tensor for each statistic, [b, "
        "hq, sq], then one for each component, [b, hq, sq, dv] or for `unit` "
        "[b, hq, sq].">:$states,
    Arg<Variadic<F32>, "One scalar for each parameter of the monoid.">:$params,
    Arg<Variadic<Attn_Capture>, "Tensors and scalars that the region "
        "`finalize` takes as its last block arguments.">:$captures);
  let results = (outs
    Res<Variadic<Attn_FloatTensor>, "The values that `finalize` yields: [b, "
        "hq, sq, dv] per channel, [b, hq, sq] in f32 per row.">:$outputs);
  let regions = (region MaxSizedRegion<1>:$finalize);
  let assemblyFormat = [{
    $monoid `(` $states `:` type($states) `)` (`params` `(` $params^ `:` type($params) `)`)?
    (`captures` `(` $captures^ `:` type($captures) `)`)?
    attr-dict (`finalize` $finalize^)? `->` type($outputs)
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// FusedOp
//===----------------------------------------------------------------------===//

def Attn_YieldOp : Attn_Op<"yield", [
    Pure, Terminator, ReturnLike,
    ParentOneOf<["MonoidOp", "AttentionOp", "AggregateOp", "PartialOp",
                 "ScoresOp", "FinalizeOp", "ScanOp", "ScanPartialOp",
                 "FusedOp", "UnfoldOp"]>]> {
  let summary = "Ends a region with its values";
  let arguments = (ins
    Arg<Variadic<AnyType>, "The values of the region, as the enclosing "
        "operation asks for them.">:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

include "attn/Dialect/Attn/IR/AttnCacheOps.td"
include "attn/Dialect/Attn/IR/AttnFusedOp.td"
include "attn/Dialect/Attn/IR/AttnUnfoldOp.td"

#endif // ATTN_DIALECT_ATTN_IR_ATTNOPS_TD
