# RUN: %python %s emulator:sm_90a 4 2
"""Gradients of attention with deterministic=False, of one kernel of warpgroups that
adds those of queries up in memory, in any order: against float64, at ragged sizes, in
groups of heads, under masks, beside NaN that nothing sees; and what takes two kernels.

usage: any_order_gradients.py [TARGET] [CASES] [SEED]
TARGET is an emulator, or cuda, which takes torch.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import os
import sys

import ml_dtypes
import numpy as np

import attn

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
from device import to_gpu, to_host  # noqa: E402

TARGET = sys.argv[1] if len(sys.argv) > 1 else "emulator:sm_90a"
CASES = int(sys.argv[2]) if len(sys.argv) > 2 else 12
rng = np.random.default_rng(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
SIZES = (1, 63, 64, 65, 100, 128, 129, 192, 200, 257)


def reference(q, k, v, do, live, scale):
    """Gradients in float64; `live` [sq, sk]."""
    q, k, v, do = (np.nan_to_num(x.astype(np.float64), posinf=0, neginf=0)
                   for x in (q, k, v, do))
    group = q.shape[1] // k.shape[1]
    wide_k, wide_v = np.repeat(k, group, 1), np.repeat(v, group, 1)
    s = np.where(live, scale * np.einsum("bhid,bhjd->bhij", q, wide_k), -np.inf)
    top = s.max(-1, keepdims=True, initial=-1e300)
    w = np.where(live, np.exp(s - top), 0)
    p = w / np.maximum(w.sum(-1, keepdims=True), 1e-300)
    dp = np.einsum("bhid,bhjd->bhij", do, wide_v)
    ds = p * (dp - (dp * p).sum(-1, keepdims=True)) * scale
    fold = lambda x: x.reshape(k.shape[0], k.shape[1], group, *x.shape[2:]).sum(2)
    return {"q": ds @ wide_k, "k": fold(ds.swapaxes(2, 3) @ q),
            "v": fold(p.swapaxes(2, 3) @ do)}


def liveness(sq, sk, causal, window):
    i, j = np.arange(sq)[:, None], np.arange(sk)
    now = i + (sk - sq if causal == "bottom_right" else 0)
    live = (j <= now) if causal else np.ones((sq, sk), bool)
    return live & (j >= now - window) if window is not None else live


def check(b, hk, group, sq, sk, d, dtype, causal=None, window=None, dv=None):
    where = b, hk, group, sq, sk, d, np.dtype(dtype).name, causal, window, dv
    draw = lambda h, n, d: rng.standard_normal((b, h, n, d)).astype(dtype)
    q, do = draw(hk * group, sq, d), draw(hk * group, sq, dv or d)
    k, v = draw(hk, sk, d), draw(hk, sk, dv or d)
    live = liveness(sq, sk, causal, window)
    k[:, :, ~live.any(0)], v[:, :, ~live.any(0)] = np.nan, np.inf
    q[:, :, ~live.any(1)] = np.nan
    wanted = reference(q, k, v, do, live, d**-0.5)
    options = {"causal": causal}
    if TARGET == "cuda":
        q, k, v, do = map(to_gpu, (q, k, v, do))
    else:
        options["target"] = TARGET
    if window is not None:
        options["window"] = (window, 0)
    _, vjp = attn.attention_vjp(q, k, v, deterministic=False, **options)
    found = to_host(vjp(do))
    _, ordered = attn.attention_vjp(q, k, v, **options)
    kept = to_host(ordered(do))
    for name, want in wanted.items():
        size = max(np.abs(want).max(initial=0), 1e-6)
        error = lambda got: np.abs(got[name].astype("f8") - want).max(initial=0) / size
        worst, other = error(found), error(kept)
        # Of one key the weights have no derivative.
        assert other <= 2e-2 or size < 1e-3, (name, other, where)
        assert worst <= max(1.5 * other, 1e-2), (name, worst, other, where)


def check_dropout(d):
    """What is dropped out leaves no room for the order of other steps."""
    draw = lambda: rng.standard_normal((1, 2, 200, d)).astype(np.float16)
    q, k, v, do = draw(), draw(), draw(), draw()
    options = {"dropout_p": 0.3, "dropout_rng": (7, 9), "causal": "top_left"}
    if TARGET == "cuda":
        q, k, v, do = map(to_gpu, (q, k, v, do))
    else:
        options["target"] = TARGET
    found, kept = (
        to_host(attn.attention_vjp(q, k, v, deterministic=order, **options)[1](do))
        for order in (False, True))
    for name, want in kept.items():
        size = np.abs(want.astype("f8")).max()
        error = np.abs(found[name].astype("f8") - want).max() / size
        assert error < 1e-2, (name, error, d)


def main():
    bf16 = ml_dtypes.bfloat16
    check(1, 1, 1, 64, 128, 128, bf16)
    check(1, 1, 1, 256, 256, 64, bf16)
    check(2, 1, 3, 130, 200, 128, bf16)
    check(1, 2, 1, 100, 300, 64, np.float16, "top_left")  # keys that nobody sees
    check(1, 1, 2, 300, 100, 128, bf16, "bottom_right")  # rows without keys
    check(1, 1, 1, 260, 260, 128, bf16, "bottom_right", 70)
    check(1, 1, 2, 200, 200, 96, bf16, "top_left")  # panels of 32 channels
    check(1, 1, 1, 130, 140, 80, bf16)  # 96 channels on chip
    check(1, 1, 2, 190, 200, 192, bf16, "top_left", dv=128)  # dV by itself
    check(1, 2, 1, 100, 260, 40, bf16)
    for d in (64, 128):
        check_dropout(d)
    for _ in range(CASES):
        causal = rng.choice([None, "top_left", "bottom_right"])
        window = int(rng.integers(0, 100)) if causal and rng.random() < 0.3 else None
        check(int(rng.integers(1, 3)), int(rng.integers(1, 3)),
              int(rng.integers(1, 4)), int(rng.choice(SIZES)), int(rng.choice(SIZES)),
              int(rng.choice([64, 128, 96, 40])), rng.choice([bf16, np.float16]),
              causal, window)
    print("gradients in any order")


main()
