# RUN: %python %s
"""Blocks tell their first items ahead of the wait for what ran before, which may yet
write lengths and tables. No emulated launch begins before the one ahead has ended, so
that what is told holds: here every length that is read ahead of a wait is spoilt, and
results are those of lengths and tables as they are.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import re

import ml_dtypes
import numpy as np

import attn

READ = re.compile(r"(%\w+) = (memref\.load .*nontemporal.* : memref<\?xi32.*)")


def spoil(text, by):
    """The text with lengths read ahead of waits changed, and how many were."""
    lines, waited, count = [], True, 0
    for line in text.split("\n"):
        if "tile_gpu.scheduler dynamic" in line or "tile_gpu.role" in line:
            waited = False
        waited = waited or "tile_gpu.dependencies.wait" in line
        read = READ.search(line)
        if waited or not read:
            lines.append(line)
            continue
        count += 1
        lines += ["%%told%d = %s" % (count, read[2]),
                  "%%by%d = arith.constant %d : i32" % (count, by),
                  "%s = arith.xori %%told%d, %%by%d : i32" % (read[1], count, count)]
    return "\n".join(lines), count


def reference(q, k, v, table, lengths):
    out = np.zeros(q.shape)
    for i, n in enumerate(lengths):
        rows = [x[table[i]].astype(float).swapaxes(0, 1) for x in (k, v)]
        keys, values = (x.reshape(x.shape[0], -1, x.shape[-1])[:, :n].repeat(
            q.shape[1] // x.shape[0], 0) for x in rows)
        scores = q[i].astype(float) @ keys.swapaxes(1, 2) * q.shape[-1] ** -0.5
        weights = np.exp(scores - scores.max(-1, keepdims=True, initial=-1e30))
        if n:
            out[i] = weights @ values / weights.sum(-1, keepdims=True)
    return out


def check(rng, b, hq, hk, most, page, sizes, by):
    pages = b * most // page
    q, k, v = (rng.standard_normal(s).astype(ml_dtypes.bfloat16) for s in (
        (b, hq, 1, 128), (pages, hk, page, 128), (pages, hk, page, 128)))
    lengths = rng.integers(0, most + 1, b).astype(np.int32)
    table = rng.permutation(pages).reshape(b, -1).astype(np.int32)
    options = dict(kv_lengths=lengths, block_table=table)
    text = attn.compile(q, k, v, target="sm_90a", until_after="input",
                        **options).mlir("input")
    # As many blocks as these sizes have.
    text = re.sub(r"attn\.expected_sizes = array<[^>]*>",
                  "attn.expected_sizes = array<i64: %s>" % sizes, text)
    text = attn.compile(text, target="sm_90a", until_after="gpu").mlir("gpu")
    text, count = spoil(text, by)
    assert count >= 1, text
    kernel = attn.compile(text.replace(', attn.target = "sm_90a"', ""),
                          target="emulator:sm_90a")
    named = dict(q=q, k=k, v=v, **options)
    got = kernel(*(named[arg.name] for arg in kernel.inputs))
    error = np.max(np.abs(got.astype(float) - reference(q, k, v, table, lengths)))
    assert error < 0.02, (error, page, sizes, by, lengths)


def main():
    rng = np.random.default_rng(5)
    # Parts in a cluster, parts that a kernel multiplies, and whole rows.
    for sizes in ("1, 32, 1, 1024, 8", "1, 32, 1, 8192, 8", "8, 32, 1, 2048, 8"):
        for page in (64, 16):
            for by in (512, -1):
                check(rng, 3, 8, 2, 768, page, sizes, by)
    # Half of a warpgroup's rows, which are asked for alone.
    for page in (64, 16):
        check(rng, 3, 32, 1, 768, page, "64, 32, 1, 4096, 1", 512)


main()
