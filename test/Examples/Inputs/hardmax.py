"""The monoid of hardmax.mlir, compiled, against numpy.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import sys

import numpy as np

import attn

with open(sys.argv[1]) as file:
    text = file.read()

# Whole numbers and a scale of 1, so that scores are exact and tie.
rng = np.random.default_rng(0)
q = rng.integers(-1, 2, (2, 4, 70, 8)).astype("f")
k = rng.integers(-1, 2, (2, 2, 300, 8)).astype("f")
v = rng.standard_normal((2, 2, 300, 24)).astype("f")
o, aux = attn.attention(
    q, k, v, scale=1.0, causal="bottom_right", monoid=text, return_aux=["count"]
)

k, v = k.repeat(2, 1), v.repeat(2, 1)
live = np.arange(300) <= np.arange(70)[:, None] + 300 - 70
scores = np.where(live, q @ k.swapaxes(2, 3), -np.inf)
largest = scores == scores.max(-1, keepdims=True)
count = largest.sum(-1)
assert count.max() > 3, "nothing ties"
assert (aux["count"] == count).all(), (aux["count"], count)
np.testing.assert_allclose(
    o, (largest.astype("d") @ v) / count[..., None], rtol=1e-5, atol=1e-6
)
