# RUN: %python %s
"""rotary=attn.Rotary(...): queries and keys that turn before the product are those
that transformers' formulas turn before the call, on every way to the keys.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import functools
import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
from reference import raises

import attn

try:
    from ml_dtypes import bfloat16
except ImportError:
    bfloat16 = None

rng = np.random.default_rng(29)


def draw(*shape, dtype=np.float32):
    return rng.standard_normal(shape).astype(dtype)


def rotate_half(x):
    """apply_rotary_pos_emb of transformers' Llama."""
    first, second = np.split(x, 2, -1)
    return np.concatenate([-second, first], -1)


def rotate_every_two(x):
    """apply_rotary_pos_emb of transformers' GPT-J."""
    return np.stack([-x[..., 1::2], x[..., ::2]], -1).reshape(x.shape)


def turned(x, rotary, positions):
    """Rows [.., n, d] in float64, turned to be at `positions` [.., n]."""
    x = np.asarray(x, np.float64)
    cos, sin = (np.asarray(t, np.float64)[positions] for t in (rotary.cos, rotary.sin))
    channels = 2 * cos.shape[-1]
    part, rest = x[..., :channels], x[..., channels:]
    if rotary.interleaved:
        cos, sin = (np.repeat(t, 2, -1) for t in (cos, sin))
        part = part * cos + rotate_every_two(part) * sin
    else:
        cos, sin = (np.concatenate([t, t], -1) for t in (cos, sin))
        part = part * cos + rotate_half(part) * sin
    return np.concatenate([part, rest], -1)


def reference(q, k, v, live=None, bias=0.0, scale=None):
    """Attention of one sequence, [h, n, d], in float64."""
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    group = q.shape[0] // max(k.shape[0], 1)
    k, v = np.repeat(k, group, 0), np.repeat(v, group, 0)
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    s = q @ k.swapaxes(-1, -2) * scale + bias
    if live is not None:
        s = np.where(live, s, -np.inf)
    top = s.max(-1, keepdims=True, initial=-np.inf)
    w = np.exp(s - np.where(np.isfinite(top), top, 0.0))
    total = w.sum(-1, keepdims=True)
    return np.where(total > 0, w / np.where(total > 0, total, 1.0), 0.0) @ v


BOUNDS = {"float32": 3e-5, "float16": 4e-3, "bfloat16": 3e-2}


def close(name, got, want):
    bound = BOUNDS[str(got.dtype)]
    got = np.asarray(got, np.float64)
    assert got.shape == want.shape, (name, got.shape, want.shape)
    assert np.isfinite(got).all(), (name, "not finite")
    error = np.abs(got - want).max(initial=0.0)
    assert error <= bound * max(1.0, np.abs(want).max(initial=0.0)), (name, error)


def causal(rows, keys):
    """Bottom-right: the last row sees the last key."""
    return np.arange(keys) <= np.arange(rows)[:, None] + keys - rows


def tables(channels, positions, **options):
    """Angles that differ much from position to position, in every channel."""
    angles = rng.uniform(0.0, 6.28, (positions, channels // 2))
    cos, sin = (f(angles).astype(np.float32) for f in (np.cos, np.sin))
    return attn.Rotary(cos, sin, **options)


def types():
    return [np.float32, np.float16] + ([bfloat16] if bfloat16 else [])


SIZES = [(64, 64), (64, 16), (40, 40), (34, 6), (8, 8), (2, 2), (128, 128)]
SIZES += [(80, 20), (33, 32), (96, 62)]


def test_dense(sizes=SIZES):
    """Every pairing, type and size of rows, all of the channels or some."""
    for n, (d, channels) in enumerate(sizes):
        for interleaved in (n % 2 == 0,) if n > 1 else (False, True):
            dtype = types()[n % len(types())]
            b, hq, hk = 2, (4, 2, 3)[n % 3], (2, 1, 3)[n % 3]
            sq, sk = ((37, 37), (5, 70), (1, 33))[(n + interleaved) % 3]
            q, k, v = (
                draw(b, h, s, c, dtype=dtype)
                for h, s, c in ((hq, sq, d), (hk, sk, d), (hk, sk, 24))
            )
            rotary = tables(channels, sk, interleaved=interleaved)
            got = attn.attention(q, k, v, causal="bottom_right", rotary=rotary)
            want = [
                reference(
                    turned(q[i], rotary, np.arange(sk - sq, sk)),
                    turned(k[i], rotary, np.arange(sk)),
                    v[i],
                    causal(sq, sk),
                )
                for i in range(b)
            ]
            name = ("dense", d, channels, interleaved, str(q.dtype))
            close(name, got, np.stack(want))


def test_like_before():
    """The same call with rows that were turned before, with other options."""
    d, sq, sk = 64, 45, 45
    q, k, v = draw(1, 4, sq, d), draw(1, 2, sk, d), draw(1, 2, sk, d)
    rotary = tables(d, 64)
    q1, k1 = (turned(x, rotary, np.arange(sk)).astype("f") for x in (q, k))
    score = """^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32, %table: tensor<?xf32>):
      %n = arith.index_cast %j : i32 to index
      %x = tensor.extract %table[%n] : tensor<?xf32>
      %y = arith.addf %s, %x : f32
      attn.yield %y : f32"""
    mask = rng.random((1, 1, sq, sk)) < 0.7
    for options in (
        {},
        {"causal": "top_left"},
        {"causal": "bottom_right", "window": (7, -1)},
        {"window": (3, 5), "softcap": 2.5},
        {"alibi_slopes": [0.1, 0.2, 0.3, 0.4], "scale": -0.3},
        {"mask": mask, "sinks": [0.5, 1.0, 2.0, -1.0]},
        {"bias": np.where(mask, draw(1, 1, sq, sk), -np.inf)},
        {"score_mod": score, "captures": {"table": draw(sk)}},
        {"monoid": "relu_sum"},
        {"batch_invariant": True, "causal": "bottom_right"},
        {"dropout_p": 0.3, "dropout_rng": (3, 4)},
    ):
        got = attn.attention(q, k, v, rotary=rotary, **options)
        want = attn.attention(q1, k1, v, **options)
        close(tuple(options), got, want.astype(np.float64))
    # Of each kind of monoid one.
    for monoid in ("softmax_entropy", "stick_breaking", "maxplus", "welford"):
        got = attn.attention(q, k, v, monoid=monoid, rotary=rotary)
        want = attn.attention(q1, k1, v, monoid=monoid)
        close(monoid, got, want.astype(np.float64))
    got = attn.attention(q, k, v, rotary=rotary, return_lse=True)
    want = attn.attention(q1, k1, v, return_lse=True)
    for one, other in zip(got, want):
        close("lse", one, other.astype(np.float64))


def test_lengths():
    """Decode and chunks on ragged caches, with NaN in what is dead."""
    for dtype in types():
        for sq in (1, 3, 9):
            b, hq, hk, room, d = 3, 4, 2, 50, 32
            lengths = np.array([50, 9, 17], np.int32)
            q = draw(b, hq, sq, d, dtype=dtype)
            k, v = (draw(b, hk, room, d, dtype=dtype) for _ in "kv")
            for i, n in enumerate(lengths):
                k[i, :, n:] = v[i, :, n:] = np.nan
            # The tables end with the longest sequence.
            rotary = tables(32, 50, interleaved=sq == 3)
            got = attn.attention(
                q, k, v, kv_lengths=lengths, causal="bottom_right", rotary=rotary
            )
            want = [
                reference(
                    turned(q[i], rotary, np.arange(n - sq, n)),
                    turned(k[i, :, :n], rotary, np.arange(n)),
                    v[i, :, :n],
                    causal(sq, n),
                )
                for i, n in enumerate(lengths)
            ]
            close(("lengths", sq), got, np.stack(want))


def test_pages():
    """Pages that sequences share at different positions, appended rows, and packed
    queries on them."""
    for page in (1, 5, 16):
        hk, d, pages = 2, 48, 80
        k, v = draw(pages, hk, page, d), draw(pages, hk, page, d)
        lengths = np.array([33, 7, 0], np.int32)
        table = np.full((3, -(-40 // page)), -1, np.int32)
        for i, n in enumerate(lengths):
            count = -(-(n + 2) // page)
            table[i, :count] = rng.permutation(40)[:count]
        table[0, 0] = table[1, 0] = 60
        for name, sq in (("decode", 1), ("append", 2)):
            q = draw(3, 4, sq, d)
            rotary = tables(32, 64)
            given, now = dict(kv_lengths=lengths), lengths
            if name == "append":
                table[1, 0] = 61  # both would write the page
                new = draw(3, hk, sq, d), draw(3, hk, sq, d)
                given.update(k_new=new[0], v_new=new[1])
                now = lengths + sq
            got = attn.attention(
                q,
                k,
                v,
                block_table=table,
                causal="bottom_right",
                rotary=rotary,
                **given
            )
            for i, n in enumerate(now):
                rows = [(table[i, j // page], j % page) for j in range(n)]
                keys = np.array([k[p, :, r] for p, r in rows]).reshape(n, hk, d)
                values = np.array([v[p, :, r] for p, r in rows]).reshape(n, hk, d)
                want = np.zeros((4, sq, d))
                if n:
                    want = reference(
                        turned(q[i], rotary, np.arange(n - sq, n)),
                        turned(keys.swapaxes(0, 1), rotary, np.arange(n)),
                        values.swapaxes(0, 1),
                        causal(sq, n),
                    )
                close((name, page, i), got[i : i + 1], want[None])


def test_packed():
    cu_q, cu_k = [0, 5, 5, 6, 20], [0, 9, 12, 40, 54]
    hq, hk, d = 4, 1, 64
    q, k, v = draw(20, hq, d), draw(54, hk, d), draw(54, hk, d)
    rotary = tables(64, 28, interleaved=True)
    got = attn.attention(
        q,
        k,
        v,
        layout="thd",
        cu_seqlens_q=cu_q,
        cu_seqlens_k=cu_k,
        causal="bottom_right",
        rotary=rotary,
    )
    for n in range(4):
        rows, keys = slice(cu_q[n], cu_q[n + 1]), slice(cu_k[n], cu_k[n + 1])
        sq, sk = rows.stop - rows.start, keys.stop - keys.start
        want = reference(
            turned(q[rows].swapaxes(0, 1), rotary, np.arange(sk - sq, sk)),
            turned(k[keys].swapaxes(0, 1), rotary, np.arange(sk)),
            v[keys].swapaxes(0, 1),
            causal(sq, sk),
        )
        close(("packed", n), got[rows], want.swapaxes(0, 1))


def test_rolling():
    """A window's cache, written round and round, holds keys as they were; with
    by_slot the first one of it is at position 0."""
    room, hk, hq, d, sq = 24, 1, 2, 32, 2
    k, v = draw(1, hk, room, d), draw(1, hk, room, d)
    q = draw(1, hq, sq, d)
    start, length = 100, 20
    rows = (start + np.arange(length)) % room
    dead = np.setdiff1d(np.arange(room), rows)
    k[:, :, dead] = v[:, :, dead] = np.nan
    for by_slot in (False, True):
        first = 0 if by_slot else start
        rotary = tables(16, first + length, by_slot=by_slot)
        want = reference(
            turned(q[0], rotary, first + np.arange(length - sq, length)),
            turned(k[0][:, rows], rotary, first + np.arange(length)),
            v[0][:, rows],
            causal(sq, length),
        )
        got = attn.attention(
            q,
            k,
            v,
            kv_lengths=[length],
            k_start=[start],
            rolling=True,
            causal="bottom_right",
            rotary=rotary,
        )
        close(("rolling", by_slot), got, want[None])
        # The same keys in a dense cache.
        got = attn.attention(
            q,
            np.ascontiguousarray(k[:, :, rows]),
            np.ascontiguousarray(v[:, :, rows]),
            k_start=[start],
            causal="bottom_right",
            rotary=rotary,
        )
        close(("start", by_slot), got, want[None])


def test_kept_keys():
    """StreamingLLM: the first keys and a window, at their places in the cache."""
    hk, d, keep, window = 1, 32, 4, 16
    cache = attn.KVCache(pages=32, page=4, heads=hk, d=d, window=window, keep=keep)
    rotary = attn.Rotary.of(d, 64, by_slot=True)
    k, v, q = draw(1, hk, 50, d), draw(1, hk, 50, d), draw(1, 2, 1, d)
    for n in range(50):
        cache.append([0], k[:, :, n : n + 1], v[:, :, n : n + 1])
    length = int(cache.lengths([0])[0])
    assert length < 50
    table = cache.block_table([0])
    got = attn.attention(
        q,
        cache.k,
        cache.v,
        block_table=table,
        kv_lengths=[length],
        causal="bottom_right",
        rotary=rotary,
    )
    rows = [(table[0, j // 4], j % 4) for j in range(length)]
    keys = np.array([cache.k[p, :, r] for p, r in rows]).swapaxes(0, 1)
    values = np.array([cache.v[p, :, r] for p, r in rows]).swapaxes(0, 1)
    want = reference(
        turned(q[0], rotary, np.array([length - 1])),
        turned(keys, rotary, np.arange(length)),
        values,
    )
    close("kept", got, want[None])


def test_tables():
    """Of frequencies; and positions that there are not."""
    rotary = attn.Rotary.of(8, 100, base=500.0)
    angles = np.arange(100)[:, None] * 500.0 ** (-np.arange(0, 8, 2) / 8)
    assert np.allclose(rotary.cos, np.cos(angles), atol=1e-6)
    assert np.allclose(rotary.sin, np.sin(angles), atol=1e-6)
    q, k, v = draw(1, 1, 12, 8), draw(1, 1, 12, 8), draw(1, 1, 12, 8)
    short = attn.Rotary(rotary.cos[:10], rotary.sin[:10])
    words = "a row for each position, 12"
    raises(ValueError, words, attn.attention, q, k, v, rotary=short)
    got = attn.attention(
        q, k, v, kv_lengths=[12], causal="bottom_right", rotary=short
    )
    assert np.isfinite(got[:, :, :10]).all() and np.isnan(got[:, :, 10:]).all()
    # A kernel is given tables one by one; positions are those that both have.
    kernel = attn.compile(q, k, v, rotary=rotary)
    for tables_of in ((rotary.cos[:10], rotary.sin), (rotary.cos, rotary.sin[:10])):
        got = np.asarray(kernel(q, k, v, *tables_of))
        assert np.isnan(got).all()
    # Keys behind the tables that no row sees do no harm.
    k[:, :, 10:] = np.nan
    got = attn.attention(
        q[:, :, :1], k, v, kv_lengths=[10], causal="bottom_right", rotary=short
    )
    assert np.isfinite(got).all()
    # Strided tables, views, and calls like the one before with other angles.
    some = q[:, :, :10], k[:, :, :10], v[:, :, :10]
    both = np.concatenate([rotary.cos, rotary.sin], -1)
    views = attn.Rotary(both[:, :4], both[:, 4:])
    for _ in range(2):
        want = attn.attention(*some, rotary=rotary)
        got = attn.attention(*some, rotary=views)
        assert (got == want).all()
    other = attn.Rotary(rotary.sin, rotary.cos)
    assert (attn.attention(*some, rotary=other) != want).any()


def test_empty():
    rotary = attn.Rotary.of(8, 16)
    none = attn.Rotary.of(8, 0)
    for b, sq, sk in ((0, 3, 3), (2, 0, 3), (2, 3, 0), (1, 0, 0)):
        q, k = draw(b, 2, sq, 8), draw(b, 1, sk, 8)
        for one in [rotary] + ([none] if sk == 0 else []):
            o = attn.attention(q, k, k, rotary=one)
            assert o.shape == q.shape and (o == 0).all()


def test_errors():
    q = draw(1, 2, 5, 16)
    call = lambda rotary, **options: attn.attention(q, q, q, rotary=rotary, **options)
    cos = np.ones((5, 8), np.float32)
    raises(TypeError, "rotary to be an attn.Rotary", call, (cos, cos))
    raises(TypeError, "cos of float32", attn.Rotary, cos.astype("d"), cos)
    raises(ValueError, "[positions, n]", attn.Rotary, cos[0], cos)
    words = "shape of cos, [5, 8], but got [5, 7]"
    raises(ValueError, words, attn.Rotary, cos, cos[:, :7])
    words = "interleaved to be True or False"
    raises(TypeError, words, attn.Rotary, cos, cos, interleaved=2)
    raises(ValueError, "an even number of channels", attn.Rotary.of, 7, 10)
    wide = attn.Rotary.of(18, 5)
    raises(ValueError, "at most 8 columns", call, wide)
    none = attn.Rotary.of(16, 0)
    raises(ValueError, "a position or more", call, none, kv_lengths=[5])
    turned_over = attn.Rotary(cos.T.copy().T, cos)
    raises(ValueError, "stride 1", call, turned_over)
    rotary = attn.Rotary(cos, cos)
    words = "values of their own"
    raises(ValueError, words, attn.attention, q, q, None, v_dim=8, rotary=rotary)
    words = "rotate q and k before"
    raises(NotImplementedError, words, attn.attention_vjp, q, q, q, rotary=rotary)


def run_on(target, q, k, v, **options):
    """attn.attention by a kernel for another target."""
    rotary = options["rotary"]
    for name in ("kv_lengths", "k_start", "cu_seqlens_q", "cu_seqlens_k"):
        if name in options:
            options[name] = np.asarray(options[name], np.int32)
    kernel = attn.compile(q, k, v, target=target, **options)
    named = dict(options, q=q, k=k, v=v, rotary_cos=rotary.cos, rotary_sin=rotary.sin)
    packed = options.get("layout") == "thd"
    for name in ("q", "k", "v"):
        if packed:
            named[name] = named[name].swapaxes(0, 1)
    o = kernel(*[named[arg.name] for arg in kernel.inputs])
    return o.swapaxes(0, 1) if packed else o


def test_gpus():
    """The same on GPUs, emulated: kernels before turn the rows, and round them."""
    here = attn.attention
    q = draw(1, 1, 4, 16)
    kernel = attn.compile(q, q, q, rotary=attn.Rotary.of(8, 4), target="sm_90a")
    assert "rotary: 8 channels turn once, in a kernel" in kernel.explain()
    sizes = [(64, 64), (64, 16), (40, 40), (128, 128), (96, 62), (80, 20)]
    for target in ("emulator:sm_80", "emulator:sm_90a"):
        attn.attention = functools.partial(run_on, target)
        try:
            test_dense(sizes)
            test_lengths()
            test_pages()
            test_packed()
            test_rolling()
        finally:
            attn.attention = here


for name, test in list(globals().items()):
    if name.startswith("test_"):
        test()
