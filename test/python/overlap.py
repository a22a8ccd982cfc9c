# RUN: %python %s
"""`out` shares no element with what is read, nor with itself; what interleaves is
taken. Rows of no sequence are written.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
from reference import fails

import attn

rng = np.random.default_rng(0)


def draw(*shape):
    return rng.standard_normal(shape).astype(np.float32)


k = draw(1, 1, 100, 64)
buffer = draw(1, 1, 210, 64)
want = attn.attention(buffer[:, :, :100].copy(), k, k)

# Twice: calls like earlier ones are checked too, and a plan made where `out` lies
# apart serves no call where it does not.
for _ in range(2):
    b = buffer.copy()
    o = attn.attention(b[:, :, :100], k, k, out=b[:, :, 100:200])
    assert np.array_equal(o, want) and np.array_equal(b[:, :, :100], buffer[:, :, :100])
    for offset in (1, 16, 99):
        fails(ValueError, "some that overlaps input 'q'", attn.attention,
              b[:, :, :100], k, k, out=b[:, :, offset : offset + 100])
    fails(ValueError, "that of input 'q'", attn.attention, b[:, :, :100], k, k,
          out=b[:, :, :100])
    fails(ValueError, "some that overlaps input 'k'", attn.attention,
          k, b[:, :, :100], k, out=b[:, :, 50:150])
    fails(ValueError, "some that overlaps input 'v'", attn.attention,
          k, k, b[:, :, :100], out=b[:, :, 50:150])
    assert np.array_equal(b[:, :, :100], buffer[:, :, :100])

# The operands besides.
sinks = b[0, 0, 0, :1]
fails(ValueError, "overlaps input 'sinks'", attn.attention, k, k, k, sinks=sinks,
      out=b[:, :, :100][:, :, ::-1])
bias = b[:, :, :157].reshape(-1)[:10000].reshape(1, 1, 100, 100)
fails(ValueError, "overlaps input 'bias'", attn.attention, k, k, k, bias=bias,
      out=b[:, :, 100:200])

# Even rows to odd rows; the heads of one buffer [b, s, heads, d].
for _ in range(2):
    b = buffer.copy()
    right = attn.attention(b[:, :, :200:2].copy(), k, k)
    o = attn.attention(b[:, :, :200:2], k, k, out=b[:, :, 1:200:2])
    assert np.array_equal(o, right)
    assert np.array_equal(b[:, :, ::2], buffer[:, :, ::2])
    fails(ValueError, "overlaps input 'q'", attn.attention, b[:, :, :200:2], k, k,
          out=b[:, :, 2:202:2])
packed = draw(2, 30, 10, 16)  # heads: 4 of q, 1 of k, 1 of v, 4 of out
heads = [packed[:, :, i:j] for i, j in ((0, 4), (4, 5), (5, 6), (6, 10))]
right = attn.attention(*(x.copy() for x in heads[:3]), layout="bshd")
for _ in range(2):
    o = attn.attention(*heads[:3], layout="bshd", out=heads[3])
    assert np.array_equal(o, right)
fails(ValueError, "some that overlaps input 'q'", attn.attention, *heads[:3],
      layout="bshd", out=packed[:, :, 3:7])

# An output that overlaps itself.
memory = np.zeros(100 * 64, np.float32)
narrow = np.lib.stride_tricks.as_strided(memory, (1, 1, 100, 64), (0, 0, 40, 4))
fails(ValueError, "an element of its own at each position", attn.attention, k, k, k,
      out=narrow)

# Rows of no sequence: 0, and -inf for lse; in arrays given, too.
rows = draw(20, 2, 16)
for monoid, dead in (("softmax", (-np.inf,)), ("softmax_max", (-np.inf, -np.inf))):
    for cu in ([0, 8, 17], [0, 8, 8], [0], [0, 0], [0, 8, 20]):
        for source in (np.array(cu, np.int32), cu):
            out = np.full_like(rows, np.nan)
            for given in ({}, {"out": out}):
                options = dict(layout="thd", cu_seqlens_q=source, cu_seqlens_k=source)
                aux = ("max",) if monoid == "softmax_max" else None
                results = attn.attention(rows, rows, rows, return_lse=True,
                                         return_aux=aux, **options, **given)
                o, lse = results[:2]
                assert (o[cu[-1] :] == 0).all() and not np.isnan(o).any()
                assert (lse[:, cu[-1] :] == -np.inf).all()
                assert np.isfinite(lse[:, : cu[-1]]).all()
                if aux:
                    assert (results[2]["max"][:, cu[-1] :] == -np.inf).all()
# The same of every monoid, with offsets for rows and keys or one for both; of
# code for GPUs too, into outputs that hold other things.
TEXT = """
func.func @one(%%x: tensor<2x?x16xf32>, %%cu: tensor<?xi32>)
    -> (tensor<2x?x16xf32>, tensor<2x?xf32>) {
  %%o, %%lse = attn.attention queries(%%x : tensor<2x?x16xf32>)
      keys(%%x : tensor<2x?x16xf32>) values(%%x : tensor<2x?x16xf32>)
      cu_seqlens_q(%%cu : tensor<?xi32>) cu_seqlens_k(%%cu : tensor<?xi32>) %s
      -> tensor<2x?x16xf32>, tensor<2x?xf32>
  return %%o, %%lse : tensor<2x?x16xf32>, tensor<2x?xf32>
}
"""
packed = np.ascontiguousarray(rows.transpose(1, 0, 2))
for target in (None, "emulator:sm_90a", "emulator:sm_80"):
    for attribute in ("", "{causal = #attn.causal<bottom_right>}"):
        kernel = attn.compile(TEXT % attribute, target=target)
        for cu in ([0, 8, 17], [0, 8, 8], [0], [0, 0], [0, 8, 20]):
            out = np.full_like(packed, np.nan), np.full((2, 20), np.nan, "f")
            o, lse = kernel(packed, np.array(cu, np.int32), out=out)
            n = cu[-1]
            assert (o[:, n:] == 0).all() and np.isfinite(o).all(), (target, attribute,
                                                                    cu)
            assert (lse[:, n:] == -np.inf).all() and np.isfinite(lse[:, :n]).all()
    fails(ValueError, "between 0 and", kernel, packed, np.array([0, 8, 21], np.int32))

# Masks and slopes of each sequence are not looked at beyond the last.
mask = np.ones((2, 2, 9, 9), bool)
slopes = np.ones((2, 2), np.float32)
for n in (2, 1):
    o = attn.attention(rows, rows, rows, layout="thd", mask=mask[:n],
                       alibi_slopes=slopes[:n],
                       cu_seqlens_q=[0, 8, 17][: n + 1],
                       cu_seqlens_k=[0, 8, 17][: n + 1])
    assert (o[[0, 8, 17][n] :] == 0).all() and (o[: [0, 8, 17][n]] != 0).all()

# Empty tensors of every operand: NumPy gives them strides of 0.
for b, hq, sq, sk in ((0, 2, 3, 4), (1, 0, 3, 4), (1, 2, 0, 4), (1, 2, 3, 0),
                      (0, 0, 0, 0)):
    q, kv = draw(b, hq, sq, 16), draw(b, hq, sk, 16)
    for dtype in (np.float32, np.float64):
        for slopes in ((b, hq), (hq,)):
            o = attn.attention(
                q, kv, kv, bias=draw(b, hq, sq, sk),
                mask=np.ones((b, hq, sq, sk), bool),
                alibi_slopes=np.ones(slopes, dtype), sinks=np.ones(hq, dtype),
                kv_lengths=np.zeros(b, np.int32 if dtype is np.float32 else np.int64))
            assert o.shape == q.shape and (o == 0).all()

# A window wider than any tensor bounds nothing.
q = draw(1, 2, 20, 16)
open_end = attn.attention(q, q, q)
half = attn.attention(q, q, q, window=(-1, 2))
for wide in (2**31 - 2, 2**31 - 1, 2**31, 2**40, np.int64(2**40)):
    assert np.array_equal(attn.attention(q, q, q, window=(wide, wide)), open_end)
    assert np.array_equal(attn.attention(q, q, q, window=(wide, 2)), half)
assert np.array_equal(attn.attention(q, q, q, window=None), open_end)
print("overlap")
