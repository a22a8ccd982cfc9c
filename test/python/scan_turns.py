# RUN: %python %s
"""Scans whose tokens take turns on threads: the numbers of one walk, for any threads.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
from scan_reference import recurrence

import attn

rng = np.random.default_rng()


def check(heads, tokens, d, rule, first):
    normal = lambda *shape: rng.standard_normal(shape).astype("f")
    q, k, v = (normal(2, heads, tokens, d) for _ in range(3))
    k /= np.linalg.norm(k, axis=-1, keepdims=True)
    given = {}
    if rule != "sums":
        width = (d,) if rule == "key" else ()
        given["decay"] = -0.1 * abs(normal(2, heads, tokens, *width))
    if rule == "erase":
        erase = [0.1 * normal(2, heads, tokens, d) for _ in range(2)]
        given["erase"] = (*erase, "before")
    if rule == "delta":
        given["beta"] = rng.random((2, heads, tokens)).astype("f")
    state = {"S": normal(2, heads, d, d)} if first else None
    results = []
    for threads in (1, 2, 7):
        attn.set_num_threads(threads)
        out, last = attn.scan(q, k, v, initial_state=state, return_state=True, **given)
        results.append((out, last["S"]))
        assert np.array_equal(attn.scan(q, k, v, initial_state=state, **given), out)
    for other in results[1:]:
        assert all(map(np.array_equal, results[0], other))
    wide = lambda x: x.astype("d")
    start = {"S": wide(state["S"])} if first else None
    want, last = recurrence(
        *map(wide, (q, k, v)),
        state=start,
        **{n: x if n == "erase" else wide(x) for n, x in given.items()}
    )
    for got, expected in zip(results[0], (want, last["S"])):
        error = abs(got - expected).max() / abs(expected).max()
        assert error < 2e-5, (heads, tokens, rule, first, error)


for tokens in (1, 511, 512, 513, 1024, 1300):
    for rule in ("sums", "head", "key", "delta", "erase"):
        check(5, tokens, 16, rule, first=tokens % 2 == 0)
check(4, 2600, 32, "delta", first=True)
# So few states, or so many, that each is one turn.
check(2, 1300, 16, "delta", first=True)
check(130, 600, 16, "head", first=True)
print("ok")
