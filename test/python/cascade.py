# RUN: %python %s
# RUN: %if cpu-avx512 %{ %python %s cpu-avx2 %}
# RUN: %python %s emulator:sm_80 --rounds 4
# RUN: %python %s emulator:sm_90a --rounds 4
"""cascade=True: pages that sequences share, read once for all of them.

    cascade.py [TARGET] [--rounds N] [--seed N]

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

Random block tables: sequences that go on from prefixes of others, at any page, in any
order of the batch; the same pages at other places of a table; entries of -1 behind the
last page; lengths of 0, and of few keys more than pages. Each result is compared with
attention in float64 on the keys that the table names. Then what "auto" makes of sizes,
and of the tables of a CPU's calls.
"""

import argparse
import sys

import numpy as np

import attn

parser = argparse.ArgumentParser()
parser.add_argument("target", nargs="?")
parser.add_argument("--rounds", type=int, default=25)
parser.add_argument("--seed", type=int, default=17)
arguments = parser.parse_args()
rng = np.random.default_rng(arguments.seed)
TOLERANCES = {np.float32: 3e-5, np.float16: 4e-3}


def run(q, k, v, **options):
    """Of the target, with what it returns."""
    if arguments.target is None:
        return attn.attention(q, k, v, **options)
    try:
        kernel = attn.compile(q, k, v, target=arguments.target, **options)
    except ValueError as error:
        if "this machine" in str(error):
            print("skipped: %s" % error)
            sys.exit(0)
        raise
    named = dict(options, q=q, k=k, v=v)
    return kernel(*[named[arg.name] for arg in kernel.inputs])


def attend(q, k, v, table, lengths, causal, softcap=None, sinks=None):
    """Attention in float64, and its LSE."""
    (batches, heads, rows, d), (_, key_heads, page, dv) = q.shape, v.shape
    o = np.zeros((batches, heads, rows, dv))
    lse = np.full((batches, heads, rows), -np.inf)
    for b in range(batches):
        n = int(np.clip(lengths[b], 0, table.shape[1] * page))
        pages = np.clip(table[b, : -(-n // page)], 0, len(k) - 1)
        keys, values = (
            x[pages].transpose(1, 0, 2, 3).reshape(key_heads, -1, x.shape[-1])[:, :n]
            for x in (k.astype("f8"), v.astype("f8"))
        )
        for h in range(heads):
            hk = h // (heads // key_heads)
            s = q[b, h].astype("f8") @ keys[hk].T / np.sqrt(d)
            if softcap:
                s = softcap * np.tanh(s / softcap)
            if causal:
                s[np.arange(n) > np.arange(rows)[:, None] + n - rows] = -np.inf
            with np.errstate(divide="ignore", invalid="ignore"):
                m = s.max(-1, keepdims=True, initial=-np.inf)
                if sinks is not None:
                    m = np.maximum(m, sinks[h])
                p = np.exp(s - np.where(np.isfinite(m), m, 0))
                total = p.sum(-1, keepdims=True)
                if sinks is not None:
                    total += np.exp(sinks[h] - np.where(np.isfinite(m), m, 0))
                o[b, h] = np.where(total > 0, p @ values[hk] / total, 0)
                lse[b, h] = (m + np.log(total))[:, 0]
    return o, lse


def tables(batches, pages, page, width):
    """Tables that go on from prefixes of others, and lengths."""
    table = np.full((batches, width), -1, "i4")
    lengths = np.zeros(batches, "i4")
    order = rng.permutation(batches)
    for i, b in enumerate(order):
        own = int(rng.integers(0, width + 1))
        table[b, :own] = rng.integers(0, pages, own)
        if i and rng.random() < 0.85:
            parent = order[int(rng.integers(0, i))]
            kept = int(rng.integers(0, width + 1))
            have = int((table[parent] >= 0).sum())
            kept = min(kept, have)
            table[b, :kept] = table[parent, :kept]
            own = max(own, kept)
        lengths[b] = max(own * page - int(rng.integers(0, page)), 0) if own else 0
        if rng.random() < 0.1:
            lengths[b] = 0
        if rng.random() < 0.1 and own:
            # The same pages, elsewhere: none of them are shared.
            table[b, :own] = np.roll(table[b, :own], 1)
    return table, lengths


def check(name, found, expected, tolerance):
    with np.errstate(invalid="ignore"):
        error = np.where(found == expected, 0, np.abs(found - expected))
    assert error.max(initial=0) <= tolerance, (name, error.max(), np.argmax(error))


emulated = (arguments.target or "").startswith("emulator")
for number in range(arguments.rounds):
    dtype = [np.float32, np.float16][int(rng.integers(0, 2))]
    if emulated:
        dtype = [np.float16, np.float32][number % 2]
    page = int(rng.choice([8, 16, 16, 64] if emulated else [1, 3, 8, 16, 16, 64]))
    key_heads = int(rng.choice([1, 2]))
    group = int(rng.choice([1, 3, 4, 8]))
    rows = int(rng.choice([1, 1, 1, 2, 5]))
    batches = int(rng.integers(1, 9)) if emulated else int(rng.integers(0, 40))
    width = int(rng.integers(1, 1 + max(1, (300 if emulated else 900) // page)))
    d, dv = (64, 64) if rng.random() < 0.5 else (128, 64)
    pages = int(rng.integers(1, 40))
    table, lengths = tables(batches, pages, page, width)
    options = dict(causal=str(rng.choice(["none", "bottom_right"])))
    options = {} if options["causal"] == "none" else options
    more = {}
    if rng.random() < 0.3:
        more["softcap"] = 5.0
    if rng.random() < 0.3:
        more["sinks"] = rng.standard_normal(key_heads * group).astype("f")
    q = rng.standard_normal((batches, key_heads * group, rows, d)).astype(dtype)
    k = rng.standard_normal((pages, key_heads, page, d)).astype(dtype)
    v = rng.standard_normal((pages, key_heads, page, dv)).astype(dtype)
    levels = [True, 2, 3, "auto"][int(rng.integers(0, 4))]
    named = dict(block_table=table, kv_lengths=lengths, **options, **more)
    name = (number, dtype.__name__, q.shape, k.shape, table.shape, options, list(more),
            levels)
    expected = attend(q, k, v, table, lengths, bool(options), **more)
    o, lse = run(q, k, v, cascade=levels, return_lse=True, **named)
    check(name, o, expected[0], TOLERANCES[dtype])
    check(name, lse, expected[1], 10 * TOLERANCES[dtype])
    if not emulated:
        check(name, o, run(q, k, v, **named), TOLERANCES[dtype])


def is_chosen(sequences, width, target, **options):
    """Whether "auto" looks for shared prefixes, of bf16 and 32 heads on 8."""
    q = np.zeros((sequences, 32, 1, 128), "f2")
    k = np.zeros((1, 8, 16, 128), "f2")
    table = np.zeros((sequences, width), "i4")
    named = dict(block_table=table, kv_lengths=np.zeros(sequences, "i4"))
    kernel = attn.compile(q, k, k, cascade="auto", target=target, until_after="input",
                          **named, **options)
    return "cascade = 1" in kernel.mlir("input")


if arguments.target is None:
    for target, few in (("sm_90a", 40), ("cpu-avx2", 2)):
        assert is_chosen(64, 528, target)
        assert not is_chosen(64, few // 2, target)
        assert not is_chosen(1, 5000, target)
        assert not is_chosen(64, 528, target, window=(100, 0), causal="bottom_right")
        assert not is_chosen(64, 528, target, batch_invariant=True)
    # A CPU's table tells: results differ by rounding where pages are shared.
    q, k, v = (rng.standard_normal(shape).astype("f") for shape in
               ((8, 4, 1, 64), (900, 1, 16, 64), (900, 1, 16, 64)))
    lengths = np.full(8, 1600, "i4")
    for shared in (0, 10, 90):
        table = rng.permutation(900)[:800].reshape(8, 100).astype("i4")
        table[:, :shared] = table[0, :shared]
        named = dict(block_table=table, kv_lengths=lengths)
        auto, plain, always = (
            run(q, k, v, cascade=how, **named) for how in ("auto", False, True))
        assert np.array_equal(auto, always if shared == 90 else plain), shared
    # Without pages nothing is shared: also where gradients are wanted.
    o, vjp = attn.attention_vjp(q, q, q, cascade="auto")
    assert np.array_equal(o, run(q, q, q)) and np.isfinite(vjp(o)["q"]).all()
print("ok: %d configurations" % arguments.rounds)
