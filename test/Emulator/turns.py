"""Gradients of one kernel whose blocks add in turns, of sizes for which plans have two:
against float64, and the same bits whatever blocks run first, and however few at once.

usage: turns.py MODULE, behind attn-fuse-gradients for sm_90a. Part of the attn
project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import os
import sys

import ml_dtypes
import numpy as np

import attn
from Inputs import one_kernel

rng = np.random.default_rng(5)
text = one_kernel.read(sys.argv[1], 3)


def gradients(q, k, v, do, live, cap):
    """Those of q, k and v in float64."""
    q, k, v, do = (x.astype("f8") for x in (q, k, v, do))
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, 1), np.repeat(v, group, 1)
    s, slope = q @ k.swapaxes(2, 3), 1.0
    if cap:
        bent = np.tanh(s / cap)
        s, slope = cap * bent, 1 - bent**2
    s = np.where(live, s, -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    dp = do @ v.swapaxes(2, 3)
    ds = p * (dp - (dp * p).sum(-1, keepdims=True)) * slope

    def fold(x):
        return x.reshape(*k.shape[:1], -1, group, *k.shape[2:]).sum(2)

    return ds @ k, fold(ds.swapaxes(2, 3) @ q), fold(p.swapaxes(2, 3) @ do)


def check(name, dtype, d, b, hq, hk, sq, sk, causal, cap=None):
    def draw(h, n, scale=1.0):
        return (rng.standard_normal((b, h, n, d)) * scale).astype(dtype)

    q, do, k, v = draw(hq, sq, d**-0.5), draw(hq, sq), draw(hk, sk), draw(hk, sk)
    forward, backward = (attn.compile(text, entry=name + end, target="emulator:sm_90a")
                         for end in ("_forward", "_backward"))
    o, *statistics = forward(q, k, v)
    # The emulator compares the bits of all these.
    os.environ["ATTN_EMULATOR"] = "eager,lazy,random:1,random:2,random:3,adversary:4"
    found = backward(q, k, v, *statistics, o, do)
    del os.environ["ATTN_EMULATOR"]
    live = np.arange(sk) <= np.arange(sq)[:, None] if causal else np.True_
    for n, got, want in zip("qkv", found, gradients(q, k, v, do, live, cap)):
        error = np.abs(np.asarray(got).astype("f8") - want).max() / np.abs(want).max()
        assert error < 1e-2, (name, n, error)
    print(name, sq, sk, "has the same bits")


check("full", ml_dtypes.bfloat16, 64, 1, 2, 1, 130, 520, causal=False)
check("full", ml_dtypes.bfloat16, 64, 1, 1, 1, 300, 257, causal=False)
check("causal", np.float16, 128, 1, 2, 2, 260, 300, causal=True)
check("causal", np.float16, 128, 1, 2, 1, 200, 400, causal=True)
check("capped", ml_dtypes.bfloat16, 64, 1, 2, 1, 130, 260, causal=False, cap=2.0)
check("capped", ml_dtypes.bfloat16, 64, 1, 1, 1, 200, 257, causal=False, cap=2.0)
