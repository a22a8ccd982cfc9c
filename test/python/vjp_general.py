# RUN: %python %s
# REQUIRES: torch
"""Gradients of general monoids against PyTorch's in float64, and finite differences of
the same formulas: those that ship, and some of one's own, over many blocks of keys;
packed sequences of every kind in which the order of keys matters.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import numpy as np
import torch

import attn

# Softmax written so that nothing of it is a sum of weighted values; the value of the
# key with the largest score, and how much larger that is than 0; the two largest
# values of each channel; and a sum that forgets by what the key says.
SOFT = """attn.monoid @soft general stats(f32) components(unit, value)
    outputs("o", "level") {
  identity { %e = arith.constant -3.40282347e+38 : f32 %z = arith.constant 0.0 : f32
    attn.yield %e, %z, %z : f32, f32, f32 }
  combine { ^bb0(%ma: f32, %la: f32, %xa: f32, %mb: f32, %lb: f32, %xb: f32):
    %m = arith.maximumf %ma, %mb : f32 %da = arith.subf %ma, %m : f32
    %db = arith.subf %mb, %m : f32 %a = math.exp %da : f32 %b = math.exp %db : f32
    %l0 = arith.mulf %la, %a : f32 %l1 = arith.mulf %lb, %b : f32
    %x0 = arith.mulf %xa, %a : f32 %x1 = arith.mulf %xb, %b : f32
    %l = arith.addf %l0, %l1 : f32 %x = arith.addf %x0, %x1 : f32
    attn.yield %m, %l, %x : f32, f32, f32 }
  lift { ^bb0(%s: f32, %v: f32, %j: i32): %one = arith.constant 1.0 : f32
    attn.yield %s, %one, %v : f32, f32, f32 }
  finalize { ^bb0(%m: f32, %l: f32, %x: f32): %z = arith.constant 0.0 : f32
    %one = arith.constant 1.0 : f32 %none = arith.cmpf oeq, %l, %z : f32
    %d = arith.select %none, %one, %l : f32 %o = arith.divf %x, %d : f32
    %log = math.log %d : f32 %lse = arith.addf %m, %log : f32
    attn.yield %o, %lse : f32, f32 }
}"""
PICK = """attn.monoid @pick general stats(f32) components(value) outputs("o", "best") {
  identity { %e = arith.constant 0xFF800000 : f32 %z = arith.constant 0.0 : f32
    attn.yield %e, %z : f32, f32 }
  combine { ^bb0(%ma: f32, %xa: f32, %mb: f32, %xb: f32):
    %m = arith.maximumf %ma, %mb : f32 %first = arith.cmpf oge, %ma, %mb : f32
    %x = arith.select %first, %xa, %xb : f32 attn.yield %m, %x : f32, f32 }
  lift { ^bb0(%s: f32, %v: f32, %j: i32): attn.yield %s, %v : f32, f32 }
  finalize { ^bb0(%m: f32, %x: f32): %z = arith.constant 0.0 : f32
    %best = arith.maximumf %m, %z : f32 attn.yield %x, %best : f32, f32 }
}"""
TOP2 = """attn.monoid @top2 general stats() components(value, value) outputs("o") {
  identity { %e = arith.constant -3.40282347e+38 : f32 attn.yield %e, %e : f32, f32 }
  combine { ^bb0(%a: f32, %a1: f32, %b: f32, %b1: f32):
    %m = arith.maximumf %a, %b : f32 %low = arith.minimumf %a, %b : f32
    %next = arith.maximumf %a1, %b1 : f32 %n = arith.maximumf %low, %next : f32
    attn.yield %m, %n : f32, f32 }
  lift { ^bb0(%s: f32, %v: f32, %w: f32, %j: i32):
    %e = arith.constant -3.40282347e+38 : f32 %x = arith.addf %s, %v : f32
    attn.yield %x, %e : f32, f32 }
  finalize { ^bb0(%m: f32, %n: f32): %low = arith.constant -30.0 : f32
    %a = arith.maximumf %m, %low : f32 %b = arith.maximumf %n, %low : f32
    %o = arith.addf %a, %b : f32 attn.yield %o : f32 }
}"""
OWN = {"soft": SOFT, "pick": PICK, "top2": TOP2}
AUX = {"welford": "var", "soft": "level", "pick": "best"}


def outputs(monoid, s, v, live):
    """The formulas: s [.., sq, sk], v [.., sk, dv], as far as a row has keys."""
    some = live.any(-1)
    masked = s.masked_fill(~live, -torch.inf)
    if monoid == "welford":
        w = torch.where(live, s.clamp(min=0), 0)
        total = w.sum(-1, keepdim=True)
        safe = torch.where(total > 0, total, 1)
        mean = w @ v / safe
        square = (w.unsqueeze(-1) * (v.unsqueeze(-3) - mean.unsqueeze(-2))**2).sum(-2)
        return [mean, square / safe]
    if monoid == "soft":
        s = torch.where(live, s, -1e30)
        lse = s.logsumexp(-1)
        p = torch.where(live, (s - lse.unsqueeze(-1)).exp(), 0)
        return [p @ v, torch.where(some, lse, -3.40282347e38)]
    if monoid == "pick":
        best, at = masked.max(-1)
        rows = v.expand(*s.shape[:2], *v.shape[2:])
        o = rows.gather(2, at.unsqueeze(-1).expand(*at.shape, v.shape[-1]))
        return [torch.where(some.unsqueeze(-1), o, 0), best.clamp(min=0)]
    x = masked.unsqueeze(-1) + v.unsqueeze(-3)
    if monoid == "maxplus":
        return [x.amax(-2)]
    top = x.topk(min(2, x.shape[-2]), -2).values.clamp(min=-30)
    return [top.sum(-2) - (30 if x.shape[-2] == 1 else 0)]


def reference(monoid, q, k, v, live, cotangents, bias=None, scale=None):
    leaves = [torch.tensor(np.asarray(x, "f8"), requires_grad=True) for x in (q, k, v)]
    group = q.shape[1] // k.shape[1]
    wide = [x.repeat_interleave(group, 1) for x in leaves[1:]]
    s = leaves[0] @ wide[0].transpose(-1, -2) * (scale or q.shape[-1]**-0.5)
    if bias is not None:
        leaves.append(torch.tensor(bias).double().requires_grad_())
        s = s + leaves[-1]
    found = outputs(monoid, s, wide[1], torch.tensor(live))
    # A row without keys has no gradient.
    some = torch.tensor(live).any(-1)
    loss = 0
    for o, g in zip(found, cotangents):
        where = some.unsqueeze(-1) if o.dim() == 4 else some
        loss = loss + torch.where(where, o * torch.tensor(g).double(), 0).sum()
    loss.backward()
    return [o.detach() for o in found], dict(zip(("q", "k", "v", "bias"),
                                                 (x.grad for x in leaves)))


def near(name, got, want, bound=3e-5):
    got = np.asarray(got.detach().float() if isinstance(got, torch.Tensor) else got,
                     "f8")
    want = np.asarray(want)
    assert got.shape == want.shape, (name, got.shape, want.shape)
    assert np.isfinite(got).all(), name
    error = np.abs(got - want).max(initial=0) / max(np.abs(want).max(initial=0), 1e-30)
    assert error <= bound, (name, error)


def draw(rng, *shapes):
    return [rng.standard_normal(shape).astype("f4") for shape in shapes]


def vjp(monoid, *arrays, **options):
    if monoid in AUX:
        options["return_aux"] = AUX[monoid]
    found, back = attn.attention_vjp(*arrays, monoid=OWN.get(monoid, monoid), **options)
    if isinstance(found, tuple):
        o, aux = found
        found = [o, aux[AUX[monoid]] if isinstance(aux, dict) else aux]
    else:
        found = [found]

    def run(cotangents):
        more = {"d" + AUX[monoid]: g for g in cotangents[1:]} if monoid in AUX else {}
        return back(cotangents[0], **more)

    return found, run


def cotangents_of(rng, monoid, b, h, s, dv):
    shapes = [(b, h, s, dv)]
    if monoid in AUX:
        shapes.append((b, h, s, dv) if monoid == "welford" else (b, h, s))
    return draw(rng, *shapes)


def blocks():
    """Channels that fill no vector, rows that fill no tile, blocks that are cut."""
    rng = np.random.default_rng(1)
    for monoid in ("welford", "maxplus", "soft", "pick", "top2"):
        for sq, sk, d, dv, heads in (
            (19, 300, 24, 24, (4, 2)), (8, 128, 16, 40, (1, 1)),
            (33, 7, 16, 16, (3, 3)), (5, 700, 16, 16, (2, 1))
        ):
            hq, hk = heads
            q, k, v = draw(rng, (2, hq, sq, d), (2, hk, sk, d), (2, hk, sk, dv))
            live = np.arange(sk) <= np.arange(sq)[:, None] + sk - sq
            given = cotangents_of(rng, monoid, 2, hq, sq, dv)
            found, back = vjp(monoid, q, k, v, causal="bottom_right")
            want, gradients = reference(monoid, q, k, v,
                                        np.broadcast_to(live, (2, hq, sq, sk)), given)
            some = live.any(-1)
            for x, y in zip(found, want):
                near((monoid, "out"), x[:, :, some], y[:, :, some])
            first = back(given)
            again = back(given)
            for name in "qkv":
                near((monoid, sq, sk, name), first[name], gradients[name])
                assert first[name].tobytes() == again[name].tobytes(), name


def dead():
    """Lengths, rows without keys, and what lies in the memory of the dead; a bias of
    pairs, and one of keys."""
    rng = np.random.default_rng(2)
    lengths = np.array([0, 150, 200], "i4")
    live = np.broadcast_to(np.arange(200) < lengths[:, None, None, None],
                           (3, 4, 9, 200))
    for monoid in ("welford", "maxplus", "soft", "pick"):
        q, k, v = draw(rng, (3, 4, 9, 24), (3, 2, 200, 24), (3, 2, 200, 24))
        given = cotangents_of(rng, monoid, 3, 4, 9, 24)
        for shape in ((3, 4, 9, 200), (1, 1, 1, 200)):
            (bias,) = draw(rng, shape)
            _, want = reference(monoid, q, k, v, live, given, bias)
            a, b, c = q.copy(), k.copy(), v.copy()
            a[0] = b[0] = c[0] = b[1, :, 150:] = c[1, :, 150:] = np.nan
            found = vjp(monoid, a, b, c, kv_lengths=lengths, bias=bias)[1](given)
            for name in ("q", "k", "v", "bias"):
                near((monoid, name), found[name], want[name])
            assert not np.any(found["k"][1, :, 150:])
    for empty in ((0, 5), (5, 0)):
        q, k = (np.ones((1, 1, n, 16), "f4") for n in empty)
        found = attn.attention_vjp(q, k, k, monoid="maxplus")[1](q)
        assert all(not np.any(found[n]) for n in "qkv")
        assert found["q"].shape == q.shape and found["k"].shape == k.shape


def differences():
    """The references themselves, by finite differences in float64."""
    rng = np.random.default_rng(3)
    for monoid in ("welford", "maxplus", "soft", "pick", "top2"):
        q, k, v = draw(rng, (1, 2, 5, 16), (1, 1, 9, 16), (1, 1, 9, 16))
        live = np.broadcast_to(np.tri(5, 9, 4, dtype=bool), (1, 2, 5, 9))
        given = cotangents_of(rng, monoid, 1, 2, 5, 16)
        _, want = reference(monoid, q, k, v, live, given)
        for name, x in zip("qkv", (q, k, v)):
            x = x.astype("f8")
            step = rng.standard_normal(x.shape)
            sums = []
            for sign in (1, -1):
                moved = dict(q=q, k=k, v=v)
                moved[name] = x + sign * 1e-6 * step
                out, _ = reference(monoid, *moved.values(), live, given)
                sums.append(sum(float((o * torch.tensor(g).double()).sum())
                                for o, g in zip(out, given)))
            slope = (sums[0] - sums[1]) / 2e-6
            exact = float((want[name].numpy() * step).sum())
            assert abs(slope - exact) <= 1e-4 * max(abs(exact), 1), (monoid, name)


def autograd():
    torch.manual_seed(4)
    for dtype, bound in ((torch.float32, 3e-5), (torch.bfloat16, 3e-2)):
        q, k, v = (torch.randn(2, h, s, 16).to(dtype).requires_grad_()
                   for h, s in ((4, 50), (2, 140), (2, 140)))
        do = torch.randn(2, 4, 50, 16).to(dtype)
        attn.attention(q, k, v, monoid="welford").backward(do)
        plain = [x.detach().double().numpy() for x in (q, k, v)]
        live = np.ones((2, 4, 50, 140), bool)
        _, want = reference("welford", *plain, live,
                            [do.float().numpy(), np.zeros((2, 4, 50, 16))])
        for name, x in zip("qkv", (q, k, v)):
            assert x.grad.dtype == dtype
            near((dtype, name), x.grad, want[name], bound)


def packed():
    """One sequence after the other: as each alone."""
    rng = np.random.default_rng(5)
    rows, keys = np.array([0, 20, 20, 61], "i4"), np.array([0, 150, 160, 340], "i4")
    for monoid in ("stick_breaking", "alpha_compositing", "welford"):
        q, k, v, do, bias = draw(rng, (61, 4, 16), (340, 2, 16), (340, 2, 16),
                                 (61, 4, 16), (3, 4, 1, 180))
        options = dict(monoid=monoid, causal="bottom_right")
        o, back = attn.attention_vjp(q, k, v, layout="thd", cu_seqlens_q=rows,
                                     cu_seqlens_k=keys, bias=bias, **options)
        found, total = back(do), np.zeros_like(bias)
        alone = {name: np.zeros_like(x) for name, x in (("q", q), ("k", k), ("v", v))}
        for n in range(3):
            i, j = slice(*rows[n:n + 2]), slice(*keys[n:n + 2])
            if i.start == i.stop:
                continue
            part, vjp_of = attn.attention_vjp(
                q[None, i], k[None, j], v[None, j], layout="bshd",
                bias=np.ascontiguousarray(bias[n:n + 1, ..., :j.stop - j.start]),
                **options)
            near((monoid, "o"), o[i], part[0], 1e-6)
            gradients = vjp_of(do[None, i])
            alone["q"][i] = gradients["q"][0]
            alone["k"][j], alone["v"][j] = gradients["k"][0], gradients["v"][0]
            total[n, ..., :j.stop - j.start] = gradients["bias"][0]
        for name in "qkv":
            near((monoid, name), found[name], alone[name], 1e-6)
        near((monoid, "bias"), found["bias"], total, 1e-6)
    q, k, v = (torch.tensor(x, requires_grad=True) for x in (q, k, v))
    again = attn.attention(q, k, v, layout="thd", cu_seqlens_q=torch.tensor(rows),
                           cu_seqlens_k=torch.tensor(keys), bias=torch.tensor(bias),
                           **options)
    again.backward(torch.tensor(do))
    near("torch", q.grad, found["q"], 1e-6)


differences()
blocks()
dead()
autograd()
packed()
