"""Runs the Python of docs/Serving.md, block by block, and looks at its results.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import re
import sys
import textwrap

with open(sys.argv[1]) as file:
    blocks = re.findall(r"^ *```python\n(.*?)^ *```$", file.read(), re.S | re.M)


def run(wanted):
    """Runs the block that has these words."""
    (block,) = [block for block in blocks if wanted in block]
    blocks.remove(block)
    exec(textwrap.dedent(block), globals())


run("cache.append([7]")
plain = attn.attention(q, prompt, prompt, causal="bottom_right")
assert np.allclose(o, plain, atol=1e-5) and cache.lengths([7]).tolist() == [40]
run("reuse_prefix")
assert done == 0  # sequence 7 was appended without tokens
run("windowed")
assert windowed.lengths([0])[0] < 64 and windowed.free_pages > 250
assert np.allclose(o, np.repeat(prompt[:, :, :1], 4, axis=1), atol=1e-5)
run("streaming = ")
assert streaming.lengths([0])[0] < 80 and streaming.block_table([0]).shape == (1, 4)
assert np.allclose(o, np.repeat(prompt[:, :, :1], 4, axis=1), atol=1e-5)
run("rotary=")
assert o.shape == q.shape and np.isfinite(o).all()
run("merge_states")
plain = attn.attention(q, prompt, prompt)
assert np.allclose(o, plain, atol=1e-5) and lse.shape == (1, 8, 1)
run("attn.compile")
states = [np.stack([x, x]) for x in (lse, o, np.ones_like(lse))]
same, twice = merge(*states)
assert np.allclose(same, o) and np.allclose(twice, lse + np.log(2))
run("cascade=True")
table, lengths = cache.block_table(ids), cache.lengths(ids)
plain = attn.attention(q, cache.k, cache.v, block_table=table, kv_lengths=lengths,
                       causal="bottom_right")
assert np.allclose(o, plain, atol=1e-5)
assert not blocks, blocks
