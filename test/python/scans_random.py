# RUN: %python %s 100
"""Random scans against the recurrence in float64: rules, sizes, heads, layouts,
types, views, packed sequences, states. `scans_random.py CASES SEED` runs others.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
import random_cases
from scan_reference import check, recurrence

import attn
from scans import RULES

BOUNDS = {"float32": 3e-5, "float16": 3e-3, "bfloat16": 2.5e-2}
TYPES = [np.dtype("f"), np.dtype("e")]
try:
    import ml_dtypes

    TYPES.append(np.dtype(ml_dtypes.bfloat16))
except ImportError:
    pass
# Kernels depend on these; few pairs keep the number of compilations down.
CHANNELS = ((16, 16), (24, 40))
ORDERS = {"bhsd": (0, 1, 2, 3), "bshd": (0, 2, 1, 3), "sbhd": (2, 0, 1, 3)}


class Case:
    def __init__(self, seed, number):
        self.rng = np.random.default_rng([seed, number])
        rng = self.rng
        self.name = list(RULES)[rng.integers(len(RULES))]
        self.rule = RULES[self.name]
        self.dtype = TYPES[
            rng.choice(
                len(TYPES), p=[0.6] + [0.4 / (len(TYPES) - 1)] * (len(TYPES) - 1)
            )
        ]
        self.dk, self.dv = CHANNELS[rng.integers(len(CHANNELS))]
        heads = int(rng.choice([1, 2, 4]))
        other = int(rng.choice([n for n in (1, 2, 4) if heads % n == 0]))
        self.hk, self.hv = (heads, other) if rng.random() < 0.5 else (other, heads)
        self.hq = int(rng.choice([n for n in (1, 2, 4, 8) if heads % n == 0
                                  or n % heads == 0]))
        self.heads, self.b = heads, int(rng.integers(1, 4))
        self.t = int(rng.choice([0, 1, 2, 15, 16, 17, 33, 64, 65, 100, 130]))
        self.layout = str(rng.choice(list(ORDERS)))
        self.packed = rng.random() < 0.25 and not self.rule.get("whole")
        self.starts = rng.random() < 0.5

    def numbers(self, shape, low=None, high=None):
        rng = self.rng
        x = rng.standard_normal(shape) if low is None else rng.uniform(low, high, shape)
        return x

    def operands(self):
        rng, b, t = self.rng, self.b, self.t
        positive = bool(self.rule.get("normalize"))
        q = self.numbers((b, self.hq, t, self.dk))
        k = self.numbers((b, self.hk, t, self.dk))
        v = self.numbers((b, self.hv, t, self.dv))
        k /= np.linalg.norm(k, axis=-1, keepdims=True) + 1e-9
        if positive:
            q, k = abs(q) + 0.01, abs(k) + 0.01
        q, k, v = (x.astype(self.dtype) for x in (q, k, v))
        lead, given = (b, self.heads, t), dict(self.rule)
        if "decay" in given:
            width = {"head": (), "key": (self.dk,), "value": (self.dv,)}[given["decay"]]
            g = -rng.exponential(rng.choice([0.001, 0.3, 10]), lead + width)
            g[rng.random(g.shape) < 0.05] = rng.choice([0, -np.inf, -1e4])
            given["decay"] = g.astype("f")
        for name, low, high in (("beta", 0, 1), ("weight", 0, 2),
                                ("log_weight", -9, 9)):
            if name in given:
                given[name] = self.numbers(lead, low, high).astype("f")
        if "erase" in given:
            pair = tuple((0.2 * self.numbers(lead + (self.dk,))).astype("f")
                         for _ in range(2))
            given["erase"] = pair + (("before",) if given["erase"] == "before" else ())
        if "bonus" in given:
            given["bonus"] = self.numbers((self.heads, self.dk)).astype("f")
        state = None
        if self.starts:
            state = {"S": self.numbers((b, self.heads, self.dk, self.dv)).astype("f")}
            if positive:
                state["z"] = self.numbers((b, self.heads, self.dk), 1, 2).astype("f")
            if "log_weight" in given:
                state["m"] = self.numbers((b, self.heads), -3, 3).astype("f")
        return q, k, v, given, state

    def view(self, x):
        """The same in the layout, or as a part of larger memory that is NaN."""
        order = ORDERS[self.layout][: x.ndim] if x.ndim == 4 else tuple(
            i for i in ORDERS[self.layout] if i < 3
        )
        x = x.transpose(order)
        if self.rng.random() < 0.5:
            return np.ascontiguousarray(x)
        wide = np.full(tuple(n + 3 for n in x.shape), np.nan, x.dtype)
        inner = wide[tuple(slice(1, 1 + n) for n in x.shape)]
        inner[...] = x
        return inner

    def run(self):
        q, k, v, given, state = self.operands()
        want, last = recurrence(q, k, v, state=state, **given)
        if self.packed:
            return self.run_packed(q, k, v, given, state, want, last)
        ours = dict(given)
        if ours.pop("whole", False):
            ours["causal"] = False
        for name in ("decay", "beta", "weight", "log_weight"):
            if name in ours:
                ours[name] = self.view(ours[name])
        if "erase" in ours:
            ours["erase"] = tuple(self.view(x)
                                  for x in ours["erase"][:2]) + ours["erase"][2:]
        got, got_last = attn.scan(
            *(self.view(x) for x in (q, k, v)),
            initial_state=state,
            return_state=True,
            layout=self.layout,
            **ours
        )
        self.compare(got, want.transpose(ORDERS[self.layout]), got_last, last)

    def run_packed(self, q, k, v, given, state, want, last):
        """Batches as sequences one after the other."""
        def pack(x):
            x = np.moveaxis(x, 0, 1)
            return np.ascontiguousarray(x.reshape((x.shape[0], -1) + x.shape[3:]))[None]

        ours = dict(given)
        for name in ("decay", "beta", "weight", "log_weight"):
            if name in ours:
                ours[name] = pack(ours[name])
        if "erase" in ours:
            ours["erase"] = tuple(map(pack, ours["erase"][:2])) + ours["erase"][2:]
        cu = np.arange(self.b + 1, dtype="i") * self.t
        got, got_last = attn.scan(
            *map(pack, (q, k, v)), cu_seqlens=cu, initial_state=state,
            return_state=True, **ours
        )
        self.compare(got, pack(want), got_last, last)

    def compare(self, got, want, got_last, last):
        bound = BOUNDS[self.dtype.name]
        check("o", got, want, bound)
        assert sorted(got_last) == sorted(last)
        for part in last:
            check(part, got_last[part], last[part], 3e-5)


if __name__ == "__main__":
    sys.exit(random_cases.main(Case, hidden=("rng", "rule")))
