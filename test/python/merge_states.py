# RUN: %python %s
"""attn.merge_states: attention over parts of the keys makes that over all of them.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
import reference
from reference import check, qkv

import attn

rng = np.random.default_rng(23)
INF = np.inf
ORDERS = {"bhsd": (0, 1, 2, 3), "bshd": (0, 2, 1, 3), "sbhd": (2, 0, 1, 3)}


def merged(o, lse):
    """States [parts, ..., dv] and [parts, ...] merged in float64."""
    o, lse = np.where(np.isneginf(lse)[..., None], 0,
                      o.astype(float)), lse.astype(float)
    top = lse.max(axis=0)
    weights = np.exp(lse - np.where(np.isneginf(top), 0, top))
    total = weights.sum(axis=0)
    mean = (weights[..., None] * o).sum(axis=0) / np.where(total, total, 1)[..., None]
    with np.errstate(divide="ignore"):
        return mean, np.where(total, top, 0) + np.log(total)


def test_parts_of_attention():
    for dtype in reference.DTYPES:
        for layout, order in ORDERS.items():
            q, k, v = (np.transpose(x, order).copy() for x in qkv(rng, dtype=dtype))
            axis = layout.index("s")
            cuts = [0, 5, 5, 30, k.shape[axis]]
            parts = []
            for first, end in zip(cuts, cuts[1:]):
                some = [slice(None)] * 4
                some[axis] = slice(first, end)
                keys, values = k[tuple(some)], v[tuple(some)]
                parts.append(attn.attention(q, keys, values, layout=layout,
                                            return_lse=True))
            assert np.isneginf(parts[1][1]).all()
            o, lse = attn.merge_states(parts, layout=layout)
            want, want_lse = attn.attention(q, k, v, layout=layout, return_lse=True)
            assert o.dtype == q.dtype and lse.dtype == np.float32
            check(layout, o, want.astype(float), q.dtype)
            check(layout, lse, want_lse, q.dtype)


def test_against_float64():
    # Also of more rows than one launch takes, of many parts, of large LSEs.
    for parts, shape, size in ((2, (1, 2, 9000), 1), (64, (2, 1, 3), 30),
                               (1, (1, 1, 5), 1), (3, (2, 2, 0), 1)):
        o = rng.standard_normal((parts,) + shape + (24,)).astype("f")
        lse = (size * rng.standard_normal((parts,) + shape)).astype("f")
        got, got_lse = attn.merge_states(o, lse)
        if not got.size:
            assert got.shape == shape + (24,)
            continue
        want, want_lse = merged(o, lse)
        assert abs(got - want).max() < 2e-6 * max(1, abs(want).max())
        assert abs(got_lse - want_lse).max() < 4e-6 + 2e-7 * abs(want_lse).max()


def test_packed_and_strides():
    o = rng.standard_normal((3, 11, 4, 16)).astype("f")  # t, h, d
    lse = rng.standard_normal((3, 4, 11)).astype("f")
    got, got_lse = attn.merge_states(o, lse, layout="thd")
    want, want_lse = merged(o.swapaxes(1, 2), lse)
    assert np.allclose(got, want.swapaxes(0, 1), atol=1e-6)
    assert np.allclose(got_lse, want_lse, atol=1e-6)
    # Parts in any order in memory, heads of a larger buffer.
    wide = rng.standard_normal((4, 6, 1, 9, 20)).astype("f")
    sums = rng.standard_normal((4, 6, 1, 9)).astype("f")
    o, lse = wide[::-1, 2:4, :, :, :16].swapaxes(1, 2), sums[::-1, 2:4].swapaxes(1, 2)
    got, got_lse = attn.merge_states(o, lse)
    want, want_lse = merged(o, lse)
    assert np.allclose(got, want, atol=1e-6) and np.allclose(got_lse, want_lse,
                                                             atol=1e-6)


def test_empty_states():
    # Whatever an empty part holds: the other one comes out bit by bit.
    for dtype in reference.DTYPES:
        o = rng.standard_normal((1, 2, 7, 16)).astype(dtype)
        lse = (20 * rng.standard_normal((1, 2, 7))).astype("f")
        none = np.full_like(lse, -INF)
        for fill in (0, np.nan, INF, 3):
            waste = np.full_like(o, fill)
            for states in (
                [(o, lse), (waste, none)],
                [(waste, none), (o, lse)],
                [(waste, none), (o, lse), (waste, none), (waste, none)],
            ):
                got, got_lse = attn.merge_states(states)
                assert np.array_equal(got, o) and np.array_equal(got_lse, lse)
            for count in (1, 2, 3):
                got, got_lse = attn.merge_states([(waste, none)] * count)
                assert not got.any() and np.isneginf(got_lse).all()


def test_grouping():
    for _ in range(20):
        parts = int(rng.integers(3, 9))
        o = rng.standard_normal((parts, 1, 2, 5, 16)).astype("f")
        lse = (4 * rng.standard_normal((parts, 1, 2, 5))).astype("f")
        lse[rng.random(lse.shape) < 0.2] = -INF
        flat, flat_lse = attn.merge_states(o, lse)
        states = [(o[i], lse[i]) for i in range(parts)]
        while len(states) > 1:
            i = int(rng.integers(len(states) - 1))
            states[i : i + 2] = [attn.merge_states(*states[i], *states[i + 1])]
        tree, tree_lse = states[0]
        assert np.allclose(tree, flat, atol=3e-6)
        empty = np.isneginf(flat_lse)
        assert np.array_equal(np.isneginf(tree_lse), empty)
        assert np.allclose(tree_lse[~empty], flat_lse[~empty], atol=4e-6)


def test_orders():
    # Transposed parts, as from packages whose LSEs are [b, s, h].
    o = rng.standard_normal((2, 2, 5, 3, 16)).astype("f")
    lse = rng.standard_normal((2, 2, 5, 3)).astype("f")
    want, want_lse = attn.merge_states(o, lse)
    lses = lse.swapaxes(2, 3).copy().swapaxes(2, 3)
    got, got_lse = attn.merge_states(list(zip(map(np.asfortranarray, o), lses)))
    assert np.array_equal(got, want) and np.array_equal(got_lse, want_lse)


def test_producers():
    # Other packages' arrays: with an array namespace, as JAX's, and without.
    class Plain:
        def __init__(self, array):
            self.array = array
            self.__dlpack__ = array.__dlpack__
            self.__dlpack_device__ = array.__dlpack_device__

    class Array(Plain):
        def __array_namespace__(self):
            return Namespace

    class Namespace:
        @staticmethod
        def asarray(array):
            return Array(array)

        @staticmethod
        def stack(parts):
            return Array(np.stack([part.array for part in parts]))

    o = rng.standard_normal((2, 1, 2, 5, 16)).astype("f")
    lse = rng.standard_normal((2, 1, 2, 5)).astype("f")
    want, want_lse = attn.merge_states(o, lse)
    for kind in (Plain, Array):
        got, got_lse = attn.merge_states(kind(o[0]), kind(lse[0]), kind(o[1]),
                                         kind(lse[1]))
        if kind is Array:
            got, got_lse = got.array, got_lse.array
        assert np.array_equal(got, want) and np.array_equal(got_lse, want_lse)


def test_torch():
    try:
        import torch
    except ImportError:
        return
    for device in ["cpu"] + (["cuda"] if torch.cuda.is_available() else []):
        o = torch.randn(3, 1, 2, 5, 16, dtype=torch.bfloat16, device=device)
        lse = torch.randn(3, 1, 2, 5, device=device)
        lse[1, :, :, :2], o[1, :, :, :2] = -INF, torch.nan
        got, got_lse = attn.merge_states(list(zip(o, lse)))
        assert got.dtype == torch.bfloat16 and got.device == got_lse.device == o.device
        want, want_lse = merged(o.float().cpu().numpy(), lse.cpu().numpy())
        assert np.allclose(got.float().cpu().numpy(), want, atol=2e-2)
        assert np.allclose(got_lse.cpu().numpy(), want_lse, atol=2e-6)


def test_errors():
    o, lse = np.zeros((2, 1, 1, 3, 8), "f"), np.zeros((2, 1, 1, 3), "f")

    def refuse(kind, message, *args, **options):
        try:
            attn.merge_states(*args, **options)
        except kind as error:
            assert "attn: " + message in str(error), error
        else:
            raise AssertionError("expected: " + message)

    refuse(ValueError, "expected lse of shape [2, 1, 1, 3], but got [2, 1, 1, 2]", o,
           lse[..., :2])
    refuse(ValueError, "expected one part or more, but got 0", o[:0], lse[:0])
    refuse(ValueError, "expected both o2 and lse2, or neither, but got one of them", o,
           lse, o)
    refuse(ValueError, "expected one pair (o, lse) or more, but got none", [])
    refuse(TypeError, "expected a list of pairs (o, lse), but got int 1", [1, 2])
    refuse(TypeError, "expected a list of pairs (o, lse), but got tuple (", [(o[0],)])
    refuse(TypeError, "expected a list of pairs (o, lse), or lse1", o)
    refuse(TypeError, "expected lse of float32, but got float64", o, lse.astype(float))
    refuse(TypeError, "expected o of float32, float16 or bfloat16", o.astype(int), lse)
    refuse(ValueError,
           "expected parts of o of 4 dimensions, [b, h, s, d], and of lse of 3", o[0],
           lse[0])
    refuse(ValueError, "expected o like that of the first part", o[0], lse[0],
           o[1, :, :, :2], lse[1])
    refuse(ValueError, "expected layout to be one of", o, lse, layout="dhs")
    refuse(TypeError, "expected lse to be a NumPy array", o, 3.0)
    refuse(ValueError, "expected 'o' to have stride 1 in its last dimension",
           o[..., ::2], lse)


for name, test in list(globals().items()):
    if name.startswith("test_"):
        test()
        print("ok", name)
