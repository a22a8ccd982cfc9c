"""The paged split decode, which no GPU has run yet, on the emulator: boxes of
pages, states of warps that are merged, a second kernel that starts early.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import os
import sys

import ml_dtypes
import numpy as np

import attn

SIGNATURE = """func.func @decode(
    %q: !rows {attn.arg = {name = "q", dims = ["b", "hq", ""]}},
    %k: memref<?x?x64x128xbf16, strided<[?, ?, ?, 1]>> {attn.arg = {name = "k",
        dims = ["pages", "hk", "", ""]}},
    %v: memref<?x?x64x128xbf16, strided<[?, ?, ?, 1]>> {attn.arg = {name = "v",
        dims = ["pages", "hk", "", ""]}},
    %table: memref<?x?xi32> {attn.arg = {name = "table", dims = ["b", "most"]}},
    %lengths: memref<?xi32> {attn.arg = {name = "lengths", dims = ["b"]}},
    %given: i32 {attn.arg = {name = "splits"}},
    %perSplit: i32 {attn.arg = {name = "per_split"}},
    %scale: f32 {attn.arg = {name = "scale"}},
    %o: !rows {attn.arg = {name = "o", dims = ["b", "hq", ""], output}})
        attributes {tile.plan} {
  %splits = arith.index_cast %given : i32 to index
"""

text = open(sys.argv[1]).read()
begin = text.index("func.func @decode(")
end = text.index("{tile.plan} {", begin) + len("{tile.plan} {")
text = text[:begin] + SIGNATURE + text[end:].replace("memref.alloc(", "tile.workspace(")

B, HQ, HK, D, PAGES, MOST = 2, 6, 2, 128, 17, 8
LENGTHS = np.array([500, 130], "i4")
rng = np.random.default_rng(2)
bf16 = ml_dtypes.bfloat16
q = rng.standard_normal((B, HQ, D)).astype(bf16)
k, v = (rng.standard_normal((PAGES, HK, 64, D)).astype(bf16) for _ in range(2))
table = rng.permutation(PAGES)[: B * MOST].reshape(B, MOST).astype("i4")

want = np.zeros((B, HQ, D))
for b in range(B):
    for h in range(HQ):
        keys, values = (
            x[table[b], h // (HQ // HK)].reshape(-1, D)[: LENGTHS[b]].astype("f8")
            for x in (k, v)
        )
        s = keys @ q[b, h].astype("f8") / np.sqrt(D)
        p = np.exp(s - s.max())
        want[b, h] = p @ values / p.sum()

kernel = attn.compile(text, target="emulator")
for schedule in ("eager", "lazy", "random:1", "random:2", "adversary:1", "adversary:5"):
    os.environ["ATTN_EMULATOR"] = schedule
    for splits, per_split in ((1, 512), (2, 256), (3, 256)):
        o = np.asarray(kernel(q, k, v, table, LENGTHS, splits, per_split,
                              1 / np.sqrt(D))).astype("f8")
        error = np.abs(o - want).max()
        assert error < 2e-2, (schedule, splits, error)
        print(schedule, splits, error)
