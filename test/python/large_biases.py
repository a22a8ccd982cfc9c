# RUN: %python %s host
# RUN: %python %s emulator:sm_90a
# RUN: %python %s emulator:sm_80
"""Gradients of rows whose bias is so large that scores lose their dots, or -inf: a row
of equal biases of -1e9, or of the least number there is, weighs its keys alike, and
one of -1e4 to -1e8 by what is left of its scores; keys and rows that a bias of -inf
kills give and have the gradient 0, NaN in them or not. Against float64.

usage: large_biases.py TARGET

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import sys

import ml_dtypes
import numpy as np

import attn

TARGET = None if sys.argv[1:] in ([], ["host"]) else sys.argv[1]
rng = np.random.default_rng(5)
LEAST = np.finfo("f4").min
# Rounded when it is multiplied by log2(e), by more the larger it is.
LARGE = (-1e4, -65504, -1e6, -1e7, -1e8, -4e8, 1e6)


def reference(q, k, v, do, dlse, bias):
    q, k, v, do = (np.nan_to_num(x.astype("f8"), posinf=0) for x in (q, k, v, do))
    scale = np.float32(q.shape[-1] ** -0.5)
    # A sum in f32, as kernels have it.
    s = ((scale * (q @ k.swapaxes(2, 3))).astype("f4") + bias).astype("f8")
    top = s.max(-1, keepdims=True)
    w = np.where(top == -np.inf, 0, np.exp(s - np.where(top == -np.inf, 0, top)))
    p = w / np.maximum(w.sum(-1, keepdims=True), 1e-300)
    dp = do @ v.swapaxes(2, 3)
    ds = p * (dp - (dp * p).sum(-1, keepdims=True) + dlse[..., None])
    return {"q": scale * ds @ k, "k": scale * ds.swapaxes(2, 3) @ q,
            "v": p.swapaxes(2, 3) @ do, "bias": ds}


def check(d, sq, sk, dtype, of_keys):
    draw = lambda n: rng.standard_normal((1, 2, n, d)).astype(dtype)
    q, do, k, v = draw(sq), draw(sq), draw(sk), draw(sk)
    bias = rng.standard_normal((1, 2, 1 if of_keys else sq, sk)).astype("f4")
    if of_keys:
        bias[:, 0] = -1e9
        bias[:, 1, :, : sk // 2] = -np.inf
        k[:, 1, : sk // 2], v[:, 1, : sk // 2] = np.nan, np.inf
    else:
        bias[:, :, 0], bias[:, :, 1], bias[:, :, 2] = -1e9, LEAST, -np.inf
        bias[:, :, 3, : sk // 2] = LEAST
        bias[:, :, 4, ::2] = -np.inf
        for row, number in enumerate(LARGE, 5):
            bias[:, 0, row] = number
            bias[:, 1, row] += np.float32(number)
    # A row without a key has none.
    dlse = rng.standard_normal(q.shape[:3]).astype("f4")
    dlse[..., 2] = dlse[..., 2] if of_keys else 0
    options = {"target": TARGET} if TARGET else {}
    _, vjp = attn.attention_vjp(q, k, v, bias=bias, return_lse=True, **options)
    found = vjp(do, dlse=dlse)
    bound = 1e-5 if dtype == np.float32 else 2e-2
    for name, want in reference(q, k, v, do, dlse, bias).items():
        if name == "bias" and of_keys:
            want = want.sum(2, keepdims=True)
        size = np.abs(want).max()
        error = np.abs(found[name].astype("f8") - want).max() / size
        assert error < bound, (name, error, d, sq, sk, dtype, of_keys)


for d, sq, sk in ((64, 70, 150), (128, 200, 130)):
    for dtype in (ml_dtypes.bfloat16, np.float16, np.float32):
        for of_keys in (True, False):
            check(d, sq, sk, dtype, of_keys)
print("large biases")
