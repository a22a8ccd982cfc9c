# RUN: %python %s
"""target="emulator:...": code for a GPU on arrays of the host.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import os

import numpy as np

import attn

rng = np.random.default_rng(3)
q, k, v = (rng.standard_normal((1, heads, rows, 64)).astype("f2")
           for heads, rows in ((2, 70), (1, 90), (1, 90)))


def expected(q, k, v):
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    s = q @ k.swapaxes(-1, -2) / 8.0
    s[..., np.triu_indices(70, 21, 90)[0], np.triu_indices(70, 21, 90)[1]] = -np.inf
    p = np.exp(s - s.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True) @ v


for target in ("emulator:sm_80", "emulator:sm_90a"):
    kernel = attn.compile(q, k, v, causal="bottom_right", target=target)
    assert kernel.target == target
    assert "tile_gpu.role" in kernel.mlir("gpu")
    for schedules in ("eager", "random:4,adversary:1,lazy"):
        os.environ["ATTN_EMULATOR"] = schedules
        o = kernel(q, k, v)
        assert np.abs(o - expected(q, k, v)).max() < 4e-3

os.environ["ATTN_EMULATOR"] = "perhaps"
try:
    kernel(q, k, v)
except ValueError as error:
    assert "expected ATTN_EMULATOR to list" in str(error), error
else:
    raise AssertionError("expected an error of a schedule that there is not")
