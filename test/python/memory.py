# RUN: %python %s
"""A long sequence runs in its inputs, its outputs and less than 64 MiB: no
copies, no scores in memory. 16,384 keys; 65,536 where long tests are asked for.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import os

import numpy as np

import attn

MIB = 2**20


def status(key):
    with open("/proc/self/status") as file:
        for line in file:
            if line.startswith(key + ":"):
                return int(line.split()[1]) * 1024


def measure(n, **options):
    """Memory that a run adds at its peak, and what its scores would take."""
    x = np.zeros((1, 1, n, 64), np.float32)
    x[...] = np.linspace(-1, 1, 64)
    small = x[:, :, :64]
    out = np.ones_like(x)
    attn.attention(small, small, small, out=out[:, :, :64], **options)
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # the peak starts anew
    before = status("VmRSS")
    attn.attention(x, x, x, out=out, **options)
    added = status("VmHWM") - before
    assert np.allclose(out[0, 0, n // 2], x[0, 0, 0], atol=5e-3)
    return added


n = 65536 if os.environ.get("ATTN_TEST_EXPENSIVE") else 16384
for options in ({}, {"causal": "top_left", "return_lse": True, "softcap": 9.0}):
    added = measure(n, **options)
    print("%d keys %s: %.1f MiB" % (n, sorted(options), added / MIB))
    assert added < 64 * MIB, added
