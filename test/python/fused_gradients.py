# RUN: %python %s
"""Gradients of attention where one kernel computes those of queries, keys and values,
a thread for each head, beside sizes where two kernels do: both against float64; the
same bits for any number of threads; rows that no key or query sees; memory.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import os

import ml_dtypes
import numpy as np

import attn

rng = np.random.default_rng(3)
THREADS = len(os.sched_getaffinity(0))


def reference(q, k, v, do, live, scale):
    """Gradients in float64; `live` [sq, sk]."""
    q, k, v, do = (np.nan_to_num(x.astype(np.float64), posinf=0, neginf=0)
                   for x in (q, k, v, do))
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, 1), np.repeat(v, group, 1)
    s = np.where(live, scale * np.einsum("bhid,bhjd->bhij", q, k), -np.inf)
    top = s.max(-1, keepdims=True, initial=-1e300)
    w = np.where(live, np.exp(s - top), 0)
    p = w / np.maximum(w.sum(-1, keepdims=True), 1e-300)
    dp = np.einsum("bhid,bhjd->bhij", do, v)
    ds = p * (dp - (dp * p).sum(-1, keepdims=True)) * scale

    def fold(x):
        b, h, n, d = x.shape
        return x.reshape(b, h // group, group, n, d).sum(2)

    return {"q": ds @ k, "k": fold(ds.swapaxes(2, 3) @ q),
            "v": fold(p.swapaxes(2, 3) @ do)}


def masks(sq, sk):
    i, j = np.arange(sq)[:, None], np.arange(sk)
    return {None: j >= 0, "top_left": j <= i, "bottom_right": j <= i + sk - sq}


def run(b, hq, hk, sq, sk, d, dtype, causal=None, window=None, dead=False):
    q, do = (rng.standard_normal((b, hq, sq, d)).astype(dtype) for _ in range(2))
    k, v = (rng.standard_normal((b, hk, sk, d)).astype(dtype) for _ in range(2))
    live = masks(sq, sk)[causal] & np.ones((sq, sk), bool)
    options = {"causal": causal}
    if window is not None:
        options["window"] = (window, 0)
        i, j = np.arange(sq)[:, None], np.arange(sk)
        live = live & (j >= i + (sk - sq if causal == "bottom_right" else 0) - window)
    if dead:  # what nobody sees may be anything
        k[:, :, ~live.any(0)], v[:, :, ~live.any(0)] = np.nan, np.inf
    _, vjp = attn.attention_vjp(q, k, v, **options)
    found = vjp(do)
    expected = reference(q, k, v, do, live, d**-0.5)
    for name, want in expected.items():
        got = found[name].astype(np.float64)
        size = max(np.abs(want).max(initial=0), 1)
        worst = np.abs(got - want).max(initial=0) / size
        limit = 2e-2 if dtype != np.float32 else 1e-5
        assert worst < limit, (name, worst, b, hq, hk, sq, sk, d, dtype, options)
    again = {}
    for threads in (1, THREADS):
        attn.set_num_threads(threads)
        again = vjp(do)
        for name in found:
            assert found[name].tobytes() == again[name].tobytes(), (name, threads)


def program():
    """attn.fused as it is written."""
    text = """!rows = tensor<?x?x?x64xf32>
attn.monoid private @sum cocycle stats() components(value) outputs("o") {
  lift {
  ^bb0(%s: f32):
    attn.yield %s : f32
  }
  finalize {
  ^bb0(%v: f32):
    attn.yield %v : f32
  }
}
func.func @f(%q: !rows, %k: !rows) -> (!rows, !rows) {
  %r:2 = attn.fused threads(2) {
    %a = attn.aggregate @sum scores(%q, %k : !rows, !rows) values(%k : !rows) -> !rows
    %b = attn.aggregate @sum scores(%k, %q : !rows, !rows) values(%q : !rows)
        {side = #attn.side<queries>} -> !rows
    attn.yield %a, %b : !rows, !rows
  } : !rows, !rows
  return %r#0, %r#1 : !rows, !rows
}"""
    kernel = attn.compile(text)
    for heads in (2, 1):  # together, apart
        q = rng.standard_normal((1, heads, 70, 64)).astype(np.float32)
        k = rng.standard_normal((1, heads, 90, 64)).astype(np.float32)
        scores = q.astype(np.float64) @ k.swapaxes(2, 3)
        for got, want in zip(kernel(q, k), (scores @ k, scores.swapaxes(2, 3) @ q)):
            assert np.abs(got - want).max() < 1e-5 * np.abs(want).max(), heads


program()
bf16 = ml_dtypes.bfloat16
before = attn.get_num_threads()
many = 2 * THREADS
for dtype in (np.float32, bf16):
    for heads in (many, 1):  # one kernel, two kernels
        run(1, heads, heads, 150, 150, 64, dtype)
        run(1, 2 * heads, heads, 70, 133, 40, dtype, "bottom_right")
        run(2, heads, heads, 33, 1, 64, dtype)
        run(1, heads, heads, 90, 200, 64, dtype, "top_left", dead=True)
        run(1, heads, heads, 200, 90, 64, dtype, "bottom_right")  # rows without keys
    run(1, many, many, 300, 300, 64, dtype, "bottom_right", window=40)
for sizes in ((1, many, many, 0, 7), (1, many, many, 7, 0), (0, many, many, 3, 3)):
    run(*sizes, 64, np.float32)
print("gradients by one kernel and by two")
attn.set_num_threads(before)
