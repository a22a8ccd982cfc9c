//===- AttnUnfoldOp.td - Key by key, and back --------------*- tablegen -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTN_IR_ATTNUNFOLDOP_TD
#define ATTN_DIALECT_ATTN_IR_ATTNUNFOLDOP_TD

include "attn/Dialect/Attn/IR/AttnOpBase.td"

def Attn_UnfoldOp : Attn_Op<"unfold", [AttrSizedOperandSegments, Pure]> {
  let summary = "Takes states key by key through a block, and cotangents back";
  let description = [{
    What a general monoid's gradient is made of. Each row has a state: numbers of
    the row, and numbers of each channel. `step` takes it from key to key of a
    block, in order; a key all of whose scores are -inf is passed over. The keys
    are those from `first` on, of `keys` in all; rows begin with `identity` where
    `first` is 0, else with `states`.

    With `behind` the cotangents of the last state go back through the steps:
    `back_rows` and `back_channels` map the cotangents of the state behind a key to
    those of what `step` took, each state being computed again. Their results are
    added: what `back_channels` has for scores and for numbers of the row is a
    channel's part, and the sum over the channels is theirs; values have the sum
    over the rows, and over the query heads that read them. Behind the last key of
    all, `finish_rows` and `finish_channels` make the cotangents from `outs`, those
    of results for rows and for channels, likewise; `behind` is not read then.

    | region | takes | yields |
    |---|---|---|
    | `identity` | | state |
    | `step` | scores, values, j, state | state |
    | `back_rows` | scores, j, numbers of the row and their cotangents | of scores, of numbers of the row |
    | `back_channels` | scores, values, j, state, cotangents of the channels' numbers | of scores, of values, of the state |
    | `finish_rows` | numbers of the row, `outs` of rows | of numbers of the row |
    | `finish_channels` | state, `outs` of channels | of the state |

    All take `params` last; j is the key's position (i32), all others f32. Results:
    without `behind` the state behind the block; with it the cotangents of scores,
    f32 [b, hq, sq, n], then of values, f32 [b, hk, n, dv], then of the state ahead
    of the block.

    A block's states are kept while it runs, for a few rows at a time. CPUs have
    a kernel for it, whose work items are the key heads.

    Example: the largest sum of a score and a value, and its gradient, are in
    test/Dialect/Attn/unfold.mlir.
  }];
  let arguments = (ins
    Arg<Variadic<TensorOf<[F32]>>, "For each score that the monoid takes, "
        "[b, hq, sq, n] or more keys; -inf where a key is dead.">:$scores,
    Arg<Variadic<Attn_FloatTensor>, "Values of the keys, each [b, hk, n, "
        "dv].">:$values,
    Arg<Variadic<TensorOf<[F32]>>, "The state ahead of the block: numbers of "
        "rows, [b, hq, sq], then of channels, [b, hq, sq, dv].">:$states,
    Arg<Variadic<TensorOf<[F32]>>, "The cotangents of the state behind the "
        "block, or none.">:$behind,
    Arg<Variadic<Attn_FloatTensor>, "Cotangents of results: for rows, [b, hq, "
        "sq], then for channels, [b, hq, sq, dv].">:$outs,
    Arg<I32, "Number of the first key, from 0.">:$first,
    Arg<I32, "How many keys there are in all.">:$keys,
    Arg<Variadic<F32>, "What regions take last.">:$params);
  let results = (outs
    Res<Variadic<TensorOf<[F32]>>, "The state behind the block, or "
        "cotangents.">:$outputs);
  let regions = (region
    SizedRegion<1>:$identity, SizedRegion<1>:$step,
    MaxSizedRegion<1>:$back_rows, MaxSizedRegion<1>:$back_channels,
    MaxSizedRegion<1>:$finish_rows, MaxSizedRegion<1>:$finish_channels);
  let assemblyFormat = [{
    `scores` `(` $scores `:` type($scores) `)`
    (`values` `(` $values^ `:` type($values) `)`)?
    `states` `(` $states `:` type($states) `)`
    (`behind` `(` $behind^ `:` type($behind) `)`)?
    (`outs` `(` $outs^ `:` type($outs) `)`)?
    `from` $first `of` $keys (`params` `(` $params^ `:` type($params) `)`)?
    attr-dict-with-keyword `identity` $identity `step` $step
    (`back_rows` $back_rows^ `back_channels` $back_channels
     `finish_rows` $finish_rows `finish_channels` $finish_channels)?
    `->` type($outputs)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// How many numbers of a state rows have; the others are of channels.
    unsigned getNumRowStates();
    /// How many of `outs` are of rows.
    unsigned getNumRowOuts();
    bool goesBack() { return !getBehind().empty(); }
  }];
}

#endif // ATTN_DIALECT_ATTN_IR_ATTNUNFOLDOP_TD
