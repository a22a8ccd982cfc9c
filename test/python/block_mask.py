# RUN: %python %s
"""Lists of blocks that queries see, against float64: on the CPU and the emulator.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
from reference import attention, check, fails, qkv

import attn

rng = np.random.default_rng(1)
ODD = """
^bb0(%b: i32, %h: i32, %i: i32, %j: i32, %three: i32):
  %n = arith.addi %i, %j : i32
  %c3 = arith.constant 3 : i32
  %r = arith.remui %n, %c3 : i32
  %live = arith.cmpi ne, %r, %three : i32
  attn.yield %live : i1
"""


def lists(classes, kind, width):
    """Numbers and indices of the blocks of a kind; junk behind them."""
    numbers = (classes == kind).sum(-1).astype(np.int32)
    indices = rng.integers(-(2**31), 2**31, classes.shape[:-1] + (width,),
                           dtype=np.int32)
    for at in np.ndindex(numbers.shape):
        found = np.nonzero(classes[at] == kind)[0]
        indices[at][: len(found)] = rng.permutation(found)
    return numbers, indices


def expand(classes, size, sq, sk, partial):
    """The mask that classes of blocks are."""
    whole = np.repeat(np.repeat(classes, size[0], -2), size[1], -1)[..., :sq, :sk]
    return (whole == 2) | ((whole == 1) & partial)


def case(sq, sk, size, lead, with_mask, with_full=True, layout="bhsd", **options):
    q, k, v = qkv(rng, sq=sq, sk=sk)
    blocks = -(-sq // size[0]), -(-sk // size[1])
    classes = rng.choice([0, 0, 1, 2], lead + blocks).astype(np.int8)
    if not with_full:
        classes = np.minimum(classes, 1)
    full = lists(classes, 2, blocks[1] + 1) if with_full else ()
    mask = attn.BlockMask.from_kv_blocks(
        *lists(classes, 1, blocks[1]), *full, BLOCK_SIZE=size,
        mask_mod=ODD if with_mask else None,
    )
    i, j = np.arange(sq)[:, None], np.arange(sk)[None, :]
    partial = (i + j) % 3 != 1 if with_mask else np.ones((sq, sk), bool)
    alive = expand(classes.reshape((1,) * (2 - len(lead)) + classes.shape), size, sq,
                   sk, partial)
    if with_mask:
        options["captures"] = {"three": 1}
    arrays = (q, k, v)
    if layout == "bshd":
        arrays = tuple(np.ascontiguousarray(x.swapaxes(1, 2)) for x in arrays)
    out = attn.attention(*arrays, block_mask=mask, layout=layout, **options)
    options.pop("captures", None)
    if layout == "bshd":
        out = out.swapaxes(1, 2)
    want, _ = attention(q, k, v, mask=alive, **options)
    check("%s %s %s" % ((sq, sk), size, lead), out, want)


case(300, 500, (128, 128), (2, 4), True)
case(300, 500, (128, 128), (1, 1), False)
case(300, 500, (64, 32), (), True, causal="bottom_right")
case(33, 47, (8, 16), (2, 1), True, softcap=2.0, window=(20, 5))
case(200, 260, (128, 128), (1, 4), False, with_full=False, layout="bshd")
case(130, 129, (7, 13), (2, 4), True)
case(1, 700, (128, 128), (4,), False)
case(256, 256, (512, 512), (), True)
case(5, 5, (1, 1), (), True)
# Empty ones, and lists of none.
q, k, v = qkv(rng, sq=0, sk=40)
empty = attn.BlockMask(np.zeros((1, 1, 0), np.int32), np.zeros((1, 1, 0, 0), np.int32))
assert attn.attention(q, k, v, block_mask=empty).shape == (2, 4, 0, 24)
q, k, v = qkv(rng)
none = attn.BlockMask([0], np.zeros((1, 0), np.int32))
out, lse = attn.attention(q, k, v, block_mask=none, return_lse=True)
assert not out.any() and np.isneginf(lse).all()
# What no block sees may hold anything.
q, k, v = qkv(rng, sq=256, sk=512)
bad_k, bad_v = k.copy(), v.copy()
bad_k[:, :, 128:384], bad_v[:, :, 128:384] = np.nan, np.inf
ends = attn.BlockMask([0, 0], [[-1], [7]], [2, 1], [[0, 3], [3, 99]])
out = attn.attention(q, bad_k, bad_v, block_mask=ends)
alive = np.zeros((256, 512), bool)
alive[:128, :128] = alive[:, 384:] = True
check("dead blocks of NaN", out, attention(q, k, v, mask=alive)[0])
# A table is what lists become; masks serve calls of other sizes.
table = attn.BlockMask.from_classes(ends.classes(4))
check("classes", attn.attention(q, k, v, block_mask=table), out)
check(
    "more keys",
    attn.attention(q, *(np.concatenate([x, x], 2) for x in (k, v)), block_mask=ends),
    attention(q, k, v, mask=alive)[0],
)

# The best blocks by the scores of their means, as in docs/Masks.md.
q, k, v = qkv(rng, b=1, hq=2, hk=2, sq=512, sk=1024, d=32, dv=32)


def mean(x):
    return x.reshape(*x.shape[:2], -1, 128, x.shape[3]).mean(3)


best = np.argsort(-(mean(q) @ mean(k).swapaxes(-1, -2)), -1)[..., :3].astype("i4")
blocks = attn.BlockMask.from_kv_blocks(np.full(best.shape[:3], 3, "i4"), best)
picked = np.zeros((1, 2, 4, 8), np.int8)
np.put_along_axis(picked, best, 1, -1)
alive = expand(picked, (128, 128), 512, 1024, True)
check("best blocks", attn.attention(q, k, v, block_mask=blocks),
      attention(q, k, v, mask=alive)[0])

# Bits, the lowest first, as of cuDNN; with 11 blocks of keys in two bytes.
q, k, v = qkv(rng, b=2, hq=4, hk=2, sq=90, sk=170, d=32, dv=32)
bits = rng.integers(0, 256, (2, 1, 6, 2)).astype(np.uint8)
classes = 2 * np.unpackbits(bits, axis=3, bitorder="little")[..., :11]
i, j = np.arange(90)[:, None], np.arange(170)[None, :]
check("bits",
      attn.attention(q, k, v, block_mask=attn.BlockMask.from_bits(bits, 16)),
      attention(q, k, v, mask=expand(classes, (16, 16), 90, 170, True))[0])
odd = attn.BlockMask.from_bits(bits[0, 0], 16, mask_mod=ODD)
classes = np.minimum(classes[:1], 1)
check("bits and a mask",
      attn.attention(q, k, v, block_mask=odd, captures={"three": 1}),
      attention(q, k, v, mask=expand(classes, (16, 16), 90, 170,
                                     (i + j) % 3 != 1))[0])
fails(ValueError, "bits of 11 blocks of keys, 2 bytes, but got 1", attn.attention, q, k,
      v, block_mask=attn.BlockMask.from_bits(bits[..., :1], 16))
fails(TypeError, "bits of uint8", attn.BlockMask.from_bits, bits.astype(np.int8))

# Gathered keys, as docs/Masks.md has them: its own lines, and a GPU's emulator.
hq, d = 4, 64
q, k, v = (rng.standard_normal((512, heads, d)).astype("f2") for heads in (4, 2, 2))
page = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/Masks.md")
with open(page) as text:
    lines = text.read().split("### Gathered keys")[1].split("```")[1]
exec(lines.split("\n", 1)[1])
heads = lambda x: x.reshape(1, 512, -1, d).transpose(0, 2, 1, 3)
alive = np.zeros((8, 64, 512), bool)
for block, keys in enumerate(chosen):
    alive[block][:, keys] = keys <= 64 * block + np.arange(64)[:, None]
want = attention(heads(q), heads(k), heads(v), mask=alive.reshape(512, 512))[0]
check("gathered", heads(o.reshape(512, 4, d)), want, "float16")
for target in ("emulator:sm_80", "emulator:sm_90a"):
    kernel = attn.compile(q.reshape(8, 64, hq, d), k[:, None], v[:, None],
                          layout="bshd", block_table=chosen, mask_mod=past,
                          captures={"chosen": chosen, "rows": 64}, target=target)
    given = dict(q=q.reshape(8, 64, hq, d).swapaxes(1, 2), k=k[:, :, None],
                 v=v[:, :, None], block_table=chosen, chosen=chosen,
                 rows=np.array(64, np.int32))
    o = kernel(*(given[arg.name] for arg in kernel.inputs))
    check("gathered on " + target, heads(o.swapaxes(1, 2).reshape(512, 4, d)), want,
          "float16")

# On a GPU's emulator.
q, k, v = qkv(rng, b=1, hq=2, hk=1, sq=200, sk=300, d=64, dv=64, dtype=np.float16)
classes = rng.choice([0, 1, 2], (1, 2, 2, 3)).astype(np.int8)
i, j = np.arange(200)[:, None], np.arange(300)[None, :]
alive = expand(classes, (128, 128), 200, 300, (i + j) % 3 != 1)
mask = attn.BlockMask.from_classes(classes, mask_mod=ODD)
for target in ("emulator:sm_80", "emulator:sm_90a"):
    kernel = attn.compile(q, k, v, block_mask=mask, captures={"three": 1},
                          target=target)
    assert [arg.name for arg in kernel.inputs][3:] == ["block_mask", "three"]
    out = kernel(q, k, v, classes, np.array(1, np.int32))
    check(target, out, attention(q, k, v, mask=alive)[0], "float16")


# What does not fit.
def bad(error, text, mask, **options):
    fails(error, text, attn.attention, q, k, v, block_mask=mask, **options)


def of(*args, **options):
    return attn.BlockMask(*args, **options)


bad(TypeError, "an attn.BlockMask, but got", 3)
bad(ValueError, "0 to 2, but got 3", of([1, 1], [[0], [3]]))
bad(ValueError, "0 to 2, but got -1", of([1, 1], [[0], [-1]]))
bad(ValueError, "between 0 and 1", of([2, 1], [[0], [1]]))
bad(ValueError, "between 0 and 1", of([-1, 1], [[0], [1]]))
bad(ValueError, "block 2 twice for query block 1", of([0, 2], [[0, 0], [2, 2]]))
bad(ValueError, "block 0 twice for query block 0",
    of([1, 0], [[0], [0]], [1, 0], [[0], [0]]))
bad(ValueError, "block_mask for [b, hq, query blocks", of([1], [[0]]))
bad(ValueError, "block_mask for [b, hq, query blocks",
    attn.BlockMask.from_classes(classes[..., :2]))
bad(ValueError, "block_mask for [b, hq, query blocks",
    of(np.zeros((3, 1, 2), int), np.zeros((3, 1, 2, 1), int)))
bad(TypeError, "to hold integers", of([0.5, 1], [[0], [1]]))
bad(ValueError, "one more dimension", of([[[[1]]]], [[0]]))
bad(ValueError, "in the BlockMask", mask, mask_mod=ODD)
bad(ValueError, "captures to hold 'three'", mask)
fails(ValueError, "together", of, [1], [[0]], [1])
fails(ValueError, "BLOCK_SIZE", of, [1], [[0]], BLOCK_SIZE=0)
fails(ValueError, "BLOCK_SIZE", of, [1], [[0]], BLOCK_SIZE=(64, 64, 64))
fails(NotImplementedError, "text of a region", of, [1], [[0]], mask_mod=lambda *x: True)
fails(TypeError, "int8", attn.BlockMask.from_classes, classes.astype(np.int32))
for wrong in (-1, 3):
    fails(ValueError, "expected classes of 0, 1 or 2, but got %d" % wrong,
          attn.BlockMask.from_classes,
          np.where(classes == 1, wrong, classes).astype("i1"))
packed = [np.zeros((4, 1, 16), np.float32)] * 3
bad(ValueError, "without k_start", attn.BlockMask.from_classes(classes), k_start=[0])
fails(ValueError, "without layout 'thd'", attn.attention, *packed, layout="thd",
      cu_seqlens_q=[0, 4], cu_seqlens_k=[0, 4], block_mask=none)
print("ok")
