# RUN: %python %s
"""Masks and scores as functions, beside named options: each recipe of docs/Masks.md
against float64.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
import recipes
from reference import attention, check, fails, live, qkv, scores

import attn

rng = np.random.default_rng(0)
RECIPES = recipes.read()
assert len(RECIPES) >= 22, sorted(RECIPES)


def expected(s, v, alive):
    """Of final scores: the output and the LSE."""
    s = np.where(alive, s, -np.inf)
    top = s.max(-1, keepdims=True)
    anchor = np.where(np.isneginf(top), 0.0, top)
    p = np.exp(s - anchor)
    total = p.sum(-1, keepdims=True)
    values = np.repeat(v.astype(np.float64), s.shape[1] // v.shape[1], 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        out = np.where(total == 0, 0.0, p @ values / total)
        return out, (anchor + np.log(total))[..., 0]


def run(name, n, **options):
    kind, text = RECIPES[name]
    q, k, v = qkv(rng, b=1, hq=2, hk=1, sq=n, sk=n, d=16, dv=16)
    given = recipes.taken(name, text, recipes.captures(rng, n))
    s, alive = scores(q, k), live((1, 2, n, n), **options)
    if name == "threshold":
        given["lse"] = attn.attention(q, k, v, return_lse=True, **options)[1]
    if kind == "mask":
        alive = alive & recipes.live(name, n, given)[:, None]
    else:
        s = recipes.score(name, s, given)
    function = {kind + "_mod": text}
    out, lse = attn.attention(
        q, k, v, captures=given or None, return_lse=True, **function, **options
    )
    want, want_lse = expected(s, v, alive)
    what = "%s %s" % (name, options)
    if name == "threshold":  # scores at the threshold may fall on either side
        assert np.mean(np.abs(out - want) > 1e-4) < 0.02, what
        return
    check(what, out, want)
    check(what, lse, want_lse)


for name, (kind, _) in RECIPES.items():
    n = {"neighbourhood-3d": 512, "neighbourhood-2d": 1024}.get(name, 576)
    run(name, n)
for name in ("prefix-lm", "documents", "global-window", "t5-bias"):
    run(name, 300, causal="top_left", window=(150, -1))

# The order of scores, and what masks come to together: all options at once.
MASK = """
^bb0(%b: i32, %h: i32, %i: i32, %j: i32, %skip: i32):
  %n = arith.addi %i, %j : i32
  %live = arith.cmpi ne, %n, %skip : i32
  attn.yield %live : i1
"""
SCORE = """
^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32, %factor: f32, %skip: i32):
  %x = arith.mulf %s, %factor : f32
  attn.yield %x : f32
"""
q, k, v = qkv(rng)
b, hq, sq, sk = 2, 4, 33, 47
i, j = np.arange(sq)[:, None], np.arange(sk)[None, :]
bias = rng.standard_normal((hq, 1, sk)).astype(np.float32)
mask = rng.random((b, 1, sq, sk)) < 0.8
slopes = np.array([0.5, 0.1, 0.02, 0.0], np.float32)
lengths = np.array([40, 47], np.int32)
common = dict(causal="bottom_right", window=(30, -1), kv_lengths=lengths)
out = attn.attention(
    q, k, v, softcap=3.0, bias=bias, alibi_slopes=slopes, mask=mask, score_mod=SCORE,
    mask_mod=MASK, captures={"factor": 1.5, "skip": 50}, **common
)
s = 1.5 * scores(q, k, softcap=3.0)
s = s + bias + scores(q * 0, k * 0, slopes=slopes, lengths=lengths)
alive = live(s.shape, "bottom_right", (30, -1), mask & (i + j != 50), lengths)
check("all options", out, expected(s, v, alive)[0])
# Another value of a capture is no other kernel; another text is.
check(
    "another value",
    attn.attention(q, k, v, mask_mod=MASK, captures={"skip": 7}),
    attention(q, k, v, mask=i + j != 7)[0],
)
check(
    "mask as text, in braces",
    attn.attention(q, k, v, mask="{%s}" % MASK, captures={"skip": 7}),
    attention(q, k, v, mask=i + j != 7)[0],
)
# Packed sequences and pages: positions are those in the sequence.
cu = np.array([0, 20, 33], np.int32)
packed = attn.attention(
    *(x[0].swapaxes(0, 1) for x in (q, k[:, :, :33], v[:, :, :33])),
    layout="thd", cu_seqlens_q=cu, cu_seqlens_k=cu, mask_mod=MASK, captures={"skip": 7},
)
for first, last in ((0, 20), (20, 33)):
    part = (x[:1, :, first:last] for x in (q, k, v))
    n = np.arange(last - first)
    want = attention(*part, mask=n[:, None] + n != 7)[0]
    check("packed", packed[first:last].swapaxes(0, 1), want[0])
pool_k, pool_v = (
    x[:, :, :40].reshape(2, 2, 5, 8, -1).swapaxes(1, 2).reshape(10, 2, 8, -1)
    for x in (k, v)
)
table = np.arange(10, dtype=np.int32).reshape(2, 5)
paged = attn.attention(
    q, pool_k, pool_v, block_table=table, mask_mod=MASK, captures={"skip": 7}
)
part = (q, k[:, :, :40], v[:, :, :40])
check("pages", paged, attention(*part, mask=(i + j != 7)[:, :40])[0])

# Names of captures are those of nothing else that a kernel has.
rotary = attn.Rotary.of(16, 50)
want = attn.attention(q, k, v, mask=i + j != 7, rotary=rotary)
for name in ("x", "b", "n", "row", "rotary_rows"):
    text = MASK.replace("%n ", "%m ").replace("%n,", "%m,").replace("%skip", "%" + name)
    text = text.replace("%b: i32, %h: i32", "%of: i32, %head: i32")
    named = attn.attention(q, k, v, mask_mod=text, captures={name: 7}, rotary=rotary)
    check("a capture " + name, named, want)

# A description that is compiled runs likewise, and on a GPU's emulator.
n = 200
q2, k2, v2 = qkv(rng, b=1, hq=2, hk=1, sq=n, sk=n, d=64, dv=64, dtype=np.float16)
for name in ("sliding-window", "documents", "tree", "chunked-causal"):
    text = RECIPES[name][1]
    given = recipes.taken(name, text, recipes.captures(rng, n))
    want, _ = expected(scores(q2, k2), v2, recipes.live(name, n, given)[:, None])
    for target in ("emulator:sm_80", "emulator:sm_90a"):
        kernel = attn.compile(q2, k2, v2, mask_mod=text, target=target)
        order = [arg.name for arg in kernel.inputs][3:]
        scalars = {x: np.array(given[x], np.int32) for x in given
                   if np.ndim(given[x]) == 0}
        out = kernel(q2, k2, v2, *(scalars.get(x, given[x]) for x in order))
        check("%s on %s" % (name, target), out, want, "float16")


# What does not fit.
def bad(error, text, **options):
    fails(error, text, attn.attention, q, k, v, **options)


bad(NotImplementedError, "text of a region", mask_mod=lambda b, h, i, j: True)
bad(TypeError, "text of a region", score_mod=3)
bad(ValueError, "mask as mask or as mask_mod, but got both", mask=MASK, mask_mod=MASK)
bad(ValueError, "captures to hold 'skip'", mask_mod=MASK)
bad(ValueError, "but got 'other'", mask_mod=MASK, captures={"skip": 1, "other": 2})
bad(ValueError, "captures with score_mod or mask_mod", captures={"skip": 1})
bad(TypeError, "captures to be a dict", mask_mod=MASK, captures=[1])
bad(TypeError, "skip to be an integer", mask_mod=MASK, captures={"skip": 1.5})
bad(ValueError, "got nothing", mask_mod="  ")
bad(ValueError, "got nothing", score_mod="")
bad(ValueError, "mask to be the text of a region", mask="")
bad(ValueError, "text that UTF-8 has", mask_mod="\udc80")
bad(ValueError, "<mask_mod>:1:1: ", mask_mod="true")
bad(ValueError, "<mask_mod>:3:8: ",
    mask_mod=MASK.replace("arith.addi", "arith.nothing"))
bad(ValueError, "<mask_mod>:3:",
    mask_mod=MASK.replace("%i, %j : i32\n", "%i, %k : i32\n", 1))
bad(ValueError, "mask_mod to take (%b: i32, %h: i32", mask_mod=SCORE)
bad(ValueError, "mask_mod to yield an i1",
    mask_mod=MASK.replace("%live : i1", "%n : i32"))
bad(ValueError, "without attn.yield",
    mask_mod=MASK.replace("attn.yield %live : i1", ""))
bad(ValueError, "names that no other input has", mask_mod=MASK.replace("%skip", "%q"))
for name in ("rotary_cos", "rotary_sin", "dropout_p", "dropout_seed_low"):
    bad(ValueError, "names that no other input has",
        mask_mod=MASK.replace("%skip", "%" + name))
for name in ("q", "scale", "bias", "softcap", "window_left"):
    bad(ValueError, "names that no other operand has", mask_mod=MASK, scale=1.0,
        softcap=3.0, bias=bias, window=(3, 3), captures={"skip": 7, name: 1.0})
bad(ValueError, "names of letters", mask_mod=MASK.replace("%skip", "%0"))
bad(ValueError, "got more",
    mask_mod=MASK + "}) : () -> () \"builtin.module\"() ({" + MASK)
bad(ValueError, "several blocks",
    mask_mod=MASK + MASK.replace("bb0", "bb1").replace("%", "%x"))
bad(ValueError, "to be a tensor or a scalar",
    mask_mod=MASK.replace("%skip: i32)", "%skip: i32, %m: memref<?xf32>)"))
bad(ValueError, "of one type in score_mod and mask_mod", mask_mod=MASK,
    score_mod=SCORE.replace("%skip: i32", "%skip: i64"),
    captures={"skip": 1, "factor": 1.0})
bad(ValueError, "arith and math", mask_mod=MASK.replace(
    "%live = ", "%t = tensor.empty() : tensor<4xf32>\n  %live = "))
print("ok")
