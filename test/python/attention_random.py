# RUN: %python %s 60
# RUN: %python %s 6 2 emulator:sm_90a
# RUN: %python %s 6 3 emulator:sm_80
"""Random calls of attn.attention against float64, as users make them: views of larger
arrays, caches whose unused rows are NaN, masks of finfo.min, layouts, options beside
each other. `attention_random.py CASES SEED TARGET` draws others; with the target cuda
from tensors of torch on a GPU. attn-fuzz draws programs; here it is the package's own
checks, views and plans that are drawn with them.

A case is drawn as dense rows with lengths, and the float64 result made of these; then
the rows are laid out as a form of the call wants them.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import os
import sys

import ml_dtypes
import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
import random_cases
from device import to_gpu, to_host

import attn
from attn import _call

TARGET = sys.argv[3] if len(sys.argv) > 3 else "host"
TYPES = (np.float32, np.float16, ml_dtypes.bfloat16)
# What rounding to the type of the inputs may cost, of the largest value.
STEPS = (4e-6, 6e-3, 5e-2)
AXES = {"bhsd": (0, 1, 2, 3), "bshd": (0, 2, 1, 3), "sbhd": (2, 0, 1, 3)}
FORMS = ("dense", "dense", "start", "paged", "packed", "append", "rolling")
# A bias by the distance, from a table of each head, and keys by a number of theirs.
NEAR, NUMBERS = 8, 10
SCORE = """
^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32, %table: tensor<?x17xf32>):
  %near = arith.constant 8 : i32
  %far = arith.constant -8 : i32
  %apart = arith.subi %j, %i : i32
  %above = arith.maxsi %apart, %far : i32
  %clipped = arith.minsi %above, %near : i32
  %place = arith.addi %clipped, %near : i32
  %n = arith.index_cast %place : i32 to index
  %head = arith.index_cast %h : i32 to index
  %bias = tensor.extract %table[%head, %n] : tensor<?x17xf32>
  %x = arith.addf %s, %bias : f32
  attn.yield %x : f32
"""
MASK = """
^bb0(%b: i32, %h: i32, %i: i32, %j: i32, %number: tensor<?xi32>, %divisor: i32):
  %zero = arith.constant 0 : i32
  %key = arith.index_cast %j : i32 to index
  %n = tensor.extract %number[%key] : tensor<?xi32>
  %sum = arith.addi %n, %i : i32
  %rest = arith.remsi %sum, %divisor : i32
  %live = arith.cmpi ne, %rest, %zero : i32
  attn.yield %live : i1
"""
FEW = (0, 1, 1, 2, 3, 5, 16, 17, 33, 64, 70, 129, 200)
MANY = (0, 1, 2, 3, 15, 16, 31, 64, 65, 100, 128, 130, 257, 300)


def run_on_emulator():
    """Calls of arrays of the host run what is compiled for TARGET."""

    def run(call, inputs, outputs):
        call.compile(target=TARGET).run(inputs, outputs)

    _call.Call._run = run


class Case:
    def __init__(self, seed, number):
        self.rng = np.random.default_rng((seed, number))
        self.options, self.layout = {}, "bhsd"
        self.captures, self.keep = {}, 1.0
        self.draw_rows()
        self.draw_lengths()
        self.draw_scores()
        self.draw_masks()
        self.make_expected()

    def chance(self, p):
        return self.rng.random() < p

    def pick(self, *choices):
        return choices[self.rng.integers(len(choices))]

    # ---- What is drawn ----

    def draw_rows(self):
        self.form = self.pick(*FORMS)
        self.type = int(self.rng.integers(3))
        self.b, self.hk = int(self.rng.integers(1, 4)), int(self.rng.integers(1, 4))
        self.group = self.pick(1, 1, 2, 3, 4, 7, 8)
        self.d = self.pick(8, 16, 32, 40, 64, 72, 80, 96, 128, 192, 256)
        self.dv = self.d if self.chance(0.7) else self.pick(8, 16, 24, 64, 128, 200)
        self.sq, self.sk = self.pick(*FEW), self.pick(*MANY)
        if TARGET.startswith("emulator"):
            self.b, self.sq, self.sk = 1, min(self.sq, 40), min(self.sk, 130)
        size = self.pick(1.0, 1.0, 4.0, 0.01)
        self.q = self.draw(self.group * self.hk, self.sq, self.d, size)
        self.k = self.draw(self.hk, self.sk, self.d, size)
        self.v = self.draw(self.hk, self.sk, self.dv, 1.0)
        # Values that are columns of the keys.
        self.within = (self.form in ("dense", "start", "paged") and self.chance(0.15)
                       and self.dv <= self.d)
        if self.within:
            self.v = self.k[..., :self.dv]

    def draw(self, heads, rows, channels, size):
        shape = (self.b, heads, rows, channels)
        return (self.rng.standard_normal(shape) * size).astype(TYPES[self.type])

    def draw_lengths(self):
        """Of keys, those of an append included, of queries, and the first position."""
        self.lengths = np.full(self.b, self.sk)
        self.rows = np.full(self.b, self.sq)
        self.start = np.zeros(self.b, int)
        if self.form not in ("dense", "start") or self.chance(0.4):
            self.lengths = self.rng.integers(0, self.sk + 1, self.b)
        if self.form == "packed":
            self.rows = self.rng.integers(0, self.sq + 1, self.b)
        if self.form in ("start", "rolling"):
            self.start = self.rng.integers(0, 1000, self.b)
        if self.form == "append":
            self.new = int(min(self.lengths.min(), self.rng.integers(0, 4)))

    def draw_scores(self):
        """s, of each pair of a row and a key, and the largest dot."""
        options = self.options
        if self.chance(0.3):
            options["scale"] = self.pick(0.0, -0.5, 1.0, 1e-3, 30.0, 1e-30)
        k = np.repeat(self.k.astype(float), self.group, 1)
        dots = np.einsum("bhqd,bhkd->bhqk", self.q.astype(float), k)
        s = dots * options.get("scale", self.d**-0.5)
        self.largest = np.abs(s).max(initial=0)
        if self.chance(0.2):
            cap = options["softcap"] = self.pick(1.0, 20.0, 50.0, np.inf)
            s = cap * np.tanh(s / cap) if np.isfinite(cap) else s
        if self.chance(0.25):
            s = s + self.draw_function(s.shape[1])
        if self.form != "rolling" and self.chance(0.3):
            options["bias"] = self.draw_bias(s.shape)
            s = s + options["bias"].astype(float)
        if self.chance(0.2):
            heads = s.shape[1]
            slopes = self.rng.random(self.pick((heads,), (self.b, heads))).astype("f4")
            options["alibi_slopes"] = slopes
            apart = np.abs(self.diagonal() - np.arange(self.sk))
            s = s - slopes.reshape(-1, heads, 1, 1) * apart
            self.largest += apart.max(initial=0)
        # Beside finfo.min the rest of a score is lost.
        self.s = np.where(np.abs(s) > 5e4, s.astype("f4").astype(float), s)

    def positions(self):
        """Of rows [sq, 1] and of keys [b, 1, 1, sk], as functions see them."""
        keys = np.arange(self.sk) + self.start.reshape(-1, 1, 1, 1)
        return np.arange(self.sq)[:, None], keys

    def draw_function(self, heads):
        """What it adds to each score."""
        table = self.rng.standard_normal((heads, 2 * NEAR + 1)).astype("f4")
        self.captures["table"], self.options["score_mod"] = table, SCORE
        rows, keys = self.positions()
        places = np.clip(keys - rows, -NEAR, NEAR) + NEAR
        return np.moveaxis(table.astype(float)[:, places[:, 0]], 0, 1)

    def draw_mask_function(self):
        number = self.rng.integers(0, NUMBERS, 1400).astype("i4")
        divisor = self.pick(2, 3, 7)
        self.captures.update(number=number, divisor=divisor)
        self.options["mask_mod"] = MASK
        rows, keys = self.positions()
        return (number[keys] + rows) % divisor != 0

    def draw_dropout(self, heads):
        p = self.pick(0.125, 0.5)
        rng = tuple(int(x) for x in self.rng.integers(0, 2**63, 2))
        self.options.update(dropout_p=p, dropout_rng=rng)
        kept = attn.dropout_mask(rng, p, self.b, heads, self.sq, self.sk)
        self.keep = kept / (1 - p)

    def draw_bias(self, shape):
        shape = self.draw_shape(shape)
        kind = self.pick(TYPES[self.type], np.float32)
        lowest = float(ml_dtypes.finfo(kind).min)
        low = self.pick(lowest, max(lowest, -1e10), -np.inf)
        what = self.pick("normal", "scattered", "padding", "all")
        if what == "normal":
            bias = self.rng.standard_normal(shape)
        elif what == "padding":
            bias = np.zeros(shape)
            bias[..., :int(self.rng.integers(0, shape[-1] + 1))] = low
        else:
            bias = np.where(self.rng.random(shape) < (0.5, 1)[what == "all"], low, 0.0)
        return bias.astype(kind)

    def draw_shape(self, shape):
        return tuple(self.pick(1, n) for n in shape)

    def diagonal(self, is_first=False):
        """[b, 1, sq, 1], the key on the diagonal of each row."""
        i = np.arange(self.sq)[:, None]
        if is_first:
            return i - self.start.reshape(-1, 1, 1, 1)
        return i + (self.lengths - self.rows).reshape(-1, 1, 1, 1)

    def draw_masks(self):
        options, j = self.options, np.arange(self.sk)
        live = np.isfinite(self.s) & (j < self.lengths.reshape(-1, 1, 1, 1))
        live &= np.arange(self.sq)[:, None] < self.rows.reshape(-1, 1, 1, 1)
        if self.form != "rolling" and self.chance(0.3):
            share = self.pick(0.0, 0.1, 0.9, 1.0)
            mask = self.rng.random(self.draw_shape(live.shape)) < share
            if self.chance(0.3):
                mask[...] = np.arange(mask.shape[-1]) >= self.rng.integers(0, 60)
            options["mask"], live = mask, live & mask
        causal = options["causal"] = self.pick(None, "top_left", "bottom_right")
        diagonal = self.diagonal(causal == "top_left")
        if causal:
            live &= j <= diagonal
        if self.chance(0.3):
            left, right = self.pick(-1, 0, 3, 40), self.pick(-1, 0, 9)
            options["window"] = left, right
            live &= (left < 0) | (j >= diagonal - left)
            live &= (right < 0) | (j <= diagonal + right)
        if self.chance(0.2):
            options["sinks"] = self.draw_sinks(live.shape[1])
        if self.chance(0.25):
            live &= self.draw_mask_function()
        if self.chance(0.15):
            self.draw_dropout(live.shape[1])
        if self.captures:
            options["captures"] = self.captures
        self.live = live
        options["return_lse"] = True
        if self.form not in ("append", "rolling"):
            options["batch_invariant"] = self.chance(0.1)

    def draw_sinks(self, heads):
        return (3 * self.rng.standard_normal(heads)).astype("f4")

    def make_expected(self):
        s = np.where(self.live, self.s, -np.inf)
        sinks = self.options.get("sinks", np.full(s.shape[1], -np.inf))[:, None]
        top = np.maximum(s.max(-1, initial=-np.inf), sinks)
        top = np.where(np.isfinite(top), top, 0.0)
        weights = np.exp(s - top[..., None])
        total = weights.sum(-1) + np.exp(sinks - top)
        some = np.where(total > 0, total, 1.0)
        v = np.repeat(self.v.astype(float), self.group, 1)
        self.o = np.einsum("bhqk,bhkd->bhqd", weights * self.keep, v) / some[..., None]
        self.lse = np.where(total > 0, np.log(some) + top, -np.inf)

    # ---- How it is called ----

    def view(self, x):
        """The rows of x, in a larger array of NaN or another order in memory."""
        what = self.rng.integers(5)
        b, h, s, d = x.shape
        if what == 0:
            return x
        if what == 1:
            return np.array(x.transpose(0, 2, 1, 3), order="C").transpose(0, 2, 1, 3)
        shape, place = (
            ((b, h, s, d + 24), np.s_[..., :d]),
            ((b, h, s + 7, d), np.s_[:, :, 3:3 + s]),
            ((b, 2 * h, s, d), np.s_[:, ::2]),
        )[what - 2]
        around = np.full(shape, np.nan, x.dtype)
        around[place] = x
        return around[place]

    def cache(self, x, lengths):
        """x with NaN behind the rows of each sequence."""
        live = np.arange(x.shape[2])[:, None] < lengths.reshape(-1, 1, 1, 1)
        return np.where(live, x, np.array(np.nan, x.dtype))

    def operands(self):
        """q, k and v of the call; what goes with them to the options."""
        options, lengths = self.options, self.lengths.astype("i4")
        if self.form == "packed":
            return self.packed()
        if self.form == "paged":
            options["kv_lengths"] = lengths
            return self.paged()
        if self.form == "rolling":
            options.update(kv_lengths=lengths, rolling=True)
            options["k_start"] = self.start.astype("i4")
            return self.view(self.q), self.rolled(self.k), self.rolled(self.v)
        if self.form == "append":
            before = lengths - self.new
            options["kv_lengths"] = before
            for name, x in (("k_new", self.k), ("v_new", self.v)):
                rows = [y[:, n:n + self.new] for y, n in zip(x, before)]
                options[name] = np.stack(rows)
            return self.q, self.cache(self.k, before), self.cache(self.v, before)
        if self.form == "start":
            options["k_start"] = self.start.astype("i4")
        if self.chance(0.3) or (self.lengths != self.sk).any():
            options["kv_lengths"] = lengths
        self.layout = self.pick(*AXES)
        rows = self.q, self.cache(self.k, lengths), self.cache(self.v, lengths)
        return tuple(self.view(x).transpose(AXES[self.layout]) for x in rows)

    def packed(self):
        self.layout = "thd"
        for name, lengths in (("q", self.rows), ("k", self.lengths)):
            ends = np.concatenate([[0], np.cumsum(lengths)]).astype("i4")
            self.options["cu_seqlens_" + name] = ends
        lengths = self.rows, self.lengths, self.lengths
        return tuple(
            np.concatenate([y[:, :n].swapaxes(0, 1) for y, n in zip(x, ends)])
            for x, ends in zip((self.q, self.k, self.v), lengths)
        )

    def paged(self):
        page = self.pick(1, 3, 16, 64, 128)
        pages = -(-self.sk // page) + int(self.rng.integers(0, 3))
        places = self.rng.permutation(self.b * pages + 2)
        table = np.full((self.b, pages), -1, "i4")
        pools = [np.full((len(places), self.hk, page, x.shape[3]), np.nan, x.dtype)
                 for x in (self.k, self.v)]
        for n, length in enumerate(self.lengths):
            for first in range(0, int(length), page):
                place = table[n, first // page] = places[n * pages + first // page]
                rows = min(page, int(length) - first)
                for pool, x in zip(pools, (self.k, self.v)):
                    pool[place, :, :rows] = x[n, :, first:first + rows]
        self.options["block_table"] = table
        self.layout = self.pick("bhsd", "bshd")
        axes = AXES[self.layout]
        pools = [np.array(pool.transpose(axes), order="C") for pool in pools]
        return (self.view(self.q).transpose(axes), *pools)

    def rolled(self, x):
        cache = np.full_like(x, np.nan)
        for n, length in enumerate(self.lengths):
            rows = (self.start[n] + np.arange(length)) % max(self.sk, 1)
            cache[n][:, rows] = x[n, :, :length]
        return cache

    def unpacked(self, x, axis, fill):
        """Results of packed rows as dense ones."""
        dense = np.full((self.b, self.sq) + x.shape[1:], fill)
        ends = self.options["cu_seqlens_q"]
        for n, rows in enumerate(self.rows):
            dense[n, :rows] = x[ends[n]:ends[n + 1]]
        return np.moveaxis(dense, axis, 1)

    def run(self):
        operands = self.operands()
        options = dict(self.options, layout=self.layout)
        if self.within:
            operands = operands[:2] + (None,)
            options["v_dim"] = self.dv
        if TARGET == "cuda":
            operands, options = to_gpu(operands), to_gpu(options)
        results = attn.attention(*operands, **options)
        if self.form == "append":
            for name, cache, x in zip("kv", operands[1:], (self.k, self.v)):
                rows = to_host(cache).astype("f4")
                want = self.cache(x, self.lengths).astype("f4")
                assert np.array_equal(rows, want, equal_nan=True), "cache of " + name
        o, lse = (to_host(x).astype(float) for x in results)
        if self.form == "packed":
            o, lse = self.unpacked(o, 2, 0.0), self.unpacked(lse.T, 2, -np.inf)
            rows = self.live.shape[:3]
            inside = np.broadcast_to(
                np.arange(self.sq) < self.rows.reshape(-1, 1, 1), rows)
            self.o = np.where(inside[..., None], self.o, 0.0)
            self.lse = np.where(inside, self.lse, -np.inf)
        else:
            o = o.transpose(np.argsort(AXES[self.layout]))
        self.check(o, lse)

    def check(self, o, lse):
        # Weights are as wrong as scores are, which float32 rounds.
        mild = np.abs(np.where(self.live, self.s, 0.0))
        largest = max(self.largest, mild[mild < 1e9].max(initial=0))
        score = 6e-7 * largest
        cap = self.options.get("softcap", np.inf)
        if self.type == 2 and cap < 60:
            score += 6e-5 * cap  # The tangent beside bf16 (docs/Semantics.md).
        size = max(np.abs(self.v.astype(float)).max(initial=0), 1.0)
        size *= np.max(self.keep, initial=1.0)
        error = np.abs(o - self.o).max(initial=0)
        assert error <= (STEPS[self.type] + score) * size, "o is off by %.3g" % error
        assert np.array_equal(np.isfinite(lse), np.isfinite(self.lse)), "rows of no key"
        known = np.isfinite(self.lse)
        off = np.abs(lse[known] - self.lse[known]) / (1.0 + np.abs(self.lse[known]))
        assert off.max(initial=0) <= 1e-5 + score, "lse is off by %.3g" % off.max()


if TARGET.startswith("emulator"):
    run_on_emulator()
HIDDEN = "rng q k v s live o lse largest options captures keep".split()
sys.exit(random_cases.main(Case, HIDDEN))
