# RUN: %python %s
"""Keys in pages and in rolling caches: block_table=, k_start=, rolling=.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
import reference
from reference import check, qkv

import attn

rng = np.random.default_rng(11)


def paginate(k, lengths, page, room=1):
    """The rows of k [b, h, s, d] in pages in no order; unused rows are NaN, unused
    entries -1."""
    b, h, s, d = k.shape
    width = -(-s // page) + room
    count = b * width
    order = rng.permutation(count)
    pool = np.full((count, h, page, d), np.nan, k.dtype)
    table = np.full((b, width), -1, np.int32)
    for n in range(b):
        for i in range(-(-int(lengths[n]) // page)):
            table[n, i] = order[n * width + i]
            rows = k[n, :, i * page : min((i + 1) * page, int(lengths[n]))]
            pool[table[n, i], :, : rows.shape[1]] = rows
    return pool, table


def test_pages():
    for dtype in reference.DTYPES:
        q, k, v = qkv(rng, dtype=dtype)
        sk = k.shape[2]
        lengths = np.array([sk, 13], np.int32)
        for page in (1, 3, 16, 64):
            seed = rng.bit_generator.state
            pool_k, table = paginate(k, lengths, page)
            rng.bit_generator.state = seed
            pool_v, _ = paginate(v, lengths, page)
            for options in ({}, {"causal": "bottom_right"}, {"window": (9, 3)}):
                want = reference.attention(q, k, v, kv_lengths=lengths, **options)[0]
                options = dict(options, kv_lengths=lengths, block_table=table)
                out = attn.attention(q, pool_k, pool_v, **options)
                check("page %d %s" % (page, options), out, want, q.dtype)
                # The same pools with heads behind the rows of a page.
                swap = lambda x: np.swapaxes(x, 1, 2).copy()
                out = attn.attention(
                    swap(q), swap(pool_k), swap(pool_v), layout="bshd", **options
                )
                check("bshd page %d" % page, swap(out), want, q.dtype)


def test_shared_pages():
    # Two sequences read the same pages; without lengths all of them.
    q, k, v = qkv(rng)
    k, v = k[:, :, :32], v[:, :, :32]
    pool = lambda x: x[:1].reshape(1, x.shape[1], 2, 16, -1)[0].swapaxes(0, 1).copy()
    table = np.array([[0, 1], [1, 0]], np.int32)
    out = attn.attention(q, pool(k), pool(v), block_table=table)
    flip = lambda x: np.concatenate([x[:1, :, 16:], x[:1, :, :16]], axis=2)
    both = lambda x: np.concatenate([x[:1], flip(x)])
    want = reference.attention(q, both(k), both(v))[0]
    check("shared pages", out, want, q.dtype)


def test_packed_queries():
    # Prompts and single tokens in one call.
    q, k, v = qkv(rng)
    lengths = np.array([29, 47], np.int32)
    pool_k, table = paginate(k, lengths, 16)
    rng_v = np.full_like(pool_k[..., :1], np.nan, shape=pool_k.shape[:3] + v.shape[3:])
    for n in range(2):
        for j in range(lengths[n]):
            rng_v[table[n, j // 16], :, j % 16] = v[n, :, j]
    rows = [q[0, :, :1], q[1, :, :20]]
    packed = np.concatenate(rows, axis=1).swapaxes(0, 1).copy()
    swap = lambda x: np.swapaxes(x, 1, 2).copy()
    out = attn.attention(
        packed,
        swap(pool_k),
        swap(rng_v),
        layout="thd",
        cu_seqlens_q=[0, 1, 21],
        block_table=table,
        kv_lengths=lengths,
        causal="bottom_right",
    )
    for n, (first, end) in enumerate(((0, 1), (1, 21))):
        want = reference.attention(
            rows[n][None],
            k[n : n + 1, :, : lengths[n]],
            v[n : n + 1, :, : lengths[n]],
            causal="bottom_right",
        )[0]
        check("packed %d" % n, out[first:end].swapaxes(0, 1)[None], want, q.dtype)


def test_positions():
    # The top-left diagonal sees positions; others end with the last key.
    q, k, v = qkv(rng)
    sk = k.shape[2]
    start = np.array([5, 0], np.int32)
    for causal in (None, "bottom_right", "top_left"):
        mask = None
        if causal == "top_left":
            rows, keys = np.arange(q.shape[2])[:, None], np.arange(sk)
            mask = (keys + start[:, None, None] <= rows)[:, None]
        want = reference.attention(
            q, k, v, **({"mask": mask} if mask is not None else {"causal": causal})
        )[0]
        out = attn.attention(q, k, v, causal=causal, k_start=start)
        check("k_start %s" % causal, out, want, q.dtype)
        # The same keys where a cache of as many rows has them.
        rolled = lambda x: np.stack(
            [np.roll(x[n], int(start[n]), axis=1) for n in range(2)]
        )
        out = attn.attention(
            q, rolled(k), rolled(v), causal=causal, k_start=start, rolling=True
        )
        check("rolling %s" % causal, out, want, q.dtype)


def test_errors():
    q, k, v = qkv(rng)
    pool = np.zeros((4, k.shape[1], 16, k.shape[3]), k.dtype)
    table = np.zeros((2, 2), np.int32)

    def expect(message, *args, **options):
        try:
            attn.attention(*args, **options)
        except (ValueError, TypeError) as error:
            assert message in str(error), error
        else:
            raise AssertionError("expected: " + message)

    pages = "to hold numbers of the 4 pages as far as a sequence reaches, but got "
    expect(pages + "-1 at 1, 1", q, pool, pool, block_table=[[0, 1], [2, -1]])
    expect(pages + "4 at 0, 0", q, pool, pool, block_table=[[4, 1], [2, 0]])
    expect(
        "'kv_lengths' to hold values between 0 and table_pages*page = 32, but got 33",
        q,
        pool,
        pool,
        block_table=table,
        kv_lengths=[33, 0],
    )
    expect("'k_start' to hold values between 0 and", q, k, v, k_start=[-1, 0])
    expect("'k_start' to hold values between 0 and 1073741824", q, k, v,
           k_start=[2**31 - 3, 0])
    expect("rolling=True with k_start", q, k, v, rolling=True)
    expect("block_table of shape [b, pages]", q, pool, pool, block_table=[0, 1])
    expect("layout to be one of bhsd, bshd, thd", q, pool, pool, block_table=table,
           layout="sbhd")


for name, test in list(globals().items()):
    if name.startswith("test_"):
        test()
        print("ok", name)
