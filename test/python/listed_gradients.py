# RUN: %python %s emulator:sm_90a
"""Gradients under masks that read memory: documents, a mask by head, a table of
blocks, biases and tables that may be -inf. Kernels list live tiles of queries for
those of keys and values as they list tiles of keys; against float64, with groups of
heads, beside NaN in dead rows.

usage: listed_gradients.py [TARGET] [SEED]
TARGET is an emulator, or cuda, which takes torch.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import os
import sys

import ml_dtypes
import numpy as np

import attn

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
from device import to_gpu, to_host  # noqa: E402

TARGET = sys.argv[1] if len(sys.argv) > 1 else "emulator:sm_90a"
rng = np.random.default_rng(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
IDS = """^bb0(%b: i32, %h: i32, %i: i32, %j: i32, %ids: tensor<?xi32>):
  %row = arith.index_cast %i : i32 to index
  %key = arith.index_cast %j : i32 to index
  %x = tensor.extract %ids[%row] : tensor<?xi32>
  %y = tensor.extract %ids[%key] : tensor<?xi32>
"""
DOCUMENTS = IDS + """  %same = arith.cmpi eq, %x, %y : i32
  attn.yield %same : i1"""
BY_HEAD = IDS + """  %z = arith.addi %y, %h : i32
  %seen = arith.cmpi sle, %x, %z : i32
  attn.yield %seen : i1"""
BLOCKS = """^bb0(%b: i32, %h: i32, %i: i32, %j: i32, %t: tensor<?x?x?xi1>):
  %size = arith.constant 128 : i32
  %y = arith.divui %i, %size : i32
  %x = arith.divui %j, %size : i32
  %row = arith.index_cast %y : i32 to index
  %key = arith.index_cast %x : i32 to index
  %head = arith.index_cast %h : i32 to index
  %live = tensor.extract %t[%head, %row, %key] : tensor<?x?x?xi1>
  attn.yield %live : i1"""
TABLE = """^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32, %t: tensor<?x?xf32>):
  %most = arith.constant 31 : i32
  %d = arith.subi %i, %j : i32
  %a = math.absi %d : i32
  %n = arith.minsi %a, %most : i32
  %at = arith.index_cast %n : i32 to index
  %head = arith.index_cast %h : i32 to index
  %x = tensor.extract %t[%head, %at] : tensor<?x?xf32>
  %y = arith.addf %s, %x : f32
  attn.yield %y : f32"""


def make(kind, heads, s):
    """What is added to scores, [heads, s, s], -inf where a pair is dead; options."""
    ids = np.sort(rng.integers(0, 5, s)).astype("i4")
    i, j = np.arange(s)[:, None], np.arange(s)
    dead = lambda live: np.where(live, 0, -np.inf)
    if kind == "documents":
        live = np.broadcast_to(ids[:, None] == ids, (heads, s, s))
        return dead(live), dict(mask_mod=DOCUMENTS, captures={"ids": ids})
    if kind == "by head":
        live = ids[:, None] <= ids + np.arange(heads)[:, None, None]
        return dead(live), dict(mask_mod=BY_HEAD, captures={"ids": ids})
    if kind == "blocks":
        blocks = rng.random((heads, -(-s // 128), -(-s // 128))) < 0.6
        live = blocks.repeat(128, 1).repeat(128, 2)[:, :s, :s]
        return dead(live), dict(mask_mod=BLOCKS, captures={"t": blocks})
    if kind == "bias":
        bias = rng.standard_normal((1, 1, 1, s)).astype("f4")
        bias[..., s // 3:s // 2] = -np.inf
        return np.broadcast_to(bias[0], (heads, s, s)), dict(bias=bias)
    # A finite one leaves nothing to list; a large one is not looked through.
    table = rng.standard_normal((heads, 20000 if kind == "large table" else 32))
    table = table.astype("f4")
    if kind != "finite table":
        table[0, 3] = -np.inf
    added = table[:, np.minimum(np.abs(i - j), 31)]
    return added, dict(score_mod=TABLE, captures={"t": table})


def check(kind, b, hk, group, s, d):
    draw = lambda h: rng.standard_normal((b, h, s, d)).astype(ml_dtypes.bfloat16)
    q, do, k, v = draw(hk * group), draw(hk * group), draw(hk), draw(hk)
    added, options = make(kind, hk * group, s)
    unseen = np.isneginf(added).all((0, 1))
    k[:, :, unseen], v[:, :, unseen] = np.nan, np.inf
    clean = lambda x: np.nan_to_num(x.astype("f8"), posinf=0, neginf=0)
    wide = lambda x: np.repeat(clean(x), group, 1)
    scores = d**-0.5 * np.einsum("bhid,bhjd->bhij", clean(q), wide(k)) + added
    top = scores.max(-1, keepdims=True, initial=-1e300)
    p = np.exp(scores - top)
    p /= np.maximum(p.sum(-1, keepdims=True), 1e-300)
    dp = np.einsum("bhid,bhjd->bhij", clean(do), wide(v))
    ds = p * (dp - (dp * p).sum(-1, keepdims=True)) * d**-0.5
    fold = lambda x: x.reshape(b, hk, group, s, d).sum(2)
    want = {"q": ds @ wide(k), "k": fold(ds.swapaxes(2, 3) @ clean(q)),
            "v": fold(p.swapaxes(2, 3) @ clean(do))}
    if TARGET == "cuda":
        q, k, v, do = map(to_gpu, (q, k, v, do))
        options = to_gpu(options)
    else:
        options["target"] = TARGET
    _, vjp = attn.attention_vjp(q, k, v, inputs=("q", "k", "v"), **options)
    found = to_host(vjp(do))
    for name, expected in want.items():
        error = np.abs(found[name].astype("f8") - expected).max()
        error /= max(np.abs(expected).max(), 1e-6)
        assert error < 1.5e-2, (kind, name, error, b, hk, group, s, d)


def main():
    sizes = (700, 1500) if TARGET == "cuda" else (200, 130)
    for kind in ("documents", "by head", "blocks", "bias", "table",
                 "finite table", "large table"):
        check(kind, 1, 1, 2, sizes[0], 64)
        check(kind, 2, 2, 1, sizes[1], 128)
    print("gradients of listed tiles")


main()
