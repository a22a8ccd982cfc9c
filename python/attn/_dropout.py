"""Which pairs of a query and a key dropout drops.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import operator
from typing import Any, Tuple

from . import _checks as checks
from ._checks import fail as _fail

# The inputs of a kernel behind dropout_p.
WORDS = tuple(
    "dropout_%s_%s" % (word, half)
    for word in ("seed", "offset")
    for half in ("low", "high")
)
_KEY_STEPS = 0x9E3779B9, 0xBB67AE85
_FACTORS = 0xD2511F53, 0xCD9E8D57
_WORD = 0xFFFFFFFF


def _check_share(p):
    p = checks.number("dropout_p", p, "a number between 0 and 1")
    if not 0.0 <= p <= 1.0:
        _fail("dropout_p between 0 and 1", p)
    return p


def numbers_of(rng):
    """Seed and offset, of 64 bits, without a sign."""
    what = "dropout_rng to be (seed, offset), two integers"
    try:
        numbers = [operator.index(number) for number in rng]
    except TypeError:
        _fail(what, checks.shown(rng), TypeError)
    if len(numbers) != 2:
        _fail(what, "%d numbers" % len(numbers))
    for number in numbers:
        if not -(2**63) <= number < 2**64:
            _fail("seed and offset of dropout_rng to have 64 bits", number)
    return [number % 2**64 for number in numbers]


def fail_without_rng():
    _fail(
        "dropout_rng=(seed, offset) with dropout_p > 0",
        "None; draw a seed once, and count the offset up from call to call",
    )


def words_of(p, rng):
    """What a kernel takes behind dropout_p, four int32; None for no dropout."""
    p = _check_share(p)
    numbers = None if rng is None else numbers_of(rng)
    if p == 0.0:
        return None
    if numbers is None:
        fail_without_rng()
    words = [word for number in numbers for word in (number & _WORD, number >> 32)]
    return [word - 2**32 if word >= 2**31 else word for word in words]


def philox(counter, key):
    """Philox-4x32-10: four words of four, by a key of two. Words are integers, or
    arrays of NumPy's uint64 that broadcast."""
    x0, x1, x2, x3 = counter
    k0, k1 = key
    for _ in range(10):
        a, b = x0 * _FACTORS[0], x2 * _FACTORS[1]
        x0, x1, x2, x3 = b >> 32 ^ x1 ^ k0, b & _WORD, a >> 32 ^ x3 ^ k1, a & _WORD
        k0, k1 = (k0 + _KEY_STEPS[0]) & _WORD, (k1 + _KEY_STEPS[1]) & _WORD
    return x0, x1, x2, x3


def dropout_mask(
    rng: Tuple[int, int], p: float, b: int, h: int, sq: int, sk: int
) -> Any:
    """The pairs that attn.attention keeps with dropout_p=p and dropout_rng=rng.

    Args:
        rng: (seed, offset), as attn.attention takes them.
        p: the share of pairs that are dropped, between 0 and 1.
        b, h, sq, sk: the sizes of the mask. A pair is dropped or not whatever
            these are: of packed sequences b counts sequences, and positions count
            within each; key 0 is the first key of the call, whatever k_start is.

    Returns:
        A NumPy array of bool, [b, h, sq, sk]: True where a pair is kept. The
        output is made of its probability divided by 1 - p there, and of 0
        elsewhere.

    Raises:
        ValueError: p or the sizes are out of range.
        TypeError: rng or the sizes are no integers.
    """
    import numpy as np

    p, (seed, offset) = _check_share(p), numbers_of(rng)
    b, h, sq, sk = (
        checks.integer(name, size, 0, 2**31 - 1)
        for name, size in (("b", b), ("h", h), ("sq", sq), ("sk", sk))
    )
    if p == 0.0 or p == 1.0:
        return np.full((b, h, sq, sk), p == 0.0)
    # As compiled code has it, of float32.
    threshold = int(float(np.float32(p)) * 2**32)
    threshold = min(threshold, _WORD)
    if np.float32(p) >= 1.0:
        return np.zeros((b, h, sq, sk), dtype=bool)
    groups = -(-sk // 64)
    blocks = np.arange(groups * 16, dtype=np.uint64)
    rows = np.arange(sq, dtype=np.uint64)[:, None]
    mask = np.empty((b, h, sq, sk), dtype=bool)
    state = seed & _WORD, seed >> 32
    for batch in range(b):
        for head in range(h):
            start = (offset & _WORD, offset >> 32, batch, head)
            of_head = [np.uint64(word) for word in philox(start, state)]
            words = philox((blocks, rows, *of_head[2:]), of_head[:2])
            # [sq, groups, word, key of 16]: the keys of a group in order.
            words = [np.broadcast_to(word, (sq, groups * 16)) for word in words]
            words = [word.reshape(sq, groups, 1, 16) for word in words]
            words = np.concatenate(words, axis=2).reshape(sq, groups * 64)
            mask[batch, head] = words[:, :sk] >= threshold
    return mask
