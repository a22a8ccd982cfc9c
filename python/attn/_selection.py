"""The keys of each row whose scores are the largest.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import functools
from typing import Any, Tuple

from . import _arrays as arrays
from . import _checks as checks
from ._attention import attention
from ._checks import fail as _fail

# Key numbers are float32 in a state, exact up to here.
_MOST_KEYS = 1 << 24
_MOST_COUNT = 32


def _select(lines: list, condition: str, yes: str, no: str, name: str) -> str:
    lines.append("%s = arith.select %s, %s, %s : f32" % (name, condition, yes, no))
    return name


def _insertions(count: int) -> Tuple[list, list]:
    """Lines that insert b's keys into a's, and the names of what there is then.

    The n-th of b is in no place before the n-th. Comparisons do not wait for each
    other, and those of keys that are not there fold away: lift has one. The first is
    not asked whether it is there: its score is in no list's way where it is not.
    """
    lines: list = []
    have = [("%%as%d" % i, "%%ap%d" % i) for i in range(count)]
    for n in range(count):
        score, place = "%%bs%d" % n, "%%bp%d" % n
        there = "%%t%d" % n
        if n:
            lines.append("%s = arith.cmpf oge, %s, %%zero : f32" % (there, place))
        larger = {}
        for at in range(n, count):
            larger[at] = greater = "%%l%d_%d" % (n, at)
            if n:
                greater = "%%g%d_%d" % (n, at)
            lines.append("%s = arith.cmpf ogt, %s, %s : f32"
                         % (greater, score, have[at][0]))
            if n:
                lines.append("%s = arith.andi %s, %s : i1"
                             % (larger[at], there, greater))
        after = list(have)
        for at in range(n, count):
            new = score, place
            if at > n:
                new = tuple(
                    _select(lines, larger[at - 1], have[at - 1][x], new[x],
                            "%%m%d_%d_%d" % (n, at, x)) for x in (0, 1))
            after[at] = tuple(
                _select(lines, larger[at], new[x], have[at][x],
                        "%%n%d_%d_%d" % (n, at, x)) for x in (0, 1))
        have = after
    return lines, have


@functools.lru_cache(maxsize=None)
def _monoid(count: int) -> str:
    """The `count` largest scores and their keys; the earlier one of equal ones.

    A place that no key has yet is -3.40282347e+38 and the key -1. A key that a bias of
    finfo.min leaves such a score is there all the same: one ulp above.
    Keys that are dead are not lifted.
    """
    names = ["%s%d" % (x, i) for i in range(count) for x in "sp"]
    types = ", ".join(["f32"] * len(names))
    lines, have = _insertions(count)

    def arguments(prefix: str) -> str:
        return ", ".join("%%%s%s: f32" % (prefix, x) for x in names)

    constants = ("%none = arith.constant -3.40282347e+38 : f32 "
                 "%no = arith.constant -1.0 : f32 %zero = arith.constant 0.0 : f32 "
                 "%inf = arith.constant 0xFF800000 : f32 "
                 "%least = arith.constant -3.40282326e+38 : f32")
    rows = []
    for i in range(count):
        rows.append("%%e%d = arith.cmpf olt, %%fp%d, %%zero : f32 "
                    "%%r%d = arith.select %%e%d, %%inf, %%fs%d : f32"
                    % (i, i, i, i, i))
    return """attn.monoid @top_keys general stats(%s) components(unit) outputs(%s) {
  identity { %s attn.yield %s, %%zero : %s, f32 }
  combine { ^bb0(%s, %%x: f32, %s, %%y: f32):
    %%zero = arith.constant 0.0 : f32
    %s
    attn.yield %s, %%x : %s, f32 }
  lift { ^bb0(%%s: f32, %%j: i32): %s
    %%place = arith.sitofp %%j : i32 to f32
    %%score = arith.maximumf %%s, %%least : f32
    attn.yield %s, %%zero : %s, f32 }
  finalize { ^bb0(%s, %%x: f32):
    %%zero = arith.constant 0.0 : f32 %%inf = arith.constant 0xFF800000 : f32
    %s
    attn.yield %s : %s }
}""" % (
        types, ", ".join('"%s"' % x for x in names),
        constants, ", ".join(["%none, %no"] * count), types,
        arguments("a"), arguments("b"), "\n    ".join(lines),
        ", ".join(x for pair in have for x in pair), types,
        constants, ", ".join(["%score, %place"] + ["%none, %no"] * (count - 1)), types,
        arguments("f"), "\n    ".join(rows),
        ", ".join("%%r%d, %%fp%d" % (i, i) for i in range(count)), types,
    )


def _stack(parts: list) -> Any:
    if arrays.is_torch(parts[0]):
        return arrays.torch_module().stack(parts, -1)
    if hasattr(parts[0], "__array_namespace__"):  # JAX's, traced or not
        return parts[0].__array_namespace__().stack(parts, axis=-1)
    import numpy

    return numpy.stack(parts, -1)


def top_keys(q: Any, k: Any, count: int, **options: Any) -> Tuple[Any, Any]:
    """The `count` keys of each row that have the largest scores.

    Args:
        q: queries, [b, hq, sq, d], or packed [hq, total, d], as for `attention`.
        k: keys, [b, hk, sk, d], fewer than 2^24 of them.
        count: how many, from 1 to 32.
        options: those of `attention` that say what a score is and which keys a row
            sees (`causal`, `window`, `mask`, `score_mod`, `kv_lengths`, ...).

    Returns:
        (scores, keys), each [b, hq, sq, count]: float32, largest first, and int32, the
        earlier key of equal scores first. What a row has no key for is -inf and -1.
        Scores of finfo.min count as the next larger number; those of NaN are passed
        over, as is every key of a query that holds one.

    The kernel compares the keys of a tile with a row's last score, and looks at those
    alone that are above it (docs/Masks.md, "Selections").
    """
    count = checks.integer("count", count, 1, _MOST_COUNT)
    # Of any strides and with any gradient; attention says what else does not fit.
    if max(getattr(k, "shape", ()), default=0) >= _MOST_KEYS:
        _fail("fewer than %d keys" % _MOST_KEYS, arrays.describe(k))
    for name in ("monoid", "return_aux", "return_lse", "out"):
        if name in options:
            _fail("no option of outputs for top_keys", repr(name))
    names = ["%s%d" % (x, i) for i in range(count) for x in "sp"]
    first, more = attention(q, k, None, monoid=_monoid(count), return_aux=names[1:],
                            **options)
    more["s0"] = first
    scores = _stack([more["s%d" % i] for i in range(count)])
    keys = _stack([more["p%d" % i] for i in range(count)])
    keys = keys.int() if arrays.is_torch(keys) else keys.astype("int32")
    return scores, keys
