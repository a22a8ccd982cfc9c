# RUN: %python %s
# REQUIRES: torch
"""Gradients where the order of keys matters, against PyTorch's in float64: walks over
many blocks, weights that are long 0, torch's autograd, and a walk by hand over the
functions of a program of two scores.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import numpy as np
import torch

import attn


def weights(s, live, is_suffix):
    """The weights and remainders of scores [..., sq, sk] in float64."""
    c = torch.where(live, -torch.nn.functional.softplus(s), 0)
    before = c.cumsum(-1) - c
    beyond = c.sum(-1, keepdim=True) - before - c if is_suffix else before
    return torch.where(live, s.sigmoid() * beyond.exp(), 0), c.sum(-1).exp()


def reference(q, k, v, live, is_suffix, do, dr, scale=None):
    q, k, v = (torch.tensor(x, dtype=torch.float64, requires_grad=True)
               for x in (q, k, v))
    group = q.shape[1] // k.shape[1]
    wide = lambda x: x.repeat_interleave(group, 1)
    s = q @ wide(k).transpose(-1, -2) * (scale or q.shape[-1]**-0.5)
    w, r = weights(s, torch.tensor(live), is_suffix)
    o = w @ wide(v)
    loss = (o * torch.tensor(do).double()).sum() + (r * torch.tensor(dr).double()).sum()
    loss.backward()
    return o.detach(), {"q": q.grad, "k": k.grad, "v": v.grad}


def near(name, got, want, bound=2e-5):
    got = np.asarray(got.detach() if isinstance(got, torch.Tensor) else got, "f8")
    want = np.asarray(want)
    error = np.abs(got - want).max(initial=0) / max(np.abs(want).max(initial=0), 1e-30)
    assert error <= bound, (name, error)
    return error


def long_rows():
    """Many blocks: a sum that has been taken off leaves 0, and weights are long 0."""
    rng = np.random.default_rng(1)
    for monoid in ("stick_breaking", "alpha_compositing"):
        q, k, v, do = (rng.standard_normal((1, h, s, 32)).astype("f4")
                       for h, s in ((2, 70), (1, 1500), (1, 1500), (2, 70)))
        dr = rng.standard_normal((1, 2, 70)).astype("f4")
        live = np.arange(1500) <= np.arange(70)[:, None] + 1430
        for scale in (None, 3.0):
            (o, aux), vjp = attn.attention_vjp(
                q, k, v, monoid=monoid, causal="bottom_right", scale=scale,
                return_aux="remainder"
            )
            found = vjp(do, dremainder=dr)
            again = vjp(do, dremainder=dr)
            want_o, want = reference(q, k, v, live, monoid == "stick_breaking", do, dr,
                                     scale)
            near("o", o, want_o)
            for name in "qkv":
                near((monoid, scale, name), found[name], want[name])
                assert found[name].tobytes() == again[name].tobytes(), name
            # Nothing is left where no weight is: the far end of the walk.
            if scale:
                far = slice(0, 300) if monoid == "stick_breaking" else slice(900, 1500)
                assert not np.any(found["v"][:, :, far]), monoid
                left = np.abs(found["k"][:, :, far]).max() / np.abs(found["k"]).max()
                assert left <= 1e-13, (monoid, left)


def dead_rows():
    rng = np.random.default_rng(2)
    q, k, v, do = (rng.standard_normal((3, h, s, 24)).astype("f4")
                   for h, s in ((4, 9), (2, 200), (2, 200), (4, 9)))
    lengths = np.array([0, 150, 200], "i4")
    live = np.arange(200) < lengths[:, None, None, None]
    want = reference(q, k, v, live, True, do, np.zeros((3, 4, 9)))[1]
    q[0] = do[0] = np.nan
    k[0] = v[0] = k[1, :, 150:] = v[1, :, 150:] = np.nan
    found = attn.attention_vjp(q, k, v, monoid="stick_breaking",
                               kv_lengths=lengths)[1](do)
    for name in "qkv":
        near(name, found[name], want[name])
        assert not np.any(found[name][0]), name
    assert not np.any(found["k"][1, :, 150:]) and not np.any(found["v"][1, :, 150:])
    # A bias of pairs alone: there is no kernel of rows and keys.
    bias = rng.standard_normal((3, 4, 9, 200)).astype("f4")
    q, k, v, do = (rng.standard_normal((3, h, s, 24)).astype("f4")
                   for h, s in ((4, 9), (4, 200), (4, 200), (4, 9)))
    leaf = torch.tensor(bias).double().requires_grad_()
    s = torch.tensor(q @ k.swapaxes(-1, -2)).double() * 24**-0.5 + leaf
    w, _ = weights(s, torch.tensor(live), False)
    (w @ torch.tensor(v).double()).backward(torch.tensor(do).double())
    found = attn.attention_vjp(q, k, v, bias=bias, monoid="alpha_compositing",
                               kv_lengths=lengths, inputs="bias")[1](do)
    near("bias", found["bias"], leaf.grad)
    for empty in ((0, 5), (5, 0)):
        q, k = (np.ones((1, 1, n, 16), "f4") for n in empty)
        found = attn.attention_vjp(q, k, k, monoid="alpha_compositing")[1](q)
        assert all(not np.any(found[n]) for n in "qkv")
        assert found["q"].shape == q.shape and found["k"].shape == k.shape


def autograd():
    torch.manual_seed(3)
    for dtype, bound in ((torch.float32, 2e-5), (torch.bfloat16, 3e-2)):
        q, k, v = (torch.randn(2, h, s, 16).to(dtype).requires_grad_()
                   for h, s in ((4, 50), (2, 140), (2, 140)))
        do = torch.randn(2, 4, 50, 16).to(dtype)
        o = attn.attention(q, k, v, monoid="stick_breaking")
        o.backward(do)
        plain = [x.detach().double().numpy() for x in (q, k, v)]
        _, want = reference(*plain, np.ones((50, 140), bool), True, do.float().numpy(),
                            np.zeros((2, 4, 50)))
        for name, x in zip("qkv", (q, k, v)):
            assert x.grad.dtype == dtype
            near((dtype, name), x.grad.float(), want[name], bound)


TWO = """
!rows = tensor<?x?x?x16xf32>
func.func @decay(%q: !rows, %k: !rows, %g: !rows, %h: !rows, %v: !rows) -> !rows {
  %o = attn.aggregate @gated_decay
      scores(%q, %k, %g, %h : !rows, !rows, !rows, !rows) values(%v : !rows)
    score {
    ^bb0(%s: f32, %t: f32, %b: i32, %n: i32, %i: i32, %j: i32):
      %square = arith.mulf %t, %t : f32
      %c = arith.negf %square : f32
      attn.yield %s, %c : f32, f32
    }
    mask {
    ^bb0(%b: i32, %n: i32, %i: i32, %j: i32):
      %live = arith.cmpi sle, %j, %i : i32
      attn.yield %live : i1
    } -> !rows
  return %o : !rows
}
"""


def by_hand():
    """Gated decay, whose gates have a score of their own; suffix, so from the last
    block of keys to the first, twice."""
    text = attn.differentiate(TWO)
    run = {name: attn.compile(text, entry="decay_" + name)
           for name in ("forward", "states", "backward")}
    rng = np.random.default_rng(4)
    shape = 1, 2, 300, 16
    q, k, g, h, v, do = (rng.standard_normal(shape).astype("f4") * x
                         for x in (1, 1, 0.1, 0.1, 1, 1))
    o, c = run["forward"](q, k, g, h, v)
    later, earlier = (np.broadcast_to(f(np.ones((128, 128), "f4")), (1, 2, 128, 128))
                      for f in (lambda x: np.tril(x, -1), lambda x: np.triu(x, 1)))
    rest, parts = np.zeros((1, 2, 300)), []
    for way in range(2):
        total = np.zeros((1, 2, 300))
        for first in reversed(range(0, 300, 128)):
            n = min(128, 300 - first)
            at = slice(first, first + n)
            given = q, k[:, :, at], g, h[:, :, at], v[:, :, at], c, do
            stat = total.astype("f4")
            beyond, end, opposite, part = run["states"](
                *given, stat, later[:, :, :n], earlier[:, :, :n], first, 300)
            total += end
            rest += -part if way else part
            if way:
                parts.append((at, run["backward"](
                    *given, stat, beyond, rest.astype("f4"), opposite, first, 300)))
    q, k, g, h, v = leaves = [torch.tensor(x, dtype=torch.float64, requires_grad=True)
                              for x in (q, k, g, h, v)]
    live = torch.ones(300, 300, dtype=bool).tril()
    gates = torch.where(live, -(g @ h.transpose(-1, -2))**2, 0)
    beyond = gates.sum(-1, keepdim=True) - gates.cumsum(-1)
    w = torch.where(live, q @ k.transpose(-1, -2) * beyond.exp(), 0)
    want = w @ v
    want.backward(torch.tensor(do).double())
    near("o", o, want.detach())
    for i, of_keys in enumerate((False, True, False, True, True)):
        found = np.zeros(shape)
        for at, results in parts:
            found[:, :, at if of_keys else slice(None)] += results[i]
        near(i, found, leaves[i].grad)


long_rows()
dead_rows()
autograd()
by_hand()
