# RUN: %python %s 30
# RUN: %python %s 60 11 cpu
"""Random steps of scans on the emulator, a GPU or a CPU against the recurrence in
float64: rules, heads, channels, types, views, pools of states and those of the
sequences.
`scan_steps_random.py CASES SEED [cuda | cpu]` runs others.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
import random_cases
import scans_random
from device import to_gpu, to_host
from scan_reference import check, recurrence
from scans import softplus_gates
from scans_random import BOUNDS, TYPES

import attn
from attn import _scans

CHANNELS = ((16, 16), (24, 40), (64, 96), (128, 64), (250, 17))
ON_GPU, ON_CPU = (sys.argv[3:] == [name] for name in ("cuda", "cpu"))
FACTOR = """^bb0(%o: f32, %x: f32):
  %y = arith.mulf %o, %x : f32
  attn.yield %y : f32"""
STATE_BOUNDS = {"float32": 3e-5, "float16": 1e-3, "bfloat16": 8e-3}


class Step(scans_random.Case):
    def __init__(self, seed, number):
        super().__init__(seed, number)
        rng = self.rng
        while self.rule.get("whole"):
            self.name = list(scans_random.RULES)[rng.integers(len(scans_random.RULES))]
            self.rule = scans_random.RULES[self.name]
        self.dk, self.dv = CHANNELS[rng.choice(len(CHANNELS),
                                               p=(0.3, 0.3, 0.2, 0.15, 0.05))]
        self.t = 1 if rng.random() < 0.8 else int(rng.integers(0, 5))
        self.target = "emulator:" + str(rng.choice(["sm_80", "sm_90a"]))
        self.starts = True
        self.layout, self.packed = "bhsd", False
        self.pooled = bool(rng.random() < 0.6)
        self.state_type = TYPES[rng.integers(len(TYPES))]
        self.state_layout = str(rng.choice(["kv", "vk"]))
        self.maps = bool(rng.random() < 0.2)

    def turned(self, state):
        """The state as the pool has it, or the other way round."""
        if self.state_layout == "kv":
            return state
        return dict(state, S=state["S"].swapaxes(-1, -2))

    def regions(self, given):
        """Maps of gates, and the operands that they make of those given."""
        if "decay" not in given:
            return {}, given
        gates = given["decay"]
        gates[~np.isfinite(gates)] = -1e4
        rate = self.rng.uniform(-2, 0, self.heads).astype("f")
        bias = self.rng.standard_normal(
            (self.heads,) + gates.shape[3:]).astype("f")
        exact = dict(given, decay=softplus_gates(gates, rate, bias))
        return {"gate_map": ("softplus", rate, bias)}, exact

    def pools(self, state):
        """States in a pool where all others are NaN, as larger memory is."""
        count = self.b + 2 if self.pooled else self.b
        slots = self.rng.permutation(count)[: self.b].astype(
            "i") if self.pooled else np.arange(self.b)
        pools = {}
        for part, x in state.items():
            kind = self.state_type if part == "S" else np.dtype("f")
            wide = np.full((count,) + tuple(n + 1 for n in x.shape[1:]), np.nan, kind)
            inner = wide[(slice(None),) + tuple(slice(0, n) for n in x.shape[1:])]
            if self.rng.random() < 0.5:
                inner = np.ascontiguousarray(inner)
            inner[slots] = x.astype(kind)
            pools[part] = inner
        return pools, slots

    def run(self):
        _scans._host_target = None if ON_GPU or ON_CPU else self.target
        q, k, v, given, state = self.operands()
        pools, slots = self.pools(self.turned(state))
        state = {part: pool[slots].astype("f") for part, pool in pools.items()}
        state = self.turned(state)
        if self.pooled and self.rng.random() < 0.4:
            dead = int(self.rng.integers(self.b))
            pools["S"][slots[dead]] = np.nan
            slots = slots.copy()
            slots[dead] = -1
            for part in state:
                state[part][dead] = -np.inf if part == "m" else 0
        before = {part: pool.copy() for part, pool in pools.items()}
        regions, exact = self.regions(given) if self.maps else ({}, given)
        want, last = recurrence(q, k, v, state=state, **exact)
        last = self.turned(last)
        if self.maps:
            factor = self.rng.uniform(1, 2, (want.shape[1], self.dv)).astype("f")
            want = want * factor[:, None]
            regions["finalize"] = (FACTOR, factor)
        options = {n: x for n, x in given.items()
                   if not isinstance(x, (np.ndarray, tuple))}
        arrays = {n: x for n, x in given.items() if isinstance(x, np.ndarray)
                  and n != "bonus"}
        options.update({n: given[n] for n in ("bonus",) if n in given})
        options.pop("normalize", None)
        options["slots"] = slots if self.pooled else None
        options.update(regions)
        options["state_layout"] = self.state_layout
        pair = given.get("erase")
        if self.t == 1:
            one = lambda x: self.view(x)[:, :, 0]
            q, k, v = map(one, (q, k, v))
            options.update({n: one(x) for n, x in arrays.items()})
            if pair:
                options["erase"] = tuple(map(one, pair[:2])) + pair[2:]
            want = want[:, :, 0]
        else:
            q, k, v = map(self.view, (q, k, v))
            options.update({n: self.view(x) for n, x in arrays.items()})
            if pair:
                options["erase"] = tuple(map(self.view, pair[:2])) + pair[2:]
        if ON_GPU:
            there = to_gpu(pools)
            got = to_host(attn.scan_step(*to_gpu((q, k, v)), there, **to_gpu(options)))
            pools = to_host(there)
        else:
            got = attn.scan_step(q, k, v, pools, **options)
        check("o", got, want, BOUNDS[self.dtype.name])
        for part, pool in pools.items():
            bound = STATE_BOUNDS[pool.dtype.name]
            live = [i for i in range(self.b) if slots[i] >= 0]
            check(part, pool[slots[live]], last[part][live], bound)
            others = [i for i in range(len(pool)) if i not in slots]
            assert pool[others].tobytes() == before[part][others].tobytes(), (
                part + " of others"
            )


if __name__ == "__main__":
    sys.exit(random_cases.main(Step, hidden=("rng", "rule")))
