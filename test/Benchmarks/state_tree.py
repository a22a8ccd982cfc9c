"""attn.StateTree of a million tokens: what an edit costs beside computing all again.

usage: state_tree.py [--tokens 1048576] [--leaf 512] [--depth 64]

Rows say how many products of states an edit of one token has made, and processor time
of one thread: for the edit and the read behind it (the last state, or attention of
one query), and for the same from the tokens (attn.scan with its last state,
attn.attention). Results are compared first.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import argparse
import time

import numpy as np

import attn


def timed(call):
    start = time.process_time()
    result = call()
    return result, time.process_time() - start


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tokens", type=int, default=1 << 20)
    parser.add_argument("--leaf", type=int, default=512)
    parser.add_argument("--depth", type=int, default=64)
    options = parser.parse_args()
    t, d = options.tokens, options.depth
    attn.set_num_threads(1)
    rng = np.random.default_rng(7)
    normal = lambda *shape: rng.standard_normal(shape, "f")
    k, v, q = normal(1, 1, t, d), normal(1, 1, t, d), normal(1, 1, 1, d)
    k /= np.linalg.norm(k, axis=-1, keepdims=True)
    decay = -rng.exponential(1e-5, (1, 1, t)).astype("f")
    beta = rng.uniform(0, 1, (1, 1, t)).astype("f")
    print(f"{t} tokens, leaves of {options.leaf}, {d} x {d}")
    print("| rule | making the tree, s | combines | edit and read, ms | again, ms |")
    print("|---|---|---|---|---|")
    rules = {
        "gated delta": (
            attn.StateTree(leaf=options.leaf),
            dict(decay=decay, beta=beta),
        ),
        "softmax": (attn.StateTree(leaf=options.leaf, monoid="softmax"), {}),
    }
    for rule, (tree, given) in rules.items():

        def read():
            return tree.state()["S"] if given else tree.read(q)

        def again():
            if given:
                return attn.scan(k, k, v, return_state=True, **given)[1]["S"]
            return attn.attention(q, k, v)

        def edit(i):
            k[:, :, i], v[:, :, i] = k[:, :, i - 1], v[:, :, i + 1]
            rows = {n: x[:, :, i : i + 1] for n, x in given.items()}
            tree.update(i, k[:, :, i : i + 1], v[:, :, i : i + 1], **rows)
            return read()

        _, making = timed(lambda: (tree.append(k, v, **given), read()))
        edit(t // 2)
        combines, best = tree.combines, float("inf")
        for i in (t // 3, 5, t - 2):
            got, seconds = timed(lambda i=i: edit(i))
            best = min(best, seconds)
        combines = (tree.combines - combines) / 3
        want, whole = timed(again)
        error = abs(got - want).max() / abs(want).max()
        assert error < 1e-4, (rule, error)
        print(
            f"| {rule} | {making:.1f} | {combines:.0f} | {best * 1e3:.2f} "
            f"| {whole * 1e3:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
