# RUN: %python %s
# RUN: %python %s emulator:sm_90a
# RUN: %python %s emulator:sm_80
"""attn.top_keys beside a sort in float64: ties, rows of few keys, masks, groups of
heads, parts of the keys, and what is refused.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import sys

import numpy as np

import attn
from attn import _selection

emulated = sys.argv[1] if len(sys.argv) > 1 else None
rng = np.random.default_rng()
seed = int(rng.integers(1 << 30))
print("seed", seed)
rng = np.random.default_rng(seed)


def top_keys(q, k, count, **more):
    """attn.top_keys, or the same call of a kernel for an emulated GPU."""
    if not emulated:
        return attn.top_keys(q, k, count, **more)
    names = ["%s%d" % (x, i) for i in range(count) for x in "sp"]
    kernel = attn.compile(q, k, None, monoid=_selection._monoid(count),
                          return_aux=names[1:], target=emulated, **more)
    bias = [more["bias"]] if "bias" in more else []
    results = np.stack(kernel(q, k, *bias), -1)
    return results[..., 0::2], results[..., 1::2].astype("i4")


def check_path():
    """Keys are compared side by side, and are not folded one by one."""
    x = np.zeros((1, 1, 64, 64), "f4")
    for count in (1, 2, 8):
        kernel = attn.compile(x, x, None, monoid=_selection._monoid(count))
        assert "threshold in state %d" % (2 * count - 2) in kernel.explain(), \
            kernel.explain()


def check_smallest_scores(count=3):
    """Masks of finfo.min leave their keys in the row, behind all others."""
    lowest = np.finfo("f4").min
    q = rng.standard_normal((1, 2, 30, 32)).astype("f4")
    k = rng.standard_normal((1, 1, 70, 32)).astype("f4")
    bias = np.full((1, 2, 30, 70), lowest)
    bias[:, 1, :, 11] = 0
    bias[:, :, 29] = -np.inf
    scores, places = top_keys(q, k, count, bias=bias)
    assert np.array_equal(places[0, 0, :29], np.tile(np.arange(count), (29, 1)))
    assert np.array_equal(places[0, 1, :29], np.tile([11, 0, 1], (29, 1)))
    assert np.allclose(scores[0, 0, :29], lowest, rtol=1e-6)
    assert (places[:, :, 29] == -1).all() and np.isneginf(scores[:, :, 29]).all()


def check_not_a_number(count=3):
    """Scores of NaN are passed over."""
    q = rng.standard_normal((1, 2, 30, 32)).astype("f4")
    k = rng.standard_normal((1, 1, 70, 32)).astype("f4")
    want = top_keys(q, np.delete(k, (0, 50), 2), count)
    k[0, 0, (0, 50)] = np.nan
    q[0, 1, 7] = np.nan
    scores, places = top_keys(q, k, count)
    assert (places[0, 1, 7] == -1).all() and np.isneginf(scores[0, 1, 7]).all()
    live = np.delete(np.arange(70), (0, 50))
    for head, row in ((0, slice(None)), (1, slice(7)), (1, slice(8, None))):
        assert np.array_equal(places[0, head, row], live[want[1][0, head, row]])
        assert np.allclose(scores[0, head, row], want[0][0, head, row], atol=1e-5)


def check(count, heads, rows, keys, depth, live=None, dtype="f4", below=False, **more):
    q = rng.standard_normal((2, heads, rows, depth)).astype(dtype)
    k = rng.standard_normal((2, 1, keys, depth)).astype(dtype)
    if below:
        q, k = abs(q), -abs(k)
    q[0, 0, rows // 2] = 0  # all scores are equal: the first keys win
    k[1, 0, keys // 2:] = k[1, 0, : keys - keys // 2]  # each score comes twice
    s = q.astype("f8") @ k.astype("f8").swapaxes(-1, -2) / np.sqrt(depth)
    if live is not None:
        s = np.where(live, s, -np.inf)
    scores, places = top_keys(q, k, count, **more)
    assert scores.shape == places.shape == (2, heads, rows, count)
    assert scores.dtype == np.float32 and places.dtype == np.int32
    order = np.argsort(-s, -1, kind="stable")[..., :count]
    want = np.take_along_axis(s, order, -1)
    if order.shape[-1] < count:
        pad = [(0, 0)] * 3 + [(0, count - order.shape[-1])]
        want = np.pad(want, pad, constant_values=-np.inf)
        order = np.pad(order, pad)
    none = np.isneginf(want)
    assert np.array_equal(np.isneginf(scores), none)
    assert np.array_equal(places == -1, none)
    bound = 2e-6 * np.sqrt(depth)
    assert np.abs(scores[~none] - want[~none]).max(initial=0) < bound
    # Scores that differ by less than rounding may change places.
    found = np.take_along_axis(s, np.maximum(places, 0).astype("i8"), -1)
    assert np.abs(found[~none] - want[~none]).max(initial=0) < bound
    same = (places == order) | none
    assert same.mean() > 0.99
    # Equal bits: the earlier key.
    flat = np.where(none, -1, np.arange(count))[0, 0, rows // 2]
    if live is None:
        assert np.array_equal(places[0, 0, rows // 2], flat)
    for row in places.reshape(-1, count):
        there = row[row >= 0]
        assert len(set(there.tolist())) == len(there)


i, j = np.arange(40)[:, None], np.arange(300)
few = {"rows": 40, "keys": 300, "depth": 32}
if not emulated:
    check_path()
check_smallest_scores()
check_not_a_number()
check(8, 2, **few)
check(3, 2, live=j <= i, causal="top_left", **few)
if emulated:
    # Tiles of warpgroups: keys wait for others, also behind the last of a tile.
    check(8, 1, rows=100, keys=int(rng.integers(130, 500)), depth=64, dtype="f2")
    check(3, 2, live=j <= i, causal="top_left", dtype="f2", **few)
    check(4, 1, rows=70, keys=256, depth=64, dtype="f2")
    check(8, 1, rows=70, keys=256, depth=64, dtype="f2", below=True)
else:
    check(1, 3, **few)
    check(32, 1, **few)
    check(5, 1, rows=3, keys=2, depth=16)
    check(4, 2, rows=1, keys=5000, depth=64)
    check(2, 2, live=(j - i >= 253) & (j - i <= 260), causal="bottom_right",
          window=(7, 0), **few)

q = k = np.zeros((1, 1, 4, 16), "f4")
for call, text in (
    (lambda: attn.top_keys(q, k, 0), "expected count between 1 and 32, but got 0"),
    (lambda: attn.top_keys(q, k, 33), "expected count between 1 and 32, but got 33"),
    (lambda: attn.top_keys(q, k, 2, monoid="softmax"), "but got 'monoid'"),
):
    try:
        call()
        raise SystemExit("expected an error: " + text)
    except ValueError as error:
        assert text in str(error), error
