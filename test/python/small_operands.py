# RUN: %python %s 16
# RUN: %python %s 4 2 emulator:sm_80
"""Operands that are too small, between guards: a call is refused, or the same whatever
the guards hold. `small_operands.py CASES SEED [TARGET]` draws others.

Random calls are right ones; here an operand loses an element in some dimension, or all
but one, and is given twice, as a view of memory whose other elements differ.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import sys

import numpy as np

import attn
from attn import _call, _plans

TARGET = sys.argv[3] if len(sys.argv) > 3 else "host"
FORMS = ("dense", "start", "rolling", "append", "paged", "packed", "packed_paged",
         "packed_append")
POSITIONS = ("%b", "%h", "%i", "%j")
SCORE = """
^bb0(%%s: f32, %%b: i32, %%h: i32, %%i: i32, %%j: i32, %%c: tensor<%s>):
  %%m = arith.index_cast %s : i32 to index
  %%n = arith.index_cast %s : i32 to index
  %%e = tensor.extract %%c[%%m, %%n] : tensor<%s>
  %%x = arith.addf %%s, %%e : f32
  attn.yield %%x : f32
"""


def run_on_emulator():
    def run(call, inputs, outputs):
        call.compile(target=TARGET).run(inputs, outputs)

    _call.Call._run = run
    # Calls that are like one before them would run on the host.
    _plans.remember = lambda *arguments: None


def guarded(x, shape, which):
    """The first elements of x, `shape` of them, in memory that holds others around."""
    other = {"f": (np.nan, 1e4), "b": (True, False), "i": (3, 0)}[x.dtype.kind][which]
    whole = np.full([n + 2 for n in x.shape], other, x.dtype)
    place = tuple(slice(1, 1 + n) for n in shape)
    whole[place] = x[tuple(slice(0, n) for n in shape)]
    return whole[place]


class Case:
    def __init__(self, seed, number):
        self.rng = np.random.default_rng((seed, number))
        pick = lambda *choices: choices[self.rng.integers(len(choices))]
        chance = lambda p: self.rng.random() < p
        self.form = form = pick(*FORMS)
        b, hk, group = int(self.rng.integers(1, 4)), pick(1, 2), pick(1, 2)
        hq, sq, sk, d = hk * group, pick(1, 5, 17), pick(3, 16, 33), 16
        rows, lengths = np.full(b, sq), self.rng.integers(1, sk + 1, b)
        if form.startswith("packed"):
            rows = self.rng.integers(1, sq + 1, b)
        if form == "packed_append":
            rows = np.minimum(rows, lengths)
        start = np.zeros(b, int)
        if form in ("start", "rolling"):
            start = self.rng.integers(0, 20, b)
        self.options, self.named = {"causal": pick(None, "bottom_right")}, {}
        self.draw_rows(b, hq, hk, sq, sk, d, rows, lengths, start)
        keys = sk if form in ("dense", "start", "rolling", "append") else lengths.max()
        for name, share in (("bias", 0.3), ("mask", 0.3)):
            if chance(share):
                shape = pick(1, b), pick(1, hq), pick(1, rows.max()), keys
                x = self.rng.standard_normal(shape).astype("f4")
                self.named[name] = x if name == "bias" else x > -1
        if chance(0.3):
            self.named["alibi_slopes"] = self.rng.random((b, hq)).astype("f4")
        self.at = None
        if chance(0.7):
            self.at = tuple(self.rng.permutation(POSITIONS)[:2])
            sizes = {"%b": b, "%h": hq, "%i": rows.max(), "%j": keys + start.max()}
            shape = [sizes[x] for x in self.at]
            self.named["c"] = self.rng.standard_normal(shape).astype("f4")
            self.static = chance(0.3)

    def draw_rows(self, b, hq, hk, sq, sk, d, rows, lengths, start):
        form, named = self.form, self.named
        normal = lambda *shape: self.rng.standard_normal(shape).astype("f4")
        ends = lambda counts: np.concatenate([[0], np.cumsum(counts)]).astype("i4")
        append = min(2, lengths.min()) * (form == "append")
        before = lengths - (rows if form == "packed_append" else append)
        q, k, v = normal(b, hq, sq, d), normal(b, hk, sk, d), normal(b, hk, sk, d)
        if form.startswith("packed"):
            self.options["layout"] = "thd"
            named["cu_seqlens_q"], q = ends(rows), normal(rows.sum(), hq, d)
        if form == "packed":
            named["cu_seqlens_k"] = ends(lengths)
            k, v = (normal(lengths.sum(), hk, d) for _ in "kv")
        else:
            named["kv_lengths"] = before.astype("i4")
        if "paged" in form or form == "packed_append":
            count = -(-sk // 16) * b
            table = self.rng.permutation(count).reshape(b, -1)
            named["block_table"] = table.astype("i4")
            k, v = (normal(count, 16, hk, d) for _ in "kv")
            if form == "paged":
                k, v = k.swapaxes(1, 2), v.swapaxes(1, 2)
        if form == "append":
            named.update((n, normal(b, hk, append, d)) for n in ("k_new", "v_new"))
        if form == "packed_append":
            named.update((n, normal(rows.sum(), hk, d)) for n in ("k_new", "v_new"))
        if form in ("start", "rolling"):
            named["k_start"] = start.astype("i4")
            self.options["rolling"] = form == "rolling"
        self.operands = q, k, v

    def results(self, name, shape, which):
        """What a call writes where that operand has this shape; None: refused."""
        given = dict(self.named)
        if name is not None:
            given[name] = guarded(given[name], shape, which)
        options = dict(self.options)
        if "c" in given:
            sizes = given["c"].shape if self.static else "??"
            kind = "x".join(map(str, sizes)) + "xf32"
            options["score_mod"] = SCORE % ((kind,) + self.at + (kind,))
            options["captures"] = {"c": given.pop("c")}
        operands = [x.copy() for x in self.operands]
        try:
            o, lse = attn.attention(*operands, return_lse=True, **options, **given)
        except (ValueError, TypeError) as error:
            assert str(error).startswith("attn: expected"), error
            return None
        return o, lse, operands[1], operands[2]

    def run(self):
        """Tries some operands; returns how many calls were refused and taken."""
        counts, names = [0, 0], sorted(self.named)
        assert self.results(None, None, 0) is not None, "a right call is refused"
        for name in self.rng.choice(names, 4):
            shape = list(self.named[name].shape)
            axis = self.rng.integers(len(shape))
            if not shape[axis]:
                continue
            shape[axis] = int(self.rng.choice([shape[axis] - 1, shape[axis] - 1, 1]))
            first, second = (self.results(name, shape, which) for which in (0, 1))
            what = "%s of %s" % (name, shape)
            assert (first is None) == (second is None), what + " is refused once"
            counts[first is not None] += 1
            for x, y in zip(first or (), second or ()):
                assert np.array_equal(x, y, equal_nan=True), what + " is read beyond"
        return counts


def main():
    cases = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    counts, failed = np.zeros(2, int), 0
    for number in range(cases):
        case = Case(seed, number)
        try:
            counts += case.run()
        except AssertionError as error:
            failed += 1
            print("case %d of seed %d, %s: %s" % (number, seed, case.form, error))
    print("%d refused, %d taken, %d of %d cases fail" % (*counts, failed, cases))
    return failed != 0 or not counts[0]


if TARGET.startswith("emulator"):
    run_on_emulator()
sys.exit(main())
