"""Gradients under a window in one kernel whose blocks add in turns: against float64,
and the same bits whatever blocks run first.

usage: turns-window.py MODULE, behind attn-fuse-gradients for sm_90a. Part of the attn
project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import os
import sys

import numpy as np

import attn
from Inputs import one_kernel

rng = np.random.default_rng(5)
text = one_kernel.read(sys.argv[1], 1)


def check(sq, sk, window):
    def draw(n, scale=1.0):
        return (rng.standard_normal((1, 2, n, 128)) * scale).astype("f2")

    q, do, k, v = draw(sq, 128**-0.5), draw(sq), draw(sk), draw(sk)
    forward, backward = (
        attn.compile(text, entry="attention_" + end, target="emulator:sm_90a")
        for end in ("forward", "backward"))
    o, *statistics = forward(q, k, v, window - 1, 0)
    # The emulator compares the bits of all these.
    os.environ["ATTN_EMULATOR"] = "eager,lazy,random:1,adversary:2"
    found = backward(q, k, v, window - 1, 0, *statistics, o, do)
    del os.environ["ATTN_EMULATOR"]
    i, j = np.arange(sq)[:, None], np.arange(sk)
    live = (j <= i) & (j > i - window)
    q, k, v, do = (x.astype("f8") for x in (q, k, v, do))
    s = q @ k.swapaxes(2, 3) * 128**-0.5
    p = np.where(live, np.exp(s), 0.0)
    p /= np.maximum(p.sum(-1, keepdims=True), 1e-300)
    dp = do @ v.swapaxes(2, 3)
    ds = p * (dp - (dp * p).sum(-1, keepdims=True)) * 128**-0.5
    wanted = ds @ k, ds.swapaxes(2, 3) @ q, p.swapaxes(2, 3) @ do
    for n, got, want in zip("qkv", found, wanted):
        got = np.asarray(got).astype("f8")
        error = np.abs(got - want).max() / np.abs(want).max()
        assert error < 1e-2, (n, error)
    assert not np.asarray(found[0])[:, :, ~live.any(1)].any()
    print(sq, sk, window, "has the same bits")


check(300, 280, 70)
check(400, 130, 90)
