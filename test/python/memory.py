# RUN: %python %s
"""A long sequence runs in its inputs, its outputs and less than 64 MiB: no
copies, no scores in memory. 16,384 keys; 65,536 where long tests are asked for.
Gradients take 5 % beside inputs, outputs and themselves, and where those of queries
are added up in memory one array of f32.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import os

import numpy as np
from ml_dtypes import bfloat16

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


def measure_gradients(n, heads, dtype):
    x = np.zeros((1, heads, n, 64), dtype)
    x[...] = np.linspace(-1, 1, 64)

    def train(x):
        output, vjp = attn.attention_vjp(x, x, x)
        return output, vjp(x)

    train(x[:, :, :64])
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    before = status("VmRSS")
    output, gradients = train(x)
    added = status("VmHWM") - before
    made = output.nbytes + sum(g.nbytes for g in gradients.values())
    return added - made, 0.05 * (4 * x.nbytes + made)


threads = len(os.sched_getaffinity(0))
for heads, dtype in ((1, np.float32), (threads, bfloat16)):
    length = n // heads  # the same size for any number of threads
    rest, limit = measure_gradients(length, heads, dtype)
    if dtype == bfloat16:
        limit += 4 * heads * length * 64
    print("gradients, %d keys, %d heads: %.1f MiB" % (length, heads, rest / MIB))
    assert rest < limit, (rest, limit)
