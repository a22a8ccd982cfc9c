# RUN: %python %s
"""What does not fit is one line: what was expected, what came.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import os
import pathlib
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
from reference import fails, qkv

import attn

rng = np.random.default_rng(3)
q, k, v = qkv(rng)


def bad(error, text, *, q=q, k=k, v=v, **options):
    fails(error, text, attn.attention, q, k, v, **options)


# Operands.
bad(
    TypeError,
    "expected q to be a NumPy array, a torch tensor or an array with __dlpack__, but "
    "got list",
    q=[1],
)
bad(TypeError, "float32, float16 or bfloat16", q=q.astype(np.float64))
bad(TypeError, "float32, float16 or bfloat16", q=q.astype(np.int32))
bad(TypeError, "float, integer or boolean", q=q.astype(np.complex64))
bad(TypeError, "k of the type of q", k=k.astype(np.float16))
bad(ValueError, "q of 4 dimensions, [b, h, s, d]", q=q[0])
bad(ValueError, "'k' of shape [b, hk, sk, 40]", k=k[..., :39])
bad(ValueError, "'v' of shape", v=v[:, :, :46])
bad(ValueError, "'k' of shape", k=k[:1])
bad(ValueError, "hq to be a multiple of hk", q=q[:, :3])
bad(ValueError, "stride 1 in its last dimension", q=q[..., ::2], k=k[..., :20])
bad(ValueError, "byte order", q=q.astype(">f4"))
bad(ValueError, "v, which the monoid needs", v=None)
bad(ValueError, "head dim", q=q[..., :0], k=k[..., :0])
raw = np.zeros(q.nbytes + 1, np.uint8)[1:].view(np.float32).reshape(q.shape)
bad(ValueError, "aligned memory", q=raw)
masked = np.ma.masked_array(k, k > 2)
bad(ValueError, "k without masked elements, but got %d" % (k > 2).sum(), k=masked)
bad(ValueError, "head dimensions between 1 and 4096, but got float32 of shape",
    v=v[..., :0])
bad(ValueError, "(dimensions in the order b, h, s, d)", layout="bshd", k=k[:1])

# Options.
bad(ValueError, "causal to be None, 'top_left' or 'bottom_right'", causal=True)
bad(ValueError, "causal to be", causal="lower")
bad(ValueError, "precision to be one of ieee, tf32", precision="fp32")
bad(ValueError, "precision to be", precision=None)
bad(ValueError, "causal to be", causal=["top_left"])
bad(TypeError, "window to be a pair", window=5)
bad(ValueError, "window to be a pair", window=(1, 2, 3))
bad(ValueError, "window sizes of at least 0", window=(-2, 0))
bad(TypeError, "window to be an integer of 32 bits", window=(1.5, 0))
bad(TypeError, "window to be an integer", window=(True, 0))
bad(TypeError, "window to be an integer", window=(-(2**40), 0))
bad(TypeError, "scale to be a number, but got str '0.5'", scale="0.5")
bad(TypeError, "scale to be a number, but got bool True", scale=True)
bad(TypeError, "scale to be a number", scale=np.bool_(True))
bad(TypeError, "softcap to be a number", softcap=True)
bad(TypeError, "monoid_params to be a sequence of numbers, but got float 1.0",
    monoid_params=1.0)
bad(TypeError, "monoid_params to be a sequence", monoid_params="12")
bad(ValueError, "softcap to be positive", softcap=-1.0)
bad(ValueError, "softcap to be positive", softcap=float("nan"))
bad(TypeError, "softcap to be a number", softcap="big")
bad(TypeError, "scale to be a number", scale=[1, 2])
bad(ValueError, "layout to be one of bhsd, bshd, sbhd, thd", layout="bsdh")
bad(ValueError, "layout to be one of", layout=4)
bad(ValueError, "monoid to be one of softmax,", monoid="hardmax")
bad(ValueError, "compile the text of an attn.aggregate @gated_decay",
    monoid="gated_decay")
bad(TypeError, "monoid to be a name", monoid=3)
MONOID = """attn.monoid @m cocycle stats(f32) components(unit) outputs("o") {
  identity { %c = arith.constant 0.0 : f32 attn.yield %c : f32 }
  combine { ^bb0(%a: f32, %b: f32): %c = arith.subf %a, %b : f32 attn.yield %c : f32 }
  rescale { ^bb0(%a: f32, %b: f32): %r = arith.constant 1.0 : f32 attn.yield %r : f32 }
  lift { ^bb0(%s: f32): attn.yield %s, %s : f32, f32 }
  finalize { ^bb0(%c: f32, %v: f32): attn.yield %v : f32 }
}"""
bad(ValueError, "<monoid>:1:1: 'attn.monoid' op breaks the law", monoid=MONOID)
bad(ValueError, "<monoid>:3:42: custom op 'arith.subg' is unknown",
    monoid=MONOID.replace("subf", "subg"))
bad(ValueError, "outputs that one monoid has", return_aux="variance")
bad(ValueError, "outputs that one monoid has", return_aux=("max", "entropy"))
bad(ValueError, "outputs that one monoid has", return_lse=True, monoid="sigmoid_sum")
bad(TypeError, "return_aux to hold names", return_aux=[1])
bad(NotImplementedError, "not supported yet", score_mod=lambda s, b, h, i, j: s)
bad(NotImplementedError, "not supported yet", mask_mod=lambda b, h, i, j: True)
bad(ValueError, "monoid_params", monoid_params=(1.0,))

# Tensors besides.
mask = np.ones((33, 47), bool)
bad(TypeError, "pass an additive mask as bias", mask=mask.astype(np.float32))
bad(TypeError, "mask to be boolean", mask=mask.astype(np.int8))
bad(TypeError, "pass a boolean mask as mask", bias=mask)
bad(TypeError, "bias of float32", bias=mask.astype(np.float64))
bad(ValueError, "mask to broadcast to [2, 4, 33, 47]", mask=mask[:, :46])
bad(ValueError, "bias to broadcast", bias=np.zeros((3, 1, 1, 1), np.float32))
# What repeats has stride 0, and the wrong size all the same.
bad(ValueError, "mask to broadcast to [2, 4, 33, 47]",
    mask=np.broadcast_to(mask[:, :1], (33, 46)))
bad(ValueError, "bias to broadcast",
    bias=np.broadcast_to(np.zeros((1, 1, 1, 1), np.float32), (3, 1, 1, 1)))
bad(ValueError, "at most 4 dimensions", mask=mask[None, None, None])
# Packed queries of sequences in pages: an offset more than there are tables.
pools = {"q": q[0].swapaxes(0, 1), "layout": "thd", "kv_lengths": [1, 2, 3],
         "k": np.zeros((6, 16, 2, 40), np.float32),
         "v": np.zeros((6, 16, 2, 24), np.float32),
         "block_table": np.arange(6, dtype=np.int32).reshape(3, 2)}
new = {"k_new": np.zeros((33, 2, 40), np.float32),
       "v_new": np.zeros((33, 2, 24), np.float32)}
for cu in ([0], [0, 1, 2], [0, 1, 2, 3, 33]):
    for more in ({}, new):
        bad(ValueError, "4 offsets, one more than b = 3", **pools, **more,
            cu_seqlens_q=np.array(cu, np.int32))
# Elements by positions of rows: keys that begin elsewhere move no row.
by_row = """
^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32, %t: tensor<?xf32>):
  %n = arith.index_cast %i : i32 to index
  %x = tensor.extract %t[%n] : tensor<?xf32>
  attn.yield %x : f32
"""
few_rows = np.zeros(32, np.float32)
bad(ValueError, "a size of at least sq = 33", score_mod=by_row,
    captures={"t": few_rows})
bad(ValueError, "a size of at least sq = 33", score_mod=by_row,
    captures={"t": few_rows}, k_start=[7, 3])
bad(ValueError, "stride 1 in its last dimension", mask=np.ones((47, 33), bool).T)
bad(ValueError, "alibi_slopes of shape [hq] or [b, hq]",
    alibi_slopes=np.zeros((1, 1, 4), np.float32))
bad(ValueError, "'alibi_slopes'", alibi_slopes=[1.0, 2.0])
bad(TypeError, "alibi_slopes", alibi_slopes=["a", "b", "c", "d"])
bad(ValueError, "'sinks'", sinks=[1.0, 2.0])
bad(TypeError, "sinks of type f32", sinks=np.zeros(4, np.int32))
bad(ValueError, "'kv_lengths'", kv_lengths=[1, 2, 3])
bad(ValueError, "between 0 and sk = 47", kv_lengths=[1, 48])
bad(ValueError, "between 0 and sk = 47", kv_lengths=[-1, 4])
bad(TypeError, "kv_lengths", kv_lengths=[1.5, 2])
bad(TypeError, "kv_lengths", kv_lengths=[2**40, 2])
bad(TypeError, "kv_lengths of type i32", kv_lengths=np.zeros(2, np.float32))
bad(TypeError, "kv_lengths", kv_lengths=7)
# Neither booleans nor what has no order.
bad(TypeError, "kv_lengths to hold numbers of type i32", kv_lengths=[True, 7])
bad(TypeError, "kv_lengths to hold numbers", kv_lengths=[np.bool_(True), 7])
bad(TypeError, "kv_lengths to hold numbers", kv_lengths={3, 7})
bad(TypeError, "kv_lengths to hold numbers", kv_lengths=b"\3\7")
bad(TypeError, "sinks to hold numbers", sinks={0: 1.0, 1: 1.0, 2: 1.0, 3: 1.0})
bad(TypeError, "sinks to hold numbers", sinks=[True, 0.0, 0.0, 0.0])

# Packed rows.
rows = [x.reshape(-1, x.shape[1], x.shape[-1]) for x in (q, k, v)]
packed = dict(zip("qkv", rows), layout="thd")
bad(ValueError, "cu_seqlens_q and cu_seqlens_k with layout 'thd'", **packed)
bad(ValueError, "and only with it", cu_seqlens_q=[0, 1], cu_seqlens_k=[0, 1])
bad(ValueError, "but got layout 'thd' with cu_seqlens_q alone", **packed,
    cu_seqlens_q=[0, 66])
bad(ValueError, "q of 3 dimensions, [t, h, d]", **{**packed, "q": q},
    cu_seqlens_q=[0, 66], cu_seqlens_k=[0, 94])
bad(ValueError, "'cu_seqlens_q' to start at 0", **packed,
    cu_seqlens_q=[1, 66], cu_seqlens_k=[0, 94])
bad(ValueError, "'cu_seqlens_k' not to decrease", **packed,
    cu_seqlens_q=[0, 60, 66], cu_seqlens_k=[0, 94, 20])
bad(ValueError, "between 0 and total_k", **packed,
    cu_seqlens_q=[0, 66], cu_seqlens_k=[0, 95])
bad(ValueError, "'cu_seqlens_k'", **packed,
    cu_seqlens_q=[0, 60, 66], cu_seqlens_k=[0, 94])
# A bias of fewer sequences, rows or keys than there are would be read at its end.
cu = dict(cu_seqlens_q=[0, 60, 66], cu_seqlens_k=[0, 9, 94])
for name, sizes in {"bias": (2, 4, 60, 85), "mask": (2, 1, 60, 85)}.items():
    for axis, words in ((2, "longest(cu_seqlens_q) = 60 in dimension 2"),
                        (3, "longest(cu_seqlens_k) = 85 in dimension 3")):
        less = [n - (i == axis) for i, n in enumerate(sizes)]
        given = np.ones(less, np.float32 if name == "bias" else bool)
        bad(ValueError, words, **packed, **cu, **{name: given})
three = dict(cu_seqlens_q=[0, 6, 60, 66], cu_seqlens_k=[0, 9, 50, 94])
bad(ValueError, "sequences(cu_seqlens_q) = 3 in dimension 0", **packed, **three,
    bias=np.zeros((2, 4, 66, 94), np.float32))
bad(ValueError, "sequences(cu_seqlens_q) = 3 in dimension 0", **packed, **three,
    alibi_slopes=np.zeros((2, 4), np.float32))
pools = dict(k=np.ones((5, 2, 10, 40), np.float32), v=np.ones((5, 2, 10, 24), "f4"),
             block_table=[[0, 1, 2], [3, 4, 0]])
bad(ValueError, "largest(kv_lengths) = 23 in dimension 3", **pools,
    kv_lengths=[23, 20], mask=np.ones((33, 22), bool))
bad(ValueError, "table_pages*page = 30 in dimension 3", **pools,
    mask=np.ones((33, 29), bool))
bad(ValueError, "largest(kv_lengths)+s_new = 25 in dimension 3", **pools,
    kv_lengths=[23, 20], mask=np.ones((33, 24), bool),
    k_new=np.ones((2, 2, 2, 40), np.float32), v_new=np.ones((2, 2, 2, 24), "f4"))

# The output.
out = np.zeros((2, 4, 33, 24), np.float32)
bad(ValueError, "out to be f32 of shape [2, 4, 33, 24]", out=out[:1])
bad(ValueError, "out to be f32", out=out.astype(np.float16))
bad(TypeError, "expected out to be a NumPy array", out=[0])
raw = np.zeros(out.nbytes + 1, np.uint8)[1:].view(np.float32).reshape(out.shape)
bad(ValueError, "out in aligned memory of this machine's byte order, but it is not; "
    "pass a new array", out=raw)
frozen = out.copy()
frozen.flags.writeable = False
bad(ValueError, "out to be writable", out=frozen)
bad(ValueError, "stride 1 in its last dimension",
    out=np.zeros((2, 4, 24, 33), "f4").swapaxes(2, 3))
bad(ValueError, "memory of its own", q=out, k=k[..., :24], out=out)
# Arrays where a flag, a name or a number belongs: one line, and no truth of theirs.
few = np.zeros((2, 4), np.float32)
for name in ("return_lse", "rolling", "batch_invariant", "deterministic"):
    bad(TypeError, name + " to be True or False, but got float32 of shape [2, 4]",
        **{name: few})
    bad(TypeError, name + " to be True or False, but got str 'yes'", **{name: "yes"})
bad(TypeError, "softcap to be a number, but got float32 of shape [2, 4]", softcap=few)
bad(TypeError, "dropout_p to be a number between 0 and 1, but got float32",
    dropout_p=few)
for name in ("causal", "layout", "precision", "cascade"):
    bad(ValueError, "but got float32 of shape [2, 4]", **{name: few})
bad(TypeError, "return_aux to hold names of outputs, but got 5", return_aux=5)
bad(TypeError, "return_aux to hold names of outputs, but got float32", return_aux=few)
bad(TypeError, "monoid_params to be a sequence", monoid_params=np.float32(2))
bad(TypeError, "window to be an integer of 32 bits, but got float32 of shape [4]",
    window=few)
bad(NotImplementedError, "functions of Python are not supported yet",
    monoid=lambda s: s)

# Threads and compiling.
fails(ValueError, "between 0 and", attn.set_num_threads, -1)
fails(TypeError, "an integer", attn.set_num_threads, 2.0)
fails(ValueError, "", attn.compile, "this is no IR")
fails(ValueError, "", attn.compile, "")
fails(TypeError, "MLIR text, or q, k and v", attn.compile, q)
fails(TypeError, "MLIR text, or q, k and v", attn.compile, 3)
fails(TypeError, "an option of attn.compile (scale, causal,", attn.compile, q, k, v,
      causl=1)
fails(TypeError, "but got 'causl'", attn.compile, "module {}", causl=1)
fails(ValueError, "but got a path, 'dir/f.mlir'", attn.compile, "dir/f.mlir")
fails(ValueError, "but got a path, 'f.txt'", attn.compile, pathlib.Path("f.txt"))
fails(TypeError, "nothing after the text", attn.compile, "module {}", q)
fails(ValueError, "cpu-z80", attn.compile, q, k, v, target="cpu-z80")
fails(ValueError, "phase", attn.compile, q, k, v, until_after="machine")
kernel = attn.compile(q, k, v)
fails(ValueError, "expected a phase", kernel.mlir, "machine")
fails(ValueError, "for a GPU", lambda: kernel.ptx)
fails(ValueError, "expected a phase", kernel.mlir, few)
fails(TypeError, "target to be text, but got int 5", attn.compile, q, k, v, target=5)
fails(TypeError, "inputs to hold names of arguments", attn.attention_vjp, q, k, v,
      inputs=few)
fails(AttributeError, "which is not there yet; attn.attention(", getattr, attn,
      "flash_attn_func")
assert not hasattr(attn, "flex_attention") and not hasattr(attn, "nothing")
fails(TypeError, "the inputs q: f32[b, hq, sq, 40]", kernel, q, k)
fails(TypeError, "and w", kernel, q, k, v, w=v)
fails(ValueError, "'k' of shape", kernel, q, q[:1], v)
fails(ValueError, "one of the functions", attn.compile, kernel.mlir("input"), entry="f")

# Nothing of that has left anything behind.
assert attn.attention(q, k, v).shape == (2, 4, 33, 24)
