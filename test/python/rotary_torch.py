# RUN: %python %s
# REQUIRES: torch
"""Gradients through rotary=attn.Rotary(...) of torch tensors, beside those of torch's
own attention on rows that the formula of transformers turned, in float64.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import os
import sys

try:
    import torch
except ImportError:
    print("no torch: nothing was tested")
    sys.exit()

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
from reference import raises

import attn

torch.manual_seed(0)


def tables(channels, positions, **options):
    angles = torch.rand(positions, channels // 2) * 6.28
    return attn.Rotary(angles.cos(), angles.sin(), **options)


def turned(x, rotary, positions):
    """Rows [.., n, d], as transformers turns them."""
    cos, sin = (t.double()[positions] for t in (rotary.cos, rotary.sin))
    channels = 2 * cos.shape[-1]
    part, rest = x[..., :channels], x[..., channels:]
    if rotary.interleaved:
        cos, sin = (t.repeat_interleave(2, -1) for t in (cos, sin))
        other = torch.stack([-part[..., 1::2], part[..., ::2]], -1).flatten(-2)
    else:
        cos, sin = (torch.cat([t, t], -1) for t in (cos, sin))
        first, second = part.chunk(2, -1)
        other = torch.cat([-second, first], -1)
    return torch.cat([part * cos + other * sin, rest], -1)


def reference(q, k, v, rotary, keys):
    """One sequence, [h, n, d], of which `keys` keys count."""
    group, rows = q.shape[0] // k.shape[0], q.shape[1]
    k, v = k[:, :keys], v[:, :keys]
    q = turned(q, rotary, torch.arange(keys - rows, keys))
    k = turned(k, rotary, torch.arange(keys))
    k, v = (x.repeat_interleave(group, 0) for x in (k, v))
    s = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    at = torch.arange(keys)
    s = s.masked_fill(at > at[:rows, None] + keys - rows, -torch.inf)
    return s.softmax(-1) @ v


def draw(*shape, dtype=torch.float32):
    return torch.randn(shape).to(dtype).requires_grad_()


def check(name, call, exact, leaves, bound):
    """Outputs and gradients of `call` beside those of `exact` in float64."""
    o = call(*leaves)
    cotangent = torch.randn(o.shape)
    got = (o,) + torch.autograd.grad(o, leaves, cotangent.to(o.dtype))
    wide = [x.detach().double().requires_grad_() for x in leaves]
    o = exact(*wide)
    want = (o,) + torch.autograd.grad(o, wide, cotangent.double())
    for which, a, b in zip(("o", "dq", "dk", "dv"), got, want):
        error = (a.double() - b).abs().max().item()
        assert error <= bound * max(1.0, b.abs().max().item()), (name, which, error)


for d, channels, interleaved in ((64, 64, False), (40, 40, True), (64, 24, False)):
    for dtype, bound in ((torch.float32, 2e-5), (torch.bfloat16, 4e-2)):
        rotary = tables(channels, 40, interleaved=interleaved)
        name = d, channels, interleaved, dtype
        options = dict(causal="bottom_right", rotary=rotary)
        shapes = (2, 4, 9, d), (2, 2, 31, d), (2, 2, 31, d)
        leaves = [draw(*shape, dtype=dtype) for shape in shapes]
        for lengths in (None, [31, 17]):
            check(
                name,
                lambda q, k, v: attn.attention(q, k, v, kv_lengths=lengths, **options),
                lambda q, k, v: torch.stack([
                    reference(q[i], k[i], v[i], rotary, (lengths or [31, 31])[i])
                    for i in range(2)
                ]),
                leaves,
                bound,
            )
        # Packed: the second sequence has no rows.
        cu = [0, 12, 12, 20]
        leaves = [draw(20, h, d, dtype=dtype) for h in (4, 2, 2)]
        check(
            name + ("packed",),
            lambda q, k, v: attn.attention(
                q, k, v, layout="thd", cu_seqlens_q=cu, cu_seqlens_k=cu, **options
            ),
            lambda q, k, v: torch.cat([
                reference(*(x[a:b].transpose(0, 1) for x in (q, k, v)), rotary, b - a)
                for a, b in ((0, 12), (12, 20))
            ], 1).transpose(0, 1),
            leaves,
            bound,
        )

# The same without gradients, which kernels turn.
rotary = tables(32, 50)
q, k, v = (draw(1, 2, 50, 32) for _ in "qkv")
with_gradient = attn.attention(q, k, v, causal="top_left", rotary=rotary)
with torch.no_grad():
    without = attn.attention(q, k, v, causal="top_left", rotary=rotary)
assert with_gradient.requires_grad and not without.requires_grad
assert (with_gradient - without).abs().max() < 1e-5
# Queries before the first key have no position: NaN where they see a key.
k, v = (x[:, :, :45].detach().requires_grad_() for x in (k, v))
for causal, window in ((None, None), (None, (-1, 2)), ("bottom_right", None)):
    options = dict(causal=causal, window=window, rotary=rotary)
    with_gradient = attn.attention(q, k, v, **options)
    with torch.no_grad():
        without = attn.attention(q, k, v, **options)
    assert torch.equal(with_gradient.isnan(), without.isnan()), options
    assert without.isnan().any() == (causal is None), options
    if causal:
        gradients = torch.autograd.grad(with_gradient.sum(), (q, k, v))
        assert all(x.isfinite().all() for x in gradients), options
words = "q, k and v as arrays or packed, with rotary"
raises(NotImplementedError, words, attn.attention, q, k, v, rotary=rotary, k_start=[3])
# What a call without gradients refuses, one with them does, and in the same words.
q, k, v = (draw(1, 2, 6, 5) for _ in "qkv")
for operands, options, words in (
    ((q, k, v), dict(rotary=tables(8, 10)), "tables of at most 2 columns"),
    ((q[0], k[0], v[0]), dict(rotary=tables(4, 10)), "q of 4 dimensions"),
    ((q, k, v), dict(rotary=tables(4, 3)), "tables of a row for each position, 6"),
    ((q, k, v), dict(rotary=tables(4, 10), layout="bhds"), "layout to be one of"),
    ((q, k, v), dict(rotary=tables(4, 10), kv_lengths=[3, 3]), "kv_lengths"),
    ((q, k, v), dict(rotary=tables(4, 10), window=5), "window to be a pair"),
    ((q[0], k[0], v[0]), dict(rotary=tables(4, 10), layout="thd"), "cu_seqlens_q"),
):
    kind = TypeError if "window" in options else ValueError
    for some in (operands, [x.detach() for x in operands]):
        raises(kind, words, attn.attention, *some, **options)
