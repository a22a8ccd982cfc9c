"""attn.prefix_states: what a monoid makes of every prefix of the tokens.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

from typing import Any, Sequence

from . import _arrays as arrays
from ._attention import attention
from ._operands import fail as _fail
from ._scans import as_own
from ._states import merge_states

# Tokens that are read together; those before them are one state.
_BLOCK = 256


def prefix_states(
    scores: Any,
    v: Any,
    *,
    monoid: str = "softmax",
    every: int = 1,
    monoid_params: Sequence[float] = (),
) -> Any:
    """The outputs of a monoid for the first n tokens, for every n or every `every`-th.

    With the default, softmax, output t is the average of the values up to token t,
    weighted by exp(score): attention with one query for all tokens (Aaren, RWKV-4).

    Args:
        scores: float32 [b, h, t]; v: [b, hk, t, dv], of float32.
        monoid: a shipped name or MLIR text, as in attn.attention. Softmax takes time
            linear in the tokens; others quadratic.
        every: n; output i is that of the first n (i + 1) tokens.
        monoid_params: as in attn.attention.
    Returns:
        o [b, h, t // every, dv]; with softmax (o, lse), lse [b, h, t // every].
    """
    if isinstance(every, bool) or not hasattr(every, "__index__") or every < 1:
        _fail("every to be an integer of 1 or more", repr(every), TypeError)
    scores = as_own("scores", scores, v)
    arrays.view("v", v)
    if len(scores.shape) != 3 or len(v.shape) != 4:
        _fail(
            "scores [b, h, t] and v [b, h, t, dv]",
            "%d and %d dimensions" % (len(scores.shape), len(v.shape)),
        )
    if scores.shape[0] != v.shape[0] or scores.shape[2] != v.shape[2]:
        _fail(
            "scores and v of the same batches and tokens",
            "%s and %s" % (list(scores.shape), list(v.shape)),
        )
    if v.shape[1] and scores.shape[1] % v.shape[1]:
        _fail(
            "heads of scores to be a multiple of those of v",
            "%d and %d" % (scores.shape[1], v.shape[1]),
        )
    # A query of 1 for every token, whose dot with a key is the key's score.
    keys = scores[:, :, :, None]
    if v.shape[1] != scores.shape[1]:
        group = scores.shape[1] // max(v.shape[1], 1)
        v = v.repeat_interleave(group, 1) if arrays.is_torch(v) else v.repeat(group, 1)
    ones = _ones_like(keys)
    if monoid != "softmax":
        o = attention(
            ones,
            keys,
            v,
            scale=1.0,
            causal="top_left",
            monoid=monoid,
            monoid_params=monoid_params,
        )
        return o[:, :, every - 1 :: every]
    parts, before = [], None
    for first in range(0, max(keys.shape[2], 1), _BLOCK):
        some = (slice(None), slice(None), slice(first, first + _BLOCK))
        o, lse = attention(
            ones[some],
            keys[some],
            v[some],
            scale=1.0,
            causal="top_left",
            return_lse=True,
        )
        if before is not None:
            count = o.shape[2]
            o, lse = merge_states(
                _repeat(before[0], count), _repeat(before[1], count), o, lse
            )
        if o.shape[2]:
            before = o[:, :, -1:], lse[:, :, -1:]
        parts.append((o, lse))
    o, lse = (_concatenate([part[i] for part in parts]) for i in (0, 1))
    return o[:, :, every - 1 :: every], lse[:, :, every - 1 :: every]


def _ones_like(x):
    if arrays.is_torch(x):
        return arrays.torch_module().ones_like(x)
    import numpy

    return numpy.ones_like(x)


def _repeat(x, count):
    return x.repeat_interleave(count, 2) if arrays.is_torch(x) else x.repeat(count, 2)


def _concatenate(values):
    if arrays.is_torch(values[0]):
        return arrays.torch_module().cat(values, 2)
    import numpy

    return numpy.concatenate(values, 2)
