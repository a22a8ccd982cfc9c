# RUN: %python %s 40
# RUN: %python %s 12 3 host "f32 f16 bf16" 0 walks
# RUN: %python %s 12 1 --tamper
"""Random gradients against the tape of Inputs/tape.py in float64, which is held to
finite differences itself. `gradients_random.py CASES SEED [TARGET]` draws others;
with the target cuda they run on a GPU, from tensors of torch. `gradients_random.py
CASES SEED TARGET "TYPES" FIRST "MONOIDS"` draws of these types and monoids, from that
case on; "walks" are those where the order of keys matters. With --any-order behind all
gradients may be added up in any order, and most cases are such as one kernel takes
then (docs/Gradients.md). --seconds=S ends after S seconds, and goes on behind a case
that is wrong; --each=N draws N cases of each description, and not 4, as a GPU's kernels
take seconds to assemble.

A gradient may be off by 3 e, and by two units in the last place of its largest
entry, where e is the largest error of emulations that round to the type of the
inputs after each operation. What is dead holds NaN and infinities.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import os
import re
import sys
import time

import ml_dtypes
import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
import tables
from device import PlanOnGpu
from tables import TYPES, ULPS
from tape import Tape

import attn
from attn import _gradients, _kernel

# Where the order of keys matters.
WALKS = ("stick_breaking", "alpha_compositing", "normalized")
MONOIDS = dict(tables.MONOIDS, ratio=("o", "ratio"), normalized=("o", "mass"))
MONOIDS.update((name, ("o", "remainder")) for name in WALKS[:2])
# Not shipped: a factor for each component, and a parameter.
RATIO = """attn.monoid @ratio cocycle stats(f32) components(unit, value, unit)
    params(f32)
    outputs("o", "ratio") {
  identity { ^bb0(%t: f32): %e = arith.constant 0xFF800000 : f32 attn.yield %e : f32 }
  combine { ^bb0(%a: f32, %b: f32, %t: f32): %c = arith.maximumf %a, %b : f32
      attn.yield %c : f32 }
  rescale { ^bb0(%from: f32, %to: f32, %t: f32): %d = arith.subf %from, %to : f32
    %two = arith.addf %d, %d : f32 %r = math.exp %d : f32 %r2 = math.exp %two : f32
    attn.yield %r2, %r, %r : f32, f32, f32 }
  lift { ^bb0(%s: f32, %t: f32): %one = arith.constant 1.0 : f32 %x = arith.divf %s, %t
      : f32
    attn.yield %x, %one, %one, %one : f32, f32, f32, f32 }
  finalize { ^bb0(%c: f32, %squares: f32, %acc: f32, %sum: f32, %t: f32):
    %zero = arith.constant 0.0 : f32 %empty = arith.cmpf oeq, %sum, %zero : f32
    %quot = arith.divf %acc, %sum : f32 %o = arith.select %empty, %zero, %quot : f32
    %square = arith.mulf %sum, %sum : f32 %p = arith.divf %square, %squares : f32
    %ratio = arith.select %empty, %zero, %p : f32 attn.yield %o, %ratio : f32, f32 }
}"""
# Nor this: stick breaking whose weights are divided by their sum.
NORMALIZED = """attn.monoid @normalized suffix stats(f32) components(unit, value)
    outputs("o", "mass") {
  identity { %e = arith.constant 0.0 : f32 attn.yield %e : f32 }
  combine { ^bb0(%a: f32, %b: f32): %c = arith.addf %a, %b : f32 attn.yield %c : f32 }
  gate { ^bb0(%c: f32): %g = math.exp %c : f32 attn.yield %g : f32 }
  lift { ^bb0(%s: f32): %zero = arith.constant 0.0 : f32 %one = arith.constant 1.0 : f32
    %pos = arith.maximumf %s, %zero : f32 %abs = math.absf %s : f32
    %nabs = arith.negf %abs : f32 %tail = math.exp %nabs : f32
    %log = math.log1p %tail : f32 %softplus = arith.addf %pos, %log : f32
    %c = arith.negf %softplus : f32 %neg = arith.negf %s : f32
    %e = math.exp %neg : f32 %d = arith.addf %one, %e : f32
    %w = arith.divf %one, %d : f32 attn.yield %c, %w, %w : f32, f32, f32 }
  finalize { ^bb0(%c: f32, %sum: f32, %acc: f32): %zero = arith.constant 0.0 : f32
    %empty = arith.cmpf oeq, %sum, %zero : f32 %quot = arith.divf %acc, %sum : f32
    %o = arith.select %empty, %zero, %quot : f32 attn.yield %o, %sum : f32, f32 }
}"""
OWN = {"ratio": RATIO, "normalized": NORMALIZED}
AXES = {"bhsd": (0, 1, 2, 3), "bshd": (0, 2, 1, 3), "sbhd": (2, 0, 1, 3),
        "thd": (0, 2, 1, 3)}
HEADS = ((40, 40), (64, 64), (64, 24), (96, 96), (128, 128), (192, 128), (256, 256),
         (16, 72))
ANY_ORDER = "--any-order" in sys.argv
SIZES = (1, 2, 3, 7, 15, 16, 17, 31, 33, 64, 65, 100, 129, 260)


class Kernel:
    """What a description has: drawn apart, so that cases share compiled kernels."""

    def __init__(self, rng, elements, monoids):
        self.element = str(rng.choice(elements))
        self.d, self.dv = HEADS[rng.choice(len(HEADS),
                                           p=(0.2, 0.2, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1))]
        self.monoid = str(rng.choice(monoids or ["softmax"] * 6 + list(MONOIDS)))
        self.layout = str(rng.choice(["bhsd", "bhsd", "bshd", "sbhd", "thd"]))
        chance = lambda p: bool(rng.random() < p)
        self.causal = rng.choice([None, "top_left", "bottom_right"])
        self.has = {
            "window": chance(0.25), "scale": chance(0.3), "softcap": chance(0.25),
            "lengths": chance(0.25) and self.layout != "thd", "mask": chance(0.2),
            "bias": chance(0.4), "slopes": chance(0.2), "dropout": chance(0.25),
            "sinks": chance(0.25),
        }
        if not (self.monoid.startswith("softmax") or self.monoid == "logsumexp"):
            self.has["sinks"] = False
        if self.monoid in WALKS and self.layout == "thd":
            self.layout = "bhsd"
        if self.layout == "thd":
            self.has["mask"] = False
            if self.has["bias"]:
                self.has["dropout"] = False
        if self.monoid == "logsumexp":
            self.has["dropout"] = False
        # Which dimensions of the mask and of the bias are of size 1.
        self.ones = {name: rng.random(4) < 0.4 for name in ("mask", "bias")}
        self.bias_type = self.element if chance(0.5) else "f32"
        self.slopes_of_batches, self.fortran = chance(0.3), chance(0.3)
        names = MONOIDS[self.monoid]
        self.aux = tuple(name for name in names[1:] if chance(0.6))
        self.all_inputs = chance(0.6)
        self.pick = rng.random(10) < 0.5
        if ANY_ORDER and chance(0.8):
            self.d = self.dv = int(rng.choice([64, 128]))
            self.element = str(rng.choice(["bf16", "f16"]))
            self.layout = "bshd" if self.layout == "thd" else self.layout
            self.all_inputs = True
            self.has.update(bias=False, mask=False, lengths=False)


class Case:
    def __init__(self, rng, kernel, small):
        self.rng, self.kernel = rng, kernel
        self.dtype = TYPES[kernel.element]
        sizes = SIZES[:9] if small else SIZES
        self.b = int(rng.integers(1, 4))
        self.hk, self.group = int(rng.integers(1, 3)), int(rng.choice([1, 1, 2, 3, 5]))
        self.hq = self.hk * self.group
        self.sq, self.sk = (int(rng.choice(sizes)) for _ in "qk")
        if rng.random() < 0.03:
            which = rng.choice(["b", "sq", "sk"])
            setattr(self, which, 0)
        b, sq, sk = self.b, self.sq, self.sk
        self.rows, self.keys = np.full(b, sq), np.full(b, sk)
        if kernel.layout == "thd":
            self.rows, self.keys = (rng.integers(0, n + 1, b) for n in (sq, sk))
        elif kernel.has["lengths"]:
            self.keys = rng.integers(0, sk + 1, b)
        self.scalars, self.arrays = {}, {}
        self._draw_operands()
        self._draw_mask()
        self._spoil()

    def _draw_operands(self):
        rng, kernel = self.rng, self.kernel
        b, hk, hq, sq, sk = self.b, self.hk, self.hq, self.sq, self.sk
        size = float(rng.choice([0.3, 1.0, 1.0, 2.0]))
        normal = lambda *shape: rng.standard_normal(shape)
        self.arrays["q"] = (size * normal(b, hq, sq, kernel.d)).astype(self.dtype)
        self.arrays["k"] = normal(b, hk, sk, kernel.d).astype(self.dtype)
        if kernel.monoid != "logsumexp":
            self.arrays["v"] = normal(b, hk, sk, kernel.dv).astype(self.dtype)
        if kernel.has["scale"]:
            self.scalars["scale"] = float(np.float32(rng.uniform(-0.3, 0.3)))
        if kernel.has["softcap"]:
            self.scalars["softcap"] = float(np.float32(rng.uniform(0.5, 20)))
        if kernel.monoid == "ratio":
            self.scalars["monoid_params"] = float(np.float32(rng.uniform(0.5, 2)))
        if kernel.has["bias"]:
            shape = [1 if one else n
                     for one, n in zip(kernel.ones["bias"], (b, hq, sq, sk))]
            bias = normal(*shape).astype(TYPES[kernel.bias_type])
            if rng.random() < 0.3:
                bias[rng.random(shape) < 0.2] = -np.inf
            elif kernel.monoid != "ratio" and rng.random() < 0.4:
                # A mask of numbers, as callers make them; a parameter that divides
                # them has a gradient of what is left of differences.
                least = float(ml_dtypes.finfo(bias.dtype).min)
                number = rng.choice([least, -1e4, max(-1e7, least), max(-1e9, least)])
                bias[...] = np.where(self._padding(shape), number,
                                     0 if rng.random() < 0.5 else bias)
            self.arrays["bias"] = bias
        if kernel.has["slopes"]:
            shape = (b, hq) if kernel.slopes_of_batches else (hq,)
            self.arrays["alibi_slopes"] = (rng.random(shape) * 0.2).astype("f4")
        if kernel.has["sinks"]:
            self.arrays["sinks"] = normal(hq).astype("f4")
            if rng.random() < 0.2:
                self.arrays["sinks"][0] = -np.inf
        self.p = float(rng.choice([0.1, 0.5, 0.9])) if kernel.has["dropout"] else 0.0
        self.rng_numbers = int(rng.integers(2**63)), int(rng.integers(2**40))

    def _padding(self, shape):
        """What lies before the first key of each sequence, for some of these all."""
        rng = self.rng
        first = rng.integers(0, shape[-1] + 1, shape[0])
        first[rng.random(shape[0]) < 0.15] = shape[-1]
        return np.broadcast_to(np.arange(shape[-1]) < first[:, None, None, None], shape)

    def _draw_mask(self):
        rng, kernel = self.rng, self.kernel
        b, hq, sq, sk = shape = self.b, self.hq, self.sq, self.sk
        i, j = np.arange(sq)[:, None], np.arange(sk)
        rows, keys = (x[:, None, None, None] for x in (self.rows, self.keys))
        live = (i < rows) & (j < keys)
        top = kernel.causal == "top_left"
        self.now = i + np.zeros_like(keys) if top else i + keys - rows
        # The distance of ALiBi is from the last row, whatever the causal kind.
        self.distance = np.abs(i + keys - rows - j).astype("f8")
        if kernel.causal:
            live = live & (j <= self.now)
        self.window = -1, -1
        if kernel.has["window"]:
            self.window = left, right = int(rng.integers(0, 40)), int(rng.integers(-1,
                                                                                   40))
            live = live & (self.now
                           - j <= left) & ((right < 0) | (j - self.now <= right))
        self.mask = None
        if kernel.has["mask"]:
            ones = [1 if one else n for one, n in zip(kernel.ones["mask"], shape)]
            self.mask = rng.random(ones) < rng.choice([0.1, 0.7, 0.95])
            if rng.random() < 0.25:
                self.mask = ~self._padding(ones)
            live = live & self.mask
        if "bias" in self.arrays:
            live = live & (self.arrays["bias"] != -np.inf)
        self.live = np.broadcast_to(live, shape)

    def _spoil(self):
        """NaN and infinities where nothing may look."""
        rng, live = self.rng, self.live
        bad = [np.nan, np.inf, -np.inf]
        keys = live.reshape(self.b, self.hk, self.group, self.sq, self.sk).any((2, 3))
        for name, dead in (("q", ~live.any(-1)), ("k", ~keys), ("v", ~keys)):
            if name in self.arrays:
                self.arrays[name][dead] = rng.choice(bad)
        if "bias" in self.arrays:
            bias = self.arrays["bias"]
            seen = live
            for axis, size in enumerate(bias.shape):
                if size == 1:
                    seen = seen.any(axis, keepdims=True)
            dead = ~seen & (bias != -np.inf)
            bias[dead] = rng.choice([np.nan, np.inf, -np.inf, 6e4],
                                    size=bias.shape)[dead]
            self.unread = dead

    # The reference

    def run(self, tape, arrays, scalars):
        """The leaves and the outputs of one evaluation, five dimensions each."""
        b, hk, group, sq, sk = self.b, self.hk, self.group, self.sq, self.sk
        kernel, live = self.kernel, self.live.reshape(b, hk, group, sq, sk)
        leaf = {}

        def get(name, *shape):
            leaf[name] = tape.leaf(np.asarray(arrays[name], "f8").reshape(shape))
            return leaf[name]

        def number(name, value):
            leaf[name] = tape.leaf(np.full((1,) * 5, value, "f8"))
            return leaf[name]

        q = get("q", b, hk, group, sq, kernel.d)
        k = get("k", b, hk, 1, sk, kernel.d)
        v = get("v", b, hk, 1, sk, kernel.dv) if "v" in arrays else None
        # The heads of a key head are rows of one product, as they are in kernels.
        rows, pairs = (b, hk, 1, group * sq), (b, hk, group, sq)
        dots = q.reshape(*rows, kernel.d).matmul(k, transposed=True).reshape(*pairs, sk)
        average = lambda w: w.reshape(*rows, sk).matmul(v).reshape(*pairs, kernel.dv)
        s = dots * number("scale", scalars.get("scale", kernel.d**-0.5))
        if "softcap" in scalars:
            cap = number("softcap", scalars["softcap"])
            s = (s / cap).tanh() * cap
        heads = lambda n: (hk, group) if n != 1 or self.hq == 1 else (1, 1)
        if "bias" in arrays:
            shape = np.shape(arrays["bias"])
            bias = get("bias", shape[0], *heads(shape[1]), *shape[2:])
            s = s + bias
        if "alibi_slopes" in arrays:
            shape = np.shape(arrays["alibi_slopes"])
            slopes = get("alibi_slopes", b if len(shape) == 2 else 1, hk, group, 1, 1)
            s = s - slopes * self.distance[:, :, None]
        if kernel.monoid == "ratio":
            s = s / number("monoid_params", scalars["monoid_params"])
        keep = np.ones(live.shape)
        if self.p:
            keep = self.keep.reshape(live.shape) / (1 - float(np.float32(self.p)))
        outputs = {}
        if kernel.monoid in ("sigmoid_sum", "relu_sum", "relu2_sum"):
            w = s.sigmoid() if kernel.monoid == "sigmoid_sum" else s.relu()
            w = w * w if kernel.monoid == "relu2_sum" else w
            outputs["o"] = average(w.where(live) * keep)
            return leaf, outputs
        if kernel.monoid in WALKS:
            s = s.where(live)
            nabs = s - s.relu() * 2.0
            c = (s.relu() + (nabs.exp() + 1.0).log()).where(live) * -1.0
            i, j = np.arange(sk)[:, None], np.arange(sk)
            beyond = i < j if kernel.monoid == "alpha_compositing" else i > j
            beyond = c.matmul(c._of(beyond.astype("f8")[None, None, None]))
            w = (s.sigmoid() * beyond.exp()).where(live)
            if kernel.monoid == "normalized":
                outputs["mass"] = w.sum()
                if tape.order % 2:
                    outputs["o"] = average(w * keep) / outputs["mass"]
                else:
                    outputs["o"] = average((w / outputs["mass"]) * keep)
            else:
                outputs["o"] = average(w * keep)
                outputs["remainder"] = c.sum().exp()
            return leaf, outputs
        s = s.where(live, -np.inf)
        top = m = s.maximum()
        if "sinks" in arrays:
            sink = get("sinks", 1, hk, group, 1, 1)
            # One more key, before the others.
            high = np.maximum(m.value, sink.value)
            above = sink.value >= m.value
            top = m.where(~above) + (sink + np.zeros(m.value.shape)).where(above)
            m = Const(tape, high)
        else:
            m = Const(tape, m.value)
        finite = np.where(np.isfinite(m.value), m.value, 0)
        shifted = (s.where(live) - finite).where(live)
        e = shifted.exp().where(live)
        total = e.sum()
        if "sinks" in arrays:
            good = np.isfinite(sink.value)
            extra = ((sink.where(good) - finite).exp()).where(good)
            total = total + extra
        if v is not None and tape.order % 2:  # the output as it is kept gives do . o
            outputs["o"] = average(e * keep) / total
        elif v is not None:
            outputs["o"] = average((e / total) * keep)
        log = total.log()
        outputs["lse"] = log + np.where(np.isfinite(m.value), m.value, 0)
        if kernel.monoid == "softmax_entropy":
            part = (e * shifted).sum()
            if "sinks" in arrays:
                part = part + extra * (sink.where(good) - finite).where(good)
            outputs["entropy"] = (log - part / total).where(total.value > 0)
        if kernel.monoid == "softmax_max":
            outputs["max"] = top
        if kernel.monoid == "ratio":
            outputs["ratio"] = (total * total) / (e * e).sum()
        return leaf, outputs

    def gradients(self, dtype=None, order=0, noise=None, arrays=None, scalars=None):
        tape = Tape(dtype, order, noise)
        leaf, outputs = self.run(tape, arrays or self.clean, scalars or self.scalars)
        seeds = []
        for name, cotangent in self.seeds.items():
            node = outputs[name]
            seeds.append((node, cotangent.astype("f8").reshape(node.value.shape)))
        tape.backward(seeds)
        found = {}
        for name, node in leaf.items():
            g = np.zeros(node.value.shape) if node.gradient is None else node.gradient
            found[name] = g.reshape(np.shape(self.arrays.get(name, 0.0)))
        loss = sum(np.where(g != 0, n.value, 0).ravel() @ np.ravel(g) for n, g in seeds)
        return found, loss, {name: node.value for name, node in outputs.items()}


class Const:
    """A reference point, which has no derivative."""

    def __init__(self, tape, value):
        self.value = value


def keep_of(case):
    """What dropout keeps; of packed sequences each counts from 0, too."""
    return attn.dropout_mask(case.rng_numbers, case.p, case.b, case.hq, case.sq,
                             case.sk)


def strided(rng, x):
    """The same array, laid out in another way between NaN."""
    how = rng.integers(4)
    if how == 0 or x.ndim < 2:
        return x
    if how == 1:  # every second row of a longer array
        wide = np.full(x.shape[:-2] + (2 * x.shape[-2], x.shape[-1]), np.nan, x.dtype)
        wide[..., ::2, :] = x
        return wide[..., ::2, :]
    if how == 2:  # rows that are further apart
        wide = np.full(x.shape[:-1] + (x.shape[-1] + 8,), np.nan, x.dtype)
        wide[..., : x.shape[-1]] = x
        return wide[..., : x.shape[-1]]
    axis = int(rng.integers(x.ndim - 1))  # backwards in one dimension
    return np.flip(np.ascontiguousarray(np.flip(x, axis)), axis)


def pack(case, x, counts):
    """[b, h, s, d] as [total, h, d], or [b, h, s] as [h, total]."""
    if x.ndim == 3:
        parts = [x[n, :, :count] for n, count in enumerate(counts)]
        return np.concatenate(parts, 1) if parts else np.zeros((x.shape[1], 0), x.dtype)
    parts = [x[n, :, :count].swapaxes(0, 1) for n, count in enumerate(counts)]
    empty = np.zeros((0,) + (x.shape[1], x.shape[3]), x.dtype)
    return np.concatenate([empty] + parts, 0)


def unpack(case, x, counts, size):
    """The reverse; 0 where there is no row."""
    result = np.zeros((case.b, x.shape[1], size, x.shape[2]))
    start = 0
    for n, count in enumerate(counts):
        result[n, :, :count] = x[start : start + count].swapaxes(0, 1)
        start += count
    return result


def call(case, target):
    """The plan of the call, and its operands as the caller has them."""
    rng, kernel = case.rng, case.kernel
    layout, options = kernel.layout, {}
    packed = layout == "thd"
    operands = []
    for name, counts in (("q", case.rows), ("k", case.keys), ("v", case.keys)):
        x = case.arrays.get(name)
        if x is not None:
            x = pack(case, x, counts) if packed else x.transpose(AXES[layout])
            x = strided(rng, np.ascontiguousarray(x))
        operands.append(x)
    options["monoid"] = OWN.get(kernel.monoid, kernel.monoid)
    options["layout"] = layout
    if packed:
        options["cu_seqlens_q"] = np.concatenate([[0],
                                                  np.cumsum(case.rows)]).astype("i4")
        options["cu_seqlens_k"] = np.concatenate([[0],
                                                  np.cumsum(case.keys)]).astype("i4")
    if kernel.has["lengths"]:
        options["kv_lengths"] = case.keys.astype("i4")
    if kernel.causal:
        options["causal"] = str(kernel.causal)
    if kernel.has["window"]:
        options["window"] = case.window
    if case.mask is not None:
        options["mask"] = case.mask
    for name in ("bias", "alibi_slopes", "sinks"):
        if name in case.arrays:
            options[name] = case.arrays[name]
    for name in ("scale", "softcap"):
        if name in case.scalars:
            options[name] = case.scalars[name]
    if "monoid_params" in case.scalars:
        options["monoid_params"] = (case.scalars["monoid_params"],)
    if case.p:
        options.update(dropout_p=case.p, dropout_rng=case.rng_numbers)
    aux = tuple(name for name in kernel.aux if name != "lse")
    if "lse" in kernel.aux:
        options["return_lse"] = True
    if aux:
        options["return_aux"] = aux
    options["deterministic"] = not ANY_ORDER
    names = ["q", "k", "v", "bias", "alibi_slopes", "sinks", "scale", "softcap"]
    names.append("monoid_params")
    names = [n for n in names if n in case.arrays or n in case.scalars]
    if not kernel.all_inputs:
        names = [n for n, use in zip(names, kernel.pick) if use] or ["k"]
    if target == "cuda":
        return PlanOnGpu(_gradients.Plan, *operands, inputs=names, **options)
    return _gradients.Plan(*operands, inputs=names, target=target, **options)


def draw_cotangents(case, plan):
    """For each output its cotangent in the order of the reference, and as passed."""
    rng, kernel = case.rng, case.kernel
    b, hq, sq = case.b, case.hq, case.sq
    seeds, passed = {}, {}
    # A row with a sink has an LSE.
    dead = ~case.live.any(-1)
    if "sinks" in case.arrays:
        dead = dead & (case.arrays["sinks"] == -np.inf)[:, None]
    dead = dead | (np.arange(sq) >= case.rows[:, None])[:, None]
    for name in plan.names:
        if rng.random() < 0.2:
            continue
        shape = (b, hq, sq, kernel.dv) if name == "o" else (b, hq, sq)
        dtype = case.dtype if name == "o" else np.float32
        how = rng.integers(3)
        given = np.asarray(rng.standard_normal(shape)).astype(dtype)
        if how == 0:  # an expanded number
            given = np.broadcast_to(dtype(rng.standard_normal()), shape)
        elif name == "o" and kernel.layout != "thd" and how == 1:
            given = strided(rng, given)
        seed = np.where(dead[..., None] if name == "o" else dead, 0, given.astype("f8"))
        if how == 2:
            given = given.copy()
            given[dead] = np.nan
        seeds[name] = seed
        if kernel.layout == "thd":
            given = pack(case, given, case.rows)
        elif name == "o":
            given = given.transpose(AXES[kernel.layout])
        passed[name] = given
    return seeds, passed


def differ(case):
    """Finite differences of the loss along one direction, against the tape."""
    rng = case.rng
    found, _, _ = case.gradients()
    step = 1e-6
    moves = {n: rng.standard_normal(np.shape(x)) for n, x in case.clean.items()}
    moves.update((n, rng.standard_normal()) for n in case.scalars)

    def loss(sign):
        move = lambda n, x: np.asarray(x, "f8") + sign * step * moves[n]
        arrays = {n: move(n, x) for n, x in case.clean.items()}
        scalars = {n: float(move(n, x)) for n, x in case.scalars.items()}
        return case.gradients(arrays=arrays, scalars=scalars)[1]

    want = (loss(1) - loss(-1)) / (2 * step)
    got = sum(np.sum(np.where(found[n] != 0, moves[n], 0) * found[n]) for n in moves)
    size = sum(np.abs(found[n]).sum() for n in moves)
    assert abs(got - want) <= 1e-5 * max(size, 1), ("finite differences", got, want)


def check(rng, kernel, target, differences, small):
    case = Case(rng, kernel, small)
    what = dict(vars(kernel), sizes=(case.b, case.hq, case.hk, case.sq, case.sk),
                p=case.p)
    # What nobody reads is 0 in the reference.
    case.clean = {n: np.nan_to_num(x.astype("f8"), nan=0, posinf=0, neginf=0)
                  for n, x in case.arrays.items()}
    for name, seen in (("q", case.live.any(-1)),):
        case.clean[name] = np.where(seen[..., None], case.clean[name], 0)
    if "bias" in case.clean:
        case.clean["bias"] = np.where(case.unread, 0, case.clean["bias"])
    if "sinks" in case.arrays:
        case.clean["sinks"] = case.arrays["sinks"].astype("f8")
    if case.p:
        case.keep = keep_of(case)
    plan = call(case, target)
    case.seeds, passed = draw_cotangents(case, plan)
    results, state = plan.forward()
    found = plan.backward(results, state, passed)
    again = plan.backward(results, state, passed)
    with np.errstate(all="ignore"):
        exact, _, outputs = case.gradients()
        # A step is lost in a number that is large.
        is_large = np.abs(case.clean.get("bias", 0)).max(initial=0) > 100
        if differences and not is_large and kernel.monoid not in ("relu_sum",
                                                                 "softmax_max"):
            differ(case)
        # The types, and float32 of what is in that type.
        tries = [(TYPES[kernel.element], n) for n in range(3)]
        tries.append((np.float32, 1, rng))
        emulated = [case.gradients(*one)[0] for one in tries]
    worst = 0.0
    for name, got in found.items():
        assert ANY_ORDER or got.tobytes() == again[name].tobytes(), (what, name, "bits")
        got, want = np.asarray(got).astype("f8"), exact[name]
        got = got[0] if name == "monoid_params" else got
        if name in "qkv":
            if kernel.layout == "thd":
                counts, size = (case.rows, case.sq) if name == "q" else (case.keys,
                                                                         case.sk)
                got = unpack(case, got, counts, size)
            else:
                got = got.transpose(np.argsort(AXES[kernel.layout]))
        assert got.shape == want.shape, (what, name, got.shape, want.shape)
        error = np.abs(got - want).max(initial=0)
        element = kernel.element if name in "qkv" else "f32"
        if name == "bias":
            element = kernel.bias_type

        def bound_of(emulated):
            e = [np.abs(x[name] - want).max(initial=0) for x in emulated]
            e = max((x for x in e if np.isfinite(x)), default=0)
            return 3 * e + 2 * ULPS[element] * np.abs(want).max(initial=0) + 1e-37

        bound = bound_of(emulated)
        if not error <= bound:  # what four have missed eight more may show
            with np.errstate(all="ignore"):
                more = [case.gradients(case.dtype, n, rng)[0] for n in range(8)]
            bound = bound_of(emulated + more)
        worst = max(worst, error / bound)
        if not error <= bound:
            raise Wrong("%s: off by %.3g, bound %.3g, largest %.3g in %s" % (
                name, error, bound, np.abs(want).max(initial=0), what))
    return worst


class Wrong(AssertionError):
    pass


def tamper(number):
    """Spoils the n-th program: a sum where a product was, a maximum for a minimum, the
    sign of a difference, a constant."""
    changes = (("arith.mulf", "arith.addf"), ("arith.subf", "arith.addf"),
               ("arith.cmpf une", "arith.cmpf oeq"),
               ("arith.cmpi eq", "arith.cmpi sle"),
               ("arith.addf", "arith.subf"))
    compile_text = _kernel.compile_text

    def spoiled(text, *args, **options):
        if "@attention_backward" not in text:
            return compile_text(text, *args, **options)
        start = text.index("@attention_backward")
        places = [(m.start(), old, new) for old, new in changes
                  for m in re.finditer(re.escape(old), text) if m.start() > start]
        at, old, new = places[number % len(places)]
        return compile_text(text[:at] + new + text[at + len(old):], *args, **options)

    return compile_text, spoiled


def main(cases=40, seed=1, target=None, elements="f32 f32 f16 bf16", first=0,
         monoids="", seconds=None, each=4):
    worst, start, per_kernel = 0.0, time.time(), int(each)
    until = start + float(seconds) if seconds else None
    is_tampered = target == "--tamper"
    target = None if is_tampered or target == "host" else target
    small = bool(target and target.startswith("emulator"))
    found = wrong = done = 0
    for number in range(int(first), int(first) + int(cases)):
        if until and time.time() > until:
            break
        done += 1
        kernel = Kernel(np.random.default_rng([int(seed), number // per_kernel]),
                        elements.split(),
                        WALKS if monoids == "walks" else monoids.split())
        rng = np.random.default_rng([int(seed), number, 7])
        try:
            if is_tampered:
                plain, _kernel.compile_text = tamper(number * 7)
                _gradients.clear()
            worst = max(worst, check(rng, kernel, target, number % 5 == 0, small))
        except Exception as error:
            if is_tampered:
                found += 1
                continue
            print("case %d of seed %s" % (number, seed), file=sys.stderr)
            if until is None:
                raise
            wrong += 1
            print(repr(error)[:1000], file=sys.stderr, flush=True)
        finally:
            if is_tampered:
                _kernel.compile_text = plain
    if is_tampered:
        print("%d of %s spoiled programs were found" % (found, cases))
        assert found >= int(cases) // 2
        return
    print("%d cases, %d wrong, the worst of others %.2f of its bound, %.1f s"
          % (done, wrong, worst, time.time() - start))
    assert not wrong


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word != "--any-order"]
    named = [word for word in words if "=" in word and word.startswith("--")]
    main(*[word for word in words if word not in named],
         **dict(word[2:].split("=") for word in named))
