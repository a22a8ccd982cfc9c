# RUN: %python %s emulator:sm_90a
"""Masks whose key tiles are listed act behind the maxima of scores: rows of which dead
keys have scores far above those of live ones, or none but dead keys, are as they should
be, with splits of the keys too, and with dead keys that are not finite.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import sys

import ml_dtypes
import numpy as np

import attn

TARGET = sys.argv[1]
rng = np.random.default_rng(11)

IDS = """
  ^bb0(%b: i32, %h: i32, %i: i32, %j: i32, %x: tensor<?xi32>, %y: tensor<?xi32>):
    %r = arith.index_cast %i : i32 to index
    %c = arith.index_cast %j : i32 to index
    %own = tensor.extract %x[%r] : tensor<?xi32>
    %its = tensor.extract %y[%c] : tensor<?xi32>
    %same = arith.cmpi eq, %own, %its : i32
    attn.yield %same : i1
"""
# Keys of the same parity that are near: tiles have bits.
EVENS = """
  ^bb0(%b: i32, %h: i32, %i: i32, %j: i32):
    %two = arith.constant 2 : i32
    %reach = arith.constant 90 : i32
    %none = arith.constant -90 : i32
    %zero = arith.constant 0 : i32
    %apart = arith.subi %i, %j : i32
    %part = arith.remsi %apart, %two : i32
    %even = arith.cmpi eq, %part, %zero : i32
    %near = arith.cmpi sle, %apart, %reach : i32
    %far = arith.cmpi sge, %apart, %none : i32
    %inside = arith.andi %near, %far : i1
    %live = arith.andi %even, %inside : i1
    attn.yield %live : i1
"""


def draw(*shape):
    return rng.standard_normal(shape).astype(ml_dtypes.bfloat16)


def check(name, out, lse, q, k, v, live):
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    with np.errstate(all="ignore"):
        s = np.where(live, q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]), -np.inf)
        top = np.maximum(s.max(-1, keepdims=True), np.finfo(float).min)
        p = np.where(live, np.exp(s - top), 0.0)
        total = p.sum(-1, keepdims=True)
        want = p @ np.where(live.any(-2)[..., None], v, 0.0) / np.where(
            total > 0, total, 1.0)
        log = np.where(total > 0, np.log(np.where(total > 0, total, 1.0)) + top,
                       -np.inf)[..., 0]
    out, lse = out.astype(np.float64), lse.astype(np.float64)
    assert np.isfinite(out).all(), name
    off = np.abs(out - want).max()
    assert off < 0.03, (name, off)
    dead = ~live.any(-1) & np.ones_like(lse, bool)
    assert (lse[dead] == -np.inf).all(), name
    off = np.abs(lse[~dead] - log[~dead])
    assert (off <= 1e-3 * np.maximum(1.0, np.abs(log[~dead]))).all(), (name, off.max())


def run(name, text, q, k, v, live):
    live = np.broadcast_to(live, (1, 1) + live.shape[-2:])
    captures = {"x": own, "y": its} if text is IDS else {}
    kernel = attn.compile(q, k, v, mask_mod=text, return_lse=True, target=TARGET,
                          captures=captures)
    out, lse = kernel(q, k, v, *captures.values())
    check(name, out, lse, q, k, v, live)


n, d = 320, 128
own = np.sort(rng.integers(0, 4, n)).astype(np.int32)
its = own.copy()
own[100:130] = -1  # rows that see no key, beside rows that do
i, j = np.arange(n)[:, None], np.arange(n)[None, :]
same = own[:, None] == its[None, :]
even = ((i - j) % 2 == 0) & (np.abs(i - j) <= 90)
q, k, v = draw(1, 2, n, d), draw(1, 2, n, d), draw(1, 2, n, d)
for name, text, live in (("ids", IDS, same), ("evens", EVENS, even)):
    run(name, text, q, k, v, live)
    # Dead keys of some rows are 30 to 3000 ahead: all keys of a document, or
    # those at odd places.
    for much in (3, 20, 300):
        loud = k.copy()
        loud[:, :, (its == 2) if text is IDS else (np.arange(n) % 2 == 1)] *= much
        run("%s x %d" % (name, much), text, q, loud, v, live)
    # What no row sees may be anything.
    if text is IDS:
        its[its == 1] = 77
        seen = own[:, None] == its[None, :]
        for bad in (np.nan, np.inf, -np.inf, 1e30):
            spoiled, worse = k.copy(), v.copy()
            spoiled[:, :, its == 77] = bad
            run("keys %s" % bad, text, q, spoiled, v, seen)
            worse[:, :, its == 77] = bad
            run("values %s" % bad, text, q, spoiled, worse, seen)
