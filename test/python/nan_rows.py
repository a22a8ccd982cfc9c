# RUN: %python %s
# RUN: %python %s emulator:sm_90a
# RUN: %python %s emulator:sm_80
"""A NaN in a live score reaches the outputs of its rows, and of no others: where all
scores of a row are NaN, or those of one part of the keys, as well.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import sys

import ml_dtypes
import numpy as np

import attn

TARGET = sys.argv[1] if len(sys.argv) > 1 else None
rng = np.random.default_rng(7)


def draw(*shape):
    return rng.standard_normal(shape).astype(ml_dtypes.bfloat16)


for rows, keys in ((1, 100), (1, 600), (2, 600), (16, 600), (70, 130)):
    q, k, v = draw(1, 8, rows, 128), draw(1, 2, keys, 128), draw(1, 2, keys, 128)
    kernel = attn.compile(q, k, v, target=TARGET, return_lse=True)
    q[0, 1, -1] = np.nan  # a row; then all keys of a head, and a few of it
    for dead in (slice(0, 0), slice(None), slice(64, 128)):
        some = k.copy()
        some[0, 1, dead] = np.nan
        want = np.zeros((8, rows), bool)
        want[1, -1] = True
        want[4:] = dead != slice(0, 0)
        o, lse = kernel(q, some, v)
        assert np.array_equal(np.isnan(o[0].astype(float)).all(-1), want), (rows, dead)
        assert np.array_equal(np.isnan(o[0].astype(float)).any(-1), want), (rows, dead)
        assert np.array_equal(np.isnan(lse[0]), want), (rows, keys, dead)
