# RUN: %python %s
"""Rows whose scores are far from 0, among others that are not, on GPUs' kernels.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

Elements are whole numbers times powers of two, so that dots are exact and scores
are what float32 makes of their product with the scale.
"""

import ml_dtypes
import numpy as np

import attn

rng = np.random.default_rng(5)


def reference(q, k, v, live, scale, sinks=None):
    """(o, lse) of [h, sq, d] and [hk, sk, d]."""
    group = len(q) // len(k)
    k, v = (np.repeat(x, group, 0).astype("f8") for x in (k, v))
    with np.errstate(over="ignore", invalid="ignore"):
        s = (q.astype("f8") @ k.swapaxes(-1, -2)).astype("f") * np.float32(scale)
        s = np.where(live, s, np.float32(-np.inf)).astype("f8")
        if sinks is not None:
            s = np.concatenate([s, np.broadcast_to(sinks[:, None, None],
                                                   s.shape[:2] + (1,))], -1)
        m = s.max(-1, keepdims=True)
        m = np.where(m == -np.inf, 0, m)
        p = np.exp(s - m)
    total = p.sum(-1, keepdims=True)
    v = np.where(live.any(-2)[..., None], v, 0)
    o = p[..., : v.shape[1]] @ v / np.where(total == 0, 1, total)
    with np.errstate(divide="ignore"):
        return o, (m + np.log(total))[..., 0]


def check(what, got, want, tolerance):
    got = np.asarray(got).astype("f8")
    off = np.where(got == want, 0, np.abs(got - want) / np.maximum(1, np.abs(want)))
    assert not np.isnan(got).any(), (what, "NaN")
    assert off.max(initial=0) < tolerance, (what, off.max())


def draw(shape, dtype, far=0.0):
    x = rng.integers(-3, 4, shape).astype("f")
    if far:  # rows that are far, for bf16 and f32
        x *= np.where(rng.random(shape[:-1] + (1,)) < far, np.float32(2.0**30),
                      np.float32(1))
    return x.astype(dtype)


CAUSAL = """%late = arith.cmpi sle, %j, %i : i32
  %same = arith.andi %late, %equal : i1"""
IDS = """^bb0(%%b: i32, %%h: i32, %%i: i32, %%j: i32, %%ids: tensor<?xi32>):
  %%ii = arith.index_cast %%i : i32 to index
  %%jj = arith.index_cast %%j : i32 to index
  %%x = tensor.extract %%ids[%%ii] : tensor<?xi32>
  %%y = tensor.extract %%ids[%%jj] : tensor<?xi32>
  %%equal = arith.cmpi eq, %%x, %%y : i32
  %s
  attn.yield %%%s : i1
"""
TYPES = {"bf16": (ml_dtypes.bfloat16, 0.02), "f16": (np.float16, 4e-3),
         "f32": (np.float32, 2e-5)}
options = {
    "plain": {},
    "causal": {"causal": "bottom_right"},
    "window": {"window": (40, 3)},
    "lengths": {"kv_lengths": 170},
    "sinks": {"sinks": 1e10},
    # Of masks whose key tiles a kernel lists: by ids, those of pairs, and both
    # by bits.
    "ids": {"mask_mod": IDS % ("", "equal")},
    "pairs": {},
    "causal ids": {"mask_mod": IDS % (CAUSAL, "same")},
}
for target in ("emulator:sm_90a", "emulator:sm_80"):
    for name, option in options.items():
        for kind, (dtype, tolerance) in TYPES.items():
            for hq, hk, sq, sk, d, dv in ((2, 1, 136, 200, 64, 80),
                                          (8, 2, 3, 400, 64, 64)):
                scale = rng.choice([0.1, 1e9, -1e9, 1e20, 1e30])
                q = draw((1, hq, sq, d), dtype,
                         far=0.0 if kind == "f16" or scale > 1e25 else 0.3)
                k, v = draw((1, hk, sk, d), dtype), draw((1, hk, sk, dv), dtype)
                i, j = np.arange(sq)[:, None] + sk - sq, np.arange(sk)
                live = np.ones((sq, sk), bool)
                extra = dict(option)
                if name == "causal":
                    live = j <= i
                elif name == "window":
                    live = (i - j <= 40) & (j - i <= 3)
                elif name == "lengths":
                    extra["kv_lengths"] = np.array([170], np.int32)
                    live = np.broadcast_to(j < 170, (sq, sk))
                    v[:, :, 170:] = np.nan
                elif name.endswith("ids"):
                    # Where more rows are than ids no row is read.
                    ids = (np.arange(max(sq, sk)) // 70).astype(np.int32)
                    extra["captures"] = {"ids": ids}
                    live = ids[:sq, None] == ids[:sk]
                    if name.startswith("causal"):
                        live &= j <= np.arange(sq)[:, None]
                elif name == "pairs":
                    live = rng.random((sq, sk)) < 0.1
                    live[:, 128:] |= rng.random((sq, 1)) < 0.5
                    extra["mask"] = live[None, None]
                sinks = None
                if name == "sinks":
                    sinks = np.linspace(-3, 1, hq).astype("f") * np.float32(1e10)
                    extra["sinks"] = sinks
                numbers = {x: y for x, y in extra.items() if isinstance(y, np.ndarray)}
                if name == "window":
                    numbers = {"window_left": 40, "window_right": 3}
                numbers.update(extra.get("captures", {}))
                kernel = attn.compile(q, k, v, scale=scale, return_lse=True,
                                      target=target, **extra)
                o, lse = kernel(q, k, v, scale=scale, **numbers)
                want = reference(*(np.asarray(x[0]).astype("f") for x in (q, k, v)),
                                 live, scale, sinks)
                what = (target, name, kind, scale, sq)
                check(what, o[0], want[0], tolerance)
                check(what, lse[0], want[1], 2e-6)

# Packed sequences, one of them of far rows alone.
for target in ("emulator:sm_90a", "emulator:sm_80"):
    offsets = np.array([0, 70, 70, 300], np.int32)
    q, k, v = (draw((n, 2, 64), ml_dtypes.bfloat16) for n in (300, 300, 300))
    q[:70] *= ml_dtypes.bfloat16(2.0**40)
    run = attn.compile(q, k, v, layout="thd", scale=0.125, causal="bottom_right",
                       cu_seqlens_q=offsets, cu_seqlens_k=offsets, return_lse=True,
                       target=target)
    q, k, v = (x.swapaxes(0, 1) for x in (q, k, v))
    o, lse = run(q, k, v, scale=0.125, cu_seqlens_q=offsets, cu_seqlens_k=offsets)
    for a, b in ((0, 70), (70, 300)):
        rows = [np.asarray(x[:, a:b]).astype("f") for x in (q, k, v)]
        want = reference(*rows, np.tri(b - a, dtype=bool), 0.125)
        check((target, "packed"), np.asarray(o)[:, a:b], want[0], 0.02)
        check((target, "packed"), np.asarray(lse)[:, a:b], want[1], 2e-6)
# Rows just within the limit, of many key tiles: what a fused product would lose by
# rounding in each of them, up to 2^32, would be the sums' factor.
for target in ("emulator:sm_90a", "emulator:sm_80"):
    for d, kind, far, scale in ((16, "bf16", 2.0**13, None), (32, "f16", 64.0, 7.0),
                                (220, "bf16", 1.0, 1e4)):
        dtype, tolerance = TYPES[kind]
        q, k, v = (draw((1, h, n, d), dtype) for h, n in ((4, 1), (2, 2900), (2, 2900)))
        q, k = q * dtype(far), k * dtype(far)
        scale = scale or d**-0.5
        run = attn.compile(q, k, v, scale=scale, return_lse=True, target=target)
        o, lse = run(q, k, v, scale=scale)
        want = reference(*(x[0].astype("f") for x in (q, k, v)),
                         np.ones((1, 2900), bool), scale)
        check((target, kind, d, "many tiles"), o[0], want[0], tolerance)
        check((target, kind, d, "many tiles"), lse[0], want[1], 5e-7)
# A score that is the limit itself, -2^29 of f16, above a sink that is far below.
for target in ("emulator:sm_90a", "emulator:sm_80"):
    q = np.zeros((1, 1, 4, 32), np.float16)
    q[..., :2] = 2.0**14
    v = np.ones_like(q)
    for causal in (None, "bottom_right"):
        sinks = np.zeros(1, "f")
        run = attn.compile(q, -q, v, sinks=sinks, causal=causal, target=target)
        for sink in (-1e30, -3.4e38):
            o = np.asarray(run(q, -q, v, np.full(1, sink, "f")))
            assert (o == 1).all(), (target, causal, sink, o[..., 0])
# Distances times slopes that leave one key, or the same for all; a row that is far
# has no linear tiles when it is done again.
for target in ("emulator:sm_90a", "emulator:sm_80"):
    q, k, v = (draw((1, 3, n, 64), ml_dtypes.bfloat16) for n in (150, 400, 400))
    slopes = np.array([0.5, 1e9, 1e30], "f")
    run = attn.compile(q, k, v, scale=0.125, alibi_slopes=slopes, return_lse=True,
                       target=target)
    o, lse = run(q, k, v, scale=0.125, alibi_slopes=slopes)
    distance = np.abs(np.arange(150)[:, None] + 250 - np.arange(400)).astype("f")
    q, k, v = (np.asarray(x[0]).astype("f") for x in (q, k, v))
    s = (q
         @ k.swapaxes(-1, -2) * np.float32(0.125) - slopes[:, None,
                                                           None] * distance).astype(
                                                               "f8")
    m = s.max(-1, keepdims=True)
    p = np.exp(s - m)
    check((target, "slopes"), o[0], p @ v.astype("f8") / p.sum(-1, keepdims=True), 0.02)
    check((target, "slopes"), lse[0], (m + np.log(p.sum(-1, keepdims=True)))[..., 0],
          2e-6)
print("ok")
