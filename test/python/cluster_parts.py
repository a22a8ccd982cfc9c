# RUN: %python %s 10 1 emulator:sm_90a
"""Decode with parts of the keys in the blocks of a cluster, or with more than sixteen
parts, which the warps of a block divide, against float64: random lengths on the
device, none of a sequence among them, NaN behind them, live NaN, parts without keys,
rows that see none, sinks, windows, pages, heads that cannot be packed; and latents,
whose values are columns of the keys, of up to sixteen rows of a block; and warpgroups
with half of their rows.
`cluster_parts.py CASES SEED TARGET`; with the target cuda, tensors of torch.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import os
import re
import sys

import ml_dtypes
import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
from device import to_gpu, to_host

import attn

CASES, SEED, TARGET = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
SCHEDULE = ("schedule = #attn.schedule<block_q = 8, rows = 8, block_k = %d, "
            "splits = %d, cluster = %d, loop = %s, pack_heads = %s>")
MANY = ("schedule = #attn.schedule<block_q = 16, rows = 16, block_k = %d, "
        "splits = %d, loop = %s, pack_heads = %s>")
LATENTS = ("schedule = #attn.schedule<block_q = 16, rows = 16, block_k = 64, "
           "splits = 2, cluster = 2, overlap = none, loop = %s, pack_heads = %s, "
           "block_v = 512>")
HALVES = ("schedule = #attn.schedule<block_q = 32, rows = 32, block_k = %d, "
          "splits = %d, loop = %s, pack_heads = %s>")
LOOPS = ("peeled", "masked", "plain")


def draw(rng):
    """The inputs and options of a call, its result in float64, and how it is cut."""
    cluster, keys = rng.choice((2, 4, 8, 8)), rng.choice((32, 64, 64, 128))
    d, dv = 64 * rng.integers(1, 5), 64 * rng.integers(1, 5)
    dv = max(dv // keys, 1) * keys if keys > 64 else dv
    dv = min(dv, cluster * keys, 256)
    if keys * (4 * d + 6 * dv) > 200_000:  # two slots, and the states of all warps
        d, dv = 64, 128
    latents = rng.random() < 0.3
    if latents:
        d, dv = 576, 512
    halves = not latents and rng.random() < 0.3
    if halves:
        d, dv = min(d, 128), min(dv, 128)
    b, hk, group = rng.integers(1, 4), rng.integers(1, 4), rng.integers(1, 9)
    group = rng.integers(1, 33) if halves else group
    rows, sk = rng.choice((1, 1, 1, 2, 5)), rng.choice((1, 7, 64, 200, 513, 1000))
    if TARGET.startswith("emulator"):
        b, hk, sk = min(b, 2), min(hk, 2), min(sk, 513)
    kind = (ml_dtypes.bfloat16, np.float16)[rng.integers(2)]
    q, k, v = (rng.standard_normal(shape).astype(kind)
               for shape in ((b, hk * group, rows, d), (b, hk, sk, d), (b, hk, sk, dv)))
    if latents:
        v = k[..., :dv]
    # Some rows, and keys, whose scores are NaN where they are live.
    if rng.random() < 0.3:
        q[0, -1, rng.integers(rows)] = np.nan
    if rng.random() < 0.3 and not latents:  # of values, rows see none of them
        k[-1, 0, rng.integers(sk)] = np.nan
    options = {}
    lengths = np.full(b, sk)
    page = int(rng.choice((0, 0, 16, 32, 64)))
    if page or rng.random() < 0.7:
        lengths = rng.integers(0, sk + 1, b)
        options["kv_lengths"] = lengths.astype(np.int32)
    seen = np.arange(sk)[None, None, :] < lengths[:, None, None]
    place = lengths[:, None] - rows + np.arange(rows)[None, :]
    apart = place[:, :, None] - np.arange(sk)
    if rng.random() < 0.5:
        options["causal"] = "bottom_right"
        seen = seen & (apart >= 0)
        if rng.random() < 0.5:
            left = int(rng.integers(0, sk + 1))
            options["window"] = (left, 0)
            seen = seen & (apart <= left)
    s = np.einsum("bhgqd,bhkd->bhgqk", q.astype(float).reshape(b, hk, group, rows, d),
                  k.astype(float)) / np.sqrt(d)
    s = np.where(np.broadcast_to(seen, (b, rows, sk))[:, None, None], s, -np.inf)
    zero = np.full(s.shape[:-1] + (1,), -np.inf)
    if rng.random() < 0.3 and not latents:
        sinks = rng.standard_normal(hk * group).astype(np.float32)
        options["sinks"] = sinks
        zero = np.broadcast_to(sinks.reshape(1, hk, group, 1, 1), zero.shape)
    all_scores = np.concatenate([s, zero], -1)
    most = np.max(all_scores, -1, keepdims=True)
    w = np.exp(all_scores - np.where(np.isfinite(most), most, 0))
    total = w.sum(-1, keepdims=True)
    values = np.concatenate([v.astype(float), np.zeros((b, hk, 1, dv))], 2)
    o = np.einsum("bhgqk,bhkd->bhgqd", w / np.where(total == 0, 1, total), values)
    o = o.reshape(b, hk * group, rows, dv)
    with np.errstate(divide="ignore"):
        lse = np.log(total[..., 0]) + np.where(np.isfinite(most), most, 0)[..., 0]
    lse = lse.reshape(b, hk * group, rows)
    for n in range(b):
        k[n, :, lengths[n]:] = v[n, :, lengths[n]:] = np.nan
    if page:
        k, v, options["block_table"] = in_pages(rng, k, v, lengths, page)
    elif rng.random() < 0.3:  # heads that do not follow each other as rows do
        q = np.ascontiguousarray(q.transpose(2, 0, 1, 3)).transpose(1, 2, 0, 3)
    form = LOOPS[rng.integers(3)], ("true", "false")[int(rng.random() < 0.3)]
    cut = SCHEDULE % (keys, cluster, cluster, *form)
    if latents:
        return (q, k, None), {**options, "v_dim": dv}, (o, lse), LATENTS % form
    if halves:
        cut = HALVES % (keys, rng.choice((1, 1, 3)), *form)
    elif rng.random() < 0.3:
        cut = MANY % (min(keys, 64), rng.choice((17, 24, 33, 70)), *form)
    return (q, k, v), options, (o, lse), cut


def in_pages(rng, k, v, lengths, page):
    b, hk, sk, _ = k.shape
    most = -(-sk // page)
    pools = [np.full((b * most + 1, hk, page, x.shape[-1]), np.nan, x.dtype)
             for x in (k, v)]
    table = rng.permutation(b * most + 1)[:b * most].reshape(b, most).astype(np.int32)
    for n in range(b):
        for p in range(most):
            for pool, x in zip(pools, (k, v)):
                rows = x[n, :, p * page:(p + 1) * page]
                pool[table[n, p], :, :rows.shape[1]] = rows
        table[n, -(-lengths[n] // page):] = -1
    return pools[0], pools[1], table


def compile_cut(arrays, options, cut):
    call = attn.compile(*arrays, target="sm_90a", until_after="input",
                        return_lse=True, **options)
    text = re.sub(r"attn\.expected_sizes = array<[^>]*>, ", "", call.mlir("input"))
    text = re.sub(r"(attn\.attention [^{]*?)( \{|(?= ->))",
                  lambda m: m[1] + " {" + cut + (", " if m[2] else "}"), text, count=1)
    target = "sm_90a" if TARGET == "cuda" else TARGET
    return attn.compile(text.replace('attn.target = "sm_90a"', ""), target=target)


def main():
    worst = 0
    for number in range(CASES):
        arrays, options, want, cut = draw(np.random.default_rng((SEED, number)))
        kernel = compile_cut(arrays, options, cut)
        named = dict(zip("qkv", arrays), **options)
        if arrays[2] is None:
            named["v"] = arrays[1][..., :options["v_dim"]]
        left, right = options.get("window", (-1, -1))
        named.update(window_left=np.int32(left), window_right=np.int32(right))
        inputs = [named[arg.name] for arg in kernel.inputs]
        if TARGET == "cuda":
            inputs = list(map(to_gpu, inputs))
            if arrays[2] is None:
                at = [arg.name for arg in kernel.inputs].index
                inputs[at("v")] = inputs[at("k")][..., :options["v_dim"]]
        got = kernel(*inputs)
        for x, y, bound in zip(map(to_host, got), want, (0.02, 1e-3)):
            live = np.isfinite(y)
            for same in (np.isfinite, np.isnan):
                assert np.array_equal(same(y), same(x)), (SEED, number, cut, options)
            error = np.max(np.abs(x[live].astype(float) - y[live]), initial=0)
            worst = max(worst, error / bound)
            assert error < bound * max(1, np.max(np.abs(y[live]), initial=0)), (
                SEED, number, error, cut, options)
    print("%d calls, the largest error %.2f of the bound" % (CASES, worst))


main()
