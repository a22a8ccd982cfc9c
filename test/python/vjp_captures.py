# RUN: %python %s
"""Gradients of what attention captures: elements at positions and at computed indices,
numbers, parameters of monoids, biases of packed sequences; against differences in
float64, and the same bits each time.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
from reference import fails

import attn

rng = np.random.default_rng(3)
B, HQ, HK, SQ, SK, D = 2, 4, 2, 37, 150, 16


def normal(*shape):
    return rng.standard_normal(shape).astype("f4")


def softmax(s):
    p = np.exp(s - s.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True)


def grouped(x):
    return x.repeat(HQ // HK, 1)


def differ(name, function, operands, found, bound=2e-5):
    """Each gradient along a direction of its own."""
    exact = {n: np.asarray(x, "f8") for n, x in operands.items()}
    for n, got in found.items():
        got = np.asarray(got, "f8")
        assert got.shape == exact[n].shape, (name, n, got.shape)
        step = 1e-6 * rng.standard_normal(exact[n].shape)
        ahead, behind = ({**exact, n: exact[n] + sign * step} for sign in (1, -1))
        want = (function(**ahead) - function(**behind)) / 2
        size = np.abs(got * step).sum()
        assert abs((got * step).sum() - want) <= bound * max(size, 1e-6), (name, n)


POSITION = """  %HI = arith.index_cast %h : i32 to index
  %II = arith.index_cast %i : i32 to index
  %JI = arith.index_cast %j : i32 to index
  %BI = arith.index_cast %b : i32 to index
"""

EVERY = (
    """
^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32, %rel: tensor<?x?xf32>,
    %rows: tensor<?x?xf32>,
     %keys: tensor<?xf32>, %full: tensor<?x?x?xf32>, %c: f32, %ends: tensor<2xf32>,
     %diagonal: tensor<?x?xf32>):
  %far0 = arith.subi %i, %j : i32
  %off = arith.constant 20 : i32
  %far = arith.addi %far0, %off : i32
  %at = arith.index_cast %far : i32 to index
"""
    + POSITION
    + """
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %e = tensor.extract %rel[%HI, %at] : tensor<?x?xf32>
  %r = tensor.extract %rows[%HI, %II] : tensor<?x?xf32>
  %kk = tensor.extract %keys[%JI] : tensor<?xf32>
  %f = tensor.extract %full[%HI, %II, %JI] : tensor<?x?x?xf32>
  %low = tensor.extract %ends[%zero] : tensor<2xf32>
  %high = tensor.extract %ends[%one] : tensor<2xf32>
  %d = tensor.extract %diagonal[%II, %II] : tensor<?x?xf32>
  %x = arith.addf %s, %e : f32
  %y = arith.mulf %r, %kk : f32
  %z = arith.addf %x, %y : f32
  %w = arith.mulf %z, %c : f32
  %u0 = arith.addf %w, %f : f32
  %l = arith.mulf %low, %kk : f32
  %t = math.tanh %u0 : f32
  %g = arith.mulf %high, %t : f32
  %u1 = arith.addf %u0, %l : f32
  %u2 = arith.addf %u1, %g : f32
  %dk = arith.mulf %d, %kk : f32
  %u = arith.addf %u2, %dk : f32
  attn.yield %u : f32
"""
)


def every_place():
    captures = {
        "rel": normal(HQ, 50), "rows": normal(HQ, SQ), "keys": normal(SK),
        "full": normal(HQ, SQ, SK), "c": 0.7, "ends": normal(2),
        "diagonal": normal(40, 40),
    }
    q, k, v = normal(B, HQ, SQ, D), normal(B, HK, SK, D), normal(B, HK, SK, D)
    # What is one number need not be named.
    o, vjp = attn.attention_vjp(
        q, k, v, score_mod=EVERY, captures=captures, causal="bottom_right",
        inputs=["q", "k", "v", *captures],
    )
    do = normal(*o.shape)
    found = vjp(do)
    i, j = np.arange(SQ)[:, None], np.arange(SK)

    def loss(q, k, v, rel, rows, keys, full, c, ends, diagonal):
        s = q @ grouped(k).swapaxes(-1, -2) / 4
        s = (s
             + rel[:, np.clip(i - j + 20, 0, 49)] + rows[:, :, None] * keys) * c + full
        s = s + ends[0] * keys + ends[1] * np.tanh(s) + diagonal[i, i] * keys
        s = np.where(j <= i + SK - SQ, s, -np.inf)
        return ((softmax(s) @ grouped(v)) * do).sum()

    operands = dict(q=q, k=k, v=v, **captures)
    differ("every place", loss, operands, found)
    for n in range(3):
        again = vjp(do)
        assert all(np.asarray(again[x]).tobytes() == np.asarray(found[x]).tobytes()
                   for x in found)
    _, vjp = attn.attention_vjp(q, k, v, score_mod=EVERY, captures=captures)
    assert list(vjp.plan.inputs) == ["q", "k", "v", "rel", "rows", "keys", "full",
                                     "ends", "diagonal"]
    # Of what no score depends on the gradient is 0.
    text = """^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32, %t: tensor<?xf32>,
        %c: f32):
      %none = arith.mulf %c, %c : f32
      attn.yield %s : f32"""
    _, vjp = attn.attention_vjp(q, k, v, score_mod=text, inputs=["t", "c"],
                                captures={"t": normal(3), "c": 2.0})
    assert all(not np.any(x) for x in vjp(do).values())


BUCKETS = (
    """
^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32, %table: tensor<?x?xf32>,
    %bucket: tensor<?xi32>):
"""
    + POSITION
    + """
  %far = arith.subi %j, %i : i32
  %off = arith.constant 40 : i32
  %place = arith.addi %far, %off : i32
  %at = arith.index_cast %place : i32 to index
  %n = tensor.extract %bucket[%at] : tensor<?xi32>
  %ni = arith.index_cast %n : i32 to index
  %e = tensor.extract %table[%ni, %HI] : tensor<?x?xf32>
  %x = arith.addf %s, %e : f32
  attn.yield %x : f32
"""
)


def buckets():
    """Relative positions of T5: a table of buckets by heads, on every target; also of
    rows that leave no room for a tile of diagonals."""
    from attn import _gradients

    sq, sk = 33, 40
    bucket = np.minimum(np.abs(np.arange(-40, 80)), 31).astype("i4")
    table = normal(32, HQ)
    i, j = np.arange(sq)[:, None], np.arange(sk)
    for target, element, d in ((None, "f4", D), (None, "f2", D),
                               ("emulator:sm_80", "f2", D),
                               ("emulator:sm_90a", "f2", D),
                               ("emulator:sm_80", "f4", 200),
                               ("emulator:sm_90a", "f4", 256)):
        q, k, v = (normal(1, h, s, d).astype(element)
                   for h, s in ((HQ, sq), (HK, sk), (HK, sk)))
        plan = _gradients.Plan(
            q, k, v, score_mod=BUCKETS, captures={"table": table, "bucket": bucket},
            inputs=["table"], target=target,
            precision="tf32" if d == D else "ieee",
        )
        do = normal(1, HQ, sq, d).astype(element)
        found = plan.backward(*plan.forward(), [do])

        def loss(table):
            s = q.astype("f8") @ grouped(k.astype("f8")).swapaxes(-1, -2) / d**0.5
            s = s + table[np.minimum(np.abs(j - i), 31)].transpose(2, 0, 1)
            return ((softmax(s) @ grouped(v.astype("f8"))) * do).sum()

        differ((target, element, d), loss, {"table": table}, found,
               2e-5 if element == "f4" else 5e-3)


TEMPERED = """attn.monoid @tempered cocycle stats(f32) components(value, unit)
    params(f32, f32)
    outputs("o", "total") {
  identity { ^bb0(%t: f32, %u: f32): %e = arith.constant 0xFF800000 : f32 attn.yield %e
      : f32 }
  combine { ^bb0(%a: f32, %b: f32, %t: f32, %u: f32):
    %c = arith.maximumf %a, %b : f32 attn.yield %c : f32 }
  rescale { ^bb0(%from: f32, %to: f32, %t: f32, %u: f32):
    %d = arith.subf %from, %to : f32 %r = math.exp %d : f32 attn.yield %r : f32 }
  lift { ^bb0(%s: f32, %t: f32, %u: f32): %one = arith.constant 1.0 : f32
    %x = arith.divf %s, %t : f32 attn.yield %x, %one, %one : f32, f32, f32 }
  finalize { ^bb0(%c: f32, %acc: f32, %sum: f32, %t: f32, %u: f32):
    %zero = arith.constant 0.0 : f32 %empty = arith.cmpf oeq, %sum, %zero : f32
    %quot = arith.divf %acc, %sum : f32 %q = arith.select %empty, %zero, %quot : f32
    %o = arith.mulf %q, %u : f32
    %log = math.log %sum : f32 %z = arith.addf %c, %log : f32 %n = arith.mulf %z, %u
        : f32
    attn.yield %o, %n : f32, f32 }
}"""


def params():
    """A parameter of every region, of rows without a key too."""
    q, k, v = normal(B, HQ, SQ, D), normal(B, HK, SK, D), normal(B, HK, SK, D)
    mask = rng.random((SQ, SK)) < 0.5
    mask[3] = False
    (o, aux), vjp = attn.attention_vjp(
        q, k, v, monoid=TEMPERED, monoid_params=(1.5, 0.7), return_aux="total",
        mask=mask,
        inputs=["q", "monoid_params"],
    )
    do, dtotal = normal(*o.shape), normal(B, HQ, SQ)
    found = vjp(do, dtotal=dtotal)
    rows = np.arange(SQ) != 3

    def loss(q, monoid_params):
        s = q @ grouped(k.astype("f8")).swapaxes(-1, -2) / 4 / monoid_params[0]
        e = np.exp(s) * mask
        z = e.sum(-1, keepdims=True)
        o = (e / np.where(z, z, 1)) @ grouped(v.astype("f8")) * monoid_params[1]
        total = np.log(np.where(z, z, 1))[..., 0] * monoid_params[1]
        return (o * do)[:, :, rows].sum() + (total * dtotal)[:, :, rows].sum()

    differ("params", loss, {"q": q, "monoid_params": np.float32([1.5, 0.7])}, found)
    assert found["monoid_params"].dtype == np.float32
    do[:, :, 3] = np.nan
    assert np.isfinite(vjp(do)["monoid_params"]).all()


def packed_bias():
    """As each sequence by itself."""
    rows, keys = [5, 0, 70, 33], [7, 4, 140, 0]
    cq, ck = (np.cumsum([0] + n).astype("i4") for n in (rows, keys))
    q = normal(cq[-1], HQ, D)
    k, v = normal(ck[-1], HK, D), normal(ck[-1], HK, D)
    do = normal(*q.shape)
    for shape in ((4, HQ, 70, 140), (1, 1, 70, 1), (4, 1, 1, 140)):
        bias = normal(*shape)
        whole = bias.reshape((1,) * (4 - bias.ndim) + bias.shape)
        options = {"causal": "bottom_right", "softcap": 5.0, "inputs": ["bias"]}
        o, vjp = attn.attention_vjp(
            q, k, v, layout="thd", cu_seqlens_q=cq, cu_seqlens_k=ck, bias=bias,
            **options
        )
        found = vjp(do)
        want = np.zeros(whole.shape)
        for n in range(4):
            i, j = slice(cq[n], cq[n + 1]), slice(ck[n], ck[n + 1])
            at = n if whole.shape[0] > 1 else 0
            place = [slice(at, at + 1), slice(None)]
            place += [slice(None) if one == 1 else slice(0, m)
                      for one, m in zip(whole.shape[2:], (rows[n], keys[n]))]
            one, single = attn.attention_vjp(
                q[None, i], k[None, j], v[None, j], layout="bshd",
                bias=whole[tuple(place)], **options
            )
            want[tuple(place)] += single(do[None, i])["bias"]
        got = found["bias"]
        assert got.shape == bias.shape and got.dtype == bias.dtype
        error = np.abs(got.reshape(want.shape) - want).max()
        assert error <= 1e-5 * max(np.abs(want).max(), 1), (shape, error)
    # Functions read the number of the sequence, and masks have pairs of all.
    bias = normal(4, 1, 70, 140)
    live = np.ones((4, 1, 70, 140), bool)
    live[1::2, ..., 1::2] = live[::2, ..., ::2] = False
    parity = """^bb0(%n: i32, %h: i32, %i: i32, %j: i32, %even: i32):
      %sum = arith.addi %n, %j : i32
      %last = arith.andi %sum, %even : i32
      %live = arith.cmpi ne, %last, %even : i32
      attn.yield %live : i1"""
    wanted = None
    for of_mask in ({"mask": ~live}, {"mask": parity, "captures": {"even": 1}}):
        found = attn.attention_vjp(
            q, k, v, layout="thd", cu_seqlens_q=cq, cu_seqlens_k=ck, bias=bias,
            inputs=["bias"], **of_mask
        )[1](do)["bias"]
        wanted = found if wanted is None else wanted
        assert np.abs(found[0]).max() > 0.01
        assert np.abs(found - wanted).max() <= 1e-6, np.abs(found - wanted).max()
        assert not found[live].any()
    fails(NotImplementedError, "no dropout where a bias", attn.attention_vjp, q, k, v,
          layout="thd", cu_seqlens_q=cq, cu_seqlens_k=ck, bias=normal(70, 140),
          dropout_p=0.5,
          dropout_rng=(1, 2))
    rows_of = normal(HQ, 70)
    text = """^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32, %t: tensor<?x?xf32>):
""" + POSITION + """
      %e = tensor.extract %t[%HI, %II] : tensor<?x?xf32>
      %x = arith.mulf %s, %e : f32
      attn.yield %x : f32"""
    options = {"score_mod": text, "captures": {"t": rows_of}}
    found = attn.attention_vjp(q, k, v, layout="thd", cu_seqlens_q=cq, cu_seqlens_k=ck,
                               **options)[1](do)
    want = 0
    for n in (0, 2):
        i, j = slice(cq[n], cq[n + 1]), slice(ck[n], ck[n + 1])
        single = attn.attention_vjp(q[None, i], k[None, j], v[None, j], layout="bshd",
                                    **options)[1]
        want = want + single(do[None, i])["t"]
    assert np.abs(found["t"] - want).max() <= 1e-5 * np.abs(want).max()


def masks():
    """Functions of masks, and lists of blocks."""
    q, k, v = normal(1, 2, 64, D), normal(1, 2, 64, D), normal(1, 2, 64, D)
    mask = """^bb0(%b: i32, %h: i32, %i: i32, %j: i32, %width: i32):
      %far = arith.subi %i, %j : i32
      %near = arith.cmpi sle, %far, %width : i32
      attn.yield %near : i1"""
    do = normal(1, 2, 64, D)
    far = np.arange(64)[:, None] - np.arange(64)
    blocks = attn.BlockMask.from_kv_blocks([[[1, 2]]], [[[[0, 0], [1, 0]]]],
                                           BLOCK_SIZE=32)
    whole = np.kron([[1, 0], [1, 1]], np.ones((32, 32))).astype(bool)
    for options, live in (({"mask_mod": mask, "captures": {"width": 9}}, far <= 9),
                          ({"block_mask": blocks}, whole)):
        found = attn.attention_vjp(q, k, v, **options)[1](do)
        want = attn.attention_vjp(q, k, v, mask=live)[1](do)
        for name in want:
            assert np.abs(found[name] - want[name]).max() <= 1e-5, name


def same_bits():
    """A thousand times, whatever else the threads have done."""
    q, k, v = normal(1, 4, 48, D), normal(1, 2, 48, D), normal(1, 2, 48, D)
    do, bias = normal(1, 4, 48, D), normal(1, 1, 48, 48)
    _, vjp = attn.attention_vjp(q, k, v, causal="top_left", bias=bias)
    want = {name: x.tobytes() for name, x in vjp(do).items()}
    for _ in range(1000):
        assert all(x.tobytes() == want[name] for name, x in vjp(do).items())


def errors():
    q, k, v = normal(1, 2, 5, D), normal(1, 2, 7, D), normal(1, 2, 7, D)
    vjp = attn.attention_vjp
    fails(ValueError, "of q, k, v, t, but got 'u'", vjp, q, k, v, score_mod=BUCKETS,
          captures={"t": normal(3)}, inputs=["u"])
    fails(ValueError, "captures to hold 'bucket'", vjp, q, k, v, score_mod=BUCKETS,
          captures={"table": normal(3, 2)})
    text = """^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32, %t: tensor<?x?xf32>):
""" + POSITION + """
      %e = tensor.extract %t[%II, %JI] : tensor<?x?xf32>
      %x = arith.mulf %s, %e : f32
      attn.yield %x : f32"""
    rows, offsets = normal(5, 2, D), [0, 5]
    fails(ValueError, "sequences that are not packed", vjp, rows, rows, rows,
          layout="thd",
          cu_seqlens_q=offsets, cu_seqlens_k=offsets, score_mod=text,
          captures={"t": normal(5, 5)})
    for inputs in (None, ["monoid_params"]):
        fails(ValueError, "as many monoid_params as the monoid takes, but got 1", vjp,
              q, k, v,
              monoid_params=(1.0,), inputs=inputs)
    fails(ValueError, "inputs to name arguments that are given", vjp, q, k, v,
          inputs=["monoid_params"])


every_place()
buckets()
params()
packed_bias()
masks()
same_bits()
errors()
