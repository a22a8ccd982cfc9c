//===- AttnScanOps.td - Scans with a carried state ---------*- tablegen -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTN_IR_ATTNSCANOPS_TD
#define ATTN_DIALECT_ATTN_IR_ATTNSCANOPS_TD

include "attn/Dialect/Attn/IR/AttnOpBase.td"

//===----------------------------------------------------------------------===//
// ScanOp
//===----------------------------------------------------------------------===//

def Attn_ScanOp : Attn_Op<"scan", [
    AttrSizedOperandSegments, MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Carries a matrix along the tokens and reads it at each";
  let description = [{
    For each sequence and state head a matrix S [dk, dv], `init` or 0, goes
    through the tokens t in order:

        S' = diag(exp(g_t)) S                       `decay`
        S  = S' + b_t (a_t^T S'') + w_t k_t v_t^T    `erase`, `weight`
        o_t = scale q_t^T S

    where S'' is S', or S before the decay with `erase_before`. A missing operand
    is the identity of its term. `delta(%beta)` is the delta rule, which is
    `erase` with a = k, b = -beta k, and beta v in the place of v. With
    `read_before` an output reads the state before its token, and
    `bonus(%u)` adds scale (q_t * u . k_t) v_t, as RWKV-6 has it. With `whole`
    each output reads the state after all tokens.

    - Shapes: q [b, hq, t, dk], k [b, hk, t, dk], v [b, hv, t, dv], or
      [h, total, d] with `cu_seqlens`. There are H = max(hk, hv) state heads,
      with `query_states` max(hq, hk, hv); hk and hv divide H, and hq divides H
      or is a multiple of it. The output has max(hq, H) heads; output head o
      reads state o H / max(hq, H).
    - `decay`: log gates [b, H, t], or [b, H, t, dk] for each key channel, or
      with `value_gates` [b, H, t, dv] for each value channel. -inf is a gate
      of 0.
    - `weight`: w [b, H, t]. `log_weight`: log w; S is then kept as S exp(-m),
      where m is the largest logarithm of a weight of any token so far, its
      decay included.
    - `delta`: beta [b, H, t]. `erase`: a, b [b, H, t, dk].
    - `init`: S f32 [n, H, dk, dv]; then z [n, H, dk] with `normalize`, and
      m [n, H] with `log_weight`.
    - `normalize`: outputs are divided by scale q_t^T z_t, where z is as S with
      values of 1; 0 where that is 0.
    - `feature` maps each element of q and k first; `l2norm` then divides rows
      of q and k by their norms, sqrt(sum x^2 + 1e-6).
    - `gate` makes a log gate from each element of `decay`, and of its captures:
      [H], or [H, d] where gates are of d channels. Mamba-2's and gated delta's
      is -exp(A) softplus(x + bias).
    - `finalize` makes an output from each element of o, and of its captures: with
      Ho heads of outputs [Ho], [Ho, dv], or as the outputs are.
    - `values_first`: matrices of states, in `init`, `final` and `slots`, are
      [n, H, dv, dk].
    - `lengths`: [b]: tokens at or beyond a batch's length do nothing, whatever
      their operands hold, and their outputs are 0.
    - `slots(%pool) index(%index)`: sequence i begins with the state
      pool[index[i]] and leaves its last one there. An index of -1: it begins
      with 0, and leaves none. Without an index it is state i. The S of a pool
      may be bf16 or f16, to which the last one is rounded.
    - Results: the outputs, and with `final` the last states as in `init`.

    With `segments` the tokens of a sequence are cut into so many, each with a
    block of its own: what they are is computed first, and then each begins with
    what those before it make of the first state. That is for few heads with many
    tokens, and a third more work.

    A chunk of tokens is computed at once; that changes rounding alone. What
    non-finite tokens do to others of their chunk is not specified.

    Example:

    ```mlir
    func.func @gla(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
                   %v: tensor<?x?x?x128xbf16>, %g: tensor<?x?x?x128xf32>,
                   %s0: tensor<?x?x128x128xf32>)
        -> (tensor<?x?x?x128xbf16>, tensor<?x?x128x128xf32>) {
      %o, %s = attn.scan queries(%q : tensor<?x?x?x128xbf16>)
          keys(%k : tensor<?x?x?x128xbf16>) values(%v : tensor<?x?x?x128xbf16>)
          decay(%g : tensor<?x?x?x128xf32>) init(%s0 : tensor<?x?x128x128xf32>)
          {final} -> tensor<?x?x?x128xbf16>, tensor<?x?x128x128xf32>
      return %o, %s : tensor<?x?x?x128xbf16>, tensor<?x?x128x128xf32>
    }
    ```
  }];
  let arguments = (ins
    Arg<Attn_FloatTensor, "The queries: [b, hq, t, dk], or with `cu` [hq, "
        "total, dk].">:$query,
    Arg<Attn_FloatTensor, "The keys: [b, hk, t, dk], or with `cu` [hk, total, "
        "dk].">:$key,
    Arg<Attn_FloatTensor, "The values: [b, hv, t, dv], or with `cu` [hv, "
        "total, dv].">:$value,
    Arg<Optional<F32>, "Factor of the outputs; 1 if absent.">:$scale,
    Arg<Optional<Attn_FloatTensor>, "Logarithms of gates, [b, H, t], or [b, H, "
        "t, dk] for each key channel, [b, H, t, dv] with `value_gates`; "
        "nothing decays if absent.">:$decay,
    Arg<Optional<Attn_FloatTensor>, "Factor of what a token writes, [b, H, t]; "
        "1 if absent.">:$weight,
    Arg<Optional<Attn_FloatTensor>, "Logarithm of that factor, [b, H, t], for "
        "weights of any size; excludes `weight`.">:$log_weight,
    Arg<Optional<Attn_FloatTensor>, "Factor beta of the delta rule, [b, H, t]; "
        "excludes `erase_a`.">:$delta,
    Arg<Optional<Attn_FloatTensor>, "Vector a of the term b (a^T S) of each "
        "token, [b, H, t, dk]; goes with `erase_b`.">:$erase_a,
    Arg<Optional<Attn_FloatTensor>, "Vector b of that term, [b, H, t, "
        "dk].">:$erase_b,
    Arg<Optional<Attn_FloatTensor>, "Vector u, [H, dk], by which a token reads "
        "its own key and value; goes with `read_before`.">:$bonus,
    Arg<Variadic<TensorOf<[F32]>>, "States before the first token: S [n, H, "
        "dk, dv], with `normalize` z [n, H, dk], with `log_weight` m [n, H]; "
        "empty states if absent.">:$init,
    Arg<Optional<Attn_I32Vec>, "First token of each packed sequence, and the "
        "end of the last one: [n + 1]; tokens are not packed if absent.">:$cu,
    Arg<Optional<Attn_I32Vec>, "Tokens of each batch, [b], brought into [0, "
        "t]: those behind them neither write nor decay, and their outputs are "
        "0; all t if absent.">:$lengths,
    Arg<Variadic<Attn_FloatTensor>, "States, like those of `init`, that "
        "sequences begin with and leave theirs in; they are arguments of the "
        "function. S may have 16 bits.">:$pool,
    Arg<Optional<Attn_I32Vec>, "Which state of the pool each sequence has, "
        "[n]; -1 is none; i of sequence i if absent.">:$slot,
    Arg<Variadic<Attn_FloatTensor>, "What `gate` takes beside an element of "
        "`decay`: [H], or [H, d] where gates are of d channels.">:$gate_captures,
    Arg<Variadic<Attn_FloatTensor>, "What `finalize` takes beside an element of "
        "the outputs: [Ho], [Ho, dv], or one for each of "
        "them.">:$finalize_captures,
    Arg<UnitAttr, "Gates of `decay` are of value channels.">:$value_gates,
    Arg<UnitAttr, "The erase term reads the state before its "
        "decay.">:$erase_before,
    Arg<UnitAttr, "An output reads the state before its token.">:$read_before,
    Arg<UnitAttr, "Each output reads the state after all tokens.">:$whole,
    Arg<UnitAttr, "Outputs are divided by scale q^T z, the sum of their "
        "weights; 0 where that is 0.">:$normalize,
    Arg<UnitAttr, "Rows of queries and keys are divided by their norms, after "
        "`feature`.">:$l2norm,
    Arg<UnitAttr, "The last states are results as well.">:$final,
    Arg<UnitAttr, "Matrices of states have value channels first, [n, H, dv, "
        "dk].">:$values_first,
    Arg<UnitAttr, "Each head of queries has a state of its own: H = max(hq, hk, "
        "hv).">:$query_states,
    Arg<OptionalAttr<I64Attr>, "Number of tokens that are computed at once, 1 "
        "or a power of two from 16 to 128; if absent, `attn-tile` chooses "
        "it.">:$chunk,
    Arg<OptionalAttr<I64Attr>, "How many parts the tokens of a sequence are cut "
        "into, on CPUs; one if absent.">:$segments);
  let results = (outs
    Res<Variadic<Attn_FloatTensor>, "The outputs, shaped like the values, but "
        "with max(hq, H) heads; with `final` then the last states, shaped like "
        "`init`.">:$outputs);
  let regions = (region MaxSizedRegion<1>:$feature, MaxSizedRegion<1>:$gate,
    MaxSizedRegion<1>:$finalize);
  let assemblyFormat = [{
    `queries` `(` $query `:` type($query) `)` `keys` `(` $key `:` type($key) `)`
    `values` `(` $value `:` type($value) `)` (`scale` `(` $scale^ `)`)?
    (`decay` `(` $decay^ `:` type($decay) `)`)?
    (`weight` `(` $weight^ `:` type($weight) `)`)?
    (`log_weight` `(` $log_weight^ `:` type($log_weight) `)`)?
    (`delta` `(` $delta^ `:` type($delta) `)`)?
    (`erase` `(` $erase_a^ `,` $erase_b `:` type($erase_a) `,` type($erase_b) `)`)?
    (`bonus` `(` $bonus^ `:` type($bonus) `)`)?
    (`init` `(` $init^ `:` type($init) `)`)?
    (`cu_seqlens` `(` $cu^ `:` type($cu) `)`)?
    (`lengths` `(` $lengths^ `:` type($lengths) `)`)?
    (`slots` `(` $pool^ `:` type($pool) `)`)? (`index` `(` $slot^ `:` type($slot) `)`)?
    attr-dict (`feature` $feature^)?
    (`gate` (`(` $gate_captures^ `:` type($gate_captures) `)`)? $gate^)?
    (`finalize` (`(` $finalize_captures^ `:` type($finalize_captures) `)`)? $finalize^)?
    `->` type($outputs)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// S, and what is kept beside it.
    unsigned getNumStates() {
      return 1 + getNormalize() + static_cast<bool>(getLogWeight());
    }
    int64_t getKeyChannels();
    int64_t getValueChannels();
    /// Whether `decay` has gates for channels.
    bool hasChannelGates();
    bool isPacked() { return static_cast<bool>(getCu()); }
  }];
}

//===----------------------------------------------------------------------===//
// ScanPartialOp, ScanCombineOp
//===----------------------------------------------------------------------===//

def Attn_ScanPartialOp : Attn_Op<"scan_partial", [
    AttrSizedOperandSegments, Pure]> {
  let summary = "What parts of the tokens of a scan do to its state";
  let description = [{
    A part of the tokens of an `attn.scan` is a map of the state, S becomes
    A S + B. Of `splits` parts of ceil(t / splits) tokens each, the last of them
    shorter or empty, these are B, as the scan would leave it from an empty state
    (S [splits, b, H, dk, dv], then z with `normalize` and m with `log_weight`),
    and behind it A, in what it differs from 1:

    | tokens have            | A                                             |
    |---|---|
    | nothing of these       | no result                                     |
    | gates of heads         | [splits, b, H], a product of gates            |
    | gates of channels      | [splits, b, H, dk], or of `value_gates` dv    |
    | `log_weight` and gates | [splits, b, H], the logarithm of the product  |
    | `delta` or `erase`     | the matrix, [splits, b, H, dk, dk]            |

    `attn.scan_combine` multiplies them, and `attn.scan` takes the states that it
    makes as `init`. So the tokens of a sequence may be in several calls, or on
    several devices. Operands are those of `attn.scan`.

    On CPUs.

    Example:

    ```mlir
    func.func @parts(%k: tensor<?x?x?x128xf32>, %v: tensor<?x?x?x128xf32>,
                     %g: tensor<?x?x?xf32>, %b: tensor<?x?x?xf32>)
        -> (tensor<4x?x?x128x128xf32>, tensor<4x?x?x128x128xf32>) {
      %s, %a = attn.scan_partial keys(%k : tensor<?x?x?x128xf32>)
          values(%v : tensor<?x?x?x128xf32>) decay(%g : tensor<?x?x?xf32>)
          delta(%b : tensor<?x?x?xf32>) {splits = 4}
          -> tensor<4x?x?x128x128xf32>, tensor<4x?x?x128x128xf32>
      return %s, %a : tensor<4x?x?x128x128xf32>, tensor<4x?x?x128x128xf32>
    }
    ```
  }];
  let arguments = (ins
    Arg<Attn_FloatTensor, "The keys: [b, hk, t, dk].">:$key,
    Arg<Attn_FloatTensor, "The values: [b, hv, t, dv].">:$value,
    Arg<Optional<Attn_FloatTensor>, "Logarithms of gates, as in "
        "`attn.scan`.">:$decay,
    Arg<Optional<Attn_FloatTensor>, "Factor of what a token writes, [b, H, "
        "t].">:$weight,
    Arg<Optional<Attn_FloatTensor>, "Logarithm of that factor, [b, H, t]; "
        "excludes `weight`.">:$log_weight,
    Arg<Optional<Attn_FloatTensor>, "Factor beta of the delta rule, [b, H, t]; "
        "excludes `erase_a`.">:$delta,
    Arg<Optional<Attn_FloatTensor>, "Vector a of the term b (a^T S) of each "
        "token, [b, H, t, dk].">:$erase_a,
    Arg<Optional<Attn_FloatTensor>, "Vector b of that term, [b, H, t, "
        "dk].">:$erase_b,
    Arg<Optional<Attn_I32Vec>, "Tokens of each batch, [b], brought into [0, "
        "t]; all t if absent.">:$lengths,
    Arg<Variadic<Attn_FloatTensor>, "What `gate` takes beside an element of "
        "`decay`: [H], or [H, d] where gates are of d channels.">:$gate_captures,
    Arg<UnitAttr, "Gates of `decay` are of value channels.">:$value_gates,
    Arg<UnitAttr, "The erase term reads the state before its "
        "decay.">:$erase_before,
    Arg<UnitAttr, "Whether there is a z.">:$normalize,
    Arg<UnitAttr, "Rows of keys are divided by their norms, after "
        "`feature`.">:$l2norm,
    Arg<ConfinedAttr<I64Attr, [IntPositive]>, "Number of parts.">:$splits,
    Arg<OptionalAttr<I64Attr>, "Number of tokens that are computed at once, as "
        "in `attn.scan`.">:$chunk);
  let results = (outs
    Res<Variadic<Attn_FloatTensor>, "The states that the parts leave, then what "
        "they do to one, in f32, with the parts as first "
        "dimension.">:$outputs);
  let regions = (region MaxSizedRegion<1>:$feature, MaxSizedRegion<1>:$gate);
  let assemblyFormat = [{
    `keys` `(` $key `:` type($key) `)` `values` `(` $value `:` type($value) `)`
    (`decay` `(` $decay^ `:` type($decay) `)`)?
    (`weight` `(` $weight^ `:` type($weight) `)`)?
    (`log_weight` `(` $log_weight^ `:` type($log_weight) `)`)?
    (`delta` `(` $delta^ `:` type($delta) `)`)?
    (`erase` `(` $erase_a^ `,` $erase_b `:` type($erase_a) `,` type($erase_b) `)`)?
    (`lengths` `(` $lengths^ `:` type($lengths) `)`)?
    attr-dict (`feature` $feature^)?
    (`gate` (`(` $gate_captures^ `:` type($gate_captures) `)`)? $gate^)?
    `->` type($outputs)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// S, and what is kept beside it.
    unsigned getNumStates() {
      return 1 + getNormalize() + static_cast<bool>(getLogWeight());
    }
    int64_t getKeyChannels();
    int64_t getValueChannels();
    /// Whether `decay` has gates for channels.
    bool hasChannelGates();
    bool isErasing() { return getDelta() || getEraseA(); }
    /// A scan of the same tokens, which keys stand in for queries of. Nothing
    /// uses it.
    ScanOp makeScan(OpBuilder &builder);
    /// Whether the parts do anything to a state but to add to it.
    bool hasMaps() { return getDecay() || isErasing(); }
  }];
}

def Attn_ScanCombineOp : Attn_Op<"scan_combine", [
    AttrSizedOperandSegments, Pure]> {
  let summary = "Multiplies parts of a scan in order, or applies them to a state";
  let description = [{
    Takes what `attn.scan_partial` says of parts of the tokens, with the parts as
    first dimension: their states, S, z with `normalize`, m with `log_weight`, and
    `maps` of what they do to a state. The product of two parts, the first one
    leftmost, is

        (A1, B1) (A2, B2) = (A2 A1, A2 B1 + B2)

    With `init` the parts are applied to that state, [n, H, dk, dv], [n, H, dk] and
    [n, H]: the results are the states behind all parts. Without it they are the
    states and maps of their product. With `prefixes` results have a first
    dimension of parts again, and are those of the first part, of the first two,
    and so on.

    On CPUs.

    Example:

    ```mlir
    func.func @behind(%s: tensor<4x?x?x128x128xf32>, %a: tensor<4x?x?x128x128xf32>,
                      %first: tensor<?x?x128x128xf32>) -> tensor<?x?x128x128xf32> {
      %last = attn.scan_combine(%s : tensor<4x?x?x128x128xf32>)
          maps(%a : tensor<4x?x?x128x128xf32>)
          init(%first : tensor<?x?x128x128xf32>) -> tensor<?x?x128x128xf32>
      return %last : tensor<?x?x128x128xf32>
    }
    ```
  }];
  let arguments = (ins
    Arg<Variadic<TensorOf<[F32]>>, "The states of the parts: S [parts, n, H, "
        "dk, dv], with `normalize` z [parts, n, H, dk], with `log_weight` m "
        "[parts, n, H].">:$states,
    Arg<Optional<TensorOf<[F32]>>, "What the parts do to a state: [parts, n, "
        "H], with channels behind it, or [parts, n, H, dk, dk]; nothing if "
        "absent.">:$maps,
    Arg<Variadic<TensorOf<[F32]>>, "A state that the parts are applied "
        "to.">:$init,
    Arg<UnitAttr, "The channels of `maps` are those of values.">:$value_gates,
    Arg<UnitAttr, "Whether there is a z.">:$normalize,
    Arg<UnitAttr, "Whether there is an m, and `maps` are "
        "logarithms.">:$log_weight,
    Arg<UnitAttr, "The results of each part and those before it.">:$prefixes);
  let results = (outs
    Res<Variadic<Attn_FloatTensor>, "The states in f32; without `init` then the "
        "maps.">:$outputs);
  let assemblyFormat = [{
    `(` $states `:` type($states) `)` (`maps` `(` $maps^ `:` type($maps) `)`)?
    (`init` `(` $init^ `:` type($init) `)`)? attr-dict `->` type($outputs)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    unsigned getNumStates() { return 1 + getNormalize() + getLogWeight(); }
    int64_t getKeyChannels();
    int64_t getValueChannels();
    /// Whether maps are matrices.
    bool hasMatrices();
    /// Whether maps have a number for each channel.
    bool hasChannels();
  }];
}

#endif // ATTN_DIALECT_ATTN_IR_ATTNSCANOPS_TD
