# RUN: %python %s
"""Latents of many heads, whose weights are measured from a point that follows a row's
maximum late, emulated: maxima that stay, grow slowly and grow fast, from tile to tile,
scores of both signs, and the logarithm of the sum beside the output, in float64.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import re

import ml_dtypes
import numpy as np

import attn

SCHEDULE = ("schedule = #attn.schedule<block_q = 64, rows = 64, block_k = 128, "
            "overlap = none, pack_heads = true, block_v = 512>")
HEADS, KEYS, PAGE, COLUMNS, VALUES = 128, 448, 64, 576, 512
# How far ahead, as an exponent of 2, a maximum is that moves the point.
AHEAD = {np.float16: "4.000000e+00", ml_dtypes.bfloat16: "8.000000e+00"}


def draw(rng, kind, growth):
    """Queries, and keys whose scores grow by some `growth` from page to page."""
    keys = rng.standard_normal((KEYS, COLUMNS))
    query = rng.standard_normal((HEADS, COLUMNS))
    along = rng.standard_normal(COLUMNS)
    keys += along * (np.arange(KEYS) // PAGE * growth / COLUMNS**0.5)[:, None]
    return (query + along * 0.5).astype(kind), keys.astype(kind)


def check(rng, kind, growth, scale):
    query, keys = draw(rng, kind, growth)
    length = KEYS - 70
    scores = query.astype(float) @ keys[:length].astype(float).T * scale
    most = scores.max(-1, keepdims=True)
    weights = np.exp(scores - most)
    total = weights.sum(-1, keepdims=True)
    want = weights @ keys[:length, :VALUES].astype(float) / total
    pool = keys.reshape(-1, 1, PAGE, COLUMNS)
    table = np.arange(KEYS // PAGE, dtype=np.int32)[None]
    inputs = dict(kv_lengths=np.array([length], np.int32), block_table=table)
    query = query[None, :, None]
    call = attn.compile(query, pool, None, target="sm_90a", until_after="input",
                        v_dim=VALUES, scale=scale, return_lse=True, **inputs)
    text = re.sub(r"attn\.expected_sizes = array<[^>]*>, ", "", call.mlir("input"))
    text = text.replace('attn.target = "sm_90a"', "")
    text = re.sub(r"(attn\.attention [^{]*?)( \{|(?= ->))",
                  lambda m: m[1] + " {" + SCHEDULE + (", " if m[2] else "}"), text, 1)
    kernel = attn.compile(text, target="emulator:sm_90a")
    assert "arith.constant %s : f32" % AHEAD[kind] in kernel.mlir("tile"), kind
    inputs.update(q=query, k=pool, v=pool[..., :VALUES], scale=scale)
    out, lse = kernel(*(inputs[arg.name] for arg in kernel.inputs))
    bound = 4e-3 if kind == np.float16 else 1.5e-2
    error = np.abs(out[0, :, 0].astype(float) - want).max() / np.abs(want).max()
    assert error < bound, (kind, growth, error)
    expected = (most + np.log(total))[:, 0]
    off = np.abs(lse[0, :, 0] - expected).max() / max(np.abs(expected).max(), 1)
    assert off < 1e-5, (kind, growth, off)


def main():
    rng = np.random.default_rng(3)
    for kind, growth, scale in ((ml_dtypes.bfloat16, 0, 0.07), (np.float16, 2, -0.07),
                                (ml_dtypes.bfloat16, 8, 0.07), (np.float16, 60, 0.07)):
        check(rng, kind, growth, scale)


main()
