"""Runs the Python of docs/Scans.md, and looks at its results.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import re
import sys

with open(sys.argv[1]) as file:
    (block,) = re.findall(r"^```python\n(.*?)^```$", file.read(), re.S | re.M)
exec(block, globals())

assert o.shape == (1, 4, 1, 64) and np.isfinite(o).all()
# What the tree has read is what a scan of the edited tokens reads.
for x in (k, v, decay, beta):
    x[:, :, 100] = x[:, :, 0]
options = dict(decay=decay, beta=beta, qk_l2norm=True, return_state=True)
_, last = attn.scan(q, k, v, **options)
queries = q[:, :, :1] / np.linalg.norm(q[:, :, :1], axis=-1, keepdims=True)
want = np.einsum("bhtd,bhdv->bhtv", queries, last["S"]) / 8
assert np.abs(o - want).max() < 1e-4 * np.abs(want).max()
assert tree.combines == 4 + 3, tree.combines
