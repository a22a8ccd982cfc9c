# RUN: %python %s
"""Sums of f16 weights that f16 does not hold: too large, and too small.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

Weights of sums without a statistic are not relative to any other. GPUs multiply them
with values in f16, which ends at 65504 and has few bits below 2^-14.
"""

import numpy as np

import attn

rng = np.random.default_rng(29)
WEIGHTS = {
    "relu_sum": lambda s: np.maximum(s, 0),
    "relu2_sum": lambda s: np.maximum(s, 0) ** 2,
    "sigmoid_sum": lambda s: np.exp(np.minimum(s, 0)) / (1 + np.exp(-np.abs(s))),
}
OWN = """
attn.monoid @own cocycle stats() components(value, unit, value)
    outputs("o", "total", "signed") {
  lift {
  ^bb0(%s: f32):
    %w = arith.mulf %s, %s : f32
    %one = arith.constant 1.0 : f32
    attn.yield %w, %one, %s : f32, f32, f32
  }
  finalize {
  ^bb0(%o: f32, %total: f32, %signed: f32):
    attn.yield %o, %total, %signed : f32, f32, f32
  }
}
"""

# A weight that its statistic does not tell: both are held until the row's is known.
SIGNED = """
attn.monoid @signs cocycle stats(f32) components(value) outputs("o") {
  identity {
    %least = arith.constant 0xFF800000 : f32
    attn.yield %least : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32):
    %m = arith.maximumf %a, %b : f32
    attn.yield %m : f32
  }
  rescale {
  ^bb0(%from: f32, %to: f32):
    %d = arith.subf %from, %to : f32
    %e = math.exp %d : f32
    attn.yield %e : f32
  }
  lift {
  ^bb0(%s: f32):
    %m = math.absf %s : f32
    %one = arith.constant 1.0 : f32
    %w = math.copysign %one, %s : f32
    attn.yield %m, %w : f32, f32
  }
  finalize {
  ^bb0(%m: f32, %o: f32):
    attn.yield %o : f32
  }
}
"""


def check(what, got, want, size):
    """The error beside the sum of the sizes of terms."""
    got = np.asarray(got).astype("f8")
    assert np.isfinite(got).all(), (what, "not finite")
    off = np.abs(got - want) / np.maximum(size, 1e-30)
    assert off.max(initial=0) < 1.5e-3, (what, off.max(initial=0))


def run(what, monoid, target, scale, sq, sk, causal=False, dead=0, dropout=0.0):
    """Rows of queries differ in size by powers of two, and 1/16 of them are 0."""
    rows = 2.0 ** rng.integers(-4, 5, (1, 4, sq, 1))
    rows *= rng.random((1, 4, sq, 1)) > 1 / 16
    q = (rng.standard_normal((1, 4, sq, 64)) * rows).astype("f2")
    k, v = (rng.standard_normal((1, 2, sk, 64)).astype("f2") for _ in range(2))
    if scale > 1:  # results have to be numbers of f16
        v *= np.float16(2.0**-17)
    live = sk - dead
    k[:, :, live:], v[:, :, live:] = np.nan, np.inf
    kk, vv = (np.repeat(x[:, :, :live], 2, 1).astype("f8") for x in (k, v))
    s = q.astype("f8") @ kk.swapaxes(-1, -2) * scale
    mask = np.ones((sq, live), bool)
    if causal:
        mask = np.arange(live) <= np.arange(sq)[:, None] + live - sq
    options = {"causal": "bottom_right"} if causal else {}
    numbers = {}
    if dead:
        options["kv_lengths"] = numbers["kv_lengths"] = np.array([live], "i4")
    kernel = attn.compile(q, k, v, monoid=monoid, scale=scale, target=target, **options)
    outputs = kernel(q, k, v, scale=scale, **numbers)
    if monoid is not OWN:
        wanted = [(WEIGHTS[monoid](s), vv)]
        outputs = [outputs]
    else:
        wanted = [(s * s, vv), (np.ones_like(s), None), (s, vv)]
    for got, (w, values) in zip(outputs, wanted):
        w = np.where(mask, w, 0)
        if values is None:
            check((what, "total"), got, w.sum(-1), w.sum(-1))
            continue
        # The last bit of a small result of f16 is no error.
        check(what, got, w @ values, np.abs(w) @ np.abs(values) + 2.0**-25 / 1e-3)


for target in (None, "emulator:sm_90a", "emulator:sm_80"):
    for monoid in (*WEIGHTS, OWN):
        for scale in (2.0**-15, 1 / 8, 30.0):
            name = "own" if monoid is OWN else monoid
            run((name, target, scale, "causal"), monoid, target, scale, 70, 300,
                causal=True)
            run((name, target, scale, "ends"), monoid, target, scale, 3, 1030, dead=17)
    q, k, v = (rng.standard_normal((1, 2, n, 128)).astype("f2") for n in (70, 300, 300))
    o = attn.compile(q, k, v, monoid=SIGNED, target=target)(q, k, v)
    s = q.astype("f8") @ k.swapaxes(-1, -2).astype("f8") * 128**-0.5
    w = np.sign(s) * np.exp(np.abs(s) - np.abs(s).max(-1, keepdims=True))
    check(("signs", target), o, w @ v.astype("f8"), np.abs(w) @ np.abs(v))
    # Equal scores: what a weight loses to f16 does not average out.
    for score in (-14.0, -11.0, 3.0):
        q, k = np.ones((1, 1, 8, 32), "f2"), np.zeros((1, 1, 900, 32), "f2")
        k[..., 0], v = score, (rng.random((1, 1, 900, 32)) + 0.5).astype("f2")
        options = {"monoid": "stick_breaking", "scale": 1.0}
        o = attn.compile(q, k, v, target=target, **options)(q, k, v, scale=1.0)
        share = 1 / (1 + np.exp(-score))
        w = share * (1 - share) ** np.arange(900)[::-1]
        check(("stick", target, score), o, w @ v.astype("f8"), w @ v + 2.0**-25 / 1e-3)
