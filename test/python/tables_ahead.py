# RUN: %python %s
"""Warps that copy pages have entries of their table in registers. A kernel that takes
those of later tiles copies pages that its table does not name: the emulator says so,
and of the kernel as it is nothing. Pages that no sequence has hold NaN, page 0 among
them, which entries behind a table's end name.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import re

import ml_dtypes
import numpy as np

import attn


def run(text, named):
    kernel = attn.compile(text.replace(', attn.target = "sm_90a"', ""),
                          target="emulator:sm_90a")
    return kernel(*(named[arg.name] for arg in kernel.inputs))


def reference(q, k, v, lengths, table):
    """[2, hq, 1, 128] of the pages of each sequence."""
    want = np.zeros(q.shape)
    for b, length in enumerate(lengths):
        pages = table[b][: -(-length // k.shape[2])]
        keys, values = (np.concatenate(x[pages], 1)[:, :length].astype("f8")
                        for x in (k, v))
        for h in range(q.shape[1]):
            at = h * k.shape[1] // q.shape[1]
            s = keys[at] @ q[b, h, 0].astype("f8") / np.sqrt(128)
            p = np.exp(s - s.max())
            want[b, h, 0] = p @ values[at] / p.sum()
    return want


def check(hq, hk, page, most, sizes):
    rng = np.random.default_rng(page)
    pages = 2 * most // page + 2
    q, k, v = (rng.standard_normal(s).astype(ml_dtypes.bfloat16) for s in (
        (2, hq, 1, 128), (pages, hk, page, 128), (pages, hk, page, 128)))
    lengths = np.array([most, most // 2 + 3], np.int32)
    table = (1 + rng.permutation(pages - 1)[: pages - 2]).reshape(2, -1)
    table = table.astype(np.int32)
    table[1, -(-lengths[1] // page):] = -1
    unused = np.setdiff1d(np.arange(pages), table)
    k[unused] = v[unused] = np.nan
    want = reference(q, k, v, lengths, table)
    named = dict(q=q, k=k, v=v, kv_lengths=lengths, block_table=table)
    text = attn.compile(q, k, v, target="sm_90a", until_after="input",
                        kv_lengths=lengths, block_table=table).mlir("input")
    # As many blocks as these sizes have.
    text = re.sub(r"attn\.expected_sizes = array<[^>]*>",
                  "attn.expected_sizes = array<i64: %s>" % sizes, text)
    text = attn.compile(text, target="sm_90a", until_after="gpu").mlir("gpu")
    later, count = re.subn(r"(entries\(%\w+)#0 from", r"\1#1 from", text)
    assert count, text
    got = np.asarray(run(text, named)).astype("f8")
    assert np.abs(got - want).max() < 0.02, np.abs(got - want).max()
    try:
        run(later, named)
    except Exception as error:
        assert "copies a page that its table does not name there" in str(error), error
    else:
        raise AssertionError("later entries were taken")


def main():
    # Tiles of eight pages, two and four, of whole rows.
    check(32, 1, 16, 1280, "64, 32, 1, 4096, 1")
    check(32, 1, 64, 3072, "64, 32, 1, 4096, 1")
    check(8, 2, 16, 768, "8, 32, 1, 2048, 8")


main()
