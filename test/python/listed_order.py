# RUN: %python %s
"""Documents of uneven lengths, each batch with its own, on more work tiles than go
without an order: of the heads that come last query tiles come by their lists.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
from reference import attention

import attn

DOCUMENTS = """^bb0(%b: i32, %h: i32, %i: i32, %j: i32, %id: tensor<?x?xi32>):
  %of = arith.index_cast %b : i32 to index
  %at = arith.index_cast %i : i32 to index
  %from = arith.index_cast %j : i32 to index
  %x = tensor.extract %id[%of, %at] : tensor<?x?xi32>
  %y = tensor.extract %id[%of, %from] : tensor<?x?xi32>
  %live = arith.cmpi eq, %x, %y : i32
  attn.yield %live : i1"""
rng = np.random.default_rng(0)


def check(b, h, n, d, **options):
    ends = np.sort(rng.integers(1, n, (b, 4)), -1)
    number = (np.arange(n)[:, None] >= ends[:, None]).sum(-1).astype("i4")
    q, k, v = (rng.standard_normal((b, h, n, d)).astype("f2") for _ in range(3))
    alive = number[:, None, :, None] == number[:, None, None]
    want, _ = attention(q, k, v, mask=alive, **options)
    kernel = attn.compile(q, k, v, mask_mod=DOCUMENTS, captures={"id": number},
                          target="emulator:sm_90a", **options)
    assert "of the heads that come last" in kernel.explain(), kernel.explain()
    got = np.full_like(q, np.nan)
    kernel(q, k, v, number, out=got)
    off = np.abs(got - want).max()
    assert off < 4e-3, (b, h, n, d, options, off)


# 34 heads of each batch in three sections, 272 and 280 work tiles.
check(2, 34, 385, 128)
check(2, 35, 600, 64)
print("ok")
