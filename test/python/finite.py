# RUN: %python %s
"""Scores of any finite size, as masks of floats make them, and biases of -inf.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

The reference subtracts the maximum in float32 from scores that are float32 and
does the rest in float64.
"""

import numpy as np

import attn

rng = np.random.default_rng(17)
least = float(np.finfo("f").min)


def rows(sq, sk, d=16, b=1, hq=2):
    return tuple(rng.standard_normal((b, hq, n, d)).astype("f") for n in (sq, sk, sk))


def reference(q, k, v, bias=0.0, scale=None, sink=None):
    """(o, lse) of rows with a score that is not -inf; else 0 and -inf."""
    scale = 1 / np.sqrt(q.shape[-1]) if scale is None else scale
    with np.errstate(over="ignore", invalid="ignore"):
        s = ((q.astype("f8") @ k.swapaxes(-1, -2).astype("f8")) * scale).astype("f")
        s = s + np.asarray(bias, "f")
        m = s.max(-1, keepdims=True) if s.shape[-1] else np.full(s.shape[:-1] + (1,),
                                                                 -np.inf, "f")
        if sink is not None:
            m = np.maximum(m, np.asarray(sink, "f")[None, :, None, None])
        a = np.where(np.isinf(m), 0, m)
        p = np.exp((s - a).astype("f8"))
        total = p.sum(-1, keepdims=True)
        if sink is not None:
            total = total + np.exp((np.asarray(sink, "f")[None, :, None,
                                                          None] - a).astype("f8"))
        o = (p @ np.nan_to_num(v.astype("f8"))) / np.where(total == 0, 1, total)
        return o, np.where(total == 0, -np.inf, a + np.log(total))[..., 0]


def check(what, got, want, tolerance=2e-5):
    off = np.abs(got - want) / np.maximum(1, np.abs(want))
    off = np.where(got == want, 0, off)
    assert not np.isnan(got).any() and off.max(initial=0) < tolerance, (what, off.max())


# Left padding: whole key tiles, and whole rows, have the same large bias.
for target in (None, "cpu-generic", "cpu-avx2"):
    q, k, v = rows(40, 400, 64)
    kernel = attn.compile(q, k, v, bias=np.zeros((1, 1, 1, 400), "f"), return_lse=True,
                          target=target)
    for size in (-1e4, -1e9, -2e9, -1e10, -1e12, -1e30, least, 1e10, 3e38):
        for padded in (0, 1, 64, 127, 128, 300, 400):
            bias = np.zeros((1, 1, 1, 400), "f")
            bias[..., :padded] = size
            got = kernel(q, k, v, bias=bias)
            for x, y in zip(got, reference(q, k, v, bias)):
                check((target, size, padded), x, y)

# The same for every monoid of the family, and for types of 16 bits.
q, k, v = rows(70, 300)
for size in (-1e9, -1e10, -1e30, least):
    for padded in (128, 200, 300):
        bias = np.zeros((1, 1, 1, 300), "f")
        bias[..., :padded] = size
        o, lse = reference(q, k, v, bias)
        check("lse alone", attn.attention(q, k, v, bias=bias, monoid="logsumexp"), lse)
        check("softmax_max", attn.attention(q, k, v, bias=bias, monoid="softmax_max"),
              o)
        got = attn.attention(q, k, v, bias=bias, monoid="softmax_entropy",
                             return_aux=["entropy"])
        live = attn.attention(q, k[:, :, padded:], v[:, :, padded:],
                              monoid="softmax_entropy", return_aux=["entropy"])
        check("softmax_entropy", got[0], o)
        if padded < 300:
            check("entropy", got[1]["entropy"], live[1]["entropy"])
        half = [x.astype(np.float16) for x in (q, k, v)]
        o, lse = reference(*half, bias)
        got = attn.attention(*half, bias=bias, return_lse=True)
        check("f16", got[0].astype("f"), o, 4e-3)
        check("f16", got[1], lse)

# Biases that are the same for all keys of a row, of any size: the mean.
x = -np.exp2(rng.uniform(20, 127.9, 4000)).astype("f")
zeros = np.zeros((1, 1, 4000, 16), "f")
v = rng.standard_normal((1, 1, 4, 16)).astype("f")
bias = np.broadcast_to(x[:, None], (4000, 4)).copy()[None, None]
want = np.broadcast_to(v.mean(2, keepdims=True), zeros.shape)
check("mean", attn.attention(zeros, zeros[:, :, :4], v, bias=bias), want)
check("mean", attn.attention(zeros, zeros[:, :, :4], v, bias=-bias), want)
for dtype in (np.float16, "f"):
    args = [a.astype(dtype) for a in (zeros, zeros[:, :, :4], v)]
    check("mean", attn.attention(*args, bias=bias).astype("f"),
          args[2].astype("f").mean(2, keepdims=True), 2e-3)

# Neighbours of float32 on either side of where the product with log2(e) is no
# longer rounded first, in either order: which is the maximum tells the factor
# of old sums apart from a new one's.
edges = [2.0**e / np.log2(np.e) for e in (25, 26, 27, 28, 29, 30, 31)]
for edge in edges:
    near = np.float32(edge)
    around = [near]
    for _ in range(3):
        around += [np.nextafter(around[-1], np.float32(np.inf))]
    for _ in range(3):
        around.insert(0, np.nextafter(around[0], np.float32(-np.inf)))
    for sign in (1, -1):
        for order in (around, around[::-1]):
            bias = np.repeat(np.float32(sign) * np.array(order, "f"), 64)[None, None,
                                                                          None]
            v = rng.standard_normal((1, 1, bias.size, 16)).astype("f")
            keys = np.zeros_like(v)
            for dtype, tolerance in (("f", 2e-5), (np.float16, 4e-3)):
                args = [a.astype(dtype) for a in (keys[:, :, :3], keys, v)]
                o, lse = reference(*args, bias)
                got = attn.attention(*args, bias=bias, return_lse=True)
                check(("edge", edge, sign, dtype), got[0].astype("f"), o, tolerance)
                check(("edge", edge, sign, dtype), got[1], lse)

# Extreme scores of the dots themselves.
for a, b in ((1e4, 1e5), (1e10, 1e9), (1e-10, 1e19), (1e18, 1e18)):
    q, k, v = rows(128, 200)
    q, k = (q * np.float32(a)), (k * np.float32(b))
    s = (q.astype("f8") @ k.swapaxes(-1, -2).astype("f8")) / 4
    top = np.sort(s, -1)
    # Rows whose two largest scores float32 tells apart.
    clear = (top[..., -1] - top[..., -2]) > 200 + 1e-5 * np.abs(top).max(-1)
    o = attn.attention(q, k, v)
    assert not np.isnan(o).any(), (a, b)
    want = np.take_along_axis(v, s.argmax(-1)[..., None], 2)
    assert np.abs(o - want)[clear].max(initial=0) < 1e-5, (a, b)

# Scales of any size, whose products with dots are what they should be.
for scale in (0.0, 1e-38, 1e-35, 1e-30, 1e-20, 1e20, 1e30, 1e35, -1e-35, -1e30):
    q, k, v = rows(20, 90)
    size = np.float32(np.sqrt(1 / min(max(abs(scale), 1e-36), 1e36)))
    check(("scale", scale), attn.attention(q * size, k * size, v, scale=scale),
          reference(q * size, k * size, v, scale=np.float32(scale))[0], 1e-4)
for scale in (float("nan"), float("inf"), -float("inf")):
    q, k, v = rows(5, 70)
    dead = np.zeros((5, 70), bool)
    o, lse = attn.attention(q, k, v, mask=dead[None, None], scale=scale,
                            return_lse=True)
    assert (o == 0).all() and (lse == -np.inf).all(), scale
    o, lse = attn.attention(q, k[:, :, :0], v[:, :, :0], scale=scale, return_lse=True)
    assert (o == 0).all() and (lse == -np.inf).all(), scale

# Sinks of any finite size, beside live rows and dead ones.
for scale in (None, 0.3, 1e-3, -2.0):
    for size in (0.0, -1e4, 1e4, 1000.25, -1e9, 1e9, -1e12, 1e12, least, -least):
        q, k, v = rows(30, 150)
        sinks = np.array([size, size / 3], "f")
        o, lse = attn.attention(q, k, v, sinks=sinks, scale=scale, return_lse=True)
        want = reference(q, k, v, scale=None if scale is None else np.float32(scale),
                         sink=sinks)
        check(("sink", scale, size), o, want[0])
        check(("sink", scale, size), lse, want[1])
        o, lse = attn.attention(q, k, v, sinks=sinks, scale=scale, return_lse=True,
                                kv_lengths=np.zeros(1, np.int32))
        assert (o == 0).all()
        check(("dead", scale, size), lse,
              np.broadcast_to(sinks[None, :, None], lse.shape), 3e-7)

# A sink beside a score of its own size: half of the weight each.
for scale in (1e4, 0.3, 12345.0, 1e10):
    q = np.ones((1, 2, 4, 16), "f")
    k = np.full((1, 2, 1, 16), 1 / 16, "f")
    v = rng.standard_normal((1, 2, 1, 16)).astype("f")
    sinks = np.full(2, np.float32(scale))
    check(("even", scale), attn.attention(q, k, v, sinks=sinks, scale=scale),
          np.broadcast_to(v / 2, q.shape), 1e-6)

# ALiBi with slopes that leave one key.
q, k, v = rows(60, 60)
slopes = np.array([1e8, 1e30], "f")
distance = np.arange(60)[:, None] - np.arange(60)
o = attn.attention(q, k, v, alibi_slopes=slopes, causal="bottom_right")
check("alibi", o, v)

# A sliding window of floats, and left padding of a causal mask.
q, k, v = rows(512, 512)
i, j = np.arange(512)[:, None], np.arange(512)
for live in ((j <= i) & (i - j < 64), (j <= i) & (j >= 300)):
    bias = np.where(live, 0, least).astype("f")[None, None]
    check("window", attn.attention(q, k, v, bias=bias), reference(q, k, v, bias)[0])

# A key whose bias is -inf in every row is dead: what V holds there reaches
# nobody. A NaN of a live key does.
for sq, sk, d in ((1, 64, 16), (4, 64, 16), (40, 300, 40), (200, 600, 64)):
    for shape in ((1, 1, 1, sk), (1, 2, sq, sk), (1, 1, sq, sk)):
        for junk in (np.nan, np.inf):
            q, k, v = rows(sq, sk, d)
            dead = rng.random(sk) < 0.3
            dead[: sk // 2] |= rng.random() < 0.5
            dead[-1] = False
            bias = rng.standard_normal(shape).astype("f")
            bias[..., dead] = -np.inf
            want = reference(q, k, v, bias)
            scores = np.einsum("bhid,bhjd->bhij", q.astype(float), k) / d**0.5 + bias
            k[:, :, dead] = v[:, :, dead] = junk
            # The largest score, and states that are kept, stay clear of it.
            got = attn.attention(q, k, v, bias=bias, monoid="softmax_max",
                                 return_aux="max")
            check(("max", shape, junk), got[1]["max"], scores.max(-1))
            _, vjp = attn.attention_vjp(q, k, v, bias=bias)
            for name, gradient in vjp(q).items():
                assert np.isfinite(gradient).all(), (name, shape, junk)
            got = attn.attention(q, k, v, bias=bias, return_lse=True)
            check(("-inf", shape, junk), got[0], want[0])
            check(("-inf", shape, junk), got[1], want[1])
            got = attn.attention(q, k, v, bias=bias, causal="bottom_right",
                                 sinks=np.ones(2, "f"),
                                 kv_lengths=np.array([sk - 1], np.int32))
            assert not np.isnan(got).any(), shape
            v[:, :, -1] = np.nan
            assert np.isnan(attn.attention(q, k, v, bias=bias)).all(), shape

# A score function that adds -inf kills a key as well, for every monoid: neither
# K nor V of it reaches anybody, and those of a live key do. hardmax compares
# statistics, so that a NaN would not even show.
hardmax = """
attn.monoid @hardmax cocycle stats(f32) components(value, unit) outputs("o", "count") {
  identity { %e = arith.constant 0xFF800000 : f32 attn.yield %e : f32 }
  combine { ^bb0(%a: f32, %b: f32): %c = arith.maximumf %a, %b : f32 attn.yield %c
      : f32 }
  rescale { ^bb0(%from: f32, %to: f32): %same = arith.cmpf oeq, %from, %to : f32
            %r = arith.uitofp %same : i1 to f32 attn.yield %r : f32 }
  lift { ^bb0(%s: f32): %one = arith.constant 1.0 : f32 attn.yield %s, %one, %one : f32,
      f32, f32 }
  finalize { ^bb0(%c: f32, %sum: f32, %n: f32): %one = arith.constant 1.0 : f32
             %d = arith.maximumf %n, %one : f32 %o = arith.divf %sum, %d : f32
             attn.yield %o, %n : f32, f32 }
}
"""
by_position = """
      %live = arith.cmpi sge, %j, %first : i32
      %zero = arith.constant 0.0 : f32
      %dead = arith.constant 0xFF800000 : f32
      %term = arith.select %live, %zero, %dead : f32
      %sum = arith.addf %s, %term : f32
      attn.yield %sum : f32"""
by_element = """
      %at = arith.index_cast %j : i32 to index
      %term = tensor.extract %terms[%at] : tensor<?xf32>
      %sum = arith.addf %term, %s : f32
      attn.yield %sum : f32"""


def program(monoid, rows_only, score):
    rows, out = ("tensor<?x?x?x16xf32>",
                 "tensor<?x?x?xf32>" if rows_only else "tensor<?x?x?x16xf32>")
    return f"""{hardmax if monoid == "hardmax" else ""}
    func.func @f(%q: {rows}, %k: {rows},
        {"" if rows_only else f"%v: {rows}, "}%bias: tensor<?xf32>, %n: i32) -> {out} {{
      %r = attn.attention monoid(@{monoid}) queries(%q : {rows}) keys(%k : {rows})
          {"" if rows_only else f"values(%v : {rows})"} captures(%bias, %n
              : tensor<?xf32>, i32)
          score {{ ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32,
              %terms: tensor<?xf32>, %first: i32): {score}
          }} -> {out}
      return %r : {out}
    }}"""


for score in (by_position, by_element):
    for monoid in ("softmax", "logsumexp", "hardmax", "maxplus", "sigmoid_sum",
                   "stick_breaking"):
        rows_only = monoid == "logsumexp"
        kernel = attn.compile(program(monoid, rows_only, score))
        q, k, v = rows(20, 90)
        terms = np.where(np.arange(90) < 40, -np.inf, 0).astype("f")

        def run(k, v):
            return kernel(*((q, k) if rows_only else (q, k, v)), terms, 40)

        want = run(k, v)
        for junk in (np.nan, np.inf):
            spoiled, values = k.copy(), v.copy()
            spoiled[:, :, :40] = junk
            assert np.array_equal(run(spoiled, v), want), (monoid, junk)
            values[:, :, :40] = junk
            assert np.array_equal(run(spoiled, values), want), (monoid, junk)
        spoiled = k.copy()
        spoiled[:, :, 50] = np.nan
        assert monoid == "hardmax" or np.isnan(run(spoiled, v)).all(), monoid
print("ok")
