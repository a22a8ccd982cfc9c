"""What the Python tests share: a plain float64 attention and its error bar.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import numpy as np

try:
    import ml_dtypes

    BF16 = np.dtype(ml_dtypes.bfloat16)
except ImportError:
    BF16 = None

DTYPES = [np.dtype(np.float32), np.dtype(np.float16)] + ([BF16] if BF16 else [])
# Relative to the largest value: a few roundings of q, P and the output.
TOLERANCE = {"float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}


def scores(q, k, scale=None, softcap=0.0, bias=None, slopes=None, lengths=None):
    """Final scores [b, hq, sq, sk] in float64, before any mask."""
    q, k = (np.asarray(x).astype(np.float64) for x in (q, k))
    b, hq, sq, d = q.shape
    sk = k.shape[2]
    k = np.repeat(k, hq // max(k.shape[1], 1), axis=1)
    scale = d**-0.5 if scale is None else scale
    with np.errstate(invalid="ignore"):
        s = scale * np.einsum("bhid,bhjd->bhij", q, k)
    if softcap:
        s = softcap * np.tanh(s / softcap)
    if bias is not None:
        s = s + np.asarray(bias).astype(np.float64)
    if slopes is not None:
        slopes = np.broadcast_to(np.asarray(slopes, np.float64), (b, hq))
        keys = np.full(b, sk) if lengths is None else np.asarray(lengths)
        now = np.arange(sq)[None, :, None] + (keys - sq)[:, None, None]
        distance = np.abs(now - np.arange(sk)[None, None, :])
        s = s - slopes[:, :, None, None] * distance[:, None]
    return s


def live(shape, causal=None, window=(-1, -1), mask=None, lengths=None):
    """True where a query attends to a key, [b, hq, sq, sk]."""
    b, hq, sq, sk = shape
    keys = np.full(b, sk) if lengths is None else np.asarray(lengths)
    i, j = np.arange(sq)[None, :, None], np.arange(sk)[None, None, :]
    now = i if causal == "top_left" else i + (keys - sq)[:, None, None]
    alive = j < keys[:, None, None]
    if causal:
        alive = alive & (j <= now)
    if window[0] >= 0:
        alive = alive & (now - j <= window[0])
    if window[1] >= 0:
        alive = alive & (j - now <= window[1])
    alive = np.broadcast_to(alive[:, None], shape)
    return alive if mask is None else alive & np.broadcast_to(mask, shape)


def attention(q, k, v, sinks=None, causal=None, window=(-1, -1), mask=None,
              kv_lengths=None, alibi_slopes=None, **options):
    """The output [b, hq, sq, dv] and the LSE [b, hq, sq], in float64."""
    s = scores(q, k, slopes=alibi_slopes, lengths=kv_lengths, **options)
    alive = live(s.shape, causal, window, mask, kv_lengths)
    alive = alive & ~np.isneginf(s)
    s = np.where(alive, s, -np.inf)
    top = s.max(axis=-1, initial=-np.inf)
    if sinks is not None:
        sink = np.asarray(sinks, np.float64)[None, :, None]
        top = np.maximum(top, sink)
    anchor = np.where(np.isneginf(top), 0.0, top)
    p = np.exp(s - anchor[..., None])
    total = p.sum(axis=-1)
    if sinks is not None:
        total = total + np.exp(sink - anchor)
    values = np.repeat(np.asarray(v).astype(np.float64),
                       s.shape[1] // max(v.shape[1], 1), 1)
    used = alive.any(axis=2)[..., None]  # what is dead for every row is not read
    acc = np.einsum("bhij,bhjd->bhid", p, np.where(used, values, 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        out = np.where(total[..., None] == 0, 0.0, acc / total[..., None])
        lse = anchor + np.log(total)
    return out, lse


def check(name, got, want, dtype="float32"):
    """Fails where an output is further from the reference than its type allows."""
    got = np.asarray(got).astype(np.float64)
    assert got.shape == want.shape, "%s: shape %s, not %s" % (name, got.shape,
                                                              want.shape)
    dead = np.isneginf(want)
    assert np.array_equal(dead, np.isneginf(got)), "%s: -inf in other places" % name
    got, want = np.where(dead, 0, got), np.where(dead, 0, want)
    bound = TOLERANCE[str(dtype)] * max(1.0, np.abs(want).max(initial=0.0))
    error = np.abs(got - want).max(initial=0.0)
    assert error <= bound, "%s: error %g, but at most %g" % (name, error, bound)


def randn(rng, *shape, dtype=np.float32):
    return rng.standard_normal(shape).astype(np.float32).astype(dtype)


def qkv(rng, b=2, hq=4, hk=2, sq=33, sk=47, d=40, dv=24, dtype=np.float32):
    return (
        randn(rng, b, hq, sq, d, dtype=dtype),
        randn(rng, b, hk, sk, d, dtype=dtype),
        randn(rng, b, hk, sk, dv, dtype=dtype),
    )


def fails(error, text, function, *args, **kwargs):
    """Fails unless the call raises `error` with one line that holds `text`."""
    try:
        function(*args, **kwargs)
    except error as raised:
        message = str(raised)
        assert type(raised) is error, "%s, not %s" % (type(raised), error)
        assert message.startswith("attn: "), message
        assert "\n" not in message, message
        assert text in message, "expected '%s' in: %s" % (text, message)
        return
    raise AssertionError("no error, but expected one with '%s'" % text)


def raises(kind, words, function, *args, **options):
    """Fails unless the call raises an error of that kind, one line with `words`."""
    try:
        function(*args, **options)
    except kind as error:
        assert words in str(error), error
        assert "\n" not in str(error)
        return
    raise AssertionError("expected %s" % kind.__name__)
