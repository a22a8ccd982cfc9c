# RUN: %python %s
"""attn.attention_vjp against gradients in float64 that share nothing with the
compiler, at random shapes and options; what is dead holds NaN.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
from tables import MONOIDS, TYPES

import attn

# Of the largest entry; 16-bit weights and their derivatives are rounded before the
# products, as are outputs.
BOUNDS = {"f32": 3e-5, "f16": 4e-3, "bf16": 3e-2}


class Reference:
    """One call in float64. A sink is a key before the others, without a value."""

    def __init__(self, q, k, v, monoid="softmax", live=None, scale=None, softcap=0.0,
                 bias=None, slopes=None, distance=None, sinks=None):
        self.monoid, self.softcap = monoid, softcap
        b, hq, sq, d = q.shape
        hk, sk = k.shape[1:3]
        self.group = hq // hk
        self.scale = d**-0.5 if scale is None else scale
        self.live = np.broadcast_to(True if live is None else live, (b, hq, sq, sk))
        rows, keys = self.live.any(-1)[..., None], self.live.any((1, 2))[:, None, :,
                                                                         None]
        self.q = np.where(rows, q, 0).astype("f8")
        self.k, self.v = (
            np.where(keys, x, 0).astype("f8").repeat(self.group, 1) for x in (k, v)
        )
        self.dots = self.q @ self.k.swapaxes(-1, -2)
        x = self.dots * self.scale
        self.tanh = np.tanh(x / softcap) if softcap else None
        s = softcap * self.tanh if softcap else x
        if bias is not None:
            s = s + np.where(self.live, bias, 0).astype("f8")
        self.slopes, self.distance = slopes, distance
        if slopes is not None:
            s = s - slopes[:, None, None] * distance
        s = np.where(self.live, s, -np.inf)
        self.has_sinks = sinks is not None
        if self.has_sinks:
            sink = np.broadcast_to(sinks[:, None, None], (b, hq, sq, 1))
            s = np.concatenate([sink, s], -1)
            self.live = np.concatenate([np.isfinite(sink), self.live], -1)
            zero = np.zeros_like(self.v[..., :1, :])
            self.v = np.concatenate([zero, self.v], -2)
        self.s, self.bias = s, bias
        self._run()

    def _run(self):
        s, live = self.s, self.live
        if self.monoid.startswith("softmax") or self.monoid == "logsumexp":
            m = s.max(-1, initial=-np.inf, keepdims=True)
            e = np.where(live, np.exp(s - np.where(np.isfinite(m), m, 0)), 0)
            total = e.sum(-1, keepdims=True)
            with np.errstate(all="ignore"):
                self.p = np.where(total > 0, e / total, 0)
                lse = m + np.log(total)
                logs = np.where(live, s - lse, 0)
            self.logs = logs
            self.outputs = {"o": self.p @ self.v, "lse": lse[..., 0],
                            "entropy": -(self.p * logs).sum(-1), "max": m[..., 0]}
            return
        finite = np.where(live, s, 0)
        if self.monoid == "sigmoid_sum":
            w = 1 / (1 + np.exp(-finite))
            self.slope = w * (1 - w)
        elif self.monoid == "relu_sum":
            w, self.slope = np.maximum(finite, 0), (finite > 0) * 1.0
        else:
            w, self.slope = np.maximum(finite, 0) ** 2, 2 * np.maximum(finite, 0)
        self.p, self.slope = np.where(live, w, 0), np.where(live, self.slope, 0)
        self.outputs = {"o": self.p @ self.v}

    def gradients(self, cotangents):
        b, hq, sq, _ = self.q.shape
        zero = np.zeros((b, hq, sq))
        do = cotangents.get("o")
        do = np.zeros(self.outputs["o"].shape) if do is None else do.astype("f8")
        do = np.where(self.live.any(-1)[..., None], do, 0)
        dp = do @ self.v.swapaxes(-1, -2)
        rows = self.live.any(-1)
        get = lambda name: np.where(rows, cotangents.get(name, zero),
                                    0)[..., None].astype("f8")
        if hasattr(self, "slope"):
            ds = self.slope * dp
        else:
            ds = self.p * (dp - (self.p * dp).sum(-1, keepdims=True))
            ds = ds + self.p * get("lse")
            entropy = self.outputs["entropy"][..., None]
            ds = ds - self.p * (self.logs + entropy) * get("entropy")
            if "max" in cotangents and self.s.shape[-1]:
                first = self.s.argmax(-1)[..., None]
                ds = ds + (np.arange(self.s.shape[-1]) == first) * get("max")
        ds = np.where(self.live, ds, 0)
        dv = self.p.swapaxes(-1, -2) @ do
        found = {}
        if self.has_sinks:
            found["sinks"] = ds[..., 0].sum((0, 2))
            ds, dv = ds[..., 1:], dv[..., 1:, :]
        if self.bias is not None:
            axes = tuple(i for i in range(4) if self.bias.shape[i] == 1)
            found["bias"] = ds.sum(axes, keepdims=True)
        if self.slopes is not None:
            found["alibi_slopes"] = -(ds * self.distance).sum((0, 2, 3))
        dx = ds * (1 - self.tanh**2) if self.softcap else ds
        found["scale"] = (dx * self.dots).sum()
        dx = dx * self.scale
        found["q"] = dx @ self.k
        of_keys = lambda x: x.reshape(b, -1, self.group, *x.shape[2:]).sum(2)
        found["k"] = of_keys(dx.swapaxes(-1, -2) @ self.q)
        found["v"] = of_keys(dv)
        return found


def draw(rng, element):
    """The operands and options of a call, and its reference."""
    dtype = TYPES[element]
    b, hk, group = (int(x) for x in (rng.integers(1, 3), rng.integers(1, 3),
                                     rng.choice([1, 1, 2, 3])))
    hq, sq, sk = hk * group, int(rng.integers(1, 150)), int(rng.integers(1, 150))
    d = int(rng.choice([16, 40, 64]))
    dv = d if rng.random() < 0.7 else int(rng.choice([24, 64]))
    monoid = str(rng.choice(list(MONOIDS)[:2] * 2 + list(MONOIDS)))
    layout = str(rng.choice(["bhsd", "bshd", "sbhd"]))
    q, k, v = (rng.standard_normal((b, h, s, c)) for h, s, c in
               ((hq, sq, d), (hk, sk, d), (hk, sk, dv)))
    q, k, v = (x.astype(dtype) for x in (q, k, v))
    options, given = {"monoid": monoid, "layout": layout}, {"monoid": monoid}
    i, j = np.arange(sq)[:, None], np.arange(sk)
    live = np.full((b, 1, sq, sk), True)
    lengths = np.full(b, sk)
    if rng.random() < 0.3:
        lengths = rng.integers(0, sk + 1, b)
        options["kv_lengths"] = lengths.astype("i4")
        live = live & (j < lengths[:, None, None, None])
    now = i + (lengths - sq)[:, None, None, None]
    causal = rng.choice([None, "top_left", "bottom_right"])
    if causal:
        options["causal"] = str(causal)
        now = np.broadcast_to(i, (b, 1, sq, 1)) if causal == "top_left" else now
        live = live & (j <= now)
    if rng.random() < 0.3:
        left, right = int(rng.integers(-1, 40)), int(rng.integers(-1, 40))
        options["window"] = left, right
        live = live & ((left < 0) | (now
                                     - j <= left)) & ((right < 0) | (j - now <= right))
    if rng.random() < 0.25:
        mask = rng.random((b, 1, sq, sk) if rng.random() < 0.5
                          else (1, hq, sq, sk)) < 0.7
        options["mask"] = mask
        live = live & mask
    bias = None
    if rng.random() < 0.4:
        shape = [s if rng.random() < 0.6 else 1 for s in (b, hq, sq, sk)]
        bias = rng.standard_normal(shape).astype(dtype if rng.random() < 0.5 else "f4")
        if rng.random() < 0.3:
            bias[rng.random(shape) < 0.2] = -np.inf
            live = live & (bias != -np.inf)
        options["bias"] = bias
    given["bias"] = bias
    if rng.random() < 0.2:
        options["alibi_slopes"] = given["slopes"] = rng.random(hq).astype("f4")
        given["distance"] = np.abs(i + (lengths - sq)[:, None, None, None] - j)
    if rng.random() < 0.25:
        options["softcap"] = given["softcap"] = float(rng.uniform(1, 20))
    if rng.random() < 0.3:
        options["scale"] = given["scale"] = float(np.float32(rng.uniform(0.05, 0.5)))
        options["inputs"] = ["q", "k", "v", "scale"]
        options["inputs"] += [x for x in ("bias", "alibi_slopes") if x in options]
    if monoid.startswith("softmax") and rng.random() < 0.25:
        options["sinks"] = given["sinks"] = rng.standard_normal(hq).astype("f4")
        if "inputs" in options:
            options["inputs"].append("sinks")
    live = np.broadcast_to(live, (b, hq, sq, sk))
    # What is dead for all is not read.
    dead = ~live.any((1, 2))
    for x in (k, v):
        x[np.broadcast_to(dead[:, None, :, None], x.shape)] = np.nan
    if monoid == "logsumexp":
        v = None
        if "inputs" in options:
            options["inputs"].remove("v")
    reference = Reference(q, k, np.zeros_like(k) if v is None else v, live=live,
                          **given)
    return q, k, v, options, reference, (b, hq, sq, sk)


AXES = {"bhsd": (0, 1, 2, 3), "bshd": (0, 2, 1, 3), "sbhd": (2, 0, 1, 3)}


def laid_out(x, layout):
    """An array [b, h, s, d] in the order of a layout."""
    return None if x is None else np.ascontiguousarray(x.transpose(AXES[layout]))


def check(rng, element, case, target):
    q, k, v, options, reference, sizes = draw(rng, element)
    layout, names = options["layout"], MONOIDS[options["monoid"]]
    if target:
        options["target"] = target
    more = names[1:]
    if "lse" in more and rng.random() < 0.6:
        options["return_lse"] = True
    aux = tuple(x for x in more if x != "lse" and rng.random() < 0.8)
    if aux:
        options["return_aux"] = aux
    operands = [laid_out(x, layout) for x in (q, k, v)]
    what = (case, element, sizes, q.shape[-1],
            {n: getattr(x, "shape", x) for n, x in options.items()})
    from attn import _gradients

    plan = _gradients.Plan(*operands, **options)
    results, state = plan.forward()
    cotangents = {}
    dead_rows = ~reference.live.any(-1)
    for name, got in zip(plan.names, results):
        want = reference.outputs[name]
        axes = AXES[layout] if want.ndim == 4 else range(3)
        got = got.astype("f8").transpose(np.argsort(axes) if want.ndim == 4 else axes)
        finite = np.isfinite(want)
        assert (got[~finite] == want[~finite]).all(), (what, name)
        error = np.abs(got[finite] - want[finite]).max(initial=0)
        error /= np.abs(want[finite]).max(initial=1)
        assert error <= BOUNDS[element], (what, name, error)
        if rng.random() < 0.8:
            dtype = TYPES[element] if want.ndim == 4 else "f4"
            cotangents[name] = rng.standard_normal(want.shape).astype(dtype)
            if rng.random() < 0.5:
                cotangents[name][dead_rows] = np.nan
    passed = {n: laid_out(x, layout) if x.ndim == 4 else x
              for n, x in cotangents.items()}
    found = plan.backward(results, state, passed)
    again = plan.backward(results, state, passed)
    wants = reference.gradients(cotangents)
    for name, got in found.items():
        assert got.tobytes() == again[name].tobytes(), (what, name, "bits")
        want = wants[name]
        got = np.asarray(got).astype("f8")
        if name in "qkv":
            got = got.transpose(np.argsort(AXES[layout]))
        assert got.shape == want.shape, (what, name, got.shape, want.shape)
        error = np.abs(got - want).max(initial=0)
        bound = BOUNDS[element] * np.abs(want).max(initial=1)
        if name in ("sinks", "alibi_slopes", "scale", "bias"):  # sums of many
            bound *= 4 if want.size and want.size >= sizes[2] * sizes[3] else 30
        assert error <= bound, (what, name, error, bound, np.abs(want).max(initial=0))


def main(cases=30, seed=1, target=None, elements="f32 f32 bf16 f16"):
    rng = np.random.default_rng(int(seed))
    for case in range(int(cases)):
        check(np.random.default_rng([int(seed), case]),
              str(rng.choice(elements.split())), case, target)
    print("%s cases" % cases)


if __name__ == "__main__":
    main(*sys.argv[1:])
