# RUN: %python %s
"""Keys that no row sees, in tiles that others see: what they hold, NaN and infinities,
reaches no output, whatever tiles a mask of a captured tensor lists.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
from reference import attention

import attn

DOCUMENTS = """^bb0(%b: i32, %h: i32, %i: i32, %j: i32, %id: tensor<?xi32>):
  %zero = arith.constant 0 : i32
  %at = arith.index_cast %i : i32 to index
  %from = arith.index_cast %j : i32 to index
  %x = tensor.extract %id[%at] : tensor<?xi32>
  %y = tensor.extract %id[%from] : tensor<?xi32>
  %same = arith.cmpi eq, %x, %y : i32
  %some = arith.cmpi sge, %y, %zero : i32
  %live = arith.andi %same, %some : i1
  attn.yield %live : i1"""
rng = np.random.default_rng(0)


def check(target, n, d, heads, documents, spoiled, **options):
    """`spoiled` of the tokens are in no document, and hold no numbers."""
    what = (target, n, d, heads, documents, spoiled, options)
    number = np.sort(rng.integers(0, documents, n)).astype("i4")
    dead = rng.random(n) < spoiled
    number[dead] = -1
    q, k, v = (rng.standard_normal((1, h, n, d)).astype("f2") for h in heads)
    alive = (number[:, None] == number) & ~dead
    want, lse = attention(q, k, v, mask=alive[None, None], **options)
    for x in (k, v):
        x[:, :, dead] = rng.choice([np.nan, np.inf, -np.inf], x[:, :, dead].shape)
    options.update(mask_mod=DOCUMENTS, return_lse=True)
    kernel = attn.compile(q, k, v, captures={"id": number}, target=target, **options)
    got, got_lse = kernel(q, k, v, number)
    assert np.abs(got - want).max() < 4e-3, (what, np.abs(got - want).max())
    live = np.isfinite(lse)
    assert np.array_equal(live, np.isfinite(got_lse)), what
    assert np.abs(got_lse[live] - lse[live]).max(initial=0.0) < 4e-3, what


for target in ("emulator:sm_90a", "emulator:sm_80", None):
    check(target, 300, 64, (2, 1, 1), 3, 0.3)
    check(target, 200, 128, (2, 2, 2), 1, 0.02)
    check(target, 260, 64, (1, 1, 1), 4, 0.1, causal="top_left")
print("ok")
