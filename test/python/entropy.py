# RUN: %python %s
"""Entropies of rows: weights that hold the score are made from the statistic.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

Masks of finfo.min over half of the keys or all of a row, rows without live keys,
scores that overflow to -inf, one key, long scores: what a dead key's weight times
its score, 0 times -inf, would spoil.
"""

import numpy as np

import attn

rng = np.random.default_rng()
LEAST = np.finfo(np.float32).min


def reference(q, k, v, scale, bias=None, mask=None):
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    s = np.einsum("bhid,bhjd->bhij", q, k) * scale
    # float32 knows no larger score.
    s = np.where(s < LEAST, -np.inf, s)
    if bias is not None:
        s = s + bias
    if mask is not None:
        s = np.where(mask, s, -np.inf)
    top = s.max(-1, keepdims=True)
    e = np.exp(s - np.where(np.isfinite(top), top, 0))
    total = e.sum(-1, keepdims=True)
    p = e / np.where(total > 0, total, 1)
    entropy = -(p * np.log(np.where(p > 0, p, 1))).sum(-1)
    return p @ v, entropy, np.where(np.isfinite(top), np.abs(top), 0)[..., 0]


def draw(kind, b, h, s, sk):
    bias = mask = None
    if kind == "least":
        bias = np.where(rng.random((b, 1, s, sk)) < 0.6, LEAST, np.float32(0))
        bias[..., :sk // 2] = LEAST
    elif kind == "masked":
        mask = rng.random((b, 1, s, sk)) < 0.3
        mask[:, :, s // 2] = False
    return bias, mask


for target in ("cpu", "emulator:sm_90a", "emulator:sm_80"):
    for kind in ("plain", "least", "masked", "long", "overflow", "one"):
        b, h, d = 1, 2, int(rng.choice([16, 64, 128]))
        s, sk = int(rng.integers(1, 150)), int(rng.integers(2, 260))
        if kind == "one":
            sk = 1
        dtype = np.float32 if kind == "overflow" else np.float16
        q, k, v = (rng.standard_normal((b, h, n, d)).astype(dtype)
                   for n in (s, sk, sk))
        scale = float(rng.choice([d**-0.5, 3.0]))
        if kind == "long":
            q *= dtype(60)
        elif kind == "overflow":
            q[..., 0], k[:, :, :-1, 0] = 1e20, -1e20
            k[:, :, -1, 0] = 0
        bias, mask = draw(kind, b, h, s, sk)
        given = {"bias": bias, "mask": mask, "scale": scale}
        given = {name: x for name, x in given.items() if x is not None}
        call = dict(monoid="softmax_entropy", return_aux=["lse", "entropy"])
        if target == "cpu":
            o, aux = attn.attention(q, k, v, **given, **call)
            entropy = aux["entropy"]
        else:
            run = attn.compile(q, k, v, target=target, **given, **call)
            o, _, entropy = run(q, k, v, **given)
        want, wanted, top = reference(q, k, v, scale, bias, mask)
        error = np.abs(np.asarray(entropy, np.float64) - wanted)
        # Scores, and their mean, are rounded to float32: the entropy of a row
        # that finfo.min masks as a whole is what that leaves, and finite.
        bound = 2e-5 + 4e-7 * top
        assert (error <= bound).all(), (target, kind, d, s, sk, error.max())
        error = np.abs(np.asarray(o, np.float64) - want).max()
        assert error < 2e-2, (target, kind, d, s, sk, error)
