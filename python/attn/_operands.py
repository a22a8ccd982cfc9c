"""Operands of attn.attention that make caches: pages, rolling caches, rows that are
appended, values in the memory of keys.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

from . import _arrays as arrays
from . import _checks as checks
from . import _library as c
from ._checks import fail

# Where b, h, s and d are among the dimensions of q, k, v and the output.
LAYOUTS = {
    "bhsd": (0, 1, 2, 3),
    "bshd": (0, 2, 1, 3),
    "sbhd": (1, 2, 0, 3),
    "thd": (1, 0, 2),
}
# Of pools of pages: to [pages, hk, page, d], and the names of their dimensions.
POOLS = {
    "bhsd": ((0, 1, 2, 3), ("pages", "h", "page", "d")),
    "bshd": ((0, 2, 1, 3), ("pages", "page", "h", "d")),
    "thd": ((0, 2, 1, 3), ("pages", "page", "h", "d")),
}


def set_cache(call, block_table, k_start, rolling, batch_invariant):
    if block_table is not None:
        table = arrays.vector("block_table", block_table, c.I32, call.device)
        if len(table.shape) != 2:
            fail("block_table of shape [b, pages]", list(table.shape))
        call.views["block_table"] = table
    if k_start is not None:
        start = arrays.vector("k_start", k_start, c.I32, call.device)
        if len(start.shape) != 1:
            fail("k_start of shape [b]", list(start.shape))
        call.views["k_start"] = start
    checks.boolean("batch_invariant", batch_invariant)
    if checks.boolean("rolling", rolling) and batch_invariant:
        fail(
            "batch_invariant=True without a rolling cache, whose key tiles start "
            "at a key that moves",
            "both",
        )
    if rolling and (k_start is None or call.is_paged or call.layout == "thd"):
        fail(
            "rolling=True with k_start, and neither block_table nor layout 'thd'",
            "no k_start" if k_start is None else "one of these",
        )


def set_values(call, v, v_dim):
    """The first columns of k, where there is no v."""
    if v_dim is None:
        return
    key = call.views["k"]
    v_dim, most = checks.integer("v_dim", v_dim), key.shape[-1]
    if v is not None:
        if v_dim != call.views["v"].shape[-1]:
            fail("v_dim of v, %d, or v=None" % call.views["v"].shape[-1], v_dim)
    elif not 0 < v_dim <= most:
        fail("v_dim between 1 and %d, the columns of k" % most, v_dim)
    else:
        call.views["v"] = key.narrowed(v_dim)


def set_new(call, k, v, k_new, v_new, kv_lengths):
    """The rows that are appended, as views; returns the member `append` of the
    description."""
    if k_new is None and v_new is None:
        return 0
    # Caches of packed queries have their batches. New rows may have them, too, or be
    # packed as the queries are.
    layout = call.layout
    if layout == "thd":
        packed = k_new is not None and len(arrays.view("k_new", k_new).shape) == 3
        layout = layout if packed else "bshd"
    order, pairs = LAYOUTS[layout], [("k", k, k_new)]
    if v is not None:
        pairs.append(("v", v, v_new))
    elif v_new is not None:
        fail("v_new with v alone", "no v")
    for name, cache, rows in pairs:
        new = name + "_new"
        if rows is None:
            fail("k_new and v_new together", "no %s" % new)
        found = arrays.view(new, rows)
        arrays.check_device(new, found, call.device)
        arrays.check_writable(name, cache, call.views[name])
        if found.dtype != call.views[name].dtype:
            fail(
                "%s of the type of %s, %s" % (new, name, arrays.describe(cache)),
                arrays.describe(rows),
                TypeError,
            )
        if len(found.shape) != len(order):
            fail(
                "%s of %d dimensions, [%s]" % (new, len(order), ", ".join(layout)),
                arrays.describe(rows),
            )
        call.views[new] = found.permuted(order)
    if kv_lengths is None:
        fail("k_new with kv_lengths, the keys before it", "no kv_lengths")
    if call.layout == "thd" and not call.is_paged:
        fail("k_new with a cache", "packed keys")
    return 2 if layout == "thd" else 1
