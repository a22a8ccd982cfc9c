"""Gradients of one kernel whose blocks add in turns, of scores to which elements are
added: against float64, and the same bits whatever blocks run first.

usage: turns-elements.py MODULE BIAS, behind attn-fuse-gradients for sm_90a; the second
has the gradient of a bias, too. Part of the attn project, under the Apache License v2.0
with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import os
import re
import sys

import ml_dtypes
import numpy as np

import attn

rng = np.random.default_rng(5)
MODULES = {}
for path, fused in zip(sys.argv[1:], (4, 2)):
    MODULES[path], count = re.subn(
        r"} {turn_sizes = array<[^>]*>, two_kernels = "
        r"#attn\.schedule<[^>]*>}", "}", open(path).read())
    assert count == fused, count


def gradients(q, k, v, do, scale, add):
    """Those of q, k, v and what is added, in float64."""
    q, k, v, do = (x.astype("f8") for x in (q, k, v, do))
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, 1), np.repeat(v, group, 1)
    s = q @ k.swapaxes(2, 3) * scale + add
    top = s.max(-1, keepdims=True)
    p = np.exp(s - np.where(np.isfinite(top), top, 0))
    p /= np.maximum(p.sum(-1, keepdims=True), 1e-300)
    dp = do @ v.swapaxes(2, 3)
    ds = p * (dp - (dp * p).sum(-1, keepdims=True))

    def fold(x):
        return x.reshape(*k.shape[:1], -1, group, *x.shape[2:]).sum(2)

    dk, dv = fold(ds.swapaxes(2, 3) @ q) * scale, fold(p.swapaxes(2, 3) @ do)
    return ds @ k * scale, dk, dv, fold(ds.sum(2))


def check(path, name, d, b, hq, hk, sq, sk, scale, element, add,
          orders="eager,lazy,random:1,adversary:4"):
    """`add` says what each pair of batch and query head gets of `element`."""
    def draw(h, n):
        return rng.standard_normal((b, h, n, d)).astype(ml_dtypes.bfloat16)

    q, do, k, v = draw(hq, sq), draw(hq, sq), draw(hk, sk), draw(hk, sk)
    q *= ml_dtypes.bfloat16(0.125 / scale)
    pairs = np.broadcast_to(add(element), (b, hq, sq, sk))
    # Keys that no query of any head sees.
    gone = (pairs == -np.inf).all(2).reshape(b, hk, -1, sk).all(2)
    k[gone], v[gone] = np.nan, np.nan
    forward, backward = (
        attn.compile(MODULES[path], entry=name + end, target="emulator:sm_90a")
        for end in ("_forward", "_backward"))
    o, *statistics = forward(q, k, v, element)
    # The emulator compares the bits of all these.
    os.environ["ATTN_EMULATOR"] = orders
    found = backward(q, k, v, element, *statistics, o, do)
    del os.environ["ATTN_EMULATOR"]
    k[gone], v[gone] = 0, 0
    for n, got, want in zip("qkvb", found, gradients(q, k, v, do, scale, pairs)):
        error = np.abs(np.asarray(got).astype("f8").reshape(want.shape) - want).max()
        assert error <= 1e-2 * np.abs(want).max(), (name, n, error)
    print(name, d, sq, sk, "dead", gone[0, 0].sum())


def table(sq, sk, heads, dead=None):
    """A table of 32 distances by head, and what pairs get of it."""
    t = rng.standard_normal((heads, 32)).astype("f4")
    if dead is not None:
        t[:, dead] = -np.inf
    far = np.minimum(np.abs(np.arange(sq)[:, None] - np.arange(sk)), 31)
    return t, lambda t: t[:, far]


def bias(b, sk, dead):
    t = rng.standard_normal((b, 1, 1, sk)).astype("f4")
    t[..., dead] = -np.inf
    return t, lambda t: t


plain, with_bias = sys.argv[1:]
check(plain, "table", 128, 1, 2, 2, 260, 300, 1.0, *table(260, 300, 2))
check(plain, "table", 128, 1, 2, 1, 200, 257, 1.0, *table(200, 257, 2, 3))
check(plain, "table", 128, 1, 2, 1, 130, 260, 1.0, *table(130, 260, 2, 31))
check(plain, "table", 128, 1, 1, 1, 140, 150, 1.0, *table(140, 150, 1, slice(32)))
check(plain, "narrow", 64, 1, 2, 1, 200, 257, 1.0, *table(200, 257, 2, 3))
check(plain, "narrow", 64, 1, 1, 1, 130, 260, 1.0, *table(130, 260, 1, 31))
check(plain, "half", 64, 2, 2, 1, 200, 260, 1.0, *bias(2, 260, slice(85, 130)))
check(with_bias, "keys", 128, 1, 2, 1, 200, 257, 0.125, *bias(1, 257, slice(85, 129)))
check(with_bias, "keys", 128, 1, 1, 1, 130, 130, 0.125, *bias(1, 130, slice(130)))
check(with_bias, "half", 64, 1, 2, 1, 200, 257, 1.0, *bias(1, 257, slice(85, 129)))
# In any order bits may differ.
check(plain, "odd", 96, 1, 2, 1, 200, 257, 1.0, *table(200, 257, 2, 3),
      orders="random:1")
