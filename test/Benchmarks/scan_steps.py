"""Steps of scans on the CPU beside a copy of as many bytes.

usage: scan_steps.py [--sequences 384] [--heads 16] [--depth 128] [--repeat 5]

States in f32 that exceed the caches; one thread, processor time, the least of so many
runs. A step reads and writes the states; `copy` copies one half of them onto the
other twice, which reads and writes as many bytes, and `scale` multiplies all of them
by a number where they are, which needs no line of memory before it is written.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import argparse
import time

import numpy as np

import attn


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sequences", type=int, default=384)
    parser.add_argument("--heads", type=int, default=16)
    parser.add_argument("--depth", type=int, default=128)
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    b, h, d = options.sequences, options.heads, options.depth
    attn.set_num_threads(1)
    rng = np.random.default_rng(0)
    normal = lambda *shape: rng.standard_normal(shape).astype("f")
    q, k, v = normal(b, h, d), normal(b, h, d), normal(b, h, d)
    k /= np.linalg.norm(k, axis=-1, keepdims=True)
    state, out = {"S": normal(b, h, d, d)}, np.empty_like(v)
    halves = state["S"].reshape(2, -1)
    head, key = -0.1 * abs(normal(b, h)), -0.1 * abs(normal(b, h, d))
    beta = rng.uniform(0, 1, (b, h)).astype("f")

    def copy():
        np.copyto(halves[1], halves[0])
        np.copyto(halves[0], halves[1])

    def scale():
        np.multiply(state["S"], np.float32(0.999), out=state["S"])

    def best(call):
        least = float("inf")
        for _ in range(options.repeat):
            start = time.process_time()
            call()
            least = min(least, time.process_time() - start)
        return least

    calls = {"copy": copy, "scale": scale}
    for rule, operands in (("sums", {}), ("decay", {"decay": head}),
                           ("gated delta", {"decay": head, "beta": beta}),
                           ("GLA", {"decay": key}),
                           ("KDA", {"decay": key, "beta": beta})):
        calls[rule] = lambda operands=operands: attn.scan_step(q, k, v, state, out=out,
                                                               **operands)
    print("%d states of %d x %d in f32, one thread" % (b * h, d, d))
    print("| | ms | GB/s | of the copy's rate |")
    print("|---|---|---|---|")
    size, first = 2 * state["S"].nbytes, None
    for name, call in calls.items():
        seconds = best(call)
        first = first or seconds
        print("| %s | %.1f | %.1f | %.2f |" % (name, seconds * 1e3,
                                               size / seconds * 1e-9, first / seconds))


if __name__ == "__main__":
    main()
