# RUN: %python %s
"""A forked child goes on with its parent's kernels, and with new ones.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import os
import signal
import sys
import threading

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
from reference import qkv

import attn

rng = np.random.default_rng(5)
q, k, v = qkv(rng, sq=200, sk=300)
attn.set_num_threads(3)
want = attn.attention(q, k, v)  # starts the threads


def child(depth):
    # The kernel of the parent, then one that only the child compiles.
    same = np.array_equal(attn.attention(q, k, v), want)
    out = attn.attention(q, k, v, softcap=2.0, scale=1.0 if depth else None)
    return same and np.isfinite(out).all() and (depth == 0 or forked(depth - 1))


def forked(depth):
    pid = os.fork()
    if pid == 0:
        signal.alarm(120)  # a child that hangs is a failure
        os._exit(0 if child(depth) else 1)
    return os.waitpid(pid, 0)[1] == 0


assert forked(1), "the child failed"
assert np.array_equal(attn.attention(q, k, v), want)

# Forked while other threads run kernels, and some compile: two the same ones.
stop = threading.Event()
failures = []


def work():
    while not stop.is_set():
        if not np.array_equal(attn.attention(q, k, v), want):
            failures.append("a thread got another result")


def compile_on(first):
    dim = first
    while not stop.is_set():
        x = np.ones((1, 1, 3, dim), np.float32)
        if not np.allclose(attn.attention(x, x, x), x):
            failures.append("a kernel compiled beside forks is wrong")
        dim += 1


threads = [threading.Thread(target=work) for _ in range(2)]
threads += [threading.Thread(target=compile_on, args=(n,)) for n in (1, 1, 100)]
for thread in threads:
    thread.start()
try:
    for _ in range(5):
        assert forked(0), "a child forked from running threads failed"
finally:
    stop.set()
    for thread in threads:
        thread.join()
assert not failures, failures[0]
