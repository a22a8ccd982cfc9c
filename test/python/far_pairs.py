# RUN: %python %s cpu emulator:sm_90a emulator:sm_80
"""Tables by distance whose last element stands for all beyond: gradients of queries,
keys, values and of the table, where far pairs are most, against float64. Tables are
read by the size of the distance, by the distance between two bounds, and by one side;
elements are -inf among the near and among the far; heads share keys.

usage: far_pairs.py TARGET...

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import sys

import ml_dtypes
import numpy as np

import attn

rng = np.random.default_rng(2)
TABLE = """^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32, %t: tensor<?x?xf32>):
  %zero = arith.constant 0 : i32
  %least = arith.constant -20 : i32
  %most = arith.constant 31 : i32
  %d = arith.subi %i, %j : i32
  INDEX
  %at = arith.index_cast %n : i32 to index
  %head = arith.index_cast %h : i32 to index
  %x = tensor.extract %t[%head, %at] : tensor<?x?xf32>
  %y = arith.addf %s, %x : f32
  attn.yield %y : f32"""
# For each kind the index, and the function of i - j that it is.
KINDS = {
    "size": (
        "%a = math.absi %d : i32 %n = arith.minsi %a, %most : i32",
        lambda d: np.minimum(abs(d), 31),
    ),
    "two bounds": (
        "%a = arith.maxsi %d, %least : i32 %c = arith.minsi %a, %most : i32 "
        "%n = arith.subi %c, %least : i32",
        lambda d: np.clip(d, -20, 31) + 20,
    ),
    "behind": (
        "%a = arith.maxsi %d, %zero : i32 %n = arith.minsi %a, %most : i32",
        lambda d: np.clip(d, 0, 31),
    ),
    "ahead": (
        "%c = arith.subi %zero, %d : i32 %a = arith.maxsi %c, %zero : i32 "
        "%n = arith.minsi %most, %a : i32",
        lambda d: np.clip(-d, 0, 31),
    ),
}


def check(target, kind, hk, group, sq, sk, d, dead=None, causal=False):
    body, index = KINDS[kind]
    heads = hk * group
    draw = lambda h, s: rng.standard_normal((1, h, s, d)).astype(ml_dtypes.bfloat16)
    q, do, k, v = draw(heads, sq), draw(heads, sq), draw(hk, sk), draw(hk, sk)
    at = index(np.arange(sq)[:, None] - np.arange(sk))
    table = rng.standard_normal((heads, 52)).astype("f4")
    if dead is not None:
        table[0, dead] = -np.inf
    wide = lambda x: np.repeat(x.astype("f8"), group, 1)
    scores = d**-0.5 * np.einsum("bhid,bhjd->bhij", q.astype("f8"), wide(k))
    scores = scores + table[:, at]
    if causal:
        scores = np.where(np.tri(sq, sk, dtype=bool), scores, -np.inf)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    dp = np.einsum("bhid,bhjd->bhij", do.astype("f8"), wide(v))
    ds = p * (dp - (dp * p).sum(-1, keepdims=True))
    fold = lambda x: x.reshape(1, hk, group, sk, d).sum(2)
    want = {
        "q": ds @ wide(k) * d**-0.5,
        "k": fold(ds.swapaxes(2, 3) @ q.astype("f8")) * d**-0.5,
        "v": fold(p.swapaxes(2, 3) @ do.astype("f8")),
        "t": np.zeros(table.shape),
    }
    for h in range(heads):
        np.add.at(want["t"][h], at, ds[0, h])
    _, vjp = attn.attention_vjp(
        q, k, v, inputs=tuple(want), score_mod=TABLE.replace("INDEX", body),
        captures={"t": table}, causal="top_left" if causal else None,
        target=None if target == "cpu" else target,
    )
    found = vjp(do)
    for name, expected in want.items():
        error = abs(found[name].astype("f8") - expected).max() / abs(expected).max()
        assert error < 1e-2, (target, kind, name, error, sq, sk, d, dead, causal)


for target in sys.argv[1:]:
    check(target, "size", 1, 2, 300, 400, 64)
    check(target, "size", 1, 1, 400, 290, 64, dead=3)
    check(target, "two bounds", 1, 1, 300, 300, 128)
    check(target, "two bounds", 1, 2, 290, 310, 64, dead=51)
    check(target, "behind", 1, 1, 300, 300, 64, causal=True)
    check(target, "ahead", 1, 1, 270, 300, 64, dead=31)
    check(target, "size", 1, 1, 20, 20, 64)
print("gradients of far pairs")
