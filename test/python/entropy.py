# RUN: %python %s
"""Entropies of rows, which are made of differences of scores.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

Masks of finfo.min and other large biases over half of the keys, all keys of a row
or whole tiles, rows without live keys, scores that overflow to -inf, one key, long
scores, sinks: whatever the size of scores, an entropy is as exact as these are, and
0 times what a dead key's distance is, -inf, spoils nothing.
"""

import ml_dtypes
import numpy as np

import attn

rng = np.random.default_rng()
LEAST = np.finfo(np.float32).min
SIZES = (LEAST, -1e4, -1e9, -1e10)


def reference(q, k, v, scale, bias=None, mask=None, sinks=None):
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    s = np.einsum("bhid,bhjd->bhij", q, k) * scale
    # float32 knows no larger score.
    s = np.where(s < LEAST, -np.inf, s).astype(np.float32)
    if bias is not None:
        s = s + bias
    if mask is not None:
        s = np.where(mask, s, -np.inf)
    top = s.max(-1, keepdims=True)
    if sinks is not None:
        top = np.maximum(top, sinks[:, None, None])
    top = np.where(np.isfinite(top), top, 0).astype(np.float64)
    e = np.exp(s - top)
    parts = np.where(e > 0, e * np.where(e > 0, s - top, 0), 0).sum(-1)
    total = e.sum(-1)
    if sinks is not None:
        apart = sinks[:, None] - top[..., 0]
        total, parts = total + np.exp(apart), parts + np.exp(apart) * apart
    live = np.where(total > 0, total, 1)
    entropy = np.where(total > 0, np.log(live) - parts / live, 0)
    return (e / live[..., None]) @ v, entropy, top[..., 0]


def draw(kind, b, h, s, sk):
    bias = mask = sinks = None
    if kind == "least":
        bias = np.where(rng.random((b, 1, s, sk)) < 0.6, LEAST, np.float32(0))
        bias[..., :sk // 2] = LEAST
    elif kind == "rows":
        # As a padding of queries is: all keys of a row alike.
        bias = np.zeros((b, 1, s, sk), np.float32)
        bias[..., rng.random(s) < 0.6, :] = rng.choice(SIZES)
    elif kind == "tiles":
        bias = np.zeros((b, 1, s, sk), np.float32)
        size, cut = rng.choice(SIZES), int(rng.choice([64, 128, 192]))
        bias[..., :cut] = size
        if rng.random() < 0.3:
            bias[..., cut:] = rng.choice(SIZES)
    elif kind == "masked":
        mask = rng.random((b, 1, s, sk)) < 0.3
        mask[:, :, s // 2] = False
    elif kind == "sinks":
        sinks = rng.choice([0.0, 1e3, -1e9, 3e38], h).astype(np.float32)
        if rng.random() < 0.5:
            bias = np.zeros((b, 1, s, sk), np.float32)
            bias[..., ::2] = rng.choice(SIZES)
    return bias, mask, sinks


KINDS = ("plain", "least", "rows", "rows", "tiles", "tiles", "masked", "sinks", "long",
         "overflow", "one")
for target in ("cpu", "emulator:sm_90a", "emulator:sm_80"):
    for kind in KINDS:
        b, h, d = 1, 2, int(rng.choice([16, 64, 128]))
        s, sk = int(rng.integers(1, 150)), int(rng.integers(2, 260))
        if kind == "one":
            sk = 1
        dtype = [np.float32, np.float16, ml_dtypes.bfloat16][rng.integers(3)]
        if kind in ("long", "overflow"):
            dtype = np.float32 if kind == "overflow" else np.float16
        q, k, v = (rng.standard_normal((b, h, n, d)).astype(dtype)
                   for n in (s, sk, sk))
        # Of scores that are large beside the spacing of 1e9, 64, some would round
        # up or down as the order of their products decides.
        scale = d**-0.5
        if kind not in ("rows", "tiles"):
            scale = float(rng.choice([scale, 3.0]))
        if kind == "long":
            q *= dtype(60)
        elif kind == "overflow":
            q[..., 0], k[:, :, :-1, 0] = 1e20, -1e20
            k[:, :, -1, 0] = 0
        bias, mask, sinks = draw(kind, b, h, s, sk)
        given = {"bias": bias, "mask": mask, "sinks": sinks, "scale": scale}
        given = {name: x for name, x in given.items() if x is not None}
        call = dict(monoid="softmax_entropy", return_aux=["lse", "entropy"])
        if target == "cpu":
            o, aux = attn.attention(q, k, v, **given, **call)
            entropy = aux["entropy"]
        else:
            run = attn.compile(q, k, v, target=target, **given, **call)
            o, _, entropy = run(q, k, v, **given)
        want, wanted, top = reference(q, k, v, scale, bias, mask, sinks)
        what = (target, kind, dtype.__name__, d, s, sk)
        error = np.abs(np.asarray(entropy, np.float64) - wanted)
        # Scores are rounded to float32: those next to each other at 1e4 are 1e-3
        # apart. From 1e9 on a row's are equal.
        size = np.abs(top)
        bound = 2e-5 + np.where(size < 1e8, 4e-7 * size, 0)
        assert (error <= bound).all(), what + (error.max(),)
        error = np.abs(np.asarray(o, np.float64) - want).max()
        assert error < (0.06 if dtype is ml_dtypes.bfloat16 else 2e-2), what + (error,)
