# RUN: %python %s
"""dropout_p= and dropout_rng=, and attn.dropout_mask: the bits are those of Philox,
and the same on every target and in every schedule; values are dropped after the
weights are normalised.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
from reference import raises

import attn
from attn import _dropout

rng = np.random.default_rng(11)
EMULATED = ("emulator:sm_80", "emulator:sm_90a")
RNG = (0x9E3779B97F4A7C15, 0x1234567890ABCDEF)


def draw(*shape, dtype=np.float32):
    return rng.standard_normal(shape).astype(dtype)


def run(target, q, k, v, **options):
    """attn.attention, or the same call of a kernel for another target."""
    if target is None:
        return attn.attention(q, k, v, **options)
    kernel = attn.compile(q, k, v, target=target, **options)
    named = dict(options, q=q, k=k, v=v)
    words = _dropout.words_of(options["dropout_p"], options["dropout_rng"])
    named.update(zip(_dropout.WORDS, words))
    results = kernel(*[named[arg.name] for arg in kernel.inputs])
    return results


def reference(q, k, v, keep, p, live=None, bias=0.0):
    """Output and LSE in float64."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, 1), np.repeat(v, group, 1)
    s = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]) + bias
    if live is not None:
        s = np.where(live, s, -np.inf)
    with np.errstate(all="ignore"):
        top = s.max(-1, keepdims=True, initial=-np.inf)
        top = np.where(np.isfinite(top), top, 0.0)
        w = np.exp(s - top)
        total = w.sum(-1, keepdims=True)
        lse = np.log(total) + top
        share = np.where(total > 0, w / total, 0.0)
        scaled = np.where(keep, share / (1.0 - p), 0.0)
    return scaled @ v, lse[..., 0]


def close(name, got, want, bound=2e-5):
    got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
    assert got.shape == want.shape, (name, got.shape, want.shape)
    both = np.isfinite(want)
    assert (np.isfinite(got) == both).all(), name
    error = np.abs(got[both] - want[both]).max(initial=0.0)
    assert error <= bound * max(1.0, np.abs(want[both]).max(initial=0.0)), (name, error)


def test_philox():
    """The known answers of Random123 (kat_vectors, philox4x32 10)."""
    for counter, key, want in (
        ((0,) * 4, (0,) * 2, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ((2**32 - 1,) * 4, (2**32 - 1,) * 2, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            "d16cfe09 94fdcceb 5001e420 24126ea1",
        ),
    ):
        got = _dropout.philox(counter, key)
        assert " ".join("%08x" % word for word in got) == want


def test_mask():
    mask = attn.dropout_mask(RNG, 0.3, 3, 4, 130, 200)
    assert mask.shape == (3, 4, 130, 200) and mask.dtype == bool
    n = mask.size
    assert abs(mask.mean() - 0.7) < 5 * np.sqrt(0.21 / n), mask.mean()
    # In every dimension, and between neighbours and heads.
    for axis in range(4):
        others = tuple(i for i in range(4) if i != axis)
        share = mask.mean(axis=others)
        assert np.abs(share - 0.7).max() < 5 * np.sqrt(0.21 * mask.shape[axis] / n)
    centred = mask - mask.mean()
    for axis in range(4):
        for step in (1, 2, 16, 64):
            if step < mask.shape[axis]:
                a = np.take(centred, range(step, mask.shape[axis]), axis)
                b = np.take(centred, range(mask.shape[axis] - step), axis)
                assert abs((a * b).mean()) < 5 * 0.21 / np.sqrt(a.size), (axis, step)
    # A part of a larger mask; others of other seeds and offsets.
    assert (attn.dropout_mask(RNG, 0.3, 2, 3, 17, 90) == mask[:2, :3, :17, :90]).all()
    for other in ((RNG[0] ^ 1 << 63, RNG[1]), (RNG[0], RNG[1] + 1),
                  (RNG[0] + 1, RNG[1])):
        agree = (attn.dropout_mask(other, 0.3, 3, 4, 130, 200) == mask).mean()
        assert abs(agree - 0.58) < 0.02, agree
    # A larger share drops more.
    assert (attn.dropout_mask(RNG, 0.5, 3, 4, 130, 200) <= mask).all()
    assert attn.dropout_mask(RNG, 0.0, 1, 1, 3, 5).all()
    assert not attn.dropout_mask(RNG, 1.0, 1, 1, 3, 5).any()
    assert attn.dropout_mask(RNG, 0.1, 0, 2, 3, 0).shape == (0, 2, 3, 0)
    # A signed seed is one of 64 bits.
    signed = (RNG[0] - 2**64, RNG[1])
    assert (attn.dropout_mask(signed, 0.3, 3, 4, 130, 200) == mask).all()


def test_bits():
    """Attention itself shows its mask: queries of 0 and one-hot values."""
    b, h, sq, sk, p = 2, 3, 70, 150, 0.4
    q, k = np.zeros((b, h, sq, 16), np.float32), draw(b, h, sk, 16)
    v = np.broadcast_to(np.eye(sk, dtype=np.float32), (b, h, sk, sk))
    want = attn.dropout_mask(RNG, p, b, h, sq, sk)
    options = dict(dropout_p=p, dropout_rng=RNG)
    for target in (None,) + EMULATED:
        o = run(target, q, k, np.ascontiguousarray(v), **options)
        assert ((o > 0) == want).all(), target
        close("scale", o[o > 0], np.full(want.sum(), 1 / (sk * (1 - p))), 1e-6)
    text = """func.func @f(%q: tensor<?x?x?x16xf32>, %k: tensor<?x?x?x16xf32>,
        %v: tensor<?x?x?x150xf32>, %p: f32, %a: i32, %b: i32, %c: i32, %d: i32)
        -> tensor<?x?x?x150xf32> {
      %o = attn.attention queries(%q : tensor<?x?x?x16xf32>) keys(%k
          : tensor<?x?x?x16xf32>)
          values(%v : tensor<?x?x?x150xf32>) dropout(%p, %a, %b, %c, %d)
          {schedule = #attn.schedule<SCHEDULE>} -> tensor<?x?x?x150xf32>
      return %o : tensor<?x?x?x150xf32>
    }"""
    words = _dropout.words_of(p, RNG)
    for target, schedule in (
        (None, "block_q = 16, rows = 8, block_k = 24"),
        (None, "block_q = 64, rows = 32, block_k = 64"),
        (None, "block_q = 32, rows = 16, block_k = 40, splits = 3"),
        (None, "block_q = 32, rows = 32, block_k = 128, splits = 2"),
        ("emulator:sm_80", "block_q = 32, rows = 16, block_k = 48"),
        ("emulator:sm_80", "block_q = 64, rows = 16, block_k = 64, splits = 3"),
        ("emulator:sm_90a", "block_q = 32, rows = 16, block_k = 32, splits = 2"),
    ):
        kernel = attn.compile(text.replace("SCHEDULE", schedule), target=target)
        o = kernel(q, k, np.ascontiguousarray(v), np.float32(p), *words)
        assert ((o > 0) == want).all(), (target, schedule)


def test_numbers():
    b, hq, hk, sq, sk, d = 2, 4, 2, 90, 140, 32
    q, k, v = draw(b, hq, sq, d), draw(b, hk, sk, d), draw(b, hk, sk, 24)
    i, j = np.arange(sq)[:, None], np.arange(sk)
    causal = j <= i + sk - sq
    for p in (0.1, 0.5, 0.99):
        keep = attn.dropout_mask(RNG, p, b, hq, sq, sk)
        drop = dict(dropout_p=p, dropout_rng=RNG)
        want, lse = reference(q, k, v, keep, p)
        got = attn.attention(q, k, v, return_lse=True, **drop)
        close("plain", got[0], want)
        close("lse", got[1], lse)
        want, lse = reference(q, k, v, keep, p, causal)
        got = attn.attention(q, k, v, causal="bottom_right", return_lse=True, **drop)
        close("causal", got[0], want)
        close("causal lse", got[1], lse)
    mask = rng.random((b, 1, sq, sk)) < 0.6
    bias = np.where(rng.random((b, hq, 1, sk)) < 0.2, -np.inf, draw(b, hq, 1, sk))
    bias = bias.astype(np.float32)
    lengths = np.array([100, 3], np.int32)
    slopes = np.array([0.1, 0.2, 0.0, 0.5], np.float32)
    live = mask & (j < lengths[:, None, None, None])
    distance = np.abs(i + lengths[:, None, None, None] - sq - j)
    total = bias - slopes[:, None, None] * distance
    p = 0.25
    keep = attn.dropout_mask(RNG, p, b, hq, sq, sk)
    want, _ = reference(q, k, v, keep, p, live, total)
    options = dict(mask=mask, bias=bias, kv_lengths=lengths, alibi_slopes=slopes)
    got = attn.attention(q, k, v, dropout_p=p, dropout_rng=RNG, **options)
    close("mask, bias, lengths, alibi", got, want, 5e-5)
    # Layouts, rows that are far from 0, all of them dropped, none of them.
    swapped = [np.ascontiguousarray(x.swapaxes(1, 2)) for x in (q, k, v)]
    drop = dict(dropout_p=p, dropout_rng=RNG)
    a = attn.attention(*swapped, layout="bshd", **drop).swapaxes(1, 2)
    assert (a == attn.attention(q, k, v, **drop)).all()
    got, lse = attn.attention(q, k, v, dropout_p=1, dropout_rng=RNG, return_lse=True)
    assert (got == 0).all()
    plain, plain_lse = attn.attention(q, k, v, return_lse=True)
    assert (lse == plain_lse).all()
    for share in (0, 0.0, 1e-60, np.float32(0)):
        assert (attn.attention(q, k, v, dropout_p=share,
                               dropout_rng=RNG) == plain).all()
    assert (attn.attention(q, k, v, dropout_p=0.0) == plain).all()
    assert (attn.attention(q, k, v, **drop) == attn.attention(q, k, v, **drop)).all()


def test_types():
    import ml_dtypes

    b, h, sq, sk, d, p = 1, 2, 66, 130, 64, 0.2
    keep = attn.dropout_mask(RNG, p, b, h, sq, sk)
    for dtype, bound in ((np.float16, 4e-3), (ml_dtypes.bfloat16, 3e-2)):
        q, k, v = (draw(b, h, s, d, dtype=dtype) for s in (sq, sk, sk))
        want, _ = reference(q, k, v, keep, p)
        for target in (None,) + EMULATED:
            got = run(target, q, k, v, dropout_p=p, dropout_rng=RNG)
            close((target, dtype), got, want, bound)


def test_packed_and_paged():
    h, d, p = 2, 16, 0.3
    drop = dict(dropout_p=p, dropout_rng=RNG)
    lq, lk = [3, 0, 70], [5, 9, 100]
    cu_q, cu_k = (np.concatenate([[0], np.cumsum(x)]).astype(np.int32)
                  for x in (lq, lk))
    q, k, v = draw(h, cu_q[-1], d), draw(h, cu_k[-1], d), draw(h, cu_k[-1], d)
    packed = [np.ascontiguousarray(x.swapaxes(0, 1)) for x in (q, k, v)]
    got = attn.attention(
        *packed, layout="thd", cu_seqlens_q=cu_q, cu_seqlens_k=cu_k, **drop
    )
    keep = attn.dropout_mask(RNG, p, len(lq), h, max(lq), max(lk))
    for n in range(len(lq)):
        rows, keys = slice(cu_q[n], cu_q[n + 1]), slice(cu_k[n], cu_k[n + 1])
        want, _ = reference(
            q[None, :, rows],
            k[None, :, keys],
            v[None, :, keys],
            keep[n : n + 1, :, : lq[n], : lk[n]],
            p,
        )
        close("packed", got[rows].swapaxes(0, 1)[None], want)
    # The same in pages, of any order.
    b, sk, page = 2, 96, 16
    q, k, v = draw(b, h, 40, d), draw(b, h, sk, d), draw(b, h, sk, d)
    table = rng.permutation(b * sk // page).astype(np.int32).reshape(b, -1)
    pools = []
    for x in (k, v):
        pool = np.empty((b * sk // page, h, page, d), np.float32)
        pool[table] = x.reshape(b, h, -1, page, d).swapaxes(1, 2)
        pools.append(pool)
    keep = attn.dropout_mask(RNG, p, b, h, 40, sk)
    want, _ = reference(q, k, v, keep, p)
    close("paged", attn.attention(q, *pools, block_table=table, **drop), want)
    start = np.array([7, 1000], np.int32)
    close("k_start", attn.attention(q, k, v, k_start=start, **drop), want)
    # One query of many keys, which are reduced in parts.
    q, k, v = draw(1, 8, 1, 64), draw(1, 1, 3000, 64), draw(1, 1, 3000, 64)
    keep = attn.dropout_mask(RNG, p, 1, 8, 1, 3000)
    want, _ = reference(q, k, v, keep, p)
    for target in (None,) + EMULATED:
        close("decode", run(target, q, k, v, **drop), want)


def test_monoids():
    b, h, sq, sk, d, p = 1, 2, 20, 90, 16, 0.35
    q, k, v = draw(b, h, sq, d), draw(b, h, sk, d), draw(b, h, sk, 8)
    keep = attn.dropout_mask(RNG, p, b, h, sq, sk) / (1 - p)
    s = q.astype(np.float64) @ k.astype(np.float64).swapaxes(-1, -2) / np.sqrt(d)
    beta = 1 / (1 + np.exp(-s))
    left = np.cumprod((1 - beta)[..., ::-1], -1)[..., ::-1]
    after = np.concatenate([left[..., 1:], np.ones_like(left[..., :1])], -1)
    for monoid, weights in (
        ("sigmoid_sum", beta),
        ("relu_sum", np.maximum(s, 0)),
        ("stick_breaking", beta * after),
    ):
        for target in (None,) + EMULATED:
            got = run(target, q, k, v, monoid=monoid, dropout_p=p, dropout_rng=RNG)
            close((monoid, target), got, (weights * keep) @ v.astype(np.float64))
    drop = dict(dropout_p=p, dropout_rng=RNG)
    _, rest = attn.attention(
        q, k, v, monoid="stick_breaking", return_aux="remainder", **drop
    )
    close("remainder", rest["remainder"], left[..., 0])
    _, lse, aux = attn.attention(q, k, v, return_lse=True, return_aux="entropy", **drop)
    _, plain, plain_aux = attn.attention(q, k, v, return_lse=True, return_aux="entropy")
    close("entropy", aux["entropy"], plain_aux["entropy"])
    for monoid in ("maxplus", "welford"):
        raises(
            ValueError,
            "a monoid that sums weighted values",
            attn.attention,
            q,
            k,
            v,
            monoid=monoid,
            **drop,
        )


def test_gradients():
    """attn.attention_vjp against finite differences of float64, in a direction."""
    b, hq, hk, sq, sk, d, p = 1, 4, 2, 30, 70, 16, 0.4
    q, k, v = draw(b, hq, sq, d), draw(b, hk, sk, d), draw(b, hk, sk, 8)
    keep = attn.dropout_mask(RNG, p, b, hq, sq, sk)
    live = np.arange(sk) <= np.arange(sq)[:, None] + sk - sq
    (o, lse), vjp = attn.attention_vjp(
        q, k, v, causal="bottom_right", return_lse=True, dropout_p=p, dropout_rng=RNG
    )
    want, want_lse = reference(q, k, v, keep, p, live)
    close("forward", o, want)
    do, dlse = draw(*o.shape), draw(*lse.shape)
    gradients = vjp(do, dlse)

    def loss(q, k, v):
        o, lse = reference(q, k, v, keep, p, live)
        return (o * do).sum() + (lse * dlse).sum()

    for i, name in enumerate(("q", "k", "v")):
        operands = [x.astype(np.float64) for x in (q, k, v)]
        for _ in range(3):
            step = rng.standard_normal(operands[i].shape)
            moved = [list(operands), list(operands)]
            moved[0][i] = operands[i] + 1e-5 * step
            moved[1][i] = operands[i] - 1e-5 * step
            slope = (loss(*moved[0]) - loss(*moved[1])) / 2e-5
            got = (gradients[name].astype(np.float64) * step).sum()
            assert abs(got - slope) < 1e-4 * max(1.0, abs(slope)), (name, got, slope)


def test_dead():
    """What is dead stays without effect; what is live and NaN does not."""
    q, k, v = draw(1, 1, 5, 16), draw(1, 1, 80, 16), draw(1, 1, 80, 16)
    drop = dict(dropout_p=0.5, dropout_rng=RNG)
    lengths = np.array([50], np.int32)
    want = attn.attention(q, k, v, kv_lengths=lengths, **drop)
    k[:, :, 50:], v[:, :, 50:] = np.nan, np.inf
    assert (attn.attention(q, k, v, kv_lengths=lengths, **drop) == want).all()
    assert (attn.attention(q, k, v, kv_lengths=[0], **drop) == 0).all()
    assert attn.attention(q[:, :, :0], k, v, **drop).shape == (1, 1, 0, 16)
    assert (attn.attention(q, k[:, :, :0], v[:, :, :0], **drop) == 0).all()
    k[:, :, 3] = np.nan
    assert np.isnan(attn.attention(q, k, v, kv_lengths=lengths, **drop)).all()


def test_errors():
    q = draw(1, 1, 4, 16)
    f = attn.attention
    raises(ValueError, "dropout_rng=(seed, offset) with dropout_p > 0", f, q, q, q,
           dropout_p=0.1)
    for p in (-0.1, 1.5, float("nan"), float("inf")):
        raises(ValueError, "dropout_p between 0 and 1", f, q, q, q, dropout_p=p,
               dropout_rng=(0, 0))
    for p in ("0.1", None, [0.1], True):
        raises(TypeError, "dropout_p to be a number", f, q, q, q, dropout_p=p,
               dropout_rng=(0, 0))
    for state in (3, (1.5, 0), ("a", "b"), (None, 1)):
        raises(TypeError, "dropout_rng to be (seed, offset)", f, q, q, q, dropout_p=0.1,
               dropout_rng=state)
    for state in ((1,), (1, 2, 3), ()):
        raises(ValueError, "dropout_rng to be (seed, offset)", f, q, q, q,
               dropout_p=0.1, dropout_rng=state)
    for state in ((2**64, 0), (0, -(2**63) - 1)):
        raises(ValueError, "to have 64 bits", f, q, q, q, dropout_p=0.1,
               dropout_rng=state)
        raises(ValueError, "to have 64 bits", f, q, q, q, dropout_rng=state)
    raises(ValueError, "sq between 0 and", attn.dropout_mask, (0, 0), 0.1, 1, 1, -1, 1)
    raises(TypeError, "sk to be an integer", attn.dropout_mask, (0, 0), 0.1, 1, 1, 1,
           1.0)


for name, test in sorted(globals().items()):
    if name.startswith("test_"):
        test()
