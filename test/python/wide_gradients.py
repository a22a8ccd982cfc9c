# RUN: %python %s

"""Gradients of plain attention for heads of every width, in both forms.

Usage: wide_gradients.py [TARGET]. Part of the attn project, under the Apache License
v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

Random cases seldom draw what has neither a mask nor a bias nor lengths, in 16 bits,
at a given width: these kernels have copies of their own for each width (a warp for
keys and one for values, rings of some slots), and one of them did not end. Against
float64 by NumPy.
"""

import sys

import ml_dtypes
import numpy as np

import attn

TARGET = sys.argv[1] if len(sys.argv) > 1 else "emulator:sm_90a"
HEADS = ((64, 64), (96, 96), (128, 128), (192, 128), (128, 192), (192, 192), (256, 256))
TYPES = {"bf16": ml_dtypes.bfloat16, "f16": np.float16}


def expected(q, k, v, do, causal):
    q, k, v, do = (x.astype(np.float64) for x in (q, k, v, do))
    scale = q.shape[-1] ** -0.5
    scores = np.einsum("bhid,bhjd->bhij", q, k) * scale
    if causal:
        rows, keys = scores.shape[-2:]
        scores[..., np.arange(keys) > np.arange(rows)[:, None]] = -np.inf
    p = np.exp(scores - scores.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    dp = np.einsum("bhid,bhjd->bhij", do, v)
    ds = p * (dp - (p * dp).sum(-1, keepdims=True)) * scale
    return {
        "q": np.einsum("bhij,bhjd->bhid", ds, k),
        "k": np.einsum("bhij,bhid->bhjd", ds, q),
        "v": np.einsum("bhij,bhid->bhjd", p, do),
    }


def array(x):
    """`x` where the target has its memory."""
    if TARGET != "cuda":
        return x
    import torch

    kind = torch.float16 if x.dtype == np.float16 else torch.bfloat16
    return torch.from_numpy(x.astype(np.float32)).to("cuda", kind)


def check(rng, d, dv, kind, causal, deterministic):
    sq, sk = (int(rng.integers(60, 260)) for _ in "qk")
    draw = lambda s, d: rng.standard_normal((1, 2, s, d)).astype(TYPES[kind])
    q, k, v, do = draw(sq, d), draw(sk, d), draw(sk, dv), draw(sq, dv)
    _, vjp = attn.attention_vjp(
        *map(array, (q, k, v)),
        causal="top_left" if causal else None,
        deterministic=deterministic,
        target=None if TARGET == "cuda" else TARGET,
    )
    found = vjp(array(do))
    worst = 0.0
    for name, right in expected(q, k, v, do, causal).items():
        got = found[name]
        got = got.cpu().double().numpy() if TARGET == "cuda" else got
        off = np.abs(got.astype(np.float64) - right).max()
        worst = max(worst, off / np.abs(right).max())
    assert worst < (2e-2 if kind == "bf16" else 3e-3), (sq, sk, worst)
    return worst


def main():
    rng, count = np.random.default_rng(), 0
    for d, dv in HEADS:
        for causal in (False, True):
            for deterministic in (True, False):
                kind = "bf16" if rng.random() < 0.7 else "f16"
                what = (d, dv, kind, causal, deterministic)
                print(*what, "%.1e" % check(rng, *what), flush=True)
                count += 1
    print("%d gradients, 0 wrong" % count)


if __name__ == "__main__":
    main()
