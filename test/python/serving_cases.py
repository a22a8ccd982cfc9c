# RUN: %python %s
"""What users of other libraries met, one function for each, beside NumPy in float64.

Rows without keys, NaN in rows that no sequence has, odd strides, the base of the LSE,
causal alignment, windows that count, kernels that do not fit, head dimensions and
groups, offsets past 2^31, entropy, pages of any size: on CPUs, and where a GPU has
code of its own for it, on emulated ones.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import numpy as np

import attn

rng = np.random.default_rng(20261123)
CPU, GPUS = ("",), ("emulator:sm_80", "emulator:sm_90a")


def draw(*shape, dtype="f4"):
    return rng.standard_normal(shape).astype(dtype)


def expected(q, k, v, live=None, sinks=None):
    """O, LSE and entropy of dense rows [b, h, s, d]; `live` [b, sq, sk]."""
    group = q.shape[1] // k.shape[1]
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    k, v = (x.repeat(group, 1) for x in (k, v))
    s = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    if live is not None:
        s = np.where(live[:, None], s, -np.inf)
    top = s.max(-1, keepdims=True, initial=-np.inf)
    if sinks is not None:
        top = np.maximum(top, sinks[None, :, None, None])
    p = np.where(s == -np.inf, 0.0, np.exp(s - np.where(top == -np.inf, 0.0, top)))
    total = p.sum(-1, keepdims=True)
    if sinks is not None:
        total = total + np.exp(sinks[None, :, None, None] - top)
    with np.errstate(divide="ignore"):
        lse = (np.log(total) + np.where(top == -np.inf, 0.0, top))[..., 0]
    p = p / np.where(total == 0, 1.0, total)
    entropy = -(p * np.log(np.where(p == 0, 1.0, p))).sum(-1)
    return p @ np.where(p.sum(-2)[..., None] == 0, 0.0, v), lse, entropy


def check(name, got, want):
    bound = {"float32": 2e-5, "float16": 5e-3}[str(got.dtype)]
    bound *= max(1.0, np.abs(np.where(np.isfinite(want), want, 0.0)).max())
    same = np.isfinite(got) == np.isfinite(want)
    finite = np.isfinite(want)
    assert same.all() and np.array_equal(got[~finite], want[~finite]), name
    assert np.abs(got[finite] - want[finite]).max(initial=0.0) <= bound, name


def attend(target, *operands, **options):
    if not target:
        return attn.attention(*operands, **options)
    return attn.compile(*operands, target=target, **options)(*operands, **options)


def positions(sq, sk, bottom=True):
    i, j = np.arange(sq)[:, None], np.arange(sk)
    return i + (sk - sq if bottom else 0), j


def rows_without_keys():
    """O = 0 and LSE = -inf; beside a sink O = 0 and LSE = sink."""
    q, k, v = draw(2, 4, 7, 64), draw(2, 2, 5, 64), draw(2, 2, 5, 64)
    lengths, sinks = np.array([3, 0], np.int32), draw(4)
    i, j = positions(7, 5, bottom=False)
    live = np.stack([(j <= i + n - 7) & (j < n) for n in lengths])
    for given in ({}, {"sinks": sinks}):
        out, lse = attn.attention(q, k, v, kv_lengths=lengths, causal="bottom_right",
                                  return_lse=True, **given)
        o, want, _ = expected(q, k, v, live, given.get("sinks"))
        check("rows without keys", out, o)
        check("their LSE", lse, want)


def unused_slots():
    """Weights of 0 times NaN: what is behind a length is not looked at."""
    lengths = np.array([40, 1, 77], np.int32)
    for target in CPU + GPUS:
        q, k, v = (draw(3, h, n, 64, dtype="f2")
                   for h, n in ((4, 1), (2, 130), (2, 130)))
        live = np.arange(130) < lengths[:, None, None]
        want = expected(q, k, v, live)[0]
        for b, n in enumerate(lengths):
            k[b, :, n:] = v[b, :, n:] = np.nan
        v[1, :, 5:] = np.inf
        check("NaN " + target, attend(target, q, k, v, kv_lengths=lengths), want)


def odd_strides():
    """Rows apart, heads reversed, lengths of 64 more than a multiple of 128."""
    wide = draw(1, 4, 192, 3, 72)
    k, v = wide[:, ::-1, :, 1, 4:68], wide[:, :, ::-1, 2, 8:]
    q = draw(1, 64, 4, 64).swapaxes(1, 2)
    check("strides", attn.attention(q, k, v), expected(q, k, v)[0])


def base_of_lse():
    """The natural logarithm, so that parts of any source merge."""
    q, k, v = draw(1, 2, 3, 32), draw(1, 2, 50, 32), draw(1, 2, 50, 32)
    parts = [attn.attention(q, k[:, :, a:b], v[:, :, a:b], return_lse=True)
             for a, b in ((0, 20), (20, 50))]
    o, lse, _ = expected(q, k, v)
    check("LSE", np.logaddexp(parts[0][1], parts[1][1]), lse)
    for got, want in zip(attn.merge_states(parts), (o, lse)):
        check("merged", got, want)


def alignment():
    for sq, sk in ((3, 9), (9, 3), (5, 5)):
        q, k, v = draw(1, 2, sq, 32), draw(1, 2, sk, 32), draw(1, 2, sk, 32)
        for name in ("top_left", "bottom_right"):
            i, j = positions(sq, sk, name == "bottom_right")
            want = expected(q, k, v, (j <= i)[None])[0]
            check(name, attn.attention(q, k, v, causal=name), want)


def windows():
    """(n - 1, 0) beside a causal mask: n keys, the query's own among them."""
    q, k, v = draw(1, 2, 6, 32), draw(1, 2, 11, 32), draw(1, 2, 11, 32)
    i, j = positions(6, 11)
    for n in (1, 2, 5):
        live = ((j <= i) & (j > i - n))[None]
        assert (live.sum(-1) == n).all()
        out = attn.attention(q, k, v, causal="bottom_right", window=(n - 1, 0))
        check("window", out, expected(q, k, v, live)[0])


def kernels_that_fit():
    """Wide heads compile for GPUs of little shared memory, with smaller tiles."""
    for d, dtype in ((192, "f2"), (256, "f4"), (512, "f2"), (576, "f2")):
        x = np.zeros((1, 1, 64, d), dtype)
        for target in ("emulator:sm_86", "emulator:sm_90a"):
            attn.compile(x, x, x, causal="bottom_right", target=target)


def heads():
    """Any head dimension, any number of query heads to a key head."""
    for d, dv, group in ((96, 96, 3), (80, 40, 5), (20, 7, 7), (576, 512, 16)):
        for sq in (1, 4):
            q, k = draw(1, 2 * group, sq, d), draw(1, 2, 33, d)
            v = draw(1, 2, 33, dv)
            i, j = positions(sq, 33)
            out = attn.attention(q, k, v, causal="bottom_right")
            check("heads", out, expected(q, k, v, (j <= i)[None])[0])


def far_offsets():
    """Heads, rows and pages of which offsets in elements pass 2^31."""
    memory = np.zeros(2**32 + 2**20, "f2")  # of which little is ever written
    rows = lambda shape, strides: np.lib.stride_tricks.as_strided(
        memory, shape, [2 * s for s in strides])
    for target in CPU + GPUS:
        for strides in ((0, 2**31 + 64, 64, 1), (0, 64, 2**27 + 128, 1)):
            k = rows((1, 2, 32, 64), strides)
            k[...] = draw(1, 2, 32, 64, dtype="f2")
            q = draw(1, 4, 1, 64, dtype="f2")
            want = expected(q, k, k)[0]
            check("far " + target, attend(target, q, k, k), want)
    pool = rows((3, 1, 16, 64), (2**31 + 16, 0, 64, 1))
    pool[...] = draw(3, 1, 16, 64, dtype="f2")
    table, lengths = np.array([[2, 0]], np.int32), np.array([25], np.int32)
    dense = np.concatenate([pool[2:], pool[:1]], 2)[:, :, :25]
    q = draw(1, 2, 1, 64, dtype="f2")
    out = attn.attention(q, pool, pool, block_table=table, kv_lengths=lengths)
    check("far pages", out, expected(q, dense, dense)[0])


def statistics():
    q, k, v = draw(2, 4, 9, 32), draw(2, 2, 40, 32), draw(2, 2, 40, 32)
    out, aux = attn.attention(q, k, v, monoid="softmax_entropy",
                              return_aux=["entropy"])
    o, _, entropy = expected(q, k, v)
    check("beside entropy", out, o)
    check("entropy", aux["entropy"], entropy)


def page_sizes():
    k, v, q = (draw(2, h, n, 64, dtype="f2") for h, n in ((2, 200), (2, 200), (4, 1)))
    lengths = np.array([200, 131], np.int32)
    want = expected(q, k, v, np.arange(200) < lengths[:, None, None])[0]
    for page in (1, 7, 16, 48, 256):
        width = -(-200 // page)
        order = rng.permutation(2 * width).astype(np.int32)
        pools = []
        for x in (k, v):
            pool = np.full((2 * width, 2, page, 64), np.nan, "f2")
            for b, n in enumerate(lengths):
                for i in range(-(-int(n) // page)):
                    part = x[b, :, i * page : min((i + 1) * page, int(n))]
                    pool[order[b * width + i], :, : part.shape[1]] = part
            pools.append(pool)
        table = order.reshape(2, width)
        for target in CPU + (GPUS if page in (7, 16) else ()):
            out = attend(target, q, *pools, block_table=table, kv_lengths=lengths)
            check("page %d %s" % (page, target), out, want)


for case in (rows_without_keys, unused_slots, odd_strides, base_of_lse, alignment,
             windows, kernels_that_fit, heads, far_offsets, statistics, page_sizes):
    case()
    print("ok", case.__name__, flush=True)
