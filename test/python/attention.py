# RUN: %python %s
"""Every argument of attn.attention against a float64 reference.

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

rng = np.random.default_rng(7)


def compare(name, q, k, v, **options):
    out, lse = attn.attention(q, k, v, return_lse=True, **options)
    assert out.dtype == q.dtype and lse.dtype == np.float32, name
    want, want_lse = reference.attention(q, k, v, **options)
    check(name, out, want, q.dtype)
    check(name + " lse", lse, want_lse, q.dtype)


def test_options():
    slopes = np.array([0.5, 0.25, 0.1, 0.0], np.float32)
    for dtype in reference.DTYPES:
        q, k, v = qkv(rng, dtype=dtype)
        b, hq, sq, sk = 2, 4, 33, 47
        bias = rng.standard_normal((b, hq, sq, sk)).astype(np.float32)
        mask = rng.random((b, hq, sq, sk)) < 0.7
        lengths = np.array([40, 13], np.int32)
        all_options = [
            {},
            {"scale": 0.3},
            {"scale": np.float32(0.3), "softcap": 2.0},
            {"causal": "top_left"},
            {"causal": "bottom_right"},
            {"window": (5, 3)},
            {"window": (5, -1)},
            {"window": (-1, 0)},
            {"causal": "top_left", "window": (7, 0)},
            {"causal": "bottom_right", "window": (0, 9)},
            {"window": (2**40, 4)},
            {"mask": mask},
            {"bias": bias},
            {"bias": bias.astype(dtype)},
            {"mask": mask, "bias": bias, "softcap": 3.0, "causal": "bottom_right"},
            {"alibi_slopes": slopes},
            {"alibi_slopes": np.stack([slopes, 2 * slopes]), "causal": "bottom_right"},
            {"sinks": slopes},
            {"sinks": [0.5, -1.0, 3.0, 0.0], "causal": "bottom_right"},
            {"kv_lengths": lengths},
            {"kv_lengths": lengths.astype(np.int64), "causal": "bottom_right"},
            {"kv_lengths": [0, 47], "causal": "bottom_right", "sinks": slopes},
            {"kv_lengths": lengths, "alibi_slopes": slopes, "window": (9, 9)},
        ]
        # Each option in f32; what the other types share with it, in part.
        for options in all_options[:: 1 if dtype == np.float32 else 4]:
            compare("%s %s" % (dtype, sorted(options)), q, k, v, **options)


def test_broadcast():
    q, k, v = qkv(rng)
    full = rng.standard_normal((2, 4, 33, 47)).astype(np.float32)
    for shape in [
        (47,), (1,), (), (33, 47), (33, 1), (1, 47), (4, 33, 47), (4, 1, 1),
        (1, 1, 33, 47), (2, 1, 1, 47), (2, 4, 1, 1), (2, 1, 33, 1), (1, 4, 33, 47),
    ]:
        bias = rng.standard_normal(shape).astype(np.float32)
        mask = np.asarray(rng.random(shape) < 0.7)
        compare("shape %s" % (shape,), q, k, v, bias=bias, mask=mask)
    # Expanded by the caller: stride 0.
    row = rng.standard_normal((1, 1, 1, 47)).astype(np.float32)
    compare("expanded", q, k, v, bias=np.broadcast_to(row, full.shape))
    column = rng.random((1, 1, 33, 1)) < 0.5
    compare("expanded column", q, k, v, mask=np.broadcast_to(column, full.shape))
    # Strided, with unit stride in the last dimension.
    wide = rng.standard_normal((33, 4, 2, 60)).astype(np.float32)
    compare("strided bias", q, k, v, bias=wide.transpose(2, 1, 0, 3)[..., 5:52])


def test_sizes():
    for b, hq, hk, sq, sk, d, dv in [
        (1, 1, 1, 1, 1, 1, 1),
        (1, 1, 1, 1, 300, 64, 64),
        (3, 6, 2, 1, 17, 7, 130),
        (1, 2, 2, 129, 65, 31, 33),
        (1, 5, 5, 64, 64, 128, 128),
        (2, 8, 1, 100, 3, 80, 96),
        (1, 2, 1, 7, 257, 192, 128),
        (1, 1, 1, 5, 9, 300, 3),
    ]:
        q, k, v = qkv(rng, b, hq, hk, sq, sk, d, dv)
        compare("sizes %s" % [b, hq, hk, sq, sk, d, dv], q, k, v, causal="bottom_right")


def test_empty():
    for b, sq, sk in [(0, 3, 4), (2, 0, 4), (2, 3, 0), (0, 0, 0)]:
        q, k, v = qkv(rng, b=b, sq=sq, sk=sk)
        out, lse = attn.attention(q, k, v, return_lse=True)
        assert out.shape == (b, 4, sq, 24) and lse.shape == (b, 4, sq)
        assert np.all(out == 0) and np.all(np.isneginf(lse))
    q, k, v = qkv(rng, sk=0)
    out, lse = attn.attention(q, k, v, sinks=[1.0, 2.0, 3.0, 4.0], return_lse=True)
    assert np.all(out == 0)
    assert np.allclose(lse, np.array([1, 2, 3, 4])[None, :, None])


def test_dead_slots():
    q, k, v = qkv(rng)
    want = attn.attention(q, k, v, kv_lengths=[30, 11])
    k, v = k.copy(), v.copy()
    for b, length in enumerate([30, 11]):
        k[b, :, length:], v[b, :, length:] = np.nan, np.inf
    assert np.array_equal(attn.attention(q, k, v, kv_lengths=[30, 11]), want)
    # A non-finite K under a mask; no query sees the key.
    q, k, v = qkv(rng)
    mask = rng.random((2, 1, 33, 47)) < 0.8
    mask[..., 20] = False
    want = attn.attention(q, k, v, mask=mask)
    k[:, :, 20] = np.inf
    assert np.array_equal(attn.attention(q, k, v, mask=mask), want)
    # Rows without a live key.
    mask[:, :, 4] = False
    out, lse = attn.attention(q, k, v, mask=mask, return_lse=True)
    assert np.all(out[:, :, 4] == 0) and np.all(np.isneginf(lse[:, :, 4]))
    assert np.isfinite(out).all()
    # A live NaN comes through.
    q[0, 0, 2, 1] = np.nan
    out = attn.attention(q, k, v, mask=mask)
    assert np.isnan(out[0, 0, 2]).all() and np.isnan(out).sum() == 24


def test_layouts():
    q, k, v = qkv(rng)
    want, want_lse = attn.attention(q, k, v, causal="bottom_right", return_lse=True)
    for layout, axes in [("bshd", (0, 2, 1, 3)), ("sbhd", (2, 0, 1, 3))]:
        args = [np.ascontiguousarray(x.transpose(axes)) for x in (q, k, v)]
        out, lse = attn.attention(
            *args, layout=layout, causal="bottom_right", return_lse=True
        )
        assert out.flags.c_contiguous
        assert np.array_equal(out, want.transpose(axes)), layout
        assert np.array_equal(lse, want_lse), layout
        # Views of the other order are the same problem.
        views = [x.transpose(axes) for x in (q, k, v)]
        out = attn.attention(*views, layout=layout, causal="bottom_right")
        assert np.array_equal(out, want.transpose(axes)), layout
    # One buffer with q, k and v behind each other, [b, s, 3, h, d].
    qkv_packed = reference.randn(rng, 2, 21, 3, 4, 16)
    q, k, v = (qkv_packed[:, :, i] for i in range(3))
    out = attn.attention(q, k, v, layout="bshd")
    want, _ = reference.attention(*(x.transpose(0, 2, 1, 3) for x in (q, k, v)))
    check("packed qkv", out.transpose(0, 2, 1, 3), want)
    # Reversed and stepped rows.
    q, k, v = qkv(rng)
    compare("steps", q[:, :, ::-2], k[:, ::-1, ::3], v[:, ::-1, ::3])


def test_packed():
    rows_q, rows_k = [0, 5, 5, 30], [0, 17, 20, 64]
    for causal in (None, "top_left", "bottom_right"):
        q, k, v = (
            reference.randn(rng, rows, heads, 32)
            for rows, heads in ((30, 4), (64, 2), (64, 2))
        )
        out, lse = attn.attention(
            q, k, v, layout="thd", causal=causal, return_lse=True,
            cu_seqlens_q=rows_q, cu_seqlens_k=np.array(rows_k, np.int32),
        )
        assert out.shape == (30, 4, 32) and lse.shape == (4, 30)
        for n in range(3):
            i, j = slice(*rows_q[n:n + 2]), slice(*rows_k[n:n + 2])
            parts = [x.transpose(1, 0, 2)[None] for x in (q[i], k[j], v[j])]
            want, want_lse = reference.attention(*parts, causal=causal)
            check("packed %s" % n, out[i].transpose(1, 0, 2)[None], want)
            check("packed lse", lse[None, :, i], want_lse)


def test_monoids():
    q, k, v = qkv(rng)
    s = reference.scores(q, k)
    vs = np.repeat(v.astype(np.float64), 2, axis=1)
    p = np.exp(s - s.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    entropy = -(p * np.log(p)).sum(-1)

    out, aux = attn.attention(q, k, v, return_aux=("entropy", "lse"))
    check("entropy", aux["entropy"], entropy)
    out, lse, aux = attn.attention(q, k, v, return_lse=True, return_aux="max")
    check("max", aux["max"], s.max(-1))
    assert list(aux) == ["max"]
    check("lse", lse, reference.attention(q, k, v)[1])
    check("logsumexp", attn.attention(q, k, None, monoid="logsumexp"), lse)

    sigmoid = 1 / (1 + np.exp(-s))
    check("sigmoid", attn.attention(q, k, v, monoid="sigmoid_sum"), sigmoid @ vs)
    relu = np.maximum(s, 0)
    check("relu", attn.attention(q, k, v, monoid="relu_sum"), relu @ vs)
    check("relu2", attn.attention(q, k, v, monoid="relu2_sum"), relu**2 @ vs)
    front = np.cumprod(1 - sigmoid, axis=-1) / (1 - sigmoid)
    check("alpha", attn.attention(q, k, v, monoid="alpha_compositing"),
          (sigmoid * front) @ vs)
    back = np.cumprod((1 - sigmoid)[..., ::-1], axis=-1)[..., ::-1] / (1 - sigmoid)
    out, aux = attn.attention(q, k, v, monoid="stick_breaking",
                              return_aux=["remainder"])
    check("stick", out, (sigmoid * back) @ vs)
    assert aux["remainder"].shape == s.shape[:3]
    plus = np.stack([(s + vs[..., None, :, c]).max(-1) for c in range(24)], -1)
    check("maxplus", attn.attention(q, k, v, monoid="maxplus"), plus)
    assert attn.monoids()["softmax"] == ("o", "lse")


TEMPERED = """
attn.monoid @tempered cocycle stats(f32) components(value, unit) params(f32)
    outputs("o", "heat") {
  identity {
  ^bb0(%t: f32):
    %ninf = arith.constant 0xFF800000 : f32
    attn.yield %ninf : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32, %t: f32):
    %m = arith.maximumf %a, %b : f32
    attn.yield %m : f32
  }
  rescale {
  ^bb0(%from: f32, %to: f32, %t: f32):
    %d = arith.subf %from, %to : f32
    %x = arith.divf %d, %t : f32
    %r = math.exp2 %x : f32
    attn.yield %r : f32
  }
  lift {
  ^bb0(%s: f32, %t: f32):
    %one = arith.constant 1.0 : f32
    attn.yield %s, %one, %one : f32, f32, f32
  }
  finalize {
  ^bb0(%m: f32, %acc: f32, %sum: f32, %t: f32):
    %zero = arith.constant 0.0 : f32
    %empty = arith.cmpf oeq, %sum, %zero : f32
    %quot = arith.divf %acc, %sum : f32
    %o = arith.select %empty, %zero, %quot : f32
    attn.yield %o, %sum : f32, f32
  }
}
"""


def test_own_monoid():
    q, k, v = qkv(rng)
    for temperature in (0.5, 2.0):
        out, aux = attn.attention(
            q, k, v, monoid=TEMPERED, monoid_params=[temperature], return_aux="heat"
        )
        scale = 40**-0.5 * np.log(2) / temperature
        check("own monoid", out, reference.attention(q, k, v, scale=scale)[0])
        assert aux["heat"].min() >= 1


def test_out():
    q, k, v = qkv(rng)
    want = attn.attention(q, k, v)
    out = np.zeros_like(want)
    assert attn.attention(q, k, v, out=out) is out
    assert np.array_equal(out, want)
    wide = np.zeros((2, 33, 4, 40), np.float32)
    view = wide[..., 8:32].transpose(0, 2, 1, 3)
    got, lse = attn.attention(q, k, v, out=view, return_lse=True)
    assert got is view and np.array_equal(view, want)
    assert np.all(wide[..., :8] == 0) and np.all(wide[..., 32:] == 0)
    out = np.zeros((2, 33, 4, 24), np.float32)
    args = [x.transpose(0, 2, 1, 3) for x in (q, k, v)]
    attn.attention(*args, layout="bshd", out=out)
    assert np.array_equal(out, want.transpose(0, 2, 1, 3))


def test_threads():
    q, k, v = qkv(rng, sq=300, sk=300)
    before = attn.get_num_threads()
    results = []
    for count in (1, 2, 5):
        attn.set_num_threads(count)
        assert attn.get_num_threads() == count
        results.append(attn.attention(q, k, v, causal="top_left"))
    attn.set_num_threads(0)
    assert attn.get_num_threads() == before
    assert all(np.array_equal(results[0], result) for result in results)


def test_precision():
    # A permission, of which CPUs make no use.
    q, k, v = qkv(rng)
    want = attn.attention(q, k, v)
    for precision in ("ieee", "tf32"):
        assert np.array_equal(attn.attention(q, k, v, precision=precision), want)
    kernel = attn.compile(q, k, v, precision="tf32")
    assert "precision = #attn.precision<tf32>" in kernel.mlir("input")
    assert np.array_equal(kernel(q, k, v), want)


def test_inputs_untouched():
    q, k, v = qkv(rng)
    copies = [x.copy() for x in (q, k, v)]
    for x in (q, k, v):
        x.flags.writeable = False
    attn.attention(q, k, v, causal="top_left")
    assert all(np.array_equal(x, y) for x, y in zip((q, k, v), copies))


def test_decode():
    # Few rows and many keys: the keys are reduced in parts, and the bits are
    # those of any number of threads.
    from attn import _library

    for sq, sk in ((1, 4100), (3, 2048), (16, 5000), (2, 300)):
        q, k, v = qkv(rng, b=1, sq=sq, sk=sk)
        for options in ({}, {"causal": "bottom_right", "sinks": [0.5, 0, 1, 2]}):
            compare("decode %d %d %s" % (sq, sk, options), q, k, v, **options)
        outs = []
        for count in (1, 2, 3):
            attn.set_num_threads(count)
            outs.append(attn.attention(q, k, v))
        attn.set_num_threads(0)
        assert all(np.array_equal(outs[0], out) for out in outs[1:])
    kernel = attn.compile(*qkv(rng, b=1, sq=1, sk=4100), return_lse=True)
    assert "splits: 4 " in kernel.explain()
    # Heads that lie behind each other share tiles.
    assert "heads: packed" in kernel.explain()
    q, k, v = qkv(rng, b=1, sq=3, sk=2100)
    apart = np.ascontiguousarray(q.transpose(0, 2, 1, 3)).transpose(0, 2, 1, 3)
    assert "heads: packed" not in attn.compile(apart, k, v).explain()

    # Packed sequences of a row each have tiles of a row, on a CPU.
    rand = lambda *shape: rng.standard_normal(shape, dtype=np.float32)
    rows, offsets = rand(5, 4, 64), np.arange(6, dtype=np.int32)
    packed = {"layout": "thd", "cu_seqlens_q": offsets, "cu_seqlens_k": 20 * offsets}
    kernel = attn.compile(rows, rand(100, 2, 64), rand(100, 2, 64), **packed)
    assert "block_q = 1, rows = 1," in kernel.explain()
    compare("decode, heads apart", apart, k, v)
    # A cache that grows by one key does not compile.
    attn.attention(*qkv(rng, b=1, sq=1, sk=4100), return_lse=True)
    count = _library.lib.attnContextNumCached(_library.context)
    for sk in (4101, 6000, 8191):
        attn.attention(*qkv(rng, b=1, sq=1, sk=sk), return_lse=True)
    assert _library.lib.attnContextNumCached(_library.context) == count
    attn.attention(*qkv(rng, b=1, sq=1, sk=8192), return_lse=True)
    assert _library.lib.attnContextNumCached(_library.context) == count + 1


for name, test in list(globals().items()):
    if name.startswith("test_"):
        test()
        print("ok", name)
